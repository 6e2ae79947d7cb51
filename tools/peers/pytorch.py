#!/usr/bin/env python3
"""The suite's models in PyTorch. docs/peers.md says what each setting is and why."""

import bench

bench.leave_path()


class Trainer:
    """One model with its optimizer. The data set is resident on the device, as bytes, or comes from a
    DataLoader."""

    granularity = 1

    def __init__(self, inputs, mode, precision, threads, device):
        import torch
        self.torch, self.inputs, self.mode, self.precision, self.device = torch, inputs, mode, precision, device
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.benchmark = mode != "default"
        torch.manual_seed(1)
        self.cnn = inputs.model == "cifar10_cnn"
        self.channels_last = self.cnn and mode != "default"
        self.graph = None
        self.captures = device == "cuda" and mode == ""
        self.samples = torch.from_numpy(inputs.samples).to(device)
        self.labels = torch.from_numpy(inputs.labels).long().to(device)
        self.order = torch.from_numpy(inputs.order.astype("int64")).to(device).view(-1, inputs.batch)
        self.step = torch.zeros(1, dtype=torch.int64, device=device) if self.captures else 0
        self.total = torch.zeros((), device=device)
        self.network = self.make_network().to(device)
        if self.channels_last:
            self.network = self.network.to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-3, eps=1e-7,
                                          capturable=self.captures, fused=mode != "default")
        self.reset()
        self.forward = self.loss_of
        if mode == "compile":
            self.forward = torch.compile(self.loss_of,
                                         mode="reduce-overhead" if device == "cuda" else "default")
        self.batches = self.loaded_batches() if mode == "dataloader" else self.resident_batches()
        if self.captures:
            self.capture()
        self.label = ";".join(
            ["input=" + ("dataloader" if mode == "dataloader" else "resident"),
             "layout=" + ("channels_last" if self.channels_last else "contiguous")]
            + (["launch=graph"] if self.captures else []))

    def make_network(self):
        """Layers under the suite's names, as the published scripts have them."""
        from torch import nn
        layers, weights = {}, self.inputs.weights
        for number, name in enumerate(self.inputs.layers("conv"), start=1):
            _, _, channels, out = weights[name + ".w"].shape
            layers[name] = nn.Conv2d(channels, out, 3, padding=1)
            if number in (2, 4):
                layers[f"pool{number // 2}"] = nn.MaxPool2d(2)
        layers["flatten"] = nn.Flatten()
        if self.cnn:
            layers["dropout1"] = nn.Dropout(0.3)
        *hidden, last = self.inputs.layers("dense")
        for number, name in enumerate(hidden, start=1):
            layers[name] = nn.Linear(*weights[name + ".w"].shape)
            layers[f"relu{number}"] = nn.ReLU()
            if not self.cnn:
                layers[f"dropout{number}"] = nn.Dropout(0.2)
        layers[last] = nn.Linear(*weights[last + ".w"].shape)
        network = nn.Sequential()
        for name, layer in layers.items():
            network.add_module(name, layer)
        return network

    def state(self):
        """The suite's initial weights in PyTorch's forms: (out, in, height, width) and (out, in), and
        the first dense layer's inputs by channel first."""
        state = {}
        for name, value in self.inputs.weights.items():
            layer, part = name.split(".")
            if part == "w" and value.ndim == 4:
                value = value.transpose(3, 2, 0, 1)
            elif part == "w":
                if self.cnn and layer == "dense1":
                    channels = self.inputs.weights["conv6.bias"].size
                    value = value.reshape(-1, channels, value.shape[1]).swapaxes(0, 1).reshape(value.shape)
                value = value.T
            state[f"{layer}.{'weight' if part == 'w' else 'bias'}"] = self.torch.from_numpy(value.copy())
        return state

    def reset(self):
        """Initial weights and moments, in place: a captured graph has their addresses."""
        self.network.load_state_dict(self.state())
        for state in self.optimizer.state.values():
            for value in state.values():
                value.zero_()
        self.step *= 0

    def batch(self, indices):
        """Pictures (batch, channels, height, width) in 0 .. 1 and labels."""
        pictures = self.samples[indices].permute(0, 3, 1, 2)
        if not self.channels_last:
            pictures = pictures.contiguous()
        return pictures.float().div_(255), self.labels[indices]

    def resident_batches(self):
        while True:
            row = self.step % len(self.order)
            yield self.batch(self.order.index_select(0, row)[0] if self.captures else self.order[row])

    def loaded_batches(self):
        """As users load them: pictures as floats from the host's memory, by the suite's order."""
        data = self.torch.utils.data
        pictures = self.samples.cpu().permute(0, 3, 1, 2).contiguous().float().div_(255)
        loader = data.DataLoader(data.TensorDataset(pictures, self.labels.cpu()), self.inputs.batch,
                                 sampler=self.order.flatten().tolist(), pin_memory=self.device == "cuda")
        while True:
            for pictures, labels in loader:
                if self.channels_last:
                    pictures = pictures.to(memory_format=self.torch.channels_last)
                yield (pictures.to(self.device, non_blocking=True), labels.to(self.device, non_blocking=True))

    def loss_of(self, pictures, labels):
        with self.torch.autocast(self.device, self.torch.bfloat16, enabled=self.precision == "bf16",
                                 cache_enabled=not self.captures):
            scores = self.network(pictures)
        return self.torch.nn.functional.cross_entropy(scores.float(), labels)

    def evaluate(self, count):
        self.network.eval()
        with self.torch.no_grad():
            loss = self.loss_of(*self.batch(self.torch.arange(count, device=self.device))).item()
        self.network.train()
        return loss

    def train(self, steps):
        """Mean loss of the next steps."""
        self.total.zero_()
        for _ in range(steps):
            if self.graph:
                self.graph.replay()
            else:
                self.train_on(*next(self.batches))
        return self.total.item() / steps

    def train_on(self, pictures, labels):
        loss = self.forward(pictures, labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.total += loss.detach()
        self.step += 1

    def capture(self):
        """Makes a CUDA graph of a whole step, which takes its batch by the step's number on the device.
        As in PyTorch's notes, "Whole-network capture"."""
        cuda = self.torch.cuda
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            for _ in range(3):
                self.train_on(*next(self.batches))
        cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            self.train_on(*next(self.batches))
        self.graph = graph
        self.reset()


class Peer(bench.Peer):
    script = "pytorch"
    title = "PyTorch"

    def modes(self, _model, precision):
        if precision == "bf16" or (precision == "fp32" and self.device == "cuda"):
            return [bench.Mode()]
        return [bench.Mode(), bench.Mode("default"), bench.Mode("dataloader"),
                bench.Mode("compile", least_tier="full")]

    def versions(self, threads):
        import re
        import torch
        if self.device == "cuda" and not torch.cuda.is_available():
            raise self.absent()
        onednn = re.search(r"(?:MKL-DNN|oneDNN) v([\d.]+)", torch.__config__.show())
        facts = {"pytorch": torch.__version__,
                 "pytorch_isa": torch.backends.cpu.get_cpu_capability(),
                 "pytorch_onednn": onednn.group(1) if onednn else "none",
                 "pytorch_threads": str(threads)}
        if self.device == "cuda":
            facts |= {"pytorch_device": torch.cuda.get_device_name(), "pytorch_cuda": torch.version.cuda,
                      "pytorch_cudnn": str(torch.backends.cudnn.version())}
        return facts

    def instructions(self):
        if self.device == "cuda":
            return {}
        return bench.onednn_convolution("import torch; torch.nn.Conv2d(16, 16, 3)(torch.zeros(8, 16, 16, 16))")

    def trainer(self, inputs, mode, precision, threads):
        return Trainer(inputs, mode, precision, threads, self.device)


if __name__ == "__main__":
    bench.main(Peer())

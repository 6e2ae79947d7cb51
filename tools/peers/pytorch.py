#!/usr/bin/env python3
"""The suite's models in PyTorch. docs/peers.md says what each setting is and why."""

import bench

bench.leave_path()


class Trainer:
    """One model with its optimizer; the data set is resident, as bytes."""

    granularity = 1

    def __init__(self, inputs, mode, precision, threads):
        import torch
        self.torch, self.inputs, self.mode, self.precision = torch, inputs, mode, precision
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        self.cnn = inputs.model == "cifar10_cnn"
        self.channels_last = self.cnn and mode != "default"
        self.samples = torch.from_numpy(inputs.samples)
        self.labels = torch.from_numpy(inputs.labels).long()
        self.order = torch.from_numpy(inputs.order.astype("int64"))
        self.network = self.make_network()
        if self.channels_last:
            self.network = self.network.to(memory_format=torch.channels_last)
        self.reset()
        self.forward = torch.compile(self.loss_of) if mode == "compile" else self.loss_of
        self.label = "input=resident;layout=" + ("channels_last" if self.channels_last else "contiguous")

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
        self.network.load_state_dict(self.state())
        plain = self.mode == "default"
        self.optimizer = self.torch.optim.Adam(self.network.parameters(), lr=1e-3, eps=1e-7,
                                               **({} if plain else {"fused": True}))
        self.step = 0

    def batch(self, indices):
        """Pictures (batch, channels, height, width) in 0 .. 1 and labels."""
        pictures = self.samples[indices].permute(0, 3, 1, 2)
        if not self.channels_last:
            pictures = pictures.contiguous()
        return pictures.float().div_(255), self.labels[indices]

    def loss_of(self, pictures, labels):
        with self.torch.autocast("cpu", self.torch.bfloat16, enabled=self.precision == "bf16"):
            scores = self.network(pictures)
        return self.torch.nn.functional.cross_entropy(scores.float(), labels)

    def evaluate(self, count):
        self.network.eval()
        with self.torch.no_grad():
            loss = self.loss_of(*self.batch(self.torch.arange(count))).item()
        self.network.train()
        return loss

    def train(self, steps):
        """Mean loss of the next steps."""
        total, per_epoch, size = self.torch.zeros(()), self.inputs.steps_per_epoch, self.inputs.batch
        for _ in range(steps):
            first = self.step % per_epoch * size
            loss = self.forward(*self.batch(self.order[first:first + size]))
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
            self.step += 1
        return total.item() / steps


class Peer:
    name = script = "pytorch"
    title = "PyTorch"
    # Without such instructions, bf16 convolutions take seconds.
    precisions = ("fp32", "bf16") if bench.cpu_has("avx512_bf16", "amx_bf16") else ("fp32",)

    @staticmethod
    def modes(_model, precision):
        if precision != "fp32":
            return [bench.Mode()]
        return [bench.Mode(), bench.Mode("default"), bench.Mode("compile", least_tier="full")]

    @staticmethod
    def versions(threads):
        import re
        import torch
        onednn = re.search(r"(?:MKL-DNN|oneDNN) v([\d.]+)", torch.__config__.show())
        return {"pytorch": torch.__version__,
                "pytorch_isa": torch.backends.cpu.get_cpu_capability(),
                "pytorch_onednn": onednn.group(1) if onednn else "none",
                "pytorch_threads": str(threads)}

    @staticmethod
    def trainer(inputs, mode, precision, threads):
        return Trainer(inputs, mode, precision, threads)


if __name__ == "__main__":
    bench.main(Peer)

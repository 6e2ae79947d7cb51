#!/usr/bin/env python3
"""The suite's models in Keras on TensorFlow. docs/peers.md says what each setting is and why."""

import bench

bench.leave_path()

STEPS_PER_EXECUTION = 50


class Trainer:
    """One model, trained by fit from NumPy arrays, as the published scripts do."""

    def __init__(self, inputs, mode, precision):
        import keras
        import numpy as np
        import tensorflow
        self.keras, self.inputs = keras, inputs
        # A call of fit costs some 50 ms: many steps share it, as in an epoch.
        self.granularity = STEPS_PER_EXECUTION if inputs.model == "cifar10_cnn" else 500
        self.pictures = inputs.samples.astype(np.float32) / 255
        self.labels = inputs.labels.astype(np.int32)
        keras.utils.set_random_seed(1)
        tensorflow.config.experimental.enable_tensor_float_32_execution(precision == "tf32")
        keras.config.set_dtype_policy("mixed_bfloat16" if precision == "bf16" else "float32")
        self.network = self.make_network()
        self.compile_options = {"published": {}, "jit": {"jit_compile": True},
                                "": {"steps_per_execution": STEPS_PER_EXECUTION}}[mode]
        self.label = f"input=fit;steps_per_execution={1 if mode else STEPS_PER_EXECUTION}"
        self.reset()

    def make_network(self):
        layers = self.keras.layers
        network = self.keras.Sequential([self.keras.Input(self.inputs.samples.shape[1:])])
        for number, name in enumerate(self.inputs.layers("conv"), start=1):
            out = self.inputs.weights[name + ".bias"].size
            network.add(layers.Conv2D(out, 3, padding="same", name=name))
            if number in (2, 4):
                network.add(layers.MaxPooling2D())
        network.add(layers.Flatten())
        cnn = self.inputs.model == "cifar10_cnn"
        if cnn:
            network.add(layers.Dropout(0.3))
        *hidden, last = self.inputs.layers("dense")
        for name in hidden:
            network.add(layers.Dense(self.inputs.weights[name + ".bias"].size, "relu", name=name))
            if not cnn:
                network.add(layers.Dropout(0.2))
        network.add(layers.Dense(10, name=last, dtype="float32"))
        return network

    def reset(self):
        """Initial weights and a new optimizer; Keras compiles its functions at the next fit."""
        names = [f"{layer}.{part}" for kind in ("conv", "dense") for layer in self.inputs.layers(kind)
                 for part in ("w", "bias")]
        self.network.set_weights([self.inputs.weights[name] for name in names])
        if getattr(self, "optimizer", None) is None:
            self.optimizer = self.keras.optimizers.Adam(1e-3, epsilon=1e-7)
            self.network.compile(
                optimizer=self.optimizer,
                loss=self.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                metrics=["accuracy"], **self.compile_options)
            return
        for variable in self.optimizer.variables:  # Compiling again would trace again.
            if variable.path.split("/")[-1] != "learning_rate":
                variable.assign(variable * 0)

    def evaluate(self, count):
        scores = self.network(self.pictures[:count], training=False)
        loss = self.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return float(loss(self.labels[:count], scores))

    def train(self, steps):
        """Mean loss of so many steps. An epoch of fit ends with the data set."""
        total, done = 0.0, 0
        while done < steps:
            taken = min(steps - done, self.inputs.steps_per_epoch)
            count = taken * self.inputs.batch
            history = self.network.fit(self.pictures[:count], self.labels[:count],
                                       batch_size=self.inputs.batch, epochs=1, verbose=0)
            total += taken * history.history["loss"][0]
            done += taken
        return total / steps


class Peer(bench.Peer):
    script = "keras"
    title = "Keras"
    best = bench.Mode(environment=(("TF_ENABLE_ONEDNN_OPTS", "1"),))

    def modes(self, _model, precision):
        if precision == "bf16" or (precision == "fp32" and self.device == "cuda"):
            return [self.best]
        return [self.best, bench.Mode("published"), bench.Mode("jit", least_tier="full")]

    def versions(self, threads):
        import os
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        os.environ["KERAS_BACKEND"] = "tensorflow"
        import keras
        import tensorflow as tf
        gpus = tf.config.list_physical_devices("GPU")
        if self.device == "cpu":
            tf.config.set_visible_devices([], "GPU")
        elif not gpus:
            raise self.absent()
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        chosen = os.environ.get("TF_ENABLE_ONEDNN_OPTS", "TensorFlow's choice")
        facts = {"keras": keras.__version__, "tensorflow": tf.__version__,
                 "tensorflow_onednn": chosen, "keras_threads": str(threads)}
        if self.device == "cuda":
            facts["keras_device"] = tf.config.experimental.get_device_details(gpus[0])["device_name"]
        return facts

    def instructions(self):
        if self.device == "cuda":
            return {}
        program = ("import tensorflow as tf; "
                   "tf.nn.conv2d(tf.ones((8, 16, 16, 16)), tf.ones((3, 3, 16, 16)), 1, 'SAME')")
        published = bench.onednn_convolution(program)["convolves with"]
        return {**bench.onednn_convolution(program, self.best.environment),
                "mode:published convolves with": published}

    def trainer(self, inputs, mode, precision, _threads):
        return Trainer(inputs, mode, precision)


if __name__ == "__main__":
    bench.main(Peer())

"""tools/export_weights: there and back, bad input, and equal predictions in the frameworks that are
installed in .deps/peers."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TRAINBENCH_SOURCE"])
sys.path.insert(0, str(SOURCE / "tools"))
import debian_python
debian_python.require("numpy")
import numpy as np

TRAIN = pathlib.Path(os.environ["TRAINBENCH_BUILD"]) / "train"
TOOL = SOURCE / "tools/export_weights"
IMAGES = "/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz"
WIDTH = 4
CNN = ["--model", "cifar10_cnn", "--width", str(WIDTH)]
MLP = ["--model", "mnist_mlp", "--depth", "2", "--width", "16"]

# Run by a framework's Python with the weights' file, the model and the images' file; prints classes.
COMMON = """
import gzip, json, sys
import numpy as np
weights, model, images = sys.argv[1:]
pixels = np.frombuffer(gzip.open(images).read(), np.uint8, offset=16).reshape(-1, 28, 28, 1)[:1000]
if model == "cifar10_cnn":
    pixels = np.repeat(np.pad(pixels, ((0, 0), (2, 2), (2, 2), (0, 0))), 3, axis=3)
pixels = pixels.astype(np.float32) / 255
"""
PYTORCH = COMMON + """
import collections, torch
from torch import nn
if weights.endswith(".npz"):
    state = {name: torch.tensor(value) for name, value in np.load(weights).items()}
else:
    import safetensors.torch
    state = safetensors.torch.load_file(weights)
layers = collections.OrderedDict()
for name, value in state.items():
    layer, part = name.split(".")
    if part != "weight":
        continue
    if value.ndim == 4:
        layers[layer] = nn.Conv2d(value.shape[1], value.shape[0], 3, padding=1)
        if layer in ("conv2", "conv4"):
            layers["pool" + layer] = nn.MaxPool2d(2)
    else:
        if "flatten" not in layers:
            layers["flatten"] = nn.Flatten()
        layers[layer] = nn.Linear(value.shape[1], value.shape[0])
        layers["relu" + layer] = nn.ReLU()
layers.popitem()
network = nn.Sequential(layers)
network.load_state_dict(state)
with torch.no_grad():
    scores = network(torch.tensor(pixels).permute(0, 3, 1, 2))
print(json.dumps(scores.argmax(1).tolist()))
"""
KERAS = COMMON + """
import keras
arrays = np.load(weights)
network = keras.Sequential([keras.Input(pixels.shape[1:])])
for name, value in arrays.items():
    layer, part = name.split("/")
    if part != "kernel":
        continue
    if value.ndim == 4:
        network.add(keras.layers.Conv2D(value.shape[3], 3, padding="same", name=layer))
        if layer in ("conv2", "conv4"):
            network.add(keras.layers.MaxPooling2D())
    else:
        if not any(isinstance(known, keras.layers.Flatten) for known in network.layers):
            network.add(keras.layers.Flatten())
        network.add(keras.layers.Dense(value.shape[1], name=layer, activation="relu"))
network.layers[-1].activation = keras.activations.linear
network.set_weights(list(arrays.values()))
print(json.dumps(network.predict(pixels, verbose=0).argmax(1).tolist()))
"""


def export(*arguments):
    return subprocess.run([sys.executable, TOOL, *map(str, arguments)], capture_output=True, text=True,
                          timeout=60, check=False)


def cnn_arrays():
    """Weights of a CNN in the suite's form, each value another."""
    generator = np.random.default_rng(1)
    shapes, channels = {}, 3
    for i, out in enumerate((WIDTH, WIDTH, 2 * WIDTH, 2 * WIDTH, 4 * WIDTH, 4 * WIDTH), start=1):
        shapes[f"conv{i}.w"], shapes[f"conv{i}.bias"] = (3, 3, channels, out), (out,)
        channels = out
    for i, (inputs, out) in enumerate(((64 * channels, 128), (128, 10)), start=1):
        shapes[f"dense{i}.w"], shapes[f"dense{i}.bias"] = (inputs, out), (out,)
    # Scaled so that layers keep the size of what they get, and classes differ between images.
    return {name: (generator.uniform(-1, 1, shape) * np.sqrt(6 / np.prod(shape[:-1])
                                                             if len(shape) > 1 else 1e-4))
            .astype(np.float32) for name, shape in shapes.items()}


class ExportWeightsTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.cnn = self.folder / "cnn.npz"
        np.savez(self.cnn, **cnn_arrays())

    def export(self, *arguments):
        done = export(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_there_and_back_changes_nothing(self):
        first = self.folder / "suite.safetensors"
        self.assertIn("8 layers", self.export(self.cnn, first, "--to", "suite"))
        for kind in ("pytorch", "keras"):
            for ending in ("npz", "safetensors"):
                there, back = self.folder / f"{kind}.{ending}", self.folder / "back.safetensors"
                self.export(first, there, "--to", kind)
                self.export(there, back, "--to", "suite")
                self.assertEqual(back.read_bytes(), first.read_bytes(), (kind, ending))

    def test_forms_are_the_frameworks(self):
        want = cnn_arrays()
        self.export(self.cnn, self.folder / "pytorch.npz", "--to", "pytorch")
        pytorch = np.load(self.folder / "pytorch.npz")
        self.assertEqual(list(pytorch)[:3], ["conv1.weight", "conv1.bias", "conv2.weight"])
        self.assertEqual(pytorch["conv2.weight"][3, 1, 0, 2], want["conv2.w"][0, 2, 1, 3])
        self.assertEqual(pytorch["dense2.weight"][7, 5], want["dense2.w"][5, 7])
        height, width, channel, channels = 6, 3, 11, 4 * WIDTH
        self.assertEqual(pytorch["dense1.weight"][9, (channel * 8 + height) * 8 + width],
                         want["dense1.w"][(height * 8 + width) * channels + channel, 9])
        self.export(self.cnn, self.folder / "keras.npz", "--to", "keras")
        keras = np.load(self.folder / "keras.npz")
        self.assertEqual(list(keras)[:2], ["conv1/kernel", "conv1/bias"])
        self.assertTrue(np.array_equal(keras["dense1/kernel"], want["dense1.w"]))

    def test_names_may_have_the_models_before_them(self):
        self.export(self.cnn, self.folder / "keras.npz", "--to", "keras")
        renamed = {f"sequential/{name}": value for name, value in np.load(self.folder / "keras.npz").items()}
        np.savez(self.folder / "renamed.npz", **renamed)
        self.export(self.folder / "renamed.npz", self.folder / "back.safetensors", "--to", "suite")

    def test_train_takes_them(self):
        state = self.folder / "suite.safetensors"
        self.export(self.cnn, state, "--to", "suite")
        self.assertEqual(len(self.predicted(CNN, state)), 10000)

    def test_bad_input_is_named(self):
        (self.folder / "text.npz").write_text("no archive")
        (self.folder / "text.safetensors").write_text("no tensors at all")
        np.savez(self.folder / "other.npz", resnet=np.zeros(3))
        np.savez(self.folder / "nameless.npz", **{"0.weight": np.zeros((2, 3)), "0.bias": np.zeros(2)})
        np.savez(self.folder / "half.npz", **{"dense1.weight": np.zeros((2, 3))})
        out = self.folder / "out.npz"
        for source, destination, named in (
                (self.folder / "nowhere.npz", out, "no such file"),
                (self.folder / "text.npz", out, "is no .npz file"),
                (self.folder / "text.safetensors", out, "is no safetensors file"),
                (self.folder / "other.npz", out, "no weights named like"),
                (self.folder / "nameless.npz", out, "named conv1, conv2"),
                (self.folder / "half.npz", out, "dense1 has no bias"),
                (self.cnn, self.folder / "out.h5", "ends in .npz or .safetensors"),
                (self.cnn, self.folder / "no" / "out.npz", "cannot be written")):
            with self.subTest(named=named):
                done = export(source, destination, "--to", "suite")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(named, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertFalse(out.exists())

    def predicted(self, model, state):
        """The classes of the test images, as the suite predicts them from a state."""
        file = self.folder / "run.json"
        done = subprocess.run([TRAIN, *model, "--epochs", "0", "--load", state, "--json", file],
                              capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(file.read_text())["runs"][0]["predicted"]

    def compare_with(self, framework, script, ending):
        python = SOURCE / ".deps/peers" / framework / "bin/python"
        if not python.exists():
            self.skipTest(f"{framework} is not installed: tools/peers/setup {framework}")
        mlp = self.folder / "mlp.safetensors"
        done = subprocess.run([TRAIN, *MLP, "--epochs", "1", "--save", mlp], capture_output=True, text=True,
                              timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        cnn = self.folder / "suite.safetensors"
        self.export(self.cnn, cnn, "--to", "suite")
        for model, state in ((MLP, mlp), (CNN, cnn)):
            there = self.folder / f"there.{ending}"
            self.export(state, there, "--to", framework)
            done = subprocess.run([python, "-c", script, there, model[1], IMAGES], capture_output=True,
                                  text=True, timeout=300, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            classes = json.loads(done.stdout.splitlines()[-1])
            suites = self.predicted(model, state)[:len(classes)]
            self.assertEqual(len(classes), 1000)
            self.assertGreater(len(set(classes)), 1)
            self.assertEqual(classes, suites, model)

    def test_pytorch_predicts_the_same(self):
        for ending in ("npz", "safetensors"):
            self.compare_with("pytorch", PYTORCH, ending)

    def test_keras_predicts_the_same(self):
        self.compare_with("keras", KERAS, "npz")


if __name__ == "__main__":
    unittest.main()

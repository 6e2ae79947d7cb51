"""The train program and the summary of its results: output, files, errors, Ctrl-C."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TRAINBENCH_SOURCE"])
TRAIN = pathlib.Path(os.environ["TRAINBENCH_BUILD"]) / "train"
SMALL = ["--model", "mnist_mlp", "--width", "16", "--epochs", "1"]


def train(*arguments, **options):
    return subprocess.run([TRAIN, *arguments], capture_output=True, text=True, timeout=300, check=False,
                          **options)


class TrainTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.json = self.folder / "run.json"

    def test_prints_what_the_published_script_prints(self):
        done = train(*SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("x_train (60000, 28, 28, 1)", "dense1 (Dense)", "Total params: 12730", "Epoch 1/1",
                     "60000/60000 - ", "us/sample - loss: ", "val_acc: ", "Test: 10000 images",
                     "  predicted: ", "Set-up "):
            self.assertIn(part, done.stdout)
        self.assertNotIn("Published ladder", done.stdout)  # That is of another model.
        self.assertNotIn("\r", done.stdout)                # Progress bars are for terminals.

    def test_compares_backends_and_writes_json_that_summary_reads(self):
        done = train(*SMALL, "--backend", "openblas,openblas", "--json", str(self.json), "--validate", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("times as long per epoch", done.stdout)
        self.assertNotIn("val_loss", done.stdout)
        document = json.loads(self.json.read_text(), parse_constant=self.fail)
        self.assertTrue(document["complete"])
        first, second = document["runs"]
        self.assertEqual(len(first["predicted"]), 10000)
        self.assertEqual(first["predicted"], second["predicted"])
        self.assertGreater(first["test"]["accuracy"], 0.7)
        summary = subprocess.run([sys.executable, SOURCE / "tools/summary", self.json], check=True,
                                 capture_output=True, text=True).stdout
        self.assertRegex(summary, r"mnist_mlp +batch:32 depth:1 width:16 +openblas +[\d.]+ s/epoch")

    def test_summary_tells_precisions_apart(self):
        self.assertEqual(train(*SMALL, "--json", str(self.json)).returncode, 0)
        document = json.loads(self.json.read_text())
        self.assertEqual(document["precision"], "fp32")
        other = self.json.with_suffix(".bf16.json")
        other.write_text(json.dumps(dict(document, precision="bf16")))
        self.addCleanup(other.unlink)
        summary = subprocess.run([sys.executable, SOURCE / "tools/summary", self.json, other], check=True,
                                 capture_output=True, text=True).stdout
        head, *rows = summary.splitlines()
        self.assertEqual([row[head.index("precision"):].split()[0] for row in rows], ["bf16", "fp32"])

    def test_the_same_seed_gives_the_same_losses(self):
        losses = []
        for seed in ("5", "5", "6"):
            self.assertEqual(train(*SMALL, "--seed", seed, "--json", str(self.json)).returncode, 0)
            losses.append(json.loads(self.json.read_text())["runs"][0]["epochs"][0]["training"]["loss"])
        self.assertEqual(losses[0], losses[1])
        self.assertNotEqual(losses[0], losses[2])

    def test_a_saved_state_predicts_the_same_and_goes_on(self):
        state, more = self.folder / "state.safetensors", self.folder / "more.safetensors"
        done = train(*SMALL, "--save", str(state), "--json", str(self.json))
        self.assertEqual(done.returncode, 0, done.stderr)
        trained = json.loads(self.json.read_text())["runs"][0]
        done = train(*SMALL[:-1], "0", "--load", str(state), "--json", str(self.json))
        self.assertEqual(done.returncode, 0, done.stderr)
        loaded = json.loads(self.json.read_text())["runs"][0]
        self.assertEqual(loaded["predicted"], trained["predicted"])
        self.assertEqual(loaded["epochs"], [])
        done = train(*SMALL, "--load", str(state), "--save", str(more), "--json", str(self.json))
        self.assertEqual(done.returncode, 0, done.stderr)
        further = json.loads(self.json.read_text())["runs"][0]
        self.assertLess(further["epochs"][0]["training"]["loss"], trained["epochs"][0]["training"]["loss"])
        self.assertEqual(more.stat().st_size, state.stat().st_size)
        self.assertNotEqual(more.read_bytes(), state.read_bytes())
        done = train("--model", "mnist_mlp", "--width", "17", "--load", str(state))
        self.assertEqual(done.returncode, 1)
        self.assertIn("state.safetensors: dense1.w is F32 (784, 16)", done.stderr)

    def test_bad_input_is_named(self):
        cases = {
            ("--model", "resnet"): "resnet",
            ("--backend", "cudann"): "cudann",
            ("--backend", "reference"): "reference",
            ("--backend", "native", *SMALL): "no dense",
            ("--backend", "openblas", "--precision", "bf16", *SMALL): "openblas does not compute in bf16",
            ("--precision", "half"): "--precision",
            ("--batch", "0"): "batch",
            ("--batch", "-1"): "batch",
            ("--batch", "70000", "--model", "mnist_mlp"): "a batch of 70000 is more than the 60000 pictures",
            ("--width", "0"): "width",
            ("--depth", "2"): "depth",
            ("--epochs", "-1"): "epochs",
            ("--epochs", "0"): "--load",
            ("--load", "/nowhere/state.safetensors"): "/nowhere/state.safetensors: there is no such file",
            ("--save", "/nowhere/state.safetensors", *SMALL): "/nowhere",
            ("--save", "state", "--backend", "openblas,openblas", *SMALL): "--save",
            ("--threads", "0"): "threads",
            ("--epoch", "1"): "--epoch",
            ("--data_dir", "/nowhere"): "/nowhere",
            ("--json", "/nowhere/run.json", *SMALL): "/nowhere",
            ("--json", "/dev/full", *SMALL): "space",
        }
        for arguments, named in cases.items():
            with self.subTest(arguments=arguments):
                done = train(*arguments)
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assertIn(named, done.stderr)

    def test_help_explains_and_succeeds(self):
        done = train("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--backend", done.stdout)

    def test_interrupt_keeps_what_was_reached(self):
        self.json.write_text("old")
        state = self.folder / "state.safetensors"
        arguments = [TRAIN, *SMALL[:-1], "100000", "--json", self.json, "--save", state]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            for line in child.stdout:
                if line.startswith("60000/60000"):
                    break
            child.send_signal(signal.SIGINT)
            _, errors = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 130)
        self.assertIn("stopped after", errors)
        self.assertEqual(self.json.read_text(), "old")
        partial = json.loads((self.folder / "run.json.partial").read_text())
        self.assertFalse(partial["complete"])
        self.assertGreaterEqual(len(partial["runs"][0]["epochs"]), 1)
        self.assertFalse(state.exists())
        state.with_suffix(".safetensors.partial").rename(state)
        self.assertEqual(train(*SMALL[:-1], "0", "--load", str(state)).returncode, 0)


if __name__ == "__main__":
    unittest.main()

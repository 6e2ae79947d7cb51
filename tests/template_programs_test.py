"""The benchmark programs over the test backends: valid rows, a whole epoch in one call among them."""

import json
import os
import subprocess
import tempfile
import unittest

BUILD = os.environ["TRAINBENCH_BUILD"]
MLP = "fp32/batch:32/depth:1/width:128"


def run(program, pattern):
    """Runs the rows that match; returns exit status, result document and standard error."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "result.json")
        done = subprocess.run(
            [os.path.join(BUILD, program), f"--benchmark_filter={pattern}",
             f"--benchmark_out={out}", "--benchmark_min_time=0.01"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        document = None
        if os.path.exists(out):
            with open(out, encoding="utf-8") as file:
                document = json.load(file)
        return done.returncode, document, done.stderr


class TemplatePrograms(unittest.TestCase):
    def rows(self, program, pattern):
        status, document, errors = run(program, pattern)
        self.assertEqual(status, 0, errors)
        rows = {row["name"]: row for row in document["benchmarks"]}
        for name, row in rows.items():
            self.assertNotIn("error_occurred", row, name)
            self.assertGreater(row["real_time"], 0, name)
        return rows

    def test_models(self):
        rows = self.rows("bench_models_template",
                         f"^(step|epoch)/mnist_mlp/train/template_(backend|fused)/{MLP}/"
                         "(real_time|steps:50/iterations:1/real_time)$")
        self.assertEqual(len(rows), 4)
        for name, row in rows.items():
            fused = "template_fused" in name
            self.assertIn("program=fused" if fused else "program=layerwise", row["label"])
            self.assertGreater(row["examples_per_second"], 0)
            self.assertIn(";chip=0", row["label"])

    def test_epoch_in_one_call(self):
        rows = self.rows("bench_models_template",
                         f"^epoch/mnist_mlp/train/template_fused/{MLP}/iterations:1/real_time$")
        self.assertEqual(len(rows), 1)
        row = next(iter(rows.values()))
        self.assertEqual(row["iterations"], 1)
        self.assertGreater(row["accuracy"], 0.5)
        self.assertAlmostEqual(row["examples_per_second"] * row["real_time"], 60000, delta=600)

    def test_layers_of_a_device(self):
        rows = self.rows("bench_layers_template",
                         "^op/(conv2d|dense|adam|reorder)/.*/template_backend/fp32/"
                         "(batch:8/|batch:32/in:256|elements:4096)")
        self.assertGreaterEqual(len(rows), 8)
        padded = [row for name, row in rows.items() if "/conv2d/" in name]
        for row in padded:
            plain = "/layout:nhwc/" in row["name"]
            self.assertEqual("included=reorder" in row["label"], plain, row["name"])
            self.assertEqual("excluded=reorder" in row["label"], not plain, row["name"])
            self.assertEqual("+reorder(" in row["label"], plain, row["name"])
        self.assertTrue(any("/layout:nhwc/" in row["name"] for row in padded))
        self.assertTrue(all(";chip=0" in row["label"] for row in rows.values()))

    def test_layers_in_a_reduced_precision(self):
        rows = self.rows("bench_layers_template", "^(op|layer)/.*/template_backend/bf16/(batch:8/|batch:32/in:256)")
        self.assertEqual({name.split("/")[1] for name in rows if name.startswith("op/")}, {"conv2d", "dense", "max_pool2d"})

    def test_precisions_that_a_device_lacks(self):
        status, _, errors = run("bench_layers_template", "^op/dense/forward/template_backend/tf32/")
        self.assertEqual(status, 1)
        self.assertIn("this chip rounds to 8 bits only", errors)
        for precision, why in (("tf32", "template_backend cannot compute in tf32 here: this chip rounds to 8 bits only"),
                               ("fp16", "--precision")):
            done = subprocess.run([os.path.join(BUILD, "train_template"), "--model", "mnist_mlp", "--backend",
                                   "template_backend", "--precision", precision], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(why, done.stderr)


if __name__ == "__main__":
    unittest.main()

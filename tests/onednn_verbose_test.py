"""What oneDNN itself says that a training step of the CNN runs: ONEDNN_VERBOSE on a steady step."""

import collections
import os
import pathlib
import subprocess
import unittest

BUILD = pathlib.Path(os.environ["TRAINBENCH_BUILD"])
BATCH = 100
Line = collections.namedtuple("Line", "event primitive implementation kind shape")


def verbose_lines(precision):
    """The events of a run that ends with 50 steps of the CNN at batch 100, as oneDNN printed them."""
    row = f"^epoch/cifar10_cnn/train/onednn/{precision}/batch:{BATCH}/width:32/steps:50/"
    done = subprocess.run([BUILD / "bench_models", f"--benchmark_filter={row}"], capture_output=True, text=True,
                          timeout=500, check=True, env=dict(os.environ, ONEDNN_VERBOSE="2"))
    lines = []
    for text in done.stdout.splitlines():
        parts = text.split(",")
        if parts[0] != "onednn_verbose" or not parts[1].startswith(("exec", "create")):
            continue
        lines.append(Line(parts[1], parts[3], parts[4], parts[5], parts[-2]))
    return lines


def last_step(lines):
    """From behind the last gradient of the first layer's weights but one to the last one."""
    ends = [i for i, line in enumerate(lines)
            if line.kind == "backward_weights" and line.shape.startswith(f"mb{BATCH}_ic3oc32")]
    return lines[ends[-2] + 1:ends[-1] + 1]


@unittest.skipUnless("onednn     oneDNN" in subprocess.run([BUILD / "bench_models", "--list_backends"],
                                                          capture_output=True, text=True, check=True).stdout,
                     "this build has no oneDNN")
class SteadyStepTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.step = last_step(verbose_lines("fp32"))

    def of(self, primitive):
        return [line for line in self.step if line.primitive == primitive]

    def test_it_is_a_whole_step(self):
        self.assertEqual(len(self.of("convolution")), 17)
        self.assertEqual(len(self.of("inner_product")), 6)
        self.assertEqual(len(self.of("pooling")), 4)

    def test_nothing_is_created(self):
        self.assertEqual([line for line in self.step if line.event.startswith("create")], [])

    def test_nothing_is_plain_loops(self):
        self.assertEqual([line for line in self.step if "ref" in line.implementation], [])
        self.assertEqual([line for line in self.of("convolution") if line.implementation.startswith(("gemm", "x64:gemm"))],
                         [])

    def test_images_are_reordered_at_the_ends_only(self):
        images = [line.shape for line in self.of("reorder") if line.shape.startswith(f"{BATCH}x")]
        self.assertEqual(images, ["100x3x32x32", "100x128x8x8", "100x128x8x8"])

    def test_weights_are_reordered_where_passes_disagree(self):
        weights = [line.shape for line in self.of("reorder") if not line.shape.startswith(f"{BATCH}x")]
        backward_data = [line for line in self.of("convolution") if line.kind == "backward_data"]
        self.assertLessEqual(len(weights), len(backward_data))


if __name__ == "__main__":
    unittest.main()

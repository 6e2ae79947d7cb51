"""What the peers share, with a framework of the test's own: names, filters, checks, results, and the
interleaver. No framework is needed."""

import contextlib
import io
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

SOURCE = pathlib.Path(os.environ["TRAINBENCH_SOURCE"])
BUILD = pathlib.Path(os.environ["TRAINBENCH_BUILD"])
PEERS = SOURCE / "tools/peers"
sys.path.insert(0, str(PEERS))
import bench
import interleave
sys.path.remove(str(PEERS))


class FakeTrainer:
    """Learns at once; `loss` is what it evaluates to."""

    granularity = 5
    label = "input=none"
    loss = 2.5

    def __init__(self):
        self.steps, self.resets = [], 0

    def evaluate(self, count):
        assert count == 32
        return self.loss

    def reset(self):
        self.resets += 1

    def train(self, steps):
        self.steps.append(steps)
        return 0.25


class FakePeer(bench.Peer):
    script = "fake"
    title = "Fake"
    precisions = ("fp32",)
    made = []

    @staticmethod
    def modes(_model, _precision):
        return [bench.Mode(), bench.Mode("slow", least_tier="full")]

    @staticmethod
    def versions(threads):
        return {"fake": "1.0", "fake_threads": str(threads)}

    @staticmethod
    def instructions():
        return {"convolves with": "nothing"}

    @classmethod
    def trainer(cls, *_):
        cls.made.append(FakeTrainer())
        return cls.made[-1]


def fake_inputs(point, _options):
    return types.SimpleNamespace(model=point.model, batch=point.batch, steps_per_epoch=100,
                                 checked_samples=32.0, checked_loss=2.5, step_flops=1e6,
                                 metadata={"data": "none"})


class PeersTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.out = self.folder / "out.json"
        FakePeer.made.clear()

    def run_fake(self, *arguments):
        """Exit status, standard output and error of the fake peer's program."""
        output, errors = io.StringIO(), io.StringIO()
        with mock.patch.object(bench, "WARM_UP_SECONDS", 0.01), mock.patch.object(sys, "argv", ["fake.py", *arguments]), \
                mock.patch.object(bench, "Inputs", fake_inputs), \
                contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            try:
                bench.main(FakePeer())
            except SystemExit as end:
                code = end.code
        if isinstance(code, str):
            return 1, output.getvalue(), code
        return code, output.getvalue(), errors.getvalue()

    def test_names_are_the_suites(self):
        _, listed, _ = self.run_fake("--benchmark_list_tests", "--tier=full")
        peers = {name.replace("/fake/", "/openblas/") for name in listed.split()
                 if "mode:" not in name}
        done = subprocess.run([BUILD / "bench_models", "--benchmark_list_tests", "--tier=full"],
                              capture_output=True, text=True, check=True)
        self.assertEqual(len(peers), 9)
        self.assertLessEqual(peers, set(done.stdout.split()))

    def test_every_peer_lists_rows_without_its_framework(self):
        for peer in ("pytorch", "keras", "jax"):
            done = subprocess.run([sys.executable, PEERS / f"{peer}.py", "--benchmark_list_tests"],
                                  capture_output=True, text=True, check=True)
            for name in done.stdout.split():
                self.assertRegex(name, rf"^(step|epoch)/\w+/train/{peer}/(fp32|bf16)/batch:\d+/.*real_time$")

    def test_rows_of_a_gpu_have_its_name_and_tf32(self):
        for peer in ("pytorch", "keras", "jax"):
            def rows(device):
                done = subprocess.run([sys.executable, PEERS / f"{peer}.py", "--benchmark_list_tests",
                                       "--tier=full", f"--device={device}"],
                                      capture_output=True, text=True, check=True)
                return done.stdout.split()
            gpu = {name.replace(f"/{peer}_cuda/", f"/{peer}/") for name in rows("cuda")}
            self.assertFalse(any("_cuda/" in name for name in rows("cpu")))
            self.assertLessEqual({name for name in rows("cpu") if "/fp32/" in name and "mode:" not in name}, gpu)
            self.assertEqual({name.split("/")[4] for name in gpu}, {"fp32", "tf32", "bf16"})
            self.assertTrue(any("mode:" in name for name in gpu if "/tf32/" in name))

    def test_available_names_what_it_runs_on(self):
        status, output, _ = self.run_fake("--available", "--threads=1")
        self.assertEqual((status, output), (0, "fake 1.0, fake_threads 1, convolves with nothing\n"))

    def test_onednn_tells_its_instructions_and_kernels(self):
        lines = "onednn_verbose,v1,info,cpu,isa:Some AVX\nonednn_verbose,v1,primitive,exec,cpu,convolution,jit:x,rest"
        self.assertEqual(bench.onednn_convolution(f"print({lines!r})"),
                         {"oneDNN's instructions": "Some AVX", "convolves with": "oneDNN's jit:x"})
        self.assertEqual(bench.onednn_convolution("import os; print(os.environ['A'])", (("A", "1"),)),
                         {"oneDNN's instructions": "none", "convolves with": "no kernel of oneDNN"})

    def test_filters_search_and_negate(self):
        def rows(*arguments):
            return self.run_fake("--benchmark_list_tests", *arguments)[1].split()
        self.assertEqual(len(rows("--benchmark_filter=^step/.*/depth:1/width:128/real_time$")), 1)
        self.assertEqual(len(rows("--benchmark_filter=-mode:slow")), 9)
        self.assertEqual(len(rows("--tier=smoke")), 1)
        self.assertEqual(len(rows("--benchmark_filter=mode:slow", "--tier=default")), 0)
        status, _, errors = self.run_fake("--benchmark_filter=(")
        self.assertEqual(status, 1)
        self.assertIn("no regular expression", errors)
        status, _, errors = self.run_fake("--benchmark_filter=nothing")
        self.assertEqual(status, 1)
        self.assertIn("no row of fake matches", errors)

    def test_results_are_google_benchmarks(self):
        status, output, errors = self.run_fake("--benchmark_filter=cifar10_cnn.*width:32/steps:50/iter",
                                               "--benchmark_repetitions=3", f"--benchmark_out={self.out}")
        self.assertEqual(status, 0, errors)
        document = json.loads(self.out.read_text(), parse_constant=self.fail)
        self.assertEqual(document["context"]["fake"], "1.0")
        rows = document["benchmarks"]
        name = "epoch/cifar10_cnn/train/fake/fp32/batch:100/width:32/steps:50/iterations:1/real_time"
        self.assertEqual([row["name"] for row in rows[:3]], [name] * 3)
        self.assertEqual([row["name"] for row in rows[3:]],
                         [f"{name}_{end}" for end in ("mean", "median", "stddev", "cv")])
        self.assertTrue(all(row["loss"] == 0.25 for row in rows[:5]))
        self.assertIn(name, output)
        self.assertEqual(FakePeer.made[0].resets, 3)
        self.assertEqual(FakePeer.made[0].steps[-3:], [50] * 3)
        self.assertEqual(list(self.folder.iterdir()), [self.out])
        done = subprocess.run([sys.executable, SOURCE / "tools/compare", "benchmarks", self.out, self.out],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("steps:50", done.stdout)

    def test_json_on_standard_output_is_pure(self):
        status, output, _ = self.run_fake("--benchmark_filter=^step.*depth:1/width:128/real",
                                          "--benchmark_format=json", "--benchmark_min_time=0.001")
        self.assertEqual(status, 0)
        row, = json.loads(output)["benchmarks"]
        self.assertEqual(row["time_unit"], "us")
        self.assertEqual(row["iterations"] % FakeTrainer.granularity, 0)

    def test_what_computes_another_model_or_learns_nothing_is_an_error_row(self):
        row = "--benchmark_filter=^epoch/cifar10_cnn.*width:32/iter"
        for changed, named in (({"loss": 2.4}, "check failed: a loss of 2.4"),
                               ({"loss": math.nan}, "check failed"),
                               ({"train": lambda *_: math.inf}, "diverged"),
                               ({"train": lambda *_: 2.3}, "not learning")):
            with mock.patch.multiple(FakeTrainer, **changed):
                status, output, _ = self.run_fake(row, f"--benchmark_out={self.out}")
            self.assertEqual(status, 1)
            found, = json.loads(self.out.read_text())["benchmarks"]
            self.assertTrue(found["error_occurred"])
            self.assertIn(named, found["error_message"])
            self.assertIn("ERROR", output)

    def test_bad_flags_are_refused(self):
        for arguments in (["--threads=0"], ["--benchmark_repetitions=0"], ["--benchmark_min_time=nan"],
                          ["--benchmark_out=/nowhere/out.json"], ["--tier=all"], ["--unknown"]):
            self.assertNotEqual(self.run_fake(*arguments)[0], 0, arguments)

    def test_an_absent_framework_says_how_to_get_it(self):
        with mock.patch.object(FakePeer, "versions", side_effect=ImportError("No module named 'fake'")):
            status, _, errors = self.run_fake("--available")
        self.assertEqual(status, 1)
        self.assertIn("tools/peers/setup fake", errors)

    def test_run_refuses_bad_input(self):
        for arguments, named in ((["--filter=("], "no regular expression"), (["--rounds=0"], "--rounds"),
                                 (["--out=/nowhere/x.json"], "/nowhere/x.json"),
                                 (["--peers=none", "--backends="], "no peer 'none'"),
                                 (["--peers=none_cuda", "--backends="], "no peer 'none_cuda'"), (["--unknown"], "--unknown")):
            done = subprocess.run([sys.executable, PEERS / "run", f"--build_dir={BUILD}", *arguments], capture_output=True, text=True,
                                  check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(named, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_interleaving_alternates_and_pairs_rounds(self):
        program = self.folder / "program"
        program.write_text("#!/bin/sh\necho $0 $1 >> %s/log\nfor a; do case $a in --benchmark_out=*) "
                           "cp %s/$1.json ${a#*=};; esac; done\n" % (self.folder, self.folder))
        program.chmod(0o755)
        for name, seconds in (("a", 2.0), ("b", 3.0)):
            rows = [{"run_name": name, "real_time": seconds, "time_unit": "us"},
                    {"run_name": name, "real_time": 9.0, "time_unit": "us", "run_type": "aggregate"}]
            (self.folder / f"{name}.json").write_text(json.dumps({"context": {}, "benchmarks": rows}))
        programs = [interleave.Program(name, [program, name], dict(os.environ)) for name in "ab"]
        samples, _, complete = interleave.interleave(programs, 2, lambda *_: None)
        self.assertTrue(complete)
        order = re.findall(r"program (\w)", (self.folder / "log").read_text())
        self.assertEqual(order, ["a", "b", "b", "a"])
        self.assertEqual(samples["a"].times, [2.0, 2.0])
        self.assertEqual(interleave.ratio_interval(samples["b"], samples["a"]), (1.5, 1.5, 1.5))

    def test_ratios_are_of_the_rounds_that_both_have(self):
        once = interleave.Sample([20.0, 10.0], [0, 2])
        always = interleave.Sample([10.0, 1.0, 10.0], [0, 1, 2])
        self.assertEqual(interleave.ratio_interval(once, always), (1.0, 1.5, 2.0))
        self.assertIsNone(interleave.ratio_interval(once, interleave.Sample([1.0], [1])))

    def test_inputs_are_the_suites(self):
        out = self.folder / "inputs.safetensors"
        done = subprocess.run([BUILD / "peer_inputs", "--model=mnist_mlp", "--width=16", f"--out={out}"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        data = out.read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + length])
        self.assertEqual(header["samples"]["shape"], [60000, 28, 28, 1])
        self.assertEqual(header["dense1.w"]["shape"], [784, 16])
        begin, end = (8 + length + offset for offset in header["order"]["data_offsets"])
        order = memoryview(data[begin:end]).cast("I")
        self.assertEqual(sorted(order), list(range(60000)))
        for arguments in (["--model=resnet", f"--out={out}"], ["--model=mnist_mlp"],
                          ["--model=mnist_mlp", "--out=/nowhere/x"]):
            done = subprocess.run([BUILD / "peer_inputs", *arguments], capture_output=True, check=False)
            self.assertEqual(done.returncode, 1)


class FrameworksTest(unittest.TestCase):
    """One row of each framework that is installed."""

    def run_row(self, peer):
        if not (SOURCE / ".deps/peers" / peer / "bin/python").exists():
            self.skipTest(f"{peer} is not installed: tools/peers/setup {peer}")
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "out.json"
            done = subprocess.run([PEERS / f"{peer}.py", "--tier=smoke", "--benchmark_min_time=0.05",
                                   f"--build_dir={BUILD}", f"--benchmark_out={out}"], capture_output=True,
                                  text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            rows = json.loads(out.read_text())["benchmarks"]
        self.assertGreaterEqual(len(rows), 1)
        self.assertTrue(all(row["loss"] < 2.3 for row in rows))

    def test_pytorch(self):
        self.run_row("pytorch")

    def test_keras(self):
        self.run_row("keras")

    def test_jax(self):
        self.run_row("jax")


if __name__ == "__main__":
    unittest.main()

"""Programs under limits of memory and with values that Google Benchmark would take badly."""

import json
import os
import pathlib
import resource
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["TRAINBENCH_BUILD"])
ROW = "--benchmark_filter=^step/mnist_mlp/.*/batch:32/depth:1/width:32/"
SANITIZED = "san" in BUILD.name  # Sanitizers map terabytes: no limit of address space holds.


def run(program, *arguments, address_space=None, stdout=subprocess.PIPE, **environment):
    def limit():
        if address_space is not None:
            resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
    return subprocess.run([BUILD / program, *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True,
                          timeout=120, check=False, preexec_fn=limit, env=dict(os.environ, **environment))


class LimitsTest(unittest.TestCase):
    @unittest.skipIf(SANITIZED, "address space cannot be limited under sanitizers")
    def test_what_does_not_fit_in_memory_ends_with_2(self):
        for arguments, limit in (((ROW, "--benchmark_min_time=0.01"), 400_000 << 10),
                                 ((ROW, "--benchmark_min_time=0.01", "--threads=64"), 1_500_000 << 10)):
            done = run("bench_models", *arguments, address_space=limit)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("did not fit in memory: step/mnist_mlp", done.stderr)

    @unittest.skipIf(SANITIZED, "address space cannot be limited under sanitizers")
    def test_training_that_does_not_fit_ends_with_2(self):
        for limit in (280_000 << 10, 350_000 << 10):
            done = run("train", "--model=mnist_mlp", "--epochs=1", address_space=limit)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("memory", done.stderr)

    def test_values_that_would_run_nothing_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "out.json"
            out.write_text("old")
            for flag in ("--benchmark_repetitions=0", "--benchmark_repetitions=-3", "--benchmark_time_unit=h"):
                done = run("bench_models", ROW, flag, f"--benchmark_out={out}")
                self.assertEqual(done.returncode, 1, flag)
                self.assertIn(flag, done.stderr)
                self.assertEqual(out.read_text(), "old")
            done = run("bench_models", ROW, BENCHMARK_REPETITIONS="abc")
            self.assertEqual(done.returncode, 1)

    @unittest.skipUnless("onednn" in run("bench_models", "--list_backends").stdout.split("reference")[0]
                         and "not in this build" not in run("bench_models", "--list_backends").stdout,
                         "only with an OpenMP runtime")
    def test_a_program_bound_to_one_cpu_is_refused(self):
        for program in ("bench_models", "train"):
            done = run(program, *([ROW] if program == "bench_models" else ["--epochs=1"]), OMP_PROC_BIND="close")
            self.assertEqual(done.returncode, 1)
            self.assertIn("unset OMP_PROC_BIND", done.stderr)

    def test_two_documents_never_share_standard_output(self):
        done = run("bench_models", ROW, "--benchmark_format=json", "--benchmark_out=/dev/stdout")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")

    def test_training_into_a_full_device_fails(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = run("train", "--model=mnist_mlp", "--width=16", "--epochs=1", stdout=full)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output", done.stderr)

    def test_an_empty_value_takes_no_other_flag(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        done = subprocess.run([BUILD / "train", "--model=mnist_mlp", "--epochs=1", "--json=", "--width=16"],
                              cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Total params: 12730", done.stdout)
        self.assertEqual(list(folder.iterdir()), [])

    def test_context_names_the_libraries_of_borrowed_ops(self):
        with tempfile.TemporaryDirectory() as folder:
            for program, flags in (("bench_models", (ROW, "--benchmark_min_time=0.01", "--benchmark_out=")),
                                   ("train", ("--model=mnist_mlp", "--width=16", "--epochs=1", "--json="))):
                file = f"{folder}/{program}.json"
                done = run(program, *flags[:-1], flags[-1] + file)
                self.assertEqual(done.returncode, 0, done.stderr)
                context = json.loads(pathlib.Path(file).read_text())["context"]
                self.assertIn("openblas_core", context)
                self.assertIn("native_isa", context)


if __name__ == "__main__":
    unittest.main()

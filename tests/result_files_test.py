"""Results, flags and exit status of a bench_* program, as a user meets them."""

import csv
import io
import json
import os
import resource
import signal
import stat
import subprocess
import tempfile
import threading
import time
import unittest

PROGRAM = os.path.join(os.environ["TRAINBENCH_BUILD"], "tests", "harness_program")
COMPARE = "/usr/share/benchmark/compare.py"
GOOD = "op/good/forward/fine/fp32/batch:1"
GOOD_FULL = GOOD + "/manual_time"


def refuse_constant(name):
    raise ValueError(f"{name} is no JSON")


def strict_json(text):
    return json.loads(text, parse_constant=refuse_constant)


def environment(**variables):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("BENCHMARK_")}
    return {**kept, **variables}


def start(*flags, env=None, **kwargs):
    return subprocess.Popen([PROGRAM, "--probe_seconds=1", *flags], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=environment(**(env or {})), **kwargs)


def run(*flags, **kwargs):
    process = start(*flags, **kwargs)
    out, err = process.communicate(timeout=120)
    return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.out = os.path.join(self.folder, "r.json")
        self.partial = self.out + ".partial"

    def write_old(self):
        with open(self.out, "w") as file:
            file.write("old")

    def read(self, path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    def rows(self, path=None):
        return strict_json(self.read(path or self.out))["benchmarks"]

    def assert_old_is_kept(self):
        self.assertEqual(self.read(self.out), "old")

    def wait_for(self, condition):
        end = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), end, "timed out")
            time.sleep(0.01)

    def partial_rows(self):
        return self.rows(self.partial) if os.path.exists(self.partial) else []


class Files(Folder):
    def test_result_replaces_the_old_one_at_the_end(self):
        self.write_old()
        status, _, _ = run(f"--benchmark_filter=^{GOOD}$", f"--benchmark_out={self.out}")
        self.assertEqual(status, 0)
        self.assertEqual([row["name"] for row in self.rows()], [GOOD_FULL])
        self.assertEqual(os.listdir(self.folder), ["r.json"])

    def test_keys_are_those_of_google_benchmark(self):
        run(f"--benchmark_filter=^{GOOD}$", f"--benchmark_out={self.out}")
        document = strict_json(self.read(self.out))
        keys = ["date", "host_name", "executable", "num_cpus", "mhz_per_cpu", "caches", "load_avg",
                "library_build_type"]
        self.assertEqual([k for k in document["context"] if k in keys], keys)
        for key in ["build_type", "git_revision", "cpu_model", "cpu_isa", "threads", "affinity",
                    "cgroup_cpu_quota", "cpu_governor", "fine_version", "fine_core"]:
            self.assertTrue(document["context"][key], key)
        self.assertEqual(document["context"]["executable"], PROGRAM)
        keys = ["name", "family_index", "per_family_instance_index", "run_name", "run_type",
                "repetitions", "repetition_index", "threads", "iterations", "real_time", "cpu_time",
                "time_unit"]
        row = document["benchmarks"][0]
        self.assertEqual(list(row)[:len(keys)], keys)
        self.assertAlmostEqual(row["real_time"], 1000, delta=1)
        for counter in ["first", "involuntary_switches", "other_cpu_percent", "steal_percent"]:
            self.assertIn(counter, row)

    def test_kill_leaves_finished_rows_and_the_old_result(self):
        self.write_old()
        process = start("--benchmark_filter=step/slow", "--benchmark_min_time=0.01",
                        f"--benchmark_out={self.out}")
        self.wait_for(lambda: len(self.partial_rows()) >= 2)
        process.kill()
        process.communicate()
        self.assertGreaterEqual(len(self.partial_rows()), 2)
        self.assert_old_is_kept()

    def interrupt(self, number, *flags):
        self.write_old()
        process = start("--benchmark_filter=step/slow", "--benchmark_min_time=0.01", *flags,
                        f"--benchmark_out={self.out}")
        self.wait_for(lambda: len(self.partial_rows()) >= 2)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn(b"interrupted", err)
        self.assertIn(self.partial.encode(), err)
        self.assert_old_is_kept()
        rows = self.partial_rows()
        self.assertLess(len(rows), 20)
        self.assertFalse([row for row in rows if "error_occurred" in row])

    def test_ctrl_c(self):
        self.interrupt(signal.SIGINT)

    def test_termination(self):
        self.interrupt(signal.SIGTERM)

    def test_ctrl_c_between_repetitions(self):
        self.interrupt(signal.SIGINT, "--benchmark_repetitions=4")

    def test_second_ctrl_c_kills(self):
        self.write_old()
        process = start(f"--benchmark_filter=^({GOOD}|step/deaf.*)$", f"--benchmark_out={self.out}")
        self.wait_for(lambda: self.partial_rows())
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertEqual(len(self.partial_rows()), 1)
        self.assert_old_is_kept()

    def test_closed_display_does_not_stop_a_run_with_a_file(self):
        process = start("--benchmark_filter=step/slow.*batch:[1-4]$", "--benchmark_min_time=0.01",
                        f"--benchmark_out={self.out}")
        process.stdout.close()
        with process.stderr:
            process.stderr.read()
        self.assertEqual(process.wait(), 0)
        self.assertEqual(len(self.rows()), 4)

    def test_fifo(self):
        os.mkfifo(self.out)
        received = []
        reader = threading.Thread(target=lambda: received.append(self.read(self.out)))
        reader.start()
        status, _, _ = run(f"--benchmark_filter=^{GOOD}$", f"--benchmark_out={self.out}")
        reader.join(timeout=60)
        self.assertEqual(status, 0)
        self.assertEqual(len(strict_json(received[0])["benchmarks"]), 1)
        self.assertTrue(stat.S_ISFIFO(os.stat(self.out).st_mode))

    def test_device(self):
        status, out, _ = run(f"--benchmark_filter=^{GOOD}$", "--benchmark_out=/dev/stdout")
        self.assertEqual(status, 0)
        table, _, document = out.partition("{")
        self.assertEqual(table.count(GOOD), 1)
        self.assertEqual(len(strict_json("{" + document)["benchmarks"]), 1)

    def test_two_documents_in_one_stream(self):
        for form in ("csv", "json"):
            status, out, err = run(f"--benchmark_filter=^{GOOD}$", "--benchmark_out=/dev/stdout",
                                   f"--benchmark_format={form}")
            self.assertEqual((status, out), (1, ""))
            self.assertIn("leave one out", err)

    def test_full_device(self):
        status, _, err = run(f"--benchmark_filter=^{GOOD}$", "--benchmark_out=/dev/full")
        self.assertEqual(status, 1)
        self.assertIn("/dev/full", err)

    def assert_full_disk(self, status, err):
        self.assertEqual(status, 1, err)
        self.assertIn("cannot write", err)
        self.assert_old_is_kept()
        self.assertGreaterEqual(len(self.partial_rows()), 1)

    def test_file_that_cannot_grow(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
        self.write_old()
        status, _, err = run("--benchmark_filter=step/slow", "--benchmark_min_time=0.001",
                             f"--benchmark_out={self.out}", preexec_fn=limit)
        self.assert_full_disk(status, err)

    def test_full_disk(self):
        mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", self.folder]
        if os.geteuid() != 0 or subprocess.run(mount, stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("cannot mount a small file system")
        self.addCleanup(subprocess.run, ["umount", self.folder])
        self.write_old()
        status, _, err = run("--benchmark_filter=step/slow", "--benchmark_min_time=0.001",
                             f"--benchmark_out={self.out}")
        self.assert_full_disk(status, err)

    def test_unwritable_places_are_found_before_anything_runs(self):
        for place in [self.folder, os.path.join(self.folder, "none", "r.json"), "/proc/none"]:
            status, out, err = run("--benchmark_filter=step/slow", f"--benchmark_out={place}")
            self.assertEqual((status, out), (1, ""), place)
            self.assertIn("cannot write", err)

    def test_old_result_survives_a_listing_and_a_filter_without_match(self):
        self.write_old()
        status, _, _ = run("--benchmark_list_tests", f"--benchmark_out={self.out}")
        self.assertEqual(status, 0)
        self.assert_old_is_kept()
        status, _, err = run("--benchmark_filter=nothing", f"--benchmark_out={self.out}")
        self.assertEqual(status, 1)
        self.assertIn("none of", err)
        self.assert_old_is_kept()
        self.assertEqual(os.listdir(self.folder), ["r.json"])


class Contents(Folder):
    def test_standard_output_is_pure_and_valid(self):
        status, out, _ = run("--benchmark_filter=op/(good|odd)/forward/(fine|chatty)",
                             "--benchmark_format=json")
        self.assertEqual(status, 0)
        document = strict_json(out)
        self.assertEqual(len(document["benchmarks"]), 3)
        self.assertEqual(document["context"]["data_set"], "fashion")
        odd = document["benchmarks"][2]
        self.assertNotIn("not_a_number", odd)
        self.assertIn("not finite, left out: endless,not_a_number", odd["label"])
        self.assertTrue(odd["label"].startswith('name=Größe "quoted", \ufffd'))

    def test_full_standard_output_is_a_failure(self):
        for form in ["json", "csv", "console"]:
            with open("/dev/full", "w") as full:
                status = subprocess.run([PROGRAM, f"--benchmark_filter=^{GOOD}$",
                                         f"--benchmark_format={form}"], stdout=full,
                                        stderr=subprocess.DEVNULL).returncode
            self.assertEqual(status, 1, form)

    def test_csv_loses_no_counter(self):
        status, _, _ = run("--benchmark_filter=op/(good|odd|wrong)/forward/fine",
                           "--benchmark_out_format=csv", f"--benchmark_out={self.out}")
        self.assertEqual(status, 1)  # Of the wrong row.
        rows = list(csv.DictReader(io.StringIO(self.read(self.out))))
        self.assertEqual([row["first"] for row in rows], ["1.0", "", ""])
        self.assertEqual([row["second"] for row in rows], ["", "2.0", ""])
        self.assertEqual(rows[2]["error_message"], 'element 3 is 1, not "2"')

    def test_repetitions_and_aggregates(self):
        flags = [f"--benchmark_filter=^{GOOD}$", "--benchmark_repetitions=3",
                 "--benchmark_min_time=0.001", f"--benchmark_out={self.out}"]
        _, out, _ = run(*flags)
        self.assertEqual([row["run_type"] for row in self.rows()],
                         ["iteration"] * 3 + ["aggregate"] * 4)
        _, out, _ = run(*flags, "--benchmark_report_aggregates_only=true")
        self.assertEqual([row["aggregate_name"] for row in self.rows()],
                         ["mean", "median", "stddev", "cv"])
        _, out, _ = run(*flags, "--benchmark_display_aggregates_only")
        self.assertEqual(len(self.rows()), 7)
        self.assertEqual(out.count("op/good"), 4)
        run(*flags, "--benchmark_enable_random_interleaving=true")
        self.assertEqual(len(self.rows()), 7)

    def test_real_rows_can_be_repeated_and_interleaved(self):
        program = os.path.join(os.environ["TRAINBENCH_BUILD"], "bench_layers")
        status = subprocess.run(
            [program, "--benchmark_filter=op/relu/.*elements:4096",
             "--benchmark_repetitions=3", "--benchmark_enable_random_interleaving=true",
             "--benchmark_min_time=0.001", f"--benchmark_out={self.out}"], env=environment(),
            capture_output=True).returncode
        self.assertEqual(status, 0)
        self.assertGreaterEqual(len(self.rows()), 7)

    def test_compare_reads_results(self):
        if not os.path.exists(COMPARE):
            self.skipTest("compare.py is not installed")
        flags = ["--benchmark_filter=op/(good|wrong)/forward/fine", "--benchmark_repetitions=2",
                 "--benchmark_min_time=0.001", f"--benchmark_out={self.out}"]
        run(*flags)
        result = subprocess.run(["/usr/bin/python3", COMPARE, "benchmarks", self.out, self.out], text=True,
                                capture_output=True)
        if "No module named" in result.stderr:
            self.skipTest(result.stderr.splitlines()[-1])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(GOOD_FULL, result.stdout)


class Flags(Folder):
    def test_mistakes_are_named(self):
        for flag, named in [("--benchmark_fliter=x", "--benchmark_fliter=x"),
                            ("--data_dirr=x", "--data_dirr=x"), ("file", "file"),
                            ("--benchmark_filter=conv(", "conv("), ("--threads=0", "--threads=0"),
                            ("--threads=-1", "--threads=-1"), ("--threads=abc", "--threads=abc"),
                            ("--tier=huge", "smoke, default or full"),
                            ("--backends=fien", "aborts, away, chatty"),
                            ("--require_backends=nowhere", "libnowhere was not found"),
                            ("--benchmark_format=xml", "--benchmark_format=xml"),
                            ("--benchmark_out_format=console", "json or csv"),
                            ("--benchmark_min_time=soon", "--benchmark_min_time=soon"),
                            ("--benchmark_repetitions=x", "--benchmark_repetitions=x")]:
            status, out, err = run(flag)
            self.assertEqual((status, out), (1, ""), flag)
            self.assertIn(named, err)

    def test_both_spellings(self):
        listed = run("--benchmark_list_tests", "--tier=smoke", "--backends=fine")
        self.assertEqual(listed[:2], (0, GOOD_FULL + "\n"))
        self.assertEqual(run("--benchmark_list_tests", "--tier", "smoke", "--backends", "fine"),
                         listed)

    def test_empty_filter_is_none(self):
        everything = run("--benchmark_list_tests", "--backends=fine")
        self.assertEqual(run("--benchmark_filter=", "--benchmark_list_tests", "--backends=fine"),
                         everything)
        self.assertIn("epoch/net", everything[1])
        self.assertNotIn("steps:50", everything[1])

    def test_help_and_version(self):
        status, out, _ = run("--help")
        self.assertEqual(status, 0)
        for text in ["--require_backends", "--benchmark_repetitions", "harness_program --tier=smoke"]:
            self.assertIn(text, out)
        self.assertNotIn("--probe", out)
        self.assertEqual(run("--version")[0], 0)

    def test_listed_names_select_exactly_their_row(self):
        _, names, _ = run("--benchmark_list_tests", "--backends=fine", "--tier=full")
        names = names.split()
        self.assertGreater(len(names), 20)
        for name in [names[0], names[2], names[3]]:
            _, out, _ = run("--benchmark_list_tests", f"--benchmark_filter=^{name}$")
            self.assertEqual(out.split(), [name])

    def test_listed_names_are_those_of_results(self):
        flags = ["--benchmark_filter=fine.*batch:1$", "--backends=fine", "--tier=default"]
        _, names, _ = run("--benchmark_list_tests", *flags)
        run(*flags, "--benchmark_min_time=0.001", f"--benchmark_out={self.out}")
        self.assertEqual([row["name"] for row in self.rows()], names.split())

    def test_environment_variables_are_flags(self):
        env = {"BENCHMARK_FILTER": f"^{GOOD}$", "BENCHMARK_OUT": self.out,
               "BENCHMARK_OUT_FORMAT": "csv", "BENCHMARK_FORMAT": "json"}
        status, out, _ = run(env=env)
        self.assertEqual(status, 0)
        self.assertEqual(len(strict_json(out)["benchmarks"]), 1)
        self.assertEqual(len(list(csv.DictReader(io.StringIO(self.read(self.out))))), 1)
        _, out, _ = run(env={"BENCHMARK_LIST_TESTS": "1", **env})
        self.assertEqual(out.split(), [GOOD_FULL])
        _, out, _ = run("--benchmark_filter=steps:50", env=env)
        self.assertIn("steps:50", strict_json(out)["benchmarks"][0]["name"])


class Status(Folder):
    def test_error_rows(self):
        status, _, err = run("--benchmark_filter=op/(wrong|big|unlooped|good/forward/fine)",
                             f"--benchmark_out={self.out}")
        self.assertEqual(status, 1)
        self.assertIn("failed: op/wrong", err)
        self.assertIn("failed: op/unlooped", err)
        self.assertIn("did not fit in memory: op/big", err)
        rows = self.rows()
        self.assertEqual([row.get("error_occurred", False) for row in rows],
                         [False, True, True, True])

    def test_points_that_do_not_fit(self):
        self.assertEqual(run("--benchmark_filter=op/(big|good/forward/fine)")[0], 2)

    def test_failures_of_later_repetitions(self):
        status, _, err = run("--benchmark_filter=op/late", "--benchmark_repetitions=4",
                             "--benchmark_min_time=0.01", f"--benchmark_out={self.out}")
        self.assertEqual(status, 1, err)
        self.assertIn("late failure", err)
        for name in ["late", "later"]:
            runs = [row for row in self.rows() if row["name"].startswith(f"op/{name}/") and
                    row["run_type"] == "iteration"]
            self.assertEqual([row.get("error_occurred", False) for row in runs],
                             [False, False, True, False])

    def test_wall_time_is_bounded(self):
        begin = time.monotonic()
        status, _, err = run("--benchmark_filter=op/untimed", "--benchmark_min_time=0.01")
        self.assertEqual(status, 1)
        self.assertIn("is not timed", err)
        self.assertLess(time.monotonic() - begin, 40)


class Probes(Folder):
    def probed(self, *flags):
        log = os.path.join(self.folder, "probed")
        open(log, "w").close()
        result = run(*flags, env={"PROBE_LOG": log})
        return result, self.read(log).split()

    def test_only_backends_that_match_are_probed(self):
        (status, _, _), names = self.probed(f"--benchmark_filter=^{GOOD}$")
        self.assertEqual((status, names), (0, ["fine"]))
        _, names = self.probed("--benchmark_list_tests", "--benchmark_filter=forward/chatty")
        self.assertEqual(names, ["chatty"])

    def test_unavailable_ones_are_named(self):
        status, _, err = run("--tier=smoke")
        self.assertEqual(status, 0)
        self.assertIn("backend away is not available (rows left out: 1): no device", err)
        self.assertIn("backend hangs is not available", err)
        self.assertIn("no answer in 1 s", err)

    def test_nothing_available_is_a_failure(self):
        status, _, err = run("--benchmark_filter=forward/away")
        self.assertEqual(status, 1)
        self.assertIn("no device", err)

    def test_precisions_that_a_machine_lacks_are_named(self):
        status, out, err = run("--benchmark_filter=good/forward/chatty", "--benchmark_format=json")
        self.assertEqual(status, 0)
        self.assertIn("backend chatty has no bf16 here (rows left out: 1): its chip is too old", err)
        self.assertEqual([row["name"].split("/")[4] for row in json.loads(out)["benchmarks"]], ["fp32"])
        status, _, err = run("--benchmark_filter=chatty/bf16")
        self.assertEqual(status, 1)
        self.assertIn("its chip is too old", err)
        self.assertIn("chatty 2.0; no bf16: its chip is too old", run("--list_backends")[1])

    def test_required_ones_must_be_there(self):
        self.assertEqual(run(f"--benchmark_filter=^{GOOD}$", "--require_backends=fine,chatty")[0], 0)
        status, out, err = run(f"--benchmark_filter=^{GOOD}$", "--require_backends=fine,away")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("required: away", err)

    def test_list_of_backends_says_what_became_of_each(self):
        status, out, _ = run("--list_backends")
        self.assertEqual(status, 0)
        lines = dict(line.split(maxsplit=1) for line in out.splitlines())
        for name, text in [("aborts", "aborted (signal 6"), ("away", "no device"),
                           ("chatty", "chatty 2.0"), ("crashes", "crashed (signal 11"),
                           ("exits", "exited with status 3"), ("fine", "fine 1.0"),
                           ("hangs", "hung"), ("nowhere", "libnowhere was not found"),
                           ("throws", "driver too old")]:
            self.assertIn(text, lines[name])


if __name__ == "__main__":
    unittest.main()

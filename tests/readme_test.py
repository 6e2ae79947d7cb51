"""Runs the commands of the README that are marked as tested."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TRAINBENCH_SOURCE"])
BUILD = pathlib.Path(os.environ["TRAINBENCH_BUILD"])

# Stands in for the profiler where it is not installed: runs the profiled command.
NSYS_DOUBLE = """#!/bin/sh
[ "$1" = profile ] || exit 1
shift
while case "$1" in -*) true ;; *) false ;; esac; do shift; done
exec "$@"
"""


def tested_blocks():
    text = (SOURCE / "README.md").read_text(encoding="utf-8")
    return [block.strip().splitlines()
            for block in re.findall(r"<!-- tested -->\n```sh\n(.*?)```", text, re.DOTALL)]


class ReadmeTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "build").symlink_to(BUILD)
        (self.folder / "tools").symlink_to(SOURCE / "tools")
        self.environment = dict(os.environ, BENCHMARK_MIN_TIME="0.01")
        if shutil.which("nsys") is None:
            doubles = self.folder / "doubles"
            doubles.mkdir()
            (doubles / "nsys").write_text(NSYS_DOUBLE)
            (doubles / "nsys").chmod(0o755)
            self.environment["PATH"] = f"{doubles}:{os.environ['PATH']}"

    def run_line(self, line):
        done = subprocess.run(line, shell=True, cwd=self.folder, env=self.environment,
                              capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}{done.stderr}")
        return done.stdout

    def test_there_are_commands_of_each_kind(self):
        lines = [line for block in tested_blocks() for line in block]
        for part in ("manual_time$", "tools/compare benchmarks", "tools/compare filters", "nsys profile"):
            self.assertTrue(any(part in line for line in lines), part)

    def test_every_command_works(self):
        for block in tested_blocks():
            for line in block:
                with self.subTest(line=line):
                    output = self.run_line(line)
                    if "compare" in line:
                        self.assertNotIn("Rows only in", output)
                        self.assertRegex(output, r"[+-]\d+\.\d+")
                    if "manual_time$" in line:
                        rows = [row for row in output.splitlines() if row.startswith("op/")]
                        self.assertEqual(len(rows), 1, output)


if __name__ == "__main__":
    unittest.main()

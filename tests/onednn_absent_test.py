"""Configures the project where oneDNN is missing or unfit: AUTO, ON and OFF, and the reasons given."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = os.environ["TRAINBENCH_SOURCE"]
BUILD = pathlib.Path(os.environ["TRAINBENCH_BUILD"])


def settings_of_build():
    """Generator, compiler and places of all other libraries, as in the build that is being tested."""
    cache = (BUILD / "CMakeCache.txt").read_text(encoding="utf-8")
    generator = re.search(r"^CMAKE_GENERATOR:INTERNAL=(.*)$", cache, re.MULTILINE).group(1)
    places = re.findall(r"^((?:\w+_(?:DIR|ROOT)|CMAKE_PREFIX_PATH|CMAKE_CXX_COMPILER):(?!STATIC|INTERNAL)\w+=.+)$",
                        cache, re.MULTILINE)
    return ["-G", generator] + [f"-D{place}" for place in places if not re.match("dnnl|onednn|tbb", place, re.I)]


class OneDnnAbsent(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.prefix = self.folder / "prefix"
        self.prefix.mkdir()

    def configure(self, *settings):
        """Exit status and all that CMake said, where oneDNN can only be in self.prefix."""
        environment = {name: value for name, value in os.environ.items()
                       if name.lower() not in ("dnnl_root", "onednn_root")}
        done = subprocess.run(
            ["cmake", "-S", SOURCE, "-B", self.folder / "build", "-DTRAINBENCH_TESTS=OFF", *settings_of_build(),
             f"-Ddnnl_ROOT={self.prefix}", *settings],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
        return done.returncode, " ".join(done.stdout.split())  # Errors are wrapped.

    def put_package(self, version, config=""):
        """A CMake package dnnl of that version in self.prefix."""
        folder = self.prefix / "lib/cmake/dnnl"
        folder.mkdir(parents=True)
        (folder / "dnnl-config.cmake").write_text(config)
        (folder / "dnnl-config-version.cmake").write_text(
            f'set(PACKAGE_VERSION "{version}")\nset(PACKAGE_VERSION_COMPATIBLE FALSE)\n')

    def test_auto_leaves_it_out(self):
        status, output = self.configure()
        self.assertEqual(status, 0, output)
        self.assertIn("backend onednn: OneDNN::OneDNN was not found. Looked for the CMake packages dnnl and "
                      f"oneDNN, version 3, in {self.prefix} in vain. Run tools/setup", output)
        self.assertIn("backend native: on", output)

    def test_on_is_an_error(self):
        status, output = self.configure("-DTRAINBENCH_ONEDNN=ON")
        self.assertNotEqual(status, 0)
        self.assertIn("TRAINBENCH_ONEDNN=ON, but OneDNN::OneDNN was not found", output)
        self.assertIn("Run tools/setup", output)

    def test_off_says_so(self):
        status, output = self.configure("-DTRAINBENCH_ONEDNN=OFF")
        self.assertEqual(status, 0, output)
        self.assertIn("backend onednn: switched off (TRAINBENCH_ONEDNN=OFF)", output)

    def test_version_2_is_refused(self):
        self.put_package("2.6.3", "message(FATAL_ERROR loaded)")
        status, output = self.configure()
        self.assertEqual(status, 0, output)
        self.assertIn(f"in vain. {self.prefix}/lib/cmake/dnnl/dnnl-config.cmake is version 2.6.3. Run", output)

    def test_a_missing_tbb_does_not_end_the_configure_run(self):
        self.put_package("3.2.0", 'set(DNNL_CPU_THREADING_RUNTIME "TBB")\nfind_package(TBB REQUIRED)\n')
        status, output = self.configure("-DCMAKE_DISABLE_FIND_PACKAGE_TBB=ON")
        self.assertEqual(status, 0, output)
        self.assertIn("computes on TBB, whose CMake package was not found", output)

    def test_threads_that_cannot_be_shared_are_refused(self):
        self.put_package("3.2.0", 'set(DNNL_CPU_THREADING_RUNTIME "THREADPOOL")\n')
        status, output = self.configure()
        self.assertEqual(status, 0, output)
        self.assertIn("threads that the suite cannot share (THREADPOOL)", output)

    def test_a_library_that_does_not_work_is_refused(self):
        self.put_package("3.2.0", 'set(DNNL_CPU_THREADING_RUNTIME "OMP")\n'
                                  "add_library(DNNL::dnnl INTERFACE IMPORTED)\n"
                                  'target_include_directories(DNNL::dnnl INTERFACE "${CMAKE_CURRENT_LIST_DIR}")\n')
        headers = self.prefix / "lib/cmake/dnnl/oneapi/dnnl"
        headers.mkdir(parents=True)
        (headers / "dnnl.hpp").write_text("#error of another oneDNN\n")
        status, output = self.configure()
        self.assertEqual(status, 0, output)
        self.assertIn("A small program does not build and run with oneDNN 3.2.0", output)


if __name__ == "__main__":
    unittest.main()

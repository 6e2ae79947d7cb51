"""tools/fetch_data against local servers and files; nothing here needs a network."""

import contextlib
import gzip
import hashlib
import http.server
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest

SOURCE = pathlib.Path(os.environ.get("TRAINBENCH_SOURCE", pathlib.Path(__file__).parents[1]))
SCRIPT = SOURCE / "tools" / "fetch_data"
NOWHERE = "http://127.0.0.1:9/nothing"  # The discard port: nothing listens.

sys.dont_write_bytecode = True
os.environ["no_proxy"] = "*"  # The servers are on this machine.


def load_script():
    loader = importlib.machinery.SourceFileLoader("fetch_data", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("fetch_data", loader))
    sys.modules["fetch_data"] = module
    loader.exec_module(module)
    return module


def sha256(content):
    return hashlib.sha256(content).hexdigest()


IMAGES = bytes(range(256)) * 2000
PACKED_IMAGES = gzip.compress(IMAGES, 0)  # Level 0: long enough to be cut in interesting places.


class Server:
    """Serves files from memory, with a fault if asked, and keeps the requests it got."""

    def __init__(self, files, fault=None, ranges=True, delay=0):
        server = self
        self.requests = []  # (path, Range header or None)

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                server.requests.append((self.path, self.headers.get("Range")))
                if fault and fault(self, len(server.requests)):
                    return
                content = files.get(self.path.lstrip("/"))
                if content is None:
                    self.send_error(404)
                    return
                start = 0
                if ranges and (match := re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))):
                    start = int(match[1])
                    if start >= len(content):
                        self.send_error(416)
                        return
                    self.send_response(206)
                    self.send_header("Content-Range",
                                     f"bytes {start}-{len(content) - 1}/{len(content)}")
                else:
                    self.send_response(200)
                self.send_header("Content-Length", str(len(content) - start))
                self.end_headers()
                with contextlib.suppress(OSError):
                    for i in range(start, len(content), 65536):
                        self.wfile.write(content[i:min(i + 65536, len(content))])
                        time.sleep(delay)

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()


def answer(handler, content, length=None):
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content) if length is None else length))
    handler.end_headers()
    handler.wfile.write(content)
    return True


class FetchDataCase(unittest.TestCase):
    """The script with small sets of its own, and a data folder."""

    def setUp(self):
        self.script = load_script()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        item = self.script.Item("images.gz", sha256(IMAGES), len(IMAGES), True)
        self.script.SETS = {
            "small": self.script.DataSet("A small set", "small-set", [], [item])}
        self.target = self.dir / "small-set" / "images.gz"

    def serve(self, files, **how):
        server = Server(files, **how)
        self.addCleanup(server.close)
        return server

    def fetch(self, *mirrors, name="small"):
        """Exit status, standard output and standard error."""
        self.script.SETS[name].mirrors = list(mirrors)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = self.script.main([name, "--data_dir", str(self.dir)])
        return status, out.getvalue(), err.getvalue()

    def partials(self):
        return [p for p in self.dir.rglob("*") if p.name.endswith(".partial")]


class FilesTest(FetchDataCase):
    """A set of single files."""

    def leave_partial(self, url, content):
        tag = sha256(f"{url}/images.gz".encode())[:8]
        self.target.parent.mkdir()
        (self.target.parent / f"images.gz.{tag}.partial").write_bytes(content)

    def assert_fetched(self, result):
        self.assertEqual(result[0], 0, result)
        self.assertEqual(gzip.decompress(self.target.read_bytes()), IMAGES)
        self.assertEqual(self.partials(), [])

    def test_fetches_checks_and_says_how_to_use_it(self):
        server = self.serve({"images.gz": PACKED_IMAGES})
        result = self.fetch(server.url)
        self.assert_fetched(result)
        self.assertIn(f"export TRAINBENCH_DATA_DIR={self.dir}", result[1])
        self.assertIn("100 %", result[1])
        self.assertNotIn("\r", result[1])  # Plain lines where there is no terminal.

    def test_second_run_fetches_nothing(self):
        server = self.serve({"images.gz": PACKED_IMAGES})
        self.fetch(server.url)
        self.assert_fetched(self.fetch(server.url))
        self.assertEqual(len(server.requests), 1)

    def test_mirrors_are_tried_in_order(self):
        missing, refusing = self.serve({}), self.serve(
            {}, fault=lambda handler, _: handler.send_error(503) or True)
        good = self.serve({"images.gz": PACKED_IMAGES})
        result = self.fetch(NOWHERE, missing.url, refusing.url + "/", good.url)
        self.assert_fetched(result)
        self.assertIn("HTTP 404", result[1])
        self.assertIn("HTTP 503", result[1])
        self.assertEqual(refusing.requests[0][0], "/images.gz")

    def test_mirrors_may_pack_differently(self):
        self.assertNotEqual(gzip.compress(IMAGES, 9), PACKED_IMAGES)
        server = self.serve({"images.gz": gzip.compress(IMAGES, 9)})
        self.assert_fetched(self.fetch(server.url))

    def test_wrong_content_is_refused(self):
        changed = bytearray(IMAGES)
        changed[1234] ^= 1
        wrong = self.serve({"images.gz": gzip.compress(bytes(changed))})
        status, out, err = self.fetch(wrong.url)
        self.assertEqual(status, 1)
        self.assertIn(f"wrong checksum: expected SHA-256 {sha256(IMAGES)}", err)
        self.assertFalse(self.target.exists())
        self.assertEqual(self.partials(), [])
        good = self.serve({"images.gz": PACKED_IMAGES})
        self.assert_fetched(self.fetch(wrong.url, good.url))

    def test_content_of_another_length_is_refused(self):
        for content, text in ((IMAGES[:-1], f"found {len(IMAGES) - 1}"),
                              (IMAGES + b"x" * 10**6, f"found more than {len(IMAGES)}")):
            server = self.serve({"images.gz": gzip.compress(content)})
            status, _, err = self.fetch(server.url)
            self.assertEqual(status, 1)
            self.assertIn(f"expected {len(IMAGES)} bytes, {text}", err)

    def test_web_page_instead_of_the_file_is_refused(self):
        server = self.serve({"images.gz": b"\n<!DOCTYPE html><html>maintenance</html>"})
        status, _, err = self.fetch(server.url)
        self.assertEqual(status, 1)
        self.assertIn("got a web page, not the file", err)

    def test_file_that_was_cut_short_for_good_is_refused(self):
        server = self.serve({"images.gz": PACKED_IMAGES[:-9]})
        status, _, err = self.fetch(server.url)
        self.assertEqual(status, 1)
        self.assertIn("broken gzip data", err)
        self.assertFalse(self.target.exists())

    def test_broken_connection_goes_on_where_it_broke(self):
        half = len(PACKED_IMAGES) // 2

        def break_first(handler, number):
            return number == 1 and answer(handler, PACKED_IMAGES[:half], len(PACKED_IMAGES))

        server = self.serve({"images.gz": PACKED_IMAGES}, fault=break_first)
        result = self.fetch(server.url)
        self.assert_fetched(result)
        self.assertEqual([range_ for _, range_ in server.requests], [None, f"bytes={half}-"])
        self.assertIn(f"the connection ended after {half} of {len(PACKED_IMAGES)} bytes", result[1])

    def test_stopped_run_is_resumed(self):
        server = self.serve({"images.gz": PACKED_IMAGES})
        self.leave_partial(server.url, PACKED_IMAGES[:70000])
        self.assert_fetched(self.fetch(server.url))
        self.assertEqual(server.requests, [("/images.gz", "bytes=70000-")])

    def test_whole_partial_file_is_used_as_it_is(self):
        server = self.serve({"images.gz": PACKED_IMAGES})
        self.leave_partial(server.url, PACKED_IMAGES)
        self.assert_fetched(self.fetch(server.url))
        self.assertEqual(server.requests, [])

    def test_server_without_ranges_sends_all_again(self):
        server = self.serve({"images.gz": PACKED_IMAGES}, ranges=False)
        self.leave_partial(server.url, PACKED_IMAGES[:70000])
        self.assert_fetched(self.fetch(server.url))

    def test_partial_file_of_another_version_is_dropped(self):
        server = self.serve({"images.gz": PACKED_IMAGES})
        for junk in (b"\x00" * 70000, b"\x00" * (len(PACKED_IMAGES) + 5)):
            self.leave_partial(server.url, junk)
            self.assert_fetched(self.fetch(server.url))
            self.assertEqual([range_ for _, range_ in server.requests[-2:]],
                             [f"bytes={len(junk)}-", None])
            self.target.unlink()
            self.target.parent.rmdir()

    def test_part_from_one_mirror_is_not_continued_from_another(self):
        def always_break(handler, _):
            return answer(handler, PACKED_IMAGES[:50000], len(PACKED_IMAGES))

        breaking = self.serve({}, fault=always_break)
        good = self.serve({"images.gz": gzip.compress(IMAGES, 9)})
        self.assert_fetched(self.fetch(breaking.url, good.url))
        self.assertEqual(good.requests, [("/images.gz", None)])

    def test_damaged_file_is_fetched_again(self):
        server = self.serve({"images.gz": PACKED_IMAGES})
        self.target.parent.mkdir()
        self.target.write_bytes(PACKED_IMAGES[:1000])
        result = self.fetch(server.url)
        self.assert_fetched(result)
        self.assertIn("fetching it again", result[1])

    def test_failed_fetch_keeps_the_old_file(self):
        self.target.parent.mkdir()
        self.target.write_bytes(b"something else")
        self.assertEqual(self.fetch(NOWHERE)[0], 1)
        self.assertEqual(self.target.read_bytes(), b"something else")

    def test_no_network_ends_with_manual_steps(self):
        status, _, err = self.fetch(NOWHERE, "http://127.0.0.1:9/other")
        self.assertEqual(status, 1)
        for text in ("small could not be fetched", "refused", "To get small by hand", "images.gz",
                     f"{NOWHERE}/", "http://127.0.0.1:9/other/", str(self.target.parent),
                     f"tools/fetch_data small --data_dir {self.dir}"):
            self.assertIn(text, err)

    def test_files_put_there_by_hand_are_accepted(self):
        self.target.parent.mkdir()
        self.target.write_bytes(PACKED_IMAGES)
        self.assert_fetched(self.fetch(NOWHERE))

    def test_file_addresses(self):
        mirror = self.dir / "mirror"
        mirror.mkdir()
        (mirror / "images.gz").write_bytes(PACKED_IMAGES)
        missing = (self.dir / "nothing").as_uri()
        self.assert_fetched(self.fetch(missing, mirror.as_uri()))

    def test_terminal_gets_one_line_that_is_redrawn(self):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        out = Terminal()
        with contextlib.redirect_stdout(out):
            progress = self.script.Progress("images.gz", 0, 2000000)
            progress.update(1000000)
            progress.update(2000000, end=True)
        self.assertRegex(out.getvalue(), r"\r.*1\.0 of 2\.0 MB, 50 %.*\r.*2\.0 of 2\.0 MB, 100 %")
        self.assertEqual(out.getvalue().count("\n"), 1)

    def test_stop_by_ctrl_c_keeps_what_came(self):
        content = gzip.compress(os.urandom(1) + IMAGES * 8, 0)
        server = self.serve({"images.gz": content}, delay=0.05)
        driver = self.dir / "driver.py"
        driver.write_text(
            "import importlib.machinery, importlib.util, sys\n"
            f"loader = importlib.machinery.SourceFileLoader('fetch_data', {str(SCRIPT)!r})\n"
            "spec = importlib.util.spec_from_loader('fetch_data', loader)\n"
            "script = importlib.util.module_from_spec(spec)\n"
            "sys.modules['fetch_data'] = script\n"
            "loader.exec_module(script)\n"
            f"item = script.Item('images.gz', {sha256(gzip.decompress(content))!r}, "
            f"{len(gzip.decompress(content))}, True)\n"
            f"script.SETS = {{'small': script.DataSet('', 'small-set', [{server.url!r}], [item])}}\n"
            f"sys.exit(script.main(['small', '--data_dir', {str(self.dir)!r}]))\n")
        command = [sys.executable, "-B", str(driver)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:
            deadline = time.monotonic() + 30
            while not any(p.stat().st_size for p in self.partials()):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130)
        self.assertIn("goes on where this one stopped", err)
        self.assertNotIn("Traceback", err)
        self.assertFalse(self.target.exists())
        (partial,) = self.partials()
        size = partial.stat().st_size
        self.assertGreater(size, 0)
        self.assertLess(size, len(content))

        self.assertEqual(subprocess.run(command, capture_output=True, check=False).returncode, 0)
        self.assertEqual(server.requests[-1], ("/images.gz", f"bytes={size}-"))
        self.assertEqual(self.target.read_bytes(), content)


class ArchiveTest(FetchDataCase):
    """A set that comes as one archive, as CIFAR-10 does."""

    MEMBERS = {"one.bin": b"1" * 100000, "two.bin": b"2" * 50000}
    ENTRIES = [(f"packed-bin/{name}", content) for name, content in MEMBERS.items()]

    def serve_archive(self, entries):
        """Makes an archive of (path, content) or (path, link's target) the set "packed"."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            for path, content in entries:
                info = tarfile.TarInfo(path)
                if isinstance(content, str):
                    info.type, info.linkname = tarfile.SYMTYPE, content
                    tar.addfile(info)
                else:
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
        archive = buffer.getvalue()
        item = self.script.Item("packed.tar.gz", sha256(archive), len(archive), False)
        self.script.SETS["packed"] = self.script.DataSet(
            "An archive", "packed-bin", [], [item],
            {name: sha256(content) for name, content in self.MEMBERS.items()})
        return self.serve({"packed.tar.gz": archive}), archive

    def assert_unpacked(self, result):
        self.assertEqual(result[0], 0, result)
        found = {str(p.relative_to(self.dir)): p.read_bytes()
                 for p in self.dir.rglob("*") if p.is_file()}
        self.assertEqual(found, dict(self.ENTRIES))

    def test_is_fetched_and_unpacked_once(self):
        server, _ = self.serve_archive(self.ENTRIES)
        self.assert_unpacked(self.fetch(server.url, name="packed"))
        self.assert_unpacked(self.fetch(server.url, name="packed"))
        self.assertEqual(len(server.requests), 1)

    def test_archive_put_there_by_hand_is_unpacked(self):
        _, archive = self.serve_archive(self.ENTRIES)
        (self.dir / "packed.tar.gz").write_bytes(archive)
        self.assert_unpacked(self.fetch(NOWHERE, name="packed"))

    def test_damaged_member_is_fetched_again(self):
        server, _ = self.serve_archive(self.ENTRIES)
        self.fetch(server.url, name="packed")
        (self.dir / "packed-bin" / "two.bin").write_bytes(b"2")
        self.assert_unpacked(self.fetch(server.url, name="packed"))

    def test_nothing_but_the_named_members_leaves_the_archive(self):
        server, _ = self.serve_archive([
            ("../escaped.bin", b"x"), ("/tmp/trainbench_escaped.bin", b"x"),
            ("packed-bin/readme.html", b"x"), ("packed-bin/link", "/etc/passwd"),
            *self.ENTRIES])
        self.assert_unpacked(self.fetch(server.url, name="packed"))
        self.assertFalse((self.dir.parent / "escaped.bin").exists())
        self.assertFalse(pathlib.Path("/tmp/trainbench_escaped.bin").exists())

    def test_members_that_climb_out_or_link_are_kept_inside(self):
        climbing = [("../../one.bin", self.MEMBERS["one.bin"]), self.ENTRIES[1]]
        server, _ = self.serve_archive(climbing)
        self.assert_unpacked(self.fetch(server.url, name="packed"))
        (self.dir / "packed-bin" / "one.bin").unlink()
        server, _ = self.serve_archive([("packed-bin/one.bin", "/etc/passwd"), self.ENTRIES[1]])
        status, _, err = self.fetch(server.url, name="packed")
        self.assertEqual(status, 1)
        self.assertIn("lacks one.bin", err)
        self.assertFalse((self.dir / "packed-bin" / "one.bin").exists())

    def test_member_with_wrong_content_is_refused(self):
        server, _ = self.serve_archive([("packed-bin/one.bin", b"other"), self.ENTRIES[1]])
        status, _, err = self.fetch(server.url, name="packed")
        self.assertEqual(status, 1)
        self.assertIn("one.bin has the wrong checksum", err)
        self.assertFalse((self.dir / "packed-bin" / "one.bin").exists())


class CommandTest(unittest.TestCase):
    """The script as it is run, with the real sets."""

    def run_script(self, *arguments, **environment):
        env = {k: v for k, v in os.environ.items() if k != "TRAINBENCH_DATA_DIR"} | environment
        return subprocess.run([str(SCRIPT), *arguments], capture_output=True, text=True, env=env,
                              check=False)

    def test_list_shows_sets_and_addresses(self):
        result = self.run_script("--list")
        self.assertEqual(result.returncode, 0)
        for text in ("mnist:", "fashion_mnist:", "cifar10:", "cifar-10-binary.tar.gz", "https://"):
            self.assertIn(text, result.stdout)

    def test_wrong_usage(self):
        for arguments, text in ((["imagenet", "--data_dir", "x"], "mnist, fashion_mnist, cifar10"),
                                (["mnist"], "give --data_dir, or set TRAINBENCH_DATA_DIR")):
            result = self.run_script(*arguments)
            self.assertEqual(result.returncode, 2)
            self.assertIn(text, result.stderr)

    def test_checksums_are_those_the_programs_recognise(self):
        known = (SOURCE / "data" / "known_files.cpp").read_text()
        sums = []
        for data in load_script().SETS.values():
            sums += data.members.values() if data.members else [i.sha256 for i in data.items]
        self.assertEqual(len(sums), 14)
        self.assertEqual(sorted(sums), sorted(re.findall(r"[0-9a-f]{64}", known)))

    def test_real_fashion_mnist_from_a_folder(self):
        system = pathlib.Path("/usr/share/datasets/fashion-mnist")
        if not system.is_dir():
            self.skipTest(f"no {system}")
        with tempfile.TemporaryDirectory() as folder:
            result = self.run_script("fashion_mnist", "--mirror", system.as_uri(),
                                     TRAINBENCH_DATA_DIR=folder)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertEqual(len(list(pathlib.Path(folder, "fashion-mnist").iterdir())), 4)


if __name__ == "__main__":
    unittest.main()

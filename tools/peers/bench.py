"""What the peers share: rows under the suite's names, checks, timing, and results in the form of
Google Benchmark's JSON."""

import argparse
import dataclasses
import datetime
import json
import math
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIERS = ("smoke", "default", "full")


def leave_path():
    """Takes this folder off Python's path: its jax.py is not the package of that name."""
    here = str(pathlib.Path(__file__).resolve().parent)
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or ".") != here]


@dataclasses.dataclass(frozen=True)
class Point:
    """A model at a size, as the suite's rows name it, and the least tiers of its rows."""

    model: str
    batch: int
    axes: tuple          # (("depth", 1), ("width", 128))
    step: str
    short_epoch: str
    epoch: str

    def names(self):
        return [f"batch:{self.batch}"] + [f"{name}:{value}" for name, value in self.axes]


POINTS = (Point("mnist_mlp", 32, (("depth", 1), ("width", 128)), "smoke", "default", "default"),
          Point("mnist_mlp", 32, (("depth", 2), ("width", 1000)), "default", "default", "default"),
          Point("cifar10_cnn", 100, (("width", 32),), "default", "default", "full"))
SHORT_EPOCH = 50  # Steps.
WARM_UP_SECONDS = 5  # At most, but for the steps that are under way.


@dataclasses.dataclass(frozen=True)
class Mode:
    """A way to use a framework. The best one has no word; `environment` must be set before the
    framework is imported."""

    word: str = ""
    environment: tuple = ()  # (("NAME", "value"),)
    least_tier: str = "smoke"


@dataclasses.dataclass(frozen=True)
class Row:
    family: str          # "step" or "epoch".
    point: Point
    precision: str
    mode: Mode
    steps: int           # Of a shortened epoch; 0: a whole one.
    name: str

    @property
    def suffix(self):
        return "/real_time" if self.family == "step" else "/iterations:1/real_time"


class Peer:
    """A framework on a device. A subclass has `script`, `title`, modes(model, precision), versions(threads)
    and trainer(inputs, mode, precision, threads)."""

    device = "cpu"

    @property
    def name(self):
        """Of its rows: pytorch, pytorch_cuda."""
        return self.script if self.device == "cpu" else f"{self.script}_{self.device}"

    @property
    def precisions(self):
        if self.device == "cuda":
            return ("fp32", "tf32", "bf16")
        # Without such instructions, bf16 convolutions take seconds.
        return ("fp32", "bf16") if cpu_has("avx512_bf16", "amx_bf16") else ("fp32",)

    def absent(self):
        return RuntimeError(f"{self.title} finds no GPU; tools/peers/setup {self.script} on a machine where "
                            "nvidia-smi finds one installs what it needs")


class Inputs:
    """What the suite trains the model on, from build/peer_inputs: `samples` (count, height, width,
    channels) and `labels` of bytes, `order`, and `weights`, name -> array in the suite's form."""

    def __init__(self, point, options):
        from safetensors import safe_open
        from safetensors.numpy import load_file
        program = pathlib.Path(options.build_dir) / "peer_inputs"
        if not program.exists():
            raise RuntimeError(f"there is no {program}; build the suite first (README), or name its "
                               "--build_dir")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "inputs.safetensors"
            flags = [f"--{name}={value}" for name, value in point.axes]
            done = subprocess.run([program, f"--model={point.model}", f"--batch={point.batch}", *flags,
                                   f"--data_dir={options.data_dir}", f"--out={file}"],
                                  capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(done.stderr.strip())
            tensors = load_file(file)
            with safe_open(file, framework="numpy") as opened:
                self.metadata = opened.metadata()
        self.model, self.batch = point.model, point.batch
        self.samples, self.labels, self.order = (tensors.pop(name)
                                                 for name in ("samples", "labels", "order"))
        self.checked_samples, self.checked_loss, self.step_flops = (
            float(tensors.pop(name)[0]) for name in ("checked_samples", "checked_loss", "step_flops"))
        self.weights = tensors
        self.steps_per_epoch = len(self.labels) // self.batch
        if self.steps_per_epoch * self.batch != len(self.labels):
            raise RuntimeError(f"{len(self.labels)} samples are no whole batches of {self.batch}: the "
                               "peers' epochs have no shorter last batch")

    def layers(self, kind):
        """Names of the layers of a kind, in order: conv1, conv2, ..."""
        names = {name.split(".")[0] for name in self.weights if name.startswith(kind)}
        return sorted(names, key=lambda name: int(name[len(kind):]))


def rows_of(peer):
    rows = []
    for point in POINTS:
        for precision in peer.precisions:
            for mode in peer.modes(point.model, precision):
                for family, steps, tier in (("step", 0, point.step),
                                            ("epoch", SHORT_EPOCH, point.short_epoch),
                                            ("epoch", 0, point.epoch)):
                    axes = point.names() + ([f"mode:{mode.word}"] if mode.word else [])
                    axes += [f"steps:{steps}"] if steps else []
                    name = "/".join([family, point.model, "train", peer.name, precision, *axes])
                    tier = max(tier, mode.least_tier, key=TIERS.index)
                    rows.append((tier, Row(family, point, precision, mode, steps, name)))
    return rows


def selected(peer, options):
    """The rows that the filter and the tier choose. With a filter, all tiers are searched."""
    pattern = options.benchmark_filter
    negated = pattern.startswith("-")
    try:
        searched = re.compile(pattern[negated:])
    except re.error as error:
        raise RuntimeError(f"the filter '{pattern}' is no regular expression: {error}") from error
    tier = options.tier or ("full" if pattern else "default")
    rows = []
    for least, row in rows_of(peer):
        found = searched.search(row.name) or searched.search(row.name + row.suffix)
        if (pattern in ("", "all") or bool(found) != negated) and TIERS.index(least) <= TIERS.index(tier):
            rows.append(row)
    return rows


def check(trainer, inputs, precision):
    """Whether the framework computes the suite's model: its loss under the same weights."""
    got = trainer.evaluate(int(inputs.checked_samples))
    tolerance = {"fp32": 1e-4, "tf32": 5e-3, "bf16": 3e-2}[precision] * inputs.checked_loss
    if not abs(got - inputs.checked_loss) <= tolerance:
        raise RuntimeError(f"check failed: a loss of {got:.6f} under the suite's weights, should be "
                           f"{inputs.checked_loss:.6f} +- {tolerance:.1e}")


def timed(trainer, steps):
    """Seconds and mean loss of so many steps."""
    start = time.perf_counter()
    loss = trainer.train(steps)
    return time.perf_counter() - start, loss


def warm_up(trainer):
    """Trains until two measurements agree within 5 %, for some seconds at most; seconds per step."""
    steps = trainer.granularity
    begin, previous = time.perf_counter(), math.inf
    while True:
        seconds, _ = timed(trainer, steps)
        current = seconds / steps
        if abs(current - previous) <= 0.05 * current or time.perf_counter() - begin > WARM_UP_SECONDS:
            return current
        previous = current
        if seconds < 0.1 and steps < 1e6:
            steps *= 2


def measure(row, trainer, inputs, options, setup_seconds):
    """The runs of a row, one per repetition, as entries of Google Benchmark's JSON."""
    per_step = warm_up(trainer)
    whole = row.steps or inputs.steps_per_epoch
    if row.family == "step":
        whole = max(1, math.ceil(options.benchmark_min_time / per_step))
        whole = math.ceil(whole / trainer.granularity) * trainer.granularity
    entries = []
    for repetition in range(options.benchmark_repetitions):
        trainer.reset()
        seconds, loss = timed(trainer, whole)
        if not math.isfinite(loss):
            raise RuntimeError("diverged: the loss is not finite")
        if whole >= inputs.steps_per_epoch and loss > 0.95 * math.log(10):
            raise RuntimeError("not learning: after an epoch the loss is still that of guessing")
        unit, time_of_one = ("us", 1e6 * seconds / whole) if row.family == "step" else ("s", seconds)
        entries.append({
            "name": row.name + row.suffix, "run_name": row.name + row.suffix, "run_type": "iteration",
            "repetitions": options.benchmark_repetitions, "repetition_index": repetition,
            "threads": 1, "iterations": whole if row.family == "step" else 1,
            "real_time": time_of_one, "cpu_time": time_of_one, "time_unit": unit,
            "examples_per_second": whole * inputs.batch / seconds,
            "flops": inputs.step_flops * whole / seconds, "loss": loss,
            "ms_per_step": 1e3 * seconds / whole, "setup_ms": 1e3 * setup_seconds,
            "label": f"data={inputs.metadata['data']};{trainer.label}"})
    return entries


def aggregates(entries):
    if len(entries) < 2:
        return []
    first = entries[0]
    numbers = [key for key, value in first.items() if isinstance(value, float)]
    found = []
    for name, function in (("mean", statistics.mean), ("median", statistics.median),
                           ("stddev", statistics.stdev),
                           ("cv", lambda values: statistics.stdev(values) / abs(statistics.mean(values)))):
        entry = dict(first, name=f"{first['run_name']}_{name}", run_type="aggregate",
                     aggregate_name=name, aggregate_unit="percentage" if name == "cv" else "time",
                     iterations=len(entries))
        del entry["repetition_index"]
        for key in numbers:
            values = [entry[key] for entry in entries]
            entry[key] = function(values) if statistics.mean(values) else 0.0
        found.append(entry)
    return found


def error_entry(row, error):
    return {"name": row.name + row.suffix, "run_name": row.name + row.suffix, "run_type": "iteration",
            "repetitions": 1, "repetition_index": 0, "threads": 1, "error_occurred": True,
            "error_message": " ".join(str(error).split())[:500], "iterations": 0, "real_time": 0.0,
            "cpu_time": 0.0, "time_unit": "us" if row.family == "step" else "s"}


class Results:
    """The document; grows in FILE.partial, which becomes FILE at the end."""

    def __init__(self, path, context):
        self.path = pathlib.Path(path) if path else None
        self.partial = pathlib.Path(path + ".partial") if path else None
        self.document = {"context": context, "benchmarks": []}
        if self.path and not os.access(self.path.parent, os.W_OK):
            raise RuntimeError(f"cannot write {path}: is there such a folder?")

    def add(self, entries):
        self.document["benchmarks"] += entries
        if self.partial:
            self.partial.write_text(self.text(), encoding="utf-8")

    def text(self):
        return json.dumps(self.document, indent=2, allow_nan=False) + "\n"

    def finish(self):
        self.add([])
        if self.path:
            os.replace(self.partial, self.path)


def show(entry, stream):
    if entry.get("error_occurred"):
        print(f"{entry['name']} ERROR: {entry['error_message']}", file=stream, flush=True)
        return
    value = (f"{100 * entry['real_time']:.2f} %" if entry.get("aggregate_name") == "cv"
             else f"{entry['real_time']:.4g} {entry['time_unit']}")
    print(f"{entry['name']} {value} examples_per_second={entry['examples_per_second']:.4g} "
          f"loss={entry['loss']:.4f} {entry['label']}", file=stream, flush=True)


def run_here(peer, rows, options, results, stream):
    """Runs rows in this process; whether all went well."""
    well, inputs, key = True, None, None
    for row in rows:
        print(f"{peer.name}: {row.name}", file=sys.stderr, flush=True)
        try:
            if key != row.point:
                inputs, key = Inputs(row.point, options), row.point
            start = time.perf_counter()
            trainer = peer.trainer(inputs, row.mode.word, row.precision, options.threads)
            created = time.perf_counter() - start
            check(trainer, inputs, row.precision)
            first_steps, _ = timed(trainer, trainer.granularity)
            entries = measure(row, trainer, inputs, options, created + first_steps)
            entries += aggregates(entries)
        except Exception as error:  # pylint: disable=broad-except  # Of any kind: the row's own.
            entries, well = [error_entry(row, error)], False
        for entry in entries:
            show(entry, stream)
        results.add(entries)
    return well


def run_elsewhere(peer, rows, environment, options, results, stream):
    """Runs rows in a process of this program with another environment; whether all went well."""
    names = "|".join(re.escape(row.name) for row in rows)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "results.json"
        done = subprocess.run(
            [sys.executable, sys.argv[0], "--here", f"--benchmark_filter=^({names})$",
             f"--benchmark_out={file}", f"--threads={options.threads}", f"--device={options.device}",
             f"--data_dir={options.data_dir}", f"--build_dir={options.build_dir}",
             f"--benchmark_repetitions={options.benchmark_repetitions}",
             f"--benchmark_min_time={options.benchmark_min_time}"],
            env=dict(os.environ, **dict(environment)), stdout=subprocess.DEVNULL, check=False)
        if not file.exists():
            raise RuntimeError(f"{peer.name} ended with status {done.returncode} without results")
        document = json.loads(file.read_text(encoding="utf-8"))
    results.document["context"].update(document["context"])
    for entry in document["benchmarks"]:
        show(entry, stream)
    results.add(document["benchmarks"])
    return done.returncode == 0


def context_of(options, facts):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")),
                     "unknown")
    return {"date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            "host_name": socket.gethostname(), "executable": sys.argv[0],
            "num_cpus": os.cpu_count(), "library_build_type": "release", "cpu_model": model,
            "threads": str(options.threads), **facts}


def parse(peer):
    parser = argparse.ArgumentParser(
        prog=f"{peer.script}.py", formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"Trains the suite's models with {peer.title} and times steps and epochs, under the "
        "suite's names.\nThe best setting has no axis `mode:`; docs/peers.md says what each one is.")
    parser.add_argument("--benchmark_filter", default="", help="rows to run, searched; '-' negates")
    parser.add_argument("--benchmark_out", default="", help="file for the results (JSON)")
    parser.add_argument("--benchmark_format", default="console", choices=("console", "json"))
    parser.add_argument("--benchmark_list_tests", action="store_true", help="only print the rows' names")
    parser.add_argument("--benchmark_repetitions", type=int, default=1)
    parser.add_argument("--benchmark_min_time", type=float, default=0.5, help="seconds, of step rows")
    parser.add_argument("--tier", choices=TIERS, help="default: default; with a filter, full")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"),
                        help=f"default: cpu; rows of a GPU are named {peer.script}_cuda")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--data_dir", default=os.environ.get("TRAINBENCH_DATA_DIR", ""))
    parser.add_argument("--build_dir", default=str(ROOT / "build"), help="where the suite was built")
    parser.add_argument("--available", action="store_true", help="only say what would run, or why not")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name, least in (("threads", 1), ("benchmark_repetitions", 1)):
        if getattr(options, name) < least:
            parser.error(f"--{name} must be at least {least}")
    if not options.benchmark_min_time > 0:
        parser.error("--benchmark_min_time must be more than 0")
    return options


def use_own_python(peer):
    """Starts the program again with the Python of the peer's environment, where there is one."""
    own = ROOT / ".deps/peers" / peer.script
    if (own / "bin/python").exists() and pathlib.Path(sys.prefix).resolve() != own.resolve():
        os.execv(own / "bin/python", [str(own / "bin/python"), *sys.argv])


def run(peer):
    options = parse(peer)
    peer.device = options.device
    rows = selected(peer, options)
    if options.benchmark_list_tests:
        print("\n".join(row.name + row.suffix for row in rows))
        return 0
    use_own_python(peer)
    # Before the framework is loaded, which reads them once.
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    try:
        facts = peer.versions(options.threads)
    except ImportError as error:
        raise RuntimeError(f"{peer.title} cannot be loaded ({error}); tools/peers/setup {peer.script} "
                           "makes its environment") from error
    if options.available:
        print(", ".join(f"{key} {value}" for key, value in {**facts, **peer.instructions()}.items()))
        return 0
    if not rows:
        raise RuntimeError(f"no row of {peer.name} matches '{options.benchmark_filter}'; "
                           "--benchmark_list_tests lists them")
    stream = sys.stdout if options.benchmark_format == "console" else sys.stderr
    results = Results(options.benchmark_out, context_of(options, facts))
    groups = {}
    for row in rows:
        groups.setdefault(() if options.here else row.mode.environment, []).append(row)
    well = True
    for environment, group in groups.items():
        if environment:
            well &= run_elsewhere(peer, group, environment, options, results, stream)
        else:
            well &= run_here(peer, group, options, results, stream)
    results.finish()
    if options.benchmark_format == "json":
        print(results.text(), end="")
    return 0 if well else 1


def main(peer):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(run(peer))
    except KeyboardInterrupt:
        sys.exit(130)
    except (RuntimeError, OSError) as error:
        sys.exit(f"{peer.script}.py: {error}")


def onednn_convolution(program, environment=()):
    """Which instructions a framework's own oneDNN has and which of its kernels convolve: it says so itself
    while `program`, Python that convolves once, runs in that environment."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False,
                          env=dict(os.environ, ONEDNN_VERBOSE="1", **dict(environment)))
    isa = re.search(r"cpu,isa:(.*)", done.stdout)
    kernel = re.search(r"exec,cpu,convolution,([^,]+),", done.stdout)
    return {"oneDNN's instructions": isa.group(1) if isa else "none",
            "convolves with": f"oneDNN's {kernel.group(1)}" if kernel else "no kernel of oneDNN"}


def cpu_has(*flags):
    """Whether the CPU has one of these extensions."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        words = next((line.split() for line in file if line.startswith("flags")), [])
    return any(flag in words for flag in flags)

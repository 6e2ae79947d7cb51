"""Runs several benchmark programs in turn, each in a process of its own, for several rounds: what one
program shows in one process differs from the next, and machines have good and bad minutes."""

import dataclasses
import json
import pathlib
import statistics
import subprocess
import tempfile
import time


@dataclasses.dataclass
class Program:
    """A program that takes Google Benchmark's flags, and the rows that it runs in each round."""

    name: str
    command: list     # Without --benchmark_out.
    environment: dict


@dataclasses.dataclass
class Sample:
    """What one row showed in all rounds."""

    times: list          # In `unit`, one per round in which it ran well.
    rounds: list = dataclasses.field(default_factory=list)  # Numbers of those rounds.
    unit: str = ""
    label: str = ""
    errors: list = dataclasses.field(default_factory=list)

    def median(self):
        return statistics.median(self.times)


def ratio_interval(numerator, denominator):
    """(least, median, most) of the ratios of two samples, of the rounds that both have; None for
    samples without such a round."""
    below = dict(zip(denominator.rounds, denominator.times))
    ratios = sorted(time / below[number] for number, time in zip(numerator.rounds, numerator.times)
                    if number in below)
    return (ratios[0], statistics.median(ratios), ratios[-1]) if ratios else None


def run_round(programs, folder, number, report):
    """Each program once; a round's order is the reverse of the one before. Returns documents by
    name; None for one that wrote no results."""
    documents = {}
    for program in programs if number % 2 == 0 else reversed(programs):
        file = pathlib.Path(folder) / f"{number}-{program.name}.json"
        start = time.monotonic()
        done = subprocess.run([*program.command, f"--benchmark_out={file}"], env=program.environment,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        partial = file.with_name(file.name + ".partial")
        found = file if file.exists() else partial
        documents[program.name] = (json.loads(found.read_text(encoding="utf-8")) if found.exists()
                                   else None)
        report(program, number, time.monotonic() - start, done)
    return documents


def interleave(programs, rounds, report):
    """Runs all programs for so many rounds. Returns samples by row and, by program, the context of
    its last results. `report(program, round, seconds, done)` hears of each run; what was reached is
    returned also when the user stops."""
    samples, contexts = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for number in range(rounds):
                for name, document in run_round(programs, folder, number, report).items():
                    if document is None:
                        continue
                    contexts[name] = document["context"]
                    for row in document["benchmarks"]:
                        if row.get("run_type") == "aggregate":
                            continue
                        sample = samples.setdefault(row["run_name"], Sample([]))
                        if row.get("error_occurred"):
                            sample.errors.append(row["error_message"])
                            continue
                        sample.times.append(row["real_time"])
                        sample.rounds.append(number)
                        sample.unit, sample.label = row["time_unit"], row.get("label", "")
        except KeyboardInterrupt:
            return samples, contexts, False
    return samples, contexts, True

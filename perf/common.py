"""What all benches share: races, growth exponents, new interpreters, the table and its record.

A contestant is a function without arguments. A bench is a module bench_<name>.py with
run(report, large). Nothing here imports numpy: the number of threads has to be set before.
"""

import gc
import importlib.metadata
import importlib.util
import json
import math
import operator
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("results")
SOON = ("kernels cached", "<= 0.8"), ("empty cache", "<= 3")  # targets of first reports
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
PACKAGES = ("numpy", "numba", "scikit-learn")
COLUMNS = "{:43} {:>12} {:>10} {:>10} {:>8} {:>7} {:7} {}"
COMPARE = {">=": operator.ge, "<=": operator.le}


# -- timing ----------------------------------------------------------------------------------------


def timed(contestant):
    """Return (seconds, result) of one call."""
    start = time.perf_counter()
    result = contestant()
    return time.perf_counter() - start, result


def race(*contestants, rounds=3, seconds=1.5):
    """Return (seconds, result) of each contestant's fastest call.

    They are called in turn (a, b, a, b, ...) without garbage collection, after one call each to
    warm up: at least `rounds` times, and until all calls together took `seconds`. A contestant
    that is None, a missing peer, gets (None, None).
    """
    entered = [contestant for contestant in contestants if contestant is not None]
    for contestant in entered:
        contestant()
    best = {contestant: (math.inf, None) for contestant in entered}
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        while rounds > 0 or time.perf_counter() - start < seconds:
            for contestant in entered:
                best[contestant] = min(best[contestant], timed(contestant), key=lambda run: run[0])
            rounds -= 1
    finally:
        gc.enable()
    return [best.get(contestant, (None, None)) for contestant in contestants]


def exponent(sizes, seconds):
    """Return the slope of log seconds against log size: 1 is linear."""
    log_sizes, log_seconds = map(math.log, sizes), map(math.log, seconds)
    return statistics.linear_regression(list(log_sizes), list(log_seconds)).slope


def python(*arguments, empty_cache=False):
    """Return a contestant that runs a new interpreter in the project's folder and gives its output.

    Compiled modules are kept, as for any user; Numba's cache too, unless it is to be empty.
    """

    def run():
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        with tempfile.TemporaryDirectory() as folder:
            if empty_cache:
                env["NUMBA_CACHE_DIR"] = folder
            done = subprocess.run(
                [sys.executable, *arguments], cwd=ROOT, env=env, capture_output=True, text=True
            )
        if done.returncode:
            raise RuntimeError(f"python {' '.join(arguments)} failed:\n{done.stderr}")
        return done.stdout

    return run


# -- report ----------------------------------------------------------------------------------------


def environment():
    """Return what a result depends on: commit, versions, processor, threads."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": _commit(),
        "versions": versions,
        "cpu": _cpu(),
        "threads": int(os.environ[THREADS[0]]),
    }


def _commit():
    """Return the hash of the commit, with -dirty if files were changed since; None outside git."""
    command = "git describe --always --dirty --abbrev=40 --exclude=*".split()
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout.strip() or None


def _cpu():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(": ")[1] for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def first_reports(*command, data="sonar"):
    """Contestants: a first result on the command line, with kernels cached and compiled anew."""
    name, line = " ".join(("cli.py", *command)), ("cli.py", *command, "--data", data, "--quiet")
    line += "--trials", "1"
    return {
        f"{name}, kernels cached": python(*line),
        f"{name}, empty cache": python(*line, empty_cache=True),
    }


class Report:
    """A table that grows on the screen, and a JSON line per row in perf/results/<name>.jsonl."""

    def __init__(self, name, large):
        RESULTS.mkdir(exist_ok=True)
        self.path = RESULTS / f"{name}.jsonl"
        self.environment = environment()
        self.targets = []  # True, False or None (skipped), one per row with a target
        versions = [f"{k} {v or '(missing)'}" for k, v in self.environment["versions"].items()]
        grid = "all sizes" if large else "small sizes (PERF=large for all)"
        print(f"{name}: {grid}; {', '.join(versions)}; {self.environment['cpu']}, 1 thread")
        titles = "what", "size", "ours (ms)", "peer (ms)", "ratio", "target", "", "note"
        print(COLUMNS.format(*titles))

    def add(
        self, what, size, ours, peer=None, ratio=None, form="{:.3g}x", target="", note="", **more
    ):
        """Add a row: times in seconds, the ratio it is about and its target, such as ">= 10".

        `form` writes the ratio; `more` goes to the record only.
        """
        met = None
        if target:
            sign, value = target.split()
            met = None if ratio is None else COMPARE[sign](ratio, float(value))
            self.targets.append(met)
        verdict = {True: "met", False: "MISSED", None: "skipped" if target else ""}[met]
        times = ["-" if seconds is None else f"{1e3 * seconds:.2f}" for seconds in (ours, peer)]
        shown = "-" if ratio is None else form.format(ratio)
        print(COLUMNS.format(what, size, *times, shown, target, verdict, note).rstrip(), flush=True)
        row = dict(what=what, size=size, seconds=ours, peer_seconds=peer, ratio=ratio)
        row |= dict(target=target, met=met, note=note)
        with self.path.open("a") as file:
            file.write(json.dumps(self.environment | row | more) + "\n")

    def startup(self, contestants, targets=(), rounds=3):
        """Add a row for each new interpreter, {what: contestant}, against `import sklearn.svm`.

        `targets` are pairs: how `what` ends, such as "empty cache", and what the ratio has to be.
        """
        reference = None
        if importlib.util.find_spec("sklearn"):
            reference = python("-c", "import sklearn.svm")
        (theirs, _), *runs = race(reference, *contestants.values(), rounds=rounds)
        for what, (seconds, _) in zip(contestants, runs, strict=True):
            target = next((goal for end, goal in targets if what.endswith(end)), "")
            ratio = seconds / theirs if theirs else None
            missing = "scikit-learn is missing: pip install scikit-learn"
            note = "against import sklearn.svm" if theirs else missing
            row = dict(what=what, size="", ours=seconds, peer=theirs)
            self.add(**row, ratio=ratio, target=target, note=note)

    def close(self):
        met = f"{self.targets.count(True)} of {len(self.targets)} targets met"
        print(f"{met}; recorded in {self.path.relative_to(ROOT)}")

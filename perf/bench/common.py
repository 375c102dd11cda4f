"""Common code of the benches: timing, growth exponents, new interpreters, table and records.

A contestant is a function without arguments. A bench is a module <name>.py here, with
run(report, large). Nothing here imports numpy: the number of threads has to be set before.

Records   perf/results/<name>.jsonl holds the last run of each grid, "small" and "large". A run is
          one line on its circumstances, which has the field "bench", and one line per row of its
          table. Optional fields of a row: "grid", the name of the grid of which it is one cell;
          "curves", {name: [[size, seconds], ...]}, points of the plot of the bench, and "axis", the
          unit of their sizes if not rows; "points", the two sizes of a growth exponent.
"""

import contextlib
import gc
import importlib.metadata
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

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "perf" / "results"
SOON = "<= 0.8", "<= 3"  # Targets of first reports: kernels cached, empty cache.
GAP = 1e-6  # Relative duality gap that every contestant has to reach.
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
PACKAGES = "numpy", "numba", "scipy", "osqp", "scikit-learn", "lightgbm", "xgboost", "cvxopt"
RENDERED = "perf/results", "perf/RESULTS.md", "perf/SCALE.md", "perf/plots"  # Written by runs.
COLUMNS = "{:43} {:>12} {:>10} {:>10} {:>8} {:>7} {:7} {}"
COMPARE = {">=": operator.ge, "<=": operator.le}


# -- timing ----------------------------------------------------------------------------------------


def timed(contestant):
    """Return (seconds, result) of one call."""
    start = time.perf_counter()
    result = contestant()
    return time.perf_counter() - start, result


def time_interleaved(*contestants, rounds=3, seconds=1.5):
    """Return (seconds, result) of the fastest call of each contestant.

    They are called in turn (a, b, a, b, ...) without garbage collection, after one warm-up call
    each: at least `rounds` times, and until all calls together took `seconds`. A missing peer is
    None, its result (None, None).
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


def growth(sizes, fits):
    """Time one fit for each of two sizes; return the fields of its row and both results."""
    (first, small), (last, big) = time_interleaved(*fits)
    ratio = math.log(last / first) / math.log(sizes[1] / sizes[0])  # 1 is linear
    row = dict(ours=last, ratio=ratio, form="n^{:.2f}", note=f"{1e3 * first:.3g} ms at {sizes[0]}")
    return row | dict(points=[[sizes[0], first], [sizes[1], last]]), (small, big)


def certified(model, gap=GAP):
    """Return the residual of a model of ours; fail if it exceeds the gap."""
    assert model.residual_ <= gap, f"{model!r}: residual {model.residual_:.1e}, not {gap:g}"
    return model.residual_


def python(*arguments, empty_cache=False):
    """Return a contestant that runs a new interpreter in the project's folder for its output."""

    def run():  # Compiled modules are kept, as for any user.
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


# -- records ---------------------------------------------------------------------------------------


def environment():
    """Return the circumstances of a run: commit, versions, processor, threads."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    when, threads = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), os.environ[THREADS[0]]
    found = {"time": when, "commit": _commit(), "versions": versions}
    return found | {"cpu": _cpu(), "threads": int(threads)}


def _commit():
    """Return the hash of the commit, with -dirty if files were changed since; None outside git."""
    others = [f":!{path}" for path in RENDERED]
    try:
        head = _git("rev-parse", "HEAD").stdout.strip()
        changed = _git("diff", "--quiet", "HEAD", "--", ".", *others).returncode
    except FileNotFoundError:
        return None
    return head + "-dirty" * bool(changed) if head else None


def _git(*arguments):
    return subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True)


def _cpu():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(": ")[1] for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def read_runs(path):
    """Return the runs of a file of records, each with its rows; none if there is no file."""
    runs = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        record = json.loads(line)
        if "bench" in record:
            runs.append(record | {"rows": []})
        else:
            runs[-1]["rows"].append(record)
    return runs


def _short(value):
    """Round all floats of a record to six digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    return [_short(item) for item in value] if isinstance(value, list | tuple) else value


# -- report ----------------------------------------------------------------------------------------


class Report:
    """Table on the screen and records of one run.

    Rows go to perf/results/<name>.part, which replaces <name>.jsonl when the run is complete. Runs
    of the other grid are kept.
    """

    def __init__(self, name, large):
        RESULTS.mkdir(exist_ok=True)
        self.path = RESULTS / f"{name}.jsonl"
        self.temporary = self.path.with_suffix(".part")
        self.targets = []  # True, False or None (skipped), one per row with a target.
        run = {"bench": name, "sizes": "large" if large else "small"} | environment()
        self.temporary.write_text("", encoding="utf-8")
        for kept in read_runs(self.path):
            if kept["sizes"] != run["sizes"]:
                rows = kept.pop("rows")
                self._write(kept, *rows)
        self._write(run)
        versions = ", ".join(f"{package} {number}" for package, number in run["versions"].items())
        grid = "all sizes" if large else "small sizes (PERF=large for all)"
        print(f"{name}: {grid}; {versions}; {run['cpu']}, 1 thread")
        titles = "what", "size", "ours (ms)", "peer (ms)", "ratio", "target", "", "note"
        print(COLUMNS.format(*titles))

    def _write(self, *records):
        with self.temporary.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(_short(record)) + "\n" for record in records)

    def add(self, what, size, ours, peer=None, *, ratio=None, form="{:.3g}x", target="", note="",
            needs=None, **more):  # fmt: skip
        """Add a row: times in seconds, their ratio and its target, such as ">= 10".

        The ratio is the peer's time / ours unless given; `form` writes it. If the peer has no time,
        the note says how to install its package, `needs`. `more` goes to the record only.
        """
        if needs and peer is None:
            note = f"{needs} is missing: pip install {needs}"
        if ratio is None and None not in (ours, peer):
            ratio = peer / ours
        met = None
        if target:
            sign, value = target.split()
            met = None if ratio is None else COMPARE[sign](ratio, float(value))
            self.targets.append(met)
        verdict = {True: "met", False: "MISSED", None: "skipped" if target else ""}[met]
        times = ["-" if seconds is None else f"{1e3 * seconds:.2f}" for seconds in (ours, peer)]
        shown = "-" if ratio is None else form.format(ratio)
        print(COLUMNS.format(what, size, *times, shown, target, verdict, note).rstrip(), flush=True)
        row = dict(what=what, size=size, seconds=ours, peer_seconds=peer, ratio=ratio, form=form)
        self._write(row | dict(target=target, met=met, note=note) | more)

    def summary(self, what, ratios, targets):
        """Add the geometric mean of a grid, {where: speed-up}, and its worst cell."""
        values = ratios.values()
        mean, worst, best = statistics.geometric_mean(values), min(values), max(values)
        notes = f"from {worst:.3g}x to {best:.3g}x", min(ratios, key=ratios.get)
        rows = zip(("geometric mean", "worst"), (mean, worst), targets, notes, strict=True)
        for name, ratio, target, note in rows:
            row = dict(what=f"{what}, {name}", size=f"{len(ratios)} kinds", ours=None)
            self.add(**row, ratio=ratio, target=target, note=note)

    def startup(self, *commands, data="sonar", targets=("", ""), rounds=3):
        """Add first reports of cli.py, kernels cached and compiled anew, in new interpreters."""
        contestants = {}
        for command in commands:
            line = "cli.py", *command.split(), "--data", data, "--quiet", "--trials", "1"
            contestants[f"cli.py {command}, kernels cached"] = python(*line)
            contestants[f"cli.py {command}, empty cache"] = python(*line, empty_cache=True)
        reference = python("-c", "import sklearn.svm")
        (peer, _), *runs = time_interleaved(reference, *contestants.values(), rounds=rounds)
        for k, (what, (seconds, _)) in enumerate(zip(contestants, runs, strict=True)):
            row = dict(what=what, size="", ours=seconds, peer=peer, ratio=seconds / peer)
            self.add(**row, target=targets[k % 2], note="against import sklearn.svm")

    def close(self):
        """Replace the file of records; print the number of targets met."""
        os.replace(self.temporary, self.path)
        met = f"{self.targets.count(True)} of {len(self.targets)} targets met"
        where = f"recorded in {self.path.name}; `python -m perf render` writes perf/RESULTS.md"
        print(f"{met}; {where}")

"""What share of a comparison is spent inside fits and predictions.

Run       `cli.py compare --out FOLDER` on 12 built-in sets, 3 of them of several classes, by 8
          methods: reading the sets, all trials, the tests, results.jsonl and the tables. It is
          called in this process, in which a run of one trial came before: imports, and compiling
          or loading kernels, are that run's, and its time is told apart.
Inside    The time in the outermost calls of fit, decision_function, predict and votes, of whatever
          model; the methods of the classes are replaced by ones that read the clock. The parts of
          the rest are timed in the same way, each without what it calls of the others.
Fastest   The quicker of two whole runs counts, and its share, not the better share.
"""

import contextlib
import functools
import io
import tempfile
import time
from collections import Counter
from unittest import mock

import cli
import datasets
from perf.bench.common import timed
from perf.study import compare, experiment, methods, tables, workers
from perf.study.store import Store
from solvers import diversity

SETS = (
    "sonar", "heart", "ionosphere", "liver", "pima", "australian", "german-numer", "wdbc",
    "vehicle-saab-bus", "wine", "glass", "ecoli",
)  # fmt: skip
METHODS = (
    "psvm", "exrm:sampling=bootstrap", "drm", "adaboost", "adaboost-nc", "cqboost", "bagging",
    "gradient-boosting",
)  # fmt: skip
INSIDE = ("fit", "decision_function", "predict", "votes")
OUTSIDE = {
    "reading data": (datasets, "load"),
    "planning": (compare, "plan"),
    "scaling": (experiment.Split, "prepare"),
    "diversity of members": (diversity, "averages"),
    "scores": (experiment, "_scores"),
    "best member": (experiment, "_best_member"),
    "facts on models": (experiment, "_facts_on"),
    "plain records": (experiment, "plain_record"),
    "other parts of trials": (workers, "compute"),
    "keeping records": (Store, "add"),
    "tests and document": (compare, "collect"),
    "writing tables": (tables, "write"),
}
LARGEST = 4  # parts of the rest in the note
TARGET = ">= 0.9"


class Meter:
    """Seconds by name, each name without what runs under another one inside it."""

    def __init__(self):
        self.seconds, self.open = Counter(), []

    def count(self, function, name):
        """The function with its time counted; one of a model inside another model is not again."""

        @functools.wraps(function)
        def counted(*args, **options):
            if name == INSIDE and INSIDE in self.open:
                return function(*args, **options)
            self.open.append(name)
            start, before = time.perf_counter(), self.seconds.total()
            try:
                return function(*args, **options)
            finally:
                self.open.pop()
                others = self.seconds.total() - before
                self.seconds[name] += time.perf_counter() - start - others

        return counted


@contextlib.contextmanager
def metered():
    """Count all calls, of every model and of the parts of the rest, while this lasts."""
    meter, places = Meter(), [(owner, name, part) for part, (owner, name) in OUTSIDE.items()]
    for cls in map(methods.class_of, methods.FILES):
        places += [(cls, name, INSIDE) for name in INSIDE if hasattr(cls, name)]
    with contextlib.ExitStack() as changed:
        for owner, name, part in places:
            counted = meter.count(getattr(owner, name), part)
            changed.enter_context(mock.patch.object(owner, name, counted))
        yield meter.seconds


def command(trials):
    """Run the command line, and refuse cells that failed."""
    argv = ["compare", "--data", ",".join(SETS), "--methods", ",".join(METHODS)]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
        code = cli.main([*argv, "--trials", str(trials), "--out", folder])
    assert code == 0 and " failed in " not in said.getvalue(), said.getvalue()


def share(trials):
    """Return the seconds of a run, those inside, and those of the parts of the rest."""
    with metered() as seconds:
        whole, _ = timed(functools.partial(command, trials))
    inside = seconds.pop(INSIDE)
    seconds["anything else"] = whole - inside - seconds.total()
    return whole, inside, seconds


def run(report, large):
    first, _ = timed(functools.partial(command, 1))
    size = f"{len(SETS)} x {len(METHODS)}"
    report.add("compare, first run", f"{size} x 1", first, note="compiles or loads kernels")
    for trials in (10,) + ((50,) if large else ()):
        whole, inside, rest = min(share(trials) for _ in range(2))
        parts = [f"{name} {seconds / whole:.1%}" for name, seconds in rest.most_common(LARGEST)]
        what = "fits and predictions / compare"
        row = dict(what=what, size=f"{size} x {trials}", ours=whole, peer=inside, form="{:.3f}")
        target = TARGET if trials == 10 else ""
        report.add(**row, target=target, note=f"the rest: {', '.join(parts)}")

"""Cells of a comparison to records: one after another, in several processes, or on a cluster.

    for record in run(cells, jobs=2): ...

Records come as they are finished, in any order; what a cell gives depends on the cell alone. A cell
that fails gives a record with its message. perf/study/cluster.py has what is done on a cluster.
"""

import contextlib
import functools
import gc
import importlib
import json
import multiprocessing
import multiprocessing.connection
import time
from collections import Counter
from statistics import fmean
from typing import NamedTuple

import datasets
from perf.study import experiment, methods
from solvers.rows.cluster import error_line, without_interrupts

PAIRED = 18  # members whose pairs, 153 points of a diagram, are in the record of the first trial
GOES_ON = "with --out, what was finished before is kept, and the same command goes on there"

_warm = set()  # titles of the methods that this process has run


class Cell(NamedTuple):
    """A trial of an experiment, and the name under which its result is kept."""

    spec: experiment.Spec
    trial: int
    key: str


class Step(NamedTuple):
    """A call of a function, "module:name", that is no trial; arguments and result survive JSON."""

    function: str
    arguments: dict
    key: str = ""


def read(spec):
    """Load the data of an experiment, once until `forget`."""
    return _read(spec.data, json.dumps(spec.read, sort_keys=True))


def forget():
    """Let data go: their files may have changed."""
    _read.cache_clear()
    _split.cache_clear()


@functools.cache
def _read(data, options):
    return datasets.load(data, **json.loads(options))


@functools.lru_cache(maxsize=1)
def _split(data, trial, **how):
    """The split of a trial, kept while cells of the same data and trial follow each other."""
    return list(experiment.splits(data, how, [trial]))


def compute(cell):
    """Run one cell, or step; return its record."""
    start = time.perf_counter()
    try:
        record = _call(cell) if isinstance(cell, Step) else _trial(cell)
    except Exception as error:  # whatever it is, the other cells are to be run
        return failed(cell, error_line(error), time.perf_counter() - start)
    return {"key": cell.key, **record, "cell_seconds": time.perf_counter() - start}


def failed(cell, text, seconds=0.0):
    """The record of a cell that has failed."""
    return {"key": cell.key, **_identity(cell), "failure": text, "cell_seconds": seconds}


def _identity(cell):
    if isinstance(cell, Step):
        return {"function": cell.function, "arguments": cell.arguments}
    return {"spec": {**vars(cell.spec)}, "trial": cell.trial}


def _trial(cell):
    spec, data = cell.spec, read(cell.spec)
    kind = methods.title(spec.method, spec.params), len(data.classes) > 2
    how = {
        "known": _split(data, cell.trial, **experiment.splitting(spec)),
        "pairs": PAIRED if cell.trial == 0 else False,
        "warm": kind in _warm,
    }
    (record,) = experiment.trials(spec, data=data, **how)
    if kind not in _warm:
        _warm.add(kind)
        gc.freeze()  # what was imported and compiled stays: no collection need look at it
    return record


def _call(step):
    module, _, name = step.function.partition(":")
    found = getattr(importlib.import_module(module), name)(**step.arguments)
    return _identity(step) | experiment.plain_record(found | {"versions": experiment.versions()})


def run(cells, jobs=1):
    """Yield the record of every cell, computed here or in `jobs` processes."""
    if jobs == 1 or len(cells) < 2:
        yield from map(compute, cells)
    else:
        yield from _spread(cells, min(jobs, len(cells)))


def _spread(cells, jobs):
    """Hand cells to processes, one at a time; end them all when this generator ends."""
    waiting, busy, workers = iter(cells), {}, {}
    try:
        for _ in range(jobs):
            pipe, process = _start()
            workers[pipe] = process
            busy[pipe] = _hand(pipe, next(waiting))
        lost = None
        while busy and lost is None:
            for pipe in multiprocessing.connection.wait(list(busy)):
                cell = busy.pop(pipe)
                try:
                    record = pipe.recv()
                except (EOFError, OSError):
                    lost = cell, workers[pipe]
                    continue
                if following := next(waiting, None):
                    busy[pipe] = _hand(pipe, following)
                yield record
        if lost:
            raise ChildProcessError(_loss(*lost))
    finally:
        for pipe, process in workers.items():
            pipe.close()
            process.terminate()
            process.join()


def _hand(pipe, cell):
    """Send a cell to a process; where that has ended, `recv` will tell."""
    with contextlib.suppress(OSError):
        pipe.send(cell)
    return cell


def _start():
    """Start a process that serves this one; give the pipe to it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    with without_interrupts():
        process.start()
    theirs.close()
    return ours, process


def _serve(pipe):
    """Run the cells that come through a pipe, until its other end is closed."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            pipe.send(compute(pipe.recv()))


def _loss(cell, process):
    process.join()
    how = f"signal {-process.exitcode}" if process.exitcode < 0 else f"code {process.exitcode}"
    return (
        f"a worker process ended ({how}) in {describe(cell)}, perhaps for lack of memory: try "
        f"fewer --jobs; {GOES_ON}"
    )


def describe(cell):
    """Name a cell in a sentence."""
    if isinstance(cell, Step):
        return cell.function
    name = methods.title(cell.spec.method, cell.spec.params)
    return f"trial {cell.trial} of {name} on {cell.spec.data}"


class Clock:
    """Estimate the time left from the measured seconds of each method on each data set.

    What has not been measured on a set is taken from the method's seconds per row on other sets or,
    where there are none, from those of all methods. How many cells a cluster runs at a time is
    measured, too: the seconds of its cells to those that have passed.
    """

    def __init__(self, cells, jobs):
        self.jobs, self.measured = jobs, {}
        self.begin, self.spent = time.perf_counter(), 0.0
        experiments = [cell.spec for cell in cells if isinstance(cell, Cell)]
        self.rows = {spec.data: len(read(spec).y) for spec in experiments} | {None: 1}
        self.waiting = Counter(_group(_identity(cell)) for cell in cells)

    def tick(self, record):
        """Take note of a finished cell; what was compiled need not be again."""
        group, seconds = _group(record), record["cell_seconds"]
        self.waiting[group] -= 1
        self.spent += seconds
        self.measured.setdefault(group, []).append(seconds - record.get("compile_seconds", 0.0))

    def left(self):
        """The seconds that the waiting cells will take."""
        total = sum(count * self._expected(*group) for group, count in self.waiting.items())
        jobs = self.jobs
        if isinstance(jobs, str):
            jobs = self.spent / (time.perf_counter() - self.begin)
        return total / max(1, min(jobs, self.waiting.total()))

    def _expected(self, data, name):
        if own := self.measured.get((data, name)):
            return fmean(own)
        rates = {group: fmean(some) / self.rows[group[0]] for group, some in self.measured.items()}
        same = [rate for group, rate in rates.items() if group[1] == name]
        return self.rows[data] * fmean(same or rates.values())


def _group(record):
    """What takes about the same time: a method on a data set, or a function."""
    if "function" in record:
        return None, record["function"]
    spec = record["spec"]
    return spec["data"], methods.title(spec["method"], spec["params"])

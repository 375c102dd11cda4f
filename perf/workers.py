"""Cells of a comparison to records: one after another, or in several processes.

    for record in run(cells, jobs=2): ...

Records come as they are finished, in any order; what a cell gives depends on the cell alone. A cell
that fails gives a record with its message.
"""

import contextlib
import functools
import json
import multiprocessing
import multiprocessing.connection
import signal
import time
from collections import Counter
from dataclasses import asdict
from statistics import fmean
from typing import NamedTuple

import datasets
from perf import experiment, methods

_warm = set()  # titles of the methods that this process has run


class Cell(NamedTuple):
    """A trial of an experiment, and the name under which its result is kept."""

    spec: experiment.Spec
    trial: int
    key: str


def read(spec):
    """Load the data of an experiment, once until `forget`."""
    return _read(spec.data, json.dumps(spec.read, sort_keys=True))


def forget():
    """Let data go: their files may have changed."""
    _read.cache_clear()


@functools.cache
def _read(data, options):
    return datasets.load(data, **json.loads(options))


def compute(cell):
    """Run one cell; return its record."""
    start, spec = time.perf_counter(), cell.spec
    try:
        data = read(spec)
        kind = methods.title(spec.method, spec.params), len(data.classes) > 2
        (record,) = experiment.trials(spec, [cell.trial], data, warm=kind in _warm)
        _warm.add(kind)
    except Exception as error:  # whatever it is, the other cells are to be run
        text = " ".join(f"{type(error).__name__}: {error}".split())
        record = {"spec": asdict(spec), "trial": cell.trial, "failure": text}
    return {"key": cell.key, **record, "cell_seconds": time.perf_counter() - start}


def run(cells, jobs=1):
    """Yield the record of every cell; with jobs > 1, from so many processes."""
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
    with _without_interrupts():
        process.start()
    theirs.close()
    return ours, process


@contextlib.contextmanager
def _without_interrupts():
    """Processes started here inherit that Ctrl-C is not for them: their parent ends them."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # only the main thread may, and gets Ctrl-C
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _serve(pipe):
    """Run the cells that come through a pipe, until its other end is closed."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            pipe.send(compute(pipe.recv()))


def _loss(cell, process):
    process.join()
    name = methods.title(cell.spec.method, cell.spec.params)
    how = f"signal {-process.exitcode}" if process.exitcode < 0 else f"code {process.exitcode}"
    return (
        f"a worker process ended ({how}) in trial {cell.trial} of {name} on {cell.spec.data}, "
        "perhaps for lack of memory: try fewer --jobs; with --out, what was finished before is "
        "kept, and the same command goes on there"
    )


class Clock:
    """Estimate the time left from the measured seconds of each method on each data set.

    What has not been measured on a set is taken from the method's seconds per row on other sets or,
    where there are none, from those of all methods.
    """

    def __init__(self, cells, jobs):
        self.jobs, self.measured = jobs, {}
        self.rows = {cell.spec.data: len(read(cell.spec).y) for cell in cells}
        self.waiting = Counter(_group(asdict(cell.spec)) for cell in cells)

    def tick(self, record):
        """Take note of a finished cell; what was compiled need not be again."""
        group, seconds = _group(record["spec"]), record["cell_seconds"]
        self.waiting[group] -= 1
        self.measured.setdefault(group, []).append(seconds - record.get("compile_seconds", 0.0))

    def left(self):
        """The seconds that the waiting cells will take."""
        total = sum(count * self._expected(*group) for group, count in self.waiting.items())
        return total / max(1, min(self.jobs, self.waiting.total()))

    def _expected(self, data, name):
        if own := self.measured.get((data, name)):
            return fmean(own)
        rates = {group: fmean(some) / self.rows[group[0]] for group, some in self.measured.items()}
        same = [rate for group, rate in rates.items() if group[1] == name]
        return self.rows[data] * fmean(same or rates.values())


def _group(spec):
    return spec["data"], methods.title(spec["method"], spec["params"])

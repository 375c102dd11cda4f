"""Cells of a comparison to records: one after another, in several processes, or on a cluster.

    for record in run(cells, jobs=2): ...

Records come as they are finished, in any order. A cell that fails gives a record with its message.
perf/study/cluster.py runs cells on a cluster.
"""

import contextlib
import functools
import gc
import importlib
import json
import multiprocessing
import os
import signal
import threading
import time
from concurrent import futures
from typing import NamedTuple

import datasets
from perf.study import experiment, methods
from solvers.rows.cluster import error_line, without_interrupts

GOES_ON = "with --out, finished cells are kept: rerun the same command to resume"

_warm = set()  # Titles of the methods that this process has run.


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
    """Drop the data in memory: their files may have changed."""
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
    except Exception as error:  # Whatever it is, the other cells are to be run.
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
        "pairs": experiment.PAIRED if cell.trial == 0 else False,
        "warm": kind in _warm,
    }
    (record,) = experiment.trials(spec, data=data, **how)
    if kind not in _warm:
        _warm.add(kind)
        gc.freeze()  # Imported and compiled objects stay: no collection need visit them.
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
        yield from _run_in_processes(cells, min(jobs, len(cells)))


def _run_in_processes(cells, jobs):
    """Yield records as processes return them; end the processes when this generator ends."""
    context, others = multiprocessing.get_context("spawn"), multiprocessing.active_children()
    with contextlib.ExitStack() as stack:
        if hasattr(signal, "SIGPIPE"):  # To write to processes that have ended raises an error.
            before = signal.signal(signal.SIGPIPE, signal.SIG_IGN) or signal.SIG_DFL
            stack.callback(signal.signal, signal.SIGPIPE, before)
        pool = futures.ProcessPoolExecutor(jobs, context, _end_with_parent)
        stack.enter_context(pool)
        try:
            with without_interrupts():
                waiting = [pool.submit(compute, cell) for cell in cells]
            for done in futures.as_completed(waiting):
                yield done.result()
        except futures.BrokenExecutor:
            text = "a worker process died, perhaps for lack of memory: try fewer --jobs"
            raise ChildProcessError(f"{text}; {GOES_ON}") from None
        finally:
            for process in set(multiprocessing.active_children()) - set(others):
                process.terminate()
            pool.shutdown(cancel_futures=True)


def _end_with_parent():
    """Start a thread that ends this process when its parent has died."""

    def watch():
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def describe(cell):
    """Name a cell in a sentence."""
    if isinstance(cell, Step):
        return cell.function
    name = methods.title(cell.spec.method, cell.spec.params)
    return f"trial {cell.trial} of {name} on {cell.spec.data}"

"""Cells of a comparison as tasks of a Dask cluster.

    for record in run(cells, "local:2"): ...
    for record in run(cells, "tcp://192.168.0.7:8786"): ...

solvers/rows/cluster.py connects, and checks that workers have the same files and packages; every
task checks again, and the data, too. A worker gets one cell at a time, so that one that dies loses
nothing else: its cell is run again elsewhere, and fails after some deaths.
"""

import collections
import json
import os
import queue
import uuid

import datasets
from perf.study import store, workers
from solvers.rows.cluster import PULSE, REACH, Workers, connect, error_line, fingerprint, need_same

LOST_IN_A_ROW = 3  # Cells: where nothing else finishes meanwhile, it is not the fault of a cell.
RETRIES = 2  # Of a task that a worker cannot even begin.

_files = {}  # {data: (path, time and size of its file, checksum)}, of this process


# -- on a worker -----------------------------------------------------------------------------------


def task(cell, expected, name):
    """Run one cell on a worker that is as expected; return its record.

    The scheduler has it before the task ends: a worker that dies then takes nothing with it.
    """
    from distributed import get_client, get_worker

    address = get_worker().address
    need_same(address, fingerprint(), expected)
    try:
        _need_same_data(cell)
    except Exception as error:
        record = workers.failed(cell, f"worker {address}: {error_line(error)}")
    else:
        record = workers.compute(cell)
    get_client().log_event(name.rpartition("-")[2], json.dumps([name, record]))
    return record


def _need_same_data(cell):
    """Refuse data that are not those by which a cell is named, and forget what has changed."""
    if isinstance(cell, workers.Step):
        return
    name = cell.spec.data
    path = datasets.locate(name)
    state = path and (path, os.stat(path).st_mtime_ns, os.stat(path).st_size)
    if name not in _files or _files[name][0] != state:
        if name in _files:
            workers.forget()
        _files[name] = state, store.checksum(name)
    if store.key(cell.spec, cell.trial, _files[name][1]) != cell.key:
        raise ValueError(f"{path} is not the file that {name} is where the run was started")


# -- here ------------------------------------------------------------------------------------------


def run(cells, where):
    """Yield the record of every cell as it arrives; end with one error where no more can come."""
    if not cells:
        return
    import distributed

    with connect(where) as client:
        crew, ours = Workers(client, where, workers.GOES_ON), fingerprint()
        crew.admit(ours)
        topic = uuid.uuid4().hex
        waiting, busy, done, lost = collections.deque(cells), {}, queue.SimpleQueue(), 0
        client.subscribe_topic(topic, lambda event: done.put(json.loads(event[1])))
        while waiting or busy:
            while waiting and len(busy) < crew.count():
                cell = waiting.popleft()
                name = f"cell-{cell.key}-{len(waiting)}-{topic}"
                future = client.submit(task, cell, ours, name, key=name, retries=RETRIES)
                future.add_done_callback(lambda future: done.put([future.key, None]))
                busy[name] = future, cell
            try:
                name, record = done.get(timeout=PULSE)
            except queue.Empty:
                crew.count()
                continue
            if name not in busy:
                continue
            future, cell = busy[name]
            is_early = record is not None
            if cell is None:  # Recorded; its worker is free once Dask has noted the end.
                if not is_early:
                    del busy[name]
                continue
            try:
                record, lost = record or future.result(timeout=REACH), 0
            except distributed.TimeoutError:  # It has died since, and is computed again.
                future.add_done_callback(lambda future: done.put([future.key, None]))
                continue
            except distributed.scheduler.KilledWorker as error:
                count, lost = error.allowed_failures + 1, lost + 1
                who = f"{count} workers, one after another," if count > 1 else "a worker"
                text = f"{who} died in {workers.describe(cell)}, perhaps for lack of memory"
                record = workers.failed(cell, text)
            except (distributed.CancelledError, OSError):
                raise crew.scheduler_lost() from None
            except Exception as error:
                text = f"{workers.describe(cell)} could not be run: {error_line(error)}"
                raise ChildProcessError(f"{text}; {workers.GOES_ON}") from None
            if is_early:
                busy[name] = future, None
            else:
                del busy[name]
            if lost == LOST_IN_A_ROW:
                raise ChildProcessError(f"{record['failure']}; {workers.GOES_ON}")
            yield record

"""Cells of a comparison as tasks of a Dask cluster.

    for record in run(cells, "local:2"): ...
    for record in run(cells, "tcp://192.168.0.7:8786"): ...

`local:N` starts N processes here, and all that they say to each other stays on 127.0.0.1. A
scheduler of one's own has workers of one thread that import the project: same files, same versions
of the packages, checked before the run and again in every task. They read the data themselves; a
cell whose data are not the same there fails with a message. A worker gets one cell at a time, so
that one that dies loses nothing else: its cell is run again elsewhere, and fails after some deaths.
A scheduler takes a worker for dead that is silent for 5 minutes, as one kernel can be on large
data: DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL=1d in its environment makes that a day.
"""

import collections
import contextlib
import functools
import gc
import hashlib
import importlib
import json
import logging
import multiprocessing
import os
import platform
import queue
import re
import signal
import time
import uuid
from importlib import metadata
from pathlib import Path

import datasets
from perf.study import store, workers

DEATHS = 3  # of workers, after which a cell has failed; `dask scheduler` has a number of its own
LOST_IN_A_ROW = 3  # Cells: where nothing else finishes meanwhile, it is not the fault of a cell.
RETRIES = 2  # of a task that a worker cannot even begin
REACH = 10.0  # seconds to reach the scheduler, and for its workers to say what they are
PATIENCE = 30.0  # seconds without any worker until the run gives up
LATE = 2.0  # seconds in which a process that was being started is there
PULSE = 0.5  # seconds from one count of the workers to the next
PACKAGES = ("numpy", "numba", "scipy", "osqp", "distributed")  # whose versions count
SETTINGS = {  # of `local:N`
    "distributed.scheduler.allowed-failures": DEATHS - 1,
    "distributed.scheduler.worker-ttl": None,  # a kernel may keep a worker from answering for long
    # Environments as here: sums by another number of threads of BLAS may differ in the last bit.
    "distributed.nanny.pre-spawn-environ": dict.fromkeys(
        ("MALLOC_TRIM_THRESHOLD_", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    ),
}
HINT = (
    "start workers in a checkout with the same files and packages: PYTHONPATH=. dask worker "
    "ADDRESS --nthreads 1 --nworkers N"
)

_files = {}  # {data: (what tells that its file has changed, checksum)}, of this process


def check(where):
    """Refuse what names no cluster, or a run without Dask; return the number of local workers."""
    local = re.fullmatch(r"local:(\d+)", where)
    if not (local and int(local[1]) or re.fullmatch(r"(tcp|tls)://.+:\d+", where)):
        raise ValueError(f"--scheduler must be local:N or tcp://HOST:PORT, got {where!r}")
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise ImportError("--scheduler needs Dask: pip install -e '.[scale]'") from None
    return int(local[1]) if local else 0


# -- on a worker -----------------------------------------------------------------------------------


def dask_setup(worker):
    """Called by a local worker at its start: Ctrl-C is not for it, its parent ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def facts():
    """What must be the same on a worker and here, for the same bits to come out."""
    from distributed import get_worker

    try:
        threads = get_worker().state.nthreads
    except ValueError:  # this is no worker
        threads = 1
    return {"threads": threads, **_code()}


@functools.cache  # what is imported stays as it is, though files may change
def _code():
    """A hash of the files that results depend on, and the versions that they use."""
    root, digest = Path(__file__).resolve().parents[2], hashlib.sha256()
    paths = [*root.glob("solvers/**/*.py"), *root.glob("perf/**/*.py"), root / "datasets.py"]
    for path in sorted(path.relative_to(root).as_posix() for path in paths):
        digest.update(f"{path}\n{(root / path).read_text(encoding='utf-8')}\n".encode())
    versions = {name: metadata.version(name) for name in PACKAGES}
    return {"project": digest.hexdigest()[:12], "python": platform.python_version(), **versions}


def task(cell, expected, name):
    """Run one cell on a worker that is as expected; return its record.

    The scheduler has it before the task ends: a worker that dies then takes nothing with it.
    """
    from distributed import get_client, get_worker

    address = get_worker().address
    need_same(address, facts(), expected)
    try:
        _need_same_data(cell)
    except Exception as error:
        record = workers.failed(cell, f"worker {address}: {workers.told(error)}")
    else:
        record = workers.compute(cell)
    get_client().log_event(name.rpartition("-")[2], json.dumps([name, record]))
    return record


def need_same(address, theirs, ours):
    """Refuse a worker that differs from what is here."""
    found = [f"{key} {theirs[key]} and not {ours[key]}" for key in ours if theirs[key] != ours[key]]
    if found:
        raise ValueError(f"worker {address} has {', '.join(found)}; {HINT}")


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
        crew, ours, topic = Crew(client, where), facts(), uuid.uuid4().hex
        admit(client, crew, ours)
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
            try:
                record, lost = record or future.result(timeout=REACH), 0
            except distributed.TimeoutError:  # it has died since, and is computed again
                future.add_done_callback(lambda future: done.put([future.key, None]))
                continue
            except distributed.scheduler.KilledWorker as error:
                record, lost = _killed(cell, error), lost + 1
            except (distributed.CancelledError, OSError):
                raise gone(where) from None
            except Exception as error:
                text = f"{workers.describe(cell)} could not be run: {workers.told(error)}"
                raise ChildProcessError(f"{text}; {workers.GOES_ON}") from None
            del busy[name]
            future.release()  # at once: should its worker die now, it is not to be run again
            if lost == LOST_IN_A_ROW:
                raise ChildProcessError(f"{record['failure']}; {workers.GOES_ON}")
            yield record


class Crew:
    """The workers of a cluster, counted from time to time."""

    def __init__(self, client, where, then=workers.GOES_ON):
        self.client, self.where, self.then = client, where, then
        self.threads = {}  # {address: number of threads} of the workers
        self.counted, self.seen = -PULSE, time.monotonic()

    def count(self):
        """The number of workers; there may be none for a while, and the scheduler must be there."""
        now = time.monotonic()
        if now < self.counted + PULSE:
            return len(self.threads)
        try:
            if self.client.status != "running":
                raise OSError
            self.threads, self.counted = self.client.nthreads(), now
        except OSError:
            raise gone(self.where, self.then) from None
        if self.threads:
            self.seen = now
        elif now > self.seen + PATIENCE:
            none = f"the scheduler {self.where} has had no workers for {PATIENCE:g} s"
            raise ChildProcessError(f"{none}; {HINT}; {self.then}")
        return len(self.threads)


def admit(client, crew, ours):
    """Wait for workers, and refuse one that differs; of those that are busy, their tasks will."""
    import distributed

    while not crew.count():
        time.sleep(PULSE)

    def ask():  # sent as it stands, to workers that may not have the project
        return importlib.import_module("perf.study.cluster").facts()

    asked = {address: client.submit(ask, workers=[address], pure=False)
             for address in client.nthreads()}  # fmt: skip
    with contextlib.suppress(distributed.TimeoutError):
        distributed.wait(list(asked.values()), timeout=REACH)
    for address, future in asked.items():
        if future.status == "finished":
            need_same(address, future.result(timeout=REACH), ours)
        elif future.status == "error":
            text = f"worker {address} cannot be used: {workers.told(future.exception(REACH))}"
            raise ChildProcessError(f"{text}; {HINT}")


@contextlib.contextmanager
def connect(where):
    """A client of the cluster, which is started here if it is a local one."""
    count = check(where)
    import dask
    import distributed

    with contextlib.ExitStack() as stack:
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.CRITICAL)  # what matters is told by errors
        stack.callback(gc.collect)  # of what Dask has left, and would complain about later
        address = where
        if count:
            stack.enter_context(dask.config.set(SETTINGS))
            others = multiprocessing.active_children()
            with workers.without_interrupts():
                cluster = distributed.LocalCluster(
                    n_workers=count,
                    threads_per_worker=1,
                    host="127.0.0.1",
                    memory_limit=0,
                    silence_logs=logging.CRITICAL,
                    preload=[__name__],
                    scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
                )
            stack.callback(_end, cluster, others)
            address = cluster.scheduler_address
        try:
            client = distributed.Client(address, timeout=REACH)
        except OSError:
            text = f"no scheduler answers at {where}; start one: dask scheduler --host HOST"
            raise ConnectionError(text) from None
        yield stack.enter_context(client)


def _end(cluster, others):
    """Close a local cluster, so that no process is left but those that others have started.

    Dask fails to where a worker is just being started again: it takes it for started. Its processes
    are then killed, also one that is still to come, and the rest of the cluster is closed.
    """
    import distributed

    try:
        return cluster.close()
    except Exception:
        cluster.status = distributed.Status.failed  # as closing, it would wait for itself
    with contextlib.suppress(Exception):
        cluster.close(timeout=REACH)
    end = time.monotonic() + LATE
    while time.monotonic() < end:
        for process in set(multiprocessing.active_children()) - set(others):
            process.kill()
        time.sleep(LATE / 20)


def _killed(cell, error):
    """The record of a cell in which one worker after another has died."""
    count = error.allowed_failures + 1
    who = f"{count} workers, one after another," if count > 1 else "a worker"
    text = f"{who} died in {workers.describe(cell)}, perhaps for lack of memory"
    return workers.failed(cell, text)


def gone(where, then=workers.GOES_ON):
    return ConnectionError(f"the scheduler {where} has gone away; {then}")

"""Connection to a Dask cluster, and checks that its workers run the same code.

    with connect("local:2") as client: ...
    with connect("tcp://192.168.0.7:8786") as client: ...

`local:N` starts N processes, which communicate on 127.0.0.1 only. Workers of another scheduler need
the same files and package versions. A scheduler declares a worker dead after 5 minutes of silence,
which one kernel may take on large data. DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL=1d in its
environment makes that a day.
"""

import contextlib
import functools
import gc
import hashlib
import importlib
import logging
import multiprocessing
import platform
import re
import signal
import time
from importlib import metadata
from pathlib import Path

REACH = 10.0  # Seconds to reach the scheduler, and for its workers to answer.
PATIENCE = 30.0  # Seconds without any worker until the run gives up.
LATE = 2.0  # Seconds that a process may need to start.
PULSE = 0.5  # Seconds between two counts of the workers.
PACKAGES = ("numpy", "numba", "scipy", "osqp", "distributed")  # Versions must agree.
SETTINGS = {  # Of `local:N`.
    "distributed.scheduler.allowed-failures": 2,  # A third death in one task fails it.
    "distributed.scheduler.worker-ttl": None,  # A kernel may keep a worker from answering.
    # Inherit the environment: sums by another number of BLAS threads may differ in the last bit.
    "distributed.nanny.pre-spawn-environ": dict.fromkeys(
        ("MALLOC_TRIM_THRESHOLD_", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    ),
}
HINT = (
    "start workers in a checkout with the same files and packages: PYTHONPATH=. dask worker "
    "ADDRESS --nthreads 1 --nworkers N"
)


def check(where):
    """Return the number of local workers; raise an error if `where` is invalid, or Dask absent."""
    local = re.fullmatch(r"local:(\d+)", where)
    if not (local and int(local[1]) or re.fullmatch(r"(tcp|tls)://.+:\d+", where)):
        raise ValueError(f"--scheduler must be local:N or tcp://HOST:PORT, got {where!r}")
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise ImportError("--scheduler needs Dask: pip install -e '.[scale]'") from None
    return int(local[1]) if local else 0


def error_line(error):
    """Return an error as one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


@contextlib.contextmanager
def without_interrupts():
    """Start processes that ignore Ctrl-C: their parent ends them."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # Only the main thread may, and gets Ctrl-C.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# -- on a worker -----------------------------------------------------------------------------------
def dask_setup(worker):
    """Ignore Ctrl-C; a local worker calls this when it starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def fingerprint():
    """Return a dict of all that must be equal on a worker and here for equal bits."""
    from distributed import get_worker

    try:
        threads = get_worker().state.nthreads
    except ValueError:  # This is no worker.
        threads = 1
    return {"threads": threads, **_code()}


@functools.cache  # Imported code stays as it is, though files may change.
def _code():
    """Hash of the project's files, and the versions of packages."""
    package, digest = Path(__file__).resolve().parents[1], hashlib.sha256()
    paths, root = [*package.glob("**/*.py")], package.parent
    if package.name == "solvers":  # A checkout, with all that workers may import.
        paths += [*root.glob("perf/**/*.py"), root / "datasets.py"]
    for path in sorted(path.relative_to(root).as_posix() for path in paths):
        digest.update(f"{path}\n{(root / path).read_text(encoding='utf-8')}\n".encode())
    versions = {name: metadata.version(name) for name in PACKAGES}
    return {"project": digest.hexdigest()[:12], "python": platform.python_version(), **versions}


def need_same(address, theirs, ours):
    """Raise ValueError if the fingerprint of a worker differs from ours."""
    if wrong := [f"{k} {theirs[k]} and not {ours[k]}" for k in ours if theirs[k] != ours[k]]:
        raise ValueError(f"worker {address} has {', '.join(wrong)}; {HINT}")


# -- here ------------------------------------------------------------------------------------------
class Workers:
    """Workers of a cluster, {address: number of threads}, counted every PULSE seconds."""

    def __init__(self, client, where, advice):
        self.client, self.where, self.advice = client, where, advice
        self.threads, self.counted, self.seen = {}, -PULSE, time.monotonic()

    def count(self, at_once=False):
        """Return the number of workers; raise an error if the scheduler is lost, or none comes."""
        now = time.monotonic()
        if not at_once and now < self.counted + PULSE:
            return len(self.threads)
        try:
            if self.client.status != "running":
                raise OSError
            self.threads, self.counted = self.client.nthreads(), now
        except OSError:
            raise self.scheduler_lost() from None
        if self.threads:
            self.seen = now
        elif now > self.seen + PATIENCE:
            none = f"the scheduler {self.where} has had no workers for {PATIENCE:g} s"
            raise ChildProcessError(f"{none}; {HINT}; {self.advice}")
        return len(self.threads)

    def scheduler_lost(self):
        return ConnectionError(f"the scheduler {self.where} has gone away; {self.advice}")

    def admit(self, ours):
        """Wait for workers; raise an error if one differs. Tasks check those that come later."""
        while not self.count():
            time.sleep(PULSE)

        def ask(module, dask_worker):  # Sent by value, to workers that may not have the project.
            own = {"threads": dask_worker.state.nthreads}
            return importlib.import_module(module).fingerprint() | own

        for address, theirs in self.client.run(ask, __name__, on_error="return").items():
            if isinstance(theirs, OSError):  # The worker has left.
                continue
            if isinstance(theirs, Exception):
                text = f"worker {address} cannot be used: {error_line(theirs)}"
                raise ChildProcessError(f"{text}; {HINT}")
            need_same(address, theirs, ours)


@contextlib.contextmanager
def connect(where):
    """Yield a client of the cluster; start the cluster if it is a local one."""
    count = check(where)
    import dask
    import distributed

    with contextlib.ExitStack() as stack:
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.CRITICAL)  # Errors say all that matters.
        stack.callback(gc.collect)  # Else Dask complains later about leftovers.
        address = where
        if count:
            stack.enter_context(dask.config.set(SETTINGS))
            others = multiprocessing.active_children()
            with without_interrupts():
                cluster = distributed.LocalCluster(
                    n_workers=count,
                    threads_per_worker=1,
                    host="127.0.0.1",
                    memory_limit=0,
                    silence_logs=logging.CRITICAL,
                    preload=[__name__],
                    scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
                )
            stack.callback(_close, cluster, others)
            address = cluster.scheduler_address
        try:
            client = distributed.Client(address, timeout=REACH)
        except OSError:
            text = f"no scheduler answers at {where}; start one: dask scheduler --host HOST"
            raise ConnectionError(text) from None
        yield stack.enter_context(client)


def _close(cluster, others):
    """Close a local cluster; kill its processes, but not the `others`, if Dask fails to end them,
    also one that is still to come."""
    import distributed

    try:
        return cluster.close()
    except Exception:
        cluster.status = distributed.Status.failed  # Else it would wait for itself.
    with contextlib.suppress(Exception):
        cluster.close(timeout=REACH)
    end = time.monotonic() + LATE
    while time.monotonic() < end:
        for process in set(multiprocessing.active_children()) - set(others):
            process.kill()
        time.sleep(LATE / 20)

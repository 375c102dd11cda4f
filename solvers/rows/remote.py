"""Row blocks on the workers of a Dask cluster.

    blocks = datasets.blocks("parts", client=distributed.Client("tcp://192.168.0.7:8786"))
    GradientBoosting().fit(blocks)

Each block lives on one worker, with all arrays that functions attach to it. Functions travel there
and results back, pickled like all messages of Dask: trust the cluster. No file is unpickled. Blocks
of a lost worker are opened again on others, where their logged changes are replayed: that takes as
long as before. The workers free the blocks with the RemoteBlocks object, or with its process.
"""

import asyncio
import collections
import concurrent.futures
import copy
import dataclasses
import functools
import itertools
import pickle
import time
import uuid
import weakref

from . import RowBlocks, cluster
from .local import ArraySource, ChunkSource, combine

ATTEMPTS = 3  # Workers that may fail in one function on one block until it has failed.
MAX_WORKERS = 1024  # Workers that are called at a time.
ADVICE = "fit again when it is there"
MISSING, FAILED, DONE = range(3)  # States of a result.

_blocks = {}  # {(run, number): block} of this process; block.version numbers its last change.
_opened = weakref.WeakValueDictionary()  # {key of a source: BlockData} of this process.


# -- on a worker -----------------------------------------------------------------------------------
class BlockActor:
    """Dask actor that owns the blocks of one worker in one run; calls bypass the scheduler."""

    def __init__(self, run):
        self.run = run
        weakref.finalize(self, _free, run).atexit = False

    def call(self, numbers, packed, version, after, threads, add):
        """Call a packed function on blocks, `threads` of them at a time.

        version : number of the last change of the blocks; a block of another one is missing
        after : number of the change that this call is; None if it changes nothing
        add : if True, one block gets the sum of the results, the others None
        Returns {number: (state, result)}, pickled.
        """
        call = functools.partial(_call, self.run, *pickle.loads(packed), version, after)
        results, total, last = {}, None, None
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            found = (pool.map if threads > 1 else map)(call, numbers)
            for number, (state, result) in zip(numbers, found, strict=True):
                if add and state == DONE:
                    total = result if total is None else total + result
                    last, result = number, None
                results[number] = state, result
        if total is not None:
            results[last] = DONE, total
        return pickle.dumps(results)


def _call(run, function, args, version, after, number):
    """Call a function on one block; return state and result."""
    block = _blocks.get((run, number))
    if block is None or block.version != version:
        return MISSING, None
    block.version = version if after is None else None  # During a change it has none.
    try:
        result = function(block, *args)
    except Exception as error:
        return FAILED, error
    block.version = version if after is None else after
    return DONE, result


def _free(run):
    for key in [key for key in [*_blocks] if key[0] == run]:
        _blocks.pop(key, None)


def build(run, number, source, arrays, place, log, ours):
    """Open a source as a block and replay its changes; return the error that this raises, or None.

    arrays : X, y and the weights if the source does not hold them; else None
    place : rows before the block, {label: code} or None, number of the last change
    """
    from distributed import get_worker

    start, codes, version = place
    try:
        cluster.need_same(get_worker().address, cluster.fingerprint(), ours)
        data = _opened.get(source.key)
        if data is None:
            source = source if arrays is None else ArraySource(source.title, arrays, key=source.key)
            data = _opened[source.key] = source.open()
        data.recode(codes)
        block = data.block(start)
        for packed in log:
            function, args = pickle.loads(packed)
            function(block, *args)
    except Exception as error:
        return error
    block.version, _blocks[run, number] = version, block


def _info(block):
    return block.data.info()


# -- here ------------------------------------------------------------------------------------------
class RemoteBlocks(RowBlocks):
    """Row blocks on workers, with the attributes of LocalBlocks; n_jobs of a call is ignored."""

    def __init__(self, client, sources, notes, code_labels):
        self._client, self.notes, self.titles = client, [*notes], [one.title for one in sources]
        self._codes = None
        self._ours = {k: v for k, v in cluster.fingerprint().items() if k != "threads"}
        self._workers = cluster.Workers(client, client.scheduler.address, ADVICE)
        self._workers.admit(self._ours)
        self._begin(sources, [None] * len(sources))
        infos = self.map(_info)
        self.classes, self._codes, self.schema = code_labels(infos, sources[0])
        self._built.clear()  # The codes of the labels and the starts are known only now.
        self._set(infos)

    def _begin(self, sources, homes):
        self._sources, self._homes, self._built, self._actors = sources, homes, set(), {}
        self._run, self._serial, self._version = uuid.uuid4().hex, itertools.count(1), 0
        self._waiters = concurrent.futures.ThreadPoolExecutor(MAX_WORKERS)  # A thread per worker.
        self._log, self._sizes, self._starts = [], [0] * len(sources), [0] * len(sources)

    def _set(self, infos):
        self.shape, self._starts, self.is_weighted = combine(self.titles, infos)
        self._infos, self._sizes = infos, [info.n for info in infos]

    def map(self, function, *args, n_jobs=1, add=False):
        """List function(block, *args) of each block; if `add`, workers add up the results of their
        blocks, and the list is shorter."""
        return self._call(function.__name__, pickle.dumps((function, args)), None, add)

    def map_inplace(self, function, *args, n_jobs=1, add=False):
        """Map a function that modifies the blocks. The call is logged and replayed on a block that
        is lost."""
        packed, after = pickle.dumps((function, args)), next(self._serial)
        results = self._call(function.__name__, packed, after, add)
        self._version = after
        self._log.append(packed)
        return results

    def clear(self):
        """Free the arrays that functions have attached, and the log."""
        self._version, self._log = next(self._serial), []
        self._built.clear()

    def __len__(self):
        return len(self._sources)

    def __getitem__(self, chosen):
        """Return blocks of the same rows, for a slice; they share no attached array."""
        new = copy.copy(self)
        new.titles, new._whole = self.titles[chosen], self  # Workers keep the opened data.
        new._begin(self._sources[chosen], self._homes[chosen])
        new._set(self._infos[chosen])
        return new

    def _call(self, name, packed, after, add):
        """List the results of a packed function; raise the error of the first block that has one.

        Calls are repeated on the blocks of workers that were lost.
        """
        results, losses, workers = {}, collections.Counter(), self._workers
        workers.seen = time.monotonic()
        while waiting := [k for k in range(len(self)) if k not in results]:
            self._settle()
            jobs = {}
            for address in {self._homes[k] for k in waiting}:
                mine = [k for k in waiting if self._homes[k] == address]
                # A block on which a worker has died goes alone.
                numbers = [k for k in mine if not losses[k]] or mine[:1]
                job = self._waiters.submit(self._serve, address, numbers, packed, after, add)
                jobs[job] = address, numbers
            try:
                while concurrent.futures.wait(jobs, cluster.PULSE).not_done:
                    workers.count()
            except BaseException:
                workers.threads = {}  # The threads end their waits.
                raise
            for job, (address, numbers) in jobs.items():
                if job.exception() is None:
                    found = job.result().items()
                    results |= {k: result for k, result in found if result[0] != MISSING}
                    self._built -= {k for k, result in found if result[0] == MISSING}
                else:
                    self._lose(name, address, numbers, losses, job.exception())
        for k in range(len(self)):
            if results[k][0] == FAILED:
                raise results[k][1]
        results = [results[k][1] for k in range(len(self))]
        return [result for result in results if result is not None] if add else results

    def _settle(self):
        """Wait for workers; assign each homeless block to the one with the fewest rows, then the
        fewest blocks."""
        while not self._workers.count():
            time.sleep(cluster.PULSE)
        loads, homes, sizes = {at: [0, 0] for at in self._workers.threads}, self._homes, self._sizes
        for k in sorted(range(len(self)), key=lambda k: (homes[k] not in loads, -sizes[k])):
            if homes[k] not in loads:
                homes[k] = min(loads, key=loads.get)
                self._built.discard(k)
            load = loads[homes[k]]
            load[:] = load[0] + sizes[k], load[1] + 1

    def _lose(self, name, address, numbers, losses, error):
        """Count the loss of a call on blocks; raise an error after ATTEMPTS of them."""
        time.sleep(cluster.PULSE)  # The scheduler may notice late that a worker has died.
        self._workers.count(at_once=True)
        self._actors.pop(address, None)
        self._built.difference_update(numbers)
        losses.update(numbers)
        for k in numbers:
            if losses[k] == ATTEMPTS:
                place = f"{name} on {self.titles[k]}, perhaps for lack of memory"
                text = f"{ATTEMPTS} workers, one after another, died or failed in {place}"
                raise ChildProcessError(f"{text}; {address}: {cluster.error_line(error)}")

    def _serve(self, address, numbers, packed, after, add):
        """Let a worker build its missing blocks, then call a function on them."""
        for k in numbers:
            if k not in self._built:
                error = self._wait(self._build(address, k), address)
                if error is not None:
                    return {k: (FAILED, error)}
                self._built.add(k)
        if address not in self._actors:
            where = {"workers": [address], "pure": False}
            actor = self._client.submit(BlockActor, self._run, actor=True, **where)
            with self._client.as_current():
                self._actors[address] = self._wait(actor, address)
        args = self._version, after, self._workers.threads[address], add
        answer = self._actors[address].call(numbers, packed, *args)
        return pickle.loads(self._wait(answer, address))

    def _build(self, address, k):
        """Let a worker build block k; arrays in memory are sent to it. Returns a future."""
        client, source, arrays = self._client, self._sources[k], None
        if isinstance(source, ArraySource):
            (arrays,) = client.scatter([source.arrays], workers=[address], hash=False)
            source = dataclasses.replace(source, arrays=())
        elif isinstance(source, ChunkSource):
            arrays = client.compute(source.chunk)
            source = dataclasses.replace(source, chunk=None)
        place = self._starts[k], self._codes, self._version
        args = self._run, k, source, arrays, place, [*self._log], self._ours
        return client.submit(build, *args, workers=[address], pure=False)

    def _wait(self, future, address):
        """Return the result of a future; raise ChildProcessError if its worker leaves."""
        while True:
            try:
                return future.result(timeout=cluster.PULSE)
            except asyncio.TimeoutError:
                if address not in self._workers.threads:
                    raise ChildProcessError("the worker has left") from None

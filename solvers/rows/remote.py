"""Row blocks on the workers of a Dask cluster.

    blocks = datasets.blocks("parts", client=distributed.Client("tcp://192.168.0.7:8786"))
    GradientBoosting().fit(blocks)

Each block lives on one worker, with all arrays that functions attach to it. A function travels to
the blocks, its results travel back; `traffic` counts the bytes. A block that was lost is opened
again on another worker, where its logged changes are replayed; functions that had answered are not
called again. The workers free the blocks with the RemoteBlocks object, or with its process.
"""

import collections
import copy
import dataclasses
import functools
import itertools
import pickle
import queue
import time
import uuid
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from . import RowBlocks, cluster
from .local import ArraySource, ChunkSource, as_slice, combine

DEATHS = 3  # Workers that may die in one function on one block until it has failed.
SLICE = 0.25  # Seconds after which a worker returns the results that it has.
WAIT = 3.0  # Seconds for a new worker to join before the others take the blocks of a lost one.
ADVICE = "fit again when it is there"
MISSING, FAILED, DONE = range(3)  # States of a result.

_blocks = {}  # {(run, number): block} of this process; block.version numbers its last change.
_opened = weakref.WeakValueDictionary()  # {key of a source: BlockData} of this process.


# -- on a worker -----------------------------------------------------------------------------------


class BlockActor:
    """Dask actor that owns the blocks of one worker in one run.

    Calls bypass the scheduler. The blocks are freed with the last reference.
    """

    def __init__(self, run):
        self.run = run
        weakref.finalize(self, _free, run).atexit = False

    def call(self, numbers, packed, version, after, threads, add):
        """Call a packed function on blocks, one after another, for about SLICE seconds.

        version : number of the last change of the blocks; a block of another one is missing
        after : number of the change that this call is; None if it changes nothing
        add : if True, one block gets the sum of the results, the others None
        Returns {number: (state, result)}, pickled.
        """
        call = functools.partial(_call, self.run, *pickle.loads(packed), version, after)
        begin, results = time.monotonic(), {}
        if threads > 1:
            with ThreadPoolExecutor(threads) as pool:
                results = dict(zip(numbers, pool.map(call, numbers), strict=True))
            numbers = ()
        for number in numbers:
            results[number] = call(number)
            results = _add_results(results) if add else results
            if time.monotonic() - begin > SLICE:
                break
        return pickle.dumps(_add_results(results) if add else results)


def _call(run, function, args, version, after, number):
    """Call a function on one block; return state and result."""
    block = _blocks.get((run, number))
    if block is None or block.version != version:
        return MISSING, None
    block.version = version if after is None else None  # During a change it has none.
    try:
        result = function(block, *args)
    except Exception as error:
        return FAILED, _portable(error)
    block.version = version if after is None else after
    return DONE, result


def _add_results(results):
    """Replace the results of finished blocks by one, their sum."""
    done = [k for k, (state, result) in results.items() if state == DONE and result is not None]
    for k in done[1:]:
        results[done[0]] = DONE, results[done[0]][1] + results[k][1]
        results[k] = DONE, None
    return results


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
        return _portable(error)
    block.version, _blocks[run, number] = version, block


def _portable(error):
    """Return the error, or one with its text if it cannot be pickled."""
    try:
        return pickle.loads(pickle.dumps(error))
    except Exception:
        return ChildProcessError(cluster.error_line(error))


def _info(block):
    """BlockInfo of a block. Does not read X."""
    return block.data.info()


# -- here ------------------------------------------------------------------------------------------


class Traffic(NamedTuple):
    """Bytes sent to the workers and received from them by one call, without Dask's own."""

    function: str
    sent: int
    received: int


class RemoteBlocks(RowBlocks):
    """Row blocks on workers; attributes of LocalBlocks, and `traffic`, a list of Traffic.

    n_jobs of a call is ignored: each worker is a process.
    """

    def __init__(self, client, sources, notes, code_labels):
        self._client, self.notes, self.titles = client, [*notes], [one.title for one in sources]
        self.classes = self.schema = self._codes = None
        self._ours = {k: v for k, v in cluster.fingerprint().items() if k != "threads"}
        self._workers = cluster.Workers(client, client.scheduler.address, ADVICE)
        self._workers.admit(self._ours)
        self._begin(sources, [None] * len(sources))
        infos = [source.info() for source in sources]
        if None in infos:
            infos = self.map(_info)
            self.classes, self._codes, self.schema = code_labels(infos, sources[0])
            self._built.clear()  # The codes of the labels are known only now.
        self._set(infos)

    def _begin(self, sources, homes):
        self._sources, self._homes, self._built, self._actors = sources, homes, set(), {}
        self._run, self._serial, self.traffic = uuid.uuid4().hex, itertools.count(1), []
        self._version, self._log = 0, []
        self._lost, self._crowd = -WAIT, 0  # Time when a worker left; number of workers before.
        self._sizes = self._starts = [0] * len(sources)

    def _set(self, infos):
        self.shape, self._starts, self.is_weighted = combine(self.titles, infos)
        self._infos, self._sizes = infos, [info.n for info in infos]

    def map(self, function, *args, n_jobs=1, add=False):
        """List function(block, *args) of each block; if `add`, workers add up the results of their
        blocks, and the list is shorter."""
        return _Call(self, function, args, add=add).run()

    def map_inplace(self, function, *args, n_jobs=1, add=False):
        """Map a function that modifies the blocks. The call is logged and replayed on a block that
        is lost."""
        call = _Call(self, function, args, next(self._serial), add)
        results = call.run()
        self._version = call.after
        self._log.append(call.packed)
        return results

    def log_position(self):
        return len(self._log)

    def compact_log(self, position, function, *args):
        self._log[position:] = [_pack(function, args)]

    def clear(self):
        """Free the arrays that functions have attached, and the log."""
        self._version, self._log = next(self._serial), []
        self._built.clear()

    def __len__(self):
        return len(self._sources)

    def __getitem__(self, chosen):
        """Return blocks of the same rows, for a slice; they share no attached array."""
        new, chosen = copy.copy(self), as_slice(chosen)
        new.titles, new._whole = self.titles[chosen], self  # Workers keep the opened data.
        new._begin(self._sources[chosen], self._homes[chosen])
        new._set(self._infos[chosen])
        return new

    def _settle(self, numbers):
        """Assign each block to the worker with the fewest rows, then the fewest blocks."""
        loads = {address: [0, 0] for address in self._workers.threads}
        for k in sorted(range(len(self)), key=lambda k: (k in numbers, -self._sizes[k])):
            if k in numbers:
                self._homes[k] = min(loads, key=loads.get)
            if load := loads.get(self._homes[k]):
                load[:] = load[0] + self._sizes[k], load[1] + 1


def _pack(function, args):
    try:
        return pickle.dumps((function, args))
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        hint = "pass a function of a module that workers can import, and plain arguments"
        text = f"blocks: {function!r} cannot be sent to workers ({error}); {hint}"
        raise ValueError(text) from None


class _Task(NamedTuple):
    """Work of one worker: a block that it builds, with a future, or a call on some blocks."""

    address: str
    numbers: list
    future: object = None


class _Call:
    """Call of one function on all blocks, repeated until all have answered."""

    def __init__(self, blocks, function, args, after=None, add=False):
        self.blocks, self.name, self.after, self.add = blocks, function.__name__, after, add
        self.packed, self.keys = _pack(function, args), itertools.count()
        self.busy, self.results, self.done = {}, {}, queue.SimpleQueue()
        self.deaths, self.failures = collections.Counter(), collections.Counter()
        self.sent = self.received = 0

    def run(self):
        """List the results; raise the error of the first block that has one."""
        self.blocks._workers.seen = time.monotonic()
        while len(self.results) < len(self.blocks):
            self.find_losses()
            self.send()
            self.receive()
        self.blocks.traffic.append(Traffic(self.name, self.sent, self.received))
        results = [self.results[k] for k in range(len(self.blocks))]
        for state, result in results:
            if state == FAILED:
                raise result
        return [result for _, result in results if not self.add or result is not None]

    def find_losses(self):
        """Find the workers that have left, and the blocks and tasks lost with them."""
        blocks, workers = self.blocks, self.blocks._workers
        workers.count()
        for key, task in [*self.busy.items()]:
            if task.address not in workers.threads:
                self.lose(key)
        for k, home in enumerate(blocks._homes):
            if home is not None and home not in workers.threads:
                blocks._homes[k], blocks._lost = None, time.monotonic()
                blocks._built.discard(k)
                blocks._actors.pop(home, None)

    def lose(self, key):
        """Drop the task of a worker that has died; raise an error after DEATHS of them."""
        for k in self.busy.pop(key).numbers:
            self.deaths[k] += 1
            if self.deaths[k] == DEATHS:
                place = f"{self.name} on {self.blocks.titles[k]}"
                text = f"{DEATHS} workers, one after another, died in {place}"
                raise ChildProcessError(f"{text}, perhaps for lack of memory")

    def send(self):
        """Let every idle worker build one block, or else call the function on its blocks."""
        blocks, threads = self.blocks, self.blocks._workers.threads
        under_way = {k for task in self.busy.values() for k in task.numbers}
        waiting = [k for k in range(len(blocks)) if k not in self.results and k not in under_way]
        late = len(threads) >= blocks._crowd or time.monotonic() > blocks._lost + WAIT
        homeless = [k for k in waiting if blocks._homes[k] is None]
        if threads and homeless and late:
            blocks._settle(homeless)
            blocks._crowd = len(threads)
        for address in threads.keys() - {task.address for task in self.busy.values()}:
            mine = [k for k in waiting if blocks._homes[k] == address]
            if raw := [k for k in mine if k not in blocks._built]:
                self.send_source(address, raw[0])
            elif mine:  # A block on which a worker has died goes alone.
                self.send_call(address, mine[:1] if self.deaths[mine[0]] else mine)

    def send_source(self, address, k):
        """Let a worker build block k; arrays in memory are sent to it."""
        import distributed

        blocks, client, source = self.blocks, self.blocks._client, self.blocks._sources[k]
        arrays, where = None, {"workers": [address], "pure": False}
        if address not in blocks._actors:
            blocks._actors[address] = client.submit(BlockActor, blocks._run, actor=True, **where)
        if isinstance(source, ArraySource):
            try:
                (arrays,) = client.scatter([source.arrays], workers=[address], hash=False)
            except (distributed.TimeoutError, OSError, KeyError, ValueError):
                return time.sleep(cluster.PULSE)  # The worker has just left.
            source = dataclasses.replace(source, arrays=())
        elif isinstance(source, ChunkSource):
            arrays = client.compute(source.chunk)
            source = dataclasses.replace(source, chunk=None)
        place = blocks._starts[k], blocks._codes, blocks._version
        args = source, arrays, place, [*blocks._log], blocks._ours
        future = client.submit(build, blocks._run, k, *args, **where)
        self.busy[key := next(self.keys)] = _Task(address, [k], future)
        future.add_done_callback(functools.partial(_report, self.done, key))

    def send_call(self, address, numbers):
        """Call the function on blocks of a worker, by its actor."""
        import distributed

        blocks, key, actor = self.blocks, next(self.keys), self.blocks._actors[address]
        self.busy[key] = _Task(address, numbers)
        try:
            if isinstance(actor, distributed.Future):
                with blocks._client.as_current():
                    actor = blocks._actors[address] = actor.result(timeout=cluster.REACH)
            args = blocks._version, self.after, blocks._workers.threads[address], self.add
            answer = actor.call(numbers, self.packed, *args)
        except Exception as error:
            return self.miss(key, error)
        self.sent += len(self.packed)
        blocks._client.loop.add_callback(_listen, self.done, key, answer)

    def receive(self):
        """Take the next answer, if one comes within PULSE seconds."""
        try:
            key, answer, error = self.done.get(timeout=cluster.PULSE)
        except queue.Empty:
            return
        if key not in self.busy:
            return
        if error is not None:
            return self.miss(key, error)
        task = self.busy.pop(key)
        if task.future is not None:
            if answer is not None:
                raise answer
            return self.blocks._built.update(task.numbers)
        self.received += len(answer)
        for k, result in pickle.loads(answer).items():
            if result[0] == MISSING:
                self.blocks._built.discard(k)
            else:
                self.results[k] = result

    def miss(self, key, error):
        """Drop a task that did not reach its worker, which has left or was restarted."""
        blocks, workers, address = self.blocks, self.blocks._workers, self.busy[key].address
        workers.count(at_once=True)
        if address not in workers.threads:
            return self.lose(key)
        self.failures[address] += 1
        if self.failures[address] == DEATHS:
            text = f"worker {address} does not work: {cluster.error_line(error)}"
            raise ChildProcessError(text)
        blocks._built.difference_update(self.busy.pop(key).numbers)
        blocks._actors.pop(address, None)
        time.sleep(cluster.PULSE)


def _report(done, key, future):
    """Queue the answer of a task, or the error that kept it from running."""
    try:
        done.put((key, future.result(timeout=cluster.REACH), None))
    except Exception as error:
        done.put((key, None, error))


async def _listen(done, key, answer):
    """Queue the answer of an actor, or its error."""
    try:
        done.put((key, await answer, None))
    except Exception as error:
        done.put((key, None, error))

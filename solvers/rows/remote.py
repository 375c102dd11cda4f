"""Row blocks on the workers of a Dask cluster.

    blocks = datasets.blocks("parts", client=distributed.Client("tcp://192.168.0.7:8786"))
    GradientBoosting().fit(blocks)

Each block lives on one worker, with all arrays that functions attach to it. A function travels to
the blocks, its results travel back; `traffic` counts the bytes. A block that was lost is opened
again on another worker, where its logged changes are replayed; functions that had answered are not
called again. The workers free the blocks with the RemoteBlocks object, or with its process.
"""

import collections
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
from .local import as_slice, combine
from .sources import ArraySource, ChunkSource

DEATHS = 3  # Workers that may die in one function on one block until it has failed.
SLICE = 0.25  # Seconds after which a worker returns the results that it has.
FULL = 1.2  # Times its fair share of rows: above, a worker gets no chunk for having it already.
WAIT = 3.0  # Seconds for a new worker to join before the others take the blocks of a lost one.
ADVICE = "fit again when it is there"
UNREACHED = (OSError, KeyError, RuntimeError)  # Errors of calls to an actor that is not there.
MISSING, FAILED, DONE = range(3)  # States of a result.

_blocks = {}  # {(run, number): _VersionedBlock} of this process.
_opened = weakref.WeakValueDictionary()  # {key of a source: BlockData} of this process.


# -- on a worker -----------------------------------------------------------------------------------


class _VersionedBlock:
    """Block on a worker, and the number of its last change; None during a change."""

    def __init__(self, block, version):
        self.block, self.version = block, version


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
        if threads > 1:
            with ThreadPoolExecutor(threads) as pool:
                results = dict(zip(numbers, pool.map(call, numbers), strict=True))
            return pickle.dumps(_add_results(results) if add else results)
        begin, results = time.monotonic(), {}
        for number in numbers:
            results[number] = call(number)
            results = _add_results(results) if add else results
            if time.monotonic() - begin > SLICE:
                break
        return pickle.dumps(results)


def _call(run, function, args, version, after, number):
    """Call a function on one block; return state and result."""
    versioned = _blocks.get((run, number))
    if versioned is None or versioned.version != version:
        return MISSING, None
    if after is not None:
        versioned.version = None
    try:
        result = function(versioned.block, *args)
    except Exception as error:
        return FAILED, _portable(error)
    versioned.version = version if after is None else after
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
    """Open a source as a block and replay its changes.

    arrays : X, y and the weights if the source does not hold them; else None
    place : rows before the block, {label: code} or None, number of the last change
    """
    from distributed import get_worker

    start, codes, version = place
    cluster.need_same(get_worker().address, cluster.fingerprint(), ours)
    data = _opened.get(source.key)
    if data is None:
        source = source if arrays is None else ArraySource(source.key, source.title, arrays)
        data = _opened[source.key] = source.open()
    data.recode(codes)
    block = data.block(start)
    for packed in log:
        function, args = pickle.loads(packed)
        function(block, *args)
    _blocks[run, number] = _VersionedBlock(block, version)


def _portable(error):
    """Return the error, or one with its text if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return ChildProcessError(cluster.error_line(error))
    return error


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
        self.notes, self.titles = [*notes], [source.title for source in sources]
        self.classes = self.schema = None
        self._ours = {k: v for k, v in cluster.fingerprint().items() if k != "threads"}
        self._workers = cluster.Workers(client, client.scheduler.address, ADVICE)
        self._workers.admit(self._ours)
        self._begin(client, sources, [None] * len(sources))
        infos = [source.info() for source in sources]
        if None in infos:
            infos = self.map(_info)
            self.classes, self._codes, self.schema = code_labels(infos, sources[0])
            self._built.clear()  # The codes of the labels are known only now.
        self._set(infos)

    def _begin(self, client, sources, homes):
        self._client, self._sources, self._homes = client, sources, homes
        self._run, self._serial, self.traffic = uuid.uuid4().hex, itertools.count(1), []
        self._version, self._log = 0, []
        self._built, self._actors, self._chunks = set(), {}, {}
        self._lost, self._crowd = -WAIT, 0  # Time when a worker left; number of workers before.
        self._sizes, self._starts, self._codes = [1] * len(sources), [0] * len(sources), None

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
        new, chosen = object.__new__(RemoteBlocks), as_slice(chosen)
        new.notes, new.classes, new.schema = self.notes, self.classes, self.schema
        new.titles = self.titles[chosen]
        new._ours, new._workers, new._whole = self._ours, self._workers, self
        new._begin(self._client, self._sources[chosen], self._homes[chosen])
        new._codes = self._codes
        new._set(self._infos[chosen])
        return new

    def _settle(self, numbers):
        """Assign each block to the worker with the fewest rows, or to one that has its chunk."""
        loads = dict.fromkeys(self._workers.threads, 0)
        for home, size in zip(self._homes, self._sizes, strict=True):
            if home in loads:
                loads[home] += size
        fair = FULL * sum(self._sizes) / len(loads)
        holders = self._holders(numbers)
        for k in sorted(numbers, key=lambda k: -self._sizes[k]):
            near = [a for a in holders.get(k, ()) if loads.get(a, fair) + self._sizes[k] <= fair]
            self._homes[k] = min(near or loads, key=loads.get)
            loads[self._homes[k]] += self._sizes[k]

    def _holders(self, numbers):
        """Compute the chunks of a Dask array; return {block: workers that have its chunk}."""
        chunks = [k for k in numbers if isinstance(self._sources[k], ChunkSource)]
        if not chunks:
            return {}
        futures = self._client.compute([self._sources[k].chunk for k in chunks])
        while not all(future.done() for future in futures):
            self._workers.count()
            time.sleep(cluster.PULSE / 20)
        self._chunks.update(zip(chunks, futures, strict=True))
        where = self._client.who_has(futures)
        return {k: where.get(future.key, ()) for k, future in self._chunks.items()}


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
            self.blocks._chunks.pop(k, None)
            self.deaths[k] += 1
            if self.deaths[k] == DEATHS:
                where = f"{self.name} on {self.blocks.titles[k]}"
                text = f"{DEATHS} workers, one after another, died in {where}"
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
            elif mine:
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
            source = source._replace(arrays=())
        elif isinstance(source, ChunkSource):
            arrays = blocks._chunks.get(k) or client.compute(source.chunk)
            source = source._replace(chunk=None)
        place = blocks._starts[k], blocks._codes, blocks._version
        args = source, arrays, place, [*blocks._log], blocks._ours
        future = client.submit(build, blocks._run, k, *args, **where)
        self.busy[key := next(self.keys)] = _Task(address, [k], future)
        future.add_done_callback(lambda future: self.done.put((key, None)))

    def send_call(self, address, numbers):
        """Call the actor of a worker. A block on which a worker has died goes alone."""
        import distributed

        blocks, key, actor = self.blocks, next(self.keys), self.blocks._actors[address]
        self.busy[key] = _Task(address, numbers)
        lost = distributed.TimeoutError, distributed.CancelledError
        try:
            if isinstance(actor, distributed.Future):
                with blocks._client.as_current():
                    actor = blocks._actors[address] = actor.result(timeout=cluster.REACH)
            args = blocks._version, self.after, blocks._workers.threads[address], self.add
            answer = actor.call(numbers, self.packed, *args)
        except (*lost, distributed.scheduler.KilledWorker, *UNREACHED) as error:
            return self.miss(key, error)
        self.sent += len(self.packed)
        blocks._client.loop.add_callback(_listen, answer, key, self.done)

    def miss(self, key, error):
        """Drop a task whose worker cannot be reached: it has left, or was restarted."""
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
        time.sleep(cluster.PULSE / 10)

    def receive(self):
        """Take the next answer, if one comes within PULSE seconds."""
        try:
            key, answer = self.done.get(timeout=cluster.PULSE)
        except queue.Empty:
            return
        if key in self.busy:
            self.take(key, answer) if self.busy[key].future is None else self.take_built(key)

    def take_built(self, key):
        """Note that a block has been built; raise its error if it cannot be."""
        import distributed

        blocks, task = self.blocks, self.busy[key]
        try:
            task.future.result(timeout=cluster.REACH)
        except distributed.TimeoutError:  # Its worker has died since.
            if task.future.status == "error":
                raise
            return task.future.add_done_callback(lambda future: self.done.put((key, None)))
        except distributed.scheduler.KilledWorker:
            return self.lose(key)
        except (distributed.CancelledError, OSError) as error:
            if task.future.status == "error":
                raise
            return self.miss(key, error)  # Arrays sent to the worker are lost with it.
        del self.busy[key]
        blocks._built.update(task.numbers)
        blocks._chunks.pop(*task.numbers, None)

    def take(self, key, answer):
        """Store the results of a call; or drop the task if the worker cannot be reached."""
        if isinstance(answer, UNREACHED):
            return self.miss(key, answer)
        if isinstance(answer, BaseException):
            raise answer
        del self.busy[key]
        self.received += len(answer)
        for k, result in pickle.loads(answer).items():
            if result[0] == MISSING:
                self.blocks._built.discard(k)
            else:
                self.results[k] = result


async def _listen(answer, key, done):
    """Queue the answer of an actor, or its error."""
    try:
        done.put((key, await answer))
    except Exception as error:
        done.put((key, error))

"""Row blocks on the workers of a Dask cluster.

    blocks = datasets.blocks("parts", client=distributed.Client("tcp://192.168.0.7:8786"))
    GradientBoosting().fit(blocks)

Each block stays on one worker, with all that steps keep with it: a step travels to the blocks, and
what it returns for them travels back; `moved` tells how many bytes. The workers
are those of perf/study/cluster.py: processes that import the same files. A block that was lost is
opened anew on another one, where the changes that were made to it are repeated; then only steps
that had not answered are sent again. Blocks are forgotten by the workers when their object goes,
or the process that it lives in.
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

import datasets
from perf.study import cluster, workers
from solvers.rows import RowBlocks

DEATHS = 3  # of workers, in one step on one block, after which that step has failed
SLICE = 0.25  # seconds after which a worker answers for the blocks it has done, and gets the others
FULL = 1.2  # of its fair share of the rows: above, a worker gets no chunk just because it has it
WAIT = 3.0  # seconds for another worker to join before the blocks of a lost one go to those left
THEN = "fit again when it is there"
UNREACHED = (OSError, KeyError, RuntimeError)  # what a call of a keeper that is not there raises
MISSING, FAILED, DONE = range(3)  # how a block has answered

_held = {}  # {(run, number): _Held} of this process
_opened = weakref.WeakValueDictionary()  # {key of a part: its Rows} of this process


# -- on a worker -----------------------------------------------------------------------------------


class _Held:
    """A block, and the number of the last change that was made to it, None in the midst of one."""

    def __init__(self, block, version):
        self.block, self.version = block, version


class Keeper:
    """The blocks of a run on one worker: an actor of Dask, which calls reach without delay, and
    which goes when nobody wants it any more; the blocks go with it."""

    def __init__(self, run):
        self.run = run
        weakref.finalize(self, _forget, run).atexit = False

    def work(self, numbers, packed, version, after, threads, add):
        """Take a step on some blocks; one after another, until SLICE seconds have gone by.

        version : the number of the last change of the blocks; one that differs is missing
        after : None, or the number of the change that this step is
        add : whether answers are to be added up: one block has the sum then, the others None
        Returns {number: (how, answer)}, pickled.
        """
        call = functools.partial(_take, self.run, *pickle.loads(packed), version, after)
        if threads > 1:
            with ThreadPoolExecutor(threads) as pool:
                answers = dict(zip(numbers, pool.map(call, numbers), strict=True))
            return pickle.dumps(_added(answers) if add else answers)
        begin, answers = time.monotonic(), {}
        for number in numbers:
            answers[number] = call(number)
            answers = _added(answers) if add else answers
            if time.monotonic() - begin > SLICE:
                break
        return pickle.dumps(answers)


def _take(run, step, args, version, after, number):
    """Take a step on one block: how it has answered, and what."""
    held = _held.get((run, number))
    if held is None or held.version != version:
        return MISSING, None
    if after is not None:
        held.version = None
    try:
        answer = step(held.block, *args)
    except Exception as error:
        return FAILED, _portable(error)
    held.version = version if after is None else after
    return DONE, answer


def _added(answers):
    """The same answers, but those of blocks that have done their step as one, their sum."""
    done = [k for k, (how, answer) in answers.items() if how == DONE and answer is not None]
    for k in done[1:]:
        answers[done[0]] = DONE, answers[done[0]][1] + answers[k][1]
        answers[k] = DONE, None
    return answers


def _forget(run):
    for key in [key for key in [*_held] if key[0] == run]:
        _held.pop(key, None)


def build(run, number, part, arrays, place, log, ours):
    """Open a part as a block and repeat its changes.

    arrays : None, or X, y and the weights, where the part does not find them itself
    place : the rows before the block, codes of labels, and the number of the last change
    """
    from distributed import get_worker

    start, codes, version = place
    cluster.need_same(get_worker().address, cluster.facts(), ours)
    rows = _opened.get(part.key)
    if rows is None:
        part = part if arrays is None else datasets.ArrayPart(part.key, part.title, arrays)
        rows = _opened[part.key] = part.open()
    rows.recode(codes)
    block = datasets.Block(rows, start)
    for packed in log:
        step, args = pickle.loads(packed)
        step(block, *args)
    _held[run, number] = _Held(block, version)


def _portable(error):
    """The error itself, or one that says the same where it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return ChildProcessError(workers.told(error))
    return error


def _labels(block):
    """What is known of a part once it has been read. Reads no X."""
    return block._rows.facts()


# -- here ------------------------------------------------------------------------------------------


class Moved(NamedTuple):
    """Bytes that a step has sent to the workers and got from them, without Dask's own."""

    step: str
    sent: int
    received: int


class Blocks(RowBlocks):
    """Row blocks on workers; attributes as those of datasets.Blocks, and `moved`, a list of Moved.

    n_jobs, which steps are called with, counts for nothing: each worker is a process of its own.
    """

    def __init__(self, client, parts, notes=(), positive=None):
        self.notes, self.titles = [*notes], [part.title for part in parts]
        self.classes = self.schema = None
        self._ours = {k: v for k, v in cluster.facts().items() if k != "threads"}
        self._crew = cluster.Crew(client, client.scheduler.address, THEN)
        cluster.admit(client, self._crew, self._ours)
        self._begin(client, parts, [None] * len(parts))
        facts = [part.facts() for part in parts]
        if None in facts:
            facts = self.map(_labels)
            self.classes, self._codes = datasets.common_classes(facts, parts[0].title, positive)
            how = parts[0], facts[0].d, self.classes, self._codes
            self.schema = datasets.common_schema(*how)
            self._built.clear()  # the codes of their labels are known only now
        self._set(facts)

    def _begin(self, client, parts, homes):
        self._client, self._parts, self._homes = client, parts, homes
        self._run, self._serial, self.moved = uuid.uuid4().hex, itertools.count(1), []
        self._version, self._log = 0, []
        self._built, self._keepers, self._chunks = set(), {}, {}
        self._lost, self._crowd = -WAIT, 0  # when a worker has left, and how many there were
        self._sizes, self._starts, self._codes = [1] * len(parts), [0] * len(parts), None

    def _set(self, facts):
        self.shape, self._starts, self.is_weighted = datasets.combine(self.titles, facts)
        self._facts, self._sizes = facts, [part.n for part in facts]

    def map(self, step, *args, n_jobs=1, add=False):
        """[step(block, *args) for each block]; if `add`, workers add up what their blocks return,
        and the list is shorter."""
        return _Round(self, step, args, add=add).run()

    def change(self, step, *args, n_jobs=1, add=False):
        """The same for a step that changes what blocks keep; it is noted, to be repeated."""
        turn = _Round(self, step, args, next(self._serial), add)
        answers = turn.run()
        self._version = turn.after
        self._log.append(turn.packed)
        return answers

    map_inplace = change

    def mark(self):
        """A place among the changes, for `shorten`."""
        return len(self._log)

    def shorten(self, mark, step, *args):
        """Let one step stand for the changes since a mark where they must be repeated."""
        self._log[mark:] = [_pack(step, args)]

    def clear(self):
        """Let go what steps have kept, and the changes."""
        self._version, self._log = next(self._serial), []
        self._built.clear()

    def close(self):
        """Let the workers forget the blocks."""
        self._keepers.clear()
        self._built.clear()

    def __len__(self):
        return len(self._parts)

    def __getitem__(self, some):
        """Blocks of the same rows, some of them, that share nothing that is kept."""
        new, some = object.__new__(Blocks), datasets.slice_of(some)
        new.notes, new.classes, new.schema = self.notes, self.classes, self.schema
        new.titles = self.titles[some]
        new._ours, new._crew, new._whole = self._ours, self._crew, self
        new._begin(self._client, self._parts[some], self._homes[some])
        new._codes = self._codes
        new._set(self._facts[some])
        return new

    def _settle(self, numbers):
        """Give homeless blocks the worker with the fewest rows, or one that has their chunk."""
        loads = dict.fromkeys(self._crew.threads, 0)
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
        """{block: workers} that have the chunk of a Dask array, which is computed for that."""
        chunks = [k for k in numbers if isinstance(self._parts[k], datasets.ChunkPart)]
        if not chunks:
            return {}
        futures = self._client.compute([self._parts[k].chunk for k in chunks])
        while not all(future.done() for future in futures):
            self._crew.count()
            time.sleep(cluster.PULSE / 20)
        self._chunks.update(zip(chunks, futures, strict=True))
        where = self._client.who_has(futures)
        return {k: where.get(future.key, ()) for k, future in self._chunks.items()}


def _pack(step, args):
    try:
        return pickle.dumps((step, args))
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        hint = "a step is a function of a module that workers can import, with plain arguments"
        raise ValueError(f"blocks: {step!r} cannot be sent to workers ({error}); {hint}") from None


class _Task(NamedTuple):
    """What a worker is doing: it builds a block, which has a future, or takes a step on some."""

    address: str
    numbers: list
    future: object = None


class _Round:
    """One step on all blocks, until all have answered."""

    def __init__(self, blocks, step, args, after=None, add=False):
        self.blocks, self.name, self.after, self.add = blocks, step.__name__, after, add
        self.packed, self.keys = _pack(step, args), itertools.count()
        self.busy, self.answers, self.done = {}, {}, queue.SimpleQueue()
        self.deaths, self.failures = collections.Counter(), collections.Counter()
        self.bytes = collections.Counter()

    def run(self):
        """List the answers; of errors, the first block's is raised."""
        self.blocks._crew.seen = time.monotonic()
        while len(self.answers) < len(self.blocks):
            self.watch()
            self.send()
            self.hear()
        self.blocks.moved.append(Moved(self.name, self.bytes["sent"], self.bytes["received"]))
        for k in range(len(self.blocks)):
            if self.answers[k][0] == FAILED:
                raise self.answers[k][1]
        answers = [self.answers[k][1] for k in range(len(self.blocks))]
        return [answer for answer in answers if answer is not None] if self.add else answers

    def watch(self):
        """See which workers have left, and with them blocks."""
        blocks, crew = self.blocks, self.blocks._crew
        crew.count()
        for key, task in [*self.busy.items()]:
            if task.address not in crew.threads:
                self.lose(key)
        for k, home in enumerate(blocks._homes):
            if home is not None and home not in crew.threads:
                blocks._homes[k], blocks._lost = None, time.monotonic()
                blocks._built.discard(k)
                blocks._keepers.pop(home, None)

    def lose(self, key):
        """A worker has died in a task; after some deaths that is the end."""
        for k in self.busy.pop(key).numbers:
            self.blocks._chunks.pop(k, None)
            self.deaths[k] += 1
            if self.deaths[k] == DEATHS:
                where = f"{self.name} on {self.blocks.titles[k]}"
                text = f"{DEATHS} workers, one after another, died in {where}"
                raise ChildProcessError(f"{text}, perhaps for lack of memory")

    def send(self):
        """Let every worker that has time build a block, or else take the step on its blocks."""
        blocks, threads = self.blocks, self.blocks._crew.threads
        under_way = {k for task in self.busy.values() for k in task.numbers}
        waiting = [k for k in range(len(blocks)) if k not in self.answers and k not in under_way]
        late = len(threads) >= blocks._crowd or time.monotonic() > blocks._lost + WAIT
        homeless = [k for k in waiting if blocks._homes[k] is None]
        if threads and homeless and late:
            blocks._settle(homeless)
            blocks._crowd = len(threads)
        for address in threads.keys() - {task.address for task in self.busy.values()}:
            mine = [k for k in waiting if blocks._homes[k] == address]
            if raw := [k for k in mine if k not in blocks._built]:
                self.send_part(address, raw[0])
            elif mine:
                self.send_step(address, mine[:1] if self.deaths[mine[0]] else mine)

    def send_part(self, address, k):
        """Let a worker build a block: of a file, or of arrays that are sent to it."""
        import distributed

        blocks, client, part, arrays = self.blocks, self.blocks._client, self.blocks._parts[k], None
        where = {"workers": [address], "pure": False}
        if address not in blocks._keepers:
            blocks._keepers[address] = client.submit(Keeper, blocks._run, actor=True, **where)
        if isinstance(part, datasets.ArrayPart):
            try:
                (arrays,) = client.scatter([part.arrays], workers=[address], hash=False)
            except (distributed.TimeoutError, OSError, KeyError, ValueError):
                return time.sleep(cluster.PULSE)  # the worker has just left, as will be seen
            part = part._replace(arrays=())
        elif isinstance(part, datasets.ChunkPart):
            arrays = blocks._chunks.get(k) or client.compute(part.chunk)
            part = part._replace(chunk=None)
        place = blocks._starts[k], blocks._codes, blocks._version
        how = part, arrays, place, [*blocks._log], blocks._ours
        future = client.submit(build, blocks._run, k, *how, **where)
        self.busy[key := next(self.keys)] = _Task(address, [k], future)
        future.add_done_callback(lambda future: self.done.put((key, None)))

    def send_step(self, address, numbers):
        """Call the keeper of a worker; one in which a worker has died goes alone."""
        import distributed

        blocks, key, keeper = self.blocks, next(self.keys), self.blocks._keepers[address]
        threads = blocks._crew.threads[address]
        self.busy[key] = _Task(address, numbers)
        try:
            if isinstance(keeper, distributed.Future):
                with blocks._client.as_current():
                    keeper = blocks._keepers[address] = keeper.result(timeout=cluster.REACH)
            how = self.after, threads, self.add
            call = keeper.work(numbers, self.packed, blocks._version, *how)
        except (
            distributed.TimeoutError,
            distributed.CancelledError,
            distributed.scheduler.KilledWorker,
            *UNREACHED,
        ) as error:
            return self.miss(key, error)
        self.bytes["sent"] += len(self.packed)
        blocks._client.loop.add_callback(_listen, call, key, self.done)

    def miss(self, key, error):
        """A keeper cannot be reached: its worker has left, or has begun anew."""
        blocks, crew, address = self.blocks, self.blocks._crew, self.busy[key].address
        crew.counted = -cluster.PULSE
        crew.count()
        if address not in crew.threads:
            return self.lose(key)
        self.failures[address] += 1
        if self.failures[address] == DEATHS:
            raise ChildProcessError(f"worker {address} does not work: {workers.told(error)}")
        blocks._built.difference_update(self.busy.pop(key).numbers)
        blocks._keepers.pop(address, None)
        time.sleep(cluster.PULSE / 10)

    def hear(self):
        """Take the next answer, if one comes soon."""
        try:
            key, answer = self.done.get(timeout=cluster.PULSE)
        except queue.Empty:
            return
        if key in self.busy:
            self.take(key, answer) if self.busy[key].future is None else self.take_part(key)

    def take_part(self, key):
        """A block has been built, or cannot be."""
        import distributed

        blocks, task = self.blocks, self.busy[key]
        try:
            task.future.result(timeout=cluster.REACH)
        except distributed.TimeoutError:  # its worker has died since
            if task.future.status == "error":
                raise
            return task.future.add_done_callback(lambda future: self.done.put((key, None)))
        except distributed.scheduler.KilledWorker:
            return self.lose(key)
        except (distributed.CancelledError, OSError):
            if task.future.status == "error":
                raise
            raise cluster.gone(blocks._crew.where, THEN) from None
        del self.busy[key]
        blocks._built.update(task.numbers)
        blocks._chunks.pop(*task.numbers, None)

    def take(self, key, answer):
        """Blocks have answered, or cannot be reached."""
        if isinstance(answer, UNREACHED):
            return self.miss(key, answer)
        if isinstance(answer, BaseException):
            raise answer
        del self.busy[key]
        self.bytes["received"] += len(answer)
        for k, found in pickle.loads(answer).items():
            if found[0] == MISSING:
                self.blocks._built.discard(k)
            else:
                self.answers[k] = found


async def _listen(call, key, done):
    """Pass on what a keeper answers, or why it cannot."""
    try:
        done.put((key, await call))
    except Exception as error:
        done.put((key, error))

"""Helpers of several test files. BLAS gets one thread, set before NumPy is imported: the tests
already run on all cores."""

import contextlib
import itertools
import os
import pickle
import re
from xml.etree import ElementTree

for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
import pytest  # noqa: E402

with contextlib.suppress(ImportError):  # Every run draws the same examples.
    from hypothesis import settings

    settings.register_profile("repeatable", derandomize=True)
    settings.load_profile("repeatable")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Without the compiler only tests marked `uncompiled` run: all others would take hours. They
    count as tests of bounds then, since Python checks all of them."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0"):
        return
    chosen = [item for item in items if item.get_closest_marker("uncompiled")]
    for item in chosen:
        item.add_marker("bounds")
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


def blobs(n=200, d=5, seed=0, distance=1.0):
    """Two unit Gaussians of n rows in all, and their labels -1 and +1."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1, -1)
    return rng.normal(size=(n, d)) + 0.5 * distance * y[:, None], y


from solvers import rows as solver_rows  # noqa: E402


class RowBlocks(solver_rows.RowBlocks):
    """Row blocks as a list; `cuts` are the rows at which a block begins.

    Functions and results are pickled: `calls` are names of functions, `traffic` the most bytes that
    each has sent to a block or received. A block is lost before a call if `loses()` is true: it is
    made anew, and its changes are replayed. `map` refuses functions that change a block, whose X is
    read-only, like that of a file.
    """

    def __init__(self, X, y, cuts, weight=None, loses=lambda: False):
        self.shape, self.is_weighted, self.loses = X.shape, weight is not None, loses
        self.rows, self.calls, self.traffic = [], [], []
        for low, high in itertools.pairwise([0, *cuts, len(X)]):
            own = None if weight is None else weight[low:high]
            self.rows.append((X[low:high], y[low:high], own, low))
        self.clear()

    def __len__(self):
        return len(self.rows)

    def clear(self):
        self.blocks, self.log = [self._block(k) for k in range(len(self))], []

    def _block(self, k):
        X, y, weight, start = self.rows[k]
        X = X.copy()
        X.flags.writeable = False
        return solver_rows.RowBlock(X, start, y=y, sample_weight=weight)

    def map_inplace(self, function, *args, n_jobs=1, add=False):
        sent, results = pickle.dumps((function, args)), []
        self.calls.append(function.__name__)
        self.traffic.append(len(sent))
        for k in range(len(self)):
            if self.loses():
                self.blocks[k] = self._block(k)
                for before in self.log:
                    self._call(k, before)
            results.append(pickle.dumps(self._call(k, sent)))
            self.traffic[-1] = max(self.traffic[-1], len(results[-1]))
        self.log.append(sent)
        return [pickle.loads(result) for result in results]

    def map(self, function, *args, n_jobs=1, add=False):
        results = self.map_inplace(_change_nothing, function, *args)
        self.log.pop()
        self.calls[-1] = function.__name__
        return results

    def _call(self, k, sent):
        function, args = pickle.loads(sent)
        return function(self.blocks[k], *args)


def _change_nothing(block, function, *args):
    """Call a function; fail if it attaches an array to the block, or changes one."""
    before = {name: np.copy(value) for name, value in vars(block).items()}
    result = function(block, *args)
    assert vars(block).keys() == before.keys(), f"map of {function.__name__} attaches arrays"
    for name, value in vars(block).items():
        np.testing.assert_array_equal(value, before[name], f"map of {function.__name__}: {name}")
    return result


def naive_bootstrap(weight, T, seed):
    """How often each of T members drew each row, in the documented order of draws, (T, n)."""
    rows = [i for i in range(len(weight)) if weight[i] > 0]
    rng = np.random.default_rng(seed)
    counts = np.zeros((T, len(weight)))
    for t in range(T):
        for pick in rng.integers(0, len(rows), len(rows)):
            counts[t, rows[pick]] += weight[rows[pick]]
    return counts


def naive_counts(weight, n, T, sampling, seed):
    """Weights (T, n) of n rows for T members: the same for all, or those of bootstrap samples."""
    full = np.ones(n) if weight is None else weight
    return naive_bootstrap(full, T, seed) if sampling else np.repeat(full[None], T, axis=0)


def walk_both(nodes, theirs, X, rows):
    """Yield the nodes that our tree and scikit-learn's have in common: our node, its rows, and who
    goes left by ours and by theirs, None twice at a leaf. Below a node that the two split
    differently they have nothing in common."""
    stack = [(0, 0, rows)]
    while stack:
        a, b, rows = stack.pop()
        ours = nodes[a]
        assert (ours["child"] > 0) == (theirs.children_left[b] >= 0)
        if ours["child"] == 0:
            yield ours, rows, None, None
            continue
        left = X[rows, ours["feature"]] <= ours["threshold"]
        other = X[rows, theirs.feature[b]] <= theirs.threshold[b]
        if (left == other).all():
            stack.append((ours["child"], theirs.children_left[b], rows[left]))
            stack.append((ours["child"] + 1, theirs.children_right[b], rows[~left]))
        yield ours, rows, left, other


def read_arrays(path):
    """All arrays of a model file by name, the header among them; np.savez writes them back."""
    with np.load(path) as file:
        return {key: file[key] for key in file.files}


def damage(value, rng, stop=0.1):
    """A JSON value with one part of it, chosen at random, changed, dropped or doubled."""
    others = [None, True, -1, 0, 1e400, 2**70, "", "?", "label", "number", [], {}, [[]], ["a", "a"]]
    if not isinstance(value, list | dict) or not value or rng.random() < stop:
        return rng.choice(others)
    key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
    changed, way = value.copy(), rng.random()
    if way < 0.1:
        del changed[key]
    elif way < 0.2 and isinstance(value, list):
        changed.insert(key, changed[key])
    else:
        changed[key] = damage(value[key], rng, stop)
    return changed


def check_lists(page):
    """Check that deviations are numbered and that rows of a table have equal numbers of cells."""
    numbers = re.findall(r"^(\d+)\. \S", page.partition("## Deviations\n\n")[2], re.MULTILINE)
    assert numbers and numbers == [str(k + 1) for k in range(len(numbers))]
    for table in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        assert len({line.count("|") for line in table.splitlines()}) == 1


def check_quick_page(name):
    """Run the quick form of a target; check the fixed form of its page, and that its tables and
    pictures are whole. Returns the page and the names of the pictures."""
    from perf.study import reproduce
    from perf.study.page import VERDICTS
    from perf.study.store import Store

    files = reproduce.reproduce(name, Store(), quick=True)
    page = files.pop(f"{name}.md")
    parts = ["# ", "**Reference.** ", "**Claim.** ", "**Verdict.** ", "## Figures", "A quick run"]
    parts += ["## Deviations", "\n1. ", "## Command", f"`python cli.py reproduce {name} --quick`"]
    places = [page.index(part) for part in [*parts, "numba"]]
    assert places == sorted(places)
    told = page.partition("**Verdict.** ")[2].partition(":")[0]
    assert told in VERDICTS
    assert max(len(line) for line in page.splitlines() if line[:1] not in "|!") <= 100
    check_lists(page)
    assert {*re.findall(r"!\[.+?\]\((.+?)\)", page)} == {*files}
    for drawn in files.values():
        texts = [part.text for part in ElementTree.fromstring(drawn).iter() if part.text]
        assert not any("nan" in text for text in texts)
    return page, {path.removeprefix(f"{name}-").removesuffix(".svg") for path in files}

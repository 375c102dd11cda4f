"""What several test files need. BLAS gets one thread, set before NumPy is imported: the tests
already run on all cores."""

import contextlib
import itertools
import json
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

TREE_ERRORS = [  # Parameters of methods with trees that are refused, and what the error says.
    ({"max_depth": 0}, "max_depth must be None or an integer >= 1, got 0"),
    ({"criterion": "mse"}, "criterion must be one of 'error', 'gini', 'entropy', 'gain_ratio'"),
    ({"min_samples_leaf": 0}, "min_samples_leaf must be an integer >= 1, got 0"),
    ({"max_leaf_nodes": 1}, "max_leaf_nodes must be None or an integer >= 2, got 1"),
    ({"min_impurity_decrease": -0.1}, "min_impurity_decrease must be a finite number >= 0"),
    ({"prune": "yes"}, "prune must be True or False, got 'yes'"),
    ({"max_bins": 257}, "max_bins must be None or an integer from 2 to 256, got 257"),
]


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


class Block:
    """Some rows, read-only like a file's, as a block of row blocks."""

    def __init__(self, X, y, sample_weight, start):
        self.X, self.y, self.sample_weight, self.start = X.copy(), y, sample_weight, start
        self.X.flags.writeable = False

    def keep(self, name, shape, dtype=np.float64):
        setattr(self, name, np.zeros(shape, dtype))
        return getattr(self, name)

    allocate = keep


from solvers import rows as solver_rows  # noqa: E402


class RowBlocks(solver_rows.RowBlocks):
    """The protocol of row blocks as a list; `cuts` are where one block ends and the next begins.

    What travels is pickled, and counted: `steps` are the names of steps, `traffic` the most bytes
    that each has sent or got of a block. A block is lost before a step where `loses()` says so: it
    is made anew, and its changes are repeated. `map` refuses steps that change what blocks keep.
    """

    def __init__(self, X, y, cuts, weight=None, loses=lambda: False):
        self.shape, self.is_weighted, self.loses = X.shape, weight is not None, loses
        self.rows, self.steps, self.traffic = [], [], []
        for low, high in itertools.pairwise([0, *cuts, len(X)]):
            own = None if weight is None else weight[low:high]
            self.rows.append((X[low:high], y[low:high], own, low))
        self.clear()

    def __len__(self):
        return len(self.rows)

    def clear(self):
        self.blocks, self.log = [Block(*rows) for rows in self.rows], []

    def change(self, step, *args, n_jobs=1, add=False):
        sent, found = pickle.dumps((step, args)), []
        self.steps.append(step.__name__)
        self.traffic.append(len(sent))
        for k in range(len(self)):
            if self.loses():
                self.blocks[k] = Block(*self.rows[k])
                for before in self.log:
                    self._take(k, before)
            found.append(pickle.dumps(self._take(k, sent)))
            self.traffic[-1] = max(self.traffic[-1], len(found[-1]))
        self.log.append(sent)
        return [pickle.loads(answer) for answer in found]

    map_inplace = change

    def map(self, step, *args, n_jobs=1, add=False):
        found = self.change(_keep_nothing, step, *args)
        self.log.pop()
        self.steps[-1] = step.__name__
        return found

    def _take(self, k, sent):
        step, args = pickle.loads(sent)
        return step(self.blocks[k], *args)

    def mark(self):
        return len(self.log)

    def shorten(self, mark, step, *args):
        self.log[mark:] = [pickle.dumps((step, args))]


def _keep_nothing(block, step, *args):
    """Take a step that keeps no other attributes, and changes no array among them."""
    before = {name: np.copy(value) for name, value in vars(block).items()}
    found = step(block, *args)
    assert vars(block).keys() == before.keys(), f"map of {step.__name__} changes what is kept"
    for name, value in vars(block).items():
        np.testing.assert_array_equal(value, before[name], f"map of {step.__name__}: {name}")
    return found


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


ODD = [None, "x", -1, 0, 1e9, np.nan, np.inf, [], {}, [1.0], True]  # Values of any kind.
# Words that are right for one parameter of text and wrong for others.
WORDS = ["isotonic", "platt", "soft", "majority", "average", "linear", "hamming"]


def mutations(arrays):
    """Arrays of files that differ from those of a good one in a single place, lost or odd: in an
    array, in a value of the header, also of a model inside it, or in a list of such models."""
    header = json.loads(str(arrays["header"]))
    for name in [part for part in arrays if part != "header"]:
        value = arrays[name]
        odd = [value[..., :-1], value[None], value[:0], value.T.copy(), value.astype("U3")]
        odd += [np.float32(0.0)]
        if value.dtype.kind in "fi":
            odd += [value.astype(np.float32), value.astype(np.int64), -3 * value]
        if value.dtype.kind == "f":
            last = np.arange(value.size).reshape(value.shape) == value.size - 1
            odd += [np.where(last, np.nan, value), -1e200 * value - 1.0]
        yield {other: arrays[other] for other in arrays if other != name}
        yield from (arrays | {name: np.asarray(new)} for new in odd)
    for place in _places(header):
        for name, value in list(place.items()):
            for new in [*ODD, *WORDS] if isinstance(value, str) else ODD:
                place[name] = new
                yield arrays | {"header": np.array(json.dumps(header))}
            del place[name]
            yield arrays | {"header": np.array(json.dumps(header))}
            place[name] = value
    for name, models in header["models"].items():
        for new in [None, 3, [], *([models[:-1]] if isinstance(models, list) else [])]:
            changed = header | {"models": header["models"] | {name: new}}
            yield arrays | {"header": np.array(json.dumps(changed))}


def _places(header):
    """The parameters and the values of a model's header, and of the models inside it: of a list
    one of each class."""
    yield from (header["params"], header["values"])
    for found in header["models"].values():
        inside = found if isinstance(found, list) else [found]
        models = {part["class"]: part for part in inside if isinstance(part, dict)}
        for part in models.values():
            yield from _places(part)


def check_mutated_files(model, path, check, members):
    """Every mutation of a fitted model's file is refused as such, or gives a model of which `check`
    holds; there are many of the first kind and some of the second."""
    model.save(path)
    refused = kept = 0
    for changed in mutations(read_arrays(path)):
        np.savez(path, **changed)
        try:
            again = type(model).load(path, members=members)
        except ValueError as error:
            assert "not a model file" in str(error) or "does not have" in str(error)
            refused += 1
        else:
            check(again)
            kept += 1
    assert refused > 50 and kept > 0


def check_quick_page(name):
    """Run the quick form of a target; check the fixed form of its page, and that its tables and
    pictures are whole. Returns the page and the names of the pictures."""
    from perf.study import reproduce
    from perf.study.store import Store

    files = reproduce.reproduce(name, Store(), quick=True)
    page = files.pop(f"{name}.md")
    parts = ["# ", "**Reference.** ", "**Claim.** ", "**Verdict.** ", "## Figures", "A quick run"]
    parts += ["## Deviations", "\n1. ", "## Command", f"`python cli.py reproduce {name} --quick`"]
    places = [page.index(part) for part in [*parts, "numba"]]
    assert places == sorted(places)
    told = page.partition("**Verdict.** ")[2].partition(":")[0]
    assert told in reproduce.VERDICTS
    numbers = re.findall(r"^(\d+)\. \S", page.partition("## Deviations")[2], re.MULTILINE)
    assert numbers == [str(k + 1) for k in range(len(numbers))]
    assert max(len(line) for line in page.splitlines() if line[:1] not in "|!") <= 100
    for table in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        assert len({line.count("|") for line in table.splitlines()}) == 1
    assert {*re.findall(r"!\[.+?\]\((.+?)\)", page)} == {*files}
    for drawn in files.values():
        texts = [part.text for part in ElementTree.fromstring(drawn).iter() if part.text]
        assert not any("nan" in text for text in texts)
    return page, {path.removeprefix(f"{name}-").removesuffix(".svg") for path in files}

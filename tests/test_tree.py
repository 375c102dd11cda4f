"""Tests of the block `tree` that three solvers share, on the copy of gradient_boosting.py.

How each method uses it is tested in the methods' own tests, against references in plain Python and
scikit-learn.
"""

import math
import threading

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal

from solvers import adaboost_nc, bagging, gradient_boosting
from tests import naive

pytestmark = pytest.mark.bounds
tree = gradient_boosting
each_module = pytest.mark.parametrize(
    "module", [adaboost_nc, bagging, gradient_boosting], ids=lambda module: module.__name__[8:]
)
each_kind = pytest.mark.parametrize("l2", [None, 0.0])  # two classes, or derivatives
D = 3  # features of the trees made here


# -- slow and obvious references ----------------------------------------------------------------
def naive_edges(column, weight, bins):
    """Thresholds of a column by the definition: all known values apart if they are few; else a bin
    ends at the first value up to which lies the k-th fraction of the weight."""
    known = ~np.isnan(column)
    values, totals = [], []
    for value in sorted(set(column[known & (weight > 0)])):
        values.append(value)
        totals.append(math.fsum(weight[known & (column <= value)]))
    bins -= not known[weight > 0].all()
    last = range(len(values) - 1)
    if len(values) > bins:
        goals = [k * totals[-1] / bins for k in range(1, bins)]
        first = [next(i for i, c in enumerate(totals) if c >= goal - 1e-9) for goal in goals]
        last = sorted({min(i, len(values) - 2) for i in first})
    return [0.5 * (values[i] + values[i + 1]) for i in last]


def random_trees(sizes, seed, values):
    """Finished trees of these odd numbers of nodes; thresholds are some of values."""
    rng, parts = np.random.default_rng(seed), []
    for size in sizes:
        nodes, leaves, made = np.zeros(size, dtype=tree.NODE), [0], 1
        while made < size:
            k = leaves.pop(int(rng.integers(len(leaves))))
            nodes[k]["child"], nodes[k]["feature"] = made, rng.integers(D)
            nodes[k]["threshold"], nodes[k]["missing_left"] = rng.choice(values), rng.integers(2)
            leaves += [made, made + 1]
            made += 2
        nodes["value"] = rng.normal(size=size)
        parts.append(nodes)
    return np.concatenate(parts), np.cumsum([0, *sizes], dtype=np.int64)


def gapped(n, seed, fraction=0.3):
    """Rows of few values, so that many are equal to a threshold, and gaps."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, size=(n, D)) / 2.0
    X[rng.random(X.shape) < fraction] = np.nan
    return X


def grower_of(X, max_bins, weight=None, depth=3, l2=None):
    return tree.TreeGrower(X, max_bins, tree.TreeParams(max_depth=depth, l2=l2), weight)


def filled(grower, g, w=1):
    """The grower, with gradients g and weights w of the rows."""
    grad_hess, count_bits = grower.data.grad_hess, grower.data.count_bits
    grad_hess[:, 0], grad_hess[:, 1] = g, (w << count_bits) + 1
    return grower


def grown(X, y, max_bins, depth, l2):
    """A tree on rows of weight 1, finished, and each row's node."""
    grower = filled(grower_of(X, max_bins, depth=depth, l2=l2), np.where(y > 0, -1, 1))
    nodes = grower.grow()
    return grower.finalize([nodes])[0], grower.buffers.leaf.copy()


# -- bins -----------------------------------------------------------------------------------------
@pytest.mark.uncompiled
def test_bins_are_quantiles_and_codes_count_thresholds():
    rng = np.random.default_rng(0)
    X = np.column_stack([
        rng.normal(size=5000), np.exp(3 * rng.normal(size=5000)), rng.integers(0, 7, 5000),
        np.where(rng.random(5000) < 0.9, 0.0, rng.normal(size=5000)), np.full(5000, 2.5),
        1e149 * rng.choice([-1.0, 1.0], 5000), 5e-324 * rng.integers(0, 9, 5000),
        np.nextafter(rng.normal(size=5000).round(1), rng.choice([-np.inf, np.inf], 5000)),
    ])  # fmt: skip
    X[rng.random(X.shape) < 0.05] = np.nan
    for bins in (2, 10, 256):
        grower = grower_of(X, bins)
        codes, n_bins = grower.data.X_binned, grower.data.n_bins_non_missing
        for j in range(X.shape[1]):
            values, edges = X[:, j], grower.thresholds[j, : n_bins[j] - 1]
            known = ~np.isnan(values)
            assert (np.diff(edges) > 0).all() and n_bins[j] <= bins - 1
            assert (codes[~known, j] == n_bins[j]).all()
            expected = (values[known, None] > edges).sum(axis=1)
            assert_array_equal(codes[known, j], expected)
            if np.unique(values[known]).size < bins:
                assert n_bins[j] == np.unique(values[known]).size
        share = np.bincount(codes[:, 0])[: n_bins[0]] / 5000
        assert share.max() < 1.2 / (bins - 1)


@pytest.mark.uncompiled
def test_many_rows_are_binned_by_a_sample_but_no_rare_value_is_lost(monkeypatch):
    monkeypatch.setattr(tree, "BIN_SAMPLE_ROWS", 50)
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 3, 2000), rng.normal(size=2000)]).astype(float)
    X[7] = 99.0, np.nan  # a value, a gap that the sample does not see
    for weight in (None, rng.random(2000) + 0.5):
        first, second = tree.bin_thresholds(X, 32, weight)
        assert_array_equal(first, [0.5, 1.5, 50.5])
        assert 20 < len(second) <= 30
    codes = grower_of(X, 256).data.X_binned
    assert codes[7, 0] == 3 and codes[7, 1] == codes[:, 1].max()


@pytest.mark.parametrize("seed", range(12))
def test_bins_end_at_quantiles_of_the_weights(seed):
    rng = np.random.default_rng(seed)
    n, bins = int(rng.integers(20, 200)), int(rng.integers(2, 12))
    X = rng.normal(size=(n, 4)).round(1 if seed % 2 else 9)
    X[:, 3] = rng.integers(0, bins, n)
    if seed % 3 == 0:
        X[rng.random(X.shape) < 0.2] = np.nan
    counts = rng.integers(0, 4, n)
    counts[0] = 1
    weighted = tree.bin_thresholds(X, bins, 0.3 * counts)
    repeated = tree.bin_thresholds(np.repeat(X, counts, axis=0), bins)
    unit = tree.bin_thresholds(X, bins, np.ones(n))
    for j in range(4):
        assert_array_equal(weighted[j], naive_edges(X[:, j], counts.astype(float), bins))
        assert_array_equal(repeated[j], weighted[j])
        assert_array_equal(unit[j], tree.bin_thresholds(X, bins)[j])
    for given, found in zip(tree.bin_thresholds(X, None, 1.0 * counts), weighted, strict=True):
        assert set(found) <= {*given}  # exact splits: all of the rows that there are
    assert_array_equal(tree.bin_thresholds(X, None, 1.0 * counts)[0],
                       tree.bin_thresholds(X[counts > 0], None)[0])  # fmt: skip


# -- the order of the rows ------------------------------------------------------------------------
@pytest.mark.uncompiled
@pytest.mark.parametrize("seed", range(8))
def test_a_steady_sum_is_exact_but_for_rounding_and_the_same_in_any_order(seed):
    rng = np.random.default_rng(seed)
    n, scale = int(rng.integers(1, 400)), 10.0 ** rng.uniform(-280, 280)
    x = scale * rng.normal(size=n) * np.exp(seed * rng.normal(size=n))
    found = tree.reproducible_sum(x)
    assert abs(found - math.fsum(x)) <= 1e-15 * math.fsum(np.abs(x))
    weight = tree.round_to_grid(np.abs(x))
    assert_allclose(weight, np.abs(x), rtol=0, atol=1e-15 * np.abs(x).sum())
    for _ in range(20):
        order = rng.permutation(n)
        assert tree.reproducible_sum(x[order]) == found
        part = order[: n // 2 + 1]
        assert np.cumsum(weight[part])[-1] == weight[part] @ np.ones(part.size)
        assert weight[part].sum() == math.fsum(weight[part])


@pytest.mark.uncompiled
def test_steady_sums_of_none_zeros_and_numbers_without_a_sum():
    assert tree.reproducible_sum(np.zeros(0)) == tree.reproducible_sum(np.zeros(3)) == 0.0
    assert tree.reproducible_sum(np.full(4, 5e-324)) == 4 * 5e-324
    with np.errstate(over="ignore", invalid="ignore"):  # compiled, it says nothing of these
        assert abs(tree.reproducible_sum(np.array([1e308, -1e308, 1.0])) - 1.0) < 1e293
        assert not math.isfinite(tree.reproducible_sum(np.array([1.0, math.inf])))


def tilted(y, f):
    """A loss of one's own for classes, with a curvature, and exponentials."""
    e = np.exp(-np.clip(y * f, -50, 50))
    return e + 0.1 * f**2, -y * e + 0.2 * f, e + 0.2


def sloping(y, f):
    """One for numbers, without a curvature."""
    return np.logaddexp(0, f - y) + np.logaddexp(0, y - f), np.tanh((f - y) / 2)


NUMBERS = {"loss": "huber", "order": 1}, {"loss": "absolute", "order": 1}, {"loss": "huber"}
ROUNDS = {
    adaboost_nc: [
        (kind, {"mode": "reweight"} | options)
        for kind in ("AdaBoost", "AdaBoostNC")
        for options in (
            {}, {"base": "tree", "max_depth": 4}, {"base": "tree", "criterion": "gain_ratio"},
            {"base": "tree", "max_leaf_nodes": 9, "prune": True, "class_weight": "balanced"},
            {"base": "tree", "max_bins": None, "max_depth": 3},
        )
    ] + [("AdaBoostNC", {"mode": "reweight", "lam": 60.0})],
    bagging: [
        (kind, {"bootstrap": False, "random_state": 0} | options)
        for kind in ("Bagging", "BaggingRegressor")
        for options in (
            {}, {"max_features": 2}, {"max_features": 2, "per_split": False},
            {"max_bins": None, "max_depth": 5}, {"base": "stump", "min_impurity_decrease": 1e-3},
            {"max_leaf_nodes": 20, "n_jobs": 2},
        )
    ] + [("Bagging", {"bootstrap": False, "voting": "soft", "class_weight": {0: 0.3}})],
    gradient_boosting: [
        ("GradientBoosting", options)
        for options in (
            {}, {"order": 1}, {"loss": "exponential"}, {"loss": "exponential", "order": 1},
            {"loss": "squared", "max_leaf_nodes": 9}, {"loss": "squared", "order": 1, "l2": 0.0},
            {"loss": "hinge", "order": 1}, {"loss": tilted}, {"loss": tilted, "order": 1},
            {"max_bins": None, "max_depth": 4}, {"learning_rate": 1.0, "min_child_weight": 0.0},
            {"max_features": 2, "random_state": 0}, {"class_weight": "balanced"},
            {"loss": "hinge", "order": 1, "monotonic_cst": [1, 0, -1], "max_bins": 9},
        )
    ] + [
        ("GradientBoostingRegressor", options)
        for options in (
            *NUMBERS, {}, {"order": 1, "l2": 0.0}, {"loss": sloping, "order": 1},
            {"loss": "absolute", "order": 1, "monotonic_cst": [1, 0, -1]}, {"max_bins": 7},
        )
    ],
}  # fmt: skip


def rows_in_question(n, seed, kind):
    """Rows of continuous and of few values, with gaps, targets with a noise of heavy tails, and
    weights of many sizes."""
    rng, X = np.random.default_rng(seed), gapped(n, seed, fraction=0.1)
    X[:, 0] += rng.normal(size=n)
    f = np.nan_to_num(X) @ [1.0, -0.5, 0.0] + 0.5 * rng.standard_t(3, size=n)
    return X, f if kind.endswith("Regressor") else (f > 0.3) * 1, np.exp(rng.normal(size=n))


def bits(model):
    """Fitted arrays of a model as bytes, without means over drawn rows."""
    names = "nodes_", "starts_", "weights_", "trace_", "errors_", "log_trace_", "delta_"
    return [np.asarray(getattr(model, name)).tobytes() for name in names if hasattr(model, name)]


@each_module
@pytest.mark.parametrize(("n", "T", "weighted"), [
    *(pytest.param(25, 3, weighted, marks=pytest.mark.uncompiled) for weighted in (False, True)),
    (150, 30, False), (150, 30, True), (3001, 12, False), (3001, 12, True), (20_000, 3, True),
])  # fmt: skip
def test_any_order_of_the_rows_gives_the_same_bits(module, n, T, weighted):
    for seed, (kind, options) in enumerate(ROUNDS[module]):
        X, y, weight = rows_in_question(n, seed, kind)
        model, found = getattr(module, kind)(n_estimators=T, **options), []
        rng = np.random.default_rng(seed)
        for order in (np.arange(n), rng.permutation(n), np.argsort(y, kind="stable")[::-1]):
            rows = (X[order], y[order], weight[order])
            found.append(bits(model.fit(*rows[: 3 if weighted else 2])))
        assert model.nodes_.size > T and found[0] == found[1] == found[2], (kind, options)


@each_module
@pytest.mark.uncompiled
def test_sums_at_powers_of_two_do_not_hang_on_the_order(module):
    """A third of 9 * 2^k rows is positive: the slopes of the log loss have sizes of a sum of 2^m,
    but for rounding, which decides what the units of the trees are."""
    X, _, _ = rows_in_question(72, 0, "")
    y, rng, found = np.arange(72) % 3 == 0, np.random.default_rng(0), set()
    for _ in range(12):
        order = rng.permutation(72)
        kind, options = ROUNDS[module][0]
        model = getattr(module, kind)(n_estimators=3, **options)
        found.add(b"".join(bits(model.fit(X[order], y[order], np.full(72, 0.7)))))
    assert len(found) == 1


# -- nodes ----------------------------------------------------------------------------------------
@pytest.mark.uncompiled
def test_nodes_have_no_bytes_that_nothing_sets():
    dtypes = [value for value in vars(tree).values() if isinstance(value, np.dtype)]
    assert {tree.NODE, tree.GROWING} <= set(dtypes)
    for dtype in dtypes:
        assert dtype.itemsize == sum(dtype[name].itemsize for name in dtype.names)


MODELS = {
    adaboost_nc: adaboost_nc.AdaBoostNC(n_estimators=12, random_state=0),
    bagging: bagging.Bagging(n_estimators=12, random_state=0, n_jobs=2),
    gradient_boosting: gradient_boosting.GradientBoosting(n_estimators=12),
}
SECRET = b"a text that another part of the program once held in memory "


@each_module
def test_equal_fits_are_equal_to_the_byte(module):
    """No bytes of freed memory get into a model."""
    X, fits = gapped(400, 0, fraction=0.1), []
    y = np.nan_to_num(X).sum(axis=1) + np.random.default_rng(0).normal(size=400) > 0
    for text in (SECRET, bytes(len(SECRET)), SECRET[::-1]):
        planted = [bytearray(text * (size // len(text))) for size in range(200, 200_000, 250)]
        del planted
        model = MODELS[module].fit(X, y)
        fits.append([value.tobytes() for value in vars(model).values() if hasattr(value, "dtype")])
        assert not any(text[:8] in part for part in fits[-1] if text[0])
    assert fits[0] == fits[1] == fits[2]


@pytest.mark.uncompiled
@pytest.mark.parametrize("max_bins", [256, None])
@each_kind
def test_known_against_missing_holds_for_larger_values_too(max_bins, l2):
    """The largest value of the node is 10, that of all rows 60: 60 is known as well."""
    inside, outside = (1, 5, 10, np.nan, np.nan, np.nan), (1, 1, 5, 5, 10, 10, 20, 40, 60, np.nan)
    X = np.array([[0.0, value] for value in inside] + [[1.0, value] for value in outside])
    y = np.array([1, 1, 1, -1, -1, -1] + 10 * [-1])
    nodes, _ = grown(X, y, max_bins, 2, l2)
    zero = np.zeros(1, dtype=np.int64)
    left = nodes[nodes[0]["child"]]
    assert nodes[0]["feature"] == 0 and left["feature"] == 1 and left["missing_left"] == 0
    assert left["threshold"] == np.inf
    rows = np.array([[0.0, 10.0], [0.0, 60.0], [0.0, 1e9], [0.0, np.nan]])
    assert_array_equal(np.sign(tree.sum_trees(nodes, zero, np.ones(1), rows)), [1, 1, 1, -1])
    assert tree.check_trees(nodes, np.array([0, nodes.size]), 2)


@pytest.mark.uncompiled
@pytest.mark.parametrize("max_bins", [256, 4, None])
@pytest.mark.parametrize("seed", range(4))
@each_kind
def test_rows_are_in_the_leaves_that_a_walk_finds(seed, max_bins, l2):
    rng, X = np.random.default_rng(seed), gapped(300, seed)
    y = np.where(np.isnan(X[:, 0]) ^ (np.nan_to_num(X[:, 1]) > 0) ^ (rng.random(300) < 0.1), 1, -1)
    nodes, leaf = grown(X, y, max_bins, 6, l2)
    nodes["value"] = np.arange(nodes.size)
    assert_array_equal(leaf, naive.votes(nodes, X))
    assert nodes.size > 20


RULES = {
    "error": {"criterion": 0, "max_depth": 3},
    "gini": {"criterion": 1},
    "entropy": {"criterion": 2, "min_leaf": 3},
    "gain ratio": {"criterion": 3, "min_leaf": 4},
    "stump": {"max_depth": 1},
    "five leaves": {"max_leaves": 5},
    "drawn features": {"n_drawn": D},
    "drawn features, gain ratio": {"n_drawn": D, "criterion": 3},
    "derivatives": {"l2": 1.0, "max_depth": 4},
    "derivatives, monotone": {"l2": 1.0, "max_depth": 4, "monotone": np.array([1, 0, -1])},
}


@pytest.mark.uncompiled
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("max_bins", [256, None])
def test_every_split_is_a_best_one(max_bins, name):
    """By brute force, on rows with gaps and whole weights; all rows, or some of them."""
    rng, params = np.random.default_rng(3), tree.TreeParams(**RULES[name])
    X = rng.normal(size=(90, D))
    y = np.where(X[:, 0] - 0.5 * X[:, 2] + rng.normal(size=90) > 0, 1, -1)
    X[rng.random(X.shape) < 0.1] = np.nan
    w = rng.integers(1, 4, 90)
    grower = filled(tree.TreeGrower(X, max_bins, params), -w * y, w)
    if params.n_drawn is not None:
        grower.buffers.draws[0][0] = 2**63 + 12345
    for rows in (None, np.flatnonzero(rng.random(90) < 0.7)):
        part = slice(None) if rows is None else rows
        nodes = grower.finalize([grower.grow(rows)])[0]
        nodes["gain"] *= w[part].sum()
        top = naive.root(X[part], -w[part] * y[part], w[part], params, bins=X)
        _, leaves, _, ties = naive.certify(nodes, top)
        assert len(leaves) > 1 and (ties == 0 or params.n_drawn)
        assert len(leaves) == 5 or params.max_leaves is None


@pytest.mark.uncompiled
def test_random_numbers_are_those_of_xorshift64_star():
    """Against Python's integers, which have as many bits as they need."""
    kernel = tree._random_below
    draw = njit(lambda state, m: kernel(state, m))  # Only kernels can call it.
    state, x = np.array([0x9E3779B97F4A7C15], dtype=np.uint64), 0x9E3779B97F4A7C15
    for m in (1, 2, 7, 20, 1000, 2**31 - 1) * 20:
        x ^= x >> 12
        x ^= x << 25 & 2**64 - 1
        x ^= x >> 27
        assert draw(state, m) == ((x * 0x2545F4914F6CDD1D % 2**64 >> 33) * m) >> 31
        assert state[0] == x


@pytest.mark.uncompiled
@pytest.mark.parametrize("max_bins", [256, None])
def test_a_fork_is_a_grower_on_some_of_the_features(max_bins):
    X, columns = gapped(200, 7), np.array([0, 2])
    y = np.where(np.nan_to_num(X).sum(axis=1) > 0, 1, -1)
    params = tree.TreeParams(max_depth=4, l2=1.0, monotone=np.array([1, -1, 1]))
    whole = tree.TreeGrower(X, max_bins, params)
    fewer = params._replace(monotone=np.array([1, 1]))
    alone = tree.TreeGrower(X[:, columns].copy(), max_bins, fewer)
    growers = bagging.fork_grower(whole, columns), alone, bagging.fork_grower(whole), whole
    trees = [grower.finalize([filled(grower, -y).grow()])[0] for grower in growers]
    inner = trees[1]["child"] > 0
    trees[1]["feature"][inner] = columns[trees[1]["feature"][inner]]
    assert_array_equal(trees[0], trees[1])
    assert_array_equal(trees[2], trees[3])
    assert inner.sum() > 5 and set(trees[0]["feature"][inner]) == {0, 2}


# -- prediction -----------------------------------------------------------------------------------
@pytest.mark.uncompiled
@pytest.mark.parametrize("deep", [False, True])
def test_sums_are_those_of_a_walk(deep):
    """Both ways to add up trees, on both sides of the number of nodes that decides between them;
    gaps, values equal to thresholds, and numbers of rows that are no multiple of anything."""
    X = gapped(tree.CHUNK_ROWS + 13, 1)
    sizes = [1, 3, 5, 41, 201, 2001, tree.DEEP_NODES - 2253] + deep * [1]
    nodes, starts = random_trees(sizes, 2, [*np.arange(-3, 4) / 2.0, np.inf])
    assert nodes.size == tree.DEEP_NODES - 1 + deep
    assert tree.check_trees(nodes, starts, D)
    weights = np.random.default_rng(3).normal(size=len(sizes))
    expected = np.zeros(len(X))
    for t, weight in enumerate(weights):
        expected += weight * naive.votes(nodes[starts[t] :], X)
    for rows in (slice(None), slice(0, 1), slice(5, 12)):
        found = tree.sum_trees(nodes, starts[:-1], weights, X[rows])
        np.testing.assert_allclose(found, expected[rows], rtol=1e-12, atol=1e-12)
        for n_jobs in (2, 3):
            threads = threading.active_count()
            assert_array_equal(tree.sum_trees(nodes, starts[:-1], weights, X[rows], n_jobs), found)
            assert threading.active_count() == threads
    for t in (1, 3):
        one = tree.sum_trees(nodes, starts[t : t + 1], np.ones(1), X)
        assert_array_equal(one, naive.votes(nodes[starts[t] :], X))


# -- trees from files -----------------------------------------------------------------------------
@pytest.mark.uncompiled
def test_check_trees_accepts_up_to_the_last_valid_value():
    nodes, starts = random_trees([5, 7, 1, 3], 0, [0.0])
    assert tree.check_trees(nodes, starts, D)
    assert not tree.check_trees(nodes, starts, nodes["feature"].max())  # one feature too few
    assert tree.check_trees(nodes, starts, int(nodes["feature"].max()) + 1)

    def with_changed(name, k, value):
        changed = nodes.copy()
        changed[name][k] = value
        return tree.check_trees(changed, starts, D)

    for t, size in enumerate(np.diff(starts)):
        for k in range(size):
            for child in range(-2, size + 3):  # a child comes later, and has a sibling in the tree
                good = child == 0 or k < child < size - 1
                assert with_changed("child", starts[t] + k, child) == good
            for feature in range(-2, D + 3):  # of leaves, too
                assert with_changed("feature", starts[t] + k, feature) == (0 <= feature < D)
    leaf, inner = np.flatnonzero(nodes["child"] == 0)[0], np.flatnonzero(nodes["child"])[0]
    for k in (leaf, inner):
        for name, good, bad in (
            ("value", (0.0, -1e300), (np.nan, np.inf, -np.inf)),
            ("threshold", (0.0, np.inf), (np.nan,)),
            ("gain", (0.0, 1e9), (np.nan, np.inf)),
            ("missing_left", (0, 1), (-1, 2, 2**40)),
        ):
            assert all(with_changed(name, k, value) for value in good)
            assert not any(with_changed(name, k, value) for value in bad)


@pytest.mark.uncompiled
def test_check_trees_compares_the_starts_of_trees():
    nodes, starts = random_trees([5, 7, 3], 0, [0.0])
    for bad in ([], [0], [15], [0, 14], [0, 16], [1, 15], [0, 5, 5, 15], [0, 12, 5, 15],
                [0, -5, 15], [0, 5, 12, 15, 15], [[0, 5], [12, 15]]):  # fmt: skip
        assert not tree.check_trees(nodes, np.array(bad, dtype=np.int64), D)
    narrow = np.zeros(15, np.dtype([(name, tree.NODE[name]) for name in tree.NODE.names[:-1]]))
    for bad in ((nodes, starts.astype(np.int32)), (nodes, starts.astype(float)),
                (nodes[None], starts), (nodes["value"], starts), (narrow, starts)):  # fmt: skip
        assert not tree.check_trees(*bad, D)
    assert tree.check_trees(nodes, starts, D)


@pytest.mark.uncompiled
@pytest.mark.parametrize("seed", range(5))
def test_trees_that_pass_the_check_can_be_walked(seed):
    """Numbers at random in a few nodes: refused, or every walk ends inside its tree."""
    rng, passed = np.random.default_rng(seed), 0
    X = gapped(40, seed)
    for _ in range(60):
        nodes, starts = random_trees([9, 1, 15], int(rng.integers(1 << 30)), [0.0, 1.0])
        for k in rng.integers(nodes.size, size=2):
            name = rng.choice(["child", "feature"])
            nodes[k][name] = rng.integers(-2, 17)
        if tree.check_trees(nodes, starts, D):
            passed += 1
            found = tree.sum_trees(nodes, starts[:-1], np.ones(3), X)
            expected = sum(naive.votes(nodes[start:], X) for start in starts[:-1])
            np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert 0 < passed < 60

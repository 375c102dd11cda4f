"""Tests for the block `tree` that three solvers share; each runs on the copy of every file.

How trees are grown is tested in the files' own tests, against references in plain Python and
scikit-learn: the three use the block in different ways.
"""

import math
import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from solvers import adaboost_nc, bagging, gradient_boosting

pytestmark = [
    pytest.mark.bounds,
    pytest.mark.parametrize(
        "tree", [adaboost_nc, bagging, gradient_boosting], ids=lambda tree: tree.__name__[8:]
    ),
]
D = 3  # features of the trees made here


# -- slow and obvious references ----------------------------------------------------------------
def naive_walk(nodes, start, x):
    """Value of the leaf that a row comes to, from the definition of a node."""
    k = 0
    while nodes[start + k]["child"] > 0:
        node = nodes[start + k]
        goes_left = node["missing_left"] == 1
        if not math.isnan(x[node["feature"]]):
            goes_left = x[node["feature"]] <= node["threshold"]
        k = node["child"] + (not goes_left)
    return nodes[start + k]["value"]


def naive_edges(column, weight, bins):
    """Thresholds of a column by the definition: all known values apart if they are few; else a bin
    ends at the first value up to which lies the k-th part of the weight."""
    known = ~np.isnan(column)
    values, totals = [], []
    for value in sorted(set(column[known & (weight > 0)])):
        values.append(value)
        totals.append(math.fsum(weight[known & (column <= value)]))
    bins -= not known[weight > 0].all()
    last = range(len(values) - 1)
    if len(values) > bins:
        parts = [k * totals[-1] / bins for k in range(1, bins)]
        first = [next(i for i, c in enumerate(totals) if c >= part - 1e-9) for part in parts]
        last = sorted({min(i, len(values) - 2) for i in first})
    return [0.5 * (values[i] + values[i + 1]) for i in last]


def random_trees(tree, sizes, seed, values):
    """Trees of these odd numbers of nodes, in the form of `pack`; thresholds are some of values."""
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


def gapped(n, seed, share=0.3):
    """Rows of few values, so that many are equal to a threshold, and gaps."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, size=(n, D)) / 2.0
    X[rng.random(X.shape) < share] = np.nan
    return X


def grower_of(tree, X, max_bins, weight=None, depth=3):
    """A grower as the file uses it: for two classes, or for derivatives."""
    l2 = 0.0 if tree is gradient_boosting else None
    return tree.Grower(X, max_bins, "gini", depth, 1, None, 0.0, l2, weight=weight)


def grown(tree, X, y, max_bins, depth=3):
    """A tree on rows of weight 1, finished, and each row's node."""
    grower = grower_of(tree, X, max_bins, depth=depth)
    grower.GH[:, 0], grower.GH[:, 1] = np.where(y > 0, -1, 1), (1 << grower.shift) + 1
    nodes = grower.grow()
    return grower.pack([nodes])[0], grower.leaf.copy()


# -- bins -----------------------------------------------------------------------------------------
def test_bins_are_quantiles_and_codes_count_thresholds(tree):
    rng = np.random.default_rng(0)
    X = np.column_stack([
        rng.normal(size=5000), np.exp(3 * rng.normal(size=5000)), rng.integers(0, 7, 5000),
        np.where(rng.random(5000) < 0.9, 0.0, rng.normal(size=5000)), np.full(5000, 2.5),
        1e149 * rng.choice([-1.0, 1.0], 5000), 5e-324 * rng.integers(0, 9, 5000),
    ])  # fmt: skip
    X[rng.random(X.shape) < 0.05] = np.nan
    for bins in (2, 10, 256):
        grower = grower_of(tree, X, bins)
        for j in range(X.shape[1]):
            values, edges = X[:, j], grower.edges[j, : grower.n_codes[j] - 1]
            known = ~np.isnan(values)
            assert (np.diff(edges) > 0).all() and grower.n_codes[j] <= bins - 1
            assert (grower.codes[~known, j] == grower.n_codes[j]).all()
            expected = (values[known, None] > edges).sum(axis=1)
            assert_array_equal(grower.codes[known, j], expected)
            if np.unique(values[known]).size < bins:
                assert grower.n_codes[j] == np.unique(values[known]).size
        share = np.bincount(grower.codes[:, 0])[: grower.n_codes[0]] / 5000
        assert share.max() < 1.2 / (bins - 1)


def test_many_rows_are_binned_by_a_sample_but_no_rare_value_is_lost(tree, monkeypatch):
    monkeypatch.setattr(tree, "SAMPLE", 50)
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 3, 2000), rng.normal(size=2000)]).astype(float)
    X[7] = 99.0, np.nan  # a value, a gap that the sample does not see
    for weight in (None, rng.random(2000) + 0.5):
        first, second = tree.bin_edges(X, 32, weight)
        assert_array_equal(first, [0.5, 1.5, 50.5])
        assert 20 < len(second) <= 30
    codes = grower_of(tree, X, 256).codes
    assert codes[7, 0] == 3 and codes[7, 1] == codes[:, 1].max()


@pytest.mark.parametrize("seed", range(12))
def test_bins_end_at_quantiles_of_the_weights(tree, seed):
    rng = np.random.default_rng(seed)
    n, bins = int(rng.integers(20, 200)), int(rng.integers(2, 12))
    X = rng.normal(size=(n, 4)).round(1 if seed % 2 else 9)
    X[:, 3] = rng.integers(0, bins, n)
    if seed % 3 == 0:
        X[rng.random(X.shape) < 0.2] = np.nan
    counts = rng.integers(0, 4, n)
    counts[0] = 1
    weighted = tree.bin_edges(X, bins, 0.3 * counts)
    repeated = tree.bin_edges(np.repeat(X, counts, axis=0), bins)
    unit = tree.bin_edges(X, bins, np.ones(n))
    for j in range(4):
        assert_array_equal(weighted[j], naive_edges(X[:, j], counts.astype(float), bins))
        assert_array_equal(repeated[j], weighted[j])
        assert_array_equal(unit[j], tree.bin_edges(X, bins)[j])
    for given, found in zip(tree.bin_edges(X, None, 1.0 * counts), weighted, strict=True):
        assert set(found) <= {*given}  # exact splits: all of the rows that there are
    assert_array_equal(tree.bin_edges(X, None, 1.0 * counts)[0],
                       tree.bin_edges(X[counts > 0], None)[0])  # fmt: skip


# -- nodes ----------------------------------------------------------------------------------------
def test_nodes_have_no_bytes_that_nothing_sets(tree):
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


def test_equal_fits_are_equal_to_the_byte(tree):
    """Whatever lies in freed memory: neither what is left of a text there gets into a model."""
    X, fits = gapped(400, 0, share=0.1), []
    y = np.nan_to_num(X).sum(axis=1) + np.random.default_rng(0).normal(size=400) > 0
    for text in (SECRET, bytes(len(SECRET)), SECRET[::-1]):
        planted = [bytearray(text * (size // len(text))) for size in range(200, 200_000, 250)]
        del planted
        model = MODELS[tree].fit(X, y)
        fits.append([value.tobytes() for value in vars(model).values() if hasattr(value, "dtype")])
        assert not any(text[:8] in part for part in fits[-1] if text[0])
    assert fits[0] == fits[1] == fits[2]


@pytest.mark.parametrize("max_bins", [256, None])
def test_known_against_missing_holds_for_larger_values_too(tree, max_bins):
    """The largest value of the node is 10, that of all rows 60: 60 is known as well."""
    inside, outside = (1, 5, 10, np.nan, np.nan, np.nan), (1, 1, 5, 5, 10, 10, 20, 40, 60, np.nan)
    X = np.array([[0.0, value] for value in inside] + [[1.0, value] for value in outside])
    y = np.array([1, 1, 1, -1, -1, -1] + 10 * [-1])
    nodes, _ = grown(tree, X, y, max_bins, depth=2)
    zero = np.zeros(1, dtype=np.int64)
    left = nodes[nodes[0]["child"]]
    assert nodes[0]["feature"] == 0 and left["feature"] == 1 and left["missing_left"] == 0
    assert left["threshold"] == np.inf
    rows = np.array([[0.0, 10.0], [0.0, 60.0], [0.0, 1e9], [0.0, np.nan]])
    assert_array_equal(np.sign(tree.sum_trees(nodes, zero, np.ones(1), rows)), [1, 1, 1, -1])
    assert tree.check_trees(nodes, np.array([0, nodes.size]), 2)


@pytest.mark.parametrize("max_bins", [256, 4, None])
@pytest.mark.parametrize("seed", range(4))
def test_rows_are_in_the_leaves_that_a_walk_finds(tree, seed, max_bins):
    rng, X = np.random.default_rng(seed), gapped(300, seed)
    y = np.where(np.isnan(X[:, 0]) ^ (np.nan_to_num(X[:, 1]) > 0) ^ (rng.random(300) < 0.1), 1, -1)
    nodes, leaf = grown(tree, X, y, max_bins, depth=6)
    nodes["value"] = np.arange(nodes.size)
    assert_array_equal(leaf, [naive_walk(nodes, 0, x) for x in X])
    assert nodes.size > 20


# -- prediction -----------------------------------------------------------------------------------
@pytest.mark.parametrize("deep", [False, True])
def test_sums_are_those_of_a_walk(tree, deep):
    """Both ways to add up trees, on both sides of the number of nodes that decides between them;
    gaps, values equal to thresholds, and numbers of rows that are no multiple of anything."""
    X = gapped(tree.CHUNK + 13, 1)
    sizes = [1, 3, 5, 41, 201, 2001, tree.DEEP - 2253] + deep * [1]
    nodes, starts = random_trees(tree, sizes, 2, [*np.arange(-3, 4) / 2.0, np.inf])
    assert nodes.size == tree.DEEP - 1 + deep
    assert tree.check_trees(nodes, starts, D)
    weights = np.random.default_rng(3).normal(size=len(sizes))
    expected = np.zeros(len(X))
    for t, weight in enumerate(weights):
        expected += [weight * naive_walk(nodes, starts[t], x) for x in X]
    for rows in (slice(None), slice(0, 1), slice(5, 12)):
        found = tree.sum_trees(nodes, starts[:-1], weights, X[rows])
        np.testing.assert_allclose(found, expected[rows], rtol=1e-12, atol=1e-12)
        for n_jobs in (2, 3):
            threads = threading.active_count()
            assert_array_equal(tree.sum_trees(nodes, starts[:-1], weights, X[rows], n_jobs), found)
            assert threading.active_count() == threads
    for t in (1, 3):
        one = tree.sum_trees(nodes, starts[t : t + 1], np.ones(1), X)
        assert_array_equal(one, [naive_walk(nodes, starts[t], x) for x in X])


# -- trees from files -----------------------------------------------------------------------------
def test_check_trees_knows_the_last_good_value_of_everything(tree):
    nodes, starts = random_trees(tree, [5, 7, 1, 3], 0, [0.0])
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


def test_check_trees_knows_where_trees_start(tree):
    nodes, starts = random_trees(tree, [5, 7, 3], 0, [0.0])
    for bad in ([], [0], [15], [0, 14], [0, 16], [1, 15], [0, 5, 5, 15], [0, 12, 5, 15],
                [0, -5, 15], [0, 5, 12, 15, 15], [[0, 5], [12, 15]]):  # fmt: skip
        assert not tree.check_trees(nodes, np.array(bad, dtype=np.int64), D)
    assert not tree.check_trees(nodes, starts.astype(np.int32), D)
    assert not tree.check_trees(nodes, starts.astype(float), D)
    assert not tree.check_trees(nodes[None], starts, D)
    assert not tree.check_trees(nodes["value"], starts, D)
    narrow = np.dtype([(name, tree.NODE[name]) for name in tree.NODE.names[:-1]])
    assert not tree.check_trees(np.zeros(15, dtype=narrow), starts, D)
    assert tree.check_trees(nodes, starts, D)


@pytest.mark.parametrize("seed", range(5))
def test_trees_that_pass_the_check_can_be_walked(tree, seed):
    """Numbers at random in a few nodes: refused, or every walk ends inside its tree."""
    rng, passed = np.random.default_rng(seed), 0
    X = gapped(40, seed)
    for _ in range(60):
        nodes, starts = random_trees(tree, [9, 1, 15], int(rng.integers(1 << 30)), [0.0, 1.0])
        for k in rng.integers(nodes.size, size=2):
            name = rng.choice(["child", "feature"])
            nodes[k][name] = rng.integers(-2, 17)
        if tree.check_trees(nodes, starts, D):
            passed += 1
            found = tree.sum_trees(nodes, starts[:-1], np.ones(3), X)
            expected = [sum(naive_walk(nodes, start, x) for start in starts[:-1]) for x in X]
            np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert 0 < passed < 60

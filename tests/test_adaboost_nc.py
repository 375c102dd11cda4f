"""Tests for solvers/adaboost_nc.py."""

import itertools
import math
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import datasets
from solvers import adaboost_nc
from solvers.adaboost_nc import AdaBoost, AdaBoostNC, ConvergenceWarning

pytestmark = pytest.mark.bounds


# -- slow and obvious references ----------------------------------------------------------------
def naive_impurity(weight, y, criterion):
    """Impurity of a node times its weight."""
    total = weight.sum()
    shares = [weight[y == label].sum() / total for label in (-1, 1)]
    if criterion == "error":
        return total * min(shares)
    if criterion == "gini":
        return total * (1 - sum(p * p for p in shares))
    return total * -sum(p * math.log2(p) for p in shares if p > 0)


def naive_split(X, y, weight, count, rows, criterion, min_leaf):
    """Best split of these rows: (gain, feature, threshold, missing values go left), None if there
    is none. Candidates lie between neighbouring values of all X; the first of equals wins."""
    total = weight[rows].sum()
    parent, found = naive_impurity(weight[rows], y[rows], criterion), []
    for j in range(X.shape[1]):
        values = np.unique(X[:, j][~np.isnan(X[:, j])])
        best = None
        cuts = [*(0.5 * (values[1:] + values[:-1])), np.inf]
        missing = rows[np.isnan(X[rows, j]) & (weight[rows] > 0)]
        for to_left, cut in itertools.product((False, True), cuts):
            alone = weight[rows[X[rows, j] <= cut]].sum() == 0  # then they go right
            if to_left and (missing.size == 0 or alone):
                continue
            left = (X[rows, j] <= cut) | (np.isnan(X[rows, j]) & to_left)
            sides = rows[left], rows[~left]
            if any(count[side].sum() < min_leaf or weight[side].sum() == 0 for side in sides):
                continue
            gain = parent - sum(naive_impurity(weight[s], y[s], criterion) for s in sides)
            if best is None or gain > best[0] + 1e-11 * total:
                if missing.size == 0:  # none seen: they will follow most of the weight
                    to_left = bool(2 * weight[sides[0]].sum() >= total * (1 - 1e-15))
                best = (gain, j, cut, to_left, weight[sides[0]].sum() / total)
        found += [best] if best else []
    if not found:
        return None
    if criterion == "gain_ratio":
        mean = sum(split[0] for split in found) / len(found)
        found = [split for split in found if split[0] >= mean - 1e-11 * total]
        scores = [split[0] / total / -sum(p * math.log2(p) for p in (split[4], 1 - split[4]))
                  for split in found]  # fmt: skip
    else:
        scores = [split[0] / total for split in found]
    first = next(k for k, score in enumerate(scores) if score >= max(scores) - 1e-11)
    return found[first][:4]


def naive_tree(X, y, weight, count, criterion, max_depth, min_leaf):
    """A nested tuple (feature, threshold, missing_left, left, right), or the vote of a leaf."""

    def grow(rows, depth):
        side = weight[rows] @ y[rows]
        seen = rows[weight[rows] > 0]
        split = None
        if depth < max_depth and np.unique(y[seen]).size == 2:
            split = naive_split(X, y, weight, count, rows, criterion, min_leaf)
        if split is None:
            return 1 if side >= -1e-12 * weight[rows].sum() else -1
        _, j, cut, missing_left = split
        left = (X[rows, j] <= cut) | (np.isnan(X[rows, j]) & missing_left)
        return j, cut, missing_left, grow(rows[left], depth + 1), grow(rows[~left], depth + 1)

    return grow(np.arange(len(y)), 0)


def naive_vote(tree, x):
    while isinstance(tree, tuple):
        j, cut, missing_left, left, right = tree
        goes_left = missing_left if math.isnan(x[j]) else x[j] <= cut
        tree = left if goes_left else right
    return tree


def naive_draw(D, rng):
    """How often each row is drawn, in the documented way."""
    gaps = rng.standard_exponential(D.size + 1)
    points = np.cumsum(gaps)[:-1] / gaps.sum()
    rows = np.minimum(np.searchsorted(np.cumsum(D), points), D.size - 1)
    return np.bincount(rows, minlength=D.size)


def naive_table_1(X, y, T, lam, mode, seed, criterion, max_depth, min_leaf, weight=None):
    """Table I of the paper; returns the trees and their alphas."""
    m = len(y)
    D = np.ones(m) / m if weight is None else weight / weight.sum()
    rng = np.random.default_rng(seed)
    trees, alphas, outputs = [], [], []
    while len(trees) < T:
        for _ in range(adaboost_nc.DRAWS if mode == "resample" else 1):
            w, count = D, 1 * (D > 0)
            if mode == "resample":
                for _ in range(adaboost_nc.DRAWS):
                    w = count = naive_draw(D, rng)
                    if np.unique(y[count > 0]).size == 2:
                        break
            tree = naive_tree(X, y, w, count, criterion, max_depth, min_leaf)
            h = np.array([naive_vote(tree, x) for x in X])
            t = len(trees) + 1
            H = np.where(sum(outputs) + h >= 0, 1, -1)
            amb = np.abs(sum(H - h_j for h_j in [*outputs, h]) / (2 * t))
            p = 1 - amb
            right, wrong = (D * p**lam)[h == y].sum(), (D * p**lam)[h != y].sum()
            error = D[h != y].sum()
            useful = error < 0.5 - 1e-12 and right - wrong > 1e-12 * (right + wrong)
            if useful:
                break
        if not useful and trees:
            break
        alpha = 0.5 * math.log(right / max(wrong, 2.0**-52 * right)) if useful else 1.0
        D = p**lam * D * np.exp(-alpha * y * h)
        D /= D.sum()
        trees.append(tree)
        alphas.append(alpha)
        outputs.append(h)
        if error <= 2.0**-52 or not useful:
            break
    return trees, np.array(alphas)


def nested(model, t):
    """Tree t of a fitted model in the form of naive_tree."""
    nodes = model.nodes_[model.starts_[t] : model.starts_[t + 1]]

    def walk(k):
        node = nodes[k]
        if node["child"] == 0:
            return int(node["value"])
        sides = walk(node["child"]), walk(node["child"] + 1)
        return (int(node["feature"]), node["threshold"], bool(node["missing_left"]), *sides)

    return walk(0)


def random_problem(seed):
    """N 8-40, M 1-5; few or many values, duplicates, gaps, constant columns, weights by turns."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(8, 41)), int(rng.integers(1, 6))
    X = rng.normal(size=(n, d)).round(1 if seed % 2 else 6)
    y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1, -1)
    y[:2] = 1, -1
    if seed % 3 == 0:
        X[rng.random((n, d)) < 0.15] = np.nan
    if seed % 5 == 1:
        X[:, -1] = 3.0
    if seed % 5 == 2:
        X[n // 2 :] = X[: n - n // 2]
    weight = rng.integers(0, 3, size=n) + 0.5 * (np.arange(n) < 2) if seed % 4 == 3 else None
    return X, y, weight


def blobs(n=200, d=5, seed=0, distance=1.0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1, -1)
    return rng.normal(size=(n, d)) + 0.5 * distance * y[:, None], y


# -- correct: against something that shares no code -----------------------------------------------
@pytest.mark.parametrize("mode", ["reweight", "resample"])
@pytest.mark.parametrize("lam", [0, 0.5, 2, 9])
@pytest.mark.parametrize("seed", range(30))
def test_matches_table_1_member_by_member(seed, lam, mode):
    X, y, weight = random_problem(seed)
    depth, criterion = [1, 2, 4, 60][seed % 4], [*adaboost_nc.CRITERIA][seed // 4 % 4]
    params = dict(criterion=criterion, max_depth=depth, min_samples_leaf=1 + seed % 3)
    trees, alphas = naive_table_1(X, y, 6, lam, mode, seed, criterion, depth, 1 + seed % 3, weight)
    for max_bins in (256, None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = AdaBoostNC(
                n_estimators=6, lam=lam, mode=mode, random_state=seed, prune=False,
                max_bins=max_bins, **params,
            ).fit(X, y, weight)  # fmt: skip
        assert_allclose(model.weights_, alphas, rtol=1e-9)
        for t, tree in enumerate(trees):
            assert nested(model, t) == tree


TIES = ("sonar", "heart", "ionosphere", "pima", "german-numer", "wdbc")


@pytest.mark.parametrize("name", TIES)
def test_matches_scikit_learn_round_by_round(name):
    """It tries the features in random order and keeps the first of equally good splits, we keep the
    lowest: no such tie at a root here. A leaf with equal weights would be ours +, its -."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    tree = pytest.importorskip("sklearn.tree")
    data = datasets.load(name)
    model = AdaBoost(criterion="gini", max_bins=None).fit(data.X, data.y)
    peer = ensemble.AdaBoostClassifier(tree.DecisionTreeClassifier(max_depth=1), n_estimators=100)
    peer.set_params(random_state=0).fit(data.X, data.y)
    assert len(peer.estimators_) == model.n_iter_ == 100
    stages = zip(model.staged_predict(data.X), peer.staged_predict(data.X), strict=True)
    for ours, theirs in stages:
        assert_array_equal(ours, theirs)
    assert_allclose(model.weights_, 0.5 * peer.estimator_weights_, rtol=1e-9)
    assert_allclose(model.errors_, peer.estimator_errors_, rtol=1e-9)
    assert_allclose(model.feature_importances_, peer.feature_importances_, atol=1e-9)


@pytest.mark.parametrize("name", TIES)
@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_one_tree_partitions_as_scikit_learn(name, criterion):
    """Node by node. Where the two split a node differently, the gains are equal: it takes a random
    one of tied splits, we the first; below such a node the trees are not comparable."""
    trees = pytest.importorskip("sklearn.tree")
    data = datasets.load(name)
    X, y = data.X, np.where(data.y == 1, 1, -1)
    one, same, ties = np.ones(len(y)), 0, 0
    for depth in range(1, 7):
        model = AdaBoost(n_estimators=1, base="tree", max_depth=depth, criterion=criterion,
                         max_bins=None).fit(X, y)  # fmt: skip
        peer = trees.DecisionTreeClassifier(
            criterion=criterion, max_depth=depth, random_state=0
        ).fit(X, y)
        stack = [(0, 0, np.arange(len(y)))]
        while stack:
            a, b, rows = stack.pop()
            ours, theirs = model.nodes_[a], peer.tree_
            inner = ours["child"] > 0
            assert inner == (theirs.children_left[b] >= 0)
            if not inner:
                continue
            left = X[rows, ours["feature"]] <= ours["threshold"]
            other = X[rows, theirs.feature[b]] <= theirs.threshold[b]
            if (left == other).all():
                same += 1
                stack.append((ours["child"], theirs.children_left[b], rows[left]))
                stack.append((ours["child"] + 1, theirs.children_right[b], rows[~left]))
                continue
            below = [sum(naive_impurity(one[s], y[s], criterion) for s in (rows[m], rows[~m]))
                     for m in (left, other)]  # fmt: skip
            assert_allclose(*below, rtol=1e-9, atol=1e-9)
            ties += 1
    assert same > 20 and ties < same

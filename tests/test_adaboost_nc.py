"""Tests for solvers/adaboost_nc.py."""

import itertools
import math
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import datasets
from solvers import adaboost_nc
from solvers.adaboost_nc import AdaBoost, AdaBoostNC, ConvergenceWarning, error_covariance

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
    is none. Candidates lie between neighbouring values of all X; the first of equals wins, but in
    the middle of those that part the rows alike."""
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
    gain, j, cut, to_left, _ = found[first]
    values = np.unique(X[:, j][~np.isnan(X[:, j])])
    above = X[rows, j][(weight[rows] > 0) & (X[rows, j] > cut)]
    if above.size == 0:  # the known against the missing values
        return gain, j, np.inf, to_left
    low, high = np.searchsorted(values, cut) - 1, np.searchsorted(values, above.min())
    middle = max(low, (low + high - 1) // 2)
    return gain, j, 0.5 * (values[middle] + values[middle + 1]), to_left


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
    if weight is not None:
        X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
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


def naive_pessimistic(wrong, rows):
    """Upper 25 % limit of the number of errors: 0 errors exactly, else as in C4.5's code."""
    if wrong == 0:
        return rows * (1 - 0.25 ** (1 / rows))
    if wrong < 1:
        none = naive_pessimistic(0, rows)
        return none + wrong * (naive_pessimistic(1, rows) - none)
    if wrong + 0.5 >= rows:
        return wrong + 0.67 * (rows - wrong)
    z2, f = 0.6744898**2, wrong + 0.5
    root = math.sqrt(z2 * (f * (1 - f / rows) + z2 / 4))
    return rows * (f + z2 / 2 + root) / (rows + z2)


@pytest.mark.parametrize("mode", ["reweight", "resample"])
@pytest.mark.parametrize("seed", range(6))
def test_pruning(seed, mode):
    """Bottom up: a subtree becomes a leaf that is estimated to have no more errors than it."""
    X, y = blobs(120, 3, seed, distance=0.6)
    D, rng = np.ones(120) / 120, np.random.default_rng(seed)
    w = count = naive_draw(D, rng) if mode == "resample" else np.ones(120, dtype=int)
    whole = naive_tree(X, y, w, count, "entropy", 120, 2)

    def prune(tree, rows):
        errors = min(w[rows[y[rows] == 1]].sum(), w[rows[y[rows] == -1]].sum())
        alone = naive_pessimistic(errors, w[rows].sum())
        if not isinstance(tree, tuple):
            return tree, alone
        j, cut, missing_left, left, right = tree
        sides = X[rows, j] <= cut
        (left, a), (right, b) = prune(left, rows[sides]), prune(right, rows[~sides])
        if alone <= a + b:
            return (1 if w[rows] @ y[rows] >= 0 else -1), alone
        return (j, cut, missing_left, left, right), a + b

    expected = prune(whole, np.arange(120))[0]
    model = AdaBoostNC(n_estimators=1, mode=mode, random_state=seed).fit(X, y)
    assert nested(model, 0) == expected != whole
    if isinstance(expected, tuple):  # the rows' own leaves, too, know of the pruning
        assert_allclose(model.errors_[0], np.mean(model.predict(X) != y))


@pytest.mark.parametrize("leaves", [2, 3, 5, 9])
def test_max_leaf_nodes_takes_the_best_first(leaves):
    trees = pytest.importorskip("sklearn.tree")
    X, y = blobs(300, 4, distance=1.5)
    params = {"base": "tree", "criterion": "gini", "max_leaf_nodes": leaves}
    for max_bins in (256, None):
        X = X.round(1)
        model = AdaBoost(n_estimators=1, max_bins=max_bins, **params).fit(X, y)
        peer = trees.DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0).fit(X, y)
        assert model.nodes_.size == 2 * leaves - 1
        assert_array_equal(model.predict(X), peer.predict(X))


def test_min_impurity_decrease_is_scikit_learns():
    trees = pytest.importorskip("sklearn.tree")
    X, y = blobs(300, 4)
    for least in (0.01, 0.02, 0.05):
        model = AdaBoost(n_estimators=1, base="tree", max_depth=None, criterion="gini",
                         min_impurity_decrease=least, max_bins=None)  # fmt: skip
        peer = trees.DecisionTreeClassifier(min_impurity_decrease=least, random_state=0).fit(X, y)
        assert model.fit(X, y).nodes_.size == peer.tree_.node_count


# -- what the paper says, and what holds ----------------------------------------------------------
def figure_1(repeats, **params):
    """Mean over the rounds of cov(h_t, H^t-1), and the error, for lam = 0 and 9."""
    test, found = datasets.two_gaussians(400, seed=10_000), []
    for lam in (0, 9):
        models = []
        for seed in range(repeats):
            data = datasets.two_gaussians(400, seed=seed)
            models.append(AdaBoostNC(lam=lam, random_state=seed, **params).fit(data.X, data.y))
        error = np.mean([np.mean(model.predict(test.X) != test.y) for model in models])
        found.append((error_covariance(models, test.X, test.y).mean(), error))
    return found


def test_figure_1_holds_for_deep_trees():
    (cov_0, error_0), (cov_9, error_9) = figure_1(12)
    assert cov_9 <= 0.5 * cov_0 and error_9 < error_0 - 0.005


def test_figure_1_does_not_hold_for_stumps():
    (cov_0, error_0), (cov_9, error_9) = figure_1(12, base="stump")
    assert cov_9 > cov_0 and error_9 > error_0 + 0.01


def test_error_covariance_by_its_definition():
    test = datasets.two_gaussians(30, seed=99)
    models = []
    for seed in range(5):
        data = datasets.two_gaussians(60, seed=seed)
        models.append(AdaBoostNC(n_estimators=4, random_state=seed).fit(data.X, data.y))
    expected = []
    for t in range(1, 4):
        points = []
        for x, label in zip(test.X, test.y, strict=True):
            pairs = []
            for model in models:
                votes = model.votes(x[None])[0]
                before = votes[:t] @ model.weights_[:t]
                pairs.append(((votes[t] > 0) == label, (before >= 0) == label))
            a, b = np.array(pairs, dtype=float).T
            points.append((a * b).mean() - a.mean() * b.mean())
        expected.append(np.mean(points))
    assert_allclose(error_covariance(models, test.X, test.y), expected, atol=1e-12)
    a, b = models[0]._right(test.X, test.y)
    within = [np.cov(u, v, bias=True)[0, 1] for u, v in zip(1.0 * a, 1.0 * b, strict=True)]
    assert_allclose(models[0].error_correlation(test.X, test.y), within, atol=1e-12)


def test_adaboost_is_lam_0():
    X, y = blobs()
    one = AdaBoost(n_estimators=20).fit(X, y)
    params = {k: v for k, v in one.get_params().items()}
    two = AdaBoostNC(**params, lam=0).fit(X, y)
    assert_array_equal(one.decision_function(X), two.decision_function(X))
    loss = np.exp(-y * one.decision_function(X)).mean()
    assert_allclose(one.objective_, loss, rtol=1e-12)
    assert (np.diff(one.trace_) < 0).all()


def test_objective_is_the_penalised_loss():
    X, y = blobs(150, 3)
    model = AdaBoostNC(n_estimators=15, lam=2, random_state=0, max_depth=3).fit(X, y)
    votes = model.votes(X)
    loss = np.exp(-y * model.decision_function(X)) / 150
    for t in range(1, 16):
        loss *= (0.5 + np.abs(votes[:, :t].sum(axis=1)) / (2 * t)) ** 2
    assert_allclose(model.objective_, loss.sum(), rtol=1e-9)


# -- members of other kinds -----------------------------------------------------------------------
class Threshold:
    """Knows fit and predict only; remembers what it was given."""

    def fit(self, X, y):
        self.shape, self.cut = X.shape, X[:, 0].mean()
        self.low, self.high = np.unique(y)
        return self

    def predict(self, X):
        return np.where(X[:, 0] > self.cut, self.high, self.low)


def test_objects_as_members():
    exrm = pytest.importorskip("solvers.exrm")
    X, y = blobs(120, 3)
    labels = np.where(y > 0, "up", "down")
    model = AdaBoostNC(base=Threshold(), n_estimators=5, random_state=0).fit(X, labels)
    assert all(member.shape == (120, 3) for member in model.estimators_)
    assert model.score(X, labels) > 0.6 and not hasattr(model, "nodes_")
    base = exrm.PSVM(lam=0.1)
    boosted = AdaBoost(base=base, n_estimators=5).fit(X, labels)
    first = exrm.PSVM(lam=0.1).fit(X, labels)
    assert_array_equal(boosted.estimators_[0].predict(X), first.predict(X))
    assert not hasattr(base, "coef_")
    assert_allclose(boosted.decision_function(X), boosted.votes(X) @ boosted.weights_)
    stages = [*boosted.staged_predict(X)]
    assert_array_equal(stages[-1], boosted.predict(X))
    with pytest.raises(ValueError, match="cannot save a model with such parameters.*no Threshold"):
        model.save("never.npz")
    again = boosted.set_params(base="stump").fit(X, labels)
    assert not hasattr(again, "estimators_") and again.nodes_.size > 0


def test_mlp_members():
    """The paper's second base learner."""
    neural = pytest.importorskip("sklearn.neural_network")
    data = datasets.two_gaussians(200)
    base = neural.MLPClassifier((4,), max_iter=30, learning_rate_init=0.05, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AdaBoostNC(base=base, n_estimators=4, random_state=0).fit(data.X, data.y)
    assert model.n_iter_ == 4 and model.score(data.X, data.y) > 0.8


# -- well behaved ---------------------------------------------------------------------------------
@pytest.mark.parametrize("max_bins", [256, None])
@pytest.mark.parametrize("mode", ["resample", "reweight"])
@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.array([[0.0], [1.0]]), [0, 1]),  # two rows
        (np.zeros((6, 3)), [0, 0, 0, 1, 1, 1]),  # nothing to learn, classes equal
        (np.zeros((6, 3)), [0, 0, 0, 0, 0, 1]),  # ... and not
        (np.ones((6, 1)) * np.array([[1], [1], [1], [5], [5], [5]]), [0, 0, 0, 1, 1, 1]),
        (np.array([[1.0, 1], [1, 1], [1, 1], [2, 2], [2, 2], [2, 2]]), [0, 1, 0, 1, 0, 1]),
        (np.full((6, 2), np.nan), [0, 0, 0, 1, 1, 1]),  # all missing
        (np.array([[np.nan], [np.nan], [np.nan], [1], [2], [3]]), [0, 0, 0, 1, 1, 1]),
        (np.array([[5e-324], [0], [1e150], [-1e150], [1e-308], [3]]), [0, 0, 0, 1, 1, 1]),
    ],
)
def test_degenerate(X, y, mode, max_bins):
    y = np.array(y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for cls, more in ((AdaBoost, {}), (AdaBoostNC, {"min_samples_leaf": 1, "prune": False})):
            model = cls(n_estimators=5, mode=mode, random_state=0, max_bins=max_bins, **more)
            model.fit(X, y)
            decision = model.decision_function(X)
            assert np.isfinite(decision).all() and model.weights_.size == model.n_iter_ >= 1
            assert_allclose(model.votes(X) @ model.weights_, decision)
            assert model.score(X, y) >= 0.5 and np.isfinite(model.objective_)


def test_how_runs_end():
    X, y = blobs(40, 2, distance=20.0)
    model = AdaBoost().fit(X, y)
    assert model.n_iter_ == 1 and model.reason_ == "a member made no error" and model.converged_
    assert_allclose(model.weights_, 0.5 * math.log(2.0**52))
    X, y = blobs(40, 2)
    model = AdaBoost(n_estimators=3).fit(X, y)
    assert model.reason_ == "all members were trained" and model.converged_
    model = AdaBoost().fit(np.zeros((4, 1)), [0, 1, 1, 1])  # then each class has half the weight
    assert model.n_iter_ == 1 and model.reason_ == "no member was better than guessing"
    assert not model.converged_
    with pytest.warns(ConvergenceWarning, match=r"no member was better than guessing .*error 0.5"):
        model = AdaBoost(n_estimators=1).fit(np.zeros((4, 1)), [0, 0, 1, 1])
    assert_array_equal(model.weights_, [1.0])
    assert not model.converged_ and model.reason_ == "no member was better than guessing"
    seen = []
    stop = AdaBoost(callback=lambda model, t, info: seen.append((t, *info)) or t == 4)
    assert stop.fit(*blobs()).n_iter_ == 4 and stop.reason_ == "the callback stopped it"
    assert seen[-1] == (4, "objective", "error") and not stop.converged_


def test_a_hundred_thousand_rounds():
    """No stump separates these rows: their weights fall and rise without ever vanishing."""
    X = np.arange(10.0)[:, None]
    y = np.array([0, 1, 1, 0, 0, 1, 0, 1, 1, 0])
    model = AdaBoost(n_estimators=100_000).fit(X, y)
    assert model.n_iter_ == 100_000 and model.score(X, y) == 1.0
    assert np.isfinite(model.weights_).all() and (model.weights_ > 0).all()
    model = AdaBoostNC(n_estimators=2000, lam=9, base="stump", mode="reweight").fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()


def test_weights_that_would_vanish_are_kept():
    """A penalty this strong drives weights below any number; then the run ends, all finite."""
    X, y = blobs(60, 2)
    for lam in (100.0, 1e6):
        model = AdaBoostNC(n_estimators=200, lam=lam, random_state=0, max_depth=2).fit(X, y)
        assert np.isfinite(model.weights_).all() and np.isfinite(model.objective_)


def test_draws_without_a_class():
    """Very unequal weights: they are drawn again; where that is in vain, taken as they are."""
    X, y = blobs(30, 2)
    weight = np.where(y > 0, 1.0, 1e-12)
    model = AdaBoostNC(n_estimators=3, random_state=0).fit(X, y, weight)
    assert nested(model, 0) == 1  # a leaf
    counts = adaboost_nc._sample(np.where(np.arange(30) == 0, 1e-2, 1.0) / 29.01,
                                 np.where(np.arange(30) == 0, 1.0, -1.0),
                                 np.random.default_rng(0))  # fmt: skip
    assert counts.sum() == 30


def test_samples_follow_the_weights():
    rng, D = np.random.default_rng(0), np.array([0.5, 0.0, 0.2, 0.3])
    y = np.array([1.0, 1, -1, -1])
    mean = np.mean([adaboost_nc._sample(D, y, rng) for _ in range(4000)], axis=0)
    both = 1 - 0.5**4 - 0.5**4  # draws with both classes
    for k, p in enumerate(D):
        inside = 4 * p - (4 * p / 0.5 * 0.5**4 if p else 0)  # without the draws of one class
        assert abs(mean[k] - inside / both) < 0.05


def test_missing_values_go_to_the_better_side():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1))
    y = X[:, 0] > 0
    for side in (False, True):
        Z, z = np.vstack([X, np.full((40, 1), np.nan)]), np.append(y, np.full(40, side))
        for max_bins in (256, None):
            model = AdaBoost(n_estimators=1, max_bins=max_bins).fit(Z, z)
            assert model.score(Z, z) == 1.0
    never = AdaBoost(n_estimators=1).fit(X[:150], y[:150])  # unseen: where most of the weight went
    common = y[:150].mean() >= 0.5
    assert never.predict([[np.nan]]) == [common]
    with pytest.raises(ValueError, match="inf in row 0"):
        never.predict([[np.inf]])


def test_class_weight():
    X, y = blobs(200, 2)
    X, y = X[:130], np.where(np.arange(130) < 100, -1, y[:130])
    counts = [(y < 0).sum(), (y > 0).sum()]
    balanced = AdaBoost(n_estimators=5, class_weight="balanced").fit(X, y)
    by_hand = AdaBoost(n_estimators=5).fit(X, y, np.where(y > 0, 1 / counts[1], 1 / counts[0]))
    given = AdaBoost(n_estimators=5, class_weight={-1: 1 / counts[0], 1: 1 / counts[1]}).fit(X, y)
    for model in (by_hand, given):
        assert_allclose(model.decision_function(X), balanced.decision_function(X))
    for bad, text in (({7: 1.0}, "names 7, y has -1, 1"), ({1: 0.0}, "finite and > 0, got 1, 0")):
        with pytest.raises(ValueError, match=text):
            AdaBoost(class_weight=bad).fit(X, y)


def test_margins_and_stages():
    X, y = blobs(100, 3)
    model = AdaBoost(n_estimators=30).fit(X, y)
    margins = model.margins(X, y)
    assert_allclose(margins, y * (model.votes(X) @ model.weights_) / model.weights_.sum())
    assert ((margins > 0) == (model.predict(X) == y)).all() and np.abs(margins).max() <= 1
    for t, decision in enumerate(model.staged_decision_function(X), 1):
        assert_allclose(decision, model.votes(X)[:, :t] @ model.weights_[:t], atol=1e-12)


def test_threads_agree():
    X, y = blobs(301, 3)
    one = AdaBoostNC(random_state=0).fit(X, y)
    three = AdaBoostNC(random_state=0, n_jobs=3).fit(X, y)
    assert_array_equal(one.decision_function(X), three.decision_function(X))
    assert_array_equal(one.decision_function(X[:1]), three.decision_function(X[:1]))


def test_votes_on_training_rows_are_those_of_prediction():
    """Codes and thresholds must agree, also where values are close and many, and for gaps."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4)) * 10.0 ** rng.integers(-3, 4, size=4)
    X[:, 1] = np.nextafter(X[:, 1].round(1), rng.choice([-np.inf, np.inf], 3000))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.where(np.nansum(X / [1, 10, 1, 1], axis=1) + rng.normal(size=3000) > 0, 1, -1)
    for params in ({}, {"mode": "reweight"}, {"max_bins": None}, {"max_bins": 7, "max_depth": 5}):
        model = AdaBoostNC(n_estimators=4, random_state=0, **params).fit(X, y)
        D = np.ones(3000) / 3000
        for t, h in enumerate(model.votes(X).T):
            assert_allclose(model.errors_[t], D[h != y].sum(), rtol=1e-9)
            votes = model.votes(X)[:, : t + 1].sum(axis=1)
            P = D * (0.5 + np.abs(votes) / (2 * (t + 1))) ** 2
            D = P * np.exp(-model.weights_[t] * y * h)
            D /= D.sum()


@pytest.mark.parametrize(
    "damage",
    [
        lambda a: a["nodes_"]["child"].__setitem__(0, 10**6),
        lambda a: a["nodes_"]["child"].__setitem__(1, 1),  # a cycle
        lambda a: a["nodes_"]["child"].__setitem__(0, -1),
        lambda a: a["nodes_"]["feature"].__setitem__(0, 4),
        lambda a: a["starts_"].__setitem__(-1, 10**6),
        lambda a: a["starts_"].__setitem__(1, 10**6),
        lambda a: a.__setitem__("weights_", a["weights_"][:-1]),
        lambda a: a.__setitem__("weights_", a["weights_"].astype(str)),
        lambda a: a.__setitem__("starts_", a["starts_"].astype(float)),
        lambda a: a.__setitem__("nodes_", a["nodes_"]["value"]),
        lambda a: a.__setitem__("classes_", a["classes_"][:1]),
        lambda a: a.pop("nodes_"),
    ],
)
def test_damaged_trees_are_not_walked(damage, tmp_path):
    path = tmp_path / "model.npz"
    AdaBoost(n_estimators=5).fit(*blobs(50, 4)).save(path)
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files}
    damage(arrays)
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="its AdaBoost is damaged"):
        AdaBoost.load(path)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"n_estimators": 0}, "AdaBoostNC: n_estimators must be an integer >= 1, got 0"),
        ({"lam": -1}, "lam must be a finite number >= 0, got -1"),
        ({"base": "forest"}, "base must be 'tree', 'stump' or an object with fit and predict"),
        ({"base": 3}, "base must be 'tree', 'stump' or an object with fit and predict, got 3"),
        ({"max_depth": 0}, "max_depth must be None or an integer >= 1, got 0"),
        ({"criterion": "mse"}, "criterion must be one of 'error', 'gini', 'entropy', 'gain_ratio'"),
        ({"min_samples_leaf": 0}, "min_samples_leaf must be an integer >= 1, got 0"),
        ({"max_leaf_nodes": 1}, "max_leaf_nodes must be None or an integer >= 2, got 1"),
        ({"min_impurity_decrease": -0.1}, "min_impurity_decrease must be a finite number >= 0"),
        ({"prune": "yes"}, "prune must be True or False, got 'yes'"),
        ({"max_bins": 257}, "max_bins must be None or an integer from 2 to 256, got 257"),
        ({"mode": "both"}, "mode must be one of 'resample', 'reweight', got 'both'"),
        ({"class_weight": "equal"}, "class_weight must be None, 'balanced' or a dict"),
        ({"n_jobs": 0}, "n_jobs must be an integer >= 1, got 0"),
        ({"random_state": -1}, "random_state must be None or an integer >= 0, got -1"),
    ],
)
def test_parameter_errors(params, text):
    with pytest.raises(ValueError, match=text):
        AdaBoostNC(**params).fit(*blobs(20, 2))


def test_verbose_prints_a_line_a_round(capsys):
    model = AdaBoost(n_estimators=7, verbose=1).fit(*blobs(50, 2))
    assert len(capsys.readouterr().out.splitlines()) == model.n_iter_ == 7

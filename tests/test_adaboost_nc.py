"""Tests for solvers/adaboost_nc.py."""

import math
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import datasets
from solvers import adaboost_nc
from solvers.adaboost_nc import AdaBoost, AdaBoostNC, ConvergenceWarning, TreeParams
from solvers.diversity import error_covariance
from solvers.exrm import PSVM
from tests import naive
from tests.conftest import blobs

pytestmark = pytest.mark.bounds


# -- slow and obvious references ----------------------------------------------------------------
def naive_tree(X, y, weight, count, criterion, max_depth, min_leaf):
    """A nested tuple (feature, threshold, missing_left, left, right), or the vote of a leaf."""

    def grow(node):
        if node.first is None:
            return 1 if node.value >= -1e-12 else -1
        split = node.first
        to_left = node.missing_left(split) is not False
        return split.feature, node.threshold(split), to_left, *map(grow, node.children(split))

    rows = weight > 0
    params = TreeParams(adaboost_nc.CRITERIA[criterion], max_depth, min_leaf, min_weight=0)
    return grow(naive.root(X[rows], -(weight * y)[rows], weight[rows], params, count[rows], X))


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
        for _ in range(adaboost_nc.TRIES if mode == "resample" else 1):
            w, count = D, 1 * (D > 0)
            if mode == "resample":
                for _ in range(adaboost_nc.TRIES):
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
        alpha = 1.0
        if useful and error > 2.0**-52:
            alpha = 0.5 * math.log(right / max(wrong, 2.0**-52 * right))
        elif useful and trees:  # a perfect member: the largest vote so far
            alpha = max(alphas)
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


class Threshold:
    """Member with fit and predict only, which stores the shape of its rows."""

    def fit(self, X, y):
        self.shape, self.cut = X.shape, X[:, 0].mean()
        self.low, self.high = np.unique(y)
        return self

    def predict(self, X):
        return np.where(X[:, 0] > self.cut, self.high, self.low)


class Heavy(Threshold):
    """Takes weights, and has a seed, which chooses the feature."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def get_params(self, deep=True):
        return {"random_state": self.random_state}

    def set_params(self, random_state):
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        """Returns nothing."""
        self.j = np.random.default_rng(self.random_state).integers(X.shape[1])
        super().fit(X[:, self.j :], y)
        self.cut = np.average(X[:, self.j], weights=sample_weight)

    def predict(self, X):
        return super().predict(X[:, self.j :])


# -- correct: against something that shares no code -----------------------------------------------
SEEDS = [pytest.param(seed, marks=pytest.mark.uncompiled) for seed in range(12)] + [*range(12, 30)]


@pytest.mark.parametrize("mode", ["reweight", "resample"])
@pytest.mark.parametrize("lam", [0, 0.5, 2, 9])
@pytest.mark.parametrize("seed", SEEDS)
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


@pytest.mark.uncompiled
@pytest.mark.parametrize("criterion", ["gain_ratio", "entropy"])
@pytest.mark.parametrize("seed", range(8))
def test_constant_columns_are_no_features(seed, criterion):
    """They have no split and no gain to average."""
    X, y, _ = random_problem(2 * seed + 1)
    n = len(y)
    X = np.column_stack([np.zeros(n), X, np.ones(n), np.full(n, np.nan)])
    trees, _ = naive_table_1(X, y, 4, 0.5, "reweight", 0, criterion, 4, 2)
    params = {"mode": "reweight", "n_estimators": 4, "prune": False, "max_depth": 4, "lam": 0.5}
    for max_bins in (256, None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = AdaBoostNC(criterion=criterion, max_bins=max_bins, **params).fit(X, y)
        assert [nested(model, t) for t in range(len(trees))] == trees


def weighted_problem(seed):
    """Rows, labels, numbers of repetitions: many values, so that there are more than bins."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 3))
    X[:, 2] = X[:, 2].round(1)
    if seed % 2:
        X[rng.random(X.shape) < 0.1] = np.nan
    y = np.where(np.nansum(X, axis=1) + rng.normal(size=400) > 0, 1, -1)
    counts = rng.integers(0, 4, size=400)
    counts[np.argsort(y)[[0, -1]]] = 1
    return X, y, counts


@pytest.mark.parametrize("max_bins", [16, 256, None])
@pytest.mark.parametrize("criterion", adaboost_nc.CRITERIA)
@pytest.mark.parametrize("depth", [1, 3])
def test_weights_are_repeated_rows_and_zero_is_no_row(depth, criterion, max_bins):
    for seed in range(3):
        X, y, counts = weighted_problem(seed)
        model = AdaBoost(n_estimators=8, base="tree", max_depth=depth, criterion=criterion,
                         max_bins=max_bins)  # fmt: skip
        points = np.vstack([X, np.random.default_rng(9).normal(size=(300, 3))])
        once = model.fit(X, y, 0.3 * counts).decision_function(points)
        trace, trees = model.log_trace_, [nested(model, t) for t in range(8)]
        model.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
        assert_allclose(model.decision_function(points), once, atol=1e-10)
        assert_allclose(model.log_trace_, trace, rtol=1e-10)
        assert [nested(model, t) for t in range(8)] == trees
        model.fit(X[counts > 0], y[counts > 0], counts[counts > 0])
        assert_allclose(model.decision_function(points), once, atol=1e-10)
        assert [nested(model, t) for t in range(8)] == trees


def test_rows_without_weight_are_not_there():
    """To the last bit, draws of samples and members of other kinds included."""
    X, y, counts = weighted_problem(0)
    for base in ("tree", Heavy()):
        for mode in ("resample", "reweight"):
            model = AdaBoostNC(n_estimators=4, base=base, mode=mode, random_state=0)
            whole = model.fit(X, y, counts).decision_function(X)
            part = model.fit(X[counts > 0], y[counts > 0], counts[counts > 0]).decision_function(X)
            assert_array_equal(whole, part)


TIES = ("sonar", "heart", "ionosphere", "pima", "german-numer", "wdbc")


@pytest.mark.parametrize("name", TIES)
def test_matches_scikit_learn_round_by_round(name):
    """It tries the features in random order and keeps the first of equally good splits, we keep the
    lowest: no such tie at a root here. A leaf with equal weights would be ours +, its -."""
    ensemble, tree = (pytest.importorskip(f"sklearn.{name}") for name in ("ensemble", "tree"))
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


@pytest.mark.uncompiled
@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_importances_of_trees_are_scikit_learns(criterion):
    """A gain counts by the weight of its node."""
    trees = pytest.importorskip("sklearn.tree")
    X, y = blobs(300, 4, distance=0.7)
    model = AdaBoost(n_estimators=1, base="tree", max_depth=3, criterion=criterion, max_bins=None)
    peer = trees.DecisionTreeClassifier(max_depth=3, criterion=criterion, random_state=0).fit(X, y)
    expected = peer.tree_.compute_feature_importances(normalize=False)
    gains = np.bincount(model.fit(X, y).nodes_["feature"], model.nodes_["gain"], 4)
    assert_allclose(gains, expected, rtol=1e-9)
    assert_allclose(model.feature_importances_, expected / expected.sum(), rtol=1e-9)


@pytest.mark.uncompiled
def test_estimated_errors():
    """Parts of rows, too, which weights make, and leaves with less than two."""
    for rows in (0.5, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 10.0, 100.0):
        for wrong in rows * np.array([0.0, 0.1, 0.25, 0.4, 0.5]):
            found = adaboost_nc._pessimistic(np.array([wrong]), np.array([rows]))
            assert_allclose(found, [naive.pessimistic(wrong, rows)], rtol=1e-6)


@pytest.mark.uncompiled
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
        alone = naive.pessimistic(errors, w[rows].sum())
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


@pytest.mark.uncompiled
@pytest.mark.parametrize("limits", [
    *({"max_leaf_nodes": leaves} for leaves in (2, 3, 5, 9)),
    *({"min_impurity_decrease": least} for least in (0.01, 0.02, 0.05)),
    *({"max_depth": depth, "criterion": "entropy"} for depth in (1, 2)),
])  # fmt: skip
def test_limits_are_scikit_learns(limits):
    trees = pytest.importorskip("sklearn.tree")
    X, y = blobs(300, 4, distance=1.5)
    for max_bins in (256, None):
        X = X.round(1)
        model = AdaBoost(1, "tree", max_bins=max_bins, **{"max_depth": None} | limits).fit(X, y)
        peer = trees.DecisionTreeClassifier(random_state=0, **limits).fit(X, y)
        assert model.nodes_.size == peer.tree_.node_count
        assert_array_equal(model.predict(X), peer.predict(X))


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
        runs = [model.votes(test.X) for model in models]
        found.append((error_covariance(runs, test.y).mean(), error))
    return found


def test_figure_1_holds_for_deep_trees_and_not_for_stumps():
    (cov_0, error_0), (cov_9, error_9) = figure_1(12)
    assert cov_9 <= 0.5 * cov_0 and error_9 < error_0 - 0.005
    (cov_0, error_0), (cov_9, error_9) = figure_1(12, base="stump")
    assert cov_9 > cov_0 and error_9 > error_0 + 0.01


@pytest.mark.uncompiled
@pytest.mark.parametrize("weighted", [False, True])
def test_covariance_of_errors_by_its_definition(weighted):
    data, test = (datasets.two_gaussians(60, seed=seed) for seed in (0, 99))
    model = AdaBoostNC(n_estimators=4, random_state=0, max_depth=2).fit(data.X, data.y)
    votes, sides = model.votes(test.X).T, np.where(test.y == model.classes_[1], 1, -1)
    expected = []
    for t in range(1, 4):
        share = model.weights_[:t] if weighted else np.ones(t)
        before = np.where(share @ votes[:t] >= 0, 1, -1)
        expected.append(np.cov(votes[t] == sides, before == sides, bias=True)[0, 1])
    found = model.error_correlation(test.X, test.y, weighted=weighted)
    assert_allclose(found, expected, atol=1e-12)


@pytest.mark.uncompiled
def test_objective_is_the_penalised_loss():
    X, y = blobs(150, 3)
    model = AdaBoostNC(n_estimators=15, lam=2, random_state=0, max_depth=3).fit(X, y)
    votes = model.votes(X)
    loss = np.exp(-y * model.decision_function(X)) / 150
    for t in range(1, 16):
        loss *= (0.5 + np.abs(votes[:, :t].sum(axis=1)) / (2 * t)) ** 2
    assert_allclose(model.objective_, loss.sum(), rtol=1e-9)
    assert_allclose(np.exp(model.log_trace_), model.trace_, rtol=1e-12)
    assert model.trace_.shape == (15,) and model.trace_[-1] == model.objective_
    one = AdaBoost(n_estimators=20).fit(X, y)  # AdaBoost is lam = 0
    two = AdaBoostNC(**one.get_params(), lam=0).fit(X, y)
    assert_array_equal(one.decision_function(X), two.decision_function(X))
    assert_allclose(one.objective_, np.exp(-y * one.decision_function(X)).mean(), rtol=1e-12)
    assert (np.diff(one.trace_) < 0).all()


def test_objective_below_any_number_has_a_logarithm():
    X, y = blobs(150, 3)
    model = AdaBoostNC(n_estimators=1000, lam=12, random_state=0).fit(X, y)
    assert model.n_iter_ == 1000 and model.objective_ == 0.0
    D, votes, logs = np.ones(150) / 150, np.zeros(150), []
    for t, h in enumerate(model.votes(X).T, 1):
        _, alpha, Z, D = naive_round(D, y, h, votes, t, 12)
        votes += h
        logs.append(math.log(Z))
        assert_allclose(model.weights_[t - 1], alpha, rtol=1e-6)
    assert_allclose(model.log_trace_, np.cumsum(logs), rtol=1e-9)
    assert model.log_trace_[-1] == model.log_objective_ < -800
    for lam in (100.0, 1e6):  # all weights underflow: the run ends, all finite
        model = AdaBoostNC(n_estimators=200, lam=lam, random_state=0, max_depth=2).fit(X, y)
        assert np.isfinite(model.weights_).all() and np.isfinite(model.log_trace_).all()
        assert (model.weights_ > 0).all()


# -- members of other kinds -----------------------------------------------------------------------
@pytest.mark.uncompiled
@pytest.mark.parametrize("mode", ["resample", "reweight"])
def test_members_are_seeded(mode):
    X, y = blobs(120, 20)

    def seeds(random_state):
        model = AdaBoostNC(base=Heavy(), n_estimators=5, mode=mode, random_state=random_state)
        return [member.random_state for member in model.fit(X, y).estimators_]

    assert seeds(0) == seeds(0) != seeds(1)
    assert len(set(seeds(0))) == 5 and None not in seeds(None)
    assert seeds(np.random.default_rng(5)) == seeds(np.random.default_rng(5))
    base = Heavy()
    AdaBoost(base=base, n_estimators=2, random_state=0).fit(X, y)
    assert base.random_state is None


class Scripted(Threshold):
    """Errs on the first rows; `wrong` lists their number for each member."""

    wrong = []

    def fit(self, X, y, sample_weight=None):
        self.count, self.labels = Scripted.wrong.pop(0), y
        return self

    def predict(self, X):
        first = np.arange(len(X)) < self.count
        return np.where(first, -self.labels, self.labels)


@pytest.mark.uncompiled
@pytest.mark.parametrize("wrong", [[3, 0], [4, 1, 0], [0]])
def test_a_perfect_member_gets_the_largest_vote_before_it(wrong):
    X, y = np.zeros((10, 1)), np.where(np.arange(10) % 2, 1, -1)
    Scripted.wrong = [*wrong]
    model = AdaBoost(base=Scripted()).fit(X, y)
    assert model.n_iter_ == len(wrong) and model.reason_ == "a member made no error"
    assert model.weights_[-1] == (model.weights_[:-1].max() if len(wrong) > 1 else 1.0)
    assert_allclose(model.weights_[0], 0.5 * math.log(10 / wrong[0] - 1) if wrong[0] else 1.0)


@pytest.mark.uncompiled
def test_missing_values_are_the_business_of_the_members():
    """A foreign member checks its rows itself: the tag is True, even if it refuses them (None)."""
    linear = pytest.importorskip("sklearn.linear_model").LogisticRegression()
    X, y = blobs(40, 2)
    X[::4, 1] = np.nan
    bases = "stump", AdaBoost(2), AdaBoost(2, linear), linear, PSVM()
    for base, takes in zip(bases, (True, True, None, None, False), strict=True):
        model = AdaBoost(base=base, n_estimators=2)
        assert model.__sklearn_tags__().input_tags.allow_nan == (takes is not False)
        if takes:
            assert model.fit(X, y).predict(X).shape == (40,)
        else:
            with pytest.raises(ValueError, match="NaN|nan"):
                model.fit(X, y)


@pytest.mark.uncompiled
def test_objects_as_members():
    X, y = blobs(120, 3)
    labels = np.where(y > 0, "up", "down")
    model = AdaBoostNC(base=Threshold(), n_estimators=5, random_state=0).fit(X, labels)
    assert all(member.shape == (120, 3) for member in model.estimators_)
    assert model.score(X, labels) > 0.6 and not hasattr(model, "nodes_")
    with pytest.raises(ValueError, match="Threshold takes no sample_weight in fit: set mode='res"):
        AdaBoost(base=Threshold()).fit(X, y)
    assert model.fit(X, labels, np.arange(120.0)).n_iter_ >= 1  # then they are drawn with them
    base = PSVM(lam=0.1)
    boosted = AdaBoost(base=base, n_estimators=5).fit(X, labels)
    first = PSVM(lam=0.1).fit(X, labels)
    assert_array_equal(boosted.estimators_[0].predict(X), first.predict(X))
    assert not hasattr(base, "coef_")
    assert_allclose(boosted.decision_function(X), boosted.votes(X) @ boosted.weights_)
    assert_array_equal([*boosted.staged_predict(X)][-1], boosted.predict(X))
    again = boosted.set_params(base="stump").fit(X, labels)
    assert not hasattr(again, "estimators_") and again.nodes_.size > 0


# -- well behaved ---------------------------------------------------------------------------------
@pytest.mark.uncompiled
@pytest.mark.parametrize("max_bins", [256, None])
@pytest.mark.parametrize("mode", ["resample", "reweight"])
@naive.each_degenerate
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


@pytest.mark.uncompiled
def test_how_runs_end(capsys):
    X, y = blobs(40, 2, distance=20.0)
    model = AdaBoost().fit(X, y)
    assert model.n_iter_ == 1 and model.reason_ == "a member made no error" and model.converged_
    assert_array_equal(model.weights_, [1.0])
    X, y = blobs(40, 2)
    model = AdaBoost(n_estimators=3, verbose=1).fit(X, y)
    assert model.reason_ == "all members were trained" and model.converged_
    assert len(capsys.readouterr().out.splitlines()) == model.n_iter_ == 3
    model = AdaBoost(base="tree", max_depth=5).fit(*blobs(60, 2))
    assert model.n_iter_ > 2 and model.reason_ == "a member made no error" and model.converged_
    assert model.errors_[-1] == 0 and model.weights_[-1] == model.weights_[:-1].max() < 5
    model = AdaBoost(base="tree", max_depth=5).fit(*blobs(60, 2, seed=1))  # none but rounding
    assert 0 < model.errors_[-1] < 1e-16 and model.reason_ == "a member made no error"
    assert model.weights_[-1] == model.weights_[:-1].max()
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


def naive_round(D, y, h, votes, t, lam):
    """Table I after a member that votes h, which errs: error, alpha, Z and the next D."""
    p = 0.5 + np.abs(votes + h) / (2 * t)
    right, wrong = (D * p**lam)[h == y].sum(), (D * p**lam)[h != y].sum()
    alpha = 0.5 * math.log(right / wrong)
    new = D * p**lam * np.exp(-alpha * y * h)
    return D[h != y].sum(), alpha, new.sum(), np.maximum(new / new.sum(), 1e-100)


def one_block(y, D, votes):
    """Rows in the midst of a run."""
    block = adaboost_nc.SingleBlock(np.zeros((y.size, 1)), y, D)
    vars(block).update(D=D, votes=votes, P=np.empty(y.size))
    return block


@pytest.mark.uncompiled
@pytest.mark.parametrize("lam", [0.0, 2.0])
def test_weights_that_would_vanish_are_kept(lam):
    """All members are right on row 0: its weight falls, but not below the floor, and so it comes
    back soon once members are wrong there."""
    y, votes = np.array([1.0, 1, -1, -1, 1, -1]), np.zeros(6, dtype=np.int32)
    D, signs, low = np.full(6, 1 / 6), np.array([-1, 1], dtype=np.int8), 1.0
    block = one_block(y, D, votes)
    for t in range(1, 2001):
        h = np.where(np.arange(6) == 1 + t % 5, -y, y)
        if t > 1200:
            h[0] = -y[0]
        expected = naive_round(D, y, h, votes, t, lam)
        after = votes + h * (lam > 0)  # without a penalty they are not needed
        block.node = (h > 0).astype(np.int32)
        found = adaboost_nc._weigh_member(block, signs, t, lam, 1.0, 1)
        if not found[-1]:
            break
        assert_allclose(found[:3], expected[:3], rtol=1e-9)
        assert_allclose(D, expected[3], rtol=1e-9)
        assert_array_equal(votes, after)
        low = min(low, D[0])
    assert low == adaboost_nc.FLOOR and t > 1200 and D[0] > 0.1


@pytest.mark.uncompiled
@pytest.mark.parametrize(
    ("lam", "p", "D", "useful"),
    [
        (1.0, (0.5, 1.0), (2.0, 1.0), False),  # error 1/3, yet equal once penalised
        (1.0, (0.5, 1.0), (2.0 + 1e-13, 1.0), False),  # ... but for rounding
        (1.0, (0.5, 1.0), (2.0 + 1e-9, 1.0), True),
        (0.0, (0.5, 1.0), (1.0, 1.0), False),
        (0.0, (0.5, 1.0), (1.0 + 1e-9, 1.0), True),
        (0.0, (0.5, 1.0), (1.0, 1.0 + 1e-9), False),
        (20.0, (1.0, 0.5), (1.0, 2.0), False),  # better once penalised, but worse than guessing
        (300.0, (0.5, 0.5), (2.0, 1.0), True),
        (400.0, (0.5, 0.5), (2.0, 1.0), False),  # nothing is left of the weights
    ],
)
def test_what_is_no_better_than_guessing(lam, p, D, useful):
    """Two rows, the first right, with a penalty of p^lam, before member 2."""
    y, h = np.array([1.0, -1.0]), np.array([1, 1], dtype=np.int32)
    votes = np.where(np.array(p) == 1.0, 1, -1).astype(np.int32)
    before, D = votes.copy(), np.array(D) / sum(D)
    start, signs, block = D.copy(), np.array([-1, 1], dtype=np.int8), one_block(y, D, votes)
    block.node = h
    _, alpha, _, found = adaboost_nc._weigh_member(block, signs, 2, lam, 1.0, 1)
    assert found == useful
    if useful:
        assert alpha > 0 and D[1] > start[1] and (votes == before + (lam > 0)).all()
    else:
        assert_array_equal(D, start)
        assert_array_equal(votes, before)


class Gaps:
    """Random numbers from a list: n + 1 gaps between n points for each sample."""

    def __init__(self, *samples):
        self.samples, self.calls = samples, 0

    def standard_exponential(self, size):
        gaps = np.array(self.samples[min(self.calls, len(self.samples) - 1)], dtype=float)
        self.calls += 1
        assert gaps.size == size
        return gaps


@pytest.mark.uncompiled
def test_draws_without_a_class():
    """They are drawn again until both classes are there; where that is in vain, TRIES times in all,
    taken as they are."""
    D, y = np.array([0.25, 0.25, 0.25, 0.25]), np.array([-1.0, -1, -1, 1])
    low, mixed = [1, 1, 1, 1, 20], [10, 1, 1, 1, 1]  # points up to 4/24; 10/14 to 13/14
    for samples, calls, counts in (
        ((mixed,), 1, [0, 0, 1, 3]),
        ((low, low, mixed, low), 3, [0, 0, 1, 3]),
        ((low,), adaboost_nc.TRIES, [4, 0, 0, 0]),
    ):
        rng = Gaps(*samples)
        assert_array_equal(adaboost_nc._draw_rows(D, y, rng), counts)
        assert rng.calls == calls
    assert_array_equal(adaboost_nc._draw_rows(D, -y, Gaps(low, mixed)), [0, 0, 1, 3])
    X, y = blobs(30, 2)
    model = AdaBoostNC(n_estimators=3, random_state=0).fit(X, y, np.where(y > 0, 1.0, 1e-12))
    assert nested(model, 0) == 1  # a leaf: no sample had the other class


@pytest.mark.uncompiled
def test_samples_follow_the_weights():
    rng, D = np.random.default_rng(0), np.array([0.5, 0.0, 0.2, 0.3])
    y = np.array([1.0, 1, -1, -1])
    mean = np.mean([adaboost_nc._draw_rows(D, y, rng) for _ in range(4000)], axis=0)
    both = 1 - 0.5**4 - 0.5**4  # draws with both classes
    for k, p in enumerate(D):
        inside = 4 * p - (4 * p / 0.5 * 0.5**4 if p else 0)  # without the draws of one class
        assert abs(mean[k] - inside / both) < 0.05


@pytest.mark.uncompiled
def test_margins_and_stages():
    X, y = blobs(100, 3)
    model = AdaBoost(n_estimators=30).fit(X, y)
    margins = model.margins(X, y)
    assert_allclose(margins, y * (model.votes(X) @ model.weights_) / model.weights_.sum())
    assert ((margins > 0) == (model.predict(X) == y)).all() and np.abs(margins).max() <= 1
    for t, decision in enumerate(model.staged_decision_function(X), 1):
        assert_allclose(decision, model.votes(X)[:, :t] @ model.weights_[:t], atol=1e-12)
    for method in (model.margins, model.error_correlation):
        with pytest.raises(ValueError, match="y holds .*3.* none of the classes of fit: -1, 1"):
            method(X, np.where(y > 0, 3, -1))
        with pytest.raises(ValueError, match=r"y must have shape \(100,\)"):
            method(X, y[:-1])


@pytest.mark.uncompiled
@pytest.mark.parametrize("base", ["stump", Heavy()])
def test_a_decision_of_exactly_zero_is_positive(base):
    X, y = blobs(100, 10)
    model = AdaBoost(base=base, n_estimators=2, random_state=0).fit(X, np.where(y > 0, "b", "a"))
    model.weights_ = np.ones(2)
    split = model.votes(X).sum(axis=1) == 0
    assert split.any() and (model.decision_function(X)[split] == 0).all()
    assert (model.predict(X)[split] == "b").all()
    assert ([*model.staged_predict(X)][-1][split] == "b").all()

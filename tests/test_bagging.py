"""Tests for solvers/bagging.py."""

import itertools
import math
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import datasets
from solvers import model_file
from solvers.bagging import Bagging, BaggingRegressor, TreeParams
from solvers.exrm import PSVM, ExRM
from solvers.gradient_boosting import GradientBoostingRegressor
from tests import naive
from tests.conftest import blobs, walk_both

pytestmark = pytest.mark.bounds
GINI = TreeParams()


# -- slow and obvious references ------------------------------------------------------------------
def naive_votes(model, X):
    """Votes (n, T) of a fitted model's trees."""
    return np.array([naive.votes(nodes, X) for nodes in trees_of(model)]).T


def trees_of(model):
    """The trees of a model, one by one."""
    return np.split(model.nodes_, model.starts_[1:-1])


def naive_out_of_bag(votes, samples, y):
    """Decision of each row, equation (9), and the error (10) over the rows that have one."""
    decision = np.full(len(y), np.nan)
    for i in range(len(y)):
        unseen = [votes[i, t] for t in range(len(samples)) if samples[t][i] == 0]
        if unseen:
            decision[i] = sum(unseen) / len(unseen)
    known = ~np.isnan(decision)
    return decision, np.mean(np.where(decision[known] >= 0, 1, -1) != y[known])


def compare_with_scikit_learn(nodes, X, y, weight):
    """Walk both trees; returns the nodes split alike and the ties: nodes that the two split
    differently with equal gains. It takes a random one of tied splits, we the first; below such a
    node the trees are not comparable."""
    peer = pytest.importorskip("sklearn.tree").DecisionTreeClassifier(random_state=0)
    theirs = peer.fit(X, y, sample_weight=weight).tree_
    same = ties = 0
    for ours, rows, left, other in walk_both(nodes, theirs, X, np.flatnonzero(weight)):
        if left is None:
            assert_allclose(ours["value"], np.average(y[rows], weights=weight[rows]), atol=1e-12)
        elif (left == other).all():
            same += 1
        else:
            below = [sum(naive.impurity((weight * y)[side].sum(), weight[side].sum(), GINI)[0]
                         for side in (rows[m], rows[~m])) for m in (left, other)]  # fmt: skip
            assert_allclose(*below, rtol=1e-9, atol=1e-9)
            ties += 1
    return same, ties


def all_samples(model, y, weight=None):
    return np.array([model.samples(t, y, weight) for t in range(model.n_iter_)])


class Recorder:
    """Member with fit and predict only, which stores its arguments."""

    def fit(self, X, y, sample_weight=None):
        self.X, self.y, self.weight = X, y, sample_weight
        return self

    def predict(self, X):
        return np.where(X[:, 0] > self.X[:, 0].mean(), self.y.max(), self.y.min())


class Mean(Recorder):
    """Regressor with fit and predict only, which stores its arguments."""

    def predict(self, X):
        return np.full(len(X), self.y.mean())


class Lucky:
    """Votes at random, from its seed."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def get_params(self, deep=True):
        return {"random_state": self.random_state}

    def set_params(self, random_state):
        self.random_state = random_state
        return self

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.random.default_rng(self.random_state).choice(self.classes_, len(X))

    def predict_proba(self, X):
        p = np.random.default_rng(self.random_state).random(len(X))
        return np.column_stack([p, 1 - p])[:, : len(self.classes_)]


# -- correct: against something that shares no code -----------------------------------------------
WAYS = [
    {},
    {"max_features": "sqrt"},
    {"max_features": 0.5, "per_split": False},
    {"bootstrap": False, "max_samples": 0.6},
    {"max_bins": None, "max_depth": 4},
    {"base": "stump", "max_features": "log2", "max_samples": 100},
    {"prune": True},
    {"max_leaf_nodes": 6, "max_features": 2, "max_bins": None},
    {"outputs": "flip", "bootstrap": False, "max_samples": 0.9},
    {"outputs": "smear", "voting": "soft", "max_features": "sqrt"},
    {"perturb": {"max_depth": [1, 3, None], "criterion": ["gini", "entropy"], "prune": [True]}},
    {"perturb": {"max_features": [1, "sqrt", None], "max_leaf_nodes": [None, 4, 9]}, "noise": 0.9,
     "outputs": "flip"},
]  # fmt: skip
SETS = (
    "sonar", "heart", "ionosphere", "crx", "hepatitis", "house-votes", "pima", "liver",
    "breastw", "promoter",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.uncompiled] * (name == "hepatitis")) for name in SETS],
)
def test_out_of_bag_error(name):
    """Ten sets, four of them with missing values, in all ways to draw and both ways to vote."""
    data = datasets.load(name)
    y = np.where(data.y == np.unique(data.y)[1], 1, -1)
    for k, way in enumerate(WAYS):
        voting = ("hard", "soft")[(k + SETS.index(name)) % 2]
        way = {"voting": voting, "random_state": k, **way}
        model = Bagging(n_estimators=20, oob_score=True, **way)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(data.X, data.y)
        votes, samples = naive_votes(model, data.X), all_samples(model, data.y)
        decision, error = naive_out_of_bag(votes, samples, y)
        assert len(caught) == np.isnan(decision).any()
        assert_allclose(model.oob_decision_function_, decision, atol=1e-12)
        assert_allclose(1.0 - model.oob_score_, error, atol=1e-12)
        assert model.facts() == {"out-of-bag error": 1.0 - model.oob_score_}
        assert_array_equal(model.votes(data.X), votes)
        totals = np.cumsum(votes, axis=1)  # the training error after each member
        wrong = (totals >= 0) != (y > 0)[:, None]
        assert_allclose(model.trace_, wrong.mean(axis=0), atol=1e-12)


def test_a_sample_leaves_out_a_part_of_1_over_e():
    X, y = blobs(100_000, 1)
    model = Bagging(base="stump", n_estimators=3, random_state=0).fit(X, y)
    counts = all_samples(model, y)
    assert_array_equal(counts.sum(axis=1), 100_000)
    assert_allclose((counts == 0).mean(axis=1), math.exp(-1), atol=0.01)
    assert_allclose(counts.var(axis=1), 1.0, atol=0.02)  # Poisson
    assert (np.abs(np.corrcoef(counts)[np.triu_indices(3, 1)]) < 0.02).all()


FOREST = (
    "sonar", "heart", "ionosphere", "pima", "liver", "wdbc", "haberman", "german-numer", "house",
    "australian", "vehicle-saab-bus", "promoter",
)  # fmt: skip


def accuracy_gaps(problems, seeds, pairs):
    """Test score of our model minus that of its peer, for halves of each problem."""
    gaps = []
    for (X, y), seed in itertools.product(problems, range(seeds)):
        train, test = np.array_split(np.random.default_rng(seed).permutation(len(y)), 2)
        for pair in pairs:
            ours, theirs = (
                model.set_params(random_state=seed).fit(X[train], y[train]).score(X[test], y[test])
                for model in pair
            )
            gaps.append(ours - theirs)
    return gaps


def test_accuracy_is_that_of_scikit_learn():
    ensemble, sets = (pytest.importorskip(f"sklearn.{name}") for name in ("ensemble", "datasets"))
    ours = Bagging(n_estimators=30, max_features="sqrt", voting="soft")
    problems = [(data.X, data.y) for data in map(datasets.load, FOREST)]
    gaps = accuracy_gaps(problems, 3, [(ours, ensemble.RandomForestClassifier(30))])
    assert len(gaps) == 36 and abs(np.mean(gaps)) < 0.01
    half = {"n_estimators": 50, "max_features": 0.5}
    pairs = [
        (BaggingRegressor(**half), ensemble.RandomForestRegressor(**half)),
        (BaggingRegressor(**half, per_split=False), ensemble.BaggingRegressor(**half)),
    ]
    problems = numbers(400, 6), sets.load_diabetes(return_X_y=True)
    gaps = accuracy_gaps(problems, 4, pairs)
    assert len(gaps) == 16 and abs(np.mean(gaps)) < 0.02 and min(gaps) > -0.08


@pytest.mark.parametrize("name", ["sonar", "heart", "ionosphere", "pima", "german-numer", "wdbc"])
def test_trees_are_scikit_learns(name):
    """All rows, bootstrap samples, and parts of the rows with weights; exact splits."""
    data = datasets.load(name)
    X, y = data.X, np.where(data.y == 1, 1, -1)
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    same = ties = 0
    for params, passed in (
        ({"bootstrap": False}, None),
        ({"bootstrap": False}, weight),
        ({"bootstrap": False, "max_samples": 0.7}, 0.01 * weight),
        ({}, None),
        ({}, weight),
    ):
        model = Bagging(n_estimators=2, voting="soft", max_bins=None, random_state=0, **params)
        model.fit(X, y, passed)
        for t in range(2):
            used = model.samples(t, y, passed).astype(float)
            if passed is not None and not model.bootstrap:
                used *= weight
            nodes = model.nodes_[model.starts_[t] : model.starts_[t + 1]]
            found = compare_with_scikit_learn(nodes, X, y, used)
            same, ties = same + found[0], ties + found[1]
    assert same > 100 and ties < 0.5 * same


@pytest.mark.uncompiled
@pytest.mark.parametrize(("n", "limits"), [
    *((300, limits) for limits in (
        {"max_leaf_nodes": 4}, {"min_samples_leaf": 40, "max_depth": 2}, {"max_depth": 2},
        {"criterion": "entropy"},
    )),
    *((21, limits) for limits in (
        {}, {"min_samples_leaf": 5}, {"max_leaf_nodes": 9}, {"max_leaf_nodes": 25, "max_depth": 9}
    )),
])  # fmt: skip
def test_limits_are_scikit_learns(n, limits):
    """A row counts as often as it was drawn, which is what repeated rows do in the peer; a sample
    drawn with replacement may be larger than the rows."""
    trees = pytest.importorskip("sklearn.tree")
    X, y = blobs(n, 4 if n == 300 else 2, distance=1.5 if n == 300 else 1.0)
    for max_bins in (None,) if n == 300 else (256, None):
        model = Bagging(n_estimators=3, max_bins=max_bins, voting="soft", random_state=1, **limits)
        model.set_params(max_samples=1.0 if n == 300 else 1000).fit(X, y)
        for t, counts in enumerate(all_samples(model, y)):
            rows = np.repeat(np.arange(n), counts)
            assert rows.size == (300 if n == 300 else 1000)
            peer = trees.DecisionTreeClassifier(random_state=0, **limits).fit(X[rows], y[rows])
            assert np.diff(model.starts_)[t] == peer.tree_.node_count
            expected = peer.predict_proba(X[rows]) @ [-1, 1]
            assert_allclose(model.votes(X)[rows, t], expected, atol=1e-12)


# -- draws ----------------------------------------------------------------------------------------
def chi_square(found, expected):
    return ((found - expected) ** 2 / expected).sum()


HIGH = 27.9  # the 99.9 % quantile of chi-square with 9 degrees of freedom


@pytest.mark.parametrize("max_bins", [256, None])
def test_features_are_drawn_uniformly_at_each_split(max_bins):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 10)), np.arange(60) % 2
    model = Bagging(n_estimators=1000, max_features=1, random_state=0, max_bins=max_bins).fit(X, y)
    inner = model.nodes_["child"] > 0
    is_root = np.zeros(inner.size, dtype=bool)
    is_root[model.starts_[:-1]] = True
    roots = np.bincount(model.nodes_["feature"][is_root & inner], minlength=10)
    assert roots.sum() == 1000 and chi_square(roots, 100) < HIGH
    below = np.bincount(model.nodes_["feature"][~is_root & inner], minlength=10)
    assert below.sum() > 5000 and chi_square(below, below.sum() / 10) < HIGH
    parent = np.repeat(model.nodes_["feature"][is_root], 2)  # of a pair of neighbouring splits
    children = (model.starts_[:-1, None] + [1, 2]).ravel()
    both = inner[children]
    again = np.mean(parent[both] == model.nodes_["feature"][children[both]])
    assert abs(again - 0.1) < 4 * math.sqrt(0.09 / both.sum())


def test_the_best_of_the_drawn_features_is_taken():
    """Feature 0 decides the class: it wins wherever it is among the 3 of 10 that are drawn."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 10)), np.arange(100) % 2
    X[:, 0] += 10 * y
    model = Bagging(base="stump", n_estimators=2000, max_features=3, random_state=0).fit(X, y)
    first = np.mean(model.nodes_["feature"][model.starts_[:-1]] == 0)
    assert abs(first - 0.3) < 4 * math.sqrt(0.21 / 2000)


@pytest.mark.uncompiled
def test_constant_features_are_no_draw():
    X, y = blobs(100, 2, distance=8.0)
    X = np.hstack([np.ones((100, 8)), X])
    model = Bagging(n_estimators=20, max_features=1, random_state=0).fit(X, y)
    assert (np.diff(model.starts_) > 1).all()
    assert (model.nodes_["feature"][model.nodes_["child"] > 0] >= 8).all()


def test_random_subspaces():
    X, y = blobs(80, 10)
    model = Bagging(n_estimators=1000, max_depth=2, max_features=3, per_split=False, random_state=0)
    features = model.fit(X, y).estimators_features_
    assert features.shape == (1000, 3) and (np.diff(features, axis=1) > 0).all()
    assert chi_square(np.bincount(features.ravel(), minlength=10), 300) < HIGH
    used = set()
    for t, nodes in enumerate(trees_of(model)):
        split_on = set(nodes["feature"][nodes["child"] > 0].tolist())
        assert split_on <= set(features[t].tolist())
        used |= split_on
    assert used == set(range(10))
    objects = Bagging(Recorder(), 5, max_features=0.4, random_state=0).fit(X, y)
    for member, columns in zip(objects.estimators_, objects.estimators_features_, strict=True):
        assert columns.shape == (4,) and set(member.X[:, 1]) <= set(X[:, columns[1]])
    expected = [m.predict(X[:, c]) for m, c in
                zip(objects.estimators_, objects.estimators_features_, strict=True)]  # fmt: skip
    assert_array_equal(objects.votes(X).T, expected)


@pytest.mark.uncompiled
def test_number_of_features():
    X, y = blobs(40, 50)
    for given, k in (("sqrt", 7), ("log2", 5), (0.5, 25), (0.01, 1), (0.975, 48), (7, 7)):
        model = Bagging(n_estimators=2, max_features=given, per_split=False, random_state=0)
        assert model.fit(X, y).estimators_features_.shape == (2, k)
    assert not hasattr(model.set_params(max_features=1.0).fit(X, y), "estimators_features_")


@pytest.mark.uncompiled
def test_samples_are_those_of_the_members():
    X, y = blobs(90, 3)
    weight = np.random.default_rng(1).integers(0, 3, 90).astype(float)
    for params in ({}, {"max_samples": 200}, {"bootstrap": False, "max_samples": 0.5}):
        for passed in (None, weight):
            model = Bagging(Recorder(), 4, random_state=0, **params).fit(X, y, passed)
            drawable = 90 if passed is None else np.count_nonzero(weight)
            for t, member in enumerate(model.estimators_):
                counts = model.samples(t, y, passed)
                rows = np.repeat(np.arange(90), counts)
                assert_array_equal(member.X, X[rows])
                assert_array_equal(member.y, y[rows])
                m = model.max_samples
                assert rows.size == (200 if m == 200 else round(m * drawable))
                if passed is not None:
                    assert (counts[weight == 0] == 0).all()
                if model.bootstrap or passed is None:
                    assert member.weight is None
                else:
                    assert_array_equal(member.weight, weight[rows])
                if not model.bootstrap:
                    assert counts.max() == 1


@pytest.mark.uncompiled
@pytest.mark.parametrize("max_bins", [256, 20, None])
@pytest.mark.parametrize(
    "params", [{}, {"max_depth": 3, "criterion": "gain_ratio"}, {"base": "stump"}]
)
def test_weights_are_repeated_and_removed_rows_where_none_is_drawn(params, max_bins):
    X, y = blobs(700, 3)
    X[::9, 1] = np.nan
    count = np.random.default_rng(1).integers(0, 4, size=700)
    params = dict(params, bootstrap=False, n_estimators=1, voting="soft", max_bins=max_bins)
    weighted = Bagging(**params).fit(X, y, count.astype(float))
    repeated = Bagging(**params).fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    assert_allclose(weighted.votes(X), repeated.votes(X), atol=1e-12)
    part = np.where(count > 0, count + 0.5, 0.0)
    zero = Bagging(**params).fit(X, y, part)
    removed = Bagging(**params).fit(X[count > 0], y[count > 0], part[count > 0])
    assert_allclose(zero.votes(X), removed.votes(X), atol=1e-12)
    assert_allclose(zero.objective_, removed.objective_, rtol=1e-12)


@pytest.mark.uncompiled
@pytest.mark.parametrize("factors", ["balanced", {7: 5.0}])
def test_class_weights_are_sample_weights(factors):
    X, y = blobs(90, 3)
    labels = np.where((y > 0) & (np.arange(90) % 3 == 0), 7, 3)
    w = np.random.default_rng(0).uniform(0.5, 2.0, 90)
    expected = factors
    if factors == "balanced":
        expected = {name: w.sum() / (2 * w[labels == name].sum()) for name in (3, 7)}
    passed = w * np.array([expected.get(label, 1.0) for label in labels])
    for params in ({}, {"bootstrap": False, "max_samples": 0.7}, {"base": Recorder()}):
        params = {"n_estimators": 4, "random_state": 0, "max_depth": 3, **params}
        model = Bagging(class_weight=factors, **params).fit(X, labels, w)
        same = Bagging(**params).fit(X, labels, passed)
        assert_array_equal(model.votes(X), same.votes(X))
        assert_allclose(model.objective_, same.objective_, rtol=1e-9)
        assert_array_equal(all_samples(model, labels, w), all_samples(same, labels, passed))
        alone = Bagging(class_weight=factors, **params).fit(X, labels)
        assert_array_equal(all_samples(alone, labels), all_samples(alone, labels, np.ones(90)))


def test_rows_are_drawn_in_proportion_to_their_weights():
    X, y = blobs(10, 1)
    weight = np.array([0.0, 1, 1, 2, 2, 3, 4, 4, 5, 8])
    model = Bagging(base="stump", n_estimators=2000, random_state=0).fit(X, y, weight)
    drawn = all_samples(model, y, weight).sum(axis=0)
    assert drawn[0] == 0
    expected = drawn.sum() * weight[1:] / 30
    assert chi_square(drawn[1:], expected) < HIGH + 4
    even = Bagging(n_estimators=5, random_state=0).fit(X, y, np.full(10, 0.3))
    assert_array_equal(even.votes(X), Bagging(n_estimators=5, random_state=0).fit(X, y).votes(X))


@pytest.mark.uncompiled
def test_samples_have_both_classes_where_they_can():
    X, y = blobs(30, 2)
    y = np.where(np.arange(30) == 7, 1, -1)
    model = Bagging(n_estimators=200, random_state=0).fit(X, y)
    assert (all_samples(model, y)[:, 7] > 0).all()  # a third of the draws were without the row
    one = Bagging(n_estimators=5, max_samples=1, random_state=0).fit(X, y)  # in vain: leaves
    assert one.nodes_.size == 5 and set(one.nodes_["value"]) <= {-1.0, 1.0}
    model = Bagging(Recorder(), 200, outputs="flip", noise=1.0, random_state=0).fit(X, y)
    # All new labels: a third of the draws, and of these again a third, lack the rare class.
    assert np.mean([np.unique(member.y).size == 2 for member in model.estimators_]) > 0.98


@pytest.mark.uncompiled
def test_out_of_bag_rows_that_no_sample_lacks():
    X, y = blobs(100, 3)
    weight = np.where(np.arange(100) < 50, 1.0, 3.0)
    model = Bagging(n_estimators=3, max_depth=3, oob_score=True, random_state=0)
    with pytest.warns(UserWarning) as caught:
        model.fit(X, y, weight)
    never = (all_samples(model, y, weight) > 0).all(axis=0)
    text = f"{never.sum()} of 100 rows are in all 3 samples and have no out-of-bag vote; use"
    assert 0 < never.sum() < 100 and len(caught) == 1 and text in str(caught[0].message)
    assert_array_equal(np.isnan(model.oob_decision_function_), never)
    right, wrong = (model.oob_decision_function_ >= 0) == (y > 0), model.predict(X) != y
    assert_allclose(model.objective_, np.average(wrong, weights=weight))
    assert 0 < model.objective_ != np.mean(wrong)
    assert_allclose(model.oob_score_, np.average(right[~never], weights=weight[~never]))
    again = model.set_params(oob_score=False).fit(X, y)
    assert not hasattr(again, "oob_score_") and again.facts() == {}
    with pytest.warns(UserWarning, match="2 of 2 rows"):
        none = Bagging(n_estimators=1, oob_score=True, random_state=0).fit([[0.0], [1.0]], [0, 1])
    assert math.isnan(none.oob_score_) and np.isnan(none.oob_decision_function_).all()


# -- votes ----------------------------------------------------------------------------------------
@pytest.mark.uncompiled
def test_hard_and_soft_votes():
    X, y = blobs(200, 3)
    params = {"n_estimators": 6, "max_depth": 2, "random_state": 0}
    hard, soft = (Bagging(voting=voting, **params).fit(X, y) for voting in ("hard", "soft"))
    assert set(hard.votes(X).ravel()) == {-1.0, 1.0}
    assert_array_equal(np.where(soft.votes(X) >= 0, 1.0, -1.0), hard.votes(X))
    assert np.unique(soft.votes(X)).size > 6 and np.abs(soft.votes(X)).max() <= 1.0
    for model in (hard, Bagging(Lucky(), 6, random_state=0).fit(X, y)):
        ties = model.votes(X).sum(axis=1) == 0
        assert ties.any()  # exactly 0, though 1/6 is no binary number
        assert (model.decision_function(X)[ties] == 0).all() and (model.predict(X)[ties] == 1).all()
    for model in (hard, soft):
        p = model.predict_proba(X)
        assert_allclose(p[:, 1] - p[:, 0], model.decision_function(X), atol=1e-15)
        assert_allclose(p.sum(axis=1), 1.0, atol=1e-15)
        assert_array_equal(model.weights_, np.full(6, 1 / 6))


@pytest.mark.uncompiled
def test_soft_votes_of_objects():
    X, y = blobs(50, 2)
    model = Bagging(Lucky(), 4, voting="soft", random_state=0).fit(X, np.where(y > 0, "b", "a"))
    expected = [1 - 2 * member.predict_proba(X)[:, 0] for member in model.estimators_]
    assert_allclose(model.votes(X).T, expected)
    with pytest.raises(ValueError, match="voting='soft' needs members with predict_proba, Reco"):
        Bagging(Recorder(), 2, voting="soft").fit(X, y)
    trees = pytest.importorskip("sklearn.tree")
    rare = np.where(np.arange(50) == 0, 1, -1)  # members that know one class only
    model = Bagging(trees.DecisionTreeClassifier(), 3, voting="soft", max_samples=1, random_state=0)
    for sign in (1, -1):
        assert_array_equal(model.fit(X, sign * rare).votes(X), np.full((50, 3), -sign))
    few = Bagging(Lucky(), 40, voting="soft", max_samples=2, random_state=0).fit(X, rare)
    for t, member in enumerate(few.estimators_):  # the probability of its only class
        p = member.predict_proba(X)
        known = {label: p[:, k] for k, label in enumerate(member.classes_)}
        assert_allclose(few.votes(X)[:, t], known.get(1, 0.0) - known[-1], rtol=1e-12)
    assert {member.classes_.size for member in few.estimators_} == {1, 2}


# -- members of other kinds -----------------------------------------------------------------------
def test_bagged_psvm_is_a_direct_loop():
    X, y = blobs(120, 3)
    labels = np.where(y > 0, "up", "down")
    for base in (PSVM(lam=0.1), ExRM(n_estimators=3, lam=0.5)):
        model = Bagging(base, 5, oob_score=True, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model.fit(X, labels)
        votes = []
        for counts in all_samples(model, labels):
            rows = np.repeat(np.arange(120), counts)
            member = type(base)(**base.get_params()).fit(X[rows], labels[rows])
            votes.append(np.where(member.predict(X) == "up", 1.0, -1.0))
        assert_array_equal(model.votes(X).T, votes)
        decision, error = naive_out_of_bag(np.array(votes).T, all_samples(model, labels), y)
        assert_allclose(model.oob_decision_function_, decision)
        assert_allclose(1 - model.oob_score_, error)
        assert not hasattr(base, "coef_") and not hasattr(model, "nodes_")
    again = model.set_params(base="stump", oob_score=False).fit(X, labels)
    assert not hasattr(again, "estimators_") and again.nodes_.size > 0


@pytest.mark.uncompiled
def test_seeds_of_objects():
    X, y = blobs(40, 2)
    one, two = (Bagging(Lucky(), 6, random_state=0).fit(X, y) for _ in range(2))
    seeds = [member.random_state for member in one.estimators_]
    assert len(set(seeds)) == 6 and seeds == [member.random_state for member in two.estimators_]
    ensemble, pipe = (pytest.importorskip(f"sklearn.{name}") for name in ("ensemble", "pipeline"))
    inner = pipe.make_pipeline(ensemble.ExtraTreesClassifier(2))
    model = Bagging(inner, 3, random_state=0).fit(X, y)
    assert len({member[0].random_state for member in model.estimators_}) == 3
    assert inner[0].random_state is None


# -- well behaved ---------------------------------------------------------------------------------
OBJECTS = {"base": Lucky(), "voting": "soft"}, {"base": Recorder(), "max_features": 2}
NUMBERS = {}, {"perturb": {"max_depth": [2, 6], "max_features": [1, 3, None]}}, {"outputs": "smear"}


@pytest.mark.parametrize(("cls", "params"), [
    *((Bagging, params) for params in (*WAYS, *OBJECTS)),
    *((BaggingRegressor, params) for params in NUMBERS),
])  # fmt: skip
def test_every_number_of_threads_gives_the_same_model(cls, params):
    X, y = blobs(301, 6) if cls is Bagging else numbers(301, 6)
    X[::7, 2] = np.nan
    seen = []
    for n_jobs in (1, 2, 3):
        model = cls(n_estimators=30, oob_score=True, random_state=5, n_jobs=n_jobs, **params)
        seen.append(model.fit(X, y))
    for model in seen[1:]:
        for name, value in vars(seen[0]).items():
            if name.endswith("_") and name != "estimators_":
                assert_array_equal(getattr(model, name), value)
        for Z in (X, X[:1]):
            assert_array_equal(model._mean_vote(Z), seen[0]._mean_vote(Z))
            assert_array_equal(model.votes(Z), seen[0].votes(Z))


@pytest.mark.uncompiled
def test_members_differ_and_do_not_depend_on_their_number():
    X, y = blobs(100, 6)
    for way in WAYS:
        models = [Bagging(**way, n_estimators=4).fit(X, y) for _ in range(2)]  # no seed twice
        samples = np.vstack([all_samples(model, y) for model in models])
        assert np.unique(samples, axis=0).shape == (8, 100)
        few, many = (Bagging(**way, random_state=3).set_params(n_estimators=T) for T in (3, 9))
        assert_array_equal(few.fit(X, y).votes(X), many.fit(X, y).votes(X)[:, :3])


@pytest.mark.uncompiled
def test_missing_values_are_up_to_the_base():
    """A foreign base checks its rows itself: the tag is True, even if it refuses them (None)."""
    pytest.importorskip("sklearn", minversion="1.6")
    from sklearn.linear_model import LogisticRegression
    from sklearn.tree import DecisionTreeClassifier
    from sklearn.utils import get_tags

    X, y = blobs(60, 3)
    X[::4, 1] = np.nan
    for base, takes in (
        ("tree", True), (DecisionTreeClassifier(), True), (Bagging(n_estimators=2), True),
        (LogisticRegression(), None), (PSVM(), False), (Bagging(PSVM()), False), (Recorder(), True),
    ):  # fmt: skip
        model = Bagging(base, 2, random_state=0)
        assert get_tags(model).input_tags.allow_nan == (takes is not False), base
        if takes:
            assert model.fit(X, y).votes(X).shape == (60, 2)
        else:
            with pytest.raises(ValueError, match="contains NaN"):
                model.fit(X, y)


@pytest.mark.uncompiled
def test_members_that_take_no_weights_or_return_nothing():
    class Silent(Lucky):
        def fit(self, X, y):
            super().fit(X, y)

    X, y = blobs(40, 2)
    weight = np.arange(40) + 1.0
    for classes, passed in ((None, weight), ({1: 2}, None)):
        model = Bagging(Silent(), 2, bootstrap=False, class_weight=classes)
        with pytest.raises(ValueError, match="Silent takes no sample_weight .* set bootstrap=True"):
            model.fit(X, y, passed)
    for params in ({}, {"bootstrap": False}):  # drawn by weight, or no weights
        passed = weight if not params else None
        model = Bagging(Silent(), 2, random_state=0, **params).fit(X, y, passed)
        assert all(isinstance(member, Silent) for member in model.estimators_)
        assert model.predict(X).shape == (40,)


@pytest.mark.uncompiled
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_errors_of_members_come_through(n_jobs):
    class Broken(Recorder):
        def fit(self, X, y):
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        Bagging(Broken(), 5, n_jobs=n_jobs).fit(*blobs(20, 2))


@pytest.mark.uncompiled
@pytest.mark.parametrize("way", range(len(WAYS)))
@naive.each_degenerate
def test_degenerate(X, y, way):
    params = {**WAYS[way]}
    for name in ("max_samples", "max_features"):
        if isinstance(params.get(name), int):
            params[name] = 1
    for weight in (None, np.where(np.arange(len(y)) == 0, 1e-30, 1.0)):
        model = Bagging(**params, n_estimators=5, random_state=0).fit(X, np.array(y), weight)
        assert_array_equal(naive_votes(model, X), model.votes(X))
        assert np.isfinite(model.decision_function(X)).all() and 0 <= model.objective_ <= 1


def test_no_mask_of_rows_is_kept():
    X, y = blobs(5000, 2)
    model = Bagging(n_estimators=20, max_depth=2, random_state=0).fit(X, y)
    kept = sum(value.nbytes for value in vars(model).values() if isinstance(value, np.ndarray))
    assert kept < 5000 * 2


@pytest.mark.uncompiled
def test_a_loaded_model_draws_the_same_samples(tmp_path):
    X, y = blobs(50, 4)
    for random_state in (None, 7):
        model = Bagging(n_estimators=3, random_state=random_state).fit(X, y)
        model_file.save(model, tmp_path / "model.npz")
        again = model_file.load(tmp_path / "model.npz")
        assert_array_equal(all_samples(again, y), all_samples(model, y))
    for t, labels, weight, text in (
        (3, y, None, "there is no member 3, only 0 to 2"),
        (0, y[:-1], None, r"y must have shape \(50,\)"),
        (0, np.where(y > 0, "1", "-1"), None, "which is none of the classes of fit: -1, 1"),
        (0, y, np.ones(3), r"sample_weight must be .* of shape \(50,\)"),
    ):
        with pytest.raises(ValueError, match=f"Bagging: .*{text}"):
            model.samples(t, labels, weight)
    assert_array_equal(model.samples(0, y[:, None]), model.samples(0, y))


# -- outputs and parameters of the members' own ---------------------------------------------------
def learned(base, t, n, X):
    """Number of draws (n,) and target (n,) of each row for member t of a bag of recorders; the
    target of rows that were not drawn is NaN."""
    rows = np.array([np.flatnonzero((X == x).all(axis=1))[0] for x in base[t].X])
    outputs = np.full(n, np.nan)
    outputs[rows] = base[t].y
    assert_array_equal(outputs[rows], base[t].y)  # All copies of a row have the same.
    return np.bincount(rows, minlength=n), outputs


@pytest.mark.uncompiled
@pytest.mark.parametrize("weighted", [False, True])
def test_flipped_labels_keep_the_sizes_of_the_classes(weighted):
    """Breiman's rates: of a class of fraction q, each label changes with probability r (1 - q)."""
    n, T, r = 400, 150, 0.5
    X, y = np.arange(n, dtype=float)[:, None], 1 * (np.arange(n) % 5 == 0)
    weight = np.where(y == 1, 2.0, 1.0) if weighted else None
    q = 1 / 3 if weighted else 1 / 5
    params = {"outputs": "flip", "noise": r, "bootstrap": False, "max_samples": 0.8}
    model = Bagging(Recorder(), T, random_state=0, **params).fit(X, y, weight)
    for label, share in ((1, r * (1 - q)), (0, r * q)):
        flips = []
        for member in model.estimators_:
            rows = member.X[:, 0].astype(int)
            flips += (member.y != y[rows])[y[rows] == label].tolist()
        sd = math.sqrt(share * (1 - share) / len(flips))
        assert len(flips) > 9000 and abs(np.mean(flips) - share) < 4 * sd
    sizes = [np.average(member.y == 1, weights=member.weight) for member in model.estimators_]
    assert abs(np.mean(sizes) - q) < 4 * np.std(sizes) / math.sqrt(T)
    first, second = (set(zip(m.X[:, 0], m.y, strict=True)) for m in model.estimators_[:2])
    assert first != second
    none = Bagging(Recorder(), 3, random_state=0, outputs="flip", noise=0).fit(X, y)
    assert all((m.y == y[m.X[:, 0].astype(int)]).all() for m in none.estimators_)


@pytest.mark.uncompiled
@pytest.mark.parametrize("cls", [Bagging, BaggingRegressor])
def test_smeared_outputs(cls):
    """The noise is Gaussian, of a fraction of the standard deviation, new for each member."""
    n = 500
    X = np.arange(n, dtype=float)[:, None]
    y = np.where(np.arange(n) % 4 == 0, 1.0, -1.0)
    soft = {"voting": "soft"} if cls is Bagging else {}
    for noise, weight in ((None, None), (0.3, None), (0.3, np.where(y > 0, 6.0, 1.0))):
        params = {"outputs": "smear", "noise": noise, "bootstrap": False, "max_samples": 400}
        model = cls(Mean(), 40, random_state=0, **params, **soft).fit(X, y, weight)
        rest = np.array([m.y - y[m.X[:, 0].astype(int)] for m in model.estimators_])
        share = 0.25 if weight is None else 2 / 3
        sd = (1.0 if noise is None else noise) * math.sqrt(4 * share * (1 - share))
        assert abs(rest.mean()) < 4 * sd / math.sqrt(rest.size)
        assert abs(rest.std() / sd - 1) < 4 / math.sqrt(2 * rest.size)
        assert abs(np.mean(np.abs(rest) < sd) - math.erf(math.sqrt(0.5))) < 0.02
        assert np.unique(rest).size == rest.size
        assert_allclose(model.votes(X), [[m.y.mean() for m in model.estimators_]] * n)


def test_flipped_trees_are_scikit_learns():
    """Recorders with the same seed get the labels of the trees, which are those of the peer."""
    (X, y), same = blobs(300, 4), 0
    params = {"n_estimators": 3, "outputs": "flip", "random_state": 0, "max_bins": None}
    members = Bagging(Recorder(), **params).fit(X, y).estimators_
    trees = Bagging(voting="soft", **params).fit(X, y)
    for t, nodes in enumerate(trees_of(trees)):
        counts, labels = learned(members, t, len(y), X)
        assert_array_equal(counts, trees.samples(t, y))
        assert 0.05 < np.mean(labels[counts > 0] != y[counts > 0]) < 0.2
        found = compare_with_scikit_learn(nodes, X[counts > 0], labels[counts > 0].astype(int),
                                          counts[counts > 0].astype(float))  # fmt: skip
        same += found[0]
    assert same > 20


def test_smeared_trees_are_scikit_learns():
    trees = pytest.importorskip("sklearn.tree")
    X, y = blobs(300, 4, distance=1.5)
    params = {"n_estimators": 4, "outputs": "smear", "voting": "soft", "random_state": 0}
    members = Bagging(Mean(), **params).fit(X, y).estimators_
    for limits in ({"max_depth": 3}, {"min_samples_leaf": 8}, {"max_leaf_nodes": 7}, {}):
        model = Bagging(max_bins=None, **params, **limits).fit(X, y)
        for t in range(4):
            counts, outputs = learned(members, t, 300, X)
            rows = np.repeat(np.arange(300), counts)
            peer = trees.DecisionTreeRegressor(random_state=0, **limits).fit(X[rows], outputs[rows])
            assert peer.tree_.node_count == np.diff(model.starts_)[t]
            assert_allclose(model.votes(X)[rows, t], peer.predict(X[rows]), atol=1e-12)
    p, decision = model.predict_proba(X), model.decision_function(X)
    assert np.abs(model.votes(X)).max() > 1.5 and p.min() >= 0 and p.max() <= 1
    assert_allclose(p[:, 1], np.clip(0.5 + 0.5 * decision, 0, 1), atol=1e-15)
    # Without noise, regression on -1 and +1 splits as Gini's impurity does.
    params = {"min_impurity_decrease": 0.01, "n_estimators": 4, "voting": "soft", "max_bins": None}
    plain = Bagging(random_state=0, **params).fit(X, y)
    smeared = Bagging(random_state=0, outputs="smear", noise=0, **params).fit(X, y)
    assert 4 < plain.nodes_.size == smeared.nodes_.size < 200
    assert_allclose(smeared.votes(X), plain.votes(X), atol=1e-12)
    assert_allclose(smeared.nodes_["gain"], plain.nodes_["gain"], atol=1e-12)
    assert_array_equal(smeared.nodes_["threshold"], plain.nodes_["threshold"])


@pytest.mark.parametrize("cls", [Bagging, BaggingRegressor])
def test_perturbed_trees_are_those_of_their_parameters(cls):
    """A tree that drew some parameters is the tree of a model in which all have them."""
    X, y = blobs(200, 4)
    choices = {
        "max_depth": [1, 2, None],
        "min_samples_leaf": np.array([1, 5, 20]),
        "max_leaf_nodes": (None, 3, 10),
        "min_impurity_decrease": [0.0, 0.01],
    }
    if cls is Bagging:
        choices |= {"criterion": ["gini", "entropy", "error", "gain_ratio"], "prune": [True, False]}
    for params in ({}, {"max_features": 0.5, "per_split": False}, {"max_bins": None}):
        model = cls(n_estimators=15, perturb=choices, random_state=0, **params).fit(X, y)
        assert len(model.estimators_params_) == 15
        for t, drawn in enumerate(model.estimators_params_):
            assert list(drawn) == list(choices)
            assert all(value in list(choices[name]) for name, value in drawn.items())
            same = cls(n_estimators=t + 1, random_state=0, **params, **drawn).fit(X, y)
            assert trees_of(model)[t].tobytes() == trees_of(same)[t].tobytes()
    assert not hasattr(same, "estimators_params_")


def test_parameters_are_drawn_uniformly_and_apart():
    X, y = blobs(20, 2)
    choices = {"max_depth": list(range(1, 11)), "min_samples_leaf": [1, 2]}
    model = Bagging("tree", 2000, perturb=choices, random_state=0).fit(X, y)
    depth, leaf = ([drawn[name] for drawn in model.estimators_params_] for name in choices)
    assert chi_square(np.bincount(depth, minlength=11)[1:], 200) < HIGH
    assert abs(np.corrcoef(depth, leaf)[0, 1]) < 0.09


def test_perturbed_number_of_features():
    """Trees that look at all features are plain ones: no two splits are equally good here."""
    X, y = np.random.default_rng(0).normal(size=(150, 6)), np.arange(150) % 2
    X[:, 3] += 3 * y
    params = {"n_estimators": 40, "base": "stump", "random_state": 0}
    plain = trees_of(Bagging(**params).fit(X, y))
    for values in ([1, 6], ["log2", None], [6]):
        model = Bagging(perturb={"max_features": values}, max_features=2, **params).fit(X, y)
        drawn = [params["max_features"] for params in model.estimators_params_]
        is_all = np.array([value in (6, None) for value in drawn])
        for t in np.flatnonzero(is_all):
            assert trees_of(model)[t].tobytes() == plain[t].tobytes()
        first = model.nodes_["feature"][model.starts_[:-1]]
        assert set(first[is_all]) == {3} and is_all.mean() > 0.2
        assert len(values) == 1 or len(set(first[~is_all])) > 3


@pytest.mark.uncompiled
def test_perturbed_objects():
    X, y = blobs(80, 3)
    choices = {"lam": [0.01, 1.0, 100.0], "p": [1, 2]}
    model = Bagging(PSVM(), 6, perturb=choices, random_state=0).fit(X, y)
    assert len({drawn["lam"] for drawn in model.estimators_params_}) > 1
    for member, drawn, counts in zip(
        model.estimators_, model.estimators_params_, all_samples(model, y), strict=True
    ):
        assert {name: getattr(member, name) for name in choices} == drawn
        rows = np.repeat(np.arange(80), counts)
        alone = PSVM(**drawn).fit(X[rows], y[rows])
        assert_array_equal(member.predict(X), alone.predict(X))
    assert model.base.lam == PSVM().lam
    pipe = pytest.importorskip("sklearn.pipeline")
    inner = pipe.make_pipeline(PSVM())
    model = Bagging(inner, 4, perturb={"psvm__lam": [7.0]}, random_state=0).fit(X, y)
    assert [member[0].lam for member in model.estimators_] == [7.0] * 4


# -- numbers --------------------------------------------------------------------------------------
def numbers(n=200, d=4, seed=0):
    """Friedman's kind of a problem."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    return X, 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 5 * X[:, 2] + rng.normal(size=n)


@pytest.mark.parametrize("max_bins", [256, None])
@pytest.mark.parametrize("params", [
    {}, {"max_depth": 3, "min_samples_leaf": 4}, {"base": "stump", "max_samples": 300},
    {"bootstrap": False, "max_samples": 0.7, "min_samples_leaf": 3},
])  # fmt: skip
def test_regression_trees_have_the_best_splits(params, max_bins):
    X, y = numbers(80, 3)
    X[::6, 0] = np.nan
    X[:, 2] = np.round(X[:, 2], 1)
    weight = np.random.default_rng(1).uniform(0.0, 2.0, 80) * (np.arange(80) % 7 > 0)
    for passed in (None, weight):
        model = BaggingRegressor(n_estimators=3, max_bins=max_bins, random_state=0, **params)
        model.fit(X, y, passed)
        depth = 1 if model.base == "stump" else model.max_depth
        limits = TreeParams(1, depth, model.min_samples_leaf, l2=0.0, min_weight=0)
        for t, nodes in enumerate(trees_of(model)):
            counts = model.samples(t, y, passed)
            used = counts * weight if passed is not None and not model.bootstrap else 1.0 * counts
            nodes["gain"] *= used.sum()
            rows = (array[used > 0] for array in (X, -used * y, used))
            bins = X if passed is None else X[weight > 0]
            top = naive.root(*rows, limits, counts[used > 0], bins, is_centred=True)
            assert naive.certify(nodes, top)[3] == 0
        assert_array_equal(model.votes(X), naive_votes(model, X))
        assert_allclose(model.predict(X), model.votes(X) @ model.weights_, rtol=1e-12)


@pytest.mark.parametrize(
    "limits",
    [{}, {"max_depth": 4}, {"min_samples_leaf": 5}, {"max_leaf_nodes": 9},
     {"min_impurity_decrease": 0.2}],
)  # fmt: skip
def test_regression_trees_are_scikit_learns(limits):
    trees = pytest.importorskip("sklearn.tree")
    X, y = numbers(300)
    model = BaggingRegressor(n_estimators=3, max_bins=None, random_state=0, **limits).fit(X, y)
    each = []
    for t, counts in enumerate(all_samples(model, y)):
        rows = np.repeat(np.arange(300), counts)
        peer = trees.DecisionTreeRegressor(random_state=0, **limits).fit(X[rows], y[rows])
        assert np.diff(model.starts_)[t] == peer.tree_.node_count > 3
        assert_allclose(model.votes(X)[rows, t], peer.predict(X[rows]), rtol=1e-12)
        each.append(peer.feature_importances_)
    if {"max_leaf_nodes", "min_impurity_decrease"} & {*limits}:  # Others have ties in small nodes.
        assert_allclose(model.feature_importances_, np.mean(each, axis=0), atol=1e-9)


@pytest.mark.uncompiled
def test_out_of_bag_numbers():
    X, y = numbers(100)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 100)
    for passed, T in ((None, 40), (weight, 40), (None, 3)):
        model = BaggingRegressor(n_estimators=T, max_depth=4, oob_score=True, random_state=0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, y, passed)
        samples, votes = all_samples(model, y, passed), naive_votes(model, X)
        expected = [np.mean(votes[i, samples[:, i] == 0]) if (samples[:, i] == 0).any() else np.nan
                    for i in range(100)]  # fmt: skip
        assert_allclose(model.oob_prediction_, expected, rtol=1e-12)
        known = ~np.isnan(expected)
        assert len(caught) == (not known.all()) == (T == 3)
        w, mean = (np.ones(100) if passed is None else passed)[known], np.array(expected)[known]
        squares = w @ (y[known] - np.average(y[known], weights=w)) ** 2
        assert_allclose(model.oob_score_, 1 - w @ (y[known] - mean) ** 2 / squares)
        means = np.cumsum(votes, axis=1) / np.arange(1, T + 1)
        errors = np.average((means - y[:, None]) ** 2, axis=0, weights=passed)
        assert_allclose(model.trace_, errors, rtol=1e-12)
        assert model.objective_ == model.trace_[-1]
        metrics = pytest.importorskip("sklearn.metrics")
        expected = metrics.r2_score(y, model.predict(X), sample_weight=passed)
        assert_allclose(model.score(X, y, passed), expected)


@pytest.mark.uncompiled
def test_regressors_of_other_kinds(tmp_path):
    linear = pytest.importorskip("sklearn.linear_model")
    X, y = numbers(90)
    model = BaggingRegressor(linear.Ridge(), 5, max_features=3, random_state=0).fit(X, y)
    expected = []
    for counts, columns in zip(all_samples(model, y), model.estimators_features_, strict=True):
        rows = np.repeat(np.arange(90), counts)
        alone = linear.Ridge().fit(X[rows][:, columns], y[rows])
        expected.append(alone.predict(X[:, columns]))
    assert_allclose(model.votes(X).T, expected, rtol=1e-12)
    assert_allclose(model.predict(X), np.mean(expected, axis=0), rtol=1e-12)
    inner = GradientBoostingRegressor(n_estimators=3)
    soft = {"outputs": "smear", "voting": "soft"}
    for outer, target in (
        (BaggingRegressor(inner, 3, random_state=0), y),
        (Bagging(inner, 3, random_state=0, **soft), y > 8),
    ):
        assert outer.fit(X, target).score(X, target) > 0.3


@pytest.mark.parametrize("scale", [1e-120, 2.0**40, -3.0, 1e140])
def test_units_of_the_numbers_do_not_matter(scale):
    X, y = numbers(150)
    params = {"n_estimators": 5, "oob_score": True, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # rows in all samples
        model = BaggingRegressor(**params).fit(X, y)
        other = BaggingRegressor(**params).fit(X, scale * (y + 1000.0))
    assert_allclose(other.predict(X) / scale, model.predict(X) + 1000.0, rtol=1e-9)
    assert_allclose(other.oob_score_, model.oob_score_, rtol=1e-6)
    assert_allclose(other.feature_importances_, model.feature_importances_, atol=1e-6)


@pytest.mark.uncompiled
@pytest.mark.parametrize("max_bins", [256, None])
@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.array([[0.0], [1.0]]), [0, 1]),  # two rows
        (np.array([[0.0]]), [3.0]),  # one
        (np.zeros((6, 3)), [0, 1, 2, 3, 4, 5]),  # nothing to learn
        (np.arange(6.0)[:, None], np.full(6, -7.25)),  # nothing to explain
        (np.full((6, 2), np.nan), [0, 0, 0, 1, 1, 1]),  # all missing
        (np.array([[np.nan], [np.nan], [np.nan], [1], [2], [3]]), [5, 5, 5, 1, 1, 2]),
        (np.arange(6.0)[:, None], [5e-324, 0, 0, 0, 0, 1e-310]),
        (np.arange(6.0)[:, None], [9e149, -9e149, 0, 0, 1, 1]),
    ],
)
def test_degenerate_numbers(X, y, max_bins):
    y = np.array(y, dtype=float)
    ways = {}, {"bootstrap": False}, {"max_features": "sqrt"}, {"min_impurity_decrease": 0.1}
    for way in (*ways, {"outputs": "smear"}, {"perturb": {"max_depth": [1, None]}}):
        for weight in (None, np.where(np.arange(y.size) == 0, 1e-30, 1.0)):
            model = BaggingRegressor(n_estimators=4, max_bins=max_bins, random_state=0, **way)
            found = model.fit(X, y, weight).predict(X)
            assert np.isfinite(found).all() and np.isfinite(model.objective_)
            assert_allclose(naive_votes(model, X), model.votes(X), rtol=1e-12)
            if "outputs" not in way:
                low, high = np.nextafter(y.min(), -np.inf), np.nextafter(y.max(), np.inf)
                assert (found >= low - 1e-12 * abs(low)).all()
                assert (found <= high + 1e-12 * abs(high)).all()


@pytest.mark.uncompiled
def test_errors_of_outputs_and_parameters():
    linear = pytest.importorskip("sklearn.linear_model")
    X, y = blobs(20, 2)
    smear = {"outputs": "smear", "voting": "soft"}
    for params, text in (
        ({"outputs": "spin"}, "Bagging: outputs must be None, 'flip' or 'smear', got 'spin'"),
        ({"noise": 0.5}, "Bagging: noise=0.5 is for .*; set outputs to 'flip' or 'smear'"),
        ({"outputs": "flip", "noise": 1.5}, "noise is a share of the labels .* <= 1, got 1.5"),
        ({"outputs": "smear"}, "outputs='smear' makes .*: set voting='soft', got 'hard'"),
        ({**smear, "prune": True}, "outputs='smear' makes .*: set prune=False, got True"),
        ({**smear, "criterion": "error"}, "set criterion='gini', got 'error'"),
        ({**smear, "base": linear.LogisticRegression()}, "LogisticRegression is a classifier"),
        ({**smear, "perturb": {"prune": [True]}}, "perturb names 'prune'; the members have"),
        ({"perturb": ["max_depth"]}, "perturb must be None or a dict from parameter to a list"),
        ({"perturb": {"max_depth": []}}, "perturb must be None or a dict .* of values, got"),
        ({"perturb": {"max_depth": "no"}}, "perturb must be None or a dict .* of values, got"),
        ({"perturb": {"max_depth": [2, 0]}}, "perturb: max_depth must be None or .*, got 0"),
        ({"perturb": {"max_bins": [9]}}, "perturb names 'max_bins'; .* own: max_features, crit"),
        ({"perturb": {"max_features": [3]}}, "max_features must be at most .* features, 2, got 3"),
        ({"perturb": {"max_features": [1]}, "per_split": False}, "names 'max_features'; the mem"),
        ({"perturb": {"lam": [1]}, "base": Recorder()}, "perturb names 'lam'; .* own: none"),
    ):
        with pytest.raises(ValueError, match=text):
            Bagging(**params).fit(X, y)

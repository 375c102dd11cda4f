"""Tests for solvers/combine.py."""

import copy
import itertools
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from solvers import combine
from solvers.adaboost_nc import AdaBoost
from solvers.combine import (
    BUILT_IN,
    REGRESSORS,
    Calibrated,
    Stacking,
    StackingRegressor,
    Voting,
    VotingRegressor,
    _inverse,
    _isotonic,
    _least_squares,
    _log_odds,
    _regress,
    _smoothed,
    _stack_numbers,
)
from solvers.exrm import PSVM
from solvers.gradient_boosting import GradientBoostingRegressor
from solvers.multiclass import ECOC, OneVsRest

pytestmark = pytest.mark.uncompiled  # The solver has no kernels.


def table(K=3, n=150, d=4, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % K
    return rng.normal(size=(K, d))[y] + rng.normal(size=(n, d)), np.array(list("abcdef"))[y]


def members():
    """Three of scikit-learn's classifiers, of different kinds."""
    pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.tree import DecisionTreeClassifier

    return [LogisticRegression(), GaussianNB(), DecisionTreeClassifier(max_depth=3, random_state=0)]


def named(found):
    return [(str(t), member) for t, member in enumerate(found)]


class Fixed:
    """A fitted classifier with the given predictions, whatever the rows are."""

    def __init__(self, says, classes):
        self.says, self.classes_ = np.array(says), np.array(classes)

    def fit(self, X, y):
        raise AssertionError("a fitted member was trained again")

    def predict(self, X):
        return self.says


def first_column():
    """A fitted classifier whose decision is the first column."""
    fixed = Fixed([], [False, True])
    fixed.decision_function = lambda X: X[:, 0]
    return fixed


class Silent:
    """A classifier whose fit returns nothing and takes no weights; it only predicts."""

    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        self.first = [X[y == c, 0].mean() for c in self.classes_]

    def predict(self, X):
        return self.classes_[np.abs(X[:, :1] - self.first).argmin(axis=1)]


def naive_isotonic(y, w):
    """max over j <= i of min over k >= i of the mean of y_j .. y_k."""
    n = len(y)
    mean = [[np.average(y[j : k + 1], weights=w[j : k + 1]) for k in range(j, n)] for j in range(n)]
    return [max(min(mean[j][i - j :]) for j in range(i + 1)) for i in range(n)]


# -- voting ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("weights", [None, [2, 1, 1.5]])
def test_voting_matches_scikit_learn(K, weights):
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y = table(K)
    test = table(K, seed=1)[0]
    for ours, theirs in (("plurality", "hard"), ("soft", "soft")):
        model = Voting(members(), how=ours, weights=weights).fit(X, y)
        peer = ensemble.VotingClassifier(named(members()), voting=theirs, weights=weights).fit(X, y)
        assert_array_equal(model.predict(test), peer.predict(test))
        assert hasattr(model, "predict_proba") == (ours == "soft")
    assert_allclose(model.predict_proba(test), peer.predict_proba(test), atol=1e-14)


@pytest.mark.parametrize("K", [2, 3])
def test_average_of_decision_functions(K):
    X, y = table(K)
    linear = pytest.importorskip("sklearn.linear_model")
    pair = [linear.LogisticRegression(), linear.RidgeClassifier()]
    model = Voting(pair, how="average", weights=[3, 1]).fit(X, y)
    one, two = (copy.deepcopy(member).fit(X, y).decision_function(X) for member in pair)
    assert_allclose(model.decision_function(X), 0.75 * one + 0.25 * two, atol=1e-12)
    assert_array_equal(model.weights_, [0.75, 0.25])


def test_majority_rejects():
    X = np.zeros((4, 1))
    says = ["abac", "abbc", "accb", "aacb"]  # rows: aaaa, bbca, abcc, ccbb
    fixed = [Fixed(list(text), ["a", "b", "c"]) for text in says]
    model = Voting(fixed, how="majority", reject="?", prefit=True).fit(X, list("abca"))
    assert model.predict(X).tolist() == ["a", "?", "?", "?"]
    model.set_params(how="plurality").fit(X, list("abca"))
    assert model.predict(X).tolist() == ["a", "b", "c", "b"]  # the last is a tie
    model.set_params(how="majority", weights=[3, 1, 1, 1]).fit(X, list("abca"))
    assert model.predict(X).tolist() == ["a", "b", "?", "c"]
    numbers = [Fixed([0, 0, 1, 1], [0, 1]), Fixed([0, 1, 0, 1], [0, 1])]
    model = Voting(numbers, how="majority", reject=-1, prefit=True).fit(X, [0, 1, 0, 1])
    assert model.predict(X).tolist() == [0, -1, -1, 1]
    many = Voting(numbers * 3, how="majority", reject=np.nan, prefit=True).fit(X, [0, 1, 0, 1])
    assert_array_equal(many.predict(X), [0, np.nan, np.nan, 1])  # six equal weights tie exactly


def test_ties_and_decisions_of_zero_are_positive():
    """Two classes: the second one; several: the first of the best."""
    X, y = np.zeros((4, 1)), list("abba")
    split = [Fixed(list("aabb"), ["a", "b"]), Fixed(list("abab"), ["a", "b"])]
    model = Voting(split, prefit=True).fit(X, y)
    assert_array_equal(model.decision_function(X), [-2, 0, 0, 2])
    assert model.predict(X).tolist() == list("abbb") and model.objective_ == 0.25
    assert model.trace_.tolist() == [0.5, 0.25]
    for member in split:
        member.decision_function = lambda X: np.array([0.0, -0.0, 1e-300, -1e-300])
        member.predict_proba = lambda X: np.tile([0.5, 0.5], (4, 1))
    model = Voting(split, how="average", prefit=True).fit(X, list("bbab"))
    assert model.predict(X).tolist() == list("bbba") and model.objective_ == 0.5
    for model in (Voting(split, how="soft", prefit=True), Stacking(split, prefit=True)):
        assert model.fit(X, y).predict(X).tolist() == list("bbbb")
        assert_array_equal(model.decision_function(X), 0.0)
    three = [Fixed(list(text), ["a", "b", "c"]) for text in ("abcc", "bcac")]
    model = Voting(three, prefit=True).fit(X, list("abca"))
    assert model.predict(X).tolist() == list("abac")


def test_votes_of_many_classes_and_trace_of_the_first_members():
    X, y = table(3)
    weight = np.random.default_rng(0).random(150)
    for how in ("plurality", "soft"):
        model = Voting(how=how).fit(X, y, weight)
        votes = model.votes(X)
        assert votes.shape == (150, 3, 3)
        expected = sum(model.weights_[t] * votes[:, t] for t in range(3))
        assert_allclose(model.decision_function(X), expected, atol=1e-14)
        assert_allclose(votes.sum(axis=2), 1.0)
        for t in range(3):
            first = Voting(",".join(list(BUILT_IN)[: t + 1]), how).fit(X, y, weight)
            assert model.trace_[t] == first.objective_
            assert model.trace_[t] == pytest.approx(1 - first.score(X, y, weight))


def test_probabilities_of_members_that_know_some_classes():
    """The columns of the others are 0, wherever they are; so in the votes and the regressions."""
    X, y = np.zeros((6, 1)), list("abcdab")
    some = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5], [0.3, 0.7], [1.0, 0.0], [0.4, 0.6]])
    every = np.random.default_rng(0).dirichlet(np.ones(4), 6)
    two, four = Fixed([], ["b", "d"]), Fixed([], list("abcd"))
    two.predict_proba, four.predict_proba = lambda X: some, lambda X: every
    P = np.zeros((6, 4))
    P[:, 1], P[:, 3] = some.T
    model = Voting([two, four], how="soft", weights=[3, 1], prefit=True).fit(X, y)
    assert_allclose(model.predict_proba(X), 0.75 * P + 0.25 * every, atol=1e-15)
    assert_allclose(model.votes(X)[:, 0], P, atol=1e-15)
    stack = Stacking([two, four], prefit=True).fit(X, y)
    for c in range(4):
        A, b = np.column_stack([P[:, c], every[:, c]]), 1.0 * (np.array(y) == "abcd"[c])
        assert_allclose(stack.coef_[:, c], _regress(A, b, np.full(6, 1 / 6))[0], atol=1e-12)


@pytest.mark.parametrize("make", [
    lambda found: Voting(found), lambda found: Voting(found, how="soft", weights=[1, 2, 3]),
    lambda found: Stacking(found),
])  # fmt: skip
def test_members_may_have_names(make, capsys):
    X, y = table(3)
    plain = make(members()).fit(X, y)
    pairs = make([*zip(("lr", "nb", "tree"), members(), strict=True)]).set_params(verbose=1)
    assert_array_equal(pairs.fit(X, y).decision_function(X), plain.decision_function(X))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines] == ["lr", "nb", "tree"]
    assert list(pairs.named_estimators_) == ["lr", "nb", "tree"]
    assert list(plain.named_estimators_) == ["0", "1", "2"]
    for model in (pairs, plain):
        found = list(model.named_estimators_.values())
        assert all(a is b for a, b in zip(found, model.estimators_, strict=True))
    pairs.set_params(callback=lambda model, iteration, info: iteration == 2).fit(X, y)
    assert list(pairs.named_estimators_) == ["lr", "nb"]


# -- weights learned from errors ------------------------------------------------------------------
def naive_errors(found, X, y, weight, folds):
    """Share of wrong rows of each member in cross-validation, as (n e + 1) / (n + 2)."""
    errors = []
    for member in found:
        wrong = 0.0
        for train, test in folds:
            part = copy.deepcopy(member).fit(X[train], y[train], sample_weight=weight[train])
            says = part.predict(X[test])
            wrong += sum(weight[i] for i, label in zip(test, says, strict=True) if label != y[i])
        errors.append((len(y) * wrong / sum(weight) + 1) / (len(y) + 2))
    return np.array(errors)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_learned_from_errors_match_naive(K, weighted):
    X, y = table(K)
    test, folds = table(K, seed=1)[0], split(150)
    weight = np.random.default_rng(0).random(150) + 0.1 if weighted else np.ones(150)
    errors = naive_errors(members(), X, y, weight, folds)
    assert np.ptp(errors) > 0.01
    for rule, raw in (
        ("log-odds", np.log((K - 1) * (1 - errors) / errors)),
        ("inverse-error", 1 / errors),
    ):
        for how in ("plurality", "soft"):
            params = {"weights": rule, "how": how, "cv": folds}
            model = Voting(members(), **params).fit(X, y, weight if weighted else None)
            expected = raw / (raw.sum() if how == "soft" else raw.max())
            assert_allclose(model.errors_, errors, rtol=1e-12)
            assert_allclose(model.weights_, expected, rtol=1e-12)
            given = Voting(members(), how, expected).fit(X, y, weight if weighted else None)
            assert_array_equal(model.predict(test), given.predict(test))
            assert model.residual_ is None and model.converged_ and model.trace_.shape == (3,)


@pytest.mark.parametrize("K", [2, 3, 4])
def test_log_odds_are_best_for_independent_members(K):
    """The vote finds the class of the largest posterior, for every pattern of votes."""
    errors = np.array([0.05, 0.2, 0.3, 0.33, 0.45])
    weights = [_log_odds(e, K) for e in errors]
    for says in itertools.product(range(K), repeat=5):
        right = np.array(says)[:, None] == np.arange(K)
        posterior = np.where(right, 1 - errors[:, None], errors[:, None] / (K - 1)).prod(axis=0)
        votes = weights @ right
        assert posterior[votes.argmax()] == pytest.approx(posterior.max(), rel=1e-12)
    assert _log_odds((K - 1) / K, K) == pytest.approx(0, abs=1e-15) and _log_odds(0.99, K) == 0


def test_members_that_are_always_or_never_right():
    X, y = np.zeros((8, 1)), np.array(list("aabbabab"))
    wrong = np.where(y == "a", "b", "a")
    right, bad = Fixed(y, ["a", "b"]), Fixed(wrong, ["a", "b"])
    model = Voting([right, bad], weights="log-odds", prefit=True).fit(X, y)
    assert_array_equal(model.weights_, [1, 0])
    assert_allclose(model.errors_, [0.1, 0.9])
    assert model.objective_ == 0
    model = Voting([right, bad], weights="inverse-error", prefit=True).fit(X, y)
    assert_allclose(model.weights_, [1, 1 / 9])
    model = Voting([bad, bad], weights="log-odds", prefit=True).fit(X, y)  # worse than chance
    assert_array_equal(model.weights_, [1, 1])
    assert_array_equal(model.predict(X), wrong)
    weight = np.array([0.0, 3.0, 1.0])
    assert _smoothed(np.array([True, False, True]), weight) == 0.5 * (0.5 + 1) / 2


@pytest.mark.parametrize("rule", ["log-odds", "inverse-error"])
def test_equal_errors_give_the_equal_vote(rule):
    """Also its ties, to the last digit."""
    X, y = np.zeros((6, 1)), list("aababb")
    says = ["aabbbb", "aaaabb", "bababb", "aababa", "abbabb", "aabaab"]  # one wrong each
    fixed = [Fixed(list(text), ["a", "b"]) for text in says]
    model = Voting(fixed, weights=rule, prefit=True).fit(X, y)
    plain = Voting(fixed, prefit=True).fit(X, y)
    assert_array_equal(model.weights_, plain.weights_)
    assert_array_equal(model.decision_function(X), plain.decision_function(X))
    soft = Voting("bayes,bayes,bayes", how="soft", weights=rule).fit(*table(3))
    assert_allclose(soft.weights_, 1 / 3, rtol=1e-15)


def random_errors(seed):
    """Errors of members (n, T) and weights of rows, of many kinds."""
    rng = np.random.default_rng(seed)
    n, T = int(rng.choice([3, 20, 200])), int(rng.integers(1, 7))
    E = rng.normal(size=(n, T)) * rng.choice([1.0, 0.01], T) + rng.normal(size=(n, 1))
    if seed % 4 == 1:
        E[:, -1] = E[:, 0]  # two equal members
    if seed % 4 == 2:
        E[:, -1] = 0.1 - E[:, 0]  # errors that cancel
    if seed % 4 == 3:
        E *= 10.0 ** rng.integers(-6, 7, T)
    w = rng.random(n) + 0.01
    return E, w / w.sum()


@pytest.mark.parametrize("seed", range(24))
def test_covariance_weights_match_scipy(seed):
    """An active set method of another problem, with the sum as a heavy row; and the conditions."""
    optimize = pytest.importorskip("scipy.optimize")
    E, w = random_errors(seed)
    a, objective, gap = _least_squares(E, w)
    C = (E * w[:, None]).T @ E
    assert (a >= 0).all() and a.sum() == pytest.approx(1, abs=1e-14)
    assert objective == pytest.approx(a @ C @ a, rel=1e-7, abs=1e-15 * C.max())
    best = C.diagonal().min()
    assert 0 <= gap <= 1e-9 * max(objective, 1e-6 * best)
    slope = C @ a  # no less than at the optimum's a.C a, and equal where a > 0
    assert slope.min() >= objective - 1e-9 * best
    assert_allclose(slope[a > 1e-6], objective, rtol=1e-5, atol=1e-9 * best)
    heavy = 1e3 * np.sqrt(best)
    rows = np.vstack([np.sqrt(w)[:, None] * E, np.full(E.shape[1], heavy)])
    x = optimize.nnls(rows, np.append(np.zeros(len(w)), heavy))[0]
    x /= x.sum()
    assert objective <= x @ C @ x + 1e-9 * best and x @ C @ x <= objective + 1e-6 * best


def test_weights_of_perfect_members_and_of_small_errors():
    E, w = random_errors(8)
    E = np.column_stack([E, E[:, 0] + 1.0])
    E[:, 1] = 0.0
    for rule in (_inverse, lambda E, w: _least_squares(E, w)[0]):
        assert_array_equal(rule(E, w), np.arange(E.shape[1]) == 1)
        assert_allclose(rule(0 * E, w), 1 / E.shape[1])
    small = np.column_stack([np.ones(9), np.full(9, 1e-9), np.linspace(-2e-9, 2e-9, 9)])
    a, objective, gap = _least_squares(small, np.full(9, 1 / 9))
    u = 1 / np.mean(small[:, 1:] ** 2, axis=0)  # the two small ones are not correlated
    assert_allclose(a[1:], u / u.sum(), rtol=1e-6)
    assert gap <= 1e-12 * objective


# -- built-in members -----------------------------------------------------------------------------
def test_bayes_matches_scikit_learn(monkeypatch):
    bayes = pytest.importorskip("sklearn.naive_bayes")
    monkeypatch.setattr(combine, "ROWS", 149)  # two chunks of rows: 149 and 1
    X, y = table(3)
    weight = np.random.default_rng(0).random(150)
    X[:, 0] += 1e3 * X[:, 0].std()
    ours = BUILT_IN["bayes"]().fit(X, y, weight)
    theirs = bayes.GaussianNB().fit(X, y, weight)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-9)


def test_centroid_is_the_nearest_mean():
    X, y = table(3)
    X, y = X[:100], np.where(np.arange(100) < 40, "a", y[:100])  # classes of unequal size
    found = BUILT_IN["centroid"]().fit(X, y).predict_proba(X)
    means = np.array([X[y == c].mean(0) for c in "abc"])
    variance = sum(((X[y == c] - m) ** 2).sum(0) for c, m in zip("abc", means, strict=True)) / 100
    shares = [(y == c).mean() for c in "abc"]
    scores = shares * np.exp(-0.5 * ((X[:, None] - means) ** 2 / variance).sum(2))
    assert_allclose(found, scores / scores.sum(1, keepdims=True), atol=1e-6)


def test_linear_is_least_squares():
    X, y = table(3)
    Z = (X - X.mean(0)) / X.std(0)
    A = np.vstack([np.column_stack([Z, np.ones(150)]), np.eye(5)[:4] * np.sqrt(150e-3)])
    b = np.vstack([y[:, None] == np.array(list("abc")), np.zeros((4, 3))])
    outputs = A[:150] @ np.linalg.lstsq(A, b.astype(float), rcond=None)[0]
    member = BUILT_IN["linear"]().fit(X, y)
    assert_allclose(member.decision_function(X), outputs, atol=1e-10)
    clipped = outputs.clip(0, 1)
    expected = clipped / clipped.sum(1, keepdims=True)
    assert_allclose(member.predict_proba(X), expected, atol=1e-10)
    scaled = X * [1e149, 1e-170, 1.0, 1e-290]  # each column counts, whatever its unit
    assert_allclose(member.fit(scaled, y).predict_proba(scaled), expected, atol=1e-10)


@pytest.mark.parametrize("name", BUILT_IN)
def test_constant_columns_count_for_nothing(name):
    """0.1 is no mean of itself in floating point; other values of the column change nothing."""
    X, y = table(3)
    X = np.column_stack([X, np.full(150, 0.1), np.full(150, 1e30)])
    member = BUILT_IN[name]().fit(X, y)
    if name == "linear":
        assert_array_equal(member.state_[:, 4:6], 0.0)
    changed = X.copy()
    changed[:, 4] += 1e-3
    assert_allclose(member.predict_proba(changed), member.predict_proba(X), atol=1e-9)
    member = BUILT_IN[name]().fit(X[:, 4:], y)  # there is nothing else
    assert_allclose(member.predict_proba(X[:, 4:]), 1 / 3, atol=1e-12)


def test_bayes_far_away():
    """The class that is nearer in its own deviations gets all, up to 1e150 of them."""
    X, y = np.array([[0.0], [2.0], [10.0], [16.0]]), np.array(["a", "a", "b", "b"])
    member = BUILT_IN["bayes"]().fit(X, y)
    close = BUILT_IN["bayes"]().fit(1e-20 * X, y)
    for size in (1e6, 1e100, 1e149):
        far = np.array([[-size], [size]])
        assert member.predict_proba(far).tolist() == [[0, 1], [0, 1]]
    assert close.predict_proba(far / 1e20).tolist() == [[0, 1], [0, 1]]
    tiny = BUILT_IN["bayes"]().fit(1e-200 * X, y)  # even the distances overflow
    centroid = BUILT_IN["centroid"]().fit(X, y)  # both means are equally far, to the last digit
    for found in (tiny, centroid):
        assert_allclose(found.predict_proba(far), 0.5)


# -- stacking -------------------------------------------------------------------------------------
def split(n, k=4):
    fold = np.random.default_rng(5).permutation(n) % k
    return [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(k)]


def repeated(weight):
    """Rows repeated by whole weights (150,), folds, and these folds of the repeated rows."""
    rows, folds = np.repeat(np.arange(150), weight), split(150)
    return rows, folds, [tuple(np.flatnonzero(np.isin(rows, r)) for r in pair) for pair in folds]


@pytest.mark.parametrize("K", [2, 3])
def test_stacking_matches_scikit_learn(K):
    ensemble = pytest.importorskip("sklearn.ensemble")
    from sklearn.linear_model import LogisticRegression

    X, y = table(K)
    test, folds = table(K, seed=1)[0], split(150)
    peer = ensemble.StackingClassifier(named(members()), LogisticRegression(), cv=folds).fit(X, y)
    model = Stacking(members(), meta=LogisticRegression(), cv=folds).fit(X, y)
    assert_array_equal(model.predict(test), peer.predict(test))
    assert_allclose(model.predict_proba(test), peer.predict_proba(test), atol=1e-12)
    assert_allclose(model.decision_function(test), peer.decision_function(test), atol=1e-12)
    assert model.residual_ is None and model.objective_ < 0.5


@pytest.mark.parametrize("K", [2, 4])
def test_stacking_is_nonnegative_regression(K):
    optimize = pytest.importorskip("scipy.optimize")
    selection = pytest.importorskip("sklearn.model_selection")
    X, y = table(K)
    folds = split(150)
    model = Stacking(members(), cv=folds).fit(X, y)
    P = [
        selection.cross_val_predict(member, X, y, cv=folds, method="predict_proba")
        for member in members()
    ]
    total = 0.0
    for c, label in enumerate(model.classes_):
        A = np.column_stack([p[:, c] for p in P])
        coef, norm = optimize.nnls(A, (y == label).astype(float))
        assert_allclose(model.coef_[:, c], coef, atol=1e-9)
        total += norm**2 / 150
    assert model.objective_ == pytest.approx(total, rel=1e-10)
    assert model.converged_ and model.residual_ < 1e-12
    final = [member.fit(X, y).predict_proba(X) for member in members()]
    outputs = sum(model.coef_[t] * final[t] for t in range(3))
    expected = outputs[:, 1] - outputs[:, 0] if K == 2 else outputs
    assert_allclose(model.decision_function(X), expected, atol=1e-12)
    assert_allclose(model.predict_proba(X), outputs / outputs.sum(1, keepdims=True), atol=1e-12)


def test_a_classifier_on_top_that_only_predicts():
    X, y = table(3)
    scores = []
    model = Stacking("linear,bayes", meta=Silent())
    model.set_params(callback=lambda m, *_: scores.append(m.score(X, y))).fit(X, y)
    assert scores == [model.score(X, y)]  # reported once, at the end
    rows = np.hstack([member.predict_proba(X) for member in model.estimators_])
    assert_array_equal(model.predict(X), model.meta_.predict(rows))
    assert model.score(X, y) > 0.5 and not hasattr(model, "predict_proba")
    text = "Stacking: meta Silent has neither decision_function nor predict_proba"
    with pytest.raises(ValueError, match=text):
        model.decision_function(X)


@pytest.mark.parametrize("seed", range(10))
def test_regression_matches_scipy(seed):
    optimize = pytest.importorskip("scipy.optimize")
    rng = np.random.default_rng(seed)
    A, b, w = rng.random((40, 6)), rng.random(40) < 0.5, rng.random(40)
    w /= w.sum()
    if seed % 3 == 1:
        A[:, 5], A[:, 4] = A[:, 0], 0.0  # equal and empty columns
    if seed % 3 == 2:
        A = A[:4] if seed % 2 else np.round(A)  # fewer rows than columns, many ties
        b, w = b[: len(A)], w[: len(A)] / w[: len(A)].sum()
    x, objective, gap = _regress(A, b.astype(float), w)
    norm = optimize.nnls(np.sqrt(w)[:, None] * A, np.sqrt(w) * b)[1]
    assert (x >= 0).all() and objective == pytest.approx(norm**2, abs=1e-13)
    assert objective == pytest.approx(w @ (b - A @ x) ** 2, abs=1e-15)
    assert 0 <= gap < 1e-12


@pytest.mark.parametrize("seed", range(24))
def test_regression_on_numbers_of_both_signs_matches_scipy(seed):
    optimize = pytest.importorskip("scipy.optimize")
    E, w = random_errors(seed)
    y = np.random.default_rng(seed).normal(size=len(w)) + (seed % 3)
    P = E + y[:, None] if seed % 2 else E  # members that know y, or know nothing
    x, objective, gap = _stack_numbers(P, y, w)
    norm = optimize.nnls(np.sqrt(w)[:, None] * P, np.sqrt(w) * y)[1]
    assert (x >= 0).all() and objective == pytest.approx(norm**2, rel=1e-7, abs=1e-9)
    assert objective == pytest.approx(w @ (y - P @ x) ** 2, rel=1e-9, abs=1e-15)
    assert 0 <= gap < 1e-9


def test_the_gap_of_a_regression_of_both_signs_is_honest():
    """Also with columns that cancel each other: there it may know nothing, and says so."""
    optimize = pytest.importorskip("scipy.optimize")
    certified = 0
    for seed in range(200):
        E, w = random_errors(seed)
        if seed % 3 == 0:
            E[:, -1] = -E[:, 0]
        y = np.random.default_rng(seed).normal(size=len(w))
        x, objective, gap = _stack_numbers(E, y, w)
        norm = optimize.nnls(np.sqrt(w)[:, None] * E, np.sqrt(w) * y)[1]
        assert objective - norm**2 <= gap + 1e-13 * (w @ y**2)
        certified += gap <= 1e-9
        assert gap <= 1e-9 or seed % 3 == 0
    assert certified > 180


def test_regression_with_a_column_against_the_goal(monkeypatch):
    """It makes another one better, though its own product with the goal is negative."""
    noise, y = np.random.default_rng(0).normal(size=(2, 50))
    noise -= y * (noise @ y) / (y @ y)
    A, w = np.column_stack([y + noise, -noise - 0.1 * y]), np.full(50, 0.02)
    x, objective, gap = _regress(A, y, w)
    assert_allclose(x, 1 / 0.9, rtol=1e-9)
    assert objective < 1e-25 and gap < 1e-25
    best = _regress(A, y + 1.0, w)[1]
    monkeypatch.setattr(combine, "_active_set", lambda G, c: np.array([0.3, 0.2]))
    x, objective, gap = _regress(A, y + 1.0, w)
    assert objective > best + 0.1 and gap >= objective - best


def test_regression_on_columns_of_little_or_no_use():
    x, objective, gap = _regress(np.diag([1.0, 1e-5]), np.array([1.0, 1e-5]), np.full(2, 0.5))
    assert_allclose(x, 1.0, rtol=1e-9)
    assert objective < 1e-25 and gap < 1e-15
    x, objective, gap = _regress(np.zeros((5, 2)), np.array([0, 1, 0, 1, 1.0]), np.full(5, 0.2))
    assert not x.any() and objective == pytest.approx(0.6) and gap < 1e-15


def test_the_gap_of_a_regression_bounds_its_error(monkeypatch):
    rng = np.random.default_rng(0)
    A, b, w = rng.random((40, 6)), (rng.random(40) < 0.5).astype(float), np.full(40, 1 / 40)
    best = _regress(A, b, w)[1]
    E, u = random_errors(0)
    average = _least_squares(E, u)[1]
    monkeypatch.setattr(combine, "CHANGES", 0)
    x, objective, gap = _regress(A, b, w)
    assert not x.any() and objective > best + 0.1 and gap >= objective - best
    monkeypatch.setattr(combine, "_active_set", lambda G, c: np.arange(1.0, c.size + 1.0))
    a, objective, gap = _least_squares(E, u)
    assert objective > 1.01 * average and gap >= objective - average


@pytest.mark.parametrize("is_numeric", [False, True])
def test_folds(is_numeric):
    """Each row of weight is tested once; folds are alike in the classes, or in the order of y."""
    codes, weight = np.repeat([0, 1, 2], [11, 7, 23]), np.ones(41)
    weight[[0, 20]] = 0.0
    used = np.flatnonzero(weight)
    y = np.random.default_rng(0).normal(size=41) if is_numeric else codes
    pairs = (StackingRegressor if is_numeric else Stacking)(cv=4)._folds(y, weight)
    assert_array_equal(np.sort(np.concatenate([test for _, test in pairs])), used)
    rank = np.full(41, -1)
    rank[used] = y[used].argsort().argsort()
    for train, test in pairs:
        assert_array_equal(np.sort(np.concatenate([train, test])), used)
        if is_numeric:
            assert len(set(rank[test] // 4)) == len(test)  # one of every four neighbours
        else:
            counts = np.bincount(codes[test], minlength=3)
            assert (np.abs(counts - np.array([10, 7, 22]) / 4) < 1).all()
    assert len(Stacking(cv=10)._folds(np.array([0, 0, 1, 1]), np.ones(4))) == 4


# -- regressors -----------------------------------------------------------------------------------
def numbers(n=150, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, 2.0 + X[:, 0] + X[:, 1] ** 2 - X[:, 2] * X[:, 3] + 0.3 * rng.normal(size=n)


def regressors():
    """Three of scikit-learn's regressors, of different kinds."""
    linear = pytest.importorskip("sklearn.linear_model")
    from sklearn.svm import SVR
    from sklearn.tree import DecisionTreeRegressor

    return [linear.Ridge(), SVR(), DecisionTreeRegressor(max_depth=4, random_state=0)]


BOTH = VotingRegressor, StackingRegressor
WAYS = [  # Every way to combine regressors.
    VotingRegressor(), VotingRegressor(weights=[1, 3]), VotingRegressor(weights="inverse-error"),
    VotingRegressor(weights="covariance"), StackingRegressor(),
    StackingRegressor(meta=REGRESSORS["linear"]()),
]  # fmt: skip
each_way = pytest.mark.parametrize("model", WAYS, ids=repr)


@pytest.mark.parametrize("weights", [None, [2, 1, 1.5]])
@pytest.mark.parametrize("weighted", [False, True])
def test_voting_regressor_matches_scikit_learn(weights, weighted):
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y = numbers()
    test = numbers(seed=1)[0]
    passed = np.random.default_rng(0).random(150) if weighted else None
    model = VotingRegressor(regressors(), weights=weights).fit(X, y, passed)
    peer = ensemble.VotingRegressor(named(regressors()), weights=weights)
    peer.fit(X, y, **({"sample_weight": passed} if weighted else {}))
    assert_allclose(model.predict(test), peer.predict(test), rtol=1e-12)
    assert_allclose(model.votes(test), peer.transform(test), rtol=1e-12)
    assert model.score(X, y, passed) == pytest.approx(peer.score(X, y, passed), rel=1e-12)
    squares = np.average((model.predict(X) - y) ** 2, weights=passed)
    assert model.objective_ == pytest.approx(squares, rel=1e-12)
    assert model.residual_ is None and model.converged_ and model.weights_.sum() == 1


@pytest.mark.parametrize("weighted", [False, True])
def test_weights_of_an_average_match_naive(weighted):
    optimize = pytest.importorskip("scipy.optimize")
    X, y = numbers()
    folds = split(150)
    w = np.random.default_rng(0).random(150) + 0.1 if weighted else np.ones(150)
    E = np.zeros((150, 3))
    for t, member in enumerate(regressors()):
        for train, test in folds:
            part = copy.deepcopy(member).fit(X[train], y[train], sample_weight=w[train])
            E[test, t] = part.predict(X[test]) - y[test]
    C = (E * w[:, None]).T @ E / w.sum()
    inverse = 1 / C.diagonal()
    best = optimize.minimize(
        lambda a: a @ C @ a, np.full(3, 1 / 3), jac=lambda a: 2 * C @ a, method="SLSQP",
        bounds=[(0, 1)] * 3, constraints={"type": "eq", "fun": lambda a: a.sum() - 1},
        options={"ftol": 1e-15},
    ).x  # fmt: skip
    for rule, expected, atol in (
        ("inverse-error", inverse / inverse.sum(), 1e-12),
        ("covariance", best, 1e-6),
    ):
        model = VotingRegressor(regressors(), rule, folds).fit(X, y, w if weighted else None)
        assert_allclose(model.weights_, expected, atol=atol)
        assert_allclose(model.errors_, C.diagonal(), rtol=1e-12)
        assert model.objective_ == pytest.approx(model.weights_ @ C @ model.weights_, rel=1e-12)
        assert (model.residual_ is None) == (rule == "inverse-error") and model.converged_
        final = [m.fit(X, y, sample_weight=w).predict(X) for m in regressors()]
        assert_allclose(model.predict(X), np.array(final).T @ model.weights_, rtol=1e-12)
    equal = np.full(3, 1 / 3)
    assert 0 < model.residual_ <= 1e-9
    assert model.objective_ <= min(C.diagonal().min(), equal @ C @ equal) + 1e-12


def test_stacking_regressor_matches_scikit_learn():
    ensemble = pytest.importorskip("sklearn.ensemble")
    from sklearn.linear_model import LinearRegression, Ridge

    X, y = numbers()
    test, folds = numbers(seed=1)[0], split(150)
    positive = LinearRegression(positive=True, fit_intercept=False)
    for ours, theirs in (("linear", positive), (Ridge(), Ridge())):
        peer = ensemble.StackingRegressor(named(regressors()), theirs, cv=folds).fit(X, y)
        model = StackingRegressor(regressors(), ours, folds).fit(X, y)
        assert_allclose(model.predict(test), peer.predict(test), rtol=1e-8)
    assert_allclose(model.meta_.coef_, peer.final_estimator_.coef_, rtol=1e-10)
    assert model.residual_ is None and model.votes(test).shape == (150, 1)
    fitted = [member.fit(X, y) for member in regressors()]
    more, goals = numbers(seed=2)
    weight = np.random.default_rng(0).random(150)
    peer = ensemble.StackingRegressor(named(fitted), positive, cv="prefit")
    model = StackingRegressor(fitted, prefit=True).fit(more, goals, weight)
    assert all(a is b for a, b in zip(model.estimators_, fitted, strict=True))
    coef = peer.fit(more, goals, sample_weight=weight).final_estimator_.coef_
    assert_allclose(model.weights_, coef, atol=1e-9)
    squares = np.average((model.predict(more) - goals) ** 2, weights=weight)
    assert model.objective_ == pytest.approx(squares, rel=1e-12)
    assert model.converged_ and 0 < model.residual_ < 1e-12


def test_a_stack_is_no_worse_than_its_best_member():
    """On the rows that its weights were learned from; and more members never do harm there."""
    X, y = numbers()
    names = "linear,quadratic,linear"
    classes = Stacking("linear,bayes,linear").fit(*table(4))
    model = StackingRegressor(names).fit(X, y)
    alone = VotingRegressor(names, "covariance").fit(X, y)
    assert model.objective_ <= alone.objective_ <= alone.errors_.min()
    for trace in (model.trace_, alone.trace_, classes.trace_):
        assert (np.diff(trace) <= 1e-12).all() and len(trace) == 3
        assert_allclose(trace[2], trace[1])  # the third brings nothing new


@pytest.mark.parametrize("model", [
    *WAYS, Stacking(), Stacking(meta=BUILT_IN["centroid"]()),
], ids=repr)  # fmt: skip
def test_weights_of_rows_reach_the_members_of_every_fold(model):
    """Whole weights are repeated rows, in the folds, the weights and the final members."""
    X, y = numbers() if isinstance(model, BOTH) else table(3)
    output = "predict" if isinstance(model, BOTH) else "decision_function"
    weight = np.random.default_rng(0).integers(0, 4, 150)
    rows, folds, again = repeated(weight)
    models = [
        copy.copy(model).set_params(cv=cv).fit(*given)
        for cv, *given in ((folds, X, y, 1.0 * weight), (again, X[rows], y[rows]), (folds, X, y))
    ]
    assert models[0].objective_ == pytest.approx(models[1].objective_, rel=1e-7)
    one, two, plain = (getattr(fitted, output)(X) for fitted in models)
    assert_allclose(one, two, rtol=1e-7, atol=1e-9)
    assert abs(one - plain).max() > 1e-3


def test_built_in_regressors_are_least_squares():
    X, y = numbers()
    Z = (X - X.mean(0)) / X.std(0)
    for name, A in (("linear", Z), ("quadratic", np.hstack([Z, Z**2]))):
        A = (A - A.mean(0)) / A.std(0)
        d = A.shape[1]
        rows = np.vstack([A, np.eye(d) * np.sqrt(150e-3)])
        coef = np.linalg.lstsq(rows, np.append(y - y.mean(), np.zeros(d)), rcond=None)[0]
        member = REGRESSORS[name]().fit(X, y)
        assert_allclose(member.predict(X), A @ coef + y.mean(), rtol=1e-9)
        weight = np.random.default_rng(0).integers(0, 3, 150)
        again = REGRESSORS[name]().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
        weighted = REGRESSORS[name]().fit(X, y, weight.astype(float))
        assert_allclose(weighted.predict(X), again.predict(X), rtol=1e-9)
        level = np.column_stack([X, np.full(150, 0.1)])
        assert_allclose(REGRESSORS[name]().fit(level, y).predict(level), member.predict(X))


@each_way
def test_a_regressor_in_any_unit(model):
    """y times a number gives predictions times that number; so do weights and features."""
    X, y = numbers()
    weight = np.random.default_rng(0).random(150)
    expected = model.fit(X, y, weight).predict(X)
    for size in (1e149, 1e100, 1e-100, 1e-290):
        found = model.fit(X, size / 100 * y, weight).predict(X)
        assert_allclose(found * (100 / size), expected, rtol=1e-7)
        assert model.converged_
        assert_allclose(
            model.fit(size / 10 * X, y, weight).predict(size / 10 * X), expected, rtol=1e-7
        )
    for size in (1e147, 1e-290):
        assert_allclose(model.fit(X, y, size * weight).predict(X), expected, rtol=1e-7)
    level = model.fit(X, np.full(150, 3.0)).predict(X)
    assert_allclose(level, 3.0, rtol=1e-9)
    assert_allclose(model.fit(X, np.zeros(150)).predict(X), 0.0, atol=1e-300)


# -- calibration ----------------------------------------------------------------------------------
@pytest.mark.parametrize("method, theirs", [("platt", "sigmoid"), ("isotonic", "isotonic")])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.filterwarnings("ignore:Since FrozenEstimator")
def test_calibration_matches_scikit_learn(method, theirs, weighted):
    calibration = pytest.importorskip("sklearn.calibration")
    from sklearn.frozen import FrozenEstimator

    X, y = table(2, n=300)
    test, folds = table(2, seed=1)[0], split(300)
    weight = np.random.default_rng(0).random(300) + 0.1 if weighted else None
    base = members()[0]
    peer = calibration.CalibratedClassifierCV(base, method=theirs, cv=folds, ensemble=False)
    model = Calibrated(base, method=method, cv=folds).fit(X, y, weight)
    expected = peer.fit(X, y, weight).predict_proba(test)
    assert_allclose(model.predict_proba(test), expected, atol=1e-6)
    fitted = copy.deepcopy(base).fit(X[:100], y[:100])
    rest, passed = slice(100, 300), None if weight is None else weight[100:]
    peer = calibration.CalibratedClassifierCV(FrozenEstimator(fitted), method=theirs)
    expected = peer.fit(X[rest], y[rest], passed).predict_proba(test)
    model = Calibrated(fitted, method=method, prefit=True).fit(X[rest], y[rest], passed)
    assert_allclose(model.predict_proba(test), expected, atol=1e-6)
    assert model.converged_ and model.residual_ <= 1e-9


def test_platt_minimises_its_loss():
    optimize = pytest.importorskip("scipy.optimize")
    X, y = table(2, seed=3)
    fitted = BUILT_IN["linear"]().fit(X[:50], y[:50])
    model = Calibrated(fitted, prefit=True, tol=1e-15).fit(X, y)
    f, plus = fitted.decision_function(X), (y == "b").sum()
    target = np.where(y == "b", (plus + 1) / (plus + 2), 1 / (150 - plus + 2))

    def loss(theta):
        z = theta[0] * f + theta[1]
        return np.mean(np.logaddexp(0, z) - target * z)

    best = optimize.minimize(loss, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-10})
    assert model.objective_ == pytest.approx(loss((model.slope_, model.offset_)), rel=1e-14)
    assert model.objective_ <= best.fun + 1e-14 and best.fun - model.objective_ < 1e-8
    p = model.predict_proba(X)
    assert_allclose(p[:, 1], 1 / (1 + np.exp(-model.slope_ * f - model.offset_)), atol=1e-14)


def test_the_gap_of_platt_bounds_its_error_at_every_step():
    X, y = table(2, seed=3)
    seen = []
    model = Calibrated(tol=1e-15, callback=lambda m, i, info: seen.append(info)).fit(X, y)
    assert len(seen) == model.n_iter_ > 2 and model.converged_
    for info in seen:
        excess = (info["objective"] - model.objective_) / max(1.0, info["objective"])
        assert excess <= info["residual"]
    assert (np.diff(model.trace_) <= 0).all()
    with pytest.warns(combine.ConvergenceWarning, match=r"1 iterations.*residual.*raise max_iter"):
        short = Calibrated(max_iter=1).fit(X, y)
    assert not short.converged_ and short.trace_[0] == short.objective_


@pytest.mark.parametrize("seed", range(6))
def test_isotonic_matches_naive(seed):
    """Also on equal outputs, which get one value."""
    rng = np.random.default_rng(seed)
    n = [1, 2, 3, 10, 30, 60][seed]
    f = np.round(rng.normal(size=n), 1 if seed > 3 else 9)
    positive, w = f + rng.normal(size=n) > 0, rng.random(n) + 0.1
    corners = _isotonic(f, positive, w, lambda *_, **info: None)
    levels = np.unique(f)
    y = [np.average(positive[f == level], weights=w[f == level]) for level in levels]
    weight = [w[f == level].sum() for level in levels]
    assert_allclose(np.interp(levels, *corners), naive_isotonic(y, weight), atol=1e-12)


def test_isotonic_is_certified_and_increasing():
    X, y = table(2, n=400, seed=2)
    weight = np.random.default_rng(0).integers(0, 4, 400).astype(float)
    base = BUILT_IN["bayes"]().fit(X[:20], y[:20])
    for rounded in (False, True):
        member = copy.copy(base)
        if rounded:  # many equal outputs
            member.predict_proba = lambda X: np.round(base.predict_proba(X), 1)
        model = Calibrated(member, method="isotonic", prefit=True).fit(X, y, weight)
        assert 0 < model.residual_ < 1e-14 and (np.diff(model.values_) >= 0).all()
        p = model.predict_proba(X)[:, 1]
        squares = np.average((p - (y == "b")) ** 2, weights=weight)
        assert model.objective_ == pytest.approx(squares, rel=1e-12)
        rows = np.repeat(np.arange(400), weight.astype(int))
        again = Calibrated(member, method="isotonic", prefit=True).fit(X[rows], y[rows])
        assert_allclose(again.predict_proba(X)[:, 1], p, atol=1e-12)


def test_platt_is_certified_on_hard_outputs():
    """Far outliers, tiny and huge scales, uneven weights; the first saturates after a full step."""
    cases = [([17.0, 115.0], [True, False], [671.52146592, 12.95446561])]
    cases += [(np.linspace(-100, 100, 40) ** 3, np.arange(40) >= 20, np.ones(40))]  # separated
    for seed in range(150):
        rng = np.random.default_rng(seed)
        n = int(rng.choice([2, 3, 20, 200]))
        f = rng.standard_cauchy(n) * 10.0 ** rng.integers(-8, 8)
        y = np.arange(n) >= n // 2 if seed % 3 else rng.random(n) < 0.1
        y[0], y[-1] = True, False
        cases.append((np.sort(f), y, 10.0 ** rng.integers(-3, 4) * rng.random(n) ** 5 + 1e-9))
    for f, y, w in cases:
        seen = []
        problem = np.array(f), np.array(y), np.array(w)
        combine._platt(*problem, 1e-9, 100, lambda *_, seen=seen, **info: seen.append(info))
        assert seen[-1]["residual"] <= 1e-9 and len(seen) < 30


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_calibration_at_any_scale(method):
    """Of outputs, for which the slope makes up, and of weights: rows without weight do not count.
    Outputs that are constant but for rounding have no slope: the fraction of the class remains."""
    f, noise = np.random.default_rng(0).normal(size=(2, 80))
    X, y = f[:, None], f + noise > 0
    model = Calibrated(first_column(), method=method, prefit=True)
    expected = model.fit(X, y).predict_proba(X)
    for size in (1e149, 1e100, 1e-100, 1e-200, 1e-290):
        assert_allclose(model.fit(size * X, y).predict_proba(size * X), expected, atol=1e-9)
        assert model.converged_
    expected, weight = model.fit(X[20:], y[20:]).predict_proba(X), 1.0 * (np.arange(80) >= 20)
    for small, rows in ((0.0, X), (5e-324, X), (1e-200, X[20:])):
        model.fit(X, y, np.maximum(weight, small))
        assert_allclose(model.predict_proba(rows), expected[-len(rows) :], atol=1e-12)
        assert model.converged_
    level = model.fit(1.0 + 1e-16 * X, y)
    assert level.converged_ and (method == "isotonic" or level.slope_ == 0)
    assert_allclose(model.fit(0.0 * X, y).predict_proba(0.0 * X)[:, 1], y.mean(), atol=0.01)


# -- what members have to be able to do -----------------------------------------------------------
def test_messages_say_what_is_needed():
    """And never advise what was done already."""
    X, y = table(3)
    two = y != "c"
    for model, text in (
        (Calibrated(Silent()), "Calibrated: base Silent has neither decision_function nor"),
        (Voting([Silent()], how="average"), "member Silent has neither decision_function nor"),
        (Voting([Silent()], how="soft"), "member Silent has no predict_proba; choose one that has"),
        (Stacking([Silent()]), "member Silent has no predict_proba; choose one that has"),
    ):
        with pytest.raises(ValueError, match=text) as caught:
            model.fit(X[two], y[two])
        assert "wrap" not in str(caught.value)
    with pytest.raises(ValueError, match="weights of class b are lost beside those of the others"):
        Voting("bayes").fit(X, y, np.where(y == "b", 1e-200, 1e140))
    for model in (Voting([PSVM()], how="soft"), Stacking([PSVM()])):
        with pytest.raises(ValueError, match="PSVM has no predict_proba; wrap it in Calibrated"):
            model.fit(X[two], y[two])
    svm = pytest.importorskip("sklearn.svm").LinearSVC()
    with pytest.raises(ValueError, match=r"LinearSVC has no predict_proba; wrap it in OneVsRest\("):
        Voting([svm], how="soft").fit(X, y)  # Calibrated alone takes two classes only


def test_weights_for_members_that_take_none():
    neighbors = pytest.importorskip("sklearn.neighbors")
    calibration = pytest.importorskip("sklearn.calibration")
    X, y = table(2)
    weight = np.random.default_rng(0).random(150)
    knn, folds = neighbors.KNeighborsClassifier(), split(150)
    peer = calibration.CalibratedClassifierCV(knn, cv=folds, ensemble=False)
    with pytest.warns(UserWarning, match="takes no sample_weight in fit: the weights count for"):
        model = Calibrated(knn, cv=folds).fit(X, y, weight)
    with pytest.warns(UserWarning):
        peer.fit(X, y, weight)
    assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-6)
    assert abs(model.slope_ - Calibrated(knn, cv=folds).fit(X, y).slope_) > 1e-3
    fitted = knn.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Calibrated(fitted, prefit=True).fit(X, y, weight)
        Voting([fitted], prefit=True).fit(X, y, weight)
    for model in (Voting([knn]), Stacking([knn]), Stacking(meta=knn)):
        for factors, passed in ((None, weight), ({"a": 2.0}, None)):
            with pytest.raises(ValueError, match="KNeighborsClassifier takes no sample_weight in"):
                model.set_params(class_weight=factors).fit(X, y, passed)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e150])
def test_outputs_that_are_no_numbers_are_refused(bad):
    X, y = table(2, n=20)
    fixed = Fixed([], ["a", "b"])
    fixed.decision_function = lambda X: np.where(np.arange(len(X)) == 3, bad, 1.0)
    for model in (Voting([fixed], how="average", prefit=True), Calibrated(fixed, prefit=True)):
        with pytest.raises(
            ValueError, match="Fixed gives outputs from .* scale X: they have to be"
        ):
            model.fit(X, y)
    fixed.predict_proba = lambda X: np.column_stack([1.0 - fixed.says, fixed.says])
    for model in (Voting([fixed], how="soft", prefit=True), Stacking([fixed], prefit=True)):
        for value in (bad, -0.1, 1.1):
            fixed.says = np.full(20, 0.5)
            fixed.says[3] = value
            with np.errstate(invalid="ignore"), pytest.raises(ValueError, match="gives probabilit"):
                model.fit(X, y)
        fixed.says[3] = 1.0 + 1e-9
        assert (model.fit(X, y).predict_proba(X) >= 0).all()


def test_outputs_of_the_wrong_shape_are_refused():
    X, y = table(2, n=20)
    for says in (np.full((20, 1), "a"), np.full(19, "a"), "a", np.zeros(20), np.full(20, "z")):
        with pytest.raises(ValueError, match="predicts labels that are not in y"):
            Voting([Fixed(says, ["a", "b"])], prefit=True).fit(X, y)
    with pytest.raises(ValueError, match="member Fixed has the classes a, z, y has a, b"):
        Voting([Fixed(np.full(20, "z"), ["a", "z"])], prefit=True).fit(X, y)
    X, y = table(3, n=20)
    wide, narrow = Fixed([], list("abc")), Fixed([], ["a", "c"])
    wide.predict_proba = lambda X: np.full((len(X), 2), 0.5)
    narrow.decision_function = lambda X: np.zeros(len(X))
    with pytest.raises(ValueError, match=r"gives probabilities of shape \(20, 2\), not one per"):
        Voting([wide], how="soft", prefit=True).fit(X, y)
    with pytest.raises(ValueError, match="member Fixed does not know all classes of y"):
        Voting([narrow], how="average", prefit=True).fit(X, y)


# -- extremes -------------------------------------------------------------------------------------
@pytest.mark.parametrize("model", [
    Voting(), Voting(how="soft", weights=[1e148, 2e148, 3e148]), Stacking(), Stacking(meta=PSVM()),
    Voting(how="average", weights=[1e-290, 2e-290, 4e-290]),
    Calibrated("bayes"), Calibrated(method="isotonic"),
])  # fmt: skip
def test_any_scale_of_data_and_weights(model):
    X, y = table(2)
    weight = np.random.default_rng(0).random(150)
    expected = model.fit(X, y).decision_function(X)
    for size in (1e149, 1e100, 1e-100, 1e-160, 1e-290):
        assert_allclose(model.fit(size * X, y).decision_function(size * X), expected, atol=1e-7)
        assert model.converged_
    for size in (1e150, 1e155, 1e300):
        with pytest.raises(ValueError, match="X is too large"):
            model.fit(size * X, y)
    if isinstance(model, Calibrated) or not isinstance(getattr(model, "meta", ""), str):
        return  # Platt's targets and the loss of PSVM depend on the sum of the weights
    expected = model.fit(X, y, weight).decision_function(X)
    for size in (1e147, 1e-290):
        found = model.fit(X, y, size * weight).decision_function(X)
        assert_allclose(found, expected, atol=1e-9)


# -- well behaved ---------------------------------------------------------------------------------
def test_members_are_copied_unless_they_are_fitted():
    clone = pytest.importorskip("sklearn.base").clone
    X, y = table(2)
    member, top = PSVM(), PSVM()
    for model in (Voting([member]), Calibrated(member), Stacking(["bayes"], meta=top)):
        model.fit(X, y)
    assert not hasattr(member, "coef_") and not hasattr(top, "coef_")
    fitted = PSVM().fit(X, y)
    assert clone(Voting([fitted], prefit=True)).members[0] is fitted
    assert clone(Calibrated(fitted, prefit=True)).base is fitted
    copies = clone(Voting([fitted]))
    assert copies.members[0] is not fitted and copies.members[0].lam == fitted.lam


def test_missing_values_are_the_business_of_the_members():
    """Trees take them, and the tag says so; a foreign member (None) refuses them itself."""
    trees = pytest.importorskip("sklearn.tree")
    boost = GradientBoostingRegressor(n_estimators=5)
    tree, line = trees.DecisionTreeClassifier(max_depth=3), members()[0]
    for model, takes in (
        (Voting([tree]), True), (Voting([("a", tree)]), True), (Voting([AdaBoost(), tree]), True),
        (Voting([tree, PSVM()]), False), (Voting([tree, "bayes"]), False), (Voting(), False),
        (Stacking([tree]), True), (Stacking([line]), None), (Calibrated(tree), True),
        (Calibrated(), False), (OneVsRest(Calibrated(AdaBoost())), True), (OneVsRest(), False),
        (OneVsRest(line), None), (ECOC(tree), True), (ECOC(PSVM()), False),
        (VotingRegressor([boost]), True), (StackingRegressor([boost, "linear"]), False),
    ):  # fmt: skip
        (X, y), least = (numbers(), 0.2) if isinstance(model, BOTH) else (table(2), 0.6)
        X[::7, 1] = np.nan
        assert model.__sklearn_tags__().input_tags.allow_nan == (takes is not False)
        if takes:
            assert model.fit(X, y).score(X, y) > least
        else:
            with pytest.raises(ValueError, match="NaN"):
                model.fit(X, y)

"""Tests for solvers/combine.py."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from solvers import combine
from solvers.combine import BUILT_IN, Calibrated, Stacking, Voting, _folds, _pool, _regress
from solvers.exrm import PSVM


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
    """A fitted classifier that says what it was told, whatever the rows are."""

    def __init__(self, says, classes):
        self.says, self.classes_ = np.array(says), np.array(classes)

    def fit(self, X, y):
        raise AssertionError("a fitted member was trained again")

    def predict(self, X):
        return self.says


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


def test_votes_of_many_classes():
    X, y = table(3)
    for how in ("plurality", "soft"):
        model = Voting(how=how).fit(X, y)
        votes = model.votes(X)
        assert votes.shape == (150, 3, 3)
        expected = sum(model.weights_[t] * votes[:, t] for t in range(3))
        assert_allclose(model.decision_function(X), expected, atol=1e-14)
        assert_allclose(votes.sum(axis=2), 1.0)


def test_trace_is_the_error_of_the_first_members():
    X, y = table(3)
    weight = np.random.default_rng(0).random(150)
    model = Voting().fit(X, y, weight)
    for t in range(3):
        names = ",".join(list(BUILT_IN)[: t + 1])
        part = Voting(names).fit(X, y, weight)
        assert model.trace_[t] == part.objective_
        assert model.trace_[t] == pytest.approx(1 - part.score(X, y, weight))


# -- built-in members -----------------------------------------------------------------------------
def test_bayes_matches_scikit_learn():
    bayes = pytest.importorskip("sklearn.naive_bayes")
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


# -- stacking -------------------------------------------------------------------------------------
def split(n, k=4):
    fold = np.random.default_rng(5).permutation(n) % k
    return [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(k)]


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


def test_more_members_never_raise_the_squared_error():
    X, y = table(4)
    model = Stacking("linear,bayes,centroid,linear").fit(X, y)
    assert (np.diff(model.trace_) <= 1e-12).all() and len(model.trace_) == 4
    assert_allclose(model.trace_[3], model.trace_[2])  # the fourth brings nothing new


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


def test_regression_on_nothing():
    x, objective, gap = _regress(np.zeros((5, 2)), np.array([0, 1, 0, 1, 1.0]), np.full(5, 0.2))
    assert not x.any() and objective == pytest.approx(0.6) and gap < 1e-15


def test_the_gap_of_a_regression_bounds_its_error(monkeypatch):
    rng = np.random.default_rng(0)
    A, b, w = rng.random((40, 6)), (rng.random(40) < 0.5).astype(float), np.full(40, 1 / 40)
    best = _regress(A, b, w)[1]
    monkeypatch.setattr(combine, "ROUNDS", 0)
    x, objective, gap = _regress(A, b, w)
    assert not x.any() and objective > best + 0.1 and gap >= objective - best


def test_fitted_members_are_left_alone():
    X, y = table(3)
    more, labels = table(3, seed=1)
    fitted = [BUILT_IN[name]().fit(X, y) for name in BUILT_IN]
    before = [member.state_.copy() for member in fitted]
    model = Stacking(fitted, prefit=True).fit(more, labels)
    P = [member.predict_proba(more) for member in fitted]
    for c in range(3):
        A, b = np.column_stack([p[:, c] for p in P]), 1.0 * (labels == "abc"[c])
        assert_allclose(model.coef_[:, c], _regress(A, b, np.full(150, 1 / 150))[0], atol=1e-12)
    vote = Voting(fitted, prefit=True).fit(more, labels)
    assert all(a is b for a, b in zip(vote.estimators_, fitted, strict=True))
    for member, state in zip(fitted, before, strict=True):
        assert_array_equal(member.state_, state)


def test_classes_that_a_member_does_not_know():
    """Four classes, one of them rare: a fold may lack it, and the member's columns then too."""
    X, y = table(3)
    y[:2] = "d"
    rows = np.arange(150)
    folds = [(rows[2:], rows[:2]), (rows[:2].repeat(9), rows[2:4]), (rows[:140], rows[4:])]
    model = Stacking("bayes", cv=folds).fit(X, y)
    assert model.predict_proba(X).shape == (150, 4)
    fixed = Fixed(np.full(150, "z"), ["a", "z"])
    with pytest.raises(ValueError, match="member Fixed knows the classes a, z, y has a, b, c, d"):
        Voting([fixed], prefit=True).fit(X, y)


def test_folds():
    codes, weight = np.repeat([0, 1, 2], [11, 7, 23]), np.ones(41)
    weight[[0, 20]] = 0.0
    pairs = _folds("Stacking", 4, codes, weight)
    tested = np.concatenate([test for _, test in pairs])
    assert_array_equal(np.sort(tested), np.flatnonzero(weight))
    for train, test in pairs:
        assert_array_equal(np.sort(np.concatenate([train, test])), np.flatnonzero(weight))
        counts = np.bincount(codes[test], minlength=3)
        assert (np.abs(counts - np.array([10, 7, 22]) / 4) < 1).all()
    assert len(_folds("Stacking", 10, np.array([0, 0, 1, 1]), np.ones(4))) == 4


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


def test_platt_matches_scikit_learn_on_many_rows():
    calibration = pytest.importorskip("sklearn.calibration")
    for seed in range(5):
        rng = np.random.default_rng(seed)
        f = rng.normal(size=20000)
        y = rng.random(20000) < 1 / (1 + np.exp(1 - seed * f))
        fixed = Fixed([], [False, True])
        fixed.decision_function = lambda X: X[:, 0]
        found = Calibrated(fixed, prefit=True).fit(f[:, None], y).predict_proba(f[:, None])[:, 1]
        peer = calibration._SigmoidCalibration().fit(f, y.astype(float))
        assert_allclose(found, peer.predict(f), atol=1e-6)


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
    with pytest.warns(combine.ConvergenceWarning, match=r"stopped after 1 iterations.*residual"):
        short = Calibrated(max_iter=1).fit(X, y)
    assert not short.converged_ and short.trace_[0] == short.objective_


@pytest.mark.bounds
@pytest.mark.parametrize("seed", range(8))
def test_pool_matches_naive(seed):
    rng = np.random.default_rng(seed)
    n = [1, 2, 3, 10, 30, 30, 30, 30][seed]
    y = np.sort(rng.random(n))[:: -1 if seed % 2 else 1] if seed < 6 else rng.random(n)
    y = np.round(y + 0.3 * rng.normal(size=n), 1)
    w = rng.random(n) + 0.1
    assert_allclose(_pool(y, w), naive_isotonic(y, w), atol=1e-12)


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


def test_a_constant_output_gives_the_share_of_the_classes():
    X, y = table(2)
    y[:60] = "a"
    fixed = Fixed([], ["a", "b"])
    fixed.decision_function = lambda X: np.full(len(X), 3.0)
    share = (y == "b").mean()
    for method in ("platt", "isotonic"):
        model = Calibrated(fixed, method=method, prefit=True).fit(X, y)
        assert_allclose(model.predict_proba(X)[:, 1], share, atol=0.01)
        assert model.converged_


def test_separated_outputs_stay_finite():
    X, y = np.linspace(-1, 1, 40)[:, None] ** 3 * 1e6, np.repeat(["a", "b"], 20)
    model = Calibrated(cv=2).fit(X, y)
    p = model.predict_proba(X)[:, 1]
    assert model.converged_ and np.isfinite(model.slope_) and model.score(X, y) == 1.0
    assert (np.diff(p) >= 0).all() and p[-1] > 0.9


def test_platt_is_certified_on_hard_outputs():
    """Far outliers, tiny and huge scales, uneven weights; the first saturates after a full step."""
    cases = [([17.0, 115.0], [True, False], [671.52146592, 12.95446561])]
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
        combine._platt(*problem, 1e-9, 100, lambda *state, seen=seen: seen.append(state))
        assert seen[-1][2] <= 1e-9 and len(seen) < 30


def test_our_solvers_get_probabilities():
    X, y = table(3)
    two = y != "c"
    soft = Voting([Calibrated(PSVM()), "bayes"], how="soft").fit(X[two], y[two])
    assert soft.predict_proba(X).shape == (150, 2)
    with pytest.raises(ValueError, match="member PSVM has no predict_proba; wrap it in Calibrated"):
        Voting([PSVM()], how="soft").fit(X[two], y[two])
    with pytest.raises(ValueError, match="member PSVM has no predict_proba"):
        Stacking([PSVM()]).fit(X[two], y[two])


# -- well behaved ---------------------------------------------------------------------------------
@pytest.mark.parametrize("model", [Voting(), Voting(how="soft", weights=[1, 2, 0]), Stacking()])
def test_save_and_load_many_classes(model, tmp_path):
    X, y = table(4)
    model.fit(X, y).save(tmp_path / "model.npz")
    again = type(model).load(tmp_path / "model.npz")
    assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert_array_equal(again.votes(X), model.votes(X))
    assert_array_equal(again.predict(X), model.predict(X))


def test_damaged_files_and_foreign_members(tmp_path):
    X, y = table(2)
    path = tmp_path / "model.npz"
    model = Stacking().fit(X, y)
    broken = copy.copy(model)
    for change in (
        {"coef_": model.coef_[:2]},
        {"weights_": model.weights_[:, None]},
        {"weights_": np.ones(9)},
        {"members": "linear,bayes,linear"},
        {"members": "linear,bayes"},
        {"members": "linear,bayes,svm"},
        {"estimators_": model.estimators_[:2]},
    ):
        vars(broken).update(vars(model) | change)
        broken.save(path)
        with pytest.raises(ValueError, match="its Stacking is damaged"):
            Stacking.load(path)
    vars(broken).update(vars(model) | {"estimators_": [copy.copy(m) for m in model.estimators_]})
    for t, name in enumerate(("_Linear", "_Bayes", "_Centroid")):
        vars(broken.estimators_[t]).update(state_=model.estimators_[t].state_[:, 1:])
        broken.save(path)
        with pytest.raises(ValueError, match=f"its {name} is damaged"):
            Stacking.load(path)
        broken.estimators_[t] = model.estimators_[t]
    path.unlink()
    tree = pytest.importorskip("sklearn.tree").DecisionTreeClassifier()
    for model in (Voting([tree, "bayes"]), Calibrated(tree), Stacking(meta=tree)):
        with pytest.raises(ValueError, match="our models only, no DecisionTreeClassifier"):
            model.fit(X, y).save(path)
    assert not path.exists()


def test_clone_keeps_fitted_members():
    clone = pytest.importorskip("sklearn.base").clone
    X, y = table(2)
    fitted = PSVM().fit(X, y)
    assert clone(Voting([fitted], prefit=True)).members[0] is fitted
    assert clone(Calibrated(fitted, prefit=True)).base is fitted
    copies = clone(Voting([fitted]))
    assert copies.members[0] is not fitted and copies.members[0].lam == fitted.lam


def test_members_are_copied():
    X, y = table(2)
    member, top = PSVM(), PSVM()
    for model in (Voting([member]), Calibrated(member), Stacking(["bayes"], meta=top)):
        model.fit(X, y)
    assert not hasattr(member, "coef_") and not hasattr(top, "coef_")
    assert Calibrated(member).get_params()["base__lam"] == 2.0


def test_weights_and_missing_values_reach_the_members():
    X, y = table(2)
    weight = np.random.default_rng(0).integers(0, 3, 150).astype(float)
    rows = np.repeat(np.arange(150), weight.astype(int))
    one = Voting([PSVM(tol=1e-10)], how="average").fit(X, y, weight).decision_function(X)
    two = Voting([PSVM(tol=1e-10)], how="average").fit(X[rows], y[rows]).decision_function(X)
    assert_allclose(one, two, atol=1e-4)
    trees = pytest.importorskip("sklearn.tree")
    X[::5, 1] = np.nan
    tree = trees.DecisionTreeClassifier(max_depth=3)
    for model in (Voting([tree]), Stacking([tree]), Calibrated(tree)):
        assert model.fit(X, y).score(X, y) > 0.6
    for model in (Voting(), Voting([tree, "bayes"]), Calibrated()):
        with pytest.raises(ValueError, match="NaN or infinity"):
            model.fit(X, y)


def test_refitting_forgets_the_last_fit():
    X, y = table(2)
    model = Calibrated().fit(X, y).set_params(method="isotonic").fit(X, y)
    assert not hasattr(model, "slope_") and hasattr(model, "values_")
    stack = Stacking(meta=PSVM()).fit(X, y).set_params(meta="linear").fit(X, y)
    assert not hasattr(stack, "meta_") and stack.coef_.shape == (3, 2)


def test_callback_stops_and_verbose_prints(capsys):
    X, y = table(3)
    for cls in (Voting, Stacking):
        model = cls(callback=lambda m, i, info: i == 2, verbose=1).fit(X, y)
        assert model.n_iter_ == len(model.estimators_) == len(model.weights_) == 2
        assert_array_equal(model.predict(X), cls("linear,bayes").fit(X, y).predict(X))
        assert len(capsys.readouterr().out.splitlines()) == 2


def test_errors():
    X, y = table(3)
    for model, text in (
        (Voting([]), "members must be a list of classifiers"),
        (Voting("linear,svm"), "members must be a list of classifiers"),
        (Voting([("a", PSVM())]), "members must be a list of classifiers"),
        (Voting(how="hard"), "how must be one of 'plurality', 'majority', 'soft', 'average'"),
        (Voting(weights=[1, 2]), "3 members need as many weights"),
        (Voting(weights=[1, -2, 1]), "weights must be None or finite numbers >= 0"),
        (Voting(weights=[0, 0, 0]), "weights must be None or finite numbers >= 0"),
        (Voting(weights=[1, np.nan, 1]), "weights must be None or finite numbers >= 0"),
        (Voting(how="majority"), "needs reject, a label for rows without a majority"),
        (Voting(how="majority", reject="a"), "a text and no class of y, got 'a'"),
        (Voting(how="majority", reject=-1), "a text and no class of y, got -1"),
        (Voting(prefit=True), "prefit=True needs fitted objects, not names"),
        (Stacking(meta="logistic"), "meta must be 'linear' or an object"),
        (Stacking(cv=1), "cv must be an integer >= 2"),
        (Stacking(cv=[(np.arange(9), np.arange(9, 150))]), "each of the 150 rows once"),
        (Calibrated("svm"), "base must be an object with fit and predict, or one of linear"),
        (Calibrated(method="sigmoid"), "method must be one of 'platt', 'isotonic'"),
        (Calibrated(), "Only binary classification"),
    ):
        with pytest.raises(ValueError, match=text):
            model.fit(X, y)
    y[0] = "d"
    with pytest.raises(ValueError, match="at least 2 rows of each class"):
        Stacking().fit(X, y)
    svm = pytest.importorskip("sklearn.svm").SVC(decision_function_shape="ovo")
    with pytest.raises(ValueError, match=r"outputs of shape \(150, 6\), not one a class"):
        Voting([svm], how="average").fit(X, y)

"""Tests for solvers/multiclass.py."""

import copy
import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from solvers import multiclass
from solvers.exrm import PSVM
from solvers.multiclass import (
    ECOC,
    OneVsRest,
    decode,
    exhaustive_code,
    min_distance,
    one_vs_one_code,
    random_code,
)


def table(K=4, n=160, d=5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % K
    return 1.5 * rng.normal(size=(K, d))[y] + rng.normal(size=(n, d)), np.array(list("abcdefgh"))[y]


def naive_decode(outputs, code, how):
    """Loss of every word, entry by entry; the closest word has the largest value."""
    found = np.zeros((len(outputs), len(code)))
    for i, k in itertools.product(range(len(outputs)), range(len(code))):
        losses = []
        for f, c in zip(outputs[i], code[k], strict=True):
            if c != 0:
                sign = 1 if f >= 0 else -1
                losses.append(max(0.0, 1.0 - c * f) if how == "hinge" else float(sign != c))
        found[i, k] = -np.mean(losses)
    return found


class Recorder:
    """Remembers the labels by the number of the row in column 0, and lies where it is told."""

    lies = {}  # number of the copy -> rows

    def __init__(self):
        self.made = []

    def __deepcopy__(self, memo):
        member = Recorder()
        member.number = len(self.made)
        self.made.append(member)
        return member

    def fit(self, X, y):
        self.known = dict(zip(X[:, 0].astype(int).tolist(), y.tolist(), strict=True))
        return self

    def predict(self, X):
        rows = X[:, 0].astype(int)
        told = np.array([self.known.get(row, 0) for row in rows])
        return np.where(np.isin(rows, self.lies.get(self.number, [])), 1 - told, told)


# -- codes ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("K", [2, 3, 4, 5, 7])
def test_exhaustive_code_has_all_splits_once(K):
    code = exhaustive_code(K)
    assert code.shape == (K, 2 ** (K - 1) - 1)
    splits = {frozenset([tuple(c), tuple(-c)]) for c in code.T}
    assert len(splits) == code.shape[1] and all(set(c) == {-1, 1} for c in code.T.tolist())
    if K > 2:
        assert min_distance(code) == 2 ** (K - 2)


def test_one_vs_one_code_has_all_pairs():
    code = one_vs_one_code(5)
    pairs = {(int(np.argmin(c)), int(np.argmax(c))) for c in code.T}
    assert pairs == set(itertools.combinations(range(5), 2)) and (np.abs(code).sum(0) == 2).all()


@pytest.mark.parametrize("K, L", [(5, 10), (8, 30), (12, 36), (26, 48)])
def test_random_code(K, L):
    code = random_code(K, L, np.random.default_rng(0))
    assert code.shape == (K, L) and set(np.unique(code)) == {-1, 1}
    assert len({frozenset([tuple(c), tuple(-c)]) for c in code.T}) == L
    assert all(set(c) == {-1, 1} for c in code.T.tolist())
    distances = [np.sum(a != b) for a, b in itertools.combinations(code, 2)]
    assert min_distance(code) == min(distances)
    single = np.random.default_rng(1).choice([-1, 1], (200, K, L))
    assert min_distance(code) >= np.quantile([min_distance(c) for c in single], 0.95)
    assert_array_equal(code, random_code(K, L, np.random.default_rng(0)))


def test_columns_of_a_long_random_code_are_distinct(monkeypatch):
    monkeypatch.setattr(multiclass, "DRAWS", 1)
    code = random_code(12, 1500, np.random.default_rng(0))
    assert code.shape == (12, 1500)
    assert len({frozenset([tuple(c), tuple(-c)]) for c in code.T}) == 1500


def test_a_small_random_code_is_exhaustive():
    assert_array_equal(random_code(4, 20, np.random.default_rng(0)), exhaustive_code(4))


@pytest.mark.parametrize("how", ["hinge", "hamming"])
def test_decode_matches_naive(how):
    rng = np.random.default_rng(0)
    for code in (exhaustive_code(4), one_vs_one_code(4), rng.choice([-1, 0, 1], (5, 9))):
        outputs = 2 * rng.normal(size=(40, code.shape[1]))
        found, expected = decode(outputs, code, how), naive_decode(outputs, code, how)
        assert_array_equal(found.argmax(1), expected.argmax(1))
        shift = expected - (found if how == "hinge" else found / 2)
        assert_allclose(shift, shift[0, 0], atol=1e-12)  # the same up to a constant


# -- correct --------------------------------------------------------------------------------------
@pytest.mark.parametrize("decoding", ["hinge", "hamming"])
def test_a_planted_code_corrects_errors(decoding):
    """Words that differ in 8 of 15 columns: any 3 wrong classifiers a row are corrected."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 60)
    X = np.column_stack([np.arange(60.0), rng.normal(size=60)])
    wrong = np.array([rng.permutation(15) < 3 for _ in range(60)])
    base = Recorder()
    model = ECOC(base, code="exhaustive", decoding=decoding)
    Recorder.lies = {c: np.flatnonzero(wrong[:, c]) for c in range(15)}
    try:
        model.fit(X, y)
        assert len(base.made) == 15 and min_distance(model.code_) == 8
        flipped = np.where(model.votes(X) >= 0, 1, -1) != model.code_[y]
        assert_array_equal(flipped, wrong)
        assert_array_equal(model.predict(X), y)
        Recorder.lies = {c: np.arange(60) for c in range(8)}
        assert (model.predict(X) != y).mean() > 0.5  # more errors than the code can bear
    finally:
        Recorder.lies = {}


@pytest.mark.parametrize("K", [2, 4])
def test_one_vs_rest_matches_scikit_learn(K):
    pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import LinearSVC

    X, y = table(K)
    for base in (LogisticRegression(), LinearSVC(random_state=0)):
        ours, theirs = OneVsRest(base).fit(X, y), OneVsRestClassifier(base).fit(X, y)
        assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-12)
        assert_array_equal(ours.predict(X), theirs.predict(X))
        assert hasattr(ours, "predict_proba") == hasattr(theirs, "predict_proba")
    ours, theirs = (
        c(LogisticRegression()).fit(X, y).predict_proba(X) for c in (OneVsRest, OneVsRestClassifier)
    )
    assert_allclose(ours, theirs, atol=1e-12)


def test_one_vs_one_matches_scikit_learn():
    pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsOneClassifier

    X, y = table(4, seed=3)
    model = ECOC(LogisticRegression(), code="one-vs-one", decoding="hamming").fit(X, y)
    theirs = OneVsOneClassifier(LogisticRegression()).fit(X, y)
    decision = np.sort(model.decision_function(X), axis=1)
    clear = decision[:, -1] - decision[:, -2] > 1e-9  # they break ties by the size of the outputs
    assert clear.mean() > 0.9
    assert_array_equal(model.predict(X)[clear], theirs.predict(X)[clear])


@pytest.mark.parametrize("code", ["exhaustive", "one-vs-one"])
def test_built_in_base_is_ridge_regression(code):
    """By rows that stand for the penalty, in NumPy's least squares; zeros leave rows out."""
    X, y = table(3)
    weight = np.random.default_rng(1).random(len(y)) + 0.1
    model = ECOC(code=code, l2=0.3).fit(X, y, weight)
    for k in range(3):
        target = model.code_[np.searchsorted(model.classes_, y), k].astype(float)
        rows = target != 0
        w = weight[rows] / weight[rows].sum()
        mean = np.average(X[rows], axis=0, weights=w)
        spread = np.sqrt(np.average((X[rows] - mean) ** 2, axis=0, weights=w))
        Z = np.column_stack([(X[rows] - mean) / spread, np.ones(rows.sum())])
        penalty = np.sqrt(0.3) * np.eye(6)[:5]
        A = np.vstack([np.sqrt(w)[:, None] * Z, penalty])
        b = np.concatenate([np.sqrt(w) * target[rows], np.zeros(5)])
        expected = Z @ np.linalg.lstsq(A, b, rcond=None)[0]
        assert_allclose(model.votes(X)[rows, k], expected, atol=1e-10)
    assert model.converged_ and 0 <= model.residual_ < 1e-14


def test_certificate_is_that_of_the_worst_member():
    X, y = table(3)
    model = OneVsRest(PSVM(lam=0.5)).fit(X, y)
    assert model.objective_ == pytest.approx(sum(m.objective_ for m in model.estimators_))
    assert model.residual_ == max(m.residual_ for m in model.estimators_) > 0
    assert OneVsRest(PSVM(tol=0.1)).fit(X, y).converged_  # as exact as asked for
    with pytest.warns(UserWarning, match="max_iter"):
        assert not OneVsRest(PSVM(max_iter=1)).fit(X, y).converged_
    assert model.converged_ and len(model.trace_) == 3 and model.score(X, y) > 0.8
    assert_allclose(model.votes(X)[:, 1], PSVM(lam=0.5).fit(X, y == "b").decision_function(X))


def test_two_classes_are_one_classifier():
    X, y = table(2)
    base = PSVM(lam=0.5)
    alone = copy.deepcopy(base).fit(X, y)
    for model in (OneVsRest(base), ECOC(base), ECOC(base, code="one-vs-one")):
        model.fit(X, y)
        assert len(model.estimators_) == 1
        assert_array_equal(model.decision_function(X), alone.decision_function(X))
        assert_array_equal(model.predict(X), alone.predict(X))
    turned = ECOC(base, code=[[1, -1], [-1, 1]]).fit(X, y)  # one column is the other's complement
    assert_allclose(turned.decision_function(X), alone.decision_function(X), atol=1e-4)


def test_weights_and_missing_values_reach_the_base():
    X, y = table(3)
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    for make in (OneVsRest, lambda base: ECOC(base, code="one-vs-one")):
        weighted = make(PSVM(tol=1e-10)).fit(X, y, weight).decision_function(X)
        rows = np.repeat(np.arange(len(y)), weight.astype(int))
        repeated = make(PSVM(tol=1e-10)).fit(X[rows], y[rows]).decision_function(X)
        assert_allclose(weighted, repeated, atol=1e-4)
    ensemble = pytest.importorskip("sklearn.ensemble")
    X[::7, 2] = np.nan
    tree = ensemble.HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=2)
    assert OneVsRest(tree).fit(X, y).score(X, y) > 0.8
    with pytest.raises(ValueError, match="NaN or infinity"):
        OneVsRest().fit(X, y)
    with pytest.raises(ValueError, match="OneVsRest: X contains NaN"):
        OneVsRest(PSVM()).fit(X, y)


# -- well behaved ---------------------------------------------------------------------------------
def test_parameters_of_the_base():
    selection = pytest.importorskip("sklearn.model_selection")
    X, y = table(3)
    model = OneVsRest(PSVM())
    assert model.get_params()["base__lam"] == 2.0
    assert model.set_params(base__lam=0.1).base.lam == 0.1
    assert repr(model) == "OneVsRest(base=PSVM(lam=0.1))"
    grid = selection.GridSearchCV(model, {"base__lam": [0.01, 1.0]}, cv=2).fit(X, y)
    assert grid.best_score_ > 0.7 and not hasattr(model.base, "coef_")
    with pytest.raises(ValueError, match="OneVsRest has no parameter 'base__lam'; it has base, l2"):
        OneVsRest().set_params(base__lam=1.0)


@pytest.mark.parametrize("model", [OneVsRest(), ECOC(random_state=0), ECOC(code=np.eye(4) * 2 - 1)])
def test_save_and_load_many_classes(model, tmp_path):
    X, y = table(4)
    model.fit(X, y)
    model.save(tmp_path / "model.npz")
    again = type(model).load(tmp_path / "model.npz")
    assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert_array_equal(again.predict(X), model.predict(X))


def test_damaged_files_and_foreign_bases(tmp_path):
    X, y = table(3)
    path = tmp_path / "model.npz"
    model = OneVsRest().fit(X, y)
    for name in ("coef_", "intercept_", "code_", "weights_"):
        broken = copy.copy(model)
        setattr(broken, name, getattr(model, name)[..., :-1])
        broken.save(path)
        with pytest.raises(ValueError, match="its OneVsRest is damaged"):
            OneVsRest.load(path)
        delattr(broken, name)
        broken.save(path)
        with pytest.raises(ValueError, match="its OneVsRest is damaged"):
            OneVsRest.load(path)
    path.unlink()
    tree = pytest.importorskip("sklearn.tree").DecisionTreeClassifier()
    with pytest.raises(ValueError, match="our models only, no DecisionTreeClassifier"):
        OneVsRest(tree).fit(X, y).save(path)
    assert not path.exists()


def test_callback_stops():
    X, y = table(4)
    seen = []

    def stop(model, iteration, info):
        seen.append((iteration, info["objective"]))
        return iteration == 2

    for base in ("linear", PSVM()):
        seen.clear()
        model = ECOC(base, code="exhaustive", callback=stop).fit(X, y)
        assert [i for i, _ in seen] == [1, 2] and model.code_.shape == (4, 2)
        assert not model.converged_ and model.votes(X).shape == (160, 2)
        assert [value for _, value in seen] == list(model.trace_)
    rest = OneVsRest(callback=stop).fit(X, y)
    assert set(rest.predict(X)) == {"a", "b"}


def test_verbose_prints_a_line_a_column(capsys):
    X, y = table(3)
    OneVsRest(verbose=1).fit(X, y)
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_errors():
    X, y = table(4)
    for params, text in (
        ({"base": "svm"}, "base must be 'linear' or an object"),
        ({"code": "dense"}, "code must be 'random', 'exhaustive'"),
        ({"code": [1, -1]}, "code must be 'random', 'exhaustive'"),
        ({"code": np.ones((3, 2))}, "code has 3 rows, but y has 4 classes"),
        ({"code": 2 * np.ones((4, 2))}, "-1, 0 and 1 only"),
        ({"code": np.ones((4, 2))}, "needs a class with 1 and one with -1"),
        ({"code": [[1], [1], [-1], [-1]]}, "two classes have the same row"),
        ({"n_columns": 0}, "n_columns must be None or an integer >= 1, got 0"),
        ({"decoding": "soft"}, "decoding must be one of 'hinge', 'hamming'"),
        ({"l2": 0}, "l2 must be a finite number > 0, got 0"),
    ):
        with pytest.raises(ValueError, match=text):
            ECOC(**params).fit(X, y)
    X, y = np.random.default_rng(0).normal(size=(48, 2)), np.arange(48) % 12
    with pytest.raises(ValueError, match="12 classes has 2047 columns; use code='random'"):
        ECOC(code="exhaustive").fit(X, y)
    with pytest.raises(AttributeError, match="Calibrated gives it"):
        OneVsRest().fit(X, y).predict_proba(X)  # noqa: B018


def test_constant_columns_and_more_features_than_rows():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(12), rng.normal(size=(12, 30))])
    y = np.arange(12) % 3
    for model in (OneVsRest(), ECOC(code="one-vs-one")):
        assert model.fit(X, y).score(X, y) == 1.0 and model.converged_

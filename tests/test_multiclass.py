"""Tests for solvers/multiclass.py."""

import copy
import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from solvers import multiclass
from solvers.combine import Calibrated
from solvers.drm import NuSVM
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

pytestmark = pytest.mark.uncompiled  # The solver has no kernels.


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
    """Predicts the label of the row numbered in column 0; the wrong one on rows in `lies`."""

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


class Told:
    """Classifier with given outputs for any rows; fit returns nothing and takes no weights."""

    def __init__(self, says, how="decision_function"):
        setattr(self, how, lambda X: says)

    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]


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
    monkeypatch.setattr(multiclass, "CANDIDATES", 1)
    code = random_code(12, 1500, np.random.default_rng(0))
    assert code.shape == (12, 1500)
    assert len({frozenset([tuple(c), tuple(-c)]) for c in code.T}) == 1500
    assert_array_equal(random_code(4, 20, np.random.default_rng(0)), exhaustive_code(4))


@pytest.mark.parametrize("how", ["hinge", "hamming"])
def test_decode_matches_naive(how):
    rng = np.random.default_rng(0)
    for code in (exhaustive_code(4), one_vs_one_code(4), rng.choice([-1, 0, 1], (5, 9))):
        outputs = 2 * rng.normal(size=(40, code.shape[1]))
        outputs[0], outputs[1, ::2], outputs[2, ::2] = 0.0, 0.0, -0.0  # zeros count as positive
        found, expected = decode(outputs, code, how), naive_decode(outputs, code, how)
        assert_array_equal(found.argmax(1), expected.argmax(1))
        shift = expected - (found if how == "hinge" else found / 2)
        assert_allclose(shift, shift[0, 0], atol=1e-12)  # the same up to a constant


@pytest.mark.parametrize("how", ["hinge", "hamming"])
def test_words_of_zeros_are_last(how):
    code = np.array([[1, 1], [-1, 1], [0, 0], [0, -1]], dtype=np.int8)
    found = decode(np.array([[0.0, 0.0], [-5.0, -5.0]]), code, how)
    assert_array_equal(found[:, 2], -np.inf)
    assert np.isfinite(found[:, [0, 1, 3]]).all() and found[0].argmax() == 0


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
        if isinstance(base, LogisticRegression):
            assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-12)


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


@pytest.mark.parametrize("factor", [0.0, 0.5, 0.99, 1.01, 2.0])
def test_the_gap_of_least_squares_bounds_its_error(factor, monkeypatch):
    X, y = table(3)
    problem = X, np.where(y[:, None] == list("abc"), 1.0, -1.0), np.arange(1.0, 161.0), 0.3
    best, tight = multiclass._least_squares(*problem)[2:]
    solve = np.linalg.solve
    monkeypatch.setattr(np.linalg, "solve", lambda H, goal: factor * solve(H, goal))
    objective, gap = multiclass._least_squares(*problem)[2:]
    assert (tight < 1e-14).all() and (objective > best).all()
    assert (gap >= objective - best).all() and (gap > tight).all()


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


def test_weights_reach_the_base():
    X, y = table(3)
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    balanced = weight.sum() / 3 / (weight @ (y[:, None] == list("abc")))
    for make in (OneVsRest, lambda base: ECOC(base, code="one-vs-one")):
        weighted = make(PSVM(tol=1e-10)).fit(X, y, weight).decision_function(X)
        for given, factors in (({"b": 3.0}, [1.0, 3.0, 1.0]), ("balanced", balanced)):
            model = make(PSVM()).set_params(class_weight=given).fit(X, y, weight)
            product = weight * np.array(factors)[np.searchsorted(list("abc"), y)]
            plain = make(PSVM()).fit(X, y, product).decision_function(X)
            assert_allclose(model.decision_function(X), plain, atol=1e-9)
        rows = np.repeat(np.arange(len(y)), weight.astype(int))
        repeated = make(PSVM(tol=1e-10)).fit(X[rows], y[rows]).decision_function(X)
        assert_allclose(weighted, repeated, atol=1e-4)


# -- zeros, extremes ------------------------------------------------------------------------------
@pytest.mark.parametrize("decoding", ["hinge", "hamming"])
def test_decisions_of_exactly_zero_are_positive(decoding):
    X, y, f = np.zeros((4, 1)), list("abab"), np.array([0.0, -0.0, 1e-300, -1e-300])
    for model in (OneVsRest(Told(f)), ECOC(Told(f), decoding=decoding)):
        assert model.fit(X, y).predict(X).tolist() == list("bbba")
        assert_array_equal(model.votes(X)[:, 0] >= 0, [True, True, True, False])
    halves = np.tile([0.5, 0.5], (4, 1))
    model = OneVsRest(Told(halves, "predict_proba")).fit(X, y)
    assert model.predict(X).tolist() == list("bbbb") and not model.decision_function(X).any()
    three = ECOC(Told(f), code="exhaustive", decoding="hamming").fit(X, list("abca"))
    expected = naive_decode(np.tile(f[:, None], 3), three.code_, "hamming")
    assert_array_equal(three.predict(X), np.array(list("abc"))[expected.argmax(axis=1)])


@pytest.mark.parametrize("model", [OneVsRest(), ECOC(code="one-vs-one"), OneVsRest(Calibrated())])
@pytest.mark.parametrize("K", [2, 4])
def test_any_scale_of_data_and_weights(model, K):
    X, y = table(K)
    weight = np.random.default_rng(0).random(160)
    expected, weighted = (model.fit(X, y, w).decision_function(X) for w in (None, weight))
    sizes = [np.array([1e149, 1e-170, 1.0, 1e-290, 1e30])]
    for size in [1e149, 1e100, 1e-100, 1e-290, *sizes]:
        assert_allclose(model.fit(size * X, y).decision_function(size * X), expected, atol=1e-8)
        assert model.converged_
    with pytest.raises(ValueError, match="X is too large"):
        model.fit(1e150 * X, y)
    if isinstance(model.base, str):  # Platt's targets depend on the sum of the weights
        for size in (1e147, 1e-290):
            found = model.fit(X, y, size * weight).decision_function(X)
            assert_allclose(found, weighted, atol=1e-10)
        with pytest.raises(ValueError, match="outputs from .* scale X"):
            model.fit(1e-200 * X, y).predict(1e149 * X)


def test_constant_columns_count_for_nothing_and_columns_may_outnumber_rows():
    """0.1 is no mean of itself in floating point."""
    wide, few = np.random.default_rng(0).normal(size=(12, 30)), np.arange(12) % 3
    for model in (OneVsRest(), ECOC(code="one-vs-one")):
        assert model.fit(wide, few).score(wide, few) == 1.0 and model.converged_
    X, y = table(3)
    X = np.column_stack([X, np.full(160, 0.1), np.full(160, 1e30)])
    model = OneVsRest().fit(X, y)
    assert_array_equal(model.coef_[:, 5:], 0.0)
    assert_allclose(
        model.decision_function(X), OneVsRest().fit(X[:, :5], y).decision_function(X[:, :5])
    )


def test_a_penalty_that_is_lost_ends_in_a_warning():
    """Equal columns leave a matrix that is singular to the last digit."""
    X, y = np.repeat([[0.0, 0.0], [1.0, 1.0]], 6, axis=0), np.arange(12) % 3
    text = "OneVsRest ended with residual .* raise l2 or tol"
    with pytest.warns(multiclass.ConvergenceWarning, match=text):
        model = OneVsRest(l2=1e-300).fit(X, y)
    assert not model.converged_ and model.residual_ > model.tol
    assert_allclose(model.votes(X), -1 / 3, atol=1e-12)  # the classes are mixed evenly
    X, y = table(3, n=30)
    with pytest.warns(multiclass.ConvergenceWarning):
        model = OneVsRest(l2=1e-300).fit(np.column_stack([X, X]), y)
    assert_allclose(model.votes(np.column_stack([X, X])), OneVsRest(l2=1e-12).fit(X, y).votes(X))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e150])
def test_outputs_that_are_no_numbers_are_refused(bad):
    X, y = table(3, n=9)
    says = np.where(np.arange(9) == 3, bad, 1.0)
    with pytest.raises(ValueError, match="OneVsRest: outputs from .* scale X: they have to be"):
        OneVsRest(Told(says)).fit(X, y).predict(X)
    with pytest.raises(ValueError, match=r"OneVsRest: Told gives outputs of shape \(9, 2\), not"):
        OneVsRest(Told(np.zeros((9, 2)))).fit(X, y).predict(X)
    with pytest.raises(ValueError, match="Told takes no sample_weight in fit"):
        OneVsRest(Told(np.ones(9)), class_weight="balanced").fit(X, y)


# -- classes, callbacks, members ------------------------------------------------------------------
def test_callback_sees_the_classifiers_so_far():
    X, y = table(4)
    for base in ("linear", PSVM()):
        for make in (OneVsRest, lambda base, **more: ECOC(base, code="one-vs-one", **more)):
            seen = []

            def watch(model, iteration, info, seen=seen):
                assert not model.converged_ and len(model.weights_) == iteration
                seen.append((model.votes(X), model.predict(X), info["objective"]))

            model = make(base).fit(X[:, :2], y)  # an earlier fit is not seen
            model.set_params(callback=watch).fit(X, y)
            whole = model.votes(X)
            assert len(seen) == whole.shape[1] == model.n_iter_ and model.converged_
            for t, (votes, labels, objective) in enumerate(seen, 1):
                assert_allclose(votes, whole[:, :t], atol=1e-12)
                assert objective == model.trace_[t - 1]
                if isinstance(model, OneVsRest):
                    assert_array_equal(labels, model.classes_[votes.argmax(axis=1)])
                else:  # classes without a column so far are never predicted
                    known = np.flatnonzero(model.code_[:, :t].any(axis=1))
                    expected = naive_decode(votes, model.code_[known, :t], "hinge")
                    assert_array_equal(labels, model.classes_[known[expected.argmax(axis=1)]])
            model.set_params(callback=lambda model, iteration, info: iteration == 2).fit(X, y)
            assert not model.converged_ and model.votes(X).shape == (160, 2)
            assert isinstance(model, OneVsRest) or model.code_.shape == (4, 2)


def test_a_regressor_may_be_the_base():
    linear = pytest.importorskip("sklearn.linear_model")
    X, y = table(3)
    model = OneVsRest(linear.Ridge()).fit(X, y)
    expected = [2 * linear.Ridge().fit(X, 1.0 * (y == c)).predict(X) - 1 for c in "abc"]
    assert_allclose(model.decision_function(X), np.transpose(expected), atol=1e-12)


def test_probabilities():
    X, y = table(3)
    model = OneVsRest(Calibrated(PSVM())).fit(X, y)
    each = [Calibrated(PSVM()).fit(X, y == c).predict_proba(X)[:, 1] for c in "abc"]
    assert_allclose(model.predict_proba(X), np.transpose(each) / sum(each)[:, None], atol=1e-12)
    two = OneVsRest(Calibrated()).fit(X, y == "a")
    assert_allclose(two.predict_proba(X), Calibrated().fit(X, y == "a").predict_proba(X))
    nothing = OneVsRest(Told(np.tile([1.0, 0.0], (160, 1)), "predict_proba")).fit(X, y)
    assert_allclose(nothing.predict_proba(X), 1 / 3)
    for without in (OneVsRest(PSVM()), OneVsRest()):
        assert not hasattr(without, "predict_proba")
    late = OneVsRest(PSVM()).fit(X, y)
    for member in late.estimators_:  # Members may have probabilities after fit only.
        member.predict_proba = lambda X: np.tile([0.5, 0.5], (len(X), 1))
    assert hasattr(late, "predict_proba")


def test_seeds_of_all_kinds():
    X, y = table(6, n=60)

    def code(seed):
        return ECOC(n_columns=8, random_state=seed).fit(X, y).code_

    for seed in (3, np.int64(3)):
        assert_array_equal(code(seed), random_code(6, 8, np.random.default_rng(3)))
    for kind in (np.random.RandomState, np.random.default_rng):
        generator = kind(0)
        assert_array_equal(first := code(generator), code(kind(0)))
        assert (code(generator) != first).any()
    assert ECOC().fit(X, y).code_.shape == (6, 26)  # 10 log2 6, rounded up


# -- well behaved ---------------------------------------------------------------------------------
def test_parameters_of_the_base():
    model = OneVsRest(PSVM())
    assert model.get_params()["base__lam"] == 2.0
    assert model.set_params(base__lam=0.1).base.lam == 0.1
    assert repr(model) == "OneVsRest(base=PSVM(lam=0.1))"
    assert model.fit(*table(3)).score(*table(3)) > 0.7 and not hasattr(model.base, "coef_")
    with pytest.raises(ValueError, match="OneVsRest: no parameter 'base__lam'; see get_params"):
        OneVsRest().set_params(base__lam=1.0)


@pytest.mark.parametrize(("name", "call"), [
    ("multiclass", "OneVsRest().fit(file.np.eye(6), [0, 1, 2] * 2).converged_"),
    ("combine", "Voting().fit(file.np.eye(6), [0, 1, 2] * 2).converged_"),
    ("diversity", "disagreement([[1, -1]])[0, 1] == 1"),
])  # fmt: skip
def test_files_without_kernels_need_no_compiler(name, call, tmp_path):
    """Neither alone, also as a program, nor in the package do they load more than NumPy."""
    root = Path(__file__).parents[1]
    (tmp_path / f"{name}.py").write_bytes((root / "solvers" / f"{name}.py").read_bytes())
    for folder, module in ((tmp_path, name), (root, f"solvers.{name}")):
        text = (
            f"import sys; sys.path.insert(0, {str(folder)!r}); import {module} as file\n"
            f"assert file.{call}\n"
            "assert not {'numba', 'scipy', 'sklearn', 'matplotlib'} & set(sys.modules)"
        )
        subprocess.run([sys.executable, "-I", "-c", text], check=True)
    subprocess.run([sys.executable, "-I", str(tmp_path / f"{name}.py")], check=True)


def test_a_kernel_matrix_is_cut_both_ways():
    """scikit-learn takes rows and columns of a matrix that base has asked for."""
    pytest.importorskip("sklearn")
    from sklearn.model_selection import cross_val_score

    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 4)) + 2.0 * np.eye(4)[y]
    given = OneVsRest(NuSVM(kernel="precomputed"))
    found = cross_val_score(given, X @ X.T, y, cv=3)
    assert_allclose(found, cross_val_score(OneVsRest(NuSVM(kernel="linear")), X, y, cv=3))
    assert not OneVsRest(NuSVM()).__sklearn_tags__().input_tags.pairwise

"""Tests for solvers/exrm.py."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize

import datasets
from solvers import exrm
from solvers.exrm import PSVM, ConvergenceWarning, ExRM
from tests.conftest import blobs, naive_bootstrap, naive_counts
from tests.hard_exrm import check, clarabel, exact_objective, make, problems

pytestmark = pytest.mark.bounds
TIGHT = 1e-10


def and_uncompiled(values, small):
    """Parameters of a test, of which the small ones run with NUMBA_DISABLE_JIT=1 too."""
    return [pytest.param(v, marks=pytest.mark.uncompiled) if v in small else v for v in values]


# -- slow and obvious references ------------------------------------------------------------------
def naive_objective(X, y, counts, lam, p, beta, W, b):
    """The problem as in the paper, equation (5), with example weights; W is (d, T)."""
    total = 0.0
    for j in range(X.shape[1]):
        total += 0.5 * (sum(abs(w) for w in W[j]) + beta) ** 2
    for t in range(W.shape[1]):
        for i in range(X.shape[0]):
            total += lam * counts[t, i] * max(0.0, 1 - y[i] * (X[i] @ W[:, t] + b[t])) ** p
    return total


def naive_feature_prox(v, mu, beta):
    """argmin 1/2 (sum|w| + beta)^2 + mu/2 |w - v|^2 by sorting."""
    order = np.sort(np.abs(v))[::-1]
    k = np.arange(1, v.size + 1)
    s = (mu * np.cumsum(order) - k * beta) / (mu + k)
    good = order > (s + beta) / mu
    s = s[good][-1] if good.any() else 0.0
    return np.sign(v) * np.maximum(np.abs(v) - (s + beta) / mu, 0)


def naive_algorithm_2(X, y, T, lam, p, rho=1.1, stop=0.05, limit=1000):
    """Algorithm 2 line by line in the paper's orientation; returns W, b, objective, iterations."""
    n, d = X.shape
    Y = np.repeat(y[:, None], T, axis=1)
    W, b, P, Q = np.ones((d, T)), np.zeros(T), np.zeros((d, T)), np.ones((d, T))
    E, Z, mu, last = np.zeros((n, T)), np.zeros((n, T)), 1.0, np.inf
    K = np.linalg.inv(np.eye(d) + X.T @ X)
    for iteration in range(1, limit + 1):  # noqa: B007
        for j in range(d):
            W[j] = naive_feature_prox(P[j] + Q[j] / mu, mu, 0.0)
        b = (Y - E - X @ P - Z / mu).mean(axis=0)
        S = Y - X @ P - b - Z / mu
        shrunk = S / (1 + 2 * lam / mu) if p == 2 else np.sign(S) * np.maximum(abs(S) - lam / mu, 0)
        E = np.where(Y * S > 0, shrunk, S)
        P = K @ (W - Q / mu + X.T @ (Y - b - Z / mu - E))
        Z = Z + mu * (E - Y + X @ P + b)
        Q = Q + mu * (P - W)
        mu *= rho
        objective = naive_objective(X, y, np.ones((T, n)), lam, p, 0.0, W, b)
        if abs(objective - last) < stop:
            break
        last = objective
    return W, b, objective, iteration


def random_problem(seed):
    """N 20-200, M 1-40, T 1-8; collinear, constant, separable, weighted, bootstrap by turns."""
    rng = np.random.default_rng(seed)
    n, d, T = int(rng.integers(20, 201)), int(rng.integers(1, 41)), int(rng.integers(1, 9))
    X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-1, 1, size=d)
    if seed % 5 == 0 and d > 2:
        X[:, 1] = 2 * X[:, 0]
    if seed % 5 == 1:
        X[:, -1] = 3.0
    truth = (X / X.std(axis=0).clip(1e-9)) @ rng.normal(size=d)
    noise = 0.0 if seed % 5 == 2 else np.std(truth) + 0.5
    y = np.where(truth + noise * rng.normal(size=n) > np.median(truth), 1, -1)
    y[:2] = 1, -1
    weight = None
    if seed % 3 == 0:
        weight = rng.uniform(0, 3, size=n) * (rng.random(n) > 0.1)
        weight[:2] = 1.0
    params = {
        "n_estimators": T,
        "p": [1, 1.5, 2, 3][seed % 4],
        "lam": float(10 ** rng.uniform(-2, 1)),
        "beta": [0.0, 0.5][seed // 4 % 2],
        "sampling": [None, "bootstrap"][seed // 8 % 2],
        "random_state": seed,
    }
    return X, y, weight, naive_counts(weight, n, T, params["sampling"], seed), params


def wdbc_150():
    """150 rows of wdbc, standardised, benign = +1: the setting of the figures in the README."""
    data = datasets.load("wdbc", positive="B")
    rows = np.random.default_rng(0).permutation(569)[:150]
    X = data.X[rows]
    return (X - X.mean(axis=0)) / X.std(axis=0), np.where(data.y[rows] == 1, 1, -1)


# -- correct: against something that shares no code -----------------------------------------------
SMALL = (2, 3, 5, 18, 23, 28, 30, 34, 49, 54)  # seeds of small problems


@pytest.mark.parametrize(
    "seed", and_uncompiled([*SMALL, 0, 7, 14, 21, 35, 42, 56, 63, 70, 77, 232], SMALL)
)
def test_matches_clarabel(seed):
    X, y, weight, counts, params = random_problem(seed)
    model = ExRM(**params).fit(X, y, weight)
    problem = X, y, counts, params["lam"], params["p"], params["beta"]
    mine = naive_objective(*problem, model.coef_.T, model.intercept_)
    W, b = clarabel(X, y, counts, model.set_params(sampling="bootstrap"))  # The coupled problem.
    reference = naive_objective(*problem, W.T, b)
    assert_allclose(model.objective_, mine, rtol=1e-9)
    assert mine <= reference * (1 + 1e-6)
    assert model.converged_ and model.residual_ <= model.tol
    true_gap = mine - min(mine, reference)
    assert model.residual_ * model.objective_ >= true_gap - 1e-9 * reference


@pytest.mark.parametrize("seed", and_uncompiled([1, 2, 6, 9, 10, 14, 25, 30], (2, 30)))
def test_splitting_reaches_the_same_optimum(seed):
    X, y, weight, _, params = random_problem(seed)
    X = X / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    newton = ExRM(**params, tol=TIGHT).fit(X, y, weight)
    split = ExRM(**params, solver="alm", max_iter=20000).fit(X, y, weight)
    assert split.converged_
    assert_allclose(split.objective_, newton.objective_, rtol=2e-6)
    assert newton.objective_ <= split.objective_ + 1e-9 * newton.objective_


def test_matches_linear_svc():
    """LIBLINEAR penalises its bias: a huge intercept_scaling makes that vanish."""
    svm = pytest.importorskip("sklearn.svm")
    X, y = blobs(300, 4)
    peer = svm.LinearSVC(dual=False, C=0.5, tol=1e-10, intercept_scaling=1e4, max_iter=10000)
    peer.fit(X, y)
    model = PSVM(lam=0.5, tol=TIGHT).fit(X, y)
    assert_allclose(model.coef_, peer.coef_, atol=1e-5)
    assert_allclose(model.intercept_, peer.intercept_, atol=1e-5)


def test_rbf_matches_svc():
    """No more rows than landmarks: the exact kernel machine, here the hinge SVM of LIBSVM."""
    svm = pytest.importorskip("sklearn.svm")
    X, y = blobs(150, 3)
    peer = svm.SVC(C=2.0, gamma=0.3, tol=1e-8).fit(X, y)
    model = PSVM(p=1, lam=2.0, kernel="rbf", gamma=0.3, tol=TIGHT).fit(X, y)
    assert_allclose(model.decision_function(X), peer.decision_function(X), atol=1e-4)
    few = PSVM(kernel="rbf", gamma=0.3, n_landmarks=20, random_state=0).fit(X, y)
    assert few.coef_.shape[1] <= 20 and few.score(X, y) > 0.75


def dual_of(X, y, cost, p, beta, alpha):
    """The dual value by the formula, at a feasible alpha (T, n)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        power = (p - 1) * cost * (alpha / (p * cost)) ** (p / (p - 1)) if p > 1 else 0.0 * alpha
    conj = np.where(cost > 0, power, 0.0)
    m = np.abs((alpha * y) @ X).max(axis=0)
    return (alpha - conj).sum() - np.where(m > beta, m**2 / 2 - beta * m, -(beta**2) / 2).sum()


@pytest.mark.uncompiled
def test_certificate_is_the_dual_value():
    """The gap recomputed from the formulas of the dual, at the multipliers of the answer."""
    X, y = blobs(120, 6)
    lam, beta = 0.3, 0.4
    model = ExRM(n_estimators=3, lam=lam, beta=beta, sampling="bootstrap", random_state=4)
    model.fit(X, y)
    counts = naive_bootstrap(np.ones(120), 3, 4)
    slack = np.maximum(1 - y * (model.coef_ @ X.T + model.intercept_[:, None]), 0)
    alpha = 2 * lam * counts * slack
    assert_allclose(alpha @ y, 0, atol=1e-7 * alpha.sum())  # the bias is exact
    gap = 1.0 - dual_of(X, y, lam * counts, 2, beta, alpha) / model.objective_
    assert_allclose(model.residual_, gap, atol=1e-8)
    assert np.ptp(model.coef_, axis=0).max() > 0.01  # members with samples of their own differ


@pytest.mark.parametrize("levels", and_uncompiled([2, 3], (2,)))
@pytest.mark.parametrize("p", [1, 2])
def test_nested_samples_reach_the_optimum(p, levels, monkeypatch):
    """Compared with the direct solution by fewer, weighted rows."""
    monkeypatch.setattr(exrm, "HESSIAN_ROWS", 300)  # samples of more rows pass on their Hessian
    rng = np.random.default_rng(0)
    X, y = blobs(400, 3, distance=1.5)
    repeat = rng.integers(1, 2 * exrm.SUBSAMPLE_RATIO ** (levels - 1), size=400)
    order = rng.permutation(repeat.sum())
    rows = set()
    many = PSVM(p=p, tol=TIGHT, callback=lambda m, i, info: rows.add(info.get("rows")))
    many.fit(np.repeat(X, repeat, axis=0)[order], np.repeat(y, repeat)[order])
    few = PSVM(p=p, tol=TIGHT).fit(X, y, repeat)
    assert len(rows) == levels
    assert_allclose(many.objective_, few.objective_, rtol=1e-9)
    assert_allclose(many.coef_, few.coef_, atol=1e-4)


@pytest.mark.parametrize("name", [*problems()[::8], "weights/14", "weights/17"])
def test_hard_problems(name):
    """Every eighth of the grid that `python -m tests.hard_exrm` runs in full, and the two that
    Newton's second tries rescue."""
    record = check(name)
    assert record.honest and record.converged, record


@pytest.mark.uncompiled
@pytest.mark.parametrize("name", ["powers/0", "powers/7", "powers/21", "weights/14", "lam/3"])
@pytest.mark.parametrize("T", [1, 2])
def test_interior_point_method_needs_no_other(name, T):
    """One machine without beta needs no parts of the weights; the others do."""
    X, y, weight, params = make(name)
    beta = params["beta"] if T > 1 else 0.0
    counts = naive_bootstrap(np.ones(len(y)) if weight is None else weight, T, 0)
    problem = exrm._Problem(X, y.astype(float), params["lam"] * counts, params["p"], beta)
    W, b, dual = exrm._solve_interior(problem, 1e-6, lambda *_: False)
    objective = exrm._objective(problem, W, b)
    assert 0 < objective - dual <= 1.01e-6 * objective


# -- certificates ---------------------------------------------------------------------------------
@pytest.mark.parametrize(("scale", "lam"), [(1e4, 1e4), (1e6, 1.0), (1e-6, 1e6)])
@pytest.mark.parametrize("p", [1, 2])
def test_objective_is_that_of_the_coefficients(scale, lam, p):
    """Margins that are only ever updated drift away on such scales."""
    X, y = blobs(120, 8)
    model = PSVM(p=p, lam=lam, tol=1e-9).fit(X * scale, y)
    true = exact_objective(X * scale, y, np.ones(120), model, model.coef_, model.intercept_)
    assert_allclose(model.objective_, float(true), rtol=1e-9)
    assert model.converged_


@pytest.mark.uncompiled
def test_compensated_outputs_have_all_digits():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 7)) + 1e9
    w = rng.normal(size=7)
    b = -float(X.mean(0) @ w)
    out = np.empty(50)
    exrm._compensated_outputs(X, w, b, out)
    exact = [
        float(sum((Fraction(x) * Fraction(v) for x, v in zip(row, w, strict=True)), Fraction(b)))
        for row in X
    ]
    assert_array_equal(out, exact)
    assert np.abs(X @ w + b - exact).max() > 1e-8  # plain sums do not


@pytest.mark.uncompiled
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
def test_losses_are_those_of_the_formula(p):
    rng = np.random.default_rng(1)
    f, y, cost = 2 * rng.normal(size=40), np.where(rng.random(40) < 0.5, 1.0, -1.0), rng.random(40)
    slack = np.maximum(1 - y * f, 0)
    slope = p * cost * np.where(slack > 0, slack, 1.0) ** (p - 1) * (slack > 0)
    problem = exrm._Problem(np.empty((40, 1)), y, np.array([cost, 2 * cost]), p, 0.0)
    loss, ya = exrm._losses(problem, np.array([f, f]))
    assert_allclose(loss, 3 * (cost * slack**p).sum(), rtol=1e-12)
    assert_allclose(ya, [y * slope, 2 * y * slope], rtol=1e-12)


@pytest.mark.uncompiled
def test_certificate_counts_lost_digits():
    X, y = blobs(60, 3)
    problem = exrm._Problem(X, y.astype(float), np.ones((1, 60)), 2.0, 0.0)
    W, b = np.full((1, 3), 0.3), np.array([0.1])
    value = naive_objective(X, y, np.ones((1, 60)), 1.0, 2, 0.0, W.T, b)
    for dual in (0.9 * value, 1.1 * value):  # a dual value above it is an error of that size
        objective, residual = exrm._certificate(problem, W, b, dual, 1e-6)
        assert_allclose([objective, residual], [value, 0.1], rtol=1e-9)
    assert exrm._certificate(problem, W, b, value, 1e-6)[1] >= exrm.EPS
    # an offset of 1e9 leaves no more than seven digits of the outputs
    far, shifted = problem._replace(X=X + 1e9), b - W.sum() * 1e9
    objective, residual = exrm._certificate(far, W, shifted, value, 1e-6)
    true = float(exact_objective(far.X, y, np.ones(60), PSVM(lam=1.0), W, shifted))
    assert_allclose(objective, true, rtol=1e-11)
    assert residual >= 0.999 * abs(true - value) / true  # long double has no more digits here


@pytest.mark.uncompiled
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_dual_value_scales_the_heavier_class_down(p, beta):
    rng = np.random.default_rng(3)
    X, y = blobs(30, 4)
    y = y.astype(float)
    cost = rng.random((2, 30)) + 0.1
    alpha = cost * rng.random((2, 30)) * np.where(y > 0, 0.9, 0.4)
    plus, minus = (alpha * (y > 0)).sum(1), (alpha * (y < 0)).sum(1)
    assert (plus > minus).all()
    ya = y * alpha
    value = exrm._dual_value(exrm._Problem(X, y, cost, p, beta), ya)
    feasible = alpha * np.where(y > 0, (minus / plus)[:, None], 1.0)
    assert_allclose(ya, y * feasible, rtol=1e-12)
    assert (np.abs(ya) <= cost).all()  # the box of p = 1 still holds
    assert_allclose(value, dual_of(X, y, cost, p, beta, feasible), rtol=1e-10)


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
@pytest.mark.parametrize("sampling", [None, "bootstrap"])
@pytest.mark.parametrize("solver", ["auto", "alm"])
@pytest.mark.parametrize("lam", [0.01, 0.3])
def test_every_certificate_on_the_way_holds(p, sampling, solver, lam, monkeypatch):
    """At each iteration objective (1 - residual) is a lower bound of the optimum."""
    monkeypatch.setattr(exrm, "CHECK_EVERY", 1)
    X, y = blobs(80, 4, seed=7)
    params = {"n_estimators": 3, "p": p, "lam": lam, "sampling": sampling, "random_state": 1}
    optimum = ExRM(**params, tol=1e-10).fit(X, y).objective_
    seen = []

    def look(model, iteration, info):
        seen.append((info["objective"], info["residual"]))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ExRM(**params, solver=solver, max_iter=100, callback=look).fit(X, y)
    assert len(seen) >= 2
    for objective, residual in seen:
        assert objective >= optimum * (1 - 1e-9)
        assert objective * (1 - residual) <= optimum * (1 + 1e-9)


# -- scale, offset, shape -------------------------------------------------------------------------
@pytest.mark.uncompiled
def test_offset_changes_nothing_but_the_bias():
    X, y = blobs(150, 4)
    base = PSVM().fit(X, y)
    far = PSVM().fit(X + 3e7, y)
    assert far.converged_
    assert_allclose(far.coef_, base.coef_, atol=1e-4)
    for solver in ("auto", "alm"):
        model = ExRM(n_estimators=3, solver=solver, sampling="bootstrap", random_state=0)
        assert model.fit(X + 1e6, y).converged_


@pytest.mark.parametrize("shape", [(40, 500, 4), (30, 35, 5), (100, 120, 10), (12, 900, 2)])
@pytest.mark.parametrize("p", [1, 2])
def test_more_columns_than_rows_take_few_iterations(shape, p):
    n, d, T = shape
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(n, d)), np.arange(n) % 2
    model = ExRM(n_estimators=T, p=p, sampling="bootstrap", random_state=0).fit(X, y)
    assert model.converged_ and model.n_iter_ <= 40
    assert (model.coef_ == 0).mean() > 0.2  # exclusivity still gives exact zeros


def test_unscaled_data_end_soon():
    rng = np.random.default_rng(8)
    X, y = 1e20 * rng.normal(size=(40, 70)), np.arange(40) % 2
    model = ExRM(sampling="bootstrap", random_state=0).fit(X, y)
    assert model.converged_ and model.n_iter_ < 100


@pytest.mark.parametrize("params", [{}, {"p": 1}, {"sampling": "bootstrap"}, {"beta": 1.0}])
@pytest.mark.parametrize("n", and_uncompiled([20, 330], (20,)))
def test_singular_to_the_last_digit(n, params, monkeypatch):
    """Equal columns of 1e20 and more; and LAPACK that finds every matrix singular."""
    rng = np.random.default_rng(3)
    copies = {20: 6, 330: 100}[n]
    X, y = np.repeat(1e20 * rng.normal(size=(n, 3)), copies, axis=1), np.arange(n) % 2

    def singular(*_):
        raise np.linalg.LinAlgError("singular")

    for broken in (False, True):
        if broken:
            monkeypatch.setattr(np.linalg, "inv", singular)
            monkeypatch.setattr(exrm, "_solve_ridge", singular)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = ExRM(n_estimators=2, random_state=0, max_iter=60, **params).fit(X, y)
        assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()
        assert model.converged_ == (model.residual_ <= model.tol)


def test_max_iter_and_callback_cover_the_samples():
    """Enough rows for nested samples: their iterations count, and a callback sees them."""
    X, y = blobs(30_000, 3, distance=0.5)
    seen, first = [], []

    def look(model, iteration, info):
        seen.append((iteration, info.get("rows")))
        first.append(info["objective"])

    model = PSVM(callback=look).fit(X, y)
    assert_allclose(first[0], 2.0 * 30_000, rtol=0.05)  # a sample stands for all rows
    assert [i for i, _ in seen] == list(range(1, model.n_iter_ + 1))
    rows = [r for _, r in seen if r is not None]
    assert rows and max(rows) < 30_000 and rows == sorted(rows)
    assert len(model.trace_) == sum(r is None for _, r in seen)
    for most in (1, 2, 3):
        with pytest.warns(ConvergenceWarning, match=f"max_iter={most}"):
            assert PSVM(max_iter=most).fit(X, y).n_iter_ <= most
    with pytest.warns(ConvergenceWarning):
        stopped = PSVM(callback=lambda m, i, info: True).fit(X, y)
    assert stopped.n_iter_ == 2  # one on the first sample, and a certificate on all rows


# -- the stages, each on its own ------------------------------------------------------------------
@pytest.mark.uncompiled
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
def test_best_bias_is_a_minimum(p):
    rng = np.random.default_rng(2)
    xw, y, cost = 3 * rng.normal(size=41), np.where(rng.random(41) < 0.3, 1.0, -1.0), rng.random(41)
    ratio, width, other = np.zeros(41), 1e-3 if p < 2 else 0.0, None if p in (1, 2) else True
    bias, _ = exrm._best_bias(xw, 0.0, y, cost, ratio, p, width, np.empty(41), other)

    def loss(b):
        return (cost * np.maximum(1 - y * (xw + b), 0) ** p).sum()

    found = optimize.minimize_scalar(
        loss, bounds=(-8, 8), method="bounded", options={"xatol": 1e-9}
    )
    assert_allclose(loss(bias), found.fun, rtol=1e-3 if p < 2 else 1e-9)


@pytest.mark.uncompiled
@pytest.mark.parametrize(
    ("p", "width"), [(1.0, 0.3), (1.5, 0.2), (1.5, 0.0), (2.0, 0.0), (3.0, 0.0)]
)
def test_curvatures_are_second_derivatives(p, width):
    """... of the loss, or of its envelope of width width, by differences of the first."""
    rng = np.random.default_rng(13)
    y, cost = np.where(rng.random(30) < 0.5, 1.0, -1.0), rng.random(30) + 0.1
    ratio, xw, curvature = np.zeros(30), 2 * rng.normal(size=30), np.empty(30)
    terms = exrm._loss_terms if p in (1, 2) else exrm._power_terms
    low, here, high = np.empty(30), np.empty(30), np.empty(30)
    for shift, ya in ((-1e-6, low), (0.0, here), (1e-6, high)):
        terms(xw + shift, 0.0, y, cost, ratio, p, width, ya)
    exrm._curvatures(here[None], cost[None], p, width, curvature[None])
    assert (curvature > 0).any() and (curvature == 0).any()
    assert_allclose(curvature, (low - high) / 2e-6, rtol=1e-4, atol=1e-7)


@pytest.mark.uncompiled
@pytest.mark.parametrize("d", [3, 40])
def test_hessian_is_the_weighted_scatter(d):
    """More rows than one chunk, some of them without curvature."""
    rng = np.random.default_rng(5)
    n = exrm.HESSIAN_ROWS + 100
    X = rng.normal(size=(n, d)) + 5
    curvature = rng.random((2, n)) * (rng.random((2, n)) < 0.7)
    H, centre = exrm._hessian(X, curvature, np.full((2, d), 4.0))
    for t in range(2):
        mean = curvature[t] @ X / curvature[t].sum()
        off = X - mean
        assert_allclose(centre[t], mean, rtol=1e-10)
        assert_allclose(H[t], (off * curvature[t][:, None]).T @ off, rtol=1e-9, atol=1e-9 * n)


@pytest.mark.uncompiled
def test_conjugate_gradients_solve_newtons_equations():
    rng = np.random.default_rng(6)
    X, curvature, right = rng.normal(size=(200, 60)), rng.random(200), rng.normal(size=60)
    curvature[:50] = 0.0
    mean = curvature @ X / curvature.sum()
    H = np.eye(60) + ((X - mean) * curvature[:, None]).T @ (X - mean)
    step, work = np.empty(60), np.empty((3, 60))
    assert exrm._conjugate_gradients(X, curvature, mean, right, 60, work, step)
    rest = np.linalg.norm(H @ step - right) / np.linalg.norm(right)
    assert rest <= exrm.CG_TOL
    assert not exrm._conjugate_gradients(X, curvature, mean, right, 1, work, step)


@pytest.mark.uncompiled
def test_steps_by_gradients_reach_the_same_optimum(monkeypatch):
    X, y = blobs(400, 60, distance=0.4)
    quick = PSVM(tol=TIGHT).fit(X, y)
    monkeypatch.setattr(exrm, "CG_FRACTION", 10_000)
    assert_allclose(PSVM(tol=TIGHT).fit(X, y).coef_, quick.coef_, atol=1e-6)


@pytest.mark.uncompiled
def test_line_search_finds_the_flat_point():
    rng = np.random.default_rng(8)
    X, y = blobs(50, 3)
    y = y.astype(float)
    W, dW = np.zeros((1, 3)), np.full((1, 3), 20.0)
    XW, XdW, b, db = W @ X.T, dW @ X.T, np.zeros(1), rng.normal(size=1)
    cost = np.ones((1, 50))

    def value(s):
        return naive_objective(X, y, cost, 1.0, 2, 0.0, (W + s * dW).T, b + s * db)

    def slope(s):
        return (value(s + 1e-6) - value(s - 1e-6)) / 2e-6

    state = (W, XW, b), (dW, XdW, db), y, cost, np.zeros((1, 50)), (2.0, 0.0, 0.0)
    step = exrm._line_search(*state, (slope(0.0), slope(1.0)), np.empty((1, 50)), None)
    assert slope(0.0) < 0 < slope(1.0)
    assert abs(slope(step)) <= 1.01 * exrm.FLAT_SLOPE * abs(slope(0.0))


@pytest.mark.uncompiled
def test_model_minimum_has_no_lower_point_nearby():
    rng = np.random.default_rng(9)
    T, d, beta = 3, 6, 0.2
    A = rng.normal(size=(T, 9, d))
    H = np.matmul(A.transpose(0, 2, 1), A)
    W, G = rng.normal(size=(T, d)), 3 * rng.normal(size=(T, d))

    def value(V):
        off = V - W
        quadratic = 0.5 * np.einsum("ti,tij,tj", off, H, off)
        return 0.5 * ((abs(V).sum(0) + beta) ** 2).sum() - (G * off).sum() + quadratic

    V = exrm._model_minimum(W, G, H, beta, 1e-10, 1e-10)
    for scale in np.repeat([1e-5, 1e-4, 1e-3, 0.1], 100):  # the model is convex
        assert value(V) <= value(V + scale * rng.normal(size=V.shape)) + 1e-12


@pytest.mark.uncompiled
def test_model_minimum_of_a_constant_column():
    """It has no curvature, and a slope that is rounding only: its weight stays about 0."""
    rng = np.random.default_rng(9)
    A = rng.normal(size=(2, 9, 4))
    A[:, :, 2] = 0.0
    H, G = np.matmul(A.transpose(0, 2, 1), A), rng.normal(size=(2, 4))
    G[:, 2] = 1e-15, -3e-16
    V = exrm._model_minimum(np.zeros((2, 4)), G, H, 0.0, 1e-10, 1e-10)
    assert np.isfinite(V).all() and np.abs(V[:, 2]).max() < 1e-4


@pytest.mark.uncompiled
def test_reduced_systems_agree_and_solve_the_equations():
    """The steps of the parts satisfy the linearised equations, and both eliminations agree."""
    rng = np.random.default_rng(10)
    T, d, n = 3, 40, 6
    roots = [np.sqrt(rng.random(n) + 0.1) for _ in range(T)]
    A = []
    for root in roots:
        X = rng.normal(size=(n, d))
        A.append(root[:, None] * (X - (root**2) @ X / (root**2).sum()))
    H = np.array([a.T @ a for a in A])
    barrier, off = 10 ** rng.uniform(-3, 3, size=(2, T, d)), rng.normal(size=(2, T, d))
    for solve in (exrm._reduced(H, barrier), exrm._reduced_wide(A, roots, barrier)):
        step, parts = solve(off)
        assert_allclose(parts[0] - parts[1], step, rtol=1e-6, atol=1e-9)
        dG = -np.einsum("tij,tj->ti", H, step)
        ds = parts.sum((0, 1))
        # s + ds - sign (G + dG) - (Q + dQ) = 0 with dQ = -barrier dP, whose constant part is off
        left = ds - exrm.PART_SIGN * dG + barrier * parts
        assert_allclose(left, -off, rtol=1e-5, atol=1e-6)


@pytest.mark.uncompiled
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 4.0])
def test_rows_move_along_newtons_direction(p):
    """A tiny step changes the complementarity and the other equations as linearised."""
    rng = np.random.default_rng(11)
    T, n, mu = 2, 12, 0.3
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    cost, f, df = rng.random((T, n)) + 1, rng.normal(size=(T, n)), rng.normal(size=(T, n))
    alpha = cost * rng.uniform(0.2, 0.8, size=(T, n))
    r, e = rng.random((T, n)) + 0.1, rng.random((T, n)) + 0.1
    state, step = np.array([alpha, r, e]), np.zeros((3, T, n))
    rows = exrm._RowVariables(y, cost, p, state, step, np.empty((T, n)), np.empty((T, n)))

    def equations(state, f):
        alpha, r, e = state
        link = e * (cost - alpha) - mu if p == 1 else np.log(alpha / (p * cost * e ** (p - 1)))
        return np.array([e - r - (1 - y * f), alpha * r - mu, link])

    exrm._row_system(*rows, f, mu, 0.0)
    worst = exrm._row_steps(*rows, df, mu, 0.0)
    h = 1e-6
    change = (equations(state + h * step, f + h * df) - equations(state - h * step, f - h * df)) / h
    assert_allclose(change / 2, -equations(state, f), rtol=1e-5, atol=1e-6)
    assert_allclose(step[0], y * (rows.rhs - rows.curvature * df), rtol=1e-9)
    shrink = (-step / state).max()
    shrink = max(shrink, (step[0] / (cost - alpha)).max()) if p == 1 else shrink
    assert_allclose(worst, max(shrink, 0.0), rtol=1e-12)
    if p == 1:  # margins that fall push alpha up to its bound, and nothing else binds before
        roomy = np.array([0.9 * cost, r, e])
        tight = rows._replace(state=roomy)
        exrm._row_system(*tight, f, mu, 0.0)
        worst = exrm._row_steps(*tight, -1e5 * np.repeat(y[None], T, axis=0), mu, 0.0)
        bound = (step[0] / (0.1 * cost)).max()
        assert bound > (-step / roomy).max()
        assert_allclose(worst, bound, rtol=1e-12)
    point = exrm._Interior.__new__(exrm._Interior)
    point.rows = rows
    point.P, point.Q, point.dP, point.dQ = rng.random((4, 2, T, 5))
    alpha, r, e = state + 0.1 * step
    total = alpha * r + ((cost - alpha) * e if p == 1 else 0.0)
    bounds = (point.P + 0.1 * point.dP) * (point.Q + 0.1 * point.dQ)
    assert_allclose(point.complementarity(0.1), total.sum() + bounds.sum())


@pytest.mark.uncompiled
@pytest.mark.parametrize("shape", [(30, 4), (8, 20)])
def test_least_squares_start(shape):
    rng = np.random.default_rng(12)
    X, y = rng.normal(size=shape) + 2, np.where(np.arange(shape[0]) % 2, 1.0, -1.0)
    cost = rng.random((2, shape[0])) + 0.1
    W, b = exrm._least_squares(exrm._Problem(X, y, cost, 2.0, 0.0))
    for t in range(2):

        def slope(w, bias, t=t):
            rest = cost[t] * (y - X @ w - bias)
            return np.append(w - rest @ X, rest.sum())

        assert_allclose(slope(W[t], b[t]), 0.0, atol=1e-6)


# -- what the paper says, and what holds ----------------------------------------------------------
@pytest.mark.parametrize(
    ("T", "optimum", "printed"), [(1, 3.757, 14.93), (5, 57.771, 88.04), (10, 165.681, 200.22)]
)
def test_fact_1_growing_penalty_misses_the_optimum(T, optimum, printed):
    X, y = wdbc_150()
    assert_allclose(ExRM(n_estimators=T).fit(X, y).objective_, optimum, atol=1e-3)
    split = ExRM(n_estimators=T, solver="alm", max_iter=20000).fit(X, y)
    assert_allclose(split.objective_, optimum, atol=1e-3)
    paper = ExRM(n_estimators=T, solver="paper").fit(X, y)
    assert_allclose(paper.objective_, printed, atol=0.01)
    assert not paper.converged_ and paper.residual_ > 0.1


def test_fact_1_tighter_stopping_and_the_hinge_do_not_help(monkeypatch):
    X, y = wdbc_150()
    assert_allclose(PSVM(p=1).fit(X, y).objective_, 4.751, atol=1e-3)
    for p in (1, 2):  # fact 2: Algorithm 2 keeps members equal to the last bit
        paper = ExRM(n_estimators=10, p=p, solver="paper").fit(X, y)
        assert_array_equal(paper.coef_, np.repeat(paper.coef_[:1], 10, axis=0))
    assert_allclose(PSVM(p=1, solver="paper").fit(X, y).objective_, 19.97, atol=0.01)
    monkeypatch.setattr(exrm, "PAPER_STOP", 1e-9)
    ends = [ExRM(n_estimators=T, solver="paper").fit(X, y).objective_ for T in (1, 5, 10)]
    assert_allclose(ends, [14.46, 87.56, 199.74], atol=0.01)


@pytest.mark.uncompiled
@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_fact_2_equal_samples_give_one_machine(p, beta):
    X, y = blobs(60, 4)
    T, lam = 4, 1.3
    one = PSVM(p=p, lam=lam / T, beta=beta / T, tol=1e-11).fit(X, y)
    many = ExRM(n_estimators=T, p=p, lam=lam, beta=beta, tol=1e-11).fit(X, y)
    assert_allclose(many.ensemble_coef_, one.coef_[0], atol=1e-9)
    assert_allclose(many.objective_, T * T * one.objective_, rtol=1e-9)
    assert np.ptp(many.coef_, axis=0).max() == 0
    # and the general solvers, without the reduction, agree
    cost = lam * np.ones((T, 60))
    problem = exrm._Problem(X, y.astype(float), cost, float(p), beta)
    for solve in (exrm._solve_newton, exrm._solve_interior):
        W, b, _ = solve(problem, 1e-9, lambda *_, **__: False)
        assert_allclose(exrm._objective(problem, W, b), many.objective_, rtol=1e-7)
    assert_allclose(W.mean(axis=0), many.ensemble_coef_, atol=1e-3)


@pytest.mark.uncompiled
@pytest.mark.parametrize(
    ("T", "p", "shape"), [(1, 2, (50, 4)), (3, 2, (50, 4)), (4, 1, (50, 4)), (2, 2, (12, 40))]
)
def test_paper_mode_is_algorithm_2(T, p, shape):
    X, y = blobs(*shape)
    W, b, objective, iterations = naive_algorithm_2(X, y, T, 2.0, p)
    model = ExRM(n_estimators=T, p=p, solver="paper").fit(X, y)
    assert model.n_iter_ == iterations
    assert_allclose(model.objective_, objective, rtol=1e-10)
    assert_allclose(model.coef_.T, W, rtol=1e-8, atol=1e-10)
    assert_allclose(model.intercept_, b, rtol=1e-8)


def test_reweighting_equals_the_exact_weight_step():
    """... up to the zeros, which re-weighting only approaches."""
    data = datasets.load("sonar")
    params = {"n_estimators": 4, "sampling": "bootstrap", "random_state": 0, "solver": "paper"}
    exact = ExRM(**params).fit(data.X, data.y)
    slow = ExRM(**params, prox="reweighted").fit(data.X, data.y)
    assert_allclose(slow.objective_, exact.objective_, rtol=1e-4)
    assert (exact.coef_ == 0).mean() > 0.2 and not (slow.coef_ == 0).any()


def naive_algorithm_1(v, mu, w, steps=1_000_000):
    """The paper's re-weighting of one row, equations (10)-(11), until it settles."""
    for _ in range(steps):
        new = mu * v / (np.abs(w).sum() / (np.abs(w) + 1e-10) + mu)
        if np.abs(new - w).sum() <= 1e-12 * np.abs(new).sum():
            return new
        w = new
    return w


@pytest.mark.uncompiled
def test_reweighting_runs_until_it_settles():
    """A row whose zeros are reached slowly: 50 steps would leave it far from the answer."""
    v, mu = np.array([1.0, 0.52, -0.5, 0.49]), 1.0
    P, Q, W = v[:, None], np.zeros((4, 1)), np.ones((4, 1))
    exrm._split_weights(P, Q, mu, 0.0, W, True)
    assert_allclose(W[:, 0], naive_algorithm_1(v, mu, np.ones(4)), atol=1e-8)
    assert_allclose(W[:, 0], naive_feature_prox(v, mu, 0.0), atol=1e-4)


@pytest.mark.uncompiled
def test_paper_mode_says_how_far_it_is():
    X, y = blobs(60, 3)
    with pytest.warns(ConvergenceWarning, match="ends short of the optimum: use solver='auto'"):
        PSVM(solver="paper").fit(X, y)
    with pytest.raises(ValueError, match="overflow after .* iterations .*rho=1e\\+300"):
        PSVM(solver="paper", rho=1e300).fit(X, y)


def test_rbf_takes_rows_of_weight_zero_as_removed():
    X, y = blobs(120, 3)
    X, y = np.vstack([X, 100 + X[:30]]), np.concatenate([y, y[:30]])
    weight = np.where(np.arange(150) < 120, 1.0, 0.0)
    for landmarks in (256, 40):
        params = {"kernel": "rbf", "n_landmarks": landmarks, "random_state": 0, "tol": TIGHT}
        zero = PSVM(**params).fit(X, y, weight)
        gone = PSVM(**params).fit(X[:120], y[:120])
        assert zero.gamma_ == gone.gamma_
        assert_array_equal(zero.landmarks_, gone.landmarks_)
        assert_allclose(zero.decision_function(X), gone.decision_function(X), atol=1e-5)


def test_gamma_scale_and_landmarks():
    X, y = blobs(100, 4)
    model = PSVM(kernel="rbf", n_landmarks=90, random_state=3).fit(3 * X, y)
    assert_allclose(model.gamma_, 1 / (4 * (3 * X).var()))
    assert len(np.unique(model.landmarks_, axis=0)) == 90  # drawn without replacement
    distance = ((3 * X[:, None] - model.landmarks_) ** 2).sum(2)
    outputs = np.exp(-model.gamma_ * distance) @ model.map_ @ model.coef_.T + model.intercept_
    assert_allclose(model.votes(3 * X), outputs, rtol=1e-8, atol=1e-8)
    assert_allclose(model.decision_function(3 * X), outputs[:, 0], rtol=1e-8, atol=1e-8)
    linear = PSVM(kernel="rbf").fit(X, y).set_params(kernel="linear").fit(X, y)
    assert not hasattr(linear, "landmarks_") and not hasattr(linear, "gamma_")


# -- shaped like the mathematics ------------------------------------------------------------------
@pytest.mark.uncompiled
@pytest.mark.parametrize("seed", range(20))
def test_feature_prox_matches_sorting(seed):
    rng = np.random.default_rng(seed)
    T, mu, beta = int(rng.integers(1, 12)), 10 ** rng.uniform(-2, 2), rng.choice([0.0, 0.7])
    v, w = rng.normal(size=T), np.empty(T)
    exrm._feature_prox(mu * v, np.full(T, mu), beta, w)
    assert_allclose(w, naive_feature_prox(v, mu, beta), atol=1e-12)


@pytest.mark.uncompiled
@pytest.mark.parametrize("p", [1.01, 1.5, 2.0, 2.5, 7.0])
def test_power_prox_is_stationary(p):
    for v in np.array([2.0**-27, 0.375, 1.0, 50.0]):  # 1 - (1 - v) is exact
        for t in (1e-6, 0.1, 1.0, 1e4):
            with np.errstate(over="ignore"):  # of a bound that is infinite then
                e = exrm._power_prox(v, t, p)
            assert 0 <= e <= v
            if e > exrm.TINY:
                assert abs(e + t * p * e ** (p - 1) - v) <= 1e-12 * v
            else:  # smaller than floating point can say: even 1e-200 would be too large
                assert t * p * exrm.TINY ** (p - 1) > v
            one, zero, slope = np.ones(1), np.zeros(1), np.empty(1)
            with np.errstate(over="ignore"):
                sums = exrm._power_terms(one - v, 0.0, one, one, zero, p, t, slope)
            second, e_p = sums[2], sums[4]
            assert_allclose(slope, (v - e) / t, rtol=1e-6, atol=1e-14 * max(v, 1) / t)
            assert 0 < second <= (1 + 1e-12) / t
            assert_allclose(e_p, e**p, rtol=1e-10, atol=1e-200)


@pytest.mark.uncompiled
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_terms_agree_where_both_apply(p):
    """Loss, slope and curvature of the fast kernel (p = 1, 2) against the one for any p."""
    rng = np.random.default_rng(0)
    xw, y, cost = rng.normal(size=50), np.where(rng.random(50) < 0.5, 1.0, -1.0), rng.random(50)
    ratio, width = (rng.random(50), 0.3) if p == 1 else (np.zeros(50), 0.0)
    fast, slow = np.empty(50), np.empty(50)
    one = exrm._loss_terms(xw, 0.2, y, cost, ratio, p, width, fast)
    near = 1 + 1e-9 if p == 1 else 2 + 1e-12  # so that no closed form is taken
    with np.errstate(over="ignore"):  # of a bound that is infinite then
        two = exrm._power_terms(xw, 0.2, y, cost, ratio, near, width, slow)
    assert_allclose(fast, slow, atol=1e-6)
    assert_allclose(one[:4], two[:4], rtol=1e-5)


@pytest.mark.parametrize("p", [2, 2.5, 3])
def test_objective_never_increases(p):
    """Below p = 2 the envelope falls, not the loss itself: no promise there."""
    X, y = blobs(150, 5)
    trace = ExRM(n_estimators=3, p=p, sampling="bootstrap", random_state=0).fit(X, y).trace_
    assert len(trace) > 3 and (np.diff(trace) <= 1e-9 * np.abs(trace[1:])).all()
    assert PSVM(p=1, lam=0.3).fit(X, y).n_iter_ <= 25  # costs below 1 have multipliers, too


@pytest.mark.parametrize("p", and_uncompiled([1, 1.5, 2], (1.5, 2)))
def test_a_gap_out_of_reach_ends_finite(p):
    """No iteration can reach it; the envelope may not get so narrow that numbers break."""
    X, y = blobs(60, 3)
    with pytest.warns(ConvergenceWarning):
        params = {"sampling": "bootstrap", "random_state": 0, "max_iter": 100}
        model = ExRM(n_estimators=2, p=p, tol=1e-300, **params).fit(X, y)
    assert model.residual_ < 1e-10 and np.isfinite(model.coef_).all()


@pytest.mark.uncompiled
def test_ridge_systems_and_those_without_a_factor():
    rng = np.random.default_rng(14)
    A, right = rng.normal(size=(9, 5)), rng.normal(size=5)
    x = exrm._solve_ridge(A.T @ A, right)
    assert_allclose(A.T @ (A @ x) + x, right, rtol=1e-12)
    with pytest.raises(np.linalg.LinAlgError):
        exrm._solve_ridge(-3.0 * np.eye(5), right)


@pytest.mark.uncompiled
def test_beta_makes_weights_sparse():
    X, y = blobs(100, 10)
    zeros = [(PSVM(lam=0.05, beta=beta).fit(X, y).coef_ == 0).sum() for beta in (0.0, 1.0, 4.0)]
    assert zeros[0] == 0 and 0 < zeros[1] < zeros[2]


def test_invariances():
    X, y = blobs(90, 4)
    base = PSVM(tol=TIGHT).fit(X, y)
    order = np.random.default_rng(1).permutation(90)
    assert_allclose(PSVM(tol=TIGHT).fit(X[order], y[order]).coef_, base.coef_, atol=1e-6)
    flipped = PSVM(tol=TIGHT).fit(X, -y)
    assert_allclose(flipped.coef_, -base.coef_, atol=1e-6)
    shifted = PSVM(tol=TIGHT).fit(X + 100.0, y)  # the bias is free
    assert_allclose(shifted.coef_, base.coef_, atol=1e-5)
    twice = PSVM(tol=TIGHT).fit(np.vstack([X, X[:10]]), np.concatenate([y, y[:10]]))
    weighted = PSVM(tol=TIGHT).fit(X, y, np.where(np.arange(90) < 10, 2.0, 1.0))
    assert_allclose(twice.coef_, weighted.coef_, atol=1e-6)
    half = PSVM(lam=1.0, tol=TIGHT).fit(X, y, np.full(90, 2.0))
    assert_allclose(half.coef_, base.coef_, atol=1e-7)


@pytest.mark.uncompiled
@pytest.mark.parametrize("p", [1, 1.3, 2])
def test_wide_separable_data_and_a_large_lam(p):
    """Almost no row has a loss; where the bias is free, its middle keeps the steps long."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(14, 30)), np.arange(14) % 2
    model = PSVM(p=p, lam=1000.0).fit(X, y)
    assert model.converged_ and model.n_iter_ < 100
    margin = 1 / np.linalg.norm(model.coef_)
    assert_allclose(margin, 1 / np.linalg.norm(PSVM(p=1, lam=1e5).fit(X, y).coef_), rtol=0.02)


@pytest.mark.uncompiled
def test_nothing_to_learn_is_certified():
    """A lam so small that all weights are 0: the multipliers have to be found all the same."""
    X, y = blobs(100, 6)
    for p in (1, 1.05, 1.5, 2):
        model = ExRM(n_estimators=3, p=p, lam=1e-4, beta=2.0).fit(X, y)
        assert model.converged_ and (model.coef_ == 0).all()


# -- well behaved ---------------------------------------------------------------------------------
@pytest.mark.parametrize("params", [{}, {"p": 1}, {"sampling": "bootstrap", "random_state": 0}])
@pytest.mark.parametrize(
    "X",
    [
        np.array([[0.0], [1.0]]),  # two rows
        np.zeros((6, 3)),  # nothing to learn
        np.ones((6, 1)) * np.array([[1], [1], [1], [5], [5], [5]]),  # duplicates
        1e6 * np.eye(6) + 1e6,  # badly scaled, separable
    ],
)
def test_degenerate(X, params):
    y = np.arange(X.shape[0]) % 2 if X.shape[0] == 2 else np.array([0, 0, 0, 1, 1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = ExRM(n_estimators=3, **params).fit(X, y)
    assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()
    assert np.isfinite(model.objective_) and model.residual_ >= 0


@pytest.mark.uncompiled
def test_member_without_one_class():
    """A bootstrap sample may hold one class only: that member just predicts it."""
    X = np.array([[0.0], [1.0], [2.0], [9.0]])
    y = np.array([0, 0, 0, 1])
    model = ExRM(n_estimators=20, sampling="bootstrap", random_state=0).fit(X, y)
    drawn = naive_bootstrap(np.ones(4), 20, 0)[:, 3] > 0
    assert not drawn.all() and model.converged_
    assert (model.votes(X)[:, ~drawn] < 0).all()


@pytest.mark.uncompiled
def test_no_member_has_both_classes():
    """Nothing is left to learn: all weights are 0, and beta alone makes the objective."""
    X, y = np.array([[0.0, 3.0], [1.0, 2.0]]), np.array([0, 1])
    seed = next(s for s in range(99) if (naive_bootstrap(np.ones(2), 2, s)[:, 1] == 2).all())
    params = {"n_estimators": 2, "beta": 0.5, "sampling": "bootstrap", "random_state": seed}
    model = ExRM(**params).fit(X, y)
    assert model.converged_ and not model.coef_.any()
    assert_array_equal(model.predict(X), [1, 1])
    assert_allclose(model.objective_, 2 * 0.5**2 / 2)


@pytest.mark.uncompiled
@pytest.mark.parametrize("solver", ["auto", "alm"])
def test_not_converged_warns(solver):
    X, y = blobs(100, 5)
    with pytest.warns(ConvergenceWarning, match=r"after 1 iterations with residual .*max_iter=1"):
        model = PSVM(solver=solver, max_iter=1).fit(X, y)
    assert not model.converged_ and model.n_iter_ == 1 and model.residual_ > model.tol
    value = naive_objective(X, y, np.ones((1, 100)), 2.0, 2, 0.0, model.coef_.T, model.intercept_)
    assert_allclose(model.objective_, value, rtol=1e-12)  # of these very coefficients
    with pytest.warns(ConvergenceWarning):
        assert not model.set_params(tol=model.residual_ / 2).fit(X, y).converged_
    assert model.set_params(tol=model.residual_ * 1.1).fit(X, y).converged_

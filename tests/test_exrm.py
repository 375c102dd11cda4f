"""Tests for solvers/exrm.py."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize

import datasets
from solvers import exrm
from solvers.exrm import PSVM, ConvergenceWarning, ExRM

pytestmark = pytest.mark.bounds
TIGHT = 1e-10


# -- slow and obvious references ----------------------------------------------------------------
def naive_objective(X, y, counts, lam, p, beta, W, b):
    """The problem as in the paper, equation (5), with example weights; W is (d, T)."""
    total = 0.0
    for j in range(X.shape[1]):
        total += 0.5 * (sum(abs(w) for w in W[j]) + beta) ** 2
    for t in range(W.shape[1]):
        for i in range(X.shape[0]):
            total += lam * counts[t, i] * max(0.0, 1 - y[i] * (X[i] @ W[:, t] + b[t])) ** p
    return total


def naive_row_prox(v, mu, beta):
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
            W[j] = naive_row_prox(P[j] + Q[j] / mu, mu, 0.0)
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


def naive_bootstrap(n, T, seed, weight):
    """How often each member drew each row, in the documented order of draws."""
    rows = [i for i in range(n) if weight[i] > 0]
    rng = np.random.default_rng(seed)
    counts = np.zeros((T, n))
    for t in range(T):
        for pick in rng.integers(0, len(rows), len(rows)):
            counts[t, rows[pick]] += weight[rows[pick]]
    return counts


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
    full = np.ones(n) if weight is None else weight
    counts = np.repeat(full[None], T, axis=0)
    if params["sampling"]:
        counts = naive_bootstrap(n, T, seed, full)
    return X, y, weight, counts, params


def clarabel_optimum(X, y, counts, lam, p, beta):
    """Objective of Clarabel's solution, evaluated by naive_objective."""
    cp = pytest.importorskip("cvxpy")
    (n, d), T = X.shape, counts.shape[0]
    W, b = cp.Variable((d, T)), cp.Variable((1, T))
    slack = cp.pos(1 - cp.multiply(y[:, None], X @ W + np.ones((n, 1)) @ b))
    loss = cp.sum(cp.multiply(counts.T, slack if p == 1 else cp.power(slack, p)))
    reg = 0.5 * cp.sum_squares(cp.sum(cp.abs(W), axis=1) + beta)
    with warnings.catch_warnings():  # "may be inaccurate": it only serves as an upper bound then
        warnings.simplefilter("ignore")
        cp.Problem(cp.Minimize(reg + lam * loss)).solve(
            solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10, max_iter=200
        )
    return naive_objective(X, y, counts, lam, p, beta, W.value, b.value[0])


def wdbc_150():
    """150 rows of wdbc, standardised, benign = +1: the setting of the figures in the README."""
    data = datasets.load("wdbc", positive="B")
    rows = np.random.default_rng(0).permutation(569)[:150]
    X = data.X[rows]
    return (X - X.mean(axis=0)) / X.std(axis=0), np.where(data.y[rows] == 1, 1, -1)


def blobs(n=200, d=5, seed=0, distance=1.0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1, -1)
    return rng.normal(size=(n, d)) + 0.5 * distance * y[:, None], y


# -- correct: against something that shares no code -----------------------------------------------
@pytest.mark.parametrize("seed", [*range(80), 232])
def test_matches_clarabel(seed):
    X, y, weight, counts, params = random_problem(seed)
    model = ExRM(**params).fit(X, y, weight)
    problem = X, y, counts, params["lam"], params["p"], params["beta"]
    mine = naive_objective(*problem, model.coef_.T, model.intercept_)
    reference = clarabel_optimum(*problem)
    scale = max(1.0, reference)
    assert_allclose(model.objective_, mine, rtol=1e-9)
    assert mine <= reference + 1e-6 * scale
    assert model.converged_ and model.residual_ <= model.tol
    true_gap = mine - min(mine, reference)
    assert model.residual_ * max(1.0, model.objective_) >= true_gap - 1e-9 * scale


@pytest.mark.parametrize("seed", [1, 2, 6, 9, 10, 14, 25, 30])
def test_splitting_reaches_the_same_optimum(seed):
    X, y, weight, _, params = random_problem(seed)
    X = X / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    newton = ExRM(**params, tol=TIGHT).fit(X, y, weight)
    split = ExRM(**params, solver="alm", max_iter=20000).fit(X, y, weight)
    assert split.converged_
    assert_allclose(split.objective_, newton.objective_, rtol=2e-6)
    assert newton.objective_ <= split.objective_ + 1e-9 * newton.objective_


@pytest.mark.parametrize("p", [1, 1.2, 1.5, 2, 3])
def test_matches_scipy(p):
    """PSVM against SLSQP on w, b and the slacks."""
    X, y = blobs(40, 3)
    n, d = X.shape
    model = PSVM(p=p, lam=0.7, tol=TIGHT).fit(X, y)

    def value(x):
        return 0.5 * x[:d] @ x[:d] + 0.7 * (np.maximum(x[d + 1 :], 0) ** p).sum()

    jacobian = np.hstack([y[:, None] * X, y[:, None], np.eye(n)])
    start = np.concatenate([np.zeros(d + 1), np.full(n, 2.0)])
    found = optimize.minimize(
        value,
        start,
        method="SLSQP",
        bounds=[(None, None)] * (d + 1) + [(0, None)] * n,
        constraints={"type": "ineq", "fun": lambda x: jacobian @ x - 1, "jac": lambda x: jacobian},
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert_allclose(model.objective_, found.fun, rtol=1e-6)
    assert model.objective_ <= found.fun * (1 + 1e-9)


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


def test_certificate_is_the_dual_value():
    """The gap recomputed from the formulas of the dual, at the multipliers of the answer."""
    X, y = blobs(120, 6)
    lam, beta = 0.3, 0.4
    model = ExRM(n_estimators=3, lam=lam, beta=beta, sampling="bootstrap", random_state=4)
    model.fit(X, y)
    counts = naive_bootstrap(120, 3, 4, np.ones(120))
    slack = np.maximum(1 - y * (model.coef_ @ X.T + model.intercept_[:, None]), 0)
    alpha = 2 * lam * counts * slack
    assert_allclose(alpha @ y, 0, atol=1e-7 * alpha.sum())  # the bias is exact
    m = np.abs((alpha * y) @ X).max(axis=0)
    conj = np.divide(alpha**2, 4 * lam * counts, out=np.zeros_like(alpha), where=counts > 0)
    dual = (alpha - conj).sum() - np.where(m > beta, m**2 / 2 - beta * m, -(beta**2) / 2).sum()
    gap = (model.objective_ - dual) / max(1, model.objective_)
    assert_allclose(model.residual_, gap, atol=1e-8)


def test_nested_samples_reach_the_optimum():
    """Enough rows for three levels; compared with the direct solution by fewer, weighted rows."""
    rng = np.random.default_rng(0)
    X, y = blobs(400, 3, distance=1.5)
    repeat = rng.integers(1, 120, size=400)
    order = rng.permutation(repeat.sum())
    many = PSVM(tol=TIGHT).fit(np.repeat(X, repeat, axis=0)[order], np.repeat(y, repeat)[order])
    few = PSVM(tol=TIGHT).fit(X, y, repeat)
    assert repeat.sum() > 400 * exrm.LEVEL**2 / 2
    assert_allclose(many.objective_, few.objective_, rtol=1e-9)
    assert_allclose(many.coef_, few.coef_, atol=1e-4)


def test_more_features_than_rows():
    X, y = blobs(30, 200)
    wide = PSVM(tol=TIGHT).fit(X, y)
    direct = ExRM(n_estimators=1, beta=1e-12, tol=1e-8).fit(X, y)  # beta > 0 takes the other path
    assert_allclose(wide.objective_, direct.objective_, rtol=1e-6)
    assert_allclose(wide.coef_, direct.coef_, atol=1e-4)


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


def test_fact_1_tighter_stopping_does_not_help(monkeypatch):
    X, y = wdbc_150()
    monkeypatch.setattr(exrm, "PAPER_STOP", 1e-9)
    ends = [ExRM(n_estimators=T, solver="paper").fit(X, y).objective_ for T in (1, 5, 10)]
    assert_allclose(ends, [14.46, 87.56, 199.74], atol=0.01)


def test_fact_1_hinge_behaves_alike():
    X, y = wdbc_150()
    assert_allclose(PSVM(p=1).fit(X, y).objective_, 4.751, atol=1e-3)
    assert_allclose(PSVM(p=1, solver="paper").fit(X, y).objective_, 19.97, atol=0.01)


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
    # and the general solver, which knows nothing of the reduction, agrees
    cost = lam * np.ones((T, 60))
    problem = exrm._Problem(X, y.astype(float), cost, float(p), beta)
    for solve in (exrm._solve_newton, exrm._solve_interior):
        W, b, _ = solve(problem, 1e-9, lambda *_, **__: False)
        assert_allclose(exrm._objective(problem, W, b), many.objective_, rtol=1e-7)
    assert_allclose(W.mean(axis=0), many.ensemble_coef_, atol=1e-3)


@pytest.mark.parametrize("p", [1, 2])
def test_fact_2_algorithm_2_keeps_columns_equal_to_the_last_bit(p):
    X, y = wdbc_150()
    paper = ExRM(n_estimators=10, p=p, solver="paper").fit(X, y)
    assert_array_equal(paper.coef_, np.repeat(paper.coef_[:1], 10, axis=0))


def test_fact_3_bootstrap_members_differ():
    """Pairwise disagreement on test rows: sonar 22 %, german 20 %, heart 10 %, australian 8 %."""
    for name, expected in (("sonar", 22), ("german-numer", 20), ("heart", 10), ("australian", 8)):
        data = datasets.load(name)
        shares = []
        for trial, (train, test) in enumerate(datasets.splits(data.y, trials=10, train=150)):
            scale = datasets.Preprocess("minmax").fit(data.X[train])
            model = ExRM(sampling="bootstrap", random_state=trial)
            model.fit(scale.transform(data.X[train]), data.y[train])
            sign = model.votes(scale.transform(data.X[test])) >= 0
            i, j = np.triu_indices(10, 1)
            shares.append(100 * (sign[:, i] != sign[:, j]).mean())
            if name == "sonar":
                assert 0.3 < (model.coef_ == 0).mean() < 0.6
        assert abs(np.mean(shares) - expected) < 3


@pytest.mark.parametrize(("T", "p"), [(1, 2), (3, 2), (4, 1)])
def test_paper_mode_is_algorithm_2(T, p):
    X, y = blobs(50, 4)
    W, b, objective, iterations = naive_algorithm_2(X, y, T, 2.0, p)
    model = ExRM(n_estimators=T, p=p, solver="paper").fit(X, y)
    assert model.n_iter_ == iterations
    assert_allclose(model.objective_, objective, rtol=1e-10)
    assert_allclose(model.coef_.T, W, rtol=1e-8, atol=1e-10)
    assert_allclose(model.intercept_, b, rtol=1e-8)


def test_paper_mode_more_features_than_rows():
    X, y = blobs(12, 40)
    W, b, objective, iterations = naive_algorithm_2(X, y, 2, 2.0, 2)
    model = ExRM(n_estimators=2, solver="paper").fit(X, y)
    assert model.n_iter_ == iterations
    assert_allclose(model.coef_.T, W, rtol=1e-6, atol=1e-8)


def test_reweighting_equals_the_exact_row_step():
    """... up to the zeros, which re-weighting only approaches."""
    data = datasets.load("sonar")
    params = {"n_estimators": 4, "sampling": "bootstrap", "random_state": 0, "solver": "paper"}
    exact = ExRM(**params).fit(data.X, data.y)
    slow = ExRM(**params, prox="reweighted").fit(data.X, data.y)
    assert_allclose(slow.objective_, exact.objective_, rtol=1e-4)
    assert (exact.coef_ == 0).mean() > 0.2 and not (slow.coef_ == 0).any()


# -- shaped like the mathematics ------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(20))
def test_row_prox_matches_sorting(seed):
    rng = np.random.default_rng(seed)
    T, mu, beta = int(rng.integers(1, 12)), 10 ** rng.uniform(-2, 2), rng.choice([0.0, 0.7])
    v, w = rng.normal(size=T), np.empty(T)
    exrm._row_prox(mu * v, np.full(T, mu), beta, w)
    assert_allclose(w, naive_row_prox(v, mu, beta), atol=1e-12)


@pytest.mark.parametrize("p", [1.01, 1.5, 2.0, 2.5, 7.0])
def test_power_prox_is_stationary(p):
    for v in (2.0**-27, 0.375, 1.0, 50.0):  # 1 - (1 - v) is exact
        for t in (1e-6, 0.1, 1.0, 1e4):
            e = exrm._power_prox(v, t, p)
            assert 0 <= e <= v
            if e > exrm.TINY:
                assert abs(e + t * p * e ** (p - 1) - v) <= 1e-12 * v
            else:  # smaller than floating point can say: even 1e-200 would be too large
                assert t * p * exrm.TINY ** (p - 1) > v
            one, zero, slope = np.ones(1), np.zeros(1), np.empty(1)
            sums = exrm._power_terms(one - v, 0.0, one, one, zero, p, t, slope)
            second, e_p = sums[2], sums[4]
            assert_allclose(slope, (v - e) / t, rtol=1e-6, atol=1e-14 * max(v, 1) / t)
            assert 0 < second <= (1 + 1e-12) / t
            assert_allclose(e_p, e**p, rtol=1e-10, atol=1e-200)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_terms_agree_where_both_apply(p):
    """Loss, slope and curvature of the fast kernel (p = 1, 2) against the one for any p."""
    rng = np.random.default_rng(0)
    xw, y, cost = rng.normal(size=50), np.where(rng.random(50) < 0.5, 1.0, -1.0), rng.random(50)
    share, delta = (rng.random(50), 0.3) if p == 1 else (np.zeros(50), 0.0)
    fast, slow = np.empty(50), np.empty(50)
    one = exrm._loss_terms(xw, 0.2, y, cost, share, p, delta, fast)
    near = 1 + 1e-9 if p == 1 else 2 + 1e-12  # so that no closed form is taken
    two = exrm._power_terms(xw, 0.2, y, cost, share, near, delta, slow)
    assert_allclose(fast, slow, atol=1e-6)
    assert_allclose(one[:4], two[:4], rtol=1e-5)


@pytest.mark.parametrize("p", [2, 2.5, 3])
def test_objective_never_increases(p):
    """Below p = 2 the envelope falls, not the loss itself: no promise there."""
    X, y = blobs(150, 5)
    trace = ExRM(n_estimators=3, p=p, sampling="bootstrap", random_state=0).fit(X, y).trace_
    assert len(trace) > 3 and (np.diff(trace) <= 1e-9 * np.abs(trace[1:])).all()


@pytest.mark.parametrize("p", [1, 1.5, 2])
def test_a_gap_out_of_reach_ends_finite(p):
    """No iteration can reach it; the envelope may not get so narrow that numbers break."""
    X, y = blobs(60, 3)
    with pytest.warns(ConvergenceWarning):
        params = {"sampling": "bootstrap", "random_state": 0, "max_iter": 100}
        model = ExRM(n_estimators=2, p=p, tol=1e-300, **params).fit(X, y)
    assert model.residual_ < 1e-10 and np.isfinite(model.coef_).all()


def test_many_features_take_lapack(monkeypatch):
    X, y = blobs(80, 12)
    ours = PSVM(tol=TIGHT).fit(X, y)
    monkeypatch.setattr(exrm, "SMALL", 0)
    assert_allclose(PSVM(tol=TIGHT).fit(X, y).coef_, ours.coef_, atol=1e-7)


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


@pytest.mark.parametrize("p", [1, 1.3, 2])
def test_wide_separable_data_and_a_large_lam(p):
    """Almost no row has a loss; where the bias is free, its middle keeps the steps long."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(14, 30)), np.arange(14) % 2
    model = PSVM(p=p, lam=1000.0).fit(X, y)
    assert model.converged_ and model.n_iter_ < 100
    margin = 1 / np.linalg.norm(model.coef_)
    assert_allclose(margin, 1 / np.linalg.norm(PSVM(p=1, lam=1e5).fit(X, y).coef_), rtol=0.02)


def test_separable_bootstrap_with_a_large_lam_and_bad_scales():
    """Few rows a feature, columns from 0.01 to 100: without stages, far more iterations."""
    rng = np.random.default_rng(333)
    X = rng.normal(size=(123, 55)) * 10 ** rng.uniform(-2, 2, size=55)
    y = X @ (rng.normal(size=55) / X.std(axis=0)) > 0
    params = {"n_estimators": 5, "lam": 2000.0, "sampling": "bootstrap", "random_state": 0}
    for p in (1, 2):
        model = ExRM(p=p, **params, max_iter=100).fit(X, y)
        assert model.converged_


def test_nothing_to_learn_is_certified():
    """A lam so small that all weights are 0: the multipliers have to be found all the same."""
    X, y = blobs(100, 6)
    for p in (1, 1.05, 1.5, 2):
        model = ExRM(n_estimators=3, p=p, lam=1e-4, beta=2.0).fit(X, y)
        assert model.converged_ and (model.coef_ == 0).all()


def test_weights_scale_lam():
    X, y = blobs(60, 3)
    assert_allclose(
        PSVM(lam=3.0, tol=TIGHT).fit(X, y).coef_,
        PSVM(lam=1.5, tol=TIGHT).fit(X, y, np.full(60, 2.0)).coef_,
        atol=1e-7,
    )


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


def test_member_without_one_class():
    """A bootstrap sample may hold one class only: that member just predicts it."""
    X = np.array([[0.0], [1.0], [2.0], [9.0]])
    y = np.array([0, 0, 0, 1])
    model = ExRM(n_estimators=20, sampling="bootstrap", random_state=0).fit(X, y)
    drawn = naive_bootstrap(4, 20, 0, np.ones(4))[:, 3] > 0
    assert not drawn.all() and model.converged_
    assert (model.votes(X)[:, ~drawn] < 0).all()


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"n_estimators": 0}, "ExRM: n_estimators must be an integer >= 1, got 0"),
        ({"n_estimators": 2.5}, "n_estimators must be an integer >= 1, got 2.5"),
        ({"p": 0.5}, "p must be a finite number >= 1, got 0.5"),
        ({"p": "two"}, "p must be a finite number >= 1, got 'two'"),
        ({"lam": 0}, "lam must be a finite number > 0, got 0"),
        ({"lam": float("nan")}, "lam must be a finite number > 0, got nan"),
        ({"beta": -1}, "beta must be a finite number >= 0, got -1"),
        ({"sampling": "bagging"}, "sampling must be one of None, 'bootstrap', got 'bagging'"),
        ({"kernel": "poly"}, "kernel must be one of 'linear', 'rbf', got 'poly'"),
        ({"kernel": "rbf", "gamma": 0}, "gamma must be 'scale' or a finite number > 0, got 0"),
        ({"kernel": "rbf", "n_landmarks": 0}, "n_landmarks must be an integer >= 1, got 0"),
        ({"solver": "smo"}, "solver must be one of 'auto', 'alm', 'paper', got 'smo'"),
        ({"solver": "paper", "rho": 1.0}, "rho must be a finite number > 1, got 1.0"),
        ({"prox": "fast"}, "prox must be one of 'exact', 'reweighted', got 'fast'"),
        ({"tol": 0}, "tol must be a number > 0, got 0"),
        ({"max_iter": 0}, "max_iter must be an integer >= 1, got 0"),
    ],
)
def test_parameter_errors(params, text):
    with pytest.raises(ValueError, match=text.replace("(", r"\(")):
        ExRM(**params).fit(*blobs(20, 2))


@pytest.mark.parametrize("solver", ["auto", "alm"])
def test_not_converged_warns(solver):
    X, y = blobs(100, 5)
    with pytest.warns(ConvergenceWarning, match=r"after 1 iterations with residual .*max_iter=1"):
        model = PSVM(solver=solver, max_iter=1).fit(X, y)
    assert not model.converged_ and model.n_iter_ == 1 and model.residual_ > model.tol
    value = naive_objective(X, y, np.ones((1, 100)), 2.0, 2, 0.0, model.coef_.T, model.intercept_)
    assert_allclose(model.objective_, value, rtol=1e-12)  # of these very coefficients


def test_callback_stops_and_sees_the_trace():
    X, y = blobs(100, 5)
    seen = []

    def stop_at_2(model, iteration, info):
        seen.append((iteration, info["objective"], info["residual"]))
        return iteration == 2

    with pytest.warns(ConvergenceWarning):
        model = PSVM(callback=stop_at_2).fit(X, y)
    assert model.n_iter_ == 2 and [s[0] for s in seen] == [1, 2]
    assert_array_equal(model.trace_, [s[1] for s in seen])
    assert model.residual_ == seen[-1][2]


def test_verbose_prints_a_line_an_iteration(capsys):
    model = PSVM(verbose=1).fit(*blobs(50, 2))
    assert len(capsys.readouterr().out.splitlines()) == model.n_iter_


def test_huge_ensemble_falls_back_to_the_splitting(monkeypatch):
    X, y = blobs(60, 3)
    params = {"n_estimators": 3, "sampling": "bootstrap", "random_state": 0, "max_iter": 5000}
    newton = ExRM(**params).fit(X, y)
    monkeypatch.setattr(exrm, "MAX_CURVATURE", 1)
    split = ExRM(**params).fit(X, y)
    assert split.n_iter_ > newton.n_iter_
    assert_allclose(split.objective_, newton.objective_, rtol=2e-6)

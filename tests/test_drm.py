"""Tests for solvers/drm.py."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize
from scipy.spatial.distance import cdist, pdist

import datasets
from solvers import drm
from solvers.drm import DRM, ConvergenceWarning, NuSVM

pytestmark = pytest.mark.bounds
ROOT = Path(__file__).parent.parent


# -- slow and obvious references ----------------------------------------------------------------
def naive_kernel(kind, X, Z, gamma):
    if kind == "linear":
        return X @ Z.T
    if kind == "poly":
        return (gamma * X @ Z.T + 1.0) ** 3
    return np.exp(-gamma * cdist(X, Z) ** 2)


def naive_objective(K, y, counts, nu, mu, coef):
    """The problem as written, for members w_t = sum_i coef_ti phi(x_i); rho by a scalar search."""
    K, T = K + 1.0, len(coef)
    total = 0.0
    for t in range(T):
        margins, share = y * (K @ coef[t]), counts[t] / counts[t].sum()

        def loss(rho, margins=margins, share=share):
            return -nu * rho + share @ np.maximum(rho - margins, 0.0) ** 2

        widest = np.abs(margins).max() + nu
        rho = optimize.minimize_scalar(loss, (-widest, widest), options={"xtol": 1e-12})
        total += rho.fun / T
        for s in range(t):
            total += mu * (coef[t] + coef[s]) @ K @ (coef[t] + coef[s])
        assert coef[t] @ K @ coef[t] <= 1 + 1e-9
    return total


def naive_bootstrap(weight, T, seed):
    """How often each member drew each row, in the documented order of draws."""
    rows = [i for i in range(len(weight)) if weight[i] > 0]
    rng = np.random.default_rng(seed)
    counts = np.zeros((T, len(weight)))
    for t in range(T):
        for pick in rng.integers(0, len(rows), len(rows)):
            counts[t, rows[pick]] += weight[rows[pick]]
    return counts


def random_problem(seed):
    """T 1-6, nu 0.05-1, mu 1e-5-1; kernels, noise, scales, weights and samples by turns."""
    rng = np.random.default_rng(seed)
    n, d, T = int(rng.integers(10, 50)), int(rng.integers(1, 8)), seed % 6 + 1
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + [0.0, 0.5, 2.0][seed % 3] * rng.normal(size=n) > 0, 1, -1)
    y[:2] = 1, -1
    X *= [1.0, 0.1, 10.0][seed // 3 % 3]
    weight = None
    if seed % 4 == 3:
        weight = rng.integers(0, 4, n).astype(float)
        weight[:2] = 1.0
    params = {
        "n_estimators": T,
        "nu": float(10 ** rng.uniform(np.log10(0.05), 0)),
        "mu": float(10 ** rng.uniform(-5, 0)),
        "kernel": ["rbf", "linear", "rbf", "linear", "poly"][seed % 5],
        "sampling": [None, "bootstrap"][seed // 6 % 2],
        "random_state": seed,
    }
    full = np.ones(n) if weight is None else weight
    counts = np.repeat(full[None], T, axis=0)
    if params["sampling"]:
        counts = naive_bootstrap(full, T, seed)
    return X, y, weight, counts, params


def clarabel(K, y, counts, nu, mu):
    """Clarabel's members on the whole problem, in coordinates where K + 1 is the identity."""
    cp = pytest.importorskip("cvxpy")
    values, vectors = np.linalg.eigh(K + 1.0)
    keep = values > values[-1] * 1e-13
    phi = vectors[:, keep] * np.sqrt(values[keep])
    T = len(counts)
    W, rho = cp.Variable((T, keep.sum())), cp.Variable(T)
    objective, constraints = 0, []
    for t in range(T):
        rows = counts[t] > 0
        xi = cp.Variable(rows.sum())
        root = np.sqrt(counts[t][rows] / counts[t].sum())
        objective += (cp.sum_squares(cp.multiply(root, xi)) - nu * rho[t]) / T
        constraints += [cp.multiply(y[rows], phi[rows] @ W[t]) >= rho[t] - xi, cp.norm(W[t]) <= 1]
        for s in range(t):
            objective += mu * cp.sum_squares(W[t] + W[s])
    problem = cp.Problem(cp.Minimize(objective), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "may be inaccurate": asked for more than it can give
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-11, tol_feas=1e-11)
    W = W.value / np.maximum(1.0, np.linalg.norm(W.value, axis=1))[:, None]
    return W @ (vectors[:, keep] / np.sqrt(values[keep])).T


def gram(model, X):
    return naive_kernel(model.kernel, X, X, getattr(model, "gamma_", None))


def rows_of(X, y, kind="rbf", gamma=1.0, megabytes=500.0, dtype=np.float64):
    """The kernel rows as fit makes them."""
    model = DRM(kernel=kind)
    model.gamma_ = gamma
    return drm._Rows(model._kernel_to(X), X, y, model._diagonal(X), megabytes, dtype)


def heart(n=150):
    data = datasets.load("heart")
    X = datasets.Preprocess("minmax01").fit(data.X).transform(data.X)
    return X[:n], data.y[:n]


# -- optimum ------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(60))
def test_against_clarabel(seed):
    X, y, weight, counts, params = random_problem(seed)
    model = DRM(**params, tol=1e-7).fit(X, y, sample_weight=weight)
    K = gram(model, X)
    problem = K, y, counts, params["nu"], params["mu"]
    objective = naive_objective(*problem, model.dual_coef_)
    optimum = naive_objective(*problem, clarabel(*problem))
    assert model.converged_
    assert_allclose(model.objective_, objective, rtol=1e-9)
    assert objective - optimum <= 1e-6 * abs(optimum)
    gap = model.residual_ * abs(objective)
    assert objective - optimum <= gap + 1e-9 * abs(optimum)  # Clarabel is not exact either
    assert_allclose(model.votes(X).T, model.dual_coef_ @ (K + 1.0), atol=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_one_smo_run_against_clarabel(seed):
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(seed)
    n, total, s = int(rng.integers(10, 80)), 0.3, float(10 ** rng.uniform(-3, 0))
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    rows = rows_of(X, y, ["rbf", "linear"][seed % 2])
    c, lin = rng.uniform(1, n, n), rng.normal(size=n) * seed / 12
    a = np.full(n, total / n)
    Qa = rows.times(a[None])[0][0]
    drm._visit(rows, a, Qa, np.ones(n, bool), c, lin, 0.0, 0.0, s, 1e-11, 10**6, fixed=True)
    H = rows.table / (2 * s) + np.diag(c)  # in units of rows.unit
    assert a.min() >= 0 and abs(a.sum() - total) < 1e-12
    assert_allclose(Qa, rows.table @ a, atol=1e-9)
    x = cp.Variable(n)
    quadratic = 0.5 * cp.sum_squares(np.linalg.cholesky(H).T @ x) + lin @ x / (2 * s)
    cp.Problem(cp.Minimize(quadratic), [x >= 0, cp.sum(x) == total]).solve(
        solver="CLARABEL", tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13
    )
    best = np.maximum(x.value, 0.0)
    best *= total / best.sum()

    def value(z):
        return 0.5 * z @ H @ z + lin @ z / (2 * s)

    assert value(a) <= value(best) + 1e-8 * abs(value(best))
    assert_allclose(a, best, atol=1e-6 * total)


@pytest.mark.parametrize("T", [3, 5, 10])
@pytest.mark.parametrize("mu", [1e-4, 1e-2])
def test_alternation_ends_where_all_members_are_equal(T, mu):
    X, y = heart(100)
    params = dict(n_estimators=T, mu=mu, nu=0.3)
    paper, auto = DRM(**params, solver="alternating").fit(X, y), DRM(**params).fit(X, y)
    assert_allclose(paper.objective_, auto.objective_, rtol=1e-6)
    size = np.abs(auto.dual_coef_).max()
    assert np.ptp(paper.dual_coef_, axis=0).max() < 1e-6 * size
    assert_array_equal(np.ptp(auto.dual_coef_, axis=0), 0.0)
    assert_allclose(paper.dual_coef_, auto.dual_coef_, atol=1e-4 * size)
    assert_allclose(paper.rho_, auto.rho_, rtol=1e-5)
    assert_allclose(paper.lambda_, auto.lambda_, atol=1e-6)

    signs, rng = 2.0 * y - 1.0, np.random.default_rng(T)
    rows = rows_of(X, signs, gamma=auto.gamma_)
    start = rng.normal(size=(T, len(y)))
    start /= np.sqrt(np.einsum("ti,ij,tj->t", start, rows.table, start))[:, None]
    p = np.full((T, len(y)), 2.0 / (T * len(y)))
    trace = []
    *_, members = drm._solve(
        rows, p, 0.3, mu, 0.0, 1e-6, 200, True, lambda *state: trace.append(state[1]), start
    )
    assert_allclose(trace[-1], auto.objective_, rtol=1e-6)
    assert np.ptp(members, axis=0).max() < 1e-6 * size
    own = DRM(**params, solver="alternating", sampling="bootstrap", random_state=0).fit(X, y)
    assert np.ptp(own.dual_coef_, axis=0).max() > 0.1 * np.abs(own.dual_coef_).max()
    assert (
        own.facts()["mean pairwise angle in degrees"]
        > 5
        > 1e-3
        > paper.facts()["mean pairwise angle in degrees"]
    )


def test_equal_samples_are_one_machine():
    """min -nu rho + mean xi^2 + 2 mu T (T - 1) |w|^2, |w| <= 1, by SciPy on the w of the kernel."""
    X, y = heart(60)
    model = DRM(n_estimators=7, mu=2e-4, nu=0.4, tol=1e-9).fit(X, y)
    K, signs = gram(model, X) + 1.0, 2.0 * y - 1.0
    values, vectors = np.linalg.eigh(K)
    phi = vectors * np.sqrt(np.maximum(values, 0.0))

    def machine(z):
        w, rho = z[:-1], z[-1]
        xi = np.maximum(rho - signs * (phi @ w), 0.0)
        value = -0.4 * rho + (xi**2).mean() + 2 * 2e-4 * 7 * 6 * w @ w
        slope = -2.0 * (xi * signs) @ phi / len(signs) + 4 * 2e-4 * 7 * 6 * w
        return value, np.append(slope, -0.4 + 2.0 * xi.mean())

    ball = {"type": "ineq", "fun": lambda z: 1.0 - z[:-1] @ z[:-1],
            "jac": lambda z: np.append(-2.0 * z[:-1], 0.0)}  # fmt: skip
    options = {"ftol": 1e-14, "maxiter": 1000}
    start = np.append(np.zeros(len(y)), 0.2)
    found = optimize.minimize(
        machine, start, jac=True, constraints=[ball], method="SLSQP", options=options
    )
    assert_allclose(model.objective_, found.fun, rtol=1e-6)


@pytest.mark.parametrize("sampling", [None, "bootstrap"])
def test_norm_bound(sampling):
    X, y = heart()
    small = DRM(n_estimators=5, mu=1e-6, sampling=sampling, random_state=0).fit(X, y)
    large = DRM(n_estimators=5, mu=0.1, sampling=sampling, random_state=0).fit(X, y)
    K = gram(small, X) + 1.0
    for model in (small, large):
        inner = model.dual_coef_ @ K @ model.dual_coef_.T
        assert_allclose(model.gram_, inner, atol=1e-7 * inner.max())
    assert_allclose(small.gram_.diagonal(), 1.0, atol=1e-6)
    assert (small.lambda_ > 0).all() and small.facts()["% of members at the norm bound"] == 100
    assert (large.gram_.diagonal() < 0.5).all() and (large.lambda_ == 0).all()


def test_a_bound_that_holds_nothing():
    """T = 1 and an inactive bound: lambda = 0 and the division by it has to be avoided."""
    data = datasets.load("pima")
    X = datasets.Preprocess("minmax01").fit(data.X).transform(data.X)[:200]
    y = data.y[:200]
    model = NuSVM(nu=0.05, kernel="linear").fit(X, y)
    assert model.converged_ and model.lambda_[0] < 1e-9 and model.gram_[0, 0] < 0.9
    signs, counts = 2.0 * y - 1.0, np.ones((1, 200))
    problem = X @ X.T, signs, counts, 0.05, 0.0
    optimum = naive_objective(*problem, clarabel(*problem))
    assert_allclose(model.objective_, optimum, rtol=1e-6)

    paper = NuSVM(nu=0.05, kernel="linear", solver="alternating").fit(X, y)  # without Newton
    assert paper.residual_ <= 1e-6 and paper.n_iter_ < 200

    corners = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    xor = NuSVM(kernel="linear", nu=0.5).fit(corners - 0.5, [0, 0, 1, 1])
    assert_allclose(xor.objective_, -(0.5**2) / 4, rtol=1e-9)  # w = 0 and rho = nu / 2
    assert np.isfinite(xor.decision_function(corners)).all()


def test_two_members_with_own_samples():
    """mu |w_1 + w_2|^2 leaves w_1 - w_2 free: the hardest case for visits in turn."""
    X, y = heart(80)
    model = DRM(n_estimators=2, mu=1.0, nu=0.5, sampling="bootstrap", random_state=0).fit(X, y)
    problem = gram(model, X), 2.0 * y - 1.0, naive_bootstrap(np.ones(80), 2, 0), 0.5, 1.0
    assert model.converged_
    assert_allclose(model.objective_, naive_objective(*problem, clarabel(*problem)), rtol=1e-6)


def test_small_tolerances_are_reached():
    data = datasets.load("pima")
    X = datasets.Preprocess("minmax01").fit(data.X).transform(data.X)
    model = NuSVM(nu=0.05, tol=1e-11).fit(X, data.y)  # more rows than are polished
    assert model.residual_ <= 1e-11 and len(model.support_) > drm.POLISH
    X, y = heart()
    for params in ({}, {"kernel": "linear", "nu": 0.2}, {"sampling": "bootstrap", "mu": 1e-3}):
        model = DRM(n_estimators=4, tol=1e-12, random_state=0, **params).fit(X, y)
        assert model.residual_ <= 1e-12
    with pytest.warns(ConvergenceWarning, match="stopped after 1 iterations"):
        DRM(sampling="bootstrap", random_state=0, max_iter=1, tol=1e-9).fit(X, y)


def test_best_rho():
    rng = np.random.default_rng(0)
    for _ in range(20):
        M, p = rng.normal(size=(2, 30)), rng.uniform(size=(2, 30)) * (rng.random((2, 30)) > 0.3)
        rho = drm._best_rho(M, p, 0.4)
        assert_allclose((p * np.maximum(rho[:, None] - M, 0.0)).sum(axis=1), 0.4)


# -- kernels and rows ---------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["rbf", "linear", "poly"])
def test_kernels(kind):
    metrics = pytest.importorskip("sklearn.metrics.pairwise")
    X, y = heart(90)
    model = DRM(kernel=kind, gamma="scale", degree=2, coef0=0.5, tol=1e-12).fit(X[:60], y[:60])
    expected = {
        "rbf": lambda A, B: metrics.rbf_kernel(A, B, 1 / (13 * X[:60].var())),
        "linear": metrics.linear_kernel,
        "poly": lambda A, B: metrics.polynomial_kernel(A, B, 2, 1 / (13 * X[:60].var()), 0.5),
    }[kind]
    support = model._kernel_to(model.support_vectors_)
    assert_allclose(support(X, np.float64), expected(X, X[model.support_]) + 1.0, rtol=1e-12)
    assert_allclose(model._diagonal(X), expected(X, X).diagonal() + 1.0)
    outside = DRM(kernel="precomputed", tol=1e-12).fit(expected(X[:60], X[:60]), y[:60])
    decision = outside.decision_function(expected(X, X[:60]))
    assert_allclose(decision, model.decision_function(X), atol=1e-7)


def test_precomputed_in_cross_validation():
    selection = pytest.importorskip("sklearn.model_selection")
    X, y = heart()
    params = dict(mu=1e-4, nu=0.3)
    width = DRM(**params).fit(X, y).gamma_
    plain = selection.cross_val_score(DRM(**params, gamma=width), X, y, cv=3)
    K = naive_kernel("rbf", X, X, width)
    given = selection.cross_val_score(DRM(**params, kernel="precomputed"), K, y, cv=3)
    assert_allclose(plain, given)


def test_width_is_the_mean_distance():
    X, y = heart(200)
    everything = pdist(X).mean() * 199 / 200  # a row is at distance 0 from itself
    assert_allclose(DRM().fit(X, y).gamma_, 1.0 / (2.0 * everything**2), rtol=1e-9)
    weight = np.arange(200) % 3 + 1.0
    twice = np.repeat(np.arange(200), weight.astype(int))
    own = NuSVM().fit(X, y, sample_weight=weight)
    assert_allclose(own.gamma_, NuSVM().fit(X[twice], y[twice]).gamma_, rtol=1e-9)
    assert NuSVM().fit(np.ones((4, 2)), [0, 1, 0, 1]).gamma_ == 1.0


def test_a_weight_of_two_is_the_row_twice():
    X, y = heart(100)
    weight = np.arange(100) % 3
    twice = np.repeat(np.arange(100), weight)
    for params in ({}, {"kernel": "linear", "nu": 0.1}, {"gamma": "scale"}):
        weighted = DRM(tol=1e-10, **params).fit(X, y, sample_weight=weight)
        repeated = DRM(tol=1e-10, **params).fit(X[twice], y[twice])
        assert_allclose(weighted.objective_, repeated.objective_, rtol=1e-8)
        assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-5)
        assert not weighted.dual_coef_[:, weight == 0].any()


@pytest.mark.parametrize("megabytes", [1e-9, 0.005, 0.02])
def test_tiny_cache_gives_the_same_model(megabytes):
    X, y = heart()
    for params in ({"mu": 1e-4}, {"sampling": "bootstrap", "n_estimators": 3, "random_state": 0}):
        whole = DRM(tol=1e-10, **params).fit(X, y)
        part = DRM(tol=1e-10, cache_size=megabytes, **params).fit(X, y)
        assert_allclose(part.objective_, whole.objective_, rtol=1e-10)
        assert_allclose(part.decision_function(X), whole.decision_function(X), atol=1e-5)


def test_rows_used_last_stay():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), np.where(rng.random(30) > 0.5, 1.0, -1.0)
    whole = rows_of(X, y).table
    rows = rows_of(X, y, megabytes=30 * 8 * 8 / 2**20)
    assert not rows.complete and rows.table.shape == (8, 30)
    wanted = [np.array(w) for w in ([0, 1, 2], [3, 4], [0, 5, 6], [7], [8, 9, 10])]
    for numbers in wanted:
        rows.load(numbers)
        for i in numbers:
            assert_allclose(rows.table[rows.where[i]], whole[i], rtol=1e-12)
    held = set(np.flatnonzero(rows.where >= 0))  # 1 and 2 went first, then 3 or 4
    assert len(held) == 8 and held - {3, 4} == {0, 5, 6, 7, 8, 9, 10}
    assert len(set(rows.where[list(held)])) == 8


def test_exp():
    x = -np.concatenate([np.linspace(0, 50, 5000), np.linspace(50, 690, 5000), [0.0]])
    y = x.copy()
    drm._exp(y, np.empty_like(y))
    assert_allclose(y, np.exp(x), rtol=5e-16)
    far = np.array([-800.0, -1e9, -1e300])
    drm._exp(far, np.empty(3))
    assert (far >= 0).all() and (far < 1e-300).all()


@pytest.mark.skipif(sys.platform == "win32", reason="no resource module")
@pytest.mark.skipif(os.environ.get("NUMBA_BOUNDSCHECK") == "1", reason="too slow with checks")
def test_twenty_thousand_rows_in_two_gigabytes():
    program = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (2 * 2**30, 2 * 2**30))
import numpy as np, datasets
from solvers.drm import NuSVM
data = datasets.load("letter")
X = datasets.Preprocess("minmax01").fit(data.X).transform(data.X)
y = np.array([name <= "M" for name in data.classes])[data.y]
model = NuSVM(nu=0.1, tol=1e-4, cache_size=300).fit(X, y)
print(model.converged_, model.score(X[::7], y[::7]) > 0.8, len(y))
"""
    threads = {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}  # each reserves memory
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=os.environ | threads,
                          capture_output=True, text=True)  # fmt: skip
    assert done.stdout.split() == ["True", "True", "20000"], done.stderr


# -- bad input ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"nu": 0}, "nu must be a finite number > 0, got 0"),
        ({"nu": -0.5}, "nu must be"),
        ({"mu": -1e-3}, "mu must be a finite number >= 0"),
        ({"n_estimators": 0}, "n_estimators must be an integer >= 1"),
        ({"gamma": 0}, "gamma must be 'mean_distance', 'scale' or a finite number > 0, got 0"),
        ({"gamma": "auto"}, "gamma must be"),
        ({"kernel": "sigmoid"}, "kernel must be one of 'rbf', 'linear', 'poly', 'precomputed'"),
        ({"degree": 0}, "degree must be"),
        ({"coef0": -1}, "coef0 must be"),
        ({"cache_size": 0}, "cache_size must be"),
        ({"solver": "smo"}, "solver must be one of 'auto', 'alternating'"),
        ({"sampling": "bagging"}, "sampling must be"),
    ],
)
def test_bad_parameters(params, message):
    X, y = heart(20)
    with pytest.raises(ValueError, match=message):
        DRM(**params).fit(X, y)


def test_bad_kernel_matrices():
    X, y = heart(40)
    K = X @ X.T
    with pytest.raises(ValueError, match=r"needs a square kernel matrix .* got shape \(40, 13\)"):
        DRM(kernel="precomputed").fit(X, y)
    skew = K.copy()
    skew[3, 5] += 1.0
    with pytest.raises(ValueError, match=r"must be symmetric, but K\[3, 5\] = .* and K\[5, 3\]"):
        DRM(kernel="precomputed").fit(skew, y)
    with pytest.raises(ValueError, match="X has 13 features, but DRM is expecting 40"):
        DRM(kernel="precomputed").fit(K, y).predict(X)


@pytest.mark.parametrize("sampling", [None, "bootstrap"])
@pytest.mark.parametrize("solver", ["auto", "alternating"])
def test_indefinite_kernels_warn_and_stay_finite(sampling, solver):
    X, y = heart(60)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(60, 60))
    for K in (np.tanh(X @ X.T - 3.0), noise + noise.T, -np.eye(60)):
        model = DRM(3, kernel="precomputed", sampling=sampling, solver=solver, max_iter=20)
        model.set_params(random_state=0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(K, y)
        assert "not positive semi-definite" in str(caught[0].message)
        assert np.isfinite(model.decision_function(K)).all() and np.isfinite(model.objective_)


def test_members_draw_their_own_samples():
    X, y = heart(60)
    weight = np.arange(60) % 2 + 0.5
    weight[:10] = 0.0
    model = DRM(n_estimators=3, mu=0.0, sampling="bootstrap", random_state=5, tol=1e-10)
    model.fit(X, y, sample_weight=weight)
    for t, counts in enumerate(naive_bootstrap(weight, 3, 5)):  # mu = 0: each on its own
        alone = NuSVM(tol=1e-10, gamma=model.gamma_).fit(X, y, sample_weight=counts)
        assert_allclose(model.votes(X)[:, t], alone.decision_function(X), atol=1e-6)
        assert not model.dual_coef_[t, counts == 0].any()


def test_callback_stops_with_a_certificate():
    X, y = heart()
    calls = []

    def stop(model, iteration, info):
        calls.append(iteration)
        return iteration == 2

    with pytest.warns(ConvergenceWarning):
        model = DRM(sampling="bootstrap", random_state=0, tol=1e-9, callback=stop).fit(X, y)
    assert calls == [1, 2] and model.n_iter_ == 2 and model.trace_[-1] == model.objective_
    problem = gram(model, X), 2.0 * y - 1.0, naive_bootstrap(np.ones(150), 21, 0), 0.5, 1e-5
    assert_allclose(naive_objective(*problem, model.dual_coef_), model.objective_, rtol=1e-9)

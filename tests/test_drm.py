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
from tests import hard_drm
from tests.conftest import blobs, naive_bootstrap, naive_counts

pytestmark = pytest.mark.bounds
uncompiled = pytest.mark.uncompiled  # small enough to run without the compiler
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
    return X, y, weight, naive_counts(weight, n, T, params["sampling"], seed), params


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
    return drm._KernelCache(model._kernel_to(X), X, y, model._diagonal(X), megabytes, dtype)


def heart(n=150):
    data = datasets.load("heart")
    X = datasets.Preprocess("minmax01").fit(data.X).transform(data.X)
    return X[:n], data.y[:n]


# -- optimum ------------------------------------------------------------------------------------
@uncompiled
@pytest.mark.parametrize("seed", range(0, 105, 7))  # all remainders of random_problem
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
    assert_allclose(model.alpha_.sum(axis=1), params["nu"] / params["n_estimators"])


@uncompiled
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
    Qa = rows.multiply(a[None])[0][0]
    dual = drm._Dual(c, lin, square=0.0, least=0.0, fixed=True)
    drm._solve_member(rows, dual, a, Qa, s, 1e-11, 10**6)
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

    for tol in (1e-3, 1e-6):  # the gradient where there is weight, above the smallest of all
        rough, Qr = np.full(n, total / n), rows.multiply(np.full((1, n), total / n))[0][0]
        drm._solve_member(rows, dual, rough, Qr, s, tol, 10**6)
        g = H @ rough + lin / (2 * s)
        assert g[rough > 0].max() - g.min() <= 1.01 * tol
    assert value(a) <= value(best) + 1e-8 * abs(value(best))
    assert_allclose(a, best, atol=1e-6 * total)


@pytest.mark.parametrize("T", [3, 5, 10])
@pytest.mark.parametrize("mu", [1e-4, 1e-2])
def test_alternation_ends_where_all_members_are_equal(T, mu):
    X, y = heart(100)
    params = dict(n_estimators=T, mu=mu, nu=0.3)
    paper = DRM(**params, solver="alternating").fit(X, y)
    auto = DRM(**params, tol=1e-12).fit(X, y)  # a gap of 1e-12 fixes members to its root, 1e-6
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
    problem = drm._problem(p, 0.3, mu)
    solution = drm._solve(rows, problem, 1e-6, 200, lambda *s: trace.append(s), True, start)
    assert trace[-1] == (len(trace), solution.certificate)
    assert_allclose(solution.certificate.objective, auto.objective_, rtol=1e-6)
    assert np.ptp(solution.w, axis=0).max() < 1e-6 * size
    own = DRM(**params, solver="alternating", sampling="bootstrap", random_state=0).fit(X, y)
    assert np.ptp(own.dual_coef_, axis=0).max() > 0.1 * np.abs(own.dual_coef_).max()
    angles = [model.facts()["mean pairwise angle in degrees"] for model in (paper, own)]
    assert angles[0] < 1e-3 and angles[1] > 5


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


def test_small_tolerances_are_reached():
    data = datasets.load("pima")
    X = datasets.Preprocess("minmax01").fit(data.X).transform(data.X)
    assert NuSVM(nu=0.05, tol=1e-11).fit(X, data.y).residual_ <= 1e-11
    X, y = heart()
    for params in ({}, {"kernel": "linear", "nu": 0.2}, {"sampling": "bootstrap", "mu": 1e-3}):
        model = DRM(n_estimators=4, tol=1e-12, random_state=0, **params).fit(X, y)
        assert model.residual_ <= 1e-12
    with pytest.warns(ConvergenceWarning, match="stopped after 1 iterations"):
        DRM(sampling="bootstrap", random_state=0, max_iter=1, tol=1e-9).fit(X, y)
    with pytest.warns(ConvergenceWarning):  # the gap is relative to a small objective
        model = NuSVM(nu=1e-3, max_iter=1, kernel="linear").fit(X, y)
    assert abs(model.objective_) < 1e-3 < model.residual_


@uncompiled
def test_best_rho():
    rng = np.random.default_rng(0)
    for _ in range(20):
        M, p = rng.normal(size=(2, 30)), rng.uniform(size=(2, 30)) * (rng.random((2, 30)) > 0.3)
        rho = drm._best_rho(M, p, 0.4)
        assert_allclose((p * np.maximum(rho[:, None] - M, 0.0)).sum(axis=1), 0.4)


# -- kernels and rows ---------------------------------------------------------------------------
@uncompiled
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
    for shift in (0.0, 1e6):  # Distances do not depend on it, up to its rounding.
        assert_allclose(DRM().fit(X + shift, y).gamma_, 1.0 / (2.0 * everything**2), rtol=1e-9)
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


@pytest.mark.parametrize(
    ("n", "megabytes"),
    [(150, 1e-9), (150, 0.005), (150, 0.02), pytest.param(50, 0.002, marks=uncompiled)],
)
def test_tiny_cache_gives_the_same_model(n, megabytes):
    X, y = heart(n)
    for params in ({"mu": 1e-4}, {"sampling": "bootstrap", "n_estimators": 3, "random_state": 0}):
        whole = DRM(tol=1e-10, **params).fit(X, y)
        part = DRM(tol=1e-10, cache_size=megabytes, **params).fit(X, y)
        assert_allclose(part.objective_, whole.objective_, rtol=1e-10)
        assert_allclose(part.decision_function(X), whole.decision_function(X), atol=1e-5)


@uncompiled
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
            assert_allclose(rows.table[rows.slot[i]], whole[i], rtol=1e-12)
    held = set(np.flatnonzero(rows.slot >= 0))  # 1 and 2 went first, then 3 or 4
    assert len(held) == 8 and held - {3, 4} == {0, 5, 6, 7, 8, 9, 10}
    assert len(set(rows.slot[list(held)])) == 8


def test_cached_kernels_give_the_same_bits(tmp_path):
    """Kernels compiled in this process and those read from the cache sum up in the same order."""
    program = """
import datasets
from solvers import drm
data = datasets.load("heart")
model = drm.NuSVM().fit(datasets.Preprocess("minmax01").fit(data.X).transform(data.X), data.y)
print(model.alpha_.tobytes().hex(), sum(drm._smo.stats.cache_hits.values()))
"""
    place = {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    (first, compiled), (second, cached) = (
        subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=os.environ | place,
                       capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    )  # fmt: skip
    assert first == second and (compiled, cached) == ("0", "1")


@pytest.mark.skipif(sys.platform == "win32", reason="no resource module")
@pytest.mark.skipif(os.environ.get("NUMBA_BOUNDSCHECK") == "1", reason="too slow with checks")
def test_a_kernel_matrix_that_memory_cannot_hold():
    """13,000 rows in 1.2 GB: their kernel matrix has 1.26 GB."""
    program = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1200 * 2**20, 1200 * 2**20))
import numpy as np, datasets
from solvers.drm import NuSVM
data = datasets.load("letter")
X = datasets.Preprocess("minmax01").fit(data.X).transform(data.X[:13_000])
y = np.array([name <= "M" for name in data.classes])[data.y[:13_000]]
model = NuSVM(nu=0.1, tol=1e-4, cache_size=300).fit(X, y)
print(model.converged_, model.score(X[::7], y[::7]) > 0.8, len(y))
"""
    threads = {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}  # each reserves memory
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=os.environ | threads,
                          capture_output=True, text=True)  # fmt: skip
    assert done.stdout.split() == ["True", "True", "13000"], done.stderr


# -- bad input ----------------------------------------------------------------------------------
@uncompiled
def test_bad_kernel_matrices():
    X, y = heart(40)
    K = X @ X.T
    with pytest.raises(ValueError, match=r"needs a square kernel matrix .* got shape \(40, 13\)"):
        DRM(kernel="precomputed").fit(X, y)
    with pytest.raises(ValueError, match="X has 13 features, but DRM is expecting 40"):
        DRM(kernel="precomputed").fit(K, y).predict(X)


@uncompiled
@pytest.mark.parametrize("sampling", [None, "bootstrap"])
@pytest.mark.parametrize("solver", ["auto", "alternating"])
def test_indefinite_kernels_warn_and_stay_finite(sampling, solver):
    X, y = heart(60)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(60, 60))
    for K in (np.tanh(X @ X.T - 3.0), noise + noise.T, -np.eye(60), -3.0 * np.eye(60) - 2.0):
        model = DRM(3, kernel="precomputed", sampling=sampling, solver=solver, max_iter=20)
        model.set_params(random_state=0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(K, y)
        assert len(caught) == 1 and "not positive semi-definite" in str(caught[0].message)
        assert np.isfinite(model.decision_function(K)).all() and np.isfinite(model.objective_)
        assert not model.converged_ and model.residual_ == np.inf


@pytest.mark.parametrize("size", [1e-9, 1e-3])
def test_eigenvalues_of_all_rows_count(size):
    """One pair of 700 rows has a kernel value that no lengths allow."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(700, 3)), np.arange(700) % 2
    K = naive_kernel("rbf", X, X, 1e3)
    K[401, 402] = K[402, 401] = 1.0 + 700.0 * size
    K[401, :401] = K[402, :401] = K[:401, 401] = K[:401, 402] = 0.0
    K[401, 403:] = K[402, 403:] = K[403:, 401] = K[403:, 402] = 0.0
    K -= 1.0  # the bias adds it again
    with pytest.warns(ConvergenceWarning, match="not positive semi-definite"):
        model = NuSVM(kernel="precomputed").fit(K, y)
    assert not model.converged_


@uncompiled
def test_psd_shift():
    rng = np.random.default_rng(0)
    for n in (2, 30):
        A = rng.normal(size=(n, n))
        good = A @ A.T
        scales = 10.0 ** rng.uniform(-6, 6, n)
        assert drm._psd_shift(good) == 0.0
        assert drm._psd_shift(good * np.outer(scales, scales)) == 0.0  # in units of each row
        assert drm._psd_shift(np.ones((n, n))) == 0.0
        values, vectors = np.linalg.eigh(good)
        bad = good - (values[0] + 0.01) * np.outer(vectors[:, 0], vectors[:, 0])
        assert 0.01 <= drm._psd_shift(bad) <= 0.1
    assert drm._psd_shift(np.zeros((3, 3))) == 0.0


@pytest.mark.parametrize("size", [1e-7, 1e-3])
def test_kernel_matrices_have_to_be_symmetric(size):
    """Relative to the entries and lengths at hand, not to the largest entry of all."""
    X, y = heart(40)
    K = X @ X.T
    K[:, 0] *= 1e-6
    K[0] *= 1e-6
    for i, j in ((3, 5), (0, 7)):
        skew = K.copy()
        skew[i, j] += size * np.sqrt(K[i, i] * K[j, j])
        text = rf"must be symmetric, but K\[{i}, {j}\] = .* and K\[{j}, {i}\]"
        with pytest.raises(ValueError, match=text):
            NuSVM(kernel="precomputed").fit(skew, y)
        skew[i, j] = K[i, j] * (1 + 1e-13)
        model = NuSVM(kernel="precomputed").fit(skew, y)
        assert_array_equal(model.dual_coef_, NuSVM(kernel="precomputed").fit(skew.T, y).dual_coef_)


# -- hard problems ------------------------------------------------------------------------------
@pytest.mark.parametrize("problem", hard_drm.problems()[::7], ids=lambda problem: problem.name)
def test_hard_problems(problem):
    record = hard_drm.check(problem)
    assert record.honest, record
    assert abs(record.residual) >= 0.1 * record.gap - 1e-12 or record.gap <= 1e-9, record


@uncompiled
@pytest.mark.parametrize("problem", hard_drm.problems()[3::20], ids=lambda problem: problem.name)
def test_hard_problems_with_products_in_single_precision(problem):
    record = hard_drm.check(problem, tol=1e-3)
    assert record.honest, record


@uncompiled
@pytest.mark.parametrize(("factor", "gamma"), [(1.0, 1e16), (1e8, 1.0), (1e-3, 1e10), (1.0, 50.0)])
def test_rbf_does_not_cancel(factor, gamma):
    rng = np.random.default_rng(3)
    X = factor * rng.normal(size=(40, 5)) + 7.0 * factor
    near = X + rng.normal(size=X.shape) / np.sqrt(gamma)
    Z = np.vstack((X, near, X[:3]))
    model = DRM(gamma=gamma)
    model.gamma_ = gamma
    values = model._kernel_to(Z)(Z, np.float64)
    exact = hard_drm.long_kernel(Z, "rbf", gamma, None) + 1.0
    assert_allclose(values, exact.astype(float), rtol=1e-11)
    assert (values <= 2.0).all()
    table = drm._KernelCache(
        model._kernel_to(Z), Z, np.ones(83), model._diagonal(Z), 500.0, np.float64
    ).table
    assert_array_equal(table.diagonal(), 2.0)


@uncompiled
@pytest.mark.parametrize("solver", ["auto", "alternating"])
@pytest.mark.parametrize("nu", [1e5, 1e7])
def test_rows_that_were_never_drawn_get_nothing(solver, nu):
    X, y = heart(60)
    model = DRM(3, nu=nu, sampling="bootstrap", solver=solver, random_state=2).fit(X, y)
    counts = naive_bootstrap(np.ones(60), 3, 2)
    assert not model.alpha_[counts == 0].any() and (model.alpha_ >= 0).all()
    assert_allclose(model.alpha_.sum(axis=1), nu / 3)
    problem = gram(model, X), 2.0 * y - 1.0, counts, nu, 1e-5
    assert_allclose(naive_objective(*problem, model.dual_coef_), model.objective_, rtol=1e-6)


def test_rows_with_the_same_x_cancel():
    """Few x, both labels at each: no member is held and all that counts is what cancels."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(300, 3)).astype(float)
    y = np.where(rng.random(300) < 0.3 + 0.4 * X[:, 0], 1, -1)
    model = NuSVM(nu=1e-3).fit(X, y)
    assert model.converged_ and model.lambda_[0] < 1e-9 and model.n_iter_ < 60
    signs = np.where(y > 0, 1.0, -1.0)
    rows = rows_of(X, signs, gamma=0.7)
    b = rng.normal(size=(2, 300))
    values, images = rows.merge_equal_rows(b, b @ rows.table)
    assert values.shape == (2, 8)
    assert_allclose(values @ images.T, b @ rows.table @ b.T)


# -- stages -------------------------------------------------------------------------------------
@uncompiled
def test_update_multiplier():
    """s = max(sigma, |u + 2 q| / 2), and the gradient that belongs to it."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), np.where(np.arange(20) % 2, 1.0, -1.0)
    Q = rows_of(X, y).table
    a, q, c = rng.random(20), rng.normal(size=20), rng.random(20)
    far = np.where(np.arange(20) < 3, 100.0, 0.0)
    a[:3] = 0.0
    lin, s = 2.0 * Q @ q, 0.3
    for sigma in (1e-3, 1e3):
        g = (Q @ a + lin) / (2 * s) + c * a + far
        dual = drm._Dual(c, lin, 4.0 * q @ Q @ q, sigma, fixed=False)
        state = drm._SmoState(a, g, far, *np.empty((3, 20), np.float32))
        new = drm._update_multiplier(dual, state, s)
        u = a + 2.0 * q
        assert_allclose(new, max(sigma, 0.5 * np.sqrt(u @ Q @ u)))
        assert_allclose(g, (Q @ a + lin) / (2 * new) + c * a + far)


@uncompiled
@pytest.mark.parametrize("mu", [1e-3, 5.0])
def test_a_sweep_leaves_each_member_at_its_own_optimum(mu, monkeypatch):
    """(5), (6) and (7) hold for the last member of a sweep: nothing changed after it."""
    monkeypatch.setattr(drm, "PAIRS_PER_ROW", 10_000)
    rng = np.random.default_rng(4)
    T, n, nu = 3, 40, 0.6
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    rows = rows_of(X, y)
    p = np.array([np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(T)]) * 2.0 / T / n
    problem, inside = drm._problem(p, nu, mu), p > 0
    c = np.where(inside, 1.0 / np.where(inside, p, 1.0), 0.0)
    a = nu / T * p / p.sum(axis=1)[:, None]
    b, lam = np.zeros((T, n)), np.ones(T)
    Qa, M = rows.multiply(a, b)
    short = drm._sweep_members(rows, problem, a, Qa, b, M, lam, 1e-10)
    Q, others = rows.table, b[0] + b[1]
    u = a[2] - 2.0 * mu * others
    expected = max(0.0, 0.5 * np.sqrt(u @ Q @ u) - (T - 1) * mu)
    assert not short
    assert_allclose(lam[2], expected, rtol=1e-8, atol=1e-12)
    assert (lam[2] > 0) == (mu < 1)
    assert_allclose(b[2], u / (2.0 * ((T - 1) * mu + lam[2])), rtol=1e-8)
    assert_allclose(M, b @ Q, atol=1e-10)
    assert_allclose(Qa, a @ Q, atol=1e-10)
    gradient, live = (M[2] + c[2] * a[2])[inside[2]], a[2][inside[2]] > 0
    assert np.ptp(gradient[live]) < 1e-9 and gradient.min() > gradient[live].min() - 1e-9
    assert not a[2][~inside[2]].any() and abs(a[2].sum() - nu / T) < 1e-12


@uncompiled
@pytest.mark.parametrize("T", [1, 3])
@pytest.mark.parametrize("mu", [1e-3, 2.0])
def test_certificate_and_newton(T, mu):
    """The gap bounds the loss of any members; Newton ends where all optimality conditions hold."""
    rng = np.random.default_rng(5)
    n, nu = 30, 0.5
    mu = mu if T > 1 else 0.0
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    rows = rows_of(X, y)
    p = np.array([np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(T)]) * 2.0 / T / n
    problem, total = drm._problem(p, nu, mu), nu / T
    naive = rows.table * np.outer(y, y) - 1.0, y, p, nu, mu
    (optimum, gap, *_), lam, b, a = drm._solve(rows, problem, 1e-12, 200, lambda *_: False)
    assert gap <= 1e-12 * abs(optimum)
    assert_allclose(optimum, naive_objective(*naive, b * y), rtol=1e-9)
    for noise in (1e-3, 0.1, 1.0):
        other = a * np.exp(noise * rng.normal(size=a.shape))
        other *= total / other.sum(axis=1)[:, None]
        factor = np.exp(noise * rng.normal(size=T))
        members = b + noise * 0.1 * rng.normal(size=b.shape)
        products = rows.multiply(other, members)
        value, gap, error, _, inner, scale = rows.certificate(
            problem, other, products[0], members, products[1], lam * factor, drm.EPS
        )
        assert value - gap <= optimum <= value + 1e-12 and error < 1e-10
        assert (inner.diagonal() <= 1 + 1e-12).all()
        assert_allclose(value, naive_objective(*naive, members * scale[:, None] * y), rtol=1e-8)

    # Newton's method ends where all conditions hold, more exactly than the gap shows.
    start = a * np.exp(0.05 * rng.normal(size=a.shape)), b, rows.multiply(b)[0], lam * 1.2, 0.0
    new_a, new_b, new_lam = drm._newton(rows, problem, *start, lambda: False)
    (M,) = rows.multiply(new_b)
    rho = drm._best_rho(M, p, total)
    assert_allclose(new_a, p * np.maximum(rho[:, None] - M, 0.0), atol=1e-9)
    penalty = (problem.own + new_lam)[:, None] * new_b + mu * new_b.sum(axis=0)
    assert_allclose(penalty, 0.5 * new_a, atol=1e-9)
    norm = (new_b * M).sum(axis=1)
    assert_allclose(new_lam * (norm - 1.0), 0.0, atol=1e-9)
    assert (new_lam >= 0).all() and (norm <= 1 + 1e-9).all()
    assert drm._newton(rows, problem, *start, lambda: True) is None


@uncompiled
def test_cone():
    """The algebra of the cone, its scaling and the way out of it, against their definitions."""
    rng = np.random.default_rng(6)
    inside = [rng.normal(size=(4, 5)) for _ in range(3)]
    for x in inside[:2]:
        x[:, 0] = np.linalg.norm(x[:, 1:], axis=1) + rng.random(4)
    s, z, d = inside
    assert_allclose(drm._cone_det(s), s[:, 0] ** 2 - (s[:, 1:] ** 2).sum(axis=1))
    assert_allclose(drm._jordan_product(z, drm._jordan_divide(s, z)), s)
    assert_allclose(drm._jordan_product(s, z)[:, 0], (s * z).sum(axis=1))
    root_s, root_z = np.sqrt(drm._cone_det(s))[:, None], np.sqrt(drm._cone_det(z))[:, None]
    bar = s / root_s + z / root_z * np.array([1, -1, -1, -1, -1])
    bar /= np.sqrt(drm._cone_det(bar))[:, None]
    eta = (root_s / root_z)[:, 0]
    assert_allclose(drm._apply_scaling(z, bar, eta), drm._apply_scaling(s, bar, eta, inverse=True))
    assert_allclose(drm._apply_scaling(drm._apply_scaling(d, bar, eta), bar, eta, inverse=True), d)
    leave = drm._inverse_step_to_cone(s, d)
    for t in range(4):
        edge = s[t] + d[t] / leave[t] if leave[t] > 0 else s[t] + 1e6 * d[t]
        size = edge[0] - np.linalg.norm(edge[1:])
        assert abs(size) < 1e-9 * (1 + abs(edge[0])) if leave[t] > 0 else size > 0


@uncompiled
@pytest.mark.parametrize("mu", [0.0, 0.3])
def test_interior_points(mu):
    """Against Clarabel, in steps as few as such methods take, and its coefficients."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(60, 4)) * [1.0, 10.0, 0.1, 1.0] + 5.0
    y = np.where(X[:, 0] + rng.normal(size=60) > 5, 1.0, -1.0)
    counts = naive_bootstrap(np.ones(60), 3, 1)
    p, steps = 2.0 / 3 * counts / 60, []
    points = drm._LinearFeatures(X, y)
    phi = np.column_stack((X, np.ones(60)))
    assert_allclose(points.coordinates @ points.basis.T, phi * y[:, None], atol=1e-12)
    W = rng.normal(size=(3, 5))
    assert_allclose(points.margins(W), y * (W @ phi.T))
    assert_allclose(points.weighted_sum(p), (p * y) @ phi)
    asked = drm._problem(p, 0.4, mu)
    found = drm._interior(points, asked, 1e-10, 100, lambda *s: steps.append(s))
    certificate, lam, W, a = found
    assert len(steps) < 30 and steps[-1][1].relative_gap <= 1e-10
    problem = X @ X.T, y, counts, 0.4, mu
    optimum = naive_objective(*problem, clarabel(*problem))
    assert_allclose(certificate.objective, optimum, rtol=1e-8)
    assert_allclose(certificate.gram, W @ W.T)
    b = drm._coefficients(points, asked, found)
    assert_allclose((b * y) @ phi, W, atol=1e-8)
    if mu > 0:  # as (5) has it
        assert_allclose(b, 0.5 * np.linalg.solve(np.diag(mu + lam) + mu, a), atol=1e-5)


@pytest.mark.parametrize("n", [5, 511, 512, pytest.param(513, marks=uncompiled), 1100])
def test_every_entry_of_the_table(n):
    rng = np.random.default_rng(n)
    X, y = rng.normal(size=(n, 2)), np.where(rng.random(n) > 0.5, 1.0, -1.0)
    expected = (naive_kernel("rbf", X, X, 1.0) + 1.0) * np.outer(y, y)
    assert_allclose(rows_of(X, y).table, expected, rtol=1e-12)


@uncompiled
def test_angles():
    model = DRM(3)
    model.lambda_ = np.array([0.0, 0.1, 0.0])
    model.gram_ = np.array([[4.0, 0.0, 2.0], [0.0, 1.0, 0.0], [2.0, 0.0, 4.0]])
    facts = model.facts()
    assert_allclose(facts["mean pairwise angle in degrees"], (90.0 + 60.0 + 90.0) / 3)
    assert_allclose(facts["% of members at the norm bound"], 100.0 / 3)


# -- the fit as a whole -------------------------------------------------------------------------
@uncompiled
def test_members_draw_their_own_samples():
    X, y = heart(60)
    weight = np.arange(60) % 2 + 0.5
    weight[:10] = 0.0
    model = DRM(n_estimators=3, mu=0.0, sampling="bootstrap", random_state=5, tol=1e-12)
    model.fit(X, y, sample_weight=weight)
    for t, counts in enumerate(naive_bootstrap(weight, 3, 5)):  # mu = 0: each on its own
        alone = NuSVM(tol=1e-12, gamma=model.gamma_).fit(X, y, sample_weight=counts)
        assert_allclose(model.votes(X)[:, t], alone.decision_function(X), atol=1e-6)
        assert not model.dual_coef_[t, counts == 0].any()


@pytest.mark.parametrize(
    "params",
    [
        {"nu": 1e-4},
        pytest.param({"kernel": "linear"}, marks=uncompiled),
        {"nu": 1e-3, "kernel": "poly"},
    ],
)
def test_max_iter_and_callback_count_every_stage(params):
    data = datasets.load("pima")
    X = datasets.Preprocess("minmax01").fit(data.X).transform(data.X)[:300]
    calls = []
    model = NuSVM(tol=1e-15, callback=lambda m, i, info: calls.append(i)).set_params(**params)
    for most in (1, 4, 9):
        calls.clear()
        with pytest.warns(ConvergenceWarning, match=f"stopped after {most} iterations"):
            model.set_params(max_iter=most).fit(X, data.y[:300])
        assert calls == list(range(1, most + 1)) and model.n_iter_ == most == len(model.trace_)
        assert model.residual_ > model.tol and not model.converged_
    with pytest.warns(ConvergenceWarning):
        model.set_params(max_iter=200, callback=lambda m, i, info: i == 6).fit(X, data.y[:300])
    assert model.n_iter_ == 6 and model.trace_[-1] == model.objective_
    if model.kernel == "rbf":  # the certificate is that of the vote
        problem = gram(model, X), 2.0 * data.y[:300] - 1.0, np.ones((1, 300)), model.nu, 0.0
        assert_allclose(naive_objective(*problem, model.dual_coef_), model.objective_, rtol=1e-9)


@uncompiled
@pytest.mark.parametrize(
    ("params", "factor"),
    [({}, 1e149), ({"kernel": "linear"}, 1e149), ({"kernel": "poly", "degree": 9}, 1e20),
     ({"kernel": "poly", "gamma": 1e10, "degree": 20}, 1.0), ({"gamma": 1e300}, 1.0),
     ({"kernel": "precomputed"}, 1e150)],
)  # fmt: skip
def test_kernel_values_that_are_not_finite_are_refused(params, factor):
    X, y = heart(30)
    X = X @ X.T if "precomputed" in params.values() else X
    if params == {"kernel": "poly", "degree": 9}:
        params = params | {"gamma": 1.0}
    with pytest.raises(ValueError, match=r"X is too large.*scale X"):
        NuSVM(**params).fit(X * factor, y)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_very_large_and_very_small_columns(kernel):
    X, y = heart(40)
    for factor in (1e-150, 1e-60, 1e60):
        model = NuSVM(kernel=kernel, nu=0.1).fit(X * factor, y)
        assert model.converged_ or "linear" == kernel and factor == 1e60
        assert np.isfinite(model.decision_function(X * factor)).all()


# -- threads --------------------------------------------------------------------------------------
@pytest.fixture
def threads(monkeypatch):
    """Function that sets the number of threads, however small the problem is."""
    monkeypatch.setattr(drm, "MIN_VALUES_PER_THREAD", 1)
    monkeypatch.setattr(drm, "THREAD_CHUNK_VALUES", 2**14)

    def use(count):
        monkeypatch.setattr(DRM, "_threads", lambda self: count)

    return use


@pytest.mark.parametrize(
    "params",
    [{}, {"tol": 1e-4}, {"solver": "alternating", "tol": 1e-4}, {"kernel": "poly"},
     {"cache_size": 0.05}, {"sampling": "bootstrap", "random_state": 0}],
)  # fmt: skip
def test_threads_give_the_same_answer(threads, params):
    """On chunks of few rows, and where not all rows of Q fit."""
    X, y = blobs(n=700, d=3, seed=5)
    params = {"n_estimators": 3, "tol": 1e-8} | params
    threads(1)
    alone = DRM(**params).fit(X, y)
    votes = alone.votes(X)
    for count in (2, 8):
        threads(count)
        model = DRM(n_jobs=count, **params).fit(X, y)
        assert model.converged_
        assert_allclose(getattr(model, "gamma_", 0), getattr(alone, "gamma_", 0), rtol=1e-12)
        assert_allclose(model.objective_, alone.objective_, rtol=2 * model.tol)
        assert_allclose(alone.votes(X), votes, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_table_and_products_of_threads(monkeypatch, dtype):
    monkeypatch.setattr(drm, "THREAD_CHUNK_VALUES", 2**15)
    X, y = blobs(n=1100, d=3, seed=6)
    y = np.where(y == y.max(), 1.0, -1.0)
    model = DRM()
    model.gamma_ = 0.7
    how = model._kernel_to(X), X, y, model._diagonal(X), 500.0, dtype
    alone, b = drm._KernelCache(*how), np.random.default_rng(0).normal(size=(2, 1100))
    weight = np.linspace(0.5, 2.0, 1100)
    rows = drm._KernelCache(*how, n_threads=3)
    assert_allclose(rows.table, alone.table, rtol=0, atol=4 * np.finfo(dtype).eps)
    for exact in (False, True):
        (expected,), (found,) = alone.multiply(b, exact=exact), rows.multiply(b, exact=exact)
        assert_allclose(found, expected, rtol=0, atol=1e-4 if dtype == np.float32 else 1e-11)
    width = drm._mean_distance(X, weight)
    assert_allclose(drm._mean_distance(X, weight, n_threads=3), width, rtol=1e-12)


def test_threads_do_not_warn_of_overflows():
    def exponentials(values):
        return [np.exp(np.array([v])) for v in values]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = drm._run_threads(exponentials, [1e9, 1e9, 0.0], 2)
    assert [len(each) for each in found] == [2, 1] and np.isinf(found[1][0])


def test_few_rows_take_one_thread(monkeypatch):
    X, y = heart(100)
    expected = DRM(3).fit(X, y)
    monkeypatch.setattr(drm, "ThreadPoolExecutor", None)
    assert_array_equal(DRM(3, n_jobs=-1).fit(X, y).votes(X), expected.votes(X))

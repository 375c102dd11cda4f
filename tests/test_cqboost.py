"""Tests for solvers/cqboost.py."""

import itertools
import math
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal

import datasets
from solvers import cqboost
from solvers.cqboost import CGBoost, ConvergenceWarning, CqBoost, LPBoost, MDBoost, MinCq
from solvers.rows import stumps as block_stumps
from tests import hard_cqboost
from tests.conftest import blobs

pytestmark = pytest.mark.bounds
METHODS = CqBoost, MDBoost, MinCq, LPBoost, CGBoost
MASTERS = "auto", "osqp", "active-set"
ROOT = Path(__file__).parents[1]
uncompiled = pytest.mark.uncompiled


def quick(cases, is_quick):
    """The cases of a test, those marked that take no more than seconds without the compiler."""
    return [pytest.param(*c, marks=uncompiled) if is_quick(*c) else pytest.param(*c) for c in cases]


def from_python(kernel):
    """A kernel that only kernels call, so that a test can call it."""
    return njit(lambda *args: kernel(*args))


def stumps(X, n_thresholds, threads=1):
    """Stumps on the rows of X, of one class and weight 1."""
    ones = np.ones(len(X))
    if threads > 1:
        return block_stumps.ThreadStumps(X, ones, ones, n_thresholds, threads)
    return cqboost._Stumps(X, ones, ones, n_thresholds)


# -- slow and obvious references ------------------------------------------------------------------
def naive_stumps(X, n_thresholds=10):
    """Outputs of all stumps without complements, (n, voters), feature after feature."""
    columns = []
    for values in X.T:
        low, high = values.min(), values.max()
        if low < high:
            for k in range(1, n_thresholds + 1):
                cut = low + (high - low) * k / (n_thresholds + 1)
                columns.append([1.0 if x > cut else -1.0 for x in values])
    return np.array(columns).T


def naive_kernel(X, gamma, classifiers=False):
    H = np.array([[math.exp(-gamma * ((a - b) @ (a - b))) for b in X] for a in X])
    return np.vectorize(lambda z: math.erf(z / math.sqrt(2)))(H) if classifiers else H


def naive_objective(cls, parameter, y, weight, votes, q):
    """The five problems, at the weights q of voters with these outputs."""
    g, m = y * (votes @ q), weight.sum()
    if cls in (CqBoost, MinCq):
        return weight @ g**2 / m
    if cls is MDBoost:
        spread = weight @ g**2 - (weight @ g) ** 2 / m
        return parameter / 2 * m / (m - 1) * spread - weight @ g
    slack = parameter * weight @ np.maximum(0, 1 - g)
    return slack + (q.sum() if cls is LPBoost else q @ q / 2)


def full_program(cls, parameter, y, weight, H, complements=True):
    """Clarabel on the program with every voter at once; returns the naive objective of its q.

    The margins are variables of their own, which keeps the quadratic part diagonal.
    """
    cp = pytest.importorskip("cvxpy")
    if complements and cls is not MinCq:
        H = np.hstack([H, -H])
    q, g = cp.Variable(H.shape[1]), cp.Variable(len(y))
    m = weight.sum()
    limits = [g == cp.multiply(y, H @ q)]
    if cls is MinCq:
        limits += [weight @ g / m == parameter, cp.abs(q) <= 1 / H.shape[1]]
    else:
        limits += [q >= 0]
    if cls in (CqBoost, MDBoost):
        limits += [cp.sum(q) == 1]
    if cls is CqBoost:
        limits += [weight @ g / m >= parameter]
    if cls in (CqBoost, MinCq):
        goal = cp.sum_squares(cp.multiply(np.sqrt(weight / m), g))
    elif cls is MDBoost:  # per example: the constant m in front is no help to a solver
        mean = cp.Variable()
        limits += [mean == weight @ g / m]
        goal = parameter / 2 * m / (m - 1) * cp.sum_squares(
            cp.multiply(np.sqrt(weight / m), g - mean)) - mean  # fmt: skip
    else:
        goal = parameter * weight @ cp.pos(1 - g)
        goal += cp.sum(q) if cls is LPBoost else cp.sum_squares(q) / 2
    with warnings.catch_warnings():  # "may be inaccurate": it only serves as an upper bound then
        warnings.simplefilter("ignore")
        cp.Problem(cp.Minimize(goal), limits).solve(
            solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11, max_iter=200
        )
    return naive_objective(cls, parameter, y, weight, H, q.value)


class Fixed:
    """A classifier fitted elsewhere: the sign of one feature, with labels of its own."""

    classes_ = np.array(["a", "b"])

    def __init__(self, feature, flip=False):
        self.feature, self.flip = feature, flip

    def predict(self, X):
        return self.classes_[((X[:, self.feature] > 0) ^ self.flip).astype(int)]


KINDS = "stumps", "rbf", "linear-classifiers", "linear-functions", "list"


def random_problem(seed):
    """Method, data and parameters: n 20-250, 1 to 60 features, weights by turns, all voters."""
    rng = np.random.default_rng(seed)
    cls, kind = METHODS[seed % 5], KINDS[seed // 5 % 5]
    n = int(rng.integers(20, 90 if kind != "stumps" else 250))
    d = int(rng.integers(1, 12))
    if kind == "list":
        d = int(rng.integers(5, 20))
    if seed >= 100:
        n, d = 150, 60
    X = rng.normal(size=(n, d))
    if seed % 7 == 0:
        X = np.round(2 * X)  # ties, also with the cuts
    if seed % 7 == 1 and d > 1:
        X[:, -1] = 3.0
    truth = X @ rng.normal(size=d)
    y = np.where(truth + rng.normal(size=n) * np.std(truth) * 0.7 > 0, 1.0, -1.0)
    y[:2] = 1, -1
    weight = None
    if seed % 3 == 0:
        weight = rng.uniform(0.2, 3, size=n) * (rng.random(n) > 0.1)
        weight[:2] = 1.0
    params = {"voters": kind, "n_thresholds": int(rng.integers(3, 15))}
    if kind == "list":
        params["voters"] = [Fixed(j, flip=j % 4 == 3) for j in range(d)]
    if kind not in ("stumps", "list"):
        params["gamma"] = float(10 ** rng.uniform(-1, 0.5))
    if (seed % 2 or seed >= 100) and cls is not LPBoost:
        params["master"] = "active-set"
    return cls, X, y, weight, params, rng.uniform()


def outputs(X, params):
    """H, without complements, and whether they belong to the pool."""
    kind = params["voters"]
    if kind == "stumps":
        return naive_stumps(X, params["n_thresholds"]), True
    if isinstance(kind, str):
        return naive_kernel(X, params["gamma"], kind == "linear-classifiers"), True
    return np.array([np.where(v.predict(X) == "b", 1.0, -1.0) for v in kind]).T, False


def choose(cls, spot, y, weight, H, complements):
    """The method's own parameter, at a spot from 0 to 1 of its range, and an eps to match."""
    edges = H.T @ (weight * y) / weight.sum()
    if cls in (CqBoost, MinCq):
        top = np.abs(edges).mean() if cls is MinCq else np.abs(edges).max()
        top = top if complements or cls is MinCq else edges.max()
        mu = float(top * (0.1 + 0.85 * spot))
        return {"mu": mu, "eps": 1e-6 * mu**2}
    if cls is MDBoost:
        return {"D": float(10 ** (2 * spot))}
    return {"C": float(10 ** (3 * spot - 2))}


def wdbc_half():
    """The half of wdbc of the figures in the README."""
    data = datasets.load("wdbc")
    rows = np.random.default_rng(0).permutation(569)[:284]
    return data.X[rows], np.where(data.y[rows] == 1, 1.0, -1.0)


# -- correct: against something that shares no code -----------------------------------------------
@pytest.mark.parametrize("seed", quick(zip([*range(25), 100]), lambda seed: seed < 25))
def test_matches_clarabel_on_all_voters(seed):
    cls, X, y, weight, params, spot = random_problem(seed)
    present = np.ones(len(y)) if weight is None else weight
    rows, labels, counts = X[present > 0], y[present > 0], present[present > 0]
    H, complements = outputs(rows, params)
    own = choose(cls, spot, labels, counts, H, complements)
    model = cls(**own, **params)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "LPBoost: no voter has a weight")
        model.fit(X, y, weight)
    value = next(iter(own.values()))
    votes, q = model.votes(rows), model.weights_
    if model.constant_:
        votes, q = np.zeros((len(rows), 1)), np.zeros(1)
    mine = naive_objective(cls, value, labels, counts, votes, q)
    reference = full_program(cls, value, labels, counts, H, complements)
    assert model.converged_ and model.residual_ <= model.eps
    assert_allclose(mine, model.objective_, rtol=1e-8, atol=1e-12)
    assert_allclose(mine, reference, rtol=1e-6, atol=1e-12)
    gap = model.residual_ * max(1.0, abs(model.objective_))
    assert gap >= mine - reference - 1e-9 * max(mine, 1e-3)
    assert_allclose(model.dual_value_, model.objective_ - gap, rtol=1e-12, atol=1e-15)

    # the constraints, and no voters but those of the pool
    g = labels * (votes @ q)
    first = counts @ g / counts.sum()
    assert (q >= 0).all()
    if cls in (CqBoost, MDBoost):
        assert abs(q.sum() - 1) <= 1e-12
    if cls is CqBoost:
        assert first >= value - 1e-12
    if cls is MinCq:
        assert abs(first - value) <= 1e-12 and q.max() <= (1 + 1e-12) / H.shape[1]
    known = np.hstack([H, -H]) if complements or cls is MinCq else H
    for vote in votes.T if not model.constant_ else ():
        assert np.abs(known - vote[:, None]).max(axis=0).min() <= 1e-12


@pytest.mark.parametrize("master", MASTERS)
def test_wdbc_figures(master):
    """600 stumps: second moments, columns generated, columns with weight."""
    X, y = wdbc_half()
    figures = {0.05: (0.00260983, 216, 190), 0.1: (0.01062351, 149, 139), 0.3: (0.10024134, 75, 72)}
    for mu, (second, generated, columns) in figures.items():
        model = CqBoost(mu=mu, master=master).fit(X, y)
        assert model.n_voters_ == 600
        assert_allclose(model.second_moment_, second, atol=5e-9)
        assert model.n_columns_ == columns
        assert abs(model.n_generated_ - generated) <= 2  # ties between equal edges


def pool_with_ties(seed):
    """Votes of equal, opposite and perfect voters on few rows, labels, weights and edges."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(4, 40)), int(rng.integers(1, 30))
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    H = np.where(rng.random((n, k)) < [0.5, 0.8, 0.95, 1.0][seed % 4], y[:, None], -y[:, None])
    H[:, rng.integers(0, k)] = H[:, 0]
    if seed % 5 == 0:
        H[:, 0] = y
    weight = rng.integers(1, 4, size=n) * 1.0 if seed % 3 else rng.uniform(0.1, 3, size=n)
    return H, y, weight, H.T @ (weight * y) / weight.sum()


@pytest.mark.parametrize("seed", quick(zip(range(20)), lambda seed: seed < 12))
@pytest.mark.parametrize("cls", [CqBoost, MDBoost, MinCq, CGBoost])
def test_masters_agree_on_pools_with_ties(cls, seed):
    """mu from 1 % of its range up to the very limit."""
    H, y, weight, edges = pool_with_ties(seed)
    own = {"D": 20.0} if cls is MDBoost else {"C": 0.3}
    if cls in (CqBoost, MinCq):
        top = edges.max() if cls is CqBoost else np.abs(edges).mean()
        own = {"mu": float(min(top, 1.0) * [0.01, 0.5, 1.0][seed % 3])}
        if own["mu"] <= 0:
            pytest.skip("no mu > 0 is feasible")
    objectives = []
    for master in MASTERS:
        model = cls(voters="votes", master=master, eps=1e-7, **own).fit(H, y, weight)
        assert model.converged_
        objectives.append(model.objective_)
    assert_allclose(objectives, objectives[0], rtol=2e-7, atol=2e-7)


@uncompiled
@pytest.mark.parametrize("cls", METHODS)
@pytest.mark.parametrize("limit", [3, None])
def test_dual_value_follows_from_the_example_weights(cls, limit):
    """The certificate once more: from a alone, over all voters, also if stopped early."""
    X, y = blobs(120, 4, seed=3)
    H, n = naive_stumps(X), len(y)
    own = {CqBoost: {"mu": 0.2}, MinCq: {"mu": 0.1}, MDBoost: {"D": 10.0}}.get(cls, {"C": 0.05})
    (value,) = own.values()
    own |= {} if cls is MinCq else {"max_columns": limit, "complements": True}
    model = cls(voters="votes", **own)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(H, y)
    gap, violation = hard_cqboost.true_gap(model, H, y, np.ones(n))
    assert violation <= 1e-12
    assert_allclose(model.residual_, gap, rtol=1e-9, atol=1e-12)
    expected = model.objective_ - gap * max(1.0, abs(model.objective_))
    assert_allclose(model.dual_value_, expected, rtol=1e-9, atol=1e-12)
    optimum = full_program(cls, value, y, np.ones(n), H)
    assert model.dual_value_ <= optimum + 1e-9 <= model.objective_ + 2e-9
    if limit and cls is not MinCq:
        assert not model.converged_ and model.n_generated_ == 3


def quadratic_program(seed):
    """A program, a feasible x and the size of its entries; singular ones among them, with none, one
    and two constraints."""
    rng = np.random.default_rng(seed)
    k, R = int(rng.integers(2, 25)), seed % 3
    root = rng.normal(size=(int(rng.integers(1, 2 * k)), k))
    x = rng.uniform(-0.5, 0.5, size=k)
    rows = rng.normal(size=(R, k)) * 10.0 ** rng.integers(-4, 3)
    value = rows @ x - (np.arange(R) == 1) * 0.3 * np.abs(rows).max(initial=0)
    scale = 10.0 ** rng.integers(-4, 3)
    P, c = root.T @ root * scale, rng.normal(size=k) * scale
    low, high = -np.ones(k), rng.uniform(0.5, 2, size=k)
    return cqboost._Program(P, c, rows, value, R == 2, low, high), x, scale


def clarabel_program(program, scale):
    cp = pytest.importorskip("cvxpy")
    P, c, rows, value, at_least, low, high = program
    x = cp.Variable(c.size)
    limits = [x >= low, x <= high]
    size = np.abs(rows).max(axis=1, initial=1e-300)
    for r in range(len(rows)):
        one, other = (rows[r] / size[r]) @ x, value[r] / size[r]
        limits.append(one >= other if at_least and r == len(rows) - 1 else one == other)
    goal = cp.quad_form(x, cp.psd_wrap(P / scale)) / 2 + c / scale @ x
    cp.Problem(cp.Minimize(goal), limits).solve(
        solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11
    )
    return goal.value * scale


@uncompiled
@pytest.mark.parametrize("seed", range(30))
def test_masters_solve_quadratic_programs(seed):
    program, x, scale = quadratic_program(seed)
    P, c, rows, value, at_least, low, high = program
    k, R = c.size, len(rows)
    best = clarabel_program(program, scale)
    own = cqboost._Osqp().search(program, k, x)
    assert abs(own @ P @ own / 2 + c @ own - best) <= 1e-4 * scale  # before anyone mends it
    for master in (cqboost._Osqp, cqboost._ActiveSet):
        now = x.copy()
        master().solve(program, k, now)
        assert (now >= low).all() and (now <= high).all()
        slack = (rows @ now - value) / np.abs(rows).max(axis=1, initial=1e-300)
        assert (np.abs(slack[: 1 if at_least else R]) <= 1e-9).all() and (slack >= -1e-9).all()
        assert abs(now @ P @ now / 2 + c @ now - best) <= 1e-8 * scale


@uncompiled
@pytest.mark.parametrize("seed", range(12))
def test_active_set_from_any_start_and_in_pieces(seed, monkeypatch):
    """The free variables, their Cholesky factor and the gradient are those of the minimum."""
    program, x, scale = quadratic_program(3 * seed)
    program = program._replace(P=program.P + scale * np.eye(x.size))
    P, c, low, high = program.P, program.c, program.low, program.high
    found = []
    for work, start in ((10**8, x), (1, x), (1, np.where(np.arange(c.size) % 2, low, high))):
        monkeypatch.setattr(cqboost, "WORK", work)
        master, now = cqboost._ActiveSet(), start.copy()
        assert not master.solve(program, c.size, now)
        free = np.sort(master.free[: master.count])
        assert_array_equal(free, np.flatnonzero((low < now) & (now < high)))
        order = master.free[: master.count]
        L = np.tril(master.L[: master.count, : master.count])
        assert_allclose(L @ L.T, P[np.ix_(order, order)], rtol=1e-6, atol=1e-9 * scale)
        gradient = P @ now + c
        assert np.abs(gradient[free]).max(initial=0) <= 1e-9 * scale * c.size
        assert (gradient[now == low] >= 0).all() and (gradient[now == high] <= 0).all()
        found.append(now)
    assert_allclose(found[1], found[0], atol=1e-9)
    assert_allclose(found[2], found[0], atol=1e-9)
    monkeypatch.setattr(cqboost, "WORK", 1)
    seen, now = [], x.copy()
    stopped = cqboost._ActiveSet().solve(program, c.size, now, lambda: seen.append(1) or True)
    assert stopped == bool(seen) and len(seen) <= 1


@uncompiled
def test_factor_grows_and_shrinks():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(12, 9))
    P, L, free = root.T @ root, np.zeros((9, 9)), np.empty(9, np.intp)
    leave = from_python(cqboost._cholesky_delete)
    for count, j in enumerate((3, 0, 7, 5, 2)):
        cqboost._cholesky_append(P, L, free, count, j, 0.0)
    for place, left in ((1, [3, 7, 5, 2]), (3, [3, 7, 5]), (0, [7, 5])):
        leave(L, free, len(left) + 1, place)
        assert_array_equal(free[: len(left)], left)
        lower = np.tril(L[: len(left), : len(left)])
        assert_allclose(lower @ lower.T, P[np.ix_(left, left)], rtol=1e-12)
    cqboost._cholesky_append(P, L, free, 2, 5, 1e-3)  # variable 5 again: only the ridge remains
    assert_allclose(L[2, 2], math.sqrt(1e-3), rtol=1e-6)
    for count, j in enumerate((4, 1, 8)):  # the ridge is on the diagonal of every variable
        cqboost._cholesky_append(P, L, free, count, j, 0.5)
    lower = np.tril(L[:3, :3])
    expected = P[np.ix_([4, 1, 8], [4, 1, 8])] + 0.5 * np.eye(3)
    assert_allclose(lower @ lower.T, expected, rtol=1e-12)
    indefinite = np.array([[1.0, 1.0], [1.0, 0.999]])  # by more than the ridge: it is all there is
    for count in range(2):
        cqboost._cholesky_append(indefinite, L, free, count, count, 1e-6)
    assert L[1, 1] == 1e-3
    z, lower = rng.normal(size=2), np.tril(L[:2, :2])
    forward, backward = z.copy(), z.copy()
    from_python(cqboost._forward)(L, forward, 2)
    from_python(cqboost._backward)(L, backward, 2)
    assert_allclose(forward, np.linalg.solve(lower, z))
    assert_allclose(backward, np.linalg.solve(lower.T, z))


@uncompiled
def test_constraint_multipliers():
    rng = np.random.default_rng(1)
    multipliers = from_python(cqboost._constraint_multipliers)
    for W in (0, 1, 2):
        Z, lam = rng.normal(size=(W + 1, 6)), np.full(W + 1, 7.0)
        multipliers(Z, W, W, 5, lam)
        assert lam[W] == 0.0
        expected = np.linalg.lstsq(Z[:W, :5].T, Z[W, :5], rcond=None)[0]
        assert_allclose(lam[:W], expected, rtol=1e-9)
    Z[1] = 2.0 * Z[0] + 1e-7 * Z[1]  # parallel but for rounding: they count as one
    multipliers(Z, 2, 2, 5, lam)
    assert lam[1] == 0.0
    assert_allclose(lam[0], Z[0, :5] @ Z[2, :5] / (Z[0, :5] @ Z[0, :5]), rtol=1e-12)


@uncompiled
def test_entering_voter():
    edges = np.array([0.1, 0.7, 0.7 * (1 + 1e-14), 0.9, -2.0, 0.7])
    inside = np.array([False, False, False, True, False, False])
    assert cqboost._entering_voter(edges, inside) == 1  # the first of those equal up to rounding
    assert cqboost._entering_voter(edges, inside | (np.arange(6) == 1)) == 2
    assert cqboost._entering_voter(edges, np.ones(6, np.bool_)) == -1


@uncompiled
def test_price_is_the_definition():
    """Moments, multipliers and edges from products alone, against the margins themselves."""
    rng = np.random.default_rng(2)
    n, k = 30, 8
    H, y = rng.uniform(-1, 1, size=(n, k)), np.where(np.arange(n) % 2, 1.0, -1.0)
    v = rng.random(n)
    v /= v.sum()
    base, signs = np.array([2, 5, 0]), np.array([1.0, -1.0, 1.0])
    q = np.array([0.5, 0.2, 0.3])
    first, gram = H.T @ (v * y), signs[:, None] * (H[:, base].T @ (v[:, None] * H))
    e, g = signs * first[base], y * ((H[:, base] * signs) @ q)
    for D, floor in ((0.0, -0.05), (3.0, -np.inf)):
        edges = np.empty(2 * k)
        mean, second, b, t, nu = cqboost._price(q, gram, base, signs, e, first, floor, D, edges)
        assert_allclose([mean, second], [v @ g, v @ g**2], rtol=1e-12)
        a = v * (b - t * g)
        assert_allclose(edges, np.concatenate([H.T @ (a * y), -H.T @ (a * y)]), atol=1e-12)
        assert t == (D or 2.0)
        expected = b * floor - 2 * second if D == 0 else v @ g - D * (second - mean**2)
        assert_allclose(nu, expected, rtol=1e-12)
        if D:
            assert_allclose(b, 1 + D * mean)


@uncompiled
def test_osqp_answers_are_made_feasible():
    """... or not used at all, where no feasible point is near."""
    low, high, rows = np.zeros(4), np.full(4, np.inf), np.array([[1.0] * 4, [0.3, 0.2, 0.1, 0.0]])
    x, value = np.array([1.0, 0, 0, 0]), np.array([1.0, 0.2])
    program = cqboost._Program(np.eye(4), np.zeros(4), rows, value, True, low, high)
    goal = np.array([0.5, 0.3, 0.2 + 1e-8, -1e-9])
    near = cqboost._repair_feasibility(x, goal, program)
    assert near[3] == 0.0 and near.min() >= 0 and abs(near.sum() - 1) <= 1e-14
    assert_allclose(near, goal, atol=1e-7)
    short = np.array([0.2, 0.4 - 1e-8, 0.4, 0.0])  # below the floor: it comes up to it
    near = cqboost._repair_feasibility(x, short, program._replace(rhs=np.array([1.0, 0.18])))
    assert abs(rows[1] @ near - 0.18) <= 1e-14 and abs(near.sum() - 1) <= 1e-14
    far = np.array([0.9, 0, 0, 0])  # the one variable that may move cannot make up for two rows
    assert_array_equal(cqboost._repair_feasibility(x, far, program._replace(at_least=False)), x)


class FakeOsqp:
    """An OSQP that ends with a status, after `late` slices in which it did not do a step."""

    SolverStatus = cqboost._Osqp().osqp.SolverStatus

    def __init__(self, status, late=0, x=4.0):
        self.status = status
        self.late = late
        self.x = np.full(2, x)
        self.y = np.zeros(3)
        self.limits = []

    def OSQP(self):
        return self

    def setup(self, *args, **settings):
        self.limits += [settings["time_limit"]] if "time_limit" in settings else []

    warm_start = update_settings = setup

    def solve(self, raise_error):
        self.late -= 1
        self.iter = int(self.late < 0)
        waits = self.SolverStatus.OSQP_TIME_LIMIT_REACHED
        self.status_val = waits if self.late >= 0 else self.status
        self.status_polish = 0
        self.info = self
        return self

    def answer(self):
        master = cqboost._Osqp()
        master.osqp = self
        return master._run(None, None, None, np.zeros(3), None, None)


@uncompiled
@pytest.mark.parametrize("status", FakeOsqp.SolverStatus, ids=lambda status: status.name)
def test_every_status_of_osqp(status):
    """An answer counts where OSQP came near a solution, and Ctrl-C is an interrupt."""
    solver = FakeOsqp(status)
    if status.name == "OSQP_SIGINT":
        with pytest.raises(KeyboardInterrupt):
            solver.answer()
        return
    near = ("SOLVED", "SOLVED_INACCURATE", "MAX_ITER_REACHED", "TIME_LIMIT_REACHED")
    found = solver.answer()
    if status.name.removeprefix("OSQP_") in near:
        assert_array_equal(found, [4.0, 4.0])
        assert FakeOsqp(status, x=np.nan).answer() is None
    else:
        assert found is None


@uncompiled
def test_slices_of_osqp_get_longer_where_it_comes_to_no_step():
    solver = FakeOsqp(FakeOsqp.SolverStatus.OSQP_SOLVED, late=3)
    assert_array_equal(solver.answer(), [4.0, 4.0])
    assert solver.limits == [cqboost.POLL_SECONDS * scale for scale in (1, 2, 4, 8, 1)]


@uncompiled
def test_osqp_where_signals_cannot_wait(monkeypatch):
    program, x, scale = quadratic_program(2)
    monkeypatch.delattr(signal, "pthread_sigmask", raising=False)
    cqboost._Osqp().solve(program, x.size, x)
    best = clarabel_program(program, scale)
    assert abs(x @ program.P @ x / 2 + program.c @ x - best) <= 1e-8 * scale


@uncompiled
def test_failure_of_linprog(monkeypatch):
    optimize = pytest.importorskip("scipy.optimize")
    failed = optimize.OptimizeResult(x=None, status=4, message="numerical difficulties")
    monkeypatch.setattr(optimize, "linprog", lambda *args, **options: failed)
    with pytest.raises(RuntimeError, match=r"status 4 \(numerical difficulties\); scale C"):
        LPBoost(C=0.05).fit(*blobs(60, 3))


@uncompiled
def test_a_start_with_dependent_variables():
    """The matrix of the free variables is a little indefinite: they join one by one."""
    root = np.random.default_rng(0).normal(size=(2, 8))
    P = root.T @ root - 1e-9 * np.eye(8)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(P)
    master = cqboost._ActiveSet()
    master.free, master.L = np.empty(8, np.intp), np.zeros((8, 8))
    master._factorise(np.arange(8), P, 1e-12)
    L = np.tril(master.L)
    assert master.count == 8 and (L.diagonal() >= 1e-6 * (1 - 1e-12)).all()
    assert_allclose((L @ L.T)[:2, :2], P[:2, :2], rtol=1e-9)


@uncompiled
@pytest.mark.parametrize("square", [0.0, 1.0])
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("size", [(40, 6), (20, 45)])
def test_interior_point(square, pairs, size):
    """On its own, against Clarabel: value, weights and multipliers."""
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(3)
    A = np.where(rng.random(size) < 0.6, 1.0, -1.0)
    cost = rng.uniform(0.1, 2, size=size[0])
    both = np.hstack([A, -A]) if pairs else A
    w = cp.Variable(both.shape[1], nonneg=True)
    goal = cost @ cp.pos(1 - both @ w) + (cp.sum_squares(w) / 2 if square else cp.sum(w))
    cp.Problem(cp.Minimize(goal)).solve(solver="CLARABEL", tol_gap_rel=1e-11, tol_gap_abs=1e-11)
    gaps = []

    def watch(a, q):
        assert (a > 0).all() and (a < cost).all()
        edges = np.maximum(a @ both, 0)
        dual = a.sum() - edges @ edges / 2 if square else a.sum() / max(1, edges.max())
        gaps.append(goal.value - dual)
        return gaps[-1] <= 1e-8

    a, q = cqboost._InteriorPoint(A, cost, square, pairs).solve(watch)
    assert 3 < len(gaps) <= 12 and -1e-7 <= gaps[-1] <= 1e-8  # twice as many without corrector
    if square and pairs:
        q = np.concatenate([np.maximum(q, 0), np.maximum(-q, 0)])
    value = cost @ np.maximum(1 - both @ q, 0) + (q @ q / 2 if square else q.sum())
    assert_allclose(value, goal.value, rtol=1e-5)


@uncompiled
def test_bins_of_any_numbers():
    """... among them such that the cuts overflow, coincide or lie at the values themselves."""
    rng = np.random.default_rng(0)
    columns = [
        rng.normal(size=40), rng.integers(0, 12, size=40) * 1.0, np.repeat([0.0, 5e-324], 20),
        np.repeat([-1.7e308, 1.7e308], 20), np.repeat([1.0, 1.0 + 2.0**-52], 20),
        rng.normal(size=40) * 1e300,
    ]  # fmt: skip
    X = np.column_stack(columns)
    for n_thresholds, threads in ((1, 1), (10, 1), (10, 3), (255, 1)):
        pool = stumps(X, n_thresholds, threads)
        cuts = pool.cuts.reshape(-1, n_thresholds)
        for f, values in enumerate(columns):
            assert_array_equal(pool.bins[:, f], [(x > cuts[f]).sum() for x in values])


@uncompiled
def test_argmin_max_of_lines():
    rng = np.random.default_rng(0)
    argmin = from_python(cqboost._argmin_max_of_lines)
    for _ in range(200):
        slope, offset = rng.normal(size=8).round(1), rng.normal(size=8).round(1)
        slope[rng.integers(8)] = 1.0
        b = argmin(slope, offset)
        crossings = [0.0]
        for i in range(8):
            for j in range(8):
                if slope[i] != slope[j]:
                    crossings.append((offset[i] - offset[j]) / (slope[j] - slope[i]))
        best = min((slope * t + offset).max() for t in crossings if t >= 0)
        assert b >= 0
        assert_allclose((slope * b + offset).max(), best, atol=1e-12)


# -- bounds of the risk ---------------------------------------------------------------------------
def naive_bounds(margins, KL, delta):
    """Theorem 2 as printed, with kl inverted, and twice the Gibbs risk: three bounds."""
    optimize = pytest.importorskip("scipy.optimize")
    m = len(margins)
    mu_1 = sum(margins) / m
    mu_2 = sum(g * g for g in margins) / m
    rest = math.log(2 * math.sqrt(m) / (delta / 2))
    low = mu_1 - math.sqrt(2 / m * (KL + rest))
    high = mu_2 + math.sqrt(2 / m * (2 * KL + rest))
    printed = 1 - max(0, low) ** 2 / min(1, high)

    def kl(p, r):
        return sum(a * math.log(a / b) for a, b in ((p, r), (1 - p, 1 - r)) if a > 0)

    def inverse(p, bound, end):
        if kl(p, end) <= bound:
            return end
        return optimize.brentq(lambda r: kl(p, r) - bound, p, end, xtol=1e-14)

    gibbs = inverse((1 - mu_1) / 2, (KL + rest) / m, 1 - 1e-15)
    differ = inverse((1 - mu_2) / 2, (2 * KL + rest) / m, 1e-300)
    inverted = 1 - max(0, 1 - 2 * gibbs) ** 2 / (1 - 2 * differ)
    return printed, inverted, min(1, 2 * gibbs)


@pytest.mark.parametrize(
    "cls, voters",
    quick(
        itertools.product(METHODS, cqboost.GENERATED),
        lambda cls, voters: cls is not MinCq or voters == "stumps",
    ),
)
def test_bounds(cls, voters):
    X, y = blobs(600, 2, distance=4.0)
    own = {"mu": 0.2} if cls in (CqBoost, MinCq) else {}
    model = cls(voters=voters, gamma=0.1, **own)
    model.fit(X[:300], y[:300], independent_voters=True)
    margins = list(model.margins(X[:300], y[:300]))
    assert_allclose(model.first_moment_, np.mean(margins), rtol=1e-10)
    assert_allclose(model.second_moment_, np.mean(np.square(margins)), rtol=1e-10)
    assert_allclose(model.c_bound(), 1 - np.mean(margins) ** 2 / np.mean(np.square(margins)))
    n = 2 * (20 if voters == "stumps" else 300)
    assert model.n_voters_ == n
    shares = list(model.weights_ / model.weights_.sum())
    if cls is MinCq:  # the posterior is on both of each pair
        w = np.zeros(n // 2)
        w[: len(model.weights_)] = model.weights_
        shares = [*(1 / n + w / 2), *(1 / n - w / 2)]
        assert_allclose(sum(shares), 1)
    KL = sum(q * math.log(q * n) for q in shares if q > 0)
    KL = 0.5 if voters.startswith("linear") else KL
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\], got 0"):
        model.pac_bayes_bound(0)
    if voters == "linear-functions":
        with pytest.warns(UserWarning, match="no PAC-Bayes bound: linear functions are not"):
            assert math.isnan(model.pac_bayes_bound())
        return
    for delta in (0.01, 0.05, 1.0):
        printed, inverted, twice = naive_bounds(margins, KL, delta)
        assert_allclose(model.pac_bayes_bound(delta), min(inverted, twice), rtol=1e-9)
        assert model.c_bound() <= inverted <= printed + 1e-12
    assert 1 - model.score(X[300:], y[300:]) <= model.pac_bayes_bound()
    assert model.facts()["PAC-Bayes bound"] == model.pac_bayes_bound()
    model.fit(X[:300], y[:300])
    if voters == "linear-classifiers":  # the prior is a Gaussian at 0, whatever the rows
        assert model.pac_bayes_bound() <= 1
        model.set_params(gamma="scale").fit(X[:300], y[:300])  # but not with this kernel
    with pytest.warns(UserWarning, match=r"may depend on .*fit\(X, y, independent_voters=True\)"):
        assert math.isnan(model.pac_bayes_bound())
    (name,) = [name for name in model.facts() if "the voters may depend on the rows" in name]
    assert math.isnan(model.facts()[name])
    model.fit(X, y, np.where(np.arange(600) < 300, 1.0, 2.0), independent_voters=True)
    with pytest.warns(UserWarning, match="the rows have unequal weights"):
        assert math.isnan(model.pac_bayes_bound())


def test_the_bound_can_be_far_below_one():
    X, y = blobs(20_000, 1, distance=6.0)
    model = CqBoost(mu=0.9, master="active-set").fit(X, y, independent_voters=True)
    assert model.c_bound() < 0.01
    KL = model.weights_ @ np.log(model.weights_ * model.n_voters_)
    _, inverted, twice = naive_bounds(model.margins(X, y), KL, 0.05)
    assert inverted < 0.1 < twice
    assert_allclose(model.pac_bayes_bound(), inverted, rtol=1e-9)
    assert model.pac_bayes_bound(0.5) < model.pac_bayes_bound(0.05)


# -- shaped like the mathematics ------------------------------------------------------------------
@uncompiled
@pytest.mark.parametrize("cls", METHODS)
@pytest.mark.parametrize("voters", ["stumps", "rbf"])
def test_weight_two_is_the_row_twice(cls, voters):
    X, y = blobs(60, 3, seed=1)
    weight = np.arange(60) % 3 * 1.0
    twice = np.repeat(np.arange(60), weight.astype(int))
    params = {"voters": voters, "eps": 1e-9, **({"mu": 0.1} if cls in (CqBoost, MinCq) else {})}
    if cls in (MinCq, CGBoost) and voters == "rbf":
        pytest.skip("a row twice is also a voter twice: a narrower box, a cheaper square")
    one, two = cls(**params).fit(X, y, weight), cls(**params).fit(X[twice], y[twice])
    assert_allclose(one.objective_, two.objective_, rtol=1e-7)
    if cls is not LPBoost:  # whose optimum need not be unique
        assert_allclose(one.decision_function(X[twice]), two.decision_function(X[twice]), atol=1e-5)
    assert (one.example_weights_[weight == 0] == 0).all()
    g = one.margins(X[twice], y[twice])
    assert_allclose([one.first_moment_, one.second_moment_], [g.mean(), (g**2).mean()], rtol=1e-9)
    assert_allclose(one.c_bound(), 1 - g.mean() ** 2 / (g**2).mean(), rtol=1e-9)
    assert abs(g.mean() - one.margins(X, y).mean()) > 1e-4  # without weights the moments differ


@pytest.mark.parametrize("cls", METHODS)
def test_invariances(cls):
    X, y = blobs(150, 4, seed=2)
    X = X.round(3)
    own = {"mu": 0.1} if cls in (CqBoost, MinCq) else {}
    model = cls(**own).fit(X, y)
    # sums of whole numbers are exact: the order of the rows leaves no trace
    order = np.random.default_rng(0).permutation(150)
    if cls not in (LPBoost, CGBoost):
        assert_array_equal(cls(**own).fit(X[order], y[order]).weights_, model.weights_)
    flipped = cls(**own).fit(X, -y)
    assert_allclose(flipped.objective_, model.objective_, rtol=1e-6)
    moved = cls(**own).fit(4 * X + 8, y)  # exact: the cuts move along
    assert_allclose(moved.objective_, model.objective_, rtol=1e-6)
    if cls is not LPBoost:
        assert_allclose(flipped.decision_function(X), -model.decision_function(X), atol=1e-5)
        assert_allclose(moved.decision_function(4 * X + 8), model.decision_function(X), atol=1e-5)
    if cls is not CGBoost:
        assert (np.diff(model.trace_) <= 1e-9 * np.abs(model.trace_[1:])).all()


@pytest.mark.parametrize("D", [1.0, 10.0, 100.0])
def test_mdboost_is_cqboost_at_its_own_mean(D):
    """Least variance at a given mean, either way: one family, two knobs."""
    X, y = wdbc_half()
    one = MDBoost(D=D, eps=1e-10, master="active-set").fit(X, y)
    two = CqBoost(mu=one.first_moment_ * (1 - 1e-12), eps=1e-10, master="active-set").fit(X, y)
    assert_allclose(one.margins(X, y), two.margins(X, y), atol=1e-6)


# -- well behaved ---------------------------------------------------------------------------------
@uncompiled
@pytest.mark.parametrize("master", MASTERS)
def test_voters_that_interpolate(master):
    """Each voter errs on one row of its own."""
    y = np.where(np.arange(24) % 3 == 0, 1.0, -1.0)
    interpolating = np.where(np.eye(24) > 0, -1.0, 1.0) * y[:, None]
    model = CqBoost(mu=0.3, voters="votes", master=master).fit(interpolating, y)
    assert_allclose(model.margins(interpolating, y), 22 / 24)  # less is not possible here
    model.set_params(complements=True).fit(interpolating, y)
    assert_allclose(model.margins(interpolating, y), 0.3, atol=1e-6)  # now all margins equal mu
    assert_allclose(model.example_weights_, 0, atol=1e-6)
    assert_allclose(model.c_bound(), 0, atol=1e-9)
    perfect = CqBoost(mu=1.0, voters="votes", master=master)
    assert perfect.fit(np.column_stack([interpolating, y]), y).n_columns_ == 1


@uncompiled
@pytest.mark.parametrize("master", MASTERS)
def test_the_whole_range_of_mu(master):
    X, y = blobs(50, 3, seed=4)
    H = naive_stumps(X)
    edges = H.T @ y / 50
    best, mean = np.abs(edges).max(), np.abs(edges).mean()
    assert_allclose(CqBoost(mu=best, master=master).fit(X, y).first_moment_, best, rtol=1e-9)
    model = MinCq(mu=mean * (1 - 1e-12), master=master).fit(X, y)
    assert_allclose(model.weights_, 1 / H.shape[1], rtol=1e-6)
    for cls in (CqBoost, MinCq):
        text = rf"{cls.__name__}: mu=0.9 is infeasible.*choose mu in \(0, 0\."
        with pytest.raises(ValueError, match=text):
            cls(mu=0.9, master=master).fit(X, y)
        with pytest.raises(ValueError, match="is infeasible.*pass better voters"):
            cls(mu=0.1, voters="votes").fit(np.ones((8, 2)), np.where(np.arange(8) % 2, 1, -1))


@uncompiled
@pytest.mark.parametrize("cls", METHODS)
def test_constant_features(cls):
    X, y = blobs(40, 2)
    wide = np.column_stack([np.full(40, 7.0), X, np.zeros(40)])
    own = {"mu": 0.1} if cls in (CqBoost, MinCq) else {}
    one, two = cls(**own).fit(X, y), cls(**own).fit(wide, y)
    assert_array_equal(one.decision_function(X), two.decision_function(wide))
    assert_array_equal(one.features_ + 1, two.features_)
    with pytest.raises(ValueError, match=r"all 2 feature\(s\) are constant, which leaves no"):
        cls(**own).fit(np.ones((40, 2)), y)


@uncompiled
def test_no_vote_at_small_C():
    X, y = blobs(60, 2)
    y[:20] = 1
    best = np.abs(naive_stumps(X).T @ y).max()
    with pytest.warns(ConvergenceWarning, match="majority class 1 is predicted; choose C >= 0.0"):
        model = LPBoost(C=0.99 / best).fit(X, y)
    assert (model.predict(X) == 1).all() and model.n_columns_ == 0 and model.converged_
    assert_allclose(model.objective_, 60 * 0.99 / best)
    model.independent_voters_ = True
    assert model.pac_bayes_bound() == 1.0
    with pytest.warns(ConvergenceWarning, match="majority class -1 is predicted"):
        assert (LPBoost(C=0.99 / best).fit(X, -y).predict(X) == -1).all()
    assert LPBoost(C=1.01 / best).fit(X, y).n_columns_ >= 1
    with pytest.warns(ConvergenceWarning, match="majority class -1 is predicted"):  # by weight
        model = LPBoost(C=1e-5).fit(X, y, np.where(y > 0, 1.0, 5.0))
    assert_allclose(model.first_moment_, (5 * (y < 0) - (y > 0)).sum() / (3 - 2 * y).sum())
    with pytest.warns(ConvergenceWarning, match="CGBoost: no voter .*; pass better voters"):
        CGBoost(voters=[Fixed(0, flip=True)]).fit(*blobs(60, 2))


@uncompiled
@pytest.mark.parametrize("cls", [CqBoost, MDBoost, LPBoost, CGBoost])
def test_stopped_early_the_vote_is_valid(cls):
    X, y = blobs(100, 4)
    with pytest.warns(ConvergenceWarning, match=r"4 columns and residual .*raise max_columns=4"):
        model = cls(max_columns=4).fit(X, y)
    assert model.n_generated_ == 4 and len(model.weights_) <= 4 and not model.converged_
    assert model.score(X, y) > 0.7
    if cls is CqBoost:
        assert model.first_moment_ >= 0.1 - 1e-12
    seen = []

    def stop(model, iteration, info):
        seen.append((iteration, sorted(info)))
        return iteration == 2

    with pytest.warns(ConvergenceWarning, match="residual"):
        model = cls(callback=stop).fit(X, y)
    assert seen == [(i, ["columns", "objective", "residual"]) for i in (1, 2)]
    assert model.n_iter_ == len(model.trace_) == 2 and model.score(X, y) > 0.7


def test_list_of_voters():
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y = blobs(300, 4)
    names = np.where(y > 0, "up", "down")
    forest = ensemble.RandomForestClassifier(30, max_depth=3, random_state=0)
    trees = forest.fit(X[:100], names[:100]).estimators_
    for cls in METHODS:
        own = {"mu": 0.3} if cls in (CqBoost, MinCq) else {}
        model = cls(voters=trees, **own).fit(X[100:], names[100:])
        assert model.n_voters_ == 30 * (2 if cls is MinCq else 1)
        assert set(model.predict(X)) == {"up", "down"} and model.score(X, names) > 0.6
    assert CqBoost(voters=trees, complements=True).fit(X, y).n_voters_ == 60
    with pytest.raises(ValueError, match="voter 0 of the list must be a classifier fitted on two"):
        CqBoost(voters=[ensemble.RandomForestClassifier()]).fit(X, y)


@uncompiled
def test_without_osqp(monkeypatch):
    X, y = blobs(100, 3)
    monkeypatch.setitem(sys.modules, "osqp", None)
    with pytest.raises(ImportError, match="pip install osqp, or take master='active-set'"):
        CqBoost(master="osqp").fit(X, y)
    for cls in (CqBoost, MinCq, MDBoost, CGBoost):
        assert cls().fit(X, y).converged_  # auto needs OSQP only where the active set fails


# -- voters of any kind ---------------------------------------------------------------------------
@uncompiled
def test_votes_probabilities_and_functions():
    """One pool in every form: members, pairs with columns, a frame, a function, a matrix."""
    pytest.importorskip("sklearn")
    from sklearn.ensemble import BaggingClassifier
    from sklearn.linear_model import LogisticRegression

    X, y = blobs(400, 6)
    bagging = BaggingClassifier(LogisticRegression(), 12, max_features=0.5, random_state=0)
    bagging.fit(X[:200], y[:200])
    voters = list(zip(bagging.estimators_, bagging.estimators_features_, strict=True))
    X, y = X[200:], y[200:]
    soft = np.column_stack([m.predict_proba(X[:, part])[:, 1] for m, part in voters])
    hard = np.where(soft > 0.5, 1.0, -1.0)
    for cls in METHODS:
        own = {"mu": 0.3} if cls in (CqBoost, MinCq) else {}
        for voting, H in (("hard", hard), ("soft", soft)):
            given = cls(voters="votes", voting=voting, **own).fit(H, y)
            outputs = 2 * H - 1 if voting == "soft" else H
            assert_array_equal(given.votes(H), outputs[:, given.members_] * given.signs_)
            value = own.get("mu", getattr(given, "D", None) or getattr(given, "C", None))
            optimum = full_program(cls, value, y * 1.0, np.ones(200), outputs, complements=False)
            assert_allclose(given.objective_, optimum, rtol=1e-5)
            for same in (voters, lambda _, H=H: H):
                other = cls(voters=same, voting=voting, **own).fit(X, y)
                assert_allclose(other.decision_function(X), given.decision_function(H), atol=1e-9)
    wrong = [
        ({"voters": "votes"}, 3 * hard, "voting='hard' takes votes from -1 to 1, got -?3.0 in"),
        ({"voters": "votes", "voting": "soft"}, hard, "takes probabilities from 0 to 1, got -1.0"),
        ({"voters": bagging.estimators_}, X, "voter 0 .* takes 3 features, not 6: pass .voter"),
        ({"voters": lambda X: X[:, 0]}, hard, r"got shape \(200,\)"),
        ({"voters": [Fixed(0)], "voting": "soft"}, X, "voter 0 of the list has no predict_proba"),
    ]
    for params, rows, text in wrong:
        with pytest.raises(ValueError, match=text):
            CqBoost(**params).fit(rows, y)


@uncompiled
def test_frames_and_pipelines_as_voters():
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("sklearn")
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder
    from sklearn.tree import DecisionTreeClassifier

    X, y = blobs(300, 3)
    frame = pandas.DataFrame(X, columns=["a", "b", "c"], index=np.arange(300) * 7 + 5)
    frame["town"] = np.where(X[:, 0] > 0, "Bern", "Wien")
    encode = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    tree = make_pipeline(encode, DecisionTreeClassifier(max_depth=2)).fit(frame[:100], y[:100])
    named = LogisticRegression().fit(frame[["b", "a"]][:100], y[:100])
    plain = LogisticRegression().fit(X[:100, 1:], y[:100])
    voters = [tree, named, (plain, [1, 2])]
    votes = tree.predict(frame), named.predict(frame[["b", "a"]]), plain.predict(X[:, 1:])
    H = np.column_stack(votes)[100:]
    for cls in METHODS:
        own = {"mu": 0.2} if cls in (CqBoost, MinCq) else {}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = cls(voters=voters, **own).fit(frame[100:], y[100:])
            decision = model.decision_function(frame[100:])
        given = cls(voters="votes", **own).fit(H, y[100:])
        assert_allclose(decision, given.decision_function(H), atol=1e-12)
        weight = (np.arange(200) % 3).astype(float)
        decision = model.fit(frame[100:], y[100:], weight).decision_function(frame[100:])
        given.fit(H, y[100:], weight)
        assert_allclose(decision, given.decision_function(H), atol=1e-12)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"a": "z"}))


# -- sample weights -------------------------------------------------------------------------------
@uncompiled
def test_mdboost_takes_weights_of_any_scale():
    X, y = blobs(80, 3)
    plain = MDBoost(eps=1e-10).fit(X, y)
    for scale in (1 / 80, 0.5, 1e-9):  # like the rows once
        model = MDBoost(eps=1e-10).fit(X, y, np.full(80, scale))
        assert_allclose(model.decision_function(X), plain.decision_function(X), atol=1e-9)
        assert_allclose(model.objective_, scale * plain.objective_, rtol=1e-9)


def test_the_named_C_is_enough():
    for seed in range(5):
        X, y = blobs(40 + seed, 2, seed=seed)
        with pytest.warns(ConvergenceWarning, match="choose C >= ") as caught:
            LPBoost(C=1e-4).fit(X, y)
        C = float(str(caught[0].message).rpartition(">= ")[2])
        assert LPBoost(C=C).fit(X, y).n_columns_ >= 1
        with pytest.warns(ConvergenceWarning, match="choose C >= "):
            LPBoost(C=C * (1 - 1e-4)).fit(X, y)


# -- more voters than rows, and the edge of feasibility -------------------------------------------
@uncompiled
@pytest.mark.parametrize("master", MASTERS)
def test_mincq_takes_the_optimum_of_least_norm(master):
    """15 rows and 150 voters: of all optima the one that a permutation of the voters keeps."""
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(0)
    y = np.where(np.arange(15) % 2, 1.0, -1.0)
    H = np.where(rng.random((15, 150)) < 0.6, y[:, None], -y[:, None])
    model = MinCq(mu=0.1, voters="votes", master=master).fit(H, y)
    assert_allclose(model.objective_, full_program(MinCq, 0.1, y, np.ones(15), H), rtol=1e-6)
    mine, w = np.zeros(150), cp.Variable(150)  # 150 times the weights
    mine[model.members_] = 150 * model.weights_ * model.signs_
    limits = [cp.abs(w) <= 1, H @ w == H @ mine]  # only the margins are unique
    cp.Problem(cp.Minimize(cp.sum_squares(w)), limits).solve(solver="CLARABEL")
    assert_allclose(mine, w.value, atol=1e-5)
    order = rng.permutation(150)
    other = MinCq(mu=0.1, voters="votes", master=master).fit(H[:, order], y)
    new = np.where(rng.random((50, 150)) < 0.5, 1.0, -1.0)
    assert_allclose(other.decision_function(new[:, order]), model.decision_function(new), atol=1e-7)


@uncompiled
def test_balanced_is_the_nearest_point():
    rng = np.random.default_rng(0)
    first, x = rng.normal(size=40), rng.uniform(-0.5, 0.5, size=40)
    x[0] = 1.0  # at its bound: it stays
    free = np.where(np.arange(40) > 0, first, 0.0)
    near = MinCq._balanced(x, first, (first * x).mean() + 1e-3)
    assert_allclose(near, x + 40e-3 / (free @ free) * free, atol=1e-12)


@uncompiled
@pytest.mark.parametrize("cls", [CqBoost, MDBoost, MinCq, CGBoost])
def test_auto_goes_on_with_osqp(cls, monkeypatch):
    """OSQP ends the fit if the active set and the interior point may not do a step."""
    X, y = blobs(60, 3)
    own = {"mu": 0.1} if cls in (CqBoost, MinCq) else {"C": 0.05} if cls is CGBoost else {}
    good = cls(**own).fit(X, y)
    monkeypatch.setattr(cqboost, "PIVOTS", 0)
    monkeypatch.setattr(cqboost, "STEPS", 0)
    monkeypatch.setattr(cqboost, "STALLED_ROUNDS", 0)
    model = cls(eps=1e-5, **own).fit(X, y)
    assert model.converged_
    assert_allclose(model.objective_, good.objective_, rtol=1e-4)
    with pytest.warns(ConvergenceWarning, match="raise eps, or take master='auto'"):
        assert not cls(master="active-set", **own).fit(X, y).converged_


@pytest.mark.parametrize("seed", quick(zip(range(40)), lambda seed: seed < 12))
def test_the_edge_of_feasibility(seed):
    """mu at the limit, up to the last bit; and the limit in a message works as it is printed."""
    H, y, weight, edges = pool_with_ties(seed)
    for cls in (CqBoost, MinCq):
        top = edges.max() if cls is CqBoost else np.abs(edges).mean()
        if top <= 0:
            continue
        for master in MASTERS:
            mu = float(min(1.0, top))
            model = cls(mu=mu, voters="votes", master=master).fit(H, y, weight)
            assert model.converged_
            assert_allclose(model.first_moment_, mu, rtol=1e-9)
        if top * 1.001 < 1:
            with pytest.raises(ValueError, match="choose mu in") as caught:
                cls(mu=float(top * 1.001), voters="votes").fit(H, y, weight)
            limit = float(re.search(r"\(0, (.*)\]", str(caught.value))[1])
            assert top * (1 - 1e-5) <= limit <= top
            assert cls(mu=limit, voters="votes").fit(H, y, weight).converged_


# -- the hard grid --------------------------------------------------------------------------------
@uncompiled
@pytest.mark.parametrize("problem", hard_cqboost.problems()[::5], ids=lambda p: p.name)
def test_hard_problems(problem):
    record = hard_cqboost.check(problem)
    assert record is None or record.honest, record


@uncompiled
def test_the_judge_of_the_grid_can_tell():
    """A vote or example weights that are wrong by a little have a larger gap."""
    for cls in METHODS:
        problem = next(p for p in hard_cqboost.problems() if p.cls is cls and p.pool == "good")
        H, y, weight, model = hard_cqboost.setup(problem)
        model.fit(H, y, weight)
        gap, violation = hard_cqboost.true_gap(model, H, y, weight)
        assert gap <= model.eps and violation <= 1e-11
        model.example_weights_[::2] *= 1.05
        gap, violation = hard_cqboost.true_gap(model, H, y, weight)
        assert gap > model.eps or violation > 1e-9


# -- speed, limits and interrupts -----------------------------------------------------------------
def test_lpboost_has_no_cliff():
    """insurance-num, 9,822 rows, did not end within minutes."""
    data = datasets.load("insurance-num")
    X = datasets.Preprocess("tanh").fit(data.X).transform(data.X)
    start = time.process_time()
    model = LPBoost().fit(X, data.y)
    assert model.converged_ and time.process_time() - start < 10
    assert_allclose(model.objective_, 1173.0540540540542, rtol=1e-8)  # of linprog on all stumps


@uncompiled
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_lpboost_matches_linprog_on_all_voters(C):
    optimize = pytest.importorskip("scipy.optimize")
    X, y = blobs(200, 6)
    H = naive_stumps(X)
    A = y[:, None] * np.hstack([H, -H])
    whole = optimize.linprog(-np.ones(200), A.T, np.ones(A.shape[1]), bounds=(0, C))
    for params in ({}, {"max_columns": A.shape[1]}):  # by the interior point, by columns alone
        model = LPBoost(C=C, **params).fit(X, y)
        assert model.converged_
        assert_allclose(model.objective_, -whole.fun, rtol=1e-6)
        assert model.n_iter_ < 60
    assert model.n_generated_ < A.shape[1]


@uncompiled
def test_equal_voters_share_their_weight():
    """Stumps between which no row lies are equal: as one for LPBoost, all of them for CGBoost."""
    X = np.random.default_rng(0).integers(0, 3, size=(80, 4)) * 1.0
    y = np.where(X[:, 0] + X[:, 1] - X[:, 2] + np.arange(80) % 2 > 1.5, 1, -1)
    pool = stumps(X, 10)
    H = pool.columns(np.arange(40))
    kinds = pool.kinds()
    for j in range(40):
        same = (H == H[j]).all(axis=1) & (np.arange(40) // 10 == j // 10)
        assert_array_equal(kinds == kinds[j], same)
    assert kinds.max() + 1 == 8
    for master in MASTERS:
        model = CGBoost(C=0.05, master=master).fit(X, y)
        optimum = full_program(CGBoost, 0.05, y * 1.0, np.ones(80), naive_stumps(X))
        assert_allclose(model.objective_, optimum, rtol=1e-6)
        assert model.converged_ and model.n_columns_ == 40


@uncompiled
@pytest.mark.parametrize("master", ["auto", "active-set"])
def test_mincq_can_be_stopped(master, monkeypatch):
    monkeypatch.setattr(cqboost, "WORK", 1)
    monkeypatch.setattr(cqboost, "STALLED_ROUNDS", 1)
    X, y = blobs(60, 8, seed=9)
    mu = 0.6 * np.abs(naive_stumps(X).T @ y / 60).mean()
    whole = MinCq(mu=mu, master=master).fit(X, y)
    assert whole.n_iter_ >= 2
    with pytest.warns(ConvergenceWarning, match="residual"):
        model = MinCq(mu=mu, master=master, callback=lambda *_: True).fit(X, y)
    assert model.n_iter_ == 1 and model.weights_.max() <= (1 + 1e-12) / 80
    assert_allclose(model.first_moment_, mu, rtol=1e-9)


@uncompiled
def test_more_rows_than_a_block():
    X, y = blobs(200, 3)
    many = np.random.default_rng(0).normal(size=(2 * cqboost.VOTE_ROWS + 7, 3))
    for voters in ("stumps", "rbf"):
        model = CqBoost(mu=0.1, voters=voters).fit(X, y)
        decision = model.decision_function(many)
        assert decision.shape == (len(many),)
        assert_allclose(decision, model.votes(many) @ model.weights_, atol=1e-12)
        assert_allclose(decision[-3:], model.decision_function(many[-3:]), atol=1e-12)


LONG = """
import sys
import numpy as np
from solvers.cqboost import CGBoost, CqBoost, LPBoost, MDBoost, MinCq
rng = np.random.default_rng(0)
X, y = rng.normal(size=(600, 20)), np.where(np.arange(600) % 2, 1, -1)
try:
    while {model}.fit(X, y):
        print("fits", flush=True)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGINT to send")
@pytest.mark.parametrize(
    "model",
    ["CGBoost(master='osqp')", "CqBoost(mu=0.001, master='osqp')", "MinCq(mu=0.01)",
     "LPBoost()", "CGBoost(voters='rbf')"],
)  # fmt: skip
def test_interrupts_end_a_fit(model):
    """SIGINT after a whole fit; shells may start background jobs without its handler."""
    process = subprocess.Popen(
        [sys.executable, "-c", LONG.format(model=model)], cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        process.stdout.readline()
        time.sleep(0.3)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130 and time.monotonic() - start < 10
    finally:
        process.kill()

"""Tests for solvers/cqboost.py."""

import math
import sys
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import datasets
from solvers import cqboost
from solvers.cqboost import CGBoost, ConvergenceWarning, CqBoost, LPBoost, MDBoost, MinCq

pytestmark = pytest.mark.bounds
METHODS = CqBoost, MDBoost, MinCq, LPBoost, CGBoost
MASTERS = "osqp", "active-set"


# -- slow and obvious references ------------------------------------------------------------------
def naive_stumps(X, n_thresholds=10):
    """Outputs of all stumps without complements, (n, voters), as METHODS of the paper have them."""
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
    """The problems of METHODS, at the weights q of voters with these outputs."""
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
    """Method, data and parameters: n 20-500, 1 to 60 features, weights by turns, all voters."""
    rng = np.random.default_rng(seed)
    cls, kind = METHODS[seed % 5], KINDS[seed // 5 % 5]
    n = int(rng.integers(20, 90 if kind != "stumps" else 250))
    d = int(rng.integers(1, 12))
    if kind == "list":
        d = int(rng.integers(5, 20))
    if seed == 100:
        n, d = 500, 60
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
    if seed % 2 and cls is not LPBoost:
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
    """The half of wdbc on which METHODS' figures were measured."""
    data = datasets.load("wdbc")
    rows = np.random.default_rng(0).permutation(569)[:284]
    return data.X[rows], np.where(data.y[rows] == 1, 1.0, -1.0)


def blobs(n=200, d=5, seed=0, distance=1.0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1, -1)
    return rng.normal(size=(n, d)) + 0.5 * distance * y[:, None], y


# -- correct: against something that shares no code -----------------------------------------------
@pytest.mark.parametrize("seed", range(100))
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


@pytest.mark.parametrize("cls", METHODS)
def test_matches_clarabel_on_1200_stumps(cls):
    _, X, y, _, _, _ = random_problem(100)
    assert naive_stumps(X).shape == (500, 600)
    own = {CqBoost: {"mu": 0.05, "eps": 1e-9}, MinCq: {"mu": 0.03, "eps": 1e-9}}
    own = own.get(cls, {"D": 10.0} if cls is MDBoost else {"C": 0.05})
    model = cls(**own).fit(X, y)
    value = next(iter(own.values()))
    reference = full_program(cls, value, y, np.ones(500), naive_stumps(X))
    assert_allclose(model.objective_, reference, rtol=1e-6)
    assert model.converged_


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

"""Tests for solvers/cqboost.py."""

import math
import sys
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import cli
import datasets
from solvers import cqboost
from solvers.cqboost import CGBoost, ConvergenceWarning, CqBoost, LPBoost, MDBoost, MinCq

pytestmark = pytest.mark.bounds
METHODS = CqBoost, MDBoost, MinCq, LPBoost, CGBoost
MASTERS = "osqp", "active-set"


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
    """Method, data and parameters: n 20-500, 1 to 60 features, weights by turns, all voters."""
    rng = np.random.default_rng(seed)
    cls, kind = METHODS[seed % 5], KINDS[seed // 5 % 5]
    n = int(rng.integers(20, 90 if kind != "stumps" else 250))
    d = int(rng.integers(1, 12))
    if kind == "list":
        d = int(rng.integers(5, 20))
    if seed >= 100:
        n, d = (500, 5) if seed < 105 else (150, 60)
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


def blobs(n=200, d=5, seed=0, distance=1.0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1, -1)
    return rng.normal(size=(n, d)) + 0.5 * distance * y[:, None], y


# -- correct: against something that shares no code -----------------------------------------------
@pytest.mark.parametrize("seed", range(105))
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
    _, X, y, _, _, _ = random_problem(105)
    assert naive_stumps(X).shape == (150, 600)
    own = {CqBoost: {"mu": 0.05, "eps": 1e-9}, MinCq: {"mu": 0.03, "eps": 1e-9}}
    own = own.get(cls, {"D": 10.0} if cls is MDBoost else {"C": 0.05})
    model = cls(**own).fit(X, y)
    value = next(iter(own.values()))
    reference = full_program(cls, value, y, np.ones(150), naive_stumps(X))
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


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("cls", [CqBoost, MDBoost, MinCq, CGBoost])
def test_masters_agree_on_pools_with_ties(cls, seed):
    """Few rows, many voters, some of them equal, opposite or perfect; mu up to the very limit."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(6, 40)), int(rng.integers(1, 30))
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    right = rng.random((n, k)) < [0.5, 0.8, 0.95, 1.0][seed % 4]
    H = np.where(right, y[:, None], -y[:, None])
    H[:, rng.integers(0, k)] = H[:, 0]
    weight = rng.integers(1, 4, size=n).astype(float)
    edges = H.T @ (weight * y) / weight.sum()
    if cls in (CqBoost, MinCq):
        top = edges.max() if cls is CqBoost else np.abs(edges).mean()
        own = {"mu": float(min(top, 1.0) * [0.01, 0.5, 1.0][seed % 3])}
    else:
        own = {"D": 20.0} if cls is MDBoost else {"C": 0.3}
    if "mu" in own and own["mu"] <= 0:
        pytest.skip("no mu > 0 is feasible")
    found = []
    for master in MASTERS:
        model = cls(voters=columns_as_voters(H), master=master, eps=1e-7, **own)
        model.fit(np.arange(n)[:, None], y, weight)
        assert model.converged_
        found.append(model.objective_)
    assert_allclose(found[0], found[1], rtol=2e-7, atol=2e-7)


class Lookup:
    """A voter given by its outputs: the row's number is its only feature."""

    classes_ = np.array([-1, 1])

    def __init__(self, column):
        self.column = column

    def predict(self, X):
        return self.column[X[:, 0].astype(int)]


def columns_as_voters(H):
    return [Lookup(column) for column in H.T]


def wrong_program(cls, y, H):
    """The programs with the signs as printed; for MDBoost, whose constraints have no such sign,
    with the mean of the margins the wrong way round."""
    cp = pytest.importorskip("cvxpy")
    A = y[:, None] * np.hstack([H, -H])
    q, xi = cp.Variable(A.shape[1]), cp.Variable(len(y))
    if cls is CqBoost:
        limits = [q >= 0, cp.sum(q) == 1, cp.sum(A @ q) / len(y) <= 0.1]
        goal = cp.sum_squares(A @ q)
    elif cls is MDBoost:
        limits = [q >= 0, cp.sum(q) == 1]
        goal = cp.sum_squares(A @ q - cp.sum(A @ q) / len(y)) * 5 + cp.sum(A @ q)
    else:
        limits = [q >= 0, xi >= 0, A @ q <= 1 - xi if cls is LPBoost else A @ q + xi <= 1]
        goal = 0.1 * cp.sum(xi) + (cp.sum(q) if cls is LPBoost else cp.sum_squares(q) / 2)
    cp.Problem(cp.Minimize(goal), limits).solve(solver="CLARABEL")
    return q.value


@pytest.mark.parametrize("cls", [CqBoost, MDBoost, LPBoost, CGBoost])
def test_a_vote_with_the_printed_signs_would_fail(cls):
    X, y = blobs(80, 3, distance=2.0)
    H, ones = naive_stumps(X), np.ones(80)
    own = {CqBoost: {"mu": 0.1}, MDBoost: {"D": 10.0}}.get(cls, {"C": 0.1})
    (value,) = own.values()
    model = cls(**own, eps=1e-8).fit(X, y)
    q = wrong_program(cls, y, H)
    both = np.hstack([H, -H])
    wrong = naive_objective(cls, value, y, ones, both, q)
    if cls is CqBoost:  # lower, but only because the constraint is violated
        assert (y * (both @ q)).mean() < 0.01 < 0.1 <= model.first_moment_ + 1e-9
    else:
        assert wrong > model.objective_ + 0.5
        assert_allclose(model.objective_, full_program(cls, value, y, ones, H), rtol=1e-6)
    assert (np.where(both @ q >= 1e-6, 1, -1) == y).mean() < 0.7 < model.score(X, y)


@pytest.mark.parametrize("cls", METHODS)
@pytest.mark.parametrize("limit", [3, None])
def test_dual_value_follows_from_the_example_weights(cls, limit):
    """The certificate once more: from a alone, over all voters, also when stopped early."""
    X, y = blobs(120, 4, seed=3)
    H = np.hstack([naive_stumps(X), -naive_stumps(X)])
    own = {CqBoost: {"mu": 0.2}, MinCq: {"mu": 0.1}, MDBoost: {"D": 10.0}}.get(cls, {"C": 0.05})
    (value,) = own.values()
    model = cls(**own) if cls is MinCq else cls(**own, max_columns=limit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    a, g, n = model.example_weights_, model.margins(X, y) * model.total_, len(y)
    edges = H.T @ (a * y)
    if cls in (CqBoost, MinCq):  # a = (beta - 2 g) / n
        beta = a.sum() + 2 * g.mean()
        assert beta >= 0
        assert_allclose(a, (beta - 2 * g) / n, atol=1e-12)
        dual = beta * value - (g**2).mean()
        dual -= edges.max() if cls is CqBoost else np.abs(edges).mean()
    elif cls is MDBoost:  # a = -gradient
        dual = model.objective_ + a @ g - edges.max()
        assert_allclose(a, 1 - value * n / (n - 1) * (g - g.mean()), atol=1e-9)
    else:
        assert (a >= 0).all() and (a <= value * (1 + 1e-12)).all()
        dual = a.sum() / max(1, edges.max())
        if cls is CGBoost:
            dual = a.sum() - np.square(np.maximum(edges, 0)).sum() / 2
    assert_allclose(model.dual_value_, dual, rtol=1e-9, atol=1e-12)
    optimum = full_program(cls, value, y, np.ones(n), naive_stumps(X))
    assert model.dual_value_ <= optimum + 1e-9 <= model.objective_ + 2e-9
    if limit and cls is not MinCq:
        assert not model.converged_ and model.n_generated_ == 3


@pytest.mark.parametrize("seed", range(30))
def test_active_set_solves_quadratic_programs(seed):
    """Singular and regular ones, with none, one and two constraints, against OSQP's optimum."""
    rng = np.random.default_rng(seed)
    k, R = int(rng.integers(2, 25)), seed % 3
    root = rng.normal(size=(int(rng.integers(1, 2 * k)), k))
    P, c = root.T @ root, rng.normal(size=k)
    low, high = -np.ones(k), rng.uniform(0.5, 2, size=k)
    x = rng.uniform(-0.5, 0.5, size=k)
    rows, at_least = rng.normal(size=(R, k)), R == 2
    value = rows @ x - (np.arange(R) == 1) * 0.3
    found = []
    for master in MASTERS:
        now = x.copy()
        cqboost.MASTERS[master]().solve(k, P, c, rows, value, at_least, low, high, now)
        assert (now >= low).all() and (now <= high).all()
        slack = rows @ now - value
        assert (np.abs(slack[: 1 if at_least else R]) <= 1e-9).all() and (slack >= -1e-9).all()
        found.append(now @ P @ now / 2 + c @ now)
    assert_allclose(found[1], found[0], atol=1e-9)


def test_bins_of_any_numbers():
    """... among them such that the cuts overflow, coincide or lie at the values themselves."""
    rng = np.random.default_rng(0)
    columns = [
        rng.normal(size=40), rng.integers(0, 12, size=40) * 1.0, np.repeat([0.0, 5e-324], 20),
        np.repeat([-1.7e308, 1.7e308], 20), np.repeat([1.0, 1.0 + 2.0**-52], 20),
        rng.normal(size=40) * 1e300,
    ]  # fmt: skip
    X = np.column_stack(columns)
    for n_thresholds in (1, 10, 255):
        pool = cqboost._Stumps(X, n_thresholds)
        cuts = pool.cuts.reshape(-1, n_thresholds)
        for f, values in enumerate(columns):
            assert_array_equal(pool.bins[:, f], [(x > cuts[f]).sum() for x in values])


def test_lowest_peak():
    rng = np.random.default_rng(0)
    for _ in range(200):
        slope, offset = rng.normal(size=8).round(1), rng.normal(size=8).round(1)
        slope[rng.integers(8)] = 1.0
        b = cqboost._lowest_peak(slope, offset)
        crossings = [0.0]
        for i in range(8):
            for j in range(8):
                if slope[i] != slope[j]:
                    crossings.append((offset[i] - offset[j]) / (slope[j] - slope[i]))
        best = min((slope * t + offset).max() for t in crossings if t >= 0)
        assert b >= 0
        assert_allclose((slope * b + offset).max(), best, atol=1e-12)


# -- bounds of the risk ---------------------------------------------------------------------------
def naive_theorem_2(margins, KL, delta):
    m = len(margins)
    mu_1 = sum(margins) / m
    mu_2 = sum(g * g for g in margins) / m
    low = mu_1 - math.sqrt(2 / m * (KL + math.log(2 * math.sqrt(m) / (delta / 2))))
    high = mu_2 + math.sqrt(2 / m * (2 * KL + math.log(2 * math.sqrt(m) / (delta / 2))))
    return 1 - max(0, low) ** 2 / min(1, high)


@pytest.mark.parametrize("cls", METHODS)
@pytest.mark.parametrize("voters", ["stumps", "rbf", "linear-functions", "linear-classifiers"])
def test_bounds(cls, voters):
    X, y = blobs(600, 2, distance=4.0)
    own = {"mu": 0.2} if cls in (CqBoost, MinCq) else {}
    own |= {"master": "active-set"} if cls is CGBoost else {}  # OSQP takes seconds
    model = cls(voters=voters, gamma=0.1, **own).fit(X[:300], y[:300])
    margins = list(model.margins(X[:300], y[:300]))
    assert_allclose(model.first_moment_, np.mean(margins), rtol=1e-10)
    assert_allclose(model.second_moment_, np.mean(np.square(margins)), rtol=1e-10)
    assert_allclose(model.margin_quantiles_[[0, 3, 6]], np.quantile(margins, [0, 0.5, 1]))
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
    for delta in (0.01, 0.05, 1.0):
        assert_allclose(model.pac_bayes_bound(delta), naive_theorem_2(margins, KL, delta))
        assert model.c_bound() <= model.pac_bayes_bound(delta) <= 1
    assert 1 - model.score(X[300:], y[300:]) <= model.pac_bayes_bound()
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\], got 0"):
        model.pac_bayes_bound(0)
    model.fit(X, y, np.where(np.arange(600) < 300, 1.0, 2.0))
    with pytest.raises(ValueError, match="Theorem 2 is about examples of equal weight"):
        model.pac_bayes_bound()


@pytest.mark.parametrize(
    "name",
    ["wdbc", "australian", "breastw", "heart", "ionosphere", "house-votes", "letter-ab",
     "titanic", "pima", "sonar"],
)  # fmt: skip
def test_bound_holds_on_test_rows(name):
    data = datasets.load(name)
    seen = []
    for train, test in datasets.splits(data.y, trials=20):
        train = train[:500]
        prep = datasets.Preprocess("tanh").fit(data.X[train])
        model = CqBoost(mu=0.4, master="active-set")  # at a small mu the bound is 1
        model.fit(prep.transform(data.X[train]), data.y[train])
        error = 1 - model.score(prep.transform(data.X[test]), data.y[test])
        bound = model.pac_bayes_bound()
        assert error <= bound <= 1 and model.c_bound() <= bound
        seen.append(bound)
    assert len(seen) == 20
    assert max(seen) < 1 or len(train) < 200


def test_the_bound_can_be_far_below_one():
    X, y = blobs(20_000, 1, distance=6.0)
    model = CqBoost(mu=0.9, master="active-set").fit(X, y)
    assert model.c_bound() < 0.01 and model.pac_bayes_bound() < 0.2
    assert model.pac_bayes_bound(0.5) < model.pac_bayes_bound(0.05)


# -- shaped like the mathematics ------------------------------------------------------------------
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


def test_reductions():
    """One voter is the vote; with a small mu MinCq's box is wide: its vote is mu times another."""
    X, y = blobs(100, 3)
    one, two = MinCq(mu=0.01).fit(X, y), MinCq(mu=0.02).fit(X, y)
    assert_allclose(2 * one.decision_function(X), two.decision_function(X), atol=1e-9)
    single = CqBoost(mu=0.01, voters=[Fixed(0)]).fit(X, y)
    assert_array_equal(single.weights_, [1.0])
    assert single.objective_ == single.second_moment_ == 1.0


@pytest.mark.parametrize("D", [1.0, 10.0, 100.0])
def test_mdboost_is_cqboost_at_its_own_mean(D):
    """Least variance at a given mean, either way: one family, two knobs."""
    X, y = wdbc_half()
    one = MDBoost(D=D, eps=1e-10, master="active-set").fit(X, y)
    two = CqBoost(mu=one.first_moment_ * (1 - 1e-12), eps=1e-10, master="active-set").fit(X, y)
    assert_allclose(one.margins(X, y), two.margins(X, y), atol=1e-6)


# -- well behaved ---------------------------------------------------------------------------------
@pytest.mark.parametrize("master", MASTERS)
def test_degenerate_pools(master):
    n = 24
    y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    X = np.arange(n)[:, None]
    rng = np.random.default_rng(0)
    noise = np.where(rng.random((n, 5)) < 0.5, 1.0, -1.0)
    noise[:, 0] = np.where(np.arange(n) < 20, y, -y)
    pools = {
        "one": noise[:, :1],
        "equal": np.repeat(noise[:, :1], 4, axis=1),
        "perfect": np.column_stack([noise, y]),
        "interpolating": np.where(np.eye(n) > 0, -1.0, 1.0) * y[:, None],
    }
    for name, H in pools.items():
        voters = columns_as_voters(H)
        for cls in METHODS:
            params = {} if cls is LPBoost else {"master": master}
            params |= {"mu": 0.3} if cls in (CqBoost, MinCq) else {}
            model = cls(voters=voters, **params).fit(X, y)
            assert model.converged_ and np.isfinite(model.decision_function(X)).all()
            best = {"perfect": 1.0, "interpolating": 1.0}.get(name, 20 / 24)
            if (cls, name) == (CqBoost, "perfect"):  # smaller margins are worth an error to it
                assert_allclose(model.first_moment_, 0.3)
                model.set_params(mu=1.0).fit(X, y)
                assert model.n_columns_ == 1
            assert model.score(X, y) == best
    model = CqBoost(mu=0.3, voters=columns_as_voters(pools["interpolating"]), master=master)
    model.fit(X, y)  # equal weights make every margin 22/24; less is not possible here
    assert_allclose(model.margins(X, y), 22 / 24)
    model = CqBoost(mu=0.3, voters=model.voters, complements=True, master=master).fit(X, y)
    assert_allclose(model.margins(X, y), 0.3, atol=1e-6)  # now it is: all margins equal mu
    assert_allclose(model.example_weights_, 0, atol=1e-6)
    assert_allclose(model.c_bound(), 0, atol=1e-9)


@pytest.mark.parametrize("master", MASTERS)
def test_the_whole_range_of_mu(master):
    X, y = blobs(50, 3, seed=4)
    H = naive_stumps(X)
    edges = H.T @ y / 50
    best, mean = np.abs(edges).max(), np.abs(edges).mean()
    assert_allclose(CqBoost(mu=best, master=master).fit(X, y).first_moment_, best, rtol=1e-9)
    found = MinCq(mu=mean * (1 - 1e-12), master=master).fit(X, y)
    assert_allclose(found.weights_, 1 / H.shape[1], rtol=1e-6)
    with pytest.raises(ValueError, match=r"CqBoost: mu=0.9 is infeasible.*choose mu in \(0, 0\."):
        CqBoost(mu=0.9, master=master).fit(X, y)
    with pytest.raises(ValueError, match=r"MinCq: mu=0.9 is infeasible.*choose mu in \(0, 0\."):
        MinCq(mu=0.9, master=master).fit(X, y)
    edge = CqBoost(mu=best).fit(X, y).first_moment_
    with pytest.raises(ValueError, match=f"choose mu in \\(0, {best:.6g}\\]"):
        CqBoost(mu=min(1.0, 1.001 * edge)).fit(X, y)
    bad = [Fixed(0, flip=True)]
    with pytest.raises(ValueError, match="is infeasible.*pass better voters"):
        CqBoost(voters=bad).fit(X, y)


@pytest.mark.parametrize("cls", METHODS)
def test_constant_features(cls):
    X, y = blobs(40, 2)
    wide = np.column_stack([np.full(40, 7.0), X, np.zeros(40)])
    own = {"mu": 0.1} if cls in (CqBoost, MinCq) else {}
    one, two = cls(**own).fit(X, y), cls(**own).fit(wide, y)
    assert_array_equal(one.decision_function(X), two.decision_function(wide))
    assert_array_equal(one.features_ + 1, two.features_)
    with pytest.raises(
        ValueError, match=r"all 2 feature\(s\) are constant, which leaves no stumps"
    ):
        cls(**own).fit(np.ones((40, 2)), y)


def test_no_vote_at_small_C():
    X, y = blobs(60, 2)
    y[:20] = 1
    best = np.abs(naive_stumps(X).T @ y).max()
    with pytest.warns(ConvergenceWarning, match="majority class 1 is predicted; choose C > 0.0"):
        model = LPBoost(C=0.99 / best).fit(X, y)
    assert (model.predict(X) == 1).all() and model.n_columns_ == 0 and model.converged_
    assert_allclose(model.objective_, 60 * 0.99 / best)
    assert model.pac_bayes_bound() == 1.0
    with pytest.warns(ConvergenceWarning, match="majority class -1 is predicted"):
        assert (LPBoost(C=0.99 / best).fit(X, -y).predict(X) == -1).all()
    assert LPBoost(C=1.01 / best).fit(X, y).n_columns_ >= 1
    with pytest.warns(ConvergenceWarning, match="CGBoost: no voter .*; pass better voters"):
        CGBoost(voters=[Fixed(0, flip=True)]).fit(*blobs(60, 2))


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
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV

    X, y = blobs(300, 4)
    names = np.where(y > 0, "up", "down")
    forest = ensemble.RandomForestClassifier(30, max_depth=3, random_state=0).fit(
        X[:100], names[:100]
    )
    trees = forest.estimators_
    H = np.array([np.where(tree.predict(X[100:]) == 1, 1.0, -1.0) for tree in trees]).T
    for cls in METHODS:
        own = {"mu": 0.3} if cls in (CqBoost, MinCq) else {}
        model = cls(voters=trees, **own).fit(X[100:], names[100:])
        value = next(iter(own.values()), getattr(model, "D", None) or getattr(model, "C", None))
        optimum = full_program(cls, value, y[100:], np.ones(200), H, complements=False)
        assert_allclose(model.objective_, optimum, rtol=1e-5)
        assert model.n_voters_ == 30 * (2 if cls is MinCq else 1)
        assert set(model.predict(X)) == {"up", "down"} and model.score(X, names) > 0.6
        assert clone(model).voters is trees
    search = GridSearchCV(CqBoost(voters=trees), {"mu": [0.2, 0.3]}, cv=3).fit(X[100:], names[100:])
    assert search.best_score_ > 0.6
    assert CqBoost(voters=trees, complements=True).fit(X, y).n_voters_ == 60
    with pytest.raises(ValueError, match="cannot save a model with such parameters"):
        model.save("never-written.npz")
    with pytest.raises(ValueError, match="voter 0 of the list must be a classifier fitted on two"):
        CqBoost(voters=[ensemble.RandomForestClassifier()]).fit(X, y)


def test_without_highspy_and_without_osqp(monkeypatch):
    X, y = blobs(100, 3)
    warm = LPBoost(C=0.05).fit(X, y)
    monkeypatch.setitem(sys.modules, "highspy", None)
    cold = LPBoost(C=0.05).fit(X, y)
    assert cold.converged_ and warm.converged_
    assert_allclose(cold.objective_, warm.objective_, rtol=1e-8)
    monkeypatch.setitem(sys.modules, "osqp", None)
    with pytest.raises(ImportError, match="pip install osqp, or take master='active-set'"):
        CqBoost().fit(X, y)
    assert CqBoost(master="active-set").fit(X, y).converged_


@pytest.mark.parametrize("cls", METHODS)
def test_bad_parameters_are_named(cls):
    X, y = blobs(30, 2)
    cases = [
        ({"voters": "trees"}, "voters must be one of stumps, rbf"),
        ({"voters": []}, "voters must be"),
        ({"voters": [1, 2]}, "voters must be"),
        ({"n_thresholds": 0}, "n_thresholds must be an integer from 1 to 255, got 0"),
        ({"n_thresholds": 256}, "n_thresholds must be"),
        ({"gamma": -1.0}, "gamma must be"),
        ({"eps": 0.0}, "eps must be a number > 0, got 0.0"),
    ]
    if cls in (CqBoost, MinCq):
        cases += [
            ({"mu": mu}, rf"mu must be a number in \(0, 1\], got {mu}") for mu in (0, -0.1, 2)
        ]
    if cls is MDBoost:
        cases += [({"D": 0}, "D must be a finite number > 0, got 0"), ({"D": np.inf}, "D must be")]
    if cls in (LPBoost, CGBoost):
        cases += [({"C": -1}, "C must be a finite number > 0, got -1"), ({"C": "1"}, "C must be")]
    if cls is not MinCq:
        cases += [({"max_columns": 0}, "max_columns must be"), ({"complements": 3}, "complements")]
    if cls is not LPBoost:
        cases += [({"master": "simplex"}, "master must be one of 'osqp', 'active-set'")]
    for params, text in cases:
        with pytest.raises(ValueError, match=f"^{cls.__name__}: {text}"):
            cls(**params).fit(X, y)
    model = cls().fit(X, y)
    with pytest.raises(ValueError, match="y must hold the class of each of 30 rows, -1 or 1"):
        model.margins(X, np.where(y > 0, 1, 0))
    if cls is MDBoost:
        with pytest.raises(ValueError, match="must sum to more than 1, got 0.3"):
            cls().fit(X, y, np.full(30, 0.01))


@pytest.mark.parametrize("cls", [CqBoost, MDBoost, MinCq, CGBoost])
def test_check_estimator_with_the_other_master(cls):
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = checks.check_estimator(cls(master="active-set"), on_skip=None, on_fail=None)
    assert not {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}


@pytest.mark.parametrize("voters", ["rbf", "linear-functions", "linear-classifiers"])
@pytest.mark.parametrize("cls", METHODS)
def test_kernel_voters_keep(cls, voters, tmp_path):
    X, y = blobs(80, 3)
    model = cls(voters=voters).fit(X, y)
    assert_allclose(model.gamma_, 1 / (3 * X.var()))
    model.save(tmp_path / "model.npz")
    copy = cls.load(tmp_path / "model.npz")
    assert_array_equal(copy.decision_function(X), model.decision_function(X))
    assert model.score(X, y) > 0.6


def test_verbose(capsys):
    X, y = blobs(40, 2)
    for cls in METHODS:
        cls().fit(X, y)
    assert not capsys.readouterr().out
    CqBoost(verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("CqBoost     1  columns     1  objective ") and len(lines) > 3


@pytest.mark.parametrize("command", ["cqboost", "mincq", "mdboost", "lpboost", "cgboost"])
def test_command_line(command, tmp_path, capsys):
    start = [command, "--data", "heart", "--trials", "1"]
    assert cli.main([*start, "--save", str(tmp_path / "model.npz")]) == 0
    report = capsys.readouterr().out
    assert "tanh of standardised features" in report and "all converged" in report
    assert cli.main([*start, "--voters", "rbf"]) == 0


def test_command_line_names_the_range_of_the_training_rows(capsys):
    data = datasets.load("heart")
    train, _ = next(datasets.splits(data.y))
    X = datasets.Preprocess("tanh").fit(data.X[train]).transform(data.X[train])
    edges = naive_stumps(X).T @ np.where(data.y[train] == 1, 1.0, -1.0) / len(train)
    assert cli.main(["cqboost", "--data", "heart", "--mu", "0.99"]) == 2
    assert f"choose mu in (0, {np.abs(edges).max():.6g}]" in capsys.readouterr().err

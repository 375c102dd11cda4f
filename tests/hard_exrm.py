"""Hard problems for ExRM and PSVM, each checked against long double and Clarabel.

`python -m tests.hard_exrm` runs all of them and prints the counts; tests/test_exrm.py a sample.
A certificate is false if the objective, recomputed from the coefficients in long double, is more
than tol above that of a better point, or if `objective_` is not that objective.
"""

import sys
import warnings

import numpy as np

from solvers.exrm import ExRM
from tests import hard

FAMILIES = (
    "plain", "scales", "offsets", "lam", "wide", "square", "lonely", "duplicates", "weights",
    "powers", "beta", "members", "rbf", "large", "raw",
)  # fmt: skip
SEEDS = 22


def problems():
    """Names of all problems, family/seed."""
    return [f"{family}/{seed}" for seed in range(SEEDS) for family in FAMILIES]


def make(name):
    """X, y, sample weights or None, parameters."""
    family, seed = name.split("/")
    seed = int(seed)
    rng = np.random.default_rng([FAMILIES.index(family), seed])
    n, d, T = int(rng.integers(20, 121)), int(rng.integers(1, 21)), int(rng.integers(1, 7))
    p = float(rng.choice([1, 1.5, 2, 3]))
    lam, beta = float(10 ** rng.uniform(-2, 1)), float(rng.choice([0.0, 0.0, 0.5]))
    if family == "wide":
        n, d = int(rng.integers(6, 30)), int(rng.integers(60, 301))
    elif family == "square":
        n = int(rng.integers(20, 61))
        d = n + int(rng.integers(-3, 4))
    elif family == "members":
        T = int(rng.integers(10, 51))
    elif family == "large":
        n, d, p = int(rng.integers(1000, 5001)), int(rng.integers(2, 25)), float(rng.choice([1, 2]))
    X = rng.normal(size=(n, d))
    truth = X @ rng.normal(size=d)
    y = np.where(truth + rng.choice([0.0, 0.5, 2.0]) * truth.std() * rng.normal(size=n) > 0, 1, -1)
    y[:2] = 1, -1
    weight = None
    if family in ("scales", "raw"):
        X = X * 10 ** rng.uniform(-6, 6, size=d)
    if family in ("offsets", "raw"):
        X = X + X.std(0) * 10 ** rng.uniform(0, 8 if family == "offsets" else 4, size=d)
    if family == "lam":
        lam = float(10 ** rng.uniform(-8, 8))
    elif family == "lonely":
        y = np.where(np.arange(n) == 0, 1, -1)
    elif family == "duplicates":
        X = X[rng.integers(0, max(2, n // 4), n)]
        X[:, rng.integers(0, d, d // 3)] = X[:, :1]
        X[:, -1] = 3.0
    elif family == "weights":
        weight = 10 ** rng.uniform(-12, 12, size=n)
    elif family == "powers":
        p = float(rng.choice([1.0, 1.001, 1.05, 1.2, 1.9, 2.1, 5.0, 10.0, 50.0]))
    elif family == "beta":
        beta = float(10 ** rng.uniform(-3, 3))
    params = dict(n_estimators=T, p=p, lam=lam, beta=beta, random_state=seed)
    params["sampling"] = [None, "bootstrap"][seed % 2]
    params["kernel"] = "rbf" if family == "rbf" else "linear"
    return X, y, weight, params


def exact_objective(X, y, counts, model, W, b):
    """The problem of the paper in long double; W is (T, d)."""
    X, y, W, b, counts = (np.asarray(a, np.longdouble) for a in (X, y, W, b, counts))
    slack = np.maximum(1 - y * (W @ X.T + b[:, None]), 0)
    loss = np.longdouble(model.lam) * (counts * slack ** np.longdouble(model.p)).sum()
    return ((np.abs(W).sum(0) + np.longdouble(model.beta)) ** 2).sum() / 2 + loss


def clarabel(X, y, counts, model):
    """W (T, d) and b of Clarabel's solution of the problem, in centred and scaled columns.

    Equal samples are solved as one machine, whose copies are optimal; None if Clarabel fails.
    """
    import cvxpy as cp

    T, p = model.n_estimators, model.p
    share = T if model.sampling is None else 1
    counts = counts[:1] if share > 1 else counts
    centre = X.mean(0)
    scale = np.where(X.std(0) > 0, X.std(0), 1.0)
    scaled = (X - centre) / scale
    V, b = cp.Variable((counts.shape[0], X.shape[1])), cp.Variable((counts.shape[0], 1))
    slack = cp.pos(1 - cp.multiply(y, V @ scaled.T + b @ np.ones((1, len(y)))))
    loss = cp.sum(cp.multiply(counts, slack if p == 1 else cp.power(slack, p)))
    sums = cp.multiply(cp.sum(cp.abs(V), axis=0), 1 / scale)
    reg = 0.5 * cp.sum_squares(sums + model.beta / share)
    tight = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11, "max_iter": 200}
    problem = cp.Problem(cp.Minimize(reg + model.lam / share * loss))
    try:
        with warnings.catch_warnings():  # "may be inaccurate": an upper bound all the same
            warnings.simplefilter("ignore")
            problem.solve(solver="CLARABEL", **tight)
    except (cp.SolverError, ValueError):
        return None
    if V.value is None or not np.isfinite(V.value).all():
        return None
    W = V.value / scale
    b = b.value[:, 0] - W @ centre
    return np.repeat(W, share, axis=0), np.repeat(b, share)


def check(name):
    """Fit one problem; hold its claim against long double and Clarabel."""
    X, y, weight, params = make(name)
    model = ExRM(**params)
    text, seconds = hard.fit(model, X, y, weight)
    rows = model._features(X) if model.kernel == "rbf" else X
    weight = np.ones(len(y)) if weight is None else weight
    counts = hard.example_weights(weight, model.n_estimators, model.sampling, model.random_state)
    mine = exact_objective(rows, y, counts, model, model.coef_, model.intercept_)
    other = clarabel(rows, y, counts, model)
    lowest, size = mine, max(mine, np.longdouble(1e-300))  # members of one class: exactly 0
    if other is not None:
        lowest = min(mine, exact_objective(rows, y, counts, model, *other))
    gap, error = float((mine - lowest) / size), float(abs(model.objective_ - mine) / size)
    is_true = max(gap, error) <= model.tol and not text
    return hard.Record(
        name, model.converged_, model.residual_, gap, error, is_true, "raise" in text, text, seconds
    )


if __name__ == "__main__":
    sys.exit(hard.main(sys.argv[1:] or problems(), check))

"""Hard problems for CqBoost, MDBoost, MinCq, LPBoost and CGBoost, and an independent judge.

`python -m tests.hard_cqboost` fits all of them and counts; the suite takes every fifth. Pools with
equal, opposite, perfect, useless and nearly dependent voters, more voters than rows and the other
way round, kernels from a point to a plane, mu at the very edge of the feasible range, sample
weights over twelve decades, D and C from 1e-6 to 1e6, all masters.
"""

import sys
from typing import NamedTuple

import numpy as np

from solvers.cqboost import CGBoost, CqBoost, LPBoost, MDBoost, MinCq
from tests import hard

METHODS = CqBoost, MDBoost, MinCq, LPBoost, CGBoost
MASTERS = "auto", "active-set", "osqp"
POOLS = (
    "noise", "good", "perfect", "useless", "equal", "opposite", "nearly-equal", "real-valued",
    "one", "wide", "tall", "narrow-kernel", "kernel", "flat-kernel",
)  # fmt: skip
EDGES = 0.05, 0.5, 0.9, 0.999999, 1 - 1e-12, 1.0  # of the largest mu that is feasible
POWERS = 1e-6, 1e-3, 0.05, 1.0, 1e3, 1e6  # D and C
WEIGHTS = "equal", "whole", "sum-to-one", "decades", "zeros"


class Problem(NamedTuple):
    name: str
    cls: type
    pool: str
    weights: str
    master: str
    spot: int  # in EDGES or POWERS
    seed: int


def problems():
    """Every method with every pool at three of its parameters; weights and masters by turns."""
    problems = []
    for c, cls in enumerate(METHODS):
        for p, pool in enumerate(POOLS):
            for turn in range(3):
                spot = (2 * turn + p + c) % 6
                weights = WEIGHTS[(p + 2 * turn + c) % 5]
                master = "auto" if cls is LPBoost else MASTERS[(p + turn) % 3]
                name = f"{cls.__name__} {pool} spot={spot} weights={weights} master={master}"
                problems.append(Problem(name, cls, pool, weights, master, spot, 100 * p + turn))
    return problems


def votes_of(pool, rng):
    """Outputs of the voters, (n, voters), and labels."""
    n, k = int(rng.integers(12, 60)), int(rng.integers(5, 40))
    n, k = (15, 150) if pool == "wide" else (300, 6) if pool == "tall" else (n, k)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    if pool.endswith("kernel"):
        X = rng.normal(size=(n, 3)) + 0.5 * y[:, None]
        gamma = {"narrow-kernel": 50.0, "kernel": 0.5, "flat-kernel": 1e-4}[pool]
        return np.exp(-gamma * ((X[:, None] - X) ** 2).sum(axis=2)), y
    right = {"useless": 0.5, "noise": 0.55, "perfect": 0.9}.get(pool, 0.75)
    H = np.where(rng.random((n, k)) < right, y[:, None], -y[:, None])
    if pool == "useless":
        H[:, ::2] = 1.0
    elif pool == "perfect":
        H[:, k // 2] = y
    elif pool == "equal":
        H = H[:, rng.integers(0, 3, size=k)]
    elif pool == "opposite":
        H[:, k // 2 :] = -H[:, : k - k // 2]
    elif pool == "nearly-equal":
        H = np.clip(H[:, :1] + 1e-7 * rng.normal(size=(n, k)), -1.0, 1.0)
    elif pool == "real-valued":
        H = H * rng.random((n, k)) ** 4
    elif pool == "one":
        H = H[:, :1]
    return H, y


def setup(problem):
    """Votes (n, voters), labels, weights and the model to fit, or None if no mu is feasible."""
    rng = np.random.default_rng(problem.seed)
    H, y = votes_of(problem.pool, rng)
    n = len(y)
    weight = {
        "equal": np.ones(n), "whole": rng.integers(1, 4, size=n) * 1.0,
        "sum-to-one": np.full(n, 1.0 / n), "decades": 10.0 ** rng.uniform(-6, 6, size=n),
        "zeros": rng.uniform(0.5, 2.0, size=n) * (np.arange(n) % 5 > 0),
    }[problem.weights]  # fmt: skip
    params = {"voters": "votes"}
    if problem.cls is not LPBoost:
        params["master"] = problem.master
    if problem.cls is not MinCq:
        params["complements"] = problem.seed % 2 == 0
    if problem.cls in (CqBoost, MinCq):
        edges = H.T @ (weight * y) / weight.sum()
        top = np.abs(edges).mean() if problem.cls is MinCq else edges.max()
        if problem.cls is CqBoost and params["complements"]:
            top = np.abs(edges).max()
        if top <= 0:
            return None
        params["mu"] = float(min(1.0, EDGES[problem.spot] * top))
        params["eps"] = 1e-6 * min(1.0, params["mu"]) ** 2
    else:
        params["D" if problem.cls is MDBoost else "C"] = POWERS[problem.spot]
    return H, y, weight, problem.cls(**params)


def true_gap(model, H, y, weight):
    """Gap relative to max(1, |objective|), and the largest violation of a constraint.

    Both from the fitted attributes alone, in long double: the value of the problem at weights_
    minus the value of the dual at example_weights_, over all voters.
    """
    H, y, v = (np.asarray(part, np.longdouble) for part in (H, y, weight))
    complemented = isinstance(model, MinCq) or model.complements
    q, a = model.weights_.astype(np.longdouble), model.example_weights_.astype(np.longdouble)
    votes = H[:, model.members_] * model.signs_ if not model.constant_ else H[:, :1]
    q = q if not model.constant_ else 0 * q[:1]
    g, m = y * (votes @ q), v.sum()
    base = H.T @ (a * y)
    edges = np.concatenate([base, -base]) if complemented else base
    first, second, wrong = v @ g / m, v @ g**2 / m, max(0, -q.min(initial=0))
    if isinstance(model, (CqBoost, MinCq)):
        value, beta = second, a.sum() + 2 * first
        # a = v (beta - 2 g) / m: the dual value needs beta and this g only
        wrong = max(wrong, np.abs(a - v * (beta - 2 * g) / m).max())
        dual = beta * model.mu - second
        if isinstance(model, MinCq):
            dual -= np.abs(base).mean()
            wrong = max(wrong, abs(first - model.mu), q.max() - 1 / np.longdouble(H.shape[1]))
        else:
            dual -= edges.max()
            wrong = max(wrong, abs(q.sum() - 1), model.mu - first, -beta)
    elif isinstance(model, MDBoost):
        n = max(m, (v > 0).sum())
        D = model.D * n / (n - 1)
        value = m * (D / 2 * (second - first**2) - first)
        gradient = v * (1 - D * (g - first))
        wrong = max(wrong, abs(q.sum() - 1), np.abs(a - gradient).max() / (v.max() * max(1, D)))
        dual = value + a @ g - edges.max()
    else:
        cost = model.C * v
        value = cost @ np.maximum(0, 1 - g)
        wrong = max(wrong, (-a).max(), ((a - cost) / cost.max()).max())
        if isinstance(model, LPBoost):
            value, dual = value + q.sum(), a.sum() / max(1, edges.max())
        else:
            value, dual = value + q @ q / 2, a.sum() - (np.maximum(edges, 0) ** 2).sum() / 2
    gap = value - dual
    return float(gap / max(1, abs(value))), float(wrong)


def check(problem):
    """Fit one problem; hold its claim against long double. None if no mu is feasible."""
    made = setup(problem)
    if made is None:
        return None
    H, y, weight, model = made
    text, seconds = hard.fit(model, H, y, weight)
    gap, violation = true_gap(model, H, y, weight)
    is_true = gap <= model.eps * (1 + 1e-6) + 1e-15 and violation <= 1e-11
    has_advice = "residual" in text and "raise" in text
    return hard.Record(
        problem.name, model.converged_, model.residual_, gap, violation, is_true, has_advice, text,
        seconds,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(hard.main(problems(), check))

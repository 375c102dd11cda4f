"""Hard problems for DRM and NuSVM: python -m tests.hard_drm fits them all and checks each claim.

The true gap is between the objective at the fitted members and the lower bound that `alpha_` gives,
both computed here in long double from the data and the fitted attributes. Any feasible point of the
dual gives a lower bound, however it was found.
"""

import sys
from typing import NamedTuple

import numpy as np

from solvers.drm import DRM, NuSVM
from tests import hard

LONG = np.longdouble
HELP = ("max_iter", "tol", "scale", "centre", "mu")  # A warning recommends one of these.


class Problem(NamedTuple):
    """A seeded problem: how the rows are made, then the parameters of the model."""

    name: str
    data: dict
    params: dict


def problems():
    """All problems, in a fixed order."""
    out = []

    def add(name, data=None, **params):
        out.append(Problem(name, {"seed": len(out)} | (data or {}), params))

    def add_both(name, data, T, **params):
        add(name, data, T=1, **params)
        add(f"{name}, own samples", data, T=T, boot=1, **params)

    kernels = {
        "rbf": {"gamma": "mean_distance"},
        "linear": {"kernel": "linear"},
        "poly2": {"kernel": "poly", "degree": 2, "gamma": "scale"},
        "given": {"kernel": "precomputed"},
    }
    for name, kind in kernels.items():
        for offset in (0.0, 1e4, 1e6, 1e8):
            if name == "poly2" and offset > 1e4:
                continue  # the values of such a kernel are of size 1e32 and more
            add_both(f"offset {offset:g}, {name}", {"offset": offset}, 4, **kind)
        for spread in ((-6, 6), (-6, 0), (0, 6)):
            title = f"columns 1e{spread[0]}..1e{spread[1]}, {name}"
            add_both(title, {"scales": spread}, 5, mu=1e-3, **kind)
        for nu in (1e-8, 1e-5, 1e-3, 1e1, 1e5, 1e8):
            add_both(f"nu {nu:g}, {name}", {}, 3, nu=nu, **kind)
        for mu in (0.0, 1e-9, 1e-4, 1e-1, 1e2, 1e6):
            add(f"mu {mu:g}, {name}, own samples", T=6, boot=1, mu=mu, **kind)
        add(f"mu 1e-2, {name}, equal samples", T=21, mu=1e-2, **kind)
        for n, d in ((12, 300), (40, 40), (41, 39)):
            add_both(f"{n} x {d}, {name}", {"n": n, "d": d}, 4, **kind)
        add(f"one positive row, {name}", {"single": True}, T=1, **kind)
        add(f"one positive row, {name}, 5 equal", {"single": True}, T=5, mu=1e-3, **kind)
        add(f"every row twice, {name}", {"twice": True}, T=1, nu=0.1, **kind)
        add(f"every row with both labels, {name}", {"both": True}, T=3, boot=1, **kind)
        add_both(f"weights over 24 decades, {name}", {"weights": 24}, 3, **kind)
        add(f"50 members, {name}", T=50, boot=1, mu=1e-3, **kind)
    for gamma in (1e-12, 1e-6, 1.0, 1e4, 1e8, 1e16):
        add(f"rbf, gamma {gamma:g}", T=1, gamma=gamma)
        add(f"rbf, gamma {gamma:g}, own samples", {"twice": True}, T=3, boot=1, gamma=gamma)
    add("rbf, columns of 1e8, gamma 1", {"factor": 1e8, "twice": True}, T=1, gamma=1.0)
    for name, kind in kernels.items():
        for nu in (1e-2, 0.5, 1e5, 1e6):
            add(f"alternating, nu {nu:g}, {name}", T=4, boot=1, nu=nu, mu=1e-2,
                solver="alternating", **kind)  # fmt: skip
    for seed in range(24):  # several difficulties at once
        rng = np.random.default_rng(1000 + seed)
        data = {
            "n": int(rng.integers(8, 120)),
            "d": int(rng.integers(1, 60)),
            "noise": float(rng.choice([0.0, 0.3, 3.0])),
            "offset": float(rng.choice([0.0, 10.0, 1e3])),
            "scales": (int(rng.integers(-3, 1)), int(rng.integers(0, 4))),
            "weights": int(rng.choice([0, 2, 10])),
            "twice": bool(rng.random() < 0.2),
        }
        kind = dict(kernels[["rbf", "linear", "given"][seed % 3]])
        nu, mu = float(10 ** rng.uniform(-4, 3)), float(10 ** rng.uniform(-6, 1))
        T = int(rng.integers(1, 9))
        add(f"mixed {seed}", data, T=T, boot=int(seed % 2), nu=nu, mu=mu, **kind)
    return out


def make(seed, n=60, d=6, noise=0.5, offset=0.0, factor=1.0, scales=None, weights=0, single=False,
         twice=False, both=False):  # fmt: skip
    """X, y and weights of a problem."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + noise * rng.normal(size=n) > 0, 1, -1)
    y[:2] = 1, -1
    if single:
        y[:] = -1
        y[0] = 1
    if scales:
        X *= 10.0 ** rng.uniform(*scales, size=d)
    X = factor * X + offset
    weight = 10.0 ** rng.uniform(-weights / 2, weights / 2, size=n) if weights else np.ones(n)
    if twice or both:
        X, weight = np.vstack((X, X)), np.append(weight, weight)
        y = np.append(y, -y if both else y)
    return X, y, weight


def long_kernel(X, kind, gamma, degree, coef0=1.0):
    """k(X, X) in long double."""
    if kind == "precomputed":
        return X.astype(LONG)
    X = X.astype(LONG)
    if kind == "rbf":
        squares = np.zeros((len(X), len(X)), LONG)
        for column in X.T:
            squares += (column[:, None] - column) ** 2
        return np.exp(-LONG(gamma) * squares)
    inner = X @ X.T
    return inner if kind == "linear" else (LONG(gamma) * inner + LONG(coef0)) ** degree


def best_rho(margins, share, total):
    """Root rho of sum_i share_i (rho - margin_i)_+ = total, from the sorted margins."""
    order = np.argsort(margins)
    m, v = margins[order], np.cumsum(share[order])
    sums = np.cumsum(share[order] * m)
    for k in range(len(m)):
        if v[k] > 0:
            rho = (total + sums[k]) / v[k]
            if k + 1 == len(m) or rho <= m[k + 1]:
                return rho
    raise AssertionError("no row has a weight")


def truth(model, X, y, counts, nu, mu, K):
    """Objective at the fitted members and a lower bound of the problem, in long double."""
    T, y, nu, mu = len(counts), y.astype(LONG), LONG(nu), LONG(mu)
    share = counts.astype(LONG)
    share = 2 * share / share.sum(axis=1)[:, None] / T  # of half a squared slack
    if hasattr(model, "coef_"):
        basis = np.column_stack((X, np.ones(len(X)))).astype(LONG)
        w = np.column_stack((model.coef_, model.intercept_)).astype(LONG)
        metric = np.eye(w.shape[1], dtype=LONG)
    else:
        w, basis, metric = model.dual_coef_.astype(LONG), np.eye(len(X), dtype=LONG), K + LONG(1)

    def inner(p, q):
        return p @ metric @ q.T

    scores = inner(w, basis)
    scale = 1 / np.sqrt(np.maximum(inner(w, w).diagonal(), 1))
    assert scale.min() > 1 - 1e-7, "a member is outside the unit ball"
    w, margins = w * scale[:, None], y * scores * scale[:, None]
    rho = np.array([best_rho(margins[t], share[t], nu / T) for t in range(T)])
    xi = np.maximum(rho[:, None] - margins, 0)
    gram = inner(w, w)
    penalty = mu * sum(gram[t, t] + gram[s, s] + 2 * gram[t, s] for t in range(T) for s in range(t))
    value = (share * xi**2).sum() / 2 - nu / T * rho.sum() + penalty
    a = np.where(share > 0, np.maximum(model.alpha_.astype(LONG), 0), 0)
    assert abs(a.sum(axis=1) * T / nu - 1).max() < 1e-9, "alpha_ is not feasible"
    a *= (nu / T / a.sum(axis=1))[:, None]
    slope = 2 * mu * ((T - 2) * w + w.sum(axis=0)) if T > 1 else 0 * w
    weighted_sum = (a * y) @ basis
    rest = weighted_sum - slope
    norms = np.sqrt(np.maximum(inner(rest, rest).diagonal(), 0))
    slack = (a**2 / np.where(share > 0, 2 * share, 1)).sum()
    bound = -slack - penalty - norms.sum()  # the penalty is above its tangent
    d = model.lambda_.astype(LONG) + (mu * (T - 2) if T > 1 else 0)
    if d.min() > 0:  # least over all w, with multipliers for the balls
        U = inner(weighted_sum, weighted_sum) / np.outer(d, d)
        least = (U.diagonal() * d).sum() - mu * U.sum() / (1 + mu * (1 / d).sum())
        bound = max(bound, -slack - least / 4 - model.lambda_.astype(LONG).sum())
    return value, bound


def fitted(problem, tol):
    """Fitted model, its warnings, the seconds, and the problem in numbers."""
    params = dict(problem.params)
    T, boot = params.pop("T"), params.pop("boot", 0)
    X, y, weight = make(**problem.data)
    params |= {"sampling": "bootstrap" if boot else None, "random_state": 3, "tol": tol}
    mu = params.pop("mu", 1e-5)
    model = NuSVM(**params) if T == 1 else DRM(n_estimators=T, mu=mu, **params)
    given = X
    if model.kernel == "precomputed":
        size = np.sqrt((X**2).sum(axis=1))
        given = (X @ X.T) / np.outer(size, size)
    text, seconds = hard.fit(model, given, y, weight)
    counts = hard.example_weights(weight, T, boot, 3)
    K = long_kernel(given, model.kernel, getattr(model, "gamma_", None), model.degree)
    numbers = given, y, counts, model.nu, mu if T > 1 else 0.0, K
    return model, text, seconds, numbers


def check(problem, tol=1e-6):
    """Fit one problem; hold its claim against long double."""
    model, text, seconds, numbers = fitted(problem, tol)
    value, bound = truth(model, *numbers)
    gap = float((value - bound) / abs(value))
    error = float(abs(value - LONG(model.objective_)) / abs(value))
    has_advice = any(word in text for word in HELP)
    is_true = max(gap, error) <= tol
    return hard.Record(
        problem.name, model.converged_, float(model.residual_), gap, error, is_true, has_advice,
        text, seconds,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(hard.main(problems(), check))

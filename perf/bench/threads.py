"""How much two threads gain, here and with LightGBM, XGBoost and scikit-learn.

Gain      Time with n_jobs=1 / time with n_jobs=2, of whole fits on the same rows, binning included;
          the results are compared: trees to the last bit, objectives within 1e-6, their tol.
Small     Time with n_jobs=-1 / time with n_jobs=1 on few rows: threads must not cost anything.
Peers     100 trees of depth 6 on 256 bins, leaves of 20 rows or more, as in the bench of gradient
          boosting, everyone with two threads. The fastest peer's row carries the target.
"""

import os
from functools import partial

import numpy as np

from perf.bench.common import missing, race
from perf.bench.gradient_boosting import PEERS, log_loss, ours
from perf.bench.problems import make
from solvers.adaboost_nc import AdaBoost
from solvers.bagging import Bagging
from solvers.cqboost import CqBoost
from solvers.drm import NuSVM
from solvers.exrm import PSVM
from solvers.gradient_boosting import GradientBoosting

D = 20
SIZES, SIZES_LARGE = (100_000,), (1_000_000,)
GAIN, FREE, AS_FAST = ">= 1.6", "<= 1.05", ">= 1"
FITS = {  # what is raced, the most rows, and the rows from which on the gain has a target
    "GradientBoosting, 50 trees": (GradientBoosting, {"n_estimators": 50}, 10**6, 10**6),
    "AdaBoost, 50 trees of depth 4": (
        AdaBoost, {"n_estimators": 50, "base": "tree", "max_depth": 4}, 10**6, 10**6
    ),
    "AdaBoost, 100 stumps": (AdaBoost, {}, 10**6, None),
    "PSVM": (PSVM, {}, 10**6, 10**6),
    "Bagging, 8 trees": (Bagging, {"n_estimators": 8, "random_state": 0}, 10**5, 10**5),
    "CqBoost": (CqBoost, {}, 10**6, None),
}  # fmt: skip
SMALL = {
    "GradientBoosting": (GradientBoosting, {}),
    "AdaBoost, trees": (AdaBoost, {"base": "tree"}),
    "PSVM": (PSVM, {}),
    "Bagging": (Bagging, {"random_state": 0}),
    "CqBoost": (CqBoost, {}),
    "NuSVM": (NuSVM, {}),
}


def same(one, two):
    """Refuse models that differ."""
    if hasattr(one, "nodes_"):
        assert np.array_equal(one.nodes_, two.nodes_) and np.array_equal(one.weights_, two.weights_)
    else:
        assert abs(one.objective_ - two.objective_) <= 1e-6 * abs(one.objective_)


def gain(report, name, n):
    """One thread against two."""
    kind, params, most, aimed = FITS[name]
    if n > most:
        return
    X, y, data = make(n, D)
    models = [kind(**params, n_jobs=jobs) for jobs in (2, 1)]
    (two, found), (one, expected) = race(*(partial(model.fit, X, y) for model in models))
    same(found, expected)
    target = GAIN if aimed and n >= aimed else ""
    row = dict(what=f"{name}, one thread / two", size=f"{n} x {D}", ours=two, peer=one, data=data)
    report.add(**row, target=target)


def small(report, name, n=200, d=10):
    """All processors against one, where one is enough."""
    kind, params = SMALL[name]
    X, y, _ = make(n, d)
    models = [kind(**params, n_jobs=jobs) for jobs in (-1, 1)]
    (all_of_them, _), (one, _) = race(*(partial(m.fit, X, y) for m in models), rounds=200)
    row = dict(what=f"{name}, n_jobs=-1 / one thread", size=f"{n} x {d}", ours=all_of_them)
    report.add(**row, peer=one, ratio=all_of_them / one, form="{:.3f}x", target=FREE)


def on_two(maker):
    """A fit of a peer that may use two threads; None where it is missing."""
    try:
        from threadpoolctl import threadpool_limits

        model = maker()
    except ImportError:
        return None
    if "n_jobs" in model.get_params():
        model.set_params(n_jobs=2)

    def fit(X, y):
        with threadpool_limits(2, user_api="openmp"):
            return model.fit(X, y)

    return fit


def peers(report, n):
    """A tree, everyone on two threads."""
    X, y, data = make(n, D)
    codes = (y > 0).astype(int)
    fits = [ours().set_params(n_jobs=2).fit, *map(on_two, PEERS.values())]
    fits = [fit and partial(fit, X, codes) for fit in fits]
    (seconds, model), *runs = race(*fits, rounds=3 if n < 10**6 else 2)
    fastest = min((run[0] for run in runs if run[0]), default=None)
    loss, T = log_loss(model, X, codes), model.n_estimators
    for name, (other, peer) in zip(PEERS, runs, strict=True):
        row = dict(what=f"a tree of depth 6 on two threads, {name} / ours", size=f"{n} x {D}")
        row |= dict(ours=seconds / T, target=AS_FAST if other == fastest else "", data=data)
        if other is None:
            report.add(**row, note=missing(name))
            continue
        note = f"training log-loss {loss:.4f} and {log_loss(peer, X, codes):.4f}"
        report.add(**row, peer=other / T, note=note + "; the fastest" * (other == fastest))


def run(report, large):
    assert len(os.sched_getaffinity(0)) >= 2, "this bench needs two processors"
    for name in SMALL:
        small(report, name)
    for n in SIZES + (SIZES_LARGE if large else ()):
        for name in FITS:
            gain(report, name, n)
        peers(report, n)

"""Gain of two threads, here and with LightGBM, XGBoost and scikit-learn.

Gain      Time with n_jobs=1 / time with n_jobs=2, of whole fits on the same rows, binning included;
          the results are compared: trees to the last bit, objectives within 1e-6, their tol.
Small     Time with n_jobs=-1 / time with n_jobs=1 on few rows: threads must not cost anything.
Peers     100 trees of depth 6 on 256 bins, leaves of 20 rows or more, as in the bench of gradient
          boosting, all with two threads. The row of the fastest peer has the target.
"""

import os
from copy import copy
from functools import partial

import numpy as np

from perf.bench.common import time_interleaved
from perf.bench.gradient_boosting import speed
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
DEEP = AdaBoost(n_estimators=50, base="tree", max_depth=4)
FITS = {  # Model, maximum of rows, least rows for which the gain has a target.
    "GradientBoosting, 50 trees": (GradientBoosting(n_estimators=50), 10**6, 10**6),
    "AdaBoost, 50 trees of depth 4": (DEEP, 10**6, 10**6),
    "AdaBoost, 100 stumps": (AdaBoost(), 10**6, None),
    "PSVM": (PSVM(), 10**6, 10**6),
    "Bagging, 8 trees": (Bagging(n_estimators=8, random_state=0), 10**5, 10**5),
    "CqBoost": (CqBoost(), 10**6, None),
}
SMALL = {
    "GradientBoosting": GradientBoosting(),
    "AdaBoost, trees": AdaBoost(base="tree"),
    "PSVM": PSVM(),
    "Bagging": Bagging(random_state=0),
    "CqBoost": CqBoost(),
    "NuSVM": NuSVM(),
}


def times(model, n, d, n_jobs, rounds=3):
    """Seconds of a fit with these threads and with one, and the data; fail if models differ."""
    X, y, data = make(n, d)
    fits = [partial(copy(model).set_params(n_jobs=jobs).fit, X, y) for jobs in (n_jobs, 1)]
    (seconds, one), (other, two) = time_interleaved(*fits, rounds=rounds)
    if hasattr(one, "nodes_"):
        assert np.array_equal(one.nodes_, two.nodes_) and np.array_equal(one.weights_, two.weights_)
    else:
        assert abs(one.objective_ - two.objective_) <= 1e-6 * abs(one.objective_)
    return (seconds, other), data


def gain(report, name, n):
    """One thread against two."""
    model, max_rows, min_target_rows = FITS[name]
    if n > max_rows:
        return
    (two, one), data = times(model, n, D, 2)
    target = GAIN if min_target_rows and n >= min_target_rows else ""
    row = dict(what=f"{name}, one thread / two", size=f"{n} x {D}", target=target, data=data)
    report.add(**row, ours=two, peer=one)


def small(report, name, n=200, d=10):
    """All processors against one on few rows."""
    (every, one), _ = times(SMALL[name], n, d, -1, rounds=200)
    row = dict(what=f"{name}, n_jobs=-1 / one thread", size=f"{n} x {d}", target=FREE)
    report.add(**row, ours=every, peer=one, ratio=every / one, form="{:.3f}x")


def run(report, large):
    assert len(os.sched_getaffinity(0)) >= 2, "this bench needs two processors"
    for name in SMALL:
        small(report, name)
    for n in SIZES + (SIZES_LARGE if large else ()):
        for name in FITS:
            gain(report, name, n)
        speed(report, n, AS_FAST, "depth 6 on two threads", n_jobs=2)

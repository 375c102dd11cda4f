"""Gradient boosting against LightGBM, XGBoost and scikit-learn: time per tree, log-loss, growth.

Speed     100 trees of depth 6 on 256 bins, l2 = 1; all contestants get plain arrays and bin them in
          the time that is measured. The row of the fastest peer has the target. Leaves of 20 rows
          or more; XGBoost, which counts no rows, has a minimum Hessian sum of 1 instead.
Quality   Log-loss of ours / the peer's, leaves of any size. Built-in sets: depth 3, few values per
          feature, so that all bin them alike; there the training loss is compared. The held-out
          loss (five folds) has no target: on a few hundred rows the peers themselves are several
          per cent apart. Generated rows: depth 6, both losses, the held-out one on n new rows.
Start-up  A first report on the command line against `import sklearn.svm`.
"""

from functools import partial

import numpy as np

import datasets
from perf.bench.common import time_interleaved
from perf.bench.problems import growth_in_rows, make
from solvers.gradient_boosting import GradientBoosting

T = 100
DEPTH, D = 6, 20
SPEED = {1_000: "", 10_000: "", 100_000: ">= 1"}
SPEED_LARGE = {1_000_000: ">= 0.833"}
SETS = ("sonar", "heart", "german-numer", "letter-ab", "titanic", "house-votes")
AS_GOOD = "<= 1.01"


def ours(depth=DEPTH, min_leaf=20, leaves=None, trees=T):
    """GradientBoosting with trees of this depth, or with this number of leaves."""
    params = dict(max_depth=depth, max_leaf_nodes=leaves, min_samples_leaf=min_leaf)
    return GradientBoosting(n_estimators=trees, min_child_weight=0.0, **params)


def lightgbm(depth=DEPTH, min_leaf=20, leaves=None, prior=0.5):
    from lightgbm import LGBMClassifier

    params = dict(max_depth=depth or -1, num_leaves=leaves or 2**depth, max_bin=255)
    params |= dict(min_child_samples=min_leaf, min_child_weight=1e-12, reg_lambda=1.0)
    if min_leaf == 1:  # The built-in sets: no two values share a bin.
        params |= dict(min_data_in_bin=1, feature_pre_filter=False)
    return LGBMClassifier(n_estimators=T, learning_rate=0.1, **params, n_jobs=1, verbose=-1)


def xgboost(depth=DEPTH, min_leaf=20, leaves=None, prior=0.5):
    from xgboost import XGBClassifier

    params = dict(max_depth=depth or 0, max_leaves=leaves or 0, max_bin=256, reg_lambda=1.0)
    params |= dict(grow_policy="lossguide" if leaves else "depthwise", tree_method="hist")
    params |= dict(min_child_weight=0 if min_leaf == 1 else 1, base_score=prior)
    return XGBClassifier(n_estimators=T, learning_rate=0.1, **params, n_jobs=1)


def scikit_learn(depth=DEPTH, min_leaf=20, leaves=None, prior=0.5):
    from sklearn.ensemble import HistGradientBoostingClassifier

    params = dict(max_depth=depth, max_leaf_nodes=leaves, min_samples_leaf=min_leaf, max_bins=255)
    params |= dict(l2_regularization=1.0, early_stopping=False)
    return HistGradientBoostingClassifier(max_iter=T, learning_rate=0.1, **params)


def installed():
    """Return the function that makes each peer; None for a peer that is missing."""
    makers = {"lightgbm": lightgbm, "xgboost": xgboost, "scikit-learn": scikit_learn}
    for name, maker in makers.items():
        try:
            maker()
        except ImportError:
            makers[name] = None
    return makers


def log_loss(model, X, codes):
    """Mean log-loss of ours or of a peer; None without a model."""
    if model is None:
        return None
    model = getattr(model, "booster_", model)  # LightGBM's wrapper would warn.
    p = model.predict(X) if model.__class__.__name__ == "Booster" else model.predict_proba(X)[:, 1]
    return float(-np.mean(np.log(np.where(codes == 1, p, 1.0 - p))))


def fit_on(model, n_jobs):
    """Return the fit of a model with this number of threads; None without a model."""
    if model is None or n_jobs == 1:
        return model and model.fit
    from threadpoolctl import threadpool_limits

    if "n_jobs" in model.get_params():
        model.set_params(n_jobs=n_jobs)
    return threadpool_limits.wrap(n_jobs, user_api="openmp")(model.fit)


def speed(report, n, target, kind=f"depth {DEPTH}", n_jobs=1, **shape):
    """Time per tree, a fit divided by T, binning included; with `leaves` the best gain first."""
    X, y, data = make(n, D)
    codes, peers = (y > 0).astype(int), installed()
    models = [ours(**shape), *(maker and maker(**shape) for maker in peers.values())]
    fits = [fit and partial(fit, X, codes) for fit in (fit_on(m, n_jobs) for m in models)]
    (seconds, model), *runs = time_interleaved(*fits, rounds=3 if n < 1_000_000 else 1)
    fastest = min(run[0] for run in runs if run[0])
    loss = log_loss(model, X, codes)
    for name, (other, peer) in zip(peers, runs, strict=True):
        row = dict(what=f"a tree of {kind}, {name} / ours", size=f"{n} x {D}", ours=seconds / T)
        row |= dict(target=target if other == fastest else "", data=data, log_loss=loss)
        if not shape and n_jobs == 1:
            row |= dict(curves={"GradientBoosting": [[n, seconds]], name: [[n, other]]})
        if peer:
            peer_loss = log_loss(peer, X, codes)
            note = f"training log-loss {loss:.4f} and {peer_loss:.4f}"
            note += "; the fastest" * (other == fastest)
            row |= dict(peer=other / T, peer_log_loss=peer_loss, note=note)
        report.add(**row, needs=name)


def losses(maker, depth, whole, folds):
    """Return the training log-loss on `whole` and the mean held-out one on `folds`."""
    values = []
    for X, codes, X_test, codes_test in (whole, *folds):
        prior = {} if maker is ours else {"prior": codes.mean()}
        model = maker(depth=depth, min_leaf=1, **prior).fit(X, codes)
        values.append((log_loss(model, X, codes), log_loss(model, X_test, codes_test)))
    return values[0][0], float(np.mean([held_out for _, held_out in values[1:]]))


def quality(report, name, depth, whole, folds, target):
    """Log-loss of ours / each peer's on splits (X, codes, X_test, codes_test)."""
    size, mine = "{} x {}".format(*whole[0].shape), losses(ours, depth, whole, folds)
    for peer, maker in installed().items():
        if maker is None:
            report.add(f"{name}, ours / {peer}", size, None, target=AS_GOOD, needs=peer)
            continue
        theirs, goals = losses(maker, depth, whole, folds), (AS_GOOD, target)
        rows = zip(("training", "held-out"), mine, theirs, goals, strict=True)
        for kind, own, other, goal in rows:
            row = dict(ratio=own / other, form="{:.4f}", target=goal)
            row |= dict(note=f"{own:.5f} and {other:.5f}")
            report.add(f"{name}, {kind}, ours / {peer}", size, None, **row)


def built_in(report, name, k=5):
    """Quality on a built-in set, in folds drawn row by row."""
    data = datasets.load(name)
    X, codes = data.X, (data.y == np.unique(data.y)[1]).astype(int)
    fold = np.random.default_rng(0).permutation(len(X)) % k
    folds = [(X[fold != f], codes[fold != f], X[fold == f], codes[fold == f]) for f in range(k)]
    quality(report, name, 3, (X, codes, X, codes), folds, "")


def generated(report, n):
    """Quality on 2n generated rows, of which half train and half test."""
    X, y, _ = make(2 * n, D)
    codes = (y > 0).astype(int)
    halves = X[:n], codes[:n], X[n:], codes[n:]
    quality(report, "generated", DEPTH, halves, [halves], AS_GOOD)


def run(report, large):
    for n, target in (SPEED | (SPEED_LARGE if large else {})).items():
        speed(report, n, target)
    speed(report, 100_000, "", "31 leaves", leaves=31, depth=None)
    sizes, target = ((100_000, 1_000_000), "<= 1.1") if large else ((10_000, 100_000), "")
    growth_in_rows(report, f"depth {DEPTH}", ours(trees=20), sizes, D, "20 trees", target)
    for name in SETS:
        built_in(report, name)
    generated(report, 100_000)
    report.startup("gradient-boosting")

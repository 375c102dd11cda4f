"""Gradient boosting against LightGBM, XGBoost and scikit-learn: time a tree, log-loss, growth.

Speed     100 trees of depth 6 on 256 bins, l2 = 1; everyone gets the plain arrays and bins them in
          the time that is measured. The fastest peer's row carries the target. Leaves of 20 rows or
          more; XGBoost, which counts no rows, has a least curvature of 1 instead.
Quality   Log-loss of ours / the peer's, leaves of any size. Built-in sets: depth 3, few values a
          feature, so that all bin them alike; there the training loss is compared. The held-out one
          (five folds) has no target: on a few hundred rows the peers themselves are several per
          cent apart. Generated rows: depth 6, both losses, the held-out one on as many new rows.
Start-up  A first report on the command line against `import sklearn.svm`.
"""

from functools import partial

import numpy as np

import datasets
from perf.bench.common import first_reports, growth, missing, race
from perf.bench.problems import make
from solvers.gradient_boosting import GradientBoosting

T = 100
DEPTH, D = 6, 20
SPEED = {1_000: "", 10_000: "", 100_000: ">= 1"}
SPEED_LARGE = {1_000_000: ">= 0.833"}
SETS = ("sonar", "heart", "german-numer", "letter-ab", "titanic", "house-votes")
AS_GOOD = "<= 1.01"


def ours(depth=DEPTH, least=20, leaves=None, trees=T):
    """GradientBoosting with trees of this depth, or of so many leaves."""
    params = dict(max_depth=depth, max_leaf_nodes=leaves, min_samples_leaf=least)
    return GradientBoosting(n_estimators=trees, min_child_weight=0.0, **params)


def lightgbm(depth=DEPTH, least=20, leaves=None, prior=0.5):
    from lightgbm import LGBMClassifier

    params = dict(max_depth=depth or -1, num_leaves=leaves or 2**depth, max_bin=255)
    params |= dict(min_child_samples=least, min_child_weight=1e-12, reg_lambda=1.0)
    if least == 1:  # the built-in sets: no value may share a bin with another
        params |= dict(min_data_in_bin=1, feature_pre_filter=False)
    return LGBMClassifier(n_estimators=T, learning_rate=0.1, **params, n_jobs=1, verbose=-1)


def xgboost(depth=DEPTH, least=20, leaves=None, prior=0.5):
    from xgboost import XGBClassifier

    params = dict(max_depth=depth or 0, max_leaves=leaves or 0, max_bin=256, reg_lambda=1.0)
    params |= dict(grow_policy="lossguide" if leaves else "depthwise", tree_method="hist")
    params |= dict(min_child_weight=0 if least == 1 else 1, base_score=prior)
    return XGBClassifier(n_estimators=T, learning_rate=0.1, **params, n_jobs=1)


def scikit_learn(depth=DEPTH, least=20, leaves=None, prior=0.5):
    from sklearn.ensemble import HistGradientBoostingClassifier

    params = dict(max_depth=depth, max_leaf_nodes=leaves, min_samples_leaf=least, max_bins=255)
    params |= dict(l2_regularization=1.0, early_stopping=False)
    return HistGradientBoostingClassifier(max_iter=T, learning_rate=0.1, **params)


PEERS = {"lightgbm": lightgbm, "xgboost": xgboost, "scikit-learn": scikit_learn}


def installed():
    """Name and maker of each peer; None for the maker of one that is missing."""
    found = {}
    for name, maker in PEERS.items():
        try:
            maker()
        except ImportError:
            maker = None
        found[name] = maker
    return found


def log_loss(model, X, codes):
    """Mean log-loss; ours and the peers' by the same function."""
    model = getattr(model, "booster_", model)  # LightGBM's wrapper would warn
    p = model.predict(X) if model.__class__.__name__ == "Booster" else model.predict_proba(X)[:, 1]
    return float(-np.mean(np.log(np.where(codes == 1, p, 1.0 - p))))


def speed(report, n, target, leaves=None):
    """Time of a tree: a fit of 100 divided, binning included; with `leaves` the best gain first."""
    X, y, data = make(n, D)
    codes, peers = (y > 0).astype(int), installed()
    shape = dict(leaves=leaves, depth=None) if leaves else {}
    models = [ours(**shape), *(maker and maker(**shape) for maker in peers.values())]
    fits = [model and partial(model.fit, X, codes) for model in models]
    (seconds, model), *runs = race(*fits, rounds=3 if n < 1_000_000 else 1)
    fastest = min((run[0] for run in runs if run[0]), default=None)
    loss, kind = log_loss(model, X, codes), f"{leaves} leaves" if leaves else f"depth {DEPTH}"
    for name, (other, peer) in zip(peers, runs, strict=True):
        row = dict(what=f"a tree of {kind}, {name} / ours", size=f"{n} x {D}", ours=seconds / T)
        row |= dict(target=target if other == fastest else "", data=data, log_loss=loss)
        if not leaves:
            row |= dict(curves={"GradientBoosting": [[n, seconds]], name: [[n, other]]})
        if other is None:
            report.add(**row, note=missing(name))
            continue
        peer_loss = log_loss(peer, X, codes)
        note = f"training log-loss {loss:.4f} and {peer_loss:.4f}"
        row |= dict(peer=other / T, peer_log_loss=peer_loss)
        report.add(**row, note=f"{note}; the fastest" if other == fastest else note)


def rows(report, sizes, target=""):
    """Exponent of the time in the number of rows."""
    row, _ = growth(sizes, [partial(ours(trees=20).fit, *make(n, D)[:2]) for n in sizes])
    row["note"] += " rows, 20 trees"
    what, size = f"depth {DEPTH}, growth in rows", f"{sizes[1]} x {D}"
    report.add(what, size, **row, target=target)


def losses(maker, depth, parts):
    """Log-loss on the rows trained on and on the held-out ones, means over the parts of the data;
    each is (X, codes, held-out X, held-out codes)."""
    found = []
    for X, codes, Z, z in parts:
        prior = {} if maker is ours else {"prior": codes.mean()}
        model = maker(depth=depth, least=1, **prior).fit(X, codes)
        found.append((log_loss(model, X, codes), log_loss(model, Z, z)))
    return np.mean(found, axis=0).tolist()


def quality(report, name, depth, whole, folds, target):
    """Log-loss of ours / each peer's on the training rows of `whole`, and held out in `folds`."""
    size = "{} x {}".format(*whole[0].shape)
    training, held_out = losses(ours, depth, [whole])[0], losses(ours, depth, folds)[1]
    for peer, maker in installed().items():
        if maker is None:
            row = dict(what=f"{name}, ours / {peer}", size=size, ours=None)
            report.add(**row, target=AS_GOOD, note=missing(peer))
            continue
        for kind, mine, theirs, goal in (
            ("training", training, losses(maker, depth, [whole])[0], AS_GOOD),
            ("held-out", held_out, losses(maker, depth, folds)[1], target),
        ):
            row = dict(what=f"{name}, {kind}, ours / {peer}", size=size, ours=None)
            note = f"{mine:.5f} and {theirs:.5f}"
            report.add(**row, ratio=mine / theirs, form="{:.4f}", target=goal, note=note)


def built_in(report, name, k=5):
    """A built-in set, in folds that are dealt row by row."""
    data = datasets.load(name)
    X, codes = data.X, (data.y == np.unique(data.y)[1]).astype(int)
    fold = np.random.default_rng(0).permutation(len(X)) % k
    folds = [(X[fold != f], codes[fold != f], X[fold == f], codes[fold == f]) for f in range(k)]
    quality(report, name, 3, (X, codes, X, codes), folds, "")


def generated(report, n):
    """Half of 2n generated rows to train on, half to test."""
    X, y, _ = make(2 * n, D)
    codes = (y > 0).astype(int)
    part = X[:n], codes[:n], X[n:], codes[n:]
    quality(report, "generated", DEPTH, part, [part], AS_GOOD)


def run(report, large):
    for n, target in (SPEED | (SPEED_LARGE if large else {})).items():
        speed(report, n, target)
    speed(report, 100_000, "", leaves=31)
    rows(report, (100_000, 1_000_000) if large else (10_000, 100_000), "<= 1.1" if large else "")
    for name in SETS:
        built_in(report, name)
    generated(report, 100_000)
    report.startup(first_reports("gradient-boosting"))

"""AdaBoost: growth in rows, and comparison with scikit-learn, LightGBM and XGBoost.

Quality   Equal numbers of trees, depths and bins; the note has the accuracies on the training rows.
          The peers boost another loss, with trees of the same shape.
Start-up  A first report on the command line against `import sklearn.svm`.
"""

from functools import partial

from perf.bench.common import SOON, python, time_interleaved
from perf.bench.gradient_boosting import T, installed
from perf.bench.problems import growth_in_rows, make
from solvers.adaboost_nc import AdaBoost, AdaBoostNC

VERSUS = (  # Peer, depth, rows, features, target of the speed-up.
    ("scikit-learn", 1, 1_000, 20, ""),
    ("scikit-learn", 1, 10_000, 20, ">= 80"),
    ("scikit-learn", 4, 10_000, 20, ">= 60"),
    ("lightgbm", 1, 1_000, 20, ">= 1.2"),
    ("lightgbm", 1, 10_000, 20, ">= 1.2"),
    ("lightgbm", 1, 100_000, 20, ">= 1.2"),
    ("lightgbm", 4, 100_000, 60, ">= 1"),
    ("xgboost", 4, 100_000, 60, ">= 1"),
)
VERSUS_LARGE = (
    ("lightgbm", 1, 1_000_000, 20, ">= 1.2"),
    ("lightgbm", 4, 1_000_000, 20, ">= 1"),
    ("xgboost", 4, 1_000_000, 20, ">= 1"),
)
MEMORY = """
import tracemalloc, numpy as np
from solvers.adaboost_nc import AdaBoost
tracemalloc.start()
X = np.random.default_rng(0).standard_normal(({n}, {d}))
AdaBoost(n_estimators=2, base="tree", max_depth=4).fit(X, X[:, 0] > 0)
print(tracemalloc.get_traced_memory()[1] / X.nbytes)
"""


def ours(depth, trees=T):
    """AdaBoost with trees of this depth."""
    return AdaBoost(n_estimators=trees, base="stump" if depth == 1 else "tree", max_depth=depth)


def theirs(name, depth):
    """Peer with trees of this depth; None if it is not installed."""
    if name == "scikit-learn":
        from sklearn.ensemble import AdaBoostClassifier
        from sklearn.tree import DecisionTreeClassifier

        return AdaBoostClassifier(DecisionTreeClassifier(max_depth=depth), n_estimators=T)
    maker = installed()[name]
    return maker and maker(depth, min_leaf=1)


def versus(report, name, depth, n, d, target):
    """AdaBoost against one peer on one size, binning included."""
    X, y, data = make(n, d)
    codes = (y > 0).astype(int)  # XGBoost takes no other labels.
    models = [m for m in (ours(depth), theirs(name, depth)) if m is not None]
    fits = [partial(model.fit, X, codes) for model in models] + [None]
    (seconds, _), (other, _) = time_interleaved(*fits[:2], rounds=3 if n * d < 1_000_000 else 1)
    kind = "stumps" if depth == 1 else f"depth {depth}"
    row = dict(what=f"{T} {kind}, {name} / AdaBoost", size=f"{n} x {d}", target=target, data=data)
    if kind == "stumps":
        row |= dict(curves={"AdaBoost, 100 stumps": [[n, seconds]], name: [[n, other]]})
    accuracies = [model.score(X, codes) for model in models]
    row |= dict(zip(("accuracy", "peer_accuracy"), accuracies, strict=False))
    note = "training accuracy " + " and ".join(f"{value:.3f}" for value in accuracies)
    report.add(**row, ours=seconds, peer=other, note=note, needs=name)


def deep(report, n=10_000, d=20):
    """AdaBoost.NC with its defaults: pruned trees of any depth on drawn samples."""
    X, y, data = make(n, d)
    fit = partial(AdaBoostNC(random_state=0).fit, X, y)
    [(seconds, model)] = time_interleaved(fit, rounds=2, seconds=0)
    note = f"{model.n_iter_} trees of {model.nodes_.size / model.n_iter_:.0f} nodes"
    report.add("AdaBoostNC()", f"{n} x {d}", seconds, data=data, note=note)


def memory(report, n, d, target):
    """Peak of a fit at depth 4, X included, in sizes of X."""
    ratio = float(python("-c", MEMORY.format(n=n, d=d))())
    report.add("peak memory / size of X", f"{n} x {d}", None, ratio=ratio, target=target)


def run(report, large):
    for cell in VERSUS + (VERSUS_LARGE if large else ()):
        versus(report, *cell)
    sizes, target = ((100_000, 1_000_000), "<= 1.05") if large else ((10_000, 100_000), "")
    for depth in (1, 4):
        model = ours(depth, trees=20)
        growth_in_rows(report, f"depth {depth}", model, sizes, 20, "20 trees", target)
    deep(report)
    memory(report, 1_000_000, 20, "<= 3")
    report.startup("adaboost-nc", "adaboost", targets=SOON)

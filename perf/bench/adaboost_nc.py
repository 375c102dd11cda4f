"""How AdaBoost scales in rows, and how it compares with scikit-learn, LightGBM and XGBoost.

Quality   The same number of trees of the same depth, on as many bins; the note has the accuracies
          on the training rows. The peers boost another loss, with trees of the same shape.
Start-up  A first report on the command line against `import sklearn.svm`.
"""

from functools import partial

from perf.bench.common import SOON, first_reports, growth, missing, python, race
from perf.bench.problems import make
from solvers.adaboost_nc import AdaBoost, AdaBoostNC

T = 100
STUMP, TREE = {"depth": 1}, {"depth": 4}

VERSUS = (  # peer, members, rows, features: the speed-up aimed at
    ("scikit-learn", STUMP, 1_000, 20, ""),
    ("scikit-learn", STUMP, 10_000, 20, ">= 80"),
    ("scikit-learn", TREE, 10_000, 20, ">= 60"),
    ("lightgbm", STUMP, 1_000, 20, ">= 1.2"),
    ("lightgbm", STUMP, 10_000, 20, ">= 1.2"),
    ("lightgbm", STUMP, 100_000, 20, ">= 1.2"),
    ("lightgbm", TREE, 100_000, 60, ">= 1"),
    ("xgboost", TREE, 100_000, 60, ">= 1"),
)
VERSUS_LARGE = (
    ("lightgbm", STUMP, 1_000_000, 20, ">= 1.2"),
    ("lightgbm", TREE, 1_000_000, 20, ">= 1"),
    ("xgboost", TREE, 1_000_000, 20, ">= 1"),
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
    """The peer with the same trees; None where it is not installed."""
    try:
        if name == "lightgbm":
            from lightgbm import LGBMClassifier

            params = dict(n_estimators=T, max_depth=depth, num_leaves=2**depth, max_bin=255)
            return LGBMClassifier(**params, min_child_samples=1, n_jobs=1, verbose=-1)
        if name == "xgboost":
            from xgboost import XGBClassifier

            params = dict(n_estimators=T, max_depth=depth, tree_method="hist", max_bin=256)
            return XGBClassifier(**params, min_child_weight=0, n_jobs=1)
        from sklearn.ensemble import AdaBoostClassifier
        from sklearn.tree import DecisionTreeClassifier

        return AdaBoostClassifier(DecisionTreeClassifier(max_depth=depth), n_estimators=T)
    except ImportError:
        return None


def versus(report, name, members, n, d, target):
    """Ours against one peer on one size, binning included."""
    X, y, data = make(n, d)
    model, peer = ours(**members), theirs(name, members["depth"])
    codes = (y > 0).astype(int)  # XGBoost takes no other labels
    fits = partial(model.fit, X, y), None if peer is None else partial(peer.fit, X, codes)
    (seconds, _), (other, _) = race(*fits, rounds=3 if n * d < 1_000_000 else 1)
    kind = "stumps" if members["depth"] == 1 else f"depth {members['depth']}"
    row = dict(what=f"{T} {kind}, {name} / AdaBoost", size=f"{n} x {d}", target=target, data=data)
    row |= dict(ours=seconds, peer=other)
    if kind == "stumps":
        row |= dict(curves={"AdaBoost, 100 stumps": [[n, seconds]], name: [[n, other]]})
    if peer is None:
        report.add(**row, note=missing(name))
        return
    accuracy, peer_accuracy = model.score(X, y), peer.score(X, codes)
    row |= dict(accuracy=accuracy, peer_accuracy=peer_accuracy)
    report.add(**row, note=f"training accuracy {accuracy:.3f} and {peer_accuracy:.3f}")


def rows(report, members, sizes, d, target=""):
    """Exponent of the time in the number of rows."""
    fits = [partial(ours(**members, trees=20).fit, *make(n, d)[:2]) for n in sizes]
    row, _ = growth(sizes, fits)
    row["note"] += " rows, 20 trees"
    what, size = f"depth {members['depth']}, growth in rows", f"{sizes[1]} x {d}"
    report.add(what, size, **row, target=target)


def deep(report, n=10_000, d=20):
    """AdaBoost.NC as it comes: pruned trees of any depth on drawn samples."""
    X, y, data = make(n, d)
    [(seconds, model)] = race(partial(AdaBoostNC(random_state=0).fit, X, y), rounds=2, seconds=0)
    note = f"{model.n_iter_} trees of {model.nodes_.size / model.n_iter_:.0f} nodes"
    report.add("AdaBoostNC()", f"{n} x {d}", seconds, data=data, note=note)


def memory(report, n, d, target):
    """Peak of a fit, X included, in sizes of X; depth 4."""
    ratio = float(python("-c", MEMORY.format(n=n, d=d))())
    report.add("peak memory / size of X", f"{n} x {d}", None, ratio=ratio, target=target)


def run(report, large):
    for race_of in VERSUS + (VERSUS_LARGE if large else ()):
        versus(report, *race_of)
    sizes = (100_000, 1_000_000) if large else (10_000, 100_000)
    rows(report, STUMP, sizes, 20, "<= 1.05" if large else "")
    rows(report, TREE, sizes, 20, "<= 1.05" if large else "")
    deep(report)
    memory(report, 1_000_000, 20, "<= 3")
    both = (first_reports(name) for name in ("adaboost-nc", "adaboost"))
    report.startup({what: run for reports in both for what, run in reports.items()}, SOON)

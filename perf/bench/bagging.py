"""Bagged trees and random forests: growth in rows, and comparison with scikit-learn's.

Quality   Equal numbers of trees, depths and sample sizes, binning included; the note has the
          accuracies on n new rows, by soft votes as in the peers. Ours also record the training
          error.
Start-up  A first report on the command line against `import sklearn.svm`.
"""

from functools import partial

from perf.bench.common import time_interleaved
from perf.bench.problems import growth_in_rows, make
from solvers.bagging import Bagging

T = 10
FOREST, BAG = "RandomForest", "BaggingClassifier"
CURVES = {
    FOREST: ("Bagging, sqrt features", "RandomForestClassifier"),
    BAG: ("Bagging, all features", "BaggingClassifier"),
}
TARGETS = {FOREST: ">= 2", BAG: ">= 3"}  # Speed-up from 10,000 rows on.
VERSUS, LARGE = ((FOREST, 10_000), (BAG, 10_000), (FOREST, 100_000)), ((BAG, 100_000),)


def ours(name, depth):
    """Trees on all features, or on features drawn at each split."""
    features = "sqrt" if name == FOREST else 1.0
    params = dict(n_estimators=T, max_depth=depth, max_features=features, voting="soft")
    return Bagging(**params, random_state=0)


def theirs(name, depth):
    """Peer with trees of this depth."""
    from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    if name == FOREST:
        return RandomForestClassifier(T, max_depth=depth, random_state=0)
    return BaggingClassifier(DecisionTreeClassifier(max_depth=depth), T, random_state=0)


def versus(report, name, depth, n, target, d=20):
    """Training, then prediction, against one peer on one size."""
    X, y, data = make(2 * n, d)
    X_test, y_test = X[n:], y[n:]
    models = ours(name, depth), theirs(name, depth)
    fits = [partial(model.fit, X[:n], y[:n]) for model in models]
    (seconds, _), (other, _) = time_interleaved(*fits, rounds=3 if n <= 10_000 else 1, seconds=0)
    accuracy, peer_accuracy = (model.score(X_test, y_test) for model in models)
    row = dict(what=f"depth {depth}, {name} / ours", size=f"{n} x {d}", target=target, data=data)
    row |= dict(accuracy=accuracy, peer_accuracy=peer_accuracy)
    if depth == 10:
        times = zip(CURVES[name], (seconds, other), strict=True)
        row |= dict(curves={kind: [[n, value]] for kind, value in times})
    note = f"accuracy {accuracy:.3f} and {peer_accuracy:.3f}"
    report.add(**row, ours=seconds, peer=other, note=note)
    (seconds, _), (other, _) = time_interleaved(*(partial(m.predict, X_test) for m in models))
    report.add(f"{row['what']}, prediction", row["size"], seconds, other, data=data)


def run(report, large):
    for name in TARGETS:
        versus(report, name, 10, 1_000, "")
    for name, n in VERSUS + (LARGE if large else ()):
        for depth in (10, None):
            versus(report, name, depth, n, TARGETS[name])
    for name in TARGETS:
        model, sizes = ours(name, 10), (10_000, 100_000)
        growth_in_rows(report, f"{name}, depth 10", model, sizes, 20, f"{T} trees", "<= 1.1")
    report.startup("bagging")

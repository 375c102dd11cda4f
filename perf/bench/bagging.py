"""How bagged trees and random forests scale in rows, and how they compare with scikit-learn's.

Quality   The same number of trees of the same depth on samples of the same size, binning included;
          the note has the accuracies on as many new rows, by soft votes as in the peers. Ours also
          follow the training error.
Start-up  A first report on the command line against `import sklearn.svm`.
"""

from functools import partial

from perf.bench.common import first_reports, growth, missing, race
from perf.bench.problems import make
from solvers.bagging import Bagging

T = 10
FOREST, BAG = "RandomForest", "BaggingClassifier"
VERSUS = (  # peer, depth, rows: the speed-up aimed at
    (FOREST, 10, 1_000, ""),
    (BAG, 10, 1_000, ""),
    (FOREST, 10, 10_000, ">= 2"),
    (FOREST, None, 10_000, ">= 2"),
    (BAG, 10, 10_000, ">= 3"),
    (BAG, None, 10_000, ">= 3"),
    (FOREST, 10, 100_000, ">= 2"),
    (FOREST, None, 100_000, ">= 2"),
)
VERSUS_LARGE = (
    (BAG, 10, 100_000, ">= 3"),
    (BAG, None, 100_000, ">= 3"),
)


def ours(name, depth, **params):
    """Trees on all features, or on some drawn at each split."""
    features = "sqrt" if name == FOREST else 1.0
    params = {"n_estimators": T, "random_state": 0, **params}
    return Bagging(max_depth=depth, max_features=features, voting="soft", **params)


def theirs(name, depth):
    """The peer with the same trees; None where it is not installed."""
    try:
        from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
        from sklearn.tree import DecisionTreeClassifier
    except ImportError:
        return None
    if name == FOREST:
        return RandomForestClassifier(T, max_depth=depth, random_state=0)
    return BaggingClassifier(DecisionTreeClassifier(max_depth=depth), T, random_state=0)


def halves(n, d):
    """Rows to train on and as many to test on, from one problem."""
    X, y, data = make(2 * n, d)
    return X[:n], y[:n], X[n:], y[n:], data


def versus(report, name, depth, n, target, d=20):
    """Training, then prediction, against one peer on one size."""
    X, y, X_test, y_test, data = halves(n, d)
    model, peer = ours(name, depth), theirs(name, depth)
    row = dict(size=f"{n} x {d}", data=data)
    what = f"depth {depth}, {name} / ours"
    if peer is None:
        report.add(what=what, **row, ours=None, target=target, note=missing("scikit-learn"))
        return
    rounds = dict(rounds=3 if n <= 10_000 else 1, seconds=0)
    (seconds, _), (other, _) = race(partial(model.fit, X, y), partial(peer.fit, X, y), **rounds)
    accuracy, peer_accuracy = model.score(X_test, y_test), peer.score(X_test, y_test)
    times = dict(ours=seconds, peer=other, target=target)
    times |= dict(accuracy=accuracy, peer_accuracy=peer_accuracy)
    if depth == 10:
        kinds = {"Bagging, sqrt features": seconds, "RandomForestClassifier": other}
        if name == BAG:
            kinds = {"Bagging, all features": seconds, "BaggingClassifier": other}
        times |= dict(curves={kind: [[n, value]] for kind, value in kinds.items()})
    report.add(what=what, **row, **times, note=f"accuracy {accuracy:.3f} and {peer_accuracy:.3f}")
    (seconds, _), (other, _) = race(partial(model.predict, X_test), partial(peer.predict, X_test))
    report.add(what=f"{what}, prediction", **row, ours=seconds, peer=other)


def rows(report, name, depth=10, sizes=(10_000, 100_000), d=20, target="<= 1.1"):
    """Exponent of the time in the number of rows."""
    row, _ = growth(sizes, [partial(ours(name, depth).fit, *make(n, d)[:2]) for n in sizes])
    row["note"] += f" rows, {T} trees"
    what, size = f"{name}, depth {depth}, growth in rows", f"{sizes[1]} x {d}"
    report.add(what, size, **row, target=target)


def threads(report, n=100_000, d=20):
    """Two threads against one, where the machine has them to give."""
    X, y, data = make(n, d)
    fits = [partial(ours(FOREST, None, n_jobs=n_jobs).fit, X, y) for n_jobs in (2, 1)]
    (two, _), (one, _) = race(*fits, rounds=2, seconds=0)
    report.add("2 threads, 1 thread / 2 threads", f"{n} x {d}", two, one, data=data)


def run(report, large):
    for race_of in VERSUS + (VERSUS_LARGE if large else ()):
        versus(report, *race_of)
    rows(report, FOREST)
    rows(report, BAG)
    threads(report)
    report.startup(first_reports("bagging"))

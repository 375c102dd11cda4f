"""Voting, Stacking and Calibrated against scikit-learn's, over members that cost next to nothing.

A member's probability is a column of X: what is timed is the combination. Both sides get the same
fitted members. The note has the largest difference of the two results, which must be small.
Timed are fit, and predict or predict_proba on the same rows. Voting.fit also lets the members vote
on the training rows, for its trace; scikit-learn's does not. Its calibration of a fitted model asks
the model five times, once a fold.
"""

from functools import partial

import numpy as np

from perf.bench.common import missing, race
from solvers.combine import Calibrated, Stacking, Voting

SAME = 1e-6  # of probabilities; labels must be equal
PLOT = "Platt", "isotonic"
T = 11  # odd: on a tie we take the second class, scikit-learn the first


def make(n, T, seed=0):
    """Return X (n, T), probabilities of T members that overrate themselves, and y (0 or 1)."""
    rng = np.random.default_rng(seed)
    score = rng.normal(size=n)
    y = (score + rng.logistic(scale=0.5, size=n) > 0).astype(int)
    X = 1.0 / (1.0 + np.exp(-3.0 * (score[:, None] + rng.normal(size=(n, T)))))
    return X, y


def member(k):
    """Return a fitted classifier that reads its probability off column k of X."""
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Column(ClassifierMixin, BaseEstimator):
        def __init__(self, k=k):
            self.k = k

        def fit(self, X, y):
            self.classes_, self.n_features_in_ = np.array([0, 1]), X.shape[1]
            return self

        def decision_function(self, X):
            return X[:, self.k] - 0.5

        def predict(self, X):
            return (X[:, self.k] >= 0.5).astype(int)

        def predict_proba(self, X):
            return np.column_stack([1.0 - X[:, self.k], X[:, self.k]])

    return Column()


def pairs(T):
    """Name of each combination: ours, theirs and the method that gives its result."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import StackingClassifier, VotingClassifier
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LogisticRegression

    X, y = make(10, T)
    members = [member(k).fit(X, y) for k in range(T)]
    named = [(f"m{k}", FrozenEstimator(m)) for k, m in enumerate(members)]
    ours = dict(members=members, prefit=True)
    logistic = LogisticRegression()
    single = dict(base=members[0], prefit=True)
    return {
        "plurality vote": (Voting(**ours), VotingClassifier(named), "predict"),
        "soft vote": (
            Voting(**ours, how="soft"),
            VotingClassifier(named, voting="soft"),
            "predict_proba",
        ),
        "stacking, logistic on top": (
            Stacking(**ours, meta=logistic),
            StackingClassifier(named, logistic, cv="prefit", stack_method="predict_proba"),
            "predict_proba",
        ),
        "Platt": (
            Calibrated(**single),
            CalibratedClassifierCV(named[0][1], method="sigmoid"),
            "predict_proba",
        ),
        "isotonic": (
            Calibrated(**single, method="isotonic"),
            CalibratedClassifierCV(named[0][1], method="isotonic"),
            "predict_proba",
        ),
    }


def versus(report, n, T):
    """Every combination, fit and predict, against scikit-learn's."""
    X, y = make(n, T)
    for name, (model, peer, method) in pairs(T).items():
        runs = race(partial(model.fit, X, y), partial(peer.fit, X, y))
        results = race(partial(getattr(model, method), X), partial(getattr(peer, method), X))
        difference = np.abs(results[0][1] - results[1][1]).max()
        assert difference <= SAME, f"{name}: the results differ by {difference:.1e}"
        note = f"difference {difference:.1e}"
        for what, ((seconds, _), (other, _)) in (("fit", runs), (method, results)):
            row = dict(what=f"{name}, {what}", size=f"{n} x {T}", ours=seconds, peer=other)
            if name in PLOT and what == "fit":
                both = f"Calibrated, {name}", f"scikit-learn, {name}"
                row |= dict(curves={both[0]: [[n, seconds]], both[1]: [[n, other]]})
            report.add(**row, note=note)


def linear(report, n, T):
    """The certified regressions with coefficients >= 0, for which there is no peer."""
    X, y = make(n, T)
    members = [member(k).fit(X, y) for k in range(T)]
    [(seconds, model)] = race(partial(Stacking(members, prefit=True).fit, X, y))
    note = f"gap {model.residual_:.1e}"
    report.add("stacking, linear on top, fit", f"{n} x {T}", seconds, note=note)


def run(report, large):
    try:
        import sklearn  # noqa: F401
    except ImportError:
        report.add("combinations", "", None, note=missing("scikit-learn"))
        return
    for n in (1_000, 10_000, 100_000) + ((1_000_000,) if large else ()):
        versus(report, n, T)
        linear(report, n, T)

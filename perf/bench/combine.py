"""Voting, Stacking and Calibrated against scikit-learn's, over members that cost next to nothing.

A member's probability is a column of X, so that the combination is timed. Both sides get the same
fitted members. The note has the largest difference of the two results, which must be small.
Timed are fit, and predict or predict_proba on the same rows. Voting.fit also computes the votes of
the members on the training rows, for its trace; scikit-learn's does not. Its calibration of a
fitted model calls the model five times, once per fold.
"""

from functools import partial

import numpy as np

from perf.bench.common import time_interleaved
from solvers.combine import Calibrated, Stacking, Voting

SAME = 1e-6  # Largest difference of probabilities; labels must be equal.
PLOT = "Platt", "isotonic"
T = 11  # odd: on a tie we take the second class, scikit-learn the first


def make(n, T, seed=0):
    """Return X (n, T), probabilities of T overconfident members, and y (0 or 1)."""
    rng = np.random.default_rng(seed)
    score = rng.normal(size=n)
    y = (score + rng.logistic(scale=0.5, size=n) > 0).astype(int)
    X = 1.0 / (1.0 + np.exp(-3.0 * (score[:, None] + rng.normal(size=(n, T)))))
    return X, y


def fitted_members(T):
    """Return T fitted classifiers whose probability is column k of X."""
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Column(ClassifierMixin, BaseEstimator):
        def __init__(self, k):
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

    return [Column(k).fit(*make(10, T)) for k in range(T)]


def pairs(T):
    """Return {combination: (ours, theirs, method that gives its result)}."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import StackingClassifier, VotingClassifier
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LogisticRegression

    members = fitted_members(T)
    named = [(f"m{k}", FrozenEstimator(m)) for k, m in enumerate(members)]
    logistic, first, prob = LogisticRegression(), named[0][1], "predict_proba"
    stacked = StackingClassifier(named, logistic, cv="prefit", stack_method=prob)
    ours, single = dict(members=members, prefit=True), dict(base=members[0], prefit=True)
    isotonic = dict(method="isotonic")
    return {
        "plurality vote": (Voting(**ours), VotingClassifier(named), "predict"),
        "soft vote": (Voting(**ours, how="soft"), VotingClassifier(named, voting="soft"), prob),
        "stacking, logistic on top": (Stacking(**ours, meta=logistic), stacked, prob),
        "Platt": (Calibrated(**single), CalibratedClassifierCV(first), prob),
        "isotonic": (
            Calibrated(**single, **isotonic), CalibratedClassifierCV(first, **isotonic), prob
        ),
    }  # fmt: skip


def versus(report, n, T):
    """Fit and prediction of every combination against scikit-learn's."""
    X, y = make(n, T)
    for name, (*models, method) in pairs(T).items():
        runs = time_interleaved(*(partial(model.fit, X, y) for model in models))
        results = time_interleaved(*(partial(getattr(model, method), X) for model in models))
        difference = np.abs(results[0][1] - results[1][1]).max()
        assert difference <= SAME, f"{name}: the results differ by {difference:.1e}"
        for what, ((seconds, _), (other, _)) in (("fit", runs), (method, results)):
            row = dict(what=f"{name}, {what}", size=f"{n} x {T}", ours=seconds, peer=other)
            if name in PLOT and what == "fit":
                both = f"Calibrated, {name}", f"scikit-learn, {name}"
                row |= dict(curves={both[0]: [[n, seconds]], both[1]: [[n, other]]})
            report.add(**row, note=f"difference {difference:.1e}")


def linear(report, n, T):
    """Certified regression with coefficients >= 0, which has no peer."""
    fit = partial(Stacking(fitted_members(T), prefit=True).fit, *make(n, T))
    [(seconds, model)] = time_interleaved(fit)
    note = f"gap {model.residual_:.1e}"
    report.add("stacking, linear on top, fit", f"{n} x {T}", seconds, note=note)


def run(report, large):
    for n in (1_000, 10_000, 100_000) + ((1_000_000,) if large else ()):
        versus(report, n, T)
        linear(report, n, T)

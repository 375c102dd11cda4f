"""OneVsRest and ECOC on 26 classes, against scikit-learn's one-vs-rest.

Data      Like the letter images: 16 whole numbers from 0 to 15, several centres per class; scaled
          to unit variance.
Quality   PSVM reaches a certified gap of 1e-6; LinearSVC, the same problem but for the penalty on
          its bias, runs at its own tol of 1e-4. The notes have the training accuracies.
Overhead  Equal PSVMs in our wrapper and in scikit-learn's.
"""

from functools import partial

import numpy as np

from perf.bench.common import time_interleaved
from solvers.exrm import PSVM
from solvers.multiclass import ECOC, OneVsRest

CURVES = {1: "scikit-learn, LinearSVC", 2: "scikit-learn, PSVM"}
K, D = 26, 16
C = 1.0


def make(n, seed=0):
    """Return X (n, 16) of unit variance and letters y (n,)."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    centres = rng.normal(7.5, 2.5, size=(K, 3, D))
    X = centres[y, rng.integers(0, 3, n)] + rng.normal(0.0, 1.5, size=(n, D))
    X = X.round().clip(0, 15)
    return (X - X.mean(0)) / X.std(0), np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))[y]


def versus(report, n):
    """Fit and predict of one-vs-rest over PSVM against both peers."""
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import LinearSVC

    X, y = make(n)
    peers = OneVsRestClassifier(LinearSVC(C=C, dual=False)), OneVsRestClassifier(PSVM(lam=C))
    models = OneVsRest(PSVM(lam=C)), *peers
    fits = time_interleaved(*(partial(model.fit, X, y) for model in models))
    predictions = time_interleaved(*(partial(model.predict, X) for model in models))
    names = "LinearSVC in scikit-learn / ours", "PSVM in scikit-learn / ours"
    labels = predictions[0][1]
    for what, runs in (("fit", fits), ("predict", predictions)):
        seconds = runs[0][0]
        for k, name in enumerate(names, 1):
            other, theirs = runs[k][0], predictions[k][1]
            row = dict(what=f"{name}, {what}", size=f"{n} x {D}", ours=seconds, peer=other)
            if what == "fit":
                row |= dict(curves={"OneVsRest(PSVM())": [[n, seconds]], CURVES[k]: [[n, other]]})
            accuracies = np.mean(labels == y), np.mean(theirs == y)
            note = "accuracy {:.4f} and {:.4f}".format(*accuracies)
            report.add(**row, note=f"{note}, gap {models[0].residual_:.1e}")
    assert (labels == predictions[2][1]).all(), "the two wrappers of PSVM disagree"


def codes(report, n):
    """Time of the other codes with the built-in least squares."""
    X, y = make(n)
    models = {
        "OneVsRest, linear": OneVsRest(),
        "ECOC random, linear": ECOC(random_state=0),
        "ECOC one-vs-one, linear": ECOC(code="one-vs-one"),
    }
    runs = time_interleaved(*(partial(model.fit, X, y) for model in models.values()))
    for what, (seconds, model) in zip(models, runs, strict=True):
        note = f"{model.n_iter_} columns, accuracy {model.score(X, y):.4f}"
        report.add(f"{what}, fit", f"{n} x {D}", seconds, note=note)


def run(report, large):
    for n in (2_000, 6_000, 20_000) + ((200_000,) if large else ()):
        versus(report, n)
        codes(report, n)

"""Kinds of two-class problems: planted rules and built-in sets, columns standardised."""

from copy import copy
from functools import partial
from typing import NamedTuple

import numpy as np

import datasets
from perf.bench.common import growth

SIZES = (  # Rows, features: each once well conditioned, once noisy and badly conditioned.
    (300, 10), (1_000, 20), (1_000, 60), (2_000, 120), (2_000, 400), (3_000, 30), (10_000, 20),
    (10_000, 120), (60_000, 15),
)  # fmt: skip
SPECIAL = (  # Other conditions, noise and class balance.
    dict(n=300, d=10, lam=10.0),
    dict(n=300, d=10, lam=0.05),
    dict(n=1_000, d=60, positives=0.06),
    dict(n=2_000, d=120, noise=0.05, lam=0.1),
    dict(n=2_000, d=400, noise=3.0, lam=0.05),
    dict(n=3_000, d=30, noise=0.05),
    dict(n=3_000, d=30, noise=3.0, lam=0.05),
    dict(n=10_000, d=20, noise=0.05, lam=10.0),
    dict(n=10_000, d=20, positives=0.06, lam=10.0),
    dict(n=60_000, d=15, condition=100, lam=0.05),
)
BUILT_IN = (  # With lam = 1.
    "german", "car:unacc-vs-rest", "cmc:1-vs-rest", "hypothyroid", "letter-ab", "letter:A-vs-rest",
    "letter:A+B+C+D-vs-E+F+G+H", "optdigits:3-vs-8", "optdigits:0+1+2+3+4-vs-rest", "titanic",
)  # fmt: skip
OTHER_LAM = {  # Built-in sets with another lam.
    "insurance-num": 0.05,
    "optdigits:8-vs-rest": 0.1,
    "splice:N-vs-rest": 0.1,
    "yeast:MIT-vs-rest": 10.0,
}
CLUSTERS = (1_000, 100), (10_000, 20), (10_000, 100), (100_000, 20)  # Of make_classification.
CLUSTERS_LARGE = ((1_000_000, 20),)


class Problem(NamedTuple):
    kind: str
    X: np.ndarray  # (n, d)
    y: np.ndarray  # -1.0 or 1.0
    lam: float


def make(n, d, seed=0):
    """Return standardised X (n, d), y (-1.0 or 1.0) and the name of the generator."""
    from sklearn.datasets import make_classification

    shape = dict(n_informative=d // 2, n_redundant=d // 4, flip_y=0.05)
    X, y = make_classification(n, d, **shape, random_state=seed)
    return (X - X.mean(0)) / X.std(0), 2.0 * y - 1.0, "make_classification"


def growth_in_rows(report, what, model, sizes, d, note, target=""):
    """Add the exponent of a model's time in the number of rows of `make`."""
    row, _ = growth(sizes, [partial(copy(model).fit, *make(n, d)[:2]) for n in sizes])
    row["note"] += f" rows, {note}"
    report.add(f"{what}, growth in rows", f"{sizes[1]} x {d}", **row, target=target)


def planted(n, d, noise=0.3, condition=1, positives=0.5, lam=1.0, seed=0):
    """Return a problem with a linear rule of unit variance plus noise of this standard deviation.

    `condition` is the condition number of X before its columns are standardised, `positives` the
    fraction of rows with y = 1.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if condition > 1:
        turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
        X = (X * np.geomspace(1.0, 1.0 / condition, d)) @ turn
    X = (X - X.mean(0)) / X.std(0)
    rule = X @ rng.normal(size=d)
    score = rule / rule.std() + noise * rng.normal(size=n)
    kind = f"noise {100 * noise:g} %"
    kind += f", condition {condition}" if condition > 1 else ""
    kind += f", {100 * positives:g} % positive" if positives != 0.5 else ""
    y = np.where(score > np.quantile(score, 1.0 - positives), 1.0, -1.0)
    return Problem(kind, X, y, lam)


def built_in(name, lam):
    """Return a built-in set; a missing value becomes the median of its column."""
    data = datasets.load(name)
    X = datasets.Preprocess("standard").fit(data.X).transform(data.X)
    return Problem(name, X, 2.0 * data.y - 1.0, lam)


def problems(large=False):
    """Yield all kinds, one after the other."""
    for n, d in SIZES:
        yield planted(n, d)
        yield planted(n, d, noise=0.8, condition=100)
    for kind in SPECIAL:
        yield planted(**kind)
    for name, lam in (dict.fromkeys(BUILT_IN, 1.0) | OTHER_LAM).items():
        yield built_in(name, lam)
    for n, d in CLUSTERS + (CLUSTERS_LARGE if large else ()):
        X, y, generator = make(n, d)
        yield Problem(generator, X, y, lam=1.0)

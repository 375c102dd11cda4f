"""Cost of the measures of all pairs of members against one matrix product of their size.

The product that the measures cannot do without is votes.T @ votes, (T, n) by (n, T), here of dense
arrays in float32 and in float64. NumPy sees that the two factors are one array and computes half of
the product: that is the stricter measure and the one taken. The votes are -1.0 and +1.0 in float64,
as the models return them: converting them to the factors counts for ours, not for the product.
"""

from functools import partial

import numpy as np

from perf.bench.common import growth, time_interleaved
from solvers.diversity import pairwise

TARGET = "<= 3"


def make(n, T, seed=0):
    """Return votes (n, T) with 30 % errors, of which a third are common, and the labels (n,)."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.5
    wrong = (rng.random((n, T)) < 0.2) | (rng.random(n) < 0.125)[:, None]
    return np.where(wrong == y[:, None], -1.0, 1.0), y


def versus(report, n, T, dtypes):
    """All measures against one product, in each precision."""
    votes, y = make(n, T)
    factors = [votes.astype(dtype) for dtype in dtypes]
    products = [partial(np.dot, factor.T, factor) for factor in factors]
    (seconds, _), *others = time_interleaved(partial(pairwise, votes, y), *products)
    for dtype, (other, _) in zip(dtypes, others, strict=True):
        what = f"pairwise / np.dot, {np.dtype(dtype).name}"
        row = dict(what=what, size=f"{n} x {T}", target=TARGET if (n, T) == (10_000, 1_000) else "")
        if n == 10_000:
            curves = {"pairwise": [[T, seconds]], f"np.dot, {np.dtype(dtype).name}": [[T, other]]}
            row |= dict(axis="members", curves=curves)
        report.add(**row, ours=seconds, peer=other, ratio=seconds / other)


def members(report, n, sizes):
    """Exponent of the time in the number of members; that of a product is 2."""
    row, _ = growth(sizes, [partial(pairwise, *make(n, T)) for T in sizes])
    row |= dict(form="T^{:.2f}", note=row["note"] + " members")
    report.add("pairwise, growth in members", f"{n} x {sizes[1]}", **row)


def run(report, large):
    dtypes = np.float32, np.float64
    sizes = (1_000, 50), (10_000, 60), (10_000, 250), (10_000, 1_000)
    for n, T in sizes + (((100_000, 1_000),) if large else ()):
        versus(report, n, T, dtypes)
    members(report, 10_000, (250, 1_000))

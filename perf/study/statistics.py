"""Tests that hold for comparisons of classifiers.

Random splits of one data set overlap, so that their errors are not independent: within a set the
corrected t-test allows for it. Across sets, on the means of each set, the tests are those of
Demsar (2006), with Holm's step-down for all pairs, and the Bayesian signed-rank test.
"""

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import special, stats

PRIOR = 0.5  # Weight of the prior of the Bayesian test, in data sets with equal methods.
DRAWS = 50_000  # Distributions drawn from the posterior of the Bayesian test.
CHUNK = 2_000  # Draws at a time, to bound memory.


class Test(NamedTuple):
    """A test of two methods: its statistic and the two-sided p-value."""

    statistic: float
    p: float


class Pair(NamedTuple):
    """Two methods, by number, and the p-values of their signed-rank test."""

    first: int
    second: int
    p: float
    adjusted: float  # By Holm's step-down over all pairs.


class Posterior(NamedTuple):
    """Probabilities that the first method is better, that both are equal, that it is worse."""

    better: float
    equal: float
    worse: float


def corrected_t(differences, train, test):
    """Return Nadeau and Bengio's t-test of the differences (J,) of random splits; NaN if J = 1.

    `train` and `test` are rows per split. Equal differences give p = 0, or p = 1 if all are 0.
    """
    mean, error = _corrected_error(differences, train, test)
    if error == 0.0:
        return Test(math.copysign(math.inf, mean), 0.0) if mean else Test(0.0, 1.0)
    t = mean / error
    return Test(t, float(2.0 * special.stdtr(len(differences) - 1, -abs(t))))


def corrected_interval(differences, train, test, level=0.95):
    """Return the mean of the differences and the ends of its interval by the corrected t-test."""
    mean, error = _corrected_error(differences, train, test)
    half = error * float(special.stdtrit(max(len(differences) - 1, 1), 0.5 + 0.5 * level))
    return mean, mean - half, mean + half


def _corrected_error(differences, train, test):
    """Return mean and standard error sqrt((1 / J + test / train) s^2), as J splits overlap."""
    J, mean = len(differences), float(np.mean(differences))
    if J < 2:
        return mean, math.nan
    return mean, math.sqrt(np.var(differences, ddof=1) * (1.0 / J + test / train))


def ranks(table):
    """Rank of each method on each set, (sets, methods); 1 is the lowest value, ties share."""
    return stats.rankdata(np.asarray(table, dtype=np.float64), axis=1)


def friedman(table):
    """Return Friedman's chi-square test, corrected for ties, of errors (sets, methods)."""
    each = ranks(table)
    N, k = each.shape
    chi = 12.0 * N / (k * (k + 1)) * (np.sum(each.mean(axis=0) ** 2) - k * (k + 1) ** 2 / 4.0)
    sizes = np.concatenate([np.unique(row, return_counts=True)[1] for row in each])
    scale = 1.0 - np.sum(sizes**3 - sizes) / (N * k * (k**2 - 1))
    chi = float(chi / scale) if scale > 0 else 0.0
    return Test(chi, float(stats.chi2.sf(chi, k - 1)))


def holm(p_values):
    """Return p-values adjusted by Holm's step-down, in their order."""
    p_values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(p_values.size, 0, -1)
    adjusted = np.empty(p_values.size)
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1.0)
    return adjusted


def wilcoxon_holm(table):
    """Return Wilcoxon's signed-rank test of every pair of methods, p-values adjusted by Holm."""
    table = np.asarray(table, dtype=np.float64)
    pairs = list(combinations(range(table.shape[1]), 2))
    p_values = [_signed_rank(table[:, i] - table[:, j]) for i, j in pairs]
    found = zip(pairs, p_values, holm(p_values).tolist(), strict=True)
    return [Pair(*pair, p, adjusted) for pair, p, adjusted in found]


def _signed_rank(differences):
    """p-value of Wilcoxon's signed-rank test, exact also with ties and with differences of 0.

    Sums of the ranks, doubled to be whole numbers, are counted one rank after the other. Ranks of
    differences of 0 are split in halves.
    """
    if not differences.any():
        return 1.0
    ranks = np.rint(2.0 * stats.rankdata(np.abs(differences))).astype(np.int64)
    signed = ranks[differences != 0.0]
    counts = np.ones(1)
    for rank in signed:
        gap = np.zeros(rank)
        counts = 0.5 * (np.append(counts, gap) + np.append(gap, counts))
    centre = 0.5 * signed.sum()
    distance = abs(ranks[differences > 0.0].sum() - centre)
    sums = np.arange(counts.size)
    return float(min(1.0, counts[np.abs(sums - centre) >= distance].sum()))


def nemenyi(methods, sets, level=0.05):
    """Nemenyi's critical difference of average ranks."""
    q = stats.studentized_range.ppf(1.0 - level, methods, np.inf) / math.sqrt(2.0)
    return float(q * math.sqrt(methods * (methods + 1) / (6.0 * sets)))


def cliques(ranks, difference):
    """Maximal groups of two or more methods, best first, whose average ranks differ by at most
    `difference`."""
    ranks = np.asarray(ranks, dtype=np.float64)
    order, found, last = np.argsort(ranks, kind="stable"), [], 1
    for first, best in enumerate(order):
        end = int((ranks <= ranks[best] + difference).sum())
        if end > max(first + 1, last):
            found.append(order[first:end].tolist())
            last = end
    return found


def bayesian_signed_rank(a, b, rope=0.0, seed=0):
    """Return the Bayesian signed-rank test (Benavoli and others) of errors a and b over the sets.

    A distribution over the sets, and over one more on which both are equal, is drawn from a
    Dirichlet posterior. In each draw one of three states is the most probable for the mean of two
    sets: a better than b by more than `rope`, both equal within it, or b better.
    """
    z = np.append(0.0, np.asarray(b, dtype=np.float64) - np.asarray(a, dtype=np.float64))
    sums = z[:, None] + z
    is_better = (sums > 2.0 * rope).astype(np.float64)
    is_worse = (sums < -2.0 * rope).astype(np.float64)
    rng = np.random.default_rng(seed)
    wins = np.zeros(3, dtype=np.int64)
    for _ in range(0, DRAWS, CHUNK):
        weights = rng.standard_exponential((CHUNK, z.size))  # Parts of their sum are Dirichlet's.
        weights[:, 0] = rng.standard_gamma(PRIOR, CHUNK)
        better = np.einsum("ij,ij->i", weights @ is_better, weights)
        worse = np.einsum("ij,ij->i", weights @ is_worse, weights)
        states = np.column_stack([better, weights.sum(axis=1) ** 2 - better - worse, worse])
        wins += np.bincount(states.argmax(axis=1), minlength=3)
    return Posterior(*(wins / wins.sum()).tolist())

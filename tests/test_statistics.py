"""Tests for perf/study/statistics.py."""

import math

import baycomp
import numpy as np
import pytest
import scikit_posthocs
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from perf.study import statistics

# Table 6 of Demsar (2006): the area under the ROC curve of four variants of C4.5 on 14 sets. On
# "voting" the third and the fourth are printed as equal and ranked 2 and 3.
DEMSAR = np.array([
    [0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569], [0.954, 0.971, 0.968, 0.967],
    [0.628, 0.661, 0.654, 0.657], [0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931],
    [0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625], [0.775, 0.838, 0.866, 0.875],
    [1.000, 1.000, 1.000, 1.000], [0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669],
    [0.972, 0.981, 0.9751, 0.975], [0.957, 0.978, 0.946, 0.970],
])  # fmt: skip


def random_table(seed, ties=True):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(rng.integers(5, 20), rng.integers(3, 7)))
    return np.round(table, 1) if ties else table


def test_demsar_s_example():
    average = statistics.ranks(-DEMSAR).mean(axis=0)
    assert_allclose(average, [3.143, 2.000, 2.893, 1.964], atol=5e-4)
    assert round(statistics.friedman(-DEMSAR).statistic, 2) == 10.23
    assert round(statistics.nemenyi(4, 14), 2) == 1.25


@pytest.mark.parametrize("seed", range(20))
def test_friedman_with_ties_is_scipy_s(seed):
    table = random_table(seed)
    expected = stats.friedmanchisquare(*table.T)
    assert_allclose(statistics.friedman(table), expected, rtol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_holm_and_the_pairs_are_those_of_scikit_posthocs(seed):
    table = random_table(seed, ties=False)
    columns = list(table.T)
    plain = scikit_posthocs.posthoc_wilcoxon(columns).to_numpy()
    adjusted = scikit_posthocs.posthoc_wilcoxon(columns, p_adjust="holm").to_numpy()
    for pair in statistics.wilcoxon_holm(table):
        place = pair.first, pair.second
        assert_allclose((pair.p, pair.adjusted), (plain[place], adjusted[place]), rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("digits", [9, 0])
def test_wilcoxon_by_its_definition(seed, digits):
    """Exact: of all choices of signs, those whose rank sum is as far from the middle. Rounded
    differences are equal, or 0: of a rank of 0, half is on either side."""
    differences = np.random.default_rng(seed).normal(0.4, 1.0, size=9).round(digits)
    table = np.column_stack([differences, np.zeros(9)])
    ranks = stats.rankdata(abs(differences))[differences != 0]
    signs = np.array(np.meshgrid(*[[0, 1]] * ranks.size)).reshape(ranks.size, -1)
    middle = ranks.sum() / 2
    far = abs(ranks @ (differences[differences != 0] > 0) - middle)
    expected = np.mean(abs(ranks @ signs - middle) >= far)
    (pair,) = statistics.wilcoxon_holm(table)
    assert_allclose((pair.p, pair.adjusted), expected, rtol=1e-12)


def test_holm_by_hand():
    """The smallest of three is multiplied by 3, the next by 2, and none falls below an earlier."""
    assert_allclose(statistics.holm([0.04, 0.01, 0.03]), [0.06, 0.03, 0.06])
    assert_allclose(statistics.holm([0.5, 0.9]), [1.0, 1.0])


def test_equal_methods_are_not_told_apart():
    table = np.repeat(np.arange(6.0)[:, None], 3, axis=1)
    assert [pair.p for pair in statistics.wilcoxon_holm(table)] == [1.0] * 3
    assert statistics.friedman(table) == (0.0, 1.0)
    assert_array_equal(statistics.ranks(table), 2.0)


@pytest.mark.parametrize("level", [0.01, 0.05, 0.2, 0.5])
@pytest.mark.parametrize("seed", range(5))
def test_nemenyi_separates_what_scikit_posthocs_does(seed, level):
    table = random_table(seed)
    table += 0.6 * np.arange(table.shape[1])
    average = statistics.ranks(table).mean(axis=0)
    apart = abs(average[:, None] - average) > statistics.nemenyi(*table.shape[::-1], level)
    expected = scikit_posthocs.posthoc_nemenyi_friedman(table).to_numpy() < level
    assert_array_equal(apart, expected)
    assert level < 0.5 or apart.any()


@pytest.mark.parametrize("rope", [0.0, 0.01])
@pytest.mark.parametrize("pair", [(0, 1), (0, 3), (1, 2), (2, 3)])
def test_bayesian_signed_rank_is_baycomp_s(pair, rope):
    one, two = DEMSAR[:, pair[0]], DEMSAR[:, pair[1]]
    expected = baycomp.SignedRankTest.probs(one, two, rope, nsamples=50_000, random_state=1)
    found = statistics.bayesian_signed_rank(-one, -two, rope)
    expected = (expected[0], 1.0 - sum(expected), expected[1]) if rope == 0 else expected
    assert_allclose(found, expected, atol=0.01)


def test_corrected_t_by_its_definition():
    rng = np.random.default_rng(0)
    for train, test in ((50, 50), (90, 10), (150, 450)):
        differences = rng.normal(0.5, 1.0, size=10)
        found = statistics.corrected_t(differences, train, test)
        plain = stats.ttest_1samp(differences, 0.0)
        wider = math.sqrt((1 / 10 + test / train) / (1 / 10))
        assert_allclose(found.statistic, plain.statistic / wider, rtol=1e-12)
        mean, low, high = statistics.corrected_interval(differences, train, test)
        assert_allclose((low + high) / 2, mean)
        level = 1.0 - found.p  # The interval of this level ends at zero.
        ends = statistics.corrected_interval(differences, train, test, level)[1:]
        assert_allclose(min(np.abs(ends)), 0.0, atol=1e-9)


@pytest.mark.parametrize(("folds", "runs"), [(10, 1), (5, 4), (2, 10)])
def test_corrected_t_is_that_of_baycomp_on_folds(folds, runs):
    """With a flat prior the posterior of the mean is the same t distribution."""
    one, two = np.random.default_rng(folds).normal(size=(2, folds * runs))
    left, right = baycomp.CorrelatedTTest.probs(one, two + 0.3, runs=runs)
    found = statistics.corrected_t(two + 0.3 - one, folds - 1, 1)
    assert_allclose(found.p, 2 * min(left, right), rtol=1e-9)
    assert (found.statistic > 0) == (right > left)


def test_corrected_t_of_constant_differences():
    assert statistics.corrected_t([0.0, 0.0, 0.0], 10, 10) == (0.0, 1.0)
    assert statistics.corrected_t([-1.0, -1.0], 10, 10) == (-math.inf, 0.0)
    assert all(math.isnan(part) for part in statistics.corrected_t([1.0], 10, 10))
    mean, *ends = statistics.corrected_interval([1.0], 10, 10)
    assert mean == 1.0 and all(map(math.isnan, ends))

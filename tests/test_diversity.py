"""Tests for solvers/diversity.py."""

import itertools
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from solvers import diversity
from solvers.diversity import (
    ambiguity,
    averages,
    correlation,
    disagreement,
    double_fault,
    error_covariance,
    exclusivity,
    kappa,
    kappa_error,
    kappa_error_figure,
    margins,
    over_pairs,
    pairwise,
    q_statistic,
)

pytestmark = pytest.mark.uncompiled  # The solver has no kernels.


def naive_pair(one, two, y):
    """The five measures of two members by the 2x2 table, row by row."""
    a = b = c = d = wrong = 0
    for h, k, label in zip(one, two, y, strict=True):
        a += h >= 0 and k >= 0
        b += h >= 0 and k < 0
        c += h < 0 and k >= 0
        d += h < 0 and k < 0
        wrong += (h >= 0) != (label > 0) and (k >= 0) != (label > 0)
    m = a + b + c + d
    p1, p2 = (a + d) / m, ((a + b) * (a + c) + (c + d) * (b + d)) / m**2
    root = ((a + b) * (a + c) * (c + d) * (b + d)) ** 0.5
    same = 1.0 if b + c == 0 else -1.0 if a + d == 0 else 0.0  # what the docstring promises
    return {
        "disagreement": (b + c) / m,
        "correlation": (a * d - b * c) / root if root else same,
        "q_statistic": (a * d - b * c) / (a * d + b * c) if a * d + b * c else same,
        "kappa": (p1 - p2) / (1 - p2) if p2 != 1 else 1.0,
        "double_fault": wrong / m,
    }


def naive(votes, y):
    T = votes.shape[1]
    pairs = [[naive_pair(votes[:, t], votes[:, k], y) for k in range(T)] for t in range(T)]
    return {name: np.array([[p[name] for p in row] for row in pairs]) for name in pairs[0][0]}


def naive_averages(votes, y):
    """Means over the pairs of members, and the mean error of a member."""
    pairs = [naive_pair(one, two, y) for one, two in itertools.combinations(votes.T, 2)]
    means = {name: np.mean([pair[name] for pair in pairs]) for name in pairs[0]}
    return means | {"member_error": np.mean((votes >= 0) != (y > 0)[:, None])}


def table(seed, n=60, T=6):
    """Votes of members of differing skill, labels -1/+1."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], n)
    votes = y[:, None] * np.where(rng.random((n, T)) < rng.random(T), -1.0, 1.0)
    votes.flags.writeable = False
    return votes, y


# -- correct --------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(8))
def test_matches_the_tables(seed, monkeypatch):
    votes, y = table(seed)
    expected, found = naive(votes, y), pairwise(votes, y)
    assert list(found) == list(expected)
    for name, values in expected.items():
        assert_allclose(found[name], values, atol=1e-14, err_msg=name)
    monkeypatch.setattr(diversity, "PRODUCT_ROWS", 7)  # rows in several parts give the same counts
    for name, values in pairwise(votes, y).items():
        assert_array_equal(values, found[name])


@pytest.mark.parametrize("n, T", [(1, 1), (1, 4), (2, 5), (3, 8), (5, 40)])
def test_degenerate_tables_have_values(n, T):
    """Few rows: constant, equal and opposed members all occur."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        votes, y = rng.choice([-1, 1], (n, T)), rng.choice([-1, 1], n)
        found = pairwise(votes, y)
        for name, values in naive(votes, y).items():
            assert_allclose(found[name], values, atol=1e-14, err_msg=name)
    votes = np.array([[1, 1, -1, 1], [1, 1, -1, -1], [1, 1, -1, 1]])
    for measure in (correlation, q_statistic):
        assert_array_equal(measure(votes)[0], [1, 1, -1, 0])
    assert_array_equal(kappa(votes)[0], [1, 1, 0, 0])
    assert diversity._ratio(0.0, 0.0, 0, 1, 1, 0) == -1.0  # Opposed members, of which b = c.


def test_single_measures_are_those_of_pairwise():
    votes, y = table(0)
    found = pairwise(votes, y)
    for measure in (disagreement, correlation, q_statistic, kappa):
        assert_array_equal(measure(votes), found[measure.__name__])
    assert_array_equal(double_fault(votes, y), found["double_fault"])
    assert "double_fault" not in pairwise(votes)
    right = votes * y[:, None]  # double fault is entry d of the tables of right and wrong
    assert_array_equal(disagreement(right), disagreement(votes))
    assert_array_equal(double_fault(right, np.ones(len(y))), double_fault(votes, y))


def test_matches_numpy_and_scikit_learn():
    votes, y = table(1, n=500)
    assert_allclose(correlation(votes), np.corrcoef(votes.T), atol=1e-12)
    metrics = pytest.importorskip("sklearn.metrics")
    for t, k in ((0, 1), (2, 5)):
        assert_allclose(kappa(votes)[t, k], metrics.cohen_kappa_score(votes[:, t], votes[:, k]))


def test_kappa_error_points():
    votes, y = table(3)
    x, error = kappa_error(votes, y)
    pairs = [(t, k) for t in range(6) for k in range(t + 1, 6)]
    assert_allclose(x, [kappa(votes)[pair] for pair in pairs])
    wrong = (votes != y[:, None]).mean(0)
    assert_allclose(error, [(wrong[t] + wrong[k]) / 2 for t, k in pairs])
    assert over_pairs(np.arange(9).reshape(3, 3)).tolist() == [1, 2, 5]


def test_exclusivity():
    coef = np.random.default_rng(0).normal(size=(4, 7)) * (np.arange(28).reshape(4, 7) % 3 > 0)
    for t in range(4):
        for k in range(4):
            both = coef[t] * coef[k]
            assert exclusivity(coef)[t, k] == np.count_nonzero(both)
            assert_allclose(exclusivity(coef, relaxed=True)[t, k], np.abs(both).sum())


@pytest.mark.parametrize("seed", range(5))
def test_decomposition_is_an_identity(seed):
    rng = np.random.default_rng(seed)
    votes, y, weights = rng.normal(size=(200, 9)), rng.normal(size=200), rng.random(9)
    for alpha in (weights / weights.sum(), None):
        found = ambiguity(votes, alpha, y)
        assert_allclose(found.ensemble, found.members - found.ambiguity, rtol=0, atol=1e-12)
        alpha = np.full(9, 1 / 9) if alpha is None else alpha
        H = sum(alpha[t] * votes[:, t] for t in range(9))
        assert_allclose(found.ensemble, (H - y) ** 2, atol=1e-12)
        spread = sum(alpha[t] * (votes[:, t] - H) ** 2 for t in range(9))
        assert_allclose(found.ambiguity, spread, atol=1e-12)


def test_margins():
    votes, y = table(4)
    weights = np.arange(6.0)
    expected = [y[i] * sum(weights * votes[i]) / 15 for i in range(len(y))]
    assert_allclose(margins(votes, weights, y), expected, atol=1e-15)
    assert_array_equal(margins(votes, weights, y > 0), margins(votes, weights, y))
    assert_allclose(margins(votes, None, y), [y[i] * votes[i].mean() for i in range(len(y))])


def test_error_covariance():
    rng = np.random.default_rng(0)
    n, T, R = 12, 5, 9
    y = rng.choice([-1, 1], n)
    runs, weights = rng.choice([-1, 1], (R, n, T)), rng.random((R, T))
    expected = np.zeros(T - 1)
    for t in range(1, T):
        for i in range(n):
            h = [runs[r][i, t] == y[i] for r in range(R)]
            sums = [sum(weights[r][j] * runs[r][i, j] for j in range(t)) for r in range(R)]
            H = [(1 if s >= 0 else -1) == y[i] for s in sums]
            expected[t - 1] += np.cov(h, H, bias=True)[0, 1] / n
    assert_allclose(error_covariance(runs, y, weights), expected, atol=1e-14)
    equal = error_covariance(runs, y)
    assert abs(equal - expected).max() > 0.01  # equal weights are another vote
    assert_array_equal(error_covariance(runs, y, np.full((R, T), 0.3)), equal)
    longer = [np.hstack([votes, votes]) if r % 2 else votes for r, votes in enumerate(runs)]
    assert_array_equal(error_covariance(longer, y), equal)  # members after the shortest are cut
    assert_array_equal(error_covariance(longer[1:], y), error_covariance(runs[1:], y))
    tails = [np.concatenate([w, w]) if r % 2 else w for r, w in enumerate(weights)]
    assert_allclose(error_covariance(longer, y, tails), expected, atol=1e-14)


def test_a_tied_vote_is_positive():
    """Three votes to three: weights scaled to sum 1 would leave 3e-17 of either sign."""
    signs = [1, 1, 1, -1, -1, -1, 1]
    runs = [np.array([signs]), np.array([[1, 1, 1, 1, -1, -1, -1]])]
    sums = [np.cumsum(votes) for votes in runs]
    h = np.array([[vote > 0 for vote in votes[0, 1:]] for votes in runs])
    H = np.array([[total >= 0 for total in found[:-1]] for found in sums])
    expected = (h & H).mean(0) - h.mean(0) * H.mean(0)
    assert_allclose(error_covariance(runs, [True]), expected, atol=1e-15)
    assert margins([signs[:6]], None, [1])[0] == 0.0


# -- labels ---------------------------------------------------------------------------------------
LABELS = [(0, 1), (False, True), (1, 2), (-1, 1), (-3, -2), (0.0, 1.0), (-1.5, 2.5), (0.5, 1.5),
          ("no", "yes"), (b"a", b"b")]  # fmt: skip


@pytest.mark.parametrize("low, high", LABELS)
def test_votes_may_be_any_two_labels(low, high):
    """Disagreement of two members that differ on 4 of 10 rows is 0.4, whatever the labels are."""
    signs, y = table(8)
    expected = naive(signs, y)
    found = averages(signs, y)
    votes, labels = np.where(signs > 0, high, low), np.where(y > 0, high, low)
    assert disagreement(votes[:10, :2])[0, 1] == (signs[:10, 0] != signs[:10, 1]).mean() > 0
    for name, values in pairwise(votes).items():
        assert_allclose(values, expected[name], atol=1e-14, err_msg=name)
    for goal in [labels, labels.tolist()] + [y > 0] * ((low, high) != (0.5, 1.5)):
        for name, values in pairwise(votes, goal).items():
            assert_allclose(values, expected[name], atol=1e-14, err_msg=name)
        assert averages(votes, goal) == found
        weights = np.arange(6.0)
        if (low, high) != (-1.5, 2.5):  # floats of both signs are outputs and count as they are
            assert_array_equal(margins(votes, weights, goal), margins(signs, weights, y))
            runs = [votes, votes[::-1]]
            expected_runs = error_covariance([signs, signs[::-1]], y)
            assert_array_equal(error_covariance(runs, goal), expected_runs)
    objects = votes.astype(object)
    assert_array_equal(double_fault(objects, labels.astype(object)), double_fault(signs, y))


def test_labels_of_votes_and_y_may_be_written_differently():
    signs, y = table(9)
    expected = double_fault(signs, y)
    for votes in (signs, signs.astype(int), signs > 0, (signs > 0) * 1, (signs > 0) * 1.0):
        for goal in (y, y > 0, (y > 0) * 1, y.astype(int)):
            assert_array_equal(double_fault(votes, goal), expected)
    for goal in (np.where(y > 0, "yes", "no"), np.where(y > 0, 2, 1)):
        assert_array_equal(double_fault(signs, goal), expected)
        assert_array_equal(double_fault(signs.astype(int), goal), expected)
        assert_array_equal(double_fault(0.3 * signs, goal), expected)
    for votes, goal in (
        (signs > 0, np.where(y > 0, "yes", "no")),
        (np.where(signs > 0, 2, 1), (y > 0) * 1),
        (np.where(signs > 0, "b", "a"), np.where(y > 0, "c", "b")),
        (np.where(signs > 0, 2.0, 1.0), y),
    ):
        with pytest.raises(ValueError, match="votes hold the labels .* and y .*: these must be"):
            double_fault(votes, goal)


@pytest.mark.parametrize(
    "vote, labels, is_positive",
    [(1, [0, 1], True), (0, [0, 1], False), (0.0, [0, 1], False), (0.0, [-1, 1], True),
     (0, [-1, 1], False), (-1, [-1, 1], False), (1, [1, 2], False), (2, [1, 2], True),
     ("no", ["no", "yes"], False), ("yes", ["no", "yes"], True), (1, [False, True], True),
     (0, [False, True], False), (0.0, [False, True], True), (True, [False, True], True),
     (False, [0, 1], False), (-0.5, [0, 1], False), (0.5, [0, 1], True), (0.5, [-1, 1], True)],
)  # fmt: skip
def test_votes_that_are_all_equal(vote, labels, is_positive):
    """y gives a vote that all members cast its meaning; 0 is an output if it is no label of y."""
    y = np.array([labels[0], labels[0], labels[1]])
    error = double_fault(np.full((3, 2), vote), y)
    assert_array_equal(error, 2 / 3 if is_positive else 1 / 3)
    assert_array_equal(disagreement(np.full((3, 2), vote)), 0.0)


def test_labels_of_y_that_are_all_equal():
    signs, _ = table(9)
    error = (signs < 0).astype(float).T @ (signs < 0) / 60
    for one in (1, 1.0, True):
        assert_allclose(double_fault(signs, np.full(60, one)), error)
    for zero in (0, -1, False):
        right = (signs > 0).astype(float).T @ (signs > 0) / 60
        assert_allclose(double_fault(signs, np.full(60, zero)), right)
    assert_allclose(double_fault(np.where(signs > 0, "b", "a"), np.full(60, "b")), error)
    with pytest.raises(ValueError, match=r"all of y are 7: pass y == model.classes_\[1\]"):
        double_fault(signs, np.full(60, 7))
    with pytest.raises(ValueError, match="all votes are 'a': pass y with labels of the same kind"):
        double_fault(np.full((60, 2), "a"), np.ones(60, dtype=bool))


def test_votes_of_exactly_zero_are_positive():
    votes = np.array([[0.0, 1.0], [-1.0, 0.0], [-0.0, -1.0], [1.0, 0.5]])
    y = np.array([1, 1, -1, 1])
    signs = np.array([[1, 1], [-1, 1], [1, -1], [1, 1]])
    for name, values in naive(signs, y).items():
        assert_allclose(pairwise(votes, y)[name], values, atol=1e-15)
    whole = np.where(votes == 0.5, 1.0, votes)  # -1.0, 0.0, 1.0: of floats these are no labels
    assert_array_equal(disagreement(whole), disagreement(signs))


def test_outputs_of_one_sign_are_no_labels():
    """All vote +, be they three values or two: y says that they are no labels."""
    for votes in (np.array([[0.2, 0.9], [0.4, 0.3]]), np.array([[0.2, 0.8], [0.8, 0.8]])):
        for y in ([True, False], [1, -1], [0, 1]):
            assert_array_equal(double_fault(votes, y), 0.5)
            assert_array_equal(disagreement(votes[:1] * 3.1), disagreement(votes[:1]))
        assert_allclose(margins(votes, None, [1, -1]), votes.mean(1) * [1, -1])
    assert_array_equal(disagreement(np.array([[0.2, 0.9], [0.4, 0.3]])), 0.0)
    for y in ([True, False], [1, -1]):
        assert_array_equal(margins(np.full((2, 3), 2.0), None, y), [2.0, -2.0])


def test_more_than_two_labels_are_named():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 50)
    votes = np.where(rng.random((50, 4)) < 0.6, y[:, None], rng.integers(0, 3, (50, 4)))
    texts = np.array(["ash", "elm", "oak"])
    for three in (votes, 1.0 * votes, votes - 1, texts[votes], texts[votes].astype(object)):
        with pytest.raises(ValueError, match=r"more than two labels.*votes == y\[:, None\]"):
            pairwise(three)
        with pytest.raises(ValueError, match="more than two labels"):
            kappa_error(three, y == 1)
    with pytest.raises(ValueError, match="y must hold labels of two classes, got 0, 1, 2; pass"):
        double_fault(np.where(votes > 0, 1.0, -1.0), y)
    right = votes == y[:, None]  # what the message advises
    wrong = [[np.mean(~right[:, t] & ~right[:, k]) for k in range(4)] for t in range(4)]
    assert_allclose(double_fault(right, np.ones(50, dtype=bool)), wrong, atol=1e-15)
    assert disagreement(right)[0, 1] == np.mean(right[:, 0] != right[:, 1])


# -- well behaved ---------------------------------------------------------------------------------
@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1.0, 1e300, 1.7e308])
def test_weights_of_any_size(scale):
    votes, y = table(4)
    votes, weights = votes * np.arange(1, 7), np.array([1, 0, 1, 1, 0, 1])
    expected = margins(votes, weights, y)
    assert_allclose(margins(votes, scale * weights, y), expected, atol=1e-15)
    found = ambiguity(votes, scale * weights, y)
    assert_allclose(found.ensemble, (y * expected - y) ** 2, atol=1e-12)
    assert_allclose(found.ensemble, found.members - found.ambiguity, atol=1e-12)
    one = error_covariance([votes, votes[::-1]], y, [scale * weights] * 2)
    assert_array_equal(one, error_covariance([votes, votes[::-1]], y, [weights] * 2))


@pytest.mark.bounds
def test_errors():
    votes, y = table(6)
    large = r"must be below 1e\+150 in size, got -1e\+1"  # its square would overflow
    assert np.isfinite(ambiguity(1e149 * votes, None, 1e149 * y).members).all()
    for call, words, *arguments in (
        *((pairwise, "votes must be a matrix of numbers or labels.*shape", bad)
          for bad in (votes[:, 0], votes[:0], votes[:, :0], votes * 1j)),
        (ambiguity, "a matrix of numbers, one column per member", np.full((3, 2), "a"), None, y),
        (ambiguity, "y must hold numbers, got dtype <U1", votes, None, np.full(60, "a")),
        (pairwise, "y must hold numbers or texts, got dtype complex", votes, y * 1j),
        (ambiguity, "y must be finite", votes, None, np.full(60, np.nan)),
        (kappa, "NaN or infinity", np.where(votes > 0, np.nan, 1.0)),
        (pairwise, r"y must have shape \(60,\).*got \(59,\)", votes, y[1:]),
        (ambiguity, r"y must have shape", votes, None, y[1:]),
        (double_fault, r"pass y == model.classes_\[1\]", votes, np.arange(60) % 3),
        (margins, r"must have shape \(6,\), one per member, got \(5", votes, np.ones(5), y),
        *((ambiguity, "finite, >= 0 and not all 0", votes, weights, y)
          for weights in (-np.ones(6), np.zeros(6), np.full(6, np.nan))),
        (error_covariance, "same rows", [votes, votes[1:]], y),
        (error_covariance, "one array per run", [votes, votes], y, [np.ones(6)]),
        (averages, "need two members, got one", votes[:, :1], y),
        (ambiguity, large, 1e150 * votes, None, y), (ambiguity, large, votes, None, 1e150 * y),
        (exclusivity, large, 1e155 * votes, True), (margins, large, 1e155 * votes, None, y),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            call(*arguments)


@pytest.mark.bounds
def test_averages():
    votes, y = table(7)
    weights = np.arange(1.0, votes.shape[1] + 1)
    found = averages(votes, y, weights)
    signs = np.where(votes >= 0, 1.0, -1.0)
    share = signs @ weights / weights.sum()
    spread = ((signs - share[:, None]) ** 2 * weights).sum(1) / weights.sum()
    assert found.pop("ambiguity") == pytest.approx(spread.mean())
    assert found == pytest.approx(naive_averages(votes, y))
    assert set(found) == {*pairwise(votes, y), "member_error"}


def test_kappa_error_figure(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    votes, y = table(7)
    clouds = {"few": kappa_error(votes[:, :2], y), "more": kappa_error(votes, y)}
    figure = kappa_error_figure(clouds, "on a table")
    (axes,) = figure.axes
    assert axes.get_title() == "on a table"
    assert "kappa" in axes.get_xlabel() and "error" in axes.get_ylabel()
    drawn = [part.get_offsets() for part in axes.collections]  # the dots of all, then the centres
    for points, dots, cross in zip(clouds.values(), drawn[:2], drawn[2:], strict=True):
        assert_array_equal(dots, np.column_stack(points))
        assert_allclose(cross, [np.mean(points, axis=1)])
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["few, 1 pair", f"more, {len(clouds['more'][0])} pairs"]
    figure.savefig(tmp_path / "figure.svg")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # as where it is not installed
    with pytest.raises(ImportError, match="needs matplotlib: pip install matplotlib"):
        kappa_error_figure(clouds, "on a table")

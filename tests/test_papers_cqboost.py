"""Tests for perf/papers/cqboost.py: the page, the rules of its verdict, and the experiments."""

import csv
import gzip
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import datasets
from perf.papers import cqboost as paper
from perf.study import reproduce
from solvers.cqboost import CqBoost


def test_what_cannot_be_shipped_is_listed_as_missing(monkeypatch):
    monkeypatch.delenv("ENSOLVE_DATA", raising=False)
    planned, missing = reproduce._available(paper.table_1_jobs(False))
    assert missing == ["cylinder"]
    assert {name for _, name, _ in planned} == {*paper.SETS} - {"cylinder"}


# -- the printed table -----------------------------------------------------------------------------
def test_the_printed_table_has_the_wins_that_the_text_counts():
    risks = np.array([problem.printed for problem in paper.SETS.values()])[:, :, 0]
    assert paper.wins(risks[:, :4]) == [15, 9, 6, 10]
    assert max(counts := paper.wins(risks)) == counts[0] and counts.count(max(counts)) == 1


@pytest.mark.parametrize("name", [name for name in paper.SETS if name != "cylinder"])
def test_printed_risks_are_counts_of_our_test_rows(name):
    """The sets have all their rows: half of them, at most 500, train."""
    rows = len(datasets.load(paper.SETS[name].data).y)
    test = rows - min(500, round(rows / 2))
    for risk, _ in paper.SETS[name].printed:
        assert abs(round(risk * test) / test - risk) <= 0.0005 + 1e-9, risk


def naive_sign(won, lost):
    """Return the chance of at least `won` heads in won + lost throws, one- and two-sided."""
    n = won + lost
    above = sum(math.comb(n, k) for k in range(won, n + 1)) / 2**n
    tail = sum(math.comb(n, k) for k in range(max(won, lost), n + 1)) / 2**n
    return above, min(1.0, 2 * tail)


@pytest.mark.parametrize(
    ("won", "lost", "ties"), [(13, 4, 6), (6, 14, 3), (3, 3, 0), (0, 5, 1), (0, 0, 4)]
)
def test_the_sign_test_counts_heads(won, lost, ties):
    a = np.array([0.0] * won + [1.0] * lost + [0.5] * ties)
    result = paper.sign_test(a, np.full(won + lost + ties, 0.5))
    assert result[:3] == (won, lost, ties)
    assert result[3:] == pytest.approx(naive_sign(won, lost))


# -- verdicts --------------------------------------------------------------------------------------
def observed(errors, columns):
    """Return the verdicts on four trials with these errors and columns, {(set, method): value}."""
    rng, records = np.random.default_rng(0), {}
    for number, (cell, error) in itertools.product(range(4), errors.items()):
        record = {"test_error": error + 0.002 * rng.standard_normal(), "columns": columns[cell]}
        records[(number, *cell)] = [record | {"train_rows": 100, "test_rows": 100}]
    return [row[2] for row in paper.table_1_page(records, False).contents[0].rows]


def ranked(order, sizes):
    """Return errors in this order of the methods, from the lowest on, and columns by method."""
    cells = [*itertools.product(paper.SETS, order)]
    columns = dict(zip(paper.METHODS, sizes, strict=True))
    return {cell: 0.1 + 0.03 * order.index(cell[1]) for cell in cells}, {
        cell: columns[cell[1]] for cell in cells
    }


def test_the_verdicts_follow_from_the_records():
    best = ["CqBoost", "MDBoost", "MinCq", "CG-Boost", "LPBoost", "AdaBoost"]
    good = observed(*ranked(best, (40, 40, 20, 100, 40, 200)))
    assert good[1:] == ["holds"] * 6
    assert good[0] != "holds"  # the risks are not the printed ones
    bad = observed(*ranked([*paper.METHODS][::-1], (300, 20, 40, 100, 40, 200)))
    assert [*bad[1:4], *bad[5:]] == ["does not hold"] * 5


def test_printed_risks_agree_with_themselves():
    cells = {
        (name, method): numbers
        for name, problem in paper.SETS.items()
        for method, numbers in zip(paper.METHODS, problem.printed, strict=True)
    }
    verdicts = observed(*({cell: pair[k] for cell, pair in cells.items()} for k in (0, 1)))
    assert verdicts[0] == verdicts[6] == "holds"  # the last: LPBoost is the sparsest


# -- experiments -----------------------------------------------------------------------------------
def test_categories_become_their_places_among_the_levels():
    data = paper.coded(datasets.load("house-votes"))
    with gzip.open(datasets.locate("house-votes"), "rt") as file:
        cells = [row[:-1] for row in list(csv.reader(file))[1:]]
    assert data.X.shape == (435, 16)
    for j, column in enumerate(zip(*cells, strict=True)):
        assert data.X[:, j].tolist() == [["n", "y", ""].index(cell) for cell in column]
    numbers = datasets.load("heart")
    assert np.array_equal(paper.coded(numbers).X, numbers.X)


def naive_adaboost(X, y, X_test, cuts, rounds):
    """Run AdaBoost with stumps at these cuts, and their complements, row by row."""
    D, score, voters = [1 / len(y)] * len(y), [0.0] * len(X_test), set()
    for _ in range(rounds):
        best = None
        for f, cut, side in cuts:
            error = sum(w for w, x, goal in zip(D, X, y, strict=True)
                        if (side if x[f] > cut else -side) != goal)  # fmt: skip
            if best is None or error < best[0] - 1e-12:
                best = error, f, cut, side
        error, f, cut, side = best
        alpha = 0.5 * math.log((1 - error) / error)
        D = [w * math.exp(-alpha * goal * (side if x[f] > cut else -side))
             for w, x, goal in zip(D, X, y, strict=True)]  # fmt: skip
        D = [w / sum(D) for w in D]
        score = [s + alpha * (side if x[f] > cut else -side)
                 for s, x in zip(score, X_test, strict=True)]  # fmt: skip
        voters.add((f, cut, side))
    return score, len(voters)


def test_adaboost_takes_the_stumps_of_the_pool():
    data = datasets.load("liver")
    table = replace(data, X=data.X[:80, :3], y=data.y[:80])
    train, test = np.arange(0, 80, 2), np.arange(1, 80, 2)
    columns, wrong = paper.stages(table, train, test, [2, 6])
    prep = datasets.Preprocess("tanh").fit(table.X[train])
    X, X_test = prep.transform(table.X[train]), prep.transform(table.X[test])
    ends = [(column.min(), column.max()) for column in X.T]
    cuts = [(f, a + (b - a) * k / 11, side) for k in range(1, 11)
            for f, (a, b) in enumerate(ends) for side in (1, -1)]  # fmt: skip
    y = [1 if label == 1 else -1 for label in table.y[train]]
    for rounds, error in zip((2, 6), wrong, strict=True):
        score, voters = naive_adaboost(X, y, X_test, cuts, rounds)
        goals = table.y[test] == 1
        assert error == np.mean((np.array(score) >= 0) != goals)
    assert columns == voters


def test_adaboost_ends_with_a_perfect_voter_and_with_guessing():
    margins = np.array([[1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    chosen, alphas = paper.boost(margins, 5)
    assert (chosen.tolist(), alphas.tolist()) == ([0], [1.0])
    chosen, alphas = paper.boost(-margins, 5)
    assert (chosen.tolist(), alphas.tolist()) == ([0], [-1.0])
    assert paper.boost(np.array([[1.0], [-1.0]]), 5)[0].size == 0


def test_a_cell_is_chosen_on_the_training_rows_alone():
    record = paper.trial("heart", (), "CqBoost", 1, [0.05, 0.2])
    data = datasets.load("heart")
    train, test = list(datasets.splits(data.y, trials=2, train=135))[1]

    def error(mu, rows, others):
        prep = datasets.Preprocess("tanh").fit(data.X[rows])
        model = CqBoost(mu=mu).fit(prep.transform(data.X[rows]), data.y[rows])
        return 1 - model.score(prep.transform(data.X[others]), data.y[others]), model.n_columns_

    folds = list(datasets.splits(data.y[train], trials=1, cv=5, seed=1))
    errors = [np.mean([error(mu, train[a], train[b])[0] for a, b in folds]) for mu in (0.05, 0.2)]
    assert record["chosen"] == (0.05, 0.2)[int(np.argmin(errors))]
    expected, columns = error(record["chosen"], train, test)
    assert record["test_error"] == pytest.approx(expected)
    assert record["columns"] == columns
    pairs = paper.trial("heart", (), "MinCq", 0, [0.1])  # counts both voters of a pair
    assert pairs["columns"] == 2 * 13 * 10

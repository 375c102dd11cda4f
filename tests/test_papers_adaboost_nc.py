"""Tests for perf/papers/adaboost_nc.py: pages, rules of the verdicts, measurements."""

import itertools
import math
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats

import datasets
from perf import draw
from perf.papers import adaboost_nc as paper
from perf.study import reproduce
from solvers.adaboost_nc import AdaBoostNC


def page(figure, records):
    return reproduce.load(f"adaboost-nc-figure{figure}")[0].page(records, False)


def verdicts(figure, records):
    """Return the verdict on each observation."""
    return [row[2] for row in page(figure, records).contents[0].rows]


# -- verdicts --------------------------------------------------------------------------------------
def curves(low, late, error):
    """Make up records of Figure 1: lam = 9 adds these values to the covariances and the error."""
    rng, records = np.random.default_rng(0), {}
    for batch, samples, lam in itertools.product(range(6), ("new", "same"), paper.LAMS):
        added = np.where(np.arange(30) < paper.EARLY, low, late) * lam / 9
        cov = (0.01 + 1e-4 * rng.standard_normal(30) + added).tolist()
        errors = (0.1 + error * lam / 9 + 1e-4 * rng.standard_normal(31)).tolist()
        records[batch, samples, lam] = [{"covariance": cov, "over_points": cov, "error": errors}]
    return records


@pytest.mark.parametrize(
    ("low", "late", "error", "expected"),
    [(-0.008, -0.004, -0.02, "holds"), (-0.004, -0.008, -0.02, "partly holds"),
     (0.004, 0.002, 0.02, "does not hold")],
)  # fmt: skip
def test_figure_1_is_judged_by_its_curves(low, late, error, expected):
    assert page(1, curves(low, late, error)).verdict == expected


@pytest.mark.parametrize(("sign", "expected"), [(-1, "holds"), (1, "does not hold")])
def test_figure_2_is_judged_by_length_regions_and_error(sign, expected):
    rng = np.random.default_rng(1)
    records = {
        (run, lam): [{"length": 40 + sign * lam + rng.normal(), "error": 0.1 + sign * lam / 1000,
                      "regions": 20 + 2 * sign * lam + rng.integers(3), "runs": [[0, 1, 2]]}]
        for run in range(10) for lam in paper.LAMS
    }  # fmt: skip
    assert page(2, records).verdict == expected


def runs(means, name, kind, **arguments):
    """Make up records of Figures 3 and 4: wrong rows scatter around means."""
    rng = np.random.default_rng([*map(ord, f"{name}{kind}")])
    arguments = {"data": paper.SETS[name][0], **arguments}
    how = {"train_rows": 800, "test_rows": 200, "arguments": arguments}
    wrong = (means + 0.3 * rng.standard_normal(len(means)) for _ in range(8))
    return {(run, name, kind): [{"wrong": [*some], **how}] for run, some in enumerate(wrong)}


def figure_3(gain, best):
    """Make up records: lam = `best[base]` takes off `gain` wrong rows; others harm trees alone."""
    lams, records = [0, 1, 2, 4, 9, 12], {}
    for name in paper.SETS:
        for base in ("tree", "MLP")[: 1 if name == "insurance" else 2]:
            lam = best[base] if name == "german" else {"crx": 4, "insurance": 12}.get(name, 2)
            harm = 30 if base == "tree" else 1
            means = [100 - gain * (one > 0) + (one > 0) * harm * (one != lam) for one in lams]
            records |= runs(means, name, base, lams=lams)
    return records


def test_figure_3_is_judged_by_each_observation(monkeypatch):
    good = figure_3(10, {"tree": 2, "MLP": 9})
    assert page(3, good).verdict == "holds"
    swapped = figure_3(10, {"tree": 9, "MLP": 2})
    assert page(3, swapped).verdict == "partly holds"
    assert verdicts(3, swapped)[:4] == ["holds"] * 3 + ["does not hold"]
    worse = figure_3(-10, {"tree": 2, "MLP": 9})
    assert verdicts(3, worse)[:2] == ["does not hold"] * 2
    monkeypatch.setattr(paper, "has_networks", lambda: False)
    assert {base for _, _, base in paper.figure_3_jobs(False)} == {"tree"}
    trees = {key: some for key, some in good.items() if key[2] == "tree"}
    assert page(3, trees).deviations[-1].startswith("Left out: networks")


def figure_4(small, large, growth):
    marks, records = [5, 21, 51, 201], {}
    for name in paper.SETS:
        equal = name in ("crx", "breast-w", "german")
        for lam in (0, paper.BEST[name]):
            off = np.array([small, small, large, 0 if equal else large]) * (lam > 0)
            means = 100 + off + np.array([0, 0, 0, growth])
            records |= runs(means, name, lam, marks=marks)
    return records


def test_figure_4_is_judged_by_each_observation():
    assert verdicts(4, figure_4(-20, -5, 0)) == ["holds"] * 4
    assert verdicts(4, figure_4(-20, -5, 10)) == ["does not hold", "holds", "holds", "holds"]
    assert verdicts(4, figure_4(-20, -5, -10))[:2] == ["holds", "does not hold"]
    assert verdicts(4, figure_4(20, 5, 0))[2:] == ["does not hold", "partly holds"]


# -- measurements ----------------------------------------------------------------------------------
def naive_regions(cells):
    """Count connected regions of equal cells by flooding one after the other."""
    left, count = {*np.ndindex(cells.shape)}, 0
    while left:
        count += 1
        edge = [left.pop()]
        while edge:
            i, j = edge.pop()
            for cell in ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)):
                if cell in left and cells[cell] == cells[i, j]:
                    left.remove(cell)
                    edge.append(cell)
    return count


def test_boundaries_are_measured_cell_by_cell():
    cells = np.random.default_rng(4).random((12, 9)) < 0.4
    n, d = cells.shape
    sides = sum(cells[i, j] != cells[i + 1, j] for i in range(n - 1) for j in range(d))
    sides += sum(cells[i, j] != cells[i, j + 1] for i in range(n) for j in range(d - 1))
    assert paper.boundary_length(cells) == sides
    assert paper.count_regions(cells) == naive_regions(cells)
    drawn = np.zeros_like(cells)
    for row, first, last in paper.run_lengths(cells):
        drawn[row, first:last] = True
    assert np.array_equal(drawn, cells)


def test_covariances_are_those_of_repeated_models():
    record = paper.gaussian_runs(2, 1, "new", 4, 5)
    test = datasets.two_gaussians(100, seed=paper.TEST_SEED + 1)
    right = np.empty((4, 5, 100))
    for k in range(4):
        data = datasets.two_gaussians(400, seed=4 + k)
        model = AdaBoostNC(5, 2, random_state=4 + k, criterion="gain_ratio").fit(data.X, data.y)
        right[k] = model.votes(test.X).T
    y = np.where(test.y == 1, 1, -1)
    member, vote = right[:, 2] == y, np.where(right[:, :2].sum(axis=1) >= 0, 1, -1) == y
    each = [np.cov(member[:, i], vote[:, i], bias=True)[0, 1] for i in range(100)]
    assert record["covariance"][1] == pytest.approx(np.mean(each), abs=1e-12)
    inside = np.mean([np.cov(h, H, bias=True)[0, 1] for h, H in zip(member, vote, strict=True)])
    assert record["over_points"][1] == pytest.approx(inside, abs=1e-12)


def test_sizes_of_one_run_are_those_of_smaller_runs():
    record = paper.sizes("sonar", 166, 1, 2, [3, 8])
    data = datasets.load("sonar")
    train, test = list(datasets.splits(data.y, trials=2, train=166))[1]
    for size, wrong in zip((3, 8), record["wrong"], strict=True):
        model = AdaBoostNC(size, 2, random_state=1, criterion="gain_ratio")
        predicted = model.fit(data.X[train], data.y[train]).predict(data.X[test])
        assert wrong == (predicted != data.y[test]).sum()
    assert record["test_rows"] == 42


def test_insurance_has_a_fixed_split_and_a_large_class():
    data = datasets.load("insurance")
    for run in (0, 3):
        X, y, X_test, y_test = paper._split(paper.FIXED, 5822, run, "tree")
        assert np.array_equal(X, data.X[:5822]) and np.array_equal(y_test, data.y[5822:])
    assert paper.larger_class("insurance") == np.bincount(data.y[5822:]).min() == 238
    assert paper.larger_class("promoter") == 11
    (text,) = paper.empty({"insurance": 237.6, "promoter": 5.0})
    assert "insurance, 237.6 against 238" in text and "promoter" not in text
    assert not [*paper.empty({"promoter": 5.0})]


def test_shifts_of_independent_runs_are_tested_by_students_t():
    differences = np.random.default_rng(5).standard_normal(12) - 0.6
    change = paper.shift(differences)
    assert change.p == pytest.approx(stats.ttest_1samp(differences, 0).pvalue)
    assert paper.shift(differences, 80, 20).p > change.p
    assert math.isclose(change.mean, differences.mean())


def test_a_run_is_judged_at_the_lam_of_the_other_half():
    wrong = np.array([[9, 5, 7], [9, 8, 4], [9, 5, 7], [9, 8, 4]])
    choice = paper.Choice.of(wrong, {}, [0, 2, 9])
    assert (choice.lam, choice.halves) == (9, (2, 9))
    assert choice.seen.mean == 5.5 - 9
    assert choice.honest.mean == np.mean([7, 8, 7, 8]) - 9


# -- pictures --------------------------------------------------------------------------------------
def test_bands_lie_inside_the_axes():
    band = [(0, -3.0, 5.0), (1, 0.0, 9.0)]
    panel = draw.Panel("", "x", "y", {"a": [(0, 1.0), (1, 2.0)]}, {"a": band})
    drawn = ElementTree.fromstring(draw.figure([[panel]]))
    (shade,) = [one for one in drawn.iter() if "fill-opacity" in one.attrib]
    points = [[*map(float, point.split(","))] for point in shade.get("points").split()]
    (frame,) = [one for one in drawn.iter() if one.get("stroke") == "#555555"]
    left, top, width, height = (float(frame.get(key)) for key in ("x", "y", "width", "height"))
    assert len(points) == 4
    assert all(left < x < left + width and top < y < top + height for x, y in points)


def test_maps_shade_the_cells_and_mark_the_points():
    part = draw.Map("title", [[0, 1, 3], [2, 0, 4]], [(0.5, 0.5)], [(2.5, 3.5), (1.0, 2.0)])
    drawn = ElementTree.fromstring(draw.maps([part, part], 4))
    paths = [one.get("d") for one in drawn.iter() if one.tag.endswith("path")]
    assert paths[0] == "M1 0h2v1h-2zM0 2h4v1h-4z"
    assert [path.count("M") for path in paths] == [2, 1, 2, 1] * 2
    assert sum(one.text == "title" for one in drawn.iter()) == 2

"""Tests for perf/papers/adaboost_nc.py: pages, the rules of their verdicts, what is measured."""

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


def verdict(name, records):
    return reproduce.load(name).page(records, False)


# -- verdicts --------------------------------------------------------------------------------------


def curves(low, late, error):
    """Made-up records of Figure 1, given by what lam = 9 adds to the covariance and the error."""
    rng, found = np.random.default_rng(0), {}
    for batch in range(6):
        for samples in ("new", "same"):
            for lam in paper.LAMS:
                step = lam / 9
                cov = 0.01 + 1e-4 * rng.standard_normal(30)
                cov[: paper.EARLY] += step * low
                cov[paper.EARLY :] += step * late
                record = {"covariance": cov.tolist(), "over_points": cov.tolist()}
                record["error"] = (0.1 + step * error + 1e-4 * rng.standard_normal(31)).tolist()
                found[batch, samples, lam] = [record]
    return found


@pytest.mark.parametrize(
    ("low", "late", "error", "expected"),
    [(-0.008, -0.004, -0.02, "holds"), (-0.004, -0.008, -0.02, "partly holds"),
     (0.004, 0.002, 0.02, "does not hold")],
)  # fmt: skip
def test_figure_1_is_judged_by_its_curves(low, late, error, expected):
    assert verdict("adaboost-nc-figure1", curves(low, late, error)).verdict == expected


@pytest.mark.parametrize(("sign", "expected"), [(-1, "holds"), (1, "does not hold")])
def test_figure_2_is_judged_by_length_regions_and_error(sign, expected):
    rng = np.random.default_rng(1)
    records = {
        (run, lam): [{"length": 40 + sign * lam + rng.normal(), "error": 0.1 + sign * lam / 1000,
                      "regions": 20 + 2 * sign * lam + rng.integers(3), "runs": [[0, 1, 2]]}]
        for run in range(10) for lam in paper.LAMS
    }  # fmt: skip
    assert verdict("adaboost-nc-figure2", records).verdict == expected


def runs(wrong, name, kind, count, arguments):
    """Made-up records of Figures 3 and 4: wrong(run) is a list of numbers of wrong rows."""
    shared = {"data": paper.SETS[name][0]} | arguments
    return {
        (run, name, kind): [{"wrong": wrong(run), "train_rows": 800, "test_rows": 200,
                             "arguments": shared}]
        for run in range(count)
    }  # fmt: skip


def figure_3(gain, best):
    """lam = `best[base]` takes off `gain` wrong rows; a larger one is worse for trees alone."""
    lams, records, rng = [0, 1, 2, 4, 9, 12], {}, np.random.default_rng(2)
    for name in paper.SETS:
        for base in ("tree", "MLP")[: 1 if name == "insurance" else 2]:
            lam = best[base] if name == "german" else {"crx": 4, "insurance": 12}.get(name, 2)
            harm = 30 if base == "tree" else 1
            means = [100 - gain * (one > 0) + (one > 0) * harm * (one != lam) for one in lams]
            records |= runs(lambda run, means=means: [*(means + 0.3 * rng.standard_normal(6))],
                            name, base, 8, {"lams": lams})  # fmt: skip
    return records


def test_figure_3_is_judged_by_each_observation():
    good = verdict("adaboost-nc-figure3", figure_3(10, {"tree": 2, "MLP": 9}))
    assert good.verdict == "holds"
    swapped = verdict("adaboost-nc-figure3", figure_3(10, {"tree": 9, "MLP": 2}))
    assert swapped.verdict == "partly holds"
    rows = dict(zip("123", [row[2] for row in swapped.parts[0].rows][:3], strict=True))
    assert rows == {"1": "holds", "2": "holds", "3": "holds"}
    assert swapped.parts[0].rows[3][2] == "does not hold"
    worse = verdict("adaboost-nc-figure3", figure_3(-10, {"tree": 2, "MLP": 9}))
    assert [row[2] for row in worse.parts[0].rows][:2] == ["does not hold"] * 2


def figure_4(small, large, growth):
    marks, records, rng = [5, 21, 51, 201], {}, np.random.default_rng(3)
    for name in paper.SETS:
        equal = name in ("crx", "breast-w", "german")
        for lam in (0, paper.BEST[name]):
            off = np.array([small, small, large, 0 if equal else large]) * (lam > 0)
            means = 100 + off + np.array([0, 0, 0, growth])
            records |= runs(lambda run, means=means: [*(means + 0.3 * rng.standard_normal(4))],
                            name, lam, 8, {"marks": marks})  # fmt: skip
    return records


def test_figure_4_is_judged_by_each_observation():
    def verdicts(*made_up):
        return [row[2] for row in verdict("adaboost-nc-figure4", figure_4(*made_up)).parts[0].rows]

    assert verdicts(-20, -5, 0) == ["holds"] * 4
    assert verdicts(-20, -5, 10) == ["does not hold", "holds", "holds", "holds"]
    assert verdicts(-20, -5, -10)[:2] == ["holds", "does not hold"]
    assert verdicts(20, 5, 0)[2:] == ["does not hold", "partly holds"]


def test_networks_are_left_out_without_scikit_learn(monkeypatch):
    monkeypatch.setattr(paper, "has_networks", lambda: False)
    assert {base for _, _, base in paper.figure_3_jobs(False)} == {"tree"}
    records = {key: some for key, some in figure_3(10, {"tree": 2, "MLP": 9}).items()
               if key[2] == "tree"}  # fmt: skip
    page = verdict("adaboost-nc-figure3", records)
    assert page.deviations[-1].startswith("Left out: networks")


# -- what is measured ------------------------------------------------------------------------------


def naive_regions(cells):
    """Count connected regions of equal cells by flooding them one after the other."""
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
    found = paper.gaussian_runs(2, 1, "new", 4, 5)
    test = datasets.two_gaussians(100, seed=paper.TEST_SEED + 1)
    right = np.empty((4, 5, 100))
    for k in range(4):
        data = datasets.two_gaussians(400, seed=4 + k)
        model = AdaBoostNC(5, 2, random_state=4 + k, criterion="gain_ratio").fit(data.X, data.y)
        right[k] = model.votes(test.X).T
    y = np.where(test.y == 1, 1, -1)
    member, vote = right[:, 2] == y, np.where(right[:, :2].sum(axis=1) >= 0, 1, -1) == y
    each = [np.cov(member[:, i], vote[:, i], bias=True)[0, 1] for i in range(100)]
    assert found["covariance"][1] == pytest.approx(np.mean(each), abs=1e-12)
    inside = np.mean([np.cov(h, H, bias=True)[0, 1] for h, H in zip(member, vote, strict=True)])
    assert found["over_points"][1] == pytest.approx(inside, abs=1e-12)


def test_sizes_of_one_run_are_those_of_smaller_runs():
    found = paper.sizes("sonar", 166, 1, 2, [3, 8])
    data = datasets.load("sonar")
    train, test = list(datasets.splits(data.y, trials=2, train=166))[1]
    for size, wrong in zip((3, 8), found["wrong"], strict=True):
        model = AdaBoostNC(size, 2, random_state=1, criterion="gain_ratio")
        predicted = model.fit(data.X[train], data.y[train]).predict(data.X[test])
        assert wrong == (predicted != data.y[test]).sum()
    assert found["test_rows"] == 42


def test_the_split_of_insurance_is_fixed():
    data = datasets.load("insurance")
    for run in (0, 3):
        X, y, X_test, y_test = paper._split(paper.FIXED, 5822, run, "tree")
        assert np.array_equal(X, data.X[:5822]) and np.array_equal(y_test, data.y[5822:])


def test_the_errors_of_the_larger_class():
    y = datasets.load("insurance").y[5822:]
    assert paper.larger_class("insurance") == np.bincount(y).min() == 238
    assert paper.larger_class("promoter") == 11
    (told,) = paper.empty({"insurance": 237.6, "promoter": 5.0})
    assert "insurance, 237.6 against 238" in told and "promoter" not in told
    assert not [*paper.empty({"promoter": 5.0})]


def test_shifts_of_independent_runs_are_tested_by_students_t():
    differences = np.random.default_rng(5).standard_normal(12) - 0.6
    found = paper.shift(differences)
    assert found.p == pytest.approx(stats.ttest_1samp(differences, 0).pvalue)
    assert paper.shift(differences, 80, 20).p > found.p
    assert math.isclose(found.mean, differences.mean())


def test_a_run_is_judged_at_the_lam_of_the_other_half():
    wrong = np.array([[9, 5, 7], [9, 8, 4], [9, 5, 7], [9, 8, 4]])
    found = paper.Choice.of(wrong, {}, [0, 2, 9])
    assert (found.lam, found.halves) == (9, (2, 9))
    assert found.seen.mean == 5.5 - 9
    assert found.honest.mean == np.mean([7, 8, 7, 8]) - 9


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

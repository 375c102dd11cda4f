"""Tests for perf/draw.py: scales, panels, pictures of a method, charts of report.html."""

import io
import itertools
import json
import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.testing import assert_allclose

from perf import draw


def example(kind, long=False):
    """A record of a picture of this kind, made by hand."""
    rng = np.random.default_rng(0)
    record = {"kind": kind, "method": "GradientBoosting", "data": "d" * (90 if long else 5)}
    record["trials"] = 3
    two = {"train": rng.random((3, 20)).tolist(), "test": rng.random((3, 20)).tolist()}
    curve = [[1, 0.1, 4.0], [2, 0.2, None], [5, 0.3, 1e-3], [9, 0.4, 0.0]]
    names = [("a long name of a solver " * 2 + str(k)) if long else f"way {k}" for k in range(5)]
    runs = {
        "convergence": {"tol": 1e-6, "curves": dict.fromkeys(names, curve)},
        "members": {key: rows[0] for key, rows in two.items()},
        "margins": {key: np.sort(rows[0]).tolist() for key, rows in two.items()}
        | {"at": np.linspace(-1, 1, 20).tolist(), "scaled": True},
    }
    if kind == "changes":
        answer = {"data": record["data"], "question": "forest " * (9 if long else 1)}
        answer |= {"change": -0.1, "low": -0.2, "high": 0.05, "verdict": "undecided"}
        return record | {"questions": [answer] * 2, "title": "error", "less_is_better": True}
    if kind == "kappa-error":
        clouds = {f"{k} " * (40 if long else 1): rng.random((2, 30)).tolist() for k in range(3)}
        return record | {"clouds": clouds, "errors": dict.fromkeys(clouds, 0.1)}
    if kind in runs:
        return record | {"runs": [runs[kind]] * 3}
    if kind == "time":
        return record | {"rows": [10, 100, 1000], "seconds": [[0.1], [0.2, 0.3], [2.0, 2.5]]}
    if kind == "boundary":
        x = np.linspace(-1, 1, 30)
        plane = np.add.outer(x, x).tolist()
        names = {"features": ["a", "b" * (99 if long else 1)], "classes": ["c" * 60, "d"]}
        points = {"points": [[0, 1], [1, 0]], "labels": [0, 1], "axes": [x.tolist()] * 2}
        return record | names | points | {"decision": plane, "members": [plane, plane]}
    errors = rng.random((3, 4, 3)).tolist()
    shares = dict(zip(("train", "test", "disagreement"), errors, strict=True))
    return record | {"own": 2.0, "values": [0.1, 1.0, 10.0, 100.0]} | shares


@pytest.fixture
def panels(monkeypatch):
    """A function from a record to the panels of its picture, row by row."""

    def found(record):
        with monkeypatch.context() as patch:
            patch.setattr(draw, "figure", lambda rows, *args, **options: rows)
            return draw.picture(json.loads(json.dumps(record)))

    return found


@pytest.mark.parametrize("log", [False, True])
def test_scale_puts_values_where_they_belong(log):
    scale = draw.Scale(1.0, 100.0, 0.0, 200.0, log)
    assert (scale.at(1.0), scale.at(100.0)) == (0.0, 200.0)
    assert (scale.at(-math.inf), scale.at(math.inf)) == (0.0, 200.0)
    assert scale.at(10.0) == pytest.approx(100.0 if log else 200 * 9 / 99)
    assert scale.ticks() == ([1.0, 10.0, 100.0] if log else [20.0, 40.0, 60.0, 80.0, 100.0])


def test_scale_of_a_narrow_range_has_ticks_too():
    assert draw.Scale(450.0, 5_500.0, 0.0, 1.0, True).ticks() == [500.0, 1_000.0, 2_000.0, 5_000.0]
    low, high = draw.limits([7.0], True)
    assert low < 7.0 < high and math.isfinite(high)


def test_bands_are_means_and_deviations():
    runs = np.random.default_rng(0).random((4, 5))
    curve, band = draw.banded(range(5), runs.tolist(), 0.3, 0.6)
    mean, std = runs.mean(axis=0), runs.std(axis=0, ddof=1)
    assert_allclose(curve, np.transpose([range(5), mean]))
    edges = [range(5), np.maximum(mean - std, 0.3), np.minimum(mean + std, 0.6)]
    assert_allclose(band, np.transpose(edges))
    assert draw.banded([1], [[0.5]])[1] == [(1, 0.5, 0.5)]


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("kind", [*list(draw.PICTURES)[2:], "lam"])
def test_nothing_is_cut_and_curves_differ_in_grey_print(kind, long):
    svg = ElementTree.fromstring(draw.picture(json.loads(json.dumps(example(kind, long)))))
    width, height = float(svg.get("width")), float(svg.get("height"))
    texts, place = [], {"start": 0.0, "middle": 0.5, "end": 1.0}
    for text in svg.findall("{*}text"):
        x, y, words = float(text.get("x")), float(text.get("y")), text.text or ""
        size = draw.LETTER * len(words)
        if text.get("transform"):  # turned by 90 degrees
            assert x - draw.SIZE >= 0 and (long or 0 <= y - size / 2 <= y + size / 2 <= height)
        else:
            left = x - size * place[text.get("text-anchor")]
            assert left >= -1 and left + size <= width + 1 and draw.SIZE <= y <= height
            texts += [(left, y, size)] if words else []
    for (a, b, size), (c, d, _) in itertools.combinations(sorted(texts), 2):
        assert abs(b - d) >= draw.SIZE - 2 or a + size <= c + 8, (a, b, c, d)
    looks = {(line.get("stroke"), line.get("stroke-dasharray"))
             for line in svg.findall("{*}polyline")}  # fmt: skip
    curves = {"convergence": 5, "lam": 3, "time": 1, "boundary": 0}.get(kind, 2)
    assert len(looks) == curves == len({dashes for _, dashes in looks})
    bands = svg.findall("{*}polygon[@fill-opacity]")
    assert len(bands) == curves * (2 if kind == "convergence" else 1)


def test_trials_that_end_early_keep_their_last_error(panels):
    runs = [{"train": [0.4, 0.2], "test": [0.5]}, {"train": [0.2], "test": [0.1]}]
    ((panel,),) = panels(example("members") | {"runs": runs})
    assert_allclose(panel.curves["training rows"], [[1, 30.0], [2, 20.0]])
    assert_allclose(panel.curves["test rows"], [[1, 30.0]])
    assert_allclose(panel.bands["test rows"], [[1, 30 - 20 * 2**0.5, 30 + 20 * 2**0.5]])


def test_gaps_are_medians_that_are_held(panels):
    runs = [[[1, 0.1, 8.0], [2, 0.2, 1e-3]], [[1, 0.3, 4.0], [2, 0.4, 2.0], [3, 0.8, 1e-8]]]
    runs = [{"tol": 1e-6, "curves": {"auto": run}} for run in runs]
    ((left, right),) = panels(example("convergence") | {"runs": runs})
    for panel, x in ((left, [1, 2, 3]), (right, [200, 300, 700])):
        middle = np.array([6.0, 1.0005, 0.5e-3 + 0.5e-8])
        assert_allclose(panel.curves["auto"], np.transpose([x, middle]))
        lowest = 1e-6 / 5  # one lucky trial does not stretch the axis
        assert_allclose(panel.bands["auto"], np.transpose([x, [4, 1e-3, lowest], [8, 2, 1e-3]]))
    assert right.x_label == "time (ms), medians of the steps"


def test_times_are_medians_and_quartiles(panels):
    rows, seconds = [10, 100, 1000, 10000], [[5, 3, 1, 4, 2], [10] * 5, [100] * 5, [1000] * 5]
    ((panel,),) = panels(example("time") | {"rows": rows, "seconds": seconds})
    ((name, curve),) = panel.curves.items()
    assert [tuple(point) for point in curve] == [(10, 3), (100, 10), (1000, 100), (10000, 1000)]
    assert panel.bands[name][0] == (10, 2, 4) and panel.y_label == "time of a fit (s)"
    assert name.endswith("rows^1.00")


def test_disagreement_and_the_value_of_the_run(panels):
    record = example("lam")
    (errors,), (differ,) = panels(record)
    means = 100 * np.mean(record["disagreement"], axis=1)
    assert_allclose([y for _, y in differ.curves["disagreement"]], means)
    assert errors.shapes == differ.shapes and "lam of the run: 2" in errors.shapes
    assert len(panels(record | {"disagreement": None, "own": None})) == 1


def test_borders_of_ties(panels):
    """Tied votes give the decision 0 and the second class, whose region has a border too."""
    decision = np.full((30, 30), -0.2)
    decision[10:20, 12:20] = 0.0
    record = example("boundary") | {"decision": decision.tolist(), "members": []}
    x = np.array(record["axes"][0])
    half = (x[1] - x[0]) / 2
    ((panel,),) = panels(record)
    for name in ("", "decision = 0"):
        spots = np.array([point for line in panel.shapes[name][1] for point in line])
        assert_allclose(spots.min(axis=0), [x[12] - half, x[10] - half])
        assert_allclose(spots.max(axis=0), [x[19] + half, x[19] + half])
    assert len(panel.shapes["decision = 0"][1]) == 2 * (8 + 10)


def test_matplotlib_draws_the_same():
    image = pytest.importorskip("matplotlib.image")
    for kind in (*draw.PICTURES, "lam"):
        svg = draw.picture(example(kind))
        drawn, root = draw.as_matplotlib(svg), ElementTree.fromstring(svg)
        words = [text.text or "" for text in root.findall("{*}text")]
        assert [text.get_text() for text in drawn.axes[0].texts] == words
        others = ("svg", "g", "text", "style", "title")
        shapes = [e for e in root.iter() if e.tag.partition("}")[2] not in others]
        assert len(drawn.axes[0].patches) == len(shapes)
        file = io.BytesIO()
        drawn.savefig(file, dpi=100)
        pixels = (255 * image.imread(io.BytesIO(file.getvalue()), format="png")).round()
        assert pixels.shape[:2] == (float(root.get("height")), float(root.get("width")))
        circle = (root.findall("{*}circle") or root.findall("{*}g/{*}circle"))[-1]
        scale = float(root.get("width")) / float(root.get("viewBox").split()[2])
        x, y, r = (float(circle.get(key)) for key in ("cx", "cy", "r"))
        x = x - r if kind in ("changes", "kappa-error") else x  # rings
        assert pixels[round(scale * y), round(scale * x), :3].min() <= 130
        assert pixels[2, 2, :3].min() == 255


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("kind", ["changes", "kappa-error"])
def test_charts_as_files(kind, long):
    """They have their size and their colours, by day and by night, and no word is cut."""
    svg = draw.picture(example(kind, long))
    root = ElementTree.fromstring(svg)
    width, height = map(float, root.get("viewBox").split()[2:])
    assert float(root.get("width")) == draw.ENLARGED * width == draw.ENLARGED * draw.WIDE
    for text in root.findall("{*}text"):
        assert len(text.text) * draw.MONO <= width and 0 < float(text.get("y")) <= height
    names = {name for element in root.iter() for name in element.get("class", "").split()}
    assert names <= set(draw.CLASSES) and "prefers-color-scheme: dark" in svg
    used = set(re.findall(r"var\(--(\w+)\)", svg))
    assert used <= set(draw.COLOURS) and "url(" not in svg


def test_numbers_in_a_diagram_do_not_cover_each_other():
    clouds = [draw.Cloud(k, [(0.5, 20.0)], (0.5, 20.0), 15.0) for k in range(14)]
    chart = ElementTree.fromstring(draw.kappa_error_chart("all in one place", clouds))
    words = [text for text in chart.iter("text") if "halo" in text.get("class")]
    places = [(float(text.get("x")), float(text.get("y"))) for text in words]
    assert len(places) == 14
    for (a, b), (c, d) in itertools.combinations(places, 2):
        assert abs(a - c) >= 14 or abs(b - d) >= 12


@pytest.mark.parametrize("end", [0.301, 3.02, 30.5, 1010.0])
def test_numbers_at_the_ends_of_an_axis_are_not_cut(end):
    rows, form = [draw.Row("a", "", end / 1000), draw.Row("b", "", end)], "{:g} seconds".format
    chart = draw.row_chart("times", "", rows, form, log=True, scale=(end / 1e3, end))
    found = re.findall(r'<text x="([\d.]+)" y="[\d.]+" class="m">(.+?)</text>', chart)
    assert len(found) >= 3
    for x, word in found:
        half = draw.MONO * len(word) / 2
        assert -0.1 <= float(x) - half and float(x) + half <= draw.WIDE + 0.1


def test_names_are_broken_not_cut():
    long = "gradient-boosting:max_depth=3,learning_rate=0.1"
    for name, limit in (("x" * 100, 9), ("\u754c" * 30, 10), (long, 20), ("a, b", 30), ("", 9)):
        lines = draw.broken_lines(name, limit)
        assert "".join(lines) == name
        assert all(len(line) <= (limit if name.isascii() else limit // 2) for line in lines)

"""Tests for perf/study/html.py and perf/draw.py: report.html of `cli.py compare`."""

import itertools
import json
import math
import re
import shlex
from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn import metrics

import cli
import datasets
from perf import draw
from perf.study import compare, html, statistics, tables
from perf.study.store import NAME, Store
from perf.text import duration
from solvers.bagging import Bagging

HOSTILE = "<script>alert(1)</script>&\"'><img src=http://x.example onerror=y>\x1b[1m\u202e"
LONG = "bagging:n_estimators=2,min_impurity_decrease=0.0001,min_samples_leaf=2,max_depth=9"
SETS = ["gaussians:60", "gaussians:80", "gaussians:90", "linear:70x3", "linear:90x4"]


class Page:
    """A page, which must be well-formed: its elements, tables, pictures and words."""

    def __init__(self, text):
        closed = re.sub(r"<((?:meta|wbr)[^>]*)>", r"<\1/>", text).replace("&nbsp;", "\xa0")
        self.source, self.root = text, ElementTree.fromstring(closed)
        for style in self.root.iter("style"):
            style.clear()
        self.text = " ".join("".join(self.root.itertext()).split())
        self.tags = [(element.tag, element.attrib) for element in self.root.iter()]
        self.tables, self.pictures = [*self.root.iter("table")], [*self.root.iter("svg")]
        for line in self.root.iterfind(".//td/span"):
            line.tail = " "

    def captions(self):
        return ["".join(table.find("caption").itertext()) for table in self.tables]

    def table(self, start):
        """Texts of the only table with such a caption, row by row."""
        pairs = zip(self.captions(), self.tables, strict=True)
        (found,) = [table for caption, table in pairs if caption.startswith(start)]
        return [["".join(cell.itertext()) for cell in row] for row in found.iter("tr")]

    def picture(self, start):
        return next(one for one in self.pictures if one.findtext("title").startswith(start))


def made(data, methods, trials=3, tune=False, measure="error", **options):
    """The records, the document and the page of a comparison."""
    chosen, questions = compare.choose(methods)
    cells = compare.plan(data, chosen, options | {"trials": trials}, None, tune, measure)
    records = compare.run(cells, Store())
    document = compare.collect(records, measure, questions)
    return records, document, Page(html.page(document, records))


@pytest.fixture(scope="module")
def many():
    return made(SETS, f"psvm,stump-vote,bagging:n_estimators=25,{LONG}", 4)


def shapes(picture, tag, kind):
    return [one.attrib for one in picture.iter(tag) if kind in one.get("class", "").split()]


def texts(picture):
    return [one.text for one in picture.iter("text")]


def marks(picture):
    """Abscissas of the marks of a row chart, from top to bottom."""
    found = [(float(c["cy"]), float(c["cx"])) for kind in ("dot", "base")
             for c in shapes(picture, "circle", kind)]  # fmt: skip
    for one in shapes(picture, "polygon", "best"):
        corners = [tuple(map(float, corner.split(","))) for corner in one["points"].split()]
        found.append(tuple(np.mean(corners, axis=0)[::-1]))
    return [x for _, x in sorted(found)]


def bar_ends(picture):
    """Abscissas of both ends of all bars, one bar after another."""
    bars = [re.match(r"M(\S+) \S+L(\S+) ", bar["d"]) for bar in shapes(picture, "path", "bar")]
    return [float(end) for bar in bars for end in bar.groups()]


def assert_on_one_scale(places, values):
    """Places and values are related by one line."""
    slope, start = np.polyfit(values, places, 1)
    np.testing.assert_allclose(np.multiply(slope, values) + start, places, atol=0.2)


def signed(change):
    return f"{100 * change:+.1f}".replace("-", "\u2212") if change else "0.0"


def cell(changes, p):
    """Mean change, numbers of splits or sets that were won, tied and lost, and p."""
    counts = "\u2013".join(str((np.sign(changes) == sign).sum()) for sign in (-1, 0, 1))
    return f"{signed(changes.mean())}{counts} {'p < 0.001' if p < 0.001 else f'p {p:.3f}'} "


def test_all_parts_are_there(many):
    _, document, page = many
    names = [tag for tag, _ in page.tags]
    assert names.count("h1") == names.count("main") == 1
    assert names.count("title") == 1 + len(page.pictures)
    assert len(page.tables) == 1 + 1 + 5
    assert len(page.pictures) == 1 + 5 + 1 + 5  # ranks, error bars, time, kappa-error
    assert all(page.captions())
    assert all(one.get("role") == "img" and one.findtext("title") for one in page.pictures)
    assert names.count("figure") == names.count("figcaption") == len(page.pictures)
    assert " ".join(tables.sentences(document)) in page.text
    places = [page.text.index(part) for part in ("What it means", "All 5 data sets", "Time")]
    assert places == sorted(places)
    assert f"numpy {np.__version__}" in page.text and "ensolve 0.1.0" in page.text
    assert page.text.index(tables.sentences(document)[0]) < page.text.index("gaussians:60 60 rows")


def test_the_page_stands_alone(many):
    page = many[2]
    text = page.source
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    links = [attrs["href"] for _, attrs in page.tags if "href" in attrs]
    assert links and all(link[0] == "#" and link[1:] in ids for link in links)
    assert len(ids) == len(set(ids)) and "src=" not in text
    assert not {"script", "link", "img", "iframe", "object", "use", "image", "base", "form"} & {
        tag for tag, _ in page.tags
    }
    assert "http:" not in text and "https:" not in text and "url(" not in text
    assert "@import" not in text and not re.search(r"\son\w+=", text)
    metas = [(*attrs.values(),) for tag, attrs in page.tags if tag == "meta"]
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    assert ("Content-Security-Policy", policy) in metas
    assert ("viewport", "width=device-width, initial-scale=1") in metas


def test_numbers_agree_with_the_records(many):
    records, document, page = many
    for one in document["sets"]:
        rows = page.table(f"Results on {one['name']}")
        assert rows[0][:4] == ["method", "error %", "rank", "fit time"]
        shown = {row[0]: row[1:] for row in rows[1:]}
        assert list(shown) == [*document["methods"], "majority class", "best single member"]
        for name in document["methods"]:
            errors = [r["test_error"] for r in records
                      if r["spec"]["data"] == one["data"] and html.name_of(r) == name]  # fmt: skip
            assert len(errors) == 4
            mean, std = 100 * np.mean(errors), 100 * np.std(errors, ddof=1)
            assert shown[name][0] == f"{mean:.1f} \xb1 {std:.1f}"
    best = ["".join(row[0].itertext()) for row in page.root.iterfind(".//tr[@class='best']")]
    assert best == [one["best"] for one in document["sets"]]


def test_error_bars_are_drawn_to_scale(many):
    _, document, page = many
    for one in document["sets"]:
        picture = page.picture(f"error in % of the methods on {one['name']}")
        scores = [row["score"] for row in one["methods"]] + [one["baselines"]["best single member"]]
        places = marks(picture) + bar_ends(picture)
        values = [score["mean"] for score in scores]
        values += [score["mean"] + side * score["std"] for score in scores for side in (-1, 1)]
        assert_on_one_scale(places, values)
        assert all(0 <= place <= draw.WIDE for place in places)


def test_times_are_drawn_on_a_logarithmic_scale(many):
    _, document, page = many
    picture = page.picture("Time of a fit")
    means = [np.mean([row["fit_seconds"] for one in document["sets"] for row in one["methods"]
                      if row["method"] == name]) for name in document["methods"]]  # fmt: skip
    assert_on_one_scale(marks(picture), np.log(means))
    labels = [*map(duration, means)]  # After the ticks, one of which may have the text of a label.
    assert [t for t in texts(picture) if t in labels][-len(labels) :] == labels
    assert sum(path["d"].count("h0") for path in shapes(picture, "path", "some")) <= 20


def test_the_critical_difference_is_drawn_to_scale(many):
    _, document, page = many
    picture, across = page.picture("Critical-difference"), document["across"]
    ranks = sorted(across["ranks"])
    (band,) = shapes(picture, "rect", "band")
    start, width = float(band["x"]), float(band["width"])
    places = [*marks(picture), start, start + width]
    assert_on_one_scale(places, [*ranks, ranks[0], ranks[0] + across["critical_difference"]])
    groups = statistics.cliques(across["ranks"], across["critical_difference"])
    assert len(shapes(picture, "line", "clique")) == len(groups)
    assert f"{across['critical_difference']:.2f}" in texts(picture)


@pytest.mark.parametrize("seed", range(20))
def test_cliques_are_the_largest_groups_of_ranks_that_are_near(seed):
    rng = np.random.default_rng(seed)
    ranks, gap = rng.integers(2, 16, 7) / 2, rng.uniform(0.2, 4)
    groups = [set(g) for size in range(2, 8) for g in itertools.combinations(range(7), size)]
    near = [group for group in groups if np.ptp(ranks[list(group)]) <= gap]
    largest = [group for group in near if not any(group < other for other in near)]
    found = statistics.cliques(ranks.tolist(), gap)
    assert sorted(map(sorted, found)) == sorted(map(sorted, largest))
    assert all(np.all(np.diff(ranks[group]) >= 0) for group in found)


def test_all_pairs_of_methods_over_the_sets(many):
    _, document, page = many
    rows, across = page.table("All pairs")[1:], document["across"]
    errors = {
        name: [row["score"]["mean"] for one in document["sets"] for row in one["methods"]
               if row["method"] == name]
        for name in document["methods"]
    }  # fmt: skip
    adjusted = {frozenset(pair[:2]): pair[3] for pair in across["pairs"]}
    for i, one in enumerate(document["methods"]):
        assert rows[i][0] == f"{i + 1}\xa0{one}"
        for j, two in enumerate(document["methods"]):
            if i == j:
                assert rows[i][j + 1] == "\u2013"
                continue
            changes = np.round(np.subtract(errors[one], errors[two]), 12)
            assert rows[i][j + 1] == cell(changes, adjusted[frozenset((one, two))])


def test_all_pairs_of_methods_on_one_set():
    records, document, page = made(["haberman"], "psvm,stump-vote,bagging:n_estimators=9", 5)
    assert document["across"] is None and "Critical" not in page.source and len(page.tables) == 2
    rows, cells = page.table("All pairs")[1:], {}
    errors = [[r["test_error"] for r in records if html.name_of(r) == name]
              for name in document["methods"]]  # fmt: skip
    (ratio,) = {r["test_rows"] / r["train_rows"] for r in records}
    for i, j in itertools.combinations(range(3), 2):
        changes = np.subtract(errors[i], errors[j])
        error = changes.std(ddof=1) * math.sqrt(1 / 5 + ratio)
        cells[i, j] = changes, statistics.stats.t.sf(abs(changes.mean()) / error, 4) * 2
    order = sorted(cells, key=lambda pair: cells[pair][1])
    low = 0.0
    for factor, pair in zip((3, 2, 1), order, strict=True):
        changes, p = cells[pair]
        low = max(low, min(1.0, factor * p))
        for (i, j), sign in ((pair, 1), (pair[::-1], -1)):
            assert rows[i][j + 1] == cell(sign * changes, low)


def test_the_first_record_holds_pairs_of_some_members():
    chosen = [("bagging", {"n_estimators": 40}), ("bagging", {"n_estimators": 5})]
    cells = compare.plan(["sonar"], chosen, {"trials": 2})
    large, small, *later = compare.run(cells, Store())
    assert len(large["pairs"][0]) == 18 * 17 // 2 and len(small["pairs"][0]) == 10
    assert not any("pairs" in record for record in later)
    data = datasets.load("sonar")
    train, test = next(datasets.splits(data.y, trials=1))
    model = Bagging(n_estimators=40, random_state=0).fit(data.X[train], data.y[train])
    y, votes = data.y[test] == 1, model.votes(data.X[test]) >= 0
    some = [round(k * 39 / 17) for k in range(18)]
    pairs = list(itertools.combinations(some, 2))
    kappas = [metrics.cohen_kappa_score(votes[:, i], votes[:, j]) for i, j in pairs]
    errors = [(np.mean(votes[:, i] != y) + np.mean(votes[:, j] != y)) / 2 for i, j in pairs]
    np.testing.assert_allclose(large["pairs"], [kappas, errors], atol=5.1e-5)


def test_the_diagram_has_the_error_of_the_ensemble(many):
    records, document, page = many
    for one in document["sets"]:
        picture = page.picture(f"Kappa-error diagram of {one['data']}")
        first = [r for r in records if r["spec"]["data"] == one["data"] and r["trial"] == 0]
        shown = [r for r in first if r["members"] > 1]
        rings = [(float(c["cx"]), float(c["cy"])) for c in shapes(picture, "circle", "ring")]
        bars = [re.match(r"M[\d.]+ [\d.]+L[\d.]+ ([\d.]+)M", path["d"])
                for path in shapes(picture, "path", "own")]  # fmt: skip
        assert len(shown) == len(rings) == len(bars) == 3
        heights = [y for _, y in rings] + [float(bar[1]) for bar in bars]
        errors = [r["diversity"]["member_error"] for r in shown] + [r["test_error"] for r in shown]
        assert_on_one_scale(heights, errors)
        assert_on_one_scale([x for x, _ in rings], [r["diversity"]["kappa"] for r in shown])
        numbers = [str(document["methods"].index(html.name_of(r)) + 1) for r in shown]
        assert texts(picture)[-3:] == numbers
        dots = sum(path["d"].count("h0") for path in shapes(picture, "path", "pair"))
        assert 3 <= dots <= sum(len(r["pairs"][0]) for r in shown)


def test_two_sets_of_several_classes():
    _, document, page = made(["wine", "glass"], "psvm,voting", 2)
    assert "Both data sets" in page.text and "friedman" not in document["across"]
    assert sum(caption.startswith("All pairs") for caption in page.captions()) == 2
    assert "Critical-difference" not in page.source
    assert "right and wrong answers" in page.text  # of voting; one against the rest has no pairs
    assert sum(one.findtext("title").startswith("Kappa") for one in page.pictures) == 2


def test_one_method_and_one_split():
    *_, page = made(["heart"], "psvm", 1)
    assert page.text.startswith("1 method compared on heart") and len(page.tables) == 1
    assert "\xb1" not in page.table("Results on heart")[1][1]
    *_, page = made(["heart"], "psvm,stump-vote", 1)
    assert page.table("All pairs")[1][2].endswith("p \u2013 ")


def test_failures_are_told():
    *_, page = made(["heart"], "psvm,cqboost:mu=0.99", 2)
    assert "cqboost:mu=0.99 failed in 2 of 2 trials on heart" in page.text
    assert page.table("Results on heart")[2][:2] == ["cqboost:mu=0.99", "failed"]
    assert not any(caption.startswith("All pairs") for caption in page.captions())
    records, _, _ = made(["heart", "sonar"], "psvm,stump-vote", 2)
    failed = [{k: r[k] for k in ("key", "spec", "trial")} | {"failure": "ValueError: no"}
              if r["spec"]["data"] == "sonar" else r for r in records]  # fmt: skip
    page = Page(html.page(compare.collect(failed), failed))
    assert "sonar No method finished." in page.text and len(page.tables) == 2


def test_tuning_and_measures():
    *_, page = made(["heart"], "psvm", 2, tune=True, measure="auc")
    ((_, data, told),) = page.table("Parameters that were chosen")[1:]
    counts = re.findall(r"lam=[\d.]+ \((\d)\)", told)
    assert data == "heart" and sum(map(int, counts)) == 2
    assert "area under ROC on test rows in %, more is better" in page.text
    assert "Choosing parameters is not included" in page.text


def test_questions(monkeypatch):
    asked = (("more trees", "bagging:n_estimators=25", "bagging:n_estimators=1"),)
    monkeypatch.setattr(compare, "DIVERSITY", asked)
    _, document, page = made(["german"], "diversity", 4)
    (answer,) = document["questions"]
    low, high = signed(answer["low"]), signed(answer["high"])
    row = ["more trees", answer["verdict"], signed(answer["change"]), f"{low} to {high}"]
    assert page.table("Each line is one source")[1] == row
    picture = page.picture("Changes by diversity")
    zero = float(shapes(picture, "line", "zero")[0]["x1"])
    values = [0.0, *(answer[key] for key in ("change", "low", "high"))]
    assert_on_one_scale([zero, *marks(picture), *bar_ends(picture)], values)


def renamed(value, names):
    """Replace keys and texts of a document."""
    text = json.dumps(value)
    for old, new in names.items():
        text = text.replace(json.dumps(old), json.dumps(new))
    return json.loads(text)


def test_hostile_names_are_harmless(many):
    records, document, before = many
    names = {"gaussians:60": HOSTILE, "psvm": f"psvm{HOSTILE}"}
    changed = renamed(document, names) | {"command": ["compare", "--data", HOSTILE]}
    changed["warnings"] = [f"UserWarning: {HOSTILE}"]
    changed["sets"][0] |= {"notes": [HOSTILE], "classes": {HOSTILE: 3, "b": 4}}
    changed["sets"][0]["methods"][0] |= {"failed": 1, "failure": HOSTILE}
    others = [r for r in records if r["spec"]["method"] != "psvm"]
    found = html.page(changed, renamed(others, {"gaussians:60": HOSTILE}))
    page = Page(found)
    assert {tag for tag, _ in page.tags} <= {tag for tag, _ in before.tags} | {"ul", "li", "pre"}
    links = [{*re.findall('(?:href|src)="(.*?)"', one)} for one in (found, before.source)]
    assert links[0] == links[1]
    assert not any("onerror" in attrs for _, attrs in page.tags)
    assert page.text.count("<script>alert(1)</script>") >= 10
    assert "\x1b" not in found and "\u202e" not in found and r"\x1b[1m\u202e" in found


def contrast(one, two):
    """Ratio of contrast by WCAG 2."""

    def luminance(colour):
        shares = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
        return sum(w * s for w, s in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    dark, light = sorted((luminance(one), luminance(two)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1])
def test_colours_can_be_seen(scheme):
    light, dark = re.findall(r":root \{(.*?)\}", html.STYLE, re.S)
    colours = dict(re.findall(r"--(\w+): (#\w{6})", (light, dark)[scheme]))
    assert set(colours) == set(re.findall(r"var\(--(\w+)\)", html.STYLE)) | {
        f"h{k}" for k in range(draw.HUES)
    }
    for ground in ("ground", "sheet", "good", "bad", "band"):
        assert contrast(colours["ink"], colours[ground]) >= 7
    for name in ("quiet", "accent", *(f"h{k}" for k in range(draw.HUES))):
        assert contrast(colours[name], colours["ground"]) >= 4.5


def test_the_command_writes_the_page(tmp_path):
    argv = ["compare", "--data", "heart", "--methods", "psvm,stump-vote", "--trials", "2"]
    argv += ["--out", str(tmp_path / "out dir")]
    assert cli.main(argv) == 0
    path = tmp_path / "out dir" / "report.html"
    text = path.read_text(encoding="utf-8")
    (shown,) = re.findall(r"python cli.py compare.*", Page(text).text)
    assert shlex.split(shown) == ["python", "cli.py", *argv]
    assert cli.main(argv) == 0  # nothing is computed again
    assert path.read_text(encoding="utf-8") == text
    records = [json.loads(line) for line in (path.parent / NAME).read_text().splitlines()]
    document = {"command": argv} | compare.collect(records)
    assert html.page(document, records) == text

"""perf/: how times are taken and kept, and that what is rendered is what was recorded."""

import ast
import json
import math
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

import cli
from perf import draw
from perf.__main__ import benches, main
from perf.bench import common, render, scale
from perf.study import reproduce

RUNS = render.latest()
PAPERS_DIR = render.HERE / "papers"
ROW = {"what", "size", "seconds", "peer_seconds", "ratio", "form", "target", "met", "note"}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """An empty folder of records, one thread."""
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    for name in common.THREADS:
        monkeypatch.setenv(name, "1")
    return tmp_path


def record(seconds, large=False, name="exrm"):
    report = common.Report(name, large)
    report.add("a fit", "10 x 2", seconds, 1.0, target=">= 2", curves={"ours": [[10, seconds]]})
    return report


# -- files on disk ---------------------------------------------------------------------------------
def test_files_are_what_the_records_give():
    files = render.render()
    for name, text in files.items():
        path = render.HERE / name
        assert path.read_text(encoding="utf-8") == text, f"{name}: run `python -m perf render`"
    assert {f"plots/{path.name}" for path in (render.HERE / "plots").iterdir()} == set(files) - {
        "RESULTS.md",
        "SCALE.md",
    }


def test_every_bench_has_records():
    assert set(RUNS) == set(benches())


@pytest.mark.parametrize("name", RUNS)
def test_records_agree_with_themselves(name):
    """Targets are judged rightly, ratios are those of the times, means are those of the cells."""
    run = RUNS[name]
    assert run["bench"] == name and run["threads"] == 1 and run["versions"]["numba"]
    cells = {grid: [row["ratio"] for row in rows] for grid, rows in render.grids(run).items()}
    means = [row["ratio"] for row in run["rows"] if row["what"].endswith(", geometric mean")]
    assert means == [pytest.approx(statistics.geometric_mean(c), rel=1e-4) for c in cells.values()]
    for row in run["rows"]:
        assert set(row) >= ROW
        assert all(value is None or value > 0 for value in (row["seconds"], row["peer_seconds"]))
        if row["target"] and row["ratio"] is not None:
            sign, aim = row["target"].split()
            above = row["ratio"] >= float(aim)
            assert row["met"] is (
                above if sign == ">=" else not above or row["ratio"] == float(aim)
            )
        if row["seconds"] and row["peer_seconds"]:
            ratio = row["peer_seconds"] / row["seconds"]
            assert row["ratio"] == pytest.approx(ratio, rel=1e-4) or (
                row["ratio"] == pytest.approx(1 / ratio, rel=1e-4)
            )


def test_the_page_on_many_rows_follows_from_the_records():
    """Of 1e9 rows on 8 workers: the work of an eighth of the rows, and 8 answers at 1 GB/s."""
    found = scale.costs(RUNS["rows"])
    assert set(found) == set(scale.ITERATIONS)
    cost, _, traffic = found["GradientBoosting"]
    minutes = 100 * (1e9 * cost / 8 + 8 * traffic / 1e9) / 60
    row = next(line for line in render.render()["SCALE.md"].splitlines()[::-1] if "| 1e9 |" in line)
    assert f"| {minutes:.3g} min |" in row


@pytest.mark.parametrize("name", sorted(set(RUNS) - {"compare", "covariance", "rows", "threads"}))
def test_every_plot_shows_how_ours_and_a_peer_grow(name):
    _, curves = render.curves(RUNS[name])
    assert sum(len(curve) >= 3 for curve in curves.values()) >= 2


@pytest.mark.parametrize("name", render.plots(RUNS))
def test_nothing_in_a_plot_is_cut_off(name):
    """All parts lie within the picture, texts by a generous estimate of their width."""
    svg = ElementTree.fromstring(render.plots(RUNS)[name])
    width, height = float(svg.get("width")), float(svg.get("height"))
    texts = [part for part in svg if part.tag.endswith("text")]
    assert {text.text for text in texts} >= set(render.curves(RUNS[name])[1])
    for text in texts:
        x, y, wide = float(text.get("x")), float(text.get("y")), 6.8 * len(text.text)
        left = {"start": 0.0, "middle": wide / 2, "end": wide}[text.get("text-anchor")]
        if text.get("transform"):
            assert 12 <= x <= width and wide / 2 <= y <= height - wide / 2
        else:
            assert 0 <= x - left and x - left + wide <= width and 12 <= y <= height
    for part in svg:
        points = [pair.split(",") for pair in part.get("points", "").split()]
        assert all(0 <= float(x) <= width and 0 <= float(y) <= height for x, y in points)


# -- records ---------------------------------------------------------------------------------------
def test_a_run_replaces_that_of_the_same_grid_only(results):
    for seconds, large in ((0.5, False), (0.25, True), (0.125, False)):
        record(seconds, large).close()
    runs = common.read_runs(results / "exrm.jsonl")
    found = {run["sizes"]: [row["seconds"] for row in run["rows"]] for run in runs}
    assert found == {"large": [0.25], "small": [0.125]}
    assert [path.name for path in results.iterdir()] == ["exrm.jsonl"]


def test_an_interrupted_run_leaves_the_records_alone(results):
    record(0.5).close()
    before = (results / "exrm.jsonl").read_bytes()
    record(0.25)
    assert (results / "exrm.jsonl").read_bytes() == before
    record(0.125).close()
    (run,) = common.read_runs(results / "exrm.jsonl")
    assert [row["seconds"] for row in run["rows"]] == [0.125]


def test_rows_are_judged_and_cut_to_six_digits(results, capsys):
    report = record(1 / 3)
    report.add("worse", "", 2.0, 1.0, target=">= 1")
    report.add("given", "", 2.0, 1.0, ratio=2.0, form="n^{:.1f}", target="<= 3")
    report.add("no peer", "", 2.0, target=">= 1", note=common.missing("lightgbm"))
    report.close()
    (run,) = common.read_runs(results / "exrm.jsonl")
    assert [row["met"] for row in run["rows"]] == [True, False, True, None]
    assert [row["ratio"] for row in run["rows"]] == [3.0, 0.5, 2.0, None]
    assert run["rows"][0]["seconds"] == 0.333333
    printed = capsys.readouterr().out
    assert "MISSED" in printed and "skipped" in printed and "2 of 4 targets met" in printed


def test_summary_is_the_mean_and_the_worst(results):
    report = record(0.5)
    report.summary("hinge", {"here": 4.0, "there": 9.0}, (">= 5", ">= 5"))
    report.summary("none", {"here": None}, (">= 5", ">= 5"))
    report.close()
    *_, mean, worst, skipped, _ = common.read_runs(results / "exrm.jsonl")[0]["rows"]
    assert (mean["ratio"], mean["met"]) == (6.0, True)
    assert (worst["ratio"], worst["met"], worst["note"]) == (4.0, False, "here")
    assert skipped["ratio"] is None and "pip install scikit-learn" in skipped["note"]


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_records_do_not_make_the_commit_dirty(tmp_path, monkeypatch):
    """... but a change of anything else does."""
    monkeypatch.setattr(common, "ROOT", tmp_path)
    assert common._commit() is None
    (tmp_path / "perf" / "results").mkdir(parents=True)
    files = [tmp_path / "cli.py", tmp_path / "perf" / "results" / "exrm.jsonl"]
    for file in files:
        file.write_text("1\n")
    common._git("init", "-q")
    common._git("add", ".")
    person = "-c", "user.name=n", "-c", "user.email=e@example.org"
    common._git(*person, "commit", "-qm", "first")
    clean = common._commit()
    assert len(clean) == 40
    files[1].write_text("2\n")
    assert common._commit() == clean
    files[0].write_text("2\n")
    assert common._commit() == f"{clean}-dirty"


# -- timing ----------------------------------------------------------------------------------------
def test_race_takes_turns_and_keeps_the_fastest(monkeypatch):
    clock, calls = [0.0], []
    monkeypatch.setattr(common.time, "perf_counter", lambda: clock[0])

    def contestant(name, times):
        def call():
            calls.append(name)
            clock[0] += next(times)
            return name

        return call

    a, b = contestant("a", iter([9.0, 3.0, 2.0])), contestant("b", iter([9.0, 1.0, 4.0]))
    assert common.race(a, None, b, rounds=2, seconds=0) == [(2.0, "a"), (None, None), (1.0, "b")]
    assert calls == list("ababab")


def test_growth_of_a_square(monkeypatch):
    monkeypatch.setattr(common, "race", lambda *fits: [(fit(), "model") for fit in fits])
    row, models = common.growth((10, 1_000), [lambda: 1e-4, lambda: 1.0])
    assert row["ratio"] == pytest.approx(2.0) and row["points"] == [[10, 1e-4], [1_000, 1.0]]
    assert models == ("model", "model")


# -- rendering -------------------------------------------------------------------------------------
def test_the_latest_run_is_rendered(results, monkeypatch):
    monkeypatch.setattr(render, "RESULTS", results)
    for seconds, large, when in ((0.5, True, "2001"), (0.25, False, "2003"), (0.125, True, "2002")):
        monkeypatch.setattr(
            common.time, "strftime", lambda *_, when=when: f"{when}-01-01T00:00:00Z"
        )
        record(seconds, large).close()
    text = render.render()["RESULTS.md"]
    assert "2003-01-01" in text and "2002" not in text
    assert "| a fit | 10 x 2 | 250 | 1,000 | 4x | >= 2 | met |" in text


def test_write_changes_and_removes_only_what_it_must(results, monkeypatch, capsys):
    monkeypatch.setattr(render, "RESULTS", results)
    monkeypatch.setattr(render, "HERE", results)
    record(0.5).close()
    (results / "plots").mkdir()
    (results / "plots" / "old.svg").write_text("")
    capsys.readouterr()
    render.write()
    assert capsys.readouterr().out.split() == ["perf/RESULTS.md", "perf/plots/exrm.svg"]
    assert [path.name for path in (results / "plots").iterdir()] == ["exrm.svg"]
    times = [(results / name).stat().st_mtime_ns for name in ("RESULTS.md", "plots/exrm.svg")]
    render.write()
    assert capsys.readouterr().out == ""
    assert times == [
        (results / name).stat().st_mtime_ns for name in ("RESULTS.md", "plots/exrm.svg")
    ]


def test_a_curve_takes_the_fastest_time_at_a_size():
    curve = [
        {"curves": {"a": [[10, 2.0], [5, 1.0]], "b": [[10, None]]}},
        {"curves": {"a": [[10, 1.5]]}},
    ]
    assert render.curves({"rows": curve}) == ("rows", {"a": [(5, 1.0), (10, 1.5)]})


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (0.0123456, "12.3"), (1.23456, "1,235"), (1e-6, "0.00100"), (0.1, "100")],
)
def test_milliseconds_have_three_digits(seconds, text):
    assert render.number(seconds) == text


@pytest.mark.parametrize("log", [False, True])
def test_scale_puts_values_where_they_belong(log):
    scale = draw.Scale(1.0, 100.0, 0.0, 200.0, log)
    assert (scale.at(1.0), scale.at(100.0)) == (0.0, 200.0)
    assert scale.at(10.0) == pytest.approx(100.0 if log else 200 * 9 / 99)
    ticks = scale.ticks()
    assert 3 <= len(ticks) <= 8 and all(1.0 <= tick <= 100.0 for tick in ticks)
    assert ticks == ([1.0, 10.0, 100.0] if log else [20.0, 40.0, 60.0, 80.0, 100.0])


def test_scale_of_a_narrow_range_has_ticks_too():
    assert draw.Scale(450.0, 5_500.0, 0.0, 1.0, True).ticks() == [500.0, 1_000.0, 2_000.0, 5_000.0]
    low, high = draw.limits([7.0], True)
    assert low < 7.0 < high and math.isfinite(high)


def test_command_line(capsys):
    assert main([]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name} " in listed for name in benches()) and "python -m perf render" in listed
    assert main(["exmr"]) == 2
    assert "no bench 'exmr'" in capsys.readouterr().err


def test_every_bench_can_be_run():
    for file in benches().values():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        functions = {part.name: part for part in tree.body if isinstance(part, ast.FunctionDef)}
        assert [part.arg for part in functions["run"].args.args] == ["report", "large"], file
        assert ast.get_docstring(tree).count("\n\n") >= 1, file


def test_records_are_plain_json():
    for path in common.RESULTS.glob("*.jsonl"):
        text = path.read_text(encoding="utf-8")
        assert "NaN" not in text and "Infinity" not in text and os.path.getsize(path) < 100_000
        for line in text.splitlines():
            assert isinstance(json.loads(line), dict)


# -- papers ----------------------------------------------------------------------------------------
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(PAPERS_DIR.glob("*.md"))}
PAPERS = {name: page for name, page in PAGES.items() if name not in reproduce.TARGETS}
VERDICTS = {"holds", "partly holds", "does not hold"}
CLAIM = re.compile(
    r"## Claim (\d+)\. \S.*\n\n\*\*Claim\.\*\* (.+?)\n\n\*\*Verdict\.\*\* (.+?)\n\n"
    r"\*\*Figures\.\*\* (.+?)\n\n\*\*Command\.\*\* (.+?)\n*\Z",
    re.DOTALL,
)


def claims(page):
    """Number, claim, verdict, figures and command of each."""
    parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)[1:-1]
    found = [CLAIM.fullmatch(part) for part in parts]
    assert all(found), [part[:60] for part, match in zip(parts, found, strict=True) if not match]
    return [match.groups() for match in found]


def commands():
    """Every command on the pages, once."""
    fields = [claim[4] for page in PAPERS.values() for claim in claims(page)]
    quoted = [text for field in fields for text in re.findall(r"`([^`]+)`", field)]
    return sorted({text for text in quoted if text.startswith(("python ", "pytest "))})


def test_there_is_a_page_for_every_paper():
    assert set(PAPERS) == {"exrm", "drm", "adaboost-nc", "cqboost", "ensemble-chapter"}


def test_pages_of_targets_are_linked_from_the_page_of_their_paper():
    for name, page in PAGES.items():
        if name in reproduce.TARGETS:
            paper = PAPERS[reproduce.TARGETS[name].replace("_", "-")]
            assert f"]({name}.md)" in paper and page.startswith("# ")
            for file in re.findall(r"\]\(([^)]+\.svg)\)", page):
                assert (PAPERS_DIR / file).exists()


@pytest.mark.parametrize("name", PAPERS)
def test_a_page_keeps_the_form(name):
    page = PAPERS[name]
    fields = (rf"\*\*{field}\.\*\* .+?\n\n" for field in ("Reference", "Code", "In short"))
    head = re.match(r"# \S.*\n\n" + "".join(fields) + r"## Claim 1\.", page, re.DOTALL)
    assert head, "title, Reference, Code, In short, then the claims"
    for file in re.findall(r"`(solvers/\w+\.py)`", head[0]):
        assert (common.ROOT / file).exists()
    found = claims(page)
    assert [int(claim[0]) for claim in found] == list(range(1, len(found) + 1))
    assert {claim[2] for claim in found} <= VERDICTS
    for *_, command in found:
        assert re.search(r"`(python|pytest) ", command) or command.startswith("No single command: ")
    deviations = page.partition("## Deviations\n\n")[2]
    numbers = re.findall(r"^(\d+)\. \S", deviations, re.MULTILINE)
    assert numbers and numbers == [str(k + 1) for k in range(len(numbers))]


@pytest.mark.parametrize("name", PAPERS)
def test_tables_and_pictures_of_a_page_are_whole(name):
    for table in re.findall(r"(?:^\|.*\n)+", PAPERS[name], re.MULTILINE):
        assert len({line.count("|") for line in table.splitlines()}) == 1
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", PAPERS[name]):
        assert (PAPERS_DIR / picture).exists()


@pytest.mark.parametrize("command", commands())
def test_commands_of_the_pages_work(command, tmp_path, monkeypatch):
    """Commands of cli.py are run, with one split; of benches and tests the names are looked up."""
    program, *arguments = shlex.split(command)
    if program == "pytest":
        file, flag, name = arguments
        assert flag == "-k" and f"_{name}" in (common.ROOT / file).read_text(encoding="utf-8")
    elif arguments[:2] == ["-m", "perf"]:
        assert set(arguments[2:]) <= set(benches())
    elif arguments[0] == "-c":
        assert subprocess.run([sys.executable, *arguments], capture_output=True).returncode == 0
    else:
        assert arguments[0] == "cli.py"
        monkeypatch.chdir(tmp_path)
        argv = re.sub(r" --trials \d+|$", " --trials 1", " ".join(arguments[1:]), count=1).split()
        assert cli.main(argv) == 0


# -- the share of comparisons ----------------------------------------------------------------------
def test_time_is_counted_once(monkeypatch):
    """... to the innermost part, and to models only what their outermost calls take."""
    from perf.bench.compare import INSIDE, Meter

    clock, meter = iter(range(100)), Meter()
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    inner = meter.count(lambda: None, INSIDE)  # a model inside another: the clock is not asked
    fit = meter.count(lambda: inner(), INSIDE)
    part = meter.count(lambda: (fit(), fit()), "scores")
    part()  # from 0 to 5, with fits from 1 to 2 and from 3 to 4
    assert meter.seconds == {INSIDE: 2, "scores": 3} and not meter.open

    def fail():
        raise ValueError("a fit that is refused")

    with pytest.raises(ValueError, match="refused"):
        meter.count(fail, INSIDE)()
    assert meter.seconds[INSIDE] == 3 and not meter.open


def test_classes_are_as_before_when_times_are_taken():
    from perf.bench import compare as bench_compare
    from solvers.exrm import PSVM

    before = {**vars(PSVM)}
    with bench_compare.metered() as seconds:
        PSVM().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]).predict([[1.5]])
        assert set(seconds) == {bench_compare.INSIDE} and {**vars(PSVM)} != before
    assert {**vars(PSVM)} == before

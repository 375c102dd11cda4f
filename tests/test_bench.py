"""Tests for perf/bench: how times are taken and kept, and that pages follow from the records."""

import ast
import shutil
import statistics
import xml.etree.ElementTree as ElementTree

import pytest

from perf.__main__ import benches, main
from perf.bench import common, render

RUNS = render.latest()
ROW = {"what", "size", "seconds", "peer_seconds", "ratio", "form", "target", "met", "note"}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Use an empty folder of records and one thread."""
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    for name in common.THREADS:
        monkeypatch.setenv(name, "1")
    return tmp_path


def record(seconds, large=False, name="exrm"):
    report = common.Report(name, large)
    report.add("a fit", "10 x 2", seconds, 1.0, target=">= 2", curves={"ours": [[10, seconds]]})
    return report


# -- files on disk ---------------------------------------------------------------------------------
def test_files_follow_from_the_records():
    files = render.render()
    for name, text in files.items():
        path = render.HERE / name
        assert path.read_text(encoding="utf-8") == text, f"{name}: run `python -m perf render`"
    plots = {f"plots/{path.name}" for path in (render.HERE / "plots").iterdir()}
    assert plots == set(files) - {"RESULTS.md", "SCALE.md"}


def test_every_bench_has_records_and_can_be_run():
    assert set(RUNS) == set(benches())
    for file in benches().values():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        (run,) = (node for node in tree.body if getattr(node, "name", "") == "run")
        assert [argument.arg for argument in run.args.args] == ["report", "large"], file
        assert ast.get_docstring(tree).count("\n\n") >= 1, file


@pytest.mark.parametrize("name", RUNS)
def test_records_agree_with_themselves(name):
    """Verdicts follow from targets, ratios from times, means from cells."""
    run = RUNS[name]
    assert run["bench"] == name and run["threads"] == 1 and run["versions"]["numba"]
    cells = {grid: [row["ratio"] for row in rows] for grid, rows in render.grids(run).items()}
    means = [row["ratio"] for row in run["rows"] if row["what"].endswith(", geometric mean")]
    assert means == [pytest.approx(statistics.geometric_mean(c), rel=1e-4) for c in cells.values()]
    for row in run["rows"]:
        assert set(row) >= ROW
        assert all(value is None or value > 0 for value in (row["seconds"], row["peer_seconds"]))
        if row["target"] and row["ratio"] is not None:
            sign, goal = row["target"].split()
            distance = row["ratio"] - float(goal)
            assert row["met"] is (distance >= 0 if sign == ">=" else distance <= 0)
        if row["seconds"] and row["peer_seconds"]:
            ratio = row["peer_seconds"] / row["seconds"]
            assert any(row["ratio"] == pytest.approx(x, rel=1e-4) for x in (ratio, 1 / ratio))


def test_the_page_on_many_rows_follows_from_the_records():
    """1e9 rows on 8 workers take the work of an eighth of the rows, and 8 answers at 1 GB/s."""
    costs = render.costs(RUNS["rows"])
    assert set(costs) == set(render.ITERATIONS)
    cost, _, traffic = costs["GradientBoosting"]
    minutes = 100 * (1e9 * cost / 8 + 8 * traffic / 1e9) / 60
    row = next(line for line in render.render()["SCALE.md"].splitlines()[::-1] if "| 1e9 |" in line)
    assert f"| {minutes:.3g} min |" in row


@pytest.mark.parametrize("name", sorted(set(RUNS) - {"rows", "threads"}))
def test_plots_show_ours_and_a_peer(name):
    _, curves = render.curves(RUNS[name])
    assert sum(len(curve) >= 3 for curve in curves.values()) >= 2
    svg = ElementTree.fromstring(render.plots(RUNS)[name])
    assert {element.text for element in svg if element.tag.endswith("text")} >= set(curves)


# -- records ---------------------------------------------------------------------------------------
def test_a_run_replaces_that_of_the_same_grid_only_and_when_it_is_complete(results):
    for seconds, large in ((0.5, False), (0.25, True), (0.125, False)):
        record(seconds, large).close()
    before = (results / "exrm.jsonl").read_bytes()
    record(1.0)  # interrupted
    assert (results / "exrm.jsonl").read_bytes() == before
    record(2.0).close()
    runs = common.read_runs(results / "exrm.jsonl")
    times = {run["sizes"]: [row["seconds"] for row in run["rows"]] for run in runs}
    assert times == {"large": [0.25], "small": [2.0]}
    assert [path.name for path in results.iterdir()] == ["exrm.jsonl"]


def test_rows_are_judged_and_rounded_to_six_digits(results, capsys):
    report = record(1 / 3)
    report.add("worse", "", 2.0, 1.0, target=">= 1")
    report.add("given", "", 2.0, 1.0, ratio=2.0, form="n^{:.1f}", target="<= 3")
    report.add("no peer", "", 2.0, target=">= 1", note="fast", needs="lightgbm")
    report.close()
    (run,) = common.read_runs(results / "exrm.jsonl")
    assert [row["met"] for row in run["rows"]] == [True, False, True, None]
    assert [row["ratio"] for row in run["rows"]] == [3.0, 0.5, 2.0, None]
    assert run["rows"][0]["seconds"] == 0.333333
    assert run["rows"][3]["note"] == "lightgbm is missing: pip install lightgbm"
    printed = capsys.readouterr().out
    assert "MISSED" in printed and "skipped" in printed and "2 of 4 targets met" in printed


def test_summary_is_the_mean_and_the_worst(results):
    report = record(0.5)
    report.summary("hinge", {"here": 4.0, "there": 9.0}, (">= 5", ">= 5"))
    report.close()
    *_, mean, worst = common.read_runs(results / "exrm.jsonl")[0]["rows"]
    assert (mean["ratio"], mean["met"]) == (6.0, True)
    assert (worst["ratio"], worst["met"], worst["note"]) == (4.0, False, "here")


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
def test_contestants_take_turns_and_the_fastest_call_counts(monkeypatch):
    clock, calls = [0.0], []
    monkeypatch.setattr(common.time, "perf_counter", lambda: clock[0])

    def contestant(name, times):
        def call():
            calls.append(name)
            clock[0] += next(times)
            return name

        return call

    a, b = contestant("a", iter([9.0, 3.0, 2.0])), contestant("b", iter([9.0, 1.0, 4.0]))
    runs = common.time_interleaved(a, None, b, rounds=2, seconds=0)
    assert runs == [(2.0, "a"), (None, None), (1.0, "b")]
    assert calls == list("ababab")


def test_growth_of_a_square(monkeypatch):
    def times(*fits):
        return [(fit(), "model") for fit in fits]

    monkeypatch.setattr(common, "time_interleaved", times)
    row, models = common.growth((10, 1_000), [lambda: 1e-4, lambda: 1.0])
    assert row["ratio"] == pytest.approx(2.0) and row["points"] == [[10, 1e-4], [1_000, 1.0]]
    assert models == ("model", "model")


# -- rendering -------------------------------------------------------------------------------------
def test_the_latest_run_is_rendered(results, monkeypatch):
    monkeypatch.setattr(render, "RESULTS", results)
    for seconds, large, when in ((0.5, True, "2001"), (0.25, False, "2003"), (0.125, True, "2002")):
        date = f"{when}-01-01T00:00:00Z"
        monkeypatch.setattr(common.time, "strftime", lambda *_, date=date: date)
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
    monkeypatch.setattr(render.os, "replace", lambda *paths: pytest.fail("nothing has changed"))
    render.write()
    assert capsys.readouterr().out == ""


def test_a_curve_takes_the_fastest_time_at_a_size():
    curve = [{"curves": {"a": [[10, 2.0], [5, 1.0]], "b": [[10, None]]}}]
    curve += [{"curves": {"a": [[10, 1.5]]}}]
    assert render.curves({"rows": curve}) == ("rows", {"a": [(5, 1.0), (10, 1.5)]})


def test_command_line(capsys, monkeypatch):
    assert main([]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name} " in listed for name in benches()) and "python -m perf render" in listed
    assert main(["exmr"]) == 2
    assert "no bench 'exmr'" in capsys.readouterr().err
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["exrm"]) == 2
    assert "pip install -e '.[peers]'" in capsys.readouterr().err

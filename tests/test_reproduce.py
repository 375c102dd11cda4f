"""Tests for perf/study/page.py, perf/study/reproduce.py and perf/papers/ensemble_chapter.py."""

import math

import numpy as np
import pytest

import cli
import datasets
from perf.papers import ensemble_chapter
from perf.study import page, reproduce, workers
from perf.study.experiment import Spec
from perf.study.page import Page, Printed, Table, Target
from tests.conftest import check_quick_page


def step(x):
    """Square a number: a step of a protocol, called by its name."""
    if x < 0:
        raise ValueError("x must not be negative")
    return {"square": x * x, "test_error": x / 10, "train_rows": 50, "test_rows": 25}


@pytest.fixture
def target(monkeypatch):
    """Return a function that makes a target of the given jobs, called exrm-table1."""

    def make(jobs, **pictures):
        def write(records, quick):
            rows = [[*map(str, label), len(some)] for label, some in records.items()]
            contents = ["A text.", Table("A table.", ["what", "records"], rows)]
            return Page("holds", "it does.", contents, pictures, ["One.", "Two."])

        made = Target("A title", "It works.", lambda quick: jobs, write, "Seconds.")
        monkeypatch.setattr(reproduce, "load", lambda name: (made, "A paper."))

    return make


def steps(*values):
    return {(f"x = {x}",): page.step(step, x=x) for x in values}


def run(jobs=1, folder=None):
    return reproduce.command(["exrm-table1"], False, jobs, folder, True)


# -- figures ---------------------------------------------------------------------------------------
def test_departure_is_in_corrected_standard_errors():
    records = [{"test_error": e, "train_rows": 150, "test_rows": 58} for e in (0.2, 0.25, 0.27)]
    values = np.array([20.0, 25.0, 27.0])
    own = values.std(ddof=1) ** 2 * (1 / 3 + 58 / 150)
    printed = 4.36**2 * (1 / 10 + 58 / 150)
    expected = (values.mean() - 23.79) / math.sqrt(own + printed)
    assert page.departure(records, Printed(23.79, 4.36, 10)) == pytest.approx(expected)
    alone = values.std(ddof=1) ** 2 * (1 + 58 / 150)
    expected = (values.mean() - 23.79) / math.sqrt(own + alone)
    assert page.departure(records, Printed(23.79)) == pytest.approx(expected)
    assert page.departure(records[:1], Printed(23.79, 4.36, 10)) is None
    assert page.beside(records[:1], Printed(23.79, 4.36, 10)) == "20.0 [23.8 ± 4.4]"


# -- running ---------------------------------------------------------------------------------------
def test_stored_records_are_not_computed_again(target, tmp_path, monkeypatch):
    target(steps(1, 2), curve=("<svg/>\n", "a curve"))
    text = run(folder=tmp_path)
    assert text == (tmp_path / "exrm-table1.md").read_text(encoding="utf-8")
    assert (tmp_path / "exrm-table1-curve.svg").read_text() == "<svg/>\n"
    assert "1. One.\n2. Two.\n" in text and "![a curve](exrm-table1-curve.svg)" in text
    assert "`python cli.py reproduce exrm-table1`" in text and "numpy" in text
    size = (tmp_path / "results.jsonl").stat().st_size
    monkeypatch.setattr(workers, "compute", lambda cell: pytest.fail("it was run again"))
    assert run(folder=tmp_path) == text
    assert (tmp_path / "results.jsonl").stat().st_size == size


def test_processes_and_the_command_line_give_the_same_page(target, capsys):
    target(steps(1, 2, 3))
    assert run(jobs=1) == run(jobs=2)
    assert cli.main(["reproduce", "exrm-table1"]) == 0
    assert capsys.readouterr().out.startswith("# A title\n")


def test_failure_names_the_cell(target):
    target(steps(1, -1))
    with pytest.raises(ValueError, match=r"exrm-table1: x = -1 failed.*must not be negative"):
        run()


def test_missing_data_are_listed_and_not_replaced(target, monkeypatch, tmp_path):
    monkeypatch.setenv("ENSOLVE_DATA", str(tmp_path))
    target(steps(1) | {("a",): Spec("no-such-set", "psvm", trials=1)})
    text = run()
    assert "Missing" in text and "no-such-set" in text and "| a |" not in text
    data = datasets.two_gaussians(40)
    rows = (f"{a:.3f},{b:.3f},{c}" for (a, b), c in zip(data.X, data.y, strict=True))
    (tmp_path / "no-such-set.csv").write_text("\n".join(["a,b,class", *rows]))
    text = run()
    assert "Missing" not in text and "| a | 1 |" in text


@pytest.mark.parametrize(("line", "text"), [
    ("exrm-table4", "Did you mean"), ("exrm-table1 --jobs 0", "--jobs must be at least 1"),
    ("", "required"),
])  # fmt: skip
def test_wrong_lines(line, text, capsys):
    assert cli.main(["reproduce", *line.split()]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("name", reproduce.TARGETS)
def test_quick_form_of_every_target(name):
    check_quick_page(name)


# -- the chapter -----------------------------------------------------------------------------------
def test_tic_tac_toe_has_the_rows_of_uci():
    X, y = ensemble_chapter.tic_tac_toe()
    assert X.shape == (958, 27) and y.sum() == 626
    assert (X.reshape(958, 9, 3).sum(axis=2) == 1).all()  # a square is x, o or blank
    assert len(np.unique(X, axis=0)) == 958


def chapter(**changes):
    """Return the reason of the verdict on records of the quick form, some of them changed."""
    records = {}
    for (figure, k), job in ensemble_chapter.jobs(True).items():
        records[figure, k] = [workers.compute(job)]
        changes.get(figure.replace(" ", "_"), lambda record: None)(*records[figure, k])
    return ensemble_chapter.figures_page(records, True).reason


def test_verdict_on_the_chapter_follows_from_the_records():
    def halve(record):
        record["logistic (27)"] = [value / math.log(2) for value in record["logistic (27)"]]

    def exchange(record):
        record["AdaBoost"], record["bagging"] = record["bagging"], record["AdaBoost"]

    assert "not so Figure 3, below" in chapter()
    assert "Figure 3" not in (reason := chapter(figure_3=halve, figure_2=exchange))
    assert "Figure 2" in reason


def test_lines_reach_the_best_value_of_their_objective():
    """Against a search over all directions and, for the least margin, all biases."""
    record = ensemble_chapter.margin_lines(seed=3)
    X, y, lines = np.array(record["X"]), np.array(record["y"]), record["lines"]
    least, mean = -np.inf, -np.inf
    for angle in np.linspace(0, 2 * np.pi, 2_000):
        outputs = X @ [np.cos(angle), np.sin(angle)]
        gap = outputs[y > 0].min() - outputs[y < 0].max()
        least, mean = max(least, gap / 2), max(mean, (y * outputs).mean())
    assert lines["least margin"]["least"] == pytest.approx(least, abs=1e-3)
    assert lines["mean margin"]["mean"] == pytest.approx(mean, abs=1e-3)

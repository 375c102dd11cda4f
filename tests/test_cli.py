"""Tests for cli.py."""

import csv
import gzip
import io
import itertools
import json
import os
import random
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import cli
import datasets
from perf.study import experiment, methods, outputs
from perf.study.report import INDENT
from solvers import METHODS
from solvers.adaboost_nc import AdaBoost, AdaBoostNC
from solvers.combine import Calibrated, Stacking, Voting
from solvers.exrm import PSVM, ExRM
from solvers.model_file import FORMAT, load, save
from solvers.multiclass import OneVsRest
from tests.conftest import damage
from tests.test_diversity import naive_averages

ROOT = Path(__file__).resolve().parent.parent


def run(*argv, **options):
    """Run the command line in a process of its own."""
    command = [sys.executable, "cli.py", *map(str, argv)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.run(command, cwd=ROOT, text=True, **options)


@pytest.fixture
def report(capsys):
    """Run in this process; return the text behind each label, that of the heading as ''.

    Of several texts with the same label the last one counts.
    """

    def report(*argv):
        assert cli.main([str(word) for word in argv]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        texts, label = {}, ""
        for line in out.splitlines():
            assert len(line) <= 80 or os.sep in line  # a path is not broken
            new, text = line[:INDENT].strip(), line[INDENT:]
            if not line.startswith(" "):
                texts[""] = line
            elif new:
                label, texts[new] = new, text
            else:
                texts[label] += f" {text.strip()}"
        return texts

    return report


@pytest.fixture
def documented(report, tmp_path):
    """Run with --json; return the texts and the document."""

    def documented(*argv):
        lines = report(*argv, "--json", tmp_path / "out.json")
        return lines, json.loads((tmp_path / "out.json").read_text())

    return documented


@pytest.fixture
def predicted(report, tmp_path):
    """Run `predict`; return the texts, and titles and rows of the table."""

    def predicted(model, data, *flags):
        out = tmp_path / "predictions.csv"
        lines = report("predict", "--model", model, "--data", data, "--out", out, *flags)
        with open(out, newline="", encoding="utf-8") as file:
            return lines, *csv.reader(file)

    return predicted


@pytest.fixture
def refused(capsys):
    """Run a command that fails; return its error line."""

    def refused(*argv):
        assert cli.main([str(word) for word in argv]) == 2
        out, err = capsys.readouterr()
        assert out == "" and re.fullmatch(r"cli\.py: error: .+\n", err)
        return err

    return refused


def last_split(name, trials, scale="minmax"):
    """Scaled rows and labels of the last random half, for training and for testing."""
    data = datasets.load(name)
    train, test = list(datasets.splits(data.y, trials=trials))[-1]
    X = datasets.Preprocess(scale).fit(data.X[train]).transform(data.X)
    return X[train], data.y[train], X[test], data.y[test]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def write_table(path, fields=("size", "colour", "weight", "kind"), rows=40):
    """Write a table with a category and, in the third row, a gap; the kind depends on the size."""
    rng = np.random.default_rng(0)
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, fields, extrasaction="ignore")
        writer.writeheader()
        for i in range(rows):
            size, weight = (-1) ** i + rng.normal(), rng.normal()
            row = {"size": size, "weight": "" if i == 2 else weight}
            row |= {"colour": "red" if i % 3 else "blue", "kind": "yes" if i % 2 else "no"}
            writer.writerow(row)
    return path


# -- flags -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("command", METHODS)
def test_flags_are_the_parameters(command, capsys):
    expected = methods.parameters(command)
    args = cli.parse([command, "--data", "sonar"])
    assert list(args.flags) == list(expected)
    assert all(getattr(args, flag) == expected[key].default for key, flag in args.flags.items())
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert re.search(r"--class-weight VALUE .*balanced.* or name=factor,name=factor", text)
    assert f"[default {methods.PICTURES[command][0]} (" in text


@pytest.mark.parametrize(
    "argv",
    [["--help"], ["exrm", "--help"], ["stacking", "--help"], ["diversity", "--help"], ["methods"],
     ["datasets"]],
)  # fmt: skip
def test_help_and_lists_need_no_numba(argv):
    code = (
        f"import sys; sys.argv[1:] = {argv}; import cli\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "heavy = {'numba', 'scipy', 'pandas', 'sklearn', 'tqdm', 'matplotlib'}\n"
        "sys.exit(' '.join(loaded & heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    words = {"methods": METHODS, "datasets": [entry["name"] for entry in datasets.names()]}
    words |= {"exrm": ["--n-landmarks"], "stacking": ["--inner-cv"], "diversity": ["--plot"]}
    assert {*words.get(argv[0], ["predict"])} <= {*done.stdout.split()}


def test_version(capsys):
    tomllib = pytest.importorskip("tomllib")
    with pytest.raises(SystemExit) as end:
        cli.main(["--version"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert end.value.code == 0 and capsys.readouterr().out == f"ensolve {project['version']}\n"


@pytest.mark.parametrize(("path", "data"), [("relative", "heart"), ("link", "t.csv")])
def test_any_folder_will_do(path, data, tmp_path):
    """... also where files lie that have the names of our modules."""
    write_table(tmp_path / "t.csv")
    for name in ("solvers", "perf", "datasets"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong file')")
    (tmp_path / "link").symlink_to(ROOT / "cli.py")
    place = os.path.relpath(ROOT / "cli.py", tmp_path) if path == "relative" else path
    command = [sys.executable, place, "psvm", "--data", data, "--trials", "1", "--json", "a.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "" and "test error" in done.stdout
    assert json.loads((tmp_path / "a.json").read_text())["data"]["name"] == Path(data).stem


# -- runs ------------------------------------------------------------------------------------------
def test_report(report):
    lines = report("exrm", "--data", "sonar", "--trials", 2)
    assert lines[""] == "ExRM on sonar: 208 rows, 60 features, classes M (111) and R (97)"
    assert lines["protocol"] == (
        "2 random splits, 104 rows for training and 104 for testing, "
        "features scaled to [-1, 1], seed 0; +- is the standard deviation over the splits"
    )
    assert re.fullmatch(r"\d+\.\d % \+- \d+\.\d", lines["train error"])
    assert lines["parameters"] == (
        "n_estimators=10, p=2, lam=2, beta=0, kernel=linear, gamma=scale, n_landmarks=256, "
        "solver=auto, rho=1.1, prox=exact, tol=1e-06, max_iter=1000"
    )
    assert lines["members"].startswith("10: all members are identical; --sampling bootstrap")
    error = lines["test error"].partition(" +-")[0]
    assert lines["diversity"] == (
        f"member error {error}, disagreement 0.0 %, kappa 1.00, Q 1.00, correlation 1.00, "
        f"double fault {error}, ambiguity 0.00"
    )
    assert re.fullmatch(
        r"<= \d\.\de-\d\d relative to the objective \(tol 1e-06\); all 2 fits converged",
        lines["duality gap"],
    )
    assert re.fullmatch(
        r"\d+\.?\d* m?s \(median of 2\), plus \d+\.\d\d s once to compile or load kernels",
        lines["fit time"],
    )


def test_one_trial_has_no_deviation(report):
    lines = report("psvm", "--data", "heart", "--trials", 1, "--train", 100, "--scale", "standard")
    assert "1 random split, 100 rows for training and 170 for testing" in lines["protocol"]
    assert "features standardised" in lines["protocol"]
    assert lines["members"] == "1" and "diversity" not in lines
    assert not any("+-" in text for text in lines.values())


def test_cross_validation(report, documented):
    lines = report("exrm", "--data", "heart", "--cv", 4)
    assert lines["protocol"].startswith("4-fold cross-validation, 202 to 203 rows for training")
    lines, document = documented("exrm", "--data", "heart", "--cv", 2, "--trials", 3)
    assert lines["protocol"].startswith("2-fold cross-validation, 3 times, 135 rows for training")
    expected = {"trials": 3, "train": None, "cv": 2, "seed": 0, "scale": "minmax"}
    assert document["protocol"] == expected


def test_figures_of_the_method(report):
    form = "% of members at the norm bound (.*); mean pairwise angle in degrees (.*)"
    for mu, bound in ((1e-7, "100"), (0.01, "0")):
        lines = report("drm", "--data", "heart", "--trials", 2, "--mu", mu)
        assert re.fullmatch(form, lines["statistics"]).groups() == (bound, "0")
    lines = report("drm", "--data", "heart", "--trials", 2, "--sampling", "bootstrap")
    assert float(re.fullmatch(form, lines["statistics"])[2]) > 5
    assert "statistics" not in report("exrm", "--data", "heart", "--trials", 1)
    lines = report("cqboost", "--data", "heart", "--trials", 1, "--mu", 0.3)
    form = r".* (\d+); .* (\d+); C-bound (.*); no PAC-Bayes bound \(.*\)"
    taken, kept, bound = map(float, re.fullmatch(form, lines["statistics"]).groups())
    assert 1 <= kept <= taken and 0 <= bound <= 1
    assert "relative to max(1, |objective|)" in lines["duality gap"]


def test_residuals_that_are_no_optimum(report, documented):
    lines = report("exrm", "--data", "heart", "--trials", 2, "--solver", "paper")
    assert "not the optimum" in lines["duality gap"]
    assert "use solver='auto'" in lines["warning"]
    lines = report("exrm", "--data", "heart", "--trials", 3, "--max-iter", 2)
    assert lines["duality gap"].endswith("3 of 3 fits did not converge")
    assert re.search(r"ConvergenceWarning: .*max_iter.* \(and 2 like it\)", lines["warning"])
    lines, result = documented("adaboost", "--data", "heart", "--trials", 2)
    assert lines["certificate"] == "none: the method is greedy" and "duality gap" not in lines
    assert result["trials"][0]["residual"] is None and "residual" not in result["summary"]


def test_missing_numbers(report, documented, predicted, tmp_path):
    """Trees take them as they are, alone and as members; other methods get medians."""
    table, model = write_table(tmp_path / "t.csv"), tmp_path / "m.npz"
    left, filled = "missing numbers left to the method: 1", "missing numbers filled with training"
    for argv, note in (
        ("adaboost", left),
        ("voting --members adaboost,adaboost-nc", left),
        ("voting --members adaboost,psvm", filled),
        ("adaboost --base psvm", filled),
    ):
        command, *flags = argv.split()
        lines = report(command, "--data", table, *flags, "--trials", 1)
        assert lines["note"].startswith(note)
    _, result = documented("diversity", "--data", table, "--methods", "adaboost,exrm")
    assert result["data"]["notes"][-2:] == [f"AdaBoost: {left}", f"ExRM: {filled} medians: 1"]
    report("adaboost", "--data", table, "--trials", 1, "--save", model)
    X = datasets.load(table).X
    _, _, *rows = predicted(model, table)
    assert np.isnan(X).any()
    assert [float(row[1]) for row in rows] == load(model).decision_function(X).tolist()


def test_ways_to_read_a_file(report, documented, predicted, tmp_path):
    """A table as a German spreadsheet writes it: latin-1, decimal commas, semicolons, a number."""
    table, model = tmp_path / "t.csv", tmp_path / "m.npz"
    rows = [f"{i};{i % 2},{i % 7};0,{i % 5};{'pq'[i % 2]}" for i in range(60)]
    table.write_text("\n".join(["Nr;Gr\u00f6\u00dfe;Alter;Art", *rows]), encoding="latin-1")
    ways = {"encoding": "latin-1", "decimal": ",", "delimiter": ";", "drop": "Nr"}
    flags = [word for key, given in ways.items() for word in (f"--{key}", given)]
    argv = ["--data", table, "--label", "Art", *flags]
    lines, result = documented("psvm", *argv, "--trials", 2, "--save", model)
    assert result["data"]["features"] == 2 and result["data"]["notes"] == []
    assert result["read"] == ways | {"label": "Art", "drop": ["Nr"]}
    assert lines["test error"].startswith("0.0 %")
    lines, *_ = predicted(model, table, *flags)
    assert lines["error"].startswith("0.0 % (0 of 60 rows; ")
    assert "2 features" in report("diversity", *argv, "--methods", "psvm")[""]


def write_parts(folder, count=5, text=False):
    """Write rows of two classes as parts; returns the rows of each."""
    folder.mkdir()
    data, parts = datasets.load("gaussians:600"), []
    for k in range(count):
        X, y = data.X[k::count], data.y[k::count]
        parts.append((X, y))
        if text:
            rows = [f"{a!r},{b!r},{'ny'[c]}" for (a, b), c in zip(X.tolist(), y, strict=True)]
            (folder / f"p{k + 8}.csv").write_text("\n".join(["a,b,class", *rows, ""]))
        else:
            np.savez(folder / f"p{k + 8}.npz", X=X, y=2 * y - 1)
    return parts


@pytest.mark.parametrize("text", [False, True])
def test_a_directory_of_parts(text, documented, predicted, tmp_path):
    """The first parts train, the others test; a model of all of them is applied to new rows."""
    folder, parts = tmp_path / "parts", write_parts(tmp_path / "parts", text=text)
    saved = tmp_path / "model.npz"
    argv = ["--data", folder, "--train", "0.6", "--tol", "1e-9", "--save", saved]
    texts, document = documented("psvm", *argv, *(["--positive", "n"] if text else []))
    split = "the first 3 of 5 files, 360 rows, for training and the others, 240 rows, for testing"
    assert texts["protocol"] == f"{split}; features as they are"
    assert texts["model"].startswith("trained on all 600 rows")
    assert texts[""].startswith("PSVM on parts: 600 rows, 2 features, classes ")

    def join(some):
        return [np.concatenate(arrays) for arrays in zip(*some, strict=True)]

    (X, y), (X_test, y_test) = join(parts[:3]), join(parts[3:])
    seen = PSVM(tol=1e-9).fit(X, y)
    decision = seen.decision_function(X_test)
    assert [*document["data"]["classes"]] == (["y", "n"] if text else ["-1", "1"])
    (trial,) = document["trials"]
    assert document["parts"]["train"] == 3
    assert trial["test_error"] == pytest.approx(((decision >= 0) != y_test).mean())
    better = (decision[y_test == 1][:, None] > decision[y_test == 0]).mean()
    assert trial["auc"] == pytest.approx(better)
    assert trial["train_error"] == pytest.approx((seen.predict(X) != y).mean())

    _, _, *rows = predicted(saved, folder / ("p8.csv" if text else "p8.npz"))
    whole = PSVM(tol=1e-9).fit(*join(parts))
    expected = whole.decision_function(parts[0][0]) * (-1 if text else 1)
    assert [float(row[1]) for row in rows] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--train", "0.1"], "--train 0.1 means 0 of 3 files; at least one is to train and one"),
        (["--train", "3"], "--train 3 means 3 of 3 files"),
        (["--train", "1.5"], "--train must be a fraction in (0, 1) or a number of files, got 1.5"),
        (["--label", "2"], "npz files are read in one way only; leave out label"),
        (["--positive", "7"], "no class '7'"),
    ],
)
def test_parts_that_cannot_be_split(flags, text, tmp_path, refused):
    write_parts(tmp_path / "parts", count=3)
    assert text in refused("psvm", "--data", tmp_path / "parts", *flags)


def test_parts_of_many_classes(tmp_path, report, refused):
    data = datasets.load("wine")
    for k in range(2):
        np.savez(tmp_path / f"{k}.npz", X=data.X[k::2], y=data.y[k::2])
    assert ' has 3; choose, say, --positive "0"' in refused("psvm", "--data", tmp_path)
    lines = report("psvm", "--data", tmp_path, "--positive", "0")
    assert lines[""].endswith("classes rest (119) and 0 (59)")


def test_json_against_recomputation(documented):
    argv = ["exrm", "--data", "heart", "--trials", 3, "--seed", 5]
    argv += ["--sampling", "bootstrap", "--lam", 0.5, "--n-estimators", 4]
    lines, result = documented(*argv)
    assert result["command"][:-2] == [str(word) for word in argv]
    assert result["data"] == {
        "name": "heart", "rows": 270, "features": 13, "classes": {"1": 150, "2": 120}, "notes": []
    }  # fmt: skip
    expected = {"trials": 3, "train": 0.5, "cv": None, "seed": 5, "scale": "minmax"}
    assert result["protocol"] == expected
    assert result["params"]["lam"] == 0.5 and result["params"]["tol"] == 1e-6
    assert set(result["versions"]) == {"python", "numpy", "numba"}
    assert result["compile_seconds"] > 0 and result["warnings"] == []

    data = datasets.load("heart")
    train, test = list(datasets.splits(data.y, trials=3, seed=5))[2]
    low, high = data.X[train].min(axis=0), data.X[train].max(axis=0)
    X = 2 * (data.X - low) / (high - low) - 1
    model = ExRM(n_estimators=4, lam=0.5, sampling="bootstrap", random_state=7)
    model.fit(X[train], data.y[train])
    signs, goals = np.where(model.votes(X[test]) >= 0, 1, -1), np.where(data.y[test] == 1, 1, -1)
    trial = result["trials"][2]
    assert trial["test_error"] == 1 - model.score(X[test], data.y[test])
    expected = naive_averages(signs, goals) | {"ambiguity": signs.var(axis=1).mean()}
    assert trial["diversity"] == pytest.approx(expected, rel=1e-12)
    assert trial["objective"] == pytest.approx(model.objective_, rel=1e-9)
    assert trial["members"] == 4 and trial["iterations"] == model.n_iter_
    assert trial["converged"] and trial["residual"] <= 1e-6 and trial["fit_seconds"] > 0

    kappa = np.mean([one["diversity"]["kappa"] for one in result["trials"]])
    assert f"kappa {kappa:.2f}, " in lines["diversity"]


@pytest.mark.parametrize("flag", ["json", "save", "out", "plot"])
def test_files_are_replaced_only_when_complete(flag, tmp_path, monkeypatch, capsys):
    """... and safe on the disk, which is full here."""
    path = tmp_path / "old.svg"
    path.write_text("old")
    argv = ["psvm", "--data", "heart", "--trials", "1"]
    if flag == "plot":
        argv = ["diversity", "--data", "heart", "--methods", "adaboost"]
    if flag == "out":
        (tmp_path / "parts").mkdir()
        cli.main([*argv, "--save", str(tmp_path / "parts" / "m.npz")])
        argv = ["predict", "--model", str(tmp_path / "parts" / "m.npz"), "--data", "heart"]

    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert cli.main([*argv, f"--{flag}", str(path)]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert path.read_text() == "old" and [p for p in tmp_path.iterdir() if p.is_file()] == [path]


def test_save_and_predict(report, predicted, tmp_path):
    train, new, model = tmp_path / "train.csv", tmp_path / "new.csv", tmp_path / "model.npz"
    write_table(train)
    lines = report("exrm", "--data", train, "--label", "kind", "--trials", 1, "--save", model)
    assert lines["model"] == f"trained on all 40 rows, saved to {model}"
    loaded, data = load(model), datasets.load(train, label="kind")
    X = datasets.Preprocess("minmax").fit(data.X).transform(data.X)
    assert np.array_equal(loaded.coef_, ExRM().fit(X, data.y).coef_)

    lines, titles, *rows = predicted(model, train)
    found, expected = loaded.predict(X), loaded.decision_function(X)
    labels = [data.classes[code] for code in found]
    assert titles == ["prediction", "decision"] and [row[0] for row in rows] == labels
    assert [float(row[1]) for row in rows] == expected.tolist()
    wrong = int((found != data.y).sum())
    rest = "always predicting the majority class: 50.0 %"
    assert lines["error"] == f"{100 * wrong / 40:.1f} % ({wrong} of 40 rows; {rest})"
    assert lines["predictions"].endswith("decision >= 0 means class yes")

    write_table(new, fields=["weight", "size", "colour"])  # other order, no label
    lines, _, *rows = predicted(model, new)
    assert [row[0] for row in rows] == labels and "error" not in lines


def test_progress_bar(monkeypatch, capsys):
    tqdm = import_module("tqdm")
    bar, argv = tqdm.tqdm, ["exrm", "--data", "heart", "--trials", "2"]
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert cli.main(argv) == 0 and sys.stderr.getvalue() == ""  # over within a second
    eager = {"delay": 0, "mininterval": 0}
    monkeypatch.setattr(tqdm, "tqdm", lambda **options: bar(**options | eager))
    assert cli.main([*argv, "--quiet"]) == 0 and sys.stderr.getvalue() == ""
    assert cli.main(argv) == 0
    assert "1/2" in sys.stderr.getvalue() and ", residual " in sys.stderr.getvalue()
    for argv in (["voting", "--data", "heart"], ["adaboost", "--data", "wine"]):  # no residual
        assert cli.main([*argv, "--trials", "2"]) == 0
    assert cli.main(["diversity", "--data", "heart", "--methods", "exrm,psvm"]) == 0


def test_rate_of_the_progress_bar(monkeypatch):
    """Rate and time left are those of fits, however often a fit calls back."""
    clock, shown, tqdm = [1000.0], [], import_module("tqdm")

    class Bar(tqdm.tqdm):
        def __init__(self, **options):
            super().__init__(**options)
            self._time, self.start_t, self.last_print_t = lambda: clock[0], clock[0], clock[0]
            shown.append(self)

    def fits(callback):
        for compiling in (30.0, 0.0, 0.0, 0.0, 0.0):  # seconds before a fit of 25 s
            clock[0] += compiling
            for iteration in range(200):
                clock[0] += 0.125
                callback(None, iteration, {"residual": 0.5, "unknown": None})
            yield {"compile_seconds": compiling}

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(tqdm, "tqdm", Bar)
    with outputs.progress(10, quiet=False) as (callback, each):
        list(itertools.islice(each(fits(callback)), 4))
        assert "4/10 [01:40<02:30, 25.00s/fit, iteration 199, residual 5.0e-01]" in str(shown[0])


# -- classes by name -------------------------------------------------------------------------------
def test_warnings_name_the_classes_of_the_user(report):
    lines = report("lpboost", "--data", "sonar", "--C", 1e-4, "--trials", 1)
    assert "so the majority class M is predicted; choose C >= 0.0" in lines["warning"]
    lines = report("lpboost", "--data", "wine", "--C", 1e-4, "--trials", 1)  # one against the rest
    assert "so the majority class rest is predicted" in lines["warning"]


def test_class_weight_of_many_classes(documented, tmp_path):
    argv = ["psvm", "--data", "wine", "--trials", 1, "--save", tmp_path / "m.npz"]
    _, document = documented(*argv, "--class-weight", "3=50,1=2.5")
    X, y, *_ = last_split("wine", 1)
    weight = np.array([2.5, 1, 50])
    parts = [PSVM(random_state=0).fit(X, y == k, weight[y]) for k in range(3)]
    expected = sum(part.objective_ for part in parts)
    assert document["trials"][0]["objective"] == pytest.approx(expected, rel=1e-9)
    loaded = load(tmp_path / "m.npz")
    assert loaded.class_weight == {2: 50, 0: 2.5} and loaded.base.class_weight is None


NAMES = ["\u00fc", "\u4e2d", "\U0001f600", "a\nb", "\x1b[2J"]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_names_that_the_terminal_lacks(tmp_path, encoding):
    table, model, out = tmp_path / "t.csv", tmp_path / "m.npz", tmp_path / "out.csv"
    with open(table, "w", newline="", encoding="utf-8") as file:
        rows = [[i % 5 + i / 100, i % 7, NAMES[i % 5]] for i in range(60)]
        csv.writer(file).writerows([["a", "b", "label"], *rows])
    env = {"env": os.environ | {"PYTHONIOENCODING": encoding, "LC_ALL": "C"}, "encoding": encoding}
    done = run("psvm", "--data", table, "--trials", 1, "--save", model, **env)
    assert done.returncode == 0 and done.stderr == ""
    first, *lines = done.stdout.splitlines()
    umlaut = "\\xfc" if encoding == "ascii" else "\u00fc"
    assert f"{umlaut} (12)" in first and "a\\nb (12)" in first and "\\x1b[2J (12)" in first
    assert len(lines) > 7 and "\x1b" not in done.stdout
    done = run("predict", "--model", model, "--data", table, "--out", out, **env)
    assert done.returncode == 0 and done.stderr == "" and "largest decision wins" in done.stdout
    with open(out, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header[1:] == [f"decision {name}" for name in sorted(NAMES)]
    assert {row[0] for row in rows} <= set(NAMES) and len(rows) == 60


# -- more than two classes -------------------------------------------------------------------------
def test_many_classes_are_one_versus_rest(documented, predicted, tmp_path):
    model = tmp_path / "model.npz"
    lines, result = documented("exrm", "--data", "wine", "--trials", 2, "--save", model)
    assert lines[""].endswith("13 features, classes 1 (59), 2 (71) and 3 (48)")
    assert lines["note"] == "3 classes: one-versus-rest over ExRM"
    assert lines["members"] == "30 in 3 classifiers, each for one class against the rest"
    assert "diversity" not in lines and "identical" not in lines["members"]
    assert lines["iterations"].endswith(" of all classifiers together")

    X, y, *_ = last_split("wine", 2)
    parts = [ExRM(random_state=1).fit(X, y == k) for k in range(3)]
    trial = result["trials"][1]
    assert trial["residual"] == max(part.residual_ for part in parts)
    assert trial["iterations"] == sum(part.n_iter_ for part in parts)
    assert trial["members"] == 30 and trial["classifiers"] == 3 and trial["diversity"] is None
    worst = max(trial["residual"] for trial in result["trials"])
    assert lines["duality gap"].startswith(f"<= {worst:.1e} relative to the objective, in each cl")

    data = datasets.load("wine")
    np.savetxt(tmp_path / "new.csv", np.column_stack([data.X, data.y + 1]), "%.17g", ",")
    lines, titles, *rows = predicted(model, tmp_path / "new.csv")
    X = datasets.Preprocess("minmax").fit(data.X).transform(data.X)
    expected = OneVsRest(ExRM(random_state=0)).fit(X, data.y)
    assert titles == ["prediction", "decision 1", "decision 2", "decision 3"]
    assert [row[0] for row in rows] == [str(k + 1) for k in expected.predict(X)]
    assert [[float(cell) for cell in row[1:]] for row in rows] == expected.votes(X).tolist()
    assert lines[""].startswith("OneVsRest over ExRM, trained on wine, applied to new: 178 rows")
    assert lines["predictions"].endswith("the largest decision wins") and "error" in lines


# -- models of models ------------------------------------------------------------------------------
def test_voting_over_methods(documented):
    argv = ["voting", "--data", "heart", "--members", "exrm, adaboost-nc,bayes", "--trials", 2]
    lines, document = documented(*argv)
    assert lines["members"] == "3" and lines["certificate"] == "none: a vote optimises nothing"
    X, y, X_test, y_test = last_split("heart", 2)
    members = [ExRM(random_state=1), AdaBoostNC(random_state=1), "bayes"]
    votes = Voting(members).fit(X, y).votes(X_test)
    expected = naive_averages(votes, np.where(y_test == 1, 1, -1))
    expected["ambiguity"] = votes.var(axis=1).mean()
    assert document["trials"][1]["diversity"] == pytest.approx(expected, rel=1e-12)


def test_equal_labels_are_not_identical_members(documented, tmp_path):
    """Members that output labels may agree on every row and yet differ elsewhere."""
    table = tmp_path / "t.csv"
    table.write_text("a,label\n" + "".join(f"{100 * (i % 2) + i % 5},{i % 2}\n" for i in range(40)))
    argv = ["voting", "--data", table, "--members", "linear,bayes", "--trials", 1]
    lines, document = documented(*argv)
    assert lines["members"] == "2" and "disagreement 0.0 %" in lines["diversity"]
    assert document["trials"][0]["identical"] is False


def test_diversity_of_many_classes_is_of_right_answers(documented):
    argv = ["voting", "--data", "vehicle", "--members", "adaboost,linear,bayes", "--trials", 1]
    lines, document = documented(*argv)
    assert lines["note"] == "4 classes: one-versus-rest over AdaBoost"
    assert lines["diversity"].startswith("of right and wrong answers: member error ")
    X, y, X_test, y_test = last_split("vehicle", 1)
    model = Voting([OneVsRest(AdaBoost()), "linear", "bayes"]).fit(X, y)
    right = np.array([member.predict(X_test) == y_test for member in model.estimators_]).T
    (trial,) = document["trials"]
    assert trial["test_error"] == np.mean(model.predict(X_test) != y_test)
    expected = naive_averages(np.where(right, 1, -1), np.ones(len(y_test)))
    assert {key: trial["diversity"][key] for key in expected} == pytest.approx(expected, rel=1e-12)


def test_stacking_gets_its_probabilities(report, documented):
    argv = ["stacking", "--data", "heart", "--members", "psvm,bayes", "--trials", 1]
    lines, document = documented(*argv, "--inner-cv", 3)
    assert lines["note"] == "probabilities by Platt's calibration: PSVM"
    assert lines["duality gap"].endswith("(tol 1e-09); the fit converged")
    X, y, X_test, y_test = last_split("heart", 1)
    model = Stacking([Calibrated(PSVM(random_state=0)), "bayes"], cv=3).fit(X, y)
    assert document["trials"][0]["test_error"] == np.mean(model.predict(X_test) != y_test)
    lines = report(*argv, "--meta", "psvm")
    assert lines["members"] == "2" and lines["certificate"].startswith("none: the classifier on")


def test_rows_without_a_majority(report, predicted, tmp_path):
    model, reject = tmp_path / "m.npz", "-0.5"  # of another kind than the classes' numbers
    argv = ["voting", "--data", "heart", "--members", "linear,bayes", "--how", "majority"]
    report(*argv, "--reject", reject, "--trials", 1, "--save", model)
    lines, _, *rows = predicted(model, "heart")
    assert {row[0] for row in rows} == {"1", "2", reject}
    assert all((row[0] == reject) == (float(row[1]) == 0) for row in rows)
    refused = sum(row[0] == reject for row in rows)
    assert lines["rejected"].startswith(f"{refused} of 270 rows ({100 * refused / 270:.1f} %), whi")
    assert re.search(r"predicted +1 +2 +rejected true 1 ", lines["confusion"])


def test_models_that_give_no_numbers(report, tmp_path, monkeypatch, refused):
    model, out = tmp_path / "m.npz", tmp_path / "out.csv"
    report("psvm", "--data", "heart", "--trials", 1, "--save", model)
    monkeypatch.setattr(PSVM, "decision_function", lambda self, X: X[:, 0] * np.nan)
    error = refused("predict", "--model", model, "--data", "heart", "--out", out)
    assert "m.npz gives NaN as decisions on heart: it is damaged" in error and not out.exists()


# -- diversity -------------------------------------------------------------------------------------
def test_diversity(documented, tmp_path):
    plot = tmp_path / "kappa.PNG"
    argv = ["diversity", "--data", "heart", "--methods", "adaboost-nc,exrm,psvm", "--trials", 2]
    lines, document = documented(*argv, "--plot", plot)
    assert lines[""].startswith("diversity on heart: 270 rows, 13 features, classes 1 (150) and")
    assert "features scaled as each method does by default" in lines["protocol"]
    assert lines["note"] == "all members of exrm are identical"
    assert plot.read_bytes().startswith(b"\x89PNG") and lines["plot"].endswith(str(plot))
    assert sorted(tmp_path.iterdir()) == [plot, tmp_path / "out.json"]

    methods = document["methods"]
    assert list(methods) == ["adaboost-nc", "exrm", "psvm"]
    X, y, X_test, y_test = last_split("heart", 2, "none")
    model = AdaBoostNC(random_state=1).fit(X, y)
    votes, weights = model.votes(X_test), model.weights_ / model.weights_.sum()
    trial = methods["adaboost-nc"]["trials"][1]
    expected = naive_averages(votes, np.where(y_test == 1, 1, -1))
    expected["ambiguity"] = ((votes - (votes @ weights)[:, None]) ** 2 @ weights).mean()
    assert trial["test_error"] == np.mean(model.predict(X_test) != y_test)
    assert trial["diversity"] == pytest.approx(expected, rel=1e-12)
    assert methods["psvm"]["trials"][0]["diversity"] is None


def test_table_of_diversity(capsys, tmp_path):
    path = tmp_path / "out.json"
    argv = ["diversity", "--data", "heart", "--methods", "adaboost, voting,psvm,adaboost"]
    assert cli.main([*argv, "--json", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("  method"))
    _, _, *rows = [line.split() for line in lines[start : start + 5]]
    assert [row[0] for row in rows] == ["adaboost", "voting", "psvm"]
    result = json.loads(path.read_text())["methods"]["voting"]["summary"]
    means = {key: value["mean"] for key, value in result["diversity"].items()}
    percent, plain = "{:.1f}".format, "{:.2f}".format
    assert rows[1][1:] == [
        "3", percent(100 * result["test_error"]["mean"]), percent(100 * means["member_error"]),
        percent(100 * means["disagreement"]), plain(means["kappa"]), plain(means["q_statistic"]),
        plain(means["correlation"]), percent(100 * means["double_fault"]), plain(means["ambiguity"])
    ]  # fmt: skip
    assert rows[2][1] == "1" and rows[2][3:] == ["-"] * 7


# -- files -----------------------------------------------------------------------------------------
@pytest.fixture
def files(tmp_path, monkeypatch):
    """A table, a model, links to both, and a place from where they have relative names."""
    monkeypatch.chdir(tmp_path)
    table = write_table(tmp_path / "t.csv")
    save(ExRM().fit([[0.0], [1.0]], [0, 1]), tmp_path / "m.npz")
    (tmp_path / "sub").mkdir()
    for name in ("t.csv", "m.npz"):
        os.symlink(name, f"soft-{name}")
        os.link(name, f"hard-{name}")
    os.symlink(tmp_path, "sub/up")
    os.symlink("absent", "dangling")
    return table


CLASHES = {
    "exrm --data t.csv:yes-vs-no --save t.csv": "--save would overwrite --data",
    "exrm --data T --json t.csv": "--json would overwrite --data",  # found in ENSOLVE_DATA
    "exrm --data BUPA --save liver.csv.gz": "--save would overwrite --data",  # a built-in set
    "exrm --data t.csv --save soft-t.csv": "--save would overwrite --data",
    "exrm --data soft-t.csv --save t.csv": "--save would overwrite --data",
    "exrm --data t.csv --save hard-t.csv": "--save would overwrite --data",
    "exrm --data t.csv --save dangling --json absent": "--json would overwrite --save",
    "diversity --data t.csv --json a.png --plot a.png": "--plot would overwrite --json",
    "predict --data t.csv --model m.npz --out soft-t.csv": "--out would overwrite --data",
    "predict --data t.csv --model m.npz --out hard-m.npz": "--out would overwrite --model",
    "exrm --data t.csv --save locked": "locked is read-only; choose another name",
    "diversity --data t.csv --plot locked.svg": "locked.svg is read-only",
}


@pytest.mark.parametrize("command", CLASHES)
def test_outputs_never_overwrite_inputs_or_outputs(command, files, refused, monkeypatch):
    monkeypatch.setenv("ENSOLVE_DATA", str(files.parent))
    datasets.load("BUPA")  # reads the index, which stays where it is
    Path("liver.csv.gz").write_bytes((datasets.DATA / "liver.csv.gz").read_bytes())
    monkeypatch.setattr(datasets, "DATA", files.parent)
    for name in ("locked", "locked.svg"):
        Path(name).write_text("precious")
        os.chmod(name, 0o444)
    before = {path: path.read_bytes() for path in files.parent.iterdir() if path.is_file()}
    monkeypatch.setattr(experiment, "read", None)  # refused before any work
    monkeypatch.setattr(experiment, "apply", None)
    assert CLASHES[command] in refused(*command.split())
    assert before == {path: path.read_bytes() for path in files.parent.iterdir() if path.is_file()}


def test_outputs_through_links_keep_the_links(files, report):
    old = ["--json", "dangling", "--save", "soft-m.npz"]
    report("psvm", "--data", "t.csv", "--trials", 1, *old)
    assert os.path.islink("dangling") and os.path.islink("soft-m.npz")
    assert json.loads(Path("absent").read_text())["method"] == "PSVM"
    assert load("m.npz").n_features_in_ == 4


@pytest.mark.parametrize("argv", ["psvm", "adaboost --scale standard", "bagging --n-estimators 3"])
def test_damaged_notes(argv, tmp_path, capsys):
    """`predict` applies a model with any notes or explains in a line; it has no traceback."""
    table, path, out = write_table(tmp_path / "t.csv"), tmp_path / "m.npz", tmp_path / "out.csv"
    command, *flags = argv.split()
    argv = [command, "--data", str(table), *flags, "--trials", "1", "--save", str(path)]
    assert cli.main(argv) == 0
    model, rng, results = load(path), random.Random(argv[0]), []
    for _ in range(120):
        save(model, path, damage(model.notes_, rng))
        capsys.readouterr()
        code = cli.main(["predict", *f"--model {path} --data {table} --out {out}".split()])
        results.append((code, capsys.readouterr().err))
    assert {code for code, _ in results} == {0, 2}
    for code, err in results:
        texts = ("its notes are damaged", "was not written by --save", "is damaged", "t.csv")
        assert err == "" if code == 0 else any(text in err for text in texts), err


def drop_a_column(notes):
    for key in ("fill_", "center_", "spread_"):
        notes["preprocess"][key].pop()


@pytest.mark.parametrize(
    "change",
    [
        lambda notes: notes.update(classes=["yes", "no"]),
        lambda notes: notes.update(classes=["no", "yes", "perhaps"]),
        lambda notes: notes.update(data=5),
        lambda notes: notes.update(schema=[]),
        lambda notes: notes.update(preprocess={}),
        lambda notes: notes["schema"][1]["levels"].pop(),
        drop_a_column,
    ],
)
def test_notes_have_to_fit_the_model(change, tmp_path, report, refused):
    table, path, out = write_table(tmp_path / "t.csv"), tmp_path / "m.npz", tmp_path / "out.csv"
    report("psvm", "--data", table, "--trials", 1, "--save", path)
    model = load(path)
    change(model.notes_)
    save(model, path, model.notes_)
    error = refused("predict", "--model", path, "--data", table, "--out", out)
    assert "m.npz is not a model file of ensolve: its notes are damaged" in error
    assert not out.exists()


# -- errors ----------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    """Write one file of every bad sort."""
    folder = tmp_path_factory.mktemp("bad")
    table = write_table(folder / "good.csv").read_text()
    (folder / "truncated.csv.gz").write_bytes(gzip.compress(table.encode())[:-20])
    model = folder / "python.npz"
    save(ExRM().fit([[0.0], [1.0]], [0, 1]), model)
    (folder / "truncated.npz").write_bytes(model.read_bytes()[:-50])
    inner = {"class": "Oracle", "params": {}, "fitted": {}}
    outer = {"class": "Voting", "params": {}, "fitted": {"estimators_": ["linear", inner]}}
    header = json.dumps({"format": FORMAT, "model": outer})
    np.savez(folder / "inside.npz", header=np.array(header))
    return folder


ERRORS = {
    "exrm --data {}/good.csv --label kinds": "no column 'kinds'; did you mean kind?",
    "exrm --data {}/truncated.csv.gz": "truncated or corrupt gzip file",
    "exrm --data {}": "holds .npz files and text",
    "drm --data {}": "is a directory, and DRM does not support row blocks; use one of exrm, psvm,",
    "diversity --data {}": "a directory or a pipe; give a file",
    "psvm --data {} --cv 3": "its files are split once, and features are not scaled; leave",
    "psvm --data heart --scheduler local:2": "--scheduler needs a directory as --data, got heart",
    "drm --data heart --scheduler local:2": "unknown argument '--scheduler'",
    "exrm --data sonra": "did you mean sonar",
    "voting --data sonar --members exrm,foo": "got 'foo'; objects are named exrm, psvm, drm,",
    "psvm --data sonar --class-weight M=2,X=1": "'X=1' is not balanced nor name=factor of the cl",
    "diversity --data sonar --methods exrm,foo": "unknown method 'foo'. The methods are exrm, psvm",
    "diversity --data sonar --plot {}/a.jpg": "a.jpg must end in .png, .pdf or .svg",
    "exrm --data sonar --lam -1": "ExRM: lam must be a finite number > 0, got -1",
    "exrm --data sonar --cv 2 --train 0.3": "not allowed with argument",
    "exrm --data sonar --lamda 1": "unknown argument '--lamda'. Did you mean '--lam' or '--gamma'?",
    "exrm --data sonar --n_estimators=5": "'--n_estimators'. Did you mean '--n-estimators'?",
    "exrm --data sonar more": "unknown argument 'more'. Run `python cli.py exrm --help` for the",
    "exrm": "the following arguments are required: --data",
    "exmr --data sonar": "unknown command 'exmr'. Did you mean 'exrm'? Run `python cli.py --help`",
    "compare --data sonar --methods psvm --plot {}/a.svg": "--plot needs --methods diversity",
    "": "the following arguments are required: COMMAND",
    "exrm --data absent.csv --json {}/absent/a.json": "absent; create it first",
    "exrm --data absent.csv --json {}": "choose another place",
    "predict --model absent.npz --data sonar --out {}/a.csv": "absent.npz: No such file",
    "predict --model {}/python.npz --data sonar --out {}/a.csv": "was not written by --save",
    "predict --model {}/inside.npz --data sonar --out {}/a.csv": "it holds a Oracle; use load",
    "predict --model {}/truncated.npz --data sonar --out {}/a.csv": "cannot be loaded as a model",
}


@pytest.mark.parametrize("command", ERRORS)
def test_errors(command, bad, refused):
    assert ERRORS[command] in refused(*command.replace("{}", str(bad)).split())
    assert not (bad / "a.csv").exists()


def test_the_way_out_of_many_classes_works(report, refused):
    data, positive = re.findall('"(.+?)"', refused("diversity", "--data", "vehicle"))
    argv = ["--methods", "adaboost,psvm"]
    lines = report("diversity", "--data", data, *argv)
    assert "classes rest (628) and bus (218)" in lines[""]
    assert report("diversity", "--data", "vehicle", "--positive", positive, *argv)["note"]


@pytest.mark.parametrize(
    "error, code, text",
    [
        (KeyboardInterrupt(), 130, "cli.py: interrupted\n"),
        (MemoryError(), 2, "cli.py: error: out of memory.\n"),
        (ModuleNotFoundError("No module named 'osqp'", name="osqp"), 2, "pip install osqp\n"),
        (ImportError("M needs OSQP: pip install osqp"), 2, "M needs OSQP: pip install osqp\n"),
        (PermissionError(13, "Permission denied", "a.csv"), 2, "a.csv: Permission denied\n"),
        (ValueError("two\nlines"), 2, "cli.py: error: two lines\n"),
    ],
)
def test_troubles_become_one_line(error, code, text, monkeypatch, capsys):
    def trouble(args):
        raise error

    monkeypatch.setattr(outputs, "check", trouble)
    assert cli.main(["methods"]) == code
    assert capsys.readouterr().err.endswith(text)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_full_disk_behind_stdout(tmp_path, unbuffered):
    path, env = tmp_path / "out.json", os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        done = run("psvm", "--data", "heart", "--trials", 1, "--json", path, stdout=full, env=env)
    assert done.returncode == 2 and json.loads(path.read_text())["method"] == "PSVM"
    assert done.stderr == "cli.py: error: [Errno 28] No space left on device\n"


@pytest.mark.parametrize("closed", ["1", "2"])
def test_closed_streams(closed, tmp_path):
    path = tmp_path / "out.json"
    command = f"{sys.executable} cli.py psvm --data heart --trials 1 --json {path} {closed}>&-"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    assert json.loads(path.read_text())["method"] == "PSVM"
    assert ("test error" in done.stdout) == (closed == "2")


def test_closed_pipe_is_quiet():
    command = [sys.executable, "-u", "cli.py", "datasets"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as process:
        process.stdout.close()
        assert process.stderr.read() == b""

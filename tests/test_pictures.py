"""Tests for perf/study/pictures.py and --plot."""

import itertools
import json
import sys
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import cli
import datasets
from perf import draw
from perf.study import experiment, methods, pictures
from perf.study.experiment import Spec
from solvers import METHODS
from solvers.bagging import Bagging
from solvers.exrm import ExRM

pytest.importorskip("matplotlib")


def paint(kind, command, params=None, data="heart", trials=2, **more):
    """Run a method for a picture; return the picture and the records of the run."""
    spec = Spec(data, command, params or {}, trials=trials, **more)
    rows = experiment.read(spec)
    besides = pictures.plan(kind, spec, rows)
    records = list(experiment.trials(spec, data=rows, on_fitted=pictures.on_fitted(kind, rows)))
    return pictures.collect(kind, records, list(pictures.run(besides, rows))), records


def fitted(command, params, data, trial, scale, trials=2):
    """The model of a trial and its rows, scaled, for training and for testing, made here."""
    known = datasets.load(data)
    train, test = list(datasets.splits(known.y, trials=trials))[trial]
    X = datasets.Preprocess(scale).fit(known.X[train]).transform(known.X)
    model = methods.class_of(METHODS[command][1])(**params)
    if "random_state" in model.get_params():
        model.random_state = trial
    return model.fit(X[train], known.y[train]), (X[train], known.y[train]), (X[test], known.y[test])


def test_every_method_has_pictures_of_its_parameters():
    kinds = {*pictures.LOOKS, "time", "kappa-error", "changes"}
    assert kinds == set(draw.PICTURES) == set(methods.SHOWN)
    for command, own in ((name, methods.PICTURES[name]) for name in METHODS):
        assert len(set(own)) == len(own) and own[-1] == "time"
        for parameter in set(own) - kinds:
            values = pictures.grid(command, parameter)
            assert values == sorted(values) and len(values) >= 5
            for value in values:
                methods.build(command, {parameter: value}, 0, 2)._check_params()


def first_votes(command, model, X):
    """Decisions of the first 1, 2, ... members, summed one after another."""
    votes, weights = model.votes(X), model.weights_
    first = int(command == "gradient-boosting")  # a constant comes before the trees
    total, decisions = sum(weights[t] * votes[:, t] for t in range(first)), []
    for t in range(first, weights.size):
        total = total + weights[t] * votes[:, t]
        decisions.append(total)
    return decisions


@pytest.mark.parametrize(
    "command, params",
    [
        ("adaboost", {"n_estimators": 9}),
        ("adaboost-nc", {"n_estimators": 7}),
        ("gradient-boosting", {"n_estimators": 6}),
        ("bagging", {"n_estimators": 7}),
        ("exrm", {"n_estimators": 5, "sampling": "bootstrap"}),
        ("drm", {"n_estimators": 3, "sampling": "bootstrap"}),
    ],
)
def test_error_after_each_member(command, params):
    picture, records = paint("members", command, params)
    assert picture["method"] == METHODS[command][1] and picture["trials"] == 2
    for trial, run in enumerate(picture["runs"]):
        model, train, test = fitted(command, params, "heart", trial, METHODS[command][2])
        for part, (X, y) in (("train", train), ("test", test)):
            decisions = first_votes(command, model, X)
            assert run[part] == [np.mean((f >= 0) != (y == 1)) for f in decisions]
            assert run[part][-1] == records[trial][f"{part}_error"]


def test_ties_of_equal_members_are_positive():
    """Two members of Bagging that disagree give 0, which is positive."""
    X = np.array([[0.0], [1.0], [2.0], [3.0]] * 5)
    y = (X[:, 0] >= 2).astype(int)
    model = Bagging(n_estimators=10, random_state=0, max_samples=2).fit(X, y)
    votes = np.sign(model.votes(X))
    errors = pictures.staged_errors(model, X, y)
    for t in range(10):
        assert errors[t] == np.mean((votes[:, : t + 1].sum(1) >= 0) != (y == 1))
    assert (votes[:, :2].sum(1) == 0).any()


@pytest.mark.parametrize("command", ["psvm", "cqboost", "voting", "lpboost", "adaboost"])
def test_distribution_of_margins(command):
    scale = METHODS[command][2]
    picture, records = paint("margins", command, trials=2)
    for trial, run in enumerate(picture["runs"]):
        model, train, test = fitted(command, {}, "heart", trial, scale)
        unit = np.abs(model.decision_function(train[0])).max() if run["scaled"] else None
        for part, (X, y) in (("train", train), ("test", test)):
            signs = np.where(y == 1, 1.0, -1.0)
            found = signs * model.decision_function(X) / (unit or model.weights_.sum())
            assert run["scaled"] or np.abs(found).max() <= 1 + 1e-12
            for k in range(0, len(run["at"]) - 1, 7):
                assert run[part][k] == np.mean(found <= run["at"][k])
            assert run[part][-1] == 1.0
            below, upto = np.mean(found < 0), run[part][run["at"].index(0.0)]
            assert below <= records[trial][f"{part}_error"] <= upto
            if command == "psvm":  # no margin is 0
                assert upto == records[trial][f"{part}_error"]
    assert picture["runs"][0]["scaled"] == (command == "psvm")


@pytest.mark.parametrize(
    "command, solvers",
    [("exrm", ["paper", "alm", "auto"]), ("drm", ["alternating", "auto"]), ("cqboost", None)],
)
def test_convergence_ends_at_the_gap_of_the_model(command, solvers):
    params = {"n_estimators": 3} if solvers else {}
    picture, (record,) = paint("convergence", command, params, trials=1)
    assert record["warnings"] == []  # of the run itself, not of the other solvers
    assert record["model"]["params"].get("solver") != "paper"
    (run,) = picture["runs"]
    assert list(run["curves"]) == (solvers or ["CqBoost"]) and run["tol"] == 1e-6
    for solver, curve in run["curves"].items():
        own = params | ({"solver": solver} if solvers else {})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the printed algorithm, which ends short
            model, *_ = fitted(command, own, "heart", 0, METHODS[command][2], 1)
        iterations, seconds, gaps = zip(*curve, strict=True)
        assert gaps[-1] == pytest.approx(model.residual_, rel=1e-6, abs=1e-12)
        assert iterations[-1] == model.n_iter_ and np.all(np.diff(iterations) > 0)
        assert seconds[0] > 0 and np.all(np.diff(seconds) > 0)
        assert (gaps[-1] <= run["tol"]) == (solver != "paper")
        assert gaps[0] > gaps[-1]


def test_convergence_leaves_out_gaps_of_samples():
    """With many rows, ExRM begins with a sample of them, whose gap is of another problem."""
    picture, _ = paint("convergence", "psvm", {"p": 1}, "linear:40000x5", trials=1)
    seen = []
    watch = {"callback": lambda model, k, info: seen.append((k, "rows" in info))}
    fitted("psvm", {"p": 1} | watch, "linear:40000x5", 0, "minmax", 1)
    assert any(sample for _, sample in seen)
    drawn = [point[0] for point in picture["runs"][0]["curves"]["auto"]]
    assert drawn == [k for k, sample in seen if not sample]


def test_boundary_in_units_of_the_data():
    params = {"n_estimators": 4, "sampling": "bootstrap"}
    picture, _ = paint("boundary", "exrm", params, "gaussians:60")
    data = datasets.load("gaussians:60")
    train, _ = next(datasets.splits(data.y))
    prep = datasets.Preprocess("minmax").fit(data.X[train])
    model = ExRM(**params, random_state=0).fit(prep.transform(data.X[train]), data.y[train])
    assert_array_equal(picture["points"], data.X[train])
    assert_array_equal(picture["labels"], data.y[train])
    x, y = map(np.array, picture["axes"])
    assert x[0] < data.X[:, 0].min() and y[-1] > data.X[:, 1].max()
    for i, j in itertools.product((0, 17, 199), (3, 100, 198)):
        spot = prep.transform(np.array([[x[j], y[i]]]))
        assert picture["decision"][i][j] == pytest.approx(model.decision_function(spot)[0])
        votes = [vote[i][j] for vote in picture["members"]]
        assert_allclose(votes, model.votes(spot)[0])
    same, _ = paint("boundary", "exrm", {"n_estimators": 4}, "gaussians:60", trials=1)
    assert same["members"] == []  # all are equal


def test_boundary_leaves_out_points_with_gaps(tmp_path):
    path = tmp_path / "gaps.csv"
    rows = [f"{k % 7},{'' if k % 5 == 0 else k % 3},{k % 2}" for k in range(60)]
    path.write_text("a,b,y\n" + "\n".join(rows))
    picture, _ = paint("boundary", "bagging", {}, str(path), trials=1)
    assert 0 < len(picture["points"]) < picture["rows"] == 30
    assert draw.picture(picture)


def test_effect_of_a_parameter(monkeypatch):
    monkeypatch.setitem(pictures.FINER, ("exrm", "lam"), [0.1, 0.5, 4.0])
    params = {"n_estimators": 3, "sampling": "bootstrap"}
    picture, records = paint("lam", "exrm", params)
    assert picture["values"] == [0.1, 0.5, 2.0, 4.0] and picture["own"] == 2.0  # the default
    assert picture["test"][2] == [record["test_error"] for record in records]
    for trial in range(2):
        model, (X, y), test = fitted("exrm", params | {"lam": 0.5}, "heart", trial, "minmax")
        assert picture["train"][1][trial] == np.mean(model.predict(X) != y)
        assert picture["test"][1][trial] == np.mean(model.predict(test[0]) != test[1])
        signs = model.votes(test[0]) >= 0
        differ = [np.mean(a != b) for a, b in itertools.combinations(signs.T, 2)]
        assert picture["disagreement"][1][trial] == pytest.approx(np.mean(differ))


def test_effect_with_gaps(monkeypatch):
    """One member does not disagree, and values that the method refuses are left out."""
    picture, _ = paint("lam", "psvm", data="wine", trials=1)
    assert picture["disagreement"] is None and picture["method"] == "PSVM"
    assert len(picture["values"]) == 7 and draw.picture(picture)
    monkeypatch.setitem(pictures.FINER, ("cqboost", "mu"), [0.05, 0.1, 0.98, 0.99])
    picture, _ = paint("mu", "cqboost")
    assert picture["values"] == [0.05, 0.1]


@pytest.mark.parametrize("own, told", [(1.0, 1.0), (3, None), ("sqrt", None)])
def test_shares_and_counts_of_features_are_not_mixed(own, told, monkeypatch):
    monkeypatch.setitem(pictures.FINER, ("bagging", "max_features"), [0.5, 1.0])
    picture, _ = paint("max_features", "bagging", {"n_estimators": 3, "max_features": own})
    assert picture["values"] == [0.5, 1.0] and picture["own"] == told
    assert draw.picture(picture)


def test_time_by_rows():
    picture, _ = paint("time", "psvm", data="gaussians:300", trials=3, cv=2)
    rows, seconds = picture["rows"], picture["seconds"]
    assert rows[0] == 25 and rows[-1] == 270 and len(rows) == 8 and rows == sorted(rows)
    assert all(len(some) == 6 and min(some) > 0 for some in seconds)


@pytest.mark.parametrize("command", [*METHODS, *methods.PICTURES["drm"][1:]])
def test_first_pictures_of_every_method_and_all_of_one(command, tmp_path, capsys):
    path, document = tmp_path / "a.svg", tmp_path / "a.json"
    kind = methods.PICTURES[command][0] if command in METHODS else command
    argv = [command] if command in METHODS else ["drm", "--n-estimators", "3", "--picture", kind]
    argv += ["--data", "gaussians:80", "--trials", "2", "--plot", str(path)]
    assert cli.main([*argv, "--json", str(document)]) == 0
    out, err = capsys.readouterr()
    assert err == "" and f"{methods.figure_caption(kind)}, written to" in " ".join(out.split())
    assert str(path) in out and path.read_text().startswith("<svg")
    picture = json.loads(document.read_text())["picture"]
    assert picture["kind"] == kind and path.read_text() == draw.picture(picture)
    assert sorted(tmp_path.iterdir()) == [document, path]


WRONG = {
    "exrm --data heart --plot {}/a.png --picture mu": "invalid choice: 'mu' (choose from "
    "'convergence', 'members', 'margins', 'boundary', 'lam', 'time')",
    "exrm --data heart --picture lam": "--picture lam needs --plot FILE",
    "exrm --data heart --plot {}/a.png --picture boundary": "needs two features and heart has 13",
    "exrm --data wine --plot {}/a.png": "'convergence' needs two classes and wine has 3; choose, "
    'say, --data "wine:1-vs-rest"',
    "exrm --data gaussians:40 --plot {}/a.png --picture time": "needs at least 56 rows and "
    "gaussians:40 has 40",
}


@pytest.mark.parametrize("command", WRONG)
def test_what_cannot_be_drawn_is_refused_before_any_work(command, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(experiment, "trials", None)
    assert cli.main(command.format(tmp_path).split()) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("cli.py: error: ") and err.count("\n") == 1
    assert WRONG[command].replace("'", "") in err.replace("'", "")  # argparse quotes or does not
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_no_method_is_trained(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr(experiment, "trials", None)
    assert cli.main(["psvm", "--data", "heart", "--plot", str(tmp_path / "a.pdf")]) == 2
    err = capsys.readouterr().err
    assert err.startswith("cli.py: error: .png and .pdf need matplotlib: pip install matplotlib")
    assert err.endswith("; .svg needs nothing\n") and err.count("\n") == 1

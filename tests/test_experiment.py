"""Tests for perf/study/experiment.py."""

import dataclasses
import json
import warnings

import numpy as np
import pytest

import datasets
from perf.study import experiment, methods
from perf.study.experiment import Spec, roc_area, trials
from solvers import METHODS
from solvers.combine import Voting
from solvers.exrm import PSVM, ExRM

metrics = pytest.importorskip("sklearn.metrics")

FEW = {  # parameters with which the methods are quick
    "drm": {"n_estimators": 3},
    "adaboost-nc": {"n_estimators": 5},
    "adaboost": {"n_estimators": 5},
    "bagging": {"n_estimators": 5},
    "gradient-boosting": {"n_estimators": 5},
}


def without_times(record):
    return {key: value for key, value in record.items() if not key.endswith("_seconds")}


def split(spec, number):
    """Labels and scaled rows of a trial, for training and for testing, computed here."""
    data = datasets.load(spec.data)
    parts = datasets.splits(data.y, trials=spec.trials, train=0.5, cv=spec.cv, seed=spec.seed)
    train, test = list(parts)[number]
    X = datasets.Preprocess(spec.scale).fit(data.X[train]).transform(data.X)
    return X[train], data.y[train], X[test], data.y[test]


# -- specifications --------------------------------------------------------------------------------
def test_what_is_left_out_is_settled():
    spec = Spec("sonar", "bagging")
    assert spec == Spec("sonar", "bagging", {}, "none", 10, 0.5, None, 0)
    assert Spec("sonar", "bagging", {"base": "psvm"}).scale == "minmax"
    assert Spec("sonar", "bagging", {"base": "stump"}).scale == "none"
    assert Spec("sonar", "bagging", {"base": "psvm"}, "none").scale == "none"
    folds = Spec("sonar", "exrm", cv=5)
    assert folds.trials == 1 and folds.train is None
    assert len(spec) == 10 and len(Spec("sonar", "exrm", cv=5, trials=3)) == 15
    assert folds == Spec("sonar", "exrm", cv=5, train=0.7)
    assert Spec(**json.loads(json.dumps(dataclasses.asdict(folds)))) == folds


# -- records ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("data", ["heart", "wine"])
@pytest.mark.parametrize("command", METHODS)
def test_records(command, data, capsys):
    """Records survive JSON, are repeated alone, and hold the scores of scikit-learn."""
    spec, table = Spec(data, command, FEW.get(command, {}), trials=3, seed=4), datasets.load(data)
    records = list(trials(spec))
    assert capsys.readouterr() == ("", "")
    assert [record["trial"] for record in records] == [0, 1, 2]
    for record in records:
        assert json.loads(json.dumps(record, allow_nan=False)) == record
        assert Spec(**record["spec"]) == spec
        assert sum(map(sum, record["confusion"])) == record["test_rows"]
        assert record["test_rows"] + record["train_rows"] == len(table.y)
    assert records[1]["compile_seconds"] == 0.0
    again = [*trials(Spec(**records[0]["spec"]), [2]), *trials(spec, {0, 1}, experiment.read(spec))]
    expected = [records[2], *records[:2]]
    assert [*map(without_times, again)] == [*map(without_times, expected)]

    X, y, X_test, y_test = split(spec, 2)
    model = methods.build(command, spec.params, 6, len(table.classes)).fit(X, y)
    seen, found = model.predict(X), model.predict(X_test)
    assert record["train_error"] == np.mean(seen != y)
    assert record["test_error"] == np.mean(found != y_test)
    assert record["confusion"] == metrics.confusion_matrix(y_test, found).tolist()
    balanced = 1 - metrics.balanced_accuracy_score(y_test, found)
    assert record["balanced_error"] == pytest.approx(balanced, abs=1e-12)
    assert record["majority_error"] == np.mean(y_test != np.bincount(y).argmax())
    if data == "heart":
        area = metrics.roc_auc_score(y_test, model.decision_function(X_test))
        assert record["auc"] == pytest.approx(area, abs=1e-12)
    else:
        assert record["auc"] is None
    assert record["predicted"] == [table.classes[k] for k in np.unique([*seen, *found])]
    assert record["rejected"] == [0] * len(table.classes)


def test_a_fold_can_be_computed_alone():
    spec = Spec("heart", "psvm", cv=3, trials=2)
    run = [without_times(record) for record in trials(spec)]
    assert [record["trial"] for record in run] == [0, 1, 2, 3, 4, 5]
    for number in (1, 5):
        assert [without_times(record) for record in trials(spec, [number])] == [run[number]]
        X, y, X_test, y_test = split(spec, number)
        model = PSVM(random_state=number).fit(X, y)
        assert run[number]["test_error"] == np.mean(model.predict(X_test) != y_test)
    with pytest.raises(ValueError, match="trials have the numbers 0 to 5, got 6"):
        list(trials(spec, [1, 6]))


def test_each_row_is_transformed_once(monkeypatch):
    """... and asked for its decision once: 135 rows to train and 135 to test, in every trial."""
    rows = {"transform": [], "decision_function": [], "votes": []}

    def counting(cls, name):
        whole = getattr(cls, name)

        def counted(self, X):
            rows[name].append(len(X))
            return whole(self, X)

        monkeypatch.setattr(cls, name, counted)

    counting(datasets.Preprocess, "transform")
    counting(ExRM, "decision_function")
    counting(ExRM, "votes")
    assert len(list(trials(Spec("heart", "exrm", trials=2)))) == 2
    assert rows["transform"] == [experiment.WARM_UP_ROWS, 135, 135, 135, 135]
    assert rows["decision_function"] == [135, 135, 135, 135]
    assert rows["votes"] == [135, 135, 135, 135]  # the training rows tell the best member


def test_callers_keep_their_warnings():
    spec = Spec("heart", "exrm", {"max_iter": 2}, trials=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        filters = list(warnings.filters)
        for record in trials(spec):
            assert warnings.filters == filters  # also while the generator waits
            (text,) = record["warnings"]
            assert text.startswith("ConvergenceWarning: ExRM stopped after 2 iterations")
            warnings.warn("of the caller", stacklevel=1)
    assert [str(warning.message) for warning in caught] == ["of the caller"] * 2


@pytest.mark.parametrize(
    ("text", "weight", "named"),
    [
        ("M=3,R=0.5", {1: 3, 0: 0.5}, {"M": 3, "R": 0.5}),
        ("M=3", {1: 3}, {"M": 3}),
        ("balanced", "balanced", "balanced"),
        (None, None, None),
    ],
)
def test_class_weights_go_by_name(text, weight, named):
    spec = Spec("sonar:R-vs-M", "psvm", {"class_weight": text}, trials=1)
    (record,) = trials(spec)
    X, y, X_test, y_test = split(spec, 0)
    model = PSVM(class_weight=weight, random_state=0).fit(X, y)
    assert record["objective"] == model.objective_
    assert record["test_error"] == np.mean(model.predict(X_test) != y_test)
    assert record["model"]["params"]["class_weight"] == named
    assert record["spec"]["params"] == {"class_weight": text}


# -- scores ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("levels", [2, 3, 10, 1000])
def test_area_under_roc_with_ties(levels):
    rng = np.random.default_rng(levels)
    for _ in range(20):
        y, scores = rng.random(50) < 0.3, rng.integers(0, levels, 50) / 7
        y[:2] = True, False
        assert roc_area(scores, y) == pytest.approx(metrics.roc_auc_score(y, scores), abs=1e-12)
    assert roc_area(np.zeros(3), np.ones(3, bool)) is None
    assert roc_area(np.zeros(3), np.zeros(3, bool)) is None


@pytest.mark.parametrize("reject", [-1, -0.5])
@pytest.mark.parametrize("data", ["heart", "vehicle"])
def test_rejected_rows_are_no_errors(data, reject):
    params = {"members": "linear,bayes", "how": "majority", "reject": reject}
    spec = Spec(data, "voting", params, trials=1)
    (record,) = trials(spec)
    X, y, X_test, y_test = split(spec, 0)
    model = Voting(["linear", "bayes"], how="majority", reject=reject).fit(X, y)
    found = model.predict(X_test)
    refused = found == reject
    assert refused.any() and sum(record["rejected"]) == refused.sum()
    assert record["rejected"] == np.bincount(y_test[refused]).tolist()
    wrong = ~refused & (found != y_test)
    assert record["test_error"] == wrong.mean()
    each = [wrong[y_test == k].mean() for k in np.unique(y_test)]
    assert record["balanced_error"] == pytest.approx(np.mean(each), abs=1e-12)
    classes = np.arange(len(each))
    matrix = [[np.sum((y_test == i) & (found == j)) for j in classes] for i in classes]
    assert record["confusion"] == matrix
    seen = model.predict(X)
    assert record["train_error"] == np.mean((seen != reject) & (seen != y))


def test_classes_that_are_absent_from_the_test_rows(tmp_path):
    """The single row of a class is for training; the balanced error is that of the others."""
    table = tmp_path / "t.csv"
    table.write_text(
        "a,class\n" + "".join(f"{i % 2}.5,{'uv'[i % 2]}\n" for i in range(20)) + "9,w\n"
    )
    (record,) = trials(Spec(str(table), "voting", {"members": "centroid"}, trials=1))
    assert record["confusion"][2] == [0, 0, 0] and sum(map(sum, record["confusion"])) == 11
    assert record["balanced_error"] == record["test_error"] == 0.0


# -- models in files -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("data", "command", "params"),
    [("heart", "gradient-boosting", {"n_estimators": 4}),
     ("wine", "bagging", {"n_estimators": 4, "voting": "soft"}),
     ("wine", "stacking", {"members": "psvm,bayes"})],
)  # fmt: skip
def test_save_and_apply(data, command, params, tmp_path):
    path, table, spec = tmp_path / "m.npz", datasets.load(data), Spec(data, command, params)
    rows, classes = len(table.y), table.classes
    assert experiment.save(spec, path) == {"rows": rows, "path": str(path), "warnings": []}
    record, (titles, *rows) = experiment.apply(path, data)
    X = datasets.Preprocess(spec.scale).fit(table.X).transform(table.X)
    model = methods.build(command, params, 0, len(classes)).fit(X, table.y)
    decided = ["decision"] if data == "heart" else [f"decision {name}" for name in classes]
    assert titles == ["prediction", *decided, *(f"probability {name}" for name in classes)]
    labels, *columns = zip(*rows, strict=True)
    found, decision = model.predict(X), model.decision_function(X)
    assert list(labels) == [classes[k] for k in found]
    expected = np.column_stack([decision, model.predict_proba(X)])
    assert np.array_equal(np.array(columns).T, expected)
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["unlabelled"] == record["rejected_rows"] == 0
    assert record["test_error"] == np.mean(found != table.y)
    assert record["confusion"] == metrics.confusion_matrix(table.y, found).tolist()
    if data == "heart":
        area = metrics.roc_auc_score(table.y, decision)
        assert record["auc"] == pytest.approx(area, abs=1e-12)


def test_errors_are_those_of_the_labelled_rows(tmp_path):
    path, new = tmp_path / "m.npz", tmp_path / "new.csv"
    experiment.save(Spec("heart", "psvm"), path)
    data = datasets.load("heart")
    names = [column["name"] for column in data.schema]
    labels = ["?" if i % 3 == 0 else data.classes[k] for i, k in enumerate(data.y)]
    at = next(j for j, column in enumerate(data.schema) if column["kind"] == "label")
    rows = [names, *([*map(repr, row)] for row in data.X.tolist())]
    for row, label in zip(rows[1:], labels, strict=True):
        row.insert(at, label)
    new.write_text("\n".join(map(",".join, rows)))
    record, table = experiment.apply(path, new)
    assert len(table) == 271 and record["unlabelled"] == 90
    wrong = [row[0] != label for row, label in zip(table[1:], labels, strict=True) if label != "?"]
    assert record["test_error"] == np.mean(wrong) and sum(map(sum, record["confusion"])) == 180
    new.write_text("\n".join(",".join(row[:at] + row[at + 1 :]) for row in rows))
    record, table = experiment.apply(path, new)
    assert len(table) == 271 and record["unlabelled"] == 270 and "test_error" not in record

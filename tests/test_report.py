"""Tests for perf/study/report.py: documents and texts from records that were not measured here."""

import copy
import json
import statistics

import numpy as np
import pytest

from perf import text
from perf.study import report
from perf.study.experiment import Spec, trials

LONG = "a class with quite a long name, number "


def lines_of(text):
    """The text behind each label; lines without a label belong to the one above."""
    texts, label = {}, None
    for line in text.splitlines():
        new = line[: report.INDENT].strip() if line.startswith(" ") else ""
        if new:
            label, texts[new] = new, line[report.INDENT :]
        elif line.startswith(" ") and label:
            texts[label] += f"\n{line[report.INDENT :]}"
    return texts


@pytest.fixture(scope="module")
def measured():
    """Records of a run on two classes."""
    return list(trials(Spec("heart", "exrm", {"sampling": "bootstrap"}, trials=3)))


@pytest.fixture
def records(measured):
    return copy.deepcopy(measured)


def relabelled(records, names, matrix, refused=None):
    """The records as if the classes had been others."""
    for record in records:
        record["data"]["classes"] = dict.fromkeys(names, 10)
        record["confusion"], record["rejected"] = matrix, refused or [0] * len(names)
        record["test_rows"] = sum(map(sum, matrix)) + sum(record["rejected"])
    return records


def text_of(records, saved=None):
    return report.method_report(report.collect(records, ["exrm"], saved))


def test_a_document_can_be_reported_again(records):
    result = report.collect(records, ["exrm", "--data", "heart"])
    text = report.method_report(result)
    assert report.method_report(json.loads(json.dumps(result, allow_nan=False))) == text
    assert result["method"] == "ExRM" and result["command"] == ["exrm", "--data", "heart"]
    assert result["params"] == {"sampling": "bootstrap"}
    assert [trial["trial"] for trial in result["trials"]] == [0, 1, 2]
    assert "spec" not in result["trials"][0] and result["saved"] is None
    errors = [record["test_error"] for record in records]
    figures = result["summary"]["test_error"]
    assert figures["mean"] == pytest.approx(statistics.mean(errors))
    assert figures["std"] == pytest.approx(statistics.stdev(errors))
    assert figures["min"] == min(errors) and figures["max"] == max(errors)
    assert "confusion" not in result["summary"] and "trial" not in result["summary"]


def test_trials_without_a_figure_do_not_count():
    figures = [{"a": None, "b": {"c": 1}}, {"a": 2, "b": None}, {"a": 4, "b": {"c": 3, "e": 5}}]
    summary = report.summarise([trial | {"d": None, "f": [1]} for trial in figures])
    assert summary["a"]["mean"] == 3 and summary["b"]["c"]["mean"] == 2
    assert summary["b"]["e"]["mean"] == 5 and "d" not in summary and "f" not in summary


def test_documents_of_several_methods(records):
    other = copy.deepcopy(records)
    for record in other:
        record["model"]["notes"] = ["something was done"]
    result = report.collect_methods({"exrm": records, "drm": other}, [])
    assert result["data"]["notes"] == ["ExRM: something was done"]
    result = report.collect_methods({"drm": other}, [])
    assert result["data"]["notes"] == ["something was done"]
    text = report.diversity_report(result)
    assert report.diversity_report(json.loads(json.dumps(result))) == text


def test_lines_have_80_columns(records):
    names = [LONG + str(k) for k in range(40)]
    matrix = np.random.default_rng(0).integers(0, 2000, (40, 40)).tolist()
    for record in relabelled(records, names, matrix):
        record["data"]["notes"] = ["a note " * 30, "x" * 200]
        record["data"]["name"] = "name" * 50
        record["warnings"] = ["Warning: " + "y" * 300]
        record["predicted"] = names[:1]
        record["model"]["inside"] = [copy.deepcopy(record["model"])]
        record["model"]["params"]["members"] = names
    text = text_of(records)
    assert max(map(len, text.splitlines())) == 80
    result = report.collect_methods({name: records for name in (
        "gradient-boosting", "adaboost-nc", "voting")}, [])  # fmt: skip
    assert max(map(len, report.diversity_report(result).splitlines())) <= 80


def test_paths_are_not_broken(records):
    path = "/" + "folder/" * 20 + "model.npz"
    saved = {"rows": 270, "path": path, "warnings": ["UserWarning: of the last fit"]}
    text = text_of(records, saved)
    assert path in text and "trained on all 270 rows, saved to" in text
    assert "of the last fit" in lines_of(text)["warning"]


def test_numbers_keep_their_unit():
    for shift in range(10):
        text = report.entry("label", "x" * shift + " 12.5 % of" * 20)
        assert not any(line.strip().startswith("%") for line in text.splitlines())
        assert "\0" not in text


def test_names_are_cut_in_the_middle():
    assert text.abbreviate("short", 12) == "short"
    assert text.abbreviate("a class called one", 12) == "a cla..d one"
    assert len(text.abbreviate("x" * 100, 24)) == 24


def test_errors_have_something_to_compare_with(records):
    lines = lines_of(text_of(records))

    def mean(key, factor, digits):
        values = [record[key] * factor for record in records]
        return f"{statistics.mean(values):.{digits}f}", f"{statistics.stdev(values):.{digits}f}"

    majority = 100 * statistics.mean(record["majority_error"] for record in records)
    text = "{} % +- {} (always predicting the majority class: " + f"{majority:.1f} %)"
    assert lines["test error"] == text.format(*mean("test_error", 100, 1))
    text = "{} % +- {} (mean of the error of each class)"
    assert lines["balanced error"] == text.format(*mean("balanced_error", 100, 1))
    assert lines["area under ROC"].startswith("{} +- {} (".format(*mean("auc", 1, 3)))
    assert "+- is the standard deviation over the splits" in " ".join(lines["protocol"].split("\n"))
    assert "double fault: both are wrong" in " ".join(lines["measures"].split("\n"))
    for record in records:  # of more than two classes
        record["auc"] = None
    assert "area under ROC" not in lines_of(text_of(records))


def test_confusion_is_that_of_all_trials(records):
    matrix = np.sum([record["confusion"] for record in records], axis=0)
    rows = [line.split() for line in lines_of(text_of(records))["confusion"].split("\n")]
    assert rows[1] == ["predicted", "1", "2"]
    assert rows[2:] == [["true", "1", *map(str, matrix[0])], ["true", "2", *map(str, matrix[1])]]
    assert " ".join(rows[0]) == "test rows of all 3 splits (405)"
    relabelled(records, ["no", "yes"], [[5, 1], [2, 6]], [3, 0])
    lines = lines_of(text_of(records))
    assert lines["rejected"].startswith("9 of 51 rows (17.6 %), which count as neither")
    rows = [line.split() for line in lines["confusion"].split("\n")]
    assert rows[1] == ["predicted", "no", "yes", "rejected"]
    assert rows[2:] == [["true", "no", "15", "3", "9"], ["true", "yes", "6", "18", "0"]]
    assert "rejected" not in lines_of(text_of(relabelled(records, ["no", "yes"], [[5, 1], [2, 6]])))


def test_ten_classes_fit_and_forty_do_not(records):
    matrix = (1000 * np.eye(10, dtype=int) + 7).tolist()
    lines = lines_of(text_of(relabelled(records, [str(k) for k in range(10)], matrix)))
    assert len(lines["confusion"].split("\n")) == 12
    matrix = np.diag([9] * 40)
    matrix[3, 5], matrix[30, 2] = 4, 6
    names = [f"c{k}" for k in range(40)]
    text = text_of(relabelled(records, names, matrix.tolist()))
    lines = " ".join(lines_of(text)["confusion"].split("\n"))
    assert "most often c30 as c2 (18), c3 as c5 (12); --json writes the whole matrix" in lines
    assert "c6 (10) and 33 more" in text
    text = text_of(relabelled(records, names, np.diag([9] * 40).tolist()))
    assert "none in test rows of all 3 splits (1080)" in lines_of(text)["confusion"]


def test_parameters_of_all_models(records):
    assert "sampling=bootstrap" in lines_of(text_of(records))["parameters"]
    inner = {"name": "PSVM", "params": {"p": 1.5, "class_weight": None}, "inside": []}
    empty = {"name": "OneVsRest", "params": {"class_weight": None}, "inside": [inner, inner]}
    for record in records:
        record["model"]["inside"] = [empty, inner]
        record["model"]["params"] = {
            "members": ["OneVsRest(PSVM)", "bayes"], "lam": 2.0, "flag": False, "n_jobs": 4,
            "class_weight": {"yes": 2.5, "no": 1.0}, "tol": 1e-6,
        }  # fmt: skip
    text = lines_of(text_of(records))["parameters"]
    assert " ".join(text.split("\n")) == (
        "ExRM: members=[OneVsRest(PSVM), bayes], lam=2, flag=False, "
        "class_weight={yes: 2.5, no: 1}, tol=1e-06 PSVM: p=1.5"
    )


def test_models_that_predict_one_class_only(records):
    assert "warning" not in lines_of(text_of(records))
    records[1]["predicted"] = ["2"]
    warning = " ".join(lines_of(text_of(records))["warning"].split("\n"))
    assert warning.startswith("only one class, '2', is ever predicted in 1 of 3 trials; ")
    records[2]["predicted"] = ["1"]
    warning = " ".join(lines_of(text_of(records))["warning"].split("\n"))
    assert warning.startswith("only one class, '2' or '1', is ever predicted in 2 of 3 trials; ")
    text = report.diversity_report(report.collect_methods({"exrm": records}, []))
    assert "exrm: only one class, '2' or '1', is" in text


def test_figures_that_are_none(records):
    for number, record in enumerate(records):
        record["facts"] = {"bound": None, "voters": number}
        record["facts"] |= {"late": 7.0} if number == 2 else {}
    assert lines_of(text_of(records))["statistics"] == "no bound; voters 1; late 7"
    # JSON has no infinity: None stands for it, and the method still has a certificate.
    records[1] |= {"residual": None, "converged": False}
    gap = " ".join(lines_of(text_of(records))["duality gap"].split("\n"))
    assert gap.startswith("infinite (tol 1e-06)") and gap.endswith("1 of 3 fits did not converge")
    for record in records:
        record["certified"] = False
    text = lines_of(text_of(records))["certificate"]
    assert text.startswith("none: the method is greedy; 1 of 3")
    # The first fits may compile what the warm-up did not reach: the median is reported.
    for record, seconds in zip(records, (9.0, 0.0012, 0.0014), strict=True):
        record["fit_seconds"] = seconds
    assert lines_of(text_of(records))["fit time"].startswith("1.4 ms (median of 3), plus ")


def test_predictions(records):
    record = {
        "names": ["OneVsRest", "PSVM"], "trained_on": "old", "notes": ["missing numbers: 3"],
        "data": {"name": "new", "rows": 50, "classes": ["no", "yes"], "notes": ["a note"]},
        "unlabelled": 10, "rejected_rows": 2, "test_error": 0.1, "majority_error": 0.5, "auc": 0.9,
        "balanced_error": 0.1, "confusion": [[17, 3], [1, 18]], "rejected": [0, 1],
        "columns": ["prediction", "decision", "probability no", "probability yes"],
    }  # fmt: skip
    text = report.predict_report(record, "out.csv")
    assert text.startswith("OneVsRest over PSVM, trained on old, applied to new: 50 rows\n")
    assert "a note" in text
    lines = lines_of(text)
    assert " ".join(lines["predictions"].split("\n")).endswith("; with probabilities")
    text = "10.0 % (4 of 40 rows that have labels; always predicting the majority class: 50.0 %)"
    assert " ".join(lines["error"].split("\n")) == text
    assert lines["rejected"].startswith("2 of 50 rows (4.0 %)")
    assert lines["area under ROC"].startswith("0.900 (1: ")
    assert "+-" not in "".join(lines.values()) and "train error" not in lines
    lines = lines_of(report.predict_report(record | {"unlabelled": 50}, "out.csv"))
    assert "error" not in lines and "confusion" not in lines

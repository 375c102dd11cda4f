"""Tests for perf/study/methods.py."""

import inspect
import json
import re
import sys

import numpy as np
import pytest

from perf.study import methods
from solvers import METHODS, model_file
from solvers.adaboost_nc import AdaBoost
from solvers.bagging import Bagging
from solvers.combine import Calibrated, Stacking
from solvers.exrm import PSVM, ExRM
from solvers.multiclass import OneVsRest

CLASSES = ["a", "b", "c"]
RULES = "_param_rules"  # attribute of a class, {parameter: rule in words}


def rows(classes, n=60):
    rng = np.random.default_rng(0)
    y = np.arange(n) % classes
    return rng.normal(size=(n, 2)) + 3.0 * y[:, None], y


# -- parameters ------------------------------------------------------------------------------------
def metavar(rule):
    """Type of the values that a rule, or the type in a docstring, allows."""
    words, texts = set(re.findall(r"\w+", rule)), {"integer", "int", "number", "float", "share"}
    if words & {"True", "bool"}:
        return "BOOL"
    if words & texts:
        whole, real = words & {"integer", "int"}, words & {"number", "float", "share"}
        return "VALUE" if whole and real or "'" in rule else "INT" if whole else "FLOAT"
    return "NAME" if "'" in rule and "object" not in rule else "VALUE"


def declared(cls):
    """Summary and parameters of a class, from its signature, its rules and its docstrings.

    A text that the docstring leaves out is taken from that of its base class.
    """
    texts, rules = {}, {}
    for part in (one for one in cls.__mro__ if one.__doc__ and "Parameters" in one.__doc__):
        for entry in re.finditer(r"^(\w+) : (.+)((?:\n    .+)+)", inspect.getdoc(part), re.M):
            kind = entry[2].replace('"', "")
            texts.setdefault(entry[1], f"{' '.join(entry[3].split())} [{kind}]")
            rules.setdefault(entry[1], entry[2])
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    for one in reversed(cls.__mro__):
        rules |= vars(one).get(RULES, {})
    values = {one.name: [metavar(rules.get(one.name, "")), one.default, texts[one.name]]
              for one in parameters}  # fmt: skip
    return {"summary": cls.__doc__.partition("\n")[0], "parameters": values}


def written():
    """Text of perf/study/parameters.json."""
    classes = {name: methods.class_of(known[1]) for name, known in methods.KNOWN.items()}
    lines = []
    for name, cls in classes.items():
        found = declared(cls)
        each = [
            f"  {json.dumps(key)}: {json.dumps(one)}" for key, one in found["parameters"].items()
        ]
        head = f'"{name}": {{"summary": {json.dumps(found["summary"])}, "parameters": {{'
        lines.append("\n".join([head, ",\n".join(each), " }}"]))
    return "{" + ",\n".join(lines) + "}\n"


def test_declared_parameters_are_those_of_the_classes():
    """Names, defaults, types and texts; `python -m tests.test_methods --write` writes them anew."""
    text = methods.PARAMETERS.read_text(encoding="utf-8")
    assert text == written(), "run python -m tests.test_methods --write"


def test_choices_of_several_parameters():
    text = "max-depth=2,4,none,criterion=gini,entropy"
    expected = {"max_depth": [2, 4, None], "criterion": ["gini", "entropy"]}
    assert methods.choices(text) == expected
    model = methods.build("bagging", {"perturb": text}, seed=0, classes=2)
    assert model.perturb == expected
    given = [("bagging", {"perturb": "max_depth=2,4,criterion=gini", "noise": 0.5})]
    title = methods.title(*given[0])
    assert title == "bagging:perturb=max_depth=2+4+criterion=gini,noise=0.5"
    assert methods.parse(title) == given
    for wrong in ("gini", "max_depth=", "=3", "max_depth=2,,criterion=gini"):
        with pytest.raises(ValueError, match="must be written KEY=VALUE,VALUE,.*, got"):
            methods.choices(wrong)


def test_values():
    texts = "7", "-0.5", "1e-3", "None", "none", "true", "False", "rbf", "1,2.5,none", "exrm,1"
    expected = 7, -0.5, 0.001, None, None, True, False, "rbf", [1, 2.5, None], "exrm,1"
    found = [methods.value(text) for text in texts]
    assert repr(found) == repr([*expected])


# -- building --------------------------------------------------------------------------------------
def test_methods_of_two_classes_are_wrapped():
    for command, (_, name, _) in METHODS.items():
        wrapped = name if command in ("voting", "stacking") else "OneVsRest"
        built = [type(methods.build(command, {}, 0, classes)).__name__ for classes in (2, 3)]
        assert built == [name, wrapped]


def test_params_seed_and_callback():
    def callback(model, iteration, info):
        return None

    model = methods.build("exrm", {"lam": 0.5, "max_iter": 7}, 3, 2, callback)
    assert type(model) is ExRM
    assert model.lam == 0.5 and model.max_iter == 7
    assert model.random_state == 3 and model.callback is callback
    model = methods.build("exrm", {"class_weight": {0: 2}}, 3, 3, callback)
    assert type(model) is OneVsRest and type(model.base) is ExRM
    assert model.callback is callback and model.base.callback is callback
    assert model.class_weight == {0: 2} and model.base.class_weight is None
    assert methods.build("cqboost", {"max_iter": 5}, 3, 2).mu == 0.1  # has no such parameters


def test_names_stand_for_methods():
    model = methods.build("voting", {"members": "exrm, adaboost,bayes"}, 5, 2)
    assert [type(member) for member in model.members] == [ExRM, AdaBoost, str]
    assert model.members[0].random_state == 5
    model = methods.build("voting", {"members": "exrm,bayes", "how": "soft"}, 5, 3)
    assert type(model.members[0]) is OneVsRest and type(model.members[0].base) is Calibrated
    model = methods.build("stacking", {"members": "bagging,psvm", "meta": "psvm"}, 5, 2)
    assert [type(member) for member in model.members] == [Bagging, Calibrated]
    assert type(model) is Stacking and type(model.meta) is PSVM
    model = methods.build("bagging", {"base": "psvm"}, 5, 3)
    assert type(model) is OneVsRest and type(model.base) is Bagging
    assert type(model.base.base) is PSVM


@pytest.mark.parametrize(
    ("command", "params", "text"),
    [("voting", {"members": "exrm,foo"}, "Voting: members must be .*, got 'foo'; objects are"),
     ("bagging", {"base": "foo"}, "Bagging: base must be .*, got 'foo'; objects are named exrm,"),
     ("stacking", {"meta": "bayes"}, "Stacking: meta must be .*, got 'bayes'; objects are named")],
)  # fmt: skip
def test_wrong_names(command, params, text):
    with pytest.raises(ValueError, match=text):
        methods.build(command, params, 0, 2)


# -- what a model is -------------------------------------------------------------------------------
def test_outline():
    model = methods.build("exrm", {"lam": 0.5, "class_weight": {0: 2.0, 1: 3.0}}, 1, 2)
    outline, hidden = methods.outline(model, CLASSES), {"random_state", "verbose", "callback"}
    params = {key: value for key, value in model.get_params().items() if key not in hidden}
    params["class_weight"] = {"a": 2.0, "b": 3.0}
    assert outline == {"name": "ExRM", "params": params, "inside": []}


def test_outline_of_models_of_models():
    model = methods.build("stacking", {"members": "psvm,bayes,psvm", "cv": 3}, 1, 3)
    outline = methods.outline(model, CLASSES)
    wrapped = "OneVsRest(Calibrated(PSVM))"
    assert outline["params"]["members"] == [wrapped, "bayes", wrapped]
    assert outline["params"]["meta"] == "linear" and outline["params"]["cv"] == 3
    assert json.loads(json.dumps(outline)) == outline
    names = [part["name"] for part in methods.walk(outline)]
    assert names == ["Stacking", "OneVsRest", "Calibrated", "PSVM"]
    assert methods.wrappings(outline, 3) == [
        "3 classes: one-versus-rest over PSVM",
        "probabilities by Platt's calibration: PSVM",
    ]
    outline = methods.outline(methods.build("bagging", {"base": "psvm"}, 1, 2), CLASSES)
    assert outline["params"]["base"] == "PSVM" and methods.wrappings(outline, 2) == []
    outline = methods.outline(methods.build("voting", {"members": "exrm,drm,exrm"}, 1, 3), CLASSES)
    assert methods.wrappings(outline, 3) == ["3 classes: one-versus-rest over ExRM, DRM"]


# -- files -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("command", "params", "names"),
    [("psvm", {}, [["PSVM"], ["OneVsRest", "PSVM"]]),
     ("voting", {}, [["Voting"], ["Voting"]]),
     ("bagging", {"base": "psvm"}, [["Bagging", "PSVM"], ["OneVsRest", "Bagging", "PSVM"]]),
     ("stacking", {"members": "psvm,bayes"},
      [["Stacking", "Calibrated", "PSVM"], ["Stacking", "OneVsRest", "Calibrated", "PSVM"]])],
)  # fmt: skip
@pytest.mark.parametrize("classes", [2, 3])
def test_files_are_read_whatever_is_inside(command, params, names, classes, tmp_path):
    X, y = rows(classes)
    model = methods.build(command, params, 0, classes).fit(X, y)
    model_file.save(model, tmp_path / "m.npz", notes={"a": 1})
    loaded, found = methods.load(tmp_path / "m.npz")
    assert found == names[classes - 2] and loaded.notes_ == {"a": 1} and type(loaded) is type(model)
    assert np.array_equal(loaded.decision_function(X), model.decision_function(X))


if __name__ == "__main__" and "--write" in sys.argv:
    methods.PARAMETERS.write_text(written(), encoding="utf-8")

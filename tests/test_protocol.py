"""The shared protocol under hostile use: state, labels, weights, files, caches of all classes."""

import importlib
import inspect
import os
import sys
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from solvers.adaboost_nc import AdaBoost
from solvers.bagging import BaggingRegressor
from solvers.combine import Voting
from solvers.cqboost import CqBoost, LPBoost, MinCq
from solvers.exrm import COMMON_RULES, PSVM, ExRM, satisfies
from solvers.gradient_boosting import GradientBoostingRegressor
from tests.test_contract import FILES, every, make, table, variants

REGRESSORS = BaggingRegressor, GradientBoostingRegressor
# no vote, or no sensible one, before the end of the fit
WITHOUT_PARTS = {"ExRM", "PSVM", "DRM", "NuSVM", "Calibrated"}


def state(model):
    """The attributes as they are: the very same objects."""
    return dict(vars(model))


def same(one, two):
    return one.keys() == two.keys() and all(one[name] is two[name] for name in one)


# -- state ----------------------------------------------------------------------------------------
@pytest.mark.uncompiled
@every
def test_a_failed_fit_leaves_the_object_as_it_was(cls):
    X, y = table()
    wide, names = table(80, 7)
    weight = np.ones(80)
    weight[5] = np.nan
    for model in variants(cls):
        before = state(model)
        with pytest.raises(ValueError, match="only one class"):
            model.fit(X, np.full(120, "yes"))
        assert same(state(model), before)
        before, decision = state(model.fit(X, y)), model.decision_function(X)
        for arguments in ((wide, np.full(80, "a")), (wide, names[1:]), (wide, names, weight)):
            with pytest.raises(ValueError):
                model.fit(*arguments)
            assert same(state(model), before)
        with pytest.raises(ValueError, match="X has 7 features"):
            model.predict(wide)
        assert_array_equal(model.decision_function(X), decision)


@pytest.mark.uncompiled
@every
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_interrupted_fit_leaves_the_object_as_it_was(cls, error):
    if "callback" not in inspect.signature(cls).parameters:
        pytest.skip("has no callback")
    X, y = table()

    def interrupt(model, iteration, info):
        raise error

    for model in variants(cls):
        before = state(model.fit(X, y).set_params(callback=interrupt))
        with pytest.raises(error):
            model.fit(*table(90, 3, seed=1))
        assert same(state(model), before) and model.decision_function(X).shape == (120,)


@pytest.mark.uncompiled
@every
def test_nothing_of_an_earlier_fit_stays(cls):
    pandas = pytest.importorskip("pandas")
    X, y = table()
    for model in variants(cls):
        model.fit(X, y)
        names = vars(model).keys()
        frame = pandas.DataFrame(X, columns=list("abcd"))
        assert vars(model.fit(frame, y)).keys() == names | {"feature_names_in_"}
        model.notes_ = {"of": "the first"}
        assert vars(model.fit(X, y)).keys() == names


def test_no_attribute_of_another_kernel_stays():
    X, y = table()
    model = ExRM(kernel="rbf").fit(X, y)
    assert hasattr(model, "landmarks_")
    names = vars(ExRM().fit(X, y)).keys()
    assert vars(model.set_params(kernel="linear").fit(X, y)).keys() == names
    model = CqBoost(voters="rbf", mu=0.01).fit(X, y)
    assert hasattr(model, "centres_")
    names = vars(CqBoost().fit(X, y)).keys()
    assert vars(model.set_params(voters="stumps", mu=0.01).fit(X, y)).keys() == names


@every
def test_the_callback_sees_the_model_so_far(cls):
    """Also where the object was fitted before: stopped there, the model is what was seen."""
    if "callback" not in inspect.signature(cls).parameters:
        pytest.skip("has no callback")
    X, y = table(seed=1)
    other, labels = table(50, seed=2)
    seen = []

    def look(model, iteration, info):
        if cls.__name__ in WITHOUT_PARTS:
            with pytest.raises(ValueError, match="not fitted"):
                model.predict(other)
            seen.append(None)
        else:
            seen.append((model.score(other, labels), model.decision_function(other)))
        return len(seen) == 2

    for model in variants(cls):
        seen.clear()
        model.fit(*table(seed=3)).set_params(callback=look)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model.fit(X, y)
        assert seen
        if seen[-1] is not None:
            assert model.score(other, labels) == seen[-1][0]
            assert_array_equal(model.decision_function(other), seen[-1][1])


def test_early_stopping_by_column_generation():
    X, y = table(200, seed=5)
    X_valid, y_valid = table(200, seed=6)
    for cls, options in ((CqBoost, {"mu": 0.001}), (LPBoost, {"C": 0.1}), (MinCq, {})):
        scores = []

        def stop(model, iteration, info, scores=scores):
            scores.append(model.score(X_valid, y_valid))
            return iteration >= 3 and max(scores[-2:]) <= scores[-3]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = cls(**options, callback=stop).fit(X, y)
        assert model.n_iter_ == len(scores) and model.score(X_valid, y_valid) == scores[-1]
    seen = {}

    def keep(model, iteration, info):
        seen[info["columns"]] = model.decision_function(X_valid)

    CqBoost(mu=0.01, callback=keep).fit(X, y)
    assert len(seen) > 3
    for k in sorted(seen)[:-1]:  # the vote of the first k columns is that of a fit with k columns
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = CqBoost(mu=0.01, max_columns=k).fit(X, y)
        assert_allclose(model.decision_function(X_valid), seen[k], atol=1e-12)


# -- labels, numbers, weights ---------------------------------------------------------------------
@pytest.mark.uncompiled
@every
def test_score_checks_y(cls):
    X, y = table()
    model = make(cls).fit(X, y)
    good = model.score(X, y)
    assert good > 0.7
    assert model.score(X, y[:, None]) == good == model.score(X, list(y))
    for wrong in (y[:-1], y[:1], y[0], y[None], np.tile(y, (2, 1)), np.append(y, "no")):
        with pytest.raises(ValueError, match=r"y must have shape \(120,\)"):
            model.score(X, wrong)
    weight = np.where(model.predict(X) == y, 3.0, 1.0)
    expected = 3.0 * good / (3.0 * good + 1.0 - good)
    assert model.score(X, y, weight) == pytest.approx(expected, abs=1e-12)
    for wrong in (weight[1:], -weight, np.full(120, np.nan), np.zeros(120)):
        with pytest.raises(ValueError, match="sample_weight"):
            model.score(X, y, wrong)


@pytest.mark.uncompiled
@pytest.mark.parametrize("cls", REGRESSORS)
def test_regressors_score_checks_y(cls):
    X = table()[0]
    y = X[:, 0] + 0.1 * X[:, 1]
    model = cls(n_estimators=20).fit(X, y)
    good = model.score(X, y)
    assert 0.8 < good < 1 and model.score(X, y[:, None]) == good
    for wrong in (y[:-1], y[0], np.tile(y, (2, 1))):
        with pytest.raises(ValueError, match=r"y must have shape \(120,\)"):
            model.score(X, wrong)


@pytest.mark.uncompiled
@every
def test_pandas_with_gaps(cls):
    pandas = pytest.importorskip("pandas")
    X, y = table()
    X = np.round(3.0 * X)
    frame = pandas.DataFrame(X.astype(int), columns=list("abcd"))
    nullable = frame.astype({"a": "Int64", "b": "Int32", "c": "Float64"})
    labels = pandas.Series(y == "yes").astype("Int64")
    expected = make(cls).fit(frame, y == "yes").decision_function(frame)
    model = make(cls).fit(nullable, labels)
    assert_array_equal(model.decision_function(nullable), expected)
    assert model.score(nullable, labels) == np.mean((expected >= 0) == (y == "yes"))
    objects = labels.astype(int).to_numpy().astype(object)
    for numbers in (labels, objects):
        assert make(cls).fit(nullable, numbers).classes_.dtype.kind == "i"
    labels[3] = objects[3] = pandas.NA
    for gaps in (labels, objects):
        with pytest.raises(ValueError, match="row 3 has no label"):
            make(cls).fit(nullable, gaps)
    nullable.loc[4, "a"] = pandas.NA
    if not model._allow_nan:
        with pytest.raises(ValueError, match="nan in row 4, column 0"):
            model.predict(nullable)
    else:
        gaps = X.copy()
        gaps[4, 0] = np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            found = model.decision_function(gaps)
        assert_array_equal(model.decision_function(nullable), found)
    dates = frame.assign(b=pandas.Timestamp("2020-02-02"))
    for bad in (dates, dates.b.to_frame(), dates.b.to_frame().to_numpy(), dates.to_numpy()):
        with pytest.raises((ValueError, TypeError), match="X must hold numbers|nor dates"):
            make(cls).fit(bad, y)
    with pytest.raises(TypeError, match="convert dates"):
        make(cls).fit(dates, y)


@pytest.mark.uncompiled
@every
def test_class_weights_are_example_weights(cls):
    X, y = table()
    y[:30] = "yes"
    is_drawn = {"AdaBoostNC", "Bagging"}  # rows in proportion to their weights, which are scaled
    factors = {"no": 0.5, "yes": 3.0}
    weight = np.where(y == "yes", 3.0, 0.5)
    for model in variants(cls):
        model.set_params(class_weight=factors)
        expected = make(cls, **{**model.get_params(deep=False), "class_weight": None})
        found = model.fit(X, y).decision_function(X)
        assert_array_equal(found, expected.fit(X, y, weight).decision_function(X))
        if cls.__name__ not in is_drawn:
            assert not np.array_equal(found, expected.fit(X, y).decision_function(X))
        rare = 120.0 / (2.0 * np.where(y == "yes", (y == "yes").sum(), (y == "no").sum()))
        balanced = model.set_params(class_weight="balanced").fit(X, y).decision_function(X)
        assert_array_equal(balanced, expected.fit(X, y, rare).decision_function(X))
    codes = (y == "yes").astype(int)
    for labels in ({0: 0.5, 1: 3.0}, {np.int64(0): 0.5, True: 3.0}):
        make(cls, class_weight=labels).fit(X, codes)
    with pytest.raises(ValueError, match=r"class_weight names ..1.., y has .0, 1"):
        make(cls, class_weight={"1": 2.0}).fit(X, codes)
    for wrong in ({"no": -1.0}, {"no": np.nan}, {"no": 0.0}, {"no": np.inf}):
        with pytest.raises(ValueError, match="dict from class to positive factor, got"):
            make(cls, class_weight=wrong).fit(X, y)
    with pytest.raises(ValueError, match="weights are zero on all rows of a class"):
        make(cls, class_weight={"no": 1e-140}).fit(X, y, np.full(120, 1e-200))
    for wrong in ("even", 3, [1, 2]):
        with pytest.raises(ValueError, match="class_weight must be None, 'balanced' or a dict"):
            make(cls, class_weight=wrong).fit(X, y)


@pytest.mark.uncompiled
@every
def test_unknown_labels_are_refused(cls):
    X, y = table()
    model = make(cls).fit(X, y)
    for name in ("margins", "error_correlation"):
        if hasattr(model, name):
            strange = y.copy()
            strange[3] = "x"
            with pytest.raises(ValueError, match="y holds .*'x'.*none of the classes"):
                getattr(model, name)(X, strange)
            with pytest.raises(ValueError, match="y must have shape"):
                getattr(model, name)(X, y[1:])


# -- scikit-learn's habits ------------------------------------------------------------------------
@pytest.mark.uncompiled
@every
def test_random_states(cls):
    if "random_state" not in inspect.signature(cls).parameters:
        pytest.skip("draws nothing")
    X, y = table()
    for kind in (np.random.RandomState, np.random.default_rng):
        one, two = (cls(random_state=kind(3)).fit(X, y).decision_function(X) for _ in range(2))
        assert_array_equal(one, two)
    for wrong in (-1, "a", 1.5):
        with pytest.raises(ValueError, match="random_state must be None, an integer >= 0"):
            cls(random_state=wrong).fit(X, y)


def test_a_generator_moves_on():
    """Two fits of one object with a generator draw two samples, as in scikit-learn."""
    X, y = table()
    for kind in (np.random.RandomState, np.random.default_rng):
        model = ExRM(sampling="bootstrap", random_state=kind(0))
        one, two = (model.fit(X, y).coef_ for _ in range(2))
        assert not np.array_equal(one, two)


@pytest.mark.uncompiled
@every
def test_numbers_of_threads(cls):
    if "n_jobs" not in inspect.signature(cls).parameters:
        pytest.skip("has no threads")
    X, y = table()
    expected = make(cls, n_jobs=1).fit(X, y).decision_function(X)
    for jobs in (None, -1, -2, 2, 10**9):
        model = make(cls, n_jobs=jobs).fit(X, y)
        assert_array_equal(model.decision_function(X), expected)
        assert 1 <= model._threads() <= os.cpu_count()
    with pytest.raises(
        ValueError, match="n_jobs must be None, an integer >= 1 or an integer <= -1"
    ):
        make(cls, n_jobs=0).fit(X, y)


@pytest.mark.uncompiled
def test_nested_parameters_of_lists():
    plain = Voting([PSVM(), AdaBoost()])
    named = Voting([("svm", PSVM()), ("boost", AdaBoost())])
    assert plain.get_params()["members__0__lam"] == 2.0
    assert plain.get_params()["members__1"] is plain.members[1]
    assert named.get_params()["members__boost__n_estimators"] == 100
    assert "members__0__lam" not in plain.get_params(deep=False)
    plain.set_params(members__0__lam=0.5, members__1=PSVM(lam=7.0))
    assert [member.lam for member in plain.members] == [0.5, 7.0]
    named.set_params(members__svm__lam=0.5, members__boost=PSVM(lam=7.0))
    assert [(name, member.lam) for name, member in named.members] == [("svm", 0.5), ("boost", 7.0)]
    for model, path in (
        (plain, "members__2__lam"), (plain, "members__x"), (named, "members__0__lam"),
        (plain, "members__0__nonsense"), (plain, "how__x"), (plain, "none__0"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="no parameter"):
            model.set_params(**{path: 1})
    pytest.importorskip("sklearn")
    from sklearn.model_selection import GridSearchCV

    X, y = table()
    grid = GridSearchCV(plain, {"members__0__lam": [1e-6, 1.0]}, cv=2).fit(X, y)
    assert grid.best_params_["members__0__lam"] in (1e-6, 1.0)
    assert plain.members[0].lam == 0.5


# -- files ----------------------------------------------------------------------------------------
@every
def test_a_decision_of_zero_is_the_positive_class(cls):
    X, y = table()
    model = make(cls).fit(X, y)
    model.decision_function = lambda X: np.array([-1e-300, -0.0, 0.0, 1e-300])
    assert_array_equal(model.predict(X[:4]), ["no", "yes", "yes", "yes"])


# -- the cache of kernels -------------------------------------------------------------------------
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_structures_have_no_padding(path):
    """Padding is memory that nobody sets: it would carry what was there before into files."""
    module = importlib.import_module(f"solvers.{path.stem}")
    for name, value in vars(module).items():
        if isinstance(value, np.dtype) and value.names:
            assert value.itemsize == sum(value[key].itemsize for key in value.names), name


RULES = {
    "an integer >= 1": ([1, np.int64(7)], [0, 1.0, "1", None, [1]]),
    "None or an integer from 2 to 256": ([None, 2, 256], [1, 257, "None", 2.0]),
    "a finite number > 0": ([1, 0.5, np.float32(2)], [0, -1, np.inf, np.nan, "1", None]),
    "a number > 0": ([1e-9, np.inf], [0.0, np.nan, "a"]),
    "a number > 0 and <= 1": ([1, 0.5], [0, 1.5, np.nan, None]),
    "an integer >= 1 or a share > 0 and < 1": ([3, 0.5], [0, 1.5, -2]),
    "'scale' or a finite number >= 0": (["scale", 0], ["scal", -1, None, np.zeros(2)]),
    "one of None, 'bootstrap'": ([None, "bootstrap"], ["None", False, 0]),
    "True or False": ([True, False, np.True_], [None, "True", 2]),
    "None or a function": ([None, print], [0, "print"]),
    "'tree' or an object with fit and predict": (["tree", PSVM()], ["bush", object(), None]),
    "None, 'balanced' or a dict from class to positive factor": (
        [None, "balanced", {}],
        ["even", 1, []],
    ),
    "None, an integer >= 1 or an integer <= -1": ([None, -1, 2], [0, 1.5]),
}


@pytest.mark.uncompiled
@pytest.mark.parametrize("rule", RULES)
def test_the_text_of_a_rule_is_the_rule(rule):
    good, bad = RULES[rule]
    assert all(satisfies(value, rule) for value in good)
    assert not any(satisfies(value, rule) for value in bad)


@every
def test_every_rule_can_be_read(cls):
    """All values by default follow their rules, and an object of no known kind follows none."""
    rules = COMMON_RULES | cls._param_rules
    for name, parameter in inspect.signature(cls).parameters.items():
        if name in rules:
            follow = sys.modules[cls.__module__].satisfies
            assert follow(parameter.default, rules[name]), name
            assert not follow(object(), rules[name]), name

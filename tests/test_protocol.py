"""The shared protocol under hostile use: state, labels, weights, callbacks, parameters."""

import inspect
import re
import threading
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from solvers.adaboost_nc import AdaBoost
from solvers.bagging import Bagging
from solvers.combine import Voting
from solvers.cqboost import CqBoost
from solvers.drm import DRM
from solvers.exrm import COMMON_RULES, PSVM, ExRM, satisfies
from solvers.gradient_boosting import GradientBoosting
from solvers.multiclass import OneVsRest
from tests.test_contract import CLASSIFIERS, REGRESSORS, by_name, every, make, table, variants

WITHOUT_PARTS = {"ExRM", "PSVM", "DRM", "NuSVM", "Calibrated"}  # No vote before the end of the fit.
STOPPED = "the callback stopped it"
DRAWN = {"AdaBoost", "AdaBoostNC", "Bagging", "DRM", "ExRM", "GradientBoosting"}  # They draw.


def rows_for(cls, *args, **kwargs):
    """X and y, numbers for a regressor."""
    X, y = table(*args, **kwargs)
    return X, X[:, 0] + 0.1 * X[:, 1] if cls in REGRESSORS else y


# -- state ----------------------------------------------------------------------------------------
@pytest.mark.uncompiled
@every
def test_a_failed_fit_leaves_the_object_as_it_was(cls):
    """All attributes are the very same objects."""
    (X, y), (wide, names) = table(), table(80, 7)
    one_class = wide, np.full(80, "a")

    def interrupt(model, iteration, info):
        raise KeyboardInterrupt

    for model in variants(cls):
        for _ in range(2):  # Before the first fit and after it.
            before = dict(vars(model.set_params(callback=interrupt)))
            for *arguments, error in (
                (*one_class, ValueError), (wide, names[1:], ValueError),
                (wide, names, np.full(80, np.nan), ValueError), (wide, names, KeyboardInterrupt),
            ):  # fmt: skip
                with pytest.raises(error):
                    model.fit(*arguments)
                assert vars(model).keys() == before.keys()
                assert all(value is before[name] for name, value in vars(model).items())
            model.set_params(callback=None).fit(X, y)
        with pytest.raises(ValueError, match="X has 7 features"):
            model.predict(wide)


@pytest.mark.parametrize(("model", "name", "change"), [
    (ExRM(kernel="rbf"), "landmarks_", {"kernel": "linear"}),
    (DRM(3, kernel="linear"), "coef_", {"kernel": "rbf"}),
    (CqBoost(voters="rbf", mu=0.01), "centres_", {"voters": "stumps"}),
    (Bagging(n_estimators=3), "nodes_", {"base": PSVM()}),
    (GradientBoosting(early_stopping=True), "validation_trace_", {"early_stopping": False}),
    (OneVsRest(PSVM()), "estimators_", {"base": "linear"}),
])  # fmt: skip
def test_nothing_of_an_earlier_fit_stays(model, name, change):
    X, y = table()
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abcd"))
    model.fit(frame, y).notes_ = {"of": "the first"}
    assert hasattr(model, name) and hasattr(model, "feature_names_in_")
    model.set_params(**change).fit(X, y)
    plain = type(model)(**model.get_params(deep=False)).fit(X, y)
    assert vars(model).keys() == vars(plain).keys() and not hasattr(model, name)


@pytest.mark.parametrize("cls", [*CLASSIFIERS, *REGRESSORS], ids=by_name)
def test_the_callback_gets_the_model_so_far(cls, capsys):
    """Stopped there, also in a second fit, the model is what the callback saw, and equal to a fit
    of fewer members."""
    (X, y), (other, goals) = rows_for(cls, seed=1), rows_for(cls, 50, seed=2)
    seen, home = [], threading.get_ident()

    def look(model, iteration, info):
        assert threading.get_ident() == home and model.n_iter_ == iteration == len(seen) + 1
        assert model.trace_[-1] == info["objective"]
        if cls.__name__ in WITHOUT_PARTS:
            with pytest.raises(ValueError, match="not fitted"):
                model.predict(other)
            seen.append(None)
        else:
            assert model.converged_ is False
            seen.append((model.score(other, goals), model.votes(other)))
        return len(seen) == 2

    for model in variants(cls):
        model.fit(*rows_for(cls, seed=3)).set_params(callback=look, verbose=1)
        seen.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model.fit(X, y)
            lines = capsys.readouterr().out.splitlines()
            assert 1 <= len(lines) == model.n_iter_ == len(seen) <= 2
            assert re.fullmatch(rf"{cls.__name__} +1( +\w+ \S+)+", lines[0])
            assert getattr(model, "reason_", STOPPED) == STOPPED or len(seen) < 2
            if seen[-1] is None:
                continue
            assert model.score(other, goals) == seen[-1][0]
            assert_array_equal(model.votes(other), seen[-1][1])
            fewer = {"n_estimators": len(seen)}
            if hasattr(model, "members"):
                fewer = {"members": model.members.split(",")[: len(seen)]}
            if fewer.keys() <= model.get_params().keys():
                model.set_params(callback=None, verbose=0, **fewer).fit(X, y)
                assert_array_equal(model.votes(other), seen[-1][1])


def test_the_callback_of_column_generation_gets_the_vote_of_the_first_columns():
    (X, y), (other, _) = table(200, seed=5), table(200, seed=6)
    seen = {}

    def store(model, iteration, info):
        seen[info["columns"]] = model.decision_function(other)

    CqBoost(mu=0.01, callback=store).fit(X, y)
    assert len(seen) > 3
    for k in sorted(seen)[:-1]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = CqBoost(mu=0.01, max_columns=k).fit(X, y)
        assert_allclose(model.decision_function(other), seen[k], atol=1e-12)


# -- labels, numbers, weights ---------------------------------------------------------------------
@pytest.mark.uncompiled
@pytest.mark.parametrize("cls", [PSVM, Bagging, OneVsRest, *REGRESSORS], ids=by_name)
def test_score_checks_y(cls):
    X, y = rows_for(cls)
    model = make(cls).fit(X, y)
    good, least = model.score(X, y), 0.4 if cls in REGRESSORS else 0.7
    assert least < good == model.score(X, y[:, None]) == model.score(X, list(y))
    for wrong in (y[:-1], y[:1], y[0], y[None], np.tile(y, (2, 1)), np.append(y, y[0])):
        with pytest.raises(ValueError, match=r"y must have shape \(120,\)"):
            model.score(X, wrong)
    for wrong in (np.ones(119), -np.ones(120), np.full(120, np.nan), np.zeros(120)):
        with pytest.raises(ValueError, match="sample_weight"):
            model.score(X, y, wrong)


@pytest.mark.uncompiled
@every
def test_class_weights_are_example_weights(cls):
    X, y = table()
    y[:30] = "yes"
    own = np.random.default_rng(0).integers(1, 4, 120).astype(float)
    rare = {label: own.sum() / (2.0 * own[y == label].sum()) for label in ("no", "yes")}
    for model in variants(cls):
        plain = model.fit(X, y, own).decision_function(X)
        for given, factors in (({"yes": 5.0}, {"no": 1.0, "yes": 5.0}), ("balanced", rare)):
            model.set_params(class_weight=None)
            weight = own * np.array([factors[label] for label in y])
            expected = model.fit(X, y, weight).decision_function(X)
            found = model.set_params(class_weight=given).fit(X, y, own).decision_function(X)
            assert_array_equal(found, expected)
            assert (found != plain).any() or cls.__name__ in {"AdaBoostNC", "Bagging"}
    for labels in ({0: 0.5, 1: 3.0}, {np.int64(0): 0.5, True: 3.0}):
        make(cls, class_weight=labels).fit(X, (y == "yes").astype(int))
    with pytest.raises(ValueError, match="weights are zero on all rows of a class"):
        make(cls, class_weight={"no": 1e-140}).fit(X, y, np.full(120, 1e-200))


# -- parameters -----------------------------------------------------------------------------------
@pytest.mark.uncompiled
@every
def test_random_states(cls):
    """A generator gives equal models once, and moves on: the second fit with it draws anew."""
    if "random_state" not in inspect.signature(cls).parameters:
        pytest.skip("draws nothing")
    X, y = table()
    draws = []
    for model in variants(cls):

        def fit(state, model=model):
            return model.set_params(random_state=state).fit(X, y).decision_function(X)

        draws.append((fit(0) != fit(1)).any())
        for kind in (np.random.RandomState, np.random.default_rng):
            state = kind(3)
            first = fit(state)
            assert (fit(state) != first).any() == draws[-1]
            assert_array_equal(fit(kind(3)), first)
    assert any(draws) == (cls.__name__ in DRAWN)


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
        (plain, "members__0__nonsense"), (plain, "how__x"), (plain, "none__0"), (plain, "fit__a"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="no parameter"):
            model.set_params(**{path: 1})
    search = pytest.importorskip("sklearn.model_selection").GridSearchCV
    grid = search(plain, {"members__0__lam": [1.0]}, cv=2).fit(*table())
    assert grid.best_estimator_.members[0].lam == 1.0 and plain.members[0].lam == 0.5


RULES = {  # Rule: values that satisfy it, values that do not.
    "an integer >= 1": ([1, np.int64(7)], [0, 1.0, "1", None, [1]]),
    "None or an integer from 2 to 256": ([None, 2, 256], [1, 257, "None", 2.0]),
    "a finite number > 0": ([1, 0.5, np.float32(2)], [0, -1, np.inf, np.nan, "1", None]),
    "an integer >= 1 or a share > 0 and < 1": ([3, 0.5], [0, 1.5, -2]),
    "'scale' or a finite number >= 0": (["scale", 0], ["scal", -1, None, np.zeros(2)]),
    "one of None, 'bootstrap'": ([None, "bootstrap"], ["None", False, 0]),
    "True or False": ([True, False, np.True_], [None, "True", 2]),
    COMMON_RULES["class_weight"]: ([None, "balanced", {}, {"a": 2}], ["even", 1, [], {"a": -1}]),
}


@pytest.mark.uncompiled
@pytest.mark.parametrize("rule", RULES)
def test_the_text_of_a_rule_is_the_rule(rule):
    good, bad = RULES[rule]
    assert all(satisfies(value, rule) for value in good)
    assert not any(satisfies(value, rule) for value in bad)

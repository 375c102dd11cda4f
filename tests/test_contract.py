"""Promises that every estimator in solvers/ keeps; new files are covered by being there."""

import inspect
import os
import re
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from solvers import METHODS
from solvers.exrm import PSVM

ROOT = Path(__file__).parent.parent
NO_ESTIMATORS = {"__init__.py", "diversity.py", "model_file.py"}
FILES = sorted(path for path in (ROOT / "solvers").glob("*.py") if path.name not in NO_ESTIMATORS)
COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
WRAPPERS = {"Calibrated", "OneVsRest", "ECOC"}  # They are no commands.


def estimators(kind="classifier"):
    """All public classes of one kind: classifiers or regressors."""
    found = []
    for path in FILES:
        module = import_module(f"solvers.{path.stem}")
        for name, value in vars(module).items():
            is_ours = inspect.isclass(value) and issubclass(value, module._Estimator)
            if is_ours and name[0] != "_" and value._estimator_type == kind:
                found.append(value)
    return found


def table(n=120, d=4, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, "yes", "no")
    return rng.normal(size=(n, d)) + 1.2 * (y == "yes")[:, None], y


def make(cls, **params):
    """A model of few members if nothing is compiled: it takes a hundred times as long."""
    known = inspect.signature(cls).parameters
    params = {"random_state": 0, **params} if "random_state" in known else params
    if COMPILED or "n_estimators" not in known:
        return cls(**params)
    return cls(**{"n_estimators": 3, **params})


WAYS = {  # Further parameters with code of their own.
    "ExRM": [{"sampling": "bootstrap"}],
    "DRM": [{"sampling": "bootstrap"}],
    "AdaBoost": [{"mode": "resample"}, {"base": PSVM(), "n_estimators": 3}],
    "AdaBoostNC": [{"mode": "reweight"}],
    "Voting": [
        {"how": "soft"}, {"how": "average", "members": "linear", "weights": [2.0]},
        {"weights": "log-odds"}, {"how": "soft", "weights": "inverse-error", "cv": 3},
    ],
    "Calibrated": [{"method": "isotonic"}],
    "ECOC": [{"decoding": "hamming"}],
    "OneVsRest": [{"base": PSVM()}],
    "GradientBoosting": [
        {"order": 1}, {"subsample": 0.5, "max_features": 0.5}, {"loss": "hinge", "order": 1},
    ],
    "Bagging": [
        {"max_features": "sqrt", "voting": "soft"}, {"oob_score": True, "n_jobs": 2},
        {"max_features": 0.5, "per_split": False, "bootstrap": False, "max_samples": 0.5},
        {"base": PSVM(), "n_estimators": 3, "max_features": 2, "n_jobs": 2},
        {"outputs": "flip"}, {"outputs": "smear", "voting": "soft"},
        {"perturb": {"max_depth": [2, None], "max_features": [1, 2]}},
    ],
}  # fmt: skip


def variants(cls):
    """The default and the other ways of a method to train its members."""
    return [make(cls, **params) for params in ({}, *WAYS.get(cls.__name__, ()))]


def by_name(cls):
    return cls.__name__


KINDS = {"ExRM", "DRM", "CqBoost", "Bagging", "Voting"}  # One of each way to train and to vote.
CLASSIFIERS, REGRESSORS = estimators(), estimators("regressor")
every = pytest.mark.parametrize("cls", CLASSIFIERS, ids=by_name)
each_kind = pytest.mark.parametrize(
    "cls", [cls for cls in CLASSIFIERS if cls.__name__ in KINDS], ids=by_name
)
each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
each_compiled = pytest.mark.parametrize("module", [
    module for path in FILES if hasattr(module := import_module(f"solvers.{path.stem}"), "njit")
], ids=lambda module: module.__name__)  # fmt: skip


def test_all_methods_are_listed():
    listed = {(file, name) for file, name, _ in METHODS.values()}
    found = {(cls.__module__.split(".")[-1], cls.__name__) for cls in estimators()}
    assert listed == {(file, name) for file, name in found if name not in WRAPPERS}


# -- scikit-learn ---------------------------------------------------------------------------------
NO_CONSTANT = "a vote of stumps has no constant part, so it cannot give every row to one class"
REPEATED = "check_sample_weight_equivalence_on_dense_data"
NOT_FOR = {  # Checks that are not meant for a method: why.
    "AdaBoost": {"check_class_weight_classifiers": "boosting outgrows the weights it starts from"},
    "CqBoost": {"check_class_weight_classifiers": NO_CONSTANT},
    "MDBoost": {"check_class_weight_classifiers": NO_CONSTANT},
    "MinCq": {"check_class_weight_classifiers": NO_CONSTANT},
    "LPBoost": {"check_class_weight_classifiers": NO_CONSTANT},
    "AdaBoostNC": {REPEATED: "draws rows by weight"},
    "Bagging": {REPEATED: "draws rows at random"},
    "BaggingRegressor": {REPEATED: "draws rows at random"},
    "Stacking": {REPEATED: "rows are dealt to folds"},
    "StackingRegressor": {REPEATED: "rows are dealt to folds"},
    "Calibrated": {REPEATED: "rows are dealt to folds"},
    "DRM": {REPEATED: "up to tol, see below"},
    "NuSVM": {REPEATED: "up to tol, see below"},
}


@pytest.mark.parametrize("cls", [*CLASSIFIERS, *REGRESSORS], ids=by_name)
def test_check_estimator(cls):
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    from sklearn.base import is_classifier, is_regressor

    assert (is_classifier(cls()), is_regressor(cls())) == (cls in CLASSIFIERS, cls in REGRESSORS)
    expected = NOT_FOR.get(cls.__name__, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = checks.check_estimator(
            cls(), on_skip=None, on_fail=None, expected_failed_checks=expected
        )
        if expected.get(REPEATED, "").startswith("up to tol"):
            getattr(checks, REPEATED)(cls.__name__, cls(tol=1e-14))
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed
    assert sum(r["status"] == "passed" for r in results) > 50


@pytest.mark.uncompiled
@each_kind
def test_scikit_learn_tools(cls):
    """A search over a parameter of a model in a pipeline, which clones it."""
    pytest.importorskip("sklearn")
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make(cls)
    floats = [k for k, v in model.get_params().items() if isinstance(v, float)][:1] or ["verbose"]
    values = {f"{by_name(cls).lower()}__{k}": [getattr(model, k)] for k in floats}
    grid = GridSearchCV(make_pipeline(StandardScaler(), model), values, cv=3)
    assert grid.fit(*table()).best_score_ > 0.7 and not hasattr(model, "classes_")


@pytest.mark.uncompiled
@each_kind
def test_pandas(cls):
    pandas = pytest.importorskip("pandas")
    X, y = table()
    X, y = np.round(3.0 * X), y == "yes"
    frame = pandas.DataFrame(X.astype(int), columns=list("abcd"))
    model = make(cls).fit(frame, pandas.Series(y))
    expected = make(cls).fit(X, y).decision_function(X)
    assert_array_equal(model.decision_function(frame), expected)
    nullable = frame.astype({"a": "Int64", "b": "Int32", "c": "Float64"})
    labels = pandas.Series(y).astype("Int64")
    for numbers in (labels, labels.astype(int).to_numpy().astype(object)):
        model = make(cls).fit(nullable, numbers)
        assert model.classes_.dtype.kind == "i"
        assert_array_equal(model.decision_function(nullable), expected)
        numbers[3] = pandas.NA
        with pytest.raises(ValueError, match="row 3 has no label"):
            make(cls).fit(nullable, numbers)
    nullable.loc[4, "a"] = pandas.NA
    if model._allow_nan:
        X[4, 0] = np.nan
        again = model.decision_function(pandas.DataFrame(X, columns=list("abcd")))
        assert_array_equal(model.decision_function(nullable), again)
    else:
        with pytest.raises(ValueError, match="nan in row 4, column 0"):
            model.predict(nullable)
    dates = frame.assign(b=pandas.Timestamp("2020-02-02"))
    for bad in (dates, dates.b.to_frame(), dates.to_numpy()):
        with pytest.raises((ValueError, TypeError), match="convert dates|nor dates"):
            make(cls).fit(bad, y)


# -- the contract ---------------------------------------------------------------------------------
@pytest.mark.uncompiled
@every
def test_fitted_model(cls):
    """Fitted attributes, the vote, the score; fit does not change its arguments."""
    X, y = table()
    weight = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    before = X.copy(), y.copy(), weight.copy()
    for model in variants(cls):
        for passed in (weight, None):
            assert model.fit(X, y, passed) is model
            assert list(model.classes_) == ["no", "yes"] and model.n_features_in_ == 4
            assert model.n_iter_ >= 1 and isinstance(model.converged_, bool)
            assert np.isfinite(model.objective_)  # AdaBoost's are exponentials, computed twice.
            assert abs(model.trace_[-1] - model.objective_) <= np.spacing(abs(model.objective_))
            assert model.residual_ is None or model.residual_ <= model.tol
        votes, decision = model.votes(X), model.decision_function(X)
        assert votes.shape == (len(y), len(model.weights_)) and (model.weights_ >= 0).all()
        assert_allclose(votes @ model.weights_, decision, atol=1e-12 * np.abs(votes).max())
        assert_array_equal(model.predict(X), model.classes_[(decision >= 0).astype(int)])
        right = model.predict(X) == y
        assert model.score(X, y) == right.mean() and right.mean() > 0.7
        assert model.score(X, y, weight) == pytest.approx(weight @ right / weight.sum())
        for now, then in zip((X, y, weight), before, strict=True):
            assert_array_equal(now, then)
        model.decision_function = lambda X: np.array([-1e-300, -0.0, 0.0, 1e-300])
        assert_array_equal(model.predict(X[:4]), ["no", "yes", "yes", "yes"])


@pytest.mark.uncompiled
@every
def test_parameters_are_documented_and_stored(cls):
    text = inspect.getdoc(cls)
    section = text.split("Parameters\n----------\n")[1].split("\n\n")[0]
    names = " , ".join(re.findall(r"^(\w[\w, \\\n]*?) : ", section, re.MULTILINE))
    documented = re.findall(r"\w+", names)
    assert documented == list(inspect.signature(cls).parameters)
    model = cls()
    with pytest.raises(ValueError, match=f"{cls.__name__}: no parameter 'nonsense'"):
        model.set_params(nonsense=1)
    assert repr(model) == f"{cls.__name__}()"
    assert "verbose=1" in repr(model.set_params(verbose=1))


@pytest.mark.uncompiled
@each_kind
def test_input_forms_give_equal_models(cls):
    X, y = table()
    X = X.astype(np.float32).astype(np.float64)  # Exact in both precisions.
    read_only = X.copy()
    read_only.flags.writeable = False
    expected = make(cls).fit(X, y).decision_function(X)
    strided = np.repeat(X, 2, axis=1)[:, ::2]
    for form in (read_only, X.astype(np.float32), np.asfortranarray(X), X.tolist(), strided):
        model = make(cls).fit(form, y.tolist())
        assert_array_equal(model.decision_function(form), expected)


@every
def test_deterministic_also_in_threads(cls):
    """Fits on two threads, each on any number of threads of its own, are equal."""
    X, y = table()
    has_threads = "n_jobs" in inspect.signature(cls).parameters
    for base in variants(cls):

        def fit(n_jobs, base=base):
            params = base.get_params(deep=False) | ({"n_jobs": n_jobs} if has_threads else {})
            model = type(base)(**params).fit(X, y)
            assert not has_threads or 1 <= model._threads() <= os.cpu_count()
            return model.decision_function(X)

        first = fit(1)
        with ThreadPoolExecutor(2) as pool:
            for result in pool.map(fit, (None, -1, -2, 10**9)):
                assert_array_equal(result, first)


# -- files that can leave home --------------------------------------------------------------------
ALONE = """
import ast, inspect, sys
sys.path.insert(0, {folder!r})
import numpy as np
import {stem} as module
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
y = X[:, 0] > 0
for name, cls in list(vars(module).items()):
    if isinstance(cls, type) and issubclass(cls, module._Estimator) and not name.startswith("_"):
        goal = X[:, 0] if name.endswith("Regressor") else y
        assert cls().fit(X, goal).score(X, goal) > 0.8, name
heavy = {{"sklearn", "pandas", "matplotlib", "tqdm", "datasets", "solvers"}} & set(sys.modules)
assert not heavy, heavy
demo = ast.parse(inspect.getsource(module)).body[-1]
assert ast.unparse(demo.test) == "__name__ == '__main__'"
exec(compile(ast.Module(demo.body, []), module.__file__, "exec"), vars(module))
"""


@each_file
def test_file_works_alone(path, tmp_path):
    """Run a copy as a module, then its program with the module's kernels. One file is started as a
    program, too, which compiles them once more, and as a module again, which reads its cache."""
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    used = ["-c", ALONE.format(folder=str(tmp_path), stem=path.stem)]
    for command in (used, [str(copy)], used) if path.stem == "exrm" else (used,):
        done = subprocess.run(
            [sys.executable, "-I", *command],
            cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"NUMBA_OPT": "1"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


@each_compiled
def test_kernels_work_without_a_cache(module, monkeypatch):
    real = module.njit

    def no_locator(cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr(module, "njit", no_locator)
    assert module.jit(lambda x: x + 1)(1) == 2


@pytest.mark.bounds
@pytest.mark.skipif(os.environ.get("NUMBA_BOUNDSCHECK") != "1", reason="bounds are not checked")
@each_compiled
def test_bounds_are_checked(module):
    """Guards the second run of the suite: a stale cache would check nothing."""
    with pytest.raises(IndexError):
        module.jit(lambda x, i: x[i])(np.zeros(3), 5)

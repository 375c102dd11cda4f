"""Fits on threads and row blocks against fits in memory: one battery for all methods."""

import functools
import importlib
import itertools
import re
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from solvers import adaboost_nc, cqboost, exrm, gradient_boosting
from solvers.adaboost_nc import AdaBoost, AdaBoostNC
from solvers.cqboost import CGBoost, CqBoost, LPBoost, MDBoost, MinCq
from solvers.exrm import PSVM, ExRM
from solvers.gradient_boosting import GradientBoosting, GradientBoostingRegressor
from solvers.rows import ThreadBlocks, newton, trees
from tests.conftest import RowBlocks

pytestmark = pytest.mark.bounds
SOLVERS = Path(exrm.__file__).parent
N = 420  # Rows of most problems.
CUTS = {  # Rows at which a block begins; a block has one row, another one class.
    1: (),
    3: (5, 6),
    17: (5, 6, 9, 31, 32, 60, 90, 100, 140, 150, 151, 200, 210, 255, 280, 299),
}
TREES = {
    "log": GradientBoosting(n_estimators=6, max_depth=4),
    "order 1": GradientBoosting(n_estimators=5, max_depth=3, order=1),
    "exponential": GradientBoosting(loss="exponential", n_estimators=5),
    "squared, few bins": GradientBoosting(loss="squared", n_estimators=5, max_bins=9),
    "any depth": GradientBoosting(n_estimators=3, max_depth=None, class_weight="balanced"),
    "few leaves": GradientBoosting(n_estimators=5, max_leaf_nodes=7, min_samples_leaf=3),
    "monotone": GradientBoosting(n_estimators=5, monotonic_cst=[1, 0, 0, 0, -1]),
    "stumps": AdaBoost(n_estimators=12),
    "trees": AdaBoost(n_estimators=6, base="tree", max_depth=4, max_bins=16),
    "entropy": AdaBoost(base="tree", n_estimators=9, criterion="entropy", class_weight={"yes": 2}),
    "few leaves, error": AdaBoost(
        n_estimators=6, base="tree", max_leaf_nodes=5, criterion="error", min_impurity_decrease=1e-3
    ),
    "penalty": AdaBoostNC(n_estimators=6, mode="reweight", max_depth=4),
    "gain ratio": AdaBoostNC(n_estimators=4, mode="reweight", criterion="gain_ratio", lam=9.0),
}
CLASS_WEIGHTS = None, "balanced", {"yes": 2.0, "no": 0.3}
STUMPS = {
    f"{cls.__name__} {k}": cls(**params, eps=1e-9, class_weight=weight)
    for cls, params in ((CqBoost, {"mu": 0.1}), (MDBoost, {"D": 5.0}), (MinCq, {"mu": 0.02}))
    for k, weight in enumerate(CLASS_WEIGHTS)
}
LINEAR = {
    f"PSVM {p} {beta}": PSVM(p=p, beta=beta, lam=0.3, tol=1e-10)
    for p, beta in itertools.product((1, 1.5, 2, 3), (0.0, 0.5))
} | {
    f"ExRM {p} {k}": ExRM(3, p=p, beta=0.2, tol=1e-10, class_weight=weight)
    for p, (k, weight) in itertools.product((1, 2), enumerate(CLASS_WEIGHTS))
}
MODELS = TREES | STUMPS | LINEAR
IN_MEMORY = {  # Methods that have threads, but take no row blocks.
    "LPBoost": LPBoost(C=0.05),
    "CGBoost": CGBoost(C=0.05),
    "regression": GradientBoostingRegressor("squared", n_estimators=5),
    "Huber": GradientBoostingRegressor("huber", n_estimators=5),
    "early stopping": GradientBoosting(early_stopping=True, random_state=0, n_iter_no_change=3),
}
FEW = ["log", "order 1", "few leaves", "monotone", "trees", "penalty", *STUMPS]
FEW += [f"PSVM {p} 0.0" for p in (1, 1.5, 2, 3)]
ONE_THREAD = "any depth", "few leaves", "few leaves, error", "gain ratio"  # More do not pay.
EXACT = (  # Fitted attributes that are equal to the last bit, if they are.
    *("nodes_", "starts_", "weights_", "trace_", "feature_importances_", "validation_trace_"),
    *("features_", "thresholds_", "signs_", "objective_", "dual_value_", "residual_", "n_iter_"),
    *("n_generated_", "n_examples_", "n_columns_", "n_voters_", "converged_", "majority_"),
    *("classes_", "n_features_in_", "reason_", "coef_", "intercept_"),
)
each_model = pytest.mark.parametrize("name", MODELS)


def problem(n=N, d=5, seed=0, has_missing=True):
    """Numbers, few values, missing cells and a constant column; noisy labels, weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[:, 1] = np.round(X[:, 1])
    X[rng.random(n) < 0.2, 2] = np.nan if has_missing else 0.0
    X[:, 3] = 1.0
    y = np.where(X[:, 0] + X[:, 1] * X[:, 4] + 0.5 * rng.normal(size=n) > 0, "yes", "no")
    order = np.argsort(y[:40], kind="stable")
    X[:40], y[:40] = X[order], y[order]
    return X, y, rng.random(n) + 0.1


def rows_for(name, weighted=False, **how):
    """X, y and weight for a model; `weighted` is False, True or "whole", with numbers 0 to 2."""
    model = (MODELS | IN_MEMORY)[name]
    X, y, weight = problem(**how, has_missing=model._allow_nan)
    if isinstance(model, GradientBoostingRegressor):
        y = X[:, 0] * 3 + X[:, 1] ** 2
    return X, y, {"whole": np.arange(len(X)) % 3 * 1.0, True: weight, False: None}[weighted]


def twin(model, **params):
    return type(model)(**model.get_params() | params)


@functools.cache
def in_memory(name, weighted):
    """The model, fitted to the rows in memory."""
    return twin((MODELS | IN_MEMORY)[name]).fit(*rows_for(name, weighted))


def agree(model, other, X, is_exact):
    """Assert that fitted attributes are equal; else that both reach the optimum."""
    for name in ("first_moment_", "second_moment_"):  # Of the margins; sums of blocks round.
        moments = getattr(model, name, 0), getattr(other, name, 0)
        assert_allclose(*moments, rtol=1e-12 if is_exact else 1e-6, atol=0 if is_exact else 1e-7)
    if is_exact:
        for name in EXACT:
            assert hasattr(model, name) == hasattr(other, name)
            assert_array_equal(getattr(model, name, 0), getattr(other, name, 0), name)
        assert_array_equal(model.predict(X), other.predict(X))
        return
    assert_array_equal(model.classes_, other.classes_)
    assert model.converged_ and model.residual_ <= getattr(model, "tol", 1e-9)
    assert_allclose(model.objective_, other.objective_, rtol=1e-9)
    assert_allclose(model.decision_function(X), other.decision_function(X), atol=1e-4)


def is_exact(name, weighted):
    """Return True if all sums over rows are sums of whole numbers."""
    return name not in LINEAR and (name not in STUMPS or weighted != 1 and name.endswith("0"))


def check_blocks(name, make, weighted):
    """Compare a fit on the blocks of make(X, y, weight) with the fit in memory."""
    X, y, weight = rows_for(name, weighted)
    blocks = make(X, y, weight)
    model = twin(MODELS[name]).fit(blocks)
    agree(model, in_memory(name, weighted), X, is_exact(name, weighted))
    return blocks, model


@pytest.fixture
def small(monkeypatch):
    """Samples are small: rows are not gathered."""
    monkeypatch.setattr(newton, "SAMPLE_CELLS", 140 * 5)


@pytest.fixture
def threads(monkeypatch, small):
    """Let models start n_jobs threads, on little data and few processors; list their numbers."""
    for module in (adaboost_nc, gradient_boosting, newton):
        monkeypatch.setattr(module, "MIN_CELLS_PER_THREAD", 1)
    for module in (adaboost_nc, gradient_boosting, cqboost, exrm):
        monkeypatch.setattr(module._Estimator, "_threads", lambda self: self.n_jobs or 1)
    monkeypatch.setattr(newton, "MIN_SUBSAMPLE_CELLS", 300)
    monkeypatch.setattr(cqboost, "CELLS_PER_THREAD", 100)
    monkeypatch.setattr(cqboost, "VOTE_ROWS", 32)
    started, init = [], ThreadBlocks.__init__

    def start(self, X, target, weight, threads=1):
        started.append(threads)
        init(self, X, target, weight, threads)

    monkeypatch.setattr(ThreadBlocks, "__init__", start)
    return started


# -- the battery ----------------------------------------------------------------------------------
@each_model
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("count", CUTS)
def test_blocks_give_the_model_of_memory(name, weighted, count, small):
    def make(X, y, weight):
        return RowBlocks(X, y, CUTS[count], weight)

    blocks, _ = check_blocks(name, make, weighted)
    assert len(blocks) == count and (name not in LINEAR or "_block_pass" in blocks.calls)


@each_model
def test_lost_blocks_give_the_model_of_the_others(name, small):
    """... to the last bit: their changes are replayed."""
    X, y, weight = rows_for(name, weighted=True, seed=6)
    rng, probability = np.random.default_rng(0), 0.05 if name in TREES else 0.3
    blocks = RowBlocks(X, y, [50, 51, 300], weight, lambda: rng.random() < probability)
    model = twin(MODELS[name]).fit(blocks)
    agree(model, twin(MODELS[name]).fit(RowBlocks(X, y, [50, 51, 300], weight)), X, True)
    if name in TREES:
        agree(model, twin(MODELS[name]).fit(X, y, weight), X, True)


@pytest.mark.parametrize("name", MODELS | IN_MEMORY)
@pytest.mark.parametrize("weighted", [False, True, "whole"])
def test_threads_give_the_model_of_one(name, weighted, threads):
    X, y, weight = rows_for(name, weighted)
    one = in_memory(name, weighted)
    for count in (2, 8):
        many = twin(one, n_jobs=count).fit(X, y, weight)
        exact = is_exact(name, weighted) and name not in ("LPBoost", "CGBoost")
        agree(many, one, X, exact)
        assert (count in threads) == (name not in ONE_THREAD)
        if name in LINEAR:
            agree(twin(many).fit(X, y, weight), many, X, True)
        elif hasattr(one, "example_weights_"):
            assert_allclose(many.example_weights_, one.example_weights_, atol=0 if exact else 1e-3)
        output = getattr(many, "decision_function", many.predict)
        expected = output(X)
        many.n_jobs = 1  # The threads of a prediction give the bits of one.
        assert_array_equal(output(X), expected)


@pytest.mark.uncompiled
@pytest.mark.parametrize("name", FEW)
def test_few_rows(name, threads, monkeypatch):
    """All back ends on so few rows that Python can check every bound."""
    monkeypatch.setattr(newton, "SAMPLE_CELLS", 20 * 5)
    X, y, _ = rows_for(name, n=90, seed=9)
    model = twin(MODELS[name], **{"n_estimators": 2} if name in TREES else {})
    one, loses = twin(model).fit(X, y), iter(np.arange(10**6) % 20 == 0).__next__
    agree(twin(model, n_jobs=2).fit(X, y), one, X, is_exact(name, False))
    blocks = twin(model).fit(RowBlocks(X, y, [1, 55]))
    agree(blocks, one, X, is_exact(name, False))
    agree(twin(model).fit(RowBlocks(X, y, [1, 55], loses=loses)), blocks, X, True)


# -- traffic ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "method", [CqBoost(max_columns=9), MDBoost(max_columns=9), MinCq(), PSVM(p=1)]
)
def test_traffic_does_not_grow_with_the_rows(method, small, capsys):
    most, name = [], type(method).__name__
    for n in (420, 1680):
        X, y, _ = problem(n, has_missing=False)
        blocks = RowBlocks(X, y, (100, 150))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cqboost.ConvergenceWarning)
            twin(method, verbose=1).fit(blocks)
        line = f"{name}: 3 blocks of {n:,} rows in all, X takes {40 * n:,} bytes\n"
        assert capsys.readouterr().out.startswith(line)
        calls = zip(blocks.calls, blocks.traffic, strict=True)
        most.append(max(size for call, size in calls if call != "_block_sample"))
        assert blocks.calls.count("_block_sample") == (name == "PSVM")
        if name != "PSVM":  # Edges, weights, and each column: one pass over the bins.
            names = "_check_block _column_ends _bin_block _block_products _block_gram_rows".split()
            passes = [2, 1] if name == "MinCq" else [2 + 9, 0]
            assert [blocks.calls.count(call) for call in names] == [1, 1, 1, *passes]
    assert most[0] == most[1]


# -- refusals -------------------------------------------------------------------------------------
REFUSED = [
    (GradientBoosting(subsample=0.5), "set subsample=1.0"),
    (GradientBoosting(early_stopping=True), "set early_stopping=False"),
    (GradientBoosting(max_features=0.5), "set max_features=1.0"),
    (GradientBoosting(max_bins=None), "set max_bins of at most 256"),
    (GradientBoosting(loss="hinge", order=1), "set another loss, such as loss='log'"),
    (GradientBoosting(loss=gradient_boosting.hinge, order=1), "set another loss"),
    (GradientBoosting(base=AdaBoost()), "base must do regression"),
    (GradientBoostingRegressor(), "row blocks are for two classes"),
    (AdaBoost(mode="resample"), "set mode='reweight'"),
    (AdaBoost(base=AdaBoost()), "set base='tree' or 'stump'"),
    (AdaBoostNC(), "set mode='reweight'"),
    (ExRM(sampling="bootstrap"), "ExRM: on row blocks sampling must be None, got 'bootstrap'"),
    (ExRM(kernel="rbf"), "on row blocks kernel must be 'linear', got 'rbf'"),
    (ExRM(solver="alm"), "on row blocks solver must be 'auto', got 'alm'"),
    (PSVM(lam=-1.0), "lam must be a finite number > 0"),
    (LPBoost(), "LPBoost does not take row blocks.*variable for"),
    (CqBoost(voters="rbf"), "on row blocks voters must be 'stumps', got"),
    (CqBoost(mu=0), "mu must be"),
]


@pytest.mark.uncompiled
@pytest.mark.parametrize(("model", "text"), REFUSED)
def test_refused_before_any_work(model, text):
    X, y, _ = problem(60, has_missing=False)
    blocks = RowBlocks(X, y, [20])
    with pytest.raises(ValueError, match=text):
        model.fit(blocks)
    assert not hasattr(model, "classes_") and not blocks.calls


@pytest.mark.uncompiled
@pytest.mark.parametrize("cls", [AdaBoost, CqBoost, PSVM])
def test_bad_blocks_leave_the_model_as_it_was(cls):
    X, y, weight = problem(60, has_missing=False)
    model = cls().fit(RowBlocks(X, y, [20]))
    before = dict(vars(model))
    for more in ((y,), (None, np.ones(60))):
        with pytest.raises(ValueError, match="row blocks have their labels and weights"):
            model.fit(RowBlocks(X, y, [20]), *more)
    weight[30] = 0.0
    y_bad, bad = y.astype(object), {value: X.copy() for value in (np.nan, np.inf, 1e200)}
    y_bad[7] = None
    for value, X_bad in bad.items():
        X_bad[50, 0] = value
    narrow = RowBlocks(X, y, [20])
    narrow.rows[1] = X[20:, :4], y[20:], None, 20
    cases = [
        (RowBlocks(X, y, [20], weight), f"{cls.__name__}: sample_weight is 0 on rows of a block"),
        (RowBlocks(X, y_bad, [20]), "row 7 has no label"),
        (RowBlocks(bad[np.inf], y, [20]), "infinity: inf in row 30, column 0"),
        (RowBlocks(bad[1e200], y, [20]), "too large"),
        (RowBlocks(X, np.arange(60) % 3, [20]), "y has 3 classes"),
        (RowBlocks(X, np.zeros(60), [20]), "only one class"),
        (narrow, "the same number of columns, got 4 and 5"),
    ]
    cases += [] if cls is AdaBoost else [(RowBlocks(bad[np.nan], y, [20]), "NaN or infinity")]
    for blocks, text in cases:
        with pytest.raises(ValueError, match=text):
            model.fit(blocks)
        assert vars(model) == before
    with pytest.raises(ValueError, match="requires y to be passed"):
        model.fit(X)


# -- trees ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("weighted", [False, True])
def test_bins_of_many_rows(weighted, monkeypatch):
    """Above BIN_SAMPLE_ROWS rows a sample decides, unless it has few values."""
    monkeypatch.setattr(gradient_boosting, "BIN_SAMPLE_ROWS", 100)
    X, _, weight = problem(1030, 6)
    X[:, 5] = np.where(np.arange(1030) % 50 == 7, X[:, 5], 0.0)  # The sample may have none of them.
    weigh = None, 0.0
    if weighted:
        total = gradient_boosting.reproducible_sum(weight)
        weigh = "weight", gradient_boosting.grid_constant(total)
    for max_bins in (3, 8, 256):
        expected = gradient_boosting.bin_thresholds(X, max_bins, weight if weighted else None)
        blocks = RowBlocks(X, np.zeros(1030), [1, 400, 777], weight)
        for block in blocks.blocks:
            block.weight = block.sample_weight
        thresholds = trees.block_thresholds(blocks, max_bins, weigh)
        for one, other in zip(thresholds, expected, strict=True):
            assert_array_equal(one, other)
        assert thresholds[0].size == max_bins - 1


def test_trees_in_several_batches(monkeypatch):
    """Histograms are made a few at a time if they would take too much memory."""
    monkeypatch.setattr(trees, "BATCH", 2 * 5 * 257 * 16)
    X, y, _ = problem(seed=5)
    model, other = (GradientBoosting(n_estimators=3, max_depth=None) for _ in range(2))
    agree(model.fit(RowBlocks(X, y, [100, 300])), other.fit(X, y), X, True)


# -- files beside each other ----------------------------------------------------------------------
def copied(home, files, monkeypatch, change=""):
    """Copy files of solvers/ to a package of their own; return the name of the package."""
    package = f"{home.parent.name}_{home.name}"
    for file in ("__init__.py", *files):
        path = home / package / file
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SOLVERS / file, path)
    if change:
        path = home / package / files[0]
        path.write_text(path.read_text(encoding="utf-8") + change, encoding="utf-8")
    monkeypatch.syspath_prepend(home)
    return package


@pytest.mark.parametrize(("file", "room"), [("exrm", "newton"), ("gradient_boosting", "trees")])
def test_kernels_carry_a_hash_of_the_file_they_call(file, room, tmp_path, monkeypatch):
    """Numba's cache, whose files have the names of kernels, would not notice a change of it."""
    names = []
    for home, change in (("one", ""), ("two", "\n# A change.\n")):
        files = f"{file}.py", "exrm.py", "rows/__init__.py", "rows/checks.py", f"rows/{room}.py"
        (tmp_path / home).mkdir()
        package = copied(tmp_path / home, files, monkeypatch, change)
        module = importlib.import_module(f"{package}.rows.{room}")
        kernels = [one for one in vars(module).values() if hasattr(one, "py_func")]
        own = [one.py_func for one in kernels if one.py_func.__module__ == module.__name__]
        names.append([kernel.__qualname__.rpartition(".")[2] for kernel in own])
    assert len(names[0]) >= 3 and len(names[0]) == len(names[1])
    for one, other in zip(*names, strict=True):
        assert one[:-8] == other[:-8] and one != other and re.fullmatch(r"\w+_[0-9a-f]{8}", one)


@pytest.mark.parametrize("name", ["PSVM 2 0.0", "CqBoost 0", "log", "stumps"])
def test_a_solver_file_alone(name, tmp_path, monkeypatch, threads):
    """... fits in memory, on one thread, and states the need of row blocks in one sentence."""
    X, y, _ = rows_for(name)
    kind = type(MODELS[name])
    file = f"{kind.__module__.rpartition('.')[2]}.py"
    package = copied(tmp_path, [file], monkeypatch)
    alone = importlib.import_module(f"{package}.{file[:-3]}")
    model = getattr(alone, kind.__name__)(**MODELS[name].get_params() | {"n_jobs": 2})
    if name in LINEAR:  # The others would compile for long.
        agree(model.fit(X, y), in_memory(name, False), X, True)
    with pytest.raises(ValueError, match="row blocks need the folder solvers/rows beside the file"):
        model.fit(RowBlocks(X, y, [20]))
    assert f"{package}.rows" not in sys.modules

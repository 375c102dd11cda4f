"""Boosted trees are the same to the last bit on any number of threads and row blocks."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from solvers import adaboost_nc, gradient_boosting
from solvers.adaboost_nc import AdaBoost, AdaBoostNC
from solvers.gradient_boosting import GradientBoosting, GradientBoostingRegressor
from solvers.rows import trees
from tests.conftest import RowBlocks as Blocks

pytestmark = pytest.mark.bounds


def problem(n=420, d=5, seed=0):
    """Numbers, few values, gaps and a constant column; labels with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[:, 1] = np.round(X[:, 1])
    X[rng.random(n) < 0.2, 2] = np.nan
    X[:, 3] = 1.0
    y = np.where(X[:, 0] + X[:, 1] * X[:, 4] + 0.5 * rng.normal(size=n) > 0, "yes", "no")
    return X, y, rng.random(n) + 0.1


def cuts(n, count, rng):
    """Places to cut n rows into blocks of very different sizes, one of them of a single row."""
    if count == 1:
        return []
    return np.sort([1, *rng.choice(np.arange(2, n), count - 2, replace=False)]).tolist()


def same(one, other):
    for name in ("nodes_", "starts_", "weights_", "trace_", "feature_importances_"):
        assert_array_equal(getattr(one, name), getattr(other, name), name)
    assert one.reason_ == other.reason_


MODELS = {
    "log": GradientBoosting(n_estimators=6, max_depth=4),
    "order 1": GradientBoosting(n_estimators=5, max_depth=3, order=1),
    "exponential": GradientBoosting(loss="exponential", n_estimators=5),
    "squared, few bins": GradientBoosting(loss="squared", n_estimators=5, max_bins=9),
    "any depth": GradientBoosting(n_estimators=3, max_depth=None, class_weight="balanced"),
    "few leaves": GradientBoosting(n_estimators=5, max_leaf_nodes=7, min_samples_leaf=3),
    "monotone": GradientBoosting(n_estimators=5, monotonic_cst=[1, 0, 0, 0, -1]),
    "stumps": AdaBoost(n_estimators=12),
    "trees": AdaBoost(n_estimators=6, base="tree", max_depth=4, max_bins=16),
    "entropy": AdaBoost(
        n_estimators=9, base="tree", criterion="entropy", class_weight={"yes": 2.0}
    ),
    "few leaves, error": AdaBoost(
        n_estimators=6, base="tree", max_leaf_nodes=5, criterion="error", min_impurity_decrease=1e-3
    ),
    "penalty": AdaBoostNC(n_estimators=6, mode="reweight"),
    "gain ratio": AdaBoostNC(n_estimators=4, mode="reweight", criterion="gain_ratio", lam=9.0),
}
each_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


@pytest.fixture
def threads(monkeypatch):
    """Lets a model use any number of threads, also on little data and few processors."""
    for module in (adaboost_nc, gradient_boosting):
        monkeypatch.setattr(module, "MIN_CELLS_PER_THREAD", 1)
        monkeypatch.setattr(module._Estimator, "_threads", lambda self: self.n_jobs)


def twin(model, **params):
    return type(model)(**model.get_params() | params)


@each_model
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_give_the_same_trees(model, weighted):
    X, y, weight = problem()
    weight = weight if weighted else None
    expected = twin(model).fit(X, y, weight)
    rng = np.random.default_rng(1)
    for count in (1, 3, 17):
        blocks = Blocks(X, y, cuts(len(X), count, rng), weight)
        found = twin(model).fit(blocks)
        same(found, expected)
        assert_array_equal(found.classes_, ["no", "yes"])
        assert_array_equal(found.decision_function(X), expected.decision_function(X))


@each_model
def test_lost_blocks_give_the_same_trees(model):
    X, y, weight = problem(seed=6)
    rng = np.random.default_rng(0)
    blocks = Blocks(X, y, [50, 51, 300], weight, lambda: rng.random() < 0.05)
    found = twin(model).fit(blocks)
    same(found, twin(model).fit(X, y, weight))
    assert len(blocks.log) < 6 + 5 * found.n_iter_  # of each member its splits once, not by levels


@pytest.mark.uncompiled
@pytest.mark.parametrize("name", ["log", "order 1", "few leaves", "monotone", "trees", "penalty"])
def test_few_rows(name, threads):
    X, y, _ = problem(40, seed=9)
    model = twin(MODELS[name], n_estimators=2)
    expected = twin(model).fit(X, y)
    same(twin(model, n_jobs=2).fit(X, y), expected)
    same(twin(model).fit(Blocks(X, y, [1, 25])), expected)
    blocks = Blocks(X, y, [1, 25], loses=iter(np.arange(1000) % 20 == 0).__next__)
    same(twin(model).fit(blocks), expected)


@each_model
def test_threads_give_the_same_trees(model, threads):
    X, y, weight = problem(seed=2)
    expected = twin(model).fit(X, y, weight)
    for count in (2, 8):
        same(twin(model, n_jobs=count).fit(X, y, weight), expected)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_threads_give_the_same_trees_for_numbers(loss, threads):
    X, _, weight = problem(seed=3)
    y = X[:, 0] * 3 + X[:, 1] ** 2
    expected = GradientBoostingRegressor(loss, n_estimators=5).fit(X, y, weight)
    for count in (2, 8):
        found = GradientBoostingRegressor(loss, n_estimators=5, n_jobs=count).fit(X, y, weight)
        same(found, expected)


def test_early_stopping_on_threads(threads):
    X, y, _ = problem(seed=4)
    params = {"early_stopping": True, "random_state": 0, "n_iter_no_change": 3}
    expected = GradientBoosting(**params).fit(X, y)
    found = GradientBoosting(**params, n_jobs=3).fit(X, y)
    same(found, expected)
    assert_array_equal(found.validation_trace_, expected.validation_trace_)


@pytest.mark.parametrize("module", [adaboost_nc, gradient_boosting])
@pytest.mark.parametrize("weighted", [False, True])
def test_bins_of_many_rows(module, weighted, monkeypatch):
    """Above BIN_SAMPLE_ROWS rows a sample decides, unless it has few values."""
    monkeypatch.setattr(module, "BIN_SAMPLE_ROWS", 100)
    monkeypatch.setattr(gradient_boosting, "BIN_SAMPLE_ROWS", 100)
    X, _, weight = problem(1030, 6)
    X[:, 5] = np.where(np.arange(1030) % 50 == 7, X[:, 5], 0.0)  # the sample may see none of them
    weight = weight if weighted else None
    for max_bins in (3, 8, 256):
        expected = module.bin_thresholds(X, max_bins, weight)
        blocks = Blocks(X, np.zeros(1030), [1, 400, 777], weight)
        for block in blocks.blocks:
            block.weight = block.sample_weight
        weigh = (
            ("weight", module.grid_constant(module.reproducible_sum(weight)))
            if weighted
            else (None, 0.0)
        )
        found = trees.block_thresholds(blocks, max_bins, weigh)
        for one, other in zip(found, expected, strict=True):
            assert_array_equal(one, other)
        assert found[0].size == max_bins - 1


def test_trees_in_several_batches(monkeypatch):
    """Histograms are made a few at a time where they would take too much memory."""
    monkeypatch.setattr(trees, "BATCH", 2 * 5 * 257 * 16)
    X, y, _ = problem(seed=5)
    same(
        GradientBoosting(n_estimators=3, max_depth=None).fit(Blocks(X, y, [100, 300])),
        GradientBoosting(n_estimators=3, max_depth=None).fit(X, y),
    )


@pytest.mark.uncompiled
@pytest.mark.parametrize(
    ("model", "text"),
    [
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
    ],
)
def test_what_blocks_cannot_do(model, text):
    X, y, _ = problem(60)
    with pytest.raises(ValueError, match=text):
        model.fit(Blocks(X, y, [20]))
    assert not hasattr(model, "classes_")


@pytest.mark.uncompiled
def test_bad_blocks():
    X, y, weight = problem(60)
    model = AdaBoost().fit(X, y)
    before = dict(vars(model))
    weight[30] = 0.0
    y_bad, X_bad = y.astype(object), X.copy()
    y_bad[7], X_bad[50, 0] = None, np.inf
    other = Blocks(X, y, [20])
    other.rows[1] = X[20:, :4], y[20:], None, 20
    for blocks, text in (
        (Blocks(X, y, [20], weight), "AdaBoost: sample_weight is 0 on rows of a block; leave"),
        (Blocks(X, y_bad, [20]), "row 7 has no label"),
        (Blocks(X_bad, y, [20]), "infinity: inf in row 30, column 0"),
        (Blocks(X, np.arange(60) % 3, [20]), "y has 3 classes"),
        (Blocks(X, np.zeros(60), [20]), "only one class"),
        (other, "the same number of columns, got 4 and 5"),
    ):
        with pytest.raises(ValueError, match=text):
            model.fit(blocks)
        assert vars(model) == before
    with pytest.raises(ValueError, match="row blocks have their labels and weights"):
        model.fit(Blocks(X, y, [20]), y)


@pytest.mark.uncompiled
def test_what_a_fit_on_blocks_says(capsys):
    X, y, _ = problem(60)
    for model in (GradientBoosting(n_estimators=1), AdaBoost(n_estimators=1)):
        twin(model, verbose=1).fit(Blocks(X, y, [20]))
        first = capsys.readouterr().out.splitlines()[0]
        start = f"{type(model).__name__}: 2 blocks of 60 rows in all, X takes 2,400 bytes; it is "
        assert first.startswith(start + "read 3 times, then a tree takes ")

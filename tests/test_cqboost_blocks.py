"""Tests of solvers/cqboost.py on row blocks, and with threads."""

import gc
import math
import warnings
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from solvers import cqboost, model_file, rows
from solvers.cqboost import CGBoost, ConvergenceWarning, CqBoost, LPBoost, MDBoost, MinCq
from tests.conftest import RowBlocks, blobs

pytestmark = [pytest.mark.bounds, pytest.mark.uncompiled]
ON_BLOCKS = {CqBoost: {"mu": 0.1}, MDBoost: {"D": 5.0}, MinCq: {"mu": 0.02}}
each_method = pytest.mark.parametrize("cls", list(ON_BLOCKS), ids=lambda cls: cls.__name__)


def problem(n=300, d=4, seed=0):
    """Two overlapping classes; the first rows are of one class, one column is constant."""
    X, y = blobs(n, d, seed)
    X = X + np.random.default_rng(seed).normal(size=X.shape)
    X[:, -1] = 2.0
    order = np.argsort(y[:40], kind="stable")
    X[:40], y[:40] = X[order], y[order]
    return X, y


CUTS = {  # of 300 rows; one block is of one class, one is a single row
    1: (),
    3: (5, 6),
    17: (5, 6, 9, 31, 32, 60, 90, 100, 140, 150, 151, 200, 210, 255, 280, 299),
}


def figures(model):
    return [model.first_moment_, model.second_moment_]


@each_method
@pytest.mark.parametrize("count", CUTS)
def test_equal_weights_give_the_same_bits(cls, count):
    """Sums of whole numbers are exact: the fit is the one in memory, whatever the blocks are."""
    X, y = problem()
    assert len(set(y[:5])) == 1 and len(set(y)) == 2
    blocks = RowBlocks(X, y, CUTS[count])
    assert len(blocks) == count
    model, memory = (cls(**ON_BLOCKS[cls]).fit(*data) for data in ((blocks,), (X, y)))
    for name in ("features_", "thresholds_", "signs_", "weights_", "trace_", "classes_"):
        assert_array_equal(getattr(model, name), getattr(memory, name))
    names = "objective_", "dual_value_", "residual_", "n_iter_", "n_generated_", "n_examples_"
    for name in (*names, "n_columns_", "n_voters_", "converged_", "majority_", "n_features_in_"):
        assert getattr(model, name) == getattr(memory, name)
    assert_allclose(figures(model), figures(memory), rtol=1e-13)
    assert_array_equal(model.decision_function(X), memory.decision_function(X))
    assert not hasattr(model, "example_weights_") and model.converged_


@each_method
def test_lost_blocks_and_labels_of_any_kind(cls):
    X, y = problem()
    labels = np.where(y > 0, "yes", "no")
    blocks = RowBlocks(X, labels, CUTS[3], loses=lambda: True)
    model, memory = (cls(**ON_BLOCKS[cls]).fit(*data) for data in ((blocks,), (X, labels)))
    assert_array_equal(model.weights_, memory.weights_)
    assert_array_equal(model.predict(X), memory.predict(X))
    assert set(model.predict(X)) == {"yes", "no"}


@each_method
@pytest.mark.parametrize("class_weight", [None, "balanced", {-1: 2.0, 1: 0.3}])
def test_weights(cls, class_weight):
    X, y = problem(seed=1)
    weight = np.random.default_rng(2).uniform(0.1, 3.0, size=300)
    for w in (weight, None):
        params = ON_BLOCKS[cls] | {"class_weight": class_weight, "eps": 1e-9}
        memory = cls(**params).fit(X, y, w)
        for count, cuts in CUTS.items():
            model = cls(**params).fit(RowBlocks(X, y, cuts, w))
            assert_allclose(model.objective_, memory.objective_, rtol=1e-9, err_msg=str(count))
            assert model.n_examples_ == memory.n_examples_
            assert_allclose(figures(model), figures(memory), rtol=1e-6, atol=1e-7)
            assert model.residual_ <= 1e-9


@each_method
def test_the_certificate_is_that_of_the_returned_vote(cls):
    """Objective, dual value and moments once more from votes(X) and weights_."""
    X, y = problem(seed=3)
    v = np.random.default_rng(4).uniform(0.5, 2.0, size=300)
    model = cls(**ON_BLOCKS[cls]).fit(RowBlocks(X, y, CUTS[3], v))
    total = v.sum()
    g = y * (model.votes(X) @ model.weights_)
    mean, second = v @ g / total, v @ g**2 / total
    assert_allclose([model.first_moment_, model.second_moment_], [mean, second], rtol=1e-12)

    # All stumps, cut at equal steps, and their edges for example weights v (b - t g).
    ends = [(f, X[:, f].min(), X[:, f].max()) for f in range(3)]
    cuts = [(f, low + (high - low) * k / 11) for f, low, high in ends for k in range(1, 11)]
    A = np.array([y * np.where(X[:, f] > cut, 1.0, -1.0) for f, cut in cuts])
    first, along = A @ v / total, A @ (v * g) / total
    if cls is MDBoost:
        n = max(total, 300)
        D = 5.0 * n / (n - 1)
        objective = total * (0.5 * D * (second - mean**2) - mean)
        edges = (1.0 + D * mean) * first - D * along
        dual = objective - total * (np.abs(edges).max() - mean + D * (second - mean**2))
    else:
        # The dual value is concave in b: a finer and finer search finds the largest.
        mu, objective = ON_BLOCKS[cls]["mu"], second
        low, high = 0.0, 8.0
        for _ in range(8):
            b = np.linspace(low, high, 101)
            sizes = np.abs(b[:, None] * first - 2.0 * along)
            values = b * mu - second - (sizes.mean(axis=1) if cls is MinCq else sizes.max(axis=1))
            low, high = b[max(values.argmax() - 1, 0)], b[min(values.argmax() + 1, 100)]
        dual = values.max()
    assert_allclose(model.objective_, objective, rtol=1e-11)
    assert model.dual_value_ <= objective
    assert abs(model.dual_value_ - dual) <= 1e-10 * max(1.0, abs(objective))
    assert (objective - model.dual_value_) / max(1.0, abs(objective)) <= 1.01 * model.residual_


@each_method
def test_passes_and_traffic(cls):
    """X is read in three steps, an iteration is one pass, and what travels does not grow with n."""
    most = []
    for n in (300, 1200):
        X, y = problem(n)
        blocks = RowBlocks(X, y, (100, 150))
        model = cls(**ON_BLOCKS[cls], max_columns=9) if cls is not MinCq else cls(**ON_BLOCKS[cls])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(blocks)
        most.append(max(blocks.traffic))
        names = "_check_block", "_column_ends", "_bin_block", "_block_products", "_block_gram_rows"
        passes = [2, 1] if cls is MinCq else [2 + 9, 0]  # edges, weights, and each column
        assert [blocks.calls.count(name) for name in names] == [1, 1, 1, *passes]
    assert most[0] == most[1]


@each_method
def test_bounds_report_and_files_after_blocks(cls, tmp_path, capsys):
    X, y = problem(seed=5)
    X[:, :3] += 3.0 * y[:, None]
    params = {CqBoost: {"mu": 0.7}, MDBoost: {"D": 0.5}, MinCq: {"mu": 0.3}}[cls]
    blocks = RowBlocks(X, y, CUTS[3])
    model = cls(**params, verbose=1).fit(blocks, independent_voters=True)
    memory = cls(**params).fit(X, y, independent_voters=True)
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith(f"{cls.__name__}: 3 blocks of 300 rows in all, X takes 9,600 bytes; it ")
    assert " is read 3 times, then " in line
    assert line.endswith(" 1 pass over up to 3,600 bytes")
    assert_allclose(model.c_bound(), memory.c_bound(), rtol=1e-12)
    assert_allclose(model.pac_bayes_bound(), memory.pac_bayes_bound(), rtol=1e-12)
    assert 0 < model.pac_bayes_bound() < 1
    assert model.facts().keys() == memory.facts().keys()
    weighted = cls(**ON_BLOCKS[cls]).fit(RowBlocks(X, y, CUTS[3], np.arange(1.0, 301.0)))
    with pytest.warns(UserWarning, match="unequal weights"):
        assert math.isnan(weighted.pac_bayes_bound())
    path = tmp_path / "model.npz"
    model_file.save(model, path)
    assert_array_equal(model_file.load(path).decision_function(X), model.decision_function(X))
    seen = weakref.ref(blocks.blocks[0]), weakref.ref(blocks)
    del blocks
    gc.collect()
    assert [ref() for ref in seen] == [None, None]  # Nothing of the blocks stays with the model.


@each_method
def test_callback_on_blocks(cls):
    X, y = problem()
    scores = []

    def stop(model, iteration, info):
        scores.append(model.score(X, y))
        return iteration == 2

    with pytest.warns(ConvergenceWarning):
        model = cls(**ON_BLOCKS[cls], eps=1e-300, callback=stop).fit(RowBlocks(X, y, CUTS[3]))
    assert model.n_iter_ == len(scores) == 2 and scores[-1] == model.score(X, y)


@pytest.mark.parametrize("cls", [LPBoost, CGBoost])
def test_a_variable_for_each_row_is_refused(cls):
    blocks = RowBlocks(*problem(), CUTS[3])
    with pytest.raises(ValueError, match=f"{cls.__name__} does not take row blocks.*variable for"):
        cls().fit(blocks)
    assert not blocks.calls


def test_refused_before_any_work():
    X, y = problem()
    blocks = RowBlocks(X, y, CUTS[3])
    for voters in ("rbf", "votes", lambda X: np.sign(X)):
        with pytest.raises(ValueError, match="on row blocks voters must be 'stumps', got"):
            CqBoost(voters=voters).fit(blocks)
    for args in ((y,), (None, np.ones(300))):
        with pytest.raises(ValueError, match="without y and sample_weight"):
            CqBoost().fit(blocks, *args)
    with pytest.raises(ValueError, match="mu must be"):
        CqBoost(mu=0).fit(blocks)
    assert not blocks.calls


def test_errors_leave_the_model_as_it_was():
    X, y = problem()
    model = CqBoost().fit(RowBlocks(X, y, CUTS[3]))
    before = dict(vars(model))
    for value, text in ((np.nan, "NaN or infinity"), (np.inf, "NaN or inf"), (1e200, "too large")):
        bad = X.copy()
        bad[250, 1] = value
        with pytest.raises(ValueError, match=text):
            model.fit(RowBlocks(bad, y, CUTS[17]))
    cases = [
        (RowBlocks(X, np.ones(300), CUTS[3]), "only one class"),
        (RowBlocks(X, np.arange(300) % 3, CUTS[3]), "multiclass: y has 3 classes"),
        (
            RowBlocks(X, y, CUTS[3], np.where(np.arange(300) == 7, 0.0, 1.0)),
            "sample_weight is 0 on",
        ),
        (
            RowBlocks(X * 0.0, y, CUTS[3]),
            r"all 4 feature\(s\) are constant, which leaves no stumps",
        ),
    ]
    for blocks, text in cases:
        with pytest.raises(ValueError, match=text):
            model.fit(blocks)
    with pytest.raises(ValueError, match="is infeasible: the best voter has edge"):
        CqBoost(mu=1.0).fit(RowBlocks(X, y, CUTS[3]))
    assert vars(model) == before


# -- threads --------------------------------------------------------------------------------------
@pytest.mark.parametrize("cls", [CqBoost, MDBoost, MinCq, LPBoost, CGBoost])
def test_threads_give_the_same_bits(cls, monkeypatch):
    """... where the weights are whole numbers, and within the gap where they are not."""
    monkeypatch.setattr(cqboost, "CELLS_PER_THREAD", 100)
    monkeypatch.setattr(cqboost, "VOTE_ROWS", 32)
    monkeypatch.setattr(cls, "_threads", lambda self: self.n_jobs)
    X, y = problem(200, 4, seed=6)
    params = ON_BLOCKS.get(cls, {"C": 0.05})
    for weight in (None, np.arange(200) % 3 * 1.0, np.linspace(0.1, 2.0, 200)):
        one = cls(**params).fit(X, y, weight)
        for n_jobs in (2, 5):
            many = cls(**params, n_jobs=n_jobs).fit(X, y, weight)
            assert_allclose(many.objective_, one.objective_, rtol=1e-9)
            if cls in ON_BLOCKS and (weight is None or not (weight % 1).any()):
                names = ["weights_", "thresholds_", "example_weights_"]
                for name in names:
                    assert_array_equal(getattr(many, name), getattr(one, name))
            one.weights_, many.weights_ = many.weights_, one.weights_
            assert many.weights_.size  # The threads of prediction give the very same numbers, too.
            assert_array_equal(
                many.decision_function(X), many.set_params(n_jobs=1).decision_function(X)
            )
            one.weights_, many.weights_ = many.weights_, one.weights_


def test_threads_are_as_many_as_the_work_is_worth(monkeypatch):
    """Small data start no thread, and those that were started end with the fit."""
    started = []

    class Pool(rows.ThreadPoolExecutor):
        def __init__(self, threads):
            super().__init__(threads)
            started.append(self)

    for module in (cqboost, rows):
        monkeypatch.setattr(module, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(CqBoost, "_threads", lambda self: 4)
    X, y = problem(200, 4)
    model = CqBoost(n_jobs=-1).fit(X, y)
    model.decision_function(X)
    assert not started
    monkeypatch.setattr(cqboost, "CELLS_PER_THREAD", 300)
    model.fit(X, y)
    assert [pool._max_workers for pool in started] == [800 // 300 - 1]
    with pytest.raises(ValueError, match="infeasible"):
        CqBoost(mu=1.0, n_jobs=-1).fit(X, y)
    assert len(started) == 2 and all(pool._shutdown for pool in started)

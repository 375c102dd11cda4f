"""Tests of solvers/cqboost.py on row blocks, and with threads."""

import gc
import math
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from solvers import cqboost, model_file, rows
from solvers.cqboost import ConvergenceWarning, CqBoost, MDBoost, MinCq
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


CUTS = 5, 6  # Of 300 rows: the first block has one class, the second one row.


@each_method
def test_the_certificate_is_that_of_the_returned_vote(cls):
    """Objective, dual value and moments once more from votes(X) and weights_."""
    X, y = problem(seed=3)
    v = np.random.default_rng(4).uniform(0.5, 2.0, size=300)
    model = cls(**ON_BLOCKS[cls]).fit(RowBlocks(X, y, CUTS, v))
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
def test_bounds_report_and_files_after_blocks(cls, tmp_path):
    X, y = problem(seed=5)
    X[:, :3] += 3.0 * y[:, None]
    params = {CqBoost: {"mu": 0.7}, MDBoost: {"D": 0.5}, MinCq: {"mu": 0.3}}[cls]
    blocks = RowBlocks(X, y, CUTS)
    model = cls(**params).fit(blocks, independent_voters=True)
    memory = cls(**params).fit(X, y, independent_voters=True)
    assert not hasattr(model, "example_weights_") and hasattr(memory, "example_weights_")
    assert_allclose(model.c_bound(), memory.c_bound(), rtol=1e-12)
    assert_allclose(model.pac_bayes_bound(), memory.pac_bayes_bound(), rtol=1e-12)
    assert 0 < model.pac_bayes_bound() < 1
    assert model.facts().keys() == memory.facts().keys()
    weighted = cls(**ON_BLOCKS[cls]).fit(RowBlocks(X, y, CUTS, np.arange(1.0, 301.0)))
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
        model = cls(**ON_BLOCKS[cls], eps=1e-300, callback=stop).fit(RowBlocks(X, y, CUTS))
    assert model.n_iter_ == len(scores) == 2 and scores[-1] == model.score(X, y)


def test_pools_without_a_solution():
    X, y = problem()
    with pytest.raises(ValueError, match="all 4 feature.* are constant, which leaves no stumps"):
        CqBoost().fit(RowBlocks(X * 0.0, y, CUTS))
    with pytest.raises(ValueError, match="is infeasible: the best voter has edge"):
        CqBoost(mu=1.0).fit(RowBlocks(X, y, CUTS))


# -- threads --------------------------------------------------------------------------------------
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

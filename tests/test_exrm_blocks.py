"""Tests for solvers/exrm.py on row blocks and on threads."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from solvers.exrm import PSVM, ConvergenceWarning
from solvers.rows import RowBlock, ThreadBlocks, newton
from tests.conftest import RowBlocks

pytestmark = pytest.mark.bounds
TIGHT = 1e-10
CUTS = 375, 376  # Of 1500 rows: the second block has one row.


def draw(n=1500, d=4, seed=0, noise=1.0):
    """Rows of correlated columns of different scales, off 0, and noisy labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) * 10 ** rng.uniform(-0.5, 0.5, d) + 1.0
    score = (X - X.mean(0)) @ rng.normal(size=d)
    y = np.where(score + noise * score.std() * rng.normal(size=n) > 0.2, "yes", "no")
    return X, y


def optimum(X, y, weight, model):
    """The problem's value at the model, line by line."""
    sign = np.where(y == model.classes_[1], 1.0, -1.0)
    value = 0.5 * ((abs(model.coef_).sum(0) + model.beta) ** 2).sum()
    for w, b in zip(model.coef_, model.intercept_, strict=True):
        slack = np.maximum(1 - sign * (X @ w + b), 0)
        value += model.lam * (weight * slack**model.p).sum()
    return value


@pytest.fixture
def small(monkeypatch):
    """Samples are small: blocks are not gathered."""
    monkeypatch.setattr(newton, "SAMPLE_CELLS", 450 * 4)


# -- the choice of a method ------------------------------------------------------------------------
@pytest.mark.uncompiled
def test_few_rows_are_gathered():
    X, y = draw(n=80)
    blocks = RowBlocks(X, y, [30])
    model = PSVM().fit(blocks)
    for other in (PSVM(), PSVM(n_jobs=-1)):
        assert_array_equal(model.coef_, other.fit(X, y).coef_)
    assert "_block_pass" not in blocks.calls


def test_where_threads_do_not_arrive_memory_goes_on(monkeypatch, small):
    X, y = draw(seed=4)
    expected = PSVM().fit(X, y)
    monkeypatch.setattr(newton, "MIN_CELLS_PER_THREAD", 1)
    monkeypatch.setattr(PSVM, "_threads", lambda self: 2)
    monkeypatch.setattr(newton, "_solve_blocks", lambda *_: (np.zeros((1, 4)), [0.0], 1.0, 1.0))
    assert_array_equal(PSVM(n_jobs=2).fit(X, y).coef_, expected.coef_)


# -- the certificate ------------------------------------------------------------------------------
@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_residual_bounds_the_distance_from_the_optimum(small, p):
    X, y = draw(seed=5)
    best = PSVM(p=p, beta=0.1, tol=1e-12).fit(X, y).objective_
    for max_iter in (1, 3, 5, 7):
        model = PSVM(p=p, beta=0.1, tol=1e-9, max_iter=max_iter)
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            model.fit(RowBlocks(X, y, CUTS))
        assert not model.converged_ and model.n_iter_ == max_iter
        assert_allclose(model.objective_, optimum(X, y, 1.0, model), rtol=1e-12)
        assert best <= model.objective_ * (1 + 1e-12)
        assert model.objective_ * (1 - model.residual_) <= best * (1 + 1e-12)


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_dual_value_and_gaps_of_an_iterate(p):
    """Against sums over rows in numpy, at an iterate whose slopes are not balanced."""
    X, y = draw(n=300, seed=6)
    sign, weight, beta = np.where(y == "yes", 1.0, -1.0), np.linspace(0.5, 2, 300), 0.3
    width = 0.5 if p < 2 else 0.0
    start = np.full((1, 4), 0.1), np.array([0.4]), None, width
    hinge, centre = newton._Hinge(0.7, float(p), 0.0), X.mean(0)
    run = newton._BlockNewton(ThreadBlocks(X, sign, weight), hinge, beta, centre, start)
    if p < 2:
        run.measure()
        run.update_multipliers()
    dual, (part,) = run.measure(), run.blocks.blocks

    cost, delta = 0.7 * weight, run.width
    outputs = (X - centre) @ run.W[0] + run.b[0]
    assert_allclose(part.outputs + run.taken * part.moves, outputs, atol=1e-12)
    z = 1 - sign * outputs
    if p >= 2:
        a = cost * p * np.maximum(z, 0) ** (p - 1)
    elif p == 1:
        a = cost * np.clip(part.multiplier_ratio + z / delta, 0, 1)
    else:  # The slope of the envelope is that of the loss at the proximal point.
        e = np.array([naive_prox(v, delta, p) for v in z + part.multiplier_ratio * delta])
        a = cost * p * e ** (p - 1)
    power = 0.0 if p == 1 else (p - 1) * (cost * (a / (p * cost)) ** (p / (p - 1))).sum()
    assert_allclose(run.neg_loss_grad[:4], (sign * a) @ (X - centre), rtol=1e-9, atol=1e-9)

    # The inner gap is of second order; the outer one is Fenchel's, of all rows.
    losses = cost * np.maximum(z, 0) ** p
    if p < 2:
        assert_allclose(run.outer_gap, losses.sum() + power - a @ z, rtol=1e-7)

    # A feasible point of the dual: the heavier class is scaled down.
    plus, minus = a[sign > 0].sum(), a[sign < 0].sum()
    a = a * np.where(sign > 0, min(1, minus / plus), min(1, plus / minus))
    assert abs(sign @ a) < 1e-9 and plus != pytest.approx(minus)
    power = 0.0 if p == 1 else (p - 1) * (cost * (a / (p * cost)) ** (p / (p - 1))).sum()
    m = abs((sign * a) @ X)
    conjugate = np.where(m > beta, 0.5 * m * m - beta * m, -0.5 * beta**2).sum()
    assert_allclose(dual, a.sum() - power - conjugate, rtol=1e-8)
    objective = 0.5 * ((abs(run.W) + beta) ** 2).sum() + losses.sum()
    assert_allclose([run.objective, run.gap], [objective, objective - dual], rtol=1e-8)


def naive_prox(v, delta, p):
    """argmin of delta e^p + (e - v)^2 / 2 over e >= 0, by halving."""
    low, high = 0.0, max(v, 0.0)
    for _ in range(100):
        e = 0.5 * (low + high)
        low, high = (low, e) if delta * p * e ** (p - 1) + e > v else (e, high)
    return e


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("p", [1, 2])
def test_badly_scaled_columns_are_certified_honestly(small, p, offset):
    X, y = draw(seed=7)
    X = X * [1e-5, 1.0, 1e5, 1.0] + offset
    model = PSVM(p=p, lam=0.1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(RowBlocks(X, y, CUTS))
    assert model.converged_ == (model.residual_ <= model.tol) == (not said)
    wide, sign = X.astype(np.longdouble), np.where(y == "yes", 1, -1)
    W, b = model.coef_[0].astype(np.longdouble), np.longdouble(model.intercept_[0])
    exact = W @ W / 2 + model.lam * (np.maximum(1 - sign * (wide @ W + b), 0) ** p).sum()
    assert abs(exact - model.objective_) <= model.residual_ * exact
    best = PSVM(p=p, lam=0.1, tol=1e-9).fit(X - X.mean(0), y).objective_
    assert model.objective_ * (1 - model.residual_) <= best * (1 + 1e-9)
    assert model.objective_ >= best * (1 - 1e-9)


def test_exact_outputs_where_digits_are_short(small):
    """Outputs near 0 of large numbers: sums in double would lose what tol asks for."""
    X, y = draw(seed=8)
    blocks = RowBlocks(X + 1e7, y, [700])
    model = PSVM(tol=1e-8).fit(blocks)
    assert model.converged_ and blocks.calls[-2:] == ["_block_loss", "_block_loss"]
    assert_allclose(model.objective_, PSVM(tol=1e-9).fit(X, y).objective_, rtol=2e-8)


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_sums_of_the_certificate(monkeypatch, p):
    monkeypatch.setattr(newton, "LOSS_ROWS", 70)
    X, y = draw(n=200, seed=16)
    sign, weight = np.where(y == "yes", 1.0, -1.0), np.linspace(0.5, 2, 200)
    W, b = np.array([[0.3, -0.2, 0.1, 0.4]]), np.array([0.2])
    part, hinge = RowBlock(X, target=sign, weight=weight), newton._Hinge(0.7, float(p), 0.0)
    newton._allocate_state(part, p)
    outputs = X @ W[0] + b[0]
    slack, cost = np.maximum(1 - sign * outputs, 0), 0.7 * weight
    a = np.where(slack > 0, cost * p * slack ** (p - 1), 0.0)
    expected = (cost * slack**p).sum(), a.sum(), a @ a, (X * X).sum()
    assert_allclose(newton._block_loss(part, hinge, W, b, False), expected, rtol=1e-10)
    expected = expected[0], a @ (1 + abs(outputs)), a @ a, 0.0
    assert_allclose(newton._block_loss(part, hinge, W, b, True), expected, rtol=1e-10)


# -- what travels, and how often ------------------------------------------------------------------
@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_at_most_two_passes_an_iteration(small, p):
    X, y = draw(seed=9)
    blocks, counts = RowBlocks(X, y, CUTS), []

    def count(model, iteration, info):
        if "rows" not in info:
            counts.append(blocks.calls.count("_block_pass"))

    PSVM(p=p, tol=TIGHT, callback=count).fit(blocks)
    assert counts[0] == 1 and max(np.diff(counts)) <= 2
    assert p < 2 or counts[-1] <= len(counts) + 3


def test_blocks_are_used_again_and_not_kept(small):
    X, y = draw(seed=12)
    blocks = RowBlocks(X, y, [600])
    model = PSVM(p=1).fit(blocks)
    assert not any(isinstance(value, (RowBlocks, RowBlock)) for value in vars(model).values())
    assert_array_equal(model.coef_, PSVM(p=1).fit(blocks).coef_)
    assert pickle.loads(pickle.dumps(model)).score(X, y) == model.score(X, y)


def test_line_search_finds_a_short_step():
    """The objective along a direction that is a thousand times too long."""
    X, y = draw(n=200, seed=15)
    sign = np.where(y == "yes", 1.0, -1.0)
    start = np.zeros((1, 4)), np.zeros(1), None, 0.0
    hinge = newton._Hinge(1.0, 2.0, 0.0)
    run = newton._BlockNewton(ThreadBlocks(X, sign, np.ones(200)), hinge, 0.0, X.mean(0), start)
    run.measure()
    run.find_direction(1e-6)
    run.dW *= 1000.0
    run.move_b *= 1000.0
    first = run.directional_derivative(0.0, 1.0)
    run.pass_over_rows(run.dW[0], run.move_b)
    step = run.line_search(first, run.directional_derivative(1.0, -1.0))

    def value(s):
        slack = np.maximum(1 - sign * ((X - X.mean(0)) @ run.dW[0] + run.move_b) * s, 0)
        return 0.5 * s * s * (run.dW**2).sum() + (slack**2).sum()

    steps = np.geomspace(1e-5, 1, 4001)
    best = min(map(value, steps))
    assert value(step) - best <= 0.05 * (value(0.0) - best) and 0 < step < 0.01

"""Tests for solvers/exrm.py on row blocks and on threads."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from solvers.exrm import PSVM, ConvergenceWarning, ExRM
from solvers.rows import RowBlock, ThreadBlocks, newton
from tests.conftest import RowBlocks

pytestmark = pytest.mark.bounds
TIGHT = 1e-10
each_loss = pytest.mark.parametrize(
    "p, beta", [(1, 0.0), (1.5, 0.0), (2, 0.0), (3, 0.0), (1, 0.5), (1.5, 0.5), (2, 0.5), (3, 0.5)]
)


def Blocks(X, y, cuts, weight=None):
    return RowBlocks(X, y, cuts[1:-1], weight)


def draw(n=1500, d=4, seed=0, noise=1.0):
    """Rows of correlated columns of different scales, off 0, and noisy labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) * 10 ** rng.uniform(-0.5, 0.5, d) + 1.0
    score = (X - X.mean(0)) @ rng.normal(size=d)
    y = np.where(score + noise * score.std() * rng.normal(size=n) > 0.2, "yes", "no")
    return X, y


def cut(n, count):
    """Ends of blocks of very different sizes, the second of which has one row."""
    inner = [] if count == 1 else [n // 4, n // 4 + 1, *range(n // 2, n)][: count - 1]
    return [0, *inner, n]


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


# -- the same answer, however the rows are cut ----------------------------------------------------
@each_loss
def test_blocks_give_the_answer_of_memory(small, p, beta):
    X, y = draw()
    params = {"p": p, "beta": beta, "lam": 0.3, "tol": TIGHT}
    expected = PSVM(**params).fit(X, y)
    for count in (1, 3, 17):
        blocks = Blocks(X, y, cut(len(X), count))
        model = PSVM(**params).fit(blocks)
        assert len(blocks) == count and model.converged_ and model.residual_ <= TIGHT
        assert_allclose(model.objective_, expected.objective_, rtol=1e-9)
        assert_allclose(model.objective_, optimum(X, y, 1.0, model), rtol=1e-12)
        assert_array_equal(model.classes_, ["no", "yes"])
        assert (model.predict(X) == expected.predict(X)).mean() > 0.999
        assert "_block_pass" in blocks.calls


@pytest.mark.parametrize("class_weight", [None, "balanced", {"yes": 3.0}])
def test_weights_and_members(small, class_weight):
    X, y = draw(seed=1)
    order = np.argsort(y, kind="stable")  # Then most blocks have one class.
    X, y = X[order], y[order]
    weight = np.random.default_rng(0).uniform(0.1, 3, len(X))
    for p in (1, 2):
        params = {"n_estimators": 3, "p": p, "beta": 0.2, "tol": TIGHT}
        params["class_weight"] = class_weight
        expected = ExRM(**params).fit(X, y, weight)
        model = ExRM(**params).fit(Blocks(X, y, cut(len(X), 5), weight))
        assert model.converged_ and model.coef_.shape == (3, 4)
        assert_allclose(model.objective_, expected.objective_, rtol=1e-9)
        assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-4)


@pytest.mark.uncompiled
def test_few_rows_are_gathered():
    X, y = draw(n=80)
    blocks = Blocks(X, y, [0, 30, 80])
    model = PSVM().fit(blocks)
    assert_array_equal(model.coef_, PSVM().fit(X, y).coef_)
    assert "_block_pass" not in blocks.calls


@pytest.mark.uncompiled
@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_every_power_uncompiled(monkeypatch, p):
    monkeypatch.setattr(newton, "SAMPLE_CELLS", 20 * 3)
    X, y = draw(n=90, d=3, seed=2)
    model = PSVM(p=p).fit(Blocks(X, y, [0, 1, 40, 90]))
    assert_allclose(model.objective_, PSVM(p=p).fit(X, y).objective_, rtol=2e-6)


@each_loss
def test_threads_give_the_same_answer(monkeypatch, small, p, beta):
    X, y = draw(seed=3)
    weight = np.random.default_rng(1).integers(0, 3, len(X)).astype(float)
    params = {"p": p, "beta": beta, "lam": 0.5, "tol": TIGHT}
    expected = PSVM(**params).fit(X, y, weight)
    monkeypatch.setattr(newton, "MIN_CELLS_PER_THREAD", 1)
    monkeypatch.setattr(newton, "MIN_LEVEL_CELLS", 500)
    passes = count_calls(monkeypatch, "_pass_rows")
    for threads in (2, 8):
        monkeypatch.setattr(PSVM, "_threads", lambda self, threads=threads: threads)
        model = PSVM(n_jobs=threads, **params).fit(X, y, weight)
        assert model.converged_ and passes
        assert_allclose(model.objective_, expected.objective_, rtol=1e-9)
        assert_allclose(model.objective_, optimum(X, y, weight, model), rtol=1e-12)
        again = PSVM(n_jobs=threads, **params).fit(X, y, weight)
        assert_array_equal(model.coef_, again.coef_)


def count_calls(monkeypatch, name):
    """A list that grows with every call of a function of the module."""
    calls, function = [], getattr(newton, name)

    def counted(*args):
        calls.append(name)
        return function(*args)

    monkeypatch.setattr(newton, name, counted)
    return calls


def test_where_threads_do_not_arrive_memory_goes_on(monkeypatch, small):
    X, y = draw(seed=4)
    expected = PSVM().fit(X, y)
    monkeypatch.setattr(newton, "MIN_CELLS_PER_THREAD", 1)
    monkeypatch.setattr(PSVM, "_threads", lambda self: 2)
    monkeypatch.setattr(newton, "_solve_blocks", lambda *_: (np.zeros((1, 4)), [0.0], 1.0, 1.0))
    assert_array_equal(PSVM(n_jobs=2).fit(X, y).coef_, expected.coef_)


def test_few_rows_take_one_thread():
    X, y = draw(n=200)
    assert_array_equal(PSVM(n_jobs=-1).fit(X, y).coef_, PSVM().fit(X, y).coef_)


# -- the certificate ------------------------------------------------------------------------------
@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_residual_bounds_the_distance_from_the_optimum(small, p):
    X, y = draw(seed=5)
    best = PSVM(p=p, beta=0.1, tol=1e-12).fit(X, y).objective_
    for max_iter in (1, 3, 5, 7):
        model = PSVM(p=p, beta=0.1, tol=1e-9, max_iter=max_iter)
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            model.fit(Blocks(X, y, cut(len(X), 3)))
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
    start = newton._BlockWarmStart(np.full((1, 4), 0.1), np.array([0.4]), None, width)
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
        model.fit(Blocks(X, y, cut(len(X), 3)))
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
    blocks = Blocks(X + 1e7, y, [0, 700, 1500])
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
    blocks, counts = Blocks(X, y, cut(len(X), 3)), []

    def count(model, iteration, info):
        if "rows" not in info:
            counts.append(blocks.calls.count("_block_pass"))

    PSVM(p=p, tol=TIGHT, callback=count).fit(blocks)
    assert counts[0] == 1 and max(np.diff(counts)) <= 2
    assert p < 2 or counts[-1] <= len(counts) + 3


def test_traffic_does_not_grow_with_the_rows(small):
    largest = []
    for n in (1500, 3000):
        X, y = draw(n=n, seed=10)
        blocks = Blocks(X, y, [0, n // 2, n])
        PSVM(p=1).fit(blocks)
        sent = zip(blocks.calls, blocks.traffic, strict=True)
        largest.append(max(size for step, size in sent if step != "_block_sample"))
        assert blocks.calls.count("_block_sample") == 1
    assert largest[0] == largest[1] < 3000


@each_loss
def test_lost_blocks_give_the_same_answer(p, beta, small):
    X, y = draw(seed=11)
    rng = np.random.default_rng(0)
    blocks = RowBlocks(X, y, [600], loses=lambda: rng.random() < 0.3)
    expected = PSVM(p=p, beta=beta).fit(RowBlocks(X, y, [600]))
    assert_array_equal(PSVM(p=p, beta=beta).fit(blocks).coef_, expected.coef_)


def test_blocks_are_used_again_and_not_kept(small):
    X, y = draw(seed=12)
    blocks = RowBlocks(X, y, [600])
    model = PSVM(p=1).fit(blocks)
    assert not any(isinstance(value, (RowBlocks, RowBlock)) for value in vars(model).values())
    assert_array_equal(model.coef_, PSVM(p=1).fit(blocks).coef_)
    assert pickle.loads(pickle.dumps(model)).score(X, y) == model.score(X, y)


def test_a_line_says_beforehand_what_is_read(small, capsys):
    X, y = draw(seed=14)
    PSVM(verbose=1).fit(RowBlocks(X, y, [600]))
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert "2 blocks of 1,500 rows" in first and f"{X.nbytes:,} bytes; an iter" in first
    assert second.startswith("PSVM     1")


# -- what is refused ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "params, text",
    [
        ({"sampling": "bootstrap"}, "on row blocks sampling must be None, got 'bootstrap'"),
        ({"kernel": "rbf"}, "on row blocks kernel must be 'linear', got 'rbf'"),
        ({"solver": "alm"}, "on row blocks solver must be 'auto', got 'alm'"),
        ({"solver": "paper"}, "on row blocks solver must be 'auto', got 'paper'"),
        ({"lam": -1.0}, "lam must be a finite number > 0"),
    ],
)
def test_refused_before_any_work(params, text):
    X, y = draw(n=60)
    blocks = Blocks(X, y, [0, 20, 60])
    with pytest.raises(ValueError, match=f"ExRM: {text}"):
        ExRM(**params).fit(blocks)
    assert not blocks.calls


def test_labels_and_weights_belong_to_the_blocks():
    X, y = draw(n=60)
    blocks = Blocks(X, y, [0, 20, 60])
    for more in ((y,), (None, np.ones(60))):
        with pytest.raises(ValueError, match="have their labels and weights with them"):
            PSVM().fit(blocks, *more)
    assert not blocks.calls
    with pytest.raises(ValueError, match="requires y to be passed"):
        PSVM().fit(X)


def test_line_search_finds_a_short_step():
    """The objective along a direction that is a thousand times too long."""
    X, y = draw(n=200, seed=15)
    sign = np.where(y == "yes", 1.0, -1.0)
    start = newton._BlockWarmStart(np.zeros((1, 4)), np.zeros(1), None, 0.0)
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

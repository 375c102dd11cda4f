"""Tests for solvers/gradient_boosting.py."""

import itertools
import math
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import brentq, minimize_scalar

import datasets
from solvers import gradient_boosting
from solvers.gradient_boosting import GradientBoosting, GradientBoostingRegressor
from tests import naive
from tests.conftest import blobs

pytestmark = pytest.mark.bounds

RTOL = 1e-6  # of leaf values, gains and steps
BOTH = (GradientBoosting, GradientBoostingRegressor)
PIECEWISE_LINEAR = ("absolute", "hinge")


# -- slow and obvious references ------------------------------------------------------------------
def naive_loss(loss, y, F, delta=1.0):
    """Loss of each row, its first and its second derivative in F; y is -1 or 1 for a classifier."""
    r = y - F
    if callable(loss):
        return loss(y, F)
    if loss == "hinge":
        return np.maximum(1 - y * F, 0), -y * ((y * F < 1) + 0.5 * (y * F == 1)), None
    if loss == "log":
        p = 1 / (1 + np.exp(y * F))
        return np.logaddexp(0, -y * F), -y * p, p / (1 + np.exp(-y * F))
    if loss == "exponential":
        e = np.exp(-y * F)
        return e, -y * e, e
    if loss == "squared":
        return r**2 / 2, -r, np.ones_like(r)
    if loss == "huber":
        inside = np.abs(r) <= delta
        value = np.where(inside, r**2 / 2, delta * (np.abs(r) - delta / 2))
        return value, np.where(inside, -r, -delta * np.sign(r)), np.ones_like(r)
    return np.abs(r), -np.sign(r), None


def naive_start(loss, y, w, delta):
    """Constant with the least weighted loss."""
    if loss in PIECEWISE_LINEAR:
        return naive_kink(loss, y, 0.0, w, np.ones(len(y)))
    low, high = (y.min(), y.max()) if loss in ("squared", "huber") else (-40.0, 40.0)
    return brentq(lambda c: w @ naive_loss(loss, y, c, delta)[1], low, high, xtol=1e-14)


def naive_kink(loss, y, F, w, step):
    """Factor a of the step with the least loss, which is linear between the a where F + a step = y:
    all of them are tried. Of several the middle one is taken, for hinge the one next to 0."""
    F, moves = F + np.zeros(len(y)), step != 0
    kinks = (y - F)[moves] / step[moves]
    kinks = np.append(kinks, 0.0) if loss == "hinge" or not len(kinks) else kinks
    costs = np.array([w @ naive_loss(loss, y, F + a * step)[0] for a in kinks])
    best = kinks[costs <= costs.min() * (1 + 1e-12) + 1e-12 * w.sum()]
    return min(best, key=abs) if loss == "hinge" else 0.5 * (best.min() + best.max())


def naive_median(values, w):
    """Point of least weighted absolute differences; the middle if it is an interval."""
    return naive_kink("absolute", values, 0.0, w, np.ones(len(values)))


def naive_step(loss, y, F, w, tree, penalty, delta):
    """Factor a of the tree with the least weighted loss + penalty a^2 / 2; None where it is far
    away or infinite."""

    def total(a):
        return w @ naive_loss(loss, y, F + a * tree, delta)[0] + penalty * a**2 / 2

    high = 2.0
    while total(high) < total(high / 2):
        high *= 2
        if high > 100:
            return None
    coarse = minimize_scalar(total, bounds=(0, high), method="bounded").x

    def slope(a):  # a minimum of rounded values is known to half the digits only
        return w * tree @ naive_loss(loss, y, F + a * tree, delta)[1] + penalty * a

    near = max(coarse - 0.01, 0.0), coarse + 0.01
    return brentq(slope, *near, xtol=1e-12) if slope(near[0]) < 0 < slope(near[1]) else coarse


def naive_boosting(model, X, y, w, tally):
    """Boost by hand beside a fitted model and compare; y is -1 or 1 for a classifier."""
    p = model.get_params()
    loss, order, rate, delta = p["loss"], p["order"], p["learning_rate"], 1.0
    if loss == "huber":
        rest = np.abs(y - naive_median(y, w))
        delta = p["delta"] or naive_median(rest[rest > 0], w[rest > 0])
        assert_allclose(model.delta_, delta, rtol=1e-12)
    F_0 = model.nodes_[0]["value"]
    if loss == "absolute":  # it need not be unique
        least = w @ np.abs(y - naive_start(loss, y, w, delta))
        assert w @ np.abs(y - F_0) <= least * (1 + 1e-12)
    elif callable(loss):
        costs = [w @ naive_loss(loss, y, c * np.ones(len(y)))[0] for c in np.linspace(-4, 4, 8001)]
        assert w @ naive_loss(loss, y, F_0 * np.ones(len(y)))[0] <= min(costs) * (1 + 1e-12)
    else:
        F_0 = naive_start(loss, y, w, delta)
    assert_allclose(model.nodes_[0]["value"], F_0, rtol=1e-9, atol=1e-9)
    assert model.starts_[0] == 0 and model.starts_[1] == 1 and model.nodes_[0]["child"] == 0
    F = np.full(len(y), F_0)
    for t in range(1, model.n_iter_ + 1):
        _, g, *h = naive_loss(loss, y, F, delta)
        g, h = w * g, w * h[0] if order == 2 else w
        params = gradient_boosting.TreeParams(
            l2=p["l2"], max_depth=p["max_depth"], max_leaves=p["max_leaf_nodes"],
            min_leaf=p["min_samples_leaf"], min_weight=p["min_child_weight"] * (1 - 1e-9),
        )  # fmt: skip
        nodes = model.nodes_[model.starts_[t] : model.starts_[t + 1]]

        def settle(k, F=F):
            return naive_kink(loss, y[k], F[k], w[k], np.ones(len(k)))

        settle = settle if loss in PIECEWISE_LINEAR else None
        top = naive.root(X, g, h, params)
        tree, leaves, splits, ties = naive.certify(nodes, top, settle, RTOL)
        step, found = 1.0, model.weights_[t] / rate
        if order == 1 and loss not in PIECEWISE_LINEAR and np.abs(tree).max() > 1e-9:
            endless = callable(loss) and isinstance(model, GradientBoosting)
            endless |= loss in ("log", "exponential")
            penalty = p["l2"] * leaves @ leaves if endless else 0.0
            step = naive_step(loss, y, F, w, tree, penalty, delta)
            if step is None:
                assert np.isfinite(found) and found >= 0
                return
            least = w @ naive_loss(loss, y, F + step * tree, delta)[0] + penalty * step**2 / 2
            ours = w @ naive_loss(loss, y, F + found * tree, delta)[0] + penalty * found**2 / 2
            assert ours <= least * (1 + 1e-9)
            if loss == "huber" or callable(loss):  # it need not be unique
                step = found
        elif order == 1 and loss not in PIECEWISE_LINEAR:
            step = found
        assert_allclose(found, step, rtol=RTOL)
        F = F + rate * step * tree
        assert_allclose(
            model.trace_[t - 1], np.average(naive_loss(loss, y, F, delta)[0], weights=w), rtol=1e-8
        )
        for name, count in (("trees", 1), ("splits", splits), ("ties", ties)):
            tally[name] += count
    assert_allclose(model.votes(X) @ model.weights_, F, rtol=RTOL, atol=1e-8)


def random_problem(seed, regression):
    """Rows, target, weights and parameters: few or many values, gaps, weights, limits by turns."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(15, 61)), int(rng.integers(1, 6))
    X = rng.normal(size=(n, d)) * 2
    X = X.round(int(rng.integers(0, 2))) if seed % 3 else X
    signal = np.where(X[:, 0] > 0, 1.0, -1.0) + 0.7 * X[:, -1] + rng.normal(size=n)
    y = signal + rng.standard_t(2, size=n) if regression else np.where(signal > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    if seed % 4 == 1:
        X[rng.random((n, d)) < 0.2] = np.nan
    w = rng.uniform(0.2, 3.0, size=n) if seed % 2 else None
    params = dict(
        n_estimators=4,
        learning_rate=float(rng.choice([0.1, 0.5, 0.9])),
        max_depth=[1, 2, 3, 4, 6, None][seed % 6],
        max_leaf_nodes=int(rng.integers(2, 9)) if seed % 5 == 0 else None,
        min_samples_leaf=int(rng.choice([1, 1, 2, 5])),
        min_child_weight=float(rng.choice([0.0, 0.0, 1.0, 2.0])),
        l2=float(rng.choice([0.0, 1.0, 10.0])),
        max_bins=256 if rng.random() < 0.5 else None,
    )
    if regression:
        params["delta"] = [None, 0.3, 1.0, 3.0][rng.integers(4)]
    return X, y, w, params


def waves(n=300, d=4, seed=0, noise=0.3):
    """A target that rises and falls in the first two features."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 0] + 0.5 * X[:, 1] ** 2 + noise * rng.normal(size=n)


def data_for(cls, n=300, **more):
    X, y = waves(n, **more)
    return X, (np.where(y > np.median(y), 1, -1) if cls is GradientBoosting else y)


def log_loss(p, positive):
    return -np.mean(np.log(np.where(positive, p, 1 - p)))


# -- correct: against something that shares no code -----------------------------------------------
LOSSES = [(GradientBoosting, loss) for loss in ("log", "exponential", "squared", "hinge")]
LOSSES += [(GradientBoostingRegressor, loss) for loss in ("squared", "huber", "absolute")]
CASES = [(*pair, order) for pair in LOSSES for order in (2, 1)]
CASES.remove((GradientBoostingRegressor, "absolute", 2))
CASES.remove((GradientBoosting, "hinge", 2))


def focal(y, F):
    """The focal loss (1 - p)^2 (-log p), p the probability of y; its curvature is bounded by 2."""
    p = 1 / (1 + np.exp(-y * F))
    slope = (1 - p) ** 2 * (2 * p * np.log(p) - (1 - p))
    return -((1 - p) ** 2) * np.log(p), y * slope, np.full(len(y), 2.0)


def pinball(y, F):
    """The loss of the quantile at 80 %; it has no curvature."""
    r = y - F
    return np.maximum(0.8 * r, -0.2 * r), np.where(r > 0, -0.8, 0.2)


GIVEN = [(GradientBoosting, focal, 1), (GradientBoosting, focal, 2)]
GIVEN += [(GradientBoostingRegressor, pinball, 1)]


@pytest.mark.uncompiled
@pytest.mark.parametrize(("cls", "loss", "order"), CASES + GIVEN)
def test_matches_naive_tree_by_tree(cls, loss, order):
    tally = {"trees": 0, "splits": 0, "ties": 0}
    for seed in range(18):
        X, y, w, params = random_problem(seed, cls is GradientBoostingRegressor)
        if callable(loss) or (order == 1 and cls is GradientBoosting):
            params["min_samples_leaf"] = 5  # trees without error have no best step
        if loss is pinball:
            del params["delta"]
            y = y.clip(-4, 4)
        model = cls(loss=loss, order=order, **params).fit(X, y, w)
        naive_boosting(model, X, y, np.ones(len(y)) if w is None else w, tally)
    least, most = ((30, 30), 0.02) if callable(loss) else ((50, 150), 0.01)
    assert tally["trees"] > least[0] and tally["splits"] > least[1], tally
    assert tally["ties"] <= most * tally["splits"], tally


@pytest.mark.uncompiled
def test_splits_that_the_naive_code_would_miss_are_found_to_be_wrong():
    """The comparison itself can fail: every field of every kind of node matters."""
    X, y, w, params = random_problem(1, True)
    w = np.ones(len(y)) if w is None else w
    params |= {"max_depth": 3, "max_leaf_nodes": None, "min_samples_leaf": 1}
    for field, t in itertools.product(("threshold", "value", "feature", "missing_left"), (1, 4)):
        model = GradientBoostingRegressor(**params).fit(X, y, w)
        naive_boosting(model, X, y, w, {"trees": 0, "splits": 0, "ties": 0})
        node = model.nodes_[model.starts_[t] :][: 1 if field != "value" else None]
        k = 0 if field != "value" else np.flatnonzero(node["child"] == 0)[0]
        changed = {
            "threshold": 1e3,
            "value": node["value"][k] * (1 + 1e-5),
            "feature": (node["feature"][k] + 1) % X.shape[1],
            "missing_left": 1 - node["missing_left"][k],
        }
        node[field][k] = changed[field]
        with pytest.raises(AssertionError):
            naive_boosting(model, X, y, w, {"trees": 0, "splits": 0, "ties": 0})


def test_first_order_is_scikit_learns_gradient_boosting():
    """Least squares: the best step is 1, or more to make up for leaves that l2 shrinks."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y = waves(200)
    params = dict(n_estimators=30, learning_rate=0.2, max_depth=3, min_samples_leaf=4)
    model = GradientBoostingRegressor(order=1, l2=0.0, max_bins=None, **params).fit(X, y)
    peer = ensemble.GradientBoostingRegressor(random_state=0, **params).fit(X, y)
    assert_allclose(model.weights_[1:], 0.2, rtol=1e-9)
    for ours, theirs in zip(model.staged_predict(X), peer.staged_predict(X), strict=True):
        assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    shrunk = GradientBoostingRegressor(order=1, l2=3.0, **params).fit(X, y)
    assert (shrunk.weights_[1:] > 0.2).all()


# -- as good as others: the same trees, but for ties and rounding ---------------------------------
# Few values a feature, so that all bin them alike. Deeper trees with leaves of one row fit these
# few rows down to a loss of 0.01, of which every tie that is broken otherwise moves more than 1 %.
SETS = ("sonar", "heart", "german-numer", "letter-ab", "titanic", "house-votes")
SAME = dict(n_estimators=100, learning_rate=0.1, max_depth=3)
PEERS = {  # LightGBM takes the number of rows in a leaf from their curvature: no match is exact.
    "sklearn.ensemble.HistGradientBoostingClassifier": dict(
        max_iter=100, learning_rate=0.1, max_depth=3, max_leaf_nodes=None, min_samples_leaf=1,
        l2_regularization=1.0, early_stopping=False,
    ),
    "lightgbm.LGBMClassifier": dict(
        **SAME, num_leaves=8, reg_lambda=1.0, min_child_samples=1, min_child_weight=1e-12,
        max_bin=255, min_data_in_bin=1, feature_pre_filter=False, n_jobs=1, verbose=-1,
    ),
    "xgboost.XGBClassifier": dict(
        **SAME, reg_lambda=1.0, min_child_weight=0, tree_method="hist", max_bin=256, n_jobs=1
    ),
}  # fmt: skip


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("name", SETS)
def test_log_loss_is_that_of_others(name, peer):
    module, _, kind = peer.rpartition(".")
    data = datasets.load(name)
    X, y = np.asarray(data.X), (data.y == np.unique(data.y)[1]).astype(int)
    more = {"base_score": y.mean()} if module == "xgboost" else {}
    theirs = getattr(pytest.importorskip(module), kind)(**PEERS[peer], **more).fit(X, y)
    p = theirs.booster_.predict(X) if module == "lightgbm" else theirs.predict_proba(X)[:, 1]
    model = GradientBoosting(**SAME, min_child_weight=0.0, l2=1.0).fit(X, y)
    loss = log_loss(model.predict_proba(X)[:, 1], y == 1)
    assert_allclose(loss, model.objective_, rtol=1e-9)
    assert_allclose(loss, log_loss(p, y == 1), rtol=0.01)


# -- Algorithm 2 in full: hinge, a loss that is given, any base -----------------------------------
def given(loss, delta=1.0):
    """A loss that has a name, as a function."""
    return lambda y, F: naive_loss(loss, y, F, delta)


def naive_algorithm_2(model, base, loss, X, y, w, delta=1.0):
    """Algorithm 2 as it is printed, with copies of the base: votes of all members, their weights
    and the loss after each round. y is -1 or 1 for a classifier."""
    from sklearn.base import clone

    votes, weights, losses = [np.full(len(y), naive_start(loss, y, w, delta))], [1.0], []
    for t in range(model.n_estimators):
        F = np.array(votes).T @ weights
        _, g, h = naive_loss(loss, y, F, delta)
        member = clone(base)
        if "random_state" in member.get_params():  # of equal splits a tree of theirs draws one
            member.set_params(random_state=model.estimators_[t].random_state)
        if model.order == 2:
            h_t = member.fit(X, -g / h, sample_weight=w * h).predict(X)
            alpha = 1.0
        else:
            h_t = member.fit(X, -g, sample_weight=w).predict(X)
            if loss in PIECEWISE_LINEAR:
                alpha = max(0.0, naive_kink(loss, y, F, w, h_t))
            else:
                alpha = naive_step(loss, y, F, w, h_t, 0.0, delta)
        votes.append(h_t)
        weights.append(model.learning_rate * alpha)
        F = np.array(votes).T @ weights
        losses.append(np.average(naive_loss(loss, y, F, delta)[0], weights=w))
    return np.array(votes).T, np.array(weights), np.array(losses)


@pytest.mark.parametrize("kind", ["Ridge", "DecisionTreeRegressor"])
@pytest.mark.parametrize(("cls", "loss", "order"), CASES)
def test_any_base_is_algorithm_2(cls, loss, order, kind):
    linear_model, tree = (pytest.importorskip(f"sklearn.{n}") for n in ("linear_model", "tree"))
    base = linear_model.Ridge(2.0) if kind == "Ridge" else tree.DecisionTreeRegressor(max_depth=2)
    for seed in range(3):
        X, y = data_for(cls, 90, seed=seed, noise=2.0)
        w = np.random.default_rng(seed).uniform(0.5, 2.0, 90)
        delta = {"delta": 0.7} if loss == "huber" else {}
        model = cls(loss=loss, order=order, base=base, n_estimators=6, learning_rate=0.3, **delta)
        model.fit(X, y, w)
        votes, weights, losses = naive_algorithm_2(model, base, loss, X, y, w, *delta.values())
        assert model.n_iter_ == 6 and len(model.estimators_) == 6 and base not in model.estimators_
        assert_allclose(model.weights_, weights, rtol=RTOL)
        assert_allclose(model.votes(X), votes, rtol=RTOL, atol=1e-7)
        assert_allclose(model.trace_, losses, rtol=1e-7)
        final = model.predict(X) if cls is GradientBoostingRegressor else model.decision_function(X)
        assert_allclose(final, model.votes(X) @ model.weights_, rtol=1e-12, atol=1e-12)
        first = np.average(naive_loss(loss, y, votes[:, 0], *delta.values())[0], weights=w)
        assert (np.diff([first, *losses]) < 0).all()
        assert model.reason_ == "all members were trained"
        assert not hasattr(model, "feature_importances_")


@pytest.mark.uncompiled
def test_the_line_search_of_kinks_is_exact():
    """Every kink is tried by hand; steps in both directions, and rows that do not move."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 12))
        y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
        F, step, w = rng.normal(size=n).round(1), rng.normal(size=n).round(1), rng.integers(1, 4, n)
        w = w.astype(float)
        for loss in PIECEWISE_LINEAR:
            found = gradient_boosting._best_step(loss, F, y, w, step)
            expected = naive_kink(loss, y, F, w, step)
            assert_allclose(found, expected, rtol=1e-12, atol=1e-12, err_msg=f"{seed} {loss}")


NAMED = [case for case in CASES if case[1] not in PIECEWISE_LINEAR]


@pytest.mark.parametrize(("cls", "loss", "order"), NAMED)
def test_losses_with_names_are_the_same_when_given(cls, loss, order):
    X, y = data_for(cls, 200)
    X[::7, 1] = np.nan
    w = np.random.default_rng(0).uniform(0.5, 2.0, 200)
    params = dict(order=order, n_estimators=10, max_depth=3, subsample=0.9, random_state=0)
    if cls is GradientBoosting and loss == "squared":
        params["l2"] = 0.0  # a loss that is given might fall for ever: l2 keeps its steps finite
    delta = {"delta": 0.5} if loss == "huber" else {}
    named = cls(loss=loss, **params, **delta).fit(X, y, w)
    ours = cls(loss=given(loss, *delta.values()), **params).fit(X, y, w)
    assert_array_equal(ours.nodes_["feature"], named.nodes_["feature"])
    assert_array_equal(ours.nodes_["threshold"], named.nodes_["threshold"])
    assert_allclose(ours.nodes_["value"], named.nodes_["value"], rtol=1e-7, atol=1e-9)
    assert_allclose(ours.weights_, named.weights_, rtol=1e-8)
    assert_allclose(ours.trace_, named.trace_, rtol=1e-9)
    assert_array_equal(ours.predict(X) > 0, named.predict(X) > 0)


def test_a_given_loss_is_called_once_a_round_with_what_it_may_not_change():
    X, y = waves(50)
    calls = []

    def squared(y, F):
        calls.append((len(y), y.flags.writeable))
        value, gradient = (y - F) ** 2 / 2, F - y
        F[:] = np.nan  # the scores are a copy
        return value, gradient, np.ones(len(y), dtype=np.float32)

    expected = GradientBoostingRegressor(n_estimators=9).fit(X, y)
    model = GradientBoostingRegressor(loss=squared, n_estimators=9).fit(X, y)
    assert_allclose(model.predict(X), expected.predict(X), rtol=1e-9)
    n_start = len(calls) - 9
    assert set(calls) == {(50, False)} and n_start < 40
    GradientBoostingRegressor(loss=squared, n_estimators=4).fit(X, y)
    assert len(calls) - 9 - n_start == n_start + 4


@pytest.mark.uncompiled
@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize(
    ("loss", "order", "text"),
    [
        (lambda y, f: f - y, 1, "loss must return a tuple of value and gradient, got ndarray"),
        (lambda y, f: (f, f), 2, "order=2 needs a loss that returns value, gradient and curvature, "
         "got 2 arrays; set order=1"),
        (lambda y, f: (f.sum(), f), 1, r"a value of shape \(40,\).*, got shape \(\)"),
        (lambda y, f: (f, f[:-1]), 1, r"a gradient of shape \(40,\).*, got shape \(39,\)"),
        (lambda y, f: (f, f + 1j), 1, "a gradient .* dtype complex128"),
        (lambda y, f: (f, f, 1.0), 2, r"a curvature .* got shape \(\)"),
        (lambda y, f: (f * np.nan, f - y), 1, "what loss returns must be finite, .* values of nan"),
        (lambda y, f: (f, f - y, f + np.nan), 2, "must be finite, .* curvatures of nan"),
        (lambda y, f: (f, f - y, -np.ones(len(y))), 2, "order=2 needs curvatures >= 0, got -1 "),
        (lambda y, f: (f, f - y, 0 * y), 2, "needs a curvature, but loss returns 0 for all rows"),
    ],
)  # fmt: skip
def test_what_a_given_loss_returns_is_checked(loss, order, text, cls):
    model = cls(loss=loss, order=order)
    with pytest.raises(ValueError, match=f"{cls.__name__}: .*{text}"):
        model.fit(*data_for(cls, 40))
    assert not hasattr(model, "converged_")


def test_a_given_loss_may_overflow_on_the_way_of_a_line_search():
    """The first steps that are tried are far too long for this loss."""
    X, y = data_for(GradientBoosting, 100)

    def steep(y, F):
        e = np.exp(-200 * y * F)
        return e, -200 * y * e

    model = GradientBoosting(loss=steep, order=1, n_estimators=10, max_depth=2).fit(X, y)
    assert np.isfinite(model.trace_).all() and (np.diff(model.trace_) < 0).all()
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("loss", ["hinge", focal])
def test_losses_without_probabilities(loss):
    metrics = pytest.importorskip("sklearn.metrics")
    X, y = data_for(GradientBoosting, 150)
    model = GradientBoosting(loss=loss, order=1, n_estimators=20).fit(X, y)
    for name in ("predict_proba", "staged_predict_proba"):
        assert not hasattr(model, name) and hasattr(GradientBoosting, name)
        with pytest.raises(AttributeError, match="no probabilities; Calibrated"):
            getattr(model, name)
    F = model.decision_function(X)
    assert_array_equal(model.predict(X), np.where(F >= 0, 1, -1))
    area = metrics.get_scorer("roc_auc")
    assert area(model, X, y) == metrics.roc_auc_score(y, F) > 0.95


def test_hinge_leaves_its_kink_and_ends_at_0():
    """The best constant has all rows of the larger class at their kinks."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    data = datasets.load("german-numer")
    for base, least in ((linear_model.Ridge(), 0.55), ("tree", 0.45)):
        model = GradientBoosting("hinge", order=1, base=base, n_estimators=30, max_depth=4)
        model.fit(data.X, data.y)
        assert np.abs(model.votes(data.X)[:, 0]).max() == 1.0
        assert model.objective_ < least and (np.diff(model.trace_) <= 1e-12).all()
    X, y = blobs(40, 2, distance=20.0)  # soon all rows are beyond their margins
    model = GradientBoosting("hinge", order=1, learning_rate=1.0, n_estimators=50).fit(X, y)
    assert model.objective_ == 0.0 and model.n_iter_ <= 2 and "no split" in model.reason_
    assert_array_equal(np.unique(model.decision_function(X)), [-1.0, 1.0])


class Mean:
    """A regressor of one's own: the mean of its rows, whatever X is; it takes no weights."""

    def fit(self, X, y):
        self.rows_, self.mean_ = X.shape, y.mean()
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


class Odd(Mean):
    """Regressor whose predictions are those of a function."""

    def __init__(self, answer):
        self.answer = answer

    def predict(self, X):
        return self.answer(len(X))


@pytest.mark.uncompiled
def test_any_object_with_fit_and_predict():
    X, y = waves(60)
    model = GradientBoostingRegressor(base=Mean(), order=1, n_estimators=5).fit(X, y)
    assert_allclose(model.predict(X), y.mean(), rtol=1e-12)
    with pytest.raises(ValueError, match="Mean takes no sample_weight in fit: set order=1, or"):
        GradientBoostingRegressor(base=Mean()).fit(X, y)
    with pytest.raises(ValueError, match="Mean takes no sample_weight in fit: leave out"):
        GradientBoostingRegressor(base=Mean(), order=1).fit(X, y, np.arange(60.0))
    for answer, text in (
        (lambda n: np.full(n, np.nan), "number below .* got NaN or a larger one"),
        (lambda n: np.full((n, 1), 1.0), r"got shape \(60, 1\)"),
        (lambda n: np.full(n, "up"), "dtype <U2"),
        (lambda n: np.full(n, 1e200), "got NaN or a larger one"),
    ):
        with pytest.raises(ValueError, match=f"predict of Odd must return .*{text}"):
            GradientBoostingRegressor(base=Odd(answer), order=1).fit(X, y)
    still = GradientBoostingRegressor(base=Odd(np.zeros), order=1).fit(X, y)
    assert still.n_iter_ == 1 and still.reason_ == "no member lowers the loss"
    missing = np.where(X > 1.9, np.nan, X)
    assert GradientBoostingRegressor(base=Mean(), order=1).fit(missing, y).n_iter_ > 0


@pytest.mark.uncompiled
@pytest.mark.parametrize("cls", BOTH)
def test_errors_of_the_base(cls):
    linear_model = pytest.importorskip("sklearn.linear_model")
    for params, text in (
        ({"base": "stump"}, "base must be 'tree' or an object with fit and predict, got 'stump'"),
        ({"base": GradientBoosting()}, "base must do regression, .* GradientBoosting is a classi"),
        ({"base": Mean(), "monotonic_cst": [1, 0, 0, 0]}, "monotonic_cst is for trees"),
    ):
        with pytest.raises(ValueError, match=f"{cls.__name__}: {text}"):
            cls(**params).fit(*data_for(cls, 30))
    X, y = data_for(GradientBoosting, 30)
    with pytest.raises(ValueError, match="LogisticRegression is a classifier"):
        GradientBoosting(base=linear_model.LogisticRegression()).fit(X, y)
    with pytest.raises(ValueError, match="the hinge loss has no curvature, .* order=1, or .*'log'"):
        GradientBoosting("hinge").fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        GradientBoosting(base=linear_model.Ridge()).fit(np.where(X > 1.5, np.nan, X), y)


@pytest.mark.parametrize("cls", BOTH)
def test_objects_are_drawn_for_stopped_early_and_shown(cls):
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y = data_for(cls, 200)
    seen = []

    def look(model, t, info):
        assert len(model.estimators_) == t and model.weights_.size == t + 1
        seen.append(model.score(X, y))

    params = dict(base=linear_model.Ridge(), n_estimators=30, random_state=0, callback=look)
    model = cls(subsample=0.5, max_features=2, **params).fit(X, y)
    assert model.estimators_features_.shape == (30, 2) and model.n_iter_ == 30
    for t, columns in enumerate(model.estimators_features_):
        part = model.estimators_[t].predict(X[:, columns])
        assert_array_equal(model.votes(X)[:, t + 1], part)
    assert len(seen) == 30 and seen[-1] == model.score(X, y)
    assert len({tuple(columns) for columns in model.estimators_features_}) > 3

    model = cls(early_stopping=True, learning_rate=0.9, **params).fit(X, y)
    best = int(np.argmin(model.validation_trace_)) + 1
    assert model.n_iter_ == best == len(model.estimators_) == model.weights_.size - 1


# -- shaped like the mathematics ------------------------------------------------------------------
@pytest.mark.parametrize(("cls", "loss", "order"), CASES)
def test_objective_trace_and_stages(cls, loss, order):
    X, y = data_for(cls)
    X[::7, 2] = np.nan
    w = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    model = cls(loss=loss, order=order, n_estimators=15, max_depth=3).fit(X, y, w)
    votes, delta = model.votes(X), getattr(model, "delta_", None)
    assert votes.shape == (300, 16) and model.weights_.shape == (16,) and model.weights_[0] == 1.0
    assert (model.weights_ >= 0).all() and (votes[:, 0] == votes[0, 0]).all()
    if order == 2:
        assert_allclose(model.weights_[1:], 0.1, rtol=1e-15)
    stage = model.staged_predict if cls is GradientBoostingRegressor else None
    stages = [*(stage or model.staged_decision_function)(X)]
    assert len(stages) == len(model.trace_) == model.n_iter_ == 15
    for t, F in enumerate(stages):
        assert_allclose(F, votes[:, : t + 2] @ model.weights_[: t + 2], atol=1e-12)
        loss_now = np.average(naive_loss(loss, y, F, delta)[0], weights=w)
        assert_allclose(model.trace_[t], loss_now, rtol=1e-9)
    final = model.predict(X) if stage else model.decision_function(X)
    assert_allclose(stages[-1], final, rtol=1e-12, atol=1e-12)
    assert model.objective_ == model.trace_[-1] and model.residual_ is None and model.converged_
    start = np.average(naive_loss(loss, y, votes[:, 0], delta)[0], weights=w)
    assert model.objective_ < 0.8 * start
    if order == 1:
        assert (np.diff(np.append(start, model.trace_)) <= 1e-12 * start).all()


@pytest.mark.parametrize("loss", ["log", "exponential", "squared"])
def test_probabilities(loss):
    X, y = data_for(GradientBoosting)
    labels = np.where(y > 0, "up", "down")
    model = GradientBoosting(loss=loss, n_estimators=40).fit(X, labels)
    F, p = model.decision_function(X), model.predict_proba(X)
    if loss == "squared":
        expected = np.clip((F + 1) / 2, 0, 1)
        assert (np.abs(F) > 1).any()
    else:
        expected = 1 / (1 + np.exp(-F * {"log": 1, "exponential": 2}[loss]))
    assert_allclose(p[:, 1], expected, rtol=1e-12, atol=1e-15)
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-15)
    assert_array_equal(model.predict(X), np.where(F >= 0, "up", "down"))
    assert list(model.classes_) == ["down", "up"] and model.score(X, labels) > 0.9
    stages = [*zip(model.staged_predict(X), model.staged_predict_proba(X), strict=True)]
    assert len(stages) == 40
    for labels_now, p_now in stages:
        assert_array_equal(labels_now, np.where(p_now[:, 1] >= 0.5, "up", "down"))
    assert_array_equal(labels_now, model.predict(X))
    assert_allclose(p_now, p, rtol=1e-12, atol=1e-15)


@pytest.mark.uncompiled
def test_probabilities_of_far_away_scores():
    X, y = blobs(40, 1, distance=20.0)
    params = dict(n_estimators=60, learning_rate=1.0, l2=0.0, min_samples_leaf=1)
    for loss, order in itertools.product(("log", "exponential"), (2, 1)):
        model = GradientBoosting(loss=loss, order=order, **params).fit(X, y)
        p = model.predict_proba(X)
        assert ((p >= 0) & (p <= 1)).all() and model.score(X, y) == 1.0
        for values in (model.decision_function(X), model.trace_, model.weights_):
            assert np.isfinite(values).all()
    params |= {"subsample": 0.1, "random_state": 0}  # rows that are all settled: no Newton step
    assert np.isfinite(GradientBoosting(**params).fit(X, y).decision_function(X)).all()
    for cls in BOTH:  # no leaf can be as heavy
        model = cls(n_estimators=2, min_child_weight=1e300).fit(X, y)
        assert (np.diff(model.starts_) == 1).all()


@pytest.mark.parametrize(("cls", "loss", "order"), CASES)
@pytest.mark.parametrize("max_bins", [256, 20, None])
def test_weights_are_repeated_and_removed_rows_among_many_values(cls, loss, order, max_bins):
    """More values than bins: then the weights also decide where these end."""
    X, y = data_for(cls, 700)
    X[::9, 1] = np.nan
    count = np.random.default_rng(1).integers(0, 4, size=700)
    params = dict(loss=loss, order=order, n_estimators=6, max_depth=4, max_bins=max_bins)
    weighted = cls(**params).fit(X, y, count.astype(float))
    repeated = cls(**params).fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    assert_allclose(weighted.votes(X), repeated.votes(X), rtol=1e-7, atol=1e-9)
    assert_allclose(weighted.weights_, repeated.weights_, rtol=1e-7)
    assert_allclose(weighted.trace_, repeated.trace_, rtol=1e-9)
    if loss != "hinge":  # its leaves have no l2, which weighs less here
        heavy = cls(**params).fit(X, y, 2.0 * count)
        assert np.abs(heavy.votes(X) - weighted.votes(X)).max() > 1e-6
    if max_bins == 20:
        cuts = weighted.nodes_["threshold"][weighted.nodes_["child"] > 0]
        assert np.unique(cuts).size <= 4 * 19
    part = np.where(count > 0, count + 0.5, 0.0)
    zero = cls(**params).fit(X, y, part)
    removed = cls(**params).fit(X[count > 0], y[count > 0], part[count > 0])
    assert_allclose(zero.votes(X), removed.votes(X), rtol=1e-7, atol=1e-9)
    assert_allclose(zero.trace_, removed.trace_, rtol=1e-9)


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("order", [2, 1])
def test_weight_0_is_a_removed_row_for_early_stopping_and_limits(cls, order):
    X, y = data_for(cls, 150)
    w = np.where(np.arange(150) % 3 > 0, 1.0 + np.arange(150) % 2, 0.0)
    params = dict(order=order, n_estimators=40, max_depth=3, min_samples_leaf=5, learning_rate=0.3)
    for more in ({}, dict(early_stopping=True, random_state=0, validation_fraction=0.3)):
        zero = cls(**params, **more).fit(X, y, w)
        removed = cls(**params, **more).fit(X[w > 0], y[w > 0], w[w > 0])
        assert_allclose(zero.votes(X), removed.votes(X), rtol=1e-7, atol=1e-9)
        assert_allclose(zero.trace_, removed.trace_, rtol=1e-9)
    assert_allclose(zero.validation_trace_, removed.validation_trace_, rtol=1e-9)


@pytest.mark.uncompiled
def test_early_stopping_weighs_the_rows_held_out():
    """The best round by the weighted loss of these rows, which are drawn here once more."""
    X, y = data_for(GradientBoosting, 300, noise=2.0)
    w = np.random.default_rng(3).uniform(0.01, 3.0, 300) ** 3
    params = dict(early_stopping=True, validation_fraction=0.4, learning_rate=0.3, random_state=2)
    model = GradientBoosting(n_estimators=30, n_iter_no_change=30, **params).fit(X, y, w)
    drawn, held_out = np.random.default_rng(2), np.zeros(300, dtype=bool)
    for label in (-1, 1):
        rows = np.flatnonzero(y == label)
        held_out[drawn.permutation(rows)[: round(0.4 * rows.size)]] = True
    whole = GradientBoosting(n_estimators=30, learning_rate=0.3)
    whole.fit(X[~held_out], y[~held_out], w[~held_out])
    found = [
        np.average(np.logaddexp(0, -y * F)[held_out], weights=w[held_out])
        for F in whole.staged_decision_function(X)
    ]
    assert_allclose(model.validation_trace_, found, rtol=1e-9)
    assert model.n_iter_ == 1 + np.argmin(found)


def test_class_weights_alone_decide_where_bins_end():
    X, y = data_for(GradientBoosting, 700)
    model = GradientBoosting(n_estimators=5, max_bins=20, class_weight={1: 9.0}).fit(X, y)
    same = GradientBoosting(n_estimators=5, max_bins=20).fit(X, y, np.where(y > 0, 9.0, 1.0))
    assert_allclose(model.votes(X), same.votes(X), rtol=1e-7, atol=1e-12)


@pytest.mark.uncompiled
@pytest.mark.parametrize("cls", BOTH)
def test_weights_that_are_too_small_warn(cls):
    X, y = data_for(cls, 50)
    each = 1.0 if cls is GradientBoostingRegressor else 0.25  # second derivative at the start
    for total in (0.5, 1.99):  # a leaf may reach 1 then, yet not two of them
        text = f"{cls.__name__}: no tree can have a split.*weigh {total}.*scale sample_weight"
        with pytest.warns(UserWarning, match=text):
            model = cls().fit(X, y, np.full(50, total / each / 50))
        assert model.nodes_.size == model.n_iter_ + 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cls().fit(X, y, np.full(50, 1.0))
        cls(min_child_weight=0.0).fit(X, y, np.full(50, 0.01))


@pytest.mark.parametrize("loss", ["squared", "huber", "absolute"])
@pytest.mark.parametrize(
    ("scale", "shift"), [(1e6, 0.0), (1e-6, 0.0), (1.0, 1e6), (1e6, 1e9), (1e-6, 1.0)]
)
def test_regression_does_not_depend_on_the_unit(loss, scale, shift):
    X, y = waves(200)
    params = dict(n_estimators=20, learning_rate=0.3, order=1 if loss == "absolute" else 2)
    base = GradientBoostingRegressor(loss=loss, **params).fit(X, y)
    moved = GradientBoostingRegressor(loss=loss, **params).fit(X, scale * y + shift)
    assert base.score(X, y) > 0.7
    if loss == "huber":
        assert_allclose(base.delta_, np.median(np.abs(y - np.median(y))), rtol=1e-12)
        assert_allclose(moved.delta_, scale * base.delta_, rtol=1e-6)
    assert_allclose((moved.predict(X) - shift) / scale, base.predict(X), rtol=1e-6, atol=1e-6)
    assert_allclose(moved.score(X, scale * y + shift), base.score(X, y), rtol=1e-6)


def test_huber_with_a_tiny_delta():
    """Without residuals within delta the loss has no curvature, and is absolute."""
    X, y = waves(201)
    params = dict(n_estimators=10, learning_rate=0.3, max_depth=3)
    first = GradientBoostingRegressor(loss="huber", delta=1e-7, order=1, **params).fit(X, y)
    second = GradientBoostingRegressor(loss="huber", delta=1e-7, **params).fit(X, y)
    for model in (first, second):
        assert model.n_iter_ == 10 and (np.diff(model.trace_) < 0).all()
        mean = np.mean(np.abs(y - model.predict(X)))
        assert_allclose(model.objective_, 1e-7 * mean, rtol=1e-6)
    assert first.score(X, y) > 0.7 and np.ptp(second.predict(X)) <= 10 * 0.3 * 2e-7
    X, _ = waves(300)
    y = np.where(X[:, 0] > 1.2, 1e3 * X[:, 0], 0.0)  # rows at the median do not count for delta
    assert np.mean(y == 0) > 0.7
    model = GradientBoostingRegressor(loss="huber").fit(X, y)
    assert_allclose(model.delta_, np.median(y[y > 0]))
    assert model.score(X, y) > 0.9


def test_absolute_loss_is_scikit_learns():
    """Medians in the leaves of trees that are fitted to the signs. Weights break the ties of both
    the splits and the medians; those below and above the first median are the same, so that no row
    is at it: the two differ about the sign of 0."""
    ensemble, dummy = (pytest.importorskip(f"sklearn.{name}") for name in ("ensemble", "dummy"))
    X, y = waves(150)
    w, rank = np.tile(np.random.default_rng(0).uniform(0.5, 1.5, 75), 2), np.argsort(y)
    X, y = X[rank], y[rank]
    params = dict(n_estimators=12, learning_rate=0.3, max_depth=3, min_samples_leaf=4)
    model = GradientBoostingRegressor("absolute", order=1, l2=0.0, max_bins=None, **params)
    model.fit(X, y, w)
    start = dummy.DummyRegressor(strategy="constant", constant=0.5 * (y[74] + y[75]))
    peer = ensemble.GradientBoostingRegressor(
        loss="absolute_error", init=start, random_state=0, **params
    ).fit(X, y, w)
    for ours, theirs in zip(model.staged_predict(X), peer.staged_predict(X), strict=True):
        assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    assert_array_equal(model.weights_[1:], 0.3)


# -- steps of order 1 -----------------------------------------------------------------------------
@pytest.mark.parametrize("loss", ["log", "exponential"])
def test_first_order_is_bounded_on_separable_rows(loss):
    """l2 bounds the step; without it there is no best one, and a warning says so."""
    X, y = blobs(400, 5, distance=3.0)
    train, test = slice(0, 200), slice(200, 400)
    model = GradientBoosting(loss, order=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X[train], y[train])
    assert model.score(X[train], y[train]) == 1.0
    assert log_loss(model.predict_proba(X[test])[:, 1], y[test] > 0) < 0.4  # once 2.3 and more
    assert np.abs(model.decision_function(X)).max() < 10
    text = "in 3 of 3 rounds, since a tree .*set l2 above 0, or order=2"
    with pytest.warns(UserWarning, match=text):
        GradientBoosting(loss, order=1, l2=0.0, n_estimators=3).fit(X[train], y[train])
    base = pytest.importorskip("sklearn.tree").DecisionTreeRegressor()
    model = GradientBoosting(loss, order=1, n_estimators=3, base=base)
    with pytest.warns(UserWarning, match="in 3 of 3 rounds, since the loss has no minimum"):
        model.fit(X[train], y[train])
    assert np.isfinite(model.decision_function(X)).all()
    mixed = np.where(np.arange(200) % 7 == 0, -y[train], y[train])
    with warnings.catch_warnings():  # no tree of depth 2 separates these
        warnings.simplefilter("error")
        GradientBoosting(loss, order=1, l2=0.0, max_depth=2, n_estimators=5).fit(X[train], mixed)


@pytest.mark.uncompiled
@pytest.mark.parametrize("value", [0.0, -3.25, 1e9, 1e-9])
@pytest.mark.parametrize(
    ("loss", "order"), [("squared", 2), ("squared", 1), ("huber", 2), ("absolute", 1)]
)
def test_constant_target(loss, order, value):
    X, _ = waves(60)
    model = GradientBoostingRegressor(loss=loss, order=order).fit(X, np.full(60, value))
    assert_array_equal(model.predict(X), value)
    assert model.score(X, np.full(60, value)) == 1.0 and model.objective_ == 0.0


# -- limits and draws -----------------------------------------------------------------------------
def trees(model):
    return [model.nodes_[a:b] for a, b in itertools.pairwise(model.starts_)][1:]


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("order", [2, 1])
def test_rows_are_drawn(cls, order):
    X, y = data_for(cls, 100)
    params = dict(order=order, n_estimators=6, max_depth=3, min_samples_leaf=5)

    def votes(**more):
        return cls(**{**params, **more}).fit(X, y).votes(X)

    whole = votes(random_state=0)
    assert_array_equal(whole, votes(random_state=1))
    half = votes(subsample=0.5, random_state=0)
    assert_array_equal(half, votes(subsample=0.5, random_state=0))
    assert not np.array_equal(half, votes(subsample=0.5, random_state=1))
    assert not np.array_equal(half, whole)
    assert len({tuple(column) for column in half.T}) == 7  # each tree draws anew
    # 50 rows: exactly two leaves of 25, none of 26
    for least, splits in ((25, True), (26, False)):
        model = cls(**{**params, "min_samples_leaf": least}, subsample=0.5, random_state=0)
        assert (model.fit(X, y).nodes_["child"] > 0).any() == splits


@pytest.mark.uncompiled
@pytest.mark.parametrize(("cls", "loss", "order"), CASES)
def test_leaves_are_those_of_the_rows_drawn(cls, loss, order):
    """The first draw is that of the generator of this seed."""
    X, y = data_for(cls, 100)
    w = np.random.default_rng(1).uniform(0.5, 1.5, 100)
    params = dict(loss=loss, order=order, n_estimators=1, max_depth=3, min_samples_leaf=3)
    model = cls(subsample=0.4, random_state=7, **params).fit(X, y, w)
    rows = np.random.default_rng(7).choice(100, 40, replace=False, shuffle=False)
    start, tree = model.votes(X).T
    _, g, h = naive_loss(loss, y, start, getattr(model, "delta_", None))
    h = h if order == 2 else np.ones(100)
    for value in np.unique(tree):
        leaf = rows[tree[rows] == value]
        if loss in PIECEWISE_LINEAR:
            expected = naive_kink(loss, y[leaf], start[leaf], w[leaf], np.ones(leaf.size))
        else:
            expected = -(w * g)[leaf].sum() / ((w * h)[leaf].sum() + 1.0)
        assert leaf.size >= 3
        assert_allclose(value, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.uncompiled
@pytest.mark.parametrize("part", [0.1, 0.3, 1.0])
def test_medians_of_weights_that_are_no_whole_numbers(part):
    """Half of ten times 0.1 is not the sum of five of them; the median is in the middle still."""
    X, y = np.zeros((10, 1)), np.arange(10.0)
    for order, loss in ((1, "absolute"), (2, "huber")):
        model = GradientBoostingRegressor(loss, order=order).fit(X, y, np.full(10, part))
        assert_allclose(model.predict(X), 4.5, rtol=1e-12)
    assert_allclose(model.delta_, 2.5, rtol=1e-12)


@pytest.mark.parametrize("cls", BOTH)
def test_features_are_drawn(cls):
    X, y = data_for(cls, 200, d=6)
    y = y if cls is GradientBoosting else y + X @ np.ones(6)

    def fit(**more):
        return cls(n_estimators=30, max_depth=4, min_samples_leaf=2, **more).fit(X, y)

    for share, most in ((1, 1), (0.5, 3), (2, 2)):
        model = fit(max_features=share, random_state=0)
        used = [set(nodes["feature"][nodes["child"] > 0].tolist()) for nodes in trees(model)]
        assert max(len(features) for features in used) == most
        assert set.union(*used) == set(range(6))
        assert_array_equal(model.votes(X), fit(max_features=share, random_state=0).votes(X))
        assert not np.array_equal(model.votes(X), fit(max_features=share, random_state=1).votes(X))
    whole = fit(random_state=0).votes(X)
    for share in (1.0, 6):
        assert_array_equal(fit(max_features=share, random_state=1).votes(X), whole)


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("order", [2, 1])
def test_early_stopping_keeps_the_best_rounds(cls, order):
    X, y = data_for(cls, 300, noise=2.0)
    params = dict(order=order, learning_rate=0.3, n_estimators=200, min_samples_leaf=1)
    params |= dict(early_stopping=True, validation_fraction=0.3, n_iter_no_change=5)
    model = cls(random_state=0, **params).fit(X, y)
    T, trace = model.n_iter_, model.validation_trace_
    assert 1 <= T < 190 and model.converged_ and isinstance(model.reason_, str)
    assert trace[T - 1] == trace.min() and T <= len(trace) <= T + 5
    assert len(model.weights_) == len(model.starts_) - 1 == T + 1 == len(model.trace_) + 1
    assert model.starts_[-1] == len(model.nodes_) and model.trace_[-1] == model.objective_
    stages = [*model.staged_predict(X)]
    assert len(stages) == T
    assert_allclose(stages[-1], model.predict(X), rtol=1e-12, atol=1e-12)
    other = cls(random_state=1, **params).fit(X, y)
    assert not np.array_equal(other.validation_trace_, trace)
    assert_array_equal(cls(random_state=0, **params).fit(X, y).votes(X), model.votes(X))
    again = model.set_params(early_stopping=False, n_estimators=3).fit(X, y)
    assert again.n_iter_ == 3 and not hasattr(again, "validation_trace_")


@pytest.mark.uncompiled
def test_rows_held_out_are_stratified():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), np.where(np.arange(200) < 10, 1, -1)
    X[:10] += 2.0
    for seed in range(10):
        model = GradientBoosting(early_stopping=True, random_state=seed, n_estimators=30)
        model.fit(X, y)
        prior = math.log(9 / 171)  # a tenth of either class is set aside
        assert_allclose(model.nodes_[0]["value"], prior, rtol=1e-9)


# -- monotone constraints -------------------------------------------------------------------------
def sweep(model, X, j, points=41):
    """Scores of each row with feature j moved over its range, (rows, points)."""
    raw = model.predict if isinstance(model, GradientBoostingRegressor) else model.decision_function
    grid, rows = np.linspace(-2.5, 2.5, points), np.repeat(X, points, axis=0)
    rows[:, j] = np.tile(grid, len(X))
    return raw(rows).reshape(len(X), points)


@pytest.mark.parametrize(("cls", "loss", "order"), CASES)
@pytest.mark.parametrize("limits", [
    {}, {"max_depth": None, "min_samples_leaf": 1}, {"max_leaf_nodes": 12},
    {"max_features": 0.5, "random_state": 0, "n_estimators": 30},
    {"subsample": 0.7, "random_state": 0},
])  # fmt: skip
def test_monotone_constraints_hold(cls, loss, order, limits):
    X, y = data_for(cls, 250)
    X[::5, 2] = X[3::11, 1] = X[1::9, 0] = np.nan
    params = dict(loss=loss, order=order, n_estimators=12, min_samples_leaf=5, learning_rate=0.5)
    params |= limits
    rows = X[:60]
    free = cls(**params).fit(X, y)
    for signs in ([1, 0, 0, 0], [-1, 0, 0, 0], [1, -1, 0, 1]):
        model = cls(monotonic_cst=signs, **params).fit(X, y)
        for j, sign in enumerate(signs):
            steps = np.diff(sweep(model, rows, j), axis=1)
            if sign:
                assert (sign * steps).min() >= -1e-12
                free_steps = np.diff(sweep(free, rows, j), axis=1)
                assert j == 3 or (sign * free_steps).min() < -1e-6  # there was what to forbid
        if signs[0] > 0:
            rise = sweep(model, rows, 0)
            assert (rise[:, -1] - rise[:, 0]).mean() > 0.1  # it still uses the feature
    none = cls(monotonic_cst=[0, 0, 0, 0], **params).fit(X, y)
    assert_array_equal(none.votes(X), free.votes(X))


# -- well behaved ---------------------------------------------------------------------------------
@pytest.mark.uncompiled
@pytest.mark.parametrize("max_bins", [256, None])
@pytest.mark.parametrize("order", [2, 1])
@naive.each_degenerate
def test_degenerate(X, y, order, max_bins):
    y = np.array(y)
    for (cls, loss, of), l2 in itertools.product(CASES, (0.0, 1.0)):
        if of != order:
            continue
        model = cls(loss=loss, order=order, n_estimators=5, l2=l2, min_samples_leaf=1,
                    max_bins=max_bins).fit(X, y)  # fmt: skip
        found = model.votes(X) @ model.weights_
        assert np.isfinite(found).all() and np.isfinite(model.objective_)
        assert np.isfinite(model.feature_importances_).all()
        if cls is GradientBoosting:
            assert model.score(X, y) >= 0.5


def test_feature_importances():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    X[:, 2] = 1.0
    for cls in BOTH:
        y = 3 * X[:, 1] + X[:, 3] + 0.1 * rng.normal(size=300)
        y = np.where(y > 0, 1, -1) if cls is GradientBoosting else y
        found = cls(n_estimators=20).fit(X, y).feature_importances_
        assert_allclose(found.sum(), 1.0, rtol=1e-12)
        assert found.argmax() == 1 and found[2] == 0.0 and found[3] > found[0] >= 0.0


@pytest.mark.uncompiled
def test_score_of_the_regressor_takes_one_number_per_row():
    X, y = waves(60)
    model = GradientBoostingRegressor(n_estimators=20).fit(X, y)
    assert model.score(X, y[:, None]) == model.score(X, y) > 0.5
    for wrong in (y[:1], y[:-1], np.column_stack([y, y]), 1.0, np.where(y > 0, np.nan, y)):
        with pytest.raises(ValueError, match="GradientBoostingRegressor: .*y"):
            model.score(X, wrong)
    with pytest.raises(ValueError, match=r"sample_weight must .* of shape \(60,\)"):
        model.score(X, y, np.ones(3))


@pytest.mark.uncompiled
def test_a_score_of_exactly_0_is_positive():
    X = np.zeros((6, 2))
    for loss in ("log", "exponential", "squared"):
        model = GradientBoosting(loss).fit(X, ["a", "b"] * 3)
        assert (model.decision_function(X) == 0).all() and (model.predict(X) == "b").all()
        assert ([*model.staged_predict(X)][-1] == "b").all()

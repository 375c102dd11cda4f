"""Gradient boosting: members, one after the other, each fitted to the slope of the loss.

    minimise over the sums of members H:   sum_i w_i loss(H(x_i), y_i)

    classes, y = -1 or +1    log: log(1 + exp(-y H)), exponential: exp(-y H), hinge: max(0, 1 - y H)
                             and squared: (y - H)^2 / 2, or a function that is given
    numbers y                squared; huber: squared up to delta, linear beyond; absolute: |y - H|;
                             or a function that is given

Method    H_0 is the best constant. Round t, with g_i and h_i the first and second derivative of the
          loss of row i at H_t-1(x_i), times w_i:
              order 2   the tree h_t is grown by its gain, half of
                            G_l^2 / (H_l + l2) + G_r^2 / (H_r + l2) - G^2 / (H + l2)
                        with G, H the sums of g, h over a node and its children; the value of a
                        leaf is the Newton step -G / (H + l2), and alpha_t = 1
              order 1   the tree is fitted to -g by least squares: h_i = w_i in the above; then
                        alpha_t minimises sum_i w_i loss(H_t-1(x_i) + alpha h_t(x_i), y_i)
                        and, for log, exponential and given losses of classes, l2 / 2 times the
                        squares of alpha v, v the values of the leaves. For absolute and hinge
                        each leaf takes its own value of least loss, a median of y - H_t-1(x) of
                        its rows, or the quantile at the share of y = +1; then alpha_t = 1
              H_t = H_t-1 + learning_rate alpha_t h_t
          Any other regressor h_t is fitted to -g / h by least squares with weights h, where again
          h_i = w_i for order 1; alpha_t is 1 for order 2, else the best one, without l2, which for
          absolute and hinge is the kink at which the slope passes 0.
          A level of a tree costs O(n d), the rest of a round O(n). It is a greedy method, without
          an optimum to be close to: there is no residual. On several threads, or on row blocks,
          trees grow level by level from sums over the rows of each part: the same trees.
Reference Zhang, "Ensemble learning" (a chapter of lecture notes), Algorithm 2, Theorem 9 and the
          losses (27) to (29); Friedman, "Greedy Function Approximation: A Gradient Boosting
          Machine", 2001; Chen, Guestrin, "XGBoost: A Scalable Tree Boosting System", 2016.
Departs   Theorem 9's expansion has the inverse of the second derivative where the second derivative
          belongs; its result is right. Huber's loss has no curvature beyond delta: order 2 takes
          its bound, 1. Absolute and hinge have none at all: order 1 only.
          Hinge has a kink at y H = 1, and H_0 puts all rows of the larger class there: g is then
          the middle of the slopes at both sides, as for the absolute loss. With either of the two
          Ridge takes no step on german-numer and titanic. Even so one alpha_t for all leaves may be
          0, as some lose what others gain (german-numer, depth 2): each leaf is searched, as
          Friedman does for the absolute loss. An object that lowers the loss no more ends the run.
          Order 1 searches the best alpha_t exactly. Where trees part the classes without error
          it is infinite without l2, which Algorithm 2 does not have: then a warning says so.
          Huber's delta is by default the median of |y - median|, chosen once: with another each
          round, as Friedman has it, no two rounds could be compared, and early stopping would not
          stop. His quantile of 90 % loses more to outliers (5 % of them, at 1,000 deviations, on
          Friedman's first problem: R^2 0.53 against 0.82) and gains 0.01 without them.
Symbols   paper      here       meaning                                        shape
          H(x_i)     F          scores of the training rows                    (n,)
          (r_i)      G          derivative of the loss, w_i times; -r_i        (n,)
                     H          second derivative, w_i times                   (n,)
                     GH         both, as whole numbers                         (n, 2)
          alpha_t    weights_   of the members, with the learning rate         (T + 1,)
Use       m = GradientBoosting().fit(X, y); m.predict_proba(X)
          m = GradientBoostingRegressor(loss="huber").fit(X, y); m.predict(X)
          m = GradientBoosting(loss="hinge", order=1, base=Ridge()).fit(X, y)
Origin    ensolve, solvers/gradient_boosting.py, MIT licence
"""

import ast
import copy
import inspect
import math
import operator
import os
import re
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, partial, update_wrapper, wraps
from importlib import import_module
from typing import NamedTuple

import numpy as np
from numba import njit

LOSSES = {"log": 0, "exponential": 1, "squared": 2, "huber": 3, "absolute": 4}
ENDLESS = "log", "exponential"  # These losses have no least value.
KINKED = "absolute", "hinge"  # These are linear but for one kink, at y.
MOST_EXPONENT = 700.0  # The exponential loss grows no further: it would overflow.
NO_SLOPE = 1e-280  # A sum of derivatives below this is none.
UNITS_OFF = 1e-6  # Whole units change the weight of a leaf by less than this part.
COARSEST = 1 / 12  # Terms of a sum below this part of what rounds them are rounded anew, finer.


# >>> shared: jit 2
def jit(function=None, inner=False, **options):
    """Compile by njit with a disk cache, or without one if no folder is writable. Only kernels call
    `inner` kernels, which compile faster."""
    options |= dict.fromkeys(("no_cpython_wrapper", "no_cfunc_wrapper"), True) if inner else {}
    if function is None:
        return lambda f: jit(f, **options)
    is_module = function.__module__ != "__main__"
    # The cache stores NamedTuples by module: each module name gets files of its own.
    function.__qualname__ = f"{function.__module__}.{function.__name__}"
    try:
        kernel = njit(cache=is_module, error_model="numpy", **options)(function)
    except RuntimeError:
        return njit(error_model="numpy", **options)(function)
    for name in ("load_overload", "save_overload") if hasattr(kernel, "_cache") else ():
        setattr(kernel._cache, name, _or_compile(kernel._cache)(getattr(kernel._cache, name)))
    return kernel


@contextmanager
def _or_compile(cache):
    """Ignore errors of Numba's cache (full disk, damaged files): the kernel is compiled anew."""
    try:
        yield
    except Exception:
        with suppress(OSError):
            os.unlink(cache._cache_file._index_path)  # It may lead to data of an earlier version.


# <<< shared: jit


# -- kernels ------------------------------------------------------------------------------------
@jit(inner=True)
def _loss(f, y, loss, delta):
    """Loss of the score f and its first and second derivative."""
    if loss == 0:
        e = math.exp(-abs(f))
        wrong = (e if y * f >= 0.0 else 1.0) / (1.0 + e)
        return max(-y * f, 0.0) + math.log1p(e), -y * wrong, e / ((1.0 + e) * (1.0 + e))
    if loss == 1:
        e = math.exp(min(-y * f, MOST_EXPONENT))
        return e, -y * e, e
    r = f - y
    if loss == 2 or loss == 3 and abs(r) <= delta:
        return 0.5 * r * r, r, 1.0
    if loss == 3:
        return delta * (abs(r) - 0.5 * delta), math.copysign(delta, r), 0.0
    return abs(r), 1.0 * (r > 0.0) - 1.0 * (r < 0.0), 0.0


class ScoredRows(NamedTuple):
    """Rows and their scores."""

    F: np.ndarray  # (n,): scores.
    G: np.ndarray  # (n,): first derivatives of the loss, times the weights.
    H: np.ndarray  # (n,): second derivatives.
    y: np.ndarray
    w: np.ndarray  # (n,): weights.


@jit(nogil=True)
def _move(rows, values, leaf, alpha, big, loss, delta):
    """F += alpha values[leaf] of `ScoredRows`; overwrites its derivatives G and H. Returns the sums
    of the weighted losses, of |G| and of H, of terms that are rounded by big (3,)."""
    F, G, H, y, w = rows
    total = sum_g = sum_h = 0.0
    big_f, big_g, big_h = big[0], big[1], big[2]
    for i in range(F.size):
        f = F[i] + alpha * values[leaf[i]]
        value, g, h = _loss(f, y[i], loss, delta)
        F[i], G[i], H[i] = f, w[i] * g, w[i] * h
        total += (w[i] * value + big_f) - big_f
        sum_g += (abs(G[i]) + big_g) - big_g
        sum_h += (H[i] + big_h) - big_h
    return total, sum_g, sum_h


@jit(nogil=True)
def _largest(rows, loss, delta):
    """The largest of these terms."""
    F, G, H, y, w = rows
    top = top_g = top_h = 0.0
    for i in range(F.size):
        value = w[i] * _loss(F[i], y[i], loss, delta)[0]
        top, top_g, top_h = max(top, value), max(top_g, abs(G[i])), max(top_h, H[i])
    return top, top_g, top_h


@jit(nogil=True)
def _probe(rows, values, leaf, alpha, big, small, loss, delta):
    """Slope and curvature of the weighted loss in alpha at F + alpha values[leaf], of terms rounded
    by big (2,); what that takes off the slope's is added up, too, rounded by small: a line search
    ends where little is left of the slope. Returns both parts of the slope, the curvature, and the
    largest terms of each."""
    F, _, _, y, w = rows
    slope = rest = curvature = top = top_h = 0.0
    big_g, big_h = big[0], big[1]
    for i in range(F.size):
        step = values[leaf[i]]
        _, g, h = _loss(F[i] + alpha * step, y[i], loss, delta)
        g, h = w[i] * g * step, w[i] * h * step * step
        top, top_h = max(top, abs(g)), max(top_h, h)
        first = (g + big_g) - big_g
        slope += first
        rest += ((g - first) + small) - small
        curvature += (h + big_h) - big_h
    return slope, rest, curvature, top, top_h


@jit(nogil=True)
def _fill_derivatives(G, H, unit_g, unit_h, shift, GH):
    """Derivatives as the trees want them, in whole units."""
    for i in range(G.size):
        g = G[i] * unit_g
        GH[i, 0] = np.int64(g + math.copysign(0.5, g))
        GH[i, 1] = (np.int64(H[i] * unit_h + 0.5) << shift) + 1


# -- boosting -----------------------------------------------------------------------------------
NEWTON_STEPS = 200  # A line search has so many steps at the most; five are usual.
FLATTER = 1e-12  # A line search ends where the slope is this part of that at its start.
ALPHA_EPS = 2.0**-52  # It ends, too, where the bracket is this part of alpha.
FALLS_ON = 1e-3  # The loss falls for ever where the next step is longer than this part of alpha.


def _scored(part):
    """What kernels need of the rows of a part."""
    return part.F, part.G, part.H, part.target, part.weight


def _set_scores(part, start):
    """Keep the constant as the score of each row, and node 0 as its node."""
    n = len(part.target)
    part.allocate("F", n)[:] = start
    part.allocate("G", n)
    part.allocate("H", n)
    part.allocate("node", n, np.int32)


def _move_rows(part, values, alpha, big, rule):
    return _move(_scored(part), values, part.node, alpha, big, *rule)


def _largest_of_rows(part, rule):
    return _largest(_scored(part), *rule)


def _probe_rows(part, values, alpha, big, small, rule):
    return _probe(_scored(part), values, part.node, alpha, big, small, *rule)


def _fill_rows(part, is_curved, unit_g, unit_h, shift):
    """Fill a part's GH with its derivatives; without a curvature weights stand for the second."""
    second = part.H if is_curved else part.weight
    _fill_derivatives(part.G, second, unit_g, unit_h, shift, part.GH)


def _weights(part):
    return part.weight


def _high_weights(part):
    return part.weight[part.target > 0]


def _low_weights(part):
    return part.weight[part.target < 0]


def _weighted_targets(part):
    return part.weight * part.target


def _slopes(part):
    return part.G


def _fits(big, sizes):
    """Whether big, each of `rounding`, suits terms of these sums, or they are too large for any."""
    for b, size in zip(big.tolist(), sizes, strict=True):
        if size != 0.0 and size < math.inf and not COARSEST * b <= size <= 0.5 * b:
            return False
    return True


class _Scores:
    """Scores of the rows of all parts, each at the value of its node in the member that was added
    last; the mean loss there, and the sums of its derivatives. The second derivative is the weight
    if it is not to be used. `rule` is a loss of LOSSES with its delta, or a function.

    Sums are the same however the rows are cut into parts, and in any order: their terms are rounded
    by numbers that are kept from one call to the next. Where these do not suit, they become what
    suits any terms up to the largest one, and from there what suits their sum."""

    def __init__(self, parts, start, rule, curved, n_jobs=1):
        self.parts, self.rule, self.curved, self.n_jobs = parts, rule, curved, n_jobs
        parts.map_inplace(_set_scores, start, n_jobs=n_jobs)
        self.total = steady_total(partial(parts.map, n_jobs=n_jobs), _weights)
        self.move_by, self.probe_by = (np.full(k, rounding(self.total)) for k in (3, 2))
        self.endless = 0  # Line searches without an end.
        self.move(np.zeros(1), 0.0)

    @property
    def rows(self):
        """The rows, where they are in one part."""
        return ScoredRows(*_scored(self.parts))

    @property
    def leaf(self):
        """The node of each of these rows."""
        return self.parts.node

    @leaf.setter
    def leaf(self, node):
        self.parts.node = node

    @property
    def second(self):
        """Their second derivatives as members see them."""
        return self.rows.H if self.curved else self.rows.w

    def move(self, values, alpha):
        """Add alpha values[node] to the scores."""
        if callable(self.rule):
            with np.errstate(over="ignore", invalid="ignore"):
                sums = self.rule(self.rows, values, self.leaf, alpha, True)
        else:
            sums = self._move_named(values, alpha)
        total, self.sum_g, sum_h = sums
        self.loss, self.sum_second = total / self.total, sum_h if self.curved else self.total

    def _move_named(self, values, alpha):
        """Sums of the weighted losses, of |G| and of H after a move; what overflows is infinite."""
        n, n_jobs = self.parts.shape[0], self.n_jobs
        with np.errstate(over="ignore", invalid="ignore"):
            for turn in range(3):
                args = values, alpha, self.move_by, self.rule
                sums = _add_up(self.parts.map_inplace(_move_rows, *args, n_jobs=n_jobs))
                if turn == 2 or _fits(self.move_by, sums):
                    return sums
                alpha, sizes = 0.0, sums
                if turn == 0:
                    tops = self.parts.map(_largest_of_rows, self.rule, n_jobs=n_jobs)
                    sizes = [n * max(top) for top in zip(*tops, strict=True)]
                self.move_by = np.array([rounding(size) for size in sizes])

    def _probe_named(self, values, alpha):
        """Slope and curvature in alpha."""
        n = self.parts.shape[0]
        for turn in range(2):
            small = rounding(n * (self.probe_by[0] * 2.0**-52))
            args = values, alpha, self.probe_by, small, self.rule
            found = self.parts.map(_probe_rows, *args, n_jobs=self.n_jobs)
            slope, rest, curvature, top, top_h = found[0]
            if len(found) > 1:
                slope, rest, curvature = _add_up([one[:3] for one in found])
                top, top_h = (max(one[k] for one in found) for k in (3, 4))
            sizes = n * top, n * top_h
            if turn == 1 or _fits(self.probe_by, sizes):
                return slope + rest, curvature
            self.probe_by = np.array([rounding(size) for size in sizes])

    def _at(self, values, alpha):
        """Slope and curvature of the loss at F + alpha values[node], in alpha."""
        with np.errstate(over="ignore", invalid="ignore"):
            if not callable(self.rule):
                return self._probe_named(values, alpha)
            return self.rule(self.rows, values, self.leaf, alpha, False)

    def search(self, values, penalty):
        """The alpha >= 0 of least loss at F + alpha values[node] plus penalty alpha^2 / 2, a convex
        function of it: Newton steps, and halves of the bracket, or doubles of alpha, where they
        leave it; without a curvature, secants and halves by turns. One that falls for ever is
        counted as endless; alpha is where it hardly does."""

        def derivatives(alpha):
            slope, curvature = self._at(values, alpha)
            return slope + penalty * alpha, curvature + penalty

        slope, curvature = derivatives(0.0)
        told = curvature == curvature
        low, high = 0.0, math.inf
        alpha, goal = 0.0, FLATTER * abs(slope)
        for k in range(NEWTON_STEPS):
            low, high = (alpha, high) if slope < 0.0 else (low, alpha)
            if abs(slope) <= goal or high - low <= ALPHA_EPS * low:
                break
            last = alpha, slope
            alpha = alpha - slope / curvature if curvature > 0.0 else math.inf
            if not low < alpha < high or not (told or k % 2):
                alpha = 0.5 * (low + high) if high < math.inf else 2.0 * low + (low == 0.0)
            slope, curvature = derivatives(alpha)
            if not told:
                curvature = (slope - last[1]) / (alpha - last[0])
        self.endless += high == math.inf and -slope > FALLS_ON * alpha * curvature
        return alpha


def _add_up(sums):
    """Sums of all parts together, numbers that add up without rounding."""
    return sums[0] if len(sums) == 1 else [sum(one) for one in zip(*sums, strict=True)]


def hinge(y, f):
    """The hinge loss (28), as a function that is given: one more in `_loss`, and the compiler would
    no longer choose the loss outside the loop over the rows."""
    margin = y * f
    return np.maximum(1.0 - margin, 0.0), -0.5 * y * ((margin < 1.0) + 1.0 * (margin <= 1.0))


def _given(loss, order, who):
    """The sums of a move that is kept, or slope and curvature of one that is not, for a loss that
    is a function; it tells no curvature in alpha. Where a line search goes too far for the
    function, the slope is infinite."""

    def evaluate(rows, values, leaf, alpha, keep):
        F, G, H, y, w = rows
        step = values[leaf]
        f = F + alpha * step
        if keep:
            F[:] = f
        value, g, h = _called(loss, order, y, f, who)
        G[:], H[:] = w * g, w * h
        if not keep:
            slope = steady_sum(G * step)
            return slope if math.isfinite(slope) else math.inf, math.nan
        total, sum_g, sum_h = map(steady_sum, (w * value, np.abs(G), H))
        if not np.isfinite([total, sum_g, sum_h]).all():
            raise ValueError(
                f"{who}: what loss returns must be finite, got a sum of the values of {total:g}, "
                f"of the sizes of the gradients of {sum_g:g} and of the curvatures of {sum_h:g}; "
                "bound what may overflow, or scale y or sample_weight down"
            )
        return total, sum_g, sum_h

    return evaluate


def _called(loss, order, y, f, who):
    """Value, gradient and curvature (n,) of a loss that is a function; order 1 needs no curvature,
    and has zeros."""
    y = y.view()
    y.flags.writeable = False
    found, names = loss(y, f), ("value", "gradient", "curvature")[: order + 1]
    wanted = f"{', '.join(names[:-1])} and {names[-1]}"
    if not isinstance(found, (tuple, list)) or len(found) not in (2, 3):
        raise ValueError(f"{who}: loss must return a tuple of {wanted}, got {type(found).__name__}")
    if len(found) < len(names):
        raise ValueError(
            f"{who}: order=2 needs a loss that returns {wanted}, got {len(found)} arrays; set "
            "order=1, which needs no curvature"
        )
    found = [np.asarray(part) for part in found]
    for name, part in zip(names, found, strict=False):
        if part.shape != y.shape or part.dtype.kind not in "biuf":
            raise ValueError(
                f"{who}: loss must return a {name} of shape {y.shape}, a number for each row, "
                f"got shape {part.shape} and dtype {part.dtype}"
            )
    if order == 2 and (found[2] < 0).any():
        raise ValueError(
            f"{who}: order=2 needs curvatures >= 0, got {found[2].min():g} from loss; set order=1, "
            "or return a bound of the curvature that is"
        )
    return *found[:2], found[2] if order == 2 else np.zeros(y.size)


def _ends(values, weights, part):
    """Where the weighted share of smaller values passes `part`: two neighbours if that is between
    them, else one value twice. Weights, which are to be steady, count as repeated rows."""
    rank = np.argsort(values, kind="stable")
    values, ends = values[rank], np.cumsum(weights[rank])
    low = np.searchsorted(ends, part * ends[-1] * (1 - QUANTILE_SLACK))
    high = np.searchsorted(ends, part * ends[-1] * (1 + QUANTILE_SLACK))
    return values[low], values[min(high, values.size - 1)]


def _quantile(values, weights, part):
    """The middle of these two."""
    low, high = _ends(values, steady(weights), part)
    return 0.5 * low + 0.5 * high


def _best_step(loss, rows, step):
    """The alpha of least loss at F + alpha step, for a loss of KINKED: the slope rises at the kinks
    of the rows, where F + alpha step = y, and the best alpha is where it passes 0. Of several it is
    the middle one for the absolute loss, and that next to 0 for hinge."""
    F, _, _, y, w = rows
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        kinks, weight = (y - F) / step, w * np.abs(step)
    moved = np.isfinite(kinks) & (weight > 0.0)
    kinks, weight, falls = kinks[moved], weight[moved], (y * step > 0.0)[moved]
    if not kinks.size:
        return 0.0
    if loss == "absolute":
        return _quantile(kinks, weight, 0.5)
    weight = steady(weight)
    low, high = _ends(kinks, weight, weight @ falls / weight.sum())
    low, high = low if falls.any() else -math.inf, high if not falls.all() else math.inf
    return float(min(max(low, 0.0), high))


# >>> shared: tree 12
BIN_ROWS = 100_000  # So many rows decide where the bins of a feature end.
BIN_CELLS = 4096  # The table that turns a value into its bin has so many cells.
QUANTILE_SLACK = 1e-10  # This part of a quantile is rounding: a weight counts as repeated rows.
SUM_BITS = 62  # A node's sum has so many bits: those of its weight, then of its number of rows.
AHEAD = 64  # Rows that lie far apart are touched so many at a time before they are added up.
SCATTERED = 6  # Rows lie far apart where not even one row in so many is in the node.
SORTED = 8  # The rows of a node are sorted where they are fewer than the bins over this number.
GAIN_TIE = 1e-11  # Gains that differ by this part of the node's weight are equal: the first wins.
Z_SQUARED = 0.454936  # The squared normal quantile at 25 %, the confidence of C4.5's pruning.
XORSHIFT = tuple(map(np.uint64, (12, 25, 27)))  # The shifts of xorshift64*.
FACTOR = tuple(map(np.uint64, (0x2545F491, 0x4F6CDD1D)))  # The upper and lower half of its factor.
HALF = tuple(map(np.uint64, (32, 2**32 - 1, 1)))  # What cuts a number of 64 bits into halves.
MOST_SHIFT = 1020  # Three times 2 to a higher power would overflow.
DEEP = 5000  # Trees of so many nodes in all are deep: they are added up in another order.
DEEP_ROWS = 1024  # So many rows pass a deep tree before the next one: its nodes stay in the cache.
ABREAST = 8  # So many rows go down a deep tree side by side: their cache misses overlap.
WALKS_A_THREAD = 100_000  # A thread is worth its while for so many ways of a row through a tree.
CRITERIA = {"error": 0, "gini": 1, "entropy": 2, "gain_ratio": 3}
TREE_LIMITS = {  # The rules of the parameters that limit trees.
    "max_depth": "None or an integer >= 1",
    "min_samples_leaf": "an integer >= 1",
    "max_leaf_nodes": "None or an integer >= 2",
    "max_bins": "None or an integer from 2 to 256",
}
# Nodes have no bytes outside their fields: whatever lay in memory would be saved with them. Fields
# of a np.record are attributes without the compiler, too; files hold plain records.
GROWING = np.dtype((np.record, np.dtype(  # A node of a tree that grows; child + 1 is on the right.
    [("g", "i8"), ("h", "i8"), ("left_g", "i8"), ("left_h", "i8"), ("gain", "f8"),
     ("low", "f8"), ("high", "f8"),
     ("feature", "i4"), ("code", "i4"), ("missing_left", "i4"), ("child", "i4"), ("is_leaf", "i4"),
     ("depth", "i4"), ("start", "i4"), ("stop", "i4"), ("slot", "i4"), ("is_cut", "i4")], align=True
)))  # fmt: skip
NODE = np.dtype(  # A node of a finished tree; child = 0 marks a leaf.
    [("threshold", "f8"), ("value", "f8"), ("gain", "f8"), ("feature", "i4"), ("child", "i4"),
     ("missing_left", "i8")], align=True
)  # fmt: skip


class Data(NamedTuple):
    """What trees are grown on: n rows of d features, each cut into bins."""

    codes: np.ndarray  # (n, d): how many thresholds of its feature lie below a value.
    by_feature: np.ndarray  # (n, d): the same, column after column.
    n_codes: np.ndarray  # (d,): codes of a feature's known values; the next one is "missing".
    GH: np.ndarray  # (n, 2): the gradient and the weight of each row, see `Grower`.
    shift: int  # The number of rows has so many bits, below those of the weight.


class Rules(NamedTuple):
    """Which trees are grown. None stands for no limit, and for no such rule."""

    criterion: int = CRITERIA["gini"]
    max_depth: int | None = None
    min_leaf: int = 1  # Fewest rows of a leaf.
    max_leaves: int | None = None  # With a limit, the node of the highest gain is split first.
    min_decrease: float = 0.0  # Least gain, as part of the weight of all rows.
    min_weight: int = 1  # Least weight of a leaf.
    l2: float | None = None  # A leaf is worth -g / (h + l2); None: its g are of two classes.
    monotone: np.ndarray | None = None  # (d,): the value may only rise (1) or fall (-1).
    n_drawn: int | None = None  # Features that are drawn for each split.
    few: int = 0  # Nodes of so many rows have them sorted, instead of a histogram.


class Space(NamedTuple):
    """What is overwritten when a tree grows. Kernels choose by what is None when they compile."""

    nodes: np.ndarray  # The tree.
    leaf: np.ndarray  # (n,): each row's node.
    rows: np.ndarray  # (n,): those of a node stand together, from its start to its stop.
    spare: np.ndarray  # (n,): rows on their way.
    ahead: np.ndarray  # (AHEAD,): what was touched.
    opened: np.ndarray  # Nodes that can be split, on a stack.
    free: np.ndarray  # Slots of `hist` that no node has, on a stack.
    bins: np.ndarray  # (bins, 2): the histogram of one feature.
    found: np.ndarray  # (bins,): the codes of its bins, where empty ones are left out.
    hist: np.ndarray | None  # (slots, d, bins, 2): histograms of nodes, where all are needed.
    order: np.ndarray | None  # (d, n): `rows` in the order of each feature, where bins are exact.
    near: np.ndarray | None  # (few,): the rows of a small node in the order of a feature.
    draws: tuple | None  # Where features are drawn: (1,) of the random numbers, (d,) the features.


# -- sums ---------------------------------------------------------------------------------------
def rounding(size):
    """A number that, added to others and taken off again, rounds them to whole multiples of 2^-51
    of a power of two: sums are then exact, the same in any order, while no part of one is above
    twice this size."""
    return math.ldexp(3.0, min(math.frexp(size)[1], MOST_SHIFT))


rounder = jit(rounding, inner=True)  # The same for kernels.


def steady_sum(x):
    """Sum of x (n,), the same in any order: of the numbers, rounded, and of what that takes off."""
    return steady_total(lambda step, *args: [step(x, *args)], np.asarray)


def steady_total(each, pick):
    """The same for the numbers pick(part) of all parts; each(step, ...) lists step(part, ...)."""
    sizes, tops = zip(*each(_size, pick), strict=True)
    with np.errstate(over="ignore", invalid="ignore"):
        big = rounding(sum(sizes) * max(tops))
        small = rounding(sum(sizes) * (big * 2.0**-52))
        high, low = np.sum(each(_rounded_sums, pick, big, small), axis=0).tolist()
    return high + low if math.isfinite(high) else high


def _size(part, pick):
    """How many numbers there are, and the size of the largest."""
    x = pick(part)
    return x.size, float(np.abs(x).max(initial=0.0))


def _rounded_sums(part, pick, big, small):
    """Sums of the numbers, rounded by big, and of what that takes off, rounded by small."""
    x = pick(part)
    with np.errstate(over="ignore", invalid="ignore"):
        first = (x + big) - big
        return float(first.sum()), float((((x - first) + small) - small).sum())


def steady(weight):
    """Weights (n,), rounded so that all sums of some of them are the same in any order."""
    big = rounding(steady_sum(weight))
    return (weight + big) - big


# -- bins ---------------------------------------------------------------------------------------
def bin_edges(X, max_bins, weight=None):
    """Thresholds of each feature: midpoints between neighbouring values if there are at most
    max_bins of them (None: always), else between quantiles. Missing values take a bin as well.

    Quantiles are those of the rows' weights (n,): a row of weight 2 is two rows, one of weight 0 is
    none. Of more than BIN_ROWS rows a part decides where they are.
    """
    if weight is not None and not weight.all():
        X, weight = X[weight > 0], weight[weight > 0]
    weight = None if weight is None else steady(weight)
    with np.errstate(over="ignore", invalid="ignore"):
        missing = np.isnan(X.sum(axis=0))
    if max_bins is None or len(X) <= BIN_ROWS:
        return place_edges(X, weight, missing, max_bins)
    rows = sampled(len(X))
    some = None if weight is None else weight[rows]
    return place_edges(X[rows], some, missing, max_bins, lambda j: distinct(X[:, j], weight))


def sampled(n):
    """Numbers of the BIN_ROWS rows, of more, that decide where bins end: one of every so many."""
    i, stride = np.arange(BIN_ROWS), n // BIN_ROWS
    return i * stride + (i * 2654435761 >> 15) % stride


def distinct(values, weight=None):
    """The different known values, ascending, and the sums of weights (1 for each row) up to each of
    them; weights have to be steady."""
    rank = None if weight is None else np.argsort(values)
    values = np.sort(values) if rank is None else values[rank]
    return _ends_of_runs(values, None if rank is None else weight[rank])


def _ends_of_runs(values, weight=None):
    """The same for values in ascending order, NaN last."""
    known = values.size - np.isnan(values[-1:]).sum()
    if known < values.size:
        known = values.size - np.isnan(values).sum()
    last = np.flatnonzero(values[1:known] > values[: max(known - 1, 0)])
    last = np.append(last, known - 1) if known else last
    return values[last], last + 1.0 if weight is None else np.cumsum(weight[:known])[last]


def place_edges(X, weight, missing, max_bins, whole=None, n_jobs=1):
    """Thresholds by the rows of X, and by these features where values are missing. Of a sample
    whole(j) is `distinct` of all rows: where the sample has few values none may be overlooked."""
    edges = []
    columns = np.array(X.T, order="C")
    if weight is None and n_jobs > 1:
        with ThreadPoolExecutor(n_jobs) as pool:
            [*pool.map(np.ndarray.sort, np.array_split(columns, n_jobs))]
    elif weight is None:
        columns.sort(axis=1)
    for j, column in enumerate(columns):
        values, ends = _ends_of_runs(column) if weight is None else distinct(column, weight)
        if whole is not None and values.size <= max_bins:
            values, ends = whole(j)
        cuts = np.arange(max(values.size - 1, 0))
        bins = math.inf if max_bins is None else max_bins - missing[j]
        if cuts.size >= bins:
            goals = np.arange(1, bins) / bins * (1.0 - QUANTILE_SLACK)
            goals = np.ceil(goals * ends[-1]) if weight is None else goals * ends[-1]
            cuts = np.searchsorted(ends, goals).clip(max=cuts.size - 1)
            cuts = cuts[np.diff(cuts, prepend=-1) > 0]
        low, high = values[cuts], values[cuts + 1]
        middle = 0.5 * low + 0.5 * high
        edges.append(np.where((low <= middle) & (middle < high), middle, low))
    return edges


class Bins(NamedTuple):
    """Where the bins of each of d features end, and what finds the bin of a value."""

    edges: np.ndarray  # (d, most bins): thresholds, then infinity.
    n_codes: np.ndarray  # (d,): codes of known values; the next one is "missing".
    low: np.ndarray  # (d,): the first threshold, where the first cell of the table begins.
    scale: np.ndarray  # (d,): cells for each unit of a value.
    table: np.ndarray  # (d, BIN_CELLS + 1): thresholds before each cell.


def bin_table(edges):
    """Bins from a list of thresholds; at most 256 bins have a table."""
    n_codes = np.array([edge.size + 1 for edge in edges], dtype=np.int32)
    padded = np.full((len(edges), n_codes.max()), np.inf)
    for j, edge in enumerate(edges):
        padded[j, : edge.size] = edge
    ends = np.array([edge[[0, -1]] if edge.size else (0.0, 0.0) for edge in edges])
    with np.errstate(over="ignore"):
        width = np.clip(ends[:, 1] - ends[:, 0], 1e-300, 1e300)
    low, scale = np.ascontiguousarray(ends[:, 0]), (BIN_CELLS - 1) / width
    table = np.zeros((len(edges), BIN_CELLS + 1), dtype=np.uint8)
    for j, edge in enumerate(edges if n_codes.max() <= 256 else ()):
        with np.errstate(over="ignore"):
            cells = np.minimum((edge - low[j]) * scale[j], BIN_CELLS - 1.0).astype(np.int32)
        table[j, 1:] = np.cumsum(np.bincount(cells, minlength=BIN_CELLS))
    return Bins(padded, n_codes, low, scale, table)


@jit(nogil=True)
def _encode(X, bins, codes):
    """Fill codes; table[j, c] to table[j, c + 1] are the thresholds in cell c of feature j."""
    edges, n_codes, low, scale, table = bins
    n, d = X.shape
    for i in range(n):
        for j in range(d):
            x = X[i, j]
            if x != x:
                codes[i, j] = n_codes[j]
                continue
            at = (x - low[j]) * scale[j]
            cell = 0 if at < 0.0 else BIN_CELLS - 1 if at >= BIN_CELLS else np.int64(at)
            first, last = np.int64(table[j, cell]), np.int64(table[j, cell + 1])
            while first + 1 < last:  # Rarely: most cells hold one threshold at the most.
                middle = (first + last) >> 1
                if x > edges[j, middle]:
                    first = middle + 1
                else:
                    last = middle
            codes[i, j] = first + (x > edges[j, first])


# -- histograms ---------------------------------------------------------------------------------
@jit(inner=True)
def _add(sums, g, h, l2):
    """Add a row to a bin. Of two classes each has a sum of h of its own: one addition, not two."""
    if l2 is None:
        sums[1 * (g > 0)] += h
    else:
        sums[0] += g
        sums[1] += h


@jit(inner=True)
def _sums(bins, c, shift, l2):
    """Sums of g and h in a bin."""
    if l2 is None:
        return (bins[c, 1] >> shift) - (bins[c, 0] >> shift), bins[c, 0] + bins[c, 1]
    else:
        return bins[c, 0], bins[c, 1]


@jit(inner=True)
def _measure(codes, GH, rows, ahead, hist, node, other, few, l2):
    """Sums over the rows of a node, per feature and bin; overwrites hist[node.slot], if the node
    needs it or its larger sibling, whose sums are those of their parent without the node's: it has
    the parent's slot. The root is its own sibling.

    Rows that lie far apart are touched AHEAD at a time first, so that their cache misses overlap.
    """
    if hist is None:
        return
    start, stop = node.start, node.stop
    is_other = other.slot != node.slot and not other.is_leaf and other.stop - other.start > few
    if not is_other and (node.is_leaf or stop - start <= few):
        return
    n, d = codes.shape
    sums = hist[node.slot]
    for j in range(d):
        for c in range(sums.shape[1]):
            sums[j, c, 0] = sums[j, c, 1] = 0
    if stop - start == n:  # All rows, in their order: a sixth of a round of stumps.
        for i in range(n):
            g, h = GH[i, 0], GH[i, 1]
            for j in range(d):
                _add(sums[j, codes[i, j]], g, h, l2)
        return
    for first in range(start, stop, AHEAD):
        last = min(first + AHEAD, stop)
        if SCATTERED * (stop - start) < n:
            for k in range(first, last):
                i = rows[k]
                ahead[k - first] = GH[i, 0] + codes[i, 0] + codes[i, d - 1]
        for k in range(first, last):
            i = rows[k]
            g, h = GH[i, 0], GH[i, 1]
            for j in range(d):
                _add(sums[j, codes[i, j]], g, h, l2)
    if is_other:
        rest = hist[other.slot]
        for j in range(d):
            for c in range(sums.shape[1]):
                rest[j, c, 0] -= sums[j, c, 0]
                rest[j, c, 1] -= sums[j, c, 1]


@jit(inner=True)
def _sort_few(codes, rows, node, j, near):
    """The node's rows in the order of feature j, by insertion; overwrites near."""
    for a in range(node.stop - node.start):
        i, b = rows[node.start + a], a
        while b > 0 and codes[near[b - 1], j] > codes[i, j]:
            near[b] = near[b - 1]
            b -= 1
        near[b] = i


@jit(inner=True)
def _condense(codes, GH, rows, start, stop, j, l2, bins, found):
    """Histogram of one feature without its empty bins, from the rows of a node in the order of the
    feature; overwrites bins (m + 1, 2), the last one empty, and the codes found (m,); returns m."""
    m, last = 0, -1
    for k in range(start, stop):
        i = rows[k]
        if codes[i, j] != last:
            last = codes[i, j]
            found[m] = last
            bins[m, 0] = bins[m, 1] = 0
            m += 1
        _add(bins[m - 1], GH[i, 0], GH[i, 1], l2)
    bins[m, 0] = bins[m, 1] = 0
    return m


@jit(inner=True)
def _fill(codes, GH, rows, node, j, m, l2, bins):
    """Histogram of one feature; overwrites bins (m + 1, 2)."""
    for c in range(m + 1):
        bins[c, 0] = bins[c, 1] = 0
    for k in range(node.start, node.stop):
        i = rows[k]
        _add(bins[codes[i, j]], GH[i, 0], GH[i, 1], l2)


# -- splits -------------------------------------------------------------------------------------
@jit(inner=True)
def _output(g, h, l2, node):
    """Best value of a leaf within the bounds of the node."""
    return min(max(-g / (h + l2), node.low), node.high)


@jit(inner=True)
def _impurity(g, h, criterion, l2, monotone, node):
    """Impurity of rows of a node times their weight h; g is the difference of the classes' weights.
    With l2: the least of g v + (h + l2) v^2 / 2."""
    if l2 is not None:
        if monotone is None:
            return -0.5 * g * g / (h + l2)
        else:
            v = _output(g, h, l2, node)
            return (g + 0.5 * (h + l2) * v) * v
    else:
        if criterion == 0:
            return 0.5 * (h - abs(g))
        if criterion == 1:
            return 0.5 * (h - g * g / h)
        total = 0.0
        for part in (0.5 * (h - g), 0.5 * (h + g)):
            if part > 0.0:
                total -= part * math.log2(part / h)
        return total


@jit(inner=True)
def _is_barred(gl, hl, gr, hr, l2, monotone, j, node):
    """Whether a cut would make the value fall where it may only rise, or rise where only fall."""
    if monotone is None:
        return False
    else:
        return monotone[j] * (_output(gr, hr, l2, node) - _output(gl, hl, l2, node)) < 0.0


@jit(inner=True)
def _scan(bins, m, node, shift, rules, j):
    """Best cut after one of the first m bins of feature j; bins[m] holds the missing values.

    Returns its gain (-1: there is none), the last bin on the left, whether the missing values go
    there (if there are none: whether most of the weight does), and the sums on the left.
    """
    criterion, l2, monotone = rules.criterion, rules.l2, rules.monotone
    g, h = node.g, node.h
    weight, mask = float(h >> shift), (1 << shift) - 1
    parent = _impurity(float(g), weight, criterion, l2, monotone, node)
    tie = GAIN_TIE * weight
    best = -weight if l2 is None else 0.0  # With l2 a cut has to pay.
    cut, missing_left = -1, 0
    best_g, best_h = g, h
    missing_g, missing_h = _sums(bins, m, shift, l2)
    for side in range(2 if missing_h > 0 else 1):
        left_g, left_h = side * missing_g, side * missing_h
        for c in range(m):
            bin_g, bin_h = _sums(bins, c, shift, l2)
            left_g += bin_g
            left_h += bin_h
            wl, wr = left_h >> shift, (h - left_h) >> shift
            if bin_h == 0 or wl < rules.min_weight or wr < rules.min_weight:
                continue
            if (left_h & mask) < rules.min_leaf or ((h - left_h) & mask) < rules.min_leaf:
                continue
            gl, hl = float(left_g), float(wl)
            gr, hr = float(g - left_g), float(wr)
            gain = parent - _impurity(gl, hl, criterion, l2, monotone, node)
            gain -= _impurity(gr, hr, criterion, l2, monotone, node)
            if l2 is not None:
                tie = GAIN_TIE * (gain - parent)
            if _is_barred(gl, hl, gr, hr, l2, monotone, j, node):
                continue
            if gain > best + tie:
                best, cut, missing_left = gain, c, side
                best_g, best_h = left_g, left_h
    if missing_h == 0:
        missing_left = int(2 * (best_h >> shift) >= h >> shift)
    if cut >= 0 and best < 0.0:
        best = 0.0  # It was rounding.
    return best if cut >= 0 else -1.0, cut, missing_left, best_g, best_h


@jit(inner=True)
def _random_below(state, m):
    """A random number from 0 to m - 1, by xorshift64*."""
    x = state[0]
    x ^= x >> XORSHIFT[0]
    x ^= x << XORSHIFT[1]
    x ^= x >> XORSHIFT[2]
    state[0] = x
    bits, mask, one = HALF
    high, low = x >> bits, x & mask
    # The upper half of the product, modulo 2^64, of x and the factor: no part of it overflows.
    half = (high * FACTOR[1] & mask) + (low * FACTOR[0] & mask) + (low * FACTOR[1] >> bits)
    return (np.int64((half & mask) >> one) * m) >> 31


@jit(inner=True)
def _feature(draws, a, d, is_new):
    """The feature that is looked at as number a of d; a new one is drawn of those left."""
    if draws is None:
        return a
    else:
        state, features = draws
        if is_new:
            b = a + _random_below(state, d - a)
            features[a], features[b] = features[b], features[a]
        return features[a]


@jit(inner=True)
def _tie(gain, g, weight, l2):
    """By how much the gains of two features may differ and yet be equal."""
    if l2 is None:
        return GAIN_TIE * weight
    else:
        return GAIN_TIE * (gain + 0.5 * g * g / (weight + l2))


@jit(inner=True)
def _code(bins, m, cut, n_codes, found, is_condensed, shift, l2):
    """The last code on the left of a cut: in the middle of the bins without rows, if there are any
    and the rows are of two classes. Known values against the missing ones: all codes."""
    right, code = cut + 1, found[cut] if is_condensed else cut
    while right < m and _sums(bins, right, shift, l2)[1] == 0:
        right += 1
    if right == m:
        return n_codes - 1
    if l2 is not None:
        return code
    last = found[right] if is_condensed else right
    return max(code, (code + last - 1) >> 1)


@jit(inner=True)
def _find(data, rules, node, rows, bins, found, hist, order, near, draws):
    """Write the best split over all features into the node, or over the first n_drawn in random
    order that can be split; its gain is -1 where there is none.

    Gain ratio as in C4.5: a feature is cut where the gain is highest; among the features of at
    least average gain, the ratio of the gain and the entropy of the cut decides.
    """
    codes, GH, n_codes = data.codes, data.GH, data.n_codes
    shift, l2 = data.shift, rules.l2
    weight, is_ratio = float(node.h >> shift), rules.criterion == 3
    is_few = node.stop - node.start <= rules.few
    is_condensed = is_few or order is not None
    node.gain = best = -1.0
    total, candidates = 0.0, 0
    n_seen = d = codes.shape[1]
    for turn in range(2 if is_ratio else 1):
        for a in range(n_seen):
            if turn == 0 and candidates == rules.n_drawn:
                n_seen = a
                break
            j = _feature(draws, a, d, turn == 0)

            # Its histogram, of m bins with known values; the next bin has the missing ones.
            sums, m = bins, n_codes[j]
            if near is not None and is_few:
                _sort_few(codes, rows, node, j, near)
                m = _condense(codes, GH, near, 0, node.stop - node.start, j, l2, bins, found)
            elif order is not None:
                m = _condense(codes, GH, order[j], node.start, node.stop, j, l2, bins, found)
            elif draws is not None:
                _fill(codes, GH, rows, node, j, m, l2, bins)
            elif hist is not None:
                sums = hist[node.slot, j]
            if is_condensed:
                m -= found[m - 1] == n_codes[j]

            # Its best cut, and how good that is.
            gain, cut, missing_left, left_g, left_h = _scan(sums, m, node, shift, rules, j)
            if gain < 0.0:
                continue
            if turn == 0:
                total += gain
                candidates += 1
            score, tie = gain, _tie(gain, float(node.g), weight, l2)
            if is_ratio:
                if turn == 0:  # First the average gain, then the ratios.
                    continue
                balance, tie = weight - 2.0 * float(left_h >> shift), GAIN_TIE
                entropy = _impurity(balance, weight, rules.criterion, l2, rules.monotone, node)
                is_good = gain >= total / candidates - GAIN_TIE * weight
                score = gain / entropy if is_good else -1.0
            if score > best + tie or best < 0.0 <= score:
                best = score
                node.gain, node.feature, node.missing_left = gain, j, missing_left
                node.left_g, node.left_h = left_g, left_h
                node.code = _code(sums, m, cut, n_codes[j], found, is_condensed, shift, l2)


# -- growth -------------------------------------------------------------------------------------
@jit(inner=True)
def _plant(GH, rows, n_rows, shift, rules, root):
    """Make the root, of the first n_rows of rows."""
    g = h = np.int64(0)
    for a in range(n_rows):
        i = a if n_rows == GH.shape[0] else rows[a]
        g += GH[i, 0]
        h += GH[i, 1]
    root.g, root.h = g, h
    root.start, root.stop = 0, n_rows
    root.depth = root.child = root.is_cut = 0
    root.low, root.high = -math.inf, math.inf
    weight = h >> shift
    root.is_leaf = rules.max_depth == 0 or weight == 0 or (rules.l2 is None and abs(g) == weight)


@jit(inner=True)
def _open(node, left, right, shift, rules):
    """Make the children of a node that has a split."""
    left.g, left.h = node.left_g, node.left_h
    right.g, right.h = node.g - node.left_g, node.h - node.left_h
    for child in (left, right):
        child.depth = node.depth + 1
        child.child = child.is_cut = 0
        child.low, child.high = node.low, node.high
        is_pure = rules.l2 is None and abs(child.g) == child.h >> shift
        is_small = (child.h & ((1 << shift) - 1)) < 2 * rules.min_leaf
        child.is_leaf = child.depth == rules.max_depth or is_small or is_pure
    _bound(node, left, right, shift, rules.l2, rules.monotone)


@jit(inner=True)
def _bound(node, left, right, shift, l2, monotone):
    """Keep the values below the children apart where they may only rise or fall with the feature of
    the node: at the middle of the children's own values."""
    if monotone is not None and monotone[node.feature] != 0:
        middle = 0.5 * _output(float(left.g), float(left.h >> shift), l2, node)
        middle += 0.5 * _output(float(right.g), float(right.h >> shift), l2, node)
        if monotone[node.feature] > 0:
            left.high = right.low = middle
        else:
            left.low = right.high = middle


@jit(inner=True)
def _partition(by_feature, rows, spare, node, missing):
    """Bring the node's rows that go left to the front, their order kept; returns where they end."""
    j, code, missing_left = node.feature, node.code, node.missing_left
    left, right = node.start, 0
    for k in range(node.start, node.stop):
        i = rows[k]
        c = by_feature[i, j]
        goes_left = (c <= code) | ((c == missing) & (missing_left == 1))
        rows[left] = i
        spare[right] = i
        left += goes_left
        right += 1 - goes_left
    for k in range(right):
        rows[left + k] = spare[k]
    return left


@jit(inner=True)
def _part_orders(by_feature, order, spare, node, missing):
    """The same for the rows in the order of each feature, where there are such."""
    if order is not None:
        for j in range(order.shape[0]):
            _partition(by_feature, order[j], spare, node, missing)


@jit(inner=True)
def _settle(leaf, rows, node, k):
    """Node k is the leaf of its rows."""
    for a in range(node.start, node.stop):
        leaf[rows[a]] = k


@jit(inner=True)
def _settle_children(by_feature, leaf, rows, node, missing):
    """Both children are leaves: their rows need not be parted."""
    j, code, to_left = node.feature, node.code, node.missing_left == 1
    child, is_whole = node.child, node.stop - node.start == leaf.size
    for a in range(node.start, node.stop):
        i = a if is_whole else rows[a]
        c = by_feature[i, j]
        leaf[i] = child + 1 - ((c <= code) | ((c == missing) & to_left))


@jit(nogil=True)
def _grow(data, rules, space, n_rows):
    """Grow a tree on the first n_rows of rows; overwrites nodes and the leaf of each of these rows,
    returns the number of nodes.

    Of two siblings only the smaller one's histogram is built. The smaller is split first: then
    log2(n) + 2 histograms are enough. With max_leaves > 0 the highest gain comes first, and as many
    histograms as leaves are needed. Where features are drawn, or rows are few, features get
    histograms one at a time.
    """
    data, rules, space = Data(*data), Rules(*rules), Space(*space)
    nodes, opened, free = space.nodes, space.opened, space.free
    rows, leaf, ahead = space.rows, space.leaf, space.ahead
    codes, by_feature, GH = data.codes, data.by_feature, data.GH
    for a in range(free.size):
        free[a] = a
    n_nodes, n_open, n_free = 1, 0, free.size - 1
    _plant(GH, rows, n_rows, data.shift, rules, nodes[0])
    nodes[0].slot = n_free
    min_gain = rules.min_decrease * float(nodes[0].h >> data.shift)
    small, large = 0, -1  # The new nodes; -1: none.
    while True:
        # Find the best split of each new node: it is open if there is one, else a leaf.
        if small >= 0:
            node, other = nodes[small], nodes[max(large, 0)]
            _measure(codes, GH, rows, ahead, space.hist, node, other, rules.few, rules.l2)
        for k in (large, small):
            if k < 0:
                continue
            node = nodes[k]
            if not node.is_leaf:
                _find(
                    data, rules, node, rows, space.bins, space.found, space.hist, space.order,
                    space.near, space.draws,
                )  # fmt: skip
                node.is_leaf = node.gain < min_gain
            if node.is_leaf:
                _settle(leaf, rows, node, k)
                free[n_free] = node.slot
                n_free += 1
            else:
                opened[n_open] = k
                n_open += 1
        if n_open == 0 or n_nodes == 2 * rules.max_leaves - 1:
            break

        # Open the node that was found last, or the one of the highest gain.
        n_open -= 1
        for a in range(n_open if rules.max_leaves > 0 else 0):
            if nodes[opened[a]].gain > nodes[opened[n_open]].gain:
                opened[a], opened[n_open] = opened[n_open], opened[a]
        node, left, right = nodes[opened[n_open]], nodes[n_nodes], nodes[n_nodes + 1]
        node.child = n_nodes
        n_nodes += 2
        _open(node, left, right, data.shift, rules)
        missing = data.n_codes[node.feature]

        # Part its rows, which two leaves do not need.
        if left.is_leaf and right.is_leaf:
            _settle_children(by_feature, leaf, rows, node, missing)
            free[n_free] = node.slot
            n_free += 1
            small = large = -1
        else:
            middle = _partition(by_feature, rows, space.spare, node, missing)
            _part_orders(by_feature, space.order, space.spare, node, missing)
            left.start, right.stop = node.start, node.stop
            left.stop = right.start = middle
            small = node.child + (middle - node.start > node.stop - middle)
            large = 2 * node.child + 1 - small
            n_free -= 1
            nodes[small].slot, nodes[large].slot = free[n_free], node.slot

    for a in range(n_open):  # There are enough leaves: what is open is one, too.
        k = np.int64(opened[a])
        nodes[k].is_leaf = 1
        _settle(leaf, rows, nodes[k], k)
    return n_nodes


# -- finished trees -----------------------------------------------------------------------------
def _pessimistic(wrong, weight):
    """C4.5's estimate of a leaf's errors on new rows: the upper end of a 25 % confidence interval,
    exact for no errors, by the normal approximation from 1 on, and on the line between the two."""
    many = np.maximum(wrong, 1.0)
    half = np.minimum(many + 0.5, weight)
    spread = np.sqrt(Z_SQUARED * (half * (1.0 - half / weight) + 0.25 * Z_SQUARED))
    normal = weight * (half + 0.5 * Z_SQUARED + spread) / (weight + Z_SQUARED)
    many = np.where(half < weight, normal, many + 0.67 * (weight - many))
    none = weight * (1.0 - 0.25 ** (1.0 / weight))
    return np.where(wrong >= 1.0, many, none + wrong * (many - none))


def prune(nodes, shift):
    """Make a leaf of each node that, by C4.5's estimate, then has no more errors. The nodes below
    are marked as cut off and take its sums, for the sake of the rows that know them as theirs."""
    weight = (nodes["h"] >> shift).astype(np.float64)
    rows = (nodes["h"][0] & ((1 << shift) - 1)) / weight[0]  # What a unit of weight stands for.
    errors = _pessimistic(0.5 * rows * (weight - np.abs(nodes["g"])), rows * weight).tolist()
    names = "g", "h", "child", "is_leaf", "is_cut"
    g, h, child, is_leaf, is_cut = (nodes[name].tolist() for name in names)
    for k in range(len(nodes) - 1, -1, -1):  # Children come after their parents.
        if not is_leaf[k]:
            below = errors[child[k]] + errors[child[k] + 1]
            is_leaf[k], errors[k] = errors[k] <= below, min(errors[k], below)
    for k in range(len(nodes)):
        if is_leaf[k] and child[k]:
            for c in (child[k], child[k] + 1):
                g[c], h[c], is_leaf[c], is_cut[c] = g[k], h[k], 1, 1
    nodes["g"], nodes["h"], nodes["is_leaf"], nodes["is_cut"] = g, h, is_leaf, is_cut


class Grower:
    """Grows trees on the rows of X, cut into at most max_bins bins a feature (None: exact ones).

    data : GH (n, 2) is to be filled before `grow`, with whole numbers, so that sums are exact in
        any order: the gradient -w y, and the weight w times 2^shift plus the number of rows that it
        stands for. The sum of all w may be up to `full`. With an l2, of gradient boosting, they are
        the first and second derivatives of a loss instead
    rules : of all trees; l2 and min_weight may change from one to the next
    space : after `grow`, `leaf` has each row's node among those of the tree. Where features are
        drawn, `draws` are to be set before
    weight : None, or (n,) those of the rows that decide where bins end, see `bin_edges`
    most : rows that all of GH may stand for, where these are more than n: rows drawn repeatedly
    """

    def __init__(self, X, max_bins, rules, weight=None, most=0):
        (n, d), edges = X.shape, bin_edges(X, max_bins, weight)
        bins = bin_table(edges)
        self.edges, n_codes = bins.edges, bins.n_codes
        if max_bins is None:
            codes, self.order = self._rank(X, edges, n_codes)
        else:
            codes, self.order = np.empty(X.shape, dtype=np.uint8), None
            with np.errstate(over="ignore"):
                _encode(X, tuple(bins), codes)
        by_feature = np.asfortranarray(codes)
        self.is_drawn = rules.n_drawn is not None
        self.most = max(n, most)
        shift = self.most.bit_length()
        self.full = 2.0 ** (SUM_BITS - shift)
        self.data = Data(by_feature if self.is_drawn else codes, by_feature, n_codes, None, shift)
        self.rules = rules._replace(
            max_depth=n if rules.max_depth is None else min(rules.max_depth, n),
            max_leaves=rules.max_leaves or 0,
            n_drawn=rules.n_drawn if self.is_drawn else d,
        )
        self.columns = None
        self._allocate()

    def _allocate(self):
        """Space to grow trees in."""
        (n, d), rules = self.data.codes.shape, self.rules
        is_exact = self.order is not None
        leaves = min(n, self.most // rules.min_leaf, 2 ** min(rules.max_depth, 31))
        leaves = max(1, min(leaves, rules.max_leaves or n))
        slots = leaves if rules.max_leaves else min(n.bit_length() + 2, rules.max_depth)
        slots = max(1, slots)
        bins = n + 1 if is_exact else int(self.data.n_codes.max()) + 1
        is_sorted = not is_exact and rules.criterion < 2 and rules.max_depth > 1
        few = bins // SORTED if is_sorted else 0  # Logarithms cost more than histograms.
        self.data = self.data._replace(GH=np.empty((n, 2), dtype=np.int64))
        self.rules = rules._replace(few=few)
        self.space = Space(
            nodes=np.zeros(2 * leaves - 1, dtype=GROWING),
            leaf=np.empty(n, dtype=np.int32),
            rows=np.arange(n, dtype=np.int32),
            spare=np.empty(n, dtype=np.int32),
            ahead=np.empty(AHEAD, dtype=np.int64),
            opened=np.empty(slots, dtype=np.int32),
            free=np.empty(slots, dtype=np.int32),
            bins=np.empty((bins, 2), dtype=np.int64),
            found=np.empty(bins, dtype=np.int32),
            hist=None if is_exact or self.is_drawn else np.empty((slots, d, bins, 2), np.int64),
            order=None,
            near=np.empty(few, dtype=np.int32) if is_sorted else None,
            draws=(np.empty(1, np.uint64), np.arange(d, dtype=np.int32)) if self.is_drawn else None,
        )
        self.in_order = True  # Whether `rows` are in their order.

    def fork(self, columns=None):
        """A grower with space of its own, for another thread, on all features or on a part."""
        twin = copy.copy(self)
        if columns is not None:
            data, rules = self.data, self.rules
            layout = "C" if data.codes.flags.c_contiguous else "F"
            codes = np.array(data.codes[:, columns], order=layout)
            twin.columns = columns
            twin.order = None if self.order is None else self.order[columns]
            twin.data = data._replace(
                codes=codes, by_feature=np.asfortranarray(codes), n_codes=data.n_codes[columns]
            )
            if rules.monotone is not None:
                twin.rules = rules._replace(monotone=rules.monotone[columns])
        twin._allocate()
        return twin

    def _rank(self, X, edges, n_codes):
        """Codes of exact bins, column after column, and the rows in the order of each feature."""
        codes, order = np.empty(X.shape[::-1], np.int32), np.empty(X.shape[::-1], np.int32)
        for j, column in enumerate(X.T):
            codes[j] = np.where(np.isnan(column), n_codes[j], np.searchsorted(edges[j], column))
            order[j] = np.argsort(codes[j], kind="stable")
        return codes.T, order

    def unit(self, size):
        """What numbers of this sum are to be multiplied with, to be whole: a power of two."""
        return math.ldexp(self.full, -math.frexp(size)[1])

    def grow(self, rows=None):
        """Grow a tree on GH, of all rows or of these; returns its nodes, to be pruned perhaps and
        collected for `pack`."""
        space, order = self.space, self.order
        if rows is not None:
            space.rows[: len(rows)] = rows
        elif not self.in_order:
            space.rows[:] = np.arange(len(space.rows))
        self.in_order = rows is None and self.rules.max_depth <= 1  # The root's are never moved.
        if order is not None:
            if rows is not None:
                chosen = np.zeros(order.shape[1], dtype=bool)
                chosen[rows] = True
                order = order[chosen[order]].reshape(len(order), -1)
            space = space._replace(order=order.copy() if rows is None else order)
        n_rows = len(space.rows) if rows is None else len(rows)
        # As tuples: NamedTuples of one name in several files would each time be looked up anew.
        count = _grow(tuple(self.data), tuple(self.rules), tuple(space), n_rows)
        nodes = space.nodes[:count].copy()
        if self.columns is not None:
            nodes["feature"] = self.columns[nodes["feature"]]
        return nodes

    def pack(self, trees):
        """Finished trees, one after the other, and where each starts; the last start is the end."""
        nodes = np.concatenate([tree.view(np.uint8) for tree in trees]).view(GROWING)
        first = np.cumsum([0, *map(len, trees)], dtype=np.int64)
        tree = np.repeat(np.arange(len(trees)), np.diff(first))
        keep = nodes["is_cut"] == 0
        place = np.cumsum(keep) - keep  # The place of a node among those kept.
        starts = np.append(place, keep.sum())[first]
        child = place[first[tree] + nodes["child"]] - starts[tree]
        weight, inner = nodes["h"] >> self.data.shift, nodes["is_leaf"] == 0
        packed = np.zeros(len(nodes), dtype=NODE)
        packed["value"] = -nodes["g"] / (weight + (self.rules.l2 or 0.0))
        if self.rules.monotone is not None:
            packed["value"] = np.clip(packed["value"], nodes["low"], nodes["high"])
        packed["threshold"] = self.edges[nodes["feature"], nodes["code"]]
        packed["gain"], packed["child"] = nodes["gain"] / weight[first[tree]], child
        packed["feature"], packed["missing_left"] = nodes["feature"], nodes["missing_left"]
        for name in ("threshold", "gain", "child", "feature", "missing_left"):
            packed[name][~inner] = 0
        return packed[keep], starts


def check_trees(nodes, starts, n_features):
    """True if these arrays, perhaps from a file, are trees that can be walked safely. Leaves have a
    feature, too: `_add_deep_trees` looks at it before it knows that they are leaves."""
    if nodes.dtype != NODE or nodes.ndim != 1 or starts.dtype != np.int64 or starts.ndim != 1:
        return False
    sizes = np.diff(starts)
    if starts.size == 0 or starts[0] != 0 or starts[-1] != nodes.size or (sizes < 1).any():
        return False
    size = np.repeat(sizes, sizes)
    place = np.arange(nodes.size) - np.repeat(starts[:-1], sizes)
    child, feature = nodes["child"], nodes["feature"]
    numbers = nodes["value"], nodes["gain"]
    good = (child == 0) | (place < child) & (child < size - 1)
    good &= (0 <= feature) & (feature < n_features) & ~np.isnan(nodes["threshold"])
    good &= np.isfinite(numbers).all(axis=0) & np.isin(nodes["missing_left"], (0, 1))
    return bool(good.all())


@jit(nogil=True)
def _add_trees(nodes, starts, weights, X, out):
    """out (n,) += sum over the trees of weight times value."""
    for i in range(X.shape[0]):
        total = out[i]
        for t in range(weights.size):
            node = nodes[starts[t]]
            while node["child"] > 0:
                x = X[i, node["feature"]]
                right = x > node["threshold"] if x == x else node["missing_left"] == 0
                node = nodes[starts[t] + node["child"] + right]
            total += weights[t] * node["value"]
        out[i] = total


@jit(nogil=True)
def _add_deep_trees(nodes, starts, weights, X, out):
    """The same in another order: half the time for deep trees, three times for stumps."""
    at = np.empty(ABREAST, dtype=np.int64)
    for chunk in range(0, X.shape[0], DEEP_ROWS):
        end = min(chunk + DEEP_ROWS, X.shape[0])
        for t in range(weights.size):
            for first in range(chunk, end, ABREAST):
                m, is_inner = min(ABREAST, end - first), True
                for a in range(m):
                    at[a] = starts[t]
                while is_inner:
                    is_inner = False
                    for a in range(m):
                        node = nodes[at[a]]
                        x = X[first + a, node["feature"]]
                        right = (x > node["threshold"]) | ((x != x) & (node["missing_left"] == 0))
                        at[a] = starts[t] + node["child"] + right if node["child"] > 0 else at[a]
                        is_inner |= node["child"] > 0
                for a in range(m):
                    out[first + a] += weights[t] * nodes[at[a]]["value"]


def sum_trees(nodes, starts, weights, X, n_jobs=1):
    """Sum over the trees of weight times value, (n,); n_jobs threads share the rows."""
    out = np.zeros(X.shape[0])
    add = _add_trees if nodes.size < DEEP else _add_deep_trees
    n_jobs = max(1, min(n_jobs, out.size * weights.size // WALKS_A_THREAD))
    if n_jobs == 1:
        add(nodes, starts, weights, X, out)
        return out
    cuts = np.linspace(0, out.size, n_jobs + 1).astype(int)
    parts = [slice(*ends) for ends in zip(cuts[:-1], cuts[1:], strict=True)]
    with ThreadPoolExecutor(n_jobs) as pool:
        jobs = [pool.submit(add, nodes, starts, weights, X[p], out[p]) for p in parts]
        for job in jobs:
            job.result()
    return out


# <<< shared: tree


# >>> shared: estimator 6
MAX_ABS = 1e150  # Larger numbers are refused: sums of their squares have to be finite.
CHECK_CHUNK = 2**15  # Values per check; NumPy copies each chunk of a memory-mapped file.
RANDOM = (np.random.RandomState, np.random.Generator)
LIMITS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
COMMON_RULES = {  # Rules of the parameters that many classes have.
    "class_weight": "None, 'balanced' or a dict from class to positive factor",
    "n_jobs": "None, an integer >= 1 or an integer <= -1",
    "random_state": "None, an integer >= 0, a RandomState or a Generator",
    "callback": "None or a function",
}
RULE_TYPES = {  # Tests of the types in rules. All other words are values: None, 'scale'.
    "a number": lambda v: v == v,
    "a finite number": lambda v: abs(v) < np.inf,
    "a share": lambda v: v == v,
    "an integer": lambda v: isinstance(v, (int, np.integer)),
    "a function": callable,
    "a dict from class to positive factor": lambda v: all(0 < f < MAX_ABS for f in v.values()),
    "a RandomState": lambda v: isinstance(v, np.random.RandomState),
    "a Generator": lambda v: isinstance(v, np.random.Generator),
    "an object with fit and predict": lambda v: callable(v.fit) and callable(v.predict),
}


class ConvergenceWarning(UserWarning):
    """The result is less exact than asked for."""


def restore_on_failure(fit):
    """Decorate fit: delete the fitted attributes first; restore them if fit raises."""

    @wraps(fit)
    def safe_fit(self, *args, **kwargs):
        before = vars(self)
        self.__dict__ = {name: value for name, value in before.items() if name[-1] != "_"}
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            self.__dict__ = before
            raise

    return safe_fit


def satisfies(value, rule):
    """Return True if a value satisfies a rule such as "None or an integer from 2 to 256"."""
    for is_type, limits in _alternatives(rule):
        with suppress(AttributeError, TypeError, ValueError):  # The value has another type.
            if is_type(value) and all(compare(value, limit) for compare, limit in limits):
                return True
    return False


@cache
def _alternatives(rule):
    """Test of the type and pairs (comparison, limit) for each alternative of a rule."""
    if rule in RULE_TYPES:
        return [(RULE_TYPES[rule], ())]
    alternatives = []
    rule = re.sub(r"from (\d+) to (\d+)", r">= \1 and <= \2", rule.removeprefix("one of "))
    for text in re.split(r", | or ", rule):
        kind, *limits = re.split(r" (?:and )?(?=[<>])", text)
        value = None if kind in RULE_TYPES else ast.literal_eval(kind)
        is_type = RULE_TYPES.get(kind, lambda v, value=value: v == value)
        pairs = [limit.split() for limit in limits]
        alternatives.append((is_type, [(LIMITS[sign], float(end)) for sign, end in pairs]))
    return alternatives


class _Estimator:
    """Parameters, input checks, labels, predict, score and report of all estimators."""

    class_weight = None  # Classifiers have it as a parameter.
    _estimator_type = "classifier"
    _allow_nan = False
    _multi_class = False
    _param_rules = {}  # Rule of each parameter: a text that `satisfies` reads.

    def _set(self, params):
        """Store the arguments of the constructor, given as its locals(), unchanged."""
        vars(self).update({name: params[name] for name in self._param_names()})

    @classmethod
    @cache
    def _param_names(cls):
        return list(inspect.signature(cls).parameters)

    def get_params(self, deep=True):
        """Parameters of the constructor by name."""
        return {name: getattr(self, name) for name in self._param_names()}

    def set_params(self, **params):
        """Set parameters of the constructor; returns self."""
        for name, value in params.items():
            self._require(name in self._param_names(), f"no parameter {name!r}; see get_params()")
            setattr(self, name, value)
        return self

    def __repr__(self):
        defaults = inspect.signature(type(self)).parameters
        params = self.get_params(deep=False).items()
        changed = [f"{k}={v!r}" for k, v in params if repr(v) != repr(defaults[k].default)]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self):
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        kind, pairwise = self._estimator_type, getattr(self, "kernel", None) == "precomputed"
        inputs = InputTags(allow_nan=self._takes_nan(), pairwise=pairwise)
        classes = ClassifierTags(multi_class=self._multi_class)
        own = {f"{kind}_tags": classes if kind == "classifier" else RegressorTags()}
        return Tags(kind, TargetTags(required=True), input_tags=inputs, **own)

    def _takes_nan(self):
        return self._allow_nan

    def __sklearn_is_fitted__(self):
        return hasattr(self, "converged_")

    def _require(self, condition, text, error=ValueError):
        """Raise an error that names the class, unless the condition holds."""
        if not condition:
            raise error(f"{type(self).__name__}: {text}")

    def _check_params(self):
        """Raise ValueError if a parameter does not satisfy its rule."""
        common = {name: rule for name, rule in COMMON_RULES.items() if name in vars(self)}
        for name, rule in (common | self._param_rules).items():
            if not satisfies(value := getattr(self, name), rule):
                self._require(False, f"{name} must be {rule}, got {value!r}")

    def _seed(self):
        """Integer seed from random_state; drawn if that is a generator or None."""
        state = self.random_state
        if isinstance(state, RANDOM):
            is_new = isinstance(state, np.random.Generator)
            return int(state.integers(2**63) if is_new else state.randint(2**31 - 1))
        return np.random.SeedSequence().entropy if state is None else int(state)

    def _threads(self):
        """Number of threads from n_jobs, at most one per processor."""
        count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        jobs = 1 if self.n_jobs is None else int(self.n_jobs)
        return min(jobs, count) if jobs > 0 else max(count + 1 + jobs, 1)

    def _check_X(self, X, fitting=False):
        """X as a C-contiguous float64 matrix of finite numbers (NaN if _allow_nan)."""
        error = getattr(sys.modules.get("sklearn.exceptions"), "NotFittedError", ValueError)
        is_ready = fitting or self.__sklearn_is_fitted__()
        self._require(is_ready, "this instance is not fitted yet; call fit", error)
        names = getattr(X, "columns", ())
        names = list(names) if all(isinstance(name, str) for name in names) else []
        X = self._as_numbers(X)
        self._require(X.ndim == 2, f"X must be a matrix, got {X.ndim}-d. Reshape your data")
        empty = "feature" if len(X) else "sample"
        self._require(X.size, f"0 {empty}(s) (shape={X.shape}) while a minimum of 1 is required.")
        flat = X.ravel()
        with np.errstate(over="ignore", invalid="ignore"):
            chunks = (flat[i : i + CHECK_CHUNK] for i in range(0, flat.size, CHECK_CHUNK))
            is_valid = sum(chunk @ chunk for chunk in chunks) < MAX_ABS**2
        if not is_valid:  # One cell may be, or the sum is large.
            is_valid = (np.abs(X) < MAX_ABS) | (np.isnan(X) & self._allow_nan)
            for i, k in np.argwhere(~is_valid)[:1]:
                fault = "is too large" if np.isfinite(X[i, k]) else "contains NaN or infinity"
                text = f"X {fault}: {X[i, k]} in row {i}, column {k}"
                self._require(False, f"{text}; fill or drop such cells, or scale X")
        self._check_feature_names(names, X.shape[1], fitting)
        return X

    def _as_numbers(self, X):
        """X as a C-contiguous float64 array; missing cells of a frame become NaN."""
        self._require(not hasattr(X, "toarray"), "sparse X: pass X.toarray()", TypeError)
        dtypes = np.ravel(getattr(X, "dtypes", ()))
        if hasattr(X, "iloc") and not all(isinstance(dtype, np.dtype) for dtype in dtypes):
            with suppress(TypeError, ValueError):
                X = X.to_numpy(dtype=np.float64, na_value=np.nan)
        X = np.asarray(X)
        text = f"Complex data not supported, nor dates, got {X.dtype}; convert X to numbers"
        self._require(X.dtype.kind not in "cmM", text)
        try:
            return np.ascontiguousarray(X, dtype=np.float64)
        except (TypeError, ValueError) as error:
            text = f"X must hold numbers; convert dates and texts, fill missing cells ({error})"
            raise type(error)(f"{type(self).__name__}: {text}") from None

    def _check_feature_names(self, names, d, fitting):
        """Set names and number of the features in fit, compare them with those of fit later."""
        if fitting:
            self.n_features_in_ = d
            vars(self).update({"feature_names_in_": np.array(names, object)} if names else {})
        expected, class_name = self.n_features_in_, type(self).__name__
        known = list(getattr(self, "feature_names_in_", ()))
        text = f"The feature names should match those that were passed during fit: {known[:9]}"
        self._require(not names or not known or names == known, text)
        text = f"X has {d} features, but {class_name} is expecting {expected} features as input"
        self._require(d == expected, text)
        if bool(names) != bool(known):
            has, was = ("has", "without") if names else ("does not have valid", "with")
            text = f"X {has} feature names, but {class_name} was fitted {was} feature names"
            warnings.warn(text, stacklevel=4)

    def _check_y(self, y, n):
        """y as an array (n,) of labels of one kind, none of them missing."""
        y = np.asarray(y)
        self._require(y.shape in ((n,), (n, 1)), f"y must have shape ({n},), got {y.shape}")
        y, is_given = y.ravel(), np.True_
        if y.dtype.kind == "O":  # NaN and the missing values of pandas do not equal themselves.
            is_given = np.array([v is not None and str(v == v) == "True" for v in y])
        elif y.dtype.kind in "fmM":
            is_given = np.isfinite(y)
        text = f"Input y contains NaN or infinity: row {is_given.argmin()} has no label; drop it"
        self._require(is_given.all(), text)
        if y.dtype.kind == "O":
            kinds = {isinstance(v, str) for v in y}
            self._require(len(kinds) == 1, "y mixes texts and numbers; pass labels of one kind")
            y = y if True in kinds else np.array(y.tolist())
        return y

    def _check_weight(self, sample_weight, n):
        """Sample weights as a float64 array (n,); ones if there are none."""
        if sample_weight is None:
            return np.ones(n)
        weight = np.ascontiguousarray(sample_weight, dtype=np.float64)
        with np.errstate(over="ignore"):
            is_valid = weight.shape == (n,) and (weight >= 0).all() and 0 < weight.sum() < MAX_ABS
        text = f"sample_weight must be finite and >= 0, of shape ({n},); the sum of sample_weight"
        self._require(is_valid, f"{text} must be above zero and below {MAX_ABS:g}")
        return weight

    def _is_weighted(self, sample_weight):
        return sample_weight is not None or self.class_weight is not None

    def _check_rows(self, X, y, sample_weight):
        """X (n, d), y (n,) and sample weights (n,), checked."""
        self._require(y is not None, "requires y to be passed, but the target y is None")
        X = self._check_X(X, fitting=True)
        y = np.asarray(y)
        if y.shape == (len(X), 1):
            text = "A column-vector y was passed when a 1d array was expected; pass y.ravel()"
            kind = getattr(sys.modules.get("sklearn.exceptions"), "DataConversionWarning", None)
            warnings.warn(text, kind, stacklevel=5)
        return X, self._check_y(y, len(X)), self._check_weight(sample_weight, len(X))

    def _check_fit(self, X, y, sample_weight):
        """X, y and the sample weights times those of the classes, checked; sets classes_.

        y becomes -1.0 and +1.0, or class indices if there may be more than two classes.
        """
        X, y, weight = self._check_rows(X, y, sample_weight)
        low, high = (y.min(), y.max()) if y.dtype.kind in "biuf" else (y[0], y[0])
        classes, codes = np.array([low, high]), y == high
        if low == high or not (codes | (y == low)).all():  # Texts, or not two numbers.
            classes, codes = np.unique(y, return_inverse=True)
        self._check_classes(classes)
        self.classes_, codes = classes, codes.astype(np.intp)
        if self.class_weight is not None:
            totals = [math.fsum(weight[codes == k]) for k in range(classes.size)]
            weight = weight * self._class_factors(np.array(totals))[codes]
        if self._is_weighted(sample_weight):
            is_positive = (np.bincount(codes, weight) > 0).all()
            self._require(is_positive, "the weights are zero on all rows of a class")
        return X, codes if self._multi_class else 2.0 * codes - 1.0, weight

    def _check_classes(self, classes):
        """Raise ValueError if these distinct labels are no classes, or too many."""
        K, shown = classes.size, ", ".join(map(str, classes[:5]))
        self._require(K > 1, f"needs two classes, y has only one class: {shown}")
        if K > 2:
            is_continuous = classes.dtype.kind == "f" and (classes != np.round(classes)).any()
            text = "Only binary classification is supported. The type of the target is multiclass"
            text = "Unknown label type: continuous" if is_continuous else text
            is_valid = self._multi_class and not is_continuous
            self._require(is_valid, f"{text}: y has {K} classes, {shown} ...; see OneVsRest")

    def _class_factors(self, totals):
        """Factor per class from class_weight; totals (K,) are the weights of the classes."""
        factors, known = self.class_weight, self.classes_.tolist()
        if not isinstance(factors, dict):
            with np.errstate(divide="ignore"):
                return totals.sum() / (totals.size * totals)
        for label in factors:
            text = f"class_weight names {label!r}, y has {', '.join(map(repr, known))}"
            self._require(label in known, text)
        return np.array([factors.get(label, 1.0) for label in known], dtype=np.float64)

    def predict(self, X):
        """Class of each row; a decision of exactly 0 is the positive class."""
        decision = self.decision_function(X)
        is_binary = decision.ndim == 1
        return self.classes_[(decision >= 0).astype(np.intp) if is_binary else decision.argmax(1)]

    def score(self, X, y, sample_weight=None):
        """Fraction of the rows whose predicted class is y."""
        predicted = self.predict(X)
        weight = self._check_weight(sample_weight, predicted.size)
        return float(np.average(predicted == self._check_y(y, predicted.size), weights=weight))

    def _report(self, iteration, objective, **info):
        """Record an iteration, print it if verbose, call the callback; True asks to stop."""
        self.n_iter_, self.objective_ = iteration, float(objective)
        self.trace_.append(self.objective_)
        if "residual" in info:
            self.residual_ = info["residual"]
        info = {"objective": self.objective_} | info
        if self.verbose:
            values = [(name, value) for name, value in info.items() if value is not None]
            texts = [f"  {k} {v:.9e}" if type(v) is float else f"  {k} {v}" for k, v in values]
            print(f"{type(self).__name__} {iteration:5d}{''.join(texts)}")
        return self.callback is not None and bool(self.callback(self, iteration, info))


# <<< shared: estimator


# >>> shared: rows 2
class Rows:
    """All rows as one block, in memory: X, their target (-1 and +1, or numbers) and weight. It has
    the protocol of solvers/rows, which has blocks of threads, of files and on other machines."""

    start = 0

    def __init__(self, X, target, weight):
        self.X, self.target, self.weight, self.shape = X, target, weight, X.shape

    def allocate(self, name, shape, dtype=np.float64):
        """An array of zeros that is kept as an attribute."""
        setattr(self, name, np.zeros(shape, dtype))
        return getattr(self, name)

    def map(self, step, *args, n_jobs=1, add=False):
        return [step(self, *args)]

    map_inplace = map


def rows_of(X, target, weight, threads):
    """The rows as one block; as one for each thread where solvers/rows is beside this file."""
    if threads > 1 and __package__:
        with suppress(ImportError):
            return import_module(".rows", __package__).ThreadBlocks(X, target, weight, threads)
    return nullcontext(Rows(X, target, weight))


# <<< shared: rows


# >>> shared: nested 2
def _estimators(value):
    """Estimators in a parameter by name: "" for itself; in a list their names or indices."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        return {"": value}
    items = enumerate(value if isinstance(value, (list, tuple)) else ())
    pairs = [item if _is_pair(item) else (str(t), item) for t, item in items]
    return {name: member for name, member in pairs if hasattr(member, "get_params")}


def _is_pair(item):
    """Return True if an item of a list is a pair (name, estimator)."""
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)


class _Nested(_Estimator):
    """A model that may hold others, as parameters or as fitted members."""

    _own_members = ()  # Classes of this file that may be inside the model.

    def get_params(self, deep=True):
        """Parameters of the constructor by name; deep: also a__b, those of an estimator a, and
        a__0 and a__0__b where a is a list of estimators, by name where they have names."""
        params = super().get_params()
        for name, value in list(params.items()) if deep else ():
            for place, member in _estimators(value).items():
                path = f"{name}__{place}" if place else name
                params[path] = member
                params |= {f"{path}__{inner}": v for inner, v in member.get_params().items()}
        return params

    def set_params(self, **params):
        """Set parameters of the constructor, also nested ones such as a__b; returns self."""
        for path, value in sorted(params.items()):  # An estimator comes before its parameters.
            name, _, inner = path.partition("__")
            place, old = "", getattr(self, name, None) if name in self._param_names() else None
            if inner and isinstance(old, (list, tuple)):
                place, _, inner = inner.partition("__")
            members = _estimators(old)
            is_known = name in self._param_names() and (not place + inner or place in members)
            self._require(is_known, f"no parameter {path!r}; see get_params()")
            if inner:
                members[place].set_params(**{inner: value})
                continue
            if place:  # Replace one item of the list.
                is_named = [_is_pair(item) and item[0] == place for item in old]
                t = is_named.index(True) if any(is_named) else int(place)
                value = [*old[:t], (place, value) if any(is_named) else value, *old[t + 1 :]]
            setattr(self, name, value)
        return self

    def _encode_labels(self, y, n):
        """Class indices of the labels of n rows. Raises ValueError if a label is unknown."""
        y = self._check_y(y, n)
        matches = y[:, None] == self.classes_
        for label in y[~matches.any(axis=1)][:1].tolist():
            known = ", ".join(map(str, self.classes_))
            self._require(False, f"y holds {label!r}, which is none of the classes of fit: {known}")
        return matches.argmax(axis=1)


# <<< shared: nested


# >>> shared: members 2
def takes_nan(member):
    """Return True if a member accepts NaN in X, by its own word or its scikit-learn tags."""
    if hasattr(member, "_takes_nan"):
        return member._takes_nan()
    has_tags = hasattr(member, "__sklearn_tags__")
    return has_tags and member.__sklearn_tags__().input_tags.allow_nan


def takes_weights(member):
    """Return True if fit of a member has the parameter sample_weight."""
    return "sample_weight" in inspect.signature(member.fit).parameters


def seeded_copy(member, rng):
    """A copy of a member, with a seed from rng wherever it has a random_state."""
    member = copy.deepcopy(member)
    seed = int(rng.integers(2**31))
    for name in member.get_params() if hasattr(member, "get_params") else ():
        if name.rpartition("__")[2] == "random_state":
            member.set_params(**{name: seed})
    return member


def fit_member(member, X, y, weight=None, instead="leave out sample_weight and class_weight"):
    """Train a member, with weights unless they are None; returns it."""
    if weight is None:
        member.fit(X, y)
    elif takes_weights(member):
        member.fit(X, y, sample_weight=weight)
    else:
        raise ValueError(
            f"{type(member).__name__} takes no sample_weight in fit: {instead}, or choose members "
            "that take weights"
        )
    return member


# <<< shared: members


# >>> shared: regressor 2
def r_squared(y, predicted, weight):
    """Fraction of the variance of y that is explained; 1 or 0 if y is constant."""
    error = np.average((y - predicted) ** 2, weights=weight)
    variance = np.average((y - np.average(y, weights=weight)) ** 2, weights=weight)
    return float(1.0 - error / variance) if variance > 0 else float(error == 0)


class _Regressor:
    """Targets and score of estimators whose y are numbers; the first base of such a class."""

    _estimator_type = "regressor"

    def _check_fit(self, X, y, sample_weight):
        X, y, weight = self._check_rows(X, y, sample_weight)
        return X, self._targets(y), weight

    def _targets(self, y):
        """y (n,) as float64 numbers whose squares are finite."""
        self._require(y.dtype.kind in "biuf", f"y must hold numbers, got dtype {y.dtype}")
        y = np.ascontiguousarray(y, dtype=np.float64)
        text = f"Input y contains infinity, or a number of {MAX_ABS:g} or more; change its unit"
        self._require((np.abs(y) < MAX_ABS).all(), text)
        return y

    def score(self, X, y, sample_weight=None):
        """R^2: the fraction of the variance of y that is explained; 1 or 0 if y is constant."""
        predicted = self.predict(X)
        y = self._targets(self._check_y(y, predicted.size))
        return r_squared(y, predicted, self._check_weight(sample_weight, predicted.size))


# <<< shared: regressor


# -- estimators ---------------------------------------------------------------------------------
GROWN = "all trees were grown"
TRAINED = "all members were trained"
ENOUGH = "the loss on the rows held out no longer fell"
NO_SPLIT = "no split lowers the loss"
NO_STEP = "no member lowers the loss"
STOPPED = "the callback stopped it"
SIGNS = "None or one of -1, 0, 1 for each feature"
RULE_TYPES[SIGNS] = lambda v: (
    v is None or np.ndim(v) == 1 and {*np.asarray(v).tolist()} <= {-1, 0, 1}
)
# A model from a file has no loss where that was a function: `fit` refuses it, `predict` does not.
LOSSES_OF_CLASSES = "one of 'log', 'exponential', 'squared', 'hinge' or a function"
RULE_TYPES[LOSSES_OF_CLASSES] = lambda v: (
    v is None or callable(v) or v in (*ENDLESS, "squared", "hinge")
)
LOSSES_OF_NUMBERS = "one of 'squared', 'huber', 'absolute' or a function"
RULE_TYPES[LOSSES_OF_NUMBERS] = lambda v: (
    v is None or callable(v) or v in ("squared", "huber", "absolute")
)
MOST_LEVELS = 10  # Trees that may be deeper are grown by one thread: small nodes cost a pass, too.
CELLS_A_THREAD = 400_000  # A thread is worth its while from so many cells of X on.
FLATTEST = 1e-10  # Objects see no curvature below this part of the largest: -g / h would overflow.


class _Boosted(_Nested):
    """What the classifier and the regressor share: all but the meaning of y."""

    _param_rules = {
        "order": "1 or 2",
        "base": "'tree' or an object with fit and predict",
        "n_estimators": "an integer >= 1",
        "learning_rate": "a finite number > 0",
        **TREE_LIMITS,
        "min_child_weight": "a finite number >= 0",
        "l2": "a finite number >= 0",
        "subsample": "a share > 0 and <= 1",
        "max_features": "None, an integer >= 1 or a share > 0 and <= 1",
        "early_stopping": "True or False",
        "validation_fraction": "a share > 0 and < 1",
        "n_iter_no_change": "an integer >= 1",
        "monotonic_cst": SIGNS,
    }

    @restore_on_failure
    def fit(self, X, y=None, sample_weight=None):
        """Train on X (n, d) and y (n,), or on row blocks; sample_weight multiply the loss."""
        self._check_params()
        if hasattr(X, "fit_model"):  # Row blocks know how, see solvers/rows.
            return X.fit_model(self, y, sample_weight)
        rng, held_out = np.random.default_rng(self._seed()), None
        X, y, weight = self._check_fit(X, y, sample_weight)
        is_weighted, n_columns = self._is_weighted(sample_weight), self._check_features()
        if not weight.all():  # No row without weight may place a threshold.
            X, y, weight = (part[weight > 0] for part in (X, y, weight))
        if self.early_stopping:
            X, y, weight, held_out = self._hold_out(X, y, weight, rng)
        with rows_of(X, y, weight, self._threads_for(X, n_columns)) as rows:
            return self._boost(rows, n_columns, is_weighted, rng, held_out)

    def _boost(self, parts, n_columns, is_weighted, rng, held_out=None):
        """Algorithm 2, on rows as one block or as many."""
        unseen = None
        # Algorithm 2, line 1: H_0, the best constant.
        start, delta = self._start(parts)
        scores = self._score_rows(parts, start, delta)
        self._check_sums(scores)
        if self.early_stopping:
            unseen = self._score_rows(Rows(*held_out), start, delta)
            unseen.leaf = np.arange(len(held_out[0]), dtype=np.int32)
        is_tree = isinstance(self.base, str)
        learner = self._tree_learner if is_tree else self._learner
        train, outputs = learner(scores, n_columns, is_weighted, rng)
        members = _Members(start)
        self.trace_, self.validation_trace_ = [], []
        t, best, reason = 0, 0, ""
        while not reason:
            # Lines 3 to 5: the member h_t, fitted to the slopes at H_t-1, which scores hold.
            member, values, penalty, is_whole = train()
            # Lines 6 and 7: its weight alpha_t; H_t = H_t-1 + learning_rate alpha_t h_t.
            alpha = self.learning_rate * self._alpha(scores, values, penalty)
            members.add(member, alpha)
            scores.move(values, alpha)
            t += 1

            # The loss there, and on the rows held out: is it the last round?
            if unseen:
                unseen.move(outputs(member, held_out[0]), alpha)
                self.validation_trace_.append(unseen.loss)
                best = int(np.argmin(self.validation_trace_)) + 1
            if self._show(t, scores.loss, members):
                reason = STOPPED
            elif is_whole and (alpha == 0.0 or self._is_idle(member, values)):
                reason = NO_SPLIT if is_tree else NO_STEP  # The next one would be the same.
            elif min(scores.sum_g, scores.sum_second) < NO_SLOPE:
                reason = NO_SPLIT if is_tree else NO_STEP
            elif unseen and t - best >= self.n_iter_no_change:
                reason = ENOUGH
            elif t == self.n_estimators:
                reason = GROWN if is_tree else TRAINED
        self._keep(members, best or t, reason)
        if scores.endless:
            self._warn_of_endless(scores.endless, t)
        return self

    def _lacks(self):
        """What would have to be set for members to need sums over rows only; None: nothing."""
        if not isinstance(self.base, str):
            return "base='tree'"
        if self.loss in KINKED or callable(self.loss):
            return f"another loss, such as {self._smooth}"
        wanted = {"subsample": 1.0, "early_stopping": False}
        for name, value in wanted.items():
            if getattr(self, name) != value:
                return f"{name}={value}"
        return "max_bins of at most 256" if self.max_bins is None else None

    def _threads_for(self, X, n_columns):
        """How many threads are worth their while."""
        is_slow = self.max_leaf_nodes or n_columns < X.shape[1]
        is_slow = is_slow or self.max_depth is None or self.max_depth > MOST_LEVELS
        if is_slow or self._lacks() not in (None, "early_stopping=False"):
            return 1
        return max(1, min(self._threads(), X.size // CELLS_A_THREAD))

    def votes(self, X):
        """Output of every member, (n, T + 1); the first is the constant to start from."""
        return np.array([*self._each_output(self._check_X(X))]).T

    def _takes_nan(self):
        """Trees know what to do with missing values; an object may not."""
        return isinstance(self.base, str) or takes_nan(self.base)

    @property
    def _allow_nan(self):
        """Whether they are let through: an object that is not ours looks at its rows itself."""
        return self._takes_nan() or not hasattr(self.base, "_takes_nan")

    def _check_params(self):
        who = type(self).__name__
        super()._check_params()
        if self.loss is None and not self.__sklearn_is_fitted__():
            raise ValueError(
                f"{who}: loss is None, as in a model from a file, which holds no functions: it "
                "predicts, but to be fitted again it needs its loss, set_params(loss=...)"
            )
        if self.order == 2 and self.loss in KINKED:
            raise ValueError(
                f"{who}: the {self.loss} loss has no curvature, order=2 needs one; set order=1, or "
                f"take {self._smooth}"
            )
        if not isinstance(self.base, str) and _does_classes(self.base):
            raise ValueError(
                f"{who}: base must do regression, as it is fitted to the slopes of the loss, but "
                f"{type(self.base).__name__} is a classifier"
            )

    def _is_consistent(self, has):
        T, k = self.weights_.size, self.n_features_in_
        good = T > 1 and has("weights_", (T,)) and check_trees(self.nodes_, self.starts_, k)
        if isinstance(self.base, str):
            return good and self.starts_.size == T + 1 and not hasattr(self, "estimators_")
        if hasattr(self, "estimators_features_"):
            good = good and has("estimators_features_", (T - 1, None), below=k)
            k = self.estimators_features_.shape[1]
        good = good and self.starts_.size == 2 and len(self.estimators_) == T - 1
        return good and all(
            member.n_features_in_ == k and not _does_classes(member) for member in self.estimators_
        )

    def _scores(self, X):
        X = self._check_X(X)
        if hasattr(self, "estimators_"):
            return sum(map(operator.mul, self.weights_, self._each_output(X)))
        return sum_trees(self.nodes_, self.starts_[:-1], self.weights_, X, self._threads())

    def _staged_scores(self, X):
        X, total = self._check_X(X), 0.0
        for t, output in enumerate(self._each_output(X)):
            total = total + self.weights_[t] * output
            if t > 0:
                yield total

    def _each_output(self, X):
        """Output (n,) of the constant, then of one member after the other."""
        one = np.ones(1)
        for t in range(self.starts_.size - 1):
            yield sum_trees(self.nodes_, self.starts_[t : t + 1], one, X, self._threads())
        columns = getattr(self, "estimators_features_", None)
        for t, member in enumerate(getattr(self, "estimators_", ())):
            yield self._output((member, None if columns is None else columns[t]), X)

    def _output(self, member, X):
        """Output (n,) of an object, given with its columns."""
        member, columns = member
        found = np.asarray(member.predict(X if columns is None else X[:, columns]))
        good = found.shape == X.shape[:1] and found.dtype.kind in "biuf"
        if not good or not (np.abs(found) < MAX_ABS).all():
            raise ValueError(
                f"{type(self).__name__}: predict of {type(member).__name__} must return a number "
                f"below {MAX_ABS:g} for each of {len(X)} rows, got "
                f"{'NaN or a larger one' if good else f'shape {found.shape}, dtype {found.dtype}'}"
            )
        return found.astype(np.float64)

    def _check_features(self):
        """The number of features to draw for a member; refuses what does not fit their number."""
        d, who, monotone = self.n_features_in_, type(self).__name__, self.monotonic_cst
        share = d if self.max_features is None else self.max_features
        if monotone is not None and len(monotone) != d:
            raise ValueError(
                f"{who}: monotonic_cst must name a direction for each of {d} features, "
                f"got {len(monotone)}"
            )
        if monotone is not None and not isinstance(self.base, str):
            raise ValueError(f"{who}: monotonic_cst is for trees; set base='tree' or leave it out")
        if share > d:
            raise ValueError(
                f"{who}: max_features must be at most the number of features, {d}, got {share}"
            )
        return share if isinstance(share, (int, np.integer)) else max(1, round(share * d))

    def _score_rows(self, parts, start, delta):
        """Rows with the constant as their scores."""
        loss = hinge if self.loss == "hinge" else self.loss
        if callable(loss):
            rule = _given(loss, self.order, type(self).__name__)
        else:
            rule = LOSSES[loss], float(delta)
        is_curved = self.order == 2 and loss != "huber"
        return _Scores(parts, start, rule, is_curved, self._threads())

    def _search_start(self, parts, start, delta):
        """The best constant, by a line search from a first one."""
        scores = self._score_rows(parts, start, delta)
        slope = steady_total(partial(parts.map, n_jobs=self._threads()), _slopes)
        side = 1.0 if slope < 0 else -1.0
        return start + side * scores.search(np.full(1, side), 0.0)

    def _hold_out(self, X, y, weight, rng):
        """X, y, weight to train on, and a list of them to decide when to stop; of each class."""
        has_classes = self._estimator_type == "classifier"
        labels = y if has_classes else np.zeros(y.size)
        held_out = np.zeros(y.size, dtype=bool)
        for label in np.unique(labels):
            rows = np.flatnonzero(labels == label)
            if rows.size < 2:
                raise ValueError(
                    f"{type(self).__name__}: early_stopping needs two rows or more"
                    f"{' of each class' * has_classes} to hold some of them out, "
                    f"got {rows.size}; set early_stopping=False"
                )
            count = min(max(1, round(self.validation_fraction * rows.size)), rows.size - 1)
            held_out[rng.permutation(rows)[:count]] = True
        train, test = ([part[rows] for part in (X, y, weight)] for rows in (~held_out, held_out))
        return *train, test

    def _drawn(self, n, d, n_columns, rng):
        """The features and the rows drawn for a member; None: all."""
        columns, rows = None, None
        if n_columns < d:
            columns = np.sort(rng.choice(d, n_columns, replace=False))
        if self.subsample < 1:
            chosen, count = np.zeros(n, dtype=bool), max(1, round(self.subsample * n))
            chosen[rng.choice(n, count, replace=False, shuffle=False)] = True
            rows = np.flatnonzero(chosen)
        return columns, rows

    def _tree_learner(self, scores, n_columns, is_weighted, rng):
        """Functions to train a tree, () -> its nodes, the values that rows of each node get, the
        penalty on its weight, whether nothing was drawn; and to apply it to other rows."""
        monotone, parts = self.monotonic_cst, scores.parts
        rules = Rules(
            max_depth=self.max_depth, min_leaf=self.min_samples_leaf,
            max_leaves=self.max_leaf_nodes, l2=0.0,
            monotone=None if monotone is None else np.array(monotone, dtype=np.int64),
        )  # fmt: skip
        of_classes = callable(self.loss) and self._estimator_type == "classifier"
        has_penalty = self.order == 1 and (of_classes or self.loss in ENDLESS)
        is_one = isinstance(parts, Rows)
        if is_one:
            X = parts.X
            grower = Grower(X, self.max_bins, rules, scores.rows.w if is_weighted else None)
        else:
            weigh = ("weight", rounding(scores.total)) if is_weighted else (None, 0.0)
            grower = parts.grower(self.max_bins, rules, weigh, self._threads())

        def train():
            columns, rows = self._drawn(*parts.shape, n_columns, rng) if is_one else (None, None)
            part = grower
            if columns is not None:
                part = grower.fork(columns)
                part.data = part.data._replace(GH=grower.data.GH)
            tree, penalty = self._tree(part, rows, scores), 0.0
            values = tree["value"].copy()
            if has_penalty:
                leaves = values[tree["child"] == 0]
                penalty = self.l2 * float(leaves @ leaves)
            if rows is not None:
                values, scores.leaf = _outputs(tree, X), np.arange(len(X), dtype=np.int32)
            elif is_one:
                scores.leaf = part.space.leaf
            elif len(values) > 1:
                values = values[grower.place]
            return tree, values, penalty, columns is None and rows is None

        return train, _outputs

    def _learner(self, scores, n_columns, is_weighted, rng):
        """The same for copies of an object, which come with their columns. As the trees they are
        fitted to -G / H, by least squares with the weights H."""
        instead = ("set order=1",) if scores.curved else ()
        X = scores.parts.X
        scores.leaf = np.arange(len(X), dtype=np.int32)

        def train():
            columns, rows = self._drawn(*X.shape, n_columns, rng)
            some = slice(None) if rows is None else rows
            H = scores.second[some].copy()
            flat = FLATTEST * H.max() if scores.curved else 0.0
            r = -scores.rows.G[some] / np.maximum(H, flat or NO_SLOPE)
            weight = H if scores.curved or is_weighted else None
            Z = X[some] if columns is None else X[some][:, columns]
            member = fit_member(seeded_copy(self.base, rng), Z, r, weight, *instead), columns
            return member, self._output(member, X), 0.0, columns is None and rows is None

        return train, self._output

    def _tree(self, grower, rows, scores):
        """The tree of a round, finished; its nodes are the leaves of the rows."""
        unit_g = grower.unit(max(scores.sum_g, NO_SLOPE))
        unit_h = grower.unit(scores.sum_second)
        shift = grower.data.shift
        least = self.min_child_weight * unit_h * (1.0 - UNITS_OFF)
        grower.rules = grower.rules._replace(
            l2=float(self.l2 * unit_h), min_weight=int(min(max(1.0, least), grower.full))
        )
        if not isinstance(scores.parts, Rows):
            nodes = grower.grow(_fill_rows, scores.curved, unit_g, unit_h, shift)
        else:
            part = scores.parts
            second = part.H if scores.curved else part.weight
            _fill_derivatives(part.G, second, unit_g, unit_h, shift, grower.data.GH)
            nodes = grower.grow(rows)
        weight = nodes["h"][0] >> shift
        if weight == 0:  # Those of the sample are all settled.
            return np.zeros(1, dtype=NODE)
        tree, _ = grower.pack([nodes])
        tree["value"] *= unit_h / unit_g
        tree["gain"] *= weight * unit_h / unit_g / unit_g
        if self.loss in KINKED:
            self._search_leaves(tree, slice(None) if rows is None else rows, grower, scores)
        return tree

    def _alpha(self, scores, values, penalty):
        """The weight of a member, before the learning rate: of order 1 that of least loss."""
        if self.order == 2:
            return 1.0
        if self.loss not in KINKED:
            return scores.search(values, penalty)
        if isinstance(self.base, str):
            return 1.0  # Each leaf has been searched for its own.
        return max(0.0, _best_step(self.loss, scores.rows, values[scores.leaf]))

    def _is_idle(self, member, values):
        """Whether a member changes nothing, or is a tree without a split."""
        if isinstance(self.base, str) and self.loss not in KINKED:
            return len(member) == 1
        return len(member) == 1 or not values.any()

    def _search_leaves(self, tree, rows, grower, scores):
        """Give each leaf the value of least loss on the rows."""
        leaf = grower.space.leaf[rows]
        rank = np.argsort(leaf, kind="stable")
        leaf, (F, _, _, y, w) = leaf[rank], (part[rows][rank] for part in scores.rows)
        ends = [0, *np.flatnonzero(np.diff(leaf)) + 1, leaf.size]
        for k in range(len(ends) - 1):
            part = slice(ends[k], ends[k + 1])
            inside = ScoredRows(F[part], None, None, y[part], w[part])
            step = np.ones(ends[k + 1] - ends[k])
            tree["value"][leaf[ends[k]]] = _best_step(self.loss, inside, step)
        if self.monotonic_cst is not None:
            signs = np.asarray(self.monotonic_cst)[tree["feature"]]
            _bring_in_order(tree, signs, np.bincount(leaf, steady(w), len(tree)))

    def _check_sums(self, scores):
        """Refuse numbers whose loss overflows; say so if no leaf can be heavy enough."""
        who, least = type(self).__name__, self.min_child_weight
        total = scores.sum_second
        if not np.isfinite([scores.loss, scores.sum_g, total]).all():
            raise ValueError(f"{who}: the loss overflows; scale y or sample_weight down")
        if total <= 0.0:
            raise ValueError(
                f"{who}: order=2 needs a curvature, but loss returns 0 for all rows; set order=1"
            )
        if total < 2.0 * least and isinstance(self.base, str):
            warnings.warn(
                f"{who}: no tree can have a split, since leaves of min_child_weight={least:g} are "
                f"asked for and all rows together weigh {total:.3g} (second derivatives times "
                "sample_weight); scale sample_weight to a mean of 1, or lower min_child_weight",
                stacklevel=4,
            )

    def _warn_of_endless(self, count, t):
        """Say that the best weight of some members is infinite."""
        text = (
            "a tree parted the classes without error, so that the best step is infinite with "
            "order=1 and l2=0; set l2 above 0, or order=2, for probabilities that mean something"
        )
        if not isinstance(self.base, str) or self._estimator_type == "regressor":
            text = (
                "the loss falls for ever along a member, so that the best step is infinite with "
                "order=1; choose a base that does not fit every row, or set order=2"
            )
        warnings.warn(
            f"{type(self).__name__}: in {count} of {t} rounds {text}",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _hold(self, members, t):
        """Set what predicts: the first t members, which may be fewer than were trained."""
        starts = members.starts.entries[: t + 2]
        self.nodes_, self.starts_ = members.nodes.entries[: starts[-1]], starts
        self.weights_ = members.weights.entries[: t + 1]
        if members.objects:
            objects, columns = zip(*members.objects[:t], strict=True)
            self.estimators_ = list(objects)
            if columns[0] is not None:
                self.estimators_features_ = np.array(columns)

    def _keep(self, members, t, reason):
        """Set the fitted attributes, of the first t members."""
        self._hold(members, t)
        for name in ("nodes_", "starts_", "weights_"):  # No more space than they need.
            setattr(self, name, getattr(self, name).copy())
        self.trace_ = np.array(self.trace_[:t])
        self.n_iter_, self.objective_ = t, float(self.trace_[-1])
        self.residual_ = None
        self.converged_, self.reason_ = reason != STOPPED, reason
        if self.early_stopping:
            self.validation_trace_ = np.array(self.validation_trace_)
        else:
            del self.validation_trace_
        if isinstance(self.base, str):
            gains = np.bincount(self.nodes_["feature"], self.nodes_["gain"], self.n_features_in_)
            self.feature_importances_ = gains / gains.sum() if gains.any() else gains

    def _show(self, t, objective, members):
        """Report a round, with the model so far for the callback; True when it asks to stop."""
        held_out = {"validation": self.validation_trace_[-1]} if self.validation_trace_ else {}
        if self.callback is not None:
            self._hold(members, t)
            self.converged_ = False
        return self._report(t, objective, **held_out)


class _Members:
    """The constant and the members so far, with their weights: trees, or objects and their columns,
    None for all."""

    def __init__(self, start):
        constant = np.zeros(1, dtype=NODE)
        constant["value"] = start
        self.nodes, self.starts = Stack(constant), Stack(np.array([0, 1], np.int64))
        self.weights, self.objects = Stack(np.ones(1)), []

    def add(self, member, alpha):
        """One more member."""
        self.weights.append([alpha])
        if isinstance(member, tuple):
            self.objects.append(member)
        else:
            self.nodes.append(member)
            self.starts.append([self.nodes.entries.size])


def _does_classes(member):
    """Whether a member is a classifier: as ours say, or the tags of scikit-learn's."""
    if hasattr(member, "_estimator_type"):
        return member._estimator_type == "classifier"
    if hasattr(member, "__sklearn_tags__"):
        return member.__sklearn_tags__().estimator_type == "classifier"
    return False


def _bring_in_order(tree, signs, weight):
    """Clip the values of the leaves, of these weights, where the score may only rise or fall with a
    feature: what is left of a cut ends where the right begins, at the middle of the two means."""
    child, value = tree["child"].tolist(), tree["value"]
    for k in range(len(tree) - 1, -1, -1):  # Children come after their parents.
        if child[k]:
            pair = slice(child[k], child[k] + 2)
            weight[k] = weight[pair].sum()
            value[k] = np.average(value[pair], weights=weight[pair])
    bounds = np.tile([-np.inf, np.inf], (len(tree), 1))
    for k, sign in enumerate(signs):
        value[k] = np.clip(value[k], *bounds[k])
        if child[k]:
            pair = [child[k], child[k] + 1][:: 1 if sign >= 0 else -1]
            bounds[pair] = bounds[k]
            if sign:
                middle = np.clip(value[pair], *bounds[k]).mean()
                bounds[pair[0], 1] = bounds[pair[1], 0] = middle


# >>> shared: stack 1
class Stack:
    """An array that grows at its end. Its space doubles as it fills: T appends cost O(T) in all."""

    def __init__(self, first):
        self._space, self._size = first, len(first)

    def append(self, new):
        """Add these entries."""
        stop = self._size + len(new)
        if stop > len(self._space):
            more = np.zeros(stop, dtype=self._space.dtype)
            self._space = np.concatenate([self._space[: self._size], more])
        self._space[self._size : stop] = new
        self._size = stop

    @property
    def entries(self):
        """All entries, a part of the space."""
        return self._space[: self._size]


# <<< shared: stack


def _outputs(tree, X):
    """Value of one tree for each row."""
    return sum_trees(tree, np.zeros(1, dtype=np.int64), np.ones(1), X)


class _OfProbabilities:
    """A method that a classifier has where the scores of its loss tell probabilities."""

    def __init__(self, method):
        self.method = method
        update_wrapper(self, method)

    def __get__(self, model, kind=None):
        if model is not None and model.loss not in (*ENDLESS, "squared"):
            raise AttributeError(
                f"{kind.__name__}: scores of the hinge loss, or of a given one, are no "
                "probabilities; Calibrated of solvers/combine.py makes some"
            )
        return self.method.__get__(model, kind)


class GradientBoosting(_Boosted):
    """Gradient boosting of trees, or of any regressor, for two classes.

    Parameters
    ----------
    loss : "log", "exponential", "squared", "hinge" or callable
        What is minimised; "hinge" has no curvature and needs order=1. A callable is called as
        loss(y, f) with y (n,) of -1 and +1 and scores f (n,). It returns the value of each row and
        the gradient, its derivative in f, and for order=2 the curvature, its second derivative or a
        bound of it, >= 0: a tuple of arrays (n,). It is called once a round and, with order=1, by
        the line search; what it returns is then multiplied by the weights of the rows.
    order : 1 or 2
        2: members take Newton steps, as in XGBoost. 1: members are fitted to the gradient, and a
        line search weighs each.
    base : "tree" or an object with fit and predict
        What the members are. An object does regression, such as scikit-learn's Ridge or
        DecisionTreeRegressor. It is copied for each, its random_state, if it has one, set, and is
        given sample_weight with order=2. Then what limits trees is of no effect: max_depth,
        max_leaf_nodes, min_samples_leaf, min_child_weight, max_bins, l2.
    n_estimators : int >= 1
        Number of members, or the most of them with early stopping.
    learning_rate : float > 0
        Part of each step that is taken.
    max_depth : None or int >= 1
        Depth of a tree.
    max_leaf_nodes : None or int >= 2
        Most leaves; the splits of the highest gain come first.
    min_samples_leaf : int >= 1
        Fewest rows in a leaf, whatever their weights.
    min_child_weight : float >= 0
        Least sum of the second derivatives in a leaf, times the rows' weights; with order=1, of the
        weights alone.
    max_bins : None or int from 2 to 256
        Most bins of a feature: splits are exact when it has no more values. None: always exact.
    l2 : float >= 0
        Penalty on the squared values of the leaves; those of absolute and hinge have none.
    subsample : float in (0, 1]
        Share of the rows, drawn for each member, that it is trained on.
    max_features : None, float in (0, 1] or int >= 1
        Share or number of the features, drawn for each member, that it may use; None: all.
    early_stopping : bool
        Whether rows are held out, and the number of members is that of the least loss there.
    validation_fraction : float in (0, 1)
        Share of the rows to hold out.
    n_iter_no_change : int >= 1
        Rounds without a lower loss there that end the run.
    monotonic_cst : None or list of -1, 0, 1
        For each feature whether the score may only rise (1) or only fall (-1) with it.
    class_weight : None, "balanced" or dict
        Factors of the rows' weights by class; "balanced": all classes weigh the same.
    n_jobs : None or int
        Threads, for trees of up to 10 levels and for prediction; None: 1, -1: as many as there are
        processors. No more are used than the rows are worth; no bit of a tree depends on it.
    random_state : None, int, RandomState or Generator
        Seed of the draws. Where rows are not drawn, by subsample or early_stopping, trees are the
        same to the last bit in any order of up to 100,000 rows.
    verbose : int
        1 prints one line after every round.
    callback : None or callable
        Called as callback(self, iteration, info) after every round; True stops. The model it gets
        is that of the rounds so far: it predicts and has a score.

    Attributes
    ----------
    nodes_, starts_ : the trees, one after the other, tree t from starts_[t] on; tree 0 is the
        constant to start from
    estimators_ : list of the members instead, if base is an object; then tree 0 is the only one
    estimators_features_ (T, k) : features of each of these, if they were drawn
    weights_ (T + 1,) : 1 for the constant, learning_rate times alpha_t for the others
    feature_importances_ (d,) : gains of the splits on a feature, sum 1; trees only
    objective_, trace_ : weighted mean loss of the training rows, and after each round
    validation_trace_ : that of the rows held out, early stopping only
    residual_ : None: nothing certifies a greedy method
    n_iter_ : rounds kept
    converged_, reason_ : whether the run came to its regular end, and why it ended
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = GradientBoosting(early_stopping=True, random_state=0).fit(X, y)
    >>> model.predict_proba(X), model.n_iter_, model.reason_

    Early stopping on rows of one's own, once 10 rounds have not raised the best accuracy:

    >>> scores = []
    >>> def stop(model, iteration, info):
    ...     scores.append(model.score(X_valid, y_valid))
    ...     return iteration - np.argmax(scores) > 10
    >>> model = GradientBoosting(callback=stop).fit(X, y)

    A loss of one's own, here the squared hinge:

    >>> def squared_hinge(y, f):
    ...     short = np.maximum(1 - y * f, 0)
    ...     return short**2, -2 * y * short, 2.0 * (short > 0)
    >>> model = GradientBoosting(loss=squared_hinge).fit(X, y)
    """

    _smooth = "loss='log'"
    _param_rules = {"loss": LOSSES_OF_CLASSES, **_Boosted._param_rules}

    def __init__(
        self, loss="log", order=2, base="tree", n_estimators=100, learning_rate=0.1, max_depth=6,
        max_leaf_nodes=None, min_samples_leaf=1, min_child_weight=1.0, max_bins=256, l2=1.0,
        subsample=1.0, max_features=1.0, early_stopping=False, validation_fraction=0.1,
        n_iter_no_change=10, monotonic_cst=None, class_weight=None, n_jobs=1, random_state=None,
        verbose=0, callback=None,
    ):  # fmt: skip
        self._set(locals())

    def _start(self, parts):
        """The best constant, and a delta, which no loss here has."""
        each = partial(parts.map, n_jobs=self._threads())
        high, low = steady_total(each, _high_weights), steady_total(each, _low_weights)
        if callable(self.loss):
            return self._search_start(parts, 0.0, 1.0), 1.0
        if self.loss == "hinge":
            y, weight = parts.target, parts.weight
            rows = ScoredRows(np.zeros(y.size), None, None, y, weight)
            return _best_step(self.loss, rows, np.ones(y.size)), 1.0
        if self.loss == "squared":
            return (high - low) / (high + low), 1.0
        return math.log(high / low) * (1.0 if self.loss == "log" else 0.5), 1.0

    def _probabilities(self, scores):
        if self.loss == "squared":
            positive = np.clip(0.5 + 0.5 * scores, 0.0, 1.0)
        else:
            e = np.exp(-np.abs(scores) * (1.0 if self.loss == "log" else 2.0))
            positive = np.where(scores >= 0, 1.0, e) / (1.0 + e)
        return np.column_stack([1.0 - positive, positive])

    def decision_function(self, X):
        """Score of each row, (n,); the positive class has scores >= 0."""
        return self._scores(X)

    @_OfProbabilities
    def predict_proba(self, X):
        """Probabilities of both classes, (n, 2); neither hinge nor a given loss has them."""
        return self._probabilities(self._scores(X))

    def staged_decision_function(self, X):
        """Score (n,) after 1, 2, ... rounds."""
        yield from self._staged_scores(X)

    def staged_predict(self, X):
        """Class of each row after 1, 2, ... rounds."""
        for scores in self._staged_scores(X):
            yield self.classes_[(scores >= 0).astype(np.intp)]

    @_OfProbabilities
    def staged_predict_proba(self, X):
        """Probabilities of both classes after 1, 2, ... rounds."""
        yield from map(self._probabilities, self._staged_scores(X))


class GradientBoostingRegressor(_Regressor, _Boosted):
    """Gradient boosting for numbers; parameters and attributes as of GradientBoosting.

    Parameters
    ----------
    loss : "squared", "huber", "absolute" or callable
        What is minimised; "absolute" has no curvature and needs order=1. A callable as in
        GradientBoosting; its y are the numbers.
    delta : None or float > 0
        Difference to y from which on Huber's loss is linear. None: the median of the differences
        of y to its median, those of 0 left out, whatever the unit of y is. With order=2 no step is
        longer than delta.
    order, base, n_estimators, learning_rate, max_depth, max_leaf_nodes, min_samples_leaf, \
min_child_weight, max_bins, l2, subsample, max_features, early_stopping, validation_fraction, \
n_iter_no_change, monotonic_cst, n_jobs, random_state, verbose, callback : as in GradientBoosting

    Attributes
    ----------
    delta_ : the delta of Huber's loss
    """

    _smooth = "loss='huber' with a small delta"
    _param_rules = {
        "loss": LOSSES_OF_NUMBERS,
        "delta": "None or a finite number > 0",
        **_Boosted._param_rules,
    }

    def __init__(
        self, loss="squared", delta=None, order=2, base="tree", n_estimators=100, learning_rate=0.1,
        max_depth=6, max_leaf_nodes=None, min_samples_leaf=1, min_child_weight=1.0, max_bins=256,
        l2=1.0, subsample=1.0, max_features=1.0, early_stopping=False, validation_fraction=0.1,
        n_iter_no_change=10, monotonic_cst=None, n_jobs=1, random_state=None, verbose=0,
        callback=None,
    ):  # fmt: skip
        self._set(locals())

    def _start(self, parts):
        """The best constant and delta; a line search from the median finds it for Huber's loss, and
        for one that is a function."""
        each = partial(parts.map, n_jobs=self._threads())
        if self.loss == "squared":
            return steady_total(each, _weighted_targets) / steady_total(each, _weights), 1.0
        y, weight = (
            np.concatenate([getattr(part, name) for part in getattr(parts, "blocks", [parts])])
            for name in ("target", "weight")
        )
        start = _quantile(y, weight, 0.5)
        if self.loss == "absolute":
            return start, 1.0
        if callable(self.loss):
            return self._search_start(parts, start, 1.0), 1.0
        rest = np.abs(y - start)
        off = rest > 0.0  # Many rows may be at the median, and delta has to be above 0.
        middle = _quantile(rest[off], weight[off], 0.5) if off.any() else 1.0
        self.delta_ = float(middle if self.delta is None else self.delta)
        return self._search_start(parts, start, self.delta_), self.delta_

    def predict(self, X):
        """Number for each row, (n,)."""
        return self._scores(X)

    def staged_predict(self, X):
        """Number for each row after 1, 2, ... rounds."""
        yield from self._staged_scores(X)


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    blobs = generator.normal(size=(400, 5)) + np.repeat([[-0.7], [0.7]], 200, axis=0)
    labels = np.repeat(["left", "right"], 200)
    for model in (GradientBoosting(), GradientBoosting(order=1), GradientBoosting("exponential")):
        model.fit(blobs, labels)
        print(f"{model!r}: {model.n_iter_} trees, {model.reason_}, loss {model.objective_:.3e}, "
              f"accuracy {model.score(blobs, labels):.3f}")  # fmt: skip
        if model.loss == "log":
            right = model.predict_proba(blobs)[np.arange(400), (labels == "right").astype(int)]
            assert abs(model.objective_ + np.log(right).mean()) <= 1e-9
    model = GradientBoostingRegressor("huber").fit(blobs, blobs[:, 0] ** 2)
    print(f"{model!r}: R^2 {model.score(blobs, blobs[:, 0] ** 2):.3f}")

"""Gradient boosting: members, one after the other, each fitted to the gradient of the loss.

Problem   minimise over sums of members H:   sum_i w_i loss(H(x_i), y_i)

    classes, y = -1 or +1    log: log(1 + exp(-y H)), exponential: exp(-y H), hinge: max(0, 1 - y H)
                             and squared: (y - H)^2 / 2, or a function
    numbers y                squared; huber: squared up to delta, linear beyond; absolute: |y - H|;
                             or a function

Method    H_0 is the best constant. Round t, with g_i and h_i the first and second derivative of the
          loss of row i at H_t-1(x_i), times w_i:
              order 2   the tree h_t is grown by its gain, half of
                            G_l^2 / (H_l + l2) + G_r^2 / (H_r + l2) - G^2 / (H + l2)
                        with G, H the sums of g, h over a node and its children; the value of a
                        leaf is the Newton step -G / (H + l2), and alpha_t = 1
              order 1   the tree is fitted to -g by least squares: h_i = w_i in the above; then
                        alpha_t minimises sum_i w_i loss(H_t-1(x_i) + alpha h_t(x_i), y_i)
                        and, for log, exponential and custom losses of classes, l2 / 2 times the
                        squares of alpha v, v the values of the leaves. For absolute and hinge
                        each leaf takes its own value of least loss, a median of y - H_t-1(x) of
                        its rows, or the quantile at the fraction of y = +1; then alpha_t = 1
              H_t = H_t-1 + learning_rate alpha_t h_t
          Any other regressor h_t is fitted to -g / h by least squares with weights h, where again
          h_i = w_i for order 1; alpha_t is 1 for order 2, else the best one, without l2, which for
          absolute and hinge is the kink at which the slope passes 0.
          A level of a tree costs O(n d), the rest of a round O(n). The method is greedy, without an
          optimum to certify: there is no residual. On several threads, or on row blocks, trees grow
          level by level from sums over the rows of each block, to the same bits.
Reference Zhang, "Ensemble learning" (a chapter of lecture notes), Algorithm 2, Theorem 9 and the
          losses (27) to (29); Friedman, "Greedy Function Approximation: A Gradient Boosting
          Machine", 2001; Chen, Guestrin, "XGBoost: A Scalable Tree Boosting System", 2016.
Departs   Theorem 9's expansion has the inverse of the second derivative where the second derivative
          belongs; its result is right. Huber's loss has no curvature beyond delta: order 2 takes
          its bound, 1. Absolute and hinge have none at all: order 1 only.
          Hinge has a kink at y H = 1, and H_0 puts all rows of the larger class there: g is then
          the mean of the slopes at both sides, as for the absolute loss. With either of the two
          Ridge takes no step on german-numer and titanic. Even so one alpha_t for all leaves may be
          0, as some lose what others gain (german-numer, depth 2): each leaf is searched, as
          Friedman does for the absolute loss. An object that lowers the loss no more ends the run.
          Order 1 searches the best alpha_t exactly. If trees separate the classes without error,
          it is infinite without l2, which Algorithm 2 does not have: a warning says so.
          Huber's delta is by default the median of |y - median|, chosen once: with a new one each
          round, as Friedman has it, no two rounds could be compared, and early stopping would not
          stop. His quantile of 90 % loses more to outliers (5 % of them, at 1,000 deviations, on
          Friedman's first problem: R^2 0.53 against 0.82) and gains 0.01 without them.
Symbols   paper      here       meaning                                        shape
          H(x_i)     F          scores of the training rows                    (n,)
          (r_i)      G          derivative of the loss, times w_i; -r_i        (n,)
                     H          second derivative, times w_i                   (n,)
                     grad_hess  both, as integers                              (n, 2)
          alpha_t    weights_   of the members, times the learning rate        (T + 1,)
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
from contextlib import nullcontext, suppress
from functools import cache, partial, update_wrapper, wraps
from importlib import import_module
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numba import njit

LOSSES = {"log": 0, "exponential": 1, "squared": 2, "huber": 3, "absolute": 4}
UNBOUNDED = "log", "exponential"  # Losses without a minimum.
PIECEWISE_LINEAR = "absolute", "hinge"  # Losses that are linear but for one kink, at y.
MAX_EXPONENTIAL = 700.0  # exp of more would overflow: the exponential loss is constant beyond.
NO_SLOPE = 1e-280  # A sum of derivatives below this is 0.
UNIT_ERROR = 1e-6  # Integer units change the weight of a leaf by less than this fraction.
COARSEST = 1 / 12  # Sums below this fraction of their grid constant need a finer grid.


# >>> shared: jit 3
def jit(function=None, inner=False, **options):
    """Compile by njit with a disk cache, or without one if no folder is writable. Only kernels call
    `inner` kernels, which compile faster."""
    if function is None:
        return lambda f: jit(f, inner, **options)
    options |= dict.fromkeys(("no_cpython_wrapper", "no_cfunc_wrapper"), inner)
    options["error_model"] = "numpy"
    # The cache stores NamedTuples by module: each module name gets files of its own.
    function.__qualname__ = f"{function.__module__}.{function.__name__}"
    try:
        return njit(cache=function.__module__ != "__main__", **options)(function)
    except RuntimeError:
        return njit(**options)(function)


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
        e = math.exp(min(-y * f, MAX_EXPONENTIAL))
        return e, -y * e, e
    r = f - y
    if loss == 2 or loss == 3 and abs(r) <= delta:
        return 0.5 * r * r, r, 1.0
    if loss == 3:
        return delta * (abs(r) - 0.5 * delta), math.copysign(delta, r), 0.0
    return abs(r), 1.0 * (r > 0.0) - 1.0 * (r < 0.0), 0.0


@jit(nogil=True)
def _update_scores(rows, values, leaf, alpha, grid, loss, delta):
    """F += alpha values[leaf]; overwrite the derivatives G and H of rows = (F, G, H, y, w).

    Returns the sums of the weighted losses, of |G| and of H, rounded by the constants grid (3,).
    """
    F, G, H, y, w = rows
    total = sum_g = sum_h = 0.0
    grid_f, grid_g, grid_h = grid[0], grid[1], grid[2]
    for i in range(F.size):
        f = F[i] + alpha * values[leaf[i]]
        value, g, h = _loss(f, y[i], loss, delta)
        F[i], G[i], H[i] = f, w[i] * g, w[i] * h
        total += (w[i] * value + grid_f) - grid_f
        sum_g += (abs(G[i]) + grid_g) - grid_g
        sum_h += (H[i] + grid_h) - grid_h
    return total, sum_g, sum_h


@jit(nogil=True)
def _largest_terms(rows, loss, delta):
    """Largest weighted loss, |G| and H of rows = (F, G, H, y, w)."""
    F, G, H, y, w = rows
    top = top_g = top_h = 0.0
    for i in range(F.size):
        value = w[i] * _loss(F[i], y[i], loss, delta)[0]
        top, top_g, top_h = max(top, value), max(top_g, abs(G[i])), max(top_h, H[i])
    return top, top_g, top_h


@jit(nogil=True)
def _directional_derivatives(rows, values, leaf, alpha, grid, fine, loss, delta):
    """First and second derivative of the weighted loss in alpha at F + alpha values[leaf].

    Terms are rounded by grid (2,). The remainders of the slope are summed, too, rounded by fine: a
    line search ends where the slope is nearly 0. Returns slope, remainder, curvature and the
    largest terms of both.
    """
    F, _, _, y, w = rows
    slope = rest = curvature = top = top_h = 0.0
    grid_g, grid_h = grid[0], grid[1]
    for i in range(F.size):
        step = values[leaf[i]]
        _, g, h = _loss(F[i] + alpha * step, y[i], loss, delta)
        g, h = w[i] * g * step, w[i] * h * step * step
        top, top_h = max(top, abs(g)), max(top_h, h)
        first = (g + grid_g) - grid_g
        slope += first
        rest += ((g - first) + fine) - fine
        curvature += (h + grid_h) - grid_h
    return slope, rest, curvature, top, top_h


@jit(nogil=True)
def _fill_derivatives(G, H, unit_g, unit_h, count_bits, grad_hess):
    """Fill grad_hess (n, 2) with the derivatives in integer units."""
    for i in range(G.size):
        g = G[i] * unit_g
        grad_hess[i, 0] = np.int64(g + math.copysign(0.5, g))
        grad_hess[i, 1] = (np.int64(H[i] * unit_h + 0.5) << count_bits) + 1


# -- solver -------------------------------------------------------------------------------------
NEWTON_STEPS = 200  # Maximum number of steps of a line search; five are usual.
FLATTER = 1e-12  # A line search ends at this fraction of its first slope.
ALPHA_EPS = 2.0**-52  # It also ends if the bracket is this fraction of alpha.
FALLS_ON = 1e-3  # The loss has no minimum if the next step exceeds this fraction of alpha.


def _scored(block):
    """The arrays F, G, H, y, w of a block, each (n,)."""
    return block.F, block.G, block.H, block.target, block.weight


def _allocate_block(block, start):
    """Allocate the scores F, equal to start, the derivatives and the node of each row."""
    n = len(block.target)
    block.allocate("F", n)[:] = start
    block.allocate("G", n)
    block.allocate("H", n)
    block.allocate("node", n, np.int32)


def _update_block(block, values, alpha, grid, loss):
    return _update_scores(_scored(block), values, block.node, alpha, grid, *loss)


def _largest_of_block(block, loss):
    return _largest_terms(_scored(block), *loss)


def _derivatives_of_block(block, values, alpha, grid, fine, loss):
    return _directional_derivatives(_scored(block), values, block.node, alpha, grid, fine, *loss)


def _fill_block(block, has_curvature, unit_g, unit_h, count_bits):
    """Fill grad_hess of a block; weights replace the second derivatives if these are not used."""
    second = block.H if has_curvature else block.weight
    _fill_derivatives(block.G, second, unit_g, unit_h, count_bits, block.grad_hess)


def _class_weights(block, sign):
    """Weights of the rows of class +1 or -1."""
    return block.weight[block.target * sign > 0]


def _suits(grid, sizes):
    """Return True if the grid constants suit terms of these sums, or sums overflow anyway."""
    for c, size in zip(grid.tolist(), sizes, strict=True):
        if size != 0.0 and size < math.inf and not COARSEST * c <= size <= 0.5 * c:
            return False
    return True


class _Scores:
    """Scores of the rows of all blocks, the mean loss there and the sums of its derivatives.

    `block.node` is the node of each row in the last member. `loss` is a number of LOSSES with its
    delta, or a function of `_custom_loss`. The second derivative is the weight without curvature.

    Sums do not depend on blocks or order: their terms are rounded to grids, which persist from one
    call to the next. A grid that does not suit is replaced by one for any terms up to the largest,
    then by one for their sum.
    """

    def __init__(self, blocks, start, loss, has_curvature, n_jobs=1):
        self.blocks, self.loss, self.n_jobs = blocks, loss, n_jobs
        self.has_curvature = has_curvature
        blocks.map_inplace(_allocate_block, start, n_jobs=n_jobs)
        self.weight = reproducible_total(partial(blocks.map, n_jobs=n_jobs), attrgetter("weight"))
        c = grid_constant(self.weight)
        self.update_grid, self.search_grid = np.full(3, c), np.full(2, c)
        self.n_unbounded = 0  # Line searches without a minimum.
        self.update(np.zeros(1), 0.0)

    def update(self, values, alpha):
        """Add alpha values[node] to the scores."""
        with np.errstate(over="ignore", invalid="ignore"):
            if callable(self.loss):
                sums = self.loss(self.blocks, values, alpha, True)
            else:
                sums = self._update(values, alpha)
        total, self.sum_g, sum_h = sums
        self.mean_loss = total / self.weight
        self.sum_second = sum_h if self.has_curvature else self.weight

    def _update(self, values, alpha):
        """Sums of the weighted losses, of |G| and of H after an update; inf if they overflow."""
        n, n_jobs = self.blocks.shape[0], self.n_jobs
        for turn in range(3):
            args = values, alpha, self.update_grid, self.loss
            sums = self.blocks.map_inplace(_update_block, *args, n_jobs=n_jobs)
            sums = [sum(terms) for terms in zip(*sums, strict=True)]
            if turn == 2 or _suits(self.update_grid, sums):
                return sums
            alpha, sizes = 0.0, sums
            if turn == 0:
                tops = self.blocks.map(_largest_of_block, self.loss, n_jobs=n_jobs)
                sizes = [n * max(top) for top in zip(*tops, strict=True)]
            self.update_grid = np.array([grid_constant(size) for size in sizes])

    def _derivatives(self, values, alpha):
        """First and second derivative of the loss at F + alpha values[node] in alpha."""
        if callable(self.loss):
            return self.loss(self.blocks, values, alpha, False)
        n = self.blocks.shape[0]
        for turn in range(2):
            fine = grid_constant(n * (self.search_grid[0] * 2.0**-52))
            args = values, alpha, self.search_grid, fine, self.loss
            sums = self.blocks.map(_derivatives_of_block, *args, n_jobs=self.n_jobs)
            *terms, top, top_h = zip(*sums, strict=True)
            slope, rest, curvature = map(sum, terms)
            sizes = n * max(top), n * max(top_h)
            if turn == 1 or _suits(self.search_grid, sizes):
                return slope + rest, curvature
            self.search_grid = np.array([grid_constant(size) for size in sizes])

    def line_search(self, values, penalty):
        """The alpha >= 0 of least loss at F + alpha values[node], plus penalty alpha^2 / 2.

        The function is convex: Newton steps, or a bisection of the bracket (twice alpha if it is
        infinite) if they leave it. Without a curvature, secants and bisections alternate. A
        search without a minimum is counted; alpha is where the loss hardly falls.
        """

        def derivatives(alpha):
            with np.errstate(over="ignore", invalid="ignore"):
                slope, curvature = self._derivatives(values, alpha)
            return slope + penalty * alpha, curvature + penalty

        slope, curvature = derivatives(0.0)
        has_curvature = curvature == curvature
        low, high = 0.0, math.inf
        alpha, goal = 0.0, FLATTER * abs(slope)
        for k in range(NEWTON_STEPS):
            low, high = (alpha, high) if slope < 0.0 else (low, alpha)
            if abs(slope) <= goal or high - low <= ALPHA_EPS * low:
                break
            last = alpha, slope
            alpha = alpha - slope / curvature if curvature > 0.0 else math.inf
            if not low < alpha < high or not (has_curvature or k % 2):
                alpha = 0.5 * (low + high) if high < math.inf else 2.0 * low + (low == 0.0)
            slope, curvature = derivatives(alpha)
            if not has_curvature:
                curvature = (slope - last[1]) / (alpha - last[0])
        self.n_unbounded += high == math.inf and -slope > FALLS_ON * alpha * curvature
        return alpha


def hinge(y, f):
    """Hinge loss (28) and its gradient, as a custom loss.

    A sixth loss in `_loss` would keep the compiler from choosing it outside the loop over rows.
    """
    margin = y * f
    return np.maximum(1.0 - margin, 0.0), -0.5 * y * ((margin < 1.0) + 1.0 * (margin <= 1.0))


def _custom_loss(loss, order, require):
    """Adapt a user-supplied loss to `_Scores`.

    The result, (block, values, alpha, is_update), returns the sums of an update, else slope and
    curvature in alpha: the curvature is unknown (NaN), a slope that overflows is inf.
    """

    def evaluate(block, values, alpha, is_update):
        F, G, H, y, w = _scored(block)
        step = values[block.node]
        f = F + alpha * step
        if is_update:
            F[:] = f
        value, g, h = _call_loss(loss, order, y, f, require)
        G[:], H[:] = w * g, w * h
        if not is_update:
            slope = reproducible_sum(G * step)
            return slope if math.isfinite(slope) else math.inf, math.nan
        sums = [*map(reproducible_sum, (w * value, np.abs(G), H))]
        text = "what loss returns must be finite, got sums of values of {:g}, gradients of {:g}, "
        text += "curvatures of {:g}; bound it, or scale y or sample_weight down"
        require(np.isfinite(sums).all(), text.format(*sums))
        return sums

    return evaluate


def _call_loss(loss, order, y, f, require):
    """Checked value, gradient and curvature (n,) of a user-supplied loss; order 1: curvature 0."""
    y = y.view()
    y.flags.writeable = False
    result, names = loss(y, f), ("value", "gradient", "curvature")[: order + 1]
    expected = f"{', '.join(names[:-1])} and {names[-1]}"
    is_tuple = isinstance(result, (tuple, list)) and len(result) in (2, 3)
    require(is_tuple, f"loss must return a tuple of {expected}, got {type(result).__name__}")
    text = f"order=2 needs a loss that returns {expected}, got {len(result)} arrays; set order=1"
    require(len(result) >= len(names), text)
    result = [np.asarray(array) for array in result]
    for name, array in zip(names, result, strict=False):
        text = f"loss must return a {name} of shape {y.shape}, a number for each row, got shape "
        is_valid = array.shape == y.shape and array.dtype.kind in "biuf"
        require(is_valid, f"{text}{array.shape} and dtype {array.dtype}")
    if order == 1:
        return *result[:2], np.zeros(y.size)
    text = f"order=2 needs curvatures >= 0, got {float(result[2].min()):g} from loss; set order=1"
    require(not (result[2] < 0).any(), f"{text}, or return an upper bound that is")
    return result


def _quantile_interval(values, weights, fraction):
    """The two neighbouring values between which the cumulative weight passes a fraction.

    Both are one value if it passes there. Weights, of `round_to_grid`, count as repeated rows.
    """
    rank = np.argsort(values, kind="stable")
    values, ends = values[rank], np.cumsum(weights[rank])
    low = np.searchsorted(ends, fraction * ends[-1] * (1 - QUANTILE_SLACK))
    high = np.searchsorted(ends, fraction * ends[-1] * (1 + QUANTILE_SLACK))
    return values[low], values[min(high, values.size - 1)]


def _median(values, weights):
    """Weighted median: the midpoint of `_quantile_interval`."""
    low, high = _quantile_interval(values, round_to_grid(weights), 0.5)
    return 0.5 * low + 0.5 * high


def _best_step(loss, F, y, w, step):
    """The alpha of least loss at F + alpha step, for a loss of PIECEWISE_LINEAR.

    The slope rises at the kinks of the rows, where F + alpha step = y, and passes 0 at the best
    alpha. Of several it is the middle one for the absolute loss, the one next to 0 for hinge.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        kinks, weight = (y - F) / step, w * np.abs(step)
    moved = np.isfinite(kinks) & (weight > 0.0)
    kinks, weight, falls = kinks[moved], weight[moved], (y * step > 0.0)[moved]
    if not kinks.size:
        return 0.0
    if loss == "absolute":
        return _median(kinks, weight)
    weight = round_to_grid(weight)
    low, high = _quantile_interval(kinks, weight, weight @ falls / weight.sum())
    low, high = low if falls.any() else -math.inf, high if not falls.all() else math.inf
    return float(min(max(low, 0.0), high))


# >>> shared: tree 16
BIN_SAMPLE_ROWS = 100_000  # Rows sampled to place the thresholds of a feature.
QUANTILE_SLACK = 1e-10  # Relative rounding error of a quantile: a weight of 2 equals two rows.
TILE_ROWS = 64  # Rows that search their bins together, so that cache misses overlap.
SUM_BITS = 62  # Bits of a sum over a node: those of its weight, then those of its row count.
GAIN_TIE = 1e-11  # Gains closer than this fraction of the node's weight are equal: the first wins.
XORSHIFT = tuple(map(np.uint64, (12, 25, 27)))  # The shifts of xorshift64*.
FACTOR = tuple(map(np.uint64, (0x2545F491, 0x4F6CDD1D)))  # Upper and lower half of its factor.
HALF = tuple(map(np.uint64, (32, 2**32 - 1, 1)))  # Constants that split 64 bits into halves.
MAX_EXPONENT = 1020  # 3 * 2^1021 would overflow.
DEEP_NODES = 5000  # From this number of nodes on, `_add_deep_trees` is faster than `_add_trees`.
CHUNK_ROWS = 1024  # Rows that pass a deep tree before the next one: its nodes stay in the cache.
INTERLEAVED_ROWS = 8  # Rows that descend a deep tree together, so that cache misses overlap.
MIN_VISITS_PER_THREAD = 100_000  # Row-tree visits that pay for starting a thread.
CRITERIA = {"error": 0, "gini": 1, "entropy": 2, "gain_ratio": 3}
TREE_LIMITS = {  # The rules of the parameters that limit trees.
    "max_depth": "None or an integer >= 1",
    "min_samples_leaf": "an integer >= 1",
    "max_leaf_nodes": "None or an integer >= 2",
    "max_bins": "None or an integer from 2 to 256",
}
# Nodes have no padding bytes: saved models would contain uninitialised memory. Fields of np.record
# are attributes without the compiler, too; finished trees are plain structured arrays.
GROWING = np.dtype((np.record, np.dtype(  # Node of a growing tree; its right child is child + 1.
    [("g", "i8"), ("h", "i8"), ("left_g", "i8"), ("left_h", "i8"), ("gain", "f8"),
     ("low", "f8"), ("high", "f8"), ("feature", "i4"), ("split_bin", "i4"), ("missing_left", "i4"),
     ("child", "i4"), ("is_leaf", "i4"), ("depth", "i4"), ("start", "i4"), ("stop", "i4"),
     ("slot", "i4"), ("is_pruned", "i4")], align=True
)))  # fmt: skip
NODE = np.dtype(  # Node of a finished tree; child = 0 marks a leaf.
    [("threshold", "f8"), ("value", "f8"), ("gain", "f8"), ("feature", "i4"), ("child", "i4"),
     ("missing_left", "i8")], align=True
)  # fmt: skip


class BinnedData(NamedTuple):
    """Binned features and packed gradients of n rows."""

    X_binned: np.ndarray  # (n, d): number of thresholds of the feature below each value.
    by_feature: np.ndarray  # (n, d): X_binned, column after column.
    n_bins_non_missing: np.ndarray  # (d,): bins of known values; missing values are in the next.
    grad_hess: np.ndarray  # (n, 2): gradient and weight of each row, see `TreeGrower`.
    count_bits: int  # Bits of the row count, below those of the weight.


class TreeParams(NamedTuple):
    """Growth parameters of a tree; None means no limit, or no such rule."""

    criterion: int = CRITERIA["gini"]
    max_depth: int | None = None
    min_leaf: int = 1  # Minimum number of rows in a leaf.
    max_leaves: int | None = None  # With a limit, the node of the highest gain is split first.
    min_decrease: float = 0.0  # Minimum gain, as a fraction of the weight of all rows.
    min_weight: int = 1  # Minimum weight of a leaf.
    l2: float | None = None  # Leaf value -g / (h + l2); None: g is from two classes.
    monotone: np.ndarray | None = None  # (d,): the value may only rise (1) or fall (-1).
    n_drawn: int | None = None  # Features drawn for each split.


class GrowerBuffers(NamedTuple):
    """Work arrays of the grower. A field that is None removes its branch at compile time."""

    nodes: np.ndarray  # The tree.
    leaf: np.ndarray  # (n,): node of each row.
    sample_indices: np.ndarray  # (n,): rows; those of a node are contiguous, from start to stop.
    spare: np.ndarray  # (n,): rows that go right, during a partition.
    opened: np.ndarray  # Stack of the nodes that can be split.
    free: np.ndarray  # Stack of the slots of `hist` in use by no node.
    bins: np.ndarray  # (bins, 2): histogram of one feature.
    bin_indices: np.ndarray  # (bins,): bins of a sparse histogram.
    hist: np.ndarray | None  # (slots, d, bins, 2): histograms of nodes, without drawn features.
    order: np.ndarray | None  # (d, n): sample_indices sorted by each feature, for exact bins.
    draws: tuple | None  # With drawn features: generator state (1,) and their permutation (d,).


# -- reproducible sums --------------------------------------------------------------------------
def grid_constant(size):
    """Constant c so that (x + c) - c rounds x to a multiple of 2^-51 times a power of two.

    Sums of such multiples are exact, hence independent of their order, while no partial sum
    exceeds twice this size.
    """
    return math.ldexp(3.0, min(math.frexp(size)[1], MAX_EXPONENT))


def reproducible_sum(x):
    """Sum of x (n,), independent of the order: of the rounded values, and of their remainders."""
    return reproducible_total(lambda function, *args: [function(x, *args)], np.asarray)


def reproducible_total(each, pick):
    """Sum of pick(block) over all blocks in any order; each(f, *args) lists f(block, *args)."""
    sizes, tops = zip(*each(_count_and_max, pick), strict=True)
    with np.errstate(over="ignore", invalid="ignore"):
        coarse = grid_constant(sum(sizes) * max(tops))
        fine = grid_constant(sum(sizes) * (coarse * 2.0**-52))
        high, low = np.sum(each(_rounded_sums, pick, coarse, fine), axis=0).tolist()
    return high + low if math.isfinite(high) else high


def _count_and_max(block, pick):
    """Number of values, and the largest absolute value."""
    x = pick(block)
    return x.size, float(np.abs(x).max(initial=0.0))


def _rounded_sums(block, pick, coarse, fine):
    """Sum of the values on the coarse grid, and of the remainders on the fine one."""
    x = pick(block)
    with np.errstate(over="ignore", invalid="ignore"):
        first = (x + coarse) - coarse
        return float(first.sum()), float((((x - first) + fine) - fine).sum())


def round_to_grid(weight):
    """Weights (n,), rounded so that sums over any subset are independent of the order."""
    c = grid_constant(reproducible_sum(weight))
    return (weight + c) - c


# -- bins ---------------------------------------------------------------------------------------
def bin_thresholds(X, max_bins, weight=None):
    """Thresholds of each feature, d arrays in ascending order.

    They are midpoints between neighbouring values if there are at most max_bins values (None:
    always), else between quantiles. Missing values take one of the bins. Quantiles are those of
    the weights (n,): a row of weight 2 equals two rows, one of weight 0 none. Of more than
    BIN_SAMPLE_ROWS rows, a sample decides.
    """
    if weight is not None and not weight.all():
        X, weight = X[weight > 0], weight[weight > 0]
    weight = None if weight is None else round_to_grid(weight)
    with np.errstate(over="ignore", invalid="ignore"):
        missing = np.isnan(X.sum(axis=0))
    if max_bins is None or len(X) <= BIN_SAMPLE_ROWS:
        return place_thresholds(X, weight, missing, max_bins)
    rows = sampled_rows(len(X))
    sample = X[rows], None if weight is None else weight[rows]
    return place_thresholds(*sample, missing, max_bins, lambda j: distinct(X[:, j], weight))


def sampled_rows(n):
    """Indices of BIN_SAMPLE_ROWS of n rows: one pseudo-random row per stride."""
    i, stride = np.arange(BIN_SAMPLE_ROWS), n // BIN_SAMPLE_ROWS
    return i * stride + (i * 2654435761 >> 15) % stride


def distinct(values, weight=None):
    """Distinct known values, ascending, and cumulative weights (of `round_to_grid`) or counts."""
    rank = None if weight is None else np.argsort(values)
    values = np.sort(values) if rank is None else values[rank]
    known = values[: values.searchsorted(np.nan)]  # NaN comes last.
    last = np.flatnonzero(np.append(known[1:] > known[:-1], known.size > 0))
    return values[last], last + 1.0 if rank is None else np.cumsum(weight[rank])[last]


def place_thresholds(X, weight, missing, max_bins, whole=None, n_jobs=1):
    """Thresholds by the rows of X; `missing` (d,) marks the features with missing values.

    If X is a sample, whole(j) returns `distinct` of all rows. It is used if the sample has few
    distinct values, so that none is overlooked.
    """
    thresholds = []
    each = ThreadPoolExecutor(n_jobs).map if n_jobs > 1 else map
    columns = each(lambda column: distinct(column, weight), np.array(X.T, order="C"))
    for j, (values, ends) in enumerate(columns):
        if whole is not None and values.size <= max_bins:
            values, ends = whole(j)
        last = np.arange(max(values.size - 1, 0))  # The last value of each bin but the last.
        n_bins = math.inf if max_bins is None else max_bins - missing[j]
        if last.size >= n_bins:
            goals = np.arange(1, n_bins) / n_bins * (1.0 - QUANTILE_SLACK)
            goals = np.ceil(goals * ends[-1]) if weight is None else goals * ends[-1]
            last = np.searchsorted(ends, goals).clip(max=last.size - 1)
            last = last[np.diff(last, prepend=-1) > 0]
        low, high = values[last], values[last + 1]
        middle = 0.5 * low + 0.5 * high
        thresholds.append(np.where((low <= middle) & (middle < high), middle, low))
    return thresholds


def pad_thresholds(thresholds):
    """Thresholds of all features, (d, bins) padded with inf, and the number of bins of each."""
    n_bins = np.array([each.size + 1 for each in thresholds], dtype=np.int32)
    padded = np.full((len(thresholds), n_bins.max()), np.inf)
    padded[np.arange(n_bins.max()) < n_bins[:, None] - 1] = np.concatenate(thresholds)
    return padded, n_bins


@jit(nogil=True)
def bin_features(X, thresholds, n_bins, X_binned):
    """Fill X_binned (n, d) by binary search in tiles of rows; NaN gets bin n_bins[j]."""
    n, d = X.shape
    x, first = np.empty(TILE_ROWS), np.empty(TILE_ROWS, dtype=np.uint32)
    for start in range(0, n, TILE_ROWS):
        m = min(TILE_ROWS, n - start)
        for j in range(d):
            for k in range(m):
                x[k], first[k] = X[start + k, j], 0
            size = np.int64(n_bins[j])
            while size > 1:
                half = size >> 1
                middle = thresholds[j, half - 1 :]
                for k in range(m):
                    first[k] += half * (x[k] > middle[first[k]])
                size -= half
            for k in range(m):
                X_binned[start + k, j] = first[k] if x[k] == x[k] else n_bins[j]


# -- histograms ---------------------------------------------------------------------------------
@jit(inner=True)
def _add(sums, g, h, l2):
    """Add a row to a bin. With two classes, each class has its own sum of h: one addition."""
    if l2 is None:
        sums[1 * (g > 0)] += h
    else:
        sums[0] += g
        sums[1] += h


@jit(inner=True)
def _sums(bins, b, count_bits, l2):
    """Sums of g and h in bin b."""
    if l2 is None:
        return (bins[b, 1] >> count_bits) - (bins[b, 0] >> count_bits), bins[b, 0] + bins[b, 1]
    else:
        return bins[b, 0], bins[b, 1]


@jit(inner=True)
def _build_histograms(data, sample_indices, hist, node, sibling, l2):
    """Overwrite hist[node.slot] (d, bins, 2) with the sums over the rows of a node.

    The larger sibling has the slot of the parent: the node's sums are subtracted there. The root
    is its own sibling. Nothing is done if both are leaves.
    """
    if hist is None:
        return
    X_binned, grad_hess, is_root = data.X_binned, data.grad_hess, sibling.slot == node.slot
    if node.is_leaf and (is_root or sibling.is_leaf):
        return
    n, d = X_binned.shape
    sums, is_whole = hist[node.slot], node.stop - node.start == n
    flat = sums.ravel()  # A view: one loop is faster than three.
    flat[:] = 0
    for k in range(node.start, node.stop):
        i = np.uint64(k if is_whole else sample_indices[k])  # In order: a sixth of a stump.
        g, h = grad_hess[i, 0], grad_hess[i, 1]
        for j in range(d):
            _add(sums[j, X_binned[i, j]], g, h, l2)
    if not is_root and not sibling.is_leaf:
        rest = hist[sibling.slot].ravel()
        for a in range(flat.size):
            rest[a] -= flat[a]


@jit(inner=True)
def _sparse_histogram(data, order, node, j, l2, bins, bin_indices):
    """Histogram of feature j without empty bins, from the node's rows sorted by it; overwrites
    bins (m + 1, 2), the last one empty, and bin_indices (m,); returns m."""
    m, last = 0, -1
    for k in range(node.start, node.stop):
        i = order[k]
        if data.X_binned[i, j] != last:
            last = data.X_binned[i, j]
            bin_indices[m] = last
            bins[m, 0] = bins[m, 1] = 0
            m += 1
        _add(bins[m - 1], data.grad_hess[i, 0], data.grad_hess[i, 1], l2)
    bins[m, 0] = bins[m, 1] = 0
    return m


@jit(inner=True)
def _feature_histogram(data, sample_indices, node, j, l2, bins):
    """Histogram of feature j over the node's rows; overwrites bins (m + 1, 2)."""
    bins[: data.n_bins_non_missing[j] + 1] = 0
    for k in range(node.start, node.stop):
        i = sample_indices[k]
        _add(bins[data.X_binned[i, j]], data.grad_hess[i, 0], data.grad_hess[i, 1], l2)


# -- splits -------------------------------------------------------------------------------------
@jit(inner=True)
def _leaf_value(g, h, l2, node):
    """Leaf value -g / (h + l2), clipped to the bounds of the node."""
    return min(max(-g / (h + l2), node.low), node.high)


@jit(inner=True)
def _impurity(g, h, criterion, l2, monotone, node):
    """h times the impurity of classes with weight difference g; l2: min g v + (h + l2) v^2 / 2."""
    if l2 is not None:
        if monotone is None:
            return -0.5 * g * g / (h + l2)
        else:
            v = _leaf_value(g, h, l2, node)
            return (g + 0.5 * (h + l2) * v) * v
    else:
        if criterion == 0:
            return 0.5 * (h - abs(g))
        if criterion == 1:
            return 0.5 * (h - g * g / h)
        total = 0.0
        for weight in (0.5 * (h - g), 0.5 * (h + g)):
            if weight > 0.0:
                total -= weight * math.log2(weight / h)
        return total


@jit(inner=True)
def _violates_monotonicity(gl, hl, gr, hr, l2, monotone, j, node):
    """Return True if a split of feature j violates its monotonicity constraint."""
    if monotone is None:
        return False
    else:
        rise = _leaf_value(gr, hr, l2, node) - _leaf_value(gl, hl, l2, node)
        return monotone[j] * rise < 0.0


@jit(inner=True)
def _best_split_of_feature(bins, m, node, count_bits, params, j):
    """Best split after one of the first m bins of feature j; bins[m] has the missing values.

    Returns its gain (-1: none), the last bin on the left, 1 if missing values go left (if there are
    none: if most of the weight does), the sums on the left, and the difference at which gains tie.
    """
    criterion, l2, monotone = params.criterion, params.l2, params.monotone
    g, h = node.g, node.h
    weight, mask = float(h >> count_bits), (1 << count_bits) - 1
    parent = _impurity(float(g), weight, criterion, l2, monotone, node)
    tie = GAIN_TIE * weight
    best = -weight if l2 is None else 0.0  # With l2 the gain must be positive.
    split, missing_left = -1, 0
    best_g, best_h = g, h
    missing_g, missing_h = _sums(bins, m, count_bits, l2)
    for side in range(2 if missing_h > 0 else 1):
        left_g, left_h = side * missing_g, side * missing_h
        for b in range(m):
            bin_g, bin_h = _sums(bins, b, count_bits, l2)
            left_g += bin_g
            left_h += bin_h
            wl, wr = left_h >> count_bits, (h - left_h) >> count_bits
            if bin_h == 0 or wl < params.min_weight or wr < params.min_weight:
                continue
            if (left_h & mask) < params.min_leaf or ((h - left_h) & mask) < params.min_leaf:
                continue
            gl, hl = float(left_g), float(wl)
            gr, hr = float(g - left_g), float(wr)
            gain = parent - _impurity(gl, hl, criterion, l2, monotone, node)
            gain -= _impurity(gr, hr, criterion, l2, monotone, node)
            if l2 is not None:
                tie = GAIN_TIE * (gain - parent)
            if _violates_monotonicity(gl, hl, gr, hr, l2, monotone, j, node):
                continue
            if gain > best + tie:
                best, split, missing_left = gain, b, side
                best_g, best_h = left_g, left_h
    if missing_h == 0:
        missing_left = int(2 * (best_h >> count_bits) >= h >> count_bits)
    best = max(best, 0.0) if split >= 0 else -1.0  # Negative by rounding only.
    unbounded = _impurity(float(g), weight, criterion, l2, None, node)
    tie = GAIN_TIE * weight if l2 is None else GAIN_TIE * (best - unbounded)
    return best, split, missing_left, best_g, best_h, tie


@jit(inner=True)
def _random_below(state, m):
    """Random integer from 0 to m - 1, by xorshift64*; overwrites state (1,)."""
    x = state[0]
    x ^= x >> XORSHIFT[0]
    x ^= x << XORSHIFT[1]
    x ^= x >> XORSHIFT[2]
    state[0] = x
    bits, mask, one = HALF
    high, low = x >> bits, x & mask
    # Upper half of the product x * factor modulo 2^64; no term overflows.
    half = (high * FACTOR[1] & mask) + (low * FACTOR[0] & mask) + (low * FACTOR[1] >> bits)
    return (np.int64((half & mask) >> one) * m) >> 31


@jit(inner=True)
def _candidate_feature(draws, a, d, is_new):
    """Feature at position a of d; if features are drawn, a new one is drawn without replacement."""
    if draws is None:
        return a
    else:
        state, features = draws
        if is_new:
            b = a + _random_below(state, d - a)
            features[a], features[b] = features[b], features[a]
        return features[a]


@jit(inner=True)
def _split_bin(bins, m, split, n_bins, bin_indices, is_sparse, count_bits, l2):
    """Last bin on the left of a split: the middle of the empty bins beside it for two classes, the
    last bin of all if known values are split from missing ones."""
    right, last_left = split + 1, bin_indices[split] if is_sparse else split
    while right < m and _sums(bins, right, count_bits, l2)[1] == 0:
        right += 1
    if right == m:
        return n_bins - 1
    if l2 is not None:
        return last_left
    first_right = bin_indices[right] if is_sparse else right
    return max(last_left, (last_left + first_right - 1) >> 1)


@jit(inner=True)
def _best_split(data, params, node, sample_indices, bins, bin_indices, hist, order, draws):
    """Write the best split of a node into it; the gain is -1 if there is none.

    With drawn features, the first n_drawn in random order that can be split are compared. Gain
    ratio as in C4.5: each feature is split at its highest gain; among the features of at least
    average gain, the ratio of the gain to the entropy of the split decides.
    """
    count_bits, l2, n_bins = data.count_bits, params.l2, data.n_bins_non_missing
    weight, is_ratio = float(node.h >> count_bits), params.criterion == 3
    is_sparse = order is not None
    node.gain = best = -1.0
    total, candidates = 0.0, 0
    n_seen = d = data.X_binned.shape[1]
    for turn in range(2 if is_ratio else 1):
        for a in range(n_seen):
            if turn == 0 and candidates == params.n_drawn:
                n_seen = a
                break
            j = _candidate_feature(draws, a, d, turn == 0)

            # Its histogram: m bins of known values, then the bin of missing values.
            sums, m = bins, n_bins[j]
            if order is not None:
                m = _sparse_histogram(data, order[j], node, j, l2, bins, bin_indices)
                m -= bin_indices[m - 1] == n_bins[j]
            elif draws is not None:
                _feature_histogram(data, sample_indices, node, j, l2, bins)
            elif hist is not None:
                sums = hist[node.slot, j]

            # Its best split, and the score of that.
            best_split = _best_split_of_feature(sums, m, node, count_bits, params, j)
            gain, split, missing_left, left_g, left_h, tie = best_split
            if gain < 0.0:
                continue
            if turn == 0:
                total += gain
                candidates += 1
            score = gain
            if is_ratio:
                if turn == 0:  # First the average gain, then the ratios.
                    continue
                balance, tie = weight - 2.0 * float(left_h >> count_bits), GAIN_TIE
                entropy = _impurity(balance, weight, params.criterion, l2, params.monotone, node)
                is_good = gain >= total / candidates - GAIN_TIE * weight
                score = gain / entropy if is_good else -1.0
            if score > best + tie or best < 0.0 <= score:
                best = score
                node.gain, node.feature, node.missing_left = gain, j, missing_left
                node.left_g, node.left_h = left_g, left_h
                node.split_bin = _split_bin(
                    sums, m, split, n_bins[j], bin_indices, is_sparse, count_bits, l2
                )


# -- growth -------------------------------------------------------------------------------------
@jit(inner=True)
def _make_root(data, sample_indices, n_rows, params, root):
    """Make the root from the first n_rows of sample_indices."""
    grad_hess = data.grad_hess
    g = h = np.int64(0)
    for a in range(n_rows):
        i = np.uint64(a if n_rows == grad_hess.shape[0] else sample_indices[a])
        g += grad_hess[i, 0]
        h += grad_hess[i, 1]
    root.g, root.h = g, h
    root.start, root.stop = 0, n_rows
    root.depth = root.child = root.is_pruned = 0
    root.low, root.high = -math.inf, math.inf
    weight = h >> data.count_bits
    root.is_leaf = params.max_depth == 0 or weight == 0 or (params.l2 is None and abs(g) == weight)


@jit(inner=True)
def _make_children(node, left, right, count_bits, params):
    """Make the children of a node that has a split."""
    left.g, left.h = node.left_g, node.left_h
    right.g, right.h = node.g - node.left_g, node.h - node.left_h
    for child in (left, right):
        child.depth = node.depth + 1
        child.child = child.is_pruned = 0
        child.low, child.high = node.low, node.high
        is_pure = params.l2 is None and abs(child.g) == child.h >> count_bits
        is_small = (child.h & ((1 << count_bits) - 1)) < 2 * params.min_leaf
        child.is_leaf = child.depth == params.max_depth or is_small or is_pure
    _bound_children(node, left, right, count_bits, params.l2, params.monotone)


@jit(inner=True)
def _bound_children(node, left, right, count_bits, l2, monotone):
    """Separate the leaf values below two children of a monotone split at their mean value."""
    if monotone is not None and monotone[node.feature] != 0:
        middle = 0.5 * _leaf_value(float(left.g), float(left.h >> count_bits), l2, node)
        middle += 0.5 * _leaf_value(float(right.g), float(right.h >> count_bits), l2, node)
        if monotone[node.feature] > 0:
            left.high = right.low = middle
        else:
            left.low = right.high = middle


@jit(inner=True)
def _partition(by_feature, sample_indices, spare, node, missing):
    """Move the node's rows that go left to the front, in stable order; return where they end."""
    j, split_bin, missing_left = node.feature, node.split_bin, node.missing_left
    left, right = node.start, 0
    for k in range(node.start, node.stop):
        i = sample_indices[k]
        b = by_feature[i, j]
        goes_left = (b <= split_bin) | ((b == missing) & (missing_left == 1))
        sample_indices[left] = i
        spare[right] = i
        left += goes_left
        right += 1 - goes_left
    for k in range(right):
        sample_indices[left + k] = spare[k]
    return left


@jit(inner=True)
def _partition_orders(by_feature, order, spare, node, missing):
    """Partition the rows of a node in the order of each feature, for exact bins."""
    if order is not None:
        for j in range(order.shape[0]):
            _partition(by_feature, order[j], spare, node, missing)


@jit(inner=True)
def _assign_children(by_feature, leaf, sample_indices, node, missing):
    """Set leaf (n,) for the rows of a node whose children are both leaves, without a partition."""
    j, split_bin, to_left = node.feature, node.split_bin, node.missing_left == 1
    child, is_whole = node.child, node.stop - node.start == leaf.size
    for a in range(node.start, node.stop):
        i = np.uint64(a if is_whole else sample_indices[a])  # Unsigned: it cannot be negative.
        b = by_feature[i, j]
        leaf[i] = child + 1 - ((b <= split_bin) | ((b == missing) & to_left))


@jit(nogil=True)
def _grow(data, params, buffers, n_rows):
    """Grow a tree on the first n_rows of sample_indices; return the number of nodes.

    Overwrites nodes and the leaf of each of these rows. Only the smaller one of two siblings has
    its histogram built. It is split first: then log2(n) + 2 histograms are enough. With
    max_leaves > 0 the highest gain comes first, and each leaf needs a histogram. If features are
    drawn, or bins are exact, histograms are built one feature at a time.
    """
    data, params, buffers = BinnedData(*data), TreeParams(*params), GrowerBuffers(*buffers)
    nodes, opened, free = buffers.nodes, buffers.opened, buffers.free
    sample_indices, leaf, by_feature = buffers.sample_indices, buffers.leaf, data.by_feature
    for a in range(free.size):
        free[a] = a
    n_nodes, n_open, n_free = 1, 0, free.size - 1
    _make_root(data, sample_indices, n_rows, params, nodes[0])
    nodes[0].slot = n_free
    min_gain = params.min_decrease * float(nodes[0].h >> data.count_bits)
    small, large = 0, -1  # The new nodes; -1: none.
    while True:
        # Find the best split of each new node. It is open if there is one, else a leaf.
        if small >= 0:
            node, sibling = nodes[small], nodes[max(large, 0)]
            _build_histograms(data, sample_indices, buffers.hist, node, sibling, params.l2)
        for k in (large, small):
            if k < 0:
                continue
            node = nodes[k]
            if not node.is_leaf:
                _best_split(
                    data, params, node, sample_indices, buffers.bins, buffers.bin_indices,
                    buffers.hist, buffers.order, buffers.draws,
                )  # fmt: skip
                node.is_leaf = node.gain < min_gain
            if node.is_leaf:
                leaf[sample_indices[node.start : node.stop]] = k
                free[n_free] = node.slot
                n_free += 1
            else:
                opened[n_open] = k
                n_open += 1
        if n_open == 0 or n_nodes == 2 * params.max_leaves - 1:
            break

        # Take the last open node, or the one of the highest gain, and make its children.
        n_open -= 1
        for a in range(n_open if params.max_leaves > 0 else 0):
            if nodes[opened[a]].gain > nodes[opened[n_open]].gain:
                opened[a], opened[n_open] = opened[n_open], opened[a]
        node, left, right = nodes[opened[n_open]], nodes[n_nodes], nodes[n_nodes + 1]
        node.child = n_nodes
        n_nodes += 2
        _make_children(node, left, right, data.count_bits, params)
        missing = data.n_bins_non_missing[node.feature]

        # Partition its rows, unless both children are leaves.
        if left.is_leaf and right.is_leaf:
            _assign_children(by_feature, leaf, sample_indices, node, missing)
            free[n_free] = node.slot
            n_free += 1
            small = large = -1
        else:
            middle = _partition(by_feature, sample_indices, buffers.spare, node, missing)
            _partition_orders(by_feature, buffers.order, buffers.spare, node, missing)
            left.start, right.stop = node.start, node.stop
            left.stop = right.start = middle
            small = node.child + (middle - node.start > node.stop - middle)
            large = 2 * node.child + 1 - small
            n_free -= 1
            nodes[small].slot, nodes[large].slot = free[n_free], node.slot

    for a in range(n_open):  # There are max_leaves leaves: open nodes become leaves, too.
        k = np.int64(opened[a])
        nodes[k].is_leaf = 1
        leaf[sample_indices[nodes[k].start : nodes[k].stop]] = k
    return n_nodes


# -- finished trees -----------------------------------------------------------------------------
class TreeGrower:
    """Grows trees depth first on X, with at most max_bins bins per feature (None: exact).

    data : grad_hess (n, 2) must be filled before `grow`, with integers, so that sums are exact in
        any order: the gradient -w y, and the weight w times 2^count_bits plus the number of rows it
        stands for. The sum of all w is at most `full`. With l2, as in gradient boosting, these are
        the first and second derivatives of a loss instead
    params : of all trees; l2 and min_weight may change from one tree to the next
    buffers : after `grow`, `leaf` has the node of each row. If features are drawn, `draws` must be
        set before
    weight : None, or weights (n,) for the quantiles of `bin_thresholds`
    max_rows : rows that grad_hess may stand for, if they are more than n: rows drawn repeatedly
    """

    def __init__(self, X, max_bins, params, weight=None, max_rows=0):
        n, d = X.shape
        self.thresholds, n_bins = pad_thresholds(bin_thresholds(X, max_bins, weight))
        X_binned, self.order = np.empty((n, d), np.int32 if max_bins is None else np.uint8), None
        bin_features(X, self.thresholds, n_bins, X_binned)
        by_feature = np.asfortranarray(X_binned)
        if max_bins is None:
            self.order = np.argsort(by_feature.T, axis=1, kind="stable").astype(np.int32)
        self.is_drawn = params.n_drawn is not None
        self.max_rows = max(n, max_rows)
        count_bits = self.max_rows.bit_length()
        self.full = 2.0 ** (SUM_BITS - count_bits)
        X_binned = by_feature if self.is_drawn or max_bins is None else X_binned
        self.data = BinnedData(X_binned, by_feature, n_bins, None, count_bits)
        self.params = params._replace(
            max_depth=n if params.max_depth is None else min(params.max_depth, n),
            max_leaves=params.max_leaves or 0,
            n_drawn=params.n_drawn if self.is_drawn else d,
        )
        self.columns = None
        self.allocate()

    def allocate(self):
        """Allocate the buffers."""
        (n, d), params, is_exact = self.data.X_binned.shape, self.params, self.order is not None
        leaves = min(n, self.max_rows // params.min_leaf, 2 ** min(params.max_depth, 31))
        leaves = max(1, min(leaves, params.max_leaves or n))
        slots = leaves if params.max_leaves else max(1, min(n.bit_length() + 2, params.max_depth))
        bins = n + 1 if is_exact else int(self.data.n_bins_non_missing.max()) + 1
        self.data = self.data._replace(grad_hess=np.empty((n, 2), dtype=np.int64))
        self.buffers = GrowerBuffers(
            nodes=np.zeros(2 * leaves - 1, dtype=GROWING),
            leaf=np.empty(n, dtype=np.int32),
            sample_indices=np.arange(n, dtype=np.int32),
            spare=np.empty(n, dtype=np.int32),
            opened=np.empty(slots, dtype=np.int32),
            free=np.empty(slots, dtype=np.int32),
            bins=np.empty((bins, 2), dtype=np.int64),
            bin_indices=np.empty(bins, dtype=np.int32),
            hist=None if is_exact or self.is_drawn else np.empty((slots, d, bins, 2), np.int64),
            order=None,
            draws=(np.empty(1, np.uint64), np.arange(d, dtype=np.int32)) if self.is_drawn else None,
        )
        self.in_order = True  # sample_indices are ascending.

    def unit(self, size):
        """Power of two that scales numbers of this sum to integers within `full`."""
        return math.ldexp(self.full, -math.frexp(size)[1])

    def grow(self, rows=None):
        """Grow a tree on grad_hess, of all rows or of some; return its nodes for `finalize`."""
        buffers, order = self.buffers, self.order
        n = len(buffers.leaf)
        n_rows = n if rows is None else len(rows)
        if rows is not None or not self.in_order:
            buffers.sample_indices[:n_rows] = np.arange(n) if rows is None else rows
        self.in_order = rows is None and self.params.max_depth <= 1  # Stumps move no rows.
        if order is not None:
            chosen = np.zeros(n, dtype=bool)
            chosen[buffers.sample_indices[:n_rows]] = True
            buffers = buffers._replace(order=order[chosen[order]].reshape(len(order), n_rows))
        # As tuples: Numba would look up NamedTuples of one name in several files at every call.
        count = _grow(tuple(self.data), tuple(self.params), tuple(buffers), n_rows)
        nodes = buffers.nodes[:count].copy()
        if self.columns is not None:
            nodes["feature"] = self.columns[nodes["feature"]]
        return nodes

    def finalize(self, trees):
        """Convert grown trees to NODE; return all nodes, the start of each tree and the end."""
        nodes, first = join_trees(trees)
        tree = np.repeat(np.arange(len(trees)), np.diff(first))
        remains = nodes["is_pruned"] == 0
        place = np.cumsum(remains) - remains  # Position of a node among those that remain.
        starts = np.append(place, remains.sum())[first]
        child = place[first[tree] + nodes["child"]] - starts[tree]
        weight, inner = nodes["h"] >> self.data.count_bits, nodes["is_leaf"] == 0
        finished = np.zeros(len(nodes), dtype=NODE)
        finished["value"] = -nodes["g"] / (weight + (self.params.l2 or 0.0))
        if self.params.monotone is not None:
            finished["value"] = np.clip(finished["value"], nodes["low"], nodes["high"])
        finished["threshold"] = self.thresholds[nodes["feature"], nodes["split_bin"]]
        finished["gain"], finished["child"] = nodes["gain"] / weight[first[tree]], child
        finished["feature"], finished["missing_left"] = nodes["feature"], nodes["missing_left"]
        for name in ("threshold", "gain", "child", "feature", "missing_left"):
            finished[name][~inner] = 0
        return finished[remains], starts


def join_trees(trees):
    """Nodes of all trees in one array; the start of each tree, and the end."""
    nodes = np.concatenate([tree.view(np.uint8) for tree in trees]).view(trees[0].dtype)
    return nodes, np.cumsum([0, *map(len, trees)], dtype=np.int64)


def check_trees(nodes, starts, n_features):
    """Return True if kernels can walk these trees safely; leaves need a valid feature, too."""
    if nodes.dtype != NODE or nodes.ndim != 1 or starts.dtype != np.int64 or starts.ndim != 1:
        return False
    sizes = np.diff(starts)
    if starts.size == 0 or starts[0] != 0 or starts[-1] != nodes.size or (sizes < 1).any():
        return False
    size = np.repeat(sizes, sizes)
    place = np.arange(nodes.size) - np.repeat(starts[:-1], sizes)
    child, feature = nodes["child"], nodes["feature"]
    is_valid = (child == 0) | (place < child) & (child < size - 1)
    is_valid &= (0 <= feature) & (feature < n_features) & ~np.isnan(nodes["threshold"])
    is_valid &= np.isfinite(nodes["value"]) & np.isfinite(nodes["gain"])
    is_valid &= np.isin(nodes["missing_left"], (0, 1))
    return bool(is_valid.all())


@jit(nogil=True)
def _add_trees(nodes, starts, weights, X, out):
    """out (n,) += sum over the trees of weight * value, row by row."""
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
    """out (n,) += weight * value, tree by tree over chunks of rows.

    Takes half the time of `_add_trees` on deep trees, three times on stumps.
    """
    at = np.empty(INTERLEAVED_ROWS, dtype=np.int64)
    for chunk in range(0, X.shape[0], CHUNK_ROWS):
        end = min(chunk + CHUNK_ROWS, X.shape[0])
        for t in range(weights.size):
            for first in range(chunk, end, INTERLEAVED_ROWS):
                m, is_inner = min(INTERLEAVED_ROWS, end - first), True
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
    """Sum over the trees of weight * value, (n,), on at most n_jobs threads."""
    out = np.zeros(X.shape[0])
    add = _add_trees if nodes.size < DEEP_NODES else _add_deep_trees
    n_jobs = max(1, min(n_jobs, out.size * weights.size // MIN_VISITS_PER_THREAD))
    if n_jobs == 1:
        add(nodes, starts, weights, X, out)
        return out
    with ThreadPoolExecutor(n_jobs) as pool:
        blocks = np.array_split(X, n_jobs), np.array_split(out, n_jobs)
        [*pool.map(lambda rows, sums: add(nodes, starts, weights, rows, sums), *blocks)]
    return out


# <<< shared: tree


# >>> shared: fork 1
def fork_grower(grower, columns=None):
    """Grower with its own buffers, for another thread, on all features or on some columns."""
    twin = copy.copy(grower)
    if columns is not None:
        data, params = grower.data, grower.params
        by_feature = np.asfortranarray(data.by_feature[:, columns])
        is_by_feature = data.X_binned is data.by_feature
        X_binned = by_feature if is_by_feature else np.ascontiguousarray(by_feature)
        twin.columns = columns
        twin.order = None if grower.order is None else grower.order[columns]
        n_bins = data.n_bins_non_missing[columns]
        twin.data = BinnedData(X_binned, by_feature, n_bins, None, data.count_bits)
        if params.monotone is not None:
            twin.params = params._replace(monotone=params.monotone[columns])
    twin.allocate()
    return twin


# <<< shared: fork


# >>> shared: estimator 10
MAX_ABS = 1e150  # Larger numbers are refused: sums of their squares have to be finite.
LIMITS = {">=": operator.le, ">": operator.lt, "<=": operator.ge, "<": operator.gt}  # limit, value
COMMON_RULES = {  # Rules of the parameters that many classes have.
    "class_weight": "None, 'balanced' or a dict from class to positive factor",
    "n_jobs": "None, an integer >= 1 or an integer <= -1",
    "random_state": "None, an integer >= 0 or a random generator",
    "callback": "None or a function",
}
RULE_TYPES = {  # Tests of the types in rules. All other words are values: None, 'scale'.
    "a number": lambda v: v == v,
    "a finite number": lambda v: abs(v) < np.inf,
    "a share": lambda v: v == v,
    "an integer": lambda v: isinstance(v, (int, np.integer)),
    "a function": callable,
    "a dict from class to positive factor": lambda v: all(0 < f < MAX_ABS for f in v.values()),
    "a random generator": lambda v: isinstance(v, (np.random.RandomState, np.random.Generator)),
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
    for tests in _alternatives(rule):
        with suppress(AttributeError, TypeError, ValueError):  # The value has another type.
            if all(test(value) for test in tests):
                return True
    return False


@cache
def _alternatives(rule):
    """Lists of tests of a value: it has to pass all tests of one list."""
    if rule in RULE_TYPES:
        return [[RULE_TYPES[rule]]]
    rule = re.sub(r"from (\d+) to (\d+)", r">= \1 and <= \2", rule.removeprefix("one of "))
    lists = []
    for option in re.split(r", | or ", rule):
        kind, *ends = re.split(r" (?:and )?([<>]=?) ", option)
        tests = [RULE_TYPES.get(kind) or partial(operator.eq, ast.literal_eval(kind))]
        pairs = zip(ends[::2], ends[1::2], strict=True)
        lists.append(tests + [partial(LIMITS[sign], float(end)) for sign, end in pairs])
    return lists


class _Estimator:
    """Parameters, input checks, labels, predict, score and report of all estimators."""

    class_weight = None  # Classifiers have it as a parameter.
    _estimator_type = "classifier"
    _allow_nan = False
    _multi_class = False
    _param_rules = {}  # Rule of each parameter: a text that `satisfies` reads.

    def _set(self, params):
        """Store the arguments of the constructor, given as its locals(), unchanged."""
        vars(self).update({name: params[name] for name in self._defaults()})

    @classmethod
    @cache
    def _defaults(cls):
        return {name: p.default for name, p in inspect.signature(cls).parameters.items()}

    def get_params(self, deep=True):
        """Parameters of the constructor by name."""
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **params):
        """Set parameters of the constructor; returns self."""
        for name, value in params.items():
            self._require(name in self._defaults(), f"no parameter {name!r}; see get_params()")
            setattr(self, name, value)
        return self

    def __repr__(self):
        params, defaults = self.get_params(deep=False), self._defaults()
        changed = [f"{k}={v!r}" for k, v in params.items() if repr(v) != repr(defaults[k])]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self):
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        pairwise = getattr(self, "kernel", None) == "precomputed"
        inputs = InputTags(allow_nan=self._allow_nan, pairwise=pairwise)
        classes = ClassifierTags(multi_class=self._multi_class)
        own = (classes, None) if self._estimator_type == "classifier" else (None, RegressorTags())
        return Tags(self._estimator_type, TargetTags(required=True), None, *own, input_tags=inputs)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "converged_")

    def _require(self, condition, text, error=ValueError):
        """Raise an error that names the class, unless the condition holds."""
        if not condition:
            raise error(f"{type(self).__name__}: {text}")

    def _check_params(self):
        """Raise ValueError if a parameter does not satisfy its rule."""
        for name, rule in (COMMON_RULES | self._param_rules).items():
            value = getattr(self, name, None)  # None satisfies all common rules.
            if value is not self._defaults().get(name) and not satisfies(value, rule):
                self._require(False, f"{name} must be {rule}, got {value!r}")

    def _seed(self):
        """Integer seed from random_state; drawn if that is a generator or None."""
        state = self.random_state
        if hasattr(state, "randint"):
            return int(state.randint(2**31 - 1))
        is_new = isinstance(state, np.random.Generator)
        return int(state.integers(2**63)) if is_new else np.random.SeedSequence(state).entropy

    def _threads(self):
        """Number of threads from n_jobs, at most one per processor."""
        count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        jobs = 1 if self.n_jobs is None else int(self.n_jobs)
        return min(jobs, count) if jobs > 0 else max(count + 1 + jobs, 1)

    def _check_X(self, X, fitting=False):
        """X as a C-contiguous float64 matrix of finite numbers (NaN if _allow_nan)."""
        error = getattr(sys.modules.get("sklearn.exceptions"), "NotFittedError", ValueError)
        self._require(fitting or self.__sklearn_is_fitted__(), "not fitted yet; call fit", error)
        self._require(not hasattr(X, "toarray"), "sparse X: pass X.toarray()", TypeError)
        names = list(getattr(X, "columns", ()))
        names = names if all(isinstance(name, str) for name in names) else []
        if any(hasattr(dtype, "na_value") for dtype in np.ravel(getattr(X, "dtypes", ()))):
            with suppress(TypeError, ValueError):
                X = X.to_numpy(dtype=np.float64, na_value=np.nan)
        X = np.asarray(X)
        text = f"Complex data not supported, nor dates, got {X.dtype}; convert X to numbers"
        self._require(X.dtype.kind not in "cmM", text)
        try:
            X = np.ascontiguousarray(X, dtype=np.float64)
        except (TypeError, ValueError) as error:
            text = f"X must hold numbers; convert dates and texts, fill missing cells ({error})"
            raise type(error)(f"{type(self).__name__}: {text}") from None
        self._require(X.ndim == 2, f"X must be a matrix, got {X.ndim}-d. Reshape your data")
        text = f"0 sample(s) or 0 feature(s) (shape={X.shape}) while a minimum of 1 is required."
        self._require(X.size, text)
        if not np.einsum("ij,ij", X, X) < MAX_ABS**2:  # It neither copies nor warns.
            is_valid = (np.abs(X) < MAX_ABS) | (np.isnan(X) & self._allow_nan)
            for i, k in np.argwhere(~is_valid)[:1]:
                text = "is too large" if np.isfinite(X[i, k]) else "contains NaN or infinity"
                text = f"X {text}: {X[i, k]} in row {i}, column {k}"
                self._require(False, f"{text}; fill or drop such cells, or scale X")
        d, name = X.shape[1], type(self).__name__
        if fitting:
            self.n_features_in_ = d
            vars(self).update({"feature_names_in_": np.array(names, object)} if names else {})
        known = list(getattr(self, "feature_names_in_", ()))
        text = f"The feature names should match those that were passed during fit: {known[:9]}"
        self._require(not names or not known or names == known, text)
        text = f"X has {d} features, but {name} is expecting {self.n_features_in_} features"
        self._require(d == self.n_features_in_, f"{text} as input")
        return X

    def _check_y(self, y, n):
        """y as an array (n,) of labels of one kind, none of them missing."""
        y = np.asarray(y)
        self._require(y.shape in ((n,), (n, 1)), f"y must have shape ({n},), got {y.shape}")
        y, kind = y.ravel(), y.dtype.kind
        is_given = np.isfinite(y) if kind in "fmM" else np.True_
        if kind == "O":  # NaN and the missing values of pandas do not equal themselves.
            is_given = np.array([v is not None and str(v == v) == "True" for v in y])
        text = f"Input y contains NaN or infinity: row {is_given.argmin()} has no label; drop it"
        self._require(is_given.all(), text)
        are_texts = {isinstance(v, str) for v in y} if kind == "O" else {True}
        self._require(len(are_texts) == 1, "y mixes texts and numbers; pass labels of one kind")
        return y if True in are_texts else np.array(y.tolist())

    def _check_weight(self, sample_weight, n):
        """Sample weights as a float64 array (n,); ones if there are none."""
        weight = np.ones(n) if sample_weight is None else np.array(sample_weight, np.float64)
        is_valid = weight.shape == (n,) and weight.min() >= 0 and 0 < weight.max() < MAX_ABS / n
        text = f"sample_weight must be finite and >= 0, of shape ({n},); the sum of sample_weight"
        self._require(is_valid, f"{text} must be above zero and below {MAX_ABS:g}")
        return weight

    def _is_weighted(self, sample_weight):
        return sample_weight is not None or self.class_weight is not None

    def _check_rows(self, X, y, sample_weight):
        """X (n, d), y (n,) and sample weights (n,), checked."""
        self._require(y is not None, "requires y to be passed, but the target y is None")
        X = self._check_X(X, fitting=True)
        if np.asarray(y).shape == (len(X), 1):
            kind = getattr(sys.modules.get("sklearn.exceptions"), "DataConversionWarning", None)
            warnings.warn("A column-vector y was passed when a 1d array was expected", kind, 5)
        return X, self._check_y(y, len(X)), self._check_weight(sample_weight, len(X))

    def _check_fit(self, X, y, sample_weight):
        """X, y as -1.0 and +1.0 (class indices if _multi_class) and all weights; sets classes_."""
        X, y, weight = self._check_rows(X, y, sample_weight)
        ends = (y.min(), y.max()) if y.dtype.kind in "biuf" else (y[0], y[0])
        classes, codes = np.array(ends), (y == ends[1]).astype(np.intp)
        if ends[0] == ends[1] or not (y == classes[codes]).all():  # Texts, or not two numbers.
            classes, codes = np.unique(y, return_inverse=True)
        self._check_classes(classes)
        self.classes_ = classes
        if self.class_weight is not None:
            totals = [math.fsum(weight[codes == k]) for k in range(self.classes_.size)]
            weight = weight * self._class_factors(np.array(totals))[codes]
        if self._is_weighted(sample_weight):
            is_positive = (np.bincount(codes, weight) > 0).all()
            self._require(is_positive, "the weights are zero on all rows of a class")
        return X, codes if self._multi_class else 2.0 * codes - 1.0, weight

    def _check_classes(self, classes):
        """Raise ValueError if these distinct labels are no classes, or too many."""
        K, shown = classes.size, ", ".join(map(str, classes[:5]))
        self._require(K > 1, f"needs two classes, y has only one class: {shown}")
        is_continuous = K > 2 and classes.dtype.kind == "f" and (classes % 1 != 0).any()
        self._require(not is_continuous, f"Unknown label type: continuous, {shown} ...")
        text = "Only binary classification is supported. The type of the target is multiclass"
        is_valid = K == 2 or self._multi_class
        self._require(is_valid, f"{text}: y has {K} classes, {shown} ...; see OneVsRest")

    def _class_factors(self, totals):
        """Factor per class from class_weight; totals (K,) are the weights of the classes."""
        factors, known = self.class_weight, self.classes_.tolist()
        if factors == "balanced":
            return totals.sum() / (totals.size * totals)
        unknown = [label for label in factors if label not in known]
        self._require(not unknown, f"class_weight names {unknown}, y has {known}")
        return np.array([factors.get(label, 1.0) for label in known], dtype=np.float64)

    def predict(self, X):
        """Class of each row; a decision of exactly 0 is the positive class."""
        decision = self.decision_function(X)
        return self.classes_[decision.argmax(1) if decision.ndim > 1 else (decision >= 0) * 1]

    def score(self, X, y, sample_weight=None):
        """Fraction of the rows whose predicted class is y."""
        predicted = self.predict(X)
        weight = self._check_weight(sample_weight, predicted.size)
        return float(np.average(predicted == self._check_y(y, predicted.size), weights=weight))

    def _report(self, iteration, objective, **info):
        """Record an iteration, print it if verbose, call the callback; True asks to stop."""
        self.n_iter_, self.objective_ = iteration, float(objective)
        self.trace_.append(self.objective_)
        self.residual_ = info.get("residual", getattr(self, "residual_", None))
        info = {"objective": self.objective_} | info
        if self.verbose:
            values = [(k, f"{v:.9e}" if type(v) is float else v) for k, v in info.items()]
            texts = [f"{k} {v}" for k, v in values if v is not None]
            print(f"{type(self).__name__} {iteration:5d}", *texts, sep="  ")
        return self.callback is not None and bool(self.callback(self, iteration, info))


# <<< shared: estimator


# >>> shared: rows 2
class SingleBlock:
    """All rows as one row block in memory, with the protocol of solvers/rows.

    target holds -1 and +1, or numbers. Other row blocks, of threads, files and clusters, are in
    solvers/rows.
    """

    start = 0

    def __init__(self, X, target, weight):
        self.X, self.target, self.weight, self.shape = X, target, weight, X.shape

    def allocate(self, name, shape, dtype=np.float64):
        """Set the attribute `name` to an array of zeros; return it."""
        setattr(self, name, np.zeros(shape, dtype))
        return getattr(self, name)

    def map(self, function, *args, n_jobs=1, add=False):
        return [function(self, *args)]

    map_inplace = map


def row_blocks(X, target, weight, threads):
    """Rows as one block, or one per thread if solvers/rows is beside this file; a context."""
    if threads > 1 and __package__:
        with suppress(ImportError):
            return import_module(".rows", __package__).ThreadBlocks(X, target, weight, threads)
    return nullcontext(SingleBlock(X, target, weight))


# <<< shared: rows


# >>> shared: nested 3
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
        """Parameters by name; deep: also a__b of an estimator a, and a__0__b of a list a."""
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
            name, _, rest = path.partition("__")
            members = _estimators(old := getattr(self, name, None))
            place, _, inner = ("", "", rest) if "" in members else rest.partition("__")
            is_known = name in self._defaults() and (not rest or place in members)
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


# >>> shared: members 4
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
RULE_TYPES[SIGNS] = lambda v: v is None or np.ndim(v) == 1 and {*np.ravel(v)} <= {-1, 0, 1}
LOSSES_OF_CLASSES = "one of 'log', 'exponential', 'squared', 'hinge' or a function"
LOSSES_OF_NUMBERS = "one of 'squared', 'huber', 'absolute' or a function"
# Model files store no functions: a loss that was one is None there. fit refuses it, predict works.
for _rule in (LOSSES_OF_CLASSES, LOSSES_OF_NUMBERS):
    _names = re.findall(r"'(\w+)'", _rule)
    RULE_TYPES[_rule] = lambda v, names=_names: v is None or callable(v) or v in names
MAX_LEVELS = 10  # Deeper trees grow on one thread: a level costs a pass over all rows.
MIN_CELLS_PER_THREAD = 400_000  # Cells of X that pay for starting a thread.
FLATTEST = 1e-10  # Minimum curvature for objects, as a fraction of the largest: -g / h is bounded.


class _Boosted(_Nested):
    """Base of the classifier and the regressor, which differ in the meaning of y."""

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
        """Train on X (n, d) and y (n,), or on row blocks; sample_weight multiplies the loss."""
        self._check_params()
        if hasattr(X, "fit_model"):  # Row blocks, see solvers/rows.
            return X.fit_model(self, y, sample_weight)
        rng, held_out = np.random.default_rng(self._seed()), None
        X, y, weight = self._check_fit(X, y, sample_weight)
        is_weighted, n_columns = self._is_weighted(sample_weight), self._check_features()
        if not weight.all():  # No row of weight 0 may place a threshold.
            X, y, weight = (array[weight > 0] for array in (X, y, weight))
        if self.early_stopping:
            X, y, weight, held_out = self._hold_out(X, y, weight, rng)
        with row_blocks(X, y, weight, self._n_threads(X, n_columns)) as blocks:
            return self._boost(blocks, n_columns, is_weighted, rng, held_out)

    def _boost(self, blocks, n_columns, is_weighted, rng, held_out=None):
        """Algorithm 2 on row blocks; returns self."""
        # Line 1: H_0, the best constant.
        start, delta = self._start(blocks)
        scores, unseen = self._score_rows(blocks, start, delta), None
        self._check_sums(scores)
        if self.early_stopping:
            unseen = self._score_rows(SingleBlock(*held_out), start, delta)
            unseen.blocks.node = np.arange(len(held_out[0]), dtype=np.int32)
        is_tree = isinstance(self.base, str)
        learner = self._tree_learner if is_tree else self._learner
        train, outputs = learner(scores, n_columns, is_weighted, rng)
        constant = np.zeros(1, dtype=NODE)
        constant["value"] = start
        members, weights = [constant], [1.0]
        self.trace_, self.validation_trace_ = [], []
        t, best, reason = 0, 0, ""
        while not reason:
            # Lines 3 to 5: the member h_t, fitted to the gradient at H_t-1.
            member, values, penalty, is_whole = train()
            # Lines 6 and 7: its weight alpha_t; H_t = H_t-1 + learning_rate alpha_t h_t.
            alpha = self.learning_rate * self._alpha(scores, values, penalty)
            members.append(member)
            weights.append(alpha)
            scores.update(values, alpha)
            t += 1

            # The loss there, and on the rows held out; stop if a rule says so.
            if unseen:
                unseen.update(outputs(member, held_out[0]), alpha)
                self.validation_trace_.append(unseen.mean_loss)
                best = int(np.argmin(self.validation_trace_)) + 1
            if self._report_iteration(t, scores.mean_loss, members, weights):
                reason = STOPPED
            elif is_whole and (alpha == 0.0 or len(member) == 1 or not values.any()):
                reason = NO_SPLIT if is_tree else NO_STEP  # The next one would be the same.
            elif min(scores.sum_g, scores.sum_second) < NO_SLOPE:
                reason = NO_SPLIT if is_tree else NO_STEP
            elif unseen and t - best >= self.n_iter_no_change:
                reason = ENOUGH
            elif t == self.n_estimators:
                reason = GROWN if is_tree else TRAINED
        best = best or t
        self._set_members(members[: best + 1], weights[: best + 1])
        self._set_fitted(best, reason)
        if scores.n_unbounded:
            self._warn_unbounded(scores.n_unbounded, t)
        return self

    def _required_setting(self):
        """Setting that fits from sums over rows require, as a text; None if there is none."""
        if not isinstance(self.base, str):
            return "base='tree'"
        if self.loss in PIECEWISE_LINEAR or callable(self.loss):
            return f"another loss, such as {self._smooth}"
        for name, value in (("subsample", 1.0), ("early_stopping", False)):
            if getattr(self, name) != value:
                return f"{name}={value}"
        return "max_bins of at most 256" if self.max_bins is None else None

    def _n_threads(self, X, n_columns):
        """Number of threads that pay for their start."""
        is_slow = self.max_leaf_nodes or n_columns < X.shape[1]
        is_slow = is_slow or self.max_depth is None or self.max_depth > MAX_LEVELS
        if is_slow or self._required_setting() not in (None, "early_stopping=False"):
            return 1
        return max(1, min(self._threads(), X.size // MIN_CELLS_PER_THREAD))

    def votes(self, X):
        """Output of every member, (n, T + 1); the first is the constant H_0."""
        return np.array([*self._each_output(self._check_X(X))]).T

    @property
    def _allow_nan(self):
        """Missing values pass the check of X: trees route them, a foreign object checks itself."""
        return isinstance(self.base, str) or getattr(self.base, "_allow_nan", True)

    def _check_params(self):
        super()._check_params()
        text = "loss is None, since model files store no functions; to fit, set_params(loss=...)"
        self._require(self.loss is not None or self.__sklearn_is_fitted__(), text)
        text = f"the {self.loss} loss has no curvature, order=2 needs one; set order=1, or take "
        is_valid = self.order == 1 or self.loss not in PIECEWISE_LINEAR
        self._require(is_valid, text + self._smooth)
        text = f"base must do regression, but {type(self.base).__name__} is a classifier"
        self._require(not _is_classifier(self.base), text)

    def _is_consistent(self, has):
        T, k = self.weights_.size, self.n_features_in_
        is_valid = T > 1 and has("weights_", (T,)) and check_trees(self.nodes_, self.starts_, k)
        if isinstance(self.base, str):
            return is_valid and self.starts_.size == T + 1 and not hasattr(self, "estimators_")
        if hasattr(self, "estimators_features_"):
            is_valid = is_valid and has("estimators_features_", (T - 1, None), below=k)
            k = self.estimators_features_.shape[1]
        is_valid = is_valid and self.starts_.size == 2 and len(self.estimators_) == T - 1
        return is_valid and all(
            member.n_features_in_ == k and not _is_classifier(member) for member in self.estimators_
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
        """Yield the output (n,) of the constant, then of each member."""
        one = np.ones(1)
        for t in range(self.starts_.size - 1):
            yield sum_trees(self.nodes_, self.starts_[t : t + 1], one, X, self._threads())
        columns = getattr(self, "estimators_features_", None)
        for t, member in enumerate(getattr(self, "estimators_", ())):
            yield self._output((member, None if columns is None else columns[t]), X)

    def _output(self, member, X):
        """Output (n,) of an object, given with its columns."""
        member, columns = member
        output = np.asarray(member.predict(X if columns is None else X[:, columns]))
        is_valid = output.shape == X.shape[:1] and output.dtype.kind in "biuf"
        text = f"predict of {type(member).__name__} must return a number below {MAX_ABS:g} for "
        text += f"each of {len(X)} rows, got "
        self._require(is_valid, f"{text}shape {output.shape}, dtype {output.dtype}")
        self._require((np.abs(output) < MAX_ABS).all(), f"{text}NaN or a larger one")
        return output.astype(np.float64)

    def _check_features(self):
        """Number of features to draw for a member; raise ValueError if a parameter does not fit."""
        d, monotone = self.n_features_in_, self.monotonic_cst
        count = d if self.max_features is None else self.max_features
        if monotone is not None:
            text = f"monotonic_cst must name a direction for each of {d} features, got "
            self._require(len(monotone) == d, f"{text}{len(monotone)}")
            text = "monotonic_cst is for trees; set base='tree' or leave it out"
            self._require(isinstance(self.base, str), text)
        text = f"max_features must be at most the number of features, {d}, got {count}"
        self._require(count <= d, text)
        return count if isinstance(count, (int, np.integer)) else max(1, round(count * d))

    def _score_rows(self, blocks, start, delta):
        """Scores of row blocks that all equal the constant `start`."""
        loss = hinge if self.loss == "hinge" else self.loss
        if callable(loss):
            adapted = _custom_loss(loss, self.order, self._require)
        else:
            adapted = LOSSES[loss], float(delta)
        has_curvature = self.order == 2 and loss != "huber"
        return _Scores(blocks, start, adapted, has_curvature, self._threads())

    def _search_start(self, blocks, start, delta):
        """The best constant, by a line search from `start`."""
        scores = self._score_rows(blocks, start, delta)
        slope = reproducible_total(partial(blocks.map, n_jobs=self._threads()), attrgetter("G"))
        side = 1.0 if slope < 0 else -1.0
        return start + side * scores.line_search(np.full(1, side), 0.0)

    def _hold_out(self, X, y, weight, rng):
        """Split off rows of each class: X, y, weight to train on, and a list of those held out."""
        has_classes = self._estimator_type == "classifier"
        labels = y if has_classes else np.zeros(y.size)
        held_out = np.zeros(y.size, dtype=bool)
        for label in np.unique(labels):
            rows = np.flatnonzero(labels == label)
            text = f"early_stopping needs two rows or more{' of each class' * has_classes}, got "
            self._require(rows.size > 1, f"{text}{rows.size}; set early_stopping=False")
            count = min(max(1, round(self.validation_fraction * rows.size)), rows.size - 1)
            held_out[rng.permutation(rows)[:count]] = True
        train, test = ([array[rows] for array in (X, y, weight)] for rows in (~held_out, held_out))
        return *train, test

    def _drawn(self, n, d, n_columns, rng):
        """Features and rows drawn for a member; None means all."""
        columns, rows = None, None
        if n_columns < d:
            columns = np.sort(rng.choice(d, n_columns, replace=False))
        if self.subsample < 1:
            chosen, count = np.zeros(n, dtype=bool), max(1, round(self.subsample * n))
            chosen[rng.choice(n, count, replace=False, shuffle=False)] = True
            rows = np.flatnonzero(chosen)
        return columns, rows

    def _tree_learner(self, scores, n_columns, is_weighted, rng):
        """Return a function that trains a tree, and one that applies it to other rows.

        The first returns the tree, the values of the nodes of the rows, the penalty on its weight,
        and True if neither rows nor features were drawn.
        """
        monotone, blocks = self.monotonic_cst, scores.blocks
        params = TreeParams(
            max_depth=self.max_depth, min_leaf=self.min_samples_leaf,
            max_leaves=self.max_leaf_nodes, l2=0.0,
            monotone=None if monotone is None else np.array(monotone, dtype=np.int64),
        )  # fmt: skip
        of_classes = callable(self.loss) and self._estimator_type == "classifier"
        has_penalty = self.order == 1 and (of_classes or self.loss in UNBOUNDED)
        is_single = isinstance(blocks, SingleBlock)
        if is_single:
            X, weight = blocks.X, blocks.weight if is_weighted else None
            grower = TreeGrower(X, self.max_bins, params, weight)
            blocks.grad_hess = grower.data.grad_hess
        else:
            weigh = ("weight", grid_constant(scores.weight)) if is_weighted else (None, 0.0)
            grower = blocks.grower(self.max_bins, params, weigh, self._threads())

        def train():
            columns = rows = None
            if is_single:
                columns, rows = self._drawn(*blocks.shape, n_columns, rng)
            own = grower
            if columns is not None:
                own = fork_grower(grower, columns)
                own.data = own.data._replace(grad_hess=blocks.grad_hess)
            tree, penalty = self._tree(own, rows, scores), 0.0
            values = tree["value"].copy()
            if has_penalty:
                leaves = values[tree["child"] == 0]
                penalty = self.l2 * float(leaves @ leaves)
            if rows is not None:
                values, blocks.node = _outputs(tree, X), np.arange(len(X), dtype=np.int32)
            elif is_single:
                blocks.node = own.buffers.leaf
            elif len(values) > 1:
                values = values[grower.place]
            return tree, values, penalty, columns is None and rows is None

        return train, _outputs

    def _learner(self, scores, n_columns, is_weighted, rng):
        """`_tree_learner` for copies of an object, which come with their columns.

        They are fitted to -G / H by least squares with weights H.
        """
        instead = ("set order=1",) if scores.has_curvature else ()
        block, X = scores.blocks, scores.blocks.X
        block.node = np.arange(len(X), dtype=np.int32)

        def train():
            columns, rows = self._drawn(*X.shape, n_columns, rng)
            rows_used = slice(None) if rows is None else rows
            H = (block.H if scores.has_curvature else block.weight)[rows_used].copy()
            flat = FLATTEST * H.max() if scores.has_curvature else 0.0
            r = -block.G[rows_used] / np.maximum(H, flat or NO_SLOPE)
            weight = H if scores.has_curvature or is_weighted else None
            Z = X[rows_used] if columns is None else X[rows_used][:, columns]
            member = fit_member(seeded_copy(self.base, rng), Z, r, weight, *instead), columns
            return member, self._output(member, X), 0.0, columns is None and rows is None

        return train, self._output

    def _tree(self, grower, rows, scores):
        """Grow and finalize the tree of a round."""
        unit_g = grower.unit(max(scores.sum_g, NO_SLOPE))
        unit_h = grower.unit(scores.sum_second)
        count_bits = grower.data.count_bits
        least = self.min_child_weight * unit_h * (1.0 - UNIT_ERROR)
        grower.params = grower.params._replace(
            l2=float(self.l2 * unit_h), min_weight=int(min(max(1.0, least), grower.full))
        )
        fill = scores.has_curvature, unit_g, unit_h, count_bits
        if not isinstance(scores.blocks, SingleBlock):
            nodes = grower.grow(_fill_block, *fill)
        else:
            _fill_block(scores.blocks, *fill)
            nodes = grower.grow(rows)
        weight = nodes["h"][0] >> count_bits
        if weight == 0:  # The derivatives of the sample vanish.
            return np.zeros(1, dtype=NODE)
        tree, _ = grower.finalize([nodes])
        tree["value"] *= unit_h / unit_g
        tree["gain"] *= weight * unit_h / unit_g / unit_g
        if self.loss in PIECEWISE_LINEAR:
            self._search_leaves(tree, slice(None) if rows is None else rows, grower, scores)
        return tree

    def _alpha(self, scores, values, penalty):
        """Weight of a member before the learning rate; for order 1 that of least loss."""
        if self.order == 2:
            return 1.0
        if self.loss not in PIECEWISE_LINEAR:
            return scores.line_search(values, penalty)
        if isinstance(self.base, str):
            return 1.0  # Each leaf has the value of least loss.
        F, _, _, y, w = _scored(scores.blocks)
        return max(0.0, _best_step(self.loss, F, y, w, values[scores.blocks.node]))

    def _search_leaves(self, tree, rows, grower, scores):
        """Give each leaf the value of least loss on the rows."""
        leaf = grower.buffers.leaf[rows]
        rank = np.argsort(leaf, kind="stable")
        leaf, (F, _, _, y, w) = leaf[rank], (x[rows][rank] for x in _scored(scores.blocks))
        ends = [0, *np.flatnonzero(np.diff(leaf)) + 1, leaf.size]
        for start, stop in zip(ends[:-1], ends[1:], strict=True):
            inside = F[start:stop], y[start:stop], w[start:stop], np.ones(stop - start)
            tree["value"][leaf[start]] = _best_step(self.loss, *inside)
        if self.monotonic_cst is not None:
            signs = np.asarray(self.monotonic_cst)[tree["feature"]]
            _clip_to_monotone(tree, signs, np.bincount(leaf, round_to_grid(w), len(tree)))

    def _check_sums(self, scores):
        """Raise ValueError if the loss overflows; warn if no leaf can reach min_child_weight."""
        least, total = self.min_child_weight, scores.sum_second
        is_finite = np.isfinite([scores.mean_loss, scores.sum_g, total]).all()
        self._require(is_finite, "the loss overflows; scale y or sample_weight down")
        text = "order=2 needs a curvature, but loss returns 0 for all rows; set order=1"
        self._require(total > 0.0, text)
        if total < 2.0 * least and isinstance(self.base, str):
            text = f"{type(self).__name__}: no tree can have a split: all rows together weigh "
            text += f"{total:.3g} (second derivatives times sample_weight), less than two leaves "
            text += f"of min_child_weight={least:g}; lower it, or scale sample_weight up"
            warnings.warn(text, stacklevel=4)

    def _warn_unbounded(self, count, t):
        """Warn that the best weight of some members is infinite."""
        text = f"{type(self).__name__}: the best step is infinite in {count} of {t} rounds, since "
        if isinstance(self.base, str) and self._estimator_type == "classifier":
            text += "a tree separates the classes without error; set l2 above 0, or order=2"
        else:
            text += "the loss has no minimum along a member; take a weaker base, or order=2"
        warnings.warn(text, ConvergenceWarning, stacklevel=4)

    def _set_members(self, members, weights):
        """Set the members and their weights, all or those so far; the first is the constant."""
        is_tree = isinstance(self.base, str)
        self.nodes_, self.starts_ = join_trees(members if is_tree else members[:1])
        self.weights_ = np.array(weights)
        if not is_tree:
            objects, columns = zip(*members[1:], strict=True)
            self.estimators_ = list(objects)
            if columns[0] is not None:
                self.estimators_features_ = np.array(columns)

    def _set_fitted(self, t, reason):
        """Set the attributes of a fit that keeps the first t members."""
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

    def _report_iteration(self, t, objective, members, weights):
        """Report a round, with the model so far for the callback; True if it asks to stop."""
        held_out = {"validation": self.validation_trace_[-1]} if self.validation_trace_ else {}
        if self.callback is not None:
            self._set_members(members, weights)
            self.converged_ = False
        return self._report(t, objective, **held_out)


def _is_classifier(member):
    """Return True if a member declares itself a classifier."""
    kind = getattr(member, "_estimator_type", None)
    if kind is None and hasattr(member, "__sklearn_tags__"):
        kind = member.__sklearn_tags__().estimator_type
    return kind == "classifier"


def _clip_to_monotone(tree, signs, weight):
    """Clip leaf values to the monotonicity constraints signs (nodes,); weight (nodes,) of leaves.

    Values left and right of a constrained split are separated at the middle of their means.
    """
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


def _outputs(tree, X):
    """Value of one tree for each row."""
    return sum_trees(tree, np.zeros(1, dtype=np.int64), np.ones(1), X)


class _OfProbabilities:
    """Method that a classifier has if its loss yields probabilities."""

    def __init__(self, method):
        self.method = method
        update_wrapper(self, method)

    def __get__(self, model, kind=None):
        if model is not None and model.loss not in (*UNBOUNDED, "squared"):
            text = "this loss yields no probabilities; Calibrated of solvers/combine.py does"
            raise AttributeError(f"{kind.__name__}: {text}")
        return self.method.__get__(model, kind)


class GradientBoosting(_Boosted):
    """Gradient boosting of trees, or of any regressor, for two classes.

    Use it for many rows of unknown structure.

    Parameters
    ----------
    loss : "log", "exponential", "squared", "hinge" or callable
        Loss to minimise; "hinge" has no curvature and needs order=1. A callable is called as
        loss(y, f) with y (n,) of -1 and +1 and scores f (n,). It returns a tuple of arrays (n,):
        the value of each row, the gradient in f and, for order=2, the curvature, which is the
        second derivative or an upper bound of it, >= 0. It is called once per round and, with
        order=1, by the line search. Row weights are applied afterwards.
    order : 1 or 2
        2: members take Newton steps, as in XGBoost. 1: members are fitted to the gradient, and a
        line search finds the weight of each.
    base : "tree" or an object with fit and predict
        Kind of the members. An object is a regressor, such as scikit-learn's Ridge or
        DecisionTreeRegressor. It is copied for each member, its random_state set if it has one, and
        gets sample_weight with order=2. The limits of trees then have no effect: max_depth,
        max_leaf_nodes, min_samples_leaf, min_child_weight, max_bins, l2.
    n_estimators : int >= 1
        Number of members; with early stopping the maximum number.
    learning_rate : float > 0
        Fraction of each step that is taken.
    max_depth : None or int >= 1
        Maximum depth of a tree.
    max_leaf_nodes : None or int >= 2
        Maximum number of leaves; the splits of the highest gain come first.
    min_samples_leaf : int >= 1
        Minimum number of rows in a leaf, whatever their weights.
    min_child_weight : float >= 0
        Minimum sum of the second derivatives times row weights in a leaf; with order=1, of the row
        weights alone.
    max_bins : None or int from 2 to 256
        Maximum number of bins per feature: splits are exact if it has no more values. None: always
        exact.
    l2 : float >= 0
        Penalty on the squared values of the leaves; not used by the absolute and hinge losses.
    subsample : float in (0, 1]
        Fraction of the rows to draw for each member.
    max_features : None, float in (0, 1] or int >= 1
        Fraction or number of features to draw for each member; None means all.
    early_stopping : bool
        If True, hold out rows and keep the number of members with the least loss there.
    validation_fraction : float in (0, 1)
        Fraction of the rows to hold out.
    n_iter_no_change : int >= 1
        Number of rounds without a lower loss there after which the run ends.
    monotonic_cst : None or list of -1, 0, 1
        Monotonicity constraint of each feature: the score may only rise (1) or only fall (-1).
    class_weight : None, "balanced" or dict
        Factor per class, multiplied into sample_weight. "balanced" gives all classes the same total
        weight.
    n_jobs : None or int
        Maximum number of threads, for trees of up to 10 levels and for prediction; None means 1, -1
        all processors. Small data use fewer. Trees do not depend on it.
    random_state : None, int, RandomState or Generator
        Seed of the draws. Unless rows are drawn, by subsample or early_stopping, trees are the same
        to the last bit in any order of up to 100,000 rows.
    verbose : int
        If 1, print one line after every round.
    callback : None or callable
        Called as callback(self, iteration, info) after every round; True stops. The model then has
        the members so far: it can predict.

    Attributes
    ----------
    nodes_, starts_ : nodes of all trees; those of tree t begin at starts_[t]; tree 0 is the
        constant H_0
    estimators_ : list of the members instead, if base is an object; then tree 0 is the only one
    estimators_features_ (T, k) : features of each of these, if they were drawn
    weights_ (T + 1,) : 1 for the constant, learning_rate * alpha_t for the others
    feature_importances_ (d,) : gains of the splits on a feature, sum 1; trees only
    objective_, trace_ : weighted mean loss of the training rows, at the end and after each round
    validation_trace_ : mean loss of the rows held out after each round, with early stopping
    residual_ : None: nothing certifies a greedy method
    n_iter_ : number of rounds kept
    converged_, reason_ : True if the run ended regularly, and why it ended
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = GradientBoosting(early_stopping=True, random_state=0).fit(X, y)
    >>> model.score(X_test, y_test), model.n_iter_, model.reason_

    A custom loss, here the squared hinge:

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

    def _start(self, blocks):
        """The best constant, and 1 for delta, which no loss here has."""
        each = partial(blocks.map, n_jobs=self._threads())
        high, low = (
            reproducible_total(each, partial(_class_weights, sign=sign)) for sign in (1.0, -1.0)
        )
        if callable(self.loss):
            return self._search_start(blocks, 0.0, 1.0), 1.0
        if self.loss == "hinge":
            y, zeros = blocks.target, np.zeros(blocks.target.size)
            return _best_step(self.loss, zeros, y, blocks.weight, zeros + 1.0), 1.0
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
        """Probabilities of both classes, (n, 2); not for hinge or a custom loss."""
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
    """Gradient boosting for numbers; parameters and attributes as in GradientBoosting.

    Use it for numeric targets, many rows of unknown structure.

    Parameters
    ----------
    loss : "squared", "huber", "absolute" or callable
        Loss to minimise; "absolute" has no curvature and needs order=1. A callable as in
        GradientBoosting, called with the numbers y.
    delta : None or float > 0
        Difference to y from which on Huber's loss is linear. None means the median of the nonzero
        differences of y to its median. With order=2 no step is longer than delta.
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

    def _start(self, blocks):
        """The best constant, and delta; for huber and functions by a search from the median."""
        each = partial(blocks.map, n_jobs=self._threads())
        if self.loss == "squared":
            total = reproducible_total(each, lambda block: block.weight * block.target)
            return total / reproducible_total(each, attrgetter("weight")), 1.0
        arrays = zip(*each(attrgetter("target", "weight")), strict=True)
        y, weight = map(np.concatenate, arrays)
        start = _median(y, weight)
        if self.loss == "absolute":
            return start, 1.0
        if callable(self.loss):
            return self._search_start(blocks, start, 1.0), 1.0
        rest = np.abs(y - start)
        off = rest > 0.0  # Many rows may be at the median, and delta must be above 0.
        middle = _median(rest[off], weight[off]) if off.any() else 1.0
        self.delta_ = float(middle if self.delta is None else self.delta)
        return self._search_start(blocks, start, self.delta_), self.delta_

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

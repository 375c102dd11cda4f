"""Bagging: a vote, or mean, of members trained on samples of the rows, and perhaps of the features.

Problem   Members 1 .. T are trained independently, member t on a sample S_t of the n rows; each has
          one vote:

    H(x) = sgn( 1/T sum_t h_t(x) )                             h_t(x) in {-1, +1}, soft: in [-1, 1]

    H_oob(x_i) = sgn( mean of h_t(x_i) over the t with row i not in S_t )          out of bag, (9)
    E_oob      = fraction of rows with H_oob(x_i) != y_i                                      (10)

          For numbers y, H and H_oob are the means, and R^2 takes the place of (10).

Method    S_t: n draws with replacement, which leave out 36.8 % of the rows, or fewer draws, or a
          subset of the rows. Features may be drawn for each member (random subspaces), or anew at
          each split of a tree (random forest). Members are trees on binned features, or any object
          with fit and predict. A level of a tree costs O(n d), with k features drawn O(n k). The
          objective is the error on the training rows, which nothing minimises: there is no
          residual. Members may differ further in their outputs: each label is drawn anew with
          probability r, from all labels, so that the expected sizes of the classes stay (flip: a
          row of a class of fraction q changes with probability r (1 - q)); or the classes, as
          numbers -1 and +1, get Gaussian noise, and the outputs of regressions are averaged
          (smear). Members may differ in their parameters, drawn from lists (perturb). A regression
          tree is one of second order, as in gradient boosting, with G = -w y, H = w: a leaf is the
          mean -G / H of its rows, and a split lowers the sum of squares.
Reference Zhang, "Ensemble learning" (a chapter of lecture notes), section 2. Breiman, "Bagging
          Predictors", Machine Learning 1996; "Random Forests", 2001. Ho, "The Random Subspace
          Method for Constructing Decision Forests", TPAMI 1998. Breiman, "Randomizing Outputs to
          Increase Prediction Accuracy", Machine Learning 2000.
Departs   Rows in all samples have no out-of-bag vote: NaN, left out of (10). A sample with one
          class only is drawn again, at most TRIES times. sgn(0) = +1. sample_weight, class_weight:
          rows are drawn in proportion to them; without replacement, each row is equally likely, and
          they are passed on to the members. In (10) they weigh the rows. Breiman's flip rate f is
          2 r q (1 - q) here: any r from 0 to 1 is possible, whatever the sizes of the classes. He
          changes the outputs of all rows, and draws no samples: bootstrap=False. One number stands
          for two classes, in place of an indicator of each.
Symbols   chapter    here        meaning                                        shape
          D~_t       counts      number of draws of each row for member t       (n,)
          h_t        vote        vote of one member                             (n,)
          H          total       sum of the votes of the members so far         (n,)
          (9)        outside     sum of the votes out of bag                    (n,)
Use       m = Bagging(oob_score=True).fit(X, y); m.predict(X); m.oob_score_
          forest = Bagging(n_estimators=100, max_features="sqrt")
          smeared = Bagging(outputs="smear", voting="soft", bootstrap=False)
          BaggingRegressor(perturb={"max_depth": [4, 8, None]}).fit(X, numbers)
Origin    ensolve, solvers/bagging.py, MIT licence
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
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial, wraps
from typing import NamedTuple

import numpy as np
from numba import njit

TRIES = 10  # Samples drawn at most to obtain both classes.


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


# -- samples ------------------------------------------------------------------------------------
def _bootstrap_counts(weight, y, m, bootstrap, rng):
    """Number of draws of each row in a sample of m rows, (n,).

    Draws again, at most TRIES times, while one of the classes is missing.
    """
    is_equal = weight.min() == weight.max()
    for _ in range(TRIES):
        if not bootstrap:
            rows = rng.choice(np.flatnonzero(weight), m, replace=False, shuffle=False)
        elif is_equal:
            rows = rng.integers(y.size, size=m)
        else:
            ends = np.cumsum(weight)
            points = np.sort(rng.random(m)) * ends[-1]  # Sorted: searchsorted takes a third.
            rows = np.searchsorted(ends, points, side="right")
        counts = np.bincount(rows, minlength=y.size)
        if abs(counts.astype(np.float64) @ y) < m:
            break
    return counts


@jit(nogil=True)
def _fill_classes(counts, weight, y, unit, drawn, count_bits, grad_hess):
    """Fill grad_hess (n, 2) for classification trees.

    Weights are the numbers of draws, or else the rows' own in integer units.
    """
    for i in range(counts.size):
        w = counts[i]
        if w > 0 and not drawn:
            w = np.int64(weight[i] * unit + 0.5)
        grad_hess[i, 0] = -w if y[i] > 0.0 else w
        grad_hess[i, 1] = (w << count_bits) + (w if drawn else np.int64(w > 0))


@jit(nogil=True)
def _fill_numbers(counts, weight, scaled, unit, count_bits, grad_hess):
    """Fill grad_hess (n, 2) for regression trees, with weight (n,) in integer units.

    scaled (n,) are the outputs in units of 2^-SUM_BITS of their sum.
    """
    for i in range(counts.size):
        w = np.int64(weight[i] * unit + 0.5)
        g = weight[i] * scaled[i] if w > 0 else 0.0
        grad_hess[i, 0] = -np.int64(g + math.copysign(0.5, g))
        grad_hess[i, 1] = (w << count_bits) + (counts[i] if w > 0 else 0)


@jit(nogil=True)
def _vote_of_tree(nodes, values, leaf, counts, by_feature, n_bins, sample_indices, spare, vote):
    """Overwrite vote (n,) with the value of each row's leaf.

    Rows of the sample take theirs from `leaf`. The others are partitioned at each node, as in
    `_grow`: less than half the time of a walk per row.
    """
    m = 0
    for i in range(counts.size):
        vote[i] = values[leaf[i] if counts[i] > 0 else 0]
        sample_indices[m] = i
        m += counts[i] == 0
    nodes[0].start, nodes[0].stop = 0, m
    for k in range(nodes.size):
        node = nodes[k]
        if node.is_pruned:
            continue
        if node.is_leaf:
            for a in range(node.start, node.stop):
                vote[sample_indices[a]] = values[k]
            continue
        middle = _partition(by_feature, sample_indices, spare, node, n_bins[node.feature])
        left, right = nodes[node.child], nodes[node.child + 1]
        left.start, right.stop = node.start, node.stop
        left.stop = right.start = middle


@jit(nogil=True)
def _center_splits(nodes, by_feature, n_bins, sample_indices):
    """Move each split of a regression tree to the middle of the bins that are empty in its node,
    as in classification trees."""
    for k in range(nodes.size):
        node = nodes[k]
        if node.is_leaf:
            continue
        left, right = -1, n_bins[node.feature]  # The bin of missing values.
        for a in range(node.start, node.stop):
            b = np.int64(by_feature[sample_indices[a], node.feature])
            if b <= node.split_bin:
                left = max(left, b)
            else:
                right = min(right, b)
        if right < n_bins[node.feature]:
            node.split_bin = max(left, (left + right - 1) >> 1)


# -- randomised outputs -------------------------------------------------------------------------
def _flip(y, weight, counts, rate, rng):
    """Labels (n,), of which a fraction is drawn anew, +1 in proportion to its weight.

    Draws again, at most TRIES times, while the sample has one class only.
    """
    positive = weight[y > 0].sum() / weight.sum()
    for _ in range(TRIES):
        is_new = rng.random(y.size) < rate
        labels = np.where(rng.random(y.size) < positive, 1.0, -1.0)
        labels = np.where(is_new, labels, y)
        if abs(counts.astype(np.float64) @ labels) < counts.sum():
            break
    return labels


def _smear(y, weight, scale, rng):
    """Outputs plus Gaussian noise of `scale` times their standard deviation, (n,)."""
    fraction = weight / weight.sum()
    deviation = math.sqrt(fraction @ (y - fraction @ y) ** 2)
    return y + scale * deviation * rng.standard_normal(y.size)


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


# >>> shared: prune 1
Z_SQUARED = 0.454936  # Squared normal quantile at 25 %, the confidence level of C4.5's pruning.


def _pessimistic(wrong, weight):
    """C4.5's estimate of a leaf's errors on new rows, the upper end of a 25 % confidence interval.

    It is exact for no errors, the normal approximation from 1 on, and linear in between.
    """
    many = np.maximum(wrong, 1.0)
    half = np.minimum(many + 0.5, weight)
    spread = np.sqrt(Z_SQUARED * (half * (1.0 - half / weight) + 0.25 * Z_SQUARED))
    normal = weight * (half + 0.5 * Z_SQUARED + spread) / (weight + Z_SQUARED)
    many = np.where(half < weight, normal, many + 0.67 * (weight - many))
    none = weight * (1.0 - 0.25 ** (1.0 / weight))
    return np.where(wrong >= 1.0, many, none + wrong * (many - none))


def prune(nodes, count_bits):
    """Replace each subtree by a leaf if the leaf has no more errors by C4.5's estimate.

    The nodes below are marked as pruned and take its sums, since rows still refer to them.
    """
    weight = (nodes["h"] >> count_bits).astype(np.float64)
    rows = (nodes["h"][0] & ((1 << count_bits) - 1)) / weight[0]  # Rows per unit of weight.
    errors = _pessimistic(0.5 * rows * (weight - np.abs(nodes["g"])), rows * weight).tolist()
    names = "g", "h", "child", "is_leaf", "is_pruned"
    g, h, child, is_leaf, is_pruned = (nodes[name].tolist() for name in names)
    for k in range(len(nodes) - 1, -1, -1):  # Children come after their parents.
        if not is_leaf[k]:
            below = errors[child[k]] + errors[child[k] + 1]
            is_leaf[k], errors[k] = errors[k] <= below, min(errors[k], below)
    for k in range(len(nodes)):
        if is_leaf[k] and child[k]:
            for c in (child[k], child[k] + 1):
                g[c], h[c], is_leaf[c], is_pruned[c] = g[k], h[k], 1, 1
    nodes["g"], nodes["h"], nodes["is_leaf"], nodes["is_pruned"] = g, h, is_leaf, is_pruned


# <<< shared: prune


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
TRAINED = "all members were trained"
STOPPED = "the callback stopped it"
MIN_CELLS_PER_MEMBER = 100_000  # Cells of X from which on members are trained on threads.
NOISE = {"flip": 0.2, "smear": 1.0}  # The values of noise=None.
OF_TREES = (  # Parameters that may differ from tree to tree; the last three are not for stumps.
    "max_features", "criterion", "min_samples_leaf", "min_impurity_decrease", "max_depth",
    "max_leaf_nodes", "prune",
)  # fmt: skip
CHOICES = "None or a dict from parameter to a list of values"
RULE_TYPES[CHOICES] = lambda v: v is None or all(_is_choice(*pair) for pair in v.items())


def _is_choice(name, values):
    """Return True if `name` is a text and `values` a non-empty list."""
    is_list = isinstance(values, (list, tuple)) or type(values) is np.ndarray and values.ndim == 1
    return isinstance(name, str) and is_list and len(values) > 0


def _is_classifier(member):
    """Return True if a member declares itself a classifier."""
    kind = getattr(member, "_estimator_type", None)
    if kind is None and hasattr(member, "__sklearn_tags__"):
        kind = member.__sklearn_tags__().estimator_type
    return kind == "classifier"


class _Bagged(_Nested):
    """Base of the classifier and the regressor, which differ in the meaning of y."""

    _param_rules = {
        "base": "'tree', 'stump' or an object with fit and predict",
        "n_estimators": "an integer >= 1",
        "max_samples": "an integer from 1 to 2147483647 or a share > 0 and <= 1",
        "max_features": "None, 'sqrt', 'log2', an integer >= 1 or a share > 0 and <= 1",
        "per_split": "True or False",
        "bootstrap": "True or False",
        "oob_score": "True or False",
        "noise": "None or a finite number >= 0",
        "perturb": CHOICES,
        "min_impurity_decrease": "a finite number >= 0",
        **TREE_LIMITS,
    }

    @restore_on_failure
    def fit(self, X, y, sample_weight=None):
        """Train on X (n, d) and y (n,): two classes or, in the regressor, numbers.

        With bootstrap, rows are drawn in proportion to sample_weight.
        """
        self._check_params()
        X, y, weight = self._check_fit(X, y, sample_weight)
        n = y.size
        self.n_rows_, self.seed_ = n, self._seed()
        is_weighted, is_tree = self._is_weighted(sample_weight), isinstance(self.base, str)
        train = (self._tree_learner if is_tree else self._learner)(X, y, weight, is_weighted)
        total, outside, n_outside = np.zeros(n), np.zeros(n), np.zeros(n, dtype=np.int32)
        rounded, trained = round_to_grid(weight), []  # Members, columns, parameters.
        reason, self.trace_ = TRAINED, []
        for *member, vote, counts in self._each(train, self.n_estimators, self._n_threads(X)):
            # Add one member, in order, to the votes on the training rows and to (9).
            trained.append(member)
            total += vote
            if self.oob_score:
                outside += np.where(counts == 0, vote, 0.0)
                n_outside += counts == 0

            # Report the training error.
            if self.callback is not None:
                self._set_members(trained)
                self.converged_ = False
            if self._report(len(trained), self._loss(total, len(trained), y, rounded)):
                reason = STOPPED
                break
        self._set_members(trained)
        self.trace_, self.residual_ = np.array(self.trace_), None
        self.converged_, self.reason_ = reason == TRAINED, reason
        if is_tree:
            self.feature_importances_ = self._importances()
        if self.oob_score:
            self._set_oob(outside, n_outside, y, weight)
        return self

    def _check_params(self):
        super()._check_params()
        text = f"noise={self.noise!r} is for members with outputs of their own; set outputs to "
        text += self._param_rules["outputs"].removeprefix("None, ")
        self._require(self.noise is None or self.outputs is not None, text)
        text = f"members have to learn numbers here, and {type(self.base).__name__} is a classifier"
        is_valid = not self._is_regression() or not _is_classifier(self.base)
        self._require(is_valid, f"{text}; choose a regressor as base")

        # Perturb names parameters of the members, and for trees their values are checked.
        is_tree = isinstance(self.base, str)
        known = self._tree_params() if is_tree else []
        if hasattr(self.base, "get_params"):
            known = list(self.base.get_params())
        for name, values in (self.perturb or {}).items():
            text = f"perturb names {name!r}; the members have these parameters of their own: "
            self._require(name in known, text + (", ".join(known) or "none"))
            for value in values if is_tree else ():
                rule = self._param_rules[name]
                text = f"perturb: {name} must be {rule}, got {value!r}"
                self._require(satisfies(value, rule), text)

    def _tree_params(self):
        """Names of the parameters that perturb may draw for trees."""
        names = OF_TREES[: 4 if self.base == "stump" else None]
        unused = set() if self.per_split else {"max_features"}
        unused |= {"criterion", "prune"} if self._is_regression() else set()
        return [name for name in names if name not in unused]

    @property
    def _allow_nan(self):
        """Missing values pass the check of X: trees route them, a foreign object checks itself."""
        return isinstance(self.base, str) or getattr(self.base, "_allow_nan", True)

    def samples(self, t, y, sample_weight=None):
        """Number of draws of each row for member t, (n,), given the y and sample_weight of fit.

        It is drawn again from the seed: a model stores no rows.
        """
        text = "this instance is not fitted yet; call fit first"
        self._require(self.__sklearn_is_fitted__(), text)
        T = self.weights_.size
        self._require(0 <= t < T, f"there is no member {t}, only 0 to {T - 1}")
        signs, weight = self._signs_again(y, sample_weight)
        m = self._n_sampled(weight)
        return _bootstrap_counts(weight, signs, m, self.bootstrap, self._rng(t))

    def votes(self, X):
        """Vote of every member, (n, T): in [-1, 1], or a number in regression."""
        return np.stack([*self._each_vote(self._check_X(X))], axis=1)

    def _mean_vote(self, X):
        X, T = self._check_X(X), self.weights_.size
        if hasattr(self, "estimators_"):
            return sum(self._each_vote(X)) / T  # Not votes @ weights_: a tie has to be 0.
        return sum_trees(self.nodes_, self.starts_[:-1], np.ones(T), X, self._threads()) / T

    def _is_consistent(self, has):
        T, k = self.weights_.size, self.n_features_in_
        is_valid = T > 0 and has("weights_", (T,))
        if isinstance(self.base, str):
            is_valid = is_valid and check_trees(self.nodes_, self.starts_, k)
            return is_valid and self.starts_.size == T + 1 and not hasattr(self, "estimators_")
        if hasattr(self, "estimators_features_"):
            is_valid = is_valid and has("estimators_features_", (T, None), below=k)
            k = self.estimators_features_.shape[1]
        is_valid = is_valid and len(self.estimators_) == T
        is_valid = is_valid and all(member.n_features_in_ == k for member in self.estimators_)
        return is_valid and (
            self._is_regression()
            or all({*member.classes_} <= {*self.classes_} for member in self.estimators_)
        )

    def _n_sampled(self, weight):
        """Number of rows in a sample."""
        n, m = np.count_nonzero(weight), self.max_samples
        m = int(m) if isinstance(m, (int, np.integer)) else max(1, round(m * n))
        text = f"max_samples must be at most the number of rows (of weight > 0), {n}, got {m}; set "
        self._require(m <= n or self.bootstrap, f"{text}bootstrap=True to draw rows repeatedly")
        text = "oob_score needs rows outside the samples; set bootstrap=True or a smaller "
        self._require(m != n or self.bootstrap or not self.oob_score, f"{text}max_samples")
        return m

    def _n_features(self, d, k):
        """Number of features drawn if max_features is k."""
        k = d if k is None else k
        if isinstance(k, str):
            return max(1, int(math.sqrt(d) if k == "sqrt" else math.log2(d)))
        k = k if isinstance(k, (int, np.integer)) else max(1, int(k * d))
        self._require(k <= d, f"max_features must be at most the number of features, {d}, got {k}")
        return k

    def _rng(self, t):
        """Generator of member t: draws its sample, features, outputs, parameters, then its seed."""
        return np.random.default_rng(np.random.SeedSequence(self.seed_, spawn_key=(t,)))

    def _target(self, y, weight, counts, rng):
        """Target of a member, (n,): y, or randomised outputs."""
        if self.outputs is None:
            return y
        noise = NOISE[self.outputs] if self.noise is None else self.noise
        if self.outputs == "flip":
            return _flip(y, weight, counts, noise, rng)
        return _smear(y, weight, noise, rng)

    def _draw_params(self, rng):
        """Draw the parameters of a member by name; None without perturb."""
        if self.perturb is None:
            return None
        drawn = {name: values[rng.integers(len(values))] for name, values in self.perturb.items()}
        return {k: v.item() if isinstance(v, np.generic) else v for k, v in drawn.items()}

    def _tree_growth(self, params, n, d):
        """TreeParams of these parameters, for n rows of d features."""
        depth = 1 if self.base == "stump" else params["max_depth"]
        return TreeParams(
            CRITERIA[params.get("criterion", "gini")], n if depth is None else min(depth, n),
            params["min_samples_leaf"], params["max_leaf_nodes"] or 0,
            float(params["min_impurity_decrease"]), l2=0.0 if self._is_regression() else None,
            n_drawn=self._n_features(d, params["max_features"]),
        )  # fmt: skip

    def _draw_member(self, t, y, weight, m, k, d):
        """Draw the sample, columns (None: all), targets and parameters of member t."""
        rng, columns = self._rng(t), None
        counts = _bootstrap_counts(weight, self._signs(y), m, self.bootstrap, rng)
        if k < d and not (self.per_split and isinstance(self.base, str)):
            columns = np.sort(rng.choice(d, k, replace=False))
        target, drawn = self._target(y, weight, counts, rng), self._draw_params(rng)
        return rng, counts, columns, target, drawn

    def _tree_learner(self, X, y, weight, is_weighted):
        """Return a function that trains tree t: t -> (nodes, columns, parameters, vote, counts)."""
        n, d = X.shape
        m, k = self._n_sampled(weight), self._n_features(d, self.max_features)
        widths = [self._n_features(d, v) for v in (self.perturb or {}).get("max_features", [k])]
        per_split = self.per_split and min(widths) < d
        given, is_regression = self.get_params(deep=False), self._is_regression()
        growth = self._tree_growth(given, n, d)
        if not per_split:
            growth = growth._replace(n_drawn=None)
        grower = TreeGrower(X, self.max_bins, growth, weight if is_weighted else None, m)
        growers = [grower] + [fork_grower(grower) for _ in range(self._n_threads(X) - 1)]
        is_drawn = self.bootstrap or weight.min() == weight.max()  # Weights are integers.

        def train(t):
            rng, counts, columns, target, drawn = self._draw_member(t, y, weight, m, k, d)
            params, parent = given, grower
            if drawn is not None:
                params, parent = given | drawn, copy.copy(grower)
                parent.params = self._tree_growth(params, n, d)
            is_common = columns is None and drawn is None
            own = growers.pop() if is_common else fork_grower(parent, columns)
            count_bits, buffers = own.data.count_bits, own.buffers
            start, scale = self._fill(own, counts, weight, target, is_drawn)
            if per_split:
                state, features = buffers.draws
                state[0] = rng.integers(1, 2**63)
                features.sort()  # Another tree permuted them.
            least = params["min_impurity_decrease"] * self._decrease
            if is_regression and least > 0 and scale > 0:  # In the units of the tree.
                own.params = own.params._replace(min_decrease=float(least / scale**2))
            nodes, vote = own.grow(np.flatnonzero(counts)), np.empty(n)
            binned = grower.data.by_feature, grower.data.n_bins_non_missing, buffers.sample_indices
            if not is_regression and params["prune"] and self.base != "stump":
                prune(nodes, count_bits)
            values = -nodes["g"] / (nodes["h"] >> count_bits)
            if is_regression:
                _center_splits(nodes, *binned)
                values = start + scale * values
            votes = self._leaf_votes(values)
            _vote_of_tree(nodes, votes, buffers.leaf, counts, *binned, buffers.spare, vote)
            if is_common:
                growers.append(own)
            tree = own.finalize([nodes])[0]
            if is_regression:
                tree["value"] = start + scale * tree["value"]
                tree["gain"] *= scale**2
            tree["value"] = self._leaf_votes(tree["value"])
            return tree, columns, drawn, vote, counts

        return train

    def _fill(self, grower, counts, weight, target, is_drawn):
        """Fill grad_hess of a grower; weights are the numbers of draws, or else the rows' own.

        Returns start and scale of the values: a leaf has the value start - scale * g / h.
        """
        data = grower.data
        unit = 1.0 if is_drawn else grower.unit(reproducible_sum(weight[counts > 0]))
        if not self._is_regression():
            args = counts, weight, target, unit, is_drawn, data.count_bits
            _fill_classes(*args, data.grad_hess)
            return 0.0, 1.0
        used = counts.astype(np.float64) if is_drawn else np.where(counts > 0, weight, 0.0)
        start = reproducible_sum(used * target) / reproducible_sum(used)
        rest = target - start
        total = reproducible_sum(used * np.abs(rest))
        with np.errstate(over="ignore"):  # On rows outside the sample.
            scaled = rest / total * 2.0**SUM_BITS if total > 0 else 0.0 * rest
        _fill_numbers(counts, used, scaled, unit, data.count_bits, data.grad_hess)
        return start, total * unit / 2.0**SUM_BITS

    def _learner(self, X, y, weight, is_weighted):
        """Return a function that trains a copy of an object on the labels, or numbers, as given:
        t -> (member, columns, parameters, vote, counts)."""
        d = X.shape[1]
        m, k = self._n_sampled(weight), self._n_features(d, self.max_features)

        def train(t):
            rng, counts, columns, target, drawn = self._draw_member(t, y, weight, m, k, d)
            if not self._is_regression():
                target = self.classes_[(target > 0).astype(np.intp)]
            member, rows = seeded_copy(self.base, rng), np.repeat(np.arange(y.size), counts)
            if drawn is not None:
                member.set_params(**drawn)
            passed = weight[rows] if is_weighted and not self.bootstrap else None
            fit_member(
                member, _columns_of(X[rows], columns), target[rows], passed, "set bootstrap=True"
            )
            vote = self._member_vote(member, _columns_of(X, columns))
            return member, columns, drawn, vote, counts

        return train

    def _numbers_of(self, member, X):
        """Prediction of a regressor, (n,)."""
        predicted = np.asarray(member.predict(X), dtype=np.float64)
        is_valid = predicted.shape in ((len(X),), (len(X), 1)) and np.isfinite(predicted).all()
        text = f"members have to predict a finite number for each row; {type(member).__name__} "
        self._require(is_valid, f"{text}returned an array of shape {predicted.shape}")
        return predicted.ravel()

    def _n_threads(self, X):
        """Number of threads that pay for their start."""
        return self._threads() if X.size >= MIN_CELLS_PER_MEMBER else 1

    def _each(self, work, T, n_jobs):
        """Yield work(0), work(1), ... in order; n_jobs threads run at most n_jobs ahead."""
        if n_jobs == 1:
            yield from map(work, range(T))
            return
        with ThreadPoolExecutor(n_jobs) as pool:
            jobs = deque()
            for t in range(T):
                jobs.append(pool.submit(work, t))
                if len(jobs) > n_jobs:
                    yield jobs.popleft().result()
            while jobs:
                yield jobs.popleft().result()

    def _each_vote(self, X):
        """Yield the vote (n,) of each member."""

        def vote(t):
            if not hasattr(self, "estimators_"):
                return sum_trees(self.nodes_, self.starts_[t : t + 1], np.ones(1), X)
            columns = getattr(self, "estimators_features_", None)
            columns = None if columns is None else columns[t]
            return self._member_vote(self.estimators_[t], _columns_of(X, columns))

        return self._each(vote, self.weights_.size, self._n_threads(X))

    def _set_members(self, trained):
        """Set the attributes of the members, all or those so far."""
        members, features, params = map(list, zip(*trained, strict=True))
        self.weights_ = np.full(len(members), 1.0 / len(members))
        if features[0] is not None:
            self.estimators_features_ = np.array(features)
        if self.perturb is not None:
            self.estimators_params_ = params
        if isinstance(self.base, str):
            self.nodes_, self.starts_ = join_trees(members)
        else:
            self.estimators_ = members

    def _importances(self):
        """Mean over the trees of each feature's fraction of the gains, (d,), of sum 1 or 0."""
        tree = np.repeat(np.arange(self.weights_.size), np.diff(self.starts_))
        gain = np.bincount(tree, self.nodes_["gain"])
        fraction = self.nodes_["gain"] / np.where(gain > 0, gain, 1.0)[tree]
        total = np.bincount(self.nodes_["feature"], fraction, self.n_features_in_)
        return total / total.sum() if total.any() else total

    def _set_oob(self, outside, n_outside, y, weight):
        """Set the out-of-bag attributes, equations (9) and (10)."""
        known = n_outside > 0
        mean = np.full(y.size, np.nan)
        mean[known] = outside[known] / n_outside[known]
        setattr(self, self._oob_name, mean)
        weight = weight * known
        self.oob_score_ = self._quality(mean, y, weight) if weight.any() else math.nan
        if not known.all():
            text = f"{type(self).__name__}: {np.count_nonzero(~known)} of {y.size} rows are in all "
            text += f"{self.n_iter_} samples and have no out-of-bag vote; use more members"
            warnings.warn(text, stacklevel=3)


class Bagging(_Bagged):
    """Bagging: a vote of members trained on samples of the rows; random forests, too.

    Use it for tables with missing values, without tuning; max_features="sqrt" is a random forest.

    Parameters
    ----------
    base : "tree", "stump" or an object with fit and predict
        Kind of the members. An object is copied for each member, and its random_state set if it has
        one.
    n_estimators : int >= 1
        Number of members.
    max_samples : float in (0, 1] or int >= 1
        Fraction or number of rows to draw for a member; with bootstrap the number may exceed that
        of the rows.
    max_features : None, float in (0, 1], int >= 1, "sqrt" or "log2"
        Fraction or number of features to draw; None means all.
    per_split : bool
        If True, draw features anew at each split of a tree, as in a random forest; else, and for
        objects, once per member.
    bootstrap : bool
        If True, draw rows with replacement, in proportion to sample_weight. Rows are drawn by
        index: trees are the same to the last bit in any order of up to 100,000 rows only with
        bootstrap=False, max_samples=1.0 and outputs=None.
    oob_score : bool
        If True, compute the votes of the members on rows outside their samples, and their accuracy.
    voting : "hard" or "soft"
        Votes of the members: "hard" -1 or +1, "soft" the difference of the class probabilities, or
        with outputs="smear", which needs "soft", the prediction.
    outputs : None, "flip" or "smear"
        Targets of each member: the classes, classes of which some are drawn anew, or the classes as
        numbers -1 and +1 with Gaussian noise; for the last, members are regression trees, or
        objects that are regressors. Rows are drawn as well; Breiman draws none: bootstrap=False.
    noise : None or float >= 0
        "flip": fraction of the labels to draw anew, from all labels, so that the classes keep their
        expected sizes; None means 0.2. "smear": standard deviation of the noise, as a multiple of
        that of the numbers; None means 1.
    perturb : None or dict
        List of values for each parameter, by name, of which every member draws one. Trees:
        max_features (with per_split), criterion, min_samples_leaf, min_impurity_decrease,
        max_depth, max_leaf_nodes and prune. Objects: the parameters of get_params.
    max_depth : None or int >= 1
        Maximum depth of a tree; a stump has depth 1.
    criterion : "error", "gini", "entropy" or "gain_ratio"
        Impurity that a split reduces; "gain_ratio" is C4.5's. Smeared outputs need "gini", which is
        the squared error.
    min_samples_leaf : int >= 1
        Minimum number of rows in a leaf, each counted as often as it was drawn.
    max_leaf_nodes : None or int >= 2
        Maximum number of leaves; the splits of the highest gain come first.
    min_impurity_decrease : float >= 0
        Minimum gain of a split, as a fraction of the weight of all rows.
    prune : bool
        If True, prune trees by C4.5's estimate at a confidence of 25 %; not for smeared outputs.
    max_bins : None or int from 2 to 256
        Maximum number of bins per feature: splits are exact if it has no more values. None: always
        exact.
    class_weight : None, "balanced" or dict
        Factor per class, multiplied into sample_weight. "balanced" gives all classes the same total
        weight.
    n_jobs : None or int
        Maximum number of threads for training and prediction; None means 1, -1 all processors. The
        model does not depend on it.
    random_state : None, int, RandomState or Generator
        Seed of the draws; each member has its own generator.
    verbose : int
        If 1, print one line after every member.
    callback : None or callable
        Called as callback(self, iteration, info) after every member, in order; True stops. The
        model then has the members so far: it can predict.

    Attributes
    ----------
    weights_ (T,) : 1 / T each
    nodes_, starts_ : nodes of all trees; those of tree t begin at starts_[t]
    estimators_ : list of the members instead, if base is an object
    estimators_features_ (T, k) : features of each member, if drawn once per member
    estimators_params_ : list of the parameters that each member drew, as dicts, with perturb
    feature_importances_ (d,) : gains of the splits on a feature, sum 1; trees only
    oob_decision_function_ (n,) : mean vote of the members without the row; NaN if there are none
    oob_score_ : accuracy of these votes
    objective_, residual_ : training error; None: there is nothing to certify
    n_iter_, trace_ : number of members, training error after each
    converged_, reason_ : True if all members were trained, and why the run ended
    seed_, n_rows_ : from which `samples` draws the samples again
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = Bagging(max_features="sqrt", oob_score=True, random_state=0).fit(X, y)
    >>> model.score(X_test, y_test), model.oob_score_

    Early stopping after 10 members without a higher accuracy on other rows:

    >>> scores = []
    >>> def stop(model, iteration, info):
    ...     scores.append(model.score(X_test, y_test))
    ...     return iteration - np.argmax(scores) > 10
    >>> model = Bagging(n_estimators=500, callback=stop).fit(X, y)
    """

    _oob_name = "oob_decision_function_"
    _decrease = 1.0  # Gains of regression trees are halves of squares: for -1 and +1, Gini's.
    _param_rules = {
        **_Bagged._param_rules,
        "voting": "one of 'hard', 'soft'",
        "outputs": "None, 'flip' or 'smear'",
        "criterion": "one of 'error', 'gini', 'entropy', 'gain_ratio'",
        "prune": "True or False",
    }

    def __init__(
        self, base="tree", n_estimators=30, max_samples=1.0, max_features=1.0, per_split=True,
        bootstrap=True, oob_score=False, voting="hard", outputs=None, noise=None, perturb=None,
        max_depth=None, criterion="gini", min_samples_leaf=1, max_leaf_nodes=None,
        min_impurity_decrease=0.0, prune=False, max_bins=256, class_weight=None, n_jobs=1,
        random_state=None, verbose=0, callback=None,
    ):  # fmt: skip
        self._set(locals())

    def _check_params(self):
        super()._check_params()
        text = f"noise is a share of the labels with outputs='flip'; set <= 1, got {self.noise}"
        self._require(self.outputs != "flip" or (self.noise or 0) <= 1, text)
        needed = {"voting": "soft", "criterion": "gini", "prune": False}
        for name, value in needed.items() if self.outputs == "smear" else ():
            text = f"outputs='smear' makes regressions of the members: set {name}={value!r}, got "
            self._require(getattr(self, name) == value, f"{text}{getattr(self, name)!r}")

    def decision_function(self, X):
        """Mean vote of all members, (n,)."""
        return self._mean_vote(X)

    def predict_proba(self, X):
        """Fraction of the votes for each class, (n, 2); soft: mean probability."""
        positive = 0.5 + 0.5 * self.decision_function(X)
        if self.outputs == "smear":
            positive = positive.clip(0.0, 1.0)
        return np.column_stack([1.0 - positive, positive])

    def facts(self):
        """Statistics of the fit for a report."""
        return {"out-of-bag error": 1.0 - self.oob_score_} if hasattr(self, "oob_score_") else {}

    def _is_regression(self):
        return self.outputs == "smear"

    def _signs(self, y):
        return y

    def _signs_again(self, y, sample_weight):
        """Labels -1 and +1 and weights of the rows, as in fit."""
        codes = self._encode_labels(y, self.n_rows_)
        weight = self._check_weight(sample_weight, self.n_rows_)
        if self.class_weight is not None:
            totals = np.array([math.fsum(weight[codes == k]) for k in range(2)])
            weight = weight * self._class_factors(totals)[codes]
        return 2.0 * codes - 1.0, weight

    def _loss(self, total, T, y, weight):
        """Training error of the vote `total` of T members."""
        wrong = ((total >= 0) != (y > 0)).astype(np.float64)
        return weight @ wrong / weight.sum()

    def _quality(self, decision, y, weight):
        """Accuracy of a decision, 1 minus (10)."""
        return float(weight @ ((decision >= 0) == (y > 0)) / weight.sum())

    def _leaf_votes(self, values):
        return np.where(values >= 0, 1.0, -1.0) if self.voting == "hard" else values

    def _member_vote(self, member, X):
        if self._is_regression():
            return self._numbers_of(member, X)
        if self.voting == "hard":
            return np.where(np.asarray(member.predict(X)) == self.classes_[1], 1.0, -1.0)
        text = f"voting='soft' needs members with predict_proba, {type(member).__name__} has none"
        self._require(hasattr(member, "predict_proba"), f"{text}; use voting='hard'")
        p = np.asarray(member.predict_proba(X))
        known = list(getattr(member, "classes_", self.classes_))
        low, high = (p[:, known.index(c)] if c in known else 0.0 for c in self.classes_)
        return high - low


class BaggingRegressor(_Regressor, _Bagged):
    """Bagging for numbers: the mean of regression trees, or of objects, on samples of the rows.

    Use it for numeric targets, without tuning.

    Parameters
    ----------
    base : "tree", "stump" or an object with fit and predict
        Kind of the members; trees reduce the squared error. An object, copied for each member,
        predicts numbers.
    outputs : None or "smear"
        Targets of each member: y, or y with Gaussian noise.
    noise : None or float >= 0
        Standard deviation of the noise, as a multiple of that of y; None means 1.
    oob_score : bool
        If True, compute the means of the members on rows outside their samples, and their R^2.
    min_impurity_decrease : float >= 0
        Minimum gain of a split: by how much the variance of the sample falls.
    n_estimators, max_samples, max_features, per_split, bootstrap, perturb, max_depth, \
min_samples_leaf, max_leaf_nodes, max_bins, n_jobs, random_state, verbose, callback : as in Bagging

    Attributes
    ----------
    oob_prediction_ (n,) : mean of the members without the row; NaN if there are none
    oob_score_ : R^2 of these means
    objective_, residual_ : mean squared error on the training rows; None: nothing to certify
    n_iter_, trace_ : number of members, objective after each
    the others : as in Bagging

    Example
    -------
    >>> model = BaggingRegressor(max_features=1 / 3, oob_score=True, random_state=0).fit(X, y)
    >>> model.score(X_test, y_test), model.oob_score_
    """

    _oob_name = "oob_prediction_"
    _decrease = 0.5  # Gains of regression trees are halves of squares.
    _param_rules = {**_Bagged._param_rules, "outputs": "None or 'smear'"}

    def __init__(
        self, base="tree", n_estimators=30, max_samples=1.0, max_features=1.0, per_split=True,
        bootstrap=True, oob_score=False, outputs=None, noise=None, perturb=None, max_depth=None,
        min_samples_leaf=1, max_leaf_nodes=None, min_impurity_decrease=0.0, max_bins=256, n_jobs=1,
        random_state=None, verbose=0, callback=None,
    ):  # fmt: skip
        self._set(locals())

    def predict(self, X):
        """Mean of the members' predictions, (n,)."""
        return self._mean_vote(X)

    def _is_regression(self):
        return True

    def _signs(self, y):
        """Zeros (n,): no sample is drawn again for want of a class."""
        return np.zeros(y.size)

    def _signs_again(self, y, sample_weight):
        y = self._targets(self._check_y(y, self.n_rows_))
        return self._signs(y), self._check_weight(sample_weight, self.n_rows_)

    def _loss(self, total, T, y, weight):
        """Mean squared error of the mean of T members, of sum `total`."""
        return reproducible_sum(weight * (total / T - y) ** 2) / weight.sum()

    def _quality(self, mean, y, weight):
        """R^2 on the rows of weight > 0."""
        used = weight > 0
        return r_squared(y[used], mean[used], weight[used])

    def _leaf_votes(self, values):
        return values

    def _member_vote(self, member, X):
        return self._numbers_of(member, X)


def _columns_of(X, columns):
    return X if columns is None else X[:, columns]


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    blobs = generator.normal(size=(400, 5)) + np.repeat([[-0.7], [0.7]], 200, axis=0)
    labels = np.repeat(["left", "right"], 200)
    for options in ({}, {"max_features": 0.5, "per_split": False}):
        model = Bagging(**options, oob_score=True, random_state=0).fit(blobs, labels)
        print(f"{model!r}: {model.n_iter_} members, accuracy {model.score(blobs, labels):.3f}, "
              f"out of bag {model.oob_score_:.3f}")  # fmt: skip
        samples = np.array([model.samples(t, labels) for t in range(model.n_iter_)])
        votes = np.where(samples.T == 0, model.votes(blobs), 0.0).sum(axis=1)
        assert np.mean((votes >= 0) == (labels == "right")) == model.oob_score_
    model = BaggingRegressor(oob_score=True, random_state=0).fit(blobs, blobs[:, 0] ** 2)
    print(f"{model!r}: R^2 {model.score(blobs, blobs[:, 0] ** 2):.3f}, "
          f"out of bag {model.oob_score_:.3f}")  # fmt: skip

"""AdaBoost.NC: boosting that also puts weight where its members agree, so that they differ.

Problem   Round t trains a member h_t on examples weighted by D_t and gives it the vote alpha_t that
          minimises, all earlier members fixed, the exponential loss with an ambiguity penalty

    sum_i D_1(i) exp(-y_i f(x_i)) prod_t p_t(i)^lam     f = sum_t alpha_t h_t,  h_t in {-1, +1}

    p_t = 1 - amb_t,   amb_t = | (1/2t) sum_{j<=t} (H_t - h_j) |,   H_t = sgn(h_1 + ... + h_t)

Method    Train h_t on D_t (weights, or a sample drawn with them); then
              alpha_t = 1/2 log( sum_right D_t p_t^lam / sum_wrong D_t p_t^lam )
              D_t+1   = D_t p_t^lam exp(-alpha_t y h_t) / Z_t
          The votes inside H_t are uniform, hence p_t = 1/2 + |h_1 + ... + h_t| / 2t. Members are
          stumps and trees on binned features, or any object with fit and predict. A level of a
          tree costs O(n d), the rest of a round O(n). The objective is prod_t Z_t, which is the
          loss above unless a weight would have fallen below FLOOR. It underflows, so its logarithm
          is stored, too. The method is greedy, without an optimum to certify: there is no
          residual. AdaBoost is lam = 0. On several threads, or on row blocks, trees grow level by
          level from sums over the rows of each block, to the same bits.
Reference Wang, Yao, "The Effectiveness of a New Negative Correlation Learning Algorithm for
          Classification Ensembles", 2010; Table I, equations (2)-(3), Figure 1. First in Wang,
          Chen, Yao, IJCNN 2010. AdaBoost: Zhang, "Ensemble learning", Algorithm 1.
Departs   A member without error ends the run with the largest vote before it (1 if it is the
          first): its own is infinite and outvotes all others (ten sets, depth 5: mean test error
          10.2 %, 10.9 % with a vote of 18). A member no better than guessing is left out and ends
          the run, with resampling after TRIES samples. A sample with one class only is drawn again.
          t counts the members kept. sgn(0) = +1. Members vote -1 or +1: real-valued ones, equation
          (3), are not offered. The paper's trees are C4.5's: we take the gain ratio and the
          pessimistic estimate of errors. Here a subtree is replaced if the estimate is no higher,
          not up to 0.1 higher, and never raised; a leaf has min_samples_leaf rows, however many its
          node has; numeric features pay nothing for their many thresholds; categories are numbers,
          split in two; a row with a missing value goes to one side as a whole.
Symbols   paper      here        meaning                                        shape
          D_t        D           example weights, sum 1                         (n,)
          h_t        h           votes of a member, -1 or +1                    (n,)
          sum h_j    votes       uniform vote of the members so far             (n,)
          (trees)    grad_hess   -w y and w with a row count, as integers       (n, 2)
Use       m = AdaBoostNC(lam=2).fit(X, y); m.predict(X)
Origin    ensolve, solvers/adaboost_nc.py, MIT licence
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
from functools import cache, partial, wraps
from importlib import import_module
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numba import njit

NO_ERROR = 2.0**-52  # A weighted error up to this is rounding.
GUESSING = 1e-12  # An error closer to 1/2 than this is that of guessing.
FLOOR = 1e-100  # Minimum weight of a row, so that it can regain weight after any number of rounds.
D_GRID = 6.0  # `grid_constant` of sums over D, which is 1 in all.
TRIES = 10  # Samples drawn at most to obtain both classes, and a member that beats guessing.
PLUS, MINUS = np.int8(1), np.int8(-1)  # The votes.
USELESS = "no member was better than guessing"
FOUND = "all members were trained"
PERFECT = "a member made no error"


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
@jit(nogil=True)
def _penalise(D, y, node, signs, votes, t, lam, P):
    """Equation (2): overwrite P (n,) with D_t p_t^lam, for the votes signs[node] of member t.

    Returns the largest of P and the weighted error of the member.
    """
    top = error = 0.0
    for i in range(D.size):
        h = signs[node[i]]
        P[i] = D[i] * (0.5 + abs(votes[i] + h) / (2.0 * t)) ** lam
        top = max(top, P[i])
        error += (0.5 - 0.5 * h * y[i]) * ((D[i] + D_GRID) - D_GRID)
    return top, error


@jit(nogil=True)
def _sum_weights(P, y, node, signs, coarse, fine):
    """Sums of P over all and over wrong rows on the coarse grid; of remainders on the fine one."""
    whole = wrong = whole_rest = wrong_rest = 0.0
    for i in range(P.size):
        is_wrong = 0.5 - 0.5 * signs[node[i]] * y[i]  # No branch: it would be unpredictable.
        first = (P[i] + coarse) - coarse
        rest = ((P[i] - first) + fine) - fine
        whole += first
        wrong += is_wrong * first
        whole_rest += rest
        wrong_rest += is_wrong * rest
    return whole, wrong, whole_rest, wrong_rest


@jit(nogil=True)
def _reweigh(D, y, node, signs, votes, P, down, up, is_penalised):
    """Overwrite D with the next weights and, with a penalty, add the member to votes."""
    for i in range(D.size):
        h = signs[node[i]]
        D[i] = max(P[i] * (down if h * y[i] > 0.0 else up), FLOOR)
        if is_penalised:
            votes[i] += h


@jit(nogil=True)
def _fill_examples(weight, y, unit, drawn, count_bits, grad_hess):
    """Fill grad_hess (n, 2) with weights in integer units; drawn: they are numbers of draws."""
    for i in range(weight.size):
        w = np.int64(weight[i] * unit + 0.5)
        grad_hess[i, 0] = -w if y[i] > 0.0 else w
        grad_hess[i, 1] = (w << count_bits) + (w if drawn else 1)


# -- solver -------------------------------------------------------------------------------------
def _allocate_block(block, total, lam):
    """Allocate D, the first weights D_1, and the arrays of the penalty; each row is in node 0."""
    n = len(block.weight)
    block.allocate("D", n)[:] = block.weight / total
    block.allocate("node", n, np.int32)
    block.allocate("votes", n if lam > 0.0 else 0, np.int32)
    block.allocate("P", n if lam > 0.0 else 0)


def _penalise_block(block, signs, t, lam):
    return _penalise(block.D, block.target, block.node, signs, block.votes, t, lam, block.P)


def _sum_block(block, signs, lam, coarse, fine):
    P = block.P if lam > 0.0 else block.D
    return _sum_weights(P, block.target, block.node, signs, coarse, fine)


def _reweigh_block(block, signs, lam, down, up):
    P = block.P if lam > 0.0 else block.D
    _reweigh(block.D, block.target, block.node, signs, block.votes, P, down, up, lam > 0.0)


def _fill_block(block, full, count_bits):
    _fill_examples(block.D, block.target, full, False, count_bits, block.grad_hess)


def _weigh_member(blocks, signs, t, lam, top, n_jobs):
    """Table I after the training of member t, which votes signs[node].

    Updates D and, with a penalty, votes, unless the member is no better than guessing. Returns its
    error, alpha_t (top if it makes no error), Z_t and True if it is better than guessing.
    """
    n, size, error = blocks.shape[0], 1.0, 0.0
    if lam > 0.0:
        penalised = blocks.map_inplace(_penalise_block, signs, t, lam, n_jobs=n_jobs)
        tops, errors = zip(*penalised, strict=True)
        size, error = n * max(tops), sum(errors)

    # Weight of all rows, of the wrong ones and, by subtraction, of the right ones.
    coarse = grid_constant(size)
    fine = grid_constant(n * (coarse * 2.0**-52))
    sums = blocks.map(_sum_block, signs, lam, coarse, fine, n_jobs=n_jobs)
    whole, wrong, whole_rest, wrong_rest = map(sum, zip(*sums, strict=True))
    right, wrong = (whole - wrong) + (whole_rest - wrong_rest), wrong + wrong_rest
    error = error if lam > 0.0 else wrong
    useful = 0.5 - error > GUESSING and right - wrong > max(GUESSING * (right + wrong), FLOOR)

    alpha = top if useful else 1.0
    if useful and error > NO_ERROR:
        alpha = 0.5 * math.log(right / max(wrong, NO_ERROR * right))
    down, up = math.exp(-alpha), math.exp(alpha)
    Z = right * down + wrong * up
    if useful:
        blocks.map_inplace(_reweigh_block, signs, lam, down / Z, up / Z, n_jobs=n_jobs)
    return error, alpha, Z, useful


def _draw_rows(D, y, rng):
    """Numbers of draws (n,) of n rows with probabilities D.

    The cumulative sums of n + 1 exponential variates, over their total, are n ordered uniform
    points. Draws again, TRIES times at most, while one of the classes is missing.
    """
    ends = np.cumsum(D)
    for _ in range(TRIES):
        points = np.cumsum(rng.standard_exponential(D.size + 1))
        below = np.searchsorted(points[:-1], ends[:-1] * points[-1], side="right")
        counts = np.diff(below, prepend=0, append=D.size).astype(np.float64)
        if abs(counts @ y) < D.size:
            break
    return counts


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


# -- estimator ----------------------------------------------------------------------------------
MAX_LEVELS = 10  # Deeper trees grow on one thread: a level costs a pass over all rows.
MIN_CELLS_PER_THREAD = 400_000  # Cells of X that pay for starting a thread.


class AdaBoostNC(_Nested):
    """AdaBoost.NC: boosting with more weight where the members agree.

    Use it to make boosted deep trees disagree; compare the result with AdaBoost.

    Parameters
    ----------
    n_estimators : int >= 1
        Maximum number of members; fewer if a rule ends the run, see `reason_`.
    lam : float >= 0
        Strength of the penalty; 0 is AdaBoost. It helps deep trees and harms stumps.
    base : "tree", "stump" or an object with fit and predict
        Kind of the members. An object is copied for each member, and its random_state set if it has
        one. It gets sample_weight (of mean 1) with mode="reweight", the drawn rows with "resample".
    max_depth : None or int >= 1
        Maximum depth of a tree; None means no limit. A stump has depth 1.
    criterion : "error", "gini", "entropy" or "gain_ratio"
        Impurity that a split reduces; "gain_ratio" is C4.5's.
    min_samples_leaf : int >= 1
        Minimum number of rows in a leaf, whatever their weights.
    max_leaf_nodes : None or int >= 2
        Maximum number of leaves; the splits of the highest gain come first.
    min_impurity_decrease : float >= 0
        Minimum gain of a split, as a fraction of the weight of all rows.
    prune : bool
        If True, replace subtrees by leaves that have no more errors by C4.5's pessimistic estimate
        at a confidence of 25 %; it counts rows, whatever their weights.
    max_bins : None or int from 2 to 256
        Bins per feature at most: splits are exact if it has no more values. None: always exact.
    mode : "resample" or "reweight"
        Train members on a sample drawn with the weights, or on the weights. With "reweight", trees
        are the same to the last bit in any order of up to 100,000 rows.
    class_weight : None, "balanced" or dict
        Factor of sample_weight per class; "balanced" gives all classes the same total weight.
    n_jobs : None or int
        Threads at most, for trees of up to 10 levels and for prediction; None: 1, -1: all
        processors. Small data use fewer; trees do not depend on it.
    random_state : None, int, RandomState or Generator
        Seed of the draws, and of members that have a seed.
    verbose : int
        If 1, print one line after every round.
    callback : None or callable
        callback(self, iteration, info) after every round; True stops and keeps the members so far.

    Attributes
    ----------
    weights_, errors_ (T,) : vote alpha_t and weighted error of each member
    nodes_, starts_ : nodes of all trees; those of tree t begin at starts_[t]
    estimators_ : list of the members instead, if base is an object
    feature_importances_ (d,) : gains of the splits on a feature, sum 1; trees only
    objective_, residual_ : penalised exponential loss; None: nothing certifies a greedy method
    n_iter_, trace_ : number of members, objective after each
    log_objective_, log_trace_ : natural logarithms, finite if the objective underflows
    converged_, reason_ : True if the run ended regularly, and why it ended
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = AdaBoostNC(lam=2.0, random_state=0).fit(X, y)
    >>> model.score(X, y), model.reason_
    """

    _param_rules = {
        "n_estimators": "an integer >= 1",
        "lam": "a finite number >= 0",
        "base": "'tree', 'stump' or an object with fit and predict",
        "criterion": "one of 'error', 'gini', 'entropy', 'gain_ratio'",
        "min_impurity_decrease": "a finite number >= 0",
        "prune": "True or False",
        **TREE_LIMITS,
        "mode": "one of 'resample', 'reweight'",
    }

    def __init__(
        self, n_estimators=51, lam=2.0, base="tree", max_depth=None, criterion="entropy",
        min_samples_leaf=2, max_leaf_nodes=None, min_impurity_decrease=0.0, prune=True,
        max_bins=256, mode="resample", class_weight=None, n_jobs=1, random_state=None, verbose=0,
        callback=None,
    ):  # fmt: skip
        self._set(locals())

    @restore_on_failure
    def fit(self, X, y=None, sample_weight=None):
        """Train on X (n, d) and two classes y, or on row blocks; sample_weight is D_1.

        A row of weight 2 equals two rows (one for min_samples_leaf and prune), of weight 0 none.
        """
        self._check_params()
        if hasattr(X, "fit_model"):  # Row blocks, see solvers/rows.
            return X.fit_model(self, y, sample_weight)
        rng = np.random.default_rng(self._seed())
        X, y, weight = self._check_fit(X, y, sample_weight)
        if not weight.all():
            X, y, weight = (array[weight > 0] for array in (X, y, weight))
        with row_blocks(X, y, weight, self._n_threads(X)) as blocks:
            return self._boost(blocks, self._is_weighted(sample_weight), rng)

    def _boost(self, blocks, is_weighted, rng):
        """Table I on row blocks: one member after the other; returns self."""
        n_jobs, lam, is_drawn = self._threads(), float(self.lam), self.mode == "resample"
        total = reproducible_total(partial(blocks.map, n_jobs=n_jobs), attrgetter("weight"))
        blocks.map_inplace(_allocate_block, total, lam, n_jobs=n_jobs)
        if isinstance(self.base, str):
            train, finalize = self._tree_learner(blocks, is_weighted)
        else:
            train, finalize = self._learner(blocks, rng), None
        members, alphas, errors, logs = [], [], [], []
        self.trace_, self.reason_, top = [], "", 0.0  # top is the largest vote so far.
        while not self.reason_:
            # Train member t on D_t, weigh it and make D_t+1.
            t = len(members) + 1
            for _ in range(TRIES if is_drawn else 1):
                counts = _draw_rows(blocks.D, blocks.target, rng) if is_drawn else None
                member, signs = train(counts)
                error, alpha, Z, useful = _weigh_member(blocks, signs, t, lam, top or 1.0, n_jobs)
                if useful:
                    break
            if not useful:
                self.reason_ = USELESS
                if members:
                    break

            # Store it, report it and decide whether it is the last.
            members.append(member)
            alphas.append(alpha)
            errors.append(error)
            top = max(top, alpha)
            logs.append(math.log(Z) + (logs[-1] if logs else 0.0))
            self.log_objective_ = logs[-1]
            if self.callback is not None:
                self._set_members(members, alphas, finalize)
                self.converged_ = False
            if self._report(t, math.exp(logs[-1]), error=float(error)):
                self.reason_ = "the callback stopped it"
            elif useful and error <= NO_ERROR:
                self.reason_ = PERFECT
            elif useful and t == self.n_estimators:
                self.reason_ = FOUND
        self._set_members(members, alphas, finalize)
        self.errors_, self.residual_ = np.array(errors), None
        self.log_trace_, self.trace_ = np.array(logs), np.exp(logs)
        self.converged_ = self.reason_ in (FOUND, PERFECT)
        if not useful and t == 1:
            text = f"{type(self).__name__}: {USELESS} (weighted error {error:.3g}); the first one "
            text += "is kept alone. Stronger members may help: base='tree', a larger max_depth"
            warnings.warn(text, ConvergenceWarning, stacklevel=4)
        return self

    @property
    def _allow_nan(self):
        """Missing values pass the check of X: trees route them, a foreign object checks itself."""
        return isinstance(self.base, str) or getattr(self.base, "_allow_nan", True)

    def votes(self, X):
        """Vote of every member, -1 or +1, (n, T)."""
        return self._votes(self._check_X(X)).T

    def decision_function(self, X):
        """Weighted vote of all members, (n,)."""
        X = self._check_X(X)
        if hasattr(self, "estimators_"):
            return self._votes(X).T @ self.weights_
        return sum_trees(self.nodes_, self.starts_[:-1], self.weights_, X, self._threads())

    def staged_decision_function(self, X):
        """Weighted vote (n,) of the first 1, 2, ... members."""
        total = 0.0
        for h, alpha in zip(self._each_vote(self._check_X(X)), self.weights_, strict=True):
            total = total + alpha * h
            yield total

    def staged_predict(self, X):
        """Class of each row by the first 1, 2, ... members."""
        for decision in self.staged_decision_function(X):
            yield self.classes_[(decision >= 0).astype(np.intp)]

    def margins(self, X, y):
        """Margin y f(x) / sum of weights_, in [-1, 1], (n,)."""
        decision = self.decision_function(X)
        signs = 2.0 * self._encode_labels(y, decision.size) - 1.0
        return signs * decision / self.weights_.sum()

    def error_correlation(self, X, y, weighted=False):
        """Covariance over the rows between the correctness of member t and of the vote before it.

        For t = 2 .. T, (T - 1,). The members before t vote with equal weights (III.A), or weighted
        by alpha. For repeated training samples see `error_covariance` of solvers/diversity.py.
        """
        X = self._check_X(X)
        is_positive, votes = self._encode_labels(y, len(X)) == 1, self._votes(X)
        before = np.cumsum(self.weights_[:, None] * votes if weighted else votes, axis=0)[:-1]
        member, vote = (votes[1:] > 0) == is_positive, (before >= 0) == is_positive
        return (member & vote).mean(1) - member.mean(1) * vote.mean(1)

    def _is_consistent(self, has):
        T, d = self.weights_.size, self.n_features_in_
        if T < 1 or not has("weights_", (T,)) or (self.weights_ <= 0).any():
            return False
        if hasattr(self, "estimators_"):
            return len(self.estimators_) == T and all(
                member.n_features_in_ == d and np.array_equal(member.classes_, self.classes_)
                for member in self.estimators_
            )
        return check_trees(self.nodes_, self.starts_, d) and self.starts_.size == T + 1

    def _required_setting(self):
        """Setting that fits from sums over rows require, as a text; None if there is none."""
        if not isinstance(self.base, str):
            return "base='tree' or 'stump'"
        if self.mode == "resample":
            return "mode='reweight'"
        return "max_bins of at most 256" if self.max_bins is None else None

    def _n_threads(self, X):
        """Number of threads that pay for their start."""
        is_deep = self.base == "tree" and (self.max_depth is None or self.max_depth > MAX_LEVELS)
        if self._required_setting() or self.max_leaf_nodes or is_deep:
            return 1
        return max(1, min(self._threads(), X.size // MIN_CELLS_PER_THREAD))

    def _tree_learner(self, blocks, is_weighted):
        """Functions that train a tree, counts -> (nodes, votes of nodes), and finalize trees."""
        depth, is_stump = self.max_depth, self.base == "stump"
        limits = self.min_samples_leaf, self.max_leaf_nodes, float(self.min_impurity_decrease)
        params = TreeParams(CRITERIA[self.criterion], 1 if is_stump else depth, *limits)
        is_single, n_jobs = isinstance(blocks, SingleBlock), self._threads()
        if is_single:
            grower = TreeGrower(blocks.X, self.max_bins, params, blocks.D if is_weighted else None)
            blocks.node, blocks.grad_hess = grower.buffers.leaf, grower.data.grad_hess
        else:
            total = reproducible_total(partial(blocks.map, n_jobs=n_jobs), attrgetter("D"))
            weigh = ("D", grid_constant(total)) if is_weighted else (None, 0.0)
            grower = blocks.grower(self.max_bins, params, weigh, n_jobs)
        count_bits = grower.data.count_bits

        def train(counts):
            if counts is not None:
                _fill_examples(counts, blocks.target, 1.0, True, count_bits, blocks.grad_hess)
            elif is_single:
                _fill_block(blocks, grower.full, count_bits)
            nodes = grower.grow(*() if is_single else (_fill_block, grower.full, count_bits))
            if self.prune and not is_stump:
                prune(nodes, count_bits)
            signs = np.where(nodes["g"] <= 0, PLUS, MINUS)
            return nodes, signs if is_single else signs[grower.place]

        return train, grower.finalize

    def _learner(self, block, rng):
        """Function that trains a copy of an object, counts -> (copy, votes of both classes)."""
        X, labels = block.X, self.classes_[(block.target > 0).astype(np.intp)]

        def train(counts):
            member = seeded_copy(self.base, rng)
            if counts is not None:
                rows = np.repeat(np.arange(len(X)), counts.astype(np.intp))
                fit_member(member, X[rows], labels[rows])
            else:
                fit_member(member, X, labels, block.D * len(X), "set mode='resample'")
            block.node = (np.asarray(member.predict(X)) == self.classes_[1]).astype(np.int32)
            return member, np.array([MINUS, PLUS])

        return train

    def _set_members(self, members, alphas, finalize):
        """Set the members and their weights, all or those so far."""
        self.weights_ = np.array(alphas)
        if finalize is None:
            self.estimators_ = members[:]
            return
        self.nodes_, self.starts_ = finalize(members)
        self.nodes_["value"] = np.where(self.nodes_["value"] >= 0, 1.0, -1.0)
        tree = np.repeat(np.arange(len(members)), np.diff(self.starts_))
        gain = np.bincount(tree, self.nodes_["gain"])
        gains = self.nodes_["gain"] * (self.weights_ / np.where(gain > 0, gain, 1.0))[tree]
        total = np.bincount(self.nodes_["feature"], gains, self.n_features_in_)
        self.feature_importances_ = total / total.sum() if total.any() else total

    def _each_vote(self, X):
        """Yield the vote (n,) of each member."""
        for t in range(self.weights_.size):
            if hasattr(self, "estimators_"):
                is_positive = np.asarray(self.estimators_[t].predict(X)) == self.classes_[1]
                yield np.where(is_positive, PLUS, MINUS)
            else:
                start = self.starts_[t : t + 1]
                yield sum_trees(self.nodes_, start, np.ones(1), X, self._threads())

    def _votes(self, X):
        return np.array([*self._each_vote(X)], dtype=np.float64).reshape(-1, X.shape[0])


class AdaBoost(AdaBoostNC):
    """AdaBoost: AdaBoost.NC without the penalty; parameters and attributes of AdaBoostNC.

    Use it for boosted stumps or trees on clean labels. Trees have depth 3 by default: an unlimited
    tree soon makes no error, which ends the run.

    Parameters
    ----------
    n_estimators, base, max_depth, criterion, min_samples_leaf, max_leaf_nodes, \
min_impurity_decrease, prune, max_bins, mode, class_weight, n_jobs, random_state, verbose, \
callback : as in AdaBoostNC
    """

    lam = 0.0

    def __init__(
        self, n_estimators=100, base="stump", max_depth=3, criterion="gini", min_samples_leaf=1,
        max_leaf_nodes=None, min_impurity_decrease=0.0, prune=False, max_bins=256, mode="reweight",
        class_weight=None, n_jobs=1, random_state=None, verbose=0, callback=None,
    ):  # fmt: skip
        self._set(locals())


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    blobs = generator.normal(size=(400, 5)) + np.repeat([[-0.7], [0.7]], 200, axis=0)
    labels = np.repeat(["left", "right"], 200)
    for model in (AdaBoost(), AdaBoostNC(random_state=0), AdaBoostNC(lam=9.0, random_state=0)):
        model.fit(blobs, labels)
        print(f"{model!r}: {model.n_iter_} members, {model.reason_}, objective "
              f"{model.objective_:.3e}, accuracy {model.score(blobs, labels):.3f}")  # fmt: skip
        loss = np.exp(-np.where(labels == "right", 1, -1) * model.decision_function(blobs)).mean()
        assert model.lam > 0 or abs(model.objective_ - loss) <= 1e-9 * loss

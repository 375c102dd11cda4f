"""AdaBoost.NC: boosting that also puts weight where its members agree, so that they differ.

Each round t trains a member h_t on examples weighted by D_t and gives it the vote alpha_t that
minimises, all earlier members fixed, the exponential loss with an ambiguity penalty

    sum_i D_1(i) exp(-y_i f(x_i)) prod_t p_t(i)^lam     f = sum_t alpha_t h_t,  h_t in {-1, +1}

    p_t = 1 - amb_t,   amb_t = | (1/2t) sum_{j<=t} (H_t - h_j) |,   H_t = sgn(h_1 + ... + h_t)

Method    Train h_t on D_t (weights, or a sample drawn with them); then
              alpha_t = 1/2 log( sum_right D_t p_t^lam / sum_wrong D_t p_t^lam )
              D_t+1   = D_t p_t^lam exp(-alpha_t y h_t) / Z_t
          The votes inside H_t are uniform, so that p_t = 1/2 + |h_1 + ... + h_t| / 2t.
          Members are stumps and trees on binned features, or any object with fit and predict. A
          level of a tree costs O(n d), a round of the rest O(n). The objective is prod_t Z_t,
          which is the loss above unless a weight would have fallen below FLOOR; it may be below
          any number, so its logarithm is kept, too. It is a greedy method, without an optimum to
          be close to: there is no residual. AdaBoost is lam = 0. On several threads, or on row
          blocks, trees grow level by level from sums over the rows of each part: the same trees.
Reference Wang, Yao, "The Effectiveness of a New Negative Correlation Learning Algorithm for
          Classification Ensembles", 2010; Table I, equations (2)-(3), Figure 1. First in Wang,
          Chen, Yao, IJCNN 2010. AdaBoost: Zhang, "Ensemble learning", Algorithm 1.
Departs   A member without error ends the run, and its vote is the largest before it (1 if it is
          the first): its own is infinite and outvotes all others. Mean test error of trees of
          depth 5 on ten sets 10.2 %, against 10.9 % with a vote of 18. One no better than guessing
          is left out and ends the run, with resampling after TRIES samples. A sample with one class
          only is drawn again. t counts the members kept. sgn(0) = +1. Members vote -1 or +1: votes
          of real-valued members, equation (3), are not offered. The paper's trees are C4.5's,
          from which we have the gain ratio and the pessimistic estimate of errors. Unlike there,
          a subtree is replaced where the estimate is no higher, not up to 0.1 higher, and never
          raised; a leaf has min_samples_leaf rows, however many its node has; numeric features
          pay nothing for their many cuts; categories are numbers, cut in two; a row with a gap
          goes to one side as a whole.
Symbols   paper      here        meaning                                        shape
          D_t        D           example weights, sum 1                         (n,)
          h_t        h           member's votes, -1 or +1                       (n,)
          sum h_j    votes       uniform vote of the members so far             (n,)
          (trees)    GH          -w y and w with a row count, as integers       (n, 2)
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
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, partial, wraps
from importlib import import_module
from typing import NamedTuple

import numpy as np
from numba import njit

NO_ERROR = 2.0**-52  # A member with an error up to this makes none.
GUESSING = 1e-12  # An error closer to 1/2 than this is that of guessing.
FLOOR = 1e-100  # No weight falls below, so that a row can come back after any number of rounds.
TRIES = 10  # So many samples are tried for both classes, and for a member that beats guessing.
PLUS, MINUS = np.int8(1), np.int8(-1)  # The votes.
USELESS = "no member was better than guessing"
FOUND = "all members were trained"
PERFECT = "a member made no error"


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
@jit(nogil=True)
def _penalise(D, y, node, signs, votes, t, lam, P):
    """Equation (2): overwrites P with the weights D_t p_t^lam of the rows, where member t votes
    signs[node]. Returns the largest, and the weighted error of the member."""
    big, top, error = rounder(1.0), 0.0, 0.0  # Sums are as in `steady_sum`; that of D is 1.
    for i in range(D.size):
        h = signs[node[i]]
        P[i] = D[i] * (0.5 + abs(votes[i] + h) / (2.0 * t)) ** lam
        top = max(top, P[i])
        error += (0.5 - 0.5 * h * y[i]) * ((D[i] + big) - big)
    return top, error


@jit(nogil=True)
def _sum_weights(kept, y, node, signs, big, small):
    """Sums of these weights over all rows and over those that are wrong, of what big rounds them
    to, and of what that takes off."""
    whole = wrong = whole_rest = wrong_rest = 0.0
    for i in range(kept.size):
        is_wrong = 0.5 - 0.5 * signs[node[i]] * y[i]  # No branches, which nothing could predict.
        first = (kept[i] + big) - big
        rest = ((kept[i] - first) + small) - small
        whole += first
        wrong += is_wrong * first
        whole_rest += rest
        wrong_rest += is_wrong * rest
    return whole, wrong, whole_rest, wrong_rest


@jit(nogil=True)
def _reweigh(D, y, node, signs, votes, kept, down, up, is_penalised):
    """The next weights, and with a penalty the votes so far; overwrites D and votes."""
    for i in range(D.size):
        h = signs[node[i]]
        D[i] = max(kept[i] * (down if h * y[i] > 0.0 else up), FLOOR)
        if is_penalised:
            votes[i] += h


def _set_weights(part, total, lam):
    """Keep the first weights D_1, and what the penalty needs. Each row is in node 0."""
    n = len(part.weight)
    part.allocate("D", n)[:] = part.weight / total
    part.allocate("votes", n if lam > 0.0 else 0, np.int32)
    part.allocate("P", n if lam > 0.0 else 0)
    part.allocate("node", n, np.int32)


def _penalise_rows(part, signs, t, lam):
    return _penalise(part.D, part.target, part.node, signs, part.votes, t, lam, part.P)


def _sum_rows(part, signs, lam, big, small):
    kept = part.P if lam > 0.0 else part.D
    return _sum_weights(kept, part.target, part.node, signs, big, small)


def _reweigh_rows(part, signs, lam, down, up):
    kept, is_penalised = (part.P, True) if lam > 0.0 else (part.D, False)
    args = part.D, part.target, part.node, signs, part.votes
    _reweigh(*args, kept, down, up, is_penalised)


def _boost(parts, signs, t, lam, top, n_jobs):
    """Table I after the training of member t, which votes signs[node]: the parts get the next D
    and, with a penalty, votes, unless the member is no better than guessing. Returns its error,
    alpha_t (top if it makes no error), Z_t and whether it is better."""
    n, size, error = parts.shape[0], 1.0, 0.0
    if lam > 0.0:
        found = parts.map_inplace(_penalise_rows, signs, t, lam, n_jobs=n_jobs)
        tops, errors = zip(*found, strict=True)
        size, error = n * max(tops), sum(errors)

    # Sums over all rows, over those that are wrong, and so over those that are right.
    big = rounding(size)
    small = rounding(n * (big * 2.0**-52))
    sums = parts.map(_sum_rows, signs, lam, big, small, n_jobs=n_jobs)
    sums = sums[0] if len(sums) == 1 else map(sum, zip(*sums, strict=True))
    whole, wrong, whole_rest, wrong_rest = sums
    right, wrong = (whole - wrong) + (whole_rest - wrong_rest), wrong + wrong_rest
    error = error if lam > 0.0 else wrong
    useful = 0.5 - error > GUESSING and right - wrong > max(GUESSING * (right + wrong), FLOOR)

    # The vote of the member.
    alpha = 1.0
    if useful:
        alpha = 0.5 * math.log(right / max(wrong, NO_ERROR * right)) if error > NO_ERROR else top
    down, up = math.exp(-alpha), math.exp(alpha)
    Z = right * down + wrong * up
    if useful:
        parts.map_inplace(_reweigh_rows, signs, lam, down / Z, up / Z, n_jobs=n_jobs)
    return error, alpha, Z, useful


def _draw_rows(D, y, rng):
    """How often each of n rows is drawn with the probabilities D: the running sums of n + 1
    exponential gaps, over their total, are n uniform points in ascending order. Drawn again, TRIES
    times at the most, while one of the classes is missing."""
    ends = np.cumsum(D)
    for _ in range(TRIES):
        points = np.cumsum(rng.standard_exponential(D.size + 1))
        below = np.searchsorted(points[:-1], ends[:-1] * points[-1], side="right")
        counts = np.diff(below, prepend=0, append=D.size).astype(np.float64)
        if abs(counts @ y) < D.size:
            break
    return counts


@jit(nogil=True)
def _fill_examples(weight, y, unit, drawn, shift, GH):
    """Examples as the trees want them, their weights in whole units: rows of any weight count once,
    but each time that they were drawn if these weights are numbers of draws."""
    for i in range(weight.size):
        w = np.int64(weight[i] * unit + 0.5)
        GH[i, 0] = -w if y[i] > 0.0 else w
        GH[i, 1] = (w << shift) + (w if drawn else 1)


def _fill_rows(part, full, shift):
    """Fill a part's GH with its examples."""
    _fill_examples(part.D, part.target, full, False, shift, part.GH)


def _weights(part):
    return part.weight


def _first_weights(part):
    return part.D


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


# -- estimator ----------------------------------------------------------------------------------
MOST_LEVELS = 10  # Trees that may be deeper are grown by one thread: small nodes cost a pass, too.
CELLS_A_THREAD = 400_000  # A thread is worth its while from so many cells of X on.


class AdaBoostNC(_Nested):
    """AdaBoost.NC: boosting with more weight where the members agree.

    Parameters
    ----------
    n_estimators : int >= 1
        Most members; fewer where a rule ends the run, see `reason_`.
    lam : float >= 0
        Strength of the penalty; 0 is AdaBoost. It helps strong members such as deep trees and harms
        weak ones such as stumps.
    base : "tree", "stump" or an object with fit and predict
        What the members are. An object is copied for each, its random_state, if it has one, set: it
        is given sample_weight (of mean 1) with mode="reweight", the drawn rows with "resample".
    max_depth : None or int >= 1
        Depth of a tree, None: any; a stump has 1.
    criterion : "error", "gini", "entropy" or "gain_ratio"
        What a split has to reduce. "gain_ratio": as in C4.5, among the features of at least average
        gain, the highest ratio of the gain and the entropy of the cut.
    min_samples_leaf : int >= 1
        Fewest rows in a leaf, whatever their weights.
    max_leaf_nodes : None or int >= 2
        Most leaves; the splits of the highest gain come first.
    min_impurity_decrease : float >= 0
        Least gain of a split, as part of the weight of all rows.
    prune : bool
        Whether subtrees become leaves where these have no more errors, by C4.5's pessimistic
        estimate at a confidence of 25 %; it counts rows, whatever their weights.
    max_bins : None or int from 2 to 256
        Most bins of a feature: splits are exact when it has no more values. None: always exact.
    mode : "resample" or "reweight"
        Whether a member gets a sample drawn with the weights, or the weights: then trees are the
        same to the last bit in any order of up to 100,000 rows.
    class_weight : None, "balanced" or dict
        Factor of the weights of each class; "balanced" makes the classes equal.
    n_jobs : None or int
        Threads, for trees of up to 10 levels and for prediction; None: 1, -1: as many as there are
        processors. No more are used than the rows are worth; no bit of a tree depends on it.
    random_state : None, int, RandomState or Generator
        Seed of the draws, and of members that have a seed.
    verbose : int
        1 prints one line after every round.
    callback : None or callable
        Called as callback(self, iteration, info) after every round; True stops. The model is then
        that of the members so far: it can predict.

    Attributes
    ----------
    weights_, errors_ (T,) : vote alpha_t and weighted error of each member
    nodes_, starts_ : the trees, one after the other, tree t from starts_[t] on
    estimators_ : list of the members instead, if base is an object
    feature_importances_ (d,) : gains of the splits on a feature, sum 1; trees only
    objective_, residual_ : penalised exponential loss; None: nothing certifies a greedy method
    n_iter_, trace_ : members, objective after each
    log_objective_, log_trace_ : natural logarithms, finite where the objective is below any number
    converged_, reason_ : whether the run came to its regular end, and why it ended
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = AdaBoostNC(lam=2.0, random_state=0).fit(X, y)
    >>> model.score(X, y), model.reason_

    The end once the accuracy on other rows has not risen for ten rounds:

    >>> seen = []
    >>> def has_settled(model, t, info):
    ...     seen.append(model.score(X_valid, y_valid))
    ...     return t > seen.index(max(seen)) + 10
    >>> model = AdaBoostNC(callback=has_settled, random_state=0).fit(X, y)
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
        """Train on X (n, d) and two classes y, or on row blocks; sample_weight are the weights to
        start from.

        A row of weight 2 is two rows (one for min_samples_leaf and prune), one of weight 0 none.
        """
        self._check_params()
        if hasattr(X, "fit_model"):  # Row blocks know how, see solvers/rows.
            return X.fit_model(self, y, sample_weight)
        rng = np.random.default_rng(self._seed())
        X, y, weight = self._check_fit(X, y, sample_weight)
        if not weight.all():
            X, y, weight = (part[weight > 0] for part in (X, y, weight))
        with rows_of(X, y, weight, self._threads_for(X)) as rows:
            return self._boost(rows, self._is_weighted(sample_weight), rng)

    def _boost(self, parts, is_weighted, rng):
        """Boost on rows as one block or as many."""
        n_jobs = self._threads()
        total = steady_total(partial(parts.map, n_jobs=n_jobs), _weights)
        parts.map_inplace(_set_weights, total, float(self.lam), n_jobs=n_jobs)
        if isinstance(self.base, str):
            train, pack = self._tree_learner(parts, is_weighted)
        else:
            train, pack = self._learner(parts, rng), None
        return self._run(parts, train, pack, rng)

    def _run(self, parts, train, pack, rng):
        """Table I: one member after the other."""
        n_jobs, lam = self._threads(), float(self.lam)
        members, alphas, errors, logs = [], [], [], []
        top = 0.0
        self.trace_, self.reason_ = [], ""
        shown = None if self.callback is None else _Shown(self, pack)
        while not self.reason_:
            # Table I: train member t on D_t, weigh it and make D_t+1.
            t = len(members) + 1
            for _ in range(TRIES if self.mode == "resample" else 1):
                counts = None
                if self.mode == "resample":
                    counts = _draw_rows(parts.D, parts.target, rng)
                member, signs = train(counts)
                error, alpha, Z, useful = _boost(parts, signs, t, lam, top or 1.0, n_jobs)
                if useful:
                    break
            if not useful:
                self.reason_ = USELESS
                if members:
                    break

            # Keep it, and see whether it is the last.
            members.append(member)
            alphas.append(alpha)
            errors.append(error)
            logs.append(math.log(Z) + (logs[-1] if logs else 0.0))
            top = max(top, alpha)
            if shown:
                shown.add(member, alpha)
            self.log_objective_ = logs[-1]
            if self._report(t, math.exp(logs[-1]), error=float(error)):
                self.reason_ = "the callback stopped it"
            elif useful and error <= NO_ERROR:
                self.reason_ = PERFECT
            elif useful and t == self.n_estimators:
                self.reason_ = FOUND
        self.weights_, self.errors_ = np.array(alphas), np.array(errors)
        self.log_trace_, self.trace_ = np.array(logs), np.exp(logs)
        self.residual_ = None
        self.converged_ = self.reason_ in (FOUND, PERFECT)
        self._keep(members, pack)
        if not useful and t == 1:
            warnings.warn(
                f"{type(self).__name__}: {USELESS} (weighted error {error:.3g}); the model is the "
                "first one alone. Stronger members may help: base='tree', a larger max_depth",
                ConvergenceWarning,
                stacklevel=4,
            )
        return self

    @property
    def _allow_nan(self):
        """Trees know what to do with missing values; an object, if it does not, says so itself."""
        return isinstance(self.base, str) or getattr(self.base, "_allow_nan", True)

    def _takes_nan(self):
        return isinstance(self.base, str) or takes_nan(self.base)

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
        """Margin y f(x) / sum of the votes' weights, in [-1, 1], (n,)."""
        decision = self.decision_function(X)
        signs = 2.0 * self._encode_labels(y, decision.size) - 1.0
        return signs * decision / self.weights_.sum()

    def error_correlation(self, X, y, weighted=False):
        """Covariance over the rows of member t and the vote of those before it being right, for
        t = 2 .. T. The members before t vote with equal weights, as in the paper (III.A), or
        weighted by alpha. It is that of one run: `error_covariance` of solvers/diversity.py takes
        it over repeated training samples."""
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

    def _lacks(self):
        """What would have to be set for members to need sums over rows only; None: nothing."""
        if not isinstance(self.base, str):
            return "base='tree' or 'stump'"
        if self.mode == "resample":
            return "mode='reweight'"
        return "max_bins of at most 256" if self.max_bins is None else None

    def _threads_for(self, X):
        """How many threads are worth their while."""
        is_deep = self.base == "tree" and (self.max_depth is None or self.max_depth > MOST_LEVELS)
        if self._lacks() or self.max_leaf_nodes or is_deep:
            return 1
        return max(1, min(self._threads(), X.size // CELLS_A_THREAD))

    def _tree_learner(self, parts, is_weighted):
        """Functions to train a tree, (counts) -> nodes, votes of the nodes of the rows, and to pack
        them."""
        is_stump = self.base == "stump"
        rules = Rules(
            CRITERIA[self.criterion], 1 if is_stump else self.max_depth, self.min_samples_leaf,
            self.max_leaf_nodes, float(self.min_impurity_decrease),
        )  # fmt: skip
        is_one, n_jobs = isinstance(parts, Rows), self._threads()
        if is_one:
            part = parts
            grower = Grower(part.X, self.max_bins, rules, part.D.copy() if is_weighted else None)
            part.node = grower.space.leaf
        else:
            total = steady_total(partial(parts.map, n_jobs=n_jobs), _first_weights)
            weigh = ("D", rounding(total)) if is_weighted else (None, 0.0)
            grower = parts.grower(self.max_bins, rules, weigh, n_jobs)
        shift = grower.data.shift

        def train(counts):
            if counts is not None:
                _fill_examples(counts, part.target, 1.0, True, shift, grower.data.GH)
            elif is_one:
                _fill_examples(part.D, part.target, grower.full, False, shift, grower.data.GH)
            nodes = grower.grow() if is_one else grower.grow(_fill_rows, grower.full, shift)
            if self.prune and not is_stump:
                prune(nodes, shift)
            signs = np.where(nodes["g"] <= 0, PLUS, MINUS)
            return nodes, signs if is_one else signs[grower.place]

        return train, grower.pack

    def _learner(self, parts, rng):
        """A function to train a copy of an object, (counts) -> the copy, votes of both sides; it
        gets the labels as they are."""
        part = parts
        X, labels = part.X, self.classes_[(part.target > 0).astype(np.intp)]

        def train(counts):
            member = seeded_copy(self.base, rng)
            if counts is not None:
                rows = np.repeat(np.arange(len(X)), counts.astype(np.intp))
                fit_member(member, X[rows], labels[rows])
            else:
                fit_member(member, X, labels, part.D * len(X), "set mode='resample'")
            side = np.asarray(member.predict(X)) == self.classes_[1]
            part.node = side.astype(np.int32)
            return member, np.array([MINUS, PLUS])

        return train

    def _member_vote(self, member, X):
        right = np.asarray(member.predict(X)) == self.classes_[1]
        return np.where(right, PLUS, MINUS)

    def _keep(self, members, pack):
        """Set the attributes that hold the members."""
        if pack is None:
            self.estimators_ = members
            return
        self.nodes_, self.starts_ = _pack_votes(pack, members)
        tree = np.repeat(np.arange(len(members)), np.diff(self.starts_))
        gain = np.bincount(tree, self.nodes_["gain"])
        share = self.weights_ / np.where(gain > 0, gain, 1.0)
        total = np.bincount(
            self.nodes_["feature"], self.nodes_["gain"] * share[tree], self.n_features_in_
        )
        self.feature_importances_ = total / total.sum() if total.any() else total

    def _each_vote(self, X):
        """Vote (n,) of one member after the other."""
        if hasattr(self, "estimators_"):
            for member in self.estimators_:
                yield self._member_vote(member, X)
        else:
            one = np.ones(1)
            for t in range(self.weights_.size):
                yield sum_trees(self.nodes_, self.starts_[t : t + 1], one, X, self._threads())

    def _votes(self, X):
        return np.array([*self._each_vote(X)], dtype=np.float64).reshape(-1, X.shape[0])


def _pack_votes(pack, trees):
    """The trees, packed, with votes in place of the values of the leaves."""
    nodes, starts = pack(trees)
    nodes["value"] = np.where(nodes["value"] >= 0, 1.0, -1.0)
    return nodes, starts


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


class _Shown:
    """The members so far as attributes of a model, for its callback."""

    def __init__(self, model, pack):
        self.model, self.pack = model, pack
        self.weights = Stack(np.zeros(0))
        self.nodes, self.starts = Stack(np.zeros(0, dtype=NODE)), Stack(np.zeros(1, dtype=np.int64))
        model.converged_ = False
        if pack is None:
            model.estimators_ = []

    def add(self, member, alpha):
        """One more member and its vote."""
        self.weights.append([alpha])
        self.model.weights_ = self.weights.entries
        if self.pack is None:
            self.model.estimators_.append(member)
        else:
            self.nodes.append(_pack_votes(self.pack, [member])[0])
            self.starts.append([self.nodes.entries.size])
            self.model.nodes_, self.model.starts_ = self.nodes.entries, self.starts.entries


class AdaBoost(AdaBoostNC):
    """AdaBoost: AdaBoost.NC without the penalty; parameters and attributes as there.

    Trees have depth 3 by default: a tree of any depth soon makes no error, which ends the run.

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

"""DRM: an ensemble of kernel machines trained together, diverse by a penalty on their angles.

Problem (minimised over w_1..w_T and rho_1..rho_T):

    1/T sum_t ( -nu rho_t + sum_i v_ti xi_ti^2 / sum_i v_ti )  +  mu sum_{t<s} |w_t + w_s|^2
    with  y_i w_t.phi(x_i) >= rho_t - xi_ti  and  |w_t| <= 1

    phi belongs to the kernel k + 1; the constant 1 is the bias. The example weights v_ti >= 0 are
    sample_weight, times the counts of the member's own draw if sampling="bootstrap". The ensemble
    is the mean of the members. T = 1 is the nu-SVM with squared slack (NuSVM).

Method    Algorithm 1 solves one member after the other, the others fixed. The member's dual (6) is
          solved by sequential minimal optimisation (SMO): pairs by second-order selection, O(n)
          per pair; the multiplier (7) of the norm bound is updated every hundred pairs. A sweep
          over the members ends with a certificate: the gap to a feasible point of the dual of the
          whole problem, rounding included. The fit stops on it. Kernel values are cached in single
          precision. Products at the end of a sweep are in double precision (in single precision if
          tol >= 1e-4 allows) and correct the next sweep, as in iterative refinement.
          solver="auto" adds faster routes. Equal samples have equal members at the optimum: one
          member is trained for all. If sweeps are slow, Newton's method on the support continues,
          O(support^3) per step. The linear kernel is solved by an interior point method in d + 1
          dimensions instead: about twenty steps of O(T n d^2) at any scales of the columns.
          Threads (n_jobs) share kernel values and products with them, chunk by chunk.
Reference Yu, Li, Zhou, "Diversity Regularized Machine", IJCAI 2011; Algorithm 1, equations (3)-(7).
Departs   mu counts each pair once. A member is not solved by alternating (6) and (7) to the end: it
          stops at a gradient tolerance that decreases from sweep to sweep, or after 20 pairs per
          row. Members are inexact, the certificate is not. Members without strong convexity (T = 2,
          or no active norm bound with T = 1 or mu = 0) get a small proximal term, which vanishes as
          they settle.
Symbols   paper          here       meaning                                             shape
          alpha_t        a          dual variables                                      (T, n)
          K * yy'        Q          (k + 1) y_i y_j, one matrix for all members         (n, n)
          w_t            b, M       w_t = sum_i b_ti y_i phi(x_i); its margins Q b_t    (T, n)
          (T-1) mu + l_t s          coefficient of |w_t|^2; l_t is lam, lambda_         (T,)
          -mu w~_t       q, Mq      linear term of a member, as b and M                 (n,)
          2 v / (T sum)  p, c       weight of half a squared slack; 1 / p               (T, n)
Use       m = DRM(n_estimators=21, sampling="bootstrap").fit(X, y); m.predict(X)
Origin    ensolve, solvers/drm.py, MIT licence
"""

import ast
import inspect
import math
import operator
import os
import re
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial, wraps
from typing import NamedTuple

import numpy as np
from numba import njit

LANES = {"reassoc", "contract", "nsz", "arcp"}  # Sums run in vector lanes; NaN is kept.
EPS = 2.0**-52  # Relative rounding of one operation in double precision.
SINGLE = 2.0**-23  # Relative rounding of one operation in single precision.
NONZERO = 1e-300  # Replaces a divisor of 0.
NEGLIGIBLE = 1e-10  # Relative size below which a change or a coefficient counts as 0.


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


# -- problem --------------------------------------------------------------------------------------
class _Problem(NamedTuple):
    """The problem in numbers. Its penalty is own sum_t |w_t|^2 + mu |sum_t w_t|^2."""

    p: np.ndarray  # (T, n), weight of half of each squared slack
    c: np.ndarray  # (T, n), 1 / p, and 0 outside the sample of a member
    nu: float
    total: float  # nu / T, the sum of a member's dual variables
    mu: float
    own: float
    sigma: float  # own + mu, the coefficient of |w_t|^2 with the other members fixed


def _problem(p, nu, mu, ridge=0.0):
    """Problem with slack weights p (T, n); `ridge` adds ridge sum_t |w_t|^2 to the penalty."""
    T = len(p)
    mu = mu if T > 1 else 0.0
    inside = p > 0
    c = np.where(inside, 1.0 / np.where(inside, p, 1.0), 0.0)
    return _Problem(p, c, nu, nu / T, mu, ridge + max(T - 2, 0) * mu, ridge + (T - 1) * mu)


# -- kernels: SMO on the dual of one member, equations (6) and (7) --------------------------------
TILE = 512  # Rows per tile; the best row is located in the tile with the best value only.
INT_ORDER = 2**63 - 1  # Xor with these bits sorts the bits of negative floats as integers.
MULTIPLIER_EVERY = 100  # Pairs between two updates of the multiplier.
WORKING_SET_GOAL = 0.1  # A partly cached problem loads other rows at 0.1 * initial violation.


class _Dual(NamedTuple):
    """Dual (6) of a member, the others fixed: minimise over a >= 0 with a given sum

    |sum_i a_i y_i phi(x_i) + 2 q|^2 / (4 s) + sum_i c_i a_i^2 / 2
    """

    c: np.ndarray
    lin: np.ndarray  # 2 Q q
    square: float  # |2 q|^2
    least: float  # s without a multiplier
    fixed: bool  # If True, s is constant.


class _CachedRows(NamedTuple):
    """Cached rows of Q: row i is table[slot[i]], or is missing if slot[i] = -1."""

    table: np.ndarray
    slot: np.ndarray
    diag: np.ndarray


class _SmoState(NamedTuple):
    """Arrays (n,) that SMO overwrites."""

    a: np.ndarray
    g: np.ndarray  # gradient of the dual plus exclude_offset
    exclude_offset: np.ndarray  # large if the row is not in the working set, else 0
    can_decrease: np.ndarray  # 1 if a > 0 and the row is cached, else 0
    gain: np.ndarray  # decrease of the dual by the pair with this row
    eta: np.ndarray  # second derivative of the dual


@jit(fastmath=LANES)
def _smo(cached, dual, state, s, unit, tol, max_pairs):
    """Alpha step (6): move weight from row j to row i, pair after pair, until no gradient of a row
    with weight exceeds the smallest one by more than tol.

    Overwrites the state. Unless fixed, s follows (7). `unit` scales gradients for the comparison
    of gains in single precision. Returns s and the number of pairs.
    """
    table, slot, diag = cached
    c = dual.c
    a, g, exclude_offset, can_decrease, gain, eta = state
    n = len(a)
    bits = gain.view(np.int32)
    order = g.view(np.int64)
    i = -1
    since_update = 1
    for pair in range(max_pairs):
        # After a change of s: all second derivatives and the smallest gradient.
        if i < 0:
            h = 0.5 / s
            i = 0
            for k in range(n):
                eta[k] = diag[k] * h + c[k]
                can_decrease[k] = 1.0 if a[k] > 0.0 and slot[k] >= 0 else 0.0
                if g[k] < g[i]:
                    i = k

        # Row i has the smallest gradient; row j gains most together with it.
        low = g[i]
        q_i = table[slot[i]]
        top = np.int32(0)
        start = 0
        for first in range(0, n, TILE):
            tile = slice(first, first + TILE)
            best = _pair_gains(g[tile], can_decrease[tile], eta[tile], q_i[tile], low, unit,
                               eta[i], h, gain[tile], bits[tile])  # fmt: skip
            if best > top:
                top = best
                start = first
        j = start
        while bits[j] != top and j < n - 1:  # The bound holds for NaN, too.
            j += 1

        # Optimality: gradients of rows with weight are within tol of the smallest.
        solved = top == 0
        if g[j] - low <= tol and not solved:
            high = low
            for k in range(n):
                if can_decrease[k] > 0 and g[k] > high:
                    high = g[k]
            solved = high - low <= tol
        if solved and (dual.fixed or since_update == 0):
            return s, pair
        if not dual.fixed and (solved or since_update == MULTIPLIER_EVERY):
            s = _update_multiplier(dual, state, s)
            i = -1
            since_update = 0
            continue

        # Step to the minimum along the pair, or to a_j = 0.
        q_j = table[slot[j]]
        step = (g[j] - low) / (h * (diag[i] + diag[j] - 2.0 * q_i[j]) + c[i] + c[j])
        if not step < a[j]:
            step = a[j]
            can_decrease[j] = 0.0
        a[i] += step
        a[j] -= step
        can_decrease[i] = 1.0

        # Gradient after the step; its smallest entry is the next i.
        g[i] += step * c[i]
        g[j] -= step * c[j]
        lowest = np.int64(INT_ORDER)
        start = 0
        for first in range(0, n, TILE):
            tile = slice(first, first + TILE)
            least = _update_gradient(g[tile], order[tile], q_i[tile], q_j[tile], step * h)
            if least < lowest:
                lowest = least
                start = first
        i = start
        while order[i] ^ ((order[i] >> 63) & INT_ORDER) != lowest and i < n - 1:
            i += 1
        since_update += 1
    return s, max_pairs


@jit(fastmath=LANES, inline="always")  # Two copies might sum in different orders.
def _update_multiplier(dual, state, s):
    """Lambda step (7): return the best s for the current a, so that |w| <= 1. Updates g to it."""
    a, g, exclude_offset = state.a, state.g, state.exclude_offset
    c, lin = dual.c, dual.lin
    square = dual.square
    for k in range(len(a)):
        square += a[k] * ((g[k] - c[k] * a[k] - exclude_offset[k]) * (2.0 * s) + lin[k])
    new = max(dual.least, 0.5 * math.sqrt(max(square, 0.0)))
    ratio = s / new
    for k in range(len(a)):
        rest = c[k] * a[k] + exclude_offset[k]
        g[k] = (g[k] - rest) * ratio + rest
    return new


@jit(inner=True, fastmath=LANES)
def _pair_gains(g, can_decrease, eta, q_i, low, unit, eta_i, h, gain, bits):
    """Fill the gains of the pairs (i, k), k in a tile; return the bits of the largest one."""
    twice = np.float32(2.0 * h)
    for k in range(len(g)):
        fall = np.float32((g[k] - low) * unit)
        value = fall * fall / (eta_i + eta[k] - twice * np.float32(q_i[k]))
        gain[k] = value if can_decrease[k] > 0 else np.float32(0.0)
    best = np.int32(0)
    for k in range(len(bits)):  # Bits of floats >= 0 have their order, and this vectorises.
        best = max(best, bits[k])
    return best


@jit(inner=True, fastmath=LANES)
def _update_gradient(g, bits, q_i, q_j, step):
    """Update a tile of the gradient; return its smallest entry as an integer of the same order."""
    for k in range(len(g)):
        g[k] += step * (np.float64(q_i[k]) - np.float64(q_j[k]))
    best = np.int64(INT_ORDER)
    for k in range(len(bits)):
        best = min(best, bits[k] ^ ((bits[k] >> 63) & INT_ORDER))
    return best


# -- certificate ----------------------------------------------------------------------------------
ROUNDINGS = 16.0  # Roundings of the terms of a sum that are assumed not to cancel.


class _Certificate(NamedTuple):
    """Objective of some members and its distance to a lower bound of the problem."""

    objective: float
    gap: float  # rounding included
    rounding_error: float  # contained in the gap
    rho: np.ndarray
    gram: np.ndarray  # inner products of the members
    scale: np.ndarray  # factor of each member that brings it into |w| <= 1

    @property
    def relative_gap(self):
        return self.gap / abs(self.objective)


class _Solution(NamedTuple):
    """Members with their certificate: w (T, n) are coefficients b, or (T, r) explicit vectors."""

    certificate: _Certificate
    lam: np.ndarray
    w: np.ndarray
    a: np.ndarray


def _certificate(problem, a, u, w, M, lam, sizes, length=1.0, rounding=EPS):
    """Certificate of the members w, scaled into |w| <= 1, by the better of two lower bounds.

    w and u = sum_i a_i y_i phi(x_i) are pairs of arrays whose products are the inner products:
    coefficients and values at each x, whose phi have the given lengths, or with explicit phi twice
    the vectors. `sizes` are the roots of sum_i a_i^2 |phi(x_i)|^2, and of the sum with b or of
    |w|^2: values have errors of ROUNDINGS * rounding of them if roundings are independent.
    """
    p, total, mu, own = problem.p, problem.total, problem.mu, problem.own
    off = ROUNDINGS * rounding
    A, B = sizes

    # The objective at the scaled members, each with its best rho.
    gram = w[0] @ w[1].T
    scale = 1.0 / np.sqrt(np.maximum(gram.diagonal() + off * B**2, 1.0))
    M = M * scale[:, None]
    w = [factor * scale[:, None] for factor in w]
    gram = gram * np.outer(scale, scale)
    B = B * scale
    rho = _best_rho(M, p, total)
    penalty = own * gram.trace() + mu * gram.sum()
    loss = 0.5 * (p * np.maximum(rho[:, None] - M, 0.0) ** 2).sum()
    objective = loss - total * rho.sum() + penalty
    slack = 0.5 * (a**2 / np.where(p > 0, p, np.inf)).sum()

    # First bound: the penalty is above its tangent at w; the rest is minimal on the unit spheres.
    rest = [x - 2.0 * (own * y + mu * y.sum(axis=0)) for x, y in zip(u, w, strict=True)]
    square = np.maximum((rest[0] * rest[1]).sum(axis=1), 0.0)
    size = np.sqrt(((length * rest[0]) ** 2).sum(axis=1))
    rounding_bound = off * (A + 2.0 * own * B)
    rounding_bound = rounding_bound + 2.0 * off * mu * B.sum()
    norm = np.sqrt(square + 2.0 * size * rounding_bound + rounding_bound**2)
    bound = -penalty - norm.sum()
    bound_error = (norm - np.sqrt(square)).sum()

    # Second bound: the dual at the multipliers lam of the norm bounds.
    d = own + lam
    if d.min() > NEGLIGIBLE * (d.max() + mu):
        U = u[0] @ u[1].T / np.outer(d, d)
        least = (U.diagonal() * d).sum() - mu * U.sum() / (1.0 + mu * (1.0 / d).sum())
        size = np.sqrt(((length * u[0]) ** 2).sum(axis=1))
        rounding_bound = 0.25 * (off * A * (2.0 * size + off * A) / d).sum()
        if -0.25 * least - lam.sum() - rounding_bound > bound:
            bound = -0.25 * least - lam.sum() - rounding_bound
            bound_error = rounding_bound

    # Rounding errors count as part of the gap.
    error = off * (A @ B + own * B @ B + mu * B.sum() ** 2)
    error += 4.0 * EPS * (loss + total * abs(rho).sum() + penalty + slack)
    gap = max(objective + slack - bound, bound_error) + error
    return _Certificate(float(objective), float(gap), float(error + bound_error), rho, gram, scale)


def _best_rho(M, p, total):
    """Minimiser (T,) of -total rho + sum_i p_i (rho - M_i)_+^2 / 2, by Newton from above."""
    rho = M.max(axis=1) + total / p.sum(axis=1)
    while True:
        below = np.where(M <= rho[:, None], p, 0.0)  # Never empty, however large M is.
        new = (total + (below * M).sum(axis=1)) / below.sum(axis=1)
        if not (new < rho).any():
            return rho
        rho = np.minimum(new, rho)


# -- kernel values and the cache of rows of Q -----------------------------------------------------
CHUNK_VALUES = 2**16  # Kernel values per chunk on one thread: they stay in the processor's cache.
THREAD_CHUNK_VALUES = 2**18  # Per chunk on several threads, which then wait for each other less.
MIN_VALUES_PER_THREAD = 2**19  # Below, starting a thread costs more than it saves.
CANCELLATION_LIMIT = 300.0  # Above this gamma (|x|^2 + |z|^2), |x - z|^2 is summed by coordinates,
EXP_NEGLIGIBLE = 60.0  # unless the kernel value is below exp(-60)
PRODUCT_ERROR = 1e-14  # in spite of this error relative to gamma (|x|^2 + |z|^2).
NEGATIVE = 1e-12  # Eigenvalues above -1e-12 * trace count as rounding.


def _chunks(n, width=None, n_threads=1):
    """Slices of n rows whose kernel values with `width` rows, default n, form one chunk."""
    values = CHUNK_VALUES if n_threads == 1 else THREAD_CHUNK_VALUES
    size = max(8, values // (width or n))
    return [slice(first, min(first + size, n)) for first in range(0, n, size)]


def _run_threads(function, chunks, n_threads):
    """[function(chunks of thread k) for each k]; neighbours go to different threads."""

    def run(k):
        with np.errstate(all="ignore"):  # Threads do not inherit NumPy's error state.
            return function(chunks[k::n_threads])

    if n_threads == 1:
        return [function(chunks)]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(run, range(n_threads)))


def _kernel_unit(diag):
    """Power of 4 near the largest k(x, x) + 1: in units of it, no kernel overflows a float32."""
    return 4.0 ** math.floor(0.5 * math.log2(max(diag.max(), NONZERO)))


class _KernelCache:
    """LRU cache of rows of Q = yy' * (k + 1) / unit, complete if all n rows fit."""

    def __init__(self, kernel_to_X, X, y, diag, megabytes, dtype, n_threads=1):
        n = y.size
        n_slots = min(n, max(2, int(megabytes * 2**20 / (n * np.dtype(dtype).itemsize))))
        self.kernel_to_X, self.X, self.y, self.n_threads = kernel_to_X, X, y, n_threads
        self.unit = _kernel_unit(diag)
        self.diag = diag / self.unit
        self.table = np.empty((n_slots, n), dtype)
        self.slot = np.full(n, -1)
        self.cached = _CachedRows(self.table, self.slot, self.diag)
        self.buffers = tuple(np.empty((3, n), np.float32))
        self.last_use = np.zeros(n_slots, np.int64)
        self.clock = 0
        self.complete = n_slots == n
        self.order, self.starts = self._group_equal_rows()
        if self.complete:
            self._fill()
            self.slot[:] = np.arange(n)

    def _group_equal_rows(self):
        """Order (n,) that puts equal x side by side, and the start of each x in it."""
        n, d = self.X.shape
        if d >= n:  # X may be a given kernel matrix, whose rows are no x.
            return np.arange(n), np.arange(n)
        order = (self.X * np.sqrt(np.arange(1.0, d + 1.0))).sum(axis=1).argsort()
        new = (self.X[order[1:]] != self.X[order[:-1]]).any(axis=1)
        return order, np.flatnonzero(np.append(True, new))

    def _fill(self):
        """Fill the table: the upper half by kernel values, the lower half by copies."""
        n = self.y.size
        table = self.table

        def upper(chunks):
            for rows in chunks:
                table[rows, rows.start :] = self.compute(rows, table.dtype, rows.start)
                end = -(-rows.stop // TILE) * TILE
                table[rows.stop : end, rows] = table[rows, rows.stop : end].T

        def lower(starts):  # Tiles stay in the processor's cache.
            for i in starts:
                for j in range(0, i, TILE):
                    table[i : i + TILE, j : j + TILE] = table[j : j + TILE, i : i + TILE].T

        _run_threads(upper, _chunks(n, n, self.n_threads), self.n_threads)
        _run_threads(lower, range(TILE, n, TILE), self.n_threads)

    def load(self, wanted):
        """Load the wanted rows into the table in place of the least recently used ones."""
        self.clock += 1
        held = self.slot[wanted]
        missing = wanted[held < 0]
        self.last_use[held[held >= 0]] = self.clock
        free = self.last_use.argsort(kind="stable")[: missing.size]
        self.slot[np.isin(self.slot, free)] = -1

        def fill(chunks):
            for rows in chunks:
                self.table[free[rows]] = self.compute(missing[rows], self.table.dtype)

        _run_threads(fill, _chunks(missing.size, self.y.size, self.n_threads), self.n_threads)
        self.slot[missing] = free
        self.last_use[free] = self.clock

    def compute(self, rows, dtype=np.float64, first=0):
        """Rows of Q, columns from `first` on, from new kernel values."""
        block = self.kernel_to_X(self.X[rows], dtype, first)
        block *= (self.y[rows, None] / self.unit).astype(block.dtype)
        block *= self.y[first:].astype(block.dtype)
        numbers = np.arange(self.y.size)[rows] - first
        block[np.arange(len(block)), numbers] = self.diag[rows]
        return block

    def multiply(self, *vectors, exact=False):
        """Q b for each row b of each array (T, n), from the table or from exact kernel values."""
        B = np.concatenate(vectors)
        use_table = self.complete and not (exact and self.table.dtype == np.float32)

        def add(chunks):
            out = np.zeros(B.shape)
            for rows in chunks:
                if use_table:
                    out += B[:, rows].astype(self.table.dtype) @ self.table[rows]
                else:  # Q is symmetric: each value serves twice.
                    block = self.compute(rows, np.float64, rows.start)
                    out[:, rows.start :] += B[:, rows] @ block
                    out[:, rows] += B[:, rows.stop :] @ block[:, len(block) :].T
            return out

        n = B.shape[1]
        out, *others = _run_threads(add, _chunks(n, n, self.n_threads), self.n_threads)
        for other in others:
            out += other
        return np.split(out, np.cumsum([len(b) for b in vectors])[:-1])

    def merge_equal_rows(self, b, Qb):
        """b and Qb with one entry per distinct x, so that phi of equal x cancel exactly."""
        signed = np.add.reduceat((b * self.y)[:, self.order], self.starts, axis=1)
        first = self.order[self.starts]
        return signed, Qb[:, first] * self.y[first]

    def certificate(self, problem, a, Qa, b, M, lam, rounding):
        """Certificate of members with coefficients b, from products of the given rounding."""
        sizes = [np.sqrt(x**2 @ abs(self.diag)) for x in (a, b)]
        length = np.sqrt(abs(self.diag[self.order[self.starts]]))
        u = self.merge_equal_rows(a, Qa)
        w = self.merge_equal_rows(b, M)
        return _certificate(problem, a, u, w, M, lam, sizes, length, rounding)


def _kernel_to(kind, Z, gamma, degree, coef0):
    """Return the function (X, dtype, first) -> k(X, Z[first:]) + 1; precomputed X is k(X, Z)."""
    if kind == "precomputed":
        return lambda X, dtype, first=0: (X[:, first:] + 1.0).astype(dtype, copy=False)

    # The linear kernel is the polynomial one of degree 1.
    if kind != "rbf":
        right = np.ascontiguousarray(Z.T)
        factor, shift, power = (1.0, 0.0, 1) if kind == "linear" else (gamma, coef0, degree)

        def polynomial(X, dtype, first=0):
            values = factor * (X @ right[:, first:]) + shift
            return (values**power + 1.0).astype(dtype, copy=False)

        return polynomial

    # One product of longer vectors gives -gamma |x - z|^2.
    centre = Z.mean(axis=0)
    root = math.sqrt(2.0 * gamma)
    scaled_Z = root * (Z - centre)
    squares_Z = 0.5 * (scaled_Z**2).sum(axis=1)
    largest = squares_Z.max(initial=0.0)
    right = np.ascontiguousarray(np.column_stack((scaled_Z, np.ones(len(Z)), -squares_Z)).T)

    def rbf(X, dtype, first=0):
        scaled = root * (X - centre)
        squares = 0.5 * (scaled**2).sum(axis=1)
        left = np.column_stack((scaled, -squares, np.ones(len(X))))
        values = left @ right[:, first:]
        if squares.max(initial=0.0) + largest > CANCELLATION_LIMIT:
            _sum_by_coordinates(values, X, Z[first:], gamma, squares, squares_Z[first:])
        np.minimum(values, 0.0, out=values)  # Rounding may leave values above 0.
        np.exp(values, out=values)
        values += 1.0
        return values.astype(dtype, copy=False)

    return rbf


@jit(nogil=True)
def _sum_by_coordinates(values, X, Z, gamma, squares, squares_Z):
    """Overwrite values = -gamma |x - z|^2 by sums over coordinates if the cancellation in products
    of long rows would show in the exponential."""
    for i in range(len(X)):
        for j in range(len(Z)):
            size = squares[i] + squares_Z[j]
            error = PRODUCT_ERROR * size
            if size > CANCELLATION_LIMIT and values[i, j] > -EXP_NEGLIGIBLE - error:
                total = 0.0
                for k in range(X.shape[1]):
                    total += (X[i, k] - Z[j, k]) ** 2
                values[i, j] = -gamma * total


def _mean_distance(X, weight, n_threads=1):
    """Weighted mean of |x_i - x_j| over all pairs; a row of weight 2 counts as two rows."""
    X = X - X.mean(axis=0)
    squares = (X**2).sum(axis=1)
    ones = np.ones(len(X))
    left = np.column_stack((-2.0 * X, squares, ones))
    right = np.ascontiguousarray(np.column_stack((X, ones, squares)).T)
    weight = weight / weight.max()
    totals = np.zeros(len(X))  # One per chunk: the order of the threads does not matter.

    def add(chunks):
        for rows in chunks:
            distance = left[rows] @ right[:, rows.start :]
            np.maximum(distance, 0.0, out=distance)
            np.sqrt(distance, out=distance)
            distance[:, : len(distance)] *= 0.5  # These columns hold both orders of a pair.
            totals[rows.start] = 2.0 * float(weight[rows] @ (distance @ weight[rows.start :]))

    _run_threads(add, _chunks(len(X), len(X), n_threads), n_threads)
    return float(np.cumsum(totals)[-1]) / weight.sum() ** 2


# >>> shared: scale 1
def scale_gamma(X, weight):
    """gamma="scale", 1 / (d * variance of X), where a row of weight 2 is two rows; 1 if X is
    constant."""
    mean = np.average(X, axis=0, weights=weight).mean()
    spread = np.average((X - mean) ** 2, axis=0, weights=weight).mean()
    return 1.0 / (X.shape[1] * spread) if spread > 0 else 1.0


# <<< shared: scale


def _psd_shift(K):
    """Diagonal shift that makes the symmetric K positive semidefinite, at most 10 times the
    smallest such shift; 0 if K is semidefinite up to rounding.

    The test is Cholesky's method, n^3 / 3 multiplications, on K with NEGATIVE of its trace added,
    each row and column in units of its own k(x, x).
    """
    n = len(K)
    diag = K.diagonal().copy()
    unit = np.sqrt(np.where(diag > 0.0, diag, 1.0))
    scaled = K / unit / unit[:, None]
    scaled[np.diag_indices(n)] += NEGATIVE * n
    shift = 0.0
    while True:
        try:
            np.linalg.cholesky(scaled)
            return shift
        except np.linalg.LinAlgError:
            shift = 10.0 * shift or NEGATIVE * n * float(abs(K).max())
            scaled = K + shift * np.eye(n)


# -- solver: Algorithm 1 --------------------------------------------------------------------------
PAIRS_PER_ROW = 20  # Maximum SMO pairs per row and member in a sweep.
PROXIMAL_WEIGHT = 1e-6  # Proximal term, times the mean |phi(x)|^2, without strong convexity.
FIRST_GRADIENT_TOL = 0.01  # First gradient tolerance, times nu; rho is at least nu / 2.
GRADIENT_TOL_DECAY = 0.3  # Each tolerance is at most 0.3 * the last one.
GAP_FRACTION = 0.1  # A sweep aims at 0.1 * tol; the gap is about quadratic in the tolerance.
SETTLED_FRACTION = 0.01  # Members have settled if a sweep moves them by less than 0.01 * tol * |w|,
SLOW_RATIO = 0.5  # or by more than 0.5 * the last move: they hardly approach each other then.
MIN_SINGLE_TOL = 1e-4  # From this tol on, products in single precision are tried first.
NEWTON_EVERY = 10  # Sweeps after which Newton's method is tried, if no member is capped before.


def _solve_member(cache, dual, a, Qa, s, tol, max_pairs):
    """SMO on one member; updates a and Qa = Q a (n,), returns s and the number of unused pairs."""
    c, lin = dual.c, dual.lin
    outside = c == 0
    goal = tol
    while max_pairs > 0:
        g = (Qa + lin) * (0.5 / s) + c * a
        unit = 1.0 / max(abs(g).max(), NONZERO)
        excluded = outside

        # With an incomplete cache, the rows that violate most are the working set.
        if not cache.complete:
            few = max(1, len(cache.table) // 4)
            inside = np.flatnonzero(c)
            order = inside[g[inside].argsort()]
            losing = order[a[order] > 0][-few:]
            violation = g[losing[-1]] - g[order[0]]
            if violation <= tol:
                break
            cache.load(np.union1d(order[:few], losing))
            goal = max(tol, WORKING_SET_GOAL * violation)
            excluded = outside | (cache.slot < 0)

        # The offset is above all gradients that other rows can have, also if s decreases.
        high = a.sum() * cache.diag.max() + abs(lin).max()
        exclude_offset = np.where(excluded, 8.0 * (1.0 / unit + high / (dual.least or s)), 0.0)
        g += exclude_offset
        state = _SmoState(a, g, exclude_offset, *cache.buffers)
        s, used = _smo(cache.cached, dual, state, s, unit, goal, max_pairs)
        np.subtract((g - c * a - exclude_offset) * (2.0 * s), lin, out=Qa)
        max_pairs -= used
        if cache.complete:
            break
    return s, max_pairs


def _sweep_members(cache, problem, a, Qa, b, M, lam, tol):
    """Solve every member once, all arrays in place; True if a member used up its pairs."""
    weak = PROXIMAL_WEIGHT * cache.diag.mean()
    eps = weak if problem.sigma < weak else 0.0
    least = problem.sigma + eps
    sum_b = b.sum(axis=0)
    sum_M = M.sum(axis=0)
    is_capped = False
    for t in range(len(a)):
        # Linear term: the other members, and with eps the member's last place.
        q = eps * b[t] - problem.mu * (sum_b - b[t])
        Mq = eps * M[t] - problem.mu * (sum_M - M[t])

        # Equations (6) and (7): dual variables and multiplier.
        dual = _Dual(problem.c[t], 2.0 * Mq, 4.0 * float(q @ Mq), least, False)
        start = least + float(lam[t])
        s, unused = _solve_member(cache, dual, a[t], Qa[t], start, tol, PAIRS_PER_ROW * a.shape[1])
        lam[t] = max(s - least, 0.0)
        is_capped = is_capped or unused == 0

        # Equation (5): the member.
        sum_b -= b[t]
        sum_M -= M[t]
        b[t] = (0.5 * a[t] + q) / s
        M[t] = (0.5 * Qa[t] + Mq) / s
        sum_b += b[t]
        sum_M += M[t]
    return is_capped


def _solve(cache, problem, tol, max_iter, report, paper=False, b=None):
    """Algorithm 1 from members b (T, n), default 0, with a certificate after each sweep.

    `paper` excludes Newton's method and continues while each sweep moves the members much less than
    the last one. Returns the _Solution with the smallest gap.
    """
    T, n = problem.p.shape
    a = problem.total * problem.p / problem.p.sum(axis=1)[:, None]
    b = np.zeros((T, n)) if b is None else b.copy()
    Qa, M = cache.multiply(a, b)
    lam = np.ones(T)
    gradient_tol = FIRST_GRADIENT_TOL * problem.nu
    last_change = np.inf
    single = tol >= MIN_SINGLE_TOL and cache.complete and cache.table.dtype == np.float32
    is_slow = stopped = False
    iteration, eps, best = 0, 0.0, None

    def on_iteration():
        """Count a sweep or a step of Newton's method; True if the fit must stop."""
        nonlocal iteration, stopped
        iteration += 1
        stopped = report(iteration, best.certificate) or iteration >= max_iter
        return stopped

    while not stopped:
        # Newton's method, with a proximal term that decreases if it converges, else a sweep.
        old_b, old_M = b.copy(), M.copy()
        is_capped, improved = False, None
        if is_slow:
            size = abs(best.certificate.objective)
            is_weak = (problem.own + lam).min() < LEAST_PROXIMAL * size
            eps = eps or FIRST_PROXIMAL * size * is_weak
            improved = _newton(cache, problem, a, b, M, lam, eps, on_iteration)
            eps = 0.1 * eps if improved else 30.0 * eps
            eps = max(eps, LEAST_PROXIMAL * size) * (is_weak or not improved)
        if stopped:
            break
        if improved:
            a, b, lam = improved
        else:
            is_capped = _sweep_members(cache, problem, a, Qa, b, M, lam, gradient_tol)

        # Certify, with products in single precision as long as their rounding allows.
        while True:
            Qa, M = cache.multiply(a, b, exact=not single)
            rounding = SINGLE if single else EPS
            certificate = cache.certificate(problem, a, Qa, b, M, lam, rounding)
            size = abs(certificate.objective)
            if not single or certificate.rounding_error <= GAP_FRACTION * tol * size:
                break
            single = False
        if paper or best is None or not certificate.relative_gap >= best.certificate.relative_gap:
            w = b * certificate.scale[:, None]
            best = _Solution(certificate, lam.copy(), w, a.copy())

        # Stop if the gap is small enough, or if most of it is rounding.
        gap = certificate.gap
        change = float(((b - old_b) * (M - old_M)).sum())
        unmoved = change <= (SETTLED_FRACTION * tol) ** 2 * float((b * M).sum())
        settled = unmoved or change > SLOW_RATIO**2 * last_change
        done = gap <= tol * size and (settled or not paper)
        if on_iteration() or done or certificate.rounding_error > max(0.5 * gap, tol * size):
            break

        # Continue with a smaller tolerance.
        is_slow = not paper and (is_slow or is_capped or iteration % NEWTON_EVERY == 0)
        gradient_tol *= min(GRADIENT_TOL_DECAY, math.sqrt(GAP_FRACTION * tol * size / gap))
        last_change = change
    return best


# -- solver: Newton's method if sweeps are slow ---------------------------------------------------
NEWTON_UNKNOWNS = 2500  # Maximum unknowns of Newton's method, which costs their cube.
NEWTON_STEPS = 40  # Maximum steps of Newton's method, which may cycle.
FIRST_PROXIMAL = 0.1  # First proximal term of Newton's method, times |objective|.
LEAST_PROXIMAL = 1e-4  # Smallest one without strong convexity, times |objective|.


def _newton(cache, problem, a, b, M, lam, eps, on_iteration):
    """Newton's method on the optimality conditions of all members, with proximal term eps at b.

    Returns a, b and lam, or None if it does not converge from here or must stop.
    """
    T = len(a)
    p, mu, own = problem.p, problem.mu, problem.own
    inside = p > 0
    support = a > 0
    try:
        for _ in range(NEWTON_STEPS):
            t, i = np.nonzero(support)  # Member and row of each unknown.
            if t.size > NEWTON_UNKNOWNS or on_iteration():
                break

            # With w = N (u + 2 eps w_old) / 2, the conditions are linear in a and rho.
            rows, position = np.unique(i, return_inverse=True)
            Q = cache.compute(rows)
            N = np.linalg.inv(np.diag(own + eps + lam) + mu)
            H = 0.5 * N[t[:, None], t] * Q[position][:, i]
            H[np.diag_indices(t.size)] += 1.0 / p[t, i]
            member = np.equal.outer(t, np.arange(T)).astype(float)
            solved = np.linalg.solve(H, np.column_stack((member, eps * (N @ M)[t, i])))
            per_rho = solved[:, :T]
            shift = solved[:, T]
            sums = member.T @ per_rho
            rho = np.linalg.solve(sums, problem.total + member.T @ shift)

            # The members of these a.
            new = np.zeros(a.shape)
            new[t, i] = per_rho @ rho - shift
            Qa = new[:, rows] @ Q
            new_b = N @ (0.5 * new + eps * b)
            new_M = N @ (0.5 * Qa + eps * M)
            gram = new_b @ new_M.T
            norm = np.sqrt(np.maximum(gram.diagonal(), 0.0))

            # Multipliers bring |w| to 1, or are 0; 1 / |w| is almost linear in them.
            bound = (lam > 0) | (norm > 1.0)
            if bound.any():
                a_by_lam = np.linalg.solve(H, N[t] * new_M[:, i].T)
                a_by_lam -= per_rho @ np.linalg.solve(sums, member.T @ a_by_lam)
                slope = 0.5 * (N[:, t] * new_M[:, i]) @ a_by_lam - N * gram
            while bound.any():
                step = np.where(bound, 0.0, -lam)
                right = norm**2 * (1.0 - norm) - slope @ step
                step[bound] = np.linalg.solve(slope[bound][:, bound], right[bound])
                if (lam + step >= 0.0).all():
                    break
                bound &= lam + step >= 0.0
            else:
                step = -lam

            # Converged if neither the support nor a multiplier changes.
            last_support = support
            support = inside & (new_M < rho[:, None])
            is_settled = (abs(step) <= NEGLIGIBLE * (own + eps + lam)).all()
            if is_settled and (last_support == support).all():
                new = np.maximum(new, 0.0)  # Rounding may have made it infeasible.
                return new * (problem.total / new.sum(axis=1))[:, None], new_b, lam
            lam = lam + step
    except np.linalg.LinAlgError:
        pass
    return None


# -- solver: interior point method with explicit phi, for the linear kernel -----------------------
MAX_EXPLICIT = 2e10  # Maximum T n (d + 1)^2, the cost of a step, for the linear kernel.
CORRECTABLE = 1e-3  # Relative error of coefficients up to which they are corrected, not made anew.
INTERIOR_RIDGE = 1e-15  # Added to the matrix of a step, relative to its diagonal.
STEP_TO_BOUNDARY = 0.995  # Fraction of the step to the nearest bound.
MAX_STALLED_STEPS = 30  # Steps without a better certificate before giving up.


class _LinearFeatures:
    """y phi(x), phi(x) = (x, 1), with the mean kept apart, so that large offsets do not cancel.

    `coordinates` (n, r) refer to an orthonormal `basis` (d + 1, r) of the span.
    """

    def __init__(self, X, y):
        self.y = y
        self.mean = np.append(X.mean(axis=0), 1.0)
        self.X = X - self.mean[:-1]
        columns = np.column_stack((self.mean, np.vstack((self.X.T, np.zeros(len(y))))))
        self.basis, images = np.linalg.qr(columns)
        self.squares = (self.X**2).sum(axis=1) + 1.0
        self.coordinates = (images[:, 1:] + images[:, :1]).T * y[:, None]

    def margins(self, W):
        """y_i w.phi(x_i), (T, n)."""
        middle = W.astype(np.longdouble) @ self.mean.astype(np.longdouble)
        return self.y * (W[:, :-1] @ self.X.T + middle.astype(np.float64)[:, None])

    def weighted_sum(self, a):
        """sum_i a_i y_i phi(x_i), (T, d + 1)."""
        a = a * self.y
        middle = a.sum(axis=1, dtype=np.longdouble)[:, None] * self.mean
        return (np.column_stack((a @ self.X, np.zeros(len(a)))) + middle).astype(np.float64)


def _coefficients(features, problem, solution):
    """b (T, n) with sum_i b_i y_i phi(x_i) = w.

    Starts from (5), or from 0 if that is far off. The least correction follows, if possible among
    the rows with a > 0.
    """
    _, lam, W, a = solution
    matrix = np.diag(np.maximum(problem.own + lam, NONZERO)) + problem.mu
    b = 0.5 * np.linalg.solve(matrix, a)
    if not abs(W - features.weighted_sum(b)).max() <= CORRECTABLE * abs(W).max():
        b = np.zeros(a.shape)
    for rows in (a.any(axis=0), np.ones(a.shape[1], bool)):
        rest = (W - features.weighted_sum(b)) @ features.basis
        b[:, rows] += np.linalg.lstsq(features.coordinates[rows].T, rest.T, rcond=None)[0].T
        if abs(W - features.weighted_sum(b)).max() <= NEGLIGIBLE * abs(W).max():
            break
    return b


class _InteriorPoint(NamedTuple):
    """A point inside all bounds, or a direction from it.

    The slacks xi = a / p and the surpluses h = margin + xi - rho are above 0; (1, w) and its
    multiplier z = (2 lam, -2 lam w) are in the cone |w| <= 1.
    """

    w: np.ndarray
    rho: np.ndarray
    z: np.ndarray
    xi: np.ndarray
    h: np.ndarray


def _interior(features, problem, tol, max_iter, report):
    """Primal-dual interior point method on the problem with explicit phi.

    All products, xi h and s.z / sum p, go to 0 together. Returns the best _Solution.
    """
    F = features.coordinates
    point = _interior_start(F, problem)
    best = None
    for iteration in range(1, max_iter + 1):
        # Certify; stop if the gap is small enough or does not improve.
        solution = _explicit_certificate(features, problem, point, tol)
        if best is None or solution.certificate.gap < best.certificate.gap:
            best = solution
            best_iteration = iteration
        gap, objective = best.certificate.gap, best.certificate.objective
        if report(iteration, best.certificate) or gap <= tol * abs(objective):
            break
        if iteration - best_iteration == MAX_STALLED_STEPS:
            break

        # One step, unless rounding prevents it.
        try:
            direction, step = _InteriorStep(F, problem, point).predictor_corrector()
        except np.linalg.LinAlgError:
            break
        if not (step > 0.0 and np.isfinite(direction.w).all()):
            break
        point = _InteriorPoint(*(x + step * dx for x, dx in zip(point, direction, strict=True)))
    return best


def _explicit_certificate(features, problem, point, tol):
    """_Solution at the members of a point, with the better of two dual points.

    The dual point of the slacks of these members is sparse; that of the method's xi is tried if
    the first one is not good enough.
    """
    W = point.w @ features.basis.T
    W /= np.maximum(np.sqrt((W**2).sum(axis=1)), 1.0)[:, None]
    M = features.margins(W)
    lam = 0.5 * point.z[:, 0]
    rho = _best_rho(M, problem.p, problem.total)
    solutions = []
    for slack in (np.maximum(rho[:, None] - M, 0.0), point.xi):
        a = problem.p * slack
        if not a.sum(axis=1).min() > 0.0:
            continue  # Margins are so large that rounding hides every slack.
        a *= problem.total / a.sum(axis=1)[:, None]
        u = features.weighted_sum(a)
        sizes = np.sqrt(a**2 @ features.squares), np.sqrt((W**2).sum(axis=1))
        certificate = _certificate(problem, a, (u, u), (W, W), M, lam, sizes)
        solutions.append(_Solution(certificate, lam, W * certificate.scale[:, None], a))
        if certificate.gap <= tol * abs(certificate.objective):
            break
    return min(solutions, key=lambda solution: solution.certificate.gap)


def _interior_start(F, problem):
    """First point: members of equal slacks, at distances from all bounds of the typical slack."""
    p, own, mu = problem.p, problem.own, problem.mu
    P = p.sum(axis=1)
    u = (problem.total * p / P[:, None]) @ F
    length = np.sqrt((u**2).sum(axis=1))
    w = u / np.maximum(2.0 * np.maximum(own + mu * len(p), length), NONZERO)[:, None]
    M = w @ F.T
    rho = _best_rho(M, p, problem.total)
    typical = np.sqrt((p * (M - rho[:, None]) ** 2).sum(axis=1) / P)[:, None]
    xi, h = (np.maximum(side * (rho[:, None] - M), 0.0) + typical for side in (1.0, -1.0))
    z = np.column_stack((length, 2.0 * (own * w + mu * w.sum(axis=0)) - (p * xi) @ F))
    z[:, 0] = 2.0 * np.sqrt((z[:, 1:] ** 2).sum(axis=1)) + problem.total * typical[:, 0]
    return _InteriorPoint(w, rho, z, xi, h)


class _InteriorStep:
    """Step of the interior point method at a point, all unknowns but w eliminated.

    Raises LinAlgError if rounding has brought the point to the boundary.
    """

    def __init__(self, F, problem, point):
        self.F, self.problem, self.point = F, problem, point
        self._set_scaling()
        self._set_system()

    def _set_scaling(self):
        """Set the Nesterov-Todd scaling at s = (1, w) and z; its square is eta (2 bar bar' - J)."""
        w, z = self.point.w, self.point.z
        s = np.column_stack((np.ones(len(w)), w))
        det_s = _cone_det(s)
        det_z = _cone_det(z)
        if not min(det_s.min(), det_z.min()) > 0.0:
            raise np.linalg.LinAlgError("the point is not inside the cone")
        root_s = np.sqrt(det_s)[:, None]
        root_z = np.sqrt(det_z)[:, None]
        bar = s / root_s + z / root_z * np.append(1.0, -np.ones(w.shape[1]))
        bar /= np.sqrt(_cone_det(bar))[:, None]
        self.s = s
        self.scaling = bar, (root_s / root_z)[:, 0]
        self.scaled = _apply_scaling(z, *self.scaling)  # Equal to the inverse scaling of s.

    def _set_system(self):
        """Set the inverse (T, r, r) of each member's matrix, and `joint` of their sum if mu > 0."""
        F, problem, point = self.F, self.problem, self.point
        bar, eta = self.scaling
        eye = np.eye(F.shape[1])
        self.xi_plus_h = point.xi + point.h
        tau = problem.p * point.xi / self.xi_plus_h
        self.weight = tau.sum(axis=1)
        self.mean = (tau @ F) / self.weight[:, None]
        B = np.empty((len(bar), len(eye), len(eye)))
        for t in range(len(bar)):
            R = F - self.mean[t]
            B[t] = (R.T * tau[t]) @ R + (2.0 * problem.own + 1.0 / eta[t]) * eye
            B[t] += (2.0 / eta[t]) * np.outer(bar[t, 1:], bar[t, 1:])
        if not np.isfinite(B).all():
            raise np.linalg.LinAlgError("the matrix is not finite")

        # Inverted in units of the diagonal.
        unit = 1.0 / np.sqrt(B.diagonal(axis1=1, axis2=2))
        unit = unit[:, :, None] * unit[:, None, :]
        self.inverse = np.linalg.inv(B * unit + INTERIOR_RIDGE * eye) * unit
        mu = problem.mu
        self.joint = np.linalg.inv(eye + 2.0 * mu * self.inverse.sum(axis=0)) if mu > 0 else None

    def predictor_corrector(self):
        """Direction of predictor and corrector, and the step length along it."""
        F, problem, s = self.F, self.problem, self.s
        w, rho, z, xi, h = self.point
        p = problem.p
        P = p.sum(axis=1)

        # Residuals of the equations, and the mean of all products.
        slope = 2.0 * (problem.own * w + problem.mu * w.sum(axis=0))
        dual_residual = slope - (p * xi) @ F - z[:, 1:]
        sum_residual = (p * xi).sum(axis=1) - problem.total
        primal_residual = w @ F.T + xi - rho[:, None] - h
        residuals = dual_residual, sum_residual, primal_residual
        mean_product = ((p * xi * h).sum() + (s * z).sum()) / (2.0 * P.sum())

        # The predictor aims at products of 0.
        rhs_h = -xi * h
        rhs_cone = -_jordan_product(self.scaled, self.scaled)
        direction, step = self._direction(residuals, rhs_h, rhs_cone)

        # The corrector aims at products that the predictor can reach, and corrects its curvature.
        ds = np.column_stack((np.zeros(len(w)), direction.w))
        reached = (p * (xi + step * direction.xi) * (h + step * direction.h)).sum()
        reached += ((s + step * ds) * (z + step * direction.z)).sum()
        ratio = min(1.0, max(reached / (2.0 * P.sum() * mean_product), 0.0))
        mu_target = mean_product * ratio**3
        rhs_h = mu_target - xi * h - direction.xi * direction.h
        scaled_ds = _apply_scaling(ds, *self.scaling, inverse=True)
        rhs_cone -= _jordan_product(scaled_ds, _apply_scaling(direction.z, *self.scaling))
        rhs_cone[:, 0] += mu_target * P
        return self._direction(residuals, rhs_h, rhs_cone)

    def _direction(self, residuals, rhs_h, rhs_cone):
        """Direction that removes the residuals and changes the products by rhs_h and rhs_cone, and
        the step length that stays inside all bounds."""
        p, point, mean = self.problem.p, self.point, self.mean
        dual_residual, sum_residual, primal_residual = residuals

        # The members.
        e = (rhs_h - point.xi * primal_residual) / self.xi_plus_h
        pe = (p * e).sum(axis=1)
        cone = _apply_scaling(_jordan_divide(rhs_cone, self.scaled), *self.scaling, inverse=True)
        right = (p * e) @ self.F - dual_residual - (sum_residual + pe)[:, None] * mean + cone[:, 1:]
        dw = np.einsum("tij,tj->ti", self.inverse, right)
        if self.joint is not None:
            dw -= 2.0 * self.problem.mu * self.inverse @ (self.joint @ dw.sum(axis=0))

        # The other unknowns.
        ds = np.column_stack((np.zeros(len(dw)), dw))
        scaled_ds = _apply_scaling(ds, *self.scaling, inverse=True)
        dz = cone - _apply_scaling(scaled_ds, *self.scaling, inverse=True)
        drho = ((self.weight[:, None] * mean * dw).sum(axis=1) - sum_residual - pe) / self.weight
        dM = dw @ self.F.T - drho[:, None]
        dxi = e - point.xi / self.xi_plus_h * dM
        dh = dM + dxi + primal_residual
        rates = [-dxi / point.xi, -dh / point.h]
        rates += [_inverse_step_to_cone(self.s, ds), _inverse_step_to_cone(point.z, dz)]
        step = min(STEP_TO_BOUNDARY / max(STEP_TO_BOUNDARY, float(rate.max())) for rate in rates)
        return _InteriorPoint(dw, drho, dz, dxi, dh), step


def _cone_det(x):
    """x_0^2 - |x_1|^2 of each row, above 0 inside the cone."""
    size = np.sqrt((x[:, 1:] ** 2).sum(axis=1))
    return (x[:, 0] - size) * (x[:, 0] + size)


def _jordan_product(x, y):
    """Product of the cone's Jordan algebra, row by row."""
    rest = x[:, :1] * y[:, 1:] + y[:, :1] * x[:, 1:]
    return np.column_stack(((x * y).sum(axis=1), rest))


def _jordan_divide(x, y):
    """Solution v of _jordan_product(v, y) = x, row by row."""
    first = (y[:, 0] * x[:, 0] - (y[:, 1:] * x[:, 1:]).sum(axis=1)) / _cone_det(y)
    return np.column_stack((first, (x[:, 1:] - first[:, None] * y[:, 1:]) / y[:, :1]))


def _apply_scaling(x, bar, eta, inverse=False):
    """Nesterov-Todd scaling root(eta) (2 v v' - J), or its inverse, times each row."""
    v = bar + np.eye(1, bar.shape[1])
    v /= np.sqrt(2.0 * v[:, :1])
    if inverse:
        v[:, 1:] *= -1.0
    out = 2.0 * (v * x).sum(axis=1)[:, None] * v + x
    out[:, 0] -= 2.0 * x[:, 0]
    return out * (np.sqrt(eta) ** (-1.0 if inverse else 1.0))[:, None]


def _inverse_step_to_cone(x, dx):
    """1 / step at which x + step dx reaches the boundary of the cone, row by row; <= 0 if never."""
    middle = (x[:, 0] * dx[:, 0] - (x[:, 1:] * dx[:, 1:]).sum(axis=1)) / _cone_det(x)
    inside = middle**2 - _cone_det(dx) / _cone_det(x)
    return np.where(inside >= 0.0, -middle + np.sqrt(np.maximum(inside, 0.0)), 0.0)


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


# -- estimator ------------------------------------------------------------------------------------
ASYMMETRY = 1e-8  # Allowed in a given kernel matrix, relative to entry and lengths.
KERNEL_LIMIT = 1e150  # Squares of smaller kernel values are finite.


class DRM(_Estimator):
    """Diversity regularized machine.

    Use it for kernel machines kept apart by their angles, with sampling="bootstrap".

    Parameters
    ----------
    n_estimators : int >= 1
        Number of members T.
    nu : float > 0
        Weight of the margin rho against the squared slacks.
    mu : float >= 0
        Weight of the diversity term. Without bootstrap it equals a ridge penalty
        2 mu T (T - 1) |w|^2; if it is too large, only the majority class is predicted.
    kernel : "rbf", "linear", "poly" or "precomputed"
        exp(-gamma |x - z|^2), x.z, (gamma x.z + coef0)^degree, or X itself: a symmetric kernel
        matrix (n, n) to fit, (rows, n) to predict. A constant 1 is added for the bias. If a given
        matrix has negative eigenvalues, its diagonal is raised, and the fit never converges.
    gamma : "mean_distance", "scale" or float > 0
        Coefficient of the rbf and poly kernels. "mean_distance" is the paper's 1 / (2 w^2), w the
        mean distance between training rows; "scale" is 1 / (d * variance of X).
    degree : int >= 1
        Degree of the poly kernel.
    coef0 : float >= 0
        Constant in the poly kernel.
    sampling : None or "bootstrap"
        None is the paper's model, whose members are all equal at the optimum. "bootstrap" gives
        each member its own sample, and the members differ.
    solver : "auto" or "alternating"
        "alternating" is Algorithm 1 with all members, until they settle. "auto" trains one member
        if all samples are equal, and uses Newton's method if Algorithm 1 is slow.
    cache_size : float > 0
        Megabytes for kernel values. The default holds all of n = 11,000 rows; beyond, rows are
        computed again when they are needed.
    tol : float > 0
        Tolerance for `residual_`.
    max_iter : int >= 1
        Maximum number of iterations: sweeps over the members, steps of Newton's method and of the
        interior point method.
    class_weight : None, "balanced" or dict
        Factor per class, multiplied into sample_weight. "balanced" gives all classes the same
        total weight.
    n_jobs : None or int
        Maximum number of threads for kernel values; None means 1, -1 all processors. Small data
        use fewer. Results agree within the certified gap.
    random_state : None, int, RandomState or Generator
        Seed of the bootstrap.
    verbose : int
        If 1, print one line per iteration.
    callback : None or callable
        Called as callback(self, iteration, info) after every iteration. True stops the fit with
        the last certified members.

    Attributes
    ----------
    dual_coef_ (T, n) : w_t = sum_i dual_coef_[t, i] phi(x_i), labels included
    alpha_ (T, n) : dual point that certifies residual_: >= 0, each row sums to nu / T
    coef_ (T, d), intercept_ (T,) : the members, with the linear kernel and "auto"
    support_ : training rows with a coefficient; support_vectors_ : their X, if not precomputed
    rho_ (T,), lambda_ (T,) : margins; multipliers of the norm bounds, 0 if |w_t| < 1
    gram_ (T, T) : inner products of the members
    gamma_ : coefficient of the rbf and poly kernels
    weights_ (T,) : 1 / T each
    objective_, residual_ : value of the problem, below 0; certified duality gap, rounding
        included, / |objective_|, infinite without a certificate
    n_iter_, converged_, trace_ : iterations, residual_ <= tol, objective per iteration
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = DRM(n_estimators=5, sampling="bootstrap", random_state=0).fit(X, y)
    >>> model.score(X_test, y_test), model.residual_ <= model.tol
    """

    _param_rules = {
        "n_estimators": "an integer >= 1",
        "nu": "a finite number > 0",
        "mu": "a finite number >= 0",
        "kernel": "one of 'rbf', 'linear', 'poly', 'precomputed'",
        "gamma": "'mean_distance', 'scale' or a finite number > 0",
        "degree": "an integer >= 1",
        "coef0": "a finite number >= 0",
        "sampling": "one of None, 'bootstrap'",
        "solver": "one of 'auto', 'alternating'",
        "cache_size": "a finite number > 0",
        "tol": "a number > 0",
        "max_iter": "an integer >= 1",
    }

    def __init__(
        self, n_estimators=21, nu=0.5, mu=1e-5, kernel="rbf", gamma="mean_distance", degree=3,
        coef0=1.0, sampling=None, solver="auto", cache_size=500.0, tol=1e-6, max_iter=200,
        class_weight=None, n_jobs=1, random_state=None, verbose=0, callback=None,
    ):  # fmt: skip
        self._set(locals())

    @restore_on_failure
    def fit(self, X, y, sample_weight=None):
        """Train on X (n, d) and two classes y; a row of sample_weight 2 counts as two rows."""
        self._check_params()
        X, y, weight = self._check_fit(X, y, sample_weight)
        n = len(X)
        used = np.flatnonzero(weight)
        self.trace_ = []
        with np.errstate(all="ignore"):  # Values that are not finite get no certificate.
            X, shift = self._check_kernel(X)
            if used.size < n:  # Rows of weight 0 are left out.
                X = X[np.ix_(used, used)] if self.kernel == "precomputed" else X[used]
                y = y[used]
                weight = weight[used]
            n_threads = self._n_threads(n * n // 2)
            self._set_gamma(X, weight, n_threads)
            diag = self._diagonal(X)
            p, ridge, members = self._members(weight)

            # In units of the kernel, phi is about 1 long.
            is_explicit = self._is_explicit(X, len(p))
            unit = 1.0 if is_explicit else _kernel_unit(diag)
            root = math.sqrt(unit)
            problem = _problem(p, float(self.nu) / root, float(self.mu) / unit, ridge / unit)

            def report(iteration, certificate):
                gap = certificate.relative_gap
                residual = gap if gap >= 0.0 and not shift else math.inf
                return self._report(iteration, unit * certificate.objective, residual=residual)

            # Interior point method with explicit phi, else Algorithm 1 on cached kernel values.
            limits = self.tol, self.max_iter, report
            if is_explicit:
                features = _LinearFeatures(X, y)
                solution = _interior(features, problem, *limits)
                b = _coefficients(features, problem, solution)
                self.coef_ = solution.w[members, :-1]
                self.intercept_ = solution.w[members, -1]
            else:
                paper = self.solver == "alternating"
                options = self.cache_size, np.float64 if paper else np.float32, n_threads
                cache = _KernelCache(self._kernel_to(X), X, y, diag, *options)
                solution = _solve(cache, problem, *limits, paper)
                b = solution.w
            certificate, lam, _, a = solution
            rho, gram = certificate.rho * root, certificate.gram
            self._set_fitted(members, used, n, (lam * unit, rho, gram, b / root * y, a * root))
        if self.kernel != "precomputed":
            self.support_vectors_ = X[np.searchsorted(used, self.support_)]
        if not self.converged_:
            self._warn(shift, certificate)
        return self

    def _n_threads(self, n_values):
        """Number of threads that n_jobs allows and the number of kernel values pays for."""
        return max(min(self._threads(), n_values // MIN_VALUES_PER_THREAD), 1)

    def _members(self, weight):
        """Slack weights p of the members to train, the ridge on |w|^2, and the index (T,) of each
        member of the ensemble among them: all 0 if "auto" trains one member for equal samples."""
        T, n, ridge = self.n_estimators, weight.size, 0.0
        members = np.arange(T)
        if self.sampling == "bootstrap":
            rng = np.random.default_rng(self._seed())
            counts = [np.bincount(rng.integers(0, n, n), minlength=n) for _ in members]
            v = np.array(counts) * weight
        elif self.solver == "alternating":
            v = np.repeat(weight[None], T, axis=0)
        else:
            v = weight[None]
            ridge = 2.0 * float(self.mu) * T * (T - 1)
            members = np.zeros(T, np.intp)
        return 2.0 / len(v) * v / v.sum(axis=1)[:, None], ridge, members

    def _is_explicit(self, X, T):
        """True if "auto" uses explicit phi: the linear kernel, if that is cheap for T members."""
        columns = min(X.shape[1], len(X)) + 1
        is_cheap = T * len(X) * columns**2 <= MAX_EXPLICIT
        return self.kernel == "linear" and self.solver == "auto" and is_cheap

    def _set_fitted(self, members, used, n, solution):
        """Set the fitted attributes; equal members share the multipliers of the one trained."""
        lam, rho, gram, coef, a = solution
        T = len(members)
        n_copies = T // len(rho)
        self.weights_ = np.full(T, 1.0 / T)
        self.rho_ = rho[members]
        self.lambda_ = lam[members] / n_copies
        self.gram_ = gram[np.ix_(members, members)]
        self.dual_coef_, self.alpha_ = np.zeros((2, T, n))
        self.dual_coef_[:, used] = coef[members]
        self.alpha_[:, used] = a[members] / n_copies
        self.support_ = np.flatnonzero(self.dual_coef_.any(axis=0))
        self.trace_ = np.array(self.trace_)
        self.converged_ = bool(self.residual_ <= self.tol)

    def _warn(self, shift, certificate):
        """Warn that the gap is above tol, with the cause and a remedy."""
        rounding = certificate.rounding_error / abs(certificate.objective)
        remedy = f"raise max_iter={self.max_iter} or mu, or scale X"
        if rounding > 0.5 * self.tol:
            remedy = f"rounding alone is {rounding:.1e} of it: scale and centre X, or raise tol"
        text = (
            f" stopped after {self.n_iter_} iterations with residual {self.residual_:.1e} "
            f"(tol={self.tol:g}); {remedy}"
        )
        if shift:
            text = (
                ": the kernel matrix is not positive semi-definite, so the problem is not convex "
                f"and no result can be certified; fitted with {shift:.1g} added to its diagonal. "
                "Pass a kernel without negative eigenvalues"
            )
        warnings.warn(type(self).__name__ + text, ConvergenceWarning, stacklevel=4)

    def votes(self, X):
        """Outputs of the members, (n, T)."""
        X = self._check_X(X)
        if hasattr(self, "coef_"):
            return X @ self.coef_.T + self.intercept_
        if self.kernel == "precomputed":
            X = X[:, self.support_]
            kernel = self._kernel_to(None)
        else:
            kernel = self._kernel_to(self.support_vectors_)
        coef = self.dual_coef_[:, self.support_].T
        out = np.empty((len(X), len(self.dual_coef_)))

        def vote(chunks):
            for rows in chunks:
                out[rows] = kernel(X[rows], np.float64) @ coef

        n_threads = self._n_threads(len(X) * len(coef))
        _run_threads(vote, _chunks(len(X), len(coef), n_threads), n_threads)
        return out

    def decision_function(self, X):
        """Mean of the members' outputs, (n,)."""
        return self.votes(X) @ self.weights_

    def facts(self):
        """Statistics of the fit for the report."""
        facts = {"% of members at the norm bound": 100.0 * float((self.lambda_ > 0).mean())}
        pairs = np.triu_indices(len(self.gram_), 1)
        if pairs[0].size:
            square = self.gram_.diagonal()
            cosine = self.gram_ / np.maximum(np.sqrt(np.outer(square, square)), NONZERO)
            angles = np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))
            facts["mean pairwise angle in degrees"] = float(angles[pairs].mean())
        return facts

    def _is_consistent(self, has):
        T, d, given = self.weights_.size, self.n_features_in_, self.kernel == "precomputed"
        good = T >= 1 and has("weights_", (T,))
        if hasattr(self, "coef_"):
            good = good and self.kernel == "linear" and has("intercept_", (T,))
            return good and has("coef_", (T, d))
        if self.kernel in ("rbf", "poly"):
            good = good and type(self.gamma_) is float and 0 < self.gamma_ < math.inf
        good = good and has("dual_coef_", (T, d if given else None))
        good = good and has("support_", (None,), below=self.dual_coef_.shape[1])
        return good and (given or has("support_vectors_", (self.support_.size, d)))

    def _set_gamma(self, X, weight, n_threads):
        """Set gamma_ if the kernel has one."""
        if self.kernel in ("precomputed", "linear"):
            return
        if self.gamma == "mean_distance":
            width = _mean_distance(X, weight, n_threads)
            self.gamma_ = 1.0 / (2.0 * width**2) if width > 0 else 1.0
        else:
            self.gamma_ = float(scale_gamma(X, weight) if self.gamma == "scale" else self.gamma)

    def _kernel_to(self, Z):
        gamma = getattr(self, "gamma_", None)
        return _kernel_to(self.kernel, Z, gamma, self.degree, float(self.coef0))

    def _diagonal(self, X):
        """k(x, x) + 1, (n,). Raise ValueError if squares of kernel values may overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            diag = X.diagonal() if self.kernel == "precomputed" else (X**2).sum(axis=1)
            size = float(abs(X).max() if self.kernel == "precomputed" else diag.max())
            if self.kernel == "rbf":
                diag = np.ones(len(X))
                size = max(size, self.gamma_ * size)
            elif self.kernel == "poly":
                diag = (self.gamma_ * diag + self.coef0) ** self.degree
                size = max(size, float(diag.max()))
        text = f"X is too large for kernel={self.kernel!r}: squared lengths or kernel values reach "
        text += f"{size:.3g}, and products of two of them must be finite; scale X"
        text += " or lower gamma" * (self.kernel in ("rbf", "poly"))
        self._require(size < KERNEL_LIMIT, text)
        return diag + 1.0

    def _check_kernel(self, X):
        """X and 0, or the symmetric part of a given kernel matrix, made semidefinite by a shift of
        its diagonal, and the shift. Raise ValueError if it is not square and symmetric."""
        if self.kernel != "precomputed":
            return X, 0.0
        n = len(X)
        text = "kernel='precomputed' needs a square kernel matrix of the training rows"
        self._require(X.shape == (n, n), f"{text}, got shape {X.shape}")
        length = np.sqrt(abs(X.diagonal()))
        size = np.maximum(abs(X), abs(X.T)) + np.outer(length, length)
        excess = abs(X - X.T) - ASYMMETRY * size
        if excess.max() > 0:
            i, j = np.unravel_index(excess.argmax(), excess.shape)
            text = f"the kernel matrix must be symmetric, but K[{i}, {j}] = {X[i, j]:.9g} and "
            text += f"K[{j}, {i}] = {X[j, i]:.9g}; pass (K + K.T) / 2 if that is rounding"
            self._require(False, text)
        X = 0.5 * (X + X.T)
        shift = _psd_shift(X + 1.0)
        return X + shift * np.eye(n) if shift else X, shift


class NuSVM(DRM):
    """nu-SVM with squared slack: DRM with one member; parameters and attributes as there.

    Use it for up to some thousand rows and a nonlinear boundary.

    Parameters
    ----------
    nu, kernel, gamma, degree, coef0, sampling, solver, cache_size, tol, max_iter, class_weight, \
n_jobs, random_state, verbose, callback : as in DRM
    """

    n_estimators, mu = 1, 0.0

    def __init__(
        self, nu=0.5, kernel="rbf", gamma="mean_distance", degree=3, coef0=1.0, sampling=None,
        solver="auto", cache_size=500.0, tol=1e-6, max_iter=200, class_weight=None,
        n_jobs=1, random_state=None, verbose=0, callback=None,
    ):  # fmt: skip
        self._set(locals())


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    blobs = generator.normal(size=(400, 5)) + np.repeat([[-0.7], [0.7]], 200, axis=0)
    labels = np.repeat(["left", "right"], 200)
    for model in (NuSVM(), DRM(), DRM(sampling="bootstrap", random_state=0)):
        model.fit(blobs, labels)
        print(f"{model!r}: {model.n_iter_} iterations, objective {model.objective_:.6f}, "
              f"gap {model.residual_:.1e}, accuracy {model.score(blobs, labels):.3f}, "
              f"{model.facts()}")  # fmt: skip
        assert model.residual_ <= model.tol

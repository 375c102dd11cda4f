"""DRM: an ensemble of kernel machines trained together, pushed apart by a bound on their angles.

Problem (minimised over w_1..w_T and rho_1..rho_T):

    1/T sum_t ( -nu rho_t + sum_i v_ti xi_ti^2 / sum_i v_ti )  +  mu sum_{t<s} |w_t + w_s|^2
    with  y_i w_t.phi(x_i) >= rho_t - xi_ti  and  |w_t| <= 1

    phi belongs to the kernel k + 1, whose 1 is the bias. The example weights v_ti >= 0 are the
    given ones; sampling="bootstrap" multiplies them by the counts of each member's own draw. The
    ensemble is the mean of the members. T = 1 is the nu-SVM with squared slack (NuSVM).

Method    Algorithm 1 visits one member after the other. A visit solves the member's dual (6) by
          sequential minimal optimisation (SMO): pairs are chosen to second order, a pair costs
          O(n), and the multiplier (7) of the norm bound follows after every hundred pairs. After
          each round the gap to a feasible point of the dual of the whole problem certifies the
          answer, rounding included, and the fit stops on it. Kernel values are held in single
          precision, as many rows as fit. A round ends with products in double precision (with
          tol >= 1e-4 in single), from which the next one starts: rounding is mended as in
          iterative refinement.
          solver="auto" takes faster ways. Equal samples have equal members at the optimum, so one
          machine is trained for all. Where rounds are slow, Newton's method on the support goes
          on, O(support^3) a step, or for kernel matrices of a rank r up to 400 an interior point
          method in r dimensions. The linear kernel takes the latter from the start, in d + 1
          dimensions: about twenty steps of O(T n d^2), whatever the scales of the columns are.
          Threads (n_jobs) share kernel values and the products with them, chunk by chunk. Pairs are
          too short to be shared, and members are visited in turn.
Reference Yu, Li, Zhou, "Diversity Regularized Machine", IJCAI 2011; Algorithm 1, equations (3)-(7).
Departs   mu counts each pair once. A visit does not alternate between (6) and (7) until both
          settle. It ends at a tolerance that gets smaller from round to round, or after 20 pairs
          for each row: visits are inexact, but the certificate is not. Members that nothing holds
          (T = 2, or no active norm bound with T = 1 or mu = 0) get a small proximal term, which
          vanishes as they settle, so that nothing is divided by 0.
Symbols   paper          here       meaning                                             shape
          alpha_t        a          dual variables                                      (T, n)
          K * yy'        Q          rows of (k + 1) y_i y_j, never one array per member (n, n)
          w_t            b, M       w_t = sum_i b_ti y_i phi(x_i); its margins Q b_t    (T, n)
          (T-1) mu + l_t s          what multiplies |w_t|^2; l_t is lam, lambda_        (T,)
          -mu w~_t       q, Mq      what pulls a member, as b and M                     (n,)
          2 v / (T sum)  p, c       weight of each squared slack / 2; 1 / p             (T, n)
Use       m = DRM(n_estimators=21, sampling="bootstrap").fit(X, y); m.predict(X)
Origin    ensolve, solvers/drm.py, MIT licence
"""

import ast
import inspect
import json
import math
import operator
import os
import platform
import re
import stat
import sys
import threading
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, wraps
from typing import NamedTuple

import numpy as np
from numba import njit

LANES = {"reassoc", "contract", "nsz", "arcp"}  # Sums run in vector lanes, and NaN is kept.
EPS = 2.0**-52  # One operation rounds by this part of its result at most.
NONZERO = 1e-300  # It stands where a divisor would be 0.
NEGLIGIBLE = 1e-10  # What is below this part of the whole counts as nothing.


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


# -- the problem in numbers -----------------------------------------------------------------------
class _Problem(NamedTuple):
    """What is minimised. The penalty is written as own sum_t |w_t|^2 + mu |sum_t w_t|^2."""

    p: np.ndarray  # (T, n), the weight of half of each squared slack
    c: np.ndarray  # (T, n), 1 / p, and 0 outside the sample of a member
    nu: float
    total: float  # nu / T, the sum of a for each member
    mu: float
    own: float
    sigma: float  # own + mu, what multiplies |w_t|^2 while the other members stand still


def _problem(p, nu, mu, ridge=0.0):
    """The problem with these weights; `ridge` adds ridge sum_t |w_t|^2 to the penalty."""
    T = len(p)
    mu = mu if T > 1 else 0.0
    inside = p > 0
    c = np.where(inside, 1.0 / np.where(inside, p, 1.0), 0.0)
    return _Problem(p, c, nu, nu / T, mu, ridge + max(T - 2, 0) * mu, ridge + (T - 1) * mu)


# -- one member: the alpha step by SMO, and its multiplier ----------------------------------------
TILE = 512  # The best row is searched in tiles of this many, then located in its tile only.
ORDER = 2**63 - 1  # Xor with these bits puts negative floats in the order of integers.
FOLLOW = 100  # The multiplier follows after this many pairs.
DEEPER = 0.1  # Other rows of Q are loaded when this part of the violation is left.


class _Dual(NamedTuple):
    """The dual (6) of a member while the others stand still: minimise over a >= 0 with a given sum

    |sum_i a_i y_i phi(x_i) + 2 q|^2 / (4 s) + sum_i c_i a_i^2 / 2
    """

    c: np.ndarray
    lin: np.ndarray  # 2 Q q
    square: float  # |2 q|^2
    least: float  # s without a multiplier
    fixed: bool  # whether s stays what it is


class _Held(NamedTuple):
    """The rows of Q at hand: row i is table[where[i]], or is missing where that is -1."""

    table: np.ndarray
    where: np.ndarray
    diag: np.ndarray


class _Work(NamedTuple):
    """What a run of pairs changes, with one entry for each row."""

    a: np.ndarray
    g: np.ndarray  # the gradient of the dual, plus `far`
    far: np.ndarray  # large for rows that must not get any weight, else 0
    live: np.ndarray  # whether there is weight to take
    gain: np.ndarray  # what the pair with this row gains
    eta: np.ndarray  # the second derivative of the dual


@jit(fastmath=LANES)
def _smo(held, dual, work, s, unit, tol, pairs):
    """The alpha step (6): move weight from row j to row i, pair after pair, until the gradient
    where there is weight is nowhere above the smallest one by more than tol. Unless fixed, s
    follows (7). Gradients times `unit` are of a size for single precision, in which gains are
    compared. Returns s and the number of pairs."""
    table, where, diag = held
    c = dual.c
    a, g, far, live, gain, eta = work
    n = len(a)
    bits = gain.view(np.int32)
    order = g.view(np.int64)
    i = -1
    since = 1
    for pair in range(pairs):
        # With a new s, all second derivatives and the smallest gradient are new.
        if i < 0:
            h = 0.5 / s
            i = 0
            for k in range(n):
                eta[k] = diag[k] * h + c[k]
                live[k] = 1.0 if a[k] > 0.0 and where[k] >= 0 else 0.0
                if g[k] < g[i]:
                    i = k

        # Row i has the smallest gradient; row j is the one that gains most together with it.
        low = g[i]
        q_i = table[where[i]]
        top = np.int32(0)
        start = 0
        for first in range(0, n, TILE):
            part = slice(first, first + TILE)
            best = _gains(g[part], live[part], eta[part], q_i[part], low, unit, eta[i], h,
                          gain[part], bits[part])  # fmt: skip
            if best > top:
                top = best
                start = first
        j = start
        while bits[j] != top and j < n - 1:  # It ends in time, whatever the numbers are.
            j += 1

        # The dual is solved when no gradient with weight is above the smallest by more than tol.
        solved = top == 0
        if g[j] - low <= tol and not solved:
            high = low
            for k in range(n):
                if live[k] > 0 and g[k] > high:
                    high = g[k]
            solved = high - low <= tol
        if solved and (dual.fixed or since == 0):
            return s, pair
        if not dual.fixed and (solved or since == FOLLOW):
            s = _follow(dual, work, s)
            i = -1
            since = 0
            continue

        # The step to the minimum along the pair, or to where row j has no weight left.
        q_j = table[where[j]]
        move = (g[j] - low) / (h * (diag[i] + diag[j] - 2.0 * q_i[j]) + c[i] + c[j])
        if not move < a[j]:
            move = a[j]
            live[j] = 0.0
        a[i] += move
        a[j] -= move
        live[i] = 1.0

        # The gradient after the step; the next i has the smallest.
        g[i] += move * c[i]
        g[j] -= move * c[j]
        lowest = np.int64(ORDER)
        start = 0
        for first in range(0, n, TILE):
            part = slice(first, first + TILE)
            least = _shift(g[part], order[part], q_i[part], q_j[part], move * h)
            if least < lowest:
                lowest = least
                start = first
        i = start
        while order[i] ^ ((order[i] >> 63) & ORDER) != lowest and i < n - 1:
            i += 1
        since += 1
    return s, pairs


@jit(fastmath=LANES, inline="always")  # Two copies of it might sum up in different orders.
def _follow(dual, work, s):
    """The lambda step (7): the best s for these a, so that |w| <= 1. The gradient is made that of
    the new s."""
    a, g, far = work.a, work.g, work.far
    c, lin = dual.c, dual.lin
    square = dual.square
    for k in range(len(a)):
        square += a[k] * ((g[k] - c[k] * a[k] - far[k]) * (2.0 * s) + lin[k])
    new = max(dual.least, 0.5 * math.sqrt(max(square, 0.0)))
    ratio = s / new
    for k in range(len(a)):
        rest = c[k] * a[k] + far[k]
        g[k] = (g[k] - rest) * ratio + rest
    return new


@jit(inner=True, fastmath=LANES)
def _gains(g, live, eta, q_i, low, unit, eta_i, h, gain, bits):
    """What each pair (i, k) gains, for a tile of k; the largest as the integer of its bits,
    which order floats >= 0 and whose maximum vectorises."""
    twice = np.float32(2.0 * h)
    for k in range(len(g)):
        fall = np.float32((g[k] - low) * unit)
        value = fall * fall / (eta_i + eta[k] - twice * np.float32(q_i[k]))
        gain[k] = value if live[k] > 0 else np.float32(0.0)
    best = np.int32(0)
    for k in range(len(bits)):
        best = max(best, bits[k])
    return best


@jit(inner=True, fastmath=LANES)
def _shift(g, bits, q_i, q_j, step):
    """Move a tile of the gradient; its smallest, as an integer in the order of the floats."""
    for k in range(len(g)):
        g[k] += step * (np.float64(q_i[k]) - np.float64(q_j[k]))
    best = np.int64(ORDER)
    for k in range(len(bits)):
        best = min(best, bits[k] ^ ((bits[k] >> 63) & ORDER))
    return best


def _visit(rows, dual, a, Qa, s, tol, pairs):
    """SMO on one member, among the rows of its sample; a and Qa = Q a are updated. Returns s and
    how many pairs were left."""
    c, lin = dual.c, dual.lin
    outside = c == 0
    goal = tol
    while pairs > 0:
        g = (Qa + lin) * (0.5 / s) + c * a
        unit = 1.0 / max(abs(g).max(), NONZERO)
        out = outside

        # Where not all rows of Q fit, work on those that violate most.
        if not rows.complete:
            few = max(1, len(rows.table) // 4)
            known = np.flatnonzero(c)
            order = known[g[known].argsort()]
            losing = order[a[order] > 0][-few:]
            worst = g[losing[-1]] - g[order[0]]
            if worst <= tol:
                break
            rows.load(np.union1d(order[:few], losing))
            goal = max(tol, DEEPER * worst)
            out = outside | (rows.where < 0)

        # `far` is above all gradients that the other rows can have, also when s falls.
        high = a.sum() * rows.diag.max() + abs(lin).max()
        far = np.where(out, 8.0 * (1.0 / unit + high / (dual.least or s)), 0.0)
        g += far
        work = _Work(a, g, far, *rows.space)
        s, moved = _smo(rows.held, dual, work, s, unit, goal, pairs)
        np.subtract((g - c * a - far) * (2.0 * s), lin, out=Qa)
        pairs -= moved
        if rows.complete:
            break
    return s, pairs


# -- Algorithm 1 over the members -----------------------------------------------------------------
VISIT = 20  # A visit ends after this many pairs for each row.
WEAK = 1e-6  # This times the mean |phi(x)|^2 is the proximal term of members that nothing holds.
FIRST = 0.01  # The first tolerance on the gradient is this times nu; rho is at least nu / 2.
NEXT = 0.3  # Each next tolerance is at most this part of the last one.
GOAL = 0.1  # A round aims at this part of the gap asked for, about quadratic in the tolerance.
UNMOVED = 0.01  # Members are settled when a round moves them by less than this part of tol.
SLOW = 0.5  # They are, too, where it still moves them by more than this part of the last way.
ROUGH = 1e-4  # From this tol on products in single precision are tried.
NEWTON_EVERY = 10  # Where rounds go on for this many iterations, faster methods are tried.
POLISH_UNKNOWNS = 200  # Up to so many, Newton's method ends the fit: it is exact to rounding.


def _round(rows, problem, a, Qa, b, M, lam, tol):
    """Visit every member once, all arrays in place; True if some visit ended before its goal."""
    weak = WEAK * rows.diag.mean()
    eps = weak if problem.sigma < weak else 0.0
    least = problem.sigma + eps
    sum_b = b.sum(axis=0)
    sum_M = M.sum(axis=0)
    short = False
    for t in range(len(a)):
        # What pulls the member: the others, and with eps its own last place.
        q = eps * b[t] - problem.mu * (sum_b - b[t])
        Mq = eps * M[t] - problem.mu * (sum_M - M[t])

        # Equations (6) and (7): its dual variables and its multiplier.
        dual = _Dual(problem.c[t], 2.0 * Mq, 4.0 * float(q @ Mq), least, False)
        start = least + float(lam[t])
        s, left = _visit(rows, dual, a[t], Qa[t], start, tol, VISIT * a.shape[1])
        lam[t] = max(s - least, 0.0)
        short = short or left == 0

        # Equation (5): the member itself.
        sum_b -= b[t]
        sum_M -= M[t]
        b[t] = (0.5 * a[t] + q) / s
        M[t] = (0.5 * Qa[t] + Mq) / s
        sum_b += b[t]
        sum_M += M[t]
    return short


def _solve(rows, problem, tol, max_iter, paper, report, b=None):
    """Algorithm 1 from members b, or from 0, with a certificate after each round. `paper` leaves
    out faster methods and goes on while each round moves the members much less than the last.
    Returns lam, rho, inner products, b and a of the members with the best certificate."""
    T, n = problem.p.shape
    a = problem.total * problem.p / problem.p.sum(axis=1)[:, None]
    b = np.zeros((T, n)) if b is None else b.copy()
    Qa, M = rows.times(a, b)
    lam = np.ones(T)
    delta = FIRST * problem.nu
    last = best = np.inf
    rough = tol >= ROUGH and rows.complete and rows.table.dtype == np.float32
    slow = polish = stopped = False
    iteration = 0
    state = members = ()

    def tick(*_):
        """Count a round, or a step of a faster method; True when the fit has to end."""
        nonlocal iteration, stopped
        iteration += 1
        stopped = report(iteration, *state) or iteration >= max_iter
        return stopped

    shortcut = _Shortcut(rows, problem, GOAL * tol, max_iter, tick)
    while not stopped:
        # A faster method, or one round over the members.
        old_b = b.copy()
        old_M = M.copy()
        short = False
        found = shortcut(a, b, M, lam, state[0], polish) if slow else None
        if stopped:
            break
        if found:
            a, b, lam = found
        else:
            short = _round(rows, problem, a, Qa, b, M, lam, delta)

        # Certify, with products in single precision as long as these are good enough.
        while True:
            Qa, M = rows.times(a, b, exact=not rough)
            proof = _rows_certificate(rows, problem, a, Qa, b, M, lam, SINGLE if rough else EPS)
            if not rough or proof.lost <= GOAL * tol * abs(proof.objective):
                break
            rough = False
        size = abs(proof.objective)
        if paper or not proof.gap / size >= best:
            best = proof.gap / size
            state = proof.objective, best, proof.lost / size
            members = lam.copy(), proof.rho, proof.gram, b * proof.scale[:, None], a.copy()

        # Stop when the gap is small enough, or when what is left of it is rounding.
        change = float(((b - old_b) * (M - old_M)).sum())
        unmoved = change <= (UNMOVED * tol) ** 2 * float((b * M).sum())
        settled = unmoved or change > SLOW**2 * last
        good = proof.gap <= tol * size
        polish = good and not paper and not slow and np.count_nonzero(a) <= POLISH_UNKNOWNS
        done = good and not polish and (settled or not paper)
        if tick() or done or proof.lost > max(0.5 * proof.gap, tol * size):
            break

        # Go on, more exactly.
        slow = polish or not paper and (slow or short or iteration % NEWTON_EVERY == 0)
        delta = delta * min(NEXT, math.sqrt(GOAL * tol * size / proof.gap))
        last = change
    return members


# -- the certificate ------------------------------------------------------------------------------
SINGLE = 2.0**-23  # This is the same in single precision.
OFF = 16.0  # So many roundings of the terms of a sum are counted as not cancelling.


class _Certificate(NamedTuple):
    """What is proved of some members."""

    objective: float
    gap: float  # to a lower bound of the problem, rounding included
    lost: float  # the part of the gap that is rounding
    rho: np.ndarray
    gram: np.ndarray  # the inner products of the members
    scale: np.ndarray  # what brings each member into |w| <= 1


def _certificate(problem, a, u, w, M, lam, sizes, length=1.0, off=OFF * EPS):
    """The objective at the members w, scaled into |w| <= 1, and its gap to the better of two lower
    bounds.

    Members and u = sum_i a_i y_i phi(x_i) are pairs of arrays whose products are the inner
    products: coefficients and values at each x, the lengths of whose phi are given, or with
    explicit phi twice the same. `sizes` are the roots of sum_i a_i^2 |phi(x_i)|^2, and of the same
    with b or of |w|^2: values are off by the part `off` of them where roundings are independent.
    """
    p, total, mu, own = problem.p, problem.total, problem.mu, problem.own
    A, B = sizes

    # The objective at the scaled members, each with its best rho.
    gram = w[0] @ w[1].T
    scale = 1.0 / np.sqrt(np.maximum(gram.diagonal() + off * B**2, 1.0))
    M = M * scale[:, None]
    w = [part * scale[:, None] for part in w]
    gram = gram * np.outer(scale, scale)
    B = B * scale
    rho = _best_rho(M, p, total)
    penalty = own * gram.trace() + mu * gram.sum()
    loss = 0.5 * (p * np.maximum(rho[:, None] - M, 0.0) ** 2).sum()
    objective = loss - total * rho.sum() + penalty
    slack = 0.5 * (a**2 / np.where(p > 0, p, np.inf)).sum()

    # First bound: the penalty is above its tangent at these members, and what is left is least
    # on the unit spheres.
    rest = [x - 2.0 * (own * part + mu * part.sum(axis=0)) for x, part in zip(u, w, strict=True)]
    square = np.maximum((rest[0] * rest[1]).sum(axis=1), 0.0)
    size = np.sqrt(((length * rest[0]) ** 2).sum(axis=1))
    blur = off * (A + 2.0 * own * B)
    blur = blur + 2.0 * off * mu * B.sum()
    reach = np.sqrt(square + 2.0 * size * blur + blur**2)
    bound = -penalty - reach.sum()
    blurred = (reach - np.sqrt(square)).sum()

    # Second bound: the dual at these multipliers of the norm bounds.
    d = own + lam
    if d.min() > NEGLIGIBLE * (d.max() + mu):
        U = u[0] @ u[1].T / np.outer(d, d)
        least = (U.diagonal() * d).sum() - mu * U.sum() / (1.0 + mu * (1.0 / d).sum())
        size = np.sqrt(((length * u[0]) ** 2).sum(axis=1))
        blur = 0.25 * (off * A * (2.0 * size + off * A) / d).sum()
        if -0.25 * least - lam.sum() - blur > bound:
            bound = -0.25 * least - lam.sum() - blur
            blurred = blur

    # What rounding may have changed counts as part of the gap.
    lost = off * (A @ B + own * B @ B + mu * B.sum() ** 2)
    lost += 4.0 * EPS * (loss + total * abs(rho).sum() + penalty + slack)
    gap = max(objective + slack - bound, blurred) + lost
    return _Certificate(float(objective), float(gap), float(lost + blurred), rho, gram, scale)


def _rows_certificate(rows, problem, a, Qa, b, M, lam, rounding):
    """The certificate of members given by coefficients b, from products of this rounding."""
    sizes = [np.sqrt(part**2 @ abs(rows.diag)) for part in (a, b)]
    length = np.sqrt(abs(rows.diag[rows.order[rows.starts]]))
    u = rows.merged(a, Qa)
    w = rows.merged(b, M)
    return _certificate(problem, a, u, w, M, lam, sizes, length, OFF * rounding)


def _best_rho(M, p, total):
    """Minimise -total rho + sum_i p_i (rho - M_i)_+^2 / 2 for each member: Newton's method from
    above."""
    rho = M.max(axis=1) + total / p.sum(axis=1)
    while True:
        below = np.where(M <= rho[:, None], p, 0.0)  # It is never empty, however large M is.
        new = (total + (below * M).sum(axis=1)) / below.sum(axis=1)
        if not (new < rho).any():
            return rho
        rho = np.minimum(new, rho)


# -- kernel values, and the rows of Q that are held -----------------------------------------------
KERNEL_VALUES = 2**16  # So many values are computed at a time: they stay in the cache.
THREAD_VALUES = 2**19  # A thread has to have this many values to be worth its start.
SHARED_VALUES = 2**18  # Several threads take so many at a time: they wait for each other less.
FITS = 1e30  # Squared distances between rows of less squared length are finite in single precision.
LONG = 300.0  # Above this gamma (|x|^2 + |z|^2), of centred rows, |x - z|^2 is a sum of squares.
FADED = 60.0  # A value below exp(-FADED) needs no such care.
LOST = 1e-14  # Products may be off by this part of gamma (|x|^2 + |z|^2).
LOG2_HIGH, LOG2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # They sum to log 2.
NO_FRACTION = 1.5 * 2.0**52  # A float of this size has no fraction: adding it rounds.
NEGATIVE = 1e-12  # An eigenvalue below minus this part of the trace is no rounding.


class _Team:
    """Threads that share work on chunks of kernel values."""

    def __init__(self, threads=1):
        self.threads = threads
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def chunks(self, n, width=None):
        """Slices of n rows, as many rows as their kernel values with `width` others allow."""
        return _chunks(n, width, KERNEL_VALUES if self.pool is None else SHARED_VALUES)

    def share(self, work, parts):
        """[work(some of the parts) for each thread]; neighbours go to different threads."""
        if self.pool is None:
            return [work(parts)]
        parts = list(parts)
        jobs = [self.pool.submit(_quiet, work, parts[k :: self.threads])
                for k in range(self.threads)]  # fmt: skip
        return [job.result() for job in jobs]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.pool is not None:
            self.pool.shutdown()


def _quiet(work, parts):
    """work(parts), in a thread that does not tell of overflows."""
    with np.errstate(all="ignore"):
        return work(parts)


ALONE = _Team()


class _Rows:
    """Rows of Q = yy' * (k + 1) / unit: all, or as many as fit and were used last. The unit, a
    power of 4, makes the largest k(x, x) + 1 about 1: no kernel is too large for a float32."""

    def __init__(
        self, kernel_to_X, X, y, diag, megabytes, dtype, squares=None, gamma=None, team=ALONE
    ):
        """The whole table where it fits; for the rbf kernel it may come as squared distances."""
        n = y.size
        self.team = team
        slots = _slots(n, megabytes, dtype)
        self.kernel_to_X = kernel_to_X
        self.X = X
        self.y = y
        self.unit = 4.0 ** math.floor(0.5 * math.log2(max(diag.max(), NONZERO)))
        self.diag = diag / self.unit
        self.table = np.empty((slots, n), dtype) if squares is None else squares
        self.where = np.full(n, -1)
        self.held = _Held(self.table, self.where, self.diag)
        self.space = tuple(np.empty((3, n), np.float32))
        self.used = np.zeros(slots, np.int64)
        self.clock = 0
        self.complete = slots == n
        self.order, self.starts = self._equal_rows()
        if self.complete:
            self._fill(squares, gamma)
            self.where[:] = np.arange(n)

    def _equal_rows(self):
        """An order that puts equal x side by side, and where in it each x starts."""
        n, d = self.X.shape
        if d >= n:  # This may be a given kernel matrix, whose rows are no x.
            return np.arange(n), np.arange(n)
        order = (self.X * np.sqrt(np.arange(1.0, d + 1.0))).sum(axis=1).argsort()
        new = (self.X[order[1:]] != self.X[order[:-1]]).any(axis=1)
        return order, np.flatnonzero(np.append(True, new))

    def _fill(self, squares, gamma):
        """All of the table, the upper half from kernel values."""
        n = self.y.size

        def upper(parts):
            for part in parts:
                if squares is None:
                    block = self.compute(part, self.table.dtype, part.start)
                else:  # The squared distances are there: the kernel's width has needed them.
                    block = -gamma * squares[part, part.start :].astype(np.float64)
                    block = self.signed(_exp_plus_1(block), part, part.start)
                self.table[part, part.start :] = block
                end = -(-part.stop // TILE) * TILE
                self.table[part.stop : end, part] = self.table[part, part.stop : end].T

        def lower(firsts):
            for i in firsts:
                for j in range(0, i, TILE):
                    low = slice(i, i + TILE)
                    high = slice(j, j + TILE)
                    self.table[low, high] = self.table[high, low].T

        # The lower half is copied in squares that stay in the cache.
        self.team.share(upper, self.team.chunks(n))
        self.team.share(lower, range(TILE, n, TILE))

    def load(self, wanted):
        """Have these rows in the table, new ones where the longest unused were."""
        self.clock += 1
        held = self.where[wanted]
        missing = wanted[held < 0]
        self.used[held[held >= 0]] = self.clock
        slots = self.used.argsort(kind="stable")[: missing.size]
        self.where[np.isin(self.where, slots)] = -1

        def fill(parts):
            for part in parts:
                self.table[slots[part]] = self.compute(missing[part], self.table.dtype)

        self.team.share(fill, self.team.chunks(missing.size, self.y.size))
        self.where[missing] = slots
        self.used[slots] = self.clock

    def compute(self, part, dtype=np.float64, first=0):
        """These rows, from column `first` on."""
        return self.signed(self.kernel_to_X(self.X[part], dtype, first), part, first)

    def signed(self, block, part, first):
        """Rows of k + 1, in place as rows of Q."""
        block *= (self.y[part, None] / self.unit).astype(block.dtype)
        block *= self.y[first:].astype(block.dtype)
        numbers = np.arange(self.y.size)[part] - first
        block[np.arange(len(block)), numbers] = self.diag[part]
        return block

    def times(self, *parts, exact=False):
        """Q b for each row b of the parts, from the table or from exact kernel values."""
        B = np.concatenate(parts)
        held = self.complete and not (exact and self.table.dtype == np.float32)

        def add(chunks):
            out = np.zeros(B.shape)
            for part in chunks:
                if held:
                    out += B[:, part].astype(self.table.dtype) @ self.table[part]
                else:  # Q is symmetric, so that each value serves twice.
                    block = self.compute(part, np.float64, part.start)
                    out[:, part.start :] += B[:, part] @ block
                    out[:, part] += B[:, part.stop :] @ block[:, len(block) :].T
            return out

        out, *others = self.team.share(add, self.team.chunks(B.shape[1]))
        for other in others:
            out += other
        return np.split(out, np.cumsum([len(b) for b in parts])[:-1])

    def merged(self, b, Qb):
        """Coefficients and margins with one entry for all rows with the same x: their phi cancel
        exactly, and products of the two are inner products as before."""
        signed = np.add.reduceat((b * self.y)[:, self.order], self.starts, axis=1)
        first = self.order[self.starts]
        return signed, Qb[:, first] * self.y[first]


def _slots(n, megabytes, dtype):
    """How many of the n rows of Q fit."""
    return min(n, max(2, int(megabytes * 2**20 / (n * np.dtype(dtype).itemsize))))


def _chunks(n, width=None, values=KERNEL_VALUES):
    """Slices of n rows, so many that their kernel values with `width` others stay in the cache."""
    size = max(8, values // (width or n))
    return (slice(first, min(first + size, n)) for first in range(0, n, size))


def _kernel_to(kind, Z, gamma, degree, coef0):
    """The function of X that gives k(X, Z[first:]) + 1; a precomputed X is k(X, Z) already."""
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

    # All of -gamma |x - z|^2 comes out of one product of longer vectors.
    centre = Z.mean(axis=0)
    root = math.sqrt(2.0 * gamma)
    short = root * (Z - centre)
    others = 0.5 * (short**2).sum(axis=1)
    longest = others.max(initial=0.0)
    right = np.ascontiguousarray(np.column_stack((short, np.ones(len(Z)), -others)).T)

    def rbf(X, dtype, first=0):
        short = root * (X - centre)
        squares = 0.5 * (short**2).sum(axis=1)
        left = np.column_stack((short, -squares, np.ones(len(X))))
        values = left @ right[:, first:]
        if squares.max(initial=0.0) + longest > LONG:
            _near(values, X, Z[first:], gamma, squares, others[first:])
        return _exp_plus_1(values).astype(dtype, copy=False)

    return rbf


@jit(nogil=True)
def _near(values, X, Z, gamma, squares, others):
    """Replace -gamma |x - z|^2 by the sum over its coordinates wherever the products of long rows
    may have left an error that the exponential would show."""
    for i in range(len(X)):
        for j in range(len(Z)):
            size = squares[i] + others[j]
            if size > LONG and values[i, j] > -FADED - LOST * size:
                total = 0.0
                for k in range(X.shape[1]):
                    total += (X[i, k] - Z[j, k]) ** 2
                values[i, j] = -gamma * total


def _exp_plus_1(values):
    """exp(values) + 1, in place."""
    flat = values.reshape(-1)
    _exp(flat, np.empty(flat.size))
    values += 1.0
    return values


@jit(nogil=True, fastmath={"contract"})
def _exp(x, whole):
    """x = exp(x) for x <= 0, to 2 units in the last place: four times as fast as NumPy's. What is
    above 0 by rounding counts as 0."""
    for k in range(len(x)):
        # x = power log 2 + r; the last bits of `whole` are the power.
        value = min(max(x[k], -700.0), 0.0)
        whole[k] = value * (1.0 / LOG2_HIGH) + NO_FRACTION
        power = whole[k] - NO_FRACTION
        r = value - power * LOG2_HIGH - power * LOG2_LOW

        # exp(r) by its series.
        series = 1.0 / 479001600.0
        series = series * r + 1.0 / 39916800.0
        series = series * r + 1.0 / 3628800.0
        series = series * r + 1.0 / 362880.0
        series = series * r + 1.0 / 40320.0
        series = series * r + 1.0 / 5040.0
        series = series * r + 1.0 / 720.0
        series = series * r + 1.0 / 120.0
        series = series * r + 1.0 / 24.0
        series = series * r + 1.0 / 6.0
        series = series * r + 0.5
        series = series * r + 1.0
        x[k] = series * r + 1.0

    # Times 2^power, by adding the power to the exponent.
    bits = x.view(np.int64)
    powers = whole.view(np.int64)
    for k in range(len(bits)):
        bits[k] += powers[k] << 52


def _mean_distance(X, weight, table=None, team=ALONE):
    """Mean of |x_i - x_j| over all pairs, a row with weight 2 counted as two. Squares of the
    distances from row i to rows j >= i are left in the table, if there is one."""
    X = X - X.mean(axis=0)
    squares = (X**2).sum(axis=1)
    unit = np.ones(len(X))
    left = np.column_stack((-2.0 * X, squares, unit))
    right = np.ascontiguousarray(np.column_stack((X, unit, squares)).T)
    weight = weight / weight.max()
    totals = np.zeros(len(X))  # One for each chunk: the order of the threads does not matter.

    def measure(parts):
        for part in parts:
            distance = left[part] @ right[:, part.start :]
            np.maximum(distance, 0.0, out=distance)
            if table is not None:
                table[part, part.start :] = distance
            np.sqrt(distance, out=distance)
            distance[:, : len(distance)] *= 0.5  # These columns hold both orders of a pair.
            totals[part.start] = 2.0 * float(weight[part] @ (distance @ weight[part.start :]))

    team.share(measure, team.chunks(len(X)))
    return float(np.cumsum(totals)[-1]) / weight.sum() ** 2


# >>> shared: scale 1
def scale_gamma(X, weight):
    """gamma="scale", 1 / (d * variance of X), where a row of weight 2 is two rows; 1 if X is
    constant."""
    mean = np.average(X, axis=0, weights=weight).mean()
    spread = np.average((X - mean) ** 2, axis=0, weights=weight).mean()
    return 1.0 / (X.shape[1] * spread) if spread > 0 else 1.0


# <<< shared: scale


def _lacking(K):
    """What has to be added to the diagonal of the symmetric K, up to a factor of 10, so that it has
    no negative eigenvalue: 0 if that is rounding.

    K is semi-definite to NEGATIVE of its trace if and only if Cholesky's method runs through with
    that much added: a third of n^3 multiplications, and all rows are looked at. Each row and
    column counts in units of its own k(x, x).
    """
    n = len(K)
    diag = K.diagonal().copy()
    unit = np.sqrt(np.where(diag > 0.0, diag, 1.0))
    scaled = K / unit / unit[:, None]
    scaled[np.diag_indices(n)] += NEGATIVE * n
    lacking = 0.0
    while True:
        try:
            np.linalg.cholesky(scaled)
            return lacking
        except np.linalg.LinAlgError:
            lacking = 10.0 * lacking or NEGATIVE * n * float(abs(K).max())
            scaled = K + lacking * np.eye(n)


# -- explicit phi: the linear kernel, and others of low rank --------------------------------------
EXPLICIT = 2e10  # Up to this T n (d + 1)^2 the linear kernel has its phi written out.
RANK = 400  # Up to this rank of the kernel matrix the interior point method is taken.
NEARLY = 1e-3  # Coefficients off by at most this part of w are mended, others are made anew.
INTERIOR_RIDGE = 1e-15  # This part of its diagonal is added to the matrix of a step.
BOUNDARY = 0.995  # A step goes this part of the way to the nearest bound.
STALLED = 30  # The fit gives up after this many steps without a better certificate.


class _Points:
    """phi(x) = (x, 1) itself, times y, with its mean kept apart: large offsets do not cancel.

    For the interior point method each phi is given in coordinates of an orthonormal basis of the
    span, whose first direction is that of the mean.
    """

    def __init__(self, X, y):
        self.y = y
        self.mean = np.append(X.mean(axis=0), 1.0)
        self.X = X - self.mean[:-1]
        apart = np.column_stack((self.mean, np.vstack((self.X.T, np.zeros(len(y))))))
        self.basis, images = np.linalg.qr(apart)
        self.squares = (self.X**2).sum(axis=1) + 1.0
        self.coordinates = (images[:, 1:] + images[:, :1]).T * y[:, None]

    def margins(self, W):
        """y_i w.phi(x_i)"""
        middle = W.astype(np.longdouble) @ self.mean.astype(np.longdouble)
        return self.y * (W[:, :-1] @ self.X.T + middle.astype(np.float64)[:, None])

    def pull(self, a):
        """sum_i a_i y_i phi(x_i)"""
        a = a * self.y
        middle = a.sum(axis=1, dtype=np.longdouble)[:, None] * self.mean
        return (np.column_stack((a @ self.X, np.zeros(len(a)))) + middle).astype(np.float64)


class _Factor:
    """Explicit phi for a kernel matrix of low rank, by Cholesky's method with pivots."""

    def __init__(self, rows):
        left = rows.diag.copy()
        edge = NEARLY * NEGLIGIBLE * left.max()
        L = np.empty((min(RANK, len(left)), len(left)))
        for k in range(len(L)):
            i = int(left.argmax())
            if left[i] <= edge:
                L = L[:k]
                break
            L[k] = (rows.compute(np.array([i]))[0] - L[:k, i] @ L[:k]) / math.sqrt(left[i])
            left -= L[k] ** 2
            left[i] = 0.0
        self.exact = bool(left.max() <= edge)
        self.coordinates = np.ascontiguousarray(L.T)
        self.basis = np.eye(len(L))
        self.squares = rows.diag

    def margins(self, W):
        """y_i w.phi(x_i)"""
        return W @ self.coordinates.T

    def pull(self, a):
        """sum_i a_i y_i phi(x_i)"""
        return a @ self.coordinates


def _coefficients(points, problem, W, a, lam):
    """b with sum_i b_i y_i phi(x_i) = w: as (5) has it, or 0 where that is far off, and the least
    change that is left to be made, if possible among the rows with some a."""
    held = np.diag(np.maximum(problem.own + lam, NONZERO)) + problem.mu
    b = 0.5 * np.linalg.solve(held, a)
    if not abs(W - points.pull(b)).max() <= NEARLY * abs(W).max():
        b = np.zeros(a.shape)
    for rows in (a.any(axis=0), np.ones(a.shape[1], bool)):
        rest = (W - points.pull(b)) @ points.basis
        b[:, rows] += np.linalg.lstsq(points.coordinates[rows].T, rest.T, rcond=None)[0].T
        if abs(W - points.pull(b)).max() <= NEGLIGIBLE * abs(W).max():
            break
    return b


class _Inner(NamedTuple):
    """A point inside all bounds, or a direction from it. The slacks xi = a / p and the heights
    h = margin + xi - rho are above 0; s = (1, w) and its multiplier z = (2 lam, -2 lam w) are in
    the cone |w| <= 1."""

    w: np.ndarray
    rho: np.ndarray
    z: np.ndarray
    xi: np.ndarray
    h: np.ndarray


class _Scaling(NamedTuple):
    """The scaling of Nesterov and Todd at s and z; its square is eta (2 bar bar' - J)."""

    s: np.ndarray
    bar: np.ndarray
    eta: np.ndarray
    scaled: np.ndarray  # what it makes of z, and its inverse of s


class _System(NamedTuple):
    """The linear system of a step, reduced to w."""

    both: np.ndarray  # xi + h
    weight: np.ndarray  # the sum of tau, what rho gives way
    middle: np.ndarray  # the mean of phi by tau
    inverse: np.ndarray  # of each member's matrix
    joint: np.ndarray | None  # the inverse for the sum of all members, where mu joins them


def _interior(points, problem, tol, max_iter, report):
    """The same problem with explicit phi by a primal-dual interior point method, predictor and
    corrector: all products, xi h and s.z / sum p, go to 0 together. Returns lam, rho, inner
    products, members and a with the best certificate."""
    F = points.coordinates
    point = _inner_start(F, problem)
    best = None
    since = 0
    for iteration in range(1, max_iter + 1):
        # Certify, and stop when that is good enough or gets no better.
        found = _explicit_certificate(points, problem, point, tol)
        since += 1
        if best is None or found[1] < best[1]:
            best = found
            since = 0
        objective, gap, lost = best[:3]
        if report(iteration, objective, gap / abs(objective), lost / abs(objective)):
            break
        if gap <= tol * abs(objective) or since == STALLED:
            break

        # One step; there is none where rounding has brought a member to the very edge.
        scaling = _inner_scaling(point)
        system = None if scaling is None else _inner_system(F, problem, point, scaling)
        if system is None:
            break
        move, step = _inner_step(F, problem, point, scaling, system)
        if not (step > 0.0 and np.isfinite(move.w).all()):
            break
        point = _Inner(*(x + step * dx for x, dx in zip(point, move, strict=True)))
    return best[3:]


def _explicit_certificate(points, problem, point, tol):
    """The certificate at members in coordinates, with one of two points of the dual: the slacks
    of these members, which are sparse, or those of the method if only they are good enough. Then
    what the fit returns of it."""
    W = point.w @ points.basis.T
    W /= np.maximum(np.sqrt((W**2).sum(axis=1)), 1.0)[:, None]
    M = points.margins(W)
    lam = 0.5 * point.z[:, 0]
    rho = _best_rho(M, problem.p, problem.total)
    found = []
    for slack in (np.maximum(rho[:, None] - M, 0.0), point.xi):
        a = problem.p * slack
        if not a.sum(axis=1).min() > 0.0:
            continue  # Margins are so large that rounding hides every slack.
        a *= problem.total / a.sum(axis=1)[:, None]
        U = points.pull(a)
        sizes = np.sqrt(a**2 @ points.squares), np.sqrt((W**2).sum(axis=1))
        proof = _certificate(problem, a, (U, U), (W, W), M, lam, sizes)
        members = lam, proof.rho, proof.gram, W * proof.scale[:, None], a
        found.append((proof.objective, proof.gap, proof.lost, *members))
        if proof.gap <= tol * abs(proof.objective):
            break
    return min(found, key=lambda one: one[1])


def _inner_start(F, problem):
    """A first point: members that equal slacks would pull, and distances from all bounds that are
    of the size of the typical slack."""
    p, own, mu = problem.p, problem.own, problem.mu
    P = p.sum(axis=1)
    u = (problem.total * p / P[:, None]) @ F
    length = np.sqrt((u**2).sum(axis=1))
    w = u / np.maximum(2.0 * np.maximum(own + mu * len(p), length), NONZERO)[:, None]
    M = w @ F.T
    rho = _best_rho(M, p, problem.total)
    apart = np.sqrt((p * (M - rho[:, None]) ** 2).sum(axis=1) / P)[:, None]
    xi, h = (np.maximum(side * (rho[:, None] - M), 0.0) + apart for side in (1.0, -1.0))
    z = np.column_stack((length, 2.0 * (own * w + mu * w.sum(axis=0)) - (p * xi) @ F))
    z[:, 0] = 2.0 * np.sqrt((z[:, 1:] ** 2).sum(axis=1)) + problem.total * apart[:, 0]
    return _Inner(w, rho, z, xi, h)


def _inner_scaling(point):
    """The scaling at this point; None where rounding has brought it to the edge of the cone."""
    s = np.column_stack((np.ones(len(point.w)), point.w))
    det_s = _det(s)
    det_z = _det(point.z)
    if not min(det_s.min(), det_z.min()) > 0.0:
        return None
    root_s = np.sqrt(det_s)[:, None]
    root_z = np.sqrt(det_z)[:, None]
    bar = s / root_s + point.z / root_z * np.append(1.0, -np.ones(point.w.shape[1]))
    bar /= np.sqrt(_det(bar))[:, None]
    eta = (root_s / root_z)[:, 0]
    return _Scaling(s, bar, eta, _scale(point.z, bar, eta))


def _inner_system(F, problem, point, scaling):
    """The system of both directions at this point; None where it is not finite."""
    T = len(point.w)
    eye = np.eye(F.shape[1])
    bar, eta = scaling.bar, scaling.eta
    both = point.xi + point.h
    tau = problem.p * point.xi / both  # What a row's slack gives way, in units of the margin.
    weight = tau.sum(axis=1)
    middle = (tau @ F) / weight[:, None]
    B = np.empty((T, len(eye), len(eye)))
    for t in range(T):
        R = F - middle[t]
        B[t] = (R.T * tau[t]) @ R + (2.0 * problem.own + 1.0 / eta[t]) * eye
        B[t] += (2.0 / eta[t]) * np.outer(bar[t, 1:], bar[t, 1:])
    if not np.isfinite(B).all():
        return None

    # Inverted in units of the diagonal.
    unit = 1.0 / np.sqrt(B.diagonal(axis1=1, axis2=2))
    unit = unit[:, :, None] * unit[:, None, :]
    inverse = np.linalg.inv(B * unit + INTERIOR_RIDGE * eye) * unit
    mu = problem.mu
    joint = np.linalg.inv(eye + 2.0 * mu * inverse.sum(axis=0)) if mu > 0 else None
    return _System(both, weight, middle, inverse, joint)


def _inner_step(F, problem, point, scaling, system):
    """The direction of predictor and corrector, and the step to take along it."""
    w, rho, z, xi, h = point
    s, bar, eta, scaled = scaling
    p = problem.p
    P = p.sum(axis=1)

    # By how much the equations do not hold, and the mean of all products.
    off_w = 2.0 * (problem.own * w + problem.mu * w.sum(axis=0)) - (p * xi) @ F - z[:, 1:]
    off_rho = (p * xi).sum(axis=1) - problem.total
    off_h = w @ F.T + xi - rho[:, None] - h
    off = off_w, off_rho, off_h
    near = ((p * xi * h).sum() + (s * z).sum()) / (2.0 * P.sum())

    # The predictor aims at products of 0.
    want_h = -xi * h
    want_s = -_jordan(scaled, scaled)
    move, step = _inner_direction(F, problem, point, scaling, system, off, (want_h, want_s))

    # The corrector aims at what the predictor can reach, and makes up for its curvature.
    ds = np.column_stack((np.zeros(len(w)), move.w))
    after = (p * (xi + step * move.xi) * (h + step * move.h)).sum()
    after += ((s + step * ds) * (z + step * move.z)).sum()
    aim = near * min(1.0, max(after / (2.0 * P.sum() * near), 0.0)) ** 3
    want_h = aim - xi * h - move.xi * move.h
    want_s -= _jordan(_scale(ds, bar, eta, inverse=True), _scale(move.z, bar, eta))
    want_s[:, 0] += aim * P
    return _inner_direction(F, problem, point, scaling, system, off, (want_h, want_s))


def _inner_direction(F, problem, point, scaling, system, off, want):
    """The direction in which the equations hold and the products change by what is wanted, and the
    step that stays inside all bounds."""
    p = problem.p
    s, bar, eta, scaled = scaling
    both, weight, middle, inverse, joint = system
    off_w, off_rho, off_h = off
    want_h, want_s = want

    # The members, with all else eliminated.
    e = (want_h - point.xi * off_h) / both
    pe = (p * e).sum(axis=1)
    push = _scale(_divide(want_s, scaled), bar, eta, inverse=True)
    right = (p * e) @ F - off_w - (off_rho + pe)[:, None] * middle + push[:, 1:]
    dw = np.einsum("tij,tj->ti", inverse, right)
    if joint is not None:
        dw -= 2.0 * problem.mu * inverse @ (joint @ dw.sum(axis=0))

    # All else follows from them.
    ds = np.column_stack((np.zeros(len(dw)), dw))
    dz = push - _scale(_scale(ds, bar, eta, inverse=True), bar, eta, inverse=True)
    drho = ((weight[:, None] * middle * dw).sum(axis=1) - off_rho - pe) / weight
    dM = dw @ F.T - drho[:, None]
    dxi = e - point.xi / both * dM
    dh = dM + dxi + off_h
    moves = -dxi / point.xi, -dh / point.h, _leave(s, ds), _leave(point.z, dz)
    step = min(BOUNDARY / max(BOUNDARY, float(move.max())) for move in moves)
    return _Inner(dw, drho, dz, dxi, dh), step


def _det(x):
    """x_0^2 - |x_1|^2 of each row, above 0 inside the cone."""
    size = np.sqrt((x[:, 1:] ** 2).sum(axis=1))
    return (x[:, 0] - size) * (x[:, 0] + size)


def _jordan(x, y):
    """The product of the cone's algebra, each row."""
    rest = x[:, :1] * y[:, 1:] + y[:, :1] * x[:, 1:]
    return np.column_stack(((x * y).sum(axis=1), rest))


def _divide(x, y):
    """What times y gives x in the cone's algebra, each row."""
    first = (y[:, 0] * x[:, 0] - (y[:, 1:] * x[:, 1:]).sum(axis=1)) / _det(y)
    return np.column_stack((first, (x[:, 1:] - first[:, None] * y[:, 1:]) / y[:, :1]))


def _scale(x, bar, eta, inverse=False):
    """The scaling of Nesterov and Todd, root(eta) (2 v v' - J), or its inverse, times each row."""
    v = bar + np.eye(1, bar.shape[1])
    v /= np.sqrt(2.0 * v[:, :1])
    if inverse:
        v[:, 1:] *= -1.0
    out = 2.0 * (v * x).sum(axis=1)[:, None] * v + x
    out[:, 0] -= 2.0 * x[:, 0]
    return out * (np.sqrt(eta) ** (-1.0 if inverse else 1.0))[:, None]


def _leave(x, dx):
    """1 / step at which x + step dx leaves the cone, each row; 0 or less if never."""
    middle = (x[:, 0] * dx[:, 0] - (x[:, 1:] * dx[:, 1:]).sum(axis=1)) / _det(x)
    inside = middle**2 - _det(dx) / _det(x)
    return np.where(inside >= 0.0, -middle + np.sqrt(np.maximum(inside, 0.0)), 0.0)


# -- where rounds are slow ------------------------------------------------------------------------
NEWTON_UNKNOWNS = 2500  # Newton's method is for no more unknowns than this.
NEWTON_STEPS = 40  # It gives up after this many steps.
LOOSE = 0.1  # The first proximal term of Newton's method is this part of |objective|.
PROX = 1e-3  # The least one, where nothing holds a member, is this part of it.


class _Shortcut:
    """Faster methods than rounds: the interior point method, tried once, where the kernel matrix
    is of low rank, and from then on Newton's method, with a proximal term that gets smaller as
    long as this works."""

    def __init__(self, rows, problem, tol, max_iter, tick):
        self.rows = rows
        self.problem = problem
        self.tol = tol
        self.max_iter = max_iter
        self.tick = tick
        self.tried = False
        self.eps = 0.0

    def __call__(self, a, b, M, lam, objective, polish):
        """Better a, b and lam, or None where the method does not get there. `polish` goes straight
        to Newton's method."""
        if not polish and not self.tried:
            self.tried = True
            return self._by_interior_points()
        least = PROX * abs(objective)
        weak = (self.problem.own + lam).min() < least
        eps = self.eps or LOOSE * abs(objective) * weak
        found = _newton(self.rows, self.problem, a, b, M, lam, eps, self.tick)
        self.eps = max(0.1 * eps, least) * weak if found else max(30.0 * eps, least)
        return found

    def _by_interior_points(self):
        factor = _Factor(self.rows)
        if not factor.exact:
            return None
        lam, _, _, W, a = _interior(factor, self.problem, self.tol, self.max_iter, self.tick)
        return a, _coefficients(factor, self.problem, W, a, lam), lam


def _newton(rows, problem, a, b, M, lam, eps, tick):
    """Newton's method on the optimality conditions of all members, each held near its b by eps.
    Returns a, b and lam, or None if it does not settle from here or has to stop."""
    T = len(a)
    p, mu, own = problem.p, problem.mu, problem.own
    inside = p > 0
    live = a > 0
    try:
        for _ in range(NEWTON_STEPS):
            t, i = np.nonzero(live)  # These are member and row of each unknown.
            if t.size > NEWTON_UNKNOWNS or tick():
                break

            # With w = N (u + 2 eps w_old) / 2, the conditions are linear in a and rho.
            known, at = np.unique(i, return_inverse=True)
            Q = rows.compute(known)
            N = np.linalg.inv(np.diag(own + eps + lam) + mu)
            H = 0.5 * N[t[:, None], t] * Q[at][:, i]
            H[np.diag_indices(t.size)] += 1.0 / p[t, i]
            member = np.equal.outer(t, np.arange(T)).astype(float)
            solved = np.linalg.solve(H, np.column_stack((member, eps * (N @ M)[t, i])))
            unit = solved[:, :T]
            shift = solved[:, T]
            sums = member.T @ unit
            rho = np.linalg.solve(sums, problem.total + member.T @ shift)

            # The members that belong to this a.
            new = np.zeros(a.shape)
            new[t, i] = unit @ rho - shift
            Qa = new[:, known] @ Q
            new_b = N @ (0.5 * new + eps * b)
            new_M = N @ (0.5 * Qa + eps * M)
            gram = new_b @ new_M.T
            norm = np.sqrt(np.maximum(gram.diagonal(), 0.0))

            # Multipliers bring |w| to 1; 1 / |w| is almost linear in them.
            step = np.zeros(T)
            bound = (lam > 0) | (norm > 1.0)
            if bound.any():
                turn = np.linalg.solve(H, N[t] * new_M[:, i].T)
                turn -= unit @ np.linalg.solve(sums, member.T @ turn)
                slope = 0.5 * (N[:, t] * new_M[:, i]) @ turn - N * gram
                step[bound] = np.linalg.solve(slope[bound][:, bound], (norm**2 * (1 - norm))[bound])
            step = np.maximum(step, -lam)

            # Settled when neither the support nor a multiplier moves.
            was = live
            live = inside & (new_M < rho[:, None])
            if (was == live).all() and (abs(step) <= NEGLIGIBLE * (own + eps + lam)).all():
                return new, new_b, lam
            lam = lam + step
    except np.linalg.LinAlgError:
        pass
    return None


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


# >>> shared: files 1
FORMAT = 2  # The version of the model files.


@contextmanager
def write_file(path):
    """A binary file that takes the place of path once all is written and safe on the disk."""
    path = os.path.realpath(path)
    mode = os.stat(path).st_mode if os.path.exists(path) else stat.S_IFREG | stat.S_IWUSR
    if not stat.S_ISREG(mode):  # It is a device or a pipe.
        with open(path, "wb") as file:
            yield file
        return
    if not mode & 0o222:
        raise PermissionError(f"{path} is read-only; choose another name or make it writable")
    folder, name = os.path.split(path)
    ours = f"{name}.{platform.node()}."
    for other in os.listdir(folder):
        process = other[len(ours) :].partition(".")[0]
        if other.startswith(ours) and other.endswith(".part") and not _is_alive(process):
            with suppress(OSError):
                os.unlink(os.path.join(folder, other))
    part = os.path.join(folder, f"{ours}{os.getpid()}.{threading.get_ident()}.part")
    try:
        with open(part, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(part)
        raise


def _is_alive(process):
    """Whether the process of this number, a text, runs on this machine; in doubt it does."""
    if os.name != "posix" or not process.isdecimal():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


def read_model(path):
    """Header (dict) and arrays (dict) of a model file; never runs code from it."""
    try:
        with open(path, "rb") as file:
            if file.read(2) != b"PK":
                raise ValueError("it is no .npz archive")
        with zipfile.ZipFile(path) as file:
            parts = file.infolist()
        if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
            raise ValueError("it is compressed and could be of any size")
        if sum(part.file_size for part in parts) > os.path.getsize(path):
            raise ValueError("its parts are larger than the file")
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        header = json.loads(str(arrays.pop("header")))
        if header["format"] != FORMAT:
            raise ValueError(f"it has format {header['format']}, this version reads {FORMAT}")
        return _checked(header), arrays
    except FileNotFoundError:
        raise
    except Exception as error:  # Damaged files make NumPy, zipfile and json raise a dozen kinds.
        raise ValueError(f"{path} is not a model file of ensolve: {error}") from None


def _checked(header):
    """The parts of a model's header, and of the models inside it, of the right kinds."""
    models = {
        name: [_checked(part) if isinstance(part, dict) else part for part in value]
        if isinstance(value, list)
        else _checked(value)
        for name, value in header.get("models", {}).items()
    }
    params, values = dict(header["params"]), dict(header["values"])
    params = {k: dict(v["pairs"]) if isinstance(v, dict) else v for k, v in params.items()}
    names = {name: list(given) for name, given in header.get("names", {}).items()}
    found = {"class": str(header["class"]), "params": params, "values": values}
    return found | {"models": models, "names": names}


def _plain(value):
    """A value as json wants it."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a file holds numbers, texts and our models only, no {type(value).__name__}")


class _Model(_Estimator):
    """An estimator that is kept in a file."""

    def save(self, path, notes=None):
        """Write the fitted model to one .npz file, atomically; equal models give equal files.

        `notes`, a JSON-able dict, is kept in the header and comes back as `notes_`.
        """
        who = type(self).__name__
        if not self.__sklearn_is_fitted__():
            raise ValueError(f"This {who} instance is not fitted yet; call fit before save")
        arrays = {}
        header = {"format": FORMAT, **self._pack(arrays)}
        if notes is not None:
            header["values"]["notes_"] = notes
        try:
            text = json.dumps(header, default=_plain)
        except TypeError as error:
            raise ValueError(f"{who}: cannot save a model with such parameters: {error}") from None
        with write_file(path) as file, zipfile.ZipFile(file, "w") as archive:
            for name, array in ({"header": np.array(text)} | arrays).items():
                part = zipfile.ZipInfo(f"{name}.npy")  # All of them have the same date.
                with archive.open(part, "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, array, allow_pickle=False)

    @classmethod
    def load(cls, path):
        """Read a model written by save; a foreign, damaged or other class's file raises."""
        return cls._build(*cls._read(path), path)

    @classmethod
    def _read(cls, path):
        """Header of a model of this class, and its arrays by the place of the model in it."""
        header, arrays = read_model(path)
        if header["class"] != cls.__name__:
            raise ValueError(f"{path} holds a model of {header['class']}, not of {cls.__name__}")
        places = {}
        for name, value in arrays.items():
            place, slash, last = name.rpartition("/")
            places.setdefault(place + slash, {})[last] = value
        return header, places

    @classmethod
    def _build(cls, header, places, path, place="", known=None):
        """The model of a header and of the arrays at its place, checked; `known` are the classes
        of models inside models."""
        params, fitted = header["params"], header["values"] | places.get(place, {})
        if header["models"] or set(params) - set(cls._param_names()):
            raise ValueError(f"{path} holds parameters that {cls.__name__} does not have")
        model = cls(**params)
        is_name = re.compile(r"[a-z]\w*_").fullmatch
        vars(model).update({name: value for name, value in fitted.items() if is_name(name)})
        try:
            good = model._is_intact() if fitted or not place else True
        except Exception:  # Damaged values may raise anything.
            good = False
        if not good:
            raise ValueError(
                f"{path} is not a model file of ensolve: its {cls.__name__} is damaged"
            )
        return model

    def _pack(self, arrays, place=""):
        """Header of the model; its arrays go to `arrays`, with the place before their names."""
        header = {"class": type(self).__name__, "params": {}, "values": {}, "models": {}}
        fitted = {name: value for name, value in vars(self).items() if name.endswith("_")}
        for name, value in (self.get_params(deep=False) | fitted).items():
            if name != "callback":
                self._pack_value(name, value, header, arrays, place)
        return header

    def _pack_value(self, name, value, header, arrays, place):
        """Put a parameter or a fitted attribute into the header or among the arrays."""
        if not name.endswith("_"):
            value = None if isinstance(value, RANDOM) else value
            pairs = {"pairs": [*value.items()]} if isinstance(value, dict) else None
            header["params"][name] = pairs or value  # json would make texts of a dict's keys.
        elif isinstance(value, np.ndarray):
            texts = value.dtype == object
            arrays[place + name] = np.array([str(v) for v in value]) if texts else value
        else:
            header["values"][name] = value

    def _is_intact(self):
        """Whether what a file said fits together, all that predict uses: kernels check no bounds.

        An exception counts as no."""
        self._check_params()
        d, names = self.n_features_in_, getattr(self, "feature_names_in_", None)
        good = type(d) is int and d >= 1 and type(self.converged_) is bool
        good &= names is None or names.shape == (d,) and names.dtype.kind == "U"
        good &= isinstance(getattr(self, "notes_", {}), dict)
        if self._estimator_type != "classifier":
            return good
        K, kind = self.classes_.size, self.classes_.dtype.kind
        good &= self.classes_.shape == (K,) and (K >= 2 if self._multi_class else K == 2)
        return good and kind in "biufUM" and bool((self.classes_[:-1] < self.classes_[1:]).all())

    def _holds(self, name, shape, kind="f"):
        """Whether an attribute is an array of this shape, None for any, of finite numbers: "f" of
        float64, "i" of int64."""
        value = getattr(self, name)
        good = isinstance(value, np.ndarray) and value.dtype == {"f": "f8", "i": "i8"}[kind]
        good = good and value.ndim == len(shape) and value.flags.c_contiguous
        good = good and all(k in (None, n) for k, n in zip(shape, value.shape, strict=True))
        return good and bool(np.isfinite(value).all())


# <<< shared: files


# -- estimator ------------------------------------------------------------------------------------
ASYMMETRY = 1e-8  # A given kernel matrix may have this much, relative to entry and lengths.
KERNEL_LIMIT = 1e150  # Below this, squares of kernel values are finite.


class DRM(_Model):
    """Diversity regularized machine.

    Parameters
    ----------
    n_estimators : int >= 1
        Number of members T.
    nu : float > 0
        Weight of the margin rho against the squared slacks.
    mu : float >= 0
        Weight of the diversity term. With equal samples it shrinks the one machine as
        2 mu T (T - 1) |w|^2 would: too much of it, and only the larger class is ever predicted.
    kernel : "rbf", "linear", "poly" or "precomputed"
        exp(-gamma |x - z|^2), x.z, (gamma x.z + coef0)^degree, or X itself: the kernel's values,
        (n, n) to fit and (rows, n) to predict. A constant 1 is added for the bias. A given matrix
        has to be symmetric. If it has negative eigenvalues (all rows are checked, by Cholesky's
        method), they are made up for on its diagonal, and the result is never called converged.
    gamma : "mean_distance", "scale" or float > 0
        "mean_distance" is the paper's 1 / (2 w^2), w the mean distance between training rows;
        "scale" is 1 / (d * variance of X).
    degree : int >= 1
        Degree of the poly kernel.
    coef0 : float >= 0
        Constant in the poly kernel.
    sampling : None or "bootstrap"
        None is the paper's model, whose members are all equal at the optimum. "bootstrap" gives
        each member its own sample: then they differ.
    solver : "auto" or "alternating"
        "alternating" is Algorithm 1 with all members, until they settle; "auto" trains one machine
        where samples are equal, and takes other methods where Algorithm 1 is slow.
    cache_size : float > 0
        Megabytes for kernel values. Up to n = 11,000 rows all fit into the default; beyond, rows
        are computed anew when they are needed again.
    tol : float > 0
        Target for `residual_`.
    max_iter : int >= 1
        Most iterations: rounds over the members, steps of Newton's method and of the interior
        point method all count.
    class_weight : None, "balanced" or dict
        Factors of the weights of the rows by class; "balanced" gives the classes the same weight.
    n_jobs : None or int
        Threads for kernel values, in training and prediction, no more than these are worth; None:
        1, -1: as many as there are processors. The answer is the same within the certified gap.
    random_state : None, int, RandomState or Generator
        Seed of the bootstrap.
    verbose : int
        1 prints one line after every iteration.
    callback : None or callable
        Called as callback(self, iteration, info) after every iteration; True stops with the last
        members that have a certificate.

    Attributes
    ----------
    dual_coef_ (T, n) : w_t = sum_i dual_coef_[t, i] phi(x_i), labels included
    alpha_ (T, n) : the point of the dual that proves residual_: >= 0, each row sums to nu / T
    coef_ (T, d), intercept_ (T,) : the members themselves, with the linear kernel and "auto"
    support_ : training rows with a coefficient; support_vectors_ : those rows, if not precomputed
    rho_ (T,), lambda_ (T,) : margins; multipliers of the norm bounds, 0 where |w_t| < 1
    gram_ (T, T) : inner products of the members
    gamma_ : the number used in the rbf and poly kernels
    weights_ (T,) : 1 / T each
    objective_, residual_ : value of the problem, which is below 0; certified duality gap, an
        allowance for rounding included, / |objective_|; infinite if there is no certificate
    n_iter_, converged_, trace_ : iterations, residual_ <= tol, objective per iteration
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = DRM(n_estimators=5, sampling="bootstrap", random_state=0).fit(X, y)
    >>> model.score(X, y), model.residual_ <= model.tol
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
        """Train on X (n, d) and two classes y; sample_weight multiplies each example's loss, a
        weight of 2 is the row twice."""
        self._check_params()
        data = self._check_fit(X, y, sample_weight)
        n = len(data[0])
        with np.errstate(all="ignore"), self._team(n * n // 2) as team:
            return self._fit(*data, team)  # What is not finite gets no certificate.

    def _team(self, values):
        """As many threads as n_jobs allows and so many kernel values are worth."""
        return _Team(max(min(self._threads(), values // THREAD_VALUES), 1))

    def _fit(self, X, y, weight, team):
        # Rows without a weight are left out.
        n = len(X)
        T = self.n_estimators
        X, lacking = self._check_kernel(X)
        used = np.flatnonzero(weight)
        if used.size < n:
            y = y[used]
            weight = weight[used]
            X = X[np.ix_(used, used)] if self.kernel == "precomputed" else X[used]
        self.trace_ = []
        self.weights_ = np.full(T, 1.0 / T)

        # Kernel values, in units that make phi about 1 long, unless phi is written out.
        p, ridge, members = self._members(weight)
        dtype = np.float32 if self.solver == "auto" else np.float64
        squares = self._set_gamma(X, weight, dtype, team)
        diag = self._diagonal(X)
        rows = None
        if not self._is_explicit(X, len(p)):
            gamma = getattr(self, "gamma_", None)
            kernel = self._kernel_to(X)
            rows = _Rows(kernel, X, y, diag, self.cache_size, dtype, squares, gamma, team)
        unit = 1.0 if rows is None else rows.unit
        root = math.sqrt(unit)
        problem = _problem(p, float(self.nu) / root, float(self.mu) / unit, ridge / unit)
        lost = 0.0

        def report(iteration, objective, residual, rounding):
            nonlocal lost
            lost = rounding
            certified = not lacking and residual >= 0.0
            residual = residual if certified else math.inf
            return self._report(iteration, unit * objective, residual=residual)

        # The solver: an interior point method with explicit phi, else Algorithm 1.
        if rows is None:
            points = _Points(X, y)
            lam, rho, gram, W, a = _interior(points, problem, self.tol, self.max_iter, report)
            b = _coefficients(points, problem, W, a, lam)
            self.coef_ = W[members, :-1]
            self.intercept_ = W[members, -1]
        else:
            paper = self.solver == "alternating"
            lam, rho, gram, b, a = _solve(rows, problem, self.tol, self.max_iter, paper, report)

        # The fitted members, and what is proved of them.
        self._keep(members, used, n, (lam * unit, rho * root, gram, b / root * y, a * root))
        if self.kernel != "precomputed":
            self.support_vectors_ = X[np.searchsorted(used, self.support_)]
        self.trace_ = np.array(self.trace_)
        self.converged_ = bool(self.residual_ <= self.tol)
        if not self.converged_:
            self._warn(lacking, lost)
        return self

    def _members(self, weight):
        """Weights p of the slacks of each member that is trained, the ridge on its |w|^2, and
        which of them each member of the ensemble is: with "auto" and equal samples all are one."""
        T = self.n_estimators
        if self.solver == "auto" and self.sampling is None:
            v = weight[None]
            ridge = 2.0 * float(self.mu) * T * (T - 1)
            members = np.zeros(T, np.intp)
        else:
            v = self._bootstrap(weight) if self.sampling else np.repeat(weight[None], T, axis=0)
            ridge = 0.0
            members = np.arange(T)
        return 2.0 / len(v) * v / v.sum(axis=1)[:, None], ridge, members

    def _bootstrap(self, weight):
        """Example weights of each member: how often it drew the row, times the row's own weight."""
        rng = np.random.default_rng(self._seed())
        n = weight.size
        return np.array([np.bincount(rng.integers(0, n, n), minlength=n) * weight
                         for _ in range(self.n_estimators)])  # fmt: skip

    def _is_explicit(self, X, T):
        """Whether phi is written out: with the linear kernel, where that is cheap for T members."""
        columns = min(X.shape[1], len(X)) + 1
        cheap = T * len(X) * columns**2 <= EXPLICIT
        return self.kernel == "linear" and self.solver == "auto" and cheap

    def _keep(self, members, used, n, solution):
        """Attributes of all members, with a coefficient for each of n rows. Where one machine
        stands for all of them, they share its multipliers."""
        lam, rho, gram, coef, a = solution
        T = len(members)
        share = T // len(rho)
        self.rho_ = rho[members]
        self.lambda_ = lam[members] / share
        self.gram_ = gram[np.ix_(members, members)]
        self.dual_coef_, self.alpha_ = np.zeros((2, T, n))
        self.dual_coef_[:, used] = coef[members]
        self.alpha_[:, used] = a[members] / share
        self.support_ = np.flatnonzero(self.dual_coef_.any(axis=0))

    def _warn(self, lacking, lost):
        """Say why there is no certificate as good as asked for, and what helps."""
        if lacking:
            why = (
                ": the kernel matrix is not positive semi-definite, so the problem is not convex "
                f"and no result can be certified; fitted with {lacking:.1g} added to its "
                "diagonal. Pass a kernel without negative eigenvalues"
            )
        else:
            why = (
                f" stopped after {self.n_iter_} iterations with residual {self.residual_:.1e} "
                f"(tol={self.tol:g}); "
            )
            if lost > 0.5 * self.tol:
                why += f"rounding alone is {lost:.1e} of it: scale and centre X, or raise tol"
            else:
                why += f"raise max_iter={self.max_iter} or mu, or scale X"
        warnings.warn(type(self).__name__ + why, ConvergenceWarning, stacklevel=5)

    def votes(self, X):
        """Output of every member, (n, T)."""
        X = self._check_X(X)
        if hasattr(self, "coef_"):
            return X @ self.coef_.T + self.intercept_
        if self.kernel == "precomputed":
            X = X[:, self.support_]
            values = self._kernel_to(None)
        else:
            values = self._kernel_to(self.support_vectors_)
        coef = self.dual_coef_[:, self.support_].T
        out = np.empty((len(X), len(self.dual_coef_)))

        def vote(parts):
            for part in parts:
                out[part] = values(X[part], np.float64) @ coef

        with self._team(len(X) * len(self.support_)) as team:
            team.share(vote, team.chunks(len(X), len(self.support_)))
        return out

    def decision_function(self, X):
        """Mean of the members' outputs, (n,)."""
        return self.votes(X) @ self.weights_

    def facts(self):
        """Figures of the fit that a report should show."""
        facts = {"% of members at the norm bound": 100.0 * float((self.lambda_ > 0).mean())}
        pairs = np.triu_indices(len(self.gram_), 1)
        if pairs[0].size:
            square = self.gram_.diagonal()
            cosine = self.gram_ / np.maximum(np.sqrt(np.outer(square, square)), NONZERO)
            angles = np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))
            facts["mean pairwise angle in degrees"] = float(angles[pairs].mean())
        return facts

    def _is_intact(self):
        T = self.weights_.size
        d = self.n_features_in_
        given = self.kernel == "precomputed"
        good = super()._is_intact() and T >= 1 and self._holds("weights_", (T,))
        if hasattr(self, "coef_"):
            good = good and self.kernel == "linear" and self._holds("intercept_", (T,))
            return good and self._holds("coef_", (T, d))
        if self.kernel in ("rbf", "poly"):
            good = good and type(self.gamma_) is float and 0 < self.gamma_ < math.inf
        good = good and self._holds("dual_coef_", (T, d if given else None))
        good = good and self._holds("support_", (None,), "i")
        m, n = self.support_.size, self.dual_coef_.shape[1]
        good = good and (m == 0 or 0 <= self.support_.min() <= self.support_.max() < n)
        return good and (given or self._holds("support_vectors_", (m, d)))

    def _set_gamma(self, X, weight, dtype, team):
        """Sets gamma_; returns squared distances of all rows if they were needed and serve as a
        start for the kernel values in single precision."""
        if self.kernel == "precomputed":
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            centred = X - X.mean(axis=0)
            longest = float((centred**2).sum(axis=1).max())
            self._refuse(max(longest, float((X**2).sum(axis=1).max())))

        # The mean distance needs all distances: they are kept where the kernel values can be made
        # from them in place.
        table = None
        if self.gamma == "mean_distance" and self.kernel != "linear":
            n = len(X)
            if self.kernel == "rbf" and dtype == np.float32 and longest < FITS:
                if _slots(n, self.cache_size, dtype) == n:
                    table = np.empty((n, n), dtype)
            width = _mean_distance(X, weight, table, team)
            self.gamma_ = 1.0 / (2.0 * width**2) if width > 0 else 1.0
        elif self.gamma == "scale" and self.kernel != "linear":
            self.gamma_ = float(scale_gamma(X, weight))
        elif self.kernel != "linear":
            self.gamma_ = float(self.gamma)
        return table if table is not None and 2.0 * self.gamma_ * longest <= LONG else None

    def _kernel_to(self, Z):
        gamma = getattr(self, "gamma_", None)
        return _kernel_to(self.kernel, Z, gamma, self.degree, float(self.coef0))

    def _diagonal(self, X):
        """k(x, x) + 1, and no kernel value that is not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.kernel == "precomputed":
                diag = X.diagonal()
                size = float(abs(X).max())
            elif self.kernel == "rbf":
                diag = np.ones(len(X))
                size = float(self.gamma_ * (X**2).sum(axis=1).max())
            else:
                diag = (X**2).sum(axis=1)
                if self.kernel == "poly":
                    diag = (self.gamma_ * diag + self.coef0) ** self.degree
                size = float(diag.max())
        self._refuse(size)
        return diag + 1.0

    def _refuse(self, size):
        """Raise where kernel values of this size, or squares of them, are not finite."""
        if not size < KERNEL_LIMIT:
            raise ValueError(
                f"{type(self).__name__}: X is too large for kernel={self.kernel!r}: squared "
                f"lengths or kernel values reach {size:.3g}, and products of two of them have to "
                "be finite; scale X" + (" or lower gamma" * (self.kernel in ("rbf", "poly")))
            )

    def _check_kernel(self, X):
        """X, of a given kernel matrix the symmetric part with as much added to its diagonal as
        makes it semi-definite, and how much that is."""
        if self.kernel != "precomputed":
            return X, 0.0
        who = type(self).__name__
        n = len(X)
        if X.shape != (n, n):
            raise ValueError(
                f"{who}: kernel='precomputed' needs a square kernel matrix of the training rows, "
                f"got shape {X.shape}"
            )

        # The two sides of the diagonal may differ by rounding only.
        length = np.sqrt(abs(X.diagonal()))
        for part in _chunks(n):
            here = X[part]
            there = X[:, part].T
            allowed = np.maximum(abs(here), abs(there)) + length[part, None] * length
            wrong = abs(here - there) - ASYMMETRY * allowed
            if wrong.max() > 0:
                i, j = np.unravel_index(wrong.argmax(), wrong.shape)
                i += part.start
                raise ValueError(
                    f"{who}: the kernel matrix must be symmetric, but K[{i}, {j}] = {X[i, j]:.9g} "
                    f"and K[{j}, {i}] = {X[j, i]:.9g}; pass (K + K.T) / 2 if that is rounding"
                )

        # Negative eigenvalues are made up for.
        X = 0.5 * (X + X.T)
        lacking = _lacking(X + 1.0)
        return X + lacking * np.eye(n) if lacking else X, lacking


class NuSVM(DRM):
    """nu-SVM with squared slack: DRM with one member; parameters and attributes as there.

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

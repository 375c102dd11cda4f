"""ExRM: an ensemble of linear or kernel machines trained together, diverse by exclusivity.

Problem (minimised over w_1..w_T and b_1..b_T):

    1/2 sum_j ( sum_t |w_tj| + beta )^2  +  lam sum_t sum_i n_ti max(0, 1 - y_i (x_i.w_t + b_t))^p

    p >= 1 is the power of the hinge, beta >= 0 promotes sparsity, n_ti >= 0 are example weights per
    member: all ones in the paper, bootstrap counts with sampling="bootstrap". The ensemble is the
    mean of the members. T = 1 is the primal SVM (PSVM).

Method    "paper": Algorithm 2 as printed, an augmented Lagrangian method. "alm": this splitting
          with a balanced penalty, certified. Both cost O((n + d) d) per member and iteration.
          "auto": equal samples are solved as one member with lam/T and beta/T, the exact answer
          for all. One member, and coupled members (different samples or beta > 0) with many rows
          and p >= 2, are solved by semismooth Newton, on nested subsamples first. An iteration
          costs two products with X and, for a new Hessian, O(n d^2) per member; conjugate gradients
          replace it if a few products suffice. For p < 2 the loss is replaced by its Moreau
          envelope inside an augmented Lagrangian method.
          Other problems, and those that Newton does not solve, go to a primal-dual interior point
          method: 10 to 60 iterations, each O(n d^2 + d^3) per member, or O(d r^2 + r^3) if all
          members together have r < d rows.
          A feasible dual point certifies the answer: objective and gap are computed anew from the
          returned coefficients, and the fit has converged if gap / objective <= tol.
Reference Guo, Wang, Ling, "Exclusivity Regularized Machine: A New Ensemble SVM Classifier",
          IJCAI 2017; Algorithms 1-2, equations (5)-(18). Mehrotra, "On the implementation of a
          primal-dual interior point method", SIAM J. Optimization 1992.
Departs   The growing penalty (rho = 1.1) freezes before the optimum; "auto" and "alm" reach it.
          With equal samples all members are equal at the optimum: the ensemble is PSVM(lam/T).
          The weight step (8) is solved exactly; prox="reweighted" restores the re-weighting, which
          runs until it changes by less than 1e-12. "paper" warns of the gap that it leaves.
          A sample of one class gives a member w = 0 whose bias is that class.
Symbols   paper      here        meaning                          shape
          W^T, b     W, b        members, one per row             (T, d), (T,)
          P^T        P           copy of W in the splitting       (T, d)
          E^T, Z^T   E, Z        errors and their multipliers     (T, n)
          Q^T        Q           multipliers of P = W             (T, d)
          lam * n    cost        weight of each example's loss    (T, n)
          (dual)     ya          y times the dual variable        (T, n)
          (gradient) G           ya X, minus the loss gradient    (T, d)
Use       m = ExRM(n_estimators=10, sampling="bootstrap").fit(X, y); m.predict(X)
Origin    ensolve, solvers/exrm.py, MIT licence
"""

import ast
import inspect
import math
import operator
import os
import re
import sys
import warnings
from contextlib import suppress
from functools import cache, partial, wraps
from importlib import import_module
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.linalg.lapack import dposv

LANES = {"reassoc", "contract", "nsz", "arcp"}  # Vectorised sums; NaN stays NaN.
EPS = 2.0**-52  # Relative rounding error of one operation, at most.
TINY = 1e-200  # Numbers below count as zero: powers of them would not be exact.


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


# -- the problem, its dual and the certificate --------------------------------------------------
ROUNDING_FRACTION = 0.01  # Rounding errors up to this fraction of tol are added to the gap.
SPLIT = 2.0**27 + 1.0  # Dekker's factor: it splits a double into halves with exact products.


class _Problem(NamedTuple):
    """Data of the problem: rows X (n, d), signs y (n,), cost = lam n_ti (T, n), p and beta."""

    X: np.ndarray
    y: np.ndarray
    cost: np.ndarray
    p: float
    beta: float


def _objective(problem, W, b):
    """Objective of the module's docstring, equation (5)."""
    X, y, cost, p, beta = problem
    slack = np.maximum(1.0 - y * (W @ X.T + b[:, None]), 0.0)
    return 0.5 * ((np.abs(W).sum(0) + beta) ** 2).sum() + (cost * slack**p).sum()


@jit
def _exclusivity(W, D, step, side, G, beta):
    """Regulariser at V = W + step D, its slope along D, its conjugate at G, <V, G> and <D, G>.

    Weights at exactly 0 have two slopes: side = 1 is the one ahead, side = -1 the one behind.
    """
    value = slope = conjugate = inner = along = 0.0
    for j in range(W.shape[1]):
        s, ds, m = beta, 0.0, 0.0  # beta + sum_t |v_tj|, its slope, and max_t |G_tj|.
        for t in range(W.shape[0]):
            d = D[t, j]
            v = W[t, j] + step * d
            s += abs(v)
            ds += d if v > 0.0 else (-d if v < 0.0 else side * abs(d))
            m = max(m, abs(G[t, j]))
            inner += v * G[t, j]
            along += d * G[t, j]
        value += 0.5 * s * s
        slope += s * ds
        conjugate += 0.5 * m * m - beta * m if m > beta else -0.5 * beta * beta
    return value, slope, conjugate, inner, along


@jit(nogil=True, fastmath=LANES)
def _loss_terms(xw, b, y, cost, ratio, p, width, ya):
    """Loss of one member at bias b, p = 1 or 2; overwrites ya (n,) with y times the slopes.

    p = 1: slopes of the Moreau envelope of that width with multipliers ratio * cost.
    Returns the sums of ya, of |ya|, of loss'', of the loss, and of cost e^p for the conjugate.
    """
    balance = total = curvature = loss = 0.0
    for i in range(y.shape[0]):
        z = 1.0 - y[i] * (xw[i] + b)
        c = cost[i]
        if p == 2.0:
            z = max(z, 0.0)
            slope = 2.0 * c * z
            curvature += 2.0 * c if z > 0.0 else 0.0
            loss += c * z * z
        else:
            v = z + ratio[i] * width
            slope = c * min(max(v / width, 0.0), 1.0)
            curvature += c / width if v > 0.0 and v < width else 0.0
            loss += c * max(z, 0.0)
        ya[i] = y[i] * slope
        balance += y[i] * slope
        total += slope
    return balance, total, curvature, loss, loss if p == 2.0 else 0.0


@jit(nogil=True)
def _power_terms(xw, b, y, cost, ratio, p, width, ya):
    """Loss of one member at bias b, any p > 1; slopes of its Moreau envelope if width > 0.

    Overwrites ya (n,); returns the five sums of `_loss_terms`.
    """
    balance = total = curvature = loss = power = 0.0
    for i in range(y.shape[0]):
        z = 1.0 - y[i] * (xw[i] + b)
        c = cost[i]
        loss += c * max(z, 0.0) ** p
        v = z + ratio[i] * width
        slope = 0.0
        if v > 0.0:
            e = _power_prox(v, width, p) if width > 0.0 else v
            if width > 0.0 and e < TINY:
                slope = c * v / width
                curvature += c / width
            else:
                slope = c * p * e ** (p - 1.0)
                second = (p - 1.0) * p * e ** (p - 2.0)
                curvature += c * second / (1.0 + width * second)
                power += slope * e / p
        ya[i] = y[i] * slope
        balance += y[i] * slope
        total += slope
    return balance, total, curvature, loss, power


@jit
def _power_prox(v, t, p):
    """argmin over e >= 0 of t e^p + (e - v)^2 / 2; v, t > 0, p > 1. Newton inside a bracket."""
    if p == 2.0:
        return v / (1.0 + 2.0 * t)
    low, high = 0.0, min(v, (v / (p * t)) ** (1.0 / (p - 1.0)))
    e = high
    for _ in range(100):
        s = p * t * e ** (p - 1.0)
        excess = e + s - v
        if excess > 0.0:
            high = e
        else:
            low = e
        if abs(excess) <= 4e-16 * v or high - low <= 4e-16 * high:  # Two roundings.
            break
        e = e - excess / (1.0 + (p - 1.0) * s / e) if e > 0.0 else 0.0
        if not low < e < high:
            e = 0.5 * (low + high)
    return e


@jit(fastmath=LANES)
def _make_feasible(ya, cost, p):
    """Scale the heavier class of each member so that ya (T, n) sums to 0: a feasible dual point.

    Overwrites ya; returns the loss part of the dual value, sum of alpha - conjugate(alpha).
    """
    dual = 0.0
    for t in range(ya.shape[0]):
        total = signed = 0.0
        for i in range(ya.shape[1]):
            total += abs(ya[t, i])
            signed += ya[t, i]
        plus, minus = 0.5 * (total + signed), 0.5 * (total - signed)
        scale_plus = min(1.0, minus / plus) if plus > 0.0 else 0.0
        scale_minus = min(1.0, plus / minus) if minus > 0.0 else 0.0

        for i in range(ya.shape[1]):
            ya[t, i] *= scale_plus if ya[t, i] > 0.0 else scale_minus
            a = abs(ya[t, i])
            dual += a
            if a > 0.0 and p == 2.0:
                dual -= 0.25 * a * a / cost[t, i]
            elif a > 0.0 and p > 1.0:
                dual -= (p - 1.0) * cost[t, i] * (a / (p * cost[t, i])) ** (p / (p - 1.0))
    return dual


def _dual_value(problem, ya):
    """Dual value at ya (T, n), which is made feasible first; overwrites ya."""
    loss = _make_feasible(ya, problem.cost, problem.p)
    G = ya @ problem.X
    return loss - _exclusivity(G, G, 0.0, 1.0, G, problem.beta)[2]


def _losses(problem, outputs):
    """Loss of all members at their outputs (T, n), and ya = y times its slopes, (T, n)."""
    _, y, cost, p, _ = problem
    zero, ya = np.zeros(len(y)), np.empty_like(cost)
    terms, width = (_loss_terms, TINY) if p in (1.0, 2.0) else (_power_terms, 0.0)
    members = zip(outputs, cost, ya, strict=True)
    return sum(terms(f, 0.0, y, c, zero, p, width, slopes)[3] for f, c, slopes in members), ya


def _certificate(problem, W, b, dual, tol):
    """Objective at W and b, computed anew, and its relative distance from the dual value.

    The rounding error of the outputs is added to the distance. If it is too large, the outputs are
    recomputed in double-double arithmetic. A dual value above the objective counts as an error.
    """
    X, _, _, _, beta = problem
    reg = 0.5 * ((np.abs(W).sum(0) + beta) ** 2).sum()
    outputs = W @ X.T + b[:, None]
    loss, ya = _losses(problem, outputs)
    objective = reg + loss

    # Bound on the loss error by rounding of x.w + b, to first order.
    size = np.sqrt(X.ravel() @ X.ravel() * (W * W).sum(1))
    error = np.sqrt((ya * ya).sum(1)) @ size + np.abs(ya).sum(1) @ np.abs(b)
    error *= EPS * (X.shape[1] + 2)
    if not error <= ROUNDING_FRACTION * tol * objective:
        for t in range(W.shape[0]):
            _compensated_outputs(X, W[t], b[t], outputs[t])
        loss, ya = _losses(problem, outputs)
        objective = reg + loss
        error = EPS * (np.abs(ya) * (1.0 + np.abs(outputs))).sum()
    return float(objective), _residual(objective, dual, error)


def _residual(objective, dual, error):
    """Gap between objective and dual value plus the rounding error, relative to the objective."""
    gap = max(abs(objective - dual), EPS * objective) + error
    residual = gap / max(objective, TINY)
    return float(residual) if residual == residual else math.inf


@jit(nogil=True)
def _compensated_outputs(X, w, b, out):
    """out (n,) = X w + b in double-double arithmetic, rounded at the end."""
    for i in range(X.shape[0]):
        high, low = b, 0.0
        for j in range(X.shape[1]):
            # The product and its rounding error, by halves (Dekker).
            x, v = X[i, j], w[j]
            product = x * v
            scaled = SPLIT * x
            x1 = scaled - (scaled - x)
            scaled = SPLIT * v
            v1 = scaled - (scaled - v)
            x2, v2 = x - x1, v - v1
            low += ((x1 * v1 - product) + x1 * v2 + x2 * v1) + x2 * v2

            # The sum and its rounding error (Knuth).
            total = high + product
            back = total - high
            low += (high - (total - back)) + (product - back)
            high = total
        out[i] = high + low


# -- the paper's method: Algorithms 1 and 2 -----------------------------------------------------
REWEIGHT_EPS = 1e-10  # Keeps the weights of Algorithm 1 finite.
REWEIGHT_TOL = 1e-12  # Relative change of the weights at which Algorithm 1 has converged.
REWEIGHT_STEPS = 100_000  # Maximum steps of Algorithm 1 per feature.
PAPER_STOP = 0.05  # Change of the objective at which Algorithm 2 stops.
CHECK_EVERY = 10  # Iterations between two certificates of "alm".


@jit
def _feature_prox(u, h, beta, w):
    """Weight step of one feature: overwrite w (T,), its weights in all members, with

    argmin 1/2 (sum |w| + beta)^2 + sum_t (h_t w_t^2 / 2 - u_t w_t).
    w_t = sgn(u_t) max(|u_t| - beta - s, 0) / h_t with s = sum |w|. Newton finds the root s from 0:
    the equation is convex and decreasing in s, so entries only ever become 0.
    """
    s = 0.0
    for _ in range(u.shape[0] + 1):
        top, bottom = 0.0, 1.0
        for t in range(u.shape[0]):
            if abs(u[t]) - beta > s:
                top += (abs(u[t]) - beta) / h[t]
                bottom += 1.0 / h[t]
        if top <= s * bottom:
            break
        s = top / bottom

    for t in range(u.shape[0]):
        w[t] = math.copysign(max(abs(u[t]) - beta - s, 0.0) / h[t], u[t])


@jit
def _split_weights(P, Q, mu, beta, W, reweighted):
    """Weight step (8) of each feature, exact or by Algorithm 1 from the current W; overwrites W."""
    T, d = P.shape
    u, w, h = np.empty(T), np.empty(T), np.full(T, mu)
    for j in range(d):
        for t in range(T):
            u[t] = mu * P[t, j] + Q[t, j]
            w[t] = W[t, j]
        if not reweighted:
            _feature_prox(u, h, beta, w)
        for _ in range(REWEIGHT_STEPS if reweighted else 0):
            # Equations (10) and (11): |w|^2 stands for |w|, weighted by the last |w|.
            s = beta
            for t in range(T):
                s += abs(w[t])
            change = size = 0.0
            for t in range(T):
                new = u[t] / (s / (abs(w[t]) + REWEIGHT_EPS) + mu)
                change += abs(new - w[t])
                size += abs(new)
                w[t] = new
            if change <= REWEIGHT_TOL * size:
                break
        for t in range(T):
            W[t, j] = w[t]


@jit
def _split_errors(XP, Z, y, cost, b, mu, p, E):
    """Equations (13)-(15) for any p >= 1; overwrites E (T, n)."""
    for t in range(XP.shape[0]):
        for i in range(y.shape[0]):
            s = y[i] - XP[t, i] - b[t] - Z[t, i] / mu
            v = y[i] * s
            c = cost[t, i] / mu
            if v > 0.0 and c > 0.0:
                s = y[i] * (max(v - c, 0.0) if p == 1.0 else _power_prox(v, c, p))
            E[t, i] = s


class _Splitting:
    """Algorithm 2, the augmented Lagrangian method (ALM): its variables and one iteration."""

    def __init__(self, problem, reweighted):
        X, _, cost, _, _ = problem
        (n, d), T = X.shape, cost.shape[0]
        self.problem, self.reweighted = problem, reweighted

        # The paper's start.
        self.W, self.b = np.ones((T, d)), np.zeros(T)
        self.P, self.Q = np.zeros((T, d)), np.ones((T, d))
        self.E, self.Z = np.zeros((T, n)), np.zeros((T, n))
        self.XP = np.zeros((T, n))
        self.mu = 1.0

        # The inverse in (17), or by Woodbury's formula the smaller one of X X'.
        self.tall = d <= n
        self.K = np.linalg.inv(np.eye(d) + X.T @ X if self.tall else np.eye(n) + X @ X.T)

    def step(self):
        """Run one iteration with the penalty mu, which stays."""
        X, y, cost, p, beta = self.problem
        mu = self.mu
        self.last_E, self.last_P = self.E.copy(), self.P

        # Equation (8): the weights.
        _split_weights(self.P, self.Q, mu, beta, self.W, self.reweighted)

        # Equation (12): the biases.
        self.b = (y - self.E - self.XP - self.Z / mu).mean(axis=1)

        # Equations (13)-(15): the errors.
        _split_errors(self.XP, self.Z, y, cost, self.b, mu, p, self.E)

        # Equations (16) and (17): the copy of the weights.
        right = self.W - self.Q / mu + (y - self.b[:, None] - self.Z / mu - self.E) @ X
        self.P = right @ self.K if self.tall else right - (right @ X.T @ self.K) @ X
        self.XP = self.P @ X.T

        # Equation (18): the multipliers.
        self.primal_residual = self.E - y + self.XP + self.b[:, None]
        self.Z += mu * self.primal_residual
        self.Q += mu * (self.P - self.W)

    def balance(self):
        """Change the penalty so that primal and dual residual become of similar size."""
        primal = math.sqrt((self.primal_residual**2).sum() + ((self.P - self.W) ** 2).sum())
        change = ((self.E - self.last_E) ** 2).sum() + ((self.P - self.last_P) ** 2).sum()
        dual = self.mu * math.sqrt(change)
        if primal * dual > 0:
            self.mu *= min(max(math.sqrt(primal / dual), 0.1), 10.0)


def _solve_splitting(problem, tol, rho, reweighted, monitor):
    """Algorithm 2; returns W, b, objective, residual.

    rho > 1: as printed, with the paper's stopping rule. rho = None: the penalty is balanced between
    the residuals instead, and the fit stops at the certified gap tol.
    """
    X, y, cost, p, _ = problem
    top = cost if p == 1 else np.where(cost > 0, np.inf, 0.0)
    # The bias is free: centred columns give the same problem, and "alm" uses that.
    centre = X.mean(0) if rho is None else np.zeros(X.shape[1])
    inner = problem._replace(X=X - centre) if rho is None else problem
    run = _Splitting(inner, reweighted)
    next_balance, last, best = CHECK_EVERY, np.inf, None
    for iteration in range(1, monitor.max_iter + 1):
        run.step()

        # The penalty grows, or is balanced ever more rarely: otherwise it need not converge.
        if rho is not None:
            run.mu *= rho
        elif iteration == next_balance:
            run.balance()
            next_balance += max(CHECK_EVERY, iteration // 2)
        if rho is None and iteration % CHECK_EVERY and iteration < monitor.max_iter:
            continue

        # The certificate: multipliers within their bounds are a point of the dual.
        W, b = run.W.copy(), run.b - run.W @ centre
        ya = y * np.clip(-y * run.Z, 0.0, top)
        objective, residual = _certificate(problem, W, b, _dual_value(inner, ya), tol)
        if best is None or rho is not None or residual < best[3]:
            best = W, b, objective, residual

        # The paper's stopping rule, or the gap.
        done = residual <= tol if rho is None else not abs(objective - last) >= PAPER_STOP
        last = objective
        if monitor.on_iteration(iteration, objective, residual) or done:
            break
    return best


# -- semismooth Newton --------------------------------------------------------------------------
NEWTON_STEPS = 150  # Iterations before the interior point method takes over.
SUBSAMPLE_RATIO = 8  # Rows of a nested subsample relative to the next smaller one.
SUBSAMPLE_MANY = 10_000  # Rows per feature from which on that ratio is doubled.
SUBSAMPLE_ROWS = 10  # Rows per feature in the smallest subsample.
SUBSAMPLE_TOL = 10.0  # Relative gap at which a subsample is left: it only has to give a start.
SUBSAMPLE_TOL_ENVELOPE = 0.1  # SUBSAMPLE_TOL for p < 2: a bad start costs more iterations.
SUBSAMPLE_STEPS = 100  # Maximum iterations per subsample.
ENVELOPE_MAX = 4.0  # Initial width of the envelope: all rows of a zero start are inside.
ENVELOPE_MIN = 1e-6  # Smallest width of the envelope.
ENVELOPE_DECAY = 3.0  # Factor by which it gets narrower with each update of the multipliers.
INNER_FRACTION = 0.3  # Update the multipliers if the inner gap is below 0.3 * outer gap.
BIAS_TOL = 1e-10  # Relative imbalance of the classes' multipliers at which a bias is exact.
BALANCE_TOL = 1e-13  # Relative imbalance above which multipliers are made feasible by scaling.
OVERSHOOT = 0.5  # Search the line if the slope at the full step exceeds 0.5 * |initial slope|.
FLAT_SLOPE = 0.1  # The search ends at a slope of at most 0.1 * |initial slope|.
HESSIAN_REUSE = 0.1  # Keep a Hessian while each step reduces the gap at least to this fraction.
HESSIAN_ROWS = 4096  # Rows per product when a Hessian is formed: they stay in the cache.
CG_FRACTION = 10  # Try d / 10 products with the Hessian first: forming it costs as much.
CG_TOL = 0.1  # Relative residual at which conjugate gradients stop.
MODEL_TOL = 0.01  # Gap of the quadratic model of coupled members, relative to the inner gap.
MODEL_TOL_SWEEPS = 0.1  # MODEL_TOL after sweeps that stall: the interior point method costs more.
MODEL_STEPS = 60  # Maximum iterations of the model's interior point method.
SWEEP_DECAY = 0.9  # Repeat sweeps while each reduces the model's gap to 0.9 of the last.


def _solve_newton(problem, tol, monitor, subsamples=True, start=None):
    """Newton on nested subsamples of the rows, each solution the start of the next, then on all.

    start is W and b, or None for zeros. Returns W, b and the dual value that certifies them.
    """
    X, y, cost, p, beta = problem
    (n, d), T = X.shape, cost.shape[0]
    W, b = start or (np.zeros((T, d)), np.zeros(T))
    start = W, b, None, np.zeros((T, d)), ENVELOPE_MAX if p < 2 else 0.0
    enough = max(tol, SUBSAMPLE_TOL if p >= 2 else SUBSAMPLE_TOL_ENVELOPE)
    for size in _subsample_sizes(n, d)[:0:-1] if subsamples else ():  # All but the full set.
        rows = _subsample_rows(n, size)
        subsample = _Problem(X.take(rows, 0), y[rows], cost[:, rows] * (n / size), p, beta)
        run = _Newton(subsample, start)
        W, b, _ = run.solve(enough, SUBSAMPLE_STEPS, partial(monitor, rows=size))

        # The Hessian of a large subsample serves the next one.
        if p >= 2 and size > HESSIAN_ROWS and run.H is not None:
            run.form_hessian()
        start = W, b, run.H, run.centre, run.width
    return _Newton(problem, start).solve(tol, NEWTON_STEPS, monitor)


def _subsample_sizes(n, d):
    """Sizes of the nested subsamples, the largest first."""
    sizes, size = [], n
    while size >= max(SUBSAMPLE_ROWS * d, 400):
        sizes.append(size)
        size //= SUBSAMPLE_RATIO if size < SUBSAMPLE_MANY * d else 2 * SUBSAMPLE_RATIO
    return sizes


def _subsample_rows(n, size):
    """Indices of `size` of n rows: one of every stride, scattered by a hash."""
    i, stride = np.arange(size), n // size
    return i * stride + (i * 2654435761 >> 15) % stride


class _Newton:
    """Semismooth Newton on all members at once: the iterate and the steps that move it."""

    multipliers_apart = False  # If True, an iteration updates the multipliers or takes a step.

    def __init__(self, problem, start):
        X, _, _, p, beta = problem
        (n, d), T = X.shape, len(start[0])
        self.problem, self.p, self.beta = problem, p, beta
        # H (T, d, d) may be None; rows are centred by the means (T, d).
        self.W, self.b, self.H, self.centre, self.width = start
        self.single = T == 1 and beta == 0
        self.any_power = None if p in (1.0, 2.0) else True  # None: `_power_terms` is not compiled.
        self.use_cg = self.single and p >= 2 and d >= 5 * CG_FRACTION

        # Outputs without bias and their change; per-row arrays of the loss, all (T, n).
        self.XW = self.W @ X.T
        self.XdW, self.ya = np.empty((T, n)), np.empty((T, n))
        self.multiplier_ratio, self.curvature = np.zeros((T, n)), np.empty((T, n))
        self.dW, self.work = np.empty((T, d)), np.empty((3, d))
        self.last_gap = np.inf
        self.evaluate()

    def solve(self, tol, steps, monitor):
        """Iterate to the relative gap tol; return the best W and b, and their dual value."""
        best, best_residual = (self.W, self.b, -np.inf), np.inf
        settled = updated = False
        for iteration in range(steps):
            # Step 1: the duality gap of the iterate.
            dual = self.measure()
            residual = self.gap / max(self.objective, TINY)
            if residual < best_residual:
                best, best_residual = (self.W, self.b.copy(), dual), residual
            done = residual <= tol or iteration == steps - 1 or not math.isfinite(self.objective)
            if monitor(self.objective, residual) or done:
                break

            # Step 2, p < 2: update the multipliers near the minimum of the envelope.
            smooth = self.p >= 2
            near = not smooth and (settled or self.inner_gap <= INNER_FRACTION * self.outer_gap)
            updated = near and not (updated and self.multipliers_apart)
            if updated:
                self.update_multipliers()
                if self.multipliers_apart:
                    continue

            # Step 3: Newton's direction and the step along it.
            self.find_direction(tol)
            settled = not self.advance()
            if settled and smooth and not self.single:
                # No descent: the minimum of the model was not exact enough.
                self.inner_gap = 0.0
                self.solve_model(tol)
                settled = not self.advance()
            if settled and (smooth or self.width == ENVELOPE_MIN):
                break
        return best

    def evaluate(self):
        """Set the loss, its part of the dual value and G = ya X, at the best biases."""
        X, y, cost, p, _ = self.problem
        loss, dual, balanced = 0.0, 0.0, True
        for t in range(len(cost)):
            args = cost[t], self.multiplier_ratio[t], p, self.width, self.ya[t], self.any_power
            self.b[t], sums = _best_bias(self.XW[t], self.b[t], y, *args)
            loss += sums[3]
            dual += sums[1] - (p - 1.0) * sums[4]
            balanced = balanced and abs(sums[0]) <= BALANCE_TOL * sums[1]
        self.loss = loss
        self.dual = dual if balanced else _make_feasible(self.ya, cost, p)
        self.G = self.ya @ X

    def measure(self):
        """Set objective, duality gap, and its parts: inner_gap of the regulariser, outer_gap of the
        losses. Return the dual value."""
        reg, _, conjugate, inner, _ = _exclusivity(self.W, self.W, 0.0, 1.0, self.G, self.beta)
        self.objective = reg + self.loss
        self.gap = max(abs(self.objective - self.dual + conjugate), EPS * self.objective)
        self.inner_gap = max(reg + conjugate - inner, 0.0)
        self.outer_gap = self.gap - self.inner_gap
        return self.dual - conjugate

    def update_multipliers(self):
        """Step of the augmented Lagrangian: slopes become multipliers of a narrower envelope."""
        cost = self.problem.cost
        np.divide(np.abs(self.ya), cost, out=self.multiplier_ratio, where=cost > 0)
        self.width = max(self.width / ENVELOPE_DECAY, ENVELOPE_MIN)
        self.evaluate()

    def find_direction(self, tol):
        """Set dW to the Newton step; the Hessian is formed, kept, or not needed."""
        self.use_cg = self.use_cg and self.cg_step()
        if self.use_cg:
            return
        if self.H is None or self.p < 2 or self.gap > HESSIAN_REUSE * self.last_gap:
            self.form_hessian()
        self.solve_model(tol)

    def solve_model(self, tol):
        """Set dW to the minimum of the model with negative gradient G and Hessian H."""
        if self.single:
            self.dW[0] = _solve_ridge(self.H[0], (self.G - self.W)[0])
            return
        target = 0.1 * tol * self.objective
        limits = [max(target, k * self.inner_gap) for k in (MODEL_TOL, MODEL_TOL_SWEEPS)]
        V = _model_minimum(self.W, self.G, self.H, self.beta, *limits)
        np.subtract(V, self.W, out=self.dW)

    def cg_step(self):
        """Set dW to the Newton step by conjugate gradients, and centre to the column means.

        Return False if d / CG_FRACTION products with the Hessian do not suffice.
        """
        X, steps = self.problem.X, self.W.shape[1] // CG_FRACTION
        _curvatures(self.ya, self.problem.cost, self.p, self.width, self.curvature)
        weight = self.curvature.sum()
        mean = self.curvature @ X / weight if weight > 0 else self.centre
        right = (self.G - self.W)[0]
        args = self.curvature[0], mean[0], right, steps, self.work, self.dW[0]
        if not _conjugate_gradients(X, *args):
            return False
        self.H, self.centre = None, mean
        return True

    def form_hessian(self):
        """Set the Hessians H (T, d, d) and the means by which they are centred."""
        _curvatures(self.ya, self.problem.cost, self.p, self.width, self.curvature)
        self.H, self.centre = _hessian(self.problem.X, self.curvature, self.centre)

    def advance(self):
        """Go along dW while the objective falls; return False if it does not fall at all."""
        X, y, cost, p, beta = self.problem
        self.last_gap = self.gap
        db = -np.add.reduce(self.centre * self.dW, axis=1)
        np.matmul(self.dW, X.T, out=self.XdW)
        first = self.directional_derivative(0.0, 1.0)
        if not first < 0:  # No descent is left in floating point.
            return False

        # The full step.
        old_b = self.b.copy()
        self.b += db
        self.XW += self.XdW
        self.evaluate()
        last = self.directional_derivative(1.0, -1.0)

        # A shorter one if the objective rises again at its end.
        if last > OVERSHOOT * abs(first):
            self.b[:] = old_b
            self.XW -= self.XdW
            here, ahead = (self.W, self.XW, self.b), (self.dW, self.XdW, db)
            loss = y, cost, self.multiplier_ratio, (p, beta, self.width)
            step = _line_search(here, ahead, *loss, (first, last), self.ya, self.any_power)
            self.dW *= step
            self.b += step * db
            self.XW += step * self.XdW
            self.evaluate()
        self.W = self.W + self.dW
        return True

    def directional_derivative(self, step, side):
        """Derivative of the objective along dW after a step, where G was computed."""
        _, slope, _, _, along = _exclusivity(self.W, self.dW, step, side, self.G, self.beta)
        return slope - along


@jit
def _best_bias(xw, bias, y, cost, ratio, p, width, ya, any_power):
    """Minimise one member's loss over its bias; return it and the sums of `_loss_terms`.

    Overwrites ya. any_power is None for p = 1 or 2: the other branch is not compiled then.
    """
    low, high, stride = -np.inf, np.inf, 1.0
    for _ in range(200):
        if any_power is None:
            sums = _loss_terms(xw, bias, y, cost, ratio, p, width, ya)
        else:
            sums = _power_terms(xw, bias, y, cost, ratio, p, width, ya)
        balance, total, curvature = sums[0], sums[1], sums[2]
        if abs(balance) <= BIAS_TOL * total:
            break
        if balance > 0.0:
            low = bias
        else:
            high = bias

        # Newton; if that leaves the bracket, widen or halve it.
        new = bias + balance / curvature if curvature > 0.0 else np.nan
        if not low < new < high:
            if high - low < np.inf:
                new = 0.5 * (low + high)
            else:
                new = high - stride if low == -np.inf else low + stride
            stride *= 2.0
        if new == bias:
            break
        bias = new

    # If no row has a loss, take the middle of all such biases.
    if sums[1] == 0.0:
        low, high = -np.inf, np.inf
        for i in range(y.shape[0]):
            if cost[i] > 0.0:
                edge = y[i] * (1.0 + ratio[i] * width) - xw[i]
                if y[i] > 0.0:
                    low = max(low, edge)
                else:
                    high = min(high, edge)
        if -np.inf < low < high < np.inf:
            bias = 0.5 * (low + high)
    return bias, sums


@jit
def _curvatures(ya, cost, p, width, curvature):
    """Second derivatives of the losses from the first; overwrites curvature (T, n)."""
    for t in range(ya.shape[0]):
        for i in range(ya.shape[1]):
            a, c = abs(ya[t, i]), cost[t, i]
            second = 0.0
            if a > 0.0 and (p > 1.0 or a < (1.0 - BIAS_TOL) * c):
                second = 2.0
                if p == 1.0:
                    second = 1.0 / width
                elif p != 2.0:
                    e = (a / (p * c)) ** (1.0 / (p - 1.0))
                    second = (p - 1.0) * a / (c * e) if e > TINY else np.inf
                    second = 1.0 / (width + 1.0 / second)
            curvature[t, i] = c * second


def _hessian(X, curvature, centre):
    """Hessians sum_i h_ti (x_i - c_t)(x_i - c_t)' of the losses, bias eliminated, (T, d, d).

    h is the curvature (T, n). Returns them and the means c (T, d). `centre` (T, d) is any point
    near c: it keeps numbers small.
    """
    (n, d), T = X.shape, curvature.shape[0]
    H, mean = np.zeros((T, d, d)), centre.copy()
    rows = np.empty((min(n, HESSIAN_ROWS // 8), d + 1))  # Larger ones cost page faults.
    for t in range(T):
        # In (w, b), of the rows (x - centre, 1).
        augmented, start = 0.0, 0
        while start < n:
            k, start = _weighted_rows(X, centre[t], curvature[t], start, rows)
            augmented = augmented + rows[:k].T @ rows[:k]

        # The Schur complement of the bias.
        if augmented[d, d] > 0:
            shift = augmented[d, :d] / augmented[d, d]
            H[t] = augmented[:d, :d] - augmented[:d, d:] * shift
            mean[t] += shift
    return H, mean


@jit(nogil=True)
def _weighted_rows(X, centre, curvature, start, out):
    """Fill out with sqrt(h) * (x - centre, 1) of the rows from start on with curvature h > 0.

    Returns the number of rows in out, and the next one to read.
    """
    d, k, i = X.shape[1], 0, start
    while i < X.shape[0] and k < out.shape[0]:
        if curvature[i] > 0.0:
            root = math.sqrt(curvature[i])
            for j in range(d):
                out[k, j] = root * (X[i, j] - centre[j])
            out[k, d] = root
            k += 1
        i += 1
    return k, i


def _solve_ridge(H, right):
    """(H + I)^-1 right (d,) by Cholesky; raises LinAlgError if H is not positive semidefinite."""
    K = H.copy()
    K.ravel()[:: len(K) + 1] += 1.0
    _, x, info = dposv(K.T, right, overwrite_a=True)
    if info:
        raise np.linalg.LinAlgError("the Hessian is not positive semidefinite")
    return x


@jit(fastmath=LANES)
def _conjugate_gradients(X, curvature, centre, right, steps, work, dW):
    """dW = (I + sum_i h_i (x_i - centre)(x_i - centre)')^-1 right, h the curvature (n,).

    Overwrites work (3, d) and dW (d,); returns True if the relative residual reaches CG_TOL.
    """
    d = X.shape[1]
    r, v, Hv = work[0], work[1], work[2]
    square = 0.0
    for j in range(d):
        dW[j] = 0.0
        r[j] = v[j] = right[j]
        square += right[j] * right[j]
    goal = CG_TOL * CG_TOL * square

    for _ in range(steps):
        # The product H v, row by row.
        middle = 0.0
        for j in range(d):
            middle += centre[j] * v[j]
            Hv[j] = v[j]
        for i in range(X.shape[0]):
            if curvature[i] > 0.0:
                x = X[i]
                s = 0.0
                for j in range(d):
                    s += x[j] * v[j]
                s = curvature[i] * (s - middle)
                for j in range(d):
                    Hv[j] += s * x[j]

        # The step along v, and the next direction.
        along = 0.0
        for j in range(d):
            along += v[j] * Hv[j]
        step = square / along
        last = square
        square = 0.0
        for j in range(d):
            dW[j] += step * v[j]
            r[j] -= step * Hv[j]
            square += r[j] * r[j]
        if square <= goal:
            return True
        for j in range(d):
            v[j] = r[j] + square / last * v[j]
    return False


@jit
def _line_search(here, ahead, y, cost, ratio, powers, slopes, ya, any_power):
    """Root in (0, 1) of the objective's derivative, which is (at 0, at 1) = slopes.

    here = W, XW, b; ahead = their changes at the full step; powers = p, beta, width. Overwrites ya.
    """
    (W, XW, b), (dW, XdW, db), (p, beta, width) = here, ahead, powers
    (first, last), low, high, step = slopes, 0.0, 1.0, 0.0
    flat, xw = FLAT_SLOPE * abs(first), np.empty(y.shape[0])
    for _ in range(30):
        # The secant's root, away from the ends of the bracket.
        step = low + (high - low) * min(max(first / (first - last), 0.1), 0.9)

        # The derivative there: that of the regulariser plus those of all losses.
        slope = _exclusivity(W, dW, step, -1.0, W, beta)[1]
        for t in range(XW.shape[0]):
            for i in range(y.shape[0]):
                xw[i] = XW[t, i] + step * XdW[t, i]
            bias = b[t] + step * db[t]
            if any_power is None:
                sums = _loss_terms(xw, bias, y, cost[t], ratio[t], p, width, ya[t])
            else:
                sums = _power_terms(xw, bias, y, cost[t], ratio[t], p, width, ya[t])
            slope -= sums[0] * db[t]
            for i in range(y.shape[0]):
                slope -= ya[t, i] * XdW[t, i]

        if slope > 0.0:
            high, last = step, slope
        else:
            low, first = step, slope
        if abs(slope) <= flat:
            break
    return step


def _model_minimum(W, G, H, beta, target, enough):
    """argmin over V of regulariser(V) - <G, V - W> + 1/2 sum_t (v_t - w_t)' H_t (v_t - w_t).

    Sweeps over the features while they make progress, then an interior point method. Stops if the
    duality gap is below target; if the sweeps have stalled, below enough.
    """
    T, d = W.shape
    H = H.copy()
    H.reshape(T, -1)[:, :: d + 1] *= 1.0 + RIDGE_FRACTION
    H.reshape(T, -1)[:, :: d + 1] += RIDGE_FRACTION
    linear = G + _times(H, W)

    V = W.copy()
    gap, last = 0.0, np.inf
    while gap <= SWEEP_DECAY * last:
        last = gap or np.inf
        R, gap = _sweep_features(H, linear, V, beta)
        if gap <= target:
            return V
    return V if gap <= enough else _model_interior(H, linear, V, R, gap, beta, target)


def _sweep_features(H, linear, V, beta):
    """Minimise the model feature by feature, once each; overwrites V.

    Returns the negative gradient R = linear - H V of the quadratic, (T, d), and the duality gap.
    """
    R = linear - _times(H, V)
    _feature_sweep(H, R, V, beta)
    value, _, conjugate, inner, _ = _exclusivity(V, V, 0.0, 1.0, R, beta)
    return R, value + conjugate - inner


@jit
def _feature_sweep(H, R, W, beta):
    """One exact step per feature on the quadratic model; overwrites W and its gradient R."""
    T, d = W.shape
    u, h, w = np.empty(T), np.empty(T), np.empty(T)
    for j in range(d):
        for t in range(T):
            h[t] = H[t, j, j]
            u[t] = R[t, j] + h[t] * W[t, j]
        _feature_prox(u, h, beta, w)
        for t in range(T):
            change = w[t] - W[t, j]
            if change != 0.0:
                W[t, j] = w[t]
                for i in range(d):
                    R[t, i] -= change * H[t, j, i]


def _model_interior(H, linear, V, R, gap, beta, target):
    """Minimum of the model by a predictor-corrector interior point method.

    Its variables are the parts P = (V+, V-) >= 0 with multipliers Q >= 0; a sweep of each iterate
    sets exact zeros. V, R and gap are those of the last sweep.
    """
    best, best_gap = V, gap

    # The wider the gap, the farther inside the bounds is the start.
    s = np.abs(V).sum(0) + beta
    size, dual_size = np.abs(V).mean() + 1e-12, s.mean() + 1e-12
    start = min(max(math.sqrt(gap / (2.0 * V.size * size * dual_size)), 1e-4), 0.1)
    size, dual_size = start * size, start * dual_size
    P = np.maximum(PART_SIGN * V, 0.0) + size
    Q = np.maximum(s - PART_SIGN * R, dual_size)

    for _ in range(MODEL_STEPS):
        s = P.sum((0, 1)) + beta
        R = linear - _times(H, P[0] - P[1])
        solve = _reduced(H, Q / P)
        mean = (P * Q).sum() / V.size
        comp_rhs = -P * Q  # The predictor aims at complementarity 0.
        for _ in "predictor", "corrector":
            _, dP = solve(s - PART_SIGN * R - Q - comp_rhs / P)
            dQ = (comp_rhs - Q * dP) / P
            step = 1.0 / max(1.0, (-dP / P).max(), (-dQ / Q).max())
            ahead = ((P + step * dP) * (Q + step * dQ)).sum() / V.size
            comp_rhs = 0.5 * mean * (ahead / mean) ** 3 - P * Q - dP * dQ
        P, Q = P + STEP_TO_BOUNDARY * step * dP, Q + STEP_TO_BOUNDARY * step * dQ

        # Weights are zero if their multipliers outweigh them.
        zero = (P * dual_size <= Q * size).all(0)
        V = np.where(zero, 0.0, P[0] - P[1])
        _, gap = _sweep_features(H, linear, V, beta)
        if gap < best_gap:
            best, best_gap = V, gap
        if gap <= target:
            break
    return best


# -- primal-dual interior point method ----------------------------------------------------------
START_INSIDE = 0.1  # Distance of the start from the bounds, relative to the typical size.
STEP_TO_BOUNDARY = 0.995  # Fraction of the step to the boundary that is taken.
REFINEMENT_STEPS = 2  # Steps of iterative refinement per search direction.
MIN_STEP = 1e-14  # Step length below which the method ends.
MAX_STALLED = 20  # Iterations without progress before the method ends.
ZERO_RATIOS = 1.0, 1e-2, 1e-4  # Weights below one of these times their multiplier are set to 0.
ZERO_TRIES = 5  # Iterations in which zeros may spoil the certificate before they are given up.
RIDGE_FRACTION = 1e-10  # Added to Hessians: a fraction of their diagonal and of the regulariser's.
PART_SIGN = np.array([1.0, -1.0])[:, None, None]  # Signs of V+ and V- in V = V+ - V-.


class _RowVariables(NamedTuple):
    """Per-row variables of the interior point method: y, cost and p of the problem, and

    state   alpha, r and e, (3, T, n). alpha is the dual variable; e - r = 1 - y f splits the slack.
            On the central path alpha r = mu; e belongs to alpha by alpha = p cost e^(p-1), linear
            in the logarithms, or for p = 1 by e (cost - alpha) = mu.
    step    their last Newton step, (3, T, n)
    curvature, rhs (T, n)   terms of Newton's equations: d ya = rhs - curvature df
    """

    y: np.ndarray
    cost: np.ndarray
    p: float
    state: np.ndarray
    step: np.ndarray
    curvature: np.ndarray
    rhs: np.ndarray


def _solve_interior(problem, tol, monitor):
    """Interior point method on the whole problem, for any p, scale and shape.

    Returns W, b and the dual value that certifies them.
    """
    point = _Interior(problem)
    best, best_residual = (point.W, point.b, -np.inf), np.inf
    least = np.inf
    stalled = tries = 0
    while stalled < MAX_STALLED:
        # Step 1: the duality gap of the iterate.
        stalled += 1
        dual = point.measure()
        objective = _objective(problem, point.W, point.b)
        residual = abs(objective - dual) / max(objective, TINY)
        if residual < best_residual:
            best, best_residual, stalled = (point.W.copy(), point.b.copy(), dual), residual, 0
        stop = monitor(objective, residual)

        # Step 2: set exact zeros in an answer, if its certificate allows them.
        if residual <= tol:
            for ratio in ZERO_RATIOS:
                zero = (point.P <= ratio * point.Q).all(0)
                zeroed = _with_zeros(problem, point.W, point.b, zero, dual, tol)
                if zeroed is not None:
                    return *zeroed, dual
            tries += 1
        if stop or tries == ZERO_TRIES:
            break

        # Step 3: Mehrotra's direction and the step along it.
        total = point.complementarity(0.0)
        if total < least:
            least, stalled = total, 0
        step = point.find_direction(total)
        if not step > MIN_STEP:  # Also if numbers have become infinite.
            break
        point.advance(step)
    return best


class _Interior:
    """Point inside the bounds, and the steps that move it: members W and b, the rows' variables,
    and the regulariser's: parts P = (V+, V-) of W with their multipliers Q, (2, T, d) each."""

    def __init__(self, problem):
        X, y, cost, p, beta = problem
        (n, d), T = X.shape, cost.shape[0]
        self.problem = problem
        self.has_cost = cost > 0
        self.wide = self.has_cost.sum() < d

        # Least squares, or twice that: twice the fit of separable rows has no loss.
        W, b = _least_squares(problem)
        bound, factor = min((_objective(problem, k * W, k * b), k) for k in (1.0, 2.0))
        self.W, self.b = factor * W, factor * b

        # The rows' variables, inside their bounds. The optimal alpha sum to at most 2 * bound.
        slack = 1.0 - y * (self.W @ X.T + self.b[:, None])
        inside = START_INSIDE * np.abs(slack).mean() + TINY
        e = np.maximum(slack, 0.0) + inside
        e = e if p <= 2 else np.minimum(e, 1.0)  # As at zero weights: powers grow fast.
        alpha = 0.5 * cost if p == 1 else p * cost * e ** (p - 1.0)
        k = min(1.0, 2.0 * bound / alpha.sum())
        e = np.maximum(slack, 0.0) + k * inside if p == 1 else k ** (1.0 / (p - 1.0)) * e
        state = np.array([k * alpha, np.maximum(-slack, 0.0) + inside, e])
        curvature, rhs = np.empty((T, n)), np.empty((T, n))
        self.rows = _RowVariables(y, cost, p, state, np.zeros_like(state), curvature, rhs)

        # The regulariser's variables.
        inside = START_INSIDE * np.abs(self.W).sum(0).max() + TINY
        self.P = np.maximum(PART_SIGN * self.W, 0.0) + inside
        self.Q = np.full_like(self.P, inside + beta)
        self.dP, self.dQ = np.zeros_like(self.P), np.zeros_like(self.Q)
        self.centre = np.zeros((T, d))
        self.n_products = self.has_cost.sum() * (2 if p == 1 else 1) + self.P.size

    def measure(self):
        """Set ya's sums and G, which the directions need; return the dual value."""
        ya = self.rows.y * self.rows.state[0]
        self.ya_sums = ya.sum(1)
        self.G = ya @ self.problem.X
        return _dual_value(self.problem, ya)

    def complementarity(self, step):
        """Sum of all products that have to vanish, after a step along the last direction."""
        alpha, r, e = self.rows.state + step * self.rows.step
        total = (alpha * r).sum()
        if self.rows.p == 1:
            total += ((self.rows.cost - alpha) * e).sum()
        return total + ((self.P + step * self.dP) * (self.Q + step * self.dQ)).sum()

    def find_direction(self, total):
        """Set Mehrotra's direction at the complementarity `total`; return the step length."""
        outputs = self.W @ self.problem.X.T
        outputs += self.b[:, None]
        mu = 0.0
        for order in (0.0, 1.0):
            _row_system(*self.rows, outputs, mu, order)
            if order == 0.0:
                self.factorise()
            df = self.solve_equations(mu, order)

            # The step to the boundary, and the complementarity that it leaves.
            worst = _row_steps(*self.rows, df, mu, order)
            worst = max((-self.dP / self.P).max(), (-self.dQ / self.Q).max(), worst)
            step = 1.0 / max(1.0, worst / STEP_TO_BOUNDARY)
            if order == 0.0:
                mu = total / self.n_products * min(self.complementarity(step) / total, 1.0) ** 3
        return step

    def factorise(self):
        """Eliminate everything but dW from Newton's equations, and factorise the rest."""
        X, curvature = self.problem.X, self.rows.curvature
        self.sums = self.P.sum((0, 1)) + self.problem.beta
        self.bias_curvature = curvature.sum(1)
        if self.wide:
            self.centre = curvature @ X / self.bias_curvature[:, None]
            rows = [np.flatnonzero(row) for row in self.has_cost]
            roots = [np.sqrt(curvature[t, i]) for t, i in enumerate(rows)]
            A = [roots[t][:, None] * (X[i] - self.centre[t]) for t, i in enumerate(rows)]
            self.solve = _reduced_wide(A, roots, self.Q / self.P)
            return

        H, self.centre = _hessian(X, curvature, self.centre)
        self.solve = _reduced(H, self.Q / self.P)

    def solve_equations(self, mu, order):
        """Set db, dP, dQ, the Newton step to complementarity mu; return that of the outputs.

        order = 1 adds the corrector's products of the last step, and iterative refinement.
        """
        X, curvature, rhs = self.problem.X, self.rows.curvature, self.rows.rhs
        P, Q = self.P, self.Q
        comp_rhs = mu - P * Q - order * self.dP * self.dQ
        db, df = np.zeros(self.b.shape), np.zeros(curvature.shape)
        dP, dQ, ds = np.zeros_like(P), comp_rhs / P, 0.0
        d_ya = rhs  # Each refinement starts from the residual of the last one.
        for _ in range(1 + REFINEMENT_STEPS * int(order)):
            neg_bias_grad = self.ya_sums + d_ya.sum(1)
            R = self.G + d_ya @ X - self.centre * neg_bias_grad[:, None]
            add, add_P = self.solve(self.sums + ds - PART_SIGN * R - Q - dQ)
            dP = dP + add_P
            dQ, ds = (comp_rhs - Q * dP) / P, dP.sum((0, 1))
            add_b = neg_bias_grad / self.bias_curvature - (self.centre * add).sum(1)
            db, df = db + add_b, df + add @ X.T + add_b[:, None]
            d_ya = rhs - curvature * df
        self.db, self.dP, self.dQ = db, dP, dQ
        return df

    def advance(self, step):
        """Take a step of that length."""
        _, cost, p, state, row_step, *_ = self.rows
        used = self.has_cost
        state += step * row_step
        # The smoother of the two maps keeps alpha and e consistent.
        if p >= 2:
            state[2][used] = (state[0][used] / (p * cost[used])) ** (1.0 / (p - 1.0))
        elif p > 1:
            state[0][used] = p * cost[used] * state[2][used] ** (p - 1.0)

        self.b += step * self.db
        self.P, self.Q = self.P + step * self.dP, self.Q + step * self.dQ
        self.W = self.P[0] - self.P[1]


@jit
def _row_system(y, cost, p, state, step, curvature, rhs, f, mu, order):
    """Rows' terms of a Newton step to complementarity mu, all but df eliminated.

    f (T, n) are the outputs; order = 1 adds the products of the last step. Overwrites curvature
    and rhs = y curvature target, so that d alpha = curvature (target - y df).
    """
    for t in range(cost.shape[0]):
        for i in range(y.shape[0]):
            c = cost[t, i]
            curvature[t, i] = rhs[t, i] = 0.0
            if c > 0.0:
                a, r, e = state[0, t, i], state[1, t, i], state[2, t, i]
                da, dr, de = step[0, t, i], step[1, t, i], step[2, t, i]
                target = 1.0 - y[i] * f[t, i] - e + (mu - order * da * dr) / a
                if p == 1.0:
                    room = c - a
                    target -= (mu - e * room + order * de * da) / room
                    slope = e / room
                else:
                    slope = e / ((p - 1.0) * a)
                    target -= slope * a * (np.log(a / (c * p)) - (p - 1.0) * np.log(e))
                curvature[t, i] = 1.0 / (slope + r / a)
                rhs[t, i] = y[i] * curvature[t, i] * target


@jit
def _row_steps(y, cost, p, state, step, curvature, rhs, df, mu, order):
    """Steps of alpha, r and e that belong to df (T, n); overwrites step (3, T, n).

    Returns the inverse of the longest step that keeps all of them positive.
    """
    worst = 0.0
    for t in range(cost.shape[0]):
        for i in range(y.shape[0]):
            c = cost[t, i]
            if c > 0.0:
                a, r, e = state[0, t, i], state[1, t, i], state[2, t, i]
                cross = order * step[0, t, i] * step[1, t, i]
                across = step[2, t, i] * step[0, t, i]
                da = y[i] * rhs[t, i] - y[i] * curvature[t, i] * df[t, i]
                dr = (mu - cross - r * da) / a - r
                if p == 1.0:
                    de = (mu + order * across + e * da) / (c - a) - e
                    worst = max(worst, da / (c - a))
                else:
                    off = np.log(a / (c * p)) - (p - 1.0) * np.log(e)
                    de = e / (p - 1.0) * (da / a + off)
                step[0, t, i], step[1, t, i], step[2, t, i] = da, dr, de
                worst = max(worst, -da / a, -dr / r, -de / e)
    return worst


def _reduced(H, barrier_diag):
    """Newton's equations of the parts P = (V+, V-) >= 0, with barrier_diag = Q / P (2, T, d).

    Members are coupled only by the d sums s = sum_t |v_t|, so T matrices of size d are inverted and
    one more. Returns a function of the residual (2, T, d): the steps of V and of P.
    """
    total = barrier_diag[0] + barrier_diag[1]
    tilt = (barrier_diag[0] - barrier_diag[1]) / total
    T, d = total.shape

    # Each member by itself.
    K = H.copy()
    K.reshape(T, -1)[:, :: d + 1] *= 1.0 + RIDGE_FRACTION
    K.reshape(T, -1)[:, :: d + 1] += barrier_diag[0] * barrier_diag[1] / total + RIDGE_FRACTION
    K = _inverse(K)
    KT = K * tilt[:, None, :]

    # The Schur complement of the sums.
    coupling = (tilt[:, :, None] * KT).sum(0)
    coupling.ravel()[:: d + 1] += 1.0 + (4.0 / total).sum(0)
    coupling = _inverse(coupling)

    def solve(residual):
        both = residual[0] + residual[1]
        u = _times(K, 0.5 * (tilt * both - residual[0] + residual[1]))
        ds = coupling @ -(2.0 * both / total + tilt * u).sum(0)
        dV = u + KT @ ds
        return dV, _part_steps(dV, ds, both, total, tilt)

    return solve


def _reduced_wide(A, roots, barrier_diag):
    """Solver of `_reduced` for H_t = A_t' A_t with few rows: inverts one matrix of their number.

    The regulariser's own matrix couples the members feature by feature; its inverse is written
    without differences, since its entries differ by many orders of magnitude. Rows are centred,
    roots_t' A_t = 0: a multiple of roots_t roots_t' makes the matrix regular, not the answer other.
    """
    total = barrier_diag[0] + barrier_diag[1]
    tilt = (barrier_diag[0] - barrier_diag[1]) / total
    T = len(A)

    # The inverse of the regulariser's matrix, (T, T) per feature.
    c = 1.0 + (4.0 / total).sum(0)
    E = total / (barrier_diag[0] * barrier_diag[1])
    terms = E * tilt * tilt
    before = np.vstack([c, c + np.cumsum(terms[:-1], axis=0)])
    after = np.vstack([np.cumsum(terms[:0:-1], axis=0)[::-1], np.zeros_like(c)])
    whole = before[-1] + terms[-1]
    inverse = (-E * tilt / whole)[:, None] * (E * tilt)[None]
    inverse[np.arange(T), np.arange(T)] = E * (before + after) / whole

    # The matrix of all rows, block by block.
    ends = np.cumsum([0, *(len(a) for a in A)])
    M = np.eye(ends[-1])
    for t in range(T):
        for u in range(t + 1):
            block = (A[t] * inverse[t, u]) @ A[u].T
            M[ends[t] : ends[t + 1], ends[u] : ends[u + 1]] += block
            if u < t:
                M[ends[u] : ends[u + 1], ends[t] : ends[t + 1]] = block.T
        own = M[ends[t] : ends[t + 1], ends[t] : ends[t + 1]]
        own += np.outer(roots[t], roots[t]) * (np.trace(own) / (roots[t] @ roots[t]))
    M = _inverse(M)

    def solve(residual):
        both = residual[0] + residual[1]
        h = -(2.0 * both / total).sum(0)
        v = 0.5 * (tilt * both - residual[0] + residual[1]) + tilt * h / c
        AdV, dV = np.zeros(ends[-1]), np.einsum("tuj,uj->tj", inverse, v)
        for _ in range(1 + REFINEMENT_STEPS):
            AdV += M @ (np.concatenate([a @ dV[t] for t, a in enumerate(A)]) - AdV)
            back = [AdV[ends[t] : ends[t + 1]] @ a for t, a in enumerate(A)]
            dV = np.einsum("tuj,uj->tj", inverse, v - np.array(back))
        ds = (h - (tilt * dV).sum(0)) / c
        return dV, _part_steps(dV, ds, both, total, tilt)

    return solve


def _part_steps(dV, ds, both, total, tilt):
    """Steps of V+ and V- that belong to those of V and of s, (2, T, d)."""
    return 0.5 * PART_SIGN * dV - (both + 2.0 * ds) / total - 0.5 * tilt * dV


def _least_squares(problem):
    """Ridge regression of the signs on X per member, weighted by its costs: W (T, d), b (T,)."""
    X, y, cost, *_ = problem
    (n, d), T = X.shape, cost.shape[0]
    W, b = np.empty((T, d)), np.empty(T)
    for t in range(T):
        c = cost[t] / cost[t].max()
        centre, mean = c @ X / c.sum(), c @ y / c.sum()
        A = np.sqrt(c)[:, None] * (X - centre)
        right = np.sqrt(c) * (y - mean)

        # By the shorter side of A.
        K = A.T @ A if d <= n else A @ A.T
        K.ravel()[:: len(K) + 1] *= 1.0 + RIDGE_FRACTION
        K.ravel()[:: len(K) + 1] += 1.0 / cost[t].max()
        W[t] = _inverse(K) @ (right @ A) if d <= n else (_inverse(K) @ right) @ A
        b[t] = mean - W[t] @ centre
    return W, b


def _with_zeros(problem, W, b, zero, dual, tol):
    """Return W and b with exact zeros at the mask `zero`, or None if the gap exceeds tol then."""
    V = np.where(zero, 0.0, W)
    lost = np.where(problem.cost > 0, problem.y * ((W - V) @ problem.X.T), 0.0).max()
    for k in (1.0, 1.0 + max(lost, 0.0)):  # A longer V restores the lost margins.
        objective = _objective(problem, k * V, k * b)
        if abs(objective - dual) <= tol * objective:
            return k * V, k * b
    return None


def _times(H, V):
    """H_t v_t of every member t, (T, d)."""
    return np.matmul(H, V[..., None])[..., 0]


def _inverse(K):
    """Inverses of positive definite matrices, scaled to unit diagonals: fewer digits are lost."""
    scale = 1.0 / np.sqrt(np.diagonal(K, axis1=-2, axis2=-1))
    scale = scale[..., :, None] * scale[..., None, :]
    return np.linalg.inv(K * scale) * scale


# -- solver="auto": the method that suits, then the other ---------------------------------------
FAR = 100.0  # Centre the columns if |low + high| of one exceeds 100 * (high - low).
ROWS_PER_FEATURE = 20  # Coupled members with fewer rows take the interior point method first.
NEWTON_FEATURES = 256  # Features up to which coupled members try Newton after the other method.
NEAR_MISS = 10.0  # Newton starts again from an answer whose certified gap is below 10 * tol.


class _IterationMonitor:
    """Counts and reports iterations; a call returns True if that iteration was the last.

    on_iteration(iteration, objective, residual, rows) gets the number of rows of a subsample, else
    None, and returns True to stop the fit.
    """

    def __init__(self, on_iteration, max_iter):
        self.on_iteration, self.max_iter = on_iteration, max_iter
        self.count, self.stopped = 0, False

    def __call__(self, objective, residual, rows=None):
        self.count += 1
        stop = bool(self.on_iteration(self.count, objective, residual, rows))
        self.stopped = self.stopped or stop or self.count >= self.max_iter - (rows is not None)
        return self.stopped


def _solve(problem, tol, monitor):
    """Solve to a certified gap; returns W, b, objective, residual."""
    X, y, cost, p, beta = problem
    (n, d), T = X.shape, cost.shape[0]

    # A sample of one class: w = 0, and the bias is that class.
    W, b = np.zeros((T, d)), np.zeros(T)
    has_both = ((cost > 0) & (y > 0)).any(1) & ((cost > 0) & (y < 0)).any(1)
    if not has_both.all():
        b[~has_both] = np.where(cost[~has_both] @ y > 0, 1.0, -1.0)
    if not has_both.any():
        monitor(0.5 * d * beta**2, 0.0)
        return W, b, *_certificate(problem, W, b, 0.5 * d * beta**2, tol)

    # The other members, in columns that are not far from 0: the bias is free.
    low, high = X[:: n // 64 + 1].min(0), X[:: n // 64 + 1].max(0)
    far = (np.abs(low + high) > FAR * (high - low)).any()
    centre = X.mean(0) if far else np.zeros(d)
    inner = _Problem(X - centre if far else X, y, cost[has_both], p, beta)
    members = len(inner.cost)
    basis = None
    if d > n and members == 1 and beta == 0:
        # The regulariser is |w|^2: n dimensions suffice.
        basis, R = np.linalg.qr(inner.X.T)
        inner = inner._replace(X=np.ascontiguousarray(R.T))

    # The next solver takes over if the certificate of one fails.
    newton = partial(_solve_newton, subsamples=monitor.max_iter > 1)
    solvers = [newton, _solve_interior]
    if (p < 2 or n < ROWS_PER_FEATURE * d) and (members > 1 or beta > 0):
        solvers = [_solve_interior, newton] if d <= NEWTON_FEATURES else [_solve_interior]
    best = None
    for solver in solvers:
        try:
            V, bias, dual = solver(inner, (1.0 - 2.0 * ROUNDING_FRACTION) * tol, monitor)
        except np.linalg.LinAlgError:  # Singular to the last digit.
            V, bias, dual = np.zeros((members, inner.X.shape[1])), np.zeros(members), -np.inf

        # Back to the original columns, and the certificate there.
        inner_W = V if basis is None else V @ basis.T
        W, b = W.copy(), b.copy()
        W[has_both], b[has_both] = inner_W, bias - inner_W @ centre
        solution = W, b, *_certificate(problem, W, b, dual, tol)
        best = solution if best is None or solution[3] < best[3] else best
        if best[3] <= tol or monitor.stopped:
            break
        if solver is newton and solution[3] <= NEAR_MISS * tol:  # Its updated outputs drifted.
            solvers.append(partial(_solve_newton, subsamples=False, start=(V, bias)))
    return best


# >>> shared: rbf 1
def rbf(X, centres, gamma):
    """exp(-gamma |x - c|^2) between the rows of X and the centres."""
    middle = centres.mean(axis=0)
    A, B = X - middle, centres - middle
    distance = (A**2).sum(1)[:, None] + (B**2).sum(1) - 2.0 * A @ B.T
    return np.exp(-gamma * np.maximum(distance, 0.0))


# <<< shared: rbf


# >>> shared: scale 1
def scale_gamma(X, weight):
    """gamma="scale", 1 / (d * variance of X), where a row of weight 2 is two rows; 1 if X is
    constant."""
    mean = np.average(X, axis=0, weights=weight).mean()
    spread = np.average((X - mean) ** 2, axis=0, weights=weight).mean()
    return 1.0 / (X.shape[1] * spread) if spread > 0 else 1.0


# <<< shared: scale


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


# -- estimator ----------------------------------------------------------------------------------
class ExRM(_Estimator):
    """Exclusivity regularized machine.

    Use it for several SVMs trained together, with sampling="bootstrap": else they are equal.

    Parameters
    ----------
    n_estimators : int >= 1
        Number of members T.
    p : float >= 1
        Power of the hinge loss; 1 and 2 are the fastest.
    lam : float > 0
        Weight of the loss against the regulariser.
    beta : float >= 0
        Sparsity: weights below a threshold become exactly 0. 0 turns it off.
    sampling : None or "bootstrap"
        None is the paper's model, whose members are all equal at the optimum. "bootstrap" gives
        each member its own sample: then they differ.
    kernel : "linear" or "rbf"
        "rbf" maps the rows to kernel values at landmarks first: the exact kernel machine if there
        are no more rows than landmarks, the Nystrom approximation otherwise.
    gamma : "scale" or float > 0
        Width of the rbf kernel exp(-gamma |x - x'|^2); "scale" is 1 / (d * variance of X). Rows of
        weight 0 count neither here nor as landmarks.
    n_landmarks : int >= 1
        Number of landmarks, drawn from the training rows.
    solver : "auto", "alm" or "paper"
        Newton or interior point (certified), the paper's splitting made convergent (certified), or
        Algorithm 2 as printed, which stops on the change of the objective and warns of its gap.
    rho : float > 1
        Growth of the penalty; solver="paper" only.
    prox : "exact" or "reweighted"
        Row step of the splitting; "reweighted" is Algorithm 1. Not used by solver="auto".
    tol : float > 0
        Target for `residual_`; not used by solver="paper".
    max_iter : int >= 1
        Maximum number of iterations, including those on subsamples.
    class_weight : None, "balanced" or dict
        Factor per class, multiplied into sample_weight. "balanced" gives all classes the same total
        weight.
    n_jobs : None or int
        Maximum number of threads; None means 1, -1 all processors. Small data use fewer. The answer
        is the same within the certified gap.
    random_state : None, int, RandomState or Generator
        Seed of the bootstrap and of the landmarks.
    verbose : int
        1 prints one line per iteration.
    callback : None or callable
        Called as callback(self, iteration, info) after every iteration; True stops. info has
        "objective" and "residual", and on a subsample "rows", its number of rows.

    Attributes
    ----------
    coef_ (T, d), intercept_ (T,) : the members
    ensemble_coef_ (d,), ensemble_intercept_ : their mean
    weights_ (T,) : 1 / T each
    objective_, residual_ : value of the problem; certified duality gap / max(objective_, 1e-200)
    n_iter_ : number of iterations, including those on subsamples
    converged_, trace_ : residual_ <= tol; objective per iteration on all rows, objective_ last
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = ExRM(n_estimators=5, sampling="bootstrap", random_state=0).fit(X, y)
    >>> model.score(X_test, y_test), model.residual_ <= model.tol
    """

    _param_rules = {
        "n_estimators": "an integer >= 1",
        "p": "a finite number >= 1",
        "lam": "a finite number > 0",
        "beta": "a finite number >= 0",
        "sampling": "one of None, 'bootstrap'",
        "kernel": "one of 'linear', 'rbf'",
        "gamma": "'scale' or a finite number > 0",
        "n_landmarks": "an integer >= 1",
        "solver": "one of 'auto', 'alm', 'paper'",
        "rho": "a finite number > 1",
        "prox": "one of 'exact', 'reweighted'",
        "tol": "a number > 0",
        "max_iter": "an integer >= 1",
    }

    def __init__(
        self, n_estimators=10, p=2, lam=2.0, beta=0.0, sampling=None, kernel="linear",
        gamma="scale", n_landmarks=256, solver="auto", rho=1.1, prox="exact", tol=1e-6,
        max_iter=1000, class_weight=None, n_jobs=1, random_state=None, verbose=0, callback=None,
    ):  # fmt: skip
        self._set(locals())

    @restore_on_failure
    def fit(self, X, y=None, sample_weight=None):
        """Train on X (n, d) and two classes y; sample_weight multiplies each example's loss.

        X may be row blocks, which hold y and the weights, for equal samples with solver="auto".
        """
        self._check_params()
        self.n_iter_, self.trace_ = 0, []
        # Equal samples: PSVM(lam / T, beta / T), T times. The objective is T^2 times that of one.
        equal = self.sampling is None and self.solver == "auto"
        copies = self.n_estimators if equal else 1
        report = partial(self._report_iteration, copies * copies)
        monitor = _IterationMonitor(report, self.max_iter)
        if hasattr(X, "fit_model"):  # Row blocks, see solvers/rows.
            X, solution = X.fit_model(self, y, sample_weight, monitor)
        else:
            X, y, weight = self._check_fit(X, y, sample_weight)
            self._set_features(X, weight)
            X = self._features(X)
            with np.errstate(all="ignore"):  # An overflow makes the residual infinite.
                solution = self._solve_rows(X, y, weight, copies, monitor)
        self._set_fitted(*solution, copies)
        if not self.converged_:
            warnings.warn(self._not_converged(X), ConvergenceWarning, stacklevel=3)
        return self

    def _solve_rows(self, X, y, weight, copies, monitor):
        """Solve on rows in memory by the chosen solver; return W, b, objective and residual."""
        equal = self.sampling is None and self.solver == "auto"
        if equal and self._threads() > 1 and __package__:
            with suppress(ImportError):  # A file that stands alone has one thread.
                on_threads = import_module(".rows.newton", __package__).solve_threads
                solution = on_threads(self, X, y, weight, copies, monitor)
                if solution and (solution[3] <= self.tol or monitor.stopped):
                    return solution

        cost = self._cost(weight, copies)
        problem = _Problem(X, y, cost, float(self.p), self.beta / copies)
        if self.solver == "auto":
            return _solve(problem, self.tol, monitor)
        rho = self.rho if self.solver == "paper" else None
        return _solve_splitting(problem, self.tol, rho, self.prox == "reweighted", monitor)

    def _cost(self, weight, copies):
        """Weight of each example's loss times its draws, (T, n), or (1, n) for equal members."""
        members = self.n_estimators // copies
        if self.sampling is None:
            return np.repeat(weight[None] * (self.lam / copies), members, axis=0)
        rows = np.flatnonzero(weight)
        rng = np.random.default_rng(self._seed())
        draws = (rows[rng.integers(0, rows.size, rows.size)] for _ in range(members))
        counts = np.array([np.bincount(draw, minlength=weight.size) * weight for draw in draws])
        return counts * self.lam

    def _report_iteration(self, scale, iteration, objective, residual, rows=None):
        """Report an iteration; those on subsamples do not stay in the trace."""
        info = {"residual": float(residual)} | ({} if rows is None else {"rows": rows})
        stop = self._report(iteration, scale * objective, **info)
        if rows is not None:
            self.trace_.pop()
        return stop

    def _set_fitted(self, W, b, objective, residual, copies):
        """Set the fitted attributes."""
        text = f"the numbers overflow after {self.n_iter_} iterations with solver={self.solver!r}, "
        text += f"rho={self.rho:g}; scale X, or choose solver='auto'"
        self._require(np.isfinite(W).all() and np.isfinite(b).all(), text)
        self.coef_, self.intercept_ = np.repeat(W, copies, axis=0), np.repeat(b, copies)
        self.weights_ = np.full(self.n_estimators, 1.0 / self.n_estimators)
        self.ensemble_coef_ = self.weights_ @ self.coef_
        self.ensemble_intercept_ = float(self.weights_ @ self.intercept_)
        self.objective_ = copies * copies * objective
        self.residual_ = residual
        self.trace_ = np.array([*self.trace_[:-1], self.objective_])
        self.converged_ = bool(residual <= self.tol)

    def _not_converged(self, X):
        """Text of the warning: the residual reached, and one thing to do."""
        spread = X.std(axis=0)
        got = f"{type(self).__name__} stopped after {self.n_iter_} iterations "
        got += f"with residual {self.residual_:.1e} (tol={self.tol:g}); "
        if self.solver == "paper":
            return got + "Algorithm 2 as printed ends short of the optimum: use solver='auto'"
        scales = f"standardise X (its columns spread from {spread.min():.1e} to {spread.max():.1e})"
        if self.n_iter_ >= self.max_iter:
            return got + f"raise max_iter={self.max_iter}, or {scales}"
        return got + f"more digits than a double has would be needed: {scales}, or raise tol"

    def votes(self, X):
        """Output of every member, (n, T)."""
        return self._features(self._check_X(X)) @ self.coef_.T + self.intercept_

    def decision_function(self, X):
        """Mean of the members' outputs, (n,)."""
        X = self._features(self._check_X(X))
        return X @ self.ensemble_coef_ + self.ensemble_intercept_

    def _set_features(self, X, weight):
        """Set gamma_, landmarks_ and map_ of the rbf kernel; nothing for the linear one."""
        if self.kernel == "linear":
            return
        X, weight = X[weight > 0], weight[weight > 0]
        rows = np.arange(X.shape[0])
        if rows.size > self.n_landmarks:
            rng = np.random.default_rng(self._seed())
            rows = np.sort(rng.choice(rows.size, self.n_landmarks, replace=False))
        self.gamma_ = float(scale_gamma(X, weight) if self.gamma == "scale" else self.gamma)

        # Features whose products are the kernel values, without directions of mere rounding.
        values, vectors = np.linalg.eigh(rbf(X[rows], X[rows], self.gamma_))
        keep = values > values[-1] * 1e-12
        self.landmarks_ = X[rows]
        self.map_ = vectors[:, keep] / np.sqrt(values[keep])

    def _features(self, X):
        """Features of the linear machine: X itself, or its kernel map."""
        if self.kernel == "linear":
            return X
        return rbf(X, self.landmarks_, self.gamma_) @ self.map_

    def _is_consistent(self, has):
        T, d = self.weights_.size, self.n_features_in_
        good = T >= 1 and has("weights_", (T,))
        if self.kernel == "rbf":
            rows, d_mapped = self.map_.shape
            good = good and has("landmarks_", (rows, d)) and has("map_", (rows, d_mapped))
            good, d = good and 0 < self.gamma_ < math.inf, d_mapped
        good = good and has("coef_", (T, d)) and has("intercept_", (T,))
        return good and has("ensemble_coef_", (d,)) and math.isfinite(self.ensemble_intercept_)


class PSVM(ExRM):
    """Primal support vector machine (ExRM with one member).

    Use it for many rows and a linear boundary.

    Parameters
    ----------
    p, lam, beta, sampling, kernel, gamma, n_landmarks, solver, rho, prox, tol, max_iter, \
class_weight, n_jobs, random_state, verbose, callback : as in ExRM
    """

    n_estimators = 1

    def __init__(
        self, p=2, lam=2.0, beta=0.0, sampling=None, kernel="linear", gamma="scale",
        n_landmarks=256, solver="auto", rho=1.1, prox="exact", tol=1e-6, max_iter=1000,
        class_weight=None, n_jobs=1, random_state=None, verbose=0, callback=None,
    ):  # fmt: skip
        self._set(locals())


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    blobs = generator.normal(size=(400, 5)) + np.repeat([[-0.7], [0.7]], 200, axis=0)
    labels = np.repeat(["left", "right"], 200)
    for model in (PSVM(), ExRM(), ExRM(sampling="bootstrap", random_state=0)):
        model.fit(blobs, labels)
        print(f"{model!r}: {model.n_iter_} iterations, objective {model.objective_:.6f}, "
              f"gap {model.residual_:.1e}, accuracy {model.score(blobs, labels):.3f}")  # fmt: skip
        assert model.residual_ <= model.tol

"""ExRM: an ensemble of linear or kernel machines trained together, kept apart by exclusivity.

Problem (minimised over w_1..w_T and b_1..b_T):

    1/2 sum_j ( sum_t |w_tj| + beta )^2  +  lam sum_t sum_i n_ti max(0, 1 - y_i (x_i.w_t + b_t))^p

    p >= 1 is the power of the hinge, beta >= 0 asks for sparsity, n_ti >= 0 are example weights per
    member: all ones in the paper, bootstrap counts with sampling="bootstrap". The ensemble is the
    mean of the members. T = 1 is the primal SVM (PSVM).

Method    "paper": Algorithm 2 as printed, an augmented Lagrangian method. "alm": the same splitting
          with a balanced penalty, certified. Both cost O((n + d) d) a member and iteration.
          "auto": equal samples are solved as one machine with lam/T and beta/T, the exact answer
          for all members. One machine, and members that meet (different samples or beta > 0) in
          many rows with p >= 2, take semismooth Newton on all members at once. An iteration costs
          two products with X and, when the curvature is formed anew, O(n d^2) a member; where a
          few products with the curvature are enough, conjugate gradients do without it. Powers
          below 2 lack a usable second derivative: there the loss is replaced by its proximal
          envelope, and multipliers move after each inner solution. Many rows are solved on nested
          samples first, to start close.
          Row blocks, and threads (n_jobs) that share many rows, take Newton's method for one
          machine on weights and bias together. It asks for sums over rows only; an iteration is
          one pass over X, which finds outputs, slopes and curvature behind the full step, or two.
          "auto" elsewhere, and where Newton does not arrive, takes a primal-dual interior point
          method on the whole problem: 10 to 60 iterations at any scale and shape, each O(n d^2 +
          d^3) a member, or O(d r^2 + r^3) where all members together have r < d rows.
          The answer is certified by a feasible dual point: objective and gap are computed anew
          from the coefficients that are returned, and the fit ends when the gap, relative to the
          objective, is below tol.
Reference Guo, Wang, Ling, "Exclusivity Regularized Machine: A New Ensemble SVM Classifier",
          IJCAI 2017; Algorithms 1-2, equations (5)-(18). Mehrotra, "On the implementation of a
          primal-dual interior point method", SIAM J. Optimization 1992.
Departs   The growing penalty (rho = 1.1) freezes before the optimum; "auto" and "alm" reach it.
          With equal samples all members are equal at the optimum: the ensemble is PSVM(lam/T).
          The row step (8) is solved exactly; prox="reweighted" restores the re-weighting, which
          runs until it changes by less than 1e-12. "paper" warns of the gap that it leaves.
          A sample of one class gives a member w = 0 whose bias is that class.
          Row blocks are for equal samples, the linear kernel and "auto": others are refused.
Symbols   paper      here        meaning                          shape
          W^T, b     W, b        members, one a row               (T, d), (T,)
          P^T        P           copy of W in the splitting       (T, d)
          E^T, Z^T   E, Z        errors and their multipliers     (T, n)
          Q^T        Q           multipliers of P = W             (T, d)
          lam * n    cost        weight of each example's loss    (T, n)
          (dual)     ya          y times the dual variable        (T, n)
Use       m = ExRM(n_estimators=10, sampling="bootstrap").fit(X, y); m.predict(X)
Origin    ensolve, solvers/exrm.py, MIT licence
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
from contextlib import contextmanager, suppress
from functools import cache, partial, wraps
from importlib import import_module
from typing import NamedTuple

import numpy as np
from numba import njit

LANES = {"reassoc", "contract", "nsz", "arcp"}  # Sums run in vector lanes; NaN stays NaN.
EPS = 2.0**-52  # This part of a number is lost to rounding in one operation.
TINY = 1e-200  # Numbers below this count as zero: powers of them would not be exact.


# >>> shared: jit 1
def jit(function=None, inner=False, **options):
    """njit with a disk cache; without one where no folder for it can be written. A kernel that only
    kernels call is `inner`: it compiles a second faster."""
    options |= dict.fromkeys(("no_cpython_wrapper", "no_cfunc_wrapper"), True) if inner else {}
    if function is None:
        return lambda f: jit(f, **options)
    keep = function.__module__ != "__main__"  # Run as a script, the file is another module.
    # The cache keeps NamedTuples by their module: each name of it gets files of its own.
    function.__qualname__ = f"{function.__module__}.{function.__name__}"
    try:
        compiled = njit(cache=keep, error_model="numpy", **options)(function)
    except RuntimeError:
        return njit(error_model="numpy", **options)(function)
    for name in ("load_overload", "save_overload") if hasattr(compiled, "_cache") and keep else ():
        call = getattr(compiled._cache, name)
        setattr(compiled._cache, name, lambda *args, call=call: _or_compile(call, args))
    return compiled


# <<< shared: jit


# -- the problem --------------------------------------------------------------------------------
class _Problem(NamedTuple):
    """What is minimised: rows X (n, d), signs y (n,), cost = lam n_ti (T, n), p and beta."""

    X: np.ndarray
    y: np.ndarray
    cost: np.ndarray
    p: float
    beta: float


def _objective(problem, W, b):
    """The problem of the module's docstring, equation (5)."""
    X, y, cost, p, beta = problem
    slack = np.maximum(1.0 - y * (W @ X.T + b[:, None]), 0.0)
    return 0.5 * ((np.abs(W).sum(0) + beta) ** 2).sum() + (cost * slack**p).sum()


# -- the paper's method: Algorithms 1 and 2 -----------------------------------------------------
REWEIGHT_EPS = 1e-10  # This keeps the weights of Algorithm 1 finite.
REWEIGHT_TOL = 1e-12  # Algorithm 1 has settled when a step changes the row by less than this part.
REWEIGHT_STEPS = 100_000  # Algorithm 1 takes no more steps than this.
PAPER_STOP = 0.05  # Algorithm 2 ends when the objective moves by less than this.
CHECK_EVERY = 10  # This many iterations lie between two certificates of "alm".


@jit
def _row_prox(u, h, beta, w):
    """w = argmin 1/2 (sum |w| + beta)^2 + sum_t (h_t w_t^2 / 2 - u_t w_t), the row step in closed
    form; overwrites w.

    w_t = sgn(u_t) max(|u_t| - beta - s, 0) / h_t with s = sum |w|. The root s is found by Newton
    from 0: the equation is convex and falling in s, so entries only ever leave.
    """
    s = 0.0
    for _ in range(u.shape[0] + 1):
        top = 0.0
        bottom = 1.0
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
def _reweighted_row(u, mu, beta, w):
    """Algorithm 1: the same minimum for h = mu, approached by re-weighting w; overwrites w."""
    for _ in range(REWEIGHT_STEPS):
        s = beta
        for t in range(u.shape[0]):
            s += abs(w[t])

        # Equations (10) and (11): |w|^2 stands for |w|, weighted by the last |w|.
        change = size = 0.0
        for t in range(u.shape[0]):
            new = u[t] / (s / (abs(w[t]) + REWEIGHT_EPS) + mu)
            change += abs(new - w[t])
            size += abs(new)
            w[t] = new
        if change <= REWEIGHT_TOL * size:
            break


@jit
def _split_weights(P, Q, mu, beta, W, reweighted):
    """Row step (8) of every feature: exact, or by Algorithm 1 from the current W; overwrites W."""
    T, d = P.shape
    u, w = np.empty(T), np.empty(T)
    h = np.full(T, mu)
    for j in range(d):
        for t in range(T):
            u[t] = mu * P[t, j] + Q[t, j]
            w[t] = W[t, j]
        if reweighted:
            _reweighted_row(u, mu, beta, w)
        else:
            _row_prox(u, h, beta, w)
        for t in range(T):
            W[t, j] = w[t]


@jit
def _power_prox(v, t, p):
    """argmin over e >= 0 of t e^p + (e - v)^2 / 2; v, t > 0, p > 1. Newton between bounds."""
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


@jit
def _split_errors(XP, Z, y, cost, b, mu, p, E):
    """Equations (13)-(15) for any p >= 1; overwrites E."""
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
        self.problem = problem
        self.reweighted = reweighted

        # The start of the paper.
        self.W, self.b = np.ones((T, d)), np.zeros(T)
        self.P, self.Q = np.zeros((T, d)), np.ones((T, d))
        self.E, self.Z = np.zeros((T, n)), np.zeros((T, n))
        self.XP = np.zeros((T, n))
        self.mu = 1.0

        # The inverse in (17), or by Woodbury's formula the smaller one of X X'.
        self.tall = d <= n
        self.K = np.linalg.inv(np.eye(d) + X.T @ X if self.tall else np.eye(n) + X @ X.T)

    def step(self):
        """One iteration with the penalty mu, which stays."""
        X, y, cost, p, beta = self.problem
        mu = self.mu
        self.last_E, self.last_P = self.E.copy(), self.P

        # Equation (8): the weights, by the row prox.
        _split_weights(self.P, self.Q, mu, beta, self.W, self.reweighted)

        # Equation (12): the biases.
        self.b = (y - self.E - self.XP - self.Z / mu).mean(axis=1)

        # Equations (13)-(15): the errors.
        _split_errors(self.XP, self.Z, y, cost, self.b, mu, p, self.E)

        # Equations (16) and (17): the copy of the weights.
        right = self.W - self.Q / mu + (y - self.b[:, None] - self.Z / mu - self.E) @ X
        self.P = right @ self.K if self.tall else right - (right @ X.T @ self.K) @ X
        self.XP = self.P @ X.T

        # Equation (18): the multipliers, by what the constraints still lack.
        self.lack = self.E - y + self.XP + self.b[:, None]
        self.Z += mu * self.lack
        self.Q += mu * (self.P - self.W)

    def balance(self):
        """Move the penalty such that primal and dual residual come to be of the same size."""
        primal = math.sqrt((self.lack**2).sum() + ((self.P - self.W) ** 2).sum())
        moved = ((self.E - self.last_E) ** 2).sum() + ((self.P - self.last_P) ** 2).sum()
        dual = self.mu * math.sqrt(moved)
        if primal * dual > 0:
            self.mu *= min(max(math.sqrt(primal / dual), 0.1), 10.0)


def _solve_splitting(problem, tol, max_iter, rho, reweighted, tell):
    """Algorithm 2. rho > 1: as printed, with the paper's stopping rule; rho = None: the penalty
    is balanced between the residuals instead, and the certified gap decides. Returns as _solve."""
    X, y, cost, p, _ = problem
    top = cost if p == 1 else np.where(cost > 0, np.inf, 0.0)
    # The bias is free: centred columns give the same problem, and "alm" uses that.
    centre = X.mean(0) if rho is None else np.zeros(X.shape[1])
    inner = problem._replace(X=X - centre) if rho is None else problem
    run = _Splitting(inner, reweighted)
    next_balance = CHECK_EVERY
    last, best = np.inf, None
    for iteration in range(1, max_iter + 1):
        run.step()

        # The penalty grows, or is balanced, ever more rarely: one that moves need not converge.
        if rho is not None:
            run.mu *= rho
        elif iteration == next_balance:
            run.balance()
            next_balance += max(CHECK_EVERY, iteration // 2)
        if rho is None and iteration % CHECK_EVERY and iteration < max_iter:
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
        if tell(iteration, objective, residual) or done:
            break
    return best


# -- the certificate: objective and dual value --------------------------------------------------
ERROR_PART = 0.01  # Rounding errors up to this part of tol are added to the gap, not avoided.


@jit
def _exclusivity(W, D, step, side, G, beta):
    """The regulariser at V = W + step D, its slope along D, its conjugate at G, <V, G>, <D, G>.

    Weights at exactly 0 have two slopes: side = 1 is the one ahead, side = -1 the one behind.
    """
    value = slope = conjugate = inner = along = 0.0
    for j in range(W.shape[1]):
        s = beta  # The feature's sum of |v|, with beta.
        ds = 0.0  # The slope of s.
        m = 0.0  # The largest |G| of the feature.
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


@jit(fastmath=LANES)
def _balance(ya, cost, p):
    """Scale the heavier class of each member so that ya sums to 0: a feasible dual point.

    Overwrites ya; returns the loss part of the dual value, sum of alpha - conjugate(alpha).
    """
    dual = 0.0
    for t in range(ya.shape[0]):
        total = signed = 0.0
        for i in range(ya.shape[1]):
            total += abs(ya[t, i])
            signed += ya[t, i]
        plus, minus = 0.5 * (total + signed), 0.5 * (total - signed)
        cut_plus = min(1.0, minus / plus) if plus > 0.0 else 0.0
        cut_minus = min(1.0, plus / minus) if minus > 0.0 else 0.0

        for i in range(ya.shape[1]):
            ya[t, i] *= cut_plus if ya[t, i] > 0.0 else cut_minus
            a = abs(ya[t, i])
            dual += a
            if a > 0.0 and p == 2.0:
                dual -= 0.25 * a * a / cost[t, i]
            elif a > 0.0 and p > 1.0:
                dual -= (p - 1.0) * cost[t, i] * (a / (p * cost[t, i])) ** (p / (p - 1.0))
    return dual


def _dual_value(problem, ya):
    """Value of the dual at ya, whose heavier class is scaled down first; overwrites ya."""
    loss = _balance(ya, problem.cost, problem.p)
    G = ya @ problem.X
    return loss - _exclusivity(G, G, 0.0, 1.0, G, problem.beta)[2]


def _losses(problem, outputs):
    """Loss of all members with these outputs (T, n), and y times its derivatives."""
    _, y, cost, p, _ = problem
    none, ya = np.zeros(len(y)), np.empty_like(cost)
    terms, delta = (_loss_terms, TINY) if p in (1.0, 2.0) else (_power_terms, 0.0)
    rows = zip(outputs, cost, ya, strict=True)
    return sum(terms(f, 0.0, y, c, none, p, delta, slopes)[3] for f, c, slopes in rows), ya


def _certificate(problem, W, b, dual, tol):
    """Objective at W and b, computed anew, and its distance from the dual value, relative to it.

    What rounding may have done to the outputs is added to the distance; where that would count,
    they are computed with twice the digits. A dual value above the objective shows lost digits.
    """
    X, _, _, _, beta = problem
    reg = 0.5 * ((np.abs(W).sum(0) + beta) ** 2).sum()
    outputs = W @ X.T + b[:, None]
    loss, ya = _losses(problem, outputs)
    objective = reg + loss

    # How much the rounding of x.w + b can change of the loss, to first order.
    size = np.sqrt(X.ravel() @ X.ravel() * (W * W).sum(1))
    error = np.sqrt((ya * ya).sum(1)) @ size + np.abs(ya).sum(1) @ np.abs(b)
    error *= EPS * (X.shape[1] + 2)
    if not error <= ERROR_PART * tol * objective:
        for t in range(W.shape[0]):
            _exact_outputs(X, W[t], b[t], outputs[t])
        loss, ya = _losses(problem, outputs)
        objective = reg + loss
        error = EPS * (np.abs(ya) * (1.0 + np.abs(outputs))).sum()

    return float(objective), _residual(objective, dual, error)


def _residual(objective, dual, error):
    """The gap between objective and dual value, and what rounding may add, relative to the one."""
    gap = max(abs(objective - dual), EPS * objective) + error
    residual = gap / max(objective, TINY)
    return float(residual) if residual == residual else math.inf


# -- solver="auto": Newton's method or the interior point method, whichever suits ---------------
FAR = 100.0  # Columns whose mean is more than this many times their spread are centred.
FEW_ROWS = 20  # Members that meet in fewer rows a feature take the interior point method first.
SMALL_SIDE = 256  # Up to this many features our Cholesky beats LAPACK's, and Newton is no burden.


class _Pulse:
    """Called after every iteration, it counts and tells them; True where that was the last.

    tell(iteration, objective, residual, rows) gets the number of rows where these are a sample,
    and may stop the method.
    """

    def __init__(self, tell, max_iter):
        self.tell, self.max_iter = tell, max_iter
        self.count, self.stopped = 0, False

    def __call__(self, objective, residual, rows=None):
        self.count += 1
        stop = bool(self.tell(self.count, objective, residual, rows))
        self.stopped = self.stopped or stop or self.count >= self.max_iter - (rows is not None)
        return self.stopped


def _solve(problem, both, tol, pulse):
    """Solve to a certified gap; returns W, b, objective, residual. `both` are the members whose
    samples have both classes; pulse(objective, residual, rows) counts the iterations."""
    X, y, cost, p, beta = problem
    (n, d), T = X.shape, cost.shape[0]

    # A sample of one class: w = 0, and the bias is that class.
    W, b = np.zeros((T, d)), np.zeros(T)
    if not both.all():
        b[~both] = np.where(cost[~both] @ y > 0, 1.0, -1.0)
    if not both.any():
        pulse(0.5 * d * beta**2, 0.0)
        return W, b, *_certificate(problem, W, b, 0.5 * d * beta**2, tol)

    # The other members, in columns that are not far from 0: the bias is free.
    far = _is_far(X[:: n // 64 + 1])
    centre = X.mean(0) if far else np.zeros(d)
    inner = _Problem(X - centre if far else X, y, cost if both.all() else cost[both], p, beta)
    members = len(inner.cost)
    turn = None
    if d > n and members == 1 and beta == 0:
        # Only |w| counts: n dimensions are enough.
        turn, R = np.linalg.qr(inner.X.T)
        inner = inner._replace(X=np.ascontiguousarray(R.T))

    # Which method first, and which where that one does not arrive.
    ways = partial(_solve_newton, samples=pulse.max_iter > 1), _solve_interior
    if (p < 2 or n < FEW_ROWS * d) and (members > 1 or beta > 0):
        ways = ways[::-1] if d <= SMALL_SIDE else ways[1:]
    best = None
    for way in ways:
        try:
            V, bias, dual = way(inner, (1.0 - 2.0 * ERROR_PART) * tol, pulse)
        except np.linalg.LinAlgError:  # Singular to the last digit: no answer that way.
            V, bias, dual = np.zeros((members, inner.X.shape[1])), np.zeros(members), -np.inf

        # Back to the columns as they came, and the certificate there.
        V = V if turn is None else V @ turn.T
        W, b = W.copy(), b.copy()
        W[both], b[both] = V, bias - V @ centre
        found = W, b, *_certificate(problem, W, b, dual, tol)
        best = found if best is None or found[3] < best[3] else best
        if best[3] <= tol or pulse.stopped:
            break
    return best


def _is_far(sample):
    """Whether some column lies many times its spread away from 0, by these rows."""
    low, high = sample.min(0), sample.max(0)
    return (np.abs(low + high) > FAR * (high - low)).any()


@jit
def _have_both(y, cost):
    """Which members have rows of both classes; mostly the first rows tell."""
    both = np.zeros(cost.shape[0], dtype=np.bool_)
    for t in range(cost.shape[0]):
        first = 0.0
        for i in range(y.shape[0]):
            if cost[t, i] > 0.0:
                if first == 0.0:
                    first = y[i]
                elif y[i] != first:
                    both[t] = True
                    break
    return both


# -- semismooth Newton --------------------------------------------------------------------------
NEWTON_STEPS = 150  # Where Newton's method needs more, the interior point method goes on.
LEVEL = 8  # A level of the nested samples has this many times the rows of the one before.
MANY_ROWS = 10_000  # Where a level has this many rows a feature, it has twice that many times.
LEVEL_ROWS = 10  # The smallest sample has this many rows a feature.
LEVEL_TOL = 10.0  # A sample only has to give a good start, to this gap.
LEVEL_TOL_SLOW = 0.1  # Powers below 2 are slower to mend: their samples are solved to this gap.
LEVEL_STEPS = 100  # One of the samples gets no more iterations than this.
WIDEST = 4.0  # The envelope starts so wide that all rows of a zero start are inside.
NARROWEST = 1e-6  # The envelope gets no narrower than this.
SHRINK = 3.0  # The envelope gets narrower by this factor whenever the multipliers move.
INNER_PART = 0.3  # The multipliers move when the inner gap is below this part of the rest.
BIAS_TOL = 1e-10  # A bias is exact when both classes' multipliers agree to this part.
BALANCED = 1e-13  # What they differ by beyond this part is scaled away.
OVERSHOOT = 0.5  # A full step is too long if the slope behind it is more than this part upwards.
FLAT_SLOPE = 0.1  # A shorter step is then sought until the slope is below this part.
FROZEN = 0.1  # A Hessian is kept while each step cuts the gap to this part.
CG_PART = 10  # A Hessian costs as much as d / 10 products with it: this many are tried first.
CG_TOL = 0.1  # Conjugate gradients solve a step to this part of its right side.
MODEL_TOL = 0.01  # Where members meet, a Newton model is solved to this part of the gap.
MODEL_ENOUGH = 0.1  # Row sweeps that get no further are enough at this part of the gap.
MODEL_STEPS = 60  # An interior point method then goes on for this many steps at most.
SWEEP = 0.9  # Row sweeps go on while each brings the model's gap to this part of the last.


class _Start(NamedTuple):
    """Where Newton's method starts: members, their Hessians or None, the columns' means by which
    these are centred (T, d), and the width of the envelope."""

    W: np.ndarray
    b: np.ndarray
    H: np.ndarray | None
    centre: np.ndarray
    delta: float


def _solve_newton(problem, tol, pulse, samples=True):
    """Newton on nested samples of the rows, each solution the start of the next, then on all.

    Returns W, b and the dual value that certifies them; pulse(objective, residual, rows) counts
    the iterations and may stop them.
    """
    X, y, cost, p, beta = problem
    (n, d), T = X.shape, cost.shape[0]
    start = _Start(np.zeros((T, d)), np.zeros(T), None, np.zeros((T, d)), WIDEST if p < 2 else 0.0)
    enough = max(tol, LEVEL_TOL if p >= 2 else LEVEL_TOL_SLOW)
    for size in _levels(n, d)[:0:-1] if samples else ():  # All but the full set.
        rows = _scattered(n, size)
        part = _Problem(X.take(rows, 0), y[rows], cost[:, rows] * (n / size), p, beta)
        run = _Newton(part, start)
        W, b, _ = run.solve(enough, LEVEL_STEPS, partial(pulse, rows=size))

        # The Hessian of a large sample is worth having.
        if p >= 2 and size > HESSIAN_ROWS and run.H is not None:
            run.form_hessian()
        start = _Start(W, b, run.H, run.centre, run.delta)
    return _Newton(problem, start).solve(tol, NEWTON_STEPS, pulse)


def _levels(n, d):
    """Sizes of the nested samples, the largest first."""
    sizes, size = [], n
    while size >= max(LEVEL_ROWS * d, 400):
        sizes.append(size)
        size //= LEVEL if size < MANY_ROWS * d else 2 * LEVEL
    return sizes


def _scattered(n, size):
    """Numbers of `size` of n rows: one of every stride, scattered."""
    i, stride = np.arange(size), n // size
    return i * stride + (i * 2654435761 >> 15) % stride


class _Newton:
    """Semismooth Newton on all members at once: the iterate and the steps that move it."""

    apart = False  # Whether the multipliers move in iterations of their own.

    def __init__(self, problem, start):
        X, _, _, p, beta = problem
        (n, d), T = X.shape, start.W.shape[0]
        self.problem, self.p, self.beta = problem, p, beta
        self.W, self.b, self.H, self.centre, self.delta = start
        self.single = T == 1 and beta == 0
        self.other = None if p in (1.0, 2.0) else True
        self.gradients = self.single and p >= 2 and d >= 5 * CG_PART  # Worth a try.

        # Outputs without bias, their moves, y times the slopes, multipliers, second derivatives.
        self.XW = self.W @ X.T
        self.XM, self.ya = np.empty((T, n)), np.empty((T, n))
        self.share, self.bend = np.zeros((T, n)), np.empty((T, n))
        self.move = np.empty((T, d))
        self.factor, self.work = np.empty((d, d)), np.empty((3, d))
        self.last_gap, self.last_G = np.inf, None
        self.evaluate()

    def solve(self, tol, steps, pulse):
        """Iterate to the gap tol; returns the best W and b, and the dual value that certifies
        them."""
        best, best_residual = (self.W, self.b, -np.inf), np.inf
        settled = moved = False
        for iteration in range(steps):
            # Step 1: the duality gap of the iterate.
            dual = self.measure()
            residual = self.gap / max(self.objective, TINY)
            if residual < best_residual:
                best, best_residual = (self.W, self.b.copy(), dual), residual
            stop = pulse(self.objective, residual)
            if stop or residual <= tol or iteration == steps - 1:
                break
            if not math.isfinite(self.objective):
                break

            # Step 2: p < 2 only, the multipliers of the envelope once its own minimum is near.
            smooth = self.p >= 2
            near = not smooth and (settled or self.inner_gap <= INNER_PART * self.outer_gap)
            moved = near and not (moved and self.apart)
            if moved:
                self.move_multipliers()
                if self.apart:
                    continue

            # Step 3: Newton's direction, and the way along it.
            self.find_direction(tol)
            settled = not self.advance()
            if settled and (smooth or self.delta == NARROWEST):
                break
        return best

    def evaluate(self):
        """Loss, its part of the dual value and G = X' ya, at the best biases."""
        X, y, cost, p, _ = self.problem
        loss = dual = 0.0
        balanced = True
        for t in range(len(cost)):
            self.b[t], sums = _best_bias(
                self.XW[t], self.b[t], y, cost[t], self.share[t], p, self.delta, self.ya[t],
                self.other,
            )  # fmt: skip
            loss += sums[3]
            dual += sums[1] - (p - 1.0) * sums[4]
            balanced = balanced and abs(sums[0]) <= BALANCED * sums[1]
        self.loss = loss
        self.dual = dual if balanced else _balance(self.ya, cost, p)
        self.G = self.ya @ X

    def measure(self):
        """Sets the objective, its duality gap, and the parts of it that are the regulariser's and
        the losses'; returns the dual value."""
        reg, _, conjugate, inner, _ = _exclusivity(
            self.W, self.W, 0.0, 1.0, self.G, self.problem.beta
        )
        self.objective = reg + self.loss
        self.gap = max(abs(self.objective - self.dual + conjugate), EPS * self.objective)
        self.inner_gap = max(reg + conjugate - inner, 0.0)
        self.outer_gap = self.gap - self.inner_gap
        return self.dual - conjugate

    def move_multipliers(self):
        """Augmented Lagrangian: the slopes become the multipliers of a narrower envelope."""
        cost = self.problem.cost
        np.divide(np.abs(self.ya), cost, out=self.share, where=cost > 0)
        self.delta = max(self.delta / SHRINK, NARROWEST)
        self.evaluate()

    def find_direction(self, tol):
        """Newton's step for the weights, in move. The Hessian is formed, kept or not needed."""
        mean = self.step_by_gradients() if self.gradients else None
        self.gradients = mean is not None
        if self.gradients:
            self.H, self.centre = None, mean
            return

        if self.H is None or self.p < 2 or self.gap > FROZEN * self.last_gap:
            self.form_hessian()
        elif self.last_G is not None:
            # The Hessian is kept, corrected by what the last move showed.
            _secant(self.H, self.move, self.last_G - self.G, self.factor[0])
        self.solve_model(tol)

    def solve_model(self, tol):
        """The minimum of the model with slope G and Hessian H, as a move of the weights."""
        d = self.W.shape[1]
        if not self.single:
            target = 0.1 * tol * self.objective
            limits = [max(target, part * self.inner_gap) for part in (MODEL_TOL, MODEL_ENOUGH)]
            V = _model_minimum(self.W, self.G, self.H, self.beta, *limits)
            np.subtract(V, self.W, out=self.move)
        elif d <= SMALL_SIDE:
            _ridge_step(self.H, self.G, self.W, self.factor, self.move)
        else:
            self.move[0] = np.linalg.solve(self.H[0] + np.eye(d), (self.G - self.W)[0])

    def step_by_gradients(self):
        """Newton's step without the Hessian, in move, and the columns' means; None where the few
        products with the Hessian that are cheaper than the Hessian are not enough."""
        X, d = self.problem.X, self.W.shape[1]
        self.find_bends()
        weight = self.bend.sum()
        mean = self.bend @ X / weight if weight > 0 else self.centre
        right = (self.G - self.W)[0]
        few = _conjugate_gradients(
            X, self.bend[0], mean[0], right, d // CG_PART, self.work, self.move[0]
        )
        return mean if few else None

    def find_bends(self):
        """Second derivatives of all losses, in bend."""
        _, _, cost, p, _ = self.problem
        if p == 2:
            np.multiply(2.0 * cost, self.ya != 0, out=self.bend)
        else:
            for t in range(len(cost)):
                _bends(self.ya[t], cost[t], p, self.delta, self.bend[t])

    def form_hessian(self):
        """Hessians of all members, and the means by which they are centred."""
        self.find_bends()
        self.H, self.centre = _curvature(self.problem.X, self.bend, self.centre)

    def advance(self):
        """Go along move as far as the objective falls; False where it does not fall at all."""
        X, y, cost, p, beta = self.problem
        self.last_gap, self.last_G = self.gap, self.G
        move_b = -np.add.reduce(self.centre * self.move, axis=1)
        np.matmul(self.move, X.T, out=self.XM)
        first = self.slope(0.0, 1.0)
        if not first < 0:  # No descent is left in floating point.
            return False

        # The full step.
        old_b = self.b.copy()
        self.b += move_b
        self.XW += self.XM
        self.evaluate()
        last = self.slope(1.0, -1.0)

        # A shorter one, where the objective rises again at its end.
        if last > OVERSHOOT * abs(first):
            self.b[:] = old_b
            self.XW -= self.XM
            here, ahead = (self.W, self.XW, self.b), (self.move, self.XM, move_b)
            loss = y, cost, self.share, (p, beta, self.delta)
            step = _step_length(here, ahead, *loss, (first, last), self.ya, self.other)
            self.move *= step
            self.b += step * move_b
            self.XW += step * self.XM
            self.evaluate()
        self.W = self.W + self.move
        return True

    def slope(self, step, side):
        """Slope of the objective along move after this step, whose losses are those in G."""
        beta = self.problem.beta
        _, slope, _, _, along = _exclusivity(self.W, self.move, step, side, self.G, beta)
        return slope - along


@jit(nogil=True, fastmath=LANES)
def _loss_terms(xw, b, y, cost, share, p, delta, ya):
    """Loss of one member at bias b, p = 1 or 2; overwrites ya with y times its derivative.

    p = 1: derivatives of the envelope of width delta whose multipliers are share * cost.
    Returns the sums of ya, of |ya|, of loss'', of the loss, and of cost e^p for the conjugate.
    """
    balance = total = bend = loss = 0.0
    for i in range(y.shape[0]):
        z = 1.0 - y[i] * (xw[i] + b)
        c = cost[i]
        if p == 2.0:
            z = max(z, 0.0)
            slope = 2.0 * c * z
            bend += 2.0 * c if z > 0.0 else 0.0
            loss += c * z * z
        else:
            v = z + share[i] * delta
            slope = c * min(max(v / delta, 0.0), 1.0)
            bend += c / delta if v > 0.0 and v < delta else 0.0
            loss += c * max(z, 0.0)
        ya[i] = y[i] * slope
        balance += y[i] * slope
        total += slope
    return balance, total, bend, loss, loss if p == 2.0 else 0.0


@jit(nogil=True)
def _power_terms(xw, b, y, cost, share, p, delta, ya):
    """The same for any p > 1; the envelope where delta > 0."""
    balance = total = bend = loss = power = 0.0
    for i in range(y.shape[0]):
        z = 1.0 - y[i] * (xw[i] + b)
        c = cost[i]
        loss += c * max(z, 0.0) ** p
        v = z + share[i] * delta
        slope = 0.0
        if v > 0.0:
            e = _power_prox(v, delta, p) if delta > 0.0 else v
            if delta > 0.0 and e < TINY:
                slope = c * v / delta
                bend += c / delta
            else:
                slope = c * p * e ** (p - 1.0)
                second = (p - 1.0) * p * e ** (p - 2.0)
                bend += c * second / (1.0 + delta * second)
                power += slope * e / p
        ya[i] = y[i] * slope
        balance += y[i] * slope
        total += slope
    return balance, total, bend, loss, power


@jit
def _best_bias(xw, bias, y, cost, share, p, delta, ya, other):
    """Minimise one member's loss over its bias; overwrites ya. Returns the bias and the sums.

    other is None for p = 1 or 2: the branch for other powers is then not even compiled.
    """
    low, high = -np.inf, np.inf
    width = 1.0
    for _ in range(200):
        if other is None:
            sums = _loss_terms(xw, bias, y, cost, share, p, delta, ya)
        else:
            sums = _power_terms(xw, bias, y, cost, share, p, delta, ya)
        balance, total, bend = sums[0], sums[1], sums[2]
        if abs(balance) <= BIAS_TOL * total:
            break
        if balance > 0.0:
            low = bias
        else:
            high = bias

        # Newton, or where that leaves the bracket, widen or halve it.
        new = bias + balance / bend if bend > 0.0 else np.nan
        if not low < new < high:
            if high - low < np.inf:
                new = 0.5 * (low + high)
            else:
                new = high - width if low == -np.inf else low + width
            width *= 2.0
        if new == bias:
            break
        bias = new

    # Where no row has a loss, take the middle of all biases for which that is so.
    if sums[1] == 0.0:
        low, high = -np.inf, np.inf
        for i in range(y.shape[0]):
            if cost[i] > 0.0:
                edge = y[i] * (1.0 + share[i] * delta) - xw[i]
                if y[i] > 0.0:
                    low = max(low, edge)
                else:
                    high = min(high, edge)
        if -np.inf < low < high < np.inf:
            bias = 0.5 * (low + high)
    return bias, sums


@jit
def _bends(ya, cost, p, delta, bend):
    """Second derivative of one member's loss at each row, from the first; overwrites bend."""
    for i in range(ya.shape[0]):
        a = abs(ya[i])
        second = 0.0
        if a > 0.0 and (p > 1.0 or a < (1.0 - BIAS_TOL) * cost[i]):
            second = 2.0
            if p == 1.0:
                second = 1.0 / delta
            elif p != 2.0:
                e = (a / (p * cost[i])) ** (1.0 / (p - 1.0))
                second = (p - 1.0) * a / (cost[i] * e) if e > TINY else np.inf
                second = 1.0 / (delta + 1.0 / second)
        bend[i] = cost[i] * second


@jit
def _step_length(here, ahead, y, cost, share, powers, slopes, ya, other):
    """Where in (0, 1) the objective stops falling, by its slope, which is (at 0, at 1) = slopes.

    here = W, XW, b, ahead = their moves, powers = p, beta, delta; overwrites ya.
    """
    (W, XW, b), (move, XM, move_b), (p, beta, delta) = here, ahead, powers
    first, last = slopes
    low, high = 0.0, 1.0
    flat = FLAT_SLOPE * abs(first)
    step = 0.0
    xw = np.empty(y.shape[0])
    for _ in range(30):
        # The secant's root, away from the ends of the bracket.
        step = low + (high - low) * min(max(first / (first - last), 0.1), 0.9)

        # The slope there: the regulariser's, less what the losses of all members gain.
        slope = _exclusivity(W, move, step, -1.0, W, beta)[1]
        for t in range(XW.shape[0]):
            for i in range(y.shape[0]):
                xw[i] = XW[t, i] + step * XM[t, i]
            bias = b[t] + step * move_b[t]
            if other is None:
                sums = _loss_terms(xw, bias, y, cost[t], share[t], p, delta, ya[t])
            else:
                sums = _power_terms(xw, bias, y, cost[t], share[t], p, delta, ya[t])
            slope -= sums[0] * move_b[t]
            for i in range(y.shape[0]):
                slope -= ya[t, i] * XM[t, i]

        if slope > 0.0:
            high, last = step, slope
        else:
            low, first = step, slope
        if abs(slope) <= flat:
            break
    return step


def _model_minimum(W, G, H, beta, target, enough):
    """argmin over V of regulariser(V) - <G, V - W> + 1/2 sum_t (v_t - w_t)' H_t (v_t - w_t).

    Row sweeps as long as they help, else an interior point method. Stops when the next iterate's
    share of the duality gap will be below target; at the end of the sweeps, below enough.
    """
    T, d = W.shape
    H = H.copy()
    H.reshape(T, -1)[:, :: d + 1] *= 1.0 + RIDGE_PART
    H.reshape(T, -1)[:, :: d + 1] += RIDGE_PART
    linear = G + _times(H, W)

    V = W.copy()
    gap, last = 0.0, np.inf
    while gap <= SWEEP * last:
        last = gap or np.inf
        R, gap = _sweep_model(H, linear, V, beta)
        if gap <= target:
            return V
    return V if gap <= enough else _model_interior(H, linear, V, R, gap, beta, target)


def _sweep_model(H, linear, V, beta):
    """A row sweep of the model; overwrites V. Returns the slope R = linear - H V of the quadratic
    part and the duality gap."""
    R = linear - _times(H, V)
    _row_sweep(H, R, V, beta)
    value, _, conjugate, inner, _ = _exclusivity(V, V, 0.0, 1.0, R, beta)
    return R, value + conjugate - inner


@jit
def _row_sweep(H, R, W, beta):
    """One exact step per feature on the quadratic model; overwrites W and the residual R."""
    T, d = W.shape
    u, h, w = np.empty(T), np.empty(T), np.empty(T)
    for j in range(d):
        for t in range(T):
            h[t] = H[t, j, j]
            u[t] = R[t, j] + h[t] * W[t, j]
        _row_prox(u, h, beta, w)
        for t in range(T):
            move = w[t] - W[t, j]
            if move != 0.0:
                W[t, j] = w[t]
                for i in range(d):
                    R[t, i] -= move * H[t, j, i]


def _model_interior(H, linear, V, R, gap, beta, target):
    """The minimum of the model by a predictor-corrector interior point method on the parts
    P = (V+, V-) >= 0 with multipliers Q >= 0; a row sweep of each iterate sets exact zeros.

    V, R and gap are what the last sweep left.
    """
    best, best_gap = V, gap

    # Start as far inside the bounds as the gap is wide.
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
        wish = -P * Q  # The predictor aims at complementarity 0.
        for _ in "predictor", "corrector":
            _, dP = solve(s - PART_SIGN * R - Q - wish / P)
            dQ = (wish - Q * dP) / P
            step = 1.0 / max(1.0, (-dP / P).max(), (-dQ / Q).max())
            ahead = ((P + step * dP) * (Q + step * dQ)).sum() / V.size
            wish = 0.5 * mean * (ahead / mean) ** 3 - P * Q - dP * dQ
        P, Q = P + BOUNDARY * step * dP, Q + BOUNDARY * step * dQ

        # Weights whose multipliers outweigh them are zero.
        zero = (P * dual_size <= Q * size).all(0)
        V = np.where(zero, 0.0, P[0] - P[1])
        _, gap = _sweep_model(H, linear, V, beta)
        if gap < best_gap:
            best, best_gap = V, gap
        if gap <= target:
            break
    return best


# -- primal-dual interior point method ----------------------------------------------------------
START_INSIDE = 0.1  # The start lies this part of the typical size off the bounds.
BOUNDARY = 0.995  # A step goes this part of the way to the bounds.
REFINE = 2  # A direction is corrected this many times by what rounding left over.
STUCK = 1e-14  # The method ends where its steps get shorter than this.
IDLE = 20  # The method ends after this many iterations without progress.
ZEROS = 1.0, 1e-2, 1e-4  # A weight below one of these parts of its multiplier is exactly zero.
ZERO_TRIES = 5  # Where zeros cost the certificate, the method goes on for this many iterations.
PART_SIGN = np.array([1.0, -1.0])[:, None, None]  # These are the signs of the parts V+ and V-.


class _Rows(NamedTuple):
    """The rows' part of the interior point method: y, cost and p of the problem, and

    state       alpha, r and e, (3, T, n). alpha is the dual variable; e - r = 1 - y f splits the
                slack. On the central path alpha r = mu; e belongs to alpha by alpha = p cost
                e^(p-1), linear in the logarithms, or for p = 1 by e (cost - alpha) = mu.
    move        their last move, (3, T, n)
    bend, pull  what the rows add to Newton's equations, (T, n) each: d ya = pull - bend df
    """

    y: np.ndarray
    cost: np.ndarray
    p: float
    state: np.ndarray
    move: np.ndarray
    bend: np.ndarray
    pull: np.ndarray


def _solve_interior(problem, tol, pulse):
    """Primal-dual interior point method on the whole problem, for any p, scale and shape; returns
    as _solve_newton."""
    point = _Interior(problem)
    best, best_residual = (point.W, point.b, -np.inf), np.inf
    least = np.inf
    idle = tries = 0
    while idle < IDLE:
        # Step 1: the duality gap of the iterate.
        idle += 1
        dual = point.measure()
        objective = _objective(problem, point.W, point.b)
        residual = abs(objective - dual) / max(objective, TINY)
        if residual < best_residual:
            best, best_residual, idle = (point.W.copy(), point.b.copy(), dual), residual, 0
        stop = pulse(objective, residual)

        # Step 2: an answer gets exact zeros, if the certificate allows them.
        if residual <= tol and not point.single:
            for part in ZEROS:
                zero = (point.P <= part * point.Q).all(0)
                zeroed = _with_zeros(problem, point.W, point.b, zero, dual, tol)
                if zeroed is not None:
                    return *zeroed, dual
            tries += 1
        if stop or (residual <= tol and (point.single or tries == ZERO_TRIES)):
            break

        # Step 3: Mehrotra's direction, and the way along it.
        total = point.products(0.0)
        if total < least:
            least, idle = total, 0
        step = point.find_direction(total)
        if not step > STUCK:  # Nor is it where numbers have become infinite.
            break
        point.advance(step)
    return best


class _Interior:
    """A point inside the bounds, and the steps that move it: members W and b, the rows' variables,
    and the regulariser's, the parts P = (V+, V-) of W with their multipliers Q, (2, T, d) each."""

    def __init__(self, problem):
        X, y, cost, p, beta = problem
        (n, d), T = X.shape, cost.shape[0]
        self.problem = problem
        self.live = cost > 0
        self.single = T == 1 and beta == 0  # Then the regulariser needs no parts.
        self.wide = not self.single and self.live.sum() < d

        # Least squares, or twice that: twice the fit of separable rows has no loss.
        W, b = _least_squares(problem)
        bound, factor = min((_objective(problem, k * W, k * b), k) for k in (1.0, 2.0))
        self.W, self.b = factor * W, factor * b

        # The rows' variables, inside their bounds.
        slack = 1.0 - y * (self.W @ X.T + self.b[:, None])
        inside = START_INSIDE * np.abs(slack).mean() + TINY
        e = np.maximum(slack, 0.0) + inside
        e = e if p <= 2 else np.minimum(e, 1.0)  # As at zero weights: powers grow fast.
        alpha = 0.5 * cost if p == 1 else p * cost * e ** (p - 1.0)
        part = min(1.0, 2.0 * bound / alpha.sum())  # The optimal ones sum to no more.
        e = np.maximum(slack, 0.0) + part * inside if p == 1 else part ** (1.0 / (p - 1.0)) * e
        state = np.array([part * alpha, np.maximum(-slack, 0.0) + inside, e])
        bend, pull = np.empty((T, n)), np.empty((T, n))
        self.rows = _Rows(y, cost, p, state, np.zeros_like(state), bend, pull)

        # The regulariser's variables.
        inside = START_INSIDE * np.abs(self.W).sum(0).max() + TINY
        self.P = np.maximum(PART_SIGN * self.W, 0.0) + inside
        self.Q = np.full_like(self.P, inside + beta)
        self.dP, self.dQ = np.zeros_like(self.P), np.zeros_like(self.Q)
        self.centre = np.zeros((T, d))
        self.count = self.live.sum() * (2 if p == 1 else 1) + (0 if self.single else self.P.size)

    def measure(self):
        """Sets what the directions need of the dual variables; returns the dual value."""
        ya = self.rows.y * self.rows.state[0]
        self.unbalanced = ya.sum(1)
        self.G = ya @ self.problem.X
        return _dual_value(self.problem, ya)

    def products(self, step):
        """Sum of all products that have to vanish, after this step along the last move."""
        _, cost, p, state, move, *_ = self.rows
        total = _row_products(cost, p, state, move, step)
        if self.single:
            return total
        P, Q = self.P, self.Q
        if step > 0:
            P, Q = P + step * self.dP, Q + step * self.dQ
        return total + (P * Q).sum()

    def find_direction(self, total):
        """Mehrotra's predictor, then his corrector; returns the length of the step."""
        outputs = self.W @ self.problem.X.T
        outputs += self.b[:, None]
        mu = 0.0
        for order in (0.0, 1.0):
            _row_system(*self.rows, outputs, mu, order)
            if order == 0.0:
                self.factorise()
            df = self.solve_equations(mu, order)

            # How far this direction may go, and how much it leaves for the corrector.
            worst = _row_moves(*self.rows, df, mu, order)
            if not self.single:
                worst = max((-self.dP / self.P).max(), (-self.dQ / self.Q).max(), worst)
            step = 1.0 / max(1.0, worst / BOUNDARY)
            if order == 0.0:
                mu = total / self.count * min(self.products(step) / total, 1.0) ** 3
        return step

    def factorise(self):
        """Newton's equations with everything but the move of W eliminated, ready to be solved."""
        X, bend = self.problem.X, self.rows.bend
        self.sums = self.P.sum((0, 1)) + self.problem.beta
        self.weight = bend.sum(1)
        if self.wide:
            self.centre = bend @ X / self.weight[:, None]
            rows = [np.flatnonzero(row) for row in self.live]
            roots = [np.sqrt(bend[t, i]) for t, i in enumerate(rows)]
            A = [roots[t][:, None] * (X[i] - self.centre[t]) for t, i in enumerate(rows)]
            self.solve = _reduced_wide(A, roots, self.Q / self.P)
            return

        H, self.centre = _curvature(X, bend, self.centre)
        if self.single:
            H[0].ravel()[:: X.shape[1] + 1] += 1.0
            self.inverse = _inverse(H)
        else:
            self.solve = _reduced(H, self.Q / self.P)

    def solve_equations(self, mu, order):
        """Moves dW, db, dP, dQ to complementarity mu, corrected by the products of the last move
        where order = 1; returns those of the outputs."""
        X, bend, pull = self.problem.X, self.rows.bend, self.rows.pull
        P, Q = self.P, self.Q
        wish = mu - P * Q - order * self.dP * self.dQ
        dW, db, df = np.zeros(self.W.shape), np.zeros(self.b.shape), np.zeros(bend.shape)
        dP, dQ, ds = np.zeros_like(P), wish / P, 0.0

        change = pull  # That of ya. Each refinement starts from what the last one left over.
        for _ in range(1 + REFINE * int(order)):
            lead = self.unbalanced + change.sum(1)
            R = self.G + change @ X - self.centre * lead[:, None]
            if self.single:
                add = _times(self.inverse, R - self.W - dW)
            else:
                add, more = self.solve(self.sums + ds - PART_SIGN * R - Q - dQ)
                dP = dP + more
                dQ, ds = (wish - Q * dP) / P, dP.sum((0, 1))
            add_b = lead / self.weight - (self.centre * add).sum(1)
            dW, db, df = dW + add, db + add_b, df + add @ X.T + add_b[:, None]
            change = pull - bend * df
        self.dW, self.db, self.dP, self.dQ = dW, db, dP, dQ
        return df

    def advance(self, step):
        """Take the step."""
        _, cost, p, state, move, *_ = self.rows
        live = self.live
        state += step * move
        # The smoother of the two directions keeps alpha and e together.
        if p >= 2:
            state[2][live] = (state[0][live] / (p * cost[live])) ** (1.0 / (p - 1.0))
        elif p > 1:
            state[0][live] = p * cost[live] * state[2][live] ** (p - 1.0)

        self.b += step * self.db
        if self.single:
            self.W = self.W + step * self.dW
        else:
            self.P, self.Q = self.P + step * self.dP, self.Q + step * self.dQ
            self.W = self.P[0] - self.P[1]


@jit
def _row_system(y, cost, p, state, move, bend, pull, f, mu, order):
    """The rows' part of a Newton step to complementarity mu, with everything but df eliminated;
    the arrays are those of _Rows, f the outputs (T, n). order = 1 corrects by the last move's
    products.

    Overwrites bend and pull = y bend want, so that d alpha = bend (want - y df).
    """
    for t in range(cost.shape[0]):
        for i in range(y.shape[0]):
            c = cost[t, i]
            bend[t, i] = pull[t, i] = 0.0
            if c > 0.0:
                a, r, e = state[0, t, i], state[1, t, i], state[2, t, i]
                da, dr, de = move[0, t, i], move[1, t, i], move[2, t, i]
                want = 1.0 - y[i] * f[t, i] - e + (mu - order * da * dr) / a
                if p == 1.0:
                    room = c - a
                    want -= (mu - e * room + order * de * da) / room
                    slope = e / room
                else:
                    slope = e / ((p - 1.0) * a)
                    want -= slope * a * (np.log(a / (c * p)) - (p - 1.0) * np.log(e))
                bend[t, i] = 1.0 / (slope + r / a)
                pull[t, i] = y[i] * bend[t, i] * want


@jit
def _row_moves(y, cost, p, state, move, bend, pull, df, mu, order):
    """The moves of alpha, r and e that belong to df; overwrites move, and returns the inverse of
    the longest step that keeps all of them positive."""
    worst = 0.0
    for t in range(cost.shape[0]):
        for i in range(y.shape[0]):
            c = cost[t, i]
            if c > 0.0:
                a, r, e = state[0, t, i], state[1, t, i], state[2, t, i]
                cross = order * move[0, t, i] * move[1, t, i]
                across = move[2, t, i] * move[0, t, i]
                da = y[i] * pull[t, i] - y[i] * bend[t, i] * df[t, i]
                dr = (mu - cross - r * da) / a - r
                if p == 1.0:
                    de = (mu + order * across + e * da) / (c - a) - e
                    worst = max(worst, da / (c - a))
                else:
                    off = np.log(a / (c * p)) - (p - 1.0) * np.log(e)
                    de = e / (p - 1.0) * (da / a + off)
                move[0, t, i], move[1, t, i], move[2, t, i] = da, dr, de
                worst = max(worst, -da / a, -dr / r, -de / e)
    return worst


@jit
def _row_products(cost, p, state, move, step):
    """Sum of the products that have to vanish, alpha r and (cost - alpha) e, after the step."""
    total = 0.0
    for t in range(cost.shape[0]):
        for i in range(cost.shape[1]):
            if cost[t, i] > 0.0:
                a = state[0, t, i] + step * move[0, t, i]
                total += a * (state[1, t, i] + step * move[1, t, i])
                if p == 1.0:
                    total += (cost[t, i] - a) * (state[2, t, i] + step * move[2, t, i])
    return total


def _reduced(H, pull):
    """Newton's equations of the regulariser's parts P = (V+, V-) >= 0, with pull = Q / P.

    Members meet only in the d sums s = sum_t |v_t|, so T matrices of size d are inverted and one
    more. Returns a function of the residuals `off` (2, T, d): the move of V, and that of P.
    """
    total = pull[0] + pull[1]
    tilt = (pull[0] - pull[1]) / total
    T, d = total.shape

    # Each member by itself.
    K = H.copy()
    K.reshape(T, -1)[:, :: d + 1] *= 1.0 + RIDGE_PART
    K.reshape(T, -1)[:, :: d + 1] += pull[0] * pull[1] / total + RIDGE_PART
    K = _inverse(K)
    KT = K * tilt[:, None, :]

    # What is left for the sums.
    coupling = (tilt[:, :, None] * KT).sum(0)
    coupling.ravel()[:: d + 1] += 1.0 + (4.0 / total).sum(0)
    coupling = _inverse(coupling)

    def solve(off):
        both = off[0] + off[1]
        u = _times(K, 0.5 * (tilt * both - off[0] + off[1]))
        ds = coupling @ -(2.0 * both / total + tilt * u).sum(0)
        move = u + KT @ ds
        return move, _parts(move, ds, both, total, tilt)

    return solve


def _reduced_wide(A, roots, pull):
    """The same for H_t = A_t' A_t of fewer rows than columns: one matrix of all rows is inverted.

    The regulariser's own matrix couples the members feature by feature; its inverse is written
    without differences, since its entries lie many orders of magnitude apart. Rows are centred,
    roots_t' A_t = 0: a multiple of roots_t roots_t' does not change the solution and fills the gap.
    """
    total = pull[0] + pull[1]
    tilt = (pull[0] - pull[1]) / total
    T = len(A)

    # The inverse of the regulariser's matrix, (T, T) for each feature.
    c = 1.0 + (4.0 / total).sum(0)
    E = total / (pull[0] * pull[1])
    parts = E * tilt * tilt
    before = np.vstack([c, c + np.cumsum(parts[:-1], axis=0)])
    after = np.vstack([np.cumsum(parts[:0:-1], axis=0)[::-1], np.zeros_like(c)])
    whole = before[-1] + parts[-1]
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

    def spread(V):
        return np.einsum("tuj,uj->tj", inverse, V)

    def solve(off):
        both = off[0] + off[1]
        h = -(2.0 * both / total).sum(0)
        v = 0.5 * (tilt * both - off[0] + off[1]) + tilt * h / c
        seen, move = np.zeros(ends[-1]), spread(v)
        for _ in range(1 + REFINE):  # A move = seen, to the last digits.
            seen += M @ (np.concatenate([a @ move[t] for t, a in enumerate(A)]) - seen)
            back = [seen[ends[t] : ends[t + 1]] @ a for t, a in enumerate(A)]
            move = spread(v - np.array(back))
        ds = (h - (tilt * move).sum(0)) / c
        return move, _parts(move, ds, both, total, tilt)

    return solve


def _parts(move, ds, both, total, tilt):
    """Moves of V+ and V- that belong to those of V and of s."""
    return 0.5 * PART_SIGN * move - (both + 2.0 * ds) / total - 0.5 * tilt * move


def _least_squares(problem):
    """Weights and biases of each member that fit the signs best, with its rows' costs."""
    X, y, cost, *_ = problem
    (n, d), T = X.shape, cost.shape[0]
    W, b = np.empty((T, d)), np.empty(T)
    for t in range(T):
        c = cost[t] / cost[t].max()
        centre, mean = c @ X / c.sum(), c @ y / c.sum()
        A = np.sqrt(c)[:, None] * (X - centre)
        right = np.sqrt(c) * (y - mean)

        # Ridge regression, by whichever side of A is shorter.
        K = A.T @ A if d <= n else A @ A.T
        K.ravel()[:: len(K) + 1] *= 1.0 + RIDGE_PART
        K.ravel()[:: len(K) + 1] += 1.0 / cost[t].max()
        W[t] = _inverse(K) @ (right @ A) if d <= n else (_inverse(K) @ right) @ A
        b[t] = mean - W[t] @ centre
    return W, b


def _with_zeros(problem, W, b, zero, dual, tol):
    """W and b with exact zeros where said, or None if that costs the certificate."""
    V = np.where(zero, 0.0, W)
    lost = np.where(problem.cost > 0, problem.y * ((W - V) @ problem.X.T), 0.0).max()
    for k in (1.0, 1.0 + max(lost, 0.0)):  # A longer V makes up for what the margins lost.
        objective = _objective(problem, k * V, k * b)
        if abs(objective - dual) <= tol * objective:
            return k * V, k * b
    return None


# -- numerical helpers --------------------------------------------------------------------------
HESSIAN_ROWS = 4096  # A Hessian takes this many rows at a time: they stay in the cache.
TINY_SIDE = 16  # Up to this many features a loop of our own beats the call of BLAS for a Hessian.
RIDGE_PART = 1e-10  # Hessians get this part of their diagonal and of the regulariser's on top.
SPLIT = 2.0**27 + 1.0  # This factor cuts a double into two halves whose products are exact.


def _curvature(X, bend, centre):
    """sum_i bend_ti (x_i - c_t)(x_i - c_t)' of each member t (T, d, d), and the means c (T, d).

    It is the Hessian of the loss with the bias eliminated. `centre` only keeps numbers small.
    """
    (n, d), T = X.shape, bend.shape[0]
    H, new = np.zeros((T, d, d)), centre.copy()
    rows = np.empty((min(n, HESSIAN_ROWS), d + 1)) if d > TINY_SIDE else None
    for t in range(T):
        if rows is None:
            _small_curvature(X, bend[t], new[t], H[t])
            continue

        # The products of (x - centre, 1), from which the sums come along.
        full, start = np.zeros((d + 1, d + 1)), 0
        while start < n:
            k, start = _curved_rows(X, centre[t], bend[t], start, rows)
            full += rows[:k].T @ rows[:k]
        if full[d, d] > 0:
            shift = full[d, :d] / full[d, d]
            H[t] = full[:d, :d] - full[:d, d:] * shift
            new[t] += shift
    return H, new


@jit(fastmath=LANES)
def _small_curvature(X, bend, centre, H):
    """What _curvature says, of one member and few columns; overwrites centre and H."""
    d = X.shape[1]
    row, mean = np.empty(d), np.zeros(d)
    weight = 0.0
    for j in range(d):
        for k in range(d):
            H[j, k] = 0.0

    # The sums, around the old centre.
    for i in range(X.shape[0]):
        if bend[i] > 0.0:
            weight += bend[i]
            for j in range(d):
                row[j] = X[i, j] - centre[j]
                mean[j] += bend[i] * row[j]
            for j in range(d):
                weighted = bend[i] * row[j]
                for k in range(j + 1):
                    H[j, k] += weighted * row[k]

    # Moved to the mean.
    if weight > 0.0:
        for j in range(d):
            for k in range(j + 1):
                H[j, k] -= mean[j] * mean[k] / weight
                H[k, j] = H[j, k]
        for j in range(d):
            centre[j] += mean[j] / weight


@jit(nogil=True)
def _curved_rows(X, centre, bend, start, out):
    """Fill out with sqrt(bend) * (x - centre, 1) of the rows from start on where bend > 0.

    Returns the number of rows in out, and the next to read.
    """
    d = X.shape[1]
    k = 0
    i = start
    while i < X.shape[0] and k < out.shape[0]:
        if bend[i] > 0.0:
            root = math.sqrt(bend[i])
            for j in range(d):
                out[k, j] = root * (X[i, j] - centre[j])
            out[k, d] = root
            k += 1
        i += 1
    return k, i


@jit(fastmath=LANES)
def _ridge_step(H, G, W, L, move):
    """move = (H + I)^-1 (G - W) of one member, by Cholesky; overwrites L and move."""
    d = W.shape[1]
    x = move[0]
    # H + I = L L', and L x = G - W along the way.
    for i in range(d):
        for j in range(i + 1):
            s = H[0, i, j] + (1.0 if i == j else 0.0)
            for k in range(j):
                s -= L[i, k] * L[j, k]
            L[i, j] = s / L[j, j] if j < i else np.sqrt(s)
        s = G[0, i] - W[0, i]
        for k in range(i):
            s -= L[i, k] * x[k]
        x[i] = s / L[i, i]

    # L' move = x.
    for i in range(d - 1, -1, -1):
        x[i] /= L[i, i]
        for k in range(i):
            x[k] -= L[i, k] * x[i]


@jit(fastmath=LANES)
def _conjugate_gradients(X, bend, centre, right, steps, work, move):
    """move = (I + sum_i bend_i (x_i - centre)(x_i - centre)')^-1 right, to CG_TOL of its length.

    Overwrites work (3, d) and move; returns whether so many steps were enough.
    """
    d = X.shape[1]
    r, v, Hv = work[0], work[1], work[2]
    square = 0.0
    for j in range(d):
        move[j] = 0.0
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
            if bend[i] > 0.0:
                x = X[i]
                s = 0.0
                for j in range(d):
                    s += x[j] * v[j]
                s = bend[i] * (s - middle)
                for j in range(d):
                    Hv[j] += s * x[j]

        # The step along v, and the next direction.
        curve = 0.0
        for j in range(d):
            curve += v[j] * Hv[j]
        step = square / curve
        last = square
        square = 0.0
        for j in range(d):
            move[j] += step * v[j]
            r[j] -= step * Hv[j]
            square += r[j] * r[j]
        if square <= goal:
            return True
        for j in range(d):
            v[j] = r[j] + square / last * v[j]
    return False


@jit
def _secant(H, move, change, seen):
    """BFGS: correct each member's Hessian so that it maps the last move to the change of slope.

    Overwrites H and seen.
    """
    T, d = move.shape
    for t in range(T):
        bent = modelled = 0.0
        for i in range(d):
            seen[i] = 0.0
            for j in range(d):
                seen[i] += H[t, i, j] * move[t, j]
            bent += change[t, i] * move[t, i]
            modelled += seen[i] * move[t, i]

        if bent > 1e-8 * modelled > 0.0:
            for i in range(d):
                for j in range(d):
                    H[t, i, j] += change[t, i] * change[t, j] / bent
                    H[t, i, j] -= seen[i] * seen[j] / modelled


def _times(H, V):
    """H_t v_t for every member t."""
    return np.matmul(H, V[..., None])[..., 0]


def _inverse(K):
    """Inverses of positive definite matrices, with unit diagonals on the way: fewer digits go."""
    scale = 1.0 / np.sqrt(np.diagonal(K, axis1=-2, axis2=-1))
    scale = scale[..., :, None] * scale[..., None, :]
    return np.linalg.inv(K * scale) * scale


@jit(nogil=True)
def _exact_outputs(X, w, b, out):
    """out = X w + b, each as if computed with twice the digits and then rounded."""
    for i in range(X.shape[0]):
        high = b
        low = 0.0
        for j in range(X.shape[1]):
            x, v = X[i, j], w[j]

            # The product and its rounding error, by halves (Dekker).
            product = x * v
            cut = SPLIT * x
            x1 = cut - (cut - x)
            cut = SPLIT * v
            v1 = cut - (cut - v)
            x2, v2 = x - x1, v - v1
            low += ((x1 * v1 - product) + x1 * v2 + x2 * v1) + x2 * v2

            # The sum and its rounding error (Knuth).
            total = high + product
            back = total - high
            low += (high - (total - back)) + (product - back)
            high = total
        out[i] = high + low


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


# >>> shared: cache 1
def _or_compile(call, args, told=[]):  # noqa: B006 (The warning is given once in a file.)
    """What a function of Numba's cache returns. On a full disk or a damaged file it may fail: then
    kernels are compiled."""
    try:
        return call(*args)
    except Exception as error:  # Damaged files make unpickling and linking raise anything.
        index = call.__self__._cache_file._index_path
        with suppress(OSError):
            os.unlink(index)  # Or it might lead to the data of an earlier version.
        if not told:
            told.append(call)
            warnings.warn(
                f"Numba's cache failed at {index} ({type(error).__name__}: {error}); kernels "
                "are compiled instead. Free space on the disk, or delete that folder",
                stacklevel=2,
            )


# <<< shared: cache


# >>> shared: estimator 5
BOUND = 1e150  # Numbers of X from here on are refused: sums of their squares have to be finite.
PIECE = 2**15  # So many numbers are looked at at a time: NumPy copies what a file is mapped to.
RANDOM = (np.random.RandomState, np.random.Generator)
COMMON = {  # The rules of the parameters that mean the same everywhere.
    "class_weight": "None, 'balanced' or a dict from class to factor",
    "n_jobs": "None, an integer >= 1 or an integer <= -1",
    "random_state": "None, an integer >= 0, a RandomState or a Generator",
    "callback": "None or a function",
}
KINDS = {  # What the words of a rule mean. All others are values, such as None or 'scale'.
    "a number": lambda v: v == v,
    "a finite number": lambda v: abs(v) < np.inf,
    "a share": lambda v: v == v,
    "an integer": lambda v: isinstance(v, (int, np.integer)),
    "a function": callable,
    "a dict from class to factor": lambda v: isinstance(v, dict),
    "a RandomState": lambda v: isinstance(v, np.random.RandomState),
    "a Generator": lambda v: isinstance(v, np.random.Generator),
    "an object with fit and predict": lambda v: callable(v.fit) and callable(v.predict),
}
LIMITS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}


class ConvergenceWarning(UserWarning):
    """The result is not as exact as asked for."""


def all_or_nothing(fit):
    """A fit that starts without the attributes of an earlier one and, where it does not come to
    its end, leaves the object as it was before."""

    @wraps(fit)
    def whole(self, *args, **kwargs):
        before = vars(self)
        self.__dict__ = {name: value for name, value in before.items() if name[-1] != "_"}
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            self.__dict__ = before
            raise

    return whole


def follows(value, rule):
    """Whether a value is what a rule says, such as "None or an integer from 2 to 256"."""
    for is_kind, limits in _alternatives(rule):
        try:
            if is_kind(value) and all(holds(value, end) for holds, end in limits):
                return True
        except (AttributeError, TypeError, ValueError):  # The value is of another kind.
            pass
    return False


@cache
def _alternatives(rule):
    """What a rule allows: for each a test of its kind, and pairs of a comparison and its limit."""
    if rule in KINDS:
        return [(KINDS[rule], ())]
    found = []
    plain = re.sub(r"from (\d+) to (\d+)", r">= \1 and <= \2", rule.removeprefix("one of "))
    for part in re.split(r", | or ", plain):
        kind, *limits = re.split(r" and (?=[<>])| (?=[<>])", part)
        literal = None if kind in KINDS else ast.literal_eval(kind)
        is_kind = KINDS.get(kind, lambda value, literal=literal: value == literal)
        pairs = [limit.split() for limit in limits]
        found.append((is_kind, [(LIMITS[sign], float(end)) for sign, end in pairs]))
    return found


def _labels(y, who):
    """y as an array of labels of one kind, none of them missing."""
    y = np.asarray(y)
    lacks = np.zeros(y.shape, bool)
    if y.dtype.kind == "O":
        lacks = np.reshape([_is_missing(v) for v in y.flat], y.shape).astype(bool)
        texts = np.reshape([isinstance(v, str) for v in y.flat], y.shape).astype(bool)
        if not lacks.any() and texts.any() and not texts.all():
            raise ValueError(
                f"{who}: y mixes texts and numbers, such as {y[texts][0]!r} and {y[~texts][0]!r}; "
                "pass labels of one kind"
            )
        y = y if texts.any() else np.array(y.tolist())
    elif y.dtype.kind in "mM":
        lacks = np.isnat(y)
    elif y.dtype.kind == "f" and y.size and not np.isfinite([y.min(), y.max()]).all():
        lacks = ~np.isfinite(y)
    if lacks.any():
        raise ValueError(
            f"{who}: Input y contains NaN or infinity: row {np.argwhere(lacks)[0, 0]} has no "
            "label; drop such rows first"
        )
    return y


def _is_missing(value):
    """Whether an object stands for a missing value: None, NaN and those of pandas."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # Of pandas.NA nobody knows whether it equals itself.
        return True


class _Estimator:
    """What all estimators share: parameters, checks, labels, predict, score, report."""

    _estimator_type = "classifier"  # Scikit-learn before 1.6 looks here.
    class_weight = None  # Classifiers have it as a parameter.
    _allow_nan = False
    _multi_class = False
    _rules = {}  # The rule of each parameter, a text that `follows` reads.

    def _set(self, params):
        """Keep the constructor's arguments, given as its locals(), unchanged."""
        vars(self).update({name: params[name] for name in self._param_names()})

    @classmethod
    @cache
    def _param_names(cls):
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep=True):
        """Parameters of the constructor by name."""
        return {name: getattr(self, name) for name in self._param_names()}

    def set_params(self, **params):
        """Set parameters of the constructor; returns self."""
        for name, value in params.items():
            if name not in self._param_names():
                self._refuse_param(name)
            setattr(self, name, value)
        return self

    def _refuse_param(self, name):
        names = ", ".join(self._param_names())
        raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {names}")

    def __repr__(self):
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()
            if repr(value) != repr(defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self):
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        kind, tags = self._estimator_type, self._more_tags()
        several = ClassifierTags(multi_class=self._multi_class)
        return Tags(
            estimator_type=kind,
            target_tags=TargetTags(required=True),
            classifier_tags=several if kind == "classifier" else None,
            regressor_tags=RegressorTags() if kind == "regressor" else None,
            input_tags=InputTags(allow_nan=tags["allow_nan"], pairwise=tags["pairwise"]),
        )

    def _more_tags(self):
        """The tags as scikit-learn before 1.6 wants them."""
        return {
            "allow_nan": self._takes_nan(),
            "pairwise": self._is_pairwise(),
            "binary_only": self._estimator_type == "classifier" and not self._multi_class,
            "requires_y": True,
        }

    def _takes_nan(self):
        """Whether missing values in X end well; methods with members ask those."""
        return self._allow_nan

    def _is_pairwise(self):
        """Whether X is a kernel matrix."""
        return getattr(self, "kernel", None) == "precomputed"

    def get_metadata_routing(self):
        """What scikit-learn's routing of metadata asks for."""
        from sklearn.utils.metadata_routing import MetadataRequest

        if not hasattr(self, "_metadata_request"):
            self._metadata_request = MetadataRequest(owner=type(self).__name__)
            for method in ("fit", "score"):
                request = getattr(self._metadata_request, method)
                request.add_request(param="sample_weight", alias=None)
        return self._metadata_request

    def set_fit_request(self, *, sample_weight):
        """Whether scikit-learn's meta-estimators pass sample_weight on to fit; returns self."""
        self.get_metadata_routing().fit.add_request(param="sample_weight", alias=sample_weight)
        return self

    def set_score_request(self, *, sample_weight):
        """Whether scikit-learn's meta-estimators pass sample_weight on to score; returns self."""
        self.get_metadata_routing().score.add_request(param="sample_weight", alias=sample_weight)
        return self

    def __sklearn_is_fitted__(self):
        return hasattr(self, "converged_")

    def _check_params(self):
        """Every parameter against its rule in `_rules` or COMMON."""
        rules = {name: rule for name, rule in COMMON.items() if name in vars(self)} | self._rules
        for name, rule in rules.items():
            value = getattr(self, name)
            if not follows(value, rule):
                raise ValueError(f"{type(self).__name__}: {name} must be {rule}, got {value!r}")

    def _seed(self):
        """A seed from random_state; drawn where that is a generator, or None."""
        state = self.random_state
        if isinstance(state, np.random.Generator):
            return int(state.integers(2**63))
        if isinstance(state, np.random.RandomState):
            return int(state.randint(2**31 - 1))
        return np.random.SeedSequence().entropy if state is None else int(state)

    def _threads(self):
        """Number of threads from n_jobs, not more than there are processors."""
        count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        jobs = 1 if self.n_jobs is None else int(self.n_jobs)
        return min(jobs, count) if jobs > 0 else max(count + 1 + jobs, 1)

    def _check_X(self, X, fitting=False):
        """X as a C-contiguous float64 matrix of finite numbers (NaN where allowed)."""
        who = type(self).__name__
        if not fitting and not self.__sklearn_is_fitted__():
            known = sys.modules.get("sklearn.exceptions")
            error = known.NotFittedError if known else ValueError
            raise error(f"This {who} instance is not fitted yet; call fit first")
        if hasattr(X, "toarray"):
            raise TypeError(
                f"{who}: sparse X is not supported; pass X.toarray() if it fits in memory"
            )
        names = getattr(X, "columns", None)
        if names is not None and not all(isinstance(name, str) for name in names):
            names = None
        X = self._numbers(X)
        if X.ndim != 2:
            raise ValueError(
                f"{who}: X must be a matrix, got {X.ndim} dimension(s). Reshape your data: "
                "X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one row"
            )
        n, d = X.shape
        if n == 0:
            raise ValueError(f"{who}: found array with 0 sample(s) (shape={X.shape})")
        if d == 0:
            raise ValueError(
                f"{who}: found array with 0 feature(s) (shape={X.shape}) "
                "while a minimum of 1 is required."
            )
        self._check_finite(X)
        if fitting:
            self.n_features_in_ = d
            if names is not None:
                self.feature_names_in_ = np.asarray(names, dtype=object)
        else:
            self._check_names(names, d)
        return X

    def _check_finite(self, X):
        """One quick pass over X; the exact look only on suspicion."""
        flat = X.ravel()
        with np.errstate(over="ignore", invalid="ignore"):
            pieces = (flat[start : start + PIECE] for start in range(0, flat.size, PIECE))
            square = sum(piece @ piece for piece in pieces)
        if square < BOUND**2:
            return
        who = type(self).__name__
        bad = np.isinf(X) if self._allow_nan else ~np.isfinite(X)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise ValueError(
                f"{who}: X contains NaN or infinity: {X[row, column]} in row {row}, "
                f"column {column}; fill in or drop such cells first"
            )
        large = abs(X) >= BOUND
        if large.any():
            row, column = np.argwhere(large)[0]
            raise ValueError(
                f"{who}: X is too large: {X[row, column]} in row {row}, column {column}; "
                f"scale X, numbers have to be below {BOUND:g}"
            )

    def _check_names(self, names, d):
        """Names and number of the features, against those of fit."""
        who, seen = type(self).__name__, getattr(self, "feature_names_in_", None)
        if names is not None and seen is not None and list(names) != list(seen):
            raise ValueError(
                "The feature names should match those that were passed during fit.\n"
                + _name_changes(list(names), list(seen))
            )
        if d != self.n_features_in_:
            raise ValueError(
                f"X has {d} features, but {who} is expecting {self.n_features_in_} "
                "features as input"
            )
        if names is not None and seen is None:
            text = f"X has feature names, but {who} was fitted without feature names"
            warnings.warn(text, stacklevel=4)
        if names is None and seen is not None:
            text = f"X does not have valid feature names, but {who} was fitted with feature names"
            warnings.warn(text, stacklevel=4)

    def _numbers(self, X):
        """X as numbers; the gaps of a frame's nullable columns become NaN."""
        who = type(self).__name__
        if hasattr(X, "iloc"):
            for name, kind in zip(X.columns, X.dtypes, strict=True) if X.ndim == 2 else ():
                if getattr(kind, "kind", "O") in "mM":
                    raise ValueError(
                        f"{who}: X must hold numbers; column {name!r} holds dates ({kind}): turn "
                        "them into numbers, such as days since the first"
                    )
            if X.ndim == 2 and not all(isinstance(kind, np.dtype) for kind in X.dtypes):
                with suppress(TypeError, ValueError):
                    X = X.to_numpy(dtype=np.float64, na_value=np.nan)
        X = np.asarray(X)
        if X.dtype.kind == "c":
            raise ValueError(f"{who}: Complex data not supported, got dtype {X.dtype}")
        if X.dtype.kind in "mM":
            raise ValueError(f"{who}: X must hold numbers, got dates ({X.dtype}): turn them first")
        try:
            return np.ascontiguousarray(X, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"{who}: X must hold numbers; encode texts and fill in what is missing first "
                f"({error})"
            ) from None

    def _check_y(self, y, n):
        """y as it was passed, one entry for each of n rows."""
        who = type(self).__name__
        y = _labels(y, who)
        y = y.ravel() if y.ndim == 2 and y.shape[1] == 1 else y
        if y.shape != (n,):
            raise ValueError(f"{who}: y must have shape ({n},) like the rows of X, got {y.shape}")
        return y

    def _check_weight(self, sample_weight, n):
        """Example weights, one for each of n rows; ones if there are none."""
        who = type(self).__name__
        if sample_weight is None:
            return np.ones(n)
        weight = np.ascontiguousarray(sample_weight, dtype=np.float64)
        if weight.shape != (n,):
            raise ValueError(f"{who}: sample_weight must have shape ({n},), got {weight.shape}")
        if not np.isfinite(weight).all() or (weight < 0).any():
            raise ValueError(f"{who}: sample_weight must be finite and >= 0")
        with np.errstate(over="ignore"):
            total = weight.sum()
        if not 0 < total < BOUND:
            raise ValueError(
                f"{who}: the sum of sample_weight must be above zero and below {BOUND:g}, got "
                f"{total:g}"
            )
        return weight

    def _is_weighted(self, sample_weight):
        return sample_weight is not None or self.class_weight is not None

    def _check_rows(self, X, y, sample_weight):
        """X, y as it is and the example weights: one of each for every row."""
        who = type(self).__name__
        if y is None:
            raise ValueError(f"{who} requires y to be passed, but the target y is None: fit(X, y)")
        X = self._check_X(X, fitting=True)
        y = np.asarray(y)
        if y.ndim == 2 and y.shape[1] == 1:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected; "
                "pass y.ravel() to avoid this",
                _data_conversion_warning(),
                stacklevel=5,
            )
        y = self._check_y(y, X.shape[0])
        return X, y, self._check_weight(sample_weight, X.shape[0])

    def _check_fit(self, X, y, sample_weight):
        """X, y and the example weights times those of the classes, all checked; sets classes_.

        y becomes -1.0/+1.0, or class numbers from 0 on where more than two classes are allowed.
        """
        who = type(self).__name__
        X, y, weight = self._check_rows(X, y, sample_weight)
        if y.dtype.kind in "biuf":
            classes = np.array([y.min(), y.max()])
            codes = y == classes[1]
            if classes[0] == classes[1] or not (codes | (y == classes[0])).all():
                classes, codes = np.unique(y, return_inverse=True)
        else:
            classes, codes = np.unique(y, return_inverse=True)
        self._check_classes(classes)
        if sample_weight is not None and not np.bincount(codes, weight).all():
            raise ValueError(f"{who}: sample_weight is zero on all rows of a class")
        self.classes_ = classes
        if self.class_weight is not None:
            weight = weight * self._class_factors(codes, weight)[codes.astype(np.intp)]
            if not np.bincount(codes, weight).all():
                raise ValueError(f"{who}: sample_weight times class_weight underflows; scale them")
        if self._multi_class:
            return X, codes.astype(np.intp), weight
        signs = 2.0 * codes
        signs -= 1.0
        return X, signs, weight

    def _check_classes(self, classes):
        """Refuse labels, which are all different, that are not two classes."""
        who = type(self).__name__
        shown = ", ".join(str(c) for c in classes[:5]) + (", ..." if classes.size > 5 else "")
        if classes.size < 2:
            raise ValueError(f"{who} needs two classes, y has only one class: {shown}")
        if classes.size > 2 and classes.dtype.kind == "f" and (classes != np.round(classes)).any():
            raise ValueError(
                f"{who}: Unknown label type: continuous; y has {classes.size} distinct "
                f"values ({shown}), and a classifier needs classes"
            )
        if classes.size > 2 and not self._multi_class:
            raise ValueError(
                f"{who}: Only binary classification is supported. The type of the target is "
                f"multiclass: y has {classes.size} classes ({shown}); wrap it in OneVsRest"
            )

    def _class_factors(self, codes, weight):
        """Factor of each class; "balanced" gives all classes the same weight. Their sums are exact:
        the same in any order of the rows."""
        classes = () if isinstance(self.class_weight, dict) else range(self.classes_.size)
        return self._factors([math.fsum(weight[codes == k]) for k in classes])

    def _factors(self, totals):
        """The same from the weight of each class."""
        who, given, known = type(self).__name__, self.class_weight, self.classes_.tolist()
        if not isinstance(given, dict):
            totals = np.asarray(totals)
            return totals.sum() / (totals.size * totals)
        for label in given:
            if not any(label == c for c in known):
                raise ValueError(
                    f"{who}: class_weight names {label!r}, y has {', '.join(map(repr, known))}"
                )
        factors = [[f for label, f in given.items() if label == c] or [1.0] for c in known]
        factors = np.array(factors, dtype=np.float64)[:, 0]
        if not ((0 < factors) & (factors < BOUND)).all():
            raise ValueError(f"{who}: class_weight must be finite and > 0, got {given!r}")
        return factors

    def _codes(self, y, n):
        """Class numbers, from 0 on, of the labels of n rows; the model has to know them."""
        y, codes = self._check_y(y, n), np.full(n, -1)
        for k, c in enumerate(self.classes_):
            codes[y == c] = k
        if n and codes.min() < 0:
            raise ValueError(
                f"{type(self).__name__}: y holds {y[codes < 0].tolist()[0]!r}, which is none of "
                f"the classes of fit: {', '.join(str(c) for c in self.classes_)}"
            )
        return codes

    def predict(self, X):
        """Class of each row; a decision of exactly 0 is the positive class."""
        decision = self.decision_function(X)
        if decision.ndim == 2:
            return self.classes_[decision.argmax(axis=1)]
        return self.classes_[(decision >= 0).astype(np.intp)]

    def score(self, X, y, sample_weight=None):
        """Share of rows whose predicted class is y."""
        found = self.predict(X)
        right = found == self._check_y(y, found.size)
        return float(np.average(right, weights=self._check_weight(sample_weight, found.size)))

    def _report(self, iteration, objective, **info):
        """Keep the state of an iteration, print it if verbose and show it to the callback; True
        where that asks to stop."""
        self.n_iter_, self.objective_ = iteration, float(objective)
        self.trace_.append(self.objective_)
        if "residual" in info:
            self.residual_ = info["residual"]
        if not self.verbose and self.callback is None:
            return False
        info = {"objective": self.objective_} | info
        if self.verbose:
            known = [(name, value) for name, value in info.items() if value is not None]
            texts = [f"  {k} {v:.9e}" if type(v) is float else f"  {k} {v}" for k, v in known]
            print(f"{type(self).__name__} {iteration:5d}{''.join(texts)}")
        return self.callback is not None and bool(self.callback(self, iteration, info))


def _data_conversion_warning():
    known = sys.modules.get("sklearn.exceptions")
    return known.DataConversionWarning if known else UserWarning


def _name_changes(names, seen):
    """The lines with which scikit-learn, too, tells which feature names differ."""
    text = ""
    for title, found in (
        ("Feature names unseen at fit time:", sorted(set(names) - set(seen))),
        ("Feature names seen at fit time, yet now missing:", sorted(set(seen) - set(names))),
    ):
        if found:
            text += title + "\n" + "".join(f"- {name}\n" for name in found[:5])
            text += "- ...\n" if len(found) > 5 else ""
    return text or "Feature names must be in the same order as they were in fit.\n"


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


# -- estimator ----------------------------------------------------------------------------------
class ExRM(_Model):
    """Exclusivity regularized machine.

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
        "rbf" maps the rows to kernel values at landmarks first: the exact kernel machine when there
        are no more rows than landmarks, the Nystrom approximation otherwise.
    gamma : "scale" or float > 0
        Width of the rbf kernel exp(-gamma |x - x'|^2); "scale" is 1 / (d * variance of X). Rows of
        weight 0 count neither here nor as landmarks.
    n_landmarks : int >= 1
        Number of landmarks, drawn from the training rows.
    solver : "auto", "alm" or "paper"
        Newton or interior point (certified), the paper's splitting made convergent (certified), or
        Algorithm 2 as printed: it stops on the change of the objective and may be far from the
        optimum, which a warning says.
    rho : float > 1
        Growth of the penalty; solver="paper" only.
    prox : "exact" or "reweighted"
        Row step of the splitting; "reweighted" is Algorithm 1. Not used by solver="auto".
    tol : float > 0
        Target for `residual_`; not used by solver="paper".
    max_iter : int >= 1
        Most iterations, those on samples of the rows included.
    class_weight : None, "balanced" or dict
        Factors of the weights of the rows by class; "balanced" gives the classes the same weight.
    n_jobs : None or int
        Threads for training, no more than the rows are worth; None: 1, -1: as many as there are
        processors. The answer is the same within the certified gap.
    random_state : None, int, RandomState or Generator
        Seed of the bootstrap and of the landmarks.
    verbose : int
        1 prints one line after every iteration.
    callback : None or callable
        Called as callback(self, iteration, info) after every iteration; True stops. info has
        "objective" and "residual", and "rows" where these belong to a sample of so many rows.

    Attributes
    ----------
    coef_ (T, d), intercept_ (T,) : the members
    ensemble_coef_ (d,), ensemble_intercept_ : their mean
    weights_ (T,) : 1 / T each
    objective_, residual_ : value of the problem, and its certified duality gap / objective_; both
        are computed anew from coef_ and intercept_. The divisor is at least 1e-200, since the
        objective is 0 where every sample has one class only
    n_iter_ : iterations, those on samples of the rows included
    converged_, trace_ : residual_ <= tol; objective per iteration on all rows, objective_ last
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = ExRM(n_estimators=5, sampling="bootstrap", random_state=0).fit(X, y)
    >>> model.score(X, y), model.residual_ <= model.tol
    """

    _rules = {
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

    @all_or_nothing
    def fit(self, X, y=None, sample_weight=None):
        """Train on X (n, d) and two classes y; sample_weight multiplies each example's loss. Row
        blocks may stand in place of X and y, for equal samples with solver="auto"."""
        self._check_params()
        self.n_iter_, self.trace_ = 0, []
        # Equal samples: PSVM(lam / T, beta / T), T times. The objective is T^2 times that of one.
        equal = self.sampling is None and self.solver == "auto"
        copies = self.n_estimators if equal else 1
        tell = partial(self._tell, copies * copies)
        if hasattr(X, "fit_model"):  # Row blocks know how, see solvers/rows.
            X, found = X.fit_model(self, y, sample_weight, _Pulse(tell, self.max_iter))
        else:
            X, y, weight = self._check_fit(X, y, sample_weight)
            self._set_features(X, weight)
            X = self._features(X)
            with np.errstate(all="ignore"):  # What overflows has an infinite residual.
                found = self._solve_rows(X, y, weight, copies, tell)
        self._keep(*found, copies)
        if not self.converged_:
            warnings.warn(self._advice(X), ConvergenceWarning, stacklevel=3)
        return self

    def _solve_rows(self, X, y, weight, copies, tell):
        """W, b, objective and residual by the solver asked for, on rows in memory."""
        p, beta, pulse = float(self.p), self.beta / copies, _Pulse(tell, self.max_iter)
        equal = self.sampling is None and self.solver == "auto"
        if equal and self._threads() > 1 and __package__:
            with suppress(ImportError):  # A file that stands alone has one thread.
                on_threads = import_module(".rows.newton", __package__).solve_threads
                found = on_threads(self, X, y, weight, copies, pulse)
                if found and (found[3] <= self.tol or pulse.stopped):
                    return found

        problem = _Problem(X, y, self._cost(weight, copies), p, beta)
        if self.solver == "auto":
            both = np.ones(1, bool) if equal else _have_both(y, problem.cost)
            return _solve(problem, both, self.tol, pulse)
        rho = self.rho if self.solver == "paper" else None
        how = rho, self.prox == "reweighted", tell
        return _solve_splitting(problem, self.tol, self.max_iter, *how)

    def _cost(self, weight, copies):
        """Weight of each example's loss, one row for each member that is solved for."""
        counts = weight[None] if self.sampling is None else self._bootstrap(weight)
        cost = counts * (self.lam / copies)
        members = self.n_estimators // copies
        return cost if len(cost) == members else np.repeat(cost, members, axis=0)

    def _bootstrap(self, weight):
        """Example weights of each member: how often it drew the row, times the row's own weight."""
        rows = np.flatnonzero(weight)
        rng = np.random.default_rng(self._seed())
        draws = (rows[rng.integers(0, rows.size, rows.size)] for _ in range(self.n_estimators))
        return np.array([np.bincount(draw, minlength=weight.size) * weight for draw in draws])

    def _tell(self, scale, iteration, objective, residual, rows=None):
        """Report an iteration; the trace leaves out those on samples of the rows."""
        objective, residual = scale * objective, float(residual)
        if rows is None:
            return self._report(iteration, objective, residual=residual)
        stop = self._report(iteration, objective, residual=residual, rows=rows)
        self.trace_.pop()
        return stop

    def _keep(self, W, b, objective, residual, copies):
        """Set the attributes of a fit."""
        if not (np.isfinite(W).all() and np.isfinite(b).all()):
            raise ValueError(
                f"{type(self).__name__}: the numbers overflow after {self.n_iter_} iterations with "
                f"solver={self.solver!r}, rho={self.rho:g}; scale X, or choose solver='auto'"
            )
        self.coef_, self.intercept_ = np.repeat(W, copies, axis=0), np.repeat(b, copies)
        self.weights_ = np.full(self.n_estimators, 1.0 / self.n_estimators)
        self.ensemble_coef_ = self.weights_ @ self.coef_
        self.ensemble_intercept_ = float(self.weights_ @ self.intercept_)
        self.objective_ = copies * copies * objective
        self.residual_ = residual
        self.trace_ = np.array([*self.trace_[:-1], self.objective_])
        self.converged_ = bool(residual <= self.tol)

    def _advice(self, X):
        """What a warning says: how far the fit got, and what helps."""
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
        """Sets gamma_, landmarks_ and map_ of the rbf kernel; nothing for the linear one."""
        if self.kernel == "linear":
            return
        X, weight = X[weight > 0], weight[weight > 0]
        rows = np.arange(X.shape[0])
        if rows.size > self.n_landmarks:
            rng = np.random.default_rng(self._seed())
            rows = np.sort(rng.choice(rows.size, self.n_landmarks, replace=False))
        is_named = isinstance(self.gamma, str)
        self.gamma_ = float(scale_gamma(X, weight) if is_named else self.gamma)

        # Rows whose products are the kernel's values, without directions that are only rounding.
        values, vectors = np.linalg.eigh(rbf(X[rows], X[rows], self.gamma_))
        keep = values > values[-1] * 1e-12
        self.landmarks_ = X[rows]
        self.map_ = vectors[:, keep] / np.sqrt(values[keep])

    def _features(self, X):
        """The rows as the linear machine sees them."""
        if self.kernel == "linear":
            return X
        return rbf(X, self.landmarks_, self.gamma_) @ self.map_

    def _is_intact(self):
        T, d = self.weights_.size, self.n_features_in_
        good = super()._is_intact() and self._holds("weights_", (T,)) and T >= 1
        if self.kernel == "rbf":
            good = good and self._holds("landmarks_", (None, d)) and 0 < self.gamma_ < math.inf
            # The map may have its columns together in memory: no kernel reads it.
            rows, d = self.map_.shape
            good = good and self.map_.dtype == "f8" and bool(np.isfinite(self.map_).all())
            good = good and rows == len(self.landmarks_)
        good = good and self._holds("coef_", (T, d)) and self._holds("intercept_", (T,))
        good = good and self._holds("ensemble_coef_", (d,))
        return good and math.isfinite(self.ensemble_intercept_)


class PSVM(ExRM):
    """Primal support vector machine: ExRM with one member; parameters and attributes as there.

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
        spread = np.ptp(model.coef_, axis=0).max()
        print(f"{model!r}: {model.n_iter_} iterations, objective {model.objective_:.6f}, "
              f"gap {model.residual_:.1e}, accuracy {model.score(blobs, labels):.3f}, "
              f"members differ by {spread:.3f}")  # fmt: skip
        assert model.residual_ <= model.tol

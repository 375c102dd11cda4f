"""CqBoost and its family: weighted votes learned by column generation over a pool of voters.

Problem   Voters h_j(x) in [-1, 1] get weights q_j. With A_ij = y_i h_j(x_i) the margins of the vote
          are g = A q; with row weights v that sum to 1 their moments are mu_1 = v.g, mu_2 = v.g^2.

              CqBoost    min mu_2    subject to    mu_1 >= mu, q >= 0, sum q = 1

          That is the least C-bound 1 - mu_1^2 / mu_2 on the risk of a vote with this mu_1. MDBoost
          weighs the mean of the margin against its variance; MinCq is CqBoost with every weight in
          a narrow box; LPBoost and CGBoost weigh the hinge loss against sum q and |q|^2 / 2. The
          problem, the dual and the pricing rule of each stand together above its class.
Method    CqBoost, MDBoost: solve the problem for the voters chosen so far (the master), get example
          weights a from it, add the voter with the largest edge A_j'a, repeat. A row of A'A for
          all voters costs one histogram of the binned data, O(n d); with it voters are priced
          without a pass over the examples. Masters: an active-set method, or OSQP before it.
          MinCq: the primal-dual active set on all voters at once, cubic in their number.
          LPBoost, CGBoost: an interior-point method on all voters at once; for LPBoost HiGHS then
          finds a vertex among the voters that have weight.
          In each the edges of ALL voters bound the optimum from below, and the fit stops on that
          certified gap. A sample weight of 2 is the row twice.
          CqBoost, MDBoost and MinCq over stumps need only sums over rows, by threads or row blocks.
          No bit of the vote depends on the blocks if the weights are whole numbers.
Reference Roy, Marchand, Laviolette, "A Column Generation Bound Minimization Approach with
          PAC-Bayesian Generalization Guarantees", AISTATS 2016; Algorithm 1, Theorem 2, section 6.
          Mehrotra, "On the Implementation of a Primal-Dual Interior Point Method", SIAM J. Optim.
          1992. Hintermueller, Ito, Kunisch, "The Primal-Dual Active Set Strategy as a Semismooth
          Newton Method", SIAM J. Optim. 2002.
Departs   Constraints are mu_1 >= mu and A q >= 1 - xi: with the signs as printed the best vote
          is no vote. eps bounds gap / max(1, |objective|); for CqBoost that is the paper's rule.
          Of many optima MinCq takes the one of the least norm (a ridge of 1e-8). The bound of
          Theorem 2 inverts kl, is at most twice the Gibbs risk, and NaN if voters depend on rows.
Symbols   paper      here        meaning                            shape
          H          pool        outputs of the voters, never stored for stumps
          q          q           weights of the chosen voters       (k,)
          alpha      a           example weights                    (n,)
          beta       b           multiplier of mu_1 >= mu
          nu         nu          edge of the voters that have weight
          H'H / m    gram        products of the chosen with all base voters   (k, base)
                     base        the voters without their complements
Use       m = CqBoost(mu=0.1).fit(X, y); m.predict(X); m.pac_bayes_bound()
Origin    ensolve, solvers/cqboost.py, MIT licence
"""

import ast
import decimal
import inspect
import math
import operator
import os
import re
import signal
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial, wraps
from importlib import import_module
from typing import NamedTuple

import numpy as np
from numba import njit

EPS = 2.0**-52  # No certified gap is below this fraction of the objective.
EQUAL_EDGES = 1e-12  # Edges are equal if they differ by less, relative to the largest.


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


# -- edges and pricing ----------------------------------------------------------------------------
@jit(nogil=True)
def _stump_products(bins, cuts, a, y, signed, j, above, products):
    """products[f * cuts + k] = sum_i u_i h(x_i), h = +1 above cut k of feature f, else -1.

    u is a, or a y if signed, which gives the edges of the stumps. The sum runs over the rows above
    (or below) the cut of stump j; over all rows if j < 0. O(d) per row with u_i != 0: one histogram
    per feature.
    """
    d = bins.shape[1]
    own, cut = j // cuts, j % cuts
    sums = np.zeros((d, cuts + 1))
    total = 0.0
    for i in range(a.size):
        if a[i] != 0.0 and (j < 0 or (bins[i, own] > cut) == above):
            u = a[i] * y[i] if signed else a[i]
            total += u
            for f in range(d):
                sums[f, bins[i, f]] += u
    for f in range(d):
        below = 0.0
        for k in range(cuts):
            below += sums[f, k]
            products[f * cuts + k] = total - 2.0 * below


@jit
def _entering_voter(edges, chosen):
    """Voter with the largest edge that is not chosen, -1 if there is none. Edges are compared up to
    rounding; of equal ones the first wins."""
    largest, scale = -np.inf, 0.0
    for j in range(edges.size):
        scale = max(scale, abs(edges[j]))
        if not chosen[j]:
            largest = max(largest, edges[j])
    for j in range(edges.size):
        if not chosen[j] and edges[j] >= largest - EQUAL_EDGES * scale:
            return j
    return -1


@jit
def _price(q, gram, base, signs, e, first, floor, D, edges):
    """Moments and multipliers of the vote q (k,); overwrites the edges of all voters.

    The example weights are v * (b - t g), hence the edges b * first - t * (gram of the vote).
    D = 0: CqBoost. Returns mu_1, mu_2, b, t and nu, the edge of the voters that have weight.
    """
    k, B = q.size, first.size
    vote = np.zeros(B)
    for j in range(k):
        if q[j] > 0.0:
            for i in range(B):
                vote[i] += q[j] * gram[j, i]

    # The moments, and the edge of each chosen voter as a line slope * b + offset, less nu.
    mean = second = 0.0
    offset, slope = np.empty(k), np.empty(k)
    for j in range(k):
        offset[j] = -2.0 * signs[j] * vote[base[j]]
        slope[j] = e[j] - floor
        mean += q[j] * e[j]
        second -= 0.5 * q[j] * offset[j]

    # The multipliers: CqBoost's b maximises the dual value, MDBoost's is given by q.
    if D == 0.0:
        b, t = _argmin_max_of_lines(slope, offset), 2.0
        nu = b * floor - 2.0 * second
    else:
        b, t = 1.0 + D * mean, D
        nu = mean - D * (second - mean * mean)
    for i in range(B):
        edges[i] = b * first[i] - t * vote[i]
        if edges.size > B:
            edges[B + i] = -edges[i]
    return mean, second, b, t, nu


@jit(inner=True)
def _argmin_max_of_lines(slope, offset):
    """argmin over b >= 0 of max_j (slope_j b + offset_j); requires a slope >= 0."""
    left = right = 0
    for j in range(slope.size):
        left = j if offset[j] > offset[left] else left
        right = j if slope[j] > slope[right] else right
    b = 0.0
    if slope[left] < 0.0:
        # The falling line `left` and the rising line `right` meet at b, unless another is above.
        for _ in range(slope.size):
            b = (offset[left] - offset[right]) / (slope[right] - slope[left])
            top = left
            for j in range(slope.size):
                top = j if slope[j] * b + offset[j] > slope[top] * b + offset[top] else top
            if top == left or top == right:
                break
            if slope[top] < 0.0:
                left = top
            else:
                right = top
    return b


# -- the column generation loop -------------------------------------------------------------------
FIRST_SIZE = 64  # Chosen voters for which there is room at first; arrays double when they are full.


class _Terms(NamedTuple):
    """Objective and constraint by which CqBoost and MDBoost differ."""

    floor: float  # Lower bound of the first moment; -inf if there is none.
    D: float  # Weight of the variance; 0 if the objective is the second moment.
    scale: float  # The objective over the one with row weights that sum to 1.


def _column_generation(pool, edges, terms, masters, max_columns, on_iteration):
    """Algorithm 1 for CqBoost and MDBoost: the chosen voters, their weights q, and a function from
    their margins to the example weights a.

    edges are those of all voters at equal example weights, overwritten. The fit stops if
    on_iteration(objective, gap, chosen, q) returns True after a master problem.
    """
    limit = edges.size if max_columns is None else min(max_columns, edges.size)
    masters = list(masters)
    master = masters.pop(0)()
    is_chosen = np.zeros(edges.size, np.bool_)
    restricted = _RestrictedMaster(pool, edges[: pool.size].copy(), terms, limit)
    j = _entering_voter(edges, is_chosen)
    for k in range(limit):
        # Step 1: the voter with the largest edge enters.
        is_chosen[j] = True
        restricted.add(j)
        while True:
            # Step 2: the restricted master problem gives the weights of the chosen voters.
            restricted.solve(master)

            # Step 3: its multipliers price all voters.
            mean, second, b, t, nu = restricted.price(edges)

            # Step 4: the largest edge is the certificate. Example weights have the rounding of b.
            objective = second if terms.D == 0 else 0.5 * terms.D * (second - mean**2) - mean
            gap = edges.max() - nu + EPS * abs(b)
            chosen, q = restricted.chosen, restricted.q
            done = on_iteration(terms.scale * objective, terms.scale * gap, chosen, q)

            # Step 5: if no voter is left to enter, the next master improves the accuracy.
            j = -1 if k + 1 == limit else _entering_voter(edges, is_chosen)
            last = j < 0 or edges[j] <= nu
            if done or not last or k + 1 == max_columns or not masters:
                break
            master = masters.pop(0)()
        if done or last:
            break
    return chosen, q, lambda g: terms.scale * pool.weight / pool.total * (b - t * g)


class _RestrictedMaster:
    """Master problem over the chosen voters:

        min q'P q / 2 + c'q    subject to    q >= 0, sum q = 1, e'q >= floor

    Rows of X enter only through sums over them: `first` (base,), the mean margins of the base
    voters, and `gram` (k, base), the products of the chosen voters with the base voters.
    """

    def __init__(self, pool, first, terms, limit):
        self.pool, self.first, self.terms = pool, first, terms
        self.balance = pool.balance()
        self.count = 0
        self.voters, self.base = np.empty((2, limit), np.intp)
        self.signs = np.empty(limit)
        self.weights = np.zeros(limit)
        self.weights[0] = 1.0
        size = min(FIRST_SIZE, limit)
        self.gram = np.empty((size, pool.size))
        constraints = np.ones((2, limit))
        self.margins = constraints[1]
        self.program = _Program(
            P=np.zeros((size, size)), c=np.zeros(limit), constraints=constraints,
            rhs=np.array([1.0, terms.floor]), at_least=True, low=np.zeros(limit),
            high=np.full(limit, np.inf),
        )  # fmt: skip

    def add(self, j):
        """Choose voter j: append a row to gram, a row and a column to P."""
        k = self.count
        if k == len(self.gram):
            size = min(2 * k, self.voters.size)
            self.gram = _grown(self.gram, (size, self.pool.size))
            self.program = self.program._replace(P=_grown(self.program.P, (size, size)))
        base = j % self.pool.size
        sign = 1.0 if j < self.pool.size else -1.0
        products = self.gram[k]
        self.pool.gram(base, self.balance, products)
        products *= sign / self.pool.total
        self.voters[k], self.base[k], self.signs[k] = j, base, sign
        self.margins[k] = sign * self.first[base]
        self.count = k + 1

        # Views of the chosen voters.
        now = slice(k + 1)
        self.chosen, self.q, self.e = self.voters[now], self.weights[now], self.margins[now]
        row = self.signs[now] * products[self.base[now]]
        if self.terms.D > 0:
            # Covariances of the margins. As sum q = 1, the + 1 keeps perfect voters off 0.
            row += 1.0 - self.e[k] * self.e
            self.program.c[k] = -self.e[k] / self.terms.D
        P = self.program.P
        P[k, now] = row
        P[now, k] = row

    def solve(self, master):
        """Set the weights of the chosen voters, feasible up to rounding."""
        q = self.weights
        master.solve(self.program, self.count, q)
        q /= q.sum()
        mean = self.margins @ q
        if 0.0 < self.terms.floor - mean < self.e[0] - mean:
            # The first voter has the largest edge: mix it in.
            fraction = (self.terms.floor - mean) / (self.e[0] - mean)
            q *= 1.0 - fraction
            q[0] += fraction

    def price(self, edges):
        """Call `_price` for the weights; overwrites the edges of all voters."""
        floor, D, _ = self.terms
        return _price(self.q, self.gram, self.base, self.signs, self.e, self.first, floor, D, edges)


class _Program(NamedTuple):
    """min x'P x / 2 + c'x, low <= x <= high, constraints x = rhs; the last one >= if at_least."""

    P: np.ndarray
    c: np.ndarray
    constraints: np.ndarray
    rhs: np.ndarray
    at_least: bool
    low: np.ndarray
    high: np.ndarray

    def leading(self, k):
        """Program over the first k variables; the others are 0."""
        return self._replace(
            P=self.P[:k, :k], c=self.c[:k], constraints=self.constraints[:, :k], low=self.low[:k],
            high=self.high[:k],
        )  # fmt: skip


# -- master: the active set -----------------------------------------------------------------------
AT_BOUND, FREE, BARRED = 0, 1, 2  # States of a variable; barred: freed, and no step followed.
NO_MOVE = 1e-12  # Steps that move all variables by less count as none.
SIGN_TOL = 1e-13  # Relative size of a multiplier of the wrong sign that is rounding.
DEPENDENT = 1e-13  # Relative determinant at which two constraints on the free variables are one.
MASTER_RIDGE = 1e-12  # Fraction of the largest entry of P that is added to its diagonal.
LEAST_ENTRY = 1e-6  # Lower bound of that entry, so that the ridge is not 0.
PIVOTS = 50  # Maximum number of changes of the active set per variable.
WORK = 100_000_000  # Operations of the active set between two checks of interrupts and callback.
LANES = {"reassoc", "contract", "nsz", "arcp"}  # Sums run in vector lanes; NaN is kept.


@jit
def _active_set(program, N, x, free, L, count, tight, ridge, pivots):
    """Solve a _Program in its first N variables by an active-set method.

    Starts from a feasible x (N,), its free variables free[:count] and their Cholesky factor L, all
    overwritten. tight: the inequality is active; True if there is none. Returns count, tight and
    True at the minimum, False after the last pivot. O(count^2 + N count) per pivot.
    """
    P, constraints = program.P, program.constraints
    R = constraints.shape[0]
    floor = program.rhs[R - 1] if program.at_least else -np.inf

    # The gradient at x, the last of constraints x, and the largest diagonal entry of P.
    grad = program.c[:N].copy()
    value = scale = 0.0
    for j in range(N):
        scale = max(scale, abs(P[j, j]))
        if R > 0:
            value += constraints[R - 1, j] * x[j]
        if x[j] != 0.0:
            for i in range(N):
                grad[i] += P[j, i] * x[j]
    state = np.empty(N, np.int64)
    state[:] = AT_BOUND
    for i in range(count):
        state[free[i]] = FREE
    Z = np.empty((R + 1, N))
    multipliers = np.zeros((2, R + 1))
    entered = -1
    for _ in range(pivots):
        # Step 1: the step to the minimum on this face, and the feasible fraction of it.
        W = R if tight else R - 1
        _face_minimum(constraints, grad, free, L, count, W, Z, multipliers)
        step, place, slope = _feasible_step(program, x, free, count, Z[R])
        if not tight and slope < 0.0 and value + step * slope < floor:
            step, place = max((floor - value) / slope, 0.0), count

        # Step 2: take it. If a variable moves, barred ones may be freed once more.
        value += step * slope
        longest = 0.0
        for i in range(count):
            j = free[i]
            move = -step * Z[R, i]
            x[j] += move
            longest = max(longest, abs(move))
            if move != 0.0:
                for k in range(N):
                    grad[k] += P[j, k] * move
        if longest > NO_MOVE:
            for j in range(N):
                state[j] = AT_BOUND if state[j] == BARRED else state[j]

        # Step 3: the constraint that stopped the step becomes active.
        if place == count:
            tight = True
        elif place >= 0:
            j = free[place]
            x[j] = program.low[j] if Z[R, place] > 0.0 else program.high[j]
            state[j] = BARRED if j == entered and longest <= NO_MOVE else AT_BOUND
            _cholesky_delete(L, free, count, place)
            count -= 1
        else:
            # Step 4: at the minimum of the face, release the constraint with the worst multiplier.
            lam = multipliers[0]
            worst, entered = _worst_bound(program, x, grad, state, lam, W, SIGN_TOL * scale)
            if tight and floor > -np.inf and -lam[R - 1] > worst:
                tight = False
                entered = -1
            elif entered < 0:
                return count, tight, True
            else:
                _cholesky_append(P, L, free, count, entered, ridge)
                state[entered] = FREE
                count += 1
    return count, tight, False


@jit(inline="always")
def _face_minimum(constraints, grad, free, L, count, W, Z, multipliers):
    """Set Z[-1] to minus the step of the free variables to the minimum at which the first W
    constraints keep their values, and multipliers[0] to their multipliers. Overwrites the rest of
    both."""
    R = constraints.shape[0]
    for r in range(R + 1):
        if r < W or r == R:
            for i in range(count):
                Z[r, i] = constraints[r, free[i]] if r < R else grad[free[i]]
            _forward(L, Z[r], count)
    lam, drift = multipliers[0], multipliers[1]
    _constraint_multipliers(Z, R, W, count, lam)
    for r in range(W):
        for i in range(count):
            Z[R, i] -= lam[r] * Z[r, i]
    _backward(L, Z[R], count)

    # If P is singular that step is long: project it onto the constraints once more.
    for r in range(W):
        for i in range(count):
            Z[r, i] = constraints[r, free[i]]
    _constraint_multipliers(Z, R, W, count, drift)
    for r in range(W):
        for i in range(count):
            Z[R, i] -= drift[r] * Z[r, i]


@jit(inline="always")
def _feasible_step(program, x, free, count, descent):
    """Largest step length <= 1 of x[free] -= step * descent within the bounds, the index in free of
    the variable that limits it (-1: none), and the change of the last constraint by a step of 1."""
    low, high, constraints = program.low, program.high, program.constraints
    R = constraints.shape[0]
    step, place, slope = 1.0, -1, 0.0
    for i in range(count):
        j = free[i]
        move = -descent[i]
        if R > 0:
            slope += constraints[R - 1, j] * move
        room = (low[j] if move < 0.0 else high[j]) - x[j]
        if abs(move) * step > abs(room):
            step, place = room / move, i
    return step, place, slope


@jit(inline="always")
def _worst_bound(program, x, grad, state, lam, W, least):
    """Largest multiplier of the wrong sign of a bound and its variable, or least and -1."""
    constraints = program.constraints
    worst, entered = least, -1
    for j in range(state.size):
        if state[j] == AT_BOUND:
            reduced = grad[j]
            for r in range(W):
                reduced -= lam[r] * constraints[r, j]
            if x[j] > program.low[j]:
                reduced = -reduced
            if -reduced > worst:
                worst, entered = -reduced, j
    return worst, entered


@jit(inner=True)
def _constraint_multipliers(Z, R, W, count, lam):
    """Set lam[:W] to argmin |Z[R] - lam Z[:W]| over count entries, the rest to 0; W <= 2."""
    lam[:] = 0.0
    if W == 0:
        return
    a = b = c = d = e = 0.0  # the entries of the normal equations
    for i in range(count):
        a += Z[0, i] * Z[0, i]
        d += Z[0, i] * Z[R, i]
        if W == 2:
            b += Z[0, i] * Z[1, i]
            c += Z[1, i] * Z[1, i]
            e += Z[1, i] * Z[R, i]
    determinant = a * c - b * b
    if W == 2 and determinant > DEPENDENT * a * c:
        lam[1] = (a * e - b * d) / determinant
    if a > 0.0:
        lam[0] = (d - b * lam[1]) / a if W == 2 else d / a


@jit(fastmath=LANES)
def _cholesky_append(P, L, free, count, j, ridge):
    """Append variable j to free and its row to L, where L L' = P[free, free] + ridge I."""
    for i in range(count):
        L[count, i] = P[j, free[i]]
    _forward(L, L[count], count)
    pivot = P[j, j] + ridge
    for i in range(count):
        pivot -= L[count, i] ** 2
    L[count, count] = math.sqrt(max(pivot, ridge))
    free[count] = j


@jit(inner=True)
def _cholesky_delete(L, free, count, place):
    """Delete free[place] and its row of L; Givens rotations make L triangular again."""
    for i in range(place, count - 1):
        free[i] = free[i + 1]
        for j in range(i + 2):
            L[i, j] = L[i + 1, j]
    for i in range(place, count - 1):
        a, b = L[i, i], L[i, i + 1]
        r = math.hypot(a, b)
        c, s = a / r, b / r
        L[i, i] = r
        for k in range(i + 1, count - 1):
            left, right = L[k, i], L[k, i + 1]
            L[k, i] = c * left + s * right
            L[k, i + 1] = c * right - s * left


@jit(inner=True, fastmath=LANES)
def _forward(L, z, count):
    """z = L^-1 z for the leading lower triangle of L."""
    for i in range(count):
        s = z[i]
        for j in range(i):
            s -= L[i, j] * z[j]
        z[i] = s / L[i, i]


@jit(inner=True)
def _backward(L, z, count):
    """z = L'^-1 z for the leading lower triangle of L."""
    for i in range(count - 1, -1, -1):
        z[i] /= L[i, i]
        for j in range(i):
            z[j] -= L[i, j] * z[i]


class _ActiveSet:
    """Quadratic masters by `_active_set`, warm-started at the last active set."""

    def __init__(self):
        self.free = np.empty(0, np.intp)
        self.L = np.empty((0, 0))
        self.count, self.tight = 0, False

    def solve(self, program, k, x, on_iteration=None):
        """Solve the program in its first k variables. Starts from a feasible x, overwritten.

        Runs at most WORK operations at a time, so that Ctrl-C is handled in between. Returns True
        if on_iteration() asks to stop.
        """
        P = program.P
        if len(P) > self.free.size:
            self.free = np.resize(self.free, len(P))
            self.L = _grown(self.L, P.shape)
        ridge = MASTER_RIDGE * max(np.abs(P.diagonal()[:k]).max(initial=0.0), LEAST_ENTRY)
        if not self.count:
            is_free = (program.low[:k] < x[:k]) & (x[:k] < program.high[:k])
            self._factorise(np.flatnonzero(is_free), P, ridge)
        left, done = PIVOTS * (k + 1), False
        tight = self.tight or not program.at_least
        while left > 0 and not done:
            pivots = min(left, 1 + WORK // (k * (self.count + 1)))
            self.count, tight, done = _active_set(
                program, k, x, self.free, self.L, self.count, tight, ridge, pivots
            )
            left -= pivots
            if not done and on_iteration is not None and on_iteration():
                return True
        self.tight = tight and program.at_least
        return False

    def _factorise(self, free, P, ridge):
        """Factorise P[free, free] + ridge I; row by row if it is too singular."""
        self.count = free.size
        self.free[: free.size] = free
        block = P[np.ix_(free, free)]
        block.flat[:: free.size + 1] += ridge
        try:
            self.L[: free.size, : free.size] = np.linalg.cholesky(block)
        except np.linalg.LinAlgError:
            for count, j in enumerate(free):
                _cholesky_append(P, self.L, self.free, count, j, ridge)


# -- master: OSQP ---------------------------------------------------------------------------------
OSQP_EPS = ((1e-6, 4000), (1e-9, 20_000))  # Accuracy and steps; the second if polishing fails.
OSQP_NEAR = 1e-6  # Distance to a bound, relative to the largest variable, at which it is kept.
CONSTRAINT_TOL = 1e-14  # Residual of the constraints that is rounding.
POLL_SECONDS = 0.5  # Seconds of OSQP between two checks for Ctrl-C.


class _Osqp:
    """Quadratic masters by OSQP, polished, then finished by the active set."""

    def __init__(self):
        try:
            import osqp
            from scipy import sparse
        except ImportError:
            text = "master='osqp' needs OSQP: pip install osqp, or take master='active-set'"
            raise ImportError(text) from None
        self.osqp, self.sparse = osqp, sparse
        self.y = np.empty(0)  # Multipliers of the last problem: a warm start.

    def solve(self, program, k, x, on_iteration=None):
        """Solve the program in its first k variables; see _ActiveSet.solve."""
        solution = self.search(program, k, x)
        if solution is not None:
            x[:k] = _repair_feasibility(x[:k], solution, program.leading(k))
        return _ActiveSet().solve(program, k, x, on_iteration)

    def search(self, program, k, x):
        """OSQP's own solution (k,) of the scaled program, or None if it fails."""
        P, c, constraints, rhs, at_least, low, high = program.leading(k)
        csc = self.sparse.csc_matrix
        size = np.abs(constraints).max(axis=1, initial=0.0)
        size[size == 0] = 1.0
        constraints, rhs = constraints / size[:, None], rhs / size
        height = max(np.abs(P).max(initial=0.0), np.abs(c).max(initial=0.0)) or 1.0
        matrix = csc(np.vstack([constraints, np.eye(k)]))
        top = [*rhs[:-1], np.inf] if at_least else rhs
        low, high = np.concatenate([rhs, low]), np.concatenate([top, high])
        return self._run(csc(np.triu(P) / height), c / height, matrix, low, high, x[:k])

    def hinge(self, A, cost, signed, a):
        """Multipliers a (n,) of min |q|^2 / 2 + cost'xi, A q >= 1 - xi, xi >= 0, and q >= 0 unless
        signed; the given a if OSQP fails."""
        (n, k), sparse = A.shape, self.sparse
        P = sparse.diags(np.repeat([1.0, 0.0], [k, n]), format="csc")
        top = sparse.hstack([sparse.csc_matrix(A), sparse.eye(n)])
        matrix = sparse.vstack([top, sparse.eye(k + n)], "csc")
        low = np.concatenate([np.ones(n), np.full(k, -np.inf if signed else 0.0), np.zeros(n)])
        c = np.concatenate([np.zeros(k), cost])
        start = np.repeat([0.0, 1.0], [k, n])
        self.y = np.empty(0)
        solution = self._run(P, c, matrix, low, np.full(low.size, np.inf), start)
        return a if solution is None else np.clip(-self.y[:n], 0.0, cost)

    def _run(self, P, c, matrix, low, high, x):
        """OSQP's x (None if it fails), polished if that succeeds; sets the multipliers self.y."""
        solver, status = self.osqp.OSQP(), self.osqp.SolverStatus
        y = np.zeros(low.size)
        y[: self.y.size] = self.y
        solver.setup(P, c, matrix, low, high, verbose=False, polishing=True)
        solver.warm_start(x=x, y=y)
        for accuracy, steps in OSQP_EPS:
            solver.update_settings(eps_abs=accuracy, eps_rel=accuracy, max_iter=steps)
            solution = self._run_in_slices(solver, steps)
            if solution.info.status_val == status.OSQP_SIGINT:
                raise KeyboardInterrupt
            if solution.info.status_polish == 1:
                break

        # With all other statuses x is useless.
        names = "SOLVED", "SOLVED_INACCURATE", "MAX_ITER_REACHED", "TIME_LIMIT_REACHED"
        usable = [getattr(status, f"OSQP_{name}") for name in names]
        is_valid = solution.info.status_val in usable and np.isfinite(solution.x).all()
        self.y = solution.y if is_valid else np.empty(0)
        return solution.x if is_valid else None

    def _run_in_slices(self, solver, steps):
        """Run OSQP to its end or its last step, in slices; longer ones if it comes to no step."""
        done, seconds = 0, POLL_SECONDS
        while True:
            solver.update_settings(time_limit=seconds)
            solution = self._run_slice(solver)
            done += solution.info.iter
            is_late = solution.info.status_val == self.osqp.SolverStatus.OSQP_TIME_LIMIT_REACHED
            if not is_late or done >= steps:
                return solution
            if not solution.info.iter:
                seconds *= 2

    @staticmethod
    def _run_slice(solver):
        """Run OSQP for a limited time with SIGINT blocked (POSIX only): it may swallow Ctrl-C."""
        if not hasattr(signal, "pthread_sigmask"):
            return solver.solve(raise_error=False)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return solver.solve(raise_error=False)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _repair_feasibility(x, solution, program):
    """Feasible point near OSQP's solution (k,), or the feasible x (k,) if there is none.

    Variables far from their bounds absorb the residual of the constraints.
    """
    _, _, constraints, rhs, at_least, low, high = program
    near = OSQP_NEAR * max(np.abs(solution).max(), np.abs(x).max())
    point = np.clip(solution, low, high)
    point = np.where(point - low <= near, low, np.where(high - point <= near, high, point))
    if at_least and rhs[-1] - (constraints @ point)[-1] <= 0.0:
        constraints, rhs = constraints[:-1], rhs[:-1]
    inner = (point > low) & (point < high)
    if inner.any():
        for _ in range(2):  # The second solve removes the rounding of the first.
            residual = rhs - constraints @ point
            point[inner] += np.linalg.lstsq(constraints[:, inner], residual, rcond=None)[0]
    is_met = np.abs(rhs - constraints @ point).max(initial=0.0) <= CONSTRAINT_TOL
    return point if is_met and (low <= point).all() and (point <= high).all() else x


MASTERS = {"auto": (_ActiveSet, _Osqp), "osqp": (_Osqp,), "active-set": (_ActiveSet,)}


# -- masters of the hinge loss: the interior point, HiGHS -----------------------------------------
STEPS = 200  # Maximum number of interior-point steps.
STEP_TO_BOUNDARY = 0.995  # Fraction of the step to the boundary that is taken.
STALLED_STEPS = 10  # Interior-point steps without a smaller gap before giving up.
HIGHS_TOL = 1e-9  # Feasibility tolerance of HiGHS.


class _InteriorPoint:
    """min R(q) + cost'xi, A q >= 1 - xi, q, xi >= 0 by Mehrotra's predictor and corrector, where
    R(q) is |q|^2 / 2 if square is 1 and sum q if it is 0.

    With pairs the columns of -A are voters, too: their weights are the second half of q, or its
    negative part if square, as then at most one of a pair has weight. Further unknowns are the
    slacks s and multipliers a of the constraints, and the multipliers r of xi and u of q.
    O(n k^2) per step; O(n k min(n, k)) if square.
    """

    def __init__(self, A, cost, square, pairs):
        n, k = A.shape
        self.A, self.cost, self.square = A, cost, square
        self.signed = pairs and square  # q of any sign, without a multiplier
        self.pairs = pairs and not square
        self.narrow = k <= n or not square  # the normal equations are k x k, else n x n
        size = 2 * k if self.pairs else k
        self.q = np.zeros(k) if self.signed else np.full(size, 0.01)
        self.u = np.zeros(k) if self.signed else np.ones(size)
        self.a = 0.5 * cost
        self.xi = np.full(n, 2.0)
        self.s = np.maximum(A @ self._net(), 0.0) + 1.0
        self.count = 2 * n + (0 if self.signed else size)  # number of complementary products

    def solve(self, on_iteration):
        """Multipliers a (n,) and weights q. Stops if on_iteration(a, q) returns True."""
        with np.errstate(all="ignore"):  # An iterate that is not finite ends the method.
            for _ in range(STEPS):
                if not self._factorise() or not self._advance() or on_iteration(self.a, self.q):
                    break
        return self.a, self.q

    def _factorise(self):
        """Step 1: residuals and Cholesky factor of the normal equations; False if it fails."""
        from scipy.linalg import cho_factor

        A, a, q, u, k = self.A, self.a, self.q, self.u, self.A.shape[1]
        self.r = self.cost - a
        self.primal_residual = 1.0 - A @ self._net() - self.xi + self.s
        self.dual_residual = u + self._both(a @ A) - (q if self.square else 1.0)
        self.inverse = np.zeros(k) if self.signed else 1.0 / q
        self.E = u * self.inverse + self.square
        self.d = 1.0 / (self.s / a + self.xi / self.r)
        self.F = 1.0 / (1.0 / self.E[:k] + 1.0 / self.E[k:]) if self.pairs else self.E
        if self.narrow:
            B = A * np.sqrt(self.d)[:, None]
            M = B.T @ B
            M.flat[:: len(M) + 1] += self.F
        else:
            B = A / np.sqrt(self.F)
            M = B @ B.T
            M.flat[:: len(M) + 1] += 1.0 / self.d
        try:
            self.factor = cho_factor(M, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            return False
        return True

    def _advance(self):
        """Steps 2 to 4. Return False, and change nothing, if the next iterate is invalid."""
        a, xi, s, r, q, u = self.a, self.xi, self.s, self.r, self.q, self.u

        # Step 2: the predictor, and the mean of the products behind it.
        mu = (a @ s + r @ xi + u @ q) / self.count
        change = self._direction(-a * s, -r * xi, -u * q)
        da, dxi, ds, dr, dq, du = change
        t = self._step_length(change)
        left = (a + t * da) @ (s + t * ds) + (r + t * dr) @ (xi + t * dxi)
        left += (u + t * du) @ (q + t * dq)

        # Step 3: the corrector, towards equal products.
        mu_target = mu * (left / self.count / mu) ** 3
        change = self._direction(
            mu_target - a * s - da * ds, mu_target - r * xi - dr * dxi, mu_target - u * q - dq * du
        )

        # Step 4: the step, if all stays positive and finite.
        t = STEP_TO_BOUNDARY * self._step_length(change)
        after = [z + t * dz for z, dz in zip((a, xi, s, r, q, u), change, strict=True)]
        after[3] = self.cost - after[0]
        is_positive = all((z > 0.0).all() for z in (after[:4] if self.signed else after))
        if not (is_positive and all(np.isfinite(z).all() for z in after)):
            return False
        self.a, self.xi, self.s, self.r, self.q, self.u = after
        return True

    def _direction(self, rhs_a, rhs_r, rhs_u):
        """Newton steps of a, xi, s, r, q, u for the right-hand sides of a s, r xi and u q."""
        from scipy.linalg import cho_solve

        A, E, F, d, k = self.A, self.E, self.F, self.d, self.A.shape[1]
        t = rhs_a / self.a - rhs_r / self.r + self.primal_residual
        b = self._both((d * t) @ A) + self.dual_residual + rhs_u * self.inverse
        w = b[:k] / E[:k] - b[k:] / E[k:] if self.pairs else b / E
        if self.narrow:
            v = cho_solve(self.factor, F * w, check_finite=False)
        else:
            v = w - cho_solve(self.factor, A @ w, check_finite=False) @ A / F
        da = d * (t - A @ v)
        dq = v
        if self.pairs:
            # v is the difference of the two; a division by the small one would lose digits.
            large = (b - self._both(F * (w - v))) / E
            up = E[:k] > E[k:]
            dq = np.concatenate([
                np.where(up, large[:k], v + large[k:]), np.where(up, large[:k] - v, large[k:]),
            ])  # fmt: skip
        ds = (rhs_a - self.s * da) / self.a
        dxi = (rhs_r + self.xi * da) / self.r
        du = (rhs_u - self.u * dq) * self.inverse
        return da, dxi, ds, -da, dq, du

    def _step_length(self, change):
        """Longest step, at most 1, at whose end nothing is negative."""
        unknowns = (self.a, self.xi, self.s, self.r, self.q, self.u)
        bounded = [*zip(unknowns, change, strict=True)][: 4 if self.signed else 6]
        return 1.0 / max(1.0, *(float(np.max(-dz / z)) for z, dz in bounded))

    def _net(self):
        """Weights of the columns of A minus those of -A, (k,)."""
        k = self.A.shape[1]
        return self.q[:k] - self.q[k:] if self.pairs else self.q

    def _both(self, v):
        """Values (k,) of the columns of A, followed by those of -A if there are pairs."""
        return np.concatenate([v, -v]) if self.pairs else v


# -- voters ---------------------------------------------------------------------------------------
GENERATED = ("stumps", "rbf", "linear-functions", "linear-classifiers")  # The kinds made from X.
GRAM_CELLS = 2**18  # Products of stumps per chunk of the Gram matrix, at least one row.


class _Pool:
    """Voters and the rows on which they vote: labels y (n,) and weights (n,), their number n, their
    total weight, the weight of class +1 minus that of class -1 (lean), and is_even, True if all
    weights are equal. Row blocks have no y and no weight."""

    def __init__(self, y, weight):
        self.y, self.weight, self.n = y, weight, weight.size
        self.total, self.lean = weight.sum(), weight @ y
        self.is_even = bool(weight.min() == weight.max())

    def figures(self, w, constant, scale):
        """First and second moment of the margins y (H w or constant) / scale; the margins."""
        g = self.y * constant if constant else self.margins(w)
        g /= scale
        first = float(np.average(g, weights=self.weight))
        second = float(np.average(g**2, weights=self.weight))
        return first, second, g

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


class _Stumps(_Pool):
    """Decision stumps on binned rows: +1 above the cut, else -1; feature by feature."""

    def __init__(self, X, y, weight, n_thresholds):
        super().__init__(y, weight)
        self._place_cuts(X.min(axis=0), X.max(axis=0), n_thresholds)
        self.bins = np.empty((self.n, self.shape[0]), np.uint8)
        with np.errstate(all="ignore"):  # Python, unlike the compiler, warns of cuts at infinity.
            _bin(X, self.used, self.cuts.reshape(self.shape), self.bins)

    def _place_cuts(self, low, high, n_thresholds):
        """Place cuts at equal steps between the ends (d,) of each feature that is not constant."""
        self.used = np.flatnonzero(high > low)
        low, high = low[self.used, None], high[self.used, None]
        with np.errstate(all="ignore"):  # Cuts at infinity are as good as none.
            cuts = low + (high - low) * np.arange(1, n_thresholds + 1) / (n_thresholds + 1)
        self.shape, self.size = cuts.shape, cuts.size
        self.features = np.repeat(self.used, n_thresholds)
        self.cuts = cuts.ravel()

    def _products(self, a, signed, j=-1, above=True):
        """Sums of `_stump_products` over all rows, (base,); a is the weights if it is None."""
        products = np.empty(self.size)
        a = self.weight if a is None else a
        _stump_products(self.bins, self.shape[1], a, self.y, signed, j, above, products)
        return products

    def _gram_rows(self, j, above):
        """H'v over the rows on one side of voters j, j + 1, ..., (len(above), base)."""
        return np.array([self._products(None, False, k, bool(up)) for k, up in enumerate(above, j)])

    def edges(self, a=None):
        """Edges A'a of the base voters, (base,); a is the weights if it is None."""
        return self._products(a, True)

    def balance(self):
        """H'v (base,) for the weights v of the rows."""
        return self._products(None, False)

    def gram(self, j, balance, out):
        """out (base,) = H'(v h_j), summed over the rows on the lighter side of h_j."""
        above = bool(balance[j] <= 0)
        np.multiply(self._products(None, False, j, above), 2.0, out=out)
        out -= balance
        if not above:
            np.negative(out, out=out)

    def whole_gram(self, balance):
        """Gram matrix H'(v H) of the base voters, (base, base)."""
        K = np.empty((self.size, self.size))
        above = balance <= 0
        step = max(1, GRAM_CELLS // self.size)
        for j in range(0, self.size, step):
            K[j : j + step] = self._gram_rows(j, above[j : j + step])
        K *= 2.0
        K -= balance
        K[~above] *= -1.0
        return K

    def margins(self, w):
        """Margins y (H w), a new array (n,)."""
        out = np.empty(self.n)
        _stump_sum(self.bins, self._table(w), out)
        out *= self.y
        return out

    def _table(self, w):
        """Sum of the weighted votes of a feature's stumps for each of its bins, (d, bins)."""
        w = w.reshape(self.shape)
        table = np.zeros((self.shape[0], self.shape[1] + 1))
        table[:, 1:] = 2.0 * np.cumsum(w, axis=1)
        table -= w.sum(axis=1)[:, None]
        return table

    def columns(self, chosen):
        """Outputs of the chosen voters, (chosen, n)."""
        features, cuts = np.divmod(chosen, self.shape[1])
        return np.where(self.bins.T[features] > cuts[:, None], 1.0, -1.0)

    def kinds(self):
        """Index of the kind of each base voter, (base,): stumps with no row between are equal."""
        is_used = np.zeros((self.shape[0], self.shape[1] + 1), np.bool_)
        is_used[np.arange(self.shape[0]), self.bins] = True
        is_used[:, 0] = True
        return np.cumsum(is_used[:, :-1]) - 1


@jit(nogil=True)
def _bin(X, used, cuts, bins):
    """bins[i, f] = number of cuts of feature used[f] below X[i, used[f]].

    The cuts lie at equal steps: a division finds the bin, comparisons undo its rounding.
    """
    last = cuts.shape[1]
    for i in range(X.shape[0]):
        for f in range(used.size):
            x = X[i, used[f]]
            step = (cuts[f, last - 1] - cuts[f, 0]) / max(last - 1, 1)
            r = (x - cuts[f, 0]) / step  # may be inf or NaN
            k = int(r) if 0.0 < r < last else (last if r >= last else 0)
            while k > 0 and x <= cuts[f, k - 1]:
                k -= 1
            while k < last and x > cuts[f, k]:
                k += 1
            bins[i, f] = k


@jit(nogil=True)
def _stump_sum(bins, table, out):
    """out[i] = sum over features f of table[f, bins[i, f]]."""
    for i in range(out.size):
        out[i] = 0.0
        for f in range(table.shape[0]):
            out[i] += table[f, bins[i, f]]


@jit(nogil=True)
def _stump_outputs(X, features, thresholds, signs, out):
    """out[i, k] = signs[k] if X[i] is above the threshold of stump k, else -signs[k]."""
    for k in range(features.size):
        for i in range(X.shape[0]):
            out[i, k] = signs[k] if X[i, features[k]] > thresholds[k] else -signs[k]


class _Outputs(_Pool):
    """Voters given by the matrix H (n, base) of their outputs; kernels have centres."""

    def __init__(self, H, y, weight, centres=None):
        super().__init__(y, weight)
        self.H, self.size, self.centres = H, H.shape[1], centres

    def edges(self, a=None):
        return ((self.weight if a is None else a) * self.y) @ self.H

    def balance(self):
        return self.weight @ self.H

    def gram(self, j, balance, out):
        np.matmul(self.weight * self.H[:, j], self.H, out=out)

    def whole_gram(self, balance):
        K = np.empty((self.size, self.size))
        for j in range(self.size):
            self.gram(j, balance, K[j])
        return K

    def margins(self, w):
        return self.y * (self.H @ w)

    def columns(self, chosen):
        return self.H.T[chosen]

    def kinds(self):
        return np.arange(self.size)


def _kernel_outputs(X, centres, gamma, kind):
    """Gaussian kernel (n, centres); F of it if the voters are linear classifiers."""
    H = rbf(X, centres, gamma)
    if kind == "linear-classifiers":
        from scipy.special import erf

        return erf(H / math.sqrt(2.0))
    return H


def _columns(pool, chosen):
    """Margins y_i h_j(x_i) of the chosen voters j, (chosen, n)."""
    signs = np.where(chosen < pool.size, 1.0, -1.0)[:, None] * pool.y
    return signs * pool.columns(chosen % pool.size)


def _net(pool, chosen, q):
    """Weights of the base voters minus those of their complements, (base,)."""
    signs = np.where(chosen < pool.size, 1.0, -1.0)
    return np.bincount(chosen % pool.size, signs * q, minlength=pool.size)


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


# -- helpers --------------------------------------------------------------------------------------
LIMIT_TOL = 1e-6  # Fraction by which a recommended C exceeds its limit.


def _are_voters(v):
    if isinstance(v, (list, tuple)):
        return len(v) > 0 and all(hasattr(_member(m)[0], "predict") for m in v)
    return callable(v) or isinstance(v, str) and v in (*GENERATED, "votes")


def _member(voter):
    """A voter of the list and its columns of X, None for all."""
    return voter if isinstance(voter, tuple) and len(voter) == 2 else (voter, None)


def _take(X, rows):
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _grown(array, shape):
    """Copy of the array in the corner of a larger one of zeros."""
    larger = np.zeros(shape)
    larger[tuple(slice(size) for size in array.shape)] = array
    return larger


def _rounded(limit, up=False):
    """Six digits of a limit, rounded to its safe side."""
    way = decimal.Context(6, decimal.ROUND_CEILING if up else decimal.ROUND_FLOOR)
    return f"{float(way.create_decimal_from_float((1.0 + LIMIT_TOL) * limit if up else limit)):.6g}"


def _kl_inverse(p, bound, up):
    """Largest r >= p (up), or smallest r <= p, with kl(p | r) <= bound, by bisection."""
    inner, outer = p, 1.0 if up else 0.0
    for _ in range(60):
        r = 0.5 * (inner + outer)
        kl = p * math.log(p / r) if p > 0 else 0.0
        kl += (1.0 - p) * math.log((1.0 - p) / (1.0 - r)) if p < 1 else 0.0
        inner, outer = (r, outer) if kl <= bound else (inner, r)
    return outer


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


# -- estimators: the base class of the five methods -----------------------------------------------
VISIBLE = 1e-6  # n_columns_ counts weights above this fraction of their sum.
VOTE_ROWS = 4096  # Rows per chunk of a prediction.
CELLS_PER_THREAD = 1_000_000  # Cells of X, or of members' outputs, that pay for starting a thread.
MU_TOL = 1e-12  # Fraction by which mu may exceed its limit: rounding.
BETTER = "pass better voters"
VOTERS = f"one of {', '.join(GENERATED)}, votes, a list of fitted classifiers or a callable"
RULE_TYPES[VOTERS] = _are_voters
RULES = {
    "voters": VOTERS,
    "voting": "one of 'hard', 'soft'",
    "n_thresholds": "an integer from 1 to 255",
    "gamma": "'scale' or a finite number > 0",
    "eps": "a number > 0",
}
GENERATION_RULES = RULES | {
    "complements": "one of None, True, False",
    "max_columns": "None or an integer >= 1",
}
MASTER_RULES = {"master": "one of 'auto', 'osqp', 'active-set'"}


class _Vote(_Nested):
    """Pool of voters, fit, vote, report and risk bounds of the five methods.

    Parameters
    ----------
    voters : "stumps", "rbf", "linear-functions", "linear-classifiers", "votes", list or callable
        Pool to choose from. "stumps": `n_thresholds` per feature. "rbf": exp(-gamma |x - c|^2) at
        the training rows c. "linear-functions" and "linear-classifiers": the paper's continuous
        sets, Gaussians around the images of the training rows under that kernel. "votes": the
        columns of X are the voters' outputs. A list of fitted classifiers of two classes, whose
        second class stands for the second class here, or pairs (classifier, its columns of X); a
        frame is passed to them unchanged, with the columns they were fitted with. A callable gets X
        and returns the voters' outputs, (n, voters).
    voting : "hard" or "soft"
        Outputs of voters that are not generated: "hard" means labels or votes from -1 to 1, "soft"
        probabilities p of the second class, which count as votes 2 p - 1.
    n_thresholds : int from 1 to 255
        Stumps per feature, at equal steps between its smallest and largest value.
    gamma : "scale" or float > 0
        Width of the kernel; "scale" is 1 / (d * variance of X).
    complements : None or bool
        If True, -h is a voter if h is; None: only for generated voters.
    eps : float > 0
        Target for `residual_`.
    max_columns : None or int >= 1
        Maximum number of chosen voters; None: no limit. The vote is valid whenever it stops.
    master : "auto", "osqp" or "active-set"
        Solver of the master problems; all end at the same certified optimum. "auto": the active
        set, then OSQP if it does not reach eps.
    class_weight : None, "balanced" or dict
        Factor per class, multiplied into sample_weight. "balanced" gives all classes the same total
        weight.
    n_jobs : None or int
        Maximum number of threads for stumps, in fit and prediction; None means 1, -1 all
        processors. Small data use fewer.
    verbose : int
        1 prints one line after every iteration, and before the first the cost of row blocks.
    callback : None or callable
        Called as callback(self, iteration, info) after every iteration; True stops. There self is
        the vote so far: self.score(X_valid, y_valid) serves to stop early.
    """

    _raw = False  # True if the weights do not sum to 1.
    _row_variables = False  # True if the program has a variable for each row.

    @property
    def tol(self):
        """Target of `residual_`: eps."""
        return self.eps

    @restore_on_failure
    def fit(self, X, y=None, sample_weight=None, independent_voters=False):
        """Train on X (n, d) and two classes y; a sample weight of 2 is the row twice.

        CqBoost, MDBoost and MinCq over stumps also take row blocks in place of X and y. These read
        X three times, the bins of its cells once per iteration, and get no `example_weights_`.

        `independent_voters=True` states that the voters do not depend on these rows, for instance
        classifiers that were fitted on others: only then `pac_bayes_bound` is a guarantee.
        """
        self._check_params()
        if hasattr(X, "fit_model"):  # Row blocks make the pool, see solvers/rows/stumps.py.
            pool = X.fit_model(self, y, sample_weight)
        else:
            X, y, weight = self._check_fit(X, y, sample_weight)
            present = weight > 0
            is_whole = self._generates and present.all()
            rows = (X, y, weight) if is_whole else (_take(X, present), y[present], weight[present])
            pool = self._make_pool(*rows)
        self.trace_ = []
        with pool:
            self._check_pool(pool)

            # The method itself: the chosen voters, their weights and the example weights.
            chosen, q, a = self._learn(pool)
            self.n_generated_ = chosen.size
            self._set_vote(pool, chosen, q)
            statistics = pool.figures(_net(pool, chosen, q), self.constant_, self.total_)
            if self.constant_ and (advice := self._advice(pool)):
                majority = self.classes_[int(self.constant_ > 0)]
                text = f"no voter has a weight at the optimum for C={self.C:g}, so the majority"
                text = f"{type(self).__name__}: {text} class {majority} is predicted; {advice}"
                warnings.warn(text, ConvergenceWarning, stacklevel=3)

        # The statistics of the vote, and the certificate.
        self.first_moment_, self.second_moment_, g = statistics
        self.n_columns_ = int((q > VISIBLE * q.sum()).sum())
        if g is not None:
            self.example_weights_ = np.zeros(y.size)
            self.example_weights_[present] = a(g) if callable(a) else a
        self.n_examples_ = pool.n if pool.is_even and (g is None or present.all()) else 0
        self.independent_voters_ = bool(independent_voters)
        self.trace_ = np.array(self.trace_)
        self.converged_ = bool(self.residual_ <= self.eps)
        if not self.converged_:
            warnings.warn(self._why_not_converged(), ConvergenceWarning, stacklevel=3)
        return self

    def votes(self, X):
        """Output of every member, (n, members)."""
        return self._member_outputs(self._check_X(X))

    def decision_function(self, X):
        """Weighted vote, (n,)."""
        X = self._check_X(X)
        n = X.shape[0]

        def vote(i):
            return self._member_outputs(_take(X, slice(i, i + VOTE_ROWS))) @ self.weights_

        threads = min(self._threads(), n * self.weights_.size // CELLS_PER_THREAD)
        if threads < 2 or self.voters != "stumps":
            return np.concatenate([vote(i) for i in range(0, n, VOTE_ROWS)])
        with ThreadPoolExecutor(threads) as pool:
            return np.concatenate([*pool.map(vote, range(0, n, VOTE_ROWS))])

    def margins(self, X, y):
        """y times the vote, in [-1, 1]; divided by the sum of the weights if that is not 1."""
        decision = self.decision_function(X)
        return np.where(self._encode_labels(y, decision.size), decision, -decision) / self.total_

    def c_bound(self):
        """C-bound of the training rows: 1 - mu_1^2 / mu_2; 1 if mu_1 <= 0."""
        first, second = self.first_moment_, self.second_moment_
        return 1.0 - first**2 / second if first > 0 else 1.0

    def pac_bayes_bound(self, delta=0.05):
        """Bound on the risk that holds with probability 1 - delta over the training sample.

        The least of Theorem 2, with the inverse of kl in place of its square roots, and twice the
        bound of the Gibbs risk in it. NaN, with a warning that names the reason, if no bound holds:
        only fit(independent_voters=True) states that the voters do not depend on the rows.
        """
        self._require(0 < delta <= 1, f"delta must be in (0, 1], got {delta!r}")
        if reason := self._no_bound():
            needs = "it takes rows of equal weight and voters from -1 to 1 that do not depend on"
            needs += " the rows, which fit(X, y, independent_voters=True) vouches for"
            text = f"{type(self).__name__}: no PAC-Bayes bound: {reason}; {needs}"
            warnings.warn(text, stacklevel=2)
            return math.nan
        if self.constant_:
            return 1.0  # The vote is no mixture of the voters.
        n = self.n_examples_
        KL = self._divergence()
        rest = math.log(4.0 * math.sqrt(n) / delta)
        gibbs = 0.5 - 0.5 * min(max(self.first_moment_, -1.0), 1.0)
        differ = 0.5 - 0.5 * min(self.second_moment_, 1.0)
        gibbs = _kl_inverse(gibbs, (KL + rest) / n, True)
        differ = _kl_inverse(differ, (2.0 * KL + rest) / n, False)
        bound = 1.0 - max(0.0, 1.0 - 2.0 * gibbs) ** 2 / (1.0 - 2.0 * differ)
        return min(bound, 2.0 * gibbs, 1.0)

    def _no_bound(self):
        """Reason why there is no PAC-Bayes bound, or None."""
        if not self.n_examples_:
            return "the rows have unequal weights"
        if self.voters == "linear-functions":
            return "linear functions are not bounded"
        if self.voters == "linear-classifiers" and not isinstance(self.gamma, str):
            return None  # The prior, a Gaussian at 0, does not depend on the rows.
        return None if self.independent_voters_ else "the voters may depend on the rows"

    def facts(self):
        """Statistics of the fit for a report; the name of a missing bound contains the reason."""
        reason = self._no_bound()
        bound = math.nan if reason else self.pac_bayes_bound()
        return {
            "voters generated": self.n_generated_,
            "with weight": self.n_columns_,
            "C-bound": self.c_bound(),
            "PAC-Bayes bound" + (f" ({reason})" if reason else ""): bound,
        }

    def _divergence(self):
        """KL(Q|P): uniform prior on a finite pool; a unit Gaussian at 0 for the continuous sets."""
        if self.voters in ("linear-functions", "linear-classifiers"):
            return 0.5  # half the squared norm of the centres, which is 1 for this kernel
        posterior = self._posterior()
        return float(posterior @ np.log(posterior * self.n_voters_))

    def _posterior(self):
        """Positive probabilities of the voters."""
        return self.weights_ / self.weights_.sum()

    def _learn(self, pool):
        """Chosen voters, their weights and the example weights, by column generation."""
        edges = self._both(pool.edges() / pool.total)  # sums of whole weights are exact
        best = edges[_entering_voter(edges, np.zeros(edges.size, np.bool_))]
        terms = _Terms(*map(float, self._terms(best, pool.total, pool.n)))

        def on_iteration(objective, gap, chosen, q):
            stop = self._report_iteration(objective, gap, pool, chosen, q)
            return stop or self.residual_ <= self.eps

        masters = MASTERS[self.master]
        return _column_generation(pool, edges, terms, masters, self.max_columns, on_iteration)

    # The pool.
    @property
    def _complemented(self):
        return self._generates if self.complements is None else self.complements

    @property
    def _generates(self):
        return isinstance(self.voters, str) and self.voters in GENERATED

    def _make_pool(self, X, y, weight):
        if not self._generates:
            return _Outputs(self._given_outputs(X), y, weight)
        if self.voters == "stumps":
            threads = max(1, min(self._threads(), X.size // CELLS_PER_THREAD))
            if threads > 1 and __package__:
                with suppress(ImportError):  # A file that stands alone has one thread.
                    on_threads = import_module(".rows.stumps", __package__).ThreadStumps
                    return on_threads(X, y, weight, self.n_thresholds, threads)
            return _Stumps(X, y, weight, self.n_thresholds)
        self.gamma_ = float(scale_gamma(X, weight) if self.gamma == "scale" else self.gamma)
        return _Outputs(_kernel_outputs(X, X, self.gamma_, self.voters), y, weight, centres=X)

    def _check_pool(self, pool):
        """Set the number of voters and the majority. Raise ValueError if there is no voter."""
        self.n_voters_ = pool.size * (1 + self._complemented)
        self.majority_ = 1.0 if pool.lean >= 0 else -1.0
        constant = f"all {self.n_features_in_} feature(s) are constant, which leaves no stumps"
        self._require(pool.size, f"{constant}; pass other features or a list of voters")

    def _feasible_mu(self, limit, meaning):
        """mu, at most its limit. Raise ValueError if it is larger by more than rounding."""
        advice = f"choose mu in (0, {_rounded(limit)}]" if limit > 0 else BETTER
        text = f"mu={self.mu:g} is infeasible: {meaning} {limit:.6g} on these rows; {advice}"
        self._require(limit >= (1.0 - MU_TOL) * self.mu, text)
        return min(self.mu, limit)

    def _both(self, base):
        """Values of all voters from those of the base voters, a new array."""
        return np.concatenate([base, -base]) if self._complemented else base.copy()

    def _check_X(self, X, fitting=False):
        """X as a matrix of numbers; a frame for given voters stays as it is, texts included."""
        if self._generates or not hasattr(X, "iloc"):
            return super()._check_X(X, fitting)
        super()._check_X(type(X)(np.zeros(X.shape), columns=X.columns), fitting)
        return X

    def _given_outputs(self, X, members=None):
        """Outputs from -1 to 1 of given voters, (n, voters); those of `members` only, if any."""
        soft = self.voting == "soft"
        if isinstance(self.voters, (list, tuple)):
            members = range(len(self.voters)) if members is None else members
            H = np.array([self._list_output(X, k) for k in members]).T
        else:
            H = X if isinstance(self.voters, str) else self.voters(X)
            H = np.array(H, dtype=np.float64, order="C")
            text = f"voters must return a matrix with {X.shape[0]} rows and a column per voter"
            is_valid = H.ndim == 2 and H.shape[0] == X.shape[0] and H.shape[1] > 0
            self._require(is_valid, f"{text}, got shape {H.shape}")
            H = H if members is None else H[:, members]
        low = 0.0 if soft else -1.0
        for i, j in np.argwhere(~((H >= low) & (H <= 1.0)))[:1]:
            kind = "probabilities from 0 to 1" if soft else "votes from -1 to 1"
            text = f"voting={self.voting!r} takes {kind}, got {H[i, j]} in row {i} of voter {j}"
            self._require(False, text)
        return 2.0 * H - 1.0 if soft else H

    def _list_output(self, X, k):
        """Labels -1 and 1 of voter k of the list, or its probabilities of class 2, (n,)."""
        soft = self.voting == "soft"
        voter, columns = _member(self.voters[k])

        # The columns of this voter, as a frame or as a matrix.
        names = getattr(voter, "feature_names_in_", None)
        if columns is not None:
            X = X.iloc[:, columns] if hasattr(X, "iloc") else X[:, columns]
        elif names is not None and hasattr(X, "iloc") and set(names) <= set(X.columns):
            X = X[list(names)]
        if names is None and hasattr(X, "iloc") and X.to_numpy().dtype.kind in "biuf":
            X = X.to_numpy()  # a classifier that was fitted without names

        d, width = X.shape[1], getattr(voter, "n_features_in_", X.shape[1])
        rules = {
            "must be a classifier fitted on two classes": len(getattr(voter, "classes_", ())) == 2,
            f"takes {width} features, not {d}: pass (voter, its columns of X)": width == d,
            "has no predict_proba: take voting='hard'": not soft or hasattr(voter, "predict_proba"),
        }
        for text, is_met in rules.items():
            self._require(is_met, f"voter {k} of the list {text}, got {voter!r}")
        if soft:
            return np.asarray(voter.predict_proba(X))[:, 1]
        return np.where(np.asarray(voter.predict(X)) == voter.classes_[1], 1.0, -1.0)

    # The vote.
    def _set_vote(self, pool, chosen, q):
        """Set the vote: the chosen voters with a weight, or the majority if there is none."""
        chosen = chosen[q > 0]
        self.weights_ = q[q > 0] if chosen.size else np.ones(1)
        self.constant_ = 0.0 if chosen.size else self.majority_
        self.total_ = float(self.weights_.sum()) if self._raw else 1.0
        base = chosen % pool.size
        self.signs_ = np.where(chosen < pool.size, 1.0, -1.0)
        if not self._generates:
            self.members_ = base
        elif self.voters == "stumps":
            self.features_ = pool.features[base]
            self.thresholds_ = pool.cuts[base]
        else:
            self.centres_ = pool.centres[base]

    def _member_outputs(self, X):
        if self.constant_:
            return np.full((X.shape[0], 1), self.constant_)
        if self.voters == "stumps":
            outputs = np.empty((X.shape[0], self.signs_.size), order="F")
            _stump_outputs(X, self.features_, self.thresholds_, self.signs_, outputs)
            return outputs
        if not self._generates:
            return self._given_outputs(X, self.members_) * self.signs_
        return _kernel_outputs(X, self.centres_, self.gamma_, self.voters) * self.signs_

    def _is_consistent(self, has):
        m, d = self.weights_.size, self.n_features_in_
        is_valid = m >= 1 and has("weights_", (m,)) and self.total_ > 0
        if self.constant_:
            return is_valid and m == 1 and self.constant_ in (-1.0, 1.0)
        is_valid = is_valid and has("signs_", (m,))
        if not self._generates:
            last = len(self.voters) if isinstance(self.voters, list) else self.n_voters_
            return is_valid and has("members_", (m,), below=last)
        if self.voters == "stumps":
            return is_valid and has("features_", (m,), below=d) and has("thresholds_", (m,))
        return is_valid and 0 < self.gamma_ < math.inf and has("centres_", (m, d))

    def __sklearn_clone__(self):
        """Copy with the very same voters: scikit-learn would clone them unfitted."""
        return type(self)(**self.get_params(deep=False))

    # Reports.
    def _report_iteration(self, objective, gap, pool, chosen, q):
        """Report an iteration with the vote so far. Return True if the callback asks to stop."""
        gap = max(gap, EPS * abs(objective))
        self.dual_value_ = float(objective - gap)
        if self.callback is not None:
            self._set_vote(pool, chosen, q)
            self.converged_ = False
        residual = float(gap / max(1.0, abs(objective)))
        iteration = len(self.trace_) + 1
        return self._report(iteration, objective, residual=residual, columns=chosen.size)

    def _advice(self, pool):
        """Advice for a fit in which no voter has a weight."""
        return BETTER

    def _why_not_converged(self):
        stopped = f"stopped with {self.n_generated_} columns and residual {self.residual_:.1e}"
        advice = "raise eps"
        if getattr(self, "max_columns", None) == self.n_generated_:
            advice = f"raise max_columns={self.max_columns}"
        elif getattr(self, "master", "auto") != "auto":
            advice += ", or take master='auto'"
        return f"{type(self).__name__} {stopped} (eps={self.eps:g}); {advice}"


# -- CqBoost --------------------------------------------------------------------------------------
# Problem   min mu_2 over q    subject to    mu_1 >= mu, q >= 0, sum q = 1
# Dual      max b mu - mu_2 - max_j A_j'a over b >= 0 and margins g, where a = v (b - 2 g)
#           are the example weights; they are negative where a margin is larger than need be.
# Pricing   The voter with the largest edge A_j'a enters. At the optimum of the master the edges of
#           the voters with weight are nu = b mu - 2 mu_2, so the gap is max_j A_j'a - nu.
class CqBoost(_Vote):
    """Vote with the smallest second moment of the margin at a given first one: the C-bound.

    Use it for a sparse vote with a (loose) bound, or to re-weight the trees of a forest.

    Over stumps it also fits on row blocks; example_weights_, of n entries, is then left out.

    Parameters
    ----------
    mu : float in (0, 1]
        Minimum first moment of the margin; at most the edge of the best voter.
    voters, n_thresholds, gamma, complements, eps, max_columns, master, voting, \
class_weight, n_jobs, verbose, callback : as in _Vote

    Attributes
    ----------
    weights_ (members,) : weight of each voter in the vote, > 0
    n_columns_, n_generated_, n_voters_ : voters with a weight that counts (above 1e-6 of the sum),
        generated, in the pool
    objective_, dual_value_, residual_ : value of the problem, proven lower bound over all voters,
        their distance / max(1, |objective_|)
    n_iter_, converged_, trace_ : iterations, residual_ <= eps, objective of each iteration
    example_weights_ (n,) : the dual weights a; negative where the margin is larger than need be
    first_moment_, second_moment_ : of the margins on the training rows
    features_, thresholds_, signs_ : the members, for stumps; centres_, gamma_, signs_ for kernels;
        members_, numbers in the list of voters, and signs_ for classifiers
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = CqBoost(mu=0.2, master="active-set").fit(X, y)
    >>> model.n_columns_, model.c_bound(), model.pac_bayes_bound(delta=0.05)
    """

    _param_rules = {"mu": "a number > 0 and <= 1"} | GENERATION_RULES | MASTER_RULES

    def __init__(
        self, mu=0.1, voters="stumps", n_thresholds=10, gamma="scale", complements=None, eps=1e-6,
        max_columns=None, master="auto", voting="hard", class_weight=None, n_jobs=1, verbose=0,
        callback=None,
    ):  # fmt: skip
        self._set(locals())

    def _terms(self, best, total, n):
        """Fields of _Terms for n rows of this total weight and the best voter's edge."""
        return self._feasible_mu(best, "the best voter has edge"), 0.0, 1.0


# -- MDBoost --------------------------------------------------------------------------------------
# Problem   min D/2 g'G g - sum g over q    subject to    q >= 0, sum q = 1
#           where G = n/(n-1) (I - 11'/n): the variance of the margins against their mean.
# Dual      max -D/2 g'G g - max_j A_j'a over margins g, where a = 1 - D G g
# Pricing   The voter with the largest edge A_j'a enters. At the optimum of the master the edges of
#           the voters with weight are nu = a'g, so the gap is max_j A_j'a - nu.
#           With sample weights rows count as often as they say, and n is their sum, but at least
#           the number of rows, so that weights may sum to 1.
class MDBoost(_Vote):
    """Vote with a large mean and a small variance of the margin.

    Use it to trade the mean of the margin against its variance.

    Over stumps it also fits on row blocks, as CqBoost does.

    Parameters
    ----------
    D : float > 0
        Weight of the variance.
    voters, n_thresholds, gamma, complements, eps, max_columns, master, voting, \
class_weight, n_jobs, verbose, callback : as in _Vote

    Attributes as in CqBoost.
    """

    _param_rules = {"D": "a finite number > 0"} | GENERATION_RULES | MASTER_RULES

    def __init__(
        self, D=10.0, voters="stumps", n_thresholds=10, gamma="scale", complements=None, eps=1e-6,
        max_columns=None, master="auto", voting="hard", class_weight=None, n_jobs=1, verbose=0,
        callback=None,
    ):  # fmt: skip
        self._set(locals())

    def _terms(self, best, total, n):
        n = max(total, n)
        return -np.inf, self.D * n / (n - 1.0), total


# -- MinCq ----------------------------------------------------------------------------------------
# Problem   min mu_2 over w, g = y * (H w)    subject to    mu_1 = mu, |w_j| <= 1 / N
#           over N voters without complements: w_j = 2 q_j - 1 / N for weights q of the voters and
#           1 / N - q of their complements.
# Dual      max b mu - mu_2 - sum_j |A_j'a| / N over b and margins g, where a = v (b - 2 g)
# Pricing   None: all voters are in the problem from the start. For given margins the best b is a
#           weighted quantile of the b at which the terms |A_j'a| are 0.
LEAST_NORM = 1e-8  # Ridge, relative to the diagonal, that selects the optimum of the least norm.
BALANCING = 50  # Maximum number of corrections that bring the first moment back to mu.
STALLED_ROUNDS = 3  # Rounds without fewer changes of sides that end the first phase.


class MinCq(_Vote):
    """The original MinCq: every voter and its complement, weights within a narrow box.

    Use it for few voters, when all of them may get a weight.

    Time is cubic and memory quadratic in the number of voters: 3,000 take some seconds, 5,000 half
    a minute. The callback is called between rounds and can stop it, with a valid vote. Over stumps
    it also fits on row blocks, as CqBoost does.

    Parameters
    ----------
    mu : float in (0, 1]
        First moment of the margin; at most the mean size of the voters' edges.
    voters, n_thresholds, gamma, eps, master, voting, class_weight, n_jobs, verbose, \
callback : as in _Vote

    Attributes as in CqBoost; a member has the sign of its weight, weights_ the size.
    """

    _param_rules = {"mu": "a number > 0 and <= 1"} | RULES | MASTER_RULES
    complements = True  # in effect: the sign of a weight selects one of the two

    def __init__(
        self, mu=0.05, voters="stumps", n_thresholds=10, gamma="scale", eps=1e-6, master="auto",
        voting="hard", class_weight=None, n_jobs=1, verbose=0, callback=None,
    ):  # fmt: skip
        self._set(locals())

    def _learn(self, pool):
        n = pool.size
        first = pool.edges() / pool.total
        top = np.abs(first).mean()
        mu = self._feasible_mu(top, "the mean size of the voters' edges is")

        # The Gram matrix of all voters; of all optima the ridge selects the one of the least norm.
        K = pool.whole_gram(pool.balance())
        K /= pool.total
        ridge = min(LEAST_NORM, 0.1 * self.eps * n) * K.diagonal().max()
        K.flat[:: n + 1] += ridge
        beta = 0.0

        def on_iteration(x):
            """Certify x = n w: its value against the dual value of its best multiplier."""
            nonlocal beta
            w = x / n
            correlation = K @ w - ridge * w
            second = w @ correlation
            beta = self._multiplier(correlation, first, mu)
            dual = beta * mu - second - np.abs(2.0 * correlation - beta * first).mean()
            gap = second - dual + EPS * abs(beta)
            chosen = np.arange(n) + n * (w < 0)
            return self._report_iteration(second, gap, pool, chosen, np.abs(w))

        program = _Program(
            K, c=np.zeros(n), constraints=first[None] / n, rhs=np.array([mu]), at_least=False,
            low=-np.ones(n), high=np.ones(n),
        )  # fmt: skip
        start = mu / top * np.sign(first)
        for master in MASTERS[self.master]:
            # First phase: many variables change sides at a time.
            x = start.copy()
            if master is _ActiveSet:
                x, stop = self._primal_dual_active_set(K, first, mu, start, on_iteration)
                if stop:
                    break
            # Second phase: the master continues from there, one variable at a time.
            stop = master().solve(program, n, x, lambda x=x: on_iteration(x))
            x = self._balanced(x, first, mu)
            if stop or on_iteration(x) or self.residual_ <= self.eps:
                break
        w = x / n
        chosen = np.arange(n) + n * (w < 0)
        return chosen, np.abs(w), lambda g: pool.weight / pool.total * (beta - 2.0 * g)

    @staticmethod
    def _multiplier(correlation, first, mu):
        """argmax over beta of beta mu - mean |2 correlation - beta first|: a weighted quantile."""
        n = first.size
        size = np.abs(first)
        kinks = np.divide(2.0 * correlation, first, out=np.zeros(n), where=size > 0)
        order = np.argsort(kinks)
        past = np.cumsum(size[order])
        place = np.searchsorted(past, 0.5 * (past[-1] + n * mu))
        return kinks[order][min(place, n - 1)]

    @staticmethod
    def _balanced(x, first, mu):
        """Point near x (N,) with mean(first x) = mu and |x| <= 1: variables within their bounds
        move; if that is not enough, x is mixed with the largest vote."""
        x = np.clip(x, -1.0, 1.0)
        for _ in range(BALANCING):
            residual = mu - (first * x).mean()
            inner = np.where(np.abs(x) < 1.0, first, 0.0)
            if abs(residual) <= EPS * mu or not inner.any():
                break
            x = np.clip(x + residual / (inner @ inner) * x.size * inner, -1.0, 1.0)
        mean, top = (first * x).mean(), np.abs(first).mean()
        if abs(mean - mu) <= CONSTRAINT_TOL * mu:
            return x
        if mean >= mu:
            return mu / mean * x
        side = np.where(first == 0, x, np.sign(first))
        return x + min((mu - mean) / (top - mean), 1.0) * (side - x)

    def _primal_dual_active_set(self, K, first, mu, start, on_iteration):
        """min x'K x / 2, mean(first x) = mu, |x| <= 1: all variables change sides at once.

        Returns x (N,), near the optimum also if the sides cycle, and True if the callback asks to
        stop. O(N^3) per round.
        """
        n = first.size
        sides = np.zeros(n)  # -1 and 1: at this bound; 0: free
        best, fewest, stalled = start.copy(), np.inf, 0
        while stalled < STALLED_ROUNDS and first[sides == 0].any():
            # Step 1: the optimum of the free variables, and its multiplier lam.
            free = sides == 0
            x = sides.copy()
            f = np.flatnonzero(free)
            known = np.column_stack([-(K[f] @ x), first[f]])
            plain, along = np.linalg.solve(K[np.ix_(f, f)], known).T
            lam = (n * mu - first @ x - first[f] @ plain) / (first[f] @ along)
            x[f] = plain + lam * along

            # Step 2: free variables beyond a bound go to it; a multiplier of the wrong sign frees.
            reduced = K @ x - lam * first
            new = np.where(free, (x > 1.0) * 1.0 - (x < -1.0), sides * (sides * reduced <= 0.0))
            changes = int((new != sides).sum())

            # Step 3: keep the point with the fewest changes; without any it is the optimum.
            near = self._balanced(x, first, mu)
            stalled += 1
            if changes < fewest:
                fewest, stalled, best = changes, 0, near
            if on_iteration(near) or not changes:
                return near, bool(changes)
            sides = new
        return best, False

    def _posterior(self):
        """Probabilities (1/N + w)/2 of a voter and (1/N - w)/2 of its complement, if positive."""
        n = self.n_voters_ // 2
        w = np.zeros(n)
        w[: self.weights_.size] = self.weights_
        posterior = 0.5 * np.concatenate([1.0 / n + w, 1.0 / n - w])
        return posterior[posterior > 0]


# -- LPBoost --------------------------------------------------------------------------------------
# Problem   min sum q + C sum xi over q and xi    subject to    A q >= 1 - xi, q >= 0, xi >= 0
# Dual      max sum a over example weights a      subject to    A_j'a <= 1 for all j, 0 <= a <= C
# Pricing   Voters with an edge A_j'a > 1 enter, many at a time. a / max(1, max_j A_j'a) is feasible
#           in the dual, whatever a is: the best of its values so far is the bound.
BATCH = 50  # Maximum number of voters that enter at once.
CLOSER = 0.1  # Fraction of eps at which the interior-point method ends.
SUPPORTING = 1e-5  # Weights above this fraction of the largest go on to HiGHS.


class LPBoost(_Vote):
    """Vote of a small sum of weights and small hinge loss: a linear program.

    Use it for the fewest voters.

    It has a variable for each row, so row blocks are refused.

    Parameters
    ----------
    C : float > 0
        Weight of the loss.
    voters, n_thresholds, gamma, complements, eps, max_columns, voting, \
class_weight, n_jobs, verbose, callback : as in _Vote

    Attributes as in CqBoost; weights_ sum to total_, by which margins are divided.
    """

    _param_rules = {"C": "a finite number > 0"} | GENERATION_RULES
    _raw = True
    _row_variables = True

    def __init__(
        self, C=1.0, voters="stumps", n_thresholds=10, gamma="scale", complements=None, eps=1e-6,
        max_columns=None, voting="hard", class_weight=None, n_jobs=1, verbose=0, callback=None,
    ):  # fmt: skip
        self._set(locals())

    def _learn(self, pool):
        limit = self.max_columns or 2 * pool.size
        state = _LinearProgram(pool, self.C * pool.weight, self._both)
        edges = state.price(state.cost)
        if self.max_columns is None and edges.max() > 1.0:
            # Step 1: the interior point finds the voters that have weight.
            new, q, stop = self._interior_point(state)
            if stop:
                return new, q, state.best
            edges = state.add(new)
        while True:
            # Step 2: other voters whose dual constraint is violated, the worst first; one of those
            # with equal edges, which may be equal voters.
            outside = edges.copy()
            outside[state.chosen] = 0.0
            new = np.argsort(-outside, kind="stable")
            new = new[outside[new] > 1.0 + HIGHS_TOL]
            apart = -np.diff(outside[new], prepend=np.inf) > EQUAL_EDGES * np.abs(edges).max()
            new = new[apart][: min(BATCH, limit - state.chosen.size)]

            # Step 3: the certificate; without voters there is one only if none is to enter.
            if state.chosen.size or not new.size:
                objective = state.q.sum() + state.hinge(state.q @ state.A)
                gap = objective - state.dual
                stop = self._report_iteration(objective, gap, pool, state.chosen, state.q)
                if stop or self.residual_ <= self.eps or not new.size:
                    return state.chosen, state.q, state.best

            # Step 4: HiGHS solves the program with the new voters.
            edges = state.add(new)

    def _interior_point(self, state):
        """All voters at once by the interior-point method: indices and weights of those above a
        fraction of the largest weight, and True if the callback asks to stop."""
        pool, paired = state.pool, self._complemented
        base = np.unique(pool.kinds(), return_index=True)[1]
        both = np.concatenate([base, base + pool.size]) if paired else base
        A = _columns(pool, base)
        stop, best, stalled = False, np.inf, 0

        def on_iteration(a, q):
            nonlocal stop, best, stalled
            state.price(a)
            w = q[: base.size] - q[base.size :] if paired else q
            objective = q.sum() + state.hinge(w @ A)
            gap = objective - state.dual
            best, stalled = (gap, 0) if gap < best else (best, stalled + 1)
            stop = self._report_iteration(objective, gap, pool, both, q)
            return stop or self.residual_ <= CLOSER * self.eps or stalled == STALLED_STEPS

        method = _InteriorPoint(np.ascontiguousarray(A.T), state.cost, 0.0, paired)
        _, q = method.solve(on_iteration)
        chosen = np.flatnonzero(q > (0.0 if stop else SUPPORTING * q.max()))
        return both[chosen], q[chosen], stop

    def _advice(self, pool):
        best = self._both(pool.edges()).max()
        return f"choose C >= {_rounded(1.0 / best, up=True)}" if best > 0 else BETTER


class _LinearProgram:
    """LPBoost's program over the chosen voters, and the multipliers of the largest dual value."""

    def __init__(self, pool, cost, both):
        self.pool, self.cost, self.both = pool, cost, both
        self.chosen = np.empty(0, np.intp)
        self.A = np.empty((0, cost.size))
        self.q = np.empty(0)
        self.best, self.dual = cost, -np.inf

    def add(self, new):
        """Choose these voters, too, and solve max sum a, 0 <= a <= cost, A a <= 1 by HiGHS, the
        dual program of the chosen voters with margins A (k, n). Returns the edges of all voters."""
        from scipy.optimize import linprog

        self.A = np.vstack([self.A, _columns(self.pool, new)])
        self.chosen = np.concatenate([self.chosen, new])
        A, group = np.unique(self.A, axis=1, return_inverse=True)  # Equal rows are one.
        k, n, group = *A.shape, group.ravel()
        cost = np.bincount(group, self.cost)
        bounds = np.column_stack([np.zeros(n), cost])
        names = "primal_feasibility_tolerance", "dual_feasibility_tolerance"
        options = dict.fromkeys(names, HIGHS_TOL) | {"presolve": False}
        solution = linprog(-np.ones(n), A, np.ones(k), bounds=bounds, options=options)
        if solution.x is None:
            raise RuntimeError(
                "LPBoost: scipy's linprog found no solution of the master problem, status "
                f"{solution.status} ({solution.message}); scale C or the weights"
            )
        self.q = np.maximum(-solution.ineqlin.marginals, 0.0)
        return self.price((np.clip(solution.x, 0.0, cost) / cost)[group] * self.cost)

    def price(self, a):
        """Edges of all voters; stores a (n,) if its dual value is the largest so far."""
        edges = self.both(self.pool.edges(a))
        dual = a.sum() / max(1.0, edges.max())
        if dual > self.dual:
            self.best, self.dual = a, dual
        return edges

    def hinge(self, g):
        """Hinge loss of the margins g (n,)."""
        return self.cost @ np.maximum(1.0 - g, 0.0)


# -- CGBoost --------------------------------------------------------------------------------------
# Problem   min |q|^2 / 2 + C sum xi over q and xi    subject to    A q >= 1 - xi, q >= 0, xi >= 0
# Dual      max sum a - sum_j max(A_j'a, 0)^2 / 2     subject to    0 <= a <= C
#           and the weights are the edges: q_j = max(A_j'a, 0).
# Pricing   Voters with an edge A_j'a > 0 enter. Of a voter and its complement one has such an edge:
#           w_j = A_j'a of any sign stands for both.
FINE = 1e-12  # Gap, relative to max(1, objective), at which the interior-point method ends.


class CGBoost(_Vote):
    """Vote of small squared weights and small hinge loss: a quadratic program.

    Use it for a smoother vote than LPBoost, on up to some thousand rows.

    It has a variable for each row, so row blocks are refused.

    Parameters
    ----------
    C : float > 0
        Weight of the loss.
    voters, n_thresholds, gamma, complements, eps, max_columns, master, voting, \
class_weight, n_jobs, verbose, callback : as in _Vote

    Attributes as in CqBoost; weights_ sum to total_, by which margins are divided.
    """

    _param_rules = {"C": "a finite number > 0"} | GENERATION_RULES | MASTER_RULES
    _raw = True
    _row_variables = True

    def __init__(
        self, C=1.0, voters="stumps", n_thresholds=10, gamma="scale", complements=None, eps=1e-6,
        max_columns=None, master="auto", voting="hard", class_weight=None, n_jobs=1, verbose=0,
        callback=None,
    ):  # fmt: skip
        self._set(locals())

    def _learn(self, pool):
        limit = self.max_columns or pool.size
        masters = [*MASTERS[self.master], *((_ActiveSet,) if self.master == "osqp" else ())]
        state = _SquaredProgram(pool, self.C * pool.weight, self._complemented)
        edges = state.price(state.a)
        while True:
            # Step 1: the voters with the largest edges enter, up to the limit.
            edges[state.chosen] = 0.0
            new = np.argsort(-np.abs(edges), kind="stable")[: limit - state.chosen.size]
            new = new[edges[new] != 0.0]
            if new.size:
                state.add(new)
            elif not state.chosen.size:
                total = state.cost.sum()
                self._report_iteration(total, total - state.dual, pool, state.chosen, state.w)
                break

            # Step 2: the master, by the interior point or OSQP.
            A, spread = state.columns()
            stop = False
            if masters[0] is _ActiveSet:
                stop = self._interior_point(state, A, spread)
            else:
                state.price(masters[0]().hinge(A, state.cost, state.signed, state.a))

            # Step 3: the certificate. If no voter is left to enter, the next master continues.
            edges = state.price(state.a)
            stop = stop or self._report_state(state)
            ended = not np.delete(edges, state.chosen).any() or state.chosen.size == limit
            if stop or self.residual_ <= self.eps or ended and len(masters) == 1:
                break
            if ended:
                masters.pop(0)
        return *state.vote(), state.a

    def _interior_point(self, state, A, spread):
        """Solve by the interior-point method. Return True if the callback asks to stop."""
        stop, stalled = False, 0
        state.inner_gap = np.inf  # The gap of OSQP is no measure of the first steps.

        def on_iteration(a, q):
            nonlocal stop, stalled
            before = state.inner_gap
            state.price(a, spread(q))
            stalled = 0 if state.inner_gap < before else stalled + 1
            stop = self._report_state(state)
            is_fine = state.inner_gap <= FINE * max(1.0, state.objective)
            return stop or is_fine or stalled == STALLED_STEPS

        _InteriorPoint(A, state.cost, 1.0, state.signed).solve(on_iteration)
        return stop

    def _report_state(self, state):
        gap = state.objective - state.dual
        return self._report_iteration(state.objective, gap, state.pool, *state.vote())


class _SquaredProgram:
    """CGBoost's program over the chosen voters: the best vote and the best multipliers so far."""

    def __init__(self, pool, cost, signed):
        self.pool, self.cost, self.signed = pool, cost, signed
        self.kinds = pool.kinds()
        self.chosen = np.empty(0, np.intp)
        self.a, self.dual = cost, -np.inf
        self.w, self.objective = np.empty(0), np.inf
        self.inner_gap = np.inf  # of the program over the chosen voters

    def add(self, new):
        """Choose these voters, too."""
        self.chosen = np.concatenate([self.chosen, new])
        self.inner_gap = self.objective = np.inf

    def columns(self):
        """Margins of the chosen voters of different kinds, (n, kinds), and a function from their
        weights to those of all: m equal voters are one, times the root of m."""
        _, one, place, count = np.unique(
            self.kinds[self.chosen], return_index=True, return_inverse=True, return_counts=True
        )
        root = np.sqrt(count)
        A = _columns(self.pool, self.chosen[one]) * root[:, None]
        return np.ascontiguousarray(A.T), lambda q: (q / root)[place]

    def price(self, a, *votes):
        """Edges of the base voters. Stores a (n,) if its dual value is the largest so far, and the
        best of the vote that follows from it, the given votes and the best so far."""
        edges = self.pool.edges(a)
        edges = edges if self.signed else np.maximum(edges, 0.0)
        dual = a.sum() - 0.5 * edges @ edges
        if dual > self.dual:
            self.a, self.dual = a, dual
        own = edges[self.chosen]
        for w in (own, *votes):
            g = self.pool.margins(np.bincount(self.chosen, w, self.pool.size))
            value = 0.5 * w @ w + self.cost @ np.maximum(1.0 - g, 0.0)
            if value < self.objective:
                self.w, self.objective = w, value
        self.inner_gap = min(self.inner_gap, self.objective - a.sum() + 0.5 * own @ own)
        return edges

    def vote(self):
        """Chosen voters, as complements if their weight is negative, and sizes of the weights."""
        return self.chosen + np.where(self.w < 0, self.pool.size, 0), np.abs(self.w)


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    blobs = generator.normal(size=(400, 5)) + np.repeat([[-0.7], [0.7]], 200, axis=0)
    labels = np.repeat(["left", "right"], 200)
    for model in (CqBoost(), MinCq(), MDBoost(), LPBoost(C=0.01), CGBoost(C=0.01)):
        model.fit(blobs, labels)
        print(f"{model!r}: {model.n_columns_} of {model.n_voters_} voters, objective "
              f"{model.objective_:.6f}, gap {model.residual_:.1e}, accuracy "
              f"{model.score(blobs, labels):.3f}, C-bound {model.c_bound():.3f}")  # fmt: skip
        assert model.residual_ <= model.tol

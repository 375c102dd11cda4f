"""One linear member of solvers/exrm.py on row blocks: Newton's method on weights and bias."""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from .. import exrm
from ..exrm import EPS, LANES, TINY, _exclusivity, _Newton, _power_prox
from . import ThreadBlocks, kernels_on
from .checks import check_blocks

jit = kernels_on(exrm)

SAMPLE_CELLS = 2**20  # Numbers of X in the sample that is solved first, at most.
SEARCH_STEPS = 16  # Step lengths tried per round of the line search.
SEARCH_ROUNDS = 12  # Rounds of the line search, at most.
SHORT_ROW = 32  # Columns up to which rows of slope 0 are added, too: a branch costs more.
LOSS_ROWS = 2**16  # Rows per call in the certificate.
MIN_SUBSAMPLE_CELLS = 2**18  # Of a subsample per thread; below, calls cost more than it saves.
MIN_CELLS_PER_THREAD = 2**21  # Numbers of X per thread; below, its start costs more than it saves.


class _Hinge(NamedTuple):
    """Loss of a row, scale * weight * max(0, z)^p; its Moreau envelope if p < 2."""

    scale: float
    p: float
    width: float


def _solve_blocks(blocks, sample, hinge, beta, tol, monitor, n_jobs=1):
    """Solve for one member on row blocks: on nested subsamples of `sample`, then on all rows.

    sample : X, y and weight of some rows, in memory; their mean is subtracted from the columns
    Returns W, b, objective and residual. Only sums over rows leave a block.
    """
    (n, d), (X, y, weight) = blocks.shape, sample
    centre = X.mean(0)
    width = exrm.ENVELOPE_MAX if hinge.p < 2 else 0.0
    start = np.zeros((1, d)), np.zeros(1), None, width
    enough = max(tol, exrm.SUBSAMPLE_TOL if hinge.p >= 2 else exrm.SUBSAMPLE_TOL_ENVELOPE)
    for size in exrm._subsample_sizes(len(X), d)[::-1] if monitor.max_iter > 1 else ():
        rows = exrm._subsample_rows(len(X), size) if size < len(X) else slice(None)
        scaled = hinge._replace(scale=hinge.scale * n / size)
        threads = max(min(n_jobs, size * d // MIN_SUBSAMPLE_CELLS), 1)
        with ThreadBlocks(X[rows], y[rows], weight[rows], threads) as subsample:
            run = _BlockNewton(subsample, scaled, beta, centre, start)
            W, b, _ = run.solve(enough, exrm.SUBSAMPLE_STEPS, partial(monitor, rows=size))
            hessian = run.fresh_hessian() if hinge.p >= 2 else None
            start = W, b, hessian, run.width

    run = _BlockNewton(blocks, hinge, beta, centre, start, n_jobs)
    W, b, dual = run.solve((1.0 - 2.0 * exrm.ROUNDING_FRACTION) * tol, exrm.NEWTON_STEPS, monitor)
    b = b - W @ centre
    return W, b, *_block_certificate(blocks, hinge, beta, W, b, dual, tol, n_jobs)


class _BlockNewton(_Newton):
    """Semismooth Newton method in weights and bias of one member, on row blocks.

    An iteration costs one pass over X. It gives the outputs' moves, and at the full step loss,
    gradient and Hessian. A second pass follows if the step was too long, the multipliers change,
    or a Hessian of an earlier iterate has become too old.

    start : W (1, d), bias b (1,) of columns minus the centre, their Hessian (d + 1, d + 1) or None,
        and the width of the envelope
    """

    multipliers_apart = True

    def __init__(self, blocks, hinge, beta, centre, start, n_jobs=1):
        d = blocks.shape[1]
        self.blocks, self.hinge, self.beta, self.p = blocks, hinge, beta, hinge.p
        self.n_jobs, self.middle = n_jobs, centre
        self.W, self.b, self.augmented_hessian, self.width = start
        self.single = beta == 0
        self.dW = np.empty((1, d))
        self.last_gap, self.taken = np.inf, 0.0
        self.is_fresh = self.augmented_hessian is None  # If True, a pass forms the Hessian.
        blocks.map_inplace(_allocate_state, self.p, n_jobs=n_jobs)
        self.pass_over_rows(self.W[0], self.b[0])

    def pass_over_rows(self, w=None, b=0.0, renew=0.0):
        """Run one pass over X, see `_pass_rows`; outputs move by w and b, if given.

        Sets the loss, neg_loss_grad (d + 1,) in weights and bias, their sums by class and, if fresh
        or p < 2, augmented_hessian.
        """
        d = self.middle.size
        args = self.middle, np.empty(0) if w is None else w, b, self.taken, renew
        self.is_fresh = self.is_fresh or self.p < 2
        args = _block_pass, args, self.hinge._replace(width=self.width), self.is_fresh
        results = self.blocks.map_inplace(*args, n_jobs=self.n_jobs)
        self.sums = sum(sums for sums, _ in results)
        self.neg_loss_grad, self.loss = self.sums[:, : d + 1].sum(0), self.sums[:, d + 2].sum()
        if self.is_fresh:
            self.augmented_hessian = sum(hessian for _, hessian in results)
        self.taken = 0.0 if w is None else 1.0

    def fresh_hessian(self):
        """Return the Hessian at the iterate; one more pass if the present one is older."""
        if not self.is_fresh:
            self.is_fresh = True
            self.pass_over_rows()
        return self.augmented_hessian

    def measure(self):
        """Set the objective and its duality gap; return the dual value.

        The multipliers of the heavier class are scaled down: then they are feasible in the dual.
        """
        d, p = self.middle.size, self.p
        total = np.abs(self.sums[:, d])
        dual_scale = np.minimum(1.0, total[::-1] / np.where(total > 0, total, np.inf))
        G = (dual_scale @ self.sums[:, :d])[None]
        reg, _, conjugate, _, _ = _exclusivity(self.W, self.W, 0.0, 1.0, G, self.beta)
        dual = dual_scale @ total - conjugate
        if p > 1:
            dual -= (p - 1.0) * dual_scale ** (p / (p - 1.0)) @ self.sums[:, d + 1]
        self.objective = reg + self.loss
        self.gap = max(abs(self.objective - dual), EPS * self.objective)
        if p < 2:
            self.eliminate_bias()
            inner = self.neg_loss_grad[:d] @ self.W[0] + self.neg_loss_grad[d] * self.b[0]
            self.outer_gap = self.loss + (p - 1.0) * self.sums[:, d + 1].sum() - total.sum() + inner
        return dual

    def eliminate_bias(self):
        """Set Hessian H (1, d, d) and negative gradient G (1, d) in w, minimised over the bias.

        Also sets bias_step, the Newton step of the bias at fixed w, and inner_gap, the duality gap
        of the envelope problem.
        """
        d = self.middle.size
        bias_curvature, neg_bias_grad = self.augmented_hessian[d, d], self.neg_loss_grad[d]
        bias_curvature = bias_curvature or abs(neg_bias_grad) or 1.0  # Flat: a step of +-1.

        # The Schur complement of the bias.
        self.centre = self.augmented_hessian[None, d, :d] / bias_curvature
        self.H = self.augmented_hessian[None, :d, :d] - self.augmented_hessian[:d, d:] * self.centre
        self.G = self.neg_loss_grad[None, :d] - self.centre * neg_bias_grad
        self.bias_step = neg_bias_grad / bias_curvature
        reg, _, conjugate, inner, _ = _exclusivity(self.W, self.W, 0.0, 1.0, self.G, self.beta)
        self.inner_gap = max(reg + conjugate - inner, 0.0) + 0.5 * self.bias_step * neg_bias_grad

    def update_multipliers(self):
        """Step of the augmented Lagrangian: slopes become multipliers of a narrower envelope."""
        old, self.width = self.width, max(self.width / exrm.ENVELOPE_DECAY, exrm.ENVELOPE_MIN)
        self.pass_over_rows(renew=old)

    def find_direction(self, tol):
        """Set dW (1, d) and move_b to the Newton step; the Hessian is new, or of before."""
        if self.gap > exrm.HESSIAN_REUSE * self.last_gap:
            self.fresh_hessian()
        self.eliminate_bias()
        self.solve_model(tol)
        self.move_b = self.bias_step - self.centre[0] @ self.dW[0]

    def advance(self):
        """Go along (dW, move_b) while the objective falls; return False if it does not fall."""
        first = self.directional_derivative(0.0, 1.0)
        if not first < 0:  # No descent is left in floating point.
            return False
        self.is_fresh = self.gap > exrm.HESSIAN_REUSE * self.last_gap
        self.last_gap = self.gap

        # The full step, or a shorter one if the objective rises again at its end.
        self.pass_over_rows(self.dW[0], self.move_b)
        last = self.directional_derivative(1.0, -1.0)
        if last > exrm.OVERSHOOT * abs(first):
            self.taken = self.line_search(first, last)
            self.dW *= self.taken
            self.move_b *= self.taken
            self.pass_over_rows()
        self.W, self.b = self.W + self.dW, self.b + self.move_b
        return True

    def directional_derivative(self, step, side):
        """Derivative of the objective along (dW, move_b) after a step, at neg_loss_grad."""
        ahead = _exclusivity(self.W, self.dW, step, side, self.W, self.beta)[1]
        return ahead - self.neg_loss_grad[:-1] @ self.dW[0] - self.neg_loss_grad[-1] * self.move_b

    def line_search(self, first, last):
        """Root in (0, 1) of the derivative along (dW, move_b), which is first at 0 and last at 1.

        A round tries several step lengths and needs the stored outputs only.
        """
        hinge = self.hinge._replace(width=self.width)
        ends = np.array([[0.0, 1.0], [first, last]])
        count = SEARCH_STEPS // (1 if self.p in (1.0, 2.0) else 4)  # Other powers cost more.
        for _ in range(SEARCH_ROUNDS):
            steps = np.linspace(*ends[0], count + 2)[1:-1]
            losses = sum(self.blocks.map(_block_slopes, steps, hinge, n_jobs=self.n_jobs))
            ahead = [_exclusivity(self.W, self.dW, s, -1.0, self.W, self.beta)[1] for s in steps]
            slopes = np.array(ahead) - losses
            best = np.abs(slopes).argmin()
            if abs(slopes[best]) <= exrm.FLAT_SLOPE * abs(first):
                return steps[best]
            k = np.count_nonzero(slopes <= 0)
            ends = np.column_stack([ends[:, :1], [steps, slopes], ends[:, 1:]])[:, k : k + 2]
        return steps[best]


# -- block functions and their kernels ----------------------------------------------------------
def _sample(blocks, n_jobs=1):
    """X, y and weight of a sample of the rows; of all rows if they are few."""
    n, d = blocks.shape
    most = max(SAMPLE_CELLS // d, 1)
    size = n if n <= most else min([most, *exrm._subsample_sizes(n, d)[1:2]])
    samples = blocks.map(_block_sample, n, size, n_jobs=n_jobs)
    return [np.concatenate(each) for each in zip(*samples, strict=True)]


def _block_sample(block, n, size):
    """X, y and weight of the block's rows in a sample. Reads these rows of X only."""
    X, rows = block.X, exrm._subsample_rows(n, size)
    first, last = np.searchsorted(rows, (block.start, block.start + len(X)))
    rows = rows[first:last] - block.start
    return np.asarray(X[rows]), block.target[rows], block.weight[rows]


def _allocate_state(block, p):
    """Allocate outputs, moves and, if p < 2, multiplier_ratio. Does not read X."""
    n = len(block.target)
    block.allocate("outputs", n)
    block.allocate("moves", n)
    block.allocate("multiplier_ratio", n if p < 2 else 0)


def _row_state(block):
    """Outputs, their last moves, multipliers divided by the cost (empty if p >= 2), targets and
    weights of the rows, plain arrays (n,)."""
    names = "outputs", "moves", "multiplier_ratio", "target", "weight"
    return tuple(np.asarray(getattr(block, name)) for name in names)


def _block_pass(block, args, hinge, with_hessian):
    """Move the outputs, once through X; return the sums (2, d + 3) of `_pass_rows` there and, if
    with_hessian, the Hessian in (w, b), (d + 1, d + 1)."""
    whole, state = np.asarray(block.X), _row_state(block)
    n, d = whole.shape
    sums, hessian = np.zeros((2, d + 3)), np.zeros((d + 1, d + 1)) if with_hessian else None
    size = min(n, exrm.HESSIAN_ROWS) if with_hessian else n
    some = size if with_hessian else 0
    curvature, rows = np.empty(some), np.empty((some, d + 1))
    for start in range(0, n, size):
        at = slice(start, start + size)
        X = whole[at]
        _pass_rows(X, tuple(each[at] for each in state), args, hinge, sums, curvature)
        if with_hessian:
            k, _ = exrm._weighted_rows(X, args[0], curvature[: len(X)], 0, rows)
            with np.errstate(all="ignore"):  # A thread does not inherit the state of fit's.
                hessian += rows[:k].T @ rows[:k]
    return sums, hessian


@jit(nogil=True, fastmath=LANES)
def _pass_rows(X, state, args, hinge, sums, curvature):
    """Move the outputs of rows X (n, d), and add to sums (2, d + 3), a row per class: y * slope *
    (x - centre, 1), the terms of the conjugates, and the losses.

    (1) outputs += taken * moves; (2) if renew > 0, multipliers = slopes of the envelope of width
    renew; (3) moves = (x - centre).w + b, or 0 if w is empty. Overwrites curvature (n,) unless it
    is empty.
    """
    outputs, moves, multiplier_ratio, y, weight = state
    centre, w, b, taken, renew = args
    scale, p, width = hinge
    d = X.shape[1]
    for i in range(X.shape[0]):
        c = scale * weight[i]
        outputs[i] += taken * moves[i]
        ratio = 0.0
        if width > 0.0:
            if renew > 0.0 and c > 0.0:
                z = 1.0 - y[i] * outputs[i]
                multiplier_ratio[i] = _row_loss(z, c, multiplier_ratio[i], p, renew)[0] / c
            ratio = multiplier_ratio[i]

        # The move.
        move = 0.0
        if w.size > 0:
            move = b
            for j in range(d):
                move += (X[i, j] - centre[j]) * w[j]
        moves[i] = move

        # Loss, slope and curvature at the full step.
        z = 1.0 - y[i] * (outputs[i] + move)
        slope, second, loss, power = _row_loss(z, c, ratio, p, width)
        if curvature.size > 0:
            curvature[i] = second
        k = 1 if y[i] > 0.0 else 0
        if slope > 0.0 or d <= SHORT_ROW:
            slope *= y[i]
            for j in range(d):
                sums[k, j] += slope * (X[i, j] - centre[j])
            sums[k, d] += slope
            sums[k, d + 1] += power
        sums[k, d + 2] += loss


@jit(inline="always")
def _row_loss(z, c, ratio, p, width):
    """Slope and second derivative of one row's loss, or of its envelope with the multiplier
    c * ratio; the loss c max(0, z)^p itself; and c e^p, for the conjugate at the slope."""
    if p == 2.0:
        e = max(z, 0.0)
        return 2.0 * c * e, 2.0 * c if e > 0.0 else 0.0, c * e * e, c * e * e
    v = z + ratio * width
    if p == 1.0:
        second = c / width if v > 0.0 and v < width else 0.0
        return c * min(max(v / width, 0.0), 1.0), second, c * max(z, 0.0), 0.0

    loss = c * max(z, 0.0) ** p
    if not v > 0.0:
        return 0.0, 0.0, loss, 0.0
    e = _power_prox(v, width, p) if width > 0.0 else v
    if width > 0.0 and e < TINY:
        return c * v / width, c / width, loss, 0.0
    slope = c * p * e ** (p - 1.0)
    second = (p - 1.0) * p * e ** (p - 2.0)
    return slope, c * second / (1.0 + width * second), loss, slope * e / p


def _block_slopes(block, steps, hinge):
    """Derivative of the block's losses along the moves after each step, (steps,). Does not read
    X."""
    out = np.zeros(steps.size)
    _slopes_along(_row_state(block), steps, *hinge, out)
    return out


@jit(nogil=True)
def _slopes_along(state, steps, scale, p, width, out):
    """out[k] += sum of y * slope * move after steps[k]."""
    outputs, moves, multiplier_ratio, y, weight = state
    for i in range(outputs.size):
        ratio = multiplier_ratio[i] if width > 0.0 else 0.0
        for k in range(steps.size):
            z = 1.0 - y[i] * (outputs[i] + steps[k] * moves[i])
            out[k] += y[i] * moves[i] * _row_loss(z, scale * weight[i], ratio, p, width)[0]


def _block_certificate(blocks, hinge, beta, W, b, dual, tol, n_jobs):
    """Objective and relative duality gap of (W, b) on row blocks.

    One pass over X; a second, in double-double arithmetic, if rounding would dominate.
    """
    reg = 0.5 * ((np.abs(W).sum(0) + beta) ** 2).sum()
    for exact in (False, True):
        sums = blocks.map(_block_loss, hinge, W, b, exact, n_jobs=n_jobs)
        loss, total, square, squares = np.array(sums).sum(0)
        objective, error = reg + loss, EPS * total
        if not exact:
            error = math.sqrt(squares * square * (W @ W.T)[0, 0]) + total * abs(b[0])
            error *= EPS * (W.shape[1] + 2)
        if error <= exrm.ROUNDING_FRACTION * tol * objective:
            break
    return float(objective), exrm._residual(objective, dual, error)


def _block_loss(block, hinge, W, b, exact):
    """Sums (4,) over the rows at W and b: loss, slopes |ya|, their squares, squares of X.

    If exact, outputs are in double-double, and the second sum is |ya| (1 + |output|). Reads X.
    """
    whole, (*_, y, weight) = np.asarray(block.X), _row_state(block)
    sums, outputs = np.zeros(4), np.empty(min(len(whole), LOSS_ROWS))
    hinge = hinge._replace(width=TINY if hinge.p == 1 else 0.0)
    for start in range(0, len(whole), LOSS_ROWS):
        at = slice(start, start + LOSS_ROWS)
        X, out = whole[at], outputs[: len(whole) - start]
        if exact:
            exrm._compensated_outputs(X, W[0], b[0], out)
        _loss_rows(X, W[0], b[0], y[at], weight[at], hinge, exact, out, sums)
    return sums


@jit(nogil=True, fastmath=LANES)
def _loss_rows(X, w, b, y, weight, hinge, exact, out, sums):
    """Add the terms of `_block_loss` to sums (4,); out (n,) holds the outputs if exact, and is
    overwritten by them if not."""
    scale, p, width = hinge
    for i in range(X.shape[0]):
        if not exact:
            f = b
            squares = 0.0
            for j in range(X.shape[1]):
                f += X[i, j] * w[j]
                squares += X[i, j] * X[i, j]
            out[i] = f
            sums[3] += squares
        c = scale * weight[i]
        slope, _, loss, _ = _row_loss(1.0 - y[i] * out[i], c, 0.0, p, width)
        sums[0] += loss
        sums[1] += slope * (1.0 + abs(out[i])) if exact else slope
        sums[2] += slope * slope


# -- fits ---------------------------------------------------------------------------------------
def fit(model, blocks, y, sample_weight, monitor):
    """Fit ExRM to row blocks; return X of a sample of the rows, and W, b, objective, residual."""
    name, jobs, n = type(model).__name__, model._threads(), blocks.shape[0]
    for param, value in {"sampling": None, "kernel": "linear", "solver": "auto"}.items():
        if getattr(model, param) != value:
            got = f"got {getattr(model, param)!r}; pass X and y as arrays for other values"
            raise ValueError(f"{name}: on row blocks {param} must be {value!r}, {got}")
    check_blocks(model, blocks, y, sample_weight)
    X, y, weight = sample = _sample(blocks, jobs)
    hinge = _Hinge(model.lam / model.n_estimators, float(model.p), 0.0)
    beta = model.beta / model.n_estimators
    with np.errstate(all="ignore"):
        if len(X) < n:
            return X, _solve_blocks(blocks, sample, hinge, beta, model.tol, monitor, jobs)
        problem = exrm._Problem(X, y, hinge.scale * weight[None], hinge.p, beta)
        return X, exrm._solve(problem, model.tol, monitor)


def solve_threads(model, X, y, weight, copies, monitor):
    """Solve for one member on rows in memory, a block per thread; None if one thread is as fast."""
    threads = min(model._threads(), X.size // MIN_CELLS_PER_THREAD)
    if threads < 2 or len(X) < exrm.ROWS_PER_FEATURE * X.shape[1]:
        return None
    hinge = _Hinge(model.lam / copies, float(model.p), 0.0)
    with ThreadBlocks(X, y, weight, threads) as blocks:
        args = hinge, model.beta / copies, model.tol, monitor, threads
        return _solve_blocks(blocks, _sample(blocks), *args)

"""One machine of solvers/exrm.py on row blocks: threads, files, other machines.

Newton's method on weights and bias together asks for sums over rows only: see _BlockNewton.
"""

import math  # noqa: I001
from functools import partial
from typing import NamedTuple

import numpy as np

from .. import exrm
from ..exrm import (
    EPS,
    ROUNDING_FRACTION as ERROR_PART,
    ROWS_PER_FEATURE as FEW_ROWS,
    FLAT_SLOPE,
    HESSIAN_REUSE as FROZEN,
    HESSIAN_ROWS,
    LANES,
    SUBSAMPLE_STEPS as LEVEL_STEPS,
    SUBSAMPLE_TOL as LEVEL_TOL,
    SUBSAMPLE_TOL_ENVELOPE as LEVEL_TOL_SLOW,
    ENVELOPE_MIN as NARROWEST,
    NEWTON_STEPS,
    OVERSHOOT,
    ENVELOPE_DECAY as SHRINK,
    TINY,
    ENVELOPE_MAX as WIDEST,
    _weighted_rows as _curved_rows,
    _compensated_outputs as _exact_outputs,
    _exclusivity,
    _subsample_sizes as _levels,
    _Newton,
    _power_prox,
    _Problem,
    _residual,
    _subsample_rows as _scattered,
    _solve,
)  # fmt: skip
from . import Threads, kernels_on
from .checks import check_blocks

jit = kernels_on(exrm)

SAMPLE_CELLS = 2**20  # The sample from which the method starts has this many numbers at most.
STEPS_AT_ONCE = 16  # One round of the line search looks at this many lengths.
STEP_ROUNDS = 12  # The line search takes no more rounds than this.
SHORT = 32  # Rows of up to this many numbers are added even where their slope is 0.
LOSS_ROWS = 2**16  # The certificate takes this many rows at a time.
LEVEL_CELLS = 2**18  # A thread has to have this many numbers of a sample to be worth its calls.
THREAD_CELLS = 2**21  # A thread has to have this many numbers of X to be worth its start.


class _Hinge(NamedTuple):
    """The loss of a row, scale * weight * max(0, z)^p; for p < 2 its envelope of width delta."""

    scale: float
    p: float
    delta: float


class _Way(NamedTuple):
    """What a pass does to a block. First its outputs take the part `taken` of their last moves,
    and where renew > 0, the slopes of an envelope of that width become the multipliers. Then they
    move with the machine, by (x - centre).w + b; an empty w moves nothing."""

    centre: np.ndarray
    w: np.ndarray
    b: float
    taken: float
    renew: float


class _Kept(NamedTuple):
    """What a block knows of its rows: outputs, their last moves, multipliers (p < 2, as parts of
    the cost), signs, weights."""

    outputs: np.ndarray
    moves: np.ndarray
    share: np.ndarray
    y: np.ndarray
    weight: np.ndarray


class _Machine(NamedTuple):
    """Where Newton's method on blocks starts: one machine, whose bias is that of columns seen from
    the centre, the sums of bend (x, 1)(x, 1)' there or None, and the width of the envelope."""

    W: np.ndarray
    b: np.ndarray
    moments: np.ndarray | None
    delta: float


def _solve_blocks(blocks, sample, hinge, beta, tol, pulse, n_jobs=1):
    """One machine on row blocks: Newton on nested parts of a sample of the rows, X, y and weight,
    then on all. Returns as _solve.

    A block keeps the outputs and the multipliers of its rows; only sums over rows leave it.
    """
    (n, d), (X, y, weight) = blocks.shape, sample
    centre = X.mean(0)  # It only keeps numbers small.
    start = _Machine(np.zeros((1, d)), np.zeros(1), None, WIDEST if hinge.p < 2 else 0.0)
    enough = max(tol, LEVEL_TOL if hinge.p >= 2 else LEVEL_TOL_SLOW)
    for size in _levels(len(X), d)[::-1] if pulse.max_iter > 1 else ():
        rows = _scattered(len(X), size) if size < len(X) else slice(None)
        part = hinge._replace(scale=hinge.scale * n / size)
        threads = max(min(n_jobs, size * d // LEVEL_CELLS), 1)
        with Threads(X[rows], y[rows], weight[rows], threads) as level:
            run = _BlockNewton(level, part, beta, centre, start)
            W, b, _ = run.solve(enough, LEVEL_STEPS, partial(pulse, rows=size))
            start = _Machine(W, b, run.new_moments() if hinge.p >= 2 else None, run.width)

    run = _BlockNewton(blocks, hinge, beta, centre, start, n_jobs)
    W, b, dual = run.solve((1.0 - 2.0 * ERROR_PART) * tol, NEWTON_STEPS, pulse)
    b = b - W @ centre
    return W, b, *_block_certificate(blocks, hinge, beta, W, b, dual, tol, n_jobs)


class _BlockNewton(_Newton):
    """Semismooth Newton on weights and bias of one machine, in row blocks.

    An iteration costs one pass over X: it finds the outputs' moves, and behind the full step loss,
    slope and curvature. A second pass follows where the step was too long, the multipliers move,
    or a curvature that was kept has become too old.
    """

    multipliers_apart = True

    def __init__(self, blocks, hinge, beta, centre, start, n_jobs=1):
        d = blocks.shape[1]
        self.blocks, self.hinge, self.beta, self.p = blocks, hinge, beta, hinge.p
        self.n_jobs, self.middle = n_jobs, centre
        self.W, self.b, self.moments, self.width = start
        self.single = beta == 0
        self.dW, self.factor = np.empty((1, d)), np.empty((d + 1, d + 1))
        self.last_gap, self.last_pull = np.inf, None
        self.taken, self.curved = 0.0, self.moments is None
        blocks.change(_begin_step, self.p, n_jobs=n_jobs)
        self.look(self.W[0], self.b[0])

    def look(self, w=None, b=0.0, renew=0.0):
        """One pass over X, as _Way says. Sets the loss, its slopes `pull` in weights and bias, each
        class's part of them, and where curved or p < 2, the moments."""
        d = self.middle.size
        way = _Way(self.middle, np.empty(0) if w is None else w, b, self.taken, renew)
        self.curved = self.curved or self.p < 2
        hinge = self.hinge._replace(delta=self.width)
        found = self.blocks.change(_pass_step, way, hinge, self.curved, n_jobs=self.n_jobs)
        self.sums = sum(sums for sums, _ in found)
        self.pull, self.loss = self.sums[:, : d + 1].sum(0), self.sums[:, d + 2].sum()
        if self.curved:
            self.moments = sum(moments for _, moments in found)
        self.taken = 0.0 if w is None else 1.0

    def new_moments(self):
        """The moments at the iterate; one more pass where those at hand are older."""
        if not self.curved:
            self.curved = True
            self.look()
        return self.moments

    def measure(self):
        """Sets the objective and its duality gap; returns the dual value. Slopes of the heavier
        class are scaled down: then they are a point of the dual."""
        d, p = self.middle.size, self.p
        total = np.abs(self.sums[:, d])
        cut = np.minimum(1.0, total[::-1] / np.where(total > 0, total, np.inf))
        G = (cut @ self.sums[:, :d])[None]
        reg, _, conjugate, _, _ = _exclusivity(self.W, self.W, 0.0, 1.0, G, self.beta)
        dual = cut @ total - conjugate
        if p > 1:
            dual -= (p - 1.0) * cut ** (p / (p - 1.0)) @ self.sums[:, d + 1]
        self.objective = reg + self.loss
        self.gap = max(abs(self.objective - dual), EPS * self.objective)
        if p < 2:
            self.eliminate_bias()
            inner = self.pull[:d] @ self.W[0] + self.pull[d] * self.b[0]
            self.outer_gap = self.loss + (p - 1.0) * self.sums[:, d + 1].sum() - total.sum() + inner
        return dual

    def eliminate_bias(self):
        """Sets Hessian H and slope G of the weights with the bias at the model's minimum, which is
        lead away, and the gap to the minimum of the envelope that follows from them."""
        d = self.middle.size
        weight, lead = self.moments[d, d], self.pull[d]
        weight = weight or abs(lead) or 1.0  # Without curvature the bias goes by 1.
        self.centre = self.moments[None, d, :d] / weight
        self.lead = lead / weight
        self.H = self.moments[None, :d, :d] - self.moments[:d, d:] * self.centre
        self.G = self.pull[None, :d] - self.centre * lead
        reg, _, conjugate, inner, _ = _exclusivity(self.W, self.W, 0.0, 1.0, self.G, self.beta)
        self.inner_gap = max(reg + conjugate - inner, 0.0) + 0.5 * self.lead * lead

    def move_multipliers(self):
        """Augmented Lagrangian: the slopes become the multipliers of a narrower envelope."""
        old, self.width = self.width, max(self.width / SHRINK, NARROWEST)
        self.look(renew=old)

    def find_direction(self, tol):
        """Newton's step of weights and bias, in move and move_b. The curvature is new, or kept and
        corrected by what the last move showed."""
        if self.gap > FROZEN * self.last_gap:
            self.new_moments()
        self.eliminate_bias()
        self.solve_model(tol)
        self.move_b = self.lead - self.centre[0] @ self.dW[0]

    def advance(self):
        """Go along move as far as the objective falls; False where it does not fall at all."""
        first = self.slope(0.0, 1.0)
        if not first < 0:  # No descent is left in floating point.
            return False
        self.curved = self.gap > FROZEN * self.last_gap
        self.last_gap, self.last_pull = self.gap, self.pull

        # The full step, or a shorter one where the objective rises again at its end.
        self.look(self.dW[0], self.move_b)
        last = self.slope(1.0, -1.0)
        if last > OVERSHOOT * abs(first):
            self.taken = self.step_length(first, last)
            self.dW *= self.taken
            self.move_b *= self.taken
            self.look()
        self.W, self.b = self.W + self.dW, self.b + self.move_b
        self.last_move = np.append(self.dW, self.move_b)
        return True

    def slope(self, step, side):
        """Slope of the objective along move after this step, whose losses are those in pull."""
        ahead = _exclusivity(self.W, self.dW, step, side, self.W, self.beta)[1]
        return ahead - self.pull[:-1] @ self.dW[0] - self.pull[-1] * self.move_b

    def step_length(self, first, last):
        """Where in (0, 1) the objective stops falling, by its slope, which is first at 0 and last
        at 1. A round needs the kept outputs only, and looks at several steps."""
        hinge = self.hinge._replace(delta=self.width)
        ends = np.array([[0.0, 1.0], [first, last]])
        count = STEPS_AT_ONCE // (1 if self.p in (1.0, 2.0) else 4)  # Other powers cost more.
        for _ in range(STEP_ROUNDS):
            steps = np.linspace(*ends[0], count + 2)[1:-1]
            losses = sum(self.blocks.map(_slopes_step, steps, hinge, n_jobs=self.n_jobs))
            ahead = [_exclusivity(self.W, self.dW, s, -1.0, self.W, self.beta)[1] for s in steps]
            slopes = np.array(ahead) - losses
            best = np.abs(slopes).argmin()
            if abs(slopes[best]) <= FLAT_SLOPE * abs(first):
                return steps[best]
            k = np.count_nonzero(slopes <= 0)
            ends = np.column_stack([ends[:, :1], [steps, slopes], ends[:, 1:]])[:, k : k + 2]
        return steps[best]


def _sample(blocks, n_jobs=1):
    """X, y and weight of all rows where a sample may have as many, else of the first level."""
    n, d = blocks.shape
    most = max(SAMPLE_CELLS // d, 1)
    size = n if n <= most else min([most, *_levels(n, d)[1:2]])
    found = blocks.map(_sample_step, n, size, n_jobs=n_jobs)
    return [np.concatenate(each) for each in zip(*found, strict=True)]


def _sample_step(block, n, size):
    """The block's rows of a sample; reads these rows of X only."""
    X, rows = block.X, _scattered(n, size)
    first, last = np.searchsorted(rows, (block.start, block.start + len(X)))
    rows = rows[first:last] - block.start
    return np.asarray(X[rows]), block.target[rows], block.weight[rows]


def _begin_step(block, p):
    """Keep outputs, moves and multipliers of 0; does not read X."""
    n = len(block.target)
    block.keep("outputs", n)
    block.keep("moves", n)
    block.keep("share", n if p < 2 else 0)


def _kept(block):
    """What the block knows of its rows, as plain arrays."""
    names = "outputs", "moves", "share", "target", "weight"
    return _Kept(*(np.asarray(getattr(block, name)) for name in names))


def _pass_step(block, way, hinge, curved):
    """Move the outputs, once through X; returns the sums of _pass_rows there, and where curved, the
    sums of bend (x - centre, 1)(x - centre, 1)'."""
    whole, kept = np.asarray(block.X), _kept(block)
    n, d = whole.shape
    sums, moments = np.zeros((2, d + 3)), np.zeros((d + 1, d + 1)) if curved else None
    size = min(n, HESSIAN_ROWS) if curved else n
    bend, rows = np.empty(size if curved else 0), np.empty((size if curved else 0, d + 1))
    for start in range(0, n, size):
        at = slice(start, start + size)
        X = whole[at]
        _pass_rows(X, _Kept(*(each[at] for each in kept)), way, hinge, sums, bend)
        if curved:
            k, _ = _curved_rows(X, way.centre, bend[: len(X)], 0, rows)
            with np.errstate(all="ignore"):  # A thread of its own does not know of fit's.
                moments += rows[:k].T @ rows[:k]
    return sums, moments


@jit(nogil=True, fastmath=LANES)
def _pass_rows(X, kept, way, hinge, sums, bend):
    """Move the outputs of some rows as _Way says, and add to sums (2, d + 3), one row a class: y
    times the losses' slopes times (x - centre, 1), what their conjugates need, and the losses.

    Overwrites outputs, moves and share, and where it has room, bend by the second derivatives.
    """
    outputs, moves, share, y, weight = kept
    centre, w, b, taken, renew = way
    scale, p, delta = hinge
    d = X.shape[1]
    for i in range(X.shape[0]):
        c = scale * weight[i]
        outputs[i] += taken * moves[i]
        part = 0.0
        if delta > 0.0:
            if renew > 0.0 and c > 0.0:
                z = 1.0 - y[i] * outputs[i]
                share[i] = _row_loss(z, c, share[i], p, renew)[0] / c
            part = share[i]

        # The move.
        move = 0.0
        if w.size > 0:
            move = b
            for j in range(d):
                move += (X[i, j] - centre[j]) * w[j]
        moves[i] = move

        # Loss, slope and curvature behind it.
        z = 1.0 - y[i] * (outputs[i] + move)
        slope, second, loss, power = _row_loss(z, c, part, p, delta)
        if bend.size > 0:
            bend[i] = second
        k = 1 if y[i] > 0.0 else 0
        if slope > 0.0 or d <= SHORT:  # In short rows a branch costs more than it saves.
            slope *= y[i]
            for j in range(d):
                sums[k, j] += slope * (X[i, j] - centre[j])
            sums[k, d] += slope
            sums[k, d + 1] += power
        sums[k, d + 2] += loss


@jit(inline="always")
def _row_loss(z, c, share, p, delta):
    """Slope and second derivative of one row's loss, or of its envelope with the multiplier c *
    share; the loss c max(0, z)^p itself, and c e^p for the conjugate of the slope."""
    if p == 2.0:
        e = max(z, 0.0)
        return 2.0 * c * e, 2.0 * c if e > 0.0 else 0.0, c * e * e, c * e * e
    v = z + share * delta
    if p == 1.0:
        bend = c / delta if v > 0.0 and v < delta else 0.0
        return c * min(max(v / delta, 0.0), 1.0), bend, c * max(z, 0.0), 0.0

    loss = c * max(z, 0.0) ** p
    if not v > 0.0:
        return 0.0, 0.0, loss, 0.0
    e = _power_prox(v, delta, p) if delta > 0.0 else v
    if delta > 0.0 and e < TINY:
        return c * v / delta, c / delta, loss, 0.0
    slope = c * p * e ** (p - 1.0)
    second = (p - 1.0) * p * e ** (p - 2.0)
    return slope, c * second / (1.0 + delta * second), loss, slope * e / p


def _slopes_step(block, steps, hinge):
    """Slopes of the block's losses along the moves, after each of these parts of them; does not
    read X."""
    out = np.zeros(steps.size)
    _slopes_along(_kept(block), steps, *hinge, out)
    return out


@jit(nogil=True)
def _slopes_along(kept, steps, scale, p, delta, out):
    """Add to out, for each step, the sum of y times the losses' slopes times the moves."""
    outputs, moves, share, y, weight = kept
    for i in range(outputs.size):
        part = share[i] if delta > 0.0 else 0.0
        for k in range(steps.size):
            z = 1.0 - y[i] * (outputs[i] + steps[k] * moves[i])
            out[k] += y[i] * moves[i] * _row_loss(z, scale * weight[i], part, p, delta)[0]


def _block_certificate(blocks, hinge, beta, W, b, dual, tol, n_jobs):
    """As _certificate, on row blocks: one pass over X, two where digits are short."""
    reg = 0.5 * ((np.abs(W).sum(0) + beta) ** 2).sum()
    for exact in (False, True):
        found = blocks.map(_loss_step, hinge, W, b, exact, n_jobs=n_jobs)
        loss, total, square, squares = np.array(found).sum(0)
        objective, error = reg + loss, EPS * total
        if not exact:
            error = math.sqrt(squares * square * (W @ W.T)[0, 0]) + total * abs(b[0])
            error *= EPS * (W.shape[1] + 2)
        if error <= ERROR_PART * tol * objective:
            break
    return float(objective), _residual(objective, dual, error)


def _loss_step(block, hinge, W, b, exact):
    """Loss of the rows at W and b; sums of its slopes |ya|, of their squares, and the squares of X.
    Exact: of outputs with twice the digits, and of |ya| (1 + |output|). Reads X."""
    whole, (*_, y, weight) = np.asarray(block.X), _kept(block)
    sums, outputs = np.zeros(4), np.empty(min(len(whole), LOSS_ROWS))
    hinge = hinge._replace(delta=TINY if hinge.p == 1 else 0.0)
    for start in range(0, len(whole), LOSS_ROWS):
        at = slice(start, start + LOSS_ROWS)
        X, out = whole[at], outputs[: len(whole) - start]
        if exact:
            _exact_outputs(X, W[0], b[0], out)
        _loss_rows(X, W[0], b[0], y[at], weight[at], hinge, exact, out, sums)
    return sums


@jit(nogil=True, fastmath=LANES)
def _loss_rows(X, w, b, y, weight, hinge, exact, out, sums):
    """Add to sums what _loss_step says, of rows whose outputs stand in out if exact; overwrites
    out if not."""
    scale, p, delta = hinge
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
        slope, _, loss, _ = _row_loss(1.0 - y[i] * out[i], c, 0.0, p, delta)
        sums[0] += loss
        sums[1] += slope * (1.0 + abs(out[i])) if exact else slope
        sums[2] += slope * slope


# -- fits ---------------------------------------------------------------------------------------
def fit(model, blocks, y, sample_weight, pulse):
    """X of a sample of the rows, and W, b, objective and residual of ExRM on row blocks."""
    who, jobs, n = type(model).__name__, model._threads(), blocks.shape[0]
    for name, value in {"sampling": None, "kernel": "linear", "solver": "auto"}.items():
        if getattr(model, name) != value:
            raise ValueError(
                f"{who}: on row blocks {name} must be {value!r}, got {getattr(model, name)!r}; "
                f"pass X and y as arrays for other values"
            )
    check_blocks(model, blocks, y, sample_weight, "an iteration reads it once or twice")
    X, y, weight = sample = _sample(blocks, jobs)
    hinge = _Hinge(model.lam / model.n_estimators, float(model.p), 0.0)
    beta = model.beta / model.n_estimators
    with np.errstate(all="ignore"):
        if len(X) < n:
            return X, _solve_blocks(blocks, sample, hinge, beta, model.tol, pulse, jobs)
        problem = _Problem(X, y, hinge.scale * weight[None], hinge.p, beta)
        return X, _solve(problem, np.ones(1, bool), model.tol, pulse)


def solve_threads(model, X, y, weight, copies, pulse):
    """The same for rows in memory that threads share; None where one is as good."""
    threads = min(model._threads(), X.size // THREAD_CELLS)
    if threads < 2 or len(X) < FEW_ROWS * X.shape[1]:
        return None
    hinge = _Hinge(model.lam / copies, float(model.p), 0.0)
    with Threads(X, y, weight, threads) as parts:
        how = hinge, model.beta / copies, model.tol, pulse, threads
        return _solve_blocks(parts, _sample(parts), *how)

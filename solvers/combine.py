"""Combination: a vote or a stack of classifiers or of regressors of any kind, and calibration.

Problem   Given T members h_t, the ensemble is

    Voting      average     H(x) = sum_t a_t h_t(x),  h_t the decision function
                plurality   the class with the most votes, member t counting a_t
                majority    the class with more than half of the votes, else "reject"
                soft        the class of the largest  sum_t a_t Pr_t(c | x)
                a_t is 1, given, or learned from e_t, the error of member t on rows that it was
                not trained on, wrong rows counted as (n e + 1) / (n + 2), Laplace's rule:
                log-odds        a_t ~ max(0, log( (K - 1) (1 - e_t) / e_t )),  K classes
                inverse-error   a_t ~ 1 / e_t
    VotingRegressor    H(x) = sum_t a_t h_t(x),  a_t >= 0 of sum 1: equal, given, or by the errors
                E_it = h_t(x_i) - y_i of copies of the members that were not trained on row i:
                inverse-error   a_t ~ 1 / mean_i w_i E_it^2
                covariance      minimise over a >= 0 of sum 1:  a.C a,  C_ts = mean_i w_i E_it E_is
    Stacking    the class of the largest  LR_c(x) = sum_t A_tc Pr_t(c | x), where for each class c

                minimise over A_c >= 0:  mean_i w_i ( [y_i = c] - sum_t A_tc Pr_t(c | x_i) )^2

                with Pr_t(c | x_i) from a copy of member t that was not trained on row i.
                Any classifier may take the place of this regression.
    StackingRegressor  H(x) = sum_t a_t h_t(x), where

                minimise over a >= 0:  mean_i w_i ( y_i - sum_t a_t h_t(x_i) )^2

                with h_t(x_i) as above. Any regressor may take the place of this regression.
    Calibrated  Pr(+ | x) = g(f(x)) of one classifier with outputs f, g fitted on rows it was not
                trained on:
                platt       g(f) = 1 / (1 + exp(-(s f + o))): the least log-loss against the
                            targets (n+ + 1)/(n+ + 2) and 1/(n- + 2) instead of 1 and 0
                isotonic    the best increasing g in squares, by pooling adjacent violators

Method    The regressions and the covariance weights are solved by an active set method on their
          T x T Gram matrices, Platt's problem by Newton steps. `residual_` is their certified
          duality gap, and that of the isotonic function. Other votes solve nothing: None.
Reference Zhang, "Ensemble learning" (a chapter of lecture notes), Table 1; Ting, Witten, "Issues in
          Stacked Generalization", JAIR 1999; Breiman, "Stacked Regressions", 1996; Perrone, Cooper,
          "When Networks Disagree", 1993 (covariance); Platt, "Probabilistic Outputs for Support
          Vector Machines", 1999; Zadrozny, Elkan, ICML 2002 (isotonic); Lawson, Hanson, "Solving
          Least Squares Problems", chapter 23 (active set).
Departs   Rows are dealt to the folds in turn, class by class or in the order of numbers y, so that
          nothing is drawn.
          The final members and the calibrated classifier are trained on all rows.
Symbols   paper         here       meaning                                    shape
          h_t(x)_c      votes      of the members, by class where K > 2       (n, T), (n, T, K)
          alpha_t       weights_   of the members                             (T,)
          alpha_kl      coef_      coefficients of the regressions            (T, K)
          P_kl          P          out-of-fold probabilities                  (T, n, K)
          e_t           errors_    out-of-fold errors of the members          (T,)
Use       m = Voting([ExRM(), DRM()]).fit(X, y); m.predict(X)
          r = StackingRegressor([GradientBoostingRegressor(), "linear"]).fit(X, y)
          p = Calibrated(ExRM()).fit(X, y).predict_proba(X)
Origin    ensolve, solvers/combine.py, MIT licence
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
from contextlib import suppress
from functools import cache, wraps

import numpy as np
from numba import njit

EPS = 2.0**-52  # The rounding of one operation. No gap is claimed below this part of the objective.
VANISHING = 1e-300  # Smaller numbers count as zero.


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


# -- voting ---------------------------------------------------------------------------------------
# how          what member t votes, h_t(x)               the class of x
# plurality    1 for the class that it predicts, else 0  the one of the largest H = sum_t a_t h_t
# majority     the same                                  that one if it has over half, else reject
# soft         its probabilities Pr_t(c | x)             the one of the largest H
# average      its decision function                     the one of the largest H
def _as_vote(scores):
    """A member's scores (n, K) of the classes; of two classes the second minus the first, (n,)."""
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores


def _sum_votes(votes, weights):
    """H = sum_t a_t h_t, (n,) or (n, K), of votes (n, T) or (n, T, K) with weights a (T,)."""
    return votes @ weights if votes.ndim == 2 else weights @ votes


def _winners(H):
    """Number of the class of the largest H; on a tie the first, but of two classes the second."""
    return (H >= 0).astype(np.intp) if H.ndim == 1 else H.argmax(axis=1)


def _has_majority(H, weights):
    """Whether the winner has more than half of the votes, which are weights.sum() in all."""
    return np.abs(H) > 0 if H.ndim == 1 else 2.0 * H.max(axis=1) - weights.sum() > 0


# -- weights learned from errors ------------------------------------------------------------------
def _smoothed(wrong, w):
    """Error of a member: the share of wrong rows, with weights w, as if there were one more wrong
    and one more right among the n rows that have weight."""
    n = np.count_nonzero(w)
    return (n * np.average(wrong, weights=w) + 1.0) / (n + 2.0)


def _log_odds(error, K):
    """Best weight in a vote of independent members whose errors fall on all other classes alike."""
    return max(np.log((K - 1.0) * (1.0 - error) / error), 0.0)


def _inverse(E, w):
    """Weights of sum 1, inverse to the mean squares of the errors E (n, T), weights w of sum 1.
    Members without error share all of it."""
    square = w @ (E / max(np.abs(E).max(), VANISHING)) ** 2
    least = square.min()
    a = least / square if least > 0 else (square == 0).astype(np.float64)
    return a / a.sum()


def _least_squares(E, w):
    """min over a >= 0 of sum 1 of sum_i w_i (E a)_i^2, E (n, T) any errors, weights w of sum 1.

    Returns a, the objective and its certified gap.
    """
    size = max(np.abs(E).max(), VANISHING)  # Squares of small numbers would be 0.
    E = E / size
    WE = w[:, None] * E
    C = E.T @ WE
    square = C.diagonal()
    unit = square.min()
    if unit > VANISHING:
        # The least u.C u / unit + (1 - sum u)^2 over u >= 0 has u in the direction of a.
        scale = np.sqrt(square / unit + 1.0)
        a = _active_set((C / unit + 1.0) / np.outer(scale, scale), 1.0 / scale) / scale
    else:
        a = (square <= VANISHING).astype(np.float64)
    a /= a.sum()
    error = E @ a
    primal = w @ error**2

    # No average of the members can be nearer to zero than its part along these errors.
    bound = max((error @ WE).min(), 0.0) ** 2 / primal if primal > 0 else 0.0
    return a, size**2 * primal, size**2 * max(primal - bound, EPS * primal)


# -- stacking -------------------------------------------------------------------------------------
CHANGES = 10  # The active set changes at most so often for each member; once or twice is usual.
ROUNDING = 8 * EPS  # A product is no more than 0 if it is so small beside the sum of its terms.


def _stack(P, codes, w):
    """The regression of each class on the probabilities P (T, n, K) that members give to it.

    Returns their coefficients (T, K), and the sums of their objectives and of their gaps.
    """
    parts = [
        _regress(np.ascontiguousarray(P[:, :, c].T), (codes == c).astype(np.float64), w)
        for c in range(P.shape[2])
    ]
    coef = np.ascontiguousarray(np.array([x for x, _, _ in parts]).T)
    return coef, sum(part[1] for part in parts), sum(part[2] for part in parts)


def _stack_numbers(P, y, w):
    """The regression of numbers y on the predictions P (n, T), both of any size, by members.

    Returns its coefficients (T,), its objective and its gap.
    """
    unit = max(np.abs(y).max(), VANISHING)
    sizes = np.abs(P).max(axis=0)
    sizes = np.where(sizes > VANISHING * max(unit, 1.0), sizes, np.inf)
    x, objective, gap = _regress(P / sizes, y / unit, w)
    return x * (unit / sizes), unit**2 * objective, unit**2 * gap


def _regress(A, b, w):
    """min over x >= 0 of sum_i w_i (b_i - (A x)_i)^2, A (n, T), weights w of sum 1.

    Returns x, the objective and its certified gap.
    """
    WA = w[:, None] * A
    x = _active_set(A.T @ WA, b @ WA)
    error = b - A @ x
    primal = w @ error**2

    # The errors, shifted until no column has a positive product with them, are a dual point. The
    # shift is by a constant if no number is below 0, else by what all columns in use feel alike.
    signed = A.min() < 0
    way, felt = 1.0, WA.sum(0)
    if signed:
        free = x > 0
        G = A[:, free].T @ WA[:, free]
        way = 2.0 * A[:, free] @ np.linalg.lstsq(G, np.ones(free.sum()), rcond=None)[0]
        felt = 0.5 * way @ WA  # It goes twice as far as it has to, to be safe from rounding.
    used = felt > 0
    shift = (error @ WA[:, used] / felt[used]).max(initial=0.0)
    dual = error - shift * way
    square = w @ dual**2
    bound = max(w @ (b * dual), 0.0) ** 2 / square if square > 0 else 0.0
    if signed and (dual @ WA > ROUNDING * (np.abs(dual) @ np.abs(WA))).any():
        bound = 0.0  # Columns cancel each other, and no shift is right for all.
    return x, primal, max(primal - bound, EPS * primal)


def _active_set(G, c):
    """min over x >= 0 of x.G x - 2 c.x for the Gram matrix G (T, T)."""
    x = np.zeros(c.size)
    free = np.zeros(c.size, dtype=bool)
    for _ in range(CHANGES * c.size):
        # Step 1: the coefficient along which the objective falls the most is set free.
        slope = np.where(free, -np.inf, c - G @ x)
        k = slope.argmax()
        if slope[k] <= EPS * c.max():
            break
        free[k] = True

        # Step 2: x goes towards the best free coefficients z; those that reach zero are bound.
        while True:
            z = np.zeros(c.size)
            z[free] = np.linalg.lstsq(G[np.ix_(free, free)], c[free], rcond=None)[0]
            low = free & (z <= 0)
            if not low.any():
                break
            step = (x[low] / np.maximum(x[low] - z[low], VANISHING)).min()
            x = np.where(free, x + step * (z - x), 0.0)
            free &= x > EPS * x.max()
            x[~free] = 0.0
        x = z
    return x


# -- calibration: Platt's function ----------------------------------------------------------------
DAMP = 1e-14  # It is added to the diagonal of the Hessian: rows far out may leave that singular.
DUAL_ERROR = 1e-12  # The equations of the dual have to hold to this accuracy.
HALVINGS = 60  # A Newton step is halved at most so often.


def _platt(f, positive, w, tol, max_iter, report):
    """Slope and offset of the logistic function with Platt's targets; weights w of sum > 0."""
    plus = w[positive].sum()
    minus = w[~positive].sum()
    target = np.where(positive, (plus + 1.0) / (plus + 2.0), 1.0 / (minus + 2.0))
    w = w / w.sum()
    centre, scale = _location(f, w)
    Phi = np.column_stack([(f - centre) / scale, np.ones(f.size)])
    theta = np.array([0.0, np.log((plus + 1.0) / (minus + 1.0))])
    objective = _log_loss(Phi @ theta, target, w)
    for iteration in range(1, max_iter + 1):
        # Step 1: the Newton step at the probabilities p; constant outputs have an offset only.
        p = 0.5 * (1.0 + np.tanh(0.5 * (Phi @ theta)))
        curve = w * p * (1.0 - p)
        H = Phi.T @ (curve[:, None] * Phi)
        H += np.diag([DAMP + (scale == np.inf), DAMP])
        step = np.linalg.solve(H, (w * (p - target)) @ Phi)

        # Step 2: the certificate; the Newton step turns p into a point of the dual.
        q = p - p * (1.0 - p) * (Phi @ step)
        residual = _platt_gap(q, Phi, target, w, objective)
        stop = report(iteration, objective, residual=residual)
        if stop or residual <= tol or iteration == max_iter:
            break

        # Step 3: halve the step until the loss does not rise.
        size = 1.0
        last = objective
        for _ in range(HALVINGS):
            objective = _log_loss(Phi @ (theta - size * step), target, w)
            if objective <= last:
                break
            size *= 0.5
        else:
            break  # There is no descent left in floating point.
        theta = theta - size * step
    slope = theta[0] / scale
    return slope, theta[1] - slope * centre


def _location(f, w):
    """Mean and standard deviation of outputs f; infinite where all are equal but for rounding."""
    centre = w @ f
    size = max(np.abs(f - centre).max(), VANISHING)  # Squares of small outputs would be 0.
    scale = size * np.sqrt(w @ ((f - centre) / size) ** 2)
    least = max(EPS * np.abs(f).max(), VANISHING)
    return centre, scale if scale > least else np.inf


def _log_loss(z, target, w):
    """Mean log-loss of the probabilities 1 / (1 + exp(-z)) against the targets."""
    return w @ (np.logaddexp(0.0, z) - target * z)


def _platt_gap(q, Phi, target, w, objective):
    """The objective less the mean entropy of q, over max(1, objective). It is infinite where q is
    no point of the dual: probabilities with the same weighted sums of Phi as the targets."""
    balanced = np.abs((w * (q - target)) @ Phi).max() <= DUAL_ERROR
    if not balanced or q.min() < 0.0 or q.max() > 1.0:
        return np.inf
    entropy = -q * np.log(np.maximum(q, VANISHING))
    entropy -= (1.0 - q) * np.log(np.maximum(1.0 - q, VANISHING))
    return float(max(objective - w @ entropy, EPS * objective) / max(1.0, objective))


# -- calibration: the isotonic function -----------------------------------------------------------
def _isotonic(f, positive, w, report):
    """Corners (thresholds, values) of the increasing function of least squares, linear between."""
    w = w / w.sum()
    used = w > VANISHING  # Rows of next to no weight have no say.
    f, positive, w = f[used], positive[used], w[used]

    # Equal outputs get one value: that of the mean of their labels.
    thresholds, place = np.unique(f, return_inverse=True)
    weight = np.bincount(place, w)
    y = np.bincount(place, w * positive) / weight
    values = _pool(y, weight)
    within = w @ (positive - y[place]) ** 2
    objective = weight @ (y - values) ** 2 + within

    # The certificate: the running sums of the errors are the multipliers.
    multipliers = np.maximum(np.cumsum(weight * (y - values)), 0.0)
    multipliers[-1] = 0.0
    change = np.diff(multipliers, prepend=0.0)
    dual = (2.0 * change * y - change**2 / weight).sum() + within
    gap = max(objective - dual, EPS * objective)
    report(1, objective, residual=float(gap / max(1.0, objective)))

    # The inner points of level stretches say nothing.
    ends = np.ones(values.size, dtype=bool)
    ends[1:-1] = (values[1:-1] != values[:-2]) | (values[1:-1] != values[2:])
    return thresholds[ends], values[ends]


@jit
def _pool(y, w):
    """Best increasing fit of y with weights w > 0, both (n,): pool adjacent violators. O(n)."""
    n = y.shape[0]
    level = np.empty(n)
    weight = np.empty(n)
    start = np.empty(n + 1, np.int64)
    blocks = 0
    for i in range(n):
        # Each value is a block of its own; blocks merge while the last one is not above the others.
        level[blocks] = y[i]
        weight[blocks] = w[i]
        start[blocks] = i
        while blocks > 0 and level[blocks - 1] >= level[blocks]:
            total = weight[blocks - 1] + weight[blocks]
            level[blocks - 1] += (level[blocks] - level[blocks - 1]) * (weight[blocks] / total)
            weight[blocks - 1] = total
            blocks -= 1
        blocks += 1
    start[blocks] = n
    fit = np.empty(n)
    for k in range(blocks):
        for i in range(start[k], start[k + 1]):
            fit[i] = level[k]
    return fit


# >>> shared: estimator 7
MAX_ABS = 1e150  # Larger numbers are refused: sums of their squares have to be finite.
LIMITS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
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
    for kind, *limits in _alternatives(rule):
        with suppress(AttributeError, TypeError, ValueError):  # The value has another type.
            is_kind = RULE_TYPES[kind](value) if kind in RULE_TYPES else value == kind
            pairs = zip(limits[::2], limits[1::2], strict=True)
            if is_kind and all(LIMITS[sign](value, float(limit)) for sign, limit in pairs):
                return True
    return False


@cache
def _alternatives(rule):
    """Alternatives of a rule as lists: type or value, sign, limit, sign, limit."""
    if rule in RULE_TYPES:
        return [[rule]]
    rule = re.sub(r"from (\d+) to (\d+)", r">= \1 and <= \2", rule.removeprefix("one of "))
    lists = [re.split(r" (?:and )?([<>]=?) ", text) for text in re.split(r", | or ", rule)]
    return [[k if k in RULE_TYPES else ast.literal_eval(k), *limits] for k, *limits in lists]


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

        pairwise = getattr(self, "kernel", None) == "precomputed"
        inputs = InputTags(allow_nan=self._takes_nan(), pairwise=pairwise)
        classes = ClassifierTags(multi_class=self._multi_class)
        own = (classes, None) if self._estimator_type == "classifier" else (None, RegressorTags())
        return Tags(self._estimator_type, TargetTags(required=True), None, *own, input_tags=inputs)

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
        for name, rule in (COMMON_RULES | self._param_rules).items():
            value = getattr(self, name, None)  # None satisfies all common rules.
            self._require(satisfies(value, rule), f"{name} must be {rule}, got {value!r}")

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
        if bool(names) != bool(known):
            has, was = ("has", "without") if names else ("does not have valid", "with")
            text = f"X {has} feature names, but {name} was fitted {was} feature names"
            warnings.warn(text, stacklevel=3)
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
        self.classes_, codes = np.unique(y, return_inverse=True)
        self._check_classes(self.classes_)
        if self.class_weight is not None:
            totals = [math.fsum(weight[codes == k]) for k in range(self.classes_.size)]
            weight = weight * self._class_factors(np.array(totals))[codes]
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
            values = [f"{k} {v:.9e}" if type(v) is float else f"{k} {v}" for k, v in info.items()]
            print(f"{type(self).__name__} {iteration:5d}", *values, sep="  ")
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
            is_known = name in self._param_names() and (not rest or place in members)
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


# >>> shared: members 3
def takes_nan(member):
    """Return True if a member accepts NaN in X, by its own method or its scikit-learn tags."""
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


# >>> shared: numbers 1
ROWS = 2048  # So many rows are looked at together: what is computed of them stays in the cache.


def _deviations(X, C, mean, w):
    """Standard deviation of each column of X from its mean and its centred form C, with weights w
    of sum 1; infinite for columns that are constant: they then count for nothing."""
    parts = (slice(i, i + ROWS) for i in range(0, len(w), ROWS))
    found = np.sqrt(sum(w[part] @ C[part] ** 2 for part in parts))
    odd = found <= len(w) * EPS * np.abs(mean) + VANISHING**0.5
    for j in np.flatnonzero(odd) if odd.any() else ():
        x = X[w > 0, j]
        c = C[w > 0, j]
        size = np.abs(c).max()  # Squares of small numbers would be 0.
        level = size < VANISHING or (x == x[0]).all()
        found[j] = np.inf if level else size * np.sqrt(w[w > 0] @ (c / size) ** 2)
    return found


def _are_bounded(f):
    """Whether all outputs are numbers below MAX_ABS."""
    flat = f.ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        square = flat @ flat
    return square < MAX_ABS**2 or bool((np.abs(flat) < MAX_ABS).all())


# <<< shared: numbers


# -- built-in members -----------------------------------------------------------------------------
PENALTY = 1e-3  # It holds the coefficients of the linear member, on features of unit variance.
SMOOTH = 1e-9  # This part of the largest variance is added to all variances of the Bayes members.


class _BuiltIn(_Estimator):
    """A small classifier whose fitted state is one matrix with a row for each class."""

    _multi_class = True

    def __init__(self):
        self._set(locals())

    @restore_on_failure
    def fit(self, X, y, sample_weight=None):
        """Train on rows that the combination around the member has checked."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.n_features_in_ = X.shape[1]
        onehot = np.eye(self.classes_.size)[codes]
        w = np.ones(len(y)) if sample_weight is None else sample_weight
        w = w / w.sum()
        shares = w @ onehot
        if shares.min() < VANISHING:
            raise ValueError(
                f"the weights of class {self.classes_[shares.argmin()]} are lost beside those of "
                "the others; bring sample_weight and class_weight closer together"
            )
        self.state_ = np.ascontiguousarray(self._learn(X, onehot, w))
        self.converged_ = True
        return self

    def _is_consistent(self, has):
        return has("state_", (self.classes_.size, self.width(self.n_features_in_)))

    def predict(self, X):
        """Class of the largest probability."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def _lines(X, goals, w):
    """Least squares for each of the goals (n, K), weights w of sum 1: coefficients and intercept,
    (K, d + 1)."""
    mean = w @ X
    share = w @ goals
    Z = X - mean
    spread = _deviations(X, Z, mean, w)
    Z /= spread
    ZW = Z.T * w
    H = ZW @ Z + PENALTY * np.eye(len(mean))
    coef = np.linalg.solve(H, ZW @ (goals - share)).T / spread
    return np.column_stack([coef, share - coef @ mean])


class _Linear(_BuiltIn):
    """Least squares on the indicators of the classes: coefficients, then the intercept."""

    @staticmethod
    def width(d):
        return d + 1

    def _learn(self, X, onehot, w):
        return _lines(X, onehot, w)

    def _outputs(self, X):
        """Values of the regressions, (n, K); the combination looks whether they are bounded."""
        with np.errstate(over="ignore", invalid="ignore"):
            return X @ np.ascontiguousarray(self.state_[:, :-1].T) + self.state_[:, -1]

    def predict_proba(self, X):
        """The outputs, cut off at 0 and 1, divided by their sum, (n, K)."""
        p = np.clip(self._outputs(X), 0.0, 1.0)
        return p / p.sum(axis=1, keepdims=True)

    def decision_function(self, X):
        """The outputs, (n, K), or their difference, (n,), for two classes."""
        return _as_vote(self._outputs(X))


def _pieces(X):
    """Parts of ROWS rows: which rows, their columns in one piece, and space of the same size."""
    for start in range(0, len(X), ROWS):
        columns = X[start : start + ROWS].T.copy()
        yield slice(start, start + ROWS), columns, np.empty_like(columns)


class _Bayes(_BuiltIn):
    """Gaussian naive Bayes: means, 1 / deviations, then the part that does not depend on x."""

    pooled = False

    @staticmethod
    def width(d):
        return 2 * d + 1

    def _learn(self, X, onehot, w):
        mean = w @ X
        spread = _deviations(X, X - mean, mean, w)
        largest = spread[np.isfinite(spread)].max(initial=0.0)
        unit, floor = (largest, SMOOTH) if largest > 0 else (1.0, 1.0)

        # Means and variances of each class, of features in the unit of the largest deviation:
        # squares of small numbers would be 0.
        share = w @ onehot
        parts = (onehot * w[:, None]).T / share[:, None]
        means = parts @ X
        variances = np.zeros((len(share), len(mean)))
        for rows, columns, z in _pieces(X):
            for k, m in enumerate(means):
                np.subtract(columns, m[:, None], out=z)
                z /= unit
                z *= z
                variances[k] += z @ parts[k, rows]
        if self.pooled:
            variances[:] = share @ variances
        deviations = unit * np.sqrt(variances + floor)
        constant = np.log(share) - np.log(deviations).sum(axis=1)
        return np.column_stack([means, 1.0 / deviations, constant])

    def predict_proba(self, X):
        """Posterior probability of each class, (n, K)."""
        d = X.shape[1]
        scores = np.empty((len(self.state_), X.shape[0]))
        with np.errstate(over="ignore"):
            for rows, columns, z in _pieces(X):
                for k, row in enumerate(self.state_[:, :, None]):
                    np.subtract(columns, row[:d], out=z)
                    z *= row[d:-1]
                    z *= z
                    scores[k, rows] = row[-1] - 0.5 * z.sum(axis=0)
        best = scores.max(axis=0)
        far = ~np.isfinite(best)
        if far.any():
            scores[:, far] = self._far_scores(X[far])
            best[far] = 0.0
        p = np.exp(scores - best)
        return (p / p.sum(axis=0)).T

    def _far_scores(self, X):
        """Scores less the best one of rows so far away that their squares overflow."""
        d = X.shape[1]
        most = np.finfo(np.float64).max
        with np.errstate(over="ignore"):
            z = np.array([(X - row[:d]) * row[d:-1] for row in self.state_]).clip(-most, most)
            size = np.abs(z).max(axis=(0, 2))
            scores = -0.5 * ((z / size[:, None]) ** 2).sum(axis=2)
            return (scores - scores.max(axis=0)) * size * size


class _Centroid(_Bayes):
    """The same with one variance of each feature for all classes: the nearest mean."""

    pooled = True


class _Line(_Estimator):
    """Least squares on numbers: a small regressor, whose state is the coefficients, then the
    intercept."""

    _estimator_type = "regressor"

    def __init__(self):
        self._set(locals())

    @restore_on_failure
    def fit(self, X, y, sample_weight=None):
        """Train on rows that the combination around the member has checked."""
        self.n_features_in_ = X.shape[1]
        w = np.ones(len(y)) if sample_weight is None else sample_weight
        self.state_ = self._learn(X, y, w / w.sum())
        self.converged_ = True
        return self

    @staticmethod
    def width(d):
        return d + 1

    def _learn(self, X, y, w):
        return _lines(X, y[:, None], w)[0]

    def _is_consistent(self, has):
        return has("state_", (self.width(self.n_features_in_),))

    def predict(self, X):
        """Number for each row, (n,); the combination looks whether they are bounded."""
        with np.errstate(over="ignore", invalid="ignore"):
            return X @ self.state_[:-1] + self.state_[-1]


class _Parabola(_Line):
    """Least squares on features of unit variance and their squares: means, 1 / deviations,
    coefficients of both, intercept."""

    @staticmethod
    def width(d):
        return 4 * d + 1

    def _learn(self, X, y, w):
        mean = w @ X
        Z = X - mean
        spread = _deviations(X, Z, mean, w)
        Z /= spread
        line = _lines(np.hstack([Z, Z * Z]), y[:, None], w)[0]
        return np.concatenate([mean, 1.0 / spread, line])

    def predict(self, X):
        """Number for each row, (n,)."""
        d = X.shape[1]
        with np.errstate(over="ignore", invalid="ignore"):
            Z = (X - self.state_[:d]) * self.state_[d : 2 * d]
            return np.hstack([Z, Z * Z]) @ self.state_[2 * d : -1] + self.state_[-1]


BUILT_IN = {"linear": _Linear, "bayes": _Bayes, "centroid": _Centroid}
REGRESSORS = {"linear": _Line, "quadratic": _Parabola}


# -- lists of members and folds -------------------------------------------------------------------
def _is_member(v, built_in):
    """Whether a value is the name of a built-in member or an object that learns."""
    return v in built_in if isinstance(v, str) else hasattr(v, "fit") and hasattr(v, "predict")


def _pairs(members):
    """Name and member of each: the name that it was given, or that of a built-in, or a number."""
    parts = members.replace(" ", "").split(",") if isinstance(members, str) else list(members)
    return [
        part if isinstance(part, tuple) and len(part) == 2
        else (part if isinstance(part, str) else str(t), part)
        for t, part in enumerate(parts)
    ]  # fmt: skip


def _are_members(members, built_in):
    """Whether all are members, and the names that were given can be told apart."""
    parts = _pairs(members)
    given = [part[0] for part in members if isinstance(part, tuple)]
    good = all(isinstance(name, str) and name and "__" not in name for name in given)
    good = good and len({*given}) == len(given)
    return bool(parts) and good and all(_is_member(member, built_in) for _, member in parts)


def _given_weights(who, weights, T):
    """The weights of T members as they were given; ones where there are none, or a rule."""
    if weights is None or isinstance(weights, str):
        return np.ones(T)
    weights = np.array(weights, float)
    if weights.shape != (T,):
        raise ValueError(f"{who}: {T} members need as many weights: {weights.size}")
    return weights


def _folds(who, cv, codes, weight):
    """Pairs (training rows, test rows); rows without weight are in none where cv is a number.

    codes are the classes of the rows, or, as float64, their numbers y.
    """
    n = codes.size

    # The caller's own folds are checked only.
    if not isinstance(cv, (int, np.integer)):
        pairs = [(np.asarray(train), np.asarray(test)) for train, test in cv]
        if not np.array_equal(np.sort(np.concatenate([test for _, test in pairs])), np.arange(n)):
            raise ValueError(f"{who}: the test parts of cv must hold each of the {n} rows once")
        if not all(np.isin(train, np.arange(n)).all() and train.size for train, _ in pairs):
            raise ValueError(f"{who}: the training parts of cv must hold numbers of the {n} rows")
        return pairs

    # The rows are dealt in turn, class by class or in the order of y.
    fold = np.full(n, -1)
    used = np.flatnonzero(weight > 0)
    if used.size < 2:
        raise ValueError(f"{who}: cross-validation needs at least 2 rows, there is 1 sample")
    if codes.dtype.kind != "f" and np.bincount(codes[used]).min() < 2:
        raise ValueError(f"{who}: cross-validation needs at least 2 rows of each class")
    fold[used[np.argsort(codes[used], kind="stable")]] = np.arange(used.size) % cv
    pairs = [((fold >= 0) & (fold != k), fold == k) for k in range(cv)]
    return [(np.flatnonzero(train), np.flatnonzero(test)) for train, test in pairs if test.any()]


# -- estimators -----------------------------------------------------------------------------------
OUTSIDE = 1e-6  # A member's probabilities may be outside of 0 to 1 by so much.


class _Combined(_Nested):
    """What all share: members by name or as objects, their outputs, model files."""

    _built_in = BUILT_IN
    _own_members = tuple(BUILT_IN.values())
    _role = "member"

    def _specs(self):
        return [spec for _, spec in _pairs(self.members)]

    @property
    def _allow_nan(self):
        """Missing values are the members' business; the built-in ones take none."""
        return all(getattr(spec, "_allow_nan", not isinstance(spec, str)) for spec in self._specs())

    def _takes_nan(self):
        return all(not isinstance(spec, str) and takes_nan(spec) for spec in self._specs())

    @property
    def named_estimators_(self):
        """The fitted members by name, or by number where they have none."""
        names = [name for name, _ in _pairs(self.members)][: len(self.estimators_)]
        return dict(zip(names, self.estimators_, strict=True))

    def __sklearn_clone__(self):
        """Fitted members stay as they are: scikit-learn would empty them."""
        params = self.get_params(deep=False)
        return type(self)(**(params if self.prefit else copy.deepcopy(params)))

    def _check_params(self):
        super()._check_params()
        if self.prefit and any(isinstance(spec, str) for spec in self._specs()):
            raise ValueError(f"{type(self).__name__}: prefit=True needs fitted objects, not names")

    def _name(self, member):
        """How messages call a member."""
        what = "meta" if member is getattr(self, "meta_", None) else self._role
        return f"{type(self).__name__}: {what} {type(member).__name__}"

    def _columns(self, member):
        """Numbers of the member's classes among ours."""
        known = {label: k for k, label in enumerate(self.classes_.tolist())}
        own = np.asarray(getattr(member, "classes_", self.classes_)).tolist()
        if set(own) - set(known):
            raise ValueError(
                f"{self._name(member)} knows the classes {', '.join(map(str, own))}, "
                f"y has {', '.join(map(str, known))}"
            )
        return [known[label] for label in own]

    def _probabilities(self, member, X):
        """Probabilities of our classes, (n, K)."""
        if not hasattr(member, "predict_proba"):
            raise ValueError(f"{self._name(member)} has no predict_proba; {self._way_out(member)}")
        columns = self._columns(member)
        K = self.classes_.size
        p = np.asarray(member.predict_proba(X), dtype=np.float64)
        if p.shape != (X.shape[0], len(columns)):
            raise ValueError(
                f"{self._name(member)} gives probabilities of shape {p.shape}, not one a class"
            )
        if columns != list(range(K)):
            known = p
            p = np.zeros((X.shape[0], K))
            p[:, columns] = known
        low, high = p.min(), p.max()
        if not (-OUTSIDE <= low and high <= 1.0 + OUTSIDE):  # NaN is neither.
            raise ValueError(
                f"{self._name(member)} gives probabilities from {low:g} to {high:g}, not from 0 to "
                "1; scale X, or leave it out"
            )
        return p if low >= 0 else np.maximum(p, 0.0)

    def _way_out(self, member):
        """How a member without probabilities could get them."""
        if not hasattr(member, "decision_function"):
            return "choose one that has"
        if self.classes_.size > 2:
            return "wrap it in OneVsRest(Calibrated(...)), which has"
        return "wrap it in Calibrated, which has"

    def _output(self, member, X):
        """Real-valued output: (n,) for two classes, (n, K) for more."""
        if not hasattr(member, "decision_function"):
            if not hasattr(member, "predict_proba"):
                raise ValueError(
                    f"{self._name(member)} has neither decision_function nor predict_proba, and "
                    "one of them is needed"
                )
            return _as_vote(self._probabilities(member, X))
        if self._columns(member) != list(range(self.classes_.size)):
            raise ValueError(f"{self._name(member)} does not know all classes of y")
        f = np.asarray(member.decision_function(X), dtype=np.float64)
        K = self.classes_.size
        if f.shape != ((X.shape[0], K) if K > 2 else (X.shape[0],)):
            raise ValueError(
                f"{self._name(member)} gives outputs of shape {f.shape}, not one a class"
            )
        if not _are_bounded(f):
            raise ValueError(
                f"{self._name(member)} gives outputs from {f.min():g} to {f.max():g}; scale X: "
                f"they have to be numbers below {MAX_ABS:g}"
            )
        return f

    def _goals(self, codes):
        """What members learn, from the numbers of the classes."""
        return self.classes_[codes]

    def _fitted(self, spec, X, goals, weight):
        """A fitted copy of a member; weight None is not passed on."""
        member = self._built_in[spec]() if isinstance(spec, str) else copy.deepcopy(spec)
        return fit_member(member, X, goals, weight)

    def _outputs(self, spec, X, codes, passed, output):
        """Output on the rows that a member is trained on, and the member; passed are the weights
        for it, or None."""
        member = spec if self.prefit else self._fitted(spec, X, self._goals(codes), passed)
        return output(member, X), member

    def _out_of_fold(self, spec, X, codes, weight, passed, output):
        """Output of copies that were not trained on the row, and the member trained on all rows;
        passed are the weights for the members, or None."""
        if self.prefit:
            return output(spec, X), spec
        goals = self._goals(codes)
        values = None
        for train, test in _folds(type(self).__name__, self.cv, codes, weight):
            part = None if passed is None else passed[train]
            found = output(self._fitted(spec, X[train], goals[train], part), X[test])
            values = np.zeros((codes.size, *found.shape[1:])) if values is None else values
            values[test] = found
        return values, self._fitted(spec, X, goals, passed)

    def _finish(self):
        """Set what is known after the last iteration."""
        self.trace_ = np.array(self.trace_)
        self.converged_ = self.residual_ is None or self.residual_ <= self.tol
        if not self.converged_:
            more = "raise max_iter or tol" if hasattr(self, "max_iter") else "raise tol"
            warnings.warn(
                f"{type(self).__name__} stopped after {self.n_iter_} iterations with residual "
                f"{self.residual_:.1e} (tol={self.tol:g}); {more}",
                ConvergenceWarning,
                stacklevel=4,
            )
        return self

    def _is_consistent(self, has):
        """Check the members and the results, and predict a row of zeros."""
        T = len(self.estimators_)
        d = self.n_features_in_
        specs = self._specs()[:T]
        good = [member.n_features_in_ for member in self.estimators_] == [d] * len(specs)
        good = good and all(
            type(member) is self._built_in[spec]
            for member, spec in zip(self.estimators_, specs, strict=True)
            if isinstance(spec, str)
        )
        if not (good and T > 0 and self._holds_results(has)):
            return False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # The row has no feature names.
            return self.predict(np.zeros((1, d))).shape == (1,)


MEMBERS = (
    "a list of classifiers (objects with fit and predict), of pairs (name, classifier) whose "
    "names differ and have no '__' in them, or of linear, bayes, centroid"
)
OF_NUMBERS = (
    "a list of regressors (objects with fit and predict), of pairs (name, regressor) whose names "
    "differ and have no '__' in them, or of linear, quadratic"
)
NUMBERS = f"None or finite numbers >= 0, not all 0, of a sum below {MAX_ABS:g}"
WEIGHTS = f"{NUMBERS}, or one of 'log-odds', 'inverse-error'"
WEIGHTS_OF_NUMBERS = f"{NUMBERS}, or one of 'inverse-error', 'covariance'"
FOLDS = "an integer >= 2 or a list of pairs of training and test rows"


def _are_weights(v, *rules):
    """Whether these are weights of members, or one of the rules that learn some."""
    if v is None or isinstance(v, str):
        return v is None or v in rules
    return np.min(v) >= 0 and 0 < sum(map(float, v)) < MAX_ABS


RULE_TYPES |= {
    MEMBERS: lambda v: _are_members(v, BUILT_IN),
    OF_NUMBERS: lambda v: _are_members(v, REGRESSORS),
    WEIGHTS: lambda v: _are_weights(v, "log-odds", "inverse-error"),
    WEIGHTS_OF_NUMBERS: lambda v: _are_weights(v, "inverse-error", "covariance"),
    "a list of pairs of training and test rows": lambda v: len(v) > 0,
}


class Voting(_Combined):
    """Vote of several classifiers, of two or more classes.

    Parameters
    ----------
    members : list of classifiers, or of pairs (name, classifier), or a text of names with commas
        Objects with fit and predict; each is copied and trained on all rows. The built-in ones are
        "linear" (least squares), "bayes" (Gaussian naive Bayes) and "centroid" (nearest mean).
        members__0__lam is the lam of the first; members__svm__lam that of ("svm", classifier).
    how : "plurality", "majority", "soft" or "average"
        The class with the most votes; the one with more than half of the votes, else `reject`; the
        one of the largest mean probability, from members with predict_proba; or the one of the
        largest mean of the members' decision functions, which should be of a similar size.
    weights : None, list of numbers >= 0, "log-odds" or "inverse-error"
        Weight of each member; None: equal. A rule learns them from the error e of each member in
        cross-validation: max(0, log((K - 1) (1 - e) / e)) for K classes, which is best for members
        that err independently, or 1 / e. On few rows such weights may do worse than equal ones.
        Members that are all no better than chance get equal ones.
    reject : None or a label
        What predict returns for rows without a majority; how="majority" only, which needs it.
    cv : int >= 2, or a list of pairs (training rows, test rows)
        Number of folds, or the folds, for weights that are learned.
    prefit : bool
        Whether the members are fitted already; they are then used as they are. To learn weights, X,
        y should be rows that they do not know: on those they were trained on, errors are too low.
    class_weight : None, "balanced" or dict
        Factor of each class in the weights of the rows; "balanced": all classes weigh the same.
    verbose : int
        1 prints one line after every member.
    callback : None or callable
        Called as callback(self, iteration, info) after every member; True stops. The model is
        then that of the members so far: stop when they are good on rows that they do not know by
        callback=lambda model, iteration, info: model.score(X_valid, y_valid) > 0.9.

    Attributes
    ----------
    estimators_, named_estimators_ : the fitted members, and the same by name or number
    weights_ (T,) : their weights, of sum 1 for "soft" and "average"; else, if learned, parts of
        the largest
    errors_ (T,) : if weights are learned, the error of each member, (n e + 1) / (n + 2) for a share
        e of n rows
    objective_, trace_ : share of wrong training rows, out of fold if weights are learned, and that
        of the first 1, 2, ... members
    n_iter_, converged_, residual_ : members, True, None: nothing is optimised
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = Voting([ExRM(), DRM(), AdaBoost()], how="plurality").fit(X, y)
    >>> model.score(X, y)
    """

    _multi_class = True
    _param_rules = {
        "members": MEMBERS,
        "prefit": "True or False",
        "how": "one of 'plurality', 'majority', 'soft', 'average'",
        "weights": WEIGHTS,
        "cv": FOLDS,
    }

    def __init__(
        self, members="linear,bayes,centroid", how="plurality", weights=None, reject=None, cv=5,
        prefit=False, class_weight=None, verbose=0, callback=None,
    ):  # fmt: skip
        self._set(locals())

    @restore_on_failure
    def fit(self, X, y, sample_weight=None):
        """Train the members on X (n, d) and y; sample_weight is passed on to them."""
        self._check_params()
        specs = _pairs(self.members)
        weights = _given_weights("Voting", self.weights, len(specs))
        X, codes, row_weight = self._check_fit(X, y, sample_weight)
        if self.how == "majority":
            self._check_reject()
        passed = row_weight if self._is_weighted(sample_weight) else None
        self.estimators_ = []
        self.trace_ = []
        H = 0.0
        for t, (name, spec) in enumerate(specs):
            if isinstance(self.weights, str):
                vote, member = self._out_of_fold(spec, X, codes, row_weight, passed, self._vote)
                weights[t] = self._learn_weight(_smoothed(_winners(vote) != codes, row_weight))
            else:
                vote, member = self._outputs(spec, X, codes, passed, self._vote)
            self.estimators_.append(member)
            H = H + weights[t] * vote
            error = np.average(_winners(H) != codes, weights=row_weight)
            self._set_weights(weights[: t + 1])
            self.converged_ = False  # The callback may use the model of the members so far.
            if self._report(t + 1, error, residual=None, name=name):
                break
        return self._finish()

    def _learn_weight(self, error):
        """Weight of the next member by the rule that was asked for."""
        self.errors_ = np.append(getattr(self, "errors_", []), error)
        return (
            1.0 / error if self.weights == "inverse-error" else _log_odds(error, len(self.classes_))
        )

    def _set_weights(self, weights):
        """Set the weights of the members so far; whole numbers stay so, and ties are exact."""
        weights = weights if weights.any() else np.ones_like(weights)
        if self.how in ("soft", "average"):
            weights = weights / weights.sum()
        elif isinstance(self.weights, str):
            weights = weights / weights.max()
        self.weights_ = weights

    def votes(self, X):
        """Vote of every member, (n, T), or (n, T, K) with a column a class for K > 2 classes."""
        X = self._check_X(X)
        return np.stack([self._vote(member, X) for member in self.estimators_], axis=1)

    def decision_function(self, X):
        """Weighted sum of the votes, (n,), or (n, K) for K > 2 classes."""
        return _sum_votes(self.votes(X), self.weights_)

    def predict(self, X):
        """Class of each row; the positive one, or the first of several, on a tie."""
        H = self.decision_function(X)
        labels = self.classes_[_winners(H)]
        if self.how != "majority":
            return labels
        return np.where(_has_majority(H, self.weights_), labels, self.reject)

    @property
    def predict_proba(self):
        """Mean probability of each class, (n, K), with how="soft"."""
        if self.how != "soft":
            raise AttributeError(f"how={self.how!r} gives no probabilities; how='soft' does")
        return self._predict_proba

    def _predict_proba(self, X):
        X = self._check_X(X)
        each = [self._probabilities(member, X) for member in self.estimators_]
        return np.tensordot(self.weights_, each, axes=1)

    def _vote(self, member, X):
        """-1..+1 for two classes, (n,); a column for each class, (n, K), for more."""
        if self.how == "average":
            return self._output(member, X)
        if self.how == "soft":
            return _as_vote(self._probabilities(member, X))
        found = np.asarray(member.predict(X))
        chosen = found.reshape(-1, 1) == self.classes_
        if found.shape != (X.shape[0],) or not chosen.any(axis=1).all():
            self._columns(member)
            raise ValueError(f"{self._name(member)} predicts labels that are not in y")
        return _as_vote(chosen.astype(np.float64))

    def _holds_results(self, has):
        good = has("weights_", (len(self.estimators_),)) and (self.weights_ >= 0).all()
        if self.how == "majority":
            self._check_reject()
        return good

    def _check_reject(self):
        numbers = [np.asarray(v).dtype.kind in "biuf" for v in (self.classes_, self.reject)]
        if self.reject is None or numbers[0] != numbers[1] or self.reject in self.classes_:
            raise ValueError(
                "Voting: how='majority' needs reject, a label for rows without a majority that is "
                f"{'a number' if numbers[0] else 'a text'} and no class of y, got {self.reject!r}"
            )


class Stacking(_Combined):
    """Classifier on top of the out-of-fold probabilities of others; two or more classes.

    Parameters
    ----------
    members : list of classifiers, or of pairs (name, classifier), or a text of names with commas
        As in Voting; they need predict_proba: Calibrated gives it to any with a decision function.
    meta : "linear" or a classifier
        Regression with coefficients >= 0 for each class on the members' probabilities of that
        class; or an object with fit and predict that gets the probabilities of all members side by
        side: of the second class only where there are two. For decision_function and votes it
        needs decision_function or predict_proba.
    cv : int >= 2, or a list of pairs (training rows, test rows)
        Number of folds, or the folds.
    prefit : bool
        Whether the members are fitted already; X, y should then be rows that they do not know.
    tol : float > 0
        Target for `residual_`.
    class_weight : None, "balanced" or dict
        Factor of each class in the weights of the rows; "balanced": all classes weigh the same.
    verbose : int
        1 prints one line after every member.
    callback : None or callable
        Called as callback(self, iteration, info) after every member; True stops. The model is
        then that of the members so far. If meta is a classifier: once, at the end.

    Attributes
    ----------
    estimators_, named_estimators_ : the members, trained on all rows, and the same by name
    coef_ (T, K) : coefficients of the regressions; meta_ instead: the fitted classifier
    weights_ (T,) : mean of a member's coefficients; one weight of 1 if meta is a classifier
    objective_, trace_ : squared error of the regressions with all, and the first 1, 2, ... members;
        the share of wrong training rows if meta is a classifier
    residual_ : certified duality gap / max(1, objective_); None if meta is a classifier
    n_iter_, converged_ : members, residual_ <= tol
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = Stacking([Calibrated(ExRM()), Calibrated(DRM())]).fit(X, y)
    >>> model.weights_, model.score(X, y)
    """

    _multi_class = True
    _param_rules = {
        "members": MEMBERS,
        "prefit": "True or False",
        "meta": "'linear' or an object with fit and predict",
        "cv": FOLDS,
        "tol": "a number > 0",
    }

    def __init__(
        self, members="linear,bayes,centroid", meta="linear", cv=5, prefit=False, tol=1e-9,
        class_weight=None, verbose=0, callback=None,
    ):  # fmt: skip
        self._set(locals())

    @restore_on_failure
    def fit(self, X, y, sample_weight=None):
        """Train on X (n, d) and y; sample_weight counts for the members and on top of them."""
        self._check_params()
        X, codes, weight = self._check_fit(X, y, sample_weight)
        linear = isinstance(self.meta, str)
        passed = weight if self._is_weighted(sample_weight) else None
        self.estimators_ = []
        self.trace_ = []
        P = []
        for name, spec in _pairs(self.members):
            p, member = self._out_of_fold(spec, X, codes, weight, passed, self._probabilities)
            P.append(p)
            self.estimators_.append(member)
            if linear and self._regress_on(P, codes, weight, name):
                break
        if not linear:
            rows = _side_by_side(P)
            labels = self.classes_[codes]
            self.weights_ = np.ones(1)
            self.meta_ = self._fitted(self.meta, rows, labels, passed)
            self.converged_ = False  # The callback may use the model.
            error = np.average(np.asarray(self.meta_.predict(rows)) != labels, weights=weight)
            self._report(len(P), error, residual=None)
        return self._finish()

    def _regress_on(self, P, codes, weight, name):
        """Solve the regressions on the members so far; True if the callback asks to stop."""
        self.coef_, objective, gap = _stack(np.array(P), codes, weight / weight.sum())
        self.weights_ = self.coef_.mean(axis=1)
        self.converged_ = False  # The callback may use the model of the members so far.
        residual = float(gap / max(1.0, objective))
        return self._report(len(P), objective, residual=residual, name=name)

    def predict(self, X):
        """Class of each row, by the classifier on top; else that of the largest LR_c(x)."""
        if not hasattr(self, "meta_"):
            return super().predict(X)
        return np.asarray(self.meta_.predict(_side_by_side(self._member_probabilities(X))))

    def votes(self, X):
        """Vote of every member, (n, T) or (n, T, K): its coefficients times its probabilities, over
        its weight. (n, 1) or (n, 1, K) if meta is a classifier: its output."""
        P = self._member_probabilities(X)
        if hasattr(self, "meta_"):
            return self._output(self.meta_, _side_by_side(P))[:, None]
        weights = self.weights_[:, None]
        share = np.where(weights > 0, self.coef_ / np.where(weights > 0, weights, 1.0), 1.0)
        return np.stack([_as_vote(s * p) for s, p in zip(share, P, strict=True)], axis=1)

    def decision_function(self, X):
        """LR_c(x), (n, K); the difference of the two, (n,), for two classes."""
        return _sum_votes(self.votes(X), self.weights_)

    @property
    def predict_proba(self):
        """The LR_c(x) divided by their sum, (n, K), or what the classifier on top says."""
        if hasattr(self, "meta_") and not hasattr(self.meta_, "predict_proba"):
            raise AttributeError(f"{type(self.meta_).__name__} has no predict_proba")
        return self._predict_proba

    def _predict_proba(self, X):
        P = self._member_probabilities(X)
        if hasattr(self, "meta_"):
            return self._probabilities(self.meta_, _side_by_side(P))
        outputs = sum(a * p for a, p in zip(self.coef_, P, strict=True))
        total = outputs.sum(axis=1, keepdims=True)
        return np.where(total > 0, outputs / np.where(total > 0, total, 1.0), 1.0 / len(outputs.T))

    def _member_probabilities(self, X):
        X = self._check_X(X)
        return [self._probabilities(member, X) for member in self.estimators_]

    def _holds_results(self, has):
        T, K = len(self.estimators_), self.classes_.size
        if isinstance(self.meta, str):
            good = not hasattr(self, "meta_") and has("weights_", (T,))
            return good and has("coef_", (T, K)) and (self.coef_ >= 0).all()
        good = has("weights_", (1,)) and self.weights_[0] == 1
        self._columns(self.meta_)
        return good and self.meta_.n_features_in_ == T * (K if K > 2 else 1)


def _side_by_side(P):
    """Rows for the classifier on top from the (n, K) probabilities of the members."""
    return np.hstack([p[:, 1:] if p.shape[1] == 2 else p for p in P])


class _CombinedRegressor(_Regressor, _Combined):
    """What combinations of regressors share: y are numbers, and so are the members' outputs."""

    _built_in = REGRESSORS
    _own_members = tuple(REGRESSORS.values())

    def _goals(self, codes):
        """What members learn: the numbers y."""
        return codes

    def _predictions(self, member, X):
        """A member's prediction for each row, (n,)."""
        found = np.asarray(member.predict(X))
        if found.shape != (X.shape[0],) or found.dtype.kind not in "biuf":
            raise ValueError(
                f"{self._name(member)} predicts {found.dtype} of shape {found.shape}, not one "
                "number a row; choose regressors"
            )
        found = found.astype(np.float64)
        if not _are_bounded(found):
            raise ValueError(
                f"{self._name(member)} predicts {found.min():g} to {found.max():g}; scale X and y: "
                f"predictions have to be numbers below {MAX_ABS:g}"
            )
        return found

    def votes(self, X):
        """Prediction of every member, (n, T)."""
        X = self._check_X(X)
        return np.column_stack([self._predictions(member, X) for member in self.estimators_])

    def predict(self, X):
        """Number for each row, (n,): the weighted sum of the members' predictions."""
        return self.votes(X) @ self.weights_

    def _show(self, P, objective, gap, name):
        """Report the model of the members so far, with predictions P; True if the callback asks to
        stop. gap is None if nothing was optimised."""
        self.converged_ = False  # The callback may use the model.
        residual = None if gap is None else float(gap / max(1.0, objective))
        return self._report(len(P), objective, residual=residual, name=name)

    def _holds_results(self, has):
        return has("weights_", (len(self.estimators_),)) and (self.weights_ >= 0).all()


class VotingRegressor(_CombinedRegressor):
    """Average of several regressors.

    Parameters
    ----------
    members : list of regressors, or of pairs (name, regressor), or a text of names with commas
        Objects with fit and predict; each is copied and trained on all rows. The built-in ones are
        "linear" (least squares) and "quadratic" (the same with the squares of the features).
        members__0__loss is the loss of the first; members__gb__loss that of ("gb", regressor).
    weights : None, list of numbers >= 0, "inverse-error" or "covariance"
        Weight of each member; None: equal. A rule learns them from the errors of the members in
        cross-validation: inverse to their mean squares, which is best for errors that are not
        correlated, or those of the average of least squares. On few rows such weights may do worse
        than equal ones.
    cv : int >= 2, or a list of pairs (training rows, test rows)
        Number of folds, or the folds, for weights that are learned.
    prefit : bool
        Whether the members are fitted already; they are then used as they are. To learn weights, X,
        y should be rows that they do not know: on those they were trained on, errors are too low.
    tol : float > 0
        Target for `residual_`.
    verbose : int
        1 prints one line after every member.
    callback : None or callable
        Called as callback(self, iteration, info) after every member; True stops. The model is
        then that of the members so far.

    Attributes
    ----------
    estimators_, named_estimators_ : the fitted members, and the same by name or number
    weights_ (T,) : their weights, of sum 1
    errors_ (T,) : if weights are learned, the mean squared error of each member, out of fold
    objective_, trace_ : mean squared error on the training rows, out of fold if weights are
        learned, with all, and the first 1, 2, ... members
    residual_ : certified duality gap / max(1, objective_) of weights="covariance"; else None
    n_iter_, converged_ : members, residual_ <= tol or nothing was optimised
    n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = VotingRegressor([GradientBoostingRegressor(), "linear"]).fit(X, y)
    >>> model.predict(X), model.score(X, y)
    """

    _param_rules = {
        "members": OF_NUMBERS,
        "weights": WEIGHTS_OF_NUMBERS,
        "cv": FOLDS,
        "prefit": "True or False",
        "tol": "a number > 0",
    }

    def __init__(
        self, members="linear,quadratic", weights=None, cv=5, prefit=False, tol=1e-9, verbose=0,
        callback=None,
    ):  # fmt: skip
        self._set(locals())

    @restore_on_failure
    def fit(self, X, y, sample_weight=None):
        """Train the members on X (n, d) and numbers y; sample_weight is passed on to them."""
        self._check_params()
        pairs = _pairs(self.members)
        given = _given_weights("VotingRegressor", self.weights, len(pairs))
        X, y, weight = self._check_fit(X, y, sample_weight)
        passed = weight if self._is_weighted(sample_weight) else None
        self.estimators_ = []
        self.trace_ = []
        P = []
        for name, spec in pairs:
            if isinstance(self.weights, str):
                p, member = self._out_of_fold(spec, X, y, weight, passed, self._predictions)
            else:
                p, member = self._outputs(spec, X, y, passed, self._predictions)
            P.append(p)
            self.estimators_.append(member)
            objective, gap = self._weigh(P, y, weight, given[: len(P)])
            if self._show(P, objective, gap, name):
                break
        return self._finish()

    def _weigh(self, P, y, weight, given):
        """Set the weights of the members so far, with predictions P; returns the mean squared error
        of their average, and the gap where it was minimised."""
        w = weight[weight > 0] / weight.sum()
        E = (np.array(P) - y)[:, weight > 0].T
        if isinstance(self.weights, str):
            self.errors_ = w @ E**2
        if self.weights == "covariance":
            self.weights_, objective, gap = _least_squares(E, w)
            return objective, gap
        a = given if given.any() else np.ones(len(P))
        self.weights_ = _inverse(E, w) if self.weights == "inverse-error" else a / a.sum()
        return w @ (E @ self.weights_) ** 2, None


class StackingRegressor(_CombinedRegressor):
    """Regressor on top of the out-of-fold predictions of others.

    Parameters
    ----------
    members : list of regressors, or of pairs (name, regressor), or a text of names with commas
        As in VotingRegressor.
    meta : "linear" or a regressor
        Regression without a constant and with coefficients >= 0 on the members' predictions; or an
        object with fit and predict that gets them side by side, (n, T).
    cv : int >= 2, or a list of pairs (training rows, test rows)
        Number of folds, or the folds.
    prefit : bool
        Whether the members are fitted already; X, y should then be rows that they do not know.
    tol : float > 0
        Target for `residual_`.
    verbose : int
        1 prints one line after every member.
    callback : None or callable
        Called as callback(self, iteration, info) after every member; True stops. The model is
        then that of the members so far. If meta is a regressor: once, at the end.

    Attributes
    ----------
    estimators_, named_estimators_ : the members, trained on all rows, and the same by name
    weights_ (T,) : coefficients of the regression; one weight of 1 if meta is a regressor
    meta_ : the fitted regressor, if meta is one
    objective_, trace_ : mean squared error out of fold of the regression on all, and the first 1,
        2, ... members; that of the regressor on top on its training rows
    residual_ : certified duality gap / max(1, objective_); None if meta is a regressor
    n_iter_, converged_ : members, residual_ <= tol
    n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = StackingRegressor([GradientBoostingRegressor(), "linear"]).fit(X, y)
    >>> model.weights_, model.score(X, y)
    """

    _param_rules = Stacking._param_rules | {"members": OF_NUMBERS}

    def __init__(
        self, members="linear,quadratic", meta="linear", cv=5, prefit=False, tol=1e-9, verbose=0,
        callback=None,
    ):  # fmt: skip
        self._set(locals())

    @restore_on_failure
    def fit(self, X, y, sample_weight=None):
        """Train on X (n, d) and numbers y; sample_weight counts for members and on top of them."""
        self._check_params()
        X, y, weight = self._check_fit(X, y, sample_weight)
        passed = weight if self._is_weighted(sample_weight) else None
        linear = isinstance(self.meta, str)
        w = weight[weight > 0] / weight.sum()
        self.estimators_ = []
        self.trace_ = []
        P = []
        for name, spec in _pairs(self.members):
            p, member = self._out_of_fold(spec, X, y, weight, passed, self._predictions)
            P.append(p[weight > 0])
            self.estimators_.append(member)
            if linear:
                self.weights_, *found = _stack_numbers(np.array(P).T, y[weight > 0], w)
                if self._show(P, *found, name):
                    break
        if not linear:
            rows, goals = np.array(P).T.copy(), y[weight > 0]
            part = None if passed is None else passed[weight > 0]
            self.weights_ = np.ones(1)
            self.meta_ = self._fitted(self.meta, rows, goals, part)
            error = self._predictions(self.meta_, rows) - goals
            self._show(P, w @ error**2, None, type(self.meta).__name__)
        return self._finish()

    def votes(self, X):
        """Prediction of every member, (n, T); (n, 1) if meta is a regressor: its prediction."""
        votes = super().votes(X)
        return self._predictions(self.meta_, votes)[:, None] if hasattr(self, "meta_") else votes

    def _holds_results(self, has):
        if isinstance(self.meta, str):
            return not hasattr(self, "meta_") and super()._holds_results(has)
        good = has("weights_", (1,)) and self.weights_[0] == 1
        return good and self.meta_.n_features_in_ == len(self.estimators_)


class Calibrated(_Combined):
    """Probabilities for a classifier of two classes.

    Parameters
    ----------
    base : a classifier, "linear", "bayes" or "centroid"
        Object with fit, predict, and decision_function or predict_proba; or a built-in one, see
        Voting. If it takes no weights, they count for the function g only, and a warning says so.
    method : "platt" or "isotonic"
        Logistic function with Platt's targets, or the best increasing function: for many rows.
    cv : int >= 2, or a list of pairs (training rows, test rows)
        Number of folds, or the folds.
    prefit : bool
        Whether base is fitted already; X, y should then be rows that it does not know.
    tol : float > 0
        Target for `residual_`: probabilities are then exact to about its square root.
    max_iter : int >= 1
        Most Newton steps.
    class_weight : None, "balanced" or dict
        Factor of each class in the weights of the rows; "balanced": all classes weigh the same.
    verbose : int
        1 prints one line after every iteration.
    callback : None or callable
        Called as callback(self, iteration, info) after every iteration; True stops.

    Attributes
    ----------
    estimators_ : a list of the classifier, trained on all rows
    slope_, offset_ : of Platt's function 1 / (1 + exp(-(slope f + offset)))
    thresholds_, values_ : corners of the isotonic function, which is linear between them
    weights_ : [1]
    objective_, residual_ : mean log-loss against Platt's targets, or mean squared error; certified
        duality gap / max(1, objective_)
    n_iter_, converged_, trace_ : iterations, residual_ <= tol, objective per iteration
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = Calibrated(ExRM(), method="isotonic").fit(X, y)
    >>> model.predict_proba(X)[:, 1]
    """

    _role = "base"
    _param_rules = {
        "base": "one of 'linear', 'bayes', 'centroid' or an object with fit and predict",
        "method": "one of 'platt', 'isotonic'",
        "cv": FOLDS,
        "prefit": "True or False",
        "max_iter": "an integer >= 1",
        "tol": "a number > 0",
    }

    def __init__(
        self, base="linear", method="platt", cv=5, prefit=False, tol=1e-13, max_iter=100,
        class_weight=None, verbose=0, callback=None,
    ):  # fmt: skip
        self._set(locals())

    @restore_on_failure
    def fit(self, X, y, sample_weight=None):
        """Train on X (n, d) and two classes y; sample_weight counts for base and its function."""
        self._check_params()
        X, y, weight = self._check_fit(X, y, sample_weight)
        passed = None
        if self._is_weighted(sample_weight) and not self.prefit:
            if isinstance(self.base, str) or takes_weights(self.base):
                passed = weight
            else:
                warnings.warn(
                    f"Calibrated: {type(self.base).__name__} takes no sample_weight in fit: the "
                    "weights count for the calibration only",
                    stacklevel=3,
                )
        positive = y > 0
        f, member = self._out_of_fold(
            self.base, X, positive.astype(np.intp), weight, passed, self._output
        )
        self.estimators_ = [member]
        self.weights_ = np.ones(1)
        self.trace_ = []
        if self.method == "platt":
            used = weight > 0
            problem = f[used], positive[used], weight[used]
            found = _platt(*problem, self.tol, self.max_iter, self._report)
            self.slope_, self.offset_ = found
        else:
            self.thresholds_, self.values_ = _isotonic(f, positive, weight, self._report)
        return self._finish()

    def _specs(self):
        return [self.base]

    def votes(self, X):
        """The decision function as a column, (n, 1)."""
        return self.decision_function(X)[:, None]

    def decision_function(self, X):
        """Probability of the second class minus that of the first, (n,)."""
        X = self._check_X(X)
        f = self._output(self.estimators_[0], X)
        if self.method == "platt":
            return np.tanh(0.5 * (self.slope_ * f + self.offset_))
        return 2.0 * np.interp(f, self.thresholds_, self.values_) - 1.0

    def _holds_results(self, has):
        if len(self.estimators_) != 1 or not has("weights_", (1,)) or self.weights_[0] != 1:
            return False
        if self.method == "platt":
            found = [self.slope_, self.offset_]
            return all(isinstance(v, float) and np.isfinite(v) for v in found)
        m = self.thresholds_.size
        good = m > 0 and has("thresholds_", (m,)) and has("values_", (m,))
        good = good and (np.diff(self.thresholds_) > 0).all() and (np.diff(self.values_) >= 0).all()
        return good and 0 <= self.values_[0] and self.values_[-1] <= 1

    def predict_proba(self, X):
        """Probability of each class, (n, 2)."""
        decision = self.decision_function(X)
        return 0.5 * np.column_stack([1.0 - decision, 1.0 + decision])


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    blobs = generator.normal(size=(600, 5)) + np.repeat([[-0.7], [0.0], [0.9]], 200, axis=0)
    labels = np.repeat(["left", "middle", "right"], 200)
    for model in (Voting(), Voting(how="soft"), Stacking()):
        model.fit(blobs, labels)
        print(f"{model!r}: accuracy {model.score(blobs, labels):.3f}, "
              f"weights {np.round(model.weights_, 3)}")  # fmt: skip
    assert model.residual_ <= model.tol and (np.diff(model.trace_) <= 0).all()
    for model in (VotingRegressor(weights="covariance"), StackingRegressor()):
        model.fit(blobs[:, 1:], blobs[:, 0])
        print(f"{model!r}: weights {np.round(model.weights_, 3)}, gap {model.residual_:.1e}")
        assert model.residual_ <= model.tol
    for model in (Calibrated(), Calibrated(method="isotonic")):
        p = model.fit(blobs[200:], labels[200:]).predict_proba(blobs[200:])[:, 1]
        print(f"{model!r}: mean probability {p.mean():.3f}, gap {model.residual_:.1e}")
        assert model.residual_ <= model.tol

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
                Any classifier may replace this regression.
    StackingRegressor  H(x) = sum_t a_t h_t(x), where

                minimise over a >= 0:  mean_i w_i ( y_i - sum_t a_t h_t(x_i) )^2

                with out-of-fold h_t(x_i). Any regressor may replace this regression.
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
Departs   Rows are dealt to the folds in turn, by class or in the order of y: nothing is drawn.
          The final members and the calibrated classifier are trained on all rows.
Symbols   paper         here       meaning                                    shape
          h_t(x)_c      votes      of the members, by class if K > 2          (n, T), (n, T, K)
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
from functools import cache, partial, wraps

import numpy as np

EPS = 2.0**-52  # Rounding of one operation. No gap is claimed below EPS * objective.
VANISHING = 1e-300  # Smaller numbers count as zero.


# -- voting ---------------------------------------------------------------------------------------
# how          vote h_t(x) of member t                   class of x
# plurality    1 for the class that it predicts, else 0  argmax of H = sum_t a_t h_t
# majority     1 for the class that it predicts, else 0  argmax if it has over half, else reject
# soft         probabilities Pr_t(c | x)                 argmax
# average      decision function                         argmax
def _as_vote(scores):
    """Scores (n, K) of the classes; the second minus the first, (n,), if K = 2."""
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores


def _sum_votes(votes, weights):
    """H = sum_t a_t h_t, (n,) or (n, K), of votes (n, T) or (n, T, K) with weights a (T,)."""
    return votes @ weights if votes.ndim == 2 else weights @ votes


def _winners(H):
    """Index of the class of the largest H; on a tie the first, but the second if K = 2."""
    return (H >= 0).astype(np.intp) if H.ndim == 1 else H.argmax(axis=1)


def _has_majority(H, weights):
    """True where the winner has more than half of the votes, which sum to weights.sum()."""
    return np.abs(H) > 0 if H.ndim == 1 else 2.0 * H.max(axis=1) - weights.sum() > 0


# -- weights learned from errors ------------------------------------------------------------------
def _smoothed(wrong, w):
    """Fraction e of wrong rows by Laplace's rule: (n e + 1) / (n + 2), n rows of weight w > 0."""
    n = np.count_nonzero(w)
    return (n * np.average(wrong, weights=w) + 1.0) / (n + 2.0)


def _log_odds(error, K):
    """Best weight in a vote of independent members whose errors fall on all other classes alike."""
    return np.maximum(np.log((K - 1.0) * (1.0 - error) / error), 0.0)


def _inverse(E, w):
    """Weights (T,) of sum 1, inverse to the mean squares of the errors E (n, T); w (n,) of sum 1.
    If some members have no error, all weight goes to them."""
    square = w @ (E / max(np.abs(E).max(), VANISHING)) ** 2
    least = square.min()
    a = least / square if least > 0 else (square == 0).astype(np.float64)
    return a / a.sum()


def _least_squares(E, w):
    """min over a >= 0 of sum 1 of sum_i w_i (E a)_i^2, errors E (n, T), weights w (n,) of sum 1.

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

    # No average of the members is nearer to zero than its projection on these errors.
    bound = max((error @ WE).min(), 0.0) ** 2 / primal if primal > 0 else 0.0
    return a, size**2 * primal, size**2 * max(primal - bound, EPS * primal)


# -- stacking -------------------------------------------------------------------------------------
CHANGES = 10  # Maximum changes of the active set per member; one or two are usual.
ROUNDING = 8 * EPS  # A dot product counts as 0 below ROUNDING * sum of the sizes of its terms.


def _stack(P, codes, w):
    """Regress the indicator of each class on its probabilities P (T, n, K) from the members.

    Returns the coefficients (T, K), and the sums of the objectives and of the gaps.
    """
    coef, objectives, gaps = zip(*(
        _regress(np.ascontiguousarray(P[:, :, c].T), (codes == c).astype(np.float64), w)
        for c in range(P.shape[2])
    ), strict=True)  # fmt: skip
    return np.ascontiguousarray(np.array(coef).T), sum(objectives), sum(gaps)


def _stack_numbers(P, y, w):
    """Regress numbers y (n,) on the predictions P (n, T) of the members, in any unit.

    Returns the coefficients (T,), the objective and its gap.
    """
    unit = max(np.abs(y).max(), VANISHING)
    sizes = np.abs(P).max(axis=0)
    sizes = np.where(sizes > VANISHING * max(unit, 1.0), sizes, np.inf)
    x, objective, gap = _regress(P / sizes, y / unit, w)
    return x * (unit / sizes), unit**2 * objective, unit**2 * gap


def _regress(A, b, w):
    """min over x >= 0 of sum_i w_i (b_i - (A x)_i)^2, A (n, T), weights w (n,) of sum 1.

    Returns x, the objective and its certified gap.
    """
    WA = w[:, None] * A
    x = _active_set(A.T @ WA, b @ WA)
    error = b - A @ x
    primal = w @ error**2

    # The errors, shifted until no column has a positive product with them, are a dual point. The
    # shift is a constant if A >= 0, else a direction of equal products with all columns in use.
    signed = A.min() < 0
    direction, products = 1.0, WA.sum(0)
    if signed:
        free = x > 0
        G = A[:, free].T @ WA[:, free]
        direction = 2.0 * A[:, free] @ np.linalg.lstsq(G, np.ones(free.sum()), rcond=None)[0]
        products = 0.5 * direction @ WA  # Half: the shift is twice as long, against rounding.
    used = products > 0
    shift = (error @ WA[:, used] / products[used]).max(initial=0.0)
    dual = error - shift * direction
    square = w @ dual**2
    bound = max(w @ (b * dual), 0.0) ** 2 / square if square > 0 else 0.0
    if signed and (dual @ WA > ROUNDING * (np.abs(dual) @ np.abs(WA))).any():
        bound = 0.0  # Columns cancel each other, and no shift is right for all.
    return x, primal, max(primal - bound, EPS * primal)


def _active_set(G, c):
    """argmin over x >= 0 of x.G x - 2 c.x for the Gram matrix G (T, T)."""
    x = np.zeros(c.size)
    free = np.zeros(c.size, dtype=bool)
    for _ in range(CHANGES * c.size):
        # Step 1: free the coefficient of the steepest descent.
        slope = np.where(free, -np.inf, c - G @ x)
        k = slope.argmax()
        if slope[k] <= EPS * c.max():
            break
        free[k] = True

        # Step 2: move x towards the best free coefficients z; bind those that reach zero.
        while True:
            z = np.zeros(c.size)
            z[free] = np.linalg.lstsq(G[np.ix_(free, free)], c[free], rcond=None)[0]
            low = free & (z <= 0)
            if not low.any():
                break
            step = (x[low] / np.maximum(x[low] - z[low], VANISHING)).min()
            x = np.where(free, x + step * (z - x), 0.0)
            free &= x > EPS * x.max()
        x = z
    return x


# -- calibration: Platt's function ----------------------------------------------------------------
DAMP = 1e-14  # Added to the diagonal of the Hessian, which rows far out may leave singular.
DUAL_ERROR = 1e-12  # Largest error of the dual equations in a certificate.
HALVINGS = 60  # Maximum halvings of a Newton step.


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
        curvature = w * p * (1.0 - p)
        H = Phi.T @ (curvature[:, None] * Phi)
        H += np.diag([DAMP + (scale == np.inf), DAMP])
        step = np.linalg.solve(H, (w * (p - target)) @ Phi)

        # Step 2: the certificate; the Newton step turns p into a dual point.
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
    """Mean and standard deviation of outputs f (n,); inf if all are equal but for rounding."""
    centre = w @ f
    size = max(np.abs(f - centre).max(), VANISHING)  # Squares of small outputs would be 0.
    scale = size * np.sqrt(w @ ((f - centre) / size) ** 2)
    least = max(EPS * np.abs(f).max(), VANISHING)
    return centre, scale if scale > least else np.inf


def _log_loss(z, target, w):
    """Mean log-loss of the probabilities 1 / (1 + exp(-z)) against the targets."""
    return w @ (np.logaddexp(0.0, z) - target * z)


def _platt_gap(q, Phi, target, w, objective):
    """Objective minus the mean entropy of q, over max(1, objective); inf if q is no dual point:
    probabilities whose weighted sums of Phi equal those of the targets."""
    balanced = np.abs((w * (q - target)) @ Phi).max() <= DUAL_ERROR
    if not balanced or q.min() < 0.0 or q.max() > 1.0:
        return np.inf
    entropy = -q * np.log(np.maximum(q, VANISHING))
    entropy -= (1.0 - q) * np.log(np.maximum(1.0 - q, VANISHING))
    return float(max(objective - w @ entropy, EPS * objective) / max(1.0, objective))


# -- calibration: the isotonic function -----------------------------------------------------------
def _isotonic(f, positive, w, report):
    """Corners (thresholds, values) of the increasing function of least squares, linear between."""
    from scipy.optimize import isotonic_regression  # It takes a second to load.

    w = w / w.sum()
    used = w > VANISHING
    f, positive, w = f[used], positive[used], w[used]

    # Equal outputs get one value: the mean of their labels is fitted.
    thresholds, place = np.unique(f, return_inverse=True)
    weight = np.bincount(place, w)
    y = np.bincount(place, w * positive) / weight
    values = isotonic_regression(y, weights=weight).x
    within = w @ (positive - y[place]) ** 2
    objective = weight @ (y - values) ** 2 + within

    # The certificate: the running sums of the errors are the multipliers.
    multipliers = np.maximum(np.cumsum(weight * (y - values)), 0.0)
    multipliers[-1] = 0.0
    change = np.diff(multipliers, prepend=0.0)
    dual = (2.0 * change * y - change**2 / weight).sum() + within
    gap = max(objective - dual, EPS * objective)
    report(1, objective, residual=float(gap / max(1.0, objective)))

    # Inner points of constant stretches are no corners.
    ends = np.ones(values.size, dtype=bool)
    ends[1:-1] = (values[1:-1] != values[:-2]) | (values[1:-1] != values[2:])
    return thresholds[ends], values[ends]


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


# >>> shared: numbers 2
ROWS = 2048  # Rows per product, whose squares fit into the cache.


def _standardise(X, w):
    """X (n, d) minus its means, over its standard deviations; means; deviations; w of sum 1.

    The deviation of a constant column is inf: the column counts for nothing.
    """
    mean = w @ X
    Z = X - mean
    starts = range(0, len(w), ROWS)
    deviations = np.sqrt(sum(w[i : i + ROWS] @ Z[i : i + ROWS] ** 2 for i in starts))
    is_doubtful = deviations <= len(w) * EPS * np.abs(mean) + VANISHING**0.5
    for j in np.flatnonzero(is_doubtful):
        x, z = X[w > 0, j], Z[w > 0, j]
        size = np.abs(z).max()  # Squares of small numbers would be 0.
        is_constant = size < VANISHING or (x == x[0]).all()
        deviations[j] = np.inf if is_constant else size * np.sqrt(w[w > 0] @ (z / size) ** 2)
    Z /= deviations
    return Z, mean, deviations


# <<< shared: numbers


# -- built-in members -----------------------------------------------------------------------------
PENALTY = 1e-3  # Ridge penalty of the linear members, on features of unit variance.
SMOOTH = 1e-9  # Fraction of the largest variance that is added to all variances of naive Bayes.


def _lines(X, targets, w):
    """Least squares for targets (n, K), weights w of sum 1: coefficients, intercept, (K, d + 1)."""
    Z, mean, deviations = _standardise(X, w)
    level = w @ targets
    ZW = Z.T * w
    H = ZW @ Z + PENALTY * np.eye(len(mean))
    coef = np.linalg.solve(H, ZW @ (targets - level)).T / deviations
    return np.column_stack([coef, level - coef @ mean])


class _BuiltIn(_Estimator):
    """Small member for rows that the combination has checked; its fitted state is one array."""

    _per_feature = 1  # Columns of state_ per feature; one more is constant.

    def __init__(self):
        self._set(locals())

    @restore_on_failure
    def fit(self, X, y, sample_weight=None):
        """Train on X (n, d) and y (n,)."""
        self.n_features_in_ = X.shape[1]
        w = np.ones(len(y)) if sample_weight is None else sample_weight
        self.state_ = np.ascontiguousarray(self._learn(X, y, w / w.sum()))
        self.converged_ = True
        return self

    def _is_consistent(self, has):
        rows = [self.classes_.size] if hasattr(self, "classes_") else []
        return has("state_", (*rows, self._per_feature * self.n_features_in_ + 1))


class _BuiltInClassifier(_BuiltIn):
    """Built-in member whose state has a row per class."""

    _multi_class = True

    def _learn(self, X, y, w):
        self.classes_, codes = np.unique(y, return_inverse=True)
        onehot = np.eye(self.classes_.size)[codes]
        fractions = w @ onehot
        if fractions.min() < VANISHING:
            text = f"the weights of class {self.classes_[fractions.argmin()]} are lost beside those"
            text += " of the others; bring sample_weight and class_weight closer together"
            raise ValueError(text)
        return self._learn_classes(X, onehot, w)

    def predict(self, X):
        """Class of the largest probability."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class _Linear(_BuiltInClassifier):
    """Least squares on the indicators of the classes: coefficients, then the intercept."""

    def _learn_classes(self, X, onehot, w):
        return _lines(X, onehot, w)

    def _values(self, X):
        with np.errstate(over="ignore", invalid="ignore"):  # The combination checks the outputs.
            return X @ np.ascontiguousarray(self.state_[:, :-1].T) + self.state_[:, -1]

    def predict_proba(self, X):
        """Values of the regressions, clipped to 0 .. 1, divided by their sum, (n, K)."""
        p = np.clip(self._values(X), 0.0, 1.0)
        return p / p.sum(axis=1, keepdims=True)

    def decision_function(self, X):
        """Values of the regressions, (n, K); their difference, (n,), for two classes."""
        return _as_vote(self._values(X))


def _row_chunks(X):
    """Yield slices of ROWS rows of X (n, d), their columns (d, ROWS) and space of that shape."""
    for start in range(0, len(X), ROWS):
        columns = X[start : start + ROWS].T.copy()
        yield slice(start, start + ROWS), columns, np.empty_like(columns)


class _Bayes(_BuiltInClassifier):
    """Gaussian naive Bayes: means, 1 / deviations, then the term that does not depend on x."""

    _per_feature = 2
    _pooled = False

    def _learn_classes(self, X, onehot, w):
        deviations = _standardise(X, w)[2]
        largest = deviations[np.isfinite(deviations)].max(initial=0.0)
        unit, floor = (largest, SMOOTH) if largest > 0 else (1.0, 1.0)

        # Means and variances by class, in the unit of the largest deviation: squares of small
        # numbers would be 0.
        fractions = w @ onehot
        class_weights = np.multiply(onehot.T, w, order="C") / fractions[:, None]
        means = class_weights @ X
        variances = np.zeros_like(means)
        for rows, columns, z in _row_chunks(X):
            for k, mean in enumerate(means):
                np.subtract(columns, mean[:, None], out=z)
                z /= unit
                z *= z
                variances[k] += z @ class_weights[k, rows]
        if self._pooled:
            variances[:] = fractions @ variances
        deviations = unit * np.sqrt(variances + floor)
        constant = np.log(fractions) - np.log(deviations).sum(axis=1)
        return np.column_stack([means, 1.0 / deviations, constant])

    def predict_proba(self, X):
        """Posterior probability of each class, (n, K)."""
        d = X.shape[1]
        scores = np.empty((len(self.state_), len(X)))
        with np.errstate(over="ignore"):
            for rows, columns, z in _row_chunks(X):
                for k, row in enumerate(self.state_[:, :, None]):
                    np.subtract(columns, row[:d], out=z)
                    z *= row[d:-1]
                    z *= z
                    scores[k, rows] = row[-1] - 0.5 * z.sum(axis=0)
        scores = np.maximum(scores, np.finfo(np.float64).min)  # Squares may overflow far away.
        p = np.exp(scores - scores.max(axis=0))
        return (p / p.sum(axis=0)).T


class _Centroid(_Bayes):
    """Naive Bayes with one variance per feature for all classes: the nearest mean."""

    _pooled = True


class _Line(_BuiltIn):
    """Least squares on numbers: coefficients, then the intercept."""

    _estimator_type = "regressor"

    def _learn(self, X, y, w):
        return _lines(X, y[:, None], w)[0]

    def predict(self, X):
        """Number for each row, (n,); the combination checks that it is bounded."""
        with np.errstate(over="ignore", invalid="ignore"):
            return X @ self.state_[:-1] + self.state_[-1]


class _Parabola(_Line):
    """Least squares on features of unit variance and their squares: means, 1 / deviations,
    coefficients of both, intercept."""

    _per_feature = 4

    def _learn(self, X, y, w):
        Z, mean, deviations = _standardise(X, w)
        line = super()._learn(np.hstack([Z, Z * Z]), y, w)
        return np.concatenate([mean, 1.0 / deviations, line])

    def predict(self, X):
        """Number for each row, (n,)."""
        d = X.shape[1]
        with np.errstate(over="ignore", invalid="ignore"):
            Z = (X - self.state_[:d]) * self.state_[d : 2 * d]
            return np.hstack([Z, Z * Z]) @ self.state_[2 * d : -1] + self.state_[-1]


BUILT_IN = {"linear": _Linear, "bayes": _Bayes, "centroid": _Centroid}
REGRESSORS = {"linear": _Line, "quadratic": _Parabola}


# -- rules of the parameters ----------------------------------------------------------------------
def _pairs(members):
    """Pair (name, member) of each: the given name, that of a built-in member, or its index."""
    items = members.replace(" ", "").split(",") if isinstance(members, str) else list(members)
    names = [item if isinstance(item, str) else str(t) for t, item in enumerate(items)]
    is_pair = [isinstance(item, tuple) and len(item) == 2 for item in items]
    return [i if p else (n, i) for i, p, n in zip(items, is_pair, names, strict=True)]


def _are_members(members, built_in):
    """True if all are names of built-in members or objects that learn, and given names differ."""
    given = [item[0] for item in members if isinstance(item, tuple)]
    is_valid = all(isinstance(name, str) and name and "__" not in name for name in given)
    is_valid = is_valid and len({*given}) == len(given) and len(members) > 0
    return is_valid and all(
        m in built_in if isinstance(m, str) else hasattr(m, "fit") and hasattr(m, "predict")
        for _, m in _pairs(members)
    )


def _are_weights(v, *rules):
    """True if these are weights of members, or one of the rules by which they are learned."""
    if v is None or isinstance(v, str):
        return v is None or v in rules
    return np.min(v) >= 0 and 0 < sum(map(float, v)) < MAX_ABS


def _are_folds(v):
    """True if this is a number of folds, or a list of pairs."""
    if isinstance(v, (int, np.integer)):
        return v >= 2
    return not isinstance(v, str) and len(v) > 0 and all(len(pair) == 2 for pair in v)


MEMBERS, OF_NUMBERS = (
    f"a list of {kind}s (objects with fit and predict), of pairs (name, {kind}) whose names differ "
    f"and have no '__' in them, or of {', '.join(names)}"
    for kind, names in (("classifier", BUILT_IN), ("regressor", REGRESSORS))
)
NUMBERS = f"None or finite numbers >= 0, not all 0, of a sum below {MAX_ABS:g}"
WEIGHTS = f"{NUMBERS}, or one of 'log-odds', 'inverse-error'"
WEIGHTS_OF_NUMBERS = f"{NUMBERS}, or one of 'inverse-error', 'covariance'"
CV = "an integer >= 2 or a list of pairs (training rows, test rows)"
RULE_TYPES |= {
    MEMBERS: lambda v: _are_members(v, BUILT_IN),
    OF_NUMBERS: lambda v: _are_members(v, REGRESSORS),
    WEIGHTS: lambda v: _are_weights(v, "log-odds", "inverse-error"),
    WEIGHTS_OF_NUMBERS: lambda v: _are_weights(v, "inverse-error", "covariance"),
    CV: _are_folds,
}
COMMON = {"cv": CV, "prefit": "True or False"}


# -- estimators -----------------------------------------------------------------------------------
OUTSIDE = 1e-6  # Largest error of a member's probabilities beyond 0 and 1.


class _Combined(_Nested):
    """Members by name or as objects, their outputs, and the loop that trains them.

    Parameters
    ----------
    cv : int >= 2, or a list of pairs (training rows, test rows)
        Folds of the outputs from which weights, a regression or a calibration are learned: their
        number, or the folds.
    prefit : bool
        If True, the members are fitted already and used as they are. Weights should then be learned
        on other rows than theirs: errors on training rows are too low.
    tol : float > 0
        Target for `residual_`.
    class_weight : None, "balanced" or dict
        Factor per class, multiplied into sample_weight. "balanced" gives all classes the same
        total weight.
    verbose : int
        1 prints one line per iteration: per member, or per Newton step of Calibrated.
    callback : None or callable
        Called as callback(self, iteration, info) after every iteration; True stops. The model is
        then that of the members so far. An estimator `meta` is reported once, at the end. Early
        stopping: lambda model, iteration, info: model.score(X_test, y_test) > 0.9.
    """

    _built_in = BUILT_IN
    _own_members = tuple(BUILT_IN.values())
    _role = "member"

    def _specs(self):
        return [spec for _, spec in _pairs(self.members)]

    @property
    def _allow_nan(self):
        """Missing values go to the members; the built-in ones take none."""
        return all(getattr(spec, "_allow_nan", not isinstance(spec, str)) for spec in self._specs())

    @property
    def named_estimators_(self):
        """The fitted members by name, or by index if they have none."""
        names = [name for name, _ in _pairs(self.members)][: len(self.estimators_)]
        return dict(zip(names, self.estimators_, strict=True))

    def __sklearn_clone__(self):
        """Keep fitted members, of which scikit-learn would make unfitted copies."""
        params = self.get_params(deep=False)
        return type(self)(**(params if self.prefit else copy.deepcopy(params)))

    def _check_params(self):
        super()._check_params()
        specs, weights = self._specs(), getattr(self, "weights", None)
        is_valid = not (self.prefit and any(isinstance(spec, str) for spec in specs))
        self._require(is_valid, "prefit=True needs fitted objects, not names")
        T, given = len(specs), 0 if weights is None or isinstance(weights, str) else len(weights)
        self._require(given in (0, T), f"weights must have one entry per member ({T}), got {given}")

    @restore_on_failure
    def fit(self, X, y, sample_weight=None):
        """Train on X (n, d) and y (n,); sample_weight counts for the members and on top of them."""
        self._check_params()
        X, y, weight = self._check_fit(X, y, sample_weight)
        if getattr(self, "how", "") == "majority":
            self._check_reject()
        passed = weight if self._is_weighted(sample_weight) else None
        is_on_top = not isinstance(getattr(self, "meta", ""), str)
        pairs = _pairs(self.members)
        self.estimators_, self.trace_, outputs = [], [], []
        for t, (name, spec) in enumerate(pairs, 1):
            output, member = self._train(spec, X, y, weight, passed)
            outputs.append(output)
            self.estimators_.append(member)
            if is_on_top and t < len(pairs):
                continue  # An estimator on top needs the outputs of all members.
            if is_on_top:
                name = type(self.meta).__name__
                objective, gap = self._fit_meta(outputs, y, weight, passed), None
            else:
                objective, gap = self._combine(outputs, y, weight)
            self.converged_ = False  # The callback may use the model of the members so far.
            residual = None if gap is None else float(gap / max(1.0, objective))
            if self._report(t, objective, residual=residual, name=name):
                break
        return self._finish()

    def _train(self, spec, X, y, weight, passed):
        """Output of a member on X, and the member trained on all rows.

        The output is out of fold, unless the weights are given. passed: weights for fit, or None.
        """
        targets = y if self._estimator_type == "regressor" else self.classes_[y]
        if self.prefit or not isinstance(getattr(self, "weights", "learned"), str):
            member = spec if self.prefit else self._fitted(spec, X, targets, passed)
            return self._member_output(member, X), member
        outputs = None
        for train, test in self._folds(y, weight):
            fold_weight = None if passed is None else passed[train]
            member = self._fitted(spec, X[train], targets[train], fold_weight)
            output = self._member_output(member, X[test])
            outputs = np.zeros((y.size, *output.shape[1:])) if outputs is None else outputs
            outputs[test] = output
        return outputs, self._fitted(spec, X, targets, passed)

    def _fitted(self, spec, X, targets, weight):
        """A fitted copy of a member; weight None is not passed on."""
        member = self._built_in[spec]() if isinstance(spec, str) else copy.deepcopy(spec)
        return fit_member(member, X, targets, weight)

    def _folds(self, y, weight):
        """Pairs (training rows, test rows); y holds class indices, or float64 numbers.

        Rows without weight are in none if cv is a number.
        """
        n, rows = y.size, np.arange(y.size)
        if not isinstance(self.cv, (int, np.integer)):
            pairs = [(np.asarray(train), np.asarray(test)) for train, test in self.cv]
            is_valid = np.array_equal(np.sort(np.concatenate([test for _, test in pairs])), rows)
            self._require(is_valid, f"the test parts of cv must hold each of the {n} rows once")
            is_valid = all(train.size and np.isin(train, rows).all() for train, _ in pairs)
            self._require(is_valid, f"the training parts of cv must hold numbers of the {n} rows")
            return pairs

        # Deal the rows to the folds in turn, class by class or in the order of y.
        used = np.flatnonzero(weight > 0)
        text = "cross-validation needs at least 2 rows"
        self._require(used.size > 1, f"{text}, there is 1 sample")
        is_valid = y.dtype.kind == "f" or np.bincount(y[used]).min() > 1
        self._require(is_valid, f"{text} of each class")
        fold = np.full(n, -1)
        fold[used[np.argsort(y[used], kind="stable")]] = np.arange(used.size) % self.cv
        tests = [np.flatnonzero(fold == k) for k in range(min(self.cv, used.size))]
        return [(np.flatnonzero((fold >= 0) & (fold != k)), test) for k, test in enumerate(tests)]

    def _finish(self):
        """Set trace_ and converged_; warn if the residual is too large."""
        self.trace_ = np.array(self.trace_)
        self.converged_ = self.residual_ is None or self.residual_ <= self.tol
        if not self.converged_:
            more = "raise max_iter or tol" if hasattr(self, "max_iter") else "raise tol"
            text = f"{type(self).__name__} stopped after {self.n_iter_} iterations with residual "
            text += f"{self.residual_:.1e} (tol={self.tol:g}); {more}"
            warnings.warn(text, ConvergenceWarning, stacklevel=4)
        return self

    def votes(self, X):
        """Output of every member, (n, T), or (n, T, K) with a column per class if K > 2."""
        X = self._check_X(X)
        return np.stack([self._member_output(member, X) for member in self.estimators_], axis=1)

    def _is_consistent(self, has):
        """Check features of the members, weights and coefficients; predict a row of zeros."""
        T = 1 if hasattr(self, "meta_") else len(self.estimators_)
        d = self.n_features_in_
        is_valid = has("weights_", (T,)) and all(m.n_features_in_ == d for m in self.estimators_)
        if hasattr(self, "coef_"):
            is_valid = is_valid and has("coef_", (T, self.classes_.size))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # The row has no feature names.
            return is_valid and self.predict(np.zeros((1, d))).shape == (1,)

    # -- outputs of members ---------------------------------------------------------------------
    def _require_of(self, member, condition, text):
        """Raise ValueError that names the class and the member, unless the condition holds."""
        role = "meta" if member is getattr(self, "meta_", None) else self._role
        self._require(condition, f"{role} {type(member).__name__} {text}")

    def _columns(self, member):
        """Indices of the member's classes among classes_."""
        indices = {label: k for k, label in enumerate(self.classes_.tolist())}
        own = np.asarray(getattr(member, "classes_", self.classes_)).tolist()
        text = f"has the classes {', '.join(map(str, own))}, y has {', '.join(map(str, indices))}"
        self._require_of(member, {*own} <= {*indices}, text)
        return [indices[label] for label in own]

    def _probabilities(self, member, X):
        """Probabilities of the classes, (n, K)."""
        if not hasattr(member, "predict_proba"):
            way_out = "wrap it in OneVsRest(Calibrated(...)), which has"
            way_out = way_out if self.classes_.size > 2 else "wrap it in Calibrated, which has"
            way_out = way_out if hasattr(member, "decision_function") else "choose one that has"
            self._require_of(member, False, f"has no predict_proba; {way_out}")
        columns = self._columns(member)
        own = np.asarray(member.predict_proba(X), dtype=np.float64)
        text = f"gives probabilities of shape {own.shape}, not one per class"
        self._require_of(member, own.shape == (len(X), len(columns)), text)
        p = own
        if columns != list(range(self.classes_.size)):
            p = np.zeros((len(X), self.classes_.size))
            p[:, columns] = own
        low, high = p.min(), p.max()
        text = f"gives probabilities from {low:g} to {high:g}, not from 0 to 1; scale X"
        self._require_of(member, -OUTSIDE <= low and high <= 1.0 + OUTSIDE, text)  # NaN fails.
        return p if low >= 0 else np.maximum(p, 0.0)

    def _decision(self, member, X):
        """Real-valued output: (n,) for two classes, (n, K) for more."""
        K = self.classes_.size
        if not hasattr(member, "decision_function"):
            text = "has neither decision_function nor predict_proba; choose one that has"
            self._require_of(member, hasattr(member, "predict_proba"), text)
            return _as_vote(self._probabilities(member, X))
        is_complete = self._columns(member) == list(range(K))
        self._require_of(member, is_complete, "does not know all classes of y")
        f = np.asarray(member.decision_function(X), dtype=np.float64)
        text = f"gives outputs of shape {f.shape}, not one per class"
        self._require_of(member, f.shape == ((len(X), K) if K > 2 else (len(X),)), text)
        self._require_bounded(member, f, "gives outputs from", "scale X: they")
        return f

    def _require_bounded(self, member, f, before, after):
        """Raise ValueError if an output is no number below MAX_ABS in size."""
        if not (np.abs(f) < MAX_ABS).all():
            text = f"{before} {f.min():g} to {f.max():g}; {after} have to be numbers below"
            self._require_of(member, False, f"{text} {MAX_ABS:g}")


class Voting(_Combined):
    """Vote of several classifiers, of two or more classes.

    Use it to combine models of different kinds; equal weights are hard to beat.

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
        Prediction for rows without a majority; how="majority" only, which needs it.
    cv, prefit, class_weight, verbose, callback : as in _Combined

    Attributes
    ----------
    estimators_, named_estimators_ : the fitted members, as a list and by name or index
    weights_ (T,) : their weights, of sum 1 for "soft" and "average"; else, if learned, of maximum 1
    errors_ (T,) : if weights are learned, the error of each member, (n e + 1) / (n + 2) for a
        fraction e of n rows
    objective_, trace_ : fraction of wrong training rows, out of fold if weights are learned, of
        all, and of the first 1, 2, ... members
    n_iter_, converged_, residual_ : members, True, None: nothing is optimised
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = Voting([OneVsRest(ExRM()), "bayes", "centroid"], weights="log-odds").fit(X, y)
    >>> model.weights_, model.score(X_test, y_test)
    """

    _multi_class = True
    _param_rules = COMMON | {
        "members": MEMBERS,
        "how": "one of 'plurality', 'majority', 'soft', 'average'",
        "weights": WEIGHTS,
    }

    def __init__(
        self, members="linear,bayes,centroid", how="plurality", weights=None, reject=None, cv=5,
        prefit=False, class_weight=None, verbose=0, callback=None,
    ):  # fmt: skip
        self._set(locals())

    def _check_reject(self):
        """Raise ValueError if reject is no label apart from the classes."""
        numeric = [np.asarray(v).dtype.kind in "biuf" for v in (self.classes_, self.reject)]
        is_valid = self.reject is not None and numeric[0] == numeric[1]
        text = "how='majority' needs reject, a label for rows without a majority that is "
        text += f"{'a number' if numeric[0] else 'a text'} and no class of y, got {self.reject!r}"
        self._require(is_valid and self.reject not in self.classes_, text)

    def _combine(self, votes, codes, weight):
        """Set the weights of the members so far; return their fraction of wrong rows, and no gap.

        votes holds the weighted sum of the earlier votes and the last vote; it becomes the sum.
        """
        vote = votes.pop()
        a = np.ones(len(self.estimators_))
        if isinstance(self.weights, str):
            error = _smoothed(_winners(vote) != codes, weight)
            self.errors_ = np.append(getattr(self, "errors_", []), error)
            is_inverse = self.weights == "inverse-error"
            a = 1.0 / self.errors_ if is_inverse else _log_odds(self.errors_, len(self.classes_))
        elif self.weights is not None:
            a = np.array(self.weights, dtype=np.float64)[: a.size]
        votes[:] = [sum(votes) + a[-1] * vote]
        a = a if a.any() else np.ones_like(a)
        if self.how in ("soft", "average"):
            a = a / a.sum()
        elif isinstance(self.weights, str):
            a = a / a.max()  # Given whole numbers stay so, and ties are exact.
        self.weights_ = a
        return np.average(_winners(votes[0]) != codes, weights=weight), None

    def _member_output(self, member, X):
        """Vote of a member: -1..+1 for two classes, (n,); a column per class, (n, K), for more."""
        if self.how == "average":
            return self._decision(member, X)
        if self.how == "soft":
            return _as_vote(self._probabilities(member, X))
        labels = np.asarray(member.predict(X))
        chosen = labels.reshape(-1, 1) == self.classes_
        if labels.shape != (len(X),) or not chosen.any(axis=1).all():
            self._columns(member)
            self._require_of(member, False, "predicts labels that are not in y")
        return _as_vote(chosen.astype(np.float64))

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


class Stacking(_Combined):
    """Classifier on top of the out-of-fold probabilities of others; two or more classes.

    Use it to learn how far to trust each of several models.

    Parameters
    ----------
    members : list of classifiers, or of pairs (name, classifier), or a text of names with commas
        Members of Voting with predict_proba: Calibrated gives it to any with a decision function.
    meta : "linear" or a classifier
        Regression with coefficients >= 0 for each class on the members' probabilities of that
        class; or an object with fit and predict that gets the probabilities of all members side by
        side: of the second class only if there are two. For decision_function and votes it
        needs decision_function or predict_proba.
    cv, prefit, tol, class_weight, verbose, callback : as in _Combined

    Attributes
    ----------
    estimators_, named_estimators_ : the members, trained on all rows, as a list and by name
    coef_ (T, K) : coefficients of the regressions; meta_ instead: the fitted classifier
    weights_ (T,) : mean of a member's coefficients; one weight of 1 if meta is a classifier
    objective_, trace_ : squared error of the regressions with all, and the first 1, 2, ... members;
        the fraction of wrong training rows if meta is a classifier
    residual_ : certified duality gap / max(1, objective_); None if meta is a classifier
    n_iter_, converged_ : members, residual_ <= tol
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = Stacking([OneVsRest(Calibrated(ExRM())), "bayes"]).fit(X, y)
    >>> model.weights_, model.score(X_test, y_test)
    """

    _multi_class = True
    _member_output = _Combined._probabilities
    _param_rules = COMMON | {
        "members": MEMBERS,
        "meta": "'linear' or an object with fit and predict",
        "tol": "a number > 0",
    }

    def __init__(
        self, members="linear,bayes,centroid", meta="linear", cv=5, prefit=False, tol=1e-9,
        class_weight=None, verbose=0, callback=None,
    ):  # fmt: skip
        self._set(locals())

    def _combine(self, P, codes, weight):
        """Solve the regressions on the members so far; return the objective and its gap."""
        self.coef_, objective, gap = _stack(np.array(P), codes, weight / weight.sum())
        self.weights_ = self.coef_.mean(axis=1)
        return objective, gap

    def _fit_meta(self, P, codes, weight, passed):
        """Train the classifier on top; return its fraction of wrong rows."""
        rows, labels = _side_by_side(P), self.classes_[codes]
        self.weights_ = np.ones(1)
        self.meta_ = self._fitted(self.meta, rows, labels, passed)
        return np.average(np.asarray(self.meta_.predict(rows)) != labels, weights=weight)

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
            return self._decision(self.meta_, _side_by_side(P))[:, None]
        weights = self.weights_[:, None]
        ratios = np.where(weights > 0, self.coef_ / np.where(weights > 0, weights, 1.0), 1.0)
        return np.stack([_as_vote(r * p) for r, p in zip(ratios, P, strict=True)], axis=1)

    def decision_function(self, X):
        """LR_c(x), (n, K); the difference of the two, (n,), for two classes."""
        return _sum_votes(self.votes(X), self.weights_)

    @property
    def predict_proba(self):
        """LR_c(x) divided by their sum, or the probabilities of the classifier on top, (n, K)."""
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


def _side_by_side(P):
    """Rows for the classifier on top from the (n, K) probabilities of the members."""
    return np.hstack([p[:, 1:] if p.shape[1] == 2 else p for p in P])


class _CombinedRegressor(_Regressor, _Combined):
    """Combination of regressors: y and the outputs of the members are numbers."""

    _built_in = REGRESSORS
    _own_members = tuple(REGRESSORS.values())

    def _member_output(self, member, X):
        """Prediction of a member, (n,)."""
        p = np.asarray(member.predict(X))
        text = f"predicts {p.dtype} of shape {p.shape}, not one number per row; choose regressors"
        self._require_of(member, p.shape == (len(X),) and p.dtype.kind in "biuf", text)
        p = p.astype(np.float64)
        self._require_bounded(member, p, "predicts", "scale X and y: predictions")
        return p

    def predict(self, X):
        """Number for each row, (n,): the weighted sum of the members' predictions."""
        return self.votes(X) @ self.weights_


class VotingRegressor(_CombinedRegressor):
    """Average of several regressors.

    Use it to average regressors of different kinds.

    Parameters
    ----------
    members : list of regressors, or of pairs (name, regressor), or a text of names with commas
        Objects with fit and predict; each is copied and trained on all rows. The built-in ones are
        "linear" (least squares) and "quadratic" (least squares with the squares of the features).
        members__0__loss is the loss of the first; members__gb__loss that of ("gb", regressor).
    weights : None, list of numbers >= 0, "inverse-error" or "covariance"
        Weight of each member; None: equal. A rule learns them from the errors of the members in
        cross-validation: inverse to their mean squares, which is best for errors that are not
        correlated, or those of the average of least squares. On few rows such weights may do worse
        than equal ones.
    cv, prefit, tol, verbose, callback : as in _Combined

    Attributes
    ----------
    estimators_, named_estimators_ : the fitted members, as a list and by name or index
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
    >>> model.weights_, model.score(X_test, y_test)
    """

    _param_rules = COMMON | {
        "members": OF_NUMBERS,
        "weights": WEIGHTS_OF_NUMBERS,
        "tol": "a number > 0",
    }

    def __init__(
        self, members="linear,quadratic", weights=None, cv=5, prefit=False, tol=1e-9, verbose=0,
        callback=None,
    ):  # fmt: skip
        self._set(locals())

    def _combine(self, P, y, weight):
        """Set the weights of the members so far, with predictions P; return the mean squared error
        of their average, and its gap if it was minimised."""
        w = weight[weight > 0] / weight.sum()
        E = (np.array(P) - y)[:, weight > 0].T
        if isinstance(self.weights, str):
            self.errors_ = w @ E**2
        if self.weights == "covariance":
            self.weights_, objective, gap = _least_squares(E, w)
            return objective, gap
        if self.weights == "inverse-error":
            self.weights_ = _inverse(E, w)
        else:
            a = np.ones(len(P)) if self.weights is None else np.array(self.weights, float)[: len(P)]
            a = a if a.any() else np.ones(len(P))
            self.weights_ = a / a.sum()
        return w @ (E @ self.weights_) ** 2, None


class StackingRegressor(_CombinedRegressor):
    """Regressor on top of the out-of-fold predictions of others.

    Use it to learn the weights of several regressors.

    Parameters
    ----------
    members : list of regressors, or of pairs (name, regressor), or a text of names with commas
        Members of VotingRegressor.
    meta : "linear" or a regressor
        Regression without a constant and with coefficients >= 0 on the members' predictions; or an
        object with fit and predict that gets them side by side, (n, T).
    cv, prefit, tol, verbose, callback : as in _Combined

    Attributes
    ----------
    estimators_, named_estimators_ : the members, trained on all rows, as a list and by name
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
    >>> model.weights_, model.score(X_test, y_test)
    """

    _param_rules = Stacking._param_rules | {"members": OF_NUMBERS}

    def __init__(
        self, members="linear,quadratic", meta="linear", cv=5, prefit=False, tol=1e-9, verbose=0,
        callback=None,
    ):  # fmt: skip
        self._set(locals())

    def _combine(self, P, y, weight):
        """Solve the regression on the members so far; return the objective and its gap."""
        used = weight > 0
        rows = np.array([p[used] for p in P]).T
        self.weights_, *result = _stack_numbers(rows, y[used], weight[used] / weight.sum())
        return result

    def _fit_meta(self, P, y, weight, passed):
        """Train the regressor on top; return its mean squared error."""
        used = weight > 0
        rows = np.column_stack([p[used] for p in P])
        passed = None if passed is None else passed[used]
        self.weights_ = np.ones(1)
        self.meta_ = self._fitted(self.meta, rows, y[used], passed)
        error = self._member_output(self.meta_, rows) - y[used]
        return weight[used] / weight.sum() @ error**2

    def votes(self, X):
        """Prediction of every member, (n, T); (n, 1) if meta is a regressor: its prediction."""
        votes = super().votes(X)
        return self._member_output(self.meta_, votes)[:, None] if hasattr(self, "meta_") else votes


class Calibrated(_Combined):
    """Probabilities for a classifier of two classes.

    Use it to get probabilities from a decision function.

    Parameters
    ----------
    base : a classifier, "linear", "bayes" or "centroid"
        Object with fit, predict, and decision_function or predict_proba; or a built-in one, see
        Voting. If it takes no weights, they count for the function g only, and a warning says so.
    method : "platt" or "isotonic"
        Logistic function with Platt's targets, or the best increasing function: for many rows.
    cv, prefit : as in _Combined
    tol : float > 0
        Target for `residual_`: probabilities are then exact to about its square root.
    max_iter : int >= 1
        Maximum number of Newton steps.
    class_weight, verbose, callback : as in _Combined

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
    >>> model.predict_proba(X_test)[:3, 1]
    """

    _role = "base"
    _member_output = _Combined._decision
    _param_rules = COMMON | {
        "base": "one of 'linear', 'bayes', 'centroid' or an object with fit and predict",
        "method": "one of 'platt', 'isotonic'",
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
        passed = weight if self._is_weighted(sample_weight) and not self.prefit else None
        if passed is not None and not isinstance(self.base, str) and not takes_weights(self.base):
            passed = None
            text = f"Calibrated: {type(self.base).__name__} takes no sample_weight in fit: the "
            warnings.warn(text + "weights count for the calibration only", stacklevel=3)
        positive = y > 0
        f, member = self._train(self.base, X, positive.astype(np.intp), weight, passed)
        self.estimators_, self.weights_, self.trace_ = [member], np.ones(1), []
        if self.method == "platt":
            used = weight > 0
            problem = f[used], positive[used], weight[used]
            result = _platt(*problem, self.tol, self.max_iter, self._report)
            self.slope_, self.offset_ = result
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
        f = self._member_output(self.estimators_[0], X)
        if self.method == "platt":
            return np.tanh(0.5 * (self.slope_ * f + self.offset_))
        return 2.0 * np.interp(f, self.thresholds_, self.values_) - 1.0

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

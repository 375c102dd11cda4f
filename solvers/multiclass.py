"""Multi-class: one-versus-rest and error-correcting codes over any classifier of two classes.

Problem   A code matrix of -1, 0 and +1 has a row for each of K classes and a column for each of L
          classifiers. Classifier l learns to tell the classes with +1 from those with -1 in its
          column, without the rows of classes with 0. A row x goes to the class whose code word is
          nearest to the outputs f_1(x) .. f_L(x):

    one-vs-rest   code 2 I - 1; the class of the largest f_k(x)
    hamming       the class k with the fewest l such that sign f_l(x) differs from code_kl
    hinge         the class k with the least  mean_l max(0, 1 - code_kl f_l(x)),  code_kl != 0

Method    L fits of the base classifier; decoding is two matrix products. A code whose words differ
          in at least D columns corrects any (D - 1) / 2 wrong outputs. Codes: all 2^(K-1) - 1 ways
          to split the classes, all pairs of classes, or the best of many random ones, of
          10 log2 K columns. Two classes are one column, whatever the code.
          `residual_` is the largest certified gap of a classifier, relative to its own objective.
          The built-in base is regularised least squares on -1/+1, solved for all columns at once
          and certified: with centred rows Z of unit variance, minimised over w and b it is

              mean_i (t_i - z_i.w - b)^2 + l2 |w|^2
              dual, over r of mean 0:  mean_i (2 r_i t_i - r_i^2) - |mean_i r_i z_i|^2 / l2
Reference Zhang, "Ensemble learning" (a chapter of lecture notes), section 1.3; Dietterich, Bakiri,
          "Solving Multiclass Learning Problems via Error-Correcting Output Codes", JAIR 1995;
          Allwein, Schapire, Singer, "Reducing Multiclass to Binary", JMLR 2000 (loss-based
          decoding); Rifkin, Klautau, "In Defense of One-Vs-All Classification", JMLR 2004.
Departs   Random columns are never repeated, also not as complements: equal columns would make equal
          errors.
Symbols   paper     here      meaning                         shape
          M         code_     the code, one word a class      (K, L)
          f_l(x)    votes     outputs of the classifiers      (n, L)
Use       m = OneVsRest(ExRM()).fit(X, y); m.predict(X)
Origin    ensolve, solvers/multiclass.py, MIT licence
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

EPS = 2.0**-52  # The rounding of one operation. No gap is claimed below this part of the objective.
VANISHING = 1e-300  # Smaller numbers count as zero.
MOST_CLASSES = 11  # An exhaustive code has at most so many classes: that makes 1023 columns.
CANDIDATES = 100  # So many random codes are drawn, and the one with the farthest words is taken.


# -- codes and their decoding ---------------------------------------------------------------------
def exhaustive_code(K):
    """All ways to split K classes in two, (K, 2^(K-1) - 1); the last class is always +."""
    columns = np.arange(2 ** (K - 1) - 1)
    bits = columns >> np.arange(K - 1)[:, None] & 1
    return np.vstack([2 * bits - 1, np.ones_like(columns)]).astype(np.int8)


def one_vs_one_code(K):
    """All pairs of K classes, (K, K (K-1) / 2): the later class is +, the others are left out."""
    first, second = np.triu_indices(K, 1)
    code = np.zeros((K, first.size), dtype=np.int8)
    code[first, np.arange(first.size)] = -1
    code[second, np.arange(first.size)] = 1
    return code


def random_code(K, L, rng):
    """The random code of L distinct columns with the largest distance between any two words."""
    if K <= MOST_CLASSES:
        every = exhaustive_code(K)
        if L >= every.shape[1]:
            return every
    best, farthest = None, -1
    for _ in range(CANDIDATES):
        if K <= MOST_CLASSES:
            code = every[:, rng.choice(every.shape[1], L, replace=False)]
        else:
            code = _distinct_columns(K, L, rng)
        found = min_distance(code)
        if found > farthest:
            best, farthest = code, found
    return best


def _distinct_columns(K, L, rng):
    """Random columns, (K, L), no two of them equal or complements, none with one sign only."""
    code = np.empty((K, 0), dtype=np.int8)
    while code.shape[1] < L:
        more = rng.choice(np.array([-1, 1], dtype=np.int8), (K, L))
        more = more[:, np.abs(more.sum(axis=0, dtype=np.int64)) < K]
        more *= more[-1].copy()  # The last class is +: complements become equal columns.
        code = np.unique(np.hstack([code, more]), axis=1)
        code = code[:, rng.permutation(code.shape[1])[:L]]
    return code


def min_distance(code):
    """Fewest columns in which two words differ; a 0 counts as half a difference."""
    words = np.asarray(code, dtype=np.float64)
    alike = words @ words.T
    return float((code.shape[1] - alike[np.triu_indices(len(words), 1)].max()) / 2)


def decode(outputs, code, how="hinge"):
    """Closeness (n, K) of the outputs (n, L) to the words of the code (K, L); -inf to words of
    zeros only."""
    used = np.abs(code).sum(axis=1, dtype=np.float64)
    if how == "hamming":
        closeness = np.where(outputs >= 0, 1.0, -1.0) @ code.T
    else:
        plus = (code == 1).astype(np.float64).T
        minus = (code == -1).astype(np.float64).T
        closeness = -np.maximum(1.0 - outputs, 0.0) @ plus - np.maximum(1.0 + outputs, 0.0) @ minus
    return np.where(used > 0, closeness / np.where(used > 0, used, 1.0), -np.inf)


# -- the built-in base ----------------------------------------------------------------------------
def _least_squares(X, targets, weight, l2):
    """Regression on each of several columns of targets, (n, L): coefficients, intercepts,
    objectives and gaps."""
    # Step 1: centred rows Z of unit variance.
    w = weight / weight.sum()
    mean = w @ X
    level = w @ targets
    Z = X - mean
    spread = _deviations(X, Z, mean, w)
    Z /= spread

    # Step 2: the normal equations of all columns.
    ZW = Z.T * w
    H = ZW @ Z + l2 * np.eye(len(mean))
    goal = ZW @ (targets - level)
    try:
        coef = np.linalg.solve(H, goal)
    except np.linalg.LinAlgError:  # The penalty is lost beside the rest of a singular matrix.
        coef = np.linalg.lstsq(H, goal, rcond=None)[0]

    # Step 3: the errors, of mean 0 but for rounding, are a point of the dual.
    error = targets - level - Z @ coef
    error -= w @ error
    objective = w @ error**2 + l2 * (coef**2).sum(axis=0)
    with np.errstate(over="ignore"):
        dual = w @ (2.0 * error * targets - error**2) - ((ZW @ error) ** 2).sum(axis=0) / l2
    gap = np.maximum(objective - dual, EPS * objective)
    coef = coef.T / spread
    return coef, level - coef @ mean, objective, gap


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
    """Whether all outputs are numbers below BOUND."""
    flat = f.ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        square = flat @ flat
    return square < BOUND**2 or bool((np.abs(flat) < BOUND).all())


# <<< shared: numbers


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


# >>> shared: nested 1
def _estimators(value):
    """Name and estimator of each in a parameter: "" for itself; in a list its name or number."""
    is_one = hasattr(value, "get_params") and not isinstance(value, type)
    found = [("", value)] if is_one else []
    for t, part in enumerate(value if isinstance(value, (list, tuple)) else ()):
        name, part = part if _is_pair(part) else (str(t), part)
        found += [(name, part)] if hasattr(part, "get_params") else []
    return dict(found)


def _is_pair(part):
    """Whether a part of a list is an estimator with its name."""
    return isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], str)


class _Nested(_Estimator):
    """A model that may hold others, as parameters or as fitted members."""

    _own_members = ()  # Classes of this file that may be inside the model.

    def get_params(self, deep=True):
        """Parameters of the constructor by name; deep: also a__b, those of an estimator a, and
        a__0 and a__0__b where a is a list of estimators, by name where they have names."""
        params = super().get_params()
        for name, value in list(params.items()) if deep else ():
            for place, part in _estimators(value).items():
                path = f"{name}__{place}" if place else name
                params[path] = part
                params |= {f"{path}__{inner}": v for inner, v in part.get_params().items()}
        return params

    def set_params(self, **params):
        """Set parameters of the constructor; returns self."""
        for path, value in sorted(params.items()):  # An estimator comes before its parameters.
            name, _, inner = path.partition("__")
            place, old = "", getattr(self, name, None) if name in self._param_names() else None
            inside = _estimators(old)
            if inner and isinstance(old, (list, tuple)):
                place, _, inner = inner.partition("__")
            if name not in self._param_names() or (place or inner) and place not in inside:
                self._refuse_param(path)
            if inner:
                inside[place].set_params(**{inner: value})
                continue
            if place:
                value = [
                    value if part is inside[place]
                    else (place, value) if isinstance(part, tuple) and part[0] == place
                    else part
                    for part in old
                ]  # fmt: skip
            setattr(self, name, value)
        return self

    def _twin(self, params):
        """An unfitted object with these parameters and the same requests for metadata."""
        twin = type(self)(**params)
        if hasattr(self, "_metadata_request"):
            twin._metadata_request = self._metadata_request
        return twin


# <<< shared: nested


# >>> shared: members 1
def takes_nan(member):
    """Whether a member takes missing values: as ours say, or the tags of scikit-learn's."""
    if hasattr(member, "_takes_nan"):
        return member._takes_nan()
    if hasattr(member, "__sklearn_tags__"):
        return member.__sklearn_tags__().input_tags.allow_nan
    return member._get_tags()["allow_nan"] if hasattr(member, "_get_tags") else False


def takes_weights(member):
    """Whether the fit of a member has sample_weight."""
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


# -- estimators -----------------------------------------------------------------------------------
BASE = "'linear' or an object with fit, and decision_function, predict_proba or predict"
KINDS |= {
    BASE: lambda v: v == "linear" if isinstance(v, str) else hasattr(v, "fit"),
    "a matrix with a row for each class": lambda v: np.ndim(v) == 2,
}


class _Coded(_Nested):
    """What both share: a classifier for each column of a code."""

    _multi_class = True
    _rules = {
        "base": BASE,
        "l2": "a finite number > 0",
        "tol": "a number > 0",
    }

    @property
    def _allow_nan(self):
        """Missing values are the business of base; the built-in one takes none."""
        return not isinstance(self.base, str) and getattr(self.base, "_allow_nan", True)

    def _takes_nan(self):
        return not isinstance(self.base, str) and takes_nan(self.base)

    @all_or_nothing
    def fit(self, X, y, sample_weight=None):
        """Train on X (n, d) and two or more classes y; sample_weight is passed on to base."""
        self._check_params()
        X, codes, weight = self._check_fit(X, y, sample_weight)
        code = self._make_code(self.classes_.size)
        built_in = isinstance(self.base, str)
        train = self._train_built_in if built_in else self._train_copies
        self.trace_ = []
        found = []
        total = 0.0
        worst = 0.0
        for part, objective, residual in train(X, code[codes], weight, sample_weight):
            found.append(part)
            total = total + objective
            worst = np.maximum(worst, residual)  # NaN, for one that is not known, stays NaN.
            if self._show(found, code, total, worst):
                break
        self._keep(found, code)
        self.trace_ = np.array(self.trace_)
        if built_in:
            good = self.residual_ <= self.tol
        else:
            good = all(getattr(member, "converged_", True) for member in found)
        self.converged_ = bool(good and len(found) == code.shape[1])
        if not good and built_in:
            warnings.warn(
                f"{type(self).__name__} ended with residual {self.residual_:.1e} (tol={self.tol:g})"
                "; raise l2 or tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def votes(self, X):
        """Output of every classifier, (n, L); for two classes > 0 speaks for the second one."""
        outputs = self._outputs(self._check_X(X))
        return outputs * self.code_[1] if self.classes_.size == 2 else outputs

    def _is_consistent(self, has):
        """Check the code and its classifiers, and predict a row of zeros."""
        K, L, d = self.classes_.size, self.weights_.size, self.n_features_in_
        good = self.code_.shape == (K, L) and L > 0 and self.code_.dtype == np.int8
        good = good and np.isin(self.code_, (-1, 0, 1)).all() and has("weights_", (L,))
        if isinstance(self.base, str):
            good = good and has("coef_", (L, d)) and has("intercept_", (L,))
        else:
            good = good and [member.n_features_in_ for member in self.estimators_] == [d] * L
        return good and self.predict(np.zeros((1, d))).shape == (1,)

    def _train_built_in(self, X, targets, weight, sample_weight):
        """Coefficients with intercept, objective and residual of each column; those without zeros
        are solved together."""
        L = targets.shape[1]
        dense = (targets != 0).all()
        for columns in [slice(0, L)] if dense else [slice(k, k + 1) for k in range(L)]:
            rows = slice(None) if dense else (targets[:, columns] != 0).ravel()
            goal = targets[rows, columns].astype(np.float64)
            coef, intercept, objective, gap = _least_squares(
                X[rows], goal, weight[rows], float(self.l2)
            )
            parts = zip(coef, intercept, strict=True)
            yield from zip(parts, objective, gap / np.maximum(1.0, objective), strict=True)

    def _train_copies(self, X, targets, weight, sample_weight):
        """The same of copies of base, which get the labels 0 and 1; NaN for what is not known."""
        for target in targets.T:
            rows = slice(None) if target.all() else target != 0
            passed = weight[rows] if self._is_weighted(sample_weight) else None
            labels = (target[rows] > 0).astype(np.int64)
            member = fit_member(copy.deepcopy(self.base), X[rows], labels, passed)
            found = [getattr(member, name, None) for name in ("objective_", "residual_")]
            yield member, *(math.nan if value is None else value for value in found)

    def _show(self, found, code, objective, residual):
        """Report on the classifiers so far; a callback may use the model of them."""
        if self.callback is not None:
            self._keep(found, code)
            self.converged_ = False
        residual = None if np.isnan(residual) else float(residual)
        return self._report(len(found), objective, residual=residual)

    def _keep(self, found, code):
        """Set the classifiers that were trained, and their part of the code."""
        L = len(found)
        self.code_ = np.ascontiguousarray(code[:, :L])
        self.weights_ = np.full(L, 1.0 / L)
        if isinstance(self.base, str):
            self.coef_ = np.array([coef for coef, _ in found])
            self.intercept_ = np.array([intercept for _, intercept in found])
        else:
            self.estimators_ = list(found)

    def _outputs(self, X):
        """Outputs of all classifiers, (n, L), which are numbers below BOUND."""
        if isinstance(self.base, str):
            with np.errstate(over="ignore", invalid="ignore"):
                outputs = X @ self.coef_.T + self.intercept_
        else:
            outputs = np.column_stack([self._output(member, X) for member in self.estimators_])
        if not _are_bounded(outputs):
            raise ValueError(
                f"{type(self).__name__}: outputs from {outputs.min():g} to {outputs.max():g}; "
                f"scale X: they have to be numbers below {BOUND:g}"
            )
        return outputs

    def _output(self, member, X):
        """Decision of a classifier of the labels 0 and 1, (n,): > 0 speaks for 1."""
        if hasattr(member, "decision_function"):
            found = np.asarray(member.decision_function(X), dtype=np.float64)
        elif hasattr(member, "predict_proba"):
            found = 2.0 * np.asarray(member.predict_proba(X))[:, 1] - 1.0
        else:
            found = 2.0 * np.asarray(member.predict(X)) - 1.0
        if found.shape != (X.shape[0],):
            raise ValueError(
                f"{type(self).__name__}: {type(member).__name__} gives outputs of shape "
                f"{found.shape}, not one a row"
            )
        return found


class OneVsRest(_Coded):
    """One classifier for each class, against all others.

    Parameters
    ----------
    base : a classifier of two classes, or "linear"
        Object with fit and predict, copied for each class and trained on labels 0 and 1; its
        decision_function is used, or its predict_proba. "linear" is least squares.
    l2 : float > 0
        Penalty of base="linear" on features of unit variance.
    tol : float > 0
        What `residual_` has to keep below for `converged_` with base="linear"; others know theirs.
    class_weight : None, "balanced" or dict
        Factor of each class in the weights of the rows; "balanced": all classes weigh the same.
    verbose : int
        1 prints one line after every class.
    callback : None or callable
        Called as callback(self, iteration, info) after every class; True stops. The model is then
        that of the classes so far: those that are left are never predicted.

    Attributes
    ----------
    estimators_ : the classifiers; or coef_ (L, d), intercept_ (L,) of base="linear"
    code_ (K, L) : +1 where classifier l takes class k for positive, else -1; L = 1 for two classes
    weights_ (L,) : 1 / L each
    objective_, trace_ : sum of the classifiers' objectives, after each; NaN if they report none
    residual_ : largest of the classifiers' own, which are certified gaps; None if not all have one
    n_iter_, converged_ : classifiers; whether all did converge
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = OneVsRest(ExRM(lam=1.0)).fit(X, y)
    >>> model.score(X, y), model.residual_
    """

    def __init__(
        self, base="linear", l2=1e-3, tol=1e-6, class_weight=None, verbose=0, callback=None
    ):
        self._set(locals())

    def _is_pairwise(self):
        """A kernel matrix for base is one here, too: all classifiers see all rows."""
        return getattr(self.base, "kernel", None) == "precomputed"

    def _make_code(self, K):
        """Each class against the rest; two classes are one column."""
        return one_vs_one_code(2) if K == 2 else 2 * np.eye(K, dtype=np.int8) - np.int8(1)

    def decision_function(self, X):
        """Outputs of the classifiers, (n, K), or (n,) for two classes."""
        votes = self.votes(X)
        if self.classes_.size == 2:
            return votes[:, 0]
        outputs = np.full((votes.shape[0], self.classes_.size), -np.inf)
        outputs[:, : votes.shape[1]] = votes
        return outputs

    @property
    def predict_proba(self):
        """The classifiers' probabilities, divided by their sum, (n, K), if base has them."""
        member = getattr(self, "estimators_", [self.base])[0]
        if not hasattr(member, "predict_proba"):
            text = "base has no predict_proba; OneVsRest(Calibrated(base)) gives probabilities"
            raise AttributeError(text)
        return self._predict_proba

    def _predict_proba(self, X):
        X = self._check_X(X)
        p = np.zeros((X.shape[0], self.classes_.size))
        for k, member in enumerate(self.estimators_):
            p[:, k] = member.predict_proba(X)[:, 1]
        if self.classes_.size == 2:
            return np.column_stack([1.0 - p[:, 0], p[:, 0]])
        total = p.sum(axis=1, keepdims=True)
        return np.where(total > 0, p / np.where(total > 0, total, 1.0), 1.0 / p.shape[1])


class ECOC(_Coded):
    """Error-correcting output code: one classifier for each of many ways to split the classes.

    Parameters
    ----------
    base : a classifier of two classes, or "linear"
        As in OneVsRest.
    code : "random", "exhaustive", "one-vs-one" or a matrix of -1, 0 and 1
        The best of many random codes; all 2^(K-1) - 1 splits; all pairs of classes; or a code with
        a row for each class, in the order of classes_, no two of them equal and none of zeros.
    n_columns : None or int >= 1
        Columns of a random code; None: 10 log2 K. There are never more than the exhaustive code's.
    decoding : "hinge" or "hamming"
        Nearest word by the size of the outputs, or by their signs only.
    l2 : float > 0
        Penalty of base="linear" on features of unit variance.
    tol : float > 0
        What `residual_` has to keep below for `converged_` with base="linear"; others know theirs.
    class_weight : None, "balanced" or dict
        Factor of each class in the weights of the rows; "balanced": all classes weigh the same.
    random_state : None, int, RandomState or Generator
        Seed of the random code.
    verbose : int
        1 prints one line after every column.
    callback : None or callable
        Called as callback(self, iteration, info) after every column; True stops. The model is then
        that of the columns so far; a class whose word is all zeros is never predicted.

    Attributes
    ----------
    estimators_ : the classifiers; or coef_ (L, d), intercept_ (L,) of base="linear"
    code_ (K, L) : the code
    weights_, objective_, trace_, residual_, n_iter_, converged_ : as in OneVsRest
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = ECOC(ExRM(lam=1.0), code="exhaustive").fit(X, y)
    >>> model.score(X, y), min_distance(model.code_)
    """

    _rules = {
        **_Coded._rules,
        "code": "'random', 'exhaustive', 'one-vs-one' or a matrix with a row for each class",
        "n_columns": "None or an integer >= 1",
        "decoding": "one of 'hinge', 'hamming'",
    }

    def __init__(
        self, base="linear", code="random", n_columns=None, decoding="hinge", l2=1e-3, tol=1e-6,
        class_weight=None, random_state=None, verbose=0, callback=None,
    ):  # fmt: skip
        self._set(locals())

    def _make_code(self, K):
        """The code for K classes."""
        if not isinstance(self.code, str):
            return self._check_code(np.asarray(self.code), K)
        if self.code == "one-vs-one":
            return one_vs_one_code(K)
        if self.code == "exhaustive":
            if K > MOST_CLASSES:
                raise ValueError(
                    f"ECOC: an exhaustive code for {K} classes has {2 ** (K - 1) - 1} columns; "
                    "use code='random'"
                )
            return exhaustive_code(K)
        L = math.ceil(10 * math.log2(K)) if self.n_columns is None else self.n_columns
        L = min(L, 2 ** (K - 1) - 1)
        code = random_code(K, L, np.random.default_rng(self._seed()))
        if min_distance(code) == 0:
            raise ValueError(
                f"ECOC: two of {K} classes have the same word in a random code of {L} columns; "
                f"raise n_columns, say to {math.ceil(10 * math.log2(K))}"
            )
        return code

    def _check_code(self, code, K):
        """A caller's code with a word for each of K classes, as small integers."""
        if code.shape[0] != K:
            raise ValueError(f"ECOC: code has {code.shape[0]} rows, but y has {K} classes")
        if not np.isin(code, (-1, 0, 1)).all():
            raise ValueError("ECOC: code must hold -1, 0 and 1 only")
        if code.shape[1] == 0 or (code.min(axis=0) != -1).any() or (code.max(axis=0) != 1).any():
            raise ValueError("ECOC: each column of code needs a class with 1 and one with -1")
        if not code.any(axis=1).all():
            k = np.flatnonzero(~code.any(axis=1))[0]
            raise ValueError(
                f"ECOC: row {k} of code, of class {self.classes_[k]}, is all zeros: no column "
                "knows that class"
            )
        if len(np.unique(code, axis=0)) < K:
            raise ValueError("ECOC: two classes have the same row in code")
        return code.astype(np.int8)

    def decision_function(self, X):
        """Closeness to the code words, (n, K); for two classes the mean output, (n,)."""
        votes = self.votes(X)
        if self.classes_.size == 2:
            return votes @ self.weights_
        return decode(votes, self.code_, self.decoding)

    def _outputs(self, X):
        outputs = super()._outputs(X)
        return np.where(outputs >= 0, 1.0, -1.0) if self.decoding == "hamming" else outputs


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(5, 6))
    labels = np.repeat(["ash", "beech", "elm", "fir", "oak"], 100)
    blobs = np.repeat(centres, 100, axis=0) + 0.6 * generator.normal(size=(500, 6))
    for model in (OneVsRest(), ECOC(random_state=0), ECOC(code="one-vs-one")):
        model.fit(blobs, labels)
        print(f"{model!r}: {model.n_iter_} classifiers, words differ in "
              f"{min_distance(model.code_):g}, accuracy {model.score(blobs, labels):.3f}, "
              f"gap {model.residual_:.1e}")  # fmt: skip
        assert model.residual_ <= model.tol
    code = random_code(5, 15, generator)
    wrong = np.repeat(code, 50, axis=0).astype(float)
    for row in wrong:
        row[generator.choice(15, int(min_distance(code) - 1) // 2, replace=False)] *= -1
    assert (decode(wrong, code, "hamming").argmax(axis=1) == np.repeat(np.arange(5), 50)).all()

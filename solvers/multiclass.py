"""Multi-class: one-versus-rest and error-correcting codes over any classifier of two classes.

Problem   A code matrix of -1, 0 and +1 has a row for each of K classes and a column for each of L
          classifiers. Classifier l separates the classes with +1 in its column from those with -1;
          rows of classes with 0 are left out. A row x goes to the class whose code word is nearest
          to the outputs f_1(x) .. f_L(x):

    one-vs-rest   code 2 I - 1; the class of the largest f_k(x)
    hamming       the class k with the fewest l such that sign f_l(x) differs from code_kl
    hinge         the class k with the least  mean_l max(0, 1 - code_kl f_l(x)),  code_kl != 0

Method    L fits of the base classifier; decoding is two matrix products. A code whose words differ
          in at least D columns corrects any (D - 1) / 2 wrong outputs. Codes: all 2^(K-1) - 1 ways
          to split the classes, all pairs of classes, or the best of many random ones, of 10 log2 K
          columns. Two classes are one column.
          `residual_` is the largest certified gap of a classifier, relative to its own objective.
          The built-in base is regularised least squares on -1/+1, solved for all columns at once
          and certified: with centred rows Z of unit variance, minimised over w and b it is

              mean_i (t_i - z_i.w - b)^2 + l2 |w|^2
              dual, over r of mean 0:  mean_i (2 r_i t_i - r_i^2) - |mean_i r_i z_i|^2 / l2
Reference Zhang, "Ensemble learning" (a chapter of lecture notes), section 1.3; Dietterich, Bakiri,
          "Solving Multiclass Learning Problems via Error-Correcting Output Codes", JAIR 1995;
          Allwein, Schapire, Singer, "Reducing Multiclass to Binary", JMLR 2000 (loss-based
          decoding); Rifkin, Klautau, "In Defense of One-Vs-All Classification", JMLR 2004.
Departs   Random columns are neither equal nor complements, whose classifiers make equal errors.
Symbols   paper     here      meaning                         shape
          M         code_     the code, one word per class    (K, L)
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
from functools import cache, partial, wraps

import numpy as np

EPS = 2.0**-52  # Rounding of one operation. No gap is claimed below EPS * objective.
VANISHING = 1e-300  # Smaller numbers count as zero.
MAX_CLASSES = 11  # Of an exhaustive code, which then has 1023 columns.
CANDIDATES = 100  # Random codes drawn; the one with the largest distance of words is taken.


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
    """Best of CANDIDATES random codes, (K, L): of the largest distance between any two words."""
    if K > MAX_CLASSES:
        return max((_distinct_columns(K, L, rng) for _ in range(CANDIDATES)), key=min_distance)
    every = exhaustive_code(K)
    n = every.shape[1]
    codes = (every[:, rng.choice(n, L, replace=False)] for _ in range(CANDIDATES))
    return every if L >= n else max(codes, key=min_distance)


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
    """Closeness (n, K) of outputs (n, L) to the words of code (K, L); -inf to words of zeros."""
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
    """Ridge regressions on targets (n, L): coefficients (L, d), intercepts, objectives, gaps."""
    # Step 1: centred rows Z of unit variance.
    w = weight / weight.sum()
    level = w @ targets
    Z, mean, deviations = _standardise(X, w)

    # Step 2: the normal equations of all columns.
    ZW = Z.T * w
    H = ZW @ Z + l2 * np.eye(len(mean))
    rhs = ZW @ (targets - level)
    try:
        coef = np.linalg.solve(H, rhs)
    except np.linalg.LinAlgError:  # The penalty is lost beside the rest of a singular matrix.
        coef = np.linalg.lstsq(H, rhs, rcond=None)[0]

    # Step 3: the errors, of mean 0 but for rounding, are a dual point.
    error = targets - level - Z @ coef
    error -= w @ error
    objective = w @ error**2 + l2 * (coef**2).sum(axis=0)
    with np.errstate(over="ignore"):
        dual = w @ (2.0 * error * targets - error**2) - ((ZW @ error) ** 2).sum(axis=0) / l2
    gap = np.maximum(objective - dual, EPS * objective)
    coef = coef.T / deviations
    return coef, level - coef @ mean, objective, gap


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


# -- estimators -----------------------------------------------------------------------------------
BASE = "'linear' or an object with fit, and decision_function, predict_proba or predict"
RULE_TYPES |= {
    BASE: lambda v: v == "linear" if isinstance(v, str) else hasattr(v, "fit"),
    "a matrix with a row for each class": lambda v: np.ndim(v) == 2,
}


class _Coded(_Nested):
    """A classifier for each column of a code."""

    _multi_class = True
    _param_rules = {"base": BASE, "l2": "a finite number > 0", "tol": "a number > 0"}

    @property
    def _allow_nan(self):
        """Missing values go to base; the built-in one takes none."""
        return not isinstance(self.base, str) and getattr(self.base, "_allow_nan", True)

    @restore_on_failure
    def fit(self, X, y, sample_weight=None):
        """Train on X (n, d) and two or more classes y; sample_weight is passed on to base."""
        self._check_params()
        X, codes, weight = self._check_fit(X, y, sample_weight)
        code = self._make_code(self.classes_.size)
        built_in = isinstance(self.base, str)
        train = self._train_built_in if built_in else self._train_copies
        self.trace_, trained = [], []
        total = worst = 0.0
        for member, objective, residual in train(X, code[codes], weight, sample_weight):
            trained.append(member)
            total = total + objective
            worst = np.maximum(worst, residual)  # NaN, if a classifier reports none, stays NaN.
            if self.callback is not None:  # It may use the model of the classifiers so far.
                self._set_fitted(trained, code)
                self.converged_ = False
            known = None if np.isnan(worst) else float(worst)
            if self._report(len(trained), total, residual=known):
                break
        self._set_fitted(trained, code)
        self.trace_ = np.array(self.trace_)
        is_exact = all(getattr(member, "converged_", True) for member in trained)
        if built_in and self.residual_ > self.tol:
            is_exact = False
            text = f"{type(self).__name__} ended with residual {self.residual_:.1e} "
            text += f"(tol={self.tol:g}); raise l2 or tol"
            warnings.warn(text, ConvergenceWarning, stacklevel=3)
        self.converged_ = is_exact and len(trained) == code.shape[1]
        return self

    def votes(self, X):
        """Output of every classifier, (n, L); for two classes > 0 votes for the second one."""
        outputs = self._outputs(self._check_X(X))
        return outputs * self.code_[1] if self.classes_.size == 2 else outputs

    def _is_consistent(self, has):
        """Check the code and its classifiers, and predict a row of zeros."""
        K, L, d = self.classes_.size, self.weights_.size, self.n_features_in_
        is_valid = has("weights_", (L,)) and self.code_.shape == (K, L)
        is_valid = is_valid and np.isin(self.code_, (-1, 0, 1)).all()
        if isinstance(self.base, str):
            is_valid = is_valid and has("coef_", (L, d)) and has("intercept_", (L,))
        return is_valid and self.predict(np.zeros((1, d))).shape == (1,)

    def _train_built_in(self, X, targets, weight, sample_weight):
        """Yield (coefficients, intercept), objective and residual of each column of targets."""
        L = targets.shape[1]
        dense = (targets != 0).all()  # All columns are then solved together.
        for columns in [slice(0, L)] if dense else [slice(k, k + 1) for k in range(L)]:
            rows = slice(None) if dense else (targets[:, columns] != 0).ravel()
            signs = targets[rows, columns].astype(np.float64)
            solution = _least_squares(X[rows], signs, weight[rows], float(self.l2))
            for coef, intercept, objective, gap in zip(*solution, strict=True):
                yield (coef, intercept), objective, gap / max(1.0, objective)

    def _train_copies(self, X, targets, weight, sample_weight):
        """Yield a copy of base, trained on labels 0 and 1, its objective and residual, or NaN."""
        for target in targets.T:
            rows = slice(None) if target.all() else target != 0
            passed = weight[rows] if self._is_weighted(sample_weight) else None
            labels = (target[rows] > 0).astype(np.int64)
            member = fit_member(copy.deepcopy(self.base), X[rows], labels, passed)
            values = [getattr(member, name, None) for name in ("objective_", "residual_")]
            yield member, *(math.nan if value is None else value for value in values)

    def _set_fitted(self, trained, code):
        """Set the trained classifiers and their columns of the code."""
        L = len(trained)
        self.code_ = np.ascontiguousarray(code[:, :L])
        self.weights_ = np.full(L, 1.0 / L)
        if isinstance(self.base, str):
            self.coef_ = np.array([coef for coef, _ in trained])
            self.intercept_ = np.array([intercept for _, intercept in trained])
        else:
            self.estimators_ = list(trained)

    def _outputs(self, X):
        """Outputs of all classifiers, (n, L), below MAX_ABS in size."""
        if isinstance(self.base, str):
            with np.errstate(over="ignore", invalid="ignore"):
                outputs = X @ self.coef_.T + self.intercept_
        else:
            outputs = np.column_stack([self._output(member, X) for member in self.estimators_])
        text = f"outputs from {outputs.min():g} to {outputs.max():g}; scale X: they have to be "
        self._require((np.abs(outputs) < MAX_ABS).all(), f"{text}numbers below {MAX_ABS:g}")
        return outputs

    def _output(self, member, X):
        """Decision of a classifier of the labels 0 and 1, (n,): > 0 votes for 1."""
        if hasattr(member, "decision_function"):
            f = np.asarray(member.decision_function(X), dtype=np.float64)
        elif hasattr(member, "predict_proba"):
            f = 2.0 * np.asarray(member.predict_proba(X))[:, 1] - 1.0
        else:
            f = 2.0 * np.asarray(member.predict(X)) - 1.0
        text = f"{type(member).__name__} gives outputs of shape {f.shape}, not one per row"
        self._require(f.shape == (len(X),), text)
        return f


class OneVsRest(_Coded):
    """One classifier for each class, against all others.

    Use it for more than two classes with any binary method.

    Parameters
    ----------
    base : a classifier of two classes, or "linear"
        Object with fit and predict, copied for each class and trained on labels 0 and 1; its
        decision_function is used, or its predict_proba. "linear" is least squares.
    l2 : float > 0
        Penalty of base="linear" on features of unit variance.
    tol : float > 0
        Target for `residual_` of base="linear"; other classifiers have their own.
    class_weight : None, "balanced" or dict
        Factor per class, multiplied into sample_weight. "balanced" gives all classes the same
        total weight.
    verbose : int
        1 prints one line per classifier.
    callback : None or callable
        Called as callback(self, iteration, info) after every classifier; True stops. The model is
        then that of the classifiers so far: classes that none of them has are never predicted.

    Attributes
    ----------
    estimators_ : the classifiers; or coef_ (L, d), intercept_ (L,) of base="linear"
    code_ (K, L) : +1 if class k is positive for classifier l, else -1; L = 1 for two classes
    weights_ (L,) : 1 / L each
    objective_, trace_ : sum of the classifiers' objectives, after each; NaN if they report none
    residual_ : largest of the classifiers' own, which are certified gaps; None if not all have one
    n_iter_, converged_ : classifiers; True if all of them converged
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = OneVsRest(ExRM(lam=1.0)).fit(X, y)
    >>> model.score(X_test, y_test), model.converged_
    """

    def __init__(
        self, base="linear", l2=1e-3, tol=1e-6, class_weight=None, verbose=0, callback=None
    ):
        self._set(locals())

    def __sklearn_tags__(self):
        """Tags of the base for a kernel matrix: all classifiers are trained on all rows."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = getattr(self.base, "kernel", None) == "precomputed"
        return tags

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

    Use it for many classes, when errors of single binary problems should be corrected.

    Parameters
    ----------
    base : as in OneVsRest
    code : "random", "exhaustive", "one-vs-one" or a matrix of -1, 0 and 1
        The best of many random codes; all 2^(K-1) - 1 splits; all pairs of classes; or a code with
        a row for each class, in the order of classes_, no two of them equal and none of zeros.
    n_columns : None or int >= 1
        Columns of a random code; None: 10 log2 K. There are never more than the exhaustive code's.
    decoding : "hinge" or "hamming"
        Nearest word by the size of the outputs, or by their signs only.
    l2, tol, class_weight : as in OneVsRest
    random_state : None, int, RandomState or Generator
        Seed of the random code.
    verbose, callback : as in OneVsRest

    Attributes
    ----------
    estimators_ : the classifiers; or coef_ (L, d), intercept_ (L,) of base="linear"
    code_ (K, L) : the code
    weights_, objective_, trace_, residual_, n_iter_, converged_ : as in OneVsRest
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = ECOC(ExRM(lam=1.0), code="exhaustive").fit(X, y)
    >>> model.score(X_test, y_test), min_distance(model.code_)
    """

    _param_rules = {
        **_Coded._param_rules,
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
        n_splits, usual = 2 ** (K - 1) - 1, math.ceil(10 * math.log2(K))
        if self.code == "exhaustive":
            text = f"an exhaustive code for {K} classes has {n_splits} columns; use code='random'"
            self._require(K <= MAX_CLASSES, text)
            return exhaustive_code(K)
        L = min(usual if self.n_columns is None else self.n_columns, n_splits)
        code = random_code(K, L, np.random.default_rng(self._seed()))
        text = f"two of {K} classes have the same word in a random code of {L} columns"
        self._require(min_distance(code) > 0, f"{text}; raise n_columns, say to {usual}")
        return code

    def _check_code(self, code, K):
        """A caller's code with a word for each of K classes, as small integers."""
        self._require(len(code) == K, f"code has {len(code)} rows, but y has {K} classes")
        self._require(np.isin(code, (-1, 0, 1)).all(), "code must hold -1, 0 and 1 only")
        is_valid = code.shape[1] and (code.min(0) == -1).all() and (code.max(0) == 1).all()
        self._require(is_valid, "each column of code needs a class with 1 and one with -1")
        for k in np.flatnonzero(~code.any(axis=1)):
            self._require(False, f"row {k} of code, of class {self.classes_[k]}, is all zeros")
        self._require(len(np.unique(code, axis=0)) == K, "two classes have the same row in code")
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

"""Bagging: a vote of members that are trained on samples of the rows, and perhaps of the features.

Members 1 .. T are trained independently, member t on a sample S_t of the n rows; each has one vote:

    H(x) = sgn( 1/T sum_t h_t(x) )                             h_t(x) in {-1, +1}, soft: in [-1, 1]

    H_oob(x_i) = sgn( mean of h_t(x_i) over the t whose S_t lacks row i )          out of bag, (9)
    E_oob      = share of rows with H_oob(x_i) != y_i                                         (10)

Method    S_t: n draws with replacement, which leave out 36.8 % of the rows, or fewer, or a part of
          the rows. Features may be drawn for each member (random subspaces), or anew at each split
          of a tree (random forest). Members are trees on binned features, or any object with fit
          and predict. A level of a tree costs O(n d), with k features drawn O(n k). The objective
          is the error on the training rows, which nothing minimises: there is no residual.
Reference Zhang, "Ensemble learning" (a chapter of lecture notes), section 2. Breiman, "Bagging
          Predictors", Machine Learning 1996; "Random Forests", 2001. Ho, "The Random Subspace
          Method for Constructing Decision Forests", TPAMI 1998.
Departs   Rows that no sample lacks have no out-of-bag vote: NaN, left out of (10). A sample with
          one class only is drawn again, DRAWS times at the most. sgn(0) = +1.
          sample_weight, class_weight: rows are drawn in proportion to them; without replacement,
          each equally likely, they are passed on to the members. In (10) they weigh the rows.
Symbols   chapter    here        meaning                                        shape
          D~_t       counts      how often each row is in the sample of t       (n,)
          h_t        vote        of one member                                  (n,)
          H          total       sum of the votes of the members so far         (n,)
          (9)        outside     ... of those that did not see the row          (n,)
Use       m = Bagging(oob_score=True).fit(X, y); m.predict(X); m.oob_score_
          forest = Bagging(n_estimators=100, max_features="sqrt")
Origin    ensolve, solvers/bagging.py, MIT licence
"""

import copy
import inspect
import json
import math
import os
import platform
import re
import stat
import sys
import threading
import warnings
import zipfile
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, wraps

import numpy as np
from numba import njit

DRAWS = 10  # samples to try for one with both classes
MOST = 2**31  # rows in a sample are fewer, so that the sums over a tree fit 62 bits


# >>> shared: protocol 5
FORMAT = 2  # of the model files
BOUND = 1e150  # numbers of X from here on are refused: sums of their squares have to be finite
RANDOM = (np.random.RandomState, np.random.Generator)


class ConvergenceWarning(UserWarning):
    """The result is not as exact as asked for."""


def kernel(function=None, **options):
    """njit with a disk cache; without one where no folder for it can be written."""
    if function is None:
        return lambda f: kernel(f, **options)
    cache = function.__module__ != "__main__"  # run as a script, the file is another module
    try:
        compiled = njit(cache=cache, error_model="numpy", **options)(function)
    except RuntimeError:
        return njit(error_model="numpy", **options)(function)
    for name in ("load_overload", "save_overload") if cache else ():
        setattr(compiled._cache, name, _spared(compiled._cache, name))
    return compiled


def _spared(cache, name, told=[]):  # noqa: B006 (said once in a file)
    """A function of a cache that may fail: on a full disk or a damaged file, kernels compile."""
    function, index = getattr(cache, name), cache._cache_file._index_path

    def spared(*args):
        try:
            return function(*args)
        except Exception as error:  # damaged files make unpickling and linking raise anything
            with suppress(OSError):
                os.unlink(index)  # or it might lead to the data of an earlier version
            if not told:
                told.append(name)
                warnings.warn(
                    f"Numba's cache failed at {index} ({type(error).__name__}: {error}); kernels "
                    "are compiled instead. Free space on the disk, or delete that folder",
                    stacklevel=2,
                )

    return spared


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


@contextmanager
def write_file(path):
    """A binary file that takes the place of path once all is written and safe on the disk."""
    path = os.path.realpath(path)
    mode = os.stat(path).st_mode if os.path.exists(path) else stat.S_IFREG | stat.S_IWUSR
    if not stat.S_ISREG(mode):  # a device or a pipe
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
    except Exception as error:  # NumPy, zipfile and json raise a dozen kinds on damaged files
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


def _build(header, arrays, known, path, place=""):
    """The model of a header and of the arrays at its place, with all models inside it."""
    name = header["class"]
    if name not in known:
        raise ValueError(f"{path} holds a {name}: pass the class, load(path, members=({name},))")
    cls, params, fitted = known[name], header["params"], header["values"] | arrays.get(place, {})
    known = known | {kind.__name__: kind for kind in cls._own_members}
    for name, value in header["models"].items():
        parts = value if isinstance(value, list) else [value]
        built = [
            _build(part, arrays, known, path, f"{place}{name}/{t}/")
            if isinstance(part, dict)
            else part
            for t, part in enumerate(parts)
        ]
        if name in header["names"]:
            pairs = zip(header["names"][name], built, strict=True)
            built = [part if given is None else (given, part) for given, part in pairs]
        (fitted if name.endswith("_") else params)[name] = built if parts is value else built[0]
    if set(params) - set(cls._param_names()):
        raise ValueError(f"{path} holds parameters that {cls.__name__} does not have")
    model = cls(**params)
    is_name = re.compile(r"[a-z]\w*_").fullmatch
    vars(model).update({name: value for name, value in fitted.items() if is_name(name)})
    try:
        good = model._is_intact() if fitted or not place else True
    except Exception:  # damaged values may raise anything
        good = False
    if not good:
        raise ValueError(f"{path} is not a model file of ensolve: its {cls.__name__} is damaged")
    return model


def _plain(value):
    """A value as json wants it."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a file holds numbers, texts and our models only, no {type(value).__name__}")


def _at_least(low):
    """A rule for whole numbers."""
    return lambda v: isinstance(v, (int, np.integer)) and v >= low, f"an integer >= {low}"


def _one_of(*choices):
    """A rule for names."""
    return lambda v: v in choices, "one of " + ", ".join(repr(choice) for choice in choices)


COMMON = {  # rules of the parameters that mean the same everywhere
    "class_weight": (
        lambda v: v is None or isinstance(v, dict) or v == "balanced",
        "None, 'balanced' or a dict from class to factor",
    ),
    "n_jobs": (
        lambda v: v is None or isinstance(v, (int, np.integer)) and v != 0,
        "None, a number of threads, or -1 for all processors",
    ),
    "random_state": (
        lambda v: v is None or isinstance(v, RANDOM) or _at_least(0)[0](v),
        "None, an integer >= 0, a RandomState or a Generator",
    ),
    "callback": (lambda v: v is None or callable(v), "None or a function"),
}


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
    except (TypeError, ValueError):  # pandas.NA is neither equal to itself nor not
        return True


class _Protocol:
    """What all estimators share: parameters, validation, labels, score, model files."""

    _estimator_type = "classifier"  # where scikit-learn before 1.6 looks
    class_weight = None  # a parameter of classifiers
    _allow_nan = False
    _multi_class = False
    _own_members = ()  # classes of this file that may be inside the model
    _rules = {}

    def _set(self, params):
        """Keep the constructor's arguments, given as its locals(), unchanged."""
        vars(self).update({name: params[name] for name in self._param_names()})

    @classmethod
    @cache
    def _param_names(cls):
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep=True):
        """Parameters of the constructor by name; deep: also a__b, those of an estimator a, and
        a__0 and a__0__b where a is a list of estimators, by name where they have names."""
        params = {name: getattr(self, name) for name in self._param_names()}
        for name, value in list(params.items()) if deep else ():
            for place, part in _estimators(value).items():
                path = f"{name}__{place}" if place else name
                params[path] = part
                params |= {f"{path}__{inner}": v for inner, v in part.get_params().items()}
        return params

    def set_params(self, **params):
        """Set parameters of the constructor; returns self."""
        for path, value in sorted(params.items()):  # an estimator before its own parameters
            name, _, inner = path.partition("__")
            place, old = "", getattr(self, name, None) if name in self._param_names() else None
            inside = _estimators(old)
            if inner and isinstance(old, (list, tuple)):
                place, _, inner = inner.partition("__")
            if name not in self._param_names() or (place or inner) and place not in inside:
                names = ", ".join(self._param_names())
                raise ValueError(f"{type(self).__name__} has no parameter {path!r}; it has {names}")
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

    def _twin(self, params):
        """An unfitted object with these parameters and the same requests for metadata."""
        twin = type(self)(**params)
        if hasattr(self, "_metadata_request"):
            twin._metadata_request = self._metadata_request
        return twin

    def __sklearn_is_fitted__(self):
        return hasattr(self, "converged_")

    def _check_params(self):
        """Every parameter against its rule in `_rules` or COMMON: (test, what it must be)."""
        common = {name: rule for name, rule in COMMON.items() if name in vars(self)}
        for name, (test, rule) in (common | self._rules).items():
            value = getattr(self, name)
            try:
                good = test(value)
            except TypeError:
                good = False
            if not good:
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
        flat = X.ravel()
        with np.errstate(over="ignore", invalid="ignore"):
            square = flat @ flat
        if not square < BOUND**2:  # one quick pass; the exact look only on suspicion
            bad = np.isinf(X) if self._allow_nan else ~np.isfinite(X)
            if bad.any():
                row, column = np.argwhere(bad)[0]
                raise ValueError(
                    f"{who}: X contains NaN or infinity: {X[row, column]} in row {row}, "
                    f"column {column}; fill in or drop such cells first"
                )
            if (abs(X) >= BOUND).any():
                row, column = np.argwhere(abs(X) >= BOUND)[0]
                raise ValueError(
                    f"{who}: X is too large: {X[row, column]} in row {row}, column {column}; "
                    f"scale X, numbers have to be below {BOUND:g}"
                )
        if fitting:
            self.n_features_in_ = d
            if names is not None:
                self.feature_names_in_ = np.asarray(names, dtype=object)
            return X
        seen = getattr(self, "feature_names_in_", None)
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
        if (names is None) != (seen is None):
            has, lacks = (
                ("X has", f"{who} was fitted without")
                if seen is None
                else ("X does not have valid", f"{who} was fitted with")
            )
            warnings.warn(f"{has} feature names, but {lacks} feature names", stacklevel=3)
        return X

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
        shown = ", ".join(str(c) for c in classes[:5]) + (", ..." if classes.size > 5 else "")
        if classes.size < 2:
            raise ValueError(f"{who} needs two classes, y has only one class: {shown}")
        if classes.size > 2 and y.dtype.kind == "f" and (classes != np.round(classes)).any():
            raise ValueError(
                f"{who}: Unknown label type: continuous; y has {classes.size} distinct "
                f"values ({shown}), and a classifier needs classes"
            )
        if classes.size > 2 and not self._multi_class:
            raise ValueError(
                f"{who}: Only binary classification is supported. The type of the target is "
                f"multiclass: y has {classes.size} classes ({shown}); wrap it in OneVsRest"
            )
        if sample_weight is not None and not np.bincount(codes, weight).all():
            raise ValueError(f"{who}: sample_weight is zero on all rows of a class")
        self.classes_ = classes
        if self.class_weight is not None:
            weight = weight * self._class_factors(np.bincount(codes, weight))[codes.astype(np.intp)]
            if not np.bincount(codes, weight).all():
                raise ValueError(f"{who}: sample_weight times class_weight underflows; scale them")
        if self._multi_class:
            return X, codes.astype(np.intp), weight
        signs = 2.0 * codes
        signs -= 1.0
        return X, signs, weight

    def _class_factors(self, totals):
        """Factor of each class; "balanced" gives all classes, of these weights, the same."""
        who, given, known = type(self).__name__, self.class_weight, self.classes_.tolist()
        if not isinstance(given, dict):
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
                part = zipfile.ZipInfo(f"{name}.npy")  # all of the same date
                with archive.open(part, "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, array, allow_pickle=False)

    @classmethod
    def load(cls, path, members=()):
        """Read a model written by save; a foreign, damaged or other class's file raises.

        `members` are the classes of the models inside it, such as (PSVM, DRM).
        """
        header, arrays = read_model(path)
        if header["class"] != cls.__name__:
            raise ValueError(f"{path} holds a model of {header['class']}, not of {cls.__name__}")
        places = {}
        for name, value in arrays.items():
            place, slash, last = name.rpartition("/")
            places.setdefault(place + slash, {})[last] = value
        return _build(header, places, {kind.__name__: kind for kind in (*members, cls)}, path)

    def _pack(self, arrays, place=""):
        """Header of the model; its arrays and those of models inside it go to `arrays`."""
        header = {"class": type(self).__name__, "params": {}, "values": {}, "models": {}}
        params = {k: v for k, v in self.get_params(deep=False).items() if k != "callback"}
        fitted = {k: v for k, v in vars(self).items() if k.endswith("_")}
        for name, value in (params | fitted).items():
            parts = value if isinstance(value, (list, tuple)) else [value]
            names = [part[0] if _is_pair(part) else None for part in parts]
            parts = [part[1] if _is_pair(part) else part for part in parts]
            if any(names) or any(hasattr(part, "_pack") for part in parts):
                packed = [
                    part._pack(arrays, f"{place}{name}/{t}/") if hasattr(part, "_pack") else part
                    for t, part in enumerate(parts)
                ]
                header["models"][name] = packed if isinstance(value, (list, tuple)) else packed[0]
                header |= {"names": header.get("names", {}) | {name: names}} if any(names) else {}
            elif name in fitted and isinstance(value, np.ndarray):
                texts = value.dtype == object
                arrays[place + name] = np.array([str(v) for v in value]) if texts else value
            elif name in fitted:
                header["values"][name] = value
            elif isinstance(value, dict):  # json would turn its keys into texts
                header["params"][name] = {"pairs": [*value.items()]}
            else:
                header["params"][name] = None if isinstance(value, RANDOM) else value
        return header

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


# <<< shared: protocol


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
    member, seed = copy.deepcopy(member), int(rng.integers(2**31))
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


# >>> shared: tree 8
SAMPLE = 100_000  # rows that decide where the bins of a feature end
BLOCK, FAR = 64, 6  # rows touched at a time, where not even one row in so many is in the node
CELLS = 4096  # of the table that turns a value into its bin
DEEP = 5000  # nodes of all trees from which on ...
CHUNK = 1024  # ... so many rows pass a tree before the next tree: its nodes stay in the cache
ABREAST = 8  # ... and so many go down side by side: their cache misses overlap
FEW = 8  # where a node has fewer rows than bins over this, they are sorted instead
UNIT = 62  # bits of a node's sum: its weight, then the number of its rows
SLACK = 1e-10  # part of a quantile that may be rounding, so that weights count as repeated rows
TIE = 1e-11  # gains closer than this part of the node's weight are equal: the first one wins
Z_SQUARED = 0.454936  # of the normal quantile at 25 %, the confidence of C4.5's pruning
XORSHIFT = np.array([12, 25, 27, 33, 0x2545F4914F6CDD1D], dtype=np.uint64)  # xorshift64*'s
CRITERIA = {"error": 0, "gini": 1, "entropy": 2, "gain_ratio": 3}
# Nodes have no bytes outside their fields: whatever lay in memory would be saved with them.
GROWING = np.dtype(  # a node of a tree that grows; the right child is child + 1
    [("g", "i8"), ("h", "i8"), ("left_g", "i8"), ("left_h", "i8"), ("gain", "f8"),
     ("low", "f8"), ("high", "f8"),
     ("feature", "i4"), ("code", "i4"), ("missing_left", "i4"), ("child", "i4"), ("is_leaf", "i4"),
     ("depth", "i4"), ("start", "i4"), ("stop", "i4"), ("slot", "i4"), ("is_cut", "i4")], align=True
)  # fmt: skip
NODE = np.dtype(  # a node of a finished tree; child = 0 marks a leaf
    [("threshold", "f8"), ("value", "f8"), ("gain", "f8"), ("feature", "i4"), ("child", "i4"),
     ("missing_left", "i8")], align=True
)  # fmt: skip
INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # called by kernels only: 1 s less


def bin_edges(X, max_bins, weight=None):
    """Thresholds of each feature: midpoints between neighbouring values if there are at most
    max_bins of them (None: always), else between quantiles. Missing values take a bin as well.

    Quantiles are those of the rows' weights (n,): a row of weight 2 is two rows, one of weight 0 is
    none. Of more than SAMPLE rows a part decides where they are.
    """
    if weight is not None and not weight.all():
        X, weight = X[weight > 0], weight[weight > 0]
    n, rows, edges = len(X), slice(None), []
    if max_bins is not None and n > SAMPLE:
        i, stride = np.arange(SAMPLE), n // SAMPLE
        rows = i * stride + (i * 2654435761 >> 15) % stride  # one of every stride, scattered
    columns = np.array(X[rows].T, order="C")
    columns.sort(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        missing = np.isnan(X.sum(axis=0))
    for j, values in enumerate(columns):
        seen = rows
        steps = np.flatnonzero(values[1:] > values[:-1])  # none from or to NaN, which comes last
        if values.size < n and steps.size < max_bins:
            seen = slice(None)  # perhaps few values in all: then none may be overlooked
            values = np.sort(X[:, j])
            steps = np.flatnonzero(values[1:] > values[:-1])
        bins = n if max_bins is None else max_bins - missing[j]
        if steps.size >= bins:
            known = values.size - np.isnan(values).sum() if missing[j] else values.size
            parts = np.arange(1, bins) / bins * (1.0 - SLACK)
            if weight is None:
                last = np.ceil(parts * known).astype(np.int64) - 1
            else:
                sums = np.cumsum(weight[seen][np.argsort(X[seen, j])][:known])
                last = np.searchsorted(sums, parts * sums[-1])
            steps = steps[np.searchsorted(steps, last).clip(max=steps.size - 1)]
            steps = steps[np.diff(steps, prepend=-1) > 0]
        low, high = values[steps], values[steps + 1]
        middle = 0.5 * low + 0.5 * high
        edges.append(np.where((low <= middle) & (middle < high), middle, low))
    return edges


@kernel
def _encode(X, edges, n_codes, low, scale, table, codes):
    """Fill codes; table[j, c] to table[j, c + 1] are the thresholds in cell c of feature j."""
    n, d = X.shape
    for i in range(n):
        for j in range(d):
            x = X[i, j]
            if x != x:
                codes[i, j] = n_codes[j]
                continue
            at = (x - low[j]) * scale[j]
            cell = 0 if at < 0.0 else CELLS - 1 if at >= CELLS else np.int64(at)
            first, last = np.int64(table[j, cell]), np.int64(table[j, cell + 1])
            while first + 1 < last:  # rarely: most cells hold one threshold at the most
                middle = (first + last) >> 1
                if x > edges[j, middle]:
                    first = middle + 1
                else:
                    last = middle
            codes[i, j] = first + (x > edges[j, first])


@kernel(**INNER)
def _add(bins, c, g, h, l2):
    """Add a row to a bin. Of two classes each has a sum of h of its own: one addition, not two."""
    if l2 is None:
        bins[c, 1 * (g > 0)] += h
    else:
        bins[c, 0] += g
        bins[c, 1] += h


@kernel(**INNER)
def _sums(bins, c, shift, l2):
    """Sums of g and h in a bin."""
    if l2 is None:
        return (bins[c, 1] >> shift) - (bins[c, 0] >> shift), bins[c, 0] + bins[c, 1]
    else:
        return bins[c, 0], bins[c, 1]


@kernel(**INNER)
def _histogram(codes, GH, rows, start, stop, ahead, l2, hist):
    """Sums over the rows of a node, per feature and bin; overwrites hist (d, bins, 2).

    Rows that lie far apart are touched BLOCK at a time first, so that their cache misses overlap.
    """
    n, d = codes.shape
    for j in range(d):
        for c in range(hist.shape[1]):
            hist[j, c, 0] = hist[j, c, 1] = 0
    if stop - start == n:  # all rows, in their order: a sixth of a round of stumps
        for i in range(n):
            g, h = GH[i, 0], GH[i, 1]
            for j in range(d):
                _add(hist[j], codes[i, j], g, h, l2)
        return
    for first in range(start, stop, BLOCK):
        last = min(first + BLOCK, stop)
        if FAR * (stop - start) < n:
            for k in range(first, last):
                i = rows[k]
                ahead[k - first] = codes[i, 0] + codes[i, d - 1] + GH[i, 0]
        for k in range(first, last):
            i = rows[k]
            g, h = GH[i, 0], GH[i, 1]
            for j in range(d):
                _add(hist[j], codes[i, j], g, h, l2)


@kernel(**INNER)
def _sort_few(codes, rows, node, j, near):
    """The node's rows in the order of feature j, by insertion; overwrites near."""
    for a in range(node.stop - node.start):
        i, b = rows[node.start + a], a
        while b > 0 and codes[near[b - 1], j] > codes[i, j]:
            near[b] = near[b - 1]
            b -= 1
        near[b] = i


@kernel(**INNER)
def _condense(codes, GH, rows, start, stop, j, l2, bins, found):
    """Histogram of one feature without its empty bins, from the rows of a node in the order of the
    feature; overwrites bins (m + 1, 2), the last one empty, and the codes found (m,); returns m."""
    m, last = 0, -1
    for k in range(start, stop):
        i = rows[k]
        if codes[i, j] != last:
            last = codes[i, j]
            found[m] = last
            bins[m, 0] = bins[m, 1] = 0
            m += 1
        _add(bins, m - 1, GH[i, 0], GH[i, 1], l2)
    bins[m, 0] = bins[m, 1] = 0
    return m


@kernel(**INNER)
def _fill(codes, GH, rows, node, j, m, l2, bins):
    """Histogram of one feature; overwrites bins (m + 1, 2)."""
    for c in range(m + 1):
        bins[c, 0] = bins[c, 1] = 0
    for k in range(node.start, node.stop):
        i = rows[k]
        _add(bins, codes[i, j], GH[i, 0], GH[i, 1], l2)


@kernel(**INNER)
def _draw(state, m):
    """A random number from 0 to m - 1, by xorshift64*."""
    x = state[0]
    x ^= x >> XORSHIFT[0]
    x ^= x << XORSHIFT[1]
    x ^= x >> XORSHIFT[2]
    state[0] = x
    return (np.int64((x * XORSHIFT[4]) >> XORSHIFT[3]) * m) >> 31


@kernel(**INNER)
def _output(g, h, l2, low, high):
    """Best value of a leaf within its bounds."""
    return min(max(-g / (h + l2), low), high)


@kernel(**INNER)
def _impurity(g, h, criterion, l2, monotone, low, high):
    """Impurity of a node times its weight h; g is the difference of the classes' weights. With l2:
    the least of g v + (h + l2) v^2 / 2."""
    if l2 is not None:
        if monotone is None:
            return -0.5 * g * g / (h + l2)
        else:
            v = _output(g, h, l2, low, high)
            return (g + 0.5 * (h + l2) * v) * v
    else:
        if criterion == 0:
            return 0.5 * (h - abs(g))
        if criterion == 1:
            return 0.5 * (h - g * g / h)
        total = 0.0
        for part in (0.5 * (h - g), 0.5 * (h + g)):
            if part > 0.0:
                total -= part * math.log2(part / h)
        return total


@kernel(**INNER)
def _scan(bins, m, node, shift, criterion, min_leaf, min_weight, l2, monotone, j):
    """Best cut after one of the first m bins of feature j; bins[m] holds the missing values.

    Returns its gain (-1: there is none), the last bin on the left, whether the missing values go
    there (if there are none: whether most of the weight does), and the sums on the left.
    """
    g, h, low, high = node.g, node.h, node.low, node.high
    weight, mask = float(h >> shift), (1 << shift) - 1
    parent, tie = _impurity(float(g), weight, criterion, l2, monotone, low, high), TIE * weight
    best, cut, missing_left, best_g, best_h = -weight, -1, 0, g, h
    if l2 is not None:
        best = 0.0  # a cut has to pay
    missing_g, missing_h = _sums(bins, m, shift, l2)
    for side in range(2 if missing_h > 0 else 1):
        left_g, left_h = side * missing_g, side * missing_h
        for c in range(m):
            bin_g, bin_h = _sums(bins, c, shift, l2)
            left_g += bin_g
            left_h += bin_h
            wl, wr = left_h >> shift, (h - left_h) >> shift
            if bin_h == 0 or wl < min_weight or wr < min_weight:
                continue
            if (left_h & mask) < min_leaf or ((h - left_h) & mask) < min_leaf:
                continue
            gl, hl, gr, hr = float(left_g), float(wl), float(g - left_g), float(wr)
            gain = parent - _impurity(gl, hl, criterion, l2, monotone, low, high)
            gain -= _impurity(gr, hr, criterion, l2, monotone, low, high)
            if l2 is not None:
                tie = TIE * (gain - parent)
            if monotone is not None:
                step = _output(gr, hr, l2, low, high) - _output(gl, hl, l2, low, high)
                if monotone[j] * step < 0.0:
                    continue
            if gain > best + tie:
                best, cut, missing_left, best_g, best_h = gain, c, side, left_g, left_h
    if missing_h == 0:
        missing_left = int(2 * (best_h >> shift) >= h >> shift)
    if cut >= 0 and best < 0.0:
        best = 0.0  # it was rounding
    return best if cut >= 0 else -1.0, cut, missing_left, best_g, best_h


@kernel(**INNER)
def _find_split(codes, GH, order, n_codes, shift, criterion, min_leaf, min_weight, l2, monotone,
                n_drawn, state, features, hist, bins, found, near, rows, is_few, node):  # fmt: skip
    """Write the best split over all features into the node, or over the first n_drawn in random
    order that can be split; its gain is -1 where there is none.

    Gain ratio as in C4.5: a feature is cut where the gain is highest; among the features of at
    least average gain, the ratio of the gain and the entropy of the cut decides.
    """
    ratio, weight = criterion == 3, float(node.h >> shift)
    node.gain = best = -1.0
    total, candidates, tie, n_seen = 0.0, 0, TIE if ratio else TIE * weight, codes.shape[1]
    for turn in range(2 if ratio else 1):
        for a in range(n_seen):
            j = a
            if state is not None:
                if turn == 0:
                    if candidates == n_drawn:
                        n_seen = a
                        break
                    b = a + _draw(state, n_seen - a)
                    features[a], features[b] = features[b], features[a]
                j = features[a]
            filled, m = bins, n_codes[j]
            if near is not None and is_few:
                _sort_few(codes, rows, node, j, near)
                m = _condense(codes, GH, near, 0, node.stop - node.start, j, l2, bins, found)
            elif order is not None:
                m = _condense(codes, GH, order[j], node.start, node.stop, j, l2, bins, found)
            elif state is not None:
                _fill(codes, GH, rows, node, j, m, l2, bins)
            else:
                filled = hist[node.slot, j]
            if is_few or order is not None:
                m -= found[m - 1] == n_codes[j]
            gain, cut, missing_left, left_g, left_h = _scan(
                filled, m, node, shift, criterion, min_leaf, min_weight, l2, monotone, j
            )
            if gain < 0.0:
                continue
            score = gain
            if turn == 0:
                total += gain
                candidates += 1
            if ratio:
                if turn == 0:
                    continue
                entropy = _impurity(
                    weight - 2.0 * float(left_h >> shift), weight, criterion, l2, monotone, 0.0, 0.0
                )
                score = gain / entropy if gain >= total / candidates - TIE * weight else -1.0
            if l2 is not None:
                tie = TIE * (gain + 0.5 * float(node.g) * float(node.g) / (weight + l2))
            if score > best + tie or best < 0.0 <= score:
                best, node.gain, node.feature, node.missing_left = score, gain, j, missing_left
                node.left_g, node.left_h = left_g, left_h
                condensed, right = is_few or order is not None, cut + 1
                node.code = found[cut] if condensed else cut
                while right < m and _sums(filled, right, shift, l2)[1] == 0:
                    right += 1
                if right == m:  # all known values against the missing ones: larger ones, too
                    node.code = n_codes[j] - 1
                elif l2 is None:  # in the middle of the bins without rows, if there are any
                    last = found[right] if condensed else right
                    node.code = max(node.code, (node.code + last - 1) >> 1)


@kernel(**INNER)
def _partition(by_feature, rows, spare, node, missing):
    """Bring the node's rows that go left to the front, their order kept; returns where they end."""
    left, right, j, code, missing_left = node.start, 0, node.feature, node.code, node.missing_left
    for k in range(node.start, node.stop):
        i = rows[k]
        c = by_feature[i, j]
        goes_left = (c <= code) | ((c == missing) & (missing_left == 1))
        rows[left] = i
        spare[right] = i
        left += goes_left
        right += 1 - goes_left
    for k in range(right):
        rows[left + k] = spare[k]
    return left


@kernel(nogil=True)
def _grow(codes, by_feature, GH, order, n_codes, shift, criterion, max_depth, min_leaf, max_leaves,
          min_decrease, min_weight, l2, monotone, n_drawn, state, features, hist, bins, found, near,
          rows, n_rows, spare, ahead, free, opened, nodes, leaf):  # fmt: skip
    """Grow a tree on the first n_rows of rows; overwrites nodes and the leaf of each of these rows,
    returns the number of nodes.

    Of two siblings only the smaller one's histogram is built: the other's is the parent's without
    it. The smaller is split first: then log2(n) + 2 histograms are enough. With max_leaves > 0 the
    highest gain comes first, and as many histograms as leaves are needed. Where features are drawn,
    or rows are few, features get histograms one at a time.
    """
    n, mask, few = codes.shape[0], (1 << shift) - 1, 0
    if near is not None:
        few = near.size
    root, n_free, n_open, n_nodes, small, large = nodes[0], free.size - 1, 0, 1, 0, -1
    for a in range(free.size):
        free[a] = a
    root.start, root.stop, root.slot, root.depth, root.child = 0, n_rows, free[n_free], 0, 0
    root.is_cut, root.low, root.high = 0, -math.inf, math.inf
    g = h = np.int64(0)
    for a in range(n_rows):
        i = a if n_rows == n else rows[a]
        g += GH[i, 0]
        h += GH[i, 1]
    root.g, root.h = g, h
    min_gain = min_decrease * float(root.h >> shift)
    root.is_leaf = max_depth == 0 or (l2 is None and abs(root.g) == root.h >> shift)
    while True:
        if order is None and state is None and small >= 0:
            node = nodes[small]
            wanted = not node.is_leaf and node.stop - node.start > few
            other = False
            if large >= 0:
                big = nodes[large]
                other = not big.is_leaf and big.stop - big.start > few
            if wanted or other:
                _histogram(codes, GH, rows, node.start, node.stop, ahead, l2, hist[node.slot])
            if other:
                slot = nodes[large].slot
                for j in range(hist.shape[1]):
                    for c in range(hist.shape[2]):
                        hist[slot, j, c, 0] -= hist[node.slot, j, c, 0]
                        hist[slot, j, c, 1] -= hist[node.slot, j, c, 1]
        for k in (large, small):
            if k < 0:
                continue
            node = nodes[k]
            if not node.is_leaf:
                _find_split(
                    codes, GH, order, n_codes, shift, criterion, min_leaf, min_weight, l2, monotone,
                    n_drawn, state, features, hist, bins, found, near, rows,
                    node.stop - node.start <= few, node,
                )  # fmt: skip
                node.is_leaf = node.gain < min_gain
            if node.is_leaf:
                for a in range(node.start, node.stop):
                    leaf[rows[a]] = k
                free[n_free] = node.slot
                n_free += 1
            else:
                opened[n_open] = k
                n_open += 1
        if n_open == 0 or n_nodes == 2 * max_leaves - 1:
            break
        n_open -= 1
        if max_leaves > 0:
            for a in range(n_open):
                if nodes[opened[a]].gain > nodes[opened[n_open]].gain:
                    opened[a], opened[n_open] = opened[n_open], opened[a]
        node = nodes[opened[n_open]]
        node.child, missing = n_nodes, n_codes[node.feature]
        n_nodes += 2
        for side in range(2):
            child = nodes[node.child + side]
            child.g = node.g - node.left_g if side else node.left_g
            child.h = node.h - node.left_h if side else node.left_h
            child.depth, child.child, child.is_cut = node.depth + 1, 0, 0
            child.low, child.high = node.low, node.high
            child.is_leaf = (child.depth == max_depth or (child.h & mask) < 2 * min_leaf
                             or l2 is None and abs(child.g) == child.h >> shift)  # fmt: skip
        if monotone is not None and monotone[node.feature] != 0:
            left, right, low, high = nodes[node.child], nodes[node.child + 1], node.low, node.high
            middle = 0.5 * _output(float(left.g), float(left.h >> shift), l2, low, high)
            middle += 0.5 * _output(float(right.g), float(right.h >> shift), l2, low, high)
            if monotone[node.feature] > 0:
                left.high = right.low = middle
            else:
                left.low = right.high = middle
        if nodes[node.child].is_leaf and nodes[node.child + 1].is_leaf:
            child, j, code, to_left = node.child, node.feature, node.code, node.missing_left == 1
            for a in range(node.start, node.stop):
                i = a if node.stop - node.start == n else rows[a]
                c = by_feature[i, j]
                leaf[i] = child + 1 - ((c <= code) | ((c == missing) & to_left))
            free[n_free] = node.slot
            n_free += 1
            small = large = -1
            continue
        middle = _partition(by_feature, rows, spare, node, missing)
        nodes[node.child].start, nodes[node.child].stop = node.start, middle
        nodes[node.child + 1].start, nodes[node.child + 1].stop = middle, node.stop
        small = node.child + (middle - node.start > node.stop - middle)
        large = 2 * node.child + 1 - small
        n_free -= 1
        nodes[small].slot, nodes[large].slot = free[n_free], node.slot
        if order is not None:
            for j in range(codes.shape[1]):
                _partition(by_feature, order[j], spare, node, missing)
    for a in range(n_open):
        node = nodes[opened[a]]
        node.is_leaf = 1
        for b in range(node.start, node.stop):
            leaf[rows[b]] = opened[a]
    return n_nodes


def _pessimistic(wrong, weight):
    """C4.5's estimate of a leaf's errors on new rows: the upper end of a 25 % confidence interval,
    exact for no errors, by the normal approximation from 1 on, and on the line between the two."""
    many = np.maximum(wrong, 1.0)
    half = np.minimum(many + 0.5, weight)
    spread = np.sqrt(Z_SQUARED * (half * (1.0 - half / weight) + 0.25 * Z_SQUARED))
    normal = weight * (half + 0.5 * Z_SQUARED + spread) / (weight + Z_SQUARED)
    many = np.where(half < weight, normal, many + 0.67 * (weight - many))
    none = weight * (1.0 - 0.25 ** (1.0 / weight))
    return np.where(wrong >= 1.0, many, none + wrong * (many - none))


def prune(nodes, shift):
    """Make a leaf of each node that, by C4.5's estimate, then has no more errors. The nodes below
    are marked as cut off and take its sums, for the sake of the rows that know them as theirs."""
    weight = (nodes["h"] >> shift).astype(np.float64)
    rows = (nodes["h"][0] & ((1 << shift) - 1)) / weight[0]  # that a unit of weight stands for
    errors = _pessimistic(0.5 * rows * (weight - np.abs(nodes["g"])), rows * weight).tolist()
    names = "g", "h", "child", "is_leaf", "is_cut"
    g, h, child, is_leaf, is_cut = (nodes[name].tolist() for name in names)
    for k in range(len(nodes) - 1, -1, -1):  # children come after their parents
        if not is_leaf[k]:
            below = errors[child[k]] + errors[child[k] + 1]
            is_leaf[k], errors[k] = errors[k] <= below, min(errors[k], below)
    for k in range(len(nodes)):
        if is_leaf[k] and child[k]:
            for c in (child[k], child[k] + 1):
                g[c], h[c], is_leaf[c], is_cut[c] = g[k], h[k], 1, 1
    nodes["g"], nodes["h"], nodes["is_leaf"], nodes["is_cut"] = g, h, is_leaf, is_cut


class Grower:
    """Grows trees on the rows of X.

    codes (n, d) : how many thresholds of its feature lie below a value; n_codes (d,) for a missing
        one. Row after row in uint8, for histograms, and `by_feature` column after column, to part
        rows. Without max_bins column after column in int32; then `order` (d, n) has the rows in the
        order of each feature
    GH (n, 2) : to be filled before `grow`; whole numbers, so that sums are exact in any order: the
        gradient -w y, and the weight w times 2^shift plus the number of rows that it stands for.
        The sum of all w may be up to `full`; that of a leaf is at least `min_weight`
    leaf (n,) : after `grow` each row's node among those of the tree
    state (1,) : of the random numbers, to be set before `grow` where features are drawn
    l2 : None, or the trees are those of gradient boosting: GH are first and second derivatives, the
        value of a leaf is -g / (h + l2), and monotone (d,) may want it to rise (1) or fall (-1)
    weight : None, or (n,) those of the rows that decide where bins end, see `bin_edges`
    most : rows that all of GH may stand for, where these are more than n: rows drawn repeatedly
    """

    def __init__(self, X, max_bins, criterion, max_depth, min_leaf, max_leaves, min_decrease,
                 l2=None, monotone=None, n_drawn=None, weight=None, most=0):  # fmt: skip
        (n, d), edges = X.shape, bin_edges(X, max_bins, weight)
        self.n_codes = np.array([edge.size + 1 for edge in edges], dtype=np.int32)
        self.edges = np.full((d, self.n_codes.max()), np.inf)
        for j in range(d):
            self.edges[j, : edges[j].size] = edges[j]
        max_depth = n if max_depth is None else min(max_depth, n)
        self.rules = CRITERIA[criterion], max_depth, min_leaf, max_leaves or 0, min_decrease
        self.l2, self.monotone, self.n_drawn = l2, monotone, n_drawn
        self.columns, self.min_weight, self.most = None, 1, max(n, most)
        self.shift = self.most.bit_length()
        self.full = 2.0 ** (UNIT - self.shift)
        if max_bins is None:
            self.codes, self.order = self._sort(X, edges)
        else:
            self.codes, self.order = self._encode(X, edges), None
        self.by_feature = np.asfortranarray(self.codes)
        if n_drawn is not None:
            self.codes = self.by_feature
        self._allocate()

    def _allocate(self):
        """Space to grow trees in."""
        (n, d), (criterion, max_depth, min_leaf, max_leaves, _) = self.codes.shape, self.rules
        leaves = min(n, self.most // min_leaf, 2 ** min(max_depth, 31), max_leaves or n)
        leaves = max(1, leaves)
        slots = max(1, leaves if max_leaves else min(n.bit_length() + 2, max_depth))
        bins = n + 1 if self.order is not None else self.n_codes.max() + 1
        is_whole = self.order is None and self.n_drawn is None
        self.hist = np.empty((slots, d, bins, 2) if is_whole else (1, 1, 1, 2), dtype=np.int64)
        self.bins, self.near = np.empty((bins, 2), np.int64), None
        if self.order is None and criterion < 2 and max_depth > 1:  # logarithms cost more
            self.near = np.empty(bins // FEW, dtype=np.int32)
        self.GH, self.ahead = np.empty((n, 2), dtype=np.int64), np.empty(BLOCK, dtype=np.int64)
        self.leaf, self.spare = (np.empty(n, dtype=np.int32) for _ in range(2))
        self.free, self.opened = (np.empty(slots, dtype=np.int32) for _ in range(2))
        self.rows, self.in_order = np.arange(n, dtype=np.int32), True
        self.found, self.features = np.empty(bins, np.int32), np.arange(d, dtype=np.int32)
        self.state = None if self.n_drawn is None else np.empty(1, dtype=np.uint64)
        self.nodes = np.zeros(2 * leaves - 1, dtype=GROWING)

    def fork(self, columns=None):
        """A grower with space of its own, for another thread, on all features or on a part."""
        twin = copy.copy(self)
        if columns is not None:
            layout = "C" if self.codes.flags.c_contiguous else "F"
            twin.columns, twin.codes = columns, np.array(self.codes[:, columns], order=layout)
            twin.by_feature = np.asfortranarray(twin.codes)
            twin.n_codes = self.n_codes[columns]
            twin.order = None if self.order is None else self.order[columns]
            twin.monotone = None if self.monotone is None else self.monotone[columns]
        twin._allocate()
        return twin

    def _sort(self, X, edges):
        codes, order = np.empty(X.shape[::-1], np.int32), np.empty(X.shape[::-1], np.int32)
        for j, column in enumerate(X.T):
            codes[j] = np.where(
                np.isnan(column), self.n_codes[j], np.searchsorted(edges[j], column)
            )
            order[j] = np.argsort(codes[j], kind="stable")
        return codes.T, order

    def _encode(self, X, edges):
        ends = np.array([edge[[0, -1]] if edge.size else (0.0, 0.0) for edge in edges])
        with np.errstate(over="ignore"):
            width = np.clip(ends[:, 1] - ends[:, 0], 1e-300, 1e300)
        low, scale = np.ascontiguousarray(ends[:, 0]), (CELLS - 1) / width
        table = np.zeros((X.shape[1], CELLS + 1), dtype=np.uint8)
        for j, edge in enumerate(edges):
            with np.errstate(over="ignore"):
                cells = np.minimum((edge - low[j]) * scale[j], CELLS - 1.0).astype(np.int32)
            table[j, 1:] = np.cumsum(np.bincount(cells, minlength=CELLS))
        codes = np.empty(X.shape, dtype=np.uint8)
        _encode(X, self.edges, self.n_codes, low, scale, table, codes)
        return codes

    def grow(self, rows=None):
        """Grow a tree on GH, of all rows or of these; returns its nodes, to be pruned perhaps and
        collected for `pack`."""
        order = None if self.order is None else self.order.copy()
        if rows is not None:
            self.rows[: len(rows)] = rows
            if order is not None:
                chosen = np.zeros(order.shape[1], dtype=bool)
                chosen[rows] = True
                order = order[chosen[order]].reshape(len(order), -1)
        elif not self.in_order:
            self.rows[:] = np.arange(len(self.rows))
        self.in_order = rows is None and self.rules[1] <= 1  # the root's are never moved
        count = _grow(
            self.codes, self.by_feature, self.GH, order, self.n_codes, self.shift, *self.rules,
            self.min_weight, self.l2, self.monotone, self.n_drawn or 0, self.state, self.features,
            self.hist, self.bins, self.found, self.near, self.rows,
            len(self.rows) if rows is None else len(rows), self.spare, self.ahead, self.free,
            self.opened, self.nodes, self.leaf,
        )  # fmt: skip
        nodes = self.nodes[:count].copy()
        if self.columns is not None:
            nodes["feature"] = self.columns[nodes["feature"]]
        return nodes

    def pack(self, trees):
        """Finished trees, one after the other, and where each starts; the last start is the end."""
        nodes = np.concatenate([tree.view(np.uint8) for tree in trees]).view(GROWING)
        first = np.cumsum([0, *map(len, trees)], dtype=np.int64)
        tree, keep = np.repeat(np.arange(len(trees)), np.diff(first)), nodes["is_cut"] == 0
        place = np.cumsum(keep) - keep  # of a node among those kept
        starts = np.append(place, keep.sum())[first]
        child = place[first[tree] + nodes["child"]] - starts[tree]
        weight, inner = nodes["h"] >> self.shift, nodes["is_leaf"] == 0
        packed = np.zeros(len(nodes), dtype=NODE)
        packed["value"] = -nodes["g"] / (weight + (self.l2 or 0.0))
        if self.monotone is not None:
            packed["value"] = np.clip(packed["value"], nodes["low"], nodes["high"])
        packed["threshold"] = self.edges[nodes["feature"], nodes["code"]]
        packed["gain"], packed["child"] = nodes["gain"] / weight[first[tree]], child
        packed["feature"], packed["missing_left"] = nodes["feature"], nodes["missing_left"]
        for name in ("threshold", "gain", "child", "feature", "missing_left"):
            packed[name][~inner] = 0
        return packed[keep], starts


def check_trees(nodes, starts, n_features):
    """True if these arrays, perhaps from a file, are trees that can be walked safely. Leaves have a
    feature, too: `_add_deep_trees` looks at it before it knows that they are leaves."""
    if nodes.dtype != NODE or nodes.ndim != 1 or starts.dtype != np.int64 or starts.ndim != 1:
        return False
    sizes = np.diff(starts)
    if starts.size == 0 or starts[0] != 0 or starts[-1] != nodes.size or (sizes < 1).any():
        return False
    size, place = np.repeat(sizes, sizes), np.arange(nodes.size) - np.repeat(starts[:-1], sizes)
    child, feature, numbers = nodes["child"], nodes["feature"], (nodes["value"], nodes["gain"])
    good = (child == 0) | (place < child) & (child < size - 1)
    good &= (0 <= feature) & (feature < n_features) & ~np.isnan(nodes["threshold"])
    good &= np.isfinite(numbers).all(axis=0) & np.isin(nodes["missing_left"], (0, 1))
    return bool(good.all())


@kernel(nogil=True)
def _add_trees(nodes, starts, weights, X, out):
    """out (n,) += sum over the trees of weight times value."""
    for i in range(X.shape[0]):
        total = out[i]
        for t in range(weights.size):
            node = nodes[starts[t]]
            while node.child > 0:
                x = X[i, node.feature]
                right = x > node.threshold if x == x else node.missing_left == 0
                node = nodes[starts[t] + node.child + right]
            total += weights[t] * node.value
        out[i] = total


@kernel(nogil=True)
def _add_deep_trees(nodes, starts, weights, X, out):
    """The same in another order: half the time for deep trees, three times for stumps."""
    at = np.empty(ABREAST, dtype=np.int64)
    for chunk in range(0, X.shape[0], CHUNK):
        end = min(chunk + CHUNK, X.shape[0])
        for t in range(weights.size):
            for first in range(chunk, end, ABREAST):
                m, is_inner = min(ABREAST, end - first), True
                for a in range(m):
                    at[a] = starts[t]
                while is_inner:
                    is_inner = False
                    for a in range(m):
                        node = nodes[at[a]]
                        x = X[first + a, node.feature]
                        right = (x > node.threshold) | ((x != x) & (node.missing_left == 0))
                        at[a] = starts[t] + node.child + right if node.child > 0 else at[a]
                        is_inner |= node.child > 0
                for a in range(m):
                    out[first + a] += weights[t] * nodes[at[a]].value


def sum_trees(nodes, starts, weights, X, n_jobs=1):
    """Sum over the trees of weight times value, (n,); n_jobs threads share the rows."""
    out, add = np.zeros(X.shape[0]), _add_trees if nodes.size < DEEP else _add_deep_trees
    if n_jobs == 1:
        add(nodes, starts, weights, X, out)
        return out
    cuts = np.linspace(0, out.size, n_jobs + 1).astype(int)
    parts = [slice(*ends) for ends in zip(cuts[:-1], cuts[1:], strict=True)]
    with ThreadPoolExecutor(n_jobs) as pool:
        jobs = [pool.submit(add, nodes, starts, weights, X[p], out[p]) for p in parts]
        for job in jobs:
            job.result()
    return out


# <<< shared: tree


# -- kernels ------------------------------------------------------------------------------------
@kernel(nogil=True)
def _weigh(counts, weight, y, unit, drawn, shift, GH, rows):
    """The sample as the trees want it: overwrites GH, with the numbers of draws as weights, or else
    the rows' own in whole units, and rows; returns how many these are."""
    m = 0
    for i in range(counts.size):
        w = counts[i] if drawn else np.int64(weight[i] * unit + 0.5)
        GH[i, 0] = -w if y[i] > 0.0 else w
        GH[i, 1] = (w << shift) + (w if drawn else np.int64(w > 0))
        rows[m] = i
        m += counts[i] > 0
    return m


@kernel(nogil=True)
def _cast(nodes, values, leaf, counts, by_feature, n_codes, rows, spare, vote):
    """Overwrite vote (n,) with the values of the rows' leaves. Rows of the sample know theirs, the
    others are parted at each node as in `_grow`: less than half the time of one after the other.
    """
    m = 0
    for i in range(counts.size):
        vote[i] = values[leaf[i] if counts[i] > 0 else 0]
        rows[m] = i
        m += counts[i] == 0
    nodes[0].start, nodes[0].stop = 0, m
    for k in range(nodes.size):
        node = nodes[k]
        if node.is_cut:
            continue
        if node.is_leaf:
            for a in range(node.start, node.stop):
                vote[rows[a]] = values[k]
            continue
        middle = _partition(by_feature, rows, spare, node, n_codes[node.feature])
        left, right = nodes[node.child], nodes[node.child + 1]
        left.start, left.stop, right.start, right.stop = node.start, middle, middle, node.stop


# -- estimator ----------------------------------------------------------------------------------
def _sample(weight, y, m, bootstrap, rng):
    """How often each row is in a sample of m, (n,). Drawn again, DRAWS times at the most, while one
    of the classes is missing."""
    is_equal = weight.min() == weight.max()
    for _ in range(DRAWS):
        if not bootstrap:
            rows = rng.choice(np.flatnonzero(weight), m, replace=False, shuffle=False)
        elif is_equal:
            rows = rng.integers(y.size, size=m)
        else:
            ends = np.cumsum(weight)  # points in ascending order are looked up three times as fast
            rows = np.searchsorted(ends, np.sort(rng.random(m)) * ends[-1], side="right")
        counts = np.bincount(rows, minlength=y.size)
        if abs(counts.astype(np.float64) @ y) < m:
            break
    return counts


def _is_learner(value):
    return callable(getattr(value, "fit", None)) and callable(getattr(value, "predict", None))


def _is_part(value):
    return value >= 1 if isinstance(value, (int, np.integer)) else 0 < value <= 1


class Bagging(_Protocol):
    """Bagging: a vote of members trained on samples of the rows; random forests, too.

    Parameters
    ----------
    base : "tree", "stump" or an object with fit and predict
        What the members are. An object is copied for each; its random_state, if it has one, is set.
    n_estimators : int >= 1
        Members.
    max_samples : float in (0, 1] or int >= 1
        Share or number of rows that are drawn for a member; with bootstrap the number may be above
        that of the rows.
    max_features : None, float in (0, 1], int >= 1, "sqrt" or "log2"
        Share or number of features that are drawn; None: all.
    per_split : bool
        Whether features are drawn anew at each split of a tree, as in a random forest, or once for
        each member. Objects: always once.
    bootstrap : bool
        Whether rows are drawn with replacement, in proportion to sample_weight.
    oob_score : bool
        Whether the votes of the members on rows outside their samples are kept, and their accuracy.
    voting : "hard" or "soft"
        Whether a member votes -1 or +1, or the difference of its probabilities of the classes.
    max_depth : None or int >= 1
        Depth of a tree; a stump has 1.
    criterion : "error", "gini", "entropy" or "gain_ratio"
        What a split has to reduce; "gain_ratio" is C4.5's.
    min_samples_leaf : int >= 1
        Fewest rows in a leaf, each counted as often as it was drawn.
    max_leaf_nodes : None or int >= 2
        Most leaves; the splits of the highest gain come first.
    min_impurity_decrease : float >= 0
        Least gain of a split, as part of the weight of all rows.
    prune : bool
        Whether trees are pruned afterwards as by C4.5, at a confidence of 25 %.
    max_bins : None or int from 2 to 256
        Most bins of a feature: splits are exact when it has no more values. None: always exact.
    class_weight : None, "balanced" or dict
        Factors of the rows' weights by class; "balanced": all classes weigh the same.
    n_jobs : None or int
        Threads for training and prediction; the model is the same for any number. None: 1, -1: as
        many as there are processors.
    random_state : None, int, RandomState or Generator
        Seed of the draws; each member has a stream of its own.
    verbose : int
        1 prints a line a member.
    callback : None or callable
        Called as callback(self, iteration, info) after every member, in order; True stops. The
        model it gets is that of the members so far: it predicts and has a score.

    Attributes
    ----------
    weights_ (T,) : 1 / T each
    nodes_, starts_ : the trees, one after the other, tree t from starts_[t] on
    estimators_ : list of the members instead, if base is an object
    estimators_features_ (T, k) : features of each member, if they were drawn once for each
    feature_importances_ (d,) : gains of the splits on a feature, sum 1; trees only
    oob_decision_function_ (n,) : mean vote of the members that did not see the row; NaN: all did
    oob_score_ : accuracy of these votes where there are any
    objective_, residual_ : training error; None: there is nothing to certify
    n_iter_, trace_ : members, training error after each
    converged_, reason_ : whether all members were trained, and why the run ended
    seed_, n_rows_ : from which `samples` draws the samples again
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = Bagging(max_features="sqrt", oob_score=True, random_state=0).fit(X, y)
    >>> model.score(X, y), model.oob_score_

    As many members as raise the accuracy on rows of one's own, and 10 more:

    >>> scores = []
    >>> def stop(model, iteration, info):
    ...     scores.append(model.score(X_valid, y_valid))
    ...     return iteration - np.argmax(scores) > 10
    >>> model = Bagging(n_estimators=500, callback=stop).fit(X, y)
    """

    _rules = {
        "base": (
            lambda v: v in ("tree", "stump") if isinstance(v, str) else _is_learner(v),
            "'tree', 'stump' or an object with fit and predict",
        ),
        "n_estimators": _at_least(1),
        "max_samples": (
            lambda v: _is_part(v) and v < MOST,
            f"a share in (0, 1] or an integer from 1 to {MOST - 1}",
        ),
        "max_features": (
            lambda v: v is None or (v in ("sqrt", "log2") if isinstance(v, str) else _is_part(v)),
            "None, a share in (0, 1], an integer >= 1, 'sqrt' or 'log2'",
        ),
        "per_split": _one_of(False, True),
        "bootstrap": _one_of(False, True),
        "oob_score": _one_of(False, True),
        "voting": _one_of("hard", "soft"),
        "max_depth": (lambda v: v is None or _at_least(1)[0](v), "None or an integer >= 1"),
        "criterion": _one_of(*CRITERIA),
        "min_samples_leaf": _at_least(1),
        "max_leaf_nodes": (lambda v: v is None or _at_least(2)[0](v), "None or an integer >= 2"),
        "min_impurity_decrease": (lambda v: 0 <= v < np.inf, "a finite number >= 0"),
        "prune": _one_of(False, True),
        "max_bins": (
            lambda v: v is None or _at_least(2)[0](v) and v <= 256,
            "None or an integer from 2 to 256",
        ),
    }

    def __init__(
        self, base="tree", n_estimators=30, max_samples=1.0, max_features=1.0, per_split=True,
        bootstrap=True, oob_score=False, voting="hard", max_depth=None, criterion="gini",
        min_samples_leaf=1, max_leaf_nodes=None, min_impurity_decrease=0.0, prune=False,
        max_bins=256, class_weight=None, n_jobs=1, random_state=None, verbose=0, callback=None,
    ):  # fmt: skip
        self._set(locals())

    @all_or_nothing
    def fit(self, X, y, sample_weight=None):
        """Train on X (n, d) and two classes y; rows are drawn in proportion to sample_weight."""
        self._check_params()
        X, y, weight = self._check_fit(X, y, sample_weight)
        n, self.n_rows_, self.seed_ = y.size, y.size, self._seed()
        is_weighted, is_tree = self._is_weighted(sample_weight), isinstance(self.base, str)
        train = (self._tree_learner if is_tree else self._learner)(X, y, weight, is_weighted)
        total, outside, n_outside = np.zeros(n), np.zeros(n), np.zeros(n, dtype=np.int32)
        members, nodes, starts = [], np.zeros(0, dtype=NODE), [0]
        features, reason, self.trace_ = [], "all members were trained", []
        for member, columns, vote, counts in self._each(train, self.n_estimators):
            if is_tree:
                nodes = _extended(nodes, starts[-1], member)
                starts.append(starts[-1] + len(member))
            else:
                members.append(member)
            features.append(columns)
            total += vote
            if self.oob_score:
                outside += np.where(counts == 0, vote, 0.0)
                n_outside += counts == 0
            wrong = ((total >= 0) != (y > 0)).astype(np.float64)
            self._record(len(features), float(weight @ wrong / weight.sum()))
            if self.callback is not None:
                self._keep(members, nodes, starts, features)
                self.converged_ = False
                if self.callback(self, len(features), {"objective": self.objective_}):
                    reason = "the callback stopped it"
                    break
        self._keep(members, nodes, starts, features)
        self.trace_, self.residual_ = np.array(self.trace_), None
        self.converged_, self.reason_ = reason == "all members were trained", reason
        if is_tree:
            self.nodes_ = self.nodes_.copy()  # no more space than they need
            self.feature_importances_ = self._importances()
        if self.oob_score:
            self._keep_outside(outside, n_outside, y, weight)
        return self

    def _takes_nan(self):
        """Trees know what to do with missing values; an object may not."""
        return isinstance(self.base, str) or takes_nan(self.base)

    @property
    def _allow_nan(self):
        """Whether they are let through: an object that is not ours looks at its rows itself."""
        return self._takes_nan() or not hasattr(self.base, "_takes_nan")

    def samples(self, t, y, sample_weight=None):
        """How often each row is in the sample of member t, (n,), for the y and sample_weight of
        fit. It is drawn again: a model keeps no rows."""
        who = type(self).__name__
        if not self.__sklearn_is_fitted__():
            raise ValueError(f"This {who} instance is not fitted yet; call fit first")
        if not 0 <= t < self.weights_.size:
            raise ValueError(f"{who}: there is no member {t}, only 0 to {self.weights_.size - 1}")
        codes = self._codes(y, self.n_rows_)
        weight = self._check_weight(sample_weight, self.n_rows_)
        if self.class_weight is not None:
            weight = weight * self._class_factors(np.bincount(codes, weight))[codes]
        m = self._n_sampled(weight)
        return _sample(weight, 2.0 * codes - 1.0, m, self.bootstrap, self._rng(t))

    def votes(self, X):
        """Vote of every member, -1 to +1, (n, T)."""
        return np.stack([*self._each_vote(self._check_X(X))], axis=1)

    def decision_function(self, X):
        """Mean vote of all members, (n,)."""
        X, T = self._check_X(X), self.weights_.size
        if hasattr(self, "estimators_"):
            return sum(self._each_vote(X)) / T  # not votes @ weights_: a tie has to be 0
        return sum_trees(self.nodes_, self.starts_[:-1], np.ones(T), X, self._threads()) / T

    def predict_proba(self, X):
        """Share of the votes for each class, (n, 2); soft: mean probability."""
        share = 0.5 + 0.5 * self.decision_function(X)
        return np.column_stack([1.0 - share, share])

    def facts(self):
        """Figures for a report."""
        return {"out-of-bag error": 1.0 - self.oob_score_} if hasattr(self, "oob_score_") else {}

    def _is_intact(self):
        T, d, k = self.weights_.size, self.n_features_in_, self.n_features_in_
        good = super()._is_intact() and self._holds("weights_", (T,)) and T > 0
        good &= type(self.seed_) is int and self.seed_ >= 0
        good &= type(self.n_rows_) is int and self.n_rows_ > 0
        if hasattr(self, "oob_decision_function_"):
            outside = self.oob_decision_function_
            good &= outside.shape == (self.n_rows_,) and outside.dtype == np.float64
            good &= type(self.oob_score_) is float
        if hasattr(self, "estimators_features_"):
            columns = self.estimators_features_
            good &= self._holds("estimators_features_", (T, None), "i")
            good &= bool((columns >= 0).all() and (columns < d).all())
            k = columns.shape[1]
        if isinstance(self.base, str):
            trees = check_trees(self.nodes_, self.starts_, d) and self.starts_.size == T + 1
            return good and trees and not hasattr(self, "estimators_")
        return (
            good and len(self.estimators_) == T and all(map(self._knows, self.estimators_, T * [k]))
        )

    def _knows(self, member, k):
        """Whether a member, from a file, has been trained on k features and on our classes."""
        return member.n_features_in_ == k and set(member.classes_) <= set(self.classes_)

    def _n_sampled(self, weight):
        """Rows in a sample."""
        n, m = np.count_nonzero(weight), self.max_samples
        m = int(m) if isinstance(m, (int, np.integer)) else max(1, round(m * n))
        if m > n and not self.bootstrap:
            raise ValueError(
                f"{type(self).__name__}: max_samples must be at most the number of rows "
                f"(of weight > 0), {n}, got {m}; set bootstrap=True to draw rows repeatedly"
            )
        if self.oob_score and m == n and not self.bootstrap:
            raise ValueError(
                f"{type(self).__name__}: oob_score needs rows outside the samples; set "
                "bootstrap=True or a smaller max_samples"
            )
        return m

    def _n_features(self, d):
        """Features that are drawn."""
        k = d if self.max_features is None else self.max_features
        if isinstance(k, str):
            return max(1, int(math.sqrt(d) if k == "sqrt" else math.log2(d)))
        k = k if isinstance(k, (int, np.integer)) else max(1, int(k * d))
        if k > d:
            raise ValueError(
                f"{type(self).__name__}: max_features must be at most the number of features, "
                f"{d}, got {k}"
            )
        return k

    def _rng(self, t):
        """Random numbers of member t: first of its sample, then of its features, then of itself."""
        return np.random.default_rng(np.random.SeedSequence(self.seed_, spawn_key=(t,)))

    def _tree_learner(self, X, y, weight, is_weighted):
        """A function to train tree t: t -> nodes, columns, votes and sample."""
        (n, d), m, k = X.shape, self._n_sampled(weight), self._n_features(X.shape[1])
        per_split, is_stump = self.per_split and k < d, self.base == "stump"
        grower = Grower(
            X, self.max_bins, self.criterion, 1 if is_stump else self.max_depth,
            self.min_samples_leaf, self.max_leaf_nodes, float(self.min_impurity_decrease),
            n_drawn=k if per_split else None, weight=weight if is_weighted else None, most=m,
        )  # fmt: skip
        growers = [grower] + [grower.fork() for _ in range(self._threads() - 1)]
        is_drawn = self.bootstrap or weight.min() == weight.max()  # else no whole numbers

        def train(t):
            rng, columns = self._rng(t), None
            counts = _sample(weight, y, m, self.bootstrap, rng)
            if k < d and not per_split:
                columns = np.sort(rng.choice(d, k, replace=False))
            own = growers.pop() if columns is None else grower.fork(columns)
            unit = 1.0 if is_drawn else own.full / weight[counts > 0].sum()
            found = _weigh(counts, weight, y, unit, is_drawn, own.shift, own.GH, own.rows)
            if per_split:
                own.state[0] = rng.integers(1, 2**63)
                own.features.sort()  # another tree left them in its order
            nodes, vote = own.grow(own.rows[:found]), np.empty(n)
            if self.prune and not is_stump:
                prune(nodes, own.shift)
            values = self._leaf_votes(-nodes["g"] / (nodes["h"] >> own.shift))
            _cast(
                nodes, values, own.leaf, counts, grower.by_feature, grower.n_codes, own.rows,
                own.spare, vote,
            )  # fmt: skip
            if columns is None:
                growers.append(own)
            tree = own.pack([nodes])[0]
            tree["value"] = self._leaf_votes(tree["value"])
            return tree, columns, vote, counts

        return train

    def _learner(self, X, y, weight, is_weighted):
        """The same for copies of an object; it gets the labels as they are."""
        d, labels = X.shape[1], self.classes_[(y > 0).astype(np.intp)]
        m, k = self._n_sampled(weight), self._n_features(d)

        def train(t):
            rng, columns = self._rng(t), None
            counts = _sample(weight, y, m, self.bootstrap, rng)
            if k < d:
                columns = np.sort(rng.choice(d, k, replace=False))
            member, rows = seeded_copy(self.base, rng), np.repeat(np.arange(y.size), counts)
            passed = weight[rows] if is_weighted and not self.bootstrap else None
            fit_member(member, _part(X[rows], columns), labels[rows], passed, "set bootstrap=True")
            return member, columns, self._member_vote(member, _part(X, columns)), counts

        return train

    def _leaf_votes(self, values):
        return np.where(values >= 0, 1.0, -1.0) if self.voting == "hard" else values

    def _member_vote(self, member, X):
        if self.voting == "hard":
            return np.where(np.asarray(member.predict(X)) == self.classes_[1], 1.0, -1.0)
        if not hasattr(member, "predict_proba"):
            raise ValueError(
                f"{type(self).__name__}: voting='soft' needs members with predict_proba, "
                f"{type(member).__name__} has none; use voting='hard'"
            )
        p, known = (
            np.asarray(member.predict_proba(X)),
            list(getattr(member, "classes_", self.classes_)),
        )
        low, high = (p[:, known.index(c)] if c in known else 0.0 for c in self.classes_)
        return high - low

    def _each(self, work, T):
        """work(0), work(1), ... in order; n_jobs threads run ahead, though not far."""
        n_jobs = self._threads()
        if n_jobs == 1:
            yield from map(work, range(T))
            return
        with ThreadPoolExecutor(n_jobs) as pool:
            jobs = deque()
            for t in range(T):
                jobs.append(pool.submit(work, t))
                if len(jobs) > n_jobs:
                    yield jobs.popleft().result()
            while jobs:
                yield jobs.popleft().result()

    def _each_vote(self, X):
        """Vote (n,) of one member after the other."""

        def vote(t):
            if hasattr(self, "estimators_"):
                columns = (
                    self.estimators_features_[t] if hasattr(self, "estimators_features_") else None
                )
                return self._member_vote(self.estimators_[t], _part(X, columns))
            return sum_trees(self.nodes_, self.starts_[t : t + 1], np.ones(1), X)

        return self._each(vote, self.weights_.size)

    def _keep(self, members, nodes, starts, features):
        """Set the attributes that hold the members, all or those so far."""
        self.weights_ = np.full(len(features), 1.0 / len(features))
        if features[0] is not None:
            self.estimators_features_ = np.array(features)
        if isinstance(self.base, str):
            self.nodes_, self.starts_ = nodes[: starts[-1]], np.array(starts, dtype=np.int64)
        else:
            self.estimators_ = members[:]

    def _importances(self):
        """Mean over the trees of their features' shares of the gains, (d,), of sum 1 or 0."""
        tree = np.repeat(np.arange(self.weights_.size), np.diff(self.starts_))
        gain = np.bincount(tree, self.nodes_["gain"])
        share = self.nodes_["gain"] / np.where(gain > 0, gain, 1.0)[tree]
        total = np.bincount(self.nodes_["feature"], share, self.n_features_in_)
        return total / total.sum() if total.any() else total

    def _keep_outside(self, outside, n_outside, y, weight):
        """Set the out-of-bag attributes, equations (9) and (10)."""
        known = n_outside > 0
        self.oob_decision_function_ = np.full(y.size, np.nan)
        self.oob_decision_function_[known] = outside[known] / n_outside[known]
        right, weight = (outside >= 0) == (y > 0), weight * known
        self.oob_score_ = float(weight @ right / weight.sum()) if weight.any() else math.nan
        if not known.all():
            warnings.warn(
                f"{type(self).__name__}: {np.count_nonzero(~known)} of {y.size} rows are in all "
                f"{self.n_iter_} samples and have no out-of-bag vote; use more members",
                stacklevel=3,
            )

    def _record(self, t, objective):
        """Keep the state of the round."""
        self.n_iter_, self.objective_ = t, objective
        self.trace_.append(objective)
        if self.verbose:
            print(f"{type(self).__name__} {t:5d}  objective {objective:.9e}")


# >>> shared: space 1
def _extended(nodes, count, tree):
    """nodes with a tree after the first count of them; twice the space where it runs out."""
    stop = count + len(tree)
    if stop > len(nodes):
        nodes = np.concatenate([nodes[:count], np.zeros(stop, dtype=NODE)])
    nodes[count:stop] = tree
    return nodes


# <<< shared: space


def _part(X, columns):
    return X if columns is None else X[:, columns]


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    blobs = generator.normal(size=(400, 5)) + np.repeat([[-0.7], [0.7]], 200, axis=0)
    labels = np.repeat(["left", "right"], 200)
    for options in ({}, {"max_features": 0.5, "per_split": False}):
        model = Bagging(**options, oob_score=True, random_state=0).fit(blobs, labels)
        print(f"{model!r}: {model.n_iter_} members, accuracy {model.score(blobs, labels):.3f}, "
              f"out of bag {model.oob_score_:.3f}")  # fmt: skip
        samples = np.array([model.samples(t, labels) for t in range(model.n_iter_)])
        votes = np.where(samples.T == 0, model.votes(blobs), 0.0).sum(axis=1)
        assert np.mean((votes >= 0) == (labels == "right")) == model.oob_score_

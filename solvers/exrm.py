"""ExRM: an ensemble of linear or kernel machines trained together, kept apart by exclusivity.

Problem (minimised over w_1..w_T and b_1..b_T):

    1/2 sum_j ( sum_t |w_tj| + beta )^2  +  lam sum_t sum_i n_ti max(0, 1 - y_i (x_i.w_t + b_t))^p

    p >= 1 is the power of the hinge, beta >= 0 asks for sparsity, n_ti >= 0 are example weights per
    member: all ones in the paper, bootstrap counts with sampling="bootstrap". The ensemble is the
    mean of the members. T = 1 is the primal SVM (PSVM).

Method    "auto" where one machine is sought, or where members meet (different samples or beta > 0)
          in many rows with p >= 2: semismooth Newton on all members at once. An iteration costs
          two products with X and, when the curvature is formed anew, O(n d^2) a member; where a
          few products with the curvature are enough, conjugate gradients do without it. Powers
          below 2 lack a usable second derivative: there the loss is replaced by its proximal
          envelope, and multipliers move after each inner solution (augmented Lagrangian). Many
          rows are solved on nested samples first, to start close.
          "auto" elsewhere, and where Newton does not arrive: a primal-dual interior point method
          on the whole problem, 10 to 60 iterations at any scale and shape, each O(n d^2 + d^3) a
          member, or O(d r^2 + r^3) where all members together have r < d rows.
          The answer is certified by a feasible dual point: objective and gap are computed anew
          from the coefficients that are returned, and the fit ends when the gap, relative to the
          objective, is below tol. Far columns are centred first: the bias is free.
          Equal samples: one machine with lam/T and beta/T is the exact answer for all members.
          "alm": the paper's splitting with a balanced penalty, certified.
          "paper": Algorithm 2 as printed.
Reference Guo, Wang, Ling, "Exclusivity Regularized Machine: A New Ensemble SVM Classifier",
          IJCAI 2017; Algorithms 1-2, equations (5)-(18). Mehrotra, "On the implementation of a
          primal-dual interior point method", SIAM J. Optimization 1992.
Departs   The growing penalty (rho = 1.1) freezes before the optimum; "auto" and "alm" reach it.
          With equal samples all members are equal at the optimum: the ensemble is PSVM(lam/T).
          The row step (8) is solved exactly; prox="reweighted" restores the re-weighting, which
          runs until it changes by less than 1e-12. "paper" warns of the gap that it leaves.
          A sample of one class gives a member w = 0 whose bias is that class.
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
from contextlib import contextmanager, suppress
from functools import cache, partial, wraps
from typing import NamedTuple

import numpy as np
from numba import njit

LANES = {"reassoc", "contract", "nsz", "arcp"}  # sums in vector lanes: 4x at n = 1e4; NaN kept
EPS = 2.0**-52  # a gap is never claimed to be below this part of the objective
TINY = 1e-200  # errors below are zero: powers of them would not be exact
OVERSHOOT = 0.5  # a full step is too long if the slope at its end is more than this part
FLAT = 0.1  # ... of the first one, then up; a shorter one is sought until it is below this part
BALANCE = 1e-10  # the bias is exact when both classes' multipliers agree to this part;
ROUNDING = 1e-13  # what is left beyond this is scaled away
INNER = 0.3  # multipliers move when the inner gap is below this part of the whole
SHRINK = 3.0  # ... and the envelope gets narrower by this factor, from
DELTA, NARROW = 4.0, 1e-6  # ... a width that has the rows of a zero start inside, down to this
LEVEL = 8  # each level of the nested samples has this many times the rows of the last, or twice
MANY_ROWS = 10_000  # ... that where it has this many rows a feature
LEVEL_ROWS = 10  # smallest sample: this many rows a feature
LEVEL_TOL = 10.0  # a sample only has to give a good start; 1 % of it for p < 2, slower to mend
LEVEL_STEPS = 100  # most iterations on one of the samples
FEW_ROWS = 20  # members that meet in fewer rows a feature: the interior point method first
NEWTON_STEPS = 150  # where Newton's method needs more, the interior point method goes on
CG_PART = 10  # a Hessian costs as much as d / 10 products with it: so many are tried first,
CG_TOL = 0.1  # ... for a step to this accuracy
FROZEN = 0.1  # a Hessian is kept while each step cuts the gap to this part
CHUNK = 4096  # rows of a Hessian at a time: they stay in the cache
TINY_SIDE = 16  # up to here a loop of our own beats the call of BLAS for a Hessian
SMALL = 256  # up to here our Cholesky beats the call of LAPACK's
RIDGE = 1e-10  # added to Hessians: this part of their diagonal and of the regulariser's
MODEL_TOL = 0.01  # a Newton model is solved to this part of the gap, by row sweeps
SWEEP = 0.9  # ... as long as each brings it to this part of the last; is it then not even
MODEL_ENOUGH = 0.1  # ... this part of the gap, an interior point method goes on
MODEL_STEPS = 60  # ... for so many steps at the most
INSIDE = 0.1  # the interior point method starts this part of the typical size off its bounds,
BOUNDARY = 0.995  # ... goes this part of the way to them, corrects each direction
REFINE = 2  # ... so many times by what rounding left over, and ends
STUCK = 1e-14  # ... where its steps get shorter than this, or
IDLE = 20  # ... after so many iterations without progress
ZEROS = 1.0, 1e-2, 1e-4  # a weight below this part of its multiplier is exactly zero; where that
POLISH = 5  # ... costs the certificate, the method goes on for so many iterations
CHECK_EVERY = 10  # iterations between two certificates of the splitting
FAR = 100.0  # columns whose mean is more than this many times their spread are centred
ERROR_PART = 0.01  # rounding errors up to this part of tol are added to the gap, not avoided
SPLIT = 2.0**27 + 1.0  # cuts a double into two halves whose products are exact
PAPER_STOP = 0.05  # Algorithm 2 ends when the objective moves by less
SIGN = np.array([1.0, -1.0])[:, None, None]  # of the parts V+ and V- of the weights
REWEIGHT_EPS = 1e-10  # Algorithm 1: keeps its weights finite
REWEIGHT_STEPS = 100_000  # ... and it runs until it settles, or for so many steps


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


# -- kernels ------------------------------------------------------------------------------------
@kernel
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
        if abs(excess) <= 4e-16 * v or high - low <= 4e-16 * high:
            break
        e = e - excess / (1.0 + (p - 1.0) * s / e) if e > 0.0 else 0.0
        if not low < e < high:
            e = 0.5 * (low + high)
    return e


@kernel(fastmath=LANES)
def _loss_terms(xw, b, y, cost, share, p, delta, ya):
    """Loss of one member at bias b, p = 1 or 2; overwrites ya with y times its derivative.

    p = 1: derivatives of the envelope of width delta whose multipliers are share * cost.
    Returns the sums of ya, of |ya|, of loss'', of the loss, and of cost e^p for the conjugate.
    """
    balance, total, bend, loss = 0.0, 0.0, 0.0, 0.0
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


@kernel
def _power_terms(xw, b, y, cost, share, p, delta, ya):
    """The same for any p > 1; the envelope where delta > 0."""
    balance, total, bend, loss, power = 0.0, 0.0, 0.0, 0.0, 0.0
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


@kernel
def _best_bias(xw, bias, y, cost, share, p, delta, ya, other):
    """Minimise one member's loss over its bias; overwrites ya. Returns the bias and the sums.

    other is None for p = 1 or 2: the branch for other powers is then not even compiled.
    """
    low, high, width = -np.inf, np.inf, 1.0
    for _ in range(200):
        if other is None:
            sums = _loss_terms(xw, bias, y, cost, share, p, delta, ya)
        else:
            sums = _power_terms(xw, bias, y, cost, share, p, delta, ya)
        balance, total, bend = sums[0], sums[1], sums[2]
        if abs(balance) <= BALANCE * total:
            break
        if balance > 0.0:
            low = bias
        else:
            high = bias
        new = bias + balance / bend if bend > 0.0 else np.nan
        if not low < new < high:  # Newton left the bracket: widen or halve it
            if high - low < np.inf:
                new = 0.5 * (low + high)
            else:
                new = high - width if low == -np.inf else low + width
            width *= 2.0
        if new == bias:
            break
        bias = new
    if sums[1] == 0.0:  # no row has a loss: take the middle of where that is so
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


@kernel(fastmath=LANES)
def _balance(ya, cost, p):
    """Scale the heavier class of each member so that ya sums to 0: a feasible dual point.

    Overwrites ya; returns the loss part of the dual value, sum of alpha - conjugate(alpha).
    """
    dual = 0.0
    for t in range(ya.shape[0]):
        total, signed = 0.0, 0.0
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


@kernel
def _exclusivity(W, D, step, side, G, beta):
    """The regulariser at V = W + step D, its slope along D, its conjugate at G, <V, G>, <D, G>.

    Weights at exactly 0 have two slopes: side = 1 is the one ahead, side = -1 the one behind.
    """
    value, slope, conjugate, inner, along = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(W.shape[1]):
        s, ds, m = beta, 0.0, 0.0
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


@kernel
def _step_length(here, ahead, y, cost, share, powers, slopes, ya, other):
    """Where in (0, 1) the objective stops falling, by its slope, which is (at 0, at 1) = slopes.

    here = W, XW, b, ahead = their moves, powers = p, beta, delta; overwrites ya.
    """
    (W, XW, b), (move, XM, move_b), (p, beta, delta) = here, ahead, powers
    first, last = slopes
    low, high, flat, step = 0.0, 1.0, FLAT * abs(first), 0.0
    xw = np.empty(y.shape[0])
    for _ in range(30):
        step = low + (high - low) * min(max(first / (first - last), 0.1), 0.9)
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


@kernel
def _row_prox(u, h, beta, w):
    """w = argmin 1/2 (sum |w| + beta)^2 + sum_t (h_t w_t^2 / 2 - u_t w_t).

    w_t = sgn(u_t) max(|u_t| - beta - s, 0) / h_t with s = sum |w|. The root s is found by Newton
    from 0: the equation is convex and falling in s, so entries only ever leave.
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


@kernel
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


@kernel
def _bends(ya, cost, p, delta, bend):
    """Second derivative of one member's loss at each row, from the first; overwrites bend."""
    for i in range(ya.shape[0]):
        a, second = abs(ya[i]), 0.0
        if a > 0.0 and (p > 1.0 or a < (1.0 - BALANCE) * cost[i]):
            second = 2.0
            if p == 1.0:
                second = 1.0 / delta
            elif p != 2.0:
                e = (a / (p * cost[i])) ** (1.0 / (p - 1.0))
                second = (p - 1.0) * a / (cost[i] * e) if e > TINY else np.inf
                second = 1.0 / (delta + 1.0 / second)
        bend[i] = cost[i] * second


@kernel(fastmath=LANES)
def _small_curvature(X, bend, centre, H):
    """What _curvature says, of one member and few columns; overwrites centre and H."""
    d = X.shape[1]
    row, mean, weight = np.empty(d), np.zeros(d), 0.0
    for j in range(d):
        for k in range(d):
            H[j, k] = 0.0
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
    if weight > 0.0:
        for j in range(d):
            for k in range(j + 1):
                H[j, k] -= mean[j] * mean[k] / weight
                H[k, j] = H[j, k]
        for j in range(d):
            centre[j] += mean[j] / weight


@kernel
def _curved_rows(X, centre, bend, start, out):
    """Fill out with sqrt(bend) * (x - centre, 1) of the rows from start on where bend > 0.

    Returns the number of rows in out, and the next to read.
    """
    k, i, d = 0, start, X.shape[1]
    while i < X.shape[0] and k < out.shape[0]:
        if bend[i] > 0.0:
            root = math.sqrt(bend[i])
            for j in range(d):
                out[k, j] = root * (X[i, j] - centre[j])
            out[k, d] = root
            k += 1
        i += 1
    return k, i


@kernel(fastmath=LANES)
def _ridge_step(H, G, W, L, move):
    """move = (H + I)^-1 (G - W) of one member, by Cholesky; overwrites L and move."""
    d = W.shape[1]
    x = move[0]
    for i in range(d):
        for j in range(i + 1):
            s = H[0, i, j] + (1.0 if i == j else 0.0)
            for k in range(j):
                s -= L[i, k] * L[j, k]
            L[i, j] = s / L[j, j] if j < i else math.sqrt(s)
        s = G[0, i] - W[0, i]
        for k in range(i):
            s -= L[i, k] * x[k]
        x[i] = s / L[i, i]
    for i in range(d - 1, -1, -1):
        x[i] /= L[i, i]
        for k in range(i):
            x[k] -= L[i, k] * x[i]


@kernel(fastmath=LANES)
def _conjugate_gradients(X, bend, centre, right, steps, work, move):
    """move = (I + sum_i bend_i (x_i - centre)(x_i - centre)')^-1 right, to CG_TOL of its length.

    Overwrites work (3, d) and move; returns whether so many steps were enough.
    """
    d = X.shape[1]
    r, v, Hv = work[0], work[1], work[2]
    square = 0.0
    for j in range(d):
        move[j], r[j], v[j] = 0.0, right[j], right[j]
        square += right[j] * right[j]
    goal = CG_TOL * CG_TOL * square
    for _ in range(steps):
        middle = 0.0
        for j in range(d):
            middle += centre[j] * v[j]
            Hv[j] = v[j]
        for i in range(X.shape[0]):
            if bend[i] > 0.0:
                x, s = X[i], 0.0
                for j in range(d):
                    s += x[j] * v[j]
                s = bend[i] * (s - middle)
                for j in range(d):
                    Hv[j] += s * x[j]
        curve = 0.0
        for j in range(d):
            curve += v[j] * Hv[j]
        step, last = square / curve, square
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


@kernel
def _secant(H, move, change, seen):
    """BFGS: correct each member's Hessian so that it maps the last move to the change of slope.

    Overwrites H and seen.
    """
    T, d = move.shape
    for t in range(T):
        bent, modelled = 0.0, 0.0
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


@kernel
def _row_system(y, cost, p, mu, order, XW, b, state, move, bend, pull):
    """The rows' part of a Newton step to complementarity mu, with everything but X dw eliminated.

    state = alpha, r, e (3, T, n) and its last move: alpha is the dual variable, e - r = 1 - y f
    splits the slack. alpha r = mu; e belongs to alpha by alpha = p cost e^(p-1), linear in the
    logarithms, or for p = 1 by e (cost - alpha) = mu. order = 1 corrects by the last move's
    products. Then d alpha = bend (pull - y df); overwrites bend and y bend pull.
    """
    for t in range(cost.shape[0]):
        for i in range(y.shape[0]):
            c = cost[t, i]
            bend[t, i], pull[t, i] = 0.0, 0.0
            if c > 0.0:
                a, r, e = state[0, t, i], state[1, t, i], state[2, t, i]
                da, dr, de = move[0, t, i], move[1, t, i], move[2, t, i]
                want = 1.0 - y[i] * (XW[t, i] + b[t]) - e + (mu - order * da * dr) / a
                if p == 1.0:
                    room = c - a
                    want -= (mu - e * room + order * de * da) / room
                    slope = e / room
                else:
                    slope = e / ((p - 1.0) * a)
                    want -= slope * a * (math.log(a / (c * p)) - (p - 1.0) * math.log(e))
                bend[t, i] = 1.0 / (slope + r / a)
                pull[t, i] = y[i] * bend[t, i] * want


@kernel
def _row_moves(y, cost, p, mu, order, bend, pull, df, state, move):
    """The moves of alpha, r and e that belong to df; overwrites move, and returns the inverse of
    the longest step that keeps all of them positive."""
    worst = 0.0
    for t in range(cost.shape[0]):
        for i in range(y.shape[0]):
            c = cost[t, i]
            if c > 0.0:
                a, r, e = state[0, t, i], state[1, t, i], state[2, t, i]
                cross, across = order * move[0, t, i] * move[1, t, i], move[2, t, i] * move[0, t, i]
                da = y[i] * pull[t, i] - y[i] * bend[t, i] * df[t, i]
                dr = (mu - cross - r * da) / a - r
                if p == 1.0:
                    de = (mu + order * across + e * da) / (c - a) - e
                    worst = max(worst, da / (c - a))
                else:
                    off = math.log(a / (c * p)) - (p - 1.0) * math.log(e)
                    de = e / (p - 1.0) * (da / a + off)
                move[0, t, i], move[1, t, i], move[2, t, i] = da, dr, de
                worst = max(worst, -da / a, -dr / r, -de / e)
    return worst


@kernel
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


@kernel
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


@kernel
def _exact_outputs(X, w, b, out):
    """out = X w + b, each as if computed with twice the digits and then rounded."""
    for i in range(X.shape[0]):
        high, low = b, 0.0
        for j in range(X.shape[1]):
            x, v = X[i, j], w[j]
            product = x * v
            cut = SPLIT * x
            x1 = cut - (cut - x)
            cut = SPLIT * v
            v1 = cut - (cut - v)
            x2, v2 = x - x1, v - v1
            low += ((x1 * v1 - product) + x1 * v2 + x2 * v1) + x2 * v2
            total = high + product
            back = total - high
            low += (high - (total - back)) + (product - back)
            high = total
        out[i] = high + low


@kernel
def _split_errors(XP, Z, y, cost, b, mu, p, E):
    """Equations (13)-(15) for any p >= 1; overwrites E."""
    for t in range(XP.shape[0]):
        for i in range(y.shape[0]):
            s = y[i] - XP[t, i] - b[t] - Z[t, i] / mu
            v, c = y[i] * s, cost[t, i] / mu
            if v > 0.0 and c > 0.0:
                s = y[i] * (max(v - c, 0.0) if p == 1.0 else _power_prox(v, c, p))
            E[t, i] = s


@kernel
def _split_weights(P, Q, mu, beta, W, reweighted):
    """Row step (8): exact, or by Algorithm 1 from the current W; overwrites W."""
    T, d = P.shape
    u, h, w = np.empty(T), np.full(T, mu), np.empty(T)
    for j in range(d):
        for t in range(T):
            u[t] = mu * P[t, j] + Q[t, j]
        if reweighted:
            for _ in range(REWEIGHT_STEPS):
                s, change, size = beta, 0.0, 0.0
                for t in range(T):
                    s += abs(W[t, j])
                for t in range(T):
                    new = u[t] / (s / (abs(W[t, j]) + REWEIGHT_EPS) + mu)  # (10)-(11)
                    change += abs(new - W[t, j])
                    size += abs(new)
                    W[t, j] = new
                if change <= 1e-12 * size:
                    break
        else:
            _row_prox(u, h, beta, w)
            for t in range(T):
                W[t, j] = w[t]


# -- solvers ------------------------------------------------------------------------------------
class _Problem(NamedTuple):
    """What is minimised: rows X (n, d), signs y (n,), cost = lam n_ti (T, n), p and beta."""

    X: np.ndarray
    y: np.ndarray
    cost: np.ndarray
    p: float
    beta: float


def _objective(problem, W, b):
    """The problem of the module docstring."""
    X, y, cost, p, beta = problem
    slack = np.maximum(1.0 - y * (W @ X.T + b[:, None]), 0.0)
    return 0.5 * ((np.abs(W).sum(0) + beta) ** 2).sum() + (cost * slack**p).sum()


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
    X, y, cost, p, beta = problem
    size = np.sqrt(X.ravel() @ X.ravel() * (W * W).sum(1))
    reg = 0.5 * ((np.abs(W).sum(0) + beta) ** 2).sum()
    outputs = W @ X.T + b[:, None]
    loss, ya = _losses(problem, outputs)
    objective, slopes = reg + loss, np.abs(ya)
    error = np.sqrt((ya * ya).sum(1)) @ size + slopes.sum(1) @ np.abs(b)
    error *= EPS * (X.shape[1] + 2)
    if not error <= ERROR_PART * tol * objective:
        for t in range(W.shape[0]):
            _exact_outputs(X, W[t], b[t], outputs[t])
        loss, ya = _losses(problem, outputs)
        objective = reg + loss
        error = EPS * (np.abs(ya) * (1.0 + np.abs(outputs))).sum()
    gap = max(abs(objective - dual), EPS * objective) + error
    residual = gap / max(objective, TINY)
    return float(objective), float(residual) if residual == residual else math.inf


def _curvature(X, bend, centre):
    """sum_i bend_ti (x_i - c_t)(x_i - c_t)' of each member t (T, d, d), and the means c (T, d).

    It is the Hessian of the loss with the bias eliminated. `centre` only keeps numbers small.
    """
    (n, d), T = X.shape, bend.shape[0]
    H, new = np.zeros((T, d, d)), centre.copy()
    rows = np.empty((min(n, CHUNK), d + 1)) if d > TINY_SIDE else None
    for t in range(T):
        if rows is None:
            _small_curvature(X, bend[t], new[t], H[t])
            continue
        full, start = np.zeros((d + 1, d + 1)), 0
        while start < n:
            k, start = _curved_rows(X, centre[t], bend[t], start, rows)
            full += rows[:k].T @ rows[:k]
        if full[d, d] > 0:
            shift = full[d, :d] / full[d, d]
            H[t] = full[:d, :d] - full[:d, d:] * shift
            new[t] += shift
    return H, new


def _times(H, V):
    """H_t v_t for every member t."""
    return np.matmul(H, V[..., None])[..., 0]


def _inverse(K):
    """Inverses of positive definite matrices, with unit diagonals on the way: fewer digits go."""
    scale = 1.0 / np.sqrt(np.diagonal(K, axis1=-2, axis2=-1))
    scale = scale[..., :, None] * scale[..., None, :]
    return np.linalg.inv(K * scale) * scale


def _reduced(H, pull):
    """Newton's equations of the regulariser's parts P = (V+, V-) >= 0, with pull = Q / P.

    Members meet only in the d sums s = sum_t |v_t|, so T matrices of size d are inverted and one
    more. Returns a function of the residuals `off` (2, T, d): the move of V, and that of P.
    """
    total = pull[0] + pull[1]
    tilt = (pull[0] - pull[1]) / total
    T, d = total.shape
    K = H.copy()
    K.reshape(T, -1)[:, :: d + 1] *= 1.0 + RIDGE
    K.reshape(T, -1)[:, :: d + 1] += pull[0] * pull[1] / total + RIDGE
    K = _inverse(K)
    KT = K * tilt[:, None, :]
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


def _parts(move, ds, both, total, tilt):
    """Moves of V+ and V- that belong to those of V and of s."""
    return 0.5 * SIGN * move - (both + 2.0 * ds) / total - 0.5 * tilt * move


def _reduced_wide(A, roots, pull):
    """The same for H_t = A_t' A_t of fewer rows than columns: one matrix of all rows is inverted.

    The regulariser's own matrix couples the members feature by feature; its inverse is written
    without differences, since its entries lie many orders of magnitude apart. Rows are centred,
    roots_t' A_t = 0: a multiple of roots_t roots_t' does not change the solution and fills the gap.
    """
    total = pull[0] + pull[1]
    tilt = (pull[0] - pull[1]) / total
    T = len(A)
    c = 1.0 + (4.0 / total).sum(0)
    E = total / (pull[0] * pull[1])
    parts = E * tilt * tilt
    before = np.vstack([c, c + np.cumsum(parts[:-1], axis=0)])
    after = np.vstack([np.cumsum(parts[:0:-1], axis=0)[::-1], np.zeros_like(c)])
    whole = before[-1] + parts[-1]
    inverse = (-E * tilt / whole)[:, None] * (E * tilt)[None]
    inverse[np.arange(T), np.arange(T)] = E * (before + after) / whole
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
        for _ in range(1 + REFINE):  # A move = seen, to the last digits
            seen += M @ (np.concatenate([a @ move[t] for t, a in enumerate(A)]) - seen)
            back = [seen[ends[t] : ends[t + 1]] @ a for t, a in enumerate(A)]
            move = spread(v - np.array(back))
        ds = (h - (tilt * move).sum(0)) / c
        return move, _parts(move, ds, both, total, tilt)

    return solve


def _model_minimum(W, G, H, beta, target, enough):
    """argmin over V of regulariser(V) - <G, V - W> + 1/2 sum_t (v_t - w_t)' H_t (v_t - w_t).

    Row sweeps as long as they help; else a predictor-corrector interior point method on the parts
    P = (V+, V-) >= 0 with multipliers Q >= 0. A last row sweep sets exact zeros.
    Stops when the next iterate's share of the duality gap will be below target; at the end of
    the sweeps, below enough.
    """
    T, d = W.shape
    H = H.copy()
    H.reshape(T, -1)[:, :: d + 1] *= 1.0 + RIDGE
    H.reshape(T, -1)[:, :: d + 1] += RIDGE
    linear = G + _times(H, W)

    def swept(V):
        R = linear - _times(H, V)
        _row_sweep(H, R, V, beta)
        value, _, conjugate, inner, _ = _exclusivity(V, V, 0.0, 1.0, R, beta)
        return V, R, value + conjugate - inner

    V, gap, last = W.copy(), 0.0, np.inf
    while gap <= SWEEP * last:
        last = gap or np.inf
        V, R, gap = swept(V)
        if gap <= target:
            return V
    if gap <= enough:
        return V

    best, best_gap = V, gap
    s = np.abs(V).sum(0) + beta
    size, dual_size = np.abs(V).mean() + 1e-12, s.mean() + 1e-12
    start = min(max(math.sqrt(gap / (2.0 * V.size * size * dual_size)), 1e-4), 0.1)
    size, dual_size = start * size, start * dual_size  # as far inside as the gap is wide
    P, Q = np.maximum(SIGN * V, 0.0) + size, np.maximum(s - SIGN * R, dual_size)
    for _ in range(MODEL_STEPS):
        s = P.sum((0, 1)) + beta
        R = linear - _times(H, P[0] - P[1])
        solve = _reduced(H, Q / P)
        mean = (P * Q).sum() / V.size
        wish = -P * Q  # the predictor aims at complementarity 0
        for _ in "predictor", "corrector":
            _, dP = solve(s - SIGN * R - Q - wish / P)
            dQ = (wish - Q * dP) / P
            step = 1.0 / max(1.0, (-dP / P).max(), (-dQ / Q).max())
            ahead = ((P + step * dP) * (Q + step * dQ)).sum() / V.size
            wish = 0.5 * mean * (ahead / mean) ** 3 - P * Q - dP * dQ
        P, Q = P + BOUNDARY * step * dP, Q + BOUNDARY * step * dQ
        zero = (P * dual_size <= Q * size).all(0)
        V, _, gap = swept(np.where(zero, 0.0, P[0] - P[1]))
        if gap < best_gap:
            best, best_gap = V, gap
        if gap <= target:
            break
    return best


def _newton(problem, tol, steps, start, pulse):
    """Semismooth Newton from start = (W, b, H, centre, delta); returns it at the end, the dual
    value that certifies W and b, and a function that forms the Hessian.

    pulse(objective, residual) counts the iterations and may stop it.
    """
    X, y, cost, p, beta = problem
    W, b, H, centre, delta = start
    (n, d), T = X.shape, W.shape[0]
    single = T == 1 and beta == 0
    XW, XM = W @ X.T, np.empty((T, n))
    ya, share, bend = np.empty((T, n)), np.zeros((T, n)), np.empty((T, n))
    move, factor = np.empty((T, d)), np.empty((d, d))
    other = None if p in (1.0, 2.0) else True
    gradients, work = single and p >= 2 and d >= 5 * CG_PART, np.empty((3, d))
    last_gap, last_G = np.inf, None
    best, best_residual = (W, b, -np.inf), np.inf

    def evaluate():
        """Loss, its part of the dual value and X' ya, at the best biases."""
        loss, dual, balanced = 0.0, 0.0, True
        for t in range(T):
            b[t], sums = _best_bias(XW[t], b[t], y, cost[t], share[t], p, delta, ya[t], other)
            loss += sums[3]
            dual += sums[1] - (p - 1.0) * sums[4]
            balanced = balanced and abs(sums[0]) <= ROUNDING * sums[1]
        return loss, dual if balanced else _balance(ya, cost, p), ya @ X

    def step_by_gradients():
        """Newton's step without the Hessian, where few products with it are enough."""
        bends()
        weight = bend.sum()
        mean = bend @ X / weight if weight > 0 else centre
        right = (G - W)[0]
        few = _conjugate_gradients(X, bend[0], mean[0], right, d // CG_PART, work, move[0])
        return mean if few else None

    def bends():
        """Second derivatives of all losses, in bend."""
        if p == 2:
            np.multiply(2.0 * cost, ya != 0, out=bend)
        else:
            for t in range(T):
                _bends(ya[t], cost[t], p, delta, bend[t])

    def curvature():
        bends()
        return _curvature(X, bend, centre)

    loss, dual, G = evaluate()
    settled = False
    for iteration in range(steps):
        reg, _, conjugate, inner, _ = _exclusivity(W, W, 0.0, 1.0, G, beta)
        objective = reg + loss
        gap = max(abs(objective - dual + conjugate), EPS * objective)
        inner_gap = max(reg + conjugate - inner, 0.0)
        residual = gap / max(objective, TINY)
        if residual < best_residual:
            best_residual, best = residual, (W, b.copy(), dual - conjugate)
        stop = pulse(objective, residual)
        if stop or residual <= tol or iteration == steps - 1 or not math.isfinite(objective):
            break
        if p < 2 and (settled or inner_gap <= INNER * (gap - inner_gap)):
            np.divide(np.abs(ya), cost, out=share, where=cost > 0)
            delta = max(delta / SHRINK, NARROW)
            loss, dual, G = evaluate()
        middle = step_by_gradients() if gradients else None
        gradients = middle is not None
        if gradients:
            H, centre = None, middle
        elif H is None or p < 2 or gap > FROZEN * last_gap:
            H, centre = curvature()
        elif last_G is not None:  # keep the Hessian, corrected by what the last move showed
            _secant(H, move, last_G - G, factor[0])
        last_gap, last_G = gap, G
        if gradients:
            pass
        elif not single:
            target = 0.1 * tol * objective
            target, enough = (max(target, part * inner_gap) for part in (MODEL_TOL, MODEL_ENOUGH))
            np.subtract(_model_minimum(W, G, H, beta, target, enough), W, out=move)
        elif d <= SMALL:
            _ridge_step(H, G, W, factor, move)
        else:
            move[0] = np.linalg.solve(H[0] + np.eye(d), (G - W)[0])
        move_b = -np.add.reduce(centre * move, axis=1)
        np.matmul(move, X.T, out=XM)
        _, first, _, _, along = _exclusivity(W, move, 0.0, 1.0, G, beta)
        first -= along
        settled = not first < 0  # no descent left in floating point
        if settled and (p >= 2 or delta == NARROW):
            break
        if settled:
            continue
        old_b = b.copy()
        b += move_b
        XW += XM
        loss, dual, G = evaluate()
        _, last, _, _, along = _exclusivity(W, move, 1.0, -1.0, G, beta)
        last -= along
        if last > OVERSHOOT * abs(first):
            b[:] = old_b
            XW -= XM
            here, ahead, powers = (W, XW, b), (move, XM, move_b), (p, beta, delta)
            step = _step_length(here, ahead, y, cost, share, powers, (first, last), ya, other)
            move *= step
            b += step * move_b
            XW += step * XM
            loss, dual, G = evaluate()
        W = W + move
    W, b, value = best
    return (W, b, H, centre, delta), value, curvature


def _solve_newton(problem, tol, pulse, samples=True):
    """Newton on nested samples of the rows, each solution the start of the next, then on all."""
    X, y, cost, p, beta = problem
    (n, d), T = X.shape, cost.shape[0]
    sizes, size = [], n
    while size >= max(LEVEL_ROWS * d, 400):
        sizes.append(size)
        size //= LEVEL if size < MANY_ROWS * d else 2 * LEVEL
    state = np.zeros((T, d)), np.zeros(T), None, np.zeros((T, d)), DELTA if p < 2 else 0.0
    for size in sizes[:0:-1] if samples else ():  # all but the full set, smallest first
        i, stride = np.arange(size), n // size
        rows = i * stride + (i * 2654435761 >> 15) % stride  # one of every stride, scattered
        part = _Problem(X.take(rows, 0), y[rows], cost[:, rows] * (n / size), p, beta)
        enough = max(tol, LEVEL_TOL if p >= 2 else 0.01 * LEVEL_TOL)
        state, _, curvature = _newton(part, enough, LEVEL_STEPS, state, partial(pulse, rows=size))
        if p >= 2 and size > CHUNK and state[2] is not None:  # worth having of a large sample
            state = *state[:2], *curvature(), state[4]
    (W, b, *_), value, _ = _newton(problem, tol, NEWTON_STEPS, state, pulse)
    return W, b, value


def _is_far(sample):
    """Whether some column lies many times its spread away from 0, by these rows."""
    low, high = sample.min(0), sample.max(0)
    return (np.abs(low + high) > FAR * (high - low)).any()


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
        K = A.T @ A if d <= n else A @ A.T
        K.ravel()[:: len(K) + 1] *= 1.0 + RIDGE
        K.ravel()[:: len(K) + 1] += 1.0 / cost[t].max()
        W[t] = _inverse(K) @ (right @ A) if d <= n else (_inverse(K) @ right) @ A
        b[t] = mean - W[t] @ centre
    return W, b


def _solve_interior(problem, tol, pulse):
    """Primal-dual interior point method on the whole problem, for any p, scale and shape.

    The rows' variables are those of _row_system, the regulariser's those of _reduced. Each
    iteration takes Mehrotra's predictor, then his corrector.
    """
    X, y, cost, p, beta = problem
    (n, d), T = X.shape, cost.shape[0]
    single, live = T == 1 and beta == 0, cost > 0
    wide = not single and live.sum() < d
    W, b = _least_squares(problem)
    bound, factor = min((_objective(problem, k * W, k * b), k) for k in (1.0, 2.0))
    W, b = factor * W, factor * b  # twice the fit of separable rows has no loss
    slack = 1.0 - y * (W @ X.T + b[:, None])
    inside = INSIDE * np.abs(slack).mean() + TINY
    e = np.maximum(slack, 0.0) + inside
    e = e if p <= 2 else np.minimum(e, 1.0)  # no more than at zero weights: powers grow fast
    alpha = 0.5 * cost if p == 1 else p * cost * e ** (p - 1.0)
    part = min(1.0, 2.0 * bound / alpha.sum())  # the optimal ones sum to no more
    e = np.maximum(slack, 0.0) + part * inside if p == 1 else part ** (1.0 / (p - 1.0)) * e
    state = np.array([part * alpha, np.maximum(-slack, 0.0) + inside, e])
    inside = INSIDE * np.abs(W).sum(0).max() + TINY
    P = np.maximum(SIGN * W, 0.0) + inside
    Q = np.full_like(P, inside + beta)
    move, dP, dQ = np.zeros_like(state), np.zeros_like(P), np.zeros_like(Q)
    bend, pull, centre = np.empty((T, n)), np.empty((T, n)), np.zeros((T, d))
    count = live.sum() * (2 if p == 1 else 1) + (0 if single else P.size)
    best, best_residual, least, idle = (W, b, -np.inf), np.inf, np.inf, 0
    zeroed, polished = None, 0
    while idle < IDLE:
        ya = y * state[0]
        unbalanced, G = ya.sum(1), ya @ X
        dual = _dual_value(problem, ya)
        objective = _objective(problem, W, b)
        residual = abs(objective - dual) / max(objective, TINY)
        idle += 1
        if residual < best_residual:
            best, best_residual, idle = (W.copy(), b.copy(), dual), residual, 0
        stop = pulse(objective, residual)
        if residual <= tol and not single:
            for sure in ZEROS:
                if zeroed is None:
                    zeroed = _with_zeros(problem, W, b, (P <= sure * Q).all(0), dual, tol)
            polished += 1
        if stop or zeroed is not None or (residual <= tol and (single or polished == POLISH)):
            break
        XW = W @ X.T
        total = _row_products(cost, p, state, move, 0.0) + (0.0 if single else (P * Q).sum())
        if total < least:
            least, idle = total, 0
        mu, order, s = 0.0, 0.0, P.sum((0, 1)) + beta
        for _ in "predictor", "corrector":
            _row_system(y, cost, p, mu, order, XW, b, state, move, bend, pull)
            if order == 0.0:
                weight = bend.sum(1)
                if wide:
                    centre = bend @ X / weight[:, None]
                    rows = [np.flatnonzero(row) for row in live]
                    roots = [np.sqrt(bend[t, i]) for t, i in enumerate(rows)]
                    A = [roots[t][:, None] * (X[i] - centre[t]) for t, i in enumerate(rows)]
                    solve = _reduced_wide(A, roots, Q / P)
                else:
                    H, centre = _curvature(X, bend, centre)
                    if single:
                        H[0].ravel()[:: d + 1] += 1.0
                        H = _inverse(H)
                    else:
                        solve = _reduced(H, Q / P)
            wish = mu - P * Q - order * dP * dQ
            dW, db, df = np.zeros((T, d)), np.zeros(T), np.zeros((T, n))
            dP, dQ, ds = np.zeros_like(P), wish / P, 0.0
            change = pull  # of ya; each refinement starts from what the last one left over
            for _ in range(1 + REFINE * int(order)):
                lead = unbalanced + change.sum(1)
                R = G + change @ X - centre * lead[:, None]
                if single:
                    add = _times(H, R - W - dW)
                else:
                    add, more = solve(s + ds - SIGN * R - Q - dQ)
                    dP = dP + more
                    dQ, ds = (wish - Q * dP) / P, dP.sum((0, 1))
                add_b = lead / weight - (centre * add).sum(1)
                dW, db, df = dW + add, db + add_b, df + add @ X.T + add_b[:, None]
                change = pull - bend * df
            worst = 0.0 if single else max((-dP / P).max(), (-dQ / Q).max())
            worst = max(worst, _row_moves(y, cost, p, mu, order, bend, pull, df, state, move))
            step = 1.0 / max(1.0, worst / BOUNDARY)
            if order == 0.0:
                ahead = _row_products(cost, p, state, move, step)
                ahead += 0.0 if single else ((P + step * dP) * (Q + step * dQ)).sum()
                mu, order = total / count * min(ahead / total, 1.0) ** 3, 1.0
        if not step > STUCK:  # nor is it where numbers have become infinite
            break
        state += step * move
        if p >= 2:  # the smoother of the two directions keeps alpha and e together
            state[2][live] = (state[0][live] / (p * cost[live])) ** (1.0 / (p - 1.0))
        elif p > 1:
            state[0][live] = p * cost[live] * state[2][live] ** (p - 1.0)
        b += step * db
        if single:
            W = W + step * dW
        else:
            P, Q = P + step * dP, Q + step * dQ
            W = P[0] - P[1]
    return (*zeroed, dual) if zeroed is not None else best


def _with_zeros(problem, W, b, zero, dual, tol):
    """W and b with exact zeros where said, or None if that costs the certificate."""
    V = np.where(zero, 0.0, W)
    lost = np.where(problem.cost > 0, problem.y * ((W - V) @ problem.X.T), 0.0).max()
    for k in (1.0, 1.0 + max(lost, 0.0)):  # a longer V makes up for what the margins lost
        objective = _objective(problem, k * V, k * b)
        if abs(objective - dual) <= tol * objective:
            return k * V, k * b
    return None


def _solve(problem, both, tol, max_iter, tell):
    """Solve to a certified gap; returns W, b, objective, residual. `both` are the members whose
    samples have both classes.

    tell(iteration, objective, residual, rows) is called after every iteration, with the number
    of rows where these are a sample, and may stop it.
    """
    X, y, cost, p, beta = problem
    (n, d), T = X.shape, cost.shape[0]
    W, b = np.zeros((T, d)), np.zeros(T)
    if not both.all():  # a sample of one class: w = 0, and the bias is that class
        b[~both] = np.where(cost[~both] @ y > 0, 1.0, -1.0)
    far = _is_far(X[:: n // 64 + 1])
    centre = X.mean(0) if far else np.zeros(d)
    inner = _Problem(X - centre if far else X, y, cost if both.all() else cost[both], p, beta)
    turn = None
    if d > n and len(inner.cost) == 1 and beta == 0:  # only |w| counts: n dimensions are enough
        turn, R = np.linalg.qr(inner.X.T)
        inner = inner._replace(X=np.ascontiguousarray(R.T))
    count, stopped = 0, False

    def pulse(objective, residual, rows=None):
        nonlocal count, stopped
        count += 1
        stopped = bool(tell(count, objective, residual, rows)) or stopped
        stopped = stopped or count >= max_iter - (rows is not None)
        return stopped

    ways = partial(_solve_newton, samples=max_iter > 1), _solve_interior
    if (p < 2 or n < FEW_ROWS * d) and (len(inner.cost) > 1 or beta > 0):
        ways = ways[::-1] if d <= SMALL else ways[1:]
    if not both.any():
        pulse(0.5 * d * beta**2, 0.0)
        return W, b, *_certificate(problem, W, b, 0.5 * d * beta**2, tol)
    best = None
    for way in ways:
        try:
            V, bias, dual = way(inner, (1.0 - 2.0 * ERROR_PART) * tol, pulse)
        except np.linalg.LinAlgError:  # singular to the last digit: no answer that way
            shape = len(inner.cost), inner.X.shape[1]
            V, bias, dual = np.zeros(shape), np.zeros(shape[0]), -np.inf
        V = V if turn is None else V @ turn.T
        W, b = W.copy(), b.copy()
        W[both], b[both] = V, bias - V @ centre
        found = W, b, *_certificate(problem, W, b, dual, tol)
        best = found if best is None or found[3] < best[3] else best
        if best[3] <= tol or stopped:
            break
    return best


def _solve_splitting(problem, tol, max_iter, rho, reweighted, tell):
    """Algorithm 2. rho > 1: as printed, with the paper's stopping rule; rho = None: the penalty
    is balanced between the residuals instead, and the certified gap decides. Returns as _solve."""
    X, y, cost, p, beta = problem
    (n, d), T = X.shape, cost.shape[0]
    centre = X.mean(0) if rho is None else np.zeros(d)  # the bias is free: the same problem
    X = X - centre if rho is None else X
    inner = problem._replace(X=X)
    W, b, P, Q = np.ones((T, d)), np.zeros(T), np.zeros((T, d)), np.ones((T, d))
    E, Z, XP = np.zeros((T, n)), np.zeros((T, n)), np.zeros((T, n))
    K = np.linalg.inv(np.eye(d) + X.T @ X) if d <= n else None
    small = None if d <= n else np.linalg.inv(np.eye(n) + X @ X.T)
    mu, last, next_balance = 1.0, np.inf, CHECK_EVERY
    best = None
    for iteration in range(1, max_iter + 1):
        _split_weights(P, Q, mu, beta, W, reweighted)
        b = (y - E - XP - Z / mu).mean(axis=1)  # (12)
        E_old = E.copy()
        _split_errors(XP, Z, y, cost, b, mu, p, E)
        right = W - Q / mu + (y - b[:, None] - Z / mu - E) @ X
        P_old = P
        P = right @ K if K is not None else right - (right @ X.T @ small) @ X  # (17)
        XP = P @ X.T
        error = E - y + XP + b[:, None]
        Z += mu * error  # (18)
        Q += mu * (P - W)
        if rho is not None:
            mu *= rho
        elif iteration == next_balance:  # ever more rarely: a moving penalty need not converge
            primal = math.sqrt((error**2).sum() + ((P - W) ** 2).sum())
            dual = mu * math.sqrt(((E - E_old) ** 2).sum() + ((P - P_old) ** 2).sum())
            mu *= min(max(math.sqrt(primal / dual), 0.1), 10.0) if primal * dual > 0 else 1.0
            next_balance += max(CHECK_EVERY, iteration // 2)
        if rho is None and iteration % CHECK_EVERY and iteration < max_iter:
            continue
        ya = y * np.clip(-y * Z, 0.0, cost if p == 1 else np.where(cost > 0, np.inf, 0.0))
        shifted = b - W @ centre
        found = W.copy(), shifted, *_certificate(problem, W, shifted, _dual_value(inner, ya), tol)
        objective, residual = found[2:]
        settled = not abs(objective - last) >= PAPER_STOP
        last = objective
        if best is None or rho is not None or residual < best[3]:
            best = found
        if tell(iteration, objective, residual) or (settled if rho else residual <= tol):
            break
    return best


def _rbf(X, landmarks, gamma):
    """exp(-gamma |x - l|^2) between the rows of X and the landmarks."""
    centre = landmarks.mean(axis=0)
    A, B = X - centre, landmarks - centre
    distance = (A**2).sum(1)[:, None] + (B**2).sum(1) - 2.0 * A @ B.T
    return np.exp(-gamma * np.maximum(distance, 0.0))


# -- estimator ----------------------------------------------------------------------------------
class ExRM(_Protocol):
    """Exclusivity regularized machine.

    Parameters
    ----------
    n_estimators : int >= 1
        Number of members T.
    p : float >= 1
        Power of the hinge loss; 1 and 2 are the fast ones.
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
    random_state : None, int, RandomState or Generator
        Seed of the bootstrap and of the landmarks.
    verbose : int
        1 prints a line an iteration.
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
        "n_estimators": _at_least(1),
        "p": (lambda v: 1 <= v < np.inf, "a finite number >= 1"),
        "lam": (lambda v: 0 < v < np.inf, "a finite number > 0"),
        "beta": (lambda v: 0 <= v < np.inf, "a finite number >= 0"),
        "sampling": _one_of(None, "bootstrap"),
        "kernel": _one_of("linear", "rbf"),
        "gamma": (lambda v: v == "scale" or 0 < v < np.inf, "'scale' or a finite number > 0"),
        "n_landmarks": _at_least(1),
        "solver": _one_of("auto", "alm", "paper"),
        "rho": (lambda v: 1 < v < np.inf, "a finite number > 1"),
        "prox": _one_of("exact", "reweighted"),
        "tol": (lambda v: v > 0, "a number > 0"),
        "max_iter": _at_least(1),
    }

    def __init__(
        self, n_estimators=10, p=2, lam=2.0, beta=0.0, sampling=None, kernel="linear",
        gamma="scale", n_landmarks=256, solver="auto", rho=1.1, prox="exact", tol=1e-6,
        max_iter=1000, class_weight=None, random_state=None, verbose=0, callback=None,
    ):  # fmt: skip
        self._set(locals())

    @all_or_nothing
    def fit(self, X, y, sample_weight=None):
        """Train on X (n, d) and two classes y; sample_weight multiplies each example's loss."""
        self._check_params()
        X, y, weight = self._check_fit(X, y, sample_weight)
        self._set_features(X[weight > 0] if self._is_weighted(sample_weight) else X)
        X = self._features(X)
        T, equal = self.n_estimators, self.sampling is None
        one = self.solver == "auto" and equal  # T equal members: T^2 times PSVM(lam / T, beta / T)
        scale, share = (T * T, T) if one else (1, 1)
        cost = (weight[None] if equal else self._bootstrap(weight)) * (self.lam / share)
        cost = cost if one or not equal else np.repeat(cost, T, axis=0)
        problem = _Problem(X, y, cost, float(self.p), self.beta / share)
        trace, last = [], 0

        def tell(iteration, objective, residual, rows=None):
            nonlocal last
            last = iteration
            if rows is None:
                trace.append(scale * objective)
            return self._report(iteration, scale * objective, residual, rows)

        with np.errstate(all="ignore"):  # what overflows has an infinite residual
            if self.solver == "auto":
                both = np.ones(1, bool) if equal else _have_both(y, cost)
                W, b, objective, residual = _solve(problem, both, self.tol, self.max_iter, tell)
            else:
                rho = self.rho if self.solver == "paper" else None
                how = rho, self.prox == "reweighted", tell
                W, b, objective, residual = _solve_splitting(problem, self.tol, self.max_iter, *how)
        if not (np.isfinite(W).all() and np.isfinite(b).all()):
            raise ValueError(
                f"{type(self).__name__}: the numbers overflow after {last} iterations with "
                f"solver={self.solver!r}, rho={self.rho:g}; scale X, or choose solver='auto'"
            )
        self.coef_, self.intercept_ = np.repeat(W, share, axis=0), np.repeat(b, share)
        self.weights_ = np.full(T, 1.0 / T)
        self.ensemble_coef_ = self.weights_ @ self.coef_
        self.ensemble_intercept_ = float(self.weights_ @ self.intercept_)
        self.objective_, self.residual_ = scale * objective, residual
        self.n_iter_, self.trace_ = last, np.array([*trace[:-1], self.objective_])
        self.converged_ = bool(residual <= self.tol)
        if not self.converged_:
            warnings.warn(self._advice(X), ConvergenceWarning, stacklevel=3)
        return self

    def _advice(self, X):
        """What a warning says: how far the fit got, and what helps."""
        who, spread = type(self).__name__, X.std(axis=0)
        got = f"{who} stopped after {self.n_iter_} iterations with residual {self.residual_:.1e} "
        got += f"(tol={self.tol:g}); "
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

    def _bootstrap(self, weight):
        """Example weights of each member: how often it drew the row, times the row's own weight."""
        rows = np.flatnonzero(weight)
        rng = np.random.default_rng(self._seed())
        draws = (rows[rng.integers(0, rows.size, rows.size)] for _ in range(self.n_estimators))
        return np.array([np.bincount(draw, minlength=weight.size) * weight for draw in draws])

    def _report(self, iteration, objective, residual, rows):
        """Print the state of the iteration; True when the callback asks to stop."""
        if self.verbose:
            sample = "" if rows is None else f"  on {rows} rows"
            print(f"{type(self).__name__} {iteration:5d}  objective {objective:.9e}  "
                  f"residual {residual:.2e}{sample}")  # fmt: skip
        if self.callback is None:
            return False
        info = {"objective": objective, "residual": residual}
        return bool(self.callback(self, iteration, info | ({"rows": rows} if rows else {})))

    def _set_features(self, X):
        """Sets gamma_, landmarks_ and map_ of the rbf kernel; nothing for the linear one."""
        if self.kernel == "linear":
            return
        rows = np.arange(X.shape[0])
        if rows.size > self.n_landmarks:
            rng = np.random.default_rng(self._seed())
            rows = np.sort(rng.choice(rows.size, self.n_landmarks, replace=False))
        spread = X.var()
        scale = 1.0 / (X.shape[1] * spread) if spread > 0 else 1.0
        self.gamma_ = scale if isinstance(self.gamma, str) else float(self.gamma)
        values, vectors = np.linalg.eigh(_rbf(X[rows], X[rows], self.gamma_))
        keep = values > values[-1] * 1e-12
        self.landmarks_, self.map_ = X[rows], vectors[:, keep] / np.sqrt(values[keep])

    def _features(self, X):
        """The rows as the linear machine sees them."""
        if self.kernel == "linear":
            return X
        return _rbf(X, self.landmarks_, self.gamma_) @ self.map_

    def _is_intact(self):
        T, d, rows = self.weights_.size, self.n_features_in_, None
        good = super()._is_intact() and self._holds("weights_", (T,)) and T >= 1
        if self.kernel == "rbf":
            good = good and self._holds("landmarks_", (None, d)) and 0 < self.gamma_ < math.inf
            rows, d = self.map_.shape
            good = good and self._holds("map_", (len(self.landmarks_), None))
        good = good and self._holds("coef_", (T, d)) and self._holds("intercept_", (T,))
        good = good and self._holds("ensemble_coef_", (d,))
        return good and math.isfinite(self.ensemble_intercept_)


class PSVM(ExRM):
    """Primal support vector machine: ExRM with one member; parameters and attributes as there.

    Parameters
    ----------
    p, lam, beta, sampling, kernel, gamma, n_landmarks, solver, rho, prox, tol, max_iter, \
class_weight, random_state, verbose, callback : as in ExRM
    """

    n_estimators = 1

    def __init__(
        self, p=2, lam=2.0, beta=0.0, sampling=None, kernel="linear", gamma="scale",
        n_landmarks=256, solver="auto", rho=1.1, prox="exact", tol=1e-6, max_iter=1000,
        class_weight=None, random_state=None, verbose=0, callback=None,
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

"""DRM: an ensemble of kernel machines trained together, pushed apart by a bound on their angles.

Problem (minimised over w_1..w_T and rho_1..rho_T):

    1/T sum_t ( -nu rho_t + sum_i v_ti xi_ti^2 / sum_i v_ti )  +  mu sum_{t<s} |w_t + w_s|^2
    with  y_i w_t.phi(x_i) >= rho_t - xi_ti  and  |w_t| <= 1

    phi belongs to the kernel k + 1: the 1 is the bias. v_ti >= 0 are example weights per member:
    the given ones, with sampling="bootstrap" times the counts of a draw. The ensemble is the
    mean of the members. T = 1 is the nu-SVM with squared slack (NuSVM).

Method    Algorithm 1 visits one member after the other. A visit solves the dual (6) by sequential
          minimal optimisation, pairs chosen to second order, while the multiplier (7) of the
          norm bound follows every so many pairs: one run, not one run for each multiplier.
          A pair costs O(n). After each round the gap to a feasible point of the dual of the whole
          problem certifies the answer, rounding included, and the fit stops on it. "auto" takes
          one machine where samples are equal, for that is the exact answer for all members. Where
          pairs or rounds get on too slowly it ends with Newton's method on the support,
          O(support^3) a step, or, for kernel matrices of rank r up to 400, with an interior point
          method in r dimensions. The linear kernel takes that one from the start, in d + 1
          dimensions: O(T n d^2) a step, some twenty steps, whatever the columns' scales.
          The kernel matrix is held in single precision, or its rows used last when it does not fit.
          Each round ends with products in double precision (with tol >= 1e-4 in single): they
          certify, and the next round starts from them, so that rounding is mended as in iterative
          refinement.
Reference Yu, Li, Zhou, "Diversity Regularized Machine", IJCAI 2011; Algorithm 1, equations (3)-(7).
Departs   mu counts each pair once. A visit does not alternate between (6) and (7) until both
          settle: the multiplier follows during the one run of pairs, and a visit ends at a
          tolerance that gets smaller from round to round, or after 20 pairs a row. So single
          visits are inexact; the certificate at the end is not, for it is computed anew.
          Members that nothing holds (mu = 0 or T = 1 and no norm bound, T = 2) get a small
          proximal term, which vanishes as they settle: no division by 0.
          With equal samples all members are equal at the optimum: DRM is one machine.
Symbols   paper          here       meaning                                            shape
          alpha_t        a          dual variables                                     (T, n)
          K * yy'        Q          rows of (k + 1) y_i y_j, never one array per member (n, n)
          w_t            b, M       w_t = sum_i b_ti y_i phi(x_i); its margins Q b_t    (T, n)
          (T-1) mu + l_t s          what multiplies |w_t|^2; l_t is lambda_            (T,)
          -mu w~_t       q, Mq      what pulls a member, as b and M                    (n,)
          2 v / (T sum)  p, c       weight of each squared slack / 2; 1 / p            (T, n)
Use       m = DRM(n_estimators=21, sampling="bootstrap").fit(X, y); m.predict(X)
Origin    ensolve, solvers/drm.py, MIT licence
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
from functools import cache, wraps

import numpy as np
from numba import njit

LANES = {"reassoc", "contract", "nsz", "arcp"}  # sums in vector lanes; NaN kept
TINY = 1e-300  # instead of a division by 0
EPS = 2.0**-52  # rounding of one operation
SINGLE = 2.0**-23  # ... in single precision, in which products are good enough from
ROUGH = 1e-4  # ... this tol on
OFF = 16.0  # roundings of the terms of a sum that are counted as not cancelling
BLOCK = 512  # rows whose best is found in one go; then it is looked for among them only
ORDER = 2**63 - 1  # xor with these bits puts negative floats in the order of integers
FOLLOW = 100  # pairs between two looks at the norm
FIRST = 0.01  # first tolerance on the gradient, in units of nu; rho is at least nu / 2
NEXT = 0.3  # ... each next one is this part of the last at most, or
GOAL = 0.1  # ... what should give this part of the gap asked for: it is about quadratic in it
DEEPER = 0.1  # of the violation is left when other rows of Q are loaded
VISIT = 20  # a visit ends after this many pairs a row
STILL = 0.01  # members are settled when a round moves them by less than this part of tol, or
SLOW = 0.5  # ... by no less than this part of the last way: that is what rounding leaves
ROUNDS = 10  # after so many rounds Newton's method takes over,
SUPPORT = 2500  # ... for no more than so many unknowns,
STEPS = 40  # ... for at most so many steps
POLISH = 200  # ... or ends a fit that has no more: its answer is exact to rounding
LOOSE = 0.1  # first proximal term of Newton's method, where one is needed, in |objective|, down to
PROX = 1e-3  # ... the least where nothing holds a member
WEAK = 1e-6  # the same in visits, in mean squared lengths of phi(x)
RIDGE = 1e-15  # part of its diagonal added to the matrix of an interior point step
BACK = 0.995  # part of the way to a bound that such a step goes
PATIENCE = 30  # interior point steps without a better certificate before the fit gives up
NEARLY = 1e-3  # part of w by which coefficients may be off before the rest is added
EXPLICIT = 2e10  # T n (d + 1)^2 up to which the linear kernel has its phi written out
RANK = 400  # of kernel matrices for which the interior point method is tried
SETTLED = 1e-10  # part by which a multiplier still moves when Newton's method has settled
CELLS = 2**16  # kernel values at a time: they stay in the cache
LOG2_HIGH, LOG2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # log 2 in two parts
ROUND = 1.5 * 2.0**52  # a float of this size has no fraction: adding it rounds
LONG = 300.0  # gamma (|x|^2 + |z|^2), of centred rows, from which on |x - z|^2 is a sum of squares
FADED = 60.0  # ... unless exp(-gamma |x - z|^2) is below exp of this with a minus, even after
LOST = 1e-14  # ... an error of this part of gamma (|x|^2 + |z|^2)
ASYMMETRY = 1e-8  # of a given kernel matrix, relative to the entry and to the two lengths
NEGATIVE = 1e-12  # an eigenvalue below this part of the trace, with a minus, is no rounding
FITS = 1e30  # squared lengths for which squared distances are finite in single precision
LARGEST = 1e150  # squares of kernel values are finite


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
@kernel(fastmath=LANES)
def _gains(g, live, eta, q_i, low, unit, eta_i, h, gain, bits):
    """What each pair (i, k) gains, for a block of k; the largest as the integer of its bits,
    which order floats >= 0 and whose maximum vectorises."""
    twice = np.float32(2.0 * h)
    for k in range(len(g)):
        fall = np.float32((g[k] - low) * unit)
        value = fall * fall / (eta_i + eta[k] - twice * np.float32(q_i[k]))
        gain[k] = value if live[k] > 0 else np.float32(0.0)
    best = np.int32(0)
    for k in range(len(bits)):
        best = max(best, bits[k])
    return best


@kernel(fastmath=LANES)
def _shift(g, bits, q_i, q_j, step):
    """Move a block of the gradient; its smallest, as an integer in the order of the floats."""
    for k in range(len(g)):
        g[k] += step * (np.float64(q_i[k]) - np.float64(q_j[k]))
    best = np.int64(ORDER)
    for k in range(len(bits)):
        best = min(best, bits[k] ^ ((bits[k] >> 63) & ORDER))
    return best


@kernel(fastmath=LANES)
def _follow(a, c, far, lin, square, sigma, s, g):
    """The best s for these a, (7): |w| <= 1, sigma what is there without a multiplier."""
    for k in range(len(a)):
        square += a[k] * ((g[k] - c[k] * a[k] - far[k]) * (2.0 * s) + lin[k])
    new = max(sigma, 0.5 * math.sqrt(max(square, 0.0)))
    ratio = s / new
    for k in range(len(a)):
        rest = c[k] * a[k] + far[k]
        g[k] = (g[k] - rest) * ratio + rest
    return new


@kernel(fastmath=LANES)
def _smo(table, where, diag, c, far, lin, square, sigma, s, fixed, tol, unit, pairs,
         a, g, live, gain, eta):  # fmt: skip
    """Move weight between pairs of a until the gradient g where there is some is nowhere above
    the smallest by more than tol, among the rows of Q in the table. Unless fixed, s follows.
    Rows that must not get any have `far` in their gradient. Returns s and the pairs moved."""
    n = len(a)
    bits, order = gain.view(np.int32), g.view(np.int64)
    i, since = -1, 1
    for pair in range(pairs):
        if i < 0:
            h, i = 0.5 / s, 0
            for k in range(n):
                eta[k] = diag[k] * h + c[k]
                live[k] = 1.0 if a[k] > 0.0 and where[k] >= 0 else 0.0
                if g[k] < g[i]:
                    i = k
        low, q_i = g[i], table[where[i]]
        top, start = np.int32(0), 0
        for first in range(0, n, BLOCK):
            part = slice(first, first + BLOCK)
            best = _gains(g[part], live[part], eta[part], q_i[part], low, unit, eta[i], h,
                          gain[part], bits[part])  # fmt: skip
            if best > top:
                top, start = best, first
        j = start
        while bits[j] != top and j < n - 1:  # found before the end, whatever the numbers are
            j += 1
        solved = top == 0
        if g[j] - low <= tol and not solved:
            high = low
            for k in range(n):
                if live[k] > 0 and g[k] > high:
                    high = g[k]
            solved = high - low <= tol
        if solved and (fixed or since == 0):
            return s, pair
        if not fixed and (solved or since == FOLLOW):
            s, i, since = _follow(a, c, far, lin, square, sigma, s, g), -1, 0
            continue
        q_j = table[where[j]]
        move = (g[j] - low) / (h * (diag[i] + diag[j] - 2.0 * q_i[j]) + c[i] + c[j])
        if not move < a[j]:
            move, live[j] = a[j], 0.0
        a[i] += move
        a[j] -= move
        live[i] = 1.0
        g[i] += move * c[i]
        g[j] -= move * c[j]
        lowest, start = np.int64(ORDER), 0
        for first in range(0, n, BLOCK):
            part = slice(first, first + BLOCK)
            least = _shift(g[part], order[part], q_i[part], q_j[part], move * h)
            if least < lowest:
                lowest, start = least, first
        i = start
        while order[i] ^ ((order[i] >> 63) & ORDER) != lowest and i < n - 1:
            i += 1
        since += 1
    return s, pairs


@kernel(fastmath={"contract"})
def _exp(x, whole):
    """x = exp(x) for x <= 0, to 2 units in the last place: four times as fast as NumPy's. What is
    above 0 by rounding counts as 0."""
    for k in range(len(x)):
        value = min(max(x[k], -700.0), 0.0)
        whole[k] = value * (1.0 / LOG2_HIGH) + ROUND  # its last bits are the power of 2
        power = whole[k] - ROUND
        r = value - power * LOG2_HIGH - power * LOG2_LOW
        series = 1.0 / 479001600.0
        series = series * r + 1.0 / 39916800.0
        series = series * r + 1.0 / 3628800.0
        series = series * r + 1.0 / 362880.0
        series = series * r + 1.0 / 40320.0
        series = series * r + 1.0 / 5040.0
        series = series * r + 1.0 / 720.0
        series = series * r + 1.0 / 120.0
        series = series * r + 1.0 / 24.0
        series = series * r + 1.0 / 6.0
        series = series * r + 0.5
        series = series * r + 1.0
        x[k] = series * r + 1.0
    bits, powers = x.view(np.int64), whole.view(np.int64)
    for k in range(len(bits)):
        bits[k] += powers[k] << 52


@kernel
def _near(values, X, Z, gamma, squares, others):
    """Replace -gamma |x - z|^2 by the sum over its coordinates wherever the products of long rows
    may have left an error that the exponential would show."""
    for i in range(len(X)):
        for j in range(len(Z)):
            size = squares[i] + others[j]
            if size > LONG and values[i, j] > -FADED - LOST * size:
                total = 0.0
                for k in range(X.shape[1]):
                    total += (X[i, k] - Z[j, k]) ** 2
                values[i, j] = -gamma * total


# -- kernel values ------------------------------------------------------------------------------
def _kernel_to(kind, Z, gamma, degree, coef0):
    """The function of X that gives k(X, Z[first:]) + 1; a precomputed X is k(X, Z) already."""
    if kind == "precomputed":
        return lambda X, dtype, first=0: (X[:, first:] + 1.0).astype(dtype, copy=False)
    if kind != "rbf":
        right = np.ascontiguousarray(Z.T)
        factor, shift, power = (1.0, 0.0, 1) if kind == "linear" else (gamma, coef0, degree)

        def polynomial(X, dtype, first=0):
            values = factor * (X @ right[:, first:]) + shift
            return (values**power + 1.0).astype(dtype, copy=False)

        return polynomial
    centre, unit, root = Z.mean(axis=0), np.ones(len(Z)), math.sqrt(2.0 * gamma)
    short = root * (Z - centre)
    others = 0.5 * (short**2).sum(axis=1)
    right = np.ascontiguousarray(np.column_stack((short, unit, -others)).T)
    longest = others.max(initial=0.0)

    def rbf(X, dtype, first=0):
        short = root * (X - centre)
        squares = 0.5 * (short**2).sum(axis=1)
        left = np.column_stack((short, -squares, np.ones(len(X))))
        values = left @ right[:, first:]  # -gamma |x - z|^2
        if squares.max(initial=0.0) + longest > LONG:
            _near(values, X, Z[first:], gamma, squares, others[first:])
        return _exp_plus_1(values).astype(dtype, copy=False)

    return rbf


def _exp_plus_1(values):
    """exp(values) + 1, in place."""
    flat = values.reshape(-1)
    _exp(flat, np.empty(flat.size))
    values += 1.0
    return values


def _slots(n, megabytes, dtype):
    """How many of the n rows of Q fit."""
    return min(n, max(2, int(megabytes * 2**20 / (n * np.dtype(dtype).itemsize))))


def _lacking(K):
    """What has to be added to the diagonal of the symmetric K, up to a factor of 10, so that it has
    no negative eigenvalue: 0 if that is rounding.

    K is semi-definite to NEGATIVE of its trace if and only if Cholesky's method runs through with
    that much added: a third of n^3 multiplications, and all rows are looked at. Each row and
    column counts in units of its own k(x, x).
    """
    n, diag = len(K), K.diagonal().copy()
    unit = np.sqrt(np.where(diag > 0.0, diag, 1.0))
    scaled = K / unit / unit[:, None]
    scaled[np.diag_indices(n)] += NEGATIVE * n
    lacking = 0.0
    while True:
        try:
            np.linalg.cholesky(scaled)
            return lacking
        except np.linalg.LinAlgError:
            lacking = 10.0 * lacking or NEGATIVE * n * float(abs(K).max())
            scaled = K + lacking * np.eye(n)


def _chunks(n, width=None):
    """Slices of n rows, so many that their kernel values with `width` others stay in the cache."""
    size = max(8, CELLS // (width or n))
    return (slice(first, min(first + size, n)) for first in range(0, n, size))


def _mean_distance(X, weight, table=None):
    """Mean of |x_i - x_j| over all pairs, a row with weight 2 counted as two. Squares of the
    distances from row i to rows j >= i are left in the table, if there is one."""
    X = X - X.mean(axis=0)
    squares, unit, total = (X**2).sum(axis=1), np.ones(len(X)), 0.0
    left = np.column_stack((-2.0 * X, squares, unit))
    right = np.ascontiguousarray(np.column_stack((X, unit, squares)).T)
    weight = weight / weight.max()
    for part in _chunks(len(X)):
        distance = left[part] @ right[:, part.start :]
        np.maximum(distance, 0.0, out=distance)
        if table is not None:
            table[part, part.start :] = distance
        np.sqrt(distance, out=distance)
        distance[:, : len(distance)] *= 0.5  # here are both orders of a pair, later only one
        total += 2.0 * float(weight[part] @ (distance @ weight[part.start :]))
    return total / weight.sum() ** 2


class _Rows:
    """Rows of Q = yy' * (k + 1) / unit: all, or as many as fit and were used last. The unit, a
    power of 4, makes the largest k(x, x) + 1 about 1: no kernel is too large for a float32."""

    def __init__(self, kernel_to_X, X, y, diag, megabytes, dtype, squares=None, gamma=None):
        self.kernel_to_X, self.X, self.y = kernel_to_X, X, y
        self.unit = 4.0 ** math.floor(0.5 * math.log2(max(diag.max(), TINY)))
        self.diag = diag / self.unit
        n = y.size
        self.order = self.starts = np.arange(n)
        if X.shape[1] < n:  # no given kernel matrix, whose rows are no x
            self.order = (X * np.sqrt(np.arange(1.0, X.shape[1] + 1.0))).sum(axis=1).argsort()
            new = (X[self.order[1:]] != X[self.order[:-1]]).any(axis=1)
            self.starts = np.flatnonzero(np.append(True, new))
        slots = _slots(n, megabytes, dtype)
        self.table = np.empty((slots, n), dtype) if squares is None else squares
        self.where, self.used = np.full(n, -1), np.zeros(slots, np.int64)
        self.clock, self.complete = 0, slots == n
        if self.complete:
            for part in _chunks(n):
                if squares is None:
                    block = self.compute(part, dtype, part.start)
                else:  # of distances, which the rbf kernel's width has needed
                    block = -gamma * squares[part, part.start :].astype(np.float64)
                    block = self.signed(_exp_plus_1(block), part, part.start)
                self.table[part, part.start :] = block
                end = -(-part.stop // BLOCK) * BLOCK
                self.table[part.stop : end, part] = self.table[part, part.stop : end].T
            for i in range(BLOCK, n, BLOCK):  # the other half, in squares that stay in the cache
                for j in range(0, i, BLOCK):
                    low, high = slice(i, i + BLOCK), slice(j, j + BLOCK)
                    self.table[low, high] = self.table[high, low].T
            self.where[:] = np.arange(n)

    def merged(self, b, Qb):
        """Coefficients and margins with one entry for all rows with the same x: their phi cancel
        exactly, and products of the two are inner products as before."""
        signed = np.add.reduceat((b * self.y)[:, self.order], self.starts, axis=1)
        first = self.order[self.starts]
        return signed, Qb[:, first] * self.y[first]

    def load(self, wanted):
        """Have these rows in the table, new ones where the longest unused were."""
        self.clock += 1
        held = self.where[wanted]
        missing = wanted[held < 0]
        self.used[held[held >= 0]] = self.clock
        slots = self.used.argsort(kind="stable")[: missing.size]
        self.where[np.isin(self.where, slots)] = -1
        for part in _chunks(missing.size, self.y.size):
            self.table[slots[part]] = self.compute(missing[part], self.table.dtype)
        self.where[missing], self.used[slots] = slots, self.clock

    def compute(self, part, dtype=np.float64, first=0):
        """These rows, from column `first` on."""
        return self.signed(self.kernel_to_X(self.X[part], dtype, first), part, first)

    def signed(self, block, part, first):
        """Rows of k + 1, in place as rows of Q."""
        block *= (self.y[part, None] / self.unit).astype(block.dtype)
        block *= self.y[first:].astype(block.dtype)
        numbers = np.arange(self.y.size)[part] - first
        block[np.arange(len(block)), numbers] = self.diag[part]
        return block

    def times(self, *parts, exact=False):
        """Q b for each row b of the parts, from the table or from exact kernel values."""
        B = np.concatenate(parts)
        out = np.zeros(B.shape)
        held = self.complete and not (exact and self.table.dtype == np.float32)
        for part in _chunks(B.shape[1]):
            if held:
                out += B[:, part].astype(self.table.dtype) @ self.table[part]
            else:  # Q is symmetric
                block = self.compute(part, np.float64, part.start)
                out[:, part.start :] += B[:, part] @ block
                out[:, part] += B[:, part.stop :] @ block[:, len(block) :].T
        return np.split(out, np.cumsum([len(b) for b in parts])[:-1])


# -- Algorithm 1 --------------------------------------------------------------------------------
def _visit(rows, a, Qa, inside, c, lin, square, sigma, s, tol, pairs, fixed=False):
    """SMO on one member, among the rows inside its sample; a and Qa = Q a are updated. Returns s
    and the pairs that were left."""
    few, known, goal = max(1, len(rows.table) // 4), np.flatnonzero(inside), tol
    live, gain, eta = np.empty((3, a.size), np.float32)
    while pairs > 0:
        g, out = (Qa + lin) * (0.5 / s) + c * a, ~inside
        unit = 1.0 / max(abs(g).max(), TINY)
        if not rows.complete:  # work on the rows that violate most
            order = known[g[known].argsort()]
            losing = order[a[order] > 0][-few:]
            worst = g[losing[-1]] - g[order[0]]
            if worst <= tol:
                break
            rows.load(np.union1d(order[:few], losing))
            goal, out = max(tol, DEEPER * worst), out | (rows.where < 0)
        # above all that the other rows can have, also when s falls
        high = a.sum() * rows.diag.max() + abs(lin).max()
        far = np.where(out, 8.0 * (1.0 / unit + high / (sigma or s)), 0.0)
        g += far
        s, moved = _smo(rows.table, rows.where, rows.diag, c, far, lin, square, sigma, s, fixed,
                        goal, unit, pairs, a, g, live, gain, eta)  # fmt: skip
        np.subtract((g - c * a - far) * (2.0 * s), lin, out=Qa)
        pairs -= moved
        if rows.complete:
            break
    return s, pairs


def _round(rows, a, Qa, b, M, lam, inside, c, mu, sigma, delta):
    """Visit every member once, all arrays in place; True if some visit ended before its goal."""
    sum_b, sum_M, short = b.sum(axis=0), M.sum(axis=0), False
    weak = WEAK * rows.diag.mean()
    eps = weak if sigma < weak else 0.0
    for t in range(len(a)):
        q, Mq = eps * b[t] - mu * (sum_b - b[t]), eps * M[t] - mu * (sum_M - M[t])
        square, low = 4.0 * float(q @ Mq), sigma + eps
        s, left = _visit(rows, a[t], Qa[t], inside[t], c[t], 2.0 * Mq, square, low,
                         low + float(lam[t]), delta, VISIT * a.shape[1])  # fmt: skip
        sum_b -= b[t]
        sum_M -= M[t]
        b[t], M[t] = (0.5 * a[t] + q) / s, (0.5 * Qa[t] + Mq) / s  # (5)
        sum_b += b[t]
        sum_M += M[t]
        lam[t] = max(s - low, 0.0)
        short = short or left == 0
    return short


def _newton(rows, a, b, M, lam, p, total, mu, own, eps, tick):
    """Newton's method on the optimality conditions of all members, each held near its b by eps.
    Returns a, b and lam, or None if it does not settle from here or has to stop."""
    T, inside, live = len(a), p > 0, a > 0
    try:
        for _ in range(STEPS):
            t, i = np.nonzero(live)  # member and row of each unknown
            if t.size > SUPPORT or tick():
                break
            known, at = np.unique(i, return_inverse=True)
            Q = rows.compute(known)
            N = np.linalg.inv(np.diag(own + eps + lam) + mu)  # w = N (u + 2 eps w_old) / 2
            H = 0.5 * N[t[:, None], t] * Q[at][:, i]
            H[np.diag_indices(t.size)] += 1.0 / p[t, i]
            member = np.equal.outer(t, np.arange(T)).astype(float)
            solved = np.linalg.solve(H, np.column_stack((member, eps * (N @ M)[t, i])))
            unit, shift = solved[:, :T], solved[:, T]
            sums = member.T @ unit
            rho = np.linalg.solve(sums, total + member.T @ shift)
            new = np.zeros(a.shape)
            new[t, i] = unit @ rho - shift
            Qa = new[:, known] @ Q
            new_b, new_M = N @ (0.5 * new + eps * b), N @ (0.5 * Qa + eps * M)
            gram = new_b @ new_M.T
            norm = np.sqrt(np.maximum(gram.diagonal(), 0.0))
            step, bound = np.zeros(T), (lam > 0) | (norm > 1.0)
            if bound.any():  # 1 / |w| is almost linear in lam
                turn = np.linalg.solve(H, N[t] * new_M[:, i].T)
                turn -= unit @ np.linalg.solve(sums, member.T @ turn)
                slope = 0.5 * (N[:, t] * new_M[:, i]) @ turn - N * gram
                step[bound] = np.linalg.solve(slope[bound][:, bound], (norm**2 * (1 - norm))[bound])
            step = np.maximum(step, -lam)
            was, live = live, inside & (new_M < rho[:, None])
            if (was == live).all() and (abs(step) <= SETTLED * (own + eps + lam)).all():
                return new, new_b, lam
            lam = lam + step
    except np.linalg.LinAlgError:
        pass
    return None


def _best_rho(M, p, total):
    """Minimise -total rho + sum_i p_i (rho - M_i)_+^2 / 2, each member: Newton from above."""
    rho = M.max(axis=1) + total / p.sum(axis=1)
    while True:
        below = np.where(M <= rho[:, None], p, 0.0)  # never empty, however large M is
        new = (total + (below * M).sum(axis=1)) / below.sum(axis=1)
        if not (new < rho).any():
            return rho
        rho = np.minimum(new, rho)


def _certificate(a, u, w, M, lam, p, total, mu, own, sizes, length=1.0, off=OFF * EPS):
    """At the members w, scaled into |w| <= 1: the objective, its gap to the better of two lower
    bounds, the part of it that is rounding, rho, the inner products and the scale.

    Members and u = sum_i a_i y_i phi(x_i) are pairs of arrays whose products are the inner
    products: coefficients and values at each x, the lengths of whose phi are given, or with
    explicit phi twice the same. `sizes` are the roots of sum_i a_i^2 |phi(x_i)|^2, and of the same
    with b or of |w|^2: values are off by the part `off` of them where roundings are independent.
    """
    gram, (A, B) = w[0] @ w[1].T, sizes
    scale = 1.0 / np.sqrt(np.maximum(gram.diagonal() + off * B**2, 1.0))
    M, w = M * scale[:, None], [part * scale[:, None] for part in w]
    gram, B = gram * np.outer(scale, scale), B * scale
    rho = _best_rho(M, p, total)
    penalty = own * gram.trace() + mu * gram.sum()
    loss = 0.5 * (p * np.maximum(rho[:, None] - M, 0.0) ** 2).sum()
    objective = loss - total * rho.sum() + penalty
    slack = 0.5 * (a**2 / np.where(p > 0, p, np.inf)).sum()
    # the penalty is above its tangent at these members, and what is left is least on the spheres
    rest = [x - 2.0 * (own * part + mu * part.sum(axis=0)) for x, part in zip(u, w, strict=True)]
    square = np.maximum((rest[0] * rest[1]).sum(axis=1), 0.0)
    size, blur = np.sqrt(((length * rest[0]) ** 2).sum(axis=1)), off * (A + 2.0 * own * B)
    blur = blur + 2.0 * off * mu * B.sum()
    reach = np.sqrt(square + 2.0 * size * blur + blur**2)
    bound, blurred = -penalty - reach.sum(), (reach - np.sqrt(square)).sum()
    d = own + lam
    if d.min() > SETTLED * (d.max() + mu):  # the dual at these multipliers
        U = u[0] @ u[1].T / np.outer(d, d)
        least = (U.diagonal() * d).sum() - mu * U.sum() / (1.0 + mu * (1.0 / d).sum())
        size = np.sqrt(((length * u[0]) ** 2).sum(axis=1))
        blur = 0.25 * (off * A * (2.0 * size + off * A) / d).sum()
        if -0.25 * least - lam.sum() - blur > bound:
            bound, blurred = -0.25 * least - lam.sum() - blur, blur
    lost = off * (A @ B + own * B @ B + mu * B.sum() ** 2)
    lost += 4.0 * EPS * (loss + total * abs(rho).sum() + penalty + slack)
    gap = max(objective + slack - bound, blurred) + lost
    return float(objective), float(gap), float(lost + blurred), rho, gram, scale


# -- explicit phi: the linear kernel, and others of low rank --------------------------------------
class _Points:
    """phi(x) = (x, 1) itself, times y, with its mean kept apart: large offsets do not cancel.

    For the interior point method each phi is given in coordinates of an orthonormal basis of the
    span, whose first direction is that of the mean.
    """

    def __init__(self, X, y):
        self.y, self.mean = y, np.append(X.mean(axis=0), 1.0)
        self.X = X - self.mean[:-1]
        apart = np.column_stack((self.mean, np.vstack((self.X.T, np.zeros(len(y))))))
        self.basis, images = np.linalg.qr(apart)
        self.squares = (self.X**2).sum(axis=1) + 1.0
        self.coordinates = (images[:, 1:] + images[:, :1]).T * y[:, None]

    def margins(self, W):
        """y_i w.phi(x_i)"""
        middle = W.astype(np.longdouble) @ self.mean.astype(np.longdouble)
        return self.y * (W[:, :-1] @ self.X.T + middle.astype(np.float64)[:, None])

    def pull(self, a):
        """sum_i a_i y_i phi(x_i)"""
        a = a * self.y
        middle = a.sum(axis=1, dtype=np.longdouble)[:, None] * self.mean
        return (np.column_stack((a @ self.X, np.zeros(len(a)))) + middle).astype(np.float64)


class _Factor:
    """Explicit phi for a kernel matrix of low rank, by Cholesky's method with pivots."""

    def __init__(self, rows):
        left = rows.diag.copy()
        edge = NEARLY * SETTLED * left.max()
        L = np.empty((min(RANK, len(left)), len(left)))
        for k in range(len(L)):
            i = int(left.argmax())
            if left[i] <= edge:
                L = L[:k]
                break
            L[k] = (rows.compute(np.array([i]))[0] - L[:k, i] @ L[:k]) / math.sqrt(left[i])
            left -= L[k] ** 2
            left[i] = 0.0
        self.exact = bool(left.max() <= edge)
        self.coordinates, self.basis = np.ascontiguousarray(L.T), np.eye(len(L))
        self.squares = rows.diag

    def margins(self, W):
        """y_i w.phi(x_i)"""
        return W @ self.coordinates.T

    def pull(self, a):
        """sum_i a_i y_i phi(x_i)"""
        return a @ self.coordinates


def _coefficients(points, W, a, lam, mu, own):
    """b with sum_i b_i y_i phi(x_i) = w: as (5) has it, or 0 where that is far off, and the least
    change that is left to be made, if possible among the rows with some a."""
    b = 0.5 * np.linalg.solve(np.diag(np.maximum(own + lam, TINY)) + mu, a)
    if not abs(W - points.pull(b)).max() <= NEARLY * abs(W).max():
        b = np.zeros(a.shape)
    for rows in (a.any(axis=0), np.ones(a.shape[1], bool)):
        rest = (W - points.pull(b)) @ points.basis
        b[:, rows] += np.linalg.lstsq(points.coordinates[rows].T, rest.T, rcond=None)[0].T
        if abs(W - points.pull(b)).max() <= SETTLED * abs(W).max():
            break
    return b


def _interior(points, p, nu, mu, ridge, tol, max_iter, report):
    """The same problem with explicit phi by a primal-dual interior point method, predictor and
    corrector. Slacks xi = a / p and heights h = margin + xi - rho stay above 0; s = (1, w) and its
    multiplier z = (2 lam, -2 lam w) stay in the cone |w| <= 1, scaled as Nesterov and Todd do.
    All products, xi h and s.z / sum p, go to 0 together."""
    T, F, P = len(p), points.coordinates, p.sum(axis=1)
    mu = mu if T > 1 else 0.0
    total, own, eye = nu / T, ridge + max(T - 2, 0) * mu, np.eye(F.shape[1])
    u = (total * p / P[:, None]) @ F
    length = np.sqrt((u**2).sum(axis=1))
    w = u / np.maximum(2.0 * np.maximum(own + mu * T, length), TINY)[:, None]
    M = w @ F.T
    rho = _best_rho(M, p, total)
    apart = np.sqrt((p * (M - rho[:, None]) ** 2).sum(axis=1) / P)[:, None]
    xi, h = (np.maximum(side * (rho[:, None] - M), 0.0) + apart for side in (1.0, -1.0))
    z = np.column_stack((length, 2.0 * (own * w + mu * w.sum(axis=0)) - (p * xi) @ F))
    z[:, 0] = 2.0 * np.sqrt((z[:, 1:] ** 2).sum(axis=1)) + total * apart[:, 0]
    best, since = None, 0
    for iteration in range(1, max_iter + 1):
        found = _explicit_certificate(points, w, xi, 0.5 * z[:, 0], p, total, mu, own, tol)
        since += 1
        if best is None or found[1] < best[1]:
            best, since = found, 0
        objective, gap, lost = best[:3]
        if report(iteration, objective, gap / abs(objective), lost / abs(objective)):
            break
        if gap <= tol * abs(objective) or since == PATIENCE:
            break
        s = np.column_stack((np.ones(T), w))
        det_s, det_z = _det(s), _det(z)
        if not min(det_s.min(), det_z.min()) > 0.0:
            break  # rounding has brought a member to the very edge
        root_s, root_z = np.sqrt(det_s)[:, None], np.sqrt(det_z)[:, None]
        eta = (root_s / root_z)[:, 0]  # the scaling squared is eta (2 bar bar' - J)
        bar = s / root_s + z / root_z * np.append(1.0, -np.ones(w.shape[1]))
        bar /= np.sqrt(_det(bar))[:, None]
        scaled = _scaling(z, bar, eta)
        both = xi + h
        tau = p * xi / both  # what a row's slack gives way, in units of the margin
        weight = tau.sum(axis=1)
        middle = (tau @ F) / weight[:, None]
        B = np.empty((T, len(eye), len(eye)))
        for t in range(T):
            R = F - middle[t]
            B[t] = (R.T * tau[t]) @ R + (2.0 * own + 1.0 / eta[t]) * eye
            B[t] += (2.0 / eta[t]) * np.outer(bar[t, 1:], bar[t, 1:])
        if not np.isfinite(B).all():
            break
        unit = 1.0 / np.sqrt(B.diagonal(axis1=1, axis2=2))
        unit = unit[:, :, None] * unit[:, None, :]
        inverse = np.linalg.inv(B * unit + RIDGE * eye) * unit
        joint = np.linalg.inv(eye + 2.0 * mu * inverse.sum(axis=0)) if mu > 0 else None
        off_w = 2.0 * (own * w + mu * w.sum(axis=0)) - (p * xi) @ F - z[:, 1:]
        off_rho = (p * xi).sum(axis=1) - total
        off_h = w @ F.T + xi - rho[:, None] - h
        near = ((p * xi * h).sum() + (s * z).sum()) / (2.0 * P.sum())
        want_h, want_s = -xi * h, -_jordan(scaled, scaled)  # the predictor aims at 0
        for corrector in (False, True):
            e = (want_h - xi * off_h) / both
            pe = (p * e).sum(axis=1)
            push = _scaling(_divide(want_s, scaled), bar, eta, inverse=True)
            right = (p * e) @ F - off_w - (off_rho + pe)[:, None] * middle + push[:, 1:]
            dw = np.einsum("tij,tj->ti", inverse, right)
            if joint is not None:
                dw -= 2.0 * mu * inverse @ (joint @ dw.sum(axis=0))
            ds = np.column_stack((np.zeros(T), dw))
            dz = push - _scaling(_scaling(ds, bar, eta, inverse=True), bar, eta, inverse=True)
            drho = ((weight[:, None] * middle * dw).sum(axis=1) - off_rho - pe) / weight
            dM = dw @ F.T - drho[:, None]
            dxi = e - xi / both * dM
            dh = dM + dxi + off_h
            moves = -dxi / xi, -dh / h, _leave(s, ds), _leave(z, dz)
            step = min(BACK / max(BACK, float(move.max())) for move in moves)
            if not corrector:
                after = (p * (xi + step * dxi) * (h + step * dh)).sum()
                after += ((s + step * ds) * (z + step * dz)).sum()
                aim = near * min(1.0, max(after / (2.0 * P.sum() * near), 0.0)) ** 3
                want_h = aim - xi * h - dxi * dh
                want_s -= _jordan(_scaling(ds, bar, eta, inverse=True), _scaling(dz, bar, eta))
                want_s[:, 0] += aim * P
        if not (step > 0.0 and np.isfinite(dw).all()):
            break
        w, rho, z = w + step * dw, rho + step * drho, z + step * dz
        xi, h = xi + step * dxi, h + step * dh
    return best[3:]


def _det(x):
    """x_0^2 - |x_1|^2 of each row, above 0 inside the cone."""
    size = np.sqrt((x[:, 1:] ** 2).sum(axis=1))
    return (x[:, 0] - size) * (x[:, 0] + size)


def _jordan(x, y):
    """The product of the cone's algebra, each row."""
    rest = x[:, :1] * y[:, 1:] + y[:, :1] * x[:, 1:]
    return np.column_stack(((x * y).sum(axis=1), rest))


def _divide(x, y):
    """What times y gives x in the cone's algebra, each row."""
    first = (y[:, 0] * x[:, 0] - (y[:, 1:] * x[:, 1:]).sum(axis=1)) / _det(y)
    return np.column_stack((first, (x[:, 1:] - first[:, None] * y[:, 1:]) / y[:, :1]))


def _scaling(x, bar, eta, inverse=False):
    """The scaling of Nesterov and Todd, root(eta) (2 v v' - J), or its inverse, times each row."""
    v = bar + np.eye(1, bar.shape[1])
    v /= np.sqrt(2.0 * v[:, :1])
    if inverse:
        v[:, 1:] *= -1.0
    out = 2.0 * (v * x).sum(axis=1)[:, None] * v + x
    out[:, 0] -= 2.0 * x[:, 0]
    return out * (np.sqrt(eta) ** (-1.0 if inverse else 1.0))[:, None]


def _leave(x, dx):
    """1 / step at which x + step dx leaves the cone, each row; 0 or less if never."""
    middle = (x[:, 0] * dx[:, 0] - (x[:, 1:] * dx[:, 1:]).sum(axis=1)) / _det(x)
    inside = middle**2 - _det(dx) / _det(x)
    return np.where(inside >= 0.0, -middle + np.sqrt(np.maximum(inside, 0.0)), 0.0)


def _explicit_certificate(points, w, xi, lam, p, total, mu, own, tol):
    """The certificate at members w in coordinates, with one of two points of the dual: the slacks
    of these members, which are sparse, or those of the method if only they are good enough. Then
    what the fit returns of it."""
    W = w @ points.basis.T
    W /= np.maximum(np.sqrt((W**2).sum(axis=1)), 1.0)[:, None]
    M, found = points.margins(W), []
    for slack in (np.maximum(_best_rho(M, p, total)[:, None] - M, 0.0), xi):
        a = p * slack
        if not a.sum(axis=1).min() > 0.0:
            continue  # margins so large that rounding hides every slack
        a *= total / a.sum(axis=1)[:, None]
        U = points.pull(a)
        sizes = np.sqrt(a**2 @ points.squares), np.sqrt((W**2).sum(axis=1))
        objective, gap, lost, rho, gram, scale = _certificate(
            a, (U, U), (W, W), M, lam, p, total, mu, own, sizes
        )
        found.append((objective, gap, lost, lam, rho, gram, W * scale[:, None], a))
        if gap <= tol * abs(objective):
            break
    return min(found, key=lambda one: one[1])


# -- all stages -----------------------------------------------------------------------------------
def _solve(rows, p, nu, mu, ridge, tol, max_iter, paper, report, b=None):
    """Algorithm 1 from members b, or from 0. `ridge` adds ridge * sum_t |w_t|^2. `paper` leaves out
    the other stages and goes on while each round moves the members much less than the last."""
    T, n = p.shape
    mu = mu if T > 1 else 0.0
    total, sigma, own = nu / T, ridge + (T - 1) * mu, ridge + max(T - 2, 0) * mu
    rough = tol >= ROUGH and rows.complete and rows.table.dtype == np.float32
    inside, length = p > 0, np.sqrt(abs(rows.diag[rows.order[rows.starts]]))
    c = np.where(inside, 1.0 / np.where(inside, p, 1.0), 0.0)
    a = total * p / p.sum(axis=1)[:, None]
    b = np.zeros((T, n)) if b is None else b.copy()
    Qa, M = rows.times(a, b)
    lam, delta, last, newton, eps = np.ones(T), FIRST * nu, np.inf, False, 0.0
    iteration, stopped, polish, factor = 0, False, False, None
    best, state, members = np.inf, (), ()

    def tick(*_):
        """Count a step inside a stage; True when the fit has to end."""
        nonlocal iteration, stopped
        iteration += 1
        stopped = report(iteration, *state) or iteration >= max_iter
        return stopped

    while not stopped:
        found, short, old_b, old_M = None, False, b.copy(), M.copy()
        if newton and not polish and factor is None:
            factor = _Factor(rows)
            if factor.exact:
                lam, _, _, W, a = _interior(factor, p, nu, mu, ridge, GOAL * tol, max_iter, tick)
                found = a, _coefficients(factor, W, a, lam, mu, own), lam
        elif newton:  # with a proximal term that gets smaller as long as this works
            least = PROX * abs(state[0])
            weak = (own + lam).min() < least
            eps = eps or LOOSE * abs(state[0]) * weak
            found = _newton(rows, a, b, M, lam, p, total, mu, own, eps, tick)
            eps = max(0.1 * eps, least) * weak if found else max(30.0 * eps, least)
        if stopped:
            break
        if found:
            a, b, lam = found
        else:
            short = _round(rows, a, Qa, b, M, lam, inside, c, mu, sigma, delta)
        while True:
            Qa, M = rows.times(a, b, exact=not rough)
            objective, gap, lost, rho, gram, scale = _certificate(
                a, rows.merged(a, Qa), rows.merged(b, M), M, lam, p, total, mu, own,
                [np.sqrt(part**2 @ abs(rows.diag)) for part in (a, b)], length,
                OFF * (SINGLE if rough else EPS),
            )  # fmt: skip
            if not rough or lost <= GOAL * tol * abs(objective):
                break
            rough = False
        if paper or not gap / abs(objective) >= best:
            best = gap / abs(objective)
            state = objective, best, lost / abs(objective)
            members = lam, rho, gram, b * scale[:, None], a.copy()
        change = float(((b - old_b) * (M - old_M)).sum())
        settled = change <= (STILL * tol) ** 2 * float((b * M).sum()) or change > SLOW**2 * last
        good = gap <= tol * abs(objective)
        polish = good and not paper and not newton and np.count_nonzero(a) <= POLISH
        done = good and not polish and (settled or not paper)
        if tick() or done or lost > max(0.5 * gap, tol * abs(objective)):
            break  # in the last case what is left of the gap is rounding
        newton = polish or not paper and (newton or short or iteration % ROUNDS == 0)
        delta, last = delta * min(NEXT, math.sqrt(GOAL * tol * abs(objective) / gap)), change
    return members


# -- estimator ----------------------------------------------------------------------------------
class DRM(_Protocol):
    """Diversity regularized machine.

    Parameters
    ----------
    n_estimators : int >= 1
        Number of members T.
    nu : float > 0
        Weight of the margin rho against the squared slacks.
    mu : float >= 0
        Weight of the diversity term. With equal samples it shrinks the one machine as
        2 mu T (T - 1) |w|^2 would: too much of it, and only the larger class is ever predicted.
    kernel : "rbf", "linear", "poly" or "precomputed"
        exp(-gamma |x - z|^2), x.z, (gamma x.z + coef0)^degree, or X itself: the kernel's values,
        (n, n) to fit and (rows, n) to predict. A constant 1 is added for the bias. A given matrix
        has to be symmetric. If it has negative eigenvalues (all rows are checked, by Cholesky's
        method), they are made up for on its diagonal, and the result is never called converged.
    gamma : "mean_distance", "scale" or float > 0
        "mean_distance" is the paper's 1 / (2 w^2), w the mean distance between training rows;
        "scale" is 1 / (d * variance of X).
    degree : int >= 1
        Of the poly kernel.
    coef0 : float >= 0
        Of the poly kernel.
    sampling : None or "bootstrap"
        None is the paper's model, whose members are all equal at the optimum. "bootstrap" gives
        each member its own sample: then they differ.
    solver : "auto" or "alternating"
        "alternating" is Algorithm 1 with all members, until they settle; "auto" trains one machine
        where samples are equal, and takes other methods where Algorithm 1 is slow.
    cache_size : float > 0
        Megabytes for kernel values. Up to n = 11,000 rows all fit into the default; beyond, rows
        are computed anew when they are needed again.
    tol : float > 0
        Target for `residual_`.
    max_iter : int >= 1
        Most iterations: rounds over the members, steps of Newton's method and of the interior
        point method all count.
    class_weight : None, "balanced" or dict
        Factors of the weights of the rows by class; "balanced" gives the classes the same weight.
    random_state : None, int, RandomState or Generator
        Seed of the bootstrap.
    verbose : int
        1 prints a line an iteration.
    callback : None or callable
        Called as callback(self, iteration, info) after every iteration; True stops with the last
        members that have a certificate.

    Attributes
    ----------
    dual_coef_ (T, n) : w_t = sum_i dual_coef_[t, i] phi(x_i), labels included
    alpha_ (T, n) : the point of the dual that proves residual_: >= 0, each row sums to nu / T
    coef_ (T, d), intercept_ (T,) : the members themselves, with the linear kernel and "auto"
    support_ : training rows with a coefficient; support_vectors_ : those rows, if not precomputed
    rho_ (T,), lambda_ (T,) : margins; multipliers of the norm bounds, 0 where |w_t| < 1
    gram_ (T, T) : inner products of the members
    gamma_ : of the rbf and poly kernels
    weights_ (T,) : 1 / T each
    objective_, residual_ : value of the problem, which is below 0; certified duality gap, an
        allowance for rounding included, / |objective_|; infinite if there is no certificate
    n_iter_, converged_, trace_ : iterations, residual_ <= tol, objective per iteration
    classes_, n_features_in_ : as in scikit-learn

    Example
    -------
    >>> model = DRM(n_estimators=5, sampling="bootstrap", random_state=0).fit(X, y)
    >>> model.score(X, y), model.residual_ <= model.tol
    """

    _rules = {
        "n_estimators": _at_least(1),
        "nu": (lambda v: 0 < v < np.inf, "a finite number > 0"),
        "mu": (lambda v: 0 <= v < np.inf, "a finite number >= 0"),
        "kernel": _one_of("rbf", "linear", "poly", "precomputed"),
        "gamma": (
            lambda v: v in ("mean_distance", "scale") or 0 < v < np.inf,
            "'mean_distance', 'scale' or a finite number > 0",
        ),
        "degree": _at_least(1),
        "coef0": (lambda v: 0 <= v < np.inf, "a finite number >= 0"),
        "sampling": _one_of(None, "bootstrap"),
        "solver": _one_of("auto", "alternating"),
        "cache_size": (lambda v: 0 < v < np.inf, "a finite number > 0"),
        "tol": (lambda v: v > 0, "a number > 0"),
        "max_iter": _at_least(1),
    }

    def __init__(
        self, n_estimators=21, nu=0.5, mu=1e-5, kernel="rbf", gamma="mean_distance", degree=3,
        coef0=1.0, sampling=None, solver="auto", cache_size=500.0, tol=1e-6, max_iter=200,
        class_weight=None, random_state=None, verbose=0, callback=None,
    ):  # fmt: skip
        self._set(locals())

    @all_or_nothing
    def fit(self, X, y, sample_weight=None):
        """Train on X (n, d) and two classes y; sample_weight multiplies each example's loss, a
        weight of 2 is the row twice."""
        self._check_params()
        data = self._check_fit(X, y, sample_weight)
        with np.errstate(all="ignore"):  # what is not finite gets no certificate
            return self._fit(*data)

    def _fit(self, X, y, weight):
        X, lacking = self._check_kernel(X)
        n, used = len(X), np.flatnonzero(weight)
        if used.size < n:
            y, weight = y[used], weight[used]
            X = X[np.ix_(used, used)] if self.kernel == "precomputed" else X[used]
        T = self.n_estimators
        self.trace_, self.weights_ = [], np.full(T, 1.0 / T)
        dtype = np.float32 if self.solver == "auto" else np.float64
        squares = self._set_gamma(X, weight, dtype)
        diag = self._diagonal(X)
        v = self._bootstrap(weight) if self.sampling == "bootstrap" else weight[None]
        one = self.solver == "auto" and self.sampling is None
        v = v if one else np.repeat(v, T // len(v), axis=0)
        p = 2.0 / len(v) * v / v.sum(axis=1)[:, None]
        nu, mu = float(self.nu), float(self.mu)
        ridge = 2.0 * mu * T * (T - 1) if one else 0.0
        members = np.zeros(T, np.intp) if one else np.arange(T)
        lost, unit = 0.0, 1.0

        def report(iteration, objective, residual, rounding):
            nonlocal lost
            lost = rounding
            certified = not lacking and residual >= 0.0
            return self._report(iteration, unit * objective, residual if certified else math.inf)

        columns = min(X.shape[1], len(X)) + 1
        cheap = len(v) * len(X) * columns**2 <= EXPLICIT
        if self.kernel == "linear" and self.solver == "auto" and cheap:
            points, held = _Points(X, y), mu if len(p) > 1 else 0.0
            lam, rho, gram, W, a = _interior(
                points, p, nu, mu, ridge, self.tol, self.max_iter, report
            )
            b = _coefficients(points, W, a, lam, held, ridge + max(len(p) - 2, 0) * held)
            self.coef_, self.intercept_ = W[members, :-1], W[members, -1]
        else:
            gamma = getattr(self, "gamma_", None)
            rows = _Rows(self._kernel_to(X), X, y, diag, self.cache_size, dtype, squares, gamma)
            unit = rows.unit  # phi is in units of its root, and so are rho and nu
            root = math.sqrt(unit)
            lam, rho, gram, b, a = _solve(
                rows, p, nu / root, mu / unit, ridge / unit, self.tol, self.max_iter,
                self.solver == "alternating", report,
            )  # fmt: skip
            a, b, rho, lam = a * root, b / root, rho * root, lam * unit
        self.rho_, self.lambda_ = rho[members], lam[members] / (T if one else 1)  # shared by T
        self.gram_ = gram[np.ix_(members, members)]
        self.dual_coef_, self.alpha_ = np.zeros((2, T, n))
        self.dual_coef_[:, used] = (b * y)[members]
        self.alpha_[:, used] = a[members] / (T if one else 1)
        self.support_ = np.flatnonzero(self.dual_coef_.any(axis=0))
        if self.kernel != "precomputed":
            self.support_vectors_ = X[np.searchsorted(used, self.support_)]
        self.trace_ = np.array(self.trace_)
        self.converged_ = bool(self.residual_ <= self.tol)
        if not self.converged_:
            self._warn(lacking, lost)
        return self

    def _warn(self, lacking, lost):
        """Say why there is no certificate as good as asked for, and what helps."""
        if lacking:
            why = (
                ": the kernel matrix is not positive semi-definite, so the problem is not convex "
                f"and no result can be certified; fitted with {lacking:.1g} added to its "
                "diagonal. Pass a kernel without negative eigenvalues"
            )
        else:
            why = (
                f" stopped after {self.n_iter_} iterations with residual {self.residual_:.1e} "
                f"(tol={self.tol:g}); "
            )
            if lost > 0.5 * self.tol:
                why += f"rounding alone is {lost:.1e} of it: scale and centre X, or raise tol"
            else:
                why += f"raise max_iter={self.max_iter} or mu, or scale X"
        warnings.warn(type(self).__name__ + why, ConvergenceWarning, stacklevel=5)

    def votes(self, X):
        """Output of every member, (n, T)."""
        X = self._check_X(X)
        if hasattr(self, "coef_"):
            return X @ self.coef_.T + self.intercept_
        if self.kernel == "precomputed":
            X, values = X[:, self.support_], self._kernel_to(None)
        else:
            values = self._kernel_to(self.support_vectors_)
        coef, out = self.dual_coef_[:, self.support_].T, np.empty((len(X), len(self.dual_coef_)))
        for part in _chunks(len(X), len(self.support_)):
            out[part] = values(X[part], np.float64) @ coef
        return out

    def decision_function(self, X):
        """Mean of the members' outputs, (n,)."""
        return self.votes(X) @ self.weights_

    def facts(self):
        """Figures of the fit that a report should show."""
        facts = {"% of members at the norm bound": 100.0 * float((self.lambda_ > 0).mean())}
        pairs = np.triu_indices(len(self.gram_), 1)
        if pairs[0].size:
            square = self.gram_.diagonal()
            cosine = self.gram_ / np.maximum(np.sqrt(np.outer(square, square)), TINY)
            angles = np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))
            facts["mean pairwise angle in degrees"] = float(angles[pairs].mean())
        return facts

    def _is_intact(self):
        T, d, given = self.weights_.size, self.n_features_in_, self.kernel == "precomputed"
        good = super()._is_intact() and T >= 1 and self._holds("weights_", (T,))
        if hasattr(self, "coef_"):
            good = good and self.kernel == "linear" and self._holds("intercept_", (T,))
            return good and self._holds("coef_", (T, d))
        if self.kernel in ("rbf", "poly"):
            good = good and type(self.gamma_) is float and 0 < self.gamma_ < math.inf
        good = good and self._holds("dual_coef_", (T, d if given else None))
        good = good and self._holds("support_", (None,), "i")
        m, n = self.support_.size, self.dual_coef_.shape[1]
        good = good and (m == 0 or 0 <= self.support_.min() <= self.support_.max() < n)
        return good and (given or self._holds("support_vectors_", (m, d)))

    def _bootstrap(self, weight):
        """Example weights of each member: how often it drew the row, times the row's own weight."""
        rng = np.random.default_rng(self._seed())
        n = weight.size
        return np.array([np.bincount(rng.integers(0, n, n), minlength=n) * weight
                         for _ in range(self.n_estimators)])  # fmt: skip

    def _report(self, iteration, objective, residual):
        """Keep the state of the iteration; True when the callback asks to stop."""
        self.n_iter_, self.objective_, self.residual_ = iteration, objective, residual
        self.trace_.append(objective)
        if self.verbose:
            print(f"{type(self).__name__} {iteration:5d}  objective {objective:.9e}  "
                  f"residual {residual:.2e}")  # fmt: skip
        if self.callback is None:
            return False
        return bool(self.callback(self, iteration, {"objective": objective, "residual": residual}))

    def _set_gamma(self, X, weight, dtype):
        """Sets gamma_; returns squared distances of all rows if they were needed and serve as a
        start for the kernel values in single precision."""
        if self.kernel == "precomputed":
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            centred = X - X.mean(axis=0)
            longest = float((centred**2).sum(axis=1).max())
            self._refuse(max(longest, float((X**2).sum(axis=1).max())))
        table = None
        if self.gamma == "mean_distance" and self.kernel != "linear":
            n = len(X)
            if self.kernel == "rbf" and dtype == np.float32 and longest < FITS:
                if _slots(n, self.cache_size, dtype) == n:
                    table = np.empty((n, n), dtype)
            width = _mean_distance(X, weight, table)
            self.gamma_ = 1.0 / (2.0 * width**2) if width > 0 else 1.0
        elif self.gamma == "scale" and self.kernel != "linear":
            spread = float((weight @ (X - (weight @ X).mean() / weight.sum()) ** 2).mean())
            spread /= weight.sum()
            self.gamma_ = 1.0 / (X.shape[1] * spread) if spread > 0 else 1.0
        elif self.kernel != "linear":
            self.gamma_ = float(self.gamma)
        return table if table is not None and 2.0 * self.gamma_ * longest <= LONG else None

    def _kernel_to(self, Z):
        gamma = getattr(self, "gamma_", None)
        return _kernel_to(self.kernel, Z, gamma, self.degree, float(self.coef0))

    def _diagonal(self, X):
        """k(x, x) + 1, and no kernel value that is not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.kernel == "precomputed":
                diag, size = X.diagonal() + 1.0, float(abs(X).max())
            else:
                squares = (X**2).sum(axis=1)
                if self.kernel == "rbf":
                    diag, size = np.full(len(X), 2.0), float(self.gamma_ * squares.max())
                else:
                    diag = squares if self.kernel == "linear" else self.gamma_ * squares
                    if self.kernel == "poly":
                        diag = (diag + self.coef0) ** self.degree
                    diag, size = diag + 1.0, float(diag.max())
        self._refuse(size)
        return diag

    def _refuse(self, size):
        """Raise where kernel values of this size, or squares of them, are not finite."""
        if not size < LARGEST:
            raise ValueError(
                f"{type(self).__name__}: X is too large for kernel={self.kernel!r}: squared "
                f"lengths or kernel values reach {size:.3g}, and products of two of them have to "
                "be finite; scale X" + (" or lower gamma" * (self.kernel in ("rbf", "poly")))
            )

    def _check_kernel(self, X):
        """X, of a given kernel matrix the symmetric part with as much added to its diagonal as
        makes it semi-definite, and how much that is."""
        if self.kernel != "precomputed":
            return X, 0.0
        who, n = type(self).__name__, len(X)
        if X.shape != (n, n):
            raise ValueError(
                f"{who}: kernel='precomputed' needs a square kernel matrix of the training rows, "
                f"got shape {X.shape}"
            )
        length = np.sqrt(abs(X.diagonal()))
        for part in _chunks(n):
            here, there = X[part], X[:, part].T
            allowed = np.maximum(abs(here), abs(there)) + length[part, None] * length
            wrong = abs(here - there) - ASYMMETRY * allowed
            if wrong.max() > 0:
                i, j = np.unravel_index(wrong.argmax(), wrong.shape)
                i += part.start
                raise ValueError(
                    f"{who}: the kernel matrix must be symmetric, but K[{i}, {j}] = {X[i, j]:.9g} "
                    f"and K[{j}, {i}] = {X[j, i]:.9g}; pass (K + K.T) / 2 if that is rounding"
                )
        X = 0.5 * (X + X.T)
        lacking = _lacking(X + 1.0)
        return X + lacking * np.eye(n) if lacking else X, lacking


class NuSVM(DRM):
    """nu-SVM with squared slack: DRM with one member; parameters and attributes as there.

    Parameters
    ----------
    nu, kernel, gamma, degree, coef0, sampling, solver, cache_size, tol, max_iter, class_weight, \
random_state, verbose, callback : as in DRM
    """

    n_estimators, mu = 1, 0.0

    def __init__(
        self, nu=0.5, kernel="rbf", gamma="mean_distance", degree=3, coef0=1.0, sampling=None,
        solver="auto", cache_size=500.0, tol=1e-6, max_iter=200, class_weight=None,
        random_state=None, verbose=0, callback=None,
    ):  # fmt: skip
        self._set(locals())


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    blobs = generator.normal(size=(400, 5)) + np.repeat([[-0.7], [0.7]], 200, axis=0)
    labels = np.repeat(["left", "right"], 200)
    for model in (NuSVM(), DRM(), DRM(sampling="bootstrap", random_state=0)):
        model.fit(blobs, labels)
        print(f"{model!r}: {model.n_iter_} iterations, objective {model.objective_:.6f}, "
              f"gap {model.residual_:.1e}, accuracy {model.score(blobs, labels):.3f}, "
              f"{model.facts()}")  # fmt: skip
        assert model.residual_ <= model.tol

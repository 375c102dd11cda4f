"""Model files: save(model, path) and load(path) for every class of the collection.

A model file is an uncompressed .npz archive of arrays and a JSON header with the classes, their
parameters and all other fitted values. Reading one never runs code. Models may hold models.

A class that can be saved has `_is_consistent(has)`, which checks the arrays that predict reads:
kernels do not check bounds. `has(name, shape, below=None)` is the test of one array.
"""

import json
import os
import uuid
import zipfile
from contextlib import contextmanager, suppress
from importlib import import_module

import numpy as np

FORMAT = 3
RANDOM = (np.random.RandomState, np.random.Generator)
FUNCTIONS = ("callback", "loss")  # Parameters that predict does not read if they are functions.


def save(model, path, notes=None):
    """Write a fitted model to a file, whole or not at all; equal models give equal files.

    `notes`, a dict, comes back as notes_. Functions and generators among the parameters do not."""
    arrays = {"header": None}
    header = {"format": FORMAT, "model": _pack(model, "", arrays)}
    if not header["model"]["fitted"]:
        raise ValueError(f"This {type(model).__name__} instance is not fitted yet; call fit first")
    header["model"]["fitted"] |= {} if notes is None else {"notes_": _pack(notes, "notes_", arrays)}
    arrays["header"] = np.array(json.dumps(header))
    with write_file(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as target:
                np.lib.format.write_array(target, array, allow_pickle=False)


@contextmanager
def write_file(path):
    """Open a binary file that replaces path once it is complete and safe on the disk."""
    path = os.path.realpath(path)
    if os.path.exists(path) and not (os.path.isfile(path) and os.stat(path).st_mode & 0o222):
        raise PermissionError(f"{path} is read-only or no file; choose another name")
    temporary = f"{path}.{uuid.uuid4().hex}.part"
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _pack(value, place, arrays):
    """Return a value as JSON can hold it; put its arrays into `arrays`, named by their place."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray):
        arrays[place] = value.astype(str) if value.dtype == object else value
        return {"array": place}
    if isinstance(value, (list, tuple)):
        items = [_pack(item, f"{place}/{k}", arrays) for k, item in enumerate(value)]
        return items if isinstance(value, list) else {"tuple": items}
    if isinstance(value, dict):  # JSON would turn its keys into texts.
        return {"dict": _pack([*map(list, value.items())], place, arrays)}
    name, start = type(value).__name__, f"{place}/" if place else ""
    if not hasattr(value, "_is_consistent"):
        raise ValueError(f"cannot save a {name}: a file holds numbers, texts and our models only")
    params = value.get_params(deep=False)
    for key, param in params.items():
        is_left_out = isinstance(param, RANDOM) or key in FUNCTIONS and callable(param)
        params[key] = None if is_left_out else _pack(param, start + key, arrays)
    fitted = {k: _pack(v, start + k, arrays) for k, v in vars(value).items() if k[-1] == "_"}
    return {"class": name, "params": params, "fitted": fitted}


def load(path, classes=None):
    """Return the model of a file; a damaged one, or one of another version, raises a ValueError.

    `classes` are those of the model and of the models inside; None: all of the collection."""
    given = [cls for each in classes or () for cls in (each, *getattr(each, "_own_members", ()))]
    known = {cls.__name__: cls for cls in given}
    if classes is None and __package__:
        files = import_module(__package__).CLASSES
        known = {name: file for file, names in files.items() for name in names}
    with open(path, "rb") as file:
        try:
            entries = zipfile.ZipFile(file).infolist()
            if sum(entry.file_size for entry in entries) > os.fstat(file.fileno()).st_size:
                raise ValueError("it is compressed, its arrays are larger than the file")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            text = str(arrays["header"])
            if (number := json.loads(text)["format"]) != FORMAT:
                raise ValueError(f"it has format {number}, not {FORMAT}; fit and save it again")
            model = json.loads(text, object_hook=lambda v: _unpack(v, arrays, known))["model"]
            model.get_params()  # Damaged headers give other objects.
            return model
        except Exception as error:  # Damaged files raise many kinds of exceptions.
            raise ValueError(f"{path} cannot be loaded as a model: {error}") from None


def _unpack(packed, arrays, known):
    """Undo `_pack` for a dict of unpacked values; `known`: classes, or their files, by name."""
    match packed:
        case {"array": place}:
            return arrays[place]
        case {"tuple": items}:
            return tuple(items)
        case {"dict": pairs}:
            return dict(pairs)
        case {"class": name, "params": params, "fitted": fitted}:
            if name not in known:
                raise ValueError(f"it holds a {name}; use load(path, classes=[{name}, ...])")
            cls = known[name]
            cls = getattr(import_module(f".{cls}", __package__), name) if type(cls) is str else cls
            model = cls(**params)
            vars(model).update({k: v for k, v in fitted.items() if k[-1] == "_" != k[0]})
            if fitted:
                _check(model)
            return model
    return packed


def _check(model):
    """Raise ValueError if the fitted values of a loaded model do not fit together."""
    d, names = model.n_features_in_, getattr(model, "feature_names_in_", None)

    def has(name, shape, below=None):
        """Return True for float64 values, or int64 indices, of this shape; None is any size."""
        value = getattr(model, name)
        if value.dtype != (np.float64 if below is None else np.int64) or value.ndim != len(shape):
            return False
        in_range = np.isfinite(value) if below is None else (0 <= value) & (value < below)
        sizes = zip(shape, value.shape, strict=True)
        return bool(in_range.all()) and all(size in (None, n) for size, n in sizes)

    model._check_params()
    good = type(d) is int and d >= 1 and type(model.converged_) is bool
    good = good and (names is None or names.shape == (d,) and names.dtype.kind == "U")
    classes = getattr(model, "classes_", np.arange(2))
    good = good and classes.ndim == 1 and classes.size > 1 and classes.dtype.kind in "biufUM"
    if not (good and (classes[:-1] < classes[1:]).all() and model._is_consistent(has)):
        raise ValueError(f"its {type(model).__name__} is damaged")

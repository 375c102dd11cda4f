"""Sources of row blocks: arrays, .npz files, text files, and chunks of Dask arrays.

A source has a key, a title for messages, `open`, which returns BlockData, and `info`, which returns
BlockInfo, or None if the rows must be read first. It can be sent to a worker and opened there.
"""

import re
import struct
import uuid
import zipfile
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .local import BlockData, BlockInfo, DataError, temporary_zeros

HIDDEN = (".", "_")  # First letters of file names that are no data.
NPY_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def new_key():
    return uuid.uuid4().hex


def _store(array, dtype=None):
    """Copy an array into an unnamed temporary file."""
    array = np.asarray(array)
    stored = temporary_zeros(array.shape, dtype or array.dtype)
    stored[...] = array
    return stored


def _check_arrays(title, X, y, weight):
    """Raise DataError unless these arrays, or their headers, are rows with labels."""
    if X is None or y is None:
        raise DataError(f"{title}: needs X and labels y, and has no {'X' if X is None else 'y'}")
    if len(X.shape) != 2 or X.dtype.kind not in "biuf":
        raise DataError(f"{title}: X must be a table of numbers, got {X.dtype} {X.shape}")
    if y.shape[:1] != X.shape[:1] or len(y.shape) > 2 or y.dtype.kind not in "biufUOS":
        wrong = f"got {y.dtype} {y.shape}"
        raise DataError(f"{title}: y must be {X.shape[0]} labels, one per row, {wrong}")
    if weight is not None and (weight.shape != X.shape[:1] or weight.dtype.kind not in "biuf"):
        wrong = f"got {weight.dtype} {weight.shape}"
        raise DataError(f"{title}: sample_weight must be {X.shape[0]} numbers, {wrong}")


class ArraySource(NamedTuple):
    """Arrays X, y and sample_weight or None in memory."""

    key: str
    title: str
    arrays: tuple

    def open(self):
        X, y, weight = self.arrays
        return BlockData(np.ascontiguousarray(X, dtype=float), y, weight)

    def info(self):
        X, _, weight = self.arrays
        return BlockInfo(*X.shape, weight is not None)


def array_source(k, given):
    """Check item k of a list of tuples of arrays; return its source."""
    title = f"block {k} of the list"
    if not isinstance(given, list | tuple) or len(given) not in (2, 3):
        got = f"got {type(given).__name__}"
        raise DataError(f"{title}: must be a tuple (X, y) or (X, y, sample_weight), {got}")
    arrays = tuple(None if array is None else np.asarray(array) for array in (*given, None)[:3])
    _check_arrays(title, *arrays)
    return ArraySource(new_key(), title, arrays)


class _Header(NamedTuple):
    """Array in an .npz file; offset of its data, None if they are compressed."""

    shape: tuple
    dtype: np.dtype
    offset: int | None


@contextmanager
def unpacking(path):
    """Turn any error of reading an .npz file into a DataError."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # zipfile and numpy raise a dozen kinds on damaged archives.
        cause = " ".join(str(error).split())
        hint = "write it with numpy.savez(path, X=X, y=y)"
        raise DataError(f"{path}: not an .npz file of plain arrays ({cause}); {hint}") from None


class NpzSource(NamedTuple):
    """An .npz file, memory-mapped where possible. If `coded`, y become codes of labels."""

    key: str
    title: str
    coded: bool

    def open(self):
        """Map X, y and the weights; converted ones are in temporary files."""
        path, headers = self.title, self._headers()
        arrays = []
        for name, header in headers.items():
            if header is None:
                arrays.append(None)
            elif header.offset is None or (name != "y" and header.dtype != np.float64):
                with unpacking(path), np.load(path, allow_pickle=False) as file:
                    arrays.append(_store(file[name], None if name == "y" else float))
            else:
                place = header.dtype, "r", header.offset, header.shape
                arrays.append(np.asarray(np.memmap(path, *place)))
        if not self.coded:
            return BlockData(*arrays, stored=True)
        X, y, weight = arrays
        labels, codes = np.unique(y, return_inverse=True)
        return BlockData(X, _store(codes.ravel()), weight, labels.astype(str).tolist(), stored=True)

    def info(self):
        """Return BlockInfo from the headers; None if the labels are needed."""
        headers = None if self.coded else self._headers()
        return headers and BlockInfo(*headers["X"].shape, headers["sample_weight"] is not None)

    def _headers(self):
        """Headers of X, y and sample_weight by name, checked; None for one that is absent."""
        path, headers = self.title, {"X": None, "y": None, "sample_weight": None}
        with unpacking(path), zipfile.ZipFile(path) as archive, open(path, "rb") as file:
            for info in archive.infolist():
                if (name := info.filename.removesuffix(".npy")) not in headers:
                    continue
                with archive.open(info) as member:
                    read = NPY_HEADERS[np.lib.format.read_magic(member)]
                    shape, by_column, dtype = read(member)
                    begin = member.tell()
                file.seek(info.header_offset + 26)  # The lengths of name and extra field.
                begin += info.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))
                plain = info.compress_type == zipfile.ZIP_STORED and 0 not in shape
                plain = plain and not (by_column and len(shape) > 1) and not dtype.hasobject
                headers[name] = _Header(shape, dtype, begin if plain else None)
        _check_arrays(path, *headers.values())
        return headers


class TextSource(NamedTuple):
    """CSV, TSV or LIBSVM text, read by the schema and options of the first file.

    read : function (path, labels, schema=, **options) that returns data with X and y, codes into
        the list of labels, which it fills
    """

    key: str
    title: str
    schema: list
    options: dict
    read: Callable

    def open(self):
        labels = []
        data = self.read(self.title, labels, schema=self.schema, **self.options)
        return BlockData(_store(data.X), _store(data.y), labels=labels, stored=True)

    def info(self):
        """Return None: the rows must be read first."""


def list_files(source, suffixes):
    """List the data files of a directory in natural order: part2 before part10."""
    folder = Path(source)
    if not folder.is_dir():
        raise DataError(f"{folder}: no such directory; give one that holds the parts of the data")
    try:
        paths = [path for path in folder.iterdir() if not path.name.startswith(HIDDEN)]
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror})") from None
    if not paths:
        raise DataError(f"{folder}: holds no parts; they are .npz, CSV, TSV or LIBSVM files")
    kinds = {path: Path(path.name.lower().removesuffix(".gz")).suffix for path in sorted(paths)}
    for path, kind in kinds.items():
        if kind not in suffixes or not path.is_file():
            hint = "move it away, or convert it to .npz, CSV, TSV or LIBSVM"
            raise DataError(f"{path}: is no part that can be read; {hint}")
    if len({kind == ".npz" for kind in kinds.values()}) > 1:
        raise DataError(f"{folder}: holds .npz files and text; labels differ there, use one kind")

    def natural(path):
        pieces = re.split(r"(\d+)", path.name)
        return [int(piece) if k % 2 else piece for k, piece in enumerate(pieces)], path.name

    return sorted(paths, key=natural)


class ChunkSource(NamedTuple):
    """Rows of one chunk of a Dask array; `chunk` computes X, y and the weights."""

    key: str
    title: str
    chunk: object
    known: BlockInfo

    def open(self):
        X, y, weight = self.chunk.compute()
        _check_arrays(self.title, X, y, weight)
        weight = None if weight is None else _store(weight, float)
        return BlockData(_store(X, float), _store(y), weight, stored=True)

    def info(self):
        return self.known


def chunk_sources(X, y, sample_weight):
    """List the sources of a Dask array X (n, d): its chunks of rows."""
    import dask

    if X.ndim != 2 or np.isnan(X.shape).any():
        hint = "call X.compute_chunk_sizes() where they are unknown"
        raise DataError(f"blocks: X must be 2-D with known sizes, got shape {X.shape}; {hint}")
    if y is None:
        raise DataError("blocks: a Dask array X needs labels y")
    X = X.rechunk({1: -1})
    sizes, columns = X.chunks[0], []
    for name, given in (("y", y), ("sample_weight", sample_weight)):
        if given is not None and np.shape(given) != (len(X),):
            raise DataError(f"blocks: {name} must have shape ({len(X)},), got {np.shape(given)}")
        if hasattr(given, "to_delayed"):
            columns.append(given.rechunk((sizes,)).to_delayed().ravel())
        elif given is None:
            columns.append([None] * len(sizes))
        else:
            columns.append(np.split(np.asarray(given), np.cumsum(sizes)[:-1]))
    chunks, sources = zip(X.to_delayed().ravel(), *columns, sizes, strict=True), []
    for k, (*chunk, n) in enumerate(chunks):
        info = BlockInfo(n, X.shape[1], sample_weight is not None)
        chunk = dask.delayed(tuple)(chunk)
        sources.append(ChunkSource(new_key(), f"chunk {k}", chunk, info))
    return sources

"""Row blocks of this process, and the sources from which blocks are opened.

A source can be sent to a worker and opened there: arrays, .npz files, text files, chunks of Dask
arrays. Blocks are in memory, or in memory-mapped files.
"""

import copy
import os
import re
import struct
import tempfile
import uuid
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from . import RowBlock, RowBlocks


class DataError(ValueError):
    """Data that cannot be used; the message is one line for the user."""


def temporary_zeros(shape, dtype):
    """Zeros in an unnamed temporary file, freed with the array, even if the process is killed."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    if not size:
        return np.zeros(shape, dtype)
    with tempfile.TemporaryFile() as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)  # A full disk later would end the process.
        except AttributeError:  # Not on this system.
            pass
        except OSError as error:
            cause = f"{size} bytes do not fit ({error.strerror}); set TMPDIR to a larger disk"
            raise DataError(f"{tempfile.gettempdir()}: {cause}") from None
        return np.asarray(np.memmap(file, dtype, "w+", shape=shape))


def _store(array, dtype=None):
    """Copy an array into an unnamed temporary file."""
    array = np.asarray(array)
    stored = temporary_zeros(array.shape, dtype or array.dtype)
    stored[...] = array
    return stored


class BlockInfo(NamedTuple):
    """Shape, weights and labels of a block, known before the first pass."""

    n: int
    d: int
    is_weighted: bool
    labels: list | None = None


class BlockData:
    """X, y and sample_weight or None of one block.

    labels : None, or the labels that y are codes into, until `recode`
    stored : True if the arrays are in files
    """

    def __init__(self, X, y, sample_weight=None, labels=None, stored=False):
        self.X, self.y, self.sample_weight = X, y, sample_weight
        self.labels, self.stored = labels, stored

    def recode(self, codes):
        """Make y codes of classes, where codes = {label: code}; do nothing if it is None."""
        if self.labels is not None and codes is not None:
            self.y[:] = np.array([codes[label] for label in self.labels])[self.y]
            self.labels = None

    def info(self):
        return BlockInfo(*self.X.shape, self.sample_weight is not None, self.labels)

    def block(self, start):
        """Return a new RowBlock of these rows; `start` rows come before them."""
        zeros = temporary_zeros if self.stored else np.zeros
        return RowBlock(self.X, start, zeros, y=self.y, sample_weight=self.sample_weight, data=self)


# -- blocks of this process ------------------------------------------------------------------------
class LocalBlocks(RowBlocks):
    """Row blocks of this process.

    shape : (n, d)
    is_weighted : True if rows have weights
    classes : names of the classes that y are codes of; None if y is as given
    schema : if y are codes, the schema by which datasets.load reads a file of the same form
    notes : remarks for the user
    """

    def __init__(self, sources, notes, code_labels):
        data, self.notes = [source.open() for source in sources], [*notes]
        self.classes, codes, self.schema = code_labels([each.info() for each in data], sources[0])
        for each in data:
            each.recode(codes)
        self._set(data, [source.title for source in sources])

    def _set(self, data, titles):
        self.titles = titles
        self.shape, starts, self.is_weighted = combine(titles, [each.info() for each in data])
        self._blocks = [each.block(start) for each, start in zip(data, starts, strict=True)]

    def map(self, function, *args, n_jobs=1, add=False):
        """List function(block, *args) of each block, n_jobs of them at a time."""
        threads = min(n_jobs if n_jobs and n_jobs > 0 else os.cpu_count(), len(self))
        if threads == 1:
            return [function(block, *args) for block in self._blocks]
        with ThreadPoolExecutor(threads) as pool:
            return [*pool.map(lambda block: function(block, *args), self._blocks)]

    map_inplace = map

    def clear(self):
        """Free the arrays that functions have attached."""
        self._blocks = [block.data.block(block.start) for block in self._blocks]

    def __len__(self):
        return len(self._blocks)

    def __getitem__(self, chosen):
        """Return blocks of the same rows, for a slice; they share no attached array."""
        new = copy.copy(self)
        new._set([block.data for block in self._blocks[chosen]], self.titles[chosen])
        return new


def combine(titles, infos):
    """Return (n, d) of all blocks, the rows before each, and True if they have weights.

    Raises DataError if blocks differ in columns or weights, or have no rows.
    """
    if not infos:
        raise DataError("blocks: none chosen; at least one is needed")
    for title, info in zip(titles, infos, strict=True):
        if not info.n:
            raise DataError(f"{title}: has no rows; leave it out")
        if info.d != infos[0].d:
            other = f"{titles[0]} has {infos[0].d}"
            raise DataError(f"{title}: has {info.d} columns and {other}; make them equal")
        if info.is_weighted != infos[0].is_weighted:
            one, other = (titles[0], title) if infos[0].is_weighted else (title, titles[0])
            raise DataError(f"{other}: has no sample_weight, as {one} has; all need it, or none")
    starts = np.cumsum([0, *(info.n for info in infos)]).tolist()
    return (starts[-1], infos[0].d), starts[:-1], infos[0].is_weighted


# -- sources ---------------------------------------------------------------------------------------
def check_arrays(title, X, y, weight=None):
    """Raise DataError unless these arrays, or their headers, are rows with labels."""
    if X is None or y is None:
        raise DataError(f"{title}: needs X and labels y, and has no {'X' if X is None else 'y'}")
    if len(X.shape) != 2 or X.dtype.kind not in "biuf":
        raise DataError(f"{title}: X must be a table of numbers, got {X.dtype} {X.shape}")
    n = X.shape[0]
    if y.shape[:1] != (n,) or len(y.shape) > 2 or y.dtype.kind not in "biufUOS":
        raise DataError(f"{title}: y must be {n} labels, one per row, got {y.dtype} {y.shape}")
    if weight is not None and (weight.shape != (n,) or weight.dtype.kind not in "biuf"):
        got = f"got {weight.dtype} {weight.shape}"
        raise DataError(f"{title}: sample_weight must be {n} numbers, {got}")


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


@dataclass
class Source:
    """Base of sources; `open` returns BlockData. The title is for messages."""

    title: str
    key: str = field(default_factory=lambda: uuid.uuid4().hex, kw_only=True)


@dataclass
class ArraySource(Source):
    """Arrays X, y and sample_weight or None in memory."""

    arrays: tuple

    def open(self):
        X, y, weight = self.arrays
        return BlockData(np.ascontiguousarray(X, dtype=float), y, weight)


def array_source(k, given):
    """Check item k of a list of tuples of arrays; return its source."""
    title = f"block {k} of the list"
    if not isinstance(given, list | tuple) or len(given) not in (2, 3):
        got = f"got {type(given).__name__}"
        raise DataError(f"{title}: must be a tuple (X, y) or (X, y, sample_weight), {got}")
    arrays = tuple(None if array is None else np.asarray(array) for array in (*given, None)[:3])
    check_arrays(title, *arrays)
    return ArraySource(title, arrays)


@dataclass
class NpzSource(Source):
    """An .npz file, memory-mapped if possible. If `coded`, y become codes of labels."""

    coded: bool

    def open(self):
        """Map X, y and the weights; converted ones are in temporary files."""
        path, arrays = self.title, []
        for name, header in self._headers().items():
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

    def _headers(self):
        """Shape, dtype and offset of X, y and sample_weight by name, checked.

        None for an array that is absent. The offset is None if the array cannot be mapped.
        """
        path, headers = self.title, {"X": None, "y": None, "sample_weight": None}
        with unpacking(path), zipfile.ZipFile(path) as archive, open(path, "rb") as file:
            for info in archive.infolist():
                if (name := info.filename.removesuffix(".npy")) not in headers:
                    continue
                with archive.open(info) as member:
                    version = "{}_{}".format(*np.lib.format.read_magic(member))
                    read = getattr(np.lib.format, f"read_array_header_{version}")
                    shape, by_column, dtype = read(member)
                    offset = member.tell()
                file.seek(info.header_offset + 26)  # The lengths of name and extra field.
                offset += info.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))
                plain = info.compress_type == zipfile.ZIP_STORED and 0 not in shape
                plain = plain and not (by_column and len(shape) > 1) and not dtype.hasobject
                offset = offset if plain else None
                headers[name] = SimpleNamespace(shape=shape, dtype=dtype, offset=offset)
        check_arrays(path, *headers.values())
        return headers


@dataclass
class TextSource(Source):
    """CSV, TSV or LIBSVM text, read by the schema and options of the first file.

    read : function (path, labels, schema=, **options) that returns data with X and y, codes into
        the list of labels, which it fills
    """

    schema: list
    options: dict
    read: Callable

    def open(self):
        labels = []
        data = self.read(self.title, labels, schema=self.schema, **self.options)
        return BlockData(_store(data.X), _store(data.y), labels=labels, stored=True)


def list_files(folder, suffixes):
    """List the data files of a directory in natural order: part2 before part10."""
    try:
        paths = [path for path in Path(folder).iterdir() if not path.name.startswith((".", "_"))]
    except OSError as error:
        hint = "give a directory that holds data files"
        raise DataError(f"{folder}: cannot be read ({error.strerror}); {hint}") from None
    if not paths:
        raise DataError(f"{folder}: holds no data files; they are .npz, CSV, TSV or LIBSVM files")
    kinds = {path: Path(path.name.lower().removesuffix(".gz")).suffix for path in sorted(paths)}
    for path, kind in kinds.items():
        if kind not in suffixes or not path.is_file():
            hint = "move it away, or convert it to .npz, CSV, TSV or LIBSVM"
            raise DataError(f"{path}: is no data file that can be read; {hint}")
    if len({kind == ".npz" for kind in kinds.values()}) > 1:
        raise DataError(f"{folder}: holds .npz files and text; labels differ there, use one kind")

    def natural(path):
        pieces = re.split(r"(\d+)", path.name)
        return [int(piece) if k % 2 else piece for k, piece in enumerate(pieces)], path.name

    return sorted(paths, key=natural)


@dataclass
class ChunkSource(Source):
    """Rows of one chunk of a Dask array; `chunk` computes X, y and the weights."""

    chunk: object

    def open(self):
        X, y, weight = self.chunk.compute()
        check_arrays(self.title, X, y, weight)
        weight = None if weight is None else _store(weight, float)
        return BlockData(_store(X, float), _store(y), weight, stored=True)


def chunk_sources(X, y, sample_weight):
    """List the sources of a Dask array X (n, d): its chunks of rows."""
    import dask

    if X.ndim != 2 or np.isnan(X.shape).any():
        hint = "call X.compute_chunk_sizes() if they are unknown"
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
    chunks = map(dask.delayed(tuple), zip(X.to_delayed().ravel(), *columns, strict=True))
    return [ChunkSource(f"chunk {k}", chunk) for k, chunk in enumerate(chunks)]

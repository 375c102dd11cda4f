"""Row blocks of this process: in memory, or in memory-mapped files."""

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from . import RowBlock, RowBlocks


class DataError(ValueError):
    """Data that cannot be used; the message is one line for the user."""


def temporary_zeros(shape, dtype):
    """Zeros in an unnamed temporary file, freed with the array, even if the process is killed."""
    array = np.zeros(0, dtype)
    size = int(np.prod(shape)) * array.itemsize
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
        return np.asarray(np.memmap(file, array.dtype, "w+", shape=shape))


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
        arrays = {"y": self.y, "sample_weight": self.sample_weight, "data": self}
        return RowBlock(self.X, start, zeros, **arrays)


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
        infos = [each.info() for each in data]
        self.classes, codes, self.schema = code_labels(infos, sources[0])
        for each in data:
            each.recode(codes)
        self._set(data, [source.title for source in sources], infos)

    def _set(self, data, titles, infos):
        self.shape, starts, self.is_weighted = combine(titles, infos)
        self._blocks = [each.block(start) for each, start in zip(data, starts, strict=True)]
        self.titles, self._pools = titles, {}

    def map(self, function, *args, n_jobs=1, add=False):
        """List function(block, *args) of each block, n_jobs of them at a time."""
        threads = min(n_jobs if n_jobs and n_jobs > 0 else os.cpu_count(), len(self))
        if threads == 1:
            return [function(block, *args) for block in self._blocks]
        if threads not in self._pools:
            self._pools[threads] = ThreadPoolExecutor(threads)
        return [*self._pools[threads].map(lambda block: function(block, *args), self._blocks)]

    map_inplace = map

    def clear(self):
        """Free the arrays that functions have attached."""
        self._blocks = [block.data.block(block.start) for block in self._blocks]

    def __len__(self):
        return len(self._blocks)

    def __getitem__(self, chosen):
        """Return blocks of the same rows, for a slice; they share no attached array."""
        titles, chosen = self.titles[as_slice(chosen)], self._blocks[chosen]
        new = object.__new__(LocalBlocks)
        new.notes, new.classes, new.schema = self.notes, self.classes, self.schema
        data = [block.data for block in chosen]
        new._set(data, titles, [each.info() for each in data])
        return new


def as_slice(chosen):
    """Return `chosen`; raise TypeError if it is no slice."""
    if not isinstance(chosen, slice):
        raise TypeError(f"blocks are chosen by a slice, as blocks[:3], got {chosen!r}")
    return chosen


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
            raise DataError(f"{title}: has {info.d} columns and {other}; make them the same")
        if info.is_weighted != infos[0].is_weighted:
            one, other = (titles[0], title) if infos[0].is_weighted else (title, titles[0])
            raise DataError(f"{other}: has no sample_weight, as {one} has; all need it, or none")
    starts = np.cumsum([0, *(info.n for info in infos)]).tolist()
    return (starts[-1], infos[0].d), starts[:-1], infos[0].is_weighted

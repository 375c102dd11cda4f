"""Decision stumps of solvers/cqboost.py on row blocks and on threads.

CqBoost, MDBoost and MinCq need edges and Gram rows of the stumps, which are sums over rows. A block
stores the bins of its rows, one byte per cell; X is read three times in all.
"""

from functools import reduce

import numpy as np

from ..cqboost import _bin, _Pool, _stump_products, _stump_sum, _Stumps
from . import ThreadBlocks
from .checks import check_blocks

MIN_MAX_CELLS = 2**15  # Cells whose minimum and maximum are computed at a time.
MARGIN_ROWS = 8192  # Rows whose margins are held at a time.


class BlockStumps(_Stumps):
    """Decision stumps on row blocks; arrays with one entry per row stay in the blocks."""

    def __init__(self, blocks, n_thresholds, n_jobs=1):
        self.blocks, self.n_jobs = blocks, n_jobs
        n, total, lean, least, most = zip(*self._map(_count), strict=True)
        self.n, self.total, self.lean = sum(n), sum(total), sum(lean)
        self.is_even = min(least) == max(most)
        self._bin_blocks(n_thresholds)

    def _bin_blocks(self, n_thresholds):
        """Place the cuts; let each block store its bins."""
        low, high = zip(*self._map(_column_ends), strict=True)
        self._place_cuts(reduce(np.minimum, low), reduce(np.maximum, high), n_thresholds)
        if self.size:
            cuts = self.cuts.reshape(self.shape)
            self.blocks.map_inplace(_bin_block, self.used, cuts, n_jobs=self.n_jobs)

    def _map(self, function, *args):
        return self.blocks.map(function, *args, n_jobs=self.n_jobs)

    def _products(self, a, signed, j=-1, above=True):
        args = self.shape[1], a, signed, j, above
        return reduce(np.add, self._map(_block_products, *args))

    def _gram_rows(self, j, above):
        return reduce(np.add, self._map(_block_gram_rows, self.shape[1], j, above))

    def figures(self, w, constant, scale):
        """First and second moment of the margins; None for the margins themselves."""
        sums = self._map(_moment_sums, self._table(w) / scale)
        first, second = np.sum(sums, axis=0) / self.total
        return float(first), float(second), None


class ThreadStumps(BlockStumps):
    """Decision stumps on rows in memory, one block per thread."""

    n_jobs = 1

    def __init__(self, X, y, weight, n_thresholds, threads):
        _Pool.__init__(self, y, weight)
        self.blocks = ThreadBlocks(X, y, weight, threads)
        self._bin_blocks(n_thresholds)
        if self.size:
            self.bins = np.concatenate([block.bins for block in self.blocks.blocks])
            for block in self.blocks.blocks:
                block.bins = self.bins[block.start : block.start + len(block.X)]

    figures = _Pool.figures

    def margins(self, w):
        """y (H w), a new array (n,)."""
        return np.concatenate(self._map(_block_margins, self._table(w)))

    def __exit__(self, *error):
        self.blocks.__exit__(*error)


# -- block functions ------------------------------------------------------------------------------
def _count(block):
    """Rows, total weight, weight of class +1 minus that of -1, least and largest weight."""
    v = block.weight
    return v.size, float(v.sum()), float(v @ block.target), float(v.min()), float(v.max())


def _column_ends(block):
    """Minimum and maximum of each column, (d,) each. Reads X in aligned pieces: NumPy is slow on
    rows of a mapped file, which need not be aligned."""
    ends, step = [], max(1, MIN_MAX_CELLS // block.X.shape[1])
    for start in range(0, len(block.X), step):
        piece = np.require(block.X[start : start + step], requirements="A")
        ends.append((piece.min(axis=0), piece.max(axis=0)))
    low, high = zip(*ends, strict=True)
    return np.min(low, axis=0), np.max(high, axis=0)


def _bin_block(block, used, cuts):
    """Store the bins of all cells of the used columns, (n, used) uint8. Reads X."""
    block.allocate("bins", (len(block.X), used.size), np.uint8)
    with np.errstate(all="ignore"):  # Python, unlike the compiler, warns of cuts at infinity.
        _bin(block.X, used, cuts, block.bins)


def _block_products(block, n_cuts, a, signed, j, above):
    """Sums of `_stump_products` over the block, (base,); a (n,) of all rows, or None: weights."""
    at = slice(block.start, block.start + block.target.size)
    a = block.weight if a is None else a[at]
    products = np.empty(block.bins.shape[1] * n_cuts)
    _stump_products(block.bins, n_cuts, a, block.target, signed, j, above, products)
    return products


def _block_gram_rows(block, n_cuts, j, above):
    """Gram rows of voters j, j + 1, ... over the block, (len(above), base)."""
    voters = enumerate(above, j)
    return np.array([_block_products(block, n_cuts, None, False, k, bool(up)) for k, up in voters])


def _block_margins(block, table, rows=slice(None)):
    """Margins of the rows, a new array."""
    out = np.empty(block.target[rows].size)
    _stump_sum(block.bins[rows], table, out)
    out *= block.target[rows]
    return out


def _moment_sums(block, table):
    """Weighted sums of the margins and of their squares."""
    first = second = 0.0
    for at in range(0, block.target.size, MARGIN_ROWS):
        rows = slice(at, at + MARGIN_ROWS)
        g = _block_margins(block, table, rows)
        first += block.weight[rows] @ g
        second += block.weight[rows] @ g**2
    return first, second


# -- fit ------------------------------------------------------------------------------------------
def fit(model, blocks, y, sample_weight):
    """Return the pool of stumps on row blocks; raise ValueError first if the method needs more."""
    name = type(model).__name__
    if model._row_variables:
        hint = "take CqBoost, MDBoost or MinCq, or pass X and y as arrays"
        raise ValueError(f"{name} does not take row blocks: it has a variable for each row; {hint}")
    if model.voters != "stumps":
        got = f"got {model.voters!r}; pass X and y as arrays for other voters"
        raise ValueError(f"{name}: on row blocks voters must be 'stumps', {got}")
    check_blocks(model, blocks, y, sample_weight)
    return BlockStumps(blocks, model.n_thresholds, model._threads())

"""Fits on row blocks: rows that outgrow one thread or one memory.

A fit on row blocks needs sums over rows only. `blocks.map(function, *args)` lists the results of
function(block, *args), block by block; `map_inplace` does so for a function that changes arrays of
the block. Such a block function belongs to a module: blocks may be files, or live on other
machines, where changes are logged and replayed on a block that was lost.

    checks.py    validation before a fit
    newton.py    PSVM and ExRM: Newton's method on row blocks
    trees.py     boosted trees, level by level
    stumps.py    CqBoost, MDBoost and MinCq over decision stumps
    local.py     row blocks of this process, and sources: arrays, files and Dask chunks
    cluster.py   connection to a Dask cluster and checks of its workers
    remote.py    row blocks on the workers of a Dask cluster

These modules import the solvers. A solver imports none of them: it looks for `fit_model` in X, and
for this folder beside its file if n_jobs > 1. A file that stands alone fits on one thread.
"""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import numpy as np

FITS = {"ExRM": "newton", "GradientBoosting": "trees", "AdaBoostNC": "trees"}
FITS |= dict.fromkeys(("CqBoost", "MDBoost", "MinCq", "LPBoost", "CGBoost"), "stumps")


def kernels_on(module):
    """Return the decorator of kernels that call kernels of this module.

    Numba's cache does not notice a change of another file. The names of the kernels, hence the
    names of their cache files, carry a hash of the module.
    """
    stamp = hashlib.sha256(Path(module.__file__).read_bytes()).hexdigest()[:8]

    def decorate(function=None, **options):
        if function is None:
            return partial(decorate, **options)
        function.__name__ = f"{function.__name__}_{stamp}"
        return module.jit(function, **options)

    return decorate


class RowBlocks:
    """Base of row blocks; a subclass has shape (n, d), is_weighted, map, map_inplace, clear."""

    def fit_model(self, model, *args):
        """Fit a model to these rows; return the result that its own fit expects."""
        name, home = type(model).__name__, __package__.rpartition(".")[0]
        for kind in type(model).__mro__:
            if kind.__name__ in FITS:
                if kind.__module__.rpartition(".")[0] != home:
                    raise ValueError(f"{name}: row blocks need the folder solvers/rows beside the "
                                     f"file of {kind.__name__}")  # fmt: skip
                module = import_module(f".{FITS[kind.__name__]}", __package__)
                return module.fit(model, self, *args)
        raise ValueError(f"{name}: call fit(X, y); row blocks are for two classes and {[*FITS]}")

    def grower(self, *args):
        """Return a grower of trees on these rows."""
        return import_module(".trees", __package__).LevelwiseGrower(self, *args)


class RowBlock:
    """Rows of X, row `start` first, with the per-row arrays that functions attach as attributes.

    Threads attach target (-1 and +1, or numbers) and weight, files y and sample_weight or None.
    `zeros` makes arrays: in memory, or in temporary files.
    """

    def __init__(self, X, start=0, zeros=np.zeros, **arrays):
        self.X, self.start, self._zeros = X, start, zeros
        vars(self).update(arrays)

    def allocate(self, name, shape, dtype=np.float64):
        """Set the attribute `name` to an array of zeros; return it."""
        setattr(self, name, None)  # Free the former array first.
        setattr(self, name, self._zeros(shape, dtype))
        return getattr(self, name)


class ThreadBlocks(RowBlocks):
    """Rows in memory, cut into one block per thread."""

    def __init__(self, X, target, weight, threads=1):
        ends = np.linspace(0, len(X), threads + 1).astype(int).tolist()
        self.shape, self._pool = X.shape, ThreadPoolExecutor(max(threads - 1, 1))
        self.blocks = [
            RowBlock(X[a:b], a, target=target[a:b], weight=weight[a:b]) for a, b in pairwise(ends)
        ]

    def map(self, function, *args, n_jobs=1, add=False):
        """List function(block, *args) of each block; the first block runs in this thread."""
        jobs = [self._pool.submit(function, block, *args) for block in self.blocks[1:]]
        return [function(self.blocks[0], *args), *(job.result() for job in jobs)]

    map_inplace = map

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._pool.shutdown()

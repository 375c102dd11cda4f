"""Rows that outgrow one thread or one memory: the protocol of row blocks, and what uses it.

A fit on blocks asks for sums over rows only. `blocks.map(step, *args)` lists what a step returns
for each block; `change` does so where the step changes what a block keeps. A step is a function of
a module, step(block, *args): blocks may be files (datasets.py) or on other machines, and then
changes are repeated for a block that was lost.

    checks.py    what every fit looks at first
    machine.py   PSVM and ExRM: Newton's method on blocks
    trees.py     boosted trees, level by level

These import the solvers; a solver imports none of them, but looks for `fit_model` in X, and for
this folder beside it where threads are asked for. A file that stands alone has neither.
"""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import numpy as np

FITS = {"ExRM": "machine", "GradientBoosting": "trees", "AdaBoostNC": "trees"}
REGRESSORS = ("GradientBoostingRegressor",)


def kernels_on(*modules):
    """The decorator of kernels that call kernels of these modules. Numba's cache would keep them
    when another file changes: so a hash of that one is part of their names."""
    digest = hashlib.sha256()
    for module in modules:
        digest.update(Path(module.__file__).read_bytes())
    stamp, jit = digest.hexdigest()[:8], modules[0].jit

    def decorate(function=None, **options):
        if function is None:
            return lambda f: decorate(f, **options)
        function.__name__ = f"{function.__name__}_{stamp}"
        return jit(function, **options)

    return decorate


class RowBlocks:
    """What blocks of every kind have: shape (n, d), map, change, and these."""

    def fit_model(self, model, y=None, sample_weight=None, *how):
        """Fit a model to these rows; called by its fit."""
        for kind in type(model).__mro__:
            if kind.__name__ in FITS:
                fit = import_module(f".{FITS[kind.__name__]}", __name__).fit
                return fit(model, self, y, sample_weight, *how)
        who = type(model).__name__
        if who in REGRESSORS:
            raise ValueError(f"{who}: row blocks are for two classes; call fit(X, y)")
        raise ValueError(f"{who} needs more than sums over rows; row blocks are for {[*FITS]}")

    def grower(self, *how):
        """What grows trees on these rows."""
        return import_module(".trees", __name__).Levels(self, *how)

    def mark(self):
        """A place among the changes, for `shorten`; None where no change is ever repeated."""

    def shorten(self, mark, step, *args):
        """Let one step stand for the changes since a mark where they must be repeated."""


class Part:
    """Some rows: X, their target (-1 and +1, or numbers) and weight; start rows come before them.
    Steps keep with it, as attributes, what they need again."""

    def __init__(self, X, target, weight, start=0):
        self.X, self.target, self.weight, self.start = X, target, weight, start

    def keep(self, name, shape, dtype=np.float64):
        """An array of zeros that is kept as an attribute."""
        setattr(self, name, np.zeros(shape, dtype))
        return getattr(self, name)

    allocate = keep


class Threads(RowBlocks):
    """Rows in memory as blocks, a thread for each."""

    def __init__(self, X, target, weight, threads=1):
        cuts = np.linspace(0, len(X), threads + 1).astype(int).tolist()
        places = [slice(*ends) for ends in zip(cuts[:-1], cuts[1:], strict=True)]
        self.parts = [Part(X[at], target[at], weight[at], at.start) for at in places]
        self.shape = X.shape
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None

    def map(self, step, *args, n_jobs=1, add=False):
        """[step(part, *args) for each part]; the first one is this thread's."""
        jobs = [self._pool.submit(step, part, *args) for part in self.parts[1:]]
        return [step(self.parts[0], *args), *(job.result() for job in jobs)]

    change = map_inplace = map

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._pool is not None:
            self._pool.shutdown()


ThreadBlocks = Threads

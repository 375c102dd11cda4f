"""Checks of row blocks before a fit."""

import math

import numpy as np

from ..exrm import MAX_ABS, _Estimator


def _look(block, who, allow_nan):
    """Check one block. Returns its rows and columns, its labels, the weight of each and what that
    lacks by rounding, and whether a row has no weight."""
    checks = type(who, (_Estimator,), {"_allow_nan": allow_nan})()
    X, y, weight = checks._check_rows(block.X, block.y, block.sample_weight)
    labels, totals = np.unique(y), []
    for label in labels[:3]:  # More than two are refused.
        own = y == label
        if block.sample_weight is None:
            totals.append([float(np.count_nonzero(own)), 0.0])
        else:
            total = math.fsum(weight[own])
            totals.append([total, math.fsum([*weight[own], -total])])
    return X.shape, labels, totals, not weight.all()


def _aim(block, classes, factors):
    """Keep what Part has: targets from labels, and weights times the factors of the classes."""
    y = _Estimator()._check_y(block.y, len(block.X))
    is_high, given = y == classes[1], block.sample_weight
    target, weight = block.keep("target", y.shape), block.keep("weight", y.shape)
    np.multiply(is_high, 2.0, out=target)
    target -= 1.0
    weight[:] = 1.0 if given is None else given
    if factors[0] != 1.0 or factors[1] != 1.0:
        weight *= np.where(is_high, factors[1], factors[0])


def check_blocks(model, blocks, y, sample_weight, passes):
    """As `_check_fit` for row blocks of two classes: checks all, sets what `fit` sets from X and y,
    and lets each block have what Part has. Returns whether rows have weights of their own. `passes`
    tells, if verbose, what the fit will cost."""
    who, n_jobs, (n, d) = type(model).__name__, model._threads(), blocks.shape
    if y is not None or sample_weight is not None:
        raise ValueError(
            f"{who}: row blocks have their labels and weights with them; call fit(blocks), without "
            "y and sample_weight"
        )
    if model.verbose:
        size = f"{len(blocks)} blocks of {n:,} rows in all, X takes {8 * n * d:,} bytes"
        print(f"{who}: {size}; {passes}")
    blocks.clear()
    found = blocks.map(_look, who, model._allow_nan, n_jobs=n_jobs)
    shapes, labels, totals, lack = zip(*found, strict=True)
    widths = sorted({d for _, d in shapes})
    if len(widths) > 1:
        raise ValueError(f"{who}: blocks have {widths[0]} and {widths[-1]} columns, not one number")
    if any(lack):
        raise ValueError(f"{who}: sample_weight is 0 on rows of a block; leave such rows out")
    classes, place = np.unique(np.concatenate(labels), return_inverse=True)
    model._check_classes(classes)
    each = np.concatenate(totals)
    totals = np.array([math.fsum(each[place == k].ravel()) for k in range(2)])
    if not totals.sum() < MAX_ABS:
        raise ValueError(f"{who}: the sum of sample_weight must be below {MAX_ABS:g}")
    model.n_features_in_, model.classes_ = widths[0], classes
    factors = np.ones(2) if model.class_weight is None else model._class_factors(totals)
    blocks.change(_aim, classes, factors, n_jobs=n_jobs)
    return model.class_weight is not None or blocks.is_weighted

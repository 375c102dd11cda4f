"""Validation of row blocks before a fit."""

import math

import numpy as np

from ..exrm import MAX_ABS, _Estimator


def _check_block(block, name, allow_nan):
    """Check one block for the estimator `name`.

    Returns the shape of X, the labels, for each of the first three its weight and the rounding
    error of that, and True if a row has weight 0.
    """
    checks = type(name, (_Estimator,), {"_allow_nan": allow_nan})()
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


def _set_targets(block, classes, factors):
    """Allocate target, -1 and +1 for the two classes, and weight, times the class's factor."""
    y = _Estimator()._check_y(block.y, len(block.X))
    is_high, given = y == classes[1], block.sample_weight
    target, weight = block.allocate("target", y.shape), block.allocate("weight", y.shape)
    target[:] = np.where(is_high, 1.0, -1.0)
    weight[:] = 1.0 if given is None else given
    weight *= np.where(is_high, factors[1], factors[0])


def check_blocks(model, blocks, y, sample_weight):
    """Check row blocks of two classes; set their targets and weights, and the model's classes_.

    Returns True if rows have weights of their own.
    """
    name, n_jobs, (n, d) = type(model).__name__, model._threads(), blocks.shape
    if y is not None or sample_weight is not None:
        hint = "call fit(blocks), without y and sample_weight"
        raise ValueError(f"{name}: row blocks have their labels and weights with them; {hint}")
    if model.verbose:
        size = f"{n:,} rows in all, X takes {8 * n * d:,} bytes"
        print(f"{name}: {len(blocks)} blocks of {size}")
    blocks.clear()
    checked = blocks.map(_check_block, name, model._allow_nan, n_jobs=n_jobs)
    shapes, labels, totals, have_zeros = zip(*checked, strict=True)
    widths = sorted({d for _, d in shapes})
    if len(widths) > 1:
        ends = f"{widths[0]} and {widths[-1]}"
        raise ValueError(f"{name}: all blocks must have the same number of columns, got {ends}")
    if any(have_zeros):
        raise ValueError(f"{name}: sample_weight is 0 on rows of a block; leave such rows out")
    classes, place = np.unique(np.concatenate(labels), return_inverse=True)
    model._check_classes(classes)
    totals = np.concatenate(totals)
    totals = np.array([math.fsum(totals[place == k].ravel()) for k in range(2)])
    if not totals.sum() < MAX_ABS:
        raise ValueError(f"{name}: the sum of sample_weight must be below {MAX_ABS:g}")
    model.n_features_in_, model.classes_ = widths[0], classes
    factors = np.ones(2) if model.class_weight is None else model._class_factors(totals)
    blocks.map_inplace(_set_targets, classes, factors, n_jobs=n_jobs)
    return model.class_weight is not None or blocks.is_weighted

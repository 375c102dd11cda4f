"""Slow and obvious trees: all splits of a node by their definition. Shares no code with solvers."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

TIE = 1e-9  # Gains that differ by a smaller fraction of their size are equally good.
each_degenerate = pytest.mark.parametrize(("X", "y"), [
    (np.array([[0.0], [1.0]]), [0, 1]),  # two rows
    (np.zeros((6, 3)), [0, 0, 0, 1, 1, 1]),  # nothing to learn, classes equal
    (np.zeros((6, 3)), [0, 0, 0, 0, 0, 1]),  # ... and not
    (np.array([[1.0], [1], [1], [5], [5], [5]]), [0, 0, 0, 1, 1, 1]),
    (np.array([[1.0, 1], [1, 1], [1, 1], [2, 2], [2, 2], [2, 2]]), [0, 1, 0, 1, 0, 1]),
    (np.full((6, 2), np.nan), [0, 0, 0, 1, 1, 1]),  # all missing
    (np.array([[np.nan], [np.nan], [np.nan], [1], [2], [3]]), [0, 0, 0, 1, 1, 1]),
    (np.array([[5e-324], [0], [9e149], [-9e149], [1e-308], [3]]), [0, 0, 0, 1, 1, 1]),
])  # fmt: skip


def impurity(g, h, params, low=-np.inf, high=np.inf):
    """Impurity times weight h, and the value of a leaf; g: weight of class -1 minus that of +1.

    With an l2: the least g v + (h + l2) v^2 / 2 of a value v within its bounds, and that value.
    """
    if params.l2 is not None:
        v = np.clip(-g / (h + params.l2), low, high)
        return g * v + 0.5 * (h + params.l2) * v * v, v
    p = np.array([h - g, h + g]) / (2 * h)
    if params.criterion == 0:
        return h * p.min(axis=0), -g / h
    if params.criterion == 1:
        return h * (1 - (p * p).sum(axis=0)), -g / h
    return -h * (p * np.log2(np.where(p > 0, p, 1.0))).sum(axis=0), -g / h


class Split(NamedTuple):
    """Split of the rows of a node."""

    gain: float
    feature: int
    cut: float  # The lowest of the thresholds that separate the rows alike; inf: known | missing.
    to_left: bool  # Missing values go left.
    left: np.ndarray  # (rows,): those that go left.


def root(X, g, h, params, counts=None, bins=None, is_centred=None):
    """Root of a tree of these TreeParams; a row counts as counts (n,) rows.

    Thresholds separate the values of bins (m, d). They are in the middle of those that separate the
    rows of the node alike if is_centred.
    """
    counts, bins = np.ones(len(X)) if counts is None else counts, X if bins is None else bins
    is_centred = params.l2 is None if is_centred is None else is_centred
    return Node((X, g, h, params, counts, bins, is_centred), np.arange(len(X)))


class Node:
    """Node of a tree.

    value : of the leaf
    splits : in the order in which the first of equals wins
    first, best : first one of the best splits, and its score: the gain, or gain / entropy
    tie : difference of equally good scores
    """

    def __init__(self, problem, rows, depth=0, bounds=(-np.inf, np.inf)):
        self.problem, self.rows, self.depth, self.bounds = problem, rows, depth, bounds
        self.X, g, h, params, *_ = problem
        self.G, self.H, self.params = g[rows].sum(), h[rows].sum(), params
        self.cost, self.value = impurity(self.G, self.H, params, *bounds)
        is_pure = params.l2 is None and abs(self.G) >= self.H * (1 - 1e-12)
        self.splits = [] if is_pure or depth == params.max_depth else [*self._splits()]
        scores = self._ratios() if params.criterion == 3 else [s.gain for s in self.splits]
        self.best = max(scores, default=0.0)
        size = self.H if params.l2 is None else max(self.best, 0.0) + 2 * abs(self.cost)
        self.tie, self.first = TIE * size, None
        if self.splits and (params.l2 is None or self.best > self.tie):
            self.first = self.splits[next(
                k for k, score in enumerate(scores) if score >= self.best - 0.01 * self.tie
            )]  # fmt: skip
        self.scores = scores

    def _splits(self):
        X, g, h, params, counts, bins, _ = self.problem
        rows, low, high = self.rows, *self.bounds
        for j in range(X.shape[1]):
            grid, x = np.unique(bins[~np.isnan(bins[:, j]), j]), X[rows, j]
            cuts = np.append(0.5 * (grid[1:] + grid[:-1]), np.inf)[np.isin(grid, x)]
            cuts[-1:], missing = np.inf, np.isnan(x)
            for to_left in (False, True) if missing.any() else (False,):
                sides = (x <= cuts[:, None]) | (missing & to_left)
                a, b, count = sides @ g[rows], sides @ h[rows], sides @ counts[rows]
                other = self.G - a, self.H - b
                is_valid = np.minimum(count, counts[rows].sum() - count) >= params.min_leaf
                is_valid &= np.minimum(b, other[1]) >= params.min_weight
                is_valid &= np.minimum(b, other[1]) > TIE * self.H
                with np.errstate(divide="ignore", invalid="ignore"):
                    (one, v), (two, u) = (impurity(*s, params, low, high) for s in ((a, b), other))
                if params.monotone is not None:
                    is_valid &= params.monotone[j] * (u - v) >= 0
                gains = self.cost - one - two
                for k in np.flatnonzero(is_valid):
                    yield Split(gains[k], j, cuts[k], to_left, sides[k])

    def _ratios(self):
        """C4.5's score of each split: gain / entropy of the best one of a feature, if its gain is
        at least average; else -1."""
        best, scores, eps = {}, np.full(len(self.splits), -1.0), 0.01 * TIE * self.H
        for split in self.splits:
            if split.gain > getattr(best.get(split.feature), "gain", -np.inf) + eps:
                best[split.feature] = split
        mean = np.mean([split.gain for split in best.values()]) if best else 0.0
        for k, split in enumerate(self.splits):
            if split is best[split.feature] and split.gain >= mean - eps:
                p = self.left_weight(split) / self.H
                scores[k] = split.gain / -(p * np.log2(p) + (1 - p) * np.log2(1 - p))
        return scores

    def threshold(self, split):
        """Threshold of a split; midpoints of neighbouring values of all rows are possible."""
        *_, bins, is_centred = self.problem
        if split.cut == np.inf or not is_centred:
            return split.cut
        x, values = self.X[self.rows, split.feature], bins[:, split.feature]
        values = np.unique(values[~np.isnan(values)])
        low, high = np.searchsorted(values, (split.cut, x[x > split.cut].min()))
        middle = max(low - 1, (low + high - 2) // 2)
        return 0.5 * (values[middle] + values[middle + 1])

    def left_weight(self, split):
        return self.problem[2][self.rows[split.left]].sum()

    def missing_left(self, split):
        """Side of missing values; None if there are none and both sides are equally heavy."""
        if np.isnan(self.X[self.rows, split.feature]).any():
            return split.to_left
        more = 2 * self.left_weight(split) - self.H
        return None if abs(more) <= TIE * self.H else bool(more > 0)

    def children(self, split):
        """Both children, with the bounds of a monotone split."""
        (_, g, h, params, *_), bounds = self.problem, [self.bounds, self.bounds]
        sides = self.rows[split.left], self.rows[~split.left]
        if params.monotone is not None and params.monotone[split.feature]:
            values = [impurity(g[p].sum(), h[p].sum(), params, *self.bounds)[1] for p in sides]
            middle, (low, high) = 0.5 * sum(values), self.bounds
            bounds = [(low, middle), (middle, high)][:: params.monotone[split.feature]]
        pairs = zip(sides, bounds, strict=True)
        return [Node(self.problem, side, self.depth + 1, ends) for side, ends in pairs]


def certify(nodes, top, settle=None, rtol=1e-9):
    """Check each decision of a finished tree from its root, a `Node`, on.

    A split must be the first of the best; others that are as good are counted. With a limit of
    leaves the best one is split first. settle(rows) is the value of a leaf if it is no Newton step.
    Returns the value of each row, those of the leaves, the number of splits and that of ties.
    """
    edge, values, ties = [(0, top)], np.empty(len(top.rows)), 0
    limit = top.params.max_leaves
    while inner := [pair for pair in edge if nodes[pair[0]]["child"] > 0]:
        k, node = max(inner, key=lambda pair: pair[1].best)
        for _, other in edge if limit else ():
            assert other.best <= node.best + other.tie + node.tie, "a better split was passed over"
        ours = nodes[k]
        x = top.X[node.rows, ours["feature"]]
        left = np.where(np.isnan(x), ours["missing_left"] == 1, x <= ours["threshold"])
        made = [t for t, s in enumerate(node.splits)
                if s.feature == ours["feature"] and (s.left == left).all()]  # fmt: skip
        assert len(made) == 1, f"{ours} is no split of these rows"
        split, score = node.splits[made[0]], node.scores[made[0]]
        assert score >= node.best - node.tie and split.gain > -node.tie, f"{ours}: {node.best:.9g}"
        assert_allclose(ours["gain"], split.gain, rtol=rtol, atol=10 * node.tie)
        assert_allclose(ours["threshold"], node.threshold(split), rtol=1e-12, atol=1e-12)
        assert node.missing_left(split) in (None, ours["missing_left"])
        ties += split is not node.first
        edge.remove((k, node))
        edge += zip((ours["child"], ours["child"] + 1), node.children(split), strict=True)
    assert 2 * len(edge) - 1 == len(nodes) and (not limit or len(edge) <= limit)
    leaves = []
    for k, leaf in edge:
        assert len(edge) == limit or leaf.first is None, f"a leaf has a gain of {leaf.best:.9g}"
        leaves.append(settle(leaf.rows) if settle else leaf.value)
        assert_allclose(nodes[k]["value"], leaves[-1], rtol=rtol, atol=1e-9)
        values[leaf.rows] = leaves[-1]
    return values, np.array(leaves), len(edge) - 1, ties


def votes(nodes, X):
    """Value of one tree for each row, (n,), level by level."""
    at = np.zeros(len(X), dtype=int)
    while (nodes["child"][at] > 0).any():
        node = nodes[at]
        x = X[np.arange(len(X)), node["feature"]]
        left = np.where(np.isnan(x), node["missing_left"] == 1, x <= node["threshold"])
        at = np.where(node["child"] > 0, node["child"] + 1 - left, at)
    return nodes["value"][at]


def pessimistic(wrong, rows):
    """Upper 25 % limit of the number of errors: exact for 0 errors, else by C4.5's code."""
    if wrong == 0:
        return rows * (1 - 0.25 ** (1 / rows))
    if wrong < 1:
        none = pessimistic(0, rows)
        return none + wrong * (pessimistic(1, rows) - none)
    if wrong + 0.5 >= rows:
        return wrong + 0.67 * (rows - wrong)
    z2, f = 0.6744898**2, wrong + 0.5
    root = math.sqrt(z2 * (f * (1 - f / rows) + z2 / 4))
    return rows * (f + z2 / 2 + root) / (rows + z2)

"""Boosted trees of gradient_boosting.py and adaboost_nc.py on row blocks, level by level."""

import math
from functools import partial, reduce

import numpy as np

from .. import gradient_boosting as gb
from ..gradient_boosting import BinnedData, TreeGrower, TreeParams, _add, _best_split, _sums
from . import kernels_on
from .checks import check_blocks

jit = kernels_on(gb)

ROWS_AHEAD = 2048  # Rows routed before those in a histogram are added; they stay in cache.
BATCH = 2**25  # Bytes of the histograms of one pass over the rows, at most.
ALL_LEFT = 256  # Above every bin: a node without split sends its rows to itself.


# -- trees level by level -----------------------------------------------------------------------
@jit(nogil=True)
def _route_and_add(X_binned, grad_hess, node, split_table, table, l2, hist):
    """Route each row to its new node, and add it to the histogram of that node, if it has one.

    split_table (nodes, 5): feature of the node's split, last bin on the left, bin of missing values
    if these go left, left child, slot of the histogram or -1. Overwrites node (n,) and table
    (nodes, bins): twice the new node per bin, plus 1 if it has a slot. Adds to hist
    (slots, d, bins, 2). Rows in a histogram are listed first: a branch would be unpredictable.
    """
    n, d = X_binned.shape
    if split_table.shape[0] == 1:
        node[:] = 0
    for k in range(split_table.shape[0]):
        for c in range(table.shape[1]):
            new = split_table[k, 3] + 1 - ((c <= split_table[k, 1]) | (c == split_table[k, 2]))
            table[k, c] = 2 * new + (split_table[new, 4] >= 0)
    ahead = np.empty(ROWS_AHEAD, dtype=np.int64)
    for first in range(0, n, ROWS_AHEAD):
        count = 0
        for i in range(first, min(first + ROWS_AHEAD, n)):
            new = table[node[i], X_binned[i, split_table[node[i], 0]]]
            node[i] = new >> 1
            ahead[count] = i
            count += new & 1
        for a in range(count):
            i = ahead[a]
            g, h, sums = grad_hess[i, 0], grad_hess[i, 1], hist[split_table[node[i], 4]]
            for j in range(d):
                _add(sums[j, X_binned[i, j]], g, h, l2)


@jit
def _root(hist, count_bits, params, nodes):
    """Fill nodes[0], the root, from its histogram (d, bins, 2)."""
    params, root = TreeParams(*params), nodes[0]
    root.g = root.h = 0
    for c in range(hist.shape[1]):
        g, h = _sums(hist[0], c, count_bits, params.l2)
        root.g += g
        root.h += h
    root.depth = root.child = root.is_pruned = root.slot = 0
    root.low, root.high = -math.inf, math.inf
    weight = root.h >> count_bits
    is_pure = params.l2 is None and abs(root.g) == weight
    root.is_leaf = params.max_depth == 0 or weight == 0 or is_pure


@jit
def _make_level(nodes, n_nodes, opened, free, data, params, split_table, pairs):
    """Make the children of opened nodes, from n_nodes on, and their rows of split_table.

    Overwrites split_table and pairs (m, 3): smaller child, larger child, slot of the smaller one's
    histogram in the pass. The larger child inherits the parent's slot in the store, the other one
    takes a free one. Returns the numbers of nodes, of pairs and of free slots left.
    """
    data, params = BinnedData(*data), TreeParams(*params)
    n_pairs, n_free = 0, free.size
    for a in range(opened.size):
        node, left, right = nodes[opened[a]], nodes[n_nodes], nodes[n_nodes + 1]
        node.child = n_nodes
        gb._make_children(node, left, right, data.count_bits, params)
        missing = data.n_bins_non_missing[node.feature]
        r = split_table[opened[a]]
        r[0], r[1], r[3], r[4] = node.feature, node.split_bin, node.child, -1
        r[2] = missing if node.missing_left == 1 else -1
        for k in (n_nodes, n_nodes + 1):
            r = split_table[k]
            r[0], r[1], r[2], r[3], r[4] = 0, ALL_LEFT, -1, k, -1
        n_nodes += 2
        if not (left.is_leaf and right.is_leaf):
            mask = (1 << data.count_bits) - 1
            small = node.child + 1 * ((left.h & mask) > (right.h & mask))
            large = 2 * node.child + 1 - small
            n_free -= 1
            nodes[small].slot, nodes[large].slot = free[n_free], node.slot
            split_table[small, 4] = n_pairs
            pairs[n_pairs, 0], pairs[n_pairs, 1], pairs[n_pairs, 2] = small, large, n_pairs
            n_pairs += 1
    return n_nodes, n_pairs, n_free


@jit
def _find_pairs(data, params, nodes, pairs, hist, store, space, min_gain):
    """Find the best splits of pairs of siblings; a node becomes a leaf if its gain is too small.

    The histogram of the larger sibling is the parent's, in its slot of the store, minus that of the
    smaller one. The root has no sibling.
    """
    data, params = BinnedData(*data), TreeParams(*params)
    bins, indices = space
    for a in range(pairs.shape[0]):
        small, large = pairs[a, 0], pairs[a, 1]
        sums = hist[pairs[a, 2]]
        if large >= 0 and not nodes[large].is_leaf:
            rest = store[nodes[large].slot]
            for j in range(sums.shape[0]):
                for c in range(sums.shape[1]):
                    rest[j, c, 0] -= sums[j, c, 0]
                    rest[j, c, 1] -= sums[j, c, 1]
        if not nodes[small].is_leaf:
            store[nodes[small].slot] = sums
        for k in (large, small):
            if k >= 0 and not nodes[k].is_leaf:
                node = nodes[k]
                _best_split(data, params, node, None, bins, indices, store, None, None)
                node.is_leaf = node.gain < min_gain


@jit
def _depth_first(nodes, place):
    """Overwrite place (nodes,) by the number that each node has if trees grow depth first."""
    stack = np.empty(nodes.size, dtype=np.int64)
    stack[0] = place[0] = 0
    count, size = 1, 1 - nodes[0].is_leaf
    while size > 0:
        size -= 1
        node = nodes[stack[size]]
        place[node.child], place[node.child + 1] = count, count + 1
        count += 2
        small = np.int64(node.slot)
        for k in (2 * node.child + 1 - small, small):
            stack[size] = k
            size += 1 - nodes[k].is_leaf


def _encode_block(block, bins):
    """Store X_binned (n, d); allocate grad_hess (n, 2) and node (n,). Reads X."""
    X_binned = block.allocate("X_binned", block.X.shape, np.uint8)
    block.allocate("grad_hess", (len(X_binned), 2), np.int64)
    block.allocate("node", len(X_binned), np.int32)
    gb.bin_features(block.X, *bins, X_binned)


def _block_histograms(block, split_table, l2, shape, fill=None):
    """Route the rows of a block; return its histograms (slots, d, bins, 2). fill, a function and
    its further arguments, sets grad_hess first."""
    if fill is not None:
        fill[0](block, *fill[1:])
    hist, size = np.zeros(shape, dtype=np.int64), np.int16 if len(split_table) < 2**14 else np.int32
    table = np.empty((len(split_table), shape[2]), dtype=size)
    _route_and_add(block.X_binned, block.grad_hess, block.node, split_table, table, l2, hist)
    return hist


def _threshold_sample(block, n, weigh):
    """Rows of the block that place thresholds, their weights, and True for each column with
    missing values. Reads X."""
    name, big = weigh
    rows = np.arange(n) if n <= gb.BIN_SAMPLE_ROWS else gb.sampled_rows(n)
    low, high = np.searchsorted(rows, [block.start, block.start + len(block.X)])
    rows = rows[low:high] - block.start
    with np.errstate(over="ignore", invalid="ignore"):
        missing = np.isnan(block.X.sum(axis=0))
    weight = None if name is None else (getattr(block, name)[rows] + big) - big
    return np.asarray(block.X[rows]), weight, missing


def _value_weights(block, j, weigh):
    """Distinct values of column j in the block, and the weight of each. Reads X."""
    name, big = weigh
    weight = None if name is None else (getattr(block, name) + big) - big
    values, ends = gb.distinct(np.array(block.X[:, j]), weight)
    return values, np.diff(ends, prepend=0.0)


def block_thresholds(blocks, max_bins, weigh, n_jobs=1):
    """Thresholds of `bin_thresholds` for all blocks together.

    weigh : name of the weights, or None, and the constant whose addition rounds them to a grid
    """
    n, call = blocks.shape[0], partial(blocks.map, n_jobs=n_jobs)
    rows, weights, missing = zip(*call(_threshold_sample, n, weigh), strict=True)

    def whole(j):
        values, sums = map(np.concatenate, zip(*call(_value_weights, j, weigh), strict=True))
        values, place = np.unique(values, return_inverse=True)
        return values, np.cumsum(np.bincount(place, sums, values.size))

    weight = None if weigh[0] is None else np.concatenate(weights)
    args = np.concatenate(rows), weight, np.any(missing, axis=0), max_bins
    return gb.place_thresholds(*args, whole if n > gb.BIN_SAMPLE_ROWS else None, n_jobs)


class LevelwiseGrower(TreeGrower):
    """Grower of the trees of `TreeGrower` on row blocks, level by level: one pass over the rows per
    level. Histograms are whole numbers: the trees are equal to the last bit.

    blocks : store grad_hess (n, 2), packed derivatives, and after `grow` the node (n,) of each row
    place : after `grow`, the number in the tree of each of these nodes
    """

    def __init__(self, blocks, max_bins, params, weigh=(None, 0.0), n_jobs=1):
        (n, d), self.blocks, self.n_jobs = blocks.shape, blocks, n_jobs
        bins = gb.pad_thresholds(block_thresholds(blocks, max_bins, weigh, n_jobs))
        self.thresholds, n_bins = bins
        blocks.map_inplace(_encode_block, bins, n_jobs=n_jobs)
        count_bits = n.bit_length()
        self.full = 2.0 ** (gb.SUM_BITS - count_bits)
        none = np.empty((0, d), dtype=np.uint8)
        empty = none, np.asfortranarray(none), n_bins, np.empty((0, 2), np.int64)
        self.data = BinnedData(*empty, count_bits)
        self.params = params._replace(
            max_depth=n if params.max_depth is None else min(params.max_depth, n),
            max_leaves=params.max_leaves or 0, n_drawn=d,
        )  # fmt: skip
        self.columns = None
        self.shape = d, int(n_bins.max()) + 1, 2
        self.store = np.empty((1, *self.shape), dtype=np.int64)
        self.space = np.empty(self.shape[1:], np.int64), np.empty(self.shape[1], np.int32)
        self.most_open = max(1, BATCH // (8 * self.store[0].size))

    def grow(self, *fill):
        """Grow a tree; return its nodes, as `TreeGrower` does.

        fill : function that sets grad_hess of a block, and its further arguments
        """
        nodes = np.zeros(63, dtype=gb.GROWING)
        split_table = np.array([[0, ALL_LEFT, -1, 0, 0]], dtype=np.int32)
        hist = self._send(split_table, 1, fill)
        _root(hist[0], self.data.count_bits, tuple(self.params), nodes)
        min_gain = self.params.min_decrease * float(nodes[0].h >> self.data.count_bits)
        self.free = np.arange(1, len(self.store))
        pairs, n_nodes, opened = np.array([[0, -1, 0]]), 1, []
        while True:
            args = nodes, pairs, hist, self.store, self.space, min_gain
            _find_pairs(tuple(self.data), tuple(self.params), *args)
            new = pairs[:, 1::-1].ravel()  # The larger one first, as depth first.
            new = new[new >= 0]
            is_leaf = nodes["is_leaf"][new] == 1
            self.free = np.append(self.free, nodes["slot"][new[is_leaf]])
            opened += new[~is_leaf].tolist()
            if not opened or n_nodes == 2 * self.params.max_leaves - 1:
                break
            chosen = self._choose(nodes, opened)
            if n_nodes + 2 * len(chosen) > len(nodes):
                last, nodes = nodes, np.zeros(2 * len(nodes) + 2 * len(chosen), dtype=gb.GROWING)
                nodes[: len(last)] = last
            n_nodes, pairs, split_table = self._open(nodes, n_nodes, chosen, split_table)
            hist = self._send(split_table, len(pairs))
        nodes["is_leaf"][opened] = 1  # The limit of leaves is reached: open nodes are leaves.
        return self._in_order(nodes[:n_nodes])

    def _send(self, split_table, slots, fill=None):
        """Make one pass over all rows; return the histograms of all blocks together."""
        args = _block_histograms, split_table, self.params.l2, (slots, *self.shape), fill
        return reduce(np.add, self.blocks.map_inplace(*args, n_jobs=self.n_jobs, add=True))

    def _choose(self, nodes, opened):
        """Pop the nodes to split next: the last most_open ones; the one of highest gain if the
        number of leaves is limited."""
        if not self.params.max_leaves:
            chosen = opened[-self.most_open :]
            del opened[-self.most_open :]
            return np.array(chosen)
        for a in range(len(opened) - 1):
            if nodes["gain"][opened[a]] > nodes["gain"][opened[-1]]:
                opened[a], opened[-1] = opened[-1], opened[a]
        return np.array([opened.pop()])

    def _open(self, nodes, n_nodes, chosen, split_table):
        """Make the children of the chosen nodes; return the number of nodes, the pairs and the
        next split table."""
        if len(self.free) < len(chosen):
            more = len(self.store) + len(chosen)
            self.free = np.append(np.arange(len(self.store), len(self.store) + more), self.free)
            space = np.empty((more, *self.shape), dtype=np.int64)
            self.store = np.concatenate([self.store, space])
        split_table[:, 0], split_table[:, 1], split_table[:, 2] = 0, ALL_LEFT, -1
        split_table[:, 3], split_table[:, 4] = np.arange(len(split_table)), -1
        split_table = np.append(split_table, np.empty((2 * len(chosen), 5), np.int32), axis=0)
        pairs = np.empty((len(chosen), 3), dtype=np.int64)
        args = tuple(self.data), tuple(self.params), split_table, pairs
        n_nodes, n_pairs, n_free = _make_level(nodes, n_nodes, chosen, self.free, *args)
        barren = nodes["child"][chosen]
        barren = (nodes["is_leaf"][barren] & nodes["is_leaf"][barren + 1]) == 1
        self.free = np.append(self.free[:n_free], nodes["slot"][chosen[barren]])
        return n_nodes, pairs[:n_pairs], split_table

    def _in_order(self, nodes):
        """Return the nodes, numbered as by depth-first growth; set `place`."""
        self.place = np.arange(len(nodes))
        if not self.params.max_leaves and len(nodes) > 1:
            child, mask = nodes["child"], (1 << self.data.count_bits) - 1
            rows = nodes["h"] & mask
            nodes["slot"] = child + (rows[child] > rows[np.minimum(child + 1, len(nodes) - 1)])
            _depth_first(nodes, self.place)
            nodes["child"] = np.where(nodes["is_leaf"] == 1, 0, self.place[child])
            ordered = np.zeros_like(nodes)
            ordered[self.place] = nodes
            return ordered
        return nodes.copy()


# -- fits ---------------------------------------------------------------------------------------
def fit(model, blocks, y, sample_weight):
    """Fit GradientBoosting or AdaBoostNC to row blocks; return the model."""
    name, required = type(model).__name__, model._required_setting()
    has_gradients = hasattr(model, "learning_rate")
    if has_gradients and model.max_features not in (None, 1.0):
        required = required or "max_features=1.0"
    if required:
        raise ValueError(f"{name}: row blocks support sums over rows only; set {required}")
    is_weighted = check_blocks(model, blocks, y, sample_weight)
    rng = np.random.default_rng(model._seed())
    args = [model._check_features()] if has_gradients else []
    return model._boost(blocks, *args, is_weighted, rng)

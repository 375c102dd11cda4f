"""Boosted trees of gradient_boosting.py and adaboost_nc.py on row blocks, level by level."""

import math
from functools import partial

import numpy as np

from .. import gradient_boosting
from ..gradient_boosting import (
    BIN_SAMPLE_ROWS,
    GROWING,
    SUM_BITS,
    BinnedData,
    TreeGrower,
    TreeParams,
    _add,
    _best_split,
    _make_children,
    _sums,
    bin_features,
    distinct,
    pad_thresholds,
    place_thresholds,
    sampled_rows,
)  # fmt: skip
from . import kernels_on
from .checks import check_blocks

jit = kernels_on(gradient_boosting)

ROWS_AHEAD = 2048  # So many rows are sent on before those that count are added up.
BATCH = 2**25  # Histograms of at most so many bytes are made in a pass over the rows.
FEW_PAIRS = 4  # Another thread is worth its while for so many pairs of nodes.
ALL_LEFT = 256  # No code is above this: a node that is not split sends its rows to itself.


# -- trees level by level -----------------------------------------------------------------------
@jit(nogil=True)
def _pass(codes, GH, node, route, table, l2, hist):
    """Send each row on to its new node, and add it to the histogram of that, if it has one.

    route (nodes, 5) holds the feature of a node's split, the last code on the left, the code of
    missing values if these go left, the left child, and the slot of its histogram or -1; overwrites
    table with what follows for each code: twice the new node, plus 1 if it has a slot. Overwrites
    node (n,) and adds to hist (slots, d, bins, 2). There are no branches on what nothing could
    predict: rows that count are listed first.
    """
    n, d = codes.shape
    if route.shape[0] == 1:
        for i in range(n):
            node[i] = 0
            for j in range(d):
                _add(hist[0, j, codes[i, j]], GH[i, 0], GH[i, 1], l2)
        return
    for k in range(route.shape[0]):
        for c in range(table.shape[1]):
            new = route[k, 3] + 1 - ((c <= route[k, 1]) | (c == route[k, 2]))
            table[k, c] = 2 * new + (route[new, 4] >= 0)
    ahead = np.empty(ROWS_AHEAD, dtype=np.int64)
    for first in range(0, n, ROWS_AHEAD):
        count = 0
        for i in range(first, min(first + ROWS_AHEAD, n)):
            new = table[node[i], codes[i, route[node[i], 0]]]
            node[i] = new >> 1
            ahead[count] = i
            count += new & 1
        for a in range(count):
            i = ahead[a]
            g, h, sums = GH[i, 0], GH[i, 1], hist[route[node[i], 4]]
            for j in range(d):
                _add(sums[j, codes[i, j]], g, h, l2)


@jit(nogil=True)
def _walk(codes, node, route):
    """Send each row from the root to its leaf; overwrites node. All splits are in route."""
    for i in range(node.size):
        k = 0
        while route[k, 1] < ALL_LEFT:
            c = codes[i, route[k, 0]]
            k = route[k, 3] + 1 - ((c <= route[k, 1]) | (c == route[k, 2]))
        node[i] = k


@jit
def _root(hist, shift, rules, nodes):
    """Make the root from its histogram."""
    rules, root = TreeParams(*rules), nodes[0]
    root.g = root.h = 0
    for c in range(hist.shape[1]):
        g, h = _sums(hist[0], c, shift, rules.l2)
        root.g += g
        root.h += h
    root.depth = root.child = root.is_pruned = root.slot = 0
    root.low, root.high = -math.inf, math.inf
    weight = root.h >> shift
    is_pure = rules.l2 is None and abs(root.g) == weight
    root.is_leaf = rules.max_depth == 0 or weight == 0 or is_pure


@jit
def _sprout(nodes, n_nodes, opened, free, data, rules, route, pairs):
    """Make the children of opened nodes, from n_nodes on, and what `_pass` has to know of them.

    Overwrites route and pairs (m, 3): the smaller child, the larger one and the slot of the smaller
    one's histogram in the pass. The larger child gets the parent's slot in the store, the other one
    a free one. Returns how many nodes, pairs and slots of the pass there are, and free slots left.
    """
    data, rules = BinnedData(*data), TreeParams(*rules)
    n_pairs, n_free = 0, free.size
    for a in range(opened.size):
        node, left, right = nodes[opened[a]], nodes[n_nodes], nodes[n_nodes + 1]
        node.child = n_nodes
        _make_children(node, left, right, data.count_bits, rules)
        missing = data.n_bins_non_missing[node.feature]
        r = route[opened[a]]
        r[0], r[1], r[3], r[4] = node.feature, node.split_bin, node.child, -1
        r[2] = missing if node.missing_left == 1 else -1
        for k in (n_nodes, n_nodes + 1):
            r = route[k]
            r[0], r[1], r[2], r[3], r[4] = 0, ALL_LEFT, -1, k, -1
        n_nodes += 2
        if not (left.is_leaf and right.is_leaf):
            mask = (1 << data.count_bits) - 1
            small = node.child + 1 * ((left.h & mask) > (right.h & mask))
            large = 2 * node.child + 1 - small
            n_free -= 1
            nodes[small].slot, nodes[large].slot = free[n_free], node.slot
            route[small, 4] = n_pairs
            pairs[n_pairs, 0], pairs[n_pairs, 1], pairs[n_pairs, 2] = small, large, n_pairs
            n_pairs += 1
    return n_nodes, n_pairs, n_free


@jit(nogil=True)
def _find_pairs(data, rules, nodes, pairs, hist, store, space, min_gain):
    """Find the best splits of pairs of siblings: of the smaller by its histogram, of the larger by
    what that leaves of the parent's, which is in its slot of the store. The root has no sibling.
    A node is a leaf if its gain is too small."""
    data, rules = BinnedData(*data), TreeParams(*rules)
    bins, found = space
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
                _best_split(data, rules, node, None, bins, found, store, None, None)
                node.is_leaf = node.gain < min_gain


@jit
def _depth_first(nodes, place):
    """The order in which `_grow` would have made the nodes: overwrites place (nodes,), the new
    number of each."""
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


def _code_rows(part, bins):
    """Keep the codes of a part's rows, and space for their derivatives and nodes. Reads X."""
    codes = part.keep("codes", part.X.shape, np.uint8)
    part.keep("grad_hess", (len(codes), 2), np.int64)
    part.keep("node", len(codes), np.int32)
    bin_features(part.X, *bins, codes)


def _send_on(part, route, l2, shape, fill=None):
    """`_pass` over a part, whose GH is filled first; returns the histograms (slots, d, bins, 2)."""
    if fill is not None:
        fill[0](part, *fill[1:])
    hist, size = np.zeros(shape, dtype=np.int64), np.int16 if len(route) < 2**14 else np.int32
    table = np.empty((len(route), shape[2]), dtype=size)
    _pass(part.codes, part.grad_hess, part.node, route, table, l2, hist)
    return hist


def _walk_rows(part, route):
    """The same as all passes of a tree, but for the histograms."""
    _walk(part.codes, part.node, route)


def _edge_rows(part, n, weigh):
    """Input of `bin_thresholds` from a part: sampled rows, their weights, and the features with
    missing values. Reads X."""
    name, big = weigh
    rows = np.arange(n) if n <= BIN_SAMPLE_ROWS else sampled_rows(n)
    low, high = np.searchsorted(rows, [part.start, part.start + len(part.X)])
    rows = rows[low:high] - part.start
    with np.errstate(over="ignore", invalid="ignore"):
        missing = np.isnan(part.X.sum(axis=0))
    weight = None if name is None else (getattr(part, name)[rows] + big) - big
    return np.asarray(part.X[rows]), weight, missing


def _tally(part, j, weigh):
    """`distinct` of feature j in a part, with the sum of each value. Reads X."""
    name, big = weigh
    weight = None if name is None else (getattr(part, name) + big) - big
    values, ends = distinct(np.array(part.X[:, j]), weight)
    return values, np.diff(ends, prepend=0.0)


def edges_of_parts(parts, max_bins, weigh, n_jobs=1):
    """`bin_thresholds` of all parts; weigh is the name of their weights, or None, and the constant
    of their grid."""
    n, each = parts.shape[0], partial(parts.map, n_jobs=n_jobs)
    rows, weights, missing = zip(*each(_edge_rows, n, weigh), strict=True)

    def whole(j):
        values, sums = map(np.concatenate, zip(*each(_tally, j, weigh), strict=True))
        values, place = np.unique(values, return_inverse=True)
        return values, np.cumsum(np.bincount(place, sums, values.size))

    weight = None if weigh[0] is None else np.concatenate(weights)
    found = np.concatenate(rows), weight, np.any(missing, axis=0), max_bins
    return place_thresholds(*found, whole if n > BIN_SAMPLE_ROWS else None, n_jobs)


class Levels(TreeGrower):
    """Grows the trees of `TreeGrower` on parts, or on row blocks, level by level: a level costs a
    pass over the rows. Histograms are whole numbers: the trees are the same to the last bit.

    parts : have grad_hess (n, 2), as of `TreeGrower`, and after `grow` the node of each row
    place : after `grow`, the number in the tree of each of these nodes
    """

    def __init__(self, parts, max_bins, rules, weigh=(None, 0.0), n_jobs=1):
        (n, d), self.parts, self.n_jobs = parts.shape, parts, n_jobs
        bins = pad_thresholds(edges_of_parts(parts, max_bins, weigh, n_jobs))
        self.thresholds, n_codes = bins
        parts.change(_code_rows, bins, n_jobs=n_jobs)
        shift = n.bit_length()
        self.full = 2.0 ** (SUM_BITS - shift)
        none = np.empty((0, d), dtype=np.uint8)
        self.data = BinnedData(
            none, np.asfortranarray(none), n_codes, np.empty((0, 2), np.int64), shift
        )
        self.params = rules._replace(
            max_depth=n if rules.max_depth is None else min(rules.max_depth, n),
            max_leaves=rules.max_leaves or 0, n_drawn=d,
        )  # fmt: skip
        self.columns = None
        self.shape = d, int(n_codes.max()) + 1, 2
        self.store = np.empty((1, *self.shape), dtype=np.int64)
        self.space = np.empty(self.shape[1:], np.int64), np.empty(self.shape[1], np.int32)
        self.most_open = max(1, BATCH // (8 * self.store[0].size))

    def grow(self, *fill):
        """Grow a tree; returns its nodes, as `TreeGrower` does. `fill` is a function that fills
        grad_hess of a part, and its further arguments."""
        mark, nodes = self.parts.mark(), np.zeros(63, dtype=GROWING)
        route = np.array([[0, ALL_LEFT, -1, 0, 0]], dtype=np.int32)
        hist = self._send(route, 1, fill)
        _root(hist[0], self.data.count_bits, tuple(self.params), nodes)
        min_gain = self.params.min_decrease * float(nodes[0].h >> self.data.count_bits)
        self.free = np.arange(1, len(self.store))
        pairs, n_nodes, opened = np.array([[0, -1, 0]]), 1, []
        while True:
            self._find(nodes, pairs, hist, min_gain)
            found = pairs[:, 1::-1].ravel()  # The larger one first, as in `_grow`.
            found = found[found >= 0]
            is_leaf = nodes["is_leaf"][found] == 1
            self.free = np.append(self.free, nodes["slot"][found[is_leaf]])
            opened += found[~is_leaf].tolist()
            if not opened or n_nodes == 2 * self.params.max_leaves - 1:
                break
            chosen = self._choose(nodes, opened)
            if n_nodes + 2 * len(chosen) > len(nodes):
                last, nodes = nodes, np.zeros(2 * len(nodes) + 2 * len(chosen), dtype=GROWING)
                nodes[: len(last)] = last
            n_nodes, pairs, route = self._open(nodes, n_nodes, chosen, route)
            hist = self._send(route, len(pairs))
        nodes["is_leaf"][opened] = 1  # There are enough leaves: what is open is one, too.
        self.parts.shorten(mark, _walk_rows, self._route(nodes[:n_nodes]))
        return self._in_order(nodes[:n_nodes])

    def _route(self, nodes):
        """All splits of a tree, for `_walk`."""
        inner, route = nodes["is_leaf"] == 0, np.zeros((len(nodes), 5), dtype=np.int32)
        missing = np.where(
            nodes["missing_left"] == 1, self.data.n_bins_non_missing[nodes["feature"]], -1
        )
        route[:, 0], route[:, 1] = nodes["feature"], np.where(inner, nodes["split_bin"], ALL_LEFT)
        route[:, 2], route[:, 3] = missing, nodes["child"]
        return route

    def _send(self, route, slots, fill=None):
        """A pass over all rows; returns the histograms of all parts together."""
        args = route, self.params.l2, (slots, *self.shape), fill
        first, *others = self.parts.change(_send_on, *args, n_jobs=self.n_jobs, add=True)
        for hist in others:
            first += hist
        return first

    def _find(self, nodes, pairs, hist, min_gain):
        """Find the splits of new nodes; the threads of the parts share them."""
        args = tuple(self.data), tuple(self.params), nodes
        more = hist, self.store, self.space, min_gain
        pool = getattr(self.parts, "_pool", None)
        count = 1 if pool is None else max(1, min(len(self.parts.parts), len(pairs) // FEW_PAIRS))
        others = (pairs[a::count] for a in range(1, count))
        jobs = [pool.submit(_find_pairs, *args, some, *more) for some in others]
        _find_pairs(*args, pairs[::count], *more)
        for job in jobs:
            job.result()

    def _choose(self, nodes, opened):
        """Take those to be split next off the list: all, if they are not too many, or with a limit
        of leaves the one of the highest gain."""
        last = len(opened) - 1
        if not self.params.max_leaves:
            chosen = opened[-self.most_open :]
            del opened[-self.most_open :]
            return np.array(chosen)
        for a in range(last):
            if nodes["gain"][opened[a]] > nodes["gain"][opened[last]]:
                opened[a], opened[last] = opened[last], opened[a]
        return np.array([opened.pop()])

    def _open(self, nodes, n_nodes, chosen, route):
        """Make the children of these nodes; returns their number, the pairs and the next route."""
        if len(self.free) < len(chosen):
            more = len(self.store) + len(chosen)
            self.free = np.append(np.arange(len(self.store), len(self.store) + more), self.free)
            space = np.empty((more, *self.shape), dtype=np.int64)
            self.store = np.concatenate([self.store, space])
        route[:, 0], route[:, 1], route[:, 2] = 0, ALL_LEFT, -1
        route[:, 3], route[:, 4] = np.arange(len(route)), -1
        route = np.append(route, np.empty((2 * len(chosen), 5), np.int32), axis=0)
        pairs = np.empty((len(chosen), 3), dtype=np.int64)
        args = tuple(self.data), tuple(self.params), route, pairs
        n_nodes, n_pairs, n_free = _sprout(nodes, n_nodes, chosen, self.free, *args)
        barren = nodes["child"][chosen]
        barren = (nodes["is_leaf"][barren] & nodes["is_leaf"][barren + 1]) == 1
        self.free = np.append(self.free[:n_free], nodes["slot"][chosen[barren]])
        return n_nodes, pairs[:n_pairs], route

    def _in_order(self, nodes):
        """The nodes as `_grow` would have numbered them; sets `place`."""
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
    """Fit GradientBoosting or AdaBoostNC."""
    who, lacks, (n, d) = type(model).__name__, model._required_setting(), blocks.shape
    if lacks:
        raise ValueError(f"{who}: on row blocks only sums over rows are known: set {lacks}")
    boosts = hasattr(model, "learning_rate")
    if boosts and model.max_features not in (None, 1.0):
        raise ValueError(f"{who}: on row blocks no features are drawn: set max_features=1.0")
    depth, more, room = (model.max_depth or "some", 2, 60) if boosts else (
        1 if model.base == "stump" else model.max_depth or "some", 3, 44)  # fmt: skip
    passes = f"it is read 3 times, then a tree takes {depth} + {more} passes over up to "
    passes += f"{n * (d + room):,} bytes"
    is_weighted = check_blocks(model, blocks, y, sample_weight, passes)
    rng = np.random.default_rng(model._seed())
    if boosts:
        return model._boost(blocks, model._check_features(), is_weighted, rng)
    return model._boost(blocks, is_weighted, rng)

"""Diversity: how much the members of an ensemble differ, for all pairs at once.

Measures  Two members sort the n rows into a (both vote +), b (+ and -), c (- and +), d (both -).

          disagreement   (b + c) / n                                    0 equal .. 1 opposed
          correlation    (ad - bc) / sqrt((a+b)(a+c)(c+d)(b+d))         1 equal .. -1 opposed
          q_statistic    (ad - bc) / (ad + bc)                          1 .. -1
          kappa          (p1 - p2) / (1 - p2)                           1 equal, 0 as by chance
                         p1 = (a+d) / n, p2 = ((a+b)(a+c) + (c+d)(b+d)) / n^2
          double_fault   fraction of rows where both are wrong          0 .. 1

          One product of the vote matrix with itself gives all tables: O(n T^2), the speed of BLAS.
          exclusivity compares coefficients instead of votes; ambiguity is the mean squared error of
          the members minus that of the vote; margins and error_covariance are of the whole vote;
          averages are those of an ensemble, and kappa_error_figure draws the pairs of several.
Reference Zhang, "Ensemble learning" (a chapter of lecture notes), Table 2, Theorem 2, equations
          (4)-(8), Figure 2; Kuncheva, Whitaker, "Measures of Diversity in Classifier Ensembles",
          Machine Learning 2003; Guo, Wang, Ling, "Exclusivity Regularized Machine", IJCAI 2017,
          definitions 1-2; Wang, Yao, "The Effectiveness of A New Negative Correlation Learning
          Algorithm for Classification Ensembles", 2010 (covariance of the errors).
Departs   The denominators of correlation and Q are 0 exactly if a member votes the same on all
          rows: the value is then 1 against an equal member, -1 against an opposed one, 0 against
          any other. That of kappa is 0 if two such members are equal: 1. No measure is NaN.
Votes     Outputs, real numbers of which those >= 0 vote +; or labels of two values, numbers, texts
          or False/True, of which the larger one votes +. y holds the same two labels, -1/+1, 0/1 or
          False/True. Numbers with fractions, or floats of both signs, are outputs: pass
          probabilities p as 2 p - 1. With more than two classes the tables can count right and
          wrong instead of + and -: pass votes == y[:, None], with True for y.
Symbols   paper      here       meaning                                     shape
          h_t(x_i)   votes      outputs or labels of the members            (n, T)
          alpha_t    weights    of the members in the vote, >= 0            (T,)
          y_i        y          labels of the rows                          (n,)
Use       values = pairwise(model.votes(X), y == model.classes_[1]); over_pairs(values["kappa"])
Origin    ensolve, solvers/diversity.py, MIT licence
"""

from typing import NamedTuple

import numpy as np

PRODUCT_ROWS = 2**16  # Rows per matrix product, whose counts are then exact in float32.
LOOKS = (  # Colours and markers of ensembles in a diagram; in grey print the markers still differ.
    ("#000000", "o"), ("#0072b2", "s"), ("#d55e00", "^"), ("#009e73", "D"), ("#8c3f7a", "v"),
    ("#7f6000", "P"), ("#56b4e9", "X"), ("#808080", "p"),
)  # fmt: skip
MAX_ABS = 1e150  # Larger numbers are refused: sums of their squares have to be finite.


# -- pairs of members -----------------------------------------------------------------------------
def disagreement(votes):
    """Fraction of rows on which two members vote differently, (T, T)."""
    return _disagreement(*_tables(votes)[0])


def correlation(votes):
    """Correlation coefficient of two members' votes, (T, T)."""
    return _correlation(*_tables(votes)[0])


def q_statistic(votes):
    """Yule's Q of two members' votes, (T, T)."""
    return _q_statistic(*_tables(votes)[0])


def kappa(votes):
    """Agreement of two members beyond that of chance, (T, T)."""
    return _kappa(*_tables(votes)[0])


def double_fault(votes, y):
    """Fraction of rows on which two members are both wrong, (T, T)."""
    return _tables(votes, y)[1]


def pairwise(votes, y=None):
    """All measures as a dict: name -> (T, T) array; double_fault only if y is given."""
    table, both_wrong = _tables(votes, y)
    return _measures(table) if y is None else _measures(table) | {"double_fault": both_wrong}


def over_pairs(values):
    """Entries (t, k), t < k, of a (T, T) measure as a vector: each pair of members once."""
    return values[np.triu_indices(len(values), 1)]


def kappa_error(votes, y):
    """Points of the kappa-error diagram, one for each pair: kappa and the mean error of both."""
    (a, b, c, d), both_wrong = _tables(votes, y)
    error = np.diag(both_wrong)
    return over_pairs(_kappa(a, b, c, d)), over_pairs(0.5 * (error[:, None] + error))


def averages(votes, y, weights=None):
    """Means as a dict: of every measure over the pairs, of the members' errors, and of the
    ambiguity of their -1/+1 votes with `weights` (None: equal ones)."""
    read = _read(votes, y)
    T = read.votes.shape[1]
    if T < 2:
        raise ValueError("averages over pairs of members need two members, got one")

    # Small ensembles spend most time on allocating memory: the ambiguity is computed in one array,
    # and only the pairs of the tables are stored.
    weights = _weights(weights, T)
    weights = weights / weights.sum()
    apart = np.where(read.votes >= read.least, 1.0, -1.0)
    apart -= (apart @ weights)[:, None]
    apart *= apart
    mean_ambiguity = float((apart @ weights).mean())
    del apart
    counts, both_wrong = _count(*read)
    pairs = np.flatnonzero(~np.tri(T, dtype=bool))  # Of `over_pairs`.
    counts = [count.take(pairs) for count in counts]
    values = _measures(counts) | {"double_fault": both_wrong.take(pairs)}
    means = {name: float(value.sum() / value.size) for name, value in values.items()}
    member_error = float(np.diag(both_wrong).mean())
    return means | {"member_error": member_error, "ambiguity": mean_ambiguity}


def kappa_error_figure(clouds, title, errors=None):
    """Kappa-error diagram as a Figure of matplotlib: a dot per pair, a mark per ensemble's centre.

    `clouds` holds the points of kappa_error by the ensemble's name, `errors` the errors of the
    ensembles themselves, each joined to the centre by a line.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        text = "the diagram needs matplotlib: pip install matplotlib, or -e '.[plot]' in a checkout"
        raise ImportError(text) from None
    figure = Figure(figsize=(6.4, 5.2), layout="constrained")
    axes = figure.add_subplot(
        xlabel="kappa, agreement of two members beyond chance", ylabel="mean error of the two"
    )
    axes.set_title(title, wrap=True)

    # The dots of all ensembles, then their centres above the dots, then the ensembles.
    looks = [LOOKS[k % len(LOOKS)] for k in range(len(clouds))]
    for (colour, marker), (kappas, points) in zip(looks, clouds.values(), strict=True):
        size, solid = (9, 0.25) if len(kappas) > 500 else (25, 0.5)
        dots = {"s": size, "alpha": solid, "linewidths": 0, "rasterized": True}
        axes.scatter(kappas, points, color=colour, marker=marker, **dots)
    for (colour, marker), (name, (kappas, points)) in zip(looks, clouds.items(), strict=True):
        centre = {"s": 110, "edgecolors": "white", "linewidths": 1.5, "zorder": 3}
        label = f"{name}, {len(kappas):,} pair{'s' * (len(kappas) > 1)}"
        place = np.mean(kappas), np.mean(points)
        axes.scatter(*place, color=colour, marker=marker, label=label, **centre)
        if errors:
            ends = [place[0]] * 2, [place[1], errors[name]]
            ring = {"markersize": 9, "markerfacecolor": "white", "markeredgewidth": 2}
            axes.plot(*ends, color=colour, marker=marker, markevery=[1], zorder=4, **ring)
    axes.grid(alpha=0.3)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    if errors:
        ring = {"marker": "o", "markersize": 9, "markerfacecolor": "white", "markeredgewidth": 2}
        axes.plot([], [], color="black", label="empty: the whole ensemble", **ring)
    if clouds:
        _put_legend(figure)
    return figure


def _put_legend(figure):
    """Put a legend below the axes, in the largest number of columns that fits, up to 3."""
    for columns in (3, 2, 1):
        place = {"loc": "outside lower center", "frameon": False}
        legend = figure.legend(ncols=columns, **place)
        figure.draw_without_rendering()
        box = legend.get_window_extent()
        if box.x0 >= 0 and box.x1 <= figure.bbox.x1 or columns == 1:
            return
        legend.remove()


def exclusivity(coef, relaxed=False):
    """Features that two coefficient rows both use, (T, T); relaxed: sum of |u_j| |v_j|."""
    coef = _matrix(coef, "coef", "one row of coefficients per member")
    sizes = np.abs(coef) if relaxed else (coef != 0).astype(np.float64)
    return sizes @ sizes.T


# -- the whole vote -------------------------------------------------------------------------------
class Decomposition(NamedTuple):
    """Squared errors of each row, (n,): ensemble = members - ambiguity."""

    ensemble: np.ndarray
    members: np.ndarray
    ambiguity: np.ndarray


def ambiguity(votes, weights, y):
    """Error-ambiguity decomposition, eq. (4): (H-y)^2 = sum a (h-y)^2 - sum a (h-H)^2.

    H is the mean of the votes with `weights` (None: equal ones). Votes and y are any numbers.
    """
    votes = _matrix(votes, "votes", "one column per member")
    weights = _weights(weights, votes.shape[1])
    weights = weights / weights.sum()
    y = _column(y, len(votes), kinds="biuf").astype(np.float64)
    H = votes @ weights
    return Decomposition(
        (H - y) ** 2, (votes - y[:, None]) ** 2 @ weights, (votes - H[:, None]) ** 2 @ weights
    )


def margins(votes, weights, y):
    """y times the weighted mean of the votes, (n,): in [-1, 1] if the votes are.

    y counts as -1/+1, and so do votes that are labels; outputs are not changed.
    """
    read = _read(votes, y)
    votes = _signed(read)
    weights = _weights(weights, votes.shape[1])
    return np.where(read.positive, 1.0, -1.0) * (votes @ weights) / weights.sum()


def error_covariance(runs, y, weights=None):
    """cov(h_t, H), (T - 1,), t = 2 .. T: of member t and the vote of those before it being right.

    `runs` holds the votes (n, T) of ensembles trained on samples of their own, `weights` their
    weights (T,) (None: equal ones). The covariance is taken over the runs at each row, then its
    mean over the rows. Only the members t of the shortest run count.
    """
    runs = [np.asarray(votes) for votes in runs]
    if len({len(votes) for votes in runs}) != 1:
        raise ValueError(f"runs must hold votes on the same rows, got {[len(v) for v in runs]}")
    weights = [None] * len(runs) if weights is None else list(weights)
    if len(weights) != len(runs):
        raise ValueError(f"weights must hold one array per run ({len(runs)}), got {len(weights)}")
    reads = [_read(votes, y) for votes in runs]
    T = min(read.votes.shape[1] for read in reads)

    # Number of runs in which member t, the vote before it, and both are right, at each row.
    member, vote, both = np.zeros((3, len(runs[0]), T - 1))
    for read, alpha in zip(reads, weights, strict=True):
        votes = _signed(read)
        positive = read.positive[:, None]
        sums = np.cumsum(votes * _weights(alpha, votes.shape[1]), axis=1)
        h = (votes[:, 1:T] >= 0) == positive
        H = (sums[:, : T - 1] >= 0) == positive
        member += h
        vote += H
        both += h & H
    return (both / len(runs) - member * vote / len(runs) ** 2).mean(0)


# -- tables ---------------------------------------------------------------------------------------
def _measures(table):
    """Measures of the counts a, b, c, d alone, as a dict."""
    return {
        "disagreement": _disagreement(*table),
        "correlation": _correlation(*table),
        "q_statistic": _q_statistic(*table),
        "kappa": _kappa(*table),
    }


def _tables(votes, y=None):
    """Counts a, b, c, d of all pairs and fraction of rows where both are wrong, (T, T) each."""
    return _count(*_read(votes, y))


def _count(votes, least, are_labels, positive):
    """Tables of the fields of `_Votes`, by a product of the votes with themselves per class."""
    n, T = votes.shape
    a = np.zeros((T, T))
    both_wrong = np.zeros((T, T))
    sums = np.zeros(T)
    for start in range(0, n, PRODUCT_ROWS):
        plus = votes[start : start + PRODUCT_ROWS] >= least
        groups = [(plus, False)]
        if positive is not None:
            upper = positive[start : start + PRODUCT_ROWS]
            groups = [(plus[upper], True), (plus[~upper], False)]
        for rows, is_positive in groups:
            rows = rows.astype(np.float32)
            both = rows.T @ rows
            one = rows.sum(0, dtype=np.float64)
            a += both
            sums += one
            both_wrong += both
            if is_positive:
                both_wrong += len(rows) - one
                both_wrong -= one[:, None]
    b = sums[:, None] - a
    c = sums - a
    d = n - a
    d -= b
    d -= c
    both_wrong /= n
    return (a, b, c, d), both_wrong


def _disagreement(a, b, c, d):
    return (b + c) / (a + b + c + d)


def _correlation(a, b, c, d):
    return _ratio(a * d - b * c, np.sqrt((a + b) * (a + c) * (c + d) * (b + d)), a, b, c, d)


def _q_statistic(a, b, c, d):
    return _ratio(a * d - b * c, a * d + b * c, a, b, c, d)


def _kappa(a, b, c, d):
    n = a + b + c + d
    chance = ((a + b) * (a + c) + (c + d) * (b + d)) / n**2
    equal = b + c == 0  # It is also the only case of chance = 1.
    return np.where(equal, 1.0, ((a + d) / n - chance) / np.where(equal, 1.0, 1.0 - chance))


def _ratio(above, below, a, b, c, d):
    """above / below; if a member is constant: 1 if the two are equal, -1 if opposed, else 0."""
    constant = np.where(b + c == 0, 1.0, np.where(a + d == 0, -1.0, 0.0))
    return np.where(below == 0, constant, above / np.where(below == 0, 1.0, below))


# -- reading --------------------------------------------------------------------------------------
class _Votes(NamedTuple):
    """Votes (n, T), + if >= least; are_labels, else outputs; positive (n,), True where y is +."""

    votes: np.ndarray
    least: object
    are_labels: bool
    positive: np.ndarray | None


def _read(votes, y=None):
    """Votes and y, or None, as + and - by the rules at the top of the file."""
    votes = _matrix(votes, "votes", "one column per member", kinds="biufUS")
    labels = _two_labels(votes)
    text = votes.dtype.kind in "US"
    y = None if y is None else _column(y, len(votes))

    # Floats of one value, or with fractions, are labels only if y has the same.
    unsure = votes.dtype.kind == "f" and labels is not None
    unsure = unsure and (len(labels) == 1 or _has_fractions(votes))
    if y is None:
        least, positive = _least(labels), None
    elif y.dtype.kind == "b":
        if text and len(labels) == 1:
            raise ValueError(f"all votes are {labels[0]!r}: pass y with labels of the same kind")
        labels = None if unsure else labels
        least, positive = _least(labels), y
    else:
        labels, least, positive = _read_labels(labels, text, unsure, y)
    if text:
        votes = votes == least
        least = True
    return _Votes(votes, least, labels is not None, positive)


def _read_labels(labels, text, unsure, y):
    """Labels of the votes (None: outputs), the least + among the votes, and where y, which holds
    labels, is +."""
    own = np.unique(y).tolist()
    if len(own) > 2:
        text = f"y must hold labels of two classes, got {_shown(own)}; pass "
        raise ValueError(f"{text}y == model.classes_[1], or votes == y[:, None] with True for y")
    alike = labels is not None and text == (y.dtype.kind in "US")
    together = sorted({*labels, *own}) if alike else []
    if alike and not unsure and {*labels} <= {0, 1} and -1 in own and {*own} <= {-1, 1}:
        return labels, _least(labels), y > 0
    if alike and len(together) <= 2:
        return labels, together[-1], y == together[-1]
    if labels is None or unsure:
        return None, 0.0, y == own[1] if len(own) == 2 else _sign(y, own[0])
    text = f"votes hold the labels {_shown(labels)} and y {_shown(own)}: these must be the same"
    raise ValueError(f"{text}, or y must be True where the larger one is right")


def _two_labels(votes):
    """The one or two values of votes that are labels, in order; None for outputs."""
    kind = votes.dtype.kind
    if kind in "US":
        values = np.unique(votes).tolist()
    else:
        low, high = votes.min().item(), votes.max().item()
        if kind == "f" and low < 0 <= high:
            return None  # The usual case takes one pass over the matrix.
        between = votes[(votes != low) & (votes != high)]
        values = sorted({low, high}) + between[:1].tolist()
        if len(values) == 2 and low < 0 <= high:
            return None  # These are -1/+1 in whole numbers: the sign is the vote, as of outputs.
    if len(values) > 2 and not _has_fractions(votes):
        text = "votes must be labels of two classes, or floats of which those >= 0 vote +; got"
        text += f" more than two labels: {_shown(sorted(values))}; votes == y[:, None] count right"
        raise ValueError(f"{text} and wrong")
    return values if len(values) <= 2 else None


def _least(labels):
    """Least vote that is a +, without y: 0 of outputs, the larger of labels."""
    if labels is None:
        return 0.0
    one_number = len(labels) == 1 and not isinstance(labels[0], str | bytes)
    return 1 if one_number else labels[-1]


def _sign(y, label):
    """Boolean array (n,), True if y, all of which are this label, is +."""
    if label not in (-1, 0, 1):
        raise ValueError(f"all of y are {label!r}: pass y == model.classes_[1]")
    return np.full(y.shape, label == 1)


def _signed(read):
    """Labels as -1.0/+1.0, outputs unchanged, (n, T) float64."""
    if read.are_labels:
        return np.where(read.votes >= read.least, 1.0, -1.0)
    return read.votes.astype(np.float64, copy=False)


def _has_fractions(votes):
    return votes.dtype.kind == "f" and bool((votes != np.rint(votes)).any())


def _shown(labels):
    return ", ".join(repr(label) for label in labels[:5]) + ", ..." * (len(labels) > 5)


# -- checks ---------------------------------------------------------------------------------------
def _matrix(values, name, layout, kinds="biuf"):
    """Matrix with at least one row and one column, its numbers finite and below MAX_ABS."""
    values = _typed(values)
    if values.ndim != 2 or 0 in values.shape or values.dtype.kind not in kinds:
        content = "numbers or labels" if "U" in kinds else "numbers"
        text = f"{name} must be a matrix of {content}, {layout}; got shape {values.shape}, "
        raise ValueError(f"{text}dtype {values.dtype}")
    if values.dtype.kind == "f":
        _check_size(values, name)
    return values if "U" in kinds else values.astype(np.float64, copy=False)


def _column(y, n, kinds="biufUS"):
    """Labels (n,) of the rows; numbers are finite."""
    y = _typed(y)
    if y.shape != (n,):
        raise ValueError(f"y must have shape ({n},) like the rows of votes, got {y.shape}")
    if y.dtype.kind not in kinds:
        content = "numbers or texts" if "U" in kinds else "numbers"
        raise ValueError(f"y must hold {content}, got dtype {y.dtype}")
    if y.dtype.kind == "f":
        _check_size(y, "y")
    return y


def _typed(values):
    """Values as an array; objects, such as columns of a frame, get the type that they have."""
    values = np.asarray(values)
    return np.array(values.tolist()) if values.dtype == object else values


def _check_size(values, name):
    low, high = values.min().item(), values.max().item()
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    if max(-low, high) >= MAX_ABS:
        raise ValueError(f"{name} must be below {MAX_ABS:g} in size, got {low:g} to {high:g}")


def _weights(weights, T):
    """Weights (T,), ones for None, times a power of 2 against overflow of their sum."""
    weights = np.ones(T) if weights is None else np.asarray(weights, dtype=np.float64)
    if weights.shape != (T,):
        raise ValueError(f"weights must have shape ({T},), one per member, got {weights.shape}")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError("weights must be finite, >= 0 and not all 0")
    return np.ldexp(weights, -np.frexp(weights.max())[1])


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    labels = generator.random(1000) < 0.5
    flips = generator.random((1000, 5)) < [0.1, 0.2, 0.2, 0.3, 0.4]
    outputs = np.where(flips, -1.0, 1.0) * np.where(labels, 1.0, -1.0)[:, None]
    for measure, table in pairwise(outputs, labels).items():
        print(f"{measure:12}", "  ".join(f"{value:6.3f}" for value in over_pairs(table)))
    error = ambiguity(outputs, None, np.where(labels, 1.0, -1.0))
    print(f"squared error {error.ensemble.mean():.3f} = members {error.members.mean():.3f} "
          f"- ambiguity {error.ambiguity.mean():.3f}")  # fmt: skip
    assert np.allclose(error.ensemble, error.members - error.ambiguity, atol=1e-12)

"""Figures: pictures of perf/study/pictures.py, drawn with matplotlib.

    figure = draw(picture)

A figure is made of the picture's dict alone. Curves are told apart by colour, dashes and marker, so
that a grey print can be read. Bands show how much trials differ. The legend stands below the axes,
in as many columns as fit.
"""

import textwrap

import numpy as np

from perf.plot import STYLES
from perf.study.report import NAME, cut

SIZE, SQUARE = (7.2, 4.6), (6.4, 5.4)  # inches
WIDTH, MARK, SMALL = 1.8, 5, 9  # of lines, markers and small letters, in points
LETTERS = 9  # of the title to an inch
MARKERS = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D"}
SHADE = 0.18  # opacity of a band
LEAST_GAP = 1e-16  # smaller gaps are rounding, and drawn here
CURVES = {"train": "training rows", "test": "test rows"}
SHORT, LONG = 150, 1e4  # ranges of a logarithmic axis with few or with many powers of ten
TIE = 1e-6  # what a tie counts for, of the largest value, so that its border can be seen
GUIDE = {"color": "0.45", "linewidth": 1, "linestyle": ":"}  # lines that are no curves


def need_matplotlib():
    """Return what makes a figure, or say how to get it."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        text = "pictures need matplotlib: pip install matplotlib, or -e '.[plot]' in a checkout"
        raise ImportError(text) from None
    return Figure


def draw(picture):
    """Return the Figure of a picture."""
    return DRAWN.get(picture["kind"], effect)(picture)


# -- kinds -----------------------------------------------------------------------------------------


def convergence(picture):
    """Gap against iteration and against time, a curve a solver."""
    figure = _figure(picture, "how fast the gap closes", "median", "all of them")
    panels = figure.subplots(1, 2, sharey=True)
    ends = [curve[-1][1] for run in picture["runs"] for curve in run["curves"].values() if curve]
    (unit, factor), lowest = _unit(ends), []
    for k, name in enumerate(picture["runs"][0]["curves"]):
        runs = [run["curves"][name] for run in picture["runs"] if run["curves"][name]]
        if runs:
            iterations, seconds, gaps = _held(runs)
            middle = np.median(gaps, axis=0)
            lowest.extend(middle[np.isfinite(middle)])
            for axes, x in zip(panels, (iterations, factor * seconds), strict=True):
                _curve(axes, k, x, middle, gaps.min(axis=0), gaps.max(axis=0), name)
    tol = picture["runs"][0]["tol"]
    for axes, label in zip(
        panels, ("iteration", f"time ({unit}), medians of the steps"), strict=True
    ):
        axes.axhline(tol, label=f"asked for: {tol:g}", **GUIDE)
        axes.set_xlabel(label)
        _log(axes, "xy")
    panels[0].set_ylim(min(tol, *lowest) / 5)  # of a band, one lucky trial is no reason for more
    panels[0].set_ylabel("certified gap, relative to the objective")
    return _legend(figure)


def _held(runs):
    """Iterations, (m,), seconds until then, (m,), and gaps, (trials, m), of all trials.

    They begin where all trials have a point. A trial that has ended keeps its last gap. The seconds
    of each step are the median of those trials that made it, as a pause in one is no matter of the
    method, and are summed up.
    """
    spots = [[point[0] for point in run] for run in runs]
    iterations = np.unique(np.concatenate(spots))
    iterations = iterations[iterations >= max(run[0] for run in spots)]
    held = np.array([
        np.array(run, dtype=float)[np.searchsorted(spot, iterations, side="right") - 1]
        for run, spot in zip(runs, spots, strict=True)
    ])  # fmt: skip
    steps = np.diff(held[:, :, 1], axis=1, prepend=0.0)
    ended = iterations > np.array([[spot[-1]] for spot in spots])
    seconds = np.cumsum(np.nanmedian(np.where(ended, np.nan, steps), axis=0))
    return iterations, seconds, np.maximum(held[:, :, 2], LEAST_GAP)


def members(picture):
    """Error against the number of members."""
    figure = _figure(picture, "error by the number of members")
    axes = figure.subplots()
    for k, (part, label) in enumerate(CURVES.items()):
        runs = [run[part] for run in picture["runs"]]
        most = max(map(len, runs))
        rows = np.array([run + run[-1:] * (most - len(run)) for run in runs])  # ended: complete
        _spread(axes, k, np.arange(1, most + 1), rows, label)
    axes.set(xlabel="number of members", ylabel="error")
    axes.xaxis.get_major_locator().set_params(integer=True)
    _percent(axes)
    return _legend(figure)


def margins(picture):
    """Distribution of the margins."""
    figure = _figure(picture, "margins of the vote")
    axes, runs = figure.subplots(), picture["runs"]
    for k, (part, label) in enumerate(CURVES.items()):
        _spread(axes, k, runs[0]["at"], np.array([run[part] for run in runs]), label)
    axes.axvline(0, label="left of it: wrong", **GUIDE)
    unit = "the largest |f| on training rows" if runs[0]["scaled"] else "sum of the weights"
    axes.set(xlabel=f"margin, y f(x) / {unit}", ylabel="share of rows with at most this margin")
    axes.set_xlim(-1, 1)
    _percent(axes)
    return _legend(figure)


def effect(picture):
    """Error, and disagreement of the members, against the values of a parameter."""
    kind, values, differ = picture["kind"], picture["values"], picture["disagreement"]
    figure = _figure(picture, f"the effect of {kind}")
    panels = np.atleast_1d(figure.subplots(1, 2 if differ else 1))
    for k, (part, label) in enumerate(CURVES.items()):
        _spread(panels[0], k, values, np.array(picture[part]).T, label)
    panels[0].set_ylabel("error")
    if differ:
        _spread(panels[1], 2, values, np.array(differ).T, "disagreement")
        panels[1].set_ylabel("disagreement of members, test rows")
    for axes in panels:
        axes.set_xlabel(kind)
        if picture["own"] is not None:
            own = f"{kind} of the run: {picture['own']:g}"
            axes.axvline(picture["own"], label=own, **GUIDE)
        if min(values) > 0 and max(values) > 20 * min(values):
            _log(axes, "x")
        _percent(axes)
    return _legend(figure)


def times(picture):
    """Training time against the number of rows."""
    figure = _figure(picture, "training time", "median", "the middle half of them")
    axes, rows = figure.subplots(), np.array(picture["rows"])
    unit, factor = _unit(np.concatenate(picture["seconds"]))
    parts = [np.percentile(some, (25, 50, 75)) for some in picture["seconds"]]
    low, middle, high = factor * np.transpose(parts)
    half = slice((len(rows) - 1) // 2, None)
    slope, _ = np.polyfit(np.log(rows[half]), np.log(middle[half]), 1)
    label = f"one fit; on the larger half it grows as rows^{slope:.2f}"
    _curve(axes, 0, rows, middle, low, high, label)
    axes.set(xlabel="rows for training", ylabel=f"time of a fit ({unit})")
    _log(axes, "xy")
    return _legend(figure)


def boundary(picture):
    """Training rows, and where the decision is 0."""
    figure = _figure(picture | {"trials": 1}, "decision boundary", size=SQUARE)
    axes, decision = figure.subplots(), np.array(picture["decision"])
    x, y = picture["axes"]
    sides = decision >= 0  # in light grey what is given to the second class
    axes.contourf(x, y, sides, levels=[-0.5, 0.5, 1.5], colors=["#ffffff", "#dcdcdc"])
    for vote in map(np.array, picture["members"]):
        _border(axes, x, y, vote, "0.35", 0.8)
    _border(axes, x, y, decision, "black", 2.2)
    points, labels = np.array(picture["points"]).reshape(-1, 2), np.array(picture["labels"])
    looks = {"edgecolors": "white", "linewidths": 0.6, "zorder": 3}
    for k, (name, style) in enumerate(zip(picture["classes"], STYLES[1:3], strict=True)):
        colour, _, marker = style
        own = points[labels == k]
        ground = "grey" if k else "white"
        label = f"class {cut(name, NAME)}, predicted where the ground is {ground}"
        axes.scatter(*own.T, s=34, c=colour, marker=MARKERS[marker], label=label, **looks)
    axes.plot([], [], color="black", linewidth=2.2, label="the decision is 0")
    if picture["members"]:
        label = f"the same of the {len(picture['members'])} members"
        axes.plot([], [], color="0.35", linewidth=0.8, label=label)
    across, up = (cut(name, 2 * NAME) for name in picture["features"])
    axes.set(xlabel=across, ylabel=up)
    return _legend(figure)


def _border(axes, x, y, values, colour, width):
    """Draw where values change their sign, if they do; 0, as of votes that tie, is positive."""
    if values.min() < 0 <= values.max():
        values = np.where(values == 0, TIE * abs(values).max(), values)
        axes.contour(x, y, values, levels=[0.0], colors=[colour], linewidths=[width])


DRAWN = {
    "convergence": convergence,
    "members": members,
    "margins": margins,
    "boundary": boundary,
    "time": times,
}


# -- style -----------------------------------------------------------------------------------------


def _figure(picture, what, line="mean", band="standard deviation", size=SIZE):
    """An empty figure with its title: method, data, what is shown, and what lines and bands are."""
    figure = need_matplotlib()(figsize=size, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.06)
    title = textwrap.fill(
        f"{picture['method']} on {picture['data']}: {what}", int(LETTERS * size[0])
    )
    if picture["trials"] > 1:
        title += f"\nline: {line} of {picture['trials']} trials, band: {band}"
    figure.suptitle(title, fontsize=11)
    return figure


def _spread(axes, k, x, rows, label):
    """Draw the mean of rows, one a trial, and a band of their standard deviation."""
    middle = rows.mean(axis=0)
    wide = rows.std(axis=0, ddof=1) if len(rows) > 1 else np.zeros_like(middle)
    _curve(axes, k, x, middle, np.maximum(middle - wide, 0), np.minimum(middle + wide, 1), label)


def _curve(axes, k, x, middle, low, high, label):
    """Draw curve number k and its band."""
    colour, dashes, marker = STYLES[k % len(STYLES)]
    line = {"linewidth": WIDTH, "marker": MARKERS[marker], "markersize": MARK}
    if dashes:
        line["linestyle"] = (0, [float(part) / WIDTH for part in dashes.split()])
    many = len(x) // 8 if len(x) > 16 else 1
    axes.plot(x, middle, color=colour, label=label, markevery=(k * many // 4, many), **line)
    axes.fill_between(x, low, high, color=colour, alpha=SHADE, linewidth=0)
    axes.grid(True, alpha=0.3)


def _percent(axes):
    """Write shares in per cent, from 0 on, with air below for what is 0."""
    top = max(axes.get_ylim()[1], 0.05)
    axes.set_ylim(-0.03 * top, top)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")


def _log(axes, names):
    """Make the axes "x", "y" or "xy" logarithmic; a short one has numbers between the powers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set(**{f"{name}scale": "log" for name in names})
    for axis in (getattr(axes, f"{name}axis") for name in names):
        low, high = axis.get_view_interval()
        if high < LONG * low:
            axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < SHORT * low else (1,)))
            axis.set_major_formatter(lambda value, _: f"{value:g}")
            axis.set_minor_formatter(NullFormatter())


def _unit(seconds):
    """The unit in which times are told, and how many of it a second has."""
    return ("s", 1) if np.max(seconds) >= 1 else ("ms", 1000)


def _legend(figure):
    """Put one legend below all axes, in as many columns as the figure is wide."""
    known = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            known.setdefault(label, handle)
    for columns in range(min(len(known), 4), 0, -1):
        legend = figure.legend(
            known.values(), known, ncols=columns, loc="outside lower center", frameon=False,
            fontsize=SMALL, handlelength=3.2,
        )  # fmt: skip
        figure.draw_without_rendering()
        box = legend.get_window_extent()
        if columns == 1 or (box.x0 >= 0 and box.x1 <= figure.bbox.x1):
            return figure
        legend.remove()

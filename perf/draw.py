"""Drawings as SVG text, written with the standard library alone: equal bytes everywhere.

    svg = figure([[Panel("sonar", "rows", "seconds", {"ours": [(10, 1.0), (20, 2.1)]})]])
    svg = picture(record)             what --plot shows, from a record of perf/study/pictures.py
    svg = row_chart(title, ...)       a chart inside report.html, coloured by its style sheet
    svg = standalone(svg)             such a chart as a file, light or dark as the reader prefers
    as_matplotlib(svg).savefig(...)   a drawing as .png or .pdf

Curves differ in colour, dashes and marker, so that a grey print can be read. Charts are WIDE units
wide, as a phone is: names stand above their marks and are broken into lines.
"""

import bisect
import itertools
import math
import re
import statistics
import textwrap
from collections.abc import Mapping
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from xml.etree import ElementTree

from perf.text import abbreviate, plain

STYLES = (  # Colour, dashes, marker.
    ("#000000", "", "circle"),
    ("#0072b2", "7 3", "square"),
    ("#d55e00", "2 3", "triangle"),
    ("#009e73", "10 3 2 3", "diamond"),
    ("#8c3f7a", "4 2", "circle"),
    ("#7f6000", "1 2", "square"),
)
MARKERS = {  # Corners around the origin.
    "square": ((-4, -4), (4, -4), (4, 4), (-4, 4)),
    "triangle": ((0, -5), (5, 4), (-5, 4)),
    "diamond": ((0, -5.5), (5.5, 0), (0, 5.5), (-5.5, 0)),
}
LEFT, TOP, BOTTOM, BETWEEN = 84, 30, 46, 34  # Pixels around and between panels.
LETTER = 6.8  # Pixels per letter of 12 pixels' height, on average.
SIZE, LINE = 12, 16  # Heights of letters and of lines of text.
NOTHING = MappingProxyType({})
ANCHOR = 'text-anchor="start"'
GUIDE = 'fill="none" stroke="#737373" stroke-dasharray="1 3"'  # Lines that are no curves.


class Panel(NamedTuple):
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    curves: dict  # name: [(x, y), ...]
    bands: Mapping = NOTHING  # Name of a curve: [(x, low, high), ...], shaded.
    dots: tuple = ()  # Names of the curves that are points without a line.
    shapes: Mapping = NOTHING  # name: (SVG attributes, [[(x, y), ...], ...]), lines below curves.
    # Infinite coordinates are ends of the axes; "" has no place in the legend.


class Map(NamedTuple):
    """A square of cells, some of them shaded, with points of two kinds on it."""

    title: str
    shaded: list  # [row from below, first column, last column + 1], ...
    dots: list  # (x, y) in cells
    crosses: list


class Scale(NamedTuple):
    """An axis: values from low to high stand at pixels from start to end."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    def at(self, value):
        if math.isinf(value):
            return self.start if value < 0 else self.end
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.start + (self.end - self.start) * (value - low) / (high - low)

    def ticks(self):
        """Values to label: round ones, about four of them."""
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for digits in ((1,), (1, 3), (1, 2, 5)):
                values = [float(f"{digit}e{power}") for power in powers for digit in digits]
                values = [value for value in values if self.low <= value <= self.high]
                if len(values) >= 3:
                    break
            return values[:: len(values) // 8 + 1]
        rough = (self.high - self.low) / 4
        power = 10.0 ** math.floor(math.log10(rough))
        spacing = power * min((1, 2, 5, 10), key=lambda digit: abs(digit * power - rough))
        first, last = math.ceil(self.low / spacing), math.floor(self.high / spacing)
        return [k * spacing for k in range(first, last + 1)]

    def few_ticks(self):
        return self.ticks()[:: -(-len(self.ticks()) // TICKS) or 1]


def limits(values, log):
    """Smallest and largest value, with some air around; at least a decade if logarithmic."""
    low, high = min(values), max(values)
    if log:
        air = max((high / low) ** 0.07, (10.0 * low / high) ** 0.5)
        return low / air, high * air
    air = 0.06 * (high - low) or 1.0
    return low - air, high + air


def banded(x, runs, low=-math.inf, high=math.inf):
    """Curve of means of runs, lists of len(x) values, and band of +- std within [low, high]."""
    curve, band = [], []
    for at, values in zip(x, zip(*runs, strict=True), strict=True):
        mean = statistics.fmean(values)
        std = statistics.stdev(values) if len(values) > 1 else 0.0
        curve.append((at, mean))
        band.append((at, max(mean - std, low), min(mean + std, high)))
    return curve, band


# -- panels ----------------------------------------------------------------------------------------


def figure(
    rows, log="", x_form="{:g}".format, y_form="{:g}".format, panel=(420, 260), title=(), include=()
):
    """Return the SVG of rows of panels with a legend beside them; a row shares its y axis.

    Axes in log, "", "x", "y" or "xy", are logarithmic; x_form and y_form write numbers. `panel` is
    width and height of one. Lines of `title` stand above all; every y axis shows `include`.
    """
    panels = list(itertools.chain(*rows))
    names = list(dict.fromkeys(name for one in panels for name in one.curves))
    styles = {name: STYLES[k % len(STYLES)] for k, name in enumerate(names)}
    lines = {k: look for one in panels for k, (look, _) in one.shapes.items() if k}
    (wide, high), above = panel, LINE * len(title) + 4 * bool(title)
    right = LEFT + len(rows[0]) * (wide + BETWEEN)
    width = right + 60 + LETTER * max(map(len, [*names, *lines]))
    elements = [_text(LEFT, LINE * k, text, ANCHOR) for k, text in enumerate(title, 1)]
    for i, row in enumerate(rows):
        top = above + i * (TOP + high + BOTTOM) + TOP
        ends = limits([*_coordinates(row, 1), *include], "y" in log)
        y = Scale(*ends, top + high, top, "y" in log)
        for j, one in enumerate(row):
            left = LEFT + j * (wide + BETWEEN)
            x = Scale(*limits([*_coordinates([one], 0)], "x" in log), left, left + wide, "x" in log)
            elements += _axes(one, x, y, x_form, y_form if j == 0 else None)
            elements += _contents(one, x, y, styles)
    dotted = {name for one in panels for name in one.dots}
    for k, name in enumerate([*names, *lines]):
        at = above + TOP + 10 + 22 * k
        if name in styles:
            ends = [(right + 17, at)] if name in dotted else [(right, at), (right + 34, at)]
            elements += _curve(ends, styles[name], name in dotted)
        else:
            elements.append(_path([[(right, at), (right + 34, at)]], lines[name]))
        elements.append(_text(right + 44, at + 4, name, ANCHOR))
    return _document(width, above + len(rows) * (TOP + high + BOTTOM), elements)


def maps(row, cells, side=280):
    """Return the SVG of maps with `cells` cells per side, next to each other; `side` in pixels."""
    elements, unit = [], side / cells
    for k, one in enumerate(row):
        left = BETWEEN + k * (side + BETWEEN)
        place = f"translate({left} {TOP + side}) scale({unit:.4f} {-unit:.4f})"
        runs = [f"M{a} {y}h{b - a}v1h{a - b}z" for y, a, b in one.shaded]
        dots = [f"M{x:.1f} {y:.1f}h0" for x, y in one.dots]
        crosses = [f"M{x - 1:.1f} {y:.1f}h2m-1 -1v2" for x, y in one.crosses]
        look = 'stroke="#000000" stroke-width="2" stroke-linecap="round"'
        elements += [
            _text(left + side / 2, TOP - 10, one.title, 'text-anchor="middle"'),
            f'<g transform="{place}" fill="none">',
            f'<path d="{"".join(runs)}" fill="#c9dff0"/>',
            f'<path d="{"".join(dots)}" {look}/>',
            f'<path d="{"".join(crosses)}" stroke="#d55e00" stroke-width="0.5"/>',
            f'<path d="M0 0h{cells}v{cells}h-{cells}z" stroke="#555555"/></g>',
        ]
    return _document(BETWEEN + len(row) * (side + BETWEEN), TOP + side + BETWEEN, elements)


def _document(width, height, elements):
    size = f'width="{width:.0f}" height="{height:.0f}"'
    look = f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="{SIZE}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {look}>'
    return "\n".join([head, f'<rect {size} fill="#ffffff"/>', *elements, "</svg>"]) + "\n"


def _coordinates(row, axis):
    """All finite coordinates of a row of panels on an axis, 0 or 1."""
    for one in row:
        yield from (point[axis] for curve in one.curves.values() for point in curve)
        if axis:
            yield from (y for band in one.bands.values() for _, *ends in band for y in ends)
        lines = itertools.chain(*(some for _, some in one.shapes.values()))
        yield from (point[axis] for line in lines for point in line if math.isfinite(point[axis]))


def _axes(one, x, y, x_form, y_form):
    """Frame, grid and labels of a panel; without y_form the y axis has no labels."""
    elements, middle = [], 'text-anchor="middle"'
    for value in x.ticks():
        at = x.at(value)
        elements.append(_line(at, y.start, at, y.end, 'stroke="#dddddd"'))
        elements.append(_text(at, y.start + 17, x_form(value), middle))
    for value in y.ticks():
        at = y.at(value)
        elements.append(_line(x.start, at, x.end, at, 'stroke="#dddddd"'))
        if y_form:
            elements.append(_text(x.start - 7, at + 4, y_form(value), 'text-anchor="end"'))
    elements.append(
        f'<rect x="{x.start:.1f}" y="{y.end:.1f}" width="{x.end - x.start:.1f}" '
        f'height="{y.start - y.end:.1f}" fill="none" stroke="#555555"/>'
    )
    centre = (x.start + x.end) / 2
    elements.append(_text(centre, y.end - 10, one.title, middle))
    elements.append(_text(centre, y.start + 36, one.x_label, middle))
    if y_form:
        at, label = (y.start + y.end) / 2, x.start - 66
        turn = f'{middle} transform="rotate(-90 {label:.1f} {at:.1f})"'
        elements.append(_text(label, at, one.y_label, turn))
    return elements


def _contents(one, x, y, styles):
    """Shapes, bands and curves of a panel."""
    elements = []
    for look, lines in one.shapes.values():
        elements.append(_path([[(x.at(a), y.at(b)) for a, b in line] for line in lines], look))
    for name, band in one.bands.items():
        edge = [(a, low) for a, low, _ in band] + [(a, high) for a, _, high in reversed(band)]
        points = _points([(x.at(a), y.at(b)) for a, b in edge])
        look = f'fill="{styles[name][0]}" fill-opacity="0.13"'
        elements.append(f'<polygon points="{points}" {look}/>')
    for name, curve in one.curves.items():
        points = [(x.at(a), y.at(b)) for a, b in curve]
        elements += _curve(points, styles[name], name in one.dots)
    return elements


def _curve(points, style, dotted):
    """A line through the points, markers on at most 8; dotted: small markers on all, no line."""
    colour, dashes, marker = style
    if dotted:
        shapes = "".join(_marker(x, y, colour, marker) for x, y in points)
        return [f'<g fill-opacity="0.5">{shapes}</g>']
    dash = f' stroke-dasharray="{dashes}"' if dashes else ""
    look = f'fill="none" stroke="{colour}" stroke-width="2"{dash}'
    line = f'<polyline points="{_points(points)}" {look}/>'
    return [line, *(_marker(x, y, colour, marker) for x, y in points[:: len(points) // 8 + 1])]


def _marker(x, y, colour, kind):
    if kind == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'
    corners = _points([(x + a, y + b) for a, b in MARKERS[kind]])
    return f'<polygon points="{corners}" fill="{colour}"/>'


# -- elements of SVG -------------------------------------------------------------------------------


def _points(points):
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _path(lines, look):
    """Several lines as one element."""
    steps = "".join("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in line) for line in lines)
    return f'<path d="{steps}" {look}/>'


def _line(x1, y1, x2, y2, look):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {look}/>'


def _text(x, y, text, look):
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{escape(plain(text))}</text>'


def need_matplotlib():
    """Return matplotlib's Figure; the error says how to install it."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        text = ".png and .pdf need matplotlib: pip install matplotlib, or -e '.[plot]'"
        raise ImportError(f"{text} in a checkout; .svg needs nothing") from None
    return Figure


def as_matplotlib(svg):
    """Return the matplotlib Figure of an SVG that `figure` or `picture` has drawn."""
    new_figure, root = need_matplotlib(), ElementTree.fromstring(svg)
    size = float(root.get("width")), float(root.get("height"))
    drawn = new_figure(figsize=(size[0] / 100, size[1] / 100))  # A pixel is 0.01 inch, 0.72 points.
    width, height = map(float, root.get("viewBox").split()[2:])
    axes = drawn.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    for group in (root, *root.findall("{*}g")):
        for element in group:
            tag = element.tag.partition("}")[2]
            if tag not in ("g", "style", "title"):
                given = group.attrib | _declarations(group, element) | element.attrib
                _add_artist(axes, tag, given, element.text, 0.72 * size[0] / width)
    return drawn


def _declarations(*elements):
    """CSS declarations of the classes of elements, in light colours."""
    names = " ".join(element.get("class", "") for element in elements).split()
    lines = [line for name in names for line in CLASSES[name].split("; ")]
    light = [re.sub(r"var\(--(\w+)\)", lambda name: COLOURS[name[1]], line) for line in lines]
    return dict(line.split(": ") for line in light)


def _add_artist(axes, tag, given, text, unit):
    """Add one element of SVG to matplotlib's axes; a pixel of it has `unit` points."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    given = {k: given["color"] if v == "currentColor" else v for k, v in given.items()}
    if tag == "text":
        sides = {"start": "left", "middle": "center", "end": "right"}
        how = {"ha": sides[given.get("text-anchor", "start")], "rotation_mode": "anchor"}
        how |= {"rotation": 90 * ("transform" in given), "color": given.get("fill", "black")}
        how |= {"family": "monospace"} if "monospace" in given.get("font-family", "") else {}
        place = float(given["x"]), float(given["y"])
        axes.text(*place, text or "", fontsize=unit * SIZE, parse_math=False, **how)
        return
    if tag == "circle":
        path = Path.circle((float(given["cx"]), float(given["cy"])), float(given["r"]))
    else:
        lines = [list(zip(line[::2], line[1::2], strict=True)) for line in _outline(tag, given)]
        codes = [code for line in lines for code in (1, *[2] * (len(line) - 1))]  # Move, line to.
        path = Path([point for line in lines for point in line] or [(0.0, 0.0)], codes or None)
    pixels = float(given.get("stroke-width", 1.0))
    dashes = [float(size) / pixels for size in given.get("stroke-dasharray", "").split()]
    fill = given.get("fill", "none" if tag in ("line", "path") else "black")
    alpha = float(given.get("fill-opacity", 1))
    look = {"facecolor": fill if fill == "none" else (fill, alpha), "linewidth": unit * pixels}
    look |= {"linestyle": (0, dashes) if dashes else "-", "edgecolor": given.get("stroke", "none")}
    look |= {"alpha": float(given["opacity"])} if "opacity" in given else {}
    axes.add_patch(PathPatch(path, capstyle=given.get("stroke-linecap", "butt"), **look))


def _outline(tag, given):
    """Lines of an element, lists x, y, x, y, ...; filled ones are closed by their filling."""
    if tag == "line":
        return [[float(given[key]) for key in ("x1", "y1", "x2", "y2")]]
    if tag == "rect":
        x, y, width, height = (float(given.get(key, 0)) for key in ("x", "y", "width", "height"))
        return [[x, y, x + width, y, x + width, y + height, x, y + height, x, y]]
    lines = [given["points"]] if "points" in given else given["d"].split("M")[1:]
    lines = [re.sub(r"(\S+) (\S+)h0", r"\1 \2 \1.3 \2.3", line) for line in lines]  # Dots.
    return [[float(one) for one in re.findall(r"-?[\d.]+", line)] for line in lines]


# -- pictures of one method ------------------------------------------------------------------------

LEAST_GAP = 1e-16  # Smaller gaps are rounding, and drawn here.
CURVES = {"train": "training rows", "test": "test rows"}
NAME = 48  # Letters of a name in a picture.
MOST_PAIRS = 500  # Pairs of members that are drawn per method.


def picture(record):
    """Return the SVG of a record of a picture."""
    return PICTURES.get(record["kind"], _effect)(record)


def _titled(record, shows, line="mean", band="standard deviation"):
    """Lines of the title: method, data, contents, meaning of lines and bands."""
    name = abbreviate(record["data"], NAME)
    lines = textwrap.wrap(f"{record['method']} on {name}: {shows}", 72)
    if record["trials"] > 1:
        lines.append(f"line: {line} of {record['trials']} trials, band: {band}")
    return lines


def _convergence(record):
    """Gap against iteration and against time, one curve per solver."""
    runs, tol = record["runs"], record["runs"][0]["tol"]
    longest = max(curve[-1][1] for run in runs for curve in run["curves"].values() if curve)
    unit, factor = ("s", 1.0) if longest >= 1 else ("ms", 1000.0)
    found = {name: _medians([run["curves"][name] for run in runs if run["curves"][name]])
             for name in runs[0]["curves"]}  # fmt: skip
    found = {name: points for name, points in found.items() if points}
    lowest = min(tol, *(point[2] for points in found.values() for point in points)) / 5
    guide, row = {f"tol = {tol:g}": (GUIDE, [[(-math.inf, tol), (math.inf, tol)]])}, []
    axes = ("iteration", 1.0), (f"time ({unit}), medians of the steps", factor)
    for k, (label, x) in enumerate(axes):
        curves = {name: [(x * p[k], p[2]) for p in points] for name, points in found.items()}
        bands = {name: [(x * p[k], max(p[3], lowest), p[4]) for p in points]  # One lucky trial.
                 for name, points in found.items()}  # fmt: skip
        row.append(Panel("", label, "gap, relative to the objective", curves, bands, shapes=guide))
    title = _titled(record, "how fast the gap closes", "median", "all of them")
    return figure([row], "xy", title=title, panel=(330, 260))


def _medians(runs):
    """(iteration, seconds, median, smallest and largest gap) where all runs have begun.

    A run that has ended keeps its last gap. Seconds are sums of the median time of a step.
    """
    points, seconds, before = [], 0.0, [0.0] * len(runs)
    for iteration in sorted({point[0] for run in runs for point in run}):
        if iteration < max(run[0][0] for run in runs):
            continue
        held = [run[bisect.bisect([one[0] for one in run], iteration) - 1] for run in runs]
        steps = [now[1] - then for now, then, run in zip(held, before, runs, strict=True)
                 if iteration <= run[-1][0]]  # fmt: skip
        seconds, before = seconds + statistics.median(steps), [one[1] for one in held]
        gaps = [max(one[2], LEAST_GAP) for one in held if one[2] is not None]
        if gaps:
            points.append((iteration, seconds, statistics.median(gaps), min(gaps), max(gaps)))
    return points


def _both(x, runs):
    """Curves and bands in % of the training and of the test rows; x(length) are their places."""
    curves, bands = {}, {}
    for key, label in CURVES.items():
        values = [[100 * value for value in run] for run in runs[key]]
        longest = max(map(len, values))
        values = [run + run[-1:] * (longest - len(run)) for run in values]  # ended: complete
        curves[label], bands[label] = banded(x(longest), values, 0.0, 100.0)
    return curves, bands


def _members(record):
    """Error against the number of members."""
    runs = {key: [run[key] for run in record["runs"]] for key in CURVES}
    both = _both(lambda length: range(1, length + 1), runs)
    panel = Panel("", "number of members", "error in %", *both)
    how = {"title": _titled(record, "error by the number of members"), "include": (0.0, 5.0)}
    return figure([[panel]], x_form=lambda x: f"{x:g}" * (x == round(x)), **how)


def _margins(record):
    """Distribution of the margins."""
    first = record["runs"][0]
    runs = {key: [run[key] for run in record["runs"]] for key in CURVES}
    unit = "largest |f| on training rows" if first["scaled"] else "sum of the weights"
    guide = {"left of it: wrong": (GUIDE, [[(0.0, -math.inf), (0.0, math.inf)]])}
    both = _both(lambda length: first["at"], runs)
    label = "% of rows with at most this margin"
    panel = Panel("", f"margin, y f(x) / {unit}", label, *both, shapes=guide)
    return figure([[panel]], title=_titled(record, "margins of the vote"), include=(0.0,))


def _effect(record):
    """Error, and disagreement of the members below it, against the values of a parameter."""
    kind, values, own = record["kind"], record["values"], record["own"]
    runs = {key: list(zip(*record[key], strict=True)) for key in CURVES}
    name = "" if own is None else f"{kind} of the run: {own:g}"
    guide = {name: (GUIDE, [[(own, -math.inf), (own, math.inf)]])} if name else {}
    both = _both(lambda length: values, runs)
    rows = [[Panel("", kind, "error in %", *both, shapes=guide)]]
    if differ := record["disagreement"]:
        shares = [[100 * value for value in run] for run in zip(*differ, strict=True)]
        curve, band = banded(values, shares, 0.0, 100.0)
        both = {"disagreement": curve}, {"disagreement": band}
        rows.append([Panel("", kind, "disagreement, test rows, %", *both, shapes=guide)])
    log = "x" if min(values) > 0 and max(values) > 20 * min(values) else ""
    title = _titled(record, f"the effect of {kind}")
    return figure(rows, log, title=title, include=(0.0, 5.0))


def _times(record):
    """Training time against the number of rows."""
    rows, seconds = record["rows"], record["seconds"]
    unit, factor = ("s", 1.0) if max(map(max, seconds)) >= 1 else ("ms", 1000.0)
    parts = []
    for some in seconds:
        values = [factor * value for value in some] * (2 if len(some) == 1 else 1)
        parts.append(statistics.quantiles(values, n=4, method="inclusive"))
    curve = [(n, middle) for n, (_, middle, _) in zip(rows, parts, strict=True)]
    band = [(n, low, high) for n, (low, _, high) in zip(rows, parts, strict=True)]
    logs = [[math.log(value) for value in point] for point in curve[(len(rows) - 1) // 2 :]]
    slope = statistics.linear_regression(*zip(*logs, strict=True)).slope
    name = f"one fit; larger half: rows^{slope:.2f}"
    panel = Panel("", "rows for training", f"time of a fit ({unit})", {name: curve}, {name: band})
    title = _titled(record, "training time", "median", "the middle half of them")
    return figure([[panel]], "xy", x_form="{:,g}".format, title=title)


def _boundary(record):
    """Training rows, and the border of the classes; ties belong to the second class."""
    axes = record["axes"]
    half = [(values[1] - values[0]) / 2 for values in axes]
    sides = [[value >= 0 for value in row] for row in record["decision"]]
    ground = []  # Rectangles of neighbouring cells that are given to the second class.
    for y, row in zip(axes[1], sides, strict=True):
        for side, some in itertools.groupby(zip(row, axes[0], strict=True), key=lambda c: c[0]):
            if side:
                xs, a, b = [x for _, x in some], y - half[1], y + half[1]
                low, high = xs[0] - half[0], xs[-1] + half[0]
                ground.append([(low, a), (high, a), (high, b), (low, b)])
    shapes = {"": ('fill="#dcdcdc" stroke="none"', ground)}
    if record["members"]:
        votes = [[[value >= 0 for value in row] for row in vote] for vote in record["members"]]
        lines = [line for vote in votes for line in _border(vote, axes, half)]
        shapes[f"members ({len(votes)})"] = 'fill="none" stroke="#595959"', lines
    look = 'fill="none" stroke="#000000" stroke-width="2.2"'
    shapes["decision = 0"] = look, _border(sides, axes, half)
    curves = {}
    for k, (name, place) in enumerate(zip(record["classes"], ("white", "grey"), strict=True)):
        own = [p for p, label in zip(record["points"], record["labels"], strict=True) if label == k]
        curves[f"class {abbreviate(name, NAME // 2)}, predicted on {place}"] = own
    labels = [abbreviate(name, NAME) for name in record["features"]]
    panel = Panel("", *labels, curves, dots=tuple(curves), shapes=shapes)
    title = _titled(record | {"trials": 1}, "decision boundary")
    return figure([[panel]], panel=(420, 380), title=title)


def _border(sides, axes, half):
    """Edges of cells between neighbours on different sides, as lines."""
    lines = []
    for j, i in itertools.product(range(len(sides)), range(len(sides[0]))):
        x, y = axes[0][i] + half[0], axes[1][j] + half[1]
        if i + 1 < len(sides[0]) and sides[j][i] != sides[j][i + 1]:
            lines.append([(x, y - 2 * half[1]), (x, y)])
        if j + 1 < len(sides) and sides[j][i] != sides[j + 1][i]:
            lines.append([(x - 2 * half[0], y), (x, y)])
    return lines


def _kappa_error(record):
    """Kappa-error diagram of several methods, with their names below."""
    clouds = []
    for k, (name, pairs) in enumerate(record["clouds"].items()):
        centre = map(statistics.fmean, pairs)
        clouds.append(cloud(k, pairs, centre, record["errors"][name], MOST_PAIRS))
    title = f"Kappa-error diagram, {abbreviate(record['data'], NAME)}"
    return standalone(kappa_error_chart(title, clouds, list(record["clouds"])))


PICTURES = {
    "changes": lambda record: standalone(changes(record)),
    "kappa-error": _kappa_error,
    "convergence": _convergence,
    "members": _members,
    "margins": _margins,
    "boundary": _boundary,
    "time": _times,
}


# -- charts ----------------------------------------------------------------------------------------

STYLE = Path(__file__).with_name("chart.css").read_text(encoding="utf-8")
COLOURS = dict(re.findall(r"--(\w+): (#\w+)", STYLE.partition("@media")[0]))  # Light colours.
CLASSES = dict(re.findall(r"\.(\w+) \{ (.*); \}", STYLE))  # {class: declarations}
HUES = 8  # Colours h0, h1, ... of methods.
WIDE, SIDE = 360, 12  # Units of a chart, and its margins.
MONO = 7.3  # Units per letter; all have the same width.
MARK, GAP = 15, 8  # Heights of marks below a name, and between rows.
FOOT = 38  # Height of the numbers and the label of an axis.
FEW = 30  # Fewer dots are drawn larger.
TICKS = 5  # Numbers at most on an axis.
FRAME, HIGH = 46, 280  # Of a kappa-error diagram: margin beside its axis, and height of its frame.
ENLARGED = 1.5  # Pixels per unit of a chart that is a file.


class Row(NamedTuple):
    """A line of a row chart: a mark at `at`, whiskers from low to high, small dots."""

    name: str
    value: str  # Stands at the right.
    at: float | None
    low: float | None = None
    high: float | None = None
    dots: tuple = ()
    kind: str = "dot"  # Or "best", or "base" for a baseline.


class Cloud(NamedTuple):
    """An ensemble in a kappa-error diagram."""

    number: int
    points: list  # (kappa, mean error) of pairs of members
    centre: tuple  # Mean of all pairs.
    own: float  # Error of the ensemble.


def cloud(number, pairs, centre, own, most):
    """Cloud of kappas and errors of pairs, at most `most` of them; errors are fractions."""
    points = [(kappa, 100 * error) for kappa, error in zip(*pairs, strict=True)]
    kappa, error = centre
    return Cloud(number, points[:: -(-len(points) // most)], (kappa, 100 * error), 100 * own)


def row_chart(title, label, rows, form="{:g}".format, log=False, line=(), brackets=(), scale=None):
    """Draw rows below each other on one axis, whose ends are `scale` if it is given.

    The title is for screen readers. `line` holds the place of a vertical line, or both ends of a
    band. A bar at the right joins the rows of a bracket, (first, last).
    """
    values = [v for row in rows for v in (row.at, row.low, row.high, *row.dots) if v is not None]
    low, high = scale or limits([*values, *line], log)
    right = WIDE - SIDE - 9 * len(brackets)
    x, elements, y, places = Scale(low, high, SIDE, right, log), [], 4, []
    for row in rows:
        broken = broken_lines(plain(row.name), int((right - SIDE) / MONO) - len(row.value) - 2)
        strong = " b" if row.kind == "best" else ""
        for k, text in enumerate(broken):
            elements.append(_text(2, y + LINE * k + 12, text, f'class="n{strong}"'))
        elements.append(_text(right, y + 12, row.value, f'class="n e{strong}"'))
        places.append((y + 2, y + LINE * len(broken) + MARK))
        y = places[-1][1] + GAP
        elements += _row(row, x, y - GAP - MARK / 2)
    ground = [_line(x.at(value), 2, x.at(value), y, 'class="zero"') for value in line]
    if len(line) == 2:
        start, end = map(x.at, line)
        size = f'width="{end - start:.1f}" height="{y - 2:.1f}"'
        ground = [f'<rect class="band" x="{start:.1f}" y="2" {size}/>']
    for k, (first, last) in enumerate(brackets):
        at = right + 9 * (k + 1)
        elements.append(_line(at, places[first][0] + 6, at, places[last][1] - 2, 'class="clique"'))
    return _chart(title, [*ground, *_axis(x, y, label, form), *elements], y + FOOT)


def changes(document):
    """Draw the answers to the questions of a comparison: changes and their intervals."""
    rows, several = [], len({answer["data"] for answer in document["questions"]}) > 1
    for answer in document["questions"]:
        values = [answer[key] for key in ("change", "low", "high")]
        if None not in values:
            name = f"{answer['data']}: " * several + answer["question"]
            kind = "base" if answer["verdict"] == "undecided" else "dot"
            points = [100 * value for value in values]
            rows.append(Row(name, answer["verdict"], *points, kind=kind))
    better = "minus" if document["less_is_better"] else "plus"
    label = f"change of the {document['title']} in points, {better} is better"
    return row_chart("Changes by diversity, with their intervals", label, rows, line=(0.0,))


def _row(row, x, y):
    """Marks of a row."""
    elements = []
    if row.low is not None:
        low, high = x.at(row.low), x.at(row.high)
        bars = [[(at, y - 4), (at, y + 4)] for at in (low, high)]
        elements.append(_path([[(low, y), (high, y)], *bars], 'class="bar"'))
    if row.dots:
        elements.append(_specks([(x.at(value), y) for value in row.dots], "some"))
    at = None if row.at is None else x.at(row.at)
    if at is not None and row.kind == "best":
        corners = _points([(at, y - 7), (at + 7, y), (at, y + 7), (at - 7, y)])
        elements.append(f'<polygon class="best" points="{corners}"/>')
    elif at is not None:
        elements.append(f'<circle class="{row.kind}" cx="{at:.1f}" cy="{y:.1f}" r="4.5"/>')
    return elements


def kappa_error_chart(title, clouds, names=()):
    """Draw a kappa-error diagram: a dot per pair of members, a ring at their mean, and at the end
    of a stem a bar with the ensemble's number at its own error; below, the title and the names."""
    kappas = [k for cloud in clouds for k, _ in (*cloud.points, cloud.centre)]
    errors = [e for c in clouds for e in (c.own, *(error for _, error in (c.centre, *c.points)))]
    x = Scale(*limits([*kappas, 1.0], False), FRAME, WIDE - SIDE, False)
    y = Scale(*limits(errors, False), HIGH + 8, 8, False)
    elements = _axis(x, y.start, "kappa, agreement of two members beyond chance", "{:.2g}".format)
    for value in y.few_ticks():
        elements.append(_line(x.start, y.at(value), x.end, y.at(value), 'class="grid"'))
        elements.append(_text(x.start - 6, y.at(value) + 4, f"{value:g} %", 'class="e"'))
    for cloud in clouds:
        points = [(x.at(kappa), y.at(error)) for kappa, error in cloud.points]
        size = "pair few" if len(points) < FEW else "pair"
        elements.append(_specks(points, f"{size} h{cloud.number % HUES}"))
    taken = []
    for cloud in clouds:
        at, middle, own = x.at(cloud.centre[0]), y.at(cloud.centre[1]), y.at(cloud.own)
        stem = _path([[(at, middle), (at, own)], [(at - 9, own), (at + 9, own)]], 'class="own"')
        ring = f'<circle class="ring" cx="{at:.1f}" cy="{middle:.1f}" r="4.5"/>'
        elements.append(f'<g class="h{cloud.number % HUES}">{stem}{ring}</g>')
        taken.append(_free(at, own, taken))
    for cloud, (at, place) in zip(clouds, taken, strict=True):
        look = f'class="m b halo h{cloud.number % HUES}"'
        elements.append(_text(at, place, f"{cloud.number + 1}", look))
    height = y.start + FOOT
    for k, name in enumerate([title, *names] if names else []):
        look = f'class="n b halo h{(k - 1) % HUES}"' if k else 'class="n"'
        for line in broken_lines(f"{k} {name}" if k else title, int((WIDE - 2 * SIDE) / MONO)):
            elements.append(_text(SIDE, height + 12, line, look))
            height += LINE
    return _chart(title, elements, height + 4 * bool(names))


def _free(x, y, taken):
    """Find a place near a bar for a number, apart from the other numbers and within the frame."""
    steps = [(17 * i, 13 * j) for i in range(-4, 5) for j in range(-12, 13) if i or j]
    steps.sort(key=lambda step: (abs(step[0]) + 2 * abs(step[1]), -step[0], step[1]))
    places = [(x + a, y + b + 4) for a, b in steps]
    for a, b in places:
        apart = all(abs(a - c) > 15 or abs(b - d) > 12 for c, d in taken)
        if apart and FRAME + 8 < a < WIDE - 8 and 16 < b < HIGH + 4:
            return a, b
    return places[0]


def _axis(x, y, label, form):
    """Lines at round values, these values below y, and the label."""
    elements = []
    for value in x.few_ticks():
        elements.append(_line(x.at(value), 2, x.at(value), y, 'class="grid"'))
        half = MONO * len(form(value)) / 2
        at = min(max(x.at(value), half), WIDE - half)  # One at an end is not cut.
        elements.append(_text(at, y + 14, form(value), 'class="m"'))
    elements.append(_line(x.start, y, x.end, y, 'class="axis"'))
    return [*elements, _text((x.start + x.end) / 2, y + 31, label, 'class="m quiet"')]


def broken_lines(text, limit):
    """Break a name into lines of at most `limit` letters, after , : + or a blank if possible."""
    limit = limit if text.isascii() else limit // 2  # Other letters may have twice the width.
    lines = [""]
    for word in re.findall(rf"[^,:+ ]{{1,{limit - 1}}}[,:+ ]?|[,:+ ]", text):
        lines += [""] if len(lines[-1]) + len(word) > limit else []
        lines[-1] += word
    return lines


def _specks(points, kind):
    """Dots as one path of lines without length, each place once."""
    places = dict.fromkeys(f"M{x:.0f} {y:.0f}h0" for x, y in points)
    return f'<path class="{kind}" d="{"".join(places)}"/>'


def _chart(title, elements, height):
    head = f'<svg role="img" viewBox="0 0 {WIDE} {height:.0f}">'
    return "".join([head, f"<title>{escape(plain(title))}</title>", *elements, "</svg>"])


def standalone(chart):
    """Return a chart as a file of its own, with its size, its style and a ground."""
    head, _, inside = chart.partition(">")
    width, height = head.rstrip('"').split()[-2:]
    size = f'width="{ENLARGED * int(width):.0f}" height="{ENLARGED * int(height):.0f}"'
    ground = f'<rect class="ground" width="{width}" height="{height}"/>'
    head = f'{head} xmlns="http://www.w3.org/2000/svg" {size}>\n<style>\n{STYLE}</style>'
    return f"{head}\n{ground}{inside}\n"

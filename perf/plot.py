"""Line plots as SVG, written with nothing but the standard library: the same bytes everywhere.

A curve is told from the others by its colour, its dashes and its marker, so that a grey print can
be read. The legend stands beside the panels and is as wide as its longest name.
"""

import math
from collections.abc import Mapping
from html import escape
from types import MappingProxyType
from typing import NamedTuple

STYLES = (  # colour, dashes, marker
    ("#000000", "", "circle"),
    ("#0072b2", "7 3", "square"),
    ("#d55e00", "2 3", "triangle"),
    ("#009e73", "10 3 2 3", "diamond"),
    ("#8c3f7a", "4 2", "circle"),
    ("#7f6000", "1 2", "square"),
)
LEFT, TOP, BOTTOM, GAP = 84, 30, 46, 34  # around and between panels, in pixels
LETTER = 6.8  # pixels that a letter of 12 pixels' height takes at most, on average
SIZE = 12  # height of letters


class Panel(NamedTuple):
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    curves: dict  # name: [(x, y), ...]
    bands: Mapping = MappingProxyType({})  # name of a curve: [(x, low, high), ...], shaded
    dots: tuple = ()  # names of the curves that are points without a line


class Map(NamedTuple):
    """A square of cells, some of them shaded, with points of two kinds on it."""

    title: str
    shaded: list  # [row from below, first column, last column + 1], ...
    dots: list  # (x, y) in cells
    crosses: list


class Scale(NamedTuple):
    """Where the values from low to high stand, in pixels from start to end."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    def at(self, value):
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.start + (self.end - self.start) * (value - low) / (high - low)

    def ticks(self):
        """Values to label: round ones, about four of them."""
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for digits in ((1,), (1, 3), (1, 2, 5)):
                found = [float(f"{digit}e{power}") for power in powers for digit in digits]
                found = [value for value in found if self.low <= value <= self.high]
                if len(found) >= 3:
                    break
            return found[:: len(found) // 8 + 1]
        rough = (self.high - self.low) / 4
        power = 10.0 ** math.floor(math.log10(rough))
        step = power * min((1, 2, 5, 10), key=lambda digit: abs(digit * power - rough))
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [k * step for k in range(first, last + 1)]


def limits(values, log):
    """Smallest and largest value, with some air around; at least a decade if logarithmic."""
    low, high = min(values), max(values)
    if log:
        air = max((high / low) ** 0.07, (10.0 * low / high) ** 0.5)
        return low / air, high * air
    air = 0.06 * (high - low) or 1.0
    return low - air, high + air


def figure(rows, log=False, x_form="{:g}".format, y_form="{:g}".format, panel=(420, 260)):
    """Return the SVG of rows of panels, a legend beside them; a row shares its y axis."""
    names = list(dict.fromkeys(name for row in rows for part in row for name in part.curves))
    styles = {name: STYLES[k % len(STYLES)] for k, name in enumerate(names)}
    wide, high = panel
    right = LEFT + len(rows[0]) * (wide + GAP)
    width = right + 60 + LETTER * max(map(len, names))
    height = len(rows) * (TOP + high + BOTTOM)
    parts = []
    for i, row in enumerate(rows):
        top = i * (TOP + high + BOTTOM) + TOP
        low_y, high_y = limits([*_heights(row)], log)
        for j, part in enumerate(row):
            left = LEFT + j * (wide + GAP)
            low_x, high_x = limits([x for curve in part.curves.values() for x, _ in curve], log)
            x = Scale(low_x, high_x, left, left + wide, log)
            y = Scale(low_y, high_y, top + high, top, log)
            parts += _axes(part, x, y, x_form, y_form if j == 0 else None)
            for name, band in part.bands.items():
                points = [(x.at(a), y.at(low), y.at(top)) for a, low, top in band]
                parts.append(_band(points, styles[name]))
            for name, curve in part.curves.items():
                points = [(x.at(a), y.at(b)) for a, b in curve]
                drawn = _dots if name in part.dots else _curve
                parts += drawn(points, styles[name])
    dotted = {name for row in rows for part in row for name in part.dots}
    for k, name in enumerate(names):
        at = TOP + 10 + 22 * k
        if name in dotted:
            parts += _dots([(right + 17, at)], styles[name])
        else:
            parts += _curve([(right, at), (right + 34, at)], styles[name])
        parts.append(_text(right + 44, at + 4, name))
    return _document(width, height, parts)


def maps(row, cells, side=280):
    """Return the SVG of maps of so many cells a side, next to each other; `side` in pixels."""
    parts, unit = [], side / cells
    for k, part in enumerate(row):
        left = GAP + k * (side + GAP)
        parts.append(_text(left + side / 2, TOP - 10, part.title, "middle"))
        parts.append(
            f'<g transform="translate({left} {TOP + side}) scale({unit:.4f} {-unit:.4f})" '
            'fill="none">'
        )
        runs = "".join(f"M{first} {y}h{last - first}v1h{first - last}z"
                       for y, first, last in part.shaded)  # fmt: skip
        parts.append(f'<path d="{runs}" fill="#c9dff0"/>')
        dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in part.dots)
        parts.append(f'<path d="{dots}" stroke="#000000" stroke-width="2" stroke-linecap="round"/>')
        crosses = "".join(f"M{x - 1:.1f} {y:.1f}h2m-1 -1v2" for x, y in part.crosses)
        parts.append(f'<path d="{crosses}" stroke="#d55e00" stroke-width="0.5"/>')
        parts.append(f'<path d="M0 0h{cells}v{cells}h-{cells}z" stroke="#555555"/></g>')
    return _document(GAP + len(row) * (side + GAP), TOP + side + GAP, parts)


def _document(width, height, parts):
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="{SIZE}">'
    )
    ground = f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>'
    return "\n".join([head, ground, *parts, "</svg>"]) + "\n"


def _heights(row):
    """All that the y axis of a row has to show."""
    for part in row:
        yield from (y for curve in part.curves.values() for _, y in curve)
        yield from (y for band in part.bands.values() for _, *ends in band for y in ends)


def _axes(part, x, y, x_form, y_form):
    """Frame, grid, labels; without y_form the labels of the y axis are left out."""
    parts = []
    for value in x.ticks():
        at = x.at(value)
        parts.append(_line(at, y.start, at, y.end, "#dddddd"))
        parts.append(_text(at, y.start + 17, x_form(value), "middle"))
    for value in y.ticks():
        at = y.at(value)
        parts.append(_line(x.start, at, x.end, at, "#dddddd"))
        if y_form:
            parts.append(_text(x.start - 7, at + 4, y_form(value), "end"))
    parts.append(
        f'<rect x="{x.start:.1f}" y="{y.end:.1f}" width="{x.end - x.start:.1f}" '
        f'height="{y.start - y.end:.1f}" fill="none" stroke="#555555"/>'
    )
    middle = (x.start + x.end) / 2
    parts.append(_text(middle, y.end - 10, part.title, "middle"))
    parts.append(_text(middle, y.start + 36, part.x_label, "middle"))
    if y_form:
        at = (y.start + y.end) / 2
        label = x.start - 66
        turn = f' transform="rotate(-90 {label:.1f} {at:.1f})"'
        parts.append(_text(label, at, part.y_label, "middle", turn))
    return parts


def _band(points, style):
    """The area between two lines, lightly."""
    edge = [(x, low) for x, low, _ in points] + [(x, high) for x, _, high in reversed(points)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in edge)
    return f'<polygon points="{path}" fill="{style[0]}" fill-opacity="0.13"/>'


def _curve(points, style):
    """A line through the points and a marker on each; of many points, on a few."""
    colour, dashes, marker = style
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dash = f' stroke-dasharray="{dashes}"' if dashes else ""
    line = f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
    return [line, *(_marker(x, y, colour, marker) for x, y in points[:: len(points) // 8 + 1])]


def _dots(points, style):
    """A small marker on each point, no line."""
    colour, _, marker = style
    shapes = "".join(_marker(x, y, colour, marker) for x, y in points)
    return [f'<g fill-opacity="0.5">{shapes}</g>']


def _marker(x, y, colour, kind):
    if kind == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'
    shapes = {
        "square": ((-4, -4), (4, -4), (4, 4), (-4, 4)),
        "triangle": ((0, -5), (5, 4), (-5, 4)),
        "diamond": ((0, -5.5), (5.5, 0), (0, 5.5), (-5.5, 0)),
    }
    corners = " ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in shapes[kind])
    return f'<polygon points="{corners}" fill="{colour}"/>'


def _line(x1, y1, x2, y2, colour):
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}"/>'


def _text(x, y, text, anchor="start", more=""):
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}'
    return f"<text {where}>{escape(text)}</text>"

"""Pictures of report.html: SVG to stand inside a page, whose style sheet gives it its colours.

All are WIDE units wide, as a telephone is, and as high as they need to be. A name stands above its
mark and is broken into lines, so that none is too long. What a colour tells, a shape or a number
tells too.
"""

import re
from html import escape
from typing import NamedTuple

from perf.plot import Scale, limits
from perf.study.outputs import plain

WIDE, SIDE = 360, 12  # units of a picture, and its margins
LETTER = 7.3  # units that a letter takes, which are all of the same width
LINE, MARK, GAP = 16, 15, 8  # heights of a line of text, of the marks below it, and between rows
FOOT = 38  # height of the numbers of an axis and of what it shows
FEW = 30  # Fewer dots than these are drawn larger.
TICKS = 5  # numbers at most on an axis
HUES = 8  # colours, which the style sheet calls h0, h1, ...
LEFT, HIGH = 46, 280  # of a scatter plot: the margin beside its axis, and the height of its frame


class Row(NamedTuple):
    """A line of a row chart: a mark at `at`, whiskers from low to high, small dots."""

    name: str
    value: str  # stands at the right
    at: float | None
    low: float | None = None
    high: float | None = None
    dots: tuple = ()
    kind: str = "dot"  # or "best", or "base" for what is not a method


class Cloud(NamedTuple):
    """An ensemble in a kappa-error diagram."""

    number: int
    points: list  # (kappa, mean error) of pairs of members
    centre: tuple  # of all pairs
    own: float  # error of the ensemble


def rows(title, label, some, form="{:g}".format, log=False, line=(), brackets=(), scale=None):
    """Draw rows below each other on one axis.

    Parameters
    ----------
    title : what the picture shows, for those who cannot see it
    label : what the axis shows
    some : list of Row
    form : writes the numbers of the axis
    log : whether the axis is logarithmic
    line : (value,) at which a line stands, or (low, high) of a band
    brackets : groups of neighbouring rows, (first, last), each with a bar at the right
    scale : None or the two ends of the axis
    """
    shown = [v for row in some for v in (row.at, row.low, row.high, *row.dots) if v is not None]
    low, high = scale or limits([*shown, *line], log)
    right = WIDE - SIDE - 9 * len(brackets)
    x, parts, y, places = Scale(low, high, SIDE, right, log), [], 4, []
    for row in some:
        broken = _lines(plain(row.name), int((right - SIDE) / LETTER) - len(row.value) - 2)
        strong = " b" if row.kind == "best" else ""
        for k, text in enumerate(broken):
            parts.append(_text(2, y + LINE * k + 12, text, f"n{strong}"))
        parts.append(_text(right, y + 12, row.value, f"n e{strong}"))
        places.append((y + 2, y + LINE * len(broken) + MARK))
        y = places[-1][1] + GAP
        parts += _row(row, x, y - GAP - MARK / 2)
    ground = _line(x.at(line[0]), 2, x.at(line[0]), y, "zero") if len(line) == 1 else ""
    if len(line) == 2:
        start, end = map(x.at, line)
        size = f'width="{end - start:.1f}" height="{y - 2:.1f}"'
        ground = f'<rect class="band" x="{start:.1f}" y="2" {size}/>'
    for k, (first, last) in enumerate(brackets):
        at = right + 9 * (k + 1)
        parts.append(_line(at, places[first][0] + 6, at, places[last][1] - 2, "clique"))
    return _svg(title, [ground, *_axis(x, y, label, form), *parts], y + FOOT)


def _row(row, x, y):
    """The marks of a row."""
    parts = []
    if row.low is not None:
        low, high = x.at(row.low), x.at(row.high)
        ends = "".join(f"M{at:.1f} {y - 4:.1f}v8" for at in (low, high))
        parts.append(f'<path class="bar" d="M{low:.1f} {y:.1f}H{high:.1f}{ends}"/>')
    if row.dots:
        parts.append(_dots([(x.at(value), y) for value in row.dots], "some"))
    if row.at is None:
        return parts
    at = x.at(row.at)
    if row.kind == "best":
        corners = f"{at:.1f},{y - 7:.1f} {at + 7:.1f},{y:.1f} {at:.1f},{y + 7:.1f} {at - 7:.1f},{y}"
        return [*parts, f'<polygon class="best" points="{corners}"/>']
    return [*parts, f'<circle class="{row.kind}" cx="{at:.1f}" cy="{y:.1f}" r="4.5"/>']


def scatter(title, clouds):
    """Draw a kappa-error diagram: a dot a pair of members, a ring at their mean, and below or above
    it, at the end of a stem, a bar with the ensemble's number at its own error."""
    kappas = [k for cloud in clouds for k, _ in (*cloud.points, cloud.centre)]
    errors = [e for cloud in clouds for e in (cloud.own, cloud.centre[1], *_seconds(cloud.points))]
    x = Scale(*limits([*kappas, 1.0], False), LEFT, WIDE - SIDE, False)
    y = Scale(*limits(errors, False), HIGH + 8, 8, False)
    parts = _axis(x, y.start, "kappa, agreement of two members beyond chance", "{:.2g}".format)
    for value in _few(y.ticks()):
        parts.append(_line(x.start, y.at(value), x.end, y.at(value), "grid"))
        parts.append(_text(x.start - 6, y.at(value) + 4, f"{value:g} %", "e"))
    for cloud in clouds:
        points = [(x.at(kappa), y.at(error)) for kappa, error in cloud.points]
        size = "pair few" if len(points) < FEW else "pair"
        parts.append(_dots(points, f"{size} h{cloud.number % HUES}"))
    taken = []
    for cloud in clouds:
        at, middle, own = x.at(cloud.centre[0]), y.at(cloud.centre[1]), y.at(cloud.own)
        parts.append(f'<g class="h{cloud.number % HUES}"><path class="own" d="M{at:.1f} '
                     f'{middle:.1f}V{own:.1f}M{at - 9:.1f} {own:.1f}h18"/><circle class="ring" '
                     f'cx="{at:.1f}" cy="{middle:.1f}" r="4.5"/></g>')  # fmt: skip
        taken.append(_free(at, own, taken))
    for cloud, (at, place) in zip(clouds, taken, strict=True):
        parts.append(_text(at, place, f"{cloud.number + 1}", f"m b halo h{cloud.number % HUES}"))
    return _svg(title, parts, y.start + FOOT)


def _free(x, y, taken):
    """Find a place near a bar for a number, apart from the other numbers and within the frame."""
    steps = [(17 * i, 13 * j) for i in range(-4, 5) for j in range(-12, 13) if i or j]
    steps.sort(key=lambda step: (abs(step[0]) + 2 * abs(step[1]), -step[0], step[1]))
    places = [(x + a, y + b + 4) for a, b in steps]
    inside = [(a, b) for a, b in places if LEFT + 8 < a < WIDE - 8 and 16 < b < HIGH + 4]
    apart = (
        place
        for place in inside
        if all(abs(place[0] - a) > 15 or abs(place[1] - b) > 12 for a, b in taken)
    )
    return next(apart, places[0])


# -- parts -----------------------------------------------------------------------------------------


def _axis(x, y, label, form):
    """Lines at round values, these values below y, and what they are."""
    parts = []
    for value in _few(x.ticks()):
        parts.append(_line(x.at(value), 2, x.at(value), y, "grid"))
        half = LETTER * len(form(value)) / 2
        at = min(max(x.at(value), half), WIDE - half)  # one at an end is not cut
        parts.append(_text(at, y + 14, form(value), "m"))
    parts.append(_line(x.start, y, x.end, y, "axis"))
    return [*parts, _text((x.start + x.end) / 2, y + 31, label, "m quiet")]


def _few(ticks):
    return ticks[:: -(-len(ticks) // TICKS) or 1]


def _seconds(points):
    return [second for _, second in points]


def _lines(text, limit):
    """Break a name into lines, after a sign where that can be; a letter that is not ASCII may be as
    wide as two."""
    limit = limit if text.isascii() else limit // 2
    found = [""]
    for part in re.findall(rf"[^,:+ ]{{1,{limit - 1}}}[,:+ ]?|[,:+ ]", text):
        found += [""] if len(found[-1]) + len(part) > limit else []
        found[-1] += part
    return found


def _dots(points, kind):
    """Dots as one path of lines without length, each place once."""
    places = dict.fromkeys(f"M{x:.0f} {y:.0f}h0" for x, y in points)
    return f'<path class="{kind}" d="{"".join(places)}"/>'


def _line(x1, y1, x2, y2, kind):
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line class="{kind}" {ends}/>'


def _text(x, y, text, kind):
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(plain(text))}</text>'


def _svg(title, parts, height):
    head = f'<svg role="img" viewBox="0 0 {WIDE} {height:.0f}">'
    return "".join([head, f"<title>{escape(plain(title))}</title>", *parts, "</svg>"])

"""Text helpers: numbers, names, paragraphs and tables, for the terminal and for Markdown.

Only the standard library is imported, so that help and `python -m perf render` start at once.
"""

import math
import re
import textwrap

WIDTH, INDENT = 80, 17  # Columns of a report, and of the labels at its left.
PAGE = 100  # Columns of a Markdown page.


def plain(text):
    """Escape characters that could move the cursor or break the line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def abbreviate(name, limit):
    """Shorten a name to `limit` letters by leaving out its middle."""
    name = plain(name)
    half = (limit - 2) // 2
    return name if len(name) <= limit else f"{name[:half]}..{name[-half:]}"


def spread(values):
    """Mean, standard deviation (None of one value), minimum and maximum."""
    mean = sum(values) / len(values)
    squares = sum((value - mean) ** 2 for value in values)
    std = math.sqrt(squares / (len(values) - 1)) if len(values) > 1 else None
    return {"mean": mean, "std": std, "min": min(values), "max": max(values)}


def mean_std(given, factor=1.0, digits=1, unit="", sign="+-"):
    """Write the mean of a spread and, if there is one, its standard deviation."""
    std = given["std"]
    more = "" if std is None else f" {sign} {std * factor:.{digits}f}"
    return f"{given['mean'] * factor:.{digits}f}{unit}{more}"


def span(given, form="{} to {}"):
    """Write the range of a spread; one number if minimum and maximum are equal."""
    low, high = given["min"], given["max"]
    return f"{low}" if low == high else form.format(low, high)


def percent(fraction):
    return f"{100 * fraction:.1f} %"


def duration(seconds):
    """Write a time with three significant digits in h, min, s or ms."""
    for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= 0.9995 * size or unit == "ms":
            value = seconds / size
            return f"{value:,.0f} {unit}" if value >= 999.5 else f"{value:.3g} {unit}"


def tick(seconds):
    """Write a round time, a number of an axis, in s, ms or µs."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1.0:
            return f"{seconds * factor:,g} {unit}"
    return f"{seconds * 1e6:,g} µs"


def fill(text, start="", indent=INDENT, whole=False):
    """Break a text into lines of WIDTH columns; whole: words, such as paths, are not broken."""
    text = re.sub(r"(?<=\d) (?=%)", "\0", plain(text))  # A number and its % stay together.
    return textwrap.fill(
        text, WIDTH, initial_indent=start, subsequent_indent=" " * indent,
        break_long_words=not whole, break_on_hyphens=False,
    ).replace("\0", " ")  # fmt: skip


def entry(label, text, whole=False):
    """Lay out a text beside its label."""
    return fill(text, f"  {label:<{INDENT - 2}}", whole=whole)


def wrap(text, indent=""):
    """Break a paragraph of a page into lines; those after the first begin with the indent."""
    how = {"break_long_words": False, "break_on_hyphens": False, "subsequent_indent": indent}
    return textwrap.fill(text, PAGE, **how)


def columns(rows, indent=2):
    """Align columns behind `indent` blanks, the first to the left; None if they are too wide."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room, gaps = WIDTH - indent - sum(widths), len(widths) - 1
    if room < gaps:
        return None
    space, lines = "  " if room >= 2 * gaps else " ", []
    for first, *others in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
        line = space.join([f"{first:<{widths[0]}}", *cells])
        lines.append(f"{'':{indent}}{line}".rstrip())
    return lines


def markdown(titles, rows, right=False):
    """Lines of a Markdown table; right: all columns but the first are aligned to the right."""
    rule = "|---" + ("|---:" if right else "|---") * (len(titles) - 1) + "|"
    lines = [
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |"
        for row in (titles, *rows)
    ]
    return [lines[0], rule, *lines[1:]]

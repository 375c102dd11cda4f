"""perf/RESULTS.md and the plots beside it, made from the records in perf/results alone.

Of a bench that has records of both grids, the latest run is shown. A plot takes the fastest time of
a contestant at a size. Rendering the same records gives the same bytes: a test compares.
"""

import ast
import math
import os
import re
import statistics
from pathlib import Path

from perf import draw
from perf.bench import scale
from perf.bench.common import RESULTS, read_runs
from perf.text import markdown, tick

HERE = Path(__file__).parents[1]  # perf/
PLOTS = "plots"
HEAD = """# Speed

Written by `python -m perf render` from the records in `perf/results`; `python -m perf NAME` runs
one bench anew, `PERF=large` in the environment adds its large sizes. One thread, but for the
benches threads and rows; contestants take turns, and the fastest call of each counts. Times are in
milliseconds. A ratio is how many times as long the first name before the "/" takes as the second,
the peer as ours where there is no "/". Rows on start-up are divided by `import sklearn.svm` in a
new process.
"""


# -- records ---------------------------------------------------------------------------------------


def latest():
    """Return the latest run of every bench that has records, by its name."""
    found = {}
    for path in sorted(RESULTS.glob("*.jsonl")):
        found[path.stem] = max(read_runs(path), key=lambda run: run["time"])
    return found


def curves(run):
    """Return the axis and the points of the run's plot, {name: [(size, seconds), ...]}."""
    axis, points = "rows", {}
    for row in run["rows"]:
        axis = row.get("axis", axis)
        for name, pairs in row.get("curves", {}).items():
            for size, seconds in pairs:
                if seconds is not None:
                    curve = points.setdefault(name, {})
                    curve[size] = min(seconds, curve.get(size, math.inf))
    return axis, {name: sorted(curve.items()) for name, curve in points.items()}


def grids(run):
    """Return the cells of every grid, {name: rows}."""
    found = {}
    for row in run["rows"]:
        if "grid" in row and row["ratio"] is not None:
            found.setdefault(row["grid"], []).append(row)
    return found


# -- text ------------------------------------------------------------------------------------------


def number(seconds):
    """Milliseconds with three digits that count."""
    if seconds is None:
        return ""
    milliseconds = 1e3 * seconds
    digits = max(0, 2 - math.floor(math.log10(milliseconds)))
    return f"{milliseconds:,.{digits}f}"


def extent(row):
    """The size of a problem, thousands set apart."""
    return re.sub(r"\d{4,}", lambda digits: f"{int(digits[0]):,}", row["size"])


def shown(row):
    return "" if row["ratio"] is None else row["form"].format(row["ratio"])


def verdict(row):
    if not row["target"]:
        return ""
    return {True: "met", False: "**missed**", None: "skipped"}[row["met"]]


def rows_table(rows):
    """All fields of the rows; columns that are empty throughout are left out."""
    titles = "what", "size", "ours", "peer", "ratio", "target", "", "note"
    cells = [
        (row["what"], extent(row), number(row["seconds"]), number(row["peer_seconds"]))
        + (shown(row), row["target"], verdict(row), row["note"])
        for row in rows
    ]
    used = [k for k in range(len(titles)) if any(row[k] for row in cells)]
    return markdown([titles[k] for k in used], [[row[k] for k in used] for row in cells])


def grid_line(name, cells):
    """Geometric mean, worst and best of a grid."""
    ratios = [row["ratio"] for row in cells]
    worst = min(cells, key=lambda row: row["ratio"])
    return (
        f'Grid "{name}", {len(cells)} kinds of problems: geometric mean '
        f"{statistics.geometric_mean(ratios):.3g}x, worst {min(ratios):.3g}x "
        f"({worst['what']}, {extent(worst)}), best {max(ratios):.3g}x."
    )


def circumstances(run):
    """What a run depends on, in one paragraph."""
    versions = ", ".join(f"{package} {number}" for package, number in run["versions"].items())
    sizes = {"small": "small sizes", "large": "all sizes"}[run["sizes"]]
    commit = run["commit"] or "unknown"
    changed = " with changes" if commit.endswith("-dirty") else ""
    where = f"{run['cpu']}, {run['threads']} thread; {versions}."
    caution = f" **{run['caution']}**" if "caution" in run else ""
    return f"{run['time'][:10]}, commit `{commit[:12]}`{changed}, {sizes}; {where}{caution}"


def overview(runs):
    """One row a bench: targets met, means of grids, and where a target was missed."""
    rows = []
    for name, run in runs.items():
        aimed = [row for row in run["rows"] if row["target"]]
        missed = [f"{row['what']} {extent(row)}".strip() for row in aimed if row["met"] is False]
        met = f"{sum(row['met'] is True for row in aimed)} of {len(aimed)}" if aimed else "none set"
        means = [
            f"{grid}: {statistics.geometric_mean([row['ratio'] for row in cells]):.3g}x"
            for grid, cells in grids(run).items()
        ]
        rows.append((f"[{name}](#{name})", met, "; ".join(means), "; ".join(missed)))
    return markdown(("bench", "targets met", "geometric mean of grids", "missed"), rows)


def section(name, run):
    """Lines about one bench: how it is measured, circumstances, plot, tables."""
    source = Path(__file__).with_name(f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")
    title, _, method = ast.get_docstring(ast.parse(source)).partition("\n\n")
    lines = [f"## {name}", "", title, "", "```text", method, "```", "", circumstances(run), ""]
    if name in plots({name: run}):
        lines += [f"![{name}: plot of the records]({PLOTS}/{name}.svg)", ""]
    lines += rows_table([row for row in run["rows"] if "grid" not in row])
    for grid, cells in grids(run).items():
        lines += ["", grid_line(grid, cells), "", "<details><summary>All of them</summary>", ""]
        lines += [*rows_table(cells), "", "</details>"]
    return lines


# -- plots -----------------------------------------------------------------------------------------


def scaling(name, run):
    """Seconds against the size, both logarithmic; None without points."""
    axis, points = curves(run)
    if not points:
        return None
    panel = draw.Panel(f"{name}: time of one call", axis, "time", points)
    return draw.figure([[panel]], log="xy", x_form="{:,.0f}".format, y_form=tick)


def covariance(run):
    """Both curves of Figure 1 of the AdaBoost.NC paper for every kind of member, by round."""
    kinds = {}
    for row in run["rows"]:
        kinds.setdefault(row["kind"], {})[f"lam = {row['lam']}"] = row
    top, bottom = [], []
    for kind, rows in kinds.items():
        parts = {name: list(enumerate(row["covariance"], 2)) for name, row in rows.items()}
        top.append(draw.Panel(kind, "round", "covariance of being right", parts))
        errors = {name: [100 * error for error in row["errors"]] for name, row in rows.items()}
        parts = {name: list(enumerate(curve, 1)) for name, curve in errors.items()}
        bottom.append(draw.Panel(kind, "round", "test error, %", parts))
    return draw.figure([top, bottom], panel=(230, 180))


def plots(runs):
    """Return the SVG of every bench that has one, by its name."""
    drawn = {}
    for name, run in runs.items():
        drawn[name] = covariance(run) if name == "covariance" else scaling(name, run)
    return {name: text for name, text in drawn.items() if text}


# -- files -----------------------------------------------------------------------------------------


def render():
    """Return the text of every file to write, by its path in perf/."""
    runs = latest()
    lines = [HEAD, *overview(runs)]
    for name, run in runs.items():
        lines += ["", *section(name, run)]
    files = {"RESULTS.md": "\n".join(lines) + "\n"}
    if "rows" in runs:
        files["SCALE.md"] = scale.page(runs["rows"])
    return files | {f"{PLOTS}/{name}.svg": text for name, text in plots(runs).items()}


def write():
    """Write the files that changed, each when it is complete; remove plots no longer drawn."""
    files = render()
    (HERE / PLOTS).mkdir(exist_ok=True)
    for stale in {*(HERE / PLOTS).glob("*.svg")} - {HERE / name for name in files}:
        stale.unlink()
    for name, text in files.items():
        path = HERE / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            part = path.with_suffix(".part")
            part.write_text(text, encoding="utf-8", newline="\n")
            os.replace(part, path)
            print(f"perf/{name}")

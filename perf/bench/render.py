"""perf/RESULTS.md, perf/SCALE.md and plots, made from the records in perf/results alone.

The latest run of a bench is shown, on either grid. A plot takes the fastest time of a contestant at
a size. Equal records give equal bytes: a test compares.
"""

import ast
import math
import os
import re
import statistics
from pathlib import Path

from perf import draw
from perf.bench.common import RESULTS, read_runs
from perf.text import duration, markdown, tick

HERE = Path(__file__).parents[1]  # perf/
PLOTS = "plots"
HEAD = """# Speed

Written by `python -m perf render` from the records in `perf/results`; `python -m perf NAME` runs
one bench anew, `PERF=large` in the environment adds its large sizes. One thread, but for the
benches threads and rows; contestants take turns, and the fastest call of each counts. Times are in
milliseconds. A ratio is the time of the first name before the "/" over that of the second, or the
time of the peer over ours if there is no "/". Start-up times are divided by `import sklearn.svm` in
a new process.
"""
MANY_ROWS, WORKERS = (10**7, 10**8, 10**9), (1, 8, 64)  # Axes of the tables of SCALE.md.
BANDWIDTH = 1e9  # Bytes per second to the process that collects the sums: a network of 10 Gbit/s.
ITERATIONS = {"PSVM": 18, "GradientBoosting": 100}  # Of a usual fit.
SCALE = """# Toward 1e9 rows

Written by `python -m perf render` from the records of `python -m perf rows`, which
[RESULTS.md](RESULTS.md#rows) shows in full. All methods that take row blocks need only sums over
rows: an iteration sends one small call to every block and gets one small answer back, whatever the
number of rows. On W workers, one block each, with n rows of d columns, an iteration takes

    n * cost / W  +  W * traffic / bandwidth    seconds

The first term is work that the workers divide among them, the second the answers that one process
receives; it grows with the number of workers, which add up the histograms of their blocks first.
The traffic of trees is these histograms, 16 bytes per node, column and bin; that of `PSVM` sums of
the size of its Hessian, and once a sample of the rows. Iterations of `PSVM` on that sample count,
too.

{tables}
Measured on one machine: one process out of core for the cost, two worker processes for the traffic;
the tables extend that by the formula, with {bandwidth:.0f} GB/s and no other delay. Nothing here
was run on more than one machine or on more than 1e7 rows; RESULTS.md has the gain of two workers
over one. On disk a row takes 8 d bytes; trees keep d + 76 bytes per row besides, in files, `PSVM`
about 60. In memory a worker needs the interpreter and a few chunks of a block.

A lost worker costs the work that it had done on its blocks: they are opened anew, and the members
so far are applied to them, which needs no histograms.
"""


# -- records ---------------------------------------------------------------------------------------


def latest():
    """Return the latest run of every bench that has records, by its name."""
    paths = sorted(RESULTS.glob("*.jsonl"))
    return {path.stem: max(read_runs(path), key=lambda run: run["time"]) for path in paths}


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
    cells = {}
    for row in run["rows"]:
        if "grid" in row and row["ratio"] is not None:
            cells.setdefault(row["grid"], []).append(row)
    return cells


# -- text ------------------------------------------------------------------------------------------


def number(seconds):
    """Write milliseconds with three significant digits."""
    if seconds is None:
        return ""
    digits = max(0, 2 - math.floor(math.log10(1e3 * seconds)))
    return f"{1e3 * seconds:,.{digits}f}"


def extent(row):
    """Write the size of a problem with thousands set apart."""
    return re.sub(r"\d{4,}", lambda digits: f"{int(digits[0]):,}", row["size"])


def rows_table(rows):
    """Table of the fields of the rows, without columns that are empty throughout."""
    titles = "what", "size", "ours", "peer", "ratio", "target", "", "note"
    verdicts, cells = {True: "met", False: "**missed**", None: "skipped"}, []
    for row in rows:
        ratio = "" if row["ratio"] is None else row["form"].format(row["ratio"])
        times = number(row["seconds"]), number(row["peer_seconds"])
        verdict = verdicts[row["met"]] if row["target"] else ""
        cells.append((row["what"], extent(row), *times, ratio, row["target"], verdict, row["note"]))
    used = [k for k in range(len(titles)) if any(row[k] for row in cells)]
    return markdown([titles[k] for k in used], [[row[k] for k in used] for row in cells])


def circumstances(run):
    """Paragraph on the circumstances of a run."""
    versions = ", ".join(f"{package} {number}" for package, number in run["versions"].items())
    sizes = {"small": "small sizes", "large": "all sizes"}[run["sizes"]]
    commit = run["commit"] or "unknown"
    changed = " with changes" if commit.endswith("-dirty") else ""
    where = f"{run['cpu']}, {run['threads']} thread; {versions}."
    caution = f" **{run['caution']}**" if "caution" in run else ""
    return f"{run['time'][:10]}, commit `{commit[:12]}`{changed}, {sizes}; {where}{caution}"


def overview(runs):
    """Table of the benches: targets met, means of grids, targets missed."""
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
        ratios, worst = [row["ratio"] for row in cells], min(cells, key=lambda row: row["ratio"])
        mean = f"geometric mean {statistics.geometric_mean(ratios):.3g}x"
        where = f"worst {min(ratios):.3g}x ({worst['what']}, {extent(worst)})"
        said = f"{len(cells)} kinds of problems: {mean}, {where}, best {max(ratios):.3g}x."
        lines += ["", f'Grid "{grid}", {said}', "", "<details><summary>All of them</summary>", ""]
        lines += [*rows_table(cells), "", "</details>"]
    return lines


def plots(runs):
    """Return the SVG of every bench that has points, by its name: seconds against the size."""
    drawn = {}
    for name, run in runs.items():
        axis, points = curves(run)
        if points:
            panels = [[draw.Panel(f"{name}: time of one call", axis, "time", points)]]
            forms = dict(x_form="{:,.0f}".format, y_form=tick)
            drawn[name] = draw.figure(panels, log="xy", **forms)
    return drawn


# -- cost of many rows -----------------------------------------------------------------------------


def costs(run):
    """Return {method: (seconds per row and iteration, size, bytes per block and iteration)}."""
    cost, traffic = {}, {}
    for row in run["rows"]:
        name = re.split(r"[, ]", row["what"])[0]
        if "cost" in row:
            cost[name] = row["cost"], row["size"]
        if "traffic" in row:
            traffic[name] = row["traffic"]
    return {name: (*cost[name], traffic[name]) for name in traffic if name in cost}


def scale_page(run):
    """Text of perf/SCALE.md, from the run of the bench of rows."""
    lines = []
    for name, (cost, size, traffic) in costs(run).items():
        count, table = ITERATIONS[name], []
        for n in MANY_ROWS:
            each = [count * (n * cost / w + (w > 1) * w * traffic / BANDWIDTH) for w in WORKERS]
            table.append((f"{n:.0e}".replace("e+0", "e"), *map(duration, each)))
        text = (
            f"Measured at {size}: {1e9 * cost:.3g} ns per row and iteration, {traffic:,.0f} bytes "
            f"per worker and iteration. A fit of {count} iterations:"
        )
        titles = "rows", *(f"{w} worker{'s' * (w > 1)}" for w in WORKERS)
        lines += [f"## {name}", "", text, "", *markdown(titles, table), ""]
    return SCALE.format(tables="\n".join(lines), bandwidth=BANDWIDTH / 1e9)


def render():
    """Return the text of every file to write, by its path in perf/."""
    runs = latest()
    lines = [HEAD, *overview(runs)]
    for name, run in runs.items():
        lines += ["", *section(name, run)]
    files = {"RESULTS.md": "\n".join(lines) + "\n"}
    if "rows" in runs:
        files["SCALE.md"] = scale_page(runs["rows"])
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
            temporary = path.with_suffix(".part")
            temporary.write_text(text, encoding="utf-8", newline="\n")
            os.replace(temporary, path)
            print(f"perf/{name}")

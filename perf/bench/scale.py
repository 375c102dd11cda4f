"""perf/SCALE.md: cost toward 1e9 rows on N workers, from the records of the bench of rows."""

import re

from perf.text import duration, markdown

ROWS = (10**7, 10**8, 10**9)
WORKERS = (1, 8, 64)
LINK = 1e9  # Bytes a second that reach the one who asks: a network of 10 Gbit/s.
ITERATIONS = {"PSVM": 18, "GradientBoosting": 100}  # of a usual fit
HEAD = """# Toward 1e9 rows

Written by `python -m perf render` from the records of `python -m perf rows`, which
[RESULTS.md](RESULTS.md#rows) shows in full. All methods that take row blocks need only sums over
rows: an iteration sends one small step to every block and gets one small answer back, whatever the
number of rows. So on W workers, one block each, with n rows of d columns

    seconds an iteration = n * cost / W  +  W * traffic / bandwidth

The first term is work that workers share, the second is what the one who asks has to receive; it
grows with the number of workers, which add up the histograms of their blocks first. For trees the
traffic is these histograms, 16 bytes for each node, column and bin; for `PSVM` sums of the size of
its curvature, and once a sample of the rows. Iterations of `PSVM` on that sample are counted, too.
"""
TAIL = """
Measured on one machine: one process out of core for the cost, two worker processes for the traffic;
the tables extend that by the formula, with {link:.0f} GB/s and no other delay. Nothing here was run
on more than one machine or on more than 1e7 rows; what two workers gain over one, RESULTS.md tells.
On disk a row takes 8 d bytes as it is given; trees keep d + 76 bytes a row besides, in files,
`PSVM` about 60. In memory a worker needs the interpreter and a few pieces of a block.

A lost worker costs what it had done for its blocks: they are opened anew, and the members so far
are applied to them, which needs no histograms.
"""


def costs(run):
    """Seconds a row and iteration, and bytes a block and iteration, of the methods that have both;
    with the number of rows they were measured on."""
    cost, traffic = {}, {}
    for row in run["rows"]:
        name = re.split(r"[, ]", row["what"])[0]
        if "cost" in row:
            cost[name] = row["cost"], row["size"]
        if "traffic" in row:
            traffic[name] = row["traffic"]
    return {name: (*cost[name], traffic[name]) for name in traffic if name in cost}


def page(run):
    """Text of the page."""
    lines = [HEAD]
    for name, (cost, size, traffic) in costs(run).items():
        count = ITERATIONS[name]
        lines += [
            f"## {name}",
            "",
            f"Measured at {size}: {1e9 * cost:.3g} ns a row and iteration, {traffic:,.0f} bytes a "
            f"worker and iteration. A fit of {count} iterations:",
            "",
        ]
        rows = []
        for n in ROWS:
            each = [count * (n * cost / w + (w > 1) * w * traffic / LINK) for w in WORKERS]
            rows.append((f"{n:.0e}".replace("e+0", "e"), *map(duration, each)))
        titles = "rows", *(f"{w} worker{'s' * (w > 1)}" for w in WORKERS)
        lines += [*markdown(titles, rows), ""]
    return "\n".join(lines) + TAIL.format(link=LINK / 1e9)

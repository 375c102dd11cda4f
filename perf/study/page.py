"""Pages of papers: targets, observations, and our numbers beside printed ones.

A target is one table or figure of a paper; perf/papers/<paper>.py declares it. Its page function
turns records into a Page, with a verdict that follows from the records by a rule.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from perf.text import mean_std, spread

VERDICTS = HOLDS, PARTLY, FAILS = "holds", "partly holds", "does not hold"
UNDECIDED = "undecided"  # of an observation that is as claimed in the mean, but not beyond chance


@dataclass(frozen=True)
class Target:
    """A table or a figure of a paper."""

    title: str
    reference: str
    claim: str
    jobs: (
        Callable  # jobs(quick) -> {label: Spec or Step}; quick: a run of seconds, for a first look
    )
    page: Callable  # page(records, quick) -> Page, of {label: [record, ...]}
    seconds: str  # how long all of it takes on two cores, in words


@dataclass
class Page:
    """Results of a target: verdict, tables, drawings, deviations from the paper."""

    verdict: str  # one of VERDICTS
    reason: str  # why, in a sentence or two, with the figures that decide
    parts: list  # of texts and Tables, in their order
    pictures: dict = field(default_factory=dict)  # {suffix of the file's name: (SVG, caption)}
    deviations: list = field(default_factory=list)  # sentences; the page numbers them


class Table(NamedTuple):
    caption: str
    titles: list
    rows: list


class Printed(NamedTuple):
    """A printed figure: a mean, its standard deviation if there is one, the number of trials."""

    mean: float
    std: float | None = None
    trials: int = 1


# -- figures beside printed ones -------------------------------------------------------------------


def corrected_error(std, trials, train, test):
    """Standard error of a mean over random splits, which overlap (Nadeau, Bengio 2003)."""
    return std * math.sqrt(1.0 / trials + test / train)


def departure(records, printed, key="test_error", scale=100.0, corrected=True):
    """Distance of our mean from the printed one in standard errors; None without a spread.

    Both means are of random splits. Where the paper prints no standard deviation, ours is taken.
    With corrected=False the standard errors are the plain ones, which is stricter: both are means
    of splits of the same rows, and given the rows splits are independent.
    """
    figures = spread([scale * record[key] for record in records])
    if not figures["std"]:
        return None
    rows = records[0]["train_rows"], records[0]["test_rows"] if corrected else 0
    ours = corrected_error(figures["std"], len(records), *rows)
    theirs = corrected_error(printed.std or figures["std"], printed.trials, *rows)
    return (figures["mean"] - printed.mean) / math.hypot(ours, theirs)


def figure(records, key="test_error", scale=100.0):
    """Our mean and standard deviation, as text."""
    ours = spread([scale * record[key] for record in records])
    return mean_std(ours | {"std": ours["std"] or None}, sign="±")


def beside(records, printed, key="test_error", scale=100.0):
    """Our figure, and in brackets the printed one and by how many standard errors they differ."""
    told = f"{printed.mean:.1f}" + (f" ± {printed.std:.1f}" if printed.std else "")
    distance = departure(records, printed, key, scale)
    told += "" if distance is None else f"; {distance:+.1f}"
    return f"{figure(records, key, scale)} [{told}]"


LEGEND = (
    "A cell is our mean ± standard deviation over the splits and, in brackets, the printed figure "
    "and how many standard errors ours lies above it, corrected for the overlap of random splits "
    "(Nadeau, Bengio 2003). Beyond ± 2 the two differ, even allowing for other rows of the same "
    "kind; less can still be more than other splits of the same rows explain."
)


# -- observations ----------------------------------------------------------------------------------


class Observation(NamedTuple):
    """A claim of a paper, our verdict, one of VERDICTS or UNDECIDED, and the numbers behind it."""

    claim: str
    verdict: str
    why: str


def judge(verdicts):
    """Verdict on several observations together: all hold, none holds, or neither."""
    verdicts = {*verdicts}
    return HOLDS if verdicts == {HOLDS} else FAILS if verdicts == {FAILS} else PARTLY


def verdict(statements):
    """The verdict on a claim of several statements, {text: whether it came out}, and these."""
    right = [text for text, came in statements.items() if came]
    wrong = [text for text, came in statements.items() if not came]
    lines = [f"what came out: {'; '.join(right)}."] if right else []
    lines += [f"{'W' if right else 'w'}hat did not: {'; '.join(wrong)}."] if wrong else []
    told = judge(HOLDS if came else FAILS for came in statements.values())
    return told, " ".join(lines)


def overall(seen):
    """The verdict on all observations of a page, and how many hold, in words."""
    holding = sum(one.verdict == HOLDS for one in seen)
    words = f"{holding} of {len(seen)} observations {'holds' if holding == 1 else 'hold'}"
    return judge(one.verdict for one in seen), words


def observations(seen):
    """The table of them, numbered."""
    rows = [[k, *one] for k, one in enumerate(seen, 1)]
    caption = "What the paper observes, and what we find:"
    return Table(caption, ["", "observation", "verdict", "what decides"], rows)


def p_text(p):
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"

"""Pages of papers: targets, observations, and our numbers beside printed ones.

A target is one table or figure of a paper; perf/papers/<paper>.py declares it. Its page function
turns records, {label: [record, ...]}, into a Page, whose verdict follows from them by a rule.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from perf.study import statistics
from perf.study.workers import Step
from perf.text import mean_std, spread

VERDICTS = HOLDS, PARTLY, FAILS = "holds", "partly holds", "does not hold"
UNDECIDED = "undecided"  # Of an observation that is as claimed in the mean, but not beyond chance.


@dataclass(frozen=True)
class Target:
    """A table or a figure of a paper."""

    title: str
    claim: str
    jobs: Callable  # jobs(quick) -> {label: Spec or Step}; quick: a run of seconds
    page: Callable  # page(records, quick) -> Page
    seconds: str  # Sentence on the time that it takes.


@dataclass
class Page:
    """Results of a target: verdict, tables, drawings, deviations from the paper."""

    verdict: str  # One of VERDICTS.
    reason: str  # One or two sentences with the numbers that decide.
    contents: list  # Texts and Tables, in their order.
    pictures: dict = field(default_factory=dict)  # {suffix of the file's name: (SVG, caption)}
    deviations: list = field(default_factory=list)  # Sentences; the page numbers them.


class Table(NamedTuple):
    caption: str
    titles: list
    rows: list


class Printed(NamedTuple):
    """A printed figure: a mean, its standard deviation if there is one, the number of trials."""

    mean: float
    std: float | None = None
    trials: int = 1


def step(function, **arguments):
    """Return the Step that calls a function of a paper with these arguments."""
    return Step(f"{function.__module__}:{function.__name__}", arguments)


def only(records):
    """Return {label: record} of records with one record per label."""
    return {label: record for label, (record,) in records.items()}


def axis(records, k):
    """Return the values at place k of the labels, each once, in their order."""
    return list(dict.fromkeys(label[k] for label in records))


def plus_minus(values, factor=1.0, digits=1):
    """Write the mean and, of several values, the standard deviation."""
    return mean_std(spread([*map(float, values)]), factor, digits, sign="±")


def corrected_error(std, trials, train, test):
    """Standard error of a mean over random splits, which overlap (Nadeau, Bengio 2003)."""
    return std * math.sqrt(1.0 / trials + test / train)


def departure(records, printed, key="test_error", scale=100.0, corrected=True):
    """Distance of our mean from the printed one in standard errors; None without a spread.

    If the paper prints no standard deviation, ours is taken. corrected=False takes the plain
    standard errors, which is stricter: given the rows, splits are independent.
    """
    own = spread([scale * record[key] for record in records])
    if not own["std"]:
        return None
    rows = records[0]["train_rows"], records[0]["test_rows"] if corrected else 0
    ours = corrected_error(own["std"], len(records), *rows)
    theirs = corrected_error(printed.std or own["std"], printed.trials, *rows)
    return (own["mean"] - printed.mean) / math.hypot(ours, theirs)


def figure(records, key="test_error", scale=100.0):
    """Write our mean and, if it is not zero, the standard deviation."""
    ours = spread([scale * record[key] for record in records])
    return mean_std(ours | {"std": ours["std"] or None}, sign="±")


def beside(records, printed, key="test_error", scale=100.0):
    """Write our figure, and in brackets the printed one and the departure in standard errors."""
    text = f"{printed.mean:.1f}" + (f" ± {printed.std:.1f}" if printed.std else "")
    distance = departure(records, printed, key, scale)
    text += "" if distance is None else f"; {distance:+.1f}"
    return f"{figure(records, key, scale)} [{text}]"


LEGEND = (
    "A cell is our mean ± standard deviation over the splits and, in brackets, the printed figure "
    "and how many standard errors ours lies above it, corrected for the overlap of random splits "
    "(Nadeau, Bengio 2003). Beyond ± 2 the two differ, even allowing for other rows of the same "
    "kind; less can still be more than other splits of the same rows explain."
)


class Observation(NamedTuple):
    """A claim of a paper, our verdict, one of VERDICTS or UNDECIDED, and the numbers behind it."""

    claim: str
    verdict: str
    why: str


def judge(verdicts):
    """Return the verdict on several verdicts: all hold, all fail, or neither."""
    verdicts = {*verdicts}
    return HOLDS if verdicts == {HOLDS} else FAILS if verdicts == {FAILS} else PARTLY


def verdict(statements):
    """Return the verdict on a claim of several statements, {text: is true}, and its reason."""
    right = [text for text, is_true in statements.items() if is_true]
    wrong = [text for text, is_true in statements.items() if not is_true]
    lines = [f"confirmed: {'; '.join(right)}."] if right else []
    lines += [f"{'N' if right else 'n'}ot confirmed: {'; '.join(wrong)}."] if wrong else []
    return judge(HOLDS if true else FAILS for true in statements.values()), " ".join(lines)


def overall(observed):
    """Return the verdict on all observations of a page, and the number that hold, in words."""
    holding = sum(one.verdict == HOLDS for one in observed)
    words = f"{holding} of {len(observed)} observations {'holds' if holding == 1 else 'hold'}"
    return judge(one.verdict for one in observed), words


def observations(observed):
    """Return the numbered table of the observations."""
    rows = [[k, *one] for k, one in enumerate(observed, 1)]
    caption = "Observations of the paper, and our verdicts:"
    return Table(caption, ["", "observation", "verdict", "evidence"], rows)


def average_ranks(methods, errors):
    """Return {method: mean rank over the rows of errors (sets, methods)}; rounding is no rank."""
    return dict(zip(methods, statistics.ranks(np.round(errors, 9)).mean(axis=0), strict=True))


def listing(names):
    return ", ".join(names) or "none"


def p_text(p):
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"

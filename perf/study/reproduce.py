"""Reproductions: run the protocol of a paper's table or figure, and write a page on what came out.

    python cli.py reproduce exrm-table1 --out perf/papers

A target is one table or figure. perf/papers/<paper>.py has the targets of a paper: what to run, the
printed numbers, and how records become a page. The verdict on a page follows from the records by a
rule of the target. Data sets that cannot be shipped are read from the directory ENSOLVE_DATA; what
is not there is listed on the page as missing, and nothing takes its place.
"""

import hashlib
import importlib
import json
import math
import os
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import datasets
from perf.bench.render import table
from perf.papers import TARGETS
from perf.study import compare, experiment, outputs, store, workers
from perf.study.methods import near
from perf.study.report import spread

VERDICTS = HOLDS, PARTLY, FAILS = "holds", "partly holds", "does not hold"
UNDECIDED = "undecided"  # of an observation that is as claimed in the mean, but not beyond chance
WIDTH = 100  # of the lines of a page


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
    """What came out: the parts of a page that are not known beforehand."""

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
    """Standard error of a mean of so many random splits, which overlap (Nadeau, Bengio 2003)."""
    return std * math.sqrt(1.0 / trials + test / train)


def departure(records, printed, key="test_error", scale=100.0, corrected=True):
    """How many corrected standard errors lie between our mean and the printed one; None: no spread.

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
    figures = spread([scale * record[key] for record in records])
    return f"{figures['mean']:.1f}" + (f" ± {figures['std']:.1f}" if figures["std"] else "")


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


class Seen(NamedTuple):
    """What a paper observes, our verdict on it, one of VERDICTS or UNDECIDED, and what decides."""

    claim: str
    verdict: str
    why: str


def judge(verdicts):
    """The verdict on several things together: all hold, none does, or neither can be said."""
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


# -- running ---------------------------------------------------------------------------------------


def command(names, quick, jobs, folder, quiet):
    """Run `cli.py reproduce`: write the pages into `folder`, if given; return them as text."""
    workers.check(jobs)
    names = list(TARGETS) if names == ["all"] else names
    for name in names:
        if name not in TARGETS:
            wrong = f"{name!r} is no target{near(name, TARGETS)}"
            raise ValueError(f"{wrong}; there are all, {', '.join(TARGETS)}")
    pages = []
    with store.Store(folder) as kept:
        for name in names:
            files = reproduce(name, kept, quick, jobs, quiet)
            for path, text in files.items() if folder else ():
                outputs.write_text(os.path.join(folder, path), text)
            pages.append(files[f"{name}.md"])
    return "\n".join(pages)


def reproduce(name, kept, quick=False, jobs=1, quiet=True):
    """Run one target with what is kept; return the texts of its files, {name: text}."""
    target = load(name)
    planned, missing = _available(target.jobs(quick))
    cells = {label: list(_cells(job)) for label, job in planned.items()}
    waiting = [cell for some in cells.values() for cell in some]

    def watch(missing, records):
        return outputs.countdown(records, len(missing), workers.Clock(missing, jobs), quiet)

    if waiting:
        compare.run(waiting, kept, jobs, watch)
    records = {label: [kept.records[cell.key] for cell in some] for label, some in cells.items()}
    for label, some in records.items():
        for record in some:
            if "failure" in record:
                raise ValueError(f"{name}: {' '.join(map(str, label))} failed: {record['failure']}")
    page = target.page(records, quick)
    files = {f"{name}-{suffix}.svg": drawn for suffix, (drawn, _) in page.pictures.items()}
    return {f"{name}.md": render(name, target, page, missing, quick, records)} | files


def load(name):
    """Return a target by its name."""
    return importlib.import_module(f"perf.papers.{TARGETS[name]}").TARGETS[name]


def _available(jobs):
    """Part the jobs whose data are there from the names of the sets that are missing."""
    planned, missing = {}, []
    for label, job in jobs.items():
        needed = job.arguments.get("data") if isinstance(job, workers.Step) else job.data
        try:
            if needed is not None:
                datasets.locate(needed)
            planned[label] = job
        except datasets.DataError:
            missing.append(needed)
    return planned, list(dict.fromkeys(missing))


def _cells(job):
    """The cells of a job, each with the key under which its record is kept."""
    if isinstance(job, workers.Step):
        text = json.dumps([job.function, job.arguments], sort_keys=True)
        yield job._replace(key=hashlib.sha256(text.encode()).hexdigest()[:32])
        return
    experiment.check(job, workers.read(job))
    digest = store.checksum(job.data)
    for trial in range(job.trials * (job.cv or 1)):
        yield workers.Cell(job, trial, store.key(job, trial, digest))


# -- pages -----------------------------------------------------------------------------------------


def wrap(text, indent=""):
    """Break a paragraph into lines; those after the first begin with the indent."""
    how = {"break_long_words": False, "break_on_hyphens": False, "subsequent_indent": indent}
    return textwrap.fill(text, WIDTH, **how)


def render(name, target, page, missing, quick, records):
    """Write a page in its fixed form."""
    assert page.verdict in VERDICTS, page.verdict
    lines = [f"# {target.title}", "", wrap(f"**Reference.** {target.reference}")]
    lines += ["", wrap(f"**Claim.** {target.claim}")]
    lines += ["", wrap(f"**Verdict.** {page.verdict}: {page.reason}"), "", "## Figures"]
    if quick:
        lines += ["", wrap("**A quick run:** few and small, a look at the protocol, no evidence.")]
    for part in page.parts:
        if isinstance(part, Table):
            lines += ["", wrap(part.caption), "", *table(part.titles, part.rows)]
        else:
            lines += ["", wrap(part)]
    for suffix, (_, caption) in page.pictures.items():
        lines += ["", f"![{caption}]({name}-{suffix}.svg)"]
    lines += ["", "## Deviations", ""]
    told = [*page.deviations, *(f"Missing, as it cannot be shipped and is not in the directory "
                                f"ENSOLVE_DATA: {data}." for data in missing)]  # fmt: skip
    lines += [wrap(f"{k}. {text}", " " * len(f"{k}. ")) for k, text in enumerate(told, 1)]
    lines += [
        "",
        "## Command",
        "",
        f"`python cli.py reproduce {name}{' --quick' if quick else ''}`",
    ]
    lines += ["", wrap(f"{target.seconds} {_versions(records)}")]
    return "\n".join(lines) + "\n"


def _versions(records):
    """What the records were made with."""
    found = [record.get("versions", {}) for some in records.values() for record in some]
    versions = {package: number for one in found for package, number in one.items()}
    return ", ".join(f"{package} {number}" for package, number in versions.items()) + "."

"""Reproductions: run the protocol of a paper's table or figure, and write a page on its results.

    python cli.py reproduce exrm-table1 --out perf/papers

perf/papers/<paper>.py declares the targets of a paper. Data sets that cannot be shipped are read
from the directory ENSOLVE_DATA; a page lists those that are missing.
"""

import hashlib
import importlib
import json
import os

import datasets
from perf.papers import TARGETS
from perf.study import compare, experiment, outputs, store, workers
from perf.study.methods import near
from perf.study.page import VERDICTS, Table
from perf.text import markdown, wrap


def command(names, quick, jobs, folder, quiet):
    """Run `cli.py reproduce`: write the pages into `folder`, if given; return them as text."""
    compare.check_jobs(jobs)
    names = list(TARGETS) if names == ["all"] else names
    for name in names:
        if name not in TARGETS:
            wrong = f"unknown target {name!r}.{near(name, TARGETS)}"
            raise ValueError(f"{wrong} The targets are all, {', '.join(TARGETS)}")
    pages = []
    with store.Store(folder) as stored:
        for name in names:
            files = reproduce(name, stored, quick, jobs, quiet)
            for path, text in files.items() if folder else ():
                outputs.write_text(os.path.join(folder, path), text)
            pages.append(files[f"{name}.md"])
    return "\n".join(pages)


def reproduce(name, stored, quick=False, jobs=1, quiet=True):
    """Run one target, but for cells with stored records; return its files, {name: text}."""
    target, reference = load(name)
    planned, missing = _available(target.jobs(quick))
    cells = {label: list(_cells(job)) for label, job in planned.items()}
    waiting = [cell for some in cells.values() for cell in some]
    if waiting:
        compare.run(waiting, stored, jobs, quiet)
    records = {label: [stored.records[cell.key] for cell in some] for label, some in cells.items()}
    for label, some in records.items():
        for record in some:
            if "failure" in record:
                raise ValueError(f"{name}: {' '.join(map(str, label))} failed: {record['failure']}")
    page = target.page(records, quick)
    files = {f"{name}-{suffix}.svg": drawn for suffix, (drawn, _) in page.pictures.items()}
    return {f"{name}.md": render(name, reference, target, page, missing, quick, records)} | files


def load(name):
    """Return a target and the reference of its paper."""
    paper = importlib.import_module(f"perf.papers.{TARGETS[name]}")
    return paper.TARGETS[name], paper.REFERENCE


def _available(jobs):
    """Return the jobs whose data are there, and the names of the missing data sets."""
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
    """Yield the cells of a job, each with the key of its record."""
    if isinstance(job, workers.Step):
        text = json.dumps([job.function, job.arguments], sort_keys=True)
        yield job._replace(key=hashlib.sha256(text.encode()).hexdigest()[:32])
        return
    experiment.check(job, workers.read(job))
    digest = store.checksum(job.data)
    for trial in range(len(job)):
        yield workers.Cell(job, trial, store.key(job, trial, digest))


def render(name, reference, target, page, missing, quick, records):
    """Write a page in its fixed form."""
    assert page.verdict in VERDICTS, page.verdict
    lines = [f"# {target.title}", "", wrap(f"**Reference.** {reference}")]
    lines += ["", wrap(f"**Claim.** {target.claim}")]
    lines += ["", wrap(f"**Verdict.** {page.verdict}: {page.reason}"), "", "## Figures"]
    if quick:
        lines += ["", wrap("**A quick run:** few and small, a look at the protocol, no evidence.")]
    for item in page.contents:
        if isinstance(item, Table):
            lines += ["", wrap(item.caption), "", *markdown(item.titles, item.rows)]
        else:
            lines += ["", wrap(item)]
    for suffix, (_, caption) in page.pictures.items():
        lines += ["", f"![{caption}]({name}-{suffix}.svg)"]
    lines += ["", "## Deviations", ""]
    absent = "Missing, as it cannot be shipped and is not in the directory ENSOLVE_DATA: {}."
    deviations = [*page.deviations, *map(absent.format, missing)]
    lines += [wrap(f"{k}. {text}", " " * len(f"{k}. ")) for k, text in enumerate(deviations, 1)]
    command = f"`python cli.py reproduce {name}{' --quick' if quick else ''}`"
    lines += ["", "## Command", "", command]
    each = [record.get("versions", {}) for some in records.values() for record in some]
    versions = {package: number for one in each for package, number in one.items()}
    told = ", ".join(f"{package} {number}" for package, number in versions.items())
    lines += ["", wrap(f"{target.seconds} {told}.")]
    return "\n".join(lines) + "\n"

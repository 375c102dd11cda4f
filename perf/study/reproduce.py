"""Reproductions: run the protocol of a paper's table or figure, and write a page on its results.

    python cli.py reproduce exrm-table1 --out perf/papers

perf/papers/<paper>.py declares the targets of a paper. Data sets that cannot be shipped are read
from the directory ENSOLVE_DATA; a missing one is listed on the page, and nothing takes its place.
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
    with store.Store(folder) as kept:
        for name in names:
            files = reproduce(name, kept, quick, jobs, quiet)
            for path, text in files.items() if folder else ():
                outputs.write_text(os.path.join(folder, path), text)
            pages.append(files[f"{name}.md"])
    return "\n".join(pages)


def reproduce(name, kept, quick=False, jobs=1, quiet=True):
    """Run the missing cells of one target; return the texts of its files, {name: text}."""
    target = load(name)
    planned, missing = _available(target.jobs(quick))
    cells = {label: list(_cells(job)) for label, job in planned.items()}
    waiting = [cell for some in cells.values() for cell in some]
    if waiting:
        compare.run(waiting, kept, jobs, quiet)
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
            lines += ["", wrap(part.caption), "", *markdown(part.titles, part.rows)]
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
    """Versions of the packages that made the records."""
    found = [record.get("versions", {}) for some in records.values() for record in some]
    versions = {package: number for one in found for package, number in one.items()}
    return ", ".join(f"{package} {number}" for package, number in versions.items()) + "."

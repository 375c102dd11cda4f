"""Tests for the pages in perf/papers: their form, and that their commands work."""

import re
import shlex
import subprocess
import sys

import pytest

import cli
from perf.__main__ import benches
from perf.study import reproduce
from perf.study.page import VERDICTS
from tests.conftest import check_lists
from tests.test_imports import ROOT

FOLDER = ROOT / "perf" / "papers"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}
PAPERS = {name: page for name, page in PAGES.items() if name not in reproduce.TARGETS}
CLAIM = re.compile(
    r"## Claim (\d+)\. \S.*\n\n\*\*Claim\.\*\* (.+?)\n\n\*\*Verdict\.\*\* (.+?)\n\n"
    r"\*\*Figures\.\*\* (.+?)\n\n\*\*Command\.\*\* (.+?)\n*\Z",
    re.DOTALL,
)


def claims(page):
    """Number, claim, verdict, figures and command of each claim of a page."""
    sections = re.split(r"^(?=## )", page, flags=re.MULTILINE)[1:-1]
    matches = [CLAIM.fullmatch(text) for text in sections]
    assert all(matches), [text[:60] for text in sections if not CLAIM.fullmatch(text)]
    return [match.groups() for match in matches]


def commands():
    """Every command on the pages, once."""
    fields = [claim[4] for page in PAPERS.values() for claim in claims(page)]
    quoted = [text for field in fields for text in re.findall(r"`([^`]+)`", field)]
    return sorted({text for text in quoted if text.startswith(("python ", "pytest "))})


def test_every_paper_has_a_page_with_links_to_its_targets():
    assert set(PAPERS) == {"exrm", "drm", "adaboost-nc", "cqboost", "ensemble-chapter"}
    for name, page in PAGES.items():
        if name in reproduce.TARGETS:
            paper = PAPERS[reproduce.TARGETS[name].replace("_", "-")]
            assert f"]({name}.md)" in paper and page.startswith("# ")
            for file in re.findall(r"\]\(([^)]+\.svg)\)", page):
                assert (FOLDER / file).exists()


@pytest.mark.parametrize("name", PAPERS)
def test_a_page_keeps_the_form(name):
    page = PAPERS[name]
    fields = (rf"\*\*{field}\.\*\* .+?\n\n" for field in ("Reference", "Code", "In short"))
    head = re.match(r"# \S.*\n\n" + "".join(fields) + r"## Claim 1\.", page, re.DOTALL)
    assert head, "title, Reference, Code, In short, then the claims"
    for file in re.findall(r"`(solvers/\w+\.py)`", head[0]):
        assert (ROOT / file).exists()
    all_claims = claims(page)
    assert [int(claim[0]) for claim in all_claims] == [*range(1, len(all_claims) + 1)]
    assert {claim[2] for claim in all_claims} <= {*VERDICTS}
    for *_, command in all_claims:
        assert re.search(r"`(python|pytest) ", command) or command.startswith("No single command: ")
    check_lists(page)
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", page):
        assert (FOLDER / picture).exists()


@pytest.mark.parametrize("command", commands())
def test_commands_of_the_pages_work(command, tmp_path, monkeypatch):
    """Run commands of cli.py with one split; look up the names of benches, targets and tests."""
    program, *arguments = shlex.split(command)
    if program == "pytest":
        file, flag, name = arguments
        assert flag == "-k" and f"_{name}" in (ROOT / file).read_text(encoding="utf-8")
    elif arguments[:2] == ["-m", "perf"]:
        assert set(arguments[2:]) <= set(benches())
    elif arguments[:2] == ["cli.py", "reproduce"]:
        assert {*arguments[2].split(",")} <= {*reproduce.TARGETS}
    elif arguments[0] == "-c":
        assert subprocess.run([sys.executable, *arguments], capture_output=True).returncode == 0
    else:
        assert arguments[0] == "cli.py"
        monkeypatch.chdir(tmp_path)
        argv = re.sub(r" --trials \d+|$", " --trials 1", " ".join(arguments[1:]), count=1).split()
        assert cli.main(argv) == 0

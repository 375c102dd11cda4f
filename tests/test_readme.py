"""The README does what it says: its code prints what its comments claim, its commands run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cli
from perf.study.reproduce import TARGETS
from solvers import CLASSES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ python (cli\.py [^#\n]+)", README, re.MULTILINE)
SET_UP = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)


def untimed(report):
    """The report without figures that differ between runs: times, gaps."""
    lines = [
        re.sub(r"^(\s*\w+( \w+)*)\s.*\d m?s\b.*$", r"\1", line) for line in report.splitlines()
    ]
    return [re.sub(r"\d\.\de-\d\d", "gap", line) for line in lines]


def test_two_set_up_commands():
    assert SET_UP == [
        "pip install -e . && python cli.py exrm --data sonar\n",
        "pip install -e '.[test]' && pytest\n",
    ]


def test_sample_report_is_as_printed(capsys):
    """Each line of the sample, but [...], stands in the printed report, in this order."""
    (block,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    command = SET_UP[0].split("python cli.py ")[1]
    assert cli.main(command.split()) == 0
    printed = iter(untimed(capsys.readouterr().out))
    for line in untimed(block):
        assert line == "  [...]" or line in printed, line
    assert "ms" in block


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_example_prints_what_it_claims(code, tmp_path):
    (tmp_path / "example.py").write_text(code)
    command, env = [sys.executable, tmp_path / "example.py"], os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    claims = re.findall(r"^ *print\(.*\)\s+# (.*)$", code, re.MULTILINE)
    assert claims and done.stdout.splitlines() == [claim.partition(":")[0] for claim in claims]


def test_commands_run_in_their_order(tmp_path, monkeypatch):
    """... beside a file my.csv and one new.csv, as a reader would have them."""
    assert len(COMMANDS) >= 9
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i},{i % 7},{'rosa' if i % 2 else 'alba'}\n" for i in range(40))
    (tmp_path / "my.csv").write_text("a,b,species\n" + rows)
    (tmp_path / "new.csv").write_text("a,b\n" + "".join(f"{i},{i % 7}\n" for i in range(5)))
    for command in COMMANDS:
        argv = command.split()[1:]
        if "diversity.svg" in argv:  # Six data sets take a minute.
            argv = ["compare", "--data", "sonar,heart", "--trials", "2", *argv[3:]]
        if "--help" in argv:
            with pytest.raises(SystemExit):
                cli.main(argv)
        else:
            assert cli.main(argv) == 0, command
    assert (tmp_path / "diversity.svg").read_text().startswith("<svg")
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 6


def test_modules_and_links_are_there():
    for link in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / link).exists(), link
    for module in re.findall(r"`(?:python -m\s)?(tests\.hard_\w+)`", README):
        assert (ROOT / f"{module.replace('.', '/')}.py").exists(), module
    pages = {page.stem for page in (ROOT / "perf/papers").glob("*.md")} - set(TARGETS)
    assert all(f"perf/papers/{page}.md" in README for page in pages)


def test_every_class_is_named():
    names = [name for each in CLASSES.values() for name in each if name[0] != "_"]
    assert [name for name in names if f"`{name}`" not in README] == []


def test_cells_of_tables_are_short():
    for row in re.findall(r"^\| (.*) \|$", README, re.MULTILINE):
        for cell in row.split(" | "):
            assert len(cell.split()) <= 6, cell

"""The README does what it says: its code prints what its comments claim, its commands run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import cli
import datasets

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"`python (cli\.py [^`]+)`", README)


def test_two_set_up_commands():
    commands = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    assert commands == [
        "pip install -e . && python cli.py exrm --data sonar\n",
        "pip install -e '.[test]' && pytest\n",
    ]


def test_example_prints_what_it_claims():
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    claims = re.findall(r"^print\(.*\)\s+# (.*)$", code, re.MULTILINE)
    assert done.stdout.splitlines() == [claim.partition(":")[0] for claim in claims]


def test_commands_run_in_their_order(tmp_path, monkeypatch):
    """... beside a file my.csv and one new.csv, as a reader would have them."""
    assert len(COMMANDS) >= 9
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i},{i % 7},{'rosa' if i % 2 else 'alba'}\n" for i in range(40))
    (tmp_path / "my.csv").write_text("a,b,species\n" + rows)
    data = datasets.load("heart")
    names = [column["name"] for column in data.schema if column["kind"] != "label"]
    table = [",".join(names), *(",".join(map(repr, row)) for row in data.X[:5].tolist())]
    (tmp_path / "new.csv").write_text("\n".join(table) + "\n")
    for command in COMMANDS:
        argv = command.replace("--trials 100", "--trials 2").split()[1:]
        if "--help" in argv:
            with pytest.raises(SystemExit):
                cli.main(argv)
        else:
            assert cli.main(argv) == 0, command
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 6


def test_every_file_has_a_row():
    for path in (ROOT / "solvers").glob("[!_]*.py"):
        assert f"`solvers/{path.name}`" in README

"""The README does what it says: its code prints what its comments claim, its commands run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cli
import datasets
from perf.study.reproduce import TARGETS
from solvers import METHODS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"`python (cli\.py [^`]+)`", README)
SET_UP = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)


def untimed(report):
    """The report without what differs from run to run: lines with a time keep their label only,
    and gaps are left out."""
    lines = [
        re.sub(r"^(\s*\w+( \w+)*)\s.*\d m?s\b.*$", r"\1", line) for line in report.splitlines()
    ]
    return [re.sub(r"\d\.\de-\d\d", "gap", line) for line in lines]


def test_it_is_short():
    assert len(README.splitlines()) <= 160


def test_two_set_up_commands():
    assert SET_UP == [
        "pip install -e . && python cli.py exrm --data sonar\n",
        "pip install -e '.[test]' && pytest\n",
    ]


def test_sample_report_is_as_printed(capsys):
    (block,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    command = SET_UP[0].split("python cli.py ")[1]
    assert cli.main(command.split()) == 0
    printed = untimed(capsys.readouterr().out)
    assert untimed(block) == printed
    assert sum("ms" in line for line in block.splitlines()) > sum("ms" in line for line in printed)


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
    data = datasets.load("heart")
    names = [column["name"] for column in data.schema if column["kind"] != "label"]
    table = [",".join(names), *(",".join(map(repr, row)) for row in data.X[:5].tolist())]
    (tmp_path / "new.csv").write_text("\n".join(table) + "\n")
    for command in COMMANDS:
        argv = command.split()[1:]
        if "--help" in argv:
            with pytest.raises(SystemExit):
                cli.main(argv)
        else:
            assert cli.main(argv) == 0, command
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 6


def test_modules_and_links_are_there():
    for link in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / link).exists(), link
    for module in re.findall(r"`(?:python -m\s)?(tests\.hard_\w+)`", README):
        assert (ROOT / f"{module.replace('.', '/')}.py").exists(), module
    pages = {page.stem for page in (ROOT / "perf/papers").glob("*.md")} - set(TARGETS)
    assert all(f"perf/papers/{page}.md" in README for page in pages)


def test_every_file_and_class_has_a_row_a_test_and_a_bench():
    for path in (ROOT / "solvers").glob("[!_]*.py"):
        assert f"| `solvers/{path.name}` |" in README
        assert (ROOT / "tests" / f"test_{path.name}").exists()
        assert (ROOT / "perf" / "bench" / path.name).exists()
    assert all(f"`{name}`" in README for _, name, _ in METHODS.values())


def test_tables_that_a_new_method_enters_are_where_it_says():
    """`NAME`, `NAME` and `NAME` of `file`, under Contributing."""
    text = " ".join(README.partition("## Contributing")[2].split())
    named = re.findall(r"((?:`[A-Z_]+`(?:, | and )?)+) of `([\w/]+\.py)`", text)
    assert len(named) == 5
    for names, file in named:
        code = (ROOT / file).read_text(encoding="utf-8")
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"^{name} = ", code, re.MULTILINE), (name, file)

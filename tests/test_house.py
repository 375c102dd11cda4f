"""The plan of the house, read from the syntax trees: sizes, arguments, and what stands first."""

import ast
import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOLVERS = sorted((ROOT / "solvers").glob("[!_]*.py"))
SOURCES = [*SOLVERS, *sorted((ROOT / "perf").rglob("*.py")), ROOT / "cli.py", ROOT / "datasets.py"]
MOST_LINES = 90
MOST_ARGUMENTS = 10
FIRST_OWN_LINE = 120
SAME_LINES = 6
EXCEPTIONS = {  # A function and why it is larger than planned.
    "__init__": "the parameters of an estimator are the arguments of its constructor",
}
TUNED = {"NEWTON_STEPS": "the most steps of Newton's method are more for some problems"}
TESTS = sorted((ROOT / "tests").glob("*.py"))

each_source = pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
each_solver = pytest.mark.parametrize("path", SOLVERS, ids=lambda path: path.stem)


def functions(path):
    """All functions of a file, those inside classes and functions among them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


def shared_lines(text):
    """Numbers, from 1 on, of the lines inside the shared blocks."""
    found, inside = set(), False
    for number, line in enumerate(text.splitlines(), 1):
        inside |= line.startswith("# >>> shared")
        if inside:
            found.add(number)
        inside &= not line.startswith("# <<< shared")
    return found


def own_code(path):
    """Number and text of the lines that count as a file's own code: no blanks, no comments, no
    imports, nothing from the shared blocks, the docstrings and the signatures."""
    text = path.read_text(encoding="utf-8")
    passed = shared_lines(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            passed.update(range(node.lineno, node.end_lineno + 1))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            passed.update(range(node.lineno, node.body[0].lineno))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            passed.update(range(node.lineno, node.end_lineno + 1))
    lines = [(k, " ".join(line.split())) for k, line in enumerate(text.splitlines(), 1)]
    return [
        (k, line) for k, line in lines
        if k not in passed and re.search(r"\w", line) and not line.startswith("#")
    ]  # fmt: skip


@each_source
def test_functions_are_small(path):
    for node in functions(path):
        size = node.end_lineno - node.lineno + 1
        assert size <= MOST_LINES, f"{path.name}: {node.name} has {size} lines"


@each_source
def test_functions_take_few_arguments(path):
    for node in functions(path):
        arguments = node.args
        count = len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)
        small = count <= MOST_ARGUMENTS or node.name in EXCEPTIONS
        assert small, f"{path.name}: {node.name} takes {count} arguments"


@each_solver
def test_the_method_comes_first(path):
    text = path.read_text(encoding="utf-8")
    shared = shared_lines(text)
    kinds = (ast.FunctionDef, ast.ClassDef)
    own = [node.lineno for node in ast.parse(text).body if isinstance(node, kinds)]
    assert min(line for line in own if line not in shared) <= FIRST_OWN_LINE


@each_solver
def test_blocks_stand_in_their_order(path):
    order = ["jit", "tree", "estimator", "nested", "members"]
    text = path.read_text(encoding="utf-8")
    found = re.findall(r"^# >>> shared: (\w+) \d+$", text, re.MULTILINE)
    assert [name for name in found if name in order] == [name for name in order if name in found]
    assert ("jit" in found) == ("from numba" in text)


def test_command_line_and_readme_are_short():
    assert len((ROOT / "cli.py").read_text(encoding="utf-8").splitlines()) <= 305
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 160


def test_no_six_lines_stand_twice():
    seen, found = {}, []
    for path in [*SOURCES, *TESTS]:
        lines = own_code(path)
        for start in range(len(lines) - SAME_LINES + 1):
            run = lines[start : start + SAME_LINES]
            place = f"{path.name}:{run[0][0]}"
            other = seen.setdefault(tuple(line for _, line in run), place)
            found += [f"{place} repeats {other}"] if other != place else []
    assert not found, "\n".join(found)


def test_constants_of_siblings_mean_the_same():
    """A constant that stands in two files outside the shared blocks has the same value in both,
    unless it is listed with a reason."""
    values = {}
    for path in SOLVERS:
        text = path.read_text(encoding="utf-8")
        shared = shared_lines(text)
        for node in ast.parse(text).body:
            if isinstance(node, ast.Assign) and node.lineno not in shared:
                for target in node.targets:
                    if isinstance(target, ast.Name) and target.id.isupper():
                        values.setdefault(target.id, {})[path.name] = ast.unparse(node.value)
    found = [
        f"{name} differs between {one} and {two}"
        for name, each in values.items()
        if name not in TUNED
        for one, two in itertools.combinations(each, 2)
        if each[one] != each[two]
    ]
    assert not found, "\n".join(found)

"""The plan of the house: budgets of lines, sizes of functions, order of a solver file, words."""

import ast
import importlib
import itertools
import re
import tokenize
from pathlib import Path

import pytest

from tests import new_method

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
BUDGETS = {  # Lines at most. Raising one needs a sentence beside it.
    "solvers/exrm.py": 2000,
    "solvers/drm.py": 1750,
    "solvers/cqboost.py": 2400,
    "solvers/adaboost_nc.py": 1800,
    "solvers/bagging.py": 2150,
    "solvers/gradient_boosting.py": 2400,
    "solvers/combine.py": 1700,
    "solvers/multiclass.py": 850,
    "solvers/diversity.py": 500,
    "solvers/model_file.py": 150,
    "solvers/rows/*.py": 1900,
    "datasets.py": 1350,
    "cli.py": 280,
    "perf/**/*.py except perf/papers": 6600,
    "perf/papers/*.py": 2850,
    "tests/*.py": 18400,
    "**/*.py": 47500,
    "README.md": 200,
}
MOST_LINES_OF_A_ROWS_FILE = 700
WORDS = {  # Pattern in comments, docstrings and messages: number of lines at most. It only falls.
    r"\b(so|this) many\b": 0,
    r"\bthis part\b": 0,
    r"\bas many as\b": 0,
    r"\b(lets?|letting) go\b": 0,
    r"\b(tells|knows|wants|is told|are told)\b": 0,
}
OPENINGS = {  # First words of docstrings: number of docstrings at most. It only falls.
    "The same": 0, "As in": 0, "As ": 0, "So ": 0, "What": 0, "Where": 0, "Whether": 0, "Some": 0,
}  # fmt: skip

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


def lines(pattern):
    """Number of lines of the files of an entry of BUDGETS."""
    pattern, _, other = pattern.partition(" except ")
    paths = {ROOT / "README.md", *SOURCES, *TESTS, *(ROOT / "solvers").rglob("*.py")}
    paths &= {path for path in ROOT.glob(pattern) if not other or ROOT / other not in path.parents}
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


@pytest.mark.parametrize("pattern", BUDGETS)
def test_budgets_of_lines(pattern):
    assert 0 < lines(pattern) <= BUDGETS[pattern], f"{pattern} has {lines(pattern)} lines"


def test_files_of_rows_are_small():
    for path in (ROOT / "solvers" / "rows").glob("*.py"):
        assert lines(str(path.relative_to(ROOT))) <= MOST_LINES_OF_A_ROWS_FILE, path.name


def spoken(path):
    """Yield the lines of the comments and texts of a file."""
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                yield from token.string.splitlines()


def first_lines(path):
    """Yield the first line of each docstring of a file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, kinds) and (doc := ast.get_docstring(node)):
            yield doc.splitlines()[0]


def test_words_of_our_own():
    """Texts use the words of the field; the numbers of WORDS and OPENINGS fall with each change."""
    files = [path for path in [*SOURCES, *TESTS] if path.name != "test_house.py"]
    said = [line for path in files for line in spoken(path)]
    heads = [line for path in files for line in first_lines(path)]
    found = {word: sum(bool(re.search(word, line)) for line in said) for word in WORDS}
    found |= {word: sum(line.startswith(word) for line in heads) for word in OPENINGS}
    assert found == WORDS | OPENINGS, "more: use other words; fewer: lower the number"


def missing_places(root=ROOT):
    """Yield a sentence for each place that does not yet list a solver file."""
    readme = (root / "README.md").read_text(encoding="utf-8")
    listed = (root / "solvers" / "__init__.py").read_text(encoding="utf-8")
    for path in sorted((root / "solvers").glob("[!_]*.py")):
        name, file = path.stem, f"solvers/{path.name}"
        if name == "model_file":
            continue
        code = path.read_text(encoding="utf-8")
        if "class _Estimator" in code and f'"{name}"' not in listed:
            yield f"{file}: add its classes to METHODS and CLASSES of solvers/__init__.py"
        if f"`solvers/{path.name}`" not in readme:
            yield f"{file}: add a row to the table of methods in README.md"
        if not (root / "perf" / "bench" / path.name).exists():
            yield f"{file}: add perf/bench/{path.name}, a race with a peer"
        if file not in BUDGETS:
            yield f"{file}: add a budget of lines to BUDGETS of tests/test_house.py"
        if not (root / "tests" / f"test_{path.name}").exists():
            yield f"{file}: add tests/test_{path.name}"


def test_every_solver_is_in_its_places():
    assert not [*missing_places()]


def test_a_new_method_works_and_misses_its_places(tmp_path, monkeypatch):
    for name in ("solvers", "perf/bench", "tests"):
        (tmp_path / name).mkdir(parents=True)
    for path in [*SOLVERS, ROOT / "solvers/__init__.py", ROOT / "README.md"]:
        (tmp_path / path.relative_to(ROOT)).write_text(path.read_text(encoding="utf-8"))
    solver, test = new_method.make("my_ridge", tmp_path)
    monkeypatch.syspath_prepend(solver.parent)
    module = importlib.import_module("my_ridge")
    code = test.read_text().replace("solvers.my_ridge", "my_ridge")
    space = {}
    exec(code, space)
    space["test_coefficients_solve_the_problem"](1.0)
    assert len(module.__doc__.splitlines()) < 20
    found = [text for text in missing_places(tmp_path) if "my_ridge" in text]
    words = ["METHODS and CLASSES", "README.md", "perf/bench/my_ridge.py", "BUDGETS"]
    assert len(found) == len(words) and all(map(str.__contains__, found, words))
    with pytest.raises(ValueError, match="solvers/my_ridge.py exists; choose another name"):
        new_method.make("my_ridge", tmp_path)
    with pytest.raises(ValueError, match="NAME must be a module name such as my_boost, got 'My-1'"):
        new_method.make("My-1", tmp_path)


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

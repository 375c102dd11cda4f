"""solvers/README.md, rendered from the docstrings of the solvers.

Run as a script to write it: python -m tests.test_solver_page --write
"""

import doctest
import importlib
import inspect
import re
import sys
from pathlib import Path

import numpy as np

import datasets
from solvers import CLASSES, METHODS

PAGE = Path(__file__).resolve().parent.parent / "solvers" / "README.md"
HEAD = """\
# Solvers

One section per class: its problem, when to use it, its parameters, an example with its output.
In the examples X and y are every other row of the data set sonar, X_test and y_test the rest; with
several classes of wine; regressors predict its first column.
`python -m tests.test_solver_page --write` renders this page from the docstrings.
"""
COMMANDS = {name: command for command, (_, name, _) in METHODS.items()}


def classes():
    """Yield the file and each public class of the collection."""
    for stem, names in CLASSES.items():
        module = importlib.import_module(f"solvers.{stem}")
        for name in names:
            if not name.startswith("_"):
                yield stem, getattr(module, name)


def sections(doc):
    """Return the sections of a docstring by title; the text before the first is ""."""
    titles = re.split(r"^(\w+)\n-+\n", doc, flags=re.MULTILINE)
    return {"": titles[0]} | dict(zip(titles[1::2], titles[2::2], strict=True))


def problem(module):
    """Return the problem that a solver's module docstring states, without its label."""
    text = re.search(r"^Problem +(.*?)^(?=[A-Z]\w+  )", inspect.getdoc(module), re.DOTALL | re.M)
    return re.sub(r"^ {10}", "", text[1], flags=re.MULTILINE).strip()


def parameters(cls):
    """Return {name: (accepted values, meaning)}; "as in OTHER" is looked up there."""
    found, text = {}, sections(inspect.getdoc(cls))["Parameters"]
    for names, kind, meaning in re.findall(r"^(\w.*?) : (.*)\n?((?: .*\n?|\n(?= ))*)", text, re.M):
        for name in names.split(", "):
            found[name] = kind, " ".join(meaning.split())
            if kind.startswith("as in "):
                other = getattr(sys.modules[cls.__module__], kind.removeprefix("as in "))
                found[name] = parameters(other)[name]
    return found


def table(cls):
    """Return the table of parameters."""
    rows = [("Parameter", "Values", "Default", "Meaning"), ("---",) * 4]
    defaults = inspect.signature(cls).parameters
    rows += [
        (k, kind, repr(defaults[k].default), text) for k, (kind, text) in parameters(cls).items()
    ]
    cells = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def example(cls, text):
    """Return the code of a docstring's example, or of a fit with defaults, with its output."""
    name = cls.__name__
    if ">>>" not in text:
        seed = "random_state=0" if "random_state" in inspect.signature(cls).parameters else ""
        text = f">>> model = {name}({seed}).fit(X, y)\n>>> model.score(X_test, y_test)\n"
    is_regressor = name.endswith("Regressor")
    data = datasets.load("wine" if cls._multi_class or is_regressor else "sonar")
    X, y = (data.X[:, 1:], data.X[:, 0]) if is_regressor else (data.X, data.y)
    space = {one.__name__: one for _, one in classes()} | vars(sys.modules[cls.__module__])
    space |= {"X": X[::2], "y": y[::2], "X_test": X[1::2], "y_test": y[1::2], "np": np}
    lines = []
    for step in doctest.DocTestParser().get_examples(text):
        source = step.source.rstrip().splitlines()
        lines += [f"{'...' if k else '>>>'} {line}" for k, line in enumerate(source)]
        result = None
        try:
            result = eval(step.source, space)
        except SyntaxError:
            exec(step.source, space)
        lines += [] if result is None or "fit(" in step.source else [shown(result)]
    return "\n".join(lines)


def shown(result):
    """Return repr of a result with at most three decimals, so that rounding does not show."""
    text = re.sub(r"np\.\w+\(([^()]*)\)", r"\1", repr(result))
    text = re.sub(r"\d+\.\d{4,}", lambda number: f"{float(number[0]):.3f}", text)
    return re.sub(r" +(?=[],])", "", text)


def render():
    """Return the whole page."""
    page, last = [HEAD], None
    for stem, cls in classes():
        if stem != last:
            text = problem(sys.modules[cls.__module__])
            page.append(f"## {stem}.py\n\n```text\n{text}\n```\n")
            last = stem
        doc = sections(inspect.getdoc(cls))
        first, _, rest = doc[""].partition("\n")
        command = f", `python cli.py {COMMANDS[cls.__name__]}`" if cls.__name__ in COMMANDS else ""
        page.append(f"### {cls.__name__}\n\n{first}\n{rest.rstrip()}\n".rstrip() + "\n")
        page.append(f"`from solvers.{stem} import {cls.__name__}`{command}\n")
        page.append(f"{table(cls)}\n")
        page.append(f"```pycon\n{example(cls, doc.get('Example', ''))}\n```\n")
    return "\n".join(page)


def test_page_is_as_rendered():
    assert PAGE.read_text(encoding="utf-8") == render(), (
        "solvers/README.md differs from the docstrings: python -m tests.test_solver_page --write"
    )


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    PAGE.write_text(render(), encoding="utf-8")

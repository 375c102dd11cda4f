"""The order of the modules: data flow one way, and no module imports upwards."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ORDER = (  # A module imports from the lines above its own, not even inside a function from others.
    "solvers",
    "solvers.rows",
    "datasets",
    "perf.text perf.draw perf.study.methods perf.study.statistics perf.study.baselines",
    "perf.study.outputs perf.study.experiment",
    "perf.study.parts perf.study.pictures perf.study.store perf.study.workers",
    "perf.study.cluster",
    "perf.study.report",
    "perf.study.tables",
    "perf.study.html",
    "perf.study.compare",
    "perf.study.page",
    "perf.papers",
    "perf.study.reproduce",
    "cli",
)
LEVELS = {name: level for level, line in enumerate(ORDER) for name in line.split()}
WITHIN = {"solvers", "solvers.rows", "perf.papers"}  # rooms whose modules may import each other
SIDEWAYS = {("perf.draw", "perf.text"), ("perf.study.baselines", "solvers")}
PENDING = {  # files whose imports upwards are known; an entry that is needed no more fails, too
    "perf/bench/compare.py": "times the study",
}
BENCH = {"solvers", "solvers.rows", "datasets", "perf.text", "perf.draw", "perf.bench"}


def room(module):
    """The entry of ORDER or "perf.bench" that a module belongs to; None if it is not ours."""
    if module.split(".")[0] not in ("solvers", "datasets", "perf", "cli"):
        return None
    for length in range(module.count(".") + 1, 0, -1):
        name = ".".join(module.split(".")[:length])
        if name in LEVELS or name == "perf.bench":
            return name
    return module


def imports(path):
    """Modules that a file imports, those inside functions among them, with their lines."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            parent = ".".join([*base, *filter(None, [node.module])])
            yield from ((node.lineno, f"{parent}.{alias.name}") for alias in node.names)


def violations(path):
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    own = room(name)
    for line, module in imports(path):
        other = room(module)
        if other is None or other == own and own in WITHIN | {"perf.bench"}:
            continue
        if name == "perf.__main__":
            wrong = other != "perf.bench"
        elif own == "perf.bench":
            wrong = other not in BENCH
        else:
            below = LEVELS.get(other, len(ORDER)) < LEVELS.get(own, 0)
            wrong = not below and (own, other) not in SIDEWAYS
        if wrong:
            yield f"{path.relative_to(ROOT)}, line {line}: {own} must not import {module}"


def test_no_module_imports_upwards():
    rooms = [ROOT / "solvers", ROOT / "perf"]
    paths = [path for folder in rooms for path in sorted(folder.rglob("*.py"))]
    paths += [ROOT / "datasets.py", ROOT / "cli.py"]
    found = {str(path.relative_to(ROOT)): [*violations(path)] for path in paths}
    wrong = [text for path, texts in found.items() if path not in PENDING for text in texts]
    assert not wrong, "\n".join(wrong)
    done = [path for path in PENDING if not found.get(path)]
    assert not done, f"{', '.join(done)}: no import upwards is left; remove it from PENDING"


def test_upward_imports_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.test_imports.ROOT", tmp_path)
    (tmp_path / "perf" / "study").mkdir(parents=True)
    path = tmp_path / "perf" / "study" / "store.py"
    path.write_text("import json\nimport datasets\ndef f():\n    from perf.study import html\n")
    expected = "line 4: perf.study.store must not import perf.study.html"
    assert [*violations(path)] == [f"perf/study/store.py, {expected}"]

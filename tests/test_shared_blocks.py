"""Text between `# >>> shared: NAME` and `# <<< shared: NAME` is the same bytes in every solver.

Run as a script to spread one file's blocks to the others:
python tests/test_shared_blocks.py --write solvers/exrm.py
"""

import difflib
import re
import sys
from pathlib import Path

SOLVERS = Path(__file__).parent.parent / "solvers"
BLOCK = re.compile(r"^# >>> shared: (\w+) \d+\n.*?^# <<< shared: \1\n", re.DOTALL | re.MULTILINE)


def blocks(text):
    """Name -> the whole block, markers included."""
    return {match[1]: match[0] for match in BLOCK.finditer(text)}


def differences(folder):
    """A unified diff for every block that differs between two files of the folder."""
    first, found = {}, []
    for path in sorted(folder.glob("*.py")):
        for name, block in blocks(path.read_text(encoding="utf-8")).items():
            home, text = first.setdefault(name, (path.name, block))
            diff = difflib.unified_diff(
                text.splitlines(), block.splitlines(), f"{home}: {name}", f"{path.name}: {name}"
            )
            found += ["\n".join(diff)] if text != block else []
    return found


def write(source, folder):
    """Copy the blocks of source over those of the same name in the folder's other files."""
    new = blocks(source.read_text(encoding="utf-8"))
    for path in sorted(folder.glob("*.py")):
        old = path.read_text(encoding="utf-8")
        text = BLOCK.sub(lambda match: new.get(match[1], match[0]), old)
        if text != old:
            path.write_text(text, encoding="utf-8")
            print(f"rewrote {path}")


def test_blocks_are_identical():
    found = differences(SOLVERS)
    assert not found, "\n\n".join(found)


def test_every_solver_carries_the_estimator():
    for path in SOLVERS.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.stem not in ("__init__", "diversity", "model_file"):  # They have no estimators.
            assert "estimator" in blocks(text), path.name
        assert text.count("# >>> shared:") == text.count("# <<< shared:") == len(blocks(text))


def test_a_changed_copy_is_found_and_mended(tmp_path):
    block = "# >>> shared: tool 1\nx = {}\n# <<< shared: tool\n"
    (tmp_path / "a.py").write_text("import a\n" + block.format(1) + "tail = 1\n")
    (tmp_path / "b.py").write_text("import b\n" + block.format(2) + "tail = 2\n")
    assert "-x = 1" in differences(tmp_path)[0] and "+x = 2" in differences(tmp_path)[0]
    write(tmp_path / "a.py", tmp_path)
    assert not differences(tmp_path)
    assert (tmp_path / "b.py").read_text() == "import b\n" + block.format(1) + "tail = 2\n"


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "--write":
        sys.exit(__doc__)
    write(Path(sys.argv[2]), SOLVERS)

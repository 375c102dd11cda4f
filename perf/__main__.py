"""python -m perf            list the benches
python -m perf NAME ...   run them; PERF=large in the environment adds the large sizes
python -m perf render     write perf/RESULTS.md and its plots from the records in perf/results
"""

import ast
import importlib.util
import os
import sys
from pathlib import Path

from perf.bench import render
from perf.bench.common import THREADS, Report

HELPERS = {"common", "problems", "render"}  # Modules of perf/bench/ that are no benches.


def benches():
    """Return the file of every bench by its name."""
    paths = sorted((Path(__file__).parent / "bench").glob("[!_]*.py"))
    return {file.stem.replace("_", "-"): file for file in paths if file.stem not in HELPERS}


def main(names):
    files = benches()
    if not names:
        print(__doc__)
        for name, file in files.items():
            print(f"  {name:20} {ast.get_docstring(ast.parse(file.read_text())).splitlines()[0]}")
        return 0
    if names == ["render"]:
        render.write()
        return 0
    if unknown := [name for name in names if name not in files]:
        print(f"perf: no bench {unknown[0]!r}; there are {', '.join(files)}", file=sys.stderr)
        return 2
    if not importlib.util.find_spec("sklearn"):
        print("perf: benches need scikit-learn: pip install -e '.[peers]'", file=sys.stderr)
        return 2
    os.environ.update(dict.fromkeys(THREADS, "1"))  # Before a bench imports numpy.
    large = os.environ.get("PERF") == "large"
    for name in names:
        bench = importlib.import_module(f"perf.bench.{files[name].stem}")
        report = Report(name, large)
        bench.run(report, large)
        report.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

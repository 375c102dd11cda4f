"""Files and streams of a run: checked before any work, written whole or not at all."""

import argparse
import contextlib
import csv
import io
import itertools
import json
import os
import re
import signal
import sys

from perf import draw
from perf.study import methods
from perf.text import entry, plain
from solvers import model_file

INPUTS, OUTPUTS = ("data", "model"), ("save", "json", "out", "plot")  # Flags that name files.
IN_FOLDER = ("results.jsonl", "table.md", "table.csv", "table.tex", "report.html")  # In --out.
TROUBLES = (
    KeyboardInterrupt, MemoryError, ImportError, OSError, ValueError, TypeError, OverflowError,
)  # fmt: skip
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def version():
    with open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8") as file:
        return "ensolve " + re.search(r'^version = "(.+)"', file.read(), re.M)[1]


def names(text):
    """Split at commas, without repetitions."""
    return list(dict.fromkeys(map(str.strip, text.split(","))))


def output(path):
    """Check that a file can be written; return its real path."""
    path = os.path.realpath(path)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise argparse.ArgumentTypeError(f"there is no directory {folder}; create it first")
    if os.path.exists(path) and not os.path.isfile(path) or not os.access(folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"cannot write {path}; choose another place")
    if os.path.exists(path) and not os.stat(path).st_mode & 0o222:
        raise argparse.ArgumentTypeError(f"{path} is read-only; choose another name")
    return path


def picture(path):
    """Check that a drawing can be written; return its real path."""
    if not path.lower().endswith((".png", ".pdf", ".svg")):
        raise argparse.ArgumentTypeError(f"{path} must end in .png, .pdf or .svg")
    if not path.lower().endswith(".svg"):
        draw.need_matplotlib()
    return output(path)


def folder(path):
    """Check that directory `path` is writable or can be created; return its real path."""
    path = os.path.realpath(path)
    above = path
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above) or not os.access(above, os.W_OK | os.X_OK):
        raise argparse.ArgumentTypeError(f"cannot write into {path}; choose another directory")
    return path


def check(args):
    """Raise ValueError if an output would overwrite an input or another output; links count."""
    import datasets  # And NumPy, which help does not need.

    named = []
    for flag in INPUTS + OUTPUTS:
        given = getattr(args, flag, None) or []
        for path in given if isinstance(given, list) else [given]:
            path = datasets.locate(path) if flag == "data" else path  # None of a generated set.
            named += [(flag, path)] if path else []
    if args.command == "compare" and args.out:
        named += [("out", os.path.join(args.out, name)) for name in IN_FOLDER]
    for (flag, one), (other, two) in itertools.combinations(named, 2):
        same = os.path.realpath(one) == os.path.realpath(two)
        if os.path.exists(one) and os.path.exists(two):
            same = os.path.samefile(one, two)
        if same and other in OUTPUTS:
            raise ValueError(f"--{other} would overwrite --{flag}, {one}; choose another name")


def error_line(error):
    """Message of one line for one of TROUBLES."""
    text = f"error: {error}"
    if isinstance(error, KeyboardInterrupt):
        sys.unraisablehook = lambda complaint: None  # Of objects that were left half made.
        text = "; ".join(["interrupted", *map(str, error.args)])
    elif isinstance(error, MemoryError):
        text = f"error: out of memory. {error}"
    elif isinstance(error, ImportError) and error.name:
        text = f"error: {error}; pip install {error.name}"
    elif isinstance(error, OSError) and error.filename:
        text = f"error: {error.filename}: {error.strerror}"
    return plain(" ".join(text.split()))


def with_streams(main):
    """Run main() and return its code.

    A closed pipe ends it quietly; characters that the terminal cannot show are escaped.
    """
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for stream in (sys.stdout, sys.stderr):
        if stream:
            stream.reconfigure(errors="backslashreplace")
    code = main()
    try:
        sys.stdout.flush()
    except (AttributeError, OSError):  # Closed, or full: main has reported the error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return code


def write_outputs(args, result, text):
    """Write the drawing and the document of a run, print its report."""
    if picture := result.get("picture"):
        write_drawing(args.plot, draw.picture(picture))
    if args.json:
        write_text(args.json, json.dumps(result, indent=1))
    if not args.quiet:
        print(text)
        if picture:
            caption = methods.figure_caption(picture["kind"])
            print(entry("plot", f"{caption}, written to {args.plot}", whole=True))


def write_csv(path, table):
    text = io.StringIO(newline="")
    csv.writer(text).writerows(table)
    write_text(path, text.getvalue())


def write_text(path, text):
    with model_file.write_file(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def write_drawing(path, svg):
    """Write a drawing as .svg, .png or .pdf."""
    form = path.rpartition(".")[2].lower()
    if form == "svg":
        return write_text(path, svg)
    with model_file.write_file(path) as file:
        draw.as_matplotlib(svg).savefig(file, format=form, dpi=150)


@contextlib.contextmanager
def progress(total, quiet, unit="fit"):
    """Show a bar after a second, on a terminal only and if tqdm is installed.

    Yields the callback of the fits, and a generator function that counts the records it passes on.
    """
    tqdm = None
    if not quiet and sys.stderr is not None and sys.stderr.isatty():
        with contextlib.suppress(ImportError):
            from tqdm import tqdm
    if tqdm is None:
        yield None, iter
        return
    with tqdm(total=total, unit=unit, delay=1, miniters=0, leave=False, smoothing=0) as bar:

        def callback(model, iteration, info):
            known = {key: value for key, value in info.items() if isinstance(value, float)}
            values = "".join(f", {key} {value:.1e}" for key, value in known.items())
            bar.set_postfix_str(f"iteration {iteration}{values}", refresh=False)
            bar.update(0)

        def count(records):
            for record in records:
                if unit == "fit":
                    bar.start_t += record["compile_seconds"]  # Fits to come do not compile.
                bar.update()
                yield record

        yield callback, count

"""Outputs of a run: checked before any work, written whole or not at all, and a bar meanwhile."""

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

from perf.draw import as_matplotlib, need_matplotlib
from perf.text import plain
from solvers import model_file

INPUTS, OUTPUTS = ("data", "model"), ("save", "json", "out", "plot")  # flags that name files
IN_FOLDER = (  # what --out DIR will hold
    "results.jsonl", "table.md", "table.csv", "table.tex", "report.html",
)  # fmt: skip
TROUBLES = (MemoryError, ImportError, OSError, ValueError, TypeError, OverflowError)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def version():
    with open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8") as file:
        return "ensolve " + re.search(r'^version = "(.+)"', file.read(), re.M)[1]


def names(text):
    """Read names with commas between them, each once."""
    return list(dict.fromkeys(map(str.strip, text.split(","))))


def output(path):
    """Check before any work that a file can be written; return where it really lies."""
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
    """The same for a figure."""
    if not path.lower().endswith((".png", ".pdf", ".svg")):
        raise argparse.ArgumentTypeError(f"{path} must end in .png, .pdf or .svg")
    if not path.lower().endswith(".svg"):
        need_matplotlib()
    return output(path)


def folder(path):
    """The same for a directory, which need not be there."""
    path = os.path.realpath(path)
    above = path
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above) or not os.access(above, os.W_OK | os.X_OK):
        raise argparse.ArgumentTypeError(f"cannot write into {path}; choose another directory")
    return path


def check(args):
    """Refuse before any work to overwrite an input, or an output by another; links count."""
    import datasets  # and NumPy, which help does not need

    named = []
    for flag in INPUTS + OUTPUTS:
        given = getattr(args, flag, None) or []
        for path in given if isinstance(given, list) else [given]:
            path = datasets.locate(path) if flag == "data" else path  # none of a generated set
            named += [(flag, path)] if path else []
    if args.command == "compare" and args.out:
        named += [("out", os.path.join(args.out, name)) for name in IN_FOLDER]
    for (flag, one), (other, two) in itertools.combinations(named, 2):
        same = os.path.realpath(one) == os.path.realpath(two)
        if os.path.exists(one) and os.path.exists(two):
            same = os.path.samefile(one, two)
        if same and other in OUTPUTS:
            raise ValueError(f"--{other} would overwrite --{flag}, {one}; choose another name")


def interrupted(stop):
    """Put into words that a run was interrupted, and let no other word follow.

    What the interrupt left half made, such as an object of LLVM, complains when it is cleared away.
    """
    sys.unraisablehook = lambda complaint: None
    return "; ".join(["interrupted", *map(str, stop.args)])


def trouble(error):
    """Say in one line what went wrong; `error` is one of TROUBLES."""
    text = str(error)
    if isinstance(error, MemoryError):
        text = f"out of memory. {error}"
    elif isinstance(error, ImportError) and error.name:
        text = f"{error}; pip install {error.name}"
    elif isinstance(error, OSError) and error.filename:
        text = f"{error.filename}: {error.strerror}"
    return plain(" ".join(text.split()))


def open_streams():
    """Make what is printed fail for good reasons only."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly when `head` has seen enough
    for stream in (sys.stdout, sys.stderr):
        if stream:  # a letter that the terminal lacks is no reason to fail
            stream.reconfigure(errors="backslashreplace")


def close_streams():
    """Print what is left; where that cannot be, the run has said so, and Python need not again."""
    try:
        sys.stdout.flush()
    except (AttributeError, OSError):  # closed, or full
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def write(path):
    """Open a file that takes its place only when it is complete, as all methods do."""
    return model_file.write_file(path)


def write_json(path, document):
    write_text(path, json.dumps(document, indent=1))


def tell(args, result, text, drawn=None):
    """Write the drawing of a run and its document, print its report."""
    if drawn:
        write_drawing(args.plot, drawn)
    if args.json:
        write_json(args.json, result)
    if not args.quiet:
        print(text)


def write_csv(path, table):
    text = io.StringIO(newline="")
    csv.writer(text).writerows(table)
    write_text(path, text.getvalue())


def write_text(path, text):
    with write(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def write_drawing(path, svg):
    """Write a drawing as the end of its path says."""
    if path.lower().endswith(".svg"):
        write_text(path, svg)
    else:
        write_figure(path, as_matplotlib(svg))


def write_figure(path, figure):
    form = {"format": path.rpartition(".")[2].lower(), "dpi": 150}
    with write(path) as file:
        figure.savefig(file, bbox_inches="tight", **form)  # a wide legend is not cut


def _bars(quiet):
    """Return tqdm's class, or None where no bar is wanted or seen."""
    if not quiet and sys.stderr is not None and sys.stderr.isatty():
        with contextlib.suppress(ImportError):
            from tqdm import tqdm

            return tqdm
    return None


@contextlib.contextmanager
def progress(total, quiet):
    """Show a bar after a second, on a terminal only.

    Gives the callback of the fits, and a function that counts records as they pass.
    """
    tqdm = _bars(quiet)
    if tqdm is None:
        yield None, iter
        return
    with tqdm(total=total, unit="fit", delay=1, miniters=0, leave=False, smoothing=0) as bar:

        def callback(model, iteration, info):
            known = {key: value for key, value in info.items() if isinstance(value, float)}
            values = "".join(f", {key} {value:.1e}" for key, value in known.items())
            bar.set_postfix_str(f"iteration {iteration}{values}", refresh=False)
            bar.update(0)

        def count(records):
            for record in records:
                bar.start_t += record["compile_seconds"]  # fits to come do not compile
                bar.update()
                yield record

        yield callback, count


def countdown(records, total, clock, quiet):
    """Pass on the records of so many cells, with a bar that shows the time left by `clock`."""
    tqdm = _bars(quiet)
    if tqdm is None:
        yield from records
        return
    form = "{desc}{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
    with tqdm(total=total, delay=1, miniters=0, leave=False, bar_format=form) as bar:
        for record in records:
            clock.tick(record)
            bar.set_postfix_str(f"about {tqdm.format_interval(clock.left())} left", refresh=False)
            bar.update()
            yield record

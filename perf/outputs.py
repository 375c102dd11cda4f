"""Outputs of a run: checked before any work, written whole or not at all, and a bar meanwhile."""

import argparse
import contextlib
import csv
import io
import itertools
import json
import os
import sys

from perf import methods

INPUTS, OUTPUTS = ("data", "model"), ("save", "json", "out", "plot")  # flags that name files


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
    return output(path)


def check(args):
    """Refuse before any work to overwrite an input, or an output by another; links count."""
    import datasets  # and NumPy, which help does not need

    paths = {flag: path for flag in INPUTS + OUTPUTS if (path := getattr(args, flag, None))}
    if "data" in paths:
        paths["data"] = datasets.locate(paths["data"]) or ""  # none of a generated set
    for flag, other in itertools.combinations(paths, 2):
        one, two = paths[flag], paths[other]
        same = os.path.realpath(one) == os.path.realpath(two)
        if os.path.exists(one) and os.path.exists(two):
            same = os.path.samefile(one, two)
        if same and other in OUTPUTS:
            raise ValueError(f"--{other} would overwrite --{flag}, {one}; choose another name")


def plain(text):
    """Escape what could move the cursor or break the line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def write(path):
    """Open a file that takes its place only when it is complete, as all methods do."""
    return methods.files().write_file(path)


def write_json(path, document):
    with write(path) as file:
        file.write(json.dumps(document, indent=1).encode("utf-8", "backslashreplace"))


def write_csv(path, table):
    text = io.StringIO(newline="")
    csv.writer(text).writerows(table)
    with write(path) as file:
        file.write(text.getvalue().encode("utf-8", "backslashreplace"))


def write_figure(path, figure):
    form = {"format": path.rpartition(".")[2].lower(), "dpi": 150}
    with write(path) as file:
        figure.savefig(file, bbox_inches="tight", **form)  # a wide legend is not cut


@contextlib.contextmanager
def progress(total, quiet):
    """Show a bar after a second, on a terminal only.

    Gives the callback of the fits, and a function that counts records as they pass.
    """
    tqdm = None
    if not quiet and sys.stderr is not None and sys.stderr.isatty():
        with contextlib.suppress(ImportError):
            from tqdm import tqdm
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

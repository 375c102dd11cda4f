"""Command line: `python cli.py exrm --data sonar` trains, tests and reports.

Methods come from solvers/, data from datasets.py; here are only flags, the loop over the splits and
the report. The flags of a method are read from its source, so help needs no import of Numba.
"""

import argparse
import ast
import contextlib
import importlib
import math
import os
import re
import signal
import sys
import time

from solvers import METHODS

SCALES = {
    "none": "features as they are",
    "minmax": "features scaled to [-1, 1]",
    "minmax01": "features scaled to [0, 1]",
    "standard": "features standardised",
    "tanh": "tanh of standardised features",
}
NO_FLAGS = {"random_state", "verbose", "callback"}  # set by the run itself
WARM_UP_ROWS, WARM_UP_ITERATIONS = 40, 5  # enough to run, hence to compile, every kernel
EQUAL = 1e-12  # votes closer than this, relative to the largest, differ by rounding only
EXAMPLES = """examples:
  python cli.py datasets
  python cli.py exrm --help
  python cli.py exrm --data sonar
  python cli.py exrm --data my.csv --label species --sampling bootstrap --save model.npz
  python cli.py predict --model model.npz --data new.csv --out predictions.csv
"""


# -- flags -----------------------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    def __init__(self, **options):
        super().__init__(allow_abbrev=False, **options)

    def error(self, message):
        raise ValueError(f"{message}; see `python {self.prog} --help`")


def describe(command):
    """Read a method's source: first line of its docstring, {parameter: default}, {parameter: text}.

    A text that the class leaves out is taken from its base class.
    """
    file, name, _ = METHODS[command]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "solvers", f"{file}.py")
    with open(path, encoding="utf-8") as source:
        body = ast.parse(source.read()).body
    classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
    node, texts = classes[name], {}
    summary = ast.get_docstring(node).partition("\n")[0]
    init = next(part.args for part in node.body if getattr(part, "name", None) == "__init__")
    names = [argument.arg for argument in init.args[1:]]
    while node:
        for entry in re.finditer(r"^(\w+) : (.+)((?:\n    .+)+)", ast.get_docstring(node), re.M):
            kind = entry[2].replace('"', "")
            texts.setdefault(entry[1], f"{' '.join(entry[3].split())} [{kind}]")
        node = classes.get(node.bases[0].id) if node.bases else None
    return summary, dict(zip(names, map(ast.literal_eval, init.defaults), strict=True)), texts


def value(text):
    """Read a parameter: none, true, false, an integer, a number, else a text."""
    words = {"none": None, "true": True, "false": False}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def output(path):
    """Check before any work that a file can be written; return where it really lies."""
    path = os.path.realpath(path)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise argparse.ArgumentTypeError(f"there is no directory {folder}; create it first")
    if os.path.exists(path) and not os.path.isfile(path) or not os.access(folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"cannot write {path}; choose another place")
    return path


def add_method_flags(parser, command):
    parser.description, defaults, texts = describe(command)
    parser.usage = f"{parser.prog} --data NAME|FILE [flags]"
    _, name, scale = METHODS[command]
    group = parser.add_argument_group("data and protocol")
    add, add_size = group.add_argument, group.add_mutually_exclusive_group().add_argument
    # fmt: off
    add("--data", required=True, metavar="NAME|FILE", help="data set, see `cli.py datasets`, or "
        "file: CSV, TSV, LIBSVM or .npz; NAME:A-vs-B takes two classes, NAME:A-vs-rest one against "
        "the others")
    add("--label", metavar="COLUMN", help="label column of a file, by name or number from 0 "
        "[default: label, class, target or y, else the last]")
    add("--positive", metavar="CLASS", help="the positive class; of several, against the rest")
    add_size("--train", type=float, default=0.5, metavar="PART",
             help="share or number of rows to train on, the others test [default 0.5]")
    add_size("--cv", type=int, metavar="K", help="K-fold cross-validation instead")
    add("--trials", type=int, metavar="N",
        help="random splits [default 10]; with --cv, repetitions [default 1]")
    add("--scale", choices=SCALES, default=scale,
        help=f"scaling of the features, learned on the training rows [default {scale}]")
    add("--seed", type=int, default=0, metavar="N",
        help="seed of the splits; trial t trains with seed N + t [default 0]")
    add = parser.add_argument_group("output").add_argument
    add("--json", type=output, metavar="FILE", help="write all results to this file")
    add("--save", type=output, metavar="MODEL",
        help="train on all rows afterwards and write the model, for `cli.py predict`")
    add("--quiet", action="store_true", help="print nothing but errors")
    # fmt: on
    add = parser.add_argument_group(f"parameters of {name}").add_argument
    flags = [key for key in defaults if key not in NO_FLAGS]
    for key in flags:
        text = f"{texts.get(key, '')} [default {defaults[key]}]".replace("] [", ", ")
        options = {"default": defaults[key], "help": text.replace("%", "%%")}
        add(f"--{key.replace('_', '-')}", type=value, metavar="VALUE", **options)
    parser.set_defaults(run=run_method, flags=flags, parameters=list(defaults))


def build_parser(argv):
    """Build the parser; of the methods, only the one that argv starts with gets its flags."""
    parser = Parser(
        prog="cli.py", description="Train and test diverse ensembles of classifiers.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command, (_, name, _) in METHODS.items():
        method = commands.add_parser(command, help=f"train and test {name}")
        if argv[:1] == [command]:  # to read the sources of all methods would take its time
            add_method_flags(method, command)
    text = "apply a model written by --save to new rows"
    predict = commands.add_parser("predict", help=text, description=text)
    predict.add_argument("--model", required=True, help="file written by --save")
    predict.add_argument("--data", required=True, metavar="FILE", help="rows; labels may be absent")
    predict.add_argument("--out", required=True, type=output, metavar="FILE", help="CSV to write")
    predict.set_defaults(run=run_predict)
    commands.add_parser("methods", help="list the methods").set_defaults(run=run_methods)
    commands.add_parser("datasets", help="list the data sets").set_defaults(run=run_datasets)
    return parser


# -- commands --------------------------------------------------------------------------------------


def run_method(args):
    import warnings

    import datasets

    file, name, _ = METHODS[args.command]
    data = datasets.load(args.data, label=args.label, positive=args.positive)
    if len(data.classes) > 2:
        some = data.classes[0]
        raise ValueError(
            f"{name} is binary and {data.name} has {len(data.classes)} classes; choose, say, "
            f'--data "{args.data}:{some}-vs-rest" or --positive "{some}"'
        )
    if args.trials is None:
        args.trials = 10 if args.cv is None else 1
    protocol = {key: getattr(args, key) for key in ("trials", "train", "cv", "seed")}
    splits = datasets.splits(data.y, **protocol)
    params = {key: getattr(args, key) for key in args.flags}
    method = getattr(importlib.import_module(f"solvers.{file}"), name)
    bar, callback = progress_bar(args.trials * (args.cv or 1), args.quiet)

    def new(trial, **changes):
        own = {"random_state": args.seed + trial, "callback": callback}
        given = params | own | changes
        return method(**{key: given[key] for key in given if key in args.parameters})

    trials, compile_seconds = [], 0.0
    with bar or contextlib.nullcontext(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for train, test in splits:
            if not trials:
                few, short = excerpt(data.y, train), new(0, max_iter=WARM_UP_ITERATIONS)
                with contextlib.suppress(ValueError):  # the fit on all rows will tell, of all rows
                    compile_seconds = fit(short, data, few, args.scale)[1]
                caught.clear()
            trials.append(run_trial(new(len(trials)), data, train, test, args.scale))
            if bar:
                bar.update()
        if args.save:
            save(new(0), data, args)

    result = {
        "command": args.argv,
        "method": name,
        "data": {
            "name": data.name,
            "rows": data.X.shape[0],
            "features": data.X.shape[1],
            "classes": {c: int((data.y == k).sum()) for k, c in enumerate(data.classes)},
            "notes": notes_on(data, method._allow_nan),
        },
        "protocol": protocol | {"scale": args.scale} | ({"train": None} if args.cv else {}),
        "params": params,
        "trials": trials,
        "summary": summarise(trials),
        "compile_seconds": compile_seconds,
        "warnings": [f"{warning.category.__name__}: {warning.message}" for warning in caught],
        "versions": {"python": sys.version.split()[0]}
        | {package: sys.modules[package].__version__ for package in ("numpy", "numba")},
    }
    if args.json:
        write_json(args.json, result)
    if not args.quiet:
        report(result)
        if args.save:
            line("model", f"trained on all {len(data.y)} rows, saved to {args.save}")


def excerpt(y, rows):
    """Choose a few rows of both classes."""
    rows = rows[y[rows].argsort(kind="stable")]
    return [*rows[: WARM_UP_ROWS // 2], *rows[-WARM_UP_ROWS // 2 :]]


def fit(model, data, rows, scale):
    """Train on these rows; return the preprocessing learned from them and the seconds taken."""
    from datasets import Preprocess

    prep = Preprocess(scale, keep_gaps=model._allow_nan).fit(data.X[rows])
    X, y = prep.transform(data.X[rows]), data.y[rows]
    start = time.perf_counter()
    model.fit(X, y)
    return prep, time.perf_counter() - start


def run_trial(model, data, train, test, scale):
    """Train and test on one split."""
    prep, seconds = fit(model, data, train, scale)

    def error(rows):
        return float((model.predict(prep.transform(data.X[rows])) != data.y[rows]).mean())

    votes = model.votes(prep.transform(data.X[test]))
    members = votes.shape[1]
    positive = (votes >= 0).sum(axis=1)
    pairs = max(members * (members - 1) // 2, 1)
    widest = (votes.max(axis=1) - votes.min(axis=1)).max()
    return {
        "train_rows": len(train),
        "test_rows": len(test),
        "train_error": error(train),
        "test_error": error(test),
        "members": members,
        "disagreement": float((positive * (members - positive)).mean() / pairs),
        "identical": members > 1 and bool(widest <= EQUAL * abs(votes).max()),
        "iterations": int(model.n_iter_),
        "residual": None if model.residual_ is None else float(model.residual_),
        "objective": float(model.objective_),
        "converged": bool(model.converged_),
        "fit_seconds": seconds,
        "facts": model.facts() if hasattr(model, "facts") else {},
    }


def save(model, data, args):
    """Train on all rows and write the model with all that `predict` needs."""
    prep, _ = fit(model, data, slice(None), args.scale)
    notes = {
        "data": data.name,
        "label": args.label,
        "classes": data.classes,
        "schema": data.schema,
        "preprocess": prep.to_dict(),
    }
    model.save(args.save, notes=notes)


def run_predict(args):
    import csv

    import datasets

    files = {name: file for file, name, _ in METHODS.values()}
    some_solver = importlib.import_module(f"solvers.{next(iter(files.values()))}")
    header, _ = some_solver.read_model(args.model)
    name, notes = header.get("class"), header.get("values", {}).get("notes_")
    if name not in files:
        raise ValueError(f"{args.model} holds a model of {name}, which is not among the methods")
    if not {"data", "classes", "schema", "preprocess"} <= set(notes or ()):
        raise ValueError(
            f"{args.model} was not written by --save and does not say how to read {args.data}; "
            f"use it from Python: {name}.load(path).predict(X)"
        )
    model = getattr(importlib.import_module(f"solvers.{files[name]}"), name).load(args.model)
    data = datasets.load(args.data, schema=notes["schema"])
    X = datasets.Preprocess.from_dict(notes["preprocess"]).transform(data.X)
    codes, decision, classes = model.predict(X), model.decision_function(X), notes["classes"]
    with replacing(args.out) as file:
        writer = csv.writer(file)
        writer.writerow(["prediction", "decision"])
        writer.writerows(zip([classes[k] for k in codes], decision.tolist(), strict=True))

    print(f"{name}, trained on {notes['data']}, applied to {data.name}: {len(codes)} rows")
    for note in notes_on(data, model._allow_nan):
        line("note", note)
    line("predictions", f"written to {args.out}; decision >= 0 means class {classes[1]}")
    if data.y is not None:
        wrong = int((codes != data.y).sum())
        line("error", f"{100 * wrong / len(codes):.1f} % ({wrong} of {len(codes)} rows)")


def run_methods(args):
    for command, (_, name, _) in METHODS.items():
        print(f"{command:<18} {name:<18} {describe(command)[0]}")


def run_datasets(args):
    import datasets

    print(f"{'name':<18} {'rows':>6} {'features':>9} {'classes':>8} {'missing':>8}  other names")
    for entry in datasets.names():
        if "path" in entry:
            print(f"{entry['name']:<18} {entry['path']}")
        else:
            counts = f"{entry['rows']:>6} {entry['features']:>9} {len(entry['classes']):>8}"
            others = f"{entry['missing']:>8}  {', '.join(entry['aliases'])}".rstrip()
            print(f"{entry['name']:<18} {counts} {others}")
    print("generated: gaussians:N, linear:NxD; or any file: CSV, TSV, LIBSVM, .npz")
    print("of more than two classes take NAME:A-vs-B or NAME:A-vs-rest")


# -- output ----------------------------------------------------------------------------------------


def summarise(trials):
    """Spread of every figure over the trials; None is none."""
    columns = {key: [trial[key] for trial in trials] for key in trials[0]}
    return {
        key: summarise(values) if isinstance(values[0], dict) else spread(values)
        for key, values in columns.items()
        if values[0] is not None
    }


def spread(values):
    mean = sum(values) / len(values)
    squares = sum((value - mean) ** 2 for value in values)
    std = math.sqrt(squares / (len(values) - 1)) if len(values) > 1 else None
    return {"mean": mean, "std": std, "min": min(values), "max": max(values)}


def notes_on(data, kept):
    missing = int((data.X != data.X).sum())
    how = "left to the method" if kept else "filled with training medians"
    return data.notes + ([f"missing numbers {how}: {missing}"] if missing else [])


def line(label, text):
    print(f"  {label:<13} {text}")


def report(result):
    data, protocol, params = result["data"], result["protocol"], result["params"]
    trials, summary = result["trials"], result["summary"]

    def mean(key, factor, digits, unit):
        std = summary[key]["std"]
        more = "" if std is None else f" +- {std * factor:.{digits}f}"
        return f"{summary[key]['mean'] * factor:.{digits}f} {unit}{more}"

    def span(key, form="{} to {}"):
        low, high = summary[key]["min"], summary[key]["max"]
        return f"{low}" if low == high else form.format(low, high)

    classes = " and ".join(f"{name} ({count})" for name, count in data["classes"].items())
    print(
        f"{result['method']} on {data['name']}: {data['rows']} rows, {data['features']} features, "
        f"classes {classes}"
    )
    for note in data["notes"]:
        line("note", note)
    count, folds = protocol["trials"], protocol["cv"]
    kind = f"{count} random split{'s' * (count > 1)}"
    if folds:
        kind = f"{folds}-fold cross-validation" + (f", {count} times" if count > 1 else "")
    rows = f"{span('train_rows')} rows for training and {span('test_rows')} for testing"
    line("protocol", f"{kind}, {rows}, {SCALES[protocol['scale']]}, seed {protocol['seed']}")
    line("test error", mean("test_error", 100, 1, "%"))
    line("train error", mean("train_error", 100, 1, "%"))

    members = span("members")
    if summary["members"]["max"] > 1:
        members += f", disagreement {100 * summary['disagreement']['mean']:.1f} %"
    if summary["identical"]["min"]:
        members += ": all members are identical"
        if params.get("sampling", "") is None:
            members += "; --sampling bootstrap gives each its own sample"
    line("members", members)
    if facts := summary["facts"]:
        line("figures", ", ".join(f"{name} {facts[name]['mean']:.4g}" for name in facts))
    line("iterations", span("iterations", f"{summary['iterations']['mean']:.1f} ({{}} to {{}})"))

    failed = sum(not trial["converged"] for trial in trials)
    if failed and params.get("solver") == "paper":
        end = ": not the optimum, as the printed algorithm stops early; --solver auto reaches it"
    else:
        goal = params.get("tol", params.get("eps"))
        end = "; " if goal is None else f" (asked for {goal:g}); "
        end += f"{failed} of {len(trials)} fits did not converge" if failed else "all converged"
    if "residual" in summary:
        line("certified gap", f"{summary['residual']['max']:.1e} at most, relative{end}")
    else:
        end = f"; {failed} of {len(trials)} fits ended early" if failed else ""
        line("certificate", f"none: the method is greedy{end}")
    scale = (1e3, 2, "ms") if summary["fit_seconds"]["mean"] < 1 else (1, 2, "s")
    compiling = f"compile or cache load {result['compile_seconds']:.2f} s, not included"
    line("fit time", f"{mean('fit_seconds', *scale)}; {compiling}")
    for category in sorted({text.partition(":")[0] for text in result["warnings"]}):
        texts = [text for text in result["warnings"] if text.startswith(category)]
        line("warning", texts[0] + (f" (and {len(texts) - 1} like it)" if len(texts) > 1 else ""))


def progress_bar(total, quiet):
    """Make a bar that a terminal shows after a second, and its callback; None elsewhere."""
    if quiet or not sys.stderr.isatty():
        return None, None
    try:
        from tqdm import tqdm
    except ImportError:
        return None, None
    bar = tqdm(total=total, unit="fit", delay=1, miniters=0, leave=False)

    def callback(model, iteration, info):
        values = "".join(f", {key} {value:.1e}" for key, value in info.items())
        bar.set_postfix_str(f"iteration {iteration}{values}", refresh=False)
        bar.update(0)

    return bar, callback


@contextlib.contextmanager
def replacing(path):
    """Open a text file that takes its place only when it is complete."""
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "w", encoding="utf-8", newline="") as file:
            yield file
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def write_json(path, result):
    import json

    plain = json.loads(json.dumps(result), parse_constant=lambda _: None)  # JSON knows no NaN
    with replacing(path) as file:
        json.dump(plain, file, indent=1)


def main(argv=None):
    """Run a command line; return the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        args, unknown = build_parser(argv).parse_known_args(argv)
        if unknown:
            hint = f"`python cli.py {args.command} --help` lists the flags"
            raise ValueError(f"unknown argument {unknown[0]!r}; {hint}")
        args.argv = argv
        args.run(args)
        return 0
    except KeyboardInterrupt:
        print("cli.py: interrupted", file=sys.stderr)
        return 130
    except MemoryError as error:
        message = f"out of memory. {error}"
    except ImportError as error:
        message = f"{error}; pip install {error.name}" if error.name else str(error)
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    except (ValueError, TypeError, OverflowError) as error:
        message = str(error)
    print("cli.py: error:", " ".join(message.split()), file=sys.stderr)
    return 2


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly when `head` has seen enough
    sys.exit(main())

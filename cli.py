"""Command line: `python cli.py exrm --data sonar` trains, tests and reports.

Methods come from solvers/, data from datasets.py; here are only flags, the loop over the splits and
the report. The flags of a method are read from its source, so help needs no import of Numba.
"""

import argparse
import ast
import contextlib
import importlib
import io
import itertools
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
NO_FLAGS = {"random_state", "verbose", "callback", "prefit"}  # set by the run itself
RENAMED = {"cv": "inner_cv"}  # parameters whose flags the protocol has taken
OF_ESTIMATORS = ("members", "base", "meta")  # parameters that may name a method
FILES = {name: file for file, name, _ in METHODS.values()}  # of the classes that a run may use
FILES |= {"OneVsRest": "multiclass", "Calibrated": "combine"}
INPUTS, OUTPUTS = ("data", "model"), ("save", "json", "out", "plot")  # flags that name files
NO_CERTIFICATE = {
    "Bagging": "a vote of samples optimises nothing",
    "Voting": "a vote optimises nothing",
    "Stacking": "the classifier on top has the last word",
}
MEASURES = {  # of diversity: title and whether it is a share
    "disagreement": ("disagreement", True),
    "kappa": ("kappa", False),
    "q_statistic": ("Q", False),
    "correlation": ("correlation", False),
    "double_fault": ("double fault", True),
    "ambiguity": ("ambiguity", False),
}
WARM_UP_ROWS, WARM_UP_ITERATIONS = 40, 5  # enough to run, hence to compile, every kernel
EQUAL = 1e-12  # votes closer than this, relative to the largest, differ by rounding only
EXAMPLES = """examples:
  python cli.py datasets
  python cli.py exrm --help
  python cli.py exrm --data sonar
  python cli.py exrm --data my.csv --label species --sampling bootstrap --save model.npz
  python cli.py voting --data wine --members exrm,adaboost,bayes
  python cli.py diversity --data sonar --methods adaboost,exrm --plot kappa.png
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
    """Read a parameter: none, true, false, an integer, a number, a list of these, else a text."""
    if "," in text:
        parts = [value(part) for part in text.split(",")]
        return text if any(isinstance(part, str) for part in parts) else parts
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
    if os.path.exists(path) and not os.stat(path).st_mode & 0o222:
        raise argparse.ArgumentTypeError(f"{path} is read-only; choose another name")
    return path


def picture(path):
    """The same for a figure."""
    if not path.lower().endswith((".png", ".pdf", ".svg")):
        raise argparse.ArgumentTypeError(f"{path} must end in .png, .pdf or .svg")
    return output(path)


def check_outputs(args):
    """Refuse before any work to overwrite an input, or an output by another; links count."""
    import datasets

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


def add_data_flags(parser, trials):
    """Add the flags that all commands share that train; return two functions to add more."""
    parser.usage = f"{parser.prog} --data NAME|FILE [flags]"
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
        help=f"random splits [default {trials}]; with --cv, repetitions [default 1]")
    add("--seed", type=int, default=0, metavar="N",
        help="seed of the splits; trial t trains with seed N + t [default 0]")
    to = parser.add_argument_group("output").add_argument
    to("--json", type=output, metavar="FILE", help="write all results to this file")
    to("--quiet", action="store_true", help="print nothing but errors")
    # fmt: on
    return add, to


def add_method_flags(parser, command):
    parser.description, defaults, texts = describe(command)
    _, name, scale = METHODS[command]
    add, to = add_data_flags(parser, 10)
    own = f"{scale}, or as --base wants it" if "base" in defaults else scale
    text = f"scaling of the features, learned on the training rows [default {own}]"
    add("--scale", choices=SCALES, help=text)
    text = "train on all rows afterwards and write the model, for `cli.py predict`"
    to("--save", type=output, metavar="MODEL", help=text)
    add = parser.add_argument_group(f"parameters of {name}").add_argument
    flags = {key: RENAMED.get(key, key) for key in defaults if key not in NO_FLAGS}
    for key, flag in flags.items():
        text = f"{texts.get(key, '')} [default {defaults[key]}]".replace("] [", ", ")
        text += "; or names of methods" if key in OF_ESTIMATORS else ""
        text += "; or name=factor,name=factor" if key == "class_weight" else ""
        options = {"default": defaults[key], "help": text.replace("%", "%%")}
        kind = str if key in OF_ESTIMATORS else value
        add(f"--{flag.replace('_', '-')}", type=kind, metavar="VALUE", **options)
    parser.set_defaults(run=run_method, flags=flags)


def add_diversity_flags(parser):
    add, to = add_data_flags(parser, 1)
    text, names = "names with commas between them [default %(default)s]", "adaboost,bagging,exrm"
    add("--methods", default=names, metavar="NAMES", help=text)
    text = "draw the kappa-error diagram, a dot a pair of members, into this .png, .pdf or .svg"
    to("--plot", type=picture, metavar="FILE", help=text)
    parser.set_defaults(run=run_diversity)


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
    text = "compare how much the members of several methods differ"
    add_diversity_flags(commands.add_parser("diversity", help=text, description=text))
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


def method_class(name):
    return getattr(importlib.import_module(f"solvers.{FILES[name]}"), name)


def build(command, params, seed, classes, notes, soft=False, callback=None):
    """Make an estimator for so many classes, with probabilities if soft; tell `notes` how."""
    name = METHODS[command][1]
    cls, given = method_class(name), params | {"random_state": seed, "callback": callback}
    for key in OF_ESTIMATORS:
        if isinstance(params.get(key), str):
            need = key == "members" and (name == "Stacking" or params.get("how") == "soft")
            rest = (seed, classes if cls._multi_class else 2, notes, need)
            given[key] = named(cls, key, params[key], lambda part, r=rest: build(part, {}, *r))
    model = cls(**{key: given[key] for key in cls._param_names() if key in given})
    if soft and not hasattr(model, "predict_proba"):
        notes.setdefault("probabilities by Platt's calibration:", {})[name] = True
        model = method_class("Calibrated")(model)
    if classes > 2 and not model._multi_class:
        notes.setdefault(f"{classes} classes: one-versus-rest over", {})[name] = True
        model = method_class("OneVsRest")(model, callback=callback)
        model.class_weight = given.get("class_weight")  # of the classes, not of the two sides
        model.base.class_weight = None
    return model


def named(cls, key, text, make):
    """Read a parameter that takes estimators: a name of a method stands for one."""
    names = [part.strip() for part in text.split(",")] if key == "members" else [text]
    test, rule = cls._rules[key]
    for name in names:
        if name not in METHODS and not test(name):
            wrong = f"{cls.__name__}: {key} must be {rule}, got {name!r}"
            raise ValueError(f"{wrong}; objects are named {', '.join(METHODS)}")
    parts = [make(name) if name in METHODS else name for name in names]
    return parts if key == "members" else parts[0]


def run_method(args):
    import warnings

    import datasets

    data = datasets.load(args.data, label=args.label, positive=args.positive)
    protocol, splits = protocol_of(args, data, 10)
    params = {key: getattr(args, flag) for key, flag in args.flags.items()}
    weight = datasets.class_weights(params.get("class_weight"), data.classes)
    if args.scale is None:
        args.scale = METHODS.get(params.get("base"), METHODS[args.command])[2]
    bar, callback = progress_bar(args.trials * (args.cv or 1), args.quiet)
    notes = {}

    def new(trial, **changes):
        rest = (args.seed + trial, len(data.classes), notes)
        return build(args.command, params | weight | changes, *rest, callback=callback)

    trials, compile_seconds = [], 0.0
    with bar or contextlib.nullcontext(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for train, test in splits:
            if not trials:
                few, short = excerpt(data.y, train), new(0, max_iter=WARM_UP_ITERATIONS)
                with contextlib.suppress(ValueError):  # the fit on all rows will tell, of all rows
                    compile_seconds = fit(short, data, few, args.scale)[1]
                caught.clear()
                if bar:
                    bar.start_t = time.time()  # fits to come do not compile
            trials.append(run_trial(new(len(trials)), data, train, test, args.scale)[0])
            if bar:
                bar.update()
        if args.save:
            save(new(0), data, args)

    result = {
        "command": args.argv,
        "method": METHODS[args.command][1],
        "data": facts_on(data, [new(0)], notes),
        "protocol": protocol | {"scale": args.scale},
        "params": params,
        "trials": trials,
        "summary": summarise(trials),
        "compile_seconds": compile_seconds,
        **circumstances(caught, data),
    }
    if args.json:
        write_json(args.json, result)
    if not args.quiet:
        report(result)
        if args.save:
            line("model", f"trained on all {len(data.y)} rows, saved to {args.save}")


def protocol_of(args, data, trials):
    """Read what the splits are to be; return it and them."""
    import datasets

    if args.trials is None:
        args.trials = trials if args.cv is None else 1
    protocol = {key: getattr(args, key) for key in ("trials", "train", "cv", "seed")}
    splits = datasets.splits(data.y, **protocol)
    return protocol | ({"train": None} if args.cv else {}), splits


def excerpt(y, rows):
    """Choose a few rows of the first and the last class."""
    rows = rows[y[rows].argsort(kind="stable")]
    return [*rows[: WARM_UP_ROWS // 2], *rows[-WARM_UP_ROWS // 2 :]]


def fit(model, data, rows, scale):
    """Train on these rows; return the preprocessing learned from them and the seconds taken."""
    from datasets import Preprocess

    prep = Preprocess(scale, keep_gaps=model._takes_nan()).fit(data.X[rows])
    X, y = prep.transform(data.X[rows]), data.y[rows]
    start = time.perf_counter()
    model.fit(X, y)
    return prep, time.perf_counter() - start


def run_trial(model, data, train, test, scale):
    """Train and test on one split; return the figures, and the members' votes and labels."""
    from solvers import diversity

    prep, seconds = fit(model, data, train, scale)

    def error(rows):
        return float((model.predict(prep.transform(data.X[rows])) != data.y[rows]).mean())

    votes, goals = member_votes(model, prep.transform(data.X[test]), data.y[test])
    if votes is None:
        parts = model.estimators_
        members, identical, differ = sum(part.weights_.size for part in parts), False, None
    else:
        parts, members = [model], votes.shape[1]
        widest = (votes.max(axis=1) - votes.min(axis=1)).max()
        real = not model._multi_class  # of labels, equal ones do not make members identical
        identical = members > 1 and real and bool(widest <= EQUAL * abs(votes).max())
        weights = model.weights_ if model.weights_.size == members else None
        differ = diversity.averages(votes, goals, weights) if members > 1 else None
    figures = {
        "train_rows": len(train),
        "test_rows": len(test),
        "train_error": error(train),
        "test_error": error(test),
        "classifiers": len(parts),
        "members": members,
        "diversity": differ,
        "identical": identical,
        "iterations": sum(int(part.n_iter_) for part in parts),
        "residual": None if model.residual_ is None else float(model.residual_),
        "objective": float(model.objective_),
        "converged": bool(model.converged_),
        "fit_seconds": seconds,
        "facts": model.facts() if hasattr(model, "facts") else {},
    }
    return figures, (votes, goals)


def member_votes(model, X, y):
    """Return the members' votes, (n, T), and the labels; None of members with tasks of their own.

    Where members predict one of many classes, their votes are + if right, and all labels are +.
    """
    import numpy as np

    if type(model).__name__ == "OneVsRest":
        return None, None
    if not model._multi_class:
        return model.votes(X), y == 1
    labels = np.column_stack([member.predict(X) for member in model.estimators_])
    if len(model.classes_) == 2:
        return np.where(labels == 1, 1.0, -1.0), y == 1
    return np.where(labels == y[:, None], 1.0, -1.0), y >= 0


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

    header, _ = some_solver().read_model(args.model)
    name, notes = header["class"], header["values"].get("notes_")
    names = [name, *dict.fromkeys(names_inside(header))]
    if unknown := [name for name in names if name not in FILES]:
        text = f"holds a model of {unknown[0]}, which is not among the methods"
        raise ValueError(f"{args.model} {text}")
    if not isinstance(notes, dict) or not {"data", "classes", "schema", "preprocess"} <= set(notes):
        raise ValueError(
            f"{args.model} was not written by --save and does not say how to read {args.data}; "
            f"use it from Python: {name}.load(path).predict(X)"
        )
    members = [method_class(name) for name in names]
    model = members[0].load(args.model, members=members)
    prep = preprocessing(args.model, notes, model)
    data = datasets.load(args.data, schema=notes["schema"])
    X = prep.transform(data.X)
    codes, decision, classes = model.predict(X), model.decision_function(X), notes["classes"]
    labels = [classes[k] if 0 <= k < len(classes) else k for k in codes.tolist()]  # or rejected
    many = decision.ndim == 2
    titles = [f"decision {c}" for c in classes] if many else ["decision"]
    rows = decision.reshape(len(labels), -1).tolist()
    table = [[label, *row] for label, row in zip(labels, rows, strict=True)]
    file = io.StringIO(newline="")
    csv.writer(file).writerows([["prediction", *titles], *table])
    write_text(args.out, file.getvalue())

    over = f" over {', '.join(names[1:])}" if names[1:] else ""
    say(f"{name}{over}, trained on {notes['data']}, applied to {data.name}: {len(codes)} rows")
    for note in notes_on(data, model):
        line("note", note)
    rule = "the largest decision wins" if many else f"decision >= 0 means class {classes[1]}"
    line("predictions", f"written to {args.out}; {rule}")
    if data.y is not None:
        wrong = int((codes != data.y).sum())
        line("error", f"{100 * wrong / len(codes):.1f} % ({wrong} of {len(codes)} rows)")


def preprocessing(path, notes, model):
    """Read the preprocessing in the notes of a model, checked with all else that they say."""
    import datasets

    try:
        classes, width = datasets.check_schema(notes["schema"])
        prep = datasets.Preprocess.from_dict(notes["preprocess"])
    except datasets.DataError:
        prep = None
    if (
        prep is None
        or not prep.fill_.size == width == model.n_features_in_
        or notes["classes"] != classes
        or not isinstance(notes["data"], str)
        or model.classes_.dtype.kind != "i"
        or model.classes_.tolist() != [*range(len(classes))]
    ):
        raise ValueError(f"{path} is not a model file of ensolve: its notes are damaged")
    return prep


def names_inside(header):
    """Yield the classes of the models inside a model; the built-in members have no name."""
    for value in header["models"].values():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, dict):
                yield from [] if part["class"].startswith("_") else [part["class"]]
                yield from names_inside(part)


def run_diversity(args):
    import warnings

    import numpy as np

    import datasets
    from solvers import diversity

    if args.plot:
        diversity.kappa_error_figure({}, "")  # without matplotlib it fails now, not at the end
    commands = list(dict.fromkeys(map(str.strip, args.methods.split(","))))
    if unknown := [command for command in commands if command not in METHODS]:
        raise ValueError(f"{unknown[0]!r} is no method; --methods are of {', '.join(METHODS)}")
    data = datasets.load(args.data, label=args.label, positive=args.positive)
    if len(data.classes) > 2:
        some = data.classes[0]
        raise ValueError(
            f"diversity needs two classes and {data.name} has {len(data.classes)}; choose, say, "
            f'--data "{args.data}:{some}-vs-rest" or --positive "{some}"'
        )
    protocol, splits = protocol_of(args, data, 1)
    splits, trials, clouds, models = list(splits), {}, {}, []
    bar, callback = progress_bar(len(splits) * len(commands), args.quiet)
    with bar or contextlib.nullcontext(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for command in commands:
            trials[command], points = [], []
            for trial, (train, test) in enumerate(splits):
                model = build(command, {}, args.seed + trial, 2, {}, callback=callback)
                figures, said = run_trial(model, data, train, test, METHODS[command][2])
                trials[command].append(figures)
                points.append(diversity.kappa_error(*said))
                if bar:
                    bar.update()
            models.append(model)
            cloud = [np.concatenate(axis) for axis in zip(*points, strict=True)]
            clouds |= {command: cloud} if cloud[0].size else {}

    result = {
        "command": args.argv,
        "data": facts_on(data, models, {}),
        "protocol": protocol | {"scale": "own"},
        "methods": {
            command: {"summary": summarise(trials[command]), "trials": trials[command]}
            for command in commands
        },
        **circumstances(caught, data),
    }
    if args.json:
        write_json(args.json, result)
    if args.plot:
        figure = diversity.kappa_error_figure(clouds, f"Kappa-error diagram, {data.name}")
        form = {"format": args.plot.rpartition(".")[2].lower(), "dpi": 150}
        with some_solver().write_file(args.plot) as file:
            figure.savefig(file, bbox_inches="tight", **form)  # a wide legend is not cut
    if not args.quiet:
        report_diversity(result)
        if args.plot:
            line("plot", f"kappa-error diagram written to {args.plot}")


def run_methods(args):
    for command, (_, name, _) in METHODS.items():
        say(f"{command:<18} {name:<18} {describe(command)[0]}")


def run_datasets(args):
    import datasets

    say(f"{'name':<18} {'rows':>6} {'features':>9} {'classes':>8} {'missing':>8}  other names")
    for entry in datasets.names():
        if "path" in entry:
            say(f"{entry['name']:<18} {entry['path']}")
        else:
            counts = f"{entry['rows']:>6} {entry['features']:>9} {len(entry['classes']):>8}"
            others = f"{entry['missing']:>8}  {', '.join(entry['aliases'])}".rstrip()
            say(f"{entry['name']:<18} {counts} {others}")
    say("generated: gaussians:N, linear:NxD; or any file: CSV, TSV, LIBSVM, .npz")
    say("of more than two classes all are used; NAME:A-vs-B or NAME:A-vs-rest takes two")


# -- output ----------------------------------------------------------------------------------------


def summarise(trials):
    """Spread of every figure over the trials that have it."""
    columns = {key: [t[key] for t in trials if t[key] is not None] for key in trials[0]}
    return {
        key: summarise(values) if isinstance(values[0], dict) else spread(values)
        for key, values in columns.items()
        if values
    }


def spread(values):
    mean = sum(values) / len(values)
    squares = sum((value - mean) ** 2 for value in values)
    std = math.sqrt(squares / (len(values) - 1)) if len(values) > 1 else None
    return {"mean": mean, "std": std, "min": min(values), "max": max(values)}


def notes_on(data, model, who=""):
    missing = int((data.X != data.X).sum())
    how = "left to the method" if model._takes_nan() else "filled with training medians"
    return data.notes + ([f"{who}missing numbers {how}: {missing}"] if missing else [])


def facts_on(data, models, notes):
    """Describe the data and what was done to them for these models."""
    texts = []
    for model in models:
        texts += notes_on(data, model, f"{type(model).__name__}: " if len(models) > 1 else "")
    texts += [f"{text} {', '.join(names)}" for text, names in notes.items()]
    return {
        "name": data.name,
        "rows": data.X.shape[0],
        "features": data.X.shape[1],
        "classes": {c: int((data.y == k).sum()) for k, c in enumerate(data.classes)},
        "notes": list(dict.fromkeys(texts)),
    }


def circumstances(caught, data):
    """Describe versions and warnings; methods know classes by number, their users by name."""
    names = data.classes if len(data.classes) == 2 else ["rest", "of its own"]
    texts = [f"{warning.category.__name__}: {warning.message}" for warning in caught]
    return {
        "warnings": [
            re.sub(r"\bclass ([01])\b", lambda match: f"class {names[int(match[1])]}", text)
            for text in texts
        ],
        "versions": {"python": sys.version.split()[0]}
        | {package: sys.modules[package].__version__ for package in ("numpy", "numba")},
    }


def say(text, **where):
    """Print a line; what could move the cursor or break the line is escaped."""
    plain = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    print("".join(plain), **where)


def line(label, text):
    say(f"  {label:<13} {text}")


def span(figures, form="{} to {}"):
    low, high = figures["min"], figures["max"]
    return f"{low}" if low == high else form.format(low, high)


def measures(differ):
    """Return the means of the diversity of members as texts, by title."""
    texts = {"member error": percent(differ["member_error"]["mean"])}
    for key, (title, share) in MEASURES.items():
        value = differ[key]["mean"]
        texts[title] = percent(value) if share else f"{round(value, 2) + 0.0:.2f}"  # no -0.00
    return texts


def percent(share):
    return f"{100 * share:.1f} %"


def report_head(title, result, summary):
    """Print what was trained on what, and how."""
    data, protocol = result["data"], result["protocol"]
    *others, last = [f"{name} ({count})" for name, count in data["classes"].items()]
    classes = f"classes {', '.join(others)} and {last}"
    say(f"{title} on {data['name']}: {data['rows']} rows, {data['features']} features, {classes}")
    for note in data["notes"]:
        line("note", note)
    count, folds = protocol["trials"], protocol["cv"]
    kind = f"{count} random split{'s' * (count > 1)}"
    if folds:
        kind = f"{folds}-fold cross-validation" + (f", {count} times" if count > 1 else "")
    rows = f"{span(summary['train_rows'])} rows for training and {span(summary['test_rows'])}"
    scale = SCALES.get(protocol["scale"], "features scaled as each method does by default")
    line("protocol", f"{kind}, {rows} for testing, {scale}, seed {protocol['seed']}")


def report_warnings(result):
    for category in sorted({text.partition(":")[0] for text in result["warnings"]}):
        texts = [text for text in result["warnings"] if text.startswith(category)]
        line("warning", texts[0] + (f" (and {len(texts) - 1} like it)" if len(texts) > 1 else ""))


def report(result):
    params, trials, summary = result["params"], result["trials"], result["summary"]

    def mean(key, factor, digits, unit):
        std = summary[key]["std"]
        more = "" if std is None else f" +- {std * factor:.{digits}f}"
        return f"{summary[key]['mean'] * factor:.{digits}f} {unit}{more}"

    report_head(result["method"], result, summary)
    line("test error", mean("test_error", 100, 1, "%"))
    line("train error", mean("train_error", 100, 1, "%"))

    members, each = span(summary["members"]), ""
    if (classifiers := summary["classifiers"]["max"]) > 1:
        members += f" in {classifiers} classifiers, each for one class against the rest"
        each = " of all classifiers together"
    if summary["identical"]["min"]:
        members += ": all members are identical"
        if params.get("sampling", "") is None:
            members += "; --sampling bootstrap gives each its own sample"
    line("members", members)
    if differ := summary.get("diversity"):
        several = "of right and wrong answers: " if len(result["data"]["classes"]) > 2 else ""
        texts = [f"{title} {text}" for title, text in measures(differ).items()]
        line("diversity", several + ", ".join(texts))
    if facts := summary["facts"]:
        line("figures", ", ".join(f"{name} {facts[name]['mean']:.4g}" for name in facts))
    form = f"{summary['iterations']['mean']:.1f} ({{}} to {{}})"
    line("iterations", span(summary["iterations"], form) + each)

    failed = sum(not trial["converged"] for trial in trials)
    if failed and params.get("solver") == "paper":
        end = ": not the optimum, as the printed algorithm stops early; --solver auto reaches it"
    else:
        goal = params.get("tol", params.get("eps"))
        end = "; " if goal is None else f" (asked for {goal:g}); "
        end += f"{failed} of {len(trials)} fits did not converge" if failed else "all converged"
    if "residual" in summary:
        where = " in any classifier" if each else ""
        line("certified gap", f"{summary['residual']['max']:.1e} at most{where}, relative{end}")
    else:
        end = f"; {failed} of {len(trials)} fits ended early" if failed else ""
        why = NO_CERTIFICATE.get(result["method"], "the method is greedy")
        line("certificate", f"none: {why}{end}")
    scale = (1e3, 2, "ms") if summary["fit_seconds"]["mean"] < 1 else (1, 2, "s")
    compiling = f"compile or cache load {result['compile_seconds']:.2f} s, not included"
    line("fit time", f"{mean('fit_seconds', *scale)}; {compiling}")
    report_warnings(result)


def report_diversity(result):
    head = [
        "method",
        "members",
        "error",
        "member error",
        *(title for title, _ in MEASURES.values()),
    ]
    table, first = [head], next(iter(result["methods"].values()))["summary"]
    report_head("diversity", result, first)
    for command, entry in result["methods"].items():
        summary, row = entry["summary"], [command]
        row += [span(summary["members"]), percent(summary["test_error"]["mean"])]
        if differ := summary.get("diversity"):
            row += measures(differ).values()
        table.append(row + ["-"] * (len(head) - len(row)))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for name, *cells in table:
        rest = "  ".join(f"{c:>{w}}" for c, w in zip(cells, widths[1:], strict=True))
        say(f"  {name:<{widths[0]}}  {rest}")
    for command, entry in result["methods"].items():
        if entry["summary"]["identical"]["min"]:
            line("note", f"all members of {command} are identical")
    report_warnings(result)


def progress_bar(total, quiet):
    """Make a bar that a terminal shows after a second, and its callback; None elsewhere."""
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        return None, None
    try:
        from tqdm import tqdm
    except ImportError:
        return None, None
    bar = tqdm(total=total, unit="fit", delay=1, miniters=0, leave=False, smoothing=0)

    def callback(model, iteration, info):
        known = {key: value for key, value in info.items() if value is not None}
        values = "".join(f", {key} {value:.1e}" for key, value in known.items())
        bar.set_postfix_str(f"iteration {iteration}{values}", refresh=False)
        bar.update(0)

    return bar, callback


def some_solver():
    """Return a module that reads and writes files as all do."""
    return importlib.import_module(f"solvers.{next(iter(FILES.values()))}")


def write_text(path, text):
    """Write a file that takes its place only when it is complete."""
    with some_solver().write_file(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def write_json(path, result):
    import json

    plain = json.loads(json.dumps(result), parse_constant=lambda _: None)  # JSON knows no NaN
    write_text(path, json.dumps(plain, indent=1))


def main(argv=None):
    """Run a command line; return the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        args, unknown = build_parser(argv).parse_known_args(argv)
        if unknown:
            hint = f"`python cli.py {args.command} --help` lists the flags"
            raise ValueError(f"unknown argument {unknown[0]!r}; {hint}")
        args.argv = argv
        check_outputs(args)
        args.run(args)
        if sys.stdout:
            sys.stdout.flush()  # where the disk is full, this fails
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
    say(f"cli.py: error: {' '.join(message.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly when `head` has seen enough
    for stream in (sys.stdout, sys.stderr):
        if stream:  # a letter that the terminal lacks is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    code = main()
    try:
        sys.stdout.flush()
    except (AttributeError, OSError):  # closed, or full: main has said so, Python need not again
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)

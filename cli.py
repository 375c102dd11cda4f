"""Command line: `python cli.py exrm --data sonar` trains, tests and reports."""

import argparse
import sys

from perf.papers import TARGETS
from perf.study import methods, outputs
from solvers import METHODS

SPLITS = ("trials", "train", "cv", "seed")
READ = ("label", "positive", "drop", "encoding", "decimal", "delimiter")  # of datasets.load
FORMATS = "as .png, .pdf or .svg"
SCHEDULER = "local:N (start N processes) or tcp://HOST:PORT (running scheduler)"


# -- flags -----------------------------------------------------------------------------------------
# fmt: off


class Parser(argparse.ArgumentParser):
    def __init__(self, **options):
        super().__init__(allow_abbrev=False, **options)

    def error(self, message):
        raise ValueError(f"{message}; see `python {self.prog} --help`")


def add_reading_flags(add):
    add("--drop", type=outputs.names, metavar="COLUMN,...", help="columns to leave out, as --label")
    add("--encoding", metavar="NAME", help="encoding of a text file [default utf-8]")
    add("--decimal", metavar="CHAR", help="decimal separator of a text file [default .]")
    add("--delimiter", metavar="CHAR",
        help="column separator of a text file [default: detected among tab ; , | and blanks]")


def add_data_flags(parser, trials, more=""):
    """Add the flags of all commands that train; return two functions to add more."""
    parser.usage = f"{parser.prog} --data NAME|FILE{more} [flags]"
    group = parser.add_argument_group("data and protocol")
    add, add_size = group.add_argument, group.add_mutually_exclusive_group().add_argument
    add("--data", required=True, type=outputs.names if more else str, metavar=f"NAME|FILE{more}",
        help="data set of `cli.py datasets`, or file: CSV, TSV, LIBSVM or .npz; NAME:A-vs-B takes "
        "two classes, NAME:A-vs-rest two groups; with --scheduler a directory of files")
    add("--label", metavar="COLUMN", help="label column of a file, by name or number from 0 "
        "[default: label, class, target or y, else the last]")
    add("--positive", metavar="CLASS", help="positive class; if there are more than two, all "
        "others form the negative class")
    add_reading_flags(add)
    add_size("--train", type=float, default=0.5, metavar="SIZE", help="training rows as a fraction "
             "or a number; the rest is for testing [default 0.5]")
    add_size("--cv", type=int, metavar="K", help="K-fold cross-validation, not random splits")
    add("--trials", type=int, metavar="N",
        help=f"random splits [default {trials}]; with --cv, repetitions [default 1]")
    add("--seed", type=int, default=0, metavar="N",
        help="seed of the splits; trial t trains with seed N + t [default 0]")
    to = parser.add_argument_group("output").add_argument
    to("--json", type=outputs.output, metavar="FILE", help="write all results to this file")
    to("--quiet", action="store_true", help="print nothing but errors")
    return add, to


def add_method_flags(parser, command):
    from datasets import SCALES

    parser.description, known = methods.summary(command), methods.parameters(command)
    _, name, scale = METHODS[command]
    add, to = add_data_flags(parser, 10)
    own = f"{scale}, or that of --base" if "base" in known else scale
    add("--scale", choices=SCALES,
        help=f"scaling of the features, learned on the training rows [default {own}]")
    if command in methods.BLOCK_METHODS:
        add("--scheduler", metavar="WHERE", help=f"Dask cluster for --data DIRECTORY: {SCHEDULER}")
    to("--save", type=outputs.output, metavar="MODEL",
       help="train on all rows afterwards and write the model, for `cli.py predict`")
    to("--plot", type=outputs.picture, metavar="FILE", help=f"picture to write, {FORMATS}")
    to("--picture", choices=methods.PICTURES[command], metavar="KIND", help=methods.kinds(command))
    add = parser.add_argument_group(f"parameters of {name}").add_argument
    flags = {key: "inner_cv" if key == "cv" else key for key in known}  # --cv is of the protocol
    for key, flag in flags.items():
        add(f"--{flag.replace('_', '-')}", **methods.option(key, known[key]))
    parser.set_defaults(run=run_method, flags=flags)


def add_jobs_flags(parser):
    add = parser.add_argument_group("where it runs").add_mutually_exclusive_group().add_argument
    add("--jobs", type=int, default=1, metavar="N", help="processes [default 1]")
    add("--scheduler", dest="jobs", metavar="WHERE", help=f"Dask cluster: {SCHEDULER}")


def add_diversity_flags(parser):
    add, to = add_data_flags(parser, 1)
    add("--methods", default="adaboost,bagging,exrm", metavar="NAME,...",
        help="names of methods [default %(default)s]")
    to("--plot", type=outputs.picture, metavar="FILE", help=f"kappa-error diagram, {FORMATS}")


def add_compare_flags(parser):
    add, to = add_data_flags(parser, 10, more=",...")
    add("--methods", required=True, metavar="METHOD,...", help="names as in `cli.py methods`, with "
        "parameters after a colon: exrm:n_estimators=30,p=1,drm are two methods, as KEY=VALUE "
        "belongs to the method before; lists are joined by +: voting:members=exrm+adaboost; or "
        "`diversity`: each source of diversity of each method, switched off and on")
    add("--tune", action="store_true", help="choose parameters that are not given from a grid, by "
        "5-fold cross-validation on the training rows of each split")
    add("--measure", choices=("error", "balanced", "auc"), default="error",
        help="test error, its mean over the classes, or area under the ROC curve [default error]")
    to("--out", type=outputs.folder, metavar="DIR", help="write results.jsonl, report.html and "
       "table.md, .csv and .tex; rerun the same command to resume; failed cells are retried")
    to("--plot", type=outputs.picture, metavar="FILE",
       help=f"with --methods diversity: changes and their intervals, {FORMATS}")
    add_jobs_flags(parser)


def add_reproduce_flags(parser):
    add = parser.add_argument
    add("targets", type=outputs.names, metavar="TARGET,...", help=f"all, or {', '.join(TARGETS)}")
    add("--quick", action="store_true", help="small version that runs in seconds")
    add_jobs_flags(parser)
    add("--out", type=outputs.folder, metavar="DIR", help="write the pages; rerun to resume")
    add("--quiet", action="store_true", help="print nothing but errors")
    parser.set_defaults(json=None)


def add_predict_flags(parser):
    add = parser.add_argument
    add("--model", required=True, help="file written by --save")
    add("--data", required=True, metavar="FILE", help="rows; labels may be absent")
    add("--out", required=True, type=outputs.output, metavar="FILE", help="CSV to write")
    add_reading_flags(add)


# fmt: on
# -- commands --------------------------------------------------------------------------------------


def load_options(args):
    return {key: given for key in READ if (given := getattr(args, key, None)) is not None}


def picked(args, *flags):
    return {flag: getattr(args, flag) for flag in flags}


def make_spec(args, command, **more):
    from perf.study.experiment import Spec

    return Spec(args.data, command, read=load_options(args), **picked(args, *SPLITS) | more)


def run_method(args):
    from perf.study import experiment, parts, pictures, report

    params = {key: getattr(args, flag) for key, flag in args.flags.items()}
    spec = make_spec(args, args.command, params=params, scale=args.scale)
    where, flags = getattr(args, "scheduler", None), ("trials", "cv", "scale", "plot", "picture")
    if parts.check(spec, where, **picked(args, *flags)):
        record, saved = parts.run(spec, where, args.save, args.quiet)
        result = report.collect([record], args.argv, saved)
        return outputs.write_outputs(args, result, report.method_report(result))
    data = experiment.read(spec)
    kind = pictures.choose(args.plot, args.picture, args.command)
    besides = pictures.plan(kind, spec, data)
    with outputs.progress(sum(map(len, [spec, *besides])), args.quiet) as (callback, each):
        more = {"data": data, "callback": callback}
        look = pictures.on_fitted(kind, data)
        records = list(each(experiment.trials(spec, on_fitted=look, **more)))
        others = list(each(pictures.run(besides, **more)))
        saved = experiment.save(spec, args.save, **more) if args.save else None
    result = report.collect(records, args.argv, saved, pictures.collect(kind, records, others))
    outputs.write_outputs(args, result, report.method_report(result))


def run_diversity(args):
    from perf.study import experiment, report

    commands = methods.listed(args.methods)
    trials = 1 if args.trials is None else args.trials
    specs = {command: make_spec(args, command, trials=trials) for command in commands}
    data = experiment.read(specs[commands[0]])
    experiment.need_two_classes(data, args.data, "diversity")
    with outputs.progress(trials * (args.cv or 1) * len(commands), args.quiet) as (callback, each):
        more = {"data": data, "callback": callback, "pairs": bool(args.plot)}
        runs = {name: list(each(experiment.trials(specs[name], **more))) for name in commands}
    result = report.collect_methods(runs, args.argv, bool(args.plot))
    outputs.write_outputs(args, result, report.diversity_report(result))


def run_compare(args):
    from perf.study import compare, tables

    if args.plot and args.methods != "diversity":
        raise ValueError("compare --plot needs --methods diversity; --out DIR draws all methods")
    what = args.data, args.methods, picked(args, *SPLITS), load_options(args), args.out
    how = picked(args, "tune", "measure", "jobs", "quiet", "argv")
    result = compare.command(*what, **how)
    result["picture"] = compare.changes(result) if args.plot else None
    outputs.write_outputs(args, result, tables.text(result))


def run_reproduce(args):
    from perf.study import reproduce

    text = reproduce.command(args.targets, args.quick, args.jobs, args.out, args.quiet)
    outputs.write_outputs(args, {}, text)


def run_predict(args):
    from perf.study import experiment, report

    record, table = experiment.apply(args.model, args.data, **load_options(args))
    outputs.write_csv(args.out, table)
    print(report.predict_report(record, args.out))


def run_list(args):
    from perf.study import report

    print("\n".join(map(methods.line, METHODS)) if args.command == "methods" else report.sets())


# -- main ------------------------------------------------------------------------------------------

COMMANDS = {  # besides the methods: help, function, and function that adds the flags, if any
    "diversity": ("measure how much members differ", run_diversity, add_diversity_flags),
    "compare": ("compare methods across data sets", run_compare, add_compare_flags),
    "reproduce": ("repeat experiments of the papers", run_reproduce, add_reproduce_flags),
    "predict": ("apply a model written by --save to new rows", run_predict, add_predict_flags),
    "methods": ("list the methods", run_list, lambda parser: None),
    "datasets": ("list the data sets", run_list, lambda parser: None),
}


def build_parser(argv):
    """Build the parser; only the method that argv starts with gets its flags."""
    parser = Parser(
        prog="cli.py", description="Train and test diverse ensembles of classifiers.",
        epilog=methods.EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=outputs.version())
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in METHODS:
        method = commands.add_parser(command, help=methods.summary(command))
        if argv[:1] == [command]:
            add_method_flags(method, command)
    for command, (text, run, add_flags) in COMMANDS.items():
        other = commands.add_parser(command, help=text, description=text)
        other.set_defaults(run=run)
        add_flags(other)
    return parser, commands.choices


def parse(argv):
    """Read a command line; errors guess the command or flag that was meant."""
    parser, commands = build_parser(argv)
    if argv and not argv[0].startswith("-"):
        methods.check_words(argv, commands)
    args, others = parser.parse_known_args(argv)
    if others:
        raise ValueError(methods.unknown(others[0], argv[0]))
    return args


def main(argv=None):
    """Run a command line; return the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        args = parse(argv)
        args.argv = argv
        outputs.check(args)
        args.run(args)
        if sys.stdout:
            sys.stdout.flush()  # fails on a full disk
        return 0
    except outputs.TROUBLES as error:
        print(f"cli.py: {outputs.error_line(error)}", file=sys.stderr)
        return 130 if isinstance(error, KeyboardInterrupt) else 2


if __name__ == "__main__":
    sys.exit(outputs.with_streams(main))

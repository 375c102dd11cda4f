"""Command line: `python cli.py exrm --data sonar` trains, tests and reports.

Here are flags and files. Experiments are run in perf/study/experiment.py, their records become
text in perf/study/report.py, methods come from solvers/ and data from datasets.py.
"""

import argparse
import contextlib
import sys

from perf.papers import TARGETS
from perf.study import methods, outputs
from solvers import METHODS

RENAMED = {"cv": "inner_cv"}  # parameters whose flags the protocol has taken
READ = ("label", "positive", "drop", "encoding", "decimal", "delimiter")  # how data are read


# -- flags -----------------------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    def __init__(self, **options):
        super().__init__(allow_abbrev=False, **options)

    def error(self, message):
        raise ValueError(f"{message}; see `python {self.prog} --help`")


def add_reading_flags(add):
    # fmt: off
    add("--drop", type=outputs.names, metavar="COLUMN,...",
        help="columns of a file to leave out, by name or number from 0")
    add("--encoding", metavar="NAME", help="encoding of a text file [default utf-8]")
    add("--decimal", metavar="SIGN", help="decimal sign of a text file [default .]")
    add("--delimiter", metavar="SIGN", help="what stands between the cells of a text file "
        "[default: tab, semicolon, comma, bar or blanks, whichever fits]")
    # fmt: on


def add_data_flags(parser, trials, more=""):
    """Add the flags that all commands share that train; return two functions to add more."""
    parser.usage = f"{parser.prog} --data NAME|FILE{more} [flags]"
    group = parser.add_argument_group("data and protocol")
    add, add_size = group.add_argument, group.add_mutually_exclusive_group().add_argument
    # fmt: off
    kind = outputs.names if more else str
    add("--data", required=True, type=kind, metavar=f"NAME|FILE{more}", help="data set, see "
        "`cli.py datasets`, or file: CSV, TSV, LIBSVM or .npz; NAME:A-vs-B takes two classes, "
        "NAME:A-vs-rest one against the others; methods with --scheduler take a directory of files")
    add("--label", metavar="COLUMN", help="label column of a file, by name or number from 0 "
        "[default: label, class, target or y, else the last]")
    add("--positive", metavar="CLASS", help="the positive class; of several, against the rest")
    add_reading_flags(add)
    add_size("--train", type=float, default=0.5, metavar="PART",
             help="share or number of rows to train on, the others test [default 0.5]")
    add_size("--cv", type=int, metavar="K", help="K-fold cross-validation instead")
    add("--trials", type=int, metavar="N",
        help=f"random splits [default {trials}]; with --cv, repetitions [default 1]")
    add("--seed", type=int, default=0, metavar="N",
        help="seed of the splits; trial t trains with seed N + t [default 0]")
    to = parser.add_argument_group("output").add_argument
    to("--json", type=outputs.output, metavar="FILE", help="write all results to this file")
    to("--quiet", action="store_true", help="print nothing but errors")
    # fmt: on
    return add, to


def add_method_flags(parser, command):
    from datasets import SCALES

    parser.description, defaults, texts = methods.describe(command)
    _, name, scale = METHODS[command]
    add, to = add_data_flags(parser, 10)
    own = f"{scale}, or as --base wants it" if "base" in defaults else scale
    text = f"scaling of the features, learned on the training rows [default {own}]"
    add("--scale", choices=SCALES, help=text)
    if command in methods.BLOCK_METHODS:
        text = "of Dask, for --data DIR: local:N starts N processes, tcp://HOST:PORT is a scheduler"
        add("--scheduler", metavar="WHERE", help=text)
    text = "train on all rows afterwards and write the model, for `cli.py predict`"
    to("--save", type=outputs.output, metavar="MODEL", help=text)
    to("--plot", type=outputs.picture, metavar="FILE", help="draw into this .png, .pdf or .svg")
    to("--picture", choices=methods.PICTURES[command], metavar="KIND", help=methods.kinds(command))
    add = parser.add_argument_group(f"parameters of {name}").add_argument
    flags = {key: RENAMED.get(key, key) for key in defaults if key not in methods.OF_A_RUN}
    for key, flag in flags.items():
        options = methods.option(key, texts.get(key, ""), defaults[key])
        add(f"--{flag.replace('_', '-')}", metavar="VALUE", **options)
    parser.set_defaults(run=run_method, flags=flags)


def add_jobs_flags(parser):
    add = parser.add_argument_group("where it runs").add_mutually_exclusive_group().add_argument
    add("--jobs", type=int, default=1, metavar="N", help="processes [default 1]")
    text = "a cluster of Dask: local:N starts N processes, tcp://HOST:PORT is a scheduler that runs"
    add("--scheduler", dest="jobs", metavar="WHERE", help=text)


def add_diversity_flags(parser):
    add, to = add_data_flags(parser, 1)
    text = "names with commas between them [default %(default)s]"
    add("--methods", default="adaboost,bagging,exrm", metavar="NAMES", help=text)
    text = "draw the kappa-error diagram, a dot a pair of members, into this .png, .pdf or .svg"
    to("--plot", type=outputs.picture, metavar="FILE", help=text)
    parser.set_defaults(run=run_diversity)


def add_compare_flags(parser):
    add, to = add_data_flags(parser, 10, more=",...")
    # fmt: off
    add("--methods", required=True, metavar="METHOD,...", help="names as in `cli.py methods`, with "
        "parameters after a colon: exrm:n_estimators=30,p=1,drm are two methods, as a part with = "
        "belongs to the one before; lists have + in them: voting:members=exrm+adaboost. Or the "
        "word diversity: all that makes the members of a method differ, off and on")
    add("--tune", action="store_true", help="choose parameters that are not given from a grid, by "
        "5-fold cross-validation on the training rows of each split")
    add("--measure", choices=("error", "balanced", "auc"), default="error",
        help="test error, its mean over the classes, or area under the ROC curve [default error]")
    to("--out", type=outputs.folder, metavar="DIR", help="write results.jsonl, report.html and "
       "table.md, .csv and .tex; the same command goes on where it was stopped, and tries again "
       "what has failed")
    # fmt: on
    add_jobs_flags(parser)
    parser.set_defaults(run=run_compare)


def add_reproduce_flags(parser):
    add = parser.add_argument
    text = f"all, or names with commas between them: {', '.join(TARGETS)}"
    add("targets", type=outputs.names, metavar="TARGET,...", help=text)
    add("--quick", action="store_true", help="a run of seconds, to see what it is about")
    add_jobs_flags(parser)
    text = "write the pages; the same command goes on where it was stopped"
    add("--out", type=outputs.folder, metavar="DIR", help=text)
    add("--quiet", action="store_true", help="print nothing but errors")
    parser.set_defaults(run=run_reproduce, json=None)


def add_predict_flags(parser):
    add = parser.add_argument
    add("--model", required=True, help="file written by --save")
    add("--data", required=True, metavar="FILE", help="rows; labels may be absent")
    add("--out", required=True, type=outputs.output, metavar="FILE", help="CSV to write")
    add_reading_flags(add)
    parser.set_defaults(run=run_predict)


def build_parser(argv):
    """Build the parser; of the methods, only the one that argv starts with gets its flags."""
    parser = Parser(
        prog="cli.py", description="Train and test diverse ensembles of classifiers.",
        epilog=methods.EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    text = outputs.version() if "--version" in argv[:1] else ""
    parser.add_argument("--version", action="version", version=text)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command, (_, name, _) in METHODS.items():
        method = commands.add_parser(command, help=f"train and test {name}")
        if argv[:1] == [command]:  # to read the sources of all methods would take its time
            add_method_flags(method, command)
    text = "compare how much the members of several methods differ"
    add_diversity_flags(commands.add_parser("diversity", help=text, description=text))
    text = "compare several methods on several data sets, with tests that hold"
    add_compare_flags(commands.add_parser("compare", help=text, description=text))
    text = "repeat the experiments of the papers, and see what holds"
    add_reproduce_flags(commands.add_parser("reproduce", help=text, description=text))
    text = "apply a model written by --save to new rows"
    add_predict_flags(commands.add_parser("predict", help=text, description=text))
    commands.add_parser("methods", help="list the methods").set_defaults(run=run_list)
    commands.add_parser("datasets", help="list the data sets").set_defaults(run=run_list)
    return parser, commands.choices


def parse(argv):
    """Read a command line; what it should have said instead is guessed."""
    parser, commands = build_parser(argv)
    if not argv or argv[0].startswith("-"):
        return parser.parse_args(argv)
    methods.check_words(argv, commands)
    args, others = parser.parse_known_args(argv)
    if others:
        raise ValueError(methods.unknown(others[0], argv[0]))
    return args


# -- commands --------------------------------------------------------------------------------------


def reading(args):
    return {key: given for key in READ if (given := getattr(args, key, None)) is not None}


def specify(args, command, **more):
    from perf.study.experiment import Spec

    splits = {"trials": args.trials, "train": args.train, "cv": args.cv, "seed": args.seed}
    return Spec(args.data, command, read=reading(args), **splits | more)


def run_method(args):
    from perf import draw
    from perf.study import experiment, parts, pictures, report
    from solvers.rows import cluster

    params = {key: getattr(args, flag) for key, flag in args.flags.items()}
    spec = specify(args, args.command, params=params, scale=args.scale)
    where, flags = getattr(args, "scheduler", None), ("trials", "cv", "scale", "plot", "picture")
    if parts.check(spec, where, **{flag: getattr(args, flag) for flag in flags}):
        place = cluster.connect(where) if where else contextlib.nullcontext()
        with outputs.progress(1, args.quiet) as (callback, _), place as client:
            record, saved = parts.run(spec, client, args.save, callback)
        result = report.collect([record], args.argv, saved)
        return outputs.tell(args, result, report.method_report(result))
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
    drawn = draw.picture(result["picture"]) if args.plot else None
    outputs.tell(args, result, report.method_report(result, args.plot), drawn)


def run_diversity(args):
    from perf.study import experiment, report

    if args.plot:
        report.kappa_error_figure({})  # without matplotlib it fails now, not at the end
    commands = methods.listed(args.methods)
    trials = 1 if args.trials is None else args.trials
    specs = {command: specify(args, command, trials=trials) for command in commands}
    data = experiment.read(specs[commands[0]])
    experiment.need_two_classes(data, args.data, "diversity")
    with outputs.progress(trials * (args.cv or 1) * len(commands), args.quiet) as (callback, each):
        more = {"data": data, "callback": callback, "pairs": bool(args.plot)}
        runs = {name: list(each(experiment.trials(specs[name], **more))) for name in commands}
    result = report.collect_methods(runs, args.argv)
    if args.plot:
        outputs.write_figure(args.plot, report.kappa_error_figure(runs))
    outputs.tell(args, result, report.diversity_report(result, args.plot))


def run_compare(args):
    from perf.study import compare, tables

    splits = {key: getattr(args, key) for key in ("trials", "train", "cv", "seed")}
    how = {key: getattr(args, key) for key in ("tune", "measure", "jobs", "quiet", "argv")}
    result = compare.command(args.data, args.methods, splits, reading(args), args.out, **how)
    outputs.tell(args, result, tables.text(result))


def run_reproduce(args):
    from perf.study import reproduce

    how = args.quick, args.jobs, args.out, args.quiet
    outputs.tell(args, {}, reproduce.command(args.targets, *how))


def run_predict(args):
    from perf.study import experiment, report

    record, table = experiment.apply(args.model, args.data, **reading(args))
    outputs.write_csv(args.out, table)
    print(report.predict_report(record, args.out))


def run_list(args):
    from perf.study import report

    print("\n".join(map(methods.line, METHODS)) if args.command == "methods" else report.sets())


# -- main ------------------------------------------------------------------------------------------


def main(argv=None):
    """Run a command line; return the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        args = parse(argv)
        args.argv = argv
        outputs.check(args)
        args.run(args)
        if sys.stdout:
            sys.stdout.flush()  # where the disk is full, this fails
        return 0
    except KeyboardInterrupt as stop:
        print(f"cli.py: {outputs.interrupted(stop)}", file=sys.stderr)
        return 130
    except outputs.TROUBLES as error:
        print(f"cli.py: error: {outputs.trouble(error)}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    outputs.open_streams()
    code = main()
    outputs.close_streams()
    sys.exit(code)

"""Reports: records of experiments to text of 80 columns.

`collect` and `collect_methods` make one document of the records of a run, which --json writes, too;
`method_report`, `diversity_report` and `predict_report` make text of documents alone.
"""

import itertools
import statistics

import datasets
from perf.study.methods import FILES, walk
from perf.text import (
    INDENT,
    abbreviate,
    columns,
    duration,
    entry,
    fill,
    mean_std,
    percent,
    plain,
    span,
    spread,
)
from solvers import METHODS

NAME, TITLE = 24, 12  # Letters of a class's name in a text, and in a table.
LISTED = 8  # Classes that are listed before the others are only counted.
CONFUSIONS = 6  # Confusions that are listed where the matrix is too wide.
SHARED = (  # Fields that are equal in all trials, or no figures.
    "spec", "data", "model", "versions", "warnings", "compile_seconds", "pairs", "picture", "parts",
)  # fmt: skip
PROTOCOL = ("trials", "train", "cv", "seed")
MAJORITY = "always predicting the majority class"
NO_CERTIFICATE = {
    "Bagging": "a vote of samples optimises nothing",
    "Voting": "a vote optimises nothing",
    "Stacking": "the classifier on top has the last word",
}
MEASURES = {  # Of diversity: title, title of two lines, and whether it is a share.
    "member_error": ("member error", "member error", True),
    "disagreement": ("disagreement", "dis- agree", True),
    "kappa": ("kappa", "kappa", False),
    "q_statistic": ("Q", "Q", False),
    "correlation": ("correlation", "corre- lation", False),
    "double_fault": ("double fault", "double fault", True),
    "ambiguity": ("ambiguity", "ambi- guity", False),
}
EXPLAINED = (
    "means over pairs of members; kappa, Q and correlation: 1 = always agree, 0 = agree by chance; "
    "double fault: both are wrong; ambiguity: mean squared error of the members minus that of the "
    "vote"
)


def collect(records, command, saved=None, picture=None):
    """Make one document of the records of a run, of that of a saved model, and of a picture."""
    first = records[0]
    spec, model = first["spec"], first["model"]
    trials, summary = _trials(records)
    told = [*records, saved] if saved else records
    return {
        "command": command,
        "method": METHODS[spec["method"]][1],
        "data": first["data"] | {"notes": first["data"]["notes"] + model["notes"]},
        "protocol": {key: spec[key] for key in (*PROTOCOL, "scale")},
        "parts": first.get("parts"),  # Of a directory.
        "read": spec["read"],
        "params": spec["params"],
        "model": model,
        "trials": trials,
        "summary": summary,
        "compile_seconds": sum(record["compile_seconds"] for record in records),
        "warnings": [text for record in told for text in record["warnings"]],
        "versions": first["versions"],
        "saved": saved,
        "picture": picture,
    }


def collect_methods(runs, command, plot=False):
    """Make one document of the records of several methods, {name: records}, on the same data.

    plot: with a kappa-error diagram of all pairs of members, which the records hold.
    """
    notes, methods, told = [], {}, []
    for name, records in runs.items():
        (trials, summary), model = _trials(records), records[0]["model"]
        methods[name] = {"model": model, "summary": summary, "trials": trials}
        notes += [f"{model['name']}: " * (len(runs) > 1) + note for note in model["notes"]]
        told += [text for record in records for text in record["warnings"]]
    first = next(iter(runs.values()))[0]
    spec, data = first["spec"], first["data"]
    return {
        "command": command,
        "data": data | {"notes": data["notes"] + notes},
        "protocol": {key: spec[key] for key in PROTOCOL} | {"scale": "own"},
        "read": spec["read"],
        "methods": methods,
        "warnings": told,
        "versions": first["versions"],
        "picture": _kappa_error(runs) if plot else None,
    }


def _kappa_error(runs):
    """Record of the kappa-error diagram: pairs of members, and error of each ensemble."""
    clouds, errors = {}, {}
    for name, records in runs.items():
        points = zip(*(record["pairs"] for record in records), strict=True)
        clouds[name] = [list(itertools.chain(*axis)) for axis in points]
        errors[name] = statistics.fmean(record["test_error"] for record in records)
    clouds = {name: axes for name, axes in clouds.items() if axes[0]}
    data = next(iter(runs.values()))[0]["data"]["name"]
    return {"kind": "kappa-error", "data": data, "clouds": clouds, "errors": errors}


def _trials(records):
    """Return what differs from trial to trial, and its spread."""
    trials = [{k: v for k, v in record.items() if k not in SHARED} for record in records]
    return trials, summarise([{k: v for k, v in t.items() if k != "trial"} for t in trials])


def summarise(trials):
    """Spread of every figure over the trials that have it; lists and texts have none."""
    spreads = {}
    for key in dict.fromkeys(key for trial in trials for key in trial):
        values = [trial[key] for trial in trials if trial.get(key) is not None]
        if values and not isinstance(values[0], list | str):
            spreads[key] = summarise(values) if isinstance(values[0], dict) else spread(values)
    return spreads


def broken(titles):
    """Break titles before their last word into two rows of a table."""
    parts = [[*title.rsplit(" ", 1), ""][:2] for title in titles]
    return [list(row) for row in zip(*parts, strict=True)]


def measures(differ):
    """Return the means of the diversity of members as texts, by title."""
    values = {key: differ[key]["mean"] for key in MEASURES}
    return {
        title: percent(values[key]) if share else f"{round(values[key], 2) + 0.0:.2f}"  # No -0.00.
        for key, (title, _, share) in MEASURES.items()
    }


def contents(data):
    """Say what a data set holds."""
    listed = [f"{abbreviate(name, NAME)} ({count})" for name, count in data["classes"].items()]
    if len(listed) > LISTED:
        listed[LISTED - 1 :] = [f"{len(listed) - LISTED + 1} more"]
    *others, last = listed
    text = f"{data['rows']} rows, {data['features']} features"
    return f"{text}, classes {', '.join(others)} and {last}"


def head(title, data):
    """Say what was trained on what."""
    text = f"{title} on {abbreviate(data['name'], 40)}: {contents(data)}"
    return [fill(text), *(entry("note", note) for note in data["notes"])]


def kind(settings):
    """Say what the splits are."""
    count, folds = settings["trials"], settings["cv"]
    if folds:
        return f"{folds}-fold cross-validation" + (f", {count} times" if count > 1 else "")
    return f"{count} random split{'s' * (count > 1)}"


def protocol(result, summary):
    """Say how it was trained and tested."""
    settings = result["protocol"]
    if parts := result.get("parts"):
        rows = f"{span(summary['train_rows'])} rows, for training"
        text = f"the first {parts['train']} of {parts['train'] + parts['test']} files, {rows} and"
        text += f" the others, {span(summary['test_rows'])} rows, for testing; features as they are"
        return entry("protocol", text + ", on workers of Dask" * parts["on_workers"])
    count, folds = settings["trials"], settings["cv"]
    rows = f"{span(summary['train_rows'])} rows for training and {span(summary['test_rows'])}"
    scale = datasets.SCALES.get(settings["scale"], "features scaled as each method does by default")
    text = f"{kind(settings)}, {rows} for testing, {scale}, seed {settings['seed']}"
    if folds or count > 1:
        text += f"; +- is the standard deviation over the {'folds' if folds else 'splits'}"
    return entry("protocol", text)


def value(given):
    """Write the value of a parameter."""
    if isinstance(given, float):
        return f"{given:g}"
    if isinstance(given, list):
        return f"[{', '.join(map(value, given))}]"
    if isinstance(given, dict):
        return f"{{{', '.join(f'{key}: {value(part)}' for key, part in given.items())}}}"
    return str(given)


def assigned(params):
    return ", ".join(f"{key}={value(given)}" for key, given in params.items())


def parameters(model):
    """List the parameters of a model and of those inside; None, which is none, is left out."""
    told = []
    for part in walk(model):
        given = {k: v for k, v in part["params"].items() if v is not None and k != "n_jobs"}
        told += [(part["name"], assigned(given))] if given else []
    lines = [f"{name}: {text}" if len(told) > 1 else text for name, text in told]
    return [entry("parameters" * (not k), line) for k, line in enumerate(lines)]


def scores(summary, trials, classes):
    """Report further scores than the error, and which classes are confused."""
    text = mean_std(summary["balanced_error"], 100, 1, " %")
    lines = [entry("balanced error", f"{text} (mean of the error of each class)")]
    if "auc" in summary:
        text = f"{mean_std(summary['auc'], 1, 3)} (1: perfect order of the rows, 0.5: chance)"
        lines.append(entry("area under ROC", text))
    if "train_error" in summary:
        lines.append(entry("train error", mean_std(summary["train_error"], 100, 1, " %")))
    return lines + confusion(classes, *counted(trials), len(trials))


def counted(trials):
    """Return the confusion matrix of all trials together, and the rejected rows of each class."""
    parts = zip(*(trial["confusion"] for trial in trials), strict=True)
    matrix = [[sum(cells) for cells in zip(*rows, strict=True)] for rows in parts]
    return matrix, [sum(rows) for rows in zip(*(t["rejected"] for t in trials), strict=True)]


def rejected(count, total):
    text = f"{count} of {total} rows ({percent(count / total)})"
    return entry("rejected", f"{text}, which count as neither right nor wrong")


def confusion(classes, matrix, refused, count):
    """Draw the confusion matrix; of too many classes, list the most frequent confusions."""
    total = sum(map(sum, matrix)) + sum(refused)
    rows = f"test rows of all {count} splits ({total})" if count > 1 else f"{total} rows"
    names = [abbreviate(name, TITLE) for name in classes]
    cells = [["predicted", *names, *["rejected"] * any(refused)]]
    for name, counts, none in zip(names, matrix, refused, strict=True):
        cells.append([f"true {name}", *map(str, counts), *[str(none)] * any(refused)])
    if drawn := columns(cells, INDENT):
        return [entry("confusion", rows), *drawn]
    found = [(-count, i, j) for i, counts in enumerate(matrix) for j, count in enumerate(counts)]
    often = sorted(pair for pair in found if pair[1] != pair[2] and pair[0])[:CONFUSIONS]
    texts = [f"{names[i]} as {names[j]} ({-count})" for count, i, j in often]
    text = f"{rows}; most often {', '.join(texts)}" if texts else f"none in {rows}"
    return [entry("confusion", f"{text}; --json writes the whole matrix")]


def caution(trials, who=""):
    """Warn of models that predict one class only."""
    alike = [trial["predicted"] for trial in trials if len(trial["predicted"]) == 1]
    if not alike:
        return []
    names = " or ".join(dict.fromkeys(repr(abbreviate(name, NAME)) for (name,) in alike))
    times = f" in {len(alike)} of {len(trials)} trials" if len(trials) > 1 else ""
    text = f"{who}only one class, {names}, is ever predicted{times}"
    return [entry("warning", f"{text}; --class-weight balanced may help")]


def told(texts):
    """The first warning of each category, and how many others there are."""
    found = []
    for category in sorted({text.partition(":")[0] for text in texts}):
        alike = [text for text in texts if text.startswith(category)]
        more = f" (and {len(alike) - 1} like it)" if len(alike) > 1 else ""
        found.append(alike[0] + more)
    return found


def warned(texts):
    return [entry("warning", text) for text in told(texts)]


def own_params(result):
    """Return the parameters of the method itself, whatever it was wrapped in."""
    return next(p["params"] for p in walk(result["model"]) if p["name"] == result["method"])


def ensemble(result):
    """Report the members, how they differ, and what the method says of itself."""
    summary, lines = result["summary"], []
    members, each = span(summary["members"]), ""
    if (classifiers := summary["classifiers"]["max"]) > 1:
        members += f" in {classifiers} classifiers, each for one class against the rest"
        each = " of all classifiers together"
    if summary["identical"]["min"]:
        members += ": all members are identical"
        if own_params(result).get("sampling", "") is None:
            members += "; --sampling bootstrap gives each its own sample"
    lines.append(entry("members", members))
    if differ := summary.get("diversity"):
        several = "of right and wrong answers: " if len(result["data"]["classes"]) > 2 else ""
        texts = [f"{title} {text}" for title, text in measures(differ).items()]
        lines.append(entry("diversity", several + ", ".join(texts)))
        lines.append(entry("measures", EXPLAINED))
    facts = summary.get("facts", {})
    names = dict.fromkeys(name for trial in result["trials"] for name in trial["facts"])
    texts = [f"{name} {facts[name]['mean']:.4g}" if name in facts else f"no {name}"
             for name in names]  # fmt: skip
    lines += [entry("statistics", "; ".join(texts))] if texts else []
    form = f"{summary['iterations']['mean']:.1f} ({{}} to {{}})"
    return [*lines, entry("iterations", span(summary["iterations"], form) + each)]


def certificate(result):
    """Report the largest certified duality gap of the fits, if they have one."""
    params, summary, count = own_params(result), result["summary"], len(result["trials"])
    failed = sum(not trial["converged"] for trial in result["trials"])
    if not summary["certified"]["max"]:
        end = f"; {failed} of {count} fits ended early" if failed else ""
        why = NO_CERTIFICATE.get(result["method"], "the method is greedy")
        return entry("certificate", f"none: {why}{end}")
    if failed and params.get("solver") == "paper":
        end = ": not the optimum, as the printed algorithm stops early; --solver auto reaches it"
    else:
        goal = params.get("tol", params.get("eps"))
        end = "; " if goal is None else f" (tol {goal:g}); "
        all_of = f"all {count} fits" if count > 1 else "the fit"
        end += f"{failed} of {count} fits did not converge" if failed else f"{all_of} converged"
    unit = "the objective" if FILES[result["method"]] in ("exrm", "drm") else "max(1, |objective|)"
    where = ", in each classifier" if summary["classifiers"]["max"] > 1 else ""
    gaps = [trial["residual"] for trial in result["trials"]]
    largest = "infinite" if None in gaps else f"<= {max(gaps):.1e} relative to {unit}{where}"
    return entry("duality gap", f"{largest}{end}")


def method_report(result):
    """Report a run of one method."""
    summary, trials = result["summary"], result["trials"]
    majority = f"{MAJORITY}: {percent(summary['majority_error']['mean'])}"
    compiled = f", plus {result['compile_seconds']:.2f} s once to compile or load kernels"
    if (result.get("parts") or {}).get("on_workers"):
        compiled = ", in which workers compile or load kernels"
    refused, total = sum(counted(trials)[1]), sum(trial["test_rows"] for trial in trials)
    seconds = statistics.median(trial["fit_seconds"] for trial in trials)
    time = duration(seconds) + (f" (median of {len(trials)})" if len(trials) > 1 else "")
    lines = [
        *head(result["method"], result["data"]),
        protocol(result, summary),
        *parameters(result["model"]),
        entry("test error", f"{mean_std(summary['test_error'], 100, 1, ' %')} ({majority})"),
        *([rejected(refused, total)] if refused else []),
        *scores(summary, trials, result["data"]["classes"]),
        *ensemble(result),
        certificate(result),
        entry("fit time", time + compiled),
        *caution(trials),
        *warned(result["warnings"]),
    ]
    if saved := result["saved"]:
        text = f"trained on all {saved['rows']} rows, saved to {saved['path']}"
        lines.append(entry("model", text, whole=True))
    return "\n".join(lines)


def diversity_report(result):
    """Report the diversity of the members of several methods."""
    runs, titles = result["methods"], [two for _, two, _ in MEASURES.values()]
    rows = broken(["method", "members", "test error", *titles])
    for name, run in runs.items():
        row = [name, span(run["summary"]["members"], "{}-{}")]
        row.append(f"{100 * run['summary']['test_error']['mean']:.1f}")
        if differ := run["summary"].get("diversity"):
            row += [text.removesuffix(" %") for text in measures(differ).values()]
        rows.append(row + ["-"] * (len(rows[0]) - len(row)))
    first = next(iter(runs.values()))["summary"]
    lines = [
        *head("diversity", result["data"]),
        protocol(result, first),
        entry("parameters", "the default ones of each method"),
        *columns(rows),
        entry("units", "errors, disagreement and double fault in % of the test rows"),
        entry("baseline", f"{percent(first['majority_error']['mean'])} error when {MAJORITY}"),
        entry("measures", EXPLAINED),
    ]  # fmt: skip
    for name, run in runs.items():
        if run["summary"]["identical"]["min"]:
            lines.append(entry("note", f"all members of {name} are identical"))
        lines += caution(run["trials"], f"{name}: ")
    return "\n".join(lines + warned(result["warnings"]))


def predict_report(record, path):
    """Report the predictions that were written to `path`."""
    names, data, titles = record["names"], record["data"], record["columns"]
    over = f" over {', '.join(names[1:])}" if names[1:] else ""
    text = f"{names[0]}{over}, trained on {abbreviate(record['trained_on'], 40)}, applied to"
    lines = [fill(f"{text} {abbreviate(data['name'], 40)}: {data['rows']} rows")]
    lines += [entry("note", note) for note in data["notes"] + record["notes"]]
    rule = f"decision >= 0 means class {abbreviate(data['classes'][1], NAME)}"
    rule = rule if "decision" in titles else "the largest decision wins"
    soft = "; with probabilities" if f"probability {data['classes'][0]}" in titles else ""
    lines.append(entry("predictions", f"written to {path}; {rule}{soft}", whole=True))
    if record["rejected_rows"]:
        lines.append(rejected(record["rejected_rows"], data["rows"]))
    if labelled := data["rows"] - record["unlabelled"]:
        rows = f"{round(record['test_error'] * labelled)} of {labelled} rows"
        rows += " that have labels" if record["unlabelled"] else ""
        majority = f"{MAJORITY}: {percent(record['majority_error'])}"
        lines.append(entry("error", f"{percent(record['test_error'])} ({rows}; {majority})"))
        lines += scores(summarise([record]), [record], data["classes"])
    return "\n".join(lines)


def sets():
    """List the data sets."""
    form = "{:<18} {:>6} {:>9} {:>8} {:>8}  {}".format
    lines = [form("name", "rows", "features", "classes", "missing", "other names")]
    for known in datasets.names():
        text = f"{known['name']:<18} {known.get('path')}"
        if "path" not in known:
            sizes = known["rows"], known["features"], len(known["classes"]), known["missing"]
            text = form(known["name"], *sizes, ", ".join(known["aliases"]))
        lines.append(plain(text).rstrip())
    lines.append("generated: gaussians:N, linear:NxD; or any file: CSV, TSV, LIBSVM, .npz")
    lines.append("of more than two classes all are used; NAME:A-vs-B or NAME:A-vs-rest takes two")
    return "\n".join(lines)

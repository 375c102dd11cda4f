"""Comparisons: methods x data sets x trials, and one document of what came out.

    cells = plan(["sonar", "heart"], parse("exrm,drm:mu=0"), {"trials": 10})
    with Store(folder) as store:
        records = run(cells, store, jobs=2)
    document = collect(records, "error")

All methods get the same splits of a data set. The document is made from the records alone;
perf/study/tables.py makes texts of it.
"""

from collections import Counter
from itertools import combinations, product
from statistics import median

import numpy as np

import datasets
from perf.study import cluster, experiment, methods, outputs, statistics, store, tables, workers
from perf.study.html import name_of, page
from perf.text import spread
from solvers.rows.cluster import check as check_cluster

LEVEL = 0.05  # Level of all tests.
ROPE = 0.01  # Means that differ by no more than this, one point, are equal in practice.
DIGITS = 12  # Means that differ by rounding only share a rank.
FEWEST_SETS = 3  # Least number of sets for tests across them.
MEASURES = {  # Of --measure: the field of the records, its title, and -1 where more is better.
    "error": ("test_error", "error", 1),
    "balanced": ("balanced_error", "balanced error", 1),
    "auc": ("auc", "area under ROC", -1),
}
ONE_TREE = "bagging:n_estimators=1,bootstrap=false"
DIVERSITY = (  # Questions of --methods diversity: text, method with diversity, method without.
    ("ExRM: bootstrap samples", "exrm:sampling=bootstrap", "exrm"),
    ("DRM: diversity term, mu > 0", "drm", "drm:mu=0"),
    ("DRM: diversity term and bootstrap", "drm:sampling=bootstrap", "drm:mu=0"),
    ("AdaBoost.NC: penalty, lam = 2", "adaboost-nc:lam=2", "adaboost-nc:lam=0"),
    ("AdaBoost.NC: penalty, lam = 9", "adaboost-nc:lam=9", "adaboost-nc:lam=0"),
    ("Bagging: 30 trees, not one", "bagging", ONE_TREE),
    ("Random forest: random features", "bagging:max_features=sqrt", "bagging"),
    ("CqBoost: vote, not the best stump", "cqboost", "stump-vote:how=best"),
    ("CqBoost: learned, not equal weights", "cqboost", "stump-vote:how=uniform"),
)


# -- what to run -----------------------------------------------------------------------------------


def command(data, text, splits, read, folder, tune, measure, jobs, quiet, argv):
    """Run `cli.py compare`, called by argv: write what `folder` is to hold, return the document."""
    check_jobs(jobs)
    chosen, questions = choose(text)
    cells = plan(data, chosen, splits, read, tune, measure)
    with store.Store(folder) as kept:
        try:
            records = run(cells, kept, jobs, quiet)
        except KeyboardInterrupt:
            hint = f"finished trials are in {folder}; rerun the same command to resume"
            raise KeyboardInterrupt(*[hint] if folder else []) from None
        document = {"command": argv} | collect(records, measure, questions)
        if folder:
            outputs.write_csv(f"{folder}/table.csv", tables.csv(document))
            outputs.write_text(f"{folder}/table.md", tables.page(document))
            outputs.write_text(f"{folder}/table.tex", tables.latex(document))
            outputs.write_text(f"{folder}/report.html", page(document, records))
    return document


def changes(document):
    """Record of the picture of the answers, for perf/draw.py."""
    shown = ("questions", "title", "less_is_better")
    return {"kind": "changes"} | {key: document[key] for key in shown}


def choose(text):
    """Read --methods: the methods, [(name, params)], and the questions that are asked of them."""
    questions = DIVERSITY if text.strip() == "diversity" else ()
    names = [name for _, more, less in questions for name in (less, more)]
    return methods.parse(",".join(names) or text), questions


def plan(data, chosen, splits, read=None, tune=False, measure="error"):
    """List the cells of a comparison, checked: the first trial of everything comes first.

    `chosen` are methods, [(name, params)], `splits` fields of Spec, `read` arguments of
    datasets.load for the files among the data. With `tune` each trial chooses the parameters in
    methods.GRIDS that are not given.
    """
    workers.forget()
    rows = []
    for name in data:
        path = datasets.locate(name) if read else None
        own = read if path and path.parent != datasets.DATA else {}
        for command, params in chosen:
            grid = methods.GRIDS.get(command, {}) if tune else {}
            grid = {key: values for key, values in grid.items() if key not in params}
            spec = experiment.Spec(name, command, params, read=own, grid=grid, **splits)
            known = workers.read(spec)
            if measure == "auc":
                experiment.need_two_classes(known, name, "--measure auc")
            experiment.check(spec, known)
            rows.append((spec, store.checksum(name)))
    pairs = product(range(len(rows[0][0])), rows)
    return [workers.Cell(spec, k, store.key(spec, k, digest)) for k, (spec, digest) in pairs]


def check_jobs(jobs):
    """Raise an error, before any work, if `run` cannot take this number or cluster."""
    if isinstance(jobs, str):
        check_cluster(jobs)
    elif jobs < 1:
        raise ValueError(f"--jobs must be at least 1, got {jobs}")


def run(cells, kept, jobs=1, quiet=True):
    """Compute the cells that are not kept, keep each at once; return the records of all cells.

    `jobs` is a number of processes, or a cluster of Dask: "local:N" or "tcp://HOST:PORT".
    """
    missing = [cell for cell in cells if not kept.has(cell.key)]
    records = (cluster if isinstance(jobs, str) else workers).run(missing, jobs)
    with outputs.progress(len(missing), quiet, "cell") as (_, each):
        for record in each(records):
            kept.add(record)
    records = [kept.records[cell.key] for cell in cells]
    failures = [record["failure"] for record in records if "failure" in record]
    if len(failures) == len(records):
        raise ValueError(f"all {len(records)} cells failed; the first said {failures[0]}")
    return records


# -- what came out ---------------------------------------------------------------------------------


def collect(records, measure="error", questions=()):
    """Make one document, which survives JSON, of the records of a comparison."""
    runs = {}
    for record in sorted(records, key=lambda record: record["trial"]):
        own = runs.setdefault(record["spec"]["data"], {})
        own.setdefault(name_of(record), []).append(record)
    first = next(record for record in records if "failure" not in record)
    names = list(dict.fromkeys(name for one in runs.values() for name in one))
    sets = [_summarise(data, one, measure) for data, one in runs.items()]
    settings = {key: first["spec"][key] for key in experiment.SPLITS}
    settings["trials"] = max(record["spec"]["trials"] for record in records)
    return experiment.plain_record({
        "measure": measure,
        "title": MEASURES[measure][1],
        "less_is_better": MEASURES[measure][2] > 0,
        "level": LEVEL,
        "rope": ROPE,
        "protocol": settings | {"tuned": any(record["spec"]["grid"] for record in records)},
        "methods": names,
        "sets": sets,
        "across": _across(sets, names, measure),
        "questions": _answers(runs, sets, measure, questions),
        "warnings": [text for record in records for text in record.get("warnings", ())],
        "versions": first["versions"],
    })  # fmt: skip


def score(record, measure):
    """The share that a record, or its best member, has of a measure."""
    return record[MEASURES[measure][0]]


def _finished(records):
    return {record["trial"]: record for record in records if "failure" not in record}


def _summarise(data, runs, measure):
    """Describe what came out on one data set."""
    done = {name: _finished(records) for name, records in runs.items()}
    whole = [name for name, records in runs.items() if len(done[name]) == len(records)]
    some = [record for found in done.values() for record in found.values()]
    rows = [_row(name, records, done[name], measure) for name, records in runs.items()]
    table = {row["method"]: row for row in rows}
    if whole:
        sign = MEASURES[measure][2]
        means = [sign * table[name]["score"]["mean"] for name in whole]
        ranks = statistics.ranks([np.round(means, DIGITS)])[0]
        for name, rank in zip(whole, ranks, strict=True):
            table[name]["rank"] = rank
        best = whole[int(np.argmin(ranks))]
        others = [name for name in whole if name != best]
        tests = [statistics.corrected_t(*_differences(done[best], done[name], measure)).p
                 for name in others]  # fmt: skip
        for name, p in zip(others, statistics.holm(tests), strict=True):
            table[name]["p"] = float(p)
    facts = some[0]["data"] if some else {"name": data, "rows": None}
    return {
        "data": data,
        **facts,
        "train_rows": spread([record["train_rows"] for record in some]) if some else None,
        "test_rows": spread([record["test_rows"] for record in some]) if some else None,
        "best": best if whole else None,
        "methods": rows,
        "pairs": _pairs({name: done[name] for name in whole}, measure),
        "baselines": _baselines(done, measure),
    }


def _pairs(done, measure):
    """Compare all pairs of methods, first minus second, by the corrected t-test and Holm."""
    pairs, tests = [], []
    for one, two in combinations(done, 2):
        values, *rows = _differences(done[two], done[one], measure)
        sides = Counter(np.sign(MEASURES[measure][2] * np.round(values, DIGITS)).tolist())
        counts = {"wins": sides[-1], "ties": sides[0], "losses": sides[1]}
        pairs.append({"first": one, "second": two, "difference": float(np.mean(values)), **counts})
        tests.append(statistics.corrected_t(values, *rows).p)
    for pair, p in zip(pairs, statistics.holm(tests), strict=True):
        pair["p"] = p
    return pairs


def _row(name, records, done, measure):
    """Describe a method on one data set; its rank, and p against the best method, come later."""
    failures = [record["failure"] for record in records if "failure" in record]
    found = list(done.values())
    row = {"method": name, "trials": len(records), "failed": len(failures), "rank": None, "p": None}
    if failures:
        row["failure"] = failures[0]
    if found:
        differ = [r["diversity"]["disagreement"] for r in found if r["diversity"]]
        members = [score(r["best_member"], measure) for r in found if r["best_member"]]
        row |= {
            "score": spread([score(record, measure) for record in found]),
            "fit_seconds": median(record["fit_seconds"] for record in found),
            "members": spread([record["members"] for record in found]),
            "disagreement": spread(differ) if differ else None,
            "best_member": spread(members) if members else None,
            "chosen": [record["chosen"] for record in found if "chosen" in record],
        }
    return row


def _baselines(done, measure):
    """Scores of the larger class, and on each split of the member with least training error."""
    trials = {}
    for found in done.values():
        for trial, record in found.items():
            trials.setdefault(trial, []).append(record)
    rows = {}
    if trials:
        values = [_majority(records[0], measure) for records in trials.values()]
        rows["majority class"] = spread(values)
    members = [[r["best_member"] for r in records if r["best_member"] and r["members"] > 1]
               for records in trials.values()]  # fmt: skip
    best = [min(some, key=lambda member: member["train_error"]) for some in members if some]
    if best:
        rows["best single member"] = spread([score(member, measure) for member in best])
    return rows


def _majority(record, measure):
    if measure == "error":
        return record["majority_error"]
    pairs = zip(record["confusion"], record["rejected"], strict=True)
    present = sum(sum(counts) + rejected > 0 for counts, rejected in pairs)
    return 0.5 if measure == "auc" else 1.0 - 1.0 / present


def _differences(one, two, measure):
    """Second minus first on the trials that both have, and the rows that trained and tested."""
    both = [trial for trial in one if trial in two]
    values = [score(two[trial], measure) - score(one[trial], measure) for trial in both]
    train = sum(one[trial]["train_rows"] for trial in both)
    return values, train, sum(one[trial]["test_rows"] for trial in both)


def _across(sets, names, measure):
    """Compare the methods that have a rank on all sets by their means; the best rank is first."""
    rows = [{row["method"]: row for row in one["methods"]} for one in sets]
    whole = [name for name in names if all(r[name]["rank"] is not None for r in rows)]
    if len(sets) < 2 or len(whole) < 2:
        return None
    means = np.array([[row[name]["score"]["mean"] for name in whole] for row in rows])
    losses = np.round(MEASURES[measure][2] * means, DIGITS)
    ranks = statistics.ranks(losses).mean(axis=0)
    order = np.argsort(ranks, kind="stable")
    whole, losses, ranks = [whole[k] for k in order], losses[:, order], ranks[order].tolist()
    found = {"methods": whole, "ranks": ranks, "means": means.mean(axis=0)[order].tolist()}
    if len(sets) < FEWEST_SETS:
        return found
    test, pairs, bayes = statistics.friedman(losses), statistics.wilcoxon_holm(losses), {}
    for pair in pairs[: len(whole) - 1]:  # Those of the first method.
        posterior = statistics.bayesian_signed_rank(*losses.T[[0, pair.second]], ROPE)
        bayes[whole[pair.second]] = posterior._asdict() | {"p": pair.adjusted}
    return found | {
        "friedman": {"variant": "tie-corrected chi-square", "statistic": test.statistic,
                     "p": test.p, "freedom": len(whole) - 1},
        "critical_difference": statistics.nemenyi(len(whole), len(sets), LEVEL),
        "pairs": [[whole[one], whole[two], p, adjusted] for one, two, p, adjusted in pairs],
        "bayes": bayes,
    }  # fmt: skip


def _answers(runs, sets, measure, questions):
    """Answer each question on every set or, of three sets and more, on all of them together."""
    answers, together = [], len(sets) >= FEWEST_SETS
    for text, more, less in questions:
        each = []
        for data, one in runs.items():
            found = _differences(_finished(one[less]), _finished(one[more]), measure)
            each.append(_answer(text, more, less, data, found, measure))
        if together:
            means = [answer["change"] for answer in each if answer["change"] is not None]
            whole = _answer(text, more, less, None, (means, 1, 0), measure)  # Sets do not overlap.
            each = [whole | {"sets": dict(Counter(answer["verdict"] for answer in each))}]
        answers += each
    return answers


def _answer(text, more, less, data, found, measure):
    """Say whether a change of a method helped: its interval lies on one side of zero."""
    answer = {"question": text, "with": more, "without": less, "data": data, "change": None}
    if not found[0]:
        return answer | {"low": None, "high": None, "verdict": "unanswered"}
    mean, low, high = statistics.corrected_interval(*found, 1.0 - LEVEL)
    sign, verdict = MEASURES[measure][2], "undecided"
    if low > 0 or high < 0:
        verdict = "harmed" if sign * mean > 0 else "helped"
    return answer | {"change": mean, "low": low, "high": high, "verdict": verdict}

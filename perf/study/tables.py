"""Tables: the document of a comparison to text of 80 columns, Markdown, CSV and LaTeX."""

import re
from itertools import starmap
from statistics import fmean

from perf.study.report import MAJORITY, broken, head, protocol, warned
from perf.text import abbreviate, columns, duration, entry, fill, markdown, mean_std, plain, span

NAME = 26  # Letters of a method in the text.
LISTED = 3  # Names in a sentence before the others are only counted.
SIGNED = 6  # Below 6 sets Wilcoxon's test has no p-value under 5 %.
TITLES = ("method", "{}", "rank", "fit time", "members", "disagree", "best member")
HYPHENS = {"members": "mem- bers", "disagree": "dis- agree"}  # Of titles in the text.
EXPLAINED = (
    "means +- standard deviations in %, median fit times; =: not significantly different from the "
    "best method (corrected t-test, Holm, 5 %); disagree: rows on which two members differ, in %; "
    "best member: test error of the member with the lowest training error"
)
SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {sign: f"\\{sign}" for sign in "&%$#_{}"} | {"<": "$<$", ">": "$>$", "|": "$|$"}


def points(given):
    return f"{100 * given:+.1f}"


def cells(document):
    """Yield (set, row) of every method on every set."""
    return ((one, row) for one in document["sets"] for row in one["methods"])


def fit_times(document):
    """Median seconds per fit on each set, {method: list}; failed methods are left out."""
    times = {}
    for _, row in cells(document):
        if "fit_seconds" in row:
            times.setdefault(row["method"], []).append(row["fit_seconds"])
    return times


def is_best_or_equal(row, one, level):
    """True if a method is not significantly different from the best; None without a test."""
    if row["method"] == one["best"]:
        return True
    return None if row["p"] is None else row["p"] > level


def rows(document, one):
    """Table of a set, titles first: lists of texts of the methods, then of the baselines."""
    found = [[title.format(f"{document['title']} %") for title in TITLES]]
    empty = ["-"] * (len(TITLES) - 2)
    for row in one["methods"]:
        if row["trials"] == row["failed"]:
            found.append([row["method"], "failed", *empty])
            continue
        equal = is_best_or_equal(row, one, document["level"]) and row["method"] != one["best"]
        means = [row[key] and row[key]["mean"] for key in ("disagreement", "best_member")]
        found.append([
            row["method"],
            mean_std(row["score"], 100),
            "-" if row["rank"] is None else f"{row['rank']:g}" + " =" * bool(equal),
            duration(row["fit_seconds"]),
            span(row["members"], "{}-{}"),
            *("-" if mean is None else f"{100 * mean:.1f}" for mean in means),
        ])  # fmt: skip
    for name, score in one["baselines"].items():
        found.append([name, mean_std(score, 100), *empty])
    return found


def all_tables(document):
    """Yield title and table of every set, and of all sets together."""
    for one in document["sets"]:
        yield one["data"], rows(document, one)
    if document["across"]:
        yield f"all {len(document['sets'])} data sets", overall(document)


def overall(document):
    """Table of all sets together, titles first."""
    across = document["across"]
    found = [["method", f"mean {document['title']} %", "average rank"]]
    bayes = across.get("bayes", {})
    found[0] += ["p (Holm)", "best better", "equal", "worse"] if bayes else []
    for name, mean, rank in zip(*map(across.get, ("methods", "means", "ranks")), strict=True):
        row = [name, f"{100 * mean:.1f}", f"{rank:.2f}"]
        if test := bayes.get(name):
            shares = [f"{100 * test[state]:.0f} %" for state in ("better", "equal", "worse")]
            row += [f"{test['p']:.3f}", *shares]
        found.append(row + ["-"] * (len(found[0]) - len(row)))
    return found


def listing(names):
    """Join names; of many, the last are counted."""
    names = [abbreviate(name, 40) for name in names]
    if len(names) > LISTED + 1:
        names = [*names[:LISTED], f"{len(names) - LISTED} more"]
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def failures(document):
    """Sentences on the methods that failed."""
    return [
        f"{row['method']} failed in {row['failed']} of {row['trials']} trials on {one['data']} and "
        f"has no rank there: {row['failure'].rstrip('.')}."
        for one, row in cells(document)
        if row["failed"]
    ]


def sentences(document):
    """Conclusions of a comparison, three to six sentences."""
    said = _on_many(document) if document["across"] else _on_one(document)
    times = {name: fmean(each) for name, each in fit_times(document).items()}
    if len(times) > 1:
        quick, slow = min(times, key=times.get), max(times, key=times.get)
        said.append(f"Fastest to train is {quick}, {duration(times[quick])} per fit, slowest "
                    f"{slow}, {duration(times[slow])}.")  # fmt: skip
    if len(document["sets"]) < 3:
        said.append("Results on fewer than three data sets may not generalise; from three sets on "
                    "the methods are compared across sets as well.")  # fmt: skip
    return said


def _on_one(document):
    """Sentences on the first set with ranks."""
    one = next((one for one in document["sets"] if one["best"]), None)
    if one is None:
        return ["No method finished all its trials, so none is ranked."]
    table, bases = {row["method"]: row for row in one["methods"]}, one["baselines"]
    extreme = "lowest" if document["less_is_better"] else "largest"
    score, majority = table[one["best"]]["score"]["mean"], bases["majority class"]["mean"]
    said = [f"On {one['name']}, {one['best']} has the {extreme} mean {document['title']}, "
            f"{100 * score:.1f} %; {MAJORITY} gives {100 * majority:.1f} %."]  # fmt: skip
    tested = {name: is_best_or_equal(row, one, document["level"]) for name, row in table.items()
              if name != one["best"]}  # fmt: skip
    equal = [name for name, same in tested.items() if same]
    worse = [name for name, same in tested.items() if same is False]
    if equal:
        said.append(f"Not significantly different on these splits: {listing(equal)}.")
    if worse:
        said.append(f"Significantly worse: {listing(worse)}.")
    if tested and not equal and not worse:
        said.append("One split allows no test of the differences.")
    if member := bases.get("best single member"):
        said.append(f"The best single member of all ensembles, chosen by its training error, gives "
                    f"{100 * member['mean']:.1f} %.")  # fmt: skip
    return said


def _on_many(document):
    """Sentences on several sets."""
    across, sets = document["across"], document["sets"]
    best, *others = across["methods"]
    good = sum(bool(is_best_or_equal(row, one, document["level"]))
               for one, row in cells(document) if row["method"] == best)  # fmt: skip
    said = [f"Over {len(sets)} data sets {best} has the best average rank, "
            f"{across['ranks'][0]:.2f} of {len(others) + 1}, and is the best or not "
            f"significantly different from the best on {good} of them."]  # fmt: skip
    if "friedman" not in across:
        return said
    p, bayes = across["friedman"]["p"], across["bayes"]
    shown = "the methods differ" if p < document["level"] else "no significant difference"
    said.append(f"Friedman's test of equal methods: p = {p:.2g}, {shown}.")
    worse = [name for name in others if bayes[name]["p"] < document["level"]]
    text = f"Significantly worse than {best} (Wilcoxon's test, Holm over all pairs): "
    few = f"none; with fewer than {SIGNED} sets this test cannot reach significance."
    none = few if len(sets) < SIGNED else "none."
    said.append(text + (f"{listing(worse)}." if worse else none))
    second = bayes[others[0]]
    said.append(f"Probability that it is better than the second, {others[0]}, by more than 1 "
                f"point: {100 * second['better']:.0f} %, worse: {100 * second['worse']:.0f} %, "
                f"equal in practice: {100 * second['equal']:.0f} %.")  # fmt: skip
    return said


def explained(document):
    """Caption of the verdicts on questions."""
    better = "minus" if document["less_is_better"] else "plus"
    return (
        "Each line is one source of diversity and the change of the "
        f"{document['title']} when it is switched on, in percentage points: {better} is better. "
        "The range is the 95 % confidence interval. Helped or harmed: the interval lies on one "
        "side of 0. Undecided: it contains 0, so the change may be chance."
    )


def verdicts(document):
    """One line per question of a comparison, below a caption."""
    if not document["questions"]:
        return []
    lines = [fill(f"Does diversity help? {explained(document)}", indent=0)]
    for answer in document["questions"]:
        where = f"{answer['data']}: " if len(document["sets"]) == 2 else ""
        change, low, high = (answer[key] for key in ("change", "low", "high"))
        figures = "a method failed" if change is None else points(change)
        if change == low == high == 0:
            figures = "no change at all"
        elif low is not None:
            figures += f" ({points(low)} to {points(high)})"
        line = f"{answer['verdict']:<10} {where}{answer['question']:<45} {figures:>21}"
        lines.append(fill(line, "  "))
    return lines


def text(document):
    """Write a comparison in 80 columns."""
    lines = []
    for one in document["sets"]:
        if one["rows"] is None:
            lines += [fill(f"{one['data']}: no method finished"), ""]
            continue
        settings = {"protocol": document["protocol"] | {"scale": "own"}}
        lines += [*head("comparison", one), protocol(settings, one)]
        lines += [*_drawn(rows(document, one)), ""]
    if document["across"]:
        lines.append(f"all {len(document['sets'])} data sets")
        lines += [*_drawn(overall(document)), *starmap(entry, tests(document).items()), ""]
    lines.append(entry("table", EXPLAINED))
    if long := [name for name in document["methods"] if len(name) > NAME]:
        lines.append(entry("names in full", "; ".join(long)))
    if document["protocol"]["tuned"]:
        tuned = "by 5-fold cross-validation on the training rows of each split"
        lines.append(entry("tuned", tuned))
    lines += warned(document["warnings"])
    lines += [entry("failed", said) for said in failures(document)]
    lines += ["", fill(" ".join(sentences(document)), indent=0)]
    if document["questions"]:
        lines += ["", *verdicts(document)]
    return "\n".join(lines)


def _drawn(found):
    """Align a table, its titles, which come first, broken into two lines."""
    titles, *others = found
    titles = [HYPHENS.get(title, title) for title in titles]
    for limit in range(NAME, 1, -1):
        rows = [[abbreviate(name, limit), *texts] for name, *texts in others]
        if drawn := columns(broken(titles) + rows):
            return drawn


def tests(document):
    """Results of the tests across sets, {name: text}."""
    across = document["across"]
    if "friedman" not in across:
        return {}
    test, differ = across["friedman"], []
    for one, two, _, p in across["pairs"]:
        if p < document["level"]:
            differ.append(f"{one} and {two} ({p:.3f})")
    variant = f"{test['variant']} {test['statistic']:.2f} of {test['freedom']} degrees of freedom"
    told = f"{', '.join(differ) or 'no pair'} of {len(across['pairs'])} pairs below 0.05"
    gap = f"critical difference {across['critical_difference']:.2f} of the average ranks"
    return {
        "Friedman": f"{variant}, p = {test['p']:.3g}",
        "Wilcoxon-Holm": f"signed ranks of the means, p adjusted by step-down: {told}",
        "Nemenyi": f"{gap} (5 %)",
        "Bayes": "signed-rank test: probability that the best of the average ranks is better than "
                 "the method by more than 1 point, equal within it, or worse",
    }  # fmt: skip


def csv(document):
    """Unrounded results of all methods on all sets, titles first."""
    titles = [
        "data", "method", "measure", "trials", "failed", "mean", "std", "rank", "p_against_best",
        "fit_seconds", "members", "disagreement", "best_member",
    ]  # fmt: skip
    found = []
    for one in document["sets"]:
        about = {"data": one["data"], "measure": document["measure"]}
        for row in one["methods"]:
            means = {key: (row.get(key) or {}).get("mean") for key in titles[-3:]}
            more = {"p_against_best": row["p"], **(row.get("score") or {}), **means}
            found.append(about | row | more)
        found += [about | {"method": k, **score} for k, score in one["baselines"].items()]
    return [titles, *([row.get(title) for title in titles] for row in found)]


def page(document):
    """Tables and conclusions of a comparison in Markdown."""
    lines = []
    for title, found in all_tables(document):
        titles, *others = ([_escaped(cell) for cell in row] for row in found)
        lines += [f"## {_escaped(title)}", "", *markdown(titles, others, right=True), ""]
    lines += [f"{_escaped(' '.join([*sentences(document), *failures(document)]))}", ""]
    lines += [f"Table: {EXPLAINED}.", ""]
    if document["questions"]:
        first, *others = verdicts(document)
        lines += [" ".join(first.split()), "", "```", *others, "```", ""]
    return "\n".join(lines)


def _escaped(text):
    return re.sub(r"([\\`*_<>\[\]])", r"\\\1", plain(text))


def latex(document):
    """Tables of a comparison in LaTeX, without any package."""
    lines = []
    for title, found in all_tables(document):
        texts = [" & ".join(map(tex, row)).replace("+-", r"$\pm$") + r" \\" for row in found]
        lines += [r"\begin{table}", r"\centering", rf"\caption{{{tex(title)}}}"]
        lines += [rf"\begin{{tabular}}{{l{'r' * (len(found[0]) - 1)}}}", r"\hline", texts[0]]
        lines += [r"\hline", *texts[1:], r"\hline", r"\end{tabular}", r"\end{table}", ""]
    return "\n".join(lines)


def tex(text):
    """Escape the special characters of LaTeX."""
    return "".join(SPECIAL.get(sign, sign) for sign in plain(text))

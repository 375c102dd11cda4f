"""Tables: the document of a comparison to text of 80 columns, Markdown, CSV and LaTeX."""

import re
from itertools import starmap
from statistics import fmean

from perf.study import outputs
from perf.study.report import head, protocol, warned
from perf.text import (
    WIDTH,
    abbreviate,
    columns,
    duration,
    entry,
    fill,
    markdown,
    mean_std,
    plain,
    span,
)  # fmt: skip

NAME = 26  # letters of a method in the text
LISTED = 3  # names in a sentence before the others are only counted
SIGNED = 6  # Below as many sets Wilcoxon's test has no p-value under 5 %.
TITLES = {  # of the columns; in the text the last word stands on a line of its own
    "method": "method",
    "score": "{}",
    "rank": "rank",
    "time": "fit time",
    "members": "mem- bers",
    "disagreement": "dis- agree",
    "best_member": "best member",
}
EXPLAINED = (
    "means +- standard deviations in %, and medians of the time of a fit; "
    "= means: not told apart from the best method of the set, by the corrected t-test with Holm's "
    "step-down, 5 %; disagree: how often two members differ; best member: what the member with "
    "the lowest training error gives alone, and as a row, that member of all ensembles"
)
SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {sign: f"\\{sign}" for sign in "&%$#_{}"} | {"<": "$<$", ">": "$>$", "|": "$|$"}


# -- cells -----------------------------------------------------------------------------------------


def points(given):
    return f"{100 * given:+.1f}"


def alike(row, one, level):
    """Whether a method is not told apart from the best of the set; None: that is not tested."""
    if row["method"] == one["best"]:
        return True
    return None if row["p"] is None else row["p"] > level


def rows(one, level):
    """The table of a set: a dict of texts for each method, then for the baselines."""
    found = []
    for row in one["methods"]:
        cells = dict.fromkeys(TITLES, "-") | {"method": row["method"]}
        if row["trials"] > row["failed"]:
            member, differ = row["best_member"], row["disagreement"]
            mark = " =" if alike(row, one, level) and row["method"] != one["best"] else ""
            rank = "-" if row["rank"] is None else f"{row['rank']:g}{mark}"
            cells |= {
                "score": mean_std(row["score"], 100),
                "rank": rank,
                "time": duration(row["fit_seconds"]),
                "members": span(row["members"], "{}-{}"),
                "disagreement": f"{100 * differ['mean']:.1f}" if differ else "-",
                "best_member": f"{100 * member['mean']:.1f}" if member else "-",
            }
        else:
            cells["score"] = "failed"
        found.append(cells)
    for name, figures in one["baselines"].items():
        found.append(dict.fromkeys(TITLES, "-") | {"method": name, "score": mean_std(figures, 100)})
    return found


def overall(document):
    """The table of all sets together, titles first; None of one set."""
    across = document["across"]
    if across is None:
        return None
    found = [["method", f"mean {document['title']} %", "average rank"]]
    bayes = across.get("bayes")
    found[0] += ["p (Holm)", "best better", "equal", "worse"] if bayes else []
    order = sorted(range(len(across["methods"])), key=lambda k: across["ranks"][k])
    for k in order:
        name = across["methods"][k]
        row = [name, f"{100 * across['means'][k]:.1f}", f"{across['ranks'][k]:.2f}"]
        if bayes and name == across["best"]:
            row += ["-"] * 4
        elif bayes:
            row.append(f"{adjusted(across, name):.3f}")
            row += [f"{100 * bayes[name][state]:.0f} %" for state in ("better", "equal", "worse")]
        found.append(row)
    return found


def adjusted(across, name):
    """Holm's p-value of a method and the best one."""
    pair = {name, across["best"]}
    return next(p for one, two, _, p in across["pairs"] if {one, two} == pair)


# -- sentences -------------------------------------------------------------------------------------


def listing(names):
    """Join names; of many, the last are counted."""
    names = [abbreviate(name, 40) for name in names]
    if len(names) > LISTED + 1:
        names = [*names[:LISTED], f"{len(names) - LISTED} more"]
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def failures(document):
    """Say which methods failed, on what."""
    found = []
    for one in document["sets"]:
        for row in one["methods"]:
            if row["failed"]:
                text = f"{row['method']} failed in {row['failed']} of {row['trials']} trials on "
                text += f"{one['data']} and has no rank there: {row['failure']}"
                found.append(text.rstrip(".") + ".")
    return found


def sentences(document):
    """Say what a comparison means, in three to six sentences."""
    said = _on_many(document) if document["across"] else _on_one(document)
    said += _on_times(document)
    if len(document["sets"]) < 3:
        said.append("What holds on so few data sets may not hold on others: with three or more "
                    "sets the methods are compared across sets as well.")  # fmt: skip
    return said


def _on_times(document):
    """A sentence on the methods that are quickest and slowest to train, by the mean over sets."""
    times = {}
    for one in document["sets"]:
        for row in one["methods"]:
            if "fit_seconds" in row:
                times.setdefault(row["method"], []).append(row["fit_seconds"])
    if len(times) < 2:
        return []
    (quick, few), *_, (slow, many) = sorted(
        ((name, fmean(each)) for name, each in times.items()), key=lambda pair: pair[1]
    )
    return [f"Quickest to train is {quick}, {duration(few)} for one fit, slowest {slow}, "
            f"{duration(many)}."]  # fmt: skip


def _on_one(document):
    """Sentences on a single set; of several, on which methods have failed, on the first ranked."""
    one = next((one for one in document["sets"] if one["best"]), None)
    if one is None:
        return ["No method finished all its trials, so that none is ranked."]
    table, less = {row["method"]: row for row in one["methods"]}, document["less_is_better"]
    best, extreme = table[one["best"]], "lowest" if less else "largest"
    score, bases = best["score"]["mean"], one["baselines"]
    majority = f"{100 * bases['majority class']['mean']:.1f} %"
    said = [f"On {one['name']}, {best['method']} has the {extreme} mean "
            f"{document['title']}, {100 * score:.1f} %; always predicting the larger class gives "
            f"{majority}."]  # fmt: skip
    tested = {name: alike(row, one, document["level"]) for name, row in table.items()
              if name != one["best"]}  # fmt: skip
    equal = [name for name, same in tested.items() if same]
    worse = [name for name, same in tested.items() if same is False]
    if equal:
        said.append(f"Not told apart from it on these splits: {listing(equal)}.")
    if worse:
        said.append(f"Worse than it, beyond what chance explains: {listing(worse)}.")
    if tested and not equal and not worse:
        said.append("One split allows no test of whether the others are worse.")
    if member := bases.get("best single member"):
        side = "worse" if (member["mean"] > score) == less else "better"
        change = f"{100 * abs(member['mean'] - score):.1f}"
        change = f"{change} points {side}" if float(change) else "no less and no more"
        said.append(f"The best single member of all ensembles, chosen by its training error, gives "
                    f"{100 * member['mean']:.1f} %, {change}.")  # fmt: skip
    return said


def _on_many(document):
    """Sentences on several sets."""
    across, sets = document["across"], document["sets"]
    order = sorted(range(len(across["methods"])), key=lambda k: across["ranks"][k])
    best = across["methods"][order[0]]
    good = sum(
        bool(alike(row, one, document["level"]))
        for one in sets
        for row in one["methods"]
        if row["method"] == best
    )
    said = [f"Over {len(sets)} data sets {best} has the best average rank, "
            f"{across['ranks'][order[0]]:.2f} of {len(order)}, and is the best or not told apart "
            f"from the best on {good} of them."]  # fmt: skip
    if "friedman" not in across:
        return said
    p, bayes = across["friedman"]["p"], across["bayes"]
    shown = "the methods do differ" if p < document["level"] else "that they differ is not shown"
    said.append(f"If all methods were equal, ranks as different as these would come with a "
                f"probability of {p:.2g} (Friedman's test): {shown}.")  # fmt: skip
    others = [across["methods"][k] for k in order[1:]]
    worse = [name for name in others if adjusted(across, name) < document["level"]]
    text = f"Worse than {best} beyond chance (Wilcoxon's test, all pairs corrected by Holm): "
    few = f"none; on fewer than {SIGNED} sets this test cannot find any."
    none = few if len(sets) < SIGNED else "none."
    said.append(text + (f"{listing(worse)}." if worse else none))
    second = bayes[others[0]]
    said.append(f"Against the second, {others[0]}, it is better by more than 1 point "
                f"with a probability of {100 * second['better']:.0f} %, worse with "
                f"{100 * second['worse']:.0f} %, and equal in practice with "
                f"{100 * second['equal']:.0f} %.")  # fmt: skip
    return said


def explained(document):
    """Say what the verdicts on questions mean."""
    better = "minus" if document["less_is_better"] else "plus"
    return (
        "Each line is one way to make the members of an ensemble differ, and by how many points "
        f"(of 100) the {document['title']} changed with it: {better} is better. After it stands "
        "the range in which the true change lies with 95 % confidence. Helped or harmed: all of "
        "the range is on one side of 0. Undecided: it holds 0, so that the change may be chance."
    )


def verdicts(document):
    """One line for each question of a comparison, below what the lines mean."""
    if not document["questions"]:
        return []
    lines = [fill(f"Does diversity help? {explained(document)}", indent=0)]
    for answer in document["questions"]:
        where = f"{answer['data']}: " if len(document["sets"]) == 2 else ""
        figures = "a method failed"
        if answer["change"] is not None:
            figures = points(answer["change"])
        if answer["change"] == answer["low"] == answer["high"] == 0:
            figures = "no change at all"
        elif answer["low"] is not None:
            figures += f" ({points(answer['low'])} to {points(answer['high'])})"
        line = f"  {answer['verdict']:<10} {where}{answer['question']:<45} {figures:>21}"
        lines.append(line if len(line) <= WIDTH else fill(line.strip(), "  "))
    return lines


# -- text ------------------------------------------------------------------------------------------


def text(document):
    """Write a comparison in 80 columns."""
    lines = []
    for one in document["sets"]:
        lines += [*_block(document, one), ""]
    if found := overall(document):
        lines.append(f"all {len(document['sets'])} data sets")
        lines += [*_drawn(found), *starmap(entry, tests(document).items()), ""]
    lines.append(entry("table", EXPLAINED))
    if long := [name for name in document["methods"] if len(name) > NAME]:
        lines.append(entry("names in full", "; ".join(long)))
    if document["protocol"]["tuned"]:
        lines.append(
            entry("tuned", "by 5-fold cross-validation on the training rows of each split")
        )
    lines += warned(document["warnings"])
    lines += [entry("failed", said) for said in failures(document)]
    lines += ["", fill(" ".join(sentences(document)), indent=0)]
    if document["questions"]:
        lines += ["", *verdicts(document)]
    return "\n".join(lines)


def _block(document, one):
    """The part of the text on one set."""
    if one["rows"] is None:
        return [fill(f"{one['data']}: no method came to an end")]
    settings = {"protocol": document["protocol"] | {"scale": "own"}}
    found = [[*_titles(document).values()]]
    found += [list(cells.values()) for cells in rows(one, document["level"])]
    return [*head("comparison", one), protocol(settings, one), *_drawn(found)]


def _titles(document):
    return {key: text.format(f"{document['title']} %") for key, text in TITLES.items()}


def headings(document):
    """The titles of the columns, whose words are not broken."""
    return [title.replace("- ", "") for title in _titles(document).values()]


def _drawn(found):
    """Align a table, its titles, which come first, broken into two lines."""
    titles, *others = found
    parts = [re.fullmatch(r"(.*?)(?: (?=\S+$)(.*))?", title).groups("") for title in titles]
    above = [list(line) for line in zip(*parts, strict=True)]
    for limit in range(NAME, 1, -1):
        cells = above + [[abbreviate(name, limit), *figures] for name, *figures in others]
        if drawn := columns(cells, WIDTH - 2):
            break
    return [f"  {line}".rstrip() for line in drawn]


def tests(document):
    """The tests across sets, by their names."""
    across = document["across"]
    if "friedman" not in across:
        return {}
    test, differ = across["friedman"], []
    for one, two, _, p in across["pairs"]:
        if p < document["level"]:
            differ.append(f"{one} and {two} ({p:.3f})")
    variant = f"{test['variant']} {test['statistic']:.2f} of {test['freedom']} degrees of freedom"
    told = f"{', '.join(differ) or 'no pair'} of {len(across['pairs'])} pairs below 0.05"
    gap = (
        f"average ranks that differ by more than {across['critical_difference']:.2f} are told apart"
    )
    return {
        "Friedman": f"{variant}, p = {test['p']:.3g}",
        "Wilcoxon-Holm": f"signed ranks of the means, p adjusted by step-down: {told}",
        "Nemenyi": f"{gap} (5 %)",
        "Bayes": "signed-rank test: probability that the best of the average ranks is better than "
                 "the method by more than 1 point, equal within it, or worse",
    }  # fmt: skip


# -- files -----------------------------------------------------------------------------------------


def csv(document):
    """The figures of all methods on all sets, unrounded, titles first."""
    keys = ("mean", "std")
    found = [["data", "method", "measure", "trials", "failed", *keys, "rank", "p_against_best",
              "fit_seconds", "members", "disagreement", "best_member"]]  # fmt: skip
    for one in document["sets"]:
        for row in one["methods"]:
            score = row.get("score") or dict.fromkeys(keys)
            means = [row[key] and row[key]["mean"] if key in row else None
                     for key in ("members", "disagreement", "best_member")]  # fmt: skip
            found.append([one["data"], row["method"], document["measure"], row["trials"],
                          row["failed"], *(score[key] for key in keys), row["rank"], row["p"],
                          row.get("fit_seconds"), *means])  # fmt: skip
        for name, figures in one["baselines"].items():
            base = [one["data"], name, document["measure"], "", "", *(figures[key] for key in keys)]
            found.append(base + [""] * (len(found[0]) - len(base)))
    return [["" if cell is None else cell for cell in row] for row in found]


def page(document):
    """The tables and sentences of a comparison in Markdown."""
    lines = []
    for one in document["sets"]:
        found = [headings(document), *(list(row.values()) for row in rows(one, document["level"]))]
        lines += [f"## {_escaped(one['data'])}", "", *_piped(found), ""]
    if found := overall(document):
        lines += [f"## All {len(document['sets'])} data sets", "", *_piped(found), ""]
    lines += [f"{_escaped(' '.join([*sentences(document), *failures(document)]))}", ""]
    lines += [f"Table: {EXPLAINED}.", ""]
    if document["questions"]:
        first, *others = verdicts(document)
        lines += [" ".join(first.split()), "", "```", *others, "```", ""]
    return "\n".join(lines)


def _escaped(text):
    return re.sub(r"([\\`*_<>\[\]])", r"\\\1", plain(text))


def _piped(found):
    """Lines of a Markdown table of texts, titles first."""
    titles, *others = ([_escaped(cell) for cell in row] for row in found)
    return markdown(titles, others, right=True)


def latex(document):
    """The tables of a comparison in LaTeX, without any package."""
    lines = []
    for one in document["sets"]:
        found = [headings(document), *(list(row.values()) for row in rows(one, document["level"]))]
        lines += [f"% {plain(one['data'])}", *_tabular(found, one["data"])]
    if found := overall(document):
        lines += _tabular(found, f"all {len(document['sets'])} data sets")
    return "\n".join(lines)


def _tabular(found, caption):
    titles, *others = ([tex(cell) for cell in row] for row in found)
    body = [" & ".join(row).replace("+-", r"$\pm$") + r" \\" for row in (titles, *others)]
    return [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{tex(caption)}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(titles) - 1)}}}",
        r"\hline",
        body[0],
        r"\hline",
        *body[1:],
        r"\hline",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ]


def tex(text):
    """Escape what LaTeX reads as commands."""
    return "".join(SPECIAL.get(sign, sign) for sign in plain(text))


def write(folder, document):
    """Write table.md, table.csv and table.tex."""
    outputs.write_csv(f"{folder}/table.csv", csv(document))
    outputs.write_text(f"{folder}/table.md", page(document))
    outputs.write_text(f"{folder}/table.tex", latex(document))

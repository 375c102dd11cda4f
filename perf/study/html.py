"""Pages: the document and the records of a comparison to report.html.

One file without scripts and without links to other files: it can be mailed, printed, and read on
a telephone or in the dark. perf/draw.py draws the charts. Equal records give equal bytes.
"""

import re
import shlex
from collections import Counter
from html import escape
from pathlib import Path
from statistics import fmean

from perf import draw
from perf.study import experiment, methods, outputs, report, statistics, tables
from perf.text import duration, mean_std, plain, span, tick

POINTS = 6000  # Dots in all kappa-error diagrams together, at most.
NONE = "\u2013"  # In place of a missing number.
LEAST_SECONDS = 1e-6  # Lower limit of the logarithmic axis.
STYLE = draw.STYLE + Path(__file__).with_name("page.css").read_text(encoding="utf-8")
WORDS = ' class="words"'  # Of a cell that is no number.
HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
"""


def page(document, records):
    """Make the page of a comparison."""
    sets, count = document["sets"], len(document["methods"])
    where = sets[0]["name"] if len(sets) == 1 else f"{len(sets)} data sets"
    title = f"{count} method{'s' * (count > 1)} compared on {where}"
    parts = {"meaning": ("What it means", _meaning(document))}
    if document["across"]:
        every = f"All {len(sets)} data sets" if len(sets) > 2 else "Both data sets"
        parts["all"] = (every, _together(document))
    for k, one in enumerate(sets, 1):
        parts[f"set{k}"] = (one["data"], _set(document, one))
    parts["time"] = ("Time", _times(document))
    if clouds := _clouds(document, records):
        parts["kappa"] = ("Do members differ, and does it help?", _diagrams(document, clouds))
    parts["how"] = ("How it was done", _how(document))
    links = [f'<a href="#{key}">{text(words)}</a>' for key, (words, _) in parts.items()]
    body = [f'<section id="{key}">\n<h2>{text(words)}</h2>\n{inside}\n</section>'
            for key, (words, inside) in parts.items()]  # fmt: skip
    lines = [
        f"{HEAD}<title>{text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>",
        f"<header>\n<h1>{text(title)}</h1>\n<p>{text(_protocol(document))}</p>",
        f'<nav aria-label="parts of this page">{"".join(links)}</nav>\n</header>\n<main>',
        *body,
        "</main>\n</body>\n</html>\n",
    ]
    return "\n".join(lines)


def _protocol(document):
    """Measure and protocol of all sets."""
    settings, better = document["protocol"], "less" if document["less_is_better"] else "more"
    said = f"The {document['title']} on test rows in %, {better} is better: {report.kind(settings)}"
    if settings["trials"] * (settings["cv"] or 1) > 1:
        said += " and, after \xb1, the standard deviation over them"
    said += "; features scaled as each method does by default"
    said += "; parameters tuned on the training rows" * settings["tuned"]
    return f"{said}; seed {settings['seed']}."


def _meaning(document):
    parts = [f'<p class="meaning">{_prose(" ".join(tables.sentences(document)))}</p>']
    if failed := tables.failures(document):
        parts.append(_list("Failures", failed))
    if document["questions"]:
        parts.append(_questions(document))
    return "\n".join(parts)


def _questions(document):
    """Verdicts of the questions: a table, and the intervals."""
    several = len({answer["data"] for answer in document["questions"]}) > 1
    found = [["question", *["data"] * several, "verdict", "change", "95 % range"]]
    for answer in document["questions"]:
        change, low, high = (_signed(answer[key]) for key in ("change", "low", "high"))
        span = NONE if answer["low"] is None else f"{low} to {high}"
        where = [answer["data"]] * several
        found.append([answer["question"], *where, answer["verdict"], change, span])
    parts = [_table(found, tables.explained(document), words=(1, 2) if several else (1,))]
    if any(answer["low"] is not None for answer in document["questions"]):
        said = "Changes and their intervals; one that crosses the line at 0 may be chance."
        parts.append(_figure(draw.changes(document), said))
    return f"<h3>Does diversity help?</h3>\n{_beside(*parts)}"


def _together(document):
    """All sets together: the table, the critical difference, all pairs."""
    across, caption = document["across"], "Means and average ranks over the data sets"
    if "friedman" in across:
        caption += "; best better, equal, worse: probabilities of the first method against the row"
    table = _table(tables.overall(document), caption)
    if "friedman" not in across:
        return table
    means, found = dict(zip(across["methods"], across["means"], strict=True)), []
    places = [{row["method"]: row["rank"] for row in one["methods"]} for one in document["sets"]]
    for one, two, _, p in across["pairs"]:
        counts = Counter((place[one] > place[two]) - (place[one] < place[two]) for place in places)
        sides = {"wins": counts[-1], "ties": counts[0], "losses": counts[1], "p": p}
        found.append({"first": one, "second": two, "difference": means[one] - means[two], **sides})
    test = "data sets won, tied and lost; p of Wilcoxon's test of the sets, by Holm's step-down"
    names = [name for name in document["methods"] if name in means]
    terms = [f"<dt>{text(k)}</dt><dd>{text(v)}</dd>" for k, v in tables.tests(document).items()]
    tests = f"<dl>{''.join(terms)}</dl>"
    pairs = [(table, _ranks(across)), (_matrix(document, names, found, test), tests)]
    return "\n".join(_beside(*pair) for pair in pairs)


def _ranks(across):
    """The critical-difference diagram."""
    names, ranks, gap = across["methods"], across["ranks"], across["critical_difference"]
    best, kinds = ranks[0], ["best", *["dot"] * (len(names) - 1)]
    rows = [draw.Row("critical difference", f"{gap:.2f}", None, best, best + gap)]
    rows += [draw.Row(name, f"{rank:.2f}", rank, kind=kind)
             for name, rank, kind in zip(names, ranks, kinds, strict=True)]  # fmt: skip
    groups = [(group[0] + 1, group[-1] + 1) for group in statistics.cliques(ranks, gap)]
    ends = 1, max(len(names), best + gap)
    drawn = draw.row_chart("Critical-difference diagram of the average ranks", "average rank", rows,
                        line=(best, best + gap), brackets=groups, scale=ends)  # fmt: skip
    said = "Critical-difference diagram: average ranks, 1 is the best. A bar at the right joins "
    said += "methods without a significant difference (Nemenyi's test, 5 %): their ranks differ by "
    said += f"at most {gap:.2f}, the width of the band, which starts at the best."
    return _figure(drawn, said)


def _set(document, one):
    """One set: facts, the table, error bars and, of few sets, all pairs."""
    if one["rows"] is None:
        return "<p>No method finished.</p>"
    train, test = span(one["train_rows"]), span(one["test_rows"])
    facts = f"{report.contents(one)}; {train} rows for training and {test} for testing."
    parts = [f"<p>{text(line)}</p>" for line in (facts, *one["notes"])]
    kinds = ["best" if row["method"] == one["best"] else "" for row in one["methods"]]
    kinds += ["base"] * len(one["baselines"])
    caption = f"Results on {one['name']}; the best in bold, = not significantly different from it"
    table = _table(tables.rows(document, one), caption, kinds)
    parts.append(_beside(table, _error_bars(document, one)))
    if "friedman" not in (document["across"] or {}):
        names = [row["method"] for row in one["methods"] if row["rank"] is not None]
        test = "splits won, tied and lost; p of the corrected t-test, by Holm's step-down"
        parts.append(_matrix(document, names, one["pairs"], test) if one["pairs"] else "")
    return "\n".join(parts)


def _error_bars(document, one):
    """Means and standard deviations as a picture."""
    rows = []
    found = [(row["method"], row["score"], row) for row in one["methods"] if "score" in row]
    if member := one["baselines"].get("best single member"):
        found.append(("best single member", member, None))
    for name, score, row in found:
        middle, std = 100 * score["mean"], score["std"]
        low, high = (None, None) if std is None else (middle - 100 * std, middle + 100 * std)
        kind = "base" if row is None else "best" if name == one["best"] else "dot"
        equal = row and kind != "best" and tables.is_best_or_equal(row, one, document["level"])
        value = _plus(mean_std(score, 100)) + " =" * bool(equal)
        rows.append(draw.Row(name, value, middle, low, high, kind=kind))
    if not rows:
        return ""
    label = f"{document['title']} in %"
    drawn = draw.row_chart(f"{label} of the methods on {one['name']}", label, rows)
    spread = "" if rows[0].low is None else ", \xb1 one standard deviation over the splits"
    said = f"Mean {label}{spread}; diamond: the best, =: not significantly different from it"
    return _figure(drawn, said + ("; the ring is no method." if member else "."))


def _matrix(document, names, pairs, test):
    """A table of all pairs of methods: each row against each column."""
    cells = {}
    for pair in pairs:
        one, two, p = pair["first"], pair["second"], pair["p"]
        counts = [pair["wins"], pair["ties"], pair["losses"]]
        cells[one, two] = _pair(document, pair["difference"], counts, p)
        cells[two, one] = _pair(document, -pair["difference"], counts[::-1], p)
    numbers = [document["methods"].index(name) + 1 for name in names]
    better = "below" if document["less_is_better"] else "above"
    caption = f"All pairs: mean {document['title']} of the row minus that of the column in points, "
    caption += f"{better} 0 the row is better; {test}. Bold in a frame: significant, 5 %"
    rows = []
    for number, one in zip(numbers, names, strict=True):
        row = "".join(cells.get((one, two), f"<td>{NONE}</td>") for two in names)
        rows.append(("", f"{number}&nbsp;{_breakable(one)}", row))
    return _scroll(caption, ["method", *map(str, numbers)], rows, (), "matrix")


def _pair(document, difference, counts, p):
    """A cell of the matrix; p is None of one split."""
    side = difference if document["less_is_better"] else -difference
    kind = "good" if round(side, 12) < 0 else "bad" if round(side, 12) > 0 else ""
    kind += " apart" * (p is not None and p < document["level"])
    told = f"p {NONE}" if p is None else "p < 0.001" if p < 0.001 else f"p {p:.3f}"
    lines = [NONE.join(map(str, counts)), text(told)]
    more = "".join(f"<span>{line}</span>" for line in lines)
    return f'<td class="{kind.strip()}">{_signed(difference)}{more}</td>'


def _times(document):
    """Times of a fit as a picture: of several sets, dots and their mean."""
    each = {name: [max(seconds, LEAST_SECONDS) for seconds in times]
            for name, times in tables.fit_times(document).items()}  # fmt: skip
    means, rows = {name: fmean(times) for name, times in each.items()}, []
    for name, at in means.items():
        dots = tuple(each[name]) if len(document["sets"]) > 1 else ()
        kind = "best" if at == min(means.values()) else "dot"
        rows.append(draw.Row(name, duration(at), at, dots=dots, kind=kind))
    drawn = draw.row_chart("Time of a fit of each method", "seconds for one fit, logarithmic", rows,
                        form=tick, log=True)  # fmt: skip
    many = "; small dots: the data sets, large: their mean" * (len(document["sets"]) > 1)
    tuning = " Choosing parameters is not included." * document["protocol"]["tuned"]
    said = f"Median time of one fit over the splits{many}. The diamond is the fastest.{tuning}"
    return _figure(drawn, said)


def _clouds(document, records):
    """The ensembles of every set whose first record holds points, {data: clouds}."""
    shown = [one for one in records if one["trial"] == 0 and one.get("pairs", [[]])[0]]
    found = {one["data"]: [] for one in document["sets"]}
    for record in shown:
        number, differ = document["methods"].index(name_of(record)), record["diversity"]
        figures = record["pairs"], (differ["kappa"], differ["member_error"]), record["test_error"]
        cloud = draw.cloud(number, *figures, POINTS // len(shown))
        found[record["spec"]["data"]].append(cloud)
    return {data: sorted(clouds) for data, clouds in found.items() if clouds}


def name_of(record):
    return methods.title(record["spec"]["method"], record["spec"]["params"])


def _diagrams(document, clouds):
    """Kappa-error diagrams, one a set, below the numbers of the methods."""
    said = (
        "Kappa-error diagrams of the first split. A dot is a pair of members (at most "
        f"{experiment.PAIRED} members): diverse pairs are at the left, accurate ones at the "
        "bottom. The ring is the mean of all pairs. The numbered bar is the error of the ensemble: "
        "the longer the stem between them, the more the vote helps. Identical members have one dot "
        "at kappa 1 and no stem."
    )
    several = [one["data"] for one in document["sets"] if len(one.get("classes") or ()) > 2]
    if any(data in several for data in clouds):
        said += " Of more than two classes kappa is that of right and wrong answers."
    shown = sorted({cloud.number for some in clouds.values() for cloud in some})
    keys = [f'<li><b class="h{k % draw.HUES}">\u25cf {k + 1}</b> '
            f"{text(document['methods'][k])}</li>" for k in shown]  # fmt: skip
    parts = [_figure(draw.kappa_error_chart(f"Kappa-error diagram of {data}", some), data)
             for data, some in clouds.items()]  # fmt: skip
    legend = f'<ul class="legend">{"".join(keys)}</ul>'
    return f'<p>{said}</p>\n{legend}\n<div class="panels">\n{"".join(parts)}\n</div>'


def _how(document):
    parts = [f"<p>{_prose(f'Tables: {tables.EXPLAINED}')}.</p>"]
    if document["protocol"]["tuned"]:
        parts.append("<p>Parameters were chosen by 5-fold cross-validation on the training rows of "
                     "each split.</p>")  # fmt: skip
        chosen = [["method", "data", "chosen (number of splits)"]]
        for one, row in tables.cells(document):
            each = Counter(report.assigned(some) for some in row.get("chosen", ())).most_common()
            told = "; ".join(f"{value} ({count})" for value, count in each)
            chosen += [[row["method"], one["data"], told]] if told else []
        parts.append(_table(chosen, "Parameters that were chosen", words=(1, 2)))
    if warned := report.told(document["warnings"]):
        parts.append(_list("Warnings", warned))
    versions = ", ".join(f"{name} {number}" for name, number in document["versions"].items())
    parts.append(f"<h3>Versions</h3>\n<p>{text(f'{outputs.version()}, {versions}')}</p>")
    if command := document.get("command"):
        words = [f"<span>{text(shlex.quote(k))}</span>" for k in ("python", "cli.py", *command)]
        parts.append(f"<h3>Command</h3>\n<pre>{' '.join(words)}</pre>")
    return "\n".join(parts)


def text(given):
    """Escape HTML and characters that are not printable."""
    return escape(plain(given))


def _breakable(given):
    """Escape a name, which may be broken after a sign."""
    return re.sub("([:,+=])", r"\1<wbr>", text(given))


def _prose(given):
    """Escape sentences; a number and its unit stay together."""
    return re.sub(r"(?<=\d) (?=(?:%|ms|s|points?)(?:\W|$))", "\xa0", text(_plus(given)))


def _plus(given):
    return given.replace(" +- ", " \xb1 ")


def _signed(value):
    """Write a change in points; None gives a dash."""
    if value is None or value == 0:
        return NONE if value is None else "0.0"
    return tables.points(value).replace("-", "\u2212")


def _list(title, items):
    lines = "".join(f"<li>{text(item)}</li>" for item in items)
    return f"<h3>{title}</h3>\n<ul>{lines}</ul>"


def _beside(*parts):
    """Lay out parts side by side if there is room."""
    return "\n".join(['<div class="beside">', *parts, "</div>"])


def _figure(drawn, said):
    return f"<figure>\n{drawn}\n<figcaption>{text(said)}</figcaption>\n</figure>"


def _table(found, caption, kinds=(), words=()):
    """Return a table of texts, titles first; words: columns of text, kinds: classes of rows."""
    rows = []
    for k, (name, *cells) in enumerate(found[1:]):
        row = "".join(f"<td{WORDS * (j in words)}>{text(_plus(cell))}</td>"
                      for j, cell in enumerate(cells, 1))  # fmt: skip
        kind = f' class="{kinds[k]}"' if kinds and kinds[k] else ""
        rows.append((kind, _breakable(name), row))
    return _scroll(caption, found[0], rows, words)


def _scroll(caption, titles, rows, words, kind="plain"):
    """Return a table, rows (attributes, name, cells), that scrolls if the page is narrower."""
    label = text(caption.partition(";")[0].partition(":")[0])
    head = "".join(f'<th scope="col"{WORDS * (j in words)}>{text(cell)}</th>'
                   for j, cell in enumerate(titles))  # fmt: skip
    body = [f'<tr{look}><th scope="row">{name}</th>{cells}</tr>' for look, name, cells in rows]
    return "\n".join([
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}">',
        f'<table class="{kind}">\n<caption><span>{_prose(caption)}.</span></caption>',
        f"<thead><tr>{head}</tr></thead>", "<tbody>", *body, "</tbody>\n</table>\n</div>",
    ])  # fmt: skip

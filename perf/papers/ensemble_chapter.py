"""Protocols of the chapter on ensemble learning: its Figures 1 to 4."""

from statistics import fmean

import numpy as np

import datasets
from perf import draw
from perf.study import page
from perf.study.page import FAILS, HOLDS, Table
from solvers import diversity
from solvers.adaboost_nc import AdaBoost
from solvers.bagging import Bagging
from solvers.combine import Voting
from solvers.exrm import PSVM

REFERENCE = (
    'H. Zhang, "Ensemble learning", chapter 6 of lecture notes on machine learning (Chinese)'
)
CASES = {  # of Figure 1: the tests, of three, that each of three classifiers gets right
    "(a) the vote improves": ((1, 1, 0), (0, 1, 1), (1, 0, 1)),
    "(b) the vote changes nothing": ((1, 1, 0), (1, 1, 0), (1, 1, 0)),
    "(c) the vote does harm": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
}
PRINTED = {"(a)": 0, "(b)": 1, "(c)": 3}  # errors of the vote in Figure 1, of three
TREES, REPEATS = 50, 10  # of Figure 2: members of an ensemble; ours: random halves
SHOWN = 300  # pairs of each ensemble in the picture
LINES = "least margin", "mean margin", "margin distribution"  # objectives of Figure 4
SAMPLES = 30  # of Figure 4, ours: errors are means over 30 samples
NEARLY = 0.99  # A line reaches the best value of a quantity with 0.99 times this value.


# -- Figure 1: three classifiers, three tests ------------------------------------------------------


class Fixed:
    """Fitted classifier with given answers; X holds the numbers of the tests."""

    def __init__(self, answers):
        self.answers, self.classes_ = np.array(answers), np.array([0, 1])

    def fit(self, X, y):
        return self

    def predict(self, X):
        return self.answers[X[:, 0].astype(int)]


def three_classifiers(case):
    """Errors of the members and of their vote, and the rate at which two members differ."""
    right = np.array(CASES[case])
    X, y = np.arange(3.0)[:, None], np.array([0, 1, 1])
    members = [Fixed(np.where(row, y, 1 - y)) for row in right]
    vote = Voting(members, prefit=True).fit(X, y)
    votes = np.column_stack([member.answers for member in members])
    return {
        "members": (3 - right.sum(axis=1)).tolist(),
        "vote": int((vote.predict(X) != y).sum()),
        "disagreement": diversity.averages(votes, y)["disagreement"],
    }


# -- Figure 2: kappa and error of pairs of trees ---------------------------------------------------


def tic_tac_toe():
    """Return all boards at the end of a game, x first, as 27 indicators, and 1 if x has won.

    These are the 958 rows of the UCI data set, which lists them all.
    """
    rows = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]

    def has_won(board, player):
        return any(all(board[square] == player for square in row) for row in rows)

    ends, seen, waiting = {}, set(), [((" ",) * 9, "x")]
    while waiting:
        board, player = waiting.pop()
        other = "o" if player == "x" else "x"
        if board in seen:
            continue
        seen.add(board)
        if has_won(board, other) or " " not in board:
            ends[board] = has_won(board, "x")
            continue
        for square in (k for k in range(9) if board[k] == " "):
            waiting.append(((*board[:square], player, *board[square + 1 :]), other))
    boards = sorted(ends)
    X = np.array([[board[k] == sign for k in range(9) for sign in "xo "] for board in boards])
    return X.astype(float), np.array([int(ends[board]) for board in boards])


def pairs_of_trees(trees, repeat):
    """Kappa and mean error of all pairs on the test half, of boosted and of bagged trees."""
    X, y = tic_tac_toe()
    train, test = next(datasets.splits(y, trials=1, seed=repeat))
    how = {"n_estimators": trees, "criterion": "gain_ratio", "random_state": repeat}
    boosted = AdaBoost(base="tree", prune=False, mode="resample", min_samples_leaf=2, **how)
    bagged = Bagging(min_samples_leaf=2, **how)
    results = {}
    for name, model in (("AdaBoost", boosted), ("bagging", bagged)):
        model.fit(X[train], y[train])
        kappas, errors = diversity.kappa_error(model.votes(X[test]), y[test])
        vote = 1.0 - model.score(X[test], y[test])
        results[name] = {"kappa": kappas.tolist(), "error": errors.tolist(), "vote": vote}
    return results


# -- Figure 3: losses in place of the 0/1 loss -----------------------------------------------------


def losses(low, high, count):
    """Losses of Equations 27 to 29 as functions of z = y h(x), and the 0/1 loss."""
    z = np.linspace(low, high, count)
    return {
        "z": z.tolist(),
        "0/1": (z < 0).astype(float).tolist(),
        "logistic (27)": np.log1p(np.exp(-z)).tolist(),
        "hinge (28)": np.maximum(1.0 - z, 0.0).tolist(),
        "exponential (29)": np.exp(-z).tolist(),
    }


# -- Figure 4: lines that optimise functions of the margins ----------------------------------------


def margin_lines(seed):
    """Three lines through two classes of 20 points: their margins, and their errors on new points.

    Lines are w.x + b = 0 with |w| = 1. The least margin is the widest gap, an SVM at a large cost;
    the mean margin has no best bias, and takes the middle of the two means; the distribution is the
    largest mean for a standard deviation, as in Fisher's discriminant.
    """
    rng = np.random.default_rng(seed)
    shape = np.array([[1.0, 0.0], [0.75, 0.5]])

    def draw(n):
        y = np.where(np.arange(n) % 2, 1.0, -1.0)
        return rng.standard_normal((n, 2)) @ shape.T + y[:, None] * [1.7, 0.0], y

    X, y = draw(40)
    while PSVM(lam=1e8).fit(X, y).score(X, y) < 1.0:  # the figure shows classes that can be parted
        X, y = draw(40)
    wide = PSVM(lam=1e8).fit(X, y)
    means = X[y > 0].mean(axis=0), X[y < 0].mean(axis=0)
    middle, apart = (means[0] + means[1]) / 2, means[0] - means[1]
    spread_within = sum(np.cov(X[y == side].T) for side in (-1, 1))
    fisher = np.linalg.solve(spread_within, apart)
    solutions = {
        "least margin": (wide.coef_[0], wide.intercept_[0]),
        "mean margin": (apart, -apart @ middle),
        "margin distribution": (fisher, -fisher @ middle),
    }
    X_new, y_new = draw(20_000)
    lines = {}
    for name, (w, b) in solutions.items():
        w, b = w / np.linalg.norm(w), b / np.linalg.norm(w)
        margins = y * (X @ w + b)
        lines[name] = {
            "w": w.tolist(), "b": float(b), "least": float(margins.min()),
            "mean": float(margins.mean()), "ratio": float(margins.mean() / margins.std()),
            "error": float(np.mean(y_new * (X_new @ w + b) <= 0)),
        }  # fmt: skip
    return {"lines": lines, "X": X.tolist(), "y": y.tolist()}


# -- the page --------------------------------------------------------------------------------------


def jobs(quick):
    """All four figures; quick: few repeats, samples and trees."""
    repeats, samples, trees = (2, 3, 10) if quick else (REPEATS, SAMPLES, TREES)
    planned = {("figure 1", case): page.step(three_classifiers, case=case) for case in CASES}
    for repeat in range(repeats):
        planned["figure 2", repeat] = page.step(pairs_of_trees, trees=trees, repeat=repeat)
    planned["figure 3", 0] = page.step(losses, low=-3.0, high=3.0, count=601)
    for seed in range(samples):
        planned["figure 4", seed] = page.step(margin_lines, seed=seed)
    return planned


def figures_page(records, quick):
    each = {}
    for (figure, label), record in page.only(records).items():
        each.setdefault(figure, {})[label] = record
    contents, verdicts, pictures = [], {}, {}
    for figure, write in FIGURES.items():
        table, verdicts[figure], drawn = write(each[figure])
        contents.append(table)
        pictures |= drawn
    failed = [f"Figure {figure[-1]}" for figure, verdict in verdicts.items() if verdict == FAILS]
    reason = "all four figures show what they are to show."
    if failed:
        reason = f"{4 - len(failed)} of 4 figures do; not so {' and '.join(failed)}, below."
    return page.Page(page.judge(verdicts.values()), reason, contents, pictures, DEVIATIONS)


def _figure_1(cases):
    rows = [
        [case, ", ".join(map(str, one["members"])), one["vote"], PRINTED[case[:3]],
         f"{100 * one['disagreement']:.0f} %"]
        for case, one in cases.items()
    ]  # fmt: skip
    titles = ["case", "errors of the three", "errors of the vote", "printed", "two members differ"]
    verdict = HOLDS if all(row[2] == row[3] for row in rows) else FAILS
    text = (
        f"**Figure 1** (members should be good and different) {verdict}: three tests, three "
        "classifiers. In (a) and (c) members differ equally often: difference alone does not make "
        "a vote good."
    )
    return Table(text, titles, rows), verdict, {}


def _figure_2(repeats):
    names = "AdaBoost", "bagging"
    kappa = {name: [fmean(one[name]["kappa"]) for one in repeats.values()] for name in names}
    error = {name: [fmean(one[name]["error"]) for one in repeats.values()] for name in names}
    vote = {name: [one[name]["vote"] for one in repeats.values()] for name in names}
    more_diverse, less_accurate = (
        np.greater(*(some[name] for name in order))
        for some, order in ((kappa, names[::-1]), (error, names))
    )
    fraction = np.mean(more_diverse & less_accurate)
    verdict = HOLDS if fraction > 0.5 else FAILS
    text = (
        f"**Figure 2** (accuracy and diversity conflict) {verdict}: "
        f"on {100 * fraction:.0f} % of the random halves of tic-tac-toe, pairs of boosted trees "
        "are both more diverse (smaller kappa) and less accurate than pairs of bagged ones."
    )
    rows = [
        [name, page.plus_minus(kappa[name], 1, 2),
         *(page.plus_minus(some[name], 100) for some in (error, vote))]
        for name in names
    ]  # fmt: skip
    titles = ["ensemble", "mean kappa of a pair", "mean error of a pair, %", "error of the vote, %"]
    first = repeats[min(repeats)]
    clouds = {}
    for name in names:
        every = len(first[name]["kappa"]) // SHOWN + 1
        points = zip(first[name]["kappa"], first[name]["error"], strict=True)
        clouds[f"pairs, {name}"] = [(a, 100 * b) for a, b in [*points][::every]]
    kappas = [a for cloud in clouds.values() for a, _ in cloud]
    ends = min(kappas), max(kappas)
    lines = {f"vote, {name}": [(end, 100 * first[name]["vote"]) for end in ends] for name in names}
    title = "tic-tac-toe, pairs of trees"
    panel = draw.Panel(title, "kappa", "error, %", clouds | lines, dots=(*clouds,))
    drawn = draw.figure([[panel]])
    return Table(text, titles, rows), verdict, {"kappa": (drawn, "kappa-error diagram")}


def _figure_3(records):
    record = records[0]
    z, step = np.array(record["z"]), np.array(record["0/1"])
    named = {name: np.array(record[name]) for name in record if name.endswith(")")}
    rows, low = [], []
    for name, values in named.items():
        is_convex = (np.diff(values, 2) >= -1e-12).all()
        is_bound = (values - step)[z < 0].min() >= 0
        low += [] if is_bound else [name]
        words = ["yes" if true else "no" for true in (is_convex, is_bound)]
        rows.append([name, words[0], f"{values[np.abs(z).argmin()]:.3f}", words[1]])
    titles = ["loss", "convex", "at z = 0", "never below the 0/1 loss"]
    text = "**Figure 3** (three convex losses that bound the 0/1 loss from above) holds"
    text += "." if not low else (
        f" but for {', '.join(low)}: with the natural logarithm of Equation 27 the loss "
        "is log 2 = 0.693 at z = 0, below 1; divided by log 2 it is a bound."
    )  # fmt: skip
    curves = {"0/1": [(a, float(b)) for a, b in zip(z[::10], step[::10], strict=True)]}
    for name, values in named.items():
        shown = values[::10] <= 6.0
        curves[name] = list(zip(z[::10][shown].tolist(), values[::10][shown].tolist(), strict=True))
    drawn = draw.figure([[draw.Panel("losses", "z = y h(x)", "loss", curves)]])
    pictures = {"losses": (drawn, "three losses and the 0/1 loss")}
    return Table(text, titles, rows), FAILS if low else HOLDS, pictures


def _figure_4(samples):
    keys = {"least": "least margin", "mean": "mean margin", "ratio": "mean / deviation"}
    values = {(name, key): [one["lines"][name][key] for one in samples.values()]
              for name in LINES for key in (*keys, "error")}  # fmt: skip
    mean = {cell: fmean(some) for cell, some in values.items()}
    own = dict(zip(LINES, keys, strict=True))
    reached = [mean[name, key] >= NEARLY * max(mean[line, key] for line in LINES)
               for name, key in own.items()]  # fmt: skip
    best = min(LINES, key=lambda name: mean[name, "error"])
    verdict = HOLDS if all(reached) and best == LINES[2] else FAILS
    text = (
        "**Figure 4** (lines by the least margin, the mean margin and the margin distribution) "
        f"{verdict}: each line has the best value of its objective, "
        f"and on {len(samples)} samples of two slanted classes the lowest error on new points is "
        f"that of the {best}."
    )
    rows = [
        [name, *(page.plus_minus(values[name, key], 1, 2) for key in keys),
         page.plus_minus(values[name, "error"], 100, 2)]
        for name in LINES
    ]  # fmt: skip
    first = samples[min(samples)]
    X, y = np.array(first["X"]), np.array(first["y"])
    clouds = {f"class {sign}": X[y == side].tolist() for sign, side in (("+", 1), ("-", -1))}
    low, high = X[:, 1].min(), X[:, 1].max()
    curves = {}
    for name in LINES:
        (u, v), b = first["lines"][name]["w"], first["lines"][name]["b"]
        curves[name] = [(-(v * height + b) / u, height) for height in (low, high)]
    labels = "one sample", "first feature", "second feature"
    drawn = draw.figure([[draw.Panel(*labels, clouds | curves, dots=(*clouds,))]])
    table = Table(text, ["line", *keys.values(), "error on new points, %"], rows)
    return table, verdict, {"margins": (drawn, "three lines between two classes")}


FIGURES = {
    "figure 1": _figure_1, "figure 2": _figure_2, "figure 3": _figure_3, "figure 4": _figure_4,
}  # fmt: skip
DEVIATIONS = [
    "The chapter takes its figures from other books and prints no numbers; the pictures are ours.",
    "tic-tac-toe is made, not read: all boards at the end of a game, 958, of which x wins 626, are "
    "what the UCI data set lists. Squares are indicators of x, o and blank.",
    "The trees of Figure 2 are grown by gain ratio with at least 2 rows a leaf and not pruned; "
    "AdaBoost draws its samples. The chapter says C4.5 and 50 trees. Kappa and error are of the "
    f"test half, over {REPEATS} random halves.",
    "The data of Figure 4 are not given; ours are two slanted Gaussians, in samples of 40 points "
    "that a line can part. For such data the line by the distribution, which is Fisher's, tends to "
    "the best one there is: other data may say otherwise.",
]

TARGETS = {
    "ensemble-figures": page.Target(
        "The chapter on ensemble learning, Figures 1 to 4",
        "A vote helps where members are good and different (Figure 1); accuracy and diversity of "
        "members conflict (Figure 2); the logistic, hinge and exponential losses are convex bounds "
        "of the 0/1 loss (Figure 3); a line by the distribution of the margins is better than one "
        "by the least or the mean margin (Figure 4).",
        jobs, figures_page, "It takes some seconds."),
}  # fmt: skip

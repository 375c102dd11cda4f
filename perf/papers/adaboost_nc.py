"""Protocols of Wang, Yao 2010: AdaBoost.NC, errors that become less correlated.

Figures 1 and 2 are of two Gaussians, Figures 3 and 4 of ten data sets. The paper prints curves and
observations, no numbers: a page gives a verdict on each observation, by tests.
"""

import importlib.util
import warnings
from functools import cache, partial
from itertools import product
from statistics import fmean
from typing import NamedTuple

import numpy as np
from scipy import ndimage, stats

import datasets
from perf.draw import Map, Panel, figure, maps
from perf.study import page, statistics
from perf.study.page import FAILS, HOLDS, PARTLY, UNDECIDED, Observation, Table, judge, p_text
from solvers.adaboost_nc import AdaBoostNC
from solvers.diversity import error_covariance

REFERENCE = (
    'S. Wang, X. Yao, "The Effectiveness of a New Negative Correlation Learning Algorithm for '
    'Classification Ensembles", 2010'
)
LEVEL = 0.05  # significance of all tests
TREE = {"criterion": "gain_ratio"}  # with the defaults: pruned, at least 2 rows per leaf, as C4.5


# -- experiments -----------------------------------------------------------------------------------

TEST_SEED = 1_000_000  # The test points of batch b are drawn with TEST_SEED + b.


def gaussian_runs(lam, batch, samples, repeats, members):
    """Run Figure 1 once: covariances and errors by round of models on two Gaussians.

    `samples` is "new" if each model has training rows of its own, "same" if all of a batch have the
    same rows and differ by their draws. Curves end with the shortest run.
    """
    test = datasets.two_gaussians(100, seed=TEST_SEED + batch)
    models = []
    for k in range(batch * repeats, (batch + 1) * repeats):
        data = datasets.two_gaussians(400, seed=k if samples == "new" else batch * repeats)
        model = AdaBoostNC(n_estimators=members, lam=lam, random_state=k, **TREE)
        models.append(model.fit(data.X, data.y))
    rounds = min(model.n_iter_ for model in models)
    stages = [[*model.staged_predict(test.X)][:rounds] for model in models]
    points = [model.error_correlation(test.X, test.y)[: rounds - 1] for model in models]
    return {
        "covariance": error_covariance([model.votes(test.X) for model in models], test.y).tolist(),
        "over_points": np.mean(points, axis=0).tolist(),
        "error": np.mean(np.array(stages) != test.y, axis=(0, 2)).tolist(),
    }


EDGE, CELLS = 4.5, 150  # Figure 2 is a square from -EDGE to EDGE of CELLS x CELLS cells


def regions(lam, run):
    """Run Figure 2 once: predictions of a model on two Gaussians in the cells of a square."""
    data = datasets.two_gaussians(400, seed=run)
    model = AdaBoostNC(lam=lam, random_state=run, **TREE).fit(data.X, data.y)
    centres = EDGE * ((2 * np.arange(CELLS) + 1) / CELLS - 1)
    across, up = np.meshgrid(centres, centres)
    positive = model.predict(np.column_stack([across.ravel(), up.ravel()])) == 1
    positive = positive.reshape(CELLS, CELLS)
    test = datasets.two_gaussians(10_000, seed=TEST_SEED)
    return {
        "length": boundary_length(positive) * 2 * EDGE / CELLS,
        "regions": count_regions(positive),
        "error": 1.0 - model.score(test.X, test.y),
        "runs": run_lengths(positive) if run == 0 else None,
    }


def boundary_length(positive):
    """Count the sides between a positive and a negative cell."""
    return int((positive[1:] != positive[:-1]).sum() + (positive[:, 1:] != positive[:, :-1]).sum())


def count_regions(positive):
    """Count the connected regions of both classes."""
    return int(ndimage.label(positive)[1] + ndimage.label(~positive)[1])


def run_lengths(positive):
    """Return the positive cells as [row, first column, last column + 1], row after row."""
    padded = np.pad(positive.astype(np.int8), ((0, 0), (1, 1)))
    change = np.diff(padded, axis=1)
    rows, firsts = np.nonzero(change == 1)
    return np.column_stack([rows, firsts, np.nonzero(change == -1)[1]]).tolist()


SETS = {  # Table II: name here, training rows; the first rows of insurance are its training file
    "promoter": ("promoter", 84), "sonar": ("sonar", 166), "ionosphere": ("ionosphere", 280),
    "house-votes-84": ("house-votes", 348), "crx": ("crx", 489), "breast-w": ("breastw", 559),
    "pima": ("pima", 614), "german": ("german", 800), "hypothyroid": ("hypothyroid", 2530),
    "insurance": ("insurance-num", 5822),
}  # fmt: skip
FIXED = "insurance-num"  # the set with a test file, hence one split


def penalties(data, train, run, base, lams):
    """Run Figure 3 once: wrong test rows for each lam, with 9 members, on one split."""
    X, y, X_test, y_test = _split(data, train, run, base)
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of networks that have not converged
        for lam in lams:
            model = AdaBoostNC(9, lam, base=_base(base), random_state=run, **TREE)
            wrong.append(int((model.fit(X, y).predict(X_test) != y_test).sum()))
    return {"wrong": wrong, "train_rows": len(y), "test_rows": len(y_test)}


def sizes(data, train, run, lam, marks):
    """Run Figure 4 once: wrong test rows by the number of members, `marks`, on one split."""
    X, y, X_test, y_test = _split(data, train, run, "tree")
    model = AdaBoostNC(max(marks), lam, random_state=run, **TREE).fit(X, y)
    votes = (model.votes(X_test) * model.weights_).cumsum(axis=1)
    stages = votes[:, [min(mark, model.n_iter_) - 1 for mark in marks]] >= 0
    wrong = (stages != (y_test == 1)[:, None]).sum(axis=0)
    return {"wrong": wrong.tolist(), "train_rows": len(y), "test_rows": len(y_test),
            "members": model.n_iter_}  # fmt: skip


def _split(name, train, run, base):
    """Return X, y, X_test and y_test of a split, standardised unless the members are trees."""
    data, trees = datasets.load(name), base == "tree"
    if name == FIXED:
        split = np.arange(train), np.arange(train, len(data.y))
    else:
        (split,) = datasets.splits(data.y, trials=run + 1, train=train, first=run)
    prep = datasets.Preprocess("none" if trees else "standard", keep_gaps=trees)
    prep.fit(data.X[split[0]])
    X, X_test = (prep.transform(data.X[rows]) for rows in split)
    return X, data.y[split[0]], X_test, data.y[split[1]]


def _base(name):
    """Return the base learner: trees, or a network of scikit-learn."""
    if name == "tree":
        return name
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(HIDDEN, solver="lbfgs", max_iter=EPOCHS)


# -- verdicts --------------------------------------------------------------------------------------


class Shift(NamedTuple):
    """Mean difference and its p-value: `down` and `up` are beyond chance."""

    mean: float
    p: float

    @property
    def down(self):
        return self.mean < 0 and self.p < LEVEL

    @property
    def up(self):
        return self.mean > 0 and self.p < LEVEL


def shift(differences, train=1, test=0):
    """Test differences of runs on random splits; by default the runs are independent."""
    return Shift(float(np.mean(differences)), statistics.corrected_t(differences, train, test).p)


def falls(change):
    """Return the verdict on a claim that something falls."""
    return HOLDS if change.down else UNDECIDED if change.mean < 0 else FAILS


def wilcoxon(differences, mean):
    """Return the Shift of a mean of paired differences, by Wilcoxon's signed-rank test."""
    return Shift(float(mean), stats.wilcoxon(differences).pvalue if differences.any() else 1.0)


# -- Figure 1 --------------------------------------------------------------------------------------

LAMS = 0, 2, 9
BATCHES, REPEATS, MEMBERS = 10, 30, 51
EARLY = 10  # rounds that the paper calls the first few


def figure_1_jobs(quick):
    """Batches of 30 models for each lam and reading; a batch is the paper's experiment."""
    size = {"repeats": 8, "members": 15} if quick else {"repeats": REPEATS, "members": MEMBERS}
    run = partial(page.step, gaussian_runs, **size)
    return {
        (batch, samples, lam): run(lam=lam, batch=batch, samples=samples)
        for batch, samples, lam in product(range(2 if quick else BATCHES), ("new", "same"), LAMS)
    }


def figure_1_page(records, quick):
    records = page.only(records)
    batches = sorted(page.axis(records, 0))
    rounds = min(len(record["error"]) for record in records.values())

    def curves(samples, lam, key):
        """Return the values, (batches, rounds)."""
        return np.array([records[batch, samples, lam][key][:rounds] for batch in batches])

    readings = {
        "over new training samples, as defined": ("new", "covariance"),
        "over draws from one training sample": ("same", "covariance"),
        "over the test points of one run": ("new", "over_points"),
    }
    rows, falling = [], 0
    for title, (samples, key) in readings.items():
        means = {lam: curves(samples, lam, key)[:, : rounds - 1].mean(axis=1) for lam in LAMS}
        falling += shift(means[9] - means[0]).down
        cells = [page.plus_minus(means[lam], digits=4) for lam in LAMS]
        rows.append([f"covariance {title}", *cells, change(means[9] - means[0], "{:+.4f}")])
    last = {lam: 100 * curves("new", lam, "error")[:, -1] for lam in LAMS}
    cells = [page.plus_minus(last[lam]) for lam in LAMS]
    rows.append(["test error in %, at the end", *cells, change(last[9] - last[0], "{:+.1f}")])
    drop = curves("new", 9, "covariance") - curves("new", 0, "covariance")
    early, late = drop[:, :EARLY].mean(axis=1), drop[:, EARLY:].mean(axis=1)
    best = [last[9] - last[lam] for lam in (0, 2)]
    observed = [
        Observation("Covariances at lam = 9 are generally smaller than at lam = 0",
         falls(shift(drop.mean(axis=1))), change(drop.mean(axis=1), "{:+.4f}")),
        Observation("especially during the first few rounds", falls(shift(early - late)),
         f"{change(early, '{:+.4f}')} in rounds 2 to {EARLY + 1}, {change(late, '{:+.4f}')} later"),
        Observation("lam = 9 has the best test error", judge(falls(shift(some)) for some in best),
         f"{change(best[0], '{:+.1f}')} points from lam = 0, {change(best[1], '{:+.1f}')} from "
         "lam = 2"),
    ]  # fmt: skip
    verdict, words = page.overall(observed)
    reason = (
        f"from lam = 0 to 9 the covariance goes from {rows[0][1]} to {rows[0][3]} and the test "
        f"error from {rows[-1][1]} to {rows[-1][3]} %; {words}. Of {len(readings)} readings of "
        f"what the covariance is taken over it falls beyond chance in {falling}."
    )
    caption = (
        f"Mean over the rounds 2 to {rounds}, ± the standard deviation over {len(batches)} "
        "repetitions of the whole experiment, each with training samples and test points of its "
        "own; the last column is lam = 9 less lam = 0, with the p-value of the t-test over the "
        "repetitions. The paper prints curves only."
    )
    table = Table(caption, ["", *(f"lam = {lam}" for lam in LAMS), "change"], rows)
    panels = [
        [Panel("errors of a member and of the vote before it", "round", "covariance",
               *by_lam(curves, "covariance", range(2, rounds + 1), 1))],
        [Panel("errors of the ensemble", "round", "test error in %",
               *by_lam(curves, "error", range(1, rounds + 1), 100))],
    ]  # fmt: skip
    pictures = {"curves": (figure(panels, panel=(520, 240)), "covariance and test error by round")}
    contents = [page.observations(observed), table]
    return page.Page(verdict, reason, contents, pictures, FIGURE_1_DEVIATIONS)


def change(differences, form):
    """Write a mean difference of independent repetitions, with its p-value."""
    return shift_text(shift(differences), form)


def by_lam(curves, key, rounds, scale):
    """Return curves of means over the batches, and bands of a standard error, by lam."""
    lines, bands = {}, {}
    for lam in LAMS:
        values = scale * curves("new", lam, key)[:, : len(rounds)]
        name = f"lam = {lam}"
        lines[name], bands[name] = with_error(rounds, values, 0.0, 100.0, {})
    return lines, bands


FIGURE_1_DEVIATIONS = [
    "The paper does not say where the Gaussians lie. Ours have unit variance and means 2 apart in "
    "both coordinates: the best possible error is 7.9 %.",
    "It does not say what a covariance is taken over. By its definition (III.A) it is training "
    "samples: each model has one of its own. The table has two other readings; the verdict is on "
    "the first.",
    "The trees have C4.5's gain ratio and its pruning, but not all of its rules.",
    f"The paper shows one experiment of {REPEATS} models for each lam; ours is repeated "
    f"{BATCHES} times, to know its spread. Bands are one standard error.",
]


# -- Figure 2 --------------------------------------------------------------------------------------

BOUNDARIES = 30


def figure_2_jobs(quick):
    """Each lam on the same training samples, each drawn anew."""
    return {
        (run, lam): page.step(regions, lam=lam, run=run)
        for run, lam in product(range(4 if quick else BOUNDARIES), LAMS)
    }


def figure_2_page(records, quick):
    records = page.only(records)
    runs = sorted(page.axis(records, 0))
    measures = {
        "length": ("length of the boundary", 1, 1),
        "regions": ("separate regions of both classes", 1, 1),
        "error": ("test error in %", 100, 2),
    }
    rows, changes = [], {}
    for key, (title, scale, digits) in measures.items():
        of = {lam: np.array([scale * records[run, lam][key] for run in runs]) for lam in LAMS}
        changes[key] = of[2] - of[0], of[9] - of[2]
        cells = [page.plus_minus(of[lam], digits=digits) for lam in LAMS]
        rows.append([title, *cells, *(change(some, "{:+.2f}") for some in changes[key])])
    titles = ["", *(f"lam = {lam}" for lam in LAMS), "from 0 to 2", "from 2 to 9"]
    caption = (
        f"Means ± standard deviations over {len(runs)} training samples, in the square of "
        f"{2 * EDGE:g} units a side that is drawn, by {CELLS} x {CELLS} cells; the straight line "
        f"that is best has length {4 * EDGE:g} along the cells, and 2 regions. The p-values are of "
        "the paired t-test over the samples, which are independent."
    )
    lengths, regions, errors = ([*map(shift, changes[key])] for key in measures)
    observed = [
        Observation("When lam = 2, fewer squares are produced than when lam = 0", falls(regions[0]),
                    f"regions {rows[1][4]}"),
        Observation("As lam is set higher, the boundary becomes smoother",
                    judge(map(falls, lengths)), f"length {rows[0][4]}, then {rows[0][5]}"),
        Observation("lam = 9 results in a better boundary still", falls(errors[1]),
                    f"error {rows[2][5]}"),
    ]  # fmt: skip
    verdict, words = page.overall(observed)
    reason = (
        f"from lam = 0 to 2 and 9 the boundary goes from {rows[0][1]} to {rows[0][2]} and "
        f"{rows[0][3]} units of length, and the separate regions from {rows[1][1]} to {rows[1][2]} "
        f"and {rows[1][3]}; {words}."
    )
    pictures = {"boundaries": (boundaries(records), "predictions at lam = 0, 2 and 9")}
    contents = [page.observations(observed), Table(caption, titles, rows)]
    return page.Page(verdict, reason, contents, pictures, FIGURE_2_DEVIATIONS)


def boundaries(records):
    """Draw the predictions of the models of the first sample, and the sample."""
    data = datasets.two_gaussians(400, seed=0)
    places = (data.X + EDGE) * CELLS / (2 * EDGE)
    points = [[(x, y) for x, y in places[data.y == label] if 0 < x < CELLS and 0 < y < CELLS]
              for label in (0, 1)]  # fmt: skip
    return maps([Map(f"lam = {lam}", records[0, lam]["runs"], *points) for lam in LAMS], CELLS)


FIGURE_2_DEVIATIONS = [
    FIGURE_1_DEVIATIONS[0],
    FIGURE_1_DEVIATIONS[2],
    "The paper shows one boundary for each lam and judges by the eye. Ours are of the first of "
    f"{BOUNDARIES} training samples, and length and regions are counted on all of them; the test "
    "error is on 10,000 further points.",
]


# -- Figure 3 --------------------------------------------------------------------------------------

PENALTIES = 0, 1, 2, 3, 4, 6, 9, 12
RUNS = 30
NETWORK_RUNS = 5  # of networks, which take long
HIDDEN, EPOCHS = (5,), 50  # units of the hidden layer, and steps of L-BFGS, of a network
QUICK_SETS, LARGE = ("promoter", "sonar", "german"), [*SETS][-6:]
KINDS = {"tree": "trees", "MLP": "networks"}
NEARLY = 0.97  # A classifier is empty if its errors exceed 0.97 times those of the larger class.


def has_networks():
    """Return True if scikit-learn, which has the networks, is installed."""
    return importlib.util.find_spec("sklearn") is not None


def figure_3_jobs(quick):
    """Each base learner on each set and split; quick: three sets, few splits and values of lam."""
    lams, jobs = [0, 2, 9] if quick else [*PENALTIES], {}
    runs = {"tree": 4, "MLP": 2} if quick else {"tree": RUNS, "MLP": NETWORK_RUNS}
    for run, name in product(range(RUNS), QUICK_SETS if quick else SETS):
        data, train = SETS[name]
        for base in ("tree", "MLP") if has_networks() and data != FIXED else ("tree",):
            if run < runs[base]:
                how = {"data": data, "train": train, "run": run, "base": base, "lams": lams}
                jobs[run, name, base] = page.step(penalties, **how)
    return jobs


def figure_3_page(records, quick):
    errors = gather(records)
    lams = next(iter(records.values()))[0]["arguments"]["lams"]
    results = {base: {} for base in page.axis(records, 2)}
    for (name, base), some in errors.items():
        results[base][name] = Choice.of(*some, lams)
    observed = [*improvement(results), *by_learner(errors, lams, results),
                sensitivity(errors, lams, results)]  # fmt: skip
    verdict, words = page.overall(observed)
    counts = " and ".join(
        f"with {KINDS[base]} on {sum(one.honest.down for one in some.values())} of {len(some)} sets"
        for base, some in results.items()
    )
    best = "the best lam, chosen on other runs, lowers the error beyond chance"
    contents = [page.observations(observed), *(choices(*item) for item in results.items()), BIAS]
    contents += [bias(results), *empty({name: one.after for name, one in results["tree"].items()})]
    deviations = [*DEVIATIONS, *FIGURE_3_DEVIATIONS]
    if "MLP" not in results:
        deviations.append("Left out: networks, as scikit-learn is not installed.")
    caption = "errors by lam; bands are one standard error of the difference from lam = 0"
    pictures = {"curves": (penalty_curves(errors, lams), caption)}
    return page.Page(verdict, f"{best} {counts}; {words}.", contents, pictures, deviations)


def gather(records):
    """Return {(set, kind): (wrong rows (runs, settings), numbers of rows for the t-test)}.

    The corrected t-test takes the numbers of training and test rows. A fixed split has none: its
    runs differ by their draws alone, so that there is no overlap to correct for.
    """
    each = {(name, kind): [] for _, name, kind in records}
    for (_, *key), (record,) in sorted(records.items(), key=lambda item: item[0][0]):
        each[tuple(key)].append(record)
    errors = {}
    for key, some in each.items():
        is_fixed = some[0]["arguments"]["data"] == FIXED
        counts = {kind: some[0][f"{kind}_rows"] for kind in ("train", "test") if not is_fixed}
        errors[key] = np.array([record["wrong"] for record in some]), counts
    return errors


class Choice(NamedTuple):
    """Best lam on a set: on the runs that chose it, and on other runs."""

    lam: float  # of the lowest mean of all runs, 0 apart
    halves: tuple  # of the lowest mean of the runs with even and with odd numbers
    before: float  # wrong rows at lam = 0
    after: float  # and at the best lam
    seen: Shift  # from lam = 0 to the best, all runs
    honest: Shift  # from lam = 0 to the lam that is best on the other half of the runs
    last: Shift  # from there to the largest lam

    @classmethod
    def of(cls, wrong, rows, lams):
        tried = [k for k, lam in enumerate(lams) if lam > 0]

        def best(runs):
            return min(tried, key=lambda k: (wrong[runs, k].mean(), k))

        every, halves = best(slice(None)), [best(slice(first, None, 2)) for first in (0, 1)]
        other = np.array([wrong[run, halves[1 - run % 2]] for run in range(len(wrong))])
        none = lams.index(0)
        return cls(
            lams[every], tuple(lams[k] for k in halves),
            float(wrong[:, none].mean()), float(wrong[:, every].mean()),
            shift(wrong[:, every] - wrong[:, none], **rows),
            shift(other - wrong[:, none], **rows),
            shift(wrong[:, -1] - other, **rows),
        )  # fmt: skip


def improvement(results):
    """Yield observation 1, for each base learner."""
    for base, some in results.items():
        sure = [name for name in some if some[name].honest.down]
        worse = [name for name in some if some[name].honest.up]
        why = f"fewer errors beyond chance on {len(sure)} of {len(some)} sets "
        why += f"({page.listing(sure)}), more on {len(worse)} ({page.listing(worse)})"
        large = [name for name in some if name in LARGE]
        why += f"; of the {len(large)} larger sets on {len([n for n in sure if n in LARGE])}"
        claim = f"A proper lam generally improves on AdaBoost with {KINDS[base]}, especially on "
        verdict = HOLDS if len(sure) > len(some) / 2 else PARTLY if sure else FAILS
        yield Observation(claim + "the last six sets", verdict, why)
    trees = results["tree"]
    expected = {"crx": (3, 4, 6), "insurance": (12,)}
    if domains := [name for name in expected if name in trees]:
        verdict = judge(HOLDS if trees[name].lam in expected[name] else FAILS for name in domains)
        why = ", ".join(f"{name} {trees[name].lam:g}" for name in domains)
        same = [name for name in trees if len({*trees[name].halves}) == 1]
        why += f"; the two halves of the runs agree on the best lam on {len(same)} of {len(trees)}"
        claim = "The best lam depends on the set: about 4 on crx, 12 or more on insurance"
        yield Observation(claim, verdict, why)


def by_learner(errors, lams, results):
    """Yield observation 2: on german lam = 2 is best for trees, lam = 9 for networks."""
    if ("german", "MLP") not in errors:
        return
    low, high = lams.index(2), lams.index(9)
    shifts = []
    for base, first, second in (("tree", low, high), ("MLP", high, low)):
        wrong, rows = errors["german", base]
        shifts.append(shift(wrong[:, first] - wrong[:, second], **rows))
    why = (
        f"wrong rows at lam = 2 less those at 9, trees: {shift_text(shifts[0])}; at 9 less those "
        f"at 2, networks: {shift_text(shifts[1])}; best lam {results['tree']['german'].lam:g} and "
        f"{results['MLP']['german'].lam:g}"
    )
    claim = "The best lam depends on the base learner: on german 2 with trees, 9 with networks"
    yield Observation(claim, judge(map(falls, shifts)), why)


def sensitivity(errors, lams, results):
    """Return observation 3: networks are less sensitive, and trees get worse at a large lam."""
    verdicts, why = [], []
    names = [name for name, base in errors if base == "MLP"]
    if names:
        spans = {}
        for name in names:
            runs = min(len(errors[name, base][0]) for base in ("tree", "MLP"))
            for base in ("tree", "MLP"):
                means = errors[name, base][0][:runs].mean(axis=0)
                spans.setdefault(base, []).append(100 * np.ptp(means) / max(means[0], 0.5))
        differences = np.subtract(spans["MLP"], spans["tree"])
        general = wilcoxon(differences, np.median(differences))
        verdicts.append(falls(general))
        why.append(
            f"over lam the error of networks ranges over {np.median(spans['MLP']):.0f} % of that "
            f"at lam = 0, that of trees over {np.median(spans['tree']):.0f} % (medians of the "
            f"sets; Wilcoxon {p_text(general.p)})"
        )
    trees = results["tree"]
    named = "promoter", "house-votes-84", "breast-w"
    worse = {name: trees[name].last for name in named if name in trees}
    verdicts += [falls(Shift(-one.mean, one.p)) for one in worse.values()]
    why += [f"trees, from the best lam to {lams[-1]}, {name}: {shift_text(one)}"
            for name, one in worse.items()]  # fmt: skip
    claim = "Networks are less sensitive to lam; a large lam harms trees, such as on promoter, "
    claim += "house-votes-84 and breast-w"
    return Observation(claim, judge(verdicts), "; ".join(why))


def shift_text(change, form="{:+.2f}"):
    return f"{form.format(change.mean)} ({p_text(change.p)})"


def choices(base, some):
    """Return the table of a base learner."""
    rows = [
        [name, f"{larger_class(name):.0f}", f"{one.before:.2f}", f"{one.after:.2f}", f"{one.lam:g}",
         "{:g} and {:g}".format(*one.halves), shift_text(one.seen), shift_text(one.honest)]
        for name, one in some.items()
    ]  # fmt: skip
    caption = (
        f"{KINDS[base].capitalize()}: wrong test rows if the larger class is always predicted, "
        "their mean number at lam = 0 and at the best lam, 0 apart; that lam by all runs, and by "
        "each half of them; and the change, where it is chosen (biased) and on the runs that had "
        "no part in the choice, with p-values of the corrected t-test."
    )
    titles = ["set", "larger class", "lam = 0", "best", "at lam", "by halves", "change, biased",
              "on other runs"]  # fmt: skip
    return Table(caption, titles, rows)


def bias(results):
    """Return a sentence on the bias of choosing lam on the test rows."""
    lines = []
    for base, some in results.items():
        seen, honest = (
            100 * fmean(getattr(one, key).mean / max(one.before, 0.5) for one in some.values())
            for key in ("seen", "honest")
        )
        lines.append(f"with {KINDS[base]} {seen:+.1f} % where lam is chosen and {honest:+.1f} % on "
                     "other runs")  # fmt: skip
    return f"Mean change of the error over the sets: {'; '.join(lines)}."


BIAS = (
    "The paper takes the best lam from the test rows, which flatters it. Here each run is also "
    "judged at the lam that is best on the other half of the runs; as their splits share rows, "
    "some bias is left."
)


def penalty_curves(errors, lams):
    """Draw errors by lam, in % of those at lam = 0."""
    panels = {}
    for (name, base), (wrong, rows) in errors.items():
        panel = panels.setdefault(name, Panel(name, "lam", "errors, % of lam = 0", {}, {}))
        none = wrong[:, [lams.index(0)]]
        curve = with_error(lams, wrong, none, none.mean(), rows)
        title = "C4.5-like trees" if base == "tree" else "MLP networks"
        panel.curves[title], panel.bands[title] = curve
    return in_rows_of_five([*panels.values()])


def in_rows_of_five(panels):
    return figure([panels[k : k + 5] for k in range(0, len(panels), 5)], panel=(190, 190))


def with_error(places, values, other, whole, rows):
    """Return the curve of means of values (runs, places), and its band, in % of `whole`.

    The band is a standard error of the difference from `other`, corrected for overlapping splits.
    """
    mean, train, test = values.mean(axis=0), rows.get("train", 1), rows.get("test", 0)
    error = page.corrected_error((values - other).std(axis=0, ddof=1), len(values), train, test)
    unit = 100 / max(whole, 0.5)
    curve, low, high = unit * mean, unit * (mean - error), unit * (mean + error)
    return [*zip(places, curve, strict=True)], [*zip(places, low, high, strict=True)]


@cache
def larger_class(name):
    """Return the number of wrong test rows if the larger class is always predicted."""
    source, train = SETS[name]
    data = datasets.load(source)
    if source == FIXED:
        return int((data.y[train:] != np.bincount(data.y[:train]).argmax()).sum())
    return (len(data.y) - train) * np.bincount(data.y).min() / len(data.y)


def empty(errors):
    """Yield a paragraph on the sets on which AdaBoost.NC is hardly better than the larger class."""
    texts = [f"{name}, {wrong:.1f} against {larger_class(name):.0f}"
             for name, wrong in errors.items() if wrong > NEARLY * larger_class(name)]  # fmt: skip
    if texts:
        yield (
            "Where AdaBoost.NC is about as good as the larger class for all rows, its gain is no "
            f"more than that of saying nothing: {'; '.join(texts)} wrong rows."
        )


DEVIATIONS = [
    FIGURE_1_DEVIATIONS[2],
    "Splits are stratified. A missing value goes to the side of a tree that is "
    "better in training; for networks it is the median.",
    "Table II has 15 attributes of house-votes-84; ours are the 16 of the repository. Of crx 489 "
    "rows train, as in the table; they are drawn, as its file of 201 test rows is not at hand.",
    "insurance has a test file: its runs differ by their draws alone. Their t-test is the plain "
    "one, and says nothing of other samples.",
]
FIGURE_3_DEVIATIONS = [
    f"lam is tried at {', '.join(map(str, PENALTIES))}, not at every value from 0 to 12.",
    "The paper does not say what its networks are. Ours have one hidden layer of "
    f"{HIDDEN[0]} units and {EPOCHS} steps of L-BFGS; for time they are run "
    f"{NETWORK_RUNS} times, and not at all on insurance.",
    "The paper has no test; it calls differences significant by the eye.",
]


# -- Figure 4 --------------------------------------------------------------------------------------

SMALL, STABLE = 21, 51  # members of a small ensemble, and from which on errors are stable
RARELY = 0.2  # fraction of cases up to which something is rare
MARKS = 5, 9, 15, 21, 31, 41, 51, 71, 101, 151, 201
SPLITS = range(8, 18)  # of the runs; the other runs of Figure 3 have chosen BEST
BEST = {  # lam by set
    "promoter": 2, "sonar": 1, "ionosphere": 1, "house-votes-84": 3, "crx": 3, "breast-w": 3,
    "pima": 12, "german": 2, "hypothyroid": 9, "insurance": 12,
}  # fmt: skip


def figure_4_jobs(quick):
    """AdaBoost and AdaBoost.NC with the best lam of Figure 3 on each set and split."""
    marks, jobs = [5, 21, 51, 71] if quick else [*MARKS], {}
    runs = SPLITS[: 3 if quick else None]
    for run, name in product(runs, QUICK_SETS if quick else SETS):
        data, train = SETS[name]
        for lam in (0, BEST[name]):
            how = {"data": data, "train": train, "run": run, "lam": lam, "marks": marks}
            jobs[run, name, lam] = page.step(sizes, **how)
    return jobs


def figure_4_page(records, quick):
    errors, names = gather(records), page.axis(records, 1)
    marks = next(iter(records.values()))[0]["arguments"]["marks"]
    pairs = {name: Pair.of(errors, name, marks) for name in names}
    observed = [*later_changes(pairs), small_ensembles(pairs), large_ensembles(pairs)]
    small, large = ([name for name in names if getattr(pairs[name], key).down]
                    for key in ("small", "large"))  # fmt: skip
    verdict, words = page.overall(observed)
    reason = (
        f"up to {SMALL} members AdaBoost.NC makes fewer errors than AdaBoost beyond chance on "
        f"{len(small)} of {len(names)} sets ({page.listing(small)}), with {marks[-1]} on "
        f"{len(large)} ({page.listing(large)}); {words}."
    )
    shown = [marks.index(mark) for mark in (5, SMALL, STABLE, marks[-1])]
    rows = [
        [name, f"{larger_class(name):.0f}", f"{pair.lam:g}",
         *(" / ".join(f"{wrong[:, k].mean():.1f}" for k in shown)
           for wrong in (pair.plain, pair.penalised)),
         shift_text(pair.small), shift_text(pair.large)]
        for name, pair in pairs.items()
    ]  # fmt: skip
    members = ", ".join(str(marks[k]) for k in shown)
    caption = (
        "Wrong test rows if the larger class is always predicted; mean numbers of them with "
        f"{members} members, of {len(pairs[names[0]].plain)} runs; the change from AdaBoost to "
        f"AdaBoost.NC, mean over the sizes up to {SMALL} and at {marks[-1]}, with p-values of the "
        "corrected t-test."
    )
    titles = ["set", "larger class", "lam", "AdaBoost", "AdaBoost.NC", f"change up to {SMALL}",
              f"at {marks[-1]}"]  # fmt: skip
    about = "errors by the number of members; bands: a standard error of the difference of the two"
    pictures = {"curves": (size_curves(pairs, marks), about)}
    ends = {name: pair.penalised[:, -1].mean() for name, pair in pairs.items()}
    contents = [page.observations(observed), Table(caption, titles, rows), *empty(ends)]
    return page.Page(verdict, reason, contents, pictures, [*DEVIATIONS, *FIGURE_4_DEVIATIONS])


class Pair(NamedTuple):
    """AdaBoost and AdaBoost.NC on a set: wrong rows, (runs, sizes), and their changes."""

    lam: float
    plain: np.ndarray
    penalised: np.ndarray
    small: Shift  # from AdaBoost to AdaBoost.NC, up to SMALL members
    large: Shift  # from AdaBoost to AdaBoost.NC, with the most members
    later: tuple  # from STABLE to the most members, of both
    rows: dict  # numbers of rows for the t-test

    @classmethod
    def of(cls, errors, name, marks):
        (plain, rows), (penalised, _) = errors[name, 0], errors[name, BEST[name]]
        few = [k for k, mark in enumerate(marks) if mark <= SMALL]
        stable = marks.index(STABLE)
        gain = penalised - plain
        return cls(
            BEST[name], plain, penalised,
            shift(gain[:, few].mean(axis=1), **rows), shift(gain[:, -1], **rows),
            tuple(shift(wrong[:, -1] - wrong[:, stable], **rows) for wrong in (plain, penalised)),
            rows,
        )  # fmt: skip


def later_changes(pairs):
    """Yield the observations on more members than STABLE: errors rarely rise, and rarely fall."""
    claims = {
        "rises": "More members do no harm: there is no overfitting",
        "falls": "Errors are stable from 41 to 51 members on; a significant reduction after that "
        "is rare",
    }
    for word, claim in claims.items():
        total, names = 2 * len(pairs), []
        for name, pair in pairs.items():
            names += [name for one in pair.later if (one.up if word == "rises" else one.down)]
        count = len(names)
        verdict = HOLDS if count <= RARELY * total else PARTLY if count <= total / 2 else FAILS
        why = f"from {STABLE} members to the most, the error {word} beyond chance in {count} of "
        yield Observation(claim, verdict, why + f"{total} cases ({page.listing(names)})")


def small_ensembles(pairs):
    gains = {
        key: [getattr(pair, key).mean / max(pair.plain[:, -1].mean(), 0.5)
              for pair in pairs.values()]
        for key in ("small", "large")
    }  # fmt: skip
    differences = np.subtract(gains["small"], gains["large"])
    general = wilcoxon(differences, differences.mean())
    names = "sonar", "ionosphere", "breast-w", "german"
    named = {name: pairs[name].small for name in names if name in pairs}
    why = (
        f"mean change of the error {100 * fmean(gains['small']):+.1f} % up to {SMALL} members and "
        f"{100 * fmean(gains['large']):+.1f} % with the most (Wilcoxon over the sets "
        f"{p_text(general.p)}); " + shift_texts(named)
    )
    claim = f"AdaBoost.NC is more effective when T is small, up to {SMALL}, such as on sonar, "
    verdict = judge([falls(general), *map(falls, named.values())])
    return Observation(claim + "ionosphere, breast-w and german", verdict, why)


def large_ensembles(pairs):
    equal = {name: pairs[name].large for name in ("crx", "breast-w", "german") if name in pairs}
    better = {name: pairs[name].large for name in ("pima", "hypothyroid", "insurance")
              if name in pairs}  # fmt: skip
    verdicts = [FAILS if one.p < LEVEL else HOLDS for one in equal.values()]
    verdicts += map(falls, better.values())
    claim = "With very many members both are similar on crx, breast-w and german, and AdaBoost.NC "
    why = shift_texts(equal | better)
    return Observation(claim + "is better on pima, hypothyroid and insurance", judge(verdicts), why)


def shift_texts(named):
    return "; ".join(f"{name} {shift_text(one)}" for name, one in named.items())


def size_curves(pairs, marks):
    """Draw errors by the number of members, in % of those of AdaBoost with the most."""
    panels = []
    for name, pair in pairs.items():
        how = pair.plain, pair.plain[:, -1].mean(), pair.rows
        plain, _ = with_error(marks, pair.plain, *how)
        curve, band = with_error(marks, pair.penalised, *how)
        both = {"AdaBoost": plain, "AdaBoost.NC": curve}, {"AdaBoost.NC": band}
        labels = f"{name}, lam = {pair.lam:g}", "members", "errors, % of AdaBoost"
        panels.append(Panel(*labels, *both))
    return in_rows_of_five(panels)


FIGURE_4_DEVIATIONS = [
    f"lam is the best, 0 apart, of {RUNS - len(SPLITS)} runs of our Figure 3, and the runs here "
    f"are on the splits of the other {len(SPLITS)}: the paper chooses and compares on the same, "
    "which flatters AdaBoost.NC.",
    f"There are {len(SPLITS)} runs, not 30, for time. A run has all its sizes from one training: "
    "the first members of an ensemble are those of a smaller one.",
    FIGURE_3_DEVIATIONS[-1],
]


TARGETS = {
    "adaboost-nc-figure1": page.Target(
        "AdaBoost.NC, Figure 1: covariance and test error by round",
        "The errors of a member and of the ensemble before it are less correlated at lam = 9 than "
        "at lam = 0, above all in the first rounds, and the test error is the lowest.",
        figure_1_jobs, figure_1_page, "It takes half a minute on one core."),
    "adaboost-nc-figure2": page.Target(
        "AdaBoost.NC, Figure 2: boundaries of the classes",
        "As lam grows, the boundary becomes smoother, with fewer small squares.",
        figure_2_jobs, figure_2_page, "It takes ten seconds on one core."),
    "adaboost-nc-figure3": page.Target(
        "AdaBoost.NC, Figure 3: errors by lam on ten data sets",
        "AdaBoost.NC with a proper lam generally makes fewer errors than AdaBoost; which lam that "
        "is depends on the set and on the base learner; a large one harms trees.",
        figure_3_jobs, figure_3_page, "It takes about three minutes on one core."),
    "adaboost-nc-figure4": page.Target(
        "AdaBoost.NC, Figure 4: errors by the number of members on ten data sets",
        "Neither AdaBoost nor AdaBoost.NC overfits as members are added; both are stable from "
        "about 50 on; AdaBoost.NC is more effective with few members.",
        figure_4_jobs, figure_4_page, "It takes about two minutes on one core."),
}  # fmt: skip

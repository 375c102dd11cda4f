"""Protocols of Yu, Li, Zhou 2011: Diversity Regularized Machine."""

from itertools import combinations, product
from statistics import fmean

import numpy as np

import datasets
from perf import draw
from perf.study import experiment, page, statistics
from perf.study.compare import LEVEL
from perf.study.experiment import Spec
from perf.study.methods import GRIDS
from perf.study.page import Table

REFERENCE = 'Y. Yu, Y.-F. Li, Z.-H. Zhou, "Diversity Regularized Machine", IJCAI 2011'
TRIALS = 20  # random halves
SIZES = (21, 51, 101)  # numbers of members
NUS = GRIDS["nu-svm"]["nu"]
MUS = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2]
MEMBER_TOL = 1e-4  # certified gap of the members of Bagging and AdaBoost

SETS = {  # of the paper: ours
    "austra": "australian", "australian": "crx", "breastw": "breastw", "clean1": "musk1",
    "diabetes": "pima", "ethn": "ethn", "german": "german-numer", "haberman": "haberman",
    "heart": "heart", "house-votes": "house-votes", "house": "house", "ionosphere": "ionosphere",
    "liver-disorders": "liver", "vehicle": "vehicle-saab-bus", "wdbc": "wdbc",
}  # fmt: skip
DRM, BAG, ADA = ([f"{kind} {size}" for size in SIZES] for kind in ("DRM", "Bag", "Ada"))
METHODS = [*DRM, "SVM", *BAG, *ADA]
ROWS = "train_rows", "test_rows"

# Mean and standard deviation of the test error in %, by set, in the order of METHODS.
TABLE_1 = {
    "austra": "14.1±0.6 14.1±0.5 14.1±0.5 13.8±0.4 15.7±0.8 15.4±0.7 15.4±0.7 20.6±1.6 20.6±1.5 "
              "20.7±1.4",
    "australian": "14.0±0.6 14.1±0.7 14.0±0.7 14.1±0.6 14.5±1.3 14.2±0.9 14.1±1.0 19.2±1.3 "
                  "19.1±1.2 18.5±1.5",
    "breastw": "6.3±3.9 6.3±3.9 6.3±3.9 6.4±3.9 4.6±1.2 4.6±1.1 4.5±0.9 4.5±1.3 4.4±1.1 4.5±1.2",
    "clean1": "35.8±2.9 42.0±3.3 42.7±4.4 51.2±1.3 50.0±0.5 49.8±0.8 49.9±1.0 37.9±3.1 31.4±3.0 "
              "28.2±2.2",
    "diabetes": "24.9±1.6 25.1±2.0 25.0±1.9 24.3±1.4 24.6±0.7 24.9±0.9 24.8±0.8 27.5±1.1 27.8±1.1 "
                "28.1±1.4",
    "ethn": "14.9±5.7 17.3±7.8 13.8±5.0 32.3±0.4 32.1±0.4 32.0±0.3 32.0±0.4 4.1±0.8 3.9±0.7 "
            "3.9±0.7",
    "german": "28.0±1.7 28.2±1.7 28.1±1.6 28.7±0.8 30.2±0.6 30.3±0.7 30.3±0.8 31.6±1.0 31.4±1.4 "
              "31.9±1.9",
    "haberman": "30.3±4.4 28.6±2.2 29.9±3.0 38.0±4.8 36.0±3.6 36.1±3.9 35.8±3.5 31.1±2.2 30.3±2.9 "
                "29.9±2.6",
    "heart": "19.6±1.8 19.9±2.1 19.8±2.1 19.0±1.7 21.0±2.0 21.2±2.6 21.3±2.6 24.8±3.2 25.6±2.9 "
             "25.9±3.2",
    "house-votes": "9.7±2.0 9.7±2.0 9.7±2.0 9.7±2.0 8.1±0.6 8.1±0.5 8.2±0.6 7.9±0.8 7.9±0.9 "
                   "7.8±1.0",
    "house": "6.3±1.9 6.3±1.8 6.3±1.9 6.3±1.9 5.1±0.6 5.0±0.6 5.2±0.7 6.4±1.6 6.6±1.5 6.6±1.5",
    "ionosphere": "33.7±1.4 33.4±1.5 32.6±2.5 33.7±1.4 32.4±0.6 32.4±0.6 32.4±0.5 25.8±2.0 "
                  "24.2±1.6 21.7±1.8",
    "liver-disorders": "36.4±3.5 36.1±3.5 36.5±3.9 36.9±4.3 36.2±3.0 35.9±2.9 35.9±3.0 33.8±3.5 "
                       "33.6±3.4 33.2±3.0",
    "vehicle": "22.6±2.0 21.8±1.9 22.1±4.3 24.3±1.2 25.0±1.6 24.8±1.9 24.8±1.6 4.0±0.9 3.4±1.1 "
               "2.7±0.9",
    "wdbc": "3.1±0.8 3.1±0.9 3.1±0.9 3.1±0.8 3.3±0.7 3.3±0.8 3.2±0.8 4.0±1.0 4.0±0.9 4.0±1.0",
}  # fmt: skip
AVERAGE_RANKS = dict(
    zip(METHODS, (4.87, 4.80, 4.93, 6.4, 6.00, 6.07, 5.60, 5.87, 5.37, 5.10), strict=True)
)

# Table 2: wins, ties and losses of a row against the methods that follow it in METHODS.
TABLE_2 = {
    "DRM 21": "1/14/0 1/14/0 5/10/0 7/7/1 6/6/3 7/6/2 6/4/5 6/3/6 6/3/6",
    "DRM 51": "6/3/6 5/10/0 6/8/1 6/6/3 6/7/2 7/4/4 6/3/6 6/3/6",
    "DRM 101": "4/11/0 5/10/0 5/8/2 5/9/1 6/3/6 6/3/6 6/3/6",
    "SVM": "3/9/3 3/8/4 3/9/3 6/2/7 6/2/7 6/2/7",
    "Bag 21": "0/15/0 0/14/1 7/2/6 7/2/6 7/2/6",
    "Bag 51": "0/15/0 6/3/6 5/4/6 6/3/6",
    "Bag 101": "6/3/6 6/3/6 6/3/6",
    "Ada 21": "1/10/4 1/10/4",
    "Ada 51": "0/11/4",
}


def printed(name, method):
    """Return an entry of Table 1."""
    mean, std = TABLE_1[name].split()[METHODS.index(method)].split("±")
    return page.Printed(float(mean), float(std), TRIALS)


def printed_counts(row, column):
    """Return an entry of Table 2."""
    return TABLE_2[row].split()[METHODS.index(column) - METHODS.index(row) - 1]


# -- Table 1 and Table 2 ---------------------------------------------------------------------------


def trial(data, number, sizes, nus, mus):
    """Train and test all methods on one random half.

    nu is chosen by cross-validation of the SVM and shared by all; then mu, for each size of DRM.
    Bagging and AdaBoost are trained once, with the most members: the first 21 of 101 are those of
    21. Records of the errors have the names of METHODS.
    """
    svm = _trial(data, "nu-svm", {}, number, {"nu": nus})
    nu, errors, chosen = svm["chosen"]["nu"], {"SVM": svm["test_error"]}, {}
    for size in sizes:
        drm = _trial(data, "drm", {"n_estimators": size, "nu": nu}, number, {"mu": mus})
        errors[f"DRM {size}"], chosen[f"DRM {size}"] = drm["test_error"], drm["chosen"]["mu"]
    errors |= _ensembles(datasets.load(data), number, sizes, nu)
    more = {key: svm[key] for key in ("majority_error", *ROWS)}
    return {"errors": errors, "nu": nu, "mu": chosen, **more}


def _trial(data, command, params, number, grid=None):
    """Return the record of one random half."""
    spec = Spec(data, command, params, trials=number + 1, grid=grid or {})
    (record,) = experiment.trials(spec, [number])
    return record


def _ensembles(data, number, sizes, nu):
    """Return test errors of Bagging and AdaBoost of SVMs, on the rows of the trial."""
    from solvers.adaboost_nc import AdaBoost
    from solvers.bagging import Bagging
    from solvers.drm import NuSVM

    train, test = next(datasets.splits(data.y, trials=number + 1, first=number))
    prep = datasets.Preprocess("minmax01").fit(data.X[train])
    X, X_test, y = prep.transform(data.X[train]), prep.transform(data.X[test]), data.y[train]
    base = NuSVM(nu=nu, tol=MEMBER_TOL)
    bag = Bagging(base, n_estimators=max(sizes), random_state=number)
    ada = AdaBoost(max(sizes), base, mode="resample", random_state=number)
    errors = {}
    for kind, model in (("Bag", bag), ("Ada", ada)):
        votes = model.fit(X, y).votes(X_test) * model.weights_
        for size in sizes:
            positive = votes[:, :size].sum(axis=1) >= 0
            errors[f"{kind} {size}"] = float(np.mean(positive != (data.y[test] == 1)))
    return errors


def table_1_jobs(quick):
    """All methods on all sets, the first trial of each set first; quick: small, on two sets."""
    names = ("heart", "house") if quick else SETS
    small = {"sizes": [3, 5, 7], "nus": [0.3, 0.7], "mus": [1e-6, 1e-4]}
    how = small if quick else {"sizes": list(SIZES), "nus": NUS, "mus": MUS}
    return {
        (name, number): page.step(trial, data=SETS[name], number=number, **how)
        for number, name in product(range(2 if quick else TRIALS), names)
    }


def table_1_page(records, quick):
    records, names = page.only(records), page.axis(records, 0)
    sizes = next(iter(records.values()))["arguments"]["sizes"]
    kinds = [[f"{kind} {size}" for size in sizes] for kind in ("DRM", "Bag", "Ada")]
    keys = [*kinds[0], "SVM", *kinds[1], *kinds[2]]  # other than METHODS in a quick run
    cells, rows = {}, {}
    for (name, _), one in records.items():
        counts = {key: one[key] for key in ROWS}
        for method, key in zip(METHODS, keys, strict=True):
            record = {"test_error": one["errors"][key], **counts}
            cells.setdefault((name, method), []).append(record)
        rows[name] = tuple(counts.values())
    errors = {label: [record["test_error"] for record in some] for label, some in cells.items()}
    means = [[fmean(errors[name, method]) for method in METHODS] for name in names]
    ranks = page.average_ranks(METHODS, means)
    tests = {
        kind: {pair: count(errors, rows, *pair, corrected) for pair in combinations(METHODS, 2)}
        for kind, corrected in (("plain", False), ("corrected", True))
    }
    verdict = page.verdict(statements(ranks, tests, len(names)))
    first = Table(page.LEGEND, ["method", *names, "average rank"], [
        [method, *(page.beside(cells[name, method], printed(name, method)) for name in names),
         f"{ranks[method]:.2f} [{AVERAGE_RANKS[method]:.2f}]"]
        for method in METHODS
    ])  # fmt: skip
    contents = [
        first,
        count_table(tests, names),
        baselines(records, errors, names),
        choices(records),
    ]
    return page.Page(*verdict, contents, deviations=DEVIATIONS_1)


def count(errors, rows, one, two, corrected):
    """Return wins, ties and losses of a method against another, by t-tests over the trials."""
    counts = [0, 0, 0]
    for name, (train, test) in rows.items():
        differences = np.subtract(errors[name, one], errors[name, two])
        t, p = statistics.corrected_t(differences, train, test if corrected else 0)
        counts[1 if not p < LEVEL else 0 if t < 0 else 2] += 1
    return tuple(counts)


def statements(ranks, tests, sets):
    """Return the statements of the paper on Tables 1 and 2, {text: is true by the valid test}."""
    others = [method for method in METHODS if method not in DRM]
    total = {
        rivals[0].split()[0]: np.sum([tests["corrected"][pair] for pair in _pairs(rivals)], axis=0)
        for rivals in (["SVM"], BAG, ADA)
    }
    own = [tests["corrected"][pair] for pair in combinations(DRM, 2)]
    best = min(others, key=ranks.get)
    worst = max(DRM, key=ranks.get)
    text = {name: "/".join(map(str, counts)) for name, counts in total.items()}
    return {
        f"DRM has the best average ranks (at worst {ranks[worst]:.2f}, that of {worst}; the best "
        f"of the others is {ranks[best]:.2f} of {best})": bool(ranks[worst] < ranks[best]),
        f"DRM never loses to the SVM ({text['SVM']} wins, ties and losses, all sizes and {sets} "
        "sets together)": bool(total["SVM"][2] == 0),
        "DRM wins against the SVM on some set": bool(total["SVM"][0] > 0),
        f"it wins more often than it loses against Bagging ({text['Bag']})": bool(
            total["Bag"][0] > total["Bag"][2]),
        f"it is comparable with AdaBoost ({text['Ada']})": bool(
            total["Ada"][0] >= total["Ada"][2] / 2 and total["Ada"][2] >= total["Ada"][0] / 2),
        "its size makes no significant difference": all(a == c == 0 for a, _, c in own),
    }  # fmt: skip


def _pairs(rivals):
    """Pairs of DRM and others of the same size, or of each size and the SVM."""
    return zip(DRM, rivals if len(rivals) > 1 else rivals * len(DRM), strict=True)


def count_table(tests, names):
    rows = []
    for k, row in enumerate(METHODS[:-1]):
        cells = [""] * k
        for column in METHODS[k + 1 :]:
            plain, valid = ("/".join(map(str, tests[kind][row, column])) for kind in tests)
            cells.append(f"{plain}; {valid} [{printed_counts(row, column)}]")
        rows.append([row, *cells])
    caption = (
        f"Wins, ties and losses of rows against columns on {len(names)} sets, by two-sided t-tests "
        "at 5 %: first by the plain paired t-test, as in the paper, which takes splits that "
        "overlap for independent and rejects far too often; then by the corrected one (Nadeau, "
        f"Bengio 2003); in brackets the printed counts on {len(SETS)} sets, by the plain one. That "
        "of DRM 51 against DRM 101 is as scanned and cannot be right, as most of their errors are "
        "equal."
    )
    return Table(caption, ["", *METHODS[1:]], rows)


def baselines(records, errors, names):
    """Table of the printed SVM, ours and the larger class, in the order of DRM's gain."""
    rows, both = [], ("SVM", "DRM 51")
    for name in sorted(names, key=gain, reverse=True):
        theirs = [printed(name, method).mean for method in both]
        ours = [100 * fmean(errors[name, method]) for method in both]
        majority = [one["majority_error"] for (n, _), one in records.items() if n == name]
        cells = *theirs, *ours, 100 * fmean(majority)
        rows.append([name, *(f"{value:.1f}" for value in cells)])
    bad = [name for name, *cells in rows if float(cells[0]) > float(cells[-1])]
    caption = (
        "The SVM that DRM was compared with, in the order of what DRM of 51 gained over it in the "
        "paper, measured by the deviation of the SVM."
    )
    if bad:
        caption += (
            f" On {', '.join(bad)} the printed SVM is worse than always predicting the larger "
            "class, so that a gain over it says little."
        )
    titles = ["set", "SVM, printed", "DRM 51, printed", "SVM, ours", "DRM 51, ours"]
    return Table(caption, [*titles, "larger class"], rows)


def gain(name):
    """Return the gain of DRM of 51 over the SVM in the paper, in deviations of the SVM."""
    svm = printed(name, "SVM")
    return (svm.mean - printed(name, "DRM 51").mean) / svm.std


def choices(records):
    """Table of the number of times that each mu was chosen."""
    mus = next(iter(records.values()))["arguments"]["mus"]
    chosen = [one["mu"] for one in records.values()]
    rows = [
        [method, *(str(sum(mu[key] == value for mu in chosen)) for value in mus)]
        for method, key in zip(DRM, chosen[0], strict=True)
    ]
    caption = (
        "How often cross-validation chose each mu, of equally good ones the smallest. All that "
        "counts is mu T (T - 1), the weight on the norm of the one machine that all members are: "
        "more members need a smaller mu to be the same machine. With the smallest mu it is nearly "
        "the SVM."
    )
    return Table(caption, ["method", *(f"{value:g}" for value in mus)], rows)


DEVIATIONS_1 = [
    "Names are mapped by their size and by data that the same group published: austra is "
    "australian here (14 features), australian is crx with indicator columns, clean1 is musk1, "
    "diabetes is pima, german is german-numer, liver-disorders is liver, vehicle is saab against "
    "bus (435 rows).",
    "breastw has all 699 rows here, with medians in 16 gaps, and 683 there; gaps in crx are filled "
    "alike, and votes are indicator columns.",
    "The base of Bagging and AdaBoost is not printed. It is the SVM here, with the same nu, as the "
    "paper calls them ensembles of SVMs and its Bagging follows its SVM from set to set. AdaBoost "
    "draws samples by the weights; whether the paper's weighted rows instead is not printed.",
    "Neither grid is printed: nu is one of 0.1, 0.2, ..., 0.9, chosen for the SVM and shared by "
    f"all methods, then mu is one of {', '.join(f'{mu:g}' for mu in MUS)}, chosen for each T.",
    "Bagging and AdaBoost are trained with 101 members, of which the first 21 and 51 are those of "
    f"the smaller ones; the SVMs inside are solved to a gap of {MEMBER_TOL:g}.",
    "DRM is solved to its optimum, at which all members are equal, and mu counts each pair of "
    "members once. The halves are stratified.",
    "The SVM is the nu-SVM with squared slack and bounded norm of the paper's equation 2, T = 1; "
    "the paper's may be LIBSVM's.",
]


# -- Figure 1 --------------------------------------------------------------------------------------

CURVE_MUS = [float(f"{10.0 ** (k / 2):.3g}") for k in range(-16, -1)]  # 1e-8 to 0.1
CURVE_SETS = ("clean1", "ethn", "german", "haberman", "vehicle")  # where DRM 51 gained most
CURVE_SIZE = 51


def figure_1_jobs(quick):
    """Errors of DRM by mu on each half; quick: few and small, on one set."""
    small = {"size": 5, "nus": [0.3, 0.7], "mus": [1e-6, 1e-4, 1e-2]}
    how = small if quick else {"size": CURVE_SIZE, "nus": NUS, "mus": CURVE_MUS}
    return {
        (name, number): page.step(curve, data=SETS[name], number=number, **how)
        for name in (("haberman",) if quick else CURVE_SETS)
        for number in range(2 if quick else TRIALS)
    }


def curve(data, number, size, nus, mus):
    """Training and test errors of DRM for each mu on one half, and of the SVM, which chose nu."""
    svm, errors = _trial(data, "nu-svm", {}, number, {"nu": nus}), []
    for mu in mus:
        params = {"n_estimators": size, "nu": svm["chosen"]["nu"], "mu": mu}
        one = _trial(data, "drm", params, number)
        errors.append([one["train_error"], one["test_error"]])
    more = {key: svm[key] for key in ("majority_error", *ROWS)}
    return {"mus": mus, "errors": errors, "svm": [svm["train_error"], svm["test_error"]], **more}


def figure_1_page(records, quick):
    names = page.axis(records, 0)
    some = {name: [one for (n, _), (one,) in records.items() if n == name] for name in names}
    mus = some[names[0]][0]["mus"]
    drm = {name: 100 * np.array([one["errors"] for one in some[name]]) for name in names}
    svm = {name: 100 * np.array([one["svm"] for one in some[name]]) for name in names}
    both, test_only, agree, lower = [], [], [], []
    for name in names:
        train, test = (drm[name].mean(axis=0) - svm[name].mean(axis=0)).T
        gap = np.abs(np.subtract(*drm[name].mean(axis=0).T))
        changes = (drm[name][:, :, 1] - svm[name][:, 1:]).T
        highest = [interval(change, some[name])[2] for change in changes]
        clear = np.array(highest) < 0
        both += [name] if np.any((train < 0) & clear) else []
        test_only += [name] if np.any((train > 0) & clear) else []
        agree += (test[train <= 0] < 0).tolist()
        lower += [name] if gap.min() < abs(np.subtract(*svm[name].mean(axis=0))) else []
    half = len(names) / 2
    verdict = page.verdict({
        f"on half of the sets some mu lowers both the training error and, beyond chance, the test "
        f"error of the SVM ({page.listing(both)})": len(both) >= half,
        f"on half of the sets some mu lowers the test error beyond chance while the training error "
        f"is higher ({page.listing(test_only)})": len(test_only) >= half,
        f"where the training error of DRM is not above that of the SVM its test error is generally "
        f"lower ({sum(agree)} of {len(agree)} points)": 2 * sum(agree) > len(agree),
        f"the gap between test and training error can be smaller than that of the SVM "
        f"({page.listing(lower)})": len(lower) >= 0.75 * len(names),
    })  # fmt: skip
    contents = [curve_table(some, drm, svm, mus), hindsight(some, drm, svm, mus)]
    return page.Page(*verdict, contents, curve_picture(drm, svm, mus), DEVIATIONS_F)


def interval(change, records):
    """Return mean and 95 % interval of a change over the halves, by the corrected t-test."""
    return statistics.corrected_interval(change, *(records[0][key] for key in ROWS))


def curve_table(some, drm, svm, mus):
    rows = []
    for name in drm:
        majority = 100 * fmean(one["majority_error"] for one in some[name])
        for k, kind in enumerate(("training", "test")):
            cells = [page.plus_minus(one) for one in (svm[name][:, k], *drm[name][:, :, k].T)]
            rows.append([name, kind, *cells, f"{majority:.1f}" if k else ""])
    caption = (
        f"Errors in %, mean ± standard deviation over {len(next(iter(svm.values())))} random "
        "halves, of the SVM and of DRM by mu; last, of always predicting the larger class."
    )
    titles = ["set", "error", "SVM", *(f"{mu:.2g}" for mu in mus), "larger class"]
    return Table(caption, titles, rows)


def hindsight(some, drm, svm, mus):
    """Table of the mu with the lowest test error, against the SVM."""
    rows = []
    for name in drm:
        best = int(drm[name][:, :, 1].mean(axis=0).argmin())
        change = drm[name][:, best, 1] - svm[name][:, 1]
        mean, low, high = interval(change, some[name])
        rows.append([name, f"{mus[best]:.2g}", f"{mean:+.1f}", f"{low:+.1f} to {high:+.1f}"])
    caption = (
        "The mu with the lowest test error, chosen in hindsight, and the points that it adds to "
        "the test error of the SVM, with the 95 % interval of the corrected t-test, which does not "
        "know of the choice."
    )
    return Table(caption, ["set", "mu", "change", "interval"], rows)


def curve_picture(drm, svm, mus):
    places = np.log10(mus).tolist()
    rows = []
    for name in drm:
        train, test = drm[name].mean(axis=0).T.tolist()
        flat = svm[name].mean(axis=0).tolist()
        ends = places[0], places[-1]
        curves = {
            "DRM, training": list(zip(places, train, strict=True)),
            "DRM, test": list(zip(places, test, strict=True)),
            "SVM, training": [(x, flat[0]) for x in ends],
            "SVM, test": [(x, flat[1]) for x in ends],
        }
        rows.append([draw.Panel(name, "log10 of mu", "error in %", curves)])
    drawn = draw.figure(rows, panel=(560, 220))
    return {"mu": (drawn, "Training and test error of DRM against mu, and those of the SVM")}


DEVIATIONS_F = [
    "The plots of the paper could not be read, not even which sets they show. Shown are those of "
    "the five sets on which DRM of 51 gained most over the SVM by the paper's Table 1 that are "
    "available; the statements of the text are judged. A test error is lower beyond chance "
    "where the 95 % interval of the corrected t-test says so, for any one mu.",
    "T is 51, as far as the caption can be read. In every half nu is chosen for the SVM by 5-fold "
    "cross-validation, as in Table 1.",
    "Curves are not cut where errors are high.",
    *DEVIATIONS_1[0:1],
    *DEVIATIONS_1[5:],
]


TARGETS = {
    "drm-table1": page.Target(
        "DRM, Tables 1 and 2: test errors on fifteen data sets, and counts of wins",
        "DRM has the best average ranks of all methods, is never worse than the SVM and better on "
        "some sets, wins more often than it loses against Bagging and is comparable with AdaBoost; "
        "its size has no significant impact.",
        table_1_jobs, table_1_page, "It takes about a quarter of an hour on one core."),
    "drm-figure1": page.Target(
        "DRM, Figure 1: the effect of mu on training and test errors",
        "mu can reduce both the training and the test error of the SVM, or the test error alone; "
        "where the training error is not above that of the SVM the test error is generally lower, "
        "and the gap between the two can be smaller.",
        figure_1_jobs, figure_1_page, "It takes about two minutes."),
}  # fmt: skip

"""Tests for perf/papers/drm.py: pages, rules of the verdicts, experiments."""

import itertools

import numpy as np
import pytest
from scipy import stats

import datasets
from perf.papers import drm
from solvers.adaboost_nc import AdaBoost
from solvers.bagging import Bagging
from solvers.drm import NuSVM


def test_all_sets_but_ethn_are_built_in():
    data = {job.arguments["data"] for job in drm.table_1_jobs(False).values()}
    assert len(data) == 15
    with pytest.raises(datasets.DataError):
        datasets.locate("ethn")
    for name in data - {"ethn"}:
        assert len(datasets.load(name).classes) == 2


# -- verdicts --------------------------------------------------------------------------------------
FACTS = {"train_rows": 100, "test_rows": 100, "majority_error": 0.4}


def made_up(means, seed=0):
    """Make up ten trials on all sets; the errors of methods scatter around means, in %."""
    rng, records = np.random.default_rng(seed), {}
    arguments = {"sizes": list(drm.SIZES), "mus": [1e-4]}
    shared = {"arguments": arguments, "mu": dict.fromkeys(drm.DRM, 1e-4), **FACTS}
    for cell in itertools.product(drm.SETS, range(10)):
        errors = {m: rng.normal(*means[m.split()[0]]) / 100 for m in drm.METHODS}
        errors |= dict.fromkeys(drm.DRM, errors["DRM 21"])
        records[cell] = [{"errors": errors, **shared}]
    return records


def test_verdict_on_the_tables():
    good = {"DRM": (20, 0.1), "SVM": (25, 0.1), "Bag": (25, 0.1), "Ada": (22, 9.0)}
    assert drm.table_1_page(made_up(good), False).verdict == "holds"
    page = drm.table_1_page(made_up(good | {"SVM": (15, 0.1)}), False)
    assert page.verdict == "partly holds" and "0/0/45" in page.reason
    assert "DRM never loses to the SVM" in page.reason.partition("Not confirmed: ")[2]
    bad = dict.fromkeys(("SVM", "Bag", "Ada"), (15, 0.1)) | {"DRM": (20, 0.1)}
    reason = drm.table_1_page(made_up(bad), False).reason
    assert reason.startswith("confirmed: its size makes no significant difference. Not c")


def made_up_curves(train, test):
    """Make up records in which DRM adds these points to the errors of the SVM, by mu."""
    rng, records = np.random.default_rng(0), {}
    mus = np.logspace(-5, -2, len(train)).tolist()
    for cell in itertools.product(drm.CURVE_SETS, range(5)):
        svm = np.array([0.2, 0.3]) + 0.01 * rng.normal()
        errors = (svm + np.column_stack([train, test]) / 100).tolist()
        records[cell] = [{"svm": svm.tolist(), "errors": errors, "mus": mus, **FACTS}]
    return records


def test_verdict_on_the_figure():
    page = drm.figure_1_page(made_up_curves([-1, 2], [-3, -1]), False)
    assert page.verdict == "holds"
    page = drm.figure_1_page(made_up_curves([1, 2], [-1, 3]), False)
    assert page.verdict == "partly holds" and "(0 of 0 points)" in page.reason
    page = drm.figure_1_page(made_up_curves([-2, 0], [1, 2]), False)
    assert page.verdict == "does not hold"
    change = page.contents[1].rows[0]
    assert change[1:3] == ["1e-05", "+1.0"]


# -- experiments -----------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(3))
def test_counts_are_those_of_scipy(seed):
    rng = np.random.default_rng(seed)
    rows = {f"set {k}": (60, 40) for k in range(40)}
    errors = {(name, m): rng.normal(0.3, 0.05, 12) for name in rows for m in ("a", "b")}
    for name in list(rows)[:20]:
        errors[name, "b"] += rng.choice([-0.06, 0.06])
    errors["set 0", "b"] = errors["set 0", "a"]
    plain, valid = [0, 0, 0], [0, 0, 0]
    for name in rows:
        a, b = errors[name, "a"], errors[name, "b"]
        t, p = stats.ttest_rel(a, b)
        plain[1 if not p < 0.05 else int(t > 0) * 2] += 1
        # t with a larger variance of the mean: 1 / J becomes 1 / J + test / train.
        t *= np.sqrt((1 / 12) / (1 / 12 + 40 / 60))
        p = 2 * stats.t.sf(abs(t), 11)
        valid[1 if not p < 0.05 else int(t > 0) * 2] += 1
    assert list(drm.count(errors, rows, "a", "b", False)) == plain
    assert list(drm.count(errors, rows, "a", "b", True)) == valid
    assert plain[0] > 0 < plain[2] and valid[1] > plain[1]


def test_a_trial_is_what_the_methods_give_alone():
    record = drm.trial("house", 1, [3, 5], [0.5], [1e-9])
    data = datasets.load("house")
    (train, test) = list(datasets.splits(data.y, trials=2))[1]
    X, y = data.X, data.y  # Votes are indicator columns, in [0, 1] already.
    svm = NuSVM(nu=0.5)
    assert record["nu"] == 0.5 and record["mu"] == {"DRM 3": 1e-9, "DRM 5": 1e-9}
    error = 1.0 - svm.fit(X[train], y[train]).score(X[test], y[test])
    names = ("SVM", "DRM 3", "DRM 5")
    assert np.allclose([record["errors"][name] for name in names], error)
    svm.set_params(tol=drm.MEMBER_TOL)
    for size in (3, 5):
        bag = Bagging(svm, n_estimators=size, random_state=1)
        ada = AdaBoost(size, svm, mode="resample", random_state=1)
        for kind, model in (("Bag", bag), ("Ada", ada)):
            error = 1.0 - model.fit(X[train], y[train]).score(X[test], y[test])
            assert np.isclose(record["errors"][f"{kind} {size}"], error)


def test_printed_tables_agree_with_themselves():
    means = [[drm.printed(name, method).mean for method in drm.METHODS] for name in drm.SETS]
    ranks = stats.rankdata(means, axis=1).mean(axis=0)  # of rounded errors, so ties are others
    assert abs(ranks - list(drm.AVERAGE_RANKS.values())).max() <= 0.25
    for row, column in itertools.combinations(drm.METHODS, 2):
        assert sum(map(int, drm.printed_counts(row, column).split("/"))) == 15
    order = sorted(drm.SETS, key=drm.gain, reverse=True)
    assert set(order[: len(drm.CURVE_SETS)]) == set(drm.CURVE_SETS)

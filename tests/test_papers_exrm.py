"""Tests for perf/papers/exrm.py: pages, rules of the verdicts, experiments."""

import gzip
import math

import numpy as np
import pytest
from scipy import stats

import datasets
from perf.papers import exrm
from solvers.exrm import ExRM
from tests.conftest import check_quick_page


def trials(error, number=4, spread=0.0, **more):
    """Make up records of trials with this mean error in %."""
    around = np.linspace(-spread, spread, number)
    facts = {"majority_error": 0.4, "train_rows": 150, "test_rows": 100, "train_error": 0.0} | more
    return [{"test_error": (error + step) / 100, **facts} for step in around]


# -- pages -----------------------------------------------------------------------------------------
def test_quick_page_of_the_figure_without_and_with_its_data(monkeypatch, tmp_path):
    monkeypatch.setenv("ENSOLVE_DATA", str(tmp_path))
    page, pictures = check_quick_page("exrm-figure1")
    assert pictures == {"lam", "optimum"}
    assert "ENSOLVE_DATA: ijcnn1." in page and "time grows as" not in page
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_200, 3))
    y = np.where(X[:, 0] + rng.normal(size=len(X)) > 1, 1, -1)
    lines = ["a,b,c,class", *(",".join(map(str, [*x, k])) for x, k in zip(X, y, strict=True))]
    (tmp_path / "ijcnn1.csv").write_text("\n".join(lines))
    page, pictures = check_quick_page("exrm-figure1")
    assert pictures == {"lam", "optimum", "convergence", "time"}
    assert "ENSOLVE_DATA" not in page and "time grows as" in " ".join(page.split())


# -- verdicts --------------------------------------------------------------------------------------
def made_up_table_1(changes):
    """Make up records with the printed errors, but for changes, {label: error}."""
    records, counts = {}, {"train_rows": 150, "test_rows": 50}
    for label in exrm.table_1_jobs(False):
        name, method, *rest = label
        row = exrm.TABLE_1.get(method, exrm.TABLE_1.get(f"L2-ExRM {method}"))
        printed = dict(zip(exrm.SETS, row, strict=True)).get(name, (15.0,))[0]
        if rest == ["free"]:
            records[label] = [{"errors": [printed / 100] * 3, **counts}]
        elif rest == ["shuffled"]:
            records[label] = [{"errors": {"AdaTree": [0.5, 0.5], "BagTree": [0.4, 0.5]}}]
        elif rest == ["optimum"]:
            records[label] = trials(20.0)
        else:
            off = 5.0 * (rest == ["none"]) + 3.0 * (rest == ["standard"])
            records[label] = trials(changes.get(label, printed) + off)
    return records


def table_1_page(changes):
    return exrm.table_1_page(made_up_table_1(changes), False)


def test_verdict_on_table_1():
    page = table_1_page({})
    assert page.verdict == "holds" and "0.0 points away" in page.reason
    page = table_1_page({("heart", "BagTree 10"): 10.0})
    assert page.verdict == "partly holds" and "(trees are ahead on heart)" in page.reason
    far = {(name, f"L2-ExRM {k}"): 40.0 for name in exrm.SETS for k in (10, 30)}
    assert table_1_page(far).verdict == "does not hold"


def test_notes_on_table_1_follow_from_the_records():
    detail, scalings, trees, others = table_1_page({("german", "L2-ExRM 30"): 99.0}).contents[1:]
    assert others.endswith(": none.")
    assert "none lies beyond" in detail.caption
    assert "with features [0, 1]." in scalings.caption  # its records have the printed errors
    assert "on australian, liver, heart are above" in trees.caption
    records = made_up_table_1({})
    records["sonar", 10, "free"][0]["errors"] = [0.5, 0.51]
    page = exrm.table_1_page(records, False)
    assert "0.8 of 16, lie sonar with 10. " in page.contents[1].caption
    records["heart", "DRM 30"] = trials(40.0, spread=1.0)
    assert "3: DRM 30 on heart." in exrm.table_1_page(records, False).contents[4]


def test_printed_errors_have_about_the_printed_ranks():
    means = np.array([[mean for mean, _ in row] for row in exrm.TABLE_1.values()])
    ranks = stats.rankdata(means, axis=0).mean(axis=1)
    assert abs(ranks - list(exrm.AVERAGE_RANKS.values())).max() <= 0.16
    ours = exrm.average_ranks(made_up_table_1({}), list(exrm.SETS), list(exrm.TABLE_1))
    assert np.allclose(list(ours.values()), ranks)


def test_verdict_on_table_2():
    def page(seconds):
        names = exrm.table_2_methods((10, 30))
        times = {name: seconds.get(name.split(",")[0], 1.0) for name in names}
        records = {("sonar", name): [{"cpu_seconds": [one]}] for name, one in times.items()}
        return exrm.table_2_page(records, False)

    assert page(exrm.SECONDS).verdict == "holds"
    assert page(exrm.SECONDS | {"AdaTree 10": 0.01}).verdict == "partly holds"
    slow = dict.fromkeys(exrm.SECONDS, 0.5) | {"L2-ExRM 10": 1.0, "L2-ExRM 30": 1.0}
    assert page(slow).verdict == "does not hold"


def test_verdict_on_table_3():
    def page(changes):
        records = {}
        for name, method, size in exrm.table_3_jobs(False):
            printed = exrm.TABLE_3[method.split(",")[0]][exrm.MEMBERS.index(size)]
            records[name, method, size] = trials(changes.get(method, printed))
        return exrm.table_3_page(records, False)

    assert page({}).verdict == "holds"
    assert page({"DRM": 10.0}).verdict == "partly holds"
    assert page({"DRM": 10.0, "L2-ExRM": 40.0}).verdict == "does not hold"
    assert "L2-ExRM 10 22.73 and 24.41" in page({}).contents[-1]


def made_up_figure(power=1.0, order=1.0, excess=0.0):
    """Make up records: errors depend on the members by `order`, times on the rows by `power`."""
    records = {}
    for label in exrm.figure_1_jobs(False):
        kind, p, size, *rest = label
        if kind == "lam":
            train = (0.3 - 0.01 * rest[0] + 0.001 * order * size) / p
            records[label] = trials(30.0 - 0.1 * order * size, train_error=train, spread=1.0)
        elif kind == "trace":
            trace = [100.0 + 100.0 * 0.5**k for k in range(20)]
            records[label] = [{"trace": trace, "optimum": trace[-1] - excess, "rows": 9}]
        else:
            seconds = [9e9, 1e-4 * size * rest[0] ** power]
            records[label] = [{"cpu_seconds": seconds, "iterations": [9, 9]}]
    return records


def test_verdict_on_the_figure():
    assert exrm.figure_1_page(made_up_figure(), False).verdict == "holds"
    for changes, text in (
        ({"power": 2.0}, "training time is linear"),
        ({"order": -1.0}, "test errors are in the reverse order there"),
        ({"order": -1.0}, "ensembles have a lower test error than PSVM there (gains of -2.9"),
        ({"excess": 5.0}, "it converges to the optimum"),
    ):
        page = exrm.figure_1_page(made_up_figure(**changes), False)
        assert page.verdict == "partly holds"
        assert text in page.reason.partition("Not confirmed: ")[2]


# -- experiments -----------------------------------------------------------------------------------
def naive_settled(trace):
    """Return the first iteration after which all values are within 1 % of the way to the end."""
    way = max(abs(value - trace[-1]) for value in trace)
    for k in range(len(trace)):
        if all(abs(value - trace[-1]) <= 0.01 * way for value in trace[k:]):
            return k + 1
    raise AssertionError("the last one is no way off")


@pytest.mark.parametrize("seed", range(5))
def test_settled_and_slope(seed):
    rng = np.random.default_rng(seed)
    trace = (rng.normal(size=30) * 0.7 ** np.arange(30)).tolist()
    assert exrm.settled({"trace": trace}) == naive_settled(trace)
    assert exrm.settled({"trace": [3.0, 3.0]}) == naive_settled([3.0, 3.0]) == 1
    power = rng.uniform(0.5, 2)
    times = {
        (2, 5, rows): {"cpu_seconds": [9e9, rows**power], "iterations": [rows]}
        for rows in (10, 50, 700)
    }
    assert math.isclose(exrm.slope(times, 2, 5), power)
    assert math.isclose(exrm.slope(times, 2, 5, each=True), power - 1.0)


def test_free_splits_are_trained_on_150_rows_of_all_classes():
    known = datasets.load("sonar")
    for number, error in enumerate(exrm.free_splits("sonar", 5, 2)["errors"]):
        rows = np.random.default_rng([1, number]).permutation(208)
        X, y = known.X[rows], known.y[rows]
        low, high = X[:150].min(axis=0), X[:150].max(axis=0)
        X = 2.0 * (X - low) / (high - low) - 1.0
        with pytest.warns(Warning, match="Algorithm 2"):
            model = ExRM(5, lam=2.0, p=2, solver="paper").fit(X[:150], y[:150])
        assert math.isclose(error, 1.0 - model.score(X[150:], y[150:]))


def test_free_splits_of_two_files_are_those_of_one(tmp_path):
    """Rows of one file in two, whose classes come in another order, give the same problem."""
    rows = datasets.DATA / "heart.csv.gz"
    head, *lines = gzip.decompress(rows.read_bytes()).decode().splitlines()
    last = [line for line in lines if line not in lines[:150]]
    for name, some in (("one", lines[:150] + last), ("first", lines[:150]), ("rest", last)):
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *some]))
    whole, first, rest = (str(tmp_path / f"{name}.csv") for name in ("one", "first", "rest"))
    assert exrm.free_splits(first, 3, 2, also=rest) == exrm.free_splits(whole, 3, 2)


def test_trees_learn_nothing_from_shuffled_labels_and_times_are_of_the_processor():
    errors = exrm.shuffled_trees("heart", 10, 10)["errors"]
    assert all(0.42 < np.mean(some) < 0.58 for some in errors.values())
    how = {"command": "exrm", "params": {"n_estimators": 2, "solver": "paper"}}
    seconds = exrm.training_time("heart", trials=3, rows=100, **how)["cpu_seconds"]
    assert len(seconds) == 3 and all(0 < one < 5 for one in seconds)

"""Tests for compare.py, workers.py and tables.py of perf/study/, and `cli.py compare`."""

import contextlib
import csv
import itertools
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import cli
import datasets
from perf.study import compare, experiment, methods, tables, workers
from perf.study.baselines import StumpVote
from perf.study.experiment import Spec
from perf.study.store import NAME, Store
from solvers.bagging import Bagging
from solvers.exrm import PSVM

pandas = pytest.importorskip("pandas")

ROOT = Path(__file__).resolve().parent.parent
QUICK = "psvm,stump-vote,bagging:n_estimators=3"
KILLS = 8


def start(*argv):
    """Start `cli.py compare` in a process group of its own, as a terminal does."""
    command = [sys.executable, "cli.py", "compare", *map(str, argv)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        command, cwd=ROOT, start_new_session=True, **pipes,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def run(*argv):
    """Run it in a process of its own; return what it prints."""
    process = start(*argv)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    return out


def main(*argv):
    """Run it in this process; return the exit code."""
    return cli.main(["compare", *map(str, argv)])


def kept(folder):
    """The records in a folder as they stand there, times aside."""
    lines = (folder / NAME).read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if "seconds" not in k} for line in lines]


def by_key(records):
    return sorted(records, key=lambda record: record["key"])


def wait_for(condition, process, seconds=120):
    end = time.monotonic() + seconds
    while not condition() and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.005)


def size(folder):
    path = folder / NAME
    return path.stat().st_size if path.exists() else 0


def compared(data, text, trials=3, measure="error", **options):
    """Records and document of a comparison in this process."""
    chosen, questions = compare.choose(text)
    cells = compare.plan(data, chosen, {"trials": trials, **options}, measure=measure)
    records = compare.run(cells, Store())
    return records, compare.collect(records, measure, questions)


@pytest.fixture(scope="module")
def three_sets(tmp_path_factory):
    """A folder in which three methods were compared on three sets, the text, and the flags."""
    folder = tmp_path_factory.mktemp("three")
    normal = np.random.default_rng(0).normal(size=(60, 3)).tolist()
    rows = [f"{x:.3f},{y:.3f},{'ab'[x + y + noise > 0]}" for x, y, noise in normal]
    data = f"sonar,heart,{folder / 'my_own.csv'}"
    argv = ["--data", data, "--methods", QUICK, "--trials", "4"]
    (folder / "my_own.csv").write_text("\n".join(["x,y,label", *rows]))
    return folder / "out", run(*argv, "--out", folder / "out"), argv


# -- names -----------------------------------------------------------------------------------------
def test_methods_with_options():
    text = "exrm:n_estimators=30,p=1, drm,voting:members=exrm+adaboost,weights=1+2,bagging:"
    found = methods.parse(text + "max-features=sqrt,stump-vote:how=best,drm")
    assert found == [
        ("exrm", {"n_estimators": 30, "p": 1}),
        ("drm", {}),
        ("voting", {"members": "exrm,adaboost", "weights": [1, 2]}),
        ("bagging", {"max_features": "sqrt"}),
        ("stump-vote", {"how": "best"}),
    ]
    assert methods.parse(",".join(methods.title(*one) for one in found)) == found
    for value in ("none", "true", "false", "1e-05", "3", "0.1", "sqrt", "1+2.5"):
        assert methods.title(*methods.parse(f"drm:gamma={value}")[0]) == f"drm:gamma={value}"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("--methods exm", "unknown method 'exm'. Did you mean 'exrm'?"),
        ("--methods ,", "unknown method ''"),
        ("--methods exrm,p=1", "'p=1' must follow a colon; write, say, exrm:p=1"),
        ("--methods p=1", "'p=1' must follow a colon; write, say, METHOD:p=1"),
        ("--methods exrm:lamb=1", "unknown parameter 'lamb=1' of exrm. Did you mean 'lam'?"),
        ("--methods exrm:", "unknown parameter '' of exrm"),
        ("--methods exrm:lam", "unknown parameter 'lam' of exrm"),
        ("--methods exrm:random_state=1", "unknown parameter 'random_state=1' of exrm"),
        ("--methods exrm:lam=-1", "ExRM: lam must be a finite number > 0, got -1"),
        ("--methods exrm:p=", "ExRM: p must be"),
        ("--data sonar,soanr", "soanr"),
        ("--jobs 0", "--jobs must be at least 1, got 0"),
        ("--data sonar,wine --measure auc", "--measure auc needs two classes and wine has 3"),
        ("--cv 500", "cv must be from 2 to"),
        ("--measure f1", "--measure"),
        ("--data sonar,{}/table.csv --out {}", "--out would overwrite --data"),
    ],
)
def test_mistakes_are_found_before_any_work(argv, message, capsys, tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("x,y\n" + "1,0\n2,1\n" * 10)
    usual = ["--data", "sonar", "--methods", "psvm", "--out", tmp_path / "out"]
    assert main(*usual, *argv.replace("{}", str(tmp_path)).split()) == 2
    assert message in capsys.readouterr().err and list(tmp_path.iterdir()) == [table]


def test_reading_flags_are_for_files(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("kind,x\n" + "a,1\nb,2\n" * 10)
    cells = compare.plan(["sonar", str(path)], [("psvm", {})], {}, {"label": "kind"})
    assert [cell.spec.read for cell in cells[:2]] == [{}, {"label": "kind"}]
    assert workers.read(cells[1].spec).classes == ["a", "b"]


# -- cells -----------------------------------------------------------------------------------------
def test_cells_are_trials_of_experiments():
    records, _ = compared(["heart"], QUICK, seed=5)
    for record in records:
        spec = Spec(**record["spec"])
        (alone,) = experiment.trials(spec, [record["trial"]])
        same = [key for key in alone if "seconds" not in key]
        assert {key: record[key] for key in same} == {key: alone[key] for key in same}


@pytest.mark.parametrize("splits", [{"train": 0.3}, {"cv": 4, "trials": 2}, {"train": 40}])
def test_all_methods_are_tested_on_the_same_rows(splits):
    records, _ = compared(["heart"], "psvm,stump-vote", **splits)
    assert len(records) == 2 * (8 if "cv" in splits else 3)
    data = datasets.load("heart")
    expected = [np.bincount(data.y[test]).tolist()
                for _, test in datasets.splits(data.y, **{"trials": 3, **splits})]  # fmt: skip
    for record in records:
        assert np.sum(record["confusion"], axis=1).tolist() == expected[record["trial"]]


def test_votes_without_learned_weights():
    data = datasets.load("sonar")
    X, y = data.X, data.y
    low, high = X.min(axis=0), X.max(axis=0)
    H = np.hstack([np.where(X > low + (high - low) * k / 11, 1, -1) for k in range(1, 11)])
    edges = H.T @ np.where(y == 1, 1, -1)
    H, edges = H * np.where(edges < 0, -1, 1), abs(edges)
    model = StumpVote().fit(X, y)
    assert model.votes(X).shape == H.shape
    np.testing.assert_allclose(model.decision_function(X), H.mean(axis=1), atol=1e-12)
    best = StumpVote("best").fit(X, y)
    assert best.weights_.tolist() == [1.0] and best.score(X, y) == (1 + edges.max() / len(y)) / 2
    assert model.residual_ is None and model.converged_


def test_the_best_member_is_chosen_on_the_training_rows():
    spec = Spec("sonar", "bagging", {"n_estimators": 7}, trials=2)
    data = datasets.load("sonar")
    splits = datasets.splits(data.y, trials=2)
    for record, (train, test) in zip(experiment.trials(spec), splits, strict=True):
        model = Bagging(n_estimators=7, random_state=record["trial"])
        wrong = (model.fit(data.X[train], data.y[train]).votes(data.X) >= 0).T != (data.y == 1)
        errors = [(tree[train].mean(), tree[test].mean()) for tree in wrong]
        seen, found = min(errors, key=lambda pair: pair[0])
        assert record["best_member"]["train_error"] == pytest.approx(seen)
        assert record["best_member"]["test_error"] == pytest.approx(found)
    (record,) = experiment.trials(Spec("wine", "bagging", {"n_estimators": 7}, trials=1))
    assert record["best_member"] is None  # trees of one class against the rest


def test_tuning_is_cross_validation_on_the_training_rows():
    values = [0.001, 0.05, 1.0, 20.0]
    spec = Spec("heart", "psvm", trials=3, train=0.3, grid={"lam": values})
    data = datasets.load("heart")
    for record in experiment.trials(spec):
        train, _ = list(datasets.splits(data.y, trials=3, train=0.3))[record["trial"]]
        X, y, errors = data.X[train], data.y[train], []
        for lam in values:
            wrong = []
            for some, others in datasets.splits(y, trials=1, cv=5, seed=record["trial"]):
                prep = datasets.Preprocess("minmax").fit(X[some])
                model = PSVM(lam=lam).fit(prep.transform(X[some]), y[some])
                wrong.append(1 - model.score(prep.transform(X[others]), y[others]))
            errors.append(np.mean(wrong))
        assert record["chosen"] == {"lam": values[int(np.argmin(errors))]}
        assert record["tuning_error"] == pytest.approx(min(errors))
        assert record["model"]["params"]["lam"] == record["chosen"]["lam"]


def test_what_a_method_refuses_is_not_chosen():
    spec = Spec("heart", "cqboost", trials=1, grid={"mu": [0.05, 0.99]})
    (record,) = experiment.trials(spec)
    assert record["chosen"] == {"mu": 0.05}
    with pytest.raises(ValueError, match="infeasible"):
        list(experiment.trials(Spec("heart", "cqboost", trials=1, grid={"mu": [0.98, 0.99]})))


def test_grids():
    for command, grid in methods.GRIDS.items():
        assert 1 < math.prod(map(len, grid.values())) <= 15
        for values in itertools.product(*grid.values()):
            params = dict(zip(grid, values, strict=True))
            methods.build(command, params, 0, 2)._check_params()
    cells = compare.plan(["heart"], [("drm", {"mu": 0.1}), ("exrm", {})], {}, tune=True)
    assert list(cells[0].spec.grid) == ["nu"] and list(cells[1].spec.grid) == ["lam"]


# -- long runs -------------------------------------------------------------------------------------
def test_kills_at_random_moments_change_nothing(tmp_path):
    """Every fourth kill comes at a random time, the others after a random number of bytes."""
    data = "gaussians:60,gaussians:80"
    argv = ["--data", data, "--methods", "psvm,stump-vote", "--trials", "200"]
    begin = time.monotonic()
    run(*argv, "--out", tmp_path / "whole")
    seconds, total = time.monotonic() - begin, size(tmp_path / "whole")

    torn, rng, codes = tmp_path / "torn", random.Random(0), []
    for kill in range(KILLS):
        goal, process = size(torn) + rng.randrange(total // KILLS), start(*argv, "--out", torn)
        if kill % 4:
            wait_for(lambda goal=goal: size(torn) > goal, process)
        else:
            time.sleep(rng.uniform(0.0, seconds / 2))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        codes.append(process.returncode)
        if codes[-1] == 0 and kill + 1 < KILLS:  # it was faster than the kill
            shutil.rmtree(torn)
    assert codes.count(-signal.SIGKILL) >= KILLS // 2

    text = run(*argv, "--out", torn)
    assert kept(torn) == kept(tmp_path / "whole") and len(kept(torn)) == 800
    assert run(*argv, "--out", torn) == text
    assert kept(torn) == kept(tmp_path / "whole")


def test_processes_give_the_same_numbers(tmp_path, three_sets):
    folder, text, argv = three_sets
    again = run(*argv, "--jobs", "2", "--out", tmp_path)
    assert by_key(kept(tmp_path)) == by_key(kept(folder))

    def timeless(text):  # and with columns of any width, which times have too
        return re.sub(r"\S+ m?s\b|\bFastest.*", "", text, flags=re.S).split()

    assert timeless(again) == timeless(text)


def test_more_trials_go_on_from_fewer(tmp_path):
    argv = ["--data", "heart", "--methods", "psvm", "--quiet", "--out", tmp_path, "--trials"]
    assert main(*argv, 2) == 0
    first = (tmp_path / NAME).read_text()
    assert main(*argv, 5) == 0
    assert (tmp_path / NAME).read_text().startswith(first)
    assert [record["trial"] for record in kept(tmp_path)] == [0, 1, 2, 3, 4]


def test_a_failing_method_leaves_the_others_whole(tmp_path, capsys):
    argv = ["--data", "heart", "--trials", "3"]
    assert main(*argv, "--methods", "psvm,stump-vote", "--out", tmp_path / "good") == 0
    mixed = ["--methods", "psvm,cqboost:mu=0.99,stump-vote", "--out", tmp_path / "mixed"]
    text = " ".join(run(*argv, *mixed, "--jobs", 2).split())
    found = kept(tmp_path / "mixed")
    assert by_key(r for r in found if "failure" not in r) == by_key(kept(tmp_path / "good"))
    failed = [record for record in found if "failure" in record]
    assert [record["trial"] for record in sorted(failed, key=lambda r: r["trial"])] == [0, 1, 2]
    assert "cqboost:mu=0.99 failed in 3 of 3 trials on heart and has no rank there" in text
    assert "mu=0.99 is infeasible" in text
    assert main(*argv, *mixed) == 0  # failures are tried again, and not written twice
    assert kept(tmp_path / "mixed") == found
    assert main(*argv, "--methods", "cqboost:mu=0.99") == 2
    assert "all 3 cells failed" in capsys.readouterr().err


def start_workers(folder, jobs=2):
    """A long run that has written something, and the numbers of its worker processes."""
    argv = ["--data", "sonar", "--methods", "psvm,exrm:sampling=bootstrap", "--trials", "2000"]
    process = start(*argv, "--jobs", jobs, "--out", folder)
    wait_for(lambda: size(folder) > 0, process)
    return process, children(process.pid)


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_keeps_what_is_finished(jobs, tmp_path):
    process, _ = start_workers(tmp_path, jobs)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does: to all processes
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and out == "" and kept(tmp_path)
    assert re.fullmatch("cli.py: interrupted; finished trials are in .*\n", err)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="finds processes in /proc")
def test_a_lost_worker_ends_the_run(tmp_path):
    process, workers = start_workers(tmp_path)
    os.kill(workers[0], signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2 and out == "" and kept(tmp_path)
    assert re.fullmatch(".*a worker process died.*rerun the same command.*\n", err)
    assert len(workers) == 2 and not any(map(alive, workers))


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="finds processes in /proc")
def test_workers_end_with_their_parent(tmp_path):
    process, workers = start_workers(tmp_path)
    process.kill()
    process.communicate()
    end = time.monotonic() + 30
    while any(map(alive, workers)):
        assert time.monotonic() < end
        time.sleep(0.05)


def children(parent):
    """Processes of multiprocessing that another one has started, its tracker left out."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_child = state(path.name)[1:2] == [str(parent)]
            if is_child and b"spawn_main" in (path / "cmdline").read_bytes():
                found.append(int(path.name))
    return found


def state(number):
    """State and parent of a process; empty if there is none."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return []


def alive(number):
    return state(number)[:1] not in ([], ["Z"])


# -- tables ----------------------------------------------------------------------------------------
def frame(folder):
    """The results in a folder as pandas reads them."""
    return pandas.json_normalize(kept(folder), sep="_", max_level=1)


def test_tables_agree_with_pandas(three_sets):
    folder, text, _ = three_sets
    results, table = frame(folder), pandas.read_csv(folder / "table.csv")
    assert len(results) == 3 * 3 * 4 and len(table) == 3 * (3 + 2)
    titles = {"psvm": "psvm", "stump-vote": "stump-vote", "bagging": "bagging:n_estimators=3"}
    results["method"] = results["spec_method"].map(titles)
    groups = results.groupby(["spec_data", "method"])["test_error"]
    means = groups.mean().unstack()
    ranks = means.round(12).rank(axis=1)
    for data, name in groups.groups:
        row = table[(table["data"] == data) & (table["method"] == name)].iloc[0]
        assert row["mean"] == pytest.approx(means.loc[data, name])
        assert row["std"] == pytest.approx(groups.std()[data, name])
        assert row["rank"] == ranks.loc[data, name]
    lines = text[text.index("all 3 data sets") :].splitlines()
    for name, rank in ranks.mean().items():
        line = next(line for line in lines if line.startswith(f"  {name} "))
        assert f"{100 * means[name].mean():.1f}" == line.split()[1]
        assert f"{rank:.2f}" == line.split()[2]
    majority = results.groupby(["spec_data", "trial"])["majority_error"].first().groupby(level=0)
    found = table[table["method"] == "majority class"].set_index("data")["mean"]
    assert found.to_dict() == pytest.approx(majority.mean().to_dict())
    order = results[results["members"] > 1].sort_values("best_member_train_error", kind="stable")
    best = order.groupby(["spec_data", "trial"])["best_member_test_error"].first()
    found = table[table["method"] == "best single member"].set_index("data")["mean"]
    assert found.to_dict() == pytest.approx(best.groupby(level=0).mean().to_dict())


def test_tests_agree_with_scipy(three_sets):
    folder, text, _ = three_sets
    records = [json.loads(line) for line in (folder / NAME).read_text().splitlines()]
    document = compare.collect(records)
    means = frame(folder).groupby(["spec_data", "spec_method"])["test_error"].mean().unstack()
    test = stats.friedmanchisquare(*means.to_numpy().T)
    assert document["across"]["friedman"]["statistic"] == pytest.approx(test.statistic)
    assert f"p = {test.pvalue:.3g}" in " ".join(text.split())
    random.Random(1).shuffle(records)
    shuffled = {one["data"]: one for one in compare.collect(records)["sets"]}
    for one in document["sets"]:
        rows = {row["method"]: row for row in one["methods"]}
        assert rows == {row["method"]: row for row in shuffled[one["data"]]["methods"]}
        errors = frame(folder).query("spec_data == @one['data']").pivot(
            index="trial", columns="spec_method", values="test_error"
        )  # fmt: skip
        best = one["best"].partition(":")[0]
        raw = []
        for name in (name for name in errors if name != best):
            t = errors[name].sub(errors[best])
            ratio = one["test_rows"]["mean"] / one["train_rows"]["mean"]
            error = t.std() * math.sqrt(1 / len(t) + ratio)
            raw.append(2 * stats.t.sf(abs(t.mean() / error), len(t) - 1) if error else 1.0)
        found = sorted(row["p"] for row in one["methods"] if row["p"] is not None)
        low, high = sorted(raw)
        assert found == pytest.approx([min(1, 2 * low), min(1, max(2 * low, high))])


def test_files_can_be_read(three_sets):
    folder, text, _ = three_sets
    assert all(len(line) <= 80 or os.sep in line for line in text.splitlines())
    assert "Over 3 data sets" in text and "Friedman" in text and "Nemenyi" in text
    with open(folder / "table.csv", newline="") as file:
        assert {len(row) for row in csv.reader(file)} == {13}
    marked, tex = (folder / "table.md").read_text(), (folder / "table.tex").read_text()
    piped = [line for line in marked.splitlines() if line.startswith("|")]
    assert len(piped) == 3 * (2 + 5) + (2 + 3)
    for page in (marked, tex):
        assert r"bagging:n\_estimators=3" in page and r"my\_own.csv" in page
    found = re.findall(r"\\begin{tabular}{(l?r+)}(.*?)\\end{tabular}", tex, re.S)
    assert len(found) == tex.count(r"\begin{tabular}") == 4
    for columns, body in found:
        lines = [line for line in body.splitlines() if line.endswith(r"\\")]
        counts = {len(re.findall(r"(?<!\\)&", line)) for line in lines}
        assert counts == {len(columns) - 1}


def test_names_are_escaped():
    odd = r"a_b%c&d#e$f{g}h~i^j\k<l|m"
    expected = (
        r"a\_b\%c\&d\#e\$f\{g\}h\textasciitilde{}i\textasciicircum{}j\textbackslash{}k$<$l$|$m"
    )
    assert tables.tex(odd) == expected
    assert tables.tex("a\nb\x1b[1m") == r"a\textbackslash{}nb\textbackslash{}x1b[1m"


def test_wide_tables_cut_the_names():
    options = "min_impurity_decrease=0.0001,min_samples_leaf=2,max_depth=9,n_estimators=1"
    records, document = compared(["sonar"], f"bagging:{options},bagging:{options}2", 2)
    for row in document["sets"][0]["methods"]:
        row["score"] |= {"mean": 1.0, "std": 0.123}
        row["members"] |= {"min": 1234567, "max": 2345678}
        row["fit_seconds"] = 98765432.1
    lines = tables.text(document).splitlines()
    assert all(len(line) <= 80 for line in lines)
    rows = [line for line in lines if "1234567-2345678" in line]
    assert len(rows) == 2 and all(re.match(r"  bag\w*:?\w*\.\.\w+=12? ", row) for row in rows)
    whole = re.sub(r"\n {17}(?=\w)", "", "\n".join(lines))
    assert f"bagging:{options}; bagging:{options}2" in whole


def test_changed_files_are_read_again(tmp_path):
    path = tmp_path / "own.csv"
    keys = []
    for classes in ("ab", "ac"):
        path.write_text("x,kind\n" + "".join(f"{k},{classes[k % 2]}\n" for k in range(20)))
        records, document = compared([str(path)], "psvm", 2)
        assert list(document["sets"][0]["classes"]) == list(classes)
        keys.append(records[0]["key"])
    assert keys[0] != keys[1]


@pytest.mark.parametrize("measure", ["error", "balanced", "auc"])
def test_measures(measure):
    records, document = compared(["haberman"], "psvm,stump-vote,bagging:n_estimators=9", 4, measure)
    (one,) = document["sets"]
    field = {"error": "test_error", "balanced": "balanced_error", "auc": "auc"}[measure]
    means = {row["method"]: row["score"]["mean"] for row in one["methods"]}
    for name, mean in means.items():
        own = [r[field] for r in records if r["spec"]["method"] == name.partition(":")[0]]
        assert mean == pytest.approx(np.mean(own))
    order = sorted(means, key=means.get, reverse=measure == "auc")
    assert [row["method"] for row in sorted(one["methods"], key=lambda r: r["rank"])] == order
    majority = one["baselines"]["majority class"]["mean"]
    assert majority == (pytest.approx(81 / 306, abs=0.01) if measure == "error" else 0.5)
    assert ("largest mean area" if measure == "auc" else "lowest mean") in tables.text(document)


def test_one_split_allows_no_test():
    _, document = compared(["heart"], "psvm,stump-vote", 1)
    assert [row["p"] for row in document["sets"][0]["methods"]] == [None, None]
    assert "One split allows no test" in " ".join(tables.text(document).split())


# -- questions -------------------------------------------------------------------------------------
def verdict_lines(text):
    return re.findall(r"^  (helped|harmed|undecided|unanswered) +(\S.*?)  +(\S.*)$", text, re.M)


def test_answers_are_intervals_of_the_corrected_test(monkeypatch):
    asked = (
        ("more trees", "bagging:n_estimators=25", "bagging:n_estimators=1"),
        ("fewer trees", "bagging:n_estimators=1", "bagging:n_estimators=25"),
        ("the same", "bagging:n_estimators=1,voting=hard", "bagging:n_estimators=1"),
    )
    monkeypatch.setattr(compare, "DIVERSITY", asked)
    records, document = compared(["german"], "diversity", 10)
    one, many = (
        np.array([r["test_error"] for r in records if r["spec"]["params"] == {"n_estimators": T}])
        for T in (1, 25)
    )
    change = many - one
    half = stats.t.ppf(0.975, 9) * change.std(ddof=1) * math.sqrt(1 / 10 + 1)
    first, second, third = document["questions"]
    assert (first["verdict"], second["verdict"]) == ("helped", "harmed")
    assert first["change"] == pytest.approx(change.mean())
    assert first["low"] == pytest.approx(change.mean() - half)
    assert first["high"] == pytest.approx(change.mean() + half)
    assert (third["verdict"], third["low"], third["high"]) == ("undecided", 0, 0)
    lines = verdict_lines(tables.text(document))
    percent = [100 * first[key] for key in ("change", "low", "high")]
    figures = "{:+.1f} ({:+.1f} to {:+.1f})".format(*percent)
    assert lines[0] == ("helped", "more trees", figures)
    assert lines[2] == ("undecided", "the same", "no change at all")


def test_answers_over_sets_are_of_their_means(monkeypatch):
    asked = (("more trees", "bagging:n_estimators=9", "bagging:n_estimators=1"),)
    monkeypatch.setattr(compare, "DIVERSITY", asked)
    records, document = compared(["sonar", "heart", "german"], "diversity", 3)
    table = {}
    for record in records:
        sign = 1 if record["spec"]["params"]["n_estimators"] == 9 else -1
        table.setdefault(record["spec"]["data"], []).append(sign * record["test_error"])
    means = [sum(values) / 3 for values in table.values()]
    (answer,) = document["questions"]
    expected = [np.mean(means), *stats.t.interval(0.95, 2, np.mean(means), stats.sem(means))]
    assert [answer[key] for key in ("change", "low", "high")] == pytest.approx(expected)
    assert sum(answer["sets"].values()) == 3 and len(verdict_lines(tables.text(document))) == 1


def test_a_question_whose_method_failed_is_not_answered(monkeypatch):
    asked = (("too much", "cqboost:mu=0.99", "cqboost:mu=0.05"),)
    monkeypatch.setattr(compare, "DIVERSITY", asked)
    _, document = compared(["heart"], "diversity", 2)
    assert verdict_lines(tables.text(document)) == [("unanswered", "too much", "a method failed")]


def test_the_preset_on_sonar(capsys):
    assert cli.main(["compare", "--data", "sonar", "--methods", "diversity", "--trials", "5"]) == 0
    text = capsys.readouterr().out
    assert all(len(line) <= 80 for line in text.splitlines())
    found = verdict_lines(text)
    assert [line[1] for line in found] == [text for text, _, _ in compare.DIVERSITY]
    assert text.rstrip().endswith(found[-1][2])

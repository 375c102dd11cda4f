"""Tests for perf/study/cluster.py and --scheduler; clusters are processes on 127.0.0.1."""

import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cli
from perf.study import compare, methods, workers
from perf.study.cluster import run
from perf.study.store import NAME, Store
from solvers.rows import cluster
from tests.test_compare import ROOT, alive, by_key, children, kept, main, size, start, wait_for

SECONDS = 60  # Limit of each wait.


def notes(path, count, **more):
    """Steps that append notes to a file; one with die=True kills its process."""
    return [
        workers.Step("tests.steps:note", {"path": str(path), "number": k, **more}, f"key-{k}")
        for k in range(count)
    ]


def noted(path):
    """Notes of the steps: [("begin" or "end", number, process)]."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [(event, int(number), int(pid)) for event, number, pid in map(str.split, lines)]


@contextlib.contextmanager
def dask(*words, cwd=ROOT, path=ROOT, **settings):
    """A process of Dask, ended with all processes that it has started."""
    env = os.environ | {"PYTHONPATH": str(path)} | settings
    command = [sys.executable, "-m", "dask", *map(str, words)]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=cwd, env=env, start_new_session=True, **pipes)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(SECONDS)


@contextlib.contextmanager
def scheduler(folder):
    """A scheduler; gives its process and address."""
    file = folder / "scheduler.json"
    here = ["--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0"]
    with dask("scheduler", *here, "--scheduler-file", file) as process:
        wait_for(file.exists, process, SECONDS)
        end, address = time.monotonic() + SECONDS, None
        while address is None and time.monotonic() < end:
            with contextlib.suppress(ValueError):  # Half written.
                address = json.loads(file.read_text())["address"]
        yield process, address


def worker(address, threads=1, **more):
    here = ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0", "--no-nanny"]
    return dask("worker", address, *here, "--nthreads", threads, **more)


@contextlib.contextmanager
def two_workers(folder):
    """A client of a scheduler with two workers."""
    with scheduler(folder) as (_, address), worker(address), worker(address):
        with cluster.connect(address) as client:
            client.wait_for_workers(2, timeout=SECONDS)
            yield client


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The address of a scheduler with two workers."""
    with two_workers(tmp_path_factory.mktemp("pair")) as client:
        yield client.scheduler.address


# -- equal results ---------------------------------------------------------------------------------
def test_a_scheduler_gives_equal_bits(pair):
    cells = compare.plan(["sonar", "heart"], methods.parse("exrm,stump-vote"), {"trials": 2})
    here, there = compare.run(cells, Store()), compare.run(cells, Store(), pair)

    def timeless(records):
        return [{k: v for k, v in one.items() if "seconds" not in k} for one in records]

    assert timeless(here) == timeless(there)
    assert list(run([], "tcp://127.0.0.1:1")) == []


def test_workers_get_one_cell_at_a_time(pair, tmp_path):
    records = run(notes(tmp_path / "log", 1000), pair)
    for _ in range(10):
        next(records)
    records.close()
    begun = sum(event == "begin" for event, _, _ in noted(tmp_path / "log"))
    assert 10 <= begun <= 12


def test_other_data_fail_their_cell(tmp_path, monkeypatch, capsys):
    """... and are read again when they are right."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    rows = "".join(f"{i},{i % 7},{'rosa' if i % 2 else 'alba'}\n" for i in range(40))
    for folder in (ours, theirs):
        folder.mkdir()
        (folder / "my.csv").write_text("a,b,species\n" + rows)
    monkeypatch.chdir(ours)
    with scheduler(tmp_path) as (_, address), worker(address, cwd=theirs):
        argv = ["--data", "my.csv", "--methods", "psvm", "--trials", "2", "--quiet"]
        assert main(*argv, "--scheduler", address) == 0
        (ours / "my.csv").write_text("a,b,species\n" + rows + "1,1,rosa\n")
        assert main(*argv, "--scheduler", address) == 2
        err = capsys.readouterr().err
        assert "all 2 cells failed; the first said worker tcp://127.0.0.1:" in err
        assert "my.csv is not the file that my.csv is where the run was started" in err
        shutil.copy(ours / "my.csv", theirs)
        for place in ([], ["--scheduler", address]):
            assert main(*argv, *place, "--json", tmp_path / f"{len(place)}.json") == 0
        documents = [json.loads((tmp_path / f"{k}.json").read_text()) for k in (0, 2)]
        scores = [one["sets"][0]["methods"][0]["score"] for one in documents]
        assert scores[0] == scores[1] and documents[1]["sets"][0]["rows"] == 41


# -- losses ----------------------------------------------------------------------------------------
def test_a_dead_worker_loses_only_its_cell(tmp_path):
    log = tmp_path / "log"
    steps = notes(log, 12, seconds=0.05)
    steps[5].arguments["seconds"] = 2.0  # Time to kill it.
    found, victims = [], []
    with two_workers(tmp_path) as client:
        for record in run(steps, client.scheduler.address):
            found.append(record["number"])
            running = [pid for event, k, pid in noted(log) if (event, k) == ("begin", 5)]
            if running and not victims:
                victims = running
                os.kill(*victims, signal.SIGKILL)
    assert victims and sorted(found) == list(range(12))
    assert sorted(k for event, k, _ in noted(log) if event == "end") == list(range(12))
    begun = [k for event, k, _ in noted(log) if event == "begin"]
    assert sorted(begun) == sorted([5, *range(12)])


def listening(pid):
    """Local addresses on which a process listens, from /proc."""
    files = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()]
    found = []
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in files:
                found.append(fields[1].partition(":")[0])
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="finds processes in /proc")
def test_a_killed_local_worker_is_replaced(tmp_path):
    """... and the records are equal bits, failures among them, each computed once."""
    argv = ["--data", "sonar", "--methods", "psvm,cqboost:mu=0.99,stump-vote", "--trials", "12"]
    there = [*argv, "--scheduler", "local:2", "--out", tmp_path / "there"]
    process = start(*there)
    wait_for(lambda: size(tmp_path / "there") > 0, process, SECONDS)
    pids = children(process.pid)
    assert len(pids) == 2
    loopback = {socket.inet_aton("127.0.0.1")[::-1].hex().upper()}
    assert set(listening(process.pid)) == set(listening(pids[0])) == loopback
    os.kill(pids[0], signal.SIGKILL)
    _, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (0, "")
    assert not any(map(alive, pids))
    assert main(*argv, "--quiet", "--out", tmp_path / "here") == 0
    assert by_key(kept(tmp_path / "there")) == by_key(kept(tmp_path / "here"))


def test_a_cell_in_which_workers_die_fails(tmp_path, monkeypatch):
    monkeypatch.setitem(cluster.SETTINGS, "distributed.scheduler.allowed-failures", 1)
    good = notes(tmp_path / "log", 6, seconds=0.1)
    bad = notes(tmp_path / "log", 1, seconds=0.5, die=True)  # Others on its worker end before.
    records = list(run([*bad, *good], "local:2"))
    (failed,) = (record for record in records if "failure" in record)
    text = "2 workers, one after another, died in tests.steps:note, perhaps for lack of memory"
    assert failed["failure"].startswith(text) and failed["arguments"]["die"]
    assert sorted(record["number"] for record in records if record != failed) == list(range(6))
    ended = [k for event, k, _ in noted(tmp_path / "log") if event == "end"]
    assert sorted(ended) == list(range(6))


def test_workers_that_die_every_time_end_the_run(tmp_path, monkeypatch):
    """... with one error, even if Dask refuses to end a worker that is just being started."""
    import distributed

    async def refuse(self, timeout=None):
        raise AssertionError("can only join a started process")

    before = multiprocessing.active_children()
    monkeypatch.setattr(distributed.process.AsyncProcess, "join", refuse)
    monkeypatch.setitem(cluster.SETTINGS, "distributed.scheduler.allowed-failures", 0)
    records = run(notes(tmp_path / "log", 100, die=True), "local:2")
    with pytest.raises(ChildProcessError, match="a worker died in .*rerun the same command"):
        for record in records:
            assert "failure" in record
    assert len(noted(tmp_path / "log")) <= 5
    assert set(multiprocessing.active_children()) <= set(before)
    assert [record["number"] for record in run(notes(tmp_path / "b", 1), "local:1")] == [0]
    assert set(multiprocessing.active_children()) <= set(before)


def test_the_scheduler_goes_away(tmp_path):
    argv = ["--data", "sonar", "--methods", "psvm", "--trials"]
    with scheduler(tmp_path) as (server, address), worker(address):
        process = start(*argv, 3000, "--scheduler", address, "--out", tmp_path / "out")
        wait_for(lambda: size(tmp_path / "out") > 0, process, SECONDS)
        server.kill()
        out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 2 and out == "" and len(err.splitlines()) == 1
    assert f"error: the scheduler {address} has gone away; with --out, finished cells" in err
    before = (tmp_path / "out" / NAME).read_text()
    assert before.endswith("\n")
    more = len(before.splitlines()) + 2
    assert main(*argv, more, "--quiet", "--out", tmp_path / "out") == 0
    after = (tmp_path / "out" / NAME).read_text()
    assert after.startswith(before) and len(after.splitlines()) == more


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="finds processes in /proc")
def test_an_interrupt_ends_the_local_workers(tmp_path):
    argv = ["--data", "sonar", "--methods", "psvm,exrm:sampling=bootstrap", "--trials", "2000"]
    process = start(*argv, "--scheduler", "local:2", "--out", tmp_path)
    wait_for(lambda: size(tmp_path) > 0, process, SECONDS)
    pids = children(process.pid)
    os.killpg(process.pid, signal.SIGINT)  # To all processes, like Ctrl-C.
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130 and out == "" and len(err.splitlines()) == 1
    assert err.startswith("cli.py: interrupted; finished trials are in ")
    assert kept(tmp_path) and pids and not any(map(alive, pids))


# -- refusals --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--scheduler", "local"], "--scheduler must be local:N or tcp://HOST:PORT, got 'local'"),
        (["--scheduler", "local:0"], "--scheduler must be local:N"),
        (["--scheduler", "127.0.0.1:8786"], "got '127.0.0.1:8786'"),
        (["--scheduler", "local:2", "--jobs", "2"], "--jobs: not allowed with argument"),
        (["--scheduler", "tcp://127.0.0.1:1"], "no scheduler answers at tcp://127.0.0.1:1; start"),
    ],
)
def test_wrong_places(argv, text, capsys, monkeypatch):
    monkeypatch.setattr(cluster, "REACH", 0.5)
    assert main("--data", "heart", "--methods", "psvm", *argv) == 2
    err = capsys.readouterr().err
    assert text in err and len(err.splitlines()) == 1


def test_without_dask(capsys, monkeypatch, tmp_path):
    for name in ("dask", "distributed"):
        monkeypatch.setitem(sys.modules, name, None)
    for k in (1, 2):
        (tmp_path / f"part{k}.csv").write_text("a,b,class\n1,2,u\n2,1,v\n")
    place = ["--scheduler", "local:2"]
    assert main("--data", "heart", "--methods", "psvm", *place) == 2
    assert cli.main(["psvm", "--data", str(tmp_path), *place]) == 2
    error = "cli.py: error: --scheduler needs Dask: pip install -e '.[scale]'\n"
    assert capsys.readouterr().err == 2 * error


def test_no_workers(tmp_path, monkeypatch):
    """... at first, or once the last one has left."""
    patience, log = cluster.PATIENCE, tmp_path / "log"
    with scheduler(tmp_path) as (_, address):
        monkeypatch.setattr(cluster, "PATIENCE", 0.5)
        with pytest.raises(ChildProcessError, match=r"has had no workers for 0.5 s; start workers"):
            list(run(notes(log, 2), address))
        monkeypatch.setattr(cluster, "PATIENCE", patience)
        with worker(address) as process:
            records = run(notes(log, 4, seconds=0.1), address)
            assert next(records)["number"] == 0
            process.kill()
            monkeypatch.setattr(cluster, "PATIENCE", 0.5)
            with pytest.raises(ChildProcessError, match="no workers for 0.5 s"):
                list(records)
    assert len(noted(log)) <= 4


def copy_with_a_change(folder):
    """The project with one line more."""
    for name in ("perf", "solvers", "data"):
        leave = shutil.ignore_patterns("__pycache__", "results", "*.md", "*.svg")
        shutil.copytree(ROOT / name, folder / name, ignore=leave)
    text = (ROOT / "datasets.py").read_text(encoding="utf-8")
    (folder / "datasets.py").write_text(text + "\n# a change\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("case", ["other files", "no project", "threads"])
def test_workers_that_differ(case, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    path = {"other files": lambda: copy_with_a_change(home), "threads": lambda: ROOT}
    more = {"path": path.get(case, lambda: home)(), "threads": 1 + (case == "threads")}
    text = {
        "other files": r"worker tcp://127.* has project \w+ and not \w+; start workers in a",
        "no project": r"worker tcp://127.* cannot be used: .*No module named 'solvers'.*; start",
        "threads": r"worker tcp://127.* has threads 2 and not 1; start workers in a checkout",
    }
    with scheduler(tmp_path) as (_, address), worker(address, cwd=home, **more):
        with pytest.raises((ValueError, ChildProcessError), match=text[case]):
            list(run(notes(tmp_path / "log", 3), address))
    assert noted(tmp_path / "log") == []


def test_late_workers_are_asked_by_their_tasks(pair, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster.Workers, "admit", lambda self, ours: ours.update(numpy="0.1"))
    text = r"tests.steps:note could not be run: ValueError: worker tcp.* has numpy .* and not 0.1;"
    with pytest.raises(ChildProcessError, match=text):
        list(run(notes(tmp_path / "log", 3), pair))
    assert noted(tmp_path / "log") == []

"""Tests for row blocks in memory, in files, and on the workers of a cluster."""

import gc
import gzip
import json
import multiprocessing
import os
import signal
import threading
import time
import weakref

import numpy as np
import pytest

import cli
from datasets import DataError, blocks
from solvers.gradient_boosting import GradientBoosting
from solvers.rows import cluster, local, newton, remote
from tests import steps
from tests.test_cluster import SECONDS, noted, scheduler, two_workers, worker
from tests.test_compare import alive, wait_for
from tests.test_rows import agree, check_blocks

SIZES = (40, 7, 25, 60, 33, 18)  # Rows of the blocks of `drawn`.


def drawn(sizes=SIZES, d=3, weighted=False, seed=0):
    """Arrays of several blocks, and all of them as one."""
    rng = np.random.default_rng(seed)
    made = [(rng.normal(size=(n, d)), rng.integers(0, 2, n), rng.random(n)) for n in sizes]
    made = made if weighted else [arrays[:2] for arrays in made]
    return made, [np.concatenate(arrays) for arrays in zip(*made, strict=True)]


def write(folder, made, save=np.savez):
    """Write blocks as .npz files whose order by letters is not that of their numbers."""
    folder.mkdir(exist_ok=True)
    for k, arrays in enumerate(made):
        names = ("X", "y", "sample_weight")
        save(folder / f"part{k + 7}.npz", **dict(zip(names, arrays, strict=False)))
    return folder


def write_text(folder, made, suffix=".csv"):
    """Write blocks as text that gives equal numbers: CSV, gzipped CSV or LIBSVM."""
    folder.mkdir(exist_ok=True)
    for k, (X, y) in enumerate(made):
        lines = ["a,b,c,class"]
        lines += [",".join([*map(repr, x), f"c{c}"]) for x, c in zip(X.tolist(), y, strict=True)]
        if suffix == ".svm":
            cells = [[f"{j}:{v!r}" for j, v in enumerate(x, 1) if v] for x in X.tolist()]
            lines = [" ".join([f"{2 * c - 1}", *row]) for row, c in zip(cells, y, strict=True)]
        text = "\n".join([*lines, ""]).encode()
        path = folder / f"part{k + 7}{suffix}"
        path.write_bytes(gzip.compress(text) if suffix.endswith(".gz") else text)
    return folder


def dask_arrays(whole, sizes=SIZES):
    import dask.array as da

    X, *others = whole
    X = da.from_array(X, chunks=(sizes, 2))
    return X, *(da.from_array(other, chunks=50) for other in others)


def same(found, made, n_jobs=1):
    """Assert that blocks hold these arrays, and that functions work on them as on a plain list."""
    starts = np.cumsum([0, *(len(X) for X, *_ in made)]).tolist()
    plain = [local.BlockData(*one).block(k) for one, k in zip(made, starts[:-1], strict=True)]
    assert found.shape == (starts[-1], made[0][0].shape[1]) and len(found) == len(made)
    assert found.is_weighted == (len(made[0]) == 3)
    how = {"n_jobs": n_jobs}
    assert found.map(steps.look, 2.0, **how) == [steps.look(block, 2.0) for block in plain]
    for value in (0.5, 0.25):  # The second fit replaces the arrays of the first one.
        for step in (steps.begin, steps.add, steps.add, steps.add):
            results = found.map_inplace(step, value, **how)
            assert results == [step(block, value) for block in plain]
    assert found.map(steps.stored, **how) == [steps.stored(block) for block in plain]


def resident():
    """Bytes of memory of this process, mapped files excluded."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon"))


# -- equal blocks in any place ---------------------------------------------------------------------
@pytest.mark.parametrize(("weighted", "n_jobs"), [(False, 1), (True, 2), (False, -1)])
def test_blocks_in_memory_and_files(weighted, n_jobs, tmp_path):
    made, whole = drawn(weighted=weighted)
    same(blocks(made), made, n_jobs)
    same(blocks(write(tmp_path / "a", made)), made, n_jobs)
    same(blocks(write(tmp_path / "b", made, np.savez_compressed)), made, n_jobs)
    same(blocks(*dask_arrays(whole)), made, n_jobs)
    X, *others = dask_arrays(whole)
    same(blocks(X, *whole[1:]), made, n_jobs)


@pytest.mark.uncompiled
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_text(suffix, tmp_path):
    made, _ = drawn()
    found = blocks(write_text(tmp_path / "a", made, suffix))
    assert found.classes == ["c0", "c1"]
    same(found, made)
    one = blocks(write_text(tmp_path / "b", made), positive="c0", drop="b", label="class")
    assert one.classes == ["c1", "c0"] and one.shape == (sum(SIZES), 2)
    ours = one.map(steps.look)
    assert [first for *_, first, _ in ours] == [str(1 - y[0]) for _, y in made]
    totals = [X[:, [0, 2]].sum() for X, _ in made]
    assert [total for _, _, total, *_ in ours] == pytest.approx(totals)


@pytest.mark.uncompiled
def test_svm_of_other_widths(tmp_path):
    """Features may be absent from some files, the last ones among them, and so may classes."""
    made, _ = drawn()
    made[0][0][:, 2] = 0.0
    made[1][1][:] = 1
    found = blocks(write_text(tmp_path / "a", made, ".svm"))
    assert found.classes == ["-1", "1"]
    same(found, made)
    assert blocks(tmp_path / "a", drop="x2").shape == (sum(SIZES), 2)


def test_classes_of_all_files(tmp_path):
    """... count, in the order of `load`, though no file may have all."""
    for k, labels in enumerate(("b b", "a a", "c b")):
        rows = [f"{k},{label}" for label in labels.split()]
        (tmp_path / f"{k}.csv").write_text("\n".join(["x,class", *rows, ",?", ""]))
    found = blocks(tmp_path)
    assert found.classes == ["a", "b", "c"]
    assert found.map(steps.labels) == [[1, 1], [0, 0], [2, 1]]
    for path in tmp_path.iterdir():
        text = path.read_text().replace("a", "10").replace("b", "2.0").replace("c", "2")
        path.write_text(text.replace("x,2l10ss", "x,class"))
    assert blocks(tmp_path).classes == ["2", "10"]
    assert blocks(tmp_path).map(steps.labels) == [[0, 0], [1, 1], [0, 0]]


def test_some_of_the_blocks():
    made, _ = drawn()
    whole = blocks(made)
    whole.map_inplace(steps.begin, 1.0)
    same(whole[2:5], made[2:5])
    assert whole.map(steps.stored)[2][1] == 0
    whole.clear()
    with pytest.raises(AttributeError):
        whole.map(steps.stored)
    with pytest.raises(DataError, match="none chosen"):
        whole[:0]


# -- out of core -----------------------------------------------------------------------------------
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="finds memory in /proc")
def test_files_are_mapped(tmp_path, monkeypatch):
    """... and so are attached arrays; nothing is left in the directory of temporary files."""
    made, _ = drawn((100_000,) * 4, d=20)
    plain = write(tmp_path / "plain", made)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    del made
    before = resident()
    found = blocks(plain)
    assert found.map(steps.mapped) == [[("memmap", False)] * 2 + [("memmap", True)]] * 4
    found.map_inplace(steps.begin, 1.0)
    assert found.map(steps.add, 1.0)[0][1] == 1
    assert resident() - before < 40e6  # Of 64 MB for X, and 128 MB of attached arrays.
    assert not any((tmp_path / "cache").iterdir())
    attached = weakref.ref(found._blocks[0].sums)
    del found
    gc.collect()
    assert attached() is None


def test_other_arrays_are_converted(tmp_path):
    made, _ = drawn()
    odd = [(np.asfortranarray(X), y.astype("U1")) for X, y in made]
    odd[1] = odd[1][0].astype(np.float32), odd[1][1]
    odd[2] = np.ascontiguousarray(odd[2][0]), odd[2][1]
    found = blocks(write(tmp_path / "a", odd))
    modes = [found[k : k + 1].map(steps.mapped)[0] for k in range(3)]
    assert [mode[0][1] for mode in modes] == [True, True, False]
    assert all(name == "memmap" for mode in modes for name, _ in mode)
    expected = [(np.ascontiguousarray(X, dtype=float), y) for X, y in odd]
    same(found, expected)


def test_no_room(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    made, _ = drawn()
    found = blocks(write(tmp_path / "a", made))
    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(DataError, match="320 bytes do not fit .No space left.*; set TMPDIR"):
        found.map_inplace(steps.begin, 1.0)


# -- refusals --------------------------------------------------------------------------------------
GOOD = np.zeros((3, 2)), np.zeros(3)
TEXT = "x,color,class\n1,red,a\n2,blue,b\n"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (np.zeros((3, 2)), r"got ndarray; for rows in memory call fit\(X, y\)"),
        ([], "a list of tuples .X, y., a directory or a Dask array, got list"),
        (None, "got NoneType"),
        ([np.zeros((3, 2))], "block 0 of the list: must be a tuple .X, y. or"),
        ([(np.zeros((3, 2)), None)], "block 0 of the list: needs X and labels y, and has no y"),
        ([(np.zeros((3, 2)), np.zeros(2))], "y must be 3 labels, one per row, got float64 .2,."),
        ([(np.zeros(3), np.zeros(3))], "X must be a table of numbers, got float64 .3,."),
        ([(np.zeros((3, 2)), np.zeros(3), np.zeros(4))], "sample_weight must be 3 numbers"),
        ([(np.zeros((0, 2)), np.zeros(0))], "block 0 of the list: has no rows"),
        ([GOOD, (np.zeros((3, 4)), np.zeros(3))], "block 1 .* has 4 columns and block 0 .* has 2"),
        ([GOOD, (*GOOD, np.ones(3))], "block 0 .* has no sample_weight, as block 1 of the list"),
        ("nowhere", "nowhere: cannot be read .No such file or directory.; give a directory"),
    ],
)
def test_wrong_sources(source, text):
    with pytest.raises(DataError, match=text):
        blocks(source)
    with pytest.raises(DataError, match="y and sample_weight are for Dask arrays"):
        blocks([GOOD], np.zeros(3))


def test_wrong_directories(tmp_path):
    made, _ = drawn()
    with pytest.raises(DataError, match="holds no data files; they are .npz, CSV"):
        blocks(tmp_path)
    write(tmp_path, made)
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".part.crc").write_text("")
    same(blocks(tmp_path), made)
    np.savez(tmp_path / "part8.npz", X=made[0][0])
    for name, content, text in (
        ("part8.npz", None, "part8.npz: needs X and labels y, and has no y"),
        ("part8.npz", b"PK nothing", "part8.npz: not an .npz file of plain arrays"),
        ("part8.parquet", b"", "part8.parquet: is no data file that can be read; move it"),
        ("part8.csv", b"", "holds .npz files and text"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=text):
            blocks(tmp_path)
        if content == b"":
            (tmp_path / name).unlink()
    with pytest.raises(DataError, match="npz files are read in one way only; leave out label"):
        blocks(write(tmp_path / "other", made), label="class")


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (TEXT, TEXT.replace("blue", "green"), "part2.csv, line 3, column 'color': 'green' is not "
         "in the first file, which has blue, red"),
        (TEXT, "x,color\n1,red\n2,blue\n", "part2.csv: has no labels, as the first file has"),
        (TEXT, "x,class\n1,a\n", "part2.csv: lacks columns used in training: color"),
        (TEXT.replace(",b", ",a"), "", "part1.csv and the other files: only one class, a; two"),
        ("x,class\n" + "".join(f"1,{k}.5\n" for k in range(30)), "", "30 distinct labels look"),
    ],
)  # fmt: skip
def test_wrong_text(first, second, text, tmp_path):
    (tmp_path / "part1.csv").write_text(first)
    if second:
        (tmp_path / "part2.csv").write_text(second)
    with pytest.raises(DataError, match=text):
        blocks(tmp_path)
    with pytest.raises(DataError, match="blocks: options are label, positive, .* got colour"):
        blocks(tmp_path, colour="red")


def test_wrong_dask_arrays():
    X, y = dask_arrays(drawn()[1])
    with pytest.raises(DataError, match="a Dask array X needs labels y"):
        blocks(X)
    with pytest.raises(DataError, match=r"y must have shape \(183,\), got \(182,\)"):
        blocks(X, y[:-1])
    with pytest.raises(DataError, match=r"call X.compute_chunk_sizes\(\)"):
        blocks(X[X[:, 0] > 0], y)


# -- on workers of Dask ----------------------------------------------------------------------------
@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A client of two workers."""
    with two_workers(tmp_path_factory.mktemp("pair")) as client:
        yield client


def stored():
    return len(remote._blocks), len(remote._opened)


def test_blocks_on_workers(pair, tmp_path):
    made, whole = drawn(weighted=True)
    same(blocks(made, client=pair), made)
    same(blocks(*dask_arrays(whole)), made)  # the default client
    folder = blocks(write(tmp_path / "a", made), client=pair)
    same(folder, made)
    assert all(mode[0] == ("memmap", False) for mode in folder.map(steps.mapped))
    same(folder[2:5], made[2:5])
    same(folder, made)
    made = [arrays[:2] for arrays in made]
    text = blocks(write_text(tmp_path / "b", made), client=pair)
    assert text.classes == ["c0", "c1"]
    same(text, made)
    assert len({pid for _, pid in text.map(steps.slow, tmp_path / "log")}) == 2
    del folder, text
    gc.collect()
    end = time.monotonic() + SECONDS
    while {*pair.run(stored).values()} != {(0, 0)}:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_errors_on_workers(pair, tmp_path):
    """They arrive unchanged; blocks are built again if some of them have changed."""
    made, _ = drawn()
    found = blocks(made, client=pair)
    found.map_inplace(steps.begin, 1.0)
    with pytest.raises(ValueError, match="^the block from row 47 on is refused$"):
        found.map_inplace(steps.refuse, 41)
    assert found.map(steps.stored) == _after(made, [(steps.begin, 1.0)])
    (write(tmp_path / "a", made) / "part8.npz").write_bytes(b"PK nothing")
    with pytest.raises(DataError, match="part8.npz: not an .npz file"):
        blocks(tmp_path / "a", client=pair)


def _after(made, changes):
    """Stored arrays after these changes of local blocks."""
    found = blocks(made)
    for step, *args in changes:
        found.map_inplace(step, *args)
    return found.map(steps.stored)


def test_a_killed_worker(pair, tmp_path):
    """Its blocks are built again elsewhere; steps of other workers are not taken twice."""
    made, _ = drawn((30,) * 6)
    log, changes = tmp_path / "log", [(steps.begin, 0.5), (steps.add, 0.25), (steps.add, 0.125)]
    pids = {*pair.run(os.getpid).values()}
    with worker(pair.scheduler.address) as third:
        pair.wait_for_workers(3, timeout=SECONDS)
        found = blocks(write(tmp_path / "a", made), client=pair)
        for step, *args in changes[:2]:
            found.map_inplace(step, *args)
        victim = ({pid for _, pid in found.map(steps.slow, tmp_path / "all")} - pids).pop()

        def kill():  # in the midst of its second block
            wait_for(lambda: sum(pid == victim for *_, pid in noted(log)) == 3, third, SECONDS)
            os.kill(victim, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        answers = found.map(steps.slow, log, 0.4)
        killer.join()
    assert [start for start, _ in answers] == [30 * k for k in range(6)]
    begun = [(start, pid) for what, start, pid in noted(log) if what == "begin"]
    lost = {start for start, pid in begun if pid == victim}
    assert len(lost) == 2 and sorted(k for k, _ in begun) == sorted([*lost, *range(0, 180, 30)])
    assert victim not in [pid for _, pid in answers]
    found.map_inplace(*changes[2])
    assert found.map(steps.stored) == _after(made, changes)


@pytest.mark.parametrize("name", ["stumps", "penalty", "log", "CqBoost 0", "PSVM 1.5 0.5"])
def test_workers_give_the_model_of_memory(name, pair, monkeypatch):
    """A single block is on one worker, three are on both."""
    monkeypatch.setattr(newton, "SAMPLE_CELLS", 140 * 5)
    for cuts in ((), (90, 121)):

        def make(X, y, weight, cuts=cuts):
            made = zip(np.split(X, cuts), np.split(y, cuts), np.split(weight, cuts), strict=True)
            return blocks([*made], client=pair)

        there, _ = check_blocks(name, make, True)
        assert len({*there._homes}) == min(len(cuts) + 1, 2)


def test_a_worker_that_is_killed_in_a_fit(pair, tmp_path):
    """... is replaced, and the model is equal to the last bit."""
    made, (X, _) = drawn((150,) * 4, seed=1)
    folder = write(tmp_path / "a", made)
    how = {"n_estimators": 6, "max_depth": 2}
    before = [*pair.run(os.getpid).values()]
    with worker(pair.scheduler.address):
        pair.wait_for_workers(3, timeout=SECONDS)
        (victim,) = {*pair.run(os.getpid).values()} - {*before}

        def kill(model, iteration, info):
            if iteration == 3:
                os.kill(victim, signal.SIGKILL)

        there = GradientBoosting(callback=kill, **how).fit(blocks(folder, client=pair))
    assert not alive(victim)
    agree(there, GradientBoosting(**how).fit(blocks(folder)), X, True)


def test_the_command_line_on_workers(pair, tmp_path, capsys):
    """... gives the numbers that it gives here."""
    made, _ = drawn((150,) * 4, seed=1)
    argv = ["psvm", "--data", str(write(tmp_path / "a", made)), "--json"]
    place = ["--scheduler", pair.scheduler.address]
    for out, more in (("here", []), ("there", place)):
        assert cli.main([*argv, str(tmp_path / out), *more]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "for testing; features as they are, on workers of Dask" in text
    assert "in which workers compile or load kernels" in text
    here, there = (json.loads((tmp_path / out).read_text()) for out in ("here", "there"))
    assert here["parts"] == there["parts"] | {"on_workers": False}
    for figure in ("test_error", "auc", "confusion", "train_error", "objective", "diversity"):
        assert here["trials"][0][figure] == there["trials"][0][figure]


def test_workers_that_die_every_time(tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "ATTEMPTS", 2)
    before = multiprocessing.active_children()
    made, _ = drawn()
    with cluster.connect("local:2") as client:
        pids = [*client.run(os.getpid).values()]
        found = blocks(made, client=client)
        text = "2 workers, one after another, died or failed in slow on block . of the list,"
        with pytest.raises(ChildProcessError, match=text):
            found.map(steps.slow, tmp_path / "log", 0.0, True)
    assert set(multiprocessing.active_children()) <= set(before)
    assert not any(map(alive, pids))


def test_the_scheduler_goes_away(tmp_path):
    made, _ = drawn()
    log = tmp_path / "log"
    with scheduler(tmp_path) as (server, address), worker(address):
        with cluster.connect(address) as client:
            found = blocks(made, client=client)

            def kill():
                wait_for(log.exists, server, SECONDS)
                server.kill()

            killer = threading.Thread(target=kill)
            killer.start()
            text = f"the scheduler {address} has gone away; fit again when it is there"
            with pytest.raises(ConnectionError, match=text):
                found.map(steps.slow, log, 1.0)
            killer.join()

"""Fits on row blocks: out of core, and on two workers of Dask; memory, time a row, bytes moved.

Data      Generated rows of 20 columns in 20 .npz files, in a temporary folder.
Memory    Most anonymous memory (RssAnon) of a process that does nothing but the fit; what is mapped
          from files does not count, the interpreter and the compiled kernels do.
Time      Seconds an iteration (a tree, a Newton step, a column): on blocks out of core against in
          memory on a tenth of the rows, for as many rows, each in a process of its own that has
          fitted a few rows before. The note has a pass, which is a step over all blocks, in times
          of one reading of the files. The larger of two limits has to hold: 1.3 times memory for an
          iteration, or 1.5 readings for a pass; then the row shows no target.
Workers   A fit on one worker against one on two, each a process with one thread; the blocks are
          open, and have been fitted before. Bytes are those of steps and answers for an iteration,
          against those of as many blocks with a quarter of the rows; the note has those of a worker
          that has one block.
"""

import contextlib
import json
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np

import datasets
from perf.bench.common import python, timed
from solvers.adaboost_nc import AdaBoost
from solvers.cqboost import CqBoost
from solvers.exrm import PSVM
from solvers.gradient_boosting import GradientBoosting

D = 20
FILES = 20
ROUNDS = 3  # fits of which the fastest counts
FEW = 2_000  # rows of a first fit, which compiles
FITS = {
    "PSVM": PSVM(),
    "AdaBoost, 10 stumps": AdaBoost(n_estimators=10),
    "GradientBoosting, 10 trees": GradientBoosting(n_estimators=10),
    "CqBoost": CqBoost(),
}
SPREAD = "PSVM", "GradientBoosting, 10 trees"
OUT_OF_CORE, IN_MEMORY = "blocks", "memory"
MEMORY, AS_FAST, READINGS, GAIN, SAME = "<= 1", "<= 1.3", "<= 1.5", ">= 1.6", "<= 1.01"


def generate(folder, n):
    """Write files of rows whose label follows a sum and a product, with noise."""
    for k in range(FILES):
        rng = np.random.default_rng(k)
        X = rng.normal(size=(n // FILES, D))
        score = X[:, :5].sum(axis=1) + X[:, 5] * X[:, 6] + 2.0 * rng.normal(size=len(X))
        np.savez(Path(folder) / f"part{k}.npz", X=X, y=(score > 0).astype(np.int8))


# -- in a process of its own -----------------------------------------------------------------------


class Peak:
    """The most anonymous memory of this process, in bytes, while it lasts."""

    def __enter__(self):
        self.bytes, self.is_on = 0, True
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while self.is_on:
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("RssAnon"):
                    self.bytes = max(self.bytes, 1024 * int(line.split()[1]))
            time.sleep(0.02)

    def __exit__(self, *error):
        self.is_on = False
        self.thread.join()


def reading(folder):
    """Seconds to read all files once, in pieces."""
    piece = bytearray(2**20)
    begin = time.perf_counter()
    for path in Path(folder).iterdir():
        with path.open("rb", buffering=0) as file:
            while file.readinto(piece):
                pass
    return time.perf_counter() - begin


def measure(name, folder, where):
    """Print what a fit on the files took, out of core, or in memory on a tenth of them."""
    model, blocks = FITS[name], datasets.blocks(folder)
    few = [block[:FEW] for block in blocks[:1].map(_arrays)[0]]
    if where == OUT_OF_CORE:
        first, rows, args = (datasets.blocks([few]),), blocks.shape[0], (blocks,)
    else:
        first, found = few, blocks[: FILES // 10].map(_arrays)
        args = [np.concatenate(part) for part in zip(*found, strict=True)]
        rows = len(args[1])
    model.fit(*first)
    steps = []
    for name in ("map", "change"):
        setattr(blocks, name, _counted(getattr(blocks, name), steps))
    with Peak() as peak:
        times = [timed(partial(model.fit, *args))[0] for _ in range(ROUNDS)]
    facts = dict(seconds=min(times), rows=rows, iterations=model.n_iter_, bytes=peak.bytes)
    print(json.dumps(facts | {"passes": len(steps) / ROUNDS}))


def _counted(method, steps):
    """The method of blocks, which notes its steps."""

    def called(step, *args, **options):
        steps.append(step)
        return method(step, *args, **options)

    return called


def _arrays(block):
    return np.array(block.X), np.array(block.y)


# -- rows of the table -----------------------------------------------------------------------------


def out_of_core(report, name, folder, read):
    """Memory and time of one method."""
    ways = OUT_OF_CORE, IN_MEMORY
    out, inside = (json.loads(python("-m", "perf.bench.rows", name, folder, w)()) for w in ways)
    seconds = out["seconds"] / out["iterations"]
    peer = inside["seconds"] / inside["iterations"] * out["rows"] / inside["rows"]
    size, readings = f"{out['rows']} x {D}", out["seconds"] / out["passes"] / read
    row = dict(what=f"{name}, an iteration on blocks / in memory", size=size, ours=seconds)
    row |= dict(peer=peer, ratio=seconds / peer, cost=seconds / out["rows"])
    note = f"{out['iterations']} iterations, {out['passes']:g} passes of {readings:.2g} readings"
    is_slow = readings > float(READINGS.split()[1])  # else the other limit holds
    report.add(**row, target=AS_FAST if is_slow else "", note=note)
    row = dict(what=f"{name}, GB of memory", size=size, ours=None, ratio=out["bytes"] / 1e9)
    note = f"the whole fit takes {out['seconds']:.3g} s"
    report.add(**row, form="{:.2f}", target=MEMORY, note=note)


@contextlib.contextmanager
def crew(count):
    """A client of so many workers here."""
    from solvers.rows import cluster

    with cluster.connect(f"local:{count}") as client:
        client.wait_for_workers(count)
        yield client


def fit_on(client, name, folder, files=FILES):
    """Seconds, bytes moved in an iteration and objective of a fit; the fastest one counts."""
    blocks, found = datasets.blocks(folder, client=client)[:files], []
    for _ in range(1 + ROUNDS):
        blocks.traffic.clear()
        seconds, model = timed(partial(FITS[name].fit, blocks))
        moved = sum(call.sent + call.received for call in blocks.traffic)
        found.append((seconds, moved / model.n_iter_, model.objective_))
    return min(found[1:])  # the first one compiles


def on_workers(report, folder, small, n):
    """One worker against two, and bytes moved."""
    found = {}
    for count in (1, 2):
        with crew(count) as client:
            for name in SPREAD:
                found[name, count] = fit_on(client, name, folder)
                found[name, "few rows"] = fit_on(client, name, small)
                found[name, "few blocks"] = fit_on(client, name, folder, 2)
    for name in SPREAD:
        one, two, few, pair = (found[name, key] for key in (1, 2, "few rows", "few blocks"))
        assert abs(one[2] - two[2]) <= 1e-9 * abs(one[2]), (one, two)
        size = f"{n} x {D}"
        row = dict(what=f"{name}, one worker / two", size=size, ours=two[0], peer=one[0])
        report.add(**row, target=GAIN)
        row = dict(what=f"{name}, bytes moved / of a quarter of the rows", size=size, ours=None)
        note = f"{pair[1] / 2:,.0f} bytes an iteration and worker with one block"
        row |= dict(ratio=two[1] / few[1], form="{:.3f}x", traffic=pair[1] / 2)
        report.add(**row, target=SAME, note=note)


def run(report, large):
    sizes = (10_000_000, 4_000_000) if large else (1_000_000, 400_000)
    with tempfile.TemporaryDirectory() as folder:
        generate(folder, sizes[0])
        read = min(reading(folder) for _ in range(3))
        for name in FITS:
            out_of_core(report, name, folder, read)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as small:
        generate(folder, sizes[1])
        generate(small, sizes[1] // 4)
        on_workers(report, folder, small, sizes[1])


if __name__ == "__main__":
    measure(*sys.argv[1:])

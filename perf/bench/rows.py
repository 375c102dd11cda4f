"""Fits on row blocks: out of core, and on two Dask workers; memory, time per row, bytes moved.

Data      Generated rows of 20 columns in 20 .npz files, in a temporary folder.
Memory    Maximum of anonymous memory (RssAnon) of a process that only fits; memory-mapped files do
          not count, the interpreter and the compiled kernels do.
Time      Seconds per iteration (a tree, a Newton step, a column): on blocks out of core against in
          memory on a tenth of the rows, per row, each in a process of its own that has fitted a few
          rows before. The note has the time of a pass, one call over all blocks, in units of one
          reading of the files. The larger of two limits has to hold: 1.3 times memory for an
          iteration, or 1.5 readings for a pass; then the row has no target.
Workers   A fit on one worker against one on two, each a process with one thread; the blocks are
          open, and have been fitted before. Bytes are those of calls and answers per iteration,
          against those of equally many blocks with a quarter of the rows; the note has those of a
          worker with one block.
"""

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
from solvers.rows import cluster

D = 20
FILES = 20
ROUNDS = 3  # Fits, of which the fastest counts.
WARM_UP_ROWS = 2_000  # Of a first fit, which compiles.
FITS = {
    "PSVM": PSVM(),
    "AdaBoost, 10 stumps": AdaBoost(n_estimators=10),
    "GradientBoosting, 10 trees": GradientBoosting(n_estimators=10),
    "CqBoost": CqBoost(),
}
ON_WORKERS = "PSVM", "GradientBoosting, 10 trees"
OUT_OF_CORE, IN_MEMORY = "blocks", "memory"
MEMORY, AS_FAST, READINGS, GAIN, SAME = "<= 1", "<= 1.3", "<= 1.5", ">= 1.6", "<= 1.01"


def generate(folder, n):
    """Write files of n rows in all whose label is a noisy sum and product."""
    for k in range(FILES):
        rng = np.random.default_rng(k)
        X = rng.normal(size=(n // FILES, D))
        score = X[:, :5].sum(axis=1) + X[:, 5] * X[:, 6] + 2.0 * rng.normal(size=len(X))
        np.savez(Path(folder) / f"part{k}.npz", X=X, y=(score > 0).astype(np.int8))


# -- in a process of its own -----------------------------------------------------------------------


class Peak:
    """Maximum of anonymous memory of this process in bytes, while the context is open."""

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
    """Seconds to read all files once, in chunks."""
    chunk = bytearray(2**20)
    begin = time.perf_counter()
    for path in Path(folder).iterdir():
        with path.open("rb", buffering=0) as file:
            while file.readinto(chunk):
                pass
    return time.perf_counter() - begin


def measure(name, folder, where):
    """Print statistics of a fit on the files, out of core or in memory on a tenth of them."""
    model, blocks = FITS[name], datasets.blocks(folder)
    few = [block[:WARM_UP_ROWS] for block in blocks[:1].map(_arrays)[0]]
    if where == OUT_OF_CORE:
        first, rows, args = (datasets.blocks([few]),), blocks.shape[0], (blocks,)
    else:
        first, arrays = few, blocks[: FILES // 10].map(_arrays)
        args = [np.concatenate(each) for each in zip(*arrays, strict=True)]
        rows = len(args[1])
    model.fit(*first)
    passes = []
    for name in ("map", "map_inplace"):
        setattr(blocks, name, _counted(getattr(blocks, name), passes))
    with Peak() as peak:
        times = [timed(partial(model.fit, *args))[0] for _ in range(ROUNDS)]
    statistics = dict(seconds=min(times), rows=rows, iterations=model.n_iter_, bytes=peak.bytes)
    print(json.dumps(statistics | {"passes": len(passes) / ROUNDS}))


def _counted(method, passes):
    """Wrap a method of blocks: append the function of each pass to `passes`."""

    def counted(function, *args, **options):
        passes.append(function)
        return method(function, *args, **options)

    return counted


def _arrays(block):
    return np.array(block.X), np.array(block.y)


# -- rows of the table -----------------------------------------------------------------------------


def out_of_core(report, name, folder, read):
    """Memory and time of one method."""
    command = "-m", "perf.bench.rows", name, folder
    out, inside = (json.loads(python(*command, way)()) for way in (OUT_OF_CORE, IN_MEMORY))
    seconds = out["seconds"] / out["iterations"]
    peer = inside["seconds"] / inside["iterations"] * out["rows"] / inside["rows"]
    size, readings = f"{out['rows']} x {D}", out["seconds"] / out["passes"] / read
    row = dict(what=f"{name}, an iteration on blocks / in memory", size=size, ours=seconds)
    row |= dict(peer=peer, ratio=seconds / peer, cost=seconds / out["rows"])
    note = f"{out['iterations']} iterations, {out['passes']:g} passes of {readings:.2g} readings"
    is_slow = readings > float(READINGS.split()[1])  # Else the other limit holds.
    report.add(**row, target=AS_FAST if is_slow else "", note=note)
    row = dict(what=f"{name}, GB of memory", size=size, ours=None, ratio=out["bytes"] / 1e9)
    note = f"the whole fit takes {out['seconds']:.3g} s"
    report.add(**row, form="{:.2f}", target=MEMORY, note=note)


def fit_on(client, name, folder, files=FILES):
    """Return seconds, bytes moved per iteration and objective of the fastest fit."""
    blocks, runs = datasets.blocks(folder, client=client)[:files], []
    for _ in range(1 + ROUNDS):
        blocks.traffic.clear()
        seconds, model = timed(partial(FITS[name].fit, blocks))
        moved = sum(call.sent + call.received for call in blocks.traffic)
        runs.append((seconds, moved / model.n_iter_, model.objective_))
    return min(runs[1:])  # The first one compiles.


def on_workers(report, folder, small, n):
    """One worker against two, and bytes moved."""
    runs = {}
    for count in (1, 2):
        with cluster.connect(f"local:{count}") as client:
            client.wait_for_workers(count)
            for name in ON_WORKERS:
                runs[name, count] = fit_on(client, name, folder)
                runs[name, "few rows"] = fit_on(client, name, small)
                runs[name, "few blocks"] = fit_on(client, name, folder, 2)
    for name in ON_WORKERS:
        one, two, few, pair = (runs[name, key] for key in (1, 2, "few rows", "few blocks"))
        assert abs(one[2] - two[2]) <= 1e-9 * abs(one[2]), (one, two)
        size = f"{n} x {D}"
        row = dict(what=f"{name}, one worker / two", size=size, ours=two[0], peer=one[0])
        report.add(**row, target=GAIN)
        row = dict(what=f"{name}, bytes moved / of a quarter of the rows", size=size, ours=None)
        note = f"{pair[1] / 2:,.0f} bytes per iteration and worker with one block"
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

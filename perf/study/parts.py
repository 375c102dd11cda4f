"""Directories of row blocks: train on the first files, test on the others, here or on a cluster.

    record, saved = run(spec, "local:2", "model.npz")

Each file is one row block (datasets.blocks), so that the rows need not fit into memory.
"""

import contextlib
from dataclasses import replace

import numpy as np

import datasets
from perf.study import experiment, methods, outputs
from perf.study.experiment import BLOCK, WARM_UP_ITERATIONS, WARM_UP_ROWS
from solvers.rows import cluster


def check(spec, where=None, **flags):
    """Return True if spec.data is a directory; refuse --scheduler without one, `flags` with it."""
    if not datasets.is_directory(spec.data):
        if where:
            raise ValueError(f"--scheduler needs a directory as --data, got {spec.data}")
        return False
    given, name = f"--data {spec.data} is a directory", methods.KNOWN[spec.method][1]
    if spec.method not in methods.BLOCK_METHODS:
        can = ", ".join(methods.BLOCK_METHODS)
        raise ValueError(f"{given}, and {name} does not support row blocks; use one of {can}")
    if wrong := [flag for flag, value in flags.items() if value not in (None, "none", 1)]:
        why = "its files are split once, and features are not scaled"
        raise ValueError(f"{given}: {why}; leave out --{wrong[0]}")
    return True


def run(spec, where=None, path=None, quiet=True):
    """Train and test on a cluster, `where`, or here; return records of the run and of saving."""
    spec = replace(spec, trials=1, scale="none")
    place = cluster.connect(where) if where else contextlib.nullcontext()
    with outputs.progress(1, quiet) as (callback, _), place as client:
        data = datasets.blocks(spec.data, client=client, coded=True, **spec.read)
        if len(data.classes) > 2:
            text = f"row blocks need two classes and {spec.data} has {len(data.classes)}"
            raise ValueError(f'{text}; choose, say, --positive "{data.classes[0]}"')
        name, count = datasets.locate(spec.data).resolve().name, _training_files(spec, len(data))
        train, test, saved = data[:count], data[count:], None
        with experiment.caught_warnings(data) as warned:
            seconds = 0.0 if client else _warm_up(spec, train, callback)  # Workers compile alone.
            model, results = _trial(spec, train, test, callback)
            if path:
                whole = experiment.build_model(spec, data, 0, callback).fit(data)
                prep = datasets.Preprocess(keep_gaps=True).fit(np.zeros((1, data.shape[1])))
                experiment.write_model(whole, path, spec, data, name, prep)
                saved = {"rows": data.shape[0], "path": str(path), "warnings": []}
        counts = np.sum([*train.map(_class_counts), *test.map(_class_counts)], axis=0)
    rows, notes = results.pop("rows_of_votes"), [*data.notes]
    if results["diversity"] and rows < results["test_rows"]:
        notes.append(f"diversity is measured on {rows} of the test rows")
    results["parts"] = {"train": count, "test": len(test), "on_workers": bool(where)}
    facts = experiment.facts(name, data.shape, data.classes, counts, notes)
    outlined = methods.outline(model, data.classes) | {"notes": []}
    return experiment.make_record(spec, 0, facts, outlined, results, seconds, warned), saved


def _training_files(spec, count):
    """Number of files to train on: spec.train is a fraction of them or, from 1 on, their number."""
    train = spec.train
    if not 0 < train < 1 and (train < 1 or train % 1 != 0):
        rule = "a fraction in (0, 1) or a number of files"
        raise ValueError(f"--train must be {rule}, got {train:g}")
    size = round(train * count) if train < 1 else int(train)
    if not 1 <= size < count:
        means = f"--train {train:g} means {size} of {count} files"
        raise ValueError(f"{means}; at least one is to train and one to test on")
    return size


def _warm_up(spec, data, callback):
    """Fit blocks of a few rows; return the seconds that it took."""
    X, y = _rows(data, _few_rows, WARM_UP_ROWS // 2)
    rows = np.concatenate([np.flatnonzero(y == k)[: WARM_UP_ROWS // 2] for k in range(2)])
    model = experiment.build_model(spec, data, 0, callback, max_iter=WARM_UP_ITERATIONS)
    with contextlib.suppress(ValueError):  # The fit on all rows will raise.
        return experiment.timed_fit(model, datasets.blocks([(X[rows], y[rows])]))
    return 0.0


def _trial(spec, train, test, callback):
    """Train and test on row blocks; return the model, and results as of a trial."""
    model = experiment.build_model(spec, train, 0, callback)
    seconds = experiment.timed_fit(model, train)
    model.set_params(callback=None)  # Workers cannot call it.
    seen = np.sum(train.map(_confusion, model), axis=0)
    decision, y = _rows(test, _decisions, model)
    found = (decision >= 0).astype(int)
    predicted = [k for k in range(2) if seen[:, k].any() or (found == k).any()]
    X, labels = _rows(test, _first_rows, -(-BLOCK // len(test)))
    votes, goals = experiment.votes_of(model, X, labels)
    return model, {
        "train_rows": train.shape[0],
        "test_rows": test.shape[0],
        "train_error": float((seen.sum() - np.trace(seen)) / seen.sum()),
        **experiment.scores(found, decision, y, seen.sum(axis=1).argmax(), 2),
        "predicted": [train.classes[k] for k in predicted],
        **experiment.membership(model, votes, goals),
        "rows_of_votes": len(labels),
        "best_member": None,
        **experiment.outcome(model, seconds),
    }


# -- functions of one block ------------------------------------------------------------------------


def _rows(data, function, *args):
    """Map a function over blocks that returns two arrays of rows; join them."""
    return [np.concatenate(arrays) for arrays in zip(*data.map(function, *args), strict=True)]


def _few_rows(block, most):
    """First rows of each class, at most `most`. Reads few rows of X."""
    rows = np.sort(np.concatenate([np.flatnonzero(block.y == k)[:most] for k in range(2)]))
    return block.X[rows], np.asarray(block.y[rows])


def _first_rows(block, most):
    """First rows, at most `most`. Reads few rows of X."""
    return np.array(block.X[:most]), np.array(block.y[:most])


def _class_counts(block):
    """Rows per class, (2,). Reads no X."""
    return np.bincount(block.y, minlength=2)


def _decisions(block, model):
    """Decisions and labels. Reads X once."""
    starts = range(0, len(block.y), BLOCK)
    decisions = [model.decision_function(block.X[start : start + BLOCK]) for start in starts]
    return np.concatenate(decisions), np.asarray(block.y)


def _confusion(block, model):
    """Counts of rows by true and predicted class, (2, 2). Reads X once."""
    decision, y = _decisions(block, model)
    return np.bincount(2 * y + (decision >= 0), minlength=4).reshape(2, 2)

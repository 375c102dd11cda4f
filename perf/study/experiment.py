"""Experiments: train and test a method on splits of a data set, one record a trial.

    for record in trials(Spec("sonar", "exrm", {"lam": 0.5}, trials=20)):
        print(record["trial"], record["test_error"])

A record is a dict that survives JSON: specification, facts on the data, parameters of the model,
results. A report is made from records alone. Trial t depends on the specification and on t only:
`trials(spec, [7])` gives that one record. Only fields called ..._seconds differ from run to run.
"""

import contextlib
import itertools
import json
import re
import sys
import time
import warnings
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

import datasets
from perf.study import methods
from solvers import diversity, model_file

WARM_UP_ROWS, WARM_UP_ITERATIONS = 40, 5  # Enough to run, hence to compile, nearly all kernels.
EQUAL = 1e-12  # Votes closer than this, relative to the largest, differ by rounding only.
NOTES = {"data", "classes", "schema", "preprocess"}  # Notes that `apply` reads from a model file.
TUNING_FOLDS = 5  # Folds of the cross-validation on the training rows that chooses parameters.
BLOCK = 20_000  # Rows whose votes are taken at a time to find the best member.
SHOWN = 4  # Digits of the points of a diagram that are kept with a comparison.
PAIRED = 18  # Members whose pairs, 153 points of a diagram, are in the record of the first trial.
SPLITS = ("trials", "train", "cv", "seed")  # The fields of Spec that say what the splits are.


@dataclass(frozen=True)
class Spec:
    """All that the result of an experiment depends on."""

    data: str  # Name of a data set or path of a file, see datasets.load.
    method: str  # Name of a command or of a baseline, a key of methods.KNOWN.
    params: dict = field(default_factory=dict)  # Those of the method that are not the defaults.
    scale: str | None = None  # A key of datasets.SCALES; None: the default of the method.
    trials: int | None = None  # Random splits, or repetitions with cv; None: 10, or 1 with cv.
    train: float | None = 0.5  # Share or number of rows to train on; not used with cv.
    cv: int | None = None  # Number of folds.
    seed: int = 0  # Seed of the splits; trial t trains with seed + t.
    read: dict = field(default_factory=dict)  # Further arguments of datasets.load.
    grid: dict = field(default_factory=dict)  # {parameter: values} to choose from in every trial

    def __post_init__(self):
        methods.check(self.method, methods.KNOWN)
        scale = self.scale or methods.scale(self.method, self.params)
        trials = (1 if self.cv else 10) if self.trials is None else self.trials
        train = None if self.cv else self.train
        vars(self).update(scale=scale, trials=trials, train=train)  # Equal experiments are equal.

    def __len__(self):
        """Number of trials, each of them on a split of its own."""
        return self.trials * (self.cv or 1)


class Fitted(NamedTuple):
    """The model of a trial, and its rows as it got them."""

    model: object
    prep: datasets.Preprocess
    train: np.ndarray  # Which rows of the data X and y are.
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def read(spec):
    """Load the data of an experiment."""
    return datasets.load(spec.data, **spec.read)


def need_two_classes(data, source, what):
    """Refuse data of more classes; `source` is their name or file."""
    if len(data.classes) > 2:
        some, text = data.classes[0], f"needs two classes and {data.name} has {len(data.classes)}"
        say = f'choose, say, --data "{source}:{some}-vs-rest" or --positive "{some}"'
        raise ValueError(f"{what} {text}; {say}")


def check(spec, data):
    """Refuse, before any work, splits and parameters that cannot be."""
    datasets.splits(data.y, **splitting(spec))
    build_model(spec, data, 0, None)._check_params()


class Split:
    """Rows to train and to test on; what methods have in common there is computed once."""

    def __init__(self, data, train, test):
        self.data, self.train, self.test = data, train, test
        self.y, self.y_test = data.y[train], data.y[test]
        self._prepared, self._folds = {}, {}

    def prepare(self, model, scale):
        """Fill gaps and scale as learned from the training rows: how, these rows, the others."""
        key = scale, bool(model._allow_nan)
        if key not in self._prepared:
            prep, X = _prepare(model, self.data.X[self.train], scale)
            self._prepared[key] = prep, X, prep.transform(self.data.X[self.test])
        return self._prepared[key]

    def folds(self, seed):
        """Splits of the training rows, for cross-validation there."""
        if seed not in self._folds:
            smallest = np.bincount(self.y, minlength=len(self.data.classes)).min()
            how = {"trials": 1, "cv": int(min(TUNING_FOLDS, smallest)), "seed": seed}
            self._folds[seed] = [
                Split(self.data, self.train[some], self.train[others])
                for some, others in datasets.splits(self.y, **how)
            ]
        return self._folds[seed]


def splitting(spec):
    """The fields that say what the splits are, by name."""
    return {key: getattr(spec, key) for key in SPLITS}


def splits(data, how, numbers=None):
    """Yield number and Split of every trial, or of those given; `how` is from `splitting`."""
    folds = how["cv"] or 1
    count = how["trials"] * folds
    if wrong := [number for number in numbers or () if number not in range(count)]:
        raise ValueError(f"trials have the numbers 0 to {count - 1}, got {wrong[0]}")
    numbers = range(count) if numbers is None else sorted(numbers)
    first = numbers[0] // folds if numbers else how["trials"]
    drawn = datasets.splits(data.y, **how, first=first)
    for number, (train, test) in enumerate(drawn, first * folds):
        if number > numbers[-1]:
            break
        if number in numbers:
            yield number, Split(data, train, test)


def trials(spec, numbers=None, data=None, callback=None, pairs=False, warm=False, known=None,
           on_fitted=None):  # fmt: skip
    """Yield the record of every trial, or of those whose numbers are given, from 0 on.

    With cv, trial k is fold k % cv. `data` and `known` are results of `read` and `splits`, if they
    exist already. pairs=True adds the points of the kappa-error diagram of all pairs of members, a
    number those of at most this number of members. Unless warm=True, the method is compiled before
    the first trial. The result of on_fitted(trial, fitted) is record["picture"].
    """
    data = read(spec) if data is None else data
    for number, split in known or splits(data, splitting(spec), numbers):
        seconds = 0.0 if warm else warm_up(spec, data, split.train, callback)
        warm, chosen, tuning = True, {}, {}
        if spec.grid:
            chosen, tuning = _tune(spec, split, number)
        model = build_model(spec, data, number, callback, **chosen)
        with caught_warnings(data) as said:
            figures, votes, goals, fitted = _trial(model, split, spec.scale)
        if pairs and votes is not None:
            figures["pairs"] = _pairs(votes, goals, None if pairs is True else pairs)
        if on_fitted:
            figures["picture"] = on_fitted(number, fitted)
        counts = np.bincount(data.y, minlength=len(data.classes))
        about = facts(data.name, data.X.shape, data.classes, counts, data.notes)
        outlined = methods.outline(model, data.classes)
        notes = _missing(data, model) + methods.wrappings(outlined, len(data.classes))
        results = figures | tuning
        yield make_record(spec, number, about, outlined | {"notes": notes}, results, seconds, said)


def make_record(spec, trial, data, model, results, compile_seconds, warned):
    """Record of a trial; `data` and `model` describe these."""
    head = {"spec": vars(spec), "trial": trial, "data": data, "model": model}
    tail = {"compile_seconds": compile_seconds, "warnings": warned, "versions": versions()}
    return plain_record(head | results | tail)


def save(spec, path, data=None, callback=None):
    """Train on all rows and write the model with all that `apply` needs; return a record."""
    data = read(spec) if data is None else data
    model = build_model(spec, data, 0, callback)
    with caught_warnings(data) as said:
        prep, X = _prepare(model, data.X, spec.scale)
        model.fit(X, data.y)
    write_model(model, path, spec, data, data.name, prep)
    return {"rows": len(data.y), "path": str(path), "warnings": said}


def write_model(model, path, spec, data, name, prep):
    notes = {"data": name, "label": spec.read.get("label"), "preprocess": prep.to_dict()}
    model_file.save(model, path, notes | {"classes": data.classes, "schema": data.schema})


def apply(path, source, **read):
    """Apply a saved model to new rows; return a record and a table, titles first."""
    model, names = methods.load(path)
    notes = getattr(model, "notes_", None)
    if not isinstance(notes, dict) or not NOTES <= set(notes):
        text = f"{path} was not written by --save and does not say how to read {source}"
        raise ValueError(f"{text}; use it from Python: solvers.model_file.load(path).predict(X)")
    prep = _preprocessing(path, notes, model)
    data = datasets.load(source, schema=notes["schema"], **read)
    X, classes = prep.transform(data.X), notes["classes"]
    found, decision = model.predict(X), model.decision_function(X)
    if np.isnan(decision).any():
        raise ValueError(f"{path} gives NaN as decisions on {source}: it is damaged")
    table = _table(model, X, found, decision, classes)
    record = {
        "names": names,
        "trained_on": notes["data"],
        "data": {"name": data.name, "rows": len(X), "classes": classes, "notes": data.notes},
        "notes": _missing(data, model),
        "columns": table[0],
        "unlabelled": len(X) if data.y is None else int((data.y < 0).sum()),
        "rejected_rows": int((~_accepted(found, len(classes))).sum()),
    }
    if record["unlabelled"] < len(X):
        rows = np.flatnonzero(data.y >= 0)
        y, values = data.y[rows], decision[rows] if decision.ndim == 1 else None
        record |= scores(found[rows], values, y, np.bincount(y).argmax(), len(classes))
    return plain_record(record), table


def _table(model, X, found, decision, classes):
    """Return predictions, decisions and, where the model has them, probabilities; titles first."""
    known = range(len(classes))
    labels = [classes[int(k)] if k in known else k for k in found.tolist()]  # Or rejected.
    titles, columns = ["prediction", "decision"], [labels, decision.tolist()]
    if decision.ndim == 2:
        titles = ["prediction", *(f"decision {name}" for name in classes)]
        columns = [labels, *decision.T.tolist()]
    if hasattr(model, "predict_proba"):
        titles += [f"probability {name}" for name in classes]
        columns += model.predict_proba(X).T.tolist()
    return [titles, *zip(*columns, strict=True)]


# -- one trial -------------------------------------------------------------------------------------


def build_model(spec, data, trial, callback, **changes):
    """Build the model of a trial; classes, which users know by name, have numbers there."""
    weight = datasets.class_weights(spec.params.get("class_weight"), data.classes)
    params = spec.params | weight | changes
    return methods.build(spec.method, params, spec.seed + trial, len(data.classes), callback)


def warm_up(spec, data, rows, callback):
    """Fit a few rows of the first and the last class; return the seconds that it took."""
    rows = rows[data.y[rows].argsort(kind="stable")]
    few = [*rows[: WARM_UP_ROWS // 2], *rows[-WARM_UP_ROWS // 2 :]]
    model = build_model(spec, data, 0, callback, max_iter=WARM_UP_ITERATIONS)
    with caught_warnings(data), contextlib.suppress(ValueError):  # The fit on all rows will raise.
        _, X = _prepare(model, data.X[few], spec.scale)
        return timed_fit(model, X, data.y[few])
    return 0.0


def _tune(spec, split, number):
    """Choose the first parameters with the lowest error in cross-validation on the training rows.

    Choices that the method refuses are left out. Returns the choice and its entries in the record.
    """
    start, tried, refusal = time.perf_counter(), [], None
    for values in itertools.product(*spec.grid.values()):
        params, errors = dict(zip(spec.grid, values, strict=True)), []
        try:
            for fold in split.folds(spec.seed + number):
                model = build_model(spec, split.data, number, None, **params)
                with caught_warnings(split.data):
                    _, X, X_test = fold.prepare(model, spec.scale)
                    found = model.fit(X, fold.y).predict(X_test)
                errors.append(_error_rate(found, fold.y_test, len(split.data.classes)))
            tried.append((float(np.mean(errors)), len(tried), params))
        except ValueError as error:
            refusal = error
    if not tried:
        raise refusal
    error, _, chosen = min(tried)
    seconds = time.perf_counter() - start
    return chosen, {"chosen": chosen, "tuning_error": error, "tuning_seconds": seconds}


def _prepare(model, X, scale):
    """Learn the preprocessing from these rows; return it and the rows it gives."""
    prep = datasets.Preprocess(scale, keep_gaps=model._allow_nan).fit(X)
    return prep, prep.transform(X)


def timed_fit(model, X, y=None):
    start = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - start


def _trial(model, split, scale):
    """Train and test on one split; return the figures, the members' votes, labels, and Fitted."""
    y, y_test, names, classes = split.y, split.y_test, split.data.classes, len(split.data.classes)
    prep, X, X_test = split.prepare(model, scale)
    seconds = timed_fit(model, X, y)
    seen, _ = _decide(model, X, classes)
    found, decision = _decide(model, X_test, classes)
    votes, goals = votes_of(model, X_test, y_test)
    predicted = {*seen.tolist(), *found.tolist()}
    figures = {
        "train_rows": len(y),
        "test_rows": len(y_test),
        "train_error": _error_rate(seen, y, classes),
        **scores(found, decision, y_test, np.bincount(y).argmax(), classes),
        "predicted": [name for code, name in enumerate(names) if code in predicted],
        **membership(model, votes, goals),
        "best_member": _best_member(model, X, y, votes, goals, y_test),
        **outcome(model, seconds),
    }
    return figures, votes, goals, Fitted(model, prep, split.train, X, y, X_test, y_test)


def outcome(model, seconds):
    """Results that a fitted model reports of itself."""
    return {
        "certified": model.residual_ is not None,  # By a residual, None here where infinite.
        "residual": model.residual_,
        "objective": model.objective_,
        "converged": bool(model.converged_),
        "fit_seconds": seconds,
        "facts": model.facts() if hasattr(model, "facts") else {},
    }


def _decide(model, X, classes):
    """Return predicted classes and, of two, decisions; methods of more classes may reject rows."""
    decision = model.decision_function(X) if classes == 2 else None
    return model.predict(X) if model._multi_class else (decision >= 0).astype(int), decision


def votes_of(model, X, y):
    """Return the members' votes (n, T) and the labels; None for OneVsRest.

    Votes for one of many classes are + if right, and all labels are + then.
    """
    if type(model).__name__ == "OneVsRest":
        return None, None
    if not model._multi_class:
        return model.votes(X), y == 1
    labels = np.column_stack([member.predict(X) for member in model.estimators_])
    if len(model.classes_) == 2:
        return np.where(labels == 1, 1.0, -1.0), y == 1
    return np.where(labels == y[:, None], 1.0, -1.0), y >= 0


def membership(model, votes, goals):
    """Count the members and measure how they differ on rows with these labels."""
    if votes is None:
        parts, identical, differ = model.estimators_, False, None
        members = sum(part.weights_.size for part in parts)
    else:
        parts, members = [model], votes.shape[1]
        high, low = votes.max(axis=1), votes.min(axis=1)
        largest, widest = max(high.max(), -low.min()), (high - low).max()
        real = not model._multi_class  # Of labels, equal ones do not make members identical.
        identical = members > 1 and real and bool(widest <= EQUAL * largest)
        weights = model.weights_ if model.weights_.size == members else None
        differ = diversity.averages(votes, goals, weights) if members > 1 else None
    return {
        "classifiers": len(parts),
        "members": members,
        "diversity": differ,
        "identical": identical,
        "iterations": sum(int(part.n_iter_) for part in parts),
    }


def _pairs(votes, goals, most):
    """Points of the kappa-error diagram, rounded; `most`: of at most this number of members."""
    if most and votes.shape[1] > most:
        votes = votes[:, np.linspace(0, votes.shape[1] - 1, most).round().astype(int)]
    points = diversity.kappa_error(votes, goals)
    return [(axis.round(SHOWN) if most else axis).tolist() for axis in points]


def _best_member(model, X, y, votes, goals, y_test):
    """Scores on the test rows of the member that is best on the training rows, (X, y)."""
    if votes is None:
        return None
    wrong = np.zeros(votes.shape[1])
    for start in range(0, len(y), BLOCK):
        part = slice(start, start + BLOCK)
        seen, right = votes_of(model, X[part], y[part])
        wrong += ((seen >= 0) != right[:, None]).sum(axis=0)
    vote = votes[:, wrong.argmin()]
    errs, totals = (vote >= 0) != goals, np.bincount(y_test)
    return {
        "train_error": float(wrong.min() / len(y)),
        "test_error": np.count_nonzero(errs) / len(errs),
        "balanced_error": _balanced(np.bincount(y_test[errs], minlength=len(totals)), totals),
        "auc": roc_area(vote, y_test == 1) if len(model.classes_) == 2 else None,
    }


# -- scores ----------------------------------------------------------------------------------------


def _accepted(found, classes):
    """Return which rows got one of the classes; the others are rejected."""
    return (found >= 0) & (found < classes) & (found == np.rint(found))


def _error_rate(found, y, classes):
    """Return the share of rows that got a wrong class; a rejected row did not."""
    return np.count_nonzero(_accepted(found, classes) & (found != y)) / len(y)


def _balanced(wrong, totals):
    """Return the mean of the errors of the classes that have rows, from counts by class."""
    return float((wrong[totals > 0] / totals[totals > 0]).mean())


def scores(found, decision, y, larger, classes):
    """Compare predictions with labels; `larger` is the class that is usually the larger one."""
    accepted, totals = _accepted(found, classes), np.bincount(y, minlength=classes)
    pairs = y[accepted] * classes + found[accepted].astype(int)
    confusion = np.bincount(pairs, minlength=classes**2).reshape(classes, classes)
    wrong = confusion.sum(axis=1) - confusion.diagonal()
    return {
        "test_error": _error_rate(found, y, classes),
        "majority_error": np.count_nonzero(y != larger) / len(y),
        "balanced_error": _balanced(wrong, totals),
        "auc": None if decision is None else roc_area(decision, y == 1),
        "confusion": confusion.tolist(),  # A row a true class, a column a predicted one.
        "rejected": (totals - confusion.sum(axis=1)).tolist(),  # By true class.
    }


def roc_area(scores, positive):
    """Return the area under the ROC curve; None unless there are rows of both classes."""
    n, many = int(positive.sum()), positive.size
    if n in (0, many):
        return None
    ordered, own = np.sort(scores), scores[positive]
    below = np.searchsorted(ordered, own).sum()  # Pairs of a positive row and any lower one.
    not_above = np.searchsorted(ordered, own, side="right").sum()  # Ties count half.
    return float((0.5 * (below + not_above) - 0.5 * n * n) / (n * (many - n)))


# -- facts -----------------------------------------------------------------------------------------


def facts(name, shape, classes, counts, notes):
    """Description of a data set; `counts` are rows per class."""
    classes, (rows, features) = dict(zip(classes, counts.tolist(), strict=True)), shape
    return {"name": name, "rows": rows, "features": features, "classes": classes, "notes": notes}


def _missing(data, model):
    missing = int(np.isnan(data.X).sum())
    how = "left to the method" if model._allow_nan else "filled with training medians"
    return [f"missing numbers {how}: {missing}"] if missing else []


@contextlib.contextmanager
def caught_warnings(data):
    """Collect warnings as texts; methods know classes by number, their users by name."""
    names, texts = data.classes if len(data.classes) == 2 else ["rest", "of its own"], []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    for warning in caught:
        text = f"{warning.category.__name__}: {warning.message}"
        texts.append(re.sub(r"\bclass ([01])\b", lambda m: f"class {names[int(m[1])]}", text))


def versions():
    loaded = [name for name in ("numpy", "numba") if name in sys.modules]
    found = {"python": sys.version.split()[0]}
    return found | {name: sys.modules[name].__version__ for name in loaded}


def plain_record(record):
    """Return a record as read from its JSON: NaN becomes None, other objects their repr."""
    text = json.dumps(record, default=lambda v: v.item() if isinstance(v, np.generic) else repr(v))
    return json.loads(text, parse_constant=lambda _: None)


def _preprocessing(path, notes, model):
    """Read the preprocessing in the notes of a model, checked with all else that they say."""
    with contextlib.suppress(datasets.DataError):
        classes, width = datasets.check_schema(notes["schema"])
        prep = datasets.Preprocess.from_dict(notes["preprocess"])
        if (
            prep.fill_.size == width == model.n_features_in_
            and notes["classes"] == classes
            and isinstance(notes["data"], str)
            and model.classes_.dtype.kind == "i"
            and model.classes_.tolist() == [*range(len(classes))]
        ):
            return prep
    raise ValueError(f"{path} is not a model file of ensolve: its notes are damaged")

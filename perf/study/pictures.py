"""Pictures of one method: the contents of --plot as records that survive JSON.

    records = list(experiment.trials(spec, data=data, on_fitted=on_fitted("members", data)))
    others = list(run(plan("lam", spec, data), data))
    svg = draw.picture(collect("lam", records, others))

Convergence, members, margins and boundary read the models of a run, trial by trial. The effect of a
parameter and the training time need further experiments, `others`. perf/draw.py draws a record.
"""

import functools
import time
import warnings
from dataclasses import asdict, replace

import numpy as np

from perf.study import experiment, methods

# Values of `solver` whose convergence is shown side by side; other methods have one way only.
SOLVERS = dict.fromkeys(("ExRM", "PSVM"), ("paper", "alm", "auto"))
SOLVERS |= dict.fromkeys(("DRM", "NuSVM"), ("alternating", "auto"))
FINER = {  # Grids of parameters for which those of --tune are too coarse, or not of numbers.
    ("drm", "mu"): [1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.1],
    ("bagging", "max_features"): [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0],
    ("gradient-boosting", "learning_rate"): [0.01, 0.03, 0.1, 0.3, 1.0],
    ("gradient-boosting", "max_depth"): [1, 2, 3, 4, 5, 6, 8, 10],
}
UNBOUNDED = {"ExRM", "PSVM", "DRM", "NuSVM", "GradientBoosting"}  # Members have any outputs.
MARGINS = np.linspace(-1.0, 1.0, 201)  # Abscissas of the distribution of the margins.
GRID = 200  # Points on either axis at which a decision boundary is sought.
AIR = 0.06  # Part of the range of a feature by which the picture goes beyond it.
FEW_MEMBERS = 12  # Above, the boundaries of members are not drawn.
MOST_POINTS = 1500  # Rows that are drawn beside a boundary.
SMALLEST, LARGEST, SIZES = 25, 0.9, 8  # Training time: least rows, largest part, number of sizes.


def choose(plot, kind, command):
    """Return the kind of picture that --plot and --picture ask for; None for none."""
    if kind and not plot:
        raise ValueError(f"--picture {kind} needs --plot FILE, where to draw it")
    return (kind or methods.PICTURES[command][0]) if plot else None


def plan(kind, spec, data):
    """Refuse a picture that cannot be drawn; list the experiments it needs besides the run."""
    if kind is None:
        return []
    if kind in LOOKS:
        experiment.need_two_classes(data, spec.data, f"the picture {kind!r}")
        if kind == "boundary" and data.X.shape[1] != 2:
            text = f"'boundary' needs two features and {data.name} has {data.X.shape[1]}"
            hint = "leave columns out with --drop, or take --data gaussians, or another --picture"
            raise ValueError(f"the picture {text}; {hint}")
        return []
    if kind == "time":
        if LARGEST * len(data.y) < 2 * SMALLEST:
            least = f"the picture 'time' needs at least {round(2 * SMALLEST / LARGEST)} rows"
            hint = f"{data.name} has {len(data.y)}; take --data linear:10000x20, say"
            raise ValueError(f"{least} and {hint}")
        sizes = np.geomspace(SMALLEST, LARGEST * len(data.y), SIZES).round().tolist()
        changed = {"cv": None, "trials": len(spec)}
        return [replace(spec, train=n, **changed) for n in sizes if n >= len(data.classes)]
    own, values = _own(kind, asdict(spec)), grid(spec.method, kind)
    return [replace(spec, params=spec.params | {kind: v}) for v in values if v != own]


def on_fitted(kind, data):
    """Return the function that `experiment.trials` calls with each model, or None."""
    return functools.partial(LOOKS[kind], data) if kind in LOOKS else None


def grid(command, parameter):
    """Values of a parameter whose effect is shown."""
    return FINER.get((command, parameter)) or methods.GRIDS[command][parameter]


def _own(parameter, spec):
    """The value of a parameter in a specification."""
    return spec["params"].get(parameter, methods.parameters(spec["method"])[parameter].default)


def run(specs, data, callback=None):
    """Yield the records of several experiments, but for those that the method refuses."""
    for spec in specs:
        try:
            yield from experiment.trials(spec, data=data, callback=callback, warm=True)
        except ValueError:  # The value suits other data: the curve has a gap there.
            continue


def collect(kind, records, others=()):
    """Make a picture of the records of a run, and of those of the experiments besides it."""
    if kind is None:
        return None
    name, data = methods.KNOWN[records[0]["spec"]["method"]][1], records[0]["data"]["name"]
    if kind in LOOKS:
        seen = [record["picture"] for record in records]
        found = seen[0] if kind == "boundary" else {"runs": seen}
    else:
        found = _times(others) if kind == "time" else _effect(kind, records, others)
    picture = {"kind": kind, "method": name, "data": data, "trials": len(records)}
    return experiment.plain_record(picture | found)


def convergence(data, trial, fitted):
    """Iteration, seconds and certified gap of a fit by each solver; an empty list if it fails."""
    name, params = type(fitted.model).__name__, fitted.model.get_params(deep=False)
    curves = {}
    for solver in SOLVERS.get(name, (name,)):
        changes = {"solver": solver} if name in SOLVERS else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # That "paper" stops short is what the picture shows.
            try:
                if changes:  # Kernels of the other solvers may not have been compiled yet.
                    _watched(fitted, changes | {"max_iter": experiment.WARM_UP_ITERATIONS})
                curves[solver] = _watched(fitted, changes)
            except ValueError:
                curves[solver] = []
    return {"tol": params.get("tol", params.get("eps")), "curves": curves}


def _watched(fitted, changes):
    """Fit a twin of a model, with some parameters changed; return the points of its curve."""
    points = []

    def watch(model, iteration, info):
        if "rows" not in info:  # Else it is the gap of a smaller problem.
            points.append([iteration, time.perf_counter() - start, info["residual"]])

    params = fitted.model.get_params(deep=False) | changes | {"callback": watch}
    twin = type(fitted.model)(**params)
    start = time.perf_counter()
    twin.fit(fitted.X, fitted.y)
    end = [int(twin.n_iter_), time.perf_counter() - start, float(twin.residual_)]
    return [point for point in points if point[0] < twin.n_iter_] + [end]


def members(data, trial, fitted):
    """Error after 1, 2, ... members on the rows for training and for testing."""
    parts = {"train": (fitted.X, fitted.y), "test": (fitted.X_test, fitted.y_test)}
    return {part: staged_errors(fitted.model, *rows) for part, rows in parts.items()}


def staged_errors(model, X, y):
    """Error of the vote of the first 1, 2, ... members on rows of class 0 or 1."""
    if hasattr(model, "staged_decision_function"):
        decisions = model.staged_decision_function(X)
    else:
        weights = model.weights_ / model.weights_.max()  # Equal ones are 1: ties stay ties.
        decisions = np.cumsum(model.votes(X) * weights, axis=1).T
    return [float(((decision >= 0) != (y == 1)).mean()) for decision in decisions]


def margins(data, trial, fitted):
    """Share of rows with a margin of at most each of MARGINS, for training and for testing.

    The margin is y f(x) over the sum of the weights or, of UNBOUNDED, the largest training |f|.
    """
    model = fitted.model
    f, f_test = model.decision_function(fitted.X), model.decision_function(fitted.X_test)
    scaled = type(model).__name__ in UNBOUNDED or bool(abs(f).max() > model.weights_.sum())
    unit = abs(f).max() if scaled else model.weights_.sum()
    return {
        "scaled": scaled,
        "at": MARGINS.tolist(),
        "train": _distribution(f, fitted.y, unit),
        "test": _distribution(f_test, fitted.y_test, unit),
    }


def _distribution(decision, y, unit):
    """Share of the margins up to each of MARGINS; those beyond +-1 are counted there."""
    found = np.sort(np.clip(np.where(y == 1, decision, -decision) / (unit or 1.0), -1.0, 1.0))
    return (np.searchsorted(found, MARGINS, side="right") / found.size).tolist()


def boundary(data, trial, fitted):
    """Decisions of the first model, and of few members that differ, on a grid; training rows."""
    if trial:
        return None
    raw, model = data.X[fitted.train], fitted.model
    kept = np.flatnonzero(np.isfinite(raw).all(axis=1))[:MOST_POINTS]  # A gap has no place.
    low, high = np.nanmin(data.X, axis=0), np.nanmax(data.X, axis=0)
    air = np.where(high > low, AIR * (high - low), 1.0)
    axes = np.linspace(low - air, high + air, GRID).T
    points = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    X = fitted.prep.transform(points)
    votes = model.votes(X) if 1 < model.weights_.size <= FEW_MEMBERS else np.zeros((len(X), 1))
    differ = np.ptp(votes, axis=1).max() > experiment.EQUAL * abs(votes).max()
    return {
        "features": list(data.feature_names),
        "classes": list(data.classes),
        "axes": axes.tolist(),
        "decision": model.decision_function(X).reshape(GRID, GRID).tolist(),
        "members": [vote.reshape(GRID, GRID).tolist() for vote in votes.T] if differ else [],
        "points": raw[kept].tolist(),
        "labels": fitted.y[kept].tolist(),
        "rows": len(raw),
    }


LOOKS = {look.__name__: look for look in (convergence, members, margins, boundary)}


def _times(others):
    """Seconds of every fit, by the number of rows."""
    seconds = {}
    for record in others:
        seconds.setdefault(record["train_rows"], []).append(record["fit_seconds"])
    if len(seconds) < 2:
        raise ValueError("the picture 'time' needs fits on two numbers of rows; take more rows")
    return {"rows": sorted(seconds), "seconds": [seconds[n] for n in sorted(seconds)]}


def _effect(parameter, records, others):
    """Errors, and the members' disagreement where all have one, by the value of a parameter."""
    groups = {}
    for record in [*records, *others]:
        groups.setdefault(_own(parameter, record["spec"]), []).append(record)
    whole = [v for v, some in groups.items() if len(some) == len(records)]
    numbers = float if parameter == "max_features" else int | float  # A whole one counts features.
    values = sorted(v for v in whole if isinstance(v, numbers))
    if not values:
        raise ValueError(f"the picture {parameter!r} needs a value that suits the data")
    own = _own(parameter, records[0]["spec"])

    def each(field):
        return [[field(record) for record in groups[value]] for value in values]

    differ = each(lambda record: (record["diversity"] or {}).get("disagreement"))
    return {
        "own": own if own in values else None,
        "values": values,
        "train": each(lambda record: record["train_error"]),
        "test": each(lambda record: record["test_error"]),
        "disagreement": None if any(None in row for row in differ) else differ,
    }

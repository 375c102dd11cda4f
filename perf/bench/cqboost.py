"""CqBoost and its family: comparison with CVXOPT and linprog, and growth in rows.

Quality   Every contestant generates columns until the certified gap over all stumps is below 1e-6,
          and both ends have the same objective. Peers are given the matrix of all stumps; its
          making is not timed. Ours bin the rows and price them from the bins.
Peers     CVXOPT on the Gram matrix of the columns; linprog on the linear program of all voters.
          `pip install cvxopt`.
Forest    CqBoost re-weights the trees of a random forest; mu by five-fold cross-validation.
Start-up  A first report on the command line against `import sklearn.svm`.
"""

import importlib.util
from functools import partial

import numpy as np
from scipy.optimize import linprog

import datasets
from perf.bench.common import certified, growth, python, time_interleaved
from perf.bench.problems import make
from solvers.cqboost import CGBoost, CqBoost, LPBoost, MDBoost, MinCq

EPS = 1e-6
MU, C = 0.1, 0.05
PLOT = 30  # Features of the problems in the plot.
FRACTIONS = 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95  # Ratios of mu to the edge of the best tree.
LARGE = """
from pathlib import Path
from perf.bench.problems import make
from solvers.cqboost import CqBoost
X, y, _ = make({n}, {d})
model = CqBoost(mu={mu}, master="active-set").fit(X, y)
assert model.converged_
lines = Path("/proc/self/status").read_text().splitlines()  # getrusage counts the parent, too
print(next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")))
"""


def margins(X, y):
    """Return y_i h_j(x_i) for all stumps and complements, (n, voters)."""
    low, high = X.min(axis=0), X.max(axis=0)
    thresholds = [low + (high - low) * k / 11 for k in range(1, 11)]
    H = np.hstack([np.where(X > threshold, 1.0, -1.0) for threshold in thresholds])
    return y[:, None] * np.hstack([H, -H])


def column_generation(A, mu):
    """Return min |A q|^2 / n of CqBoost by Algorithm 1, each restricted master solved by CVXOPT."""
    n, chosen = len(A), [int(A.mean(axis=0).argmax())]
    while True:
        columns = np.ascontiguousarray(A[:, chosen])
        q, beta = cvxopt_master(columns, mu)
        q = np.maximum(q, 0.0)
        q /= q.sum()
        g = columns @ q
        edges = A.T @ ((beta - 2.0 * g) / n)
        second = g @ g / n
        if edges.max() <= beta * mu - 2.0 * second + EPS or len(chosen) == A.shape[1]:
            return second
        edges[chosen] = -np.inf
        chosen.append(int(edges.argmax()))


def cvxopt_master(A, mu):
    """Minimise |A q|^2 / n: sum q = 1, mean A q >= mu, q >= 0; return q and the mu multiplier."""
    from cvxopt import matrix, solvers

    n, k = A.shape
    P = 2.0 / n * A.T @ A
    G = np.vstack([-np.eye(k), -A.mean(axis=0)])
    h = np.concatenate([np.zeros(k), [-mu]])
    program = map(matrix, (P, np.zeros(k), G, h, np.ones((1, k)), np.ones((1, 1))))
    options = {"show_progress": False, "abstol": 1e-9, "reltol": 1e-9}
    solution = solvers.qp(*program, options=options)
    return np.array(solution["x"])[:, 0], solution["z"][k]


def versus_cvxopt(report, n, d):
    """Column generation with OSQP against CVXOPT."""
    X, y, data = make(n, d)
    ours = partial(CqBoost(mu=MU, master="osqp").fit, X, y)
    is_installed = importlib.util.find_spec("cvxopt")
    peer = partial(column_generation, margins(X, y), MU) if is_installed else None
    (seconds, model), (other, value) = time_interleaved(ours, peer, seconds=0)
    assert peer is None or abs(value - model.objective_) <= 2 * EPS, (value, model.objective_)
    row = dict(what="CqBoost, CVXOPT, Gram matrix / osqp", size=f"{n} x {d}", target=">= 1")
    row |= dict(data=data, gap=certified(model), objective=model.objective_, needs="cvxopt")
    note = f"{model.n_generated_} columns, gap {model.residual_:.0e}"
    report.add(**row, ours=seconds, peer=other, note=note)


def versus_osqp(report, cls, n, d, target="", **params):
    """The active-set method against OSQP."""
    X, y, data = make(n, d)
    fits = [partial(cls(master=master, **params).fit, X, y) for master in ("active-set", "osqp")]
    (seconds, model), (other, slow) = time_interleaved(*fits)
    assert abs(model.objective_ - slow.objective_) <= 2 * EPS * max(1.0, abs(model.objective_))
    row = dict(what=f"{cls.__name__}, osqp / active-set", size=f"{n} x {d}", target=target)
    row |= dict(data=data, objective=model.objective_, gap=max(certified(model), certified(slow)))
    if cls is CqBoost and d == PLOT:
        row |= dict(curves={"CqBoost": [[n, seconds]], "CqBoost by OSQP": [[n, other]]})
    note = f"{model.n_generated_} columns, {model.n_columns_} with weight"
    report.add(**row, ours=seconds, peer=other, note=note)


def versus_linprog(report, n, d, C):
    """LPBoost against one linear program with all voters."""
    X, y, data = make(n, d)
    A = margins(X, y)
    peer = partial(linprog, -np.ones(n), A.T, np.ones(A.shape[1]), bounds=(0.0, C))
    runs = time_interleaved(partial(LPBoost(C=C).fit, X, y), peer, seconds=0)
    (seconds, model), (other, solution) = runs
    assert abs(model.objective_ + solution.fun) <= 2 * EPS * model.objective_
    row = dict(what=f"LPBoost, C = {C:g}, whole linprog / ours", size=f"{n} x {d}", target=">= 1")
    row |= dict(ours=seconds, peer=other, data=data, gap=certified(model))
    if C == 1.0 and d == PLOT:
        row |= dict(curves={"LPBoost": [[n, seconds]], "linprog, all voters": [[n, other]]})
    note = f"{model.n_generated_} columns of {model.n_voters_}"
    report.add(**row, objective=model.objective_, note=note)


def rows(report, sizes, d, linear="", memory=""):
    """Exponent of the active-set method in rows, and its memory at the larger size."""
    model = partial(CqBoost, mu=MU, master="active-set")
    row, models = growth(sizes, [partial(model().fit, *make(n, d)[:2]) for n in sizes])
    row["note"] += " rows; {} and {} columns".format(*(model.n_generated_ for model in models))
    row |= dict(target=linear, gap=max(map(certified, models)))
    if d == PLOT:
        row |= dict(curves={"CqBoost": row["points"]})
    size = f"{sizes[1]} x {d}"
    report.add("CqBoost active-set, growth in rows", size, **row)
    output = python("-c", LARGE.format(n=sizes[1], d=d, mu=MU))()
    row = dict(ratio=float(output), form="{:.0f} MB", target=memory, note="whole process")
    report.add("CqBoost active-set, peak memory", size, None, **row)


class Outputs:
    """Tree given by its predictions on all rows; X holds indices of rows."""

    classes_ = np.array([0, 1])

    def __init__(self, predictions):
        self.predictions = predictions

    def predict(self, rows):
        return self.predictions[rows[:, 0].astype(int)]


def forest_trial(X, y, trial):
    """Grow 200 trees on half of the rows, weigh them on a quarter, test both votes on a quarter.

    Returns the accuracies of CqBoost and of the forest, and the fraction of trees with weight.
    """
    from sklearn.ensemble import RandomForestClassifier

    (split,) = datasets.splits(y, trials=trial + 1, first=trial)
    grow, rest = split
    weigh, test = (rest[rows] for rows in next(datasets.splits(y[rest], seed=trial)))
    X = datasets.Preprocess("none").fit(X[grow]).transform(X)
    forest = RandomForestClassifier(200, random_state=trial).fit(X[grow], y[grow])
    votes = np.array([tree.predict(X) for tree in forest.estimators_])
    trees = [Outputs(column) for column in votes]

    def fit(rows, fraction):
        best = (2.0 * (votes[:, rows] == y[rows]).mean(axis=1) - 1.0).max()
        model = CqBoost(mu=fraction * best, voters=trees, master="active-set")
        return model.fit(rows[:, None], y[rows])

    def accuracy(fraction):
        folds = datasets.splits(y[weigh], trials=1, cv=5, seed=trial)
        hits = (fit(weigh[a], fraction).predict(weigh[b, None]) == y[weigh[b]] for a, b in folds)
        return np.concatenate(list(hits)).mean()

    model = fit(weigh, max(FRACTIONS, key=accuracy))
    plain = (votes[:, test].mean(axis=0) >= 0.5) == y[test]
    return model.score(test[:, None], y[test]), plain.mean(), model.n_columns_ / 200


def forest(report, trials=10):
    """CqBoost on the trees of a random forest, on rows that did not grow the trees."""
    lost, fractions = [], []
    for name in ("australian", "german-numer", "ionosphere", "pima", "wdbc"):
        data = datasets.load(name)
        results = [forest_trial(data.X, data.y, trial) for trial in range(trials)]
        ours, plain, fraction = 100 * np.mean(results, axis=0)
        lost.append(plain - ours)
        fractions.append(fraction)
        note = f"accuracy {ours:.1f} %, the forest {plain:.1f} %"
        row = dict(ratio=float(fraction), form="{:.1f} %", note=note)
        report.add(f"share of a forest's trees kept, {name}", f"{len(data.y)}", None, **row)
    row = dict(ratio=float(max(fractions)), form="{:.1f} %", target="<= 30")
    report.add("share of trees kept, largest", "", None, **row)
    row = dict(ratio=float(np.mean(lost)), form="{:.2f}", target="<= 1.5")
    report.add("points of accuracy lost, mean", "", None, **row)


def run(report, large):
    for d in (30, 60):
        versus_cvxopt(report, 500, d)
    for n, target in ((500, ">= 15"), (5_000, ">= 8")):
        for d in (30, 60):
            versus_osqp(report, CqBoost, n, d, target, mu=MU)
            versus_osqp(report, MDBoost, n, d, target, D=10.0)
    versus_osqp(report, MinCq, 500, 30, mu=0.03)
    versus_osqp(report, CGBoost, 500, 30, C=C)
    for n in (500, 1_000, 2_000, 4_000):
        versus_linprog(report, n, 30, 1.0)
    versus_linprog(report, 500, 30, C)
    rows(report, (10_000, 100_000), 30, "<= 1", "<= 1000")
    if large:
        rows(report, (100_000, 1_000_000), 30)
    forest(report)
    report.startup("cqboost --master active-set", "cqboost")

"""How CqBoost and its family compare with CVXOPT and linprog, and how they scale in rows.

Quality   Every contestant generates columns until the certified gap over all stumps is below 1e-6,
          and both ends have the same objective. Peers are given the matrix of all stumps; its
          making is not timed. Ours bin the rows and price them from the bins.
Peers     CVXOPT with the margins as variables, as the one published CqBoost has it, and with the
          small Gram matrix instead; linprog, cold, on LPBoost's masters and on the linear program
          of the whole pool. `pip install cvxopt`.
Forest    CqBoost re-weights the trees of a random forest; mu by five-fold cross-validation.
Start-up  A first report on the command line against `import sklearn.svm`.
"""

import importlib.util
from functools import partial

import numpy as np

import datasets
from perf.bench.common import certified, first_reports, growth, missing, python, race, timed
from perf.bench.problems import make
from solvers.cqboost import CGBoost, CqBoost, LPBoost, MDBoost, MinCq

EPS = 1e-6
MU, C = 0.1, 0.05
PLOT = 30  # features of the problems in the plot
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
    """y_i h_j(x_i) for all stumps and complements, (n, voters)."""
    low, high = X.min(axis=0), X.max(axis=0)
    cuts = [low + (high - low) * k / 11 for k in range(1, 11)]
    H = np.hstack([np.where(X > cut, 1.0, -1.0) for cut in cuts])
    return y[:, None] * np.hstack([H, -H])


def generate(master, A, mu):
    """Column generation as in Algorithm 1 around any master(columns, mu) -> (q, beta)."""
    n = len(A)
    first, chosen = A.mean(axis=0), [int(A.mean(axis=0).argmax())]
    while True:
        columns = np.ascontiguousarray(A[:, chosen])
        q, beta = master(columns, mu)
        q = np.maximum(q, 0.0)
        q /= q.sum()
        g = columns @ q
        edges = A.T @ ((beta - 2.0 * g) / n)
        second = g @ g / n
        if edges.max() <= beta * mu - 2.0 * second + EPS or len(chosen) == len(first):
            return second
        edges[chosen] = -np.inf
        chosen.append(int(edges.argmax()))


def cvxopt_margins(A, mu):
    """min |g|^2 / n over (q, g): g = A q, sum q = 1, mean g >= mu, q >= 0."""
    from cvxopt import matrix, solvers

    n, k = A.shape
    P = np.diag(np.concatenate([np.zeros(k), np.full(n, 2.0 / n)]))
    G = np.vstack([np.eye(k, k + n) * -1.0, np.concatenate([np.zeros(k), np.full(n, -1.0 / n)])])
    h = np.concatenate([np.zeros(k), [-mu]])
    E = np.vstack([np.hstack([A, -np.eye(n)]), np.concatenate([np.ones(k), np.zeros(n)])])
    b = np.concatenate([np.zeros(n), [1.0]])
    parts = map(matrix, (P, np.zeros(k + n), G, h, E, b))
    found = solvers.qp(*parts, options={"show_progress": False, "abstol": 1e-9, "reltol": 1e-9})
    return np.array(found["x"])[:k, 0], found["z"][k]


def cvxopt_gram(A, mu):
    """The same in q alone."""
    from cvxopt import matrix, solvers

    n, k = A.shape
    P = 2.0 / n * A.T @ A
    G = np.vstack([-np.eye(k), -A.mean(axis=0)])
    h = np.concatenate([np.zeros(k), [-mu]])
    parts = map(matrix, (P, np.zeros(k), G, h, np.ones((1, k)), np.ones((1, 1))))
    found = solvers.qp(*parts, options={"show_progress": False, "abstol": 1e-9, "reltol": 1e-9})
    return np.array(found["x"])[:, 0], found["z"][k]


def cold_linprog(A):
    """LPBoost with every master solved anew."""
    from scipy.optimize import linprog

    n, size = A.shape
    a, chosen = np.full(n, C), []
    while True:
        edges = A.T @ a
        if edges.max() <= 1.0 + EPS:
            return a.sum()
        edges[chosen] = -np.inf
        chosen.append(int(edges.argmax()))
        found = linprog(-np.ones(n), A[:, chosen].T, np.ones(len(chosen)), bounds=(0.0, C))
        a = found.x


def versus_cvxopt(report, n, d):
    """The OSQP route against both ways to use CVXOPT."""
    X, y, data = make(n, d)
    A = margins(X, y)
    ours = partial(CqBoost(mu=MU, master="osqp").fit, X, y)
    there = importlib.util.find_spec("cvxopt")
    small = partial(generate, cvxopt_gram, A, MU) if there else None
    (seconds, model), (theirs, value) = race(ours, small, seconds=0)
    slow, slow_value = timed(partial(generate, cvxopt_margins, A, MU)) if there else (None, None)
    for what, peer, found, target in (
        ("CVXOPT, margins as variables / osqp", slow, slow_value, ">= 20"),
        ("CVXOPT, Gram matrix / osqp", theirs, value, ">= 1"),
    ):
        row = dict(what=f"CqBoost, {what}", size=f"{n} x {d}", ours=seconds, target=target)
        row |= dict(data=data, gap=certified(model), objective=model.objective_)
        if there:
            assert abs(found - model.objective_) <= 2 * EPS, (found, model.objective_)
            note = f"{model.n_generated_} columns, gap {model.residual_:.0e}"
            report.add(**row, peer=peer, note=note)
        else:
            report.add(**row, note=missing("cvxopt"))


def versus_osqp(report, cls, n, d, target="", **params):
    """The active-set route against the OSQP route."""
    X, y, data = make(n, d)
    fast, slow = cls(master="active-set", **params), cls(master="osqp", **params)
    (ours, model), (theirs, other) = race(partial(fast.fit, X, y), partial(slow.fit, X, y))
    assert abs(model.objective_ - other.objective_) <= 2 * EPS * max(1.0, abs(model.objective_))
    row = dict(what=f"{cls.__name__}, osqp / active-set", size=f"{n} x {d}", target=target)
    row |= dict(ours=ours, peer=theirs, data=data, objective=model.objective_)
    row |= dict(gap=max(certified(model), certified(other)))
    if cls is CqBoost and d == PLOT:
        row |= dict(curves={"CqBoost": [[n, ours]], "CqBoost by OSQP": [[n, theirs]]})
    report.add(**row, note=f"{model.n_generated_} columns, {model.n_columns_} with weight")


def linear_program(report, n, d):
    """LPBoost against column generation by cold linprog."""
    X, y, data = make(n, d)
    A = margins(X, y)
    ours, peer = partial(LPBoost(C=C).fit, X, y), partial(cold_linprog, A)
    (seconds, model), (theirs, value) = race(ours, peer)
    assert abs(model.objective_ - value) <= 2 * EPS * model.objective_
    row = dict(what="LPBoost, cold linprog / ours", size=f"{n} x {d}", ours=seconds, peer=theirs)
    row |= dict(data=data, gap=certified(model))
    note = f"{model.n_generated_} columns"
    report.add(**row, target=">= 5", note=note, objective=model.objective_)


def whole_linprog(A, C):
    """LPBoost's linear program with all voters at once."""
    from scipy.optimize import linprog

    n, size = A.shape
    return -linprog(-np.ones(n), A.T, np.ones(size), bounds=(0.0, C)).fun


def whole_program(report, n, d, C):
    """LPBoost against one linprog on the whole pool."""
    X, y, data = make(n, d)
    A = margins(X, y)
    ours, peer = partial(LPBoost(C=C).fit, X, y), partial(whole_linprog, A, C)
    (seconds, model), (theirs, value) = race(ours, peer, seconds=0)
    assert abs(model.objective_ - value) <= 2 * EPS * model.objective_
    row = dict(what=f"LPBoost, C = {C:g}, whole linprog / ours", size=f"{n} x {d}", ours=seconds)
    row |= dict(peer=theirs, target=">= 1", data=data)
    if C == 1.0 and d == PLOT:
        row |= dict(curves={"LPBoost": [[n, seconds]], "linprog, all voters": [[n, theirs]]})
    note = f"{model.n_generated_} columns of {model.n_voters_}"
    report.add(**row, gap=certified(model), objective=model.objective_, note=note)


def rows(report, sizes, d, linear="", memory=""):
    """Exponent of the active-set route in rows, and the memory of the largest."""
    model = partial(CqBoost, mu=MU, master="active-set")
    row, models = growth(sizes, [partial(model().fit, *make(n, d)[:2]) for n in sizes])
    row["note"] += " rows; {} and {} columns".format(*(model.n_generated_ for model in models))
    row |= dict(target=linear, gap=max(map(certified, models)))
    if d == PLOT:
        row |= dict(curves={"CqBoost": row["points"]})
    report.add("CqBoost active-set, growth in rows", f"{sizes[1]} x {d}", **row)
    output = python("-c", LARGE.format(n=sizes[1], d=d, mu=MU))()
    row = dict(what="CqBoost active-set, peak memory", size=f"{sizes[1]} x {d}", ours=None)
    report.add(**row, ratio=float(output), form="{:.0f} MB", target=memory, note="whole process")


class Outputs:
    """A tree by its predictions, made once: X holds numbers of rows."""

    classes_ = np.array([0, 1])

    def __init__(self, predictions):
        self.predictions = predictions

    def predict(self, rows):
        return self.predictions[rows[:, 0].astype(int)]


def forest_trial(X, y, trial, fractions):
    """Half of the rows grow 200 trees, a quarter weighs them, a quarter tests both votes."""
    from sklearn.ensemble import RandomForestClassifier

    grow, rest = list(datasets.splits(y, trials=trial + 1))[trial]
    weigh, test = (rest[part] for part in next(datasets.splits(y[rest], seed=trial)))
    fill = datasets.Preprocess("none").fit(X[grow])
    X = fill.transform(X)
    forest = RandomForestClassifier(200, random_state=trial).fit(X[grow], y[grow])
    votes = np.array([tree.predict(X) for tree in forest.estimators_])
    trees = [Outputs(column) for column in votes]

    def fit(rows, fraction):
        best = (2.0 * (votes[:, rows] == y[rows]).mean(axis=1) - 1.0).max()
        model = CqBoost(mu=fraction * best, voters=trees, master="active-set")
        return model.fit(rows[:, None], y[rows])

    def right(fraction):
        folds = datasets.splits(y[weigh], trials=1, cv=5, seed=trial)
        hits = (fit(weigh[a], fraction).predict(weigh[b, None]) == y[weigh[b]] for a, b in folds)
        return np.concatenate(list(hits)).mean()

    model = fit(weigh, max(fractions, key=right))
    plain = (votes[:, test].mean(axis=0) >= 0.5) == y[test]
    return model.score(test[:, None], y[test]), plain.mean(), model.n_columns_ / 200


def forest(report, trials=10):
    """CqBoost on the trees of a random forest, on rows that these have not seen."""
    if not importlib.util.find_spec("sklearn"):
        return
    fractions = [0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95]  # of the best tree's edge
    lost, shares = [], []
    for name in ("australian", "german-numer", "ionosphere", "pima", "wdbc"):
        data = datasets.load(name)
        results = [forest_trial(data.X, data.y, trial, fractions) for trial in range(trials)]
        ours, plain, share = np.mean(results, axis=0)
        lost.append(100 * (plain - ours))
        shares.append(share)
        note = f"accuracy {100 * ours:.1f} %, the forest {100 * plain:.1f} %"
        row = dict(what=f"share of a forest's trees kept, {name}", size=f"{len(data.y)}", ours=None)
        report.add(**row, ratio=float(100 * share), form="{:.1f} %", note=note)
    row = dict(what="share of trees kept, largest", size="", ours=None, target="<= 30")
    report.add(**row, ratio=float(100 * max(shares)), form="{:.1f} %")
    row = dict(what="points of accuracy lost, mean", size="", ours=None, target="<= 1.5")
    report.add(**row, ratio=float(np.mean(lost)), form="{:.2f}")


def run(report, large):
    for d in (30, 60):
        versus_cvxopt(report, 500, d)
    for n, target in ((500, ">= 15"), (5_000, ">= 8")):
        for d in (30, 60):
            versus_osqp(report, CqBoost, n, d, target, mu=MU)
            versus_osqp(report, MDBoost, n, d, target, D=10.0)
    versus_osqp(report, MinCq, 500, 30, mu=0.03)
    versus_osqp(report, CGBoost, 500, 30, C=C)
    for d in (30, 60):
        linear_program(report, 500, d)
    for n in (500, 1_000, 2_000, 4_000):
        whole_program(report, n, 30, 1.0)
    whole_program(report, 500, 30, C)
    rows(report, (10_000, 100_000), 30, "<= 1", "<= 1000")
    if large:
        rows(report, (100_000, 1_000_000), 30)
    forest(report)
    report.startup(first_reports("cqboost", "--master", "active-set"))
    report.startup(first_reports("cqboost"))

"""How PSVM and ExRM scale in rows and members, and how they compare with LinearSVC.

Quality   Every contestant reaches a relative gap of 1e-6 on its own problem: LinearSVC with the
          loosest `tol` that does, found beforehand. Its bias is penalised, PSVM's is free.
Start-up  A first report on the command line against `import sklearn.svm`.
"""

from functools import partial

import numpy as np

import datasets
from perf.common import SOON, exponent, first_reports, python, race, timed
from solvers.exrm import PSVM, ExRM

GAP = 1e-6
C = 1.0
LOSS = {1: "hinge", 2: "squared hinge"}
TOLS = [10 ** (-k / 2) for k in range(2, 19)]  # 1e-1 down to 1e-9
MAX_ITER = 1_000_000  # so that tol alone stops LinearSVC
BUDGET, PATIENCE = 20.0, 20  # a fit of it may take so many seconds or so many times ours
MISSING = "scikit-learn is missing: pip install scikit-learn"

SQUARED = {  # rows, features: the speed-up aimed at
    (1_000, 20): "",
    (10_000, 20): ">= 10",
    (100_000, 20): "",
    (1_000, 100): "",
    (10_000, 100): ">= 6",
}
SQUARED_LARGE = {(1_000_000, 20): ">= 10"}
HINGE = {(1_000, 20): "", (10_000, 20): ">= 8", (1_000, 100): ">= 1", (10_000, 100): ">= 1"}

FITS = """
import time, datasets
from solvers.exrm import ExRM
data = datasets.load("sonar")
for _ in range(10):
    start = time.perf_counter()
    ExRM().fit(data.X, data.y)
    print(time.perf_counter() - start)
"""


def make(n, d, seed=0):
    """Return standardised X (n, d), y (-1.0 or 1.0) and the name of the generator."""
    try:
        from sklearn.datasets import make_classification
    except ImportError:
        data = datasets.linear_problem(n, d, seed)
        X, y, name = data.X, data.y, "linear_problem"
    else:
        shape = dict(n_informative=d // 2, n_redundant=d // 4, flip_y=0.05)
        X, y = make_classification(n, d, **shape, random_state=seed)
        name = "make_classification"
    return (X - X.mean(0)) / X.std(0), 2.0 * y - 1.0, name


def score(model, X, y, lowest=None):
    """Return how far the model is from the optimum of its own problem, relative to its objective.

    Squared hinge: the duality gap at the multipliers 2 C slack, which have to balance between the
    classes where the bias is free. Hinge: the distance to `lowest`, a lower bound of the optimum.
    """
    w, b = model.coef_[0], model.intercept_[0]
    free = isinstance(model, PSVM)
    slack = np.maximum(0.0, 1.0 - y * (X @ w + b))
    half_norm = 0.5 * (w @ w + (0.0 if free else b * b))
    if lowest is not None:
        objective = half_norm + C * slack.sum()
        return (objective - lowest) / max(1.0, objective)
    objective = half_norm + C * slack @ slack
    alpha = 2.0 * C * slack
    if free:
        plus, minus = alpha[y > 0].sum(), alpha[y < 0].sum()
        alpha *= min(plus, minus) / np.where(y > 0, plus, minus)
    ya = y * alpha
    dual = alpha.sum() - alpha @ alpha / (4.0 * C) - 0.5 * (np.sum((ya @ X) ** 2) + ya.sum() ** 2)
    return (objective - dual) / max(1.0, objective)


def hinge_bound(X, y):
    """Return a certified lower bound of LinearSVC's optimum, tight to 1e-9.

    Its bias is the weight of a constant feature. Each row is joined by its mirror image (-x, -y)
    at half the cost: this leaves the loss as it is and makes 0 the best free bias.
    """
    X = np.column_stack([X, np.ones(len(X))])
    model = PSVM(p=1, lam=0.5 * C, tol=1e-9).fit(np.vstack([X, -X]), np.concatenate([y, -y]))
    return model.objective_ - model.residual_ * max(1.0, model.objective_)


def certified(model):
    """Return the residual of one of our models, which must have reached the gap."""
    assert model.residual_ <= GAP, f"{model!r}: residual {model.residual_:.1e}, not {GAP:g}"
    return model.residual_


def linear_svc(p):
    """Return LinearSVC with hinge power p as a function of tol; None without scikit-learn."""
    try:
        from sklearn.svm import LinearSVC
    except ImportError:
        return None
    loss = dict(loss="hinge") if p == 1 else dict(dual=False)
    return lambda tol: LinearSVC(**loss, C=C, tol=tol, max_iter=MAX_ITER, random_state=0)


def loosest(peer, X, y, lowest, budget):
    """Return (tol, gap, seconds) of the first fit that reaches GAP or takes more than budget."""
    for tol in TOLS:
        seconds, model = timed(partial(peer(tol).fit, X, y))
        gap = score(model, X, y, lowest)
        if gap <= GAP or seconds > budget:
            break
    return tol, gap, seconds


def versus(report, p, n, d, target):
    """PSVM against LinearSVC on one size."""
    X, y, data = make(n, d)
    ours = partial(PSVM(p=p, lam=C).fit, X, y)
    peer = linear_svc(p)
    row = dict(what=f"{LOSS[p]}, LinearSVC / PSVM", size=f"{n} x {d}", target=target, data=data)
    if peer is None:
        [(seconds, model)] = race(ours)
        report.add(**row, ours=seconds, note=MISSING, gap=certified(model))
        return

    lowest = hinge_bound(X, y) if p == 1 else None
    [(seconds, _)] = race(ours, seconds=0)
    tol, peer_gap, longest = loosest(peer, X, y, lowest, max(BUDGET, PATIENCE * seconds))
    reached = peer_gap <= GAP
    (seconds, model), (theirs, _) = race(ours, partial(peer(tol).fit, X, y) if reached else None)
    theirs = theirs or longest
    gap = certified(model)
    if p == 2:  # the certificate once more, from the coefficients alone
        gap = score(model, X, y)
        assert gap <= GAP, f"PSVM claims a gap of {model.residual_:.1e} but has {gap:.1e}"
    row |= dict(ours=seconds, peer=theirs, ratio=theirs / seconds)
    row |= dict(objective=model.objective_, gap=gap, peer_gap=peer_gap, peer_tol=tol)
    note = f"gap {gap:.1e} and {peer_gap:.1e}"
    if reached:
        report.add(**row, note=f"{note} (tol={tol:.0e})")
    else:
        report.add(**row, note=f"{note}: not reached", form="> {:.3g}x")


def growth(report, p, sizes, d, target=""):
    """Exponent of PSVM's time in the number of rows."""
    runs = race(*(partial(PSVM(p=p, lam=C).fit, *make(n, d)[:2]) for n in sizes))
    gap = max(certified(model) for _, model in runs)
    first, last = (seconds for seconds, _ in runs)
    row = dict(what=f"{LOSS[p]}, growth of PSVM in rows", size=f"{sizes[1]} x {d}", ours=last)
    row |= dict(ratio=exponent(sizes, (first, last)), form="n^{:.2f}", target=target)
    steps = " and ".join(str(model.n_iter_) for _, model in runs)
    note = f"{sizes[0]} rows: {1e3 * first:.2f} ms; {steps} iterations"
    report.add(**row, note=note, gap=gap)


def members(report, n=10_000, d=20):
    """What more members cost: equal samples, and a bootstrap sample each."""
    X, y, data = make(n, d)
    bootstrap = ExRM(n_estimators=10, lam=10 * C, sampling="bootstrap", random_state=0)
    models = ExRM(n_estimators=30, lam=30 * C), bootstrap, PSVM(lam=C)
    *runs, (single, _) = race(*(partial(model.fit, X, y) for model in models))
    kinds = ("30 equal", "<= 1.2"), ("10 bootstrap", "<= 15")
    for (kind, target), (seconds, model) in zip(kinds, runs, strict=True):
        row = dict(what=f"{kind} members, ExRM / PSVM", size=f"{n} x {d}", target=target, data=data)
        row |= dict(ours=seconds, peer=single, ratio=seconds / single)
        row |= dict(objective=model.objective_, gap=certified(model))
        report.add(**row, note=f"gap {model.residual_:.1e}")


def startup(report):
    """New interpreters: the first result a user sees, and what it is made of."""
    imports = {line: python("-c", line) for line in ("import numba", "import solvers.exrm")}
    report.startup(imports | first_reports("exrm"), SOON, rounds=5)
    first, *warm = map(float, python("-c", FITS)().split())
    report.add("first fit in a new process, kernels cached", "208 x 60", first)
    report.add("warm fit", "208 x 60", min(warm))


def run(report, large):
    for p, sizes in ((2, SQUARED | (SQUARED_LARGE if large else {})), (1, HINGE)):
        for (n, d), target in sizes.items():
            versus(report, p, n, d, target)
    sizes = (100_000, 1_000_000) if large else (10_000, 100_000)
    growth(report, 2, sizes, 20, "<= 1.1" if large else "")
    growth(report, 1, sizes, 20)
    members(report)
    startup(report)

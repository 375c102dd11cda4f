"""PSVM and ExRM: growth in rows and members, and comparison with LinearSVC.

Grid      A row for every kind in problems.py and each loss, then the geometric mean of all and the
          worst of them, which have the targets. Further sizes of one kind complete the plot.
Quality   Every contestant reaches a relative gap of 1e-6 on its own problem: LinearSVC with the
          loosest `tol` that does, found beforehand. Its bias is penalised, PSVM's is free. If it
          takes longer than its budget, it counts with the time that it took (">").
Wide      Ten bootstrap members with more columns than rows, which have no peer.
Start-up  A first report on the command line against `import sklearn.svm`.
"""

from functools import partial

import numpy as np

from perf.bench.common import GAP, SOON, certified, growth, time_interleaved, timed
from perf.bench.problems import Problem, built_in, make, planted, problems
from solvers.exrm import PSVM, ExRM

LAM = 1.0  # Of growth, members and the plot.
PLOT = (1_000, 3_000), 20  # Rows and features of the plot besides those of the grid.
LOSS = {1: "hinge", 2: "squared hinge"}
TOLS = [10 ** (-k / 2) for k in range(-1, 19)]  # 3 down to 1e-9
MAX_ITER = 1_000_000  # Of LinearSVC: tol alone stops it.
BUDGET, PATIENCE = {1: 3.0, 2: 20.0}, 10  # Limit of its fit: seconds by p, or times ours.
TIMING, SLOW = 0.5, 1.0  # Seconds of timing; a slower peer is only fitted once more.
TARGETS = {2: (">= 6", ">= 1.5"), 1: (">= 8", ">= 1")}  # Geometric mean, worst cell.


def score(model, X, y, lam, lowest=None):
    """Return the gap of a model to the optimum of its own problem, relative to its objective.

    Squared hinge: the duality gap at the multipliers 2 lam slack, which have to balance between
    the classes if the bias is free. Hinge: the distance to `lowest`, a bound of the optimum.
    """
    w, b = model.coef_[0], model.intercept_[0]
    free = isinstance(model, PSVM)
    slack = np.maximum(0.0, 1.0 - y * (X @ w + b))
    half_norm = 0.5 * (w @ w + (0.0 if free else b * b))
    if lowest is not None:
        return 1.0 - lowest / (half_norm + lam * slack.sum())
    objective = half_norm + lam * slack @ slack
    alpha = 2.0 * lam * slack
    if free:
        plus, minus = alpha[y > 0].sum(), alpha[y < 0].sum()
        alpha *= min(plus, minus) / np.where(y > 0, plus, minus)
    ya = y * alpha
    norm = np.sum((ya @ X) ** 2) + ya.sum() ** 2
    return 1.0 - (alpha.sum() - alpha @ alpha / (4.0 * lam) - 0.5 * norm) / objective


def hinge_bound(X, y, lam):
    """Return a certified lower bound of LinearSVC's optimum, tight to 1 % of GAP.

    Its bias is the weight of a constant feature. Each row is joined by its mirror image (-x, -y)
    at half the cost: the loss stays equal, and 0 becomes the best free bias.
    """
    X, tol = np.column_stack([X, np.ones(len(X))]), 0.01 * GAP
    model = PSVM(p=1, lam=0.5 * lam, tol=tol).fit(np.vstack([X, -X]), np.concatenate([y, -y]))
    return model.objective_ * (1.0 - certified(model, tol))


def linear_svc(p, lam):
    """Return LinearSVC with hinge power p as a function of tol."""
    from sklearn.svm import LinearSVC

    loss = dict(loss="hinge") if p == 1 else dict(dual=False)
    return lambda tol: LinearSVC(**loss, C=lam, tol=tol, max_iter=MAX_ITER, random_state=0)


def loosest(peer, X, y, lam, lowest, budget):
    """Return (tol, gap, seconds) of the first fit that reaches GAP or takes more than budget."""
    for tol in TOLS:
        seconds, model = timed(partial(peer(tol).fit, X, y))
        gap = score(model, X, y, lam, lowest)
        if gap <= GAP or seconds > budget:
            break
    return tol, gap, seconds


def versus(report, p, problem, **more):
    """Time PSVM against LinearSVC on one problem; return the speed-up."""
    kind, X, y, lam = problem
    ours = partial(PSVM(p=p, lam=lam).fit, X, y)
    peer = linear_svc(p, lam)
    row = dict(what=f"{LOSS[p]}, {kind}", size="{} x {}".format(*X.shape), lam=lam) | more
    lowest = hinge_bound(X, y, lam) if p == 1 else None
    [(seconds, _)] = time_interleaved(ours, seconds=0)
    budget = max(BUDGET[p], PATIENCE * seconds)
    tol, peer_gap, longest = loosest(peer, X, y, lam, lowest, budget)
    theirs, slow = partial(peer(tol).fit, X, y), longest > SLOW
    (seconds, model), (fastest, _) = time_interleaved(
        ours, None if slow else theirs, seconds=TIMING
    )
    theirs = min(longest, timed(theirs)[0] if slow else fastest)
    gap = certified(model)
    if p == 2:  # Check the certificate from the coefficients alone.
        gap = score(model, X, y, lam)
        assert gap <= GAP, f"PSVM claims a gap of {model.residual_:.1e} but has {gap:.1e}"
    row |= dict(ours=seconds, peer=theirs, objective=model.objective_)
    row |= dict(gap=gap, peer_gap=peer_gap, peer_tol=tol)
    if kind == "make_classification" and X.shape[1] == PLOT[1]:
        times = {f"PSVM, {LOSS[p]}": seconds, f"LinearSVC, {LOSS[p]}": theirs}
        row |= dict(curves={name: [[len(y), value]] for name, value in times.items()})
    is_reached = peer_gap <= GAP
    how = f" (tol={tol:.0e})" if is_reached else ": not reached"
    row |= dict(form="{:.3g}x" if is_reached else "> {:.3g}x")
    report.add(**row, note=f"lam {lam:g}, gap {gap:.1e} and {peer_gap:.1e}{how}")
    return theirs / seconds


def grid(report, p, large):
    """Time PSVM against LinearSVC on every kind of problem; add the mean of the speed-ups."""
    ratios = {}
    for problem in problems(large):
        where = "{}, {} x {}, lam {:g}".format(problem.kind, *problem.X.shape, problem.lam)
        ratios[where] = versus(report, p, problem, grid=LOSS[p])
    report.summary(LOSS[p], ratios, TARGETS[p])
    sizes, d = PLOT
    for n in sizes:
        X, y, generator = make(n, d)
        versus(report, p, Problem(generator, X, y, LAM))


def rows(report, p, sizes, d, target=""):
    """Exponent of PSVM's time in the number of rows."""
    fits = [partial(PSVM(p=p, lam=LAM).fit, *make(n, d)[:2]) for n in sizes]
    row, models = growth(sizes, fits)
    row["note"] += " rows; {} and {} iterations".format(*(model.n_iter_ for model in models))
    what, size = f"{LOSS[p]}, growth of PSVM in rows", f"{sizes[1]} x {d}"
    report.add(what, size, **row, target=target, gap=max(map(certified, models)))


def members(report, n=10_000, d=20):
    """Time of more members: equal samples, and a bootstrap sample each."""
    X, y, data = make(n, d)
    bootstrap = ExRM(n_estimators=10, lam=10 * LAM, sampling="bootstrap", random_state=0)
    models = ExRM(n_estimators=30, lam=30 * LAM), bootstrap, PSVM(lam=LAM)
    *runs, (single, _) = time_interleaved(*(partial(model.fit, X, y) for model in models))
    kinds = ("30 equal", "<= 1.2"), ("10 bootstrap", "<= 15")
    for (kind, target), (seconds, model) in zip(kinds, runs, strict=True):
        row = dict(what=f"{kind} members, ExRM / PSVM", size=f"{n} x {d}", target=target, data=data)
        row |= dict(ours=seconds, peer=single, ratio=seconds / single)
        row |= dict(objective=model.objective_, gap=certified(model))
        report.add(**row, note=f"gap {model.residual_:.1e}")


def wide(report):
    """Bootstrap members on more columns than rows."""
    wide = planted(500, 600), planted(100, 2_600)
    for kind, X, y, _ in (built_in("promoter", LAM), *wide):
        model = ExRM(n_estimators=10, sampling="bootstrap", random_state=0)
        seconds, _ = timed(partial(model.fit, X, y))
        note = f"gap {model.residual_:.1e}"
        report.add(f"10 bootstrap members, {kind}", "{} x {}".format(*X.shape), seconds, note=note)


def run(report, large):
    for p in (2, 1):
        grid(report, p, large and p == 2)
    sizes = (100_000, 1_000_000) if large else (10_000, 100_000)
    rows(report, 2, sizes, 20, "<= 1.1" if large else "")
    rows(report, 1, sizes, 20)
    members(report)
    wide(report)
    report.startup("exrm", targets=SOON, rounds=5)

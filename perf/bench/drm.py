"""One SMO run, NuSVM and DRM: comparison with scikit-learn's SVC and with ExRM.

Quality   KKT violation of 1e-3 in units of the margin, as SVC's `tol` counts it. "SVC, squared
          slack" solves our problem at the same multiplier: its kernel matrix has the bias and the
          slack added, C is infinite; SVC alone has a free bias on top. "SVC, hinge" is the usual
          alternative: rbf kernel, plain slack, the same C. Kernel values included.
Fit       NuSVM also searches the multiplier and the width of the kernel, and certifies its gap.
Grid      The whole fit against SVC on the same problem, squared slack, over sizes, nu, gamma, noise
          and built-in sets; the geometric mean and the worst cell are rows of their own.
"""

import warnings
from functools import partial

import numpy as np

import datasets
from perf.bench.common import time_interleaved
from perf.bench.problems import make
from solvers import drm
from solvers.drm import DRM, NuSVM
from solvers.exrm import ExRM

KKT = 1e-3
NU = 0.5, 0.1
GRID = [  # Rows, noise, nu, gamma / gamma of the mean distance.
    (300, 0.4, 0.5, 1.0), (300, 2.0, 0.05, 10.0), (1_000, 0.1, 0.1, 1.0), (1_000, 2.0, 0.5, 1.0),
    (1_000, 0.4, 0.01, 10.0), (1_000, 0.4, 0.005, 1.0), (2_000, 0.4, 0.5, 10.0),
    (2_000, 2.0, 0.1, 0.1), (2_000, 0.1, 0.02, 1.0), (5_000, 0.4, 0.5, 1.0),
    (5_000, 0.1, 0.1, 10.0), (5_000, 2.0, 0.2, 1.0),
]  # fmt: skip
SETS = [("german-numer", 0.5, 1.0), ("pima", 0.1, 1.0), ("titanic", 0.5, 1.0), ("splice", 0.2, 1.0),
        ("optdigits", 0.5, 1.0), ("letter-ab", 0.05, 1.0)]  # fmt: skip
SIZES = {500: ">= 3", 2_000: ">= 3", 5_000: ">= 2"}  # rows: target of the speed-up of SMO


def smo(X, y, model):
    """Run SMO once at the model's multiplier, from equal weights; return the dual objective."""
    n, nu = len(y), model.nu
    values, megabytes = model._kernel_to(X), model.cache_size
    rows = drm._KernelCache(values, X, y, model._diagonal(X), megabytes, np.float32)
    a = np.full(n, nu / n)
    (Qa,) = rows.multiply(a[None])[0]
    s, tol = float(model.lambda_[0]), KKT * float(model.rho_[0])
    dual = drm._Dual(np.full(n, n / 2.0), np.zeros(n), square=0.0, least=0.0, fixed=True)
    drm._solve_member(rows, dual, a, Qa, s, tol, 10**8)
    return a @ Qa / (4.0 * s) + n * a @ a / 4.0


def peers(X, y, model):
    """Return fits of SVC with the kernel and trade-off of the model: squared slack, and hinge."""
    from sklearn.metrics.pairwise import rbf_kernel
    from sklearn.svm import SVC

    C = 1.0 / (2.0 * float(model.lambda_[0]) * len(y))
    own = dict(tol=KKT, cache_size=1000)

    def squared():
        K = rbf_kernel(X, gamma=model.gamma_) + 1.0
        K[np.diag_indices(len(y))] += 1.0 / (2.0 * C)
        return SVC(kernel="precomputed", C=1e10, **own).fit(K, y)

    return squared, partial(SVC(gamma=model.gamma_, C=C, **own).fit, X, y)


def scaled(X):
    """Return X with columns in [0, 1]."""
    return datasets.Preprocess("minmax01").fit(X).transform(X)


def versus(report, n, nu, target):
    """One SMO run and a whole fit against SVC."""
    X, y, data = make(n, 20)
    X = scaled(X)
    model = NuSVM(nu=nu, tol=1e-9).fit(X, y)
    whole = partial(NuSVM(nu=nu, tol=KKT).fit, X, y)
    runs = time_interleaved(partial(smo, X, y, model), whole, *peers(X, y, model))
    (one, value), (fit, fitted), (theirs, _), (plain, _) = runs
    lam = float(model.lambda_[0])
    off = abs(value + lam + model.objective_)  # Gap of the dual at this multiplier.
    size, note = f"{n} x 20", f"nu {nu}, {len(model.support_)} support rows"
    more = dict(data=data, nu=nu, multiplier=lam, dual_gap=off)
    times = {"NuSVM": fit, "SVC, squared slack": theirs, "SVC, hinge": plain}
    curves = {name: [[n, seconds]] for name, seconds in times.items()}
    rows = (("SVC, squared slack / one SMO run", one, theirs, target),
            ("SVC, squared slack / NuSVM fit", fit, theirs, ">= 1"),
            ("SVC, hinge / one SMO run", one, plain, ""),
            ("SVC, hinge / NuSVM fit", fit, plain, ""))  # fmt: skip
    for what, ours, peer, goal in rows:
        gap = off if ours is one else fitted.residual_
        points = dict(curves=curves) if what.endswith("fit") and nu == NU[0] else {}
        row = dict(target=goal, note=f"{note}, gap {gap:.0e}", **more, **points)
        report.add(what, size, ours, peer, **row)


def cells():
    """Yield name, X, y, nu and gamma of the cells of the grid."""
    for n, noise, nu, gamma in GRID:
        made = datasets.linear_problem(n, 10, seed=n, noise=noise)
        yield f"noise {noise}", made.X, made.y, nu, gamma
    for name, nu, gamma in SETS:
        data = datasets.load(name)
        y = data.y if len(data.classes) == 2 else (data.y < len(data.classes) // 2).astype(int)
        yield data.name, np.nan_to_num(data.X), y, nu, gamma


def grid(report):
    """Whole fits of NuSVM against SVC over problems of many kinds."""
    ratios = {}
    for name, X, y, nu, width in cells():
        X, signs = scaled(X), np.where(y == y.max(), 1.0, -1.0)
        gamma = "mean_distance"
        if width != 1.0:
            gamma = width * NuSVM(tol=0.5).fit(X, signs).gamma_
        fit = partial(NuSVM(nu=nu, gamma=gamma, tol=KKT).fit, X, signs)
        theirs, _ = peers(X, signs, NuSVM(nu=nu, gamma=gamma, tol=1e-6).fit(X, signs))
        (ours, fitted), (peer, _) = time_interleaved(fit, theirs, rounds=2, seconds=0.5)
        size = "{} x {}".format(*X.shape)
        note = f"nu {nu:g}, gamma x {width:g}, {len(fitted.support_)} support rows"
        ratios[f"{name}, {size}, {note}"] = peer / ours
        row = dict(what=f"SVC / NuSVM fit, {name}", size=size, ours=ours, peer=peer)
        report.add(**row, target=">= 1", note=note, grid="whole fit", nu=nu, width=width)
    report.summary("SVC / NuSVM fit", ratios, (">= 2", ">= 1"))


def members(report, n=2_000):
    """Time of 21 members on equal samples, which "auto" trains as one."""
    X, y, data = make(n, 20)
    models = DRM(n_estimators=21), NuSVM()
    (many, model), (single, _) = time_interleaved(*(partial(m.fit, scaled(X), y) for m in models))
    row = dict(ratio=many / single, target="<= 1.5", note=f"gap {model.residual_:.0e}", data=data)
    report.add("21 equal members, DRM / NuSVM", f"{n} x 20", many, single, **row)


def alternating(report, T, n=150):
    """Algorithm 1 of DRM with all members against Algorithm 2 of ExRM, both as printed."""
    data = datasets.load("wdbc")
    rows = np.random.default_rng(0).permutation(len(data.y))[:n]
    X, y = scaled(data.X[rows]), data.y[rows]
    warnings.filterwarnings("ignore", message=".*Algorithm 2 as printed")
    models = DRM(T, solver="alternating"), ExRM(n_estimators=T, solver="paper")
    (ours, model), (theirs, _) = time_interleaved(*(partial(model.fit, X, y) for model in models))
    row = dict(what=f"{T} members by turns, DRM / ExRM as printed", size=f"{n} x {X.shape[1]}")
    row |= dict(ours=ours, peer=theirs, ratio=ours / theirs, target="<= 20", data=data.name)
    report.add(**row, note=f"{model.n_iter_} rounds")


def run(report, large):
    for n, target in SIZES.items():
        for nu in NU:
            versus(report, n, nu, target)
    grid(report)
    members(report)
    for T in (10, 30):
        alternating(report, T)
    report.startup("drm", data="heart", rounds=5)

"""How one SMO run, NuSVM and DRM compare with scikit-learn's SVC and with ExRM.

Quality   KKT violation of 1e-3 in units of the margin, as SVC's `tol` counts it. "SVC, squared
          slack" solves our problem at the same multiplier: its kernel matrix has the bias and the
          slack added, C is infinite; SVC alone has a free bias on top. "SVC, hinge" is what its
          user would take instead: rbf kernel, plain slack, the same C. Kernel values included.
Fit       NuSVM searches the multiplier and the width of the kernel, too, and certifies its gap.
"""

from functools import partial

import numpy as np

import datasets
from perf.bench_exrm import MISSING, make
from perf.common import first_reports, race
from solvers import drm
from solvers.drm import DRM, NuSVM
from solvers.exrm import ExRM

KKT = 1e-3
NU = 0.5, 0.1
SIZES = {500: ">= 3", 2_000: ">= 3", 5_000: ">= 2"}  # rows: the speed-up of SMO aimed at


def smo(X, y, model):
    """Kernel matrix and one SMO run at the model's multiplier, from equal weights."""
    n, nu = len(y), model.nu
    values, megabytes = model._kernel_to(X), model.cache_size
    rows = drm._Rows(values, X, y, model._diagonal(X), megabytes, np.float32)
    a, none = np.full(n, nu / n), np.zeros(n)
    (Qa,) = rows.times(a[None])[0]
    s, tol = float(model.lambda_[0]), KKT * float(model.rho_[0])
    drm._visit(rows, a, Qa, np.full(n, n / 2.0), none, none, 0.0, 0.0, s, tol, 10**8, fixed=True)
    return a @ Qa / (4.0 * s) + n * a @ a / 4.0


def peers(X, y, model):
    """SVC on the same rows with the same kernel and trade-off, in two ways; None if missing."""
    try:
        from sklearn.metrics.pairwise import rbf_kernel
        from sklearn.svm import SVC
    except ImportError:
        return None, None
    C = 1.0 / (2.0 * float(model.lambda_[0]) * len(y))
    own = dict(tol=KKT, cache_size=1000)

    def squared():
        K = rbf_kernel(X, gamma=model.gamma_) + 1.0
        K[np.diag_indices(len(y))] += 1.0 / (2.0 * C)
        return SVC(kernel="precomputed", C=1e10, **own).fit(K, y)

    return squared, partial(SVC(gamma=model.gamma_, C=C, **own).fit, X, y)


def versus(report, n, nu, target):
    """One SMO run and a whole fit against SVC."""
    X, y, data = make(n, 20)
    X = datasets.Preprocess("minmax01").fit(X).transform(X)
    model = NuSVM(nu=nu, tol=1e-9).fit(X, y)
    whole = partial(NuSVM(nu=nu, tol=KKT).fit, X, y)
    runs = race(partial(smo, X, y, model), whole, *peers(X, y, model))
    (one, value), (fit, fitted), (theirs, _), (plain, _) = runs
    lam = float(model.lambda_[0])
    off = abs(value + lam + model.objective_)  # of the dual at this multiplier
    size, note = f"{n} x 20", f"nu {nu}, {len(model.support_)} support rows"
    more = dict(data=data, nu=nu, multiplier=lam, dual_gap=off)
    rows = (("SVC, squared slack / one SMO run", one, theirs, target),
            ("SVC, squared slack / NuSVM fit", fit, theirs, ">= 1"),
            ("SVC, hinge / one SMO run", one, plain, ""),
            ("SVC, hinge / NuSVM fit", fit, plain, ""))  # fmt: skip
    for what, ours, peer, aim in rows:
        gap = off if ours is one else fitted.residual_
        row = dict(what=what, size=size, ours=ours, target=aim, **more)
        if peer is None:
            report.add(**row, note=MISSING)
        else:
            report.add(**row, peer=peer, ratio=peer / ours, note=f"{note}, gap {gap:.0e}")


def members(report, n=2_000):
    """What more members cost on equal samples, which "auto" trains as one machine."""
    X, y, data = make(n, 20)
    X = datasets.Preprocess("minmax01").fit(X).transform(X)
    models = DRM(n_estimators=21), NuSVM()
    (many, model), (single, _) = race(*(partial(model.fit, X, y) for model in models))
    report.add("21 equal members, DRM / NuSVM", f"{n} x 20", many, single, many / single,
               target="<= 1.5", note=f"gap {model.residual_:.0e}", data=data)  # fmt: skip


def alternating(report, T, n=150):
    """Algorithm 1 of DRM with all members against Algorithm 2 of ExRM, both as printed."""
    data = datasets.load("wdbc")
    rows = np.random.default_rng(0).permutation(len(data.y))[:n]
    X = datasets.Preprocess("minmax01").fit(data.X[rows]).transform(data.X[rows])
    y = data.y[rows]
    models = DRM(T, solver="alternating"), ExRM(n_estimators=T, solver="paper")
    (ours, model), (theirs, _) = race(*(partial(model.fit, X, y) for model in models))
    row = dict(what=f"{T} members by turns, DRM / ExRM as printed", size=f"{n} x {X.shape[1]}")
    row |= dict(ours=ours, peer=theirs, ratio=ours / theirs, target="<= 20", data=data.name)
    report.add(**row, note=f"{model.n_iter_} rounds")


def run(report, large):
    for n, target in SIZES.items():
        for nu in NU:
            versus(report, n, nu, target)
    members(report)
    for T in (10, 30):
        alternating(report, T)
    report.startup(first_reports("drm", data="heart"), rounds=5)

"""Figure 1 of the AdaBoost.NC paper: errors of a member and of the vote before it, by round.

Covariance of both being right at a test point, over models trained on samples of their own; mean of
the points. The members before vote with equal weights, as in the paper (III.A); the note has the
covariance for votes weighted by alpha as well. The table has the mean over the rounds;
perf/covariance.png, if matplotlib is there, the rounds of the equal vote. Two Gaussians, 400
training rows, 1,000 test points, 51 members, 30 repeats, drawn samples.
"""

from pathlib import Path

import numpy as np

import datasets
from perf.common import timed
from solvers.adaboost_nc import AdaBoostNC, error_covariance

LAMS = 0, 2, 9
MEMBERS = {
    "pruned trees": {},
    "trees of depth 3": {"max_depth": 3},
    "stumps": {"base": "stump"},
}
REPEATS = 30
PICTURE = Path(__file__).with_name("covariance.png")


def measure(lam, params):
    """Covariance for t = 2 .. 51, with equal and with weighted votes, and error for t = 1 .. 51."""
    test, models = datasets.two_gaussians(1_000, seed=10_000), []
    for seed in range(REPEATS):
        data = datasets.two_gaussians(400, seed=seed)
        models.append(AdaBoostNC(lam=lam, random_state=seed, **params).fit(data.X, data.y))
    rounds = min(model.n_iter_ for model in models)
    errors = [[np.mean(stage != test.y) for stage in model.staged_predict(test.X)][:rounds]
              for model in models]  # fmt: skip
    both = [error_covariance(models, test.X, test.y, weighted=w) for w in (False, True)]
    return *both, np.mean(errors, axis=0)


def draw(curves):
    """Both curves of every kind of member; False without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, len(MEMBERS), figsize=(9, 4.5), sharex=True, sharey="row")
    for column, kind in zip(axes.T, MEMBERS, strict=True):
        for lam in LAMS:
            covariance, _, errors = curves[kind, lam]
            column[0].plot(np.arange(2, covariance.size + 2), covariance, label=f"lam = {lam}")
            column[1].plot(np.arange(1, errors.size + 1), 100 * errors)
        column[0].set_title(kind, fontsize=10)
        column[0].axhline(0.0, color="grey", linewidth=0.5)
        column[1].set_xlabel("round")
    axes[0, 0].set_ylabel("covariance of being right")
    axes[1, 0].set_ylabel("test error, %")
    axes[0, 0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=80)
    return True


def run(report, large):
    curves = {}
    for kind, params in MEMBERS.items():
        for lam in LAMS:
            seconds, curves[kind, lam] = timed(lambda lam=lam, params=params: measure(lam, params))
            covariance, weighted, errors = curves[kind, lam]
            note = (f"covariance with the equal vote {covariance.mean():.4f}, with the weighted "
                    f"vote {weighted.mean():.4f}, error {100 * errors[-1]:.1f} %")  # fmt: skip
            report.add(f"{kind}, lam = {lam}", "400 x 2", seconds, note=note,
                       covariance=covariance.tolist(), weighted_covariance=weighted.tolist(),
                       errors=errors.tolist())  # fmt: skip
    print(f"drawn to {PICTURE.name}" if draw(curves) else "not drawn: pip install matplotlib")

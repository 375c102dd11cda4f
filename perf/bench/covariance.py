"""Figure 1 of the AdaBoost.NC paper: errors of a member and of the vote before it, by round.

Covariance of both being right at a test point, over models trained on samples of their own; mean of
the points. The members before vote with equal weights, as in the paper (III.A); the note has the
covariance for votes weighted by alpha as well. The table has the mean over the rounds; the plot
the rounds of the equal vote. Two Gaussians, 400 training rows, 1,000 test points, 51 members, 30
repeats, drawn samples.
"""

import numpy as np

import datasets
from perf.bench.common import timed
from solvers.adaboost_nc import AdaBoostNC
from solvers.diversity import error_covariance

LAMS = 0, 2, 9
MEMBERS = {
    "pruned trees": {},
    "trees of depth 3": {"max_depth": 3},
    "stumps": {"base": "stump"},
}
REPEATS = 30


def measure(lam, params):
    """Covariance for t = 2 .. 51, with equal and with weighted votes, and error for t = 1 .. 51."""
    test, models = datasets.two_gaussians(1_000, seed=10_000), []
    for seed in range(REPEATS):
        data = datasets.two_gaussians(400, seed=seed)
        models.append(AdaBoostNC(lam=lam, random_state=seed, **params).fit(data.X, data.y))
    rounds = min(model.n_iter_ for model in models)
    errors = [[np.mean(stage != test.y) for stage in model.staged_predict(test.X)][:rounds]
              for model in models]  # fmt: skip
    runs = [model.votes(test.X) for model in models]
    weighted = error_covariance(runs, test.y, [model.weights_ for model in models])
    return error_covariance(runs, test.y), weighted, np.mean(errors, axis=0)


def run(report, large):
    for kind, params in MEMBERS.items():
        for lam in LAMS:
            seconds, curves = timed(lambda lam=lam, params=params: measure(lam, params))
            covariance, weighted, errors = curves
            note = (f"covariance with the equal vote {covariance.mean():.4f}, with the weighted "
                    f"vote {weighted.mean():.4f}, error {100 * errors[-1]:.1f} %")  # fmt: skip
            row = dict(what=f"{kind}, lam = {lam}", size="400 x 2", ours=seconds, note=note)
            row |= dict(kind=kind, lam=lam, errors=errors.tolist())
            report.add(**row, covariance=covariance.tolist(), weighted=weighted.tolist())

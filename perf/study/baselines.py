"""Votes that learn no weights: what a method that learns them should beat."""

import numpy as np

from solvers.cqboost import CqBoost


class StumpVote(CqBoost):
    """The stumps that CqBoost chooses from, with equal weights, or the best of them alone.

    Every stump is turned to the side on which it is right more often than wrong.

    Parameters
    ----------
    how : "uniform" or "best"
        All stumps with equal weights, or only the one with the lowest training error.
    n_thresholds, class_weight, verbose, callback : as in CqBoost
    """

    _param_rules = {
        "how": "one of 'uniform', 'best'",
        "n_thresholds": CqBoost._param_rules["n_thresholds"],
    }
    voters, complements, voting, eps, n_jobs = "stumps", None, "hard", 1e-6, 1

    def __init__(self, how="uniform", n_thresholds=10, class_weight=None, verbose=0, callback=None):
        self._set(locals())

    def fit(self, X, y, sample_weight=None):
        """Train on X (n, d) and two classes y; a sample weight of 2 is the row twice."""
        super().fit(X, y, sample_weight)
        self.residual_ = self.objective_ = None  # Nothing is optimised.
        return self

    def _learn(self, pool):
        edges = pool.edges()
        chosen = np.arange(pool.size) + pool.size * (edges < 0)
        if self.how == "best":
            chosen = chosen[[np.abs(edges).argmax()]]
        self.residual_, self.n_iter_ = 0.0, 1
        return chosen, np.full(chosen.size, 1.0 / chosen.size), pool.weight / pool.total

"""Judge of the hard problems: common code of hard_exrm.py, hard_drm.py and hard_cqboost.py."""

import time
import warnings
from typing import NamedTuple

import numpy as np

from tests.conftest import naive_bootstrap


class Record(NamedTuple):
    """Claims of a fit, and the truth in long double."""

    name: str
    converged: bool
    residual: float
    gap: float  # recomputed from the fitted attributes, in the units of residual
    error: float  # error of objective_, or the largest violation of a constraint
    is_true: bool  # True if gap and error are within the tolerance of the certificate.
    has_advice: bool  # True if a warning names a remedy.
    warning: str
    seconds: float

    @property
    def honest(self):
        """True if the certificate holds, or if there is none and a warning names a remedy."""
        return self.is_true if self.converged else self.has_advice


def example_weights(weight, T, is_sampled, seed):
    """Example weights of each of T members, (T, n), in the documented order of draws."""
    return naive_bootstrap(weight, T, seed) if is_sampled else np.repeat(weight[None], T, axis=0)


def fit(model, *args):
    """Fit a model; return its convergence warnings as one text, and the seconds of CPU time."""
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(*args)
    seconds = time.process_time() - start
    texts = [str(w.message) for w in caught if w.category.__name__ == "ConvergenceWarning"]
    return " ".join(texts), seconds


def main(problems, check, slow=2.0):
    """Check all problems; print the counts, and each fit that failed or was slow. Returns 1 if a
    record is not honest; check returns None for a problem without a solution."""
    records = []
    for problem in problems:
        record = check(problem)
        if record is None:
            continue
        records.append(record)
        if not (record.honest and record.converged) or record.seconds > slow:
            print(f"{record.name}: converged {record.converged}, honest {record.honest}, residual "
                  f"{record.residual:.1e}, true gap {record.gap:.1e}, error {record.error:.1e}, "
                  f"{record.seconds:.1f} s. {record.warning}", flush=True)  # fmt: skip
    converged = sum(record.converged for record in records)
    false = [record.name for record in records if not record.honest]
    longest = max(records, key=lambda record: record.seconds)
    print(f"{len(records)} problems: {converged} converged, {len(records) - converged} not, "
          f"{len(false)} not honest {false}; longest fit {longest.seconds:.1f} s "
          f"({longest.name})")  # fmt: skip
    return 1 if false else 0

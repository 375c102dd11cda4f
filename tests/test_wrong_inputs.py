"""Wrong inputs of all classes and the words of their errors: nothing of them reaches a kernel."""

import inspect

import numpy as np
import pytest

from solvers.exrm import PSVM
from tests.test_contract import every, make, table

X, Y = table()


def changed(array, place, value):
    """A copy with one other entry; labels become objects."""
    array = array.astype(object) if array.dtype.kind == "U" else array.copy()
    array[place] = value
    return array


DATA = {  # Arguments of fit, and the words that a user would search for.
    "infinite cell": ((changed(X, (3, 2), np.inf), Y), "NaN or infinity: inf in row 3, column 2"),
    "large cell": ((changed(X, (5, 1), -1e150), Y), "X is too large: -1e.* in row 5, column 1"),
    "short y": ((X, Y[:-1]), r"y must have shape \(120,\), got \(119,\)"),
    "wide y": ((X, np.tile(Y, (2, 1)).T), r"y must have shape \(120,\), got \(120, 2\)"),
    "no y": ((X, None), "requires y"),
    "one class": ((X, np.full(120, "yes")), "only one class: yes"),
    "continuous y": ((X, X[:, 0]), "Unknown label type: continuous"),
    "label None": ((X, changed(Y, 7, None)), "row 7 has no label"),
    "label NaN": ((X, changed(Y, 7, np.nan)), "row 7 has no label"),
    "label infinite": ((X, changed((Y == "yes") * 1.0, 7, np.inf)), "row 7 has no label"),
    "date NaT": ((X, changed(np.arange(120).astype("M8[D]"), 7, "NaT")), "row 7 has no label"),
    "mixed labels": ((X, changed(Y, 7, 3)), "mixes texts and numbers"),
    "one dimension": ((X[:, 0], Y), "got 1-d. Reshape your data"),
    "three dimensions": ((X[:, :, None], Y), "got 3-d. Reshape your data"),
    "no rows": ((X[:0], Y[:0]), "0 sample"),
    "no columns": ((X[:, :0], Y), "0 feature"),
    "complex X": ((X + 1j, Y), "Complex data"),
    "dates": ((np.zeros((120, 2), "M8[D]"), Y), "nor dates, got datetime64"),
    "durations": ((np.zeros((120, 2), "m8[s]"), Y), "nor dates, got timedelta64"),
    "texts": ((np.full((120, 2), "a"), Y), "X must hold numbers.*could not convert"),
    "objects": ((np.full((120, 2), {}, dtype=object), Y), "X must hold numbers"),
    "short weights": ((X, Y, np.ones(3)), r"sample_weight must .*of shape \(120,\)"),
    "negative weights": ((X, Y, -np.ones(120)), "sample_weight must be finite and >= 0"),
    "NaN weights": ((X, Y, np.full(120, np.nan)), "sample_weight must be finite and >= 0"),
    "zero weights": ((X, Y, np.zeros(120)), "sum of sample_weight must be above zero"),
    "huge weights": ((X, Y, np.full(120, 1e308)), "must be above zero and below 1e"),
    "class of weight 0": ((X, Y, 1.0 * (Y == "no")), "zero on all rows of a class"),
}
PARAMS = {  # Parameters that many classes have, wrong values, and the words of the error.
    "class_weight": (
        [{"no": -1.0}, {"no": np.nan}, {"no": 0}, {"no": "x"}, "even", 3, [1, 2]],
        "class_weight must be None, 'balanced' or a dict from class to positive factor, got",
    ),
    "random_state": ([-1, "a", 1.5], "random_state must be None, an integer >= 0, a RandomState"),
    "n_jobs": ([0, 1.5, "all"], "n_jobs must be None, an integer >= 1 or an integer <= -1, got"),
    "callback": ([3, "print"], "callback must be None or a function, got"),
    "n_estimators": ([0, 1.5, "ten", None], "n_estimators must be an integer >= 1, got"),
    "lam": ([-1.0, np.nan, np.inf, "a"], "lam must be a finite number >"),
    "gamma": (["auto", -1.0, np.inf, None], "gamma must be '.*a finite number > 0, got"),
    "tol": ([0.0, -1e-6, np.nan, "a"], "tol must be a .*number > 0, got"),
    "max_depth": ([0, 1.5, "deep"], "max_depth must be None or an integer >= 1, got"),
    "max_bins": ([1, 257, "all"], "max_bins must be None or an integer from 2 to 256, got"),
    "base": (["bush", 3, object], "base must be "),
    "members": ([[], "linear,bush", [3]], "members must be "),
}


@pytest.mark.uncompiled
@every
@pytest.mark.parametrize("case", DATA)
def test_wrong_data(cls, case):
    arguments, words = DATA[case]
    with pytest.raises((ValueError, TypeError), match=words) as error:
        make(cls).fit(*arguments)
    assert str(error.value).startswith(f"{cls.__name__}: ")


@pytest.mark.uncompiled
@every
def test_wrong_parameters(cls):
    for name in inspect.signature(cls).parameters.keys() & PARAMS.keys():
        values, words = PARAMS[name]
        for value in values:
            model = make(cls).set_params(**{name: value})
            with pytest.raises(ValueError, match=f"^{cls.__name__}: {words}"):
                model.fit(X, Y)
    with pytest.raises(ValueError, match="class_weight names 'maybe', y has 'no', 'yes'"):
        make(cls, class_weight={"maybe": 2.0}).fit(X, Y)


@pytest.mark.uncompiled
@every
def test_wrong_calls(cls):
    sparse = pytest.importorskip("scipy.sparse").csr_matrix(X)
    with pytest.raises(TypeError, match=r"sparse X: pass X.toarray\(\)"):
        make(cls).fit(sparse, Y)
    if not cls._multi_class:
        with pytest.raises(ValueError, match="y has 3 classes, 0, 1, 2"):
            make(cls).fit(X, np.arange(120) % 3)
    model = make(cls)
    with pytest.raises(ValueError, match="not fitted"):
        model.predict(X)
    with pytest.raises(ValueError, match=f"X has 3 features, but {cls.__name__} is expecting 4"):
        model.fit(X, Y).predict(X[:, :3])
    with pytest.raises(ValueError, match="X is too large"):
        model.predict(1e155 * X)


@pytest.mark.uncompiled
def test_missing_values_are_for_trees():
    with pytest.raises(ValueError, match="NaN or infinity: nan in row 3, column 2"):
        PSVM().fit(changed(X, (3, 2), np.nan), Y)

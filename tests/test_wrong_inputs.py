"""Wrong inputs of all classes and the words of their errors: nothing of them reaches a kernel."""

import inspect
import re

import numpy as np
import pytest

from solvers.bagging import Bagging, BaggingRegressor
from solvers.combine import Stacking, StackingRegressor, Voting, VotingRegressor
from solvers.cqboost import CqBoost, MinCq
from solvers.exrm import PSVM, ExRM
from solvers.gradient_boosting import GradientBoosting, GradientBoostingRegressor
from solvers.multiclass import ECOC, OneVsRest
from tests.test_contract import CLASSIFIERS, REGRESSORS, every, make, table

X, Y = table()
NUMBERS = X[:, 0].copy()
ONES = np.ones(120)


class Says:
    """A fitted member with fixed predictions."""

    def __init__(self, says):
        self.says, self.classes_ = says, [0]

    def fit(self, X, y):
        return self

    def predict(self, X):
        return self.says


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
WRONG_NUMBERS = [  # Targets that regressors refuse.
    (changed(NUMBERS, 3, np.nan), "Input y contains NaN or infinity: row 3"),
    (changed(NUMBERS, 3, np.inf), "Input y contains NaN or infinity: row 3"),
    (changed(NUMBERS, 3, 1e150), "a number of 1e.150 or more"),
    (Y, "y must hold numbers, got dtype <U3"),
    (NUMBERS + 1j, "y must hold numbers, got dtype complex"),
    (np.arange(120).astype("M8[D]"), "y must hold numbers, got dtype datetime"),
    (NUMBERS[1:], r"y must have shape \(120,\), got \(119,\)"),
]
PARAMS = {  # Values that each class with such a parameter refuses by the rule of the parameter.
    "class_weight": [{"no": -1.0}, {"no": np.nan}, {"no": 0}, {"no": "x"}, "even", 3, [1, 2]],
    "random_state": [-1, "a", 1.5],
    "n_jobs": [0, 1.5, "all"],
    "callback": [3, "print"],
    "n_estimators": [0, 1.5, "ten", None],
    "tol": [0.0, -1e-6, np.nan, "a"],
    "eps": [0.0, np.nan],
    "max_iter": [0, 2.0],
    "p": [0.5, np.inf, "two"],
    "lam": [-1.0, np.nan, np.inf, "a"],
    "beta": [-1, np.nan],
    "sampling": ["bagging", True],
    "kernel": ["sigmoid", None],
    "gamma": ["auto", -1.0, 0, np.inf, None],
    "n_landmarks": [0],
    "solver": ["smo"],
    "rho": [1.0],
    "prox": ["fast"],
    "nu": [0, -0.5],
    "mu": [-1e-3, "a"],
    "degree": [0, 2.5],
    "coef0": [-1],
    "cache_size": [0],
    "voters": ["trees", [], [1, 2]],
    "n_thresholds": [0, 256],
    "C": [0, -1, "1"],
    "D": [0, np.inf],
    "max_columns": [0],
    "complements": [3],
    "master": ["simplex"],
    "base": ["bush", 3, object, None],
    "mode": ["both"],
    "voting": ["loud"],
    "criterion": ["mse"],
    "max_depth": [0, 1.5, "deep"],
    "min_samples_leaf": [0],
    "max_leaf_nodes": [1],
    "min_impurity_decrease": [-0.1],
    "prune": ["yes", 2],
    "max_bins": [1, 257, "all"],
    "max_samples": [0, 2**31, 1.5, "all", np.nan],
    "max_features": [0, 2.0, "cube"],
    "per_split": ["no"],
    "bootstrap": [None],
    "oob_score": [2],
    "outputs": ["spin"],
    "noise": [-1],
    "perturb": [["a"], {"max_depth": []}, {"max_depth": 3}, {"max_depth": "no"}, {3: [1]}],
    "loss": ["cubed"],
    "order": [3],
    "learning_rate": [0.0, np.inf],
    "min_child_weight": [-1.0],
    "l2": [-1.0],
    "subsample": [0.0, 1.5],
    "early_stopping": ["auto"],
    "validation_fraction": [0.0, 1.0],
    "n_iter_no_change": [0],
    "monotonic_cst": ["up", [2, 0, 0, 0]],
    "delta": [0],
    "members": [[], "linear,bush", [3], [("a", "bush")], [(3, PSVM())], ("a", PSVM()), None],
    "prefit": ["yes"],
    "how": ["hard"],
    "weights": [[1, -2], [0, 0], [1, np.nan], "best"],
    "cv": [1, 2.5, "all", "5", [], [1, 2], None],
    "meta": ["logistic"],
    "method": ["sigmoid"],
    "code": ["dense", [1, -1]],
    "n_columns": [0],
    "decoding": ["soft"],
}
FOUR = np.arange(120) % 4  # labels of four classes
OWN = [  # Values that one class refuses, or that do not go together.
    (ExRM(lam=0), "lam must be a finite number > 0, got 0"),
    (CqBoost(mu=0), "mu must be a number > 0 and <= 1, got 0"),
    (MinCq(mu=2), "mu must be a number > 0 and <= 1, got 2"),
    (Bagging(max_samples=121, bootstrap=False), "at most the number of rows .*120, got 121; set"),
    (Bagging(max_features=5), "max_features must be at most the number of features, 4, got 5"),
    (Bagging(oob_score=True, bootstrap=False), "oob_score needs rows outside the samples"),
    (BaggingRegressor(outputs="flip"), "outputs must be None or 'smear', got 'flip'"),
    (BaggingRegressor(noise=0.5), "noise=0.5 is for .*; set outputs"),
    (BaggingRegressor(Bagging()), "members .* Bagging is a classifier"),
    (BaggingRegressor(Says(np.zeros((120, 2)))), r"finite number for each row; Says .*\(120, 2\)"),
    (BaggingRegressor(Says(np.full(120, np.nan))), "finite number for each row; Says returned"),
    (BaggingRegressor(perturb={"criterion": ["gini"]}), "perturb names 'criterion'"),
    (GradientBoosting(monotonic_cst=[1, 0]), "monotonic_cst must .*4.*2"),
    (GradientBoostingRegressor(loss="absolute"), "absolute.*order=1"),
    (Voting([("", PSVM())]), r"pairs \(name, classifier\) whose names differ"),
    (Voting([("a", PSVM()), ("a", PSVM())]), r"pairs \(name, classifier\) whose names differ"),
    (Voting([("a__b", PSVM())]), "names differ and have no '__' in them"),
    (Voting(weights=[1, 2]), r"weights must have one entry per member \(3\), got 2"),
    (Voting(weights="covariance"), "or one of 'log-odds', 'inverse-error', got 'covariance'"),
    (Voting(how="majority"), "needs reject, a label for rows without a majority"),
    (Voting(how="majority", reject="no"), "a text and no class of y, got 'no'"),
    (Voting(how="majority", reject=-1), "a text and no class of y, got -1"),
    (Voting(prefit=True), "prefit=True needs fitted objects, not names"),
    (Stacking(cv=[(np.arange(9), np.arange(9, 120))]), "each of the 120 rows once"),
    (Stacking(cv=[(np.arange(9, 121), np.arange(120))]), "training parts of cv must hold"),
    (Stacking(cv=[(np.arange(-1, 9), np.arange(120))]), "training parts of cv must hold"),
    (Stacking(cv=[(np.arange(0), np.arange(120))]), "training parts of cv must hold"),
    (VotingRegressor(weights=[1, 2, 3]), r"weights must have one entry per member \(2\), got 3"),
    (VotingRegressor("linear,bayes"), "members must be a list of regressors"),
    (VotingRegressor(weights="log-odds"), "or one of 'inverse-error', 'covariance', got 'log-"),
    (VotingRegressor(prefit=True), "prefit=True needs fitted objects, not names"),
    (VotingRegressor([Says(changed(ONES, 3, np.nan))], prefit=True), "Says predicts nan to nan"),
    (VotingRegressor([Says(np.full(120, "a"))], prefit=True), "not one number per row"),
    (StackingRegressor([Says(np.ones((120, 2)))], prefit=True), r"of shape \(120, 2\)"),
    (ECOC(code=np.ones((3, 2))), "code has 3 rows, but y has 4 classes"),
    (ECOC(code=2 * np.ones((4, 2))), "-1, 0 and 1 only"),
    (ECOC(code=np.ones((4, 2))), "needs a class with 1 and one with -1"),
    (ECOC(code=[[1], [1], [-1], [-1]]), "two classes have the same row"),
    (ECOC(code=[[1, 1], [1, -1], [0, 0], [-1, 1]]), "row 2 of code, of class 2, is all zeros"),
    (ECOC(code=[[1, 0], [-1, 0], [1, 0], [0, 0]]), "each column of code needs a class with 1"),
    (ECOC(code=np.zeros((4, 0))), "each column of code needs a class with 1"),
    (ECOC(n_columns=1), "two of 4 classes have the same word in a random code of 1 columns; r"),
    (ECOC(l2=0), "l2 must be a finite number > 0, got 0"),
    (ECOC(code="exhaustive"), "12 classes has 2047 columns; use code=", np.arange(120) % 12),
    (Stacking(), "at least 2 rows of each class", changed(FOUR, 0, 9)),
    (Bagging(max_samples=6, bootstrap=False), "at most .* 5, got 6", Y, np.arange(120) < 5),
    (StackingRegressor(), "cross-validation needs at least 2 rows", NUMBERS, np.arange(120) == 3),
    (GradientBoostingRegressor(), "loss overflows; scale y", 1e149 * NUMBERS, np.full(120, 1e146)),
]


@pytest.mark.uncompiled
@every
@pytest.mark.parametrize("case", DATA)
def test_wrong_data(cls, case):
    arguments, words = DATA[case]
    with pytest.raises((ValueError, TypeError), match=words) as error:
        make(cls).fit(*arguments)
    assert str(error.value).startswith(f"{cls.__name__}: ")


@pytest.mark.uncompiled
@pytest.mark.parametrize("cls", REGRESSORS)
def test_wrong_data_of_regressors(cls):
    cases = [(words, arguments) for arguments, words in DATA.values() if arguments[1] is Y]
    cases = [(words, (X, NUMBERS, *rest)) for words, (X, _, *rest) in cases if "class" not in words]
    cases += [(words, (X, y)) for y, words in WRONG_NUMBERS]
    for words, arguments in cases:
        with pytest.raises((ValueError, TypeError), match=f"^{cls.__name__}: .*{words}"):
            cls().fit(*arguments)


@pytest.mark.uncompiled
@pytest.mark.parametrize("cls", [*CLASSIFIERS, *REGRESSORS], ids=lambda cls: cls.__name__)
def test_wrong_parameters(cls):
    y = NUMBERS if cls in REGRESSORS else Y
    assert cls._param_rules.keys() <= PARAMS.keys()
    satisfies = inspect.getmodule(cls).satisfies
    assert all(satisfies(getattr(cls(), name), rule) for name, rule in cls._param_rules.items())
    for name in inspect.signature(cls).parameters.keys() & PARAMS.keys():
        for value in PARAMS[name]:
            words = f"^{cls.__name__}: {name} must be .*, got {re.escape(repr(value))}$"
            with pytest.raises(ValueError, match=words):
                make(cls).set_params(**{name: value}).fit(X, y)
    if cls not in REGRESSORS:
        with pytest.raises(ValueError, match="class_weight names .'maybe'., y has .'no', 'yes'"):
            make(cls, class_weight={"maybe": 2.0}).fit(X, Y)


@pytest.mark.uncompiled
@pytest.mark.parametrize("case", OWN, ids=lambda case: f"{case[0]!r}, {case[1]}"[:60])
def test_values_that_do_not_go_together(case):
    model, words, *arguments = case
    y = FOUR if isinstance(model, ECOC) else NUMBERS if type(model) in REGRESSORS else Y
    with pytest.raises(ValueError, match=f"^{type(model).__name__}: .*{words}"):
        model.fit(X, *(arguments or [y]))


@pytest.mark.uncompiled
@every
def test_wrong_calls(cls):
    sparse = pytest.importorskip("scipy.sparse").csr_matrix(X)
    with pytest.raises(TypeError, match=r"sparse X: pass X.toarray\(\)"):
        make(cls).fit(sparse, Y)
    if not cls._multi_class:
        with pytest.raises(ValueError, match="multiclass: y has 3 classes, 0, 1, 2"):
            make(cls).fit(X, np.arange(120) % 3)
    model = make(cls)
    with pytest.raises(ValueError, match="not fitted"):
        model.predict(X)
    with pytest.raises(ValueError, match=f"X has 3 features, but {cls.__name__} is expecting 4"):
        model.fit(X, Y).predict(X[:, :3])
    with pytest.raises(ValueError, match="X is too large"):
        model.predict(1e155 * X)
    for name in {"margins", "error_correlation"} & {*dir(model)}:
        with pytest.raises(ValueError, match="y holds 'x', which is none of the classes of fit"):
            getattr(model, name)(X, np.where(np.arange(120) == 3, "x", Y))
        with pytest.raises(ValueError, match="y must have shape"):
            getattr(model, name)(X, Y[1:])


@pytest.mark.uncompiled
def test_missing_values_and_probabilities_are_not_for_all():
    with pytest.raises(ValueError, match="NaN or infinity: nan in row 3, column 2"):
        PSVM().fit(changed(X, (3, 2), np.nan), Y)
    with pytest.raises(AttributeError, match=r"OneVsRest\(Calibrated\(base\)\) gives probabili"):
        OneVsRest().fit(X, Y).predict_proba(X)  # noqa: B018

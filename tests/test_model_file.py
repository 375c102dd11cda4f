"""Tests for solvers/model_file.py: every class goes into a file and comes back, or is refused."""

import copy
import importlib
import json
import os
import pickle
import random
import shutil
import subprocess
import sys
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from solvers import CLASSES, model_file
from solvers.adaboost_nc import AdaBoost, AdaBoostNC
from solvers.bagging import Bagging, BaggingRegressor
from solvers.combine import (
    BUILT_IN,
    Calibrated,
    Stacking,
    StackingRegressor,
    Voting,
    VotingRegressor,
)
from solvers.cqboost import CqBoost, MinCq
from solvers.drm import DRM, NuSVM
from solvers.exrm import PSVM, ExRM
from solvers.gradient_boosting import GradientBoosting, GradientBoostingRegressor
from solvers.model_file import load, save
from solvers.multiclass import ECOC, OneVsRest
from tests.conftest import damage, read_arrays
from tests.test_contract import CLASSIFIERS, ROOT, every, make, table, variants

FEW = {"n_estimators": 3}
FITTED = PSVM().fit(*table(90))
OTHERS = [  # Models of models, regressors, and ways to fit that have arrays of their own.
    PSVM(kernel="rbf", n_landmarks=12, random_state=0),
    DRM(3, kernel="poly", sampling="bootstrap", random_state=0),
    DRM(3, kernel="precomputed"),
    CqBoost(voters="rbf"),
    CqBoost(voters="linear-classifiers"),
    MinCq(voters=[FITTED, AdaBoost(**FEW).fit(*table(90))]),
    Bagging(PSVM(), 3, max_features=0.5, random_state=0),
    Bagging(perturb={"max_depth": [1, 3, None], "prune": np.array([True])}, random_state=0, **FEW),
    GradientBoosting(base=GradientBoostingRegressor(**FEW), max_features=3, random_state=0, **FEW),
    Voting([("svm", PSVM()), ("in", Voting([("a", "linear"), "bayes"])), "bayes"]),
    Voting([FITTED, FITTED], prefit=True),
    Voting(how="majority", reject="?", weights="log-odds"),
    Stacking([Calibrated(ExRM(sampling="bootstrap", random_state=0)), "linear"], meta=PSVM()),
    Stacking(meta=BUILT_IN["bayes"]()),
    OneVsRest(Calibrated(AdaBoost(**FEW), method="isotonic")),
    ECOC(code=np.eye(3) * 2 - 1),
    BaggingRegressor(GradientBoostingRegressor(**FEW), 3, random_state=0),
    GradientBoostingRegressor(monotonic_cst=[1, 0, 0, 0], **FEW),
    VotingRegressor(weights="covariance"),
    StackingRegressor([("gb", GradientBoostingRegressor(**FEW)), "quadratic"]),
]
each_other = pytest.mark.parametrize("model", OTHERS, ids=lambda model: repr(model)[:60])


def rows(model, n=90):
    """X and y that a model can be fitted to: a kernel matrix, numbers or classes."""
    X, y = table(n)
    if getattr(model, "kernel", None) == "precomputed":
        return X @ X.T, y
    if model._estimator_type == "regressor":
        return X, X @ [1.0, 2.0, 0.0, -1.0]
    if isinstance(model, ECOC):
        return X, np.array(["no", "or", "yes"])[np.digitize(X[:, 0], [0.0, 1.0])]
    return X, y


def check_equal(copy, model, X):
    """Compare parameters, fitted values and outputs of two models."""
    assert repr(copy) == repr(model) and type(copy) is type(model)
    for name, value in vars(model).items():
        if name.endswith("_") and not name.startswith(("estimators_", "meta_")):
            assert_array_equal(getattr(copy, name), value)
    assert_array_equal(copy.votes(X), model.votes(X))
    assert_array_equal(copy.predict(X), model.predict(X))
    members = getattr(model, "estimators_", ())
    assert [*map(type, getattr(copy, "estimators_", ()))] == [*map(type, members)]


def write(path, arrays, header=None):
    """Write a model file that may be wrong."""
    header = {} if header is None else {"header": np.array(json.dumps(header))}
    np.savez(path, **arrays | header)


# -- round trips ----------------------------------------------------------------------------------
@pytest.mark.uncompiled
@every
def test_every_class_comes_back(cls, tmp_path):
    """Also as a file of equal bytes, which contains no memory of other arrays."""
    X, y = table()
    labels = [["no", "yes"], [0, 1], [-1.5, 2.5], [False, True]] * 2
    secret = b"a secret of another array, "
    files = [tmp_path / f"{k}.npz" for k in range(3)]
    for model, names in zip(variants(cls), labels, strict=False):
        model.fit(X, np.array(names)[(y == "yes").astype(int)])
        for path in files[:2]:
            remains = [np.frombuffer(secret * 50_000, np.uint8).copy() for _ in range(8)]
            del remains  # Memory that is not set before it is written would show it.
            save(model, path, {"of": ["table", 1]})
        copy = load(files[0])
        check_equal(copy, model, X)
        assert copy.notes_ == {"of": ["table", 1]} and copy.classes_.dtype == model.classes_.dtype
        save(copy, files[2])
        assert len({path.read_bytes() for path in files}) == 1
        assert secret not in files[0].read_bytes()
    assert len(os.listdir(tmp_path)) == 3


@each_other
def test_other_models_come_back(model, tmp_path):
    X, y = rows(model)
    save(model.fit(X, y), tmp_path / "model.npz")
    copy = load(tmp_path / "model.npz")
    check_equal(copy, model, X)
    assert not hasattr(copy, "notes_")
    assert_array_equal(copy.fit(X, y).predict(X), model.predict(X))


@pytest.mark.uncompiled
def test_parameters_come_back(tmp_path):
    path, (X, y) = tmp_path / "model.npz", table()
    stop, generator = {"callback": lambda *args: False}, np.random.default_rng(0)
    save(OneVsRest(PSVM(**stop), **stop).fit(X, y), path)
    assert load(path).callback is None and load(path).base.callback is None
    model = PSVM(class_weight={False: 1, True: 2.5}, random_state=generator, **stop)
    notes = {1: np.float32(2), "names": ("a", None), "grid": np.arange(3)}
    save(model.fit(X, y == "yes"), path, notes)
    again = load(path)
    assert again.class_weight == {False: 1, True: 2.5} and again.random_state is None
    assert again.callback is None and again.notes_["names"] == ("a", None) and again.notes_[1] == 2
    assert_array_equal(again.notes_["grid"], [0, 1, 2])
    assert not hasattr(again.fit(X, y == "yes"), "notes_")
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abcd"))
    save(PSVM().fit(frame, y.astype(object)), path)
    assert load(path).feature_names_in_.tolist() == list("abcd")
    assert load(path).score(frame, y) > 0.8


def halved_square(y, F):
    """Half the squared error and its slope in F."""
    return 0.5 * (y - F) ** 2, F - y


@pytest.mark.parametrize("cls", [GradientBoosting, GradientBoostingRegressor])
def test_a_file_does_not_contain_a_given_loss(cls, tmp_path):
    path, model = tmp_path / "model.npz", cls(loss=halved_square, order=1, **FEW)
    X, y = rows(model)
    save(model.fit(X, y), path)
    copy = load(path)
    assert copy.loss is None and copy.get_params() == model.get_params() | {"loss": None}
    assert_array_equal(copy.votes(X), model.votes(X))
    with pytest.raises(ValueError, match=f"{cls.__name__}: loss is None, "):
        copy.fit(X, y)
    assert_array_equal(copy.set_params(loss=halved_square).fit(X, y).votes(X), model.votes(X))


# -- refused models and files ---------------------------------------------------------------------
def test_models_that_no_file_can_contain(tmp_path):
    path, (X, y) = tmp_path / "model.npz", table()
    tree = pytest.importorskip("sklearn.tree").DecisionTreeClassifier()
    given = CqBoost(voters=[tree.fit(X, y)])
    for model in (Voting([tree, "bayes"]), Stacking(meta=tree), AdaBoost(base=tree), given):
        with pytest.raises(ValueError, match="cannot save a DecisionTreeClassifier"):
            save(model.fit(X, y), path)
    with pytest.raises(ValueError, match="This PSVM instance is not fitted yet"):
        save(PSVM(), path)
    with pytest.raises(ValueError, match="cannot save a set"):
        save(FITTED, path, notes={"seen": {1, 2}})
    assert os.listdir(tmp_path) == []


@pytest.mark.uncompiled
def test_files_that_are_no_models(tmp_path):
    path = tmp_path / "model.npz"
    save(FITTED, path)
    good, arrays = path.read_bytes(), read_arrays(path)
    header = json.loads(str(arrays["header"]))

    def refuse(text):
        with pytest.raises(ValueError, match=f"model.npz cannot be loaded as a model: .*{text}"):
            load(path)

    for data in (good[: len(good) // 2], b"", pickle.dumps({"class": "PSVM"})):
        path.write_bytes(data)
        refuse("not a zip file")
    np.savez(path, X=np.zeros(3))
    refuse("header")
    np.savez(path, header=np.array([{"format": 3}], dtype=object))
    refuse("allow_pickle")
    for version in (1, 2, 4):
        write(path, arrays, header | {"format": version})
        refuse(f"it has format {version}, not 3; fit and save it again")
    for model in (3, "PSVM", [], {}, {"class": "PSVM"}, {"array": "coef_"}, None):
        write(path, arrays, {"format": 3, "model": model})
        refuse("")
    for name in ("METHODS", "os", "_Estimator", "", None, ["Voting"]):
        write(path, arrays, header | {"model": header["model"] | {"class": name}})
        refuse("")
    np.savez_compressed(path, **arrays, more=np.zeros(10**6))
    refuse("it is compressed")
    path.write_bytes(good)
    with zipfile.ZipFile(path, "a") as target:  # One array under further names.
        large = max(target.infolist(), key=lambda entry: entry.file_size)
        for k in range(3):
            target.filelist.append(copy.copy(large))
            target.filelist[-1].filename = f"more{k}.npy"
        target._didModify = True
    refuse("its arrays are larger than the file")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.npz")


@pytest.mark.uncompiled
def test_only_known_classes(tmp_path):
    class Oracle(PSVM):
        pass

    path, (X, y) = tmp_path / "model.npz", table()
    save(Voting([Oracle(), "bayes"]).fit(X, y), path)
    with pytest.raises(ValueError, match=r"it holds a Oracle; use load\(path, classes=\[Oracle"):
        load(path)
    assert type(load(path, classes=[Voting, Oracle]).estimators_[0]) is Oracle
    for classes in ([Oracle], [Voting], [PSVM, Voting], []):
        with pytest.raises(ValueError, match="it holds a (Oracle|Voting|_Bayes); use load"):
            load(path, classes=classes)


def test_all_classes_are_listed():
    for file, names in CLASSES.items():
        module = importlib.import_module(f"solvers.{file}")
        made = [value for value in vars(module).values() if hasattr(value, "_is_consistent")]
        found = {cls.__name__ for cls in made if "__init__" in vars(cls) and cls.__doc__}
        assert {name for name in found if name[0] != "_"} == {n for n in names if n[0] != "_"}
        assert all(getattr(module, name) in made for name in names)
    assert len(CLASSES) == 8


# -- damage ---------------------------------------------------------------------------------------
@pytest.mark.uncompiled
def test_flipped_bits_and_short_files_are_noticed(tmp_path):
    """A damaged file is refused, or the damage is nowhere in the model."""
    path, (X, _) = tmp_path / "model.npz", table()
    save(FITTED, path)
    good, rng, refused = path.read_bytes(), np.random.default_rng(0), 0
    for k in range(300):
        place = int(rng.integers(len(good)))
        changed = bytearray(good[:place] if k % 5 == 0 else good)
        if k % 5:
            changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        try:
            check_equal(load(path), FITTED, X)
        except ValueError as error:
            assert "cannot be loaded as a model" in str(error)
            refused += 1
    assert refused > 200


def mutations(arrays, rng):
    """Name and arrays of files with one change: to an array, or to a value of the header."""
    header = json.loads(str(arrays["header"]))
    for name in arrays.keys() - {"header"}:
        with np.errstate(all="ignore"):
            for k, new in enumerate(_wrong(arrays[name])):
                yield f"{name}, {k}", arrays | {name: new}
    for _ in range(300):
        new = json.dumps(header | {"model": damage(header["model"], rng, stop=0.02)})
        yield new, arrays | {"header": np.array(new)}


def _wrong(value):
    """Arrays of other shapes, dtypes and ranges."""
    wrong = [value[..., :-1], value[:0], value[None], np.append(value, value)]
    if value.dtype in (np.float64, np.int64):
        wrong += [value - 10**6, value + 10**6, value.astype("f4"), value.astype("U3")]
    if value.dtype.kind == "f":
        wrong += [value * np.nan, value * np.inf, value.astype(int)]
    for field in value.dtype.names or ():
        for shift in (-1, 1, 10**6):
            wrong.append(value.copy())
            wrong[-1][field] += shift
    return wrong


SMALL = dict.fromkeys(["AdaBoost", "AdaBoostNC", "Bagging", "GradientBoosting"], FEW)
MUTATED = [make(cls, **SMALL.get(cls.__name__, {})) for cls in CLASSIFIERS]


@pytest.mark.bounds
@pytest.mark.parametrize("model", [*MUTATED, *OTHERS], ids=lambda model: repr(model)[:60])
def test_mutated_files_are_refused_or_harmless(model, tmp_path):
    """A model that is loaded predicts all rows or raises an exception."""
    path, (X, y) = tmp_path / "model.npz", rows(model, 40)
    save(model.fit(X, y), path, {"a": 1})
    refused = kept = 0
    for what, arrays in mutations(read_arrays(path), random.Random(0)):
        write(path, arrays)
        try:
            found = load(path)
        except ValueError as error:
            assert "cannot be loaded as a model" in str(error), what
            refused += 1
            continue
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                assert found.predict(X).shape == (len(X),), what
                kept += 1
            except ValueError as error:
                assert "X has " in str(error) or type(found).__name__ in str(error), what
    assert refused > 20 and kept > 0


def put(at, new, field=None):
    """Function that changes an entry of a copy; "inner": first node with children, "next": + 1."""

    def change(array):
        array, k = array.copy(), at
        if isinstance(at, str):
            k = np.flatnonzero(array["child"])[0] + (at == "next")
        (array if field is None else array[field])[k] = new
        return array

    return change


TREES = [  # The last node is a leaf.
    *(("nodes_", put("inner", new, "child")) for new in (10**6, -1)),
    ("nodes_", put("next", 1, "child")), ("nodes_", lambda a: put("inner", len(a) - 1, "child")(a)),
    ("nodes_", put("inner", 4, "feature")), ("nodes_", put(-1, 4, "feature")),
    ("nodes_", put("inner", np.nan, "threshold")), ("nodes_", put(-1, np.nan, "value")),
    ("nodes_", put("inner", 2, "missing_left")), ("nodes_", lambda a: a["value"]),
    ("nodes_", lambda a: a[:0]), ("starts_", put(0, 1)), ("starts_", put(-1, 10**6)),
    ("starts_", put(1, 10**6)), ("starts_", put(1, -1)), ("starts_", lambda a: a[:-1]),
    ("starts_", lambda a: a.astype(float)), ("weights_", lambda a: np.append(a, 1.0)),
]  # fmt: skip
WITH_TREES = [AdaBoostNC(base="stump", random_state=0, **FEW), Bagging(random_state=0, **FEW)]
WITH_TREES += [cls(max_depth=2, **FEW) for cls in (GradientBoosting, GradientBoostingRegressor)]
OF_SVM = [AdaBoost(3, PSVM()), Bagging(PSVM(), 3), Bagging(PSVM(), 3, max_features=2)]
RBF = [PSVM(kernel="rbf"), NuSVM(), CqBoost(voters="rbf")]
ARRAYS = [  # Fewer entries and NaN are refused; no entries, too, in all arrays of the first four.
    (PSVM(), "weights_ coef_ intercept_"), (DRM(3, kernel="linear"), "weights_ coef_ intercept_"),
    (NuSVM(), "weights_ dual_coef_"), (CqBoost(), "weights_ signs_ features_ thresholds_"),
    (RBF[0], "ensemble_coef_ landmarks_ map_"), (RBF[1], "support_vectors_"), (RBF[2], "centres_"),
    *((model, "weights_") for model in (*OF_SVM[:2], *WITH_TREES, Voting())),
    (OTHERS[8], "estimators_features_"), (Stacking(), "weights_ coef_ estimators_/1/state_"),
    (OTHERS[5], "members_"), (OneVsRest(), "weights_ code_ coef_ intercept_")]  # fmt: skip
CHANGES = [  # A model, one of its arrays, and a change that is refused.
    *((model, name, change) for model in WITH_TREES for name, change in TREES),
    *((Voting([AdaBoost(**FEW)]), f"estimators_/0/{name}", change) for name, change in TREES),
    *((PSVM(), "classes_", change) for change in (
        lambda a: a[::-1], lambda a: a[[0, 0]], lambda a: a[:1], lambda a: a[None])),
    (AdaBoost(**FEW), "weights_", put(0, 0.0)), (OneVsRest(), "code_", lambda a: 2 * a),
    *((model, "estimators_/1/classes_", lambda a: np.array(["p", "q"])) for model in OF_SVM[:2]),
    *((model, name, change) for model, names in ARRAYS for name in names.split() for change in (
        lambda a: a[1:], lambda a: a[..., 1:], lambda a: a * np.nan)),
    *((model, names, lambda a: a[:0]) for model, names in ARRAYS[:4]),
    *((model, name, change) for model, name in (
        (RBF[1], "support_"), (CqBoost(), "features_"), (OF_SVM[2], "estimators_features_"))
      for change in (  # Just outside 90 rows or 4 features.
        lambda a: a - a.min() - 1, lambda a: a - a.max() + (4 if a.max() < 4 else 90))),
    (WITH_TREES[2], "weights_ nodes_ starts_", lambda a: a[: 1 + (a.dtype == int)]),
    *((model, "header", lambda a, old=old, new=new: np.char.replace(a, old, old[:-1] + new, 1))
      for models, old, new in (([*OF_SVM[:2], Voting()], 'n_features_in_": 4', "5"),
        (RBF, 'gamma_": ', " -"), (RBF, 'gamma_": ', '1e999, "x": '), (RBF[2:], 'total_": 1', "0"),
        (RBF[2:], 'constant_": 0', "1")) for model in models)]  # fmt: skip


@pytest.mark.uncompiled
@pytest.mark.parametrize(("model", "name", "change"), CHANGES)
def test_arrays_that_do_not_fit_are_refused(model, name, change, tmp_path):
    path = tmp_path / "model.npz"
    save(model.fit(*rows(model)), path)
    whole = read_arrays(path)
    write(path, whole | {key: change(whole[key]) for key in name.split()})
    with pytest.raises(ValueError, match="cannot be loaded as a model: its \\w+ is damaged"):
        load(path)
    header, hidden = json.loads(str(whole["header"])), {"_is_consistent": 1, "_rules": {}}
    header["model"]["fitted"] |= hidden
    write(path, whole, header)
    assert not hidden.keys() & vars(load(path)).keys()


# -- writing --------------------------------------------------------------------------------------
@pytest.mark.uncompiled
def test_save_is_atomic(tmp_path, monkeypatch):
    path = tmp_path / "model.npz"
    save(FITTED, path)
    before = path.read_bytes()

    def full_disk(file, array, **options):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np.lib.format, "write_array", full_disk)
    with pytest.raises(OSError, match="disk full"):
        save(FITTED, path)
    with pytest.raises(KeyboardInterrupt), model_file.write_file(path):
        raise KeyboardInterrupt
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["model.npz"]


@pytest.mark.uncompiled
def test_one_path_for_many_threads(tmp_path):
    path, (X, y) = tmp_path / "model.npz", table()
    models = [PSVM(lam=lam).fit(X, y) for lam in (0.1, 10.0)]
    expected = {model.lam: model.decision_function(X) for model in models}
    save(models[0], path)

    def work(k):
        if k % 3 == 2:
            model = load(path)
            return np.array_equal(model.decision_function(X), expected[model.lam])
        return save(models[k % 3], path) is None

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(120)))
    assert os.listdir(tmp_path) == ["model.npz"]


@pytest.mark.uncompiled
@pytest.mark.skipif(os.name != "posix", reason="modes and links of POSIX")
def test_paths_that_may_be_written(tmp_path):
    path, link = tmp_path / "model.npz", tmp_path / "link.npz"
    path.write_bytes(b"precious")
    path.chmod(0o444)
    with pytest.raises(PermissionError, match="is read-only"):
        save(FITTED, path)
    assert path.read_bytes() == b"precious"
    path.chmod(0o644)
    link.symlink_to(path)
    save(FITTED, link)
    assert link.is_symlink() and load(path).lam == FITTED.lam
    for wrong in (tmp_path, tmp_path / "no" / "model.npz", os.devnull):
        with pytest.raises(OSError):
            save(FITTED, wrong)
    assert sorted(os.listdir(tmp_path)) == ["link.npz", "model.npz"]


def test_copied_files_work_side_by_side(tmp_path):
    for name in ("model_file", "exrm"):
        shutil.copy(ROOT / "solvers" / f"{name}.py", tmp_path)
    script = """
import exrm, model_file
model_file.save(exrm.PSVM().fit([[0.0], [1.0]], [0, 1]), "m.npz")
assert model_file.load("m.npz", classes=[exrm.PSVM]).predict([[1.0]]) == [1]
try:
    model_file.load("m.npz")
except ValueError as error:
    print(error)
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert not done.stderr and "it holds a PSVM; use load(path, classes=[PSVM" in done.stdout

"""Tests for solvers/model_file.py: every class goes into a file and comes back, or is refused."""

import copy
import importlib
import itertools
import json
import os
import pickle
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
    REGRESSORS,
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
from tests.test_contract import ROOT, every, make, table, variants

ODD = [None, True, -1, 0, 7, 1e9, 1e308, float("nan"), float("inf"), "", "x", "linear", [], {}]
FEW = {"n_estimators": 3}


def others():
    """Models of models, regressors, and ways to fit that have arrays of their own."""
    fitted = PSVM().fit(*rows(None))
    draws = {"max_depth": [1, 3, None], "min_impurity_decrease": np.array([0.0, 0.1])}
    return [
        PSVM(kernel="rbf", n_landmarks=12, random_state=0),
        *(DRM(3, kernel=kernel, sampling="bootstrap", random_state=0) for kernel in KERNELS),
        *(CqBoost(voters=voters) for voters in ("rbf", "linear-classifiers")),
        MinCq(voters=[fitted, AdaBoost(**FEW).fit(*rows(None))]),
        AdaBoost(base=PSVM(), **FEW),
        Bagging(PSVM(), 3, max_features=0.5, random_state=0),
        Bagging(perturb=draws, random_state=0, **FEW),
        GradientBoosting(
            base=GradientBoostingRegressor(**FEW), max_features=3, random_state=0, **FEW
        ),
        Voting([DRM(), "bayes", AdaBoost(**FEW)]),
        Voting([("svm", PSVM()), ("in", Voting([("a", "linear"), "bayes"])), "bayes"]),
        Voting([fitted, fitted], prefit=True),
        Voting(how="majority", reject="?", weights="log-odds"),
        Stacking(
            [Calibrated(ExRM(sampling="bootstrap", random_state=0)), "linear"], meta=PSVM(lam=0.1)
        ),
        Stacking(meta=BUILT_IN["bayes"]()),
        Calibrated(AdaBoost(**FEW), method="isotonic"),
        OneVsRest(Calibrated(AdaBoost(**FEW))),
        ECOC(code=np.eye(3) * 2 - 1),
        ECOC(Voting("centroid")),
        BaggingRegressor(GradientBoostingRegressor(**FEW), 3, random_state=0),
        GradientBoostingRegressor(monotonic_cst=[1, 0, 0, 0], **FEW),
        VotingRegressor(weights="covariance"),
        StackingRegressor([("gb", GradientBoostingRegressor(**FEW)), "quadratic"]),
        StackingRegressor("linear", meta=REGRESSORS["linear"]()),
    ]


KERNELS = ("linear", "poly", "precomputed")


def rows(model, n=90):
    """X and y that a model can be fitted to: a kernel matrix, numbers or classes."""
    X, y = table(n)
    if getattr(model, "kernel", None) == "precomputed":
        return X @ X.T, y
    if type(model).__name__.endswith("Regressor"):
        return X, X @ [1.0, 2.0, 0.0, -1.0]
    if isinstance(model, ECOC) and model.base == "linear":
        return X, np.array(["no", "or", "yes"])[np.digitize(X[:, 0], [0.0, 1.0])]
    return X, y


each_other = pytest.mark.parametrize("model", others(), ids=lambda model: repr(model)[:60])


def check_equal(copy, model, X):
    """Both models have the same parameters and fitted values, and give the same outputs."""
    assert repr(copy) == repr(model) and type(copy) is type(model)
    for name, value in vars(model).items():
        if name.endswith("_") and not name.startswith(("estimators_", "meta_")):
            assert_array_equal(getattr(copy, name), value)
    assert_array_equal(copy.predict(X), model.predict(X))
    assert_array_equal(copy.votes(X), model.votes(X))
    members = getattr(model, "estimators_", ())
    assert [*map(type, getattr(copy, "estimators_", ()))] == [*map(type, members)]


# -- what comes back ------------------------------------------------------------------------------
@pytest.mark.uncompiled
@every
def test_every_class_comes_back(cls, tmp_path):
    """Also as a file of equal bytes, which holds no memory of other arrays."""
    X, y = table()
    labels = [["no", "yes"], [0, 1], [-1.5, 2.5], [False, True]]
    secret = b"a secret of another array, "
    for model, names in zip(variants(cls), itertools.cycle(labels), strict=False):
        files = [tmp_path / f"{k}.npz" for k in range(3)]
        for path in files[:2]:
            remains = [np.frombuffer(secret * 50_000, np.uint8).copy() for _ in range(8)]
            del remains  # Memory that is not set before it is written would show it.
            save(
                model.fit(X, np.array(names)[(y == "yes").astype(int)]), path, {"of": ["table", 1]}
            )
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
    model = PSVM(class_weight={False: 1, True: 2.5}, random_state=np.random.default_rng(0))
    model.set_params(callback=lambda *args: False).fit(X, y == "yes")
    save(model, path, notes={1: np.float32(2), "names": ("a", None), "grid": np.arange(3)})
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
def test_a_file_does_not_hold_a_given_loss(cls, tmp_path):
    path, model = tmp_path / "model.npz", cls(loss=halved_square, order=1, **FEW)
    X, y = rows(model)
    save(model.fit(X, y), path)
    copy = load(path)
    assert copy.loss is None and copy.get_params() == model.get_params() | {"loss": None}
    assert_array_equal(copy.votes(X), model.votes(X))
    with pytest.raises(ValueError, match=f"{cls.__name__}: loss is None.* it needs its loss"):
        copy.fit(X, y)
    assert_array_equal(copy.set_params(loss=halved_square).fit(X, y).votes(X), model.votes(X))


def test_a_loaded_model_draws_the_same_samples(tmp_path):
    X, y = table()
    for random_state in (None, 7):
        model = Bagging(n_estimators=3, random_state=random_state).fit(X, y)
        save(model, tmp_path / "model.npz")
        again = load(tmp_path / "model.npz")
        for t in range(3):
            assert_array_equal(again.samples(t, y), model.samples(t, y))


# -- what is refused ------------------------------------------------------------------------------
def test_models_that_no_file_can_hold(tmp_path):
    path, (X, y) = tmp_path / "model.npz", table()
    tree = pytest.importorskip("sklearn.tree").DecisionTreeClassifier()
    given = CqBoost(voters=[tree.fit(X, y)])
    for model in (Voting([tree, "bayes"]), Stacking(meta=tree), AdaBoost(base=tree), given):
        with pytest.raises(
            ValueError, match="our models only|cannot save a DecisionTreeClassifier"
        ):
            save(model.fit(X, y), path)
    for other, text in ((PSVM(), "This PSVM instance is not fitted yet"), (tree, "cannot save a")):
        with pytest.raises(ValueError, match=text):
            save(other, path)
    with pytest.raises(ValueError, match="cannot save a set"):
        save(PSVM().fit(X, y), path, notes={"seen": {1, 2}})
    assert os.listdir(tmp_path) == []


@pytest.mark.uncompiled
def test_files_that_are_no_models(tmp_path):
    path, (X, y) = tmp_path / "model.npz", table()
    save(PSVM().fit(X, y), path)
    good, arrays = path.read_bytes(), read(path)
    header = json.loads(str(arrays["header"]))

    def refuse(text):
        with pytest.raises(ValueError, match=f"model.npz cannot be loaded as a model: .*{text}"):
            load(path)

    for data, text in (
        (good[: len(good) // 2], "not a zip file"), (b"", "not a zip file"),
        (pickle.dumps({"class": "PSVM"}), "not a zip file"),
    ):  # fmt: skip
        path.write_bytes(data)
        refuse(text)
    np.savez(path, X=X)
    refuse("header")
    np.savez(path, header=np.array([{"format": 3}], dtype=object))
    refuse("allow_pickle")
    for version in (1, 2, 4):
        write(path, arrays, header | {"format": version})
        refuse(f"it has format {version}, not 3; fit and save it again")
    write(path, {}, {"format": 2, "class": "PSVM", "params": {}, "values": {"converged_": True}})
    refuse("it has format 2, not 3")
    for model in (3, "PSVM", [], {}, {"class": "PSVM"}, {"array": "coef_"}, None):
        write(path, arrays, {"format": 3, "model": model})
        refuse("")
    np.savez_compressed(path, **arrays, more=np.zeros(10**6))
    refuse("it is compressed")
    path.write_bytes(good)
    with zipfile.ZipFile(path, "a") as target:  # One part under further names.
        large = max(target.infolist(), key=lambda part: part.file_size)
        for k in range(3):
            target.filelist.append(copy.copy(large))
            target.filelist[-1].filename = f"more{k}.npy"
        target._didModify = True
    refuse("its arrays are larger than the file")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.npz")


def read(path):
    """All arrays of a model file by name, the header among them."""
    with np.load(path) as file:
        return {key: file[key] for key in file.files}


def write(path, arrays, header=None):
    """Write a model file that may be wrong."""
    header = {} if header is None else {"header": np.array(json.dumps(header))}
    np.savez(path, **arrays | header)


@pytest.mark.uncompiled
def test_only_known_classes(tmp_path):
    class Oracle(PSVM):
        pass

    path, (X, y) = tmp_path / "model.npz", table()
    save(Oracle().fit(X, y), path)
    with pytest.raises(ValueError, match=r"it holds a Oracle; use load\(path, classes=\[Oracle"):
        load(path)
    assert type(load(path, classes=[Oracle])) is Oracle
    save(Voting([Oracle(), "bayes"]).fit(X, y), path)
    assert type(load(path, classes=[Voting, Oracle]).estimators_[0]) is Oracle
    for classes in ([Oracle], [Voting], [PSVM, Voting], []):
        with pytest.raises(ValueError, match="it holds a (Oracle|Voting|_Bayes); use load"):
            load(path, classes=classes)
    header = json.loads(str(read(path)["header"]))
    for name in ("METHODS", "os", "_Estimator", "", None, ["Voting"]):
        write(path, read(path), header | {"model": header["model"] | {"class": name}})
        with pytest.raises(ValueError, match="cannot be loaded as a model"):
            load(path)


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
    path, (X, y) = tmp_path / "model.npz", table(60)
    model = AdaBoost(**FEW).fit(X, y)
    save(model, path)
    good, rng, refused = path.read_bytes(), np.random.default_rng(0), 0
    for k in range(300):
        place = int(rng.integers(len(good)))
        changed = bytearray(good[:place] if k % 5 == 0 else good)
        if k % 5:
            changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        try:
            found = load(path)
        except ValueError as error:
            assert "cannot be loaded as a model" in str(error)
            refused += 1
        else:
            check_equal(found, model, X)
    assert refused > 200


def mutations(arrays, rng):
    """Name and arrays of files with one thing changed: an array, or a value of the header."""
    header = json.loads(str(arrays["header"]))
    for name in arrays.keys() - {"header"}:
        with np.errstate(all="ignore"):
            for k, new in enumerate(_wrong(arrays[name])):
                yield f"{name}, {k}", arrays | {name: new}
    leaves = [*_leaves(header["model"], ())]
    for k in rng.permutation(len(leaves))[:150]:
        for odd in (ODD[j] for j in rng.permutation(len(ODD))[:2]):
            new = copy.deepcopy(header)
            place = new["model"]
            for key in leaves[k][:-1]:
                place = place[key]
            place[leaves[k][-1]] = odd
            yield f"{leaves[k]} = {odd!r}", arrays | {"header": np.array(json.dumps(new))}


def _wrong(value):
    """Return arrays that are not as this one: other shapes, dtypes, ranges."""
    wrong = [value[..., :-1], value[:0], value[None], np.append(value, value)]
    if value.dtype in (np.float64, np.int64):
        wrong += [
            value - 10**6,
            value + 10**6,
            value.astype("f4"),
            value.astype("U3"),
            0 * value - 1,
        ]
    if value.dtype.kind == "f":
        wrong += [value * np.nan, value * np.inf, value.astype(int)]
    for field in value.dtype.names or ():
        for shift in (-1, 1, 10**6):
            wrong.append(value.copy())
            wrong[-1][field] += shift
    return wrong


def _leaves(value, path):
    """Yield the paths to the values of a header."""
    if isinstance(value, (dict, list)) and value:
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _leaves(value[key], (*path, key))
    else:
        yield path


def check_mutations(model, path, rng):
    """Each mutated file is refused, or its model predicts all rows or raises an exception."""
    X, y = rows(model, 40)
    save(model.fit(X, y), path, {"a": 1})
    refused = kept = 0
    for what, arrays in mutations(read(path), rng):
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


@pytest.mark.uncompiled
@pytest.mark.bounds
@every
def test_mutated_files_are_refused_or_harmless(cls, tmp_path):
    check_mutations(make(cls, **FEW_OF.get(cls.__name__, {})), tmp_path / "m.npz", DRAWS(0))


DRAWS = np.random.default_rng
FEW_OF = dict.fromkeys(["AdaBoost", "AdaBoostNC", "Bagging", "GradientBoosting"], FEW)


@pytest.mark.bounds
@each_other
def test_mutated_models_of_models_are_refused_or_harmless(model, tmp_path):
    check_mutations(model, tmp_path / "m.npz", DRAWS(1))


TREES = [AdaBoostNC(base="stump", random_state=0, **FEW), Bagging(random_state=0, **FEW)]
TREES += [cls(max_depth=2, **FEW) for cls in (GradientBoosting, GradientBoostingRegressor)]


@pytest.mark.uncompiled
@pytest.mark.parametrize("model", TREES, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("inside", [False, True])
def test_damaged_trees_are_not_walked(model, inside, tmp_path):
    """Nor are those of members, however deep."""
    path, (X, y) = tmp_path / "model.npz", rows(model)
    wrap = StackingRegressor if model._estimator_type == "regressor" else Voting
    save((wrap([("t", model)]) if inside else model).fit(X, y), path)
    start = "estimators_/0/" if inside else ""
    whole = read(path)
    nodes, starts, weights = (whole[f"{start}{name}_"] for name in ("nodes", "starts", "weights"))
    inner = int(np.flatnonzero(nodes["child"])[0])
    leaf = int(np.flatnonzero(nodes["child"] == 0)[0])
    changes = [("nodes_", field, at, new) for field, at, new in [
        ("child", inner, 10**6), ("child", inner, int(starts[-1]) - 1), ("child", inner, -1),
        ("child", inner + 1, 1), ("feature", inner, 4), ("feature", leaf, 4),
        ("value", leaf, np.nan), ("threshold", inner, np.nan), ("missing_left", inner, 2),
    ]]  # fmt: skip
    wrong = []
    for name, field, at, new in changes:
        wrong.append((name, nodes.copy()))
        wrong[-1][1][field][at] = new
    for at, new in ((0, 1), (-1, 10**6), (1, 10**6), (1, -1)):
        wrong.append(("starts_", starts.copy()))
        wrong[-1][1][at] = new
    wrong += [
        ("starts_", starts[:-1]),
        ("starts_", starts.astype(float)),
        ("nodes_", nodes["value"]),
    ]
    wrong += [
        ("weights_", weights[:-1]),
        ("weights_", np.append(weights, 1.0)),
        ("nodes_", nodes[:0]),
    ]
    for name, value in wrong:
        write(path, whole | {start + name: value})
        with pytest.raises(ValueError, match=f"its {type(model).__name__} is damaged"):
            load(path)
    write(path, whole)
    assert load(path).predict(X).shape == y.shape


@pytest.mark.uncompiled
@pytest.mark.parametrize(("model", "name", "change"), [
    (PSVM(), "coef_", lambda a: a[:, 1:]), (PSVM(), "intercept_", lambda a: a.astype("f4")),
    (PSVM(kernel="rbf"), "landmarks_", lambda a: a[:, 1:]),
    (PSVM(kernel="rbf"), "map_", lambda a: a[1:]),
    (PSVM(kernel="rbf"), "map_", lambda a: a.astype("f4")),
    (NuSVM(), "support_", lambda a: a + 90), (NuSVM(), "support_", lambda a: a - 90),
    (NuSVM(), "dual_coef_", lambda a: a[:, :1]), (NuSVM(), "support_vectors_", lambda a: a[:, 1:]),
    (CqBoost(), "features_", lambda a: a + 4), (CqBoost(), "features_", lambda a: a - 4),
    (CqBoost(), "features_", lambda a: a.astype(float)), (CqBoost(), "signs_", lambda a: a[1:]),
    (CqBoost(), "thresholds_", lambda a: a[1:]), (CqBoost(), "weights_", lambda a: a[:, None]),
    (CqBoost(voters="rbf"), "centres_", lambda a: a[:, 1:]),
    (Bagging(PSVM(), 3, max_features=2), "estimators_features_", lambda a: a + 3),
    (OneVsRest(), "coef_", lambda a: a[:, 1:]), (OneVsRest(), "code_", lambda a: 2 * a),
    (Stacking(), "coef_", lambda a: a[1:]),
    (Stacking(), "estimators_/1/state_", lambda a: a[:, 1:]),
    *((AdaBoost(**FEW), "classes_", change) for change in (
        lambda a: a[::-1], lambda a: a[[0, 0]], lambda a: a[:1], lambda a: a[None])),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(model, name, change, tmp_path):
    path, (X, y) = tmp_path / "model.npz", rows(model)
    save(model.fit(X, y), path)
    whole = read(path)
    write(path, whole | {name: change(whole[name])})
    with pytest.raises(ValueError, match="cannot be loaded as a model: its \\w+ is damaged"):
        load(path)
    hidden = json.loads(str(whole["header"]))
    hidden["model"]["fitted"] |= {"_is_consistent": 1, "__sklearn_is_fitted__": 1, "_rules": {}}
    write(path, whole, hidden)
    assert not {"_is_consistent", "__sklearn_is_fitted__", "_rules"} & vars(load(path)).keys()


# -- writing --------------------------------------------------------------------------------------
@pytest.mark.uncompiled
def test_save_is_atomic(tmp_path, monkeypatch):
    path, model = tmp_path / "model.npz", PSVM().fit(*table())
    save(model, path)
    before = path.read_bytes()

    def full_disk(file, array, **options):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np.lib.format, "write_array", full_disk)
    with pytest.raises(OSError, match="disk full"):
        save(model, path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["model.npz"]
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
def test_what_a_path_may_be(tmp_path):
    model, path, link = PSVM().fit(*table()), tmp_path / "model.npz", tmp_path / "link.npz"
    path.write_bytes(b"precious")
    path.chmod(0o444)
    with pytest.raises(PermissionError, match="is read-only"):
        save(model, path)
    assert path.read_bytes() == b"precious"
    path.chmod(0o644)
    link.symlink_to(path)
    save(model, link)
    assert link.is_symlink() and load(path).lam == model.lam
    for wrong in (tmp_path, tmp_path / "no" / "model.npz", os.devnull):
        with pytest.raises(OSError):
            save(model, wrong)
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
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert not done.stderr and "it holds a PSVM; use load(path, classes=[PSVM" in done.stdout

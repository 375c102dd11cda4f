"""Tests for datasets.py and the built-in sets of data/."""

import csv
import gzip
import io
import itertools
import json
import math
import os
import pickle
import random
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import datasets
from datasets import DataError, Preprocess, load, locate, names, splits
from tests.conftest import damage

with open(datasets.DATA / "INDEX.csv", newline="") as file:
    INDEX = {row["name"]: row for row in csv.DictReader(file)}

TABLE = [
    ["size", "colour", "weight", "label"],
    ["1.5", "red", "-2", "no"],
    ["2", "blue, dark", "1e3", "yes"],
    ["", "red", "0", "yes"],
    ["4", "green", "7", "no"],
]


@pytest.fixture
def write(tmp_path):
    """Write text, bytes or rows to a file and return its path."""

    def write(content, name="t.csv"):
        path = tmp_path / name
        if isinstance(content, list):
            buffer = io.StringIO()
            csv.writer(buffer).writerows(content)
            content = buffer.getvalue()
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def refuse(message, *args, call=load, **options):
    """Assert that the call raises a DataError of one line that matches; return it."""
    with pytest.raises(DataError, match=message) as caught:
        call(*args, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def same(a, b):
    return np.array_equal(a.X, b.X, equal_nan=True) and np.array_equal(a.y, b.y)


# -- built-in sets ---------------------------------------------------------------------------------
@pytest.mark.parametrize("name", INDEX)
def test_builtin_set(name):
    row, data = INDEX[name], load(name)  # load compares the checksum
    counts = {c: int((data.y == k).sum()) for k, c in enumerate(data.classes)}
    assert counts == next(s for s in names() if s["name"] == name)["classes"]
    assert sum(counts.values()) == len(data.X) == int(row["rows"])
    kinds = [column["kind"] for column in data.schema]
    assert kinds.count("number") == int(row["numeric_features"])
    assert kinds.count("category") == int(row["categorical_features"])
    assert kinds[-1] == "label"
    gaps = np.isnan(data.X).sum()
    gaps += sum(data.X[:, k].sum() for k, f in enumerate(data.feature_names) if f.endswith("=?"))
    assert gaps == int(row["missing_cells"])
    assert data.X.dtype == np.float64 and data.X.flags.c_contiguous and data.y.dtype == np.int64
    assert data.X.shape[1] == len(data.feature_names) == len(set(data.feature_names))
    json.dumps(data.schema)
    if name == "monks1":  # Numbers are categories if the index has them.
        assert data.feature_names[:3] == ["a1=1", "a1=2", "a1=3"]
        assert set(np.unique(data.X)) == {0, 1} and (data.X.sum(axis=1) == 6).all()


def test_index_is_complete():
    files = {path.name.removesuffix(".csv.gz") for path in datasets.DATA.glob("*.csv.gz")}
    assert files == set(INDEX) and len(INDEX) == 42
    aliases = [alias for s in names() for alias in s["aliases"]]
    assert len(aliases) == len(set(aliases)) and not set(aliases) & set(INDEX)
    assert {"diabetes", "credit", "vote", "german.numer", "letter:ab", "promoters"} <= {*aliases}
    for entry in names():
        for alias in entry["aliases"]:
            assert locate(alias) == locate(alias.upper()) == locate(entry["name"])
    assert load("BUPA").name == "liver" and same(load("BUPA"), load("liver"))
    assert all(row["licence"] and row["source"] for row in INDEX.values())


def test_changed_builtin_file(tmp_path, monkeypatch):
    load("heart")  # reads the index, which stays where it is
    rows = gzip.decompress((datasets.DATA / "heart.csv.gz").read_bytes())
    (tmp_path / "heart.csv.gz").write_bytes(gzip.compress(rows.replace(b"70", b"71", 1)))
    monkeypatch.setattr(datasets, "DATA", tmp_path)
    refuse("heart.csv.gz: checksum differs", "heart")


def test_unknown_and_impossible_names():
    refuse("sonarr: neither.*did you mean sonar.*cli.py datasets", "sonarr")
    names = ["linear:20", "a" * 5000, "a/" * 5000, "a\0b"]
    names += [f"{kind}{'9' * 5000}" for kind in ("linear:2x", "gaussians:")]
    for name in names:
        for function in (load, locate):
            assert len(refuse("neither a file nor a data set", name, call=function)) < 300


def test_locate(tmp_path, monkeypatch, write):
    path = write(TABLE, "Mine.csv")
    assert locate(path) == locate(f"{path}:yes-vs-no") == locate(os.fsencode(path)) == path
    assert locate("BUPA") == locate("liver:1-vs-2") == datasets.DATA / "liver.csv.gz"
    assert locate("gaussians") is None and locate("Linear:20x3:0-vs-1") is None
    odd = write(TABLE, "a:b-vs-c")  # a file may be called so
    assert locate(odd) == locate(f"{odd}:yes-vs-no") == odd
    assert same(load(f"{odd}:yes-vs-no"), load(f"{path}:yes-vs-no"))
    write(TABLE, "heart.tsv")
    monkeypatch.setenv("ENSOLVE_DATA", str(tmp_path))
    assert locate("mine") == path and same(load("mine"), load(path)) and load("mine").name == "Mine"
    assert len(load("heart").y) == 270  # the built-in one comes first
    assert {"name": "mine", "path": str(path)} in names()
    monkeypatch.chdir(tmp_path)
    for name in ("parts", "heart"):  # A data set wins over a directory of its name.
        (tmp_path / name).mkdir()
    assert datasets.is_directory("parts") and not datasets.is_directory("heart")
    assert not datasets.is_directory("absent") and not datasets.is_directory("a\0b")
    assert locate("parts") == Path("parts") and locate("heart").parent == datasets.DATA
    refuse("parts: a directory or a pipe; give a file", "parts")
    monkeypatch.setenv("ENSOLVE_DATA", str(tmp_path / "none"))
    refuse("ENSOLVE_DATA=.*No such file or directory", "mine")


# -- classes ---------------------------------------------------------------------------------------
def test_two_classes():
    data, full = load("vehicle:saab-vs-bus"), load("vehicle")
    assert data.classes == ["saab", "bus"] and data.name == "vehicle:saab-vs-bus"
    assert np.array_equal(data.X, load("vehicle-saab-bus").X)
    rows = np.isin(full.y, [full.classes.index("saab"), full.classes.index("bus")])
    assert np.array_equal(data.y == 1, full.y[rows] == full.classes.index("bus"))
    assert data.notes == ["rows of other classes left out: 411"]


def test_one_class_against_the_rest(write):
    data, full = load("wine:2-vs-rest"), load("wine")
    assert data.classes == ["rest", "2"]
    assert np.array_equal(data.y == 1, full.y == full.classes.index("2"))
    assert same(data, load("wine", positive=2)) and same(data, load("wine", positive="2.0"))
    assert data.notes == ["classes merged into 'rest': 1, 3"]
    for rule, counts in (("1+3-vs-2+5", [87, 89]), ("1+2+3-vs-rest", [51, 163])):
        data = load(f"glass:{rule}")
        assert {*data.classes} == {*rule.split("-vs-")} and np.bincount(data.y).tolist() == counts
    data, flipped = load("sonar"), load("sonar", positive="M")
    assert data.classes == ["M", "R"] and flipped.classes == ["R", "M"]
    assert np.array_equal(flipped.y, 1 - data.y)
    assert load("sonar:R-vs-M").classes == load("sonar:M-vs-rest").classes == ["R", "M"]
    assert load("sonar:R-vs-M", positive="R").classes == ["M", "R"]
    data = load(f"{write(TABLE)}:yes-vs-no")
    assert data.classes == ["yes", "no"] and data.name == "t:yes-vs-no"
    refuse("no class '4'; the classes are 1, 2, 3", "wine:4-vs-rest")
    refuse("no class 'sab'; did you mean saab", "vehicle:sab-vs-bus")
    refuse("no class 'X'; the classes are M, R", "sonar", positive="X")
    refuse("1-vs-1.2 must have different classes", "wine:1-vs-1+2")
    refuse("must have different classes on each side", "sonar:M+R-vs-rest")


def test_order_of_classes(write):
    """... and of levels: by value, equal ones by their texts."""
    assert load("promoter").classes == ["-", "+"]
    assert load("promoter:+-vs--").classes == ["+", "-"]
    rows = [[str(i % 3), label] for i, label in enumerate(["10", "+9", "-1.0", "9", "10.0", "-1"])]
    data = load(write(rows))
    assert data.classes == ["-1", "9", "10"] and data.y.tolist() == [2, 1, 0, 1, 2, 0]
    rows = [[str(i % 3), label] for i, label in enumerate(["b", "10", "a", "9"])]
    assert load(write(rows)).classes == ["10", "9", "a", "b"]
    data = load(write("a,label\n1,0\n1.0,1\n01,1\nx,0\n2,1\n"))
    assert data.feature_names == ["a=01", "a=1", "a=1.0", "a=2", "a=x"]
    assert datasets._ordered({"1", "1.0", "01", "+1", "0"}) == ["0", "+1", "01", "1", "1.0"]


def test_class_weights():
    for text, expected in [
        ("a=2", {0: 2}), ("a=2,", {0: 2}), ("d=1,e=3", {2: 3}),
        ("b,c=0.5,a=1e3", {1: 0.5, 0: 1000}), ("+1.0=4", {3: 4}),
    ]:  # fmt: skip
        weights = datasets.class_weights(text, ["a", "b,c", "d=1,e", "1"])
        assert weights == {"class_weight": expected}
    assert datasets.class_weights(None, []) == datasets.class_weights("balanced", ["a"]) == {}
    for text in ("x=1", "a", "a=", "a=x", "a=1,x=2", "=1", 2, [1, 2], ""):
        message = "is not balanced nor name=factor of the classes a, b"
        refuse(message, text, ["a", "b"], call=datasets.class_weights)
    for factor in ("0", "-1", "inf", "1e999"):
        message = f"{factor} for 'b'; factors are finite and > 0"
        refuse(message, f"a=1,b={factor}", ["a", "b"], call=datasets.class_weights)


def test_messages_and_notes_have_one_line(write):
    path = write('a,"b\nc",label\n1,,"x\ny"\n2,1,z\n3,1,"u\r\nv"\n')
    refuse("no class 'q'; the classes are u v, x y, z$", path, positive="q")
    notes = ["classes merged into 'rest': u v, x y", "numbers missing: 1, in b c (1)"]
    assert load(path, positive="z").notes == notes
    refuse("no column 'w'; the columns are a, b c, label$", path, label="w")


# -- formats ---------------------------------------------------------------------------------------
def test_table(write):
    data = load(write(TABLE))
    nan = np.nan
    colours = ["colour=blue, dark", "colour=green", "colour=red"]
    assert data.feature_names == ["size", *colours, "weight"]
    expected = [[1.5, 0, 0, 1, -2], [2, 1, 0, 0, 1e3], [nan, 0, 0, 1, 0], [4, 0, 1, 0, 7]]
    assert np.array_equal(data.X, expected, equal_nan=True)
    assert data.classes == ["no", "yes"] and data.y.tolist() == [0, 1, 1, 0]
    assert data.name == "t"
    assert "numbers missing: 1, in size (1)" in data.notes
    assert "categorical columns: 1, as 3 indicator columns" in data.notes


def variants():
    quoted = "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in TABLE)
    bare = [[f'"{cell}"' if " " in cell else cell or "?" for cell in row] for row in TABLE]
    mixed = [["\t", "  "][i % 2].join(row) + "\n" for i, row in enumerate(bare)]
    return {
        "quoted.csv": quoted,
        "tabs.tsv": "".join("\t".join(row) + "\n" for row in TABLE),
        "semicolon.csv": "".join(";".join(row) + "\n" for row in TABLE),
        "blanks.txt": "".join("  " + "   ".join(row) + " \n" for row in bare),
        "mixed.dat": "".join(mixed),
        "windows.csv": quoted.replace("\n", "\r\n"),
        "bom.csv": "\ufeff" + quoted,
        "spaced.csv": quoted.replace('","', '", "'),
        "blank_lines.csv": quoted.replace("\n", "\n\n"),
        "no_newline.csv": quoted.rstrip(),
        "na.csv": quoted.replace('""', "N/A"),
        "no_header.csv": quoted.partition("\n")[2],
        "zipped.csv.gz": gzip.compress(quoted.encode()),
    }


@pytest.mark.parametrize("name", variants())
def test_variants_of_one_table(write, name):
    data = load(write(variants()[name], name))
    assert same(data, load(write(TABLE)))
    assert data.name == name.split(".")[0]
    assert data.schema[0]["name"] == ("x0" if name == "no_header.csv" else "size")


def test_svm_against_scikit_learn(write):
    reader = pytest.importorskip("sklearn.datasets")
    text = "# a comment\n+1 1:0.5 3:-2e1 # tail\n-1 2:1\n\n+1 5:4\n-1 1:nan 4:7\n"
    for name in ("t.svm", "t.txt", "t.libsvm.gz"):
        path = write(gzip.compress(text.encode()) if name.endswith("gz") else text, name)
        data = load(path)
        X, y = reader.load_svmlight_file(io.BytesIO(text.encode()))
        assert np.array_equal(data.X, X.toarray(), equal_nan=True)
        assert data.classes == ["-1", "1"] and np.array_equal(2 * data.y - 1, y)
        assert data.feature_names == ["x1", "x2", "x3", "x4", "x5"]


@pytest.mark.parametrize("labels", [[0, 1, 1], [0.0, 1.0, 1.0], [*"abb"], [False, True, True]])
def test_npz(tmp_path, labels):
    path = tmp_path / "t.npz"
    np.savez(path, X=np.arange(6, dtype=np.float32).reshape(3, 2), y=np.array(labels))
    data = load(path)
    assert data.y.tolist() == [0, 1, 1] and data.X.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert data.classes == [str(labels[0]).removesuffix(".0"), str(labels[1]).removesuffix(".0")]


def test_npz_errors(tmp_path):
    path, eye = tmp_path / "t.npz", np.eye(2)
    for X, y, message in [
        (eye, np.array([None, 1]), "not an .npz file of plain arrays.*[Oo]bject"),
        (np.array([["a", "b"]] * 2), [0, 1], "X must be a table of numbers, got <U1"),
        (np.ones(3), [0, 1, 1], "X must be a table of numbers"),
        (eye, [0, 1, 1], "y must be 2 labels"),
        ([[1, np.inf], [0, 1]], [0, 1], "row 0, column 'x1': inf is not a finite"),
        (eye, [np.nan, np.nan], "column 'label': all labels are missing"),
    ]:
        np.savez(path, X=X, y=y)
        refuse(message, path)
    np.savez(path, X=eye)
    refuse("needs X and labels y, and has no y", path)


def test_damaged_npz(tmp_path, write, monkeypatch):
    path = tmp_path / "good.npz"
    np.savez_compressed(path, X=np.random.default_rng(0).random((50, 4)), y=np.arange(50) % 2)
    content = bytearray(path.read_bytes())
    bad = [pickle.dumps([1, 2]), b"", bytes(content[:-40]), bytes(content[:200])]
    content[300:320] = bytes(20)
    for case in [*bad, bytes(content)]:
        refuse("not an .npz file of plain arrays", write(case, "bad.npz"))
    np.savez_compressed(tmp_path / "t.npz", X=np.zeros((1000, 9)), y=np.arange(1000) % 2)
    monkeypatch.setattr(datasets, "MAX_CELLS", 5000)
    monkeypatch.setattr(np, "load", None)  # refused before anything is unpacked
    refuse("t.npz: 80256 bytes when unpacked, too many; use fewer", tmp_path / "t.npz")


@pytest.mark.parametrize("first", ["a,b,c", "0,1,label", "0,1,Class", "a,,c", "0,asked,2"])
def test_header_above_numbers(write, first):
    """Texts above numbers, a name of the label, a gap, the given label make a header."""
    data = load(write(f"{first}\n1,2,0\n2,3,1\n"), label="asked" if "asked" in first else None)
    note = "no header found: the columns are called x0, x1, ..."
    assert len(data.y) == 2 and note not in data.notes
    for row in ("3,4,5", "?,NA,1"):  # Numbers and gaps are not texts.
        data = load(write(f"{row}\n1,2,0\n2,3,1\n"))
        assert len(data.y) == 3 and note in data.notes
    votes = "y,n,x\nn,y,x\ny,y,z\nn,n,z\n"  # The cells of the first row occur again.
    assert len(load(write(votes)).y) == len(load(write("vote,second,party\n" + votes)).y) == 4


@pytest.mark.parametrize("delimiter", [",", ";", "\t", " "])
def test_lines_longer_than_a_cell_may_be(write, delimiter):
    X = np.random.default_rng(0).integers(100_000, 999_999, (3, 20_000))
    lines = [delimiter.join([*map(str, row), label]) for row, label in zip(X, "abb", strict=True)]
    path = write("\n".join([delimiter.join(f"f{j}" for j in range(20_001)), *lines]) + "\n")
    assert len(lines[0]) > csv.field_size_limit()
    data = load(path)
    assert np.array_equal(data.X, X) and data.classes == ["a", "b"]
    assert same(load(path, schema=data.schema), data)


def test_chunks_of_wide_tables(write, monkeypatch):
    """The result does not depend on the rows per chunk; few rows decide about a header."""
    whole = load(write(TABLE))
    for cells in (1, 4, 9):
        monkeypatch.setattr(datasets, "CHUNK_CELLS", cells)
        monkeypatch.setattr(datasets, "HEADER_CELLS", cells)
        assert same(load(write(TABLE)), whole)
    sizes = []
    monkeypatch.setattr(datasets, "_has_header", lambda rows, *_: sizes.append(len(rows)) or False)
    load(write("1,2,3,0\n" * 5 + "1,2,3,1\n" * 5))
    assert sizes == [3]


def test_label_column(write):
    path = write("Class,a,0,b\nu,1,5,2\nv,2,6,3\nu,3,5,4\n")
    assert load(path).classes == ["u", "v"]
    assert load(path, label="0").classes == ["5", "6"]  # a name wins over a number
    assert load(path, label=-3).classes == ["1", "2", "3"]
    assert load(path, label=3).feature_names == ["Class=u", "Class=v", "a", "0"]
    data = load(write("a,b\n1,5\n2,6\n", "last.csv"))
    assert data.classes == ["5", "6"] and "label: the last column, 'b'" in data.notes
    for label, hint in (("Klass", "; did you mean Class.*columns are Class, "), (4, ""), (-5, "")):
        refuse(f"no column '{label}'{hint}", path, label=label)
    path = write("1 1:5 2:2\n-1 2:1\n", "t.svm")
    assert same(load(path, label="label"), load(path))
    refuse("this format fixes the label column", path, label="x1")


# -- errors ----------------------------------------------------------------------------------------
MANY = "".join(f"{i},{i % 2}\n" for i in range(200))
SVM_ERRORS = [  # Second line of LIBSVM text, and the message.
    ("1 qid:3 1:2", "line 2: 'qid:3' is not index:value"),
    ("1 0:2 0:3", "line 2: '0:3' is not index:value with a new index from 0 or 1 on"),
    ("1 5", "line 2: '5' is not"),
    ("1 -1:2", "line 2: '-1:2' is not"),
    ("1:2 2:3", "line 2: '1:2' where the label belongs"),
    ("1 1:inf", "line 2, column 'x1': inf is not a finite"),
    ("? 1:2", "column 'label': only one class, 0; two are needed"),
    ("1 10000000:1", "line 2: 10000000 columns are too many.*use fewer rows, columns"),
    ("1 99999999999999999999:1", "line 2: 99999999999999999999 columns are too many for a"),
    ("1 1_0:1", "line 2: .1_0:1. is not index:value"),
    ("1 1:1_0", "line 2: .1:1_0. is not index:value"),
]


@pytest.mark.parametrize(
    "content, message",
    [
        ("", "t.csv: the file is empty"),
        ('""', "t.csv: all cells are empty"),
        ('\ufeff""\n""\n', "all cells are empty"),
        ("a,label\n", "rows of data must be at least 2, got 0"),
        ("label\n1\n2\n", "no feature columns"),
        ("a,a,label\n1,2,0\n2,3,1\n", "two columns are called 'a'"),
        ("a,label\n1,0\n2,1\n3\n", "line 4: expected 2 cells, found 1"),
        ("a,label\n\n1,0,5\n2,1\n", "line 3: expected 2 cells, found 3"),
        ("a,label\n1,?\n2,\n", "column 'label': all labels are missing; choose another"),
        ("a,label\n1,0\n2,\n", "column 'label': only one class, 0; two are needed"),
        ("a,label\n1,0\ninf,1\n", "line 3, column 'a': inf is not a finite number"),
        ("a,b,label\nu,1,0\nv,-1e150,1\n", "line 3, column 'b': -1e.150 is not a .* below 1e.150"),
        ("a,label\n1,u\n2,\n3,v\n1e200,v\n", "line 5, column 'a': 1e.200 is not a finite"),
        ("a,b,label\n1,,0\n2,NA,1\n", "column 'b': all cells are missing"),
        ("a,label\n" + "1,0\n" * 9 + "o,1\n", "line 11, column 'a': 'o' is not a number"),
        ('a,label\n"1,5",0\n"2,5",1\n', "line 2, column 'a': '1,5' has a decimal comma"),
        ("a,label\n" + MANY.replace(",", "k,"), "column 'a': 200 texts in 200 rows look like an "),
        ('a,label\n"1,0\n2,1\n', "line 3: unexpected end of data; check the quotes"),
        ("x" * 200_000, "line 1: field larger than field limit .131072.; check the quotes, and"),
        ('{"a": [' + "1, " * 100_000 + "1]}", "t.csv: must be a table, got JSON, XML"),
        ('[{"a": 1}]', "must be a table, got JSON"),
        ("[\n1,2\n]", "must be a table, got JSON"),
        ("\n<!DOCTYPE html>\n<html>", "got JSON, XML or ARFF"),
        ("@RELATION iris\n@DATA\n1,2\n", "XML or ARFF; give CSV"),
        ("a,label\n1,0\n2,1\n".encode("utf-16-le"), "contains NUL bytes; give --encoding"),
        ("a,label\n1,0\n2,1\n".encode("utf-16"), "not UTF-8 .*byte 0xff .*; save it as UTF-8"),
        (b"a,label\n\xe9,0\nb,1\n", "not UTF-8 .*byte 0xe9"),
        *((f"0 1:1 2:5\n{line}\n", message) for line, message in SVM_ERRORS),
    ],
)
def test_table_errors(write, content, message):
    assert "t.csv" in refuse(message, write(content))


def test_regression_targets(write):
    reals = "".join(f"1,{i}.5\n2,{i}.5\n" for i in range(21))
    refuse("column 'x1': 21 distinct labels look like a regression", write(reals))
    assert len(load(write(reals), positive="0.5").classes) == 2
    whole = "".join(f"1,{i}\n" for i in range(100))
    refuse("101 distinct labels look like a regression", write(f"{whole}1,100\n"))
    assert len(load(write(whole)).classes) == 100


def test_tables_that_are_too_large(write, tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "MAX_CELLS", 40)
    monkeypatch.setattr(datasets, "MAX_COLUMNS", 15)
    levels = "".join(f"{i},t{i % 6},u{i % 2},{i % 2}\n" for i in range(12))
    wide = ",".join(map(str, range(16))) + "\n"
    np.savez(tmp_path / "wide.npz", X=np.ones((2, 16)), y=[0, 1])
    for path, message in [
        (write("a,b,c,label\n" + levels), "t.csv: 12 x 9 cells are too many for a dense table; "
         "use fewer rows, columns or levels"),
        (write("1,2,0\n2,1,1\n" * 11, "long.csv"), "22 x 2 cells are too many.*; use fewer rows"),
        (write(wide + wide, "wide.csv"), "16 columns are too many for a dense table; use fewer"),
        (write("0 1:1\n1 9:1\n" * 3, "t.svm"), "6 x 9 cells are too many"),
        (tmp_path / "wide.npz", "16 columns are too many for a dense table; use fewer"),
    ]:  # fmt: skip
        refuse(message, path)
    assert load(write("0 1:1\n1 10:1\n" * 2, "t.svm")).X.shape == (4, 10)
    assert load(write("0 1:1\n1 15:1\n", "t.svm")).X.shape == (2, 15)


def test_unreadable_files(tmp_path, write, monkeypatch):
    def deny(path, *args, **options):
        raise PermissionError(13, "Permission denied", path)

    packed = gzip.compress(",".join(map(str, range(5000))).encode())
    for content in (packed[:-30], packed[:50] + bytes(50) + packed[100:], "a,b\n1,2\n"):
        refuse("truncated or corrupt gzip", write(content, "t.csv.gz"))
    refuse("neither a file nor a data set", tmp_path / "none.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    for path in (tmp_path, tmp_path / "pipe.csv"):
        refuse("a directory or a pipe; give a file", path)
    monkeypatch.setattr(os, "stat", deny)
    refuse(r"a.csv: cannot be read \(Permission denied\)", tmp_path / "a.csv", call=locate)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), min_size=1))
def test_columns_of_numbers(cells):
    """A column is numeric if each cell is a number or missing."""
    values = [datasets._number(text) for text in datasets._texts(cells) if text != "?"]
    assert (datasets._floats(cells) is None) == (None in values)


def test_text_columns(write, monkeypatch):
    """A text may come late, or look like a number of Python."""
    data = load(write("age,label\n10_19,0\n20_29,1\n10_19,1\n"))
    assert data.feature_names == ["age=10_19", "age=20_29"]
    for blank in ("\x1c", "\x1f", "\x0b", "\x85", "\u3000", "\xa0"):  # Blanks around numbers go.
        data = load(write(f"a,b,label\n1{blank},{blank},0\n{blank}2,3,1\n"))
        assert np.array_equal(data.X, [[1, np.nan], [2, 3]], equal_nan=True)
        again = load(write(f"a,b\n{blank}4,{blank}5\n", "new.csv"), schema=data.schema)
        assert again.X.tolist() == [[4, 5]]
    monkeypatch.setattr(datasets, "CHUNK_CELLS", 2)
    data = load(write("a,b,label\n01,1,0\n2,2,1\n,3,0\nx,4,1\n01,5,0\n"))
    assert data.feature_names == ["a=01", "a=2", "a=x", "a=?", "b"]
    assert data.X[:, :4].argmax(axis=1).tolist() == [0, 1, 3, 2, 0]
    assert data.X[:, 4].tolist() == [1, 2, 3, 4, 5]


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(2, 8), st.integers(1, 4), st.sampled_from(",;\t"))
def test_round_trip(tmp_path_factory, data, n, d, delimiter):
    """Each table comes back as itself: numbers equal, every text under its own indicator."""
    number = st.floats(-1e149, 1e149)
    text = st.sampled_from(["red", "a b", 'say "hi"', "x;y", "p,q", "ü", "1_0", "tab\tbed", "o'"])
    columns = [
        data.draw(st.lists(st.one_of(st.none(), kind), min_size=n, max_size=n))
        for kind in data.draw(st.lists(st.sampled_from([number, text]), min_size=d, max_size=d))
    ]
    for column in columns:
        column[0] = data.draw(number) if any(isinstance(c, float) for c in column) else "red"
    path = tmp_path_factory.mktemp("round") / "t.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow([f"c{j}" for j in range(d)] + ["label"])
        for i in range(n):
            writer.writerow([c[i] for c in columns] + [i % 2])
    table = load(path)
    assert table.y.tolist() == [i % 2 for i in range(n)]
    for j, column in enumerate(columns):
        for i, cell in enumerate(column):
            if isinstance(column[0], float):
                value = table.X[i, table.feature_names.index(f"c{j}")]
                assert np.isnan(value) if cell is None else value == cell
            else:
                name = f"c{j}={'?' if cell is None else cell}"
                assert table.X[i, table.feature_names.index(name)] == 1
                levels = [k for k, f in enumerate(table.feature_names) if f.startswith(f"c{j}=")]
                assert table.X[i, levels].sum() == 1


# -- how a file is read ----------------------------------------------------------------------------
def table_of(n, cell):
    """Return n rows with a header; the column b is a function of the row's number."""
    rows = ([str(i % 7), str(cell(i)), str(i % 2)] for i in range(n))
    return [["a", "b", "label"], *rows]


def test_drop(write):
    path = write([["id", *TABLE[0]], *([f"k{i}", *row] for i, row in enumerate(TABLE[1:]))])
    plain = load(write(TABLE, "plain.csv"))
    for drop in (["id"], [0], "id", 0, ["0"], [-5], ("id", "id")):
        data = load(path, drop=drop)
        assert same(data, plain) and data.feature_names == plain.feature_names
        assert data.schema == plain.schema
    both = load(path, drop=["id", "colour"])
    assert both.feature_names == ["size", "weight"] and both.classes == ["no", "yes"]
    for new in (path, write(TABLE, "new.csv")):
        for options in ({}, both.reading, {"drop": ["nothing"]}):
            X = load(new, schema=both.schema, **options).X
            assert np.array_equal(X, both.X, equal_nan=True)
    for cell, text in (
        (lambda i: i or "o", "'o' is not a number"),
        (lambda i: f"n{i}", "'b': 60 texts in 60 rows.*; --drop b leaves it out"),
    ):
        path = write(table_of(60, cell))
        refuse(text, path)
        assert load(path, drop=["b"]).feature_names == ["a"]  # It is not checked.


def test_label_beside_dropped_columns(write):
    path = write("a,b,c\n1,5,u\n2,6,v\n3,5,u\n")
    data = load(path, drop=["c"])  # The last column that is left is the label.
    assert data.classes == ["5", "6"] and data.feature_names == ["a"]
    assert [column["kind"] for column in data.schema] == ["number", "label"]
    first = load(path, label="b", drop=[0])
    assert first.feature_names == ["c=u", "c=v"]
    assert [column["kind"] for column in first.schema] == ["label", "category"]
    for options in ({"label": "c", "drop": ["c"]}, {"label": 2, "drop": ["c"]}):
        refuse("column 'c': is the label; it cannot be dropped", path, **options)
    refuse("no column 'd'; .*the columns are a, b, c", path, drop=["d"])
    refuse("all columns are dropped", path, drop=["a", "b", "c"])
    refuse("no feature columns", path, drop=["a", "b"])
    data = load(write("7,1,5,u\n8,2,6,v\n9,3,5,u\n"), drop=[1])  # There is no header.
    assert [column["name"] for column in data.schema] == ["x0", "x2", "x3"]
    new = write("4,9,6\n", "new.csv")
    assert load(new, schema=data.schema, **data.reading).X.tolist() == [[4, 6]]
    refuse("dropped in training and none here; give --drop again", new, schema=data.schema)
    named = write("x0,x1,x2\n4,9,6\n", "new.csv")
    assert load(named, schema=data.schema).X.tolist() == [[4, 6]]


def test_drop_of_arrays(write, tmp_path):
    train = load(write("1 1:5 2:7 3:2\n-1 2:1\n", "t.svm"), drop=["x2"])
    assert train.feature_names == ["x1", "x3"] and train.X.tolist() == [[5, 2], [0, 0]]
    new = load(write("1 2:9 3:4\n", "new.svm"), schema=train.schema)
    assert new.X.tolist() == [[0, 4]] and new.X.flags.c_contiguous
    last = load(write("1 1:5 2:7 3:2\n-1 2:1\n", "t.svm"), drop=["x3"])
    path = write("1 2:9 3:4\n", "new.svm")
    refuse("feature index 3 is not one of the .* 1 to 2", path, schema=last.schema)
    again = load(path, schema=last.schema, **last.reading)
    assert again.X.tolist() == [[0, 9]]
    np.savez(tmp_path / "t.npz", X=np.arange(6).reshape(2, 3), y=[0, 1])
    train = load(tmp_path / "t.npz", drop=[0])
    assert train.X.tolist() == [[1, 2], [4, 5]]
    assert same(load(tmp_path / "t.npz", schema=train.schema, drop=["x0"]), train)
    refuse("column 'label': is the label; it cannot be dropped", tmp_path / "t.npz", drop=["label"])


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8", "utf-8-sig"])
def test_encoding(write, encoding):
    text = "größe,farbe,label\n1,grün,0\n2,weiß,1\n3,grün,1\n"
    path = write(text.encode(encoding))
    data = load(path, encoding=encoding)
    assert data.feature_names == ["größe", "farbe=grün", "farbe=weiß"]
    assert same(data, load(write(text, "plain.csv")))
    assert same(load(path, schema=data.schema, **data.reading), data)
    if encoding in ("latin-1", "cp1252"):
        refuse("not UTF-8 .*byte 0xf6.*--encoding cp1252", path)
    if encoding == "utf-8":
        refuse("not UTF-16 .*name its encoding, as in --encoding", path, encoding="utf-16")
        refuse("not ASCII .*byte 0xc3", path, encoding="ascii")


def test_decimal_comma(write):
    text = "a;b;label\n1,5;x;0,5\n-2;y;1\n?;x;0,50\n+3,25e2;x;1,0\n"
    data = load(write(text), decimal=",")
    point = load(write(text.replace(",", "."), "point.csv"))
    assert same(data, point) and data.schema == point.schema
    assert data.classes == ["0.5", "1"] and data.feature_names == ["a", "b=x", "b=y"]
    assert same(load(write(text), schema=data.schema, **data.reading), data)
    refuse("'1,5' has a decimal comma; write a point, or give --deci", write(text))
    for cell in ("1.5", "1.000"):
        path = write(text.replace("1,5", cell))
        refuse(f"line 2, column 'a': '{cell}' has a decimal point", path, decimal=",")
    headless = load(write("1,5;2,5;0,5\n2,5;3,5;1,5\n"), decimal=",")  # There is no header.
    assert headless.X.tolist() == [[1.5, 2.5], [2.5, 3.5]]
    blanks = load(write("1,5 2,5 0\n3,5 4,5 1\n"), decimal=",")  # No comma is a delimiter.
    assert blanks.X.tolist() == [[1.5, 2.5], [3.5, 4.5]]


@pytest.mark.parametrize("delimiter", [*"|;, \t:~_/", "§"])
def test_delimiter(write, delimiter):
    rows = [[cell.replace(", dark", "") or "?" for cell in row] for row in TABLE]
    path = write("".join(delimiter.join(row) + "\n" for row in rows))
    data, plain = load(path, delimiter=delimiter), load(write(rows, "plain.csv"))
    assert same(data, plain) and data.schema == plain.schema
    assert same(load(path, schema=data.schema, **data.reading), data)
    if delimiter in "|;, \t":
        assert same(load(path), plain)


def test_guess_of_the_delimiter(write):
    """A bar is found, unless it is part of a cell; a given delimiter makes LIBSVM text a table."""
    assert load(write("a|b|label\n1, 2|3|u\n4|5|v\n6|5|v\n")).feature_names[-1] == "b"
    data = load(write("1,p|q,u\n2,q|p,v\n3,p|q,v\n"))
    assert data.feature_names == ["x0", "x1=p|q", "x1=q|p"]
    text = "1 1:5 2:2\n0 1:3 2:1\n"
    assert load(write(text)).feature_names == ["x1", "x2"]
    data = load(write(text), delimiter=" ", label=0)
    assert data.feature_names == ["x1=1:3", "x1=1:5", "x2=2:1", "x2=2:2"]


def test_options_are_checked_and_recorded(write):
    path = write(TABLE)
    refuse("--encoding must be a Python encoding, .*got 'utf-9'", path, encoding="utf-9")
    refuse("--decimal must be '.' or ',', got ';'", path, decimal=";")
    refuse("--decimal must be", path, decimal=None)
    refuse("--delimiter must be one character, no quote.*got ',,'", path, delimiter=",,")
    refuse("point or decimal mark.*got ','", path, decimal=",", delimiter=",")
    for name in (8, "base64", "a\0b"):
        refuse("--encoding must be", path, encoding=name)
    for mark in ["", *'1e-."\n', 3]:
        refuse("--delimiter must be", path, delimiter=mark)
    data = load(write(TABLE), drop=["size"], encoding="latin-1", delimiter=",")
    assert load(write(TABLE), drop=[0, -2]).reading["drop"] == ["size", "weight"]
    assert json.dumps([*data.reading.values()]) == '[["size"], "latin-1", ".", ","]'
    for name in ("utf-8", "UTF_8", "u8"):  # A byte order mark is no part of the first name.
        assert load(write("\ufeffa,label\n1,0\n2,1\n"), encoding=name).feature_names == ["a"]
    heart = load("heart", encoding="utf-16", decimal=",", delimiter=";")  # It has its own form.
    assert same(heart, load("heart"))


def test_rows_without_label(write, tmp_path):
    full = load(write("a,b,label\n1,x,u\n2,y,v\n3,x,u\n"))
    text = "a,b,label\n1,x,u\n7,odd,\n2,y,v\n8,x,?\n3,x,u\n9,,NA\n"
    data = load(write(text))
    assert same(data, full) and data.schema == full.schema  # Their levels and gaps go with them.
    assert "rows without a label left out: 3" in data.notes
    new = load(write(text, "new.csv"), schema=full.schema)
    assert new.y.tolist() == [0, -1, 1, -1, 0, -1] and new.X[:, 0].tolist() == [1, 7, 2, 8, 3, 9]
    assert "rows without a label, not counted in errors: 3" in new.notes
    svm = load(write("1 1:5\n? 1:9 2:3\n-1 2:1\n", "t.svm"))
    assert svm.X.tolist() == [[5, 0], [0, 1]] and svm.y.tolist() == [1, 0]
    np.savez(tmp_path / "t.npz", X=np.arange(6).reshape(3, 2), y=[0, np.nan, 1])
    arrays = load(tmp_path / "t.npz")
    assert arrays.X.tolist() == [[0, 1], [4, 5]] and arrays.y.tolist() == [0, 1]
    assert arrays.X.flags.c_contiguous
    path = write("a,label\n1,u\n2,\n3,v\n4,w\n5,\n")
    pair = load(f"{path}:u-vs-v")
    assert pair.y.tolist() == [0, 1] and pair.X.ravel().tolist() == [1, 3]
    again = load(f"{path}:u-vs-v", schema=pair.schema)  # Other classes go, gaps stay.
    assert again.y.tolist() == [0, -1, 1, -1] and again.X.ravel().tolist() == [1, 2, 3, 5]


def test_possible_identifiers(write):
    """They are noted in 20 rows or more: whole numbers, all distinct, none missing."""

    def noted(rows, **options):
        notes = load(write(rows), **options).notes
        return [note for note in notes if note.startswith("possible identifiers")]

    note = "possible identifiers (distinct whole numbers): b; --drop leaves them out"
    for cell in (int, lambda i: i * 7919 % 1000 - 300):
        assert noted(table_of(20, cell)) == [note] and noted(table_of(19, cell)) == []
    for cell in (lambda i: i + 0.5, lambda i: max(i, 1), lambda i: "" if i == 15 else i):
        assert noted(table_of(50, cell)) == []
    assert noted(table_of(2000, lambda i: min(i, 1990))) == []  # only the first rows are distinct
    assert noted(table_of(30, int), schema=load(write(table_of(30, int))).schema) == []


def test_svm_indices_from_zero(write):
    peer = pytest.importorskip("sklearn.datasets")
    X = np.random.default_rng(0).integers(0, 3, (12, 4)).astype(float)
    buffer = io.BytesIO()
    peer.dump_svmlight_file(X, np.arange(12) % 2, buffer)
    data = load(write(buffer.getvalue(), "t.svm"))
    assert np.array_equal(data.X, X) and data.feature_names == ["x0", "x1", "x2", "x3"]
    assert "feature indices are counted from 0: the columns are x0, x1, ..." in data.notes
    new = load(write("1 1:5 3:2\n", "new.svm"), schema=data.schema)  # No 0, and still from 0.
    assert new.X.tolist() == [[0, 5, 0, 2]]
    new = write("1 4:5\n", "new.svm")
    refuse("feature index 4 is not one of the .* 0 to 3", new, schema=data.schema)
    ones = load(write("1 1:5 4:2\n0 2:1\n", "one.svm"))
    assert not any("counted" in note for note in ones.notes)
    new = write("1 0:5\n", "new.svm")
    refuse("feature index 0 is not one of the .* 1 to 4", new, schema=ones.schema)
    wide = load(write("0 1:1\n1 200000:2\n", "t.svm"))
    assert wide.X.shape == (2, 200_000) and wide.X.sum() == 3 and wide.X[1, -1] == 2
    assert wide.X.flags.c_contiguous and wide.feature_names[::199_999] == ["x1", "x200000"]
    again = load(write("1 200000:2\n", "new.svm"), schema=wide.schema)
    assert np.array_equal(again.X, wide.X[1:])


# -- large tables ----------------------------------------------------------------------------------
@pytest.fixture
def fast(monkeypatch):
    """Let pandas read plain tables of any size."""
    pytest.importorskip("pandas")
    monkeypatch.setattr(datasets, "FAST_BYTES", 0)


@pytest.fixture
def both(fast, monkeypatch):
    """Load a file by the fast reader and by the csv module; return the two answers."""
    monkeypatch.setattr(datasets, "HEADER_ROWS", 2)

    def answer(path, size, options):
        monkeypatch.setattr(datasets, "FAST_BYTES", size)
        try:
            data = load(path, **options)
        except DataError as error:
            return str(error)
        assert data.X.flags.c_contiguous
        numbers = (data.X.view(np.int64).tolist(), None if data.y is None else data.y.tolist())
        return numbers, data.feature_names, data.classes, data.notes, data.schema

    def both(path, chunk=2**18, **options):
        monkeypatch.setattr(datasets, "CHUNK_CHARS", chunk)
        return answer(path, 0, options), answer(path, np.inf, options)

    return both


def test_numbers_are_what_float_gives(fast):
    """... to the last bit: usual formats, and digits near the middle of two neighbours."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal(2000) * 10.0 ** rng.integers(-300, 300, 2000)
    formats = ("{!r}", "{:.3f}", "{:.15g}", "{:.17g}", "{:+.6e}", "{:.0f}", "{:.40e}")
    texts = [form.format(value) for form in formats for value in values.tolist()]
    for value in values[np.abs(np.log10(np.abs(values))) < 30].tolist():
        middle = (Fraction(value) + Fraction(float(np.nextafter(value, np.inf)))) / 2
        texts += [f"{math.floor(middle * 10**k)}e-{k}" for k in (0, 17, 40)]
    texts += [f"{2**52 + k}.5" for k in range(40)] + [str(2**62 + 256 * k) for k in range(40)]
    rows = "\n".join(f"{text},a" for text in texts)
    table = datasets._File(None, delimiter=",")
    found, numbers = datasets._parse_plain(rows, table, [0], {1})
    assert found == {1: ["a"] * len(texts)}
    assert numbers.tobytes() == np.array([float(text) for text in texts]).tobytes()


NUMBERS = ["0", "-0", "1", "+2.50", "-3e2", ".5", "5.", "1e-7", "0.1234567890123456789", "nan", "?"]
NUMBERS += ["", " 7", "8 ", "1e400", "-1e999", "inf", "1_0", "0x10", "1e", "--1", "1.2.3", "NA"]
WORDS = ["red", "blue", "a b", "ünï", "12a", "x" * 30, "e5", "-", "null", "\x0b", "3\x0b", "#"]


@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_fast_reader_and_csv_module_agree(both, tmp_path_factory, data):
    """Both give equal data, notes and messages on any text."""
    draw = data.draw
    width, n = draw(st.integers(1, 4)), draw(st.integers(1, 12))
    delimiter = draw(st.sampled_from([",", ";", "\t", "|", " ", ", "]))
    pools = st.sampled_from([NUMBERS[:8], NUMBERS, WORDS, NUMBERS + WORDS])
    kinds = [draw(pools) for _ in range(width)]
    rows = [[draw(st.sampled_from(kind)) for kind in kinds] + ["pq"[i % 2]] for i in range(n)]
    if draw(st.booleans()):
        rows.insert(0, [*(f"c{j}" for j in range(width)), "label"])
    if draw(st.integers(0, 9)) == 0:
        rows[draw(st.integers(0, len(rows) - 1))].append("7")
    ends = draw(st.sampled_from(["\n", "\r\n", "\n", "\n\n", "\r"]))
    text = ends.join(delimiter.join(row) for row in rows) + "\n" * draw(st.integers(0, 2))
    if draw(st.integers(0, 9)) == 0:
        text = text.replace("p", '"p"')
    path = tmp_path_factory.mktemp("both") / "t.csv"
    path.write_text(text, encoding="utf-8", newline="")
    options = [{}, {"drop": ["0"]}, {"delimiter": delimiter[0]}]
    options += [{"decimal": ","}] if delimiter[0] != "," else []
    chunk = draw(st.sampled_from([1, 7, 40, 2**18]))
    quick, careful = both(path, chunk, **draw(st.sampled_from(options)))
    assert quick == careful


ODD = ["1\r2,0", "\n3,1", '"1",0', "3,1,", "3", "1,0\0", "\x0c\n3,1", "1\x0b0"]
ODD += ["0" * 200_000 + "3,1"]


def test_lines_that_are_not_plain(both, write):
    """... may come late, after plain ones."""
    texts = [*(text.encode() for text in ODD), b"\xe9,1"]
    for text, delimiter in itertools.product(texts, (b",", b" ")):
        rows = 60 * b"7,0\n8,1\n" + text + b"\n7,0\n8,1\n"
        quick, careful = both(write(rows.replace(b",", delimiter)))
        assert quick == careful, text
    schema = load(write("a,label\n1,0\n3,1\n")).schema  # A single column may have blank lines.
    for column, line in (("a\n1\n\n2\n", ""), ("a\n1\n\n1e200\n", "line 4")):
        quick, careful = both(write(column, "new.csv"), schema=schema)
        assert quick == careful and (line in quick if line else len(quick[0][0]) == 2)


@pytest.mark.parametrize("chunk", [1, 50, 2**18])
def test_plain_tables_are_read_fast(write, fast, monkeypatch, chunk):
    """Texts, missing cells, blanks and other line ends need no csv module."""
    monkeypatch.setattr(datasets, "CHUNK_CHARS", chunk)
    rows = [[cell.replace(", ", "-") for cell in row] for row in TABLE]
    text = "".join(",".join(row) + "\n" for row in rows)
    whole, filled = load(write(text)), text.replace("\n,", "\n?,")
    variants = {
        "point.csv": text.rstrip(),
        "windows.csv": text.replace("\n", "\r\n"),
        "spaced.csv": filled.replace("\n", "\n ").replace(",", ", ").rstrip(),
        "bar.csv": text.replace(",", "|"),
        "headless.csv": text.partition("\n")[2],
        "blanks.csv": " " + filled.replace(",", "   ").replace("\n", "  \n ").rstrip(),
        "tabs.csv": filled.replace(",", "\t ", 9).replace(",", " "),
        "mark.csv": "\ufeff" + text,
        "packed.csv.gz": gzip.compress(text.encode()),
    }
    parsed = load(write(text)).schema  # The csv module has found the column of texts.
    monkeypatch.setattr(datasets, "_csv_chunks", None)
    for name, content in variants.items():
        data = load(write(content, name), schema=parsed)
        assert same(data, whole) and data.X.flags.c_contiguous, name
    comma = write(text.replace(",", ";").replace(".", ","), "comma.csv")
    assert same(load(comma, decimal=",", schema=parsed), whole)
    path = write(text.replace("red,0", "red,1e160"))
    refuse("line 4, column 'weight': 1e.160 is not a finite", path, schema=parsed)


def test_large_tables_without_pandas(fast, write, monkeypatch):
    plain = "a,b,kind\n" + "".join(f"{i},{i / 7!r},{'uv'[i % 2]}\n" for i in range(30))
    whole, numbers, used = load(write(TABLE)), load(write(plain)), []
    monkeypatch.setitem(sys.modules, "pandas", None)
    loadtxt = np.loadtxt
    monkeypatch.setattr(np, "loadtxt", lambda *args, **how: used.append(1) or loadtxt(*args, **how))
    assert same(load(write(plain)), numbers) and used
    assert same(load(write(TABLE)), whole)


# -- schema ----------------------------------------------------------------------------------------
def test_schema_reads_the_training_file_alike(write):
    for source in (write(TABLE), "horse", "crx", "monks1", "wine:1+2-vs-rest", "gaussians"):
        data = load(source)
        again = load(source, schema=json.loads(json.dumps(data.schema)))
        assert same(data, again) and again.schema == data.schema
        assert again.feature_names == data.feature_names and again.classes == data.classes


def test_schema_by_name_and_position(write):
    train = load(write(TABLE))
    rows = "id,weight,colour,size\na7,5,red,NA\na8,6,violet,3\na9,6,,3\n"
    data = load(write(rows, "new.csv"), schema=train.schema)
    nan = np.nan
    expected = [[nan, 0, 0, 1, 5], [3, 0, 0, 0, 6], [3, 0, 0, 0, 6]]
    assert np.array_equal(data.X, expected, equal_nan=True) and data.y is None
    assert data.feature_names == train.feature_names and data.classes == train.classes
    assert "columns not used in training: id; ignored" in data.notes
    assert "categories not seen in training: 2 cells; no indicator is set" in data.notes
    labelled = load(write("3,red,1,yes\n", "new.csv"), schema=train.schema)
    assert labelled.X.tolist() == [[3, 0, 0, 1, 1]] and labelled.y.tolist() == [1]
    bare = load(write("3,red,1\n4,green,2\n", "new.csv"), schema=train.schema)
    assert bare.X[:, 0].tolist() == [3, 4] and bare.y is None
    renamed = load(write("p,q,r\n3,red,1\n", "new.csv"), schema=train.schema)
    assert len(renamed.X) == 1
    assert "no column name of the training set occurs: matched by position" in renamed.notes
    first = load(write("u,1,2\nv,3,4\n"), label=0)
    assert load(write("v,5,6\n", "new.csv"), schema=first.schema).X.tolist() == [[5, 6]]
    for train, new, X in (
        ("0,1,label\n5,6,u\n7,8,v\n", "1,0\n6,5\n", [[5, 6]]),
        ("a,b,label\ny,n,u\nn,y,v\ny,y,u\n", "y,n\nn,y\n", [[0, 1, 1, 0], [1, 0, 0, 1]]),  # None.
        ("a,label\n01,0\nx,1\n01,1\n", "a\n01\n1\n", [[1, 0], [0, 0]]),  # 01 is a category.
    ):
        schema = load(write(train)).schema
        assert load(write(new, "new.csv"), schema=schema).X.tolist() == X


def test_schema_labels(write):
    train = load(f"{write(TABLE)}", positive="no")
    rows = [TABLE[0], *TABLE[1:3]]
    assert load(write(rows, "new.csv"), schema=train.schema).y.tolist() == [1, 0]
    other = [row[:3] + [label] for row, label in zip(rows, ["label", "?", ""], strict=True)]
    data = load(write(other, "new.csv"), schema=train.schema)
    note = "column 'label' has no class of the training set; ignored"
    assert data.y is None and note in data.notes
    mixed = [row[:3] + [label] for row, label in zip(rows, ["label", "no", "maybe"], strict=True)]
    path = write(mixed, "new.csv")
    refuse("line 3, column 'label': 'maybe' is not a class of", path, schema=train.schema)
    binary = load("wine:1+2-vs-rest")
    assert same(load("wine", schema=binary.schema), binary)
    pair = load("vehicle:saab-vs-bus")
    refuse("'van' is not a class of the training set: saab, bus", "vehicle", schema=pair.schema)
    assert same(load("vehicle:bus-vs-saab", schema=pair.schema), pair)  # the schema's codes


def test_schema_errors(write):
    train = load(write(TABLE))
    for content, message in [
        ("size,colour\n1,red\n", "lacks columns used in training: weight"),
        ("1,red\n", "feature columns must be 3, as in training, got 2"),
        ("size,colour,weight\n1,red,heavy\n", "line 2, column 'weight': 'heavy' is not a number"),
        ("size,colour,weight\n", "rows of data must be at least 1, got 0"),
    ]:
        refuse(message, write(content, "new.csv"), schema=train.schema)
    refuse("the schema fixes the positive class", write(TABLE), schema=train.schema, positive="no")
    for label in ("size", 0, "colour"):
        problem = "is a feature in the training set; it cannot be the label"
        refuse(problem, write(TABLE), label=label, schema=train.schema)
    rows = [["truth", *TABLE[0][:3]], *([row[3], *row[:3]] for row in TABLE[1:])]
    assert same(load(write(rows, "new.csv"), label="truth", schema=train.schema), train)


def test_damaged_schemas(write):
    """A schema is whole, or refused as a whole: no other error comes of it."""
    path, rng, refused = write(TABLE), random.Random(0), 0
    schema = load(path).schema
    for _ in range(300):
        try:
            load(path, schema=damage(schema, rng, 0.15))
        except DataError as error:
            refused += "the schema is damaged" in str(error)
    assert 200 < refused < 300
    colour = [{"levels": levels} for levels in (["red", "red"], [], "red", [1.5])]
    colour += [{"kind": kind} for kind in ("number", "text")] + [{"name": "size"}, {"name": None}]
    colour += [{"kind": "label", "members": [["a"], ["b"], ["c"]]}, {"members": [["red"]] * 3}]
    label = [{"levels": ["no"], "members": [["no"]]}, {"kind": "category"}]
    label += [{"members": members} for members in ([["no"]], [["no"], []], [["no"], [1]])]
    label += [{"members": {"no": "no", "yes": "yes"}}]
    for bad in [
        *([schema[0], schema[1] | changes, *schema[2:]] for changes in colour),
        *([*schema[:3], schema[3] | changes] for changes in label),
        *([], schema[3:], schema[:3], tuple(schema), {}, "schema", [*schema, schema[3]]),
    ]:
        refuse("load: the schema is damaged; give the `schema` of", path, schema=bad)


def test_schema_of_arrays(tmp_path, write):
    train = load(write("1 1:5 4:2\n-1 2:1\n", "t.svm"))
    data = load(write("1 2:3\n-1 1:1\n1 1:1\n", "new.svm"), schema=train.schema)
    assert data.X.tolist() == [[0, 3, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]
    assert load(write("0 2:3\n0 1:1\n", "new.svm"), schema=train.schema).y is None
    path = tmp_path / "new.npz"
    np.savez(path, X=np.eye(4))
    assert load(path, schema=train.schema).y is None
    np.savez(path, X=np.eye(3))
    refuse("feature columns must be 4, as in training, got 3", path, schema=train.schema)
    refuse("is categorical in the training set", path, schema=load(write(TABLE)).schema)


# -- preprocessing ---------------------------------------------------------------------------------
def messy(seed, n=40):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)) * [1, 100, 1e-3, 1] + [0, 5, 0, 3]
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


@pytest.mark.parametrize("scale", ["minmax", "minmax01", "standard"])
def test_scales_match_scikit_learn(scale):
    pytest.importorskip("sklearn")
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    peer = {"minmax": MinMaxScaler((-1, 1)), "minmax01": MinMaxScaler()}
    peer["standard"] = StandardScaler()
    pipe = make_pipeline(SimpleImputer(strategy="median"), peer[scale]).fit(messy(0))
    prep = Preprocess(scale).fit(messy(0))
    for X in (messy(0), messy(1)):
        np.testing.assert_allclose(prep.transform(X), pipe.transform(X), atol=1e-12)
    if scale == "standard":
        tanh = Preprocess("tanh").fit(messy(0)).transform(messy(1))
        assert np.array_equal(tanh, np.tanh(prep.transform(messy(1))))


@pytest.mark.parametrize("scale", [*datasets.SCALES][1:])
def test_constant_and_extreme_columns(write, scale):
    X = np.column_stack([np.full(10, 0.1), np.full(10, np.nan), np.arange(10)])
    Z = Preprocess(scale).fit(X).transform(np.vstack([X, [[5, 5, 5]]]))
    assert (Z[:, :2] == 0).all() and np.isfinite(Z).all() and np.ptp(Z[:, 2]) > 0
    data = load(write("a,b,label\n9e149,0,0\n-9e149,1e-310,1\n0,-1e-310,1\n1e-310,0,0\n"))
    Z = Preprocess(scale).fit(data.X).transform(np.vstack([data.X, np.ones(2)]))
    assert np.isfinite(Z).all()


def test_gaps():
    """... are filled from the training rows only, or stay."""
    prep = Preprocess().fit([[1, np.nan], [5, np.nan], [9, np.nan], [np.nan, np.nan]])
    assert prep.missing_ == 5
    X = np.array([[np.nan, np.nan], [1000, 7]])
    assert prep.transform(X).tolist() == [[5, 0], [1000, 7]]
    assert np.isnan(X[0]).all()  # the input stays as it was
    X, kept = messy(1), Preprocess("standard", keep_gaps=True).fit(messy(0))
    filled, gaps = Preprocess("standard").fit(messy(0)).transform(X), np.isnan(X)
    assert gaps.any() and np.array_equal(np.isnan(kept.transform(X)), gaps)
    assert np.array_equal(kept.transform(X)[~gaps], filled[~gaps])
    for scale, keep_gaps in itertools.product(datasets.SCALES, (False, True)):
        prep = Preprocess(scale, keep_gaps).fit(messy(0))
        again = Preprocess.from_dict(json.loads(json.dumps(prep.to_dict())))
        assert again.missing_ == prep.missing_ == np.isnan(messy(0)).sum()
        assert np.array_equal(again.transform(X), prep.transform(X), equal_nan=True)


BAD_STATES = {
    "scale": ["max", []],
    "fill_": [[0.0] * 3, [np.inf] * 4, ["a"] * 4],
    "center_": [[[0.0]] * 4, [np.nan] * 4, [10**400] * 4],
    "spread_": [1.0, [1.0, 1.0, 1.0, -1.0], [1.0, 1.0, 1.0, np.inf]],
    "missing_": [-1, "1"],
}


def test_preprocess_errors():
    prep = Preprocess("standard").fit(messy(0))
    refuse("scale must be one of none, minmax.*got 'max'", "max", call=Preprocess)
    refuse("X must be a table with rows", np.ones(3), call=Preprocess().fit)
    message = r"fitted on 4 columns, got X of shape \(2, 3\)"
    refuse(message, np.ones((2, 3)), call=prep.transform)
    state = prep.to_dict()
    damaged = [state | {key: value} for key, values in BAD_STATES.items() for value in values]
    for bad in [*damaged, {}, None, [], {"scale": "none"}]:
        refuse("Preprocess: .*(damaged|one of none)", bad, call=Preprocess.from_dict)


# -- splits ----------------------------------------------------------------------------------------
Y = np.repeat(["a", "b", "c"], [70, 25, 5])[np.random.default_rng(0).permutation(100)]


@pytest.mark.parametrize("train, counts", [(20.0, "14 5 1"), (0.52, "36 13 3"), (3, "1 1 1")])
def test_holdout(train, counts):
    pairs = list(splits(Y, trials=5, train=train))
    for rows, rest in pairs:
        assert sorted([*rows, *rest]) == list(range(100))
        assert (np.diff(rows) > 0).all() and (np.diff(rest) > 0).all()
        assert [*np.unique(Y[rows], return_counts=True)[1]] == [*map(int, counts.split())]
    assert len({tuple(rows) for rows, _ in pairs}) == 5


@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), st.floats(0.01, 0.99))
def test_splits_are_stratified(counts, fraction):
    n, K = sum(counts), len(counts)
    assume(K <= round(fraction * n) < n)
    y = np.repeat(np.arange(K), counts)
    rows, _ = next(splits(y, train=fraction))
    taken = np.bincount(y[rows], minlength=K)
    assert taken.sum() == round(fraction * n) and (taken >= 1).all() and (taken <= counts).all()
    if min(counts) * fraction >= 1:
        assert np.abs(taken - fraction * np.array(counts)).max() < 2


def test_folds():
    folds = list(splits(Y, cv=5, trials=2))
    assert len(folds) == 10
    for repeat in (folds[:5], folds[5:]):
        assert sorted(np.concatenate([test for _, test in repeat])) == list(range(100))
        for train, test in repeat:
            assert len(test) == 20 and not set(train) & set(test) and len(train) == 80
            assert np.unique(Y[test], return_counts=True)[1].tolist() == [14, 5, 1]
    assert not np.array_equal(folds[0][1], folds[5][1])


@pytest.mark.parametrize("options", [{}, {"train": 30}, {"cv": 3}])
def test_splits_depend_on_seed_and_trial_only(options):
    def rows(trials, seed=0):
        return [(*a, -1, *b) for a, b in splits(Y, trials=trials, seed=seed, **options)]

    assert rows(2) == rows(4)[: len(rows(2))]
    assert rows(2) != rows(2, seed=1)


def test_split_errors():
    for options, message in [
        ({"train": 100}, "train=100 means 100 rows; it must be from 3.*to 99"),
        ({"train": 0.999}, "means 100 rows"),
        ({"train": 2}, "means 2 rows; it must be from 3, one per class"),
        ({"train": 5.5}, "means 5.5 rows"),
        ({"train": -0.5}, "means -0.5 rows"),
        ({"train": np.nan}, "means nan rows"),
        ({"cv": 6}, "cv must be from 2 to 5, the size of the smallest class, got 6"),
        ({"cv": 1}, "cv must be from 2"),
        ({"trials": 0}, "needs trials >= 1"),
        ({"seed": -1}, "seed >= 0"),
    ]:
        refuse(message, Y, call=splits, **options)


# -- generators ------------------------------------------------------------------------------------
def test_two_gaussians():
    data = datasets.two_gaussians(20_000, distance=2.0, seed=1)
    assert data.X.shape == (20_000, 2) and np.bincount(data.y).tolist() == [10_000, 10_000]
    means = data.X[data.y == 1].mean(axis=0) - data.X[data.y == 0].mean(axis=0)
    np.testing.assert_allclose(means, [2, 2], atol=0.05)
    np.testing.assert_allclose(np.cov(data.X[data.y == 0].T), np.eye(2), atol=0.05)
    error = np.mean((data.X.sum(axis=1) > 0) != data.y)
    assert abs(error - 0.0786) < 0.01
    assert same(load("gaussians"), datasets.two_gaussians()) and len(load("gaussians:50").y) == 50
    assert not same(datasets.two_gaussians(seed=1), datasets.two_gaussians(seed=2))


def test_linear_problem_and_errors():
    data = datasets.linear_problem(20_000, 5, seed=3)
    w, *_ = np.linalg.lstsq(data.X, 2.0 * data.y - 1, rcond=None)
    assert 0.10 < np.mean((data.X @ w > 0) != data.y) < 0.15
    assert abs(np.corrcoef(data.X.T)[0, 1] - 0.3) < 0.05 and 0.45 < data.y.mean() < 0.55
    clean = datasets.linear_problem(500, 3, noise=0)
    w, *_ = np.linalg.lstsq(clean.X, 2.0 * clean.y - 1, rcond=None)
    assert np.mean((clean.X @ w > 0) != clean.y) < 0.05
    assert same(load("linear:300x4"), datasets.linear_problem(300, 4))
    assert load("linear:300x4").X.flags.c_contiguous
    refuse("two_gaussians: n must be from 2 to .*, got 1", "gaussians:1")
    refuse("linear_problem: needs n >= 2, d >= 1.* got n=5 and d=0", "linear:5x0")
    refuse("linear_problem: needs", "linear:99999999999x20")

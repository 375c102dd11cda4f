"""Tests for perf/study/store.py."""

import json
from dataclasses import replace

import pytest

from perf.study.experiment import Spec
from perf.study.store import NAME, Store, checksum, key

SPEC = Spec("sonar", "exrm", {"lam": 0.5})


def record(name, **more):
    return {"key": name, "trial": 3, "test_error": 0.25, **more}


def lines(folder):
    return [json.loads(line) for line in (folder / NAME).read_text().splitlines()]


def test_keys_name_all_that_a_result_depends_on(tmp_path):
    others = [
        {"data": "heart"}, {"method": "psvm"}, {"params": {"lam": 0.6}}, {"scale": "none"},
        {"train": 0.6}, {"cv": 5}, {"seed": 1}, {"read": {"label": "y"}}, {"grid": {"p": [1, 2]}},
    ]  # fmt: skip
    keys = [key(replace(SPEC, **other), 0, "abc") for other in others]
    keys += [key(SPEC, 0, "abc"), key(SPEC, 1, "abc"), key(SPEC, 0, "abd")]
    assert len(set(keys)) == len(keys)
    assert key(Spec(**json.loads(json.dumps(vars(SPEC)))), 0, "abc") == key(SPEC, 0, "abc")
    assert key(replace(SPEC, trials=99), 0, "abc") == key(SPEC, 0, "abc")


def test_checksums_are_of_the_content(tmp_path):
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("a,y\n1,0\n")
    two.write_text("a,y\n1,0\n")
    assert checksum(str(one)) == checksum(str(two))
    two.write_text("a,y\n1,1\n")
    assert checksum(str(one)) != checksum(str(two))
    assert checksum(f"{one}:0-vs-1") == checksum(str(one))
    assert checksum("gaussians:50") != checksum("gaussians:60")


def test_what_is_kept_is_known_again(tmp_path):
    folder = tmp_path / "new" / "folder"
    with Store(folder) as store:
        assert not store.has("a")
        store.add(record("a"))
        assert store.has("a") and lines(folder) == [record("a")]
    with Store(folder) as store:
        assert store.has("a") and not store.has("b") and store.records["a"] == record("a")


def test_a_line_that_was_cut_is_mended(tmp_path):
    """... wherever it was cut, even before its end of line only."""
    with Store(tmp_path) as store:
        store.add(record("a"))
        store.add(record("b"))
    whole = (tmp_path / NAME).read_bytes()
    first = whole.index(b"\n") + 1
    for end in range(first, len(whole)):
        (tmp_path / NAME).write_bytes(whole[:end])
        with Store(tmp_path) as store:
            assert store.has("a") and not store.has("b")
            store.add(record("b"))
        assert (tmp_path / NAME).read_bytes() == whole


def test_a_damaged_line_is_told(tmp_path):
    for damaged in ("{}", "[]", "nonsense", '{"key": '):
        text = f"{json.dumps(record('a'))}\n{damaged}\n{json.dumps(record('b'))}\n"
        (tmp_path / NAME).write_text(text)
        with pytest.raises(ValueError, match="line 2 is not a result; remove it"):
            Store(tmp_path)
        assert (tmp_path / NAME).read_text() == text


def test_two_runs_do_not_mix(tmp_path):
    pytest.importorskip("fcntl")
    with Store(tmp_path), pytest.raises(ValueError, match="is being written by another run; wait"):
        Store(tmp_path)
    Store(tmp_path).file.close()


def test_failures_are_kept_once_and_tried_again(tmp_path):
    failed = record("a", failure="ValueError: no")
    with Store(tmp_path) as store:
        store.add(failed)
        store.add(failed | {"cell_seconds": 2.0})
        assert not store.has("a") and lines(tmp_path) == [failed]
    with Store(tmp_path) as store:
        assert not store.has("a") and store.records["a"] == failed
        store.add(record("a"))
        assert store.has("a")
    with Store(tmp_path) as store:
        assert store.has("a") and store.records["a"] == record("a")


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Store() as store:
        store.add(record("a"))
        assert store.has("a")
    assert not list(tmp_path.iterdir())

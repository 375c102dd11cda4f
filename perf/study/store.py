"""Results on disk: one line of JSON a finished cell of a comparison, appended at once.

A cell, a trial of a method on a data set, has a key made of its specification, the number of its
split and the content of its data. Finished cells are not computed again. Cells that failed are kept
with their message and are tried again.
"""

import contextlib
import hashlib
import json
import os

import datasets

with contextlib.suppress(ImportError):  # Windows has no such locks, and runs there are not guarded.
    import fcntl

NAME = "results.jsonl"


def checksum(data):
    """Hash the file of a data set or, of a generated one, its name."""
    path = datasets.locate(data)
    if path is None:
        return hashlib.sha256(data.encode()).hexdigest()
    with open(path, "rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def key(spec, trial, data):
    """Name a cell by all that its result depends on; `data` is the checksum."""
    settings = {**vars(spec)}
    del settings["trials"]  # Of more trials the first ones are equal.
    text = json.dumps([settings, trial, data], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Store(contextlib.AbstractContextManager):
    """The records of a directory by their keys; without a directory they are kept in memory.

    A second run in the same directory is refused. An incomplete last line, of a run that was
    killed, is removed.
    """

    def __init__(self, folder=None):
        self.records, self.file = {}, None
        if folder is None:
            return
        os.makedirs(folder, exist_ok=True)
        self.path = os.path.join(folder, NAME)
        self.file = open(self.path, "a+b")
        try:
            if "fcntl" in globals():
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._read()
        except BlockingIOError:
            self.file.close()
            hint = "wait for its end, or choose another --out"
            raise ValueError(f"{self.path} is being written by another run; {hint}") from None
        except BaseException:
            self.file.close()
            raise

    def __exit__(self, *error):
        if self.file:
            self.file.close()  # And with it the lock.

    def _read(self):
        self.file.seek(0)
        whole = 0
        for number, line in enumerate(self.file, 1):
            if not line.endswith(b"\n"):
                break
            try:
                record = json.loads(line)
                self.records[record["key"]] = record
            except (ValueError, TypeError, KeyError):
                text = f"{self.path}: line {number} is not a result"
                raise ValueError(f"{text}; remove it, or choose another --out") from None
            whole += len(line)
        self.file.truncate(whole)

    def has(self, name):
        """Return True if the cell of this key is finished and has not failed."""
        return "failure" not in self.records.get(name, {"failure": "not run"})

    def add(self, record):
        """Append a record; the same failure once more is not written again."""
        old = self.records.get(record["key"])
        self.records[record["key"]] = record
        if self.file and not (old and old.get("failure", 0) == record.get("failure")):
            line = json.dumps(record, allow_nan=False)
            self.file.write(line.encode() + b"\n")
            self.file.flush()

"""Data for the solvers: built-in sets, files and generators behind one `load`.

    load("heart")                     a built-in set, by name or alias
    load("vehicle:saab-vs-bus")       two classes of it; bus is the positive one
    load("wine.csv:1-vs-rest")        a file, one class against the rest
    load("linear:10000x20")           a generator: planted linear rule, 10000 rows, 20 columns

Files are CSV and its relatives, LIBSVM text, both plain or gzipped, and .npz with arrays X and y.
`blocks` makes row blocks, for fits on more rows than memory holds: of arrays, a directory, or Dask.
Every bad input raises DataError with one line that says what is wrong, where, and what to do.
"""

import codecs
import csv
import difflib
import functools
import gzip
import hashlib
import os
import re
import shlex
import statistics
import struct
import tempfile
import uuid
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from solvers.rows import RowBlocks

DATA = Path(__file__).with_name("data")


def load(
    name_or_path,
    label=None,
    positive=None,
    schema=None,
    drop=(),
    encoding="utf-8",
    decimal=".",
    delimiter=None,
) -> "Dataset":
    """Load a built-in set, a file or a generated set.

    Parameters
    ----------
    name_or_path : name or alias of a built-in set; `gaussians`, `gaussians:N` or `linear:NxD`; the
        stem of a file in the directory ENSOLVE_DATA; or a path. A suffix `:A-vs-B` keeps only
        these classes (B is positive), `:A-vs-rest` keeps all (A is positive); `A+C` merges.
    label : name or number (from 0; negative from the end) of the label column; a name wins over a
        number. None: the column called label, class, target or y, else the last one.
    positive : the class to become the positive one; of more than two, the others become "rest".
    schema : `schema` of the training set: read this one in just that way. Columns are found by
        name if the header has them, else by position; the label may be absent.
    drop : names or numbers, as of `label`, of columns to leave out. With a schema the columns that
        were dropped in training need not be named again unless the file has no header.
    encoding : how a text file is encoded; a byte order mark of UTF-8 is skipped.
    decimal : the decimal mark in a table, "." or ",".
    delimiter : the character between the cells of a table; a blank stands for any run of blanks
        and tabs. None: tab, semicolon, comma, bar or blank, whichever fits the first lines.
    """
    if schema is not None:
        check_schema(schema)
        if positive is not None:
            raise DataError("load: the schema fixes the positive class; leave out positive")
    drop = [drop] if isinstance(drop, str | int) else [*drop]
    reading = {"encoding": encoding, "decimal": decimal, "delimiter": delimiter}
    _check_reading(**reading)
    base, rule = _split_rule(name_or_path)
    path, name, categorical = _path(base), base, ""
    if path is None:
        generated = _generated(base)
        table = _array_table(base, generated.X, generated.y)
    elif known := _aliases().get(base.lower()):
        name, categorical = known, _index()[known]["categorical_columns"]
        _check_builtin(path, known)
        table = _open(_File(path, delimiter=","), label, schema, drop)
    else:
        name = _stem(path)
        table = _open(_File(path, **reading), label, schema, drop)
    if rule:
        name = f"{name}:{'-vs-'.join(rule)}"
    data = _dataset(table, name, label, positive, schema, drop, rule, categorical)
    dropped = [table.names[j] for j in sorted(table.dropped)]
    return replace(data, reading={"drop": dropped, **reading})


class DataError(ValueError):
    """Data that cannot be used; the message is one line for the user."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table ready for a solver.

    X : float64 (n, d), C-contiguous; NaN where a number is missing.
    y : int64 (n,) codes into `classes`. What is read by a schema may lack labels: None if there is
        none at all, and else -1 where one is missing.
    feature_names : one for each column of X; an indicator column is called column=level.
    classes : of two classes the last one is the positive one.
    notes : what a user should know: guesses, gaps, merged classes.
    schema : JSON-able; for each column of the file, label included, its name, kind (number,
        category or label) and levels; the label's also has members, the labels of each class.
    reading : the options of reading, JSON-able. A new file in the same form is read by
        load(path, schema=data.schema, **data.reading).
    """

    X: np.ndarray
    y: np.ndarray | None
    name: str
    feature_names: list[str]
    classes: list[str]
    notes: list[str]
    schema: list[dict]
    reading: dict = field(default_factory=dict)


# -- names and paths -------------------------------------------------------------------------------

SVM_SUFFIXES = {".svm", ".libsvm", ".svmlight"}
SUFFIXES = {".csv", ".tsv", ".txt", ".data", ".dat", ".npz"} | SVM_SUFFIXES
GAUSSIANS = re.compile(r"gaussians(?::(\d{1,18}))?", re.I)
LINEAR = re.compile(r"linear:(\d{1,18})x(\d{1,18})", re.I)
RULE = re.compile(r"(?P<base>.+):(?P<left>.+)-vs-(?P<right>.+)")


def locate(name_or_path) -> Path | None:
    """Return the file that `load` would read, or directory of `blocks`; None of a generated set."""
    base = _split_rule(name_or_path)[0]
    return Path(base) if is_directory(base) else _path(base)


def is_directory(name_or_path) -> bool:
    """Whether this is a directory, as `blocks` takes one, and no data set of that name."""
    base = os.fsdecode(name_or_path)
    known = base.lower() in _aliases() or base.lower() in _extra_sets()
    return not known and os.path.isdir(base)


def _path(base):
    if name := _aliases().get(base.lower()):
        return DATA / f"{name}.csv.gz"
    if GAUSSIANS.fullmatch(base) or LINEAR.fullmatch(base):
        return None
    path = _extra_sets().get(base.lower(), Path(base))
    try:
        os.stat(path)
    except PermissionError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except (OSError, ValueError):  # It is absent, or its name is too long or none at all.
        near = _nearest(base, [*_aliases(), *_extra_sets(), "gaussians", "linear:NxD"])
        hint = "`python cli.py datasets` lists the sets"
        raise DataError(f"{_cut(base)}: neither a file nor a data set{near}; {hint}") from None
    if not os.path.isfile(path):
        raise DataError(f"{path}: a directory or a pipe; give a file")
    return path


def _split_rule(name_or_path):
    """Return the name without `:A-vs-B`, and (A, B) or None."""
    base = os.fsdecode(name_or_path)
    if not os.path.exists(base) and (match := RULE.fullmatch(base)):
        return match["base"], (match["left"], match["right"])
    return base, None


def names() -> list[dict]:
    """List the built-in sets, then those of ENSOLVE_DATA (name and path only)."""
    sets = [
        {
            "name": name,
            "rows": int(row["rows"]),
            "features": int(row["features"]),
            "classes": {c: int(k) for c, k in (p.rsplit("=", 1) for p in row["classes"].split())},
            "missing": int(row["missing_cells"]),
            "aliases": row["aliases"].split(";") if row["aliases"] else [],
            "papers": row["papers"].split(";"),
        }
        for name, row in _index().items()
    ]
    return sets + [{"name": name, "path": str(path)} for name, path in _extra_sets().items()]


@functools.cache
def _index():
    path = DATA / "INDEX.csv"
    with _reading(path), open(path, encoding="utf-8", newline="") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


@functools.cache
def _aliases():
    """Map every name and alias to its built-in set."""
    words = {name: [name, *row["aliases"].split(";")] for name, row in _index().items()}
    return {word: name for name in words for word in words[name] if word}


def _extra_sets():
    """Map the stems, in lower case, of the data files in ENSOLVE_DATA to their paths."""
    folder = os.environ.get("ENSOLVE_DATA")
    if folder and not os.path.isdir(folder):
        raise DataError(f"ENSOLVE_DATA={folder}: no such directory; correct or unset it")
    with _reading(folder):
        paths = sorted(Path(folder).iterdir()) if folder else []
    return {_stem(path).lower(): path for path in paths if _suffix(path) in SUFFIXES}


def _suffix(path):
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _stem(path):
    return Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem


def _nearest(word, options):
    close = difflib.get_close_matches(word, options, n=3) if len(word) < 100 else []
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _listing(items, limit=12):
    items = list(items)
    more = [f"... ({len(items)} in all)"] if len(items) > limit else []
    return ", ".join([_cut(item) for item in items[:limit]] + more)


def _cut(text, limit=100):
    """Make a text that a message quotes short and of one line."""
    text = re.sub(r"\s+", " ", text)
    return text if len(text) <= limit else f"{text[:limit]}..."


# -- opening files ---------------------------------------------------------------------------------

SVM_LINE = re.compile(r"[^\s:,;]+(\s+qid:\d+)?(\s+\d+:[^\s:]+)+\s*(#.*)?")
# These are the beginnings of files that are often taken for tables.
NOT_TABLES = {
    "JSON": r"\{|\[\s*[\[{\"]|\[$",
    "HTML or XML": r"<[!?a-zA-Z]",
    "ARFF": r"(?i)@relation\b",
}
# A table is dense. Beyond 8 GiB of float64 lies a wrong index or an identifier column.
MAX_CELLS = 2**30
# Each column has a name and a kind; more columns than this are sparse, and do not fit anyway.
MAX_COLUMNS = 2**20


class _File(NamedTuple):
    """A text file and the form that it has."""

    path: Path
    encoding: str = "utf-8"
    decimal: str = "."
    delimiter: str | None = None


@dataclass
class _Table:
    """An opened table. The names of its columns are known; `read` brings in the cells.

    A column is a float array, or a list of texts with gaps as GAP; one that is dropped may be
    empty. `source(text, dropped)` returns the columns, the line of each row, and the array whose
    columns the float arrays are. The columns numbered in the set `text` come as texts. A table is
    `fixed` if its features are numbers by the format, and `label` if any is the only label.
    """

    where: str
    names: list[str]
    source: Callable
    label: int | None = None
    fixed: bool = False
    header: bool = False
    decimal: str = "."
    unit: str = "line"
    notes: list[str] = field(default_factory=list)
    dropped: set[int] = field(default_factory=set)
    columns: list = field(default_factory=list)
    lines: Sequence = ()
    matrix: np.ndarray | None = None

    def read(self, text):
        self.columns, self.lines, self.matrix = self.source(text, self.dropped)

    def keep(self, rows):
        """Leave out all rows but those in the list `rows`."""
        numbers = iter((matrix := self.matrix[rows]).T)
        self.columns = [
            next(numbers) if isinstance(column, np.ndarray) else [column[i] for i in rows if column]
            for column in self.columns
        ]
        self.lines, self.matrix = np.asarray(self.lines)[rows], matrix

    def left(self):
        """Return the numbers of the columns that are not dropped."""
        return [j for j in range(len(self.names)) if j not in self.dropped]

    def error(self, j, problem, row=None):
        place = "" if row is None else f", {self.unit} {self.lines[row]}"
        return DataError(f"{self.where}{place}, column {_cut(self.names[j])!r}: {problem}")


def _check_reading(encoding, decimal, delimiter):
    """Raise DataError unless these options make sense."""
    try:
        "".encode(encoding)
    except (LookupError, TypeError, ValueError):
        known = "one that Python knows, such as utf-8, latin-1, cp1252 or utf-16"
        raise DataError(f"load: --encoding must be {known}, got {encoding!r}") from None
    if decimal not in (".", ","):
        raise DataError(f"load: --decimal must be . or , and got {decimal!r}")
    if delimiter is None:
        return
    if not isinstance(delimiter, str) or not re.fullmatch(r"[^\w\"\r\n\0.+-]|_", delimiter):
        known = "one character that is no part of a number and no quote, such as ; or |"
        raise DataError(f"load: --delimiter must be {known}, got {delimiter!r}")
    if delimiter == decimal:
        raise DataError("load: --decimal , and --delimiter , exclude each other; change one")


def _check_builtin(path, name):
    with _reading(path), gzip.open(path) as file:
        if hashlib.sha256(file.read()).hexdigest() != _index()[name]["sha256_of_csv"]:
            raise DataError(f"{path}: differs from its checksum in INDEX.csv; restore the file")


def _open(file, label, schema, drop):
    """Open a file of any format."""
    path = file.path
    if _suffix(path) == ".npz":
        return _read_npz(path, trained=schema is not None)
    head = [line.strip("\r\n") for line in islice(_lines(file), 50) if line.strip()]
    if not head:
        raise DataError(f"{path}: the file is empty")
    first = next((line.strip() for line in head if not line.startswith("#")), "")
    for kind, beginning in NOT_TABLES.items():
        if re.match(beginning, first):
            hint = "give a table: CSV, TSV, LIBSVM or .npz"
            raise DataError(f"{path}: the file begins as {kind} does; {hint}")
    if _suffix(path) in SVM_SUFFIXES or (file.delimiter is None and SVM_LINE.fullmatch(first)):
        return _read_svm(file, schema, drop)
    if file.delimiter is None:
        file = file._replace(delimiter=_delimiter(head, file.decimal))
    return _read_csv(file, label, schema, drop)


@contextmanager
def _reading(path, encoding="utf-8"):
    """Turn whatever goes wrong with a file into a DataError."""
    hint = "save it as UTF-8 text, or name its encoding, as in --encoding cp1252"
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: truncated or corrupt gzip file ({error})") from None
    except UnicodeDecodeError as error:
        byte = f"byte 0x{error.object[error.start]:02x}"
        raise DataError(f"{path}: {byte} is not {encoding.upper()}; {hint}") from None
    except UnicodeError as error:
        raise DataError(f"{path}: not {encoding.upper()} ({error}); {hint}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


@contextmanager
def _text(file):
    """Open a text file; the line ends stay as they are."""
    opener = gzip.open if file.path.suffix.lower() == ".gz" else open
    encoding = codecs.lookup(file.encoding).name
    encoding = "utf-8-sig" if encoding == "utf-8" else encoding
    with _reading(file.path, file.encoding):
        with opener(file.path, "rt", encoding=encoding, newline="") as stream:
            yield stream


def _lines(file) -> Iterator[str]:
    with _text(file) as stream:
        for line in stream:
            if "\0" in line:
                hint = "save it as UTF-8 text, or give --encoding utf-16"
                raise DataError(f"{file.path}: holds NUL bytes, as UTF-16 does; {hint}")
            yield line


def _check_size(where, n, d, hint="keep fewer rows or columns"):
    """Raise DataError if n rows of d columns would be too large."""
    if d > MAX_COLUMNS or n * d > MAX_CELLS:
        size = f"{d} columns" if d > MAX_COLUMNS else f"{n} x {d} cells"
        raise DataError(f"{where}: {size} are too many for a dense table; {hint}")


# -- tables as text --------------------------------------------------------------------------------

LABEL_NAMES = ("label", "class", "target", "y")
# The first rows of a table decide whether it has a header: so many, or fewer of wide tables.
HEADER_ROWS, HEADER_CELLS = 1000, 1_000_000
# So many cells are converted at once: enough for numpy, and few enough for the memory.
BLOCK = 200_000


def _cells(lines, delimiter, strict=True):
    """Return a csv reader; a blank as delimiter stands for any run of blanks and tabs."""
    if delimiter == " ":
        lines = (line.replace("\t", " ").strip() for line in lines)
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=strict)


def _delimiter(head, decimal):
    """Return the delimiter that cuts most of the first lines into equally many cells."""

    def agreement(delimiter):
        try:
            widths = [len(cells) for cells in _cells(head, delimiter, strict=False)]
        except csv.Error:  # A line without this delimiter may be longer than a cell can be.
            return 0
        usual = statistics.mode(widths)
        return widths.count(usual) if usual > 1 else 0

    return max((mark for mark in "\t;,| " if mark != decimal), key=agreement)


def _rows(file):
    """Yield line number and cells of every row that is not blank; all have the same width."""
    reader, width = _cells(_lines(file), file.delimiter), None
    try:
        for cells in reader:
            if not cells or cells == [""]:
                continue
            width = width or len(cells)
            if len(cells) != width:
                place = f"{file.path}, line {reader.line_num}"
                raise DataError(f"{place}: expected {width} cells, found {len(cells)}")
            _check_size(file.path, 1, width)
            yield reader.line_num, cells
    except csv.Error as error:
        hint = "check the quotes, and whether it is a table"
        raise DataError(f"{file.path}, line {reader.line_num}: {error}; {hint}") from None


def _read_csv(file, label, schema, drop):
    path, head = file.path, []
    for _, cells in _rows(file):
        head.append([cell.strip() for cell in cells])
        if len(head) == HEADER_ROWS or len(head) * len(cells) >= HEADER_CELLS:
            break
    if not head:
        raise DataError(f"{path}: the file has no cell that is not empty")
    trained = {column["name"] for column in schema or () if column["kind"] != "label"}
    known = {*(trained or LABEL_NAMES), *map(str, drop)}
    known |= set() if label is None else {str(label)}
    header = _has_header(head, known, trained, file.decimal)
    columns = [f"x{j}" for j in range(len(head[0]))]
    if header:
        columns = [name or default for name, default in zip(head[0], columns, strict=True)]
        if len(set(columns)) < len(columns):
            raise DataError(f"{path}: two columns are called {statistics.mode(columns)!r}")
    source = functools.partial(_parse, file, header, len(columns))
    table = _Table(str(path), columns, source, header=header, decimal=file.decimal)
    if not header:
        table.notes.append("no header found: the columns are called x0, x1, ...")
    return table


def _has_header(rows, known, trained, decimal="."):
    """Return whether the first row is a header; `trained` are the features of the schema, if any.

    It is one when
    (a) it holds all feature names of the schema; or
    (b) all its cells differ, and one of its texts is a name we look for and is not found again
        below: the label asked for, a column to drop, a feature of the schema, or, without a
        schema, label, class, target or y; or
    (c) it holds no number, and below one of its texts stand only numbers; or
    (d) it holds no number, all its cells differ and none occurs again in its own column (not with
        a schema: its names are known).
    """
    first = rows[0]
    if trained and trained <= set(first):
        return True
    below = list(zip(*rows[1:], strict=True)) or [()] * len(first)
    given = [pair for pair in zip(first, below, strict=True) if pair[0] not in MISSING]
    texts = [(cell, column) for cell, column in given if _number(cell, decimal) is None]
    fresh = [cell for cell, column in texts if cell not in column]
    distinct = len(set(first)) == len(first)
    if distinct and not known.isdisjoint([*fresh, *map(str.lower, fresh)]):
        return True
    if len(rows) == 1 or len(texts) < len(given):
        return False
    if distinct and len(fresh) == len(first) and not trained:
        return True
    values = [_floats(column, decimal) for _, column in texts]
    return any(column is not None and not np.isnan(column).all() for column in values)


class _Block(NamedTuple):
    """Some rows of a table.

    lines : (n,) the line of each row.
    texts : {column: list of texts}
    numeric, values : the other columns, unless dropped, and their numbers, (n, columns).
    odd : those numeric columns that are none: a cell is no number.
    """

    lines: np.ndarray
    texts: dict[int, list]
    numeric: list[int]
    values: np.ndarray
    odd: set[int]


def _parse(file, header, width, text, dropped):
    """Read all rows; start again when a further column turns out to be text."""
    try:
        blocks = _until_odd(_plain_blocks(file, header, width, text, dropped))
    except ValueError:
        blocks = _until_odd(_careful_blocks(file, header, width, text, dropped))
    if not blocks:
        return [], (), None
    if blocks[-1].odd:
        return _parse(file, header, width, text | blocks[-1].odd, dropped)
    lines, values = (np.concatenate([block[k] for block in blocks]) for k in (0, 3))
    columns = [[]] * width
    for j in text:
        columns[j] = [*chain(*(block.texts[j] for block in blocks))]
    for j, column in zip(blocks[0].numeric, values.T, strict=True):
        columns[j] = column
    return columns, lines, values


def _until_odd(blocks):
    """List the blocks up to the first with an odd column."""
    found = []
    for block in blocks:
        found.append(block)
        if block.odd:
            break
    return found


def _careful_blocks(file, header, width, text, dropped):
    """Yield the rows in blocks, read by the csv module."""
    numeric = [j for j in range(width) if j not in text | dropped]
    rows = islice(_rows(file), int(header), None)
    while block := list(islice(rows, max(1, BLOCK // width))):
        lines, cells = zip(*block, strict=True)
        columns = list(zip(*cells, strict=True))
        texts = {j: _texts(columns[j]) for j in text}
        floats = {j: _floats(columns[j], file.decimal) for j in numeric}
        odd = {j for j, column in floats.items() if column is None}
        values = np.empty((len(lines), 0 if odd else len(numeric)))
        for k, j in enumerate(numeric if not odd else ()):
            values[:, k] = floats[j]
        yield _Block(np.array(lines), texts, numeric, values, odd)


# -- LIBSVM text and arrays ------------------------------------------------------------------------

SVM_HINT = "drop rare features, and number the others from 1 on without gaps"


def _read_svm(file, schema, drop):
    """Read LIBSVM text, `label index:value ...`, into a dense table."""
    try:
        labels, lines, sizes, indices, values = _plain_svm(file)
    except ValueError:
        labels, lines, sizes, indices, values = _careful_svm(file)
    first, d = _svm_columns(file.path, indices, schema, drop)
    n = len(labels)
    _check_size(file.path, n, d, SVM_HINT)
    X = np.zeros((n, d))
    X[np.repeat(np.arange(n), sizes), np.array(indices, dtype=int) - first] = values
    columns = [_texts(labels), *X.T]
    names = ["label", *(f"x{j}" for j in range(first, first + d))]
    table = _Table(str(file.path), names, lambda *_: (columns, lines, X), label=0, fixed=True)
    table.header = _is_svm(schema)
    if first == 0:
        table.notes.append("feature indices are counted from 0: the columns are x0, x1, ...")
    return table


def _careful_svm(file):
    """Return labels, line numbers and sizes of the rows, and indices and values of all cells."""
    labels, lines, sizes = [], array("q"), array("q")
    indices, values = array("q"), array("d")
    for number, line in enumerate(_lines(file), 1):
        cells = line.partition("#")[0].split()
        if not cells:
            continue
        place = f"{file.path}, line {number}"
        if ":" in cells[0]:
            raise DataError(f"{place}: {cells[0]!r} where the label belongs; write 0 if unknown")
        if len(cells) > 1 and cells[1].startswith("qid:"):
            raise DataError(f"{place}: qid marks ranking data; only classification is supported")
        row = {}
        for cell in cells[1:]:
            index, _, value = cell.partition(":")
            try:
                j, x = int(index), float(value)
            except ValueError:
                j = -1
            if j < 0 or j in row or "_" in cell:  # Python reads 1_0 as 10.
                wrong = f"{_cut(cell)!r} is not index:value with a new index from 0 or 1 on"
                raise DataError(f"{place}: {wrong}")
            if j > MAX_COLUMNS:
                _check_size(place, 1, j, SVM_HINT)
            row[j] = x
        labels.append(cells[0])
        lines.append(number)
        sizes.append(len(row))
        indices.extend(row)
        values.extend(row.values())
    return labels, lines, sizes, indices, values


def _is_svm(schema):
    """Return whether a schema, if any, is of LIBSVM text: a label first, and numbered features."""
    if schema is None or schema[0]["kind"] != "label":
        return False
    return all(re.fullmatch(r"x\d{1,9}", column["name"]) for column in schema[1:])


def _svm_columns(path, indices, schema, drop):
    """Return the first index, 0 or 1, and the number of columns.

    Without a schema an index 0 tells that a file counts from 0. With one of LIBSVM text, the names
    of its columns and of those dropped again are the indices; any other is matched by position.
    """
    smallest, largest = min(indices, default=1), max(indices, default=0)
    first = min(smallest, 1)
    if schema is None:
        return first, largest + 1 - first
    width = len(schema) - 1 + len(drop)
    if _is_svm(schema):
        names = [*(column["name"] for column in schema[1:]), *map(str, drop)]
        known = [int(name[1:]) for name in names if re.fullmatch(r"x\d{1,9}", name)]
        first = min(*known, 1)
        width = max(known) + 1 - first
        if smallest < first:
            hint = "the training set counts from 1"
            raise DataError(f"{path}: feature index {smallest}, and {hint}")
    if largest >= first + width:
        raise DataError(f"{path}: feature index {largest}, the training set has {width} columns")
    return first, width


def _read_npz(path, trained):
    """Read the arrays X (n, d) and y (n,) of an .npz file; with a schema y may be absent."""
    with _unpacking(path):
        with zipfile.ZipFile(path) as archive:
            size = sum(part.file_size for part in archive.infolist())
        if size > 16 * MAX_CELLS:  # A float has 8 bytes; labels and others may have as many again.
            raise DataError(f"{path}: {size} bytes when unpacked, too many; keep fewer rows")
        with np.load(path, allow_pickle=False) as archive:
            X, y = (archive[key] if key in archive.files else None for key in ("X", "y"))
    if X is None or (y is None and not trained):
        raise DataError(f"{path}: needs two arrays called X and y")
    X, y = np.asarray(X), None if y is None else np.asarray(y)
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise DataError(f"{path}: X must be a table of numbers, got {X.dtype} {X.shape}")
    if y is not None and (y.shape != X.shape[:1] or y.dtype.kind not in "biufU"):
        raise DataError(f"{path}: y must be {len(X)} labels, one per row, got {y.dtype} {y.shape}")
    return _array_table(str(path), X, y)


@contextmanager
def _unpacking(path):
    """Turn whatever goes wrong with an .npz file into a DataError."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # zipfile and numpy raise a dozen kinds on damaged archives.
        cause = " ".join(str(error).split())
        hint = "write it with numpy.savez(path, X=X, y=y)"
        raise DataError(f"{path}: not an .npz file of plain arrays ({cause}); {hint}") from None


def _array_table(where, X, y):
    _check_size(where, *X.shape)
    X = np.ascontiguousarray(X, dtype=float)
    columns, names = [*X.T], [f"x{j}" for j in range(X.shape[1])]
    table = _Table(where, names, lambda *_: (columns, range(len(X)), X), fixed=True, unit="row")
    if y is not None:
        table.label = len(columns)
        columns.append(_texts(y.astype(str).tolist()))
        names.append("label")
    return table


# -- plain text, read quickly ----------------------------------------------------------------------
#
# Most large files are plain: they have no quotes, and as many cells in each line. One compiled loop
# cuts them and reads the numbers. It knows which of these are certain to be what Python's float
# gives; the few others go to it. What follows either gives just what the careful readers above
# give, or it raises a ValueError, and then these read the file.

# Smaller files are read before the loop is compiled, or brought in from its cache.
QUICK = 2**21
# So many characters are read at once.
CHUNK = 2**18
MINUS, PLUS, COLON, BLANK, NEWLINE = b"-+: \n"
# These powers of ten are doubles, and so are the integers up to EXACT.
TENS = np.array([float(10**k) for k in range(23)])
EXACT = 2**53


class _NotPlain(ValueError):
    """The file needs one of the careful readers."""


class _Cells(NamedTuple):
    """A text that is cut into cells.

    raw : the text in UTF-8.
    starts, stops : (c,) where each cell lies in it.
    ends : (c,) the byte that ends it, which stands at its stop.
    values, sure : (c,) its number, and whether this is certain; 2: it has nothing but digits.
    """

    raw: bytes
    starts: np.ndarray
    stops: np.ndarray
    ends: np.ndarray
    values: np.ndarray
    sure: np.ndarray

    def texts(self, which):
        """Return the texts of the cells `which`."""
        starts, stops = self.starts[which], self.stops[which]
        firsts, copies = np.arange(len(starts)), None
        if (lengths := stops - starts).max(initial=0) <= 8:
            # Short texts are integers, and of these there are often but a few.
            words = np.ndarray(len(self.raw), "<u8", self.raw + bytes(8), strides=(1,))
            short = words[starts] << (64 - 8 * lengths).astype(np.uint64)
            _, firsts, copies = np.unique(short, return_index=True, return_inverse=True)
        places = zip(starts[firsts].tolist(), stops[firsts].tolist(), strict=True)
        texts = [self.raw[start:stop].decode() for start, stop in places]
        return texts if copies is None else [texts[k] for k in copies.tolist()]


def _tokens(raw, is_end, point, stops, values, sure):
    """Cut bytes after every one that `is_end`, as the last one is, and read each cell as a number.

    A cell may have a sign, digits, a decimal point and an exponent. Overwrites stops, values and
    sure, (c,), where c is the number of cells.
    """
    i = 0
    for k in range(len(stops)):
        start = i
        negative = raw[i] == MINUS
        if negative or raw[i] == PLUS:
            i += 1
        first, number = i, 0
        while 48 <= raw[i] <= 57:
            number = 10 * number + (int(raw[i]) - 48)
            i += 1
        digits, power = i - first, 0
        if raw[i] == point:
            i += 1
            whole = i
            while 48 <= raw[i] <= 57:
                number = 10 * number + (int(raw[i]) - 48)
                i += 1
            power = whole - i
            digits -= power
        good, bare = digits > 0, digits == i - start
        # Leading zeros do not count. A number of 18 digits, or of 19 up to 8999..., is below 2^63.
        while digits > 18 and (raw[first] == 48 or raw[first] == point):
            digits -= raw[first] == 48
            first += 1
        good = good and (digits < 19 or (digits == 19 and raw[first] < 57))
        if raw[i] | 32 == 101:  # An e or E begins an exponent.
            down = raw[i + 1] == MINUS
            i += 2 if down or raw[i + 1] == PLUS else 1
            good = good and not is_end[raw[i]]
            shift = 0
            while 48 <= raw[i] <= 57:
                shift = min(10 * shift + (int(raw[i]) - 48), 1000)
                i += 1
            power += -shift if down else shift
            bare = False
        good = good and is_end[raw[i]] and -22 <= power <= 22
        while not is_end[raw[i]]:
            i += 1
        stops[k], values[k], sure[k] = i, 0.0, (2 if bare else 1) if good else 0
        i += 1
        if not good:
            continue

        # One operation on two doubles rounds once.
        near, ten = float(number), TENS[abs(power)]
        value = near * ten if power > 0 else near / ten
        if number > EXACT:
            # The number is `near` and a small rest, and its quotient is `value` and a small one:
            # value * ten = product + error, exactly, after Dekker. The quotient is certain unless
            # a small error of its rest could change it.
            product, high, ten_high = value * ten, 134217729.0 * value, 134217729.0 * ten
            high -= high - value
            ten_high -= ten_high - ten
            low, ten_low = value - high, ten - ten_high
            error = low * ten_low - (product - high * ten_high - low * ten_high - high * ten_low)
            small = (near - product - error + float(number - int(near))) / ten
            least, most = value + small * (1 - 2.0**-40), value + small * (1 + 2.0**-40)
            value = least
            if least != most or power > 0:
                sure[k] = 0
        values[k] = -value if negative else value


@functools.cache
def _compiled():
    """Return `_tokens`, compiled."""
    import numba

    try:
        return numba.njit(cache=True)(_tokens)
    except RuntimeError:  # There is no folder for the cache.
        return numba.njit(_tokens)


def _chunks(file):
    """Yield (number of its first line, text) for parts of whole lines that end in newlines."""
    if os.path.getsize(file.path) < QUICK:
        raise _NotPlain
    line = 1
    with _text(file) as stream:
        while text := stream.read(CHUNK):
            text += stream.readline()
            if "\r" in text:
                text = text.replace("\r\n", "\n")
            if '"' in text or "\r" in text or "\0" in text:
                raise _NotPlain
            if rows := text.rstrip("\n"):
                yield line, rows + "\n"
            line += text.count("\n")


def _single_blanks(text):
    """Make one blank of every run of blanks and tabs, and none of those around a line."""
    text = text.replace("\t", " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text.replace(" \n", "\n").replace("\n ", "\n").removeprefix(" ")


def _cut_up(text, enders, decimal="."):
    """Cut a text after every character of `enders`."""
    raw, is_end = text.encode(), np.zeros(256, bool)
    is_end[[*enders.encode()]] = True
    characters = np.frombuffer(raw, np.uint8)
    count = sum(np.count_nonzero(characters == ord(ender)) for ender in enders)
    stops, values, sure = np.empty(count, int), np.empty(count), np.empty(count, np.int8)
    _compiled()(characters, is_end, ord(decimal), stops, values, sure)
    starts = np.append(0, stops[:-1] + 1)
    return _Cells(raw, starts, stops, characters[stops], values, sure)


def _plain_blocks(file, header, width, text, dropped):
    """Yield the rows in blocks, as _careful_blocks does."""
    if width == 1 or not file.delimiter.isascii():
        raise _NotPlain
    numeric = [j for j in range(width) if j not in text | dropped]
    skip = int(header)
    for line, rows in _chunks(file):
        if file.delimiter == " ":
            rows = _single_blanks(rows)
            if re.search(r"[^\S \n]", rows):  # Other white space is cut off around a line, too.
                raise _NotPlain
        while " " in rows and (spaced := file.delimiter + " ") in rows:
            rows = rows.replace(spaced, file.delimiter)
        cells = _cut_up(rows, f"{file.delimiter}\n", file.decimal)
        breaks = np.flatnonzero(cells.ends == NEWLINE) + 1
        longest = (cells.stops - cells.starts).max()
        if (np.diff(breaks, prepend=0) != width).any() or longest > csv.field_size_limit():
            raise _NotPlain
        grid = np.arange(len(cells.ends)).reshape(-1, width)[skip:]
        texts = {j: _texts(cells.texts(grid[:, j])) for j in text}
        values, sure = (part.reshape(-1, width)[skip:].take(numeric, axis=1) for part in cells[4:])
        odd = set()
        for k in np.flatnonzero((sure == 0).any(axis=0)):
            rest = np.flatnonzero(sure[:, k] == 0)
            others = _floats(cells.texts(grid[rest, numeric[k]]), file.decimal)
            if others is None:
                odd.add(numeric[k])
            else:
                values[rest, k] = others
        yield _Block(np.arange(len(grid)) + line + skip, texts, numeric, values, odd)
        skip = 0


def _plain_svm(file):
    """Return what _careful_svm does."""
    parts = []
    for line, rows in _chunks(file):
        cells = _cut_up(_single_blanks(rows), " :\n")
        before = np.append(NEWLINE, cells.ends[:-1])
        # A cell after a newline is a label, one before a colon an index, one after it a value.
        is_index, is_value = cells.ends == COLON, before == COLON
        starts = np.flatnonzero(before == NEWLINE)
        labels = cells.texts(starts)
        if "#" in rows or (is_index != (before == BLANK)).any() or not _solid(labels):
            raise _NotPlain
        sizes = np.diff(starts, append=len(before)) // 2
        indices = cells.values[is_index].astype(int)
        rises = np.diff(indices, prepend=-1) > 0
        rises[(np.cumsum(sizes) - sizes)[sizes > 0]] = True
        if not (rises & (cells.sure[is_index] == 2) & (indices <= MAX_COLUMNS)).all():
            raise _NotPlain
        values, rest = cells.values[is_value], np.flatnonzero(is_value & (cells.sure == 0))
        others = cells.texts(rest)
        if not _solid(others) or "_" in "".join(others):
            raise _NotPlain
        values[cells.sure[is_value] == 0] = [float(text) for text in others]
        parts.append((labels, np.arange(line, line + len(labels)), sizes, indices, values))
    labels, *arrays = zip(*parts, strict=True)
    return [*chain(*labels)], *map(np.concatenate, arrays)


def _solid(texts):
    """Return whether every text is one word: not empty, and with no kind of blank inside."""
    return all(text.split() == [text] for text in set(texts))


# -- numbers in texts ------------------------------------------------------------------------------

MISSING = {"", "?", "NA", "N/A", "NaN", "nan", "null"}
# Every missing text cell becomes this.
GAP = "?"
# With a decimal comma, point and comma change places before a text is read as a number.
SWAPPED = str.maketrans(",.", ".,")


def _number(text, decimal="."):
    """Return the value of a text, None if it is no number."""
    text = text.translate(SWAPPED) if decimal == "," else text
    try:
        return None if "_" in text or text in MISSING else float(text)
    except ValueError:
        return None


def _floats(cells, decimal="."):
    """Convert texts to a float array, gaps to NaN; None if one of them is no number."""
    if decimal == ",":
        cells = [cell.translate(SWAPPED) for cell in cells]
    if "_" in "".join(cells):  # Python reads 10_19 as 1019; in a table it is a text.
        return None
    try:
        return np.array(cells, dtype=float)
    except ValueError:
        pass
    try:
        stripped = (cell.strip() for cell in cells)  # It knows more kinds of blanks than numpy.
        return np.array(["nan" if cell in MISSING else cell for cell in stripped], dtype=float)
    except ValueError:
        return None


def _texts(cells):
    """Strip all texts, and make every gap a GAP."""
    clean = {raw: GAP if (cell := raw.strip()) in MISSING else cell for raw in set(cells)}
    return [clean[raw] for raw in cells]


def _shortest(text, decimal="."):
    """Write a number in its shortest form; leave other texts alone."""
    value = _number(text, decimal)
    return text if value is None else repr(value + 0.0).removesuffix(".0")


def _ordered(texts):
    """Sort by value if all are numbers (- and + count as such), else by alphabet."""
    values = {text: {"-": -1.0, "+": 1.0}.get(text, _number(text)) for text in texts}
    return sorted(sorted(texts), key=None if None in values.values() else values.get)


# -- from table to data set ------------------------------------------------------------------------

# From this share of numbers on, a column is numeric, and its odd cell an error.
NUMERIC_SHARE = 0.9
# A text column may always have this many levels.
MAX_LEVELS = 50
# Numbers from here on are refused, as the methods do: their squares overflow.
BOUND = 1e150
# In fewer rows than these, distinct whole numbers are no sign of an identifier.
IDENTIFIER_ROWS = 20


def _dataset(
    table,
    name,
    label=None,
    positive=None,
    schema=None,
    drop=(),
    rule=None,
    categorical="",
    labels=None,
):
    """Choose the columns, describe them unless a schema does, encode features and labels.

    A list `labels` means that the table is a part of the training set, which may lack classes: y
    are codes into this list, to which labels are added that it lacks.
    """
    trained = schema is not None
    found = [_find(table, column, optional=trained) for column in drop]
    table.dropped = {j for j in found if j is not None}
    if trained:
        features, target = _match(table, label, schema)
        kinds = [column for column in schema if column["kind"] != "label"]
        text = {j for j, kind in zip(features, kinds, strict=True) if kind["kind"] == "category"}
    else:
        target = _label_column(table, label)
        features = [j for j in table.left() if j != target]
        coded = table.names if categorical == "*" else categorical.split(";")
        text = {j for j in features if table.names[j] in coded}
    if not features:
        raise DataError(f"{table.where}: no feature columns; a table needs features and a label")
    if labels is not None and target is None:
        raise DataError(f"{table.where}: has no labels, as the first part has; add their column")
    table.read(text if target is None else text | {target})
    if len(table.lines) < (1 if trained else 2):
        raise DataError(f"{table.where}: rows of data: {len(table.lines)}, too few to use")
    if not trained or labels is not None:
        _leave_out_unlabelled(table, target)
    if not trained:
        kinds = [_describe(table, j, j in text) for j in features]
        place = sum(j < target for j in features)
        own = {"name": table.names[target], "kind": "label", "levels": [], "members": []}
        own = own if labels is not None else _describe_label(table, target, rule, positive)
        schema = [*kinds[:place], own, *kinds[place:]]
    known = next(column for column in schema if column["kind"] == "label")
    X, feature_names = _encode(table, features, kinds, strict=labels is not None)
    if labels is not None:
        y = _collect(table.columns[target], labels)
    else:
        y = None if target is None else _code(table, target, known, rule)
    if y is not None and (others := y == OTHER).any():
        table.notes.append(f"rows of other classes left out: {others.sum()}")
        X, y = X[~others], y[~others]
    gaps = np.isnan(X).sum(axis=0)
    if gaps.any():
        places = [f"{feature_names[k]} ({gaps[k]})" for k in np.flatnonzero(gaps)]
        table.notes.append(f"numbers missing: {gaps.sum()}, in {_listing(places)}")
    if not trained:
        table.notes += _identifiers(X, feature_names)
    return Dataset(X, y, name, feature_names, known["levels"], table.notes, schema)


def _label_column(table, label):
    left = table.left()
    if label is not None or table.label is not None:
        return _find_label(table, table.names[table.label] if label is None else label)
    lower = {table.names[j].lower(): j for j in reversed(left)}
    for name in LABEL_NAMES:
        if name in lower:
            return lower[name]
    if not left:
        raise DataError(f"{table.where}: all columns are dropped; keep the label and a feature")
    table.notes.append(f"label: the last column, {table.names[left[-1]]!r}")
    return left[-1]


def _find(table, column, optional=False):
    """Return the number of a column that is given by name or number; None if it may be absent."""
    column, width = str(column), len(table.names)
    if column in table.names:
        return table.names.index(column)
    if re.fullmatch(r"-?\d{1,9}", column) and -width <= int(column) < width:
        return int(column) % width
    if optional:
        return None
    hint = f"{_nearest(column, table.names)}; the columns are {_listing(table.names)}"
    raise DataError(f"{table.where}: no column {_cut(column)!r}{hint}")


def _find_label(table, label):
    found = _find(table, label)
    if table.fixed and table.label != found:
        raise DataError(f"{table.where}: this format fixes the label column; leave out label")
    if found in table.dropped:
        raise table.error(found, "is the label; it cannot be dropped")
    return found


def _match(table, label, schema):
    """Find the columns of a schema: its features in order, and its label or None."""
    names = [column["name"] for column in schema]
    numbers = [int(name[1:]) for name in names if re.fullmatch(r"x\d{1,9}", name)]
    place = next(j for j, column in enumerate(schema) if column["kind"] == "label")
    label_name = names.pop(place)
    left = table.left()
    target = table.label if table.label in left else None
    target = target if label is None else _find_label(table, label)
    at = {table.names[j]: j for j in left}
    if table.header and not at.keys().isdisjoint(names):
        if lacking := [name for name in names if name not in at]:
            raise DataError(f"{table.where}: lacks columns used in training: {_listing(lacking)}")
        target = at.get(label_name) if target is None else target
        features = [at[name] for name in names]
        if target in features:
            raise table.error(target, "is a feature in the training set; it cannot be the label")
        if extra := set(left) - {target, *features}:
            listing = _listing(table.names[j] for j in sorted(extra))
            table.notes.append(f"columns not used in training: {listing}; ignored")
        return features, target
    if table.header:
        table.notes.append("no column name of the training set occurs: matched by position")
    elif len(numbers) == len(schema) <= max(numbers) and not table.dropped:
        hint = "give --drop again, or a file with a header"
        raise DataError(f"{table.where}: columns were dropped in training and none here; {hint}")
    if target is None and not table.fixed and len(left) == len(schema):
        target = left[place]
    features = [j for j in left if j != target]
    if len(features) != len(names):
        counts = f"{len(features)} feature columns, the training set has {len(names)}"
        raise DataError(f"{table.where}: {counts}")
    return features, target


def _leave_out_unlabelled(table, target):
    """Leave out the rows without a label."""
    column = table.columns[target]
    if missing := column.count(GAP):
        rows = [row for row, text in enumerate(column) if text != GAP]
        if not rows:
            raise table.error(target, "all labels are missing; choose another label column")
        table.keep(rows)
        table.notes.append(f"{_rows_without_label(missing)} left out")


def _rows_without_label(count):
    return f"{count} rows without a label are" if count > 1 else "1 row without a label is"


def _describe(table, j, category):
    """Return the schema of a feature column; `category` keeps number codes as categories.

    If all cells are numbers, the column is numeric, and gaps stay NaN. Otherwise it becomes one
    indicator column for each level, and a gap is a level called "?". A column with a share of
    NUMERIC_SHARE numbers is taken for a numeric one with a typing error.
    """
    column, name = table.columns[j], table.names[j]
    if isinstance(column, np.ndarray) and (column[0] == column[0] or not np.isnan(column).all()):
        return {"name": name, "kind": "number", "levels": []}
    levels = set() if isinstance(column, np.ndarray) else set(column) - {GAP}
    if not levels:
        raise table.error(j, f"all cells are missing; {_drop_hint(name)}")
    if not category:
        _check_typing(table, j, {text for text in levels if _number(text, table.decimal) is None})
    if len(levels) > max(MAX_LEVELS, len(column) / 2):
        counts = f"{len(levels)} texts in {len(column)} rows"
        raise table.error(j, f"{counts} look like an identifier; {_drop_hint(name)}")
    gap = [GAP] if GAP in column else []
    return {"name": name, "kind": "category", "levels": _ordered(levels) + gap}


def _check_typing(table, j, odd):
    """Raise DataError if the texts `odd`, which are no numbers, look like mistyped ones."""
    column = table.columns[j]
    row = next(row for row, text in enumerate(column) if text in odd)
    other, advice = ",", "has a decimal comma; write a point, or give --decimal ,"
    if table.decimal == ",":
        other, advice = ".", "has a decimal point; write a comma, or leave out --decimal ,"
    if all(_number(text, other) is not None for text in odd):
        raise table.error(j, f"{_cut(column[row])!r} {advice}", row)
    given = len(column) - column.count(GAP)
    if given - sum(text in odd for text in column) >= NUMERIC_SHARE * given:
        raise table.error(j, f"{_cut(column[row])!r} is not a number; correct it or write ?", row)


def _encode(table, features, kinds, strict=False):
    """Return X and its column names: a column per number, an indicator per level of a category.

    A level that is not among these gets no indicator, or, if strict, is an error.
    """
    n, sizes = len(table.lines), [len(kind["levels"]) or 1 for kind in kinds]
    widest, hint = max(zip(sizes, features, strict=True)), {}
    if widest[0] > 1:
        name = _cut(table.names[widest[1]])
        hint["hint"] = f"drop the column {name!r}, which has {widest[0]} levels, or merge these"
    _check_size(table.where, n, sum(sizes), **hint)
    numeric = [j for j, column in enumerate(table.columns) if isinstance(column, np.ndarray)]
    given = features == numeric
    X = table.matrix if given else np.zeros((n, sum(sizes)))
    names, unseen = [], 0
    for j, kind in zip(features, kinds, strict=True):
        column, k = table.columns[j], len(names)
        if kind["kind"] == "number":
            if not given:
                X[:, k] = _numbers(table, j)
            names.append(kind["name"])
        elif isinstance(column, np.ndarray):
            raise table.error(j, "holds categories in the training set; give a CSV file")
        else:
            position = {level: i for i, level in enumerate(kind["levels"], k)}
            at = np.array([position.get(text, -1) for text in column])
            X[at >= 0, at[at >= 0]] = 1.0
            if strict and (at < 0).any():
                wrong = f"{_cut(column[row := int(at.argmin())])!r} is not in the first part"
                known = f"which has {_listing(kind['levels'])}; all levels must occur there"
                raise table.error(j, f"{wrong}, {known}", row)
            unseen += (at < 0).sum()
            names += [f"{kind['name']}={level}" for level in kind["levels"]]
    if (large := (X >= BOUND) | (X <= -BOUND)).any():
        k = int(large.any(axis=0).argmax())
        j, row = int(np.repeat(features, sizes)[k]), int(large[:, k].argmax())
        wrong = f"{X[row, k]:g} is not a finite number below {BOUND:g}; correct it or write ?"
        raise table.error(j, wrong, row)
    if unseen:
        table.notes.append(f"categories not seen in training: {unseen} cells; no indicator is set")
    if levels := [len(kind["levels"]) for kind in kinds if kind["levels"]]:
        table.notes.append(
            f"categorical columns: {len(levels)}, as {sum(levels)} indicator columns"
        )
    return X, names


def _numbers(table, j):
    """Return a column that has to hold numbers or gaps."""
    column = table.columns[j]
    if not isinstance(column, np.ndarray):
        odd = (text != GAP and _number(text, table.decimal) is None for text in column)
        row = next(row for row, wrong in enumerate(odd) if wrong)
        raise table.error(j, f"{_cut(column[row])!r} is not a number", row)
    return column


def _identifiers(X, names):
    """Return a list with a note on the columns that look like identifiers, empty if none does."""
    if len(X) < IDENTIFIER_ROWS:
        return []
    # The first rows sort out nearly all columns.
    head = np.sort(X[:1000], axis=0)
    likely = (head == np.floor(head)).all(axis=0) & (np.diff(head, axis=0) > 0).all(axis=0)
    found = []
    for k in np.flatnonzero(likely):
        column = np.sort(X[:, k])
        if (column == np.floor(column)).all() and (np.diff(column) > 0).all():
            found.append(names[k])
    why = "(all values are distinct whole numbers)"
    if len(found) > 1:
        return [f"columns {_listing(found)} look like identifiers {why}; --drop leaves them out"]
    return [
        f"column {_cut(name)!r} looks like an identifier {why}; {_drop_hint(name)}"
        for name in found
    ]


def _drop_hint(name):
    return f"--drop {shlex.quote(_cut(name))} leaves it out"


def check_schema(schema):
    """Return classes and number of features; DataError unless `load` could have returned it."""

    def texts(values):
        return isinstance(values, list) and all(isinstance(value, str) for value in values)

    def good(column):
        levels, members = column["levels"], column.get("members", [])
        least = {"number": 0, "category": 1, "label": 2}[column["kind"]]
        groups = len(levels) if column["kind"] == "label" else 0
        return (
            isinstance(column["name"], str)
            and texts(levels)
            and len(set(levels)) == len(levels) >= least
            and (least or not levels)
            and isinstance(members, list)
            and len(members) == groups
            and all(texts(part) and part for part in members)
        )

    try:
        whole = isinstance(schema, list) and all(good(column) for column in schema)
        whole = whole and len({column["name"] for column in schema}) == len(schema) > 1
        whole = whole and [column["kind"] for column in schema].count("label") == 1
    except (AttributeError, KeyError, TypeError):  # A part is absent or of another kind.
        whole = False
    if not whole:
        raise DataError("load: the schema is damaged; give the `schema` of a loaded set")
    (classes,) = (column["levels"] for column in schema if column["kind"] == "label")
    return classes, sum(len(column["levels"]) or 1 for column in schema) - len(classes)


# -- classes ---------------------------------------------------------------------------------------

MAX_CLASSES = 100
# More distinct numbers than these that are not all whole are a regression target.
MAX_REAL_CLASSES = 20
# These codes stand for a row without a label, and for a row that a rule leaves out.
UNLABELLED, OTHER = -1, -2


def _describe_label(table, j, rule, positive):
    """Return the schema of the label column: the classes and the labels that belong to each.

    The classes are ordered by value if all are numbers, which are written in shortest form (+1 and
    1.0 are "1"), else by alphabet; "-" stands before "+".
    """
    labels = set(table.columns[j])
    if all(_number(text, table.decimal) is not None for text in labels):
        labels = {_shortest(text, table.decimal) for text in labels}
    groups = _regroup(table.where, {name: [name] for name in _ordered(labels)}, rule)
    if positive is not None:
        groups = _regroup(table.where, groups, (str(positive), "rest"))

    if trouble := _trouble(groups):
        raise table.error(j, trouble)
    for name, members in groups.items():
        if len(members) > 1:
            table.notes.append(f"classes merged into {name!r}: {_listing(members)}")
    members = list(groups.values())
    return {"name": table.names[j], "kind": "label", "levels": list(groups), "members": members}


def _trouble(groups):
    """Say why these cannot be the classes; None if they can."""
    values = [_number(name) for name in groups]
    real = None not in values and not all(value.is_integer() for value in values)
    if len(groups) > (MAX_REAL_CLASSES if real else MAX_CLASSES):
        counts = f"{len(groups)} distinct labels"
        return f"{counts} look like a regression target; choose a class column"
    if len(groups) < 2:
        return f"only one class, {_listing(groups)}; two are needed to learn"
    return None


def _regroup(where, groups, rule):
    """Apply a rule (left, right) to a map from class names to labels; the positive comes last."""
    if rule is None:
        return groups
    left = _classes(where, rule[0], groups)
    if rule[1] == "rest":
        right = [name for name in groups if name not in left]
        sides = [(right[0] if len(right) == 1 else "rest", right), ("+".join(left), left)]
    else:
        right = _classes(where, rule[1], groups)
        sides = [("+".join(left), left), ("+".join(right), right)]
    if not right or set(left) & set(right):
        raise DataError(f"{where}: {'-vs-'.join(rule)} needs different classes on its two sides")
    return {name: list(chain(*(groups[part] for part in side))) for name, side in sides}


def _classes(where, side, groups):
    """Split one side of a rule into class names."""
    found = []
    for text in [side] if side in groups else side.split("+"):
        name = text if text in groups else _shortest(text)
        if name not in groups:
            hint = f"{_nearest(text, groups)}; the classes are {_listing(groups)}"
            raise DataError(f"{where}: no class {text!r}{hint}")
        found.append(name)
    return found


def _code(table, j, known, rule):
    """Return the class codes, UNLABELLED or OTHER; None if no label is a known class."""
    column = table.columns[j]
    groups = zip(known["levels"], known["members"], strict=True)
    codes = {name: k for k, (level, labels) in enumerate(groups) for name in (level, *labels)}
    given = set(column) - {GAP}
    names = {text: text if text in codes else _shortest(text, table.decimal) for text in given}
    chosen = set(chain(*_regroup(table.where, {n: [n] for n in names.values()}, rule).values()))
    unseen = {text for text, name in names.items() if name in chosen and name not in codes}
    if chosen.isdisjoint(codes):
        table.notes.append(
            f"column {_cut(table.names[j])!r} holds no class of the training set; ignored"
        )
        return None
    if unseen:
        row = next(row for row, text in enumerate(column) if text in unseen)
        listing = _listing(known["levels"])
        raise table.error(
            j, f"{_cut(column[row])!r} is no class of the training set: {listing}", row
        )
    if missing := column.count(GAP):
        table.notes.append(f"{_rows_without_label(missing)} kept, and no error counts there")
    code_of = {text: codes[name] if name in chosen else OTHER for text, name in names.items()}
    code_of[GAP] = UNLABELLED
    return np.fromiter(map(code_of.__getitem__, column), np.int64, len(column))


def _collect(column, labels):
    """Return codes of texts into the list `labels`, to which those are added that it lacks."""
    codes = {label: k for k, label in enumerate(labels)}
    for text in dict.fromkeys(column):
        codes.setdefault(text, len(codes))
    labels[:] = codes
    return np.fromiter(map(codes.__getitem__, column), np.int64, len(column))


def class_weights(text, classes) -> dict:
    """Read `name=factor,name=factor` for a method that knows classes by their codes.

    Returns {"class_weight": {code: factor}}, and an empty dict for None or "balanced".
    """
    if text is None or text == "balanced":
        return {}
    factors, rest = {}, ""
    for part in str(text).split(","):
        rest += f",{part}" if rest else part
        name, _, factor = rest.rpartition("=")
        name, value = name if name in classes else _shortest(name), _number(factor)
        if name in classes and value is not None:  # Otherwise the name may have a comma in it.
            factors[classes.index(name)], rest = value, ""
            if not 0 < value < np.inf:
                raise DataError(f"class_weight: {factor} for {name!r}; factors are finite and > 0")
    if rest or not factors:
        known = f"of the classes {_listing(classes)}"
        raise DataError(f"class_weight: {_cut(rest)!r} is not balanced nor name=factor {known}")
    return {"class_weight": factors}


# -- preprocessing and splits ----------------------------------------------------------------------

SCALES = {
    "none": "features as they are",
    "minmax": "features scaled to [-1, 1]",
    "minmax01": "features scaled to [0, 1]",
    "standard": "features standardised",
    "tanh": "tanh of standardised features",
}


class Preprocess:
    """Fill gaps and scale columns, with what was learned from the training rows only.

    A gap becomes the column's median (0 if it has no value at all), or stays where the method knows
    what to do with it (keep_gaps). Then, with min, max, mean and standard deviation of the filled
    column:

        none        x
        minmax      2 (x - min) / (max - min) - 1
        minmax01    (x - min) / (max - min)
        standard    (x - mean) / std
        tanh        tanh((x - mean) / std)

    A column that is constant in the training rows, or spread less than 1e-150, becomes 0 (except
    with none).

    `fit` sets fill_, center_ and spread_, arrays (d,): the scaled value is (x - center_) / spread_,
    or 0 where spread_ is 0; and missing_, the number of gaps in the training rows.
    """

    def __init__(self, scale="none", keep_gaps=False):
        if not isinstance(scale, str) or scale not in SCALES:
            raise DataError(f"Preprocess: scale must be one of {', '.join(SCALES)}, got {scale!r}")
        self.scale, self.keep_gaps = scale, keep_gaps

    def fit(self, X):
        X = np.asarray(X, dtype=float)
        if X.ndim != 2 or len(X) == 0:
            raise DataError(f"Preprocess: X must be a table with rows, got shape {X.shape}")
        gaps = np.isnan(X)
        self.missing_ = int(gaps.sum())
        if self.missing_:
            self.fill_ = np.nanmedian(np.where(gaps.all(axis=0), 0.0, X), axis=0)
            X = np.where(gaps, self.fill_, X)
        else:
            self.fill_ = np.median(X, axis=0)  # the same, and much faster
        if self.keep_gaps:
            self.fill_ = np.full(X.shape[1], np.nan)
        low, high = X.min(axis=0), X.max(axis=0)
        if self.scale == "none":
            self.center_, self.spread_ = np.zeros_like(low), np.ones_like(low)
            return self
        if self.scale == "minmax":
            self.center_, self.spread_ = (low + high) / 2, (high - low) / 2
        elif self.scale == "minmax01":
            self.center_, self.spread_ = low, high - low
        else:
            self.center_, self.spread_ = X.mean(axis=0), X.std(axis=0)
        # Rounding may leave a constant column a tiny std; to divide by 1e-300 would overflow.
        self.spread_[(low == high) | (self.spread_ < 1 / BOUND)] = 0.0
        return self

    def transform(self, X):
        X = np.asarray(X, dtype=float)
        d = len(self.fill_)
        if X.ndim != 2 or X.shape[1] != d:
            raise DataError(f"Preprocess: fitted on {d} columns, got X of shape {X.shape}")
        X = np.where(np.isnan(X), self.fill_, X) - self.center_
        X = np.divide(X, self.spread_, out=np.zeros_like(X), where=self.spread_ > 0)
        return np.tanh(X) if self.scale == "tanh" else X

    def to_dict(self):
        """Return the fitted state as JSON-able values."""
        arrays = {key: getattr(self, key).tolist() for key in ("fill_", "center_", "spread_")}
        return {"scale": self.scale, "missing_": self.missing_, **arrays}

    @classmethod
    def from_dict(cls, state):
        """Return what `to_dict` has written; anything else raises DataError."""
        try:
            prep = cls(state["scale"])
            prep.missing_ = state["missing_"]
            for key in ("fill_", "center_", "spread_"):
                setattr(prep, key, np.array(state[key], dtype=float))
            shapes = {prep.fill_.shape, prep.center_.shape, prep.spread_.shape}
            numbers = np.isfinite([prep.center_, prep.spread_]).all() and (prep.spread_ >= 0).all()
            whole = len(shapes) == 1 and prep.fill_.ndim == 1 and numbers
            whole = whole and isinstance(prep.missing_, int) and prep.missing_ >= 0
            whole = whole and not np.isinf(prep.fill_).any()
        except (
            KeyError,
            OverflowError,
            TypeError,
            ValueError,
        ):  # A part is absent or of another kind.
            whole = False
        if not whole:
            raise DataError("Preprocess: the state is damaged; give what `to_dict` returns")
        return prep


def splits(
    y, *, trials=10, train=0.5, cv=None, seed=0, first=0
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (train_rows, test_rows), sorted, with the shares of the classes kept.

    Split t depends on `seed` and t only, not on the number of trials.

    Parameters
    ----------
    y : (n,) labels
    trials : number of random splits; with `cv`, of repetitions with new folds
    train : share of the rows in (0, 1), or number of rows; every class gets at least one
    cv : number of folds; each is the test set once
    seed : integer >= 0
    first : number of the trial to begin with; those before it cost nothing
    """
    codes, counts = np.unique(y, return_inverse=True, return_counts=True)[1:]
    n = len(codes)
    if trials < 1 or seed < 0:
        raise DataError(f"splits: needs trials >= 1 and seed >= 0, got {trials} and {seed}")
    if cv is not None:
        if not 2 <= cv <= counts.min():
            limits = f"from 2 to {counts.min()}, the size of the smallest class"
            raise DataError(f"splits: cv must be {limits}, got {cv}")
    elif not 0 < train < 1 and (train < 2 or train % 1 != 0):
        raise DataError(f"splits: train must be a share in (0, 1) or a number >= 2, got {train}")
    else:
        size = round(train * n) if train < 1 else int(train)
        if not len(counts) <= size < n:
            limits = f"from {len(counts)}, one per class, to {n - 1}, to leave one for testing"
            raise DataError(f"splits: train={train} means {size} rows; it must be {limits}")

    def draw():
        ranks = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
        # Sainte-Lague: after one row each, the classes take turns in the order of these keys.
        keys = np.where(ranks == 0, -1, (ranks + 0.5) / np.repeat(counts, counts))
        turns = np.argsort(keys, kind="stable")
        for trial in range(first, trials):
            rows = np.random.default_rng([seed, trial]).permutation(n)
            rows = rows[np.argsort(codes[rows], kind="stable")]  # Class after class.
            part = np.empty(n, dtype=int)
            if cv is None:
                part[rows[turns]] = np.arange(n) < size
            else:
                part[rows] = np.arange(n) % cv
            for fold in range(cv or 1):
                yield np.flatnonzero(part != fold), np.flatnonzero(part == fold)

    return draw()


# -- row blocks ------------------------------------------------------------------------------------
#
# A fit on blocks asks for sums over rows only. It calls `map(step, *args)` for what a step returns
# for each block, and `change` where the step changes what a block keeps; a step is a function of a
# module, step(block, *args). Here blocks are in memory or mapped files;
# perf/study/remote.py has those on the workers of Dask.

HIDDEN = (".", "_")  # how the names of files begin that are no parts
NPY_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def blocks(source, y=None, sample_weight=None, client=None, coded=False, **reading):
    """Make row blocks, which `fit` of several methods takes in place of X and y.

    Parameters
    ----------
    source : a list of tuples (X, y) or (X, y, sample_weight) of arrays, which stay in memory; or a
        directory of parts, in the order of their names (part2 before part10): either .npz files
        with arrays X, y and perhaps sample_weight, or CSV, TSV or LIBSVM text, plain or gzipped; or
        a Dask array X, whose chunks of rows are the blocks.
    y, sample_weight : arrays, or Dask arrays, where source is a Dask array; else None.
    client : a distributed.Client: the blocks live on its workers, which read the files themselves,
        by the same paths. None: here, and those of a Dask array on the client that is the default
        one, if there is one.
    coded : whether y of .npz files become codes, as of text; they do with the option positive.
    reading : options of `load` for text: label, positive, drop, encoding, decimal, delimiter.

    Blocks of a directory are out of core: what is float64 in an .npz file without compression is
    mapped where it is; anything else is converted once, part by part, into files without a name in
    the directory for temporary files (TMPDIR), which go with the object. So do arrays that steps
    keep. numpy.savez does not align its arrays: the product of a whole block by NumPy copies it.

    Of text the first part says what the columns are, and y are codes into the attribute `classes`,
    the classes of all parts; without codes this is None and y is what was stored or given.
    `blocks[:5]` are the first five.
    """
    if isinstance(source, str | os.PathLike):
        _refuse(y, sample_weight)
        parts, notes = _file_parts(source, coded, reading)
    elif hasattr(source, "dask") and hasattr(source, "rechunk"):
        parts, notes, client = [*_chunk_parts(source, y, sample_weight)], [], client or _client()
    elif isinstance(source, list | tuple) and source:
        _refuse(y, sample_weight)
        parts, notes = [_array_part(k, given) for k, given in enumerate(source)], []
    else:
        kinds = "a list of tuples (X, y), a directory or a Dask array"
        hint = "; for rows in memory call fit(X, y)" if hasattr(source, "__array__") else ""
        raise DataError(f"blocks: source must be {kinds}, got {type(source).__name__}{hint}")
    if client is None:
        return Blocks(parts, notes, reading.get("positive"))
    from perf.study import remote

    return remote.Blocks(client, parts, notes, reading.get("positive"))


def _refuse(y, sample_weight):
    if y is not None or sample_weight is not None:
        hint = "blocks of arrays and files have their own"
        raise DataError(f"blocks: y and sample_weight are for Dask arrays; {hint}")


class Rows:
    """What a part holds: X, y, sample_weight or None. Of text, y are codes into `labels`, until
    `recode`. `stored`: whether it is out of core."""

    def __init__(self, X, y, sample_weight=None, labels=None, stored=False):
        self.X, self.y, self.sample_weight, self.stored = X, y, sample_weight, stored
        self.labels = labels

    def recode(self, codes):
        """Make y codes of classes; `codes` are those of the labels, None where nothing is to do."""
        if self.labels is not None and codes is not None:
            self.y[:] = np.array([codes[label] for label in self.labels])[self.y]
            self.labels = None

    def facts(self):
        return Facts(*self.X.shape, self.sample_weight is not None, self.labels)


class Facts(NamedTuple):
    """What must be known of a part before the first step."""

    n: int
    d: int
    is_weighted: bool
    labels: list | None = None


class Block:
    """Some rows: X, y and sample_weight or None; start rows come before them. Steps keep with it,
    as attributes, what they need again."""

    def __init__(self, rows, start):
        self.X, self.y, self.sample_weight, self.start = rows.X, rows.y, rows.sample_weight, start
        self._rows = rows

    def keep(self, name, shape, dtype=np.float64):
        """An array of zeros that is kept as an attribute; out of core if the rows are."""
        setattr(self, name, None)  # the one before goes first
        setattr(self, name, _room(shape, dtype) if self._rows.stored else np.zeros(shape, dtype))
        return getattr(self, name)

    allocate = keep


class Blocks(RowBlocks):
    """Row blocks here: in memory, or mapped files.

    shape : (n, d)
    is_weighted : whether rows have weights
    classes : names of the classes that y are codes of; None: y is what was given
    schema : of y as codes, with which `load` reads a file in the same form; else None
    notes : what a user should know
    """

    def __init__(self, parts, notes=(), positive=None):
        rows, self.notes = [part.open() for part in parts], [*notes]
        facts = [part.facts() for part in rows]
        self.classes, codes = common_classes(facts, parts[0].title, positive)
        self.schema = common_schema(parts[0], facts[0].d, self.classes, codes)
        for part in rows:
            part.recode(codes)
        self._set(rows, [part.title for part in parts], facts)

    def _set(self, rows, titles, facts):
        self.shape, starts, self.is_weighted = combine(titles, facts)
        self._blocks = [Block(part, start) for part, start in zip(rows, starts, strict=True)]
        self.titles, self._pools = titles, {}

    def map(self, step, *args, n_jobs=1, add=False):
        """[step(block, *args) for each block], n_jobs of them at a time; nothing is added up."""
        threads = min(n_jobs if n_jobs and n_jobs > 0 else os.cpu_count(), len(self))
        if threads == 1:
            return [step(block, *args) for block in self._blocks]
        if threads not in self._pools:
            self._pools[threads] = ThreadPoolExecutor(threads)
        return [*self._pools[threads].map(lambda block: step(block, *args), self._blocks)]

    change = map_inplace = map

    def clear(self):
        """Let go what steps have kept."""
        self._blocks = [Block(block._rows, block.start) for block in self._blocks]

    def __len__(self):
        return len(self._blocks)

    def __getitem__(self, some):
        """Blocks of the same rows, some of them, that share nothing that is kept."""
        chosen, some_blocks = self.titles[slice_of(some)], self._blocks[some]
        new = object.__new__(Blocks)
        new.notes, new.classes, new.schema = self.notes, self.classes, self.schema
        rows = [block._rows for block in some_blocks]
        new._set(rows, chosen, [part.facts() for part in rows])
        return new


def slice_of(some):
    if not isinstance(some, slice):
        raise TypeError(f"blocks are chosen by a slice, as blocks[:3], got {some!r}")
    return some


def combine(titles, facts):
    """Check that parts fit together; return (n, d), the rows before each, and whether weighted."""
    if not facts:
        raise DataError("blocks: none chosen; at least one is needed")
    for title, part in zip(titles, facts, strict=True):
        if not part.n:
            raise DataError(f"{title}: has no rows; leave it out")
        if part.d != facts[0].d:
            other = f"{titles[0]} has {facts[0].d}"
            raise DataError(f"{title}: has {part.d} columns and {other}; make them the same")
        if part.is_weighted != facts[0].is_weighted:
            one, other = (titles[0], title) if facts[0].is_weighted else (title, titles[0])
            raise DataError(f"{other}: has no sample_weight, as {one} has; all need it, or none")
    starts = np.cumsum([0, *(part.n for part in facts)]).tolist()
    return (starts[-1], facts[0].d), starts[:-1], facts[0].is_weighted


def common_classes(facts, where, positive=None):
    """Return the classes of all parts of text and {label: code}; None twice of other parts."""
    found = {label: label for part in facts for label in part.labels or ()}
    if facts[0].labels is None:
        return None, None
    if all(_number(label) is not None for label in found):
        found = {label: _shortest(label) for label in found}
    groups = {name: [name] for name in _ordered({*found.values()})}
    if positive is not None:
        groups = _regroup(where, groups, (str(positive), "rest"))
    if trouble := _trouble(groups):
        raise DataError(f"{where} and the other parts: {trouble}")
    code = {name: k for k, members in enumerate(groups.values()) for name in members}
    return [*groups], {label: code[name] for label, name in found.items()}


def common_schema(part, d, classes, codes):
    """The schema of all parts, if their labels have codes: that of one, with the classes of all."""
    if classes is None:
        return None
    members = [{} for _ in classes]
    for label, code in codes.items():
        members[code][_shortest(label)] = True
    known = {"levels": classes, "members": [[*names] for names in members]}
    own = getattr(part, "schema", None)
    if own is None:
        own = [{"name": f"x{j}", "kind": "number", "levels": []} for j in range(d)]
        own.append({"name": "label", "kind": "label"})
    return [column | known if column["kind"] == "label" else column for column in own]


def _room(shape, dtype):
    """Zeros in a file without a name: it goes with the array, even if the process is killed."""
    array = np.zeros(0, dtype)
    size = int(np.prod(shape)) * array.itemsize
    if not size:
        return np.zeros(shape, dtype)
    with tempfile.TemporaryFile() as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)  # to lack room later would end the process
        except AttributeError:  # another system
            pass
        except OSError as error:
            why = f"{size} bytes do not fit ({error.strerror}); set TMPDIR to a larger disk"
            raise DataError(f"{tempfile.gettempdir()}: {why}") from None
        return np.asarray(np.memmap(file, array.dtype, "w+", shape=shape))


def _stow(array, dtype=None):
    """Copy an array into a file without a name."""
    array = np.asarray(array)
    room = _room(array.shape, dtype or array.dtype)
    room[...] = array
    return room


# -- parts of row blocks ---------------------------------------------------------------------------


class ArrayPart(NamedTuple):
    """Arrays in memory."""

    key: str
    title: str
    arrays: tuple

    def open(self):
        X, y, weight = self.arrays
        return Rows(np.ascontiguousarray(X, dtype=float), y, weight)

    def facts(self):
        X, _, weight = self.arrays
        return Facts(*X.shape, weight is not None)


def _array_part(k, given):
    title = f"block {k} of the list"
    if not isinstance(given, list | tuple) or len(given) not in (2, 3):
        what = f"got {type(given).__name__}"
        raise DataError(f"{title}: must be a tuple (X, y) or (X, y, sample_weight), {what}")
    X, y, weight = (None if part is None else np.asarray(part) for part in (*given, None)[:3])
    _check_arrays(title, X, y, weight)
    return ArrayPart(uuid.uuid4().hex, title, (X, y, weight))


def _check_arrays(title, X, y, weight):
    """Raise DataError unless these, or the headers of these, are rows with labels."""
    if X is None or y is None:
        raise DataError(f"{title}: needs X and labels y, and has no {'X' if X is None else 'y'}")
    if len(X.shape) != 2 or X.dtype.kind not in "biuf":
        raise DataError(f"{title}: X must be a table of numbers, got {X.dtype} {X.shape}")
    if y.shape[:1] != X.shape[:1] or len(y.shape) > 2 or y.dtype.kind not in "biufUOS":
        wrong = f"got {y.dtype} {y.shape}"
        raise DataError(f"{title}: y must be {X.shape[0]} labels, one per row, {wrong}")
    if weight is not None and (weight.shape != X.shape[:1] or weight.dtype.kind not in "biuf"):
        wrong = f"got {weight.dtype} {weight.shape}"
        raise DataError(f"{title}: sample_weight must be {X.shape[0]} numbers, {wrong}")


class _Header(NamedTuple):
    """An array in an .npz file; offset is where its data begin, None where these are packed."""

    shape: tuple
    dtype: np.dtype
    offset: int | None


class NpzPart(NamedTuple):
    """An .npz file; what can be is mapped where it is. If `coded`, y are codes, as of text."""

    key: str
    title: str
    coded: bool

    def open(self):
        """X, y and the weights, mapped; converted ones are in files without a name."""
        path, headers = self.title, self._headers()
        arrays = []
        for name, header in headers.items():
            if header is None:
                arrays.append(None)
            elif header.offset is None or (name != "y" and header.dtype != np.float64):
                with _unpacking(path), np.load(path, allow_pickle=False) as file:
                    arrays.append(_stow(file[name], None if name == "y" else float))
            else:
                place = header.dtype, "r", header.offset, header.shape
                arrays.append(np.asarray(np.memmap(path, *place)))
        if not self.coded:
            return Rows(*arrays, stored=True)
        X, y, weight = arrays
        labels, codes = np.unique(y, return_inverse=True)
        return Rows(X, _stow(codes.ravel()), weight, labels.astype(str).tolist(), stored=True)

    def facts(self):
        """What the headers tell; nothing where the labels are needed."""
        headers = None if self.coded else self._headers()
        return headers and Facts(*headers["X"].shape, headers["sample_weight"] is not None)

    def _headers(self):
        """The arrays of the file by name, checked; None for one that is absent."""
        path, found = self.title, {"X": None, "y": None, "sample_weight": None}
        with _unpacking(path), zipfile.ZipFile(path) as archive, open(path, "rb") as file:
            for info in archive.infolist():
                if (name := info.filename.removesuffix(".npy")) not in found:
                    continue
                with archive.open(info) as member:
                    read = NPY_HEADERS[np.lib.format.read_magic(member)]
                    shape, by_column, dtype = read(member)
                    begin = member.tell()
                file.seek(info.header_offset + 26)  # the lengths of name and extra field
                begin += info.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))
                whole = info.compress_type == zipfile.ZIP_STORED and 0 not in shape
                whole = whole and not (by_column and len(shape) > 1) and not dtype.hasobject
                found[name] = _Header(shape, dtype, begin if whole else None)
        _check_arrays(path, *found.values())
        return found


class TextPart(NamedTuple):
    """CSV, TSV or LIBSVM text, read in the way of the first part."""

    key: str
    title: str
    schema: list
    reading: dict

    def open(self):
        labels = []
        data = _read_part(self.title, labels, schema=self.schema, **self.reading)
        return Rows(_stow(data.X), _stow(data.y), labels=labels, stored=True)

    def facts(self):
        """Nothing is known before it is read."""


def _read_part(path, labels, label=None, schema=None, drop=(), **reading):
    """As `load` for a part of text, whose y are codes into the list of labels."""
    table = _open(_File(Path(path), **reading), label, schema, drop)
    data = _dataset(table, _stem(Path(path)), label, schema=schema, drop=drop, labels=labels)
    dropped = [table.names[j] for j in sorted(table.dropped)]
    return replace(data, reading={"drop": dropped, **reading})


def _file_parts(source, coded, reading):
    """The files of a directory as parts, in natural order, and notes on them."""
    paths, options = _paths(source), {"encoding": "utf-8", "decimal": ".", "delimiter": None}
    options |= {key: given for key, given in reading.items() if key not in ("positive", "schema")}
    label, drop = options.pop("label", None), options.pop("drop", ())
    try:
        _check_reading(**options)
    except TypeError:
        known = "label, positive, drop, encoding, decimal and delimiter"
        raise DataError(f"blocks: options are {known}, got {_listing(reading)}") from None
    if _suffix(paths[0]) == ".npz":
        if wrong := reading.keys() - {"positive"}:
            hint = f"leave out {_listing(sorted(wrong))}"
            raise DataError(f"{source}: .npz parts are read in one way only; {hint}")
        coded = coded or "positive" in reading
        return [NpzPart(uuid.uuid4().hex, str(path.resolve()), coded) for path in paths], []
    drop = [drop] if isinstance(drop, str | int) else [*drop]
    wide, drop = _widest(paths, options, label, drop)
    first = _read_part(paths[0], [], label=label, schema=wide, drop=drop, **options)
    how = first.schema, first.reading
    return [TextPart(uuid.uuid4().hex, str(path.resolve()), *how) for path in paths], first.notes


def _paths(source):
    """List the parts of a directory."""
    folder = Path(source)
    if not folder.is_dir():
        raise DataError(f"{folder}: no such directory; give one that holds the parts of the data")
    with _reading(folder):
        paths = [path for path in folder.iterdir() if not path.name.startswith(HIDDEN)]
    if not paths:
        raise DataError(f"{folder}: holds no parts; they are .npz, CSV, TSV or LIBSVM files")
    for path in sorted(paths):
        if _suffix(path) not in SUFFIXES or not path.is_file():
            hint = "move it away, or convert it to .npz, CSV, TSV or LIBSVM"
            raise DataError(f"{path}: is no part that can be read; {hint}")
    if len({_suffix(path) == ".npz" for path in paths}) > 1:
        raise DataError(f"{folder}: holds .npz files and text; labels differ there, use one kind")
    return sorted(paths, key=_natural)


def _natural(path):
    """A key that sorts names with their numbers by value: part2 before part10."""
    pieces = re.split(r"(\d+)", path.name)
    return [int(piece) if k % 2 else piece for k, piece in enumerate(pieces)], path.name


def _widest(paths, options, label, drop):
    """A schema with the features of all parts of LIBSVM text, None of tables; and what to drop."""
    spans = []
    for path in paths:
        table = _open(_File(path, **options), label, None, drop)
        if not table.fixed:
            return None, drop
        numbers = [int(name[1:]) for name in table.names[1:]]
        spans += [numbers[0], numbers[-1]] if numbers else []
    if not spans:
        raise DataError(f"{paths[0]}: no part has a feature; LIBSVM text is label index:value ...")
    names = ["label", *(f"x{j}" for j in range(min(spans), max(spans) + 1))]
    whole = _Table(str(paths[0]), names, None, label=0, fixed=True)
    dropped = [names[_find(whole, column)] for column in drop]
    kinds = ["label", *["number"] * (len(names) - 1)]
    schema = [
        {"name": name, "kind": kind, "levels": []} | ({"members": []} if kind == "label" else {})
        for name, kind in zip(names, kinds, strict=True)
        if name not in dropped
    ]
    return schema, dropped


class ChunkPart(NamedTuple):
    """A chunk of rows of a Dask array; `chunk` will give X, y and the weights."""

    key: str
    title: str
    chunk: object
    known: Facts

    def open(self):
        X, y, weight = self.chunk.compute()
        _check_arrays(self.title, X, y, weight)
        weight = None if weight is None else _stow(weight, float)
        return Rows(_stow(X, float), _stow(y), weight, stored=True)

    def facts(self):
        return self.known


def _chunk_parts(X, y, sample_weight):
    """Yield the chunks of rows of a Dask array as parts."""
    import dask

    if X.ndim != 2 or np.isnan(X.shape).any():
        hint = "call X.compute_chunk_sizes() where they are unknown"
        raise DataError(f"blocks: X must be 2-D with known sizes, got shape {X.shape}; {hint}")
    if y is None:
        raise DataError("blocks: a Dask array X needs labels y")
    X = X.rechunk({1: -1})
    sizes, columns = X.chunks[0], []
    for name, given in (("y", y), ("sample_weight", sample_weight)):
        if given is not None and np.shape(given) != (len(X),):
            raise DataError(f"blocks: {name} must have shape ({len(X)},), got {np.shape(given)}")
        if hasattr(given, "to_delayed"):
            columns.append(given.rechunk((sizes,)).to_delayed().ravel())
        else:
            given = None if given is None else np.asarray(given)
            cuts = np.cumsum([0, *sizes])
            parts = zip(cuts[:-1], cuts[1:], strict=True)
            columns.append([None if given is None else given[a:b] for a, b in parts])
    parts = zip(X.to_delayed().ravel(), *columns, sizes, strict=True)
    for k, (*chunk, n) in enumerate(parts):
        known = Facts(n, X.shape[1], sample_weight is not None)
        yield ChunkPart(uuid.uuid4().hex, f"chunk {k}", dask.delayed(tuple)(chunk), known)


def _client():
    """The default client of Dask, or None."""
    with suppress(ImportError, ValueError):
        import distributed

        return distributed.default_client()


# -- generators ------------------------------------------------------------------------------------


def two_gaussians(n=400, distance=2.0, seed=0) -> Dataset:
    """Draw n points from two unit Gaussians in the plane, half of them from each.

    The means are `distance` apart in both coordinates; the best possible error is
    Phi(-distance / sqrt(2)), 7.9 % at 2.
    """
    if not 2 <= n <= MAX_CELLS // 2:
        raise DataError(f"two_gaussians: n must be from 2 to {MAX_CELLS // 2}, got {n}")
    y = np.arange(n) % 2
    X = np.random.default_rng(seed).standard_normal((n, 2)) + distance * (y[:, None] - 0.5)
    name = f"gaussians:{n}"
    return _dataset(_array_table(name, X, y), name)


def linear_problem(n, d, seed=0, noise=0.4) -> Dataset:
    """Draw n Gaussian points in d dimensions, labelled by a random linear rule with noise.

    Any two features have correlation 0.3. The label is the sign of s + noise * e, where s = w'x
    and e are of unit variance; the best possible error is arctan(noise) / pi, 12 % at 0.4.
    """
    if n < 2 or d < 1 or n * d > MAX_CELLS:
        limits = f"n >= 2, d >= 1 and n * d <= {MAX_CELLS}"
        raise DataError(f"linear_problem: needs {limits}, got n={n} and d={d}")
    rng, common = np.random.default_rng(seed), 0.3
    X = rng.standard_normal((n, d)) * np.sqrt(1 - common)
    X += rng.standard_normal((n, 1)) * np.sqrt(common)
    w = rng.standard_normal(d)
    w /= np.sqrt((1 - common) * w @ w + common * w.sum() ** 2)
    y = (X @ w + noise * rng.standard_normal(n) > 0).astype(int)
    name = f"linear:{n}x{d}"
    return _dataset(_array_table(name, X, y), name)


def _generated(base):
    """Return the data set of a generator's name."""
    if match := GAUSSIANS.fullmatch(base):
        return two_gaussians(int(match[1] or 400))
    n, d = map(int, LINEAR.fullmatch(base).groups())
    return linear_problem(n, d)

"""Data for the solvers: built-in sets, files and generators behind one `load`.

    load("heart")                     a built-in set, by name or alias
    load("vehicle:saab-vs-bus")       two classes of it; bus is the positive one
    load("wine.csv:1-vs-rest")        a file, one class against the rest
    load("linear:10000x20")           a generator: planted linear rule, 10000 rows, 20 columns

Files are CSV and its relatives, LIBSVM text, both plain or gzipped, and .npz with arrays X and y.
`blocks` makes row blocks, for fits on more rows than memory holds: of arrays, a directory, or Dask.
Every bad input raises DataError with one line: the place, the error, and a remedy.
"""

import codecs
import csv
import difflib
import functools
import gzip
import hashlib
import io
import os
import re
import shlex
import statistics
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from solvers.rows import local, remote
from solvers.rows.local import DataError

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
    positive : positive class; if there are more than two, the others are merged into "rest".
    schema : `schema` of the training set, by which the columns are encoded. They are found by name
        if the header has them, else by position; the label may be absent.
    drop : names or numbers, as of `label`, of columns to leave out. With a schema, the columns
        dropped in training have to be repeated only if the file has no header.
    encoding, decimal : encoding of a text file; decimal mark in a table, "." or ",".
    delimiter : column separator of a table; a blank stands for any run of blanks and tabs. None:
        tab, semicolon, comma, bar or blank, by the first lines.
    """
    if schema is not None:
        check_schema(schema)
        if positive is not None:
            raise DataError("load: the schema fixes the positive class; leave out positive")
    drop = [drop] if isinstance(drop, str | int) else [*drop]
    reading = {"encoding": encoding, "decimal": decimal, "delimiter": delimiter}
    _check_reading(**reading)
    base, rule = _split_rule(name_or_path)
    path, name = _path(base), base
    if path is None:
        size, *shape = GENERATED.fullmatch(base).groups()
        made = linear_problem(*map(int, shape)) if shape[0] else two_gaussians(int(size or 400))
        table = _array_table(base, made.X, made.y)
    elif known := _aliases().get(base.lower()):
        name, row = known, _index()[known]
        with _reading(path), gzip.open(path) as file:
            if hashlib.sha256(file.read()).hexdigest() != row["sha256_of_csv"]:
                raise DataError(f"{path}: checksum differs from INDEX.csv; restore the file")
        table = _open(_File(path, delimiter=","), label, schema, drop)
        table.categorical = row["categorical_columns"]
    else:
        name = _stem(path)
        table = _open(_File(path, **reading), label, schema, drop)
    data = _dataset(table, label, positive, schema, drop, rule)
    name = f"{name}:{'-vs-'.join(rule)}" if rule else name
    return replace(data, name=name, reading=data.reading | reading)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table ready for a solver.

    X : float64 (n, d), C-contiguous; NaN where a number is missing.
    y : int64 (n,) codes into `classes`. With a schema: -1 without a label; None if no row has one.
    feature_names : one per column of X; an indicator column is called column=level.
    classes : class names; the last of two is the positive class.
    notes : lines for the user: guesses, missing cells, merged classes.
    schema : JSON-able; name, kind (number, category or label) and levels of each column of the
        file; that of the label also has members, the labels of each class.
    reading : JSON-able options; load(path, schema=data.schema, **data.reading) reads a new file.
    """

    X: np.ndarray
    y: np.ndarray | None
    name: str
    feature_names: list[str]
    classes: list[str]
    notes: list[str]
    schema: list[dict]
    reading: dict


# -- names and paths -------------------------------------------------------------------------------

SVM_SUFFIXES = {".svm", ".libsvm", ".svmlight"}
SUFFIXES = {".csv", ".tsv", ".txt", ".data", ".dat", ".npz"} | SVM_SUFFIXES
GENERATED = re.compile(r"gaussians(?::(\d{1,18}))?|linear:(\d{1,18})x(\d{1,18})", re.I)
RULE = re.compile(r"(?P<base>.+):(?P<left>.+)-vs-(?P<right>.+)")


def locate(name_or_path) -> Path | None:
    """Return the path that `load` or `blocks` would read; None for a generated set."""
    base = _split_rule(name_or_path)[0]
    return Path(base) if is_directory(base) else _path(base)


def is_directory(name_or_path) -> bool:
    """Return True for a directory whose name is not that of a data set."""
    base = os.fsdecode(name_or_path)
    known = base.lower() in _aliases() or base.lower() in _extra_sets()
    return not known and os.path.isdir(base)


def _path(base):
    """Return the path of a set or a file; None for a generator."""
    if name := _aliases().get(base.lower()):
        return DATA / f"{name}.csv.gz"
    if GENERATED.fullmatch(base):
        return None
    path = _extra_sets().get(base.lower(), Path(base))
    try:
        os.stat(path)
    except PermissionError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except (OSError, ValueError):  # absent, or not a valid name
        near = _nearest(base, [*_aliases(), *_extra_sets(), "gaussians", "linear:NxD"])
        hint = "`python cli.py datasets` lists the sets"
        raise DataError(f"{_short(base)}: neither a file nor a data set{near}; {hint}") from None
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
    with _reading(f"ENSOLVE_DATA={folder}"):
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
    return ", ".join([_short(item) for item in items[:limit]] + more)


def _short(text, limit=100):
    """Abbreviate a text for a message, in one line."""
    text = re.sub(r"\s+", " ", text)
    return text if len(text) <= limit else f"{text[:limit]}..."


# -- opening files ---------------------------------------------------------------------------------

SVM_LINE = re.compile(r"[^\s:,;]+(\s+qid:\d+)?(\s+\d+:[^\s:]+)+\s*(#.*)?")
NOT_A_TABLE = re.compile(r"\{|\[\s*[\[{\"]|\[$|<[!?a-zA-Z]|@relation\b", re.I)  # JSON, XML, ARFF
MAX_CELLS = 2**30  # 8 GiB of float64; beyond lies a wrong index or an identifier column.
MAX_COLUMNS = 2**20  # Each has a name and a kind; wider tables are sparse.


class _File(NamedTuple):
    """Path and format of a text file."""

    path: Path
    encoding: str = "utf-8"
    decimal: str = "."
    delimiter: str | None = None


@dataclass
class _Table:
    """Opened table: the column names at once, columns, lines and matrix after `source`.

    A column is a float array, or a list of texts; missing texts are MISSING_CELL. `source(text,
    dropped)` returns the columns, the line number of each row, and the matrix of the float arrays;
    the columns in the set `text` are texts, those in `dropped` may be empty. `fixed`: the format
    allows only numeric features, and `label`, if not None, is the only possible label.
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
    categorical: str = ""  # Names of columns whose numbers are categories; "*" means all.
    columns: list = field(default_factory=list)
    lines: Sequence = ()
    matrix: np.ndarray | None = None

    def drop_unlabelled(self, target):
        """Drop the rows without a label; `target` is the number of the label column."""
        labels = self.columns[target]
        if (missing := labels.count(MISSING_CELL)) == len(labels):
            raise self.error(target, "all labels are missing; choose another label column")
        if missing:
            rows = [row for row, text in enumerate(labels) if text != MISSING_CELL]
            self.notes.append(f"rows without a label left out: {missing}")
            self.lines, self.matrix = np.asarray(self.lines)[rows], self.matrix[rows]
            numbers = iter(self.matrix.T)
            for j, column in enumerate(self.columns):
                texts = isinstance(column, list)
                self.columns[j] = [column[i] for i in rows if column] if texts else next(numbers)

    def used(self):
        """Return the numbers of the columns that are not dropped."""
        return [j for j in range(len(self.names)) if j not in self.dropped]

    def words(self, j):
        """Return the set of texts in column j that are no numbers."""
        texts = set(self.columns[j]) - {MISSING_CELL}
        return {text for text in texts if _number(text, self.decimal) is None}

    def wrong_cell(self, j, texts, problem):
        """Return the error at the first cell of column j that is in `texts`."""
        row, text = next(pair for pair in enumerate(self.columns[j]) if pair[1] in texts)
        return self.error(j, f"{_short(text)!r} {problem}", row)

    def error(self, j, problem, row=None):
        place = "" if row is None else f", {self.unit} {self.lines[row]}"
        return DataError(f"{self.where}{place}, column {_short(self.names[j])!r}: {problem}")


def _check_reading(encoding, decimal, delimiter):
    """Raise DataError unless these options of `load` are valid."""
    try:
        "".encode(encoding)
    except (LookupError, TypeError, ValueError):
        known = "a Python encoding, such as utf-8, latin-1, cp1252 or utf-16"
        raise DataError(f"load: --encoding must be {known}, got {encoding!r}") from None
    if decimal not in (".", ","):
        raise DataError(f"load: --decimal must be '.' or ',', got {decimal!r}")
    mark = ";" if delimiter is None else delimiter
    if mark == decimal or not re.fullmatch(r"[^\w\"\r\n\0.+-]|_", str(mark)):
        known = "one character, no quote, digit, sign, point or decimal mark, such as ; or |"
        raise DataError(f"load: --delimiter must be {known}, got {delimiter!r}")


def _open(file, label, schema, drop):
    """Open a file of any format."""
    path = file.path
    if _suffix(path) == ".npz":
        return _read_npz(path, trained=schema is not None)
    head = [line.strip("\r\n") for line in islice(_lines(file), 50) if line.strip()]
    if not head:
        raise DataError(f"{path}: the file is empty")
    first = next((line.strip() for line in head if not line.startswith("#")), "")
    if NOT_A_TABLE.match(first):
        raise DataError(f"{path}: must be a table, got JSON, XML or ARFF; give CSV or .npz")
    if _suffix(path) in SVM_SUFFIXES or (file.delimiter is None and SVM_LINE.fullmatch(first)):
        return _read_svm(file, schema, drop)
    if file.delimiter is None:
        file = file._replace(delimiter=_delimiter(head, file.decimal))
    return _read_csv(file, label, schema, drop)


@contextmanager
def _reading(path, encoding="utf-8"):
    """Turn the errors of reading a file into DataError."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: truncated or corrupt gzip file ({error})") from None
    except UnicodeError as error:
        hint = "save it as UTF-8 text, or name its encoding, as in --encoding cp1252"
        raise DataError(f"{path}: not {encoding.upper()} ({error}); {hint}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


@contextmanager
def _text(file):
    """Open a text file, plain or gzipped; line ends are not translated."""
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
                raise DataError(f"{file.path}: contains NUL bytes; give --encoding utf-16")
            yield line


def _check_size(where, n, d):
    """Raise DataError if a table (n, d) would be too large."""
    if d > MAX_COLUMNS or n * d > MAX_CELLS:
        size = f"{d} columns" if d > MAX_COLUMNS else f"{n} x {d} cells"
        hint = "use fewer rows, columns or levels"
        raise DataError(f"{where}: {size} are too many for a dense table; {hint}")


# -- tables as text --------------------------------------------------------------------------------

LABEL_NAMES = ("label", "class", "target", "y")
HEADER_ROWS, HEADER_CELLS = 1000, 1_000_000  # Limits of the rows that decide about a header.
CHUNK_CELLS = 200_000  # Cells per chunk: enough for NumPy to be fast, few enough for the memory.
CHUNK_CHARS = 2**22  # Characters per chunk of a table of at least FAST_BYTES.
FAST_BYTES = 2**23  # Below, to import pandas takes longer than to read by the csv module.


def _csv_reader(lines, delimiter, strict=True):
    """Return a csv.reader; a blank as delimiter stands for any run of blanks and tabs."""
    if delimiter == " ":
        lines = (line.replace("\t", " ").strip() for line in lines)
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=strict)


def _delimiter(head, decimal):
    """Return the delimiter by which most of the first lines have the same number of cells."""

    def agreement(delimiter):
        try:
            widths = [len(cells) for cells in _csv_reader(head, delimiter, strict=False)]
        except csv.Error:  # A line without this delimiter may exceed the limit of a cell.
            return 0
        usual = statistics.mode(widths)
        return widths.count(usual) if usual > 1 else 0

    return max((mark for mark in "\t;,| " if mark != decimal), key=agreement)


def _rows(file):
    """Yield line number and cells of each row that is not blank; all have the same width."""
    reader, width = _csv_reader(_lines(file), file.delimiter), None
    try:
        for cells in reader:
            if not cells or cells == [""]:
                continue
            width = width or len(cells)
            if len(cells) != width:
                raise csv.Error(f"expected {width} cells, found {len(cells)}")
            _check_size(file.path, 1, width)
            yield reader.line_num, cells
    except csv.Error as error:
        hint = "check the quotes, and that it is a table"
        raise DataError(f"{file.path}, line {reader.line_num}: {error}; {hint}") from None


def _read_csv(file, label, schema, drop):
    """Open a delimited table: find its header and the names of its columns."""
    path, head = file.path, []
    for _, cells in _rows(file):
        head.append([cell.strip() for cell in cells])
        if len(head) == HEADER_ROWS or len(head) * len(cells) >= HEADER_CELLS:
            break
    if not head:
        raise DataError(f"{path}: all cells are empty")
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
    """Return True if the first row is a header; `trained` are the features of the schema, if any.

    It contains all features of the schema; or its cells are distinct, and a known name among them
    does not occur below; or it contains no number, and the cells below one of its texts are
    numbers, or, without a schema, its cells are distinct and none occurs again in its column.
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


class _TextColumns(Exception):
    """Raised by `_csv_chunks` with the set of columns that have a cell which is not a number."""


def _parse(file, header, width, text, dropped):
    """Read a table as `_Table.source` does; columns where a cell is not a number are texts, too."""
    numeric = [j for j in range(width) if j not in text | dropped]
    try:
        chunks = [*_fast_chunks(file, header, width, numeric, text)]
    except ValueError:
        try:
            chunks = [*_csv_chunks(file, header, width, numeric, text)]
        except _TextColumns as others:
            return _parse(file, header, width, text | others.args[0], dropped)
    if not chunks:
        return [], (), None
    lines, texts, values = zip(*chunks, strict=True)
    matrix, columns = np.concatenate(values), [[]] * width
    for j in text:
        columns[j] = [*chain(*(cells[j] for cells in texts))]
    for j, column in zip(numeric, matrix.T, strict=True):
        columns[j] = column
    return columns, np.concatenate(lines), matrix


def _csv_chunks(file, header, width, numeric, text):
    """Yield chunks of rows, read by the csv module: lines (n,), {column: texts}, numbers (n, k)."""
    rows = islice(_rows(file), int(header), None)
    while chunk := list(islice(rows, max(1, CHUNK_CELLS // width))):
        lines, cells = zip(*chunk, strict=True)
        columns = list(zip(*cells, strict=True))
        floats = {j: _floats(columns[j], file.decimal) for j in numeric}
        if others := {j for j, column in floats.items() if column is None}:
            raise _TextColumns(others)
        values = np.ascontiguousarray(np.reshape([*floats.values()], (-1, len(lines))).T)
        yield np.array(lines), {j: _texts(columns[j]) for j in text}, values


def _fast_chunks(file, header, width, numeric, text):
    """Yield the chunks of `_csv_chunks`, read by pandas or NumPy.

    Raise ValueError if the file is small, or has a quote, a blank line or one of another width.
    """
    if width == 1 or not file.delimiter.isascii() or os.path.getsize(file.path) < FAST_BYTES:
        raise ValueError("small, or not plain")
    line, delimiter, newline = 1, ord(file.delimiter), ord("\n")
    with _text(file) as stream:
        while chunk := stream.read(CHUNK_CHARS):
            chunk = (chunk + stream.readline()).replace("\r\n", "\n")
            odd = '"' in chunk or "\r" in chunk or "\0" in chunk
            rows = chunk.rstrip("\n")
            if file.delimiter == " ":
                odd = odd or re.search(r"[^\S\t\n ]", chunk)
                rows = "\n".join([" ".join(row.split()) for row in rows.split("\n")])
            raw = np.frombuffer(f"{rows}\n".encode(), np.uint8)
            ends = np.flatnonzero((raw == delimiter) | (raw == newline))
            widths = np.diff(np.flatnonzero(raw[ends] == newline), prepend=-1)
            longest = np.diff(ends, prepend=-1).max()
            if odd or (widths != width).any() or longest > csv.field_size_limit():
                raise ValueError("not plain")
            if rows := rows.partition("\n")[2] if header else rows:
                texts, values = _parse_plain(rows, file, numeric, text)
                yield np.arange(len(values)) + line + header, texts, values
            line, header = line + chunk.count("\n"), False


def _parse_plain(rows, file, numeric, text):
    """Return {column: texts} and numbers (n, k); ValueError at a text, or a gap without pandas."""
    try:
        import pandas
    except ImportError:
        numbers = rows.translate(SWAPPED) if file.decimal == "," else rows
        options = {"delimiter": file.delimiter, "comments": None, "ndmin": 2, "usecols": numeric}
        values, lines = np.loadtxt(numbers.split("\n"), **options), rows.split("\n")
        cells = [[row.split(file.delimiter)[j] for row in lines] for j in text]
        return dict(zip(text, map(_texts, cells), strict=True)), values
    # The only converter from 3.1 on rounds correctly; the option is deprecated there.
    is_old = tuple(map(int, pandas.__version__.split(".")[:2])) < (3, 1)
    exact = {"float_precision": "round_trip"} if is_old else {}
    options = {"sep": file.delimiter, "decimal": file.decimal, "skipinitialspace": True}
    options |= {"header": None, "quoting": csv.QUOTE_NONE, "usecols": [*numeric, *text]}
    options |= {"na_values": dict.fromkeys(numeric, [*MISSING]), "keep_default_na": False}
    options["dtype"] = dict.fromkeys(numeric, float) | dict.fromkeys(text, object)
    frame = pandas.read_csv(io.StringIO(rows), **options, **exact)
    values = np.ascontiguousarray(frame[numeric], dtype=float)
    return {j: _texts(frame[j].tolist()) for j in text}, values


# -- LIBSVM text and arrays ------------------------------------------------------------------------


def _read_svm(file, schema, drop):
    """Read LIBSVM text, `label index:value ...`, into a dense table."""
    labels, lines, sizes, indices, values = _parse_svm(file)
    first, d, is_svm = _svm_columns(file.path, indices, schema, drop)
    n = len(labels)
    _check_size(file.path, n, d)
    X = np.zeros((n, d))
    X[np.repeat(np.arange(n), sizes), np.array(indices, dtype=int) - first] = values
    columns = [_texts(labels), *X.T]
    names = ["label", *(f"x{j}" for j in range(first, first + d))]
    table = _Table(str(file.path), names, lambda *_: (columns, lines, X), label=0, fixed=True)
    table.header = is_svm
    if first == 0:
        table.notes.append("feature indices are counted from 0: the columns are x0, x1, ...")
    return table


def _parse_svm(file):
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
        row = {}
        for cell in cells[1:]:
            index, _, value = cell.partition(":")
            try:
                j, x = int(index), float(value)
            except ValueError:
                j = -1
            if j < 0 or j in row or "_" in cell:  # Python reads 1_0 as 10.
                wrong = f"{_short(cell)!r} is not index:value with a new index from 0 or 1 on"
                raise DataError(f"{place}: {wrong}")
            if j > MAX_COLUMNS:
                _check_size(place, 1, j)
            row[j] = x
        labels.append(cells[0])
        lines.append(number)
        sizes.append(len(row))
        indices.extend(row)
        values.extend(row.values())
    return labels, lines, sizes, indices, values


def _svm_columns(path, indices, schema, drop):
    """Return the first index, 0 or 1, the number of columns, and True if the schema has indices.

    Without a schema, indices start from 0 if an index is 0. A schema of LIBSVM text has the indices
    in its column names; columns of any other schema are matched by position.
    """
    smallest, largest = min(indices, default=1), max(indices, default=0)
    first = min(smallest, 1)
    if schema is None:
        return first, largest + 1 - first, False
    width, known = len(schema) - 1, _numbered(column["name"] for column in schema[1:])
    is_svm = schema[0]["kind"] == "label" and len(known) == width
    width += len(drop)
    if is_svm:
        known += _numbered(map(str, drop))
        first = min(*known, 1)
        width = max(known) + 1 - first
    if smallest < first or largest >= first + width:
        index = smallest if smallest < first else largest
        known = f"indices of the training set, {first} to {first + width - 1}"
        raise DataError(f"{path}: feature index {index} is not one of the {known}")
    return first, width, is_svm


def _read_npz(path, trained):
    """Read the arrays X (n, d) and y (n,) of an .npz file; y may be absent if `trained`."""
    with local.unpacking(path):
        with zipfile.ZipFile(path) as archive:
            size = sum(info.file_size for info in archive.infolist())
        if size > 16 * MAX_CELLS:  # 8 bytes per float, and as much for labels and other arrays
            raise DataError(f"{path}: {size} bytes when unpacked, too many; use fewer rows")
        with np.load(path, allow_pickle=False) as archive:
            X, y = (archive[key] if key in archive.files else None for key in ("X", "y"))
    y = None if y is None else y.ravel()
    local.check_arrays(path, X, np.zeros(np.shape(X)[:1]) if y is None and trained else y)
    return _array_table(str(path), X, y)


def _array_table(where, X, y):
    """Return the table of arrays X (n, d) and y (n,) or None."""
    _check_size(where, *X.shape)
    X = np.ascontiguousarray(X, dtype=float)
    columns, names = [*X.T], [f"x{j}" for j in range(X.shape[1])]
    table = _Table(where, names, lambda *_: (columns, range(len(X)), X), fixed=True, unit="row")
    if y is not None:
        table.label = len(columns)
        columns.append(_texts(y.astype(str).tolist()))
        names.append("label")
    return table


# -- numbers in texts ------------------------------------------------------------------------------

MISSING = {"", "?", "NA", "N/A", "NaN", "nan", "null"}
MISSING_CELL = "?"  # replaces all of these in columns of texts
SWAPPED = str.maketrans(",.", ".,")  # turns numbers with a decimal comma into Python's


def _number(text, decimal="."):
    """Return the value of a text; None if it is not a number."""
    text = text.translate(SWAPPED) if decimal == "," else text
    try:
        return None if "_" in text or text in MISSING else float(text)
    except ValueError:
        return None


def _floats(cells, decimal="."):
    """Convert texts to a float array, missing cells to NaN; None if one is not a number."""
    if decimal == ",":
        cells = [cell.translate(SWAPPED) for cell in cells]
    if "_" in "".join(cells):  # a text in a table; Python reads 10_19 as 1019
        return None
    with suppress(ValueError):
        return np.array(cells, dtype=float)
    with suppress(ValueError):
        stripped = (cell.strip() for cell in cells)  # NumPy strips fewer kinds of blanks.
        return np.array(["nan" if cell in MISSING else cell for cell in stripped], dtype=float)
    return None


def _texts(cells):
    """Strip all texts; missing ones become MISSING_CELL."""
    clean = {raw: MISSING_CELL if (cell := raw.strip()) in MISSING else cell for raw in set(cells)}
    return [clean[raw] for raw in cells]


def _shortest(text, decimal="."):
    """Return a number in its shortest form, any other text unchanged."""
    value = _number(text, decimal)
    return text if value is None else repr(value + 0.0).removesuffix(".0")


def _ordered(texts):
    """Sort texts by value if all are numbers (- and + are -1 and 1), else alphabetically."""
    values = {text: {"-": -1.0, "+": 1.0}.get(text, _number(text)) for text in texts}
    return sorted(sorted(texts), key=None if None in values.values() else values.get)


# -- from table to data set ------------------------------------------------------------------------

NUMERIC_FRACTION = 0.9  # With this fraction of numbers a column is numeric; any text is an error.
MAX_LEVELS = 50  # Levels that a category may have in any number of rows.
BOUND = 1e150  # Larger numbers are refused, as by the methods: their squares overflow.
IDENTIFIER_ROWS = 20  # In fewer rows, distinct whole numbers need not be identifiers.


def _dataset(table, label=None, positive=None, schema=None, drop=(), rule=None, labels=None):
    """Choose the columns, find their schema if none is given, encode features and labels.

    An empty list `labels` is given for one of several files, in which classes may be absent: it is
    filled with the labels, and y are codes into it.
    """
    trained = schema is not None
    table.dropped = {_find(table, column, optional=trained) for column in drop} - {None}
    if trained:
        features, target = _match(table, label, schema)
        kinds = [column for column in schema if column["kind"] != "label"]
        text = {j for j, kind in zip(features, kinds, strict=True) if kind["kind"] == "category"}
    else:
        target = _label_column(table, label)
        features = [j for j in table.used() if j != target]
        coded = table.names if table.categorical == "*" else table.categorical.split(";")
        text = {j for j in features if table.names[j] in coded}
    if not features:
        raise DataError(f"{table.where}: no feature columns; a table needs features and a label")
    if labels is not None and target is None:
        raise DataError(f"{table.where}: has no labels, as the first file has; add their column")
    text |= set() if target is None else {target}
    table.columns, table.lines, table.matrix = table.source(text, table.dropped)
    if (n := len(table.lines)) < (least := 1 if trained else 2):
        raise DataError(f"{table.where}: rows of data must be at least {least}, got {n}")
    if not trained or labels is not None:
        table.drop_unlabelled(target)
    if not trained:
        kinds = [_feature_schema(table, j, j in text) for j in features]
        place = sum(j < target for j in features)
        own = {"name": table.names[target], "kind": "label", "levels": [], "members": []}
        own = own if labels is not None else _label_schema(table, target, rule, positive)
        schema = [*kinds[:place], own, *kinds[place:]]
    known = next(column for column in schema if column["kind"] == "label")
    X, names = _encode(table, features, kinds, strict=labels is not None)
    if labels is not None:
        codes = {text: k for k, text in enumerate(dict.fromkeys(table.columns[target]))}
        y = np.array([codes[text] for text in table.columns[target]], dtype=np.int64)
        labels += codes
    else:
        y = None if target is None else _class_codes(table, target, known, rule)
    if y is not None and (others := y == OTHER).any():
        table.notes.append(f"rows of other classes left out: {others.sum()}")
        X, y = X[~others], y[~others]
    missing = np.isnan(X).sum(axis=0)
    if missing.any():
        places = [f"{names[k]} ({missing[k]})" for k in np.flatnonzero(missing)]
        table.notes.append(f"numbers missing: {missing.sum()}, in {_listing(places)}")
    if not trained and (likely := _identifiers(X, names)):
        note = f"possible identifiers (distinct whole numbers): {_listing(likely)}"
        table.notes.append(f"{note}; --drop leaves them out")
    reading = {"drop": [table.names[j] for j in sorted(table.dropped)]}
    return Dataset(X, y, table.where, names, known["levels"], table.notes, schema, reading)


def _label_column(table, label):
    """Return the number of the label column, the given one if any."""
    if label is not None or table.label is not None:
        j = _find(table, table.names[table.label] if label is None else label)
        if table.fixed and table.label != j:
            raise DataError(f"{table.where}: this format fixes the label column; leave out label")
        if j in table.dropped:
            raise table.error(j, "is the label; it cannot be dropped")
        return j
    used = table.used()
    lower = {table.names[j].lower(): j for j in reversed(used)}
    if known := [lower[name] for name in LABEL_NAMES if name in lower]:
        return known[0]
    if not used:
        raise DataError(f"{table.where}: all columns are dropped; leave a label and a feature")
    table.notes.append(f"label: the last column, {table.names[used[-1]]!r}")
    return used[-1]


def _find(table, column, optional=False):
    """Return the number of a column given by name or number; None if optional and absent."""
    column, width = str(column), len(table.names)
    if column in table.names:
        return table.names.index(column)
    if re.fullmatch(r"-?\d{1,9}", column) and -width <= int(column) < width:
        return int(column) % width
    if optional:
        return None
    hint = f"{_nearest(column, table.names)}; the columns are {_listing(table.names)}"
    raise DataError(f"{table.where}: no column {_short(column)!r}{hint}")


def _numbered(names):
    """Return the numbers of the names x0, x1, ...; other names are skipped."""
    return [int(name[1:]) for name in names if re.fullmatch(r"x\d{1,9}", name)]


def _match(table, label, schema):
    """Return the columns of a schema: its features in order, and its label or None."""
    names = [column["name"] for column in schema]
    numbers = _numbered(names)
    place = next(j for j, column in enumerate(schema) if column["kind"] == "label")
    label_name = names.pop(place)
    used = table.used()
    target = table.label if table.label in used else None
    target = target if label is None else _label_column(table, label)
    at = {table.names[j]: j for j in used}
    if table.header and not at.keys().isdisjoint(names):
        if absent := [name for name in names if name not in at]:
            raise DataError(f"{table.where}: lacks columns used in training: {_listing(absent)}")
        target = at.get(label_name) if target is None else target
        features = [at[name] for name in names]
        if target in features:
            raise table.error(target, "is a feature in the training set; it cannot be the label")
        if extra := set(used) - {target, *features}:
            listing = _listing(table.names[j] for j in sorted(extra))
            table.notes.append(f"columns not used in training: {listing}; ignored")
        return features, target
    if table.header:
        table.notes.append("no column name of the training set occurs: matched by position")
    elif len(numbers) == len(schema) <= max(numbers) and not table.dropped:
        hint = "give --drop again, or a file with a header"
        raise DataError(f"{table.where}: columns were dropped in training and none here; {hint}")
    if target is None and not table.fixed and len(used) == len(schema):
        target = used[place]
    features = [j for j in used if j != target]
    if len(features) != len(names):
        counts = f"must be {len(names)}, as in training, got {len(features)}"
        raise DataError(f"{table.where}: feature columns {counts}")
    return features, target


def _feature_schema(table, j, category):
    """Return the schema of a feature column; `category` keeps number codes as categories.

    The column is numeric if all cells are numbers or missing. Otherwise it becomes one indicator
    column per level, where "?" is the level of missing cells. If a fraction NUMERIC_FRACTION of its
    cells are numbers, the others are taken for typing errors.
    """
    column, name = table.columns[j], table.names[j]
    if isinstance(column, np.ndarray) and (column[0] == column[0] or not np.isnan(column).all()):
        return {"name": name, "kind": "number", "levels": []}
    levels = set() if isinstance(column, np.ndarray) else set(column) - {MISSING_CELL}
    hint = f"--drop {shlex.quote(_short(name))} leaves it out"
    if not levels:
        raise table.error(j, f"all cells are missing; {hint}")
    if not category:  # Are the texts mistyped numbers?
        words, given = table.words(j), len(column) - column.count(MISSING_CELL)
        other, advice = ",", "has a decimal comma; write a point, or give --decimal ,"
        if table.decimal == ",":
            other, advice = ".", "has a decimal point; write a comma, or leave out --decimal ,"
        if all(_number(text, other) is not None for text in words):
            raise table.wrong_cell(j, words, advice)
        if given - sum(text in words for text in column) >= NUMERIC_FRACTION * given:
            raise table.wrong_cell(j, words, "is not a number; correct it or write ?")
    if len(levels) > max(MAX_LEVELS, len(column) / 2):
        counts = f"{len(levels)} texts in {len(column)} rows"
        raise table.error(j, f"{counts} look like an identifier; {hint}")
    missing = [MISSING_CELL] if MISSING_CELL in column else []
    return {"name": name, "kind": "category", "levels": _ordered(levels) + missing}


def _encode(table, features, kinds, strict=False):
    """Return X (n, d) and its column names: one column per number, one indicator per level.

    Texts that are not levels of the schema have no indicator; if strict, they are errors.
    """
    n, sizes = len(table.lines), [len(kind["levels"]) or 1 for kind in kinds]
    _check_size(table.where, n, sum(sizes))
    is_number = [isinstance(column, np.ndarray) for column in table.columns]
    given = features == [*np.flatnonzero(is_number)]
    X = table.matrix if given else np.zeros((n, sum(sizes)))
    names, unseen = [], 0
    for j, kind in zip(features, kinds, strict=True):
        column, k = table.columns[j], len(names)
        if kind["kind"] == "number":
            if not is_number[j]:
                raise table.wrong_cell(j, table.words(j), "is not a number")
            if not given:
                X[:, k] = column
            names.append(kind["name"])
        elif is_number[j]:
            raise table.error(j, "is categorical in the training set; give a CSV file")
        else:
            position = {level: i for i, level in enumerate(kind["levels"], k)}
            at = np.array([position.get(text, -1) for text in column])
            X[at >= 0, at[at >= 0]] = 1.0
            if strict and (at < 0).any():
                known = f"{_listing(kind['levels'])}; all levels must occur there"
                new = set(column) - {*kind["levels"]}
                raise table.wrong_cell(j, new, f"is not in the first file, which has {known}")
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
        note = f"categorical columns: {len(levels)}, as {sum(levels)} indicator columns"
        table.notes.append(note)
    return X, names


def _identifiers(X, names):
    """Return the names of the columns with distinct whole numbers, as identifiers have."""
    likely = np.arange(X.shape[1] if len(X) >= IDENTIFIER_ROWS else 0)
    for n in (1000, len(X)):  # The first rows exclude nearly all columns.
        some = np.sort(X[:n, likely], axis=0)
        whole, distinct = some == np.floor(some), np.diff(some, axis=0) > 0
        likely = likely[whole.all(axis=0) & distinct.all(axis=0)]
    return [names[k] for k in likely]


def check_schema(schema):
    """Return the classes and the number of features; DataError unless `load` returns such lists."""

    def texts(values):
        return isinstance(values, list) and all(isinstance(value, str) for value in values)

    def valid(name, kind, levels, members=()):
        least = {"number": 0, "category": 1, "label": 2}[kind]
        counts = len(levels) >= least and (kind != "number" or not levels)
        counts = counts and len(members) == (len(levels) if kind == "label" else 0)
        named = texts([name]) and texts(levels) and len(set(levels)) == len(levels)
        return counts and named and all(texts(labels) and labels for labels in members)

    try:
        kinds = [column["kind"] for column in schema if valid(**column)]
        whole = isinstance(schema, list) and len(kinds) == len(schema) > kinds.count("label") == 1
        whole = whole and len({column["name"] for column in schema}) == len(schema)
    except (KeyError, TypeError):  # absent, unknown, or of another type
        whole = False
    if not whole:
        raise DataError("load: the schema is damaged; give the `schema` of a loaded set")
    classes = schema[kinds.index("label")]["levels"]
    return classes, sum(len(column["levels"]) or 1 for column in schema) - len(classes)


# -- classes ---------------------------------------------------------------------------------------

MAX_CLASSES = 100
MAX_REAL_CLASSES = 20  # More labels with fractions are a regression target.
UNLABELLED, OTHER = -1, -2  # codes of a row without a label, and of one that a rule leaves out


def _label_schema(table, j, rule, positive):
    """Return the schema of the label column: the classes, and the labels of each."""
    _, groups = _group(table.where, table.columns[j], rule, positive, table.decimal)
    if problem := _class_problem(groups):
        raise table.error(j, problem)
    for name, members in groups.items():
        if len(members) > 1:
            table.notes.append(f"classes merged into {name!r}: {_listing(members)}")
    own = {"name": table.names[j], "kind": "label"}
    return own | {"levels": [*groups], "members": [*groups.values()]}


def _group(where, labels, rule, positive, decimal="."):
    """Return {label: name} and {class: names}; the positive class comes last.

    Classes are ordered by value if all are numbers, in shortest form (+1 and 1.0 are "1"), else
    alphabetically; "-" precedes "+".
    """
    names = {label: label for label in labels}
    if all(_number(label, decimal) is not None for label in names):
        names = {label: _shortest(label, decimal) for label in names}
    groups = _regroup(where, {name: [name] for name in _ordered({*names.values()})}, rule)
    if positive is not None:
        groups = _regroup(where, groups, (str(positive), "rest"))
    return names, groups


def _class_problem(groups):
    """Return an error message if these cannot be the classes, else None."""
    values = [_number(name) for name in groups]
    real = None not in values and not all(value.is_integer() for value in values)
    if len(groups) > (MAX_REAL_CLASSES if real else MAX_CLASSES):
        return f"{len(groups)} distinct labels look like a regression target; choose a class column"
    return None if len(groups) > 1 else f"only one class, {_listing(groups)}; two are needed"


def _regroup(where, groups, rule):
    """Apply a rule (left, right) to {class: labels}; the positive class comes last."""
    if rule is None:
        return groups
    left = _classes_of(where, rule[0], groups)
    if rule[1] == "rest":
        right = [name for name in groups if name not in left]
        sides = [(right[0] if len(right) == 1 else "rest", right), ("+".join(left), left)]
    else:
        right = _classes_of(where, rule[1], groups)
        sides = [("+".join(left), left), ("+".join(right), right)]
    if not right or set(left) & set(right):
        raise DataError(f"{where}: {'-vs-'.join(rule)} must have different classes on each side")
    return {name: [*chain(*(groups[one] for one in side))] for name, side in sides}


def _classes_of(where, side, groups):
    """Split one side of a rule into class names."""
    names = []
    for text in [side] if side in groups else side.split("+"):
        name = text if text in groups else _shortest(text)
        if name not in groups:
            hint = f"{_nearest(text, groups)}; the classes are {_listing(groups)}"
            raise DataError(f"{where}: no class {text!r}{hint}")
        names.append(name)
    return names


def _class_codes(table, j, known, rule):
    """Return codes (n,) of the labels: class, UNLABELLED or OTHER; None if no class is known."""
    column = table.columns[j]
    groups = zip(known["levels"], known["members"], strict=True)
    codes = {name: k for k, (level, labels) in enumerate(groups) for name in (level, *labels)}
    given = set(column) - {MISSING_CELL}
    names = {text: text if text in codes else _shortest(text, table.decimal) for text in given}
    chosen = set(chain(*_regroup(table.where, {n: [n] for n in names.values()}, rule).values()))
    unseen = {text for text, name in names.items() if name in chosen and name not in codes}
    if chosen.isdisjoint(codes):
        name = _short(table.names[j])
        table.notes.append(f"column {name!r} has no class of the training set; ignored")
        return None
    if unseen:
        levels = _listing(known["levels"])
        raise table.wrong_cell(j, unseen, f"is not a class of the training set: {levels}")
    if missing := column.count(MISSING_CELL):
        table.notes.append(f"rows without a label, not counted in errors: {missing}")
    code_of = {text: codes[name] if name in chosen else OTHER for text, name in names.items()}
    code_of[MISSING_CELL] = UNLABELLED
    return np.array([code_of[text] for text in column], dtype=np.int64)


def class_weights(text, classes) -> dict:
    """Read `name=factor,...` as {"class_weight": {code: factor}}; {} if None or balanced."""
    if text is None or text == "balanced":
        return {}
    factors, rest = {}, ""
    for item in str(text).split(","):
        rest += f",{item}" if rest else item
        name, _, factor = rest.rpartition("=")
        name, value = name if name in classes else _shortest(name), _number(factor)
        if name in classes and value is not None:  # Otherwise the name may have a comma in it.
            factors[classes.index(name)], rest = value, ""
            if not 0 < value < np.inf:
                raise DataError(f"class_weight: {factor} for {name!r}; factors are finite and > 0")
    if rest or not factors:
        known = f"of the classes {_listing(classes)}"
        raise DataError(f"class_weight: {_short(rest)!r} is not balanced nor name=factor {known}")
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
    """Fill missing cells and scale columns as SCALES says, by statistics of the training rows only.

    A missing cell becomes the column's median (0 if it has no value at all); with keep_gaps it
    stays missing. A column that is constant in the training rows, or spread less than 1e-150,
    becomes 0 (except with none).

    `fit` sets fill_, center_ and spread_, arrays (d,): the scaled value is (x - center_) / spread_,
    or 0 if spread_ is 0; and missing_, the number of missing cells in the training rows.
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
            self.fill_ = np.median(X, axis=0)  # equal, and much faster
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
        X, d = np.asarray(X, dtype=float), len(self.fill_)
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
        """Return the object whose `to_dict` is given; raise DataError if the dict is damaged."""
        try:
            prep, arrays = cls(state["scale"]), ("fill_", "center_", "spread_")
            prep.missing_ = state["missing_"]
            prep.fill_, prep.center_, prep.spread_ = np.array([state[key] for key in arrays], float)
            whole = np.isfinite([prep.center_, prep.spread_]).all() and (prep.spread_ >= 0).all()
            whole = whole and prep.fill_.ndim == 1 and not np.isinf(prep.fill_).any()
            whole = whole and isinstance(prep.missing_, int) and prep.missing_ >= 0
        except (KeyError, OverflowError, TypeError, ValueError):  # absent, or of another kind
            whole = False
        if not whole:
            raise DataError("Preprocess: the state is damaged; give the dict of `to_dict`")
        return prep


def splits(y, *, trials=10, train=0.5, cv=None, seed=0, first=0) -> Iterator[tuple]:
    """Yield stratified splits (train_rows, test_rows), each sorted.

    Split t depends on `seed` and t only, not on the number of trials.

    y : (n,) labels
    trials : number of random splits; with `cv`, of repetitions with new folds
    train : training rows as a fraction in (0, 1) or a number; at least one per class
    cv : number of folds; each is the test set once
    seed, first : integer >= 0; number of the first trial, those before it cost nothing
    """
    codes, counts = np.unique(y, return_inverse=True, return_counts=True)[1:]
    n, size = len(codes), train if cv or not 0 < train < 1 else round(train * len(codes))
    if trials < 1 or seed < 0:
        raise DataError(f"splits: needs trials >= 1 and seed >= 0, got {trials} and {seed}")
    if cv is not None and not 2 <= cv <= counts.min():
        limits = f"from 2 to {counts.min()}, the size of the smallest class"
        raise DataError(f"splits: cv must be {limits}, got {cv}")
    if cv is None and (size % 1 or not len(counts) <= size < n):
        limits = f"from {len(counts)}, one per class, to {n - 1}, to leave one for testing"
        raise DataError(f"splits: train={train} means {size:g} rows; it must be {limits}")

    def draw():
        ranks = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
        # Sainte-Lague apportionment: one row per class, then rows in the order of these keys.
        keys = np.where(ranks == 0, -1, (ranks + 0.5) / np.repeat(counts, counts))
        turns = np.argsort(keys, kind="stable")
        for trial in range(first, trials):
            rows = np.random.default_rng([seed, trial]).permutation(n)
            rows = rows[np.argsort(codes[rows], kind="stable")]  # Class after class.
            folds = np.empty(n, dtype=int)
            if cv is None:
                folds[rows[turns]] = np.arange(n) < size
            else:
                folds[rows] = np.arange(n) % cv
            for fold in range(cv or 1):
                yield np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)

    return draw()


# -- row blocks ------------------------------------------------------------------------------------


def blocks(source, y=None, sample_weight=None, client=None, coded=False, **reading):
    """Make row blocks, which `fit` of several methods takes in place of X and y.

    Parameters
    ----------
    source : a list of tuples (X, y) or (X, y, sample_weight) of arrays, which stay in memory; or a
        directory of files, in the order of their names (part2 before part10): either .npz files
        with arrays X, y and perhaps sample_weight, or CSV, TSV or LIBSVM text, plain or gzipped; or
        a Dask array X, whose chunks of rows are the blocks.
    y, sample_weight : arrays, or Dask arrays, if source is a Dask array; else None.
    client : a distributed.Client: the blocks live on its workers, which read the files themselves,
        by equal paths. None: in this process; for a Dask array, on the default client if any.
    coded : if True, y of .npz files become codes, as of text; they do with the option positive.
    reading : options of `load` for text: label, positive, drop, encoding, decimal, delimiter.

    Blocks of a directory are out of core. An array of float64 in an .npz file without compression
    is mapped; anything else is converted once into unnamed files in the directory for temporary
    files (TMPDIR), which are freed with the object. The columns of text are those of the first
    file; y are codes into the attribute `classes`, the classes of all files. Without codes this is
    None and y is as stored or given. `blocks[:5]` are the first five.
    """
    positive, notes = reading.get("positive"), []
    is_dask = hasattr(source, "dask") and hasattr(source, "rechunk")
    if not is_dask and (y is not None or sample_weight is not None):
        raise DataError("blocks: y and sample_weight are for Dask arrays; leave them out")
    if isinstance(source, str | os.PathLike):
        opened, notes = _file_sources(source, coded, reading)
    elif is_dask:
        opened = local.chunk_sources(source, y, sample_weight)
        with suppress(ImportError, ValueError):  # absent, or without a default client
            import distributed

            client = client or distributed.default_client()
    elif isinstance(source, list | tuple) and source:
        opened = [local.array_source(k, given) for k, given in enumerate(source)]
    else:
        kinds = "a list of tuples (X, y), a directory or a Dask array"
        hint = "; for rows in memory call fit(X, y)" if hasattr(source, "__array__") else ""
        raise DataError(f"blocks: source must be {kinds}, got {type(source).__name__}{hint}")
    args = opened, notes, functools.partial(_common_labels, positive)
    return local.LocalBlocks(*args) if client is None else remote.RemoteBlocks(client, *args)


def _common_labels(positive, infos, source):
    """Return classes, {label: code} and schema of all blocks; three None without codes."""
    if infos[0].labels is None:
        return None, None, None
    labels = chain(*(info.labels or () for info in infos))
    names, groups = _group(source.title, labels, None, positive)
    if problem := _class_problem(groups):
        raise DataError(f"{source.title} and the other files: {problem}")
    code = {name: k for k, members in enumerate(groups.values()) for name in members}
    known = {"levels": [*groups], "members": [*groups.values()]}
    columns = [*(f"x{j}" for j in range(infos[0].d)), "label"]
    schema = getattr(source, "schema", None) or _schema(columns)
    schema = [column | known if column["kind"] == "label" else column for column in schema]
    return [*groups], {label: code[name] for label, name in names.items()}, schema


def _schema(names):
    """Return the schema of columns of numbers; that called label is the label."""
    label = {"name": "label", "kind": "label", "levels": [], "members": []}
    number = {"kind": "number", "levels": []}
    return [label if name == "label" else {"name": name, **number} for name in names]


def _read_file(path, labels, label=None, schema=None, drop=(), **reading):
    """Load one of several text files; its y are codes into the list of labels, which is filled."""
    table = _open(_File(Path(path), **reading), label, schema, drop)
    data = _dataset(table, label, schema=schema, drop=drop, labels=labels)
    return replace(data, reading=data.reading | reading)


def _file_sources(folder, coded, reading):
    """Return the files of a directory as sources, in natural order, and notes on them."""
    paths = local.list_files(folder, SUFFIXES)
    options = {"encoding": "utf-8", "decimal": ".", "delimiter": None}
    options |= {key: given for key, given in reading.items() if key not in ("positive", "schema")}
    label, drop = options.pop("label", None), options.pop("drop", ())
    try:
        _check_reading(**options)
    except TypeError:
        known = "label, positive, drop, encoding, decimal and delimiter"
        raise DataError(f"blocks: options are {known}, got {_listing(reading)}") from None
    titles = [str(path.resolve()) for path in paths]
    if _suffix(paths[0]) == ".npz":
        if wrong := _listing(sorted(reading.keys() - {"positive"})):
            raise DataError(f"{folder}: .npz files are read in one way only; leave out {wrong}")
        coded = coded or "positive" in reading
        return [local.NpzSource(title, coded) for title in titles], []
    drop = [drop] if isinstance(drop, str | int) else [*drop]
    schema, drop = _widest(paths, options, label, drop)
    first = _read_file(paths[0], [], label=label, schema=schema, drop=drop, **options)
    args = first.schema, first.reading, _read_file
    return [local.TextSource(title, *args) for title in titles], first.notes


def _widest(paths, options, label, drop):
    """Return the schema of all files of LIBSVM text, None for tables; and the columns to drop."""
    spans = []
    for path in paths:
        table = _open(_File(path, **options), label, None, drop)
        if not table.fixed:
            return None, drop
        numbers = [int(name[1:]) for name in table.names[1:]]
        spans += [numbers[0], numbers[-1]] if numbers else []
    if not spans:
        raise DataError(f"{paths[0]}: no file has a feature; LIBSVM text is label index:value ...")
    names = ["label", *(f"x{j}" for j in range(min(spans), max(spans) + 1))]
    whole = _Table(str(paths[0]), names, None, label=0, fixed=True)
    dropped = [names[_find(whole, column)] for column in drop]
    return _schema(name for name in names if name == "label" or name not in dropped), dropped


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
    return _dataset(_array_table(f"gaussians:{n}", X, y))


def linear_problem(n, d, seed=0, noise=0.4) -> Dataset:
    """Draw n Gaussian points in d dimensions, labelled by a random linear rule with noise.

    Any two features have correlation 0.3. The label is the sign of s + noise * e, where s = w'x
    and e are of unit variance; the best possible error is arctan(noise) / pi, 12 % at 0.4.
    """
    if n < 2 or d < 1 or n * d > MAX_CELLS:
        needs = f"needs n >= 2, d >= 1 and n * d <= {MAX_CELLS}"
        raise DataError(f"linear_problem: {needs}, got n={n} and d={d}")
    rng, common = np.random.default_rng(seed), 0.3
    X = rng.standard_normal((n, d)) * np.sqrt(1 - common)
    X += rng.standard_normal((n, 1)) * np.sqrt(common)
    w = rng.standard_normal(d)
    w /= np.sqrt((1 - common) * w @ w + common * w.sum() ** 2)
    y = (X @ w + noise * rng.standard_normal(n) > 0).astype(int)
    return _dataset(_array_table(f"linear:{n}x{d}", X, y))

"""Data for the solvers: built-in sets, files and generators behind one `load`.

    load("heart")                     a built-in set, by name or alias
    load("vehicle:saab-vs-bus")       two classes of it; bus is the positive one
    load("wine.csv:1-vs-rest")        a file, one class against the rest
    load("linear:10000x20")           a generator: planted linear rule, 10000 rows, 20 columns

Files     CSV and TSV (comma, semicolon, tab or blanks), LIBSVM text, both plain or gzipped, and
          .npz with arrays X and y. Every bad input raises DataError with one line that says what
          is wrong, where, and what to do.
Size      The table is dense: at most 2^20 columns and 2^30 cells.
Header    The first row is a header when
          (a) it holds all feature names of the schema; or
          (b) all its cells differ, and one of its texts is a name we look for and is not found
              again below: the label asked for, a feature of the schema, or, without a schema,
              label, class, target or y; or
          (c) it holds no number, and below one of its texts stand only numbers; or
          (d) it holds no number, all its cells differ and none occurs again in its own column
              (not with a schema: its names are known).
          The first 1000 rows decide, fewer of tables with more than 1000 columns.
Columns   All cells numbers: numeric, gaps stay NaN. Otherwise one indicator column per level, and
          a gap is a level called "?". A column with at least 90 % numbers is taken for a numeric
          one with a typing error.
Classes   Coded 0..K-1 in the order of `classes`: by value if all are numbers (written in shortest
          form: +1 and 1.0 are "1"), else by alphabet; "-" stands before "+".
"""

import csv
import difflib
import functools
import gzip
import hashlib
import os
import re
import statistics
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

import numpy as np

DATA = Path(__file__).with_name("data")
MISSING = {"", "?", "NA", "N/A", "NaN", "nan", "null"}
GAP = "?"  # what every missing text cell becomes
LABEL_NAMES = ("label", "class", "target", "y")
SVM_SUFFIXES = {".svm", ".libsvm", ".svmlight"}
SUFFIXES = {".csv", ".tsv", ".txt", ".data", ".dat", ".npz"} | SVM_SUFFIXES
SVM_HINT = "drop rare features, and number the others from 1 on without gaps"
SVM_LINE = re.compile(r"[^\s:,;]+(\s+qid:\d+)?(\s+\d+:[^\s:]+)+\s*(#.*)?")
GAUSSIANS = re.compile(r"gaussians(?::(\d{1,18}))?", re.I)
LINEAR = re.compile(r"linear:(\d{1,18})x(\d{1,18})", re.I)
RULE = re.compile(r"(?P<base>.+):(?P<left>.+)-vs-(?P<right>.+)")
NOT_TABLES = {  # how files begin that are often taken for tables
    "JSON": r"\{|\[\s*[\[{\"]|\[$",
    "HTML or XML": r"<[!?a-zA-Z]",
    "ARFF": r"(?i)@relation\b",
}
BLOCK = 200_000  # cells converted at once: many enough for numpy, few enough for memory
HEADER_ROWS, HEADER_CELLS = 1000, 1_000_000
NUMERIC_SHARE = 0.9  # from here on a column is numeric and its odd cell an error
MAX_CLASSES = 100
MAX_REAL_CLASSES = 20  # more distinct numbers, not all whole: a regression target
MAX_LEVELS = 50  # a text column may always have this many levels
MAX_CELLS = 2**30  # 8 GiB of float64: beyond lies a wrong index or an identifier column
MAX_COLUMNS = 2**20  # each has a name and a kind; more of them are sparse, and do not fit anyway
BOUND = 1e150  # numbers from here on are refused, as the methods do: their squares overflow
SCALES = ("none", "minmax", "minmax01", "standard", "tanh")


class DataError(ValueError):
    """Data that cannot be used; the message is one line for the user."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table ready for a solver."""

    X: np.ndarray  # float64 (n, d), C-contiguous; NaN where a number is missing
    y: np.ndarray | None  # int64 (n,) codes into `classes`; None: read by schema, without labels
    name: str
    feature_names: list[str]  # an indicator column is called column=level
    classes: list[str]  # of two classes the last one is the positive one
    notes: list[str]  # what a user should know: guesses, gaps, merged classes
    schema: list[dict]  # JSON-able, per original column: name, kind (number, category or label),
    # levels; the label's also has members: the original labels of each class


def load(name_or_path, label=None, positive=None, schema=None) -> Dataset:
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
    """
    if schema is not None:
        check_schema(schema)
        if positive is not None:
            raise DataError("load: the schema fixes the positive class; leave out positive")
    base, rule = _split_rule(name_or_path)
    categorical, path = "", _path(base)
    if path is None:
        generated = _generated(base)
        name, table = base, _array_table(base, generated.X, generated.y)
    else:
        if name := _aliases().get(base.lower()):
            row = _index()[name]
            with _reading(path), gzip.open(path) as file:
                if hashlib.sha256(file.read()).hexdigest() != row["sha256_of_csv"]:
                    text = "differs from its checksum in INDEX.csv; restore the file"
                    raise DataError(f"{path}: {text}")
            categorical = row["categorical_columns"]
        name, table = name or _stem(path), _open(path, label, schema)
    if rule:
        name = f"{name}:{'-vs-'.join(rule)}"
    return _dataset(table, name, label, positive, schema, rule, categorical)


def locate(name_or_path) -> Path | None:
    """Return the file that `load` would read; None for a generated set."""
    return _path(_split_rule(name_or_path)[0])


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
    except (OSError, ValueError):  # absent, too long a name, or no name at all
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
    except (AttributeError, KeyError, TypeError):  # a part is absent or of another kind
        whole = False
    if not whole:
        raise DataError("load: the schema is damaged; give the `schema` of a loaded set")
    (classes,) = (column["levels"] for column in schema if column["kind"] == "label")
    return classes, sum(len(column["levels"]) or 1 for column in schema) - len(classes)


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
        if name in classes and value is not None:  # else the name may have a comma in it
            factors[classes.index(name)], rest = value, ""
            if not 0 < value < np.inf:
                raise DataError(f"class_weight: {factor} for {name!r}; factors are finite and > 0")
    if rest or not factors:
        known = f"of the classes {_listing(classes)}"
        raise DataError(f"class_weight: {_cut(rest)!r} is not balanced nor name=factor {known}")
    return {"class_weight": factors}


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


# -- numbers in texts ------------------------------------------------------------------------------


def _number(text):
    """Return the value of a text, None if it is no number."""
    try:
        return None if "_" in text or text in MISSING else float(text)
    except ValueError:
        return None


def _floats(cells):
    """Convert texts to a float array, gaps to NaN; None if one of them is no number."""
    if "_" in "".join(cells):  # Python reads 10_19 as 1019; in a table it is a text
        return None
    try:
        return np.array(cells, dtype=float)
    except ValueError:
        pass
    try:
        stripped = (cell.strip() for cell in cells)  # of more kinds of blanks than numpy knows
        return np.array(["nan" if cell in MISSING else cell for cell in stripped], dtype=float)
    except ValueError:
        return None


def _texts(cells):
    return [GAP if (cell := raw.strip()) in MISSING else cell for raw in cells]


def _shortest(text):
    """Write a number in its shortest form; leave other texts alone."""
    value = _number(text)
    return text if value is None else repr(value + 0.0).removesuffix(".0")


def _ordered(texts):
    """Sort by value if all are numbers (- and + count as such), else by alphabet."""
    values = {text: {"-": -1.0, "+": 1.0}.get(text, _number(text)) for text in texts}
    return sorted(sorted(texts), key=None if None in values.values() else values.get)


# -- reading files ---------------------------------------------------------------------------------


@dataclass
class _Table:
    """An opened table. The names of its columns are known; `read` brings in the cells.

    A column is a float array, or a list of texts with gaps as GAP. `source(text)` returns the
    columns and the line of each row; the columns numbered in the set `text` come as texts.
    Where the features are numbers by the format, `matrix` has them all, and the columns are its.
    """

    where: str
    names: list[str]
    source: Callable
    label: int | None = None  # None: the format does not say
    header: bool = False
    unit: str = "line"
    matrix: np.ndarray | None = None
    notes: list[str] = field(default_factory=list)
    columns: list = field(default_factory=list)
    lines: Sequence = ()

    def read(self, text):
        self.columns, self.lines = self.source(text)

    def error(self, j, problem, row=None):
        place = "" if row is None else f", {self.unit} {self.lines[row]}"
        return DataError(f"{self.where}{place}, column {_cut(self.names[j])!r}: {problem}")


def _open(path, label, schema):
    """Open a file of any format."""
    width = None if schema is None else len(schema) - 1
    if _suffix(path) == ".npz":
        return _read_npz(path, width)
    head = [line.strip("\r\n") for line in islice(_lines(path), 50) if line.strip()]
    if not head:
        raise DataError(f"{path}: the file is empty")
    first = next((line.strip() for line in head if not line.startswith("#")), "")
    for kind, beginning in NOT_TABLES.items():
        if re.match(beginning, first):
            hint = "give a table: CSV, TSV, LIBSVM or .npz"
            raise DataError(f"{path}: the file begins as {kind} does; {hint}")
    if _suffix(path) in SVM_SUFFIXES or SVM_LINE.fullmatch(first):
        return _read_svm(path, width)
    return _read_csv(path, _delimiter(head), label, schema)


@contextmanager
def _reading(path):
    """Turn whatever goes wrong with a file into a DataError."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: truncated or corrupt gzip file ({error})") from None
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise DataError(f"{path}: byte 0x{byte:02x} is not UTF-8; save it as UTF-8 text") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


def _lines(path) -> Iterator[str]:
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    with _reading(path), opener(path, "rt", encoding="utf-8-sig", newline="") as file:
        for line in file:
            if "\0" in line:
                raise DataError(f"{path}: holds NUL bytes, as UTF-16 does; save it as UTF-8 text")
            yield line


def _cells(lines, delimiter, strict=True):
    """Return a csv reader; a blank as delimiter stands for any run of blanks and tabs."""
    if delimiter == " ":
        lines = (line.replace("\t", " ").strip() for line in lines)
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=strict)


def _delimiter(head):
    """Return the delimiter that cuts most of the first lines into equally many cells."""

    def agreement(delimiter):
        try:
            widths = [len(cells) for cells in _cells(head, delimiter, strict=False)]
        except csv.Error:  # a line without this delimiter may be longer than a cell can be
            return 0
        usual = statistics.mode(widths)
        return widths.count(usual) if usual > 1 else 0

    return max("\t;, ", key=agreement)


def _rows(path, delimiter):
    """Yield line number and cells of every row that is not blank; all have the same width."""
    reader, width = _cells(_lines(path), delimiter), None
    try:
        for cells in reader:
            if not cells or cells == [""]:
                continue
            width = width or len(cells)
            if len(cells) != width:
                place = f"{path}, line {reader.line_num}"
                raise DataError(f"{place}: expected {width} cells, found {len(cells)}")
            _check_size(path, 1, width)
            yield reader.line_num, cells
    except csv.Error as error:
        hint = "check the quotes, and whether it is a table"
        raise DataError(f"{path}, line {reader.line_num}: {error}; {hint}") from None


def _read_csv(path, delimiter, label, schema):
    head = []
    for _, cells in _rows(path, delimiter):
        head.append([cell.strip() for cell in cells])
        if len(head) == HEADER_ROWS or len(head) * len(cells) >= HEADER_CELLS:
            break
    if not head:
        raise DataError(f"{path}: the file has no cell that is not empty")
    trained = {column["name"] for column in schema or () if column["kind"] != "label"}
    known = trained or {*LABEL_NAMES}
    header = _has_header(head, known if label is None else known | {str(label)}, trained)
    columns = [f"x{j}" for j in range(len(head[0]))]
    if header:
        columns = [name or default for name, default in zip(head[0], columns, strict=True)]
        if len(set(columns)) < len(columns):
            raise DataError(f"{path}: two columns are called {statistics.mode(columns)!r}")
    size = max(1, BLOCK // len(columns))
    table = _Table(str(path), columns, functools.partial(_parse, path, delimiter, header, size))
    table.header = header
    if not header:
        table.notes.append("no header found: the columns are called x0, x1, ...")
    return table


def _has_header(rows, known, trained):
    """Apply the rule of the module docstring; `trained` are the features of the schema, if any."""
    first = rows[0]
    if trained and trained <= set(first):
        return True
    below = list(zip(*rows[1:], strict=True)) or [()] * len(first)
    given = [pair for pair in zip(first, below, strict=True) if pair[0] not in MISSING]
    texts = [(cell, column) for cell, column in given if _number(cell) is None]
    fresh = [cell for cell, column in texts if cell not in column]
    distinct = len(set(first)) == len(first)
    if distinct and not known.isdisjoint([*fresh, *map(str.lower, fresh)]):
        return True
    if len(rows) == 1 or len(texts) < len(given):
        return False
    if distinct and len(fresh) == len(first) and not trained:
        return True
    values = [_floats(column) for _, column in texts]
    return any(column is not None and not np.isnan(column).all() for column in values)


def _parse(path, delimiter, skip, size, text):
    """Read all rows, `size` at once; start again when a further column turns out to be text."""
    parts, lines = [], array("q")
    rows = islice(_rows(path, delimiter), int(skip), None)
    while block := list(islice(rows, size)):
        numbers, cells = zip(*block, strict=True)
        columns = enumerate(zip(*cells, strict=True))
        columns = [_texts(column) if j in text else _floats(column) for j, column in columns]
        if further := {j for j, column in enumerate(columns) if column is None}:
            return _parse(path, delimiter, skip, size, text | further)
        parts.append(columns)
        lines.extend(numbers)
    joined = [
        list(chain(*blocks)) if j in text else np.concatenate(blocks)
        for j, blocks in enumerate(zip(*parts, strict=True))
    ]
    return joined, lines


def _read_svm(path, width):
    """Read LIBSVM text, `label index:value ...`, into a dense table; indices start at 1."""
    labels, lines, sizes = [], array("q"), array("q")
    indices, values = array("q"), array("d")
    for number, line in enumerate(_lines(path), 1):
        cells = line.partition("#")[0].split()
        if not cells:
            continue
        place = f"{path}, line {number}"
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
                j = 0
            if j < 1 or j in row or "_" in cell:  # Python reads 1_0 as 10
                wrong = f"{_cut(cell)!r} is not index:value with a new index from 1 on"
                raise DataError(f"{place}: {wrong}")
            if j > MAX_COLUMNS:
                _check_size(place, 1, j, SVM_HINT)
            row[j] = x
        labels.append(cells[0])
        lines.append(number)
        sizes.append(len(row))
        indices.extend(row)
        values.extend(row.values())
    largest = max(indices, default=0)
    if width is not None and largest > width:
        raise DataError(f"{path}: feature index {largest}, the training set has {width} columns")
    n, d = len(labels), largest if width is None else width
    _check_size(path, n, d, SVM_HINT)
    X = np.zeros((n, d))
    X[np.repeat(np.arange(n), sizes), np.array(indices) - 1] = values
    columns = [_texts(labels), *X.T]
    names = ["label", *(f"x{j}" for j in range(1, d + 1))]
    return _Table(str(path), names, lambda text: (columns, lines), label=0, matrix=X)


def _read_npz(path, width):
    """Read the arrays X (n, d) and y (n,) of an .npz file; with a schema y may be absent."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(part.file_size for part in archive.infolist())
        if size > 16 * MAX_CELLS:  # a float is 8 bytes; as much again for labels and others
            raise DataError(f"{path}: {size} bytes when unpacked, too many; keep fewer rows")
        with np.load(path, allow_pickle=False) as archive:
            X, y = (archive[key] if key in archive.files else None for key in ("X", "y"))
    except DataError:
        raise
    except Exception as error:  # zipfile and numpy raise a dozen kinds on damaged archives
        cause = " ".join(str(error).split())
        hint = "write it with numpy.savez(path, X=X, y=y)"
        raise DataError(f"{path}: not an .npz file of plain arrays ({cause}); {hint}") from None
    if X is None or (y is None and width is None):
        raise DataError(f"{path}: needs two arrays called X and y")
    X, y = np.asarray(X), None if y is None else np.asarray(y)
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise DataError(f"{path}: X must be a table of numbers, got {X.dtype} {X.shape}")
    if width is not None and X.shape[1] != width:
        raise DataError(f"{path}: X has {X.shape[1]} columns, the training set has {width}")
    if y is not None and (y.shape != X.shape[:1] or y.dtype.kind not in "biufU"):
        raise DataError(f"{path}: y must be {len(X)} labels, one per row, got {y.dtype} {y.shape}")
    return _array_table(str(path), X, y)


def _array_table(where, X, y):
    _check_size(where, *X.shape)
    X = np.ascontiguousarray(X, dtype=float)
    columns, names = [*X.T], [f"x{j}" for j in range(X.shape[1])]
    table = _Table(where, names, lambda text: (columns, range(len(X))), unit="row", matrix=X)
    if y is not None:
        table.label = len(columns)
        columns.append(_texts(y.astype(str).tolist()))
        names.append("label")
    return table


def _check_size(where, n, d, hint="keep fewer rows or columns"):
    """Raise DataError if n rows of d columns would be too large."""
    if d > MAX_COLUMNS or n * d > MAX_CELLS:
        size = f"{d} columns" if d > MAX_COLUMNS else f"{n} x {d} cells"
        raise DataError(f"{where}: {size} are too many for a dense table; {hint}")


# -- from table to data set ------------------------------------------------------------------------


def _dataset(table, name, label=None, positive=None, schema=None, rule=None, categorical=""):
    """Choose the columns, describe them unless a schema does, encode features and labels."""
    trained = schema is not None
    if trained:
        features, target = _match(table, label, schema)
        kinds = [column for column in schema if column["kind"] != "label"]
        text = {j for j, kind in zip(features, kinds, strict=True) if kind["kind"] == "category"}
    else:
        target = _label_column(table, label)
        features = [j for j in range(len(table.names)) if j != target]
        coded = table.names if categorical == "*" else categorical.split(";")
        text = {j for j in features if table.names[j] in coded}
    if not features:
        raise DataError(f"{table.where}: no feature columns; a table needs features and a label")
    table.read(text | {target})
    if len(table.lines) < (1 if trained else 2):
        raise DataError(f"{table.where}: rows of data: {len(table.lines)}, too few to use")
    if not trained:
        kinds = [_describe(table, j, j in text) for j in features]
        schema = [*kinds[:target], _describe_label(table, target, rule, positive), *kinds[target:]]
    known = next(column for column in schema if column["kind"] == "label")
    X, feature_names = _encode(table, features, kinds)
    y = None if target is None else _code(table, target, known, rule)
    if y is not None and (y < 0).any():
        table.notes.append(f"rows of other classes left out: {(y < 0).sum()}")
        X, y = X[y >= 0], y[y >= 0]
    gaps = np.isnan(X).sum(axis=0)
    if gaps.any():
        places = [f"{feature_names[k]} ({gaps[k]})" for k in np.flatnonzero(gaps)]
        table.notes.append(f"numbers missing: {gaps.sum()}, in {_listing(places)}")
    return Dataset(X, y, name, feature_names, known["levels"], table.notes, schema)


def _label_column(table, label):
    if label is not None:
        return _find(table, label)
    if table.label is not None:
        return table.label
    lower = [name.lower() for name in table.names]
    for name in LABEL_NAMES:
        if name in lower:
            return lower.index(name)
    table.notes.append(f"label: the last column, {table.names[-1]!r}")
    return len(lower) - 1


def _find(table, label):
    """Return the number of the label column, given by name or number."""
    label, width = str(label), len(table.names)
    if label in table.names:
        found = table.names.index(label)
    elif re.fullmatch(r"-?\d{1,9}", label) and -width <= int(label) < width:
        found = int(label) % width
    else:
        hint = f"{_nearest(label, table.names)}; the columns are {_listing(table.names)}"
        raise DataError(f"{table.where}: no column {_cut(label)!r}{hint}")
    if table.label not in (None, found):
        raise DataError(f"{table.where}: this format fixes the label column; leave out label")
    return found


def _match(table, label, schema):
    """Find the columns of a schema: its features in order, and its label or None."""
    names = [column["name"] for column in schema]
    place = next(j for j, column in enumerate(schema) if column["kind"] == "label")
    label_name = names.pop(place)
    target = table.label if label is None else _find(table, label)
    at = {name: j for j, name in enumerate(table.names)}
    if table.header and not at.keys().isdisjoint(names):
        if lacking := [name for name in names if name not in at]:
            raise DataError(f"{table.where}: lacks columns used in training: {_listing(lacking)}")
        target = at.get(label_name) if target is None else target
        features = [at[name] for name in names]
        if target in features:
            raise table.error(target, "is a feature in the training set; it cannot be the label")
        if extra := set(range(len(table.names))) - {target, *features}:
            listing = _listing(table.names[j] for j in sorted(extra))
            table.notes.append(f"columns not used in training: {listing}; ignored")
        return features, target
    if table.header:
        table.notes.append("no column name of the training set occurs: matched by position")
    if target is None and len(table.names) == len(schema):
        target = place
    features = [j for j in range(len(table.names)) if j != target]
    if len(features) != len(names):
        counts = f"{len(features)} feature columns, the training set has {len(names)}"
        raise DataError(f"{table.where}: {counts}")
    return features, target


def _describe(table, j, category):
    """Return the schema of a feature column; `category` keeps number codes as categories."""
    column, name = table.columns[j], table.names[j]
    if isinstance(column, np.ndarray) and (column[0] == column[0] or not np.isnan(column).all()):
        return {"name": name, "kind": "number", "levels": []}
    levels = set() if isinstance(column, np.ndarray) else set(column) - {GAP}
    if not levels:
        raise table.error(j, "all cells are missing; drop the column")
    odd = {text for text in levels if _number(text) is None}
    if not category:
        row = next(row for row, text in enumerate(column) if text in odd)
        if all(_number(text.replace(",", ".", 1)) is not None for text in odd):
            raise table.error(j, f"{_cut(column[row])!r} has a decimal comma; write a point", row)
        given = len(column) - column.count(GAP)
        if given - sum(text in odd for text in column) >= NUMERIC_SHARE * given:
            raise table.error(
                j, f"{_cut(column[row])!r} is not a number; correct it or write ?", row
            )
    if len(levels) > max(MAX_LEVELS, len(column) / 2):
        counts = f"{len(levels)} texts in {len(column)} rows"
        raise table.error(j, f"{counts} look like an identifier; drop the column")
    gap = [GAP] if GAP in column else []
    return {"name": name, "kind": "category", "levels": _ordered(levels) + gap}


def _encode(table, features, kinds):
    """Return X and its column names: a column per number, an indicator per level of a category."""
    n, sizes = len(table.lines), [len(kind["levels"]) or 1 for kind in kinds]
    widest, hint = max(zip(sizes, features, strict=True)), {}
    if widest[0] > 1:
        name = _cut(table.names[widest[1]])
        hint["hint"] = f"drop the column {name!r}, which has {widest[0]} levels, or merge these"
    _check_size(table.where, n, sum(sizes), **hint)
    given = table.matrix is not None and max(sizes) == 1
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
        row = next(i for i, text in enumerate(column) if text != GAP and _number(text) is None)
        raise table.error(j, f"{_cut(column[row])!r} is not a number", row)
    return column


# -- classes ---------------------------------------------------------------------------------------


def _describe_label(table, j, rule, positive):
    """Return the schema of the label column: the classes and the labels that belong to each."""
    column = table.columns[j]
    if GAP in column:
        raise table.error(j, "the label is missing; fill it in or drop the row", column.index(GAP))
    labels = set(column)
    if all(_number(text) is not None for text in labels):
        labels = {_shortest(text) for text in labels}
    groups = _regroup(table.where, {name: [name] for name in _ordered(labels)}, rule)
    if positive is not None:
        groups = _regroup(table.where, groups, (str(positive), "rest"))

    values = [_number(name) for name in groups]
    real = None not in values and not all(value.is_integer() for value in values)
    if len(groups) > (MAX_REAL_CLASSES if real else MAX_CLASSES):
        counts = f"{len(groups)} distinct labels"
        raise table.error(j, f"{counts} look like a regression target; choose a class column")
    if len(groups) < 2:
        raise table.error(j, f"only one class, {_listing(groups)}; two are needed to learn")
    for name, members in groups.items():
        if len(members) > 1:
            table.notes.append(f"classes merged into {name!r}: {_listing(members)}")
    members = list(groups.values())
    return {"name": table.names[j], "kind": "label", "levels": list(groups), "members": members}


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
    """Return the class codes, -1 for rows outside the rule; None if no label is a known class."""
    column = table.columns[j]
    groups = zip(known["levels"], known["members"], strict=True)
    codes = {name: k for k, (level, labels) in enumerate(groups) for name in (level, *labels)}
    names = {text: text if text in codes else _shortest(text) for text in set(column)}
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
    code_of = {text: codes[name] if name in chosen else -1 for text, name in names.items()}
    return np.array([code_of[text] for text in column], dtype=np.int64)


# -- preprocessing and splits ----------------------------------------------------------------------


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
        if scale not in SCALES:
            raise DataError(f"Preprocess: scale must be one of {', '.join(SCALES)}, got {scale!r}")
        self.scale, self.keep_gaps = scale, keep_gaps

    def fit(self, X):
        X = np.asarray(X, dtype=float)
        if X.ndim != 2 or len(X) == 0:
            raise DataError(f"Preprocess: X must be a table with rows, got shape {X.shape}")
        gaps = np.isnan(X)
        self.missing_ = int(gaps.sum())
        self.fill_ = np.nanmedian(np.where(gaps.all(axis=0), 0.0, X), axis=0)
        X = np.where(gaps, self.fill_, X)
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
        # rounding may leave a constant column a tiny std, and to divide by 1e-300 would overflow
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
        except (KeyError, OverflowError, TypeError, ValueError):  # absent, or of another kind
            whole = False
        if not whole:
            raise DataError("Preprocess: the state is damaged; give what `to_dict` returns")
        return prep


def splits(y, *, trials=10, train=0.5, cv=None, seed=0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (train_rows, test_rows), sorted, with the shares of the classes kept.

    Split t depends on `seed` and t only, not on the number of trials.

    Parameters
    ----------
    y : (n,) labels
    trials : number of random splits; with `cv`, of repetitions with new folds
    train : share of the rows in (0, 1), or number of rows; every class gets at least one
    cv : number of folds; each is the test set once
    seed : integer >= 0
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
        # Sainte-Lague: after one row each, the classes take turns in the order of these keys
        keys = np.where(ranks == 0, -1, (ranks + 0.5) / np.repeat(counts, counts))
        turns = np.argsort(keys, kind="stable")
        for trial in range(trials):
            rows = np.random.default_rng([seed, trial]).permutation(n)
            rows = rows[np.argsort(codes[rows], kind="stable")]  # class after class
            part = np.empty(n, dtype=int)
            if cv is None:
                part[rows[turns]] = np.arange(n) < size
            else:
                part[rows] = np.arange(n) % cv
            for fold in range(cv or 1):
                yield np.flatnonzero(part != fold), np.flatnonzero(part == fold)

    return draw()


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

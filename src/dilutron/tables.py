"""Tables from files: CSV, TSV, Parquet and h5ad, with one line for each way in which a file can be wrong."""

from __future__ import annotations

import csv
import gzip
import io
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from dilutron.special import Vector

if TYPE_CHECKING:
    import polars as pl

MISSING = ["NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL"]  # and nothing at all
SEPARATORS = ",\t;|"
MOST_CLASSES = 20  # a label of more is a measurement, or a name
NAMED = 5  # columns that an error lists
CUT = 40  # characters of a value that an error shows


class RefusedError(ValueError):
    """What cannot be done with a file, a folder or a request, in one line."""


class TableError(RefusedError):
    """A file that cannot be used: one line with the file, the place in it, and what to do."""


@dataclass(frozen=True, eq=False)
class Sheet:
    """Rows from a file.

    Attributes
    ----------
    file : Path
    X : array of shape (M, N)
        The features, NaN where missing, in columns that lie together.
    names : tuple of str
        Theirs, as they came.
    labels : array of shape (M,) of strings, or None
        None where no label was asked for.
    ids : tuple of str, or None
    id : str or None
        The column that they come from; None where there are none, or where the file has them of itself.
    ignored : tuple of str
        Columns that were neither asked for nor dropped, where only some features were asked for.
    constant : tuple of str
        Columns that were left out because they are the same in all rows.
    n_imputed : int
        Values that were missing and are the column's median now.
    """

    file: Path
    X: Vector
    names: tuple[str, ...]
    labels: Any = None
    ids: tuple[str, ...] | None = None
    id: str | None = None
    ignored: tuple[str, ...] = ()
    constant: tuple[str, ...] = ()
    n_imputed: int = 0


@dataclass(frozen=True)
class Columns:
    """Which columns of a file are what.

    Attributes
    ----------
    label, id : str, optional
    usual_id : str
        The id where none is given and the file has such a column: R and pandas give row names an empty name.
    drop : tuple of str
    features : tuple of str, optional
        Exactly these, in this order; by default all that have no other part.
    """

    label: str | None = None
    id: str | None = None
    usual_id: str = ""
    drop: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None

    @property
    def wanted(self) -> list[str]:
        """All that are read."""
        return [*(name for name in (self.label, self.id) if name is not None), *(self.features or ())]


def read(path: str | os.PathLike[str], columns: Columns) -> Sheet:
    """The rows of a file, told by its name: .csv, .tsv, .txt (also .gz), .parquet or .h5ad."""
    file = Path(path)
    if file.is_dir():
        raise TableError(f"{file} is a folder: give a file.")
    if not file.is_file():
        near = get_close_matches(file.name, [p.name for p in file.parent.glob("*")], 1)
        raise TableError(f"{file} does not exist{_perhaps(near)}.")
    if file.stat().st_size == 0:
        raise TableError(f"{file} is empty.")
    endings = [ending.lower() for ending in file.suffixes if ending.lower() != ".gz"]
    reader = READERS.get(endings[-1] if endings else "")
    if reader is None:
        raise TableError(f"{file} is of no known kind: give {', '.join(READERS)}, the text ones also as .gz.")
    with _in_words(file):
        return _checked(reader(file, columns))


def imputed(sheet: Sheet, medians: Vector) -> Sheet:
    """Every missing value replaced by its column's entry in `medians`."""
    rows, columns = np.nonzero(np.isnan(sheet.X))
    sheet.X[rows, columns] = medians[columns]
    return replace(sheet, n_imputed=rows.size)


def medians_of(sheet: Sheet) -> Vector:
    """The median of each column's values."""
    empty = np.flatnonzero(np.isnan(sheet.X).all(axis=0))
    if empty.size:
        named = _listed([sheet.names[i] for i in empty])
        raise TableError(f"{sheet.file}: no row has a value in {named}, so there is no median: --drop it.")
    return np.asarray(np.nanmedian(sheet.X, axis=0))


def check_complete(sheet: Sheet, remedy: str) -> None:
    """TableError where a value is missing."""
    missing = np.isnan(sheet.X)
    if missing.any():
        row, column = _first(missing)
        n, n_columns = missing.sum(), missing.any(axis=0).sum()
        others = f" ({n} are missing, in {n_columns} of {len(sheet.names)} columns)" if n > 1 else ""
        raise TableError(f"{sheet.file}: no value in {_place(row, sheet.names[column])}{others}: {remedy}.")


def logged(sheet: Sheet) -> Sheet:
    """log2(x + 1) of all features: counts and intensities, which are never negative, become comparable."""
    negative = sheet.X < 0.0
    if negative.any():
        row, column = _first(negative)
        raise TableError(
            f"{sheet.file}: {_place(row, sheet.names[column])} is {sheet.X[row, column]:g}, and log2(x + 1) wants no "
            f"negative values: leave out --log, or --drop that column."
        )
    np.log2(np.add(sheet.X, 1.0, out=sheet.X), out=sheet.X)
    return sheet


def varying(sheet: Sheet) -> Sheet:
    """Without columns that never change: they tell nothing, and would count as features that may matter."""
    changes = np.any(sheet.X != sheet.X[0], axis=0)
    if changes.all():
        return sheet
    if not changes.any():
        raise TableError(
            f"{sheet.file}: no feature changes from row to row, of {len(sheet.names)}: nothing can be learned."
        )
    names, constant = (tuple(np.array(sheet.names, dtype=object)[which].tolist()) for which in (changes, ~changes))
    return replace(sheet, X=np.asfortranarray(sheet.X[:, changes]), names=names, constant=constant)


def check_classes(sheet: Sheet, label: str) -> None:
    """TableError where the labels are not of a few classes, each with two rows at least."""
    counts = Counter(sheet.labels.tolist())
    column = f"{sheet.file}: label column '{label}'"
    if len(counts) < 2:
        raise TableError(f"{column} holds one class only, '{next(iter(counts))}': at least two are needed.")
    if len(counts) > MOST_CLASSES:
        kind = "numbers, it seems a measurement" if all(map(_is_number, counts)) else "texts, it seems a name"
        raise TableError(
            f"{column} holds {len(counts)} different {kind}: choose a column of at most {MOST_CLASSES} classes, or "
            "make classes of it, such as low and high."
        )
    rare = [name for name, count in counts.items() if count < 2]
    if rare:
        raise TableError(
            f"{column} has class '{rare[0]}' in one row only, {_row_of(sheet, rare[0])}: remove that row, or mend it."
        )


def _row_of(sheet: Sheet, label: str) -> str:
    return f"row {int(np.flatnonzero(sheet.labels == label)[0]) + 1}"


def _text_sheet(file: Path, columns: Columns) -> Sheet:
    """Numbers are read as numbers; only where that fails are they read as texts, to find out where and why.

    Columns that are left out are read too, as texts: polars counts the values of a row only where all are read.
    """
    import polars as pl

    source = _source(file)
    header, separator = _header(file, source)
    parts = _parts(file, header, columns)
    features = set(parts.features or ())
    # Names are ours: polars reads a quote within a name otherwise.
    options: dict[str, Any] = {"has_header": False, "skip_rows": 1, "separator": separator, "null_values": MISSING}

    def frame(kind: Any) -> pl.DataFrame:
        schema = {name: kind if name in features else pl.String for name in header}
        return pl.read_csv(source, schema=schema, **options)

    try:
        found = frame(pl.Float64)
    except pl.exceptions.PolarsError as error:
        _check_utf8(file, source)
        _check_widths(file, source, header, separator)
        try:
            found = frame(pl.String)
        except pl.exceptions.PolarsError:
            said = str(error).splitlines()[0]
            raise TableError(f"{file} cannot be read as a table, is a quote left open? polars: {said}") from error
    if found[header[-1]].null_count():
        _check_widths(file, source, header, separator)  # a row that is too short has no missing values: it is wrong
        found = _trimmed(found)
    return _sheet(file, found.select(parts.wanted), parts, _ignored(header, parts))


def _trimmed(frame: pl.DataFrame) -> pl.DataFrame:
    """Without blank lines at the end."""
    height = frame.height
    while height and all(value is None for value in frame.row(height - 1)):
        height -= 1
    return frame.head(height)


def _source(file: Path) -> Any:
    """The file itself, or what a gzipped one holds, which is then known to be whole."""
    with open(file, "rb") as raw:
        if raw.read(2) != b"\x1f\x8b":
            return file
    with gzip.open(file) as packed:
        return packed.read()


def _opened(source: Any) -> IO[bytes]:
    return io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb")


def _header(file: Path, source: Any) -> tuple[list[str], str]:
    """The names in the first line, and what separates them."""
    with _opened(source) as raw:
        start = raw.read(1 << 16)
        if b"\x00" in start:
            raise TableError(f"{file} is not a text file: save the table as CSV.")
        plain = b"".join(start.split(b"\n")[0].split(b'"')[::2])  # of the first line, what stands outside quotes
        separator = max(SEPARATORS, key=lambda mark: plain.count(mark.encode()))
    try:
        records = _records(source, separator)
        header, first = next(records, []), next(records, None)
    except UnicodeDecodeError:
        _check_utf8(file, source)
        raise
    if len(header) < 2:
        raise TableError(
            f"{file} has one column only, '{_cut(''.join(header))}': separate columns by commas, tabs or semicolons."
        )
    if first is None:
        raise TableError(f"{file} has a header and no rows.")
    return header, separator


def _check_utf8(file: Path, source: Any) -> None:
    with _opened(source) as raw:
        for number, line in enumerate(raw, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise TableError(
                    f"{file} is not UTF-8 text: byte 0x{line[error.start]:02x} in line {number}. Save it as UTF-8 "
                    "(in a spreadsheet: CSV UTF-8)."
                ) from None


def _check_widths(file: Path, source: Any, header: list[str], separator: str) -> None:
    for number, row in enumerate(_records(source, separator)):
        if row and len(row) != len(header):
            raise TableError(
                f"{file}: row {number} has {len(row)} values and the header {len(header)} names: mend that row, or the "
                "header."
            )


def _records(source: Any, separator: str) -> Iterator[list[str]]:
    with _opened(source) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
        yield from csv.reader(text, delimiter=separator)


def _parquet_sheet(file: Path, columns: Columns) -> Sheet:
    import polars as pl

    try:
        header = list(pl.read_parquet_schema(file))
        parts = _parts(file, header, columns)
        frame = pl.read_parquet(file, columns=parts.wanted)
    except pl.exceptions.PolarsError as error:
        raise TableError(f"{file} is not a Parquet file, or damaged: {str(error).splitlines()[0]}") from error
    return _sheet(file, frame, parts, _ignored(header, parts))


def _h5ad_sheet(file: Path, columns: Columns) -> Sheet:
    try:
        import anndata
    except ModuleNotFoundError:
        raise TableError(f"{file}: h5ad files need anndata: pip install 'dilutron[anndata]'.") from None
    try:
        data = anndata.read_h5ad(file)
    except (OSError, KeyError) as error:
        raise TableError(f"{file} is not an h5ad file, or damaged: {' '.join(str(error).split())[:200]}") from error
    for what, name in (("label", columns.label), ("id", columns.id)):
        if name is not None and name not in data.obs:
            raise _absent(file, what, name, list(data.obs), " of obs")
    if data.X is None:
        raise TableError(f"{file} has no X: dilutron reads no layers.")
    header = list(map(str, data.var_names))
    parts = _parts(file, header, replace(columns, label=None, id=None, usual_id=""))
    where = {name: i for i, name in enumerate(header)}
    table = data.X[:, [where[name] for name in parts.features or ()]]
    X = np.asfortranarray(table.toarray() if hasattr(table, "toarray") else table, dtype=np.float64)
    id = columns.id or (columns.usual_id if columns.usual_id in data.obs else None)
    labels = None if columns.label is None else _texts(file, columns.label, _entries(data.obs[columns.label]))
    ids = data.obs_names.tolist() if id is None else _texts(file, id, _entries(data.obs[id])).tolist()
    return Sheet(file, X, parts.features or (), labels, tuple(map(str, ids)), id, _ignored(header, parts))


def _entries(column: Any) -> list[Any]:
    """Of a pandas column, None where there is nothing."""
    return [None if missing else value for value, missing in zip(column, column.isna(), strict=True)]


READERS: dict[str, Callable[[Path, Columns], Sheet]] = {
    ".csv": _text_sheet,
    ".tsv": _text_sheet,
    ".txt": _text_sheet,
    ".parquet": _parquet_sheet,
    ".h5ad": _h5ad_sheet,
}


def _parts(file: Path, header: list[str], columns: Columns) -> Columns:
    """The same with id and features named, after a check that every name is there, and once."""
    twice = [name for name, count in Counter(header).items() if count > 1]
    if twice:
        places = [str(i) for i, name in enumerate(header, 1) if name == twice[0]]
        raise TableError(f"{file}: columns {' and '.join(places[:NAMED])} are named '{_cut(twice[0])}': rename one.")
    if columns.id is None and columns.usual_id in header and columns.usual_id not in (columns.label, *columns.drop):
        columns = replace(columns, id=columns.usual_id)
    for what, asked in (("label", columns.label), ("id", columns.id), *(("drop", name) for name in columns.drop)):
        if asked is not None and asked not in header:
            raise _absent(file, what, asked, header)
    taken = {columns.label, columns.id, *columns.drop}
    if columns.features is None:
        features = tuple(name for name in header if name not in taken)
        if not features:
            raise TableError(f"{file} has no column left as a feature, of {len(header)}.")
        if "" in features:
            raise TableError(f"{file}: column {header.index('') + 1} has no name: give it one, or --drop ''.")
        return replace(columns, features=features)
    there = set(header)
    absent = [name for name in columns.features if name not in there]
    if absent:
        near = get_close_matches(absent[0], header, 1)
        raise TableError(
            f"{file} lacks {len(absent)} of the {len(columns.features)} columns of the fit: {_listed(absent)}"
            f"{_perhaps(near)}."
        )
    return columns


def _ignored(header: list[str], parts: Columns) -> tuple[str, ...]:
    known = {parts.label, parts.id, *parts.drop, *(parts.features or ())}
    return tuple(name for name in header if name not in known)


def _absent(file: Path, what: str, name: str, header: list[str], where: str = "") -> TableError:
    near = get_close_matches(name, header, 3) or [each for each in header if each.lower() == name.lower()]
    hint = _perhaps(near) or f"; there are {_listed(header)}"
    return TableError(f"{file} has no column '{name}'{where}, given as --{what}{hint}.")


def _sheet(file: Path, frame: pl.DataFrame, parts: Columns, ignored: tuple[str, ...]) -> Sheet:
    labels = None if parts.label is None else _texts(file, parts.label, _as_texts(frame, parts.label))
    ids = None if parts.id is None else tuple(_texts(file, parts.id, _as_texts(frame, parts.id)).tolist())
    series = {column.name: column for column in frame.get_columns()}
    del frame
    features = parts.features or ()
    X = np.empty((len(next(iter(series.values()))), len(features)), order="F")
    for i, name in enumerate(features):  # each column is given up once it is copied: one table in memory, not two
        X[:, i] = _numbers(file, series.pop(name))
    return Sheet(file, X, features, labels, ids, parts.id, ignored)


def _as_texts(frame: pl.DataFrame, name: str) -> list[Any]:
    import polars as pl

    return frame[name].cast(pl.String).str.strip_chars().to_list()


def _numbers(file: Path, column: pl.Series) -> Vector:
    """A column as floats. Texts are taken where all are numbers, with spaces around or not."""
    import polars as pl

    if column.dtype != pl.Float64:
        given = column.cast(pl.String) if column.dtype in (pl.Categorical, pl.Enum) else column
        if given.dtype == pl.String:
            given = given.str.strip_chars().replace(["", *MISSING], None)
        elif not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
            raise TableError(
                f"{file}: column '{_cut(column.name)}' holds {column.dtype}, not numbers: --drop it, or mend it."
            )
        column = given.cast(pl.Float64, strict=False)
        bad = (column.is_null() & given.is_not_null()).arg_true()
        if len(bad):
            raise _not_numbers(file, given, bad)
    return np.asarray(column.to_numpy())


def _not_numbers(file: Path, column: pl.Series, bad: pl.Series) -> TableError:
    value, name = str(column[bad[0]]), _cut(column.name)
    remedy = f"mend the value, or --drop '{name}'"
    if "\n" in value:
        remedy = "close the quote that is left open"
    elif _is_number(value.replace(",", ".")):
        remedy = "write numbers with a decimal point, and no commas"
    elif len(bad) == column.n_unique():
        remedy = f"--id '{name}' if it names the rows, else --drop '{name}'"
    more = f" ({len(bad)} such values there)" if len(bad) > 1 else ""
    return TableError(f"{file}: {_place(bad[0], name)} is '{_cut(value)}', not a number{more}: {remedy}.")


def _texts(file: Path, name: str, values: Iterable[Any]) -> Any:
    """Labels or ids, of which none may be missing."""
    texts = ["" if value is None else str(value) for value in values]
    missing = [row for row, text in enumerate(texts) if text == ""]
    if missing:
        more = f", and in {len(missing) - 1} more" if len(missing) > 1 else ""
        raise TableError(
            f"{file}: column '{_cut(name)}' has no value in row {missing[0] + 1}{more}: fill it in, or remove that row."
        )
    return np.array(texts, dtype=np.str_)


def _checked(sheet: Sheet) -> Sheet:
    """What holds for every file: there are rows, no two of one name, and no infinite values."""
    if len(sheet.X) == 0:
        raise TableError(f"{sheet.file} has a header and no rows.")
    if sheet.ids is not None and len(set(sheet.ids)) < len(sheet.ids):
        twice, _ = Counter(sheet.ids).most_common(1)[0]
        rows = [str(i) for i, name in enumerate(sheet.ids, 1) if name == twice]
        raise TableError(
            f"{sheet.file}: rows {' and '.join(rows[:NAMED])} have the same id '{_cut(twice)}': ids must differ."
        )
    infinite = np.isinf(sheet.X)
    if infinite.any():
        row, column = _first(infinite)
        raise TableError(
            f"{sheet.file}: {_place(row, sheet.names[column])} is infinite, {infinite.sum()} such in all: mend it, or "
            "leave the value empty and --impute median."
        )
    return sheet


@contextmanager
def _in_words(file: Path) -> Iterator[None]:
    """What the system says about a file, in one line."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise TableError(f"{file} is a damaged or cut gzip file: copy or download it again.") from None
    except csv.Error as error:
        raise TableError(f"{file} cannot be read as a table: {error}.") from None
    except ModuleNotFoundError as error:
        raise TableError(f"{file}: reading needs {error.name}: pip install 'dilutron[cli]'.") from None
    except OSError as error:
        raise TableError(f"{file} cannot be read: {error.strerror or error}.") from error


def _first(mask: Any) -> tuple[int, int]:
    """Row and column of the first true entry, row by row."""
    row = int(np.flatnonzero(mask.any(axis=1))[0])
    return row, int(np.flatnonzero(mask[row])[0])


def _place(row: int, name: str) -> str:
    return f"row {row + 1}, column '{_cut(name)}'"


def _perhaps(near: Sequence[str]) -> str:
    return f"; perhaps {' or '.join(repr(name) for name in near)}" if near else ""


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{_cut(name)}'" for name in names[:NAMED])
    return f"{shown} and {len(names) - NAMED} more" if len(names) > NAMED else shown


def _cut(text: str) -> str:
    line = text.replace("\n", " ")
    return line if len(line) <= CUT else f"{line[:CUT]}..."


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        float(text)
        return True
    return False

"""Text files: CSV, TSV and their like, also gzipped."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dilutron.tables.columns import Columns, left_over, parts_of
from dilutron.tables.refusing import TableError, cut
from dilutron.tables.sheet import MISSING, Sheet, sheet_of

if TYPE_CHECKING:
    import polars as pl

SEPARATORS = ",\t;|"
LARGEST = 1 << 30  # bytes that a gzipped file may hold: 1,000 rows of 100,000 numbers


def text_sheet(file: Path, columns: Columns) -> Sheet:
    """Numbers are read as numbers; only where that fails are they read as texts, to find out where and why.

    Columns that are left out are read too, as texts: polars counts the values of a row only where all are read.
    """
    import polars as pl

    source = _source(file)
    header, separator = _header(file, source)
    parts = parts_of(file, header, columns)
    features = set(parts.features or ())
    # Names are ours: polars reads a quote within a name otherwise.
    options: dict[str, Any] = {"has_header": False, "skip_rows": 1, "separator": separator, "null_values": MISSING}

    def frame(kind: Any) -> pl.DataFrame:
        schema = {name: kind if name in features else pl.String for name in header}
        return pl.read_csv(source, schema=schema, **options)

    try:
        found = frame(pl.Float64)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        _check_utf8(file, source)
        _check_widths(file, source, header, separator)
        try:
            found = frame(pl.String)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            said = str(error).splitlines()[0]
            raise TableError(f"{file} cannot be read as a table, is a quote left open? polars: {said}") from error
    if found[header[-1]].null_count():
        _check_widths(file, source, header, separator)  # a row that is too short has no missing values: it is wrong
        found = _trimmed(found)
    return sheet_of(file, found.select(parts.wanted), parts, left_over(header, parts))


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
        text = packed.read(LARGEST)
        if packed.read(1):  # a few bytes can unpack to more than any memory holds
            raise TableError(f"{file} unpacks to more than {LARGEST >> 30} GB: unpack it first, and give that file.")
    return text


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
        header, first, second = next(records, []), next(records, None), next(records, None)
    except UnicodeDecodeError:
        _check_utf8(file, source)
        raise
    if not "".join(header).strip():
        raise TableError(f"{file}: the first line is empty: remove it, so that the names of the columns come first.")
    if header[0].startswith("#") and (len(header) < 2 or len(header) != len(first or ())):
        raise TableError(f"{file}: the first line, '{cut(header[0])}', seems a comment: remove it.")
    if len(header) < 2:
        raise TableError(
            f"{file} has one column only, '{cut(''.join(header))}': separate columns by commas, tabs or semicolons."
        )
    if first is None:
        raise TableError(f"{file} has a header and no rows: add a row for each sample.")
    if second and len(first) == len(second) == len(header) + 1 and first[-1] and second[-1]:
        raise TableError(
            f"{file}: the header lacks a name for the row names, as R's write.table leaves it: put a name before its "
            "first one, or write it with col.names=NA."
        )
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
            remedy = "close the quote that is left open" if "\n" in "".join(row) else "mend that row, or the header"
            raise TableError(
                f"{file}: row {number} has {len(row)} values and the header {len(header)} names: {remedy}."
            )


def _records(source: Any, separator: str) -> Iterator[list[str]]:
    with _opened(source) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
        yield from csv.reader(text, delimiter=separator)

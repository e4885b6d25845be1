"""Rows of a file as numbers, labels and ids."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dilutron.special import Vector
from dilutron.tables.columns import Columns
from dilutron.tables.refusing import TableError, cut, is_number, place_of

if TYPE_CHECKING:
    import polars as pl

MISSING = ["NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL"]  # and nothing at all


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


def sheet_of(file: Path, frame: pl.DataFrame, parts: Columns, ignored: tuple[str, ...]) -> Sheet:
    """The rows of a table as polars read it."""
    labels = None if parts.label is None else texts_of(file, parts.label, _as_texts(frame, parts.label))
    ids = None if parts.id is None else tuple(texts_of(file, parts.id, _as_texts(frame, parts.id)).tolist())
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
                f"{file}: column '{cut(column.name)}' holds {column.dtype}, not numbers: --drop it, or mend it."
            )
        column = given.cast(pl.Float64, strict=False)
        bad = (column.is_null() & given.is_not_null()).arg_true()
        if len(bad):
            raise _not_numbers(file, given, bad)
    return np.asarray(column.to_numpy())


def _not_numbers(file: Path, column: pl.Series, bad: pl.Series) -> TableError:
    value, name = str(column[bad[0]]), cut(column.name)
    remedy = f"mend the value, or --drop '{name}'"
    if "\n" in value:
        remedy = "close the quote that is left open"
    elif is_number(value.replace(",", ".")):
        remedy = "write numbers with a decimal point, and no commas"
    elif len(bad) == column.n_unique():
        remedy = f"--id '{name}' if it names the rows, else --drop '{name}'"
    more = f" ({len(bad)} such values there)" if len(bad) > 1 else ""
    return TableError(f"{file}: {place_of(bad[0], name)} is '{cut(value)}', not a number{more}: {remedy}.")


def texts_of(file: Path, name: str, values: Iterable[Any]) -> Any:
    """Labels or ids, of which none may be missing."""
    texts = ["" if value is None else str(value) for value in values]
    missing = [row for row, text in enumerate(texts) if text == ""]
    if missing:
        more = f", and in {len(missing) - 1} more" if len(missing) > 1 else ""
        raise TableError(
            f"{file}: column '{cut(name)}' has no value in row {missing[0] + 1}{more}: fill it in, or remove that row."
        )
    return np.array(texts, dtype=np.str_)

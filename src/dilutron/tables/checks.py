"""What must hold for rows: those of every file, and those of a fit."""

from __future__ import annotations

from collections import Counter

import numpy as np

from dilutron.tables.refusing import NAMED, TableError, cut, first_of, is_number, place_of
from dilutron.tables.sheet import Sheet

MOST_CLASSES = 20  # a label of more is a measurement, or a name


def checked(sheet: Sheet, of_a_fit: bool = False) -> Sheet:
    """What holds for every file: there are rows, no two of one name, and no infinite values.

    Where features are those of a fit, how missing values are filled is settled, too.
    """
    if len(sheet.X) == 0:
        raise TableError(f"{sheet.file} has a header and no rows: add a row for each sample.")
    if sheet.ids is not None and len(set(sheet.ids)) < len(sheet.ids):
        twice, _ = Counter(sheet.ids).most_common(1)[0]
        rows = [str(i) for i, name in enumerate(sheet.ids, 1) if name == twice]
        raise TableError(
            f"{sheet.file}: rows {' and '.join(rows[:NAMED])} have the same id '{cut(twice)}': ids must differ."
        )
    infinite = np.isinf(sheet.X)
    if infinite.any():
        row, column = first_of(infinite)
        raise TableError(
            f"{sheet.file}: {place_of(row, sheet.names[column])} is infinite, {infinite.sum()} such in all: mend it, "
            f"or leave the value empty {'if the run was fitted with' if of_a_fit else 'and'} --impute median."
        )
    return sheet


def check_complete(sheet: Sheet, remedy: str) -> None:
    """TableError where a value is missing."""
    missing = np.isnan(sheet.X)
    if missing.any():
        row, column = first_of(missing)
        n, n_columns = missing.sum(), missing.any(axis=0).sum()
        others = f" ({n} are missing, in {n_columns} of {len(sheet.names)} columns)" if n > 1 else ""
        raise TableError(f"{sheet.file}: no value in {place_of(row, sheet.names[column])}{others}: {remedy}.")


def check_classes(sheet: Sheet, label: str) -> None:
    """TableError where the labels are not of a few classes, each with two rows at least."""
    counts = Counter(sheet.labels.tolist())
    column = f"{sheet.file}: label column '{label}'"
    if len(counts) < 2:
        raise TableError(f"{column} holds one class only, '{next(iter(counts))}': at least two are needed.")
    if len(counts) > MOST_CLASSES:
        kind = "numbers, it seems a measurement" if all(map(is_number, counts)) else "texts, it seems a name"
        raise TableError(
            f"{column} holds {len(counts)} different {kind}: choose a column of at most {MOST_CLASSES} classes, or "
            "make classes of it, such as low and high."
        )
    alike: dict[str, str] = {}
    for name in counts:
        other = alike.setdefault(str(name).casefold().strip(), name)
        if other != name:
            raise TableError(
                f"{column} has classes '{other}' and '{name}' ({_row_of(sheet, other)} and {_row_of(sheet, name)}), "
                "which differ in case or blanks only: write them alike, or rename one."
            )
    rare = [name for name, count in counts.items() if count < 2]
    if rare:
        raise TableError(
            f"{column} has class '{rare[0]}' in one row only, {_row_of(sheet, rare[0])}: remove that row, or mend it."
        )


def _row_of(sheet: Sheet, label: str) -> str:
    return f"row {int(np.flatnonzero(sheet.labels == label)[0]) + 1}"

"""Rows made fit for a fit: missing values, logarithms, columns that never change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dilutron.special import Vector
from dilutron.tables.refusing import TableError, first_of, listed, place_of
from dilutron.tables.sheet import Sheet


def imputed(sheet: Sheet, medians: Vector) -> Sheet:
    """Every missing value replaced by its column's entry in `medians`."""
    rows, columns = np.nonzero(np.isnan(sheet.X))
    sheet.X[rows, columns] = medians[columns]
    return replace(sheet, n_imputed=rows.size)


def medians_of(sheet: Sheet) -> Vector:
    """The median of each column's values."""
    empty = np.flatnonzero(np.isnan(sheet.X).all(axis=0))
    if empty.size:
        named = listed([sheet.names[i] for i in empty])
        raise TableError(f"{sheet.file}: no row has a value in {named}, so there is no median: --drop it.")
    return np.asarray(np.nanmedian(sheet.X, axis=0))


def logged(sheet: Sheet) -> Sheet:
    """log2(x + 1) of all features: counts and intensities, which are never negative, become comparable."""
    negative = sheet.X < 0.0
    if negative.any():
        row, column = first_of(negative)
        raise TableError(
            f"{sheet.file}: {place_of(row, sheet.names[column])} is {sheet.X[row, column]:g}, and log2(x + 1) wants no "
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

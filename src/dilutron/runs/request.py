"""What is asked of a run, and its rows made ready."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from dilutron.special import Vector
from dilutron.tables import (
    Columns,
    RefusedError,
    Sheet,
    check_classes,
    check_complete,
    imputed,
    logged,
    medians_of,
    read,
    varying,
)


class RunError(RefusedError):
    """A request that cannot be met, or a folder that is no run: one line."""


@dataclass(frozen=True)
class Request:
    """What is asked of a run.

    Attributes
    ----------
    columns : Columns
        Which are label, id and features.
    positive : str, optional
        Of two classes, the one for which positive coefficients speak; by default the later one by name.
    log : bool
        Take log2(x + 1) of all features.
    impute : bool
        Replace missing values by the median of their column.
    folds : int
        For predictions of rows that the fit has not seen; 0 for none.
    expect : float, optional
        How many features are expected to matter; by default found from the data.
    fdr : float
        Share of the labels listed as suspect that may be right.
    seed : int
        Of the shuffle into folds.
    """

    columns: Columns
    positive: str | None = None
    log: bool = False
    impute: bool = False
    folds: int = 5
    expect: float | None = None
    fdr: float = 0.1
    seed: int = 0


def prepared(path: str | os.PathLike[str], request: Request) -> tuple[Sheet, dict[str, float] | None]:
    """Rows fit for a fit, of a few classes; and the medians of their columns where some may be missing."""
    label = request.columns.label or ""
    sheet = read(path, request.columns)
    check_classes(sheet, label)
    classes = sorted(set(sheet.labels.tolist()))
    if request.positive is not None and (request.positive not in classes or len(classes) > 2):
        there = ", ".join(f"'{name}'" for name in classes)
        raise RunError(f"{sheet.file}: --positive '{request.positive}' must be one of two classes; there are {there}.")
    if not request.impute:
        check_complete(sheet, "fill it in, --drop that column, or --impute median")
    medians = medians_of(sheet) if request.impute else None
    named = None if medians is None else dict(zip(sheet.names, medians.tolist(), strict=True))
    sheet = varying(ready(sheet, request.log, medians))
    n = len(sheet.names)
    if request.expect is not None and not 0.0 < request.expect < n:
        raise RunError(
            f"{sheet.file}: --expect {request.expect:g} must be above 0 and below the {n} features there are."
        )
    return sheet, named


def ready(sheet: Sheet, log: bool, medians: Vector | None) -> Sheet:
    """Filled in and in logarithms, as asked."""
    sheet = sheet if medians is None else imputed(sheet, medians)
    return logged(sheet) if log else sheet


def framed(sheet: Sheet) -> Any:
    """With column names: a model that knows them refuses a table of others."""
    import polars as pl

    return pl.DataFrame(sheet.X, schema=list(sheet.names), orient="row")

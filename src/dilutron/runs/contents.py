"""What a run's folder holds: the facts, and the rows of each table."""

from __future__ import annotations

import hashlib
import platform
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dilutron.averages import settled
from dilutron.runs.holding_out import HeldOut
from dilutron.runs.request import Request
from dilutron.special import Vector
from dilutron.tables import Sheet

Row = dict[str, Any]
LEVEL = 0.9  # of the intervals
MEMBERS = 50  # of a group that are named
HEAT = 30  # features in the table of correlations
UNIT = ("standardized", "standardized_low", "standardized_high")
COLUMNS = {
    "features": ["feature", "inclusion", "coefficient", "low", "high", *UNIT, "group"],
    "groups": ["group", "inclusion", "prior", "correlation", "n_members", "members"],
    "labels": ["row", "id", "given", "suggested", "error_probability", "suspect"],
    "trace": ["iteration", "size", "stage", "mismatch"],
}


def facts_of(sheet: Sheet, request: Request, model: Any, order: Any) -> dict[str, Any]:
    """What `run.json` holds of a fit."""
    from dilutron import __version__

    classes = model.classes_[order].tolist()
    paths = [model.path_] if len(model.fits_) == 1 else model.path_
    path = [
        ({"class": model.classes_[k]} if len(paths) > 1 else {}) | row._asdict() | {"status": row.status.value}
        for k, rows in enumerate(paths)
        for row in rows
    ]
    return {
        "dilutron": __version__,
        "created": datetime.now().astimezone().isoformat(timespec="seconds"),
        "data": {
            "file": str(sheet.file),
            "sha256": _sha256(sheet.file),
            "n_rows": len(sheet.X),
            "n_features": len(sheet.names),
            "label": request.columns.label,
            "id": sheet.id,
            "positive": classes[-1] if len(classes) == 2 else None,
            "dropped": list(request.columns.drop),
            "constant": list(sheet.constant),
            "log": request.log,
            "impute": "median" if request.impute else None,
            "n_imputed": sheet.n_imputed,
        },
        "request": {key: value for key, value in asdict(request).items() if key != "columns"},
        "classes": classes,
        "counts": {name: int(np.sum(sheet.labels == name)) for name in classes},
        "settings": model.get_params(deep=False),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in _libraries(sheet.file)},
        "result": {
            "status": model.status_,
            "converged": settled(model.fits_, model.tol),
            "n_iter": model.n_iter_,
            "held": sorted({name for fit in model.fits_ for share in fit.shares for name in share.posterior.held}),
            # Of three or more classes, the mean over one classifier for each.
            **{name: np.mean(getattr(model, f"{name}_")) for name in ("eta", "rho", "beta", "lam", "log_evidence")},
            "n_features_likely": model.n_features_likely_,
            "path": path,
        },
    }


def _libraries(file: Path) -> list[str]:
    """Those that the numbers have passed through."""
    return ["numpy", "scipy", "scikit-learn", "polars", *(["anndata"] if file.suffix.lower() == ".h5ad" else [])]


def _sha256(file: Path) -> str:
    with open(file, "rb") as raw:
        return hashlib.file_digest(raw, "sha256").hexdigest()


def feature_rows(sheet: Sheet, model: Any, order: Any, groups: Sequence[Any]) -> list[Row]:
    """All features, with coefficients that speak for the last class; for each class where there are three or more."""
    member = {name: number for number, group in enumerate(groups, 1) for name in group.names}
    sign = 1.0 if order[0] == 0 else -1.0

    def interval(unit: bool) -> tuple[Vector, Vector]:
        low, high = model.coef_interval(LEVEL, standardized=unit)
        return (low, high) if sign > 0.0 else (-high, -low)

    inclusion = np.atleast_2d(model.inclusion_proba_)
    values = (inclusion, sign * model.coef_, *interval(False), sign * model.coef_standardized_, *interval(True))
    rows = []
    for k, i in zip(*np.unravel_index(np.argsort(-inclusion, axis=None, kind="stable"), inclusion.shape), strict=True):
        row = dict(zip(COLUMNS["features"][1:-1], (float(value[k, i]) for value in values), strict=True))
        row = {"feature": sheet.names[i]} | row | {"group": member.get(sheet.names[i], "")}
        rows.append(row if len(inclusion) == 1 else {"class": model.classes_[k]} | row)
    return rows


def group_rows(groups: Sequence[Any]) -> list[Row]:
    """One for each group of correlated features."""
    return [
        {
            "group": number,
            "inclusion": group.inclusion,
            "prior": group.prior,
            "correlation": group.correlation,
            "n_members": len(group.names),
            "members": "; ".join([*group.names[:MEMBERS], *(["..."] if len(group.names) > MEMBERS else [])]),
        }
        for number, group in enumerate(groups, 1)
    ]


def label_rows(sheet: Sheet, model: Any, fdr: float) -> list[Row]:
    """One for each label, the most doubtful first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that none is suspect is an answer
        suspects = set(model.suspect_labels(fdr).rows.tolist())
    every = model.suspect_labels(n_labels=len(sheet.X))
    return [
        row_name(sheet, row)
        | {"given": str(given), "suggested": str(better), "error_probability": float(error)}
        | {"suspect": "true" if row in suspects else "false"}
        for row, error, given, better in zip(*every, strict=True)
    ]


def row_name(sheet: Sheet, row: int) -> Row:
    """The number of a row, from 1, and its id."""
    return {"row": int(row) + 1, "id": "" if sheet.ids is None else sheet.ids[row]}


def prediction_rows(sheet: Sheet, said: HeldOut, classes: Any, order: Any) -> list[Row]:
    """One for each row that was held out."""
    return [
        row_name(sheet, i) | {"given": str(given), "fold": int(fold)} | chance_columns(classes[order], chance[order])
        for i, (given, fold, chance) in enumerate(zip(sheet.labels, said.fold, said.probability, strict=True))
    ]


def chance_columns(classes: Any, chance: Vector) -> Row:
    """The probability of each class, and the class of the largest."""
    chances = {f"p({name})": float(p) for name, p in zip(classes, chance, strict=True)}
    return chances | {"predicted": str(classes[np.argmax(chance)])}


def trace_rows(model: Any) -> list[Row]:
    """One for each iteration of every posterior in the average, from many expected features to few.

    Each begins at the answer for another size, so that one alone says little of how the fit went.
    """
    several = len(model.fits_) > 1
    return [
        ({"class": model.classes_[k]} if several else {}) | {"iteration": number} | row
        for k, fit in enumerate(model.fits_)
        for number, row in enumerate(_marks(fit), 1)
    ]


def _marks(fit: Any) -> Iterator[Row]:
    for _, posterior in fit.shares:
        size = float(np.sum(np.broadcast_to(posterior.weights.rho, posterior.mean.size)))
        yield from ({"size": size, "stage": mark.stage, "mismatch": float(mark.error)} for mark in posterior.trace)


def correlation_rows(sheet: Sheet, features: Sequence[Row]) -> list[Row]:
    """Of the most probable features; of a column that never changes, 0 with all others.

    The column of their names has none, as R and pandas write row names: no feature can have that one.
    """
    names = list(dict.fromkeys(row["feature"] for row in features))[:HEAT]
    where = {name: i for i, name in enumerate(sheet.names)}
    X = sheet.X[:, [where[name] for name in names]]
    X = X - X.mean(axis=0)
    norm = np.linalg.norm(X, axis=0)
    unit = X / np.where(norm > 0.0, norm, 1.0)
    values = unit.T @ unit
    np.fill_diagonal(values, 1.0)
    rows = zip(names, np.clip(values, -1.0, 1.0).tolist(), strict=True)
    return [{"": name} | dict(zip(names, row, strict=True)) for name, row in rows]


def class_order(classes: Any, positive: str | None) -> Any:
    """Of two classes, the positive one last."""
    places = np.arange(classes.size)
    return places[::-1] if classes.size == 2 and positive == classes[0] else places


def plain(value: Any) -> Any:
    """As JSON has it: what is no number is null."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not np.isfinite(value) else value

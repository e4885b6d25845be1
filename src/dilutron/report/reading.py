"""A run folder as values. Nothing is computed here, and every string is as it came."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dilutron.files import as_given
from dilutron.special import Vector

T = TypeVar("T")
Row = dict[str, str]


class Feature(NamedTuple):
    """A row of features.csv. `target` is the class it speaks of, empty where there are two classes only."""

    name: str
    target: str
    inclusion: float
    coefficient: float
    low: float
    high: float
    standardized: float
    standardized_low: float
    standardized_high: float
    group: str


class Group(NamedTuple):
    """A row of groups.csv."""

    number: str
    inclusion: float
    prior: float
    correlation: float
    n_members: int
    members: str


class Label(NamedTuple):
    """A row of labels.csv."""

    row: int
    id: str
    given: str
    suggested: str
    error: float
    suspect: bool


class Mark(NamedTuple):
    """A row of trace.csv. `size` is the expected number of features, NaN where the file does not say."""

    target: str
    iteration: int
    stage: str
    mismatch: float
    size: float


class Tried(NamedTuple):
    """An expected size on the path, and its weight in the average."""

    target: str
    size: float
    weight: float
    status: str


class Predictions(NamedTuple):
    """predictions.csv: what a fit that had not seen a row said of it. `probability` has shape (rows, classes)."""

    given: tuple[str, ...]
    predicted: tuple[str, ...]
    probability: Vector


class Correlations(NamedTuple):
    """correlations.csv."""

    names: tuple[str, ...]
    values: Vector


class RunFolder(NamedTuple):
    """All that a page is made of."""

    facts: dict[str, Any]
    features: list[Feature]
    groups: list[Group]
    labels: list[Label]
    predictions: Predictions | None
    trace: list[Mark]
    path: list[Tried]
    correlations: Correlations | None

    @property
    def data(self) -> dict[str, Any]:
        """Of the file that was fitted."""
        return dict(self.facts["data"])

    @property
    def result(self) -> dict[str, Any]:
        """Of the fit."""
        return dict(self.facts["result"])

    @property
    def settings(self) -> dict[str, Any]:
        """Of the estimator."""
        return dict(self.facts["settings"])

    @property
    def held_out(self) -> dict[str, Any] | None:
        """How good predictions of unseen rows were, where that was measured."""
        found = self.facts.get("held_out")
        return dict(found) if found else None

    @property
    def classes(self) -> list[str]:
        """Their names; of two, positive coefficients speak for the second."""
        return [str(name) for name in self.facts["classes"]]

    @property
    def counts(self) -> list[int]:
        """Rows of each class."""
        return [int(self.facts["counts"][name]) for name in self.classes]


NUMBER = (int, float)
MOST = 2**53  # the largest count that a float holds exactly
NEEDED: dict[str, dict[str, Any]] = {  # entries of run.json without which there is no page
    "data": {"file": str, "label": str, "n_rows": int, "n_features": int},
    "result": {"status": str, "converged": bool, "n_features_likely": int},
    "settings": {},
    "counts": {},
    "held_out": {"folds": int, "accuracy": NUMBER},
}
MAYBE: dict[str, dict[str, Any]] = {  # others that have a kind, where they are there and known
    "data": {"n_imputed": int, "dropped": list},
    "result": {"path": list, "eta": (*NUMBER, list)},
    "settings": {"tol": NUMBER},
    "held_out": {
        "repeats": int,
        "converged": int,
        "accuracy_se": NUMBER,
        "auc": NUMBER,
        "auc_se": NUMBER,
        "log_loss": NUMBER,
    }
    | {"majority": NUMBER},
}


def read(folder: str | os.PathLike[str]) -> RunFolder:
    """What lies in a run folder; `run.json` and `features.csv` must be there, a picture is left out for each other."""
    place = Path(folder)
    facts = _facts(place / "run.json")
    if not (place / "features.csv").is_file():
        raise ValueError(f"{place} is not a run folder: features.csv is missing.")
    classes = [str(name) for name in facts["classes"]]
    try:
        path = list(_path(facts["result"].get("path") or [], classes))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise _damaged(place / "run.json", f"result, path: {type(error).__name__} {error}") from error
    several = ["class"] if len(classes) > 2 else []
    features = _rows(place / "features.csv", [*several, "feature", *Feature._fields[2:]], _feature)
    if not features:
        raise _damaged(place / "features.csv", "it has no rows")
    return RunFolder(
        facts,
        features,
        _rows(place / "groups.csv", ["group", *Group._fields[1:]], _group),
        _rows(place / "labels.csv", ["row", "id", "given", "suggested", "error_probability", "suspect"], _label),
        _predictions(place / "predictions.csv", classes),
        _rows(place / "trace.csv", [*several, *Mark._fields[1:-1]], _mark),
        path,
        _correlations(place / "correlations.csv"),
    )


def _damaged(path: Path, what: str) -> ValueError:
    """One line with the file, what is wrong with it, and what to do."""
    what = " ".join(what.split())
    return ValueError(f"{path} is damaged: {what}. Put it back as `dilutron fit` wrote it, or fit again.")


def _facts(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ValueError(f"{path.parent} is not a run folder: {path.name} is missing.") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    wanted = {"data", "classes", "counts", "settings", "result"}
    if not isinstance(facts, dict) or not wanted <= facts.keys():
        raise ValueError(f"{path} does not describe a run: it must hold {', '.join(sorted(wanted))}.")
    for part, entries in NEEDED.items():
        if part == "held_out" and not facts.get(part):
            continue  # nothing was
        if not isinstance(facts[part], dict):
            raise _damaged(path, f"{part} is not a table of names and values")
        maybe = {key: kind for key, kind in MAYBE.get(part, {}).items() if facts[part].get(key) is not None}
        _check(path, part, facts[part], entries | maybe)
    for part in ("request", "versions"):
        if facts.get(part) and not isinstance(facts[part], dict):
            raise _damaged(path, f"{part} is not a table of names and values")
    if not isinstance(facts.get("seconds") or 0.0, NUMBER):
        raise _damaged(path, "seconds is no number")
    if not isinstance(facts["classes"], list) or len(facts["classes"]) < 2:
        raise _damaged(path, "classes must be two names or more")
    _check(path, "counts", facts["counts"], {str(name): int for name in facts["classes"]})
    counts = [facts["counts"][str(name)] for name in facts["classes"]]
    sizes = (facts["data"]["n_rows"], facts["data"]["n_features"], *counts)
    if not 1 <= min(sizes) <= max(sizes) <= MOST:
        raise _damaged(path, "n_rows, n_features and all counts must be 1 or more, and no more than can be counted")
    return facts


def _check(path: Path, part: str, found: dict[str, Any], kinds: dict[str, Any]) -> None:
    for key, kind in kinds.items():
        if not isinstance(found.get(key), kind):
            raise _damaged(path, f"{part} has no good value for {key!r}")


def _rows(path: Path, header: list[str], make: Callable[[Row], T]) -> list[T]:
    """Every row of a file, none where there is no file."""
    if not path.is_file():
        return []
    made: list[T] = []
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        try:
            absent = [name for name in header if name not in (reader.fieldnames or ())]
            if absent:
                raise _damaged(path, f"its header has no column {absent[0]!r}")
            for row in reader:
                made.append(_made(path, reader.line_num, row, make))
        except (UnicodeDecodeError, csv.Error) as error:
            raise _damaged(path, str(error)) from error
    return made


def _made(path: Path, number: int, row: Row, make: Callable[[Row], T]) -> T:
    if None in row or None in row.values():  # where csv puts what is too much, and what lacks
        raise _damaged(path, f"line {number} and the header are not of one length")
    try:
        return make({name: as_given(text) for name, text in row.items()})
    except ValueError as error:
        raise _damaged(path, f"line {number}: {error}") from error


def _feature(row: Row) -> Feature:
    numbers = {name: _number(row[name]) for name in Feature._fields[2:-1]}
    return Feature(name=row["feature"], target=row.get("class") or "", group=row["group"], **numbers)


def _group(row: Row) -> Group:
    inclusion, prior, correlation = (_number(row[name]) for name in ("inclusion", "prior", "correlation"))
    return Group(row["group"], inclusion, prior, correlation, int(row["n_members"]), row["members"])


def _label(row: Row) -> Label:
    suspect = row["suspect"].strip().lower() == "true"
    error = _number(row["error_probability"])
    return Label(int(row["row"]), row["id"], row["given"], row["suggested"], error, suspect)


def _mark(row: Row) -> Mark:
    mismatch, size = _number(row["mismatch"]), _number(row.get("size"))
    return Mark(row.get("class") or "", int(row["iteration"]), row["stage"], mismatch, size)


def _predictions(path: Path, classes: list[str]) -> Predictions | None:
    columns = [f"p({name})" for name in classes]
    rows = _rows(
        path,
        ["given", "predicted", *columns],
        lambda row: (row["given"], row["predicted"], [_number(row[column]) for column in columns]),
    )
    if not rows:
        return None
    given, predicted, probability = zip(*rows, strict=True)
    return Predictions(given, predicted, np.array(probability))


def _correlations(path: Path) -> Correlations | None:
    if not path.is_file():
        return None
    try:
        with open(path, encoding="utf-8", newline="") as file:
            names, *rows = list(csv.reader(file)) or [[]]
    except (UnicodeDecodeError, csv.Error) as error:
        raise _damaged(path, str(error)) from error
    if names and len(rows) and len(rows[0]) == len(names) and names[0] == "" and len(rows) == len(names) - 1:
        names, rows = names[1:], [row[1:] for row in rows]  # with a first column of names
    try:
        values = np.array([[_number(cell) for cell in row] for row in rows])
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if values.shape != (len(names), len(names)):
        raise _damaged(path, "it must be square, with a header of names")
    return Correlations(tuple(map(as_given, names)), values) if names else None


def _path(rows: list[Any], classes: list[str]) -> Iterator[Tried]:
    """The path, or one for each class."""
    for k, row in enumerate(rows):
        if isinstance(row, list):
            yield from (one._replace(target=classes[k]) for one in _path(row, classes))
        else:
            target = str(row.get("class", ""))
            yield Tried(target, _number(row["size"]), _number(row["weight"]), str(row["status"]))


def _number(text: Any) -> float:
    """A number, NaN for an empty cell."""
    return math.nan if text is None or text == "" else float(text)

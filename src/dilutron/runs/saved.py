"""A run read back from its folder, to predict new rows."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dilutron.estimators import EPClassifier
from dilutron.files import as_given
from dilutron.runs.contents import Row, chance_columns, class_order, row_name
from dilutron.runs.folder import FACTS
from dilutron.runs.request import RunError, framed, ready
from dilutron.special import Vector
from dilutron.tables import Columns, check_complete, read


@dataclass(frozen=True, eq=False)
class Saved:
    """A run from its folder: it predicts new rows as they were prepared then."""

    folder: Path
    facts: dict[str, Any]
    model: Any
    medians: Vector | None

    def predictions(self, path: str | os.PathLike[str], id: str | None = None) -> tuple[list[Row], tuple[str, ...]]:
        """One row for each of a file, and the columns that were not needed."""
        data = self.facts["data"]
        names = tuple(self.model.feature_names_in_.tolist())
        sheet = read(path, Columns(id=id, usual_id=data["id"] or "", features=names))
        if self.medians is None:
            check_complete(sheet, "fill it in: the run was fitted without --impute")
        sheet = ready(sheet, data["log"], self.medians)
        order = class_order(self.model.classes_, self.facts["classes"][-1])
        said = self.model.predict_proba(framed(sheet))[:, order]
        rows = [
            row_name(sheet, i) | chance_columns(self.model.classes_[order], chance) for i, chance in enumerate(said)
        ]
        known = {data["label"], *data["dropped"], *data["constant"]}
        return rows, tuple(name for name in sheet.ignored if name not in known)


NEEDED: dict[str, Any] = {
    "id": (str, type(None)),
    "log": bool,
    "label": str,
    "dropped": list,
    "constant": list,
}  # to prepare new rows


def _check(facts: Any) -> None:
    """ValueError where an entry that predictions need is missing or of another kind."""
    for name, kind in NEEDED.items():
        if not isinstance(facts["data"].get(name, NEEDED), kind):
            raise ValueError(f"{FACTS} has no good value for {name!r}")
    if not (isinstance(facts["classes"], list) and facts["classes"]):
        raise ValueError(f"{FACTS} has no list of classes")
    if not all(isinstance(name, str) for part in ("dropped", "constant") for name in facts["data"][part]):
        raise ValueError(f"{FACTS} has columns without a name")


def load(folder: str | os.PathLike[str]) -> Saved:
    """A run that `write` kept."""
    place = Path(folder)
    try:
        facts = json.loads((place / FACTS).read_text(encoding="utf-8"))
        _check(facts)
        model = EPClassifier.load(place / "model")
        medians = None
        if facts["data"]["impute"]:
            with open(place / "medians.csv", newline="", encoding="utf-8") as file:
                named = {as_given(row["feature"]): float(row["median"]) for row in csv.DictReader(file)}
            medians = np.array([named[name] for name in model.feature_names_in_])
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RunError(f"{place} is not a run of `dilutron fit`: {error.filename} is missing.") from error
    except (OSError, AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise RunError(f"{place} is damaged: {' '.join(str(error).split())}") from error
    return Saved(place, facts, model, medians)

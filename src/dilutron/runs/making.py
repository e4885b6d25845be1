"""From a file and a request to an answer."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dilutron.estimators import EPClassifier
from dilutron.runs.contents import (
    Row,
    class_order,
    correlation_rows,
    facts_of,
    feature_rows,
    group_rows,
    label_rows,
    plain,
    prediction_rows,
    trace_rows,
)
from dilutron.runs.diary import Diary, Tell, silent
from dilutron.runs.holding_out import held_out, possible_folds, scores_of
from dilutron.runs.request import Request, RunError, framed, prepared
from dilutron.tables import Sheet

GROUPS = 20  # at most: for each, EP is solved again


@dataclass(frozen=True, eq=False)
class Answer:
    """What a run found: the facts, and one table for each file of the folder."""

    facts: dict[str, Any]
    tables: dict[str, list[Row]]
    model: Any
    log: tuple[str, ...]

    @property
    def features(self) -> list[Row]:
        """The most probable first."""
        return self.tables["features"]

    @property
    def suspects(self) -> list[Row]:
        """Labels to look at again, the most suspect first."""
        return [row for row in self.tables["labels"] if row["suspect"] == "true"]


def make(path: str | os.PathLike[str], request: Request, tell: Tell = silent) -> Answer:
    """Read, fit, predict held-out rows, look for groups."""
    began, diary = time.perf_counter(), Diary(tell)
    diary.begin(f"reading {path}", 0.0)
    sheet, medians = prepared(path, request)
    folds = possible_folds(sheet, request.folds)
    if folds < request.folds:
        diary.note(f"{folds} folds instead of {request.folds}: the smallest class has no more rows")
    if sheet.constant:
        diary.note(f"left out {len(sheet.constant)} features that are the same in all rows")
    X, parts = framed(sheet), folds + 3.0
    model = EPClassifier(n_features_expected=request.expect)
    with diary.heeding(), _refusing(sheet):
        diary.begin(f"fitting {sheet.X.shape[0]} rows of {sheet.X.shape[1]} features", 1.0 / parts)
        model.fit(X, sheet.labels)
        said = held_out(model, sheet, folds, request.seed, lambda words, done: diary.begin(words, (2.0 + done) / parts))
        diary.begin("looking for groups of correlated features", (folds + 2.0) / parts)
        groups = model.feature_groups(X, sheet.labels, n_groups=min(GROUPS, model.n_features_likely_), min_size=2)
    order = class_order(model.classes_, request.positive)
    facts = facts_of(sheet, request, model, order)
    facts["held_out"] = None if said is None else {"folds": folds, "repeats": 1, **scores_of(said, sheet.labels, order)}
    facts["seconds"] = time.perf_counter() - began
    tables = {
        "features": feature_rows(sheet, model, order, groups),
        "groups": group_rows(groups),
        "labels": label_rows(sheet, model, request.fdr),
        "trace": trace_rows(model),
    }
    tables["correlations"] = correlation_rows(sheet, tables["features"])
    if said is not None:
        tables["predictions"] = prediction_rows(sheet, said, model.classes_, order)
    if medians is not None:
        tables["medians"] = [{"feature": name, "median": value} for name, value in medians.items()]
    diary.note(f"done in {facts['seconds']:.1f} s: {facts['result']['status']}")
    return Answer(plain(facts), tables, model, tuple(diary.lines))


@contextmanager
def _refusing(sheet: Sheet) -> Iterator[None]:
    """Numbers with which an estimator cannot work, as one line with the file's name."""
    try:
        yield
    except ValueError as error:
        raise RunError(f"{sheet.file}: {error}") from error

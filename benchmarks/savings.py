"""What each way to save on wide tables buys: default fits of ours beside such as do without one of them.

There is no option for any of them, so each fit has a process of its own, in which what it does without is switched off.
They take turns, and every CPU time is compared with that of the default fit of its turn: a busy machine slows both.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.alone import alone, measured
from benchmarks.rows import Row, by_cell, table, write
from benchmarks.scale import drawn
from dilutron import EPClassifier, student, wishes

SIZES = ((102, 12_600), (1000, 23_000))
DEFAULT = "default"
LIMIT = 1200.0  # CPU seconds


def _whole() -> None:
    student.DEAR = np.inf


def _double() -> None:
    student.ROUGH = np.inf


def _in_step() -> None:
    student.PROPER, student.PARTLY = (
        tuple(rung._replace(pace=rung.pace._replace(means=0)) for rung in rungs)
        for rungs in (student.PROPER, student.PARTLY)
    )


WITHOUT: dict[str, Callable[[], None]] = {
    DEFAULT: lambda: None,
    "without working sets": _whole,
    "without single precision": _double,
    "without means moved alone": _in_step,
}


def fit(cell: Row) -> Row:
    """One fit: factorisations at all sizes of its path, CPU seconds, and the AUC of new rows."""
    X, y = drawn(cell["rows"], cell["columns"])
    train, test = slice(None, cell["rows"]), slice(cell["rows"], None)
    WITHOUT[cell["fit"]]()
    factorisations, solve = [], wishes.solve

    def counted(*given: object, **more: object) -> object:
        posterior = solve(*given, **more)  # type: ignore[arg-type]
        factorisations.append(posterior.n_iter)
        return posterior

    wishes.solve = counted  # type: ignore[assignment]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, figures = measured(lambda: EPClassifier().fit(X[train], y[train]))
    score = roc_auc_score(y[test], model.decision_function(X[test]))
    return {"auc": score, "factorisations": sum(factorisations), "cpu_seconds": figures["cpu_seconds"]}


def main(instances: int, jobs: int) -> None:
    """So many turns; one trial at a time: a second one would be in the way."""
    out: list[Row] = []
    for rows, columns in SIZES:
        cells = [{"rows": rows, "columns": columns, "fit": name} for name in WITHOUT]
        turns = [[alone(fit, cell, limit=LIMIT) for cell in cells] for _ in range(instances)]
        out += lines(turns)
        table(out, tuple(out[0]))
    write("savings", out)


def lines(turns: list[list[Row]]) -> list[Row]:
    """Medians over the turns; `cpu_ratio` is that of the ratios to the default fit of the same turn."""
    if broken := [row for turn in turns for row in turn if row["ended"] != "whole"]:
        raise RuntimeError(f"a fit {broken[0]['fit']!r} of {broken[0]['rows']} rows: {broken[0]['ended']}")
    reference = {k: next(row for row in turn if row["fit"] == DEFAULT) for k, turn in enumerate(turns)}
    every = [
        {**row, "ratio": row["cpu_seconds"] / reference[k]["cpu_seconds"]} for k, t in enumerate(turns) for row in t
    ]
    return [
        {
            "rows": group[0]["rows"],
            "columns": group[0]["columns"],
            "fit": name,
            "factorisations": group[0]["factorisations"],
            "cpu_seconds": float(np.median([row["cpu_seconds"] for row in group])),
            "cpu_ratio": float(np.median([row["ratio"] for row in group])),
            "auc": group[0]["auc"],
            "turns": len(group),
        }
        for (name,), group in by_cell(every, ("fit",)).items()
    ]

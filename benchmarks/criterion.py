"""What weighs the expected sizes, and whether the answers are averaged: simulated data and real sets.

The default of `EPClassifier` is the first of `CHOICES`; the others are compared with it on the same problems and folds.
"""

from __future__ import annotations

import time
import warnings

import numpy as np

from benchmarks import calibration, real_data
from benchmarks.kept import Task, kept
from benchmarks.peers import Method, code
from benchmarks.rows import Row, by_cell, mean_se, table, write
from dilutron.estimators import EPClassifier
from dilutron.metrics import auc, decibel, mse

CHOICES = [(criterion, average) for average in (True, False) for criterion in ("loo", "evidence", "cv")]
SIMULATED, REAL = "simulated", "real"


def trial(cell: Row, instance: int) -> Row:
    """One fit with this choice."""
    model = EPClassifier(criterion=cell["criterion"], average=cell["average"], random_state=instance)
    if cell["kind"] == REAL:
        return real_data.judged(model, cell["data"], cell["fold"], instance)
    truth = calibration.drawn(cell, instance)
    present = truth.teacher != 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        model.fit(truth.X, truth.labels)
        seconds = time.process_time() - began
    low, high = (end[0] for end in model.coef_interval(calibration.LEVEL))
    return {
        **calibration.binned("inclusion", model.inclusion_proba_, present),
        "present": int(present.sum()),
        "covered": int(((low <= truth.teacher) & (truth.teacher <= high))[present].sum()),
        "mse_db": decibel(mse(model.coef_[0], truth.teacher)),
        "auc": auc(model.inclusion_proba_, present),
        "cpu_seconds": seconds,
    }


def tasks(instances: int) -> list[Task]:
    """Cells of `calibration`, and the folds of the real sets."""
    cells = [cell for cell in calibration.cells() if cell["patterns"] != calibration.UNEQUAL]
    simulated = [{"kind": SIMULATED, **cell} for cell in cells]
    folds = range(real_data.FOLDS)
    real = [{"kind": REAL, "data": data, "fold": fold} for data in real_data.sets() for fold in folds]
    version = code(Method(EPClassifier, "dilutron"))
    return [
        ({"criterion": criterion, "average": average, "code": version, **cell}, instance)
        for instance in range(instances)
        for criterion, average in CHOICES
        for cell in [*simulated, *real]
    ]


def main(instances: int, jobs: int) -> None:
    """Instances of each simulated cell, and repeats of the folds."""
    rows = kept("criterion", trial, tasks(instances), jobs)
    for kind, keys, quantities in (
        (SIMULATED, calibration.KEYS, ("mse_db", "auc")),
        (REAL, ("data", "fold"), ("accuracy", "auc", "log_loss")),
    ):
        mine = [row for row in rows if row["kind"] == kind]
        heads = ("patterns", "n", "m") if kind == SIMULATED else ("data",)
        out = [
            {**dict(zip(heads, head, strict=True)), **line}
            for head, group in by_cell(mine, heads).items()
            for line in lines(group, keys, quantities)
        ]
        if out:
            table(out, tuple(out[0]))
            write(f"criterion_{kind}", out)


def lines(rows: list[Row], keys: tuple[str, ...], quantities: tuple[str, ...]) -> list[Row]:
    """Each choice, and what it gains over the default on the same problems."""
    cases = by_cell(rows, ("criterion", "average"))
    usual = cases[CHOICES[0]]
    found = []
    for choice, group in cases.items():
        line: Row = dict(zip(("criterion", "average"), choice, strict=True))
        for name in quantities:
            line[name] = mean_se(row[name] for row in group)[0]
            line[f"{name}_gain"], se, n = real_data.paired(group, usual, name, (*keys, "instance"))
            line[f"{name}_gain_se"] = real_data.overlap_se(se, n) if "fold" in keys else se
        if "covered" in group[0]:
            own = [calibration.Reliability.of(cell, "inclusion") for cell in by_cell(group, keys).values()]
            line["inclusion_error"] = float(np.mean([one.error for one in own]))
            line["inclusion_floor"] = float(np.mean([one.floor for one in own]))
            line["coverage"] = sum(row["covered"] for row in group) / sum(row["present"] for row in group)
        seconds = zip(group, usual, strict=True)
        line["cpu_ratio"] = float(np.median([one["cpu_seconds"] / other["cpu_seconds"] for one, other in seconds]))
        found.append({**line, "fits": len(group)})
    return found

"""What the weight of a left-out label does: calibration on simulated data, and predictions on real data.

No weight is the best everywhere; the default (`dilutron.path.TRUST`) is a compromise.
"""

from __future__ import annotations

import numpy as np

from benchmarks import calibration, real_data
from benchmarks.kept import Task, kept
from benchmarks.peers import OURS, Method, code
from benchmarks.rows import Row, by_cell, mean_se, table, write
from dilutron import path
from dilutron.estimators import EPClassifier

TRUSTS = (1.0, 0.5, 0.2, 0.1)
SIMULATED, REAL = "simulated", "real"


def trial(cell: Row, instance: int) -> Row:
    """A trial of one of the two benchmarks with this weight."""
    usual, path.TRUST = path.TRUST, cell["trust"]
    try:
        return {SIMULATED: calibration.trial, REAL: real_data.trial}[cell["kind"]](cell, instance)
    finally:
        path.TRUST = usual


def tasks(instances: int) -> list[Task]:
    """Cells of few rows, where the weight matters, and the folds of the real sets."""
    version = code(Method(EPClassifier, "dilutron"))
    few = [cell for cell in calibration.cells() if cell["m"] <= 2 * cell["n"]]
    simulated = [{"kind": SIMULATED, "variant": "learned", **cell} for cell in few]
    folds = range(real_data.FOLDS)
    real = [{"kind": REAL, "method": OURS, "data": data, "fold": fold} for data in real_data.sets() for fold in folds]
    return [
        ({"trust": trust, "code": version, **cell}, instance)
        for instance in range(instances)
        for trust in TRUSTS
        for cell in [*simulated, *real]
    ]


def main(instances: int, jobs: int) -> None:
    """Instances of each simulated cell, and repeats of the folds."""
    rows = kept("trust", trial, tasks(instances), jobs)
    out = []
    for (trust,), group in by_cell([row for row in rows if row["kind"] == SIMULATED], ("trust",)).items():
        line: Row = {"trust": trust}
        for (patterns, n), part in by_cell(group, ("patterns", "n")).items():
            found = calibration.summary(part)
            line |= {f"{patterns} {n} {name}": found[name] for name in ("inclusion_error", "coverage")}
        mine = [row for row in rows if row["kind"] == REAL and row["trust"] == trust]
        for (data,), part in by_cell(mine, ("data",)).items():
            line |= {
                f"{data} {name}": mean_se(row[name] for row in part)[0] for name in ("accuracy", "auc", "log_loss")
            }
        out.append(line)
    columns = tuple(dict.fromkeys(name for line in out for name in line))
    table(out, columns)
    write("trust", [{name: line.get(name, np.nan) for name in columns} for line in out])

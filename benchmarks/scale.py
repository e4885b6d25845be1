"""Time, memory and accuracy from 62 x 2,000 to 1,000,000 x 100, ours and what users pick instead, one process each.

A trial that ended is kept: a run that was stopped goes on where it was. Rows that are missing were not run yet, or are
of a method that did not end within the limit on a smaller table of the same shape.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV

from benchmarks.alone import alone, measured
from benchmarks.in_r import GlmnetCV, SparseVB, Varbvs
from benchmarks.kept import kept
from benchmarks.peers import IN_R, METHODS, OURS, Method, _scaled, code, installed
from benchmarks.rows import Row, by_cell, figures, rng_for, table, write
from dilutron.estimators import VAMPClassifier

SIZES = ((62, 2000), (102, 12_600), (1000, 23_000), (100_000, 200), (1_000_000, 100))
LARGE = 3e7  # numbers in a table from which one trial takes minutes, and a run of few instances leaves it out
LIMIT = 150.0  # CPU seconds for a trial
TEST, FACTORS, INFORMATIVE, NOISE, WRONG = 1000, 50, 20, 0.5, 0.05


def _celer() -> Any:
    """celer brings no cross-validation for classes, and no probabilities to score it by."""
    from celer import LogisticRegression

    strengths = np.geomspace(1e-3, 1.0, 10)
    return _scaled(GridSearchCV(LogisticRegression(), {"C": strengths}, scoring="accuracy", cv=5))


CLASSIFIERS = {
    **{name: METHODS[name] for name in (OURS, "L1-CV", "skglm L1-CV", "abess")},
    "VAMPClassifier": Method(VAMPClassifier, "dilutron"),
    "celer L1-CV": Method(_celer, "celer"),
    "glmnet (R)": Method(GlmnetCV, IN_R + "glmnet"),
    "sparsevb (R)": Method(lambda: _scaled(SparseVB()), IN_R + "sparsevb"),
    "varbvs (R)": Method(lambda: _scaled(Varbvs()), IN_R + "varbvs"),
}
MARKERS = dict(zip(CLASSIFIERS, "os^DvPX*<", strict=True))  # methods are told apart without colours too
THREADED = (OURS, "VAMPClassifier")  # the others have one thread, whatever they are given


def drawn(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns that share factors, as genes do, 20 of which the labels follow; noise, and 5 % of the labels wrong.

    The last `TEST` rows are for the test, with labels as they should be.
    """
    rng = rng_for("scale", {"rows": rows, "columns": columns}, 0)
    loadings = rng.standard_normal((FACTORS, columns)) * (rng.random((FACTORS, columns)) < 0.1)
    X = rng.standard_normal((rows + TEST, columns))
    for first in range(0, len(X), 10_000):
        part = X[first : first + 10_000]
        part += rng.standard_normal((len(part), FACTORS)) @ loadings
    informative = rng.choice(columns, INFORMATIVE, replace=False)
    field = X[:, informative] @ rng.standard_normal(INFORMATIVE)
    field += NOISE * field.std() * rng.standard_normal(len(X))
    right = (field > 0.0).astype(int)
    return X, np.where(np.append(rng.random(rows) < WRONG, np.zeros(TEST, bool)), 1 - right, right)


def fit(cell: Row) -> Row:
    """One fit with defaults, and the AUC of new rows."""
    X, y = drawn(cell["rows"], cell["columns"])
    train, test = slice(None, cell["rows"]), slice(cell["rows"], None)
    small = np.random.default_rng(0).standard_normal((40, 30)), np.arange(40) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make = CLASSIFIERS[cell["method"]].make
        make().fit(small[0] + small[1][:, None], small[1])  # no time is that of a compiler
        units = _products(X[train])
        model, figures = measured(lambda: make().fit(X[train], y[train]))
        units += _products(X[train])
        score = roc_auc_score(y[test], _score(model, X[test]))
    figures |= _last(model)  # of another program
    beyond = (figures["peak_mb"] - figures["before_mb"]) / (X[train].nbytes / 2**20)
    return {"auc": score, **figures, "products": figures["cpu_seconds"] / np.median(units), "memory_beyond_x": beyond}


def _products(X: np.ndarray) -> list[float]:
    """CPU seconds of a product of the smaller side, three times: the unit of our cost, with this process's threads.

    A small one is too short for the clock: each time it is made as often as takes some tenths of a second.
    """
    times = int(max(1.0, 2e9 / (min(X.shape) ** 2 * max(X.shape))))

    def several() -> None:
        for _ in range(times):
            X @ X.T if len(X) < X.shape[1] else X.T @ X

    return [measured(several)[1]["cpu_seconds"] / times for _ in range(3)]


def _score(model: Any, X: np.ndarray) -> np.ndarray:
    if hasattr(model, "decision_function"):
        return np.ravel(model.decision_function(X))
    return np.asarray(model.predict_proba(X))[:, 1]


def _last(model: Any) -> Row:
    """What a program of R, at the end of a pipeline perhaps, has measured itself."""
    figures: Row = getattr(model[-1] if hasattr(model, "steps") else model, "figures_", {})
    return figures


def trial(cell: Row, instance: int) -> Row:
    """In a process of its own, with its own number of threads."""
    return alone(fit, cell, threads=cell["threads"], limit=LIMIT)


def main(instances: int, jobs: int) -> None:
    """One trial at a time: a second one would be in the way. Few instances mean small tables only."""
    there = installed(CLASSIFIERS)
    sizes = [size for size in SIZES if instances >= 100 or size[0] * size[1] < LARGE]
    done: list[Row] = []
    for rows, columns in sizes:
        wide = rows < columns
        slow = {row["method"] for row in done if row["ended"] != "whole" and (row["rows"] < row["columns"]) == wide}
        cells = [
            {"rows": rows, "columns": columns, "method": name, "threads": threads, "code": code(method)}
            for name, method in there.items()
            for threads in ((1, 2) if name in THREADED else (1,))
            if name not in slow  # it would not end at a larger size of this shape either
        ]
        done += kept("scale", trial, [(cell, 0) for cell in cells], 1)
        report(done)  # so far: the next size may take an hour


def report(rows: list[Row]) -> None:
    """The rows, the exponents of cost against size, and the picture."""
    wanted = ("rows", "columns", "method", "threads", "ended", "auc", "wall_seconds", "cpu_seconds", "before_mb")
    wanted += ("peak_mb", "products", "memory_beyond_x")
    out = [{name: row.get(name, "") for name in wanted} for row in rows]
    for row in out:
        if row["threads"] > 1:
            row["products"] = ""  # threads that wait for one another count as CPU too
    table(out, tuple(out[0]))
    write("scale", out)
    exponents = []
    for (method, threads), group in by_cell(out, ("method", "threads")).items():
        whole = [row for row in group if row["ended"] == "whole"]
        if len(whole) < 2:
            continue
        size, cpu = ([float(value) for value in values] for values in zip(*map(_cost, whole), strict=True))
        slope = float(np.polyfit(np.log(size), np.log(cpu), 1)[0])
        exponents.append({"method": method, "threads": threads, "sizes": len(whole), "exponent_of_cpu": slope})
    if exponents:
        table(exponents, tuple(exponents[0]))
        write("scale_exponents", exponents)
        draw(out)


def _cost(row: Row) -> tuple[float, float]:
    """Multiplications of one product of the smaller side, and CPU seconds."""
    rows, columns = float(row["rows"]), float(row["columns"])
    return min(rows, columns) ** 2 * max(rows, columns), row["cpu_seconds"]


def draw(rows: list[Row]) -> None:
    """CPU seconds against size, and AUC against CPU seconds, one thread."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    whole = [row for row in rows if row["ended"] == "whole" and row["threads"] == 1]
    for (name,), group in by_cell(whole, ("method",)).items():
        marker, points = MARKERS[name], sorted((*_cost(row), row["auc"]) for row in group)
        size, cpu, auc = zip(*points, strict=True)
        axes[0].plot(size, cpu, label=name, marker=marker, linewidth=2.0 if name == OURS else 1.0)
        axes[1].plot(cpu, auc, linestyle="none", marker=marker)
    axes[0].set(xscale="log", yscale="log", xlabel="min(M, N)² max(M, N)", title="CPU seconds, one thread")
    axes[1].set(xscale="log", xlabel="CPU seconds", title="AUC of new rows")
    for axis in axes:
        axis.grid(alpha=0.3)
    axes[0].legend(frameon=False, fontsize=8)
    path = figures() / "scale.png"
    figure.savefig(path, dpi=150)
    plt.close(figure)
    print(path)

"""EP with one variance for all weights (VAMP) beside EP: CPU in products of the table, and error, by the same `solve`.

VAMP pays one SVD and O(MN) a step, EP a factorisation for each. `classifiers` has both with their paths of expected
sizes, on the tables of `scale`.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import scale
from benchmarks.alone import alone
from benchmarks.rows import Row, by_cell, mean_se, rng_for, table, write
from dilutron import OPTIONS, Problem, RobustProbit, SpikeSlab, solve
from dilutron.data import block_patterns, iid_patterns, lesson
from dilutron.metrics import auc, decibel, mse

RHO, ETA, NOISE = 0.1, 0.95, 0.1  # noise: its variance over that of the signal
DESIGNS = {"iid": iid_patterns, "blocks of 4, .8": partial(block_patterns, correlation=0.8, size=4)}
SIZES = ((500, 500), (1000, 1000), (1000, 2000), (2000, 500), (4000, 1000))
LEARN: dict[str, tuple[str, ...]] = {"given": (), "learned": ("rho", "eta")}
METHODS = ("ep", "vamp")
TABLES = ((102, 12_600), (400, 6000), (1000, 23_000), (20_000, 200))
CLASSIFIERS = {"ep": "EPClassifier", "vamp": "VAMPClassifier"}
LIMIT = 600.0  # CPU seconds


def cells() -> list[Row]:
    return [
        {"patterns": patterns, "n": n, "m": m, "parameters": parameters}
        for patterns in DESIGNS
        for n, m in SIZES
        for parameters in LEARN
    ]


def trial(cell: Row, instance: int) -> list[Row]:
    """Both methods on the same problem, and a product of its smaller side with itself between them."""
    drawn = {name: cell[name] for name in ("patterns", "n", "m")}
    rng, beta = rng_for("tied", drawn, instance), 1.0 / (NOISE * RHO * cell["n"])
    patterns = DESIGNS[cell["patterns"]]
    truth = lesson(cell["n"], cell["m"] / cell["n"], rng, rho=RHO, eta=ETA, beta=beta, patterns=patterns)
    problem = Problem.from_arrays(truth.X, truth.labels)
    product = _product(problem.X)
    rows = []
    for method in METHODS:
        options = OPTIONS[method](learn=LEARN[cell["parameters"]])
        began = time.process_time()
        found = solve(problem, SpikeSlab(RHO), RobustProbit(ETA, beta), method, options)
        seconds = time.process_time() - began
        rows.append({
            **cell,
            "method": method,
            "instance": instance,
            "converged": found.status.value == "converged",
            "mse_db": decibel(mse(found.mean, truth.teacher)),
            "auc": auc(found.inclusion, truth.teacher != 0.0),
            "cpu_seconds": seconds,
            "products": seconds / product,
        })  # fmt: skip
    return rows


def _product(X: np.ndarray) -> float:
    """CPU seconds of one product of the table's smaller side with itself, the median of three."""
    side, seconds = X if len(X) <= X.shape[1] else np.ascontiguousarray(X.T), []
    for _ in range(3):
        began = time.process_time()
        side @ side.T
        seconds.append(time.process_time() - began)
    return float(np.median(seconds))


def classifiers(instances: int, jobs: int) -> None:
    """Default fits in turns, each in a process of its own, one at a time."""
    out = []
    for rows, columns in TABLES:
        cells = [{"rows": rows, "columns": columns, "method": name} for name in CLASSIFIERS.values()]
        turns = [[alone(scale.fit, cell, limit=LIMIT) for cell in cells] for _ in range(instances)]
        if broken := [row for turn in turns for row in turn if row["ended"] != "whole"]:
            raise RuntimeError(f"{broken[0]['method']} of {rows} x {columns}: {broken[0]['ended']}")
        line: Row = {"rows": rows, "columns": columns}
        for quantity in ("products", "memory_beyond_x", "auc"):
            for k, method in enumerate(CLASSIFIERS):
                line[f"{method}_{quantity}"] = float(np.median([turn[k][quantity] for turn in turns]))
        line["cpu_ratio"] = float(np.median([ep["cpu_seconds"] / vamp["cpu_seconds"] for ep, vamp in turns]))
        out.append({**line, "turns": len(turns)})
    table(out, tuple(out[0]))
    write("tied_classifiers", out)


def main(instances: int, jobs: int) -> None:
    """One process, one thread: times are compared."""
    with threadpool_limits(limits=1):
        rows = [row for cell in cells() for k in range(instances) for row in trial(cell, k)]
    out = []
    for values, group in by_cell(rows, ("patterns", "n", "m", "parameters")).items():
        line: Row = dict(zip(("patterns", "n", "m", "parameters"), values, strict=True))
        own = {method: [row for row in group if row["method"] == method] for method in METHODS}
        for method in METHODS:
            line[f"{method}_converged"] = sum(row["converged"] for row in own[method])
        for method in METHODS:
            line[f"{method}_products"] = float(np.median([row["products"] for row in own[method]]))
        pairs = list(zip(*own.values(), strict=True))
        line["cpu_ratio"] = float(np.median([ep["cpu_seconds"] / vamp["cpu_seconds"] for ep, vamp in pairs]))
        for quantity in ("mse_db", "auc"):
            line[f"ep_{quantity}"] = mean_se(row[quantity] for row in own["ep"])[0]
            gaps = [vamp[quantity] - ep[quantity] for ep, vamp in pairs]
            line[f"vamp_{quantity}_beyond"], line[f"vamp_{quantity}_beyond_se"] = mean_se(gaps)
        out.append({**line, "instances": len(pairs)})
    table(out, tuple(out[0]))
    write("tied", out)

"""Iterations and seconds against the size of the problem, tall and wide, with a plot for the docs."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.rows import Row, figures, rng_for, table, write
from dilutron import EPOptions, Problem, RobustProbit, SpikeSlab, solve
from dilutron.data import lesson

ETA = 0.95
TALL = [{"shape": "tall", "n": n, "m": 2 * n, "expected": 0.25 * n} for n in (128, 256, 512, 1024, 2048)]
WIDE = [{"shape": "wide", "n": n, "m": 100, "expected": 20.0} for n in (2000, 5000, 10_000, 20_000)]


def trial(cell: Row, instance: int) -> Row:
    """Tall: theta-mixture labels, as in the paper. Wide: the same seen through noise of half the signal's scale."""
    rho = cell["expected"] / cell["n"]
    truth = lesson(cell["n"], cell["m"] / cell["n"], rng_for("size", cell, instance), rho=rho, eta=ETA)
    beta = np.inf if cell["shape"] == "tall" else 4.0 / cell["expected"]
    problem = Problem.from_arrays(truth.X, truth.labels)
    posterior = solve(problem, SpikeSlab(rho), RobustProbit(ETA, beta), options=EPOptions(tol=1e-6))
    return {"status": posterior.status.value, "iterations": posterior.n_iter, "seconds": posterior.seconds}


def main(instances: int, jobs: int) -> None:
    """One thread, one process: few instances of each size, medians."""
    out = []
    for cell in (*TALL, *WIDE):
        with threadpool_limits(limits=1):
            rows = [trial(cell, k) for k in range(min(instances, 5 if cell["n"] != 2048 else 3))]
        seconds = float(np.median([row["seconds"] for row in rows]))
        iterations = float(np.median([row["iterations"] for row in rows]))
        out.append({
            **cell,
            "instances": len(rows),
            "converged": sum(row["status"] == "converged" for row in rows),
            "iterations_median": iterations,
            "seconds_median": seconds,
            "milliseconds_per_iteration": 1e3 * float(np.median([row["seconds"] / row["iterations"] for row in rows])),
        })  # fmt: skip
    for shape in ("tall", "wide"):
        group = [row for row in out if row["shape"] == shape]
        n, ms = ([row[key] for row in group] for key in ("n", "milliseconds_per_iteration"))
        exponent = float(np.polyfit(np.log(n), np.log(ms), 1)[0])
        for row in group:
            row["exponent_per_iteration"] = exponent
    table(out, tuple(out[0]))
    write("size", out)
    draw(out)


def draw(rows: list[Row]) -> None:
    """Iterations and seconds against N, one line for each shape."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    labels = {"tall": "M = 2N, 25 % of the weights", "wide": "M = 100, 20 weights"}
    for shape, marker, colour in (("tall", "o", "#0072B2"), ("wide", "s", "#D55E00")):
        group = [row for row in rows if row["shape"] == shape]
        n = [row["n"] for row in group]
        for axis, key in zip(axes, ("iterations_median", "seconds_median"), strict=True):
            axis.plot(n, [row[key] for row in group], marker=marker, color=colour, label=labels[shape])
    for axis, title in zip(axes, ("iterations to a mismatch of 1e-6", "seconds, one thread"), strict=True):
        axis.set(xscale="log", xlabel="N, number of features", title=title)
        axis.grid(alpha=0.3)
    axes[0].set_ylim(0)
    axes[1].set_yscale("log")
    axes[0].legend(frameon=False)
    path = figures() / "size.png"
    figure.savefig(path, dpi=150)
    plt.close(figure)
    print(path)

"""Does EP reach its fixed point, in how many iterations, and how good is it there: the paper's protocol."""

from __future__ import annotations

import numpy as np

from benchmarks.rows import Row, by_cell, mean_se, printed, rng_for, run, table, write
from dilutron import EPOptions, Problem, RobustProbit, SpikeSlab, solve
from dilutron.data import lesson
from dilutron.metrics import auc, decibel, mse

ALPHAS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0)
RHO = 0.25
KEYS = ("n", "patterns", "eta", "alpha")


def cells() -> list[Row]:
    grid = [
        {"n": 128, "patterns": patterns, "eta": eta, "alpha": alpha}
        for patterns in ("iid", "mvn")
        for eta in (1.0, 0.95, 0.9)
        for alpha in ALPHAS
    ]
    return grid + [{"n": 256, "patterns": "mvn", "eta": 1.0, "alpha": alpha} for alpha in ALPHAS]


def trial(cell: Row, instance: int) -> Row:
    """True parameters given, tolerance 1e-6."""
    rng = rng_for("protocol", cell, instance)
    truth = lesson(cell["n"], cell["alpha"], rng, rho=RHO, eta=cell["eta"], patterns=cell["patterns"])
    posterior = solve(
        Problem.from_arrays(truth.X, truth.labels),
        weights=SpikeSlab(rho=RHO),
        labels=RobustProbit(eta=cell["eta"]),
        options=EPOptions(tol=1e-6),
    )
    present = truth.teacher != 0.0
    return {
        "status": posterior.status.value,
        "iterations": posterior.n_iter,
        "rung": posterior.trace[-1].stage,
        "mismatch": posterior.mismatch,
        "failures": posterior.failures,
        "invalid": posterior.invalid,
        "auc_weight": auc(np.abs(posterior.mean), present),
        "auc_inclusion": auc(posterior.inclusion, present),
        "mse": mse(posterior.mean, truth.teacher),
        "seconds": posterior.seconds,
    }


def summary(rows: list[Row]) -> list[Row]:
    """One row per cell."""
    out = []
    for cell, group in by_cell(rows, KEYS).items():
        iterations = [row["iterations"] for row in group]
        auc_w, auc_p = mean_se(row["auc_weight"] for row in group), mean_se(row["auc_inclusion"] for row in group)
        error, error_se = mean_se(row["mse"] for row in group)
        out.append({
            **dict(zip(KEYS, cell, strict=True)),
            "instances": len(group),
            "converged": sum(row["status"] == "converged" for row in group),
            "collapsed": sum(row["status"] == "collapsed" for row in group),
            "worst_mismatch": max(row["mismatch"] for row in group),
            "iterations_median": float(np.median(iterations)),
            "iterations_p90": float(np.percentile(iterations, 90)),
            "iterations_max": max(iterations),
            "by_direct": sum(row["rung"] == "direct" for row in group),
            "by_later_rungs": sum(row["rung"] != "direct" for row in group),
            "factorisations_failed": sum(row["failures"] for row in group),
            "cavities_invalid": sum(row["invalid"] for row in group),
            "auc_weight": auc_w[0],
            "auc_weight_se": auc_w[1],
            "auc_inclusion": auc_p[0],
            "auc_inclusion_se": auc_p[1],
            "mse": error,
            "mse_se": error_se,
            "mse_db": decibel(error),
            "seconds_median": float(np.median([row["seconds"] for row in group])),
        })  # fmt: skip
    return out


def main(instances: int, jobs: int) -> None:
    cell_rows = summary(run(trial, cells(), instances, jobs))
    table(cell_rows, (*KEYS, "converged", "collapsed", "iterations_median", "iterations_max", "auc_weight", "mse_db"))
    total, done = sum(row["instances"] for row in cell_rows), sum(row["converged"] for row in cell_rows)
    print(f"{done} of {total} converged, {sum(row['collapsed'] for row in cell_rows)} collapsed")
    write("convergence", cell_rows)
    accuracy(cell_rows)


def fresh(instances: int, jobs: int) -> None:
    """A fifth as many instances that played no part in choosing the ladder's rungs, with the code as it is now."""
    cell_rows = summary(run(trial, cells(), max(2, instances // 5), jobs, first=1000))
    total, done = sum(row["instances"] for row in cell_rows), sum(row["converged"] for row in cell_rows)
    print(f"{done} of {total} converged, {sum(row['collapsed'] for row in cell_rows)} collapsed")
    write("convergence_fresh", cell_rows)


def accuracy(cell_rows: list[Row]) -> None:
    """Support AUC, ranked by |w| as in the paper's two AUC tables, beside the published columns."""
    paper = printed("table-3", "patterns", "eta", "alpha", "method")
    out = []
    for row in cell_rows:
        key = (row["patterns"], row["eta"], row["alpha"])
        if (*key, "ep") not in paper:
            continue
        line = {**{k: row[k] for k in ("patterns", "alpha", "auc_weight", "auc_weight_se", "auc_inclusion", "mse_db")}}
        for method in ("ep", "grvamp"):
            theirs = paper[(*key, method)]
            se = float(np.hypot(row["auc_weight_se"], theirs["se"]))
            line |= {
                f"paper_{method}": theirs["value"],
                f"{method}_difference_se": (row["auc_weight"] - theirs["value"]) / se,
            }
        line["verdict"] = "reached" if min(line["ep_difference_se"], line["grvamp_difference_se"]) >= -2.0 else "missed"
        out.append(line)
    table(out, tuple(out[0]))
    write("accuracy", out)

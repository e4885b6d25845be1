"""Run times of all methods in one run, one thread, as ratios to EP, beside the paper's run-time table."""

from __future__ import annotations

import time

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.rows import Row, by_cell, rng_for, table, write
from dilutron import (
    AMPOptions,
    AOPOptions,
    BIHTOptions,
    EPOptions,
    GrVAMPOptions,
    MSPOptions,
    NARFPIOptions,
    Problem,
    R1BCSOptions,
    RFPIOptions,
    SpikeSlab,
    ThetaMixture,
    solve,
)
from dilutron.data import Lesson, lesson
from dilutron.metrics import auc, decibel, mse

ALPHAS = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)


def methods(truth: Lesson) -> dict[str, tuple[str, object]]:
    """Name to method and options; the greedy and convex ones are told what they must know."""
    k, flips = int(np.count_nonzero(truth.teacher)), int(truth.flipped.sum())
    return {
        "ep": ("ep", EPOptions()),
        "vamp": ("vamp", EPOptions()),
        "amp": ("amp", AMPOptions()),
        "grvamp": ("grvamp", GrVAMPOptions()),
        "grvamp-paper": ("grvamp", GrVAMPOptions.paper()),
        "r1bcs": ("r1bcs", R1BCSOptions()),
        "rfpi": ("rfpi", RFPIOptions()),
        "narfpi": ("narfpi", NARFPIOptions(flips=flips)),
        "msp": ("msp", MSPOptions(k=k)),
        "biht": ("biht", BIHTOptions(k=k)),
        "aop": ("aop", AOPOptions(k=k, flips=flips)),
        "aop_f": ("aop_f", AOPOptions(k=k, flips=flips)),
    }


# Seconds in the paper's Table 5 at these alphas: EP, grVAMP, R1BCS.
PAPER = {
    "iid": {
        "ep": (2.7, 2.6, 5.65, 8.3, 10.2, 12.2, 15.6),
        "grvamp-paper": (126.7, 134.6, 159.0, 212.9, 258.3, 311.6, 353.9),
        "r1bcs": (6.5, 12.0, 47.6, 150.9, 373.4, 628.0, 1052.9),
    },
    "mvn": {
        "ep": (2.7, 3.7, 6.2, 9.5, 11.4, 14.1, 15.9),
        "grvamp-paper": (139.2, 155.7, 289.0, 294.3, 366.9, 423.5, 498.5),
        "r1bcs": (6.7, 14.4, 53.6, 158.5, 379.4, 592.7, 1057.2),
    },
}


def trial(patterns: str, alpha: float, instance: int) -> list[Row]:
    """All methods on one problem, one after the other."""
    cell = {"patterns": patterns, "alpha": alpha}
    truth = lesson(128, alpha, rng_for("runtime", cell, instance), eta=0.95, patterns=patterns)
    problem = Problem.from_arrays(truth.X, truth.labels)
    rows = []
    for name, (method, options) in methods(truth).items():
        if (name, patterns) == ("grvamp-paper", "mvn"):
            continue  # some runs do not converge and take 20 times as long
        began = time.process_time()
        posterior = solve(problem, SpikeSlab(0.25), ThetaMixture(0.95), method=method, options=options)
        spent = time.process_time() - began
        rows.append({
            **cell,
            "method": name,
            "seconds": spent,
            "iterations": posterior.n_iter,
            "status": posterior.status.value,
            "mse": mse(posterior.mean, truth.teacher),
            "auc": auc(np.abs(posterior.mean), truth.teacher != 0.0),
        })  # fmt: skip
    return rows


def main(instances: int, jobs: int) -> None:
    """One process, whatever `jobs` says: neighbours share its caches. A thirtieth of the instances, at least 3."""
    rows: list[Row] = []
    with threadpool_limits(limits=1):
        for instance in range(max(3, instances // 30)):
            for patterns in ("iid", "mvn"):
                for alpha in ALPHAS:
                    rows += trial(patterns, alpha, instance)
    out = []
    groups = by_cell(rows, ("patterns", "method", "alpha"))
    for (patterns, method, alpha), group in groups.items():
        seconds = float(np.median([row["seconds"] for row in group]))
        ep = float(np.median([row["seconds"] for row in groups[patterns, "ep", alpha]]))
        at = ALPHAS.index(alpha)
        theirs = PAPER[patterns].get(method)
        out.append({
            "patterns": patterns,
            "method": method,
            "alpha": alpha,
            "seconds_median": seconds,
            "ratio_to_ep": seconds / ep,
            "paper_ratio_to_ep": theirs[at] / PAPER[patterns]["ep"][at] if theirs else "",
            "iterations_median": float(np.median([row["iterations"] for row in group])),
            "milliseconds_per_iteration": 1e3 * float(np.median([row["seconds"] / row["iterations"] for row in group])),
            "mse_db": decibel(float(np.mean([row["mse"] for row in group]))),
            "auc": float(np.mean([row["auc"] for row in group])),
            "converged": sum(row["status"] == "converged" for row in group),
            "instances": len(group),
        })  # fmt: skip
    for row in out:  # cost of an iteration grows as this power of alpha, from alpha = 1 on
        alike = [
            r for r in out if (r["patterns"], r["method"]) == (row["patterns"], row["method"]) and r["alpha"] >= 1.0
        ]
        alphas, costs = zip(*((r["alpha"], r["milliseconds_per_iteration"]) for r in alike), strict=True)
        row["exponent_in_alpha"] = float(np.polyfit(np.log(alphas), np.log(costs), 1)[0])
    out.sort(key=lambda row: (row["patterns"], row["method"], row["alpha"]))
    table(out, tuple(out[0]))
    write("runtime", out)

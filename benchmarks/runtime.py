"""Run times of all methods in one run, one thread, as ratios to EP, beside the paper's run-time table."""

from __future__ import annotations

import time
from collections.abc import Iterable

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.rows import Row, by_cell, printed, rng_for, table, write
from dilutron import (
    METHODS,
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
)
from dilutron.data import Lesson, lesson
from dilutron.metrics import auc, decibel, mse

ALPHAS = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
SLOW = {"r1bcs": ("iid", "mvn"), "msp": ("iid", "mvn"), "grvamp-paper": ("mvn",)}  # take most of the time, on these
FEW = 3  # instances of those
FACTORISE = ("ep", "r1bcs")  # in every iteration: of the others what is done once hides how an iteration grows
PAPER = {"ep": "ep", "grvamp-paper": "grvamp", "r1bcs": "r1bcs"}  # the methods of the paper's Table 5


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


def trial(patterns: str, alpha: float, instance: int) -> list[Row]:
    """All methods on one problem, one after the other.

    Called as they are: `solve` looks for BLAS libraries first, which takes longer than the shortest of them.
    """
    cell = {"patterns": patterns, "alpha": alpha}
    truth = lesson(128, alpha, rng_for("runtime", cell, instance), eta=0.95, patterns=patterns)
    problem = Problem.from_arrays(truth.X, truth.labels)
    rows = []
    for name, (method, options) in methods(truth).items():
        if patterns in SLOW.get(name, ()) and instance >= FEW:
            continue
        began = time.process_time()
        posterior = METHODS[method](problem, SpikeSlab(0.25), ThetaMixture(0.95), options)
        spent = time.process_time() - began
        rows.append({
            **cell,
            "instance": instance,
            "method": name,
            "seconds": spent,
            "iterations": posterior.n_iter,
            "status": posterior.status.value,
            "mse": mse(posterior.mean, truth.teacher),
            "auc": auc(np.abs(posterior.mean), truth.teacher != 0.0),
        })  # fmt: skip
    return rows


def main(instances: int, jobs: int) -> None:
    """One process, whatever `jobs` says: neighbours share its caches."""
    rows: list[Row] = []
    with threadpool_limits(limits=1):
        for instance in range(instances):
            for patterns in ("iid", "mvn"):
                for alpha in ALPHAS:
                    rows += trial(patterns, alpha, instance)
    out = summary(rows)
    table(out, tuple(out[0]))
    write("runtime", out)


def summary(rows: list[Row]) -> list[Row]:
    """Medians of every cell; EP's, for the ratio, over the same instances."""
    out, groups = [], by_cell(rows, ("patterns", "method", "alpha"))
    seconds_of = printed("table-5", "patterns", "method", "alpha")
    for (patterns, method, alpha), group in groups.items():
        seconds = _median(row["seconds"] for row in group)
        seen = {row["instance"] for row in group}
        ep = _median(row["seconds"] for row in groups[patterns, "ep", alpha] if row["instance"] in seen)
        theirs = [seconds_of[patterns, PAPER[name], alpha]["value"] for name in (method, "ep") if method in PAPER]
        out.append({
            "patterns": patterns,
            "method": method,
            "alpha": alpha,
            "seconds_median": seconds,
            "ratio_to_ep": seconds / ep,
            "paper_ratio_to_ep": theirs[0] / theirs[1] if theirs else "",
            "iterations_median": _median(row["iterations"] for row in group),
            "milliseconds_per_iteration": 1e3 * _median(row["seconds"] / row["iterations"] for row in group),
            "mse_db": decibel(float(np.mean([row["mse"] for row in group]))),
            "auc": float(np.mean([row["auc"] for row in group])),
            "converged": sum(row["status"] == "converged" for row in group),
            "instances": len(group),
        })  # fmt: skip
    for (_, method), some in by_cell(out, ("patterns", "method")).items():
        exponent = _exponent(some) if method in FACTORISE else ""
        for row in some:
            row["exponent_in_alpha"] = exponent
    return sorted(out, key=lambda row: (row["patterns"], row["method"], row["alpha"]))


def _exponent(rows: list[Row]) -> float:
    """The cost of an iteration grows as this power of alpha, from alpha = 1 on."""
    points = [(row["alpha"], row["milliseconds_per_iteration"]) for row in rows if row["alpha"] >= 1.0]
    return float(np.polyfit(*np.log(points).T, 1)[0])


def _median(values: Iterable[float]) -> float:
    return float(np.median(list(values)))

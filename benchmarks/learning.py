"""Learning rho and eta from random starts, beside the paper's three learning tables."""

from __future__ import annotations

import numpy as np

from benchmarks.rows import Row, by_cell, mean_se, printed, rng_for, run, table, write
from dilutron import EPOptions, Problem, RobustProbit, SpikeSlab, solve
from dilutron.data import lesson

N, RHO = 128, 0.25
KEYS = ("patterns", "eta", "alpha")


def cells() -> list[Row]:
    clean = [{"patterns": p, "eta": 1.0, "alpha": a} for p in ("iid", "mvn") for a in (2.0, 3.0, 4.0, 5.0, 6.0)]
    return clean + [{"patterns": p, "eta": 0.95, "alpha": a} for p in ("iid", "mvn") for a in (2.5, 3.0, 4.0, 5.0, 6.0)]


def trial(cell: Row, instance: int) -> Row:
    """Starts uniform: rho_0 in [0.05, 0.95], and eta_0 in [0.5, 1] where labels are noisy."""
    rng = rng_for("learning", cell, instance)
    truth = lesson(N, cell["alpha"], rng, rho=RHO, eta=cell["eta"], patterns=cell["patterns"])
    rho_0, eta_0 = rng.uniform(0.05, 0.95), rng.uniform(0.5, 1.0)
    noisy = cell["eta"] < 1.0
    posterior = solve(
        Problem.from_arrays(truth.X, truth.labels),
        weights=SpikeSlab(rho=rho_0),
        labels=RobustProbit(eta=eta_0 if noisy else 1.0),
        options=EPOptions(tol=1e-6, learn=("rho", "eta") if noisy else ("rho",)),
    )
    return {
        "rho_0": rho_0,
        "eta_0": eta_0 if noisy else 1.0,
        "right": 1.0 - float(truth.flipped.mean()),
        "rho": posterior.weights.rho,
        "eta_learned": posterior.labels.eta,
        "status": posterior.status.value,
        "iterations": posterior.n_iter,
        "seconds": posterior.seconds,
    }


def main(instances: int, jobs: int) -> None:
    rows = run(trial, cells(), instances, jobs)
    names = (*KEYS, "quantity")
    paper, out = printed("table-2", *names) | printed("table-4", *names), []
    for cell, group in by_cell(rows, KEYS).items():
        _, eta, _ = cell
        # The flips are counted out, round(0.05 M): the share of right labels is not exactly eta.
        truths = {"rho": RHO} if eta == 1.0 else {"rho": RHO, "eta": group[0]["right"]}
        for quantity, truth in truths.items():
            column = "rho" if quantity == "rho" else "eta_learned"
            mean, se = mean_se(row[column] for row in group)
            theirs = paper[(*cell, quantity)]["value"]
            error, their_error = abs(mean / truth - 1.0), abs(theirs / truth - 1.0)
            reached = error <= 0.5 * their_error or abs(mean - truth) <= 2.0 * se
            out.append({
                **dict(zip(KEYS, cell, strict=True)),
                "quantity": quantity,
                "truth": truth,
                "learned": mean,
                "se": se,
                "error": error,
                "paper": theirs,
                "paper_error": their_error,
                "instances": len(group),
                "converged": sum(row["status"] == "converged" for row in group),
                "iterations_median": float(np.median([row["iterations"] for row in group])),
                "seconds_median": float(np.median([row["seconds"] for row in group])),
                "verdict": "reached" if reached else "missed",
            })  # fmt: skip
    table(out, tuple(out[0]))
    write("learning", out)

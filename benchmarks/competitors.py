"""The competitors on the paper's protocol: support AUC, convergence, MSE, learning.

From the trials that `paper` ran. And how far our answers are from those of reference programs.
"""

from __future__ import annotations

import numpy as np

from benchmarks.needs import Need
from benchmarks.rows import RESULTS, Row, by_cell, mean_se, printed, table, write
from dilutron import GrVAMPOptions, Problem, R1BCSOptions, RobustProbit, SpikeSlab, solve
from dilutron.experiments.outputs import rows_of
from dilutron.experiments.paper import ITEMS, Item, learning
from dilutron.experiments.store import Store
from dilutron.metrics import decibel

LEARNING = Item(
    "learning",
    "rho and eta learned by EM",
    (learning(eta=0.95, patterns="iid", method=("ep", "vamp", "grvamp", "amp"), alpha=(3.0, 6.0)),),
    "learned",
)
FIXTURES = RESULTS.parents[2] / "shared" / "fixtures"
RUNS = (
    Need(
        f"runs in {FIXTURES}",
        lambda: any(FIXTURES.glob("*.npz")),
        "put problems there, and what reference programs answered: an .npz for each",
    ),
)


def tell(store: Store) -> None:
    """The tables, from the rows that are there; each says how many instances it has."""
    tables = ((areas, "table-3"), (convergence, "table-1"), (errors, "figure-2"), (learned, LEARNING.name))
    for told, name in tables:
        if rows := rows_of(ITEMS.get(name, LEARNING), store):
            told(rows)
        else:
            print(f"{name}: no trials yet, its file stays as it is")


def areas(rows: list[Row]) -> None:
    """Support AUC by |w| beside the paper's two tables. R1BCS: weights for columns of unit norm, as published."""
    paper = printed("table-3", "patterns", "alpha", "method")
    out = []
    for (patterns, method, alpha), group in by_cell(rows, ("patterns", "method", "alpha")).items():
        mean, se = mean_se(row["auc_scaled" if method == "r1bcs" else "auc"] for row in group)
        theirs = paper[patterns, alpha, method.removesuffix("-paper")]
        away = (mean - theirs["value"]) / float(np.hypot(se, theirs["se"]))
        out.append({
            "patterns": patterns,
            "method": method,
            "alpha": alpha,
            "auc": mean,
            "se": se,
            "paper": theirs["value"],
            "difference_se": away,
            "auc_own_columns": mean_se(row["auc"] for row in group)[0],
            "mse_db": decibel(mean_se(row["mse"] for row in group)[0]),
            "converged": sum(row["status"] == "converged" for row in group),
            "instances": len(group),
            "verdict": "reached" if away >= -2.0 else "missed",
        })  # fmt: skip
    out.sort(key=lambda row: (row["patterns"], row["method"], row["alpha"]))
    table(out, tuple(out[0]))
    write("competitors_auc", out)


def convergence(rows: list[Row]) -> None:
    """Share of converged runs on correlated patterns without noise, and the mismatch behind the word.

    Also how many runs ever had an error below looser thresholds: the paper does not say how it measured the change.
    """
    paper, out = printed("table-1", "n", "method", "alpha"), []
    for (n, method, alpha), group in by_cell(rows, ("n", "method", "alpha")).items():
        done = [row for row in group if row["status"] == "converged"]
        out.append({
            "n": n,
            "method": method,
            "alpha": alpha,
            "instances": len(group),
            "converged": len(done),
            "paper_grvamp": paper[n, "grvamp", alpha]["value"] if "grvamp" in method else "",
            "below_1e-6": sum(row["smallest_error"] < 1e-6 for row in group),
            "below_1e-4": sum(row["smallest_error"] < 1e-4 for row in group),
            "fixed_points": sum(row["mismatch"] < 1e-3 for row in done),
            "mse_db": decibel(mean_se(row["mse"] for row in group)[0]),
            "iterations_median": float(np.median([row["iterations"] for row in group])),
            "cpu_seconds_mean": mean_se(row["cpu_seconds"] for row in group)[0],
        })  # fmt: skip
    out.sort(key=lambda row: (row["n"], row["method"], row["alpha"]))
    table(out, tuple(out[0]))
    write("competitors_convergence", out)


def errors(rows: list[Row]) -> None:
    """MSE on i.i.d. patterns without noise: EP, 1-bit AMP and grVAMP, as differences on the same instances."""
    out = []
    for (alpha,), group in by_cell(rows, ("alpha",)).items():
        by_method = {
            method: {row["instance"]: row for row in some} for (method,), some in by_cell(group, ("method",)).items()
        }
        ep = by_method["ep"]
        for method, found in by_method.items():
            gap = [10.0 * np.log10(row["mse"] / ep[k]["mse"]) for k, row in found.items() if k in ep]
            mean, se = mean_se(gap)
            out.append({
                "alpha": alpha,
                "method": method,
                "mse_db": decibel(mean_se(row["mse"] for row in found.values())[0]),
                "above_ep_db": mean,
                "se_db": se,
                "converged": sum(row["status"] == "converged" for row in found.values()),
                "instances": len(found),
            })  # fmt: skip
    table(out, tuple(out[0]))
    write("competitors_mse", out)


def learned(rows: list[Row]) -> None:
    """rho and eta learned by EM from random starts, i.i.d. patterns, eta = 0.95."""
    out = []
    for (method, alpha), group in by_cell(rows, ("method", "alpha")).items():
        rho, rho_se = mean_se(row["rho_learned"] for row in group)
        eta, eta_se = mean_se(row["eta_learned"] for row in group)
        out.append({
            "method": method,
            "alpha": alpha,
            "rho": rho,
            "rho_se": rho_se,
            "eta": eta,
            "eta_se": eta_se,
            "right_labels": group[0]["right"],
            "rho_median": float(np.median([row["rho_learned"] for row in group])),
            "converged": sum(row["status"] == "converged" for row in group),
            "instances": len(group),
        })  # fmt: skip
    out.sort(key=lambda row: (row["alpha"], row["method"]))
    table(out, tuple(out[0]))
    write("competitors_learning", out)


def references(instances: int, jobs: int) -> None:
    """Distance of unit weights to the reference programs' on their converged instances."""
    programs = {"grvamp": GrVAMPOptions.paper(), "r1bcs": R1BCSOptions(scaled=True)}
    out = []
    for path in sorted(FIXTURES.glob("*.npz")):
        with np.load(path) as file:
            data = dict(file)
        problem = Problem.from_arrays(data["X"], data["labels"])
        for method, options in programs.items():
            if f"w_{method}" not in data:
                continue
            labels = RobustProbit(eta=float(data["eta"]))
            posterior = solve(problem, SpikeSlab(float(data["rho"])), labels, method=method, options=options)
            ours, theirs = (w / np.linalg.norm(w) for w in (posterior.mean, data[f"w_{method}"]))
            out.append({
                "instance": path.stem,
                "method": method,
                "reference_converged": bool(data[f"converged_{method}"]),
                "status": posterior.status.value,
                "iterations": posterior.n_iter,
                "distance": float(np.linalg.norm(ours - theirs)),
                "rms": float(np.sqrt(np.mean((ours - theirs) ** 2))),
            })  # fmt: skip
    table(out, tuple(out[0]))
    write("competitors_references", out)

"""Learning rho with far fewer samples than features: the path of expected sizes against EM from one start."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.needs import files
from benchmarks.rows import Row, by_cell, rng_for, run, table, write
from dilutron import EPOptions, Normal, Problem, RobustProbit, SpikeSlab, solve
from dilutron.data import lesson
from dilutron.metrics import auc

N = 2000
SHARED = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
PREPARED = {
    "colon_alon": lambda X: np.log10(X),
    "leukemia_golub": lambda X: np.log10(np.clip(X, 100, 16_000)),
    "prostate_singh": lambda X: np.log2(np.clip(X, 10, 16_000)),
}
SETS = files(
    *(SHARED / f"{name}.npz" for name in PREPARED),
    remedy="each has X, samples x genes as published, and y, 0 or 1: put it there",
)
STARTS = {"path": None, "em_from_1": 1.0, "em_from_half": 0.5}
KEYS = ("data", "samples", "size", "way")


def correlated(truth_X: np.ndarray, rng: np.random.Generator, correlation: float) -> np.ndarray:
    """Ten columns at a time share a factor."""
    factors = np.repeat(rng.standard_normal((len(truth_X), truth_X.shape[1] // 10)), 10, axis=1)
    return np.asarray(np.sqrt(1.0 - correlation) * truth_X + np.sqrt(correlation) * factors)


def cells() -> list[Row]:
    simulated = [
        {"data": data, "samples": m, "size": k, "way": way}
        for data in ("iid", "blocks")
        for m, k in ((60, 5), (100, 20))
        for way in STARTS
    ]
    real = [{"data": name, "samples": 0, "size": 0, "way": way} for name in PREPARED for way in STARTS]
    return simulated + [cell for cell in real if (SHARED / f"{cell['data']}.npz").is_file()]


def drawn(cell: Row, instance: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Patterns, labels, and which features are in the teacher; 5 % of the labels wrong."""
    if cell["data"] in PREPARED:
        with np.load(SHARED / f"{cell['data']}.npz", allow_pickle=False) as file:
            X = PREPARED[cell["data"]](file["X"].astype(float))
            return X[:, X.max(axis=0) > X.min(axis=0)], 2.0 * file["y"] - 1.0, None
    rng = rng_for("wide", {k: cell[k] for k in ("data", "samples", "size")}, instance)
    truth = lesson(N, cell["samples"] / N, rng, rho=cell["size"] / N)
    X = correlated(truth.X, rng, 0.7) if cell["data"] == "blocks" else truth.X
    labels = np.where(X @ truth.teacher >= 0.0, 1.0, -1.0)
    labels[rng.permutation(labels.size)[: round(0.05 * labels.size)]] *= -1.0
    return X, labels, truth.teacher != 0.0


def trial(cell: Row, instance: int) -> Row:
    """Learn rho and eta; a real data set is one instance."""
    if cell["data"] in PREPARED and instance > 0:
        return {"skipped": True}
    X, labels, present = drawn(cell, instance)
    n_features, start = X.shape[1], STARTS[cell["way"]]
    rho = 0.1 if start is None else (start / n_features if start >= 1.0 else start)
    posterior = solve(
        Problem.from_arrays(X, labels, standardize=True),
        weights=SpikeSlab(rho),
        labels=RobustProbit(eta=0.95, beta=1.0),
        intercept=Normal(0.1),
        options=EPOptions(tol=1e-5, learn=("rho", "eta"), path=start is None, max_iter=2000),
    )
    return {
        "shape": f"{len(X)} x {n_features}",
        "status": posterior.status.value,
        "iterations": posterior.n_iter,
        "learned_size": posterior.weights.rho * n_features,
        "eta": posterior.labels.eta,
        "log_evidence": posterior.log_evidence,
        "auc": np.nan if present is None else auc(posterior.inclusion, present),
    }


def main(instances: int, jobs: int) -> None:
    """So many instances of each cell; of a real set, one."""
    rows = [row for row in run(trial, cells(), instances, jobs) if "skipped" not in row]
    best: dict[tuple, float] = {}
    for row in rows:
        key = (row["data"], row["samples"], row["size"], row["instance"])
        best[key] = max(best.get(key, -np.inf), row["log_evidence"])
    out = []
    for cell, group in by_cell(rows, KEYS).items():
        behind = [best[(*cell[:3], row["instance"])] - row["log_evidence"] for row in group]
        sizes = [row["learned_size"] for row in group]
        out.append({
            **dict(zip(KEYS, cell, strict=True)),
            "samples": group[0]["shape"],
            "instances": len(group),
            "converged": sum(row["status"] == "converged" for row in group),
            "size_lowest": min(sizes), "size_median": float(np.median(sizes)), "size_highest": max(sizes),
            "nats_behind_best_mean": float(np.mean(behind)), "nats_behind_best_max": max(behind),
            "auc": float(np.mean([row["auc"] for row in group])),
            "iterations_median": float(np.median([row["iterations"] for row in group])),
        })  # fmt: skip
    table(out, tuple(out[0]))
    write("wide", out)

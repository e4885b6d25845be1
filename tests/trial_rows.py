"""Rows as the experiments write them, the paper's beside them, and what an Axes shows of these."""

import numpy as np

N, PRESENT = 16, 4


def row(method="ep", alpha=1.0, instance=0, **more):
    rng = np.random.default_rng([instance, round(10 * alpha), len(method)])
    ranks = sorted(rng.choice(N, PRESENT, replace=False))
    return {
        "n": N, "rho": 0.25, "eta": 1.0, "patterns": "iid", "alpha": alpha, "method": method, "instance": instance,
        "status": "converged", "mse": 0.1 * rng.random() + 0.01, "auc": 0.8, "cpu_seconds": rng.random() + 0.1,
        "rho_learned": rng.random(), "eta_learned": rng.random(), "right": 0.95 + 0.01 * alpha,
        "ranks": " ".join(map(str, ranks)), **more,
    }  # fmt: skip


ROWS = [row(method, alpha, i) for method in ("grvamp", "ep") for alpha in (2.0, 0.5, 1.0) for i in range(4)]


def printed(quantity, value, method="ep", alpha=1.0, se=0.01):
    cell = {"n": N, "eta": 1.0, "patterns": "iid", "dynamics": ""}
    return {**cell, "method": method, "alpha": alpha, "quantity": quantity, "value": value, "se": se}


def crosses(ax):
    return {
        bars.get_label(): list(bars.lines[0].get_ydata())
        for bars in ax.containers
        if bars.get_label().endswith("in the paper")
    }

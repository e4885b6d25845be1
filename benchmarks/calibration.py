"""Whether probabilities come true: inclusion, label errors, groups, intervals and false shares on simulated data.

Teachers, flips and noise are drawn from the model's own law, each weight present with probability rho and then standard
normal, each label flipped with probability 1 - eta. With the parameters known exact inference is then calibrated by
construction, and what is missed is EP's. Signs tell nothing of the common size of the weights, which the prior alone
gives: only teachers from the prior can test intervals.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.kept import kept
from benchmarks.peers import Method, code
from benchmarks.rows import Row, by_cell, figures, mean_se, rng_for, table, write
from dilutron.data.designs import block_patterns
from dilutron.data.teacher import Patterns, diluted_teacher, iid_patterns, mvn_patterns
from dilutron.estimators import EPClassifier
from dilutron.special import Vector

ETA, LEVEL, FDR, BINS = 0.95, 0.9, 0.1, 10
GROUPS, GROUPED = 10, 10  # groups of each of the first instances: every one is another solve
BLOCK = 4  # columns of a block: groups whose probability is neither 0 nor 1
UNEQUAL = "mvn"


def unit_mvn_patterns(n_patterns: int, n_weights: int, rng: np.random.Generator) -> Vector:
    """Correlated patterns with columns of one size, as a classifier that standardises believes them to be."""
    X = mvn_patterns(n_patterns, n_weights, rng)
    return np.asarray(X / X.std(axis=0))


DESIGNS: dict[str, Patterns] = {
    "iid": iid_patterns,
    "mvn, unit columns": unit_mvn_patterns,
    UNEQUAL: mvn_patterns,
    "blocks": partial(block_patterns, correlation=0.8, size=BLOCK),
}
KEYS = ("patterns", "n", "m", "rho", "beta")
KINDS = {"inclusion": "features", "flip": "label errors", "group": "groups of features"}
# Of the expected calibration error of inclusion probabilities; label errors, for which no aim was set, get the same.
LIMITS = {"known": 0.012, "learned": 0.02}
COVERED, FALSE = (0.88, 0.92), 0.12


def cells() -> list[Row]:
    """N = 128 with sharp labels, and one wide cell with noisy ones."""
    square = [
        {"patterns": patterns, "n": 128, "m": 128 * alpha, "rho": rho, "beta": np.inf}
        for patterns in DESIGNS
        for rho in (0.1, 0.25)
        for alpha in (1, 2, 4)
    ]
    return [*square, {"patterns": "iid", "n": 1000, "m": 80, "rho": 0.01, "beta": 1.0}]


def known(cell: Row) -> EPClassifier:
    """The law that the data are drawn from."""
    given: dict[str, Any] = {"rho": cell["rho"], "eta": ETA, "beta": cell["beta"]}
    return EPClassifier(**given, fit_intercept=False, standardize=False, max_iter=2000)  # sharp labels take long


AS_THEY_ARE = "learned, columns as they are"
VARIANTS: dict[str, Callable[[Row], EPClassifier]] = {
    "known": known,
    "learned": lambda cell: EPClassifier(),
    # Unequal columns: once standardised they have weights of unequal prior size, unlike the model's.
    AS_THEY_ARE: lambda cell: EPClassifier(standardize=False),
}


class Truth(NamedTuple):
    """Rows, labels, and what made them."""

    X: Vector
    labels: Vector
    teacher: Vector
    flipped: NDArray[np.bool_]


def drawn(cell: Row, instance: int) -> Truth:
    rng = rng_for("calibration", {k: cell[k] for k in KEYS}, instance)
    teacher = diluted_teacher(cell["n"], cell["rho"], rng, exact=False)
    X = DESIGNS[cell["patterns"]](cell["m"], cell["n"], rng)
    field = X @ teacher + rng.standard_normal(cell["m"]) / np.sqrt(cell["beta"])
    flipped = rng.random(cell["m"]) > ETA
    return Truth(X, np.where((field >= 0.0) != flipped, 1.0, -1.0), teacher, np.asarray(flipped))


def trial(cell: Row, instance: int) -> Row:
    truth = drawn(cell, instance)
    present = truth.teacher != 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of empty lists and of convergence: both are counted
        model = VARIANTS[cell["variant"]](cell).fit(truth.X, truth.labels)
        listed = model.selected(fdr=FDR)
        grouped = cell["patterns"] == "blocks" and instance < GROUPED
        groups = model.feature_groups(truth.X, truth.labels, n_groups=GROUPS) if grouped else ()
    low, high = (end[0] for end in model.coef_interval(LEVEL))
    covered = (low <= truth.teacher) & (truth.teacher <= high)
    together = [group for group in groups if group.members.size > 1]
    return {
        **binned("inclusion", model.inclusion_proba_, present),
        **binned("flip", model.label_error_proba_, truth.flipped),
        **binned("group", [g.inclusion for g in together], [present[g.members].any() for g in together]),
        "present": int(present.sum()),
        "covered": int(covered[present].sum()),
        "listed": int(listed.size),
        "false": int((~present[listed]).sum()),
        "size": model.rho_ * cell["n"],
        "eta": model.eta_,
        "beta_learned": model.beta_,
        "status": model.status_,
    }


def binned(kind: str, probability: Any, truth: Any) -> Row:
    """What a reliability table needs, in a form that adds up over instances.

    The variance is that of the number that comes true where the probabilities are right.
    """
    p = np.asarray(probability, dtype=float)
    which = np.minimum((p * BINS).astype(int), BINS - 1)
    parts = {"n": np.ones_like(p), "claimed": p, "seen": np.asarray(truth, dtype=float), "var": p * (1.0 - p)}
    return {f"{kind}_{name}": np.bincount(which, values, BINS).tolist() for name, values in parts.items()}


class Reliability(NamedTuple):
    """Sums over instances in bins of probability: how many, claimed, seen, and the variance of the latter."""

    n: Vector
    claimed: Vector
    seen: Vector
    var: Vector

    @classmethod
    def of(cls, rows: list[Row], kind: str) -> Reliability:
        return cls(*(np.sum([row[f"{kind}_{name}"] for row in rows], axis=0) for name in cls._fields))

    @property
    def error(self) -> float:
        """Expected calibration error: the mean over entries of |claimed - seen| in their bin; NaN of nothing."""
        return float(np.abs(self.claimed - self.seen).sum() / self.n.sum()) if self.n.any() else np.nan

    @property
    def floor(self) -> float:
        """The error that right probabilities would show by chance, for so few entries."""
        return float(np.sqrt(2.0 / np.pi * self.var).sum() / self.n.sum()) if self.n.any() else np.nan


def summary(rows: list[Row]) -> Row:
    """Of all instances given."""
    lists = [row for row in rows if row["listed"] > 0]
    false, false_se = mean_se([row["false"] / row["listed"] for row in lists] or [np.nan])
    coverage, coverage_se = ratio_se([row["covered"] for row in rows], [row["present"] for row in rows])
    found: Row = {}
    for kind in KINDS:
        table_ = Reliability.of(rows, kind)
        found |= {f"{kind}_error": table_.error, f"{kind}_floor": table_.floor}
    return {
        **found,
        "coverage": coverage, "coverage_se": coverage_se,
        "false_share": false, "false_se": false_se, "lists": len(lists),
        "size": mean_se(row["size"] for row in rows)[0],
        "eta": mean_se(row["eta"] for row in rows)[0],
        "beta_median": float(np.median([row["beta_learned"] for row in rows])),
        "instances": len(rows),
        "converged": sum(row["status"] == "converged" for row in rows),
    }  # fmt: skip


def ratio_se(part: list[int], whole: list[int]) -> tuple[float, float]:
    """A ratio of sums over instances, and its standard error: entries of one instance are not independent."""
    above, below = np.asarray(part, dtype=float), np.asarray(whole, dtype=float)
    ratio = float(above.sum() / below.sum())
    rest = above - ratio * below
    return ratio, float(np.sqrt(np.sum(rest**2) * rest.size / max(rest.size - 1, 1)) / below.sum())


def verdict(variant: str, found: Row) -> str:
    """What was missed of calibration, coverage and false share; groups have no limit."""
    limit = LIMITS["known" if variant == "known" else "learned"]
    checks = {
        "inclusion": found["inclusion_error"] < limit,
        "label errors": found["flip_error"] < limit,
        "coverage": COVERED[0] <= found["coverage"] <= COVERED[1],
        "false share": not found["false_share"] > FALSE,
    }
    missed = [name for name, good in checks.items() if not good]
    return f"missed: {', '.join(missed)}" if missed else "reached"


def main(instances: int, jobs: int) -> None:
    """Every variant in every cell, kept while the code stays the same; against a sampler, see `gibbs`."""
    tasks = [
        ({**cell, "variant": variant, "code": code(Method(EPClassifier, "dilutron"))}, k)
        for cell in cells()
        for variant in VARIANTS
        if variant != AS_THEY_ARE or cell["patterns"] == UNEQUAL
        for k in range(instances)
    ]
    report(kept("calibration", trial, tasks, jobs))


def report(rows: list[Row]) -> None:
    """Cell by cell, then pooled over designs, where the verdict falls: a cell alone is at the mercy of its floor.

    Pooled, errors of opposite sign cancel; the mean of the cells' errors, beside their floor, tells how much.
    """
    out = [
        {**dict(zip((*KEYS, "variant"), cell, strict=True)), **summary(group)}
        for cell, group in by_cell(rows, (*KEYS, "variant")).items()
    ]
    table(out, tuple(out[0]))
    write("calibration_cells", out)
    pooled, bins = [], []
    for (patterns, n, variant), group in by_cell(rows, ("patterns", "n", "variant")).items():
        found = summary(group)
        own = [Reliability.of(cell, "inclusion") for cell in by_cell(group, KEYS).values()]
        found |= {"inclusion_error_cells": float(np.mean([cell.error for cell in own]))}
        found |= {"inclusion_floor_cells": float(np.mean([cell.floor for cell in own]))}
        head = {"patterns": patterns, "n": n, "variant": variant}
        pooled.append({**head, **found, "verdict": verdict(variant, found)})
        bins += [{**head, **row} for kind in KINDS for row in curve(group, kind)]
    table(pooled, tuple(pooled[0]))
    write("calibration", pooled)
    write("calibration_curves", bins)
    draw(bins)


def curve(rows: list[Row], kind: str) -> list[Row]:
    """The reliability table, without its empty bins."""
    sums = Reliability.of(rows, kind)
    return [
        {
            "kind": kind,
            "bin": f"{b / BINS:.1f} to {(b + 1) / BINS:.1f}",
            "claimed": float(sums.claimed[b] / sums.n[b]),
            "seen": float(sums.seen[b] / sums.n[b]),
            "se": float(np.sqrt(sums.var[b]) / sums.n[b]),
            "entries": int(sums.n[b]),
        }
        for b in np.flatnonzero(sums.n)
    ]


def draw(bins: list[Row]) -> None:
    """Seen against claimed, one panel for each kind of probability, with known and with learned parameters."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(KINDS), figsize=(10, 6.6), sharex=True, sharey=True, layout="constrained")
    styles = dict(zip(DESIGNS, (("o", "#0072B2"), ("s", "#D55E00"), ("^", "#009E73"), ("D", "#CC79A7")), strict=True))
    square = [row for row in bins if row["n"] == 128]
    for across, variant in zip(axes, ("known", "learned"), strict=True):
        for axis, (kind, title) in zip(across, KINDS.items(), strict=True):
            axis.plot((0, 1), (0, 1), color="0.8", linewidth=1.0, zorder=1)
            for patterns, (marker, colour) in styles.items():
                own = [r for r in square if (r["patterns"], r["variant"], r["kind"]) == (patterns, variant, kind)]
                claimed, seen, se = ([row[key] for row in own] for key in ("claimed", "seen", "se"))
                if own:
                    axis.errorbar(
                        claimed, seen, yerr=se, marker=marker, color=colour, markersize=4, linewidth=1, label=patterns
                    )
            axis.set_title(f"{title}, {variant} parameters", fontsize=10)
            axis.grid(alpha=0.3)
    axes[0, 0].set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    for axis in axes[-1]:
        axis.set_xlabel("claimed probability")
    for axis in axes[:, 0]:
        axis.set_ylabel("share that came true")
    axes[0, 0].legend(frameon=False, fontsize=9)
    path = figures() / "calibration.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(path)

"""Three sets of gene expressions: accuracy, AUC, CPU time and stability of the choice, beside the usual tools.

Stratified 5-fold, repeated; every classifier has its defaults and gets raw columns, so that all it learns is learned in
the fold. Rows of single folds are kept in benchmarks/trials/real_data.jsonl.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold

from benchmarks.kept import Task, kept
from benchmarks.peers import METHODS, OURS, REFERENCE, Method, chosen, code, installed, version, warm
from benchmarks.rows import TRIALS, Row, by_cell, mean_se, rng_for, table, write
from benchmarks.wide import PREPARED, SHARED

FOLDS = 5
FURTHER = TRIALS / "independent"  # sets that are not in shared/data, see `independent`
CPU_ALLOWED = 2.0  # times that of REFERENCE


class Data(NamedTuple):
    """A prepared table, its labels (0 or 1), and where the literature doubts them."""

    X: np.ndarray
    y: np.ndarray
    suspect: np.ndarray | None


@cache
def load(name: str) -> Data:
    """Prepared entry by entry; constant columns stay, for they are the fold's business."""
    folder, prepared = (SHARED, PREPARED[name]) if name in PREPARED else (FURTHER, np.asarray)
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        suspect = file["suspect"].astype(bool) if "suspect" in file.files else None
        return Data(prepared(file["X"].astype(float)), file["y"].astype(int), suspect)


def sets() -> list[str]:
    """Names of the sets that are there."""
    return [name for name in PREPARED if (SHARED / f"{name}.npz").is_file()]


def split(name: str, repeat: int) -> StratifiedKFold:
    """The same folds for every classifier."""
    seed = int(rng_for("real_data", {"data": name}, repeat).integers(2**31))
    return StratifiedKFold(FOLDS, shuffle=True, random_state=seed)


def trial(cell: Row, instance: int) -> Row:
    """One classifier on one fold of one repeat."""
    warm(cell["method"])
    return judged(METHODS[cell["method"]].make(), cell["data"], cell["fold"], instance)


def judged(model: Any, data: str, fold: int, repeat: int) -> Row:
    """The classifier fitted to all but the fold, and tested on it."""
    X, y, _ = load(data)
    train, test = list(split(data, repeat).split(X, y))[fold]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = time.process_time()
        model.fit(X[train], y[train])
        seconds = time.process_time() - began
    probability = model.predict_proba(X[test])[:, 1]
    return {
        "accuracy": float(np.mean(model.predict(X[test]) == y[test])),
        "auc": float(roc_auc_score(y[test], _score(model, X[test], probability))),
        "log_loss": float(log_loss(y[test], probability, labels=[0, 1])),
        "cpu_seconds": seconds,
        "unconverged": any(issubclass(one.category, ConvergenceWarning) for one in caught),
        "chosen": chosen(model),
    }


def _score(model: Any, X: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """Log odds where the model gives them: probabilities that are 1 to the last digit would be ties."""
    return np.ravel(model.decision_function(X)) if hasattr(model, "decision_function") else probability


def stability(choices: Sequence[Sequence[int]], n_features: int) -> float:
    """Agreement of sets of features: 1 where all are equal, 0 on average where they are random, whatever their sizes.

    Nogueira, Sechidis & Brown (2018), Eq. (4). NaN where nothing or everything is chosen always.
    """
    times = np.bincount(np.concatenate([np.asarray(one, dtype=int) for one in choices]), minlength=n_features)
    share, n = times / len(choices), len(choices)
    by_chance = share.mean() * (1.0 - share.mean())
    spread = n / (n - 1) * np.mean(share * (1.0 - share)) if n > 1 else np.nan
    return float(1.0 - spread / by_chance) if by_chance > 0.0 else float("nan")


def jaccard(choices: Sequence[Sequence[int]]) -> float:
    """Mean over pairs of the shared part of all that either chose; two that chose nothing agree."""
    each = [frozenset(one) for one in choices]
    pairs = [(a, b) for k, a in enumerate(each) for b in each[:k]]
    return float(np.mean([len(a & b) / len(a | b) if a | b else 1.0 for a, b in pairs])) if pairs else float("nan")


def paired(ours: list[Row], theirs: list[Row], quantity: str, keys: tuple[str, ...]) -> tuple[float, float, int]:
    """Ours minus theirs in the cells that both have: mean, standard error, and how many cells."""
    mine = {tuple(row[k] for k in keys): row[quantity] for row in ours}
    gaps = [mine[key] - row[quantity] for row in theirs if (key := tuple(row[k] for k in keys)) in mine]
    return (*mean_se(gaps), len(gaps))


def summary(rows: list[Row]) -> list[Row]:
    """A row for each set and method; `gain` is ours minus this method, on the folds of both."""
    groups = by_cell(rows, ("data", "method"))
    out = []
    for (data, method), group in groups.items():
        line: Row = {
            "data": data,
            "method": method,
            "version": version(METHODS[method].package),
            "repeats": len({row["instance"] for row in group}),
            "folds": len(group),
        }
        for quantity in ("accuracy", "auc"):
            line[quantity], line[f"{quantity}_se"] = mean_se(row[quantity] for row in group)
            gain = paired(groups[data, OURS], group, quantity, ("instance", "fold"))
            line |= {f"{quantity}_gain": gain[0], f"{quantity}_gain_se": gain[1]}
        choices = [row["chosen"] for row in group]
        reference = np.median([row["cpu_seconds"] for row in groups[data, REFERENCE]])
        seconds = float(np.median([row["cpu_seconds"] for row in group]))
        out.append({
            **line,
            "log_loss": mean_se(row["log_loss"] for row in group)[0],
            "cpu_seconds": seconds,
            "cpu_ratio": float(seconds / reference),
            "features": float(np.mean([len(one) for one in choices])),
            "stability": stability(choices, load(data).X.shape[1]),
            "jaccard": jaccard(choices),
            "unconverged": sum(row["unconverged"] for row in group),
        })  # fmt: skip
    return out


def verdicts(rows: list[Row]) -> list[Row]:
    """Ours against the best peer of each set, which is the one it gains least on; and CPU against the reference.

    `se` takes folds as independent. They share samples, so it is too small: `verdict`, by it, is hard rather than easy.
    `overlap` is the verdict by `overlap_se`, which allows for that.
    """
    out = []
    for (data,), group in by_cell(rows, ("data",)).items():
        mine = next(row for row in group if row["method"] == OURS)
        peers = [row for row in group if row["method"] != OURS]
        compared = {"data": data, "peers": len(peers), "of": len(METHODS) - 1}
        for quantity in ("accuracy", "auc"):
            best = min(peers, key=lambda row: row[f"{quantity}_gain"])
            gain, se = best[f"{quantity}_gain"], best[f"{quantity}_gain_se"]
            wide = overlap_se(se, best["folds"])
            answer = {"against": best["method"], "folds": best["folds"], "difference": gain, "se": se}
            words = {"verdict": _within(gain, se), "overlap_se": wide, "overlap": _within(gain, wide)}
            out.append({**compared, "quantity": quantity, **answer, **words})
        ratio = {"against": REFERENCE, "folds": mine["folds"], "difference": mine["cpu_ratio"], "se": ""}
        words = {"verdict": _word(mine["cpu_ratio"] <= CPU_ALLOWED), "overlap_se": "", "overlap": ""}
        out.append({**compared, "quantity": "cpu_ratio", **ratio, **words})
    return out


def overlap_se(se: float, folds: int) -> float:
    """A standard error over folds that share rows, from that of independent ones.

    Nadeau & Bengio (2003): 1/n becomes 1/n + (rows held out) / (rows learned from), however often folds are repeated.
    """
    return se * float(np.sqrt(1.0 + folds / (FOLDS - 1.0)))


def _within(gain: float, se: float) -> str:
    return _word(gain >= -se * (1.0 + 1e-9))  # where one fold differs the two are equal but for rounding


def _word(met: bool) -> str:
    return "reached" if met else "missed"


def tasks(repeats: int, names: Sequence[str], methods: dict[str, Method] = METHODS) -> list[Task]:
    """Repeat by repeat, so that a run that is stopped has all methods on the same folds."""
    methods = installed(methods)
    return [
        ({"data": data, "method": name, "fold": fold, "code": code(method)}, repeat)
        for repeat in range(repeats)
        for data in names
        for fold in range(FOLDS)
        for name, method in methods.items()
        if repeat < method.repeats
    ]


def main(instances: int, jobs: int) -> None:
    """`instances` repeats of the folds; the committed results have ten."""
    tell("real_data", summary(kept("real_data", trial, tasks(instances, sets()), jobs)))


def tell(name: str, rows: list[Row]) -> None:
    """Both tables, shown and written."""
    if not rows:
        return
    shown = ("accuracy", "accuracy_se", "auc", "auc_se", "log_loss", "cpu_seconds", "features", "stability", "jaccard")
    table(rows, ("data", "method", "repeats", *shown))
    write(name, rows)
    answers = verdicts(rows)
    table(answers, tuple(answers[0]))
    write(f"{name}_verdicts", answers)

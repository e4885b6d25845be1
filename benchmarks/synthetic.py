"""EPClassifier with everything learned against what users pick instead, on teachers of known weights.

Cells are those of the table of numbers to beat. All methods see the same instances; peers get standardised columns and
choose their penalty by cross-validation, or have a prior instead. A method whose package is not installed is left
out. Seconds are of CPU; those of programs of R are measured inside R.
"""

from __future__ import annotations

import time
import warnings
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.in_r import GlmnetCV, SparseVB, Varbvs
from benchmarks.kept import Task, kept
from benchmarks.peers import IN_R, Method, SkglmCV, code, installed, warm
from benchmarks.rows import Row, by_cell, mean_se, rng_for, table, write
from dilutron.data import PATTERNS, Lesson, diluted_teacher
from dilutron.data.teacher import flips, taught
from dilutron.estimators import EPClassifier
from dilutron.metrics import auc, decibel, mse
from dilutron.special import Vector

ETA, FRESH, FOLDS = 0.95, 2000, 5
KEYS = ("n", "rho", "patterns", "alpha")
# The best peer's MSE in dB, of any language, as measured once for the table of numbers to beat.
ANCHORS: dict[tuple[Any, ...], float] = {
    (128, 0.25, "iid", 1.0): -23.4,
    (128, 0.25, "iid", 2.0): -26.9,
    (128, 0.25, "iid", 4.0): -31.2,
    (128, 0.25, "mvn", 1.0): -20.6,
    (128, 0.25, "mvn", 2.0): -23.7,
    (128, 0.25, "mvn", 4.0): -25.4,
    (1000, 0.05, "iid", 2.0): -44.4,
}
OURS, KNOWN, BAYES = "dilutron", "dilutron, known", "sparsevb"
PENALTIES = tuple(np.logspace(-2.5, 1.5, 15).tolist())  # C of scikit-learn
MIXES = (0.5, 0.8)  # l1_ratio of the elastic net; 1 is the L1 penalty
COMPILED = {"skglm L1": "skglm L1-CV"}  # what to warm up before the clock runs
SHOWN = ("auc_weights", "auc_inclusion", "accuracy", "seconds", "size", "eta")


def methods(cell: Row) -> dict[str, Method]:
    """Ours with its defaults and with the teacher's own law, and the peers with finer grids than their defaults."""
    law: dict[str, Any] = {"rho": cell["rho"], "eta": ETA, "beta": np.inf}
    return {
        OURS: Method(EPClassifier, "dilutron"),
        KNOWN: Method(partial(EPClassifier, **law, fit_intercept=False, standardize=False), "dilutron"),
        "sklearn L1": Method(partial(_logistic, solver="liblinear", l1_ratios=(1.0,), max_iter=300), "scikit-learn"),
        "sklearn elastic net": Method(
            partial(_logistic, solver="saga", l1_ratios=MIXES, max_iter=200, tol=1e-3), "scikit-learn"
        ),
        "skglm L1": Method(partial(_scaled, partial(SkglmCV, n_alphas=20, smallest=1e-3, n_folds=FOLDS)), "skglm"),
        "abess EBIC": Method(partial(_scaled, _abess), "abess"),
        "abess CV": Method(partial(_scaled, partial(_abess, cv=FOLDS)), "abess"),
        "glmnet L1": Method(partial(_scaled, GlmnetCV), IN_R + "glmnet"),
        BAYES: Method(partial(_scaled, SparseVB), IN_R + "sparsevb"),
        "varbvs": Method(partial(_scaled, Varbvs), IN_R + "varbvs"),
    }


def _scaled(make: Any) -> Any:
    return make_pipeline(StandardScaler(), make())


def _logistic(**given: Any) -> Any:
    """The penalty is chosen by the log probability of labels held out."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    common: dict[str, Any] = {"scoring": "neg_log_loss", "use_legacy_attributes": False, "random_state": 0}
    return _scaled(partial(LogisticRegressionCV, Cs=PENALTIES, cv=folds, **common, **given))


def _abess(**given: Any) -> Any:
    """Best subset, its size by the EBIC unless `cv` is given."""
    return import_module("abess").LogisticRegression(**given)


def drawn(cell: Row, instance: int) -> tuple[Lesson, Vector]:
    """The paper's protocol, and fresh rows of the same law: of mvn patterns that law is drawn, too."""
    rng = rng_for("synthetic", {k: cell[k] for k in KEYS}, instance)
    n = cell["n"]
    size = round(cell["alpha"] * n)
    teacher = diluted_teacher(n, cell["rho"], rng)
    X = PATTERNS[cell["patterns"]](size + FRESH, n, rng)
    return taught(X[:size], teacher, flips(size, ETA, rng)), X[size:]


def trial(cell: Row, instance: int) -> Row:
    truth, fresh = drawn(cell, instance)
    method = methods(cell)[cell["method"]]
    model = method.make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence: the status tells ours, and peers are taken as they are
        if cell["method"] in COMPILED:
            warm(COMPILED[cell["method"]])
        began = time.process_time()
        model.fit(truth.X, truth.labels)
        seconds = time.process_time() - began
        if method.package.startswith(IN_R):  # a child's time is not this process's
            seconds = model[-1].figures_["cpu_seconds"]
        right = np.asarray(model.predict(fresh)) == np.where(fresh @ truth.teacher >= 0.0, 1.0, -1.0)
    coef, present = weights(model), truth.teacher != 0.0
    ours = isinstance(model, EPClassifier)
    inclusion = getattr(model if ours else model[-1], "inclusion_proba_", None)
    size = np.count_nonzero(coef) if inclusion is None else inclusion.sum()
    return {
        "mse": mse(coef, truth.teacher),
        "auc_weights": auc(np.abs(coef) * truth.X.std(axis=0), present),
        "auc_inclusion": np.nan if inclusion is None else auc(inclusion, present),
        "accuracy": float(right.mean()),
        "seconds": seconds,
        "size": model.rho_ * coef.size if ours else float(size),
        "eta": model.eta_ if ours else np.nan,
        "status": model.status_ if ours else "",
    }


def weights(model: Any) -> Vector:
    """For the columns as they came; peers saw them standardised."""
    if isinstance(model, EPClassifier):
        return np.asarray(model.coef_[0])
    return np.asarray(np.ravel(model[-1].coef_) / model[0].scale_)


def main(instances: int, jobs: int) -> None:
    """The cells of N = 128. Rows are kept; those of changed settings or code are made again."""
    _compared([key for key in ANCHORS if key[0] < 1000], instances, jobs)


def large(instances: int, jobs: int) -> None:
    """All cells, with a quarter of the instances where N = 1000: some peers take minutes a fit there."""
    _compared(list(ANCHORS), instances, jobs)


def _compared(keys: list[tuple[Any, ...]], instances: int, jobs: int) -> None:
    tasks: list[Task] = []
    there = installed(methods({"rho": 0.5}))
    for key in keys:
        cell = dict(zip(KEYS, key, strict=True))
        count = instances if cell["n"] < 1000 else max(2, instances // 4)
        for name, method in methods(cell).items():
            if name in there:
                tasks += [({**cell, "method": name, "code": code(method)}, k) for k in range(count)]
    rows = kept("synthetic", trial, tasks, jobs)
    all_methods(rows)
    verdicts(rows)


def all_methods(rows: list[Row]) -> None:
    """Every method in every cell."""
    out = []
    for cell, group in by_cell(rows, (*KEYS, "method")).items():
        means = {name: mean_se(row[name] for row in group)[0] for name in SHOWN}
        out.append({
            **dict(zip((*KEYS, "method"), cell, strict=True)),
            "mse_db": decibel(mean_se(row["mse"] for row in group)[0]),
            **means,
            "instances": len(group),
            "converged": sum(row["status"] == "converged" for row in group) if group[0]["status"] else "",
        })  # fmt: skip
    table(out, tuple(out[0]))
    write("synthetic_methods", out)


def verdicts(rows: list[Row]) -> None:
    """EPClassifier's defaults against the best peer of each cell, instance by instance, and the number to beat.

    A negative difference is ours being better. Reached: better than every peer measured here and than that number;
    sure where the paired difference to the best peer is more than two standard errors. `cpu_to_sparsevb` is the median
    of our CPU over that of the other program of spikes and slabs, instance by instance.
    """
    out = []
    for cell, group in by_cell(rows, KEYS).items():
        errors = {name: {r["instance"]: r["mse"] for r in own} for (name,), own in by_cell(group, ("method",)).items()}
        level = {name: decibel(mean_se(own.values())[0]) for name, own in errors.items()}
        best = min((name for name in level if name not in (OURS, KNOWN)), key=lambda name: level[name])
        gap, se = mean_se(decibel(own / errors[best][k]) for k, own in errors[OURS].items())
        better = level[OURS] < min(level[best], ANCHORS[cell])
        out.append({
            **dict(zip(KEYS, cell, strict=True)),
            "learned_db": level[OURS],
            "known_db": level[KNOWN],
            "best_peer": best,
            "best_peer_db": level[best],
            "difference_db": gap,
            "se_db": se,
            "to_beat_db": ANCHORS[cell],
            "instances": len(errors[OURS]),
            "cpu_to_sparsevb": cpu_ratio(group),
            "sure": "yes" if abs(gap) > 2.0 * se else "no",
            "verdict": "reached" if better else "missed",
        })  # fmt: skip
    table(out, tuple(out[0]))
    write("synthetic", out)


def cpu_ratio(rows: list[Row]) -> float:
    """nan where sparsevb was not run."""
    ours, theirs = ({r["instance"]: r["seconds"] for r in rows if r["method"] == name} for name in (OURS, BAYES))
    return float(np.median([seconds / theirs[k] for k, seconds in ours.items() if k in theirs] or [np.nan]))

"""Which labels are wrong: one fit of ours, against cleanlab, which needs out-of-fold probabilities of some classifier.

Two questions: colon's samples that the literature suspects, and labels flipped by us. In both every label is ranked,
and the AUC says how far the wrong ones are at the top. Rows are kept in benchmarks/trials/label_errors.jsonl.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.model_selection import cross_val_predict

from benchmarks.kept import Task, kept
from benchmarks.peers import L2, METHODS, OURS, REFERENCE, code, installed, version, warm
from benchmarks.real_data import load, paired, sets, split
from benchmarks.rows import Row, by_cell, mean_se, rng_for, table, write
from dilutron.metrics import auc

FLIPPED = 0.1
SUSPECTS_WANTED = 0.95
ONE_FIT = "one fit"
# With two classes the plain scores all rank as the probability of the given label does; correcting it for the classes'
# own confidence makes the only difference.
SCORES = (
    ("self_confidence", False),
    ("normalized_margin", False),
    ("confidence_weighted_entropy", False),
    ("self_confidence", True),
    ("normalized_margin", True),
)
SOURCES = {name: METHODS[name] for name in (OURS, REFERENCE, "skglm elastic net CV")} | {"L2-CV": L2}


def labels(cell: Row, instance: int) -> tuple[np.ndarray, np.ndarray]:
    """The labels that are given to the classifiers, and which of them are wrong.

    Flips are on top of what is wrong already: colon's own suspects count as right then, for all alike.
    """
    data = load(cell["data"])
    if cell["wrong"] == "suspects":
        assert data.suspect is not None
        return data.y, data.suspect
    rng, wrong = rng_for("label_errors", {"data": cell["data"]}, instance), np.zeros(data.y.size, dtype=bool)
    wrong[rng.permutation(wrong.size)[: round(FLIPPED * wrong.size)]] = True
    return np.where(wrong, 1 - data.y, data.y), wrong


def trial(cell: Row, instance: int) -> Row:
    """AUC of each score that comes of one classifier, and the CPU seconds of them all."""
    X, (y, wrong) = load(cell["data"]).X, labels(cell, instance)
    warm(cell["source"])
    model = SOURCES[cell["source"]].make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence: real_data counts them
        began = time.process_time()
        if cell["way"] == ONE_FIT:
            found = {ONE_FIT: auc(model.fit(X, y).label_error_proba_, wrong)}
        else:
            folds = split(cell["data"], instance)
            found = cleanlab_areas(y, cross_val_predict(model, X, y, cv=folds, method="predict_proba"), wrong)
    return {"auc": found, "cpu_seconds": time.process_time() - began}


def cleanlab_areas(y: np.ndarray, probabilities: np.ndarray, wrong: np.ndarray) -> dict[str, float]:
    """AUC of each of cleanlab's scores; low ones are the suspect labels."""
    from cleanlab.rank import get_label_quality_scores

    return {
        name + (", adjusted" if adjust else ""): auc(
            -get_label_quality_scores(y, probabilities, method=name, adjust_pred_probs=adjust), wrong
        )
        for name, adjust in SCORES
    }


def tasks(seeds: int) -> list[Task]:
    """Seed by seed. Our fit of the suspects has nothing random in it, so there is one."""
    ways = [(ONE_FIT, OURS, SOURCES[OURS])]
    ways += [(version("cleanlab"), name, method) for name, method in installed(SOURCES).items()]
    questions = [(name, wrong) for name in sets() for wrong in _questions(name)]
    return [
        ({"data": data, "wrong": wrong, "way": way, "source": source, "code": code(method)}, seed)
        for seed in range(seeds)
        for data, wrong in questions
        for way, source, method in ways
        if seed == 0 or not (wrong == "suspects" and way == ONE_FIT)
    ]


def _questions(name: str) -> list[str]:
    return ["flips"] if load(name).suspect is None else ["suspects", "flips"]


def one_score_each(rows: list[Row]) -> list[Row]:
    """A row for each score of each task. Our single fit of the suspects stands beside every split of cleanlab's."""
    seeds = {row["instance"] for row in rows}
    out = [{**row, "score": score, "auc": area} for row in rows for score, area in row["auc"].items()]
    once = [row for row in out if row["wrong"] == "suspects" and row["way"] == ONE_FIT]
    return out + [{**row, "instance": seed} for row in once for seed in seeds - {0}]


def summary(rows: list[Row]) -> list[Row]:
    """A row for each set, question, source and score; `gain` is ours minus this one, on the seeds of both."""
    groups = by_cell(rows, ("data", "wrong", "way", "source", "score"))
    out = []
    for (data, wrong, way, source, score), group in groups.items():
        area, se = mean_se(row["auc"] for row in group)
        gain, gain_se, _ = paired(groups[data, wrong, ONE_FIT, OURS, ONE_FIT], group, "auc", ("instance",))
        out.append({
            "data": data,
            "wrong": wrong,
            "way": way,
            "probabilities": source,
            "score": score,
            "seeds": 1 if wrong == "suspects" and way == ONE_FIT else len(group),
            "auc": area,
            "auc_se": se,
            "gain": gain,
            "gain_se": gain_se,
            "cpu_seconds": float(np.median([row["cpu_seconds"] for row in group])),
        })  # fmt: skip
    return sorted(out, key=lambda row: (row["data"], row["wrong"] != "suspects", row["way"] != ONE_FIT))


def verdicts(rows: list[Row]) -> list[Row]:
    """Ours against cleanlab's best, with any source of probabilities and with those that a user has without us."""
    out = []
    for (data, wrong), group in by_cell(rows, ("data", "wrong")).items():
        ours = next(row for row in group if row["way"] == ONE_FIT)
        for name, theirs in {
            "cleanlab, any": [row for row in group if row["way"] != ONE_FIT],
            "cleanlab, not on ours": [row for row in group if row["probabilities"] != OURS],
        }.items():
            if not theirs:
                continue
            best = min(theirs, key=lambda row: row["gain"])
            out.append({
                "data": data,
                "wrong": wrong,
                "against": name,
                "best": f"{best['probabilities']}, {best['score']}",
                "seeds": best["seeds"],
                "ours": ours["auc"],
                "theirs": best["auc"],
                "difference": best["gain"],
                "se": best["gain_se"],
                "verdict": _word(best["gain"], best["gain_se"]),
            })  # fmt: skip
    return out


def _word(gain: float, se: float) -> str:
    return "reached" if gain >= 0.0 else "within one se" if gain >= -se else "missed"


def main(instances: int, jobs: int) -> None:
    """`instances` seeds, of the flips and of cleanlab's splits; each row says how many."""
    rows = summary(one_score_each(kept("label_errors", trial, tasks(instances), jobs)))
    if not rows:
        return
    best = [
        max(g, key=lambda row: row["auc"]) for g in by_cell(rows, ("data", "wrong", "way", "probabilities")).values()
    ]
    table(best, tuple(best[0]))  # of each source its best score; the file has all
    write("label_errors", rows)
    for row in rows:
        if row["wrong"] == "suspects" and row["way"] == ONE_FIT:
            met = "reached" if row["auc"] >= SUSPECTS_WANTED else "missed"
            print(f"suspects of {row['data']}: AUC {row['auc']:.3f} of one fit, {SUSPECTS_WANTED} wanted: {met}")
    if answers := verdicts(rows):
        table(answers, tuple(answers[0]))
        write("label_errors_verdicts", answers)

"""All trials of the paper's tables and figures, kept in the repository, and ours beside the paper's.

Trials are those of `dilutron reproduce`. They go into a store the moment they are known, so that a run that was stopped
goes on, and from there into `results/trials`.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr

from benchmarks import archive, competitors
from benchmarks.rows import TRIALS, Row, by_cell, figures, results, write
from dilutron.experiments.compare import (
    AS_PUBLISHED,
    BETTER,
    CONVERGED_ONLY,
    NOT_RUN,
    WORSE,
    compare,
    converged,
    published,
    summary,
)
from dilutron.experiments.outputs import rows_of
from dilutron.experiments.paper import ITEMS, SLOW, slow, trials
from dilutron.experiments.runner import Progress, processes, run, strangers
from dilutron.experiments.store import Store, Trial
from dilutron.loop import Status

JUDGED = (BETTER, AS_PUBLISHED, WORSE)
SHOWN = ("table", "patterns", "dynamics", "n", "eta", "alpha", "method", "variant", "quantity", "column", "ours", "se",
         "published", "published_se", "off", "published_off", "difference", "gain", "verdict", "instances",
         "converged")  # fmt: skip

CELL = ("table", "patterns", "dynamics", "n", "eta", "alpha", "quantity")
AVERAGES = ("item", "patterns", "dynamics", "n", "eta", "alpha", "method", "instances", "converged", "over", "mse",
            "mse_se", "mse_scaled", "mse_scaled_se", "auc", "auc_se", "auc_scaled", "auc_scaled_se", "auc_inclusion",
            "auc_inclusion_se")  # fmt: skip


def main(instances: int, jobs: int) -> None:
    """Compute what the store lacks, then tell all that is in it. The slowest methods come last."""
    _complete(stored(), instances, jobs)


def unfinished(instances: int, jobs: int) -> None:
    """The same, with the trials of EP anew that had not converged. Stopped on the way, it begins with them again."""
    store = stored()
    store.forget(restless(store))
    _complete(store, instances, jobs)


def restless(store: Store) -> list[Trial]:
    """Trials of EP in the store that ended without convergence."""
    return [t for t, row in store.known() if t.cell["method"] == "ep" and row["status"] != Status.CONVERGED.value]


def _complete(store: Store, instances: int, jobs: int) -> None:
    wanted = sorted(trials([*ITEMS.values(), competitors.LEARNING], instances), key=slow)
    if old := strangers(wanted, store):
        print(f"  {len(old)} trials are kept as another program, version or options made them", flush=True)

    def report(progress: Progress) -> None:
        if progress.done % 200 == 0:
            print(f"  {progress.done} of {progress.total} trials", flush=True)

    run(wanted, store, processes(jobs), report=report)
    _told(store)


def tables(instances: int, jobs: int) -> None:
    """The tables and figures from the trials that are there; nothing is computed."""
    _told(stored())


def stored() -> Store:
    """All trials that are known: those kept in the repository, and what was computed here since."""
    store = Store(TRIALS / "paper.sqlite")
    archive.restore(store)
    return store


def _told(store: Store) -> None:
    archive.keep(store, results() / "trials")
    competitors.tell(store)
    beside(store)
    write("paper_cost", costs(store))


def beside(store: Store) -> None:
    """Every table of the paper cell by cell, the averages behind its figures, and both as pictures for the docs."""
    from dilutron import plots  # needs matplotlib, which `doubtful` does without

    lines, averages = [], []
    for name, item in ITEMS.items():
        rows = rows_of(item, store)
        if not rows:
            continue
        if published(name):
            lines += [one._asdict() for one in compare(name, rows)]
        else:
            averages += averages_of(name, rows)
        shown, note = (converged(rows), ", converged runs") if name in CONVERGED_ONLY else (rows, "")
        plots.save(plots.picture(item.draw, shown, item.title + note, published(name)), figures() / f"{name}.png")
    write("paper_comparison", [{k: line[k] for k in SHOWN} for line in lines if line["verdict"] != NOT_RUN])
    write("paper_verdicts", verdicts(lines))
    write("paper_averages", averages)


def verdicts(lines: list[Row]) -> list[Row]:
    """How the cells of each table came out, by variant, and over all tables. Cells without a verdict do not count.

    Where the paper leaves open what was ranked a cell has two numbers, each with its verdict. `chance`: how probably
    the lowest gain of so many cells would be so low if ours and the paper's differed by nothing but independent draws
    (the two numbers of a cell, of the same draws, as one). A single cell below -2 is no surprise among ninety.
    """
    judged = [line for line in lines if line["verdict"] in JUDGED and not line["quantity"].startswith("seconds")]
    groups = by_cell(judged, ("variant", "table", "column"))
    groups |= {(variant, "all", ""): some for (variant,), some in by_cell(judged, ("variant",)).items()}
    out = []
    for (variant, table, column), some in sorted(groups.items()):
        lowest = min(line["gain"] for line in some)
        counts = {word: sum(line["verdict"] == word for line in some) for word in JUDGED}
        cells = len(by_cell(some, CELL))
        chance = -np.expm1(cells * log_ndtr(-lowest))
        group = {"variant": variant, "table": table, "column": column, "cells": cells, "numbers": len(some)}
        out.append({**group, **counts, "lowest_gain": lowest, "chance": chance})
    return out


def averages_of(name: str, rows: list[Row]) -> list[Row]:
    """What a figure shows, over the runs that it is drawn from."""
    over = "converged" if name in CONVERGED_ONLY else "all"
    lines = ({"item": name, **line} for line in summary(rows) if line["over"] == over)
    return [{k: line.get(k, "") for k in AVERAGES} for line in lines]


def costs(store: Store) -> list[Row]:
    """Core-minutes of every item at full size, each trial taken as the mean of those of its cell that are kept."""
    seconds: dict[tuple[str, str], list[float]] = {}
    for trial, row in store.known():
        seconds.setdefault(trial.key[:2], []).append(row.get("cpu_seconds", 0.0))
    minutes = {cell: float(np.mean(some)) / 60.0 for cell, some in seconds.items()}
    groups = {name: list(item.trials()) for name, item in ITEMS.items()}
    groups["all"] = list(trials(ITEMS.values()))  # those that items share are run once
    out = []
    for name, wanted in groups.items():
        line: Row = {"item": name}
        for speed, slow_ones in (("quick", False), ("slow", True)):
            some = [trial.key[:2] for trial in wanted if (trial.cell["method"] in SLOW) is slow_ones]
            line |= {f"{speed}_trials": len(some), f"{speed}_core_minutes": sum(minutes.get(c, 0.0) for c in some)}
        out.append(line)
    return out

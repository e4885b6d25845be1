"""Trials in parallel, one row each; rows to small CSV files."""

from __future__ import annotations

import csv
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from dilutron.experiments.compare import published
from dilutron.files import whole_file

RESULTS = Path(__file__).parent / "results"  # what the docs show
FIGURES = RESULTS.parents[1] / "docs" / "figures"
TRIALS = Path(__file__).parent / "trials"  # runs of another size, not kept in the repository
Row = dict[str, Any]


def rng_for(experiment: str, cell: Row, instance: int) -> np.random.Generator:
    """The same numbers for the same trial, whatever runs before it or beside it."""
    key = "|".join([experiment, *(f"{name}={value}" for name, value in sorted(cell.items()))])
    return np.random.default_rng([zlib.crc32(key.encode()), instance])


def _one_thread(trial: Callable[[Row, int], Row], cell: Row, instance: int) -> Row:
    with threadpool_limits(limits=1):
        return {**cell, "instance": instance, **trial(cell, instance)}


def run(trial: Callable[[Row, int], Row], cells: Iterable[Row], instances: int, jobs: int, first: int = 0) -> list[Row]:
    """All trials from instance `first` on, `jobs` processes at a time with one BLAS thread each."""
    tasks = [delayed(_one_thread)(trial, cell, k) for cell in cells for k in range(first, first + instances)]
    began, rows = time.time(), []
    for row in Parallel(n_jobs=jobs, return_as="generator", batch_size=4)(tasks):
        rows.append(row)
        if len(rows) % 200 == 0:
            print(f"  {len(rows)} of {len(tasks)} trials, {time.time() - began:.0f} s", file=sys.stderr, flush=True)
    return rows


def results() -> Path:
    """Where results go: those of full size to what the docs show."""
    return Path(os.environ.get("BENCHMARK_FOLDER", RESULTS))


@contextmanager
def results_in(folder: Path) -> Iterator[None]:
    """Meanwhile they go there."""
    before = os.environ.get("BENCHMARK_FOLDER")
    os.environ["BENCHMARK_FOLDER"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["BENCHMARK_FOLDER"]
        else:
            os.environ["BENCHMARK_FOLDER"] = before


def figures() -> Path:
    """Where pictures go: beside the docs from runs of full size."""
    folder = FIGURES if results() == RESULTS else results() / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write(name: str, rows: list[Row]) -> Path:
    """A CSV file, there whole or not at all; numbers with five digits. Only runs of full size go to results/."""
    results().mkdir(parents=True, exist_ok=True)
    path = results() / f"{name}.csv"
    with whole_file(path) as scratch, open(scratch, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    print(path)
    return path


def printed(table: str, *keys: str) -> dict[tuple[Any, ...], Row]:
    """The numbers of one of the paper's tables, known by these columns."""
    return {tuple(row[k] for k in keys): row for row in published(table)}


def by_cell(rows: list[Row], keys: tuple[str, ...]) -> dict[tuple[Any, ...], list[Row]]:
    """Rows grouped by their values of `keys`, in order of appearance."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[k] for k in keys), []).append(row)
    return groups


def mean_se(values: Iterable[float]) -> tuple[float, float]:
    """Mean and standard error, sigma / sqrt(n), as the paper defines it."""
    array = np.asarray(list(values), dtype=float)
    return float(array.mean()), float(array.std(ddof=1) / np.sqrt(array.size)) if array.size > 1 else 0.0


def table(rows: list[Row], columns: tuple[str, ...]) -> None:
    """Print rows for a person."""
    texts = [[f"{row[c]:.4g}" if isinstance(row[c], float) else str(row[c]) for c in columns] for row in rows]
    widths = [max(len(c), *(len(t[i]) for t in texts)) for i, c in enumerate(columns)]
    print("  ".join(c.ljust(w) for c, w in zip(columns, widths, strict=True)))
    for text in texts:
        print("  ".join(t.ljust(w) for t, w in zip(text, widths, strict=True)))

"""A table of more rows than one wants in memory: passes over it, memory, time, and two workers against one."""

from __future__ import annotations

import importlib
import os
import tempfile
import time
from itertools import count
from pathlib import Path

import numpy as np

from benchmarks.alone import alone, measured
from benchmarks.rows import Row, rng_for, table, write
from dilutron import EPOptions, Normal, Posterior, Problem, RobustProbit, SpikeSlab, solve
from dilutron.chunked import Chunked
from dilutron.ep import flat_sites
from dilutron.gaussian import Sites
from dilutron.metrics import auc
from dilutron.rows import Rows
from dilutron.student import _blocks

N, DENSITY, ETA, NOISE = 100, 0.25, 0.95, 0.5
SIZES = (100_000, 1_000_000)
LEARN = ((), ("eta",), ("rho", "eta"))
PRIORS = {"weights": SpikeSlab(DENSITY), "labels": RobustProbit(ETA, 0.1), "intercept": Normal(0.1)}
LIMIT = 900.0  # CPU seconds for a trial
PART = 20_000  # rows that are drawn at a time
READ = count()  # blocks that were read in this process


def drawn(folder: Path, rows: int) -> tuple[Path, np.ndarray, np.ndarray]:
    """A .npy file that was never in memory as a whole, its labels, 5 % of them turned over, and the teacher."""
    rng = rng_for("tall", {"rows": rows}, 0)
    teacher = np.where(rng.random(N) < DENSITY, rng.standard_normal(N), 0.0)
    path, labels = folder / "x.npy", np.empty(rows)
    X = np.lib.format.open_memmap(path, "w+", np.float64, (rows, N))
    for first in range(0, rows, PART):
        part = rng.standard_normal((min(PART, rows - first), N))
        field = part @ teacher + NOISE * np.linalg.norm(teacher) * rng.standard_normal(len(part))
        X[first : first + PART] = part
        labels[first : first + PART] = np.where(field >= 0.0, 1.0, -1.0) * np.where(rng.random(len(part)) < ETA, 1, -1)
    X.flush()
    return path, labels, teacher


def counted(block: np.ndarray) -> np.ndarray:
    next(READ)
    return block


def fit(problem: Problem, learn: tuple[str, ...]) -> Posterior:
    return solve(problem, **PRIORS, options=EPOptions(learn=learn))


def out_of_core(cell: Row) -> Row:
    """From the file to the posterior, by `Chunked`."""
    with tempfile.TemporaryDirectory() as folder:
        path, labels, teacher = drawn(Path(folder), cell["rows"])
        rows = Rows.of(path)
        blocks = len(rows.blocks)
        work = lambda: fit(Problem.from_arrays(rows.mapped(counted), labels), tuple(cell["learn"]))  # noqa: E731
        posterior, figures = measured(work)
        file_mb = path.stat().st_size / 2**20
    return {**_found(posterior, teacher), "passes": next(READ) / blocks, "file_mb": file_mb, **figures}


def in_memory(cell: Row) -> Row:
    """The same by `Primal`, all in memory."""
    with tempfile.TemporaryDirectory() as folder:
        path, labels, teacher = drawn(Path(folder), cell["rows"])
        work = lambda: fit(Problem.from_arrays(np.load(path), labels), tuple(cell["learn"]))  # noqa: E731
        posterior, figures = measured(work)
        file_mb = path.stat().st_size / 2**20
    return {**_found(posterior, teacher), "passes": "", "file_mb": file_mb, **figures}


def _found(posterior: Posterior, teacher: np.ndarray) -> Row:
    return {
        "status": posterior.status.value,
        "iterations": posterior.n_iter,
        "auc": auc(posterior.inclusion, teacher != 0.0),
        "log_evidence": posterior.log_evidence,
    }


def workers(cell: Row) -> Row:
    """Seconds of one factorisation, both of its passes, on one worker and on two, in turns; one thread each."""
    with tempfile.TemporaryDirectory() as folder:
        path, labels, _ = drawn(Path(folder), cell["rows"])
        problem = Problem.from_arrays(Rows.of(path), labels)
        sites = flat_sites(_blocks(problem, PRIORS["weights"], PRIORS["labels"], PRIORS["intercept"]))
        design = problem.signed(intercept=True)
        seconds = [[_pair_of_passes(n, design, sites) for n in (1, 2)] for _ in range(cell["repeats"])]
    alone_, both = np.array(seconds).T
    return {
        "one_worker_seconds": float(np.median(alone_)),
        "two_workers_seconds": float(np.median(both)),
        "speed_up_median": float(np.median(alone_ / both)),
        "speed_up_lowest": float(np.min(alone_ / both)),
        "speed_up_highest": float(np.max(alone_ / both)),
        "load": os.getloadavg()[0],
    }


def _ready() -> None:
    """A worker has imported what it needs."""
    importlib.import_module("dilutron.chunked")


def _pair_of_passes(n_workers: int, design: Rows, sites: Sites) -> float:
    """On a cluster of its own: of two at a time, Dask would take the latest for both."""
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 100}
    with LocalCluster(n_workers=n_workers, **options) as cluster, Client(cluster) as client:
        client.wait_for_workers(n_workers)
        client.run(_ready)
        began = time.perf_counter()
        Chunked(design).marginals(sites)
        return time.perf_counter() - began


def main(instances: int, jobs: int) -> None:
    """One process after the other; few instances mean the small size only."""
    cells = [{"rows": rows, "columns": N, "learn": learn} for rows in _sizes(instances) for learn in LEARN]
    out = [
        {"backend": backend.__name__, **alone(backend, cell, limit=LIMIT)}
        for cell in cells
        for backend in (out_of_core, in_memory)
    ]
    for row in out:
        row["learn"] = " ".join(row["learn"]) or "nothing"
    table(out, tuple(out[0]))
    write("tall", out)


def together(instances: int, jobs: int) -> None:
    """Two workers against one: wall time, so for a machine that has nothing else to do."""
    cells = [{"rows": rows, "columns": N, "repeats": 9} for rows in _sizes(instances)]
    pairs = [alone(workers, cell, limit=LIMIT) for cell in cells]
    table(pairs, tuple(pairs[0]))
    write("tall_workers", pairs)


def _sizes(instances: int) -> tuple[int, ...]:
    return SIZES if instances >= 100 else SIZES[:1]

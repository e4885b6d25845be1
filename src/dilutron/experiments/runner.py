"""The runner: trials that are not in the store yet are computed, here or on a cluster, and written one by one."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError
from threadpoolctl import threadpool_limits

from dilutron.experiments.store import Store, Trial
from dilutron.experiments.trials import TRIALS, Row

FAILED = "error"  # status of a trial that ended in an exception
LIVES = 3  # times in a row that workers may die without a single row before the runner gives up


class Progress(NamedTuple):
    """Told to the `report` after every trial."""

    done: int
    total: int
    trial: Trial
    row: Row


class Executor(Protocol):
    """Where trials run. Rows come in any order, each as soon as it is known."""

    def __call__(self, trials: list[Trial]) -> Iterator[tuple[Trial, Row]]:
        """Run them all."""


class Outcome(NamedTuple):
    """How a run of the runner ended: rows written, trials left out for lack of time, and those that failed."""

    written: int
    left: int
    failed: int


def attempt(trial: Trial) -> tuple[Trial, Row]:
    """Run one trial with one BLAS thread. An exception becomes a row that says so: nothing is swallowed."""
    began = time.perf_counter()
    try:
        with threadpool_limits(limits=1):
            row = TRIALS[trial.kind](trial.cell, trial.instance)
    except Exception as error:
        row = {"status": FAILED, "message": f"{type(error).__name__}: {error}", "where": traceback.format_exc(limit=-3)}
    from dilutron import __version__

    return trial, row | {"seconds": time.perf_counter() - began, "version": __version__}


def processes(jobs: int) -> Executor:
    """Trials in `jobs` processes of this machine; dead ones are replaced and their trials tried again."""

    def run(trials: list[Trial]) -> Iterator[tuple[Trial, Row]]:
        left, lives = {trial.key: trial for trial in trials}, LIVES
        while left:
            try:
                work = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
                for trial, row in work(delayed(attempt)(trial) for trial in list(left.values())):
                    del left[trial.key]
                    lives = LIVES
                    yield trial, row
            except TerminatedWorkerError:
                lives -= 1
                if lives == 0:
                    raise

    return run


def run(
    trials: Iterable[Trial],
    store: Store,
    executor: Executor,
    *,
    report: Callable[[Progress], object] | None = None,
    budget: float | None = None,
) -> Outcome:
    """Compute what the store lacks. Stopped at any moment, a later call goes on where this one ended.

    Parameters
    ----------
    trials : iterable of Trial
    store : Store
    executor : Executor
        `processes(2)`, or a cluster.
    report : callable, optional
        Told of every row.
    budget : float, optional
        Seconds after which no further row is waited for.
    """
    missing, began = store.missing(trials), time.monotonic()
    written = failed = 0
    rows = executor(missing)
    for trial, row in rows:
        store.write(trial, row)
        written, failed = written + 1, failed + (row["status"] == FAILED)
        if report is not None:
            report(Progress(written, len(missing), trial, row))
        if budget is not None and time.monotonic() - began > budget:
            break
    close: Any = getattr(rows, "close", None)
    if close is not None:
        close()
    return Outcome(written, len(missing) - written, failed)

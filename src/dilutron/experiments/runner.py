"""The runner: trials that are not in the store yet are computed, here or on a cluster, and written one by one."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, closing, contextmanager
from typing import NamedTuple, Protocol

from joblib.externals.loky import ProcessPoolExecutor
from threadpoolctl import threadpool_limits

from dilutron.experiments.store import Claims, Store, Trial
from dilutron.experiments.trials import TRIALS, Row, program_of

FAILED = "error"  # status of a trial that ended in an exception
DIED = "died"  # status of a trial that took its worker with it whenever it was tried
FAILURES = (FAILED, DIED)
LIVES = 2  # times that a trial may take its worker with it when alone, after once in company
ANSWER = 120.0  # seconds in which a worker must answer, after others have died
PULSE = 0.5  # seconds after which an executor without news says so
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}


class WorkersError(RuntimeError):
    """Workers cannot be had, or die without having been given any work; the message is for the user."""


Known = tuple[Trial, Row]
Work = Callable[[Trial], Known]


class Progress(NamedTuple):
    """Told to the `report` after every trial."""

    done: int
    total: int
    trial: Trial
    row: Row


class Executor(Protocol):
    """Where trials run. Rows come in any order, each as soon as it is known; None now and then, while there is none.

    Trials are taken as they are needed, not all at once: another runner may see to some of them meanwhile.
    """

    def __call__(self, trials: Iterable[Trial]) -> Generator[Known | None, None, None]:
        """Run them all. When closed before the end, drop what is under way."""


class Outcome(NamedTuple):
    """How a run of the runner ended: rows written, trials without a row for lack of time, and those that failed."""

    written: int
    left: int
    failed: int


_alone = threading.Lock()


def attempt(trial: Trial) -> Known:
    """Run one trial with one BLAS thread. An exception becomes a row that says so: nothing is swallowed.

    One at a time in a process: threads of a cluster's worker would falsify CPU times and the count of BLAS threads.
    """
    with _alone, threadpool_limits(limits=1):
        began = time.perf_counter()
        try:
            row = TRIALS[trial.kind](trial.cell, trial.instance)
        except (Exception, SystemExit) as error:
            message, where = f"{type(error).__name__}: {error}", traceback.format_exc(limit=-3)
            row = {"status": FAILED, "message": message, "where": where}
        return trial, _stamped(row, time.perf_counter() - began)


def _stamped(row: Row, seconds: float) -> Row:
    from dilutron import __version__

    return row | {"seconds": seconds, "version": __version__}


def processes(jobs: int, work: Work = attempt) -> Executor:
    """Trials in `jobs` processes of this machine, one too: a trial that kills its process must not kill the runner."""
    return pooled(_workers, jobs, (BrokenProcessPool,), work)


@contextmanager
def _workers(jobs: int) -> Iterator[futures.Executor]:
    pool = ProcessPoolExecutor(jobs, env=ONE_THREAD, initializer=_settle, initargs=(os.getpid(),))
    try:
        yield pool
    finally:
        for worker in list((pool._processes or {}).values()):  # its own way hangs without psutil or pgrep
            worker.terminate()
        pool.shutdown(kill_workers=True)


def _settle(runner: int) -> None:
    """Make a worker follow its runner: Ctrl-C is for the runner alone, and no worker outlives a killed one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == runner:
            time.sleep(PULSE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def pooled(
    opened: Callable[[int], AbstractContextManager[futures.Executor]],
    jobs: int,
    deaths: tuple[type[BaseException], ...],
    work: Work = attempt,
    lives: int = LIVES,
) -> Executor:
    """Trials on any pool of workers.

    Parameters
    ----------
    opened : callable
        A pool with so many workers.
    jobs : int
        Trials at the same time.
    deaths : tuple of exception types
        How the pool says that a worker died. Whose fault it was it cannot say: all trials under way are tried again one
        by one, and those that bring death then as well end in a row with the status "died".
    work : callable, optional
        What is done with a trial.
    lives : int
        Deaths of a trial alone, before it is given up.
    """

    def together(queue: Iterator[Trial], jobs: int, window: int) -> Generator[Known | None, None, list[Trial]]:
        """Run until the queue ends or a worker dies; the trials under way at that moment."""
        flight: dict[futures.Future[Known], Trial] = {}
        lost: list[Trial] = []
        with opened(jobs) as pool:
            while True:
                while not lost and len(flight) < window and (trial := next(queue, None)) is not None:
                    try:
                        flight[pool.submit(work, trial)] = trial
                    except deaths:
                        lost.append(trial)
                if not flight:
                    return lost
                landed, _ = futures.wait(flight, timeout=PULSE, return_when=futures.FIRST_COMPLETED)
                if not landed:
                    yield None
                for future in landed:
                    trial = flight.pop(future)
                    try:
                        known = future.result()
                    except deaths:
                        lost.append(trial)
                    else:
                        yield known

    def check() -> None:
        """Before a trial is blamed: were workers to die of themselves, every trial would seem to kill them."""
        try:
            with opened(1) as pool:
                pool.submit(os.getpid).result(timeout=ANSWER)
        except deaths as error:
            raise WorkersError(f"worker processes die without work: {error}") from error
        except TimeoutError as error:
            raise WorkersError(f"no worker has answered for {ANSWER:g} seconds: start them again") from error

    def run(trials: Iterable[Trial]) -> Generator[Known | None, None, None]:
        queue = iter(trials)
        while suspects := (yield from together(queue, jobs, 2 * jobs)):
            fatal: Counter[tuple[str, str, int]] = Counter()
            while suspects:
                line = iter(suspects)
                lost = yield from together(line, 1, 1)
                suspects = list(line)
                for trial in lost:
                    fatal[trial.key] += 1
                    if fatal[trial.key] < lives:
                        suspects.insert(0, trial)
                    else:
                        check()
                        message = "its worker process died whenever it was tried, alone too"
                        yield trial, _stamped({"status": DIED, "message": message}, float("nan"))

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

    Several runners may share a store: what one works on, the others leave to it.

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
    trials = list(trials)
    missing, end = store.missing(trials), float("inf") if budget is None else time.monotonic() + budget
    total, written, failed = len(missing), 0, 0
    with store.claims() as claims:
        while missing and time.monotonic() < end:
            with closing(executor(_free(missing, store, claims))) as news:
                for known in news:
                    if known is not None:
                        trial, row = known
                        new = store.write(trial, row)
                        claims.drop(trial)
                        written, failed = written + new, failed + (new and row["status"] in FAILURES)
                        if report is not None:
                            report(Progress(written, total, trial, row))
                    if time.monotonic() > end:
                        break
            missing = store.missing(missing)
            if missing and time.monotonic() < end:
                time.sleep(PULSE)  # others work on these
    return Outcome(written, len(missing), failed)


def strangers(trials: Iterable[Trial], store: Store) -> list[Trial]:
    """Trials whose rows another version, another program or other options made than this one would use.

    The store keeps such rows, since they are as good as they were. Those of failed trials name no program.
    """
    from dilutron import __version__

    wanted = {trial.key: trial for trial in trials}
    return [
        wanted[trial.key]
        for trial, row in store.known()
        if trial.key in wanted
        and row["status"] not in FAILURES
        and (row.get("version"), row.get("program")) != (__version__, program_of(trial.cell["method"]))
    ]


def _free(missing: list[Trial], store: Store, claims: Claims) -> Iterator[Trial]:
    """Trials that nobody has done or works on, at the moment when each is asked for."""
    for trial in missing:
        if claims.take(trial):
            if trial in store:  # done by another since; looked up only now, for a row is written before its claim ends
                claims.drop(trial)
            else:
                yield trial

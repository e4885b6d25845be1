"""Trials on a Dask cluster: one that runs already, or one made here for the occasion."""

from __future__ import annotations

import logging
import signal
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from dilutron.experiments.runner import Executor, Known, Work, WorkersError, attempt, pooled
from dilutron.experiments.store import Trial

LOCAL = "local"
RETRIES = 3  # other workers that Dask tries by itself
PATIENCE = 30.0  # seconds for the cluster to answer and show a worker


@contextmanager
def cluster(address: str, jobs: int = 2, work: Work = attempt) -> Iterator[Executor]:
    """An executor on a Dask cluster, found to work before any trial is sent.

    A trial whose worker dies goes to another one, up to three times, before the runner looks into it. Workers run one
    trial at a time, however many threads they have: let them have one.

    Parameters
    ----------
    address : str
        Of a scheduler, ``tcp://host:8786``; or ``local`` for a cluster on this machine.
    jobs : int
        Workers of a local cluster.
    work : callable, optional
        What is done with a trial.

    Raises
    ------
    WorkersError
        If dask is missing, nothing answers, or the workers have another dilutron or none.
    """
    with _connected(address, jobs) as client:
        from distributed.scheduler import KilledWorker

        @contextmanager
        def opened(jobs: int) -> Iterator[Any]:
            pool = client.get_executor(pure=False, retries=RETRIES)
            try:
                yield pool
            finally:
                pool.shutdown(wait=False)

        # A death is told after several already, so that a trial alone needs no more than one chance.
        run = pooled(opened, len(_versions(client)), (KilledWorker,), work, lives=1)

        def watched(trials: Iterable[Trial]) -> Generator[Known | None, None, None]:
            """A trial's own failure is a row: any exception is the cluster's."""
            try:
                yield from run(trials)
            except Exception as error:
                raise WorkersError(f"the cluster at {address} failed: {type(error).__name__} {error}") from error

        yield watched


@contextmanager
def _connected(address: str, jobs: int) -> Iterator[Any]:
    try:
        import dask
        from distributed import Client, LocalCluster
    except ModuleNotFoundError as error:
        raise WorkersError(f"a cluster needs {error.name}: pip install 'dilutron[dask]'") from error
    if address == LOCAL:
        with (
            dask.config.set({"distributed.scheduler.allowed-failures": RETRIES}),
            LocalCluster(
                n_workers=jobs,  # the first argument by place is a name
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL,  # what a death leads to is said in rows
                preload=[__name__],
            ) as made,
            Client(made) as client,
        ):
            yield client
        return
    try:
        client = Client(address, timeout=PATIENCE)
        client.wait_for_workers(1, timeout=PATIENCE)
    except (OSError, ValueError, TimeoutError) as error:
        raise WorkersError(f"no Dask cluster with workers at {address}: {error}") from error
    with client:
        yield client


def dask_setup(worker: Any) -> None:
    """Called by Dask in every worker of a local cluster: Ctrl-C is for the runner alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _version() -> str:
    from dilutron import __version__

    return __version__


def _versions(client: Any) -> dict[str, str]:
    """The dilutron of every worker: it must be ours, else rows would say what they are not."""
    try:
        found: dict[str, str] = client.run(_version)
    except Exception as error:
        raise WorkersError(f"a worker of the cluster cannot import dilutron: {error}") from error
    others = {f"{worker} has {version}" for worker, version in found.items() if version != _version()}
    if others:
        raise WorkersError(f"workers need dilutron {_version()}: {', '.join(sorted(others))}")
    return found

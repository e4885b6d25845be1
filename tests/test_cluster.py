import os
import signal
import sys
import time

import pytest

from dilutron.experiments import cluster as cluster_module
from dilutron.experiments.cluster import cluster
from dilutron.experiments.runner import WorkersError, attempt, processes, run
from dilutron.experiments.store import Store
from tests.test_runner import deadly, echo, numbered, small, timeless

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")


def slow(trial):
    time.sleep(0.1)
    return attempt(trial)


@pytest.fixture(scope="module")
def running():
    """A cluster of two worker processes that is not ours."""
    hasty = {"distributed.scheduler.allowed-failures": 1, "distributed.comm.timeouts.connect": "2s"}
    with (
        dask.config.set(hasty),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=100
        ) as made,
    ):
        made.wait_for_workers(2)
        yield made


def test_a_killed_worker_costs_no_row(tmp_path, running):
    ours, theirs = Store(tmp_path / "cluster"), Store(tmp_path / "processes")
    victim = next(iter(running.workers.values())).pid
    at = []

    def kill(progress):
        if progress.done == 4:
            os.kill(victim, signal.SIGKILL)
            at.append(progress.done)

    with cluster(running.scheduler_address, work=slow) as executor:
        assert run(small(), ours, executor, report=kill) == (12, 0, 0)
    assert at == [4]
    assert victim not in [nanny.pid for nanny in running.workers.values()]
    run(small(), theirs, processes(2))
    assert timeless(ours) == timeless(theirs)


def test_a_deadly_trial_is_a_row(tmp_path, running):
    store, trials = Store(tmp_path / "s"), numbered(8, mark=str(tmp_path / "mark"))
    with cluster(running.scheduler_address, work=deadly) as executor:
        assert run(trials, store, executor) == (8, 0, 1)
    assert [row["instance"] for row in store.rows("teacher") if row["status"] == "died"] == [3]


def test_a_cluster_made_here(tmp_path):
    store = Store(tmp_path / "s")
    with cluster("local", 3) as executor:
        assert len(distributed.default_client().nthreads()) == 3
        assert run([*small(1)[:2], *numbered(1)], store, executor) == (3, 0, 1)
    assert {row["status"] for row in store.rows("teacher", [{}])} == {"error"}


def test_workers_with_another_version_are_refused(running, monkeypatch):
    monkeypatch.setattr("dilutron.__version__", "99.0")
    with (
        pytest.raises(WorkersError, match=r"workers need dilutron 99\.0: tcp://\S+ has "),
        cluster(running.scheduler_address),
    ):
        pass


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://x", "127.0.0.1:99999999"])
def test_an_address_without_a_cluster_is_refused(address, monkeypatch):
    monkeypatch.setattr(cluster_module, "PATIENCE", 0.5)
    with pytest.raises(WorkersError, match="no Dask cluster with workers at"), cluster(address):
        pass


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(WorkersError, match=r"needs distributed: pip install 'dilutron\[dask\]'"), cluster("local"):
        pass


def test_a_lost_cluster_is_no_fault_of_the_trials(tmp_path, running):
    """The last of these tests: the cluster is gone after it."""
    store, trials = Store(tmp_path / "s"), numbered(400)

    def lose(progress):
        running.close()

    with cluster(running.scheduler_address, work=echo) as executor, pytest.raises(WorkersError, match="failed"):
        run(trials, store, executor, report=lose)
    assert {row["status"] for row in store.rows("teacher")} == {"converged"}

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from dilutron.experiments.paper import grid
from dilutron.experiments.runner import WorkersError, attempt, pooled, processes, run
from dilutron.experiments.store import Store, Trial

ROOT = Path(__file__).resolve().parents[1]
TIMES = ("seconds", "cpu_seconds")


def here(trials, work=attempt):
    """An executor of this process."""
    yield from map(work, trials)


def small(instances=2):
    fixed = {"n": 16, "rho": 0.25, "alpha": 2.0}
    sweeps = (
        grid("teacher", **fixed, eta=0.9, patterns=("iid", "mvn"), method=("ep", "grvamp")),
        grid("learning", **fixed, eta=1.0, patterns="iid", method="ep"),
        grid("network", **{**fixed, "n": 48}, eta=1.0, dynamics="synchronous", learn=False, method="ep"),
    )
    return [trial for sweep in sweeps for trial in sweep.trials(instances)]


def numbered(count, **cell):
    return [Trial("teacher", cell, instance) for instance in range(count)]


def timeless(store):
    return [
        {name: value for name, value in row.items() if name not in TIMES}
        for kind in ("teacher", "learning", "network")
        for row in store.rows(kind)
    ]


def echo(trial):
    return trial, {"status": "converged", "twice": 2 * trial.instance}


def logged(trial):
    """Slow enough to be overtaken, and each time it is done leaves a line."""
    with open(trial.cell["log"], "a") as file:
        file.write(f"{trial.instance}\n")
    time.sleep(0.02)
    return echo(trial)


def deadly(trial):
    """Number 3 kills its worker always, number 5 once."""
    mark = Path(trial.cell["mark"])
    if trial.instance == 3 or (trial.instance == 5 and not mark.exists()):
        mark.touch()
        os._exit(1)
    return echo(trial)


def stuck(trial):
    Path(trial.cell["pids"], str(os.getpid())).touch()
    time.sleep(600)


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # a zombie that nobody has waited for yet is gone as well
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def eventually(true, seconds=15.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_rows_do_not_depend_on_the_workers(tmp_path):
    stores = [Store(tmp_path / f"{name}.sqlite") for name in ("here", "two")]
    for store, executor in zip(stores, (here, processes(2)), strict=True):
        assert run(small(), store, executor) == (12, 0, 0)
    assert timeless(stores[0]) == timeless(stores[1])
    assert len(timeless(stores[0])) == 12


def test_a_stopped_run_goes_on_where_it_ended(tmp_path):
    whole, parts = Store(tmp_path / "whole.sqlite"), Store(tmp_path / "parts.sqlite")
    run(small(), whole, here)

    def interrupt(progress):
        if progress.done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(small(), parts, here, report=interrupt)
    assert len(timeless(parts)) == 5
    assert run(small(), parts, here).written == 7
    assert timeless(parts) == timeless(whole)
    assert run(small(), parts, here) == (0, 0, 0)


def test_progress_is_told_of_every_row(tmp_path):
    told = []
    run(numbered(4), Store(tmp_path / "s"), partial(here, work=echo), report=told.append)
    assert [(news.done, news.total, news.row["twice"]) for news in told] == [(i + 1, 4, 2 * i) for i in range(4)]


def test_a_failed_trial_is_a_row_and_is_not_tried_again(tmp_path):
    store = Store(tmp_path / "s")
    trials = [*numbered(1, n=16, method="ep"), Trial("nonsense", {}, 0), *small(1)]
    assert run(trials, store, here) == (8, 0, 2)
    (row,) = store.rows("teacher", [{"n": 16, "method": "ep"}])
    assert row["status"] == "error"
    assert row["message"] == "KeyError: 'alpha'"
    assert "teacher_trial" in row["where"]
    assert run(trials, store, here).written == 0
    store.forget(trials[:2])
    assert run(trials, store, here) == (2, 0, 2)


def test_dead_workers_are_replaced_and_a_deadly_trial_is_a_row(tmp_path):
    store = Store(tmp_path / "s")
    outcome = run(numbered(12, mark=str(tmp_path / "mark")), store, processes(2, deadly))
    assert outcome == (12, 0, 1)
    rows = store.rows("teacher")
    assert [row["instance"] for row in rows if row["status"] == "died"] == [3]
    assert [row["twice"] for row in rows if row["status"] != "died"] == [2 * i for i in range(12) if i != 3]


def test_no_trial_is_blamed_where_workers_die_of_themselves(tmp_path):
    class Dead:
        def submit(self, *work):
            raise BrokenPipeError("dead")

    @contextmanager
    def opened(jobs):
        yield Dead()

    store = Store(tmp_path / "s")
    with pytest.raises(WorkersError, match="die without work: dead"):
        run(numbered(4), store, pooled(opened, 2, (BrokenPipeError,)))
    assert store.rows("teacher") == []


def test_the_budget_ends_a_run_that_is_stuck(tmp_path):
    (tmp_path / "pids").mkdir()
    began = time.monotonic()
    outcome = run(numbered(5, pids=str(tmp_path / "pids")), Store(tmp_path / "s"), processes(1, stuck), budget=3.0)
    assert outcome == (0, 5, 0)
    assert 3.0 <= time.monotonic() - began < 30.0
    assert all(gone(int(name)) for name in os.listdir(tmp_path / "pids"))


def test_what_the_budget_left_out_is_counted(tmp_path):
    store = Store(tmp_path / "s")
    outcome = run(numbered(1000, log=str(tmp_path / "log")), store, partial(here, work=logged), budget=0.3)
    assert 0 < outcome.written < 50
    assert outcome.left == 1000 - outcome.written == 1000 - len(store.rows("teacher"))


def runner(code, *arguments):
    head = """
import sys
from dilutron.experiments.runner import processes, run
from dilutron.experiments.store import Store
from tests.test_runner import here, logged, numbered, small, stuck
from functools import partial
"""
    return subprocess.Popen([sys.executable, "-c", head + code, *map(str, arguments)], cwd=ROOT)


def test_two_runners_share_the_work(tmp_path):
    code = "run(numbered(60, log=sys.argv[2]), Store(sys.argv[1]), partial(here, work=logged))"
    both = [runner(code, tmp_path / "s", tmp_path / "log") for _ in range(2)]
    assert [one.wait(timeout=60) for one in both] == [0, 0]
    assert [row["twice"] for row in Store(tmp_path / "s").rows("teacher")] == [2 * i for i in range(60)]
    assert sorted(map(int, (tmp_path / "log").read_text().split())) == list(range(60))


def test_what_another_runner_had_begun_when_it_was_killed_is_done(tmp_path):
    store = Store(tmp_path / "s")
    code = """
for trial in numbered(2):
    with Store(sys.argv[1]).claims() as claims:
        claims.take(trial)
        open(sys.argv[2], "w").close()
        __import__("time").sleep(600)
"""
    other = runner(code, store.path, tmp_path / "begun")
    eventually((tmp_path / "begun").exists)
    told = []

    def report(progress):
        told.append(progress.trial.instance)
        other.send_signal(signal.SIGKILL)
        other.wait()

    assert run(numbered(2), store, partial(here, work=echo), report=report) == (2, 0, 0)
    assert told == [1, 0]


def test_no_worker_outlives_a_killed_runner_and_no_row_is_lost(tmp_path):
    (tmp_path / "pids").mkdir()
    store, trials = Store(tmp_path / "s"), small(1)
    code = """
store = Store(sys.argv[1])
run(small(1), store, here)
run(numbered(5, pids=sys.argv[2]), store, processes(2, stuck))
"""
    killed = runner(code, store.path, tmp_path / "pids")
    eventually(lambda: len(os.listdir(tmp_path / "pids")) == 2, 30.0)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    eventually(lambda: all(gone(int(name)) for name in os.listdir(tmp_path / "pids")))
    assert store.missing(trials) == []
    assert run(numbered(5, pids=str(tmp_path / "pids")), store, partial(here, work=echo)) == (5, 0, 0)

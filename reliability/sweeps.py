"""Sweeps under attack: runners and workers killed, disks full, folders closed, two at once; the rows must not care."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from dilutron.experiments.paper import grid
from dilutron.experiments.runner import processes, run
from dilutron.experiments.store import Store, StoreError, Trial
from reliability.rows import RESULTS, Row, write

TIMES = ("seconds", "cpu_seconds")
FAULTS = 60
MOST = 8  # rows at most that a runner writes before it is attacked,
MOMENT = 0.3  # and seconds at most since the last of them
PATIENCE = 60.0  # seconds in which a row must come
NOBODY = 65534  # user who owns nothing
ROOM = 30_000  # bytes that a full disk has left for the store, at least


def trials(instances: int) -> list[Trial]:
    """Small ones, of several kinds."""
    fixed = {"n": 24, "rho": 0.25, "alpha": 3.0, "eta": 0.9}
    sweeps = (
        grid("teacher", **fixed, patterns=("iid", "mvn"), method=("ep", "grvamp")),
        grid("learning", **(fixed | {"eta": 1.0}), patterns="iid", method="ep"),
    )
    return [trial for sweep in sweeps for trial in sweep.trials(instances)]


def timeless(store: Store) -> list[Row]:
    """All rows, to the last bit, but for how long they took."""
    return [
        {name: value for name, value in row.items() if name not in TIMES}
        for kind in ("teacher", "learning")
        for row in store.rows(kind)
    ]


def runner(path: Path, instances: int, room: int | None = None) -> subprocess.Popen[bytes]:
    """A runner of two workers in a process of its own; with `room`, on a disk that is full after so many bytes."""
    words = [sys.executable, "-m", "reliability.sweeps", str(path), str(instances), str(room or 0)]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def _children(pid: int) -> list[int]:
    try:
        told = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in told.split()]


def _await_row(path: Path, *processes: subprocess.Popen[bytes]) -> None:
    """Until there is one more, or nobody left to write it: an attack before the first write would prove nothing."""
    before, end = _count(path), time.monotonic() + PATIENCE
    while any(process.poll() is None for process in processes) and _count(path) <= before:
        assert time.monotonic() < end, f"no row in {PATIENCE:g} seconds"
        time.sleep(0.01)


def _count(path: Path) -> int:
    """Rows that are there; a store is not made by looking."""
    with contextlib.suppress(sqlite3.OperationalError):  # not there yet, or not yet a store
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=rw", timeout=PATIENCE, uri=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM trials").fetchone()[0])
    return 0


def _at_work(path: Path, rng: np.random.Generator, *processes: subprocess.Popen[bytes]) -> None:
    """Until a random moment after some rows."""
    for _ in range(rng.integers(1, MOST, endpoint=True)):
        _await_row(path, *processes)
    time.sleep(rng.uniform(0.0, MOMENT))


def kill_runner(path: Path, instances: int, rng: np.random.Generator) -> None:
    """At a random moment."""
    with _running(path, instances) as process:
        _at_work(path, rng, process)
        process.kill()


def kill_worker(path: Path, instances: int, rng: np.random.Generator) -> None:
    """One of its children; the runner goes on for a while."""
    with _running(path, instances) as process:
        _at_work(path, rng, process)
        for child in _children(process.pid)[-1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        _at_work(path, rng, process)
        process.kill()


def two_at_once(path: Path, instances: int, rng: np.random.Generator) -> None:
    """Of which one is killed; the other goes on for a while."""
    with _running(path, instances) as one, _running(path, instances) as other:
        _at_work(path, rng, one, other)
        victim, survivor = (one, other) if rng.random() < 0.5 else (other, one)
        victim.kill()
        _at_work(path, rng, survivor)


def full_disk(path: Path, instances: int, rng: np.random.Generator) -> None:
    """The store may not grow beyond a size; the runner gives up by itself."""
    room = max(ROOM, path.stat().st_size if path.exists() else 0)
    with _running(path, instances, room + int(rng.integers(1, 40_000))) as process:
        _await_row(path, process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(8.0)


def closed_folder(path: Path, instances: int, rng: np.random.Generator) -> None:
    """Nobody may write there any more: a runner at work gives up by itself, a new store is refused before any work."""
    with _running(path, instances) as process:
        _at_work(path, rng, process)
        with _closed(path.parent, process):
            process.wait(PATIENCE)
            try:
                Store(path.parent / "other.sqlite")
            except StoreError:
                return
            raise AssertionError("a closed folder was written to")


@contextlib.contextmanager
def _closed(folder: Path, process: subprocess.Popen[bytes]):  # type: ignore[no-untyped-def]
    """To us and to a runner. For root no folder is closed: both become somebody else."""
    root = os.geteuid() == 0
    if root:
        process.send_signal(signal.SIGUSR1)
        os.seteuid(NOBODY)
    else:
        os.chmod(folder, 0o555)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        else:
            os.chmod(folder, 0o755)


ATTACKS = {
    "runner killed": kill_runner,
    "worker killed": kill_worker,
    "two runners, one killed": two_at_once,
    "disk full": full_disk,
    "folder closed": closed_folder,
}


@contextlib.contextmanager
def _running(path: Path, instances: int, room: int | None = None):  # type: ignore[no-untyped-def]
    process = runner(path, instances, room)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def attacked(kind: str, faults: int, instances: int, seed: int = 0) -> Row:
    """One store under one kind of attack, then finished in peace; compared with one that was never attacked."""
    rng = np.random.default_rng([seed, *kind.encode()])
    wanted = trials(instances)
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        quiet, path = Store(Path(place) / "quiet.sqlite"), Path(place) / "trials.sqlite"
        run(wanted, quiet, processes(1))
        progress, torn, injected = [0], 0, 0
        for _ in range(faults):
            ATTACKS[kind](path, instances, rng)
            injected += 1
            rows = len(timeless(Store(path)))
            torn += not _sound(path)
            assert rows >= progress[-1], "rows were lost"
            progress.append(rows)
            if rows == len(wanted):  # begin again: there is nothing left to disturb
                Store(path).forget(wanted)
                progress.append(0)
        run(wanted, Store(path), processes(2))
        found, true = timeless(Store(path)), timeless(quiet)
    return {
        "attack": kind,
        "faults": injected,
        "rows": len(true),
        "lost": sum(row not in found for row in true),
        "duplicated": max(0, len(found) - len(true)),
        "torn": torn,
        "different": sum(one != other for one, other in zip(found, true, strict=False)),
        "rows_under_attack": sum(b - a for a, b in pairwise(progress) if b > a),
    }


def _sound(path: Path) -> bool:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return bool(connection.execute("PRAGMA integrity_check").fetchone() == ("ok",))


def main(faults: int = FAULTS, instances: int = 20, folder: Path = RESULTS) -> list[Row]:
    """All attacks share the faults; counts to a file."""
    rows = []
    for kind in ATTACKS:
        rows.append(attacked(kind, max(1, faults // len(ATTACKS)), instances))
        print(rows[-1], flush=True)
    write("sweeps", rows, folder)
    return rows


if __name__ == "__main__":
    if int(sys.argv[3]):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
    if os.geteuid() == 0:
        signal.signal(signal.SIGUSR1, lambda *_: os.seteuid(NOBODY))
    run(trials(int(sys.argv[2])), Store(Path(sys.argv[1])), processes(2))

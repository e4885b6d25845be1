"""kill -9 of those who write, at random moments of a write: what is there afterwards is whole, the old or the new."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reliability.parsers import frame, runs_columns
from reliability.rows import RESULTS, Row, write

ROUNDS = 200  # kills for each kind
TIMED = 5  # writes that tell how long one takes
LONGEST = 3.0  # such times from the begin of a write until the latest kill: in that write, or in one soon after


class Kept(NamedTuple):
    """Something that is written again and again: how, and which version is there."""

    save: Callable[[int], Any]
    version: Callable[[], int]


def posterior(folder: Path) -> Kept:
    """A posterior, whose seconds are its version."""
    from dilutron import Posterior

    made = _model().fits_[0].best
    return Kept(
        lambda number: replace(made, seconds=float(number)).save(folder / "posterior"),
        lambda: int(Posterior.load(folder / "posterior").seconds),
    )


def model(folder: Path) -> Kept:
    """An estimator, whose random_state is its version."""
    from dilutron import EPClassifier

    made = _model()
    return Kept(
        lambda number: made.set_params(random_state=number).save(folder / "model"),
        lambda: int(EPClassifier.load(folder / "model").random_state),
    )


def run(folder: Path) -> Kept:
    """A run folder: facts and model are of one version."""
    from dilutron import runs

    data = folder / "data.csv"
    frame().write_csv(data)
    answer = runs.make(data, runs.Request(runs_columns(), folds=0))

    def save(number: int) -> None:
        answer.model.set_params(random_state=number)
        runs.write(replace(answer, facts=answer.facts | {"number": number}), folder / "run", force=True)

    def version() -> int:
        found = runs.load(folder / "run")
        assert found.facts["number"] == found.model.random_state, "half a run"
        return int(found.facts["number"])

    return Kept(save, version)


def store(folder: Path) -> Kept:
    """A store, whose last row is its version; all rows before it are there, and whole."""
    from dilutron.experiments.store import Store, Trial

    def save(number: int) -> None:
        Store(folder / "trials.sqlite").write(Trial("teacher", {"n": 8}, number), {"status": "ok", "filler": "x" * 999})

    def version() -> int:
        rows = Store(folder / "trials.sqlite").rows("teacher")
        with contextlib.closing(sqlite3.connect(folder / "trials.sqlite")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",), "a torn store"
        assert [row["instance"] for row in rows] == list(range(len(rows))), "a lost row"
        assert {len(row["filler"]) for row in rows} == {999}, "a torn row"
        return len(rows) - 1

    return Kept(save, version)


KINDS = {"posterior": posterior, "model": model, "run": run, "store": store}


def _model() -> Any:
    from dilutron import EPClassifier

    table = frame()
    return EPClassifier().fit(table[["age", "height", "weight"]], table["class"].to_list())


def killed(kind: str, rounds: int, seed: int = 0) -> Row:
    """So many writers killed, one after the other; after each, what is there is read."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as place:
        kept = KINDS[kind](Path(place))
        known, longest = TIMED - 1, LONGEST * _seconds(kept)
        lost, torn, moved, amid = 0, 0, 0, 0
        for _ in range(rounds):
            told, writing = _killed_writer(kept, known, rng.uniform(0.0, longest))
            amid += writing
            try:
                found = kept.version()
            except (ValueError, AssertionError) as error:
                print(f"{kind}: {error}", flush=True)
                torn += 1
                kept.save(known)
                continue
            lost += found < told  # what a writer had finished is there
            moved += found > known
            known = found
        litter = [path for path in Path(place).iterdir() if path.name.startswith(".")]
    return {
        "kind": kind,
        "kills": rounds,
        "amid_a_write": amid,
        "moved_on": moved,
        "lost": lost,
        "torn": torn,
        "left_over": len(litter),
    }


def _seconds(kept: Kept) -> float:
    """That a write takes here and now."""
    began = time.perf_counter()
    for number in range(TIMED):
        kept.save(number)
    return (time.perf_counter() - began) / TIMED


def _killed_writer(kept: Kept, known: int, after: float) -> tuple[int, bool]:
    """The last version that a writer said it had finished, and whether it died in another write.

    It is killed so many seconds after it has begun to write: a busy machine may take longer than that to start it.
    """
    reading, telling = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for number in count(known + 1):
                os.write(telling, b"begun\n")
                kept.save(number)
                os.write(telling, f"{number}\n".encode())
        finally:
            os._exit(1)
    os.close(telling)
    with open(reading) as file:
        file.readline()
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
        _, ending = os.waitpid(child, 0)
        assert os.WIFSIGNALED(ending), "the writer failed by itself: nothing was attacked"
        told = ["begun", *file.read().split()]
    return max([known, *(int(word) for word in told if word != "begun")]), told[-1] == "begun"


def main(rounds: int = ROUNDS, folder: Path = RESULTS) -> list[Row]:
    """All kinds; counts to a file."""
    rows = [killed(kind, rounds) for kind in KINDS]
    write("kills", rows, folder)
    for row in rows:
        print(row)
    return rows

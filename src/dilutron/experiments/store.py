"""The store: one SQLite file, one row per trial, there the moment the trial is known."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from dilutron.experiments.trials import Cell, Row, key_of

FORMAT = "dilutron trials 1"
PATIENCE = 60.0  # seconds that a writer waits for another
SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS trials (
    kind TEXT NOT NULL,
    cell TEXT NOT NULL,
    instance INTEGER NOT NULL,
    status TEXT NOT NULL,
    outcome TEXT NOT NULL,
    PRIMARY KEY (kind, cell, instance)
);
"""


class Trial(NamedTuple):
    """What is to be done: which kind of trial, under what conditions, and which draw."""

    kind: str
    cell: Cell
    instance: int

    @property
    def key(self) -> tuple[str, str, int]:
        """The same for the same trial."""
        return self.kind, key_of(self.cell), self.instance


class Store:
    """Rows of trials in one file. Several processes may read and write it at once.

    Parameters
    ----------
    path : path
        The file; made where absent, with its folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._opened() as connection:
                self._check(connection)
        except OSError as error:
            raise ValueError(f"the store {self.path} cannot be made: {error.strerror or error}") from error
        except sqlite3.Error as error:
            raise ValueError(f"{self.path} is no store of trials, or cannot be written: {error}") from error

    def _check(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")}
        if tables and "about" not in tables:
            raise ValueError(f"{self.path} is a database, but no store of trials: choose another file.")
        with connection:  # also the proof that the file can be written
            connection.executescript(SCHEMA)
            connection.execute("INSERT OR IGNORE INTO about VALUES ('format', ?)", (FORMAT,))
        (found,) = connection.execute("SELECT value FROM about WHERE name='format'").fetchone()
        if found != FORMAT:
            raise ValueError(
                f"{self.path} has the format {found!r}, this version reads {FORMAT!r}: use the version that wrote it,"
                " or begin a new store."
            )

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=PATIENCE)) as connection:
            connection.execute("PRAGMA synchronous=NORMAL")  # with WAL, a killed process loses nothing
            yield connection

    def write(self, trial: Trial, row: Row) -> None:
        """Keep a row; of two rows of one trial the first stays."""
        with self._opened() as connection, connection:
            connection.execute(
                "INSERT OR IGNORE INTO trials VALUES (?, ?, ?, ?, ?)",
                (*trial.key, row["status"], json.dumps(row, allow_nan=True)),
            )

    def missing(self, trials: Iterable[Trial]) -> list[Trial]:
        """Those not yet in the store, in order, each once."""
        with self._opened() as connection:
            known = set(connection.execute("SELECT kind, cell, instance FROM trials"))
        return [trial for key, trial in {trial.key: trial for trial in trials}.items() if key not in known]

    def rows(self, kind: str, cells: Iterable[Cell] | None = None) -> list[Row]:
        """Flat rows of one kind, in order of cell and instance; of these cells only, where given."""
        wanted = None if cells is None else {key_of(cell): place for place, cell in enumerate(cells)}
        query = "SELECT cell, instance, outcome FROM trials WHERE kind = ? ORDER BY cell, instance"
        with self._opened() as connection:
            found = [entry for entry in connection.execute(query, (kind,)) if wanted is None or entry[0] in wanted]
        if wanted is not None:
            found.sort(key=lambda entry: (wanted[entry[0]], entry[1]))
        return [{**json.loads(cell), "instance": instance, **json.loads(outcome)} for cell, instance, outcome in found]

    def forget(self, status: str) -> int:
        """Drop the rows of this status, so that they are tried again; how many there were."""
        with self._opened() as connection, connection:
            return connection.execute("DELETE FROM trials WHERE status = ?", (status,)).rowcount


def write_csv(rows: list[Row], path: str | os.PathLike[str]) -> Path:
    """Rows as a CSV file, there whole or not at all; columns in order of appearance."""
    target = Path(path)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    scratch = target.with_name(f".{target.name}.part")
    with open(scratch, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _brief(value) for name, value in row.items()} for row in rows)
    os.replace(scratch, target)
    return target


def _brief(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value

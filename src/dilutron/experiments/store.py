"""The store: one SQLite file, one row per trial, there the moment the trial is known."""

from __future__ import annotations

import csv
import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from dilutron.experiments.trials import Cell, Row, key_of
from dilutron.files import harmless, whole_file

if sys.platform != "win32":
    import fcntl

FORMAT = "dilutron trials 1"
PATIENCE = 60.0  # seconds that a writer waits for another
ROOM = 2_000  # bytes of a row, its share of the index and of the log
FULL = 1 << 16  # bytes: with less than that, whatever SQLite complains of, this is why
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS trials (
    kind TEXT NOT NULL,
    cell TEXT NOT NULL,
    instance INTEGER NOT NULL,
    status TEXT NOT NULL,
    outcome TEXT NOT NULL,
    PRIMARY KEY (kind, cell, instance)
)""",
)


class StoreError(ValueError):
    """The store cannot be made, read or written; the message is for the user."""


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
            TemporaryFile(dir=self.path.parent).close()  # SQLite would only say that it cannot open a file
        except OSError as error:
            raise StoreError(_unwritable(self.path.parent, error)) from error
        with self._opened() as connection:
            self._prepare(connection)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Look before touching: a file that is not ours stays as it is."""
        connection.isolation_level = None
        connection.execute("BEGIN IMMEDIATE")  # of two that make the store, one waits
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")}
        if tables and not {"about", "trials"} <= tables:
            raise StoreError(f"{self.path} is a database, but no store of trials: choose another file")
        for statement in SCHEMA:
            connection.execute(statement)
        connection.execute("INSERT OR IGNORE INTO about VALUES ('format', ?)", (FORMAT,))
        (found,) = connection.execute("SELECT value FROM about WHERE name='format'").fetchone()
        if found != FORMAT:
            raise StoreError(
                f"{self.path} has the format {found!r}, this version reads {FORMAT!r}: use the version that wrote it,"
                " or begin a new store"
            )
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        # Always a change: the proof that the file can be written, before any work is done.
        connection.execute("INSERT OR REPLACE INTO about VALUES ('opened', ?)", (now,))
        connection.execute("COMMIT")
        if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            connection.execute("PRAGMA journal_mode=WAL")

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=PATIENCE)) as connection:
                connection.execute("PRAGMA synchronous=NORMAL")  # with WAL, a killed process loses nothing
                yield connection
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the second where a damaged file holds no text
            full = shutil.disk_usage(self.path.parent).free < FULL
            remedy = ": move it away, or choose another folder" if "not a database" in str(error) else ""
            raise StoreError(
                f"the store {self.path} cannot be used: {'disk full' if full else error}{remedy}"
            ) from error

    def write(self, trial: Trial, row: Row) -> bool:
        """Keep a row; of two rows of one trial the first stays. False where there was one."""
        return self.write_all([(trial, row)]) == 1

    def write_all(self, known: Iterable[tuple[Trial, Row]]) -> int:
        """Keep many at once, all or none; how many were new."""
        entries = ((*trial.key, row["status"], json.dumps(row, allow_nan=True)) for trial, row in known)
        with self._opened() as connection, connection:
            return connection.executemany("INSERT OR IGNORE INTO trials VALUES (?, ?, ?, ?, ?)", entries).rowcount

    def known(self) -> list[tuple[Trial, Row]]:
        """All that is in the store, in order of kind, cell and instance."""
        query = "SELECT kind, cell, instance, outcome FROM trials ORDER BY kind, cell, instance"
        with self._opened() as connection:
            found = connection.execute(query).fetchall()
        try:
            return [(Trial(kind, json.loads(cell), place), json.loads(row)) for kind, cell, place, row in found]
        except (ValueError, TypeError) as error:
            raise StoreError(f"the store {self.path} holds a damaged row: {error}") from error

    def __contains__(self, trial: Trial) -> bool:
        query = "SELECT 1 FROM trials WHERE kind = ? AND cell = ? AND instance = ?"
        with self._opened() as connection:
            return connection.execute(query, trial.key).fetchone() is not None

    def ended(self, trials: Iterable[Trial]) -> list[tuple[Trial, str | None]]:
        """How each trial ended, None where it is not in the store; in order, each once."""
        with self._opened() as connection:
            found = connection.execute("SELECT kind, cell, instance, status FROM trials")
            known = {(kind, cell, instance): status for kind, cell, instance, status in found}
        return [(trial, known.get(key)) for key, trial in {trial.key: trial for trial in trials}.items()]

    def missing(self, trials: Iterable[Trial]) -> list[Trial]:
        """Those not yet in the store, in order, each once."""
        return [trial for trial, status in self.ended(trials) if status is None]

    def forget(self, trials: Iterable[Trial]) -> None:
        """Drop the rows of these trials, so that they are tried again."""
        with self._opened() as connection, connection:
            query = "DELETE FROM trials WHERE kind = ? AND cell = ? AND instance = ?"
            connection.executemany(query, (trial.key for trial in trials))

    def rows(self, kind: str, cells: Iterable[Cell] | None = None) -> list[Row]:
        """Flat rows of one kind, in order of cell and instance; of these cells only, where given."""
        wanted = None if cells is None else {key_of(cell): place for place, cell in enumerate(cells)}
        query = "SELECT cell, instance, outcome FROM trials WHERE kind = ? ORDER BY cell, instance"
        with self._opened() as connection:
            found = [entry for entry in connection.execute(query, (kind,)) if wanted is None or entry[0] in wanted]
        if wanted is not None:
            found.sort(key=lambda entry: (wanted[entry[0]], entry[1]))
        try:
            return [
                {**json.loads(cell), "instance": instance, **json.loads(outcome)} for cell, instance, outcome in found
            ]
        except (ValueError, TypeError) as error:
            raise StoreError(f"the store {self.path} holds a damaged row of kind {kind!r}: {error}") from error

    def check_room(self, count: int) -> None:
        """Refuse to begin what would fill the disk: room for `count` more rows."""
        free, need = shutil.disk_usage(self.path.parent).free, count * ROOM
        if free < need:
            raise StoreError(
                f"{self.path.parent} has {free / 1e6:.1f} MB free, {count} rows need about {need / 1e6:.1f} MB:"
                " free some space, or choose another folder"
            )

    @contextmanager
    def claims(self) -> Iterator[Claims]:
        """For one run: which trials it works on, seen by other runs on this store."""
        try:
            file = open(self.path.with_name(f"{self.path.name}-claims"), "ab")
        except OSError as error:
            raise StoreError(_unwritable(self.path.parent, error)) from error
        with file:
            yield Claims(file.fileno())


def _unwritable(folder: Path, error: OSError) -> str:
    return f"the folder {folder} cannot be written: {error.strerror or error}: choose another folder"


class Claims(NamedTuple):
    """Trials that a process works on, each a lock on one byte of a file.

    The system lifts the locks of a process when it ends, however it ends: no claim outlives its runner. They only spare
    double work; that a trial has one row is the store's own doing.
    """

    file: int

    def take(self, trial: Trial) -> bool:
        """False where another process has it."""
        try:
            self._lock(trial, True)
        except (BlockingIOError, PermissionError):
            return False
        except OSError:  # a file system without locks: the work may be done twice, the row is still one
            return True
        return True

    def drop(self, trial: Trial) -> None:
        """Let others have it."""
        with suppress(OSError):
            self._lock(trial, False)

    def _lock(self, trial: Trial, on: bool) -> None:
        if sys.platform != "win32":
            place = int.from_bytes(blake2b(repr(trial.key).encode(), digest_size=6).digest())
            fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB if on else fcntl.LOCK_UN, 1, place)


def write_csv(rows: list[Row], path: str | os.PathLike[str]) -> Path:
    """Rows as a CSV file, there whole or not at all; columns in order of appearance."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with whole_file(path) as scratch, open(scratch, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _brief(value) for name, value in row.items()} for row in rows)
    return Path(path)


def _brief(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else harmless(value)

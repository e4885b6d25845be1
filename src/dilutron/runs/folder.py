"""An answer to a folder of plain files, whole or not at all."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from dilutron.files import harmless, whole_folder
from dilutron.runs.contents import COLUMNS, Row
from dilutron.runs.making import Answer
from dilutron.runs.request import RunError

FACTS = "run.json"
NAMED = 5  # files that an error lists
WRITTEN = (  # patterns of all that a run's folder holds: where anything else is, it is not replaced
    *(f"{name}.csv" for name in (*COLUMNS, "correlations", "predictions", "medians")),
    *(FACTS, "log.txt", "report.html", "model/*.json", "model/posterior-*/*"),
)


def check_place(folder: str | os.PathLike[str], force: bool) -> None:
    """RunError where a run could not be written in the end: better known before the work."""
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise RunError(f"{target} is a file: choose another folder.")
    if target.is_dir() and any(target.iterdir()):
        if not _is_run(target):
            raise RunError(f"{target} exists and is no run: choose another folder.")
        strange = [name for name in _files(target) if not any(fnmatchcase(name, ours) for ours in WRITTEN)]
        if strange:
            more = f" and {len(strange) - NAMED} more" if len(strange) > NAMED else ""
            raise RunError(
                f"{target} holds files that no run writes, {', '.join(map(repr, strange[:NAMED]))}{more}: move them "
                "away, or choose another folder."
            )
        if not force:
            raise RunError(f"{target} holds a run already: choose another folder, or --force to replace it.")
    above = next(parent for parent in target.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=above):
            pass
    except OSError as error:
        raise RunError(f"{target} cannot be written: {error.strerror}: choose another folder.") from error


def _is_run(folder: Path) -> bool:
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(facts, dict) and "dilutron" in facts and (folder / "model").is_dir()


def _files(folder: Path) -> list[str]:
    """All that is there but folders, which are looked into; links count as files, wherever they lead."""
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(path.relative_to(folder).as_posix() for path in found)


def write(answer: Answer, folder: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Keep an answer in a folder, whole or not at all."""
    check_place(folder, force)
    with whole_folder(folder, FACTS, "run") as new:
        for name, rows in answer.tables.items():
            write_csv(new / f"{name}.csv", _header(name, rows), rows)
        answer.model.save(new / "model")
        (new / "log.txt").write_text("".join(f"{line}\n" for line in answer.log), encoding="utf-8")
        (new / FACTS).write_text(json.dumps(answer.facts, indent=1, allow_nan=False), encoding="utf-8")
    return Path(folder)


def _header(name: str, rows: Sequence[Row]) -> list[str]:
    """Of a table of the contract, with the class first where there are three or more; of others, what they hold."""
    if name not in COLUMNS:
        return list(rows[0])
    return ["class", *COLUMNS[name]] if rows and "class" in rows[0] else COLUMNS[name]


def write_csv(place: Path, header: Sequence[str], rows: Iterable[Row]) -> None:
    """A file that a spreadsheet opens, and in which it finds nothing to run."""
    with open(place, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(map(harmless, header))
        writer.writerows([harmless(row.get(name, "")) for name in header] for row in rows)

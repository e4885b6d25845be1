"""Trials kept in the repository, so that every table and figure can be written anew without computing anything."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path

from benchmarks.rows import RESULTS, Row
from dilutron.experiments.store import Store, Trial
from dilutron.files import whole_file

FOLDER = RESULTS / "trials"


def keep(store: Store, folder: Path = FOLDER) -> None:
    """One compressed file for each kind of trial and method, a line for each trial, numbers with six digits."""
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, list[str]] = defaultdict(list)
    for trial, row in store.known():
        line = json.dumps([dict(trial.cell), trial.instance, _brief(row)])
        files[f"{trial.kind}.{trial.cell.get('method', 'all')}"].append(line)
    for name, lines in files.items():
        with whole_file(folder / f"{name}.jsonl.gz") as scratch:
            scratch.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))  # the same rows, the same bytes


def restore(store: Store, folder: Path = FOLDER) -> int:
    """Put what was kept into a store that lacks it; how many trials were new there."""
    return sum(store.write_all(_known(path)) for path in sorted(folder.glob("*.jsonl.gz")))


def _known(path: Path) -> list[tuple[Trial, Row]]:
    kind, lines = path.name.split(".")[0], gzip.decompress(path.read_bytes()).decode().splitlines()
    return [(Trial(kind, cell, instance), row) for cell, instance, row in map(json.loads, lines)]


def _brief(row: Row) -> Row:
    return {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in row.items()}

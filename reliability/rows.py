"""Rows of a campaign to a small CSV file."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from dilutron.files import whole_file

RESULTS = Path(__file__).parent / "results"
Row = dict[str, Any]


def write(name: str, rows: list[Row], folder: Path = RESULTS) -> Path:
    """A CSV file, there whole or not at all; numbers with five digits."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.csv"
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with whole_file(path) as scratch, open(scratch, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    print(path)
    return path

"""The figures on file as they stand in SECURITY.md."""

from __future__ import annotations

import csv
from pathlib import Path

from reliability.rows import RESULTS

PAGE = Path(__file__).resolve().parents[1] / "SECURITY.md"
TABLES = {"FUZZ": "fuzz", "KILLS": "kills", "SWEEPS": "sweeps", "ZOO": "zoo_summary", "FRESH": "zoo_fresh_summary"}


def markdown(name: str) -> str:
    """One table."""
    with open(RESULTS / f"{name}.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    head, *body = [f"| {' | '.join(cell.replace('_', ' ') for cell in row)} |" for row in rows]
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])


def page(text: str) -> str:
    """The page with every table as it is on file now."""
    for mark, name in TABLES.items():
        begin, end = f"<!-- {mark} -->\n", f"\n<!-- end of {mark} -->"
        before, begun, rest = text.partition(begin)
        _, ended, after = rest.partition(end)
        if not (begun and ended):  # what follows would be lost
            raise ValueError(f"the page has no table between '<!-- {mark} -->' and '<!-- end of {mark} -->'")
        text = f"{before}{begin}{markdown(name)}{end}{after}"
    return text


def main() -> None:
    """Write the tables into the page."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(PAGE)

"""What cannot be used, in one line: the errors, and the words they share."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

NAMED = 5  # columns that an error lists
CUT = 40  # characters of a value that an error shows


class RefusedError(ValueError):
    """What cannot be done with a file, a folder or a request, in one line."""


class TableError(RefusedError):
    """A file that cannot be used: one line with the file, the place in it, and what to do."""


def place_of(row: int, name: str) -> str:
    """Where a value stands, as a person counts."""
    return f"row {row + 1}, column '{cut(name)}'"


def first_of(mask: Any) -> tuple[int, int]:
    """Row and column of the first true entry, row by row."""
    row = int(np.flatnonzero(mask.any(axis=1))[0])
    return row, int(np.flatnonzero(mask[row])[0])


def perhaps(near: Sequence[str]) -> str:
    """What may have been meant."""
    return f"; perhaps {' or '.join(repr(name) for name in near)}" if near else ""


def listed(names: Sequence[str]) -> str:
    """Names, the last ones counted only."""
    shown = ", ".join(f"'{cut(name)}'" for name in names[:NAMED])
    return f"{shown} and {len(names) - NAMED} more" if len(names) > NAMED else shown


def cut(text: str) -> str:
    """On one line, and not too long for it."""
    line = text.replace("\n", " ")
    return line if len(line) <= CUT else f"{line[:CUT]}..."


def is_number(text: str) -> bool:
    """True where a text reads as one."""
    with suppress(ValueError):
        float(text)
        return True
    return False

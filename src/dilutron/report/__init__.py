"""One page from a run folder: the answer in plain words, pictures, tables, and how it was found."""

from __future__ import annotations

import os
from pathlib import Path

from dilutron.files import whole_file
from dilutron.report.reading import read

try:
    from dilutron.report.page import page
except ImportError as error:  # pragma: no cover
    raise ImportError("reports need jinja2: pip install 'dilutron[report]'") from error

NAME = "report.html"


def write(folder: str | os.PathLike[str]) -> Path:
    """Make `report.html` in a run folder, whole or not at all. It holds everything it shows and needs no network.

    Parameters
    ----------
    folder : path
        As `dilutron fit` leaves it; a ValueError names what is missing or cannot be read.
    """
    text = page(read(folder))
    target = Path(folder) / NAME
    with whole_file(target) as scratch:
        scratch.write_text(text, encoding="utf-8", errors="replace", newline="\n")
    return target


__all__ = ["write"]

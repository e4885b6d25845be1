"""Files and folders that are there whole or not at all, and texts that a spreadsheet takes for texts."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # by what a spreadsheet knows something to compute, or to run


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A place to write to, which becomes `path` at the end; after an error nothing has happened."""
    target = Path(path)
    # The process in the name: two runs may write at once. The ending stays: some writers go by it.
    scratch = target.with_name(f".{target.stem}.{os.getpid()}.part{target.suffix}")
    try:
        yield scratch
        _flush(scratch)
        os.replace(scratch, target)
        _flush(target.parent)
    except OSError as error:
        if error.filename == str(scratch):
            error.filename = str(target)  # the name that people know
        raise
    finally:
        scratch.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: str | os.PathLike[str], mark: str, kind: str) -> Iterator[Path]:
    """The same for a folder.

    An earlier one, known by its file `mark`, is replaced. Anything else that stands there is left alone: a ValueError
    says that it is no saved `kind`.
    """
    target = Path(path)
    empty = target.is_dir() and not any(target.iterdir())
    if target.exists() and not (target / mark).is_file() and not empty:
        raise ValueError(f"{target} exists and is not a saved {kind}: choose another folder.")
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    new, old = scratch / "new", scratch / "old"
    try:
        new.mkdir()
        yield new
        for part in (*new.rglob("*"), new):
            _flush(part)
        try:
            if not (target.exists() and _exchanged(new, target)):
                if target.exists():
                    os.replace(target, old)
                os.replace(new, target)
            _flush(target.parent)
        except BaseException:
            if old.exists() and not target.exists():
                os.replace(old, target)  # nothing is lost: the earlier one comes back
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _flush(path: Path) -> None:
    """To the disk, so that no rename is there before what it names. A system that cannot flush folders need not."""
    with suppress(OSError):
        place = os.open(path, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)


def _exchanged(one: Path, other: Path) -> bool:
    """Swap two folders in one move, where the system can: between two moves a killed process would leave none."""
    swap = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE
    return swap is not None and swap(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0


def harmless(value: Any) -> Any:
    """For a CSV file: a text that a spreadsheet would run as a formula gets an apostrophe. Numbers stay as they are."""
    return f"'{value}" if isinstance(value, str) and _runs(value) and not _is_number(value) else value


def as_given(text: str) -> str:
    """What `harmless` was given."""
    return text[1:] if text.startswith("'") and _runs(text) else text


def _runs(text: str) -> bool:
    return text.lstrip("'").startswith(FORMULA)  # apostrophes that were there already count, so that they come back


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        float(text)
        return True
    return False

"""Files and folders that are there whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A place to write to, which becomes `path` at the end; after an error nothing has happened."""
    target = Path(path)
    # The process in the name: two runs may write at once. The ending stays: some writers go by it.
    scratch = target.with_name(f".{target.stem}.{os.getpid()}.part{target.suffix}")
    try:
        yield scratch
        os.replace(scratch, target)
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
        try:
            if target.exists():
                os.replace(target, old)
            os.replace(new, target)
        except BaseException:
            if old.exists() and not target.exists():
                os.replace(old, target)  # nothing is lost: the earlier one comes back
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)

"""A file to its rows, by the kind that its name tells."""

from __future__ import annotations

import csv
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

from dilutron.tables.checks import checked
from dilutron.tables.columns import Columns
from dilutron.tables.refusing import TableError, perhaps
from dilutron.tables.sheet import Sheet
from dilutron.tables.stored import h5ad_sheet, parquet_sheet
from dilutron.tables.text import text_sheet

READERS: dict[str, Callable[[Path, Columns], Sheet]] = {
    ".csv": text_sheet,
    ".tsv": text_sheet,
    ".txt": text_sheet,
    ".parquet": parquet_sheet,
    ".h5ad": h5ad_sheet,
}


def read(path: str | os.PathLike[str], columns: Columns) -> Sheet:
    """The rows of a file, told by its name: .csv, .tsv, .txt (also .gz), .parquet or .h5ad."""
    file = Path(path)
    if file.is_dir():
        raise TableError(f"{file} is a folder: give a file.")
    if not file.is_file():
        near = get_close_matches(file.name, [p.name for p in file.parent.glob("*")], 1)
        raise TableError(f"{file} does not exist{perhaps(near)}.")
    if file.stat().st_size == 0:
        raise TableError(f"{file} is empty: save or copy the table again.")
    endings = [ending.lower() for ending in file.suffixes if ending.lower() != ".gz"]
    reader = READERS.get(endings[-1] if endings else "")
    if reader is None:
        raise TableError(f"{file} is of no known kind: give {', '.join(READERS)}, the text ones also as .gz.")
    with _in_words(file):
        return checked(reader(file, columns), columns.features is not None)


@contextmanager
def _in_words(file: Path) -> Iterator[None]:
    """What the system says about a file, in one line."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise TableError(f"{file} is a damaged or cut gzip file: copy or download it again.") from None
    except csv.Error as error:
        raise TableError(f"{file} cannot be read as a table: {error}.") from None
    except ModuleNotFoundError as error:
        raise TableError(f"{file}: reading needs {error.name}: pip install 'dilutron[cli]'.") from None
    except OSError as error:
        raise TableError(f"{file} cannot be read: {error.strerror or error}.") from error

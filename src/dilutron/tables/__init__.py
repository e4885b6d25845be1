"""Tables from files: CSV, TSV, Parquet and h5ad, with one line for each way in which a file can be wrong."""

from dilutron.tables.checks import check_classes, check_complete
from dilutron.tables.columns import Columns
from dilutron.tables.preparing import imputed, logged, medians_of, varying
from dilutron.tables.reading import READERS, read
from dilutron.tables.refusing import RefusedError, TableError
from dilutron.tables.sheet import Sheet

__all__ = [
    "READERS",
    "Columns",
    "RefusedError",
    "Sheet",
    "TableError",
    "check_classes",
    "check_complete",
    "imputed",
    "logged",
    "medians_of",
    "read",
    "varying",
]

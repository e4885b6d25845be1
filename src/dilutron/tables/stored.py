"""Files that know their own columns: Parquet and h5ad."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dilutron.tables.columns import Columns, check_one_part, left_over, no_such_column, parts_of
from dilutron.tables.refusing import TableError
from dilutron.tables.sheet import Sheet, sheet_of, texts_of

PATIENCE, SLOWEST = 30.0, 1e6  # seconds, and bytes a second on top, after which a file is not read on


def parquet_sheet(file: Path, columns: Columns) -> Sheet:
    """Rows of a Parquet file."""
    import polars as pl

    try:
        header = list(pl.read_parquet_schema(file))
        parts = parts_of(file, header, columns)
        frame = pl.read_parquet(file, columns=parts.wanted)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        said = (str(error).splitlines() or [""])[0]
        raise TableError(f"{file} is not a Parquet file, or damaged: {said}") from error
    return sheet_of(file, frame, parts, left_over(header, parts))


def h5ad_sheet(file: Path, columns: Columns) -> Sheet:
    """Rows of an h5ad file: X, with label and id from obs."""
    try:
        import anndata
    except ModuleNotFoundError:
        raise TableError(f"{file}: h5ad files need anndata: pip install 'dilutron[anndata]'.") from None
    check_one_part(file, replace(columns, drop=(), features=None))  # those are names of var, not of obs
    _check_survived(file)
    try:
        data = anndata.read_h5ad(file)
    except Exception as error:  # h5py and anndata have no list of what a spoilt file makes them raise
        raise TableError(f"{file} is not an h5ad file, or damaged: {' '.join(str(error).split())[:200]}") from error
    for what, name in (("label", columns.label), ("id", columns.id)):
        if name is not None and name not in data.obs:
            raise no_such_column(file, what, name, list(data.obs), " of obs")
    if data.X is None:
        raise TableError(f"{file} has no X: dilutron reads no layers.")
    header = list(map(str, data.var_names))
    parts = parts_of(file, header, replace(columns, label=None, id=None, usual_id=""))
    where = {name: i for i, name in enumerate(header)}
    table = data.X[:, [where[name] for name in parts.features or ()]]
    X = np.asfortranarray(table.toarray() if hasattr(table, "toarray") else table, dtype=np.float64)
    id = columns.id or (columns.usual_id if columns.usual_id in data.obs else None)
    labels = None if columns.label is None else texts_of(file, columns.label, _entries(data.obs[columns.label]))
    ids = data.obs_names.tolist() if id is None else texts_of(file, id, _entries(data.obs[id])).tolist()
    return Sheet(file, X, parts.features or (), labels, tuple(map(str, ids)), id, left_over(header, parts))


def _check_survived(file: Path) -> None:
    """Read it in another process first: HDF5 is C, and some damaged files crash it or keep it busy for ever."""
    probe = [sys.executable, "-c", "import sys, anndata; anndata.read_h5ad(sys.argv[1])", str(file)]
    patience = PATIENCE + file.stat().st_size / SLOWEST
    try:
        ended = subprocess.run(
            probe, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=patience, check=False
        )
    except subprocess.TimeoutExpired:
        raise TableError(f"{file} is damaged, or too slow to read: it took more than {patience:.0f} s.") from None
    if ended.returncode < 0:
        raise TableError(f"{file} is damaged: it crashes the HDF5 library. Copy or download it again.")


def _entries(column: Any) -> list[Any]:
    """Of a pandas column, None where there is nothing."""
    return [None if missing else value for value, missing in zip(column, column.isna(), strict=True)]

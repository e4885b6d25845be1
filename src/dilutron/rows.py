"""Tables of more rows than memory holds: blocks of rows on disk or on a cluster, read one pass at a time.

Dask runs the passes: on threads, or on the cluster of the current `distributed.Client` where there is one.
"""

from __future__ import annotations

import mmap
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dilutron.special import Vector

BLOCK = 2**21  # numbers in a block, where the source does not say: 16 MB
WIDEST = 20_000  # columns, whose square takes 3 GB and is held more than once
NUMBERS = "biuf"  # kinds of number that patterns can be of


@dataclass(frozen=True, eq=False)
class Rows:
    """A table in blocks of rows. Make one with `Rows.of`.

    Attributes
    ----------
    blocks : tuple of dask Delayed
        Arrays of shape (rows of the block, N).
    starts : array of int
        First row of each block, and M at the end.
    n_columns : int
    names : tuple of N strings, optional
        Where the source has them.
    norms : array of shape (M,), optional
        Sum of squares of every row, without the intercept's column.
    intercept : bool
        True where the last column is an intercept's: +1 or -1.
    """

    blocks: tuple[Any, ...]
    starts: NDArray[np.intp]
    n_columns: int
    names: tuple[str, ...] | None = None
    norms: Vector | None = None
    intercept: bool = False

    @classmethod
    def of(cls, source: Any, *, columns: Sequence[str] | None = None, block_rows: int | None = None) -> Self:
        """Blocks of a table that is not read as a whole.

        Parameters
        ----------
        source : path, numpy array, dask array or zarr array
            A path is that of a .npy file, a .parquet file (which needs polars) or a .zarr folder. A numpy array may be
            a memory map. On a cluster the workers read files themselves, under the same path.
        columns : sequence of str, optional
            Which columns of a .parquet file; all where absent.
        block_rows : int, optional
            Rows in a block; by default those of 16 MB, and the chunks of a dask or zarr array.
        """
        _dask()
        if block_rows is not None and (not isinstance(block_rows, int) or block_rows < 1):
            raise ValueError(f"block_rows must be a whole number of at least 1, got {block_rows!r}.")
        if columns is not None and not _is_path(source, ".parquet"):
            raise ValueError("columns are those of a .parquet file: leave them out for other sources.")
        if _is_path(source, ".parquet"):
            return cls._of_parquet(os.fspath(source), columns, block_rows)
        if _is_path(source, ".zarr") or in_blocks(source):
            return cls._of_dask(_dask_array(source), block_rows)
        if _is_path(source, ".npy"):
            _there(source)
            table: Any = np.load(source, mmap_mode="r")
            read: Callable[[int, int], Vector] | None = partial(_of_file, os.path.abspath(source))
        elif isinstance(source, (str, os.PathLike)):
            raise ValueError(
                f"{os.fspath(source)} is no .npy, .parquet or .zarr path: write the table as one of these."
            )
        else:
            table, read = source, _mapped(source) if isinstance(source, np.memmap) else None
        _check_table(table.shape if hasattr(table, "shape") else (), getattr(table, "dtype", None))
        starts = _starts(table.shape[0], table.shape[1], block_rows)
        delayed = _dask().delayed
        pieces = [
            delayed(_numbers)(table[first:end]) if read is None else delayed(read)(first, end)
            for first, end in _pairs(starts)
        ]
        return cls(tuple(pieces), starts, table.shape[1])

    @classmethod
    def _of_dask(cls, array: Any, block_rows: int | None) -> Self:
        _check_table(array.shape, array.dtype)
        if any(np.isnan(size) for sizes in array.chunks for size in sizes):
            raise ValueError("X is a dask array of unknown length: call X.compute_chunk_sizes() first.")
        array = array.rechunk({0: block_rows or "auto" if len(array.chunks[1]) > 1 else array.chunks[0], 1: -1})
        array = array.rechunk({0: block_rows}) if block_rows else array
        starts = np.concatenate([[0], np.cumsum(array.chunks[0])]).astype(np.intp)
        blocks = [_dask().delayed(_numbers)(block) for block in array.to_delayed()[:, 0]]
        return cls(tuple(blocks), starts, array.shape[1])

    @classmethod
    def _of_parquet(cls, path: str, columns: Sequence[str] | None, block_rows: int | None) -> Self:
        try:
            import polars
        except ImportError as error:
            raise ImportError("Parquet files need polars: pip install 'dilutron[cli]'") from error
        _there(path)
        schema = polars.scan_parquet(path).collect_schema()
        names = tuple(schema.names()) if columns is None else tuple(columns)
        for name in names:
            if name not in schema:
                raise ValueError(f"{path} has no column {name!r}; it has {', '.join(map(repr, schema.names()))}.")
            if not (schema[name].is_numeric() or schema[name] == polars.Boolean):
                raise ValueError(f"column {name!r} of {path} holds no numbers: pass columns=[...] without it.")
        n_rows = polars.scan_parquet(path).select(polars.len()).collect().item()
        _check_table((n_rows, len(names)), np.dtype(np.float64))
        starts = _starts(n_rows, len(names), block_rows)
        read = partial(_of_parquet_file, os.path.abspath(path), names)
        return cls(tuple(_dask().delayed(read)(*ends) for ends in _pairs(starts)), starts, len(names), names)

    @property
    def shape(self) -> tuple[int, int]:
        """M and N."""
        return int(self.starts[-1]), self.n_columns

    def __array__(self, *given: Any, **more: Any) -> Any:
        """Refused: it may be larger than memory."""
        raise ValueError(
            "this table is in blocks of rows, and here a whole one is needed: pass an array in memory, or learn by"
            ' dilutron.solve(..., method="ep"), whose posterior predicts blocks too.'
        )

    def mapped(self, work: Callable[..., Vector], *vectors: NDArray[Any], shared: Sequence[Any] = ()) -> Self:
        """`work(block, *parts of the vectors, *shared)` in place of every block, when it is read."""
        return replace(self, blocks=self._delayed(work, vectors, shared))

    def each(self, work: Callable[..., Any], *vectors: NDArray[Any], shared: Sequence[Any] = ()) -> tuple[Any, ...]:
        """The same, read now: one pass, one answer for each block."""
        return _read(self._delayed(work, vectors, shared))

    def total(self, work: Callable[..., tuple[Vector, ...]], *vectors: NDArray[Any]) -> tuple[Vector, ...]:
        """The sums over all blocks of what `work` gives: one pass.

        They are added in pairs and always in the same order, so that the same numbers come from any scheduler.
        """
        parts = list(self._delayed(work, vectors, ()))
        plus = _dask().delayed(_plus)
        while len(parts) > 1:
            parts = [plus(*parts[i : i + 2]) if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)]
        (total,) = _read(parts)
        return tuple(total)

    def signed(self, labels: Vector, *, intercept: bool) -> Self:
        """Every row times its label, Eq. (3), with a last column for the intercept where wanted."""
        design = self.mapped(partial(signed, intercept=intercept), labels)
        return replace(design, n_columns=self.n_columns + intercept, intercept=intercept)

    def _delayed(self, work: Callable[..., Any], vectors: Sequence[Any], shared: Sequence[Any]) -> tuple[Any, ...]:
        delayed = _dask().delayed
        once = [delayed(each, traverse=False) for each in shared]  # one node of the graph, not a copy for each block
        ends = _pairs(self.starts)
        return tuple(
            delayed(work)(block, *(vector[first:end] for vector in vectors), *once)
            for block, (first, end) in zip(self.blocks, ends, strict=True)
        )


class Summary(NamedTuple):
    """What a pass tells of the columns, and of the rows' sums of squares."""

    low: Vector
    high: Vector
    mean: Vector
    var: Vector
    norms: Vector


def summary(rows: Rows, copies: Vector | None) -> Summary:
    """One pass that looks at every number. ValueError where one is not finite: it names the row.

    Means and variances count each row `copies` times.
    """
    weights = np.ones(rows.shape[0]) if copies is None else np.asarray(copies, dtype=np.float64)
    parts = rows.each(_summed, np.arange(rows.shape[0]), weights)
    low, high = np.min([part[0] for part in parts], axis=0), np.max([part[1] for part in parts], axis=0)
    share = np.array([part[2] for part in parts])
    share = share / share.sum()
    means, variances = np.array([part[3] for part in parts]), np.array([part[4] for part in parts])
    norms = np.concatenate([part[5] for part in parts])
    with np.errstate(over="ignore"):  # as in `_summed`
        mean = share @ means
        return Summary(low, high, mean, share @ (variances + (means - mean) ** 2), norms)


def standardized(rows: Rows, center: Vector, scale: Vector) -> Rows:
    """Columns less `center`, over `scale`; one pass for the rows' sums of squares."""
    new = rows.mapped(_standardized, shared=(center, scale))
    return replace(new, norms=np.concatenate(new.each(_norms)))


def signed(patterns: Vector, labels: Vector, *, intercept: bool) -> Vector:
    """Every pattern times its label, Eq. (3), with a last column for the intercept where wanted."""
    n_patterns, n_features = patterns.shape
    design = np.empty((n_patterns, n_features + intercept))
    np.multiply(patterns, labels[:, None], out=design[:, :n_features])  # Eq. (3)
    if intercept:
        design[:, -1] = labels
    return design


def in_blocks(source: Any) -> bool:
    """True for arrays that are in blocks already: those of dask and of zarr."""
    return type(source).__module__.partition(".")[0] in ("dask", "zarr") and hasattr(source, "chunks")


def _dask() -> Any:
    try:
        import dask
    except ImportError as error:
        raise ImportError("tables in blocks of rows need dask: pip install 'dilutron[dask]'") from error
    return dask


def _dask_array(source: Any) -> Any:
    """A dask array, of a zarr array or folder where it is not one already."""
    if hasattr(source, "to_delayed"):
        return source
    if isinstance(source, (str, os.PathLike)):
        _there(source)
    try:
        import dask.array
        import zarr  # noqa: F401  dask names no remedy where it is missing
    except ImportError as error:
        raise ImportError(f"zarr arrays need {error.name}: pip install 'dilutron[dask]'") from error
    return dask.array.from_zarr(os.fspath(source) if isinstance(source, os.PathLike) else source)  # type: ignore[no-untyped-call]


def _read(parts: Sequence[Any]) -> tuple[Any, ...]:
    """One pass, one BLAS thread for each of Dask's: it is they that share the cores."""
    with threadpool_limits(limits=1, user_api="blas"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph")  # the sites of a pass travel with its tasks
        return tuple(_dask().compute(*parts))


def _is_path(source: Any, suffix: str) -> bool:
    return isinstance(source, (str, os.PathLike)) and Path(source).suffix == suffix


def _there(path: Any) -> None:
    if not os.path.exists(path):
        raise ValueError(f"there is no {os.fspath(path)}.")


def _check_table(shape: tuple[int, ...], dtype: Any) -> None:
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"X must have two dimensions (patterns, features), none of them empty, got shape {shape}.")
    if np.dtype(dtype).kind not in NUMBERS:
        raise ValueError(f"X must be a table of numbers, one row per pattern, got values of type {dtype}.")
    if shape[1] > WIDEST:
        raise ValueError(
            f"X has {shape[1]} columns: blocks of rows need a square matrix of as many, {8e-9 * shape[1] ** 2:.0f} GB."
            f" At most {WIDEST} fit; a table of few rows can be passed as an array in memory."
        )


def _starts(n_rows: int, n_columns: int, block_rows: int | None) -> NDArray[np.intp]:
    height = block_rows or max(1, BLOCK // n_columns)
    return np.append(np.arange(0, n_rows, height), n_rows)


def _pairs(starts: NDArray[np.intp]) -> list[tuple[int, int]]:
    return [(int(first), int(end)) for first, end in pairwise(starts)]


def _mapped(source: Any) -> Callable[[int, int], Vector]:
    """A reader that opens the file of a memory map again: elsewhere the map itself would travel as its contents."""
    if not isinstance(source.base, mmap.mmap) or not source.flags.c_contiguous or source.filename is None:
        raise ValueError("X is a part of a memory map, or one in Fortran order: pass a whole one in C order.")
    return partial(_of_map, str(source.filename), source.dtype, source.offset, source.shape)


def _of_map(path: str, dtype: Any, offset: int, shape: tuple[int, int], first: int, end: int) -> Vector:
    return _numbers(np.memmap(path, dtype, "r", offset, shape)[first:end])


def _of_file(path: str, first: int, end: int) -> Vector:
    return _numbers(np.load(path, mmap_mode="r")[first:end])


def _of_parquet_file(path: str, names: tuple[str, ...], first: int, end: int) -> Vector:
    import polars

    part = polars.scan_parquet(path).select(names).slice(first, end - first)
    return _numbers(part.cast(polars.Float64).collect().to_numpy())


def _numbers(block: Any) -> Vector:
    return np.ascontiguousarray(block, dtype=np.float64)


def _standardized(block: Vector, center: Vector, scale: Vector) -> Vector:
    return np.asarray((block - center) / scale)


def _norms(block: Vector) -> Vector:
    return np.asarray(np.einsum("ij,ij->i", block, block))


def _summed(block: Vector, numbers: NDArray[np.intp], weights: Vector) -> tuple[Any, ...]:
    if len(block) != len(numbers):
        raise ValueError(f"the rows from {numbers[0]} on are {len(block)}, not {len(numbers)}: the table has changed.")
    if not np.all(np.isfinite(block)):
        row, column = np.argwhere(~np.isfinite(block))[0]
        raise ValueError(
            f"X has the value {block[row, column]} in row {numbers[row]}, column {column}: impute or drop it first."
        )
    with np.errstate(over="ignore"):  # of numbers too large to be squared: they are refused by their column
        mean = np.average(block, axis=0, weights=weights) if np.any(weights) else block[0]
        var = np.average((block - mean) ** 2, axis=0, weights=weights) if np.any(weights) else np.zeros_like(mean)
        return block.min(axis=0), block.max(axis=0), weights.sum(), mean, var, _norms(block)


def _plus(one: tuple[Vector, ...], other: tuple[Vector, ...]) -> tuple[Vector, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))

"""A classification problem: patterns, labels, and what was done to the columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dilutron.priors import Prior
from dilutron.rows import Rows, in_blocks, signed, standardized, summary
from dilutron.special import Vector
from dilutron.tied import Spectrum, spectrum_of


@dataclass(frozen=True, eq=False)
class Problem:
    """Checked data, ready for any method. Make one with `Problem.from_arrays`.

    Attributes
    ----------
    X : array of shape (M, N)
        Patterns, centred and scaled where that was asked for; or `Rows`, blocks of rows that are not in memory.
    labels : array of shape (M,)
        -1 or +1.
    names : tuple of N strings
        Feature names.
    center, scale : arrays of shape (N,)
        What was subtracted from, and divided out of, each column.
    """

    X: Any  # a matrix to all methods but EP, which refuse `Rows`
    labels: Vector
    names: tuple[str, ...]
    center: Vector
    scale: Vector

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        labels: Any,
        *,
        names: Sequence[str] | None = None,
        standardize: bool = False,
        strict: bool = True,
        copies: Any = None,
    ) -> Self:
        """Check the data, and say what is wrong with them and where.

        Parameters
        ----------
        X : array-like of shape (M, N), or Rows
            One row per pattern. Blocks of rows, `Rows.of(...)`, stay where they are, and so do arrays of dask and zarr;
            they are read once here, twice where they are standardized.
        labels : array-like of shape (M,)
            -1 or +1.
        names : sequence of N strings, optional
            Feature names; x0, x1, ... where absent.
        standardize : bool
            Give every column mean 0 and standard deviation 1.
        strict : bool
            Refuse constant columns, empty rows and labels of one class only. `False` lets them through, as short runs
            of a recurrent network need. A constant column that is standardized becomes zero.
        copies : array-like of shape (M,), optional
            How often each row counts when columns are standardized.
        """
        if in_blocks(X) or isinstance(X, Rows):
            patterns, center, scale, named, checked = _of_rows(X, labels, names, standardize, strict, copies)
        else:
            patterns = _patterns(X)
            n_patterns, n_features = patterns.shape
            checked, named = _labels(labels, n_patterns, strict), _names(names, n_features)
            low, high = patterns.min(axis=0), patterns.max(axis=0)
            _check_columns(low, high, named, strict)
            center, scale = np.zeros(n_features), np.ones(n_features)
            if standardize:
                center, scale = _moments(patterns, low == high, copies)
                patterns = patterns - center
                patterns /= scale
        problem = cls(patterns, checked, named, center, scale)
        if strict:
            problem.refuse_empty_rows()
        return problem

    def refuse_empty_rows(self) -> None:
        """ValueError where a row is all zeros: without an intercept its label tells nothing."""
        heard = np.asarray(self.X.norms) > 0.0 if isinstance(self.X, Rows) else np.any(self.X, axis=1)
        empty = np.flatnonzero(~heard)
        if empty.size:
            raise ValueError(f"row {empty[0]} of X is all zeros, so its label tells nothing: drop it.")

    def signed(self, *, intercept: bool = False) -> Any:
        """Every pattern times its label, Eq. (3), with a last column for the intercept where wanted.

        It cannot be written to, and X must not change once it is made: all solves of a problem share it, else each on a
        path of wide ones would hold its own.
        """
        if not intercept:
            self.refuse_empty_rows()
        if isinstance(self.X, Rows):
            return self.X.signed(self.labels, intercept=intercept)
        if intercept not in self._signed:
            self._signed[intercept] = design = signed(self.X, self.labels, intercept=intercept)
            design.flags.writeable = False
        return self._signed[intercept]

    @cached_property
    def _signed(self) -> dict[bool, Vector]:
        return {}

    @cached_property
    def spectrum(self) -> Spectrum:
        """Of the patterns: all solves of a problem share it."""
        return spectrum_of(self.X)

    def __getstate__(self) -> dict[str, Any]:
        """Travel without what is made of the patterns, and as large as they."""
        return {name: value for name, value in vars(self).items() if name not in ("_signed", "spectrum")}

    def check_priors(
        self,
        weights: Prior,
        labels: Prior,
        intercept: Prior | None = None,
        *,
        copies: bool = False,
        row_blocks: bool = False,
    ) -> None:
        """ValueError where a prior stands in the wrong place, or holds the wrong number of values.

        So too where labels count more than once, unless the method knows of `copies`, and where the patterns are not in
        memory, unless it knows of `row_blocks`.
        """
        if not row_blocks and isinstance(self.X, Rows):
            raise ValueError('X in blocks of rows is known to method="ep" only: pass an array in memory, or use that.')
        n_patterns, n_features = self.X.shape
        for role, prior, size in (
            ("weights", weights, n_features),
            ("labels", labels, n_patterns),
            ("intercept", intercept, 1),
        ):
            if prior is None and role == "intercept":
                continue
            wanted = "labels" if role == "labels" else "weights"
            if getattr(prior, "role", None) != wanted:
                example = "ThetaMixture(eta=0.95)" if wanted == "labels" else "SpikeSlab(rho=0.25)"
                raise ValueError(f"{role} must be a prior for {wanted}, such as {example}, got {prior!r}")
            for name, value in vars(prior).items():
                if np.ndim(value) == 1 and not isinstance(value, tuple) and (np.size(value) != size or size == 1):
                    shape = "one number" if size == 1 else f"{size} values, one each, or one number"
                    raise ValueError(f"{role}.{name} has {np.size(value)} values: give {shape}.")
        if not copies and np.any(np.asarray(labels.multiplicity) != 1.0):
            raise ValueError('labels.copies is known to method="ep" only: leave it out, or repeat rows.')


def _of_rows(
    X: Any, labels: Any, names: Sequence[str] | None, standardize: bool, strict: bool, copies: Any
) -> tuple[Any, Vector, Vector, tuple[str, ...], Vector]:
    """Checked blocks of rows, their columns' center, scale and names, and the labels."""
    rows = X if isinstance(X, Rows) else Rows.of(X)
    n_patterns, n_features = rows.shape
    if n_patterns < n_features:
        raise ValueError(
            f"X has {n_patterns} rows and {n_features} columns: blocks of rows are for more rows than columns."
            " Pass it as an array in memory, np.asarray(X)."
        )
    checked, named = _labels(labels, n_patterns, strict), _names(rows.names if names is None else names, n_features)
    low, high, center, var, norms = summary(rows, copies)
    _check_columns(low, high, named, strict)
    if not standardize:
        return replace(rows, norms=norms), np.zeros(n_features), np.ones(n_features), named, checked
    center, scale = np.where(low == high, low, center), np.where((var > 0.0) & (low < high), np.sqrt(var), 1.0)
    return standardized(rows, center, scale), center, scale, named, checked


def _check_columns(low: Vector, high: Vector, named: tuple[str, ...], strict: bool) -> None:
    """ValueError for columns of extreme values, and where `strict` for constant ones."""
    size = np.maximum(np.abs(low), np.abs(high))
    extreme = np.flatnonzero((size > 1e100) | ((size < 1e-100) & (size > 0.0)))
    if extreme.size:
        raise ValueError(
            f"X has values of size {size[extreme[0]]:.3g} in column {extreme[0]} ({named[extreme[0]]!r}), beyond"
            " what can be squared and summed: rescale the column."
        )
    constant = np.flatnonzero(low == high)
    if constant.size and strict:
        raise ValueError(
            f"X has {constant.size} constant column(s), the first is {named[constant[0]]!r} (column {constant[0]}):"
            " a constant says nothing about the labels. Drop such columns, or pass strict=False to keep them."
        )


def learnable(names: Sequence[str], *priors: Prior) -> frozenset[str]:
    """The names as a set; ValueError where no prior has such a parameter, or it starts at infinity."""
    known = {name: prior for prior in priors for name in prior.parameters}
    for name in names:
        if name not in known:
            raise ValueError(f"learn names {name!r}, which these priors do not have; they have {sorted(known)}.")
        if not np.all(np.isfinite(getattr(known[name], name))):
            raise ValueError(
                f"learn names {name!r}, whose start is infinite: give a finite one, such as Probit(beta=1)."
            )
    return frozenset(names)


def _moments(patterns: Vector, constant: NDArray[np.bool_], copies: Any) -> tuple[Vector, Vector]:
    """Mean and standard deviation of the columns; 1 where a column has none."""
    center = np.average(patterns, axis=0, weights=copies)
    center[constant] = patterns[0, constant]  # an average of equal values may miss them by a rounding error
    scale = np.sqrt(np.average((patterns - center) ** 2, axis=0, weights=copies))
    return center, np.where(scale > 0.0, scale, 1.0)


def _patterns(X: Any) -> Vector:
    if hasattr(X, "toarray"):
        raise ValueError("X is a sparse matrix: pass X.toarray(), the engine works on dense patterns.")
    try:
        if np.iscomplexobj(X):
            raise TypeError("pass real and imaginary parts as features of their own")
        patterns = np.ascontiguousarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X must be a table of numbers, one row per pattern: {error}") from error
    if patterns.ndim != 2 or np.ndim(X) != 2:
        raise ValueError(f"X must have two dimensions (patterns, features), got shape {np.shape(X)}.")
    if 0 in patterns.shape:
        raise ValueError(f"X must have at least one row and one column, got shape {patterns.shape}.")
    if not np.all(np.isfinite(patterns)):
        row, column = np.argwhere(~np.isfinite(patterns))[0]
        raise ValueError(
            f"X has the value {patterns[row, column]} in row {row}, column {column}: impute or drop it first."
        )
    return patterns


def _labels(labels: Any, n_patterns: int, strict: bool) -> Vector:
    try:
        values = np.asarray(labels)
    except ValueError as error:
        raise ValueError(f"labels must be one vector of -1 and +1: {error}") from error
    if values.shape != (n_patterns,):
        raise ValueError(f"labels must have one entry per row of X, shape ({n_patterns},), got shape {values.shape}.")
    try:
        if values.dtype.kind not in "biufO":
            raise TypeError(f"got values of type {values.dtype}")
        checked = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"labels must be the numbers -1 and +1: {error}") from error
    wrong = np.flatnonzero(~np.isin(checked, (-1.0, 1.0)))
    if wrong.size:
        hint = " For labels 0 and 1 pass 2 * labels - 1." if set(np.unique(checked)) <= {0.0, 1.0} else ""
        raise ValueError(f"labels must be -1 or +1, got {checked[wrong[0]]:g} at position {wrong[0]}.{hint}")
    if strict and np.all(checked == checked[0]):
        raise ValueError(f"labels are all {checked[0]:+.0f}: two classes are needed to learn what tells them apart.")
    return checked


def _names(names: Sequence[str] | None, n_features: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"x{i}" for i in range(n_features))
    if isinstance(names, str):
        raise ValueError(f"names must be a sequence of strings, one per column, got the string {names!r}.")
    named = tuple(str(name) for name in names)
    if len(named) != n_features:
        raise ValueError(f"names must have one entry per column of X, {n_features}, got {len(named)}.")
    return named

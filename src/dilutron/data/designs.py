"""Correlated designs beyond the paper's: normal patterns of unit variance, drawn in O(MN) without an N x N matrix."""

from __future__ import annotations

import numpy as np

from dilutron.options import whole
from dilutron.special import Vector


def toeplitz_patterns(n_patterns: int, n_weights: int, rng: np.random.Generator, *, correlation: float = 0.5) -> Vector:
    """Columns i and j correlated by correlation**|i - j|: an AR(1) walk along each row. From -1 to 1, without both."""
    from scipy.signal import lfilter  # here, because it takes longer to load than all of dilutron

    whole(n_patterns=n_patterns, n_weights=n_weights)
    if not -1.0 < correlation < 1.0:
        raise ValueError(f"correlation must lie between -1 and 1, without both, got {correlation!r}")
    steps = rng.standard_normal((n_patterns, n_weights))
    steps[:, 1:] *= np.sqrt(1.0 - correlation**2)  # all but the first, so that every column has variance 1
    return np.asarray(lfilter([1.0], [1.0, -correlation], steps, axis=1))


def block_patterns(
    n_patterns: int, n_weights: int, rng: np.random.Generator, *, correlation: float = 0.5, size: int = 8
) -> Vector:
    """Groups of `size` neighbouring columns share a factor; across groups, independence. The last may be smaller."""
    whole(n_patterns=n_patterns, n_weights=n_weights, size=size)
    if not 0.0 <= correlation < 1.0:
        raise ValueError(f"correlation must be from 0 up to but not 1, got {correlation!r}")
    group = np.arange(n_weights) // size
    shared = rng.standard_normal((n_patterns, group[-1] + 1))
    own = rng.standard_normal((n_patterns, n_weights))
    return np.asarray(np.sqrt(correlation) * shared[:, group] + np.sqrt(1.0 - correlation) * own)


def equicorrelated_patterns(
    n_patterns: int, n_weights: int, rng: np.random.Generator, *, correlation: float = 0.5
) -> Vector:
    """Every two columns have the same correlation: one factor for all."""
    return block_patterns(n_patterns, n_weights, rng, correlation=correlation, size=n_weights)

"""How good an answer is: errors of the weights, of the choice of features, and of the probabilities given for it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dilutron.options import whole
from dilutron.special import Vector


def mse(weights: Vector, teacher: Vector) -> float:
    """Mean squared error of the normalised weights, Eq. (53); of zero weights, that of guessing nothing."""
    norm = np.linalg.norm(weights)
    student = weights / norm if norm > 0.0 else weights
    return float(np.mean((student - teacher / np.linalg.norm(teacher)) ** 2))  # Eq. (53)


def decibel(value: float) -> float:
    """10 log10, as in the paper's figures."""
    return float(10.0 * np.log10(value))


def auc(score: ArrayLike, truth: ArrayLike) -> float:
    """Area under the ROC curve of `score` for a boolean `truth`; ties count half. NaN where a score is.

    Features are ranked by the size of their weights or by inclusion probability, suspect labels by flip probability.
    """
    ranked = _ranked(score, truth)
    if np.isnan(ranked.score).any():
        return float("nan")
    _, group, sizes = np.unique(ranked.score, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(sizes) - (sizes - 1) / 2)[group][ranked.positive].sum()
    return float((ranks - ranked.n_positive * (ranked.n_positive + 1) / 2) / (ranked.n_positive * ranked.n_negative))


class Roc(NamedTuple):
    """Fractions of false and of true positives among the first k of a ranking, k = 0 to N."""

    false_positive: Vector
    true_positive: Vector

    def at(self, grid: ArrayLike) -> Vector:
        """Fraction of true positives at each fraction of false positives in `grid`; the top of an upright piece.

        For instances that differ in N or in the number of positives; others can be averaged point by point.
        """
        return np.asarray(np.interp(np.asarray(grid, dtype=float), self.false_positive, self.true_positive))


def roc(score: ArrayLike, truth: ArrayLike) -> Roc:
    """ROC curve of a ranking by decreasing `score`, at every number of selected entries; ties in random order."""
    ranked = _ranked(score, truth)
    found = _found(ranked)
    return Roc((np.arange(found.size) - found) / ranked.n_negative, found / ranked.n_positive)


def sensitivity(score: ArrayLike, truth: ArrayLike) -> Vector:
    """Fraction of the true entries among the first k of a ranking by decreasing `score`, k = 0 to N."""
    ranked = _ranked(score, truth)
    return _found(ranked) / ranked.n_positive


def ideal_sensitivity(n: int, n_positive: int) -> Vector:
    """`sensitivity` of the teacher's own choice: every true entry before any other."""
    whole(n=n, n_positive=n_positive)
    return np.minimum(np.arange(n + 1) / n_positive, 1.0)


class Estimate(NamedTuple):
    """A mean over instances and its standard error."""

    mean: float
    error: float


class Band(NamedTuple):
    """A mean curve over instances and its standard error at each point."""

    mean: Vector
    error: Vector


def standard_error(values: ArrayLike) -> Any:
    """The sample standard deviation over sqrt(n), along the first axis; of one value alone, NaN."""
    sample = np.asarray(values, dtype=float)
    if len(sample) == 0:
        raise ValueError("values must hold one instance at least")
    if len(sample) == 1:
        return np.full(sample.shape[1:], np.nan)[()]
    return np.std(sample, axis=0, ddof=1) / np.sqrt(len(sample))


def fraction_error(fraction: float, n: int) -> float:
    """Standard error of a fraction f of n instances, sqrt(f (1 - f) / n)."""
    whole(n=n)
    return float(np.sqrt(fraction * (1.0 - fraction) / n))


def auc_error(area: ArrayLike, n_positive: ArrayLike, n_negative: ArrayLike) -> Any:
    """Standard error of an AUC of so many true and other entries, by Hanley and McNeil (1982)."""
    a, p, n = (np.asarray(value, dtype=float) for value in (area, n_positive, n_negative))
    both_above, both_below = a / (2.0 - a) - a**2, 2.0 * a**2 / (1.0 + a) - a**2  # of two true entries, of two others
    return np.sqrt((a * (1.0 - a) + (p - 1.0) * both_above + (n - 1.0) * both_below) / (p * n))


def average(values: ArrayLike) -> Estimate:
    """Mean and standard error of one number per instance."""
    error = standard_error(values)
    return Estimate(float(np.mean(np.asarray(values, dtype=float))), float(error))


def mean_curve(curves: ArrayLike) -> Band:
    """Mean and standard error, point by point, of curves on one grid: an array of shape (instances, points)."""
    error = standard_error(curves)
    return Band(np.mean(np.asarray(curves, dtype=float), axis=0), error)


def convergence_fraction(converged: ArrayLike) -> Estimate:
    """The fraction of instances that converged, from one boolean each."""
    flags = np.asarray(converged, dtype=bool)
    if flags.size == 0:
        raise ValueError("converged must hold one instance at least")
    fraction = float(flags.mean())
    return Estimate(fraction, fraction_error(fraction, flags.size))


class Calibration(NamedTuple):
    """Probabilities against what came true, in bins of equal width; NaN where a bin is empty.

    Attributes
    ----------
    predicted, observed : arrays of shape (bins,)
        Mean probability in each bin, and fraction of its entries that are true.
    size : array of shape (bins,)
        Number of entries.
    error : float
        Expected calibration error: the mean of the absolute difference of observed and predicted over all entries.
    """

    predicted: Vector
    observed: Vector
    size: NDArray[np.int_]
    error: float


def calibration(probability: ArrayLike, truth: ArrayLike, bins: int = 10) -> Calibration:
    """Whether of the entries with probability p a fraction p is true. Instances are pooled by concatenation."""
    whole(bins=bins)
    p, true = np.ravel(np.asarray(probability, dtype=float)), np.ravel(np.asarray(truth, dtype=bool))
    if p.size != true.size or p.size == 0:
        raise ValueError(f"probability and truth must have one length, at least 1, got {p.size} and {true.size}")
    if not np.all((p >= 0.0) & (p <= 1.0)):
        raise ValueError("probability must lie from 0 to 1")
    which = np.minimum((p * bins).astype(int), bins - 1)
    size, total, came = (np.bincount(which, weights, bins) for weights in (None, p, true))
    with np.errstate(invalid="ignore"):  # empty bins
        return Calibration(total / size, came / size, size.astype(int), float(np.abs(came - total).sum() / p.size))


class _Ranked(NamedTuple):
    score: Vector
    positive: NDArray[np.bool_]
    n_positive: int
    n_negative: int


def _ranked(score: ArrayLike, truth: ArrayLike) -> _Ranked:
    values, positive = np.asarray(score, dtype=float), np.asarray(truth, dtype=bool)
    if values.ndim != 1 or values.shape != positive.shape:
        raise ValueError(f"score and truth must be of one length, got shapes {values.shape} and {positive.shape}")
    n_positive = int(positive.sum())
    if not 0 < n_positive < positive.size:
        raise ValueError("truth must hold both true and false entries: with one kind only there is no curve.")
    return _Ranked(values, positive, n_positive, positive.size - n_positive)


def _found(ranked: _Ranked) -> Vector:
    """True entries among the first k, k = 0 to N; among ties the expected number."""
    if np.isnan(ranked.score).any():
        return np.full(ranked.score.size + 1, np.nan)
    _, group, sizes = np.unique(-ranked.score, return_inverse=True, return_counts=True)
    found = np.cumsum(np.bincount(group, ranked.positive))
    ends = np.append(0, np.cumsum(sizes))
    return np.asarray(np.interp(np.arange(ranked.score.size + 1), ends, np.append(0.0, found)))

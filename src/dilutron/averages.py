"""The answer of a fit: posteriors of one problem, averaged by their weights, and the path on which they were found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr, ndtr, ndtri, stdtr, stdtrit

from dilutron.loop import Status
from dilutron.posterior import Posterior
from dilutron.special import Vector

Mask = NDArray[np.bool_]

# Degrees of freedom of an interval's tails under hard labels: for each weight that is present, and at least. A
# correction by measurement: with known parameters Gaussian tails of 90 % held 86 % (python -m benchmarks calibration).
FREEDOM, LEAST = 0.5, 4.0
TINY = 1e-12  # smallest probability of a label that is left out
HALVINGS = 40  # of the distance between the quantiles of a mixture's parts, to find its own


class Tried(NamedTuple):
    """One row of the path.

    Attributes
    ----------
    size : float
        Expected number of features.
    score : float
        By the criterion, in nats: log evidence, or the log probability of all labels, each left or held out.
    log_prior : float
        Of the size, before the data.
    weight : float
        In the average.
    log_evidence : float
        -inf where the method has none.
    status : Status
    """

    size: float
    score: float
    log_prior: float
    weight: float
    log_evidence: float
    status: Status


class Share(NamedTuple):
    """A posterior and its weight in an average."""

    weight: float
    posterior: Posterior


@dataclass(frozen=True, eq=False)
class Fit:
    """One or more posteriors of the same problem, as an average, and the path on which they were found.

    Rows that were not `heard` are all zeros and told a method without intercept nothing. Fields count `sharpness`
    times, those of new rows and those that labels are judged by.
    """

    shares: tuple[Share, ...]
    path: tuple[Tried, ...] = ()
    heard: Mask | None = None
    sharpness: float = 1.0

    def average(self, value: Callable[[Posterior], Any]) -> Any:
        """The weighted mean of something over the posteriors."""
        return sum(weight * value(posterior) for weight, posterior in self.shares)

    @property
    def best(self) -> Posterior:
        """The posterior of the largest weight."""
        return max(self.shares, key=lambda share: share.weight).posterior

    @property
    def mean(self) -> Vector:
        """Of the weights, for the columns as they came."""
        return np.asarray(self.average(lambda p: p.mean / p.scale))

    @property
    def std(self) -> Vector:
        """Of the weights: within the posteriors and between them."""
        second = self.average(lambda p: (p.std**2 + p.mean**2) / p.scale**2)
        return np.asarray(np.sqrt(np.maximum(second - self.mean**2, 0.0)))

    @property
    def intercept(self) -> float:
        """The constant that goes with `mean`."""
        return float(self.average(lambda p: p.intercept - np.sum(p.mean * p.center / p.scale)))

    @property
    def inclusion(self) -> Vector | None:
        """Probability that each weight is present; None where the method has none."""
        if any(posterior.inclusion is None for _, posterior in self.shares):
            return None
        return np.asarray(self.average(lambda p: p.inclusion))

    @property
    def size(self) -> float | None:
        """How many weights are present: a geometric mean, in which a dense posterior of little weight counts little."""
        if self.inclusion is None:
            return None
        return float(np.exp(self.average(lambda p: np.log(np.sum(np.asarray(p.inclusion))))))

    @property
    def flip(self) -> Vector | None:
        """Probability that each label is wrong; None where the method has none."""
        if any(posterior.flip is None for _, posterior in self.shares):
            return None
        flip = np.asarray(self.average(self._flip))
        if self.heard is None:
            return flip
        unheard = np.full(self.heard.size, 1.0 - self.average(lambda p: p.labels.eta))
        unheard[self.heard] = flip
        return unheard

    def _flip(self, posterior: Posterior) -> Any:
        """Under one posterior: prior odds of a wrong label, times what its field says without it."""
        fields, eta = left_out_fields(posterior), posterior.labels.eta
        if fields is None or eta == 1.0 or self.sharpness == 1.0:
            return posterior.flip
        fields = self.sharpness * fields
        return expit(np.log((1.0 - eta) / eta) + log_ndtr(-fields) - log_ndtr(fields))

    @property
    def log_evidence(self) -> float | None:
        """The mean over the posteriors; None where the method has none."""
        if any(posterior.log_evidence is None for _, posterior in self.shares):
            return None
        return float(self.average(lambda p: p.log_evidence))

    def at_rest(self, tol: float) -> bool:
        """True where all moments match. Learned values may still drift, as eta and beta do where labels are few."""
        return all(at_rest(posterior, tol) for _, posterior in self.shares)

    def probability(self, rows: Vector) -> Vector:
        """Of the label +1 for new rows."""
        return np.asarray(self.average(lambda p: p.probability(rows, self.sharpness)))

    def interval(self, level: float) -> tuple[Vector, Vector]:
        """Where a weight lies with probability `level`, given that it is present: equal tails.

        The law of a weight that is present has one bell for each posterior. Hard labels tell nothing of the common size
        of the weights, of which EP is too sure: there the bells are Student's instead of Gaussian, with tails that are
        the longer the fewer weights there are to tell it.
        """
        laws, bell = [_present(posterior) for _, posterior in self.shares], self._bell()
        shares = np.array([share.weight * law.share for share, law in zip(self.shares, laws, strict=True)])
        mean, std = (np.array([getattr(law, name) for law in laws]) for name in ("mean", "std"))
        mixture = _Present(shares / shares.sum(axis=0), mean, std)
        return _quantile(mixture, bell, 0.5 - 0.5 * level), _quantile(mixture, bell, 0.5 + 0.5 * level)

    def _bell(self) -> _Bell:
        """The law of a weight that is present under one posterior, in units of its standard deviation."""
        if self.size is None or not all(posterior.labels.hard for _, posterior in self.shares):
            return _Bell(ndtr, ndtri)
        freedom = max(FREEDOM * self.size, LEAST)
        return _Bell(partial(stdtr, freedom), partial(stdtrit, freedom))


class _Bell(NamedTuple):
    """A distribution function and its inverse."""

    below: Callable[[Any], Any]
    place: Callable[[Any], Any]


class _Present(NamedTuple):
    """Weights, given that they are present: mean and standard deviation, and the share of the probability."""

    share: Vector
    mean: Vector
    std: Vector


def _present(posterior: Posterior) -> _Present:
    """Under one posterior, for the columns as they came."""
    mean, std = posterior.mean / posterior.scale, posterior.std / posterior.scale
    share = np.ones_like(mean) if posterior.inclusion is None else np.maximum(posterior.inclusion, 1e-12)
    mean = mean / share
    return _Present(share, mean, np.sqrt(np.maximum(std**2 / share - (1.0 - share) * mean**2, 0.0)))


def _quantile(parts: _Present, bell: _Bell, below: float) -> Vector:
    """Of mixtures with a part in each row: between the quantiles of the parts, by bisection."""
    ends = parts.mean + parts.std * bell.place(below)
    low, high, width = ends.min(axis=0), ends.max(axis=0), np.maximum(parts.std, np.finfo(np.float64).tiny)
    for _ in range(HALVINGS if np.any(high > low) else 0):
        middle = 0.5 * (low + high)
        with np.errstate(over="ignore"):  # of a part without spread
            above = np.sum(parts.share * bell.below((middle - parts.mean) / width), axis=0) > below
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray(0.5 * (low + high))


def left_out_fields(posterior: Posterior) -> Vector | None:
    """Of each row, its label left out: the field's mean over what the label's noise and its own spread make of it.

    Negative where it speaks against the label. None where a posterior does not know, or labels are mere chance.
    """
    eta, left_out = posterior.labels.eta, posterior.left_out
    if left_out is None or eta == 0.5:
        return None
    right = (np.exp(left_out) - (1.0 - eta)) / (2.0 * eta - 1.0)
    return np.asarray(ndtri(np.clip(right, TINY, 1.0 - TINY)))


def at_rest(posterior: Posterior, tol: float) -> bool:
    """True where the moments match; learned values may still move."""
    return bool(posterior.status is Status.CONVERGED or posterior.mismatch <= tol)


def settled(fits: Iterable[Fit], tol: float) -> bool:
    """True where all of several fits are at rest."""
    return all(fit.at_rest(tol) for fit in fits)

"""The Gaussian of VAMP: one precision for all weights, one for all labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import svd

from dilutron.gaussian import Covariance, Designed, Marginals, NotPositive, Sites
from dilutron.special import Vector


class Spectrum(NamedTuple):
    """Singular values, and right singular vectors, one in each row."""

    values: Vector
    basis: Vector


def spectrum_of(patterns: Vector) -> Spectrum:
    """Of the patterns, and of their signed design, Eq. (3), too: signs of rows change the left vectors alone."""
    return Spectrum(*svd(patterns, full_matrices=False, check_finite=False)[1:])


class Tied(Designed):
    """One precision for all weights and one for all labels: VAMP's Gaussian. One SVD, then O(MN) a call.

    Variances are averages over the weights and over the labels. Of site precisions that differ, the average counts.

    Parameters
    ----------
    design : array of shape (M, N)
    spectrum : Spectrum, optional
        Of the design, where it is known.
    """

    def __init__(self, design: Vector, spectrum: Spectrum | None = None) -> None:
        self.design = design
        self.shape = design.shape
        self._values, self._basis = spectrum or spectrum_of(design)

    def marginals(self, sites: Sites) -> Marginals:
        """See `Gaussian`."""
        n_labels, n_weights = self.shape
        weight, spread = self._spread(sites.precision)
        shift = sites.shift[:n_weights] + sites.shift[n_weights:] @ self.design
        seen = self._basis @ shift
        mean, total, log_det = (spread * seen) @ self._basis, spread.sum(), -np.log(spread).sum()
        n_unseen = n_weights - spread.size
        if n_unseen:  # directions in which the labels say nothing
            mean += (shift - seen @ self._basis) / weight
            total, log_det = total + n_unseen / weight, log_det + n_unseen * np.log(weight)
        weight_var, label_var = total / n_weights, self._values**2 @ spread / n_labels
        return Marginals(
            mean=np.concatenate([mean, self.design @ mean]),
            var=np.repeat([weight_var, label_var], [n_weights, n_labels]),
            log_z=float(0.5 * (n_weights * np.log(2.0 * np.pi) - log_det + shift @ mean)),
        )

    def covariance(self, sites: Sites) -> Covariance:
        """See `Gaussian`."""
        weight, spread = self._spread(sites.precision)
        base = 1.0 / weight if spread.size < self.shape[1] else 0.0
        return Covariance(np.full(self.shape[1], base), self._basis, spread - base)  # all share one basis

    def _spread(self, precision: Vector) -> tuple[float, Vector]:
        """The weights' precision, and the variance along each right singular vector."""
        n_weights = self.shape[1]
        weight, label = float(precision[:n_weights].mean()), float(precision[n_weights:].mean())
        along = weight + label * self._values**2
        if not ((weight > 0.0 or along.size == n_weights) and np.all(along > 0.0)):
            raise NotPositive("the Gaussian is improper: its precision matrix has a direction that is not positive")
        return weight, 1.0 / along

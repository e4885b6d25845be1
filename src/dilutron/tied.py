"""The Gaussian of VAMP: one precision for all weights, one for all labels."""

from __future__ import annotations

import numpy as np
from scipy.linalg import svd

from dilutron.gaussian import Covariance, Designed, Marginals, NotPositive, Sites
from dilutron.special import Vector


class Tied(Designed):
    """One precision for all weights and one for all labels: VAMP's Gaussian. One SVD, then O(MN) a call.

    Variances are averages over the weights and over the labels. Of site precisions that differ, the average counts.
    """

    def __init__(self, design: Vector) -> None:
        self.design = design
        self.shape = design.shape
        _, self._values, self._basis = svd(design, full_matrices=False, check_finite=False)

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
        gain = np.sqrt(np.abs(spread - base))
        return Covariance(np.full(self.shape[1], base), gain[:, None] * self._basis, np.sign(spread - base))

    def _spread(self, precision: Vector) -> tuple[float, Vector]:
        """The weights' precision, and the variance along each right singular vector."""
        n_weights = self.shape[1]
        weight, label = float(precision[:n_weights].mean()), float(precision[n_weights:].mean())
        along = weight + label * self._values**2
        if not ((weight > 0.0 or along.size == n_weights) and np.all(along > 0.0)):
            raise NotPositive("the Gaussian is improper: its precision matrix has a direction that is not positive")
        return weight, 1.0 / along

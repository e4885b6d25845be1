"""The Gaussian of a tall problem whose rows are not in memory: N x N sums over blocks of rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dilutron import gaussian
from dilutron.gaussian import Covariance, Gaussian, Marginals, Sites, inverse_cholesky, weighted_square
from dilutron.rows import Rows
from dilutron.special import Vector


class Root(NamedTuple):
    """Inverse of the Cholesky factor of A, Eq. (17), the labels' part of b, Eq. (18), and log det A."""

    inverse: Vector
    pull: Vector
    log_det: float


class Chunked:
    """Two passes over the rows a call: one adds up the N x N precision, one finds the labels' marginals.

    O(M N^2 + N^3) work and O(M + N^2) memory. Calls at the sites of the last one cost no pass.

    Parameters
    ----------
    design : Rows
        The signed design of Eq. (3).
    """

    def __init__(self, design: Rows) -> None:
        self.design = design
        self.shape = design.shape
        self._root: tuple[Sites, Root] | None = None
        self._last: tuple[Sites, Marginals] | None = None

    def marginals(self, sites: Sites) -> Marginals:
        """See `Gaussian`."""
        if self._last is None or not _same(sites, self._last[0]):
            self._last = sites, self._marginals(sites)
        return self._last[1]

    def covariance(self, sites: Sites) -> Covariance:
        """See `Gaussian`."""
        n_weights = self.shape[1]
        return Covariance(np.zeros(n_weights), self._rooted(sites).inverse, np.ones(n_weights))

    def field_var(self, weight_var: Vector) -> Vector:
        """See `Gaussian`. Without a pass where all weights but the intercept have the same variance."""
        norms, intercept = self.design.norms, self.design.intercept
        features = weight_var[: self.shape[1] - intercept]
        if norms is not None and np.all(features == features[0]):
            return np.asarray(features[0] * norms + (weight_var[-1] if intercept else 0.0))
        return np.concatenate(self.design.each(_spread, shared=(weight_var,)))

    def part(self, which: NDArray[np.intp], sites: Sites) -> None:
        """See `Gaussian`."""

    def _marginals(self, sites: Sites) -> Marginals:
        n_weights = self.shape[1]
        inverse, pull, log_det = self._rooted(sites)
        shift = sites.shift[:n_weights] + pull
        mean = inverse.T @ (inverse @ shift)  # Eq. (18)
        parts = self.design.each(_fields, shared=(mean, inverse))
        return Marginals(
            mean=np.concatenate([mean, *(part[0] for part in parts)]),  # Eq. (19)
            var=np.concatenate([np.einsum("ij,ij->j", inverse, inverse), *(part[1] for part in parts)]),  # Eq. (20)
            log_z=float(0.5 * (n_weights * np.log(2.0 * np.pi) - log_det + shift @ mean)),
        )

    def _rooted(self, sites: Sites) -> Root:
        """One pass, unless it is that of the last call."""
        if self._root is None or not _same(sites, self._root[0]):
            n_weights = self.shape[1]
            square, pull = self.design.total(_pulled, sites.precision[n_weights:], sites.shift[n_weights:])
            square = np.array(square, order="F")
            square[np.diag_indices(n_weights)] += sites.precision[:n_weights]
            inverse, log_det = inverse_cholesky(square)
            self._root = sites, Root(inverse, pull, log_det)
        return self._root[1]


def choose(design: Vector | Rows) -> Gaussian:
    """The backend for this table: for one in memory the cheaper for its shape."""
    return Chunked(design) if isinstance(design, Rows) else gaussian.choose(design)


def _same(one: Sites, other: Sites) -> bool:
    return all(map(np.array_equal, one, other))


def _pulled(block: Vector, precision: Vector, shift: Vector) -> tuple[Vector, Vector]:
    """A block's part of X' diag(tau) X, its lower triangle, and of X' nu."""
    return weighted_square(block, precision), shift @ block


def _fields(block: Vector, mean: Vector, inverse: Vector) -> tuple[Vector, Vector]:
    """Means and variances of a block's labels."""
    rows = block @ inverse.T
    return block @ mean, np.einsum("ij,ij->i", rows, rows)


def _spread(block: Vector, weight_var: Vector) -> Vector:
    return np.asarray(np.einsum("ij,ij,j->i", block, block, weight_var))

"""The Gaussian approximation Q(h), h = (w, y) with y = X w: marginals from sites, at the cost of the smaller side.

Q(w) is proportional to exp(-w'Aw/2 + b'w) with A = diag(tau_w) + X' diag(tau_y) X and b = nu_w + X' nu_y, where
(tau, nu) = (1/d, a/d) are the sites' precisions and shifts, Eqs. (17) and (18).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk, dtrmm
from scipy.linalg.lapack import dpotrf, dtrtri

from dilutron.special import Vector

STRIP = 2048  # columns that `Dual` works on at a time
BLOCK = 128  # rows and columns of a square that stays in the cache
LOOSE = 1e-4  # weight precisions below this share of the typical one are not safe to divide by
QUIET = 1e-4  # the same below which a label hardly changes its field's variance


class Sites(NamedTuple):
    """Natural parameters of the Gaussian factors of Eq. (14), weights first, then labels."""

    precision: Vector
    shift: Vector


class Marginals(NamedTuple):
    """Means and variances of Q for every weight and every label, Eqs. (19) and (20), and its log normaliser.

    `means_at` gives the means for other shifts at the same precisions, where that costs little beside the variances.
    """

    mean: Vector
    var: Vector
    log_z: float
    means_at: Callable[[Vector], Vector] | None = None


class Covariance(NamedTuple):
    """Covariance of the weights as diag(base) + root' diag(sign) root, so that wide problems need no N x N array.

    `sign` may be of any size where many share one `root`.

    Where there is a `design`, less P'P with P = half design diag(base): many posteriors of one problem share it.
    """

    base: Vector
    root: Vector
    sign: Vector
    half: Vector | None = None
    design: Vector | None = None

    @classmethod
    def diagonal(cls, var: Vector) -> Self:
        """Of independent weights."""
        return cls(var, np.zeros((0, var.size)), np.zeros(0))

    def along(self, rows: Vector) -> Vector:
        """Variance of rows @ w, one value per row of `rows`, shape (n, N)."""
        var = rows**2 @ self.base + (rows @ self.root.T) ** 2 @ self.sign
        if self.half is not None and self.design is not None:
            var -= np.sum(((rows * self.base) @ self.design.T @ self.half.T) ** 2, axis=1)
        return np.maximum(var, np.finfo(np.float64).tiny)  # a row of zeros, or rounding, must not give a negative one

    def alone(self) -> Self:
        """The same with all of it in `root`, shape (M, N) or more: to be kept apart from the design."""
        if self.half is None or self.design is None:
            return self
        root = np.concatenate([self.half @ (self.design * self.base), self.root])
        sign = np.concatenate([-np.ones(len(self.half)), self.sign])
        return self._replace(root=root, sign=sign, half=None, design=None)

    def dense(self) -> Vector:
        """The N x N matrix."""
        base, root, sign = self.alone()[:3]
        return np.asarray(np.diag(base) + (root.T * sign) @ root)


class Beside(NamedTuple):
    """What weights whose sites stay as they are add to the fields: its covariance, shape (M, M), and its mean."""

    prior: Vector
    field: Vector


class NotPositive(ArithmeticError):
    """The sites do not define a proper Gaussian."""


class Gaussian(Protocol):
    """What the engine asks of a backend."""

    shape: tuple[int, int]

    def marginals(self, sites: Sites) -> Marginals:
        """Marginals of every weight and label; `NotPositive` where Q is improper."""

    def covariance(self, sites: Sites) -> Covariance:
        """Covariance of the weights."""

    def field_var(self, weight_var: Vector) -> Vector:
        """Variances of y = X w for independent weights of these variances."""

    def part(self, which: NDArray[np.intp], sites: Sites) -> Gaussian | None:
        """The Gaussian of these weights and all labels, the sites of all other weights being as they are.

        None where that would cost no less than the whole.
        """


class Designed:
    """What all backends share: the signed design of Eq. (3), in C order."""

    design: Vector
    shape: tuple[int, int]

    def field_var(self, weight_var: Vector) -> Vector:
        """See `Gaussian`."""
        return np.asarray(np.einsum("ij,ij,j->i", self.design, self.design, weight_var))

    def part(self, which: NDArray[np.intp], sites: Sites) -> Gaussian | None:
        """See `Gaussian`."""
        return None

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        """Travel without workspaces: elsewhere they would be copies, or not writable."""
        return type(self), (self.design,)


class Primal(Designed):
    """Factor the N x N precision: O(M N^2 + N^3) a call. For M >= N.

    Parameters
    ----------
    design : array of shape (M, N)
        The signed design of Eq. (3), in C order.
    """

    def __init__(self, design: Vector) -> None:
        self.design = design
        self.shape = design.shape
        self._rows = np.empty_like(design)
        self._square = np.zeros((design.shape[1], design.shape[1]), order="F")

    def marginals(self, sites: Sites) -> Marginals:
        """See `Gaussian`."""
        n_weights = self.shape[1]
        shift_w, shift_y = sites.shift[:n_weights], sites.shift[n_weights:]
        inverse, log_det = self._inverse_root(sites.precision)
        shift = shift_w + shift_y @ self.design
        mean = inverse.T @ (inverse @ shift)  # Eq. (18)
        np.copyto(self._rows, self.design)
        rows = dtrmm(1.0, inverse, self._rows.T, lower=1, overwrite_b=1).T  # rows of X L^-T
        return Marginals(
            mean=np.concatenate([mean, self.design @ mean]),  # Eq. (19)
            var=np.concatenate(
                [np.einsum("ij,ij->j", inverse, inverse), np.einsum("ij,ij->i", rows, rows)]
            ),  # Eq. (20)
            log_z=0.5 * (n_weights * np.log(2.0 * np.pi) - log_det + shift @ mean),
        )

    def covariance(self, sites: Sites) -> Covariance:
        """See `Gaussian`."""
        inverse, _ = self._inverse_root(sites.precision)
        n_weights = self.shape[1]
        return Covariance(np.zeros(n_weights), inverse.copy(), np.ones(n_weights))

    def _inverse_root(self, precision: Vector) -> tuple[Vector, float]:
        """Inverse of the Cholesky factor L of A, Eq. (17), and log det A."""
        n_weights = self.shape[1]
        matrix = weighted_square(self.design, precision[n_weights:], self._rows, self._square)
        matrix[np.diag_indices(n_weights)] += precision[:n_weights]
        return inverse_cholesky(matrix)


class Dual(Designed):
    """Factor an M x M matrix instead (Woodbury): O(M^2 N + M^3) a call, no N x N array. For M < N.

    Weight precisions near or below zero and negative label precisions cannot be divided by. Such loose variables
    borrow precision until they are safe, and give it back exactly by a small Schur complement.
    """

    def __init__(self, design: Vector, beside: Beside | None = None) -> None:
        self.design = design
        self.shape = design.shape
        self._beside = beside
        self._columns: NDArray[Any] = design
        self._last: tuple[NDArray[np.intp], Vector, Dual] | None = None

    def part(self, which: NDArray[np.intp], sites: Sites) -> Dual:
        """See `Gaussian`. The next call of the whole costs half as much if the other weights stay as they are."""
        n_weights = self.shape[1]
        weight = sites.precision[:n_weights].copy()
        weight[which] = np.inf  # adds nothing
        self._last = None
        field = self.design @ (sites.shift[:n_weights] / weight)
        beside = Beside(self._prior(weight), field if self._beside is None else field + self._beside.field)
        part = Dual(np.ascontiguousarray(self.design[:, which]), beside)
        self._last = which, weight, part
        return part

    def field_var(self, weight_var: Vector) -> Vector:
        """See `Gaussian`."""
        var = super().field_var(weight_var)
        return var if self._beside is None else var + np.diag(self._beside.prior)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.design, self._beside)

    def marginals(self, sites: Sites) -> Marginals:
        """See `Gaussian`."""
        n_weights = self.shape[1]
        safe, loose, borrowed = _borrow(sites.precision, n_weights)
        weight, label = safe[:n_weights], safe[n_weights:]
        prior, half, log_det = self._half(weight, label)
        log_det += np.log(weight).sum()
        var = np.concatenate([self._weight_var(weight, half), _label_var(prior, half, label)])
        spread, inverse = np.zeros((var.size, 0)), np.zeros((0, 0))
        if loose.size:
            spread, inverse, log_det_small = self._repaid(weight, prior, half, loose, borrowed)
            log_det += log_det_small + np.log(borrowed).sum()
            var += np.einsum("ij,ij->i", spread, spread)
        if not np.all(var > 0.0):
            raise NotPositive("a marginal variance is not positive")

        beside = np.zeros(self.shape[0]) if self._beside is None else self._beside.field

        def means_at(shift: Vector) -> Vector:
            shift_w, shift_y = shift[:n_weights], shift[n_weights:]
            field = self.design @ (shift_w / weight) + beside
            pull = shift_y - half.T @ (half @ (field + prior @ shift_y))
            mean = np.concatenate([(shift_w + pull @ self.design) / weight, field + prior @ pull])
            return np.asarray(mean + spread @ (inverse @ mean[loose]) if loose.size else mean)

        mean = means_at(sites.shift)
        fields = np.concatenate([np.zeros(n_weights), beside])
        shift, known = sites.shift - sites.precision * fields, fields @ (sites.shift - 0.5 * sites.precision * fields)
        log_z = 0.5 * (n_weights * np.log(2.0 * np.pi) - log_det + shift @ (mean - fields)) + known
        return Marginals(mean, var, log_z, means_at)

    def covariance(self, sites: Sites) -> Covariance:
        """See `Gaussian`."""
        n_weights = self.shape[1]
        safe, loose, borrowed = _borrow(sites.precision, n_weights)
        weight, label = safe[:n_weights], safe[n_weights:]
        prior, half, _ = self._half(weight, label)
        root = np.zeros((0, n_weights))
        if loose.size:
            root = self._repaid(weight, prior, half, loose, borrowed)[0][:n_weights].T
        return Covariance(1.0 / weight, root, np.ones(len(root)), half, self.design)

    def _half(self, weight: Vector, label: Vector) -> tuple[Vector, Vector, float]:
        """K = X diag(1/weight) X', the lower triangular H with H'H = (K + 1/label)^-1, and log det(I + K label)."""
        prior = self._prior(weight)
        root = np.sqrt(label)
        matrix = np.asfortranarray(prior * root)
        matrix *= root[:, None]
        matrix[np.diag_indices_from(matrix)] += 1.0
        inverse, log_det = inverse_cholesky(matrix)
        inverse *= root
        return prior, inverse, log_det

    def _prior(self, weight: Vector) -> Vector:
        """K = X diag(1/weight) X', and what is beside it."""
        if self._last is not None:
            (which, others, part), self._last = self._last, None
            if np.array_equal(np.delete(others, which), np.delete(weight, which)):
                return part._prior(weight[which])
        square, work = self._products()[0], self._workspace()
        start = np.zeros((self.shape[0], self.shape[0])) if self._beside is None else self._beside.prior
        prior = np.array(start, work.dtype, order="F")
        for strip in self._strips():
            columns = self._scaled(strip, weight, work).T
            prior = square(1.0, columns, beta=1.0, c=prior, trans=1, lower=1, overwrite_c=1)
        return _symmetric(prior.astype(np.float64, copy=False))

    def _weight_var(self, weight: Vector, half: Vector) -> Vector:
        """Variances of the weights, before loans are given back."""
        triangular, work = self._products()[1], self._workspace()
        half, used = np.asfortranarray(half, dtype=work.dtype), np.empty(weight.size)
        for strip in self._strips():
            scaled = self._scaled(strip, weight, work).T
            columns = triangular(1.0, half, scaled, side=1, lower=1, trans_a=1, overwrite_b=1).T
            used[strip] = np.einsum("ij,ij->j", columns, columns)
        return (1.0 - used) / weight

    def _products(self) -> tuple[Callable[..., NDArray[Any]], Callable[..., NDArray[Any]]]:
        """A matrix times its transpose, and a triangular one times another."""
        return dsyrk, dtrmm

    def _strips(self) -> list[slice]:
        """The columns in strips: a workspace of one strip instead of a second design."""
        n_weights = self.shape[1]
        return [slice(first, min(first + STRIP, n_weights)) for first in range(0, n_weights, STRIP)]

    def _workspace(self) -> NDArray[Any]:
        """For one strip, as exact as the columns."""
        return np.empty(self.shape[0] * min(STRIP, self.shape[1]), self._columns.dtype)

    def _scaled(self, strip: slice, weight: Vector, work: NDArray[Any]) -> NDArray[Any]:
        """The columns of a strip over the square roots of their precisions, in the workspace."""
        shape = self.shape[0], strip.stop - strip.start
        columns = work[: shape[0] * shape[1]].reshape(shape)
        factor = (1.0 / np.sqrt(weight[strip])).astype(columns.dtype)
        return np.asarray(np.multiply(self._columns[:, strip], factor, out=columns))

    def _repaid(
        self, weight: Vector, prior: Vector, half: Vector, loose: NDArray[np.intp], borrowed: Vector
    ) -> tuple[Vector, Vector, float]:
        """The spread S, shape (N + M, loose), by which the covariance grows to C + S S' when the loans are given back.

        With C the covariance while they are held, S = C[:, loose] R' and R'R = (1/borrowed - C[loose, loose])^-1. R is
        multiplied in before the design, which spares a product of the design's length. Also gives R and -2 log det R.
        """
        n_labels, n_weights = self.shape
        of_weight = loose < n_weights
        weights, labels = loose[of_weight], loose[~of_weight] - n_weights
        columns = self.design[:, weights] / weight[weights]
        field = np.empty((n_labels, loose.size))
        field[:, of_weight], field[:, ~of_weight] = columns, prior[:, labels]
        pull = -half.T @ (half @ field)
        pull[labels, np.flatnonzero(~of_weight)] += 1.0
        unit = np.eye(loose.size)[of_weight]
        held = np.empty((loose.size, loose.size))
        held[of_weight] = columns.T @ pull + unit / weight[weights, None]
        held[~of_weight] = columns[labels] @ unit + prior[labels] @ pull
        inverse, log_det = inverse_cholesky(np.diag(1.0 / borrowed) - held)
        pull, right = pull @ inverse.T, inverse.T[of_weight]
        spread = np.empty((n_weights + n_labels, loose.size))  # filled in place: for many loose weights it is large
        spread[:n_weights] = (pull.T @ self.design).T  # for one or two columns much quicker than design.T @ pull
        spread[weights] += right
        spread[:n_weights] /= weight[:, None]
        spread[n_weights:] = columns @ right + prior @ pull
        return spread, inverse, log_det


def choose(design: Vector) -> Gaussian:
    """The cheaper backend for this shape."""
    return Primal(design) if design.shape[0] >= design.shape[1] else Dual(design)


def weighted_square(design: Vector, label: Vector, rows: Vector | None = None, square: Vector | None = None) -> Vector:
    """X' diag(label) X, its lower triangle, in Fortran order; in the workspaces where they are given."""
    rows = np.multiply(design, np.sqrt(np.maximum(label, 0.0))[:, None], out=rows)
    square = np.zeros((design.shape[1], design.shape[1]), order="F") if square is None else square
    matrix = dsyrk(1.0, rows.T, lower=1, c=square, overwrite_c=1)
    if np.any(label < 0.0):  # the few labels that EP believes are wrong
        rows = design[label < 0.0] * np.sqrt(-label[label < 0.0])[:, None]
        matrix = dsyrk(-1.0, rows.T, beta=1.0, lower=1, c=matrix, overwrite_c=1)
    return matrix


def _borrow(precision: Vector, n_weights: int) -> tuple[Vector, NDArray[np.intp], Vector]:
    """Safe precisions, the loose variables' positions, and what each borrowed."""
    weight, label = precision[:n_weights], precision[n_weights:]
    if np.sum(weight <= 0.0) > np.sum(label > 0.0):  # seen before any work is done: labels hold one direction each
        raise NotPositive("the Gaussian is improper: more weights than labels could hold have no precision")
    positive = weight[weight > 0.0]
    typical = np.median(positive) if positive.size else 1.0
    safe = np.concatenate([np.where(weight < LOOSE * typical, typical, weight), np.maximum(label, 0.0)])
    loose = np.flatnonzero(safe > precision)
    return safe, loose, safe[loose] - precision[loose]


def _label_var(prior: Vector, half: Vector, label: Vector) -> Vector:
    """Variances of the labels: (1 - B^-1) / label with B = I + K label, or K - K H'H K where a label says nothing."""
    before = np.diag(prior)
    quiet = label * before < QUIET  # there the first form cancels
    with np.errstate(divide="ignore", invalid="ignore"):
        var = np.asarray((1.0 - np.einsum("ij,ij->j", half, half) / label) / label)
    reduced = half @ prior[:, quiet]
    var[quiet] = before[quiet] - np.einsum("ij,ij->j", reduced, reduced)
    return var


def _symmetric(matrix: Vector) -> Vector:
    """The matrix with its lower triangle above the diagonal too; in blocks that stay in the cache."""
    for first in range(0, len(matrix), BLOCK):
        end = first + BLOCK
        square = matrix[first:end, first:end]
        square[:] = np.tril(square) + np.tril(square, -1).T
        matrix[first:end, end:] = matrix[end:, first:end].T
    return matrix


def inverse_cholesky(matrix: Vector) -> tuple[Vector, float]:
    """L^-1 (lower triangular) and log det of a symmetric matrix whose lower triangle is given; it is overwritten."""
    factor, info = dpotrf(matrix, lower=1, clean=1, overwrite_a=1)
    if info != 0:
        raise NotPositive("the Gaussian is improper: its precision matrix has a direction that is not positive")
    log_det = 2.0 * float(np.log(np.diag(factor)).sum())
    inverse, _ = dtrtri(factor, lower=1, overwrite_c=1)
    return inverse, log_det

"""The M x M Gaussian with its two large products in single precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import ssyrk, strmm

from dilutron.gaussian import Beside, Dual, Gaussian
from dilutron.special import Vector

LARGE = 1e12  # the largest entries that have squares, and sums of them, in single precision
LOUD = 1e3  # precision of a label, in units of its field's before the data, beyond which single precision fails


class Single(Dual):
    """The same with the two large products in single precision: half the time, and four digits of a variance.

    For iterations that end at a loose tolerance; what they end at is checked, and made once more by `Dual` if need be.
    For hard labels, whose fields are small differences of large numbers, the matrix is that of `Dual`.
    """

    def __init__(self, design: Vector, beside: Beside | None = None) -> None:
        super().__init__(design, beside)
        self._exact = Dual(design, beside)
        self._columns = design.astype(np.float32)

    def _products(self) -> tuple[Callable[..., NDArray[Any]], Callable[..., NDArray[Any]]]:
        return ssyrk, strmm

    def _half(self, weight: Vector, label: Vector) -> tuple[Vector, Vector, float]:
        prior, half, log_det = super()._half(weight, label)
        if np.max(label * np.diag(prior)) > LOUD:
            return self._exact._half(weight, label)
        return prior, half, log_det


def quick(gaussian: Gaussian) -> Gaussian:
    """The backend for iterations that need not be exact: the same where there is none better."""
    if isinstance(gaussian, Dual) and max(gaussian.design.max(), -gaussian.design.min()) < LARGE:
        return Single(gaussian.design, gaussian._beside)
    return gaussian

"""Gaussian tail functions that survive large arguments."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx

Vector = NDArray[np.float64]

TAIL = -5.0  # below this the closed forms lose digits to cancellation
DEPTH = 40  # levels of the continued fraction: full precision from |t| = 5 on


def hazard(t: Vector) -> Vector:
    """R(t) = phi(t) / Phi(t), written with erfcx so that neither tail overflows."""
    return np.asarray(np.sqrt(2.0 / np.pi) / erfcx(-t / np.sqrt(2.0)), dtype=np.float64)


def truncated(t: Vector) -> tuple[Vector, Vector]:
    """Mean and variance of a unit-variance Gaussian of mean `t`, given that it is positive.

    The textbook forms t + R and 1 - t R - R^2 cancel for t << 0 (the second is negative already at
    t = -1000). There the Mills ratio's continued fraction gives both without a subtraction of near equals.

    Parameters
    ----------
    t : array of shape (n,)

    Returns
    -------
    mean, var : arrays of shape (n,), both positive
    """
    ratio = hazard(t)
    mean = t + ratio  # Eq. (46)
    var = 1.0 - ratio * mean  # Eq. (48)
    low = t < TAIL
    if np.any(low):
        x = -t[low]
        rest = _mills_remainder(x)
        mean[low] = 1.0 / (x + rest)
        var[low] = (rest * (x + rest) - 1.0) * mean[low] ** 2
    return mean, var


def _mills_remainder(x: Vector) -> Vector:
    """2/(x + 3/(x + 4/(x + ...))), the remainder in R(-x) = x + 1/(x + remainder)."""
    level = x.copy()
    for k in range(DEPTH, 2, -1):
        level = x + k / level
    return 2.0 / level

"""Gaussian functions: tails that survive large arguments, and the log density of cavities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx

Vector = NDArray[np.float64]

TAIL = -5.0  # below this the closed forms lose digits to cancellation
DEPTH = 40  # levels of the continued fraction: full precision from |t| = 5 on
SHALLOW = (
    12  # levels for a negative precision, where the fraction is asymptotic only: 4e-7 of a variance from |t| = 7 on
)


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
        _, mean[low], var[low] = decay(-t[low], np.ones_like(t[low]))
    return mean, var


def decay(rate: Vector, precision: Vector) -> tuple[Vector, Vector, Vector]:
    """Log integral, mean and variance of exp(-rate y - precision y^2 / 2) over y > 0, for a large rate.

    The Mills ratio's continued fraction in q = precision / rate^2 is analytic through q = 0. For a slightly negative
    precision it is the integral up to the saddle at y = -rate / precision, which leaves out only exp(1 / 2q).
    """
    q = precision / rate**2
    level = np.ones_like(q)
    for depths, below in ((range(DEPTH, SHALLOW, -1), np.maximum(q, 0.0)), (range(SHALLOW, 2, -1), q)):
        for k in depths:
            np.divide(k * below, level, out=level)
            level += 1.0
    rest = 2.0 / level
    mean = 1.0 / (rate * (1.0 + rest * q))
    log_z = -np.log(rate * (1.0 + q / (1.0 + rest * q)))
    return log_z, mean, (rest * (1.0 + rest * q) - 1.0) * mean**2


def log_normal(mean: Vector, var: Vector) -> Vector:
    """Log of N(0; mean, var); of a negative variance, the same form with its size: it cancels in every use of it."""
    return np.asarray(-0.5 * (np.log(2.0 * np.pi * np.abs(var)) + mean**2 / var))

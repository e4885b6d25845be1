"""Teacher problems: a diluted perceptron labels patterns, and some labels are turned over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dilutron.special import Vector


@dataclass(frozen=True)
class Lesson:
    """Patterns with the labels a teacher gave them, and what only the teacher knows.

    Attributes
    ----------
    X : array of shape (M, N)
    labels : array of shape (M,), values -1 and +1, after the flips
    teacher : array of shape (N,), the weights to find
    flipped : boolean array of shape (M,), which labels were turned over
    """

    X: Vector
    labels: Vector
    teacher: Vector
    flipped: NDArray[np.bool_]


def diluted_teacher(n_weights: int, rho: float, rng: np.random.Generator) -> Vector:
    """Standard normal weights of which exactly round(rho N), at least one, are not zero."""
    weights = np.zeros(n_weights)
    present = rng.permutation(n_weights)[: max(1, round(rho * n_weights))]
    weights[present] = rng.standard_normal(present.size)
    return weights


def iid_patterns(n_patterns: int, n_weights: int, rng: np.random.Generator) -> Vector:
    """Independent standard normal entries."""
    return rng.standard_normal((n_patterns, n_weights))


def mvn_patterns(n_patterns: int, n_weights: int, rng: np.random.Generator, *, u: int = 1) -> Vector:
    """Rows from N(0, S) with S = Y'Y + Delta, Eq. (54): Y is u x N normal, Delta diagonal, absolute normals."""
    factors = rng.standard_normal((u, n_weights))
    own_var = np.abs(rng.standard_normal(n_weights))
    shared = rng.standard_normal((n_patterns, u)) @ factors
    return np.asarray(shared + rng.standard_normal((n_patterns, n_weights)) * np.sqrt(own_var))


PATTERNS = {"iid": iid_patterns, "mvn": mvn_patterns}


def lesson(
    n_weights: int,
    alpha: float,
    rng: np.random.Generator,
    *,
    rho: float = 0.25,
    eta: float = 1.0,
    patterns: str = "iid",
) -> Lesson:
    """One instance of the paper's protocol: M = round(alpha N) patterns, exactly round((1 - eta) M) mislabelled."""
    if patterns not in PATTERNS:
        raise ValueError(f"patterns must be one of {sorted(PATTERNS)}, got {patterns!r}")
    n_patterns = max(1, round(alpha * n_weights))
    teacher = diluted_teacher(n_weights, rho, rng)
    X = PATTERNS[patterns](n_patterns, n_weights, rng)
    labels = np.where(X @ teacher >= 0.0, 1.0, -1.0)  # Eq. (1), with sign(0) = 1
    flipped = np.zeros(n_patterns, dtype=np.bool_)
    flipped[rng.permutation(n_patterns)[: round((1.0 - eta) * n_patterns)]] = True
    return Lesson(X, np.where(flipped, -labels, labels), teacher, flipped)  # Eq. (9)

"""Teacher problems: a diluted perceptron labels patterns, and some labels are turned over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dilutron.data.designs import block_patterns, equicorrelated_patterns, toeplitz_patterns
from dilutron.options import positive, whole
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


def taught(X: Vector, teacher: Vector, flipped: NDArray[np.bool_], noise: Vector | float = 0.0) -> Lesson:
    """The lesson of this teacher on these patterns, with noise in the fields, and with these labels turned over."""
    labels = np.where(X @ teacher + noise >= 0.0, 1.0, -1.0)  # Eq. (1), with sign(0) = 1
    return Lesson(X, np.where(flipped, -labels, labels), teacher, flipped)  # Eq. (9)


def diluted_teacher(n_weights: int, rho: float, rng: np.random.Generator, exact: bool = True) -> Vector:
    """Standard normal weights, a fraction `rho` of them not zero, and never none: that would be no teacher.

    Parameters
    ----------
    n_weights : int
        Length N.
    rho : float
        Density, between 0 and 1, without both.
    rng : numpy Generator
    exact : bool
        True: exactly round(rho N) weights are not zero. False: each is not zero with probability rho.
    """
    whole(n_weights=n_weights)
    if not 0.0 < rho < 1.0:
        raise ValueError(f"rho must lie between 0 and 1, without both, got {rho!r}")
    if exact:
        present = rng.permutation(n_weights)[: max(1, round(rho * n_weights))]
    else:
        present = np.flatnonzero(rng.random(n_weights) < rho)
        present = present if present.size else rng.integers(n_weights, size=1)
    weights = np.zeros(n_weights)
    weights[present] = rng.standard_normal(present.size)
    return weights


def flips(n_patterns: int, eta: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which labels to turn over: exactly round((1 - eta) M) of M, chosen at random."""
    _check_share(eta)
    flipped = np.zeros(n_patterns, dtype=np.bool_)
    flipped[rng.permutation(n_patterns)[: round((1.0 - eta) * n_patterns)]] = True
    return flipped


def iid_patterns(n_patterns: int, n_weights: int, rng: np.random.Generator) -> Vector:
    """Independent standard normal entries."""
    return rng.standard_normal((n_patterns, n_weights))


def mvn_patterns(n_patterns: int, n_weights: int, rng: np.random.Generator, *, u: int = 1) -> Vector:
    """Rows from N(0, S) with S = Y'Y + Delta, Eq. (54): Y is u x N normal, Delta diagonal, absolute normals."""
    whole(u=u)
    factors = rng.standard_normal((u, n_weights))
    own_var = np.abs(rng.standard_normal(n_weights))
    shared = rng.standard_normal((n_patterns, u)) @ factors
    return np.asarray(shared + rng.standard_normal((n_patterns, n_weights)) * np.sqrt(own_var))


Patterns = Callable[[int, int, np.random.Generator], Vector]
"""What draws patterns: `f(n_patterns, n_weights, rng)` makes an array of this shape."""

PATTERNS: dict[str, Patterns] = {
    "iid": iid_patterns,
    "mvn": mvn_patterns,
    "toeplitz": toeplitz_patterns,
    "block": block_patterns,
    "equicorrelated": equicorrelated_patterns,
}
"""The patterns that `lesson` and the command line know by name."""


def lesson(
    n_weights: int,
    alpha: float,
    rng: np.random.Generator,
    *,
    rho: float = 0.25,
    eta: float = 1.0,
    beta: float = np.inf,
    patterns: str | Patterns = "iid",
    exact: bool = True,
) -> Lesson:
    """One instance of the paper's protocol.

    Parameters
    ----------
    n_weights : int
        Number N of weights.
    alpha : float
        Patterns per weight: there are M = round(alpha N) patterns, at least one.
    rng : numpy Generator
    rho : float
        Density of the teacher, between 0 and 1, without both.
    eta : float
        Fraction of right labels, from 0.5 to 1: exactly round((1 - eta) M) are turned over.
    beta : float
        Inverse temperature: before the sign is taken, normal noise of variance 1 / beta is added to each field. Labels
        that it changes do not count as turned over.
    patterns : str or callable
        A name in `PATTERNS`, or any `f(n_patterns, n_weights, rng)`, for example
        ``functools.partial(toeplitz_patterns, correlation=0.9)``.
    exact : bool
        Whether the teacher has exactly round(rho N) weights, or each with probability rho.
    """
    whole(n_weights=n_weights)
    positive(alpha=alpha)
    _check_share(eta)
    if not (isinstance(beta, float) and beta == np.inf):
        positive(beta=beta)
    if isinstance(patterns, str) and patterns not in PATTERNS:
        raise ValueError(f"patterns must be one of {sorted(PATTERNS)} or a function, got {patterns!r}")
    n_patterns = max(1, round(alpha * n_weights))
    teacher = diluted_teacher(n_weights, rho, rng, exact)
    X = (PATTERNS[patterns] if isinstance(patterns, str) else patterns)(n_patterns, n_weights, rng)
    if np.shape(X) != (n_patterns, n_weights):
        raise ValueError(f"patterns must make an array of shape {(n_patterns, n_weights)}, got {np.shape(X)}")
    flipped = flips(n_patterns, eta, rng)
    noise = 0.0 if beta == np.inf else rng.standard_normal(n_patterns) / np.sqrt(beta)
    return taught(X, teacher, flipped, noise)


def _check_share(eta: float) -> None:
    if not 0.5 <= eta <= 1.0:
        raise ValueError(f"eta is the fraction of right labels, from 0.5 to 1, got {eta!r}")

"""Which features, and which labels, to name: rules over probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dilutron.special import Vector

Indices = NDArray[np.intp]


def ranked(probability: Vector) -> Indices:
    """Most probable first; of equals the earlier one."""
    return np.argsort(-probability, kind="stable")


def by_false_share(probability: Vector, fdr: float) -> Indices:
    """The longest list, most probable first, of which on average at most a share `fdr` is wrong (Bayesian FDR)."""
    order = ranked(probability)
    wrong = np.cumsum(1.0 - probability[order]) / np.arange(1, order.size + 1)
    return order[: int(np.sum(wrong <= fdr))]  # the running mean only grows along the order


def by_size(probability: Vector, size: int | None = None) -> Indices:
    """The `size` most probable; by default as many as are expected, at least one."""
    return ranked(probability)[: expected_size(probability) if size is None else size]


def by_threshold(probability: Vector, threshold: float) -> Indices:
    """All that reach the threshold, most probable first."""
    order = ranked(probability)
    return order[probability[order] >= threshold]


def expected_size(probability: Vector) -> int:
    """How many are expected, rounded, at least one."""
    return max(1, round(float(probability.sum())))

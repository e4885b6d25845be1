"""How good an answer is: errors of the weights, and of the choice of features."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata

from dilutron.special import Vector


def mse(weights: Vector, teacher: Vector) -> float:
    """Mean squared error of the normalised weights, Eq. (53); of zero weights, that of guessing nothing."""
    norm = np.linalg.norm(weights)
    student = weights / norm if norm > 0.0 else weights
    return float(np.mean((student - teacher / np.linalg.norm(teacher)) ** 2))  # Eq. (53)


def decibel(value: float) -> float:
    """10 log10, as in the paper's figures."""
    return float(10.0 * np.log10(value))


def auc(score: Vector, truth: Any) -> float:
    """Area under the ROC curve of `score` for a boolean `truth`; ties count half."""
    positive = np.asarray(truth, dtype=bool)
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    if n_positive == 0 or n_negative == 0:
        raise ValueError("truth must hold both true and false entries: with one kind only there is no curve.")
    ranks = rankdata(score)[positive].sum()
    return float((ranks - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))

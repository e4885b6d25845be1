"""The simulated study of the other examples: 200 genes in blocks of four near copies, and some labels wrong."""

from typing import NamedTuple

import numpy as np

TRUE = {0: 2.5, 17: -2.0, 42: 2.0}  # the genes that matter, in three blocks, and their weights
BLOCK = 4


class Study(NamedTuple):
    """A table, its labels as they were written down, and the rows where that went wrong."""

    X: np.ndarray
    y: np.ndarray
    wrong: np.ndarray


def study(seed, n_samples=120, n_wrong=6):
    """One study."""
    rng = np.random.default_rng(seed)
    common = np.repeat(rng.standard_normal((n_samples, 50)), BLOCK, axis=1)
    X = np.sqrt(0.85) * common + np.sqrt(0.15) * rng.standard_normal(common.shape)  # correlation 0.85 in a block
    field = sum(weight * X[:, gene] for gene, weight in TRUE.items())
    ill = field + 0.5 * rng.standard_normal(n_samples) > 0
    wrong = rng.choice(n_samples, n_wrong, replace=False)
    ill[wrong] = ~ill[wrong]
    return Study(X, np.where(ill, "ill", "healthy"), wrong)

"""Predictions of rows by fits that have not seen them, and how good they are."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from dilutron.averages import settled
from dilutron.metrics import auc, auc_error, fraction_error
from dilutron.runs.diary import Tell, silent
from dilutron.runs.request import framed
from dilutron.special import Vector
from dilutron.tables import Sheet


class HeldOut(NamedTuple):
    """Predictions for rows by fits that have not seen them: of each class, and in which fold; and of each fit."""

    probability: Vector
    fold: Any
    sizes: tuple[int, ...]
    converged: tuple[bool, ...]


def held_out(model: Any, sheet: Sheet, folds: int, seed: int, tell: Tell = silent) -> HeldOut | None:
    """Predict every row by a fit to the other folds; None for no folds."""
    if folds == 0:
        return None
    X, fold = framed(sheet), np.zeros(len(sheet.X), dtype=np.int_)
    probability = np.empty((len(fold), np.unique(sheet.labels).size))
    sizes, converged = [], []
    splits = StratifiedKFold(folds, shuffle=True, random_state=seed).split(sheet.X, sheet.labels)
    for number, (known, new) in enumerate(splits, 1):
        tell(f"held-out fold {number} of {folds}", number - 1.0)
        fit = clone(model).fit(X[known], sheet.labels[known])
        probability[new], fold[new] = fit.predict_proba(X[new]), number
        sizes.append(fit.n_features_likely_)
        converged.append(settled(fit.fits_, fit.tol))
    return HeldOut(probability, fold, tuple(sizes), tuple(converged))


def possible_folds(sheet: Sheet, asked: int) -> int:
    """At most as many as the smallest class has rows: each fold needs one of each class."""
    return min(asked, min(Counter(sheet.labels.tolist()).values()))


def scores_of(said: HeldOut, labels: Any, order: Any) -> dict[str, Any]:
    """Over all rows; the AUC over the folds, and of three or more classes the mean of each against the rest.

    The error of the AUC goes by the numbers of rows: a few folds can agree by chance.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    right = np.argmax(said.probability, axis=1) == codes
    own = np.maximum(said.probability[np.arange(codes.size), codes], np.finfo(float).tiny)
    one = [order[-1]] if classes.size == 2 else list(range(classes.size))
    folds = [said.fold == number for number in np.unique(said.fold)]
    area = np.mean([[auc(said.probability[here, k], codes[here] == k) for k in one] for here in folds], axis=0)
    size = np.array([[np.sum(codes[here] == k) for k in one] for here in folds])
    errors = auc_error(area, size, np.array([[here.sum()] for here in folds]) - size)
    return {
        "accuracy": right.mean(),
        "accuracy_se": fraction_error(float(right.mean()), right.size),
        "auc": area.mean(),
        "auc_se": np.mean(np.sqrt(np.sum(errors**2, axis=0))) / len(folds),
        "log_loss": -np.mean(np.log(own)),
        "majority": np.bincount(codes).max() / codes.size,
    }

"""A second look at an answer, which does not use the backend that gave it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dilutron.gaussian import Marginals, Sites
from dilutron.rows import Rows
from dilutron.special import Vector


class Look(NamedTuple):
    """The fields X m, what is left of Eq. (18) in the labels, X' (nu - tau X m), and the columns' sums of squares."""

    field: Vector
    left: Vector
    squares: Vector


def discrepancy(design: Vector | Rows, sites: Sites, marginals: Marginals) -> float:
    """How far marginals are from what the sites say, relatively; infinite where a variance is not positive.

    A m = b, y = X m, and tr(A A^-1) = N for the variances: one product with the design, or one pass over its rows.
    """
    n_weights = design.shape[1]
    (weight, label), (pull, push) = (np.split(part, [n_weights]) for part in sites)
    (mean, told), (unit, std) = (np.split(part, [n_weights]) for part in (marginals.mean, np.sqrt(marginals.var)))
    field, left, squares = _looked_at(design, label, push, mean)
    left = pull - weight * mean + left  # Eq. (18)
    size = np.abs(pull) + np.abs(weight * mean)
    size += (np.linalg.norm(push) + np.linalg.norm(label * field)) * np.sqrt(squares)
    share = sites.precision * marginals.var
    off = (
        np.max(unit * np.abs(left)) / (1.0 + np.max(unit * size)),  # in units that no column's scale changes
        np.max(np.abs(told - field) / (std + np.abs(field))),  # Eq. (19)
        np.abs(share.sum() - n_weights) / np.abs(share).sum(),  # Eq. (20), summed over all variables
    )
    return float(np.max(off)) if np.all(marginals.var > 0.0) and np.all(np.isfinite(off)) else np.inf


def _looked_at(design: Vector | Rows, label: Vector, push: Vector, mean: Vector) -> Look:
    if not isinstance(design, Rows):
        return _look(design, label, push, mean)
    fields, lefts, squares = zip(*design.each(_look, label, push, shared=(mean,)), strict=True)
    return Look(np.concatenate(fields), np.sum(lefts, axis=0), np.sum(squares, axis=0))


def _look(block: Vector, label: Vector, push: Vector, mean: Vector) -> Look:
    field = block @ mean
    return Look(field, (push - label * field) @ block, np.einsum("ij,ij->j", block, block))

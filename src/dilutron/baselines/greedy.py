"""Greedy one-bit compressed sensing, for a known number of nonzero weights: MSP, BIHT, AOP and AOP-f.

Conventions are those of `sphere`. Sources: Boufounos 2009 (MSP), Jacques, Laska, Boufounos and Baraniuk 2013 (BIHT),
Yan, Yang and Osher 2012 (AOP, AOP-f).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from dilutron.baselines.sphere import (
    Callback,
    Mask,
    back_projection,
    descent,
    descent_step,
    fitting,
    largest,
    needed,
    posterior_at,
    scaled,
    thresholded,
    unit,
    worst,
)
from dilutron.loop import iterate
from dilutron.options import one_of, positive, whole
from dilutron.posterior import Posterior
from dilutron.priors import Prior
from dilutron.problem import Problem
from dilutron.special import Vector


@dataclass(frozen=True)
class MSPOptions:
    """How MSP is run.

    Parameters
    ----------
    k : int
        Number of nonzero weights, needed.
    inner : int
        Descent steps at most on each enlarged support.
    tol : float
        The run has converged when a new support moves the unit vector by less than this; the descents end at a tenth.
    max_iter : int
        Supports tried at most.
    patience : int
        The run also ends where the smallest such move is that many supports old: it then only goes round.
    """

    k: int | None = None
    inner: int = 200
    tol: float = 1e-4
    max_iter: int = 200
    patience: int = 50

    def __post_init__(self) -> None:
        needed(self, "k", "the number of nonzero weights", at_least=1)
        positive(tol=self.tol)
        whole(inner=self.inner, max_iter=self.max_iter, patience=self.patience)


@dataclass(frozen=True)
class BIHTOptions:
    """How BIHT is run.

    Parameters
    ----------
    k : int
        Number of nonzero weights, needed.
    loss : {"l1", "l2"}
        One-sided: each violated label pulls alike, or by its field (BIHT-l2), which comes to the border of consistency
        from the wrong side and thus seldom ends as converged.
    step : float
        Length of the l2 steps, in units of the inverse largest curvature. The l1 form starts from nothing and knows
        no scale, so that there the length of its steps cancels.
    max_iter : int
        Steps at most.
    patience : int
        The run also ends where the fewest violated labels are that many steps old: it then only goes round.
    """

    k: int | None = None
    loss: str = "l1"
    step: float = 1.0
    max_iter: int = 3000
    patience: int = 300

    def __post_init__(self) -> None:
        needed(self, "k", "the number of nonzero weights", at_least=1)
        one_of(("l1", "l2"), loss=self.loss)
        positive(step=self.step)
        whole(max_iter=self.max_iter, patience=self.patience)


@dataclass(frozen=True)
class AOPOptions(BIHTOptions):
    """Those of BIHT, and the number of wrong labels.

    Parameters
    ----------
    flips : int
        Number of wrong labels, needed; 0 gives BIHT.
    """

    flips: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        needed(self, "flips", "the number of wrong labels", at_least=0)


class Pursuit(NamedTuple):
    """Sparse weights, of which only the direction counts, their fields, and the labels taken for wrong."""

    weights: Vector
    fields: Vector
    outliers: Mask
    fewest: int
    error: float

    @property
    def failed(self) -> bool:
        """True where nothing is left of the weights."""
        return not np.any(self.weights)


def pursuit(weights: Vector, design: Vector, flips: int, old: Pursuit | None = None) -> Pursuit:
    """These weights and what they violate; AOP doubts other labels only where fewer are violated than ever before."""
    fields = design @ weights
    violated = int(np.sum(fields <= 0.0))
    outliers, fewest = (worst(fields, 0), fields.size + 1) if old is None else (old.outliers, old.fewest)
    if old is not None and violated < fewest:
        outliers, fewest = worst(fields, flips), violated
    return Pursuit(weights, fields, outliers, fewest, max(violated - flips, 0) / fields.size)


def msp_step(state: Pursuit, design: Vector, *, k: int, inner: int, tol: float) -> Pursuit:
    """MSP: add the 2k columns that the violated labels call for, descend on that support, keep the k largest."""
    proxy = design.T @ np.minimum(state.fields, 0.0)
    support = np.flatnonzero(largest(proxy, min(2 * k, proxy.size)) | (state.weights != 0.0))
    part = np.ascontiguousarray(design[:, support])
    start = descent(state.weights[support], len(part))
    run = iterate(partial(descent_step, design=part, thresholds=(0.0,)), start, tol=0.1 * tol, max_iter=inner)
    weights = np.zeros(proxy.size)
    weights[support] = run.last.weights
    new = pursuit(unit(thresholded(weights, k)), design, 0, state)
    return new._replace(error=float(np.linalg.norm(new.weights - state.weights)))


def aop_step(state: Pursuit, design: Vector, *, k: int, flips: int, doubt: float, loss: str, step: float) -> Pursuit:
    """BIHT's step, with outliers counted `doubt` times: 0 drops them (AOP), -1 turns them over (AOP-f)."""
    sign = np.where(state.outliers, doubt, 1.0)
    fields = sign * state.fields
    pull = np.where(fields <= 0.0, 1.0, 0.0) if loss == "l1" else step * np.maximum(-fields, 0.0)
    weights = thresholded(state.weights + design.T @ (sign * pull), k)
    # The l2 step is proportional to the weights, so that their length may be kept at 1; the l1 step needs it to grow.
    return pursuit(weights if loss == "l1" else unit(weights), design, flips, state)


def solve_msp(
    problem: Problem,
    weights: Prior,
    labels: Prior,
    options: MSPOptions | None = None,
    *,
    callback: Callback | None = None,
) -> Posterior:
    """Matching sign pursuit. The priors are passed through, not used.

    The error is the latest move of the unit vector, and the state with the smallest is returned: the squares that MSP
    minimises vanish at the border of consistency, so that a few fields stay below zero by next to nothing.
    """
    began, options = time.perf_counter(), options or MSPOptions()
    k, _ = fitting(problem, weights, labels, options.k, None)
    design = scaled(problem)
    step = partial(msp_step, design=design, k=k, inner=options.inner, tol=options.tol)
    start = pursuit(unit(thresholded(back_projection(design), k)), design, 0)._replace(error=1.0)
    tol, max_iter, patience = options.tol, options.max_iter, options.patience
    run = iterate(step, start, tol=tol, max_iter=max_iter, patience=patience, callback=callback)
    return posterior_at("msp", problem, weights, labels, run, None, began)


def solve_biht(
    problem: Problem,
    weights: Prior,
    labels: Prior,
    options: BIHTOptions | None = None,
    *,
    callback: Callback | None = None,
) -> Posterior:
    """Binary iterative hard thresholding: AOP that doubts no label. The priors are passed through, not used.

    The error is the share of violated labels, and none is convergence; else the state with the fewest is returned.
    """
    return _threshold("biht", problem, weights, labels, options or BIHTOptions(), None, 1.0, callback)


def solve_aop(
    problem: Problem,
    weights: Prior,
    labels: Prior,
    options: AOPOptions | None = None,
    *,
    callback: Callback | None = None,
) -> Posterior:
    """Adaptive outlier pursuit: BIHT that drops the labels most violated, which are `flip`, 0 or 1.

    The error is the share of labels violated beyond `flips`, and none is convergence; else the state with the fewest
    is returned.
    """
    options = options or AOPOptions()
    return _threshold("aop", problem, weights, labels, options, options.flips, 0.0, callback)


def solve_aop_f(
    problem: Problem,
    weights: Prior,
    labels: Prior,
    options: AOPOptions | None = None,
    *,
    callback: Callback | None = None,
) -> Posterior:
    """Adaptive outlier pursuit with flips: as `solve_aop`, but the labels most violated are turned over and kept."""
    options = options or AOPOptions()
    return _threshold("aop_f", problem, weights, labels, options, options.flips, -1.0, callback)


def _threshold(
    method: str,
    problem: Problem,
    weights: Prior,
    labels: Prior,
    options: BIHTOptions,
    flips: int | None,
    doubt: float,
    callback: Callback | None,
) -> Posterior:
    began = time.perf_counter()
    k, outliers = fitting(problem, weights, labels, options.k, flips)
    design = scaled(problem)
    step = partial(aop_step, design=design, k=k, flips=outliers, doubt=doubt, loss=options.loss, step=options.step)
    start = pursuit(thresholded(back_projection(design), k), design, outliers)
    less, max_iter, patience = 0.5 / len(design), options.max_iter, options.patience  # less than one label
    run = iterate(step, start, tol=less, max_iter=max_iter, patience=patience, callback=callback)
    return posterior_at(method, problem, weights, labels, run, flips, began)

"""One-bit compressed sensing on the sphere: what its methods share, and L1 by RFPI and NARFPI.

All look for a unit vector whose fields `x.w` have the signs of the labels. With every pattern times its label, a label
is satisfied where its field is above zero; a field of exactly zero counts as violated, whichever the label, so that
turning over a pattern with its label changes nothing. The answer is a point: no errors, no inclusion probabilities.
Where the labels cancel in X'y there is no direction to start from: the run ends at once as DIVERGED, with zero weights.

Sources: Boufounos and Baraniuk 2008 (RFPI), Movahed, Panahi and Durisi 2012 (NARFPI).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dilutron.gaussian import Covariance
from dilutron.ladder import Mark
from dilutron.loop import Run, State, iterate
from dilutron.options import positive, whole
from dilutron.posterior import Posterior
from dilutron.priors import Prior
from dilutron.problem import Problem
from dilutron.special import Vector

Mask = NDArray[np.bool_]
Callback = Callable[[Any], object]


@dataclass(frozen=True)
class RFPIOptions:
    """RFPI: minimise the L1 norm plus lam times the one-sided squares of the fields, on the sphere, as lam grows.

    Parameters
    ----------
    lam : float
        First weight of the labels, in units of the inverse mean square norm of a column. On standard patterns hardly
        a weight survives 10, and about the right number 640: sparser starts end worse, and in NARFPI they leave out
        labels that nothing then brings back.
    growth : float
        Factor from one level of lam to the next, above 1.
    levels : int
        Number of levels. The last lam of the defaults is about 10,000: beyond, noiseless errors fall no further.
    step : float
        Length of the descent steps, in units of the inverse largest curvature: up to 1 they cannot overshoot.
    inner : int
        Steps on one level at most, before the next is tried. The last has no such limit.
    tol : float
        A level has settled when a step moves the unit vector by less than this.
    max_iter : int
        Steps of all levels together.
    """

    lam: float = 640.0
    growth: float = 1.2
    levels: int = 16
    step: float = 1.0
    inner: int = 200
    tol: float = 5e-5
    max_iter: int = 10_000

    def __post_init__(self) -> None:
        positive(lam=self.lam, growth=self.growth, step=self.step, tol=self.tol)
        whole(levels=self.levels, inner=self.inner, max_iter=self.max_iter)
        for name, low, high in (("lam", 1e-9, 1e9), ("growth", 1.0, 100.0), ("step", 0.0, 2.0), ("tol", 0.0, 1.0)):
            if not low < getattr(self, name) <= high:
                raise ValueError(f"{name} must be above {low:g} and at most {high:g}, got {getattr(self, name)!r}")
        if self.lam * self.growth**self.levels > 1e100:
            raise ValueError(f"levels must be fewer, or growth smaller: {self.levels} levels end beyond lam = 1e100")


@dataclass(frozen=True)
class NARFPIOptions(RFPIOptions):
    """Those of RFPI, and the number of wrong labels.

    Parameters
    ----------
    flips : int
        Number of wrong labels, needed; 0 gives RFPI.
    """

    flips: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        needed(self, "flips", "the number of wrong labels", at_least=0)
        if self.flips and self.levels < 2:
            raise ValueError("levels must be at least 2: which labels are wrong is looked for from the second on")


class Descent(NamedTuple):
    """A unit vector on its way down, the labels left out, and where in the levels of lam it stands."""

    weights: Vector
    outliers: Mask
    left: int
    age: int
    change: float

    @property
    def error(self) -> float:
        """Levels still to come, plus the latest move of the unit vector; a vector shrunk to zero has no direction."""
        return np.inf if self.failed else self.left + self.change

    @property
    def failed(self) -> bool:
        """True where nothing is left of the weights."""
        return not np.any(self.weights)


def unit(weights: Vector) -> Vector:
    """The weights at length 1; zero stays zero."""
    norm = np.linalg.norm(weights)
    return weights / norm if norm > 0.0 else weights


def back_projection(design: Vector) -> Vector:
    """X'y, where every method starts; sums that are mere rounding are zero, lest they pass for a direction."""
    total = design.sum(axis=0)
    noise = len(design) * np.finfo(np.float64).eps * np.abs(design).sum(axis=0)
    return np.where(np.abs(total) > noise, total, 0.0)


def largest(weights: Vector, k: int) -> Mask:
    """Where the `k` entries of largest size stand."""
    chosen = np.zeros(weights.size, dtype=np.bool_)
    chosen[np.argpartition(np.abs(weights), -k)[-k:]] = True
    return chosen


def thresholded(weights: Vector, k: int) -> Vector:
    """The `k` largest entries, the rest zero."""
    return np.where(largest(weights, k), weights, 0.0)


def worst(fields: Vector, flips: int) -> Mask:
    """The labels most violated, at most `flips`: the outliers of AOP. A satisfied label never is one."""
    if flips == 0:
        return np.zeros(fields.size, dtype=np.bool_)
    loss = np.maximum(-fields, 0.0)
    return largest(loss, flips) & (loss > 0.0)


def descended(weights: Vector, design: Vector, trusted: Mask, step: float, threshold: float) -> Vector:
    """RFPI's update: down the one-sided squares along the sphere, shrink, and back onto the sphere."""
    slope = design.T @ (np.minimum(design @ weights, 0.0) * trusted)
    moved = weights - step * (slope - (slope @ weights) * weights)
    return unit(np.sign(moved) * np.maximum(np.abs(moved) - step * threshold, 0.0))


def descent(weights: Vector, n_labels: int, levels: int = 1) -> Descent:
    """The start of a descent, with no label left out."""
    return Descent(unit(weights), np.zeros(n_labels, dtype=np.bool_), levels - 1, 0, 1.0)


def descent_step(
    state: Descent,
    design: Vector,
    thresholds: tuple[float, ...],
    *,
    flips: int = 0,
    step: float = 1.0,
    tol: float = 0.0,
    inner: int = 1,
) -> Descent:
    """One step on the present level, or the first on the next, which sees anew which labels are outliers."""
    outliers, left, age = state.outliers, state.left, state.age
    if left > 0 and (state.change < tol or age >= inner):
        outliers, left, age = worst(design @ state.weights, flips), left - 1, 0
    weights = descended(state.weights, design, ~outliers, step, thresholds[-1 - left])
    return Descent(weights, outliers, left, age + 1, float(np.linalg.norm(weights - state.weights)))


def solve_rfpi(
    problem: Problem,
    weights: Prior,
    labels: Prior,
    options: RFPIOptions | None = None,
    *,
    callback: Callback | None = None,
) -> Posterior:
    """L1 on the sphere by renormalised fixed point iteration. The priors are passed through, not used.

    The error is the number of levels of lam still to come plus the latest move of the unit vector. Weights that the
    first lam shrinks to zero end the run as DIVERGED, with the state before.
    """
    return _descend("rfpi", problem, weights, labels, options or RFPIOptions(), None, callback)


def solve_narfpi(
    problem: Problem,
    weights: Prior,
    labels: Prior,
    options: NARFPIOptions | None = None,
    *,
    callback: Callback | None = None,
) -> Posterior:
    """RFPI that leaves out the labels most violated, found anew at every level of lam: they are `flip`, 0 or 1."""
    options = options or NARFPIOptions()
    return _descend("narfpi", problem, weights, labels, options, options.flips, callback)


def _descend(
    method: str,
    problem: Problem,
    weights: Prior,
    labels: Prior,
    options: RFPIOptions,
    flips: int | None,
    callback: Callback | None,
) -> Posterior:
    began = time.perf_counter()
    _, outliers = fitting(problem, weights, labels, None, flips)
    design = scaled(problem)
    first = np.sum(design**2) / design.shape[1] / options.lam
    step = partial(
        descent_step,
        design=design,
        thresholds=tuple(first / options.growth**level for level in range(options.levels)),
        flips=outliers,
        step=options.step,
        tol=options.tol,
        inner=options.inner,
    )
    start = descent(back_projection(design), len(design), options.levels)
    run = iterate(step, start, tol=options.tol, max_iter=options.max_iter, callback=callback)
    return posterior_at(method, problem, weights, labels, run, flips, began)


class _Located(State, Protocol):
    @property
    def weights(self) -> Vector: ...


def posterior_at(
    method: str,
    problem: Problem,
    weights: Prior,
    labels: Prior,
    run: Run[Any],
    flips: int | None,
    began: float,
) -> Posterior:
    """The best state of a run as a posterior without spread; at most `flips` labels are called wrong."""
    best: _Located = run.best
    n_features = best.weights.size
    return Posterior(
        method=method,
        mean=unit(best.weights),
        std=np.zeros(n_features),
        inclusion=None,
        flip=None if flips is None else worst(problem.signed() @ best.weights, flips).astype(np.float64),
        weights=weights,
        labels=labels,
        log_evidence=None,
        status=run.status,
        mismatch=best.error,
        trace=tuple(Mark(method, error) for error in run.trace),
        seconds=time.perf_counter() - began,
        names=problem.names,
        center=problem.center,
        scale=problem.scale,
        source=partial(Covariance, np.zeros(n_features), np.zeros((0, n_features)), np.zeros(0)),
    )


def scaled(problem: Problem) -> Vector:
    """The signed design at spectral norm 1, which no direction notices: one-sided squares then curve by at most 1."""
    design = problem.signed()
    gram = design @ design.T if len(design) < design.shape[1] else design.T @ design  # far cheaper than an SVD
    return np.asarray(design / np.sqrt(np.linalg.eigvalsh(gram)[-1]))


def needed(options: Any, name: str, meaning: str, at_least: int) -> None:
    """ValueError where an option that is prior knowledge is missing, or not a whole number."""
    if getattr(options, name) is None:
        kind = type(options).__name__
        raise ValueError(f"{name}, {meaning}, must be given: {kind}({name}=...), or use a method that needs none.")
    whole(at_least, **{name: getattr(options, name)})


def fitting(problem: Problem, weights: Prior, labels: Prior, k: int | None, flips: int | None) -> tuple[int, int]:
    """The two numbers, 0 where absent; ValueError where the problem is too small for them, or a prior misplaced."""
    problem.check_priors(weights, labels)
    n_patterns, n_features = problem.X.shape
    if k is not None and k > n_features:
        raise ValueError(f"k = {k} nonzero weights are more than the N = {n_features} columns of X: lower k.")
    if flips is not None and flips >= n_patterns:
        raise ValueError(f"flips = {flips} wrong labels leave none of the M = {n_patterns} labels right: lower flips.")
    return k or 0, flips or 0

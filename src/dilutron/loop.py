"""The one iteration driver of the library, how a run ended, and Anderson acceleration."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from itertools import pairwise
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from scipy.linalg import lstsq

from dilutron.special import Vector

SMALL = 0.01  # error below which steps are nearly linear, and acceleration does not lead to another fixed point
HISTORY = 10  # steps that it looks back to
MISLED = 3.0  # growth of the error by which a leap has left the linear range


class Status(Enum):
    """How a run ended."""

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    DIVERGED = "diverged"
    COLLAPSED = "collapsed"
    STOPPED = "stopped"

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return _MESSAGES[self]


_MESSAGES = {
    Status.CONVERGED: "The run reached its tolerance.",
    Status.MAX_ITER: "The tolerance was not reached before progress or the iterations (max_iter) ended; see the trace.",
    Status.DIVERGED: "The numbers left the valid range: no step was possible, or the answer failed its own check.",
    Status.COLLAPSED: "Every weight fell to zero, a trap that hard labels allow: use a finite beta, or a larger rho.",
    Status.STOPPED: "The callback asked to stop.",
}


class State(Protocol):
    """What the loop asks of a state."""

    @property
    def error(self) -> float:
        """What is compared with the tolerance."""

    @property
    def failed(self) -> bool:
        """True where no further step makes sense."""


S = TypeVar("S", bound=State)


class Run(NamedTuple, Generic[S]):
    """How an iteration ended, its best and its last state, and the error of every state, the first included."""

    best: S
    last: S
    status: Status
    trace: tuple[float, ...]


def iterate(
    step: Callable[[S], S],
    state: S,
    *,
    tol: float,
    max_iter: int,
    patience: int | None = None,
    keep: Callable[[S], S] = lambda state: state,
    callback: Callable[[S], object] | None = None,
) -> Run[S]:
    """Step until the error is below `tol`, the state has failed, or `max_iter` states have been seen.

    With `patience`, a run also ends as MAX_ITER when its smallest error is that many states old. Of the best state so
    far only `keep(state)` is held, which may drop what only a next step would need.
    A `callback(state)` sees every state, the first included; where it returns True the run stops.
    """
    trace, best, age = [state.error], keep(state), 0
    while True:
        answer = None if callback is None else callback(state)
        if isinstance(answer, (bool, np.bool_)) and answer:
            return Run(best, state, Status.STOPPED, tuple(trace))
        if state.failed:
            return Run(best, state, Status.DIVERGED, tuple(trace))
        if state.error < tol:
            return Run(state, state, Status.CONVERGED, tuple(trace))
        if len(trace) >= max_iter or (patience is not None and age > patience):
            return Run(best, state, Status.MAX_ITER, tuple(trace))
        state = step(state)
        trace.append(state.error)
        best, age = (keep(state), 0) if state.error < best.error else (best, age + 1)


class Memory(NamedTuple):
    """The latest points of a fixed-point iteration and their residuals, for Anderson acceleration."""

    points: tuple[Vector, ...] = ()
    residuals: tuple[Vector, ...] = ()

    def seen(self, point: Vector, residual: Vector, size: int) -> Self:
        """This memory with one more point, and at most `size` differences between points."""
        return self._replace(
            points=(*self.points, point)[-size - 1 :], residuals=(*self.residuals, residual)[-size - 1 :]
        )

    def extrapolated(self, scale: Vector, mixing: float) -> Vector:
        """The next point: where the linear model of the residuals is smallest, plus `mixing` of what is left.

        `scale` has the units of 1/point, so that the least squares weighs every coordinate alike.
        """
        point, residual = self.points[-1], self.residuals[-1]
        scaled = np.empty((len(self.points) - 1, point.size))
        for row, (old, new) in zip(scaled, pairwise(self.residuals), strict=True):
            np.multiply(new - old, scale, out=row)
        # Nearly parallel changes would blow up the coefficients: the smallest directions are cut off.
        weights = lstsq(
            scaled.T, residual * scale, cond=1e-8, overwrite_a=True, check_finite=False, lapack_driver="gelsy"
        )[0]
        jump = point + mixing * residual
        for weight, *ends in zip(weights, pairwise(self.points), pairwise(self.residuals), strict=True):
            (old, new), (was, now) = ends
            jump -= weight * (new - old + mixing * (now - was))
        return np.asarray(jump)


class Point(NamedTuple):
    """All that a step takes from a state, as one vector, and the scale in which its entries are alike."""

    values: Vector
    scale: Vector  # has the units of 1/values


class Remembering(NamedTuple, Generic[S]):
    """A state and the steps that led to it."""

    state: S
    memory: Memory = Memory()

    @property
    def error(self) -> float:
        """The state's."""
        return self.state.error

    @property
    def failed(self) -> bool:
        """The state's."""
        return self.state.failed


def iterate_accelerated(
    step: Callable[[S], S],
    state: S,
    *,
    point: Callable[[S], Point],
    moved: Callable[[S, Vector], S],
    tol: float,
    max_iter: int,
    patience: int | None = None,
    callback: Callable[[S], object] | None = None,
) -> Run[S]:
    """`iterate`; once the error is small, each step begins where the memory of the last ones points to.

    Every state seen is one that `step` made, so its error is that of the plain iteration. `moved(state, values)` is the
    state with these values in place of `point(state).values`.
    """

    def leap(now: Remembering[S]) -> Remembering[S]:
        return _leapt(now, step, point, moved)

    def forgetful(now: Remembering[S]) -> Remembering[S]:
        return Remembering(now.state)

    def told(now: Remembering[S]) -> object:
        return None if callback is None else callback(now.state)

    first = Remembering(state)
    run = iterate(leap, first, tol=tol, max_iter=max_iter, patience=patience, keep=forgetful, callback=told)
    return Run(run.best.state, run.last.state, run.status, run.trace)


def _leapt(
    now: Remembering[S], step: Callable[[S], S], point: Callable[[S], Point], moved: Callable[[S, Vector], S]
) -> Remembering[S]:
    """One step, and one more memory; a leap from which there is no step is taken back and forgotten."""
    state, memory = now
    leaps = state.error < SMALL and len(memory.points) > 2
    with np.errstate(all="ignore"):  # values out of range are looked for
        start = moved(state, memory.extrapolated(point(state).scale, 1.0)) if leaps else state
        new = step(start)
        if new.failed:
            return Remembering(state if leaps else new)
        here = point(start).values
        residual = point(new).values - here
    if (leaps and new.error > MISLED * state.error) or not np.all(np.isfinite(residual)):
        return Remembering(new)
    return Remembering(new, memory.seen(here, residual, HISTORY))

"""The ladder: ways to run EP at fixed priors, from the quickest to the most patient, until one converges."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, Protocol

import numpy as np

from dilutron.ep import Blocks, Visit, collapsed, prior_scale
from dilutron.gaussian import Gaussian, Sites
from dilutron.loop import Memory, Status, iterate
from dilutron.stepping import BRIEF, RESTLESS, EPState, Pace, Teach, init, step

ENDED = (Status.CONVERGED, Status.STOPPED)
COOLING_TOL = 1e-2  # a heated stage only leads the way


class Rung(NamedTuple):
    """One way to run EP: its pace, the noise levels to cool through first, and how long to wait for progress.

    Of `proper` blocks no factor may make its variable less certain (see `Block`). Proper labels leave the fixed points
    of EP only where a label speaks against all others, and end many of the swings that wide tables and sparse weights
    bring; proper weights leave them where the data cannot tell which of some weights are present, and end the rest.
    """

    name: str
    pace: Pace
    temperatures: tuple[float, ...]
    patience: int
    proper: Literal["", "labels", "all"] = ""


# Acceleration can be drawn to a place where EP has almost, but not quite, a fixed point; "late" waits longer.
LADDER = (
    Rung("direct", Pace(), (), 80),
    Rung("late", Pace(accelerate_below=0.01), (), 80),
    Rung("annealed", Pace(), (0.5, 0.2, 0.1, 0.05, 0.02), 80),
    Rung("steady", Pace(0.7), (), 150),
    Rung("gentle", Pace(0.9, 0.01), (), 250),
    Rung("slow", Pace(0.95, 0.01), (), 300),
    Rung("gentle, annealed", Pace(0.9, 0.3, 5), (0.5, 0.2, 0.1, 0.05, 0.02, 0.01), 250),
    Rung("proper", Pace(), (), 80, "labels"),
)
# Where EP would swing and iterations are dear: means are moved alone between them, and where that finds no rest, not.
PROPER = (
    Rung("proper", Pace(0.35, history=BRIEF, means=8), (), 15, "labels"),
    Rung("proper, weights too", Pace(history=BRIEF), (), 25, "all"),
)
# Where a factorisation takes so long that a working set comes to rest in the time of a few.
PARTLY = (
    Rung("proper, in parts", Pace(0.1, 10.0, BRIEF, means=8, parts=True), (), 15, "labels"),
    Rung("proper, weights too, in parts", Pace(0.1, 10.0, BRIEF, means=8, parts=True), (), 15, "all"),
)


class Mark(NamedTuple):
    """One row of a trace: which rung of the ladder, and the error there."""

    stage: str
    error: float


class Resting(Protocol):
    """A state at rest: what a posterior is made of."""

    @property
    def here(self) -> Visit:
        """The last visit."""

    @property
    def blocks(self) -> Blocks:
        """The priors."""

    @property
    def error(self) -> float:
        """What was compared with the tolerance."""


class Settled(NamedTuple):
    """Where EP came to rest at fixed priors, how, and the way there: one mark per factorisation."""

    state: Resting
    status: Status
    trace: tuple[Mark, ...]
    failures: int
    invalid: int

    def after(self, earlier: Settled | None) -> Settled:
        """This rest, with the way to an earlier one put before its own."""
        if earlier is None:
            return self
        return self._replace(
            trace=earlier.trace + self.trace,
            failures=earlier.failures + self.failures,
            invalid=earlier.invalid + self.invalid,
        )


Callback = Callable[[Resting], object]


def settle(
    gaussian: Gaussian,
    blocks: Blocks,
    *,
    tol: float,
    max_iter: int,
    ladder: tuple[Rung, ...] = LADDER,
    start: Sites | None = None,
    callback: Callback | None = None,
    teach: Teach | None = None,
) -> Settled:
    """Run EP rung by rung until one converges; the best of them where none does. Priors are fixed, or taught along."""
    best = tried = _follow(ladder[0], gaussian, blocks, tol, max_iter, start, callback, teach)
    for rung in ladder[1:]:
        if tried.status in ENDED or len(tried.trace) >= max_iter:
            break
        budget = max_iter - len(tried.trace)
        warm = start if rung.proper else None  # what EP swings around, proper labels may rest at
        tried = _follow(rung, gaussian, blocks, tol, budget, warm, callback, teach).after(tried)
        best = tried if tried.status in ENDED or _closer(tried, best) else best
    return best._replace(trace=tried.trace, failures=tried.failures, invalid=tried.invalid)


def _follow(
    rung: Rung,
    gaussian: Gaussian,
    blocks: Blocks,
    tol: float,
    budget: int,
    start: Sites | None,
    callback: Callback | None,
    teach: Teach | None,
) -> Settled:
    """One rung: through its temperatures, each started where the last one ended, then at the true one."""
    way, left = None, budget
    for temperature in rung.temperatures if budget > 1 else ():
        noise_unit = float(np.mean(prior_scale(blocks, gaussian)[gaussian.shape[1] :] ** 2))
        hot = tuple(b._replace(prior=b.prior.heated(temperature**2 * noise_unit)) for b in blocks)
        name = f"{rung.name} at {temperature:g}"
        way = _attempt(name, rung, gaussian, hot, COOLING_TOL, max(1, left - 1), start, callback).after(way)
        start, left = way.state.here.sites, budget - len(way.trace)
        if way.status is Status.STOPPED or left <= 1:
            last = _attempt(rung.name, rung, gaussian, blocks, tol, 1, start, None).after(way)
            return last._replace(status=way.status if way.status is Status.STOPPED else last.status)
    return _attempt(rung.name, rung, gaussian, blocks, tol, left, start, callback, teach).after(way)


def _attempt(
    name: str,
    rung: Rung,
    gaussian: Gaussian,
    blocks: Blocks,
    tol: float,
    limit: int,
    start: Sites | None,
    callback: Callback | None,
    teach: Teach | None = None,
) -> Settled:
    """One run of EP at one temperature."""
    labels = blocks[-1]._replace(proper=rung.proper != "")
    blocks = (*(block._replace(proper=rung.proper == "all") for block in blocks[:-1]), labels)
    state = init(blocks, gaussian, rung.pace, start)
    if teach is not None:
        state = state._replace(unlearned=np.inf)  # until it has been asked: a start at rest may know nothing yet
    advance = partial(step, gaussian=gaussian, pace=rung.pace, teach=teach)
    run = iterate(
        advance, state, tol=tol, max_iter=limit, patience=rung.patience, keep=_without_memory, callback=callback
    )
    if run.status is Status.DIVERGED and run.last.restless > RESTLESS:  # no number is out of range
        rests = run.last.error < tol
        run = run._replace(status=Status.CONVERGED if rests else Status.MAX_ITER, best=run.last if rests else run.best)
    trace, fallen = tuple(Mark(name, error) for error in run.trace), collapsed(run.last.here, blocks)
    fallen = fallen and run.status is not Status.STOPPED
    state, status = (run.last, Status.COLLAPSED) if fallen else (run.best, run.status)
    return Settled(state, status, trace, run.last.failures, run.last.invalid)


def _without_memory(state: EPState) -> EPState:
    """A state to go back to, not to step from."""
    return state._replace(memory=Memory())


def _closer(tried: Settled, best: Settled) -> bool:
    """A run that did not collapse beats one that did; otherwise the smaller mismatch wins."""
    fallen, was = tried.status is Status.COLLAPSED, best.status is Status.COLLAPSED
    return (was and not fallen) or (was == fallen and tried.state.error < best.state.error)

"""EP's iteration: one step from visit to visit, and what brings the next visit nearer at less than a factorisation.

Between two factorisations the means may be moved at the variances as they are, and on wide tables a working set, the
weights that matter and all labels, may come to rest with the sites of all other weights as they are. Neither changes
where EP rests: that is asked of a visit alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dilutron.ep import (
    Blocks,
    Visit,
    all_copies,
    collapsed,
    flat_sites,
    mismatches,
    prior_scale,
    visit,
)
from dilutron.gaussian import LOOSE, Gaussian, Marginals, NotPositive, Sites
from dilutron.loop import Memory, Status, iterate
from dilutron.priors import Gaussians
from dilutron.special import Vector

LONG = 30  # steps that acceleration looks back to: with ten, it stalls where EP has more slow directions than that
BRIEF = 10  # where the weights are many, and a longer look back would cost more than a factorisation; and at
FAR = 0.1  # a mismatch from which steps are so little linear that older ones mislead
RETREATS = 12  # halvings of one step before the run gives up
ENOUGH = 0.1  # mismatch of what is moved alone, in units of that of the rest, at which that has done its work
POWER = 4.0  # second moment of a weight, in units of its prior's, from which it matters
FEW = 0.125  # share of all weights that a working set may be
LONGEST, PATIENCE = 30, 8  # iterations of a working set at most, and without progress
FINEST = 1e-4  # mismatch to which it is brought at most
RESTLESS = 2  # of these in a row that find no rest before the run gives up

# From a visit's cavities and the root mean square of its mismatches: better priors, and how far they are from the old,
# as an error.
Teach = Callable[[Blocks, Gaussians, float], tuple[Blocks, float]]


class Pace(NamedTuple):
    """How boldly to step: `damping` is the weight of the old value; below a mismatch, accelerate over a history.

    After each factorisation the means may be moved up to `means` times at the precisions as they are. Where `parts`,
    before each one a working set comes to rest.
    """

    damping: float = 0.5
    accelerate_below: float = 1.0
    history: int = LONG
    means: int = 0
    parts: bool = False


MEANS = Pace(0.3, np.inf, 8)  # of moving them
PART = Pace(0.4, 10.0, BRIEF)  # of a working set


class Means(NamedTuple):
    """A visit whose precisions, and so its variances, stay as they are while its means come to agree."""

    here: Visit
    memory: Memory
    error: float  # the largest mismatch of a mean

    @property
    def failed(self) -> bool:
        """True where a cavity has become invalid."""
        return self.here.invalid > 0


class EPState(NamedTuple):
    """The last valid visit, the proposal to visit next, and the counts that are reported."""

    here: Visit
    blocks: Blocks
    scale: Vector
    proposal: Sites
    damping: float
    memory: Memory = Memory()
    accelerated: bool = False
    retreats: int = 0
    failures: int = 0
    invalid: int = 0
    unlearned: float = 0.0
    restless: int = 0  # working sets in a row that found no rest

    @property
    def error(self) -> float:
        """The undamped moment mismatch, or what parameters that are learned along still change."""
        return max(self.here.mismatch, self.unlearned)

    @property
    def failed(self) -> bool:
        """True where a step has been shortened to nothing, no working set rests, or the weights are in the trap.

        Restlessness is no divergence: see `ladder`.
        """
        return self.retreats > RETREATS or self.restless > RESTLESS or collapsed(self.here, self.blocks)


def init(blocks: Blocks, gaussian: Gaussian, pace: Pace, start: Sites | None = None) -> EPState:
    """Begin at `start`, or flat."""
    scale, sites, failures = prior_scale(blocks, gaussian), start or flat_sites(blocks), 0
    with np.errstate(all="ignore"):
        try:
            here = _visited(sites, gaussian, blocks, scale, pace)
        except NotPositive:  # a warm start may be improper under other priors: begin flat instead
            sites, failures = flat_sites(blocks), 1
            here = _visited(sites, gaussian, blocks, scale, pace)
    state = EPState(here, blocks, scale, _damped(here, pace.damping), pace.damping)
    return state._replace(failures=failures, invalid=here.invalid)


def _visited(sites: Sites, gaussian: Gaussian, blocks: Blocks, scale: Vector, pace: Pace) -> Visit:
    """One factorisation, and as many moves of the means alone as bring them well below the variances' mismatch."""
    here = visit(sites, gaussian.marginals(all_copies(sites, blocks)), blocks, scale)
    if pace.means > 0 and here.marginals.means_at is not None:
        of_means, of_variances = mismatches(here.tilted, here.marginals, scale).max(axis=1)
        move = partial(_mean_step, blocks=blocks, scale=scale)
        start, tol = Means(here, Memory(), of_means), ENOUGH * float(of_variances)
        with suppress(NotPositive):  # a move too far: the visit before it stands
            here = iterate(move, start, tol=tol, max_iter=pace.means).best.here
    # What gives the means holds the matrices of the factorisation, of which none should outlive the next one.
    return here._replace(marginals=here.marginals._replace(means_at=None))


def _mean_step(state: Means, blocks: Blocks, scale: Vector) -> Means:
    """The shifts that would give the marginals the tilted means, were the cavities to stay; accelerated.

    Of a whole: the log normaliser of a part would move in another way.
    """
    (precision, shift), (mean, var, log_z, means_at) = state.here.sites, state.here.marginals
    assert means_at is not None  # of a backend that has none no step is asked
    memory = state.memory.seen(shift, (state.here.tilted.mean - mean) / var, MEANS.history)
    if len(memory.points) > 2:
        shift = memory.extrapolated(np.sqrt(var), 1.0 - MEANS.damping)
    else:
        shift = shift + (1.0 - MEANS.damping) * memory.residuals[-1]
    sites, was = Sites(precision, shift), all_copies(state.here.sites, blocks).shift @ mean
    together = all_copies(sites, blocks).shift
    mean = means_at(together)
    marginals = Marginals(mean, var, log_z + 0.5 * float(together @ mean - was), means_at)
    here = visit(sites, marginals, blocks, scale)
    error = np.inf if here.invalid else float(mismatches(here.tilted, marginals, scale)[0].max())
    return Means(here, memory, error)


def working_set(sites: Sites, here: Visit, blocks: Blocks) -> NDArray[np.intp] | None:
    """The weights that matter, one at least, of the first block by their power; None where these are too many."""
    weights, n_weights = blocks[0], blocks[-1].where.start
    mean, var, precision = (v[weights.where] for v in (here.tilted.mean, here.tilted.var, sites.precision))
    matters = np.ones(n_weights, bool)
    power = (mean**2 + var) * weights.prior.flat_precision()
    matters[weights.where] = power >= min(POWER, float(power.max()))
    matters[weights.where] |= precision <= LOOSE * max(float(np.median(precision)), 0.0)  # cannot be left as they are
    return np.flatnonzero(matters) if matters.sum() < FEW * n_weights else None


def _some(blocks: Blocks, which: NDArray[np.intp]) -> Blocks:
    """The blocks of these weights and of all labels; only of the first are some weights left out."""
    first, gone = int(np.sum(which < blocks[0].where.stop)), blocks[-1].where.start - which.size
    rest = (b._replace(where=slice(b.where.start - gone, b.where.stop - gone)) for b in blocks[1:])
    return (blocks[0]._replace(where=slice(0, first), prior=blocks[0].prior.some(which[:first])), *rest)


def _relaxed(state: EPState, gaussian: Gaussian, teach: Teach | None) -> EPState:
    """The proposal with its working set at rest, and the labels' prior as that teaches; or as it was."""
    sites, blocks, here = state.proposal, state.blocks, state.here
    which = working_set(sites, here, blocks)
    part = None if which is None else gaussian.part(which, all_copies(sites, blocks))
    if which is None or part is None:
        return state._replace(restless=0)
    some, labels = _some(blocks, which), np.arange(blocks[-1].where.start, state.scale.size)
    chosen = np.concatenate([which, labels])
    start, scale = Sites(*(values[chosen] for values in sites)), state.scale[chosen]
    try:
        begin = _visited(start, part, some, scale, PART)
    except NotPositive:
        return state._replace(restless=0)
    off = np.delete(mismatches(here.tilted, here.marginals, state.scale), chosen, axis=1).max()
    move = partial(step, gaussian=part, pace=PART, teach=None if teach is None else partial(_of_labels, teach))
    first = EPState(begin, some, scale, _damped(begin, PART.damping), PART.damping)
    tol = float(np.clip(ENOUGH * off, FINEST, ENOUGH))
    run = iterate(move, first, tol=tol, max_iter=LONGEST, patience=PATIENCE)
    rested, restless = run.best, 0 if run.status is Status.CONVERGED else state.restless + 1
    proposal = Sites(*(values.copy() for values in sites))
    for values, new in zip(proposal, rested.here.sites, strict=True):
        values[chosen] = new
    taught = blocks[-1]._replace(prior=rested.blocks[-1].prior)
    return state._replace(proposal=proposal, blocks=(*blocks[:-1], taught), restless=restless)


def _of_labels(teach: Teach, blocks: Blocks, cavity: Gaussians, mismatch: float) -> tuple[Blocks, float]:
    """What a working set teaches of the labels. How far that has come is asked at whole visits."""
    return (*blocks[:-1], *teach(blocks[-1:], cavity, mismatch)[0]), 0.0


def step(state: EPState, gaussian: Gaussian, pace: Pace, teach: Teach | None = None) -> EPState:
    """One factorisation: visit the proposal and make the next one, or retreat from it.

    Where there is a `teach`, the priors learn along the way.
    """
    with np.errstate(all="ignore"):  # invalid values are looked for and counted, not warned about
        state = _relaxed(state, gaussian, teach) if pace.parts else state
        try:
            here = _visited(state.proposal, gaussian, state.blocks, state.scale, pace)
        except NotPositive:
            return _retreat(state)
        if state.accelerated and here.invalid > state.here.invalid:  # a jump too far; a damped step may yet be good
            return _retreat(state)
        if teach is not None:
            off = np.inf if here.invalid else here.spread  # few weights that swing do not make the labels unheard
            blocks, unlearned = teach(state.blocks, here.cavity, off)
            state = state._replace(blocks=blocks, unlearned=unlearned)
        return _advance(state, here, pace)


def _advance(state: EPState, here: Visit, pace: Pace) -> EPState:
    """Propose the next sites: extrapolated where the memory serves, damped otherwise."""
    misled = state.accelerated and here.spread > 3.0 * state.here.spread
    memory = Memory() if misled else state.memory
    point = np.concatenate(here.sites)
    history = pace.history if here.mismatch < FAR else min(pace.history, BRIEF)
    memory = memory.seen(point, np.concatenate(here.target) - point, history)
    damping = max(pace.damping, 1.0 - 1.1 * (1.0 - state.damping))
    accelerated = here.mismatch < pace.accelerate_below and len(memory.points) > 2
    if accelerated:
        var = here.marginals.var
        jump = memory.extrapolated(np.concatenate([var, np.sqrt(var)]), 1.0 - damping)
        proposal = Sites(*np.split(jump, 2))
    else:
        proposal = _damped(here, damping)
    return state._replace(
        here=here,
        proposal=proposal,
        damping=damping,
        memory=memory,
        accelerated=accelerated,
        retreats=0,
        invalid=state.invalid + here.invalid,
    )


def _retreat(state: EPState) -> EPState:
    """The proposal was improper: forget the history, and go less far."""
    damping = state.damping if state.accelerated else min(0.5 * (1.0 + state.damping), 0.98)
    if state.accelerated:
        proposal = _damped(state.here, damping)
    else:
        pairs = zip(state.here.sites, state.proposal, strict=True)
        proposal = Sites(*(old + 0.4 * (new - old) for old, new in pairs))
    return state._replace(
        proposal=proposal,
        damping=damping,
        memory=Memory(),
        accelerated=False,
        retreats=state.retreats + 1,
        failures=state.failures + 1,
    )


def _damped(here: Visit, damping: float) -> Sites:
    """Natural parameters mixed: `damping` is the weight of the old value."""
    pairs = zip(here.sites, here.target, strict=True)
    return Sites(*(damping * old + (1.0 - damping) * new for old, new in pairs))

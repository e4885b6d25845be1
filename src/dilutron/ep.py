"""Expectation propagation: the map from sites to sites, one step of it, and the log evidence."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dilutron.gaussian import Gaussian, Marginals, NotPositive, Sites
from dilutron.loop import Memory, iterate
from dilutron.priors import Gaussians, Prior, Tilted
from dilutron.special import Vector

COLLAPSE = 1e-4  # below this share of the prior's power the weights have fallen into the trap w = 0
MARGIN = 1e-12  # cavity precisions below this share of the marginal's are rounding noise around zero
ENOUGH = 0.1  # mismatch of the means, in units of the variances', at which moving them alone has done its work
RETREATS = 12  # halvings of one step before the run gives up


class Block(NamedTuple):
    """A run of variables that share a prior. The engine does not know weights from labels from an intercept.

    Where `tied`, their variances are matched on average only, so that all their sites have one precision: EP is VAMP.
    Where `proper`, no factor may make its variable less certain than without it, so that no site has a negative
    precision: what a factor that is not log-concave then cannot say of its variance is left unsaid.
    """

    where: slice
    prior: Prior
    tied: bool = False
    proper: bool = False

    def tilted(self, cavity: Gaussians) -> Tilted:
        """The prior's moments in these variables' cavities, Eqs. (22) to (24)."""
        part = self.part(cavity)
        log_z, mean, var = self.prior.moments(part)
        var = np.where(part.var > 0.0, np.minimum(var, part.var), var) if self.proper else var
        return Tilted(log_z, mean, np.full_like(var, var.mean()) if self.tied else var)

    def part(self, cavity: Gaussians) -> Gaussians:
        """The cavities of these variables."""
        return Gaussians(cavity.mean[self.where], cavity.var[self.where])


Blocks = tuple[Block, ...]
# From a visit's cavities and mismatch: better priors, and how far they are from the old, as an error.
Teach = Callable[[Blocks, Gaussians, float], tuple[Blocks, float]]


class Visit(NamedTuple):
    """All that EP knows at one point: the sites, what they imply, and where they want to go."""

    sites: Sites
    marginals: Marginals
    cavity: Gaussians
    tilted: Tilted
    target: Sites
    mismatch: float  # the largest
    spread: float  # their root mean square
    invalid: int  # cavities without positive variance
    multiplicity: Vector  # how often each factor counts


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

    @property
    def error(self) -> float:
        """The undamped moment mismatch, or what parameters that are learned along still change."""
        return max(self.here.mismatch, self.unlearned)

    @property
    def failed(self) -> bool:
        """True where a step has been shortened to nothing, or the weights have fallen into the trap."""
        return self.retreats > RETREATS or collapsed(self.here, self.blocks)


def collapsed(here: Visit, blocks: Blocks) -> bool:
    """True where hard labels have driven the weights, the first block, to zero: that satisfies them all."""
    where = blocks[0].where
    return fallen(Gaussians(here.tilted.mean[where], here.tilted.var[where]), blocks)


def fallen(weights: Gaussians, blocks: Blocks) -> bool:
    """The same of these moments of the weights."""
    if not any(block.prior.hard for block in blocks):
        return False
    with np.errstate(all="ignore"):  # moments that overflow are anything but small
        power = (weights.mean**2 + weights.var) * blocks[0].prior.flat_precision()
        return float(np.mean(power)) < COLLAPSE


class Pace(NamedTuple):
    """How boldly to step: `damping` is the weight of the old value; below a mismatch, accelerate over a history.

    After each factorisation the means may be moved up to `means` times at the precisions as they are.
    """

    damping: float = 0.5
    accelerate_below: float = 1.0
    history: int = 10
    means: int = 0


MEANS = Pace(0.3, np.inf, 8)  # of moving them


class Means(NamedTuple):
    """A visit whose precisions, and so its variances, stay as they are while its means come to agree."""

    here: Visit
    memory: Memory
    error: float  # the largest mismatch of a mean

    @property
    def failed(self) -> bool:
        """True where a cavity has become invalid."""
        return self.here.invalid > 0


def cavity_of(marginals: Marginals, sites: Sites, blocks: Blocks) -> tuple[Gaussians, NDArray[np.bool_]]:
    """The marginals without their own sites, and which of them their priors cannot take (those keep their marginal).

    A cavity's variance may be negative: see `Prior.admits`.
    """
    precision = 1.0 / marginals.var - sites.precision  # Eq. (33)
    margin = MARGIN / marginals.var
    precision = np.where(np.abs(precision) < margin, margin, precision)  # an exact zero has no variance
    shift = marginals.mean / marginals.var - sites.shift  # Eq. (34)
    invalid = ~np.concatenate([b.prior.admits(precision[b.where], shift[b.where]) for b in blocks])
    var = 1.0 / np.where(invalid, 1.0 / marginals.var, precision)
    return Gaussians(np.where(invalid, marginals.mean, var * shift), var), invalid


def tilt(cavity: Gaussians, blocks: Blocks) -> Tilted:
    """The moments of all blocks."""
    parts = [block.tilted(cavity) for block in blocks]
    return Tilted(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def match(tilted: Tilted, cavity: Gaussians) -> Sites:
    """The sites that give the marginals the tilted moments, Eq. (30); negative precisions are legitimate."""
    precision = 1.0 / tilted.var - 1.0 / cavity.var  # Eq. (31)
    return Sites(precision, tilted.mean / tilted.var - cavity.mean / cavity.var)  # Eq. (32)


def tied(sites: Sites, blocks: Blocks) -> Sites:
    """The sites with one precision in each tied block: a start may come from elsewhere."""
    if not any(block.tied for block in blocks):
        return sites
    precision = sites.precision.copy()
    for block in blocks:
        if block.tied:
            precision[block.where] = precision[block.where].mean()
    return sites._replace(precision=precision)


def visit(sites: Sites, marginals: Marginals, blocks: Blocks, scale: Vector) -> Visit:
    """EP's map at `sites`: cavities, tilted moments, the sites they ask for, and how far off the moments are.

    The mismatch is the largest difference of a mean, over its scale, or of a variance, relatively. A variable with an
    invalid cavity keeps its site; the mismatch is then infinite, so that no such point passes for a fixed point.
    """
    sites = tied(sites, blocks)
    cavity, invalid = cavity_of(marginals, sites, blocks)
    tilted = tilt(cavity, blocks)
    wanted = match(tilted, cavity)
    target = Sites(*(np.where(invalid, old, new) for old, new in zip(sites, wanted, strict=True)))
    if not np.all(np.isfinite(target)):
        raise NotPositive("a site is not finite")
    off = np.where(invalid, 1.0, mismatches(tilted, marginals, scale))
    mismatch = np.inf if np.any(invalid) else float(off.max())
    copies = multiplicity(blocks)
    return Visit(sites, marginals, cavity, tilted, target, mismatch, _rms(off), int(invalid.sum()), copies)


def multiplicity(blocks: Blocks) -> Vector:
    """How often the factor of each variable counts."""
    parts = [np.broadcast_to(b.prior.multiplicity, b.where.stop - b.where.start) for b in blocks]
    return np.concatenate(parts)


def all_copies(sites: Sites, blocks: Blocks) -> Sites:
    """The sites of all copies of a factor together, which is what the Gaussian sees."""
    if all(np.ndim(b.prior.multiplicity) == 0 and b.prior.multiplicity == 1.0 for b in blocks):
        return sites
    copies = multiplicity(blocks)
    return Sites(copies * sites.precision, copies * sites.shift)


def mismatches(tilted: Tilted, marginals: Marginals, scale: Vector) -> Vector:
    """Violation of Eq. (30) by every variable: of its mean in units of `scale`, of its variance relatively."""
    return np.stack([np.abs(tilted.mean - marginals.mean) / scale, np.abs(tilted.var / marginals.var - 1.0)])


def _rms(values: Vector) -> float:
    return float(np.sqrt(np.mean(values**2)))


def flat_sites(blocks: Blocks) -> Sites:
    """The start: weights at their prior's variance, labels unheard."""
    parts = [np.broadcast_to(b.prior.flat_precision(), b.where.stop - b.where.start) for b in blocks]
    precision = np.concatenate(parts)
    return Sites(precision, np.zeros_like(precision))


def prior_scale(blocks: Blocks, gaussian: Gaussian) -> Vector:
    """Prior standard deviation of every weight and field: the unit in which means are compared."""
    var = 1.0 / flat_sites(blocks).precision[: gaussian.shape[1]]
    return np.asarray(np.sqrt(np.concatenate([var, gaussian.field_var(var)])))


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
    if pace.means == 0 or here.marginals.means_at is None:
        return here
    of_means, of_variances = mismatches(here.tilted, here.marginals, scale).max(axis=1)
    move = partial(_mean_step, blocks=blocks, scale=scale)
    start, tol = Means(here, Memory(), of_means), ENOUGH * float(of_variances)
    try:
        return iterate(move, start, tol=tol, max_iter=pace.means).best.here
    except NotPositive:  # a move too far: the visit before it stands
        return here


def _mean_step(state: Means, blocks: Blocks, scale: Vector) -> Means:
    """The shifts that would give the marginals the tilted means, were the cavities to stay; accelerated."""
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


def step(state: EPState, gaussian: Gaussian, pace: Pace, teach: Teach | None = None) -> EPState:
    """One factorisation: visit the proposal and make the next one, or retreat from it.

    Where there is a `teach`, the priors learn along the way.
    """
    with np.errstate(all="ignore"):  # invalid values are looked for and counted, not warned about
        try:
            here = _visited(state.proposal, gaussian, state.blocks, state.scale, pace)
        except NotPositive:
            return _retreat(state)
        if state.accelerated and here.invalid > state.here.invalid:  # a jump too far; a damped step may yet be good
            return _retreat(state)
        if teach is not None:
            blocks, unlearned = teach(state.blocks, here.cavity, here.mismatch)
            state = state._replace(blocks=blocks, unlearned=unlearned)
        return _advance(state, here, pace)


def _advance(state: EPState, here: Visit, pace: Pace) -> EPState:
    """Propose the next sites: extrapolated where the memory serves, damped otherwise."""
    misled = state.accelerated and here.spread > 3.0 * state.here.spread
    memory = Memory() if misled else state.memory
    point = np.concatenate(here.sites)
    memory = memory.seen(point, np.concatenate(here.target) - point, pace.history)
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


def log_evidence(visit: Visit) -> float:
    """EP's estimate of log P(labels | priors), for Eq. (C1).

    log Z of the Gaussian with its sites, plus for every variable the tilted normaliser less that of cavity times
    site. The printed forms (B1), (B2) are minus infinity at zero temperature: see the ledger.
    """
    mean, var, log_z, _ = visit.marginals
    cavity = visit.cavity
    replaced = 0.5 * (np.log(var / np.abs(cavity.var)) + mean**2 / var - cavity.mean**2 / cavity.var)
    return float(log_z + np.sum(visit.multiplicity * (visit.tilted.log_z - replaced)))  # Eq. (B1)

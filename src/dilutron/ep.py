"""Expectation propagation: the map from sites to sites, how far off it is, and the log evidence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dilutron.gaussian import Gaussian, Marginals, NotPositive, Sites
from dilutron.priors import Gaussians, Prior, Tilted
from dilutron.special import Vector

COLLAPSE = 1e-4  # below this share of the prior's power the weights have fallen into the trap w = 0
MARGIN = 1e-12  # cavity precisions below this share of the marginal's are rounding noise around zero


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


def collapsed(here: Visit, blocks: Blocks) -> bool:
    """True where hard labels have driven the weights, the first block, to zero: that satisfies them all."""
    where = blocks[0].where
    return fallen(Gaussians(here.tilted.mean[where], here.tilted.var[where]), blocks)


def fallen(weights: Gaussians, blocks: Blocks) -> bool:
    """The same of these moments of the weights."""
    if weights.mean.size == 0 or not any(block.prior.hard for block in blocks):
        return False
    with np.errstate(all="ignore"):  # moments that overflow are anything but small
        power = (weights.mean**2 + weights.var) * blocks[0].prior.flat_precision()
        return float(np.mean(power)) < COLLAPSE


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

    The mismatch is the largest of all `mismatches`. A variable with an
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
    """Violation of Eq. (30) by every variable: of its variance relatively, of its mean in standard deviations.

    In those of its prior, `scale`, or its own where they are larger: of a sparse prior's few weights that are present.
    """
    unit = np.maximum(scale, np.sqrt(marginals.var))
    return np.stack([np.abs(tilted.mean - marginals.mean) / unit, np.abs(tilted.var / marginals.var - 1.0)])


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


def log_evidence(visit: Visit) -> float:
    """EP's estimate of log P(labels | priors), for Eq. (C1).

    log Z of the Gaussian with its sites, plus for every variable the tilted normaliser less that of cavity times
    site. The printed forms (B1), (B2) are minus infinity at zero temperature: see the ledger.
    """
    mean, var, log_z, _ = visit.marginals
    cavity = visit.cavity
    replaced = 0.5 * (np.log(var / np.abs(cavity.var)) + mean**2 / var - cavity.mean**2 / cavity.var)
    return float(log_z + np.sum(visit.multiplicity * (visit.tilted.log_z - replaced)))  # Eq. (B1)

"""The paper's own iteration, for reproduction: damping of (a, d), clamped variances, stopping rule (35)."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from dilutron.ep import Blocks, Visit, collapsed, mismatches, prior_scale, tilt
from dilutron.gaussian import Gaussian, NotPositive, Sites
from dilutron.ladder import Callback, Mark, Settled
from dilutron.loop import Status, iterate
from dilutron.parameters import Improve, improved
from dilutron.priors import Gaussians, Tilted
from dilutron.special import Vector

# The authors' code clamps every variance, negative ones too, to at least 1e-50. A site with so small a d loses its
# cavity to rounding after some thousand iterations, so here the floor is a share of the prior's variance.
FLOOR = 1e-8
LARGEST = 1e50


class PaperState(NamedTuple):
    """Means and variances (a, d) of the sites of Eq. (14), and what the last visit found."""

    a: Vector
    d: Vector
    blocks: Blocks
    scale: Vector
    here: Visit
    error: float
    failed: bool
    invalid: int


def visit(a: Vector, d: Vector, blocks: Blocks, gaussian: Gaussian, scale: Vector) -> Visit:
    """Cavities, tilted moments and new (a, d), as printed; the target holds them as sites."""
    sites = Sites(1.0 / d, a / d)
    marginals = gaussian.marginals(sites)
    smallest = FLOOR * scale**2
    rest = 1.0 - marginals.var / d
    cavity = Gaussians(
        mean=(marginals.mean - marginals.var * a / d) / rest,  # Eq. (34)
        var=np.clip(marginals.var / rest, smallest, LARGEST),  # Eq. (33)
    )
    tilted = tilt(cavity, blocks)
    new_d = np.clip(1.0 / (1.0 / tilted.var - 1.0 / cavity.var), smallest, LARGEST)  # Eq. (31)
    new_a = tilted.mean + new_d / cavity.var * (tilted.mean - cavity.mean)  # Eq. (32)
    off = mismatches(tilted, marginals, scale)
    invalid = int(np.sum(rest <= 0.0))
    target, once = Sites(1.0 / new_d, new_a / new_d), np.ones_like(d)
    return Visit(sites, marginals, cavity, tilted, target, float(off.max()), 0.0, invalid, once)


def change(before: Tilted, after: Tilted) -> float:
    """Largest change of a first plus a second moment, the paper's measure of convergence."""
    second = np.abs(after.var + after.mean**2 - before.var - before.mean**2)
    return float(np.max(np.abs(after.mean - before.mean) + second))  # Eq. (35)


def step(state: PaperState, gaussian: Gaussian, damping: float, names: frozenset[str], improve: Improve) -> PaperState:
    """Damp (a, d) towards the last target, visit there, and learn."""
    with np.errstate(all="ignore"):
        precision, shift = state.here.target
        a = damping * state.a + (1.0 - damping) * shift / precision
        d = damping * state.d + (1.0 - damping) / precision
        try:
            here = visit(a, d, state.blocks, gaussian, state.scale)
        except NotPositive:
            return state._replace(failed=True)
        if not np.all(np.isfinite(here.target)):
            return state._replace(failed=True)
        blocks = improved(state.blocks, here.cavity, names, improve) if names else state.blocks
    moved = change(state.here.tilted, here.tilted)
    return state._replace(a=a, d=d, blocks=blocks, here=here, error=moved, invalid=state.invalid + here.invalid)


def run(
    gaussian: Gaussian,
    blocks: Blocks,
    *,
    damping: float,
    tol: float,
    max_iter: int,
    names: frozenset[str],
    improve: Improve,
    callback: Callback | None,
) -> Settled:
    """From sites of zero mean and unit variance until rule (35) holds at `tol`."""
    scale = prior_scale(blocks, gaussian)
    a, d = np.zeros_like(scale), np.ones_like(scale)
    with np.errstate(all="ignore"):
        here = visit(a, d, blocks, gaussian, scale)
    state = PaperState(a, d, blocks, scale, here, np.inf, False, here.invalid)
    advance = partial(step, gaussian=gaussian, damping=damping, names=names, improve=improve)
    ended = iterate(advance, state, tol=tol, max_iter=max_iter, callback=callback)
    trace = tuple(Mark("paper", error) for error in ended.trace)
    status = Status.COLLAPSED if collapsed(ended.last.here, ended.last.blocks) else ended.status
    return Settled(ended.last, status, trace, int(ended.last.failed), ended.last.invalid)

"""The named parameters of priors: their values, their coordinates without bounds, and the M-step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import expit, logit

from dilutron.ep import Blocks
from dilutron.priors import Gaussians, Prior
from dilutron.special import Vector

EDGE = 1e-9  # learned values stay this far inside their interval: its ends are absorbing for EM
START = {"eta": (0.6, 0.98)}  # near 1/2 no label is heard; near 1 labels that contradict each other give EP no rest

Improve = Callable[[Prior, Gaussians, frozenset[str]], Prior]


def em(prior: Prior, cavity: Gaussians, names: frozenset[str]) -> Prior:
    """The closed-form M-step."""
    return prior.learn(cavity, names)


def climb(prior: Prior, cavity: Gaussians, names: frozenset[str], *, rate: float) -> Prior:
    """One step up the slope of the log evidence, and of the belief in the values: the paper's way of learning."""
    slopes, belief = prior.slopes(cavity), prior.belief_slopes()
    wanted = (name for name in prior.parameters if name in names)
    moved = {n: getattr(prior, n) + rate * (slopes[n] + belief.get(n, 0.0)) for n in wanted}  # Eq. (C2)
    return with_values(prior, moved)


def improved(blocks: Blocks, cavity: Gaussians, names: frozenset[str], improve: Improve) -> Blocks:
    """The M-step of every block."""
    new = []
    for block in blocks:
        if values_of(block.prior, names):
            asked = improve(block.prior, block.part(cavity), names)
            block = block._replace(prior=with_values(asked, values_of(asked, names)))
        new.append(block)
    return tuple(new)


def ready(blocks: Blocks, names: frozenset[str]) -> Blocks:
    """Where learning begins: the given values, but for those from which EM cannot find its way."""
    new = []
    for block in blocks:
        values = values_of(block.prior, names)
        values |= {name: np.clip(value, *START[name]) for name, value in values.items() if name in START}
        new.append(block._replace(prior=with_values(block.prior, values)))
    return tuple(new)


def drift(old: Blocks, new: Blocks, names: frozenset[str]) -> float:
    """The largest relative change of a named parameter."""
    change = 0.0
    for before, after in zip(old, new, strict=True):
        for name, value in values_of(before.prior, names).items():
            change = max(change, float(np.max(np.abs(getattr(after.prior, name) / value - 1.0))))
    return change


def at_density(prior: Prior, density: float) -> Prior:
    """The weights' prior with this mean density; where rho is an array its odds keep their ratios."""
    rho = values_of(prior, frozenset({"rho"}))["rho"]
    return with_values(prior, {"rho": expit(logit(rho) + logit(density) - logit(np.mean(rho)))})


def values_of(prior: Prior, names: frozenset[str]) -> dict[str, float | Vector]:
    """The named parameters of this prior."""
    return {name: getattr(prior, name) for name in prior.parameters if name in names}


def with_values(prior: Prior, values: dict[str, float | Vector]) -> Prior:
    """The prior with these parameters, each kept inside its interval."""
    inside: dict[str, float | Vector] = {}
    for name, value in values.items():
        low, high = prior.parameters[name]
        kept = np.clip(value, low + EDGE, min(high - EDGE, 1.0 / EDGE))
        inside[name] = float(kept) if np.ndim(kept) == 0 else kept
    return replace(prior, **inside) if inside else prior  # type: ignore[type-var]


def coordinates(blocks: Blocks, names: frozenset[str]) -> Vector:
    """The named parameters without bounds: log odds within an interval, logs on a half line."""
    parts = [np.empty(0)]
    for block in blocks:
        for name, value in values_of(block.prior, names).items():
            low, high = block.prior.parameters[name]
            free = np.log(value - low) if high == np.inf else logit((value - low) / (high - low))
            parts.append(np.ravel(free))
    return np.concatenate(parts)


def moved_to(blocks: Blocks, names: frozenset[str], point: Vector) -> Blocks:
    """The blocks whose `coordinates` are `point`."""
    new, used = [], 0
    for block in blocks:
        values: dict[str, float | Vector] = {}
        for name, old in values_of(block.prior, names).items():
            low, high = block.prior.parameters[name]
            part = point[used : used + np.size(old)].reshape(np.shape(old))
            used += np.size(old)
            values[name] = low + (np.exp(part) if high == np.inf else (high - low) * expit(part))
        new.append(block._replace(prior=with_values(block.prior, values)))
    return tuple(new)

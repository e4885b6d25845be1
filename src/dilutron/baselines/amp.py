"""1-bit AMP: generalised approximate message passing for labels (Xu, Kabashima, Zdeborova 2014; Rangan 2011)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from dilutron.ep import Block, Blocks, fallen
from dilutron.gaussian import Covariance
from dilutron.ladder import Mark
from dilutron.loop import Point, Status, iterate, iterate_accelerated
from dilutron.options import names, old_share, positive, truth, whole
from dilutron.parameters import drift, em, improved, ready
from dilutron.posterior import Posterior
from dilutron.priors import Gaussians, Prior
from dilutron.problem import Problem, learnable
from dilutron.special import Vector

UNHEARD = 1e-9  # precision of a weight that no label speaks of, in units of its prior's
BLOWN_UP = 1e3  # weights whose power is this many times their prior's have left the valid range
PATIENCE = 200  # steps without a smaller error: runs that converge have hardly ever waited for twenty


@dataclass(frozen=True)
class AMPOptions:
    """How 1-bit AMP is run.

    Parameters
    ----------
    tol : float
        Converged when an undamped step would change no mean by more than this, in units of the prior's standard
        deviation, no variance relatively, and no parameter that is learned.
    max_iter : int
        Steps at most; where accelerated, also the end of a run whose smallest error is 200 steps old, since it swings.
    damping : float
        Weight of the old message. 0 is the published algorithm, which diverges on correlated patterns.
    mean_removal : bool
        Take the mean of rows and columns out of the patterns and carry it by two more weights and labels
        (Vila, Schniter, Rangan, Krzakala, Zdeborova 2015). For patterns with a common offset.
    accelerated : bool
        Once a step changes nothing by more than 0.01, in the units of `tol`, begin each step where Anderson
        acceleration points to. The fixed points are the same. False is the published iteration to its end, which with
        many patterns takes hundreds of steps more; runs that are damped, or learn, are never accelerated.
    learn : tuple of str
        Parameters to learn by EM, one update a step: "rho", "eta", "lam" or "beta". The start of eta is kept between
        0.6 and 0.98. There is no path of expected sizes as in EP: with few patterns a bad start of rho may stay bad.
    """

    tol: float = 1e-4
    max_iter: int = 2000
    damping: float = 0.0
    mean_removal: bool = False
    accelerated: bool = True
    learn: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        positive(tol=self.tol)
        whole(max_iter=self.max_iter)
        old_share(damping=self.damping)
        truth(accelerated=self.accelerated, mean_removal=self.mean_removal)
        names(learn=self.learn)


class Channel(NamedTuple):
    """Patterns and labels; where means were removed, with two more columns and rows that carry them."""

    design: Vector
    squared: Vector
    signs: Vector
    size: tuple[int, int]  # of the problem itself


class AMPState(NamedTuple):
    """The weights, what the labels ask of their fields, and the cavities of both."""

    blocks: Blocks
    estimate: Gaussians  # of the weights
    anchor: Vector  # the weights as the pulls see them: where damped, an average over the past
    field_var: Vector
    force: Vector  # each label's pull at its field
    stiffness: Vector  # minus the slope of that force
    cavity: Gaussians  # what all labels together say of each weight, and each label's field before it is heard
    error: float = np.inf
    failed: bool = False


def channel_of(problem: Problem, mean_removal: bool = False) -> Channel:
    """The patterns as the messages see them; as for the signed ones, a row of zeros is refused."""
    problem.refuse_empty_rows()
    design = _without_means(problem.X) if mean_removal else problem.X
    return Channel(design, design**2, problem.labels, (problem.X.shape[0], problem.X.shape[1]))


def _without_means(patterns: Vector) -> Vector:
    """The patterns less their row and column means, bordered by what brings the means back.

    Two more weights stand for the sum and for a weighted sum of all others, and two more rows say so: fields that
    must vanish. All are scaled so that their columns and rows have the average norm of the rest.
    """
    rows, columns = patterns.mean(axis=1), patterns.mean(axis=0) - patterns.mean()
    plain = patterns - rows[:, None] - columns
    norm, (n_rows, n_columns) = float(np.linalg.norm(plain)), plain.shape
    left = [_scaled(vector, norm / np.sqrt(n_columns)) for vector in (rows, np.ones(n_rows))]
    below = [_scaled(vector, norm / np.sqrt(n_rows)) for vector in (np.ones(n_columns), columns)]
    return np.block([
        [plain, left[0] * rows[:, None], np.full((n_rows, 1), left[1])],
        [np.full((1, n_columns), below[0]), np.array([[-below[0] * left[0], 0.0]])],
        [below[1] * columns[None, :], np.array([[0.0, -below[1] * left[1]]])],
    ])  # fmt: skip


def _scaled(vector: Vector, norm: float) -> float:
    own = float(np.linalg.norm(vector))
    return norm / own if own > 1e-12 * norm else 1.0


def init(channel: Channel, blocks: Blocks) -> AMPState:
    """No label has been heard."""
    n_rows, n_columns = channel.design.shape
    prior_var = np.broadcast_to(1.0 / np.asarray(blocks[0].prior.flat_precision()), channel.size[1])
    extra = np.full(n_columns - prior_var.size, prior_var.mean())
    estimate = Gaussians(np.zeros(n_columns), np.concatenate([prior_var, extra]))
    silent, n_cavities = np.zeros(n_rows), sum(channel.size)
    cavity = Gaussians(np.zeros(n_cavities), np.full(n_cavities, prior_var.max() / UNHEARD))
    return AMPState(blocks, estimate, estimate.mean, channel.squared @ estimate.var, silent, silent, cavity)


def step(state: AMPState, channel: Channel, damping: float, learned: frozenset[str]) -> AMPState:
    """Fields, labels, pulls on the weights, weights: four products with the patterns, O(MN).

    Damped as by Rangan, Schniter, Riegler, Fletcher and Cevher (2016): messages and the anchor, not the estimate.
    """
    (n_patterns, n_features), blocks, old = channel.size, state.blocks, state.estimate
    mix = partial(_mixed, damping)
    with np.errstate(all="ignore"):  # where the messages leave the valid range is looked for below
        field_var = mix(state.field_var, channel.squared @ old.var)
        field = Gaussians(channel.design @ old.mean - field_var * state.force, field_var)
        force, stiffness = map(mix, (state.force, state.stiffness), _heard(field, blocks[1].prior, channel))
        anchor = mix(state.anchor, old.mean)
        pull = _pull(channel, anchor, force, stiffness, blocks[0].prior)
        if pull is None:
            return state._replace(error=np.inf, failed=True)
        tilted = blocks[0].prior.moments(Gaussians(pull.mean[:n_features], pull.var[:n_features]))
        estimate = Gaussians(
            np.append(tilted.mean, pull.mean[n_features:]), np.append(tilted.var, pull.var[n_features:])
        )
    cavity = Gaussians(
        np.append(pull.mean[:n_features], channel.signs * field.mean[:n_patterns]),
        np.append(pull.var[:n_features], field.var[:n_patterns]),
    )
    blocks = improved(blocks, cavity, learned, em) if learned else blocks
    unit = np.sqrt(np.asarray(blocks[0].prior.flat_precision()))
    lost = not np.mean((estimate.mean[:n_features] * unit) ** 2) < BLOWN_UP
    error = max(_moved(old, estimate, unit, n_features) / (1.0 - damping), drift(state.blocks, blocks, learned))
    error = error if np.isfinite(error) else np.inf
    failed = lost or fallen(_own(estimate, n_features), blocks)
    return AMPState(blocks, estimate, anchor, field_var, force, stiffness, cavity, error, failed)


def _moved(old: Gaussians, new: Gaussians, unit: Vector, n_features: int) -> float:
    """The largest change of a mean, in units of its prior's standard deviation, or of a variance, relatively."""
    means = np.abs(new.mean - old.mean)[:n_features] * unit
    return float(np.max([means, np.abs(new.var / old.var - 1.0)[:n_features]]))


def _own(estimate: Gaussians, n_features: int) -> Gaussians:
    """Without the two weights that carry the means."""
    return Gaussians(estimate.mean[:n_features], estimate.var[:n_features])


def _pull(channel: Channel, anchor: Vector, force: Vector, stiffness: Vector, weights: Prior) -> Gaussians | None:
    """What the labels together say of each weight; None where they contradict themselves.

    A weight that no label speaks of, as in an empty column, gets a pull too weak to matter.
    """
    precision = channel.squared.T @ stiffness
    weakest = np.full(precision.size, UNHEARD * float(np.min(weights.flat_precision())))
    precision = np.where(np.abs(precision) < weakest, weakest, precision)
    pull = Gaussians(anchor + channel.design.T @ force / precision, 1.0 / precision)
    return pull if np.all(np.isfinite(pull)) and np.all(precision > 0.0) else None


def _heard(field: Gaussians, labels: Prior, channel: Channel) -> tuple[Vector, Vector]:
    """What the labels ask of their fields: force and stiffness. The fields of the border must vanish."""
    n_patterns = channel.size[0]
    wanted = labels.moments(Gaussians(channel.signs * field.mean[:n_patterns], field.var[:n_patterns]))
    mean, var = np.zeros_like(field.mean), np.zeros_like(field.var)
    mean[:n_patterns], var[:n_patterns] = channel.signs * wanted.mean, wanted.var
    return (mean - field.mean) / field.var, (1.0 - var / field.var) / field.var


def point(state: AMPState) -> Point:
    """All that an undamped step takes from a state, in units of each one's uncertainty."""
    mean, var = state.estimate
    scale = np.concatenate([1.0 / np.sqrt(var), np.ones(var.size), np.sqrt(state.field_var)])
    return Point(np.concatenate([mean, np.log(var), state.force]), scale)


def moved(state: AMPState, values: Vector) -> AMPState:
    """The state with these values in place of its point's."""
    mean, log_var, force = np.split(values, np.cumsum([state.anchor.size] * 2))
    return state._replace(estimate=Gaussians(mean, np.exp(log_var)), force=force)


def _mixed(damping: float, old: Vector, new: Vector) -> Vector:
    return damping * old + (1.0 - damping) * new


def solve(
    problem: Problem,
    weights: Prior,
    labels: Prior,
    options: AMPOptions | None = None,
    *,
    callback: Callable[[AMPState], object] | None = None,
) -> Posterior:
    """Approximate the posterior by 1-bit AMP.

    Parameters
    ----------
    problem : Problem
    weights, labels : Prior
    options : AMPOptions, optional
    callback : callable, optional
        Sees every state; where it returns True the run stops.
    """
    began, options = time.perf_counter(), options or AMPOptions()
    problem.check_priors(weights, labels)
    (n_patterns, n_features), learned = problem.X.shape, learnable(options.learn, weights, labels)
    channel = channel_of(problem, options.mean_removal)
    where = slice(n_features, n_features + n_patterns)
    blocks = ready((Block(slice(0, n_features), weights), Block(where, labels)), learned)
    hear = partial(step, channel=channel, damping=options.damping, learned=learned)
    swift = options.accelerated and not (learned or options.damping)
    drive = partial(iterate_accelerated, point=point, moved=moved, patience=PATIENCE) if swift else iterate
    run = drive(hear, hear(init(channel, blocks)), tol=options.tol, max_iter=options.max_iter, callback=callback)
    end = run.best
    mean, var = _own(end.estimate, n_features)
    return Posterior(
        method="amp",
        mean=mean,
        std=np.sqrt(var),
        inclusion=end.blocks[0].prior.inclusion(Gaussians(*(part[:n_features] for part in end.cavity))),
        flip=end.blocks[1].prior.flip(Gaussians(*(part[n_features:] for part in end.cavity))),
        weights=end.blocks[0].prior,
        labels=end.blocks[1].prior,
        log_evidence=None,
        status=Status.COLLAPSED if fallen(_own(run.last.estimate, n_features), end.blocks) else run.status,
        mismatch=end.error,
        trace=tuple(Mark("amp", error) for error in run.trace),
        seconds=time.perf_counter() - began,
        names=problem.names,
        center=problem.center,
        scale=problem.scale,
        source=lambda: Covariance.diagonal(var),
    )

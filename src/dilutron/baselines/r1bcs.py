"""R1BCS: robust one-bit Bayesian compressed sensing with sign-flip errors (Li, Fang, Li, Huang 2015).

Labels are y = sign(X w + s), where sparse noise s turns some of them over, and the logistic function stands in for the
step. Weights and noise have Gaussian-inverse-Gamma priors, which prune most of both. Jaakkola and Jordan's bound of the
logistic function makes every factor of q(w) q(s) q(alpha) q(gamma) closed; each step renews all of them and the bound.

Fields and noise are held times their label, so that every label is +1. Given s, q(w) is a Gaussian with one site per
weight and one per label, as in EP, and q(s) is diagonal: a step costs one factorisation at the smaller side.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from dilutron.gaussian import Covariance, Gaussian, NotPositive, Sites, choose
from dilutron.ladder import Mark
from dilutron.loop import Run, iterate
from dilutron.options import positive, truth, whole
from dilutron.posterior import Posterior
from dilutron.priors import Gaussians, Prior
from dilutron.problem import Problem
from dilutron.special import Vector


@dataclass(frozen=True)
class R1BCSOptions:
    """How R1BCS is run. The defaults are those of the published program.

    Parameters
    ----------
    tol : float
        Converged when a step moves the weights, for columns of unit norm, by less than this in Euclidean norm.
    max_iter : int
        Factorisations at most. Pruning is slow: some thousand are usual.
    a, b : float
        Shape and rate of the Gamma prior of every weight's precision.
    c, d : float
        Shape and rate of the Gamma prior of every label's noise precision.
    scaled : bool
        Return weights for columns of unit norm, as published; the posterior's `scale` then holds the norms too, so that
        predictions stay the same. By default weights are for the problem's own columns.
    """

    tol: float = 1e-4
    max_iter: int = 20_000
    a: float = 1e-10
    b: float = 1e-10
    c: float = 1e-10
    d: float = 1e-10
    scaled: bool = False

    def __post_init__(self) -> None:
        positive(tol=self.tol, a=self.a, b=self.b, c=self.c, d=self.d)
        whole(max_iter=self.max_iter)
        truth(scaled=self.scaled)


class R1BCSState(NamedTuple):
    """The factors q(w) and q(s), and where the bound touches the logistic function."""

    sites: Sites  # of q(w)
    weights: Gaussians
    field: Gaussians  # X w
    noise: Gaussians  # s
    touch: Vector  # xi, the root mean square of X w + s
    error: float = np.inf
    failed: bool = False


def init(gaussian: Gaussian, options: R1BCSOptions) -> R1BCSState:
    """The first step, from weights, noise and touching points of unit size."""
    n_patterns, n_features = gaussian.shape
    precision = np.concatenate([np.ones(n_features), np.zeros(n_patterns)])
    weights, labels = (Gaussians(np.zeros(size), np.ones(size)) for size in (n_features, n_patterns))
    start = R1BCSState(Sites(precision, np.zeros_like(precision)), weights, labels, labels, np.ones(n_patterns))
    return step(start, gaussian, options)


def step(state: R1BCSState, gaussian: Gaussian, options: R1BCSOptions) -> R1BCSState:
    """Precisions, q(w), q(s) and the bound, once each; where that is not possible, the same state as failed."""
    with np.errstate(all="ignore"):  # what overflows is looked for below
        alpha = _precision(state.weights, options.a, options.b)
        gamma = _precision(state.noise, options.c, options.d)
        curvature = np.tanh(0.5 * state.touch) / (2.0 * state.touch)  # of minus the log of the bound
        pull = 0.5 - curvature * state.noise.mean
        sites = Sites(np.concatenate([alpha, curvature]), np.concatenate([np.zeros_like(alpha), pull]))
        try:
            weights, field = _parts(gaussian, sites)
        except NotPositive:
            return state._replace(error=np.inf, failed=True)
        noise_var = 1.0 / (gamma + curvature)
        noise = Gaussians(noise_var * (0.5 - curvature * field.mean), noise_var)
        touch = np.sqrt((field.mean + noise.mean) ** 2 + field.var + noise.var)
        error = float(np.linalg.norm(weights.mean - state.weights.mean))
    if not all(np.all(np.isfinite(value)) for value in (error, weights.var, touch)):
        return state._replace(error=np.inf, failed=True)
    return R1BCSState(sites, weights, field, noise, touch, error)


def _precision(values: Gaussians, shape: float, rate: float) -> Vector:
    """Mean of the Gamma law of each value's precision."""
    return (2.0 * shape + 1.0) / (2.0 * rate + values.mean**2 + values.var)


def _parts(gaussian: Gaussian, sites: Sites) -> tuple[Gaussians, Gaussians]:
    """Weights and fields under q(w)."""
    mean, var = gaussian.marginals(sites)[:2]
    n_features = gaussian.shape[1]
    return Gaussians(mean[:n_features], var[:n_features]), Gaussians(mean[n_features:], var[n_features:])


def flip_of(noise: Gaussians) -> Vector:
    """Estimated size of s, brought between 0 and 1: one half where it is 1, the unit of the logistic function."""
    size = np.abs(noise.mean)
    return size / (1.0 + size)


def solve(
    problem: Problem,
    weights: Prior,
    labels: Prior,
    options: R1BCSOptions | None = None,
    *,
    callback: Callable[[R1BCSState], object] | None = None,
) -> Posterior:
    """Approximate the posterior of R1BCS's own model by variational EM.

    Parameters
    ----------
    problem : Problem
    weights, labels : Prior
        Not used, since R1BCS has hierarchical priors of its own; they are handed on to the posterior, where `labels`
        turns predicted fields into probabilities.
    options : R1BCSOptions, optional
    callback : callable, optional
        Sees every state; where it returns True the run stops.
    """
    began, options = time.perf_counter(), options or R1BCSOptions()
    problem.check_priors(weights, labels)
    norms = np.linalg.norm(problem.X, axis=0)
    norms[norms == 0.0] = 1.0  # an empty column keeps its prior
    gaussian = choose(problem.signed() / norms)
    renew = partial(step, gaussian=gaussian, options=options)
    run: Run[R1BCSState] = iterate(
        renew, init(gaussian, options), tol=options.tol, max_iter=options.max_iter, callback=callback
    )
    end = run.last  # the bound only rises: the last state is the best, though its step may not be the smallest
    unit, scale = (np.ones_like(norms), problem.scale * norms) if options.scaled else (norms, problem.scale)

    def covariance() -> Covariance:
        base, root, sign = gaussian.covariance(end.sites).alone()[:3]
        return Covariance(base / unit**2, root / unit, sign)

    return Posterior(
        method="r1bcs",
        mean=end.weights.mean / unit,
        std=np.sqrt(end.weights.var) / unit,
        inclusion=None,
        flip=flip_of(end.noise),
        weights=weights,
        labels=labels,
        log_evidence=None,
        status=run.status,
        mismatch=end.error,
        trace=tuple(Mark("r1bcs", error) for error in run.trace),
        seconds=time.perf_counter() - began,
        names=problem.names,
        center=problem.center,
        scale=scale,
        source=covariance,
    )

"""The EP student: options, and the solve that turns a problem and priors into a posterior."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real

import numpy as np

from dilutron import paper_scheme
from dilutron.ep import Block, Blocks, log_evidence
from dilutron.gaussian import Gaussian, Sites, choose
from dilutron.ladder import LADDER, Callback, settle
from dilutron.learning import Learned, climb, em, learn
from dilutron.posterior import Posterior
from dilutron.priors import Gaussians, Prior
from dilutron.problem import Problem


@dataclass(frozen=True)
class EPOptions:
    """How EP is run.

    Parameters
    ----------
    tol : float
        The run has converged when the undamped moment mismatch is below this: means in units of their prior's
        standard deviation, variances relatively. With ``scheme="paper"`` it is the threshold of rule (35).
    max_iter : int
        Factorisations at most.
    learn : tuple of str
        Parameters to learn: any of "rho", "lam", "eta", "beta". The priors' values are then the start, but that of eta
        is kept between 0.6 and 0.98, and that of rho is found by the `path`.
    learning : {"em", "gradient"}
        Closed-form updates, or the paper's gradient steps.
    rate : float
        Learning rate of the gradient steps.
    learn_tol : float
        Learning has converged when a further update would change no parameter by more than this, relatively.
    path : bool
        Where rho is learned, try a path of expected sizes first and begin where the log evidence is best. Without it
        learning climbs from the given rho alone, which is not safe with few samples.
    scheme : {"natural", "paper"}
        Natural parameters with acceleration and fallbacks, or the paper's own iteration, for reproduction.
    damping : float, optional
        Weight of the old value; by default 0.5 at first with "natural", and 0.99 with "paper".
    fallback : bool
        Where the first run does not converge, try annealing and stronger damping.
    """

    tol: float = 1e-6
    max_iter: int = 5000
    learn: tuple[str, ...] = ()
    learning: str = "em"
    rate: float = 1e-5
    learn_tol: float = 1e-4
    path: bool = True
    scheme: str = "natural"
    damping: float | None = None
    fallback: bool = True

    def __post_init__(self) -> None:
        for name in ("tol", "learn_tol", "rate"):
            value = getattr(self, name)
            if not (isinstance(value, Real) and 0.0 < float(value) < np.inf):
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        if not (isinstance(self.max_iter, Integral) and self.max_iter >= 1):
            raise ValueError(f"max_iter must be a whole number, at least 1, got {self.max_iter!r}")
        if self.damping is not None and not (isinstance(self.damping, Real) and 0.0 <= self.damping < 1.0):
            raise ValueError(f"damping is the weight of the old value, from 0 up to but not 1, got {self.damping!r}")
        for name, known in (("learning", ("em", "gradient")), ("scheme", ("natural", "paper"))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {known}, got {getattr(self, name)!r}")
        if not isinstance(self.learn, (tuple, list)):
            raise ValueError(
                f"learn must be a tuple of names, for example ({self.learn!r},), got the string {self.learn!r}"
            )


def solve(
    problem: Problem,
    weights: Prior,
    labels: Prior,
    options: EPOptions | None = None,
    *,
    intercept: Prior | None = None,
    start: Posterior | None = None,
    callback: Callback | None = None,
) -> Posterior:
    """Approximate the posterior of Eq. (11) by EP.

    Parameters
    ----------
    problem : Problem
    weights, labels : Prior
    options : EPOptions, optional
    intercept : Prior, optional
        Prior of a constant added to every field, for example `Normal(0.1)`; none where absent.
    start : Posterior, optional
        Begin at the sites of an earlier posterior of the same shape; where rho is learned, without the path.
    callback : callable, optional
        Sees every state; where it returns True the run stops, with the status STOPPED.
    """
    began = time.perf_counter()
    options = options or EPOptions()
    gaussian = choose(problem.signed(intercept=intercept is not None))
    blocks = _blocks(problem, weights, labels, intercept)
    names = _learnable(options.learn, blocks)
    learned = _run(gaussian, blocks, names, options, start, callback)
    return _posterior(problem, gaussian, learned, intercept is not None, time.perf_counter() - began)


def _run(
    gaussian: Gaussian,
    blocks: Blocks,
    names: frozenset[str],
    options: EPOptions,
    start: Posterior | None,
    callback: Callback | None,
) -> Learned:
    improve = em if options.learning == "em" else partial(climb, rate=options.rate)
    tol, max_iter = options.tol, options.max_iter
    if options.scheme == "paper":
        if start is not None:
            raise ValueError('start is not used by scheme="paper", which begins at unit sites: leave it out.')
        damping = 0.99 if options.damping is None else options.damping
        paper = partial(paper_scheme.run, damping=damping, names=names, improve=improve)
        return Learned(paper(gaussian, blocks, tol=tol, max_iter=max_iter, callback=callback), ())
    ladder = LADDER if options.fallback else LADDER[:1]
    if options.damping is not None:
        ladder = (ladder[0]._replace(pace=ladder[0].pace._replace(damping=options.damping)), *ladder[1:])
    rest = partial(settle, gaussian, callback=callback)
    sites = _warm_sites(start, blocks)
    if not names:
        return Learned(rest(blocks, tol=tol, max_iter=max_iter, ladder=ladder, start=sites), ())
    teach = partial(learn, rest, path=options.path, learn_tol=options.learn_tol, ladder=ladder)
    return teach(blocks, names, improve, tol=tol, max_iter=max_iter, start=sites)


def _blocks(problem: Problem, weights: Prior, labels: Prior, intercept: Prior | None) -> Blocks:
    n_patterns, n_features = problem.X.shape
    for role, prior in (("weights", weights), ("labels", labels), ("intercept", intercept)):
        wanted = "labels" if role == "labels" else "weights"
        if prior is not None and getattr(prior, "role", None) != wanted:
            example = "ThetaMixture(eta=0.95)" if wanted == "labels" else "SpikeSlab(rho=0.25)"
            raise ValueError(f"{role} must be a prior for {wanted}, such as {example}, got {prior!r}")
    for role, prior, size in (
        ("weights", weights, n_features),
        ("labels", labels, n_patterns),
        ("intercept", intercept, 1),
    ):
        for name, value in vars(prior).items() if prior is not None else ():
            if np.ndim(value) == 1 and not isinstance(value, tuple) and (np.size(value) != size or size == 1):
                wanted = "one number" if size == 1 else f"{size} values, one each, or one number"
                raise ValueError(f"{role}.{name} has {np.size(value)} values: give {wanted}.")
    extra = intercept is not None
    where = slice(n_features + extra, n_features + extra + n_patterns)
    middle = () if intercept is None else (Block(slice(n_features, n_features + 1), intercept),)
    return (Block(slice(0, n_features), weights), *middle, Block(where, labels))


def _learnable(names: tuple[str, ...], blocks: Blocks) -> frozenset[str]:
    known = {name: block.prior for block in blocks for name in block.prior.parameters}
    for name in names:
        if name not in known:
            raise ValueError(f"learn names {name!r}, which these priors do not have; they have {sorted(known)}.")
        if not np.all(np.isfinite(getattr(known[name], name))):
            raise ValueError(
                f"learn names {name!r}, whose start is infinite: give a finite one, such as Probit(beta=1)."
            )
    return frozenset(names)


def _warm_sites(start: Posterior | None, blocks: Blocks) -> Sites | None:
    if start is None:
        return None
    labels = blocks[-1].where
    sizes = (blocks[0].where.stop, labels.stop - labels.start, labels.stop)
    flips, sites = start.flip, start.sites
    if sites is None or flips is None or (start.mean.size, flips.size, sites.precision.size) != sizes:
        raise ValueError(
            f"start must be an EP posterior of this shape, {sizes[1]} patterns and {sizes[0]} features,"
            " with an intercept in both or in neither: leave start out to begin afresh."
        )
    return sites


def _posterior(problem: Problem, gaussian: Gaussian, learned: Learned, intercept: bool, seconds: float) -> Posterior:
    settled, state = learned.settled, learned.settled.state
    here, n_features = state.here, problem.X.shape[1]
    weights, labels = state.blocks[0], state.blocks[-1]
    std = np.sqrt(here.tilted.var)
    return Posterior(
        method="ep",
        mean=here.tilted.mean[weights.where],
        std=std[weights.where],
        inclusion=weights.prior.inclusion(_part(here.cavity, weights)),
        flip=labels.prior.flip(_part(here.cavity, labels)),
        weights=weights.prior,
        labels=labels.prior,
        log_evidence=log_evidence(here),
        status=settled.status,
        mismatch=here.mismatch,
        trace=settled.trace,
        seconds=seconds,
        names=problem.names,
        center=problem.center,
        scale=problem.scale,
        intercept=float(here.tilted.mean[n_features]) if intercept else 0.0,
        intercept_std=float(std[n_features]) if intercept else 0.0,
        path=learned.path,
        failures=settled.failures,
        invalid=settled.invalid,
        sites=here.sites,
        source=partial(gaussian.covariance, here.sites),
    )


def _part(cavity: Gaussians, block: Block) -> Gaussians:
    return Gaussians(cavity.mean[block.where], cavity.var[block.where])

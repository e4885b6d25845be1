"""The EP student: options, and the solve that turns a problem and priors into a posterior."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dilutron import paper_scheme
from dilutron.checking import discrepancy
from dilutron.chunked import choose
from dilutron.ep import Block, Blocks, all_copies, log_evidence
from dilutron.gaussian import Gaussian, Sites
from dilutron.ladder import LADDER, PARTLY, PROPER, Callback, Rung, Settled, settle
from dilutron.learning import ENOUGH, HEED, Learned, Rest, learn, taught
from dilutron.loop import Status
from dilutron.options import names, old_share, one_of, positive, truth, whole
from dilutron.parameters import climb, em, ready
from dilutron.posterior import Posterior
from dilutron.priors import Gaussians, Prior
from dilutron.problem import Problem, learnable
from dilutron.rows import Rows
from dilutron.single import quick
from dilutron.special import Vector
from dilutron.tied import Tied

ROUGH = 1e-4  # tolerance from which iterations may be made in single precision
WIDE = 4.0  # features a row,
DEAR = 2e9  # multiplications of a factorisation from which working sets are worth their while
SOUND = 1e-6  # discrepancy of an answer that stands: rounding makes 1e-14, the hardest designs 1e-8,
SHARE = 1e-2  # or, in units of the tolerance: single precision makes 1e-7 to 1e-5


@dataclass(frozen=True)
class EPOptions:
    """How EP is run.

    Parameters
    ----------
    tol : float
        The run has converged when the undamped moment mismatch is below this: means in units of the larger of their
        prior's and their own standard deviation, variances relatively. With ``scheme="paper"`` it is the threshold of
        rule (35).
    max_iter : int
        Factorisations of the whole at most.
    learn : tuple of str
        Parameters to learn: any of "rho", "lam", "eta", "beta". The priors' values are then the start, but that of eta
        is kept between 0.6 and 0.98, and that of rho is found by the `path`.
    learning : {"em", "gradient", "along"}
        Closed-form updates or the paper's gradient steps, each from EP at rest; or closed-form updates along the way,
        one for each iteration: quick, for parameters that the labels pin down, and without a `path`.
    rate : float
        Learning rate of the gradient steps.
    learn_tol : float
        Learning has converged when a further update would change no parameter by more than this, relatively. The slopes
        of the log evidence vanish there. With few rows they may not vanish anywhere: the evidence rises up to where EP
        has no fixed point any more. A parameter is then held where EP comes to rest, or to more evidence, neither after
        a move that promises less than 0.2 nats nor after the whole update; the others are learned on, and
        `Posterior.held` names it.
    path : bool
        Where rho is learned, try a path of expected sizes first and begin where the log evidence is best. Without it
        learning climbs from the given rho alone, which is not safe with few samples. From 20 rows a feature it is, and
        no path is tried.
    scheme : {"natural", "paper"}
        Natural parameters with acceleration and fallbacks, or the paper's own iteration, for reproduction.
    damping : float, optional
        Weight of the old value; by default 0.5 at first with "natural", and 0.99 with "paper".
    fallback : bool or "proper"
        Where the first run does not converge, try annealing, stronger damping, and at last proper labels, none of which
        may make its field less certain. That is not exactly EP where a label speaks against all others, but converges
        on wide tables with sparse weights, where EP itself swings; with "proper" all runs are of that kind, and where
        that is not enough the weights are kept proper too.
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
    fallback: bool | str = True

    def __post_init__(self) -> None:
        positive(tol=self.tol, learn_tol=self.learn_tol, rate=self.rate)
        whole(max_iter=self.max_iter)
        if self.damping is not None:
            old_share(damping=self.damping)
        one_of(("em", "gradient", "along"), learning=self.learning)
        one_of(("natural", "paper"), scheme=self.scheme)
        truth(path=self.path)
        if self.fallback != "proper":
            truth(fallback=self.fallback)
        names(learn=self.learn)


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
    problem.check_priors(weights, labels, intercept, copies=True, row_blocks=True)
    blocks = _blocks(problem, weights, labels, intercept)
    design = problem.signed(intercept=intercept is not None)
    return _solved("ep", problem, design, choose(design), blocks, options or EPOptions(), start, callback)


def solve_tied(
    problem: Problem,
    weights: Prior,
    labels: Prior,
    options: EPOptions | None = None,
    *,
    start: Posterior | None = None,
    callback: Callback | None = None,
) -> Posterior:
    """EP with one site precision for all weights and one for all labels, which is VAMP: one SVD, then O(MN) a step.

    Right in the limit of large problems whose patterns have no preferred directions, such as i.i.d. ones; on correlated
    patterns less accurate than EP. Parameters as in `solve`, without an intercept: centre the columns instead.
    """
    problem.check_priors(weights, labels)
    blocks = tuple(block._replace(tied=True) for block in _blocks(problem, weights, labels, None))
    design = problem.signed()
    return _solved(
        "vamp", problem, design, Tied(design, problem.spectrum), blocks, options or EPOptions(), start, callback
    )


def _solved(
    method: str,
    problem: Problem,
    design: Vector | Rows,
    gaussian: Gaussian,
    blocks: Blocks,
    options: EPOptions,
    start: Posterior | None,
    callback: Callback | None,
) -> Posterior:
    began = time.perf_counter()
    learnt = learnable(options.learn, *(block.prior for block in blocks))
    rough = quick(gaussian) if options.tol >= ROUGH and options.scheme == "natural" else gaussian
    sound = partial(_sound, design, SOUND if rough is gaussian else max(SOUND, SHARE * options.tol))
    learned = _run(rough, blocks, learnt, options, start, callback)
    stands = sound(learned.settled)
    if not stands and rough is not gaussian:
        learned = _looked_at_again(learned, gaussian, options)
        stands = sound(learned.settled)
    posterior = _posterior(method, problem, gaussian, learned, time.perf_counter() - began)
    return posterior if stands else replace(posterior, status=Status.DIVERGED, mismatch=np.inf)


def _sound(design: Vector | Rows, limit: float, settled: Settled) -> bool:
    """A second look: the marginals are what the sites say."""
    here, blocks = settled.state.here, settled.state.blocks
    with np.errstate(all="ignore"):
        return discrepancy(design, all_copies(here.sites, blocks), here.marginals) < limit


def _run(
    gaussian: Gaussian,
    blocks: Blocks,
    learnt: frozenset[str],
    options: EPOptions,
    start: Posterior | None,
    callback: Callback | None,
) -> Learned:
    improve = partial(climb, rate=options.rate) if options.learning == "gradient" else em
    tol, max_iter = options.tol, options.max_iter
    if options.scheme == "paper":
        if start is not None:
            raise ValueError('start is not used by scheme="paper", which begins at unit sites: leave it out.')
        if any(np.any(np.asarray(block.prior.multiplicity) != 1.0) for block in blocks):
            raise ValueError('copies are not known to scheme="paper": leave them out.')
        damping = 0.99 if options.damping is None else options.damping
        paper = partial(paper_scheme.run, damping=damping, names=learnt, improve=improve)
        return Learned(paper(gaussian, blocks, tol=tol, max_iter=max_iter, callback=callback), ())
    ladder = _ladder(options, gaussian.shape)
    rest: Rest = partial(settle, gaussian, callback=callback)
    sites = _warm_sites(start, blocks)
    if learnt and options.learning != "along":
        return learn(
            rest,
            blocks,
            learnt,
            improve,
            path=options.path,
            tol=tol,
            learn_tol=options.learn_tol,
            max_iter=max_iter,
            ladder=ladder,
            start=sites,
        )
    enough = ENOUGH if gaussian.shape[0] >= gaussian.shape[1] else 0.0
    heard = partial(taught, names=learnt, tol=options.learn_tol, heed=max(HEED, tol), enough=enough)
    teach = heard if learnt else None
    begin = ready(blocks, learnt)
    return Learned(rest(begin, tol=tol, max_iter=max_iter, ladder=ladder, start=sites, teach=teach), ())


def _ladder(options: EPOptions, shape: tuple[int, int]) -> tuple[Rung, ...]:
    """The ways to try, of which the first has the damping that is asked for."""
    rungs: tuple[Rung, ...] = LADDER
    if options.fallback == "proper":
        n_labels, n_weights = shape
        rungs = PARTLY if n_weights > WIDE * n_labels and n_labels**2 * n_weights > DEAR else PROPER
    ladder = rungs if options.fallback else rungs[:1]
    if options.damping is None:
        return ladder
    return (ladder[0]._replace(pace=ladder[0].pace._replace(damping=options.damping)), *ladder[1:])


def _looked_at_again(learned: Learned, gaussian: Gaussian, options: EPOptions) -> Learned:
    """The rest in double precision where single was not exact enough; it may take a few more iterations."""
    rough = learned.settled
    first, *_, labels = rough.state.blocks
    named = tuple(rung._replace(name=rough.trace[-1].stage) for rung in _ladder(options, gaussian.shape))
    same = tuple(rung._replace(proper="all" if first.proper else "labels" if labels.proper else "") for rung in named)
    left = max(1, options.max_iter - len(rough.trace)) if rough.status is Status.CONVERGED else 1
    start = rough.state.here.sites
    exact = settle(gaussian, rough.state.blocks, tol=options.tol, max_iter=left, start=start, ladder=same).after(rough)
    kept = exact.status if rough.status is Status.CONVERGED else rough.status
    return learned._replace(settled=exact._replace(status=kept))


def _blocks(problem: Problem, weights: Prior, labels: Prior, intercept: Prior | None) -> Blocks:
    n_patterns, n_features = problem.X.shape
    extra = intercept is not None
    where = slice(n_features + extra, n_features + extra + n_patterns)
    middle = () if intercept is None else (Block(slice(n_features, n_features + 1), intercept),)
    return (Block(slice(0, n_features), weights), *middle, Block(where, labels))


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


def _posterior(method: str, problem: Problem, gaussian: Gaussian, learned: Learned, seconds: float) -> Posterior:
    settled, state = learned.settled, learned.settled.state
    here, n_features = state.here, problem.X.shape[1]
    weights, labels, intercept = state.blocks[0], state.blocks[-1], len(state.blocks) > 2
    std = np.sqrt(here.tilted.var)
    return Posterior(
        method=method,
        mean=here.tilted.mean[weights.where],
        std=std[weights.where],
        inclusion=weights.prior.inclusion(weights.part(here.cavity)),
        flip=labels.prior.flip(labels.part(here.cavity)),
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
        held=learned.held,
        failures=settled.failures,
        invalid=settled.invalid,
        sites=here.sites,
        left_out=here.tilted.log_z[labels.where],
        slopes=_slopes(state.blocks, here.cavity),
        source=partial(gaussian.covariance, all_copies(here.sites, state.blocks)),
    )


def _slopes(blocks: Blocks, cavity: Gaussians) -> dict[str, float]:
    """The explicit slopes of the log evidence: the whole ones at a fixed point of EP with all labels as they are."""
    with np.errstate(all="ignore"):
        found = {name: slope for b in blocks for name, slope in b.prior.slopes(b.part(cavity)).items()}
    return {name: float(slope) for name, slope in found.items() if np.ndim(slope) == 0 and np.isfinite(slope)}

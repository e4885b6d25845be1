"""grVAMP: vector AMP for labels, as two nested modules (Meng, Wu, Zhu 2018; Rangan, Schniter, Fletcher 2016).

The outer module estimates the fields X w under the labels; the inner one is VAMP for weights whose fields were measured
with Gaussian noise. Every message has one precision for all of its entries: that is what sets VAMP apart from EP.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import svd

from dilutron.ep import MARGIN, Block, Blocks, fallen
from dilutron.gaussian import Covariance
from dilutron.ladder import Mark
from dilutron.loop import Point, Status, iterate, iterate_accelerated
from dilutron.options import names, old_share, one_of, positive, truth, whole
from dilutron.parameters import drift, em, improved, ready
from dilutron.posterior import Posterior
from dilutron.priors import Gaussians, Prior
from dilutron.problem import Problem, learnable
from dilutron.special import Vector

BEAT = 4  # rounds of the inner module between two looks at whether it has settled


@dataclass(frozen=True)
class GrVAMPOptions:
    """How grVAMP is run. `GrVAMPOptions.paper()` is the paper's set.

    Parameters
    ----------
    tol : float
        Threshold of the rule `stop`.
    max_iter : int
        Outer iterations at most.
    inner_iter : int
        Rounds of the inner module at most, rounded up to pairs, and from four on to fours. Few are best: where the
        inner module settles before the labels are heard again, the outer one circles for ever on about one i.i.d.
        problem in a hundred.
    inner_tol : float
        The inner module leaves when that many rounds move no weight by more than this, in units of its prior's standard
        deviation.
    damping : float
        Weight of the old message from the weights' prior. With 0, the published algorithm, the inner module may swing
        between two points for ever on correlated patterns.
    stop : {"mismatch", "change"}
        Converged when both modules agree on the moments of weights and fields, as in EP; or, as published, when an
        outer iteration hardly changes the weights (mean absolute change), which a swinging inner module can pass.
    accelerated : bool
        Once the error is below 0.01, begin each outer iteration where Anderson acceleration points to: that saves most
        of them, and where there are several fixed points may lead to another one. Runs that learn are not accelerated.
    learn : tuple of str
        Parameters to learn by EM, one update an outer iteration: "rho", "eta", "lam" or "beta"; `tol` bounds their
        change too. The start of eta is kept between 0.6 and 0.98. There is no path of expected sizes as in EP: with few
        patterns a bad start of rho may stay bad.
    """

    tol: float = 1e-6
    max_iter: int = 2000
    inner_iter: int = 2
    inner_tol: float = 1e-6
    damping: float = 0.5
    stop: str = "mismatch"
    accelerated: bool = True
    learn: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        positive(tol=self.tol, inner_tol=self.inner_tol)
        whole(max_iter=self.max_iter, inner_iter=self.inner_iter)
        old_share(damping=self.damping)
        one_of(("mismatch", "change"), stop=self.stop)
        truth(accelerated=self.accelerated)
        names(learn=self.learn)

    @classmethod
    def paper(cls, tol: float = 1e-8) -> Self:
        """The settings of the paper: 1000 outer and 2000 inner iterations, plain ones, with the change as the rule."""
        return cls(tol, 1000, inner_iter=2000, inner_tol=1e-8, damping=0.0, stop="change", accelerated=False)


class Site(NamedTuple):
    """A message: one precision for all entries, and the means times that."""

    precision: float
    shift: Vector


class Design(NamedTuple):
    """The signed patterns and, factored once, their squared singular values and right singular vectors."""

    rows: Vector
    squares: Vector
    right: Vector

    def weights(self, prior: Site, seen: Site) -> tuple[Vector, np.float64]:
        """Mean and average variance of the weights, given a message from each side."""
        shift = prior.shift + seen.shift
        inside = self.right.T @ shift
        spread = 1.0 / (seen.precision * self.squares + prior.precision)
        mean, total = self.right @ (spread * inside), spread.sum()
        n_unseen = shift.size - self.squares.size
        if n_unseen:  # directions in which no pattern points
            mean += (shift - self.right @ inside) / prior.precision
            total += n_unseen / prior.precision
        return mean, np.float64(total / shift.size)

    def fields(self, mean: Vector, prior: Site, fields: Site) -> tuple[Vector, np.float64]:
        """Mean and average variance of the fields, given those means of the weights."""
        spread = self.squares / (fields.precision * self.squares + prior.precision)
        return self.rows @ mean, np.float64(np.sum(spread) / len(self.rows))


class Inner(NamedTuple):
    """VAMP for measured fields: the cavity (r1, 1/gamma1) of the weights, and what the prior made of the one before.

    At a fixed point the two cavities are the same. While the module swings they are not: means, which are the prior's,
    and inclusion probabilities, which are the cavity's, then belong to its two ends.
    """

    cavity: Gaussians
    tilted: Gaussians
    site: Site
    mean: Vector  # of the weights, as the fields want them
    var: float  # likewise, on average
    mismatch: float = np.inf
    error: float = np.inf
    failed: bool = False


class Outer(NamedTuple):
    """The inner module when it left, and the cavity of the fields. A cavity has one variance for all its entries."""

    blocks: Blocks
    inner: Inner
    cavity: Gaussians
    mismatch: float = np.inf
    error: float = np.inf
    failed: bool = False


def design_of(problem: Problem) -> Design:
    """One SVD: the only cubic cost."""
    rows = problem.signed()
    _, values, right = svd(rows, full_matrices=False, check_finite=False)
    return Design(rows, values**2, np.ascontiguousarray(right.T))


def init(design: Design, blocks: Blocks) -> Outer:
    """Weights at their prior, labels unheard."""
    n_patterns, n_features = design.rows.shape
    var = float(np.mean(_scale(blocks) ** 2))
    unheard = Gaussians(np.zeros(n_features), np.asarray(1e6 * var))
    prior = Gaussians(np.zeros(n_features), np.full(n_features, var))
    inner = Inner(unheard, prior, Site(1.0 / var, np.zeros(n_features)), np.zeros(n_features), var)
    return Outer(blocks, inner, Gaussians(np.zeros(n_patterns), np.asarray(_field_var(design, var))))


def step(state: Outer, design: Design, options: GrVAMPOptions, learned: frozenset[str]) -> Outer:
    """Labels once, then the inner module until it has settled, then the cavity of the fields."""
    with np.errstate(all="ignore"):  # messages that leave the valid range are looked for
        return _stepped(state, design, options, learned)


def _stepped(state: Outer, design: Design, options: GrVAMPOptions, learned: frozenset[str]) -> Outer:
    (weights, labels), scale = (block.prior for block in state.blocks), _scale(state.blocks)
    tilted = labels.tilted(state.cavity)
    heard = message(tilted, state.cavity)
    if not (heard.precision >= 0.0 and np.all(np.isfinite(heard.shift))):
        return state._replace(error=np.inf, failed=True)
    seen = Site(heard.precision, heard.shift @ design.rows)
    beat = min(BEAT, options.inner_iter + options.inner_iter % 2)
    rounds = partial(swing, design=design, seen=seen, prior=weights, damping=options.damping, scale=scale, beat=beat)
    start = state.inner._replace(error=np.inf)
    run = iterate(rounds, start, tol=options.inner_tol, max_iter=1 + -(-options.inner_iter // beat))
    inner = run.last
    mean, var = design.fields(inner.mean, inner.site, heard)
    cavity, unit = _cavity(mean, var, heard), np.sqrt(_field_var(design, float(np.mean(scale**2))))
    lost = np.sqrt(var) < MARGIN * unit  # labels that contradict drive the fields to zero: rounding would go on alone
    if inner.failed or cavity is None or lost:
        return state._replace(error=np.inf, failed=True)
    mismatch = max(inner.mismatch, _off(tilted, mean, var, unit))
    blocks = improved(state.blocks, _joined(inner.cavity, cavity), learned, em) if learned else state.blocks
    change = float(np.mean(np.abs(inner.tilted.mean - state.inner.tilted.mean)))
    error = max(mismatch if options.stop == "mismatch" else change, drift(state.blocks, blocks, learned))
    return Outer(blocks, inner, cavity, mismatch, error)


def swing(
    inner: Inner, design: Design, seen: Site, prior: Prior, damping: float, scale: Vector, beat: int = BEAT
) -> Inner:
    """`beat` rounds, so that swinging between as many points for ever counts as settled: later rounds change nothing.

    The mismatch tells swinging from rest.
    """
    new = inner
    for _ in range(beat):
        new = _round(new, design, seen, prior, damping)
    moved = float(np.max(np.abs(new.mean - inner.mean) / scale))
    return new._replace(mismatch=_off(new.tilted, new.mean, new.var, scale), error=moved)


def _round(inner: Inner, design: Design, seen: Site, prior: Prior, damping: float) -> Inner:
    """The prior, then the fields."""
    if inner.failed:
        return inner
    tilted = prior.tilted(inner.cavity)
    fresh = message(tilted, inner.cavity)
    site = Site(
        damping * inner.site.precision + (1.0 - damping) * fresh.precision,
        damping * inner.site.shift + (1.0 - damping) * fresh.shift,
    )
    if not site.precision > 0.0:
        return inner._replace(failed=True)
    mean, var = design.weights(site, seen)
    cavity = _cavity(mean, var, site)
    if cavity is None:
        return inner._replace(failed=True)
    return Inner(cavity, tilted, site, mean, float(var))


def point(state: Outer) -> Point:
    """All that an outer iteration takes from a state, in units of each one's uncertainty."""
    (mean, var), fields, site = state.inner.cavity, state.cavity, state.inner.site
    sizes = np.log(np.hstack([var, site.precision, fields.var]))  # every message has one precision for all
    units = np.hstack([1.0 / np.sqrt(var), np.sqrt(state.inner.var), 1.0 / np.sqrt(fields.var), 1.0])
    scale = np.repeat(units, [mean.size, site.shift.size, fields.mean.size, sizes.size])
    return Point(np.concatenate([mean, site.shift, fields.mean, sizes]), scale)


def moved(state: Outer, values: Vector) -> Outer:
    """The state with these values in place of its point's."""
    n_features, n_patterns = state.inner.site.shift.size, state.cavity.mean.size
    mean, shift, fields, sizes = np.split(values, np.cumsum([n_features, n_features, n_patterns]))
    var, precision, field_var = np.exp(sizes)
    cavity = Gaussians(mean, np.asarray(var))
    inner = state.inner._replace(cavity=cavity, site=Site(float(precision), shift))
    return state._replace(inner=inner, cavity=Gaussians(fields, np.asarray(field_var)))


def message(tilted: Gaussians, cavity: Gaussians) -> Site:
    """What a factor adds to its cavity when variances are matched on average, not one by one."""
    var, told = tilted.var.sum() / tilted.var.size, cavity.var[()]  # a third of the time of np.mean
    precision = 1.0 / var - 1.0 / told
    silent = abs(precision) < MARGIN / told  # rounding around nothing
    return Site(0.0 if silent else float(precision), tilted.mean / var - cavity.mean / told)


def _cavity(mean: Vector, var: np.float64, site: Site) -> Gaussians | None:
    """The others' opinion; None where it makes no sense."""
    precision, margin = 1.0 / var - site.precision, MARGIN / var
    precision = margin if abs(precision) < margin else precision  # no opinion
    if not (0.0 < precision < np.inf and np.isfinite(mean.sum())):
        return None
    return Gaussians((mean / var - site.shift) / precision, np.asarray(1.0 / precision))


def _each(cavity: Gaussians) -> Gaussians:
    """The one variance, written out for all entries."""
    return Gaussians(cavity.mean, np.full(cavity.mean.size, cavity.var))


def _off(tilted: Gaussians, mean: Vector, var: float, scale: float | Vector) -> float:
    """How far two sides disagree: on means in units of `scale`, on the average variance relatively."""
    return max(float(np.max(np.abs(tilted.mean - mean) / scale)), float(np.abs(np.mean(tilted.var) / var - 1.0)))


def _scale(blocks: Blocks) -> Vector:
    """Prior standard deviations of the weights."""
    precision = np.asarray(blocks[0].prior.flat_precision())
    return np.broadcast_to(1.0 / np.sqrt(precision), blocks[0].where.stop)


def _field_var(design: Design, var: float) -> float:
    return float(np.sum(design.squares) * var / len(design.rows))


def _joined(weights: Gaussians, fields: Gaussians) -> Gaussians:
    return Gaussians(*(np.concatenate(parts) for parts in zip(_each(weights), _each(fields), strict=True)))


def solve(
    problem: Problem,
    weights: Prior,
    labels: Prior,
    options: GrVAMPOptions | None = None,
    *,
    callback: Callable[[Outer], object] | None = None,
) -> Posterior:
    """Approximate the posterior by grVAMP.

    Parameters
    ----------
    problem : Problem
    weights, labels : Prior
    options : GrVAMPOptions, optional
    callback : callable, optional
        Sees every outer state; where it returns True the run stops.

    Returns
    -------
    Posterior
        Its `mismatch` is that of the moments, whatever the stopping rule: a run that stopped on the change of the
        weights with a large mismatch is no fixed point of VAMP.
    """
    began, options = time.perf_counter(), options or GrVAMPOptions()
    problem.check_priors(weights, labels)
    (n_patterns, n_features), learned = problem.X.shape, learnable(options.learn, weights, labels)
    design = design_of(problem)
    where = slice(n_features, n_features + n_patterns)
    blocks = ready((Block(slice(0, n_features), weights), Block(where, labels)), learned)
    outer = partial(step, design=design, options=options, learned=learned)
    swift = options.accelerated and not learned
    drive = partial(iterate_accelerated, point=point, moved=moved) if swift else iterate
    run = drive(
        outer,
        outer(init(design, blocks)),
        tol=options.tol,
        max_iter=options.max_iter,
        callback=callback,
    )
    end = run.best
    var = end.inner.tilted.var
    return Posterior(
        method="grvamp",
        mean=end.inner.tilted.mean,
        std=np.sqrt(var),
        inclusion=end.blocks[0].prior.inclusion(_each(end.inner.cavity)),
        flip=end.blocks[1].prior.flip(_each(end.cavity)),
        weights=end.blocks[0].prior,
        labels=end.blocks[1].prior,
        log_evidence=None,
        status=Status.COLLAPSED if fallen(run.last.inner.tilted, end.blocks) else run.status,
        mismatch=end.mismatch,
        trace=tuple(Mark("grvamp", error) for error in run.trace),
        seconds=time.perf_counter() - began,
        names=problem.names,
        center=problem.center,
        scale=problem.scale,
        source=lambda: Covariance.diagonal(var),
    )

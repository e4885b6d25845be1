"""Learning the priors' parameters: EM around EP, begun where a path of expected sizes has its best evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from dilutron.ep import Block, Blocks, log_evidence
from dilutron.gaussian import Sites
from dilutron.ladder import LADDER, Settled
from dilutron.loop import Memory, Status, iterate
from dilutron.priors import Gaussians, Prior
from dilutron.special import Vector

EDGE = 1e-9  # learned values stay this far inside their interval: its ends are absorbing for EM
CAUTION = 3.0  # longest accelerated move of one parameter, in log or log-odds units
E_TOL = 1e-4  # mismatch that an E-step is solved to
PATH_TOL = 1e-2  # the same on the path: the evidence is stationary, so its error is of second order
PATH_RATIO = 3.0  # each expected size on the path is this many times the one before
PATH_DROP = 5.0  # nats below the best at which the path ends
PATIENCE = 80  # factorisations for one point of the path
ROUNDS = 200  # E-steps at most
SLACK = 0.01  # nats that an accelerated step may lose to the E-step's tolerance

Improve = Callable[[Prior, Gaussians, frozenset[str]], Prior]
Rest = Callable[..., Settled]


class PathPoint(NamedTuple):
    """One row of the path: expected number of features, log evidence, and how EP ended there."""

    size: float
    log_evidence: float
    status: Status


class Learned(NamedTuple):
    """EP at rest under the learned priors, how the learning ended, and the path it came by."""

    settled: Settled
    path: tuple[PathPoint, ...]


class LearnState(NamedTuple):
    """The best E-step so far with the parameters its M-step asks for, and those to try next."""

    settled: Settled
    budget: int
    log_evidence: float
    error: float
    target: Blocks
    proposal: Blocks
    memory: Memory = Memory()
    accelerated: bool = False

    @property
    def failed(self) -> bool:
        """True where a callback stopped the E-step, or the factorisations are used up."""
        return self.settled.status is Status.STOPPED or len(self.settled.trace) >= self.budget


def em(prior: Prior, cavity: Gaussians, names: frozenset[str]) -> Prior:
    """The closed-form M-step."""
    return prior.learn(cavity, names)


def climb(prior: Prior, cavity: Gaussians, names: frozenset[str], *, rate: float) -> Prior:
    """One step up the slope of the log evidence: the paper's way of learning."""
    slopes = prior.slopes(cavity)
    moved = {n: getattr(prior, n) + rate * slopes[n] for n in prior.parameters if n in names}  # Eq. (C2)
    return with_values(prior, moved)


def with_values(prior: Prior, values: dict[str, float | Vector]) -> Prior:
    """The prior with these parameters, each kept inside its interval."""
    inside: dict[str, float | Vector] = {}
    for name, value in values.items():
        low, high = prior.parameters[name]
        kept = np.clip(value, low + EDGE, min(high - EDGE, 1.0 / EDGE))
        inside[name] = float(kept) if np.ndim(kept) == 0 else kept
    return replace(prior, **inside) if inside else prior  # type: ignore[type-var]


def improved(blocks: Blocks, cavity: Gaussians, names: frozenset[str], improve: Improve) -> Blocks:
    """The M-step of every block."""
    new = []
    for where, prior in blocks:
        asked = improve(prior, Gaussians(cavity.mean[where], cavity.var[where]), names)
        new.append(Block(where, with_values(asked, _values(asked, names))))
    return tuple(new)


def coordinates(blocks: Blocks, names: frozenset[str]) -> Vector:
    """The named parameters without bounds: log odds within an interval, logs on a half line."""
    parts = []
    for _, prior in blocks:
        for name, value in _values(prior, names).items():
            low, high = prior.parameters[name]
            free = np.log(value - low) if high == np.inf else logit((value - low) / (high - low))
            parts.append(np.ravel(free))
    return np.concatenate(parts)


def moved_to(blocks: Blocks, names: frozenset[str], point: Vector) -> Blocks:
    """The blocks whose `coordinates` are `point`."""
    new, used = [], 0
    for where, prior in blocks:
        values: dict[str, float | Vector] = {}
        for name, old in _values(prior, names).items():
            low, high = prior.parameters[name]
            part = point[used : used + np.size(old)].reshape(np.shape(old))
            used += np.size(old)
            values[name] = low + (np.exp(part) if high == np.inf else (high - low) * expit(part))
        new.append(Block(where, with_values(prior, values)))
    return tuple(new)


def learn(
    rest: Rest,
    blocks: Blocks,
    names: frozenset[str],
    improve: Improve = em,
    *,
    path: bool,
    tol: float,
    learn_tol: float,
    max_iter: int,
    start: Sites | None = None,
) -> Learned:
    """Maximise the log evidence over the named parameters, and run EP there down to `tol`.

    Each M-step is made at a fixed point of EP, where the explicit slopes of the log evidence are the whole ones.
    The sequence of M-steps is Anderson accelerated; an accelerated step that lowers the evidence is taken back.
    `rest(blocks, tol=, max_iter=, start=)` is `ladder.settle` with its other arguments given.
    """
    blocks = tuple(Block(b.where, with_values(b.prior, _values(b.prior, names))) for b in blocks)
    before: Settled | None = None
    points: tuple[PathPoint, ...] = ()
    if path and "rho" in names & blocks[0].prior.parameters.keys():
        before, points = _along_path(rest, blocks, names, improve, max_iter)
        blocks, start = before.state.blocks, before.state.here.sites
    e_step = partial(rest, tol=max(tol, E_TOL), ladder=LADDER[:2])  # a stubborn trial point is not worth every rung
    first = e_step(blocks, max_iter=_left(max_iter, before), start=start).after(before)
    step = partial(_em_step, e_step=e_step, names=names, improve=improve)
    run = iterate(step, _appraised(first, max_iter, names, improve), tol=learn_tol, max_iter=ROUNDS)
    settled = run.last.settled
    if settled.status is not Status.STOPPED:
        left, start = _left(max_iter, settled), settled.state.here.sites
        settled = rest(settled.state.blocks, tol=tol, max_iter=left, start=start).after(settled)
    if settled.status is Status.CONVERGED and run.status is not Status.CONVERGED:
        settled = settled._replace(status=Status.MAX_ITER)  # EP is at rest, the parameters are not
    return Learned(settled, points)


def _along_path(
    rest: Rest, blocks: Blocks, names: frozenset[str], improve: Improve, max_iter: int
) -> tuple[Settled, tuple[PathPoint, ...]]:
    """EP at expected sizes from sparse to dense, each from the last; where the evidence is best, learning begins."""
    n_weights = blocks[0].where.stop
    quick = (LADDER[0]._replace(patience=PATIENCE),)
    best: Settled | None = None
    settled: Settled | None = None
    points: list[PathPoint] = []
    size, top = 1.0, -np.inf
    while size <= n_weights / 2:
        blocks = (blocks[0]._replace(prior=_at_density(blocks[0].prior, size / n_weights)), *blocks[1:])
        start = settled.state.here.sites if settled and settled.status is Status.CONVERGED else None
        left = _left(max_iter, settled)
        settled = rest(blocks, tol=PATH_TOL, max_iter=left, start=start, ladder=quick).after(settled)
        points.append(PathPoint(size, log_evidence(settled.state.here), settled.status))
        good = settled.status is Status.CONVERGED
        if good and points[-1].log_evidence > top:
            best, top = settled, points[-1].log_evidence
        if settled.status is Status.STOPPED or (good and points[-1].log_evidence < top - PATH_DROP):
            break
        if good:
            blocks = improved(blocks, settled.state.here.cavity, names - {"rho"}, improve)
        size *= PATH_RATIO
    assert settled is not None, "the first size is always tried"
    if best is None or settled.status is Status.STOPPED:
        return settled, tuple(points)
    return best._replace(trace=settled.trace, failures=settled.failures, invalid=settled.invalid), tuple(points)


def _left(max_iter: int, settled: Settled | None) -> int:
    """Factorisations left, at least the one that any rest needs."""
    return max(1, max_iter - (len(settled.trace) if settled else 0))


def _appraised(settled: Settled, budget: int, names: frozenset[str], improve: Improve) -> LearnState:
    """An E-step with its evidence and its M-step."""
    blocks, here = settled.state.blocks, settled.state.here
    target = improved(blocks, here.cavity, names, improve)
    now, new = (
        np.concatenate([np.ravel(v) for b in x for v in _values(b.prior, names).values()]) for x in (blocks, target)
    )
    return LearnState(settled, budget, log_evidence(here), float(np.max(np.abs(new / now - 1.0))), target, target)


def _em_step(state: LearnState, e_step: Rest, names: frozenset[str], improve: Improve) -> LearnState:
    """One E-step at the proposal and the M-step after it, or back to the plain M-step where the jump was bad."""
    left, start = _left(state.budget, state.settled), state.settled.state.here.sites
    settled = e_step(state.proposal, max_iter=left, start=start).after(state.settled)
    new = _appraised(settled, state.budget, names, improve)
    bad = settled.status is not Status.CONVERGED or new.log_evidence < state.log_evidence - SLACK
    if bad and state.accelerated:
        kept = state.settled._replace(trace=settled.trace, failures=settled.failures, invalid=settled.invalid)
        return state._replace(settled=kept, proposal=state.target, memory=Memory(), accelerated=False)
    point = coordinates(settled.state.blocks, names)
    memory = state.memory.seen(point, coordinates(new.target, names) - point, 4)
    if len(memory.points) < 2:
        return new._replace(memory=memory)
    jump = np.clip(memory.extrapolated(np.ones_like(point), 1.0), point - CAUTION, point + CAUTION)
    return new._replace(memory=memory, proposal=moved_to(new.target, names, jump), accelerated=True)


def _at_density(prior: Prior, density: float) -> Prior:
    """The weights' prior with this mean density; where rho is an array its odds keep their ratios."""
    rho = _values(prior, frozenset({"rho"}))["rho"]
    return with_values(prior, {"rho": expit(logit(rho) + logit(density) - logit(np.mean(rho)))})


def _values(prior: Prior, names: frozenset[str]) -> dict[str, float | Vector]:
    """The named parameters of this prior."""
    return {name: getattr(prior, name) for name in prior.parameters if name in names}

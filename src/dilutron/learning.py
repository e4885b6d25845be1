"""Learning the priors' parameters: EM around EP, begun where a path of expected sizes has its best evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from dilutron.ep import Blocks, log_evidence
from dilutron.gaussian import Sites
from dilutron.ladder import LADDER, Rung, Settled
from dilutron.loop import Memory, Status, iterate
from dilutron.priors import Gaussians, Prior
from dilutron.special import Vector

EDGE = 1e-9  # learned values stay this far inside their interval: its ends are absorbing for EM
CAUTION = 3.0  # longest accelerated move of one parameter, in log or log-odds units
START = {"eta": (0.6, 0.98)}  # near 1/2 no label is heard; near 1 labels that contradict each other give EP no rest
E_TOL = 1e-4  # mismatch that an E-step is solved to
PATH_TOL = 1e-2  # the same on the path: the evidence is stationary, so its error is of second order
PATH_RATIO = 3.0  # each expected size on the path is this many times sparser than the one before
PATH_DROP = 5.0  # nats below the best at which the path ends
PATIENCE = 50  # for trial points: started close by, EP settles soon or not at all
M_STEPS = 30  # at the same cavities
THOROUGH = 3  # rungs for the points that matter: direct, late, annealed
HALVINGS = 4  # times that a bad M-step is tried again
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
    halvings: int = 0

    @property
    def failed(self) -> bool:
        """True where a callback stopped the E-step, the factorisations are used up, or no M-step leads on."""
        spent = len(self.settled.trace) >= self.budget or self.halvings > HALVINGS
        return spent or self.settled.status is Status.STOPPED


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
    for block in blocks:
        asked = improve(block.prior, block.part(cavity), names)
        new.append(block._replace(prior=with_values(asked, _values(asked, names))))
    return tuple(new)


def taught(blocks: Blocks, cavity: Gaussians, names: frozenset[str], tol: float) -> tuple[Blocks, float]:
    """The best values for these cavities, and how far they are in units of what they need not be moved for."""
    new = blocks
    for _ in range(M_STEPS):
        new = improved(new, cavity, names, em)
    far = drift(blocks, new, names) / tol
    return (new, far) if far > 1.0 else (blocks, 0.0)


def drift(old: Blocks, new: Blocks, names: frozenset[str]) -> float:
    """The largest relative change of a named parameter."""
    change = 0.0
    for before, after in zip(old, new, strict=True):
        for name, value in _values(before.prior, names).items():
            change = max(change, float(np.max(np.abs(getattr(after.prior, name) / value - 1.0))))
    return change


def ready(blocks: Blocks, names: frozenset[str]) -> Blocks:
    """Where learning begins: the given values, but for those from which EM cannot find its way."""
    new = []
    for block in blocks:
        values = _values(block.prior, names)
        values |= {name: np.clip(value, *START[name]) for name, value in values.items() if name in START}
        new.append(block._replace(prior=with_values(block.prior, values)))
    return tuple(new)


def coordinates(blocks: Blocks, names: frozenset[str]) -> Vector:
    """The named parameters without bounds: log odds within an interval, logs on a half line."""
    parts = []
    for block in blocks:
        for name, value in _values(block.prior, names).items():
            low, high = block.prior.parameters[name]
            free = np.log(value - low) if high == np.inf else logit((value - low) / (high - low))
            parts.append(np.ravel(free))
    return np.concatenate(parts)


def moved_to(blocks: Blocks, names: frozenset[str], point: Vector) -> Blocks:
    """The blocks whose `coordinates` are `point`."""
    new, used = [], 0
    for block in blocks:
        values: dict[str, float | Vector] = {}
        for name, old in _values(block.prior, names).items():
            low, high = block.prior.parameters[name]
            part = point[used : used + np.size(old)].reshape(np.shape(old))
            used += np.size(old)
            values[name] = low + (np.exp(part) if high == np.inf else (high - low) * expit(part))
        new.append(block._replace(prior=with_values(block.prior, values)))
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
    ladder: tuple[Rung, ...] = LADDER,
    start: Sites | None = None,
) -> Learned:
    """Maximise the log evidence over the named parameters, and run EP there down to `tol`.

    Each M-step is made at a fixed point of EP, where the explicit slopes of the log evidence are the whole ones.
    The sequence of M-steps is Anderson accelerated; an accelerated step that lowers the evidence is taken back.
    `rest(blocks, tol=, max_iter=, ladder=, start=)` is `ladder.settle` with its other arguments given.
    """
    quick = partial(rest, ladder=(ladder[0]._replace(patience=min(ladder[0].patience, PATIENCE)),))
    thorough = partial(rest, ladder=ladder[:THOROUGH])
    blocks = ready(blocks, names)
    before: Settled | None = None
    points: tuple[PathPoint, ...] = ()
    if path and start is None and "rho" in names & blocks[0].prior.parameters.keys():
        before, points = _along_path(quick, blocks, names, improve, max_iter)
        if before.status is Status.STOPPED or len(before.trace) >= max_iter:
            return Learned(_unfinished(before), points)
        blocks, start = before.state.blocks, before.state.here.sites
    e_tol = max(tol, E_TOL)
    first = thorough(blocks, tol=e_tol, max_iter=_left(max_iter, before), start=start).after(before)
    e_steps = partial(quick, tol=e_tol), partial(thorough, tol=e_tol)
    step = partial(_em_step, e_steps=e_steps, names=names, improve=improve)
    run = iterate(step, _appraised(first, max_iter, names, improve), tol=learn_tol, max_iter=max_iter)
    settled = run.last.settled
    if settled.status is Status.STOPPED or len(settled.trace) >= max_iter:
        return Learned(_unfinished(settled), points)
    if settled.state.here.mismatch > tol:
        left, start = _left(max_iter, settled), settled.state.here.sites
        settled = rest(settled.state.blocks, tol=tol, max_iter=left, ladder=ladder, start=start).after(settled)
    return Learned(settled if run.status is Status.CONVERGED else _unfinished(settled), points)


def _unfinished(settled: Settled) -> Settled:
    """EP may be at rest, but the parameters are not: that is no convergence."""
    return settled._replace(status=Status.MAX_ITER) if settled.status is Status.CONVERGED else settled


def _along_path(
    rest: Rest, blocks: Blocks, names: frozenset[str], improve: Improve, max_iter: int
) -> tuple[Settled, tuple[PathPoint, ...]]:
    """EP at expected sizes from dense, where it is easy, to sparse, each from the last that converged.

    Learning begins where the evidence is best. The path ends where the evidence has dropped well below that, or EP
    does not converge twice in a row: it is then sparser than the data allow.
    """
    n_weights = blocks[0].where.stop
    best: Settled | None = None
    last: Settled | None = None
    start: Sites | None = None
    points: list[PathPoint] = []
    size, top, lost = n_weights / 2.0, -np.inf, 0
    while last is None or size >= 1.0:
        blocks = (blocks[0]._replace(prior=_at_density(blocks[0].prior, size / n_weights)), *blocks[1:])
        left = _left(max_iter, last)
        last = rest(blocks, tol=PATH_TOL, max_iter=left, start=start).after(last)
        evidence, good = log_evidence(last.state.here), last.status is Status.CONVERGED
        points.append(PathPoint(size, evidence, last.status))
        if good and evidence > top:
            best, top = last, evidence
        lost = 0 if good else lost + 1
        if last.status is Status.STOPPED or lost == 2 or evidence < top - PATH_DROP or len(last.trace) >= max_iter:
            break
        if good:
            start = last.state.here.sites
            blocks = improved(blocks, last.state.here.cavity, names - {"rho"}, improve)
        size /= PATH_RATIO
    kept = last if best is None or last.status is Status.STOPPED else best
    return last._replace(state=kept.state, status=kept.status), tuple(points)


def _left(max_iter: int, settled: Settled | None) -> int:
    """Factorisations left, at least the one that any rest needs."""
    return max(1, max_iter - (len(settled.trace) if settled else 0))


def _appraised(settled: Settled, budget: int, names: frozenset[str], improve: Improve) -> LearnState:
    """An E-step with its evidence and its M-step. The error is the largest relative change that EM would make.

    That is so for gradient steps too: their own change says more of the rate than of the distance.
    """
    blocks, here = settled.state.blocks, settled.state.here
    target = improved(blocks, here.cavity, names, improve)
    change = drift(blocks, improved(blocks, here.cavity, names, em), names)
    objective = log_evidence(here) + sum(block.prior.log_belief() for block in blocks)
    return LearnState(settled, budget, objective, change, target, target)


def _em_step(state: LearnState, e_steps: tuple[Rest, Rest], names: frozenset[str], improve: Improve) -> LearnState:
    """One E-step at the proposal and the M-step after it; a proposal that turns out bad is taken back."""
    left, start = _left(state.budget, state.settled), state.settled.state.here.sites
    quick, thorough = e_steps
    e_step = thorough if state.halvings == HALVINGS else quick
    settled = e_step(state.proposal, max_iter=left, start=start).after(state.settled)
    new = _appraised(settled, state.budget, names, improve)
    worse = settled.status is not Status.CONVERGED or new.log_evidence < state.log_evidence - SLACK
    if worse and settled.status is not Status.STOPPED and state.settled.status is Status.CONVERGED:
        return _taken_back(state, settled, names)
    point = coordinates(settled.state.blocks, names)
    memory = state.memory.seen(point, coordinates(new.target, names) - point, 4)
    if len(memory.points) < 2:
        return new._replace(memory=memory)
    jump = np.clip(memory.extrapolated(np.ones_like(point), 1.0), point - CAUTION, point + CAUTION)
    return new._replace(memory=memory, proposal=moved_to(new.target, names, jump), accelerated=True)


def _taken_back(state: LearnState, tried: Settled, names: frozenset[str]) -> LearnState:
    """After a jump, the plain M-step instead; after that, halves of it; at last the whole one with more patience."""
    kept = state.settled._replace(trace=tried.trace, failures=tried.failures, invalid=tried.invalid)
    if state.accelerated:
        return state._replace(settled=kept, proposal=state.target, memory=Memory(), accelerated=False)
    here, there = (coordinates(blocks, names) for blocks in (state.settled.state.blocks, state.proposal))
    halvings = state.halvings + 1
    half = moved_to(state.target, names, 0.5 * (here + there))
    proposal = state.target if halvings == HALVINGS else half
    return state._replace(settled=kept, proposal=proposal, memory=Memory(), halvings=halvings)


def _at_density(prior: Prior, density: float) -> Prior:
    """The weights' prior with this mean density; where rho is an array its odds keep their ratios."""
    rho = _values(prior, frozenset({"rho"}))["rho"]
    return with_values(prior, {"rho": expit(logit(rho) + logit(density) - logit(np.mean(rho)))})


def _values(prior: Prior, names: frozenset[str]) -> dict[str, float | Vector]:
    """The named parameters of this prior."""
    return {name: getattr(prior, name) for name in prior.parameters if name in names}

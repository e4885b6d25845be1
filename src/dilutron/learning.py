"""Learning the priors' parameters: EM around EP, begun where a path of expected sizes has its best evidence."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from dilutron.ep import Blocks, log_evidence
from dilutron.gaussian import Sites
from dilutron.ladder import ENDED, LADDER, Rung, Settled
from dilutron.loop import Memory, Status, iterate
from dilutron.parameters import Improve, at_density, coordinates, drift, em, improved, moved_to, ready, values_of
from dilutron.priors import Gaussians
from dilutron.special import Vector

PATH_TOL = 1e-2  # mismatch on the path: the evidence is stationary, so its error is of second order
PATH_RATIO = 3.0  # each expected size on the path is this many times sparser than the one before
PATH_DROP = 5.0  # nats below the best at which the path ends
TALL = 20.0  # rows a feature from which the evidence has one sharp peak: no path, and EP hardly needs damping
BOLD = 0.1  # damping there
E_TOL, E_ROUGH = 1e-4, 1e-3  # mismatch that an E-step is solved to, at least and at most,
E_SHARE = 0.1  # and in units of the change that EM would make
CAUTION = 3.0  # longest move of one parameter, in log or log-odds units
SHRINK, GROWTH = 0.5, 1.2  # of the longest move, where EP could not follow and where it could
STRIDE, FARTHEST = 2.0, 1e6  # growth of a move in units of the M-step, while acceleration does not lead up; its end
SLACK = 1e-3  # nats that a move may lose
WORTH = 0.2  # nats that a move must promise for EP to be asked to follow a shorter one
PATIENCE = 50  # for trial points: started close by, EP settles soon or not at all
HEED = 0.03  # root mean square of a visit's mismatches below which it teaches what is learned along the way
M_STEPS, SURE = 30, 0.01  # of these at the same cavities at most, and change that ends them: learning along the way
ENOUGH = 0.01  # share of all their change that ends them where labels are many, and each of them costs time
# Rungs (direct, late, annealed) for the points that matter, and factorisations, so many that the last rung is seldom
# cut short: with half of them rounding decided whether a parameter was held.
THOROUGH, PATIENT = 3, 1000

Rest = Callable[..., Settled]


class PathPoint(NamedTuple):
    """One row of the path: expected number of features, log evidence, and how EP ended there."""

    size: float
    log_evidence: float
    status: Status


class Learned(NamedTuple):
    """EP at rest under the learned priors, the path it came by, and the parameters that EP could follow no further."""

    settled: Settled
    path: tuple[PathPoint, ...]
    held: tuple[str, ...] = ()


class LearnState(NamedTuple):
    """The best E-step so far with the parameters its M-step asks for, and those to try next.

    `names` are still to be learned; `held` are those that EP could follow no further. No coordinate moves by more than
    `reach`; the proposal is `stride` M-steps long. Once EP has not followed, E-steps are `tight`: there are places
    where it almost, but not quite, has a fixed point; where that was such a place, the way goes back to the E-step
    `before`. With `patient`, the proposal is the last one before a parameter is held.
    """

    settled: Settled
    budget: int
    names: frozenset[str]
    objective: float
    error: float
    target: Blocks
    proposal: Blocks
    memory: Memory = Memory()
    reach: float = CAUTION
    stride: float = 1.0
    tight: bool = False
    patient: bool = False
    held: frozenset[str] = frozenset()
    before: LearnState | None = None

    @property
    def failed(self) -> bool:
        """True where a callback stopped the E-step, or the factorisations are used up."""
        return len(self.settled.trace) >= self.budget or self.settled.status is Status.STOPPED

    @property
    def place(self) -> Vector:
        """The coordinates of the E-step."""
        return coordinates(self.settled.state.blocks, self.names)

    @property
    def wish(self) -> Vector:
        """The move that the M-step asks for."""
        return coordinates(self.target, self.names) - self.place

    def moved(self, move: Vector) -> Blocks:
        """The blocks after a move, cut to the reach."""
        return moved_to(self.target, self.names, self.place + move * min(1.0, self.reach / _length(move)))

    def promise(self, there: Blocks) -> float:
        """Nats that going there promises, by the slopes of the evidence at the E-step."""
        (here, blocks), gain = (self.settled.state.here, self.settled.state.blocks), 0.0
        for old, new in zip(blocks, there, strict=True):
            slopes = old.prior.slopes(old.part(here.cavity))
            for name, value in values_of(old.prior, self.names).items():
                gain += float(np.sum(slopes[name] * (getattr(new.prior, name) - value)))
            gain += new.prior.log_belief() - old.prior.log_belief()
        return gain


def taught(
    blocks: Blocks, cavity: Gaussians, off: float, names: frozenset[str], tol: float, heed: float, enough: float = 0.0
) -> tuple[Blocks, float]:
    """The best values for these cavities, and how far they are in units of what they need not be moved for.

    A visit that is `off`, the root mean square of its mismatches, by `heed` or more teaches nothing yet; nor does one
    whose cavities the better values would not bear, as those of negative precision and a slab that has become wider.
    Values need be no better than to the share `enough` of how far they are: the next visit moves them on.
    """
    if not off < heed:
        return blocks, np.inf
    new = blocks
    for _ in range(M_STEPS):
        last, new = new, improved(new, cavity, names, em)
        if not all(np.all(block.prior.admits(*_natural(block.part(cavity)))) for block in new):
            return blocks, np.inf
        far = drift(blocks, new, names) / tol
        if drift(last, new, names) < tol * max(SURE, enough * far):
            break
    return (new, far) if far > 1.0 else (blocks, 0.0)


def _natural(cavity: Gaussians) -> Sites:
    return Sites(1.0 / cavity.var, cavity.mean / cavity.var)


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
    The sequence of M-steps is Anderson accelerated. A move that EP cannot follow, because it comes to no rest there or
    the evidence is lower, is shortened. Where EP cannot follow a move that promises less than WORTH, nor with all
    patience the M-step, the parameter that was to move most is held there, and the others are learned on; of these
    the whole M-step is not tried again before they are held.
    `rest(blocks, tol=, max_iter=, ladder=, start=)` is `ladder.settle` with its other arguments given.
    """
    tall = blocks[-1].where.stop > (1.0 + TALL) * blocks[-1].where.start
    direct = ladder[0]._replace(patience=min(ladder[0].patience, PATIENCE))
    if tall and direct.pace.damping == LADDER[0].pace.damping:  # not where another one was asked for
        direct = direct._replace(pace=direct.pace._replace(damping=min(BOLD, direct.pace.damping)))
    quick = partial(rest, ladder=(direct,))
    thorough = partial(rest, ladder=ladder[:THOROUGH])
    afresh = () if ladder[0].proper else ladder[:1]  # after where it was; proper rungs only ever begin there
    patient = partial(rest, ladder=(*afresh, *ladder[:THOROUGH]))
    blocks = ready(blocks, names)
    before: Settled | None = None
    points: tuple[PathPoint, ...] = ()
    if path and not tall and start is None and "rho" in names & blocks[0].prior.parameters.keys():
        before, points = _along_path(quick, blocks, names, improve, max_iter)
        if before.status is Status.STOPPED or len(before.trace) >= max_iter:
            return Learned(_unfinished(before), points)
        blocks, start = before.state.blocks, before.state.here.sites
    tried: Settled | None = None
    if tall and improve is em:  # many rows tell early where the peak is: learned along the way, it is near at first
        along = partial(taught, names=names, tol=learn_tol, heed=HEED, enough=ENOUGH)
        tried = quick(blocks, tol=max(tol, E_ROUGH), max_iter=max_iter, start=start, teach=along)
    if tried is not None and tried.status in ENDED:
        first = tried
    else:
        before = before if tried is None else tried.after(before)
        first = thorough(blocks, tol=max(tol, E_ROUGH), max_iter=_left(max_iter, before), start=start).after(before)
    step = partial(_step, quick=quick, patient=patient, tol=tol, improve=improve)
    run = iterate(step, _appraised(first, max_iter, names, improve), tol=learn_tol, max_iter=max_iter)
    settled, held = run.last.settled, tuple(sorted(run.last.held))
    if settled.status is Status.STOPPED or len(settled.trace) >= max_iter:
        return Learned(_unfinished(settled), points, held)
    if settled.state.here.mismatch > tol:
        left, start = _left(max_iter, settled), settled.state.here.sites
        settled = rest(settled.state.blocks, tol=tol, max_iter=left, ladder=ladder, start=start).after(settled)
    return Learned(settled if run.status is Status.CONVERGED else _unfinished(settled), points, held)


def _unfinished(settled: Settled) -> Settled:
    """EP may be at rest, but the parameters are not: that is no convergence."""
    return settled._replace(status=Status.MAX_ITER) if settled.status is Status.CONVERGED else settled


def _along_path(
    rest: Rest, blocks: Blocks, names: frozenset[str], improve: Improve, max_iter: int
) -> tuple[Settled, tuple[PathPoint, ...]]:
    """EP at expected sizes from dense, where it is easy, to sparse, each from the last that converged.

    Learning begins where the evidence is best, or at the densest where EP rests nowhere: hard labels that contradict
    drive sparser ones into the trap w = 0. The path ends where the evidence has dropped well below that, or EP
    does not converge twice in a row: it is then sparser than the data allow.
    """
    n_weights = blocks[0].where.stop
    first: Settled | None = None
    best: Settled | None = None
    last: Settled | None = None
    start: Sites | None = None
    points: list[PathPoint] = []
    size, top, lost = n_weights / 2.0, -np.inf, 0
    while last is None or size >= 1.0:
        blocks = (blocks[0]._replace(prior=at_density(blocks[0].prior, size / n_weights)), *blocks[1:])
        left = _left(max_iter, last)
        last = rest(blocks, tol=PATH_TOL, max_iter=left, start=start).after(last)
        first = first or last
        evidence, good = log_evidence(last.state.here), last.status is Status.CONVERGED
        points.append(PathPoint(size, evidence, last.status))
        if good and evidence > top:
            best, top = last, evidence
        lost = 0 if good else lost + 1
        dropped = good and evidence < top - PATH_DROP
        if last.status is Status.STOPPED or lost == 2 or dropped or len(last.trace) >= max_iter:
            break
        if good:
            start = last.state.here.sites
            blocks = improved(blocks, last.state.here.cavity, names - {"rho"}, improve)
        size /= PATH_RATIO
    kept = last if last.status is Status.STOPPED else best or first or last
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
    return LearnState(settled, budget, names, objective, change, target, target)


def _step(state: LearnState, quick: Rest, patient: Rest, tol: float, improve: Improve) -> LearnState:
    """One E-step at the proposal and the M-step after it, or a shorter move where EP cannot follow."""
    old, left = state.settled, _left(state.budget, state.settled)
    e_tol = tol if state.tight else max(tol, float(np.clip(E_SHARE * state.error, E_TOL, E_ROUGH)))
    e_step, left = (patient, min(left, PATIENT)) if state.patient else (quick, left)
    settled = e_step(state.proposal, tol=e_tol, max_iter=left, start=old.state.here.sites).after(old)
    new = _appraised(settled, state.budget, state.names, improve)
    lost = state.objective - new.objective - SLACK - _noise(old) - _noise(settled)
    refused = settled.status is not Status.CONVERGED or lost > 0.0
    if refused and settled.status is not Status.STOPPED and old.status is Status.CONVERGED:
        state = _kept(state, settled)
        back = _taken_back(state, improve)
        unsure = old.state.here.mismatch > tol and (not state.tight or back.held != state.held)
        return _made_sure(state, patient, tol, improve) if unsure else back
    reach = CAUTION if state.patient else min(GROWTH * state.reach, CAUTION)
    memory = state.memory.seen(new.place, new.wish, 4)
    new = new._replace(memory=memory, reach=reach, stride=state.stride, tight=state.tight, held=state.held)
    return _onward(new if state.tight else new._replace(before=state._replace(before=None)))  # one is enough to hold


def _noise(settled: Settled) -> float:
    """Nats by which the evidence is off before EP is quite at rest: of second order, for it is stationary there."""
    here = settled.state.here
    return float(here.tilted.mean.size * min(here.spread, 1.0) ** 2)


def _onward(state: LearnState) -> LearnState:
    """The next proposal: where accelerated M-steps lead if that is further up than the M-step itself.

    Else twice as far as the last one: where the evidence is convex acceleration leads down, to its minimum, and where
    it is all but flat M-steps alone would creep for ever.
    """
    points = state.memory.points
    if len(points) < 2:
        return state._replace(proposal=state.moved(state.wish), stride=1.0)
    jump = state.moved(state.memory.extrapolated(np.ones_like(points[-1]), 1.0) - points[-1])
    if state.promise(jump) > state.promise(state.target):
        return state._replace(proposal=jump, stride=1.0)
    stride = min(STRIDE * state.stride, FARTHEST)
    return state._replace(proposal=state.moved(stride * state.wish), stride=stride)


def _kept(state: LearnState, tried: Settled) -> LearnState:
    """The state as it was, with the way to what was tried and refused."""
    settled = state.settled._replace(trace=tried.trace, failures=tried.failures, invalid=tried.invalid)
    return state._replace(settled=settled)


def _made_sure(state: LearnState, patient: Rest, tol: float, improve: Improve) -> LearnState:
    """After the first move that EP could not follow, and before a parameter is held: EP down to `tol` where it is.

    From there it follows moves better. Where it only almost rests no parameter is held, which would leave it without
    rest for good: the way goes back to the E-step before, and less far.
    """
    old, left = state.settled, min(_left(state.budget, state.settled), PATIENT)
    here = patient(old.state.blocks, tol=tol, max_iter=left, start=old.state.here.sites).after(old)
    if here.status is Status.STOPPED:
        return state._replace(settled=here)
    if here.status is Status.CONVERGED:
        return _taken_back(state._replace(settled=here), improve)
    kept = _taken_back(_kept(state, here), improve)
    if kept.held == state.held or state.before is None:
        return kept
    back = _kept(state.before, here)
    reach = SHRINK * _length(state.place - back.place)
    back = back._replace(memory=Memory(), reach=reach, stride=1.0, tight=True)
    return back._replace(proposal=back.moved(back.wish))


def _taken_back(state: LearnState, improve: Improve) -> LearnState:
    """After a move that EP could not follow: a shorter one, the last one, or the end for one parameter."""
    if state.stride > STRIDE:  # boldness alone may be to blame
        return state._replace(proposal=state.moved(state.wish), memory=Memory(), stride=1.0, tight=True)
    short = state.promise(state.proposal) < WORTH
    if state.patient or (short and state.held):
        last = max(sorted(state.names), key=partial(_way, state))
        held = _appraised(state.settled, state.budget, state.names - {last}, improve)
        return held._replace(tight=True, held=state.held | {last})
    if short:
        return state._replace(proposal=state.target, tight=True, patient=True)
    reach = SHRINK * _length(coordinates(state.proposal, state.names) - state.place)
    state = state._replace(memory=Memory(), reach=reach, tight=True)
    return state._replace(proposal=state.moved(state.wish))


def _way(state: LearnState, name: str) -> float:
    """How far the M-step moves one parameter."""
    return _length(state._replace(names=frozenset({name})).wish)


def _length(move: Vector) -> float:
    """Of the longest coordinate; never zero."""
    return float(np.max(np.abs(move), initial=np.finfo(np.float64).tiny))

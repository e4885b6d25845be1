from functools import partial

import numpy as np
import pytest

from benchmarks.real_data import load
from benchmarks.wide import SHARED
from dilutron import EPOptions, Normal, Problem, RobustProbit, SpikeSlab, Status, Theta, ThetaMixture, solve, stepping
from dilutron.ep import Block, fallen, log_evidence
from dilutron.gaussian import Dual, NotPositive, Primal, choose
from dilutron.ladder import LADDER, PROPER, Rung, settle
from dilutron.learning import taught
from dilutron.priors import Gaussians
from dilutron.stepping import RETREATS, Pace, working_set
from tests.problems import pair_of_blocks, teacher_problem

PROTOCOL = [
    (patterns, eta, alpha, seed)
    for seed, (patterns, eta, alpha) in enumerate(
        (p, e, a) for p in ("iid", "mvn") for e in (1.0, 0.95, 0.9) for a in (0.5, 2.0, 6.0)
    )
]


ANNEALED = next(rung for rung in LADDER if rung.name == "annealed")


@pytest.mark.parametrize(("patterns", "eta", "alpha", "seed"), PROTOCOL)
def test_the_papers_protocol_converges(patterns, eta, alpha, seed):
    problem, _ = teacher_problem(128, alpha, seed=seed, eta=eta, patterns=patterns)
    posterior = solve(problem, SpikeSlab(0.25), ThetaMixture(eta), options=EPOptions(max_iter=300))
    assert posterior.status is Status.CONVERGED
    assert posterior.mismatch < 1e-6
    assert np.count_nonzero(posterior.mean) == 128, "not collapsed"


@pytest.mark.parametrize("rung", [rung for rung in LADDER[1:] if not rung.proper], ids=lambda rung: rung.name)
@pytest.mark.parametrize("labels", [Theta(), ThetaMixture(0.9)], ids=["theta", "theta mixture"])
def test_every_rung_alone_reaches_the_same_fixed_point(rung, labels):
    problem, _ = teacher_problem(60, 2.0, seed=2, eta=labels.eta)
    gaussian = choose(problem.signed())
    blocks = pair_of_blocks(SpikeSlab(0.25), labels, gaussian.shape)
    first = settle(gaussian, blocks, tol=1e-8, max_iter=5000, ladder=LADDER[:1])
    other = settle(gaussian, blocks, tol=1e-8, max_iter=5000, ladder=(rung,))
    assert first.status is other.status is Status.CONVERGED
    np.testing.assert_allclose(other.state.here.tilted.mean, first.state.here.tilted.mean, atol=1e-6)
    assert other.state.blocks == blocks, "the answer is at the true temperature"


class Dead(Primal):
    """After the start, every factorisation of the first rung fails."""

    calls = 0

    def marginals(self, sites):
        self.calls += 1
        if 2 <= self.calls <= RETREATS + 2:
            raise NotPositive("dead")
        return super().marginals(sites)


def test_a_failed_first_rung_is_followed_by_the_next():
    problem, _ = teacher_problem(60, 2.0, seed=2)
    blocks = pair_of_blocks(SpikeSlab(0.25), Theta(), problem.X.shape)
    direct = settle(Primal(problem.signed()), blocks, tol=1e-8, max_iter=5000)
    settled = settle(Dead(problem.signed()), blocks, tol=1e-8, max_iter=5000)
    assert settled.status is Status.CONVERGED
    stages = [mark.stage for mark in settled.trace]
    assert stages.count(LADDER[0].name) == RETREATS + 2
    assert stages[RETREATS + 2].startswith(LADDER[1].name)
    assert settled.failures >= RETREATS + 1, "what the first rung met is reported too"
    np.testing.assert_allclose(settled.state.here.tilted.mean, direct.state.here.tilted.mean, atol=1e-6)
    alone = settle(Dead(problem.signed()), blocks, tol=1e-8, max_iter=5000, ladder=LADDER[:1])
    assert alone.status is Status.DIVERGED


class Shaky(Primal):
    """Every fifth factorisation fails, as a cavity that is invalid by rounding would have it."""

    calls = 0

    def marginals(self, sites):
        self.calls += 1
        if self.calls % 5 == 0:
            raise NotPositive("shaken")
        return super().marginals(sites)


def test_failures_are_recovered_from_and_reported():
    problem, _ = teacher_problem(40, 2.0, seed=2)
    blocks = pair_of_blocks(SpikeSlab(0.25), Theta(), problem.X.shape)
    calm = settle(Primal(problem.signed()), blocks, tol=1e-7, max_iter=5000)
    shaky = Shaky(problem.signed())
    settled = settle(shaky, blocks, tol=1e-7, max_iter=5000)
    assert settled.status is Status.CONVERGED
    assert settled.failures == shaky.calls // 5
    np.testing.assert_allclose(settled.state.here.tilted.mean, calm.state.here.tilted.mean, atol=1e-5)


def test_the_trace_has_one_mark_for_each_factorisation():
    problem, _ = teacher_problem(40, 2.0, seed=2)
    blocks = pair_of_blocks(SpikeSlab(0.25), Theta(), problem.X.shape)
    gaussian = Shaky(problem.signed())
    settled = settle(gaussian, blocks, tol=1e-7, max_iter=5000)
    assert len(settled.trace) == gaussian.calls


def test_annealing_starts_hot():
    """The heated stages see a factor of finite beta, the last one the true one."""
    problem, _ = teacher_problem(20, 2.0, seed=2)
    blocks = pair_of_blocks(SpikeSlab(0.25), Theta(), problem.X.shape)
    betas = []
    settle(
        choose(problem.signed()),
        blocks,
        tol=1e-6,
        max_iter=1000,
        ladder=(ANNEALED,),
        callback=lambda state: betas.append(state.blocks[1].prior.beta),
    )
    order = list(dict.fromkeys(betas))
    assert order == sorted(order)
    assert len(order) == len(ANNEALED.temperatures) + 1
    assert order[-1] == np.inf


def test_a_collapsed_run_is_told_from_weights_that_are_merely_small():
    """lam = 1e8: every weight is about 1e-4, which is its natural size."""
    problem, _ = teacher_problem(20, 2.0, seed=2)
    posterior = solve(problem, SpikeSlab(0.25, 1e8), Theta())
    assert posterior.status is Status.CONVERGED
    assert np.max(np.abs(posterior.mean)) < 1e-3


def test_where_the_labels_are_log_concave_proper_ones_are_those_of_ep():
    problem, _ = teacher_problem(60, 2.0, seed=2)
    gaussian = choose(problem.signed())
    blocks = pair_of_blocks(SpikeSlab(0.25), Theta(), gaussian.shape)
    rungs = LADDER[:1], PROPER[:1]
    first, other = (settle(gaussian, blocks, tol=1e-8, max_iter=5000, ladder=ladder) for ladder in rungs)
    assert first.status is other.status is Status.CONVERGED
    np.testing.assert_allclose(other.state.here.tilted.mean, first.state.here.tilted.mean, atol=1e-6)


@pytest.mark.skipif(not (SHARED / "prostate_singh.npz").is_file(), reason="needs the prostate data")
def test_proper_labels_rest_where_ep_swings_and_none_makes_its_field_less_certain():
    """82 of 102 samples, 12,600 genes, 20 of them expected: the way from dense to sparse ends here for EP."""
    X, y, _ = load("prostate_singh")
    problem = Problem.from_arrays(X[:82], np.where(y[:82] > 0, 1.0, -1.0), standardize=True, strict=False)
    gaussian, start = choose(problem.signed()), None
    for size in (200, 63, 20):
        labels = RobustProbit(0.97, 10.0 / size)
        blocks = pair_of_blocks(SpikeSlab(size / X.shape[1]), labels, gaussian.shape)
        swing, rest = (
            settle(gaussian, blocks, tol=1e-3, max_iter=150, ladder=ladder, start=start)
            for ladder in (LADDER[:1], PROPER)
        )
        assert rest.status is Status.CONVERGED
        start = rest.state.here.sites
    assert swing.status is not Status.CONVERGED
    where = rest.state.blocks[-1].where
    assert np.all(rest.state.here.target.precision[where] >= 0.0)
    assert np.all(rest.state.here.tilted.var[where] <= rest.state.here.cavity.var[where])


def test_moments_that_overflow_have_not_collapsed():
    blocks = pair_of_blocks(SpikeSlab(0.25), Theta(), (2, 3))
    assert not fallen(Gaussians(np.full(3, 1e200), np.ones(3)), blocks)
    assert fallen(Gaussians(np.zeros(3), np.full(3, 1e-9)), blocks)


class Restless(Dual):
    """A design of whose working sets none is asked for."""

    def part(self, which, sites):
        self.asked = which
        return None


def wide_blocks(seed=0):
    """Three of 400 columns matter, one of them has a rival."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 400))
    X[:, 3] = X[:, 0] + 0.3 * rng.standard_normal(60)
    problem = Problem.from_arrays(X, np.where(X[:, :3] @ [2.0, -2.0, 1.0] > 0.0, 1.0, -1.0))
    design = problem.signed(intercept=True)
    weights, labels = SpikeSlab(0.01), RobustProbit(0.95, 0.5)
    return design, (Block(slice(0, 400), weights), Block(slice(400, 401), Normal(0.1)), Block(slice(401, 461), labels))


def test_proper_weights_are_never_less_certain_than_without_their_prior():
    """That one of two rivals is present makes both uncertain: EP's sites there are negative."""
    design, blocks = wide_blocks()
    rungs = (Rung("one", Pace(), (), 80, proper) for proper in ("labels", "all"))
    plain, proper = (settle(Dual(design), blocks, tol=1e-6, max_iter=500, ladder=(rung,)) for rung in rungs)
    assert plain.status is proper.status is Status.CONVERGED
    assert plain.state.here.sites.precision[:400].min() < -0.1
    assert proper.state.here.sites.precision.min() > -1e-5


@pytest.mark.parametrize("proper", ["labels", "all"])
def test_working_sets_do_not_change_where_ep_rests(proper):
    design, blocks = wide_blocks()
    whole = Rung("whole", Pace(), (), 80, proper)
    parts = whole._replace(name="parts", pace=Pace(0.1, 10.0, means=8, parts=True))
    first, other = (settle(Dual(design), blocks, tol=1e-8, max_iter=500, ladder=(rung,)) for rung in (whole, parts))
    assert first.status is other.status is Status.CONVERGED
    np.testing.assert_allclose(other.state.here.tilted.mean, first.state.here.tilted.mean, atol=1e-6)
    assert log_evidence(other.state.here) == pytest.approx(log_evidence(first.state.here), abs=1e-5)
    assert len(other.trace) < 0.7 * len(first.trace), "that is what they are for"


def test_a_backend_without_parts_is_iterated_as_a_whole():
    design, blocks = wide_blocks()
    gaussian = Restless(design)
    ladder = (Rung("one", Pace(parts=True), (), 80, "labels"),)
    settled = settle(gaussian, blocks, tol=1e-4, max_iter=300, ladder=ladder)
    assert settled.status is Status.CONVERGED
    assert {0, 1} <= set(gaussian.asked)
    assert 400 in gaussian.asked, "the intercept is in every working set"
    assert gaussian.asked.size < 0.125 * 401


def test_what_learns_along_learns_the_same_in_parts():
    design, blocks = wide_blocks()
    teach = partial(taught, names=frozenset({"eta"}), tol=1e-6, heed=0.03)
    etas = []
    for pace in (Pace(), Pace(0.1, 10.0, parts=True)):
        ladder = (Rung("one", pace, (), 80, "labels"),)
        settled = settle(Dual(design), blocks, tol=1e-6, max_iter=500, ladder=ladder, teach=teach)
        assert settled.status is Status.CONVERGED
        etas.append(settled.state.blocks[-1].prior.eta)
    assert etas[0] == pytest.approx(etas[1], abs=1e-5)
    assert abs(etas[0] - 0.95) > 1e-3, "there was something to learn"


def test_where_no_weight_matters_the_labels_alone_come_to_rest():
    """Dense weights, hard labels and no intercept: the working set is empty."""
    problem, _ = teacher_problem(200, 0.05, seed=2)
    gaussian = Dual(problem.signed())
    blocks = pair_of_blocks(SpikeSlab(0.5), Theta(), gaussian.shape)
    whole, parts = (
        settle(gaussian, blocks, tol=1e-7, max_iter=300, ladder=(Rung("one", pace, (), 80, "labels"),))
        for pace in (Pace(), Pace(0.1, 10.0, parts=True))
    )
    assert working_set(whole.state.here.sites, whole.state.here, blocks).size == 0
    assert whole.status is parts.status is Status.CONVERGED
    np.testing.assert_allclose(parts.state.here.tilted.mean, whole.state.here.tilted.mean, atol=1e-6)


def test_weights_without_precision_are_in_the_working_set_or_there_is_none():
    design, blocks = wide_blocks()
    here = settle(Dual(design), blocks, tol=1e-4, max_iter=100, ladder=PROPER).state.here
    few = here.sites._replace(precision=np.where(np.arange(461) == 7, -0.1, here.sites.precision))
    assert 7 in working_set(few, here, blocks)
    assert working_set(here.sites._replace(precision=np.full(461, -0.1)), here, blocks) is None


def test_a_run_whose_working_sets_find_no_rest_ends_soon(monkeypatch):
    monkeypatch.setattr(stepping, "LONGEST", 1)
    design, blocks = wide_blocks()
    ladder = (Rung("one", Pace(0.1, 10.0, parts=True), (), 80, "labels"),)
    settled = settle(Dual(design), blocks, tol=1e-8, max_iter=100, ladder=ladder)
    assert settled.status is Status.DIVERGED
    assert len(settled.trace) < 10

from functools import partial

import numpy as np
import pytest

from dilutron import (
    EPClassifier,
    Normal,
    Problem,
    RobustProbit,
    SpikeSlab,
    Status,
    Theta,
    ThetaMixture,
    stepping,
    student,
    wishes,
)
from dilutron.ep import Block, log_evidence
from dilutron.gaussian import Dual
from dilutron.ladder import PROPER, Rung, settle
from dilutron.learning import taught
from dilutron.stepping import BRIEF, LONG, Pace, init, working_set
from tests.problems import pair_of_blocks, teacher_problem, twins


class Whole(Dual):
    """A design that has no parts."""

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


@pytest.mark.parametrize("moves", [0, 8])
def test_no_matrix_of_a_factorisation_outlives_the_visit(moves):
    design, blocks = wide_blocks()
    assert init(blocks, Dual(design), Pace(means=moves)).here.marginals.means_at is None


@pytest.mark.parametrize("seed", [5, 9])
def test_a_longer_look_back_saves_iterations_where_many_directions_are_slow(seed):
    design = twins(seed).signed()
    blocks, counts = pair_of_blocks(SpikeSlab(0.1), ThetaMixture(0.95), design.shape), []
    for history in (BRIEF, LONG):
        ladder = (Rung("one", Pace(history=history), (), 80),)
        settled = settle(Dual(design), blocks, tol=1e-8, max_iter=800, ladder=ladder)
        assert settled.status is Status.CONVERGED
        counts.append(len(settled.trace))
    assert counts[1] < 0.7 * counts[0]


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
    gaussian = Whole(design)
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


def test_where_hardly_a_weight_matters_the_labels_come_to_rest():
    """Dense weights, hard labels and no intercept: the working set has one weight, so that it has a prior."""
    problem, _ = teacher_problem(200, 0.05, seed=2)
    gaussian = Dual(problem.signed())
    blocks = pair_of_blocks(SpikeSlab(0.5), Theta(), gaussian.shape)
    whole, parts = (
        settle(gaussian, blocks, tol=1e-7, max_iter=300, ladder=(Rung("one", pace, (), 80, "labels"),))
        for pace in (Pace(), Pace(0.1, 10.0, parts=True))
    )
    assert working_set(whole.state.here.sites, whole.state.here, blocks).size == 1
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
    assert settled.status is Status.MAX_ITER
    assert len(settled.trace) < 10


@pytest.mark.parametrize("intercept", [True, False])
def test_weights_with_priors_of_their_own_and_labels_that_count_twice_rest_alike(intercept):
    design, (weights, middle, labels) = wide_blocks()
    rng = np.random.default_rng(5)
    weights = weights._replace(prior=SpikeSlab(rng.uniform(0.005, 0.05, 400), rng.uniform(0.5, 2.0, 400)))
    labels = labels._replace(prior=RobustProbit(0.95, 0.5, np.where(np.arange(60) < 9, 2.0, 1.0)))
    blocks = (weights, middle, labels)
    if not intercept:
        design, blocks = np.ascontiguousarray(design[:, :400]), (weights, labels._replace(where=slice(400, 460)))
    whole, parts = (
        settle(Dual(design), blocks, tol=1e-7, max_iter=300, ladder=(Rung("one", pace, (), 80, "labels"),))
        for pace in (Pace(), Pace(0.1, 10.0, parts=True))
    )
    assert whole.status is parts.status is Status.CONVERGED
    np.testing.assert_allclose(parts.state.here.tilted.mean, whole.state.here.tilted.mean, atol=1e-6)


def test_a_classifier_on_a_table_that_counts_as_large(monkeypatch):
    """Prior inclusions of features, all of a path's sizes, in parts."""
    monkeypatch.setattr(student, "DEAR", 0.0)
    rng = np.random.default_rng(6)
    X = rng.standard_normal((60, 400))
    y = X[:, 0] - X[:, 1] + 0.3 * rng.standard_normal(60) > 0.0
    stages = set()
    honest = wishes.solve
    monkeypatch.setattr(
        wishes, "solve", lambda *a, **k: (p := honest(*a, **k), stages.update(m.stage for m in p.trace))[0]
    )
    model = EPClassifier(prior_inclusion=np.where(np.arange(400) < 10, 0.05, 0.01)).fit(X, y)
    assert "proper, in parts" in stages
    assert set(np.argsort(-model.inclusion_proba_)[:2]) == {0, 1}

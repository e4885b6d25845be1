"""Every status is reached by a problem made to reach it."""

from dataclasses import dataclass

import numpy as np
import pytest

from dilutron import EPOptions, Normal, Probit, Problem, SpikeSlab, Status, Theta, ThetaMixture, solve
from dilutron.gaussian import Sites, choose
from dilutron.ladder import LADDER, settle
from dilutron.priors import Prior, Tilted
from tests.problems import pair_of_blocks, teacher_problem


def test_converged():
    posterior = solve(teacher_problem()[0], SpikeSlab(0.25), Theta())
    assert posterior.status is Status.CONVERGED
    assert posterior.mismatch < 1e-6
    assert posterior.trace[-1].error == posterior.mismatch


@pytest.mark.parametrize("max_iter", [1, 2, 7])
def test_max_iter(max_iter):
    posterior = solve(teacher_problem()[0], SpikeSlab(0.25), Theta(), options=EPOptions(max_iter=max_iter))
    assert posterior.status is Status.MAX_ITER
    assert posterior.n_iter == max_iter
    assert posterior.mismatch > 1e-6


@pytest.mark.parametrize("max_iter", [149, 150, 151, 152, 200, 249, 250, 251, 260, 400])
def test_max_iter_bounds_all_rungs_together(max_iter):
    """With a tolerance out of reach every rung runs to its end; the total never exceeds what was allowed."""
    options = EPOptions(tol=1e-300, max_iter=max_iter)
    posterior = solve(teacher_problem(15, 2.0)[0], SpikeSlab(0.25), Probit(3.0), options=options)
    assert posterior.status is Status.MAX_ITER
    assert posterior.n_iter <= max_iter
    assert posterior.mismatch < 1e-6, "the best state of all rungs is kept"


@dataclass(frozen=True)
class Broken(Prior):
    """Answers at the start; anywhere else its moments are not numbers."""

    role = "labels"

    def moments(self, cavity):
        good = np.all(cavity.mean == 0.0)
        mean = np.full_like(cavity.mean, 1.0 if good else np.nan)
        return Tilted(np.zeros_like(mean), mean, 0.5 * cavity.var)

    def flat_precision(self):
        return 0.0


def test_diverged():
    posterior = solve(teacher_problem()[0], SpikeSlab(0.25), Broken())
    assert posterior.status is Status.DIVERGED
    assert posterior.failures > 10, "the failed steps are counted"
    assert np.all(np.isfinite(posterior.mean)), "the last valid state is returned"
    assert {mark.stage.split(" at ")[0] for mark in posterior.trace} == {rung.name for rung in LADDER}


def test_diverged_without_fallback_is_short():
    posterior = solve(teacher_problem()[0], SpikeSlab(0.25), Broken(), options=EPOptions(fallback=False))
    assert posterior.status is Status.DIVERGED
    assert posterior.n_iter < 30


def test_collapsed_where_the_prior_allows_no_weights():
    """A density of 1/1000 of 40 weights and 160 hard labels: w = 0 explains them all, Theta(0) = 1."""
    posterior = solve(teacher_problem(40, 4.0)[0], SpikeSlab(0.001), Theta())
    assert posterior.status is Status.COLLAPSED
    assert np.max(np.abs(posterior.mean)) < 1e-2


@pytest.mark.parametrize("labels", [Theta(), ThetaMixture(0.95)], ids=["theta", "theta mixture"])
def test_collapsed_where_the_labels_are_noise(labels):
    truth = teacher_problem(40, 4.0)[1]
    shuffled = np.random.default_rng(0).permutation(truth.labels)
    posterior = solve(Problem.from_arrays(truth.X, shuffled), SpikeSlab(0.25), labels)
    assert posterior.status is Status.COLLAPSED
    assert np.all(np.isfinite(posterior.mean))


def test_collapsed_from_tight_sites():
    """Where EP begins inside the trap it stays: the reason for the flat start. The later rungs begin flat."""
    problem, _ = teacher_problem(40, 2.0)
    blocks = pair_of_blocks(SpikeSlab(0.25), Theta(), problem.X.shape)
    tight = Sites(np.full(120, 1e6), np.zeros(120))
    first = settle(choose(problem.signed()), blocks, tol=1e-6, max_iter=5000, ladder=LADDER[:1], start=tight)
    assert first.status is Status.COLLAPSED
    whole = settle(choose(problem.signed()), blocks, tol=1e-6, max_iter=5000, start=tight)
    assert whole.status is Status.CONVERGED
    plain = settle(choose(problem.signed()), blocks, tol=1e-6, max_iter=5000)
    np.testing.assert_allclose(whole.state.here.tilted.mean, plain.state.here.tilted.mean, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"scheme": "paper"}, {"learn": ("rho",)}, {"learn": ("rho",), "path": False}])
@pytest.mark.parametrize("after", [1, 4, 12])
def test_stopped(options, after):
    seen = []

    def callback(state):
        seen.append(state.error)
        return len(seen) == after

    posterior = solve(
        teacher_problem()[0], SpikeSlab(0.25), ThetaMixture(0.9), options=EPOptions(**options), callback=callback
    )
    assert posterior.status is Status.STOPPED
    assert len(seen) == after
    assert np.all(np.isfinite(posterior.mean))


def test_stopped_in_a_heated_stage():
    """On the annealed rung the state handed back is at the true temperature."""
    ladder = tuple(rung for rung in LADDER if rung.name == "annealed")
    problem, _ = teacher_problem()
    blocks = pair_of_blocks(SpikeSlab(0.25), Theta(), problem.X.shape)
    count = []

    def callback(state):
        count.append(1)
        return len(count) == 3

    settled = settle(choose(problem.signed()), blocks, tol=1e-6, max_iter=500, ladder=ladder, callback=callback)
    assert settled.status is Status.STOPPED
    assert settled.state.blocks == blocks


def test_an_interrupt_passes_through():
    def callback(state):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve(teacher_problem()[0], SpikeSlab(0.25), Theta(), intercept=Normal(0.1), callback=callback)


def test_lack_of_convergence_is_no_exception_and_no_warning():
    """pytest turns warnings into errors here: hard problems must end in a status alone."""
    rng = np.random.default_rng(0)
    for shape in ((3, 30), (30, 3)):
        X = rng.standard_normal(shape)
        X[:, 1] = X[:, 0]  # twin columns
        labels = np.where(rng.random(shape[0]) < 0.5, 1, -1)
        labels[0] = -labels[1]
        for prior in (Theta(), ThetaMixture(0.999), Probit(1e6)):
            posterior = solve(Problem.from_arrays(X, labels), SpikeSlab(0.1), prior, options=EPOptions(max_iter=300))
            assert isinstance(posterior.status, Status)
            assert np.all(np.isfinite(posterior.mean))


@pytest.mark.parametrize("stretch", [1.0, 100.0, 1000.0])
@pytest.mark.parametrize("weights", [Normal(1.0), SpikeSlab(0.5)], ids=["normal", "spike and slab"])
def test_informative_data_are_no_trap(weights, stretch):
    """Soft labels have no trap at w = 0: a posterior far narrower than its prior is a good answer."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5))
    labels = np.where(X @ [1.0, -1.0, 0.5, 0.0, 0.0] + rng.standard_normal(400) > 0.0, 1, -1)
    posterior = solve(Problem.from_arrays(stretch * X, labels), weights, Probit(1.0))
    assert posterior.status is Status.CONVERGED
    np.testing.assert_array_equal(np.sign(posterior.mean[:3]), [1, -1, 1])


def test_small_gradient_steps_do_not_pass_for_converged():
    """The change that a tiny rate makes says nothing of the distance that is left."""
    problem, _ = teacher_problem(40, 3.0, eta=0.9)
    options = EPOptions(learn=("rho",), learning="gradient", rate=1e-9, path=False, max_iter=60)
    posterior = solve(problem, SpikeSlab(0.7), ThetaMixture(0.9), options=options)
    assert posterior.status is Status.MAX_ITER


@pytest.mark.parametrize("after", [1, 13, 30, 48, 70])
def test_one_true_from_a_callback_stops_for_good(after):
    """Whatever that state was: the end of a stage, of an E-step, or none."""
    problem, _ = teacher_problem(40, 3.0, eta=0.9)
    calls = []

    def once(state):
        calls.append(state)
        return len(calls) == after

    posterior = solve(
        problem, SpikeSlab(0.7), ThetaMixture(0.9), options=EPOptions(learn=("rho", "eta")), callback=once
    )
    assert posterior.status is Status.STOPPED
    assert posterior.n_iter <= after + 1

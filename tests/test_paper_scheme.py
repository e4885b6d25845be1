import numpy as np
import pytest

from dilutron import EPOptions, Probit, Problem, SpikeSlab, Status, Theta, ThetaMixture, solve
from dilutron.data import lesson
from dilutron.paper_scheme import change
from dilutron.priors import Tilted
from tests.problems import teacher_problem


@pytest.mark.parametrize("labels", [Theta(), Probit(3.0)], ids=["theta", "probit"])
@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_an_easy_instance_has_the_same_answer(labels, alpha):
    """A dense teacher: no site wants a negative precision, which the paper's scheme would clamp."""
    problem, _ = teacher_problem(30, alpha, seed=3, rho=0.9)
    natural = solve(problem, SpikeSlab(0.9), labels)
    assert np.all(natural.sites.precision > -1e-9)
    options = EPOptions(scheme="paper", damping=0.9, tol=1e-7)
    paper = solve(problem, SpikeSlab(0.9), labels, options=options)
    assert paper.status is Status.CONVERGED
    np.testing.assert_allclose(paper.mean, natural.mean, atol=1e-5)
    np.testing.assert_allclose(paper.std, natural.std, rtol=1e-4)
    assert paper.mismatch < 1e-5
    assert paper.n_iter > 5 * natural.n_iter, "it is the slow one"
    assert {mark.stage for mark in paper.trace} == {"paper"}
    assert paper.trace[-1].error < 1e-7


def test_its_rule_can_hold_far_from_a_fixed_point():
    """A sparse, noisy instance: rule (35) is met, but clamped sites do not match the moments, and that is reported."""
    problem, _ = teacher_problem(30, 1.0, seed=3, eta=0.95)
    options = EPOptions(scheme="paper", damping=0.9, tol=1e-7, max_iter=10000)
    posterior = solve(problem, SpikeSlab(0.25), ThetaMixture(0.95), options=options)
    natural = solve(problem, SpikeSlab(0.25), ThetaMixture(0.95))
    assert np.any(natural.sites.precision < 0)
    assert posterior.status is Status.CONVERGED
    assert posterior.mismatch > 1e-2
    unit = posterior.mean / np.linalg.norm(posterior.mean), natural.mean / np.linalg.norm(natural.mean)
    assert unit[0] @ unit[1] > 0.95, "still about the same weights"


def test_it_can_collapse():
    problem, _ = teacher_problem(30, 1.0, seed=3)
    options = EPOptions(scheme="paper", damping=0.9, tol=1e-7, max_iter=3000)
    assert solve(problem, SpikeSlab(0.25), Theta(), options=options).status is Status.COLLAPSED


def test_max_iter():
    problem, _ = teacher_problem(30, 2.0, seed=3, rho=0.9)
    posterior = solve(problem, SpikeSlab(0.9), Theta(), options=EPOptions(scheme="paper", max_iter=50))
    assert posterior.status is Status.MAX_ITER
    assert posterior.n_iter == 50


def test_default_damping_is_the_papers():
    problem, _ = teacher_problem(20, 2.0, seed=3, rho=0.9)
    plain, named = (
        solve(problem, SpikeSlab(0.9), Theta(), options=EPOptions(scheme="paper", max_iter=30, damping=damping))
        for damping in (None, 0.99)
    )
    np.testing.assert_array_equal(plain.mean, named.mean)


@pytest.mark.parametrize(("learning", "rate"), [("em", 1e-5), ("gradient", 0.1)])
def test_it_learns_on_the_way(learning, rate):
    """Dense weights behind a noisy field: one step of learning for each iteration, as in the paper."""
    truth = lesson(30, 3.0, np.random.default_rng(0), rho=0.9)
    noise = 2 * np.random.default_rng(1).standard_normal(90)
    problem = Problem.from_arrays(truth.X, np.where(truth.X @ truth.teacher + noise > 0, 1, -1))
    options = EPOptions(scheme="paper", damping=0.9, tol=1e-7, learn=("lam",), learning=learning, rate=rate)
    paper = solve(problem, SpikeSlab(0.9), Probit(1.0), options=options)
    natural = solve(problem, SpikeSlab(0.9), Probit(1.0), options=EPOptions(learn=("lam",)))
    assert paper.status is Status.CONVERGED
    assert paper.weights.lam == pytest.approx(natural.weights.lam, rel=0.01)


def test_the_rule_is_the_largest_change_of_first_plus_second_moment():
    before = Tilted(np.zeros(2), np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    after = Tilted(np.zeros(2), np.array([1.5, 2.0]), np.array([1.0, 1.25]))
    assert change(before, after) == pytest.approx(0.5 + (1.0 + 2.25 - 2.0))

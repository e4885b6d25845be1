"""A label that counts twice is a row that is there twice."""

import numpy as np
import pytest

from dilutron import EPOptions, Normal, Problem, RobustProbit, SpikeSlab, Status, ThetaMixture, solve
from dilutron.priors import Gaussians
from tests.laws.lists import method_options
from tests.problems import teacher_problem

PRIORS = [RobustProbit(), RobustProbit(eta=0.9), RobustProbit(beta=2.0), RobustProbit(eta=0.9, beta=2.0)]


def twins(alpha, labels, **options):
    """A problem with whole copies, solved once with copies and once with repeated rows."""
    problem, _ = teacher_problem(16, alpha, seed=4, eta=0.9 if labels.eta < 1.0 else 1.0)
    copies = np.random.default_rng(1).integers(1, 4, len(problem.labels))
    rows = np.repeat(np.arange(len(copies)), copies)
    repeated = Problem.from_arrays(problem.X[rows], problem.labels[rows])
    counted = RobustProbit(labels.eta, labels.beta, copies)
    call = {"weights": SpikeSlab(0.3), "options": EPOptions(tol=1e-9, **options), "intercept": Normal(0.1)}
    return solve(problem, labels=counted, **call), solve(repeated, labels=labels, **call), rows


@pytest.mark.parametrize("labels", PRIORS, ids=str)
@pytest.mark.parametrize("alpha", [0.5, 3.0])
def test_copies_are_repeated_rows(alpha, labels):
    counted, repeated, rows = twins(alpha, labels)
    assert counted.status is repeated.status is Status.CONVERGED
    np.testing.assert_allclose(counted.mean, repeated.mean, atol=1e-6)
    np.testing.assert_allclose(counted.covariance().dense(), repeated.covariance().dense(), atol=1e-6)
    np.testing.assert_allclose(counted.inclusion, repeated.inclusion, atol=1e-6)
    np.testing.assert_allclose(counted.flip[rows], repeated.flip, atol=1e-6)
    assert counted.log_evidence == pytest.approx(repeated.log_evidence, abs=1e-5)


@pytest.mark.parametrize("name", ["eta", "beta"])
def test_learning_counts_them_too(name):
    """M-step and slope."""
    copies = np.array([1, 3, 2, 1])
    cavity = Gaussians(np.array([0.3, -1.0, 2.0, 0.1]), np.array([0.5, 1.0, 2.0, 0.2]))
    repeated = Gaussians(*(np.repeat(part, copies) for part in cavity))
    counted, plain = RobustProbit(0.9, 2.0, copies), RobustProbit(0.9, 2.0)
    moved = getattr(plain.learn(repeated, frozenset({name})), name)
    assert getattr(counted.learn(cavity, frozenset({name})), name) == pytest.approx(moved, rel=1e-12)
    assert counted.slopes(cavity)[name] == pytest.approx(plain.slopes(repeated)[name], rel=1e-12)


def test_a_vanishing_count_is_a_missing_row():
    problem, _ = teacher_problem(16, 3.0, seed=4, eta=0.9)
    copies = np.ones(len(problem.labels))
    copies[5] = 1e-9
    faint = solve(problem, SpikeSlab(0.3), RobustProbit(0.9, copies=copies), options=EPOptions(tol=1e-8))
    kept = np.arange(len(copies)) != 5
    less = Problem.from_arrays(problem.X[kept], problem.labels[kept])
    without = solve(less, SpikeSlab(0.3), ThetaMixture(0.9), options=EPOptions(tol=1e-8))
    np.testing.assert_allclose(faint.mean, without.mean, atol=1e-6)


@pytest.mark.parametrize("copies", [0.0, -1.0, np.nan, [1.0, np.inf]])
def test_counts_must_be_positive(copies):
    with pytest.raises(ValueError, match="copies"):
        RobustProbit(copies=copies)


def test_other_methods_say_that_they_cannot_count():
    problem, _ = teacher_problem(16, 2.0)
    for method in ("vamp", "amp", "grvamp", "r1bcs"):
        with pytest.raises(ValueError, match=r"labels\.copies is known"):
            solve(problem, SpikeSlab(0.3), RobustProbit(copies=2.0), method, method_options(method))
    with pytest.raises(ValueError, match="copies are not known"):
        solve(problem, SpikeSlab(0.3), RobustProbit(copies=2.0), options=EPOptions(scheme="paper"))


def test_saved_and_loaded(tmp_path):
    problem, _ = teacher_problem(16, 2.0)
    copies = np.linspace(0.5, 2.0, len(problem.labels))
    posterior = solve(problem, SpikeSlab(0.3), RobustProbit(0.9, copies=copies))
    again = type(posterior).load(posterior.save(tmp_path / "run"))
    np.testing.assert_array_equal(again.labels.copies, copies)
    np.testing.assert_array_equal(again.probability(problem.X), posterior.probability(problem.X))

"""R1BCS against the published program's weights, against the plain formulas, and at its borders."""

import csv
from functools import partial

import numpy as np
import pytest

from dilutron import Posterior, Problem, SpikeSlab, Status, ThetaMixture
from dilutron.baselines import r1bcs
from dilutron.baselines.r1bcs import R1BCSOptions
from dilutron.gaussian import Dual, Primal, choose
from dilutron.metrics import auc
from tests.problems import teacher_problem

PRIORS = SpikeSlab(0.25), ThetaMixture(0.95)
RUNS = [f"{patterns}_noisy_a{alpha}_k{k}" for patterns in ("iid", "mvn") for alpha in (1, 4) for k in (0, 1)]
BAD_OPTIONS = {
    "tol": ({"tol": 0.0}, "tol must be a positive number"),
    "max_iter": ({"max_iter": 0}, "max_iter must be a whole number, at least 1"),
    "a": ({"a": 0.0}, "a must be a positive number"),
    "b": ({"b": -1.0}, "b must be a positive number"),
    "c": ({"c": np.nan}, "c must be a positive number"),
    "d": ({"d": "small"}, "d must be a positive number"),
    "scaled": ({"scaled": 1}, "scaled must be True or False"),
}


def solve(problem, callback=None, **options):
    return r1bcs.solve(problem, *PRIORS, R1BCSOptions(**options), callback=callback)


def unit(vector):
    return vector / np.linalg.norm(vector)


def signed_unit_columns(problem):
    return problem.signed() / np.linalg.norm(problem.X, axis=0)


@pytest.mark.parametrize("name", RUNS)
def test_the_published_program(shared_runs, name):
    """The same weights in the same number of iterations; measured distance of unit vectors: at most 3e-15."""
    with np.load(shared_runs / f"{name}.npz") as file:
        run = {key: file[key] for key in ("X", "labels", "w_r1bcs", "converged_r1bcs")}
    with open(shared_runs / "index.csv", encoding="utf-8", newline="") as file:
        rows = {(row["file"], row["method"]): row for row in csv.DictReader(file)}
    posterior = solve(Problem.from_arrays(run["X"], run["labels"]), scaled=True)
    assert bool(run["converged_r1bcs"])
    assert posterior.status is Status.CONVERGED
    assert posterior.n_iter == pytest.approx(int(rows[f"{name}.npz", "r1bcs"]["iterations"]), abs=2)
    assert np.linalg.norm(unit(posterior.mean) - unit(run["w_r1bcs"])) < 1e-8


def plain_steps(design, labels, options, count):
    """The means of weights and noise by blocks of the (N + M) Gaussian of (w, s), inverted plainly."""
    n_labels, n_weights = design.shape
    joint = np.hstack([design, np.eye(n_labels)])
    mean, precision, xi = np.zeros(n_weights + n_labels), np.ones(n_weights + n_labels), np.ones(n_labels)
    w, s = np.arange(n_weights), np.arange(n_weights, n_weights + n_labels)
    shape = 2 * np.repeat([options.a, options.c], [n_weights, n_labels])
    rate = 2 * np.repeat([options.b, options.d], [n_weights, n_labels])
    for _ in range(count):
        matrix = np.diag(precision) + joint.T @ np.diag(np.tanh(xi / 2) / (2 * xi)) @ joint
        shift, covariance = joint.T @ labels / 2, np.zeros_like(matrix)
        for own, other in ((w, s), (s, w)):
            covariance[np.ix_(own, own)] = np.linalg.inv(matrix[np.ix_(own, own)])
            mean[own] = covariance[np.ix_(own, own)] @ (shift[own] - matrix[np.ix_(own, other)] @ mean[other])
        second = covariance + np.outer(mean, mean)
        precision = (shape + 1) / (rate + np.diag(second))
        xi = np.sqrt(np.diag(joint @ second @ joint.T))
    return mean[w], mean[s], covariance[np.ix_(w, w)]


@pytest.mark.parametrize("backend", [Primal, Dual])
@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_steps_are_those_of_the_plain_formulas(backend, alpha):
    problem, _ = teacher_problem(12, alpha, seed=3, eta=0.8)
    options = R1BCSOptions(a=1e-3, b=1e-3, c=1e-4, d=1e-4)
    gaussian = backend(signed_unit_columns(problem))
    state = r1bcs.init(gaussian, options)
    for _ in range(29):
        state = r1bcs.step(state, gaussian, options)
    design = problem.X / np.linalg.norm(problem.X, axis=0)
    weights, noise, covariance = plain_steps(design, problem.labels, options, 30)
    assert state.weights.mean == pytest.approx(weights, abs=1e-10)
    assert state.noise.mean * problem.labels == pytest.approx(noise, abs=1e-10)
    assert gaussian.covariance(state.sites).dense() == pytest.approx(covariance, abs=1e-10)


def test_a_step_changes_nothing_but_its_value():
    problem, _ = teacher_problem(10, 2.0)
    gaussian, options = choose(signed_unit_columns(problem)), R1BCSOptions()
    first = r1bcs.init(gaussian, options)
    kept = [np.array(part) for part in (*first.sites, *first.weights, *first.noise, first.touch)]
    again = [r1bcs.step(first, gaussian, options) for _ in range(2)]
    np.testing.assert_array_equal(again[0].weights.mean, again[1].weights.mean)
    for old, new in zip(kept, (*first.sites, *first.weights, *first.noise, first.touch), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("alpha", [0.5, 3.0])
def test_what_a_posterior_holds(alpha):
    problem, _ = teacher_problem(40, alpha, seed=1, eta=0.9)
    posterior = solve(problem)
    assert posterior.method == "r1bcs"
    assert posterior.status is Status.CONVERGED
    assert posterior.mismatch == posterior.trace[-1].error < 1e-4
    assert {mark.stage for mark in posterior.trace} == {"r1bcs"}
    assert posterior.inclusion is None
    assert posterior.log_evidence is None
    assert (posterior.weights, posterior.labels) == PRIORS
    assert posterior.flip.shape == problem.labels.shape
    assert np.all((posterior.flip >= 0.0) & (posterior.flip <= 1.0))
    assert posterior.std == pytest.approx(np.sqrt(np.diag(posterior.covariance().dense())), rel=1e-8)
    assert posterior.predict(problem.X).mean == pytest.approx(problem.X @ posterior.mean)


def test_labels_are_ranked_as_by_the_estimated_noise():
    states = []
    posterior = solve(teacher_problem(40, 3.0, seed=1, eta=0.9)[0], states.append)
    noise = np.abs(states[-1].noise.mean)
    np.testing.assert_array_equal(np.argsort(posterior.flip, kind="stable"), np.argsort(noise, kind="stable"))
    assert posterior.flip == pytest.approx(noise / (1.0 + noise))


def test_the_teacher_and_the_flipped_labels_are_found():
    problem, truth = teacher_problem(30, 6.0, seed=4, eta=0.9)
    posterior = solve(problem)
    assert unit(posterior.mean) @ unit(truth.teacher) > 0.9
    assert auc(posterior.flip, truth.flipped) > 0.95
    assert np.mean((posterior.flip - truth.flipped) ** 2) < np.mean((0.1 - truth.flipped) ** 2)


@pytest.mark.parametrize("scaled", [False, True])
def test_rescaled_columns_leave_predictions_alone(scaled):
    problem, _ = teacher_problem(20, 3.0, seed=5, eta=0.9)
    factors = np.where(np.arange(20) % 3, 1.0, 1e3)
    plain = solve(problem, scaled=scaled)
    stretched = solve(Problem.from_arrays(problem.X * factors, problem.labels), scaled=scaled)
    one, other = plain.predict(problem.X), stretched.predict(problem.X * factors)
    assert other.mean == pytest.approx(one.mean, rel=1e-6)
    assert other.var == pytest.approx(one.var, rel=1e-6)
    assert stretched.mean * (1.0 if scaled else factors) == pytest.approx(plain.mean, rel=1e-6, abs=1e-8)


def test_scaled_weights_are_for_columns_of_unit_norm():
    truth = teacher_problem(20, 3.0, seed=6, eta=0.9)[1]
    stretch = np.geomspace(0.1, 10.0, 20)
    problem = Problem.from_arrays(truth.X * stretch + 1.0, truth.labels, standardize=True)
    own, scaled = solve(problem), solve(problem, scaled=True)
    norms = np.linalg.norm(problem.X, axis=0)
    assert scaled.mean == pytest.approx(own.mean * norms)
    assert scaled.std == pytest.approx(own.std * norms)
    rows = truth.X[:5] * stretch + 1.0
    for one, other in zip(own.predict(rows), scaled.predict(rows), strict=True):
        assert one == pytest.approx(other)


def test_an_empty_column_keeps_its_prior():
    problem, _ = teacher_problem(10, 3.0, seed=7)
    padded = Problem.from_arrays(np.insert(problem.X, 4, 0.0, axis=1), problem.labels, strict=False)
    posterior, without = solve(padded), solve(problem)
    assert posterior.status is Status.CONVERGED
    assert posterior.mean[4] == 0.0
    assert posterior.std[4] == pytest.approx(1.0)
    assert np.delete(posterior.mean, 4) == pytest.approx(without.mean, rel=1e-6, abs=1e-8)


def test_max_iter_counts_factorisations_and_keeps_the_last():
    problem, _ = teacher_problem(20, 2.0)
    states = []
    posterior = solve(problem, states.append, max_iter=7, scaled=True)
    assert posterior.status is Status.MAX_ITER
    assert posterior.n_iter == len(states) == 7
    np.testing.assert_array_equal(posterior.mean, states[-1].weights.mean)


def test_a_callback_stops():
    posterior = solve(teacher_problem(20, 2.0)[0], lambda state: state.error < 1e-1)
    assert posterior.status is Status.STOPPED
    assert 1e-4 < posterior.mismatch < 1e-1


def test_numbers_out_of_range_end_as_diverged():
    posterior = solve(teacher_problem(20, 2.0)[0], a=1e308, b=1e308)
    assert posterior.status is Status.DIVERGED
    assert posterior.mismatch == np.inf
    for part in (posterior.mean, posterior.std, posterior.flip, posterior.covariance().dense()):
        assert np.all(np.isfinite(part))


def test_an_improper_gaussian_is_a_failed_state():
    problem, _ = teacher_problem(10, 2.0)
    gaussian, options = choose(signed_unit_columns(problem)), R1BCSOptions()
    state = r1bcs.init(gaussian, options)
    broken = state._replace(weights=state.weights._replace(var=np.full(10, -10.0)))
    after = r1bcs.step(broken, gaussian, options)
    assert after.failed
    assert after.error == np.inf


@pytest.mark.parametrize(
    "extreme", [{"a": 1e300}, {"c": 1e300}, {"b": 1e300}, {"d": 1e300}, {"b": 1e-300, "d": 1e-300}]
)
@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_extreme_priors_give_finite_numbers(alpha, extreme):
    posterior = solve(teacher_problem(10, alpha)[0], max_iter=200, **extreme)
    for part in (posterior.mean, posterior.std, posterior.flip):
        assert np.all(np.isfinite(part))


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS.values(), ids=BAD_OPTIONS.keys())
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        R1BCSOptions(**options)


def test_priors_in_the_wrong_place():
    with pytest.raises(ValueError, match="weights must be a prior for weights"):
        r1bcs.solve(teacher_problem(10, 2.0)[0], *PRIORS[::-1])


@pytest.mark.parametrize(("alpha", "scaled"), [(0.5, False), (2.0, True)])
def test_save_and_load(tmp_path, alpha, scaled):
    problem, _ = teacher_problem(20, alpha, eta=0.9)
    posterior = solve(problem, scaled=scaled)
    loaded = Posterior.load(posterior.save(tmp_path / "run"))
    assert (loaded.method, loaded.status, loaded.trace) == ("r1bcs", posterior.status, posterior.trace)
    same = partial(np.testing.assert_allclose, rtol=1e-12)
    same(loaded.mean, posterior.mean)
    same(loaded.flip, posterior.flip)
    same(loaded.probability(problem.X), posterior.probability(problem.X))

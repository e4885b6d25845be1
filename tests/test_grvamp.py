"""grVAMP against the published program, at its own fixed points, and at its borders."""

from dataclasses import replace
from functools import cache
from typing import ClassVar

import numpy as np
import pytest

from dilutron import Normal, Problem, SpikeSlab, Status, Theta, ThetaMixture
from dilutron import solve as solve_by_name
from dilutron.baselines.grvamp import GrVAMPOptions, Site, design_of
from dilutron.data import lesson
from dilutron.gaussian import Sites
from tests.laws.test_reference_runs import RUNS
from tests.problems import dense_gaussian, teacher_problem

NOT_CONVERGED = "mvn_clean_a4_k0"  # in the published program
SWINGING = ("mvn_clean_a1_k0", "mvn_clean_a1_k1", "mvn_noisy_a1_k1", "mvn_noisy_a4_k1")
BAD_OPTIONS = {
    "tol": ({"tol": 0.0}, "tol must be a positive number"),
    "inner_tol": ({"inner_tol": -1.0}, "inner_tol must be a positive number"),
    "max_iter": ({"max_iter": 0}, "max_iter must be a whole number, at least 1"),
    "inner_iter": ({"inner_iter": 2.0}, "inner_iter must be a whole number, at least 1"),
    "damping": ({"damping": 1.0}, "damping is the weight of the old value"),
    "stop": ({"stop": "soon"}, r"stop must be one of \('mismatch', 'change'\), got 'soon'"),
    "accelerated": ({"accelerated": 1}, "accelerated must be True or False"),
    "learn": ({"learn": "rho"}, r"learn must be a tuple of names, for example \('rho',\)"),
}


def solve(problem, labels=None, callback=None, weights=None, **options):
    weights, labels = weights or SpikeSlab(0.25), labels or Theta()
    return solve_by_name(problem, weights, labels, "grvamp", GrVAMPOptions(**options), callback=callback)


@cache
def reference(folder, name):
    """A reference run and what the paper's options make of the same problem."""
    with np.load(folder / f"{name}.npz") as file:
        run = {key: file[key] for key in file.files}
    priors = SpikeSlab(float(run["rho"])), ThetaMixture(float(run["eta"]))
    problem = Problem.from_arrays(run["X"], run["labels"])
    return run, problem, priors, solve_by_name(problem, *priors, "grvamp", GrVAMPOptions.paper())


def unit(vector):
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS.values(), ids=BAD_OPTIONS.keys())
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        GrVAMPOptions(**options)


def test_the_options_of_the_paper():
    paper = GrVAMPOptions.paper()
    assert (paper.max_iter, paper.inner_iter, paper.damping, paper.stop) == (1000, 2000, 0.0, "change")
    assert GrVAMPOptions.paper(tol=1e-4).tol == 1e-4
    assert not paper.accelerated


@pytest.mark.parametrize("name", [name for name in RUNS if name != NOT_CONVERGED])
def test_the_published_program(shared_runs, name):
    """Measured distance of unit vectors: at most 3.8e-7."""
    run, _, _, posterior = reference(shared_runs, name)
    assert bool(run["converged_grvamp"])
    assert posterior.status is Status.CONVERGED
    assert np.linalg.norm(unit(posterior.mean) - unit(run["w_grvamp"])) < 1e-4


@pytest.mark.parametrize("name", SWINGING)
def test_the_published_rule_passes_a_swinging_inner_module(shared_runs, name):
    """Called converged, while the two sides disagree by whole standard deviations: the mismatch says so."""
    posterior = reference(shared_runs, name)[3]
    assert posterior.status is Status.CONVERGED
    assert posterior.mismatch > 0.1


@pytest.mark.parametrize("name", [name for name in RUNS if name.startswith("iid")])
def test_the_published_rule_is_good_enough_on_iid_patterns(shared_runs, name):
    assert reference(shared_runs, name)[3].mismatch < 1e-6


@pytest.mark.parametrize("seed", [0, 4])
def test_the_published_rule_without_reference_runs(seed):
    """The same on instances of our own; the default options find a fixed point there."""
    problem, _ = teacher_problem(60, 1.0, seed=seed, patterns="mvn")
    paper = solve_by_name(problem, SpikeSlab(0.25), Theta(), "grvamp", GrVAMPOptions.paper(tol=1e-6))
    sound = solve(problem)
    assert paper.status is sound.status is Status.CONVERGED
    assert paper.mismatch > 0.5
    assert sound.mismatch < 1e-6


@pytest.mark.parametrize("eta", [0.9, 1.0])
@pytest.mark.parametrize("alpha", [0.6, 2.0])
def test_the_way_does_not_change_the_end(alpha, eta):
    """Inner rounds, damping and the stopping rule: one fixed point on i.i.d. patterns."""
    problem, _ = teacher_problem(50, alpha, seed=1, eta=eta)
    plain = solve(problem, ThetaMixture(eta), tol=1e-9)
    assert plain.status is Status.CONVERGED
    ways = [
        {"inner_iter": 1},
        {"inner_iter": 100, "inner_tol": 1e-11},
        {"damping": 0.0},
        {"damping": 0.8},
        {"accelerated": False},
        {"stop": "change"},
    ]
    for way in ways:
        posterior = solve(problem, ThetaMixture(eta), **{"tol": 1e-9, **way})
        assert posterior.status is Status.CONVERGED, way
        np.testing.assert_allclose(posterior.mean, plain.mean, atol=1e-6, err_msg=str(way))
        np.testing.assert_allclose(posterior.flip, plain.flip, atol=1e-6, err_msg=str(way))


@pytest.mark.parametrize("patterns", ["iid", "mvn"])
@pytest.mark.parametrize("eta", [0.95, 1.0])
def test_acceleration_saves_most_iterations(eta, patterns):
    """And none while the error is large; measured: a fifteenth to a fifth of the iterations."""
    problem, _ = teacher_problem(128, 5.0, seed=3, eta=eta, patterns=patterns)
    swift, plain = (solve(problem, ThetaMixture(eta), accelerated=flag) for flag in (True, False))
    assert swift.status is plain.status is Status.CONVERGED
    assert swift.n_iter < 0.4 * plain.n_iter
    assert swift.mismatch < 1e-6
    apart_from = np.flatnonzero([mark.error < 0.01 for mark in plain.trace])[0] + 1
    assert swift.trace[:apart_from] == plain.trace[:apart_from]
    np.testing.assert_allclose(swift.mean, plain.mean, atol=2e-3)


def test_learning_is_not_accelerated():
    problem, _ = teacher_problem(60, 4.0, seed=3, eta=0.9)
    one, other = (solve(problem, ThetaMixture(0.9), accelerated=flag, learn=("rho",)) for flag in (True, False))
    assert one.trace == other.trace


@pytest.mark.parametrize("stop", ["mismatch", "change"])
def test_what_the_rules_look_at(stop):
    problem, _ = teacher_problem(40, 2.0, seed=2)
    states = []
    posterior = solve(problem, stop=stop, callback=states.append)
    assert posterior.status is Status.CONVERGED
    assert [mark.error for mark in posterior.trace] == [state.error for state in states]
    last, before = states[-1], states[-2]
    change = np.mean(np.abs(last.inner.tilted.mean - before.inner.tilted.mean))
    assert last.error == pytest.approx(last.mismatch if stop == "mismatch" else change)
    assert posterior.mismatch == last.mismatch


class Counting(SpikeSlab):
    """A spike and slab that counts the rounds that ask it."""

    asked: ClassVar[list[int]] = []

    def tilted(self, cavity):
        self.asked.append(1)
        return super().tilted(cavity)


@pytest.mark.parametrize(("inner_iter", "rounds"), [(1, 2), (2, 2), (6, 8), (7, 8), (40, 40)])
def test_rounds_of_the_inner_module(inner_iter, rounds):
    """At most that many, in pairs or fours; all of them where its tolerance is out of reach."""
    problem, _ = teacher_problem(20, 2.0, seed=1, eta=0.9)
    counts = []

    def callback(state):
        counts.append(len(Counting.asked))

    options = {"inner_iter": inner_iter, "inner_tol": 1e-300, "max_iter": 4}
    Counting.asked.clear()
    posterior = solve(problem, ThetaMixture(0.9), callback, Counting(0.25), **options)
    assert posterior.status is Status.MAX_ITER
    np.testing.assert_array_equal(np.diff([0, *counts]), [rounds] * 4)


def test_the_inner_module_leaves_when_it_has_settled():
    problem, _ = teacher_problem(20, 2.0, seed=1, eta=0.9)
    Counting.asked.clear()
    posterior = solve(problem, ThetaMixture(0.9), weights=Counting(0.25), inner_iter=2000, inner_tol=1e-3, max_iter=10)
    assert len(Counting.asked) < 60 * posterior.n_iter


def test_a_swing_between_four_points_is_left_at_the_point_where_it_would_end():
    """Undamped, on correlated patterns: all rounds allowed lead to the same place, far more slowly."""
    problem, _ = teacher_problem(30, 2.0, seed=18, patterns="mvn")
    options = {"damping": 0.0, "stop": "change", "inner_iter": 2000, "max_iter": 8}
    ends, rounds = [], []
    for inner_tol in (1e-10, 1e-300):
        Counting.asked.clear()
        ends.append(solve(problem, weights=Counting(0.25), inner_tol=inner_tol, **options))
        rounds.append(len(Counting.asked))
    assert ends[0].mismatch > 0.1
    assert rounds[0] < rounds[1] / 5
    np.testing.assert_allclose(ends[0].mean, ends[1].mean, atol=1e-7)


@pytest.mark.parametrize("eta", [0.9, 1.0])
def test_probabilities_are_those_of_the_last_cavities(eta):
    """Inclusion from (r1, 1 / gamma1), which has one variance for all weights."""
    problem, truth = teacher_problem(60, 3.0, seed=1, eta=eta)
    states = []
    posterior = solve(problem, ThetaMixture(eta), callback=states.append)
    assert posterior.status is Status.CONVERGED
    end = states[-1]
    assert end.inner.cavity.var.size == end.cavity.var.size == 1
    np.testing.assert_array_equal(posterior.inclusion, posterior.weights.inclusion(end.inner.cavity))
    np.testing.assert_array_equal(posterior.flip, posterior.labels.flip(end.cavity))
    for values in (posterior.inclusion, posterior.flip, posterior.probability(truth.X)):
        assert np.all((values >= 0.0) & (values <= 1.0))
    tilted = posterior.weights.moments(end.inner.cavity)
    np.testing.assert_allclose(posterior.mean, tilted.mean, atol=1e-5)
    np.testing.assert_allclose(posterior.std**2, tilted.var, rtol=1e-4)
    if eta < 1.0:
        assert posterior.flip[truth.flipped].mean() > 3 * posterior.flip[~truth.flipped].mean()
    else:
        assert not np.any(posterior.flip)


def test_weights_of_a_normal_prior_have_a_spread_each():
    problem, truth = teacher_problem(20, 3.0, seed=1)
    posterior = solve(problem, ThetaMixture(0.95), weights=Normal(1.0))
    assert posterior.status is Status.CONVERGED
    assert posterior.std.shape == posterior.mean.shape == (20,)
    assert np.mean((posterior.probability(truth.X) > 0.5) == (truth.labels > 0)) > 0.8


def test_numbers_out_of_range_are_no_exception():
    """A density so small that variances underflow ends as diverged."""
    problem, _ = teacher_problem(20, 2.0, seed=1)
    assert solve(problem, weights=SpikeSlab(1e-150)).status is Status.DIVERGED


@pytest.mark.parametrize("shape", [(12, 5), (5, 12), (6, 6), (1, 3), (3, 1)], ids=str)
def test_one_factorisation_serves_every_message(shape):
    """Means and average variances are those of a plain inversion."""
    rng = np.random.default_rng([0, *shape])
    problem = Problem.from_arrays(rng.standard_normal(shape), np.ones(shape[0]), strict=False)
    design, (n_labels, n_weights) = design_of(problem), shape
    for own, seen in ((0.7, 1.9), (5.0, 1e-3), (1e-3, 40.0)):
        shift = rng.standard_normal(n_weights + n_labels)
        prior, fields = Site(own, shift[:n_weights]), Site(seen, shift[n_weights:])
        sites = Sites(np.repeat([own, seen], [n_weights, n_labels]), shift)
        mean, covariance, _ = dense_gaussian(design.rows, sites)
        found, var = design.weights(prior, Site(seen, fields.shift @ design.rows))
        np.testing.assert_allclose(found, mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(var, np.trace(covariance) / n_weights, rtol=1e-9)
        found, var = design.fields(mean, prior, fields)
        np.testing.assert_allclose(found, design.rows @ mean, rtol=1e-12)
        np.testing.assert_allclose(var, np.trace(design.rows @ covariance @ design.rows.T) / n_labels, rtol=1e-9)


@pytest.mark.parametrize("seed", range(2))
def test_learning_comes_near_the_truth(seed):
    truth = lesson(120, 4.0, np.random.default_rng(seed), rho=0.15, eta=0.9)
    problem = Problem.from_arrays(truth.X, truth.labels)
    posterior = solve(problem, ThetaMixture(0.7), weights=SpikeSlab(0.5), learn=("rho", "eta"))
    assert posterior.status is Status.CONVERGED
    assert posterior.weights.rho == pytest.approx(0.15, abs=0.05)
    assert posterior.labels.eta == pytest.approx(0.9, abs=0.03)
    assert posterior.mismatch < 1e-6


def test_only_the_parameters_named_move():
    problem, _ = teacher_problem(60, 4.0, seed=3, eta=0.9)
    posterior = solve(problem, ThetaMixture(0.9), weights=SpikeSlab(0.5), learn=("rho",))
    assert posterior.status is Status.CONVERGED
    assert (posterior.labels, posterior.weights.lam) == (ThetaMixture(0.9), 1.0)
    assert posterior.weights.rho == pytest.approx((posterior.inclusion.sum() + 0.1) / 60.2, rel=1e-4)
    with pytest.raises(ValueError, match="learn names 'sigma', which these priors do not have"):
        solve(problem, learn=("sigma",))


def test_learning_on_problems_that_say_nothing_ends_in_a_status():
    """The weights are driven to zero, and with them the slab; that is an ending, not an error."""
    rng = np.random.default_rng(35)
    n, m = int(rng.integers(1, 4)), int(rng.integers(2, 8))
    problem = Problem.from_arrays(rng.standard_normal((m, n)), np.resize([1, -1, 1], m), strict=False)
    posterior = solve(problem, learn=("rho", "lam", "eta"))
    assert posterior.status is not Status.CONVERGED
    assert np.all(np.isfinite(posterior.mean))


def test_the_published_set_waits_as_long_as_the_published_program():
    """A reader's problem converged after 200 iterations without progress. Here the first few are the last with any."""
    problem, _ = teacher_problem(64, 2.0, seed=31, patterns="mvn")
    options = replace(GrVAMPOptions.paper(), max_iter=300)
    posterior = solve_by_name(problem, SpikeSlab(0.25), Theta(), "grvamp", options)
    assert posterior.status is Status.MAX_ITER
    assert posterior.n_iter == 300
    assert np.argmin([mark.error for mark in posterior.trace]) < 10

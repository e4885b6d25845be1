"""1-bit AMP against another program, against EP where both are optimal, and where it must fail."""

from functools import partial

import numpy as np
import pytest

from dilutron import Problem, SpikeSlab, Status, Theta, ThetaMixture
from dilutron import solve as solve_by_name
from dilutron.baselines.amp import AMPOptions, channel_of
from dilutron.data import lesson
from dilutron.data.teacher import diluted_teacher
from dilutron.metrics import decibel, mse
from tests.problems import teacher_problem

CLEAN = [f"iid_clean_a{alpha}_k{k}" for alpha in (1, 4) for k in (0, 1)]
CORRELATED = [f"mvn_{noise}_a{alpha}_k{k}" for noise in ("clean", "noisy") for alpha in (1, 4) for k in (0, 1)]
BAD_OPTIONS = {
    "tol": ({"tol": 0.0}, "tol must be a positive number"),
    "max_iter": ({"max_iter": 0}, "max_iter must be a whole number, at least 1"),
    "damping": ({"damping": 1.0}, "damping is the weight of the old value"),
    "mean_removal": ({"mean_removal": 1}, "mean_removal must be True or False"),
    "accelerated": ({"accelerated": "late"}, "accelerated must be True or False"),
    "learn": ({"learn": "rho"}, r"learn must be a tuple of names, for example \('rho',\)"),
}


def solve(problem, labels=None, callback=None, rho=0.25, **options):
    labels = Theta() if labels is None else labels
    return solve_by_name(problem, SpikeSlab(rho), labels, "amp", AMPOptions(**options), callback=callback)


def unit(vector):
    return vector / np.linalg.norm(vector)


def apart(one, other):
    return np.linalg.norm(unit(one) - unit(other))


def loaded(folder, name):
    with np.load(folder / f"{name}.npz") as file:
        run = {key: file[key] for key in file.files}
    return Problem.from_arrays(run["X"], run["labels"]), run


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS.values(), ids=BAD_OPTIONS.keys())
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        AMPOptions(**options)


@pytest.mark.parametrize("name", CLEAN)
def test_the_weights_of_another_program(shared_runs, name):
    """Measured distance of unit vectors: at most 5e-5. Its noisy runs do not know eta, so they are another problem."""
    problem, run = loaded(shared_runs, name)
    posterior = solve(problem)
    assert posterior.status is Status.CONVERGED
    assert apart(posterior.mean, run["w_amp"]) < 1e-3


def assert_lost(posterior):
    assert posterior.status in (Status.DIVERGED, Status.MAX_ITER)
    for name in ("mean", "std", "inclusion", "flip"):
        assert np.all(np.isfinite(getattr(posterior, name))), name
    assert posterior.mismatch > 0.1


@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("name", CORRELATED)
def test_it_diverges_on_correlated_patterns_of_the_paper(shared_runs, name, damping):
    problem, run = loaded(shared_runs, name)
    assert_lost(solve(problem, ThetaMixture(float(run["eta"])), damping=damping))


@pytest.mark.parametrize("eta", [0.9, 1.0])
@pytest.mark.parametrize("alpha", [1.0, 3.0])
def test_it_diverges_on_correlated_patterns(alpha, eta):
    for seed in range(3):
        problem, _ = teacher_problem(80, alpha, seed=seed, eta=eta, patterns="mvn")
        assert_lost(solve(problem, ThetaMixture(eta)))


@pytest.mark.parametrize("eta", [0.9, 1.0])
@pytest.mark.parametrize("alpha", [1.0, 3.0])
def test_damping_leads_to_the_same_point(alpha, eta):
    problem, _ = teacher_problem(80, alpha, seed=2, eta=eta)
    plain, *damped = (solve(problem, ThetaMixture(eta), damping=d, tol=1e-8) for d in (0.0, 0.3, 0.6))
    assert plain.status is Status.CONVERGED
    for posterior in damped:
        assert posterior.status is Status.CONVERGED
        assert posterior.n_iter > plain.n_iter
        np.testing.assert_allclose(posterior.mean, plain.mean, atol=1e-5)
        np.testing.assert_allclose(posterior.inclusion, plain.inclusion, atol=1e-5)
        np.testing.assert_allclose(posterior.flip, plain.flip, atol=1e-5)


def errors(posterior):
    return [mark.error for mark in posterior.trace]


@pytest.mark.parametrize("eta", [0.95, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_acceleration_is_a_shorter_way_to_the_same_point(seed, eta):
    """The published steps until they are small, then a half of the rest at most; measured: a fifth to a third."""
    problem, _ = teacher_problem(128, 6.0, seed=seed, eta=eta)
    swift, published = (solve(problem, ThetaMixture(eta), tol=1e-6, accelerated=flag) for flag in (True, False))
    assert swift.status is published.status is Status.CONVERGED
    apart_from = np.flatnonzero(np.array(errors(published)) < 0.01)[0] + 1
    assert errors(swift)[:apart_from] == errors(published)[:apart_from]
    assert swift.n_iter - apart_from < 0.5 * (published.n_iter - apart_from)
    np.testing.assert_allclose(swift.mean, published.mean, atol=1e-3)
    np.testing.assert_allclose(swift.inclusion, published.inclusion, atol=1e-3)
    np.testing.assert_allclose(swift.flip, published.flip, atol=1e-3)


def test_acceleration_does_not_save_correlated_patterns():
    """Steps there never get small, so none is accelerated: the same divergence, step by step."""
    problem, _ = teacher_problem(80, 3.0, seed=1, patterns="mvn")
    swift, published = (solve(problem, accelerated=flag) for flag in (True, False))
    assert swift.status is published.status is Status.DIVERGED
    assert errors(swift) == errors(published)
    np.testing.assert_array_equal(swift.mean, published.mean)


@pytest.mark.parametrize("options", [{"damping": 0.3}, {"learn": ("rho",)}], ids=str)
def test_what_is_not_accelerated(options):
    problem, _ = teacher_problem(60, 4.0, seed=2, eta=0.9)
    one, other = (solve(problem, ThetaMixture(0.9), accelerated=flag, **options) for flag in (True, False))
    assert errors(one) == errors(other)


def test_damping_is_the_weight_of_the_old_value():
    """After one step from silence the labels pull with that share of what they asked for."""
    problem, _ = teacher_problem(20, 2.0)
    forces = {}
    for damping in (0.0, 0.5, 0.99):
        states = []
        solve(problem, damping=damping, max_iter=1, callback=lambda state, s=states: s.append(state))
        forces[damping] = states[0].force
    assert np.all(forces[0.0] * problem.labels > 0)
    np.testing.assert_allclose(forces[0.5], 0.5 * forces[0.0], rtol=1e-12)
    np.testing.assert_allclose(forces[0.99], 0.01 * forces[0.0], rtol=1e-9)


def test_the_answer_is_what_the_last_state_says():
    """Inclusion and flips come from the cavities, means and variances from the priors in them."""
    problem, truth = teacher_problem(60, 3.0, seed=1, eta=0.9)
    states = []
    posterior = solve(problem, ThetaMixture(0.9), callback=states.append)
    end = states[-1]
    assert posterior.status is Status.CONVERGED
    assert len(states) == posterior.n_iter
    assert posterior.mismatch == end.error < 1e-4
    weights, fields = (type(end.cavity)(*(part[cut] for part in end.cavity)) for cut in (slice(60), slice(60, None)))
    np.testing.assert_allclose(posterior.inclusion, posterior.weights.inclusion(weights), rtol=1e-12)
    np.testing.assert_allclose(posterior.mean, posterior.weights.moments(weights).mean, rtol=1e-12)
    np.testing.assert_allclose(posterior.std**2, posterior.weights.moments(weights).var, rtol=1e-12)
    np.testing.assert_allclose(posterior.flip, posterior.labels.flip(fields), rtol=1e-12)
    assert posterior.flip[truth.flipped].mean() > 3 * posterior.flip[~truth.flipped].mean()
    assert posterior.log_evidence is None


def test_as_good_as_expectation_propagation_on_iid_patterns():
    """Both are optimal for large N: the mean difference in dB is within its error bars, and those are small."""
    gaps = []
    for seed in range(12):
        problem, truth = teacher_problem(100, 2.5, seed=seed)
        answers = [solve(problem), solve_by_name(problem, SpikeSlab(0.25), Theta())]
        assert {posterior.status for posterior in answers} == {Status.CONVERGED}
        gaps.append(np.subtract(*(decibel(mse(posterior.mean, truth.teacher)) for posterior in answers)))
    error = np.std(gaps, ddof=1) / np.sqrt(len(gaps))
    assert error < 0.2
    assert abs(np.mean(gaps)) < 3 * error + 0.05


def offset_problem(n_weights, alpha, seed):
    """Patterns that share an offset of three standard deviations; the teacher's weights balance, so its labels do."""
    rng = np.random.default_rng(seed)
    teacher = diluted_teacher(n_weights, 0.25, rng)
    teacher[teacher != 0] -= teacher[teacher != 0].mean()
    X = rng.standard_normal((round(alpha * n_weights), n_weights)) + 3.0
    return Problem.from_arrays(X, np.where(X @ teacher >= 0.0, 1.0, -1.0)), teacher


@pytest.mark.parametrize("seed", range(4))
def test_mean_removal_saves_patterns_with_an_offset(seed):
    """Measured against EP: at most 0.33 dB; plain AMP is 5 to 7 dB worse than either."""
    problem, teacher = offset_problem(128, 1.0, seed)
    assert_lost(solve(problem))
    posterior, ep = solve(problem, mean_removal=True), solve_by_name(problem, SpikeSlab(0.25), Theta())
    assert posterior.status is Status.CONVERGED
    assert posterior.mean.shape == posterior.std.shape == posterior.inclusion.shape == (128,)
    assert posterior.flip.shape == (128,)
    assert apart(posterior.mean, ep.mean) < 0.1
    assert decibel(mse(posterior.mean, teacher)) < decibel(mse(ep.mean, teacher)) + 0.6
    assert decibel(mse(posterior.mean, teacher)) < decibel(mse(solve(problem).mean, teacher)) - 3


@pytest.mark.parametrize("seed", range(3))
def test_mean_removal_changes_little_where_there_is_no_offset(seed):
    """Measured distance of unit vectors: at most 0.0044, where the teacher is 0.13 to 0.23 away."""
    problem, truth = teacher_problem(100, 3.0, seed=seed)
    plain, removed = (solve(problem, mean_removal=flag, tol=1e-6) for flag in (False, True))
    assert plain.status is removed.status is Status.CONVERGED
    assert apart(plain.mean, removed.mean) < 0.01
    assert apart(plain.mean, truth.teacher) > 0.1


@pytest.mark.parametrize("shape", [(12, 7), (7, 12), (2, 2)], ids=str)
def test_the_border_brings_the_means_back(shape):
    """Where the fields of the two further rows vanish, those of the others are X w, for any w."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal(shape) + rng.standard_normal(shape[1]) + 4.0
    problem = Problem.from_arrays(X, np.ones(shape[0]), strict=False)
    design, size = channel_of(problem, mean_removal=True).design, shape[1]
    weights = rng.standard_normal(size)
    extra = np.linalg.solve(design[-2:, size:], -design[-2:, :size] @ weights)
    np.testing.assert_allclose(design[:-2] @ np.append(weights, extra), X @ weights, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(design[:-2, :size].sum(), 0.0, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_learning_comes_near_the_truth(seed):
    truth = lesson(150, 4.0, np.random.default_rng(seed), rho=0.15, eta=0.9)
    problem = Problem.from_arrays(truth.X, truth.labels)
    posterior = solve(problem, ThetaMixture(0.7), rho=0.5, learn=("rho", "eta"))
    assert posterior.status is Status.CONVERGED
    assert posterior.weights.rho == pytest.approx(0.15, abs=0.04)
    assert posterior.labels.eta == pytest.approx(0.9, abs=0.03)


def test_learning_rests_where_an_update_changes_nothing():
    """And only the parameters named move."""
    problem, _ = teacher_problem(80, 4.0, seed=3, eta=0.9)
    run = partial(solve, problem, ThetaMixture(0.9), rho=0.5, tol=1e-7)
    posterior = run(learn=("rho",))
    assert posterior.status is Status.CONVERGED
    assert posterior.labels == ThetaMixture(0.9)
    assert posterior.weights.lam == 1.0
    mean_inclusion = (posterior.inclusion.sum() + 0.1) / 80.2
    assert posterior.weights.rho == pytest.approx(mean_inclusion, rel=1e-5)
    with pytest.raises(ValueError, match="learn names 'sigma', which these priors do not have"):
        run(learn=("sigma",))


@pytest.mark.parametrize("mean_removal", [False, True])
def test_a_column_of_zeros_is_harmless(mean_removal):
    truth = teacher_problem(60, 2.0, seed=5)[1]
    plain = solve(Problem.from_arrays(truth.X, truth.labels), tol=1e-7, mean_removal=mean_removal)
    padded = Problem.from_arrays(np.insert(truth.X, 5, 0.0, axis=1), truth.labels, strict=False)
    posterior = solve(padded, tol=1e-7, mean_removal=mean_removal)
    assert posterior.status is plain.status is Status.CONVERGED
    if mean_removal:  # it is a column like the others once row means are taken out
        assert apart(np.delete(posterior.mean, 5), plain.mean) < 0.01
        return
    np.testing.assert_allclose(np.delete(posterior.mean, 5), plain.mean, atol=1e-5)
    np.testing.assert_allclose(posterior.mean[5], 0.0, atol=1e-9)
    np.testing.assert_allclose(posterior.inclusion[5], 0.25, rtol=1e-4)
    np.testing.assert_allclose(posterior.std[5], 0.5, rtol=1e-4)


@pytest.mark.parametrize("labels", [Theta(), ThetaMixture(0.9)], ids=str)
@pytest.mark.parametrize("X", [[[1.0, -2.0, 0.5]], [[1.0], [-2.0]], np.ones((4, 3)), [[1, 2], [1, 2]]], ids=str)
def test_patterns_that_are_nothing_but_means(X, labels):
    """Nothing is left once means are taken out: a status, and numbers."""
    problem = Problem.from_arrays(X, np.resize([1, -1], len(X)), strict=False)
    posterior = solve(problem, labels, mean_removal=True)
    assert isinstance(posterior.status, Status)
    for name in ("mean", "std", "inclusion", "flip"):
        assert np.all(np.isfinite(getattr(posterior, name))), name


def test_swinging_between_two_points_is_no_convergence():
    """On this instance every second state is the same, and neighbours are far apart."""
    problem, _ = teacher_problem(128, 4.0, seed=4, eta=0.95)
    for accelerated in (True, False):
        states = []
        options = {"max_iter": 300, "accelerated": accelerated, "callback": states.append}
        posterior = solve(problem, ThetaMixture(0.95), **options)
        last, before = states[-1].estimate.mean, states[-2].estimate.mean
        assert np.max(np.abs(last - before)) > 0.1
        assert posterior.status is Status.MAX_ITER
        assert posterior.n_iter < 250 if accelerated else posterior.n_iter == 300, (
            "the published one goes on to the end"
        )


def test_variances_must_come_to_rest_too():
    problem = Problem.from_arrays([[1.0], [1.0]], [1, -1], strict=False)
    posterior = solve(problem)
    assert posterior.status is not Status.CONVERGED


@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_weights_that_fall_to_zero_have_collapsed(damping):
    rng = np.random.default_rng(0)
    problem = Problem.from_arrays(rng.standard_normal((120, 20)), np.where(rng.random(120) < 0.5, 1, -1))
    assert solve(problem, damping=damping).status is Status.COLLAPSED


def test_a_damped_run_that_ends_early_returns_what_it_reached():
    """The undamped change decides which state is best, not the small steps of the beginning."""
    problem, _ = teacher_problem(20, 2.0, seed=1, eta=0.9)
    early = solve(problem, ThetaMixture(0.9), damping=0.95, max_iter=100)
    assert np.max(np.abs(early.mean)) > 1.0
    assert solve(problem, ThetaMixture(0.9), damping=1 - 1e-6, max_iter=5).status is Status.MAX_ITER

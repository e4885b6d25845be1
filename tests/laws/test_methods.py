"""What every method owes its caller. A method that is registered is tested; what it must know stands in `NEEDS`."""

import inspect
from functools import cache, partial

import numpy as np
import pytest

from dilutron import Normal, Posterior, Probit, Problem, SpikeSlab, Status, Theta, ThetaMixture, solve
from dilutron.methods import METHODS, OPTIONS
from tests.laws.lists import N_WEIGHTS, method_options, methods_with
from tests.problems import teacher_problem

every_method = pytest.mark.parametrize("method", METHODS)
PRIORS = SpikeSlab(0.25), ThetaMixture(0.9)
ARRAYS = ("mean", "std", "inclusion", "flip")


def run(method, problem, priors=PRIORS, callback=None, **options):
    return solve(problem, *priors, method, method_options(method, **options), callback=callback)


def taught(seed=11, alpha=2.0, eta=0.9):
    return teacher_problem(N_WEIGHTS, alpha, seed=seed, eta=eta)


@cache
def plain(method, **options):
    """The answer that several laws compare with another one."""
    return run(method, taught()[0], **options)


def arrays(posterior):
    """Those that the method gives."""
    return {name: getattr(posterior, name) for name in ARRAYS if getattr(posterior, name) is not None}


def assert_numbers(posterior):
    """Finite, spreads not negative, probabilities from 0 to 1."""
    for name, values in arrays(posterior).items():
        assert np.all(np.isfinite(values)), name
        assert name == "mean" or np.all(values >= 0.0), name
        assert name in ("mean", "std") or np.all(values <= 1.0), name
    assert not np.isnan(posterior.mismatch)
    assert posterior.log_evidence is None or not np.isnan(posterior.log_evidence)


def assert_same(one, other, rows=slice(None), columns=slice(None), atol=1e-6):
    """Two answers to one problem, whose rows and columns may have been put in another order."""
    assert other.status is one.status
    assert one.status is Status.CONVERGED or one.method not in methods_with("learn"), "those that use the priors do"
    assert arrays(one).keys() == arrays(other).keys()
    for name, values in arrays(one).items():
        expected = values[rows if name == "flip" else columns]
        np.testing.assert_allclose(arrays(other)[name], expected, atol=atol, rtol=1e-5, err_msg=name)


def test_every_method_has_options():
    assert METHODS.keys() == OPTIONS.keys()
    assert len(METHODS) > 4


@pytest.mark.parametrize("rho", [0.25, np.linspace(0.1, 0.5, N_WEIGHTS)], ids=["one rho", "rho per feature"])
@every_method
def test_order_of_rows_and_columns(method, rho):
    problem, truth = taught()
    rng, rho = np.random.default_rng(0), np.broadcast_to(rho, N_WEIGHTS)
    rows, columns = rng.permutation(len(truth.X)), rng.permutation(N_WEIGHTS)
    mixed = Problem.from_arrays(truth.X[rows][:, columns], truth.labels[rows])
    given = run(method, problem, (SpikeSlab(rho), PRIORS[1]), tol=1e-9)
    assert_same(given, run(method, mixed, (SpikeSlab(rho[columns]), PRIORS[1]), tol=1e-9), rows, columns)


@every_method
def test_one_value_for_all_is_one_value_each(method):
    problem, _ = taught()
    each = SpikeSlab(np.full(N_WEIGHTS, 0.25), np.ones(N_WEIGHTS)), PRIORS[1]
    assert_same(plain(method, tol=1e-9), run(method, problem, each, tol=1e-9))


@every_method
def test_a_pattern_and_its_label_may_turn_over_together(method):
    _, truth = taught()
    sign = np.where(np.arange(len(truth.X)) % 3 == 0, -1.0, 1.0)
    turned = Problem.from_arrays(truth.X * sign[:, None], truth.labels * sign)
    assert_same(plain(method, tol=1e-9), run(method, turned, tol=1e-9))


@every_method
def test_turning_a_column_over_turns_its_weight_over(method):
    _, truth = taught()
    sign = np.where(np.arange(N_WEIGHTS) % 4 == 0, -1.0, 1.0)
    one, turned = plain(method, tol=1e-9), run(method, Problem.from_arrays(truth.X * sign, truth.labels), tol=1e-9)
    assert one.status is turned.status
    np.testing.assert_allclose(turned.mean, one.mean * sign, atol=1e-6)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
@every_method
def test_units_of_the_patterns(method, factor):
    """X times c with lam times c^2 is the same problem: the same direction of the weights, the same probabilities."""
    _, truth = taught()
    scaled = Problem.from_arrays(truth.X * factor, truth.labels)
    one, other = plain(method, tol=1e-9), run(method, scaled, (SpikeSlab(0.25, factor**2), PRIORS[1]), tol=1e-9)
    assert one.status is other.status
    directions = [posterior.mean / np.linalg.norm(posterior.mean) for posterior in (one, other)]
    np.testing.assert_allclose(*directions, atol=1e-5)
    for name in arrays(one).keys() & {"inclusion", "flip"}:
        np.testing.assert_allclose(arrays(other)[name], arrays(one)[name], atol=1e-5)


@every_method
def test_the_same_call_twice_gives_the_same_bits_and_leaves_the_problem_alone(method):
    problem, truth = taught()
    one, other = plain(method), run(method, problem)
    for name, values in arrays(one).items():
        np.testing.assert_array_equal(arrays(other)[name], values)
    assert one.trace == other.trace
    np.testing.assert_array_equal(problem.X, truth.X)
    np.testing.assert_array_equal(problem.labels, truth.labels)


@every_method
def test_a_true_from_the_callback_stops(method):
    problem, _ = taught()
    for after in (1, 2, 4):
        seen = []

        def callback(state, seen=seen, after=after):
            seen.append(state)
            return len(seen) == after

        posterior = run(method, problem, callback=callback)
        assert posterior.status is Status.STOPPED
        assert len(seen) == after
        assert_numbers(posterior)


@every_method
def test_other_answers_of_the_callback_do_not_stop(method):
    problem, _ = taught()
    seen = []
    posterior = run(method, problem, callback=lambda state: seen.append(state) or len(seen))
    assert posterior.status is not Status.STOPPED
    assert len(seen) == posterior.n_iter
    assert seen[-1].error == posterior.trace[-1].error
    np.testing.assert_array_equal(posterior.mean, plain(method).mean)


@every_method
def test_what_is_saved_predicts_the_same(method, tmp_path):
    posterior, (_, truth) = plain(method), taught()
    loaded = Posterior.load(posterior.save(tmp_path / "run"))
    rows = np.random.default_rng(0).standard_normal((5, N_WEIGHTS))
    for a, b in zip(posterior.predict(rows), loaded.predict(rows), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(loaded.probability(truth.X), posterior.probability(truth.X))
    assert arrays(loaded).keys() == arrays(posterior).keys()
    for name in ("method", "status", "mismatch", "trace", "weights", "labels", "log_evidence"):
        assert getattr(loaded, name) == getattr(posterior, name), name


@every_method
def test_predictions_are_better_than_chance(method):
    """On fresh patterns of the same teacher; columns in units of their own."""
    _, truth = taught(alpha=6.0, eta=0.95)
    units = np.geomspace(0.1, 10.0, N_WEIGHTS)
    problem = Problem.from_arrays(truth.X * units + 2.0, truth.labels, standardize=True)
    posterior = run(method, problem)
    assert_numbers(posterior)
    fresh = np.random.default_rng(5).standard_normal((400, N_WEIGHTS))
    said = posterior.probability(fresh * units + 2.0)
    assert np.all((said >= 0.0) & (said <= 1.0))
    assert np.mean((said > 0.5) == (fresh @ truth.teacher > 0)) > 0.8


class Foreign:
    """Options of no method."""


@every_method
def test_wrong_options_are_told_the_right_type(method):
    problem, _ = taught()
    others = [kind() for kind in {OPTIONS["ep"], OPTIONS["amp"]} if not issubclass(kind, OPTIONS[method])]
    for wrong in (Foreign(), {"tol": 1e-3}, *others):
        with pytest.raises(ValueError, match=rf"options for {method!r} must be {OPTIONS[method].__name__}\(\.\.\.\)"):
            solve(problem, *PRIORS, method, wrong)


@every_method
def test_arguments_that_a_method_does_not_know_are_refused(method):
    problem, _ = taught()
    known = inspect.signature(METHODS[method]).parameters
    for name, value in {"intercept": Normal(0.1), "start": plain("ep")}.items():
        call = partial(solve, problem, *PRIORS, method, method_options(method), **{name: value})
        if name in known:
            assert call().status is Status.CONVERGED
        else:
            with pytest.raises(ValueError, match=f"{name} is not known to {method!r}"):
                call()


@pytest.mark.parametrize(
    ("priors", "message"),
    [
        ((Theta(), Theta()), "weights must be a prior for weights"),
        ((0.25, Theta()), "weights must be a prior for weights"),
        ((SpikeSlab(0.25), SpikeSlab(0.25)), "labels must be a prior for labels"),
        ((SpikeSlab(0.25), None), "labels must be a prior for labels"),
        ((SpikeSlab(np.full(N_WEIGHTS + 1, 0.25)), Theta()), r"weights\.rho has 21 values: give 20 values"),
    ],
)
@every_method
def test_priors_in_the_wrong_place_are_named(method, priors, message):
    with pytest.raises(ValueError, match=message):
        run(method, taught()[0], priors)


@pytest.mark.parametrize("method", methods_with("learn"))
def test_names_to_learn_are_checked(method):
    with pytest.raises(ValueError, match="learn names 'sigma', which these priors do not have"):
        run(method, taught()[0], learn=("sigma",))
    with pytest.raises(ValueError, match="learn names 'beta', whose start is infinite"):
        run(method, taught()[0], learn=("beta",))


@pytest.mark.parametrize("max_iter", [1, 2])
@pytest.mark.parametrize("method", methods_with("max_iter"))
def test_max_iter(method, max_iter):
    """The state that a run starts from may be counted, or not."""
    posterior = run(method, taught(eta=0.8)[0], max_iter=max_iter)
    assert posterior.status is Status.MAX_ITER
    assert posterior.n_iter in (max_iter, max_iter + 1)
    assert_numbers(posterior)


def draws(*shape):
    return np.random.default_rng([7, *shape]).standard_normal(shape)


def with_column(values):
    X = draws(30, N_WEIGHTS)
    X[:, 3] = values
    return X


HARD = {
    "one class": (draws(30, N_WEIGHTS), [1]),
    "the other class, wide": (draws(8, N_WEIGHTS), [-1]),
    "one row": (draws(1, N_WEIGHTS), [1]),
    "two rows that contradict": (np.repeat(draws(1, N_WEIGHTS), 2, axis=0), [1, -1]),
    "rows that contradict": (np.repeat(draws(10, N_WEIGHTS), 4, axis=0), [1, -1]),
    "a column of zeros": (with_column(0.0), [1, 1, -1]),
    "a constant column": (with_column(5.0), [1, 1, -1]),
    "patterns all alike": (np.ones((6, N_WEIGHTS)), [1, -1, 1]),
    "large units": (1e60 * draws(30, N_WEIGHTS), [1, 1, -1]),
    "small units": (1e-60 * draws(30, N_WEIGHTS), [1, 1, -1]),
}


@pytest.mark.parametrize("labels", [Theta(), ThetaMixture(0.9), Probit(2.0)], ids=["theta", "mixture", "probit"])
@pytest.mark.parametrize("name", HARD)
@every_method
def test_hard_problems_end_in_a_status(method, name, labels):
    """No exception, no warning (they are errors here), no NaN."""
    X, signs = HARD[name]
    problem = Problem.from_arrays(X, np.resize(signs, len(X)), strict=False)
    posterior = run(method, problem, (SpikeSlab(0.25), labels), max_iter=300)
    assert isinstance(posterior.status, Status)
    if "contradict" in name and labels == Theta() and posterior.inclusion is not None:
        assert posterior.status is not Status.CONVERGED  # nothing but w = 0 is left, which is a trap
    assert_numbers(posterior)
    said = posterior.probability(X)
    assert np.all((said >= 0.0) & (said <= 1.0))


@every_method
def test_a_row_of_zeros_is_refused(method):
    X = draws(30, N_WEIGHTS)
    X[7] = 0.0
    problem = Problem.from_arrays(X, np.resize([1, -1, 1], len(X)), strict=False)
    with pytest.raises(ValueError, match="row 7 of X is all zeros, so its label tells nothing: drop it"):
        run(method, problem)


@pytest.mark.parametrize("eta", [0.5, 0.5 + 1e-9, 0.5 + 1e-6, 0.5 + 1e-3])
@every_method
def test_labels_that_say_nothing_leave_the_prior(method, eta):
    """For the methods that have a prior and tell inclusion probabilities."""
    posterior = run(method, taught(alpha=1.0)[0], (SpikeSlab(0.3), ThetaMixture(eta)))
    if posterior.inclusion is None:
        pytest.skip("no inclusion probabilities")
    np.testing.assert_allclose(posterior.inclusion, 0.3, rtol=1e-3)
    np.testing.assert_allclose(posterior.mean, 0.0, atol=0.02)
    assert posterior.status is Status.CONVERGED


@pytest.mark.parametrize("weights", [SpikeSlab(0.25), Normal(2.0)], ids=["spike and slab", "normal"])
@every_method
def test_inclusion_only_where_the_prior_knows_of_zeros(method, weights):
    posterior = run(method, taught()[0], (weights, Probit(2.0)))
    assert posterior.inclusion is None or isinstance(weights, SpikeSlab)
    assert_numbers(posterior)

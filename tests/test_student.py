import numpy as np
import pytest

from dilutron import EPOptions, Normal, Posterior, Probit, Problem, SpikeSlab, Status, Theta, ThetaMixture, solve
from dilutron.gaussian import Sites
from tests.problems import teacher_problem

BAD_OPTIONS = {
    "tol": ({"tol": 0.0}, "tol must be a positive number"),
    "negative tol": ({"tol": -1.0}, "tol must be a positive number"),
    "nan tol": ({"tol": np.nan}, "tol must be a positive number"),
    "infinite learn_tol": ({"learn_tol": np.inf}, "learn_tol must be a positive number"),
    "rate": ({"rate": 0.0}, "rate must be a positive number"),
    "max_iter": ({"max_iter": 0}, "max_iter must be a whole number, at least 1"),
    "damping": ({"damping": 1.0}, "damping is the weight of the old value"),
    "negative damping": ({"damping": -0.1}, "damping is the weight of the old value"),
    "learning": ({"learning": "magic"}, r"learning must be one of \('em', 'gradient', 'along'\), got 'magic'"),
    "scheme": ({"scheme": "other"}, r"scheme must be one of \('natural', 'paper'\), got 'other'"),
    "learn as a word": ({"learn": "rho"}, r"learn must be a tuple of names, for example \('rho',\)"),
}


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS.values(), ids=BAD_OPTIONS.keys())
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        EPOptions(**options)


def test_unknown_names_to_learn():
    problem, _ = teacher_problem(10, 2.0)
    with pytest.raises(ValueError, match=r"learn names 'sigma', which these priors do not have; they have \["):
        solve(problem, SpikeSlab(0.25), ThetaMixture(0.9), options=EPOptions(learn=("rho", "sigma")))
    with pytest.raises(ValueError, match="learn names 'rho'"):
        solve(problem, Normal(1.0), ThetaMixture(0.9), options=EPOptions(learn=("rho",)))


def test_an_infinite_beta_cannot_be_learned():
    with pytest.raises(ValueError, match=r"learn names 'beta', whose start is infinite: give a finite one"):
        solve(teacher_problem(10, 2.0)[0], SpikeSlab(0.25), Theta(), options=EPOptions(learn=("beta",)))


@pytest.mark.parametrize("name", ["rho", "lam"])
@pytest.mark.parametrize("size", [9, 11])
def test_one_value_per_feature_means_one_each(name, size):
    values = {"rho": 0.25, "lam": 1.0} | {name: np.full(size, 0.5)}
    with pytest.raises(ValueError, match=rf"weights\.{name} has {size} values: give 10 values, one each"):
        solve(teacher_problem(10, 2.0)[0], SpikeSlab(**values), Theta())


@pytest.mark.parametrize("size", [10, 11])
def test_an_intercept_has_one_precision(size):
    with pytest.raises(ValueError, match="intercept"):
        solve(teacher_problem(10, 2.0)[0], SpikeSlab(0.25), Theta(), intercept=Normal(np.full(size, 0.1)))


def test_what_a_posterior_holds():
    problem, truth = teacher_problem(30, 3.0, seed=1, eta=0.9)
    posterior = solve(problem, SpikeSlab(0.25), ThetaMixture(0.9))
    assert isinstance(posterior, Posterior)
    assert posterior.mean.shape == posterior.std.shape == posterior.inclusion.shape == (30,)
    assert posterior.flip.shape == (90,)
    assert np.all(posterior.std > 0)
    assert np.all((posterior.inclusion >= 0) & (posterior.inclusion <= 1))
    assert posterior.n_iter == len(posterior.trace)
    assert posterior.seconds > 0
    assert (posterior.intercept, posterior.intercept_std) == (0.0, 0.0)
    assert posterior.weights == SpikeSlab(0.25)
    assert posterior.names == problem.names
    assert posterior.flip[truth.flipped].mean() > 3 * posterior.flip[~truth.flipped].mean()
    covariance = posterior.covariance().dense()
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), posterior.std, rtol=1e-4)
    np.testing.assert_allclose(covariance, covariance.T, atol=1e-12)


def test_a_clean_run_reports_no_trouble():
    posterior = solve(teacher_problem(30, 1.0, seed=1)[0], SpikeSlab(0.5), Probit(1.0))
    assert posterior.status is Status.CONVERGED
    assert (posterior.failures, posterior.invalid) == (0, 0)


@pytest.mark.parametrize("alpha", [0.8, 3.0])
def test_an_intercept_takes_up_a_shift(alpha):
    """Labels of a shifted field; the wide prior lets the intercept follow."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((int(40 * alpha), 40))
    teacher = np.r_[rng.standard_normal(10), np.zeros(30)]
    problem = Problem.from_arrays(X, np.where(X @ teacher + np.linalg.norm(teacher) > 0, 1, -1))
    posterior = solve(problem, SpikeSlab(0.25), ThetaMixture(0.98), intercept=Normal(0.1))
    assert posterior.status is Status.CONVERGED
    assert posterior.intercept > posterior.intercept_std > 0
    assert posterior.covariance().base.size == 41
    fields = posterior.predict(X)
    np.testing.assert_allclose(fields.mean, X @ posterior.mean + posterior.intercept, rtol=1e-10)
    plain = solve(problem, SpikeSlab(0.25), ThetaMixture(0.98))
    assert posterior.log_evidence > plain.log_evidence + 1


@pytest.mark.parametrize("alpha", [0.6, 2.0])
def test_a_warm_start_is_short_and_gives_the_same_answer(alpha):
    problem, _ = teacher_problem(60, alpha, seed=1, eta=0.9)
    cold = solve(problem, SpikeSlab(0.25), ThetaMixture(0.9))
    again = solve(problem, SpikeSlab(0.25), ThetaMixture(0.9), start=cold)
    assert again.n_iter <= 2
    np.testing.assert_allclose(again.mean, cold.mean, atol=1e-5)
    near = solve(problem, SpikeSlab(0.27), ThetaMixture(0.91), start=cold)
    far = solve(problem, SpikeSlab(0.27), ThetaMixture(0.91))
    assert near.status is far.status is Status.CONVERGED
    assert near.n_iter < 0.8 * far.n_iter
    np.testing.assert_allclose(near.mean, far.mean, atol=1e-4)


def test_a_warm_start_needs_the_same_shape():
    small, large = (teacher_problem(n, 2.0)[0] for n in (10, 12))
    posterior = solve(small, SpikeSlab(0.25), Theta())
    with pytest.raises(ValueError, match="start must be an EP posterior of this shape, 24 patterns and 12 features"):
        solve(large, SpikeSlab(0.25), Theta(), start=posterior)


@pytest.mark.parametrize("alpha", [0.6, 2.0])
def test_a_warm_start_of_tied_sites(alpha):
    problem, _ = teacher_problem(60, alpha, seed=1, eta=0.9)
    cold = solve(problem, SpikeSlab(0.25), ThetaMixture(0.9), "vamp")
    again = solve(problem, SpikeSlab(0.25), ThetaMixture(0.9), "vamp", start=cold)
    assert again.status is Status.CONVERGED
    assert again.n_iter <= 2
    ep = solve(problem, SpikeSlab(0.25), ThetaMixture(0.9), start=cold)
    np.testing.assert_allclose(ep.mean, solve(problem, SpikeSlab(0.25), ThetaMixture(0.9)).mean, atol=1e-4)


@pytest.mark.parametrize("method", ["amp", "grvamp", "r1bcs"])
def test_a_warm_start_needs_sites(method):
    problem, _ = teacher_problem(10, 2.0)
    posterior = solve(problem, SpikeSlab(0.25), ThetaMixture(0.9), method)
    for student in ("ep", "vamp"):
        with pytest.raises(ValueError, match="start must be an EP posterior of this shape"):
            solve(problem, SpikeSlab(0.25), ThetaMixture(0.9), student, start=posterior)


def test_a_warm_start_from_nonsense_recovers():
    problem, _ = teacher_problem(20, 2.0)
    cold = solve(problem, SpikeSlab(0.25), Theta())
    nonsense = Posterior(**{**vars(cold), "sites": Sites(np.full(60, -1e3), np.ones(60))})
    again = solve(problem, SpikeSlab(0.25), Theta(), start=nonsense)
    assert again.status is Status.CONVERGED
    np.testing.assert_allclose(again.mean, cold.mean, atol=1e-5)


def test_damping_is_the_weight_of_the_old_value():
    """After one step from flat sites the labels hold that share of what they asked for."""
    problem, _ = teacher_problem(20, 2.0)
    shifts = {}
    for damping in (0.0, 0.5, 0.99):
        states = []
        options = EPOptions(damping=damping, max_iter=2)
        solve(problem, SpikeSlab(0.25), Probit(1.0), options=options, callback=lambda state, s=states: s.append(state))
        shifts[damping] = states[1].here.sites.shift[20:]
    assert np.all(shifts[0.0] > 0)
    np.testing.assert_allclose(shifts[0.5], 0.5 * shifts[0.0], rtol=1e-12)
    np.testing.assert_allclose(shifts[0.99], 0.01 * shifts[0.0], rtol=1e-12)


def test_standardized_columns_predict_in_their_own_units():
    _, truth = teacher_problem(20, 4.0)
    units = np.geomspace(1e-2, 1e2, 20)
    raw = Problem.from_arrays(truth.X * units + 5.0, truth.labels, standardize=True)
    posterior = solve(raw, SpikeSlab(0.25), ThetaMixture(0.95), intercept=Normal(0.1))
    by_hand = (truth.X * units + 5.0 - raw.center) / raw.scale @ posterior.mean + posterior.intercept
    np.testing.assert_allclose(posterior.predict(truth.X * units + 5.0).mean, by_hand, rtol=1e-10)
    assert np.mean(np.sign(by_hand) == truth.labels) > 0.9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": Theta()}, "weights must be a prior for weights"),
        ({"weights": 0.25}, "weights must be a prior for weights"),
        ({"labels": SpikeSlab(0.2)}, "labels must be a prior for labels"),
        ({"labels": Theta}, "labels must be a prior for labels"),
        ({"intercept": 0.1}, "intercept must be a prior for weights"),
    ],
)
def test_priors_in_the_wrong_place_are_named(arguments, message):
    arguments = {"weights": SpikeSlab(0.25), "labels": Theta()} | arguments
    with pytest.raises(ValueError, match=message):
        solve(teacher_problem(10, 2.0)[0], **arguments)


def test_a_warm_start_is_for_the_natural_scheme_only():
    problem = teacher_problem(10, 2.0)[0]
    posterior = solve(problem, SpikeSlab(0.25), Theta())
    with pytest.raises(ValueError, match="start is not used by scheme"):
        solve(problem, SpikeSlab(0.25), Theta(), options=EPOptions(scheme="paper"), start=posterior)


def test_a_row_of_zeros_is_even_odds():
    posterior = solve(teacher_problem(10, 2.0)[0], SpikeSlab(0.25), Theta())
    np.testing.assert_allclose(posterior.probability(np.zeros((1, 10))), 0.5)


def test_lists_are_vectors():
    posterior = solve(teacher_problem(3, 4.0)[0], SpikeSlab([0.2, 0.3, 0.4]), ThetaMixture(0.9))
    np.testing.assert_array_equal(posterior.weights.rho, [0.2, 0.3, 0.4])

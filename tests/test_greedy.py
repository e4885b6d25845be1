from functools import partial
from operator import attrgetter

import numpy as np
import pytest

from dilutron import Posterior, Problem, SpikeSlab, Status, Theta, ThetaMixture
from dilutron.baselines.greedy import AOPOptions, BIHTOptions, MSPOptions, solve_aop, solve_aop_f, solve_biht, solve_msp
from dilutron.baselines.sphere import NARFPIOptions, RFPIOptions, solve_narfpi, solve_rfpi, unit, worst
from dilutron.metrics import auc, mse
from tests.problems import teacher_problem

# Each method with the options it takes, given the number of nonzero weights and of wrong labels.
FAMILY = {
    "rfpi": (solve_rfpi, lambda k, flips, **more: RFPIOptions(**more)),
    "narfpi": (solve_narfpi, lambda k, flips, **more: NARFPIOptions(flips=flips, **more)),
    "msp": (solve_msp, lambda k, flips, **more: MSPOptions(k=k, **more)),
    "biht": (solve_biht, lambda k, flips, **more: BIHTOptions(k=k, **more)),
    "biht-l2": (solve_biht, lambda k, flips, **more: BIHTOptions(k=k, loss="l2", **more)),
    "aop": (solve_aop, lambda k, flips, **more: AOPOptions(k=k, flips=flips, **more)),
    "aop_f": (solve_aop_f, lambda k, flips, **more: AOPOptions(k=k, flips=flips, **more)),
}
ROBUST = {"aop", "aop_f", "narfpi"}
every_method = pytest.mark.parametrize("name", FAMILY)


def run(name, problem, k, flips=0, callback=None, **more):
    solve, options = FAMILY[name]
    return solve(problem, SpikeSlab(0.25), ThetaMixture(0.95), options(k, flips, **more), callback=callback)


def lessons(seeds, n_weights=128, alpha=4.0, rho=0.05, eta=1.0):
    for seed in range(seeds):
        problem, truth = teacher_problem(n_weights, alpha, seed, rho=rho, eta=eta)
        yield problem, truth, int(np.sum(truth.teacher != 0.0)), int(truth.flipped.sum())


def angle(weights, teacher):
    return np.arccos(np.clip(unit(weights) @ unit(teacher), -1.0, 1.0))


@every_method
@pytest.mark.parametrize("rho", [0.05, 0.25])
def test_far_better_than_the_back_projection(name, rho):
    angles = []
    for problem, truth, k, _ in lessons(3, rho=rho):
        posterior = run(name, problem, k)
        assert np.linalg.norm(posterior.mean) == pytest.approx(1.0)
        angles.append([angle(w, truth.teacher) for w in (posterior.mean, truth.X.T @ truth.labels)])
    ours, plain = np.mean(angles, axis=0)
    assert ours < (0.35 if rho < 0.1 else 0.65) * plain


@pytest.mark.parametrize("name", ["biht", "msp", "aop"])
def test_the_support_is_found_with_many_labels(name):
    found = [
        np.mean(run(name, problem, k).mean[truth.teacher != 0.0] != 0.0)
        for problem, truth, k, _ in lessons(5, alpha=8.0)
    ]
    assert np.mean(found) > 0.8


@pytest.mark.parametrize(("robust", "plain"), [("aop", "biht"), ("aop_f", "biht"), ("narfpi", "rfpi")])
@pytest.mark.parametrize("eta", [0.95, 0.9])
def test_doubting_labels_helps_where_some_are_wrong(robust, plain, eta):
    errors, hits = [], []
    for problem, truth, k, flips in lessons(5, alpha=6.0, eta=eta):
        doubting = run(robust, problem, k, flips)
        errors.append([mse(p.mean, truth.teacher) for p in (doubting, run(plain, problem, k))])
        hits.append(doubting.flip[truth.flipped].mean())
        assert set(np.unique(doubting.flip)) <= {0.0, 1.0}
        assert doubting.flip.sum() <= flips
    ours, theirs = np.mean(errors, axis=0)
    assert ours < 0.8 * theirs
    assert np.mean(hits) > 0.7


@pytest.mark.parametrize(("doubting", "plain"), [("aop", "biht"), ("aop_f", "biht"), ("narfpi", "rfpi")])
def test_without_flips_the_robust_methods_are_the_plain_ones(doubting, plain):
    problem, _, k, _ = next(lessons(1, 40, eta=0.9))
    assert np.array_equal(run(doubting, problem, k, 0).mean, run(plain, problem, k).mean)


def test_the_step_of_l1_cancels_and_that_of_l2_does_not():
    problem, _, k, _ = next(lessons(1, 40, rho=0.25))
    for loss, same in (("l1", True), ("l2", False)):
        means = [
            solve_biht(problem, SpikeSlab(0.25), Theta(), BIHTOptions(k, loss, step, max_iter=5)).mean
            for step in (0.1, 1.0)
        ]
        assert np.array_equal(*means) == same


def test_outliers_are_violated_labels():
    fields = np.array([-3.0, 2.0, -1.0, 0.0, -2.0])
    assert np.flatnonzero(worst(fields, 2)).tolist() == [0, 4]
    assert np.flatnonzero(worst(fields, 4)).tolist() == [0, 2, 4]
    assert not worst(fields, 0).any()


@every_method
def test_symmetries(name):
    problem, truth, k, flips = next(lessons(1, 40, 3.0, 0.25, 0.95))
    rng = np.random.default_rng(5)
    turn, order, rows = rng.choice([-1.0, 1.0], problem.labels.size), rng.permutation(40), rng.permutation(120)
    # Sums in another order differ in the last digit, which a long run without convergence can blow up.
    short = partial(run, name, k=k, flips=flips, max_iter=20)
    here = short(problem)
    turned = short(Problem.from_arrays(truth.X * turn[:, None], truth.labels * turn))
    assert np.array_equal(turned.mean, here.mean)
    moved = short(Problem.from_arrays(truth.X[rows][:, order], truth.labels[rows]))
    np.testing.assert_allclose(moved.mean, here.mean[order], atol=1e-9)
    scaled = short(Problem.from_arrays(truth.X * 1e60, truth.labels))
    np.testing.assert_allclose(scaled.mean, here.mean, atol=1e-9)
    mirrored = short(Problem.from_arrays(truth.X, -truth.labels))
    np.testing.assert_allclose(mirrored.mean, -here.mean, atol=1e-9)
    if name in ROBUST:
        assert np.array_equal(turned.flip, here.flip)
        assert np.array_equal(moved.flip, here.flip[rows])


@every_method
def test_what_a_posterior_holds(name, tmp_path):
    problem, truth, k, flips = next(lessons(1, 40, 3.0, 0.25, 0.95))
    posterior = run(name, problem, k, flips)
    assert posterior.method == name.removesuffix("-l2")
    assert posterior.inclusion is None
    assert posterior.log_evidence is None
    assert (posterior.flip is not None) == (name in ROBUST)
    assert not posterior.std.any()
    assert not posterior.covariance().dense().any()
    assert posterior.weights == SpikeSlab(0.25)
    assert posterior.labels == ThetaMixture(0.95)
    assert {mark.stage for mark in posterior.trace} == {posterior.method}
    assert posterior.mismatch == min(mark.error for mark in posterior.trace)
    assert posterior.names == problem.names
    assert posterior.seconds > 0.0
    if "rfpi" not in name:
        assert np.count_nonzero(posterior.mean) == k
    assert auc(posterior.predict(truth.X).mean, truth.X @ truth.teacher > 0.0) > 0.8
    again = Posterior.load(posterior.save(tmp_path / "kept"))
    for field in ("method", "status", "mismatch", "trace", "weights", "labels", "inclusion", "log_evidence"):
        assert attrgetter(field)(again) == attrgetter(field)(posterior)
    assert np.array_equal(again.mean, posterior.mean)
    assert again.flip is None if posterior.flip is None else np.array_equal(again.flip, posterior.flip)
    assert np.array_equal(again.predict(truth.X).mean, posterior.predict(truth.X).mean)


KNOWN = {
    "msp": (solve_msp, MSPOptions, "k"),
    "biht": (solve_biht, BIHTOptions, "k"),
    "aop": (solve_aop, AOPOptions, "k"),
    "aop_f": (solve_aop_f, AOPOptions, "k"),
    "narfpi": (solve_narfpi, NARFPIOptions, "flips"),
}


@pytest.mark.parametrize(("solve", "options", "need"), KNOWN.values(), ids=KNOWN)
def test_prior_knowledge_must_be_given(solve, options, need):
    problem, *_ = next(lessons(1, 20))
    with pytest.raises(ValueError, match=rf"{need}, the number of .*, must be given: {options.__name__}\({need}="):
        solve(problem, SpikeSlab(0.25), Theta())


def test_aop_needs_both_numbers():
    with pytest.raises(ValueError, match=r"flips, the number of wrong labels, must be given: AOPOptions\(flips="):
        AOPOptions(k=3)


@pytest.mark.parametrize("name", ["msp", "biht", "aop", "aop_f"])
def test_more_weights_than_columns(name):
    with pytest.raises(ValueError, match="k = 21 nonzero weights are more than the N = 20 columns"):
        run(name, next(lessons(1, 20))[0], 21)


@pytest.mark.parametrize("name", sorted(ROBUST))
def test_more_flips_than_labels(name):
    with pytest.raises(ValueError, match="flips = 80 wrong labels leave none of the M = 80"):
        run(name, next(lessons(1, 20))[0], 3, 80)


BAD_OPTIONS = {
    "k": (BIHTOptions, {"k": 0}, "k must be a whole number, at least 1"),
    "k a fraction": (MSPOptions, {"k": 2.5}, "k must be a whole number"),
    "flips": (AOPOptions, {"k": 1, "flips": -1}, "flips must be a whole number, at least 0"),
    "loss": (BIHTOptions, {"k": 1, "loss": "l3"}, r"loss must be one of \('l1', 'l2'\)"),
    "step": (BIHTOptions, {"k": 1, "step": 0.0}, "step must be a positive number"),
    "patience": (BIHTOptions, {"k": 1, "patience": 0}, "patience must be a whole number"),
    "inner": (MSPOptions, {"k": 1, "inner": 0}, "inner must be a whole number"),
    "tol": (MSPOptions, {"k": 1, "tol": 0.0}, "tol must be a positive number"),
    "lam": (RFPIOptions, {"lam": -1.0}, "lam must be a positive number"),
    "growth": (RFPIOptions, {"growth": 1.0}, "growth must be above 1"),
    "growth a word": (RFPIOptions, {"growth": "fast"}, "growth must be a"),
    "levels": (NARFPIOptions, {"flips": 1, "levels": 0}, "levels must be a whole number"),
}


@pytest.mark.parametrize(("kind", "values", "message"), BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_bad_options(kind, values, message):
    with pytest.raises(ValueError, match=message):
        kind(**values)


@every_method
def test_priors_are_checked(name):
    solve, options = FAMILY[name]
    with pytest.raises(ValueError, match="labels must be a prior for labels"):
        solve(next(lessons(1, 20))[0], SpikeSlab(0.25), SpikeSlab(0.25), options(3, 0))


@pytest.mark.parametrize("name", ["rfpi", "narfpi", "biht", "aop", "aop_f", "msp"])
def test_converged(name):
    problem, _, k, _ = next(lessons(1, alpha=2.0))
    posterior = run(name, problem, k)
    assert posterior.status is Status.CONVERGED
    if name in ("biht", "aop", "aop_f"):
        assert np.all(problem.signed() @ posterior.mean > 0.0)


@pytest.mark.parametrize("name", ["biht", "biht-l2"])
def test_going_round_ends_with_the_fewest_violated_labels(name):
    problem, _, k, _ = next(lessons(1, 40, alpha=6.0, rho=0.25, eta=0.8))
    posterior = run(name, problem, k)
    errors = [mark.error for mark in posterior.trace]
    assert posterior.status is Status.MAX_ITER
    assert posterior.mismatch == min(errors) > 0.0
    assert np.mean(problem.signed() @ posterior.mean <= 0.0) == pytest.approx(min(errors))


@every_method
def test_few_iterations_and_a_callback_that_stops(name):
    problem, _, k, flips = next(lessons(1, alpha=6.0, rho=0.25, eta=0.9))
    posterior = run(name, problem, k, flips, max_iter=3)
    assert (posterior.status, posterior.n_iter) == (Status.MAX_ITER, 3)
    seen = []
    stopped = run(name, problem, k, flips, callback=lambda state: seen.append(state.error) or len(seen) == 2)
    assert stopped.status is Status.STOPPED
    assert [mark.error for mark in stopped.trace] == seen


@every_method
def test_labels_that_cancel_leave_no_direction(name):
    """Every pattern stands there twice, with both labels: the back-projection is exactly zero."""
    X = np.random.default_rng(0).standard_normal((10, 4))
    problem = Problem.from_arrays(np.concatenate([X, X]), np.repeat([1.0, -1.0], 10))
    posterior = run(name, problem, 2, 1)
    assert posterior.status is Status.DIVERGED
    assert not posterior.mean.any()


def test_a_lam_that_shrinks_everything_diverges_with_the_state_before():
    problem, *_ = next(lessons(1, 40))
    posterior = run("rfpi", problem, 2, lam=1e-3)
    assert posterior.status is Status.DIVERGED
    assert posterior.trace[-1].error == np.inf
    assert np.linalg.norm(posterior.mean) == pytest.approx(1.0)


@every_method
def test_zero_and_constant_columns_and_a_single_one(name):
    _, truth = teacher_problem(20, 6.0, rho=0.2)
    X = np.column_stack([np.zeros(120), truth.X, np.ones(120)])
    posterior = run(name, Problem.from_arrays(X, truth.labels, strict=False), 5)
    assert posterior.mean[0] == 0.0
    assert angle(posterior.mean[1:-1], truth.teacher) < 0.5
    for k, X in ((1, truth.X[:, :1]), (20, truth.X)):
        posterior = run(name, Problem.from_arrays(X, truth.labels), k, 3)
        assert np.linalg.norm(posterior.mean) == pytest.approx(1.0)

"""What must not matter does not."""

import numpy as np
import pytest

from dilutron import EPOptions, Normal, Probit, Problem, RobustProbit, SpikeSlab, Status, Theta, ThetaMixture, solve
from dilutron.ladder import settle
from tests.laws.lists import BACKENDS
from tests.problems import pair_of_blocks, teacher_problem

FINE = EPOptions(tol=1e-9)
LABELS = [Theta(), ThetaMixture(0.9), Probit(3.0), RobustProbit(0.9, 5.0)]
SHAPES = [(30, 0.6), (25, 2.0)]


def solved(X, labels, weights, prior, **kwargs):
    posterior = solve(Problem.from_arrays(X, labels), weights, prior, options=FINE, **kwargs)
    assert posterior.status is Status.CONVERGED
    return posterior


def teach(size, prior):
    return teacher_problem(*size, seed=11, eta=prior.eta)[1]


@pytest.mark.parametrize("prior", LABELS, ids=str)
@pytest.mark.parametrize("size", SHAPES, ids=str)
def test_order_of_rows_and_columns(size, prior):
    truth = teach(size, prior)
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(len(truth.X)), rng.permutation(size[0])
    rho = np.linspace(0.1, 0.5, size[0])
    plain = solved(truth.X, truth.labels, SpikeSlab(rho), prior)
    mixed = solved(truth.X[rows][:, columns], truth.labels[rows], SpikeSlab(rho[columns]), prior)
    np.testing.assert_allclose(mixed.mean, plain.mean[columns], atol=1e-6)
    np.testing.assert_allclose(mixed.std, plain.std[columns], rtol=1e-5)
    np.testing.assert_allclose(mixed.flip, plain.flip[rows], atol=1e-6)
    np.testing.assert_allclose(mixed.log_evidence, plain.log_evidence, rtol=1e-9)


@pytest.mark.parametrize("prior", LABELS, ids=str)
@pytest.mark.parametrize("size", SHAPES, ids=str)
def test_a_pattern_and_its_label_may_turn_over_together(size, prior):
    truth = teach(size, prior)
    sign = np.where(np.arange(len(truth.X)) % 3 == 0, -1.0, 1.0)
    plain = solved(truth.X, truth.labels, SpikeSlab(0.25), prior)
    turned = solved(truth.X * sign[:, None], truth.labels * sign, SpikeSlab(0.25), prior)
    np.testing.assert_array_equal(turned.mean, plain.mean)
    np.testing.assert_array_equal(turned.flip, plain.flip)


@pytest.mark.parametrize("prior", LABELS, ids=str)
def test_turning_a_column_over_turns_its_weight_over(prior):
    truth = teach((25, 2.0), prior)
    sign = np.where(np.arange(25) % 4 == 0, -1.0, 1.0)
    plain = solved(truth.X, truth.labels, SpikeSlab(0.25), prior)
    turned = solved(truth.X * sign, truth.labels, SpikeSlab(0.25), prior)
    np.testing.assert_allclose(turned.mean, plain.mean * sign, atol=1e-7)
    other = solved(truth.X, -truth.labels, SpikeSlab(0.25), prior)
    np.testing.assert_allclose(other.mean, -plain.mean, atol=1e-7)


@pytest.mark.parametrize("prior", LABELS, ids=str)
@pytest.mark.parametrize("factor", [1e-3, 1e3])
@pytest.mark.parametrize("size", SHAPES, ids=str)
def test_units_of_the_patterns(size, factor, prior):
    """X times c with lam times c^2 is the same problem in other units, at any temperature."""
    truth = teach(size, prior)
    plain = solved(truth.X, truth.labels, SpikeSlab(0.25, 1.3), prior)
    scaled = solved(truth.X * factor, truth.labels, SpikeSlab(0.25, 1.3 * factor**2), prior)
    np.testing.assert_allclose(scaled.mean * factor, plain.mean, atol=1e-6)
    np.testing.assert_allclose(scaled.inclusion, plain.inclusion, atol=1e-6)
    np.testing.assert_allclose(scaled.log_evidence, plain.log_evidence, rtol=1e-8)


@pytest.mark.parametrize("prior", LABELS[:2], ids=str)
@pytest.mark.parametrize("lam", [1e-4, 1e4])
@pytest.mark.parametrize("size", SHAPES, ids=str)
def test_hard_labels_do_not_see_the_slab(size, lam, prior):
    truth = teach(size, prior)
    plain = solved(truth.X, truth.labels, SpikeSlab(0.25), prior)
    other = solved(truth.X, truth.labels, SpikeSlab(0.25, lam), prior)
    np.testing.assert_allclose(other.mean * np.sqrt(lam), plain.mean, atol=1e-6)
    np.testing.assert_allclose(other.std * np.sqrt(lam), plain.std, rtol=1e-5)
    np.testing.assert_allclose(other.log_evidence, plain.log_evidence, rtol=1e-8)


@pytest.mark.parametrize("prior", LABELS, ids=str)
@pytest.mark.parametrize("size", SHAPES, ids=str)
def test_a_whole_solve_does_not_see_the_backend(size, prior):
    design = teacher_problem(*size, seed=11, eta=prior.eta)[0].signed()
    blocks = pair_of_blocks(SpikeSlab(0.25), prior, design.shape)
    one, *others = (settle(backend(design), blocks, tol=1e-9, max_iter=2000) for backend in BACKENDS)
    assert {rest.status for rest in (one, *others)} == {Status.CONVERGED}
    for other in others:
        for a, b in zip(one.state.here.tilted, other.state.here.tilted, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("prior", LABELS, ids=str)
def test_an_intercept_is_a_column_of_ones_with_its_own_prior(prior):
    """Also whole: an intercept of the slab's precision is the same as a dense last weight."""
    truth = teach((25, 2.0), prior)
    with_one = np.column_stack([truth.X, np.ones(len(truth.X))])
    rho = np.append(np.full(25, 0.25), 1 - 1e-12)
    column = solve(Problem.from_arrays(with_one, truth.labels, strict=False), SpikeSlab(rho), prior, options=FINE)
    plain = solved(truth.X, truth.labels, SpikeSlab(0.25), prior, intercept=Normal(1.0))
    np.testing.assert_allclose(plain.mean, column.mean[:-1], atol=1e-6)
    np.testing.assert_allclose(plain.intercept, column.mean[-1], atol=1e-6)
    np.testing.assert_allclose(plain.intercept_std, column.std[-1], rtol=1e-5)


@pytest.mark.parametrize("prior", LABELS, ids=str)
def test_a_column_of_zeros_leaves_its_weight_at_the_prior(prior):
    """Short runs of a recurrent network hold such columns; strict=False lets them in."""
    truth = teach((25, 2.0), prior)
    padded = np.insert(truth.X, 5, 0.0, axis=1)
    plain = solved(truth.X, truth.labels, SpikeSlab(0.25), prior)
    problem = Problem.from_arrays(padded, truth.labels, strict=False)
    posterior = solve(problem, SpikeSlab(0.25), prior, options=EPOptions(tol=1e-9, max_iter=400))
    assert posterior.status is Status.CONVERGED
    np.testing.assert_allclose(posterior.inclusion[5], 0.25, rtol=1e-6)
    np.testing.assert_allclose(posterior.mean[5], 0.0, atol=1e-9)
    np.testing.assert_allclose(posterior.std[5], np.sqrt(0.25), rtol=1e-6)
    np.testing.assert_allclose(np.delete(posterior.mean, 5), plain.mean, atol=1e-6)
    np.testing.assert_allclose(posterior.log_evidence, plain.log_evidence, rtol=1e-7)


@pytest.mark.parametrize("faint", [1e-4, 1e-6, 1e-9])
def test_a_faint_column_leaves_its_weight_near_the_prior(faint):
    """A column in much smaller units, not standardized: its labels say almost nothing, which is no failure."""
    truth = teach((25, 2.0), LABELS[1])
    X = truth.X.copy()
    X[:, 5] *= faint
    posterior = solve(Problem.from_arrays(X, truth.labels), SpikeSlab(0.25), LABELS[1], options=EPOptions(max_iter=400))
    assert posterior.status is Status.CONVERGED
    np.testing.assert_allclose(posterior.inclusion[5], 0.25, rtol=1e-3)


@pytest.mark.parametrize("eta", [0.5, 0.5 + 1e-9, 0.5 + 1e-6, 0.5 + 1e-3])
def test_labels_that_say_nothing_leave_the_prior(eta):
    """eta may be anything from 1/2 to 1; at 1/2 each label is worth exactly one bit."""
    problem, _ = teacher_problem(20, 2.0, seed=1)
    posterior = solve(problem, SpikeSlab(0.3), ThetaMixture(eta), options=EPOptions(max_iter=400))
    assert posterior.status is Status.CONVERGED
    np.testing.assert_allclose(posterior.inclusion, 0.3, rtol=1e-3)
    np.testing.assert_allclose(posterior.log_evidence, -40 * np.log(2), rtol=1e-3)


@pytest.mark.parametrize("size", SHAPES, ids=str)
def test_the_same_call_twice_gives_the_same_bits(size):
    problem, _ = teacher_problem(*size, seed=5, eta=0.9)
    options = EPOptions(learn=("rho", "eta"))
    one, other = (solve(problem, SpikeSlab(0.4), ThetaMixture(0.8), options=options) for _ in range(2))
    for name in ("mean", "std", "inclusion", "flip"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.trace == other.trace
    assert one.path == other.path
    assert (one.weights, one.labels, one.log_evidence) == (other.weights, other.labels, other.log_evidence)

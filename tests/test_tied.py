import pickle

import numpy as np
import pytest

from dilutron import Problem, RobustProbit, SpikeSlab, solve, tied
from dilutron.gaussian import NotPositive, Primal, Sites
from dilutron.tied import Tied, spectrum_of

SHAPES = [(12, 5), (5, 12), (6, 6), (1, 4), (4, 1)]


def tied_sites(shape, weight, label, seed=0):
    """One precision for all weights and one for all labels; the shifts are free."""
    n_labels, n_weights = shape
    shift = np.random.default_rng(seed).standard_normal(n_weights + n_labels)
    return Sites(np.repeat([float(weight), float(label)], [n_weights, n_labels]), shift)


def assert_averages_of_primal(design, sites):
    n_weights = design.shape[1]
    found, plain = Tied(design).marginals(sites), Primal(design).marginals(sites)
    np.testing.assert_allclose(found.mean, plain.mean, rtol=1e-10, atol=1e-10)
    for part in (slice(0, n_weights), slice(n_weights, None)):
        np.testing.assert_allclose(found.var[part], plain.var[part].mean(), rtol=1e-10)
    np.testing.assert_allclose(found.log_z, plain.log_z, rtol=1e-10, atol=1e-10)
    dense = Primal(design).covariance(sites).dense()
    np.testing.assert_allclose(Tied(design).covariance(sites).dense(), dense, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("label", [0.7, 0.0, -0.01], ids="label {}".format)
@pytest.mark.parametrize("weight", [1.3, 1e-3, 1e4], ids="weight {}".format)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_tied_is_primal_with_averaged_variances(shape, weight, label):
    design = np.random.default_rng([1, *shape]).standard_normal(shape)
    if label < 0.0:
        label = -0.5 * weight / np.linalg.norm(design, 2) ** 2  # half of what would make it improper
    assert_averages_of_primal(design, tied_sites(shape, weight, label))


@pytest.mark.parametrize("weight", [-0.01, 0.0, 1e-13, -1e-13], ids=str)
@pytest.mark.parametrize("shape", [(30, 5), (12, 5)], ids=str)
def test_tied_weights_may_be_held_by_the_labels_alone(shape, weight):
    """With labels in every direction a weight precision at or below zero is still a proper Gaussian."""
    design = np.random.default_rng([2, *shape]).standard_normal(shape)
    assert_averages_of_primal(design, tied_sites(shape, weight, 1.0))


def test_of_site_precisions_that_differ_tied_takes_the_average():
    rng = np.random.default_rng(3)
    design = rng.standard_normal((7, 4))
    sites = Sites(rng.uniform(0.5, 2.0, 11), rng.standard_normal(11))
    means = [sites.precision[:4].mean(), sites.precision[4:].mean()]
    same = sites._replace(precision=np.repeat(means, [4, 7]))
    for a, b in zip(Tied(design).marginals(sites), Tied(design).marginals(same), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("call", ["marginals", "covariance"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_tied_refuses_an_improper_gaussian(shape, call):
    design = np.random.default_rng([4, *shape]).standard_normal(shape)
    values = np.linalg.svd(design, compute_uv=False)
    least = values.min() if shape[0] >= shape[1] else 0.0
    answer = getattr(Tied(design), call)
    for weight, label in ((-1.0, -1.0), (-1.01 * least**2 - 1e-9, 1.0), (1.0, -1.01 / values.max() ** 2)):
        with pytest.raises(NotPositive):
            answer(tied_sites(shape, weight, label))


def test_tied_refuses_a_direction_that_no_label_sees():
    """As many labels as weights, but two are the same: zero is a singular value."""
    design = np.array([[1.0, 2.0], [1.0, 2.0]])
    with pytest.raises(NotPositive):
        Tied(design).marginals(tied_sites((2, 2), -0.1, 5.0))
    assert_averages_of_primal(design, tied_sites((2, 2), 0.1, 5.0))


def test_tied_field_var_is_that_of_independent_weights():
    design, var = np.random.default_rng(5).standard_normal((5, 9)), np.linspace(0.1, 3.0, 9)
    np.testing.assert_allclose(Tied(design).field_var(var), np.diag(design @ np.diag(var) @ design.T), rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_signs_of_rows_do_not_change_the_spectrum(shape):
    rng = np.random.default_rng(7)
    X, labels, sites = rng.standard_normal(shape), rng.choice([-1.0, 1.0], shape[0]), tied_sites(shape, 1.3, 0.7)
    design = labels[:, None] * X
    known, own = (one.marginals(sites) for one in (Tied(design, spectrum_of(X)), Tied(design)))
    for name in ("mean", "var", "log_z"):
        np.testing.assert_allclose(getattr(known, name), getattr(own, name), rtol=1e-12, atol=1e-12)


def test_solves_of_a_problem_share_one_svd_and_one_basis(monkeypatch):
    rng, calls, svd = np.random.default_rng(8), [], tied.svd
    monkeypatch.setattr(tied, "svd", lambda *given, **more: calls.append(1) or svd(*given, **more))
    X = rng.standard_normal((30, 50))
    problem = Problem.from_arrays(X, np.where(X[:, 0] > 0.0, 1, -1))
    one, other = (solve(problem, SpikeSlab(rho), RobustProbit(0.95, 1.0), "vamp") for rho in (0.1, 0.3))
    assert len(calls) == 1
    assert one.covariance().root is other.covariance().root
    assert "spectrum" not in vars(pickle.loads(pickle.dumps(problem)))

import numpy as np
import pytest

from dilutron.gaussian import Covariance, Dual, Primal, Sites, choose
from tests.problems import dense_gaussian, random_sites


@pytest.mark.parametrize(
    ("shape", "backend"), [((3, 9), Dual), ((9, 3), Primal), ((4, 4), Primal), ((1, 1), Primal), ((1, 2), Dual)]
)
def test_choose_takes_the_smaller_side(shape, backend):
    assert isinstance(choose(np.ones(shape)), backend)


def test_covariance_holds_a_diagonal_and_signed_roots():
    rng = np.random.default_rng(0)
    base, root, sign = rng.uniform(1, 2, 4), rng.standard_normal((3, 4)), np.array([1.0, -0.5, 1.0])
    covariance = Covariance(base, root, sign)
    dense = np.diag(base) + sum(s * np.outer(r, r) for s, r in zip(sign, root, strict=True))
    np.testing.assert_allclose(covariance.dense(), dense, rtol=1e-13)
    rows = rng.standard_normal((6, 4))
    np.testing.assert_allclose(covariance.along(rows), np.diag(rows @ dense @ rows.T), rtol=1e-12)


def test_one_weight_and_one_label_by_hand():
    """Precision 2 + 3 * 4 = 14, shift 1 + 2 * 5 = 11."""
    design, sites = np.array([[2.0]]), Sites(np.array([2.0, 3.0]), np.array([1.0, 5.0]))
    for backend in (Primal, Dual):
        found = backend(design).marginals(sites)
        np.testing.assert_allclose(found.mean, [11 / 14, 22 / 14], rtol=1e-14)
        np.testing.assert_allclose(found.var, [1 / 14, 4 / 14], rtol=1e-14)
        np.testing.assert_allclose(found.log_z, 0.5 * (np.log(2 * np.pi / 14) + 11**2 / 14), rtol=1e-14)


def test_log_z_is_the_integral_over_the_weights():
    """For one weight, by summing exp(shift'h - h' precision h / 2) on a fine grid."""
    rng = np.random.default_rng(3)
    design = rng.standard_normal((4, 1))
    sites = random_sites(design, rng, lowered_labels=1)
    w = np.linspace(-40, 40, 400001)
    h = np.concatenate([w[:, None], w[:, None] @ design.T], axis=1)
    exponent = h @ sites.shift - 0.5 * h**2 @ sites.precision
    integral = np.log(np.sum(np.exp(exponent - exponent.max())) * (w[1] - w[0])) + exponent.max()
    for backend in (Primal, Dual):
        np.testing.assert_allclose(backend(design).marginals(sites).log_z, integral, rtol=1e-9, atol=1e-10)


def test_all_weights_loose():
    """Every weight at or below zero, held by the labels alone: nothing typical is left to borrow from."""
    rng = np.random.default_rng(4)
    design = rng.standard_normal((12, 5))
    precision = np.concatenate([np.array([0.0, -0.01, 0.0, -0.02, 0.0]), np.ones(12)])
    sites = Sites(precision, rng.standard_normal(17))
    mean, covariance, log_z = dense_gaussian(design, sites)
    for backend in (Primal, Dual):
        found = backend(design).marginals(sites)
        np.testing.assert_allclose(found.mean[:5], mean, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(found.var[:5], np.diag(covariance), rtol=1e-8)
        np.testing.assert_allclose(found.log_z, log_z, rtol=1e-8)


@pytest.mark.parametrize("spread", [1e3, 1e6, 1e9])
def test_dual_holds_where_precisions_span_many_decades(spread):
    """At a sparse fixed point most weights are pinned down and a few are wide: tau spans decades."""
    rng = np.random.default_rng(5)
    design = rng.standard_normal((10, 40))
    precision = np.concatenate([np.geomspace(1.0, spread, 40), np.geomspace(1e-3, 1e3, 10)])
    sites = Sites(precision, rng.standard_normal(50) * np.sqrt(precision))
    mean, covariance, log_z = dense_gaussian(design, sites)
    found = Dual(design).marginals(sites)
    np.testing.assert_allclose(found.mean[:40], mean, rtol=1e-6, atol=1e-8 * np.abs(mean).max())
    np.testing.assert_allclose(found.var[:40], np.diag(covariance), rtol=1e-8)
    fields = np.einsum("ij,jk,ik->i", design, covariance, design)
    np.testing.assert_allclose(found.var[40:], fields, rtol=1e-7)
    np.testing.assert_allclose(found.log_z, log_z, rtol=1e-8)

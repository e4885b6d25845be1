import pickle

import numpy as np
import pytest

from dilutron.gaussian import Covariance, Dual, NotPositive, Primal, Sites, choose
from dilutron.single import Single, quick
from dilutron.tied import Tied
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


def test_more_weights_without_precision_than_labels_are_improper_and_cost_no_work(monkeypatch):
    design = np.random.default_rng(0).standard_normal((4, 9))
    sites = Sites(np.concatenate([np.full(5, -1e-9), np.ones(4), np.full(4, 1e9)]), np.zeros(13))
    assert np.linalg.eigvalsh(np.diag(sites.precision[:9]) + 1e9 * design.T @ design).min() < 0.0
    monkeypatch.setattr(Dual, "_half", None)
    with pytest.raises(NotPositive, match="more weights than labels"):
        Dual(design).marginals(sites)


def test_wide_covariances_share_the_design():
    design = np.random.default_rng(0).standard_normal((4, 9))
    sites = Sites(np.ones(13), np.zeros(13))
    assert Dual(design).covariance(sites).design is design


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


@pytest.mark.parametrize("backend", [Dual, Single])
@pytest.mark.parametrize("hard", [{}, {"lowered_weights": 3, "lowered_labels": 2, "silent": 1}])
def test_a_part_knows_of_its_weights_and_all_labels_what_the_whole_does(backend, hard):
    rng = np.random.default_rng(3)
    design = rng.standard_normal((20, 90))
    sites = random_sites(design, rng, **hard)
    which = np.union1d(np.flatnonzero(sites.precision[:90] < 0.0), rng.choice(90, 10, replace=False))
    chosen = np.concatenate([which, np.arange(90, 110)])
    other = np.setdiff1d(np.arange(90), which)
    gaussian, tol = backend(design), 1e-8 if backend is Dual else 1e-3
    whole = Dual(design).marginals(sites)
    part = gaussian.part(which, sites).marginals(Sites(sites.precision[chosen], sites.shift[chosen]))
    np.testing.assert_allclose(part.mean, whole.mean[chosen], rtol=tol, atol=tol)
    np.testing.assert_allclose(part.var, whole.var[chosen], rtol=tol)
    np.testing.assert_allclose(part.means_at(sites.shift[chosen]), part.mean, rtol=1e-12)
    precision, shift = sites.precision[other], sites.shift[other]
    rest = 0.5 * np.sum(np.log(2.0 * np.pi) - np.log(precision) + shift**2 / precision)
    assert part.log_z + rest == pytest.approx(whole.log_z, abs=10 * tol)


@pytest.mark.parametrize("backend", [Dual, Single])
def test_after_a_part_the_whole_is_still_what_its_sites_say(backend):
    """Whether the weights beside the part are as they were or not."""
    rng = np.random.default_rng(4)
    design = rng.standard_normal((20, 90))
    which, gaussian = np.arange(5, 15), backend(design)
    for changed in (which, np.arange(90)):
        sites = random_sites(design, rng)
        gaussian.part(which, sites)
        sites.precision[changed] *= rng.uniform(1.0, 2.0, changed.size)
        found, exact = gaussian.marginals(sites), Dual(design).marginals(sites)
        np.testing.assert_allclose(found.mean, exact.mean, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(found.var, exact.var, rtol=1e-3)


def test_no_part_of_a_tall_or_tied_design_is_cheaper():
    sites = Sites(np.ones(5), np.ones(5))
    assert Primal(np.ones((3, 2))).part(np.arange(1), sites) is None
    assert Tied(np.ones((3, 2))).part(np.arange(1), sites) is None


@pytest.mark.parametrize("backend", [Dual, Single])
def test_a_part_travels_and_has_parts(backend):
    rng = np.random.default_rng(7)
    design = rng.standard_normal((20, 90))
    sites = random_sites(design, rng)
    outer, inner = np.arange(30), np.arange(5, 15)
    part = backend(design).part(outer, sites)
    chosen = np.concatenate([outer, np.arange(90, 110)])
    some = Sites(sites.precision[chosen], sites.shift[chosen])
    whole = Dual(design).marginals(sites)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(part)).marginals(some).mean, whole.mean[chosen], atol=1e-4)
    np.testing.assert_allclose(quick(part).marginals(some).mean, whole.mean[chosen], atol=1e-3)
    fewer = np.concatenate([inner, np.arange(90, 110)])
    smaller = part.part(inner, some).marginals(Sites(sites.precision[fewer], sites.shift[fewer]))
    np.testing.assert_allclose(smaller.mean, whole.mean[fewer], atol=1e-4)
    np.testing.assert_allclose(smaller.var, whole.var[fewer], rtol=1e-4)
    var = 1.0 / sites.precision[:90]
    np.testing.assert_allclose(part.field_var(var[:30]), Dual(design).field_var(var), rtol=1e-5)

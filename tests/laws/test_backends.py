"""The backends give the same numbers, and those of a plain inversion."""

import tracemalloc

import numpy as np
import pytest

from dilutron.gaussian import Dual, NotPositive, Primal, Sites
from tests.laws.lists import BACKENDS
from tests.problems import dense_gaussian, random_sites

SHAPES = [(6, 15), (10, 10), (25, 8), (1, 7), (7, 1), (1, 1), (2, 40), (40, 2)]
KINDS = {
    "positive": {},
    "negative weights": {"lowered_weights": 2},
    "faint weights": {"faint": 2},
    "silent labels": {"silent": 3},
    "all labels silent": {"silent": 1000},
    "negative labels": {"lowered_labels": 2},
    "everything": {"lowered_weights": 2, "faint": 1, "silent": 4, "lowered_labels": 2},
}


def make(shape, kind, seed=0):
    rng = np.random.default_rng([seed, *shape])
    design = rng.standard_normal(shape)
    wanted = dict(KINDS[kind])
    if wanted.get("faint"):  # each faint weight needs a label that speaks; the faint are the fewer, as in any EP run
        wanted["faint"] = min(wanted["faint"], max(shape[0] - wanted.get("silent", 0), 0), (shape[1] - 1) // 2)
    return design, random_sites(design, rng, **wanted)


def arrays(*values):
    return [part for value in values for part in value if isinstance(part, np.ndarray | float)]


def gap(a, b):
    """Largest difference, relative to the largest entry."""
    return np.max(np.abs(a - b)) / np.max(np.abs(b))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_marginals_are_those_of_a_plain_inversion(backend, kind, shape):
    design, sites = make(shape, kind)
    mean, covariance, log_z = dense_gaussian(design, sites)
    found = backend(design).marginals(sites)
    assert gap(found.mean, np.concatenate([mean, design @ mean])) < 1e-8
    var = np.concatenate([np.diag(covariance), np.einsum("ij,jk,ik->i", design, covariance, design)])
    np.testing.assert_allclose(found.var, var, rtol=1e-8)
    np.testing.assert_allclose(found.log_z, log_z, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_means_at_other_shifts_are_those_of_a_new_factorisation(backend, kind, shape):
    design, sites = make(shape, kind)
    means_at = backend(design).marginals(sites).means_at
    if means_at is None:
        return  # a backend need not have them
    other = Sites(sites.precision, np.random.default_rng(2).standard_normal(sites.shift.size))
    assert gap(means_at(other.shift), backend(design).marginals(other).mean) < 1e-9


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_covariance_is_that_of_a_plain_inversion(backend, kind, shape):
    design, sites = make(shape, kind)
    _, covariance, _ = dense_gaussian(design, sites)
    found = backend(design).covariance(sites)
    assert gap(found.dense(), covariance) < 1e-8
    assert gap(found.alone().dense(), covariance) < 1e-8
    assert found.alone().design is None
    rows = np.random.default_rng(1).standard_normal((5, shape[1]))
    np.testing.assert_allclose(found.along(rows), np.einsum("ij,jk,ik->i", rows, covariance, rows), rtol=1e-7)
    np.testing.assert_allclose(
        backend(design).marginals(sites).var[: shape[1]], found.along(np.eye(shape[1])), rtol=1e-8
    )


@pytest.mark.parametrize("seed", range(12))
def test_primal_is_dual_on_larger_problems(seed):
    rng = np.random.default_rng(seed)
    shape = [(30, 90), (60, 60), (90, 30)][seed % 3]
    design = rng.standard_normal(shape)
    sites = random_sites(design, rng, lowered_weights=8, faint=4, silent=8, lowered_labels=4)
    assert np.sum(sites.precision[: shape[1]] < 0) >= 3, "some weights are negative"
    assert np.sum(sites.precision[shape[1] :] < 0) >= 1, "some labels are negative"
    one, other = Primal(design), Dual(design)
    a, b = one.marginals(sites), other.marginals(sites)
    assert gap(b.mean, a.mean) < 1e-8
    np.testing.assert_allclose(b.var, a.var, rtol=1e-8)
    np.testing.assert_allclose(b.log_z, a.log_z, rtol=1e-8)
    assert gap(other.covariance(sites).dense(), one.covariance(sites).dense()) < 1e-8


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_do_not_matter(scale):
    """Weights in other units, as with a slab of lam = 1e4 and beyond."""
    design, sites = make((12, 30), "everything")
    n = design.shape[1]
    unit = np.concatenate([np.full(n, scale), np.ones(design.shape[0])])
    rescaled = Sites(sites.precision / unit**2, sites.shift / unit)
    for backend in BACKENDS:
        a, b = backend(design).marginals(sites), backend(design / scale).marginals(rescaled)
        np.testing.assert_allclose(b.mean / unit, a.mean, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(b.var / unit**2, a.var, rtol=1e-8)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_improper_gaussian_is_refused(backend, shape):
    design, sites = make(shape, "positive")
    n_weights = shape[1]
    _, covariance, _ = dense_gaussian(design, sites)
    precision = sites.precision.copy()
    precision[0] -= 1.2 / covariance[0, 0]  # a weight too negative
    for call in (backend(design).marginals, backend(design).covariance):
        with pytest.raises(NotPositive):
            call(Sites(precision, sites.shift))
    precision = sites.precision.copy()
    precision[n_weights] -= 1.2 / (design[0] @ covariance @ design[0])  # a label too negative
    for call in (backend(design).marginals, backend(design).covariance):
        with pytest.raises(NotPositive):
            call(Sites(precision, sites.shift))
    with pytest.raises(NotPositive):
        backend(design).marginals(Sites(-np.abs(sites.precision), sites.shift))


def test_both_backends_draw_the_line_at_the_same_place():
    """A weight lowered from safely inside to safely outside the proper range."""
    for shape in [(6, 15), (15, 6)]:
        design, sites = make(shape, "negative weights")
        _, covariance, _ = dense_gaussian(design, sites)
        for share, proper in ((0.5, True), (0.9, True), (0.999, True), (1.001, False), (2.0, False)):
            precision = sites.precision.copy()
            precision[3] -= share / covariance[3, 3]
            for backend in BACKENDS:
                if proper:
                    backend(design).marginals(Sites(precision, sites.shift))
                else:
                    with pytest.raises(NotPositive):
                        backend(design).marginals(Sites(precision, sites.shift))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(6, 15), (15, 6)], ids=str)
def test_workspaces_leak_nothing_from_call_to_call(backend, shape):
    """A, B, an improper C, A again: the same bits, and what A returned first is not written over."""
    design, a = make(shape, "everything")
    _, b = make(shape, "positive", seed=1)
    improper = Sites(-np.abs(a.precision), a.shift)
    kept_design, gaussian = design.copy(), backend(design)
    first, cover = gaussian.marginals(a), gaussian.covariance(a)
    copies = [np.copy(x) for x in arrays(first, cover)]
    gaussian.marginals(b)
    gaussian.covariance(b)
    with pytest.raises(NotPositive):
        gaussian.marginals(improper)
    for kept, now, again in zip(
        copies, arrays(first, cover), arrays(gaussian.marginals(a), gaussian.covariance(a)), strict=True
    ):
        np.testing.assert_array_equal(now, kept)
        np.testing.assert_array_equal(again, kept)
    np.testing.assert_array_equal(design, kept_design)
    np.testing.assert_array_equal(make(shape, "everything")[1].precision, a.precision)


@pytest.mark.parametrize("backend", BACKENDS)
def test_field_var_is_that_of_independent_weights(backend):
    design, _ = make((5, 9), "positive")
    var = np.random.default_rng(2).uniform(0.1, 3.0, 9)
    np.testing.assert_allclose(backend(design).field_var(var), np.diag(design @ np.diag(var) @ design.T), rtol=1e-12)


def test_dual_forms_no_square_of_the_weights():
    rng = np.random.default_rng(0)
    n_labels, n_weights = 20, 5000
    design = rng.standard_normal((n_labels, n_weights))
    precision = np.concatenate([rng.uniform(0.5, 2, n_weights), rng.uniform(0.1, 1, n_labels)])
    precision[:5] = -1e-3
    sites = Sites(precision, rng.standard_normal(n_weights + n_labels))
    tracemalloc.start()
    try:
        gaussian = Dual(design)
        gaussian.marginals(sites)
        gaussian.covariance(sites)
        gaussian.field_var(np.ones(n_weights))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6 * design.nbytes, f"peak {peak / design.nbytes:.1f} times X"
    assert design.nbytes * 6 < n_weights**2 * 8 / 20, "the bound would not notice a square otherwise"

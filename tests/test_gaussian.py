import pickle

import numpy as np
import pytest

from dilutron import EPOptions, Problem, RobustProbit, SpikeSlab, Status, solve, student
from dilutron.gaussian import Covariance, Dual, NotPositive, Primal, Sites, choose
from dilutron.single import LOUD, Single, quick
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


TIED_SHAPES = [(12, 5), (5, 12), (6, 6), (1, 4), (4, 1)]


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
@pytest.mark.parametrize("shape", TIED_SHAPES, ids=str)
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
@pytest.mark.parametrize("shape", TIED_SHAPES, ids=str)
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


def soft_sites(rng, n_labels, n_weights, label):
    """Weights of which most are nearly sure to be absent, and labels of this precision in units of the fields'."""
    weight = np.concatenate([rng.uniform(0.5, 2.0, 5), rng.uniform(1e2, 1e3, n_weights - 5)])
    power = np.sum(1.0 / weight)
    precision = np.concatenate([weight, label / power * rng.uniform(0.5, 1.0, n_labels)])
    return Sites(precision, rng.standard_normal(n_weights + n_labels))


@pytest.mark.parametrize("label", [0.1, 10.0, 1e6])
def test_single_precision_has_four_digits_and_leaves_hard_labels_to_double(label):
    rng = np.random.default_rng(0)
    design = rng.standard_normal((40, 300))
    sites = soft_sites(rng, 40, 300, label)
    rough, exact = Single(design).marginals(sites), Dual(design).marginals(sites)
    unit = np.sqrt(exact.var)
    np.testing.assert_allclose(rough.mean / unit, exact.mean / unit, atol=1e-4)
    np.testing.assert_allclose(rough.var, exact.var, rtol=1e-4)
    assert (rough.log_z == exact.log_z) == (label > LOUD)


def test_what_single_precision_led_to_is_looked_at_in_double(monkeypatch):
    """The moments of an answer match in double precision, to the tolerance asked for."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 300))
    problem = Problem.from_arrays(X, np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0))
    called = []
    honest = Single.marginals
    monkeypatch.setattr(Single, "marginals", lambda self, sites: called.append(1) or honest(self, sites))
    loose = solve(problem, SpikeSlab(0.01), RobustProbit(0.95, 1.0), options=EPOptions(tol=1e-3))
    assert called
    assert loose.status is Status.CONVERGED
    exact = Dual(problem.signed()).marginals(loose.sites)
    np.testing.assert_allclose(loose.mean, exact.mean[:300], atol=1e-3)
    called.clear()
    solve(problem, SpikeSlab(0.01), RobustProbit(0.95, 1.0), options=EPOptions(tol=1e-6))
    assert not called, "tight tolerances are beyond single precision"


def test_entries_without_a_square_in_single_precision_stay_in_double():
    assert isinstance(quick(Dual(np.ones((2, 3)))), Single)
    huge = Dual(np.full((2, 3), 1e30))
    assert quick(huge) is huge
    tall = Primal(np.ones((3, 2)))
    assert quick(tall) is tall


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


def test_an_answer_in_single_precision_that_is_not_exact_enough_is_made_in_double(monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 300))
    problem = Problem.from_arrays(X, np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0))
    honest = Single.marginals

    def dishonest(self, sites):
        found = honest(self, sites)
        return found._replace(var=found.var * 1.001, means_at=None)

    looked, again = [], student._looked_at_again
    monkeypatch.setattr(Single, "marginals", dishonest)
    monkeypatch.setattr(student, "_looked_at_again", lambda *a: looked.append(1) or again(*a))
    loose = solve(problem, SpikeSlab(0.01), RobustProbit(0.95, 1.0), options=EPOptions(tol=1e-2))
    assert loose.status is Status.CONVERGED
    tilted = Dual(problem.signed()).marginals(loose.sites)
    np.testing.assert_allclose(loose.std**2, tilted.var[:300], rtol=2e-2)
    assert looked, "the discrepancy was seen"


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

from dataclasses import replace

import numpy as np
import pytest

from dilutron import Normal, Probit, RobustProbit, SpikeSlab, Status, Theta, ThetaMixture
from dilutron.ep import all_copies, flat_sites, log_evidence, match, mismatches, prior_scale, tilt, visit
from dilutron.gaussian import Marginals, Primal, Sites, choose
from dilutron.ladder import Rung, settle
from dilutron.priors import Gaussians, Tilted
from dilutron.stepping import Pace, init, step
from tests.problems import dense_gaussian, pair_of_blocks, random_sites, teacher_problem


def at_rest(weights, labels, tol=1e-11, **kwargs):
    problem, _ = teacher_problem(**kwargs)
    gaussian = choose(problem.signed())
    blocks = pair_of_blocks(weights, labels, gaussian.shape)
    settled = settle(gaussian, blocks, tol=tol, max_iter=2000)
    assert settled.status is Status.CONVERGED
    return gaussian, blocks, settled.state


def test_a_cavity_is_the_gaussian_without_that_site():
    """Against removing each site and inverting again, Eqs. (26) to (29)."""
    rng = np.random.default_rng(0)
    design = rng.standard_normal((7, 4))
    sites = random_sites(design, rng, silent=2)
    blocks = pair_of_blocks(Normal(1.0), Probit(1.0), design.shape)
    seen = visit(sites, Primal(design).marginals(sites), blocks, np.ones(11))
    cavity, rows = seen.cavity, np.concatenate([np.eye(4), design])
    assert seen.invalid == 0
    for i, row in enumerate(rows):
        without = Sites(*(np.where(np.arange(11) == i, 0.0, part) for part in sites))
        mean, covariance, _ = dense_gaussian(design, without)
        np.testing.assert_allclose(cavity.mean[i], row @ mean, rtol=1e-8)
        np.testing.assert_allclose(cavity.var[i], row @ covariance @ row, rtol=1e-8)


def test_an_invalid_cavity_is_counted_and_is_no_fixed_point():
    """The second label's site is more precise than its marginal: what is left is no Gaussian that a label can bear."""
    blocks = pair_of_blocks(Normal(1.0), Theta(), (2, 1))
    marginals = Marginals(np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.5, 0.5]), 0.0)
    seen = visit(Sites(np.array([1.0, 1.0, 2.5]), np.zeros(3)), marginals, blocks, np.ones(3))
    assert seen.invalid == 1
    assert seen.mismatch >= 1.0
    assert np.all(np.isfinite(seen.cavity))
    assert np.all(np.isfinite(seen.target))


def test_match_gives_the_tilted_moments_back():
    rng = np.random.default_rng(1)
    cavity = Gaussians(rng.standard_normal(6), rng.uniform(0.5, 2, 6))
    tilted = Tilted(np.zeros(6), rng.standard_normal(6), cavity.var * np.array([0.1, 0.5, 0.9, 1.0, 1.5, 3.0]))
    sites = match(tilted, cavity)
    assert np.sum(sites.precision < 0) == 2, "a variance that grew asks for a negative precision, and gets it"
    precision = sites.precision + 1 / cavity.var
    np.testing.assert_allclose(1 / precision, tilted.var, rtol=1e-12)
    np.testing.assert_allclose((sites.shift + cavity.mean / cavity.var) / precision, tilted.mean, rtol=1e-12)


def test_tilt_gives_every_block_its_own_prior():
    cavity = Gaussians(np.linspace(-1, 1, 5), np.full(5, 0.7))
    blocks = pair_of_blocks(SpikeSlab(0.3), Theta(), (2, 3))
    tilted = tilt(cavity, blocks)
    for part, prior in ((slice(0, 3), SpikeSlab(0.3)), (slice(3, 5), Theta())):
        alone = prior.moments(Gaussians(cavity.mean[part], cavity.var[part]))
        for a, b in zip(tilted, alone, strict=True):
            np.testing.assert_array_equal(a[part], b)


def test_the_flat_start_is_the_prior():
    problem, _ = teacher_problem(6, 2.0)
    gaussian = choose(problem.signed())
    blocks = pair_of_blocks(SpikeSlab(0.25, np.full(6, 2.0)), Probit(1.0), gaussian.shape)
    sites = flat_sites(blocks)
    np.testing.assert_array_equal(sites.precision, np.r_[np.full(6, 8.0), np.zeros(12)])
    np.testing.assert_array_equal(sites.shift, 0.0)
    scale = prior_scale(blocks, gaussian)
    np.testing.assert_allclose(scale[:6] ** 2, 1 / 8)
    np.testing.assert_allclose(scale[6:] ** 2, np.sum(problem.X**2, axis=1) / 8)


@pytest.mark.parametrize("labels", [Theta(), ThetaMixture(0.9), Probit(2.0)])
@pytest.mark.parametrize("alpha", [0.5, 3.0])
def test_at_a_fixed_point_the_moments_match(labels, alpha):
    """Recomputed from the sites alone, by plain inversion."""
    gaussian, blocks, state = at_rest(SpikeSlab(0.25), labels, n_weights=20, alpha=alpha, eta=labels.eta)
    sites = state.here.sites
    mean, covariance, log_z = dense_gaussian(gaussian.design, sites)
    rows = np.concatenate([np.eye(20), gaussian.design])
    mean, var = rows @ mean, np.einsum("ij,jk,ik->i", rows, covariance, rows)
    precision, shift = 1.0 / var - sites.precision, mean / var - sites.shift
    assert np.all(precision > 0)
    cavity = Gaussians(shift / precision, 1.0 / precision)
    tilted = tilt(cavity, blocks)
    np.testing.assert_allclose(tilted.mean, mean, atol=1e-8)
    np.testing.assert_allclose(tilted.var, var, rtol=1e-7)
    site = 0.5 * (np.log(var / cavity.var) + mean**2 / var - cavity.mean**2 / cavity.var)
    np.testing.assert_allclose(log_evidence(state.here), log_z + np.sum(tilted.log_z - site), rtol=1e-8)


def test_negative_precisions_are_kept():
    """Clipping them would move the fixed point; they are present at most fixed points of sparse problems."""
    _, _, state = at_rest(SpikeSlab(0.25), Theta(), n_weights=40, alpha=2.0)
    assert np.any(state.here.sites.precision[:40] < 0)


def test_an_improper_start_falls_back_to_the_flat_one():
    problem, _ = teacher_problem(10, 2.0)
    gaussian = choose(problem.signed())
    blocks = pair_of_blocks(SpikeSlab(0.25), Theta(), gaussian.shape)
    improper = Sites(np.full(30, -5.0), np.zeros(30))
    state = init(blocks, gaussian, Pace(), improper)
    np.testing.assert_array_equal(state.here.sites.precision, flat_sites(blocks).precision)


def test_a_failed_factorisation_is_counted_and_retreated_from():
    problem, _ = teacher_problem(10, 2.0)
    gaussian = choose(problem.signed())
    state = init(pair_of_blocks(Normal(1.0), Probit(1.0), gaussian.shape), gaussian, Pace())
    bad = state._replace(proposal=Sites(np.full(30, -5.0), np.zeros(30)))
    after = step(bad, gaussian, Pace())
    assert after.failures == 1
    assert after.here is state.here
    assert np.all(np.abs(after.proposal.precision - state.here.sites.precision) < 6.0)
    for _ in range(100):
        after = step(after, gaussian, Pace())
    assert after.error < 1e-8
    assert after.failures >= 1


def wide_problem(seed=0):
    problem, _ = teacher_problem(n_weights=120, alpha=0.4, eta=0.95, seed=seed)
    gaussian = choose(problem.signed())
    return gaussian, pair_of_blocks(SpikeSlab(0.1), RobustProbit(0.95, beta=1.0), gaussian.shape)


def test_means_moved_alone_agree_and_leave_precisions_and_evidence_of_that_gaussian():
    """Cheap moves between two factorisations: the Gaussian that they end at is that of their own sites."""
    gaussian, blocks = wide_problem()
    plain, moved = (init(blocks, gaussian, Pace(means=limit)).here for limit in (0, 30))
    scale = prior_scale(blocks, gaussian)
    before, after = (mismatches(here.tilted, here.marginals, scale).max(axis=1) for here in (plain, moved))
    assert after[0] < 0.1 * before[1] < before[0]
    np.testing.assert_array_equal(moved.sites.precision, plain.sites.precision)
    again = gaussian.marginals(moved.sites)
    np.testing.assert_allclose(moved.marginals.mean, again.mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(moved.marginals.log_z, again.log_z, rtol=1e-12)


def test_moving_means_alone_keeps_the_fixed_point_and_spares_factorisations():
    rests = []
    for limit in (0, 8):
        gaussian, blocks = wide_problem(seed=1)
        rung = Rung("means", Pace(means=limit), (), 80)
        rests.append(settle(gaussian, blocks, tol=1e-9, max_iter=500, ladder=(rung,)))
        assert rests[-1].status is Status.CONVERGED
    for without, with_them in zip(rests[0].state.here.tilted, rests[1].state.here.tilted, strict=True):
        np.testing.assert_allclose(without, with_them, rtol=1e-6, atol=1e-8)
    assert len(rests[1].trace) < len(rests[0].trace)


def test_means_of_labels_that_count_twice_are_moved_as_those_of_repeated_rows():
    gaussian, blocks = wide_problem(seed=2)
    twice = (blocks[0], blocks[1]._replace(prior=replace(blocks[1].prior, copies=2.0)))
    here = init(twice, gaussian, Pace(means=10)).here
    again = gaussian.marginals(all_copies(here.sites, twice))
    np.testing.assert_allclose(here.marginals.mean, again.mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(here.marginals.log_z, again.log_z, rtol=1e-12)

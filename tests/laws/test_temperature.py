"""Finite temperature: noise integrated into the label factor gives the fixed points of Appendix A."""

import numpy as np
import pytest

from dilutron import EPOptions, RobustProbit, SpikeSlab, Status, Theta, ThetaMixture, solve
from dilutron.priors import Gaussians
from tests.problems import teacher_problem


def appendix_a(design, weights, labels, beta, *, tol=1e-10, damping=0.7):
    """EP in N + M dimensions as printed: precision beta E^-1 + D, Eq. (A4), with a hard factor on y.

    Returns tilted means and variances, cavities, and the log evidence, by Eq. (B1) with the (N+M)-dimensional
    Gaussian of (B2) and the factor (beta / 2 pi)^(M/2) that makes exp(-beta E / 2) a density in y.
    """
    n_labels, n_weights = design.shape
    energy = np.block([[design.T @ design, -design.T], [-design, np.eye(n_labels)]])  # Eq. (A2)
    precision = np.concatenate([np.full(n_weights, weights.lam / weights.rho), np.zeros(n_labels)])
    shift = np.zeros(n_weights + n_labels)
    for _ in range(5000):
        covariance = np.linalg.inv(beta * energy + np.diag(precision))  # Eq. (A4)
        mean, var = covariance @ shift, np.diag(covariance)  # Eq. (A5)
        cavity_precision = np.maximum(1.0 / var - precision, 1e-12)
        cavity = Gaussians((mean / var - shift) / cavity_precision, 1.0 / cavity_precision)
        parts = [
            prior.moments(Gaussians(cavity.mean[where], cavity.var[where]))
            for prior, where in ((weights, slice(0, n_weights)), (labels, slice(n_weights, None)))
        ]
        tilted_mean, tilted_var = (np.concatenate([getattr(p, n) for p in parts]) for n in ("mean", "var"))
        off = max(np.max(np.abs(tilted_mean - mean)), np.max(np.abs(tilted_var / var - 1.0)))
        if off < tol:
            log_q = 0.5 * (np.linalg.slogdet(2 * np.pi * covariance)[1] + shift @ mean)
            log_q += 0.5 * n_labels * np.log(beta / (2 * np.pi))
            log_tilted = np.concatenate([p.log_z for p in parts])
            site = 0.5 * (np.log(var / cavity.var) + mean**2 / var - cavity.mean**2 / cavity.var)
            return Gaussians(tilted_mean, tilted_var), cavity, log_q + np.sum(log_tilted - site)
        precision = damping * precision + (1 - damping) * (1.0 / tilted_var - cavity_precision)
        shift = damping * shift + (1 - damping) * (tilted_mean / tilted_var - cavity.mean * cavity_precision)
    raise AssertionError("the slow twin did not converge")


@pytest.mark.parametrize("beta", [0.5, 3.0, 20.0])
@pytest.mark.parametrize("eta", [1.0, 0.9])
@pytest.mark.parametrize("shape", [(12, 1.5), (16, 0.6)], ids=["tall", "wide"])
def test_the_noise_may_be_integrated_out(beta, eta, shape):
    problem, _ = teacher_problem(*shape, seed=6, eta=eta)
    weights = SpikeSlab(0.3, 0.8)
    hard = Theta() if eta == 1.0 else ThetaMixture(eta)
    found, cavity, log_z = appendix_a(problem.signed(), weights, hard, beta)
    posterior = solve(problem, weights, RobustProbit(eta, beta), options=EPOptions(tol=1e-9))
    assert posterior.status is Status.CONVERGED
    n = shape[0]
    np.testing.assert_allclose(posterior.mean, found.mean[:n], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(posterior.std**2, found.var[:n], rtol=1e-6)
    inclusion = weights.inclusion(Gaussians(cavity.mean[:n], cavity.var[:n]))
    np.testing.assert_allclose(posterior.inclusion, inclusion, rtol=1e-6)
    flip = hard.flip(Gaussians(cavity.mean[n:], cavity.var[n:]))
    np.testing.assert_allclose(posterior.flip, flip, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(posterior.log_evidence, log_z, rtol=1e-8)


def test_cooling_leads_to_zero_temperature():
    problem, _ = teacher_problem(30, 2.0, seed=2, eta=0.9)
    cold = solve(problem, SpikeSlab(0.25), ThetaMixture(0.9), options=EPOptions(tol=1e-9))
    gaps = []
    for beta in (1.0, 1e2, 1e4, 1e6):
        warm = solve(problem, SpikeSlab(0.25), RobustProbit(0.9, beta), options=EPOptions(tol=1e-9))
        assert warm.status is Status.CONVERGED
        gaps.append(np.max(np.abs(warm.mean - cold.mean)))
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-3

"""Where EP is exact it is exact; where it approximates, small problems say how well."""

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import multivariate_normal

from dilutron import EPOptions, Normal, Probit, Problem, RobustProbit, SpikeSlab, Status, Theta, ThetaMixture, solve
from dilutron.ep import Block, log_evidence
from dilutron.gaussian import choose
from dilutron.ladder import LADDER, settle
from dilutron.priors import Gaussians, Prior, Tilted
from tests.laws.lists import BACKENDS
from tests.problems import pair_of_blocks


@dataclass(frozen=True)
class Measured(Prior):
    """N(h; at, 1/precision): a variable seen directly, to give the Gaussian case a mean that is not zero."""

    at: np.ndarray
    precision: float = 2.0

    def moments(self, cavity):
        var = 1.0 / (1.0 / cavity.var + self.precision)
        total = cavity.var + 1.0 / self.precision
        log_z = -0.5 * (np.log(2 * np.pi * total) + (cavity.mean - self.at) ** 2 / total)
        return Tilted(log_z, var * (cavity.mean / cavity.var + self.precision * self.at), var)

    def flat_precision(self):
        return self.precision


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(5, 8), (8, 5), (1, 1), (4, 4)], ids=str)
def test_gaussian_priors_are_exact_in_one_pass(backend, shape):
    rng = np.random.default_rng([1, *shape])
    n_labels, n_weights = shape
    design, at = rng.standard_normal(shape), rng.standard_normal(n_labels)
    precision = rng.uniform(0.5, 2.0, n_weights)
    blocks = pair_of_blocks(Normal(precision), Measured(at), shape)
    undamped = (LADDER[0]._replace(pace=LADDER[0].pace._replace(damping=0.0)),)
    settled = settle(backend(design), blocks, tol=1e-10, max_iter=10, ladder=undamped)
    assert settled.status is Status.CONVERGED
    assert len(settled.trace) == 2, "the start, and one pass"
    covariance = np.linalg.inv(np.diag(precision) + 2.0 * design.T @ design)
    here = settled.state.here
    np.testing.assert_allclose(here.tilted.mean[:n_weights], covariance @ design.T @ (2.0 * at), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(here.tilted.var[:n_weights], np.diag(covariance), rtol=1e-9)
    total = design @ np.diag(1 / precision) @ design.T + np.eye(n_labels) / 2.0
    exact = multivariate_normal(np.zeros(n_labels), total).logpdf(at)
    np.testing.assert_allclose(log_evidence(here), exact, rtol=1e-10)


@pytest.mark.parametrize("labels", [Theta(), ThetaMixture(0.8), Probit(2.0), RobustProbit(0.9, 3.0)])
@pytest.mark.parametrize("n_weights", [1, 3])
def test_one_label_on_normal_weights_is_exact(labels, n_weights):
    """One factor is not Gaussian, so the tilted law of its field is the truth; the weights follow linearly."""
    rng = np.random.default_rng(n_weights)
    row = rng.standard_normal((1, n_weights))
    problem = Problem.from_arrays(row, [1], strict=False)
    posterior = solve(problem, Normal(0.5), labels, options=EPOptions(tol=1e-11))
    assert posterior.status is Status.CONVERGED
    field_var = 2.0 * (row @ row.T).item()
    truth = labels.moments(Gaussians(np.zeros(1), np.array([field_var])))
    np.testing.assert_allclose(posterior.log_evidence, np.log(0.5), rtol=1e-10)
    gain = 2.0 * row[0] / field_var
    np.testing.assert_allclose(posterior.mean, gain * truth.mean, rtol=1e-8)
    np.testing.assert_allclose(posterior.std**2, 2.0 + gain**2 * (truth.var - field_var), rtol=1e-8)


def test_one_sparse_weight_among_gaussian_factors_is_exact():
    """Spike and slab on the first weight only: the posterior is a mixture of two Gaussians."""
    rng = np.random.default_rng(7)
    design, at = rng.standard_normal((4, 3)), rng.standard_normal(4)
    rho, lam, wide = 0.3, 0.7, 1.3
    blocks = (
        Block(slice(0, 1), SpikeSlab(rho, lam)),
        Block(slice(1, 3), Normal(wide)),
        Block(slice(3, 7), Measured(at)),
    )
    settled = settle(choose(design), blocks, tol=1e-11, max_iter=500)
    assert settled.status is Status.CONVERGED
    shares, means, powers = [], [], []
    for slab_var, share in ((0.0, 1 - rho), (1 / lam, rho)):
        prior = np.diag([slab_var, 1 / wide, 1 / wide])
        total = design @ prior @ design.T + np.eye(4) / 2.0
        shares.append(share * multivariate_normal(np.zeros(4), total).pdf(at))
        gain = prior @ design.T @ np.linalg.inv(total)
        means.append(gain @ at)
        powers.append(np.diag(prior - gain @ design @ prior) + means[-1] ** 2)
    z = sum(shares)
    here = settled.state.here
    np.testing.assert_allclose(log_evidence(here), np.log(z), rtol=1e-9)
    mean = sum(s / z * m for s, m in zip(shares, means, strict=True))
    np.testing.assert_allclose(here.tilted.mean[:3], mean, rtol=1e-8)
    power = sum(s / z * m for s, m in zip(shares, powers, strict=True))
    np.testing.assert_allclose(here.tilted.var[:3], power - mean**2, rtol=1e-7)
    present = blocks[0].prior.inclusion(Gaussians(here.cavity.mean[:1], here.cavity.var[:1]))
    np.testing.assert_allclose(present, shares[1] / z, rtol=1e-8)


def enumerated(design, rho, lam, labels):
    """Exact log evidence, means and inclusion: every choice of features, Gauss-Hermite over those present."""
    n_weights = design.shape[1]
    nodes, shares = np.polynomial.hermite_e.hermegauss(64)
    shares = shares / shares.sum()
    z, one, present = 0.0, np.zeros(n_weights), np.zeros(n_weights)
    for support in product((False, True), repeat=n_weights):
        k = sum(support)
        grid = np.zeros((64**k, n_weights))
        grid[:, np.array(support)] = np.stack(np.meshgrid(*[nodes] * k, indexing="ij"), -1).reshape(-1, k) if k else 0
        weight = np.ones(1)
        for _ in range(k):
            weight = np.outer(weight, shares).ravel()
        w = grid / np.sqrt(lam)
        right = ndtr(np.sqrt(labels.beta) * w @ design.T)
        mass = weight * np.prod(labels.eta * right + (1 - labels.eta) * (1 - right), axis=1)
        mass = mass * rho**k * (1 - rho) ** (n_weights - k)
        z += mass.sum()
        one += mass @ w
        present += mass.sum() * np.array(support)
    return np.log(z), one / z, present / z


class Bound(NamedTuple):
    """How far EP may be off: log evidence in nats, means in slab sds, inclusion probabilities."""

    nats: float
    mean: float
    inclusion: float


LOUD = Bound(0.15, 0.05, 0.06)  # measured at most 0.130, 0.043, 0.054
FAINT = Bound(3e-5, 3e-4, 1e-5)  # measured at most 2.3e-5, 2.2e-4, 7.7e-6
FEW = {
    "probit": (Probit(1.0), LOUD),
    "robust probit": (RobustProbit(0.9, 2.0), LOUD),
    "hot probit": (Probit(2e-3), FAINT),
    "hot robust probit": (RobustProbit(0.7, 5e-3), FAINT),
}


@pytest.mark.parametrize("n_weights", [1, 2, 3])
@pytest.mark.parametrize("n_labels", [2, 6])
@pytest.mark.parametrize(("labels", "bound"), FEW.values(), ids=FEW.keys())
def test_few_weights_against_enumeration(n_weights, n_labels, labels, bound):
    """EP approximates here, worst for few loud labels on few weights, and better the less each factor says.

    The bounds are what was measured over these cases, with a little room. A wrong formula does not get near the bound
    for faint labels.
    """
    rng = np.random.default_rng([n_weights, n_labels])
    for rho, lam in ((0.3, 1.0), (0.7, 0.5)):
        X = rng.standard_normal((n_labels, n_weights))
        problem = Problem.from_arrays(X, np.where(rng.random(n_labels) < 0.7, 1, -1), strict=False)
        posterior = solve(problem, SpikeSlab(rho, lam), labels, options=EPOptions(tol=1e-9))
        assert posterior.status is Status.CONVERGED
        log_z, mean, present = enumerated(problem.signed(), rho, lam, labels)
        np.testing.assert_allclose(posterior.log_evidence, log_z, rtol=0, atol=bound.nats)
        np.testing.assert_allclose(posterior.mean, mean, rtol=0, atol=bound.mean / np.sqrt(lam))
        np.testing.assert_allclose(posterior.inclusion, present, rtol=0, atol=bound.inclusion)


def test_theta_in_the_plane():
    """Two dense weights, hard labels: the evidence is the angle of the cone over the full circle."""
    angles = np.linspace(0, 2 * np.pi, 720001)[:-1]
    circle = np.stack([np.cos(angles), np.sin(angles)])
    rng = np.random.default_rng(2)
    for _ in range(4):
        X = rng.standard_normal((4, 2))
        labels = np.where(X @ np.array([1.0, 0.3]) > 0, 1, -1)
        problem = Problem.from_arrays(X, labels, strict=False)
        share = np.mean(np.all(problem.signed() @ circle > 0, axis=0))
        posterior = solve(problem, Normal(1.0), Theta(), options=EPOptions(tol=1e-9))
        assert posterior.status is Status.CONVERGED
        np.testing.assert_allclose(posterior.log_evidence, np.log(share), atol=0.2)  # EP's error, measured: 0.136

"""The sampler that EP is judged by, against sums over all supports and quadrature over the weights."""

from itertools import product

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import ndtr

from benchmarks.gibbs import Model, by_ep, over_chains, sample

NODES, SHARES = hermegauss(40)


def exact(X, labels, model):
    """Inclusion, mean and flip probabilities: every support, and Gauss-Hermite quadrature over its weights."""
    n = X.shape[1]
    total, present, mean, flip = 0.0, np.zeros(n), np.zeros(n), np.zeros(len(X))
    for support in product((0.0, 1.0), repeat=n):
        size = int(sum(support))
        grid = np.zeros((NODES.size**size, n))
        grid[:, np.array(support) > 0.0] = np.array(list(product(NODES / np.sqrt(model.lam), repeat=size)))
        prior = np.array([np.prod(one) for one in product(SHARES / SHARES.sum(), repeat=size)])
        t = labels[:, None] * (X @ grid.T) * np.sqrt(model.beta)
        right, wrong = model.eta * ndtr(t), (1.0 - model.eta) * ndtr(-t)
        mass = model.rho**size * (1.0 - model.rho) ** (n - size) * prior * np.prod(right + wrong, axis=0)
        total += mass.sum()
        present += mass.sum() * np.array(support)
        mean += mass @ grid
        flip += (wrong / np.maximum(right + wrong, 1e-300)) @ mass  # eta = 1 may leave nothing
    return present / total, mean / total, flip / total


def drawn(n, m, seed, correlation=0.0):
    rng = np.random.default_rng(seed)
    X = np.sqrt(correlation) * rng.standard_normal((m, 1)) + np.sqrt(1.0 - correlation) * rng.standard_normal((m, n))
    return X, np.where(X[:, 0] + 0.5 * rng.standard_normal(m) > 0.0, 1.0, -1.0)


CASES = {
    "one weight": (1, 6, 0.0, Model()),
    "two": (2, 8, 0.0, Model(rho=0.4, lam=0.5, eta=0.9, beta=2.0)),
    "two, correlated": (2, 12, 0.9, Model(rho=0.3, eta=0.8)),
    "three": (3, 10, 0.5, Model(rho=0.5, lam=2.0, eta=1.0, beta=0.5)),
}


@pytest.mark.parametrize("name", CASES)
def test_gibbs_is_exact_up_to_its_monte_carlo_error(name):
    n, m, correlation, model = CASES[name]
    problems = [drawn(n, m, seed, correlation) for seed in range(4)]
    X, labels = (np.array(part) for part in zip(*problems, strict=True))
    chains = sample(X, labels, model, np.random.default_rng(5), sweeps=4000, burn=200, chains=8)
    assert chains.r_hat().max() < 1.02
    for k, problem in enumerate(problems):
        for found, truth in zip((chains.inclusion, chains.mean, chains.flip), exact(*problem, model), strict=True):
            mean, error = over_chains(found)
            assert np.all(np.abs(mean[k] - truth) < 5.0 * error[k] + 2e-3)
    assert over_chains(chains.inclusion)[1].mean() < 0.01  # so that the line above says something


def test_without_labels_that_speak_the_prior_comes_back():
    X = np.zeros((1, 5, 2))
    chains = sample(X, np.ones((1, 5)), Model(rho=0.3, eta=0.9), np.random.default_rng(6), sweeps=50, burn=0, chains=2)
    assert chains.inclusion == pytest.approx(0.3)
    assert chains.mean == pytest.approx(0.0)
    assert chains.flip == pytest.approx(0.1)


def test_ep_is_near_what_is_exact():
    X, labels = drawn(3, 20, 7)
    inclusion, mean, flip = exact(X, labels, Model())
    ep = by_ep(X, labels, Model())
    assert ep.inclusion_proba_ == pytest.approx(inclusion, abs=0.05)
    assert ep.coef_[0] == pytest.approx(mean, abs=0.05)
    assert ep.label_error_proba_ == pytest.approx(flip, abs=0.02)

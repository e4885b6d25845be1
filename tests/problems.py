"""Problems that several test files use."""

import numpy as np

from dilutron import Problem
from dilutron.data import lesson
from dilutron.ep import Block
from dilutron.gaussian import Sites


def teacher_problem(n_weights=40, alpha=2.0, seed=0, **kwargs):
    """A problem of the paper's protocol and what the teacher knows."""
    truth = lesson(n_weights, alpha, np.random.default_rng(seed), **kwargs)
    return Problem.from_arrays(truth.X, truth.labels), truth


def twins(seed):
    """Each of 25 columns has a twin that differs from it by a tenth; two of 40 labels or so are wrong."""
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((40, 25))
    X = np.hstack([half, half + 0.1 * rng.standard_normal(half.shape)])
    clean = np.sign(X[:, :4] @ rng.standard_normal(4))
    return Problem.from_arrays(X, np.where(rng.random(40) < 0.05, -clean, clean))


def pair_of_blocks(weights, labels, shape):
    """Weights and labels as the engine's blocks, for a design of this (M, N) shape."""
    n_labels, n_weights = shape
    return Block(slice(0, n_weights), weights), Block(slice(n_weights, n_weights + n_labels), labels)


def dense_gaussian(design, sites):
    """Mean and covariance of the weights and log normaliser, by plain inversion: the slow twin of the backends."""
    n_weights = design.shape[1]
    matrix = np.diag(sites.precision[:n_weights]) + design.T @ (sites.precision[n_weights:, None] * design)
    shift = sites.shift[:n_weights] + design.T @ sites.shift[n_weights:]
    covariance = np.linalg.inv(matrix)
    mean = covariance @ shift
    sign, log_det = np.linalg.slogdet(matrix)
    assert sign > 0
    return mean, covariance, 0.5 * (n_weights * np.log(2 * np.pi) - log_det + shift @ mean)


def random_sites(design, rng, *, lowered_weights=0, lowered_labels=0, silent=0, faint=0):
    """Random sites, some of them hard.

    Some labels are silent (precision 0), some weights faint (near 0). Of the rest, those that the others hold most
    firmly are lowered one after the other, by half of what would make the Gaussian improper, if that is below zero.
    """
    n_labels, n_weights = design.shape
    precision = np.concatenate([rng.uniform(0.5, 2.0, n_weights), rng.uniform(0.1, 3.0, n_labels)])
    precision[:n_weights][rng.permutation(n_weights)[:faint]] = 1e-9
    precision[n_weights:][rng.permutation(n_labels)[:silent]] = 0.0
    sites = Sites(precision, rng.standard_normal(n_weights + n_labels))
    rows = np.concatenate([np.eye(n_weights), design])
    for block, count in ((slice(n_weights, None), lowered_labels), (slice(0, n_weights), lowered_weights)):
        for _ in range(count):
            var = np.einsum("ij,jk,ik->i", rows, dense_gaussian(design, sites)[1], rows)
            new = np.where(precision >= 0.0, precision - 0.5 / var, np.inf)[block]
            if new.min() < 0.0:
                precision[block][np.argmin(new)] = new.min()
    return sites

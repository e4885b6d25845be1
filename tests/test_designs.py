import numpy as np
import pytest

from dilutron.data.designs import block_patterns, equicorrelated_patterns, toeplitz_patterns

N = 7
LAG = np.abs(np.subtract.outer(np.arange(N), np.arange(N)))
GROUP = np.array([0, 0, 0, 1, 1, 1, 2])


def blocks(c):
    return np.where(LAG == 0, 1.0, c * (GROUP[:, None] == GROUP))


DESIGNS = [
    *((toeplitz_patterns, {"correlation": c}, float(c) ** LAG) for c in (-0.8, 0.0, 0.5, 0.95)),
    *((block_patterns, {"correlation": c, "size": 3}, blocks(c)) for c in (0.0, 0.5, 0.95)),
    *((equicorrelated_patterns, {"correlation": c}, np.where(LAG == 0, 1.0, c)) for c in (0.0, 0.5, 0.95)),
]
NAMES = [f"{design.__name__}-{options['correlation']}" for design, options, _ in DESIGNS]


@pytest.mark.parametrize(("design", "options", "covariance"), DESIGNS, ids=NAMES)
def test_means_and_covariance(design, options, covariance):
    n_patterns = 100_000
    X = design(n_patterns, N, np.random.default_rng(0), **options)
    assert X.shape == (n_patterns, N)
    noise = 5.0 / np.sqrt(n_patterns)
    np.testing.assert_allclose(X.mean(axis=0), 0.0, atol=noise)
    np.testing.assert_allclose(X.T @ X / n_patterns, covariance, atol=np.sqrt(2.0) * noise)


@pytest.mark.parametrize(("design", "options", "covariance"), DESIGNS, ids=NAMES)
def test_rows_are_independent_and_the_seed_decides(design, options, covariance):
    X, same, other = (design(400, 300, np.random.default_rng(k), **options) for k in (1, 1, 2))
    np.testing.assert_array_equal(X, same)
    assert not np.array_equal(X, other)
    sums = X.sum(axis=1)
    assert abs(np.corrcoef(sums[::2], sums[1::2])[0, 1]) < 5.0 / np.sqrt(200)
    assert design(1, 1, np.random.default_rng(0), **options).shape == (1, 1)


@pytest.mark.parametrize("design", [toeplitz_patterns, block_patterns, equicorrelated_patterns])
@pytest.mark.parametrize("wrong", [1.0, -1.0, 1.5, np.nan])
def test_impossible_correlations(design, wrong):
    with pytest.raises(ValueError, match="correlation must"):
        design(3, 3, np.random.default_rng(0), correlation=wrong)


def test_only_neighbours_can_be_opposed():
    """A negative correlation of every pair of many columns is no covariance."""
    with pytest.raises(ValueError, match=r"from 0 up to but not 1, got -0\.1"):
        equicorrelated_patterns(3, 3, np.random.default_rng(0), correlation=-0.1)


@pytest.mark.parametrize("wrong", [{"n_patterns": 0}, {"n_weights": 2.5}, {"size": 0}])
def test_sizes(wrong):
    with pytest.raises(ValueError, match="must be a whole number"):
        block_patterns(**{"n_patterns": 3, "n_weights": 3, "rng": np.random.default_rng(0), **wrong})

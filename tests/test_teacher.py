import numpy as np
import pytest

from dilutron.data.teacher import diluted_teacher, lesson, mvn_patterns


@pytest.mark.parametrize("patterns", ["iid", "mvn"])
@pytest.mark.parametrize(("alpha", "eta"), [(0.5, 1.0), (2.0, 0.95), (4.0, 0.9)])
def test_a_lesson_follows_the_protocol(patterns, alpha, eta):
    truth = lesson(128, alpha, np.random.default_rng(0), rho=0.25, eta=eta, patterns=patterns)
    n_patterns = round(128 * alpha)
    assert truth.X.shape == (n_patterns, 128)
    assert np.count_nonzero(truth.teacher) == 32
    assert truth.flipped.sum() == round((1 - eta) * n_patterns)
    clean = np.where(truth.X @ truth.teacher >= 0, 1.0, -1.0)
    np.testing.assert_array_equal(truth.labels, np.where(truth.flipped, -clean, clean))


def test_the_seed_decides():
    one, same, other = (lesson(30, 2.0, np.random.default_rng(k), eta=0.9) for k in (1, 1, 2))
    np.testing.assert_array_equal(one.X, same.X)
    np.testing.assert_array_equal(one.labels, same.labels)
    assert not np.array_equal(one.X, other.X)


def test_a_teacher_is_never_empty():
    assert np.count_nonzero(diluted_teacher(10, 0.001, np.random.default_rng(0))) == 1


def test_correlated_patterns_have_the_covariance_of_the_paper():
    """S = Y'Y + Delta: off the diagonal of rank u, and what is left on it is positive."""
    for u in (1, 2):
        X = mvn_patterns(200_000, 6, np.random.default_rng(3), u=u)
        rng = np.random.default_rng(3)  # the same draws again
        factors = rng.standard_normal((u, 6))
        wanted = factors.T @ factors + np.diag(np.abs(rng.standard_normal(6)))
        np.testing.assert_allclose(X.T @ X / len(X), wanted, atol=0.02 * np.max(wanted))


def test_unknown_patterns():
    with pytest.raises(ValueError, match=r"patterns must be one of \['iid', 'mvn'\], got 'cube'"):
        lesson(10, 1.0, np.random.default_rng(0), patterns="cube")

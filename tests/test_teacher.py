from functools import partial

import numpy as np
import pytest

from dilutron.data.designs import toeplitz_patterns
from dilutron.data.teacher import PATTERNS, diluted_teacher, flips, lesson, mvn_patterns


@pytest.mark.parametrize("patterns", PATTERNS)
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


@pytest.mark.parametrize("patterns", ["iid", "mvn"])
@pytest.mark.parametrize("eta", [1.0, 0.9])
def test_the_order_of_the_draws_is_kept(patterns, eta):
    """Committed results were drawn in this order: another one would make them irreproducible."""
    used, rng = np.random.default_rng(5), np.random.default_rng(5)
    truth = lesson(20, 3.0, used, rho=0.3, eta=eta, patterns=patterns)
    present = rng.permutation(20)[:6]
    np.testing.assert_array_equal(truth.teacher[present], rng.standard_normal(6))
    if patterns == "iid":
        X = rng.standard_normal((60, 20))
    else:
        factors, own_var = rng.standard_normal((1, 20)), np.abs(rng.standard_normal(20))
        X = rng.standard_normal((60, 1)) @ factors
        X = X + rng.standard_normal((60, 20)) * np.sqrt(own_var)
    np.testing.assert_array_equal(truth.X, X)
    turned = np.sort(rng.permutation(60)[: round((1 - eta) * 60)])
    np.testing.assert_array_equal(np.flatnonzero(truth.flipped), turned)
    assert used.random() == rng.random()


@pytest.mark.parametrize("exact", [True, False])
def test_a_teacher_is_never_empty(exact):
    for seed in range(20):
        assert np.count_nonzero(diluted_teacher(10, 0.001, np.random.default_rng(seed), exact)) == 1


def test_density_exact_or_drawn():
    rng = np.random.default_rng(0)
    exact, drawn = (
        np.array([np.count_nonzero(diluted_teacher(200, 0.25, rng, exact)) for _ in range(400)])
        for exact in (True, False)
    )
    assert set(exact) == {50}
    assert abs(drawn.mean() - 50) < 4 * np.sqrt(200 * 0.25 * 0.75 / 400)
    assert drawn.var() == pytest.approx(200 * 0.25 * 0.75, rel=0.25)
    assert np.count_nonzero(lesson(200, 1.0, np.random.default_rng(1), exact=False).teacher) != 50


def test_weights_are_standard_normal():
    for exact in (True, False):
        weights = diluted_teacher(40_000, 0.5, np.random.default_rng(1), exact)
        present = weights[weights != 0]
        assert abs(present.mean()) < 0.03
        assert present.var() == pytest.approx(1.0, abs=0.05)


def test_flips_are_counted():
    for eta, count in ((1.0, 0), (0.9, 10), (0.5, 50)):
        assert flips(100, eta, np.random.default_rng(0)).sum() == count


def test_correlated_patterns_have_the_covariance_of_the_paper():
    """S = Y'Y + Delta: off the diagonal of rank u, and what is left on it is positive."""
    for u in (1, 2, 9):
        X = mvn_patterns(200_000, 6, np.random.default_rng(3), u=u)
        rng = np.random.default_rng(3)  # the same draws again
        factors = rng.standard_normal((u, 6))
        wanted = factors.T @ factors + np.diag(np.abs(rng.standard_normal(6)))
        np.testing.assert_allclose(X.T @ X / len(X), wanted, atol=0.02 * np.max(wanted))


def test_patterns_may_be_a_function():
    strong = partial(toeplitz_patterns, correlation=0.9)
    truth = lesson(30, 200.0, np.random.default_rng(0), patterns=strong)
    assert np.corrcoef(truth.X.T)[0, 1] == pytest.approx(0.9, abs=0.02)
    with pytest.raises(ValueError, match=r"an array of shape \(20, 10\), got \(10, 20\)"):
        lesson(10, 2.0, np.random.default_rng(0), patterns=lambda m, n, rng: np.zeros((n, m)))


def test_unknown_patterns():
    with pytest.raises(ValueError, match=r"patterns must be one of .*'iid', 'mvn', 'toeplitz'\].*, got 'cube'"):
        lesson(10, 1.0, np.random.default_rng(0), patterns="cube")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_weights": 0}, "n_weights must be a whole number, at least 1, got 0"),
        ({"n_weights": 10.0}, "n_weights must be a whole number"),
        ({"alpha": 0.0}, "alpha must be a positive number"),
        ({"alpha": np.nan}, "alpha must be a positive number"),
        ({"rho": 0.0}, "rho must lie between 0 and 1"),
        ({"rho": 1.0}, "rho must lie between 0 and 1"),
        ({"rho": np.nan}, "rho must lie between 0 and 1"),
        ({"eta": 0.4}, "eta is the fraction of right labels, from 0.5 to 1, got 0.4"),
        ({"eta": 1.1}, "eta is the fraction of right labels"),
        ({"eta": np.nan}, "eta is the fraction of right labels"),
        ({"patterns": partial(mvn_patterns, u=0)}, "u must be a whole number"),
    ],
)
def test_what_is_wrong_is_said(wrong, message):
    with pytest.raises(ValueError, match=message):
        lesson(**{"n_weights": 10, "alpha": 1.0, "rng": np.random.default_rng(0), **wrong})


def test_noise_in_the_fields_turns_as_many_labels_as_it_should_and_leaves_the_rest_as_it_was():
    sharp, soft = (lesson(200, 100.0, np.random.default_rng(4), eta=0.95, beta=beta) for beta in (np.inf, 0.1))
    for name in ("X", "teacher", "flipped"):
        np.testing.assert_array_equal(getattr(sharp, name), getattr(soft, name))
    signal = np.linalg.norm(soft.teacher)
    wanted = np.arctan(np.sqrt(10.0) / signal) / np.pi  # of two normal numbers correlated so
    assert np.mean(sharp.labels != soft.labels) == pytest.approx(wanted, abs=0.01)
    for beta in (0.0, -1.0, -np.inf, np.nan, "soft", np.ones(2)):
        with pytest.raises(ValueError, match="beta must be a positive number"):
            lesson(10, 2.0, np.random.default_rng(0), beta=beta)

import mpmath as mp
import numpy as np
import pytest

from dilutron.special import TAIL, decay, hazard, truncated

POINTS = np.array(
    [-1e6, -1e4, -300.0, -38.0, -10.0, TAIL - 1e-9, TAIL, TAIL + 1e-9, -4.9, -2.0, -0.1, 0.0, 0.1, 3.0, 30.0, 1e6]
)


def exact(t):
    with mp.workdps(60):
        t = mp.mpf(float(t))
        ratio = mp.npdf(t) / (mp.erfc(-t / mp.sqrt(2)) / 2)
        return tuple(float(x) for x in (ratio, t + ratio, 1 - t * ratio - ratio**2))


@pytest.mark.parametrize("t", POINTS)
def test_against_sixty_digits(t):
    ratio, mean, var = exact(t)
    np.testing.assert_allclose(hazard(np.array([t])), ratio, rtol=1e-12, atol=1e-300)
    found_mean, found_var = truncated(np.array([t]))
    np.testing.assert_allclose(found_mean, mean, rtol=1e-12)
    np.testing.assert_allclose(found_var, var, rtol=1e-10)


def test_the_two_branches_meet():
    t = np.linspace(TAIL - 0.5, TAIL + 0.5, 2001)
    mean, var = truncated(t)
    assert np.all(np.diff(mean) > 0)
    assert np.all(np.diff(var) > 0)
    assert np.max(np.abs(np.diff(mean, 3))) < 1e-9, "no kink where one formula hands over to the other"


def test_a_truncated_gaussian_keeps_within_its_bounds():
    t = np.concatenate([-np.geomspace(1e6, 1e-6, 400), [0.0], np.geomspace(1e-6, 1e6, 400)])
    mean, var = truncated(t)
    assert np.all((mean >= t) & (mean > 0.0))
    assert np.all((var > 0.0) & (var <= 1.0))
    assert np.all(np.diff(mean) >= 0)


def test_the_argument_is_left_alone():
    t = np.array([-10.0, 2.0])
    truncated(t)
    np.testing.assert_array_equal(t, [-10.0, 2.0])


@pytest.mark.parametrize("rate", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("q", [0.04, 1e-3, 1e-8, 0.0])
def test_an_exponential_bent_by_a_gaussian(rate, q):
    """Against 60 digits: the integral of exp(-rate y - q rate^2 y^2 / 2) over y > 0."""
    log_z, mean, var = (x.item() for x in decay(np.array([rate]), np.array([q * rate**2])))
    with mp.workdps(60):
        if q == 0.0:
            z, one, two = mp.mpf(1), mp.mpf(1), mp.mpf(2)
        else:
            x = 1 / mp.sqrt(mp.mpf(q))  # in units of the bend, y = x u / rate
            tail = mp.erfc(x / mp.sqrt(2)) / 2 / mp.npdf(x)
            z = x * tail
            one = x**2 * (1 - x * tail)
            two = x**3 * (tail * (1 + x**2) - x)
        exact = mp.log(z / rate), one / z / rate, (two / z - (one / z) ** 2) / rate**2
    np.testing.assert_allclose([log_z, mean, var], [float(e) for e in exact], rtol=1e-10, atol=1e-13)


def test_the_bend_may_change_sign():
    """Through zero the moments are smooth: first and second differences stay as small as the steps."""
    q = np.linspace(-1 / 80, 1 / 80, 401)
    for part in decay(np.ones_like(q), q):
        assert np.max(np.abs(np.diff(part, 2))) < 1e-6
        assert np.all(np.diff(part) < 0), "the more it is bent down, the less is left"

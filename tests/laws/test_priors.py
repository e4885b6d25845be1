"""One law per prior: mean and variance are the first two derivatives of log_z, tails included."""

from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from dilutron import Normal, RobustProbit, SpikeSlab, Theta, ThetaMixture
from dilutron.priors import Gaussians
from tests.laws.lists import LABELS, LEARNABLE, N_FEATURES, PRIORS, SPIKE_SLABS, named

NEAR = (-8.0, -5.0, -4.99, -2.5, -0.7, 0.0, 0.4, 1.9, 5.01, 7.0)  # cavity means, in units of the cavity's sd
FAR = (-1e6, -1e3, -40.0, -12.0, -5.0, -1.0, 0.0, 1e-3, 2.0, 6.0, 30.0, 1e4, 1e6)
VARIANCES = (1e-12, 1e-5, 0.3, 1.0, 1e3, 1e12)


def batches(ratios, variances):
    """Cavities in batches of one per feature, so that priors with arrays see the same ones."""
    for var in variances:
        for ratio in ratios:
            yield Gaussians(np.full(N_FEATURES, ratio * np.sqrt(var)), np.full(N_FEATURES, var))


def which(prior):
    """The features worth a separate look: all of them where they differ."""
    return range(N_FEATURES) if any(np.ndim(v) == 1 and not isinstance(v, tuple) for v in vars(prior).values()) else [0]


def reference(case, i, mean, var):
    """Log normaliser, mean and variance by differentiating the exact log normaliser with 120 digits."""
    with mp.workdps(120):
        mean, var = mp.mpf(float(mean)), mp.mpf(float(var))
        unit = mp.sqrt(var) / (1 + abs(mean) / mp.sqrt(var))
        step = mp.mpf("1e-25")
        low, middle, high = (case.log_z(i, mean + k * step * unit, var) for k in (-1, 0, 1))
        first, second = (high - low) / (2 * step * unit), (high - 2 * middle + low) / (step * unit) ** 2
        return middle, mean + var * first, var + var**2 * second


@pytest.mark.parametrize("case", **named(PRIORS))
def test_moments_are_derivatives_of_log_z(case):
    """By differences of the library's own log_z: central, of eighth order, so that a step of 0.05 sd is small."""
    first = np.array([3, -32, 168, -672, 0, 672, -168, 32, -3]) / 840
    second = np.array([-9, 128, -1008, 8064, -14350, 8064, -1008, 128, -9]) / 5040
    offsets = np.arange(-4, 5)
    for cavity in batches(NEAR, (0.3, 1.0, 40.0)):
        mean, var = cavity
        step = 0.05 * np.sqrt(var) / (1 + np.abs(mean) / np.sqrt(var))
        shifted = np.stack([case.prior.moments(Gaussians(mean + k * step, var)).log_z for k in offsets])
        tilted = case.prior.moments(cavity)
        sd = np.sqrt(var)
        slope, bend = first @ shifted / step * sd, second @ shifted / step**2 * var
        np.testing.assert_allclose((tilted.mean - mean) / sd, slope, atol=2e-8, rtol=1e-8)
        np.testing.assert_allclose(tilted.var / var, 1.0 + bend, atol=3e-7, rtol=1e-6)


@pytest.mark.parametrize("case", **named(PRIORS))
def test_moments_are_the_defining_integrals(case):
    """Against quadrature of the factor's definition times the cavity, knowing nothing of closed forms."""
    nodes, shares = np.polynomial.legendre.leggauss(40)
    widths = np.geomspace(1e-4, 10, 16)  # a slab or a step may be much narrower than the cavity
    for cavity in batches((-4.0, -0.6, 0.0, 1.7), (0.5, 20.0)):
        tilted = case.prior.moments(cavity)
        for i in which(case.prior):
            mean, sd = cavity.mean[i], np.sqrt(cavity.var[i])
            spike, density = case.factor(i)
            ends = np.unique(np.concatenate([mean + sd * np.arange(-12, 13), widths, -widths, [0.0]]))
            half = np.diff(ends)[:, None] / 2
            x = ends[:-1, None] + half * (nodes + 1)
            mass = half * shares * density(x) * norm.pdf(x, mean, sd)
            z, one, two = (np.sum(x**k * mass) for k in (0, 1, 2))
            z += spike * norm.pdf(0, mean, sd)
            np.testing.assert_allclose(tilted.log_z[i], np.log(z), rtol=1e-11, atol=1e-12)
            np.testing.assert_allclose(tilted.mean[i], one / z, rtol=1e-9, atol=1e-10 * sd)
            np.testing.assert_allclose(tilted.var[i], two / z - (one / z) ** 2, rtol=1e-8)


@pytest.mark.parametrize("case", **named(PRIORS))
def test_moments_keep_their_digits_in_the_tails(case):
    """Against 120-digit arithmetic. The log odds of two components carry a rounding error of their own size times eps,
    which is what the tolerance of the moments allows for where they are huge."""
    for cavity in batches(FAR, VARIANCES):
        tilted = case.prior.moments(cavity)
        for i in which(case.prior):
            log_z, mean, var = (float(x) for x in reference(case, i, cavity.mean[i], cavity.var[i]))
            place = f"{case.name}[{i}] at mean {cavity.mean[i]}, var {cavity.var[i]}"
            np.testing.assert_allclose(tilted.log_z[i], log_z, rtol=1e-12, atol=1e-12, err_msg=place)
            scale = np.sqrt(var + mean**2)
            np.testing.assert_allclose(tilted.mean[i], mean, rtol=0, atol=1e-9 * scale, err_msg=place)
            np.testing.assert_allclose(tilted.var[i], var, rtol=1e-9, err_msg=place)


def tail_precision(prior):
    """Precision of the Gaussian tails of a weight's prior."""
    return np.broadcast_to(getattr(prior, "lam", getattr(prior, "precision", None)), N_FEATURES)


BEARING = tuple(case for case in PRIORS if case not in LABELS)


@pytest.mark.parametrize("case", **named(BEARING))
@pytest.mark.parametrize("share", [0.01, 0.5, 0.8])
def test_gaussian_tails_bear_a_cavity_of_negative_precision(case, share):
    """Down to the slab's own precision: the tilted law is a proper one, by quadrature, though its cavity is not.

    log_z is the integral with 1/sqrt(2 pi |var|) before the exponential.
    """
    nodes, shares = np.polynomial.legendre.leggauss(40)
    tail = tail_precision(case.prior)
    for shift in (-0.8, 0.0, 0.3):  # the cavity is exp(shift x - precision x^2 / 2), both in the units of the slab
        precision, shifts = -share * tail, shift * np.sqrt(tail)
        assert np.all(case.prior.admits(precision, shifts))
        tilted = case.prior.moments(Gaussians(shifts / precision, 1.0 / precision))
        for i in which(case.prior):
            spike, density = case.factor(i)
            unit = 1.0 / np.sqrt(tail[i] * (1.0 - share))
            ends = np.linspace(-9, 9, 37) * unit + shifts[i] * unit**2
            half = np.diff(ends)[:, None] / 2
            x = ends[:-1, None] + half * (nodes + 1)
            front = np.exp(-0.5 * shifts[i] ** 2 / precision[i]) * np.sqrt(-precision[i] / (2 * np.pi))
            mass = front * half * shares * density(x) * np.exp(shifts[i] * x - 0.5 * precision[i] * x**2)
            z, one, two = (np.sum(x**k * mass) for k in (0, 1, 2))
            z += spike * front
            np.testing.assert_allclose(tilted.log_z[i], np.log(z), rtol=1e-9, atol=1e-10)
            np.testing.assert_allclose(tilted.mean[i], one / z, rtol=1e-8, atol=1e-10 * unit)
            np.testing.assert_allclose(tilted.var[i], two / z - (one / z) ** 2, rtol=1e-7)


@pytest.mark.parametrize("case", **named(PRIORS))
def test_only_integrable_cavities_are_admitted(case):
    ones = np.ones(N_FEATURES)
    for shift in (-100.0, 0.0, 100.0):
        assert np.all(case.prior.admits(1e-9 * ones, shift * ones)), "a proper cavity always is"
    limit = np.zeros(N_FEATURES) if case in LABELS else -tail_precision(case.prior)
    for below in (1e-9, 1e-2, 1.0):
        assert not np.any(case.prior.admits(limit - below * ones, 1e-6 * ones)), "no tail bears this"


def test_a_hard_step_bears_a_slightly_negative_precision():
    """Where the cavity pushes hard to the wrong side the tilted law is all but exponential: against quadrature up to
    the saddle at shift / precision, where the integrand is below exp(-24) of its start."""
    nodes, shares = np.polynomial.legendre.leggauss(60)
    for shift, ratio in ((-10.0, 50.0), (-3.0, 100.0), (-0.01, 1e4), (-500.0, 1e9)):
        precision = -(shift**2) / ratio
        assert Theta().admits(np.array([precision]), np.array([shift])).all()
        tilted = Theta().moments(Gaussians(np.array([shift / precision]), np.array([1.0 / precision])))
        ends = np.linspace(0, min(ratio, 60.0), 61) / -shift  # in units of the decay's length
        half = np.diff(ends)[:, None] / 2
        y = ends[:-1, None] + half * (nodes + 1)
        mass = half * shares * np.exp(shift * y - 0.5 * precision * y**2)
        z, one, two = (np.sum(y**k * mass) for k in (0, 1, 2))
        front = -0.5 * shift**2 / precision + 0.5 * np.log(-precision / (2 * np.pi))
        np.testing.assert_allclose(tilted.log_z, np.log(z) + front, rtol=1e-9)
        np.testing.assert_allclose(tilted.mean, one / z, rtol=1e-8)
        np.testing.assert_allclose(tilted.var, two / z - (one / z) ** 2, rtol=1e-6)
    assert not Theta().admits(np.array([-1.0]), np.array([-2.0])).any(), "this one is not nearly exponential"
    assert not Theta().admits(np.array([-1e-6]), np.array([2.0])).any(), "this one grows on the allowed side"
    assert not ThetaMixture(0.9).admits(np.array([-1e-6]), np.array([-2.0])).any(), "a soft step lets it grow"


@given(
    ratio=st.floats(-1e6, 1e6) | st.floats(-50, 50),
    log_var=st.floats(np.log(1e-12), np.log(1e12)),
    log_odds=st.floats(np.log(1e-6), -np.log(1e-6)),
    log_lam=st.floats(-12, 12),
    eta=st.floats(0.5, 1.0) | st.sampled_from([0.5, 1.0, 1 - 1e-12]),
    beta=st.floats(1e-6, 1e12) | st.just(np.inf),
)
def test_moments_are_finite_and_variances_positive_everywhere(ratio, log_var, log_odds, log_lam, eta, beta):
    var = np.exp(log_var)
    cavity = Gaussians(np.array([ratio * np.sqrt(var)]), np.array([var]))
    rho = float(np.clip(1.0 / (1.0 + np.exp(-log_odds)), 1e-6, 1 - 1e-6))
    for prior in (SpikeSlab(rho, float(np.exp(log_lam))), RobustProbit(eta, beta), Normal(float(np.exp(log_lam)))):
        tilted = prior.moments(cavity)
        assert np.all(np.isfinite(tilted)), (prior, cavity)
        assert np.all(tilted.var > 0.0), (prior, cavity)
        assert np.all(tilted.log_z <= 0.0) or not isinstance(prior, RobustProbit)  # 0 where the label is certain
        for share in (prior.inclusion(cavity), prior.flip(cavity)):
            assert share is None or np.all((share >= 0.0) & (share <= 1.0))


@pytest.mark.parametrize("sd", [1e-6, 1.0, 1e6])
def test_theta_has_its_limits(sd):
    for t in (-1e2, -1e4, -1e6):  # an exponential tail of length sd/|t|; the next term of the series is 2/t^2
        tilted = Theta().moments(Gaussians(np.array([t * sd]), np.array([sd**2])))
        np.testing.assert_allclose(tilted.mean, sd / -t, rtol=2.1 / t**2 + 1e-15)
        np.testing.assert_allclose(tilted.var, sd**2 / t**2, rtol=6.1 / t**2 + 1e-13)
    for t in (40.0, 1e6):  # the label is known: the cavity comes back
        cavity = Gaussians(np.array([t * sd]), np.array([sd**2]))
        tilted = Theta().moments(cavity)
        np.testing.assert_array_equal(tilted.mean, cavity.mean)
        np.testing.assert_allclose(tilted.var, cavity.var, rtol=1e-15)
        np.testing.assert_array_equal(tilted.log_z, 0.0)


def test_theta_mixture_has_its_limits():
    cavity = Gaussians(np.array([-1e6, -30.0, 30.0, 1e6]), np.ones(4))
    tilted = ThetaMixture(0.9).moments(cavity)  # deep in either half the factor is a constant: the cavity comes back
    np.testing.assert_allclose(tilted.mean, cavity.mean, rtol=1e-15)
    np.testing.assert_allclose(tilted.var, cavity.var, rtol=1e-15)
    np.testing.assert_allclose(tilted.log_z, np.log([0.1, 0.1, 0.9, 0.9]), rtol=1e-15)
    np.testing.assert_allclose(ThetaMixture(0.9).flip(cavity), [1.0, 1.0, 0.0, 0.0], atol=1e-100)


def test_half_right_labels_say_nothing():
    cavity = Gaussians(np.linspace(-9, 9, 25), np.geomspace(1e-9, 1e9, 25))
    tilted = ThetaMixture(0.5).moments(cavity)
    np.testing.assert_allclose(tilted.mean, cavity.mean, atol=1e-15 * np.sqrt(cavity.var).max(), rtol=1e-12)
    np.testing.assert_allclose(tilted.var, cavity.var, rtol=1e-13)
    np.testing.assert_allclose(tilted.log_z, np.log(0.5), rtol=1e-15)


def test_a_clean_mixture_is_theta_and_a_cold_probit_is_a_step():
    cavity = Gaussians(np.linspace(-9, 9, 25), np.ones(25))
    for step, near in ((Theta(), RobustProbit(1.0, 1e15)), (ThetaMixture(0.8), RobustProbit(0.8, 1e15))):
        for exact, close in zip(step.moments(cavity), near.moments(cavity), strict=True):
            np.testing.assert_allclose(close, exact, rtol=1e-10, atol=1e-12)
    seen = Gaussians(cavity.mean + 7.0, cavity.var)  # where the last 1e-13 of the labels does not matter yet
    for exact, close in zip(Theta().moments(seen), ThetaMixture(1 - 1e-13).moments(seen), strict=True):
        np.testing.assert_allclose(close, exact, rtol=1e-8, atol=1e-11)


def test_spike_slab_has_its_limits():
    far = Gaussians(np.array([1e6, -1e6]), np.ones(2))
    tilted = SpikeSlab(1e-6).moments(far)  # far from zero the weight is there, and only the slab shrinks it
    np.testing.assert_allclose(tilted.mean, far.mean / 2, rtol=1e-14)
    np.testing.assert_allclose(tilted.var, 0.5, rtol=1e-14)
    sharp = Gaussians(np.zeros(2), np.full(2, 1e-12))
    assert np.all(SpikeSlab(0.5).inclusion(sharp) < 1e-5), "a sharp cavity at zero says that the weight is absent"
    flat = Gaussians(np.zeros(2), np.full(2, 1e12))
    np.testing.assert_allclose(SpikeSlab(0.3).inclusion(flat), 0.3, rtol=1e-6)
    np.testing.assert_allclose(SpikeSlab(0.3, lam=2.0).moments(flat).var, 0.15, rtol=1e-6)


@pytest.mark.parametrize("case", **named(SPIKE_SLABS))
def test_inclusion_is_the_slab_share(case):
    for cavity in batches((-9.0, -1.0, 0.0, 3.0), (1e-3, 1.0, 1e3)):
        for i in which(case.prior):
            mean, var = float(cavity.mean[i]), float(cavity.var[i])
            absent = case.factor(i).spike * mp.npdf(0, mean, mp.sqrt(var)) / mp.exp(case.log_z(i, mean, var))
            np.testing.assert_allclose(1.0 - case.prior.inclusion(cavity)[i], float(absent), rtol=1e-9, atol=1e-15)
    assert case.prior.flip(cavity) is None


@pytest.mark.parametrize("case", **named(LABELS))
def test_flip_is_the_wrong_share(case):
    noise = 1.0 / case.prior.beta
    for cavity in batches((-9.0, -1.0, 0.0, 3.0), (1e-3, 1.0, 1e3)):
        mean, var = (float(x[0]) for x in cavity)
        wrong = (1 - mp.mpf(case.prior.eta)) * mp.ncdf(-mean / mp.sqrt(var + noise)) / mp.exp(case.log_z(0, mean, var))
        np.testing.assert_allclose(case.prior.flip(cavity), float(wrong), rtol=1e-9, atol=1e-300)
    assert case.prior.inclusion(cavity) is None


@pytest.mark.parametrize("case", **named(PRIORS))
def test_heating_is_convolution_with_noise(case):
    """A label seen through noise is its normaliser in a cavity wider by that noise; a weight has no temperature."""
    prior, noise = case.prior, 0.7
    assert prior.heated(0.0) == prior or prior.heated(0.0) is prior
    for cavity in batches(NEAR, (0.3, 10.0)):
        wider = prior.moments(Gaussians(cavity.mean, cavity.var + noise)).log_z
        heated = prior.heated(noise).moments(cavity).log_z
        if case in LABELS:
            np.testing.assert_allclose(heated, wider, rtol=1e-12)
            twice = prior.heated(0.3).heated(0.4).moments(cavity).log_z
            np.testing.assert_allclose(twice, wider, rtol=1e-12)
        else:
            assert prior.heated(noise) is prior


def random_cavities(rng, n=N_FEATURES):
    return Gaussians(1.5 * rng.standard_normal(n), rng.uniform(0.05, 4.0, n))


@pytest.mark.parametrize(("case", "name"), LEARNABLE, ids=[f"{c.name}: {n}" for c, n in LEARNABLE])
def test_slopes_are_derivatives_of_log_z(case, name):
    """In a shared parameter the slope is of the sum; where there is one value per feature, of each."""
    prior, cavity = case.prior, random_cavities(np.random.default_rng(3))
    value, slope = getattr(prior, name), prior.slopes(cavity)[name]
    if np.any(np.isinf(value)):
        assert slope == 0.0, "at zero temperature log_z no longer depends on beta"
        return
    assert np.shape(slope) == np.shape(value)
    wanted = np.empty(N_FEATURES)
    with mp.workdps(40):
        for i in range(N_FEATURES):
            at = mp.mpf(float(np.broadcast_to(value, N_FEATURES)[i]))
            step = at * mp.mpf("1e-15")
            up, down = (
                case.log_z(i, *map(float, (cavity.mean[i], cavity.var[i])), **{name: at + s * step}) for s in (1, -1)
            )
            wanted[i] = (up - down) / (2 * step)
    np.testing.assert_allclose(slope, wanted if np.ndim(value) else wanted.sum(), rtol=1e-9)


@pytest.mark.parametrize(("case", "name"), LEARNABLE, ids=[f"{c.name}: {n}" for c, n in LEARNABLE])
def test_belief_slopes_are_derivatives_of_the_log_belief(case, name):
    """Of a value that is shared, or of one feature's alone."""
    prior, value = case.prior, np.array(getattr(case.prior, name), dtype=float)
    low, high = prior.parameters[name]
    if np.any((value <= low) | (value >= high)):  # at an end there is one side only
        return
    room = min(value.flat[0], value.flat[0] - low, high - value.flat[0])
    step = np.zeros_like(value)
    step.flat[0] = 1e-4 * room
    up, down = (replace(prior, **{name: value + s * step}).log_belief() for s in (1.0, -1.0))
    slope = np.broadcast_to(prior.belief_slopes().get(name, 0.0), value.shape)
    assert slope.flat[0] == pytest.approx((up - down) / (2.0 * step.flat[0]), rel=1e-6, abs=1e-9)


def objective(prior, cavity):
    """What one EM step climbs: summed log_z, and the log of the weak prior of rho or eta."""
    return prior.moments(cavity).log_z.sum() + prior.log_belief()


STARTS = {
    "rho": SpikeSlab(0.3, 1.2, counts=(4.0, 2.0)),
    "lam": SpikeSlab(0.3, 1.2),
    "eta": RobustProbit(0.8, 3.0, counts=(4.0, 2.0)),
    "beta": RobustProbit(0.8, 3.0),
}


@pytest.mark.parametrize("name", STARTS)
def test_learn_stays_at_a_maximum(name):
    """Where slope of the summed log_z (plus that of the Beta counts) is zero, EM does not move."""
    rng = np.random.default_rng(5)
    cavity = random_cavities(rng, 60)
    if name in ("eta", "beta"):
        cavity = Gaussians(cavity.mean + 1.2, cavity.var)

    def slope(value):
        prior = replace(STARTS[name], **{name: float(value)})
        return prior.slopes(cavity)[name] + prior.belief_slopes().get(name, 0.0)

    bracket = {"rho": (1e-4, 1 - 1e-4), "lam": (1e-3, 1e3), "eta": (0.5001, 1 - 1e-6), "beta": (1e-3, 1e3)}[name]
    best = brentq(slope, *bracket, xtol=1e-14, rtol=1e-14)
    prior = replace(STARTS[name], **{name: best})
    learned = prior.learn(cavity, frozenset({name}))
    np.testing.assert_allclose(getattr(learned, name), best, rtol=1e-9)
    for other in set(prior.parameters) - {name}:
        assert getattr(learned, other) == getattr(prior, other), "only what was named is learned"
    assert prior.learn(cavity, frozenset()) == prior


@given(
    seed=st.integers(0, 2**32 - 1),
    rho=st.floats(1e-4, 1 - 1e-4),
    lam=st.floats(1e-3, 1e3),
    eta=st.floats(0.5, 1 - 1e-9),
    beta=st.floats(1e-3, 1e3),
    counts=st.tuples(st.floats(0, 3), st.floats(0, 3)),
)
def test_one_learn_step_never_goes_down(seed, rho, lam, eta, beta, counts):
    """EM climbs from anywhere, however far the cavities lie from what the prior expects."""
    rng = np.random.default_rng(seed)
    cavity = random_cavities(rng, 12)
    cavity = Gaussians(cavity.mean * rng.choice([0.1, 1.0, 5.0]) + rng.choice([-1.0, 0.0, 2.0]), cavity.var)
    for prior in (SpikeSlab(rho, lam, counts), RobustProbit(eta, beta, counts=counts)):
        for name in prior.parameters:
            learned = prior.learn(cavity, frozenset({name}))
            before, after = objective(prior, cavity), objective(learned, cavity)
            assert after >= before - 1e-9 * (1 + abs(before)), (prior, name)


@given(seed=st.integers(0, 2**32 - 1))
def test_learning_moves_arrays_by_one_factor_and_never_down(seed):
    rng = np.random.default_rng(seed)
    prior = SpikeSlab(rng.uniform(0.02, 0.98, 12), rng.uniform(0.1, 10, 12), counts=(0.0, 0.0))
    cavity = random_cavities(rng, 12)
    learned = prior.learn(cavity, frozenset({"rho"}))
    shift = np.log(learned.rho / (1 - learned.rho)) - np.log(prior.rho / (1 - prior.rho))
    np.testing.assert_allclose(shift, shift[0], rtol=1e-6, atol=1e-9)
    assert learned.moments(cavity).log_z.sum() >= prior.moments(cavity).log_z.sum() - 1e-9
    scaled = prior.learn(cavity, frozenset({"lam"}))
    np.testing.assert_allclose(scaled.lam / prior.lam, (scaled.lam / prior.lam)[0], rtol=1e-12)
    assert scaled.moments(cavity).log_z.sum() >= prior.moments(cavity).log_z.sum() - 1e-9


def test_pseudo_counts_keep_rho_off_the_ends():
    empty = Gaussians(np.zeros(50), np.full(50, 1e-12))
    full = Gaussians(np.full(50, 1e3), np.ones(50))
    assert SpikeSlab(0.5).learn(empty, frozenset({"rho"})).rho > 1e-4
    assert SpikeSlab(0.5).learn(full, frozenset({"rho"})).rho < 1 - 1e-4

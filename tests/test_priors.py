import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from dilutron import Normal, Probit, RobustProbit, SpikeSlab, Theta, ThetaMixture
from dilutron.priors import Gaussians, Prior


@pytest.mark.parametrize("rho", [0.0, 1.0, -0.1, 1.5, np.nan, np.inf])
def test_density_must_lie_between_zero_and_one(rho):
    with pytest.raises(ValueError, match="rho must be a density strictly between 0 and 1"):
        SpikeSlab(rho)


@pytest.mark.parametrize("lam", [0.0, -1.0, np.nan, np.inf])
def test_slab_precision_must_be_positive(lam):
    with pytest.raises(ValueError, match="lam must be a positive, finite precision"):
        SpikeSlab(0.5, lam)


@pytest.mark.parametrize("eta", [0.49, 1.01, -1.0, np.nan, np.array([0.9, 0.8])])
def test_eta_must_be_one_number_from_half_to_one(eta):
    with pytest.raises(ValueError, match=r"eta must be one number from 0\.5 to 1"):
        ThetaMixture(eta)


@pytest.mark.parametrize("beta", [0.0, -2.0, np.nan, -np.inf])
def test_beta_must_be_positive(beta):
    with pytest.raises(ValueError, match="beta must be one positive number"):
        Probit(beta)


@pytest.mark.parametrize("precision", [0.0, -1.0, np.nan, np.inf])
def test_normal_precision_must_be_positive(precision):
    with pytest.raises(ValueError, match="precision must be a positive, finite precision"):
        Normal(precision)


@pytest.mark.parametrize("counts", [(0.1,), (-1.0, 0.1), (0.1, np.inf), (np.nan, 0.0), (1.0, 1.0, 1.0)])
def test_counts_are_two_numbers(counts):
    with pytest.raises(ValueError, match="counts must be a tuple of two finite numbers >= 0"):
        SpikeSlab(0.5, counts=counts)
    with pytest.raises(ValueError, match="counts must be a tuple of two finite numbers >= 0"):
        RobustProbit(0.9, counts=counts)


def test_a_bad_entry_of_an_array_is_named_with_its_place():
    with pytest.raises(ValueError, match=r"rho .* got 1\.5 at position 2"):
        SpikeSlab(np.array([0.1, 0.2, 1.5]))
    with pytest.raises(ValueError, match="rho must be one number or a vector"):
        SpikeSlab(np.full((2, 2), 0.5))
    with pytest.raises(ValueError, match="rho must be one number or a vector"):
        SpikeSlab(np.array([]))


def test_names_of_the_family():
    assert Theta() == RobustProbit(1.0, np.inf)
    assert ThetaMixture(0.9) == RobustProbit(0.9, np.inf)
    assert Probit(2.0) == RobustProbit(1.0, 2.0)


@pytest.mark.parametrize("prior", [SpikeSlab(0.3), RobustProbit(0.9, 2.0), Normal(1.0)])
def test_priors_do_not_change(prior):
    before = dataclasses.replace(prior)
    cavity = Gaussians(np.array([0.3, -1.0]), np.array([1.0, 2.0]))
    prior.learn(cavity, frozenset(prior.parameters))
    assert prior == before
    with pytest.raises(dataclasses.FrozenInstanceError):
        prior.anything = 1.0


def test_flat_starts():
    assert SpikeSlab(0.25, 2.0).flat_precision() == 8.0
    assert Theta().flat_precision() == 0.0
    assert Normal(0.3).flat_precision() == 0.3


def test_a_new_prior_costs_one_small_class():
    """What a prior does not say has a default that says nothing."""
    cavity = Gaussians(np.zeros(2), np.ones(2))
    prior = Prior()
    assert prior.slopes(cavity) == {}
    assert prior.learn(cavity, frozenset({"rho"})) is prior
    assert prior.heated(1.0) is prior
    assert prior.inclusion(cavity) is None
    np.testing.assert_array_equal(prior.admits(np.array([1.0, 0.0, -1.0]), np.zeros(3)), [True, False, False])
    assert prior.flip(cavity) is None
    for call in (lambda: prior.moments(cavity), prior.flat_precision):
        with pytest.raises(NotImplementedError):
            call()


@pytest.mark.parametrize(
    "prior", [SpikeSlab(0.2, 3.0), SpikeSlab(np.array([0.1, 0.7, 0.4])), Normal(0.3), ThetaMixture(0.9)], ids=repr
)
def test_one_variance_stands_for_all(prior):
    """VAMP's cavities have one: the same mean and variance as where it is written out, and as the moments say."""
    mean = np.array([-2.0, 0.3, 5.0])
    one, each = (Gaussians(mean, np.broadcast_to(0.4, shape)) for shape in ((), (3,)))
    _, wanted, var = prior.moments(each)
    np.testing.assert_allclose(prior.tilted(one).mean, wanted, rtol=1e-15, strict=True)
    np.testing.assert_allclose(prior.tilted(one).var, var, rtol=1e-15, strict=True)


def test_learning_eta_stays_at_half_or_more():
    wrong = Gaussians(np.full(20, -5.0), np.ones(20))
    assert ThetaMixture(0.6).learn(wrong, frozenset({"eta"})).eta == 0.5


@pytest.mark.parametrize("eta", [0.5, 0.8, 1.0])
def test_a_learned_eta_is_the_share_of_labels_that_are_not_flipped(eta):
    """However far in the tails the cavities are."""
    mean = np.concatenate([np.linspace(-2.0, 5.0, 13), [-1e6, -200.0, -30.0, 30.0, 200.0, 1e6]])
    for beta in (0.5, np.inf):
        labels, cavity = RobustProbit(eta, beta), Gaussians(mean, np.linspace(0.1, 2.0, mean.size))
        learned = labels.learn(cavity, frozenset({"eta"})).eta
        assert learned == pytest.approx(1.0 - labels.flip(cavity).mean(), abs=1e-14)
        assert learned > 0.5


def test_learning_several_at_once_uses_one_set_of_responsibilities():
    cavity = Gaussians(np.linspace(-2, 2, 9), np.linspace(0.2, 2, 9))
    prior = SpikeSlab(0.3, 2.0)
    both = prior.learn(cavity, frozenset({"rho", "lam"}))
    assert both.rho == prior.learn(cavity, frozenset({"rho"})).rho
    assert both.lam == prior.learn(cavity, frozenset({"lam"})).lam
    labels = RobustProbit(0.8, 2.0)
    both = labels.learn(cavity, frozenset({"eta", "beta"}))
    assert both.eta == labels.learn(cavity, frozenset({"eta"})).eta
    assert both.beta == labels.learn(cavity, frozenset({"beta"})).beta


def test_the_prior_of_some_weights_keeps_their_own_values():
    which = np.array([0, 2])
    own = SpikeSlab(np.array([0.1, 0.2, 0.3]), 2.0).some(which)
    np.testing.assert_array_equal(own.rho, [0.1, 0.3])
    assert own.lam == 2.0
    shared = SpikeSlab(0.1)
    assert shared.some(which) is shared


def test_numbers_of_any_kind_are_kept_as_floats():
    """Later sums know floats only; what is beyond them is refused where it is given."""
    prior = RobustProbit(Fraction(9, 10), np.float32(2.0), counts=(Fraction(1, 2), 1))
    assert [type(value) for value in (prior.eta, prior.beta, *prior.counts)] == [float] * 4
    assert prior.eta == 0.9
    with pytest.raises(ValueError, match="rho must be a density"):
        SpikeSlab(10**400)

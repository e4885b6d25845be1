"""An answer that the linear algebra got wrong does not pass for converged, however quietly it went wrong."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from dilutron import EPClassifier, EPOptions, Normal, SpikeSlab, Status, ThetaMixture, gaussian, solve, student
from dilutron.checking import discrepancy
from dilutron.gaussian import Sites
from tests.laws.lists import BACKENDS
from tests.problems import random_sites, teacher_problem

SHAPES = {"tall": (20, 3.0), "wide": (40, 0.5)}


def a_little(values, share):
    """The same, each changed by up to this share, by the same numbers at every call."""
    return values * (1.0 + share * np.random.default_rng(0).uniform(-1.0, 1.0, values.size))


def last(values, change):
    return np.append(values[:-1], change(values[-1]))


LIES = {
    "means of weights": lambda m, n: m._replace(mean=np.append(a_little(m.mean[:n], 1e-3), m.mean[n:])),
    "means of labels": lambda m, n: m._replace(mean=np.append(m.mean[:n], a_little(m.mean[n:], 1e-3))),
    "one mean turned over": lambda m, n: m._replace(mean=np.append(-m.mean[0], m.mean[1:])),
    "variances": lambda m, n: m._replace(var=a_little(m.var, 1e-2)),
    "variances of weights, all larger": lambda m, n: m._replace(var=np.append(1.001 * m.var[:n], m.var[n:])),
    "variances of labels, all smaller": lambda m, n: m._replace(var=np.append(m.var[:n], 0.999 * m.var[n:])),
    "one variance": lambda m, n: m._replace(var=last(m.var, lambda v: 1.1 * v)),
}


class Lying:
    """A backend whose marginals are not what its sites say."""

    def __init__(self, honest, lie):
        self.honest, self.lie, self.shape = honest, lie, honest.shape

    def marginals(self, sites):
        return self.lie(self.honest.marginals(sites), self.shape[1])

    def __getattr__(self, name):
        return getattr(self.honest, name)


def solved(shape, **kwargs):
    problem, _ = teacher_problem(*SHAPES[shape], seed=3, eta=0.9)
    options = EPOptions(max_iter=500, **kwargs)
    return solve(problem, SpikeSlab(0.25), ThetaMixture(0.9), options=options, intercept=Normal(0.1))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_a_lying_backend_is_caught(lie, shape, monkeypatch):
    """EP finds a fixed point of the wrong map, and its moments match there."""
    assert solved(shape).status is Status.CONVERGED
    choose = student.choose
    monkeypatch.setattr(student, "choose", lambda design: Lying(choose(design), lie))
    posterior = solved(shape)
    assert min(mark.error for mark in posterior.trace) < 1e-6, "EP itself sees nothing"
    assert posterior.status is Status.DIVERGED
    assert posterior.mismatch == np.inf


def turned(product):
    """A BLAS routine that gets the sign of one entry wrong."""

    def wrong(*args, **kwargs):
        found = product(*args, **kwargs)
        array = found[0] if isinstance(found, tuple) else found
        array[-1, 0] *= -1.0
        return found

    return wrong


def faint(product):
    """One that loses the last digits."""

    def wrong(*args, **kwargs):
        found = product(*args, **kwargs)
        array = found[0] if isinstance(found, tuple) else found
        array *= 1.0 + 1e-4
        return found

    return wrong


@pytest.mark.parametrize("harm", [turned, faint])
@pytest.mark.parametrize("routine", ["dsyrk", "dtrmm", "dpotrf", "dtrtri"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_wrong_blas_is_caught(shape, routine, harm, monkeypatch):
    """Or does no harm: what is squared in the end may have any sign."""
    honest, called = solved(shape), []
    wrong = harm(getattr(gaussian, routine))
    monkeypatch.setattr(gaussian, routine, lambda *args, **kwargs: called.append(1) or wrong(*args, **kwargs))
    posterior = solved(shape)
    assert called
    if posterior.status is Status.CONVERGED:
        np.testing.assert_allclose(posterior.mean, honest.mean, atol=1e-6)
        np.testing.assert_allclose(posterior.std, honest.std, rtol=1e-5)


def test_while_learning_too(monkeypatch):
    choose = student.choose
    monkeypatch.setattr(student, "choose", lambda design: Lying(choose(design), LIES["variances"]))
    assert solved("tall", learn=("eta", "rho")).status is Status.DIVERGED


def test_the_estimator_warns(monkeypatch):
    choose = student.choose
    monkeypatch.setattr(student, "choose", lambda design: Lying(choose(design), LIES["means of weights"]))
    _, truth = teacher_problem(20, 3.0)
    with pytest.warns(ConvergenceWarning, match="failed its own check"):
        model = EPClassifier().fit(truth.X, truth.labels)
    assert model.status_ == "diverged"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(30, 12), (12, 30)])
def test_an_honest_backend_passes_with_room(backend, shape):
    """Negative and vanishing precisions too: six digits below what is let through."""
    rng = np.random.default_rng(0)
    design = rng.standard_normal(shape)
    for _ in range(5):
        sites = random_sites(design, rng, lowered_weights=2, lowered_labels=2, silent=2, faint=2)
        assert discrepancy(design, sites, backend(design).marginals(sites)) < 1e-12 < student.SOUND


def test_what_is_no_number_does_not_pass():
    design = np.eye(2)
    sites = Sites(np.ones(4), np.ones(4))
    marginals = gaussian.Primal(design).marginals(sites)
    assert discrepancy(design, sites, marginals) < 1e-15
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for bad in (np.nan, -1.0, 0.0, np.inf):
            assert (
                discrepancy(design, sites, marginals._replace(var=last(marginals.var, lambda v, bad=bad: bad)))
                == np.inf
            )
        assert discrepancy(design, sites, marginals._replace(mean=last(marginals.mean, lambda v: np.nan))) == np.inf

"""At a fixed point the log evidence has only its explicit slopes: the sites are stationary."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dilutron import Probit, RobustProbit, SpikeSlab, Status, Theta, ThetaMixture
from dilutron.ep import log_evidence
from dilutron.ladder import settle
from dilutron.priors import Gaussians
from tests.laws.lists import BACKENDS
from tests.problems import pair_of_blocks, teacher_problem

FIXED = {
    "theta": (SpikeSlab(0.3, 0.8), Theta()),
    "theta mixture": (SpikeSlab(0.25), ThetaMixture(0.9)),
    "probit": (SpikeSlab(0.4, 2.0), Probit(3.0)),
    "robust probit": (SpikeSlab(0.2), RobustProbit(0.85, 5.0)),
    "per feature": (SpikeSlab(np.linspace(0.1, 0.6, 20), np.linspace(0.5, 2, 20)), RobustProbit(0.9, 4.0)),
}
CASES = [
    (kind, role, name)
    for kind, priors in FIXED.items()
    for role, prior in enumerate(priors)
    for name in prior.parameters
    if np.all(np.isfinite(getattr(prior, name))) and not (name == "eta" and prior.eta == 1.0)
]


def rest(design, priors, backend, start=None):
    settled = settle(backend(design), pair_of_blocks(*priors, design.shape), tol=1e-10, max_iter=2000, start=start)
    assert settled.status is Status.CONVERGED
    return settled.state.here


def step_of(prior, name):
    value = getattr(prior, name)
    return 1e-3 * min(np.min(value), np.min(1.0 - value) if name in ("rho", "eta") else np.inf)


def moved_by(kind, role, name, k):
    priors = list(FIXED[kind])
    priors[role] = replace(priors[role], **{name: getattr(priors[role], name) + k * step_of(priors[role], name)})
    return priors


@cache
def design_of(kind, alpha):
    return teacher_problem(20, alpha, seed=4, eta=0.9 if kind != "theta" else 1.0)[0].signed()


@cache
def first_rest(kind, alpha, *move):
    """Where the first backend comes to rest. The others begin there: all have to rest at the same sites."""
    priors, start = (moved_by(kind, *move), first_rest(kind, alpha)) if move else (FIXED[kind], None)
    return rest(design_of(kind, alpha), priors, BACKENDS[0], start).sites


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("alpha", [0.6, 2.0])
@pytest.mark.parametrize(("kind", "role", "name"), CASES)
def test_slopes_of_the_evidence_are_explicit(kind, role, name, alpha, backend):
    design, priors = design_of(kind, alpha), FIXED[kind]
    here = rest(design, priors, backend, first_rest(kind, alpha))
    where = pair_of_blocks(*priors, design.shape)[role].where
    explicit = np.sum(priors[role].slopes(Gaussians(here.cavity.mean[where], here.cavity.var[where]))[name])
    step = step_of(priors[role], name)

    def shifted(k):
        start = first_rest(kind, alpha, role, name, k)
        return log_evidence(rest(design, moved_by(kind, role, name, k), backend, start))

    numerical = (8 * (shifted(1) - shifted(-1)) - (shifted(2) - shifted(-2))) / (12 * step)
    np.testing.assert_allclose(numerical, explicit, rtol=1e-5, atol=1e-6)


def test_evidence_prefers_the_truth():
    """On a clean problem, right labels beat shuffled ones, and the true density beats a wrong one."""
    problem, truth = teacher_problem(40, 4.0, seed=3)
    design = problem.signed()
    right = log_evidence(rest(design, (SpikeSlab(0.25), Probit(10.0)), BACKENDS[0]))
    shuffled = truth.X * np.random.default_rng(0).permutation(truth.labels)[:, None]
    assert log_evidence(rest(shuffled, (SpikeSlab(0.25), Probit(10.0)), BACKENDS[0])) < right - 20
    assert log_evidence(rest(design, (SpikeSlab(0.95), Probit(10.0)), BACKENDS[0])) < right - 1

"""EP with tied variances is VAMP: grVAMP's fixed points, EP's in the limit of large problems, an honest evidence."""

from dataclasses import replace

import numpy as np
import pytest

from dilutron import EPOptions, Normal, Probit, Problem, SpikeSlab, Status, Theta, ThetaMixture, solve
from dilutron.baselines.grvamp import GrVAMPOptions
from dilutron.data import lesson
from dilutron.ep import log_evidence
from dilutron.ladder import settle
from dilutron.tied import Tied
from tests.laws.test_evidence import CASES, FIXED
from tests.laws.test_reference_runs import RUNS
from tests.problems import pair_of_blocks, teacher_problem


def assert_same_point(vamp, grvamp, atol):
    assert vamp.status is grvamp.status is Status.CONVERGED
    for name in ("mean", "inclusion", "flip"):
        np.testing.assert_allclose(getattr(vamp, name), getattr(grvamp, name), atol=atol, err_msg=name)
    np.testing.assert_allclose(np.mean(vamp.std**2), np.mean(grvamp.std**2), rtol=10 * atol)


@pytest.mark.parametrize("name", RUNS)
def test_grvamp_by_default_converges_to_the_same_point(shared_runs, name):
    """On all sixteen instances, correlated ones included; measured: at most 1.5e-4 where convergence is slow."""
    with np.load(shared_runs / f"{name}.npz") as run:
        problem = Problem.from_arrays(run["X"], run["labels"])
        priors = SpikeSlab(float(run["rho"])), ThetaMixture(float(run["eta"]))
    vamp, grvamp = (solve(problem, *priors, method) for method in ("vamp", "grvamp"))
    assert grvamp.mismatch < 1e-6
    assert_same_point(vamp, grvamp, 5e-4)


WEIGHTS = {
    "spike and slab": SpikeSlab(0.25),
    "normal": Normal(2.0),
    "per feature": SpikeSlab(np.linspace(0.1, 0.5, 40), np.linspace(0.5, 2.0, 40)),
}


@pytest.mark.parametrize("patterns", ["iid", "mvn"])
@pytest.mark.parametrize("alpha", [0.6, 2.0])
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
def test_two_programs_one_fixed_point(weights, alpha, patterns):
    problem, _ = teacher_problem(40, alpha, seed=1, eta=0.9, patterns=patterns)
    vamp = solve(problem, weights, Probit(2.0), "vamp", EPOptions(tol=1e-9))
    grvamp = solve(problem, weights, Probit(2.0), "grvamp", GrVAMPOptions(tol=1e-9))
    assert vamp.status is grvamp.status is Status.CONVERGED
    for name in ("mean", "flip"):
        np.testing.assert_allclose(getattr(vamp, name), getattr(grvamp, name), atol=1e-6, err_msg=name)


def test_they_learn_the_same_parameters():
    problem, _ = teacher_problem(80, 4.0, seed=0, rho=0.15, eta=0.9)
    priors, learn = (SpikeSlab(0.5), ThetaMixture(0.7)), ("rho", "eta")
    vamp = solve(problem, *priors, "vamp", EPOptions(learn=learn, learn_tol=1e-6))
    grvamp = solve(problem, *priors, "grvamp", GrVAMPOptions(learn=learn, tol=1e-7))
    assert vamp.status is grvamp.status is Status.CONVERGED
    assert vamp.weights.rho == pytest.approx(grvamp.weights.rho, rel=1e-3)
    assert vamp.labels.eta == pytest.approx(grvamp.labels.eta, rel=1e-4)


def gaps(n_weights, n_instances):
    """Squared distance of the two posterior means, in units of the posterior's own variance."""
    found = []
    for seed in range(n_instances):
        truth = lesson(n_weights, 1.0, np.random.default_rng([n_weights, seed]), exact=False)
        problem = Problem.from_arrays(truth.X, truth.labels)
        ep, vamp = (solve(problem, SpikeSlab(0.25), Theta(), method, EPOptions(tol=1e-4)) for method in ("ep", "vamp"))
        assert ep.status is vamp.status is Status.CONVERGED
        found.append(np.sum((ep.mean - vamp.mean) ** 2) / np.sum(ep.std**2))
    return np.mean(found), np.std(found, ddof=1) / np.sqrt(n_instances)


def test_large_iid_problems_need_no_variance_of_each_weight():
    """Measured at N = 64, 128, 256, 512: 0.024(4), 0.015(2), 0.006(1), 0.0027(3), so about 1.5 / N."""
    (small, small_error), (large, large_error) = gaps(64, 16), gaps(512, 3)
    assert large + 2 * large_error < (small - 2 * small_error) / 3
    assert large < 0.006


def tied_rest(design, priors, start=None):
    blocks = tuple(block._replace(tied=True) for block in pair_of_blocks(*priors, design.shape))
    settled = settle(Tied(design), blocks, tol=1e-10, max_iter=3000, start=start)
    assert settled.status is Status.CONVERGED
    return settled.state


@pytest.mark.parametrize("alpha", [0.6, 2.0])
@pytest.mark.parametrize(("kind", "role", "name"), CASES)
def test_slopes_of_the_evidence_are_explicit(kind, role, name, alpha):
    """As for EP: tied sites are stationary too."""
    problem, _ = teacher_problem(20, alpha, seed=4, eta=0.9 if kind != "theta" else 1.0)
    design, priors = problem.signed(), list(FIXED[kind])
    state = tied_rest(design, priors)
    explicit = np.sum(priors[role].slopes(state.blocks[role].part(state.here.cavity))[name])
    value = getattr(priors[role], name)
    step = 1e-3 * np.min(value)
    if name in ("rho", "eta"):
        step = min(step, 1e-3 * np.min(1.0 - value))

    def shifted(k):
        moved = list(priors)
        moved[role] = replace(priors[role], **{name: value + k * step})
        return log_evidence(tied_rest(design, moved, state.here.sites).here)

    numerical = (8 * (shifted(1) - shifted(-1)) - (shifted(2) - shifted(-2))) / (12 * step)
    np.testing.assert_allclose(numerical, explicit, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("alpha", [0.6, 2.0])
def test_sites_are_tied(alpha):
    """One precision for all weights and one for all labels, wherever the run began."""
    problem, _ = teacher_problem(20, alpha, seed=4, eta=0.9)
    priors = SpikeSlab(0.25), ThetaMixture(0.9)
    ep, vamp = (solve(problem, *priors, method) for method in ("ep", "vamp"))
    from_ep = solve(problem, *priors, "vamp", EPOptions(fallback=False), start=ep)
    assert vamp.status is from_ep.status is Status.CONVERGED
    np.testing.assert_allclose(from_ep.mean, vamp.mean, atol=1e-5)
    for posterior in (vamp, from_ep):
        for part in (slice(0, 20), slice(20, None)):
            assert np.ptp(posterior.sites.precision[part]) < 1e-9

import numpy as np
import pytest

from dilutron import EPOptions, Problem, RobustProbit, SpikeSlab, Status, solve, student
from dilutron.gaussian import Dual, Primal, Sites
from dilutron.single import LOUD, Single, quick


def soft_sites(rng, n_labels, n_weights, label):
    """Weights of which most are nearly sure to be absent, and labels of this precision in units of the fields'."""
    weight = np.concatenate([rng.uniform(0.5, 2.0, 5), rng.uniform(1e2, 1e3, n_weights - 5)])
    power = np.sum(1.0 / weight)
    precision = np.concatenate([weight, label / power * rng.uniform(0.5, 1.0, n_labels)])
    return Sites(precision, rng.standard_normal(n_weights + n_labels))


@pytest.mark.parametrize("label", [0.1, 10.0, 1e6])
def test_single_precision_has_four_digits_and_leaves_hard_labels_to_double(label):
    rng = np.random.default_rng(0)
    design = rng.standard_normal((40, 300))
    sites = soft_sites(rng, 40, 300, label)
    rough, exact = Single(design).marginals(sites), Dual(design).marginals(sites)
    unit = np.sqrt(exact.var)
    np.testing.assert_allclose(rough.mean / unit, exact.mean / unit, atol=1e-4)
    np.testing.assert_allclose(rough.var, exact.var, rtol=1e-4)
    assert (rough.log_z == exact.log_z) == (label > LOUD)


def test_what_single_precision_led_to_is_looked_at_in_double(monkeypatch):
    """The moments of an answer match in double precision, to the tolerance asked for."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 300))
    problem = Problem.from_arrays(X, np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0))
    called = []
    honest = Single.marginals
    monkeypatch.setattr(Single, "marginals", lambda self, sites: called.append(1) or honest(self, sites))
    loose = solve(problem, SpikeSlab(0.01), RobustProbit(0.95, 1.0), options=EPOptions(tol=1e-3))
    assert called
    assert loose.status is Status.CONVERGED
    exact = Dual(problem.signed()).marginals(loose.sites)
    np.testing.assert_allclose(loose.mean, exact.mean[:300], atol=1e-3)
    called.clear()
    solve(problem, SpikeSlab(0.01), RobustProbit(0.95, 1.0), options=EPOptions(tol=1e-6))
    assert not called, "tight tolerances are beyond single precision"


def test_entries_without_a_square_in_single_precision_stay_in_double():
    assert isinstance(quick(Dual(np.ones((2, 3)))), Single)
    huge = Dual(np.full((2, 3), 1e30))
    assert quick(huge) is huge
    tall = Primal(np.ones((3, 2)))
    assert quick(tall) is tall


def test_an_answer_in_single_precision_that_is_not_exact_enough_is_made_in_double(monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 300))
    problem = Problem.from_arrays(X, np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0))
    honest = Single.marginals

    def dishonest(self, sites):
        found = honest(self, sites)
        return found._replace(var=found.var * 1.001, means_at=None)

    looked, again = [], student._looked_at_again
    monkeypatch.setattr(Single, "marginals", dishonest)
    monkeypatch.setattr(student, "_looked_at_again", lambda *a: looked.append(1) or again(*a))
    loose = solve(problem, SpikeSlab(0.01), RobustProbit(0.95, 1.0), options=EPOptions(tol=1e-2))
    assert loose.status is Status.CONVERGED
    tilted = Dual(problem.signed()).marginals(loose.sites)
    np.testing.assert_allclose(loose.std**2, tilted.var[:300], rtol=2e-2)
    assert looked, "the discrepancy was seen"

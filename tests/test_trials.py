"""A trial is what its cell says, whoever computes it."""

import numpy as np
import pytest

from dilutron import EPOptions, Status
from dilutron.data.glauber import Ending
from dilutron.experiments import trials
from dilutron.experiments.trials import (
    TRIALS,
    VARIANTS,
    key_of,
    learning_trial,
    network_trial,
    program_of,
    rng_of,
    teacher_trial,
)

TEACHER = {"n": 32, "rho": 0.25, "eta": 0.9, "alpha": 3.0, "patterns": "iid", "method": "ep"}
NETWORK = {"n": 64, "rho": 0.25, "eta": 1.0, "alpha": 3.0, "dynamics": "synchronous", "learn": False, "method": "ep"}


@pytest.fixture
def seen(monkeypatch):
    """What the solver is given."""
    calls, solve = [], trials.solve

    def spy(problem, weights, labels, **more):
        calls.append((problem, weights, labels, more))
        return solve(problem, weights, labels, **more)

    monkeypatch.setattr(trials, "solve", spy)
    return calls


def test_all_methods_see_the_same_problem_with_the_true_parameters(seen):
    for method in ("ep", "amp", "grvamp"):
        teacher_trial({**TEACHER, "method": method}, 5)
    problems = [problem for problem, *_ in seen]
    for problem, weights, labels, _ in seen:
        np.testing.assert_array_equal(problem.X, problems[0].X)
        np.testing.assert_array_equal(problem.labels, problems[0].labels)
        assert (weights.rho, weights.lam, labels.eta, labels.beta) == (0.25, 1.0, 0.9, np.inf)
    assert problems[0].X.shape == (96, 32)


def test_the_order_of_a_cells_names_does_not_matter_and_its_values_do():
    turned = dict(reversed(TEACHER.items()))
    assert key_of(turned) == key_of(TEACHER)
    first = rng_of("teacher", TEACHER, 3).random()
    assert rng_of("teacher", {**turned, "method": "amp"}, 3).random() == first
    others = [
        rng_of("teacher", TEACHER, 4),
        rng_of("learning", TEACHER, 3),
        rng_of("teacher", {**TEACHER, "alpha": 2.0}, 3),
    ]
    assert first not in [other.random() for other in others]


def test_a_row_names_the_program_and_the_options_that_made_it(monkeypatch):
    named = {variant: program_of(variant) for variant in VARIANTS}
    assert len(set(named.values())) == len(VARIANTS)
    assert teacher_trial(TEACHER, 1)["program"] == named["ep"]
    monkeypatch.setitem(VARIANTS, "ep", ("ep", EPOptions(tol=1e-3)))
    assert program_of("ep") != named["ep"]
    monkeypatch.setitem(trials.PROGRAMS, "amp", 99)
    assert program_of("amp") != named["amp"]


def test_the_same_trial_twice():
    first, second = (teacher_trial(TEACHER, 1) for _ in range(2))
    assert {**first, "cpu_seconds": 0} == {**second, "cpu_seconds": 0}


def test_places_of_the_weights_that_are_present_tell_the_area():
    row = teacher_trial(TEACHER, 2)
    for places, area in (("ranks", "auc"), ("ranks_inclusion", "auc_inclusion")):
        place = np.array(row[places].split(), dtype=int)
        assert place.size == 8
        assert np.all(np.diff(place) > 0)
        wrong_above = place - np.arange(8)  # absent weights ranked above each present one
        assert row[area] == pytest.approx(1.0 - wrong_above.sum() / (8 * 24))


@pytest.mark.parametrize(("eta", "learn"), [(1.0, ("rho",)), (0.9, ("rho", "eta"))])
def test_learning_starts_anywhere_and_learns_eta_only_from_noisy_labels(seen, eta, learn):
    rows = [learning_trial({**TEACHER, "eta": eta, "alpha": 1.0}, k) for k in range(6)]
    starts = [weights.rho for _, weights, _, _ in seen]
    assert all(0.05 <= start <= 0.95 for start in starts)
    assert np.std(starts) > 0.1
    assert {more["options"].learn for *_, more in seen} == {learn}
    assert {row["right"] for row in rows} == {1.0 - round((1.0 - eta) * 32) / 32}
    etas = [labels.eta for _, _, labels, _ in seen]
    assert set(etas) == {1.0} if eta == 1.0 else (min(etas) >= 0.5 and np.std(etas) > 0.05)


def test_a_perceptron_of_a_network_sees_the_others_and_smaller_alphas_the_first_patterns(seen):
    network_trial(NETWORK, 7)
    network_trial({**NETWORK, "alpha": 1.0}, 7)
    (large, *_), (small, *_) = seen
    assert large.X.shape == (192, 63)
    np.testing.assert_array_equal(small.X, large.X[:64])
    made = trials._recorded(64, 0.25, "synchronous")
    np.testing.assert_array_equal(np.delete(made.patterns[:192], 7, axis=1), large.X)
    np.testing.assert_array_equal(np.sign(large.X @ made.network.weights[7][np.arange(64) != 7] + 1e-12), large.labels)


def test_more_patterns_than_were_recorded_are_refused():
    with pytest.raises(ValueError, match=r"alpha of a recurrent network must be at most 6, got 6\.5"):
        network_trial({**NETWORK, "alpha": 6.5}, 0)


def test_a_network_that_stops_early_is_no_trial(monkeypatch):
    trials._recorded.cache_clear()
    with pytest.raises(ValueError, match=r"the network stopped after \d+ patterns"):
        trials._recorded(4, 0.25, "synchronous")
    assert Ending.COMPLETE.message


@pytest.mark.parametrize("kind", TRIALS)
def test_rows_are_flat_and_tell_how_the_run_ended(kind):
    cell = NETWORK if kind == "network" else TEACHER
    row = TRIALS[kind](cell, 0)
    assert Status(row["status"]) is Status.CONVERGED
    assert all(isinstance(value, (str, int, float)) for value in row.values())
    assert 0.0 <= row["auc"] <= 1.0
    assert row["mse"] > 0.0


def test_a_perceptron_whose_fixed_point_has_an_improper_label_cavity():
    """One of the 3456 runs of Fig. 6; with a stricter `priors.PUSH` no rung of the ladder converges on it."""
    row = network_trial({**NETWORK, "n": 128, "alpha": 6.0, "dynamics": "distance"}, 97)
    assert row["status"] == Status.CONVERGED.value

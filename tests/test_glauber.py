from functools import partial
from itertools import pairwise, permutations

import numpy as np
import pytest

from dilutron.data.glauber import (
    DYNAMICS,
    Ending,
    Network,
    diluted_network,
    fixed_distance,
    full_sweeps,
    synchronous,
)

# Two perceptrons of which one follows the other and the other flees it: all four states, one after the other, for ever.
CHASE = np.array([[0.0, 1.0], [-1.0, 0.0]])


def seeded(seed):
    return np.random.default_rng(seed)


def ferromagnet(n):
    return Network(1.0 - np.eye(n))


def chase_among_friends(n):
    """The chase, and beside it a ferromagnet that freezes."""
    weights = np.zeros((n, n))
    weights[:2, :2] = CHASE
    weights[2:, 2:] = 1.0 - np.eye(n - 2)
    return Network(weights)


def transitions(recording):
    """Pairs of stored patterns of which the second was made from the first."""
    fresh = set(recording.starts)
    return [pair for row, pair in enumerate(pairwise(recording.patterns), start=1) if row not in fresh]


@pytest.fixture(scope="module")
def network():
    return diluted_network(128, 0.25, seeded(0))


@pytest.fixture(scope="module")
def recordings(network):
    return {name: run(network, 768, seeded(1)) for name, run in DYNAMICS.items()}


# The network


def test_rows_are_diluted_teachers_without_self_loops(network):
    np.testing.assert_array_equal(np.diagonal(network.weights), 0.0)
    np.testing.assert_array_equal(np.count_nonzero(network.weights, axis=1), round(0.25 * 127))
    present = network.weights[network.weights != 0]
    assert abs(present.mean()) < 0.06
    assert present.var() == pytest.approx(1.0, abs=0.1)


def test_density_can_be_drawn():
    counts = np.count_nonzero(diluted_network(128, 0.25, seeded(0), exact=False).weights, axis=1)
    assert counts.std() > 2.0
    assert counts.mean() == pytest.approx(0.25 * 127, abs=2.0)


def test_answers():
    network = Network(np.array([[0.0, 2.0, -1.0], [1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]))
    np.testing.assert_array_equal(network.answers(np.array([1.0, -1.0, 1.0])), [-1.0, 1.0, 1.0])
    np.testing.assert_array_equal(network.answers(np.array([[1.0, 1.0, -1.0]])), [[1.0, 1.0, 1.0]])  # sign(0) = 1


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros((2, 3)), "square"),
        (np.zeros(4), "square"),
        (np.zeros((1, 1)), "square"),
        (np.eye(3), "self-loops"),
        (np.array([[0.0, np.nan], [1.0, 0.0]]), "finite"),
    ],
)
def test_what_is_no_network(weights, message):
    with pytest.raises(ValueError, match=message):
        Network(weights)


# The dynamics of the paper's size


@pytest.mark.parametrize("name", DYNAMICS)
def test_a_network_of_the_paper_gives_all_patterns(recordings, name):
    recording = recordings[name]
    assert recording.patterns.shape == (768, 128)
    assert set(np.unique(recording.patterns)) == {-1.0, 1.0}
    assert (recording.ending, recording.period, recording.starts) == (Ending.COMPLETE, None, (0,))
    assert abs(recording.patterns[0].mean()) < 4 / np.sqrt(128)  # a random start


def correlations(patterns):
    return np.array([np.corrcoef(*pair)[0, 1] for pair in pairwise(patterns)])


def test_the_distance_is_met_exactly(recordings):
    patterns = recordings["distance"].patterns
    assert {int(np.count_nonzero(a != b)) for a, b in pairwise(patterns)} == {10}
    assert {float(a @ b) / 128 for a, b in pairwise(patterns)} == {1 - 20 / 128}
    assert correlations(patterns).mean() == pytest.approx(0.84, abs=0.005)  # the paper's number
    assert len(np.unique(patterns, axis=0)) == 768


def test_the_other_dynamics_are_weakly_correlated(recordings):
    assert abs(correlations(recordings["synchronous"].patterns).mean()) < 0.05
    assert 0.1 < correlations(recordings["sweep"].patterns).mean() < 0.4


@pytest.mark.parametrize("name", DYNAMICS)
def test_the_seed_decides_and_a_short_recording_begins_a_long_one(network, recordings, name):
    short, other = (DYNAMICS[name](network, 40, seeded(seed)) for seed in (1, 2))
    np.testing.assert_array_equal(short.patterns, recordings[name].patterns[:40])
    assert not np.array_equal(short.patterns, other.patterns)


# Every transition, against a slow twin


def test_synchronous_transitions(recordings):
    recording = recordings["synchronous"]
    np.testing.assert_array_equal(recording.network.answers(recording.patterns[:-1]), recording.patterns[1:])


def updated(network, state, i):
    """`state` after perceptron i had its turn, by the definition."""
    after = state.copy()
    others = np.arange(state.size) != i
    after[i] = 1.0 if network.weights[i, others] @ state[others] >= 0 else -1.0
    return after


def swept(network, state, order):
    for i in order:
        state = updated(network, state, i)
    return state


def test_a_sweep_gives_each_perceptron_one_turn():
    for seed in range(10):
        recording = full_sweeps(diluted_network(5, 0.5, seeded(seed)), 20, seeded(seed), restart=True)
        for before, after in transitions(recording):
            assert any(
                np.array_equal(swept(recording.network, before, order), after) for order in permutations(range(5))
            )


def reachable(network, start, distance):
    """All patterns at which a walk of single updates from `start` can first have come this far."""
    arrivals, inside, queue = set(), {tuple(start)}, [start]
    while queue:
        state = queue.pop()
        for i in range(start.size):
            after = updated(network, state, i)
            if np.count_nonzero(after != start) == distance:
                arrivals.add(tuple(after))
            elif tuple(after) not in inside:
                inside.add(tuple(after))
                queue.append(after)
    return arrivals


@pytest.mark.parametrize("distance", [1, 2, 3])
def test_a_stored_pattern_is_where_updates_can_first_come_so_far(distance):
    for seed in range(10):
        network = diluted_network(6, 0.5, seeded(seed))
        recording = fixed_distance(network, 20, seeded(seed), distance=distance, restart=True)
        assert all(tuple(after) in reachable(network, before, distance) for before, after in transitions(recording))


def test_updates_without_effect_can_be_left_out():
    """At distance 1 the next pattern is a flip of any perceptron that wants one, each as likely."""
    network = diluted_network(8, 0.5, seeded(3))
    recording = fixed_distance(network, 40_000, seeded(0), distance=1, restart=True)
    flips = {}
    for before, after in transitions(recording):
        flips.setdefault(tuple(before), []).append(int(np.argmax(before != after)))
    common = {state: sites for state, sites in flips.items() if len(sites) > 1000}
    assert common
    for state, sites in common.items():
        restless = np.flatnonzero(network.answers(np.array(state)) != state)
        counts = np.bincount(sites, minlength=8)
        assert counts.sum() == counts[restless].sum()
        np.testing.assert_allclose(counts[restless] / len(sites), 1 / restless.size, atol=5 * 0.5 / len(sites) ** 0.5)


# How it can end


def test_a_chase_is_a_limit_cycle():
    recording = synchronous(Network(CHASE), 100, seeded(0))
    assert (recording.ending, recording.period) == (Ending.LIMIT_CYCLE, 4)
    assert len(np.unique(recording.patterns, axis=0)) == len(recording.patterns) == 4


@pytest.mark.parametrize("n", [3, 5, 9])
def test_a_shift_register_comes_back_after_one_turn(n):
    """Each perceptron copies the one before it; N is no power of two and byte boundaries are crossed."""
    recording = synchronous(Network(np.roll(np.eye(n), 1, axis=0)), 1000, seeded(3))
    assert recording.ending is (Ending.LIMIT_CYCLE if recording.period > 1 else Ending.FROZEN)
    assert n % recording.period == 0
    assert len(recording.patterns) == recording.period
    np.testing.assert_array_equal(recording.network.answers(recording.patterns[-1]), recording.patterns[0])


def test_two_perceptrons_that_copy_each_other():
    ends = {synchronous(Network(np.array([[0.0, 1.0], [1.0, 0.0]])), 9, seeded(k)).period for k in range(20)}
    assert ends == {1, 2}


@pytest.mark.parametrize("run", [*DYNAMICS.values(), partial(fixed_distance, distance=1)])
def test_a_ferromagnet_freezes(run):
    recording = run(ferromagnet(31), 500, seeded(0))
    assert (recording.ending, recording.period, recording.starts) == (Ending.FROZEN, 1, (0,))
    assert 1 <= len(recording.patterns) < 500
    assert len(np.unique(recording.patterns, axis=0)) == len(recording.patterns)


def test_the_frozen_state_is_stored_once():
    for run in (synchronous, full_sweeps, partial(fixed_distance, distance=1)):
        recording = run(ferromagnet(31), 500, seeded(0))
        assert abs(recording.patterns[-1].sum()) == 31
        assert np.count_nonzero(np.abs(recording.patterns.sum(axis=1)) == 31) == 1


def test_a_walk_in_a_small_region_ends():
    recording = fixed_distance(chase_among_friends(20), 500, seeded(0), distance=18)
    assert (recording.ending, recording.period) == (Ending.WANDERING, None)
    assert len(recording.patterns) == 1
    more = fixed_distance(chase_among_friends(20), 500, seeded(0), distance=18, restart=True, patience=60)
    assert more.ending is Ending.COMPLETE
    assert len(more.starts) > 400


def test_patience_counts_changes():
    network = diluted_network(64, 0.25, seeded(0))
    assert fixed_distance(network, 5, seeded(0), distance=10, patience=9).ending is Ending.WANDERING
    assert fixed_distance(network, 5, seeded(0), distance=10).ending is Ending.COMPLETE


@pytest.mark.parametrize("run", [*DYNAMICS.values(), partial(fixed_distance, distance=1)])
def test_restarts_go_on_until_there_is_enough(run):
    recording = run(ferromagnet(31), 200, seeded(0), restart=True)
    assert recording.ending is Ending.COMPLETE
    assert recording.patterns.shape == (200, 31)
    assert len(recording.starts) > 1
    assert recording.starts[0] == 0
    np.testing.assert_array_equal(recording.starts, np.unique(recording.starts))
    assert all(np.any(before != after) for before, after in transitions(recording))
    alone = run(ferromagnet(31), 200, seeded(0))
    assert recording.starts[1] == len(alone.patterns)


def test_synchronous_restarts_obey_the_dynamics_and_store_nothing_twice():
    recording = synchronous(diluted_network(9, 0.5, seeded(1)), 150, seeded(0), restart=True)
    assert len(np.unique(recording.patterns, axis=0)) == len(recording.patterns) == 150
    assert len(recording.starts) > 1
    assert transitions(recording)
    for before, after in transitions(recording):
        np.testing.assert_array_equal(recording.network.answers(before), after)


def test_there_may_be_no_more_patterns():
    recording = synchronous(diluted_network(3, 0.5, seeded(1)), 100, seeded(0), restart=True)
    assert (recording.ending, recording.period) == (Ending.EXHAUSTED, None)
    assert len(np.unique(recording.patterns, axis=0)) == len(recording.patterns) == 8


@pytest.mark.parametrize("ending", Ending)
def test_every_ending_has_a_sentence(ending):
    assert ending.message.endswith(".")


# Lessons


@pytest.mark.parametrize("name", DYNAMICS)
def test_a_lesson_of_one_perceptron(recordings, name):
    recording = recordings[name]
    for i in (0, 50, 127):
        truth = recording.lesson(i)
        others = np.arange(128) != i
        np.testing.assert_array_equal(truth.X, recording.patterns[:, others])
        np.testing.assert_array_equal(truth.teacher, recording.network.weights[i, others])
        np.testing.assert_array_equal(truth.labels, np.where(truth.X @ truth.teacher >= 0, 1.0, -1.0))
        assert not truth.flipped.any()


def test_synchronous_labels_are_the_next_states(recordings):
    recording = recordings["synchronous"]
    for i in range(0, 128, 25):
        np.testing.assert_array_equal(recording.lesson(i).labels[:-1], recording.patterns[1:, i])


def test_labels_are_turned_over_in_exact_number(recordings):
    recording = recordings["distance"]
    clean, one, same, other = (
        recording.lesson(7, eta=eta, rng=seeded(k)) for eta, k in ((1.0, 0), (0.9, 0), (0.9, 0), (0.9, 1))
    )
    assert one.flipped.sum() == round(0.1 * 768)
    np.testing.assert_array_equal(one.labels != clean.labels, one.flipped)
    np.testing.assert_array_equal(one.flipped, same.flipped)
    assert not np.array_equal(one.flipped, other.flipped)


def test_what_a_lesson_needs(recordings):
    recording = recordings["distance"]
    with pytest.raises(ValueError, match="pass rng"):
        recording.lesson(0, eta=0.9)
    with pytest.raises(ValueError, match=r"from 0\.5 to 1, got 0\.2"):
        recording.lesson(0, eta=0.2, rng=seeded(0))
    with pytest.raises(ValueError, match="i must be below 128"):
        recording.lesson(128)
    with pytest.raises(ValueError, match="i must be a whole number"):
        recording.lesson(-1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"distance": 0}, "distance must be a whole number"),
        ({"distance": 6}, "distance must be at most 5"),
        ({"patience": 0}, "patience must be a whole number"),
        ({"n_patterns": 0}, "n_patterns must be a whole number"),
    ],
)
def test_what_is_wrong_is_said(wrong, message):
    with pytest.raises(ValueError, match=message):
        fixed_distance(**{"network": ferromagnet(5), "n_patterns": 3, "rng": seeded(0), "distance": 1, **wrong})
    with pytest.raises(ValueError, match="n must be a whole number, at least 2, got 1"):
        diluted_network(1, 0.5, seeded(0))

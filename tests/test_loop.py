from typing import NamedTuple

import numpy as np
import pytest

from dilutron.loop import SMALL, Memory, Point, Status, iterate, iterate_accelerated


class Halving(NamedTuple):
    error: float = 1.0
    steps: int = 0
    breaks_at: int = 1000

    @property
    def failed(self):
        return self.steps >= self.breaks_at


def halve(state):
    return state._replace(error=state.error / 2, steps=state.steps + 1)


def test_converged():
    run = iterate(halve, Halving(), tol=0.1, max_iter=100)
    assert run.status is Status.CONVERGED
    assert run.trace == (1.0, 0.5, 0.25, 0.125, 0.0625)
    assert run.last.error == run.trace[-1]


def test_converged_at_the_start_takes_no_step():
    assert iterate(halve, Halving(0.01), tol=0.1, max_iter=100).trace == (0.01,)


@pytest.mark.parametrize("max_iter", [1, 3])
def test_max_iter_counts_states(max_iter):
    run = iterate(halve, Halving(), tol=1e-9, max_iter=max_iter)
    assert run.status is Status.MAX_ITER
    assert len(run.trace) == max_iter


def test_diverged():
    run = iterate(halve, Halving(breaks_at=2), tol=1e-9, max_iter=100)
    assert run.status is Status.DIVERGED
    assert run.last.steps == 2


def test_nan_never_passes_for_converged():
    run = iterate(halve, Halving(float("nan")), tol=0.1, max_iter=5)
    assert run.status is Status.MAX_ITER


def test_stopped_and_the_callback_sees_every_state():
    seen = []

    def callback(state):
        seen.append(state.steps)
        return state.steps == 3

    run = iterate(halve, Halving(), tol=1e-9, max_iter=100, callback=callback)
    assert run.status is Status.STOPPED
    assert seen == [0, 1, 2, 3]
    assert run.last.steps == 3


class Bouncing(NamedTuple):
    steps: int = 0
    failed: bool = False

    @property
    def error(self):
        return (5.0, 3.0, 1.0, 4.0, 6.0, 2.0)[self.steps % 6]


def bounce(state):
    return state._replace(steps=state.steps + 1)


def test_the_best_state_is_kept_beside_the_last():
    run = iterate(bounce, Bouncing(), tol=1e-9, max_iter=6)
    assert run.best.error == 1.0
    assert run.last.error == 2.0
    assert run.trace == (5.0, 3.0, 1.0, 4.0, 6.0, 2.0)


def test_patience_runs_out_where_nothing_gets_better():
    run = iterate(bounce, Bouncing(), tol=1e-9, max_iter=1000, patience=10)
    assert run.status is Status.MAX_ITER
    assert run.best.steps == 2
    assert 12 <= len(run.trace) <= 15
    assert iterate(halve, Halving(), tol=1e-9, max_iter=1000, patience=2).status is Status.CONVERGED


def test_a_callback_that_only_looks_does_not_stop():
    run = iterate(halve, Halving(), tol=0.1, max_iter=100, callback=lambda state: "a word")
    assert run.status is Status.CONVERGED


def test_a_numpy_true_stops_as_well():
    """The natural result of a comparison of arrays' entries."""
    run = iterate(halve, Halving(), tol=1e-9, max_iter=50, callback=lambda state: np.bool_(state.steps == 3))
    assert run.status is Status.STOPPED


@pytest.mark.parametrize("status", Status)
def test_every_status_has_a_sentence(status):
    assert status.message.endswith(".")
    assert len({other.message for other in Status}) == len(Status)


def test_memory_forgets_all_but_the_latest():
    memory = Memory()
    for k in range(6):
        memory = memory.seen(np.full(2, k), np.full(2, -k), 3)
    assert [int(p[0]) for p in memory.points] == [2, 3, 4, 5]
    assert [int(r[0]) for r in memory.residuals] == [-2, -3, -4, -5]
    assert Memory().points == ()


def test_anderson_solves_a_linear_map_in_as_many_steps_as_it_has_dimensions():
    """On a linear fixed-point map it is GMRES: n + 1 residuals determine the answer in n dimensions."""
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((5, 5)) * 0.6  # expanding: plain iteration diverges
    offset = rng.standard_normal(5)
    answer = np.linalg.solve(np.eye(5) - matrix, offset)
    assert np.max(np.abs(np.linalg.eigvals(matrix))) > 1.0
    memory, point = Memory(), np.zeros(5)
    for _ in range(7):
        memory = memory.seen(point, matrix @ point + offset - point, 10)
        point = memory.extrapolated(np.ones(5), 0.5) if len(memory.points) > 1 else point + 0.5 * memory.residuals[-1]
    np.testing.assert_allclose(point, answer, rtol=1e-6)


def test_anderson_survives_parallel_residuals():
    memory = Memory().seen(np.zeros(3), np.ones(3), 5).seen(np.ones(3), np.ones(3), 5).seen(np.ones(3), np.ones(3), 5)
    assert np.all(np.isfinite(memory.extrapolated(np.ones(3), 0.5)))


class Spot(NamedTuple):
    values: np.ndarray
    error: float = np.inf
    failed: bool = False


class Slow:
    """A linear map that shrinks every direction at its own slow rate; the first leaps are refused."""

    def __init__(self, refusals=0):
        self.rates, self.offset, self.refusals, self.starts = np.linspace(0.9, 0.99, 6), np.arange(6.0), refusals, []
        self.last = np.zeros(6)

    def __call__(self, state):
        self.starts.append(state.values)
        if self.refusals and not np.array_equal(state.values, self.last):
            self.refusals -= 1
            return state._replace(failed=True)
        self.last = self.rates * state.values + self.offset
        return Spot(self.last, float(np.max(np.abs(self.last - state.values))))

    def run(self, **options):
        options = {"tol": 1e-8, "max_iter": 5000, **options}
        return iterate_accelerated(
            self, Spot(np.zeros(6)), point=lambda s: Point(s.values, np.ones(6)), moved=_at, **options
        )


def _at(state, values):
    return state._replace(values=values)


def test_acceleration_begins_where_the_error_is_small():
    slow = Slow()
    run, plain = slow.run(), iterate(Slow(), Spot(np.zeros(6)), tol=1e-8, max_iter=5000)
    assert run.status is plain.status is Status.CONVERGED
    same = np.flatnonzero(np.array(plain.trace) < SMALL)[0] + 1
    assert run.trace[:same] == plain.trace[:same]
    assert len(run.trace) < same + 15 < len(plain.trace) - 500
    np.testing.assert_allclose(run.last.values, slow.offset / (1.0 - slow.rates), rtol=1e-7)


def test_every_state_is_one_that_a_step_made():
    slow, seen = Slow(), []
    run = slow.run(callback=seen.append)
    assert len(seen) == len(run.trace) == len(slow.starts) + 1
    for start, state in zip(slow.starts, seen[1:], strict=True):
        np.testing.assert_array_equal(state.values, slow.rates * start + slow.offset)
    assert slow.run(callback=lambda state: state.error < SMALL).status is Status.STOPPED


def test_a_leap_from_which_there_is_no_step_is_taken_back():
    """The next step is a plain one from where the leap began, and after some of these leaps are tried again."""
    slow, seen = Slow(refusals=2), []
    run = slow.run(callback=lambda state: seen.append(state))
    refused = [k for k, start in enumerate(slow.starts) if seen[k + 1] is seen[k]]
    assert len(refused) == 2
    for k in refused:
        np.testing.assert_array_equal(slow.starts[k + 1], seen[k].values)
    assert run.status is Status.CONVERGED
    np.testing.assert_allclose(run.last.values, slow.offset / (1.0 - slow.rates), rtol=1e-7)

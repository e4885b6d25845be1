"""A recurrent network of diluted perceptrons, and the patterns its zero-temperature Glauber dynamics runs through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from dilutron.data.teacher import Lesson, diluted_teacher, flips, taught
from dilutron.options import whole
from dilutron.special import Vector

FRUITLESS = 100  # starts in a row without a new pattern, after which a recording that restarts gives up


@dataclass(frozen=True, eq=False)
class Network:
    """N perceptrons, each fed by the others. Make a random one with `diluted_network`.

    Attributes
    ----------
    weights : array of shape (N, N)
        Row i holds the incoming weights of perceptron i; the diagonal is zero.
    """

    weights: Vector

    def __post_init__(self) -> None:
        shape = np.shape(self.weights)
        if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 2:
            raise ValueError(f"weights must be a square matrix, 2 x 2 at least, got shape {shape}")
        if not np.all(np.isfinite(self.weights)):
            raise ValueError("weights must be finite numbers")
        if np.any(np.diagonal(self.weights)):
            raise ValueError("weights must be zero on the diagonal: there are no self-loops")

    def fields(self, patterns: Vector) -> Vector:
        """Inputs of all perceptrons, for one pattern of shape (N,) or for T of them, (T, N)."""
        return np.asarray(patterns @ self.weights.T)  # Eq. (56)

    def answers(self, patterns: Vector) -> Vector:
        """What each perceptron makes of each pattern, +1 or -1; sign(0) = 1."""
        return np.where(self.fields(patterns) >= 0.0, 1.0, -1.0)  # Eq. (57)


def diluted_network(n: int, rho: float, rng: np.random.Generator, exact: bool = True) -> Network:
    """N perceptrons; the weights of each on the N - 1 others are a `diluted_teacher` of its own."""
    whole(at_least=2, n=n)
    weights = np.zeros((n, n))
    weights[~np.eye(n, dtype=np.bool_)] = np.concatenate([diluted_teacher(n - 1, rho, rng, exact) for _ in range(n)])
    return Network(weights)


class Ending(Enum):
    """How a recording ended."""

    COMPLETE = "complete"
    LIMIT_CYCLE = "limit_cycle"
    FROZEN = "frozen"
    WANDERING = "wandering"
    EXHAUSTED = "exhausted"

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return _MESSAGES[self]


_MESSAGES = {
    Ending.COMPLETE: "As many patterns as asked for were stored.",
    Ending.LIMIT_CYCLE: "The synchronous dynamics came back to a pattern it had left: only a cycle would follow.",
    Ending.FROZEN: "No perceptron wanted to change any more.",
    Ending.WANDERING: "The dynamics went on, but did not come as far as `distance` from the last pattern.",
    Ending.EXHAUSTED: f"{FRUITLESS} new starts in a row led to known patterns only.",
}


@dataclass(frozen=True, eq=False)
class Recording:
    """The patterns that a network ran through, and how the run ended.

    A run that could not go on holds what it had stored until then: T may be less than what was asked for. Two
    patterns that follow one another always differ; those of the synchronous dynamics all differ.

    Attributes
    ----------
    network : Network
    patterns : array of shape (T, N), values -1 and +1
        The first of each start is random, and the dynamics made the others.
    ending : Ending
    period : int or None
        Of the limit cycle; 1 in a frozen state; None otherwise.
    starts : tuple of ints
        The rows at which the dynamics set out from a fresh random pattern. Without restarts (0,).
    """

    network: Network
    patterns: Vector
    ending: Ending
    period: int | None
    starts: tuple[int, ...]

    def lesson(self, i: int, *, eta: float = 1.0, rng: np.random.Generator | None = None) -> Lesson:
        """What perceptron i can learn from: the others' states, and its own answers to them, some turned over.

        The answer to pattern t is sign(w_i . x_t). In the synchronous dynamics that is the perceptron's state in
        pattern t + 1; in the asynchronous ones it is what the perceptron would do if its turn came.

        Parameters
        ----------
        i : int
            The perceptron, from 0 to N - 1.
        eta : float
            Fraction of right labels, from 0.5 to 1: exactly round((1 - eta) T) are turned over.
        rng : numpy Generator, optional
            Needed where eta is below 1.
        """
        n_patterns, n = self.patterns.shape
        whole(at_least=0, i=i)
        if i >= n:
            raise ValueError(f"i must be below {n}, the number of perceptrons, got {i}")
        if rng is None and eta != 1.0:
            raise ValueError("labels are turned over at random: with eta below 1, pass rng")
        flipped = np.zeros(n_patterns, dtype=np.bool_) if rng is None else flips(n_patterns, eta, rng)
        return taught(np.delete(self.patterns, i, axis=1), np.delete(self.network.weights[i], i), flipped)


def synchronous(network: Network, n_patterns: int, rng: np.random.Generator, *, restart: bool = False) -> Recording:
    """Every perceptron is updated at once, and every pattern stored, up to the first that comes back.

    Parameters
    ----------
    network : Network
    n_patterns : int
        How many patterns to store.
    rng : numpy Generator
    restart : bool
        Set out again from a fresh random pattern whenever a run cannot go on. Only new patterns are stored.
    """
    seen: dict[bytes, int] = {}  # over all starts: from a known pattern the way is known

    def walk(state: Vector, room: int) -> _Walk:
        first, path = len(seen), []
        while (key := np.packbits(state > 0.0).tobytes()) not in seen:
            seen[key] = len(seen)
            path.append(state)
            if len(path) == room:
                return _Walk(path, Ending.COMPLETE, None)
            state = network.answers(state)
        if seen[key] < first:  # onto the way of an earlier start, with `restart` only
            return _Walk(path, Ending.EXHAUSTED, None)
        period = len(seen) - seen[key]
        return _Walk(path, Ending.FROZEN if period == 1 else Ending.LIMIT_CYCLE, period)

    return _recording(network, n_patterns, rng, walk, restart)


def full_sweeps(network: Network, n_patterns: int, rng: np.random.Generator, *, restart: bool = False) -> Recording:
    """Perceptrons are updated one after the other, each once per sweep in a random order; one pattern per sweep.

    Parameters
    ----------
    network : Network
    n_patterns : int
        How many patterns to store.
    rng : numpy Generator
    restart : bool
        Set out again from a fresh random pattern whenever a run cannot go on.
    """
    columns = 2.0 * network.weights.T  # row i: how the fields change when perceptron i turns to +1

    def walk(state: Vector, room: int) -> _Walk:
        path = [state]
        while len(path) < room:
            state, fields, restless = state.copy(), network.fields(state), False  # fresh fields: rounding cannot grow
            for i in rng.permutation(state.size).tolist():
                if (fields[i] >= 0.0) != (state[i] > 0.0):
                    state[i], restless = -state[i], True
                    fields += state[i] * columns[i]
            if not restless:
                return _Walk(path, Ending.FROZEN, 1)
            path.append(state)
        return _Walk(path, Ending.COMPLETE, None)

    return _recording(network, n_patterns, rng, walk, restart)


def fixed_distance(
    network: Network,
    n_patterns: int,
    rng: np.random.Generator,
    *,
    distance: int = 10,
    restart: bool = False,
    patience: int | None = None,
) -> Recording:
    """Perceptrons are updated in random order; stored is each pattern at a Hamming distance from the last stored.

    Parameters
    ----------
    network : Network
    n_patterns : int
        How many patterns to store.
    rng : numpy Generator
    distance : int
        Between one stored pattern and the next, at most N. An update changes it by one, so it is met exactly.
    restart : bool
        Set out again from a fresh random pattern whenever a run cannot go on.
    patience : int, optional
        A run ends as WANDERING after so many changes without a stored pattern; 100 N where absent.
    """
    n = len(network.weights)
    patience = 100 * n if patience is None else patience
    whole(distance=distance, patience=patience)
    if distance > n:
        raise ValueError(f"distance must be at most {n}, the number of perceptrons, got {distance}")
    columns = 2.0 * network.weights.T  # row i: how the fields change when perceptron i turns to +1

    def walk(state: Vector, room: int) -> _Walk:
        path = [state]
        while len(path) < room:
            last, state, fields = state, state.copy(), network.fields(state)  # fresh fields: rounding cannot grow
            away = changes = 0
            while away < distance:
                # An update that changes nothing leaves no trace: only those perceptrons are drawn that will change.
                restless = np.flatnonzero((fields >= 0.0) != (state > 0.0))
                if not restless.size:
                    return _Walk(path, Ending.FROZEN, 1)
                if changes == patience:
                    return _Walk(path, Ending.WANDERING, None)
                i = restless[int(rng.random() * restless.size)]
                state[i] = -state[i]
                fields += state[i] * columns[i]
                away += 1 if state[i] != last[i] else -1
                changes += 1
            path.append(state)
        return _Walk(path, Ending.COMPLETE, None)

    return _recording(network, n_patterns, rng, walk, restart)


class _Walk(NamedTuple):
    """What was stored from one start, and how it ended."""

    path: list[Vector]
    ending: Ending
    period: int | None


def _recording(
    network: Network, n_patterns: int, rng: np.random.Generator, walk: Callable[[Vector, int], _Walk], restart: bool
) -> Recording:
    """Walks from random patterns until there are enough: one, or as many as it takes."""
    whole(n_patterns=n_patterns)
    stored: list[Vector] = []
    starts: list[int] = []
    fruitless = 0
    while True:
        start = np.where(rng.standard_normal(len(network.weights)) >= 0.0, 1.0, -1.0)
        path, ending, period = walk(start, n_patterns - len(stored))
        starts += [len(stored)] if path else []
        stored += path
        fruitless = 0 if path else fruitless + 1
        if ending is Ending.COMPLETE or not restart or fruitless == FRUITLESS:
            return Recording(network, np.array(stored), ending, period, tuple(starts))


DYNAMICS: dict[str, Callable[..., Recording]] = {
    "synchronous": synchronous,
    "sweep": full_sweeps,
    "distance": fixed_distance,
}
"""The dynamics by name: each takes a network, a number of patterns and `rng`."""

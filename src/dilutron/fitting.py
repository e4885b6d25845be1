"""From a table and a wish to posteriors: the density given, learned, or averaged over a path of expected sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtri, softmax

from dilutron.learning import PathPoint
from dilutron.loop import Status
from dilutron.methods import OPTIONS, solve
from dilutron.posterior import Posterior
from dilutron.priors import Normal, RobustProbit, SpikeSlab
from dilutron.problem import Problem
from dilutron.special import Vector

INTERCEPT = Normal(0.1)  # an intercept's own, wide prior: without it unbalanced classes lose accuracy
RATIO = 10.0 ** (1.0 / 3.0)  # between neighbouring expected sizes on the path
DROP = 8.0  # nats below the best at which the path ends
LOST = 2  # sizes in a row without convergence after which it ends, too
FAINT = 1e-3  # shares below this are left out of an average

Criterion = Callable[[Posterior, Vector], float]
CRITERIA: dict[str, Criterion] = {
    "evidence": lambda posterior, copies: _known(posterior.log_evidence),
    "loo": lambda posterior, copies: _known(
        None if posterior.left_out is None else np.sum(copies * posterior.left_out)
    ),
}


@dataclass(frozen=True, eq=False)
class Wish:
    """What is asked of a fit.

    Attributes
    ----------
    method : str
    density : float or array of shape (N,), optional
        Prior probability that a weight is present. None: the path finds it.
    odds : array of shape (N,), optional
        Factors of the features' prior odds, for a density that is found.
    criterion : str
        How the posteriors on the path are weighed: a key of `CRITERIA`.
    average : bool
        Weigh them all, or take the best.
    eta, beta, lam : float
    learn : tuple of str
        Which of these are learned.
    intercept, standardize : bool
    tol : float
    max_iter : int
        Iterations at most, for each size on the path.
    """

    method: str
    density: float | Vector | None = None
    odds: Vector | None = None
    criterion: str = "loo"
    average: bool = True
    eta: float = 0.95
    beta: float = 0.1
    lam: float = 1.0
    learn: tuple[str, ...] = ("eta",)
    intercept: bool = True
    standardize: bool = True
    tol: float = 1e-3
    max_iter: int = 200


class Share(NamedTuple):
    """A posterior and its weight in an average."""

    weight: float
    posterior: Posterior


@dataclass(frozen=True, eq=False)
class Fit:
    """One or more posteriors of the same problem, as an average, and the path on which they were found."""

    shares: tuple[Share, ...]
    path: tuple[PathPoint, ...] = ()

    def average(self, value: Callable[[Posterior], Any]) -> Any:
        """The weighted mean of something over the posteriors."""
        return sum(weight * value(posterior) for weight, posterior in self.shares)

    @property
    def best(self) -> Posterior:
        """The posterior of the largest weight."""
        return max(self.shares).posterior

    @property
    def mean(self) -> Vector:
        """Of the weights, for the columns as they came."""
        return np.asarray(self.average(lambda p: p.mean / p.scale))

    @property
    def std(self) -> Vector:
        """Of the weights: within the posteriors and between them."""
        second = self.average(lambda p: (p.std**2 + p.mean**2) / p.scale**2)
        return np.asarray(np.sqrt(np.maximum(second - self.mean**2, 0.0)))

    @property
    def intercept(self) -> float:
        """The constant that goes with `mean`."""
        return float(self.average(lambda p: p.intercept - np.sum(p.mean * p.center / p.scale)))

    @property
    def inclusion(self) -> Vector | None:
        """Probability that each weight is present; None where the method has none."""
        if any(posterior.inclusion is None for _, posterior in self.shares):
            return None
        return np.asarray(self.average(lambda p: p.inclusion))

    @property
    def flip(self) -> Vector | None:
        """Probability that each label is wrong; None where the method has none."""
        if any(posterior.flip is None for _, posterior in self.shares):
            return None
        return np.asarray(self.average(lambda p: p.flip))

    def probability(self, rows: Vector) -> Vector:
        """Of the label +1 for new rows."""
        return np.asarray(self.average(lambda p: p.probability(rows)))

    def interval(self, level: float) -> tuple[Vector, Vector]:
        """Where a weight lies with probability `level`, given that it is present: equal tails of its Gaussian."""
        present = np.ones_like(self.mean) if self.inclusion is None else np.maximum(self.inclusion, 1e-12)
        mean = self.mean / present
        var = np.maximum(self.std**2 / present - (1.0 - present) * mean**2, 0.0)
        half = ndtri(0.5 + 0.5 * level) * np.sqrt(var)
        return mean - half, mean + half


def fitted(
    X: Vector,
    signs: Vector,
    copies: Vector,
    wish: Wish,
    names: Sequence[str] | None = None,
    start: Fit | None = None,
    tell: Callable[[str], object] | None = None,
) -> Fit:
    """Solve what the wish asks for.

    Parameters
    ----------
    X : array of shape (M, N)
    signs : array of shape (M,), -1 and +1
    copies : array of shape (M,)
        How often each row counts.
    wish : Wish
    names : sequence of N strings, optional
    start : Fit, optional
        An earlier fit of the same rows, to begin at.
    tell : callable, optional
        Told in words of every posterior.
    """
    problem = Problem.from_arrays(
        X, signs, names=names, standardize=wish.standardize, strict=False, copies=None if _all_once(copies) else copies
    )
    warm = start.best if start is not None and start.best.sites is not None else None
    say = tell or (lambda words: None)
    if wish.density is not None:
        return Fit((Share(1.0, _solved(problem, copies, wish, wish.density, warm, say)),))
    return _weighed(_along_path(problem, copies, wish, warm, say), copies, wish)


def _along_path(
    problem: Problem, copies: Vector, wish: Wish, warm: Posterior | None, say: Callable[[str], object]
) -> list[Posterior]:
    """Posteriors at expected sizes from dense, where EP is easy, to sparse; each begins at the last that converged.

    The path ends at one feature, where the criterion has dropped well below its best, or where EP twice does not
    converge: it is then sparser than the data allow.
    """
    found: list[Posterior] = []
    best, lost = -np.inf, 0
    for density in path_densities(problem.X.shape[1]):
        posterior = _solved(problem, copies, wish, _with_odds(density, wish.odds), warm, say)
        found.append(posterior)
        good = posterior.status is Status.CONVERGED
        lost = 0 if good else lost + 1
        score = CRITERIA[wish.criterion](posterior, copies)
        best = max(best, score) if good else best
        if lost == LOST or score < best - DROP:
            break
        warm = posterior if good else warm
    return found


def path_densities(n_features: int) -> Vector:
    """From one half down to one expected feature, each RATIO times sparser."""
    return 0.5 * RATIO ** -np.arange(0.0, np.log(max(0.5 * n_features, 1.0)) / np.log(RATIO) + 1e-9)


def _weighed(found: list[Posterior], copies: Vector, wish: Wish) -> Fit:
    """The path as an average; posteriors that did not converge count only where none did."""
    good = [posterior.status is Status.CONVERGED for posterior in found]
    score = np.array([CRITERIA[wish.criterion](posterior, copies) for posterior in found])
    score = np.where(good, score, -np.inf) if any(good) else score
    weight = softmax(score) if wish.average else (np.arange(score.size) == np.argmax(score)).astype(float)
    kept = weight >= FAINT
    weight = np.where(kept, weight, 0.0) / weight[kept].sum()
    sizes = [float(np.sum(np.broadcast_to(p.weights.rho, p.mean.size))) for p in found]
    path = [PathPoint(size, _known(p.log_evidence), p.status) for size, p in zip(sizes, found, strict=True)]
    return Fit(tuple(Share(float(w), p) for w, p in zip(weight, found, strict=True) if w > 0.0), tuple(path))


def _solved(
    problem: Problem,
    copies: Vector,
    wish: Wish,
    density: float | Vector,
    warm: Posterior | None,
    say: Callable[[str], object],
) -> Posterior:
    labels = RobustProbit(wish.eta, wish.beta, 1.0 if _all_once(copies) else copies)
    options = OPTIONS[wish.method](tol=wish.tol, max_iter=wish.max_iter, learn=wish.learn, learn_tol=10.0 * wish.tol)
    more: dict[str, Any] = {"intercept": INTERCEPT} if wish.intercept else {}
    weights = SpikeSlab(density, wish.lam)
    posterior = solve(problem, weights, labels, wish.method, options, start=warm, **more)
    size = float(np.sum(np.broadcast_to(density, problem.X.shape[1])))
    say(f"{size:.3g} features expected: log evidence {_known(posterior.log_evidence):.2f}, {posterior.status.value}")
    return posterior


def _with_odds(density: float, odds: Vector | None) -> float | Vector:
    """The features' own densities, whose mean in log odds is that of `density`."""
    return density if odds is None else np.asarray(expit(logit(density) + np.log(odds)))


def _known(value: float | None) -> float:
    return -np.inf if value is None else float(value)


def _all_once(copies: Vector) -> bool:
    return bool(np.all(copies == 1.0))

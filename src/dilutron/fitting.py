"""From a table and a wish to posteriors: the density given, learned, or averaged over a path of expected sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit, ndtr, ndtri, softmax
from sklearn.model_selection import KFold, StratifiedKFold

from dilutron.gaussian import Covariance
from dilutron.loop import Status
from dilutron.methods import OPTIONS, solve
from dilutron.posterior import Posterior
from dilutron.priors import Normal, Prior, RobustProbit, SpikeSlab
from dilutron.problem import Problem
from dilutron.special import Vector

INTERCEPT = Normal(0.1)  # an intercept's own, wide prior: without it unbalanced classes lose accuracy
COUNTS = (19.0, 1.0)  # right and wrong labels believed seen before: a learned eta is 0.95 until the data speak
RATIO = 10.0**0.5  # between neighbouring expected sizes on the path
PER_ROW, PER_FEATURE = 1.0 / 3.0, 1.0 / 4.0  # sizes believed typical before the data: the smaller of the two
SPREAD = np.log(10.0)  # standard deviation of that belief in the log of the size
CLOSE = 1.25  # ratio of sizes below which no further one is put between
HEAVY = 0.5  # weight of one size from which its neighbourhood is looked at more closely
HARDER = 10.0  # step of a learned beta
TRIAL, TRIAL_TOL = 50, 1e-3  # iterations for it where features outnumber rows and they are dear, and their tolerance
WORTH = 1.0  # nats of evidence that each step must bring
STRONG = 5.0  # nats that all of them must: soft labels are safe, hard ones must be proven
DROP = 8.0  # nats below the best at which the path ends
LOST = 2  # sizes in a row without convergence after which it ends, too
FAINT = 1e-3  # shares below this are left out of an average

LOOSE = 10.0  # tolerance of learned values, in units of that of the moments,
PART = 0.5  # but a learned eta must be right to this part of one label
TINY = 1e-12  # smallest probability of a label that is left out
NEAR = 1e-6  # relative difference of two densities that are one

Mask = NDArray[np.bool_]
Say = Callable[[str], object]
CRITERIA: dict[str, Callable[[Posterior, Vector], float]] = {  # of one posterior; "cv" is of many
    "evidence": lambda posterior, copies: _known(posterior.log_evidence),
    "loo": lambda posterior, copies: _known(
        None if posterior.left_out is None else np.sum(copies * posterior.left_out)
    ),
    # The first is wary of sparse posteriors and the second, when in doubt, of dense ones.
    "both": lambda posterior, copies: 0.5 * sum(CRITERIA[name](posterior, copies) for name in ("evidence", "loo")),
}
CHOICES = (*CRITERIA, "cv")


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
        How the posteriors on the path are weighed: one of `CHOICES`.
    average : bool
        Weigh them all, or take the best.
    folds : int
        Of "cv".
    random_state : int, RandomState or None
        That shuffles the rows into folds.
    eta, beta, lam : float
    learn : tuple of str
        Which of these are learned.
    intercept, standardize : bool
    tol : float
    max_iter : int
        Iterations at most, for each size on the path.
    damping : float, optional
        Weight of the old value; the method's own by default.
    """

    method: str
    density: float | Vector | None = None
    odds: Vector | None = None
    criterion: str = "both"
    average: bool = True
    folds: int = 5
    random_state: Any = None
    eta: float = 0.95
    beta: float = 0.1
    lam: float = 1.0
    learn: tuple[str, ...] = ("eta",)
    intercept: bool = True
    standardize: bool = True
    tol: float = 1e-3
    max_iter: int = 200
    damping: float | None = None


class Tried(NamedTuple):
    """One row of the path.

    Attributes
    ----------
    size : float
        Expected number of features.
    score : float
        By the criterion, in nats: log evidence, or the log probability of all labels, each left or held out.
    log_prior : float
        Of the size, before the data.
    weight : float
        In the average.
    log_evidence : float
        -inf where the method has none.
    status : Status
    """

    size: float
    score: float
    log_prior: float
    weight: float
    log_evidence: float
    status: Status


class Share(NamedTuple):
    """A posterior and its weight in an average."""

    weight: float
    posterior: Posterior


@dataclass(frozen=True, eq=False)
class Fit:
    """One or more posteriors of the same problem, as an average, and the path on which they were found.

    Rows that were not `heard` are all zeros and told a method without intercept nothing. Predicted fields count
    `sharpness` times.
    """

    shares: tuple[Share, ...]
    path: tuple[Tried, ...] = ()
    heard: Mask | None = None
    sharpness: float = 1.0

    def average(self, value: Callable[[Posterior], Any]) -> Any:
        """The weighted mean of something over the posteriors."""
        return sum(weight * value(posterior) for weight, posterior in self.shares)

    @property
    def best(self) -> Posterior:
        """The posterior of the largest weight."""
        return max(self.shares, key=lambda share: share.weight).posterior

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
    def size(self) -> float | None:
        """How many weights are present: a geometric mean, in which a dense posterior of little weight counts little."""
        if self.inclusion is None:
            return None
        return float(np.exp(self.average(lambda p: np.log(np.sum(np.asarray(p.inclusion))))))

    @property
    def flip(self) -> Vector | None:
        """Probability that each label is wrong; None where the method has none."""
        if any(posterior.flip is None for _, posterior in self.shares):
            return None
        flip = np.asarray(self.average(lambda p: p.flip))
        if self.heard is None:
            return flip
        unheard = np.full(self.heard.size, 1.0 - self.average(lambda p: p.labels.eta))
        unheard[self.heard] = flip
        return unheard

    @property
    def log_evidence(self) -> float | None:
        """The mean over the posteriors; None where the method has none."""
        if any(posterior.log_evidence is None for _, posterior in self.shares):
            return None
        return float(self.average(lambda p: p.log_evidence))

    def at_rest(self, tol: float) -> bool:
        """True where all moments match. Learned values may still drift, as eta and beta do where labels are few."""
        return all(_at_rest(posterior, tol) for _, posterior in self.shares)

    def probability(self, rows: Vector) -> Vector:
        """Of the label +1 for new rows."""
        return np.asarray(self.average(lambda p: p.probability(rows, self.sharpness)))

    def interval(self, level: float) -> tuple[Vector, Vector]:
        """Where a weight lies with probability `level`, given that it is present: equal tails of its Gaussian."""
        present = np.ones_like(self.mean) if self.inclusion is None else np.maximum(self.inclusion, 1e-12)
        mean = self.mean / present
        var = np.maximum(self.std**2 / present - (1.0 - present) * mean**2, 0.0)
        half = ndtri(0.5 + 0.5 * level) * np.sqrt(var)
        return mean - half, mean + half


class Table(NamedTuple):
    """Rows, labels of -1 and +1, how often each counts, and the columns' names."""

    X: Vector
    signs: Vector
    copies: Vector
    names: Sequence[str] | None

    def rows(self, which: Any) -> Table:
        """Some of the rows."""
        return Table(self.X[which], self.signs[which], self.copies[which], self.names)

    def problem(self, wish: Wish) -> tuple[Problem, Mask]:
        """The problem, and which rows are in it: without an intercept none that are all zeros."""
        copies = None if _all_once(self.copies) else self.copies
        options: dict[str, Any] = {"names": self.names, "standardize": wish.standardize, "strict": False}
        problem = Problem.from_arrays(self.X, self.signs, copies=copies, **options)
        heard = np.any(problem.X, axis=1) | wish.intercept
        return (problem if np.all(heard) else rows_of(problem, heard)), heard


def fitted(table: Table, wish: Wish, start: Fit | None = None, tell: Say | None = None) -> Fit:
    """Solve what the wish asks for.

    Parameters
    ----------
    table : Table
    wish : Wish
    start : Fit, optional
        An earlier fit of the same rows, to begin at.
    tell : callable, optional
        Told in words of every posterior.
    """
    problem, heard = table.problem(wish)
    if not np.any(heard):
        raise ValueError("X has constant columns only, and without an intercept they tell nothing of the labels.")
    start = start if _fits(start, problem, wish) else None
    solve_at = partial(_solved, problem, table.copies[heard], wish, say=tell or (lambda words: None))
    nearby = partial(_nearby, start)
    if wish.density is not None:
        posterior = solve_at(wish.density, nearby(wish.density))
        fit = Fit((Share(1.0, _hardened(posterior, wish, solve_at)),))
    else:
        fit = _weighed(_path(table, heard, wish, solve_at, nearby), wish)
    shares = tuple(Share(weight, kept(_rested(problem, wish, posterior))) for weight, posterior in fit.shares)
    sharpness = _sharpness(shares, table.copies[heard]) if "beta" in wish.learn else 1.0
    return replace(fit, shares=shares, heard=None if np.all(heard) else heard, sharpness=sharpness)


def _sharpness(shares: Sequence[Share], copies: Vector) -> float:
    """The factor of all predicted fields under which the labels, each left out in turn, are the most probable.

    Soft labels and many weak features make predictions shy. Under one posterior the order of the rows stays as it was.
    The factor's log has a standard normal prior: with few labels it stays near 1.
    """
    parts = []
    for weight, posterior in shares:
        eta, left_out = posterior.labels.eta, posterior.left_out
        if left_out is None or eta == 0.5:
            return 1.0
        right = np.clip((np.exp(left_out) - (1.0 - eta)) / (2.0 * eta - 1.0), TINY, 1.0 - TINY)
        parts.append((weight, eta, ndtri(right)))

    def cost(log_factor: float) -> float:
        given = sum(w * (1.0 - eta + (2.0 * eta - 1.0) * ndtr(np.exp(log_factor) * field)) for w, eta, field in parts)
        return float(0.5 * log_factor**2 - np.sum(copies * np.log(np.maximum(given, TINY))))

    return float(np.exp(minimize_scalar(cost, bounds=(-3.0, 3.0), method="bounded").x))


def rows_of(problem: Problem, which: Any) -> Problem:
    """Some rows of a problem, its columns as they are."""
    return replace(problem, X=problem.X[which], labels=problem.labels[which])


class Point(NamedTuple):
    """A density on the path, the posterior there, its score, the log prior of the size, and whether it is at rest.

    Only then is its score comparable. Learned values may still move.
    """

    density: float
    posterior: Posterior
    score: float
    log_prior: float
    good: bool

    @property
    def total(self) -> float:
        """What counts: the score is of the labels, the prior of the size."""
        return self.score + self.log_prior


Path = list[Point]
Solve = Callable[..., Posterior]


def _path(table: Table, heard: Mask, wish: Wish, solve_at: Solve, nearby: Callable[..., Posterior | None]) -> Path:
    """The posteriors along the path of expected sizes, with labels as soft as they can be, and their scores."""
    value = CRITERIA[wish.criterion if wish.criterion in CRITERIA else "both"]
    score = partial(_score, value, table.copies[heard])
    densities = path_densities(table.X.shape[1])
    path = _descent(densities, wish, solve_at, score, nearby)
    soft = path[_top(path)].posterior
    hardened = _hardened(soft, wish, solve_at)
    beta = hardened.labels.beta
    if beta != soft.labels.beta:
        harder = partial(solve_at, beta=beta)
        hard = _descent(densities, wish, harder, score, nearby, hardened)
        if _known(hard[_top(hard)].posterior.log_evidence) > _known(soft.log_evidence):
            path, solve_at = hard, harder
        else:
            beta = soft.labels.beta
    if wish.criterion != "cv":
        return _refined(path, wish, solve_at, score)
    scores = _held_out(table, replace(wish, beta=beta), np.array([point.density for point in path]))
    return [point._replace(score=float(held)) for point, held in zip(path, scores, strict=True)]


def _score(value: Callable[[Posterior, Vector], float], copies: Vector, posterior: Posterior) -> float:
    return value(posterior, copies)


def _hardened(posterior: Posterior, wish: Wish, solve_at: Solve) -> Posterior:
    """Where beta is learned: with labels as hard as the evidence likes best, if it likes them much better than soft."""
    best = posterior
    while "beta" in wish.learn and _at_rest(best, wish.tol):
        trial = {"beta": HARDER * best.labels.beta, "trial": True}
        harder = solve_at(best.weights.rho, best, **trial)
        gain = _known(harder.log_evidence) - _known(best.log_evidence)
        if not gain > WORTH or not _at_rest(harder, max(wish.tol, TRIAL_TOL)):
            break
        best = harder
    return best if _known(best.log_evidence) > _known(posterior.log_evidence) + STRONG else posterior


def _refined(path: Path, wish: Wish, solve_at: Solve, score: Callable[[Posterior], float]) -> Path:
    """With sizes between, beside one that outweighs all others: the data know the size better than the path does."""
    while True:
        top, weights = _top(path), _weights(path)
        gaps = [
            i
            for i in (top, top - 1)
            if 0 <= i < len(path) - 1 and path[i].density > CLOSE * path[i + 1].density and path[i + 1].good
        ]
        if weights[top] < HEAVY or not gaps:
            return path
        for i in gaps:
            density = float(np.sqrt(path[i].density * path[i + 1].density))
            posterior = solve_at(_with_odds(density, wish.odds), None, path[top].posterior)
            path = [*path[: i + 1], _point(density, posterior, score, wish.tol), *path[i + 1 :]]


def _held_out(table: Table, wish: Wish, densities: Vector) -> Vector:
    """Log probability of all labels at every size, each label by a path of the other folds; -inf where one ended."""
    total = np.zeros(densities.size)
    for train, test in _folds(table.signs, wish):
        rest, held = table.rows(train), table.rows(test)
        problem, heard = rest.problem(wish)
        if not np.any(heard):  # a fold of equal rows can only guess
            total += np.sum(held.copies) * np.log(0.5)
            continue
        solve_at = partial(_solved, problem, rest.copies[heard], wish, say=lambda words: None)
        scores = [point.score for point in _descent(densities, wish, solve_at, partial(_log_probability, held))]
        total += np.concatenate([scores, np.full(densities.size - len(scores), -np.inf)])
    return total if np.any(total > -np.inf) else np.zeros(densities.size)


def _folds(signs: Vector, wish: Wish) -> Any:
    """Rows to learn from and rows held out; both classes in each where there are enough."""
    fewest = int(min(np.sum(signs > 0.0), np.sum(signs < 0.0)))
    if fewest >= 2:
        split: Any = StratifiedKFold(min(wish.folds, fewest), shuffle=True, random_state=wish.random_state)
    else:
        split = KFold(min(wish.folds, signs.size), shuffle=True, random_state=wish.random_state)
    return split.split(signs[:, None], signs)


def _log_probability(held: Table, posterior: Posterior) -> float:
    one = posterior.probability(held.X)
    given = np.where(held.signs > 0.0, one, 1.0 - one)
    total = float(np.sum(held.copies * np.log(np.maximum(given, np.finfo(np.float64).tiny))))
    return total if np.isfinite(total) else -np.inf


def _descent(
    densities: Vector,
    wish: Wish,
    solve_at: Solve,
    score: Callable[[Posterior], float],
    nearby: Callable[..., Posterior | None] = lambda density: None,
    warm: Posterior | None = None,
) -> Path:
    """Posteriors at expected sizes from dense, where EP is easy, to sparse; each begins at the last that converged.

    The path ends with the densities, where the score has dropped well below its best, or where twice there is no
    convergence: it is then sparser than the data allow.
    """
    path: Path = []
    best, lost = -np.inf, 0
    for density in densities:
        rho = _with_odds(density, wish.odds)
        posterior = solve_at(rho, nearby(rho), warm)
        path.append(_point(float(density), posterior, score, wish.tol))
        good = path[-1].good
        lost = 0 if good else lost + 1
        best = max(best, path[-1].score) if good else best
        if lost == LOST or path[-1].score < best - DROP:
            break
        warm = posterior if good and posterior.sites is not None else warm
    return path


def _at_rest(posterior: Posterior, tol: float) -> bool:
    return bool(posterior.status is Status.CONVERGED or posterior.mismatch <= tol)


def _point(density: float, posterior: Posterior, score: Callable[[Posterior], float], tol: float) -> Point:
    assert posterior.flip is not None  # all methods that take a density know of wrong labels
    n_rows, n_features = np.sum(np.broadcast_to(posterior.labels.copies, posterior.flip.shape)), posterior.mean.size
    prior = log_prior(density * n_features, float(n_rows), n_features)
    return Point(density, posterior, score(posterior), prior, _at_rest(posterior, tol))


def log_prior(size: float, n_rows: float, n_features: int) -> float:
    """Of an expected size, before the data: few rows cannot tell of many features. A factor of ten is nothing."""
    typical = min(PER_ROW * n_rows, PER_FEATURE * n_features)
    return float(-0.5 * (np.log(size / typical) / SPREAD) ** 2)


def _weights(path: Path) -> Vector:
    """Of the posteriors in an average over the log of the size; those that did not converge count only if none did."""
    good = np.array([point.good for point in path])
    good = good if np.any(good) else ~good
    place = -np.log([point.density for point in path])[good]
    width = np.gradient(place) if place.size > 1 else np.ones(1)
    weights = np.zeros(good.size)
    weights[good] = softmax(np.array([point.total for point in path])[good] + np.log(width))
    return weights


def _top(path: Path) -> int:
    """The best of those that converged, or of all where none did."""
    good = [i for i, point in enumerate(path) if point.good] or range(len(path))
    return max(good, key=lambda i: path[i].total)


def _fits(start: Fit | None, problem: Problem, wish: Wish) -> bool:
    """True for an earlier fit of this shape that has sites to begin at."""
    if start is None or start.best.sites is None:
        return False
    n_patterns, n_features = problem.X.shape
    n_sites = n_features + wish.intercept + n_patterns
    return bool(start.best.mean.size == n_features and start.best.sites.precision.size == n_sites)


def _nearby(start: Fit | None, density: float | Vector) -> Posterior | None:
    """The posterior of an earlier fit to begin at: the one of the same density if there is one."""
    shares = () if start is None else start.shares
    same = [p for _, p in shares if np.allclose(p.weights.rho, density, rtol=NEAR, atol=0.0)]
    return same[0] if same else None


def kept(posterior: Posterior) -> Posterior:
    """With its covariance at hand: predictions need not factorise again, and any method's posterior can be pickled."""
    return replace(posterior, source=partial(Covariance, *posterior.covariance()))


def path_densities(n_features: int) -> Vector:
    """From one half of all features down to one, each RATIO times sparser."""
    return 0.5 * RATIO ** -np.arange(0.0, np.log(max(0.5 * n_features, 1.0)) / np.log(RATIO) + 1e-9)


def _weighed(path: Path, wish: Wish) -> Fit:
    """The path as an average, or its best point alone."""
    weight = _weights(path) if wish.average else (np.arange(len(path)) == _top(path)).astype(float)
    heard = weight >= FAINT
    weight = np.where(heard, weight, 0.0) / weight[heard].sum()
    rows = tuple(
        Tried(
            size=float(np.sum(np.broadcast_to(p.weights.rho, p.mean.size))),
            score=point.score,
            log_prior=point.log_prior,
            weight=float(w),
            log_evidence=_known(p.log_evidence),
            status=p.status,
        )
        for point, w in zip(path, weight, strict=True)
        for p in (point.posterior,)
    )
    return Fit(tuple(Share(float(w), point.posterior) for w, point in zip(weight, path, strict=True) if w > 0.0), rows)


def _solved(
    problem: Problem,
    copies: Vector,
    wish: Wish,
    density: float | Vector,
    same: Posterior | None,
    other: Posterior | None = None,
    *,
    beta: float | None = None,
    trial: bool = False,
    say: Say,
) -> Posterior:
    """At a density, begun at one of the same density or at another: at its sites and its learned eta and lambda."""
    start, learn = same or other, tuple(name for name in wish.learn if name != "beta")
    learned = {} if start is None else {**vars(start.weights), **vars(start.labels)}
    eta, lam = (learned[name] if learned and name in learn else getattr(wish, name) for name in ("eta", "lam"))
    labels = RobustProbit(eta, beta or wish.beta, 1.0 if _all_once(copies) else copies, COUNTS)
    if trial:  # its evidence need not be exact: what tolerance is asked for must not decide on the model
        n_patterns, n_features = problem.X.shape
        spent = wish.max_iter if n_patterns >= n_features else min(wish.max_iter, TRIAL)
        wish = replace(wish, tol=max(wish.tol, TRIAL_TOL), max_iter=spent)
    posterior = _run(problem, SpikeSlab(density, lam), labels, wish, learn, start)
    size = float(np.sum(np.broadcast_to(density, problem.X.shape[1])))
    evidence = "" if posterior.log_evidence is None else f"log evidence {posterior.log_evidence:.2f}, "
    say(f"{size:.3g} features expected: {evidence}{posterior.status.value} after {posterior.n_iter} iterations")
    return posterior


def _rested(problem: Problem, wish: Wish, posterior: Posterior) -> Posterior:
    """Where the iterations ran out while learning, EP once more with the values so far: its moments then match."""
    if not wish.learn or posterior.status is not Status.MAX_ITER or posterior.mismatch <= wish.tol:
        return posterior
    start = posterior if posterior.sites is not None else None
    rested = _run(problem, posterior.weights, posterior.labels, wish, (), start)
    status = Status.MAX_ITER if rested.status is Status.CONVERGED else rested.status  # what is learned has not settled
    return replace(rested, status=status, trace=posterior.trace + rested.trace)


def solved_with(problem: Problem, copies: Vector, wish: Wish, learned: Posterior, start: Posterior | None) -> Posterior:
    """Solve with the values that an earlier posterior has learned, and learn no more."""
    labels = replace(learned.labels, copies=1.0 if _all_once(copies) else copies)
    return _run(problem, learned.weights, labels, wish, (), start)


def _run(
    problem: Problem, weights: Prior, labels: Prior, wish: Wish, learn: tuple[str, ...], warm: Posterior | None
) -> Posterior:
    learn_tol = min(LOOSE * wish.tol, PART / len(problem.labels))
    wanted = {"tol": wish.tol, "max_iter": wish.max_iter, "learn": learn, "learn_tol": learn_tol}
    wanted |= {} if wish.damping is None else {"damping": wish.damping}
    kind = OPTIONS[wish.method]
    options = kind(**{field.name: wanted[field.name] for field in fields(kind) if field.name in wanted})
    more: dict[str, Any] = {"intercept": INTERCEPT} if wish.intercept else {}
    more |= {} if warm is None else {"start": warm}
    return solve(problem, weights, labels, wish.method, options, **more)


def relative_odds(prior: Vector) -> Vector:
    """Prior odds of the features, over their geometric mean."""
    log_odds = logit(prior)
    return np.asarray(np.exp(log_odds - np.mean(log_odds)))


def log_odds(probability: Vector) -> Vector:
    """Of a probability; finite."""
    edge = np.finfo(np.float64)
    return np.asarray(logit(np.clip(probability, edge.tiny, 1.0 - edge.epsneg)))


def with_odds(density: float, odds: Vector) -> Vector:
    """The features' own densities, whose mean in log odds is that of `density`."""
    return np.asarray(expit(logit(density) + np.log(odds)))


def _with_odds(density: float, odds: Vector | None) -> float | Vector:
    return float(density) if odds is None else with_odds(density, odds)


def _known(value: Any) -> float:
    return -np.inf if value is None else float(value)


def _all_once(copies: Vector) -> bool:
    return bool(np.all(copies == 1.0))

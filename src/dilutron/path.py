"""The path of expected sizes: posteriors from dense to sparse, how hard their labels are, and what each weighs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax
from sklearn.model_selection import KFold, StratifiedKFold

from dilutron.averages import Fit, Mask, Share, Tried, at_rest
from dilutron.gaussian import Sites
from dilutron.posterior import Posterior
from dilutron.special import Vector
from dilutron.wishes import TRIAL_TOL, Table, Watch, Wish, dear, dearest, density_of, known, solved_at

RATIO = 10.0**0.5  # between neighbouring expected sizes on the path
PER_ROW, PER_FEATURE = 1.0 / 3.0, 1.0 / 8.0  # sizes believed typical before the data: the smaller of the two
SPREAD = np.log(2.0)  # width of that belief in the log of the size where rows are few
REACH = 16.0  # the path goes so many times above and below the typical size: data that say more than the belief decide
# Weight of a label that was left out. Few labels decide between two sizes, and by chance. A compromise: on correlated
# columns less is better calibrated, on independent ones more (python -m benchmarks trust).
TRUST = 0.2
DENSE = 4.0  # times the typical size, from which a path on a dear table need not begin above
CLOSE = 1.25  # ratio of sizes below which no further one is put between
HEAVY = 0.7  # weight of one size from which its neighbourhood is looked at more closely
HARDER = 10.0  # step of a learned beta
WORTH = 2.0  # nats of evidence that each step must bring
STRONG = 3.0  # nats that all of them must: soft labels are safe, hard ones must be proven
LEAP = 100.0  # most that a start's precision is changed from that of the last size
DROP = 4.0  # nats of the total below the best at which the path ends
LOST = 2  # sizes in a row without convergence after which it ends
FAINT = 0.02  # shares below this are left out of an average

CRITERIA: dict[str, Callable[[Posterior, Vector], float]] = {  # of one posterior; "cv" is of many
    "evidence": lambda posterior, copies: known(posterior.log_evidence),
    "loo": lambda posterior, copies: known(None if posterior.left_out is None else np.sum(copies * posterior.left_out)),
}
CHOICES = (*CRITERIA, "cv")


class Point(NamedTuple):
    """A density on the path, the posterior there, its score, the log prior of the size, and whether it is at rest.

    Only then is its score comparable. Learned values may still move. A nat of the score counts `trust` nats.
    """

    density: float
    posterior: Posterior
    score: float
    log_prior: float
    good: bool
    trust: float

    @property
    def total(self) -> float:
        """What counts: the score is of the labels, the prior of the size."""
        return self.trust * self.score + self.log_prior


Path = list[Point]
Solve = Callable[..., Posterior]


def followed(
    table: Table, heard: Mask, wish: Wish, solve_at: Solve, nearby: Callable[..., Posterior | None], watch: Watch
) -> Path:
    """The posteriors along the path of expected sizes, with labels as soft as they can be, and their scores."""
    value = CRITERIA[wish.criterion if wish.criterion in CRITERIA else "loo"]
    score = partial(_score, value, table.copies[heard])
    n_rows, n_features = float(table.copies[heard].sum()), table.X.shape[1]
    densities = (sparser if dearest(*table.X.shape) else path_densities)(n_rows, n_features)
    descent = partial(_descent, densities, wish, score=score, watch=watch, nearby=nearby, closer=n_rows < n_features)
    path = descent(solve_at)
    soft = path[_top(path)].posterior
    factor, proven = hardened(soft, wish, solve_at, watch)
    if factor > 1.0 and not watch.stopped:
        harder = partial(solve_at, harder=factor)
        hard = descent(harder, warm=proven)
        if known(hard[_top(hard)].posterior.log_evidence) > known(soft.log_evidence):
            path, solve_at = hard, harder
        else:
            factor = 1.0
    if wish.criterion != "cv":
        return path if dear(*table.X.shape) else _refined(path, wish, solve_at, score, watch)
    scores = _held_out(table, wish, np.array([point.density for point in path]), factor, watch)
    if scores is None:  # stopped before: what the method itself says of left-out labels, if anything
        scores = np.array([point.score for point in path])
    scores = scores if np.any(scores > -np.inf) else np.zeros(len(path))
    return [point._replace(score=float(one)) for point, one in zip(path, scores, strict=True)]


def _score(value: Callable[[Posterior, Vector], float], copies: Vector, posterior: Posterior) -> float:
    return value(posterior, copies)


def hardened(posterior: Posterior, wish: Wish, solve_at: Solve, watch: Watch) -> tuple[float, Posterior]:
    """Where beta is learned: how much harder labels the evidence likes best, if it likes them much better than soft.

    A step is tried only where it would be worth it if the slope of the evidence were to fall to nothing along it.
    """
    factor, best = 1.0, posterior
    loose = max(wish.tol, TRIAL_TOL)
    while (
        "beta" in wish.learn
        and at_rest(best, wish.tol if best is posterior else loose)
        and 0.5 * _rise(best) * np.log(HARDER) > WORTH
        and not watch.stopped
    ):
        harder = solve_at(best.weights.rho, best, harder=HARDER * factor, trial=True)
        gain = known(harder.log_evidence) - known(best.log_evidence)
        if not gain > WORTH or not at_rest(harder, loose):
            break
        factor, best = HARDER * factor, harder
    return (factor, best) if known(best.log_evidence) > known(posterior.log_evidence) + STRONG else (1.0, posterior)


def _rise(posterior: Posterior) -> float:
    """Of the log evidence with the log of beta; 0 for a method without evidence, which proves nothing."""
    unknown = 0.0 if posterior.log_evidence is None else np.inf
    return float(posterior.labels.beta * posterior.slopes.get("beta", unknown))


def _refined(path: Path, wish: Wish, solve_at: Solve, score: Callable[[Posterior], float], watch: Watch) -> Path:
    """With sizes between, beside one that outweighs all others: the data know the size better than the path does."""
    while True:
        top, weights = _top(path), _weights(path)
        gaps = [
            i
            for i in (top, top - 1)
            if 0 <= i < len(path) - 1 and path[i].density > CLOSE * path[i + 1].density and path[i + 1].good
        ]
        if weights[top] < HEAVY or not gaps or watch.stopped:
            return path
        for i in gaps:
            density = float(np.sqrt(path[i].density * path[i + 1].density))
            start = _between(path[i].posterior, path[i + 1].posterior) if path[i].good else path[i + 1].posterior
            posterior = solve_at(density_of(density, wish.odds), None, start)
            path = [*path[: i + 1], _point(density, posterior, score, wish), *path[i + 1 :]]


def _descent(
    densities: Vector,
    wish: Wish,
    solve_at: Solve,
    score: Callable[[Posterior], float],
    watch: Watch,
    nearby: Callable[..., Posterior | None] = lambda density: None,
    warm: Posterior | None = None,
    *,
    closer: bool = False,
) -> Path:
    """Posteriors at expected sizes from dense, where EP is easy, to sparse; each begins where those before lead.

    The path ends with the densities, where the total has dropped well below its best, or after LOST sizes in a row
    without convergence: it is then sparser than the data allow. Where it comes `closer`, the first that is lost after
    one at rest is followed by the one midway between the two, where EP mostly rests, and there it ends.
    """
    path: Path = []
    best, lost, rest = -np.inf, 0, 0.0
    begun: list[Posterior] = []  # the last two of this path; `warm` may be from another, at any size
    left = [float(density) for density in densities]
    while left:
        density = left.pop(0)
        rho = density_of(density, wish.odds)
        posterior = solve_at(rho, nearby(rho), _onward(begun, rho, wish) if begun else warm)
        path.append(_point(density, posterior, score, wish))
        if path[-1].good:
            best, lost, rest = max(best, path[-1].total), 0, density
            begun = [*begun[-1:], posterior] if posterior.sites is not None else []
        elif closer and begun and lost == 0:  # without sites to begin from one nearer is no easier
            left, lost = [float(np.sqrt(rest * density))], 1
        else:
            lost += 1
        if watch.stopped or lost == LOST or (path[-1].good and path[-1].total < best - DROP):
            break
    return sorted(path, key=lambda point: -point.density)


def _onward(begun: list[Posterior], density: float | Vector, wish: Wish) -> Posterior:
    """Where a size begins after these: where the rows put it if they are many, and else where the last two lead."""
    last = begun[-1]
    if "beta" in wish.learn and _rows(last) >= last.mean.size:
        return _rescaled(last, float(np.mean(last.weights.rho) / np.mean(density)))
    return _ahead(*begun) if len(begun) == 2 else last


def _rows(posterior: Posterior) -> float:
    """How many labels it has seen, each as often as it counts."""
    assert posterior.flip is not None  # all methods that take a density know of wrong labels
    return float(np.sum(np.broadcast_to(posterior.labels.copies, posterior.flip.shape)))


def _rescaled(posterior: Posterior, factor: float) -> Posterior:
    """The posterior for labels that are harder by that factor, in units in which its fields tell them as well.

    A learned beta goes with the density, for one signal-to-noise ratio. Where rows are many, they give the weights over
    that noise: their sites need but other units. An intercept's, which does not, is found again at once.
    """
    if posterior.sites is None:
        return posterior
    precision, shift = posterior.sites
    return replace(posterior, sites=Sites(factor * precision, np.sqrt(factor) * shift))


def _ahead(before: Posterior, last: Posterior) -> Posterior:
    """The last posterior with the precisions of its weights changed as much again as they were since the one before.

    Sparser sizes make absent weights more certain by orders of magnitude; of their shifts hardly any is changed. As
    much also after half a step: less was no better.
    """
    if before.sites is None or last.sites is None:
        return last
    n_weights, (old, _), (new, shift) = last.mean.size, before.sites, last.sites
    growth = np.ones_like(new)
    sound = np.flatnonzero((old[:n_weights] > 0.0) & (new[:n_weights] > 0.0))
    growth[sound] = np.clip(new[sound] / old[sound], 1.0 / LEAP, LEAP)
    return replace(last, sites=Sites(growth * new, shift))


def _between(one: Posterior, other: Posterior) -> Posterior:
    """The other posterior with sites midway from the one, precisions geometrically where they can be."""
    if one.sites is None or other.sites is None:
        return other
    (p, a), (q, b) = one.sites, other.sites
    middle = np.where((p > 0.0) & (q > 0.0), np.sqrt(np.maximum(p * q, 0.0)), 0.5 * (p + q))
    return replace(other, sites=Sites(middle, 0.5 * (a + b)))


def _point(density: float, posterior: Posterior, score: Callable[[Posterior], float], wish: Wish) -> Point:
    n_features = posterior.mean.size
    prior = log_prior(density * n_features, _rows(posterior), n_features)
    trust = 1.0 if wish.criterion == "evidence" else TRUST
    return Point(density, posterior, score(posterior), prior, at_rest(posterior, wish.tol), trust)


def log_prior(size: float, n_rows: float, n_features: int) -> float:
    """Of an expected size, before the data.

    Few rows cannot tell of many features: above the typical size it falls like a normal law. Few features are always
    thinkable: below it falls like a Cauchy law, so that data that say so are heard.
    """
    away = np.log(size / typical(n_rows, n_features)) / _spread(n_rows, n_features)
    return float(-0.5 * away**2 if away > 0.0 else -np.log1p(away**2))


def _spread(n_rows: float, n_features: int) -> float:
    """Width of the belief in the log of the size: a factor of two, or of four from one row a feature on."""
    return float(SPREAD * (1.0 + min(1.0, n_rows / n_features)))


def typical(n_rows: float, n_features: int) -> float:
    """The size believed most probable before the data; one feature at least."""
    return max(min(PER_ROW * n_rows, PER_FEATURE * n_features), 1.0)


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


def weighed(path: Path, wish: Wish) -> Fit:
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
            log_evidence=known(p.log_evidence),
            status=p.status,
        )
        for point, w in zip(path, weight, strict=True)
        for p in (point.posterior,)
    )
    return Fit(tuple(Share(float(w), point.posterior) for w, point in zip(weight, path, strict=True) if w > 0.0), rows)


def path_densities(n_rows: float, n_features: int) -> Vector:
    """The sizes that are thinkable for so many rows, at most half of all features and at least one, dense first."""
    middle = typical(n_rows, n_features)
    most, fewest = min(0.5 * n_features, REACH * middle), max(middle / REACH, 1.0)
    return most / n_features * RATIO ** -np.arange(0.0, np.log(max(most / fewest, 1.0)) / np.log(RATIO) + 1e-9)


def sparser(n_rows: float, n_features: int) -> Vector:
    """The same without the densest, if the next is far above the typical size, too.

    On tables hardly wider than tall the densest is near the typical size, and may be the only one at rest.
    """
    densities = path_densities(n_rows, n_features)
    second = densities[1:2] * n_features
    return densities[1:] if np.any(second >= DENSE * typical(n_rows, n_features)) else densities


def _held_out(table: Table, wish: Wish, densities: Vector, factor: float, watch: Watch) -> Vector | None:
    """Log probability of all labels at every size, each label by a path of the other folds; -inf where one ended.

    Where the fit is stopped, of the folds that were whole by then; None where none was.
    """
    total, n_whole = np.zeros(densities.size), 0
    for train, test in _folds(table.signs, wish):
        if watch.stopped:
            break
        rest, held = table.rows(train), table.rows(test)
        problem, heard = rest.problem(wish)
        if not np.any(heard):  # a fold of equal rows can only guess
            total, n_whole = total + np.sum(held.copies) * np.log(0.5), n_whole + 1
            continue
        fold = watch.part("held-out-fold", silent=True)
        solve_at = partial(solved_at, problem, rest.copies[heard], wish, harder=factor, watch=fold)
        scores = [point.score for point in _descent(densities, wish, solve_at, partial(_log_probability, held), fold)]
        if not watch.stopped:
            scores += [-np.inf] * (densities.size - len(scores))
            total, n_whole = total + scores, n_whole + 1
        fold.ended()
    return total if n_whole else None


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

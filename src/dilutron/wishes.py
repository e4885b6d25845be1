"""What is asked of a fit, and one solve of it: a table, a wish and a density to a posterior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from dilutron.averages import Mask
from dilutron.chunked import choose
from dilutron.gaussian import Covariance, Sites
from dilutron.loop import Status
from dilutron.methods import OPTIONS, solve
from dilutron.options import number, share, whole
from dilutron.posterior import Posterior
from dilutron.priors import Normal, Prior, RobustProbit, SpikeSlab
from dilutron.problem import Problem
from dilutron.special import Vector

STARTS = {"eta": 0.8, "beta": 0.1, "lam": 1.0}  # where learning begins; EP rests sooner where it doubts labels
INTERCEPT = Normal(0.1)  # an intercept's own, wide prior: without it unbalanced classes lose accuracy
COUNTS = (19.0, 1.0)  # right and wrong labels believed seen before: a learned eta is ETA until the data speak
ETA = COUNTS[0] / sum(COUNTS)
FEWEST, MOST = 25, 200  # iterations allowed at each size of the path where features outnumber rows, between the two,
PLENTY = 60  # or, where they do not, so many or more,
WORK = 1e10  # such that they cost no more multiplications than this: about a second
TRIAL = 3  # the part of these that a trial gets
TRIAL_TOL = 1e-2  # tolerance of a trial, or a coarser one that is asked for
SIGNAL = 10.0  # variance of the fields, before the data, over that of the noise in them, where beta is learned
LOOSE = 10.0  # tolerance of learned values, in units of that of the moments,
PART = 0.25  # but a learned eta must be right to this part of its standard error, as if it were ETA
FINE = 0.3  # of that tolerance where rows are many, so that the weights of the sizes do not depend on it


class Watch:
    """Stands by each posterior of a fit, and hears of it in words; this one keeps silent.

    Once it has `stopped`, no further expected size is tried: the answer is made of what there is.
    """

    stopped = False

    def say(self, words: str) -> None:
        """Of a posterior that was solved."""

    def __call__(self, solve: Callable[[], Posterior], name: str) -> Posterior:
        """The posterior that `solve` makes: of an "expected-size", or a "trial" of harder labels."""
        return solve()

    def part(self, name: str, *, silent: bool = False) -> Watch:
        """A watch over a part of the work, which says when it `ended`; where one stops, so do all."""
        return self

    def ended(self) -> None:
        """The part is done."""


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
        Which of these are learned. Of a learned beta the value does not matter.
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
    criterion: str = "loo"
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


def wish_of(method: str, given: dict[str, Any], n_features: int) -> Wish:
    """What an estimator's parameters ask for. ValueError where they cannot be or contradict each other."""
    whole(2, n_folds=given["n_folds"])
    learn = tuple(name for name in STARTS if _is_auto(given[name]))
    values = {name: start if name in learn else given[name] for name, start in STARTS.items()}
    density, odds = _density(given, n_features)
    return Wish(
        method,
        density,
        odds,
        criterion=given["criterion"],
        average=given["average"],
        folds=given["n_folds"],
        random_state=given["random_state"],
        eta=values["eta"],
        beta=values["beta"],
        lam=values["lam"],
        learn=learn,
        intercept=given["fit_intercept"],
        standardize=given["standardize"],
        tol=given["tol"],
        max_iter=given["max_iter"],
        damping=given.get("damping"),
    )


def _density(given: dict[str, Any], n_features: int) -> tuple[Any, Any]:
    """The density and, for one that is to be found, the features' relative odds."""
    rho, expected = None if _is_auto(given["rho"]) else given["rho"], given.get("n_features_expected")
    if expected is not None:
        if rho is not None:
            raise ValueError("give rho or n_features_expected, not both")
        if not 0 < number(expected) < n_features:
            raise ValueError(
                f"n_features_expected must be above 0 and below the number of features, {n_features}, got {expected!r}"
            )
        rho = expected / n_features
    if rho is not None:
        share(rho=rho)
        rho = float(rho)
    if given.get("prior_inclusion") is None:
        return rho, None
    prior = np.asarray(given["prior_inclusion"], dtype=np.float64)
    if prior.shape != (n_features,) or not np.all((prior > 0.0) & (prior < 1.0)):
        raise ValueError(
            f"prior_inclusion must hold {n_features} probabilities above 0 and below 1, one for each feature"
        )
    odds = relative_odds(prior)
    return (None, odds) if rho is None else (with_odds(rho, odds), None)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"  # an array would compare entry by entry


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
        copies = None if all_once(self.copies) else self.copies
        options: dict[str, Any] = {"names": self.names, "standardize": wish.standardize, "strict": False}
        problem = Problem.from_arrays(self.X, self.signs, copies=copies, **options)
        heard = np.any(problem.X, axis=1) | wish.intercept
        return (problem if np.all(heard) else rows_of(problem, heard)), heard


def rows_of(problem: Problem, which: Any) -> Problem:
    """Some rows of a problem, its columns as they are."""
    return replace(problem, X=problem.X[which], labels=problem.labels[which])


def solved_at(
    problem: Problem,
    copies: Vector,
    wish: Wish,
    density: float | Vector,
    same: Posterior | None,
    other: Posterior | None = None,
    *,
    harder: float = 1.0,
    trial: bool = False,
    watch: Watch,
) -> Posterior:
    """At a density, begun at one of the same density or at another: at its sites and its learned eta and lambda.

    A learned beta is `harder` times what makes the fields' signal SIGNAL times their noise, whatever the density: were
    it the same for all, sparse weights would go with soft labels and dense ones with hard.
    """
    start, learn = same or other, learned_values(wish)
    learned = {} if start is None else {**vars(start.weights), **vars(start.labels)}
    eta, lam = (learned[name] if learned and name in learn else getattr(wish, name) for name in ("eta", "lam"))
    size = float(np.sum(np.broadcast_to(density, problem.X.shape[1])))
    power = _power(problem, copies, density, wish.lam) if "beta" in wish.learn else 0.0
    beta = harder * SIGNAL / power if power > 0.0 else wish.beta
    labels = RobustProbit(eta, beta, 1.0 if all_once(copies) else copies, COUNTS)
    wish = _affordable(wish, problem, copies, trial=trial)
    if trial:  # its evidence need not be exact: what tolerance is asked for must not decide on the model
        wish = replace(wish, tol=max(wish.tol, TRIAL_TOL))
    work = partial(_run, problem, SpikeSlab(density, lam), labels, wish, learn, start)
    posterior = watch(work, "trial" if trial else "expected-size")
    evidence = "" if posterior.log_evidence is None else f"log evidence {posterior.log_evidence:.2f}, "
    watch.say(f"{size:.3g} features expected: {evidence}{posterior.status.value} after {posterior.n_iter} iterations")
    return posterior


def _affordable(wish: Wish, problem: Problem, copies: float | Vector, *, trial: bool = False) -> Wish:
    """The wish with no more iterations than a size of the path, or a trial, is allowed."""
    n_rows, n_features = problem.X.shape
    wide = np.sum(np.broadcast_to(copies, n_rows)) < n_features
    if not (trial or wish.density is None) or not (wide or "beta" in wish.learn):
        return wish
    allowed = _allowed(n_rows, n_features) if wide else _plenty(n_rows, n_features)
    return replace(wish, max_iter=min(wish.max_iter, allowed // TRIAL if trial and wide else allowed))


def _allowed(n_rows: int, n_features: int) -> int:
    """Iterations at one size of the path: sparse sizes may need many, which a large table makes dear."""
    return int(np.clip(WORK / (n_rows**2 * n_features), FEWEST, MOST))


def _plenty(n_rows: int, n_features: int) -> int:
    """The same where rows are many: each size begins near its rest, and takes long only where there is none."""
    return int(max(WORK / (n_rows * n_features**2), PLENTY))


def dear(n_rows: int, n_features: int) -> bool:
    """True where a size costs so much that none is put beside the best of the path, which changes answers little."""
    return n_rows < n_features and _allowed(n_rows, n_features) < MOST


def dearest(n_rows: int, n_features: int) -> bool:
    """True where it costs so much that the path leaves out its densest if it can do without."""
    return n_rows < n_features and _allowed(n_rows, n_features) == FEWEST


def _power(problem: Problem, copies: Vector, density: float | Vector, lam: float) -> float:
    """Variance of the fields before the data, the mean over all rows."""
    counted = copies / np.max(copies)
    of_columns = np.einsum("i,ij,ij->j", counted, problem.X, problem.X)
    return float(np.sum(density * of_columns) / np.sum(counted) / lam)


def rested(problem: Problem, wish: Wish, posterior: Posterior) -> Posterior:
    """Where the iterations ran out: once more from there, with as many as a size is allowed.

    Where what is learned has not settled then either, EP with the values so far: its moments at least match.
    """
    learn, wish = learned_values(wish), _affordable(wish, problem, posterior.labels.copies)
    if posterior.status is Status.MAX_ITER and posterior.sites is not None:
        posterior = _gone_on(problem, wish, posterior, learn)
    if posterior.status is Status.MAX_ITER and learn and posterior.mismatch > wish.tol:
        rest = _gone_on(problem, wish, posterior, ())
        unsettled = rest.status is Status.CONVERGED  # what is learned has not
        posterior = replace(rest, status=Status.MAX_ITER if unsettled else rest.status, held=posterior.held)
    return posterior


def _gone_on(problem: Problem, wish: Wish, posterior: Posterior, learn: tuple[str, ...]) -> Posterior:
    """One more run from where a posterior is, with the way there put before its own; or the posterior, if better."""
    start = posterior if posterior.sites is not None else None
    further = _run(problem, posterior.weights, posterior.labels, wish, learn, start)
    worse = further.status is not Status.CONVERGED and further.mismatch > max(posterior.mismatch, wish.tol)
    return replace(
        posterior if worse else further,
        trace=posterior.trace + further.trace,
        failures=posterior.failures + further.failures,
        invalid=posterior.invalid + further.invalid,
        seconds=posterior.seconds + further.seconds,
    )


def learned_values(wish: Wish) -> tuple[str, ...]:
    """What a solve learns: beta is set for each density, and is harder only where the path finds that."""
    return tuple(name for name in wish.learn if name != "beta")


def solved_with(problem: Problem, copies: Vector, wish: Wish, learned: Posterior, start: Posterior | None) -> Posterior:
    """Solve with the values that an earlier posterior has learned, and learn no more."""
    labels = replace(learned.labels, copies=1.0 if all_once(copies) else copies)
    return _run(problem, learned.weights, labels, wish, (), start)


def _run(
    problem: Problem, weights: Prior, labels: Prior, wish: Wish, learn: tuple[str, ...], warm: Posterior | None
) -> Posterior:
    rows = float(np.sum(np.broadcast_to(labels.multiplicity, len(problem.labels))))
    learn_tol = min(LOOSE * wish.tol, PART * np.sqrt(ETA * (1.0 - ETA) / max(rows, 1.0)))
    wanted = {"tol": wish.tol, "max_iter": wish.max_iter, "learn": learn, "learn_tol": learn_tol}
    wanted |= {} if wish.damping is None else {"damping": wish.damping}
    wide = rows < problem.X.shape[1]
    if "beta" in wish.learn and wide:  # there EP would swing
        wanted |= {"fallback": "proper", "learning": "along"}
    elif "beta" in wish.learn and wish.density is None:
        # At sparse sizes of a path nested E-steps would begin again and again; more exact values are cheap.
        wanted |= {"learning": "along", "learn_tol": FINE * learn_tol}
    kind = OPTIONS[wish.method]
    options = kind(**{field.name: wanted[field.name] for field in fields(kind) if field.name in wanted})
    more: dict[str, Any] = {"intercept": INTERCEPT} if wish.intercept else {}
    more |= {} if warm is None else {"start": warm}
    posterior = solve(problem, weights, labels, wish.method, options, **more)
    if wish.method != "ep" or posterior.sites is None:
        return posterior
    return replace(
        posterior, source=partial(_covariance, problem, wish.intercept, posterior.sites, labels.multiplicity)
    )


def _covariance(problem: Problem, intercept: bool, sites: Sites, copies: float | Vector) -> Covariance:
    """Of the weights, by a backend made anew: else every posterior on the path would hold the workspaces of its own."""
    of_each = np.ones_like(sites.precision)
    of_each[-len(problem.labels) :] = copies
    together = Sites(of_each * sites.precision, of_each * sites.shift)
    return choose(problem.signed(intercept=intercept)).covariance(together)


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


def density_of(density: float, odds: Vector | None) -> float | Vector:
    """The same for all features, or with odds of their own."""
    return float(density) if odds is None else with_odds(density, odds)


def known(value: Any) -> float:
    """A number, where a method has none -inf."""
    return -np.inf if value is None else float(value)


def all_once(copies: Vector) -> bool:
    """True where no row counts more or less than once."""
    return bool(np.all(copies == 1.0))

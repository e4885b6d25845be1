"""From a table and a wish to an answer: the density given, or averaged over the path of expected sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from dilutron.averages import TINY, Fit, Share, left_out_fields
from dilutron.path import followed, hardened, weighed
from dilutron.posterior import Posterior
from dilutron.problem import Problem
from dilutron.special import Vector
from dilutron.wishes import Table, Watch, Wish, rested, solved_at

NEAR = 1e-6  # relative difference of two densities that are one


def fitted(table: Table, wish: Wish, start: Fit | None = None, watch: Watch | None = None) -> Fit:
    """Solve what the wish asks for.

    Parameters
    ----------
    table : Table
    wish : Wish
    start : Fit, optional
        An earlier fit of the same rows, to begin at.
    watch : Watch, optional
        Stands by every posterior, and may ask to stop.
    """
    watch, (problem, heard) = watch or Watch(), table.problem(wish)
    if not np.any(heard):
        raise ValueError("X has constant columns only, and without an intercept they tell nothing of the labels.")
    start = start if _fits(start, problem, wish) else None
    solve_at = partial(solved_at, problem, table.copies[heard], wish, watch=watch)
    nearby = partial(_nearby, start)
    if wish.density is not None:
        soft = solve_at(wish.density, nearby(wish.density))
        factor, posterior = hardened(soft, wish, solve_at, watch)
        if posterior is not soft and posterior.mismatch > wish.tol:  # a trial, good enough to compare but not to keep
            posterior = solve_at(wish.density, posterior, harder=factor)
        fit = Fit((Share(1.0, posterior),))
    else:
        fit = weighed(followed(table, heard, wish, solve_at, nearby, watch), wish)
    if not watch.stopped:
        fit = replace(fit, shares=tuple(Share(w, rested(problem, wish, posterior)) for w, posterior in fit.shares))
    return sharpened(replace(fit, heard=None if np.all(heard) else heard), wish)


def sharpened(fit: Fit, wish: Wish) -> Fit:
    """With all at hand that predictions take, which are as bold as left-out labels allow where beta is learned."""
    shares = tuple(Share(weight, posterior.at_hand()) for weight, posterior in fit.shares)
    return replace(fit, shares=shares, sharpness=_sharpness(shares) if "beta" in wish.learn else 1.0)


def _sharpness(shares: Sequence[Share]) -> float:
    """The factor of all fields under which the labels, each left out in turn, are the most probable.

    Soft labels and many weak features make predictions shy. Under one posterior the order of the rows stays as it was.
    The factor's log has a standard normal prior: with few labels it stays near 1.
    """
    parts = []
    for weight, posterior in shares:
        fields = left_out_fields(posterior)
        if fields is None:
            return 1.0
        parts.append((weight, posterior.labels.eta, fields))

    copies = shares[0].posterior.labels.multiplicity

    def cost(log_factor: float) -> float:
        given = sum(w * (1.0 - eta + (2.0 * eta - 1.0) * ndtr(np.exp(log_factor) * field)) for w, eta, field in parts)
        return float(0.5 * log_factor**2 - np.sum(copies * np.log(np.maximum(given, TINY))))

    return float(np.exp(minimize_scalar(cost, bounds=(-3.0, 3.0), method="bounded").x))


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

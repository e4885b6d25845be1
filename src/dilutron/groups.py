"""Groups of correlated features, each with the probability that at least one of its members matters.

Where features are nearly copies of one another, the data can tell that one of them matters but not which: each has a
small inclusion probability, the group a large one. All members are absent with probability

    P(all zero | data) = prod (1 - rho_i) Z(without these columns) / Z,

by Bayes' rule and with no approximation but that of Z, which is EP's evidence. Products of the single probabilities
would not do: members of a group stand in for one another, so their presences exclude one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dilutron.averages import Fit
from dilutron.gaussian import Sites
from dilutron.loop import Status
from dilutron.posterior import Posterior
from dilutron.problem import Problem
from dilutron.selection import Indices, ranked
from dilutron.special import Vector
from dilutron.wishes import Table, Wish, solved_with


class FeatureGroup(NamedTuple):
    """Features that stand in for one another.

    Attributes
    ----------
    members : array of ints
        Columns, the most probable first.
    names : tuple of str
        Theirs.
    inclusion : float
        Probability that at least one member matters.
    correlation : float
        The smallest absolute correlation of a member with the first.
    prior : float
        What `inclusion` was before the data: large for many members, so that only what goes beyond it is news.
    """

    members: Indices
    names: tuple[str, ...]
    inclusion: float
    correlation: float
    prior: float


class Cluster(NamedTuple):
    """Columns around the most probable of them, and their smallest absolute correlation with it."""

    members: Indices
    correlation: float


def clusters(X: Vector, copies: Vector, probability: Vector, correlation: float, n_groups: int) -> list[Cluster]:
    """Greedily: the most probable feature that has no group yet, and all such correlated with it."""
    units = np.sqrt(copies)[:, None] * (X - np.average(X, axis=0, weights=copies))
    norms = np.linalg.norm(units, axis=0)
    units /= np.where(norms > 0.0, norms, 1.0)
    order, free = ranked(probability), np.ones(probability.size, dtype=bool)
    found: list[Cluster] = []
    for lead in order:
        if len(found) == n_groups:
            break
        if not free[lead]:
            continue
        alike = np.abs(units.T @ units[:, lead])
        alike[lead] = 1.0  # also of a constant column
        members = order[(free & (alike >= correlation))[order]]
        free[members] = False
        found.append(Cluster(members, float(alike[members].min())))
    return found


def joint_inclusion(table: Table, wish: Wish, fit: Fit, groups: Sequence[Cluster]) -> Vector:
    """Probability that at least one member of each group matters, averaged over the fit's posteriors.

    Every posterior keeps its learned values; EP is solved without the group's columns, from where it was with them.
    """
    problem, heard = table.problem(wish)
    copies, total = table.copies[heard], np.zeros(len(groups))
    for weight, posterior in fit.shares:
        whole = solved_with(problem, copies, wish, posterior, _same_shape(posterior, problem, wish))
        total += weight * np.array([_joint(problem, copies, wish, whole, group.members) for group in groups])
    return total


def joint_prior(fit: Fit, groups: Sequence[Cluster]) -> Vector:
    """The same before the data, averaged by the weights that the data gave the posteriors."""
    total = np.zeros(len(groups))
    for weight, posterior in fit.shares:
        rho = np.broadcast_to(posterior.weights.rho, posterior.mean.size)
        total += weight * np.array([-np.expm1(np.log1p(-rho[group.members]).sum()) for group in groups])
    return total


def _joint(problem: Problem, copies: Vector, wish: Wish, whole: Posterior, members: Indices) -> float:
    assert whole.inclusion is not None
    least = float(whole.inclusion[members].max())  # the group is at least as probable as its first member
    rest = np.delete(np.arange(problem.X.shape[1]), members)
    rho = np.broadcast_to(whole.weights.rho, whole.mean.size)
    if rest.size == 0:  # nothing but the intercept: a column of zeros changes no evidence
        blank = replace(problem, X=np.zeros((len(problem.X), 1)), names=("",), center=np.zeros(1), scale=np.ones(1))
        without = solved_with(blank, copies, wish, _columns(whole, members[:1]), None)
    else:
        less = _columns(whole, rest)
        columns = replace(
            problem,
            X=problem.X[:, rest],
            names=tuple(problem.names[i] for i in rest),
            center=problem.center[rest],
            scale=problem.scale[rest],
        )
        without = solved_with(columns, copies, wish, less, less)
    if whole.log_evidence is None or without.log_evidence is None:
        return least
    if not whole.status is without.status is Status.CONVERGED:  # an evidence before that compares with nothing
        return least
    absent = np.sum(np.log1p(-rho[members])) + without.log_evidence - whole.log_evidence
    return max(least, float(-np.expm1(min(absent, 0.0))))


def _columns(posterior: Posterior, which: Indices) -> Posterior:
    """What a run without the other columns begins at."""
    weights, size = posterior.weights, posterior.mean.size
    own: dict[str, Any] = {n: v[which] for n in ("rho", "lam") if np.ndim(v := getattr(weights, n)) == 1}
    sites = posterior.sites
    if sites is not None:
        sites = Sites(*(np.concatenate([part[which], part[size:]]) for part in sites))
    return replace(posterior, mean=posterior.mean[which], weights=replace(weights, **own), sites=sites)


def _same_shape(posterior: Posterior, problem: Problem, wish: Wish) -> Posterior | None:
    sites, (n_patterns, n_features) = posterior.sites, problem.X.shape
    fits = sites is not None and sites.precision.size == n_features + wish.intercept + n_patterns
    return posterior if fits else None

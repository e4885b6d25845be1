"""The methods by name, and the one call that runs any of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from threadpoolctl import threadpool_limits

from dilutron import student
from dilutron.baselines import amp, greedy, grvamp, r1bcs, sphere
from dilutron.posterior import Posterior
from dilutron.priors import Prior
from dilutron.problem import Problem

METHODS: dict[str, Callable[..., Posterior]] = {
    "ep": student.solve,
    "vamp": student.solve_tied,
    "amp": amp.solve,
    "grvamp": grvamp.solve,
    "r1bcs": r1bcs.solve,
    "rfpi": sphere.solve_rfpi,
    "narfpi": sphere.solve_narfpi,
    "msp": greedy.solve_msp,
    "biht": greedy.solve_biht,
    "aop": greedy.solve_aop,
    "aop_f": greedy.solve_aop_f,
}
OPTIONS: dict[str, type] = {
    "ep": student.EPOptions,
    "vamp": student.EPOptions,
    "amp": amp.AMPOptions,
    "grvamp": grvamp.GrVAMPOptions,
    "r1bcs": r1bcs.R1BCSOptions,
    "rfpi": sphere.RFPIOptions,
    "narfpi": sphere.NARFPIOptions,
    "msp": greedy.MSPOptions,
    "biht": greedy.BIHTOptions,
    "aop": greedy.AOPOptions,
    "aop_f": greedy.AOPOptions,
}

SMALL = 1e9  # multiply-adds of one factorisation below which a second BLAS thread costs more than it brings


def solve(
    problem: Problem,
    weights: Prior,
    labels: Prior,
    method: str = "ep",
    options: Any = None,
    *,
    intercept: Prior | None = None,
    start: Posterior | None = None,
    callback: Callable[[Any], object] | None = None,
) -> Posterior:
    """Solve a problem by the method of this name.

    Parameters
    ----------
    problem : Problem
    weights : Prior
        For example `SpikeSlab(rho=0.25)`.
    labels : Prior
        For example `ThetaMixture(eta=0.95)`.
    method : str
        A key of `METHODS`.
    options : the method's options, optional
        Of the type `OPTIONS[method]`: `EPOptions` for "ep", and so on.
    intercept : Prior, optional
        Prior of a constant added to every field, for example `Normal(0.1)`. Only for methods that know of one.
    start : Posterior, optional
        Where to begin: an earlier posterior of the same problem, perhaps under other priors. Likewise.
    callback : callable, optional
        Sees every state; where it returns True the run stops.
    """
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"method must be one of {sorted(METHODS)}, got {method!r}")
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be made by Problem.from_arrays(X, labels), got {type(problem).__name__}")
    if options is not None and type(options) is not OPTIONS[method]:  # a subclass holds what this method would ignore
        raise ValueError(f"options for {method!r} must be {OPTIONS[method].__name__}(...), got {options!r}")
    known = inspect.signature(METHODS[method]).parameters
    extra = {"intercept": intercept, "start": start, "callback": callback}
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a function of the state, got {callback!r}")
    if start is not None and not isinstance(start, Posterior):
        raise ValueError(f"start must be a Posterior, got {type(start).__name__}")
    given = {name: value for name, value in extra.items() if value is not None}
    for name in given:
        if name not in known:
            raise ValueError(f'{name} is not known to {method!r}: leave it out, or use method="ep".')
    n_patterns, n_features = problem.X.shape
    work = n_patterns * n_features * min(n_patterns, n_features)
    with threadpool_limits(limits=1 if work < SMALL else None, user_api="blas"):
        return METHODS[method](problem, weights, labels, options, **given)

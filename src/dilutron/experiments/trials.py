"""Trials: each makes one problem, solves it by one method, and returns one flat row of numbers and words.

A trial is known by its kind, its cell (what was asked for) and its instance (which draw). Its problem depends on these
alone, not on the method, so that all methods of a cell see the same problems, whoever computes them and when.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from dilutron.baselines.amp import AMPOptions
from dilutron.baselines.grvamp import GrVAMPOptions
from dilutron.baselines.r1bcs import R1BCSOptions
from dilutron.data.glauber import DYNAMICS, Ending, Recording, diluted_network
from dilutron.data.teacher import Lesson, lesson
from dilutron.methods import solve
from dilutron.metrics import auc, mse
from dilutron.posterior import Posterior
from dilutron.priors import RobustProbit, SpikeSlab
from dilutron.problem import Problem
from dilutron.student import EPOptions

Cell = Mapping[str, Any]
Row = dict[str, Any]

LONGEST = 6  # the largest alpha of the recurrent network

# Name of a variant: the method, and the options it is run with.
VARIANTS: dict[str, tuple[str, Any]] = {
    "ep": ("ep", EPOptions()),
    "vamp": ("vamp", EPOptions()),
    "amp": ("amp", AMPOptions()),
    "grvamp": ("grvamp", GrVAMPOptions()),
    "grvamp-paper": ("grvamp", GrVAMPOptions.paper()),
    "r1bcs": ("r1bcs", R1BCSOptions()),
}

# Raised whenever a method's program comes to give other numbers than before: rows in a store know by it what made them.
PROGRAMS = {"ep": 3, "vamp": 1, "amp": 1, "grvamp": 1, "r1bcs": 1}


def program_of(variant: str) -> str:
    """What makes the rows of a variant: its method, which program of it, and a mark of the options it is run with."""
    method, options = VARIANTS[variant]
    return f"{method} {PROGRAMS[method]} {zlib.crc32(repr(options).encode()):08x}"


def key_of(cell: Cell) -> str:
    """The cell as text, the same for the same cell."""
    return json.dumps(dict(cell), sort_keys=True, separators=(",", ":"))


def rng_of(kind: str, cell: Cell, instance: int) -> np.random.Generator:
    """The draws of a trial: the method has no part in them."""
    problem = {name: value for name, value in cell.items() if name != "method"}
    return np.random.default_rng([zlib.crc32(f"{kind}|{key_of(problem)}".encode()), instance])


def teacher_trial(cell: Cell, instance: int) -> Row:
    """A perceptron learns from a teacher of known parameters.

    The cell holds n, rho, eta, alpha, patterns and method.
    """
    told = lesson(
        cell["n"],
        cell["alpha"],
        rng_of("teacher", cell, instance),
        rho=cell["rho"],
        eta=cell["eta"],
        patterns=cell["patterns"],
    )
    return _graded(told, cell["method"], SpikeSlab(cell["rho"]), RobustProbit(eta=cell["eta"]))


def learning_trial(cell: Cell, instance: int) -> Row:
    """The same with rho, and eta where labels are noisy, learned from random starts."""
    rng = rng_of("learning", cell, instance)
    told = lesson(cell["n"], cell["alpha"], rng, rho=cell["rho"], eta=cell["eta"], patterns=cell["patterns"])
    return _learned(told, cell, rng)


def network_trial(cell: Cell, instance: int) -> Row:
    """Perceptron number `instance` of a recurrent network learns from the network's patterns.

    The cell holds n, rho, eta, alpha, dynamics, learn (whether rho and eta are learned) and method.
    """
    if cell["alpha"] > LONGEST:
        raise ValueError(f"alpha of a recurrent network must be at most {LONGEST}, got {cell['alpha']:g}")
    made = _recorded(cell["n"], cell["rho"], cell["dynamics"])
    rng = rng_of("network", cell, instance)
    seen = replace(made, patterns=made.patterns[: round(cell["alpha"] * cell["n"])])
    told = seen.lesson(instance, eta=cell["eta"], rng=rng)
    if cell["learn"]:
        return _learned(told, cell, rng)
    return _graded(told, cell["method"], SpikeSlab(cell["rho"]), RobustProbit(eta=cell["eta"]))


@lru_cache(maxsize=4)
def _recorded(n: int, rho: float, dynamics: str) -> Recording:
    """One network for each dynamics, and its patterns for the largest alpha: smaller ones see the first of them."""
    rng = rng_of("network", {"n": n, "rho": rho, "dynamics": dynamics}, 0)
    made = DYNAMICS[dynamics](diluted_network(n, rho, rng), LONGEST * n, rng)
    if made.ending is not Ending.COMPLETE:
        raise ValueError(f"the network stopped after {len(made.patterns)} patterns: {made.ending.message}")
    return made


def _learned(told: Lesson, cell: Cell, rng: np.random.Generator) -> Row:
    """Learn rho, and eta where labels are noisy, from uniform starts: rho_0 in [0.05, 0.95], eta_0 in [0.5, 1]."""
    rho_0, eta_0 = float(rng.uniform(0.05, 0.95)), float(rng.uniform(0.5, 1.0))
    noisy = cell["eta"] < 1.0
    labels = RobustProbit(eta=eta_0 if noisy else 1.0)
    row = _graded(told, cell["method"], SpikeSlab(rho_0), labels, ("rho", "eta") if noisy else ("rho",))
    return row | {"rho_0": rho_0, "eta_0": labels.eta, "right": 1.0 - float(told.flipped.mean())}


def _graded(told: Lesson, variant: str, weights: SpikeSlab, labels: RobustProbit, learn: tuple[str, ...] = ()) -> Row:
    method, options = VARIANTS[variant]
    options = replace(options, learn=learn) if learn else options
    problem = Problem.from_arrays(told.X, told.labels, strict=False)
    began = time.process_time()
    posterior = solve(problem, weights, labels, method=method, options=options)
    spent = time.process_time() - began
    return {
        "status": posterior.status.value,
        "iterations": posterior.n_iter,
        "mismatch": posterior.mismatch,
        "smallest_error": float(min((mark.error for mark in posterior.trace), default=np.inf)),
        "cpu_seconds": spent,
        "rho_learned": float(np.mean(posterior.weights.rho)),
        "eta_learned": posterior.labels.eta,
        "log_evidence": posterior.log_evidence,
        "held": " ".join(posterior.held),
        "program": program_of(variant),
        **_scores(posterior, told),
    }


def _scores(posterior: Posterior, told: Lesson) -> Row:
    """Errors of the weights, and of the features and labels picked.

    R1BCS gives weights for columns of unit norm too (`scaled`): on correlated patterns the two differ.
    """
    present, size = told.teacher != 0.0, np.abs(posterior.mean)
    row: Row = {
        "mse": mse(posterior.mean, told.teacher),
        "auc": auc(size, present),
        "ranks": _ranks(size, present),
    }
    scaled = posterior.mean * np.linalg.norm(told.X, axis=0)
    row |= {"mse_scaled": mse(scaled, told.teacher), "auc_scaled": auc(np.abs(scaled), present)}
    if posterior.inclusion is not None:
        row |= {
            "auc_inclusion": auc(posterior.inclusion, present),
            "ranks_inclusion": _ranks(posterior.inclusion, present),
            "brier": float(np.mean((posterior.inclusion - present) ** 2)),
        }
    if posterior.flip is not None and 0 < told.flipped.sum() < told.flipped.size:
        row["auc_flip"] = auc(posterior.flip, told.flipped)
    return row


def _ranks(score: Any, present: Any) -> str:
    """Places of the weights that are present, in order of decreasing score: all that a ROC curve needs."""
    place = np.empty(score.size, dtype=int)
    place[np.argsort(-score, kind="stable")] = np.arange(score.size)
    return " ".join(map(str, sorted(place[present])))


TRIALS: dict[str, Callable[[Cell, int], Row]] = {
    "teacher": teacher_trial,
    "learning": learning_trial,
    "network": network_trial,
}

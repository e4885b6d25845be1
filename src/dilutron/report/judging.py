"""What a run's numbers amount to, before it is put in words."""

from __future__ import annotations

import math
from typing import Any

from dilutron.report.reading import Feature, Group, RunFolder

SURE, LIKELY = 0.9, 0.5  # inclusion probabilities that the sentences name
ERRORS = 2.0  # standard errors that a difference must have


def likely(run: RunFolder, least: float = LIKELY) -> list[Feature]:
    """Features at least so probable, the most probable first."""
    return [feature for feature in run.features if feature.inclusion >= least]


def distinct(run: RunFolder) -> int:
    """How many features can be named."""
    return len({feature.name for feature in likely(run)})


def open_groups(run: RunFolder) -> list[Group]:
    """Groups that matter with much more than their prior probability, though no member can be named."""
    named = {feature.group for feature in likely(run) if feature.group}
    return [
        group for group in run.groups
        if group.n_members > 1 and group.number not in named and group.inclusion >= max(0.8, group.prior + 0.2)
    ]  # fmt: skip


def class_shares(run: RunFolder) -> list[tuple[str, int]]:
    """Classes and their rows, the largest first."""
    return sorted(zip(run.classes, run.counts, strict=True), key=lambda pair: -pair[1])


def better(run: RunFolder) -> str:
    """How held-out accuracy compares with always naming the larger class."""
    held = run.held_out or {}
    gain, error = held["accuracy"] - guess(run), _error(held.get("accuracy_se"))
    if gain > ERRORS * error and gain > 0.0:
        return "clearly"
    if is_known(held.get("auc")) and held["auc"] - 0.5 > ERRORS * _error(held.get("auc_se")):
        return "order"
    return "unclear" if gain > 0.0 else "no"


def fails(run: RunFolder) -> bool:
    """True where held-out rows do not bear the model out."""
    return run.held_out is not None and better(run) in ("unclear", "no")


def guess(run: RunFolder) -> float:
    """How often always naming the larger class is right."""
    return float((run.held_out or {}).get("majority") or max(run.counts) / sum(run.counts))


def is_known(value: Any) -> bool:
    """True for a finite number."""
    return value is not None and math.isfinite(value)


def _error(value: Any) -> float:
    """A standard error; of one that is not known, the worst."""
    return float(value) if is_known(value) else math.inf

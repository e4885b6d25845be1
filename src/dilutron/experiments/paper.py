"""The paper's tables and figures, each as the trials that it needs. Trials that two items share are made once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from dilutron.experiments.store import Trial
from dilutron.experiments.trials import Cell

N, RHO = 128, 0.25
ALPHAS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0)
INSTANCES = 100
SLOW = frozenset({"r1bcs", "grvamp-paper"})  # hours for all of them on two cores


class Sweep(NamedTuple):
    """Trials of one kind over a grid of cells."""

    kind: str
    cells: tuple[Cell, ...]

    def trials(self, instances: int) -> Iterator[Trial]:
        """All cells of the first instance, then of the second: whatever ends early has all cells alike."""
        for instance in range(instances):
            yield from (Trial(self.kind, cell, instance) for cell in self.cells)


@dataclass(frozen=True)
class Item:
    """One table or figure.

    Attributes
    ----------
    name : str
        As on the command line.
    title : str
    sweeps : tuple of Sweep
    draw : str
        What is drawn from the rows: a name in `dilutron.plots.PICTURES`.
    """

    name: str
    title: str
    sweeps: tuple[Sweep, ...]
    draw: str

    def trials(self, instances: int = INSTANCES) -> Iterator[Trial]:
        """What must be in the store; a recurrent network has as many instances as perceptrons."""
        for sweep in self.sweeps:
            whole_network = sweep.kind == "network" and instances >= INSTANCES
            yield from sweep.trials(sweep.cells[0]["n"] if whole_network else instances)


def grid(kind: str, **axes: Any) -> Sweep:
    """The product of all axes; a lone value is an axis of one."""
    lists = [value if isinstance(value, tuple) else (value,) for value in axes.values()]
    return Sweep(kind, tuple(dict(zip(axes, values, strict=True)) for values in product(*lists)))


def teacher(**axes: Any) -> Sweep:
    """Weights from a teacher of known parameters."""
    return grid("teacher", **{"n": N, "rho": RHO, "eta": 1.0, "patterns": "iid", "alpha": ALPHAS, **axes})


def learning(**axes: Any) -> Sweep:
    """The same with parameters learned."""
    return grid("learning", **{"n": N, "rho": RHO, "eta": 1.0, "patterns": ("iid", "mvn"), "method": "ep", **axes})


def network(**axes: Any) -> Sweep:
    """All perceptrons of a recurrent network."""
    fixed = {"n": N, "rho": RHO, "eta": 1.0, "learn": False, "alpha": ALPHAS, "method": "ep"}
    return grid("network", **{**fixed, **axes})


BOTH = ("iid", "mvn")
NOISY = teacher(eta=0.95, patterns=BOTH, method=("ep", "grvamp", "r1bcs"))
NOISY_AS_PUBLISHED = teacher(eta=0.95, patterns=BOTH, method="grvamp-paper")
NOISIER = teacher(eta=0.9, patterns=BOTH, method=("ep", "grvamp", "r1bcs"))
CORRELATED = teacher(patterns="mvn", method=("ep", "grvamp", "grvamp-paper"))
DIVERGING = teacher(patterns="mvn", method="amp")

ITEMS = {
    item.name: item
    for item in (
        Item(
            "figure-2",
            "i.i.d. patterns, noiseless: MSE",
            (teacher(method=("ep", "amp", "grvamp")),),
            "errors",
        ),
        Item("figure-3", "Correlated patterns, noiseless: ROC, sensitivity and MSE", (CORRELATED,), "selection_errors"),
        Item(
            "table-1",
            "Correlated patterns, noiseless: fraction of converged runs",
            (CORRELATED, DIVERGING, teacher(n=256, patterns="mvn", method=("ep", "grvamp", "grvamp-paper"))),
            "convergence",
        ),
        Item("table-2", "Noiseless: learned rho", (learning(alpha=(2.0, 3.0, 4.0, 5.0, 6.0)),), "learned"),
        Item("figure-4", "Mislabelled examples: ROC and sensitivity", (NOISY, NOISY_AS_PUBLISHED), "selection"),
        Item("table-3", "Mislabelled examples: AUC", (NOISY, NOISY_AS_PUBLISHED), "areas"),
        Item("figure-5", "Mislabelled examples: MSE", (NOISY, NOISY_AS_PUBLISHED, NOISIER), "errors"),
        Item(
            "table-4",
            "Mislabelled examples: learned eta and rho",
            (learning(eta=0.95, alpha=(2.5, 3.0, 4.0, 5.0, 6.0)),),
            "learned",
        ),
        Item("table-5", "Mislabelled examples: run times", (NOISY, NOISY_AS_PUBLISHED), "times"),
        Item(
            "figure-6",
            "Recurrent network: ROC and MSE",
            (network(dynamics=("synchronous", "sweep", "distance"), method=("ep", "grvamp")),),
            "recurrent",
        ),
        Item(
            "table-6",
            "Recurrent network: learned eta and rho",
            (
                network(dynamics=("synchronous", "distance"), eta=0.9, learn=True),
                network(dynamics=("synchronous", "distance"), alpha=(4.0, 5.0, 6.0), learn=True),
            ),
            "learned",
        ),
    )
}


def slow(trial: Trial) -> tuple[bool, int]:
    """To sort by: quick methods first, then instance by instance, so that what ends early has all cells alike."""
    return trial.cell["method"] in SLOW, trial.instance


def trials(items: Iterable[Item], instances: int = INSTANCES) -> Iterator[Trial]:
    """The trials of several items, each once."""
    seen = set()
    for item in items:
        for trial in item.trials(instances):
            if trial.key not in seen:
                seen.add(trial.key)
                yield trial

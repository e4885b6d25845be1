"""Sparse Bayesian classification by expectation propagation."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dilutron.baselines.amp import AMPOptions
    from dilutron.baselines.greedy import AOPOptions, BIHTOptions, MSPOptions
    from dilutron.baselines.grvamp import GrVAMPOptions
    from dilutron.baselines.r1bcs import R1BCSOptions
    from dilutron.baselines.sphere import NARFPIOptions, RFPIOptions
    from dilutron.estimators import AMPClassifier, EPClassifier, R1BCSClassifier, VAMPClassifier
    from dilutron.loop import Status
    from dilutron.methods import METHODS, OPTIONS, solve
    from dilutron.posterior import Posterior
    from dilutron.priors import Normal, Probit, RobustProbit, SpikeSlab, Theta, ThetaMixture
    from dilutron.problem import Problem
    from dilutron.student import EPOptions

__version__ = "0.1.0"

# Loaded on first use: numpy, scipy and scikit-learn take longer than many a command, and Ctrl-C must not wait for them.
HOMES = {
    "baselines.amp": ("AMPOptions",),
    "baselines.greedy": ("AOPOptions", "BIHTOptions", "MSPOptions"),
    "baselines.grvamp": ("GrVAMPOptions",),
    "baselines.r1bcs": ("R1BCSOptions",),
    "baselines.sphere": ("NARFPIOptions", "RFPIOptions"),
    "estimators": ("AMPClassifier", "EPClassifier", "R1BCSClassifier", "VAMPClassifier"),
    "loop": ("Status",),
    "methods": ("METHODS", "OPTIONS", "solve"),
    "posterior": ("Posterior",),
    "priors": ("Normal", "Probit", "RobustProbit", "SpikeSlab", "Theta", "ThetaMixture"),
    "problem": ("Problem",),
    "student": ("EPOptions",),
}


def __getattr__(name: str) -> object:
    """A public name, from the room that makes it."""
    for room, names in HOMES.items():
        if name in names:
            return getattr(import_module(f"dilutron.{room}"), name)
    raise AttributeError(f"module 'dilutron' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "METHODS",
    "OPTIONS",
    "AMPClassifier",
    "AMPOptions",
    "AOPOptions",
    "BIHTOptions",
    "EPClassifier",
    "EPOptions",
    "GrVAMPOptions",
    "MSPOptions",
    "NARFPIOptions",
    "Normal",
    "Posterior",
    "Probit",
    "Problem",
    "R1BCSClassifier",
    "R1BCSOptions",
    "RFPIOptions",
    "RobustProbit",
    "SpikeSlab",
    "Status",
    "Theta",
    "ThetaMixture",
    "VAMPClassifier",
    "solve",
]

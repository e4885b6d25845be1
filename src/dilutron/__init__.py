"""Sparse Bayesian classification by expectation propagation."""

from dilutron.baselines.amp import AMPOptions
from dilutron.baselines.greedy import AOPOptions, BIHTOptions, MSPOptions
from dilutron.baselines.grvamp import GrVAMPOptions
from dilutron.baselines.r1bcs import R1BCSOptions
from dilutron.baselines.sphere import NARFPIOptions, RFPIOptions
from dilutron.loop import Status
from dilutron.methods import METHODS, OPTIONS, solve
from dilutron.posterior import Posterior
from dilutron.priors import Normal, Probit, RobustProbit, SpikeSlab, Theta, ThetaMixture
from dilutron.problem import Problem
from dilutron.student import EPOptions

__version__ = "0.1.0"

ESTIMATORS = ("AMPClassifier", "EPClassifier", "R1BCSClassifier", "VAMPClassifier")


def __getattr__(name: str) -> object:
    """The scikit-learn face, on first use: loading scikit-learn takes longer than all the rest."""
    if name in ESTIMATORS:
        from dilutron import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'dilutron' has no attribute {name!r}")


__all__ = [
    "METHODS",
    "OPTIONS",
    "AMPOptions",
    "AOPOptions",
    "BIHTOptions",
    "EPOptions",
    "GrVAMPOptions",
    "MSPOptions",
    "NARFPIOptions",
    "Normal",
    "Posterior",
    "Probit",
    "Problem",
    "R1BCSOptions",
    "RFPIOptions",
    "RobustProbit",
    "SpikeSlab",
    "Status",
    "Theta",
    "ThetaMixture",
    "solve",
]

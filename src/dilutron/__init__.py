"""Sparse Bayesian classification by expectation propagation."""

from dilutron.loop import Status
from dilutron.methods import METHODS, solve
from dilutron.posterior import Posterior
from dilutron.priors import Normal, Probit, RobustProbit, SpikeSlab, Theta, ThetaMixture
from dilutron.problem import Problem
from dilutron.student import EPOptions

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "EPOptions",
    "Normal",
    "Posterior",
    "Probit",
    "Problem",
    "RobustProbit",
    "SpikeSlab",
    "Status",
    "Theta",
    "ThetaMixture",
    "solve",
]

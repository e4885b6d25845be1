"""The lists that the laws run over. A new prior, backend or method is one line here."""

from dataclasses import fields
from importlib.util import find_spec
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
from scipy.special import ndtr

from dilutron import Normal, Probit, RobustProbit, SpikeSlab, Theta, ThetaMixture
from dilutron.chunked import Chunked
from dilutron.gaussian import Dual, Primal
from dilutron.methods import METHODS, OPTIONS
from dilutron.rows import Rows

N_FEATURES = 4  # of the priors with one value per feature


class Factor(NamedTuple):
    """What a prior claims to be, for one variable: a mass at zero, and a density with a possible kink at zero."""

    spike: float
    density: Any


def _values(prior, i):
    """The parameters of one variable, as floats."""
    numbers = {name: value for name, value in vars(prior).items() if name not in ("counts", "copies")}
    return {name: float(np.broadcast_to(value, N_FEATURES)[i]) for name, value in numbers.items()}


def _spike_slab(rho, lam):
    return Factor(1.0 - rho, lambda w: rho * np.sqrt(lam / (2 * np.pi)) * np.exp(-lam * w**2 / 2))


def _label(eta, beta):
    if np.isinf(beta):
        return Factor(0.0, lambda z: np.where(z > 0, eta, 1 - eta))
    return Factor(0.0, lambda z: eta * ndtr(np.sqrt(beta) * z) + (1 - eta) * ndtr(-np.sqrt(beta) * z))


def _normal(precision):
    return Factor(0.0, lambda w: np.sqrt(precision / (2 * np.pi)) * np.exp(-precision * w**2 / 2))


def _normal_density(x, var):
    return mp.exp(-(x**2) / (2 * var)) / mp.sqrt(2 * mp.pi * var)


def _spike_slab_z(mean, var, rho, lam):
    return (1 - rho) * _normal_density(mean, var) + rho * _normal_density(mean, var + 1 / lam)


def _label_z(mean, var, eta, beta):
    t = mean / mp.sqrt(2 * (var + 1 / beta))
    return (eta * mp.erfc(-t) + (1 - eta) * mp.erfc(t)) / 2


def _normal_z(mean, var, precision):
    return _normal_density(mean, var + 1 / precision)


class Case(NamedTuple):
    """A prior; its factor as the definition has it; and its closed normaliser, for numbers of any precision."""

    name: str
    prior: Any
    make_factor: Any
    closed_z: Any

    def factor(self, i):
        """The factor of variable i."""
        return self.make_factor(**_values(self.prior, i))

    def log_z(self, i, mean, var, **changed):
        """The exact log normaliser of variable i, with as many digits as mpmath is set to."""
        values = {name: mp.mpf(value) for name, value in _values(self.prior, i).items()} | changed
        return mp.log(self.closed_z(mp.mpf(mean), mp.mpf(var), **values))


def _weights(name, prior):
    return Case(name, prior, _spike_slab, _spike_slab_z)


def _labels(name, prior):
    return Case(name, prior, _label, _label_z)


def _wide(name, prior):
    return Case(name, prior, _normal, _normal_z)


PRIORS = (
    _weights("spike-slab", SpikeSlab(0.25)),
    _weights("spike-slab, tight slab", SpikeSlab(0.1, lam=1e4)),
    _weights("spike-slab, nearly empty", SpikeSlab(1e-6, lam=0.3)),
    _weights("spike-slab, nearly full", SpikeSlab(1 - 1e-6)),
    _weights("spike-slab, per feature", SpikeSlab(np.array([0.01, 0.2, 0.5, 0.9]), lam=np.array([0.1, 1.0, 3.0, 1e3]))),
    _labels("theta", Theta()),
    _labels("theta mixture, half", ThetaMixture(0.5)),
    _labels("theta mixture", ThetaMixture(0.95)),
    _labels("theta mixture, nearly clean", ThetaMixture(1 - 1e-6)),
    _labels("probit", Probit(2.0)),
    _labels("probit, hot", Probit(1e-3)),
    _labels("robust probit", RobustProbit(0.9, 5.0)),
    _labels("robust probit, nearly cold", RobustProbit(0.7, 1e6)),
    _wide("normal", Normal(0.1)),
    _wide("normal, per feature", Normal(np.array([1e-3, 0.1, 1.0, 50.0]))),
)
SPIKE_SLABS = tuple(case for case in PRIORS if isinstance(case.prior, SpikeSlab))
LABELS = tuple(case for case in PRIORS if isinstance(case.prior, RobustProbit))
LEARNABLE = tuple((case, name) for case in PRIORS for name in case.prior.parameters)


def chunked(design):
    """The backend for tables that are not in memory, on blocks of seven rows."""
    return Chunked(Rows.of(design, block_rows=7))


BACKENDS = (Primal, Dual, chunked) if find_spec("dask") else (Primal, Dual)

N_WEIGHTS = 20  # of the problems that every method is run on
NEEDS: dict[str, dict[str, Any]] = {  # options that a method cannot do without on those, or not in a short time
    "r1bcs": {"tol": 1e-4},  # pruning takes tens of thousands of steps to go much further
    "rfpi": {"tol": 5e-5},  # and so does the last level
    "narfpi": {"flips": 0, "tol": 5e-5},
    "msp": {"k": 5, "patience": 5},  # with wrong labels it soon only goes round
    "biht": {"k": 5},
    "aop": {"k": 5, "flips": 0},
    "aop_f": {"k": 5, "flips": 0},
}


def method_options(method, **wanted):
    """What the method needs, and those of the wanted values that it has an option for."""
    kind = OPTIONS[method]
    known = {field.name for field in fields(kind)}
    return kind(**{name: value for name, value in wanted.items() if name in known} | NEEDS.get(method, {}))


def methods_with(option):
    """The methods that have this option."""
    return [method for method in METHODS if option in {field.name for field in fields(OPTIONS[method])}]


def named(cases):
    """Readable test ids."""
    return {"argvalues": cases, "ids": [case.name for case in cases]}

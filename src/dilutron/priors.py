"""Priors. A prior is its log-partition: mean and variance follow from the first two derivatives of `log_z`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr, ndtr, xlog1py, xlogy

from dilutron.options import number, numbers, pair
from dilutron.special import Vector, decay, hazard, log_normal, truncated

TAILS = 0.99  # share of a Gaussian tail's precision that a cavity of negative precision may use up
FAINT = 1e-100  # a learned precision stays between this and its inverse
PUSH = 49.0  # shift^2 / |precision| from which an improper label cavity counts: it leaves out less than exp(-24)


class Gaussians(NamedTuple):
    """A batch of one-dimensional Gaussians; here the cavities of Eq. (38).

    A negative variance stands for exp(+x^2 / 2|var| ...), which only a prior with Gaussian tails can bear.
    """

    mean: Vector
    var: Vector


class Tilted(NamedTuple):
    """Log normaliser, mean and variance of cavity times prior, one entry per variable."""

    log_z: Vector
    mean: Vector
    var: Vector


class Prior:
    """What the engine asks of a factor. A new one is such a frozen dataclass and a line in the test list.

    `parameters` names what can be learned, with the open interval that each value lives in.
    """

    parameters: ClassVar[dict[str, tuple[float, float]]] = {}
    role: ClassVar[str] = "weights"

    @property
    def multiplicity(self) -> float | Vector:
        """How many times each factor counts. EP gives every copy its own, equal site."""
        return 1.0

    @property
    def hard(self) -> bool:
        """True where the factor allows zero whatever the data: only then is w = 0 a trap."""
        return False

    def some(self, which: NDArray[np.intp]) -> Self:
        """The prior of some of the variables."""
        own = {name: value[which] for name in self.parameters if np.ndim(value := getattr(self, name))}
        return replace(self, **own) if own else self  # type: ignore[type-var]  # every prior is a dataclass

    def moments(self, cavity: Gaussians) -> Tilted:
        """Log normaliser, mean and variance of cavity times prior."""
        raise NotImplementedError

    def tilted(self, cavity: Gaussians) -> Gaussians:
        """Mean and variance alone, as `moments` says; one variance may stand for all. A quicker way may override it."""
        return Gaussians(*self.moments(Gaussians(cavity.mean, np.broadcast_to(cavity.var, cavity.mean.shape)))[1:])

    def flat_precision(self) -> float | Vector:
        """Precision of the site that EP starts from."""
        raise NotImplementedError

    def admits(self, precision: Vector, shift: Vector) -> NDArray[np.bool_]:
        """Which cavities exp(shift x - precision x^2 / 2) this prior can be integrated against."""
        return precision > 0.0

    def heated(self, noise_var: float) -> Self:
        """The factor seen through extra Gaussian noise; itself where that means nothing."""
        return self

    def slopes(self, cavity: Gaussians) -> dict[str, float | Vector]:
        """Explicit derivative of the summed log_z in each parameter."""
        return {}

    def learn(self, cavity: Gaussians, names: frozenset[str]) -> Self:
        """One EM update of those parameters named that this prior has."""
        return self

    def log_belief(self) -> float:
        """Log of the weak prior that the parameters themselves have, up to a constant: EM climbs evidence plus this."""
        return 0.0

    def belief_slopes(self) -> dict[str, float | Vector]:
        """Its derivatives: gradient steps climb the same hill as EM."""
        return {}

    def inclusion(self, cavity: Gaussians) -> Vector | None:
        """Probability that a weight is not zero, where the prior knows of zeros."""
        return None

    def flip(self, cavity: Gaussians) -> Vector | None:
        """Probability that a label is wrong, where the prior knows of labels."""
        return None


@dataclass(frozen=True)
class SpikeSlab(Prior):
    """(1 - rho) delta(w) + rho N(w; 0, 1/lam), Eq. (7): the prior of the weights.

    Parameters
    ----------
    rho : float or array of shape (N,)
        Density: the prior probability that a weight is not zero.
    lam : float or array of shape (N,)
        Precision of the slab.
    counts : (float, float)
        Pseudo-counts of present and absent weights: a weak Beta prior that keeps a learned rho off 0 and 1.
    """

    rho: float | Vector
    lam: float | Vector = 1.0
    counts: tuple[float, float] = (0.1, 0.1)
    parameters: ClassVar[dict[str, tuple[float, float]]] = {"rho": (0.0, 1.0), "lam": (0.0, np.inf)}

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", numbers("rho", self.rho, 0.0, 1.0, "a density strictly between 0 and 1"))
        object.__setattr__(self, "lam", numbers("lam", self.lam, 0.0, np.inf, "a positive, finite precision"))
        object.__setattr__(self, "counts", pair("counts", self.counts))

    def log_belief(self) -> float:
        """A Beta law of the mean density."""
        return _log_beta(self.counts, float(np.mean(self.rho)))

    def belief_slopes(self) -> dict[str, float | Vector]:
        """Of the same law: every density has its part in the mean."""
        return {"rho": _beta_slope(self.counts, float(np.mean(self.rho))) / np.size(self.rho)}

    def inclusion(self, cavity: Gaussians) -> Vector:
        """P(w != 0), Eq. (55)."""
        return np.asarray(expit(self._log_odds(cavity)))

    def moments(self, cavity: Gaussians) -> Tilted:
        """Eqs. (39) to (41), in log space so that no exponential overflows."""
        log_spike = np.log1p(-self.rho) + log_normal(cavity.mean, cavity.var)
        log_slab = np.log(self.rho) + log_normal(cavity.mean, cavity.var + 1.0 / np.asarray(self.lam))
        return Tilted(np.logaddexp(log_spike, log_slab), *self.tilted(cavity))  # Eq. (39)

    def tilted(self, cavity: Gaussians) -> Gaussians:
        """Eqs. (40) and (41), the second less the squared mean: all that a round of VAMP asks for."""
        log_odds, slab = self._log_odds(cavity), self._slab(cavity)
        present, absent = expit(log_odds), expit(-log_odds)
        return Gaussians(present * slab.mean, present * slab.var + present * absent * slab.mean**2)

    def flat_precision(self) -> float | Vector:
        """The prior's own variance is rho/lam; tight unit sites would fall into the trap w = 0."""
        return self.lam / self.rho

    def admits(self, precision: Vector, shift: Vector) -> NDArray[np.bool_]:
        """The slab bears a negative precision down to its own: weights that few labels reach need that."""
        return precision > -TAILS * np.asarray(self.lam)

    def slopes(self, cavity: Gaussians) -> dict[str, float | Vector]:
        """Derivatives of the summed log_z in rho, Eq. (C3), and in lam."""
        log_odds, slab = self._log_odds(cavity), self._slab(cavity)
        present, absent = expit(log_odds), expit(-log_odds)
        rho_slope = present / self.rho - absent / (1.0 - self.rho)  # Eq. (C3)
        lam_slope = 0.5 * present * (1.0 / self.lam - slab.mean**2 - slab.var)
        return {"rho": _shared(self.rho, rho_slope), "lam": _shared(self.lam, lam_slope)}

    def learn(self, cavity: Gaussians, names: frozenset[str]) -> Self:
        """EM: the odds of rho move by one common factor, lam by another, also where they are arrays."""
        present, slab, new = self.inclusion(cavity), self._slab(cavity), self
        if "rho" in names:
            wanted = (present.sum() + self.counts[0]) / (present.size + sum(self.counts))
            now = np.mean(self.rho)
            odds = self.rho / (1.0 - self.rho) * (wanted / (1.0 - wanted)) * ((1.0 - now) / now)
            new = replace(new, rho=odds / (1.0 + odds))
        if "lam" in names:
            power = np.sum(present * self.lam * (slab.mean**2 + slab.var))
            gain = present.sum() / max(power, np.finfo(np.float64).tiny)  # weights may all have been driven to zero
            new = replace(new, lam=np.clip(self.lam * gain, FAINT, 1.0 / FAINT))
        return new

    def _log_odds(self, cavity: Gaussians) -> Vector:
        """Log of P(w != 0) / P(w = 0)."""
        mean, var = cavity
        slab_var = 1.0 / np.asarray(self.lam)
        gain = 0.5 * mean**2 / var * (slab_var / (var + slab_var)) - 0.5 * np.log1p(slab_var / var)
        return np.asarray(np.log(self.rho) - np.log1p(-self.rho) + gain)

    def _slab(self, cavity: Gaussians) -> Gaussians:
        """Cavity times slab: the weight, given that it is present."""
        shrink = 1.0 / (1.0 + self.lam * cavity.var)
        return Gaussians(cavity.mean * shrink, cavity.var * shrink)


@dataclass(frozen=True)
class RobustProbit(Prior):
    """eta Phi(z sqrt(beta)) + (1 - eta) Phi(-z sqrt(beta)): every label factor of the paper, at any temperature.

    beta = inf is the step function: `Theta` for eta = 1, Eq. (8), and `ThetaMixture` for eta < 1, Eq. (10).
    A finite beta is the label seen through noise of variance 1/beta, Eq. (A1). Integrating that noise into the
    factor gives exactly the fixed points of Appendix A, without its (N+M)-dimensional matrices.

    Parameters
    ----------
    eta : float
        Fraction of right labels, from 1/2 to 1.
    beta : float
        Inverse temperature, positive; `inf` for none.
    copies : float or array of shape (M,)
        How many times each label counts: 2 is the same as a second, equal row.
    counts : (float, float)
        Weak prior of a learned eta: as if so many right and wrong labels had been seen before.
    """

    eta: float = 1.0
    beta: float = np.inf
    copies: float | Vector = 1.0
    counts: tuple[float, float] = (0.0, 0.0)
    parameters: ClassVar[dict[str, tuple[float, float]]] = {"eta": (0.5, 1.0), "beta": (0.0, np.inf)}
    role: ClassVar[str] = "labels"

    def __post_init__(self) -> None:
        if not 0.5 <= number(self.eta) <= 1.0:
            raise ValueError(f"eta must be one number from 0.5 to 1 (the fraction of right labels), got {self.eta!r}")
        if not number(self.beta) > 0.0:
            raise ValueError(f"beta must be one positive number (inf for zero temperature), got {self.beta!r}")
        object.__setattr__(self, "eta", number(self.eta))
        object.__setattr__(self, "beta", number(self.beta))
        object.__setattr__(self, "copies", numbers("copies", self.copies, 0.0, np.inf, "a positive, finite count"))
        object.__setattr__(self, "counts", pair("counts", self.counts))

    @property
    def multiplicity(self) -> float | Vector:
        """The copies."""
        return self.copies

    @property
    def hard(self) -> bool:
        """A step without noise: its value at zero is 1."""
        return bool(np.isinf(self.beta))

    def flip(self, cavity: Gaussians) -> Vector:
        """Probability that this label was turned over; 0 where eta = 1 says that none was."""
        return self._split(cavity).wrong

    def moments(self, cavity: Gaussians) -> Tilted:
        """Eqs. (44) to (52) as a mixture of two truncated Gaussians: sums of positive terms, no tail cancels."""
        scale, t, right, wrong, log_z = self._split(cavity)
        above, above_var = truncated(t)
        below, below_var = truncated(-t)
        spread = right * above_var + wrong * below_var + right * wrong * (above + below) ** 2
        noise = 1.0 / (1.0 + self.beta * cavity.var)  # the noise's share of scale^2
        pull = cavity.var / scale
        tilted = Tilted(
            log_z=log_z,  # Eqs. (44), (50)
            mean=cavity.mean * noise + pull * (right * above - wrong * below),  # Eqs. (46), (51)
            var=cavity.var * noise + pull**2 * spread,  # Eqs. (48), (52)
        )
        if np.any(improper := cavity.var < 0.0):  # see `admits`
            mean, var = cavity.mean[improper], cavity.var[improper]
            log_z, tilted.mean[improper], tilted.var[improper] = decay(-mean / var, 1.0 / var)
            tilted.log_z[improper] = log_z + log_normal(mean, var)
        return tilted

    def admits(self, precision: Vector, shift: Vector) -> NDArray[np.bool_]:
        """A hard step also bears a slightly negative precision, where the cavity pushes hard to the wrong side.

        The tilted law is then all but exponential. Some noiseless instances have their fixed point just there.
        """
        hard = self.eta == 1.0 and self.beta == np.inf
        return (precision > 0.0) | (hard & (shift < 0.0) & (shift**2 > PUSH * np.abs(precision)))

    def flat_precision(self) -> float | Vector:
        """Labels start unheard: from tight sites EP falls into the trap w = 0."""
        return 0.0

    def heated(self, noise_var: float) -> Self:
        """The same labels at a higher temperature."""
        return replace(self, beta=self.beta if noise_var == 0.0 else 1.0 / (1.0 / self.beta + noise_var))

    def slopes(self, cavity: Gaussians) -> dict[str, float | Vector]:
        """Derivatives of the summed log_z in eta, Eq. (C4), and in beta."""
        scale, t, right, wrong, log_z = self._split(cavity)
        eta_slope = np.exp(log_ndtr(t) - log_z) - np.exp(log_ndtr(-t) - log_z)  # Eq. (C4)
        pull = right * hazard(t) - wrong * hazard(-t)
        beta_slope = pull * cavity.mean / (2.0 * self.beta**2 * scale**3)
        return {"eta": float(np.sum(self.copies * eta_slope)), "beta": float(np.sum(self.copies * beta_slope))}

    def learn(self, cavity: Gaussians, names: frozenset[str]) -> Self:
        """EM: eta becomes the mean probability that a label is right, 1/beta the mean squared noise."""
        new = self
        if "eta" in names:
            right = self._right(cavity)
            labels = np.sum(np.broadcast_to(self.copies, right.shape))
            seen = (labels * self._average(right) + self.counts[0]) / (labels + sum(self.counts))
            new = replace(new, eta=max(float(seen), 0.5))
        if "beta" in names:
            scale, t, right, wrong, _ = self._split(cavity)
            noise = 1.0 / (1.0 + self.beta * cavity.var)
            squared = scale**2 * (1.0 - t * (right * hazard(t) - wrong * hazard(-t)))  # E[(y - mean)^2]
            new = replace(new, beta=1.0 / self._average(noise * (noise * squared + cavity.var)))
        return new

    def log_belief(self) -> float:
        """A Beta law of eta."""
        return _log_beta(self.counts, self.eta)

    def belief_slopes(self) -> dict[str, float | Vector]:
        """Of the same law."""
        return {"eta": _beta_slope(self.counts, self.eta)}

    def _average(self, values: Vector) -> float:
        """Over the labels, each as often as it counts."""
        return float(np.sum(self.copies * values) / np.sum(np.broadcast_to(self.copies, values.shape)))

    def _right(self, cavity: Gaussians) -> Vector:
        """P(label right), as `_split` has it, without the logs: M-steps ask for its mean again and again."""
        t = cavity.mean / np.sqrt(np.abs(cavity.var) + 1.0 / self.beta)
        above = ndtr(t)
        right, wrong = self.eta * above, (1.0 - self.eta) * (1.0 - above)
        return np.asarray(right / (right + wrong)) if self.eta < 1.0 else np.ones_like(t)

    def _split(self, cavity: Gaussians) -> _Split:
        scale = np.sqrt(np.abs(cavity.var) + 1.0 / self.beta)
        t = cavity.mean / scale
        log_right = np.log(self.eta) + log_ndtr(t)
        if self.eta == 1.0:
            return _Split(scale, t, np.ones_like(t), np.zeros_like(t), log_right)
        log_wrong = np.log1p(-self.eta) + log_ndtr(-t)
        log_odds = log_right - log_wrong
        return _Split(scale, t, expit(log_odds), expit(-log_odds), np.logaddexp(log_right, log_wrong))


class _Split(NamedTuple):
    """Sd of the noisy field, mean over that sd, P(label right), P(label wrong), log normaliser."""

    scale: Vector
    t: Vector
    right: Vector
    wrong: Vector
    log_z: Vector


def Theta() -> RobustProbit:
    """Noiseless labels, Eq. (8)."""
    return RobustProbit()


def ThetaMixture(eta: float) -> RobustProbit:
    """Labels of which a fraction `eta` is right, Eq. (10)."""
    return RobustProbit(eta=eta)


def Probit(beta: float) -> RobustProbit:
    """Labels seen through Gaussian noise of variance 1/beta: Appendix A with the noise integrated out."""
    return RobustProbit(beta=beta)


@dataclass(frozen=True)
class Normal(Prior):
    """N(0, 1/precision): the wide prior of an intercept."""

    precision: float | Vector = 0.1

    def __post_init__(self) -> None:
        wanted = "a positive, finite precision"
        object.__setattr__(self, "precision", numbers("precision", self.precision, 0.0, np.inf, wanted))

    def moments(self, cavity: Gaussians) -> Tilted:
        """A Gaussian times a Gaussian."""
        shrink = 1.0 / (1.0 + self.precision * cavity.var)
        log_z = log_normal(cavity.mean, cavity.var + 1.0 / np.asarray(self.precision))
        return Tilted(log_z, cavity.mean * shrink, cavity.var * shrink)

    def flat_precision(self) -> float | Vector:
        """Its site is exact from the start."""
        return self.precision

    def admits(self, precision: Vector, shift: Vector) -> NDArray[np.bool_]:
        """As for the slab."""
        return precision > -TAILS * np.asarray(self.precision)


def _shared(parameter: float | Vector, slope: Vector) -> float | Vector:
    """A shared parameter's slope is the sum over the variables that share it."""
    return float(slope.sum()) if np.ndim(parameter) == 0 else slope


def _log_beta(counts: tuple[float, float], share: float) -> float:
    """Log density of a Beta law, up to a constant: as if so many had been counted before."""
    return float(xlogy(counts[0], share) + xlog1py(counts[1], -share))


def _beta_slope(counts: tuple[float, float], share: float) -> float:
    """Its derivative, infinite at an end that was counted against."""
    with np.errstate(divide="ignore"):
        return float(sum(np.divide(n, side) for n, side in ((counts[0], share), (-counts[1], 1.0 - share)) if n))

"""Checks of the numbers that methods and priors are given: each names the option, what it must be, and what it got."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np

from dilutron.special import Vector


def positive(**values: object) -> None:
    """Finite numbers above zero."""
    for name, value in values.items():
        if not 0.0 < number(value) < np.inf:
            raise ValueError(f"{name} must be a positive number, got {value!r}")


def whole(at_least: int = 1, **values: object) -> None:
    """Whole numbers from `at_least` on."""
    for name, value in values.items():
        if not (isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= at_least):
            raise ValueError(f"{name} must be a whole number, at least {at_least}, got {value!r}")


def share(**values: object) -> None:
    """Numbers above 0 and below 1."""
    for name, value in values.items():
        if not 0.0 < number(value) < 1.0:
            raise ValueError(f"{name} must be a number above 0 and below 1, got {value!r}")


def old_share(**values: object) -> None:
    """Damping: the weight of the old value."""
    for name, value in values.items():
        if not 0.0 <= number(value) < 1.0:
            raise ValueError(f"{name} is the weight of the old value, from 0 up to but not 1, got {value!r}")


def one_of(known: tuple[str, ...], **values: object) -> None:
    """One of a few words."""
    for name, value in values.items():
        if not isinstance(value, str) or value not in known:
            raise ValueError(f"{name} must be one of {known}, got {value!r}")


def truth(**values: object) -> None:
    """True or False, and nothing that merely looks like it."""
    for name, value in values.items():
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"{name} must be True or False, got {value!r}")


def names(**values: object) -> None:
    """A tuple of words; a lone string is the usual slip."""
    for name, value in values.items():
        if not isinstance(value, (tuple, list)) or not all(isinstance(entry, str) for entry in value):
            raise ValueError(f"{name} must be a tuple of names, for example ({value!r},), got {value!r}")


def pair(name: str, value: object) -> tuple[float, float]:
    """Two counts, such as of right and of wrong labels, which need not be whole."""
    if not (isinstance(value, tuple) and len(value) == 2 and all(0.0 <= number(one) < np.inf for one in value)):
        raise ValueError(f"{name} must be a tuple of two finite numbers >= 0, got {value!r}")
    return number(value[0]), number(value[1])


def numbers(name: str, value: object, low: float, high: float, remedy: str) -> float | Vector:
    """The value as a float, or as a vector that nothing else can change; ValueError where it is out of range."""
    try:
        values = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be {remedy}, got {value!r}") from error
    if values.ndim > 1 or values.size == 0:
        raise ValueError(f"{name} must be one number or a vector of one per feature, got shape {values.shape}")
    bad = np.atleast_1d(~((values > low) & (values < high)))
    if np.any(bad):
        first = int(np.flatnonzero(bad)[0])
        place = f" at position {first}" if values.ndim else ""
        raise ValueError(f"{name} must be {remedy}, got {np.atleast_1d(values)[first]}{place}")
    return values if values.ndim else float(values)


def number(value: object) -> float:
    """As a float; not a number where it is none, or too large to be one."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return np.nan
    try:
        return float(value)
    except OverflowError:
        return np.nan

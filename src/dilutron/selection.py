"""Which features, and which labels, to name: rules over probabilities."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dilutron.options import share, whole
from dilutron.special import Vector

Indices = NDArray[np.intp]
RULES = ("fdr", "n_features_to_select", "threshold")


class Suspects(NamedTuple):
    """Labels to look at again, the most suspect first. They are for review: nothing was changed or dropped.

    Attributes
    ----------
    rows : array of ints
        Rows of the table that was fitted.
    probability : array
        That the label is wrong.
    given, suggested : arrays
        The label in the table, and the one that the model prefers.
    """

    rows: Any
    probability: Vector
    given: Any
    suggested: Any


def one_rule(**rules: Any) -> dict[str, Any]:
    """The one of `RULES` that is given, if any; ValueError for two, and for a value that cannot be."""
    given = {name: value for name, value in rules.items() if value is not None}
    if len(given) > 1:
        raise ValueError(f"give one rule of {', '.join(rules)}, got {' and '.join(given)}")
    for name in given:
        (whole if name == "n_features_to_select" else share)(**given)
    return given


def by_rule(probability: Vector, rule: dict[str, Any], size: int) -> Indices:
    """What the rule selects; without one, the `size` most probable."""
    if "fdr" in rule:
        return by_false_share(probability, float(rule["fdr"]))
    if "threshold" in rule:
        return by_threshold(probability, float(rule["threshold"]))
    return by_size(probability, rule.get("n_features_to_select", size))


def ranked(probability: Vector) -> Indices:
    """Most probable first; of equals the earlier one."""
    return np.argsort(-probability, kind="stable")


def by_false_share(probability: Vector, fdr: float) -> Indices:
    """The longest list, most probable first, of which on average at most a share `fdr` is wrong (Bayesian FDR)."""
    order = ranked(probability)
    wrong = np.cumsum(1.0 - probability[order]) / np.arange(1, order.size + 1)
    return order[: int(np.sum(wrong <= fdr))]  # the running mean only grows along the order


def by_size(probability: Vector, size: int) -> Indices:
    """The `size` most probable."""
    return ranked(probability)[:size]


def by_threshold(probability: Vector, threshold: float) -> Indices:
    """All that reach the threshold, most probable first."""
    order = ranked(probability)
    return order[probability[order] >= threshold]


def effective_size(weights: Vector) -> int:
    """How many features carry the weights, where there are no probabilities: `(sum |w|)^2 / sum w^2`, at least one."""
    power = float(np.sum(weights**2))
    return 1 if power == 0.0 else max(1, round(float(np.sum(np.abs(weights))) ** 2 / power))


def other_rules(probability: Vector, size: int) -> str:
    """In words, for a rule that selected nothing: which rule would select what; no rule at all selects `size`."""
    top = float(probability.max())
    likely = by_threshold(probability, 0.5 * top).size
    return (
        f"The largest inclusion probability is {top:.3g}: fdr={_up(1.0 - top)} or more, or threshold={_down(top)}"
        f" or less, selects at least one; threshold={_down(0.5 * top)} selects {likely};"
        f" n_features_to_select=10 the {min(10, probability.size)} most probable;"
        f" and no rule at all the {size} that are likely to matter."
    )


def no_suspect(errors: Vector, fdr: float) -> str:
    """In words, for a list of no label: what would list some."""
    top = float(errors.max())
    if top == 0.0:
        return 'No label is suspect, since all are taken for right: with eta="auto" the model may doubt them.'
    others = f"fdr={_up(1.0 - top)} or n_labels=5 lists the most suspect"
    return f"No label is suspect at fdr={fdr}: the largest error probability is {top:.3g}. {others}."


def _up(value: float) -> str:
    """To three digits, not below the value."""
    return f"{np.ceil(value * 1e3) / 1e3:.3g}"


def _down(value: float) -> str:
    """To three significant digits, not above the value."""
    unit = 10.0 ** (np.floor(np.log10(max(value, 1e-300))) - 2.0)
    return f"{np.floor(value / unit) * unit:.3g}"


def label_errors(proba: Vector, codes: Indices, flips: Vector, heard: NDArray[np.bool_]) -> Vector:
    """Probability that each label is wrong.

    Parameters
    ----------
    proba : array of shape (M, n_classes)
        Predicted, of each class.
    codes : array of shape (M,)
        The class of each label; -1 for a class that the model has never seen, which is wrong for sure.
    flips : array of shape (1, n_heard) or (n_classes, n_heard)
        From the fits: of two classes, or of each against the rest.
    heard : array of shape (M,)
        Rows that counted. The others are judged by prediction.
    """
    wrong = np.where(codes < 0, 1.0, 1.0 - proba[np.arange(codes.size), codes])
    own = codes[heard] if len(flips) > 1 else np.zeros(int(heard.sum()), dtype=np.intp)
    wrong[heard] = flips[own, np.arange(own.size)]
    return np.asarray(wrong)


def runners_up(proba: Vector, codes: Indices) -> Indices:
    """The most probable class other than the one given."""
    others = proba.copy()
    known = np.flatnonzero(codes >= 0)
    others[known, codes[known]] = -1.0
    return np.asarray(np.argmax(others, axis=1))

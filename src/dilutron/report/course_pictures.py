"""Pictures of the calculation: the sizes it tried, and how it settled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np
from markupsafe import Markup

from dilutron.report.curves import LEFT, RIGHT, TOP_EDGE, Curve, Picture, drawn, legend, of_many, two_digits
from dilutron.report.reading import Mark, RunFolder, Tried
from dilutron.report.svg import SERIES, Scale, drawing, line, tag, words, x_axis, y_axis

T = TypeVar("T", Mark, Tried)
ROOM = 28.0  # that a size takes at the top of the trace


def sizes(run: RunFolder) -> Picture | None:
    """The weight of every expected number of features that was tried."""
    path = [one for one in run.path if one.size > 0 and math.isfinite(one.weight)]
    if not path:
        return None
    title = "How many features the data ask for"
    low, high = min(one.size for one in path), max(one.size for one in path)
    x = Scale(low / 1.3, high * 1.3, LEFT, RIGHT, log=True)
    y = Scale(0, max(max(one.weight for one in path), 1e-9) * 1.05, 250, TOP_EDGE)
    every = [_weights(rows, target) for target, rows in _by_target(path)]
    found = every[:SERIES]
    ticks = [tick for k in range(-2, 7) for tick in (10.0**k, 2 * 10.0**k, 5 * 10.0**k) if x.low <= tick <= x.high]
    ticks = ticks if len(ticks) <= 7 else [tick for tick in ticks if math.log10(tick).is_integer()]
    marks = [*x_axis(x, TOP_EDGE, 250, "expected number of features", ticks), *y_axis(y, LEFT, RIGHT, "weight")]
    marks += drawn(found, x, y)
    for k, curve in enumerate(found):
        for size, weight in zip(curve.x, curve.y, strict=True):
            marks.append(tag("circle", cx=x(float(size)), cy=y(float(weight)), r=4, class_=f"dot c{k % SERIES}"))
    key, height = legend(found, 304.0) if len(found) > 1 else ([], 294.0)
    best = max(path, key=lambda one: one.weight)
    size = f"{two_digits(best.size):g}"
    told = f"{len(path)} sizes tried; the largest weight, {best.weight:.2f}, is that of {size} features."
    caption = Markup(
        "Several expected numbers of features were tried, and the answers averaged with these weights. One peak: the"
        " data know how many; a broad hill: they do not.{}"
    ).format(of_many(every, found))
    return Picture("sizes", title, drawing(height, title, told, [*marks, *key], "sizes"), caption)


def trace(run: RunFolder) -> Picture | None:
    """How the calculation came to rest."""
    every = []
    for target, rows in _by_target([mark for mark in run.trace if 0.0 < mark.mismatch < math.inf]):
        kept = _thin(rows)
        steps, left = ([mark.iteration for mark in kept], [mark.mismatch for mark in kept])
        every.append(Curve(target, np.array(steps, dtype=float), np.array(left)))
    if all(curve.x.size < 2 for curve in every):  # begun at the answer of a like problem, there is no way to show
        return None
    found = every[:SERIES]
    title = "How the calculation settled"
    tolerance = float(run.settings.get("tol") or 0.0)
    values = np.concatenate([curve.y for curve in found])
    low, high = min(values.min(), tolerance or np.inf), values.max()
    x = Scale(min(curve.x.min() for curve in found), max(max(curve.x.max() for curve in found), 1.0), LEFT, RIGHT)
    y = Scale(float(low) / 2, max(float(high) * 10, float(low) * 10), 250, TOP_EDGE, log=True)
    whole = sorted({float(round(tick)) for tick in x.ticks()})
    marks = [*x_axis(x, TOP_EDGE, 250, "iteration", whole), *y_axis(y, LEFT, RIGHT, "mismatch of the moments")]
    marks += _parted(run.trace, x) if len(every) == 1 else []
    marks += drawn(found, x, y)
    if tolerance:
        marks += [
            line(LEFT, y(tolerance), RIGHT, y(tolerance), "mark"),
            words(LEFT + 6, y(tolerance) - 5, "tolerance", "start", "tick halo"),  # above the curve, which crosses it
        ]
    key, height = legend(found, 304.0) if len(found) > 1 else ([], 294.0)
    last = "; ".join(f"{curve.label} {len(curve.x)} iterations, last mismatch {curve.y[-1]:.1e}" for curve in found)
    caption = Markup(
        "The change that was left after each iteration, for one expected number of features after the other, from many"
        " to few{}. Each begins at the answer for another: the curve jumps up there, as it may where a learned value"
        " changes, and should come down below the dashed line each time.{}"
    ).format(" (the numbers at the top)" if len(every) == 1 else "", of_many(every, found))
    picture = drawing(height, title, last, [*marks, *key], "trace")
    return Picture("trace", title, picture, caption)


def _parted(trace: Sequence[Mark], x: Scale) -> list[Markup]:
    """A line where each expected size begins, and the size beside it where there is room."""
    begins = [b for a, b in pairwise([None, *trace]) if b and (a is None or a.size != b.size) and math.isfinite(b.size)]
    places = [x(max(mark.iteration - 0.5, x.low)) for mark in begins]
    marks = [line(place, TOP_EDGE, place, 250, "grid") for place in places]
    for mark, place, end in zip(begins, places, [*places[1:], RIGHT], strict=False):
        if end - place >= ROOM:
            marks.append(words(place + 4, TOP_EDGE + 12, f"{two_digits(mark.size):g}", "start", "tick halo"))
    return marks


def _by_target(rows: Sequence[T]) -> list[tuple[str, list[T]]]:
    """One list for each class, the only one where there are two."""
    found: dict[str, list[T]] = {}
    for row in rows:
        found.setdefault(row.target, []).append(row)
    return list(found.items())


def _weights(path: list[Tried], target: str) -> Curve:
    path = sorted(path, key=lambda one: one.size)
    return Curve(target, np.array([one.size for one in path]), np.array([one.weight for one in path]))


def _thin(rows: list[T]) -> list[T]:
    """At most so many points of a long trace, the last included."""
    kept = np.unique(np.linspace(0, len(rows) - 1, 400).astype(int))
    return [rows[k] for k in kept]

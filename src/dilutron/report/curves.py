"""Named lines in a picture, with their legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from dilutron.report.svg import SERIES, WIDTH, Scale, fitted, line, polyline, tag, words
from dilutron.special import Vector

LEFT, TOP_EDGE, RIGHT = 52.0, 28.0, WIDTH - 14.0


class Picture(NamedTuple):
    """A drawing, its name, and how to read it."""

    key: str
    title: str
    drawing: Markup
    caption: Markup


class Curve(NamedTuple):
    """A named line."""

    label: str
    x: Vector
    y: Vector


def drawn(found: Sequence[Curve], x: Scale, y: Scale) -> list[Markup]:
    """A line for each; a dot for one of a single point."""
    marks = []
    for k, curve in enumerate(found):
        points = [(x(float(a)), y(float(b))) for a, b in zip(curve.x, curve.y, strict=True)]
        marks.append(polyline(points, f"curve c{k % SERIES}"))
        if len(points) == 1:
            marks.append(tag("circle", cx=points[0][0], cy=points[0][1], r=4, class_=f"dot c{k % SERIES}"))
    return marks


def legend(found: Sequence[Curve], top: float) -> tuple[list[Markup], float]:
    """The name of each line below the picture, and where they end."""
    marks = []
    for k, curve in enumerate(found):
        y = top + 20 * k
        marks += [
            line(LEFT, y, LEFT + 28, y, f"curve c{k % SERIES}"),
            words(LEFT + 36, y + 4, fitted(curve.label, 27.0)),
        ]
    return marks, top + 20 * len(found)


def of_many(every: Sequence[Curve], found: Sequence[Curve]) -> str:
    """Lines beyond the colours that can be told apart are left out, and that is said."""
    return f" {len(found)} of {len(every)} classes are drawn." if len(found) < len(every) else ""


def two_digits(value: float) -> float:
    """A number as a sentence gives it."""
    return float(f"{value:.2g}")

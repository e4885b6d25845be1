"""Drawings as text: elements, scales and axes. Colours are classes, which the page's style sheet fills in."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup

WIDTH = 460.0
SERIES = 6  # colours that the style sheet has
MINUS = "\N{MINUS SIGN}"
JOINERS = "\u200c\u200d\u00ad"  # which some scripts and emoji need


def tag(name: str, *content: object, **attributes: object) -> Markup:
    """One element. Content and attributes are escaped unless they are Markup; `text_anchor` becomes text-anchor."""
    told = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), _written(value))
        for key, value in attributes.items()
        if value is not None
    )
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), told, Markup("").join(map(_written, content)))


def drawing(height: float, title: str, description: str, marks: Iterable[Markup], key: str) -> Markup:
    """A picture with its name and its words for those who do not see it."""
    names = {"id": f"{key}-title"}, {"id": f"{key}-words"}
    return tag(
        "svg", tag("title", title, **names[0]), tag("desc", description, **names[1]), *marks,
        viewBox=f"0 0 {WIDTH:.0f} {height:.0f}", role="img", aria_labelledby=f"{key}-title {key}-words",
    )  # fmt: skip


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """A straight stroke."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def words(x: float, y: float, text: object, anchor: str = "start", kind: str | None = None) -> Markup:
    """Text, as text."""
    return tag("text", text, x=x, y=y, text_anchor=anchor, class_=kind)


def polyline(points: Iterable[tuple[float, float]], kind: str) -> Markup:
    """A line through points."""
    return tag("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_=kind)


def clipped(text: str, letters: int) -> str:
    """At most so many letters on one line, for the page; what is not seen is shown as a sign."""
    flat = _flat(text, letters)
    return flat if len(flat) <= letters else flat[: letters - 1] + "…"


def fitted(text: str, room: float) -> str:
    """As many letters as a picture has room for, in units of the letters' height."""
    flat, used = _flat(text, int(4 * room)), 0.0
    for k, letter in enumerate(flat):
        used += _breadth(letter)
        if used > room:
            return flat[: max(k - 1, 0)] + "…"
    return flat


def _flat(text: str, letters: int) -> str:
    return "".join(map(_visible, " ".join(text[: 4 * letters + 200].split())))


def _breadth(letter: str) -> float:
    """A careful guess: fonts differ."""
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.05
    if letter in "MW@%mw—…":
        return 1.0
    if letter in " .,:;'|!ijl":
        return 0.36
    return 0.76 if letter.isupper() else 0.64


class Scale(NamedTuple):
    """From numbers to places on the paper."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Where a value is; beyond the ends, at the end."""
        low, high, value = map(self._even, (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def _even(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.log else value

    def ticks(self, most: int = 6) -> list[float]:
        """Round numbers inside the ends."""
        if self.log:
            low, high = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            return [10.0**k for k in range(low, high + 1, max(1, -(-(high - low) // most)))]
        if self.high <= self.low:
            return [self.low]
        raw = (self.high - self.low) / most
        unit = 10.0 ** math.floor(math.log10(raw))
        step = unit * next(k for k in (1, 2, 5, 10) if k * unit >= raw * (1 - 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        return [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]


def x_axis(scale: Scale, top: float, bottom: float, label: str, ticks: Sequence[float] | None = None) -> list[Markup]:
    """Grid lines, numbers and a name below."""
    marks = []
    for tick in scale.ticks() if ticks is None else ticks:
        marks += [
            line(scale(tick), top, scale(tick), bottom, "grid"),
            words(scale(tick), bottom + 16, number(tick), "middle", "tick"),
        ]
    middle = (scale.start + scale.end) / 2
    return [*marks, line(scale.start, bottom, scale.end, bottom, "axis"), words(middle, bottom + 34, label, "middle")]


def y_axis(scale: Scale, left: float, right: float, label: str) -> list[Markup]:
    """Grid lines, numbers and a name above, which is read without turning the head."""
    marks = []
    for tick in scale.ticks():
        marks += [
            line(left, scale(tick), right, scale(tick), "grid"),
            words(left - 6, scale(tick) + 4, number(tick), "end", "tick"),
        ]
    return [*marks, words(4, 14, label)]


def number(value: float) -> str:
    """Short, with a true minus sign."""
    if value and not 1e-4 <= abs(value) < 1e5:
        mantissa, power = f"{value:.2e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".").replace("-", MINUS)
        digits = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return ("10" if mantissa == "1" else f"{mantissa}·10") + digits
    return f"{value:.6g}".replace("-", MINUS)


def _visible(letter: str) -> str:
    """What steers the writing direction or the terminal, and is not itself seen, as a sign that it was there."""
    hidden = unicodedata.category(letter) in ("Cc", "Cf", "Cs") and letter not in JOINERS
    return "\N{REPLACEMENT CHARACTER}" if hidden else letter


def _written(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return value if isinstance(value, str) else str(value)

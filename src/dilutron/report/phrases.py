"""Numbers and names in a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from dilutron.report.svg import clipped

NAMED = 10  # names in a sentence
LONG = 60  # letters of a name in a sentence


def percent(share: float) -> str:
    """A probability in words; never 0 or 100 %."""
    if math.isnan(share):
        return "unknown"
    if share > 0.99:
        return "over 99\u00a0%"
    return "under 1\u00a0%" if share < 0.01 else f"{100 * share:.0f}\u00a0%"


def measured(share: float) -> str:
    """A share that was counted: it may be 0 or 100 %, but only where it is."""
    text = f"{100 * share:.0f}" if share in (0.0, 1.0) else f"{100 * min(max(share, 0.001), 0.999):.1f}"
    return f"{text}\u00a0%"


def count(n: int, noun: str, plural: str | None = None) -> str:
    """A number and its noun."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def name(text: str) -> Markup:
    """A string from the user's file: escaped, cut, and closed in itself where it is written from right to left."""
    return Markup('<bdi class="name">{}</bdi>').format(clipped(text, LONG) or "(empty)")


def listed(items: Sequence[Markup], most: int = NAMED, total: int | None = None, between: str = ", ") -> Markup:
    """Items with commas, the last ones counted only."""
    left = (total or len(items)) - min(most, len(items))
    shown = Markup(between).join(items[:most])
    return Markup("{} and {} more").format(shown, f"{left:,}") if left else shown


def about(number: float) -> str:
    """A small number in words."""
    return "fewer than 0.1" if number < 0.1 else f"about {number:.1f}"

"""Pictures of the features: how probable, how strong, how alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby

import numpy as np
from markupsafe import Markup

from dilutron.report.curves import Picture, two_digits
from dilutron.report.phrases import count, percent
from dilutron.report.reading import Correlations, Feature, RunFolder
from dilutron.report.svg import WIDTH, Scale, clipped, drawing, fitted, line, number, tag, words, x_axis

TOP = 25  # features in a picture
ROW = 21.0  # their height
GUTTER = 174.0  # room for names
NAME = 12.6  # that is, in heights of a letter


def inclusion(run: RunFolder) -> Picture | None:
    """Bars: how probable it is that each of the first features matters."""
    shown = [feature for feature in run.features[:TOP] if not math.isnan(feature.inclusion)]
    if not shown:
        return None
    title = "How likely each feature is to matter"
    scale, bottom = Scale(0, 1, GUTTER, WIDTH - 46.0), 10 + ROW * len(shown)
    marks = x_axis(scale, 6, bottom, "inclusion probability", [0, 0.25, 0.5, 0.75, 1])
    for k, feature in enumerate(shown):
        y, end = 10 + ROW * k, scale(feature.inclusion)
        marks += [
            _row_name(feature, y),
            tag("rect", x=GUTTER, y=y + 3, width=max(end - GUTTER, 1.0), height=ROW - 7, class_="bar"),
        ]
    marks.append(line(scale(0.5), 6, scale(0.5), bottom, "mark"))
    for k, feature in enumerate(shown):
        place = scale(feature.inclusion) + 5
        marks.append(words(place, 10 + ROW * k + 15, _probability(feature.inclusion), kind="tick halo"))
    told = f"Bars for {len(shown)} features. The most probable: " + _told(shown, lambda f: percent(f.inclusion))
    caption = Markup(
        "The {} most probable of {}. Beyond the dashed line, a feature is more likely to matter than not. Of features"
        " that rise and fall together each may have a short bar though one of them matters: see their groups."
    ).format(len(shown), _all(run))
    return Picture("inclusion", title, drawing(bottom + 42, title, told, marks, "inclusion"), caption)


def intervals(run: RunFolder) -> Picture | None:
    """Coefficients of the first features, with where they lie if they matter."""
    shown = [f for f in run.features[:TOP] if np.isfinite([f.standardized_low, f.standardized_high]).all()]
    if not shown:
        return None
    title = "How strongly, and which way"
    reach = max(max(abs(f.standardized_low), abs(f.standardized_high), abs(f.standardized)) for f in shown) or 1.0
    scale, top = Scale(-reach, reach, GUTTER, WIDTH - 14.0), 26.0
    bottom = top + ROW * len(shown)
    marks = x_axis(scale, top, bottom, "coefficient, per standard deviation", scale.ticks(5))
    marks.append(line(scale(0), top - 4, scale(0), bottom, "mark"))
    two = len(run.classes) == 2
    sides = (run.classes[0], run.classes[1]) if two else ("the others", "the class")
    marks += [
        words(scale(0) - 8, 14, f"← {fitted(sides[0], 9.0)}", "end", "tick"),
        words(scale(0) + 8, 14, f"{fitted(sides[1], 9.0)} →", "start", "tick"),
    ]
    for k, feature in enumerate(shown):
        y = top + ROW * (k + 0.5)
        kind = "strong" if feature.inclusion >= 0.5 else "faint"
        marks += [
            _row_name(feature, y - ROW / 2),
            line(scale(feature.standardized_low), y, scale(feature.standardized_high), y, f"interval {kind}"),
            tag("circle", cx=scale(feature.standardized), cy=y, r=4, class_=f"dot {kind}"),
        ]
    told = "Coefficients and 90 % intervals. " + _told(
        shown, lambda f: f"{number(two_digits(f.standardized_low))} to {number(two_digits(f.standardized_high))}"
    )
    caption = Markup(
        "Lines: where the coefficient lies with 90\u00a0% probability if the feature matters. Dots: the mean over both"
        " cases, so that they are near zero for features that probably do not. Pale: rather does not matter. The"
        " direction holds with all other features fixed; it is not a cause."
    )
    return Picture("intervals", title, drawing(bottom + 42, title, told, marks, "intervals"), caption)


def heat_map(run: RunFolder) -> Picture | None:
    """Correlations of the first features, those of a group side by side."""
    if run.correlations is None or len(run.correlations.names) < 2:
        return None
    title = "Features that rise and fall together"
    found, groups = _grouped(run.correlations, run.features)
    n = len(found.names)
    kind, left, top = ("small", GUTTER - 18.0, 8.0) if n > 20 else ("tick", GUTTER + 4.0, 8.0)
    cell = min((WIDTH - left - 4.0) / n, 22.0)
    marks = []
    for i in range(n):
        y = top + i * cell
        marks.append(words(left - 24, y + cell / 2 + 4, fitted(found.names[i], NAME), "end", f"{kind} dark"))
        marks.append(words(left - 5, y + cell / 2 + 4, i + 1, "end", kind))
        for j in range(i + 1):
            marks.append(_cell(found, i, j, left + j * cell, y, cell))
    step = 1 if cell >= 16 else 5
    for j in range(0, n, step):
        marks.append(words(left + (j + 0.5) * cell, top + n * cell + 15, j + 1, "middle", "tick"))
    marks += _frames(groups, left, top, cell)
    marks += _key(left + 8.0, top + n * cell + 30.0)
    strong = [(i, j) for i in range(n) for j in range(i) if abs(found.values[i, j]) >= 0.7]
    told = f"Correlations of {n} features; {len(strong)} pairs have a correlation of 0.7 or more in size."
    caption = Markup(
        "Correlations of the {} most probable features; the numbers below are those beside the names.{}"
    ).format(n, _BOXES if any(group and groups.count(group) > 1 for group in groups) else "")
    return Picture("heat-map", title, drawing(top + n * cell + 62, title, told, marks, "heat-map"), caption)


_BOXES = (
    " Boxes: groups, whose members stand in for one another, so that the data often cannot tell which of them matters."
)


def _all(run: RunFolder) -> str:
    if len(run.classes) == 2:
        return count(int(run.data["n_features"]), "feature")
    return count(len(run.features), "pair of a feature and a class", "pairs of a feature and a class")


def _row_name(feature: Feature, y: float) -> Markup:
    """A name as far as there is room; the whole one when the mouse rests on it."""
    end = f" · {fitted(feature.target, 4.5)}" if feature.target else ""
    full = tag("title", clipped(f"{feature.name} · {feature.target}" if end else feature.name, 200))
    return words(
        GUTTER - 8, y + 15, Markup("{}{}{}").format(full, fitted(feature.name, NAME - 5.0 * bool(end)), end), "end"
    )


def _told(shown: Sequence[Feature], value: Callable[[Feature], str]) -> str:
    """The first features in words."""
    return "; ".join(f"{clipped(feature.name, 60)} {value(feature)}" for feature in shown[:10]) + "."


def _probability(share: float) -> str:
    return ">0.99" if share > 0.99 else "<0.01" if share < 0.01 else f"{share:.2f}"


def _grouped(found: Correlations, features: Sequence[Feature]) -> tuple[Correlations, list[str]]:
    """The same, members of a group side by side in the order of their first, and the group of each."""
    group_of = {feature.name: feature.group for feature in reversed(features)}
    groups = [group_of.get(one, "") for one in found.names]
    first = {group: k for k, group in reversed(list(enumerate(groups))) if group}
    order = sorted(range(len(groups)), key=lambda k: (first[groups[k]] if groups[k] else k, k))
    names = tuple(found.names[k] for k in order)
    return Correlations(names, found.values[np.ix_(order, order)]), [groups[k] for k in order]


def _cell(found: Correlations, i: int, j: int, x: float, y: float, size: float) -> Markup:
    value = float(found.values[i, j])
    if math.isnan(value):
        return Markup("")
    title = tag("title", f"{clipped(found.names[i], 60)} and {clipped(found.names[j], 60)}: {value:.2f}")
    kind = _warmth(value)
    return tag("rect", title if i != j else "", x=x, y=y, width=size - 0.6, height=size - 0.6, class_=kind,
               fill_opacity=min(abs(value), 1.0))  # fmt: skip


def _warmth(value: float) -> str:
    return "warm" if value >= 0 else "cold"


def _frames(groups: Sequence[str], left: float, top: float, cell: float) -> list[Markup]:
    marks, start = [], 0
    for group, members in groupby(groups):
        n = len(list(members))
        if group and n > 1:
            place, side = start * cell, n * cell
            marks.append(tag("rect", x=left + place, y=top + place, width=side, height=side, class_="frame"))
        start += n
    return marks


def _key(x: float, y: float) -> list[Markup]:
    """What the colours of the heat map mean."""
    steps = [-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1]
    marks = [
        tag(
            "rect",
            x=x + 60 + 13 * k,
            y=y,
            width=13,
            height=12,
            class_="warm" if v >= 0 else "cold",
            fill_opacity=abs(v),
        )
        for k, v in enumerate(steps)
    ]
    end = x + 60 + 13 * len(steps)
    return [
        words(x + 52, y + 11, number(-1), "end", "tick"), *marks, words(end + 6, y + 11, "1", "start", "tick"),
        words(x + 60, y + 27, "correlation", "start", "tick"),
    ]  # fmt: skip

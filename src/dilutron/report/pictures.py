"""Pictures of a run: one function for each, which returns None where the run has nothing to show."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple, TypeVar

import numpy as np
from markupsafe import Markup

from dilutron.metrics import auc, roc
from dilutron.report.reading import Correlations, Feature, Label, Mark, RunFolder, Tried
from dilutron.report.svg import (
    SERIES,
    WIDTH,
    Scale,
    clipped,
    drawing,
    fitted,
    line,
    number,
    polyline,
    tag,
    words,
    x_axis,
    y_axis,
)
from dilutron.report.words import count, measured, percent
from dilutron.special import Vector

TOP = 25  # features in a picture
ROW = 21.0  # their height
GUTTER = 158.0  # room for names
NAME = 11.4  # that is, in heights of a letter
LANE = 76.0  # height of a class in the review of labels
GOLDEN = 0.618034  # spreads dots evenly
DOTS = 1500  # samples in a picture
POINTS = 200  # of a curve
FILL = 10  # samples in a bin of the calibration, at least
LEFT, TOP_EDGE, RIGHT = 52.0, 28.0, WIDTH - 14.0
Z = 1.6449  # of a 90 % interval

T = TypeVar("T", Mark, Tried)


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


class Bin(NamedTuple):
    """Samples of like probability: the mean stated, the share for which it was so, its interval, and how many."""

    stated: float
    share: float
    low: float
    high: float
    n: int


def pictures(run: RunFolder) -> list[Picture]:
    """All that the run has data for, in the order of the page."""
    kinds = (inclusion, intervals, heat_map, label_review, roc_curves, calibration, sizes, trace)
    return [picture for kind in kinds if (picture := kind(run)) is not None]


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
        shown, lambda f: f"{number(_round(f.standardized_low))} to {number(_round(f.standardized_high))}"
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
    left, top = GUTTER + 4.0, 8.0
    cell = min((WIDTH - left - 4.0) / n, 22.0)
    marks = []
    for i in range(n):
        y = top + i * cell
        kind = "small" if cell < 13 else "tick"
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


def label_review(run: RunFolder) -> Picture | None:
    """Every sample at the probability that its label is wrong."""
    shown = [label for label in run.labels[:DOTS] if not math.isnan(label.error)]
    if not shown:
        return None
    title = "Which labels look wrong"
    scale, lane = Scale(0, 1, 16, WIDTH - 16), LANE
    bottom = 6 + lane * len(run.classes)
    marks = x_axis(scale, 6, bottom, "probability that the label is wrong", [0, 0.25, 0.5, 0.75, 1])
    for k, one in enumerate(run.classes):
        inside = [label for label in shown if label.given == one]
        top = 6 + lane * k
        marks += _lane(inside, scale, top)
        marks.append(words(16, top + 15, f"given {fitted(one, 28.0)}", kind="halo"))
    suspects = [label for label in shown if label.suspect]
    told = f"{len(suspects)} of {len(run.labels)} labels are suspect. " + "; ".join(
        f"row {label.row}, given {clipped(label.given, 40)}, {percent(label.error)}" for label in suspects[:10]
    )
    cut = f" Of {len(run.labels):,} samples, the {len(shown):,} most doubtful." if len(shown) < len(run.labels) else ""
    caption = Markup(
        "One dot for each sample, by the label it came with; the height within a band has no meaning. Large dots with"
        " their row: labels to look at again.{}"
    ).format(cut)
    return Picture("label-review", title, drawing(bottom + 42, title, told, marks, "label-review"), caption)


def roc_curves(run: RunFolder) -> Picture | None:
    """Held-out ROC, of each class against the rest where there are more than two."""
    every = [curve for k in _asked(run) if (curve := _roc(run, k)) is not None]
    if not every:
        return None
    found = sorted(every, key=lambda curve: float(curve.label.rpartition(" ")[2]))[:SERIES]
    title = "Telling unseen samples apart (ROC)"
    x, y = Scale(0, 1, LEFT, RIGHT), Scale(0, 1, 340, TOP_EDGE)
    what = fitted(run.classes[1], 9.0) if len(run.classes) == 2 else "the class"
    marks = [
        *x_axis(x, TOP_EDGE, 340, f"share of others wrongly taken for {what}"),
        *y_axis(y, LEFT, RIGHT, f"share of {what} found"),
        line(x(0), y(0), x(1), y(1), "mark"),
        *_lines(found, x, y),
    ]
    key, height = _legend(found, 394.0) if len(found) > 1 else ([], 384.0)
    told = "; ".join(f"area {curve.label}" for curve in found)
    caption = Markup(
        "Each sample was predicted by a model that had not seen it. The nearer to the upper left corner, the better;"
        " the dashed line is guessing.{}"
    ).format(
        f" Area under the curve, all folds together: {found[0].label}."
        if len(found) == 1
        else " Each class against the others, with the area under its curve, the hardest first."
        + _of_many(every, found)
    )
    return Picture("roc", title, drawing(height, title, told, [*marks, *key], "roc"), caption)


def calibration(run: RunFolder) -> Picture | None:
    """Whether what is called 80 % happens in 80 % of cases."""
    if run.predictions is None:
        return None
    two = len(run.classes) == 2
    given, probability = np.array(run.predictions.given), run.predictions.probability
    stated = probability[:, 1] if two else probability.max(axis=1)
    happened = given == (run.classes[1] if two else np.array(run.predictions.predicted))
    known = np.isfinite(stated)
    bins = _bins(stated[known], happened[known])
    if not bins:
        return None
    title = "Do its probabilities hold?"
    x, y = Scale(0, 1, LEFT, RIGHT), Scale(0, 1, 340, TOP_EDGE)
    what = f"being {fitted(run.classes[1], 9.0)}" if two else "the class named"
    marks = [
        *x_axis(x, TOP_EDGE, 340, f"stated probability of {what}"),
        *y_axis(y, LEFT, RIGHT, "how often it was so"),
        line(x(0), y(0), x(1), y(1), "mark"),
    ]
    marks += [line(x(one.stated), y(one.low), x(one.stated), y(one.high), "interval strong") for one in bins]
    marks.append(polyline([(x(one.stated), y(one.share)) for one in bins], "curve c0"))
    marks += [tag("circle", cx=x(one.stated), cy=y(one.share), r=4.5, class_="dot strong") for one in bins]
    told = "; ".join(f"stated {percent(one.stated)}, happened {measured(one.share)} of {one.n}" for one in bins)
    caption = Markup(
        "Unseen samples in {} of similar stated probability; lines are 90\u00a0% intervals. On the dashed line"
        " probabilities mean what they say."
    ).format("one group" if len(bins) == 1 else f"{len(bins)} groups")
    return Picture("calibration", title, drawing(384, title, told, marks, "calibration"), caption)


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
    marks += _lines(found, x, y)
    for k, curve in enumerate(found):
        for size, weight in zip(curve.x, curve.y, strict=True):
            marks.append(tag("circle", cx=x(float(size)), cy=y(float(weight)), r=4, class_=f"dot c{k % SERIES}"))
    key, height = _legend(found, 304.0) if len(found) > 1 else ([], 294.0)
    best = max(path, key=lambda one: one.weight)
    told = f"{len(path)} sizes tried; the largest weight, {best.weight:.2f}, is that of {_round(best.size):g} features."
    caption = Markup(
        "Several expected numbers of features were tried, and the answers averaged with these weights. One peak: the"
        " data know how many; a broad hill: they do not.{}"
    ).format(_of_many(every, found))
    return Picture("sizes", title, drawing(height, title, told, [*marks, *key], "sizes"), caption)


def trace(run: RunFolder) -> Picture | None:
    """How the calculation came to rest."""
    every = []
    for target, rows in _by_target([mark for mark in run.trace if 0.0 < mark.mismatch < math.inf]):
        kept = _thin(rows)
        steps, left = ([mark.iteration for mark in kept], [mark.mismatch for mark in kept])
        every.append(Curve(target, np.array(steps, dtype=float), np.array(left)))
    if not every:
        return None
    found = every[:SERIES]
    title = "How the calculation settled"
    tolerance = float(run.settings.get("tol") or 0.0)
    values = np.concatenate([curve.y for curve in found])
    low, high = min(values.min(), tolerance or np.inf), values.max()
    x = Scale(min(curve.x.min() for curve in found), max(max(curve.x.max() for curve in found), 1.0), LEFT, RIGHT)
    y = Scale(float(low) / 2, max(float(high) * 2, float(low) * 10), 250, TOP_EDGE, log=True)
    whole = sorted({float(round(tick)) for tick in x.ticks()})
    marks = [*x_axis(x, TOP_EDGE, 250, "iteration", whole), *y_axis(y, LEFT, RIGHT, "mismatch of the moments")]
    if tolerance:
        marks += [
            line(LEFT, y(tolerance), RIGHT, y(tolerance), "mark"),
            words(LEFT + 6, y(tolerance) - 5, "tolerance", "start", "tick halo"),
        ]
    key, height = _legend(found, 304.0) if len(found) > 1 else ([], 294.0)
    last = "; ".join(f"{curve.label} {len(curve.x)} iterations, last mismatch {curve.y[-1]:.1e}" for curve in found)
    caption = Markup(
        "The change that was left after each iteration, for the expected size of the largest weight. It may jump where"
        " a learned value changes, and should end below the dashed line.{}"
    ).format(_of_many(every, found))
    drawn = drawing(height, title, last, [*marks, *_lines(found, x, y), *key], "trace")
    return Picture("trace", title, drawn, caption)


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


def _lane(labels: Sequence[Label], scale: Scale, top: float) -> list[Markup]:
    marks = [line(scale.start, top + LANE - 2, scale.end, top + LANE - 2, "grid")]
    places = [(scale(label.error), top + 26 + (LANE - 36) * ((k * GOLDEN) % 1.0)) for k, label in enumerate(labels)]
    for (x, y), label in zip(places, labels, strict=True):
        marks.append(tag("circle", cx=x, cy=y, r=5.0 if label.suspect else 2.5,
                         class_="dot alarm" if label.suspect else "dot faint"))  # fmt: skip
    ends: list[tuple[float, float]] = []
    for (x, y), label in zip(places, labels, strict=True):
        if label.suspect and all(abs(x - a) > 34 or abs(y - b) > 9 for a, b in ends):  # else they would overlap
            ends.append((x, y))
            side = -8.0 if x > WIDTH / 2 else 8.0
            marks.append(words(x + side, y + 4, label.row, "end" if side < 0 else "start", "tick halo"))
    return marks


def _asked(run: RunFolder) -> list[int]:
    return [1] if len(run.classes) == 2 else list(range(len(run.classes)))


def _roc(run: RunFolder, k: int) -> Curve | None:
    if run.predictions is None:
        return None
    truth = np.array(run.predictions.given) == run.classes[k]
    score = run.predictions.probability[:, k]
    if truth.all() or not truth.any() or not np.isfinite(score).all():
        return None
    curve = roc(score, truth)
    kept = np.unique(np.linspace(0, curve.false_positive.size - 1, POINTS).astype(int))
    area = f"{auc(score, truth):.3f}"
    label = area if len(run.classes) == 2 else f"{fitted(run.classes[k], 20.0)}: {area}"
    return Curve(label, curve.false_positive[kept], curve.true_positive[kept])


def _bins(stated: Vector, happened: Vector) -> list[Bin]:
    """Groups of like probability, with as many samples in each."""
    parts = min(10, stated.size // FILL)
    if parts < 1:
        return []
    found = []
    for rows in np.array_split(np.argsort(stated, kind="stable"), parts):
        share = float(happened[rows].mean())
        found.append(Bin(float(stated[rows].mean()), share, *_wilson(share, rows.size), int(rows.size)))
    return found


def _wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's interval of a share, which is right for few cases too."""
    centre, half = share + Z**2 / (2 * n), Z * math.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return (centre - half) / (1 + Z**2 / n), (centre + half) / (1 + Z**2 / n)


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


def _lines(found: Sequence[Curve], x: Scale, y: Scale) -> list[Markup]:
    """A line for each; a dot for one of a single point."""
    marks = []
    for k, curve in enumerate(found):
        points = [(x(float(a)), y(float(b))) for a, b in zip(curve.x, curve.y, strict=True)]
        marks.append(polyline(points, f"curve c{k % SERIES}"))
        if len(points) == 1:
            marks.append(tag("circle", cx=points[0][0], cy=points[0][1], r=4, class_=f"dot c{k % SERIES}"))
    return marks


def _of_many(every: Sequence[Curve], found: Sequence[Curve]) -> str:
    """Lines beyond the colours that can be told apart are left out, and that is said."""
    return f" {len(found)} of {len(every)} classes are drawn." if len(found) < len(every) else ""


def _legend(found: Sequence[Curve], top: float) -> tuple[list[Markup], float]:
    marks = []
    for k, curve in enumerate(found):
        y = top + 20 * k
        marks += [
            line(LEFT, y, LEFT + 28, y, f"curve c{k % SERIES}"),
            words(LEFT + 36, y + 4, fitted(curve.label, 27.0)),
        ]
    return marks, top + 20 * len(found)


def _round(value: float) -> float:
    return float(f"{value:.2g}")

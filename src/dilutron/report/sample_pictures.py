"""Pictures of the samples: doubtful labels, and predictions of those not seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from dilutron.metrics import auc, roc
from dilutron.report.curves import LEFT, RIGHT, TOP_EDGE, Curve, Picture, drawn, legend, of_many
from dilutron.report.judging import is_known
from dilutron.report.phrases import measured, percent
from dilutron.report.reading import Label, RunFolder
from dilutron.report.svg import (
    SERIES,
    WIDTH,
    Scale,
    clipped,
    drawing,
    fitted,
    line,
    polyline,
    tag,
    words,
    x_axis,
    y_axis,
)
from dilutron.special import Vector

LANE = 76.0  # height of a class in the review of labels, at least
STEP = 13.0  # from one suspect to the next, so that their numbers do not touch
NUMBERED = 20  # suspects of a class, at most: more would make the picture too high
GOLDEN = 0.618034  # spreads dots evenly
DOTS = 1500  # samples in a picture
POINTS = 200  # of a curve
FILL = 10  # samples in a bin of the calibration, at least
Z = 1.6449  # of a 90 % interval


class Bin(NamedTuple):
    """Samples of like probability: the mean stated, the share for which it was so, its interval, and how many."""

    stated: float
    share: float
    low: float
    high: float
    n: int


def label_review(run: RunFolder) -> Picture | None:
    """Every sample at the probability that its label is wrong."""
    shown = [label for label in run.labels[:DOTS] if not math.isnan(label.error)]
    if not shown:
        return None
    title = "Which labels look wrong"
    scale, top = Scale(0, 1, 16, WIDTH - 16), 6.0
    lanes = []
    for one in run.classes:
        inside, height = _lane([label for label in shown if label.given == one], scale, top)
        lanes += [*inside, words(16, top + 15, f"given {fitted(one, 28.0)}", kind="halo")]
        top += height
    marks = [*x_axis(scale, 6, top, "probability that the label is wrong", [0, 0.25, 0.5, 0.75, 1]), *lanes]
    suspects = [label for label in shown if label.suspect]
    told = f"{len(suspects)} of {len(run.labels)} labels are suspect. " + "; ".join(
        f"row {label.row}, given {clipped(label.given, 40)}, {percent(label.error)}" for label in suspects[:10]
    )
    cut = f" Of {len(run.labels):,} samples, the {len(shown):,} most doubtful." if len(shown) < len(run.labels) else ""
    crowded = any(sum(label.given == one for label in suspects) > NUMBERED for one in run.classes)
    large = " Large dots with their row: labels to look at again." if suspects else ""
    many = f" The first {NUMBERED} of a class have their numbers; the table below has all." if crowded else ""
    caption = Markup(
        "One dot for each sample, by the label it came with; the height within a band has no meaning.{}{}{}"
    ).format(large, many, cut)
    return Picture("label-review", title, drawing(top + 42, title, told, marks, "label-review"), caption)


def _lane(labels: Sequence[Label], scale: Scale, top: float) -> tuple[list[Markup], float]:
    """The dots of a class, and the height that they take: suspects one below the other, the first with their rows."""
    suspects = [label for label in labels if label.suspect]
    height = max(LANE, 36 + STEP * min(len(suspects), NUMBERED))
    marks = [line(scale.start, top + height - 2, scale.end, top + height - 2, "grid")]
    for k, label in enumerate(label for label in labels if not label.suspect):
        y = top + 26 + (height - 36) * ((k * GOLDEN) % 1.0)
        marks.append(tag("circle", cx=scale(label.error), cy=y, r=2.5, class_="dot faint"))
    for k, label in enumerate(suspects):
        x, y = scale(label.error), top + 26 + (height - 36) * ((k % NUMBERED + 0.5) / min(len(suspects), NUMBERED))
        marks.append(tag("circle", cx=x, cy=y, r=5.0, class_="dot alarm"))
        if k < NUMBERED:
            side = -8.0 if x > WIDTH / 2 else 8.0
            marks.append(words(x + side, y + 4, label.row, "end" if side < 0 else "start", "tick halo"))
    return marks, height


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
        *drawn(found, x, y),
    ]
    key, height = legend(found, 394.0) if len(found) > 1 else ([], 384.0)
    told = "; ".join(f"area {curve.label}" for curve in found)
    caption = Markup(
        "Each sample was predicted by a model that had not seen it. The nearer to the upper left corner, the better;"
        " the dashed line is guessing.{}"
    ).format(_area(run, found[0]) if len(run.classes) == 2 else _CLASSES + of_many(every, found))
    return Picture("roc", title, drawing(height, title, told, [*marks, *key], "roc"), caption)


_CLASSES = (
    " Each class against the others, with the area under its curve, all folds together, the hardest first. A mean over"
    " the folds, as above, differs: each fold's model has a scale of its own."
)


def _area(run: RunFolder, curve: Curve) -> str:
    """The area that the answer states, and why that of the curve is another."""
    mean = (run.held_out or {}).get("auc")
    if not is_known(mean):
        return f" The area under the curve, all folds together, is {curve.label}."
    return (
        f" The area is {mean:.3f} as a mean over the folds; the curve drawn is of all folds together, and its area,"
        f" {curve.label}, is another because each fold's model has a scale of its own."
    )


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

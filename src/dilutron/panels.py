"""Panels of figures, from rows alone: one function for each kind draws on the Axes it is given.

Rows are dicts as the experiments write them; columns that a kind of figure needs and a row lacks leave the row out.
Nothing here touches pyplot or the global settings of matplotlib.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dilutron.metrics import (
    average,
    convergence_fraction,
    decibel,
    ideal_sensitivity,
    mean_curve,
    roc,
    sensitivity,
)
from dilutron.special import Vector

try:
    from matplotlib.axes import Axes
    from matplotlib.ticker import MaxNLocator
except ImportError as error:  # pragma: no cover
    raise ImportError("figures need matplotlib: pip install dilutron[plot]") from error

Row = dict[str, Any]


class Style(NamedTuple):
    """How a method looks in every figure."""

    label: str
    color: str
    marker: str
    width: float = 1.2  # of lines, in points; of two that coincide the thinner lies above
    size: float = 4.5  # of markers, likewise


# Colours of Okabe and Ito, which all kinds of colour vision tell apart; the marker says the same again.
STYLES = {
    "ep": Style("EP", "#0072B2", "o", 0.9, 3.2),
    "grvamp": Style("grVAMP", "#D55E00", "s", 1.9, 5.0),
    "grvamp-paper": Style("grVAMP, the paper's settings", "#000000", "D", 1.2, 3.8),
    "amp": Style("1-bit AMP", "#009E73", "^"),
    "r1bcs": Style("R1BCS", "#CC79A7", "v"),
    "vamp": Style("VAMP", "#56B4E9", "P"),
}
PUBLISHED_AS = {"grvamp": "grvamp-paper"}  # the paper's numbers have the look of the runs with its settings
IN_THE_PAPER = " in the paper"
LINES = (":", "--", "-")  # from few patterns to many
RANKED = {"ranks": "ranked by $|w|$", "ranks_inclusion": r"ranked by $P(w \neq 0)$"}
GREY = "0.35"
ALPHA = r"$\alpha$"
TEXT, SMALL = 8.0, 7.0  # points, at the width of a page


def style_of(method: str) -> Style:
    """The look of a method, of unknown ones too."""
    return STYLES.get(method, Style(method, "#666666", "."))


def errors(rows: Sequence[Row], ax: Axes, inset: str | None = "linear") -> Axes:
    """Mean squared error in dB against alpha.

    The mean is taken first, then the decibels, as in the paper; so are the error bars (one standard error of the mean).

    Parameters
    ----------
    rows : sequence of dict
    ax : Axes
    inset : {"linear", "convergence", None}
        The same on a linear scale, or the fraction of converged runs, in the upper right corner.
    """
    right = [-np.inf]
    for method, points in _series(rows, "mse"):
        level = [decibel(mean) if mean > 0.0 else np.nan for mean in points.mean]
        with np.errstate(invalid="ignore", divide="ignore"):
            bars = 10.0 / np.log(10.0) * points.error / points.mean
        _line(ax, method, points.alpha, level, bars)
        right += [y for x, y in zip(points.alpha, level, strict=True) if x >= 2.5 and np.isfinite(y)]
    _dress(ax, ALPHA, "MSE (dB)")
    if inset is not None and ax.lines:
        low, high = ax.get_ylim()
        if np.isfinite(max(right)):  # room for the inset above the curves
            high = max(high, low + (max(right) - low) / 0.45)
        ax.set_ylim(low, high)
        small = ax.inset_axes((0.57, 0.55, 0.42, 0.36))
        if inset == "linear":
            for method, points in _series(rows, "mse"):
                _line(small, method, points.alpha, points.mean, points.error, part=0.6)
            small.set_title("MSE, linear", fontsize=SMALL, pad=2)
            small.set_ylim(bottom=0.0)
        else:
            convergence(rows, small)
            small.set_title("fraction converged", fontsize=SMALL, pad=2)
            for line in small.lines:
                line.set_markersize(0.6 * line.get_markersize())
        small.set(xlabel="", ylabel="")
        small.tick_params(labelsize=SMALL - 1, length=2, pad=1)
    return ax


def curves(rows: Sequence[Row], ax: Axes, alphas: Sequence[float] | None = None, by: str = "ranks") -> Axes:
    """ROC curves of the choice of weights, beside the ideal one: mean and a band of one standard error.

    Methods differ by colour and marker, alphas by line.

    Parameters
    ----------
    rows : sequence of dict
    ax : Axes
    alphas : sequence of float, optional
        The smallest, the middle and the largest of the rows' where absent.
    by : {"ranks", "ranks_inclusion"}
        Weights in order of their size, or of their inclusion probability.
    """
    ax.plot((0, 1), (0, 1), color="0.8", linewidth=0.8, zorder=1)
    for group in _few(rows, ax, alphas, by):
        n_negative = group.truths.shape[1] - int(group.truths[0].sum())
        grid = np.linspace(0.0, 1.0, n_negative + 1)
        order = -np.arange(group.truths.shape[1])
        band = mean_curve([roc(order, truth).at(grid) for truth in group.truths])
        # The upright piece above 0 has no width on this grid: begin at the origin.
        _band(ax, group, np.append(0.0, grid), np.append(0.0, band.mean), np.append(0.0, band.error))
    _ideal(ax, (0, 0, 1), (0, 1, 1))
    return _dress(ax, f"false positive rate, {RANKED[by]}", "true positive rate")


def sensitivities(rows: Sequence[Row], ax: Axes, alphas: Sequence[float] | None = None, by: str = "ranks") -> Axes:
    """Fraction of the true weights among the first k against k, beside the ideal choice; otherwise like `curves`."""
    ideal: set[tuple[int, int]] = set()
    for group in _few(rows, ax, alphas, by):
        n = group.truths.shape[1]
        band = mean_curve([sensitivity(-np.arange(n), truth) for truth in group.truths])
        _band(ax, group, np.arange(n + 1), band.mean, band.error)
        ideal.add((n, int(group.truths[0].sum())))
    for n, n_positive in sorted(ideal)[:1]:
        _ideal(ax, np.arange(n + 1), ideal_sensitivity(n, n_positive))
    return _dress(ax, f"weights selected, {RANKED[by]}", "true positive rate")


def _ideal(ax: Axes, x: Any, y: Any) -> None:
    ax.plot(x, y, color="0.7", linewidth=2.4, zorder=1, label="ideal choice")


def convergence(rows: Sequence[Row], ax: Axes, published: Iterable[Row] = ()) -> Axes:
    """Fraction of converged runs against alpha, and the paper's."""
    for method, group in _by(rows, "method"):
        points = [
            (alpha, *convergence_fraction([row["status"] == "converged" for row in some]))
            for alpha, some in _by(group, "alpha")
        ]
        _line(ax, method, *np.transpose(points))
    _printed(ax, published, "converged")
    ax.set_ylim(-0.04, 1.06)
    return _dress(ax, ALPHA, "fraction converged")


def learned(rows: Sequence[Row], ax: Axes, parameter: str = "rho", published: Iterable[Row] = ()) -> Axes:
    """Learned `rho` or `eta` against alpha, beside the truth and the paper's."""
    for method, points in _series(rows, f"{parameter}_learned"):
        _line(ax, method, points.alpha, points.mean, points.error)
    # Flips are counted out: the share of right labels depends a little on the number of patterns.
    _, truth = next(_series([{**row, "method": ""} for row in rows], {"rho": "rho", "eta": "right"}[parameter]), _NONE)
    if truth is not None:
        ax.plot(truth.alpha, truth.mean, color=GREY, linewidth=1.0, zorder=1, label="truth")
    _printed(ax, published, parameter)
    return _dress(ax, ALPHA, rf"learned $\{parameter}$")


def areas(rows: Sequence[Row], ax: Axes, column: str = "auc", published: Iterable[Row] = ()) -> Axes:
    """Area under the ROC curve against alpha, and the paper's."""
    for method, points in _series(rows, column):
        _line(ax, method, points.alpha, points.mean, points.error)
    _printed(ax, published, "auc")
    return _dress(ax, ALPHA, "AUC")


def times(rows: Sequence[Row], ax: Axes, ratio: bool = False, published: Iterable[Row] = ()) -> Axes:
    """Run times against alpha on a logarithmic scale, and the paper's; as a `ratio`, both in units of EP's."""
    series = dict(_series(rows, "cpu_seconds"))
    base = {a: mean for a, mean, _ in zip(*series["ep"], strict=True)} if "ep" in series else {}
    for method, points in series.items():
        if not ratio:
            _line(ax, method, points.alpha, points.mean, points.error)
        elif shared := [i for i, alpha in enumerate(points.alpha) if base.get(alpha)]:
            unit = np.array([base[points.alpha[i]] for i in shared])
            _line(ax, method, points.alpha[shared], points.mean[shared] / unit, points.error[shared] / unit)
    told = [row for row in published if row["quantity"] == "seconds"]
    if ratio:
        unit_of = {row["alpha"]: row["value"] for row in told if row["method"] == "ep"}
        told = [
            {**row, "value": row["value"] / unit_of[row["alpha"]], "se": row["se"] / unit_of[row["alpha"]]}
            for row in told
            if row["alpha"] in unit_of
        ]
    _printed(ax, told, "seconds")
    ax.set_yscale("log")
    return _dress(ax, ALPHA, "run time / EP's" if ratio else "CPU time (s)")


class _Points(NamedTuple):
    alpha: Vector
    mean: Vector
    error: Vector


class _Group(NamedTuple):
    """Rows of one method and one alpha: which places of each ranking hold true weights, shape (instances, N)."""

    method: str
    line: str
    truths: Any


_NONE: tuple[str, _Points | None] = ("", None)


def _by(rows: Iterable[Row], column: str) -> list[tuple[Any, list[Row]]]:
    """Rows by a column's values: methods in the order of `STYLES`, numbers from small to large."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(row[column], []).append(row)
    order = {method: place for place, method in enumerate(STYLES)}
    if column == "method":
        return sorted(found.items(), key=lambda pair: (order.get(pair[0], len(order)), pair[0]))
    return sorted(found.items())


def _series(rows: Sequence[Row], column: str) -> Iterator[tuple[str, _Points]]:
    """Mean and standard error of a column's finite values at each alpha; no point where there are none."""
    for method, group in _by(rows, "method"):
        points = []
        for alpha, some in _by(group, "alpha"):
            values = [row[column] for row in some if row.get(column) is not None and np.isfinite(row[column])]
            if values:
                points.append((alpha, *average(values)))
        if points:
            yield method, _Points(*np.transpose(points))


def _few(rows: Sequence[Row], ax: Axes, alphas: Sequence[float] | None, by: str) -> Iterator[_Group]:
    """Rankings of a few alphas, each with a line of its own; a ranking of NaNs says nothing."""
    usable = [row for row in rows if row.get(by) and np.isfinite(row["auc"])]
    known = sorted({row["alpha"] for row in usable})
    if alphas is None:
        alphas = sorted({known[0], known[len(known) // 2], known[-1]}) if known else ()
    shown = [alpha for alpha in known if alpha in alphas]
    lines = dict(zip(shown, (LINES * len(shown))[-len(shown) :] if shown else (), strict=False))
    for method, group in _by((row for row in usable if row["alpha"] in lines), "method"):
        for alpha, some in _by(group, "alpha"):
            yield _Group(method, lines[alpha], np.array([_places(row, by) for row in some]))
        style = style_of(method)
        ax.plot(
            [], [], color=style.color, label=style.label, linewidth=style.width, marker=style.marker,
            markersize=style.size,
        )  # fmt: skip
    for alpha in shown:
        ax.plot([], [], color=GREY, linestyle=lines[alpha], linewidth=1.2, label=rf"$\alpha = {alpha:g}$")


def _places(row: Row, by: str) -> Any:
    """Which places of the ranking hold true weights; a perceptron of a network has no weight on itself."""
    truth = np.zeros(row["n"] - ("dynamics" in row), dtype=bool)
    truth[[int(place) for place in row[by].split()]] = True
    return truth


def _line(ax: Axes, method: str, alpha: Any, mean: Any, error: Any, part: float = 1.0) -> None:
    style = style_of(method)
    ax.errorbar(
        alpha, mean, yerr=np.nan_to_num(error), label=style.label, color=style.color, marker=style.marker,
        markersize=part * style.size, linewidth=part * style.width, elinewidth=0.9, capsize=1.5, zorder=_height(style),
    )  # fmt: skip


def _height(style: Style) -> float:
    """Curves often coincide: the thinner ones lie above."""
    return 5.0 - style.width


def _band(ax: Axes, group: _Group, x: Any, mean: Any, error: Any) -> None:
    style = style_of(group.method)
    first = 0.1 + 0.04 * list(STYLES).index(group.method) if group.method in STYLES else 0.1
    ax.plot(
        x, mean, color=style.color, linestyle=group.line, linewidth=style.width, zorder=_height(style),
        # In parts of the diagonal, at other places for each method: curves that coincide show their markers.
        marker=style.marker, markersize=0.8 * style.size, markevery=(first, 0.25),
    )  # fmt: skip
    low, high = mean - np.nan_to_num(error), mean + np.nan_to_num(error)
    ax.fill_between(x, low, high, color=style.color, alpha=0.18, linewidth=0)


def _printed(ax: Axes, published: Iterable[Row], quantity: str) -> None:
    """The paper's numbers: the method's marker, larger, hollow and without a line."""
    for method, rows in _by((row for row in published if row["quantity"] == quantity), "method"):
        style = style_of(PUBLISHED_AS.get(method, method))
        ax.errorbar(
            [row["alpha"] for row in rows], [row["value"] for row in rows],
            yerr=np.nan_to_num([row["se"] for row in rows]), label=style_of(method).label + IN_THE_PAPER,
            color=style.color, marker=style.marker, markersize=7, markerfacecolor="none", markeredgewidth=0.9,
            linestyle="none", elinewidth=0.8, zorder=5,
        )  # fmt: skip


def _dress(ax: Axes, x: str, y: str) -> Axes:
    if x == ALPHA:
        ax.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 5, 10]))  # alphas are multiples of one half
    ax.set_xlabel(x, fontsize=TEXT, labelpad=2)
    ax.set_ylabel(y, fontsize=TEXT, labelpad=2)
    ax.tick_params(labelsize=SMALL)
    ax.grid(True, color="0.92", linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax

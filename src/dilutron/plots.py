"""Whole figures from rows alone: the panels of every setting, one legend, and the file.

Nothing here touches pyplot or the global settings of matplotlib.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dilutron.files import whole_file
from dilutron.panels import (
    IN_THE_PAPER,
    STYLES,
    TEXT,
    Row,
    areas,
    convergence,
    curves,
    errors,
    learned,
    sensitivities,
    times,
)

# isort: split
# Not before panels, which says what to install where matplotlib is missing.
import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

SHORT = 4  # entries of a legend that fit on one line
PANEL = (3.5, 2.75)  # inches
PATTERNS = {"iid": "i.i.d. patterns", "mvn": "correlated patterns"}
DYNAMICS = {
    "synchronous": "synchronous updates",
    "sweep": "asynchronous, full sweeps",
    "distance": "asynchronous, $d_H = 10$",
}

View = Callable[[Axes], Axes]


def picture(draw: str, rows: Sequence[Row], title: str = "", published: Sequence[Row] = ()) -> Figure:
    """One whole figure: a panel for every setting (patterns or dynamics, N, eta) and every view of it.

    Parameters
    ----------
    draw : str
        A name in `PICTURES`.
    rows : sequence of dict
    title : str
    published : sequence of dict
        The paper's numbers, where it prints any.
    """
    if draw not in PICTURES:
        raise ValueError(f"draw must be one of {', '.join(PICTURES)}, got {draw!r}")
    panels = [
        (_name(setting), view)
        for setting, group in _settings(rows)
        for view in PICTURES[draw](group, [row for row in published if _setting(row) == setting])
    ]
    if not panels:
        raise ValueError("there are no rows to draw")
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(PANEL[0] * max(columns, 1.3), PANEL[1] * lines + 0.9), layout="constrained")
    grid = figure.add_gridspec(lines, 2 * columns)
    for place, (name, view) in enumerate(panels):
        line, column = divmod(place, columns)
        odd = columns == 2 and place == len(panels) - 1 and column == 0  # alone on its line: in the middle
        ax = figure.add_subplot(grid[line, 2 * column + odd : 2 * column + odd + 2])
        view(ax)
        ax.set_title(name, fontsize=TEXT)
    figure.suptitle("\n".join(filter(None, (title, _instances(rows)))), fontsize=TEXT + 1)
    _legend(figure)
    return figure


def _legend(figure: Figure) -> None:
    """All labels of all panels once: a line for methods, one for the paper's numbers, one for the rest; few on one."""
    known = {label: handle for ax in figure.axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    methods = [style.label for style in STYLES.values() if style.label in known]
    theirs = [label for label in known if label.endswith(IN_THE_PAPER)]
    rest = [label for label in known if label not in methods + theirs]
    short = len(known) <= SHORT
    lines = [methods + theirs + rest] if short else [some for some in (methods, theirs, rest) if some]
    columns = max(map(len, lines), default=0)
    # A legend is filled column by column: empty entries make its lines ours.
    order = [line[k] if k < len(line) else "" for k in range(columns) for line in lines]
    if order:
        figure.legend(
            [known.get(label, Line2D([], [], linestyle="none")) for label in order], order,
            loc="outside lower center", ncols=columns, fontsize=TEXT, frameon=False, handlelength=2.6,
        )  # fmt: skip


def save(figure: Figure, path: str | os.PathLike[str], dpi: int = 150) -> Path:
    """Write a figure, the format by the ending of the name; the file is there whole or not at all, and repeatable."""
    target = Path(path)
    undated = {"Date": None} if target.suffix == ".svg" else None
    with whole_file(target) as scratch, matplotlib.rc_context({"svg.hashsalt": "dilutron"}):  # names are random else
        figure.savefig(scratch, dpi=dpi, metadata=undated)
    return target


def _selection(rows: Sequence[Row], by: str) -> list[View]:
    return [lambda ax: curves(rows, ax, by=by), lambda ax: sensitivities(rows, ax, by=by)]


def _selection_twice(rows: Sequence[Row], published: Sequence[Row]) -> list[View]:
    """The paper's Fig. 4 ranks weights by their size and, where a method tells it, by their probability."""
    known = any(row.get("ranks_inclusion") for row in rows)
    return _selection(rows, "ranks") + (_selection(rows, "ranks_inclusion") if known else [])


def _selection_errors(rows: Sequence[Row], published: Sequence[Row]) -> list[View]:
    """The paper's Fig. 3 ranks weights by their probability of being present."""
    return [*_selection(rows, "ranks_inclusion"), lambda ax: errors(rows, ax)]


def _parameters(rows: Sequence[Row], published: Sequence[Row]) -> list[View]:
    names = ("rho", "eta") if any(row["eta"] < 1.0 for row in rows) else ("rho",)
    return [partial(lambda ax, name: learned(rows, ax, name, published), name=name) for name in names]


PICTURES: dict[str, Callable[[Sequence[Row], Sequence[Row]], list[View]]] = {
    "errors": lambda rows, published: [lambda ax: errors(rows, ax)],
    "selection": _selection_twice,
    "selection_errors": _selection_errors,
    "recurrent": lambda rows, published: [
        lambda ax: curves(rows, ax),
        lambda ax: errors(rows, ax, inset="convergence"),
    ],
    "convergence": lambda rows, published: [lambda ax: convergence(rows, ax, published)],
    "learned": _parameters,
    "areas": lambda rows, published: [lambda ax: areas(rows, ax, published=published)],
    "times": lambda rows, published: [
        lambda ax: times(rows, ax, published=published),
        lambda ax: times(rows, ax, ratio=True, published=published),
    ],
}


def _setting(row: Row) -> tuple[Any, ...]:
    return row.get("patterns") or "", row.get("dynamics") or "", row["n"], row["eta"]


def _settings(rows: Sequence[Row]) -> list[tuple[tuple[Any, ...], list[Row]]]:
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(_setting(row), []).append(row)
    return list(found.items())


def _name(setting: tuple[Any, ...]) -> str:
    patterns, dynamics, n, eta = setting
    where = PATTERNS.get(patterns, patterns) or DYNAMICS.get(dynamics, dynamics)
    return ", ".join(filter(None, (where, f"$N = {n}$", rf"$\eta = {eta:g}$" if eta < 1.0 else "")))


def _instances(rows: Sequence[Row]) -> str:
    """How many instances there are to a point."""
    counts: dict[tuple[Any, ...], int] = {}
    for row in rows:
        cell = (*_setting(row), row["alpha"], row["method"])
        counts[cell] = counts.get(cell, 0) + 1
    low, high = (min(counts.values()), max(counts.values())) if counts else (0, 0)
    return f"{low} to {high} instances per point" if low < high else f"{low} instance{'s' * (low != 1)} per point"

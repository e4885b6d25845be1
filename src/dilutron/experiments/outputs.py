"""Files from the store and nothing else: rows, averages and figures of an item, and all items beside the paper."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dilutron.experiments.compare import (
    BETTER,
    COLUMNS,
    CONVERGED_ONLY,
    FEWEST,
    VERDICTS,
    WORSE,
    Comparison,
    compare,
    converged,
    published,
    summary,
)
from dilutron.experiments.paper import ITEMS, Item
from dilutron.experiments.store import Store, write_csv
from dilutron.experiments.trials import Row
from dilutron.files import whole_file
from dilutron.metrics import decibel

FORMATS = (".png", ".svg")
NOTHING = "-"

HEADER = ("table", "setting", "alpha", "method", "quantity", "ours", "paper", "difference", "verdict", "converged")
READING = (
    "Differences are ours less the paper's in combined standard errors (sigma / sqrt(n), of fractions"
    " sqrt(f (1 - f) / n)). Within two the verdict is 'as published'; beyond, better or worse: AUC and convergence up,"
    " learned parameters nearer to the truth; fractions, which may be 0 or 1, by Fisher's exact test."
    f" 'too few' are fewer than {FEWEST} instances.",
    "grvamp-paper is grVAMP with the paper's settings, grvamp with ours. auc ranks by |w|, auc_inclusion by the"
    " probability of being present: the paper's figure has both orders and its table does not say which; its text names"
    " |w| first. R1BCS was fed columns of unit norm; auc_scaled ranks its weights as they come, auc scaled back: which"
    " was ranked is not said either.",
)


class Section(NamedTuple):
    """One table of the comparison."""

    title: str
    notes: tuple[str, ...]
    header: tuple[str, ...]
    lines: list[tuple[str, ...]]


def publish(items: Iterable[Item], store: Store, folder: str | os.PathLike[str]) -> list[Path]:
    """Write everything that is known of these items, and all items of the store beside the paper.

    `write_item` of each, and `write_comparison`. Each file is there whole or not at all.

    Parameters
    ----------
    items : iterable of Item
    store : Store
    folder : path
        Made where absent.

    Returns
    -------
    list of Path
        The files written.
    """
    written = write_comparison(store, folder)
    return written + [path for item in items for path in write_item(item, store, folder)]


def write_item(item: Item, store: Store, folder: str | os.PathLike[str]) -> list[Path]:
    """ITEM.csv (rows), ITEM-summary.csv (averages), ITEM.png and ITEM.svg; of an item without rows, nothing."""
    target, rows = Path(folder), rows_of(item, store)
    if not rows:
        return []
    target.mkdir(parents=True, exist_ok=True)
    data = [
        write_csv(rows, target / f"{item.name}.csv"),
        write_csv(summary(rows), target / f"{item.name}-summary.csv"),
    ]
    return data + draw(item, rows, target)


def rows_of(item: Item, store: Store) -> list[Row]:
    """All rows of an item's trials, sweep by sweep."""
    return [row for sweep in item.sweeps for row in store.rows(sweep.kind, sweep.cells)]


def draw(item: Item, rows: Sequence[Row], folder: Path) -> list[Path]:
    """The item's figure in every format, over converged runs alone where the paper does so; none without rows."""
    shown, note = (converged(rows), ", converged runs") if item.name in CONVERGED_ONLY else (list(rows), "")
    if not shown:
        return []
    from dilutron import plots  # the rest needs no matplotlib

    figure = plots.picture(item.draw, shown, item.title + note, published(item.name))
    return [plots.save(figure, folder / f"{item.name}{ending}") for ending in FORMATS]


def write_comparison(store: Store, folder: str | os.PathLike[str]) -> list[Path]:
    """All items that the store has rows of, beside the paper's numbers: comparison.csv, .md and .html."""
    target = Path(folder)
    known = [(item, rows) for item in ITEMS.values() if (rows := rows_of(item, store))]
    if not known:
        return []
    tables = {item.name: compare(item.name, rows) for item, rows in known if published(item.name)}
    worse = [one for found in tables.values() for one in found if one.verdict == WORSE]
    sections = [
        _overview(tables),
        Section("Worse than published", (), HEADER, [_line(one) for one in worse]),
        *(_compared(item, tables[item.name]) if item.name in tables else _averages(item, rows) for item, rows in known),
    ]
    target.mkdir(parents=True, exist_ok=True)
    written = [_put(target / "comparison.md", markdown(sections)), _put(target / "comparison.html", page(sections))]
    lines = [one._asdict() for found in tables.values() for one in found]
    return ([write_csv(lines, target / "comparison.csv")] if lines else []) + written


def _overview(tables: dict[str, list[Comparison]]) -> Section:
    """How many cells came out how, method by method."""
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    for table, found in tables.items():
        for one in found:
            counts.setdefault((table, _run(one), one.quantity), Counter())[one.verdict] += 1
    seen = [verdict for verdict in VERDICTS if any(counter[verdict] for counter in counts.values())]
    lines = [(*place, *(str(counter[verdict] or NOTHING) for verdict in seen)) for place, counter in counts.items()]
    return Section("Verdicts", READING, ("table", "method", "quantity", *seen), lines)


def _line(one: Comparison) -> tuple[str, ...]:
    return (
        one.table,
        _setting(one.patterns or one.dynamics, one.n, one.eta),
        f"{one.alpha:g}",
        _run(one),
        one.quantity,
        _plus_minus(one.ours, one.se),
        f"{one.published:.4g} ± {one.published_se:.2g}",
        f"{one.difference:+.1f}" if np.isfinite(one.difference) else NOTHING,
        one.verdict,
        f"{one.converged} of {one.instances}" if one.instances else NOTHING,
    )


def _compared(item: Item, found: list[Comparison]) -> Section:
    header: tuple[str, ...] = HEADER[1:]
    learned = any(one.quantity in ("rho", "eta") for one in found)
    ordered = sorted(found, key=lambda one: (one.part, one.patterns, one.dynamics == "distance", one.quantity))
    lines = [_line(one)[1:] + ((_share(one.off), _share(one.published_off)) if learned else ()) for one in ordered]
    over = "converged runs" if item.name in CONVERGED_ONLY else "all instances"
    notes = [f"Ours are averages over {over}, as the paper's."] if item.name != "table-1" else []
    if learned:
        header += ("error, ours", "error, paper")
        notes.append("Errors are relative to the truth: rho, and the share of labels that were left right.")
    if item.name == "table-5":
        notes.append(
            "The machines differ, so seconds have no verdict: 'seconds / EP' are times in units of EP's on one machine."
        )
    return Section(_title(item), tuple(notes), header, lines)


def _averages(item: Item, rows: Sequence[Row]) -> Section:
    """A figure's numbers; the paper prints none of its own."""
    over = "converged" if item.name in CONVERGED_ONLY else "all"
    header = ("setting", "alpha", "method", "MSE (dB)", "MSE", "AUC", "converged")
    lines: list[tuple[str, ...]] = [
        (
            _setting(line.get("patterns") or line.get("dynamics", ""), line["n"], line["eta"]),
            f"{line['alpha']:g}",
            line["method"],
            f"{decibel(mse):.2f}" if (mse := line.get("mse", np.nan)) > 0.0 else NOTHING,
            _plus_minus(mse, line.get("mse_se", np.nan)),
            _plus_minus(line.get("auc", np.nan), line.get("auc_se", np.nan)),
            f"{line['converged']} of {line['instances']}",
        )
        for line in summary(rows)
        if line["over"] == over
    ]
    whom = "converged runs" if over == "converged" else "all instances"
    return Section(_title(item), (f"Ours, averages over {whom}; the paper prints no numbers.",), header, lines)


def _title(item: Item) -> str:
    return f"{item.name.replace('-', ' ').capitalize()}. {item.title}"


def _run(one: Comparison) -> str:
    """Which of our runs; where the paper's number may be one of two, which."""
    return f"{one.variant} ({one.column})" if (one.method, one.quantity) in COLUMNS else one.variant


def _setting(where: str, n: int, eta: float) -> str:
    return f"{where}, N = {n}" + (f", eta = {eta:g}" if eta < 1.0 else "")


def _share(value: float) -> str:
    return f"{value:.2g}" if np.isfinite(value) else NOTHING


def _plus_minus(value: float, error: float) -> str:
    """The error with two digits, and the value with as many decimals."""
    if not np.isfinite(value):
        return NOTHING
    if not (np.isfinite(error) and error > 0.0):
        return f"{value:.4g}" + (" ± 0" if error == 0.0 else "")
    decimals = max(0, 1 - int(np.floor(np.log10(error))))
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"


def markdown(sections: Iterable[Section]) -> str:
    """The comparison as text."""
    blocks = ["# Ours beside the paper's"]
    for section in sections:
        blocks += [f"## {section.title}", *section.notes]
        if not section.lines:
            blocks.append("None.")
            continue
        table = [section.header, ("---",) * len(section.header), *section.lines]
        blocks.append("\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in table))
    return "\n\n".join(blocks) + "\n"


STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0 2.5rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.15rem 0.8rem 0.15rem 0; text-align: left; white-space: nowrap; border-bottom: 1px solid #e4e4e4; }
th { border-bottom: 2px solid #888; position: sticky; top: 0; background: #fff; }
.better { color: #0072B2; font-weight: 600; }
.worse { color: #D55E00; font-weight: 600; }
.wide { overflow-x: auto; }
"""
MARKED = {BETTER: "better", WORSE: "worse"}


def page(sections: Iterable[Section]) -> str:
    """The comparison as one page that needs no other file."""
    body = ["<h1>Ours beside the paper&#x27;s</h1>"]
    for section in sections:
        body += [f"<h2>{escape(section.title)}</h2>", *(f"<p>{escape(note)}</p>" for note in section.notes)]
        if not section.lines:
            body.append("<p>None.</p>")
            continue
        body.append('<div class="wide"><table>')
        body.append("<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in section.header) + "</tr>")
        body += ["<tr>" + "".join(map(_cell, line)) + "</tr>" for line in section.lines]
        body.append("</table></div>")
    head = f'<meta charset="utf-8"><title>Ours beside the paper&#x27;s</title><style>{STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(body) + "\n</body></html>\n"


def _cell(text: str) -> str:
    mark = f' class="{MARKED[text]}"' if text in MARKED else ""
    return f"<td{mark}>{escape(text)}</td>"


def _put(path: Path, text: str) -> Path:
    """Write a file whole or not at all."""
    with whole_file(path) as scratch:
        scratch.write_text(text, encoding="utf-8", newline="\n")
    return path

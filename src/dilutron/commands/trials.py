"""`simulate` and `compare-methods`: a table of which the truth is known, and the methods side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dilutron.commands.answers import Data, Drop, Force, Id, Imputation, Json, Label, Log, Seed
from dilutron.commands.saying import check_new, one_line_errors, progress, safe, stop
from dilutron.data import PATTERNS, lesson
from dilutron.files import whole_file
from dilutron.tables import Columns

MOST = 10**9  # numbers in a simulated table


def simulate(
    out: Annotated[Path, typer.Option(metavar="FILE", help="CSV to write; the truth goes to FILE.truth.json.")],
    rows: Annotated[int, typer.Option(min=4, help="Samples.")] = 200,
    features: Annotated[int, typer.Option(min=2, help="Columns.")] = 50,
    matter: Annotated[int, typer.Option(min=1, help="Features that tell the classes apart.")] = 5,
    flip: Annotated[float, typer.Option(min=0.0, max=0.5, help="Share of labels that are wrong.")] = 0.05,
    patterns: Annotated[str, typer.Option(help=f"How columns depend on one another: {', '.join(PATTERNS)}.")] = "iid",
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Make a table with a known truth, to try a fit on.

    A linear rule of a few normal columns gives the classes A and B; some labels are then turned over.

    \b
    Examples:
      dilutron simulate --out toy.csv
      dilutron simulate --rows 100 --features 2000 --matter 10 --flip 0.1 --out wide.csv
      dilutron fit toy.csv --label class --id sample --out run/
    """  # noqa: D301
    if rows * features > MOST:
        stop(f"--rows times --features must be at most {MOST:.0e}: a larger table does not fit in memory")
    if matter >= features:
        stop(f"--matter must be below --features, got {matter} of {features}")
    if patterns not in PATTERNS:
        stop(f"--patterns must be one of {', '.join(PATTERNS)}, got {patterns}")
    truth_file = out.with_name(f"{out.name}.truth.json")
    for file in (out, truth_file):
        check_new(file, force)
    taught = lesson(
        features, rows / features, np.random.default_rng(seed), rho=matter / features, eta=1.0 - flip, patterns=patterns
    )
    names, samples = [f"x{i}" for i in range(1, features + 1)], [f"s{i}" for i in range(1, rows + 1)]
    truth = {
        "weights": {names[i]: float(taught.teacher[i]) for i in np.flatnonzero(taught.teacher)},
        "wrong_labels": [samples[i] for i in np.flatnonzero(taught.flipped)],
        "made_by": {
            "rows": rows,
            "features": features,
            "matter": matter,
            "flip": flip,
            "patterns": patterns,
            "seed": seed,
        },
    }
    with one_line_errors(), whole_file(out) as table, whole_file(truth_file) as known:
        known.write_text(json.dumps(truth, indent=1), encoding="utf-8")
        with open(table, "w", encoding="utf-8", newline="") as text:
            text.write(f"{','.join(['sample', 'class', *names])}\n")
            for sample, label, row in zip(samples, taught.labels, taught.X, strict=True):
                text.write(f"{sample},{'B' if label > 0.0 else 'A'},{','.join(f'{value:.6g}' for value in row)}\n")
    if as_json:
        typer.echo(json.dumps({"table": str(out), "truth": str(truth_file)}, indent=1))
        return
    typer.echo(f"{rows} rows of {features} features: {out}")
    typer.echo(f"the {matter} that matter and the {taught.flipped.sum()} wrong labels: {truth_file}")


def compare_methods(
    data: Data,
    label: Label,
    id: Id = None,
    drop: Drop = None,
    log: Log = False,
    impute: Imputation = None,
    folds: Annotated[int, typer.Option(min=2, help="Folds of held-out rows.")] = 5,
    only: Annotated[list[str] | None, typer.Option(metavar="METHOD", help="Try this one; may be repeated.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Try EP, VAMP, AMP and R1BCS on the same held-out rows.

    Accuracy and AUC with their standard errors; CPU seconds of all folds; features as the median over the folds.
    Exit code 1 where every method failed.

    \b
    Examples:
      dilutron compare-methods patients.csv --label diagnosis
      dilutron compare-methods patients.csv --label diagnosis --only ep --only vamp --folds 10 --json
    """  # noqa: D301
    with one_line_errors():
        from dilutron import runs

        names = list(dict.fromkeys(only or runs.METHODS))
        unknown = [name for name in names if name not in runs.METHODS]
        if unknown:
            stop(f"no method {', '.join(unknown)}; there are {', '.join(runs.METHODS)}")
        request = runs.Request(Columns(label, id, drop=tuple(drop or ())), log=log, impute=impute is not None)
        with progress() as tell:
            sheet, _ = runs.prepared(data, request)
            rows = runs.compared(sheet, names, folds, seed, tell)
    if as_json:
        typer.echo(json.dumps(rows, indent=1, allow_nan=False))
    else:
        _say(rows)
    if all("error" in row for row in rows):
        stop("every method failed.", 1)


def _say(rows: list[dict[str, Any]]) -> None:
    """One line for each method."""
    typer.echo(f"{'method':7}  {'accuracy':13}  {'AUC':13}  {'CPU s':>6}  {'features':>8}  converged")
    for row in rows:
        if "error" in row:
            typer.echo(safe(f"{row['method']:7}  failed: {row['error']}"))
            continue
        scores = "  ".join(f"{row[key]:.3f} ± {_digits(row[f'{key}_se'])}" for key in ("accuracy", "auc"))
        ended = f"{row['converged']} of {row['folds']} folds"
        typer.echo(f"{row['method']:7}  {scores}  {row['cpu_seconds']:6.1f}  {row['features']:8.0f}  {ended}")


def _digits(error: float | None) -> str:
    return "  -  " if error is None else f"{error:.3f}"

"""`fit`, `report` and `predict`: from a file to an answer, its page, and answers for new rows."""

from __future__ import annotations

import csv
import json
import math
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dilutron.commands.saying import check_new, note, one_line_errors, progress, safe, stop
from dilutron.files import harmless, whole_file
from dilutron.loop import Status
from dilutron.tables import Columns

SHOWN = 10  # features and labels that are named; the files hold all
LIKELY = 0.5  # inclusion probability from which a feature can be named, as on the page

Data = Annotated[Path, typer.Argument(metavar="DATA", help="CSV or TSV (also .gz), Parquet or h5ad; rows are samples.")]
Label = Annotated[str, typer.Option(metavar="COLUMN", help="Column of the classes.")]
Id = Annotated[str | None, typer.Option("--id", metavar="COLUMN", help="Column of row names.")]
Drop = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Column that is no feature; may be repeated.")]
Log = Annotated[bool, typer.Option("--log", help="Take log2(x + 1) of all features.")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of random choices.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON, for scripts.")]


class Impute(StrEnum):
    """What missing values become."""

    median = "median"


Imputation = Annotated[
    Impute | None, typer.Option(help="Fill missing values by the median of their column; else they are an error.")
]


def fit(
    data: Data,
    label: Label,
    out: Annotated[Path, typer.Option(metavar="RUN", help="Folder for the answer.")],
    id: Id = None,
    drop: Drop = None,
    positive: Annotated[
        str | None, typer.Option(metavar="CLASS", help="Of two, the one for which positive coefficients speak.")
    ] = None,
    log: Log = False,
    impute: Imputation = None,
    folds: Annotated[int, typer.Option(min=0, help="Folds for predictions of held-out rows; 0: none.")] = 5,
    expect: Annotated[
        float | None, typer.Option(metavar="K", help="How many features matter; by default found from the data.")
    ] = None,
    fdr: Annotated[float, typer.Option(help="Share of the suspect labels that may be right after all.")] = 0.1,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Say which features matter, and which labels look wrong.

    RUN gets features.csv, labels.csv, predictions.csv, groups.csv, the fitted model, and report.html to read first.
    It is written whole or not at all. Exit code 0: done; 2: the file or the request is at fault; 1: something failed on
    the way; 130: Ctrl-C.

    \b
    Examples:
      dilutron fit patients.csv --label diagnosis --out run/
      dilutron fit patients.csv --label diagnosis --id patient --drop age --drop sex --positive ill --out run/
      dilutron fit counts.tsv.gz --label tissue --log --impute median --out run/
      dilutron fit cells.h5ad --label cell_type --expect 20 --folds 0 --out run/ --json
    """  # noqa: D301 (the mark that keeps lines as they are)
    if folds == 1:
        stop("--folds must be 0, for none, or at least 2")
    if not 0.0 < fdr < 1.0:
        stop(f"--fdr must be above 0 and below 1, got {fdr:g}")
    with one_line_errors():
        from dilutron import runs

        runs.check_place(out, force)
        columns = Columns(label, id, drop=tuple(drop or ()))
        request = runs.Request(columns, positive, log, impute is not None, folds, expect, fdr, seed)
        with progress() as tell:
            answer = runs.make(data, request, tell)
        runs.write(answer, out, force=force)
    page = _page(out)
    if as_json:
        typer.echo(json.dumps(_summary(answer, out, page), indent=1, allow_nan=False))
    else:
        _say(answer, out, page, fdr)


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="As `dilutron fit` left it.")], as_json: Json = False
) -> None:
    """Make RUN/report.html again from the files in RUN.

    \b
    Example:
      dilutron report run/
    """  # noqa: D301
    if not (run / "run.json").is_file():
        stop(f"{run} is not a run of `dilutron fit`: {run / 'run.json'} is missing.")
    with one_line_errors():
        try:
            from dilutron.report import write

            page = write(run)
        except (ImportError, ValueError) as error:
            stop(str(error))
    typer.echo(json.dumps({"report": str(page)}, indent=1) if as_json else page)


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="As `dilutron fit` left it.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Rows with the columns of the fit, in any order.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="CSV to write; by default standard output.")] = None,
    id: Id = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Predict the classes of new rows, with probabilities.

    The rows are prepared as those of the fit were: the same logarithm, the same medians for missing values.

    \b
    Examples:
      dilutron predict run/ new.csv
      dilutron predict run/ new.csv --out predictions.csv
    """  # noqa: D301
    if out is not None and as_json:
        stop("--json and --out exclude each other: --out writes CSV; for JSON in a file, --json > FILE.")
    if out is not None:
        check_new(out, force)
    with one_line_errors():
        from dilutron import runs

        rows, ignored = runs.load(run).predictions(new, id)
        if ignored:
            names = ", ".join(f"'{name}'" for name in ignored[:SHOWN])
            note(f"{new}: ignored columns that the fit does not know, {len(ignored)}: {names}")
        if out is not None:
            with whole_file(out) as scratch:
                runs.write_csv(scratch, list(rows[0]), rows)
            note(f"{len(rows)} rows: {out}")
        elif as_json:
            typer.echo(json.dumps(rows, indent=1))
        else:
            writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows({name: harmless(value) for name, value in row.items()} for row in rows)


def _page(run: Path) -> Path | None:
    """The page of a run that is safe on disk already: what goes wrong here loses nothing."""
    try:
        from dilutron.report import write

        return Path(write(run))
    except ImportError as error:
        note(f"no report.html: {error}")
        return None
    except KeyboardInterrupt:
        stop(f"stopped; the run is in {run}, without its page: dilutron report {run}", 130)
    except (OSError, ValueError) as error:
        stop(f"the run is in {run}, but its page could not be made: {error}", 1)


def _summary(answer: Any, out: Path, page: Path | None) -> dict[str, Any]:
    likely = answer.facts["result"]["n_features_likely"]
    return {
        "run": str(out),
        "report": None if page is None else str(page),
        **answer.facts,
        "features": answer.features[: max(likely, SHOWN)],
        "suspects": answer.suspects,
    }


def _say(answer: Any, out: Path, page: Path | None, fdr: float) -> None:
    """The answer in plain words."""
    facts, result = answer.facts, answer.facts["result"]
    likely, data = result["n_features_likely"], facts["data"]
    lines = [f"{_how_many(answer)} The most probable:"]
    lines += [f"  {'probability':>11}  {'coefficient':>11}  feature"]
    for row in answer.features[: min(likely, SHOWN)]:
        of = f" ({row['class']})" if "class" in row else ""
        lines.append(f"  {row['inclusion']:11.3f}  {row['coefficient']:+11.3g}  {row['feature']}{of}")
    if answer.features[0]["inclusion"] < LIKELY:
        lines.append("None of these is more likely than not to matter: an order in which to look, not a finding.")
    if data["positive"] is not None:
        lines.append(f"A positive coefficient speaks for '{data['positive']}'.")
    if data["constant"]:
        lines.append(f"{len(data['constant'])} more are the same in all rows and were left out.")
    lines += [*_held_out_words(facts["held_out"]), *_suspect_words(answer.suspects, fdr)]
    if not result["converged"]:
        lines.append(f"Do not rely on it: {Status(result['status']).message}")
    lines.append(f"Read first: {page}" if page else f"Files: {out}")
    lines.append(f"Tables:     {out / 'features.csv'}, {out / 'labels.csv'}")
    for line in lines:
        typer.echo(safe(line))


def _how_many(answer: Any) -> str:
    """As on the page: of three or more classes, what can be named, as a sum over classes counts some twice."""
    facts, total = answer.facts, answer.facts["data"]["n_features"]
    label, likely = facts["data"]["label"], facts["result"]["n_features_likely"]
    if len(facts["classes"]) == 2:
        return f"About {likely} of {total} features {'matter' if likely > 1 else 'matters'} for '{label}'."
    named = len({row["feature"] for row in answer.features if row["inclusion"] >= LIKELY})
    return (
        f"{named or 'None'} of {total} features can be named for '{label}': {'each' if named else 'none'} is more "
        "likely than not to matter for telling at least one class from the others."
    )


def _held_out_words(scores: dict[str, Any] | None) -> list[str]:
    if scores is None:
        return ["No row was held out: how good predictions are is not known."]
    # As on the page: where classes are unequal, an AUC above one half is something, too.
    guesses = (("accuracy", scores["majority"]), ("auc", 0.5))
    # An error that is not known may be of any size.
    errors = {key: math.inf if scores[f"{key}_se"] is None else scores[f"{key}_se"] for key, _ in guesses}
    chance = all(scores[key] is None or scores[key] <= guess + 2.0 * errors[key] for key, guess in guesses)
    restless = scores["folds"] - scores["converged"]
    area = "not known" if scores["auc"] is None else f"{scores['auc']:.3f}"
    return [
        f"Rows held out in {scores['folds']} folds: {scores['accuracy']:.1%} right (± {scores['accuracy_se']:.1%}), "
        f"AUC {area}; naming the largest class always would get {scores['majority']:.1%}.",
        *(["That is no better than chance: do not rely on these features."] if chance else []),
        *([f"Of the {scores['folds']} fits to the other folds, {restless} did not settle."] if restless else []),
    ]


def _suspect_words(suspects: list[dict[str, Any]], fdr: float) -> list[str]:
    if not suspects:
        return ["No label looks wrong."]
    rest = f" and {len(suspects) - SHOWN} more" if len(suspects) > SHOWN else ""
    named = ", ".join(f"row {row['row']}" + (f" ({row['id']})" if row["id"] else "") for row in suspects[:SHOWN])
    look = "labels look" if len(suspects) > 1 else "label looks"
    return [f"{len(suspects)} {look} wrong (on average at most {fdr:.0%} of them are right after all): {named}{rest}."]

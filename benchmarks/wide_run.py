"""`dilutron fit` on a wide CSV with nothing but its columns named: seconds, memory, the page, and what was found."""

from __future__ import annotations

import csv
import json
import tempfile
from pathlib import Path

from benchmarks.alone import alone, measured
from benchmarks.rows import Row, table, write

SIZE, SMALL = (1000, 23_000), (100, 2000)
MATTER = 20
RUNS: dict[str, tuple[object, ...]] = {"default": (), "--folds 0": ("--folds", 0)}  # the default holds rows out
LIMIT = 7200.0  # CPU seconds for a command
FIGURES = ("wall_seconds", "cpu_seconds", "peak_mb")


def dilutron(cell: Row) -> Row:
    """A command of the command line. Some of its imports are there before it begins: a tenth of a second or two."""

    def work() -> None:
        from dilutron import cli

        try:
            cli.main(cell["words"])
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"dilutron ended with {end.code}") from end

    return measured(work)[1]


def command(*words: object) -> Row:
    """The figures of a command in a process of its own."""
    row = alone(dilutron, {"words": [str(word) for word in words]}, limit=LIMIT)
    if row["ended"] != "whole":
        raise RuntimeError(f"dilutron {words[0]}: {row['ended']}")
    return {name: row[name] for name in FIGURES}


def found(run: Path, truth: dict[str, list[str]]) -> Row:
    """Of the features named, how many are true; of the suspect labels, how many are wrong."""
    with open(run / "features.csv", newline="", encoding="utf-8") as file:
        named = [row["feature"] for row in csv.DictReader(file) if float(row["inclusion"]) >= 0.5]
    with open(run / "labels.csv", newline="", encoding="utf-8") as file:
        suspects = [row["id"] for row in csv.DictReader(file) if row["suspect"] == "true"]
    return {
        "named": len(named),
        "named_true": len({*named} & {*truth["weights"]}),
        "suspects": len(suspects),
        "suspects_wrong": len({*suspects} & {*truth["wrong_labels"]}),
    }


def from_file_to_page(rows: int, features: int, matter: int = MATTER) -> list[Row]:
    """The table from `dilutron simulate`, one label in twenty wrong; a line for each way to fit it."""
    out = []
    with tempfile.TemporaryDirectory() as folder:
        data, run = Path(folder) / "wide.csv", Path(folder) / "run"
        command("simulate", "--rows", rows, "--features", features, "--matter", matter, "--out", data)
        truth = json.loads(data.with_name("wide.csv.truth.json").read_text(encoding="utf-8"))
        for name, more in RUNS.items():
            fitted = command("fit", data, "--label", "class", "--id", "sample", "--out", run, "--force", *more)
            page = command("report", run)
            facts = json.loads((run / "run.json").read_text(encoding="utf-8"))
            scores = facts["held_out"] or {}
            line: Row = {"fit": name, "rows": rows, "features": features, "file_mb": data.stat().st_size / 2**20}
            line |= {f"fit_{key}": value for key, value in fitted.items()}
            line |= {"page_seconds": page["wall_seconds"], "page_kb": (run / "report.html").stat().st_size / 1024}
            line |= {"status": facts["result"]["status"], "size": facts["result"]["n_features_likely"]}
            line |= {"folds": scores.get("folds", 0), "folds_settled": scores.get("converged", "")}
            line |= {key: scores.get(key, "") for key in ("accuracy", "accuracy_se", "auc", "auc_se")}
            out.append(line | found(run, truth))
    return out


def main(instances: int, jobs: int) -> None:
    """Once; few instances mean a small table."""
    out = from_file_to_page(*(SIZE if instances >= 100 else SMALL))
    table(out, tuple(out[0]))
    write("wide_run", out)

"""`dilutron fit` on a wide CSV, 1,000 x 23,000, with a stated size: seconds, memory, the page, and what was found."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.rows import Row, table, write

ROWS, FEATURES, MATTER, FOLDS = 1000, 23_000, 20, 2
TIMED = """
import json, resource, sys, time
from dilutron import cli
began = time.perf_counter()
try:
    cli.main(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
spent = time.perf_counter() - began
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([spent, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""


def command(*arguments: object) -> Row:
    """A command in a process of its own: wall and CPU seconds, and its largest memory in MB."""
    process = [sys.executable, "-c", TIMED, *map(str, arguments)]
    said = subprocess.run(process, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
    return dict(zip(("seconds", "cpu_seconds", "memory_mb"), json.loads(said), strict=True))


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


def main(instances: int, jobs: int) -> None:
    """Once: the table from `dilutron simulate`, with 20 features that matter and one label in twenty wrong."""
    with tempfile.TemporaryDirectory() as folder:
        data, run = Path(folder) / "wide.csv", Path(folder) / "run"
        command("simulate", "--rows", ROWS, "--features", FEATURES, "--matter", MATTER, "--out", data)
        truth = json.loads(data.with_name("wide.csv.truth.json").read_text(encoding="utf-8"))
        fitted = command(
            *("fit", data, "--label", "class", "--id", "sample", "--expect", MATTER, "--folds", FOLDS, "--out", run)
        )
        page = command("report", run)
        facts = json.loads((run / "run.json").read_text(encoding="utf-8"))
        out: Row = {"rows": ROWS, "features": FEATURES, "expect": MATTER, "folds": FOLDS}
        out |= {f"fit_{key}": value for key, value in fitted.items()}
        out |= {"page_seconds": page["seconds"], "page_kb": (run / "report.html").stat().st_size / 1024}
        out |= {"status": facts["result"]["status"], "accuracy": facts["held_out"]["accuracy"], **found(run, truth)}
    table([out], tuple(out))
    write("wide_run", [out])


if __name__ == "__main__":
    main(1, 1)

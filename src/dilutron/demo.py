"""`python -m dilutron.demo`: a real table with a few labels turned over, `dilutron fit`, and what it found of them."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

from dilutron import cli
from dilutron.files import whole_file

FOLDER = Path("demo-run")
WRONG = 12  # labels turned over, of 569
SEED = 2021


def main() -> None:
    """A table as a person could have it, the command that one would give, and the truth beside the answer."""
    table, run = FOLDER / "patients.csv", FOLDER / "run"
    turned_over = write_table(table)
    print(f"{table}: 569 tumours, 30 measurements of each. {WRONG} diagnoses were turned over on purpose.\n")
    command = ["fit", str(table), "--label", "diagnosis", "--id", "patient", "--out", str(run), "--force"]
    print("$ dilutron", *command, flush=True)
    try:
        cli.main(command)
    except SystemExit as end:
        if end.code:
            raise
    print(f"\n{verdict(turned_over, run / 'labels.csv')}")
    print(f"Open {(run / 'report.html').absolute()}")


def write_table(place: Path) -> list[str]:
    """Write the breast-cancer table of scikit-learn; the patients whose diagnosis was turned over."""
    place.parent.mkdir(exist_ok=True)
    data = load_breast_cancer()
    labels, names = data.target.copy(), [f"p{i:03d}" for i in range(1, len(data.target) + 1)]
    wrong = np.sort(np.random.default_rng(SEED).choice(labels.size, WRONG, replace=False))
    labels[wrong] = 1 - labels[wrong]
    with whole_file(place) as scratch, open(scratch, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["patient", "diagnosis", *data.feature_names])
        writer.writerows(
            [name, data.target_names[label], *map(float, row)]
            for name, label, row in zip(names, labels, data.data, strict=True)
        )
    return [names[i] for i in wrong]


def verdict(turned_over: list[str], labels: Path) -> str:
    """What the run's own file says of them."""
    with open(labels, newline="", encoding="utf-8") as file:
        suspects = [row["id"] for row in csv.DictReader(file) if row["suspect"] == "true"]
    found = [name for name in suspects if name in turned_over]
    missed = [name for name in turned_over if name not in suspects]
    return (
        f"Of the {len(turned_over)} labels turned over, {len(found)} are among the {len(suspects)} suspects: "
        f"{', '.join(found)}.\nNot found: {', '.join(missed) or 'none'}."
    )


if __name__ == "__main__":
    main()

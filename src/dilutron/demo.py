"""`python -m dilutron.demo`: a noisy teacher, the student's answer beside the truth, and files to look at."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np

from dilutron import EPOptions, Posterior, Problem, SpikeSlab, ThetaMixture, solve
from dilutron.data import Lesson, lesson
from dilutron.files import whole_file
from dilutron.metrics import auc, decibel, mse

N, ALPHA, RHO, ETA = 128, 4.0, 0.25, 0.95


def main() -> None:
    """Teach, learn, compare."""
    truth = lesson(N, ALPHA, np.random.default_rng(2021), rho=RHO, eta=ETA)
    print(f"A teacher with {N} weights, {np.count_nonzero(truth.teacher)} of them not zero, labelled {len(truth.X)}")
    print(f"random patterns; {truth.flipped.sum()} labels were then turned over. The student knows none of this.\n")
    posterior = solve(
        Problem.from_arrays(truth.X, truth.labels),
        weights=SpikeSlab(rho=0.5),
        labels=ThetaMixture(eta=0.8),
        options=EPOptions(learn=("rho", "eta")),
    )
    show_weights(posterior, truth)
    show_summary(posterior, truth)
    folder = Path("demo-run")
    posterior.save(folder / "posterior")
    for name, rows in (("weights.csv", weight_rows(posterior, truth)), ("labels.csv", label_rows(posterior, truth))):
        write_table(folder / name, rows)
    print(f"\nFiles: {folder / 'weights.csv'}, {folder / 'labels.csv'}, {folder / 'posterior'}{os.sep}")


def show_weights(posterior: Posterior, truth: Lesson, most: int = 16) -> None:
    """The surest features beside the truth, both scaled to unit norm."""
    assert posterior.inclusion is not None, "EP gives inclusion probabilities"
    unit, true = np.linalg.norm(posterior.mean), truth.teacher / np.linalg.norm(truth.teacher)
    print("feature   P(w != 0)   student          teacher")
    for i in np.argsort(-posterior.inclusion, kind="stable")[:most]:
        student = f"{posterior.mean[i] / unit:+.3f} ± {posterior.std[i] / unit:.3f}"
        print(f"{posterior.names[i]:<9} {posterior.inclusion[i]:9.3f}   {student:<16} {true[i]:+.3f}")
    rest = np.count_nonzero(posterior.inclusion > 0.5) - most
    print(f"... and {rest} more with P > 0.5\n" if rest > 0 else "")


def show_summary(posterior: Posterior, truth: Lesson) -> None:
    """What was learned, and how well."""
    assert posterior.inclusion is not None, "EP gives inclusion probabilities"
    assert posterior.flip is not None, "EP gives flip probabilities"
    suspects = posterior.flip > 0.5
    found = np.count_nonzero(suspects & truth.flipped)
    print(f"status          {posterior.status.value} in {posterior.n_iter} iterations, {posterior.seconds:.1f} s")
    print(f"density rho     learned {posterior.weights.rho:.3f}   true {RHO}")
    print(f"right labels    learned {posterior.labels.eta:.3f}   true {ETA}")
    print(f"weights         MSE {decibel(mse(posterior.mean, truth.teacher)):.1f} dB, "
          f"AUC of the features {auc(posterior.inclusion, truth.teacher != 0):.3f}")  # fmt: skip
    print(f"labels          {suspects.sum()} look wrong, {found} of them are, of {truth.flipped.sum()} turned over")


def weight_rows(posterior: Posterior, truth: Lesson) -> list[dict[str, object]]:
    """One row per feature."""
    assert posterior.inclusion is not None, "EP gives inclusion probabilities"
    columns = zip(posterior.names, posterior.inclusion, posterior.mean, posterior.std, truth.teacher, strict=True)
    return [dict(zip(("feature", "inclusion", "mean", "std", "teacher"), row, strict=True)) for row in columns]


def label_rows(posterior: Posterior, truth: Lesson) -> list[dict[str, object]]:
    """One row per pattern."""
    assert posterior.flip is not None, "EP gives flip probabilities"
    columns = zip(range(len(truth.labels)), truth.labels.astype(int), posterior.flip, truth.flipped, strict=True)
    return [dict(zip(("pattern", "label", "flip", "turned_over"), row, strict=True)) for row in columns]


def write_table(path: Path, rows: list[dict[str, object]]) -> None:
    """A CSV file, there whole or not at all."""
    with whole_file(path) as scratch, open(scratch, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()

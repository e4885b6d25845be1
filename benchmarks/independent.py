"""The comparison of `real_data` on sets that played no part in choosing the defaults.

They are those of the Bioconductor packages ALL (Chiaretti et al. 2004) and bladderbatch (Dyrskjot et al. 2004), log
expressions as they come, read by R where it has these packages (Debian: r-bioc-all, r-bioc-bladderbatch).
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.kept import kept
from benchmarks.peers import METHODS
from benchmarks.real_data import FURTHER, summary, tasks, tell, trial
from dilutron.files import whole_file

# What each asks, as R: `x`, genes x samples, and `y`, true, false or missing.
ALL = 'data("ALL", package = "ALL"); x <- exprs(ALL); b <- substr(as.character(ALL$BT), 1, 1) == "B"'
BLADDER = 'data("bladderdata", package = "bladderbatch"); x <- exprs(bladderEset); p <- pData(bladderEset)'
QUESTIONS = {
    "all_bcr_abl": f'{ALL}; m <- ALL$mol.biol; y <- ifelse(b & m %in% c("BCR/ABL", "NEG"), m == "BCR/ABL", NA)',
    "all_relapse": f"{ALL}; y <- ALL$relapse",
    "all_sex": f'{ALL}; y <- ALL$sex == "F"',
    "bladder_cancer": f'{BLADDER}; y <- p$cancer == "Cancer"',
}
EXPORT = """
suppressMessages(library(Biobase))
{question}
kept <- !is.na(y)
writeBin(c(dim(x[, kept]), as.integer(y[kept])), "{folder}/y.bin")
writeBin(as.vector(x[, kept]), "{folder}/x.bin")
"""


# scikit-learn's elastic net would take hours here; skglm's has the same penalty, at its optimum.
COMPARED = {name: method for name, method in METHODS.items() if name != "elastic net CV"}


def exported(name: str) -> bool:
    """Put a set where `real_data.load` finds it; False where R or its package is not there."""
    path = FURTHER / f"{name}.npz"
    if path.is_file():
        return True
    if shutil.which("Rscript") is None:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        script = EXPORT.format(question=QUESTIONS[name], folder=Path(folder).as_posix())
        answer = subprocess.run(["Rscript", "-e", script], capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            print(f"{name}: R says {answer.stderr.strip().splitlines()[-1:]}", flush=True)
            return False
        head = np.fromfile(Path(folder) / "y.bin", dtype=np.int32)
        X = np.fromfile(Path(folder) / "x.bin").reshape(head[1], head[0])  # R's columns are samples
    with whole_file(path) as scratch:
        np.savez(scratch, X=X, y=head[2:])
    return True


def main(instances: int, jobs: int) -> None:
    """`instances` repeats of the folds; the committed results have two."""
    there = [name for name in QUESTIONS if exported(name)]
    if absent := [name for name in QUESTIONS if name not in there]:
        print(f"NOT THERE, LEFT OUT: {', '.join(absent)} (needs R with the packages ALL and bladderbatch)", flush=True)
    tell("independent", summary(kept("independent", trial, tasks(instances, there, COMPARED), jobs)))

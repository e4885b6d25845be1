"""The comparison of `real_data` on questions that played no part in choosing the defaults.

They are asked of the Bioconductor packages ALL (Chiaretti et al. 2004) and bladderbatch (Dyrskjot et al. 2004), log
expressions as they come, read by R; and of two sets that come with the Python package ISLP, NCI60 (Ross et al. 2000)
and Khan (Khan et al. 2001), of which its data are enough. A source that is not there is left out.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.kept import kept
from benchmarks.needs import Need, packages, packages_of_r, said
from benchmarks.peers import METHODS, OURS
from benchmarks.real_data import FURTHER, summary, tasks, tell, trial
from benchmarks.rows import Row, by_cell, mean_se, table, write
from dilutron.files import whole_file

# What each asks, as R: `x`, genes x samples, and `y`, true, false or missing.
ALL = 'data("ALL", package = "ALL"); x <- exprs(ALL); b <- substr(as.character(ALL$BT), 1, 1) == "B"'
BLADDER = 'data("bladderdata", package = "bladderbatch"); x <- exprs(bladderEset); p <- pData(bladderEset)'
QUESTIONS = {
    "all_bcr_abl": f'{ALL}; m <- ALL$mol.biol; y <- ifelse(b & m %in% c("BCR/ABL", "NEG"), m == "BCR/ABL", NA)',
    "all_relapse": f"{ALL}; y <- ALL$relapse",
    "all_sex": f'{ALL}; y <- ALL$sex == "F"',
    "all_resistance": f'{ALL}; y <- ALL$mdr == "POS"',
    "all_hyperdiploid": f'{ALL}; y <- ALL$kinet == "hyperd."',
    "all_cytogenetics": f"{ALL}; y <- ALL$cyto.normal",
    "all_remission": f'{ALL}; y <- ALL$remission == "REF"',
    "all_age": f"{ALL}; y <- ALL$age >= 30",
    "all_stage": f'{ALL}; t <- ALL$BT; y <- ifelse(t %in% c("B1", "B3", "B4"), t == "B1", NA)',
    "bladder_cancer": f'{BLADDER}; y <- p$cancer == "Cancer"',
    "bladder_cis": f'{BLADDER}; o <- p$outcome; y <- ifelse(grepl("^sTCC", o), o == "sTCC+CIS", NA)',
}
# And of the sets in ISLP: the class that is told from all others.
PARTS = ("train", "test")
CLASSES = {
    "nci_renal": "RENAL",
    "nci_lung": "NSCLC",
    "nci_melanoma": "MELANOMA",
    "khan_rhabdomyosarcoma": "4",
    "khan_ewing": "2",
}
EXPORT = """
suppressMessages(library(Biobase))
{question}
kept <- !is.na(y)
writeBin(c(dim(x[, kept]), as.integer(y[kept])), "{folder}/y.bin")
writeBin(as.vector(x[, kept]), "{folder}/x.bin")
"""


def _kept(source: Need, names: list[str]) -> Need:
    """A source whose sets were read before need not be there again."""
    return source._replace(there=lambda: all(_path(name).is_file() for name in names) or source.there())


def _path(name: str) -> Path:
    return FURTHER / f"{name}.npz"


BIOCONDUCTOR = packages_of_r(
    "ALL",
    "bladderbatch",
    remedy="install R, and in it this by BiocManager::install; Debian: r-bioc-all, r-bioc-bladderbatch",
)
ISLP = packages("ISLP", remedy="make bench installs it, or: pip install --no-deps ISLP")
ASKED = ([q for q in QUESTIONS if q.startswith("all")], [q for q in QUESTIONS if q.startswith("bladder")], [*CLASSES])
SOURCES = tuple(_kept(source, names) for source, names in zip((*BIOCONDUCTOR, *ISLP), ASKED, strict=True))
ANY = Need("all of its sources", lambda: any(source.there() for source in SOURCES), f"one will do: {said(SOURCES)}")
# scikit-learn's elastic net would take hours here; skglm's has the same penalty, at its optimum.
COMPARED = {name: method for name, method in METHODS.items() if name != "elastic net CV"}


def exported(name: str) -> bool:
    """Put a set where `real_data.load` finds it; False where what reads it is not there."""
    path = _path(name)
    if path.is_file():
        return True
    read = _from_islp(name) if name in CLASSES else _from_r(name)
    if read is None:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as scratch:
        np.savez(scratch, X=read[0], y=read[1])
    return True


def _from_r(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Rows and labels by R; None where it, or its package, is not there."""
    if shutil.which("Rscript") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        script = EXPORT.format(question=QUESTIONS[name], folder=Path(folder).as_posix())
        answer = subprocess.run(["Rscript", "-e", script], capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            print(f"{name}: R says {answer.stderr.strip().splitlines()[-1:]}", flush=True)
            return None
        head = np.fromfile(Path(folder) / "y.bin", dtype=np.int32)
        return np.fromfile(Path(folder) / "x.bin").reshape(head[1], head[0]), head[2:]  # R's columns are samples


def _from_islp(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Rows and labels from the package's files; None where it is not installed. It is not imported: it wants much."""
    found = importlib.util.find_spec("ISLP")
    if found is None or not found.submodule_search_locations:
        return None
    folder = Path(found.submodule_search_locations[0]) / "data"
    if name.startswith("nci"):
        X, classes = np.load(folder / "NCI60data.npy", allow_pickle=False), _lines(folder / "NCI60labs.csv")
    else:
        X = np.vstack([np.loadtxt(folder / f"Khan_x{part}.csv", delimiter=",", skiprows=1) for part in PARTS])
        classes = [one for part in PARTS for one in _lines(folder / f"Khan_y{part}.csv")]
    return X, np.array([one == CLASSES[name] for one in classes], dtype=int)


def _lines(path: Path) -> list[str]:
    """The one column of a file, without its heading and quotes."""
    return [line.strip().strip('"') for line in path.read_text(encoding="utf-8").splitlines()[1:]]


def main(instances: int, jobs: int) -> None:
    """`instances` repeats of the folds; the committed results have two."""
    names = [name for source, asked in zip(SOURCES, ASKED, strict=True) if source.there() for name in asked]
    if unread := [name for name in names if not exported(name)]:
        raise RuntimeError(f"their source is there, but they cannot be read: {', '.join(unread)}")
    rows = summary(kept("independent", trial, tasks(instances, names, COMPARED), jobs))
    tell("independent", rows)
    averages = [averaged(m, some) for (m,), some in by_cell(rows, ("method",)).items() if m != OURS]
    table(averages, tuple(averages[0]))
    write("independent_means", averages)


def averaged(method: str, rows: list[Row]) -> Row:
    """A method over all questions; `gain` is ours minus it, and its error that of the mean over questions."""
    line: Row = {"method": method, "questions": len(rows)}
    for quantity in ("accuracy", "auc"):
        gain, se = mean_se(row[f"{quantity}_gain"] for row in rows)
        line |= {quantity: mean_se(row[quantity] for row in rows)[0], f"{quantity}_gain": gain}
        line |= {f"{quantity}_gain_se": se, f"{quantity}_won": sum(row[f"{quantity}_gain"] > 0.0 for row in rows)}
        line |= {f"{quantity}_lost": sum(row[f"{quantity}_gain"] < 0.0 for row in rows)}
    log_loss, cpu = (mean_se(row[name] for row in rows)[0] for name in ("log_loss", "cpu_ratio"))
    return {**line, "log_loss": log_loss, "cpu_ratio": cpu}

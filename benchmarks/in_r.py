"""glmnet, where R has it (Debian: r-cran-glmnet): the reference of L1 paths, called with a file of numbers."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

# Seconds and memory are R's own, without the reading of the file. The strength is the one of the smallest deviance.
SCRIPT = """
suppressMessages(library(glmnet))
shape <- readBin("{folder}/shape.bin", "integer", 2)
x <- matrix(readBin("{folder}/x.bin", "double", shape[1] * shape[2]), shape[1], shape[2])
y <- readBin("{folder}/y.bin", "integer", shape[1])
memory <- function(which) as.numeric(gsub("[^0-9]", "", grep(which, readLines("/proc/self/status"), value = TRUE)))
invisible(gc())
before <- memory("VmRSS")
cat("5", file = "/proc/self/clear_refs")
set.seed(0)
took <- system.time(model <- cv.glmnet(x, y, family = "binomial"))
figures <- c(took[["elapsed"]], took[["user.self"]] + took[["sys.self"]], before / 1024, memory("VmHWM") / 1024)
writeBin(c(figures, as.vector(coef(model, s = "lambda.min"))), "{folder}/answer.bin")
"""
FIGURES = ("wall_seconds", "cpu_seconds", "before_mb", "peak_mb")


@cache
def version(package: str) -> str | None:
    """Of an R package; None where it, or R, is not there."""
    if shutil.which("Rscript") is None:
        return None
    asked = f'cat(as.character(packageVersion("{package}")))'
    answer = subprocess.run(["Rscript", "-e", asked], capture_output=True, text=True, check=False)
    return answer.stdout if answer.returncode == 0 else None


class GlmnetCV(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """`cv.glmnet(family = "binomial")`, all else as it comes: ten folds, a hundred strengths, columns standardised."""

    def fit(self, X: Any, y: Any) -> Self:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            np.array(X.shape, np.int32).tofile(folder / "shape.bin")
            np.ascontiguousarray(X.T, np.float64).tofile(folder / "x.bin")  # R's columns follow one another
            np.asarray(y, np.int32).tofile(folder / "y.bin")
            command = ["Rscript", "-e", SCRIPT.format(folder=folder.as_posix())]
            answer = subprocess.run(command, capture_output=True, text=True, check=False)
            values = np.fromfile(folder / "answer.bin") if answer.returncode == 0 else np.empty(0)
        if answer.returncode == -signal.SIGXCPU:  # a limit of CPU that was set for this process ended its child
            signal.raise_signal(signal.SIGXCPU)
        if answer.returncode != 0:
            ending = f"was ended by signal {-answer.returncode}" if answer.returncode < 0 else "says "
            raise RuntimeError(f"R {ending}{answer.stderr.strip()[-200:]}")
        self.figures_ = dict(zip(FIGURES, values.tolist(), strict=False))
        self.intercept_, self.coef_, self.classes_ = values[4], values[5:], np.unique(y)
        return self

    def decision_function(self, X: Any) -> Any:
        return X @ self.coef_ + self.intercept_

    def predict(self, X: Any) -> Any:
        return self.classes_[(self.decision_function(X) > 0.0).astype(int)]

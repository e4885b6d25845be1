"""Programs of R, where it has them, called with a file of numbers.

Debian: r-cran-glmnet. sparsevb and varbvs: R's install.packages.
"""

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

# Seconds and memory are R's own, without the reading of the file.
SCRIPT = """
suppressMessages(library({package}))
shape <- readBin("{folder}/shape.bin", "integer", 2)
x <- matrix(readBin("{folder}/x.bin", "double", shape[1] * shape[2]), shape[1], shape[2])
y <- readBin("{folder}/y.bin", "integer", shape[1])
memory <- function(which) as.numeric(gsub("[^0-9]", "", grep(which, readLines("/proc/self/status"), value = TRUE)))
invisible(gc())
before <- memory("VmRSS")
cat("5", file = "/proc/self/clear_refs")
set.seed(0)
took <- system.time(model <- {call})
figures <- c(took[["elapsed"]], took[["user.self"]] + took[["sys.self"]], before / 1024, memory("VmHWM") / 1024)
writeBin(c(figures, {answer}), "{folder}/answer.bin")
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


class InR(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear classifier that R fits: `call` of x and y, which is 0 or 1, makes `model`.

    `answer` is its intercept, its coefficients, and the probabilities that they are not 0, where it has such.
    """

    package: str
    call: str
    answer: str

    def fit(self, X: Any, y: Any) -> Self:
        self.classes_, codes = np.unique(y, return_inverse=True)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            np.array(X.shape, np.int32).tofile(folder / "shape.bin")
            np.ascontiguousarray(X.T, np.float64).tofile(folder / "x.bin")  # R's columns follow one another
            codes.astype(np.int32).tofile(folder / "y.bin")
            script = SCRIPT.format(folder=folder.as_posix(), package=self.package, call=self.call, answer=self.answer)
            answer = subprocess.run(["Rscript", "-e", script], capture_output=True, text=True, check=False)
            values = np.fromfile(folder / "answer.bin") if answer.returncode == 0 else np.empty(0)
        if answer.returncode == -signal.SIGXCPU:  # a limit of CPU that was set for this process ended its child
            signal.raise_signal(signal.SIGXCPU)
        if answer.returncode != 0:
            ending = f"was ended by signal {-answer.returncode}" if answer.returncode < 0 else "says "
            raise RuntimeError(f"R {ending}{answer.stderr.strip()[-200:]}")
        figures, (self.intercept_, *_), self.coef_, present = np.split(values, np.cumsum([4, 1, X.shape[1]]))
        self.figures_ = dict(zip(FIGURES, figures.tolist(), strict=True))
        if present.size:
            self.inclusion_proba_ = present
        return self

    def decision_function(self, X: Any) -> Any:
        return X @ self.coef_ + self.intercept_

    def predict(self, X: Any) -> Any:
        return self.classes_[(self.decision_function(X) > 0.0).astype(int)]


class GlmnetCV(InR):
    """All as it comes: ten folds, a hundred strengths, columns standardised; the strength of the smallest deviance."""

    package = "glmnet"
    call = 'cv.glmnet(x, y, family = "binomial")'
    answer = 'as.vector(coef(model, s = "lambda.min"))'


class SparseVB(InR):
    """Variational Bayes with a spike and a Laplace slab, all as it comes: there is no intercept, and `mu * gamma` is
    the mean of a weight. Its documentation recommends standardised columns."""

    package = "sparsevb"
    call = 'svb.fit(x, y, family = "logistic")'
    answer = "c(0, model$mu * model$gamma, model$gamma)"


class Varbvs(InR):
    """Variational Bayes with a spike and a Gaussian slab, averaged over a grid of sparsities, all as it comes."""

    package = "varbvs"
    call = 'varbvs(x, NULL, y, family = "binomial", verbose = FALSE)'
    answer = "c(model$beta.cov[1], model$beta, model$pip)"

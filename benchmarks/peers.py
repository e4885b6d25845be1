"""Classifiers on the same footing: ours with its defaults, and what users pick instead, each as its documentation says.

What is not installed is left out.
"""

from __future__ import annotations

import importlib.metadata
import warnings
import zlib
from collections.abc import Callable
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_selection import VarianceThreshold
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dilutron
from benchmarks import in_r
from benchmarks.needs import INSTALL, Need, packages, packages_of_r
from dilutron.estimators import EPClassifier

OURS, REFERENCE = "EPClassifier", "L1-CV"
IN_R = "R "  # begins the name of a package of R
NEWER = Need(
    "scikit-learn 1.8 or later",
    lambda: "use_legacy_attributes" in signature(LogisticRegressionCV).parameters,
    INSTALL,
)


class SkglmCV(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """skglm's sparse logistic regression with its strength from cross-validation, which it does not bring itself.

    Strengths are from the one that chooses nothing down to `smallest` of it, as in glmnet.
    """

    def __init__(self, l1_ratio: float = 1.0, n_alphas: int = 10, smallest: float = 0.01, n_folds: int = 5) -> None:
        self.l1_ratio = l1_ratio
        self.n_alphas = n_alphas
        self.smallest = smallest
        self.n_folds = n_folds

    def fit(self, X: Any, y: Any) -> Self:
        from skglm import SparseLogisticRegression

        highest = np.abs(X.T @ (y - y.mean())).max() / len(y) / self.l1_ratio
        alphas = highest * np.geomspace(1.0, self.smallest, self.n_alphas + 1)[1:]
        one = SparseLogisticRegression(l1_ratio=self.l1_ratio)
        search = GridSearchCV(one, {"alpha": alphas}, scoring="neg_log_loss", cv=self.n_folds)
        self.best_ = search.fit(X, y).best_estimator_
        self.classes_, self.coef_ = self.best_.classes_, self.best_.coef_
        return self

    def decision_function(self, X: Any) -> Any:
        return self.best_.decision_function(X)

    def predict_proba(self, X: Any) -> Any:
        return self.best_.predict_proba(X)

    def predict(self, X: Any) -> Any:
        return self.best_.predict(X)


class Method(NamedTuple):
    """How to make a classifier, the package behind it, and how many repeats of a benchmark it gets at most."""

    make: Callable[[], Any]
    package: str
    repeats: int = 1000


def _scaled(last: Any) -> Any:
    """Raw columns in; what is learned of them is learned in the fold."""
    return make_pipeline(VarianceThreshold(), StandardScaler(), last)


def _logistic_cv(l1_ratio: float, solver: str, Cs: Any = 10, **more: Any) -> Any:
    return _scaled(
        LogisticRegressionCV(
            Cs=Cs,
            cv=5,
            l1_ratios=(l1_ratio,),
            solver=solver,
            scoring="neg_log_loss",
            use_legacy_attributes=False,
            random_state=0,
            **more,
        )
    )


def _abess() -> Any:
    from abess import LogisticRegression

    return _scaled(LogisticRegression())  # the number of features from its EBIC


# saga, the only solver of scikit-learn's elastic net, takes half a minute a fit on the largest set: strengths only
# where they matter, and fewer repeats. With its default of 100 iterations it is far from its optimum, with ten times as
# many nonzero weights; skglm's elastic net is the same model at the optimum.
NET = (0.03, 0.1, 0.3, 1.0, 3.0)
METHODS = {
    OURS: Method(EPClassifier, "dilutron"),
    REFERENCE: Method(lambda: _logistic_cv(1.0, "liblinear"), "scikit-learn"),
    "elastic net CV": Method(lambda: _logistic_cv(0.5, "saga", NET), "scikit-learn", repeats=2),
    "skglm L1-CV": Method(lambda: _scaled(SkglmCV()), "skglm"),
    "skglm elastic net CV": Method(lambda: _scaled(SkglmCV(l1_ratio=0.5)), "skglm"),
    "abess": Method(_abess, "abess"),
}
# Not sparse, so no rival in the choice of features, but a usual source of probabilities.
L2 = Method(lambda: _logistic_cv(0.0, "lbfgs"), "scikit-learn")


def installed(methods: dict[str, Method]) -> dict[str, Method]:
    """Those whose package is there."""
    return {name: method for name, method in methods.items() if _need_of(method.package).there()}


def needs_of(methods: dict[str, Method]) -> tuple[Need, ...]:
    """Their packages, each once."""
    return tuple(_need_of(package) for package in dict.fromkeys(method.package for method in methods.values()))


def _need_of(package: str) -> Need:
    """A distribution, or a package of R."""
    if package == "scikit-learn":
        return NEWER
    (need,) = packages_of_r(package.removeprefix(IN_R)) if package.startswith(IN_R) else packages(package)
    return need


def version(package: str) -> str:
    """Name and number of a distribution."""
    if package.startswith(IN_R):
        return f"{package} {in_r.version(package.removeprefix(IN_R))}"
    return f"{package} {importlib.metadata.version(package)}"


@cache
def code(method: Method) -> str:
    """What a result depends on besides the data: settings and version; of our own package, every line of it."""
    text = repr(method.make()) + version(method.package)
    if method.package == "dilutron":
        sources = sorted(Path(dilutron.__file__).parent.rglob("*.py"))
        text += "".join(path.read_text(encoding="utf-8") for path in sources)
    return f"{zlib.crc32(text.encode()):08x}"


@cache
def warm(name: str) -> None:
    """A small fit, once in each process, so that no time is that of a compiler (skglm: 20 s) or an import."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 30)), np.arange(40) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (METHODS | {"L2-CV": L2})[name].make().fit(X + y[:, None], y)


def chosen(model: Any) -> list[int]:
    """Columns of the raw table that a fitted classifier uses: ours by its default rule, others where not zero."""
    if isinstance(model, EPClassifier):
        return sorted(int(column) for column in model.selected())
    columns = np.flatnonzero(model[0].get_support())
    return [int(column) for column in columns[np.ravel(model[-1].coef_) != 0.0]]

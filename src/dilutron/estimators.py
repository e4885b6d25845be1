"""The scikit-learn face: validate, fit, and name the results as scikit-learn does. No formula lives here."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from dilutron.fitting import CRITERIA, Fit, Wish, fitted
from dilutron.loop import Status
from dilutron.selection import by_false_share, by_size, by_threshold, expected_size
from dilutron.special import Vector

ETA = 0.95  # where learning of the share of right labels begins


class Suspects(NamedTuple):
    """Labels to look at again, the most suspect first. They are for review: nothing was changed or dropped.

    Attributes
    ----------
    rows : array of ints
        Rows of the table that was fitted.
    probability : array
        That the label is wrong.
    given, suggested : arrays
        The label in the table, and the one that the model prefers.
    """

    rows: Any
    probability: Vector
    given: Any
    suggested: Any


class EPClassifier(SelectorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Sparse Bayesian linear classification by expectation propagation.

    Parameters
    ----------
    rho : float or "auto"
        Density: the share of features that matter, before seeing the data. "auto" tries expected sizes from half of all
        features down to one and weighs them by `criterion`.
    n_features_expected : float, optional
        The same as a number of features; instead of `rho`.
    criterion : {"loo", "evidence"}
        What weighs the expected sizes where rho is "auto": the labels' probabilities when each is left out in turn, or
        the log evidence of all.
    average : bool
        Average over the expected sizes by their weights, or take the best alone.
    prior_inclusion : array of shape (N,), optional
        Prior probability of each feature that it matters. Where rho is "auto" only their odds relative to one another
        count; where it is given, they are scaled to it.
    eta : float or "auto"
        Share of right labels; "auto" learns it.
    beta : float or "auto"
        How sharply the label follows the weighted sum: one over the variance of the noise in it, in units where a
        feature that matters moves the sum by about 1 per standard deviation. "auto" learns it.
    lam : float or "auto"
        Precision of the weights that are not zero, for standardized columns; "auto" learns it.
    fit_intercept, standardize : bool
    class_weight : dict or "balanced", optional
    fdr, n_features_to_select, threshold : number, optional
        At most one rule for `transform` and `get_support`: a list of which on average at most this share is wrong; that
        many; or all of at least this probability. By default as many as are expected to matter.
    tol : float
        Moments must match to this.
    max_iter : int
        Iterations at most for each expected size.
    warm_start : bool
        Begin at the last fit where it was of the same table.
    verbose : bool
        Print a line for every expected size.
    random_state : ignored
        There is nothing random in the fit.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    coef_ : array of shape (1, N) or (n_classes, N)
        Posterior means, for the columns as they came.
    intercept_ : array of shape (1,) or (n_classes,)
    coef_std_ : array like coef_
    coef_standardized_ : array like coef_
        For columns of unit standard deviation.
    inclusion_proba_ : array of shape (N,) or (n_classes, N)
        Probability that the feature matters.
    label_error_proba_ : array of shape (M,)
        Probability that the label is wrong.
    rho_, eta_, beta_, lam_, log_evidence_ : float, or array of shape (n_classes,)
        Averaged over the expected sizes.
    path_ : tuple of PathPoint, or one such tuple for each class
        Expected size, log evidence and status.
    n_iter_ : int
    status_ : str
        "converged", or the first other status; see `dilutron.Status`.
    """

    def __init__(
        self,
        rho: Any = "auto",
        *,
        n_features_expected: Any = None,
        criterion: str = "loo",
        average: bool = True,
        prior_inclusion: Any = None,
        eta: Any = "auto",
        beta: Any = "auto",
        lam: Any = 1.0,
        fit_intercept: bool = True,
        standardize: bool = True,
        class_weight: Any = None,
        fdr: Any = None,
        n_features_to_select: Any = None,
        threshold: Any = None,
        tol: float = 1e-3,
        max_iter: int = 200,
        warm_start: bool = False,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.rho = rho
        self.n_features_expected = n_features_expected
        self.criterion = criterion
        self.average = average
        self.prior_inclusion = prior_inclusion
        self.eta = eta
        self.beta = beta
        self.lam = lam
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.class_weight = class_weight
        self.fdr = fdr
        self.n_features_to_select = n_features_to_select
        self.threshold = threshold
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from labelled rows.

        Parameters
        ----------
        X : table of shape (M, N)
            numpy, pandas, polars or scipy sparse, which is made dense.
        y : array of shape (M,)
            Labels of two or more classes; with three or more, one classifier for each against the rest.
        sample_weight : array of shape (M,), optional
            How often each row counts: 2 is the same as a second, equal row, and 0 as none.
        """
        X, y = validate_data(self, X, y, accept_sparse=("csr", "csc"), dtype=np.float64)
        X = X.toarray() if hasattr(X, "toarray") else X
        check_classification_targets(y)
        copies = self._copies(X, y, sample_weight)
        kept = copies > 0.0
        self.classes_, codes = np.unique(y[kept], return_inverse=True)
        if self.classes_.size < 2:
            raise ValueError(f"y holds one class only, {self.classes_.tolist()}: at least two are needed.")
        wish, names = self._wish(), getattr(self, "feature_names_in_", None)
        before = getattr(self, "fits_", ()) if self.warm_start else ()
        self.fits_ = tuple(
            fitted(X[kept], np.where(codes == code, 1.0, -1.0), copies[kept], wish, names, start, self._tell)
            for code, start in zip(self._against(), self._starts(before), strict=True)
        )
        self._name_results()
        self._review(X, y, kept)
        return self

    def predict_proba(self, X: Any) -> Vector:
        """Probability of each class, averaged over the posterior; of the label as a fallible hand would give it."""
        one = self._probabilities(X)
        return np.column_stack([1.0 - one[:, 0], one[:, 0]]) if len(self.fits_) == 1 else one / one.sum(axis=1)[:, None]

    def decision_function(self, X: Any) -> Vector:
        """Log odds of the second class, or of each class against the rest."""
        one = np.clip(self._probabilities(X), np.finfo(np.float64).tiny, 1.0 - np.finfo(np.float64).epsneg)
        odds = np.log(one) - np.log1p(-one)
        return odds[:, 0] if len(self.fits_) == 1 else odds

    def predict(self, X: Any) -> Any:
        """The most probable class."""
        likely = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[likely]

    def coef_interval(self, level: float = 0.9) -> tuple[Vector, Vector]:
        """Lower and upper ends, like coef_: where a coefficient lies with this probability, if its feature matters."""
        check_is_fitted(self)
        _share("level", level)
        low, high = zip(*(fit.interval(float(level)) for fit in self.fits_), strict=True)
        return np.array(low), np.array(high)

    def selected(self, *, fdr: Any = None, n_features_to_select: Any = None, threshold: Any = None) -> Any:
        """Columns that a rule selects, the most probable first; with no rule, as many as are expected to matter."""
        check_is_fitted(self)
        rules = {"fdr": fdr, "n_features_to_select": n_features_to_select, "threshold": threshold}
        given = {name: value for name, value in rules.items() if value is not None}
        if len(given) > 1:
            raise ValueError(f"give one rule of {', '.join(rules)}, got {' and '.join(given)}")
        probability = self._any_class()
        if fdr is not None:
            return by_false_share(probability, _share("fdr", fdr))
        if threshold is not None:
            return by_threshold(probability, _share("threshold", threshold))
        if n_features_to_select is not None and not _is_count(n_features_to_select):
            raise ValueError(f"n_features_to_select must be a whole number, at least 1, got {n_features_to_select!r}")
        return by_size(probability, n_features_to_select)

    def suspect_labels(self, fdr: float = 0.1) -> Suspects:
        """Labels of the fitted table to look at again: on average at most a share `fdr` of the list is right after all.

        They are for review. Never drop rows of a test set because a model doubts their labels.
        """
        check_is_fitted(self)
        rows = by_false_share(self.label_error_proba_, _share("fdr", fdr))
        return Suspects(rows, self.label_error_proba_[rows], self._given[rows], self._preferred[rows])

    def _get_support_mask(self) -> Any:
        columns = self.selected(fdr=self.fdr, n_features_to_select=self.n_features_to_select, threshold=self.threshold)
        if columns.size == 0:
            probability = self._any_class()
            warnings.warn(
                f"No feature passes fdr={self.fdr}, threshold={self.threshold}: the largest inclusion probability is"
                f" {probability.max():.3g}. {expected_size(probability)} are expected to matter, which is what no rule"
                f" at all selects; n_features_to_select=10 takes the ten most probable.",
                UserWarning,
                stacklevel=3,
            )
        mask = np.zeros(self.n_features_in_, dtype=bool)
        mask[columns] = True
        return mask

    def _any_class(self) -> Vector:
        """Inclusion probability of each feature, of the class where it is largest."""
        return np.asarray(
            self.inclusion_proba_ if self.inclusion_proba_.ndim == 1 else self.inclusion_proba_.max(axis=0)
        )

    def _probabilities(self, X: Any) -> Vector:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse=("csr", "csc"), dtype=np.float64, reset=False)
        X = X.toarray() if hasattr(X, "toarray") else X
        return np.column_stack([fit.probability(X) for fit in self.fits_])

    def _copies(self, X: Any, y: Any, sample_weight: Any) -> Vector:
        """How often each row counts."""
        copies = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
        return copies if self.class_weight is None else copies * compute_sample_weight(self.class_weight, y)

    def _against(self) -> Any:
        """The classes that are told from the rest: the second of two, or each."""
        return [1] if self.classes_.size == 2 else list(range(self.classes_.size))

    def _starts(self, before: tuple[Fit, ...]) -> Any:
        return before if len(before) == len(self._against()) else [None] * len(self._against())

    def _wish(self) -> Wish:
        n_features, auto = self.n_features_in_, []
        values = {"eta": ETA, "beta": 1.0, "lam": 1.0}
        for name in values:
            if isinstance(getattr(self, name), str) and getattr(self, name) == "auto":
                auto.append(name)
            else:
                values[name] = getattr(self, name)
        if self.criterion not in CRITERIA:
            raise ValueError(f"criterion must be one of {tuple(CRITERIA)}, got {self.criterion!r}")
        density, odds = self._density(n_features)
        return Wish(
            "ep",
            density,
            odds,
            criterion=self.criterion,
            average=self.average,
            learn=tuple(auto),
            intercept=self.fit_intercept,
            standardize=self.standardize,
            tol=self.tol,
            max_iter=self.max_iter,
            **values,
        )

    def _density(self, n_features: int) -> tuple[Any, Any]:
        """The density and, for one that is to be found, the features' relative odds."""
        rho = None if isinstance(self.rho, str) and self.rho == "auto" else self.rho
        if self.n_features_expected is not None:
            if rho is not None:
                raise ValueError("give rho or n_features_expected, not both")
            if not (_is_number(self.n_features_expected) and 0 < self.n_features_expected < n_features):
                raise ValueError(
                    f"n_features_expected must be above 0 and below the number of features, {n_features},"
                    f" got {self.n_features_expected!r}"
                )
            rho = self.n_features_expected / n_features
        if rho is not None:
            _share("rho", rho)
        if self.prior_inclusion is None:
            return rho, None
        prior = np.asarray(self.prior_inclusion, dtype=np.float64)
        if prior.shape != (n_features,) or not np.all((prior > 0.0) & (prior < 1.0)):
            raise ValueError(
                f"prior_inclusion must hold {n_features} probabilities above 0 and below 1, one for each feature"
            )
        odds = prior / (1.0 - prior)
        relative = odds / np.exp(np.mean(np.log(odds)))
        return (None, relative) if rho is None else (_scaled_to(rho, relative), None)

    def _tell(self, words: str) -> None:
        if self.verbose:
            print(words, flush=True)

    def _name_results(self) -> None:
        fits = self.fits_
        self.coef_ = np.array([fit.mean for fit in fits])
        self.coef_std_ = np.array([fit.std for fit in fits])
        self.coef_standardized_ = np.array([fit.average(lambda p: p.mean) for fit in fits])
        self.intercept_ = np.array([fit.intercept for fit in fits])
        self.inclusion_proba_ = _alone(np.array([fit.inclusion for fit in fits]))
        self.rho_ = _alone(np.array([fit.average(lambda p: np.mean(p.weights.rho)) for fit in fits]))
        self.lam_ = _alone(np.array([fit.average(lambda p: np.mean(p.weights.lam)) for fit in fits]))
        self.eta_ = _alone(np.array([fit.average(lambda p: p.labels.eta) for fit in fits]))
        self.beta_ = _alone(np.array([fit.average(lambda p: p.labels.beta) for fit in fits]))
        self.log_evidence_ = _alone(np.array([fit.average(lambda p: p.log_evidence) for fit in fits]))
        self.path_ = fits[0].path if len(fits) == 1 else tuple(fit.path for fit in fits)
        posteriors = [posterior for fit in fits for _, posterior in fit.shares]
        self.n_iter_ = sum(posterior.n_iter for posterior in posteriors)
        ended = next((p.status for p in posteriors if p.status is not Status.CONVERGED), Status.CONVERGED)
        self.status_ = ended.value
        if ended is not Status.CONVERGED:
            warnings.warn(
                f"{ended.message} Raise max_iter={self.max_iter}, lower beta={self.beta}, or expect more features.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _review(self, X: Vector, y: Any, kept: Any) -> None:
        """Probabilities of wrong labels; of rows that did not count, by prediction."""
        proba, codes = self.predict_proba(X), np.searchsorted(self.classes_, y)
        known = np.isin(y, self.classes_)
        codes = np.where(known, np.minimum(codes, self.classes_.size - 1), 0)
        self.label_error_proba_ = np.where(known, 1.0 - proba[np.arange(len(y)), codes], 1.0)
        flips = np.array([fit.flip for fit in self.fits_])
        own = flips[0] if len(self.fits_) == 1 else flips[codes[kept], np.arange(int(kept.sum()))]
        self.label_error_proba_[kept] = own
        proba[np.arange(len(y)), codes] = -1.0
        self._given, self._preferred = np.asarray(y), self.classes_[np.argmax(proba, axis=1)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _alone(values: Vector) -> Any:
    """The first entry where there is one classifier only."""
    if len(values) > 1:
        return values
    return float(values[0]) if values.ndim == 1 else values[0]


def _scaled_to(rho: float, relative: Vector) -> Vector:
    """Densities with these relative odds and about this mean."""
    odds = rho / (1.0 - rho) * relative
    return np.asarray(odds / (1.0 + odds))


def _share(name: str, value: Any) -> float:
    if not (_is_number(value) and 0.0 < value < 1.0):
        raise ValueError(f"{name} must be a number above 0 and below 1, got {value!r}")
    return float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1

"""What all classifiers share: validate, fit, name the results as scikit-learn does. No formula lives here."""

from __future__ import annotations

import os
import warnings
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from dilutron import keeping
from dilutron.averages import Fit, Share, settled
from dilutron.fitting import fitted, sharpened
from dilutron.loop import Status
from dilutron.options import one_of, share, truth, whole
from dilutron.path import CHOICES
from dilutron.posterior import Posterior
from dilutron.progress import CallbackSupportMixin, Watched, begun, with_callbacks
from dilutron.selection import (
    RULES,
    Suspects,
    by_false_share,
    by_rule,
    by_size,
    effective_size,
    label_errors,
    no_suspect,
    one_rule,
    other_rules,
    runners_up,
)
from dilutron.special import Vector
from dilutron.wishes import Table, Wish, log_odds, wish_of

REVIEWED = ("_given", "_preferred")
MOST = 1e100  # times that a row may count: beyond, sums of counts have no square


class SparseClassifier(CallbackSupportMixin, SelectorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What the estimators share; use one of them.

    Each names its method, and `_fixed` gives the values of those parameters of `EPClassifier` that it does not have.
    """

    _method: ClassVar[str]
    _fixed: ClassVar[dict[str, Any]] = {}
    _scores_labels: ClassVar[bool] = False  # label errors are scores, and no probabilities

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from labelled rows.

        Parameters
        ----------
        X : table of shape (M, N)
            numpy, pandas, polars or scipy sparse, which is made dense.
        y : array of shape (M,)
            Labels of two or more classes; with three or more, one classifier for each against the rest.
        """
        return self._fit(X, y, None)

    def predict_proba(self, X: Any) -> Vector:
        """Probability of each class, averaged over the posterior; of the label as a fallible hand would give it."""
        return self._of_classes(self._probabilities(X))

    def decision_function(self, X: Any) -> Vector:
        """Log odds of the second class, or of each class against the rest."""
        odds = log_odds(self._probabilities(X))
        return odds[:, 0] if len(self.fits_) == 1 else odds

    def predict(self, X: Any) -> Any:
        """The most probable class."""
        likely = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[likely]

    def coef_interval(self, level: float = 0.9, *, standardized: bool = False) -> tuple[Vector, Vector]:
        """Lower and upper ends, like `coef_`: where a coefficient lies with this probability, if it is not zero.

        `coef_` is the mean over both cases, zero or not, and so may lie nearer to zero than the interval. With
        `standardized` the ends are for columns of unit standard deviation, like `coef_standardized_`.
        """
        check_is_fitted(self)
        share(level=level)
        truth(standardized=standardized)
        low, high = zip(*(fit.interval(float(level)) for fit in self.fits_), strict=True)
        scale = np.array([fit.best.scale if standardized else np.ones_like(fit.best.scale) for fit in self.fits_])
        return np.array(low) * scale, np.array(high) * scale

    def selected(self, *, fdr: Any = None, n_features_to_select: Any = None, threshold: Any = None) -> Any:
        """Columns that a rule selects, the most probable first; with no rule, `n_features_likely_`.

        Parameters
        ----------
        fdr : float, optional
            The longest list of which on average at most this share is wrong.
        n_features_to_select : int, optional
            So many.
        threshold : float, optional
            All whose inclusion probability is at least this.
        """
        check_is_fitted(self)
        given = one_rule(fdr=fdr, n_features_to_select=n_features_to_select, threshold=threshold)
        if self.inclusion_proba_ is None:
            return self._heaviest(given)
        probability = self._any_class(self.inclusion_proba_)
        columns = by_rule(probability, given, self.n_features_likely_)
        if columns.size == 0:
            ((name, value),) = given.items()
            others = other_rules(probability, self.n_features_likely_)
            warnings.warn(f"No feature passes {name}={value}. {others}", UserWarning, stacklevel=2)
        return columns

    def suspect_labels(self, fdr: float | None = None, *, n_labels: int | None = None) -> Suspects:
        """Labels of the fitted table to look at again, the most suspect first.

        They are for review. Never drop rows of a test set because a model doubts their labels.

        Parameters
        ----------
        fdr : float, optional
            The longest list of which on average at most this share is right after all; 0.1 where no rule is given.
        n_labels : int, optional
            So many; instead of `fdr`.
        """
        check_is_fitted(self)
        if fdr is not None and n_labels is not None:
            raise ValueError("give one rule of fdr, n_labels, got both")
        errors = self.label_error_proba_
        if n_labels is not None:
            whole(n_labels=n_labels)
            rows = by_size(errors, n_labels)
        elif self._scores_labels:
            raise ValueError(
                f"{type(self).__name__} gives scores of label errors, no probabilities, which fdr needs: use n_labels,"
                " which takes the largest scores, or EPClassifier."
            )
        else:
            fdr = 0.1 if fdr is None else fdr
            share(fdr=fdr)
            rows = by_false_share(errors, float(fdr))
            if rows.size == 0:
                warnings.warn(no_suspect(errors, float(fdr)), UserWarning, stacklevel=2)
        return Suspects(rows, errors[rows], self._given[rows], self._preferred[rows])

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Keep the fitted estimator in a folder of plain JSON and arrays, without pickle, whole or not at all.

        An earlier estimator in that folder is replaced. Labels must be strings, numbers or true and false.
        """
        check_is_fitted(self)
        facts = {
            "kind": type(self).__name__,
            "parameters": self.get_params(deep=False),
            "classes": self.classes_,
            "n_features": self.n_features_in_,
            "names": getattr(self, "feature_names_in_", None),
            "given": self._given,
            "preferred": self._preferred,
            "label_errors": self.label_error_proba_,
        }
        return keeping.write(path, facts, self.fits_)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The estimator that `save` kept: it predicts as before. Damaged, edited or newer files are a ValueError."""
        facts, fits = keeping.read(path)
        if facts.get("kind") != cls.__name__:
            raise ValueError(f"{path} holds a {facts.get('kind')}: load it with {facts.get('kind')}.load.")
        try:
            new = cls(**facts["parameters"])
            new.classes_, new.n_features_in_ = facts["classes"], int(facts["n_features"])
            if facts["names"] is not None:
                new.feature_names_in_ = facts["names"]
            new.fits_, new.label_error_proba_ = fits, facts["label_errors"]
            new._given, new._preferred = facts["given"], facts["preferred"]
            keeping.check(facts, fits)
            new._name_results()
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"{path} is damaged: {type(error).__name__} {error}") from error
        return new

    def fit_anndata(self, adata: Any, label: str, *, layer: str | None = None, key: str = "dilutron") -> Self:
        """Fit an AnnData and write what was found into it.

        Parameters
        ----------
        adata : AnnData
            Gets in `.var` the columns `{key}_inclusion`, where the method knows of inclusion, and `{key}_coef`, with
            three or more classes one for each, `{key}_inclusion_{class}`; and in `.obs` `{key}_label_error`.
        label : str
            Column of `.obs` with the classes. Rows without a class are left out, and get NaN.
        layer : str, optional
            Instead of `.X`.
        key : str
            Begins the names of the columns.
        """
        if label not in adata.obs:
            raise ValueError(f"label must be a column of obs, one of {list(adata.obs)}, got {label!r}")
        known = adata.obs[label].notna().to_numpy()
        self.fit(adata.to_df(layer).loc[known], adata.obs[label].to_numpy()[known].tolist())
        for part, values in (("inclusion", self.inclusion_proba_), ("coef", self.coef_)):
            for k, row in enumerate([] if values is None else np.atleast_2d(values)):
                end = "" if len(self.fits_) == 1 else f"_{self.classes_[k]}"
                adata.var[f"{key}_{part}{end}"] = row
        errors = np.full(len(known), np.nan)
        errors[known] = self.label_error_proba_
        adata.obs[f"{key}_label_error"] = errors
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        self._learn(X, y, sample_weight)
        if not settled(self.fits_, self.tol):
            advice = ", or expect more features" if "rho" in self.get_params(deep=False) else ""
            warnings.warn(
                f"{Status(self.status_).message} Raise max_iter={self.max_iter}{advice}.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    @with_callbacks  # type: ignore[untyped-decorator]
    def _learn(self, X: Any, y: Any, sample_weight: Any) -> None:
        given = {"X": X, "y": y, "metadata": None if sample_weight is None else {"sample_weight": sample_weight}}
        X, y, copies = self._checked(X, y, sample_weight, reset=True)
        heard = copies > 0.0
        self.classes_, codes = np.unique(y[heard], return_inverse=True)
        if self.classes_.size < 2:
            raise ValueError(f"y holds one class only, {self.classes_.tolist()}: at least two are needed.")
        # Of other labels an earlier fit would keep what it believes of them, such as their share of right ones.
        again = getattr(self, "warm_start", False) and np.array_equal(getattr(self, "_given", ()), y)
        before = getattr(self, "fits_", ()) if again else ()
        rows = X if np.all(heard) else X[heard]  # which would be a copy
        tables, wish = self._tables(rows, codes, copies[heard]), self._wish()
        starts = before if len(before) == len(tables) else (None,) * len(tables)
        two = len(tables) == 1
        whole_fit, fits = begun(self, None if two else len(tables), **given), []
        watch = Watched(whole_fit, partial(self._as_if, wish, X, y, heard), self._tell)
        for table, start in zip(tables, starts, strict=True):
            each = watch if two else watch.part("class-against-rest")
            fits.append(fitted(table, wish, start, each))
            if not two:
                each.ended()
        self._told(tuple(fits), X, y, heard)
        whole_fit.ended(dict)

    def _told(self, fits: tuple[Fit, ...], X: Vector, y: Any, heard: Any) -> None:
        """The results of these fits."""
        self.fits_ = fits
        self._name_results()
        self._review(X, y, heard)

    def _checked(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> tuple[Vector, Any, Vector]:
        """A dense table, labels, and how often each row counts."""
        X, y = validate_data(self, X, y, accept_sparse=("csr", "csc"), dtype=np.float64, reset=reset)
        check_classification_targets(y)
        X = X.toarray() if hasattr(X, "toarray") else X
        copies = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
        balance = getattr(self, "class_weight", None)
        copies = copies if balance is None else copies * compute_sample_weight(balance, y)
        if copies.size and copies.max() > MOST:
            raise ValueError(
                f"a row counts {copies.max():.3g} times, by sample_weight and class_weight: at most {MOST:g}."
            )
        return X, y, copies

    def _tables(self, X: Vector, codes: Any, copies: Vector) -> list[Table]:
        """The second class against the first, or each against the rest."""
        which = [1] if self.classes_.size == 2 else range(self.classes_.size)
        names = getattr(self, "feature_names_in_", None)
        return [Table(X, np.where(codes == code, 1.0, -1.0), copies, names) for code in which]

    def _rules(self) -> dict[str, Any]:
        return {rule: getattr(self, rule, None) for rule in RULES}

    def _wish(self) -> Wish:
        one_rule(**self._rules())  # before a fit that may take long
        given = self._fixed | self.get_params(deep=False)
        one_of(CHOICES, criterion=given["criterion"])
        return wish_of(self._method, given, self.n_features_in_)

    def _as_if(self, wish: Wish, X: Vector, y: Any, heard: Any, posterior: Posterior) -> dict[str, Any] | None:
        """The results were this posterior all, for callbacks; of two classes. None where rows told it nothing."""
        if posterior.flip is None or posterior.flip.size < np.sum(heard):
            return None
        other = copy(self)
        other._told((sharpened(Fit((Share(1.0, posterior),)), wish),), X, y, heard)
        return {name: value for name, value in vars(other).items() if name.endswith("_") or name in REVIEWED}

    def _tell(self, words: str) -> None:
        if self.verbose:
            print(words, flush=True)

    def _posteriors(self) -> list[Any]:
        return [posterior for fit in self.fits_ for _, posterior in fit.shares]

    def _name_results(self) -> None:
        fits = self.fits_
        self.coef_ = np.array([fit.mean for fit in fits])
        self.coef_std_ = np.array([fit.std for fit in fits])
        self.coef_standardized_ = np.array([fit.average(lambda p: p.mean) for fit in fits])
        self.intercept_ = np.array([fit.intercept for fit in fits])
        self.inclusion_proba_ = _alone([fit.inclusion for fit in fits])
        self.n_features_likely_ = self._likely([fit.size for fit in fits])
        self.log_evidence_ = _alone([fit.log_evidence for fit in fits])
        own = "rho" in self.get_params(deep=False)  # else the method has priors of its own
        self.rho_ = _alone([fit.average(lambda p: np.mean(p.weights.rho)) if own else None for fit in fits])
        self.lam_ = _alone([fit.average(lambda p: np.mean(p.weights.lam)) if own else None for fit in fits])
        self.eta_ = _alone([fit.average(lambda p: p.labels.eta) if own else None for fit in fits])
        self.beta_ = _alone([np.exp(fit.average(lambda p: np.log(p.labels.beta))) if own else None for fit in fits])
        self.sharpness_ = _alone([fit.sharpness for fit in fits])
        self.path_ = fits[0].path if len(fits) == 1 else tuple(fit.path for fit in fits)
        self.n_iter_ = sum(posterior.n_iter for posterior in self._posteriors())
        ended = [p.status for p in self._posteriors() if p.status is not Status.CONVERGED]
        self.status_ = (ended or [Status.CONVERGED])[0].value

    def _review(self, X: Vector, y: Any, heard: Any) -> None:
        """Probabilities of wrong labels, and what the model would rather have."""
        told = len(self.fits_) == 1 and np.all(heard)  # of two classes, by the fit: nothing is to be predicted
        proba = np.full((len(X), 2), 0.5) if told else self._of_classes(self._of_each(X))
        codes = self._codes(y)
        flips = np.array([fit.flip for fit in self.fits_])
        self.label_error_proba_ = label_errors(proba, codes, flips, heard)
        self._given, self._preferred = np.asarray(y), self.classes_[runners_up(proba, codes)]

    def _codes(self, y: Any) -> Any:
        """The class of each label, -1 for one that was never seen."""
        codes = np.minimum(np.searchsorted(self.classes_, y), self.classes_.size - 1)
        return np.where(self.classes_[codes] == y, codes, -1)

    def _get_support_mask(self) -> Any:
        check_is_fitted(self)
        columns = self.selected(**self._rules())
        mask = np.zeros(self.n_features_in_, dtype=bool)
        mask[columns] = True
        return mask

    def _heaviest(self, given: dict[str, Any]) -> Any:
        wrong = given.keys() & {"fdr", "threshold"}
        if wrong:
            raise ValueError(
                f"{type(self).__name__} gives no inclusion probabilities, which {wrong.pop()} needs: use"
                " n_features_to_select, which takes the largest standardized weights, or EPClassifier."
            )
        weights = self._any_class(np.abs(self.coef_standardized_))
        return by_size(weights, given.get("n_features_to_select", self.n_features_likely_))

    def _likely(self, sizes: list[float | None]) -> int:
        """How many features matter, to all classes together; where there are no probabilities, carry the weights."""
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            return effective_size(self._any_class(np.abs(self.coef_standardized_)))
        each = np.atleast_2d(self.inclusion_proba_)
        distinct = each.max(axis=0).sum() / each.sum()  # classes may share their features
        return int(np.clip(round(sum(known) * distinct), 1, self.n_features_in_))

    def _any_class(self, values: Vector) -> Vector:
        """Of each feature, the value of the class where it is largest."""
        return np.asarray(values if values.ndim == 1 else values.max(axis=0))

    def _probabilities(self, X: Any) -> Vector:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse=("csr", "csc"), dtype=np.float64, reset=False)
        return self._of_each(X.toarray() if hasattr(X, "toarray") else X)

    def _of_each(self, X: Vector) -> Vector:
        return np.column_stack([fit.probability(X) for fit in self.fits_])

    def _of_classes(self, one: Vector) -> Vector:
        return np.column_stack([1.0 - one[:, 0], one[:, 0]]) if len(self.fits_) == 1 else one / one.sum(axis=1)[:, None]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _alone(values: list[Any]) -> Any:
    """The one entry where there is one classifier only; None where there is nothing."""
    if any(value is None for value in values):
        return None
    if len(values) > 1:
        return np.array(values)
    return float(values[0]) if np.ndim(values[0]) == 0 else values[0]

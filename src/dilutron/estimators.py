"""The scikit-learn face: one classifier for each method, with its parameters."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dilutron.classifier import SparseClassifier
from dilutron.groups import FeatureGroup, clusters, joint_inclusion, joint_prior
from dilutron.options import share, whole

LOGISTIC = 0.346  # beta of the probit nearest to the logistic function, which is R1BCS's link


class EPClassifier(SparseClassifier):
    """Sparse Bayesian linear classification by expectation propagation.

    Parameters
    ----------
    rho : float or "auto"
        Density: the share of features that matter, before seeing the data. "auto" tries expected sizes from half of all
        features down to one, or as far as is thinkable for so many rows, and weighs them by `criterion`.
    n_features_expected : float, optional
        The same as a number of features; instead of `rho`.
    criterion : {"loo", "evidence", "cv"}
        What weighs the expected sizes where rho is "auto": the probability of each label left out in turn ("loo", from
        EP's cavities, at no cost); the evidence of all labels; or the probability of labels held out in `n_folds`
        folds, for which the path is followed once more for every fold. Labels left or held out count a fifth each: few
        of them decide between two sizes, and by chance.
    average : bool
        Average over the expected sizes by their weights, or take the best alone.
    n_folds : int
        Folds of criterion "cv".
    prior_inclusion : array of shape (N,), optional
        Prior probability of each feature that it matters. Where rho is "auto" only their odds relative to one another
        count; where it is given, they are scaled to it.
    eta : float or "auto"
        Share of right labels; "auto" learns it.
    beta : float or "auto"
        How sharply the label follows the weighted sum: one over the variance of the noise in it, in units where a
        feature that matters moves the sum by about 1 per standard deviation. "auto" makes the variance of the sum,
        before the data, ten times that of the noise, whatever the expected size; and harder where that raises the log
        evidence by three, which a few dozen rows seldom do.
    lam : float or "auto"
        Precision of the weights that are not zero, for standardized columns; "auto" learns it.
    fit_intercept, standardize : bool
    class_weight : dict or "balanced", optional
        How often the rows of each class count.
    fdr, n_features_to_select, threshold : number, optional
        At most one rule for `transform` and `get_support`, as in `selected`; by default the
        `n_features_likely_` most probable.
    tol : float
        Moments must match to this.
    max_iter : int
        Iterations at most for each expected size; where sizes are tried on a table with more features than rows never
        more than 200, and on larger ones, where they are dear, fewer, down to 25, or 60 where rows are more. What is
        kept of the path and has not settled by then goes on, with so many once more.
    warm_start : bool
        Begin at the last fit where it had the same labels and as many features.
    verbose : bool
        Print a line for every expected size. From version 1.9 on scikit-learn's own callbacks, such as a progress bar,
        are set with `set_callbacks`.
    random_state : int, RandomState or None
        Shuffles the rows into the folds of "cv"; nothing else is random.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    coef_ : array of shape (1, N) or (n_classes, N)
        Posterior means, for the columns as they came.
    intercept_ : array of shape (1,) or (n_classes,)
    coef_std_ : array like `coef_`
    coef_standardized_ : array like `coef_`
        For columns of unit standard deviation.
    inclusion_proba_ : array of shape (N,) or (n_classes, N)
        Probability that the feature matters.
    n_features_likely_ : int
        How many features matter, typically: the geometric mean over the expected sizes by their weights.
    label_error_proba_ : array of shape (M,)
        Probability that the label is wrong.
    rho_, eta_, beta_, lam_, log_evidence_ : float, or array of shape (n_classes,)
        Averaged over the expected sizes.
    sharpness_ : float, or array of shape (n_classes,)
        Factor of the fields in `predict_proba` and in `label_error_proba_`, where beta is "auto": from labels that were
        left out. With few labels and many weak features both would else be shy. Under one posterior the order of the
        rows does not depend on it.
    path_ : tuple of Tried, or one such tuple for each class
        Expected size, score, weight, log evidence and status of all that were tried.
    n_iter_ : int
    status_ : str
        "converged", or the first other status; see `dilutron.Status`. It is "max_iter" also where the moments match and
        only a learned value has not settled, which is no reason for a warning.
    """

    _method = "ep"

    def __init__(
        self,
        rho: Any = "auto",
        *,
        n_features_expected: Any = None,
        criterion: str = "loo",
        average: bool = True,
        n_folds: int = 5,
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
        self.n_folds = n_folds
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
        return self._fit(X, y, sample_weight)

    def feature_groups(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        correlation: float = 0.7,
        n_groups: int = 20,
        min_size: int = 1,
    ) -> tuple[FeatureGroup, ...]:
        """Groups of correlated features, each with the probability that at least one member matters.

        A group forms around the most probable feature that is in none yet. Its probability is larger than that of its
        members where the data cannot tell which of them it is. With three or more classes it is that of the class where
        it is largest.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`: EP is solved again without the group's columns.
        correlation : float
            Absolute correlation with the group's first member from which a feature belongs to it.
        n_groups : int
            At most so many, from the most probable feature on.
        min_size : int
            Groups of fewer members are left out, and cost nothing.

        Returns
        -------
        tuple of FeatureGroup
            The most probable first.
        """
        check_is_fitted(self)
        share(correlation=correlation)
        whole(n_groups=n_groups, min_size=min_size)
        X, y, copies = self._checked(X, y, sample_weight, reset=False)
        heard, codes, wish = copies > 0.0, self._codes(y), self._wish()
        if np.any(codes[heard] < 0):
            raise ValueError(f"y holds labels that were not in the fit, whose classes are {self.classes_.tolist()}")
        tables = self._tables(X[heard], codes[heard], copies[heard])
        found = clusters(X[heard], copies[heard], self._any_class(self.inclusion_proba_), correlation, n_groups)
        found = [cluster for cluster in found if cluster.members.size >= min_size]
        if not found:
            return ()
        each = [joint_inclusion(table, wish, fit, found) for table, fit in zip(tables, self.fits_, strict=True)]
        before = self._any_class(np.array([joint_prior(fit, found) for fit in self.fits_]))
        names, inclusion = self._posteriors()[0].names, self._any_class(np.array(each))
        groups = [
            FeatureGroup(members, tuple(names[i] for i in members), float(p), smallest, float(prior))
            for (members, smallest), p, prior in zip(found, inclusion, before, strict=True)
        ]
        return tuple(sorted(groups, key=lambda group: -group.inclusion))


class VAMPClassifier(SparseClassifier):
    """The same by vector approximate message passing: one variance for all weights, which makes a step cheap.

    For i.i.d.-like columns. On wide tables it takes about half the CPU of `EPClassifier`, and somewhat more memory; on
    tall ones it takes many steps. Less accurate where columns are correlated. It has no intercept of its own:
    `standardize` centres the columns instead, so that the boundary passes through their means; where classes are very
    unequal in number prefer `EPClassifier`. Rows cannot count more than once.

    Parameters
    ----------
    rho, n_features_expected, criterion, average, n_folds, prior_inclusion, eta, beta, lam, standardize, fdr, \
n_features_to_select, threshold, tol, max_iter, warm_start, verbose, random_state
        As in `EPClassifier`, with the same attributes.
    """

    _method = "vamp"
    _fixed: ClassVar[dict[str, Any]] = {"fit_intercept": False}

    def __init__(
        self,
        rho: Any = "auto",
        *,
        n_features_expected: Any = None,
        criterion: str = "loo",
        average: bool = True,
        n_folds: int = 5,
        prior_inclusion: Any = None,
        eta: Any = "auto",
        beta: Any = 1.0,
        lam: Any = 1.0,
        standardize: bool = True,
        fdr: Any = None,
        n_features_to_select: Any = None,
        threshold: Any = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        warm_start: bool = False,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.rho = rho
        self.n_features_expected = n_features_expected
        self.criterion = criterion
        self.average = average
        self.n_folds = n_folds
        self.prior_inclusion = prior_inclusion
        self.eta = eta
        self.beta = beta
        self.lam = lam
        self.standardize = standardize
        self.fdr = fdr
        self.n_features_to_select = n_features_to_select
        self.threshold = threshold
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state


class AMPClassifier(SparseClassifier):
    """The same by 1-bit approximate message passing, the cheapest step of all.

    Right for i.i.d. columns; on correlated ones it needs `damping`, and may not converge even so. It has neither
    intercept nor evidence: `standardize` centres the columns, as in `VAMPClassifier`, and "auto" of rho is found by
    cross-validation. Rows cannot count more than once.

    Parameters
    ----------
    rho, n_features_expected, average, n_folds, prior_inclusion, eta, beta, lam, standardize, fdr, \
n_features_to_select, threshold, tol, max_iter, verbose, random_state
        As in `EPClassifier`, with the same attributes; `log_evidence_` is None.
    damping : float
        Weight of the old message.
    """

    _method = "amp"
    _fixed: ClassVar[dict[str, Any]] = {"fit_intercept": False, "criterion": "cv"}

    def __init__(
        self,
        rho: Any = "auto",
        *,
        n_features_expected: Any = None,
        average: bool = True,
        n_folds: int = 5,
        prior_inclusion: Any = None,
        eta: Any = 0.95,
        beta: Any = 1.0,
        lam: Any = 1.0,
        standardize: bool = True,
        fdr: Any = None,
        n_features_to_select: Any = None,
        threshold: Any = None,
        damping: float = 0.7,
        tol: float = 1e-3,
        max_iter: int = 1000,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.rho = rho
        self.n_features_expected = n_features_expected
        self.average = average
        self.n_folds = n_folds
        self.prior_inclusion = prior_inclusion
        self.eta = eta
        self.beta = beta
        self.lam = lam
        self.standardize = standardize
        self.fdr = fdr
        self.n_features_to_select = n_features_to_select
        self.threshold = threshold
        self.damping = damping
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose
        self.random_state = random_state


class R1BCSClassifier(SparseClassifier):
    """Robust one-bit Bayesian compressed sensing: variational EM, with a precision for every weight and every label.

    It learns its own sparsity, and has no inclusion probabilities: `inclusion_proba_` is None, features are ranked by
    their standardized weights, and no rule selects as many as carry most of the weight. `label_error_proba_` is a score
    that ranks labels as their estimated noise does, and no probability: `suspect_labels` takes `n_labels` only. It has
    no intercept: `standardize` centres the columns, as in `VAMPClassifier`. Rows cannot count more than once.

    Parameters
    ----------
    standardize : bool
    n_features_to_select : int, optional
        For `transform` and `get_support`.
    tol : float
        Converged when a step moves the weights, for columns of unit norm, by less than this.
    max_iter : int
        Pruning is slow: some thousand are usual.
    verbose : bool

    Attributes
    ----------
    classes_, coef_, intercept_, coef_std_, coef_standardized_, label_error_proba_, n_iter_, status_
        As in `EPClassifier`.
    """

    _method = "r1bcs"
    _scores_labels = True
    _fixed: ClassVar[dict[str, Any]] = {
        "rho": 0.5,  # not used
        "eta": 1.0,
        "beta": LOGISTIC,
        "lam": 1.0,
        "criterion": "cv",
        "average": False,
        "n_folds": 2,
        "fit_intercept": False,
        "random_state": None,
    }

    def __init__(
        self,
        *,
        standardize: bool = True,
        n_features_to_select: Any = None,
        tol: float = 1e-3,
        max_iter: int = 5000,
        verbose: bool = False,
    ) -> None:
        self.standardize = standardize
        self.n_features_to_select = n_features_to_select
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

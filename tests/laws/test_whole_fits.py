"""Whole fits, from a table to probabilities: each ends in a finite answer with a true status, or in a reason."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from dilutron import EPClassifier, EPOptions, Normal, Problem, SpikeSlab, Status, Theta, ThetaMixture, solve

FEW = settings(max_examples=8)  # each is a whole fit, or two
TIGHT = {"tol": 1e-9, "max_iter": 2000}
seeds = st.integers(0, 2**32 - 1)


def table(seed, n_rows=24, n_features=6):
    """Rows, and labels of two classes that a first column explains in part."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    y = (X[:, 0] + 0.5 * rng.standard_normal(n_rows) > 0.0).astype(int)
    y[:2] = 0, 1
    return X, y, rng


def sound(model, X):
    """Every number is one, and the status tells the truth; where it is not good, a warning said so."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model.fit(X, model.given_labels)
    chance = model.predict_proba(X)
    for value in (model.coef_, model.coef_std_, model.intercept_, model.inclusion_proba_, model.label_error_proba_):
        assert np.all(np.isfinite(value))
    assert np.all((model.inclusion_proba_ >= 0.0) & (model.inclusion_proba_ <= 1.0))
    assert np.all((chance >= 0.0) & (chance <= 1.0))
    np.testing.assert_allclose(chance.sum(axis=1), 1.0)
    posteriors = [posterior for fit in model.fits_ for _, posterior in fit.shares]
    for posterior in posteriors:
        assert np.all(posterior.std >= 0.0)
        assert posterior.mismatch < model.tol or posterior.status is not Status.CONVERGED
    rested = all(fit.at_rest(model.tol) for fit in model.fits_)
    assert rested != any(issubclass(w.category, ConvergenceWarning) for w in heard)
    return model


def fit(X, y, **options):
    model = EPClassifier(**options)
    model.given_labels = y
    return sound(model, X)


def probability(X, y, **options):
    return fit(X, y, **options).predict_proba(X)[:, 1]


@FEW
@given(seed=seeds, wide=st.booleans())
def test_the_order_of_rows_and_columns_does_not_matter(seed, wide):
    X, y, rng = table(seed, *((12, 20) if wide else (24, 6)))
    rows, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
    one, other = fit(X, y, rho=0.3, **TIGHT), fit(X[rows][:, columns], y[rows], rho=0.3, **TIGHT)
    np.testing.assert_allclose(other.inclusion_proba_, one.inclusion_proba_[columns], atol=1e-5)
    np.testing.assert_allclose(other.coef_[0], one.coef_[0, columns], atol=1e-5)
    np.testing.assert_allclose(other.label_error_proba_, one.label_error_proba_[rows], atol=1e-5)
    auto, mixed = fit(X, y), fit(X[rows][:, columns], y[rows])  # the whole path, to its own tolerance
    np.testing.assert_allclose(mixed.predict_proba(X[:, columns]), auto.predict_proba(X), atol=0.02)


@FEW
@given(seed=seeds)
def test_the_names_of_the_classes_do_not_matter(seed):
    X, y, _ = table(seed)
    one, other = probability(X, y, **TIGHT), probability(X, 1 - y, **TIGHT)
    np.testing.assert_allclose(other, 1.0 - one, atol=1e-4)


@FEW
@given(seed=seeds, powers=st.lists(st.integers(-300, 300), min_size=6, max_size=6))
def test_the_units_of_the_columns_do_not_matter(seed, powers):
    """Powers of two change no digit."""
    X, y, _ = table(seed)
    units = 2.0 ** np.array(powers)
    np.testing.assert_array_equal(probability(X * units, y), probability(X, y))


@FEW
@given(seed=seeds, shift=st.floats(-1e6, 1e6))
def test_nor_where_their_zero_is(seed, shift):
    X, y, _ = table(seed)
    np.testing.assert_allclose(probability(X + shift, y, **TIGHT), probability(X, y, **TIGHT), atol=1e-4)


@FEW
@given(seed=seeds, copies=st.integers(2, 4))
def test_rows_that_come_again_count_again(seed, copies):
    X, y, _ = table(seed)
    again = fit(np.tile(X, (copies, 1)), np.tile(y, copies), rho=0.3, **TIGHT)
    once = EPClassifier(0.3, **TIGHT).fit(X, y, sample_weight=np.full(len(y), float(copies)))
    np.testing.assert_allclose(again.predict_proba(X), once.predict_proba(X), atol=1e-4)


@FEW
@given(seed=seeds, options=st.sampled_from([{}, {"rho": 0.3, **TIGHT}]))
def test_columns_that_come_twice_share_alike(seed, options):
    X, y, _ = table(seed)
    model = fit(np.column_stack([X, X[:, 0]]), y, **options)
    np.testing.assert_allclose(model.inclusion_proba_[-1], model.inclusion_proba_[0], atol=0.01)
    np.testing.assert_allclose(model.coef_[0, -1], model.coef_[0, 0], atol=0.01)


@FEW
@given(seed=seeds, value=st.sampled_from([-1e50, -1.0, 0.0, 0.1, 1e50]))
def test_constant_columns_say_nothing(seed, value):
    X, y, _ = table(seed)
    plain, odd = fit(X, y, rho=0.3, **TIGHT), fit(np.column_stack([X, np.full(len(y), value)]), y, rho=0.3, **TIGHT)
    np.testing.assert_allclose(odd.predict_proba(np.column_stack([X, np.full(len(y), value)])), plain.predict_proba(X))
    assert odd.inclusion_proba_[-1] == pytest.approx(0.3)


SHAPES = [(2, 1), (3, 1), (2, 2), (7, 7), (2, 30), (40, 1), (5, 12)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"standardize": False}, {"eta": 1.0, "beta": 1e3}])
def test_every_shape(shape, options):
    X, y, _ = table(0, *shape)
    fit(X, y, **options)


LABELS = {
    "separable": lambda X, rng: X[:, 0] > np.median(X[:, 0]),
    "nothing to learn": lambda X, rng: rng.random(len(X)) < 0.5,
    "one against all": lambda X, rng: np.arange(len(X)) == 3,
    "contradictory": lambda X, rng: np.arange(len(X)) % 2 == 0,
}
TABLES = {
    "plain": lambda X, rng: X,
    "rank 1": lambda X, rng: np.outer(X[:, 0], X[0]),
    "heavy tails": lambda X, rng: rng.standard_cauchy(X.shape),
    "nearly the same columns": lambda X, rng: X[:, :1] + 1e-9 * X,
    "the same two rows": lambda X, rng: X[np.arange(len(X)) % 2 // 2],
    "far from zero": lambda X, rng: 1e12 + X,
    "one huge value": lambda X, rng: np.where(X == X.max(), 1e90, X),
    "mostly zeros": lambda X, rng: np.where(X > 1.5, X, 0.0),
}


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES.keys())
@pytest.mark.parametrize("label", LABELS.values(), ids=LABELS.keys())
def test_every_table_with_all_labels(make, label):
    X, _, rng = table(1, 30, 8)
    fit(make(X, rng), label(X, rng))


@settings(max_examples=20)
@given(seed=seeds, power=st.floats(-150, 150), standardize=st.booleans(), mixed=st.booleans())
def test_every_size_of_value_is_fitted_or_refused(seed, power, standardize, mixed):
    X, y, rng = table(seed)
    X = X * 10.0 ** (power * (rng.uniform(-1.0, 1.0, X.shape[1]) if mixed else 1.0))
    try:
        fit(X, y, standardize=standardize)
    except ValueError as refused:
        assert "rescale the column" in str(refused)  # noqa: PT017
        assert np.max(np.abs(X)) > 1e100 or np.min(np.max(np.abs(X), axis=0)) < 1e-100


@settings(max_examples=20)
@given(power=st.floats(-300, 308), fitted_at=st.sampled_from([-90, 0, 90]))
def test_every_size_of_value_is_predicted_or_refused(power, fitted_at):
    X, y, _ = table(0)
    model = fit(X * 10.0**fitted_at, y)
    with np.errstate(over="ignore"):
        rows = X * 10.0**power
    try:
        assert np.all(np.isfinite(model.predict_proba(rows)))
    except ValueError as refused:
        assert "beyond what can be squared" in str(refused) or "infinity" in str(refused)  # noqa: PT017
        assert power - fitted_at > 99


@pytest.mark.parametrize("times", [1e-300, 1e-9, 1.0, 1e9, 1e90])
def test_however_often_rows_count(times):
    X, y, _ = table(0)
    model = EPClassifier().fit(X, y, sample_weight=np.full(len(y), times))
    assert np.all(np.isfinite(model.predict_proba(X)))


def test_too_often_is_refused():
    X, y, _ = table(0)
    with pytest.raises(ValueError, match=r"a row counts 1e\+200 times, by sample_weight and class_weight: at most"):
        EPClassifier().fit(X, y, sample_weight=np.full(len(y), 1e200))


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


LAYOUTS = {
    "columns first": np.asfortranarray,
    "read only": read_only,
    "every other column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "backwards": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "other bytes": lambda X: X.astype(">f8"),
    "long": lambda X: X.astype(np.longdouble),
    "objects": lambda X: X.astype(object),
    "lists": lambda X: X.tolist(),
    **{name: lambda X, name=name: sparse.csr_array(X).asformat(name) for name in ("csr", "csc", "coo", "lil", "dok")},
    "csr matrix": sparse.csr_matrix,
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_how_the_table_lies_in_memory_does_not_matter(layout):
    X, y, _ = table(2)
    X = np.round(np.where(X > 0.0, X, 0.0), 3)
    given, before = layout(X), X.copy()
    model = EPClassifier().fit(given, y)
    np.testing.assert_array_equal(model.predict_proba(given), EPClassifier().fit(X, y).predict_proba(X))
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int8, bool])
def test_smaller_numbers_are_as_good(kind):
    X, y, _ = table(3)
    small = (3.0 * X).astype(kind)
    np.testing.assert_array_equal(probability(small, y), probability(small.astype(np.float64), y))


REFUSED = {
    "one row": (np.ones((1, 2)), [0], "one class only"),
    "one class": (np.eye(3), [1, 1, 1], "one class only"),
    "no rows": (np.ones((0, 3)), [], "0 sample"),
    "no columns": (np.ones((3, 0)), [0, 1, 0], "0 feature"),
    "nan": (np.array([[1.0], [np.nan]]), [0, 1], "NaN"),
    "infinite": (np.array([[1.0], [np.inf]]), [0, 1], "infinity"),
    "complex": (np.array([[1j], [2.0]]), [0, 1], "Complex"),
    "words": (np.array([["a"], ["b"]]), [0, 1], "could not convert string"),
    "measured labels": (np.eye(3), [0.1, 0.2, 0.35], "label type"),
    "missing label": (np.eye(2), [0.0, np.nan], "NaN"),
    "three dimensions": (np.ones((2, 2, 2)), [0, 1], "dim 3"),
    "too few labels": (np.eye(3), [0, 1], "inconsistent numbers of samples"),
}


@pytest.mark.parametrize(("X", "y", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_fitted_is_refused_with_the_reason(X, y, reason):
    with pytest.raises(ValueError, match=reason):
        EPClassifier().fit(X, y)


@settings(max_examples=12)
@given(
    seed=seeds,
    shape=st.tuples(st.integers(2, 16), st.integers(1, 16)),
    weights=st.sampled_from([SpikeSlab(0.3), SpikeSlab(1e-6), SpikeSlab(1 - 1e-6), SpikeSlab(0.3, 1e12), Normal(1.0)]),
    labels=st.sampled_from([Theta(), ThetaMixture(0.7), ThetaMixture(0.999)]),
    learn=st.sampled_from([(), ("eta",)]),
    start=st.sampled_from(["random", "twins", "noise"]),
)
def test_the_engine_ends_in_a_true_status(seed, shape, weights, labels, learn, start):
    X, y, rng = table(seed, *shape)
    X = {"random": X, "twins": np.repeat(X[:, :1], shape[1], axis=1), "noise": rng.standard_cauchy(shape)}[start]
    options = EPOptions(learn=learn, max_iter=300)
    posterior = solve(Problem.from_arrays(X, 2 * y - 1), weights, labels, options=options, intercept=Normal(0.1))
    assert (posterior.status is not Status.CONVERGED) or posterior.mismatch < options.tol
    for value in (posterior.mean, posterior.std, posterior.flip, posterior.probability(X), posterior.log_evidence):
        assert np.all(np.isfinite(value))

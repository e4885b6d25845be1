import subprocess
import sys

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import roc_auc_score, roc_curve

from dilutron.metrics import (
    auc,
    auc_error,
    average,
    calibration,
    convergence_fraction,
    decibel,
    fraction_error,
    ideal_sensitivity,
    mean_curve,
    mse,
    roc,
    sensitivity,
    standard_error,
)


def ranking(seed, levels=None, n=40):
    """Scores, tied where there are few levels, and a truth."""
    rng = np.random.default_rng(seed)
    score = rng.random(n) if levels is None else rng.integers(0, levels, n).astype(float)
    return score, rng.random(n) < 0.4


RANKINGS = [ranking(seed, levels) for seed in range(3) for levels in (None, 5, 2)]


def test_mse_is_of_the_directions():
    teacher = np.array([3.0, 0.0, 4.0])
    assert mse(7.0 * teacher, teacher) == pytest.approx(0.0, abs=1e-30)
    assert mse(-teacher, teacher) == pytest.approx(4.0 / 3.0)
    assert mse(np.array([0.0, 2.0, 0.0]), teacher) == pytest.approx(2.0 / 3.0)
    assert mse(np.zeros(3), teacher) == pytest.approx(1.0 / 3.0)


def test_decibel():
    assert decibel(0.001) == pytest.approx(-30.0)


@pytest.mark.parametrize(("score", "truth"), RANKINGS)
def test_auc_by_counting_pairs(score, truth):
    above = score[truth][:, None] - score[~truth][None, :]
    assert auc(score, truth) == pytest.approx(np.mean((above > 0) + 0.5 * (above == 0)))
    assert auc(score, truth) == pytest.approx(roc_auc_score(truth, score))
    assert auc(truth.astype(float), truth) == 1.0
    assert auc(-truth.astype(float), truth) == 0.0
    assert auc(np.zeros(40), truth) == 0.5


@pytest.mark.parametrize(("shift", "n_true", "n_false"), [(0.0, 30, 28), (1.0, 12, 40), (2.0, 40, 40)])
def test_the_error_of_an_auc_is_that_of_repeated_draws(shift, n_true, n_false):
    rng, truth = np.random.default_rng(0), np.arange(n_true + n_false) < n_true
    areas = [auc(rng.normal(size=truth.size) + shift * truth, truth) for _ in range(2000)]
    assert auc_error(np.mean(areas), n_true, n_false) == pytest.approx(np.std(areas), rel=0.12)
    assert auc_error(1.0, n_true, n_false) == 0.0


@pytest.mark.parametrize("curve", [auc, roc, sensitivity])
@pytest.mark.parametrize("truth", [np.zeros(3), np.ones(3)])
def test_a_curve_needs_both_kinds(curve, truth):
    with pytest.raises(ValueError, match="truth must hold both"):
        curve(np.arange(3.0), truth)


@pytest.mark.parametrize("curve", [auc, roc, sensitivity])
def test_a_curve_needs_a_score_for_each(curve):
    with pytest.raises(ValueError, match=r"of one length, got shapes \(3,\) and \(2,\)"):
        curve(np.arange(3.0), [True, False])


@pytest.mark.parametrize("curve", [auc, roc, sensitivity])
def test_a_score_that_is_no_number_gives_none(curve):
    """As `mse` does: a diverged run is a row, not an exception."""
    assert np.all(np.isnan(curve([0.3, np.nan, 0.1], [True, False, True])))


@pytest.mark.parametrize(("score", "truth"), RANKINGS)
def test_roc_is_that_of_scikit_learn(score, truth):
    ours = roc(score, truth)
    false_positive, true_positive, _ = roc_curve(truth, score, drop_intermediate=False)
    assert len(ours.false_positive) == len(ours.true_positive) == len(score) + 1
    for point in zip(false_positive, true_positive, strict=True):  # ours has the points between ties as well
        assert np.min(np.abs(np.transpose(ours) - point).sum(axis=1)) < 1e-12
    heights = (ours.true_positive[1:] + ours.true_positive[:-1]) / 2
    assert np.diff(ours.false_positive) @ heights == pytest.approx(auc(score, truth))


def test_roc_on_a_common_grid():
    curve = roc([0.9, 0.8, 0.7, 0.6, 0.5], [True, False, True, True, False])
    np.testing.assert_allclose(curve.at([0.0, 0.25, 0.5, 0.75, 1.0]), [1 / 3, 1 / 3, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(roc([1.0, 1.0], [True, False]).at([0.0, 0.3, 1.0]), [0.0, 0.3, 1.0])
    for score, truth in RANKINGS:
        grid = np.linspace(0, 1, 20_001)
        assert roc(score, truth).at(grid).mean() == pytest.approx(auc(score, truth), abs=1e-3)


def test_sensitivity_counts():
    np.testing.assert_allclose(sensitivity([0.1, 0.9, 0.5, 0.7], [False, True, True, False]), [0.0, 0.5, 0.5, 1.0, 1.0])
    np.testing.assert_allclose(sensitivity(np.zeros(4), [True, False, False, True]), [0.0, 0.25, 0.5, 0.75, 1.0])


@pytest.mark.parametrize(("score", "truth"), RANKINGS)
def test_nothing_is_better_than_the_ideal(score, truth):
    ideal = ideal_sensitivity(40, truth.sum())
    np.testing.assert_allclose(sensitivity(truth, truth), ideal)
    assert np.all(sensitivity(score, truth) <= ideal + 1e-12)
    assert np.all(np.diff(sensitivity(score, truth)) >= 0)
    np.testing.assert_array_equal(roc(truth, truth).at([0.0, 0.5]), 1.0)


def test_standard_error_is_of_the_sample():
    assert standard_error([1.0, 2.0, 3.0, 4.0]) == pytest.approx(np.sqrt(5.0 / 3.0) / 2.0)
    np.testing.assert_allclose(standard_error([[1.0, 0.0], [3.0, 0.0]]), [1.0, 0.0])
    assert np.isnan(standard_error([1.0]))
    assert np.all(np.isnan(standard_error([[1.0, 2.0]])))
    with pytest.raises(ValueError, match="one instance at least"):
        standard_error([])


def test_mean_curves():
    band = mean_curve([[0.0, 0.5, 1.0], [0.0, 1.0, 1.0]])
    np.testing.assert_allclose(band.mean, [0.0, 0.75, 1.0])
    np.testing.assert_allclose(band.error, [0.0, 0.25, 0.0])
    assert average([0.5, 1.0]) == pytest.approx((0.75, 0.25))
    for mean in (average, mean_curve):
        with pytest.raises(ValueError, match="one instance at least"):
            mean([])


@pytest.mark.parametrize(
    ("fraction", "error"),
    [(0.83, 0.04), (0.92, 0.03), (0.94, 0.02), (0.96, 0.02), (0.80, 0.04), (0.76, 0.04), (0.70, 0.05)],
)
def test_errors_of_fractions_are_those_of_the_paper(fraction, error):
    """Its table of converged trials, 100 instances per cell."""
    assert round(fraction_error(fraction, 100), 2) == error
    converged = np.arange(100) < round(100 * fraction)
    assert convergence_fraction(converged) == pytest.approx((fraction, fraction_error(fraction, 100)))


def test_convergence_of_all_and_of_none_tried():
    assert convergence_fraction([True, True]) == (1.0, 0.0)
    with pytest.raises(ValueError, match="one instance at least"):
        convergence_fraction([])


def test_calibration_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    p = rng.random(500)
    truth = rng.random(500) < p**2
    ours = calibration(p, truth, bins=8)
    observed, predicted = calibration_curve(truth, p, n_bins=8)
    np.testing.assert_allclose(ours.observed, observed)
    np.testing.assert_allclose(ours.predicted, predicted)
    assert ours.size.sum() == 500
    assert ours.error == pytest.approx(ours.size / 500 @ np.abs(observed - predicted))


def test_calibration_of_the_right_probabilities_and_of_the_worst():
    rng = np.random.default_rng(1)
    p = rng.random(200_000)
    assert calibration(p, rng.random(p.size) < p).error < 0.01
    worst = calibration([0.0, 1.0], [True, False])
    assert worst.error == 1.0
    np.testing.assert_array_equal(worst.size, [1, *[0] * 8, 1])
    assert np.isnan(worst.observed[1:-1]).all()


@pytest.mark.parametrize(
    ("probability", "truth", "message"),
    [
        ([0.5], [True, False], "one length"),
        ([], [], "one length"),
        ([1.1], [True], "from 0 to 1"),
        ([np.nan], [True], "from 0 to 1"),
    ],
)
def test_what_is_no_probability(probability, truth, message):
    with pytest.raises(ValueError, match=message):
        calibration(probability, truth)


def test_metrics_load_nothing_heavy():
    heavy = "{'scipy.stats', 'scipy.signal', 'sklearn'}"
    code = f"import sys, dilutron.metrics, dilutron.data; print({heavy} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"

import numpy as np
import pytest

from dilutron.metrics import auc, decibel, mse


def test_mse_is_of_the_directions():
    teacher = np.array([3.0, 0.0, 4.0])
    assert mse(7.0 * teacher, teacher) == pytest.approx(0.0, abs=1e-30)
    assert mse(-teacher, teacher) == pytest.approx(4.0 / 3.0)
    assert mse(np.array([0.0, 2.0, 0.0]), teacher) == pytest.approx(2.0 / 3.0)
    assert mse(np.zeros(3), teacher) == pytest.approx(1.0 / 3.0)


def test_decibel():
    assert decibel(0.001) == pytest.approx(-30.0)


def test_auc_by_counting_pairs():
    rng = np.random.default_rng(0)
    score, truth = rng.integers(0, 5, 40).astype(float), rng.random(40) < 0.4
    above = score[truth][:, None] - score[~truth][None, :]
    assert auc(score, truth) == pytest.approx(np.mean((above > 0) + 0.5 * (above == 0)))
    assert auc(truth.astype(float), truth) == 1.0
    assert auc(-truth.astype(float), truth) == 0.0
    assert auc(np.zeros(40), truth) == 0.5


@pytest.mark.parametrize("truth", [np.zeros(3), np.ones(3)])
def test_auc_needs_both_kinds(truth):
    with pytest.raises(ValueError, match="truth must hold both"):
        auc(np.arange(3.0), truth)

import re

import numpy as np
import pytest

from dilutron.selection import (
    by_false_share,
    by_size,
    by_threshold,
    effective_size,
    label_errors,
    other_rules,
    ranked,
    runners_up,
)

P = np.array([0.2, 0.95, 0.5, 0.9, 0.5])


def test_the_most_probable_come_first_and_of_equals_the_earlier():
    assert ranked(P).tolist() == [1, 3, 2, 4, 0]


def test_a_false_share_is_the_mean_of_what_is_on_the_list():
    assert by_false_share(P, 0.07).tolist() == [1]
    assert by_false_share(P, 0.08).tolist() == [1, 3]  # (0.05 + 0.1) / 2
    assert by_false_share(P, 0.99).size == 5
    assert by_false_share(P, 0.01).size == 0


def test_such_lists_are_as_wrong_as_they_say():
    """Over many draws of the truth from the probabilities themselves."""
    rng = np.random.default_rng(0)
    probability = rng.beta(0.3, 0.5, 200)
    listed = by_false_share(probability, 0.2)
    truth = rng.random((4000, listed.size)) < probability[listed]
    assert 0.17 < np.mean(~truth) <= 0.202


def test_sizes_and_thresholds():
    assert by_size(P, 2).tolist() == [1, 3]
    assert by_threshold(P, 0.5).tolist() == [1, 3, 2, 4]
    assert by_threshold(P, 0.96).size == 0


def test_effective_size_counts_equal_weights():
    assert effective_size(np.array([0.0, -2.0, 2.0, 0.0, 2.0])) == 3
    assert effective_size(np.zeros(3)) == 1
    assert effective_size(np.array([5.0, 1e-6, 0.0])) == 1


@pytest.mark.parametrize(
    "probability", [np.array([0.13, 0.07, 0.066, 0.01]), np.full(30, 1e-4), np.array([0.4996, 0.1])]
)
def test_the_advice_is_true(probability):
    """What the message says that a rule selects is what it selects."""
    words = other_rules(probability, 7)
    fdr = float(re.search(r"fdr=(\S+) or more", words)[1])
    one, half = (float(value) for value in re.findall(r"threshold=(\S+) ", words))
    assert by_false_share(probability, fdr).size >= 1
    assert by_threshold(probability, one).size >= 1
    assert by_threshold(probability, half).size == int(re.search(r"selects (\d+);", words)[1])
    assert "the 7 that are likely" in words
    assert f"the {min(10, probability.size)} most probable" in words


def test_label_errors_come_from_the_fit_of_the_given_class():
    proba = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.3, 0.5], [0.5, 0.4, 0.1]])
    codes, heard = np.array([0, 2, 1, -1]), np.array([True, True, False, False])
    flips = np.array([[0.01, 0.02], [0.03, 0.04], [0.05, 0.06]])
    assert label_errors(proba, codes, flips, heard).tolist() == [0.01, 0.06, 0.7, 1.0]
    assert runners_up(proba, codes).tolist() == [1, 1, 2, 0]


def test_of_two_classes_there_is_one_fit():
    proba = np.array([[0.7, 0.3], [0.1, 0.9]])
    errors = label_errors(proba, np.array([1, 1]), np.array([[0.6, 0.2]]), np.array([True, True]))
    assert errors.tolist() == [0.6, 0.2]
    assert runners_up(proba, np.array([1, 1])).tolist() == [0, 0]

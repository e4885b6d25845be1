"""Each check lets good values through and names the option, the rule and the value where it does not."""

from fractions import Fraction

import numpy as np
import pytest

from dilutron.options import names, old_share, one_of, positive, share, truth, whole

WORDS = ("em", "gradient")
GOOD = {
    positive: (1e-300, 1, 2.5, np.float32(0.5), np.float64(1e300), np.int64(3), Fraction(1, 3)),
    whole: (1, 7, 10**30, np.int64(3), np.uint8(1)),
    share: (1e-300, 0.5, np.float32(0.5), np.float64(1.0 - 1e-16), Fraction(1, 3)),
    old_share: (0, 0.0, 0.5, np.float64(1.0 - 1e-16), np.int64(0)),
    truth: (True, False, np.True_, np.bool_(False)),
    names: ((), ("rho",), ["rho", "eta"]),
}
NO_NUMBERS = (True, False, np.True_, None, "1", "", [1.0], (1,), np.array([1.0]), 1j, float)
BAD = {
    positive: (0, 0.0, -0.0, -1e-9, np.nan, np.inf, -np.inf, *NO_NUMBERS),
    whole: (0, -1, 1.0, 2.5, np.nan, np.inf, np.float64(3.0), Fraction(3, 1), *NO_NUMBERS),
    share: (0, 0.0, 1, 1.0, -1e-9, 1.5, 10**400, np.nan, np.inf, *NO_NUMBERS),
    old_share: (1, 1.0, 1.5, -1e-9, np.nan, np.inf, *NO_NUMBERS),
    truth: (0, 1, 0.0, None, "True", "", [], [True], np.int64(1), np.array([True])),
    names: ("rho", "", None, 3, {"rho"}, {"rho": 1}, np.array(["rho"])),
}
RULES = {
    positive: "must be a positive number, got",
    whole: "must be a whole number, at least 1, got",
    share: "must be a number above 0 and below 1, got",
    old_share: "is the weight of the old value, from 0 up to but not 1, got",
    truth: "must be True or False, got",
    names: "must be a tuple of names, for example",
}


def cases(table):
    return [pytest.param(check, value, id=f"{check.__name__} {value!r}") for check in table for value in table[check]]


@pytest.mark.parametrize(("check", "value"), cases(GOOD))
def test_good_values_pass(check, value):
    check(size=value)


@pytest.mark.parametrize(("check", "value"), cases(BAD))
def test_bad_values_are_named(check, value):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is compared below, character by character)
        check(size=value)
    assert str(caught.value).startswith(f"size {RULES[check]}")
    assert str(caught.value).endswith(f"got {value!r}")


@pytest.mark.parametrize("check", GOOD)
def test_every_value_of_a_call_is_checked(check):
    check()
    good, bad = GOOD[check][0], BAD[check][0]
    with pytest.raises(ValueError, match="second"):
        check(first=good, second=bad, third=good)


@pytest.mark.parametrize("at_least", [0, 2])
def test_whole_numbers_from_a_border_on(at_least):
    whole(at_least, count=at_least)
    with pytest.raises(ValueError, match=f"count must be a whole number, at least {at_least}, got {at_least - 1}"):
        whole(at_least, count=at_least - 1)


@pytest.mark.parametrize("value", ["EM", "e", "", None, 0, ("em",), ["em"]])
def test_one_of_a_few_words(value):
    one_of(WORDS, learning="em", rule="gradient")
    with pytest.raises(ValueError, match=r"learning must be one of \('em', 'gradient'\), got ") as caught:
        one_of(WORDS, learning=value)
    assert str(caught.value).endswith(repr(value))

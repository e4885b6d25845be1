"""The pages with code run, and what they say of lists in the code is what these hold."""

import re
from pathlib import Path

import numpy as np
import pytest

from dilutron import Status, methods
from dilutron.data import DYNAMICS, PATTERNS, Ending
from dilutron.report import trust
from tests.conftest import ROOT
from tests.laws import test_methods as method_laws
from tests.laws import test_priors as prior_laws
from tests.laws.lists import Case, Factor, _normal_density

DOCS = ROOT / "docs"


def run_page(name):
    """All that the Python blocks of a page leave behind."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / name).read_text(encoding="utf-8"), flags=re.M | re.S)
    assert blocks
    left = {"__name__": "page"}
    exec(compile("\n".join(blocks), name, "exec"), left)
    return left


@pytest.fixture
def registered():
    """What a page registers is gone after the test."""
    before = dict(methods.METHODS), dict(methods.OPTIONS)
    yield
    for known, was in zip((methods.METHODS, methods.OPTIONS), before, strict=True):
        known.clear()
        known.update(was)


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md", "docs/guide.md"])
def test_the_page_runs(page, tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    run_page(page)


def test_the_example_prior_and_method_keep_the_laws(registered, tmp_path):
    left = run_page("docs/extending.md")
    cases = [
        Case(
            f"two normals, rho {rho}",
            left["TwoNormals"](rho, tight, lam),
            lambda rho, tight, lam: Factor(
                0.0,
                lambda w: (1 - rho) * normal(w, tight) + rho * normal(w, lam),
            ),
            lambda mean, var, rho, tight, lam: (
                (1 - rho) * _normal_density(mean, var + 1 / tight) + rho * _normal_density(mean, var + 1 / lam)
            ),
        )
        for rho, tight, lam in ((0.2, 100.0, 1.0), (1e-6, 3.0, 0.5))
    ]
    for case in cases:
        prior_laws.test_moments_are_derivatives_of_log_z(case)
        prior_laws.test_moments_are_the_defining_integrals(case)
        prior_laws.test_moments_keep_their_digits_in_the_tails(case)
        prior_laws.test_only_integrable_cavities_are_admitted(case)
        for share in (0.01, 0.5, 0.8):
            prior_laws.test_gaussian_tails_bear_a_cavity_of_negative_precision(case, share)
    for rho in (0.0, 1.0):
        with pytest.raises(ValueError, match="rho must be"):
            left["TwoNormals"](rho)
    with pytest.raises(ValueError, match="tight must be finite and above lam"):
        left["TwoNormals"](0.5, tight=1.0, lam=2.0)
    method_laws.test_order_of_rows_and_columns("ista", 0.25)
    method_laws.test_a_pattern_and_its_label_may_turn_over_together("ista")
    method_laws.test_one_value_for_all_is_one_value_each("ista")
    method_laws.test_the_same_call_twice_gives_the_same_bits_and_leaves_the_problem_alone("ista")
    method_laws.test_a_true_from_the_callback_stops("ista")
    method_laws.test_what_is_saved_predicts_the_same("ista", tmp_path)
    method_laws.test_predictions_are_better_than_chance("ista")
    method_laws.test_wrong_options_are_told_the_right_type("ista")
    method_laws.test_arguments_that_a_method_does_not_know_are_refused("ista")


def normal(w, precision):
    return np.sqrt(precision / (2 * np.pi)) * np.exp(-precision * w**2 / 2)


def test_the_page_on_simulating_says_what_its_code_gives():
    page, left = (DOCS / "simulating.md").read_text(encoding="utf-8"), run_page("docs/simulating.md")
    scored = re.findall(r"^\| `(\w+)` \| (\w+) \| (-[\d.]+) \| (\.\d+) \| (\.\d+|-) \|$", page, flags=re.M)
    assert [method for method, *_ in scored] == list(left["answers"])
    for method, status, error, weights, labels in scored:
        assert status == left["answers"][method].status.value
        found = left["scores"][method]
        if status == "diverged":
            continue  # where it ends is a matter of rounding
        assert float(error) == pytest.approx(found[0], abs=0.1)
        assert float(weights) == pytest.approx(found[1], abs=0.01)
        assert labels == "-" if found[2] is None else float(labels) == pytest.approx(found[2], abs=0.01)
    likeness = {name: np.mean(run.patterns[:-1] * run.patterns[1:]) for name, run in left["recordings"].items()}
    assert likeness == pytest.approx({"synchronous": 0.01, "sweep": 0.27, "distance": 0.84}, abs=0.005)
    assert {name: (len(run.patterns), run.ending, run.period) for name, run in left["early"].items()} == {
        "synchronous": (12 + 3, Ending.LIMIT_CYCLE, 3),
        "sweep": (6, Ending.FROZEN, 1),
        "distance": (4, Ending.FROZEN, 1),
    }
    assert (left["again"].ending, len(left["again"].starts)) == (Ending.COMPLETE, 40)
    assert np.count_nonzero(left["planted"].teacher) == 4
    assert left["planted"].flipped.sum() == 15
    assert left["gain"] == pytest.approx((-4.0, 0.6), abs=0.05)
    assert left["claims"].size[-1] == 70
    assert (left["claims"].predicted[-1], left["claims"].observed[-1]) == pytest.approx((0.96, 0.97), abs=0.005)


def test_the_page_on_simulating_knows_all_names():
    page = (DOCS / "simulating.md").read_text(encoding="utf-8")
    assert rows_below("Patterns", "simulating.md") == [f'`"{name}"`' for name in PATTERNS]
    assert rows_below("Recurrent networks", "simulating.md") == [f'`"{name}"`' for name in DYNAMICS]
    assert set(re.findall(r"^\| `([A-Z_]+)` \|", page, flags=re.M)) == set(Ending.__members__)


def test_the_options_of_simulate_are_those_that_it_has():
    pytest.importorskip("typer")
    from typer.main import get_command

    from dilutron.cli import app

    section = (DOCS / "command-line.md").read_text(encoding="utf-8").split("## Simulate a table\n")[1].split("\n## ")[0]
    said = dict(re.findall(r"`(--[a-z]+)(?: ([^`]+))?`", section))
    options = {option.opts[0]: option for option in get_command(app).commands["simulate"].params}
    assert said.keys() == options.keys()
    for name, value in said.items():
        assert value in ("", "FILE") or value == str(options[name].default)
    assert set(re.findall(r"`([a-z]+)`: ", section)) == set(PATTERNS)


def rows_below(heading, page="guide.md"):
    """The first cells of the first table below a heading."""
    below = (DOCS / page).read_text(encoding="utf-8").split(f"## {heading}\n")[1]
    table = re.search(r"(?:^\|.*\n)+", below, flags=re.M).group()
    return [line.split("|")[1].strip() for line in table.splitlines()[2:]]


def test_the_guide_knows_every_sign_that_the_report_looks_for():
    source = Path(trust.__file__).read_text(encoding="utf-8")
    titles = set(re.findall(r'\b(?:CARE|BAD)\b[^,"]*,\s*"([^"]+)"', source)) - {
        "Do not rely on this result yet",
        "Read with care",
    }
    assert len(titles) > 10
    assert set(rows_below("When not to trust it")) == {title.rstrip("?") for title in titles}


def test_the_guide_knows_every_status():
    assert rows_below("Troubleshooting by status") == [f"`{status.value}`" for status in Status]

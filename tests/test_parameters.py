import numpy as np
import pytest

from dilutron import Normal, RobustProbit, SpikeSlab, ThetaMixture
from dilutron.ep import Block
from dilutron.parameters import (
    EDGE,
    START,
    at_density,
    climb,
    coordinates,
    drift,
    em,
    improved,
    moved_to,
    ready,
    values_of,
    with_values,
)
from dilutron.priors import Gaussians
from tests.problems import pair_of_blocks

ALL = frozenset({"rho", "lam", "eta", "beta"})
OWN = np.array([0.1, 0.3, 0.6])
BLOCKS = {
    "shared": pair_of_blocks(SpikeSlab(0.3, 2.0), RobustProbit(0.9, 1.5), (5, 3)),
    "of each weight": pair_of_blocks(SpikeSlab(OWN, 10.0 * OWN), RobustProbit(0.9, 1.5), (5, 3)),
    "intercept": (*pair_of_blocks(SpikeSlab(0.3), ThetaMixture(0.9), (5, 3)), Block(slice(8, 9), Normal())),
}
CAVITY = Gaussians(np.linspace(-1.0, 2.0, 9), np.linspace(0.5, 1.5, 9))


@pytest.mark.parametrize("names", [ALL - {"beta"}, frozenset({"rho"}), frozenset({"eta"}), frozenset()])
@pytest.mark.parametrize("blocks", BLOCKS.values(), ids=BLOCKS.keys())
def test_coordinates_lead_back(blocks, names):
    point = coordinates(blocks, names)
    assert point.size == sum(np.size(v) for block in blocks for v in values_of(block.prior, names).values())
    assert drift(blocks, moved_to(blocks, names, point), ALL - {"beta"}) < 1e-12
    moved = moved_to(blocks, names, point + 0.7)
    np.testing.assert_allclose(coordinates(moved, names), point + 0.7)
    assert drift(blocks, moved, ALL - {"beta"} - names) == 0.0, "only what was named moves"


@pytest.mark.parametrize("far", [-1e3, 1e3])
def test_no_coordinate_leads_out_of_the_intervals(far):
    blocks = BLOCKS["of each weight"]
    with np.errstate(over="ignore"):
        there = moved_to(blocks, ALL, coordinates(blocks, ALL) + far)
    for block in there:
        for name, value in values_of(block.prior, ALL).items():
            low, high = block.prior.parameters[name]
            assert np.all((low < value) & (value < high)), name


def test_values_stay_inside_and_of_their_kind():
    prior = with_values(SpikeSlab(0.3), {"rho": 2.0, "lam": -1.0})
    assert (prior.rho, prior.lam) == (1.0 - EDGE, EDGE)
    assert type(prior.rho) is float
    each = with_values(SpikeSlab(OWN), {"rho": np.array([-1.0, 0.5, 2.0])})
    np.testing.assert_array_equal(each.rho, [EDGE, 0.5, 1.0 - EDGE])
    assert with_values(prior, {}) is prior


def test_learning_does_not_begin_where_em_cannot_find_its_way():
    for eta, begun in ((0.5, START["eta"][0]), (0.8, 0.8), (1.0, START["eta"][1])):
        blocks = pair_of_blocks(SpikeSlab(1e-3), ThetaMixture(eta), (5, 3))
        assert ready(blocks, frozenset({"rho", "eta"}))[1].prior.eta == begun
        assert ready(blocks, frozenset({"rho"}))[1].prior.eta == eta
        assert ready(blocks, frozenset({"rho", "eta"}))[0].prior.rho == 1e-3


def test_the_m_step_is_of_the_named_and_of_each_blocks_own_cavities():
    blocks = BLOCKS["intercept"]
    new = improved(blocks, CAVITY, frozenset({"eta"}), em)
    assert new[0] is blocks[0]
    assert new[2] is blocks[2]
    asked = blocks[1].prior.learn(Gaussians(CAVITY.mean[3:8], CAVITY.var[3:8]), frozenset({"eta"}))
    assert new[1].prior.eta == asked.eta != blocks[1].prior.eta
    assert drift(blocks, new, frozenset({"eta"})) == pytest.approx(abs(asked.eta / 0.9 - 1.0))


@pytest.mark.parametrize(("counts", "believed"), [((0.0, 0.0), 0.0), ((2.0, 1.0), 2.0 / 0.3 - 1.0 / 0.7)])
def test_a_climb_is_a_step_along_the_slope(counts, believed):
    prior, cavity = SpikeSlab(0.3, counts=counts), Gaussians(CAVITY.mean[:3], CAVITY.var[:3])
    new = climb(prior, cavity, frozenset({"rho"}), rate=1e-3)
    assert new.rho == pytest.approx(0.3 + 1e-3 * (prior.slopes(cavity)["rho"] + believed))
    assert new.lam == prior.lam


def test_a_belief_at_its_end_is_no_matter_for_what_is_learned():
    """Where one wrong label was counted before, all labels being right is out of the question; beta may be learned."""
    prior, cavity = RobustProbit(1.0, 2.0, counts=(19.0, 1.0)), Gaussians(CAVITY.mean[:3], CAVITY.var[:3])
    assert prior.belief_slopes() == {"eta": -np.inf}
    assert RobustProbit(1.0, 2.0, counts=(19.0, 0.0)).belief_slopes() == {"eta": 19.0}
    new = climb(prior, cavity, frozenset({"beta"}), rate=1e-3)
    assert new.beta == pytest.approx(2.0 + 1e-3 * prior.slopes(cavity)["beta"])
    assert new.eta == 1.0


def test_at_another_density_the_odds_keep_their_ratios():
    new = at_density(SpikeSlab(OWN), 0.05).rho
    odds = new / (1.0 - new) / (OWN / (1.0 - OWN))
    np.testing.assert_allclose(odds, odds[0])
    assert at_density(SpikeSlab(0.4), 0.05).rho == pytest.approx(0.05)

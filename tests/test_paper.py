"""The items are the paper's tables and figures."""

from collections import Counter

from dilutron.experiments.paper import ALPHAS, ITEMS, Sweep, grid, slow, trials
from dilutron.experiments.trials import TRIALS, VARIANTS
from dilutron.plots import PICTURES


def cells(name):
    return [cell for sweep in ITEMS[name].sweeps for cell in sweep.cells]


def methods(name):
    return {cell["method"] for cell in cells(name)}


def test_every_table_and_figure_has_its_item():
    assert set(ITEMS) == {*(f"figure-{k}" for k in range(2, 7)), *(f"table-{k}" for k in range(1, 7))}
    for item in ITEMS.values():
        assert item.draw in PICTURES
        assert {sweep.kind for sweep in item.sweeps} <= set(TRIALS)
        assert methods(item.name) <= set(VARIANTS)


def test_what_each_compares():
    assert {"ep", "amp", "grvamp"} <= methods("figure-2")
    assert {"ep", "grvamp-paper"} <= methods("figure-3") & methods("table-1")
    for name in ("figure-4", "table-3", "table-5"):
        assert {"ep", "grvamp-paper", "r1bcs"} <= methods(name)
    assert methods("table-2") == methods("table-4") == methods("table-6") == {"ep"}
    assert {cell["n"] for cell in cells("table-1")} == {128, 256}
    assert {cell["eta"] for cell in cells("figure-5")} == {0.95, 0.9}
    assert {cell["dynamics"] for cell in cells("figure-6")} == {"synchronous", "sweep", "distance"}
    assert {cell["alpha"] for cell in cells("table-3")} == set(ALPHAS)
    learned = Counter((cell["eta"], cell["dynamics"]) for cell in cells("table-6"))
    assert learned[0.9, "synchronous"] == learned[0.9, "distance"] == 9
    assert learned[1.0, "synchronous"] == learned[1.0, "distance"] == 3


def test_shared_trials_are_made_once():
    together = list(trials([ITEMS["figure-4"], ITEMS["table-3"], ITEMS["table-5"]], 3))
    assert len(together) == len({trial.key for trial in together}) == 3 * len(cells("table-3"))


def test_a_whole_network_has_as_many_instances_as_perceptrons():
    assert {trial.instance for trial in ITEMS["figure-6"].trials()} == set(range(128))
    assert {trial.instance for trial in ITEMS["figure-6"].trials(10)} == set(range(10))
    assert {trial.instance for trial in ITEMS["figure-2"].trials()} == set(range(100))


def test_an_early_end_leaves_all_cells_alike():
    sweep = grid("teacher", n=16, alpha=(1.0, 2.0), method=("ep", "amp"))
    assert isinstance(sweep, Sweep)
    assert [trial.instance for trial in sweep.trials(2)] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_slow_methods_come_last_and_all_cells_alike():
    order = sorted(trials(ITEMS.values(), 2), key=slow)
    ranks = [trial.cell["method"] in ("r1bcs", "grvamp-paper") for trial in order]
    assert ranks == sorted(ranks)
    for rank in (False, True):  # of the two slow methods none waits for all instances of the other
        instances = [trial.instance for trial, one in zip(order, ranks, strict=True) if one == rank]
        assert instances == sorted(instances)

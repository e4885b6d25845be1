"""What `dilutron.data` gives: all that its modules make for others, and nothing else."""

from dilutron import data
from dilutron.data import designs, glauber, teacher

CONSTANTS = {"DYNAMICS", "PATTERNS", "Patterns"}


def test_all_public_names_are_there():
    made = {
        name
        for module in (designs, glauber, teacher)
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__
    }
    assert set(data.__all__) == made | CONSTANTS
    assert all(hasattr(data, name) for name in data.__all__)


def test_names_stand_for_what_is_given():
    assert {run.__name__ for run in data.DYNAMICS.values()} <= set(data.__all__)
    assert {draw.__name__ for draw in data.PATTERNS.values()} <= set(data.__all__)

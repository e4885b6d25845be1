"""The campaigns of `python -m reliability`, cut short: that they run, and that they find nothing."""

import csv
import os
import sys

import numpy as np
import pytest

from reliability import kills, mutating, tables, zoo
from reliability.rows import RESULTS

pytest.importorskip("polars")
linux = pytest.mark.skipif(sys.platform != "linux", reason="kills and limits as Linux has them")


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))


@linux
@pytest.mark.parametrize("kind", kills.KINDS)
def test_a_killed_writer_leaves_the_old_or_the_new(kind):
    row = kills.killed(kind, 8, seed=1)
    assert (row["lost"], row["torn"]) == (0, 0)
    assert row["amid_a_write"] > 4, "the others fell between two writes"


@linux
@pytest.mark.parametrize("parser", ["csv", "parquet", "posterior", "model", "run", "store"])
def test_spoilt_inputs_are_refused_in_words(parser):
    from reliability import fuzz

    counts, faults = fuzz.campaign(parser, 40)
    assert faults == []
    assert counts["refused"] > 20


@linux
def test_a_fault_is_found(tmp_path, monkeypatch):
    """The campaign can see what it looks for: another error, a hang, a message without the file, a payload."""
    from reliability import fuzz

    def spring(folder):
        (folder / "sprung").mkdir()

    def unclean(folder):
        raise ValueError("something is wrong")

    def hang(folder):
        while True:
            pass

    monkeypatch.setattr(fuzz, "LIMIT", 0.2)
    fuzz.signal.signal(fuzz.signal.SIGALRM, fuzz._ring)
    for harm, what in ((lambda folder: 1 / 0, "ZeroDivisionError"), (hang, "seconds"), (unclean, "name the file")):
        monkeypatch.setitem(fuzz.PARSERS, "csv", fuzz.PARSERS["csv"]._replace(parse=harm))
        row = fuzz.tried("csv", 0, tmp_path)
        assert row["end"] == "fault"
        assert what in row["what"]
    monkeypatch.setitem(fuzz.PARSERS, "csv", fuzz.PARSERS["csv"]._replace(parse=spring))
    assert fuzz.tried("csv", 0, tmp_path)["what"] == "a payload was run"


@linux
def test_a_killed_runner_loses_no_row():
    from reliability import sweeps

    row = sweeps.attacked("runner killed", 1, 3)
    assert [row[name] for name in ("lost", "duplicated", "torn", "different")] == [0, 0, 0, 0]
    assert row["rows_under_attack"] > 0


def test_mutations_are_repeatable_and_many():
    spoilt = [mutating.mutated(b"a,b\n1,2\n", np.random.default_rng(seed)) for seed in range(50)]
    assert spoilt == [mutating.mutated(b"a,b\n1,2\n", np.random.default_rng(seed)) for seed in range(50)]
    assert len(set(spoilt)) > 40


def test_a_beast_of_the_zoo():
    row = zoo.trial({"solver": "EPClassifier", "family": "twins", "level": 0.0}, 0)
    assert row["finite"]
    assert row["at_rest"] != row["warned"]


def read(name):
    with open(RESULTS / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_the_campaigns_on_file_found_nothing():
    """What SECURITY.md says of them."""
    total = read("fuzz")[-1]
    assert total["parser"] == "all"
    assert int(total["inputs"]) >= 100_000
    assert int(total["faults"]) == 0
    assert int(total["crashes"]) == 0
    assert {row[name] for row in read("kills") for name in ("lost", "torn")} == {"0"}
    assert {row[name] for row in read("sweeps") for name in ("lost", "duplicated", "torn", "different")} == {"0"}
    for name in ("zoo_summary", "zoo_fresh_summary"):
        for row in read(name):
            assert int(row["converged"]) >= 0.99 * int(row["problems"]) > 200
            assert {row[fault] for fault in ("collapsed", "not_finite", "silent", "restless_below_chance")} == {"0"}


def test_the_page_says_what_is_on_file():
    text = tables.PAGE.read_text(encoding="utf-8")
    assert tables.page(text) == text


def test_a_page_without_a_place_for_a_table_loses_nothing():
    whole = tables.PAGE.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="no table between '<!-- ZOO -->'"):
        tables.page(whole.replace("<!-- end of ZOO -->", ""))

"""Trials kept in the repository come back as they were, to six digits."""

import pytest

from benchmarks import archive, paper
from dilutron.experiments.store import Store, Trial

KNOWN = [
    (Trial("learning", {"n": 8, "alpha": 0.5}, 0), {"status": "converged", "mse": 0.123456789, "ranks": "0 1 5"}),
    (Trial("teacher", {"n": 8, "alpha": 0.5}, 0), {"status": "converged", "mse": 1e-7, "log_evidence": None}),
    (Trial("teacher", {"n": 8, "alpha": 0.5}, 1), {"status": "max_iter", "mse": float("inf"), "iterations": 7}),
]


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "one.sqlite")
    store.write_all(KNOWN)
    return store


def test_there_and_back(store, tmp_path):
    archive.keep(store, tmp_path / "kept")
    other = Store(tmp_path / "other.sqlite")
    other.write(*KNOWN[1])
    assert archive.restore(other, tmp_path / "kept") == 2
    rounded = {**KNOWN[0][1], "mse": 0.123457}
    assert other.known() == [(KNOWN[0][0], rounded), *KNOWN[1:]]


def test_the_same_rows_give_the_same_bytes(store, tmp_path):
    for name in ("first", "second"):
        archive.keep(store, tmp_path / name)
    files = sorted((tmp_path / "first").iterdir())
    assert [file.name for file in files] == ["learning.all.jsonl.gz", "teacher.all.jsonl.gz"]
    for file in files:
        assert file.read_bytes() == (tmp_path / "second" / file.name).read_bytes()


def test_trials_of_ep_that_had_not_converged_can_be_tried_again(tmp_path):
    store = Store(tmp_path / "one.sqlite")
    ended = {("ep", 0): "converged", ("ep", 1): "max_iter", ("ep", 2): "diverged", ("grvamp", 0): "max_iter"}
    for (method, instance), status in ended.items():
        store.write(Trial("network", {"method": method}, instance), {"status": status})
    restless = paper.restless(store)
    assert sorted(trial.instance for trial in restless) == [1, 2]
    store.forget(restless)
    assert len(store.known()) == 2

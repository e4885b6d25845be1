import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dilutron.experiments import store as store_module
from dilutron.experiments.store import FORMAT, Store, StoreError, Trial, write_csv

CELL = {"n": 16, "method": "ep"}


def trial(instance, cell=CELL):
    return Trial("teacher", cell, instance)


def row(**more):
    return {"status": "converged", **more}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "deep" / "trials.sqlite")


def program(code, *arguments):
    """Another process, with the names of this module that it needs."""
    head = "import sys, time\nfrom dilutron.experiments.store import Store, Trial\nCELL = {'n': 16, 'method': 'ep'}\n"
    command = [sys.executable, "-c", head + code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def sound(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@contextmanager
def as_nobody():
    """Root may write anything: be somebody else for a while."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder():
    """A folder that everybody may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


def test_rows_come_back_flat_in_order_and_of_the_cells_asked_for(store):
    other = {"method": "amp", "n": 16}
    for instance in (1, 0):
        store.write(trial(instance), row(mse=0.5 + instance, ranks="0 3"))
        store.write(trial(instance, other), row(mse=float("nan")))
    assert store.rows("teacher", [CELL]) == [
        {"n": 16, "method": "ep", "instance": i, "status": "converged", "mse": 0.5 + i, "ranks": "0 3"} for i in (0, 1)
    ]
    assert [r["method"] for r in store.rows("teacher", [CELL, other])] == ["ep", "ep", "amp", "amp"]
    assert len(store.rows("teacher")) == 4
    assert store.rows("network") == []


def test_the_first_row_of_a_trial_stays(store):
    assert store.write(trial(0), row(mse=1.0))
    assert not store.write(trial(0, {"method": "ep", "n": 16}), row(mse=2.0))  # the same cell, whatever its order
    assert [r["mse"] for r in store.rows("teacher")] == [1.0]


def test_missing_and_forgotten_trials(store):
    trials = [trial(i) for i in range(4)]
    store.write(trials[1], row())
    store.write(trials[2], {"status": "error"})
    assert store.missing([*trials, *trials]) == [trials[0], trials[3]]
    assert [status for _, status in store.ended(trials)] == [None, "converged", "error", None]
    assert trials[1] in store
    assert trials[0] not in store
    store.forget([trials[2], trials[3]])
    assert [t.instance for t in store.missing(trials)] == [0, 2, 3]


def test_opening_again_keeps_rows(store):
    store.write(trial(0), row())
    assert len(Store(store.path).rows("teacher")) == 1


def test_several_processes_make_and_fill_one_store(tmp_path):
    code = """
store = Store(sys.argv[1])
print(sum(store.write(Trial("teacher", CELL, i), {"status": "converged", "by": sys.argv[2]}) for i in range(100)))
"""
    others = [program(code, tmp_path / "trials.sqlite", name) for name in "abc"]
    new = [int(other.communicate(timeout=60)[0]) for other in others]
    rows = Store(tmp_path / "trials.sqlite").rows("teacher")
    assert sum(new) == 100
    assert [r["instance"] for r in rows] == list(range(100))
    assert sound(tmp_path / "trials.sqlite")


def test_what_was_written_survives_kill_9(tmp_path):
    code = """
store = Store(sys.argv[1])
for i in range(10**6):
    store.write(Trial("teacher", CELL, i), {"status": "converged", "filler": "x" * 2000})
    print(i, flush=True)
"""
    writer = program(code, tmp_path / "trials.sqlite")
    for line in writer.stdout:
        if int(line) >= 40:
            writer.send_signal(signal.SIGKILL)
            break
    told = [int(line) for line in writer.communicate()[0].splitlines() if line.strip()]
    rows = Store(tmp_path / "trials.sqlite").rows("teacher")
    assert [r["instance"] for r in rows] == list(range(len(rows)))
    assert len(rows) > max([40, *told])
    assert {len(r["filler"]) for r in rows} == {2000}
    assert sound(tmp_path / "trials.sqlite")


def test_a_foreign_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "trials.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE patients (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="no store of trials"):
        Store(path)
    assert path.read_bytes() == before


def test_another_format_is_refused_and_left_alone(store):
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute("UPDATE about SET value = 'dilutron trials 9' WHERE name = 'format'")
    before = store.path.read_bytes()
    with pytest.raises(StoreError, match=f"dilutron trials 9.*{FORMAT}.*new store"):
        Store(store.path)
    assert store.path.read_bytes() == before


@pytest.mark.parametrize("content", [b"no database at all " * 100, b"SQLite format 3\0" + b"\xff" * 4080])
def test_a_file_that_is_no_database_is_refused(tmp_path, content):
    path = tmp_path / "trials.sqlite"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="cannot be used"):
        Store(path)
    assert path.read_bytes() == content


def test_a_path_that_cannot_be(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot be written: (Not a directory|File exists)"):
        Store(tmp_path / "file" / "trials.sqlite")
    with pytest.raises(StoreError, match="unable to open"):
        Store(tmp_path)


def test_a_read_only_folder_or_file_is_refused(open_folder):
    Store(open_folder / "trials.sqlite")
    with as_nobody(), pytest.raises(StoreError, match="cannot be written: Permission denied"):
        Store(open_folder / "other.sqlite")
    with as_nobody(), pytest.raises(StoreError, match="cannot be written: Permission denied"):
        Store(open_folder / "deeper" / "trials.sqlite")
    os.chmod(open_folder, 0o777)
    os.chmod(open_folder / "trials.sqlite", 0o444)
    with as_nobody(), pytest.raises(StoreError, match="readonly database"):
        Store(open_folder / "trials.sqlite")


def test_a_full_disk_tears_no_row(store, monkeypatch):
    opened = Store._opened

    @contextmanager
    def small(self):
        with opened(self) as connection:
            connection.execute("PRAGMA max_page_count = 12")
            yield connection

    monkeypatch.setattr(Store, "_opened", small)
    with pytest.raises(StoreError, match="full"):
        any(not store.write(trial(i), row(filler="x" * 1000)) for i in range(1000))
    monkeypatch.undo()
    kept = [r["instance"] for r in store.rows("teacher")]
    assert 0 < len(kept) < 50
    assert kept == list(range(len(kept)))
    assert sound(store.path)
    assert store.write(trial(len(kept)), row())


def test_no_run_begins_that_would_fill_the_disk(store):
    store.check_room(1000)
    with pytest.raises(StoreError, match=r"MB free, \d+ rows need about"):
        store.check_room(10**15)


def test_a_damaged_row_is_named(store):
    store.write(trial(0), row())
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute("UPDATE trials SET outcome = '{\"status\": '")
    with pytest.raises(StoreError, match="damaged row of kind 'teacher'"):
        store.rows("teacher")


@pytest.mark.skipif(sys.platform == "win32", reason="no locks on bytes")
def test_a_claim_holds_against_other_processes_and_ends_with_its_own(store):
    code = """
with Store(sys.argv[1]).claims() as claims:
    print(claims.take(Trial("teacher", CELL, 0)), flush=True)
    time.sleep(60)
"""
    with store.claims() as claims:
        other = program(code, store.path)
        assert other.stdout.readline() == "True\n"
        assert not claims.take(trial(0))
        assert claims.take(trial(1))
        other.kill()
        other.communicate()
        assert claims.take(trial(0))


def test_a_table_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    target = tmp_path / "rows.csv"
    write_csv([{"a": 1.0 / 3.0, "b": "x"}, {"a": 2, "c": True}], target)
    assert target.read_text() == "a,b,c\n0.333333,x,\n2,,True\n"

    def full(value):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store_module, "_brief", full)
    with pytest.raises(OSError, match="No space"):
        write_csv([{"a": 1}], target)
    assert target.read_text().startswith("a,b,c\n")
    assert os.listdir(tmp_path) == ["rows.csv"]


def test_many_rows_at_once_and_all_of_them_back(store):
    known = [(trial(k), row(mse=0.1 * k)) for k in range(5)]
    store.write(*known[2])
    assert store.write_all(known) == 4
    assert store.known() == known

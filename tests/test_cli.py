import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from dilutron.experiments import outputs, paper, trials
from dilutron.experiments.runner import WorkersError
from dilutron.experiments.store import Store, StoreError
from tests.test_runner import eventually, gone, here

pytest.importorskip("typer")
pytest.importorskip("rich")
pytest.importorskip("matplotlib")

from dilutron import cli

ROOT = Path(__file__).resolve().parents[1]
SMALL = {"n": 16, "rho": 0.25, "eta": 1.0, "patterns": "iid"}
TINY = paper.Item("tiny", "A tiny table", (paper.grid("teacher", **SMALL, alpha=2.0, method=("ep", "amp")),), "errors")
BAD = paper.Item("bad", "Trials that fail", (paper.grid("teacher", n=16, method="ep"),), "errors")


def publish(items, store, folder):
    paths = [Path(folder) / f"{item.name}.txt" for item in items]
    for item, path in zip(items, paths, strict=True):
        path.write_text(f"{len(store.rows('teacher', item.sweeps[0].cells))} rows\n")
    return paths


@pytest.fixture
def dilutron(in_process, monkeypatch):
    """The command on tiny items."""
    monkeypatch.setattr(paper, "ITEMS", {"tiny": TINY, "bad": BAD})
    monkeypatch.setattr(outputs, "publish", publish)
    monkeypatch.setattr(cli, "processes", lambda jobs: here)
    return in_process


def one_line(text):
    return text.startswith("dilutron: ") and text.count("\n") == 1


def test_an_item_becomes_rows_and_files(dilutron, tmp_path):
    code, out, err = dilutron("reproduce", "tiny", "--instances", "3", "--out", "deep/results")
    assert code == 0
    assert out == "tiny: 6 of 6 trials\n  deep/results/tiny.txt\n"
    assert err.startswith("6 of 6 trials run in 0:0")
    assert err.count("\n") == 1
    assert (tmp_path / "deep/results/tiny.txt").read_text() == "6 rows\n"
    code, out, err = dilutron("reproduce", "tiny", "--instances", "4", "--out", "deep/results")
    assert (code, err[:19]) == (0, "2 of 2 trials run i")
    code, out, err = dilutron("reproduce", "tiny", "--instances", "4", "--out", "deep/results")
    assert (code, err) == (0, "")


def test_quick_runs_ten_instances_and_only_the_methods_asked_for(dilutron, tmp_path):
    assert dilutron("reproduce", "tiny", "--quick", "--only", "amp")[0] == 0
    rows = Store(tmp_path / "results/trials.sqlite").rows("teacher")
    assert [row["method"] for row in rows] == ["amp"] * 10


def test_failed_trials_are_told_and_tried_again_when_asked(dilutron, monkeypatch):
    code, out, _ = dilutron("reproduce", "all", "--instances", "2")
    assert code == 1
    assert "tiny: 4 of 4 trials" in out
    assert "failed: 2 trials; --retry-failed" in out
    assert "error: teacher n=16 ep #1: KeyError: 'alpha'" in out
    assert dilutron("reproduce", "all", "--instances", "2")[2] == ""
    assert "2 of 2 trials run" in dilutron("reproduce", "all", "--instances", "2", "--retry-failed")[2]


def test_the_budget_leaves_out_and_says_so(dilutron):
    code, out, _ = dilutron("reproduce", "tiny", "--instances", "500", "--budget", "0.01")
    assert code == 0
    done = int(out.split()[1])
    assert 0 < done < 1000
    for method, first in (("amp", done // 2), ("ep", (done + 1) // 2)):
        assert f"left out for lack of time: {500 - first} trials of {method}, from instance {first} on" in out


def test_a_bar_in_a_terminal(dilutron, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    code, _, err = dilutron("reproduce", "tiny", "--instances", "2")
    assert code == 0
    assert "4/4" in err
    assert "/min" in err
    assert "left" in err
    assert "━" in err
    assert "iid n=16 a=2 amp #1" in err


@pytest.mark.parametrize(
    ("item", "label"),
    [
        ("table-1", "mvn n=256 a=0.5 grvamp-paper #12"),
        ("table-3", "mvn a=4 eta=.95 grvamp #12"),
        ("table-4", "iid a=2.5 eta=.95 learn ep #12"),
        ("table-6", "distance a=6 eta=.9 learn ep #12"),
    ],
)
def test_a_trial_in_few_words(item, label):
    assert label in {cli._label(trial) for trial in paper.ITEMS[item].trials(13)}


def test_rows_of_another_program_are_kept_told_and_computed_anew_when_asked(dilutron, tmp_path, monkeypatch):
    run = partial(dilutron, "reproduce", "tiny", "--instances", "3")
    run()
    store = Store(tmp_path / "results/trials.sqlite")
    before = store.rows("teacher")
    monkeypatch.setitem(trials.PROGRAMS, "amp", 99)
    code, _, err = run()
    assert code == 0
    assert one_line(f"dilutron: {err}")
    assert err.startswith("3 rows of amp were made by another program, version or options: they are kept; --again")
    assert store.rows("teacher") == before
    assert run("--again")[2].startswith("3 of 3 trials run")
    assert {row["program"].split()[1] for row in store.rows("teacher") if row["method"] == "amp"} == {"99"}
    assert run() == run("--again")
    monkeypatch.setattr("dilutron.__version__", "99.0")
    assert run()[2].startswith("6 rows of ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "no item nonsense; there are tiny, bad, and all"),
        ([], "no item given; there are tiny, bad, and all"),
        (["tiny", "--only", "ep,magic"], "no method magic in these items; there are ep, amp"),
        (["tiny", "--quick", "--instances", "7"], "exclude each other"),
        (["tiny", "--budget", "0"], "--budget must be positive"),
        (["tiny", "--budget", "nan"], "--budget must be positive"),
        (["tiny", "--out", "file"], "file cannot be written"),
        (["tiny", "--out", "foreign"], "is no store|cannot be used"),
        (["tiny", "--dask", "tcp://127.0.0.1:1"], "no Dask cluster"),
    ],
)
def test_what_cannot_be_done_is_one_line_before_any_work(dilutron, tmp_path, monkeypatch, arguments, message):
    (tmp_path / "file").touch()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign/trials.sqlite").write_text("something else " * 100)

    def unreachable(address, jobs):
        raise WorkersError("no Dask cluster")

    monkeypatch.setattr(cli, "cluster", unreachable)
    monkeypatch.setattr(cli, "run", None)
    code, out, err = dilutron("reproduce", *arguments)
    assert (code, out) == (2, "")
    assert one_line(err)
    assert any(part in err for part in message.split("|"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--instances", "0"],
        ["--instances", "-3"],
        ["--instances", "many"],
        ["--jobs", "0"],
        ["--budget", "x"],
        ["--wat"],
    ],
)
def test_options_out_of_range_are_refused(dilutron, tmp_path, arguments):
    code, out, err = dilutron("reproduce", "tiny", *arguments)
    assert (code, out) == (2, "")
    assert arguments[0] in err
    assert "Traceback" not in err
    assert not (tmp_path / "results").exists()


def test_a_disk_that_fills_up_while_publishing_is_one_line(dilutron, monkeypatch):
    def full(items, store, folder):
        raise OSError(28, "No space left on device", "results/tiny.png")

    monkeypatch.setattr(outputs, "publish", full)
    code, _, err = dilutron("reproduce", "tiny", "--instances", "1")
    assert code == 1
    assert one_line(err.splitlines(keepends=True)[-1])
    assert "No space left on device: 'results/tiny.png'; 2 of the rows" in err


@pytest.mark.parametrize("readable", [True, False])
def test_a_store_that_fails_on_the_way_is_one_line(dilutron, monkeypatch, readable):
    write = Store.write

    def full(*arguments):
        raise StoreError("the store cannot be used: disk full")

    def filling(self, trial, row):
        if trial.instance == 1:
            if not readable:
                monkeypatch.setattr(Store, "ended", full)
            full()
        return write(self, trial, row)

    monkeypatch.setattr(Store, "write", filling)
    code, _, err = dilutron("reproduce", "tiny", "--instances", "3")
    assert code == 1
    assert one_line(err.splitlines(keepends=True)[-1])
    assert f"disk full; {'2 of the rows asked for' if readable else 'rows written so far'} are kept in" in err


def test_figures_are_known_to_be_possible_before_any_work(dilutron, monkeypatch):
    monkeypatch.setattr(cli, "find_spec", lambda name: None)
    monkeypatch.setattr(cli, "run", None)
    code, _, err = dilutron("reproduce", "tiny")
    assert (code, err) == (2, "dilutron: figures need matplotlib: pip install 'dilutron[plot]'\n")


def test_items_and_their_sizes(dilutron):
    code, out, _ = dilutron("items", "--instances", "10")
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()] == [["tiny", "20"], ["bad", "10"], ["all", "30"]]
    assert "A tiny table" in out


def test_version_and_help(dilutron):
    from dilutron import __version__

    assert dilutron("--version")[:2] == (0, f"dilutron {__version__}\n")
    for command in ("items", "reproduce"):
        code, out, _ = dilutron(command, "--help")
        assert code == 0
        assert f"Examples:\n    dilutron {command}" in out


def script(code, *arguments, **more):
    """The command in a process of its own, and of its own group as in a terminal."""
    head = "import sys\nfrom tests.test_cli import TINY, publish, outputs, paper, cli\n"
    head += "paper.ITEMS, outputs.publish = {'tiny': TINY}, publish\n"
    command = [sys.executable, "-c", head + code, *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **more
    )


def group(leader):
    """The processes of a group that are still there."""
    stats = ((path.parent.name, path) for path in Path("/proc").glob("[0-9]*/stat"))
    for pid, path in stats:
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[2]) == leader and not gone(int(pid)):
            yield int(pid)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("signals", [signal.SIGINT, signal.SIGKILL])
def test_stopped_by_a_signal_it_keeps_its_rows_and_leaves_nothing_running(tmp_path, signals):
    command = script("cli.main()", "reproduce", "tiny", "--instances", "5000", "--out", tmp_path)
    store = tmp_path / "trials.sqlite"
    eventually(lambda: store.exists() and len(Store(store).rows("teacher")) > 5, 30.0)
    began = time.monotonic()
    if signals == signal.SIGINT:
        os.killpg(command.pid, signals)  # as a terminal does: to the workers as well
    else:
        command.send_signal(signals)
    _, err = command.communicate(timeout=120)
    assert time.monotonic() - began < 10.0
    eventually(lambda: not list(group(command.pid)))
    rows = Store(store).rows("teacher")
    if signals == signal.SIGINT:
        assert command.returncode == 130
        last = err.splitlines(keepends=True)[-1]
        assert one_line(last)
        assert f"stopped; {len(rows)} of the rows asked for are kept in {store}: the same command goes on" in last
        assert "Traceback" not in err
    assert {row["status"] for row in rows} <= {"converged", "max_iter"}


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on the size of files")
def test_a_full_disk_in_the_middle_is_one_line_and_tears_nothing(tmp_path):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))\ncli.main()"
    command = script(limit, "reproduce", "tiny", "--instances", "5000", "--jobs", "1", "--out", tmp_path)
    _, err = command.communicate(timeout=60)
    assert command.returncode == 1
    assert "Traceback" not in err
    assert one_line(err.splitlines(keepends=True)[-1])
    rows = Store(tmp_path / "trials.sqlite").rows("teacher")
    assert f"{len(rows)} of the rows asked for are kept" in err
    assert len(rows) > 5


def test_without_typer_the_extra_is_named():
    code = "import sys; sys.modules['typer'] = None; from dilutron.cli import main"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "dilutron: the command line needs typer: pip install 'dilutron[cli]'\n"


def test_the_module_is_a_command():
    command = [sys.executable, "-m", "dilutron", "reproduce", "table-9"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("dilutron: no item table-9; there are figure-2, ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "--colour"], "No such option: --colour"),
        (["fitt"], "No such command 'fitt'"),
        (["fit", "x.csv"], "Missing option '--label'"),
        (["items", "--instances", "0"], "Invalid value for '--instances'"),
    ],
)
def test_a_wrong_flag_gets_one_line(arguments, words, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    (line,) = said.err.splitlines()
    assert line.startswith("dilutron: ")
    assert words in line
    assert line.endswith(" --help")

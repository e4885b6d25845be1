"""The commands over data files: what they print, write, and end with."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")
pytest.importorskip("polars")

from dilutron import runs
from dilutron.commands import answers, saying
from dilutron.runs import holding_out

TOY = ("--rows", "80", "--features", "8", "--matter", "2", "--seed", "2")
QUICK = ("--label", "class", "--id", "sample", "--expect", "2")


@pytest.fixture
def dilutron(in_process):
    return in_process


@pytest.fixture
def toy(dilutron):
    assert dilutron("simulate", *TOY, "--out", "toy.csv")[0] == 0
    return dilutron


def one_line(text):
    """Plain lines of progress may come before the error."""
    *before, last = text.splitlines()
    return last.startswith("dilutron: ") and all("%" in line for line in before)


def test_from_a_table_to_an_answer_and_predictions(toy, tmp_path):
    code, out, err = toy("fit", "toy.csv", *QUICK, "--folds", "2", "--positive", "B", "--out", "deep/run")
    assert code == 0
    truth = json.loads((tmp_path / "toy.csv.truth.json").read_text())
    assert out.startswith("About 2 of 8 features matter for 'class'. The most probable:\n")
    for name in truth["weights"]:
        assert f"  {name}\n" in out
    assert "A positive coefficient speaks for 'B'." in out
    assert "Rows held out in 2 folds: " in out
    assert any(f"({name})" in out for name in truth["wrong_labels"])
    assert str(os.path.join("deep", "run", "features.csv")) in out
    assert err.splitlines()[0] == "  0 %  reading toy.csv"
    assert "held-out fold 2 of 2" in err
    code, out, err = toy("predict", "deep/run", "toy.csv")
    assert (code, err) == (0, "")
    rows = list(csv.DictReader(out.splitlines()))
    assert list(rows[0]) == ["row", "id", "p(A)", "p(B)", "predicted"]
    given = [line.split(",")[1] for line in (tmp_path / "toy.csv").read_text().splitlines()[1:]]
    assert np.mean([row["predicted"] == label for row, label in zip(rows, given, strict=True)]) > 0.85


def test_the_page_is_made_and_made_again(toy, tmp_path):
    pytest.importorskip("dilutron.report")
    code, out, _ = toy("fit", "toy.csv", *QUICK, "--folds", "0", "--out", "run")
    assert code == 0
    assert "Read first: run/report.html" in out
    assert "No row was held out" in out
    (tmp_path / "run/report.html").unlink()
    assert toy("report", "run")[:2] == (0, "run/report.html\n")
    assert (tmp_path / "run/report.html").is_file()
    code, _, err = toy("report", "toy.csv")
    assert (code, err) == (2, "dilutron: toy.csv is not a run of `dilutron fit`: toy.csv/run.json is missing.\n")


def test_damaged_runs_have_no_page(toy, tmp_path):
    pytest.importorskip("dilutron.report")
    assert toy("fit", "toy.csv", *QUICK, "--folds", "0", "--out", "run")[0] == 0
    facts = json.loads((tmp_path / "run/run.json").read_text())
    for name, text in (
        ("features.csv", b"garbage"),
        ("labels.csv", b"row,id\n1,\xe9\n"),
        ("run.json", json.dumps(facts | {"data": {}}).encode()),
    ):
        before = (tmp_path / "run" / name).read_bytes()
        (tmp_path / "run" / name).write_bytes(text)
        code, out, err = toy("report", "run")
        assert (code, out) == (2, "")
        assert one_line(err)
        assert err.startswith(f"dilutron: run/{name} is damaged: ")
        (tmp_path / "run" / name).write_bytes(before)
    assert toy("report", "run")[0] == 0


def test_three_classes_count_no_feature_twice(dilutron, tmp_path):
    x = np.random.default_rng(0).normal(size=(90, 2))
    labels = np.array(["u", "v", "w"])[np.digitize(x[:, 0], [-0.5, 0.5])]
    lines = [f"{label},{a},{b}" for label, (a, b) in zip(labels, x, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["y,a,b", *lines]))
    code, out, _ = dilutron("fit", "t.csv", "--label", "y", "--expect", "1", "--folds", "2", "--out", "run")
    assert code == 0
    assert out.startswith(
        "1 of 2 features can be named for 'y': each is more likely than not to matter for telling at least one class "
        "from the others. The most probable:\n"
    )


SCORES = {
    **{"folds": 5, "converged": 5, "accuracy": 0.5, "accuracy_se": 0.1},
    **{"auc": 0.8, "auc_se": 0.01, "majority": 0.5},
}


def test_folds_whose_fit_did_not_settle_are_told():
    assert answers._held_out_words(SCORES | {"converged": 3})[1:] == [
        "Of the 5 fits to the other folds, 2 did not settle."
    ]


@pytest.mark.parametrize(
    ("changes", "chance"), [({}, False), ({"auc_se": None}, True), ({"auc": None, "auc_se": None}, True)]
)
def test_an_unknown_error_of_the_auc_is_no_small_one(changes, chance):
    scores = SCORES | changes
    first, *more = answers._held_out_words(scores)
    assert ("AUC not known" in first) == (scores["auc"] is None)
    assert more == ["That is no better than chance: do not rely on these features."] * chance


def test_a_page_that_fails_loses_no_run(toy, tmp_path, monkeypatch):
    report = pytest.importorskip("dilutron.report")
    monkeypatch.setattr(report, "write", lambda folder: (_ for _ in ()).throw(ValueError("no ink")))
    code, _, err = toy("fit", "toy.csv", *QUICK, "--folds", "0", "--out", "run")
    assert code == 1
    assert "the run is in run, but its page could not be made: no ink" in err
    assert (tmp_path / "run/run.json").is_file()


def test_json_for_scripts(toy):
    code, out, _ = toy("fit", "toy.csv", *QUICK, "--folds", "2", "--out", "run", "--json")
    assert code == 0
    said = json.loads(out)
    assert said["run"] == "run"
    assert said["result"]["status"] == "converged"
    assert len(said["features"]) == 8
    assert said["held_out"]["folds"] == 2
    assert {"row", "id", "given", "suggested"} <= set(said["suspects"][0])
    code, out, _ = toy("predict", "run", "toy.csv", "--json")
    assert [row["row"] for row in json.loads(out)] == list(range(1, 81))
    code, out, _ = toy("compare-methods", "toy.csv", "--label", "class", "--id", "sample", "--folds", "2", "--json")
    assert code == 0
    assert [row["method"] for row in json.loads(out)] == ["ep", "vamp", "amp", "r1bcs"]


def test_a_fit_to_noise_says_that_it_is_none(dilutron, tmp_path):
    rng = np.random.default_rng(0)
    lines = [
        f"{label},{','.join(map(str, row))}" for label, row in zip("uv" * 20, rng.normal(size=(40, 3)), strict=True)
    ]
    (tmp_path / "noise.csv").write_text("\n".join(["y,a,b,c", *lines]))
    code, out, _ = dilutron("fit", "noise.csv", "--label", "y", "--expect", "1", "--folds", "2", "--out", "run")
    assert code == 0
    assert "That is no better than chance: do not rely on these features." in out


def test_where_no_feature_can_be_named_the_list_says_so(dilutron):
    made = ("simulate", "--rows", "30", "--features", "200", "--matter", "20", "--patterns", "equicorrelated")
    assert dilutron(*made, "--out", "toy.csv")[0] == 0
    options = ("--label", "class", "--id", "sample", "--folds", "0", "--out", "run")
    code, out, _ = dilutron("fit", "toy.csv", *options)
    assert code == 0
    assert "None of these is more likely than not to matter: an order in which to look, not a finding.\n" in out
    with open("run/features.csv", newline="") as file:
        assert max(float(row["inclusion"]) for row in csv.DictReader(file)) < 0.5


def test_methods_in_a_table(toy):
    arguments = ("compare-methods", "toy.csv", "--label", "class", "--id", "sample", "--folds", "2")
    code, out, err = toy(*arguments, "--only", "vamp", "--only", "ep")
    assert code == 0
    head, *rows = out.splitlines()
    assert head.split() == ["method", "accuracy", "AUC", "CPU", "s", "features", "converged"]
    assert [row.split()[0] for row in rows] == ["vamp", "ep"]
    assert "50 %  ep: held-out fold 1 of 2" in err
    code, _, err = toy(*arguments, "--only", "magic")
    assert (code, err) == (2, "dilutron: no method magic; there are ep, vamp, amp, r1bcs\n")


def test_methods_that_all_fail_end_with_1(toy, monkeypatch):
    def failing(model, *arguments):
        raise ValueError("too hard")

    monkeypatch.setattr(runs.comparing, "held_out", failing)
    arguments = ("compare-methods", "toy.csv", "--label", "class", "--id", "sample", "--only", "ep", "--only", "amp")
    for form in ((), ("--json",)):
        code, out, err = toy(*arguments, *form)
        assert code == 1
        assert out.count("too hard") == 2, "each is still told"
        assert err.splitlines()[-1] == "dilutron: every method failed."

    def one_fails(model, *arguments):
        return failing(model) if isinstance(model, runs.METHODS["amp"]) else holding_out.held_out(model, *arguments)

    monkeypatch.setattr(runs.comparing, "held_out", one_fails)
    assert toy(*arguments, "--folds", "2")[0] == 0


def test_seeds_beyond_those_of_the_shuffle_are_refused_before_the_work(toy):
    code, out, err = toy("fit", "toy.csv", *QUICK, "--seed", str(2**32), "--out", "run")
    assert (code, out) == (2, "")
    assert "--seed" in err
    assert "reading" not in err
    assert toy("fit", "toy.csv", *QUICK, "--folds", "2", "--seed", str(2**32 - 1), "--out", "run")[0] == 0


def test_paths_for_scripts(dilutron):
    code, out, _ = dilutron("simulate", *TOY, "--out", "toy.csv", "--json")
    assert (code, json.loads(out)) == (0, {"table": "toy.csv", "truth": "toy.csv.truth.json"})
    assert dilutron("fit", "toy.csv", *QUICK, "--folds", "0", "--out", "run")[0] == 0
    code, out, _ = dilutron("report", "run", "--json")
    assert (code, json.loads(out)) == (0, {"report": os.path.join("run", "report.html")})


def test_predictions_are_json_or_a_file(toy, tmp_path):
    code, out, err = toy("predict", "run", "toy.csv", "--json", "--out", "p.csv")
    assert (code, out) == (2, "")
    assert err.startswith("dilutron: --json and --out exclude each other: --out writes CSV")
    assert not (tmp_path / "p.csv").exists()


def test_predictions_to_a_file(toy, tmp_path):
    assert toy("fit", "toy.csv", *QUICK, "--folds", "0", "--out", "run")[0] == 0
    lines = (tmp_path / "toy.csv").read_text().splitlines()
    (tmp_path / "new.csv").write_text("".join(f"{line},{'extra' if i == 0 else '?'}\n" for i, line in enumerate(lines)))
    code, out, err = toy("predict", "run", "new.csv", "--out", "p.csv")
    assert (code, out) == (0, "")
    assert err == "new.csv: ignored columns that the fit does not know, 1: 'extra'\n80 rows: p.csv\n"
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 81
    code, _, err = toy("predict", "run", "new.csv", "--out", "p.csv")
    assert (code, err) == (2, "dilutron: p.csv exists: choose another file, or --force to replace it.\n")
    assert toy("predict", "run", "new.csv", "--out", "p.csv", "--force")[0] == 0
    (tmp_path / "few.csv").write_text("sample,x1,x2,x3\ns1,1,2,3\n")
    code, _, err = toy("predict", "run", "few.csv")
    assert code == 2
    assert err == (
        "dilutron: few.csv lacks 5 of the 8 columns of the fit: 'x4', 'x5', 'x6', 'x7', 'x8'. Add or rename them, or "
        "fit again without them (--drop).\n"
    )
    code, _, err = toy("predict", "run", "new.csv", "--id", "x1")
    assert (code, err) == (
        2,
        "dilutron: new.csv: 'x1' is given as --id and is a feature of the fit: choose another column.\n",
    )
    code, _, err = toy("predict", "toy.csv", "new.csv")
    assert code == 2
    assert "toy.csv is not a run of `dilutron fit`" in err


def test_a_simulated_table_has_its_truth(dilutron, tmp_path):
    code, out, _ = dilutron("simulate", *TOY, "--flip", "0.1", "--out", "toy.csv")
    assert code == 0
    assert "the 2 that matter and the 8 wrong labels: toy.csv.truth.json" in out
    truth = json.loads((tmp_path / "toy.csv.truth.json").read_text())
    rows = list(csv.DictReader((tmp_path / "toy.csv").read_text().splitlines()))
    assert len(rows) == 80
    sums = [sum(weight * float(row[name]) for name, weight in truth["weights"].items()) for row in rows]
    wrong = [row["sample"] for row, value in zip(rows, sums, strict=True) if (value >= 0.0) != (row["class"] == "B")]
    assert wrong == truth["wrong_labels"]
    code, _, err = dilutron("simulate", *TOY, "--out", "toy.csv")
    assert (code, err) == (2, "dilutron: toy.csv exists: choose another file, or --force to replace it.\n")
    before = (tmp_path / "toy.csv").read_text()
    assert dilutron("simulate", *TOY, "--flip", "0.1", "--out", "toy.csv", "--force")[0] == 0
    assert (tmp_path / "toy.csv").read_text() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--matter", "8"), "--matter must be below --features, got 8 of 8"),
        (("--features", "9" * 400), "--rows times --features must be at most 1e+09"),
        (("--patterns", "plaid"), "--patterns must be one of iid, mvn"),
        (("--out", "nowhere/toy.csv"), "nowhere/toy.csv cannot be written: there is no folder nowhere."),
    ],
)
def test_truths_that_cannot_be_made(dilutron, arguments, message):
    code, _, err = dilutron("simulate", *TOY, "--out", "toy.csv", *arguments)
    assert code == 2
    assert err.startswith(f"dilutron: {message}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing.csv", "--label", "class"), "nothing.csv does not exist."),
        (("tot.csv", "--label", "class"), "tot.csv does not exist; perhaps 'toy.csv'."),
        (("toy.csv", "--label", "clas"), "toy.csv has no column 'clas', given as --label; perhaps 'class'."),
        (
            ("toy.csv", "--label", "class"),
            "toy.csv: row 1, column 'sample' is 's1', not a number (80 such values there)",
        ),
        (
            ("toy.csv", "--label", "x1", "--drop", "sample", "--drop", "class"),
            "toy.csv: label column 'x1' holds 80 different numbers",
        ),
        (("toy.csv", *QUICK, "--positive", "C"), "toy.csv: --positive 'C' must be one of two classes"),
        (("toy.csv", *QUICK, "--expect", "9"), "toy.csv: --expect 9 must be above 0 and below the 8 features"),
        (("toy.csv", *QUICK, "--log"), "toy.csv: row 1, column 'x1' is "),
        (("toy.csv", *QUICK, "--folds", "1"), "--folds must be 0, for none, or at least 2"),
        (("toy.csv", *QUICK, "--fdr", "0"), "--fdr must be above 0 and below 1, got 0"),
        (("toy.csv", *QUICK, "--out", "toy.csv"), "toy.csv is a file: choose another folder."),
        (("toy.csv", *QUICK, "--out", "toy.csv/run"), "toy.csv/run cannot be written: Not a directory"),
        (("toy.csv", *QUICK, "--out", "full"), "full exists and is no run: choose another folder."),
        (("colour.csv", "--label", "y"), "colour.csv: row 1, column '?[31mred' is 'u', not a number"),
    ],
)
def test_bad_requests_are_one_line_and_leave_nothing(toy, tmp_path, arguments, message):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/thesis").touch()
    (tmp_path / "colour.csv").write_text("y,\x1b[31mred\na,u\nb,v\n")
    before = sorted(tmp_path.iterdir())
    code, out, err = toy("fit", *(() if "--out" in arguments else ("--out", "run")), *arguments)
    assert (code, out) == (2, "")
    assert one_line(err)
    assert err.splitlines()[-1].startswith(f"dilutron: {message}")
    assert sorted(tmp_path.iterdir()) == before


def test_a_run_is_not_replaced_unasked(toy):
    quick = ("fit", "toy.csv", *QUICK, "--folds", "0", "--out", "run")
    assert toy(*quick)[0] == 0
    code, _, err = toy(*quick)
    assert code == 2
    assert err == "dilutron: run holds a run already: choose another folder, or --force to replace it.\n"
    assert toy(*quick, "--force")[0] == 0


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(toy, tmp_path):
    (tmp_path / "mine").mkdir(mode=0o500)
    code, _, err = toy("fit", "toy.csv", *QUICK, "--out", "mine/run")
    assert (code, err) == (2, "dilutron: mine/run cannot be written: Permission denied: choose another folder.\n")


def test_a_file_that_may_not_be_written_is_known_before_the_work(toy, monkeypatch):
    monkeypatch.setattr(saying.os, "access", lambda place, how, **more: how != os.W_OK)
    for command in (("predict", "run", "toy.csv"), ("simulate",)):
        code, _, err = toy(*command, "--out", "new.csv")
        assert (code, err) == (2, "dilutron: new.csv cannot be written: Permission denied: choose another folder.\n")


def test_a_full_disk_is_one_line(toy, tmp_path, monkeypatch):
    def full(*arguments, **keywords):
        raise OSError(28, "No space left on device", "run/features.csv")

    monkeypatch.setattr(runs.folder, "write_csv", full)
    code, _, err = toy("fit", "toy.csv", *QUICK, "--folds", "0", "--out", "run")
    assert code == 1
    assert err.splitlines()[-1] == "dilutron: run/features.csv: No space left on device; nothing was written"
    assert not list(tmp_path.glob("*run*"))


def test_ctrl_c_in_the_middle(toy, tmp_path, monkeypatch):
    def interrupted(*arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(runs.making, "held_out", interrupted)
    code, out, err = toy("fit", "toy.csv", *QUICK, "--out", "run")
    assert (code, out) == (130, "")
    assert err.splitlines()[-1] == "dilutron: stopped; nothing was written"
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_real_ctrl_c(tmp_path):
    here = {"cwd": tmp_path, "text": True, "stderr": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-m", "dilutron"]
    wide = ["simulate", "--rows", "300", "--features", "800", "--matter", "20", "--out", "wide.csv"]
    subprocess.run([*command, *wide], check=True, **here)
    before = sorted(tmp_path.iterdir())
    with subprocess.Popen(
        [*command, "fit", "wide.csv", "--label", "class", "--id", "sample", "--out", "run"], **here
    ) as job:
        assert job.stderr.readline() == "  0 %  reading wide.csv\n"
        assert "fitting" in job.stderr.readline()
        time.sleep(0.3)
        job.send_signal(signal.SIGINT)
        _, err = job.communicate(timeout=120)
    assert (job.returncode, err.splitlines()[-1]) == (130, "dilutron: stopped; nothing was written")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("module", ["numpy._core", "scipy", "typer"])
def test_a_real_ctrl_c_while_modules_are_loaded(tmp_path, module):
    command = [sys.executable, "-X", "importtime", "-m", "dilutron", "fit", "toy.csv", "--label", "y", "--out", "run"]
    with subprocess.Popen(command, cwd=tmp_path, text=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as job:
        while f" {module}" not in job.stderr.readline():
            assert job.poll() is None
        job.send_signal(signal.SIGINT)
        out, err = job.communicate(timeout=60)
    assert (job.returncode, out) == (130, "")
    assert all(line.startswith("import time:") for line in err.splitlines())


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_where_ctrl_c_is_ignored_it_stays_so(tmp_path):
    heedless = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); from dilutron.__main__ import main; main()"
    command = [sys.executable, "-X", "importtime", "-c", heedless, "simulate", *TOY, "--out", "toy.csv"]
    with subprocess.Popen(command, cwd=tmp_path, text=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as job:
        while " numpy" not in job.stderr.readline():
            assert job.poll() is None
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=60)
    assert job.returncode == 0
    assert (tmp_path / "toy.csv").is_file()


def test_a_bar_in_a_terminal(toy, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    code, _, err = toy("fit", "toy.csv", *QUICK, "--folds", "2", "--out", "run")
    assert code == 0
    assert "\x1b[" in err
    assert " %  " not in err


def test_names_from_the_file_cannot_colour_the_screen(dilutron, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    rows = "".join(f"{'u' if value > 0 else 'v'},{value}\n" for value in x)
    (tmp_path / "t.csv").write_text(f"y,\x1b[31m<script>\n{rows}")
    code, out, _ = dilutron("fit", "t.csv", "--label", "y", "--folds", "0", "--out", "run")
    assert code == 0
    assert "?[31m<script>" in out
    assert "\x1b" not in out
    with open(tmp_path / "run/features.csv", newline="") as file:
        assert next(csv.DictReader(file))["feature"] == "\x1b[31m<script>"


@pytest.mark.parametrize("command", ["fit", "predict", "report", "simulate", "compare-methods"])
def test_help_has_examples(dilutron, command):
    code, out, _ = dilutron(command, "--help")
    assert code == 0
    assert f"    dilutron {command} " in out

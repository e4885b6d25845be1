import csv
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dilutron import files
from dilutron.files import as_given, harmless, whole_file, whole_folder


@given(st.text())
def test_texts_come_back_as_they_were(text):
    assert as_given(harmless(text)) == text or text == harmless(text)
    assert not harmless(text).startswith(files.FORMULA) or files._is_number(text)


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1+1", "-x", "@SUM(A1)", "\t=1", "'=1", "''-a"])
def test_formulas_are_texts(text):
    assert harmless(text) == f"'{text}"
    assert as_given(harmless(text)) == text


@pytest.mark.parametrize("value", ["-1", "+1", "-1.5e3", "gene", "'quoted'", "", 3, -2.5, None, True])
def test_the_rest_stays_as_it_is(value):
    assert harmless(value) == value


def write(folder, text):
    with whole_folder(folder, "mark", "thing") as new:
        (new / "mark").write_text(text)


@pytest.mark.parametrize("one_move", [True, False])
def test_a_folder_is_replaced(tmp_path, monkeypatch, one_move):
    if not one_move:
        monkeypatch.setattr(files, "_exchanged", lambda *_: False)
    for text in ("first", "second"):
        write(tmp_path / "thing", text)
        assert (tmp_path / "thing" / "mark").read_text() == text
        assert os.listdir(tmp_path) == ["thing"]


def test_a_file_is_replaced(tmp_path):
    for text in ("first", "second"):
        with whole_file(tmp_path / "rows.csv") as scratch:
            scratch.write_text(text)
        assert (tmp_path / "rows.csv").read_text() == text
    assert os.listdir(tmp_path) == ["rows.csv"]


def test_an_error_names_the_file_that_was_asked_for(tmp_path):
    with pytest.raises(FileNotFoundError) as error, whole_file(tmp_path / "nowhere" / "rows.csv") as scratch:
        scratch.write_text("text")
    assert error.value.filename == str(tmp_path / "nowhere" / "rows.csv")


def test_names_in_a_run_are_neither_run_nor_lost(tmp_path, in_process):
    """Formulas, markup and paths as names of features and rows: in the CSVs, on the page, and in predictions."""
    names = ["=cmd()", "<script>alert(1)</script>", "../../up", "@x"]
    rows = [[("ill", "-well")[i % 2], f"=r{i}", *(str((i * k) % 7 + (i % 2)) for k in range(1, 5))] for i in range(12)]
    with open("data.csv", "w", newline="") as file:
        csv.writer(file).writerows([["class", "sample", *names], *rows])
    options = ("--label", "class", "--id", "sample", "--folds", "2", "--impute", "median")
    code, _, said = in_process("fit", "data.csv", *options, "--out", "run")
    assert code == 0, said
    for path in (tmp_path / "run").glob("*.csv"):
        with open(path, newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not [cell for cell in cells if cell.startswith(files.FORMULA) and not files._is_number(cell)]
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<script>alert(1)" not in page
    assert "=cmd()" in page
    assert "'=cmd()" not in page
    assert sorted(os.listdir(tmp_path)) == ["data.csv", "run"]
    assert not list(tmp_path.parents[1].glob("up*"))
    code, said, _ = in_process("predict", "run", "data.csv", "--id", "sample")
    assert code == 0
    assert "'=r0" in said

"""Every bad file gets one line and leaves nothing behind, and the page of the docs shows what is said now."""

import pytest

pytest.importorskip("typer")
pytest.importorskip("polars")
pytest.importorskip("anndata")

from tests import bad_files


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # anndata's own
def test_the_page_shows_what_is_said_of_bad_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert bad_files.page() == bad_files.PAGE.read_text(encoding="utf-8"), "write it anew: python -m tests.bad_files"


def test_the_good_file_is_good(tmp_path, monkeypatch):
    from dilutron import tables

    (tmp_path / "data.csv").write_text(bad_files.GOOD)
    sheet = tables.read(tmp_path / "data.csv", tables.Columns("class", "sample"))
    tables.check_classes(sheet, "class")
    tables.check_complete(sheet, "")

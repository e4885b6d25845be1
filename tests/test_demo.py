import csv
import re

import pytest

pytest.importorskip("typer")
pytest.importorskip("polars")

from dilutron import demo


def test_the_demo_finds_wrong_labels_and_says_what_to_open(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    demo.main()
    printed = capsys.readouterr().out
    run = tmp_path / "demo-run" / "run"
    assert printed.splitlines()[-1] == f"Open {run / 'report.html'}"
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "p181" in page
    assert 'class="verdict care"' in page, "many of the features that are named are expected to be mistakes"
    found, suspects = map(int, re.search(r"turned over, (\d+) are among the (\d+) suspects", printed).groups())
    assert found == demo.WRONG
    assert suspects <= 16
    with open(run / "labels.csv", newline="", encoding="utf-8") as file:
        listed = [row["id"] for row in csv.DictReader(file) if row["suspect"] == "true"]
    assert len(listed) == suspects
    assert all(name in listed for name in re.search(r"suspects: (.*)\.", printed).group(1).split(", "))
    demo.main()  # once more, over the first


def test_the_table_differs_from_the_real_one_in_the_labels_turned_over_alone(tmp_path):
    turned_over = demo.write_table(tmp_path / "patients.csv")
    with open(tmp_path / "patients.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    data = demo.load_breast_cancer()
    other = [
        row["patient"] for row, k in zip(rows, data.target, strict=True) if row["diagnosis"] != data.target_names[k]
    ]
    assert other == turned_over
    assert len(turned_over) == demo.WRONG
    assert [float(value) for value in list(rows[-1].values())[2:]] == data.data[-1].tolist()


def test_what_was_not_found_is_said(tmp_path):
    place = tmp_path / "labels.csv"
    place.write_text("id,suspect\na,true\nb,true\nc,false\n")
    said = demo.verdict(["b", "c"], place)
    assert said == "Of the 2 labels turned over, 1 are among the 2 suspects: b.\nNot found: c."


def test_a_fit_that_ends_early_ends_the_demo(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo.cli, "main", lambda command: (_ for _ in ()).throw(SystemExit(130)))
    with pytest.raises(SystemExit) as end:
        demo.main()
    assert end.value.code == 130

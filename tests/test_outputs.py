import csv
import sys

import numpy as np
import pytest

from dilutron.experiments import outputs
from dilutron.experiments.outputs import Section, markdown, page, publish, rows_of, write_item
from dilutron.experiments.paper import ITEMS
from dilutron.experiments.store import Store

pytest.importorskip("matplotlib")

N = 128


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "trials.sqlite")


def fill(store, name, instances=2, keep=lambda cell: cell["alpha"] in (2.0, 4.0), **more):
    """Invented outcomes of an item's trials."""
    rng = np.random.default_rng(0)
    for trial in ITEMS[name].trials(instances):
        if keep(trial.cell):
            ranks = sorted(map(int, rng.choice(N - 1, 32, replace=False)))
            row = {
                "status": "converged", "mse": rng.random() / 100, "auc": rng.random(), "auc_scaled": rng.random(),
                "rho_learned": rng.random(), "eta_learned": rng.random(), "right": 0.95, "cpu_seconds": rng.random(),
                "ranks": " ".join(map(str, ranks)), "seconds": 1.0, "version": "0", **more,
            }  # fmt: skip
            store.write(trial, row)


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def names(paths):
    return sorted(path.name for path in paths)


def files(item):
    return [f"{item}-summary.csv", f"{item}.csv", f"{item}.png", f"{item}.svg"]


COMPARISON = ["comparison.csv", "comparison.html", "comparison.md"]


@pytest.mark.parametrize("name", list(ITEMS))
def test_every_item_has_its_files(name, store, tmp_path):
    fill(store, name)
    folder = tmp_path / "a" / "b"
    written = publish([ITEMS[name]], store, folder)
    assert set(files(name)) <= set(names(written))
    assert set(written) == set(folder.iterdir())
    rows = rows_of(ITEMS[name], store)
    assert len(read(folder / f"{name}.csv")) == len(rows) > 0
    keys = ("alpha", "eta", "n", "method", "patterns", "dynamics")
    cells = {tuple(row.get(key) for key in keys) for row in rows}
    assert len(read(folder / f"{name}-summary.csv")) == 2 * len(cells)
    title = ITEMS[name].title
    assert title in (folder / "comparison.md").read_text("utf-8")
    assert title in (folder / "comparison.html").read_text("utf-8")


def test_the_summary_is_that_of_the_rows(store, tmp_path):
    fill(store, "figure-2", 3)
    publish([ITEMS["figure-2"]], store, tmp_path)
    line = read(tmp_path / "figure-2-summary.csv")[0]
    values = [
        float(row["mse"])
        for row in read(tmp_path / "figure-2.csv")
        if all(row[key] == line[key] for key in ("alpha", "method"))
    ]
    assert float(line["mse"]) == pytest.approx(np.mean(values), rel=1e-5)
    assert float(line["mse_se"]) == pytest.approx(np.std(values, ddof=1) / np.sqrt(3), rel=1e-4)
    assert (line["instances"], line["converged"]) == ("3", "3")


def test_the_comparison_covers_the_whole_store_and_says_what_was_not_run(store, tmp_path):
    fill(store, "table-2")
    fill(store, "figure-2")
    publish([ITEMS["figure-2"]], store, tmp_path)
    text = (tmp_path / "comparison.md").read_text("utf-8")
    assert "## Table 2." in text
    assert "## Figure 2." in text
    assert "## Table 3." not in text
    assert "not run" in text
    assert {line["table"] for line in read(tmp_path / "comparison.csv")} == {"table-2"}
    assert {line["verdict"] for line in read(tmp_path / "comparison.csv") if line["alpha"] == "3"} == {"not run"}


def test_misses_come_first(store, tmp_path):
    fill(store, "table-2", 6, rho_learned=0.9)
    publish([ITEMS["table-2"]], store, tmp_path)
    text = (tmp_path / "comparison.md").read_text("utf-8")
    missed = text.split("## Worse than published")[1].split("##")[0]
    assert missed.count("| worse |") == 4
    assert 'class="worse"' in (tmp_path / "comparison.html").read_text("utf-8")
    fill(better := Store(tmp_path / "other.sqlite"), "table-2", 6, rho_learned=0.25)
    publish([ITEMS["table-2"]], better, tmp_path)
    assert "## Worse than published\n\nNone." in (tmp_path / "comparison.md").read_text("utf-8")


def test_what_was_ranked_stands_beside_the_method(store, tmp_path):
    fill(store, "table-3", auc_inclusion=0.5)
    publish([ITEMS["table-3"]], store, tmp_path)
    text = (tmp_path / "comparison.md").read_text("utf-8")
    for run in ("ep (auc)", "ep (auc_inclusion)", "grvamp-paper (auc_inclusion)", "r1bcs (auc_scaled)", "r1bcs (auc)"):
        assert f"| {run} |" in text


def test_an_empty_store_has_nothing_to_publish(store, tmp_path):
    assert publish([ITEMS["table-3"]], store, tmp_path / "out") == []
    assert not (tmp_path / "out").exists()
    fill(store, "table-2")
    assert names(publish([ITEMS["table-3"]], store, tmp_path / "out")) == COMPARISON


def test_where_none_converged_there_is_no_figure_over_converged_runs(store, tmp_path):
    fill(store, "figure-3", status="max_iter")
    assert names(write_item(ITEMS["figure-3"], store, tmp_path / "out")) == ["figure-3-summary.csv", "figure-3.csv"]


def test_failed_trials_are_rows(store, tmp_path):
    fill(store, "figure-2")
    for trial in list(ITEMS["figure-2"].trials(3))[-1:]:
        store.write(trial, {"status": "error", "message": 'He said "no",\nand left', "where": "<here>", "seconds": 1.0})
    publish([ITEMS["figure-2"]], store, tmp_path)
    last = read(tmp_path / "figure-2.csv")[-1]
    assert (last["status"], last["message"], last["mse"]) == ("error", 'He said "no",\nand left', "")


def test_the_page_needs_nothing_else_and_escapes():
    section = Section("<b>", ("a & b",), ("x|y",), [("<script>",), ("worse",)])
    html = page([section])
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "a &amp; b" in html
    assert "src=" not in html
    assert "href=" not in html
    assert "| x\\|y |" in markdown([section])


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    target = tmp_path / "comparison.md"
    target.write_text("old")

    def broken(*_):
        raise OSError("no space left")

    monkeypatch.setattr(outputs.os, "replace", broken)
    with pytest.raises(OSError, match="no space"):
        outputs._put(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_without_matplotlib_the_numbers_are_there(store, tmp_path, monkeypatch):
    fill(store, "table-2")
    monkeypatch.setitem(sys.modules, "dilutron.plots", None)
    monkeypatch.delattr("dilutron.plots", raising=False)
    with pytest.raises(ImportError):
        publish([ITEMS["table-2"]], store, tmp_path / "out")
    assert names((tmp_path / "out").iterdir()) == [*COMPARISON, "table-2-summary.csv", "table-2.csv"]


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.62134, 0.0052, "0.6213 ± 0.0052"),
        (1052.94, 20.3, "1053 ± 20"),
        (1.0, 0.0, "1 ± 0"),
        (0.7, np.nan, "0.7"),
        (np.nan, np.nan, "-"),
    ],
)
def test_numbers_have_two_digits_of_error(value, error, text):
    assert outputs._plus_minus(value, error) == text


def test_every_item_names_a_picture():
    from dilutron import plots

    assert {item.draw for item in ITEMS.values()} == set(plots.PICTURES)

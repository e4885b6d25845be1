from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import independent, real_data
from benchmarks.label_errors import one_score_each
from benchmarks.peers import METHODS, OURS, REFERENCE, chosen
from benchmarks.real_data import jaccard, overlap_se, paired, stability, verdicts


def test_equal_choices_are_stable():
    choices = [[0, 3, 7]] * 4
    assert stability(choices, 20) == pytest.approx(1.0)
    assert jaccard(choices) == 1.0


def test_random_choices_agree_only_by_chance():
    rng = np.random.default_rng(0)
    for size in (5, 50, 150):
        choices = [rng.choice(200, size, replace=False).tolist() for _ in range(100)]
        assert abs(stability(choices, 200)) < 0.02
    assert jaccard(choices) > 0.5, "Jaccard, which is not corrected for chance, calls large random sets alike"


def test_stability_of_two_choices_is_the_corrected_overlap():
    """With two sets of equal size it is Kuncheva's index, (overlap - expected) / (size - expected)."""
    assert stability([[0, 1, 2, 3], [2, 3, 4, 5]], 20) == pytest.approx((2 - 0.8) / (4 - 0.8))
    assert jaccard([[0, 1, 2, 3], [2, 3, 4, 5]]) == pytest.approx(1 / 3)


def test_nothing_chosen_has_no_stability():
    assert np.isnan(stability([[], []], 10))
    assert jaccard([[], []]) == 1.0
    assert np.isnan(stability([[1]], 10)), "one choice can agree with nothing"


def test_pairs_are_the_cells_of_both():
    ours = [{"instance": k, "auc": 0.9 + 0.01 * k} for k in range(4)]
    theirs = [{"instance": k, "auc": 0.8} for k in (1, 2)]
    mean, se, cells = paired(ours, theirs, "auc", ("instance",))
    assert mean == pytest.approx(0.115)
    assert se == pytest.approx(0.005)
    assert cells == 2


def test_the_best_peer_is_the_one_that_is_gained_on_least():
    def row(method, gain, ratio):
        gains = {f"{quantity}_gain{end}": value for quantity in ("accuracy", "auc") for end, value in
                 (("", gain), ("_se", 0.01))}  # fmt: skip
        return {"data": "a", "method": method, "folds": 5, "cpu_ratio": ratio, **gains}

    rows = [row(OURS, 0.0, 3.0), row(REFERENCE, 0.02, 1.0), row("abess", -0.005, 0.1)]
    found = verdicts(rows)
    assert [line["against"] for line in found] == ["abess", "abess", REFERENCE]
    assert [line["verdict"] for line in found] == ["reached", "reached", "missed"]
    rows[2] = row("abess", -0.014, 0.1)  # between one standard error of independent folds and one of those that overlap
    assert [verdicts(rows)[0][name] for name in ("verdict", "overlap")] == ["missed", "reached"]
    rows[2] = row("abess", -0.016, 0.1)
    assert [verdicts(rows)[0][name] for name in ("verdict", "overlap")] == ["missed", "missed"]


def test_folds_that_share_rows_count_for_less():
    """The variance of ten times five folds is that of 1/50 + 1/4 of one, which more repeats would hardly lower."""
    differences = np.random.default_rng(0).standard_normal(50)
    naive = differences.std(ddof=1) / np.sqrt(50)
    assert overlap_se(naive, 50) == pytest.approx(differences.std(ddof=1) * np.sqrt(1 / 50 + 10 / 40))


@pytest.mark.parametrize("name", [OURS, REFERENCE])
def test_chosen_columns_are_those_of_the_raw_table(name):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((60, 12)), np.arange(60) % 2
    X[:, :4] = 3.0  # constant columns come first and are dropped in the fold
    X[:, 7] += 3.0 * y
    columns = chosen(METHODS[name].make().fit(X, y))
    assert 7 in columns
    assert name == OURS or not set(columns) & set(range(4))


def test_one_fit_of_the_suspects_stands_beside_every_split():
    rows = [{"wrong": "suspects", "way": "one fit", "instance": 0, "auc": {"one fit": 0.9}}]
    rows += [{"wrong": "suspects", "way": "cleanlab", "instance": k, "auc": {"a": 0.8, "b": 0.7}} for k in range(3)]
    found = one_score_each(rows)
    assert sorted(row["instance"] for row in found if row["way"] == "one fit") == [0, 1, 2]
    assert len(found) == 3 + 6


def test_sets_that_r_does_not_have_are_left_out_and_leave_nothing(tmp_path, monkeypatch):
    folder = tmp_path / "further"
    monkeypatch.setattr(independent, "FURTHER", folder)
    monkeypatch.setattr(independent.shutil, "which", lambda name: None)
    assert not independent.exported("all_sex")
    monkeypatch.setattr(independent.shutil, "which", lambda name: name)
    refused = SimpleNamespace(returncode=1, stderr="there is no package called ALL")
    monkeypatch.setattr(independent.subprocess, "run", lambda *a, **k: refused)
    assert not independent.exported("all_sex")
    monkeypatch.setattr(independent.importlib.util, "find_spec", lambda name: None)
    assert not independent.exported("nci_renal")
    assert not folder.exists()


def test_an_exported_set_has_a_row_for_each_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(independent, "FURTHER", tmp_path)
    monkeypatch.setattr(real_data, "FURTHER", tmp_path)
    monkeypatch.setattr(independent.shutil, "which", lambda name: name)

    def r(command, **k):
        folder = Path(command[-1].split('"')[-2]).parent
        np.array([3, 2, 1, 0], dtype=np.int32).tofile(folder / "y.bin")  # three genes, two samples, their labels
        np.arange(6.0).tofile(folder / "x.bin")
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(independent.subprocess, "run", r)
    assert independent.exported("all_sex")
    X, y, suspect = real_data.load.__wrapped__("all_sex")
    np.testing.assert_array_equal(X, [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    assert y.tolist() == [1, 0]
    assert suspect is None
    assert [path.name for path in tmp_path.iterdir()] == ["all_sex.npz"]


def test_sets_of_a_python_package_are_read_without_importing_it(tmp_path, monkeypatch):
    monkeypatch.setattr(independent, "FURTHER", tmp_path / "further")
    monkeypatch.setattr(real_data, "FURTHER", tmp_path / "further")
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path / "ISLP")])
    monkeypatch.setattr(independent.importlib.util, "find_spec", lambda name: spec)
    data = tmp_path / "ISLP" / "data"
    data.mkdir(parents=True)
    np.save(data / "NCI60data.npy", np.arange(6.0).reshape(3, 2))
    (data / "NCI60labs.csv").write_text('label\n"RENAL"\nCNS\nRENAL\n', encoding="utf-8")
    for part, rows, classes in (("train", "1,2\n3,4", "4\n2"), ("test", "5,6", "4")):
        (data / f"Khan_x{part}.csv").write_text(f'"V1","V2"\n{rows}\n', encoding="utf-8")
        (data / f"Khan_y{part}.csv").write_text(f'"x"\n{classes}\n', encoding="utf-8")
    assert independent.exported("nci_renal")
    assert independent.exported("khan_ewing")
    X, y, _ = real_data.load.__wrapped__("nci_renal")
    assert (X.shape, y.tolist()) == ((3, 2), [1, 0, 1])
    X, y, _ = real_data.load.__wrapped__("khan_ewing")
    assert (X.tolist(), y.tolist()) == ([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [0, 1, 0])


def test_the_average_over_questions_counts_each_once():
    gains = {"a": 0.1, "b": -0.02, "c": 0.04}
    rows = [
        {"accuracy": 0.8, "auc": 0.9, "accuracy_gain": gain, "auc_gain": 0.0, "log_loss": 0.5, "cpu_ratio": 2.0}
        for gain in gains.values()
    ]
    line = independent.averaged("peer", rows)
    assert line["questions"] == 3
    assert line["accuracy_gain"] == pytest.approx(0.04)
    assert line["accuracy_gain_se"] == pytest.approx(np.std(list(gains.values()), ddof=1) / np.sqrt(3))
    assert (line["accuracy_won"], line["accuracy_lost"]) == (2, 1)
    assert (line["auc_won"], line["auc_lost"]) == (0, 0), "an equal answer is neither won nor lost"

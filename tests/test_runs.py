"""From a file to a folder, and from the folder to predictions."""

import csv
import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

from dilutron import EPClassifier, runs
from dilutron.data import lesson
from dilutron.runs import Request, RunError, holding_out
from dilutron.tables import Columns, TableError

pytest.importorskip("polars")

TRUTH = lesson(8, 10.0, np.random.default_rng(1), rho=0.25, eta=0.95)
REQUEST = Request(Columns("y", "id"), folds=3, expect=2.0)


def table(path, X=TRUTH.X, labels=None, header="id,y,x1,x2,x3,x4,x5,x6,x7,x8"):
    labels = np.where(TRUTH.labels > 0, "case", "control") if labels is None else labels
    rows = (
        f"s{i},{label},{','.join(map(repr, row))}"
        for i, (label, row) in enumerate(zip(labels, X.tolist(), strict=True))
    )
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return table(tmp_path_factory.mktemp("data") / "data.csv")


@pytest.fixture(scope="module")
def answer(data):
    return runs.make(data, REQUEST)


@pytest.fixture(scope="module")
def folder(answer, tmp_path_factory):
    return runs.write(answer, tmp_path_factory.mktemp("runs") / "deep" / "run")


def test_the_facts(folder, data):
    facts = json.loads((folder / "run.json").read_text())
    assert facts["data"] == {
        "file": str(data),
        "sha256": hashlib.sha256(data.read_bytes()).hexdigest(),
        "n_rows": 80,
        "n_features": 8,
        "label": "y",
        "id": "id",
        "positive": "control",
        "dropped": [],
        "constant": [],
        "log": False,
        "impute": None,
        "n_imputed": 0,
    }
    assert facts["classes"] == ["case", "control"]
    assert facts["counts"] == {"case": int(np.sum(TRUTH.labels > 0)), "control": int(np.sum(TRUTH.labels < 0))}
    assert facts["settings"]["n_features_expected"] == 2.0
    assert {"python", "numpy", "scipy", "scikit-learn", "polars"} == set(facts["versions"])
    result = facts["result"]
    assert (result["status"], result["converged"]) == ("converged", True)
    assert 0.5 < result["eta"] < 1.0
    assert result["rho"] == pytest.approx(0.25)


def test_features_are_sorted_and_speak_for_the_positive_class(folder, data):
    rows = rows_of(folder / "features.csv")
    inclusion = [float(row["inclusion"]) for row in rows]
    assert len(rows) == 8
    assert inclusion == sorted(inclusion, reverse=True)
    assert {row["feature"] for row in rows[:2]} == {f"x{i + 1}" for i in np.flatnonzero(TRUTH.teacher)}
    other = runs.make(data, replace(REQUEST, positive="case", folds=0))
    assert other.facts["classes"] == ["control", "case"]
    for row, turned in zip(rows[:2], other.features, strict=False):
        name, teacher = row["feature"], TRUTH.teacher[int(row["feature"][1:]) - 1]
        assert turned["feature"] == name
        assert np.sign(turned["coefficient"]) == np.sign(teacher), "case is +1"
        assert turned["low"] < turned["coefficient"] < turned["high"]
        for one, two in (
            ("coefficient",) * 2,
            ("low", "high"),
            ("high", "low"),
            ("standardized_low", "standardized_high"),
        ):
            assert float(row[one]) == pytest.approx(-turned[two])


def test_flipped_labels_are_suspect(folder):
    rows = rows_of(folder / "labels.csv")
    errors = [float(row["error_probability"]) for row in rows]
    assert len(rows) == 80
    assert errors == sorted(errors, reverse=True)
    suspects = [row for row in rows if row["suspect"] == "true"]
    assert suspects == rows[: len(suspects)]
    assert {int(row["row"]) - 1 for row in suspects} <= set(np.flatnonzero(TRUTH.flipped).tolist())
    assert len(suspects) >= 2
    for row in suspects:
        assert row["id"] == f"s{int(row['row']) - 1}"
        assert {row["given"], row["suggested"]} == {"case", "control"}


def test_held_out_predictions_agree_with_their_scores(folder):
    rows, facts = rows_of(folder / "predictions.csv"), json.loads((folder / "run.json").read_text())
    assert [int(row["row"]) for row in rows] == list(range(1, 81))
    assert {row["fold"] for row in rows} == {"1", "2", "3"}
    right = [row["given"] == row["predicted"] for row in rows]
    assert facts["held_out"]["accuracy"] == pytest.approx(np.mean(right))
    assert facts["held_out"]["accuracy"] > facts["held_out"]["majority"] + 0.2
    assert 0.8 < facts["held_out"]["auc"] <= 1.0
    for row in rows:
        chances = {name: float(row[f"p({name})"]) for name in ("case", "control")}
        assert sum(chances.values()) == pytest.approx(1.0)
        assert row["predicted"] == max(chances, key=chances.get)
    assert facts["held_out"]["log_loss"] == pytest.approx(
        -np.mean([np.log(float(r[f"p({r['given']})"])) for r in rows])
    )


def test_the_other_files(folder):
    trace = rows_of(folder / "trace.csv")
    assert [int(row["iteration"]) for row in trace] == list(range(1, len(trace) + 1))
    assert float(trace[-1]["mismatch"]) < 1e-3
    assert {float(row["size"]) for row in trace} == {2.0}, "as expected"
    names, *values = csv.reader((folder / "correlations.csv").read_text().splitlines())
    assert names == ["", *(row[0] for row in values)]
    order = [int(name[1:]) - 1 for name in names[1:]]
    np.testing.assert_allclose(
        np.array([row[1:] for row in values], dtype=float), np.corrcoef(TRUTH.X[:, order].T), atol=1e-12
    )
    assert "fitting 80 rows of 8 features" in (folder / "log.txt").read_text()
    assert EPClassifier.load(folder / "model").feature_names_in_.tolist() == [f"x{i}" for i in range(1, 9)]


def test_predictions_are_those_of_the_model(folder, data, tmp_path):
    saved = runs.load(folder)
    rows, ignored = saved.predictions(data)
    assert ignored == ()
    wanted = EPClassifier.load(folder / "model")
    import polars as pl

    chance = wanted.predict_proba(pl.DataFrame(TRUTH.X, schema=[f"x{i}" for i in range(1, 9)]))
    np.testing.assert_allclose([[row["p(case)"], row["p(control)"]] for row in rows], chance)
    assert rows[3]["id"] == "s3"
    turned = table(tmp_path / "new.csv", TRUTH.X[:, ::-1], header="who,y,x8,x7,x6,x5,x4,x3,x2,x1")
    again, ignored = saved.predictions(turned)
    assert ignored == ("who",)
    assert [row["predicted"] for row in again] == [row["predicted"] for row in rows]
    with pytest.raises(TableError, match="lacks 1 of the 8 columns of the fit: 'x8'; perhaps 'x88'"):
        saved.predictions(table(tmp_path / "new.csv", header="id,y,x1,x2,x3,x4,x5,x6,x7,x88"))


def test_groups_are_named_in_both_files(tmp_path):
    """Two copies of a column that matters: neither is sure, both together are."""
    first = int(np.flatnonzero(TRUTH.teacher)[0])
    X = TRUTH.X.copy()
    X[:, (first + 1) % 8] = X[:, first] + 0.01 * np.random.default_rng(0).normal(size=80)
    answer = runs.make(table(tmp_path / "data.csv", X), replace(REQUEST, folds=0))
    group = answer.tables["groups"][0]
    assert group["n_members"] == 2
    assert set(group["members"].split("; ")) == {f"x{first + 1}", f"x{(first + 1) % 8 + 1}"}
    assert {row["feature"] for row in answer.features if row["group"] == 1} == set(group["members"].split("; "))


def test_logs_and_medians_are_those_of_the_fit(tmp_path):
    X = np.exp2(TRUTH.X) - 1.0
    X -= X.min()
    X[3, 2] = np.nan
    path = table(tmp_path / "data.csv", X)
    with pytest.raises(
        TableError, match=r"no value in row 4, column 'x3': fill it in, --drop that column, or --impute"
    ):
        runs.make(path, REQUEST)
    answer = runs.make(path, replace(REQUEST, log=True, impute=True, folds=0))
    assert answer.facts["data"]["log"] is True
    assert (answer.facts["data"]["impute"], answer.facts["data"]["n_imputed"]) == ("median", 1)
    saved = runs.load(runs.write(answer, tmp_path / "run"))
    np.testing.assert_allclose(saved.medians, np.nanmedian(X, axis=0))
    rows, _ = saved.predictions(path)
    X[3, 2] = np.nanmedian(X[:, 2])
    import polars as pl

    chance = saved.model.predict_proba(pl.DataFrame(np.log2(X + 1.0), schema=[f"x{i}" for i in range(1, 9)]))
    np.testing.assert_allclose([row["p(control)"] for row in rows], chance[:, 1])


def test_columns_that_never_change_are_left_out(tmp_path):
    X = TRUTH.X.copy()
    X[:, 6:] = [3.0, 0.0]
    X[2, 7] = np.nan  # and is the median, 0, like all others
    answer = runs.make(table(tmp_path / "data.csv", X), replace(REQUEST, folds=0, impute=True))
    assert answer.facts["data"]["constant"] == ["x7", "x8"]
    assert len(answer.features) == 6
    assert any("left out 2 features that are the same in all rows" in line for line in answer.log)
    saved = runs.load(runs.write(answer, tmp_path / "run"))
    assert saved.medians.size == 6
    assert saved.predictions(tmp_path / "data.csv")[1] == ()
    with pytest.raises(TableError, match="no feature changes from row to row, of 8: nothing can be learned"):
        runs.make(table(tmp_path / "data.csv", np.ones((80, 8))), REQUEST)


def test_numbers_that_no_estimator_can_use(tmp_path):
    X = TRUTH.X.copy()
    X[:, 1] *= 1e200
    with pytest.raises(RunError, match=r"data.csv: X has values of size .* in column 1 \('x2'\).*: rescale the column"):
        runs.make(table(tmp_path / "data.csv", X), REQUEST)


def test_new_rows_with_gaps_need_a_fit_that_knew_of_them(folder, tmp_path):
    X = TRUTH.X.copy()
    X[0, 0] = np.nan
    with pytest.raises(TableError, match=r"row 1, column 'x1': fill it in: the run was fitted without --impute"):
        runs.load(folder).predictions(table(tmp_path / "new.csv", X))


def test_three_classes(tmp_path):
    labels = np.array(["a", "b", "c"])[np.digitize(TRUTH.X[:, 0], [-0.5, 0.5])]
    answer = runs.make(table(tmp_path / "data.csv", labels=labels), replace(REQUEST, folds=2))
    assert answer.facts["classes"] == ["a", "b", "c"]
    assert answer.facts["data"]["positive"] is None
    assert len(answer.features) == 24
    assert (answer.features[0]["feature"], answer.features[0]["class"] in "ac") == ("x1", True)
    runs.write(answer, tmp_path / "run")
    assert list(rows_of(tmp_path / "run/features.csv")[0])[:2] == ["class", "feature"]
    assert {row["class"] for row in rows_of(tmp_path / "run/trace.csv")} == {"a", "b", "c"}
    assert len(rows_of(tmp_path / "run/correlations.csv")) == 8
    rows, _ = runs.load(tmp_path / "run").predictions(tmp_path / "data.csv")
    assert sum(rows[0][f"p({name})"] for name in "abc") == pytest.approx(1.0)
    with pytest.raises(RunError, match="--positive 'a' must be one of two classes; there are 'a', 'b', 'c'"):
        runs.make(tmp_path / "data.csv", replace(REQUEST, positive="a"))


def test_small_classes_lower_the_number_of_folds(tmp_path):
    labels = np.array(["a"] * 2 + ["b"] * 78)
    answer = runs.make(table(tmp_path / "data.csv", labels=labels), replace(REQUEST, folds=5))
    assert answer.facts["held_out"]["folds"] == 2
    assert any("2 folds instead of 5" in line for line in answer.log)


def test_no_folds_no_predictions(data, tmp_path):
    answer = runs.make(data, replace(REQUEST, folds=0))
    assert answer.facts["held_out"] is None
    assert not (runs.write(answer, tmp_path / "run") / "predictions.csv").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positive": "cas"}, "--positive 'cas' must be one of two classes; there are 'case', 'control'"),
        ({"expect": 8.0}, "--expect 8 must be above 0 and below the 8 features"),
        ({"expect": 0.0}, "--expect 0 must be above 0"),
    ],
)
def test_requests_that_cannot_be_met(data, changes, message):
    with pytest.raises(RunError, match=message):
        runs.make(data, replace(REQUEST, **changes))


def test_an_earlier_run_is_replaced_only_when_asked(answer, tmp_path):
    place = tmp_path / "run"
    runs.write(answer, place)
    with pytest.raises(RunError, match="holds a run already: choose another folder, or --force to replace it"):
        runs.write(answer, place)
    (place / "report.html").touch()
    runs.write(answer, place, force=True)
    assert not (place / "report.html").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_what_is_no_run_is_left_alone(answer, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    (tmp_path / "file").touch()
    for name, message in (("mine", "is no run"), ("file", "is a file"), ("file/run", "cannot be written: Not a dir")):
        with pytest.raises(RunError, match=message):
            runs.write(answer, tmp_path / name, force=True)
    assert (tmp_path / "mine/thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("text", ['{"name": "training"}', "[]", "{", '{"dilutron": "0.1.0"}'])
def test_the_run_of_another_program_is_left_alone(answer, tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(RunError, match="exists and is no run: choose another folder"):
        runs.write(answer, tmp_path, force=True)
    assert (tmp_path / "run.json").read_text() == text


@pytest.mark.parametrize("name", ["thesis.txt", "model/notes.txt", "plots/one.png"])
def test_a_run_with_other_files_in_it_is_left_alone(answer, tmp_path, name):
    place = runs.write(answer, tmp_path / "run")
    (place / name).parent.mkdir(exist_ok=True)
    (place / name).touch()
    with pytest.raises(RunError, match=f"run holds files that no run writes, '{name}': move them away, or choose"):
        runs.write(answer, place, force=True)
    assert (place / name).exists()


def test_all_that_a_run_writes_is_known(tmp_path):
    """Also of three classes, with medians: what is not known would stand in the way of --force."""
    labels = np.array(["a", "b", "c"])[np.digitize(TRUTH.X[:, 0], [-0.5, 0.5])]
    answer = runs.make(table(tmp_path / "data.csv", labels=labels), replace(REQUEST, folds=2, impute=True))
    place = runs.write(answer, tmp_path / "run")
    assert {"medians.csv", "predictions.csv"} <= {path.name for path in place.iterdir()}
    runs.write(answer, place, force=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # anndata's own
def test_the_reader_of_an_h5ad_file_is_told(tmp_path):
    anndata, pd = pytest.importorskip("anndata"), pytest.importorskip("pandas")
    obs = pd.DataFrame({"y": ["u" if label > 0 else "v" for label in TRUTH.labels]}, index=[f"s{i}" for i in range(80)])
    var = pd.DataFrame(index=[f"x{i}" for i in range(1, 9)])
    anndata.AnnData(TRUTH.X, obs=obs, var=var).write_h5ad(tmp_path / "data.h5ad")
    answer = runs.make(tmp_path / "data.h5ad", replace(REQUEST, columns=Columns("y"), folds=0))
    assert answer.facts["versions"]["anndata"] == anndata.__version__


def test_the_trace_tells_of_every_size_in_the_average(tmp_path):
    answer = runs.make(table(tmp_path / "data.csv"), replace(REQUEST, expect=None, folds=0))
    trace, path = answer.tables["trace"], answer.facts["result"]["path"]
    sizes = list(dict.fromkeys(row["size"] for row in trace))
    assert sizes == pytest.approx([row["size"] for row in path if row["weight"] > 0.0])
    assert len(sizes) > 1
    assert [row["iteration"] for row in trace] == list(range(1, len(trace) + 1))
    for size in sizes:
        assert [row["mismatch"] for row in trace if row["size"] == size][-1] < 1e-3


def test_a_feature_may_be_named_class(tmp_path):
    header = "id,y,class,x2,x3,x4,x5,x6,x7,x8"
    answer = runs.make(table(tmp_path / "data.csv", header=header), replace(REQUEST, folds=0, impute=True))
    place = runs.write(answer, tmp_path / "run")
    names, *values = csv.reader((place / "correlations.csv").read_text().splitlines())
    assert sorted(names[1:]) == sorted(header.split(",")[2:])
    assert {len(row) for row in values} == {9}
    assert next(iter(rows_of(place / "features.csv")[0])) == "feature"


def test_nothing_is_half_written(answer, tmp_path, monkeypatch):
    monkeypatch.setattr(answer.model, "save", lambda path: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        runs.write(answer, tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_damaged_runs_are_refused(folder, answer, tmp_path):
    with pytest.raises(RunError, match=r"is not a run of `dilutron fit`: .*run.json is missing"):
        runs.load(tmp_path)
    place = runs.write(answer, tmp_path / "run")
    (place / "run.json").write_text("{")
    with pytest.raises(RunError, match="is damaged"):
        runs.load(place)


@pytest.mark.parametrize("name", ["id", "log", "label", "dropped", "constant"])
@pytest.mark.parametrize("value", [None, 7, {"a": 1}])
def test_a_run_without_a_word_on_how_to_prepare_new_rows_is_refused(name, value, answer, tmp_path):
    place = runs.write(answer, tmp_path / "run")
    facts = json.loads((place / "run.json").read_text(encoding="utf-8"))
    if value is None:
        del facts["data"][name]
    else:
        facts["data"][name] = value
    (place / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    with pytest.raises(RunError, match=f"is damaged: run.json has no good value for '{name}'"):
        runs.load(place)


def test_methods_side_by_side(data):
    sheet, _ = runs.prepared(data, REQUEST)
    told = []
    rows = runs.compared(sheet, ["ep", "r1bcs"], 2, tell=lambda words, share: told.append((words, share)))
    assert [row["method"] for row in rows] == ["ep", "r1bcs"]
    for row in rows:
        assert row["accuracy"] > 0.7
        assert row["cpu_seconds"] > 0.0
        assert row["features"] >= 1
    assert told == [
        ("ep: held-out fold 1 of 2", 0.0),
        ("ep: held-out fold 2 of 2", 0.25),
        ("r1bcs: held-out fold 1 of 2", 0.5),
        ("r1bcs: held-out fold 2 of 2", 0.75),
    ]


def test_a_method_that_fails_does_not_end_the_others(data, monkeypatch):
    class Broken(EPClassifier):
        def fit(self, X, y, sample_weight=None):
            raise ValueError("too\nmuch")

    monkeypatch.setitem(runs.METHODS, "vamp", Broken)
    rows = runs.compared(runs.prepared(data, REQUEST)[0], ["vamp", "ep"], 2)
    assert rows[0]["error"] == "too much"
    assert rows[1]["accuracy"] > 0.7


@pytest.mark.parametrize("classes", ["ab", "abc"])
def test_the_error_of_the_auc_is_not_small_because_two_folds_agree(classes):
    half = np.random.default_rng(0).dirichlet(np.ones(len(classes)), 30)
    labels, fold = np.array([*classes] * (60 // len(classes))), np.repeat([1, 2], 30)
    said = holding_out.HeldOut(np.concatenate([half, half]), fold, (1, 1), (True, True))
    scores = holding_out.scores_of(said, labels, np.arange(len(classes)))
    assert 0.05 < scores["auc_se"] < 0.12

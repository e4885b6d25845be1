"""What the benchmarks make of rows: which cells are doubtful, what fresh instances say of them, and run times."""

import numpy as np
import pytest

from benchmarks import alone, doubtful, in_r, paper, protocol, runtime, savings, synthetic
from benchmarks.rows import printed
from dilutron import METHODS, Problem, SpikeSlab, ThetaMixture, solve, student
from dilutron.data import lesson
from dilutron.experiments.compare import published
from dilutron.experiments.paper import ITEMS
from dilutron.experiments.store import Store

OFF = {("ep", "mvn", 1.5): -0.04, ("r1bcs", "mvn", 3.0): -0.05, ("grvamp-paper", "iid", 5.0): 0.03}


def rows_like(table, off, n=20):
    """Rows whose means are the paper's plus what `off` says of a cell."""
    paper = printed(table, "method", "patterns", "alpha")
    rows = []
    for cell in (cell for sweep in ITEMS[table].sweeps for cell in sweep.cells):
        mean = paper[cell["method"].removesuffix("-paper"), cell["patterns"], cell["alpha"]]["value"]
        mean += off.get((cell["method"], cell["patterns"], cell["alpha"]), 0.0)
        values = mean + 0.02 * np.cos(np.pi * np.arange(n))
        rows += [
            {
                **cell,
                "instance": k,
                "status": "converged",
                "auc": value,
                "auc_inclusion": value + 0.03,
                "auc_scaled": value,
            }
            for k, value in enumerate(values)
        ]
    return rows


def test_printed_numbers_are_known_by_their_columns():
    found = printed("table-5", "patterns", "method", "alpha")
    assert found["iid", "r1bcs", 6.0]["value"] == 1052.9
    assert len(found) == len(published("table-5")) == 54


def test_doubtful_cells_are_those_that_are_worse_and_unexplained():
    """R1BCS on correlated patterns has a reason, and better is no doubt. Of a doubtful cell both rankings are shown."""
    found = doubtful.doubts_of("table-3", rows_like("table-3", OFF))
    assert {(one.variant, one.patterns, one.alpha) for one in found} == {("ep", "mvn", 1.5)}
    assert [(one.column, one.verdict) for one in found] == [("auc", "worse"), ("auc_inclusion", "as published")]
    assert doubtful.doubts_of("table-3", rows_like("table-3", {})) == []


@pytest.mark.parametrize(("fresh_off", "verdict"), [(0.0, "as published"), (-0.04, "worse"), (0.04, "better")])
def test_the_fresh_instances_alone_decide(fresh_off, verdict):
    first = rows_like("table-3", OFF)
    fresh = rows_like("table-3", {("ep", "mvn", 1.5): fresh_off}, n=60)
    rows = {"first": first, "fresh": fresh, "all": first + fresh}
    line, other = doubtful.lines(doubtful.doubts_of("table-3", first), rows)
    assert other["all"] == pytest.approx(line["all"] + 0.03)
    assert line["verdict"] == verdict
    assert (line["first_instances"], line["fresh_instances"], line["all_instances"]) == (20, 60, 80)
    assert line["first"] == pytest.approx(0.727 - 0.04)
    assert line["all"] == pytest.approx(0.727 - 0.01 + 0.75 * fresh_off)
    assert line["first_difference_se"] < -2.0


@pytest.mark.parametrize(("name", "over", "mse"), [("figure-3", "converged", 0.1), ("figure-2", "all", 0.2)])
def test_averages_are_over_the_runs_that_the_figure_shows(name, over, mse):
    ended = {"converged": 0.1, "max_iter": 0.3}
    cell = ITEMS[name].sweeps[0].cells[0]
    rows = [{**cell, "status": status, "mse": value, "mse_scaled": value} for status, value in ended.items()]
    (line,) = paper.averages_of(name, rows)
    assert (line["over"], line["mse"], line["mse_scaled"]) == (over, pytest.approx(mse), pytest.approx(mse))
    assert (line["instances"], line["converged"]) == (2, 1)


def test_costs_are_those_of_full_size_and_shared_trials_count_once(tmp_path):
    store = Store(tmp_path / "s")
    store.write_all(
        (trial, {"status": "converged", "cpu_seconds": 60.0 + 120.0 * trial.instance})
        for trial in ITEMS["table-3"].trials(2)
    )
    lines = {line["item"]: line for line in paper.costs(store)}
    assert lines["table-3"] == lines["table-5"] | {"item": "table-3"}
    assert lines["table-3"]["slow_core_minutes"] == 2.0 * lines["table-3"]["slow_trials"] == 2.0 * 36 * 100
    assert lines["all"]["quick_core_minutes"] == lines["table-3"]["quick_core_minutes"] == 2.0 * 36 * 100
    assert lines["table-2"]["quick_core_minutes"] == 0.0


def test_run_times_are_compared_on_the_same_instances():
    """Slow methods have fewer: the instances that they lack do not count for their ratio."""
    base = {"patterns": "iid", "iterations": 10, "status": "converged", "mse": 0.1, "auc": 0.9}
    times = {"ep": (1.0, 1.0, 5.0, 5.0, 5.0), "r1bcs": (10.0, 10.0)}
    rows = [
        {**base, "alpha": alpha, "method": method, "instance": k, "seconds": seconds}
        for method, all_seconds in times.items()
        for k, seconds in enumerate(all_seconds)
        for alpha in (1.0, 2.0)
    ]
    found = {(row["method"], row["alpha"]): row for row in runtime.summary(rows)}
    slow, ep = found["r1bcs", 1.0], found["ep", 1.0]
    assert (slow["ratio_to_ep"], slow["instances"], ep["seconds_median"], ep["instances"]) == (10.0, 2, 5.0, 5)
    assert slow["paper_ratio_to_ep"] == pytest.approx(12.0 / 2.6)
    assert slow["exponent_in_alpha"] == pytest.approx(0.0, abs=1e-12)


def test_slow_methods_run_on_few_instances(monkeypatch):
    """With a stand-in for all of them: what they are called with, and how often."""
    problem = lesson(16, 2.0, np.random.default_rng(0))
    answer = solve(Problem.from_arrays(problem.X, problem.labels), SpikeSlab(0.25), ThetaMixture(0.95), "amp")
    monkeypatch.setattr(runtime, "METHODS", dict.fromkeys(METHODS, lambda *_: answer))
    monkeypatch.setattr(runtime, "lesson", lambda *_, **__: problem)
    monkeypatch.setattr(runtime, "FEW", 1)
    ran = {k: {row["method"] for row in runtime.trial("mvn", 2.0, k)} for k in range(2)}
    assert ran[0] - ran[1] == {"r1bcs", "msp", "grvamp-paper"}
    assert "grvamp-paper" in {row["method"] for row in runtime.trial("iid", 2.0, 1)}


@pytest.mark.skipif(not alone.CLEAR.exists(), reason="memory is counted as Linux does")
def test_what_led_to_a_trial_is_no_part_of_its_memory():
    large = np.ones(30_000_000)
    del large
    _, idle = alone.measured(lambda: None)
    _, busy = alone.measured(lambda: np.ones(20_000_000).sum())
    assert idle["peak_mb"] - idle["before_mb"] < 50.0
    assert busy["peak_mb"] - busy["before_mb"] > 100.0


@pytest.mark.parametrize("program", [in_r.GlmnetCV, in_r.SparseVB, in_r.Varbvs])
def test_programs_of_r_see_the_same_table(program):
    if in_r.version(program.package) is None:
        pytest.skip(f"R has no {program.package}")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    y = np.where(X[:, 3] + 0.3 * rng.standard_normal(200) > 0.2, 1.0, -1.0)
    model = program().fit(X, y)
    assert int(np.argmax(np.abs(model.coef_))) == 3
    assert np.mean(model.predict(X) == y) > 0.8
    assert model.figures_["cpu_seconds"] > 0.0


class Told(in_r.InR):
    """What a program of R says of itself, without R."""

    def fit(self, X, y):
        self.classes_, self.coef_, self.intercept_ = np.unique(y), np.ones(X.shape[1]), 0.0
        self.inclusion_proba_ = np.full(X.shape[1], 0.25)
        self.figures_ = {"cpu_seconds": 123.0}
        return self


def test_seconds_of_programs_of_r_are_those_measured_inside(monkeypatch):
    monkeypatch.setattr(synthetic, "SparseVB", Told)
    cell = {"n": 16, "rho": 0.25, "patterns": "iid", "alpha": 2.0, "method": "sparsevb"}
    row = synthetic.trial(cell, 0)
    assert (row["seconds"], row["size"], row["auc_inclusion"]) == (123.0, 4.0, 0.5)


def test_our_cpu_is_compared_with_sparsevb_on_the_same_instances():
    seconds = {"dilutron": (2.0, 6.0, 90.0), "sparsevb": (1.0, 2.0)}
    rows = [
        {"method": name, "instance": k, "seconds": taken}
        for name, all_taken in seconds.items()
        for k, taken in enumerate(all_taken)
    ]
    assert synthetic.cpu_ratio(rows) == 2.5
    assert np.isnan(synthetic.cpu_ratio(rows[:3]))


def test_one_low_cell_among_many_is_no_surprise():
    cell = {**dict.fromkeys(paper.CELL, ""), "table": "table-3", "quantity": "auc", "variant": "ep", "column": "auc"}

    def line(gain, alpha, **more):
        verdict = "worse" if gain < -2.0 else "as published"
        return {**cell, "alpha": alpha, "verdict": verdict, "gain": gain, **more}

    seconds = line(-9.0, 0, quantity="seconds / EP")
    others = [line(0.0, alpha) for alpha in range(1, 90)]
    (alone, _), (among, _) = (paper.verdicts([line(-2.5, 0), *some, seconds]) for some in ([], others))
    assert alone["chance"] == pytest.approx(0.00621, abs=1e-5)
    assert among["chance"] == pytest.approx(1.0 - (1.0 - 0.0062097) ** 90, abs=1e-4)
    assert (among["cells"], among["worse"], among["lowest_gain"]) == (90, 1, -2.5)
    both = next(
        row for row in paper.verdicts([line(-2.5, 0), line(-1.0, 0, column="auc_inclusion")]) if not row["column"]
    )
    assert (both["cells"], both["numbers"], both["chance"]) == (1, 2, alone["chance"])


def busy(cell):
    while True:
        pass


def test_a_trial_ends_with_its_share_of_the_cpu():
    assert alone.alone(busy, {"rows": 1}, limit=1.0)["ended"] == "not within 1 s of CPU"


def test_the_nearer_reading_of_a_protocol_has_the_smaller_sum_of_squares():
    lines = [
        {"method": "r1bcs", "difference_se_before": before, "difference_se_after": after}
        for before, after in ((-3.0, 1.0), (-2.0, -1.0))
    ]
    before, after = protocol.readings(lines)
    assert (before["chi2"], before["below"], before["lowest_difference_se"]) == (13.0, 1, -3.0)
    assert (after["chi2"], after["below"], after["mean_difference_se"]) == (2.0, 0, 0.0)


def test_savings_are_ratios_to_the_default_fit_of_the_same_turn():
    def turn(*seconds):
        names = list(savings.WITHOUT)[: len(seconds)]
        common = {"rows": 9, "columns": 90, "ended": "whole", "auc": 0.5, "factorisations": 7}
        return [{**common, "fit": name, "cpu_seconds": s} for name, s in zip(names, seconds, strict=True)]

    first, second = savings.lines([turn(1.0, 1.5), turn(10.0, 20.0), turn(4.0, 4.0)])
    assert (first["fit"], first["cpu_ratio"], first["cpu_seconds"]) == ("default", 1.0, 4.0)
    assert (second["fit"], second["cpu_ratio"], second["turns"]) == ("without working sets", 1.5, 3)
    with pytest.raises(RuntimeError, match="'default' of 9 rows: late"):
        savings.lines([[{**turn(1.0)[0], "ended": "late"}]])


@pytest.mark.skipif(not alone.CLEAR.exists(), reason="memory is counted as Linux does")
def test_a_fit_without_a_saving_has_a_process_of_its_own():
    """Means that are moved at factorisations alone ask for more of these."""
    rows = [
        alone.alone(savings.fit, {"rows": 60, "columns": 3000, "fit": name})
        for name in ("default", "without means moved alone")
    ]
    assert [row["ended"] for row in rows] == ["whole", "whole"]
    assert rows[0]["factorisations"] < rows[1]["factorisations"]
    assert student.PROPER[0].pace.means > 0

import subprocess
import sys

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")

from matplotlib.colors import to_hex  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

from dilutron import plots  # noqa: E402
from dilutron.metrics import auc, ideal_sensitivity  # noqa: E402

N, PRESENT = 16, 4


def row(method="ep", alpha=1.0, instance=0, **more):
    rng = np.random.default_rng([instance, round(10 * alpha), len(method)])
    ranks = sorted(rng.choice(N, PRESENT, replace=False))
    return {
        "n": N, "rho": 0.25, "eta": 1.0, "patterns": "iid", "alpha": alpha, "method": method, "instance": instance,
        "status": "converged", "mse": 0.1 * rng.random() + 0.01, "auc": 0.8, "cpu_seconds": rng.random() + 0.1,
        "rho_learned": rng.random(), "eta_learned": rng.random(), "right": 0.95 + 0.01 * alpha,
        "ranks": " ".join(map(str, ranks)), **more,
    }  # fmt: skip


ROWS = [row(method, alpha, i) for method in ("grvamp", "ep") for alpha in (2.0, 0.5, 1.0) for i in range(4)]


@pytest.fixture
def ax():
    return Figure().add_subplot()


def drawn(ax, method):
    """Points and half-widths of the error bars of a method."""
    for bars in ax.containers:
        if bars.get_label() == plots.STYLES[method].label:
            line, _, (segments,) = bars.lines
            heights = [abs(end[1] - start[1]) / 2 for start, end in segments.get_segments()]
            return line.get_xdata(), line.get_ydata(), np.array(heights)
    return None


def values(rows, column, method, alpha):
    return np.array([r[column] for r in rows if r["method"] == method and r["alpha"] == alpha])


def test_errors_are_decibels_of_the_mean_with_its_standard_error(ax):
    assert plots.errors(ROWS, ax) is ax
    alpha, level, bars = drawn(ax, "grvamp")
    assert list(alpha) == [0.5, 1.0, 2.0]
    (inset,) = ax.child_axes
    _, linear, linear_bars = drawn(inset, "grvamp")
    for place, a in enumerate(alpha):
        mse = values(ROWS, "mse", "grvamp", a)
        mean, error = mse.mean(), mse.std(ddof=1) / 2
        assert level[place] == pytest.approx(10 * np.log10(mean))
        assert bars[place] == pytest.approx(10 / np.log(10) * error / mean)
        assert (linear[place], linear_bars[place]) == (pytest.approx(mean), pytest.approx(error))


def test_the_inset_lies_above_the_curves(ax):
    flat = [row(alpha=a, instance=i, mse=0.1 + 0.001 * i) for a in (0.5, 2.0, 4.0, 6.0) for i in range(3)]
    plots.errors(flat, ax)
    ax.figure.canvas.draw()
    inset = ax.child_axes[0].get_window_extent()
    _, level, _ = drawn(ax, "ep")
    assert ax.transData.transform((6.0, level[-1]))[1] < inset.y0


def test_the_inset_can_hold_the_convergence(ax):
    rows = [row(instance=i, status="converged" if i else "max_iter") for i in range(4)]
    plots.errors(rows, ax, inset="convergence")
    assert drawn(ax.child_axes[0], "ep")[1] == [0.75]
    other = Figure().add_subplot()
    plots.errors(rows, other, inset=None)
    assert not other.child_axes


def lines_of(ax, method, style="-"):
    color = plots.STYLES[method].color
    return [
        line
        for line in ax.lines
        if to_hex(line.get_color()) == color.lower() and line.get_linestyle() == style and len(line.get_xdata())
    ]


def area(line):
    x, y = line.get_xdata(), line.get_ydata()
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2))


def test_the_area_under_a_drawn_curve_is_the_auc(ax):
    """The mean of the staircases' tops, joined: within a step's half width of the mean AUC."""
    rows = [row(instance=i) for i in range(6)]
    plots.curves(rows, ax)
    (line,) = lines_of(ax, "ep")
    exact = []
    for one in rows:
        truth = np.zeros(N, dtype=bool)
        truth[[int(k) for k in one["ranks"].split()]] = True
        exact.append(auc(-np.arange(N), truth))
    assert area(line) == pytest.approx(np.mean(exact), abs=0.5 / (N - PRESENT))
    assert (line.get_xdata()[0], line.get_ydata()[0]) == (0.0, 0.0)
    assert (line.get_xdata()[-1], line.get_ydata()[-1]) == (1.0, 1.0)


def test_a_perfect_ranking_goes_through_the_corner_and_is_ideal(ax):
    rows = [row(instance=i, ranks="0 1 2 3") for i in range(3)]
    (line,) = lines_of(plots.curves(rows, ax), "ep")
    assert area(line) == 1.0
    (ideal,) = [line for line in ax.lines if line.get_label() == "ideal choice"]
    assert area(ideal) == 1.0
    other = Figure().add_subplot()
    (line,) = lines_of(plots.sensitivities(rows, other), "ep")
    np.testing.assert_array_equal(line.get_ydata(), ideal_sensitivity(N, PRESENT))
    (ideal,) = [line for line in other.lines if line.get_label() == "ideal choice"]
    np.testing.assert_array_equal(ideal.get_ydata(), ideal_sensitivity(N, PRESENT))


def test_a_perceptron_of_a_network_has_a_weight_less(ax):
    rows = [{**row(instance=i, ranks="0 1 2 14"), "dynamics": "synchronous"} for i in range(2)]
    (line,) = lines_of(plots.sensitivities(rows, ax), "ep")
    assert list(line.get_xdata()) == list(range(N))
    assert line.get_ydata()[-2] == 0.75


def test_few_alphas_get_a_line_each(ax):
    rows = [row(alpha=a, instance=i) for a in (0.5, 1.0, 2.0, 3.0, 6.0) for i in range(2)]
    plots.curves(rows, ax)
    assert all(len(lines_of(ax, "ep", style)) == 1 for style in (":", "--", "-"))
    labels = ax.get_legend_handles_labels()[1]
    assert labels == ["EP", r"$\alpha = 0.5$", r"$\alpha = 2$", r"$\alpha = 6$", "ideal choice"]
    other = Figure().add_subplot()
    plots.curves(rows, other, alphas=(3.0,))
    assert len(lines_of(other, "ep", "-")) == 1


def test_rankings_of_nan_and_failed_trials_are_left_out(ax):
    good = [row(instance=i) for i in range(2)]
    bad = [row(instance=2, auc=np.nan, mse=np.nan, ranks="0 1 2 3")]
    bad += [{k: v for k, v in row(instance=3, status="error").items() if k not in ("ranks", "auc", "mse")}]
    (one,), (two,) = lines_of(plots.curves(good + bad, ax), "ep"), lines_of(plots.curves(good, _fresh()), "ep")
    np.testing.assert_array_equal(one.get_ydata(), two.get_ydata())
    assert drawn(plots.errors(good + bad, _fresh()), "ep")[1] == drawn(plots.errors(good, _fresh()), "ep")[1]


def _fresh():
    return Figure().add_subplot()


def printed(quantity, value, method="ep", alpha=1.0, se=0.01):
    cell = {"n": N, "eta": 1.0, "patterns": "iid", "dynamics": ""}
    return {**cell, "method": method, "alpha": alpha, "quantity": quantity, "value": value, "se": se}


def crosses(ax):
    return {
        bars.get_label(): list(bars.lines[0].get_ydata())
        for bars in ax.containers
        if bars.get_label().endswith("in the paper")
    }


def test_convergence(ax):
    rows = [row(instance=i, status="converged" if i < 3 else "error") for i in range(4)]
    plots.convergence(rows, ax, [printed("converged", 0.96, "grvamp"), printed("auc", 0.5)])
    _, fraction, bars = drawn(ax, "ep")
    assert fraction == [0.75]
    assert bars == pytest.approx(np.sqrt(0.75 * 0.25 / 4))
    assert crosses(ax) == {"grVAMP in the paper": [0.96]}


@pytest.mark.parametrize(("parameter", "truth"), [("rho", [0.25] * 3), ("eta", [0.955, 0.96, 0.97])])
def test_learned(parameter, truth):
    ax = plots.learned(ROWS, _fresh(), parameter, [printed(parameter, 0.9), printed(f"{parameter}_off", 0.1)])
    assert drawn(ax, "ep")[1][1] == pytest.approx(values(ROWS, f"{parameter}_learned", "ep", 1.0).mean())
    (line,) = [line for line in ax.lines if line.get_label() == "truth"]
    assert list(line.get_ydata()) == pytest.approx(truth)
    assert crosses(ax) == {"EP in the paper": [0.9]}


def test_areas(ax):
    plots.areas([row(instance=i, auc=0.5 + 0.1 * i) for i in range(3)], ax, published=[printed("auc", 0.7, se=np.nan)])
    assert drawn(ax, "ep")[1] == pytest.approx([0.6])
    assert drawn(ax, "ep")[2] == pytest.approx([0.1 / np.sqrt(3)])
    assert crosses(ax) == {"EP in the paper": [0.7]}


def test_times_and_ratios(ax):
    plots.times(ROWS, ax)
    assert ax.get_yscale() == "log"
    seconds = {m: values(ROWS, "cpu_seconds", m, 1.0).mean() for m in ("ep", "grvamp")}
    assert drawn(ax, "grvamp")[1][1] == pytest.approx(seconds["grvamp"])
    told = [printed("seconds", 2.0), printed("seconds", 30.0, "r1bcs"), printed("seconds", 1.0, "r1bcs", alpha=9.0)]
    other = plots.times(ROWS, _fresh(), ratio=True, published=told)
    assert drawn(other, "grvamp")[1][1] == pytest.approx(seconds["grvamp"] / seconds["ep"])
    assert list(drawn(other, "ep")[1]) == [1.0] * 3
    assert crosses(other) == {"EP in the paper": [1.0], "R1BCS in the paper": [15.0]}


def test_without_ep_there_is_no_ratio_but_no_failure():
    rows = [r for r in ROWS if r["method"] != "ep"]
    assert drawn(plots.times(rows, _fresh(), ratio=True), "grvamp") is None


@pytest.mark.parametrize("draw", list(plots.PICTURES))
@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        ROWS[:1],  # one instance: no error bars
        [row(status="max_iter", mse=np.nan, auc=np.nan, rho_learned=np.nan, cpu_seconds=np.nan)],
        [{k: v for k, v in row(status="error").items() if k in ("n", "rho", "eta", "alpha", "method", "status")}],
        [row("something new", i) for i in range(1, 3)],
        [row(eta=0.9), {**row(eta=0.95), "patterns": "mvn"}, row(n=32)],
    ],
    ids=["many", "one", "nan", "failed", "unknown", "settings"],
)
def test_every_picture_of_every_kind_of_rows(draw, rows, tmp_path):
    figure = plots.picture(draw, rows, "A title")
    plots.save(figure, tmp_path / "it.png", dpi=40)
    assert (tmp_path / "it.png").read_bytes()[:4] == b"\x89PNG"


def test_a_picture_has_a_panel_for_every_setting_and_one_legend():
    rows = [{**one, "patterns": p, "eta": e} for one in ROWS for p in ("iid", "mvn") for e in (1.0, 0.9)]
    told = [printed("auc", 0.7), {**printed("auc", 0.6), "patterns": "mvn"}]
    figure = plots.picture("areas", rows, published=told)
    assert [ax.get_title() for ax in figure.axes] == [
        "i.i.d. patterns, $N = 16$",
        r"i.i.d. patterns, $N = 16$, $\eta = 0.9$",
        "correlated patterns, $N = 16$",
        r"correlated patterns, $N = 16$, $\eta = 0.9$",
    ]
    assert [list(crosses(ax).values()) for ax in figure.axes] == [[[0.7]], [], [[0.6]], []]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.texts] == ["EP", "grVAMP", "EP in the paper"]
    assert "4 instances per point" in figure.get_suptitle()


def test_a_long_legend_has_a_line_for_methods_one_for_the_paper_and_one_for_the_rest():
    rows = [{**one, "eta": 0.9, "method": method} for one in ROWS for method in ("ep", "grvamp", "r1bcs")]
    told = [{**printed("rho", 0.2, method), "eta": 0.9} for method in ("ep", "grvamp")]
    (legend,) = plots.picture("learned", rows, published=told).legends
    lines = [[text.get_text() for text in legend.texts[k::3]] for k in range(3)]
    assert lines == [
        ["EP", "grVAMP", "R1BCS"],
        ["EP in the paper", "grVAMP in the paper", ""],
        ["truth", "", ""],
    ]


def test_rankings_by_size_and_by_probability_have_panels_of_their_own():
    rows = [{**one, "ranks_inclusion": "0 1 2 3"} for one in ROWS]
    figure = plots.picture("selection", rows)
    by = ["ranked by $|w|$"] * 2 + [r"ranked by $P(w \neq 0)$"] * 2
    assert [ax.get_xlabel().split(", ")[1] for ax in figure.axes] == by
    assert len(plots.picture("selection", ROWS).axes) == 2


def test_curves_tell_methods_apart_without_colour_and_where_they_coincide():
    rows = [{**one, "ranks": "0 1 5 6", "method": method} for one in ROWS for method in ("ep", "grvamp")]
    ep, grvamp = (lines_of(plots.curves(rows, _fresh()), method)[0] for method in ("ep", "grvamp"))
    assert ep.get_marker() != grvamp.get_marker()
    assert ep.get_markevery() != grvamp.get_markevery()
    assert ep.get_zorder() > grvamp.get_zorder()
    assert ep.get_linewidth() < grvamp.get_linewidth()


def test_panels_are_as_wide_as_their_data(ax):
    low, high = plots.learned([row(alpha=a) for a in (4.0, 5.0, 6.0)], ax).get_xlim()
    assert 3.5 < low < 4.0
    assert 6.0 < high < 6.5


def test_the_papers_numbers_are_hollow_and_ours_are_not(ax):
    plots.areas(ROWS, ax, published=[printed("auc", 0.7)])
    ours, theirs = (
        next(bars.lines[0] for bars in ax.containers if bars.get_label() == label)
        for label in ("EP", "EP in the paper")
    )
    assert ours.get_marker() == theirs.get_marker()
    assert ours.get_markerfacecolor() != theirs.get_markerfacecolor() == "none"


def test_a_method_looks_the_same_everywhere():
    draws = (plots.errors, plots.convergence, plots.learned, plots.areas, plots.times)
    for draw in draws:
        ax = draw(ROWS, _fresh())
        for bars in ax.containers:
            (style,) = [style for style in plots.STYLES.values() if style.label == bars.get_label()]
            assert (bars.lines[0].get_color(), bars.lines[0].get_marker()) == (style.color, style.marker)
    assert len({style.color for style in plots.STYLES.values()}) == len(plots.STYLES)
    assert len({style.marker for style in plots.STYLES.values()}) == len(plots.STYLES)


def test_unknown_pictures_and_no_rows():
    with pytest.raises(ValueError, match=r"draw must be one of errors, .*'nothing'"):
        plots.picture("nothing", ROWS)
    with pytest.raises(ValueError, match="no rows"):
        plots.picture("errors", [])


def test_settings_of_matplotlib_are_left_alone(tmp_path):
    before = dict(matplotlib.rcParams)
    plots.save(plots.picture("selection_errors", ROWS), tmp_path / "it.svg")
    assert dict(matplotlib.rcParams) == before


def test_the_same_rows_give_the_same_file(tmp_path):
    for name in ("one.svg", "two.svg"):
        plots.save(plots.picture("errors", ROWS), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_a_failed_save_leaves_the_old_file(tmp_path):
    target = tmp_path / "it.png"
    target.write_text("old")

    class Broken:
        def savefig(self, path, **_):
            path.write_text("half")
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        plots.save(Broken(), target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_pyplot_is_never_loaded():
    assert run("import sys, dilutron.plots; assert 'matplotlib.pyplot' not in sys.modules").returncode == 0


def test_without_matplotlib_the_extra_is_named():
    done = run("import sys; sys.modules['matplotlib'] = None; import dilutron.plots")
    assert "ImportError: figures need matplotlib: pip install dilutron[plot]" in done.stderr

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from dilutron import panels
from dilutron.metrics import auc, ideal_sensitivity
from tests.trial_rows import PRESENT, ROWS, N, crosses, printed, row


@pytest.fixture
def ax():
    return Figure().add_subplot()


def drawn(ax, method):
    """Points and half-widths of the error bars of a method."""
    for bars in ax.containers:
        if bars.get_label() == panels.STYLES[method].label:
            line, _, (segments,) = bars.lines
            heights = [abs(end[1] - start[1]) / 2 for start, end in segments.get_segments()]
            return line.get_xdata(), line.get_ydata(), np.array(heights)
    return None


def values(rows, column, method, alpha):
    return np.array([r[column] for r in rows if r["method"] == method and r["alpha"] == alpha])


def test_errors_are_decibels_of_the_mean_with_its_standard_error(ax):
    assert panels.errors(ROWS, ax) is ax
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
    panels.errors(flat, ax)
    ax.figure.canvas.draw()
    inset = ax.child_axes[0].get_window_extent()
    _, level, _ = drawn(ax, "ep")
    assert ax.transData.transform((6.0, level[-1]))[1] < inset.y0


def test_the_inset_can_hold_the_convergence(ax):
    rows = [row(instance=i, status="converged" if i else "max_iter") for i in range(4)]
    panels.errors(rows, ax, inset="convergence")
    assert drawn(ax.child_axes[0], "ep")[1] == [0.75]
    other = Figure().add_subplot()
    panels.errors(rows, other, inset=None)
    assert not other.child_axes


def lines_of(ax, method, style="-"):
    color = panels.STYLES[method].color
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
    panels.curves(rows, ax)
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
    (line,) = lines_of(panels.curves(rows, ax), "ep")
    assert area(line) == 1.0
    (ideal,) = [line for line in ax.lines if line.get_label() == "ideal choice"]
    assert area(ideal) == 1.0
    other = Figure().add_subplot()
    (line,) = lines_of(panels.sensitivities(rows, other), "ep")
    np.testing.assert_array_equal(line.get_ydata(), ideal_sensitivity(N, PRESENT))
    (ideal,) = [line for line in other.lines if line.get_label() == "ideal choice"]
    np.testing.assert_array_equal(ideal.get_ydata(), ideal_sensitivity(N, PRESENT))


def test_a_perceptron_of_a_network_has_a_weight_less(ax):
    rows = [{**row(instance=i, ranks="0 1 2 14"), "dynamics": "synchronous"} for i in range(2)]
    (line,) = lines_of(panels.sensitivities(rows, ax), "ep")
    assert list(line.get_xdata()) == list(range(N))
    assert line.get_ydata()[-2] == 0.75


def test_few_alphas_get_a_line_each(ax):
    rows = [row(alpha=a, instance=i) for a in (0.5, 1.0, 2.0, 3.0, 6.0) for i in range(2)]
    panels.curves(rows, ax)
    assert all(len(lines_of(ax, "ep", style)) == 1 for style in (":", "--", "-"))
    labels = ax.get_legend_handles_labels()[1]
    assert labels == ["EP", r"$\alpha = 0.5$", r"$\alpha = 2$", r"$\alpha = 6$", "ideal choice"]
    other = Figure().add_subplot()
    panels.curves(rows, other, alphas=(3.0,))
    assert len(lines_of(other, "ep", "-")) == 1


def test_rankings_of_nan_and_failed_trials_are_left_out(ax):
    good = [row(instance=i) for i in range(2)]
    bad = [row(instance=2, auc=np.nan, mse=np.nan, ranks="0 1 2 3")]
    bad += [{k: v for k, v in row(instance=3, status="error").items() if k not in ("ranks", "auc", "mse")}]
    (one,), (two,) = lines_of(panels.curves(good + bad, ax), "ep"), lines_of(panels.curves(good, _fresh()), "ep")
    np.testing.assert_array_equal(one.get_ydata(), two.get_ydata())
    assert drawn(panels.errors(good + bad, _fresh()), "ep")[1] == drawn(panels.errors(good, _fresh()), "ep")[1]


def _fresh():
    return Figure().add_subplot()


def test_convergence(ax):
    rows = [row(instance=i, status="converged" if i < 3 else "error") for i in range(4)]
    panels.convergence(rows, ax, [printed("converged", 0.96, "grvamp"), printed("auc", 0.5)])
    _, fraction, bars = drawn(ax, "ep")
    assert fraction == [0.75]
    assert bars == pytest.approx(np.sqrt(0.75 * 0.25 / 4))
    assert crosses(ax) == {"grVAMP in the paper": [0.96]}


@pytest.mark.parametrize(("parameter", "truth"), [("rho", [0.25] * 3), ("eta", [0.955, 0.96, 0.97])])
def test_learned(parameter, truth):
    ax = panels.learned(ROWS, _fresh(), parameter, [printed(parameter, 0.9), printed(f"{parameter}_off", 0.1)])
    assert drawn(ax, "ep")[1][1] == pytest.approx(values(ROWS, f"{parameter}_learned", "ep", 1.0).mean())
    (line,) = [line for line in ax.lines if line.get_label() == "truth"]
    assert list(line.get_ydata()) == pytest.approx(truth)
    assert crosses(ax) == {"EP in the paper": [0.9]}


def test_areas(ax):
    panels.areas([row(instance=i, auc=0.5 + 0.1 * i) for i in range(3)], ax, published=[printed("auc", 0.7, se=np.nan)])
    assert drawn(ax, "ep")[1] == pytest.approx([0.6])
    assert drawn(ax, "ep")[2] == pytest.approx([0.1 / np.sqrt(3)])
    assert crosses(ax) == {"EP in the paper": [0.7]}


def test_times_and_ratios(ax):
    panels.times(ROWS, ax)
    assert ax.get_yscale() == "log"
    seconds = {m: values(ROWS, "cpu_seconds", m, 1.0).mean() for m in ("ep", "grvamp")}
    assert drawn(ax, "grvamp")[1][1] == pytest.approx(seconds["grvamp"])
    told = [printed("seconds", 2.0), printed("seconds", 30.0, "r1bcs"), printed("seconds", 1.0, "r1bcs", alpha=9.0)]
    other = panels.times(ROWS, _fresh(), ratio=True, published=told)
    assert drawn(other, "grvamp")[1][1] == pytest.approx(seconds["grvamp"] / seconds["ep"])
    assert list(drawn(other, "ep")[1]) == [1.0] * 3
    assert crosses(other) == {"EP in the paper": [1.0], "R1BCS in the paper": [15.0]}


def test_without_ep_there_is_no_ratio_but_no_failure():
    rows = [r for r in ROWS if r["method"] != "ep"]
    assert drawn(panels.times(rows, _fresh(), ratio=True), "grvamp") is None


def test_curves_tell_methods_apart_without_colour_and_where_they_coincide():
    rows = [{**one, "ranks": "0 1 5 6", "method": method} for one in ROWS for method in ("ep", "grvamp")]
    ep, grvamp = (lines_of(panels.curves(rows, _fresh()), method)[0] for method in ("ep", "grvamp"))
    assert ep.get_marker() != grvamp.get_marker()
    assert ep.get_markevery() != grvamp.get_markevery()
    assert ep.get_zorder() > grvamp.get_zorder()
    assert ep.get_linewidth() < grvamp.get_linewidth()


def test_panels_are_as_wide_as_their_data(ax):
    low, high = panels.learned([row(alpha=a) for a in (4.0, 5.0, 6.0)], ax).get_xlim()
    assert 3.5 < low < 4.0
    assert 6.0 < high < 6.5


def test_the_papers_numbers_are_hollow_and_ours_are_not(ax):
    panels.areas(ROWS, ax, published=[printed("auc", 0.7)])
    ours, theirs = (
        next(bars.lines[0] for bars in ax.containers if bars.get_label() == label)
        for label in ("EP", "EP in the paper")
    )
    assert ours.get_marker() == theirs.get_marker()
    assert ours.get_markerfacecolor() != theirs.get_markerfacecolor() == "none"


def test_a_method_looks_the_same_everywhere():
    draws = (panels.errors, panels.convergence, panels.learned, panels.areas, panels.times)
    for draw in draws:
        ax = draw(ROWS, _fresh())
        for bars in ax.containers:
            (style,) = [style for style in panels.STYLES.values() if style.label == bars.get_label()]
            assert (bars.lines[0].get_color(), bars.lines[0].get_marker()) == (style.color, style.marker)
    assert len({style.color for style in panels.STYLES.values()}) == len(panels.STYLES)
    assert len({style.marker for style in panels.STYLES.values()}) == len(panels.STYLES)

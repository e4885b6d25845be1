import subprocess
import sys

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")

from dilutron import plots  # noqa: E402
from tests.trial_rows import ROWS, crosses, printed, row  # noqa: E402


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

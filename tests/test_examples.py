"""The examples run, print what their pages say of it, and the gallery runs each whose data are part of the project."""

import re
import runpy
import sys

import numpy as np
import pytest

from tests.conftest import ROOT

EXAMPLES = ROOT / "examples"
DATA = ROOT.parent / "shared" / "data"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))


def run(name, monkeypatch, *arguments):
    """An example as a script, which neither opens a window nor, as tests are one process, leaves a figure."""
    matplotlib = pytest.importorskip("matplotlib")
    monkeypatch.setitem(matplotlib.rcParams, "backend", "agg")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
    left = runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    if "plt" in left:
        left["plt"].close("all")


@pytest.fixture
def printed(tmp_path, monkeypatch, capsys):
    """What an example prints, in a folder that it leaves as it was."""

    def output(name, *arguments):
        monkeypatch.delenv("DILUTRON_DATA", raising=False)
        monkeypatch.chdir(tmp_path)
        run(name, monkeypatch, *arguments)
        return capsys.readouterr().out

    yield output
    assert {path.suffix for path in tmp_path.iterdir()} <= {".png"}


def numbers(pattern, text):
    """The numbers in the groups of a pattern, at each place where it fits."""
    found = re.findall(pattern, text)
    assert found, f"{pattern} is not in\n{text}"
    return [[float(number) for number in ([each] if isinstance(each, str) else each)] for each in found]


def test_the_simulated_story_finds_the_genes_and_the_wrong_labels(printed):
    out = printed("simulated_story")
    genes, groups = out.split("P(one of these matters)")
    assert genes.count("<- true") == 3
    assert [chance for (chance,) in numbers(r"\d+ +([\d.]+) .*<- true", genes)][1] > 0.9, "two are all but certain"
    assert min(chance for (chance,) in numbers(r"([\d.]+)  genes .*<- true", groups)) > 0.8
    turned = ["turned over" in line for line in groups.splitlines() if "rather" in line]
    assert turned == [True] * 5 + [False] * 2, "what the page says of them"


def test_large_claims_come_true(printed):
    for claimed, true in numbers(r"0.70 to 1.00 +\d+ +([\d.]+) +(\d+)", printed("calibration")):
        assert true > 0.85 * claimed
        assert true < 1.25 * claimed


def test_the_pipeline_needs_no_search_and_six_features_are_enough(printed):
    out = printed("pipeline_and_search")
    losses = [loss for (loss,) in numbers(r"log loss ([\d.]+)", out)]
    assert len(losses) == 3
    assert losses[2] < min(losses) + 0.02
    assert numbers(r"new samples: accuracy ([\d.]+)", out)[0][0] > 0.9
    six, every = (score for (score,) in numbers(r"features(?: that.*)?: ([\d.]+)\n", out))
    assert abs(six - every) < 0.03


def test_l1_chooses_more_false_genes(printed):
    out = printed("against_l1")
    row = r"{} +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)"
    ep, l1 = (numbers(row.format(name), out)[0] for name in (r"EP, selected\(fdr=0.2\)", "L1, by cross-validation"))
    assert l1[1] > 2.5, "it finds the true ones"
    assert l1[3] > 4 * ep[3]
    assert numbers(r"labels: (\d) were turned over", out)[0][0] >= 3


def test_the_colon_page_shows_what_its_script_prints(printed, tmp_path):
    if not (DATA / "colon_alon.npz").is_file():
        pytest.skip(f"no colon data in {DATA}")
    out, kept = printed("colon", "--figure", "picture.png"), (EXAMPLES / "colon.txt").read_text(encoding="utf-8")
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    for said in (r"(\d) of the (\d) published .*AUC ([\d.]+)", r"folds (\d+) of .* accuracy ([\d.]+)"):
        assert numbers(said, out)[0] == pytest.approx(numbers(said, kept)[0], rel=0.01), "write it anew: see README.rst"
    for said in (r"P\(wrong\) = ([\d.]+)", r"typically (\d+)", r"^ +\d+  ([\d.]+)", r"^Hsa\.\S+ +([\d.]+) "):
        new, old = (np.ravel(numbers(f"(?m){said}", text)) for text in (out, kept))
        np.testing.assert_allclose(new, old, rtol=0.03, atol=0.03, err_msg=f"{said}: write it anew, see README.rst")


def test_without_its_data_the_colon_example_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DILUTRON_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match="DILUTRON_DATA") as ended:
        run("colon", monkeypatch)
    assert str(tmp_path) in ended.value.code
    assert not capsys.readouterr().out


def test_the_gallery_runs_every_example_but_one():
    settings = re.findall(r'"(filename|ignore)_pattern": r"(.+?)"', (ROOT / "docs/conf.py").read_text(encoding="utf-8"))
    pattern = dict(settings)
    shown = [name for name in NAMES if not re.search(pattern["ignore"], str(EXAMPLES / f"{name}.py"))]
    assert sorted({*NAMES} - {*shown}) == ["study"]
    assert [name for name in shown if not re.search(pattern["filename"], str(EXAMPLES / f"{name}.py"))] == ["colon"]
    tested = (ROOT / "tests/test_examples.py").read_text(encoding="utf-8")
    assert not [name for name in shown if f'printed("{name}"' not in tested]

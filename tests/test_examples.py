"""The examples run, and the gallery page shows what they print."""

import os
import re
import runpy
import sys

import pytest

from tests.conftest import ROOT

EXAMPLES = ROOT / "examples"
DATA = ROOT.parent / "shared" / "data"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem not in ("build", "study"))
DRAWN = ("calibration", "colon")


def run(name, monkeypatch, *arguments):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")


@pytest.mark.parametrize("name", NAMES)
def test_each_example_runs(name, tmp_path, monkeypatch, capsys):
    if name == "colon" and not (DATA / "colon_alon.npz").is_file():
        pytest.skip(f"no colon data in {DATA}")
    if name in DRAWN:
        pytest.importorskip("matplotlib")
    monkeypatch.delenv("DILUTRON_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    run(name, monkeypatch, *(("--figure", "picture.png") if name in DRAWN else ()))
    assert capsys.readouterr().out.count("\n") > 8
    assert os.listdir(tmp_path) == (["picture.png"] if name in DRAWN else [])


def test_without_its_data_the_colon_example_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DILUTRON_DATA", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        run("colon", monkeypatch)
    assert ended.value.code == runpy.run_path(str(EXAMPLES / "build.py"))["NO_DATA"]
    out, told = capsys.readouterr()
    assert not out
    assert str(tmp_path) in told
    assert "DILUTRON_DATA" in told


def test_the_gallery_shows_every_example():
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"(?:literalinclude|image)} (\S+)", page))
    wanted = {f"../examples/{name}.py" for name in NAMES} | {f"gallery/{name}.txt" for name in NAMES}
    wanted |= {f"figures/gallery-{name}.png" for name in DRAWN}
    assert wanted <= shown
    assert all((ROOT / "docs" / file).is_file() for file in shown)
    drawn = runpy.run_path(str(EXAMPLES / "build.py"))["DRAWN"]
    assert sorted(drawn) == NAMES
    assert tuple(sorted(name for name in drawn if drawn[name])) == DRAWN

"""Benchmarks that lack something say what, leave their results as they are, and the others run."""

import os
import re
import subprocess
import sys
import tomllib

import numpy as np
import pytest

from benchmarks import __main__ as benchmarks
from benchmarks import in_r, independent, peers, rows, scale, synthetic, wide_run
from benchmarks.__main__ import BENCHMARKS, Benchmark
from benchmarks.needs import INSTALL, Need, absent, files, packages, said
from tests.conftest import ROOT

HERE, GONE = (Need(f"{word} thing", lambda there=there: there, f"buy the {word} one")
              for word, there in (("known", True), ("lost", False)))  # fmt: skip
# What is not installed with dilutron alone, by the benchmarks that cannot do without.
WITHOUT = {
    "matplotlib": ("paper", "unfinished", "tables", "size", "scale"),
    "dask": ("tall", "tall_workers"),
    "distributed": ("tall_workers",),
    "polars": ("reading", "wide_run"),
    "typer": ("wide_run",),
    "rich": ("wide_run",),
    "jinja2": ("wide_run",),
    "cleanlab": ("label_errors",),
}


@pytest.fixture
def few(monkeypatch, tmp_path):
    """Stand-ins for the benchmarks; what ran, with how many instances, and the two folders of results."""
    ran = []
    docs, trials = tmp_path / "results", tmp_path / "trials"
    docs.mkdir()
    for name in ("poor", "part", "whole"):
        (docs / f"{name}.csv").write_text("as it was", encoding="utf-8")

    def bench(name, **more):
        def run(instances, jobs):
            ran.append((name, instances))
            rows.write(name, [{"instances": instances}])

        return Benchmark(run, 7, **more)

    def broken(instances, jobs):
        raise ValueError("it broke")

    known = {
        "poor": bench("poor", needs=(HERE, GONE)),
        "part": bench("part", needs=(HERE,), wants=(HERE, GONE)),
        "broken": Benchmark(broken),
        "whole": bench("whole", needs=(HERE,), wants=(HERE,)),
    }
    monkeypatch.delenv("BENCHMARK_FOLDER", raising=False)
    for module in (rows, benchmarks):
        monkeypatch.setattr(module, "RESULTS", docs)
    monkeypatch.setattr(benchmarks, "TRIALS", trials)
    monkeypatch.setattr(benchmarks, "BENCHMARKS", known)
    return ran, docs, trials


def status(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words])
    with pytest.raises(SystemExit) as end:
        benchmarks.main()
    return end.value.code


def test_those_that_cannot_run_are_left_out_and_the_others_go_on(few, monkeypatch, capsys):
    ran, docs, trials = few
    assert status(monkeypatch) == 1, "one failed"
    assert ran == [("part", 7), ("whole", 7)]
    assert (docs / "poor.csv").read_text(encoding="utf-8") == "as it was"
    assert (docs / "part.csv").read_text(encoding="utf-8") == "as it was", "its rows lack a part"
    assert (docs / "whole.csv").read_text(encoding="utf-8") == "instances\n7\n"
    assert [path.name for path in trials.iterdir()] == ["part.csv"]
    assert "BENCHMARK_FOLDER" not in os.environ
    before, _, after = capsys.readouterr().out.partition("== part")
    lost = "LEFT OUT: poor, for want of lost thing (buy the lost one)"
    part = f"IN PART, rows to {trials}: part, without lost thing (buy the lost one)"
    assert before.splitlines() == [lost, part], "before anything runs"
    assert after.splitlines()[-4:] == ["== not whole", lost, part, "FAILED: broken, ValueError: it broke"]


def test_the_exit_status_is_of_those_that_were_named(few, monkeypatch, capsys):
    ran, _, _ = few
    assert status(monkeypatch, "part", "whole") == 0
    assert status(monkeypatch, "whole", "poor") == 1
    assert status(monkeypatch, "broken") == 1
    capsys.readouterr()
    assert status(monkeypatch, "poor") == 1
    assert len(capsys.readouterr().out.splitlines()) == 1, "nothing ran: said once"
    del benchmarks.BENCHMARKS["broken"]
    ran.clear()
    assert status(monkeypatch) == 0, "nobody asked for the poor one"
    assert [name for name, _ in ran] == ["part", "whole"]
    capsys.readouterr()
    assert status(monkeypatch, "whole") == 0
    assert "not whole" not in capsys.readouterr().out


def test_rows_of_another_size_or_for_another_folder_go_there(few, monkeypatch, tmp_path):
    ran, docs, trials = few
    assert status(monkeypatch, "whole", "--instances", "3") == 0
    assert ran == [("whole", 3)]
    assert (trials / "whole.csv").is_file()
    monkeypatch.setenv("BENCHMARK_FOLDER", str(tmp_path / "mine"))
    assert status(monkeypatch, "part", "whole") == 0
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["part.csv", "whole.csv"]
    assert {path.read_text(encoding="utf-8") for path in docs.iterdir()} == {"as it was"}


def test_needs_are_looked_for_each_time(tmp_path):
    place = tmp_path / "data.npz"
    needs = (*packages("numpy", "no_such_package"), *files(place, remedy="put it there"))
    assert [need.name for need in absent(needs)] == ["no_such_package", str(place)]
    place.touch()
    assert [need.name for need in absent(needs)] == ["no_such_package"]


def test_what_to_do_is_said_once_for_all_that_it_helps():
    words = said((*packages("a", "b"), GONE))
    assert words == f"a, b ({INSTALL}); lost thing (buy the lost one)"


def test_programs_of_r_are_left_out_where_r_is_not(monkeypatch):
    monkeypatch.setattr(in_r.shutil, "which", lambda name: None)
    in_r.version.cache_clear()
    methods = synthetic.methods({"rho": 0.5})
    names = peers.installed(methods)
    assert "dilutron" in names
    assert not {"glmnet L1", "sparsevb", "varbvs"} & set(names)
    lacking = {need.name for need in absent(peers.needs_of(methods))}
    assert {"glmnet of R", "sparsevb of R", "varbvs of R"} <= lacking
    in_r.version.cache_clear()


def test_every_program_that_is_compared_is_wanted():
    for name, methods in (("scale", scale.CLASSIFIERS), ("synthetic_large", synthetic.methods({"rho": 0.5}))):
        assert len(BENCHMARKS[name].wants) == len({method.package for method in methods.values()})


def test_without_any_extra_every_benchmark_says_what_it_lacks(tmp_path):
    """In a process that cannot import them, and has no R. Nothing is run, and nothing written."""
    names = dict.fromkeys(name for some in WITHOUT.values() for name in some)
    gone = [*WITHOUT, "skglm", "abess", "celer", "ISLP"]
    code = f"import sys; sys.modules.update(dict.fromkeys({gone})); from benchmarks.__main__ import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code, *names],
        env=os.environ | {"BENCHMARK_FOLDER": str(tmp_path), "PATH": "", "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1, ended.stderr
    lines = dict(re.findall(r"^LEFT OUT: (\w+), for want of (.*)$", ended.stdout, flags=re.M))
    assert list(lines) == list(names)
    for package, lacking in WITHOUT.items():
        assert {name for name, words in lines.items() if package in re.findall(r"\w+", words)} == {*lacking}
    assert not list(tmp_path.iterdir())


def test_make_bench_installs_what_the_benchmarks_need():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]

    def installs(extra):
        for line in extras[extra]:
            name, inner = re.match(r"([\w-]+)(?:\[(.*)\])?", line).groups()
            yield name
            for other in (inner or "").split(",") if inner else ():
                yield from installs(other)

    needed = {need.name.split()[0] for one in BENCHMARKS.values() for need in one.needs + one.wants
              if need.remedy == INSTALL}  # fmt: skip
    assert {"skglm", "polars", "matplotlib"} < needed
    assert needed <= set(installs("bench"))


def test_a_source_that_is_there_and_cannot_be_read_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(independent, "FURTHER", tmp_path / "none")
    monkeypatch.setattr(independent, "SOURCES", (HERE, GONE, GONE))
    monkeypatch.setattr(independent, "exported", lambda name: name != "all_sex")
    with pytest.raises(RuntimeError, match="cannot be read: all_sex"):
        independent.main(2, 1)


def test_sets_that_were_read_before_need_no_source(tmp_path, monkeypatch):
    monkeypatch.setattr(independent, "FURTHER", tmp_path)
    source = independent._kept(GONE, ["a", "b"])
    np.savez(tmp_path / "a.npz", X=[0.0])
    assert not source.there()
    np.savez(tmp_path / "b.npz", X=[0.0])
    assert source.there()


def test_a_wide_file_goes_from_the_command_to_the_page():
    """At a tiny size: with five folds held out, as by default, and without."""
    if lacking := absent(BENCHMARKS["wide_run"].needs):
        pytest.skip(said(lacking))
    default, short = wide_run.from_file_to_page(40, 30, 2)
    assert (default["fit"], default["folds"], short["folds"]) == ("default", 5, 0)
    assert 0.0 <= default["accuracy"] <= 1.0
    assert (short["accuracy"], short["folds_settled"]) == ("", "")
    for line in (default, short):
        assert (line["rows"], line["features"]) == (40, 30)
        assert line["fit_cpu_seconds"] > 0.0
        assert line["fit_peak_mb"] > 50.0
        assert line["page_kb"] > 50.0
        assert line["named_true"] <= line["named"]

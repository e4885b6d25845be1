import csv
import re

from dilutron import Posterior, Status, demo


def test_the_demo_prints_and_writes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    demo.main()
    printed = capsys.readouterr().out
    rho = float(re.search(r"rho +learned ([\d.]+)", printed).group(1))
    eta = float(re.search(r"labels +learned ([\d.]+)", printed).group(1))
    assert abs(rho - 0.25) < 0.08
    assert abs(eta - 0.95) < 0.03
    assert "converged" in printed
    assert "P(w != 0)" in printed
    posterior = Posterior.load(tmp_path / "demo-run" / "posterior")
    assert posterior.status is Status.CONVERGED
    assert f"{posterior.weights.rho:.3f}" == f"{rho:.3f}"
    for name, rows in (("weights.csv", 128), ("labels.csv", 512)):
        with open(tmp_path / "demo-run" / name, newline="", encoding="utf-8") as file:
            assert len(list(csv.DictReader(file))) == rows
    assert {path.name for path in (tmp_path / "demo-run").iterdir()} == {"posterior", "weights.csv", "labels.csv"}
    assert "demo-run" in printed


def test_the_demo_can_be_run_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    demo.main()
    first = capsys.readouterr().out
    demo.main()
    timing = re.compile(r"[\d.]+ s\b")
    assert timing.sub("", capsys.readouterr().out) == timing.sub("", first)

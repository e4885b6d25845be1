from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,  # a busy machine is no failure
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=30,
    database=None,
)
settings.load_profile("repeatable")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def shared_runs():
    """The reference runs that lie beside the repository, where they do."""
    folder = ROOT.parent / "shared" / "fixtures"
    if not folder.is_dir():
        pytest.skip(f"no reference runs in {folder}")
    return folder


@pytest.fixture
def in_process(monkeypatch, capsys, tmp_path):
    """The command line in this process, in a folder of its own: exit code, standard output, standard error."""
    pytest.importorskip("typer")
    from dilutron import cli

    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            cli.main(arguments)
        return end.value.code, *capsys.readouterr()

    return run

"""The packages as a user gets them: built, compared with the repository, installed on their own, and run offline."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SMOKE = """
import socket

def refuse(*args, **kwargs):
    raise AssertionError("the network was used")

socket.socket.connect = socket.getaddrinfo = refuse
import tempfile
import numpy as np
import dilutron
from dilutron import EPClassifier

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 20))
y = X[:, 0] - X[:, 1] > 0.0
model = EPClassifier().fit(X, y)
assert model.score(X, y) > 0.85
assert set(model.selected(n_features_to_select=2).tolist()) == {0, 1}
with tempfile.TemporaryDirectory() as place:
    again = EPClassifier.load(model.save(place + "/model"))
np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
assert "site-packages" in dilutron.__file__, dilutron.__file__
print("dilutron", dilutron.__version__, "fits, saves and loads offline")
"""


def main() -> None:
    """Raises where a package lacks a file, cannot be installed or does not work."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        builder, user = _environment(folder / "builder"), _environment(folder / "user")
        _run(builder, "-m", "pip", "install", "-q", "hatchling>=1.27")
        _run(builder, "-m", "hatchling", "build", "-d", str(folder / "dist"))
        (wheel,), (source,) = (list((folder / "dist").glob(f"*{end}")) for end in (".whl", ".tar.gz"))
        _check_source(source)
        _run(user, "-m", "pip", "install", "-q", str(wheel))
        _run(user, "-I", "-c", SMOKE, cwd=folder)


def _environment(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    return folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"


def _run(python: Path, *words: str, cwd: Path = ROOT) -> None:
    subprocess.run([str(python), *words], check=True, cwd=cwd)


def _check_source(source: Path) -> None:
    """Every file of the repository that users need is in it: they can test what they have."""
    with tarfile.open(source) as archive:
        there = {name.partition("/")[2] for name in archive.getnames()}
    kept = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    needed = [name for name in kept if name.startswith(("src/", "tests/", "docs/", "reliability/", "benchmarks/"))]
    needed += ["pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile"]
    absent = sorted(set(needed) - there)
    if absent:
        raise AssertionError(f"{source.name} lacks {len(absent)} files: {absent[:5]}")


if __name__ == "__main__":  # needs nothing installed, unlike the other campaigns
    main()

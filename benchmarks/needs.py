"""What a benchmark needs besides dilutron itself: whether it is there, and what to do where it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from benchmarks import in_r
from benchmarks.alone import CLEAR

INSTALL = "make bench installs it, or: pip install -e '.[bench]'"
INSTALL_R = "install R, and in it what is missing by install.packages"


class Need(NamedTuple):
    """What it is called, whether it is there now, and what to do where it is not."""

    name: str
    there: Callable[[], bool]
    remedy: str


LINUX = Need("memory as Linux counts it", CLEAR.exists, "run it on Linux")


def packages(*modules: str, remedy: str = INSTALL) -> tuple[Need, ...]:
    """Of Python, by the names that they are imported by. They are looked for, not imported: some take long."""
    return tuple(Need(name, partial(_found, name), remedy) for name in modules)


def packages_of_r(*names: str, remedy: str = INSTALL_R) -> tuple[Need, ...]:
    return tuple(Need(f"{name} of R", partial(_found_by_r, name), remedy) for name in names)


def files(*paths: Path, remedy: str) -> tuple[Need, ...]:
    """Files or folders."""
    return tuple(Need(str(path), path.exists, remedy) for path in paths)


def _found(module: str) -> bool:
    return find_spec(module) is not None


def _found_by_r(name: str) -> bool:
    return in_r.version(name) is not None


def absent(needs: Iterable[Need]) -> list[Need]:
    return [need for need in needs if not need.there()]


def said(needs: Iterable[Need]) -> str:
    """Names, and what to do about them once for all that it helps."""
    names: dict[str, list[str]] = {}
    for need in needs:
        names.setdefault(need.remedy, []).append(need.name)
    return "; ".join(f"{', '.join(some)} ({remedy})" for remedy, some in names.items())

"""The house rules that a machine can check: imports go one way, cited equations are in the ledger, bounds agree."""

import ast
import importlib
import re
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import dilutron

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "dilutron"
ROOMS = (
    "special",
    "options",
    "files",
    "priors",
    "gaussian",
    "single",
    "tied",
    "rows",
    "chunked",
    "checking",
    "loop",
    "problem",
    "ep",
    "stepping",
    "ladder",
    "parameters",
    "learning",
    "paper_scheme",
    "posterior",
    "student",
    "baselines",
    "methods",
    "data",
    "metrics",
    "selection",
    "averages",
    "wishes",
    "path",
    "fitting",
    "groups",
    "keeping",
    "progress",
    "classifier",
    "estimators",
    "tables",
    "runs",
    "panels",
    "plots",
    "experiments",
    "report",
    "commands",
    "cli",
    "__main__",
    "demo",
)
CORE = ("special", "priors", "gaussian", "loop", "ep")
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
LEDGER = ROOT / "docs" / "equations.md"
COMING = ()  # rooms that the ledger already names and that are not built yet


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path):
    """Every imported module as its dotted name; a name taken from the package itself, as the room that made it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {child for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for child in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            if node.module != "dilutron":
                yield node.module
                continue
            for alias in node.names:
                if alias.name == "__version__" and node in inside:
                    continue
                made = getattr(dilutron, alias.name, None)
                yield f"dilutron.{alias.name}" if alias.name in ROOMS else getattr(made, "__module__", "dilutron.?")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    room = room_of(path)
    assert room in ROOMS, f"{room} is not in the list of rooms: give it a place"
    for name in imported(path):
        if name.split(".")[0] == "dilutron":
            source = name.split(".")[1]
            allowed = ROOMS[: ROOMS.index(room) + (PACKAGE / room).is_dir()]
            assert source in allowed, f"{path.name} imports {name}, which is not an earlier room"


@pytest.mark.parametrize("room", [room for room in ROOMS if (PACKAGE / room).is_dir()])
def test_files_of_a_room_do_not_import_in_a_circle(room):
    """What a file needs of its own room must not need that file, by whatever way."""
    files = {f"dilutron.{room}.{path.stem}": path for path in (PACKAGE / room).glob("*.py") if path.stem != "__init__"}
    needs = {name: {one for one in imported(path) if one in files} for name, path in files.items()}
    TopologicalSorter(needs).prepare()  # which raises CycleError, and names the circle


@pytest.mark.parametrize("room", CORE)
def test_the_core_needs_only_numpy_and_scipy(room):
    outside = {name.split(".")[0] for name in imported(PACKAGE / f"{room}.py")} - {"dilutron", "numpy", "scipy"}
    assert outside <= sys.stdlib_module_names


def cited():
    """Equation numbers in the source, with the file of each."""
    for path in PACKAGE.rglob("*.py"):
        for group in re.findall(r"Eqs?\.\s*((?:\([A-C]?\d+\)(?:,| to| and)?\s*)+)", path.read_text(encoding="utf-8")):
            for number in re.findall(r"\(([A-C]?\d+)\)", group):
                yield number, path.name


def ledger_rows():
    for line in LEDGER.read_text(encoding="utf-8").splitlines():
        found = re.match(r"\| \(([A-C]?\d+)\) \|", line)
        if found:
            yield found.group(1), line


def test_every_cited_equation_is_in_the_ledger():
    rows, numbers = {number for number, _ in ledger_rows()}, set(cited())
    assert len(numbers) > 25, "the citations are found at all"
    assert not {(number, file) for number, file in numbers if number not in rows}


def test_the_ledger_is_complete_and_in_order():
    numbers = [number for number, _ in ledger_rows()]
    wanted = [*range(1, 58), *(f"{a}{k}" for a, n in (("A", 7), ("B", 7), ("C", 4)) for k in range(1, n + 1))]
    assert numbers == [str(number) for number in wanted]


def exists(dotted):
    """True where `room.thing.part` can be reached."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(["dilutron", *parts[:cut]]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False


def test_places_can_be_checked():
    assert exists("ep.cavity_of")
    assert exists("data.teacher")
    assert exists("priors.SpikeSlab.moments")
    assert not exists("ep.nothing")
    assert not exists("nowhere.at_all")


@pytest.mark.parametrize(("number", "line"), list(ledger_rows()), ids=lambda x: x if len(x) < 4 else "")
def test_the_ledger_names_code_that_exists(number, line):
    where = re.split(r"(?<!\\)\|", line)[3]
    places = re.findall(r"`([a-z_]+(?:\.\w+)*)`", where)
    assert places or where.strip() == "-"
    assert not [place for place in places if place not in COMING and not exists(place)]


def test_every_public_name_comes_from_the_room_that_type_checkers_are_told():
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    told = {
        node.module.removeprefix("dilutron."): tuple(alias.name for alias in node.names)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("dilutron.")
    }
    assert told == dilutron.HOMES
    assert sorted(name for names in told.values() for name in names) == sorted(dilutron.__all__)
    for name in dilutron.__all__:
        assert getattr(dilutron, name) is not None
    assert set(dilutron.__all__) <= set(dir(dilutron))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = dilutron.nothing


def versions(lines, sign):
    """The version of each package, where a line gives it by this sign."""
    return dict(re.match(rf"([\w-]+){sign}([\d.]+)", line).groups() for line in lines if sign in line)


def test_the_oldest_versions_tested_are_the_oldest_allowed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core = versions(project["dependencies"], ">=")
    tested = versions((ROOT / "tests" / "oldest.txt").read_text(encoding="utf-8").splitlines(), "==")
    assert len(core) == len(project["dependencies"]), "each has a lower bound"
    assert core.keys() <= tested.keys()
    assert tested.items() <= (versions(project["optional-dependencies"]["dev"], ">=") | core).items()

"""Everything that parses, each with valid inputs to begin at, and hostile ones made by hand."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import shutil
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reliability.mutating import TOKENS, mutated, mutated_json

ROWS = 12
COLUMNS = ("sample", "class", "age", "height", "weight")


class Parser(NamedTuple):
    """What is fuzzed.

    Attributes
    ----------
    share : float
        Of the inputs.
    seed : callable
        Makes valid files in a folder.
    spoil : callable
        Changes them, by random numbers.
    parse : callable
        Reads them; ends well or in a clean error.
    hostile : tuple of callables
        Files made by hand, each tried once, before the random ones.
    """

    share: float
    seed: Callable[[Path], None]
    spoil: Callable[[Path, np.random.Generator], None]
    parse: Callable[[Path], None]
    hostile: tuple[Callable[[Path], None], ...] = ()


def frame() -> Any:
    """A table of two classes, of all that a file may hold."""
    import polars as pl

    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "sample": [f"s{i}" for i in range(ROWS)],
            "class": [("ill", "well")[i % 2] for i in range(ROWS)],
            "age": rng.integers(20, 80, ROWS),
            "height": rng.normal(1.7, 0.1, ROWS),
            "weight": rng.normal(70.0, 10.0, ROWS),
        }
    )


def _text(name: str, separator: str = ",") -> Callable[[Path], None]:
    def seed(folder: Path) -> None:
        text = frame().write_csv(separator=separator).encode()
        (folder / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)

    return seed


def _file(name: str) -> Callable[[Path, np.random.Generator], None]:
    def spoil(folder: Path, rng: np.random.Generator) -> None:
        path = folder / name
        path.write_bytes(mutated(path.read_bytes(), rng))

    return spoil


def _unpacked(folder: Path, rng: np.random.Generator) -> None:
    """What is in the gzip file, or the file itself."""
    path = folder / "data.csv.gz"
    if rng.random() < 0.5:
        path.write_bytes(gzip.compress(mutated(gzip.decompress(path.read_bytes()), rng), 1))
    else:
        path.write_bytes(mutated(path.read_bytes(), rng))


def _table(name: str) -> Callable[[Path], None]:
    def parse(folder: Path) -> None:
        from dilutron import tables

        sheet = tables.read(folder / name, tables.Columns("class", "sample"))
        assert np.all(np.isfinite(sheet.X) | np.isnan(sheet.X))
        assert sheet.X.shape == (len(sheet.labels), len(sheet.names))

    return parse


def _raw(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(content) and None


def _gzip_bomb(folder: Path) -> None:
    """Three gigabytes in three megabytes."""
    with gzip.open(folder / "data.csv.gz", "wb", 9) as file:
        file.write(b"sample,class,age\n")
        for _ in range(3 << 6):
            file.write(b"0" * (1 << 24))


def _parquet(folder: Path) -> None:
    frame().write_parquet(folder / "data.parquet")


def _h5ad(folder: Path) -> None:
    import warnings

    import anndata
    import pandas as pd

    table = pd.DataFrame(frame().to_dict(as_series=False))
    obs = table[["class", "sample"]].set_index(table["sample"].to_numpy())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = anndata.AnnData(table[["age", "height", "weight"]].to_numpy(float), obs=obs)
        data.var_names = ["age", "height", "weight"]
        data.write_h5ad(folder / "data.h5ad")


def _model() -> Any:
    from dilutron import EPClassifier

    table = frame()
    return EPClassifier().fit(table[["age", "height", "weight"]], table["class"].to_list())


def _posterior_folder(folder: Path) -> None:
    _model().fits_[0].best.save(folder / "posterior")


def _model_folder(folder: Path) -> None:
    _model().save(folder / "model")


def _run_folder(folder: Path) -> None:
    from dilutron import runs

    data = folder / "data.csv"
    frame().write_csv(data)
    request = runs.Request(runs_columns(), folds=2, impute=True)
    runs.write(runs.make(data, request), folder / "run")


def runs_columns() -> Any:
    """Which columns are what."""
    from dilutron import tables

    return tables.Columns("class", "sample")


def _within(folder: Path, rng: np.random.Generator) -> None:
    """One file of a folder, by bytes or, where it is JSON, by values."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = files[int(rng.integers(len(files)))]
    if path.suffix == ".json" and rng.random() < 0.7:
        path.write_text(mutated_json(path.read_text(encoding="utf-8"), rng), encoding="utf-8")
    elif path.suffix == ".npz" and rng.random() < 0.7:
        _arrays(path, rng)
    else:
        path.write_bytes(mutated(path.read_bytes(), rng))


def _arrays(path: Path, rng: np.random.Generator) -> None:
    """A valid archive, of which one array is spoilt: its checksum is right and its content is not."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = sorted(parts)[int(rng.integers(len(parts)))]
    parts[name] = mutated(parts[name], rng, 3)
    with zipfile.ZipFile(path, "w") as archive:
        for each, data in parts.items():
            archive.writestr(each, data)


def _sealed(folder: Path) -> None:
    """Mend the checksum of a posterior, where that can be done: what is behind it must stand, too."""
    from dilutron.posterior import digest

    with contextlib.suppress(ValueError, AttributeError, RecursionError):
        path = folder / "posterior.json"
        facts = json.loads(path.read_text(encoding="utf-8"))
        facts.pop("sha256", None)
        path.write_text(json.dumps(facts | {"sha256": digest(facts, folder)}), encoding="utf-8")


def _posterior_within(folder: Path, rng: np.random.Generator) -> None:
    _within(folder, rng)
    if rng.random() < 0.8:
        _sealed(folder / "posterior")


def _signed(folder: Path, rng: np.random.Generator) -> None:
    """The same, and by someone who then mends the checksums."""
    if rng.random() < 0.3:
        _within(folder, rng)
        return
    model, facts = folder / "model", folder / "model" / "estimator.json"
    outer = json.loads(facts.read_text(encoding="utf-8"))
    inner = json.loads(outer["text"])
    if rng.random() < 0.5:
        posteriors = sorted(path for path in model.rglob("*") if path.is_file() and path != facts)
        path = posteriors[int(rng.integers(len(posteriors)))]
        if path.suffix == ".json":
            path.write_text(mutated_json(path.read_text(encoding="utf-8"), rng), encoding="utf-8")
        else:
            _arrays(path, rng)
        _sealed(path.parent)
        for each in path.parent.iterdir():
            inner["files"][each.relative_to(model).as_posix()] = hashlib.sha256(each.read_bytes()).hexdigest()
        text = json.dumps(inner)
    else:
        text = mutated_json(outer["text"], rng)
    outer |= {"text": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    facts.write_text(json.dumps(outer), encoding="utf-8")


def _load_posterior(folder: Path) -> None:
    from dilutron import Posterior

    posterior = Posterior.load(folder / "posterior")
    with contextlib.suppress(ValueError):  # of rows that are too far away: that is no fault of the folder
        assert np.all(np.isfinite(posterior.probability(np.zeros((1, posterior.mean.size)))))


def _load_model(folder: Path) -> None:
    from dilutron import EPClassifier

    model = EPClassifier.load(folder / "model")
    with contextlib.suppress(ValueError):
        chance = model.predict_proba(np.zeros((1, model.n_features_in_)))
        assert chance.shape == (1, model.classes_.size)
        assert np.all(np.isfinite(chance))


def _load_run(folder: Path) -> None:
    """Predict with it, and make its page: of that page nothing may run."""
    from dilutron import report, runs

    page = Path(report.write(folder / "run")).read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    runs.load(folder / "run").predictions(folder / "data.csv")


def _store(folder: Path) -> None:
    from dilutron.experiments.store import Store, Trial

    store = Store(folder / "trials.sqlite")
    for i in range(8):
        store.write(Trial("teacher", {"n": 8, "method": "ep"}, i), {"status": "converged", "mse": 0.1 * i})
    with contextlib.closing(sqlite3.connect(folder / "trials.sqlite")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode=DELETE")


def _open_store(folder: Path) -> None:
    from dilutron.experiments.store import Store, Trial

    store = Store(folder / "trials.sqlite")
    store.rows("teacher")
    store.missing([Trial("teacher", {"n": 8, "method": "ep"}, i) for i in range(9)])


def _spoilt_rows(folder: Path, rng: np.random.Generator) -> None:
    """The file, or a row of a sound one."""
    path = folder / "trials.sqlite"
    if rng.random() < 0.6:
        path.write_bytes(mutated(path.read_bytes(), rng))
        return
    column = str(rng.choice(["kind", "cell", "instance", "status", "outcome"]))
    junk = rng.choice([b"\xff\xfe", b"{", b"[]", b"{}", b"1", b"", b"null"], 1)[0]
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        value: Any = junk if rng.random() < 0.5 else junk.decode("latin-1")
        connection.execute(
            f"UPDATE OR IGNORE trials SET {column} = ? WHERE instance = ?", (value, int(rng.integers(8)))
        )


def _nothing(folder: Path) -> None:
    """Its seed is a table, for commands to be given."""
    frame().write_csv(folder / "data.csv")


WORDS = [
    *("fit", "predict", "report", "simulate", "compare-methods", "items", "reproduce", "--help", "--version", "-h"),
    *(
        "data.csv",
        "nothing.csv",
        ".",
        "..",
        "/dev/null",
        "--label",
        "class",
        "--id",
        "sample",
        "--drop",
        "age",
        "--out",
    ),
    *("new", "data.csv", "", " ", "--folds", "0", "2", "1", "-1", "nan", "inf", "1e400", "--fdr", "0.1", "--seed", "x"),
    *("--expect", "--positive", "ill", "--log", "--impute", "median", "--force", "--json", "--rows", "4", "--features"),
    *("--matter", "--flip", "--patterns", "iid", "--instances", "--only", "ep", "--", "--no-such-option", "a\nb"),
    *("\x1b[2J", "=cmd()", "<b>", "é" * 50, "9" * 400, "--out=new", "--label=class", "--budget", "--jobs", "table-9"),
]
COMMANDS = [
    ["fit", "data.csv", "--label", "class", "--id", "sample", "--folds", "0", "--out", "new"],
    ["predict", "run", "data.csv", "--id", "sample"],
    ["report", "run"],
    ["simulate", "--out", "new.csv", "--rows", "8", "--features", "4", "--matter", "1"],
    ["items", "--instances", "2"],
]


def _options(folder: Path, rng: np.random.Generator) -> None:
    """A command line: a good one with words changed, or words alone."""
    words = list(COMMANDS[int(rng.integers(len(COMMANDS)))]) if rng.random() < 0.8 else []
    for _ in range(int(rng.integers(1, 6))):
        place = int(rng.integers(len(words) + 1))
        word = WORDS[int(rng.integers(len(WORDS)))]
        if rng.random() < 0.1:
            word = TOKENS[int(rng.integers(len(TOKENS)))].decode("utf-8", "surrogateescape")[:100].replace("\x00", "?")
        words[place : place + int(rng.integers(2))] = [word]
    (folder / "words.json").write_text(json.dumps(words))


def _command(folder: Path) -> None:
    from dilutron import cli

    words = json.loads((folder / "words.json").read_text())
    if "reproduce" in words:  # a good one would run for an hour: never with an item that there is
        words = ["reproduce", *(word for word in words if word not in ("all", "reproduce"))]
    before = Path.cwd()
    os.chdir(folder)
    said, erred = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(erred):
            cli.main(words)
    except SystemExit as end:
        if end.code in (0, None):
            return
        assert "Traceback" not in erred.getvalue(), erred.getvalue()[-300:]
        assert erred.getvalue().strip(), f"no word of why: {words}"
        raise ValueError(f"{folder}: exit code {end.code}") from None
    finally:
        os.chdir(before)


def _deep(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text("[" * 100_000) and None


def _zip_bomb(folder: Path) -> None:
    """One array that says it is of two gigabytes; half a gigabyte of it is there, in half a megabyte."""
    path = folder / "posterior" / "arrays.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("mean.npy", "w", force_zip64=True) as f,
    ):
        np.lib.format.write_array_header_1_0(f, {"descr": "<f8", "fortran_order": False, "shape": (2**28,)})
        for _ in range(2**5):
            f.write(bytes(2**24))


def _absurd_shape(folder: Path) -> None:
    """A billion billion numbers, declared and not there."""
    path = folder / "posterior" / "arrays.npz"
    with zipfile.ZipFile(path, "w") as archive, archive.open("mean.npy", "w") as f:
        np.lib.format.write_array_header_1_0(f, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**9)})


def _pickled(folder: Path) -> None:
    """An array whose unpickling would make a folder."""

    class Trap:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(folder / "sprung"),)

    np.savez(folder / "posterior" / "arrays.npz", mean=np.array([Trap()], dtype=object), allow_pickle=True)


def _elsewhere(folder: Path) -> None:
    """A model that names files outside of its folder, one of them without an end."""
    facts = folder / "model" / "estimator.json"
    outer = json.loads(facts.read_text(encoding="utf-8"))
    inner = json.loads(outer["text"])
    inner["files"]["/dev/zero"] = "0" * 64
    text = json.dumps(inner)
    outer |= {"text": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    facts.write_text(json.dumps(outer), encoding="utf-8")


HEADERS = (
    _raw("data.csv", b"sample,class," + b"x," * 2_000_000 + b"\ns1,ill,1\n"),
    _raw("data.csv", b"sample,class,age\ns1,ill," + b"9" * 10_000_000 + b"\n"),
    _raw("data.csv", b'sample,class,age\ns1,ill,"' + b"x" * 5_000_000),
    _raw("data.csv", b"sample,class,age\n" * 100_000),
    _raw("data.csv", "sample,class,age\ns1,ill,1\n".encode("utf-16")),
    _raw("data.csv", "sample,class,âge\ns1,ill,1\n".encode("latin-1")),
    _raw("data.csv", b"sample,class,age\n" + b"s1,ill,1\n" * 9000 + b"s\x002,well,2\n"),
    _raw("data.csv", b"\x00" * 1000),
    _raw("data.csv", b"PK\x03\x04" + b"junk" * 100),
)

PARSERS = {
    "csv": Parser(30, _text("data.csv"), _file("data.csv"), _table("data.csv"), HEADERS),
    "tsv": Parser(8, _text("data.tsv", "\t"), _file("data.tsv"), _table("data.tsv")),
    "csv.gz": Parser(10, _text("data.csv.gz"), _unpacked, _table("data.csv.gz"), (_gzip_bomb,)),
    "parquet": Parser(12, _parquet, _file("data.parquet"), _table("data.parquet")),
    "h5ad": Parser(0.3, _h5ad, _file("data.h5ad"), _table("data.h5ad")),
    "posterior": Parser(
        12,
        _posterior_folder,
        _posterior_within,
        _load_posterior,
        (_zip_bomb, _absurd_shape, _pickled, _deep("posterior/posterior.json")),
    ),
    "model": Parser(10, _model_folder, _signed, _load_model, (_elsewhere, _deep("model/estimator.json"))),
    "run": Parser(4, _run_folder, _within, _load_run, (_deep("run/run.json"),)),
    "store": Parser(8, _store, _spoilt_rows, _open_store, (_raw("trials.sqlite", b"SQLite format 3\0"),)),
    "options": Parser(4, _nothing, _options, _command),
}


def fresh(seed: Path, folder: Path) -> None:
    """The valid files again."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(seed, folder)

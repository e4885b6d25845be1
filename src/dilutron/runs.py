"""Runs: from a file and a request to an answer, and the folder of plain files that holds it."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import platform
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from dilutron.estimators import AMPClassifier, EPClassifier, R1BCSClassifier, VAMPClassifier
from dilutron.files import whole_folder
from dilutron.metrics import auc, average, fraction_error
from dilutron.special import Vector
from dilutron.tables import (
    Columns,
    RefusedError,
    Sheet,
    check_classes,
    check_complete,
    imputed,
    logged,
    medians_of,
    read,
    varying,
)

FACTS = "run.json"
LEVEL = 0.9  # of the intervals
GROUPS = 20  # at most: for each, EP is solved again
MEMBERS = 50  # of a group that are named
NAMED = 5  # files that an error lists
HEAT = 30  # features in the table of correlations
METHODS = {
    "ep": EPClassifier,
    "vamp": VAMPClassifier,
    "amp": AMPClassifier,
    "r1bcs": R1BCSClassifier,
}

Row = dict[str, Any]
Tell = Callable[[str, float], object]  # what begins now, and the share of the work that is done


class RunError(RefusedError):
    """A request that cannot be met, or a folder that is no run: one line."""


@dataclass(frozen=True)
class Request:
    """What is asked of a run.

    Attributes
    ----------
    columns : Columns
        Which are label, id and features.
    positive : str, optional
        Of two classes, the one for which positive coefficients speak; by default the later one by name.
    log : bool
        Take log2(x + 1) of all features.
    impute : bool
        Replace missing values by the median of their column.
    folds : int
        For predictions of rows that the fit has not seen; 0 for none.
    expect : float, optional
        How many features are expected to matter; by default found from the data.
    fdr : float
        Share of the labels listed as suspect that may be right.
    seed : int
        Of the shuffle into folds.
    """

    columns: Columns
    positive: str | None = None
    log: bool = False
    impute: bool = False
    folds: int = 5
    expect: float | None = None
    fdr: float = 0.1
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Answer:
    """What a run found: the facts, and one table for each file of the folder."""

    facts: dict[str, Any]
    tables: dict[str, list[Row]]
    model: Any
    log: tuple[str, ...]

    @property
    def features(self) -> list[Row]:
        """The most probable first."""
        return self.tables["features"]

    @property
    def suspects(self) -> list[Row]:
        """Labels to look at again, the most suspect first."""
        return [row for row in self.tables["labels"] if row["suspect"] == "true"]


class HeldOut(NamedTuple):
    """Predictions for rows by fits that have not seen them: of each class, and in which fold; and of each fit."""

    probability: Vector
    fold: Any
    sizes: tuple[int, ...]
    converged: tuple[bool, ...]


@dataclass
class Diary:
    """Lines with their time, for the log; each is also told to whoever waits."""

    tell: Tell
    lines: list[str] = field(default_factory=list)

    def begin(self, words: str, share: float) -> None:
        """Note what begins now."""
        self.note(words)
        self.tell(words, share)

    def note(self, words: str) -> None:
        """Note something that only the log is told."""
        self.lines.append(f"{datetime.now().astimezone().isoformat(timespec='seconds')}  {words}")

    @contextmanager
    def heeding(self) -> Iterator[None]:
        """Warnings go to the log: what they say is also in the facts."""
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            yield
        for text in dict.fromkeys(" ".join(str(warning.message).split()) for warning in heard):
            self.note(f"warning: {text}")


def silent(words: str, share: float) -> None:
    """Tell nobody."""


def prepared(path: str | os.PathLike[str], request: Request) -> tuple[Sheet, dict[str, float] | None]:
    """Rows fit for a fit, of a few classes; and the medians of their columns where some may be missing."""
    label = request.columns.label or ""
    sheet = read(path, request.columns)
    check_classes(sheet, label)
    classes = sorted(set(sheet.labels.tolist()))
    if request.positive is not None and (request.positive not in classes or len(classes) > 2):
        there = ", ".join(f"'{name}'" for name in classes)
        raise RunError(f"{sheet.file}: --positive '{request.positive}' must be one of two classes; there are {there}.")
    if not request.impute:
        check_complete(sheet, "fill it in, --drop that column, or --impute median")
    medians = medians_of(sheet) if request.impute else None
    named = None if medians is None else dict(zip(sheet.names, medians.tolist(), strict=True))
    sheet = varying(_ready(sheet, request.log, medians))
    n = len(sheet.names)
    if request.expect is not None and not 0.0 < request.expect < n:
        raise RunError(
            f"{sheet.file}: --expect {request.expect:g} must be above 0 and below the {n} features there are."
        )
    return sheet, named


def _ready(sheet: Sheet, log: bool, medians: Vector | None) -> Sheet:
    sheet = sheet if medians is None else imputed(sheet, medians)
    return logged(sheet) if log else sheet


def make(path: str | os.PathLike[str], request: Request, tell: Tell = silent) -> Answer:
    """Read, fit, predict held-out rows, look for groups."""
    began, diary = time.perf_counter(), Diary(tell)
    diary.begin(f"reading {path}", 0.0)
    sheet, medians = prepared(path, request)
    folds = _folds(sheet, request.folds)
    if folds < request.folds:
        diary.note(f"{folds} folds instead of {request.folds}: the smallest class has no more rows")
    if sheet.constant:
        diary.note(f"left out {len(sheet.constant)} features that are the same in all rows")
    X, parts = _framed(sheet), folds + 3.0
    model = EPClassifier(n_features_expected=request.expect)
    with diary.heeding(), _refusing(sheet):
        diary.begin(f"fitting {sheet.X.shape[0]} rows of {sheet.X.shape[1]} features", 1.0 / parts)
        model.fit(X, sheet.labels)
        said = held_out(model, sheet, folds, request.seed, lambda words, done: diary.begin(words, (2.0 + done) / parts))
        diary.begin("looking for groups of correlated features", (folds + 2.0) / parts)
        groups = model.feature_groups(X, sheet.labels, n_groups=min(GROUPS, model.n_features_likely_), min_size=2)
    order = _order(model.classes_, request.positive)
    facts = _facts(sheet, request, model, order)
    facts["held_out"] = None if said is None else {"folds": folds, "repeats": 1, **_scores(said, sheet.labels, order)}
    facts["seconds"] = time.perf_counter() - began
    tables = {
        "features": _features(sheet, model, order, groups),
        "groups": _groups(groups),
        "labels": _labels(sheet, model, request.fdr),
        "trace": _trace(model),
    }
    tables["correlations"] = _correlations(sheet, tables["features"])
    if said is not None:
        tables["predictions"] = _predictions(sheet, said, model.classes_, order)
    if medians is not None:
        tables["medians"] = [{"feature": name, "median": value} for name, value in medians.items()]
    diary.note(f"done in {facts['seconds']:.1f} s: {facts['result']['status']}")
    return Answer(_plain(facts), tables, model, tuple(diary.lines))


@contextmanager
def _refusing(sheet: Sheet) -> Iterator[None]:
    """Numbers with which an estimator cannot work, as one line with the file's name."""
    try:
        yield
    except ValueError as error:
        raise RunError(f"{sheet.file}: {error}") from error


def held_out(model: Any, sheet: Sheet, folds: int, seed: int, tell: Tell = silent) -> HeldOut | None:
    """Predict every row by a fit to the other folds; None for no folds."""
    if folds == 0:
        return None
    X, fold = _framed(sheet), np.zeros(len(sheet.X), dtype=np.int_)
    probability = np.empty((len(fold), np.unique(sheet.labels).size))
    sizes, converged = [], []
    splits = StratifiedKFold(folds, shuffle=True, random_state=seed).split(sheet.X, sheet.labels)
    for number, (known, new) in enumerate(splits, 1):
        tell(f"held-out fold {number} of {folds}", number - 1.0)
        fit = clone(model).fit(X[known], sheet.labels[known])
        probability[new], fold[new] = fit.predict_proba(X[new]), number
        sizes.append(fit.n_features_likely_)
        converged.append(_at_rest(fit))
    return HeldOut(probability, fold, tuple(sizes), tuple(converged))


def compared(sheet: Sheet, names: Sequence[str], folds: int, seed: int = 0, tell: Tell = silent) -> list[Row]:
    """The methods side by side: how good on held-out rows, at which cost, with how many features.

    What a method fails at is its row's `error`; the others go on.
    """
    folds, rows = _folds(sheet, folds), []
    for i, name in enumerate(names):
        began, before = time.process_time(), i / len(names)

        def begin(words: str, done: float, before: float = before, name: str = name) -> None:
            tell(f"{name}: {words}", before + done / folds / len(names))

        row: Row = {"method": name, "folds": folds}
        try:
            with Diary(silent).heeding():
                said = held_out(METHODS[name](), sheet, folds, seed, begin)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            row |= {"error": " ".join(str(error).split())}
        else:
            assert said is not None, "there are folds"
            scores = _scores(said, sheet.labels, np.arange(said.probability.shape[1]))
            row |= {key: scores[key] for key in ("accuracy", "accuracy_se", "auc", "auc_se", "log_loss")}
            row |= {"features": float(np.median(said.sizes)), "converged": sum(said.converged)}
        rows.append(row | {"cpu_seconds": time.process_time() - began})
    return [_plain(row) for row in rows]


def check_place(folder: str | os.PathLike[str], force: bool) -> None:
    """RunError where a run could not be written in the end: better known before the work."""
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise RunError(f"{target} is a file: choose another folder.")
    if target.is_dir() and any(target.iterdir()):
        if not _is_run(target):
            raise RunError(f"{target} exists and is no run: choose another folder.")
        strange = [name for name in _files(target) if not any(fnmatchcase(name, ours) for ours in WRITTEN)]
        if strange:
            more = f" and {len(strange) - NAMED} more" if len(strange) > NAMED else ""
            raise RunError(
                f"{target} holds files that no run writes, {', '.join(map(repr, strange[:NAMED]))}{more}: move them "
                "away, or choose another folder."
            )
        if not force:
            raise RunError(f"{target} holds a run already: choose another folder, or --force to replace it.")
    above = next(parent for parent in target.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=above):
            pass
    except OSError as error:
        raise RunError(f"{target} cannot be written: {error.strerror}: choose another folder.") from error


def _is_run(folder: Path) -> bool:
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(facts, dict) and "dilutron" in facts and (folder / "model").is_dir()


def _files(folder: Path) -> list[str]:
    """All that is there but folders, which are looked into; links count as files, wherever they lead."""
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(path.relative_to(folder).as_posix() for path in found)


def write(answer: Answer, folder: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Keep an answer in a folder, whole or not at all."""
    check_place(folder, force)
    with whole_folder(folder, FACTS, "run") as new:
        for name, rows in answer.tables.items():
            write_csv(new / f"{name}.csv", _header(name, rows), rows)
        answer.model.save(new / "model")
        (new / "log.txt").write_text("".join(f"{line}\n" for line in answer.log), encoding="utf-8")
        (new / FACTS).write_text(json.dumps(answer.facts, indent=1, allow_nan=False), encoding="utf-8")
    return Path(folder)


def _header(name: str, rows: Sequence[Row]) -> list[str]:
    """Of a table of the contract, with the class first where there are three or more; of others, what they hold."""
    if name not in COLUMNS:
        return list(rows[0])
    return ["class", *COLUMNS[name]] if rows and "class" in rows[0] else COLUMNS[name]


def write_csv(place: Path, header: Sequence[str], rows: Iterable[Row]) -> None:
    """A file that a spreadsheet opens."""
    with open(place, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, header, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


UNIT = ("standardized", "standardized_low", "standardized_high")
COLUMNS = {
    "features": ["feature", "inclusion", "coefficient", "low", "high", *UNIT, "group"],
    "groups": ["group", "inclusion", "prior", "correlation", "n_members", "members"],
    "labels": ["row", "id", "given", "suggested", "error_probability", "suspect"],
    "trace": ["iteration", "stage", "mismatch"],
}
WRITTEN = (  # patterns of all that a run's folder holds: where anything else is, it is not replaced
    *(f"{name}.csv" for name in (*COLUMNS, "correlations", "predictions", "medians")),
    *(FACTS, "log.txt", "report.html", "model/*.json", "model/posterior-*/*"),
)


@dataclass(frozen=True, eq=False)
class Saved:
    """A run from its folder: it predicts new rows as they were prepared then."""

    folder: Path
    facts: dict[str, Any]
    model: Any
    medians: Vector | None

    def predictions(self, path: str | os.PathLike[str], id: str | None = None) -> tuple[list[Row], tuple[str, ...]]:
        """One row for each of a file, and the columns that were not needed."""
        data = self.facts["data"]
        names = tuple(self.model.feature_names_in_.tolist())
        sheet = read(path, Columns(id=id, usual_id=data["id"] or "", features=names))
        if self.medians is None:
            check_complete(sheet, "fill it in: the run was fitted without --impute")
        sheet = _ready(sheet, data["log"], self.medians)
        order = _order(self.model.classes_, self.facts["classes"][-1])
        said = self.model.predict_proba(_framed(sheet))[:, order]
        rows = [_named(sheet, i) | _chances(self.model.classes_[order], chance) for i, chance in enumerate(said)]
        known = {data["label"], *data["dropped"], *data["constant"]}
        return rows, tuple(name for name in sheet.ignored if name not in known)


def load(folder: str | os.PathLike[str]) -> Saved:
    """A run that `write` kept."""
    place = Path(folder)
    try:
        facts = json.loads((place / FACTS).read_text(encoding="utf-8"))
        model = EPClassifier.load(place / "model")
        medians = None
        if facts["data"]["impute"]:
            with open(place / "medians.csv", newline="", encoding="utf-8") as file:
                named = {row["feature"]: float(row["median"]) for row in csv.DictReader(file)}
            medians = np.array([named[name] for name in model.feature_names_in_])
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RunError(f"{place} is not a run of `dilutron fit`: {error.filename} is missing.") from error
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise RunError(f"{place} is damaged: {' '.join(str(error).split())}") from error
    return Saved(place, facts, model, medians)


def _framed(sheet: Sheet) -> Any:
    """With column names: a model that knows them refuses a table of others."""
    import polars as pl

    return pl.DataFrame(sheet.X, schema=list(sheet.names), orient="row")


def _folds(sheet: Sheet, asked: int) -> int:
    """At most as many as the smallest class has rows: each fold needs one of each class."""
    return min(asked, min(Counter(sheet.labels.tolist()).values()))


def _order(classes: Any, positive: str | None) -> Any:
    """Of two classes, the positive one last."""
    places = np.arange(classes.size)
    return places[::-1] if classes.size == 2 and positive == classes[0] else places


def _at_rest(model: Any) -> bool:
    return all(fit.at_rest(model.tol) for fit in model.fits_)


def _facts(sheet: Sheet, request: Request, model: Any, order: Any) -> dict[str, Any]:
    from dilutron import __version__

    classes = model.classes_[order].tolist()
    paths = [model.path_] if len(model.fits_) == 1 else model.path_
    path = [
        ({"class": model.classes_[k]} if len(paths) > 1 else {}) | row._asdict() | {"status": row.status.value}
        for k, rows in enumerate(paths)
        for row in rows
    ]
    return {
        "dilutron": __version__,
        "created": datetime.now().astimezone().isoformat(timespec="seconds"),
        "data": {
            "file": str(sheet.file),
            "sha256": _sha256(sheet.file),
            "n_rows": len(sheet.X),
            "n_features": len(sheet.names),
            "label": request.columns.label,
            "id": sheet.id,
            "positive": classes[-1] if len(classes) == 2 else None,
            "dropped": list(request.columns.drop),
            "constant": list(sheet.constant),
            "log": request.log,
            "impute": "median" if request.impute else None,
            "n_imputed": sheet.n_imputed,
        },
        "request": {key: value for key, value in asdict(request).items() if key != "columns"},
        "classes": classes,
        "counts": {name: int(np.sum(sheet.labels == name)) for name in classes},
        "settings": model.get_params(deep=False),
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
        "result": {
            "status": model.status_,
            "converged": _at_rest(model),
            "n_iter": model.n_iter_,
            # Of three or more classes, the mean over one classifier for each.
            **{name: np.mean(getattr(model, f"{name}_")) for name in ("eta", "rho", "beta", "lam", "log_evidence")},
            "n_features_likely": model.n_features_likely_,
            "path": path,
        },
    }


def _sha256(file: Path) -> str:
    with open(file, "rb") as raw:
        return hashlib.file_digest(raw, "sha256").hexdigest()


def _scores(said: HeldOut, labels: Any, order: Any) -> Row:
    """Over all rows; the AUC over the folds, and of three or more classes the mean of each against the rest."""
    classes, codes = np.unique(labels, return_inverse=True)
    right = np.argmax(said.probability, axis=1) == codes
    own = np.maximum(said.probability[np.arange(codes.size), codes], np.finfo(float).tiny)
    one = [order[-1]] if classes.size == 2 else range(classes.size)
    areas = [
        np.mean([auc(said.probability[here, k], codes[here] == k) for k in one])
        for here in (said.fold == number for number in np.unique(said.fold))
    ]
    area = average(areas)
    return {
        "accuracy": right.mean(),
        "accuracy_se": fraction_error(float(right.mean()), right.size),
        "auc": area.mean,
        "auc_se": area.error,
        "log_loss": -np.mean(np.log(own)),
        "majority": np.bincount(codes).max() / codes.size,
    }


def _features(sheet: Sheet, model: Any, order: Any, groups: Sequence[Any]) -> list[Row]:
    """All features, with coefficients that speak for the last class; for each class where there are three or more."""
    member = {name: number for number, group in enumerate(groups, 1) for name in group.names}
    sign = 1.0 if order[0] == 0 else -1.0

    def interval(unit: bool) -> tuple[Vector, Vector]:
        low, high = model.coef_interval(LEVEL, standardized=unit)
        return (low, high) if sign > 0.0 else (-high, -low)

    inclusion = np.atleast_2d(model.inclusion_proba_)
    values = (inclusion, sign * model.coef_, *interval(False), sign * model.coef_standardized_, *interval(True))
    rows = []
    for k, i in zip(*np.unravel_index(np.argsort(-inclusion, axis=None, kind="stable"), inclusion.shape), strict=True):
        row = dict(zip(COLUMNS["features"][1:-1], (float(value[k, i]) for value in values), strict=True))
        row = {"feature": sheet.names[i]} | row | {"group": member.get(sheet.names[i], "")}
        rows.append(row if len(inclusion) == 1 else {"class": model.classes_[k]} | row)
    return rows


def _groups(groups: Sequence[Any]) -> list[Row]:
    return [
        {
            "group": number,
            "inclusion": group.inclusion,
            "prior": group.prior,
            "correlation": group.correlation,
            "n_members": len(group.names),
            "members": "; ".join([*group.names[:MEMBERS], *(["..."] if len(group.names) > MEMBERS else [])]),
        }
        for number, group in enumerate(groups, 1)
    ]


def _labels(sheet: Sheet, model: Any, fdr: float) -> list[Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that none is suspect is an answer
        suspects = set(model.suspect_labels(fdr).rows.tolist())
    every = model.suspect_labels(n_labels=len(sheet.X))
    return [
        _named(sheet, row)
        | {"given": str(given), "suggested": str(better), "error_probability": float(error)}
        | {"suspect": "true" if row in suspects else "false"}
        for row, error, given, better in zip(*every, strict=True)
    ]


def _named(sheet: Sheet, row: int) -> Row:
    return {"row": int(row) + 1, "id": "" if sheet.ids is None else sheet.ids[row]}


def _predictions(sheet: Sheet, said: HeldOut, classes: Any, order: Any) -> list[Row]:
    return [
        _named(sheet, i) | {"given": str(given), "fold": int(fold)} | _chances(classes[order], chance[order])
        for i, (given, fold, chance) in enumerate(zip(sheet.labels, said.fold, said.probability, strict=True))
    ]


def _chances(classes: Any, chance: Vector) -> Row:
    chances = {f"p({name})": float(p) for name, p in zip(classes, chance, strict=True)}
    return chances | {"predicted": str(classes[np.argmax(chance)])}


def _trace(model: Any) -> list[Row]:
    several = len(model.fits_) > 1
    return [
        ({"class": model.classes_[k]} if several else {})
        | {"iteration": number, "stage": mark.stage, "mismatch": float(mark.error)}
        for k, fit in enumerate(model.fits_)
        for number, mark in enumerate(fit.best.trace, 1)
    ]


def _correlations(sheet: Sheet, features: Sequence[Row]) -> list[Row]:
    """Of the most probable features; of a column that never changes, 0 with all others."""
    names = list(dict.fromkeys(row["feature"] for row in features))[:HEAT]
    where = {name: i for i, name in enumerate(sheet.names)}
    X = sheet.X[:, [where[name] for name in names]]
    X = X - X.mean(axis=0)
    norm = np.linalg.norm(X, axis=0)
    unit = X / np.where(norm > 0.0, norm, 1.0)
    values = unit.T @ unit
    np.fill_diagonal(values, 1.0)
    return [dict(zip(names, row, strict=True)) for row in np.clip(values, -1.0, 1.0).tolist()]


def _plain(value: Any) -> Any:
    """As JSON has it: what is no number is null."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not np.isfinite(value) else value

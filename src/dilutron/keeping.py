"""Fits on disk: a folder of plain JSON and arrays, without pickle, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from dilutron.averages import Fit, Share, Tried
from dilutron.files import whole_folder
from dilutron.loop import Status
from dilutron.posterior import UNREADABLE, Posterior, other_format

FORMAT = 2
FACTS = "estimator.json"
LABELS = "biufU"  # kinds of arrays that are kept as they are; objects only where all are strings
PLAIN = (bool, int, str, type(None))


def write(path: str | os.PathLike[str], facts: dict[str, Any], fits: tuple[Fit, ...]) -> Path:
    """Keep facts and fits in a folder; an earlier one is replaced, anything else is left alone."""
    from dilutron import __version__

    body = encoded("facts", facts | {"dilutron": __version__, "fits": [_outline(fit) for fit in fits]})
    with whole_folder(path, FACTS, "estimator") as new:
        for folder, posterior in _shelf(fits):
            posterior.save(new / folder)
        sums = {_name(new, file): _digest(file.read_bytes()) for file in _files(new)}
        text = json.dumps({"body": body, "files": sums}, allow_nan=False)
        with open(new / FACTS, "w", encoding="utf-8") as file:
            json.dump({"format": FORMAT, "sha256": _digest(text.encode()), "text": text}, file)
            file.flush()
            os.fsync(file.fileno())
    return Path(path)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], tuple[Fit, ...]]:
    """What `write` kept. Nothing in the folder is executed; what was damaged or edited is refused."""
    folder = Path(path)
    try:
        outer = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ValueError(f"{folder} is not a saved estimator: {error.filename} is missing.") from error
    except UNREADABLE as error:
        raise ValueError(f"{folder} is damaged and cannot be read: {type(error).__name__} {error}") from error
    found = outer.get("format") if isinstance(outer, dict) else None
    if found != FORMAT:
        raise ValueError(other_format(folder, found, FORMAT))
    try:
        if _digest(outer["text"].encode()) != outer["sha256"]:
            raise ValueError(f"{FACTS} was changed after it was written")
        inner = json.loads(outer["text"])
        for file in _files(folder):  # never a path that the file names: it may lead anywhere
            if inner["files"].get(_name(folder, file)) != _digest(file.read_bytes()):
                raise ValueError(f"{_name(folder, file)} was changed after it was written")
        facts = decoded(inner["body"])
        _heed(folder, str(facts["dilutron"]))
        return facts, tuple(_fit(folder, i, outline) for i, outline in enumerate(facts.pop("fits")))
    except UNREADABLE as error:
        raise ValueError(f"{folder} is damaged: {type(error).__name__} {error}") from error


def check(facts: dict[str, Any], fits: tuple[Fit, ...]) -> None:
    """ValueError where what was kept of an estimator does not go together."""
    rows, n_features = np.size(facts["given"]), int(facts["n_features"])
    sizes = {"given": rows, "preferred": rows, "label_errors": rows, "classes": np.size(facts["classes"])}
    sizes |= {} if facts["names"] is None else {"names": n_features}
    for name, size in sizes.items():
        if not isinstance(facts[name], np.ndarray) or facts[name].shape != (size,):
            raise ValueError(f"{name} must be {size} values")
    classes = facts["classes"]
    if len(fits) != max(1, classes.size - (classes.size == 2)) or np.unique(classes).size < max(2, classes.size):
        raise ValueError(f"{len(fits)} posteriors are not of {classes.size} classes")
    posteriors = [posterior for _, posterior in _shelf(fits)]
    if any(posterior.mean.size != n_features for posterior in posteriors):
        raise ValueError("posteriors are of another number of features")
    if facts["names"] is not None and any(posterior.names != tuple(facts["names"]) for posterior in posteriors):
        raise ValueError("posteriors are of other column names")


def encoded(name: str, value: Any) -> Any:
    """As JSON that `decoded` turns back; ValueError where that cannot be."""
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) in PLAIN:
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else {"float": str(value)}
    if isinstance(value, list | tuple):
        return [encoded(name, entry) for entry in value]
    if isinstance(value, dict):
        return {"pairs": [[encoded(name, key), encoded(str(key), entry)] for key, entry in value.items()]}
    if isinstance(value, np.ndarray) and (value.dtype.kind in LABELS or all(type(entry) is str for entry in value)):
        dtype = "object" if value.dtype.kind == "O" else value.dtype.str
        return {"array": [encoded(name, entry) for entry in value.tolist()], "dtype": dtype}
    raise ValueError(
        f"{name} cannot be saved: it holds {type(value).__name__} {value!r}, not numbers, strings and true or false."
    )


def decoded(value: Any) -> Any:
    """What `encoded` was given."""
    if isinstance(value, list):
        return [decoded(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "pairs" in value:
        return {decoded(key): decoded(entry) for key, entry in value["pairs"]}
    kind = np.dtype(value["dtype"])
    if kind.kind not in f"{LABELS}O":
        raise ValueError(f"an array of {kind}")
    return np.array([decoded(entry) for entry in value["array"]], dtype=kind)


def _heed(folder: Path, version: str) -> None:
    """Warn where a newer version wrote it, which may have given a parameter a new meaning."""
    from dilutron import __version__

    if _numbers(version) > _numbers(__version__):
        warnings.warn(
            f"{folder} was saved by dilutron {version}, newer than this, {__version__}: upgrade if it predicts oddly.",
            UserWarning,
            stacklevel=4,
        )


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)[:3]]


def _shelf(fits: tuple[Fit, ...]) -> list[tuple[str, Posterior]]:
    """Every posterior and the folder it goes to."""
    return [(f"posterior-{i}-{j}", share.posterior) for i, fit in enumerate(fits) for j, share in enumerate(fit.shares)]


def _outline(fit: Fit) -> dict[str, Any]:
    """All of a fit but its posteriors."""
    path = [[*row[:-1], row.status.value] for row in fit.path]
    weights = [share.weight for share in fit.shares]
    return {"weights": weights, "path": path, "heard": fit.heard, "sharpness": fit.sharpness}


def _fit(folder: Path, i: int, outline: dict[str, Any]) -> Fit:
    sharpness, weights = float(outline["sharpness"]), np.asarray(outline["weights"], dtype=float)
    if not 0.0 < sharpness < np.inf:
        raise ValueError(f"sharpness is {sharpness}")
    if not (np.all(weights >= 0.0) and np.isclose(weights.sum(), 1.0)):
        raise ValueError("the weights of the posteriors are no shares of one")
    shares = [
        Share(float(weight), Posterior.load(folder / f"posterior-{i}-{j}").at_hand())
        for j, weight in enumerate(outline["weights"])
    ]
    path = tuple(
        Tried(float(size), float(score), float(prior), float(weight), float(evidence), Status(end))
        for size, score, prior, weight, evidence, end in outline["path"]
    )
    return Fit(tuple(shares), path, outline["heard"], sharpness)


def _files(folder: Path) -> list[Path]:
    """All but the facts."""
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and path != folder / FACTS]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _name(folder: Path, file: Path) -> str:
    return file.relative_to(folder).as_posix()

"""What every method returns, and how it is kept on disk."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from dilutron.files import whole_folder
from dilutron.gaussian import Covariance, Sites
from dilutron.ladder import Mark
from dilutron.learning import PathPoint
from dilutron.loop import Status
from dilutron.priors import Gaussians, Normal, Prior, RobustProbit, SpikeSlab
from dilutron.rows import Rows, in_blocks
from dilutron.special import Vector

FORMAT = 2
CERTAIN = 1e-12  # smallest variance of a predicted field, in units of its squared mean
FAR = 1e100  # largest size of a value, in units of its column's scale, that can be squared and summed
UNREADABLE = (  # what reading a spoilt file may end in; sizes that are declared and not there, and depth, included
    *(OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, NotImplementedError),
    *(
        MemoryError,
        OverflowError,
        RecursionError,
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        SyntaxError,
        TokenError,
    ),
)
COVARIANCE = ("covariance_base", "covariance_root", "covariance_sign")
PRIORS: dict[str, type[Prior]] = {kind.__name__: kind for kind in (SpikeSlab, RobustProbit, Normal)}


def _absent() -> Covariance:
    raise ValueError("this posterior was saved without its covariance: save it with covariance=True, or solve again.")


@dataclass(frozen=True, eq=False)
class Posterior:
    """The weights after seeing the labels.

    Attributes
    ----------
    method : str
    mean, std : arrays of shape (N,)
        Of each weight, for columns as the method saw them (after centring and scaling). The standard deviations of a
        point estimate are 0.
    inclusion : array of shape (N,) or None
        Probability that the weight is not zero.
    flip : array of shape (M,) or None
        Probability that the label is wrong.
    weights, labels : Prior
        The priors, with learned values in place.
    log_evidence : float or None
        Estimate of log P(labels | priors).
    left_out : array of shape (M,) or None
        Log probability of each label given all others, from its cavity.
    slopes : dict of str to float
        Of EP: how the log evidence changes with each parameter of the priors that is one number. Exact at rest, but
        for labels that were kept proper, where it is near.
    status : Status
    mismatch : float
        Largest undamped violation of moment matching at the end (for EP).
    trace : tuple of Mark
        Stage and error at every iteration.
    seconds : float
    intercept, intercept_std : float
        0 where there is none.
    names, center, scale
        As in `Problem`.
    path : tuple of PathPoint
        Log evidence along the expected sizes tried, where rho was learned.
    held : tuple of str
        Learned parameters that have stopped where EP comes to rest no further: see `EPOptions.learn_tol`.
    failures, invalid : int
        Factorisations that failed and cavities that were invalid on the way; both were recovered from.
    sites : Sites or None
        Where a warm start begins.
    """

    method: str
    mean: Vector
    std: Vector
    inclusion: Vector | None
    flip: Vector | None
    weights: Any
    labels: Any
    log_evidence: float | None
    status: Status
    mismatch: float
    trace: tuple[Mark, ...]
    seconds: float
    names: tuple[str, ...]
    center: Vector
    scale: Vector
    intercept: float = 0.0
    intercept_std: float = 0.0
    path: tuple[PathPoint, ...] = ()
    held: tuple[str, ...] = ()
    failures: int = 0
    invalid: int = 0
    sites: Sites | None = None
    left_out: Vector | None = None
    slopes: dict[str, float] = field(default_factory=dict)
    source: Callable[[], Covariance] = field(default=_absent, repr=False)

    @property
    def n_iter(self) -> int:
        """Iterations of all stages together; for EP one factorisation each."""
        return len(self.trace)

    def covariance(self) -> Covariance:
        """Covariance of the weights, the intercept last; `.dense()` is the matrix."""
        return self.source()

    def predict(self, rows: Any) -> Gaussians:
        """Mean and variance of the field x.w + intercept for new rows, in the columns' original units.

        Blocks of rows, `Rows.of(...)` or an array of dask or zarr, are read in one pass.
        """
        if not (isinstance(rows, Rows) or in_blocks(rows)):
            return self._fields(rows)
        blocks = rows if isinstance(rows, Rows) else Rows.of(rows)
        if blocks.shape[1] != self.mean.size:
            raise ValueError(
                f"rows must have {self.mean.size} columns, as in the fit, got shape {blocks.shape}; of a .parquet file"
                " pass Rows.of(path, columns=[...])."
            )
        _check_names(blocks, self.names)
        alone = replace(self.at_hand(), flip=None, left_out=None, sites=None)  # of the rows fitted: not to travel
        parts = blocks.each(_block_fields, np.arange(blocks.shape[0]), shared=(alone,))
        return Gaussians(*map(np.concatenate, zip(*parts, strict=True)))

    def at_hand(self) -> Posterior:
        """With its covariance: predictions need not factorise again, and any method's posterior can be pickled."""
        return replace(self, source=partial(Covariance, *self.covariance()))

    def _fields(self, rows: Any, first: int = 0) -> Gaussians:
        """The same of rows in memory, of which errors count from `first` on."""
        try:
            table = np.atleast_2d(np.asarray(rows, dtype=np.float64, order="C"))
        except (TypeError, ValueError) as error:
            raise ValueError(f"rows must be a table of numbers, one row per pattern: {error}") from error
        if table.ndim != 2 or table.shape[1] != self.mean.size:
            raise ValueError(f"rows must have {self.mean.size} columns, as in the fit, got shape {np.shape(rows)}.")
        if not np.all(np.isfinite(table)):
            row, column = np.argwhere(~np.isfinite(table))[0]
            raise ValueError(
                f"rows has the value {table[row, column]} in row {first + row}, column {column}: impute it first."
            )
        with np.errstate(over="ignore"):
            table = (table - self.center) / self.scale
        if np.any(far := np.abs(table) > FAR):
            row, column = np.argwhere(far)[0]
            raise ValueError(
                f"rows has the value {np.atleast_2d(rows)[row, column]:.3g} in row {first + row}, column {column},"
                " beyond what can be squared and summed: mend it."
            )
        covariance = self.covariance()
        with np.errstate(over="ignore", invalid="ignore"):
            mean = table @ self.mean + self.intercept
            if covariance.base.size > self.mean.size:
                table = np.column_stack([table, np.ones(len(table))])
            var = covariance.along(table)
        if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(var))):
            raise ValueError("this posterior's numbers are beyond what can be squared and summed: solve again.")
        return Gaussians(mean, var)

    def probability(self, rows: Any, sharpness: float = 1.0) -> Vector:
        """Probability of the label +1 for new rows, averaged over the posterior and the label noise.

        The fields count `sharpness` times, for those who know from other labels that these are too shy or too bold.
        """
        mean, var = self.predict(rows)
        var = np.maximum(var, CERTAIN * mean**2)  # a point estimate has no variance: its step is all but sharp
        return np.asarray(np.exp(self.labels.moments(Gaussians(sharpness * mean, var)).log_z))

    def save(self, path: str | os.PathLike[str], *, covariance: bool = True) -> Path:
        """Write a folder of posterior.json and arrays.npz, whole or not at all; an earlier posterior is replaced."""
        arrays, facts = self._parts(covariance)
        with whole_folder(path, "posterior.json", "posterior") as new:
            with open(new / "arrays.npz", "wb") as file:
                np.savez(file, **arrays)
                _flush(file)
            with open(new / "posterior.json", "w", encoding="utf-8") as text:
                json.dump(facts | {"sha256": digest(facts, new)}, text, indent=1, allow_nan=False)
                _flush(text)
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Posterior:
        """Read what `save` wrote. Nothing in the folder is executed."""
        folder = Path(path)
        try:
            facts = json.loads((folder / "posterior.json").read_text(encoding="utf-8"))
            with open(folder / "arrays.npz", "rb") as raw, np.load(raw, allow_pickle=False) as file:
                _check_packing(file.zip)
                arrays = {name: file[name] for name in file.files}
        except FileNotFoundError as error:
            raise ValueError(f"{folder} is not a saved posterior: {error.filename} is missing.") from error
        except UNREADABLE as error:
            raise ValueError(f"{folder} is damaged and cannot be read: {type(error).__name__} {error}") from error
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            found = facts.get("format") if isinstance(facts, dict) else None
            raise ValueError(other_format(folder, found, FORMAT))
        try:
            if facts.pop("sha256", None) != digest(facts, folder):
                raise ValueError("it was changed after it was written")
            return cls._assembled(facts, arrays)
        except UNREADABLE as error:
            raise ValueError(f"{folder} is damaged: {type(error).__name__} {error}") from error

    def _parts(self, covariance: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arrays, and all the rest as plain JSON."""
        from dilutron import __version__

        arrays: dict[str, Any] = {n: getattr(self, n) for n in ("mean", "std", "center", "scale")}
        arrays |= {n: getattr(self, n) for n in ("inclusion", "flip", "left_out") if getattr(self, n) is not None}
        if self.sites is not None:
            arrays |= {"site_precision": self.sites.precision, "site_shift": self.sites.shift}
        if covariance and self.source is not _absent:
            # Without the design: with it a folder would hold the patterns and labels themselves.
            arrays |= dict(zip(COVARIANCE, self.covariance().alone(), strict=False))
        facts: dict[str, Any] = {"format": FORMAT, "dilutron": __version__}
        for name in (
            "method",
            "log_evidence",
            "mismatch",
            "seconds",
            "intercept",
            "intercept_std",
            "held",
            "failures",
            "invalid",
        ):
            facts[name] = _to_json(getattr(self, name))
        facts |= {"status": self.status.value, "names": list(self.names)}
        facts["slopes"] = {name: _to_json(slope) for name, slope in self.slopes.items()}
        facts["trace"] = [[mark.stage, _to_json(mark.error)] for mark in self.trace]
        facts["path"] = [[p.size, _to_json(p.log_evidence), p.status.value] for p in self.path]
        for role in ("weights", "labels"):
            prior = getattr(self, role)
            facts[role] = {"kind": type(prior).__name__}
            for name, value in asdict(prior).items():
                if np.ndim(value) == 1 and not isinstance(value, tuple):
                    arrays[f"{role}_{name}"] = value
                else:
                    facts[role][name] = _to_json(value)
        return arrays, facts

    @classmethod
    def _assembled(cls, facts: dict[str, Any], arrays: dict[str, Any]) -> Posterior:
        _check_shapes(arrays, len(facts["names"]))
        source = _absent
        if "covariance_base" in arrays:
            stored = Covariance(*(arrays[name] for name in COVARIANCE))
            source = lambda: stored  # noqa: E731
        sites = Sites(arrays["site_precision"], arrays["site_shift"]) if "site_shift" in arrays else None
        return cls(
            method=str(facts["method"]),
            mean=arrays["mean"],
            std=arrays["std"],
            inclusion=arrays.get("inclusion"),
            flip=arrays.get("flip"),
            weights=_prior("weights", facts, arrays),
            labels=_prior("labels", facts, arrays),
            log_evidence=None if facts["log_evidence"] is None else float(facts["log_evidence"]),
            status=Status(facts["status"]),
            mismatch=float(facts["mismatch"]),
            trace=tuple(Mark(str(stage), float(error)) for stage, error in facts["trace"]),
            seconds=float(facts["seconds"]),
            names=tuple(map(str, facts["names"])),
            center=arrays["center"],
            scale=arrays["scale"],
            intercept=float(facts["intercept"]),
            intercept_std=float(facts["intercept_std"]),
            path=tuple(PathPoint(float(k), float(v), Status(s)) for k, v, s in facts["path"]),
            held=_held(facts.get("held", [])),
            failures=int(facts["failures"]),
            invalid=int(facts["invalid"]),
            sites=sites,
            left_out=arrays.get("left_out"),
            slopes=_slopes(facts.get("slopes", {})),
            source=source,
        )


def digest(facts: dict[str, Any], folder: Path) -> str:
    """Of a posterior's facts and arrays together: what was edited is seen. It is no signature."""
    with open(folder / "arrays.npz", "rb") as file:
        found = hashlib.file_digest(file, "sha256")
    found.update(json.dumps(facts, sort_keys=True).encode())
    return found.hexdigest()


def _check_packing(archive: Any) -> None:
    """Arrays are written as they are: what is packed was not written here, and may unpack to more than memory holds."""
    for part in archive.infolist():
        if part.compress_type != zipfile.ZIP_STORED or part.file_size != part.compress_size:
            raise ValueError(f"{part.filename} is packed")


def _check_shapes(arrays: dict[str, Any], n_weights: int) -> None:
    """Every array is of numbers and has the length that the others imply."""
    wanted: dict[str, Any] = dict.fromkeys(("mean", "std", "center", "scale"), (n_weights,))
    wanted |= {name: (n_weights,) for name in ("inclusion",) if name in arrays}
    if "covariance_base" in arrays:
        base, sign = arrays["covariance_base"], arrays["covariance_sign"]
        wanted |= {"covariance_base": (base.size,), "covariance_sign": (sign.size,)}
        wanted["covariance_root"] = (sign.size, base.size)
        if base.size not in (n_weights, n_weights + 1):
            raise ValueError(f"the covariance has {base.size} rows for {n_weights} weights")
    for name, shape in wanted.items():
        if arrays[name].shape != shape or arrays[name].dtype != np.float64:
            raise ValueError(
                f"array {name} has shape {arrays[name].shape} of {arrays[name].dtype}, not {shape} of numbers"
            )
        if not np.all(np.isfinite(arrays[name])):
            raise ValueError(f"array {name} holds what is no number")
    if not (np.all(arrays["scale"] > 0.0) and np.all(arrays["std"] >= 0.0)):
        raise ValueError("a scale or a standard deviation is not positive")


def _held(names: Any) -> tuple[str, ...]:
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError(f"held is no list of names: {names!r}")
    return tuple(names)


def _slopes(slopes: dict[str, Any]) -> dict[str, float]:
    known = {str(name): float(slope) for name, slope in slopes.items()}
    if not all(np.isfinite(slope) for slope in known.values()):
        raise ValueError("a slope is no number")
    return known


def _prior(role: str, facts: dict[str, Any], arrays: dict[str, Any]) -> Prior:
    values = dict(facts[role])
    kind = PRIORS[values.pop("kind")]
    known = {name: tuple(v) if isinstance(v, list) else float(v) for name, v in values.items()}
    known |= {n.removeprefix(f"{role}_"): v for n, v in arrays.items() if n.startswith(f"{role}_")}
    return kind(**known)


def other_format(folder: Path, found: object, own: int) -> str:
    """What to do with a folder of another format than one's own."""
    older = isinstance(found, int) and found < own
    remedy = "an older one wrote it: fit and save again" if older else "upgrade it"
    return f"{folder} has format {found!r}, this version of dilutron reads format {own}: {remedy}."


def _check_names(blocks: Rows, names: tuple[str, ...]) -> None:
    """ValueError where both have names, and not the same."""
    nameless = tuple(f"x{i}" for i in range(len(names)))
    if blocks.names in (None, names) or names == nameless:
        return
    k = next(i for i, name in enumerate(names) if name != blocks.names[i])
    raise ValueError(f"rows has {blocks.names[k]!r} in column {k}, the fit {names[k]!r}: pass Rows.of(columns=[...]).")


def _block_fields(block: Vector, numbers: Any, posterior: Posterior) -> Gaussians:
    return posterior._fields(block, int(numbers[0]))


def _to_json(value: Any) -> Any:
    """JSON has no infinity and no NaN: they travel as strings, which `float` reads back."""
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def _flush(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())

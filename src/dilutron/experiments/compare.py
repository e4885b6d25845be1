"""Ours beside the paper's: averages of rows, and a verdict for every number that the paper's tables print."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import fisher_exact, norm

from dilutron.experiments.trials import Row
from dilutron.metrics import Estimate, average, convergence_fraction

# A cell: one setting, one method. What a row has besides is what came out.
SETTING = ("patterns", "dynamics", "n", "rho", "eta", "learn", "alpha")
NUMBERS = ("mse", "mse_scaled", "auc", "auc_scaled", "auc_inclusion", "auc_flip", "brier", "rho_learned", "eta_learned",
           "iterations", "cpu_seconds")  # fmt: skip

COLUMN = {"auc": "auc", "rho": "rho_learned", "eta": "eta_learned", "seconds": "cpu_seconds"}

# The paper's runs, and which of ours stand beside them. Its grVAMP ran with the settings of `grvamp-paper`; ours by
# default are others.
VARIANTS = {"ep": ("ep",), "grvamp": ("grvamp-paper", "grvamp"), "r1bcs": ("r1bcs",)}

# Where the print leaves open what was ranked, both stand beside it. EP and grVAMP: by |w|, or by the probability of
# being present; Fig. 4, to which Table 3 refers, has both, and the text names |w| first. R1BCS was fed columns of unit
# norm; whether its weights were scaled back is not said.
RANKINGS = ("auc", "auc_inclusion")
COLUMNS = {("ep", "auc"): RANKINGS, ("grvamp", "auc"): RANKINGS, ("r1bcs", "auc"): ("auc_scaled", "auc")}

# Averages over converged runs, where the paper's caption or text says so; of all the others, over all instances.
CONVERGED_ONLY = frozenset({"figure-3", "table-2", "table-5"})

LIMIT = 2.0  # standard errors within which two numbers are the same
ROUNDING = 1e-9  # a difference of exactly two printed standard errors is within the limit

AS_PUBLISHED, BETTER, WORSE, HIGHER, LOWER = "as published", "better", "worse", "higher", "lower"
NOT_RUN, TOO_FEW, NO_NUMBER, OTHER_MACHINE = "not run", "too few", "no number", "other machine"
VERDICTS = (AS_PUBLISHED, BETTER, WORSE, HIGHER, LOWER, OTHER_MACHINE, NOT_RUN, TOO_FEW, NO_NUMBER)

FEWEST = 5  # instances for a verdict: of fewer the standard error says too little
PAPER_INSTANCES = 100

UP, NEAR, NONE = "up", "near", "none"  # what is better: more, closer to the truth, or neither
AIM = {"converged": UP, "auc": UP, "rho": NEAR, "eta": NEAR, "seconds": NONE}


class Comparison(NamedTuple):
    """One printed number and ours.

    Attributes
    ----------
    table, part : str
    patterns, dynamics : str
        One of them is empty.
    n : int
    eta, alpha : float
    method : str
        As the paper names it.
    variant, column : str
        The method of our rows, and the number in them.
    quantity : str
        auc, converged, rho, eta, seconds, or `seconds / EP`: the same divided by that of EP on the same machine.
    ours, se : float
        Mean and standard error; NaN where there is none.
    published, published_se : float
    difference : float
        Ours less theirs, in combined standard errors.
    gain : float
        How much better ours is, in combined standard errors: for learned values, how much nearer to the truth; for
        shares, with errors that do not vanish where all runs converged; NaN of run times.
    verdict : str
        Better or worse means a gain or loss of more than two. Seconds of another machine have no verdict but that;
        their ratio to EP's is higher or lower instead.
    truth, off, published_off : float
        Of a learned parameter: what is right, and the relative error of ours and of theirs; NaN otherwise.
    instances, converged, used : int
        Rows of the cell, those that converged, and those in the mean.
    """

    table: str
    part: str
    patterns: str
    dynamics: str
    n: int
    eta: float
    alpha: float
    method: str
    variant: str
    column: str
    quantity: str
    ours: float
    se: float
    published: float
    published_se: float
    difference: float
    gain: float
    verdict: str
    truth: float
    off: float
    published_off: float
    instances: int
    converged: int
    used: int


@lru_cache
def _published() -> tuple[Row, ...]:
    text = (files("dilutron.experiments") / "published.csv").read_text(encoding="utf-8")
    number: dict[str, Callable[[str], Any]] = {"n": int, "eta": float, "alpha": float, "value": float, "se": _number}
    lines = csv.DictReader(text.splitlines())
    return tuple({name: number.get(name, str)(value) for name, value in line.items()} for line in lines)


def _number(text: str) -> float:
    return float(text) if text else np.nan


def published(table: str | None = None) -> list[Row]:
    """The numbers of the paper's Tables 1 to 6, or of one of them, one row each; `se` is NaN where none is printed."""
    return [dict(row) for row in _published() if table in (None, row["table"])]


def converged(rows: Iterable[Row]) -> list[Row]:
    """Those that reached their tolerance."""
    return [row for row in rows if row["status"] == "converged"]


def numbers(rows: Iterable[Row], column: str) -> list[float]:
    """The finite values of a column: a trial that failed, or diverged, has none."""
    found = (row.get(column) for row in rows)
    return [float(value) for value in found if value is not None and np.isfinite(value)]


def mean(values: Sequence[float]) -> Estimate:
    """Mean and sigma/sqrt(n), NaN where there is nothing to average."""
    return average(values) if values else Estimate(np.nan, np.nan)


def cells(rows: Iterable[Row]) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by setting and method, in order of appearance."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault((*(row.get(name) for name in SETTING), row["method"]), []).append(row)
    return found


def summary(rows: Iterable[Row]) -> list[Row]:
    """Mean and standard error of every number, one line per cell over all instances and one over converged ones."""
    lines = []
    for cell, group in cells(rows).items():
        done = converged(group)
        fraction = _fraction(group)
        head = {name: value for name, value in zip((*SETTING, "method"), cell, strict=True) if value is not None}
        head |= {"instances": len(group), "converged": len(done)}
        head |= {"converged_mean": fraction.mean, "converged_se": fraction.error}
        for over, chosen in (("all", group), ("converged", done)):
            line: Row = {**head, "over": over}
            for column in NUMBERS:
                values = numbers(chosen, column)
                if any(column in row for row in group):
                    estimate = mean(values)
                    line |= {column: estimate.mean, f"{column}_se": estimate.error, f"{column}_n": len(values)}
            lines.append(line)
    return lines


def _fraction(rows: list[Row]) -> Estimate:
    return convergence_fraction([row["status"] == "converged" for row in rows])


def compare(table: str, rows: Iterable[Row]) -> list[Comparison]:
    """Every number of a table beside ours, cells that were not run included.

    Parameters
    ----------
    table : str
        table-1 to table-6.
    rows : iterable of dict
        Rows of this table's trials, and of no others: learned and given parameters share their cells' names.
    """
    printed = published(table)
    if not printed:
        known = ", ".join(sorted({row["table"] for row in _published()}))
        raise ValueError(f"the paper prints no numbers for {table!r}: choose one of {known}")
    offs = {_place(row, row["quantity"]): row["value"] for row in printed if row["quantity"].endswith("_off")}
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((_setting(row), row["method"]), []).append(row)
    found = [
        _compared(row, groups.get((_setting(row), variant), []), variant, column, offs.get(_place(row, f"{q}_off")))
        for row in printed
        if (q := row["quantity"]) in AIM
        for variant in VARIANTS[row["method"]]
        for column in COLUMNS.get((row["method"], q), (COLUMN.get(q, "status"),))
    ]
    return found + list(_ratios(found))


def _setting(row: Row) -> tuple[Any, ...]:
    return (row.get("patterns") or "", row.get("dynamics") or "", row["n"], row["eta"], row["alpha"])


def _place(row: Row, quantity: str) -> tuple[Any, ...]:
    return (*_setting(row), row["method"], quantity)


def _compared(printed: Row, rows: list[Row], variant: str, column: str, off: float | None) -> Comparison:
    quantity, theirs = printed["quantity"], printed["value"]
    chosen = converged(rows) if printed["table"] in CONVERGED_ONLY else rows
    if quantity == "converged":
        used = len(rows)
        ours = _fraction(rows) if rows else mean([])
    else:
        values = numbers(chosen, column)
        used, ours = len(values), mean(values)
    truth = _truth(quantity, rows)
    their = Estimate(theirs, printed["se"])
    gain = _gain(AIM[quantity], ours, their, truth) if quantity != "converged" else _share_gain(ours.mean, used, theirs)
    return Comparison(
        **{name: printed[name] for name in ("table", "part", "patterns", "dynamics", "n", "eta", "alpha", "method")},
        variant=variant,
        column=column,
        quantity=quantity,
        ours=ours.mean,
        se=ours.error,
        published=theirs,
        published_se=printed["se"],
        difference=_in_errors(ours.mean - theirs, ours, their),
        gain=gain,
        verdict=OTHER_MACHINE if AIM[quantity] == NONE and used else _verdict(len(rows), used, gain),
        truth=truth,
        off=abs(ours.mean - truth) / truth,
        published_off=np.nan if off is None else off,
        instances=len(rows),
        converged=len(converged(rows)),
        used=used,
    )


def _truth(quantity: str, rows: list[Row]) -> float:
    """What a learned parameter should be. Flips are counted out: the share of right labels is not quite eta."""
    if quantity == "eta":
        return mean(numbers(rows, "right")).mean
    return mean(numbers(rows, "rho")).mean if quantity == "rho" else np.nan


def _in_errors(gap: float, ours: Estimate, theirs: Estimate) -> float:
    """In combined standard errors; of two numbers without any (all converged, twice), zero or infinite."""
    error = np.hypot(ours.error, theirs.error)
    if error > 0.0 or np.isnan(gap) or np.isnan(error):
        return float(gap / error)
    return float(np.copysign(np.inf, gap)) if gap else 0.0


def _gain(aim: str, ours: Estimate, theirs: Estimate, truth: float) -> float:
    if aim == NONE:
        return np.nan
    if aim == NEAR:
        return _in_errors(abs(theirs.mean - truth) - abs(ours.mean - truth), ours, theirs)
    return _in_errors(ours.mean - theirs.mean, ours, theirs)


def _share_gain(ours: float, used: int, theirs: float) -> float:
    """Of two shares, which may be 0 or 1: the normal deviate as rare as Fisher's exact test finds their difference."""
    if used == 0:
        return np.nan
    pairs = ((round(ours * used), used), (round(theirs * PAPER_INSTANCES), PAPER_INSTANCES))
    rare = fisher_exact(np.array([[hits, n - hits] for hits, n in pairs])).pvalue
    return float(np.copysign(norm.isf(0.5 * min(rare, 1.0)), ours - theirs))


def _verdict(instances: int, used: int, gain: float, words: Sequence[str] = (BETTER, WORSE)) -> str:
    if instances == 0:
        return NOT_RUN
    if used == 0:
        return NO_NUMBER
    if used < FEWEST or np.isnan(gain):
        return TOO_FEW
    return AS_PUBLISHED if abs(gain) <= LIMIT + ROUNDING else words[gain < 0.0]


def _ratios(found: list[Comparison]) -> Iterator[Comparison]:
    """Run times in units of EP's, ours by ours and theirs by theirs: the machines differ, and have no part in these.

    Errors are combined as of independent numbers.
    """
    base = {one[2:7]: one for one in found if one.quantity == "seconds" and one.variant == "ep"}
    for one in found:
        if one.quantity != "seconds" or one.variant == "ep":
            continue
        ep = base[one[2:7]]
        ours = _ratio(one.ours, one.se, ep.ours, ep.se)
        theirs = _ratio(one.published, one.published_se, ep.published, ep.published_se)
        difference = _in_errors(ours.mean - theirs.mean, ours, theirs)
        instances, used = min(one.instances, ep.instances), min(one.used, ep.used)
        yield one._replace(
            quantity="seconds / EP",
            ours=ours.mean,
            se=ours.error,
            published=theirs.mean,
            published_se=theirs.error,
            difference=difference,
            gain=np.nan,
            verdict=_verdict(instances, used, difference, (HIGHER, LOWER)),
        )


def _ratio(top: float, top_se: float, bottom: float, bottom_se: float) -> Estimate:
    if not (top and bottom):  # a clock too coarse for so short a run
        return Estimate(np.nan, np.nan)
    ratio = top / bottom
    return Estimate(ratio, ratio * float(np.hypot(top_se / top, bottom_se / bottom)))

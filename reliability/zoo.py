"""A zoo of nasty but legal problems: every fit must end at rest, or say that it does not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from benchmarks.rows import by_cell, rng_for, run, table
from dilutron import EPClassifier, EPOptions, Normal, Problem, SpikeSlab, Status, ThetaMixture, solve
from dilutron.data.designs import block_patterns, equicorrelated_patterns, toeplitz_patterns
from dilutron.data.teacher import diluted_teacher, flips
from dilutron.metrics import auc
from dilutron.special import Vector
from reliability.rows import Row, write

FRESH = 1000  # rows that no fit has seen, to measure predictions on
PLAIN = 0.6  # AUC of a ridge regression from which chance can be beaten: it has seen the same rows, and no more
INSTANCES = 5  # of each cage

Draw = Callable[[int, int, np.random.Generator], Vector]


class Cage(NamedTuple):
    """One kind of nastiness at one level: patterns, their shape, the teacher's density, wrong labels, minority."""

    family: str
    level: float
    draw: Draw
    n_rows: int = 80
    n_features: int = 100
    rho: float = 0.1
    wrong: float = 0.05
    minority: float | None = None

    @property
    def cell(self) -> Row:
        """What a row is called."""
        return {"family": self.family, "level": self.level}


class Beast(NamedTuple):
    """Rows to learn from, with their labels; fresh rows, with what the teacher says of them."""

    X: Vector
    labels: Vector
    fresh: Vector
    truth: Vector


def iid(n_rows: int, n_features: int, rng: np.random.Generator) -> Vector:
    """Independent and normal: what is nasty is elsewhere."""
    return rng.standard_normal((n_rows, n_features))


def twins(n_rows: int, n_features: int, rng: np.random.Generator, *, apart: float) -> Vector:
    """Every column has a twin that differs from it by this share of its spread; 0 is a copy."""
    half = rng.standard_normal((n_rows, n_features // 2))
    return np.hstack([half, half + apart * rng.standard_normal(half.shape)])


def tails(n_rows: int, n_features: int, rng: np.random.Generator, *, freedom: float) -> Vector:
    """Student's t: with 1 degree of freedom there is not even a mean."""
    return rng.standard_t(freedom, (n_rows, n_features))


def lognormal(n_rows: int, n_features: int, rng: np.random.Generator, *, sigma: float) -> Vector:
    """Intensities that nobody took the logarithm of."""
    return rng.lognormal(0.0, sigma, (n_rows, n_features))


def scales(n_rows: int, n_features: int, rng: np.random.Generator, *, decades: float) -> Vector:
    """Columns in units that differ by so many powers of ten both ways, far from zero."""
    unit = 10.0 ** rng.uniform(-decades, decades, n_features)
    return unit * (rng.standard_normal((n_rows, n_features)) + 10.0 * rng.standard_normal(n_features))


def counts(n_rows: int, n_features: int, rng: np.random.Generator, *, mean: float) -> Vector:
    """Poisson counts of which most are zero where the mean is small: some columns never change."""
    return rng.poisson(mean * rng.exponential(1.0, n_features), (n_rows, n_features)).astype(float)


def rank(n_rows: int, n_features: int, rng: np.random.Generator, *, r: int) -> Vector:
    """A design of so small a rank that most directions cannot be seen."""
    return rng.standard_normal((n_rows, r)) @ rng.standard_normal((r, n_features))


def few_rows(n_rows: int, n_features: int, rng: np.random.Generator, *, distinct: int) -> Vector:
    """The same rows again and again."""
    return rng.standard_normal((distinct, n_features))[rng.integers(distinct, size=n_rows)]


def outlier(n_rows: int, n_features: int, rng: np.random.Generator, *, size: float) -> Vector:
    """One row that outweighs all others."""
    X = rng.standard_normal((n_rows, n_features))
    X[0] *= size
    return X


def _cages() -> list[Cage]:
    cages = [
        Cage(family, level, partial(draw, correlation=level))
        for family, draw in (
            ("equicorrelated", equicorrelated_patterns),
            ("toeplitz", toeplitz_patterns),
            ("block", block_patterns),
        )
        for level in (0.9, 0.99, 0.999)
    ]
    cages += [Cage("twins", apart, partial(twins, apart=apart)) for apart in (0.1, 1e-3, 1e-6, 0.0)]
    cages += [Cage("imbalance", minority, iid, 200, 60, wrong=0.0, minority=minority) for minority in (0.1, 0.03, 0.01)]
    cages += [Cage("wrong labels", wrong, iid, 200, 60, wrong=wrong) for wrong in (0.2, 0.3, 0.4, 0.45)]
    cages += [Cage("alpha", alpha, iid, round(300 * alpha), 300) for alpha in (0.02, 0.1, 0.5, 1.0)]
    cages += [Cage("alpha", alpha, iid, round(20 * alpha), 20) for alpha in (5.0, 20.0, 50.0)]
    cages += [Cage("tails", freedom, partial(tails, freedom=freedom)) for freedom in (3.0, 2.0, 1.0)]
    cages += [Cage("lognormal", sigma, partial(lognormal, sigma=sigma)) for sigma in (1.0, 3.0)]
    cages += [Cage("scales", decades, partial(scales, decades=decades)) for decades in (3.0, 30.0, 90.0)]
    cages += [Cage("counts", mean, partial(counts, mean=mean)) for mean in (3.0, 0.1)]
    cages += [Cage("rank", r, partial(rank, r=r)) for r in (1, 3, 10)]
    cages += [Cage("repeated rows", k, partial(few_rows, distinct=k), wrong=0.2) for k in (3, 20)]
    cages += [Cage("outlier", size, partial(outlier, size=size)) for size in (30.0, 1e4)]
    cages += [Cage("dense teacher", rho, iid, 150, 100, rho) for rho in (0.5, 0.99)]
    cages += [Cage("one feature", 0.005, iid, 80, 200, 0.005), Cage("no signal", 0.5, iid, wrong=0.5)]
    for level in (0.0, 0.9, 0.99):
        cages.append(Cage("wide", level, partial(block_patterns, correlation=level, size=20), 60, 2000, 0.005))
    for level in (0.9, 0.99):
        draw = partial(toeplitz_patterns, correlation=level)
        cages.append(Cage("all at once", level, draw, 200, 100, wrong=0.3, minority=0.1))
    return cages


CAGES = {tuple(cage.cell.values()): cage for cage in _cages()}


def caught(cage: Cage, rng: np.random.Generator) -> Beast:
    """One problem of a cage. Fresh rows share the design's hidden factors, for they are drawn with it."""
    X = cage.draw(cage.n_rows + FRESH, cage.n_features, rng)
    spread = X.std(axis=0)
    field = ((X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)) @ diluted_teacher(
        cage.n_features, cage.rho, rng
    )
    train, fresh = field[: cage.n_rows], field[cage.n_rows :]
    share = 0.5 if cage.minority is None else cage.minority
    edge = np.quantile(train, 1.0 - share)  # so many above
    clean = np.where(train > edge, 1.0, -1.0)
    wrong = flips(cage.n_rows, 1.0 - cage.wrong, rng)
    labels = np.where(wrong, -clean, clean)
    if np.all(labels == labels[0]):
        labels[np.argmax(train) if labels[0] < 0.0 else np.argmin(train)] *= -1.0
    return Beast(X[: cage.n_rows], labels, X[cage.n_rows :], fresh > edge)


def by_classifier(beast: Beast) -> tuple[Row, Vector]:
    """The defaults, as most people use them."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model = EPClassifier().fit(beast.X, beast.labels)
    silent = not any("max_iter" in str(warning.message) for warning in heard)
    posteriors = [share.posterior for share in model.fits_[0].shares]
    finite = all(np.all(np.isfinite(value)) for value in (model.coef_, model.coef_std_, model.inclusion_proba_))
    facts = {
        "status": model.status_,
        "at_rest": model.fits_[0].at_rest(model.tol),
        "mismatch": max(p.mismatch for p in posteriors),
        "warned": not silent,
        "eta": model.eta_,
        "rho": model.rho_,
        "held": " ".join(sorted({name for p in posteriors for name in p.held})),
        "n_iter": model.n_iter_,
        "finite": finite and all(p.status is not Status.COLLAPSED for p in posteriors),
    }
    return facts, model.predict_proba(beast.fresh)[:, 1]


def by_solve(beast: Beast) -> tuple[Row, Vector]:
    """The engine, at its own tolerance, with the density and the share of right labels learned."""
    problem = Problem.from_arrays(beast.X, beast.labels, standardize=True, strict=False)
    options = EPOptions(learn=("eta", "rho"))
    posterior = solve(problem, SpikeSlab(0.25), ThetaMixture(0.9), options=options, intercept=Normal(0.1))
    facts = {
        "status": posterior.status.value,
        "at_rest": posterior.mismatch < 1e-6,
        "mismatch": posterior.mismatch,
        "warned": posterior.status is not Status.CONVERGED,
        "eta": posterior.labels.eta,
        "rho": float(np.mean(posterior.weights.rho)),
        "held": " ".join(posterior.held),
        "n_iter": posterior.n_iter,
        "finite": bool(np.all(np.isfinite(posterior.mean)) and np.all(np.isfinite(posterior.std))),
    }
    return facts, posterior.probability(beast.fresh)


SOLVERS = {"EPClassifier": by_classifier, "solve": by_solve}


def trial(cell: Row, instance: int) -> Row:
    """One problem, by one of the two."""
    cage = CAGES[cell["family"], cell["level"]]
    beast = caught(cage, rng_for("zoo", cage.cell, instance))
    facts, chance = SOLVERS[cell["solver"]](beast)
    facts["finite"] = facts["finite"] and bool(np.all(np.isfinite(chance)))
    plain = LogisticRegression(C=0.1, max_iter=5000)
    scaler = StandardScaler().fit(beast.X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = plain.fit(scaler.transform(beast.X), beast.labels).decision_function(scaler.transform(beast.fresh))
    mixed = 0 < beast.truth.sum() < FRESH
    return facts | {
        "auc": auc(chance, beast.truth) if mixed and facts["finite"] else 0.5,
        "ridge_auc": auc(said, beast.truth) if mixed else 0.5,
    }


def main(jobs: int, instances: int = INSTANCES, *, fresh: bool = False) -> list[Row]:
    """All cages by both solvers; every problem to one file, a summary to another.

    The ladder and the learner were tried on the first INSTANCES of each cage; those that follow are `fresh`.
    """
    name = "zoo_fresh" if fresh else "zoo"
    cells = [{"solver": solver, **cage.cell} for solver in SOLVERS for cage in CAGES.values()]
    rows = run(trial, cells, instances, jobs, first=INSTANCES if fresh else 0)
    for row in rows:
        row["beatable"] = row["ridge_auc"] > PLAIN
        row["beats_chance"] = row["auc"] > 0.5
    write(name, rows)
    summary = [summarised(solver, found) for (solver,), found in by_cell(rows, ("solver",)).items()]
    write(f"{name}_summary", summary)
    table(summary, tuple(summary[0]))
    return rows


def summarised(solver: str, rows: list[Row]) -> Row:
    """Counts over all problems of one solver."""
    restless = [row for row in rows if not row["at_rest"]]
    return {
        "solver": solver,
        "problems": len(rows),
        "at_rest": sum(row["at_rest"] for row in rows),
        "converged": sum(row["status"] == "converged" for row in rows),
        "of_them_held": sum(row["status"] == "converged" and bool(row["held"]) for row in rows),
        "collapsed": sum(row["status"] == "collapsed" for row in rows),
        "not_finite": sum(not row["finite"] for row in rows),
        "silent": sum(not row["warned"] for row in restless),
        "restless_beatable": sum(row["beatable"] for row in restless),
        "restless_below_chance": sum(row["beatable"] and not row["beats_chance"] for row in restless),
        "beatable": sum(row["beatable"] for row in rows),
        "below_chance": sum(row["beatable"] and not row["beats_chance"] for row in rows),
    }

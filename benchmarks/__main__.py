"""python -m benchmarks [NAME ...]: run benchmarks by name; without a name, all of them.

What cannot run here says what it lacks, before anything runs and again at the end, and leaves its results as they are.
The exit status is 1 where a benchmark failed, or one that was named could not run.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import NamedTuple

from benchmarks import (
    calibration,
    competitors,
    convergence,
    criterion,
    doubtful,
    gibbs,
    independent,
    label_errors,
    learning,
    paper,
    protocol,
    reading,
    real_data,
    runtime,
    savings,
    scale,
    size,
    speed,
    synthetic,
    tall,
    tied,
    trust,
    wide,
    wide_run,
)
from benchmarks.needs import LINUX, Need, absent, packages, said
from benchmarks.peers import NEWER, needs_of
from benchmarks.rows import RESULTS, TRIALS, results, results_in


class Benchmark(NamedTuple):
    """What to call with instances and jobs, and how many instances where nobody says: 100, as in the paper.

    Without one of its `needs` it does not run. What it `wants` it can leave out; its rows are not for the docs then.
    """

    run: Callable[[int, int], None]
    instances: int = 100
    needs: tuple[Need, ...] = ()
    wants: tuple[Need, ...] = ()


PICTURES = packages("matplotlib")
PEERS = needs_of(synthetic.methods({"rho": 0.5}))
BENCHMARKS = {
    "convergence": Benchmark(convergence.main),
    "fresh": Benchmark(convergence.fresh),
    "learning": Benchmark(learning.main, 400),
    "paper": Benchmark(paper.main, needs=PICTURES),
    "unfinished": Benchmark(paper.unfinished, needs=PICTURES),
    "tables": Benchmark(paper.tables, needs=PICTURES),
    "references": Benchmark(competitors.references, needs=competitors.RUNS),
    "doubtful": Benchmark(doubtful.main),
    "protocol": Benchmark(protocol.main),
    "runtime": Benchmark(runtime.main, 7),
    "wide": Benchmark(wide.main, 3, wants=wide.SETS),
    "speed": Benchmark(speed.main),
    "size": Benchmark(size.main, needs=PICTURES),
    "tall": Benchmark(tall.main, needs=(LINUX, *packages("dask"))),
    "tall_workers": Benchmark(tall.together, needs=packages("dask", "distributed")),
    "scale": Benchmark(scale.main, needs=(LINUX, *PICTURES), wants=needs_of(scale.CLASSIFIERS)),
    "savings": Benchmark(savings.main, 3, needs=(LINUX,)),
    "tied": Benchmark(tied.main, 5),
    "tied_classifiers": Benchmark(tied.classifiers, 3, needs=(LINUX,)),
    "reading": Benchmark(reading.main, needs=packages("polars")),
    "wide_run": Benchmark(wide_run.main, needs=(LINUX, *packages("typer", "rich", "polars", "jinja2"))),
    "real_data": Benchmark(real_data.main, 10, needs=(NEWER, *wide.SETS), wants=needs_of(real_data.METHODS)),
    "independent": Benchmark(
        independent.main,
        2,
        needs=(NEWER, independent.ANY),
        wants=(*independent.SOURCES, *needs_of(independent.COMPARED)),
    ),
    "label_errors": Benchmark(
        label_errors.main,
        10,
        needs=(*packages("cleanlab"), *wide.SETS),
        wants=needs_of(label_errors.SOURCES),
    ),
    "synthetic": Benchmark(synthetic.main, 6, wants=PEERS),
    "synthetic_large": Benchmark(synthetic.large, 6, wants=PEERS),
    "calibration": Benchmark(calibration.main, 40, needs=PICTURES),
    "trust": Benchmark(trust.main, 2, wants=wide.SETS),
    "criterion": Benchmark(criterion.main, 2, wants=wide.SETS),
    "gibbs": Benchmark(gibbs.main, gibbs.PROBLEMS),
}


def conduct(names: Sequence[str], instances: int | None, jobs: int) -> tuple[list[str], list[str]]:
    """One after the other, whatever becomes of the one before: which could not run, and which failed."""
    lacking = {name: absent(BENCHMARKS[name].needs) for name in dict.fromkeys(names)}
    without = {name: absent(BENCHMARKS[name].wants) for name, needs in lacking.items() if not needs}
    news = [f"LEFT OUT: {name}, for want of {said(needs)}" for name, needs in lacking.items() if needs]
    elsewhere = TRIALS if results() == RESULTS else results()
    news += [f"IN PART, rows to {elsewhere}: {name}, without {said(some)}" for name, some in without.items() if some]
    print(*news, sep="\n", end="\n" if news else "", flush=True)  # now, not after hours
    failed = []
    for name, wants in without.items():
        print(f"== {name}", flush=True)
        benchmark, whole = BENCHMARKS[name], instances is None and not wants
        try:
            with nullcontext() if whole else results_in(elsewhere):
                benchmark.run(instances or benchmark.instances, jobs)
        except Exception as error:
            traceback.print_exc()
            failed.append(name)
            news.append(f"FAILED: {name}, {type(error).__name__}: {error}")
    if without and news:
        print("== not whole", *news, sep="\n", flush=True)
    return [name for name, needs in lacking.items() if needs], failed


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = list(BENCHMARKS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(names)}; all where absent")
    parser.add_argument(
        "--instances",
        type=int,
        help="instances a cell (default 100, as in the paper; others have their own); with this, rows go to"
        " benchmarks/trials and the committed results stay as they are",
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default 2)")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in names]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}: choose from {', '.join(names)}")
    if (arguments.instances is not None and arguments.instances < 2) or arguments.jobs < 1:
        parser.error("--instances must be at least 2 and --jobs at least 1")
    left_out, failed = conduct(arguments.names or names, arguments.instances, arguments.jobs)
    sys.exit(1 if failed or (arguments.names and left_out) else 0)


if __name__ == "__main__":
    main()

"""python -m benchmarks [NAME ...]: run benchmarks by name; without a name, all of them."""

from __future__ import annotations

import argparse
import os

from benchmarks import (
    calibration,
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
from benchmarks.rows import TRIALS

BENCHMARKS = {
    "convergence": convergence.main,
    "fresh": convergence.fresh,
    "learning": learning.main,
    "paper": paper.main,
    "unfinished": paper.unfinished,
    "tables": paper.tables,
    "doubtful": doubtful.main,
    "protocol": protocol.main,
    "runtime": runtime.main,
    "wide": wide.main,
    "speed": speed.main,
    "size": size.main,
    "tall": tall.main,
    "tall_workers": tall.together,
    "scale": scale.main,
    "savings": savings.main,
    "tied": tied.main,
    "reading": reading.main,
    "wide_run": wide_run.main,
    "real_data": real_data.main,
    "independent": independent.main,
    "label_errors": label_errors.main,
    "synthetic": synthetic.main,
    "synthetic_large": synthetic.large,
    "calibration": calibration.main,
    "trust": trust.main,
    "criterion": criterion.main,
    "gibbs": gibbs.main,
}
# Where not 100, as in the paper.
INSTANCES = {
    "learning": 400,
    "runtime": 7,
    "real_data": 10,
    "independent": 2,
    "label_errors": 10,
    "synthetic": 6,
    "synthetic_large": 6,
    "calibration": 40,
    "savings": 3,
    "tied": 5,
    "trust": 2,
    "criterion": 2,
    "gibbs": gibbs.PROBLEMS,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
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
    wanted = arguments.names or list(BENCHMARKS)
    if arguments.instances is not None:
        os.environ["BENCHMARK_FOLDER"] = str(TRIALS)
    for name in wanted:
        print(f"== {name}", flush=True)
        BENCHMARKS[name](arguments.instances or INSTANCES.get(name, 100), arguments.jobs)


if __name__ == "__main__":
    main()

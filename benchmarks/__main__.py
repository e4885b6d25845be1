"""python -m benchmarks [NAME ...]: run benchmarks by name; without a name, all of them."""

from __future__ import annotations

import argparse

from benchmarks import convergence, learning, size, speed, wide

BENCHMARKS = {
    "convergence": convergence.main,
    "fresh": convergence.fresh,
    "learning": learning.main,
    "wide": wide.main,
    "speed": speed.main,
    "size": size.main,
}
GROUPS = {"paper": ("convergence", "learning")}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [*BENCHMARKS, *GROUPS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(names)}; all where absent")
    parser.add_argument("--instances", type=int, default=100, help="instances a cell (default 100, as in the paper)")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default 2)")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in names]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}: choose from {', '.join(names)}")
    if arguments.instances < 2 or arguments.jobs < 1:
        parser.error("--instances must be at least 2 and --jobs at least 1")
    wanted = [part for name in arguments.names or BENCHMARKS for part in GROUPS.get(name, (name,))]
    for name in wanted:
        print(f"== {name}", flush=True)
        BENCHMARKS[name](arguments.instances, arguments.jobs)


if __name__ == "__main__":
    main()

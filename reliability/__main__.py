"""python -m reliability NAME ...: campaigns that try to break the library; rows go to reliability/results."""

from __future__ import annotations

import argparse

from reliability import fuzz, kills, sweeps, tables, wheel, zoo
from reliability.parsers import PARSERS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m reliability", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default 2)")
    campaigns = parser.add_subparsers(dest="campaign", required=True, metavar="NAME")
    hard = campaigns.add_parser("zoo", help="fits of nasty but legal problems")
    hard.add_argument("--instances", type=int, default=zoo.INSTANCES, help="problems of each kind")
    hard.add_argument("--fresh", action="store_true", help="others than those that the solvers were tried on")
    spoilt = campaigns.add_parser("fuzz", help="spoilt inputs for everything that parses")
    spoilt.add_argument("--inputs", type=int, default=100_000, help="in all")
    spoilt.add_argument("--only", action="append", choices=list(PARSERS), help="this parser; may be repeated")
    writers = campaigns.add_parser("kills", help="kill -9 of those who write")
    writers.add_argument("--rounds", type=int, default=kills.ROUNDS, help="kills for each kind of file")
    attacks = campaigns.add_parser("sweeps", help="sweeps under attack")
    attacks.add_argument("--faults", type=int, default=sweeps.FAULTS, help="in all")
    campaigns.add_parser("wheel", help="the packages, built, installed on their own and run offline")
    campaigns.add_parser("tables", help="the figures on file, into SECURITY.md")
    arguments = parser.parse_args()
    if arguments.campaign == "zoo":
        zoo.main(arguments.jobs, arguments.instances, fresh=arguments.fresh)
    elif arguments.campaign == "fuzz":
        fuzz.main(arguments.inputs, arguments.only)
    elif arguments.campaign == "kills":
        kills.main(arguments.rounds)
    elif arguments.campaign == "sweeps":
        sweeps.main(arguments.faults)
    elif arguments.campaign == "wheel":
        wheel.main()
    else:
        tables.main()


if __name__ == "__main__":
    main()

"""python -m reliability NAME ...: campaigns that try to break the library; rows go to reliability/results."""

from __future__ import annotations

import argparse

from reliability import fuzz, zoo
from reliability.parsers import PARSERS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m reliability", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default 2)")
    campaigns = parser.add_subparsers(dest="campaign", required=True, metavar="NAME")
    hard = campaigns.add_parser("zoo", help="fits of nasty but legal problems")
    hard.add_argument("--instances", type=int, default=zoo.INSTANCES, help="problems of each kind")
    spoilt = campaigns.add_parser("fuzz", help="spoilt inputs for everything that parses")
    spoilt.add_argument("--inputs", type=int, default=100_000, help="in all")
    spoilt.add_argument("--only", action="append", choices=list(PARSERS), help="this parser; may be repeated")
    arguments = parser.parse_args()
    if arguments.campaign == "zoo":
        zoo.main(arguments.jobs, arguments.instances)
    elif arguments.campaign == "fuzz":
        fuzz.main(arguments.inputs, arguments.only)


if __name__ == "__main__":
    main()

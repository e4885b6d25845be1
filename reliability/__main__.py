"""python -m reliability NAME ...: campaigns that try to break the library; rows go to reliability/results."""

from __future__ import annotations

import argparse

from reliability import zoo


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m reliability", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default 2)")
    campaigns = parser.add_subparsers(dest="campaign", required=True, metavar="NAME")
    hard = campaigns.add_parser("zoo", help="fits of nasty but legal problems")
    hard.add_argument("--instances", type=int, default=zoo.INSTANCES, help="problems of each kind")
    arguments = parser.parse_args()
    zoo.main(arguments.jobs, arguments.instances)


if __name__ == "__main__":
    main()

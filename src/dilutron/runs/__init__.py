"""Runs: from a file and a request to an answer, and the folder of plain files that holds it."""

from dilutron.runs.comparing import METHODS, compared
from dilutron.runs.folder import check_place, write, write_csv
from dilutron.runs.holding_out import HeldOut, held_out
from dilutron.runs.making import Answer, make
from dilutron.runs.request import Request, RunError, prepared
from dilutron.runs.saved import Saved, load

__all__ = [
    "METHODS",
    "Answer",
    "HeldOut",
    "Request",
    "RunError",
    "Saved",
    "check_place",
    "compared",
    "held_out",
    "load",
    "make",
    "prepared",
    "write",
    "write_csv",
]

"""Fuzzing: every parser is given spoilt files, and must refuse them in one clean line or read them well."""

from __future__ import annotations

import csv
import json
import math
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from reliability.parsers import PARSERS, fresh
from reliability.rows import RESULTS, Row, write

LIMIT = 60.0  # seconds for one input: more is a hang
MEMORY = 6 << 30  # bytes of address space of a process that parses
PART = 2500  # inputs that one process is given


class Hang(BaseException):
    """The time limit struck."""


def main(inputs: int, only: list[str] | None = None, folder: Path = RESULTS) -> list[Row]:
    """So many inputs, shared among all parsers; rows of counts to a file, where those of parsers not asked for stay."""
    file = folder / "fuzz.csv"
    earlier = {row["parser"]: row for row in _on_file(file)} if only else {}
    total = sum(parser.share for parser in PARSERS.values())
    rows, faults = [], []
    for name, parser in PARSERS.items():
        if only and name not in only:
            rows += [earlier[name]] if name in earlier else []
            continue
        count, began = math.ceil(inputs * parser.share / total), time.monotonic()
        counts, bad = campaign(name, count)
        faults += bad
        rows.append(
            {
                "parser": name,
                "inputs": sum(counts.values()),
                "refused": counts["refused"],
                "accepted": counts["accepted"],
                "faults": counts["fault"],
                "crashes": counts["crash"],
            }
        )
        print(f"{rows[-1]}  {time.monotonic() - began:.0f} s", flush=True)
    columns = ("inputs", "refused", "accepted", "faults", "crashes")
    rows.append({"parser": "all"} | {column: sum(row[column] for row in rows) for column in columns})
    write("fuzz", rows, folder)
    for fault in faults[:20]:
        print(fault)
    return rows


def _on_file(file: Path) -> list[Row]:
    if not file.is_file():
        return []
    with open(file, newline="", encoding="utf-8") as text:
        rows = list(csv.DictReader(text))
    return [{key: value if key == "parser" else int(value) for key, value in row.items()} for row in rows]


def campaign(name: str, count: int) -> tuple[Counter[str], list[Row]]:
    """All inputs of one parser, in processes of their own: a parser that crashes takes only its process with it."""
    counts: Counter[str] = Counter()
    faults: list[Row] = []
    first = 0
    while first < count:
        ask = [sys.executable, "-m", "reliability.fuzz", name, str(first), str(min(PART, count - first))]
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as scratch:
            ended = subprocess.run([*ask, scratch], capture_output=True, text=True, check=False)
        found = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
        counts.update(row["end"] for row in found)
        faults += [row for row in found if row["end"] == "fault"]
        first += len(found)
        if ended.returncode > 0:
            raise RuntimeError(f"the campaign itself failed: {ended.stderr[-2000:]}")
        if ended.returncode < 0:
            said = ended.stderr.strip().splitlines()[-1:]
            faults.append({"parser": name, "input": first, "end": "crash", "what": f"died: {ended.returncode} {said}"})
            counts["crash"] += 1
            first += 1
    return counts, faults


def part(name: str, first: int, count: int, scratch: Path) -> None:
    """Inputs `first` to `first + count`: one line of JSON each."""
    signal.signal(signal.SIGALRM, _ring)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    parser, seed, folder = PARSERS[name], scratch / "seed", scratch / "case"
    seed.mkdir()
    parser.seed(seed)
    for number in range(first, first + count):
        fresh(seed, folder)
        if number < len(parser.hostile):
            parser.hostile[number](folder)
        else:
            parser.spoil(folder, np.random.default_rng([*name.encode(), number]))
        print(json.dumps(tried(name, number, folder)), flush=True)


def tried(name: str, number: int, folder: Path) -> Row:
    """How one input ended."""
    end, what = "accepted", ""
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        PARSERS[name].parse(folder)
    except ValueError as error:
        clean = str(folder) in str(error)
        end, what = ("refused", "") if clean else ("fault", f"does not name the file: {_where(error)}")
    except Hang:
        end, what = "fault", f"more than {LIMIT:g} seconds"
    except BaseException as error:
        end, what = "fault", _where(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    if (folder / "sprung").exists():
        end, what = "fault", "a payload was run"
    return {"parser": name, "input": number, "end": end, "what": what}


def _where(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} {str(error)[:200]} at {Path(last.filename).name}:{last.lineno}"


def _ring(*_: Any) -> None:
    raise Hang


if __name__ == "__main__":
    part(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))

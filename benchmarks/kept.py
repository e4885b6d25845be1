"""Trials kept one by one as they end, so that a long run that was stopped goes on where it was."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from joblib import Parallel, delayed

from benchmarks.rows import TRIALS, Row, _one_thread

Task = tuple[Row, int]  # a cell and an instance


def kept(name: str, trial: Callable[[Row, int], Row], tasks: Iterable[Task], jobs: int) -> list[Row]:
    """Rows of all tasks, in their order: from `trials/{name}.jsonl` where they are there, and the others computed.

    A row is known by its cell and instance only: let the cell name the code that makes it, where that may change.
    """
    path, wanted = TRIALS / f"{name}.jsonl", {_key(*task): task for task in tasks}
    found = _read(path)
    missing = [task for key, task in wanted.items() if key not in found]
    began = time.time()
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        work = (delayed(_keyed)(trial, cell, instance) for cell, instance in missing)
        for done, (key, row) in enumerate(Parallel(n_jobs=jobs, return_as="generator_unordered")(work), 1):
            found[key] = row
            file.write("\n" + json.dumps([key, row]))  # the break comes first: a line that was cut short stays alone
            file.flush()
            if done % 20 == 0:
                print(f"  {done} of {len(missing)}, {time.time() - began:.0f} s", file=sys.stderr, flush=True)
    return [found[key] for key in wanted]


def _key(cell: Row, instance: int) -> str:
    return json.dumps({**cell, "instance": instance}, sort_keys=True)


def _keyed(trial: Callable[[Row, int], Row], cell: Row, instance: int) -> tuple[str, Row]:
    return _key(cell, instance), _one_thread(trial, cell, instance)


def _read(path: Path) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            key, row = json.loads(line)
        except ValueError:  # empty, or cut short by the end of a process
            continue
        found[key] = row
    return found

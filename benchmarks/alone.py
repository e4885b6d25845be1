"""One trial in a process of its own: its time, its memory and its threads are nobody else's, and it can be ended."""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.rows import Row

T = TypeVar("T")
WAIT = 10.0  # seconds for each that a trial may take of the CPU
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def alone(trial: Callable[[Row], Row], cell: Row, *, threads: int = 1, limit: float = 600.0) -> Row:
    """The row of a trial, which must be a function of a module; `ended` says how it went.

    `limit` is in CPU seconds of each of its processes: on a busy machine others decide how long that takes. One that
    waits for ever is ended too.
    """
    command = [sys.executable, "-m", "benchmarks.alone", trial.__module__, trial.__name__, json.dumps(cell)]
    environment = os.environ | dict.fromkeys(THREADS, str(threads))
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    bound = partial(resource.setrlimit, resource.RLIMIT_CPU, (int(limit), int(limit) + 10))
    late = {**cell, "threads": threads, "ended": f"not within {limit:.0f} s of CPU"}
    stuck = {**cell, "threads": threads, "ended": f"not within {WAIT * limit:.0f} s"}
    with subprocess.Popen(command, env=environment, start_new_session=True, preexec_fn=bound, **pipes) as child:
        try:
            out, err = child.communicate(timeout=WAIT * limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # with its own workers
            return stuck
    if child.returncode == -signal.SIGXCPU:
        return late
    if child.returncode != 0:
        words = (
            (err.strip().splitlines() or ["no words"])[-1] if child.returncode > 0 else f"signal {-child.returncode}"
        )
        return {**cell, "threads": threads, "ended": words}
    return {**cell, "threads": threads, "ended": "whole", **json.loads(out.splitlines()[-1])}


def measured(work: Callable[[], T]) -> tuple[T, Row]:
    """What `work` gives, its seconds, and the memory of the process before it and the largest during it, in MB."""
    CLEAR.write_text("5")  # the largest so far is forgotten: what led here may have taken more
    before, wall, cpu = _memory("VmRSS"), time.perf_counter(), time.process_time()
    value = work()
    figures = {"wall_seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    return value, figures | {"before_mb": before, "peak_mb": _memory("VmHWM")}


def _memory(name: str) -> float:
    """As Linux counts it."""
    lines = STATUS.read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(name))) / 1024.0


if __name__ == "__main__":
    module, name, text = sys.argv[1:]
    print(json.dumps(getattr(importlib.import_module(module), name)(json.loads(text))))

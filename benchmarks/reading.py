"""Reading a wide CSV, 1,000 x 23,000: ours beside polars alone, seconds and peak memory, each in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.rows import Row, table, write

ROWS, FEATURES = 1000, 23_000
POLARS = "import polars as pl; found = pl.read_csv(path)"
OURS = "from dilutron.tables import Columns, read; found = read(path, Columns('class', 'sample'))"
TIMED = """
import json, resource, sys, time
import polars, numpy
path = sys.argv[1]
began = time.perf_counter(), time.process_time()
{code}
spent = time.perf_counter() - began[0], time.process_time() - began[1]
print(json.dumps([*spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def measured(code: str, path: Path) -> Row:
    """Wall and CPU seconds of some code, and the largest memory of its process in MB."""
    command = [sys.executable, "-c", TIMED.format(code=code), str(path)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(zip(("seconds", "cpu_seconds", "memory_mb"), json.loads(said), strict=True))


def wide_table(path: Path) -> None:
    """Intensities with six digits, as they are exported."""
    rng = np.random.default_rng(0)
    with open(path, "w", encoding="utf-8") as file:
        file.write(",".join(["sample", "class", *(f"gene{i}" for i in range(FEATURES))]) + "\n")
        for i in range(ROWS):
            values = np.char.mod("%.6g", np.exp(rng.standard_normal(FEATURES)))
            file.write(f"s{i},{'AB'[i % 2]},{','.join(values)}\n")


def main(instances: int, jobs: int) -> None:
    """Alternate between the two, so that a busy machine is busy for both; medians."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wide.csv"
        wide_table(path)
        megabytes = os.path.getsize(path) / 2**20
        pairs = [[measured(code, path) for code in (POLARS, OURS)] for _ in range(min(instances, 5))]
    out = []
    for k, reader in enumerate(("polars", "dilutron")):
        medians = {key: float(np.median([pair[k][key] for pair in pairs])) for key in pairs[0][0]}
        ratio = float(np.median([pair[k]["seconds"] / pair[0]["seconds"] for pair in pairs]))
        out.append(
            {"reader": reader, "rows": ROWS, "features": FEATURES, "file_mb": megabytes, **medians, "ratio": ratio}
        )
    table(out, tuple(out[0]))
    write("reading", out)


if __name__ == "__main__":
    main(5, 1)

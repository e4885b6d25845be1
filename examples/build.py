"""Run all examples and write what the gallery page shows: docs/gallery/NAME.txt and docs/figures/gallery-NAME.png."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
DRAWN = {
    "colon": True,
    "simulated_story": False,
    "calibration": True,
    "pipeline_and_search": False,
    "against_l1": False,
}
NO_DATA = 77


def main():
    """Each example in a process of its own; where one fails, or has no data, its old files stay. The exit code."""
    (DOCS / "gallery").mkdir(exist_ok=True)
    failed = []
    for name, draws in DRAWN.items():
        picture = ["--figure", str(DOCS / "figures" / f"gallery-{name}.png")] if draws else []
        run = subprocess.run([sys.executable, HERE / f"{name}.py", *picture], capture_output=True, text=True)
        if run.returncode == 0:
            (DOCS / "gallery" / f"{name}.txt").write_text(run.stdout.rstrip() + "\n", encoding="utf-8")
            print(f"{name}: written")
        elif run.returncode == NO_DATA:
            print(f"{name}: left as it was. {run.stderr.rstrip()}")
        else:
            failed.append(name)
            print(f"{name}: failed\n{run.stderr}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())

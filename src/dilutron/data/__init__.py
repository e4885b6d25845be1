"""Where problems come from."""

from dilutron.data.designs import block_patterns, equicorrelated_patterns, toeplitz_patterns
from dilutron.data.glauber import (
    DYNAMICS,
    Ending,
    Network,
    Recording,
    diluted_network,
    fixed_distance,
    full_sweeps,
    synchronous,
)
from dilutron.data.teacher import (
    PATTERNS,
    Lesson,
    Patterns,
    diluted_teacher,
    flips,
    iid_patterns,
    lesson,
    mvn_patterns,
    taught,
)

__all__ = [
    "DYNAMICS",
    "PATTERNS",
    "Ending",
    "Lesson",
    "Network",
    "Patterns",
    "Recording",
    "block_patterns",
    "diluted_network",
    "diluted_teacher",
    "equicorrelated_patterns",
    "fixed_distance",
    "flips",
    "full_sweeps",
    "iid_patterns",
    "lesson",
    "mvn_patterns",
    "synchronous",
    "taught",
    "toeplitz_patterns",
]

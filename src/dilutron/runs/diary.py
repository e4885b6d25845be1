"""What is told while a run is made: to the log, and to whoever waits."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

Tell = Callable[[str, float], object]  # what begins now, and the share of the work that is done


def silent(words: str, share: float) -> None:
    """Tell nobody."""


@dataclass
class Diary:
    """Lines with their time, for the log; each is also told to whoever waits."""

    tell: Tell
    lines: list[str] = field(default_factory=list)

    def begin(self, words: str, share: float) -> None:
        """Note what begins now."""
        self.note(words)
        self.tell(words, share)

    def note(self, words: str) -> None:
        """Note something that only the log is told."""
        self.lines.append(f"{datetime.now().astimezone().isoformat(timespec='seconds')}  {words}")

    @contextmanager
    def heeding(self) -> Iterator[None]:
        """Warnings go to the log: what they say is also in the facts."""
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            yield
        for text in dict.fromkeys(" ".join(str(warning.message).split()) for warning in heard):
            self.note(f"warning: {text}")

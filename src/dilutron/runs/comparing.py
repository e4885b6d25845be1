"""Methods side by side on the same held-out rows."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from dilutron.estimators import AMPClassifier, EPClassifier, R1BCSClassifier, VAMPClassifier
from dilutron.runs.contents import Row, plain
from dilutron.runs.diary import Diary, Tell, silent
from dilutron.runs.holding_out import held_out, possible_folds, scores_of
from dilutron.tables import Sheet

METHODS = {
    "ep": EPClassifier,
    "vamp": VAMPClassifier,
    "amp": AMPClassifier,
    "r1bcs": R1BCSClassifier,
}


def compared(sheet: Sheet, names: Sequence[str], folds: int, seed: int = 0, tell: Tell = silent) -> list[Row]:
    """The methods side by side: how good on held-out rows, at which cost, with how many features.

    What a method fails at is its row's `error`; the others go on.
    """
    folds, rows = possible_folds(sheet, folds), []
    for i, name in enumerate(names):
        began, before = time.process_time(), i / len(names)

        def begin(words: str, done: float, before: float = before, name: str = name) -> None:
            tell(f"{name}: {words}", before + done / folds / len(names))

        row: Row = {"method": name, "folds": folds}
        try:
            with Diary(silent).heeding():
                said = held_out(METHODS[name](), sheet, folds, seed, begin)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            row |= {"error": " ".join(str(error).split())}
        else:
            assert said is not None, "there are folds"
            scores = scores_of(said, sheet.labels, np.arange(said.probability.shape[1]))
            row |= {key: scores[key] for key in ("accuracy", "accuracy_se", "auc", "auc_se", "log_loss")}
            row |= {"features": float(np.median(said.sizes)), "converged": sum(said.converged)}
        rows.append(row | {"cpu_seconds": time.process_time() - began})
    return [plain(row) for row in rows]

"""Reasons to trust a result or not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from dilutron.report.judging import better, class_shares, distinct, is_known, likely, open_groups
from dilutron.report.phrases import about, count, measured, name, percent
from dilutron.report.reading import RunFolder

FEW_ROWS, FEW_OF_A_CLASS, TOO_FEW = 50, 15, 5
UNEQUAL = 0.9  # share of the larger class
MISTAKEN = 0.25  # share of the named features that is expected not to matter
WIDE = 10.0  # ratio of expected sizes from which the number of features is open
PERFECT = 0.995
DOUBTED = 0.2  # share of labels
FILLED = 0.05  # share of cells
GOOD, CARE, BAD = "good", "care", "bad"


class Check(NamedTuple):
    """One reason to trust the result or not: `level` is "good", "care" or "bad"."""

    level: str
    title: str
    text: Markup


def checks(run: RunFolder) -> list[Check]:
    """Every reason to trust or to doubt, the gravest first."""
    found = [
        _settled(run), _enough(run), *_unequal(run), *_held_out(run), *_restless(run), *_probabilities(run),
        _pointed(run), *_size(run), *_perfect(run), *_doubted(run), *_filled(run),
    ]  # fmt: skip
    return sorted(found, key=lambda check: (BAD, CARE, GOOD).index(check.level))


def verdict(found: Sequence[Check]) -> Check:
    """All checks in one."""
    for level, title in ((BAD, "Do not rely on this result yet"), (CARE, "Read with care")):
        reasons = [check.title.rstrip("?") for check in found if check.level == level]
        if reasons:
            told = "; ".join(reason[0].lower() + reason[1:] for reason in reasons)
            return Check(level, title, Markup("The reason{}: {}.").format("s" * (len(reasons) > 1), told))
    told = "That is not a proof: only new samples, measured independently, can confirm it."
    return Check(GOOD, "No warning sign was found", Markup(told))


def _settled(run: RunFolder) -> Check:
    status, ended = str(run.result["status"]), bool(run.result["converged"])
    if ended and status == "converged":
        return Check(GOOD, "The calculation settled", Markup("It reached its tolerance."))
    if ended:
        return Check(GOOD, "The calculation settled", Markup(
            "Its numbers came to rest; only a learned label noise was still moving a little."
        ))  # fmt: skip
    why = _ENDS.get(status, "It ended early.")
    return Check(BAD, "The calculation did not settle", Markup("{} The numbers on this page may be off. {}").format(
        why, "Expect more features (--expect; in Python, n_features_expected), or allow more iterations (max_iter)."
    ))  # fmt: skip


_ENDS = {
    "max_iter": "It ran out of iterations, or made no more progress, before it reached its tolerance.",
    "diverged": "The numbers left the valid range: no step was possible, or the answer failed its own check.",
    "collapsed": "Every coefficient fell to zero.",
    "stopped": "It was stopped.",
}


def _enough(run: RunFolder) -> Check:
    rows, (rare, least) = sum(run.counts), class_shares(run)[-1]
    told = Markup("{}, of which {} of the smallest class, {}").format(count(rows, "sample"), least, name(rare))
    if least < TOO_FEW:
        return Check(
            BAD, "Too few samples of one class", Markup("{}: nothing reliable can be said from so few.").format(told)
        )
    if rows < FEW_ROWS or least < FEW_OF_A_CLASS:
        return Check(CARE, "Few samples", Markup(
            "{}. With so few, the probabilities depend much on what the model assumed beforehand, and even a clear"
            " result should be seen again in other samples."
        ).format(told))  # fmt: skip
    return Check(GOOD, "Enough samples to fit", Markup("{}.").format(told))


def _unequal(run: RunFolder) -> Iterable[Check]:
    (common, most), rows = class_shares(run)[0], sum(run.counts)
    if most / rows >= UNEQUAL:
        yield Check(CARE, "Very unequal classes", Markup(
            "{} of the samples are {}: accuracy is high even for a guess, so look at the ROC curve instead."
        ).format(measured(most / rows), name(common)))  # fmt: skip


def _held_out(run: RunFolder) -> Iterable[Check]:
    held = run.held_out
    if held is None:
        yield Check(CARE, "Not tested on unseen samples", Markup(
            "Without held-out folds nobody knows how well it predicts. Fit again with --folds 5."
        ))  # fmt: skip
        return
    level, title, text = {
        "clearly": (GOOD, "It predicts unseen samples better than guessing", "By more than two standard errors."),
        "order": (CARE, "Its class names are no better than guessing",
                  "It orders unseen samples better than chance, but the class it names is not clearly right more often"
                  " than always naming the larger class."),
        "unclear": (BAD, "Its predictions are not clearly better than guessing",
                    "On unseen samples the gain over always naming the larger class is within two standard errors: the"
                    " features below may tell nothing about the label."),
        "no": (BAD, "Its predictions are no better than guessing",
               "On unseen samples it does no better than always naming the larger class: do not read anything into the"
               " features below."),
    }[better(run)]  # fmt: skip
    yield Check(level, title, Markup(text))


def _restless(run: RunFolder) -> Iterable[Check]:
    """Whether the fits to the other folds settled: one that did not may predict nothing at all."""
    held = run.held_out or {}
    if held.get("converged") is not None and held["converged"] < held["folds"]:
        yield Check(CARE, "Not all held-out fits settled", Markup(
            "{} of {} did not reach their tolerance: the predictions of their rows may be poor, and the accuracy lower"
            " than that of the model on this page."
        ).format(held["folds"] - held["converged"], count(held["folds"], "fold")))  # fmt: skip


def _probabilities(run: RunFolder) -> Iterable[Check]:
    """Whether held-out probabilities say more than the shares of the classes do."""
    loss = (run.held_out or {}).get("log_loss")
    if not is_known(loss):
        return
    shares = np.array(run.counts) / sum(run.counts)
    if float(loss or 0.0) >= -float(np.sum(shares * np.log(shares))):
        yield Check(CARE, "Its probabilities mislead", Markup(
            "On unseen samples the stated probabilities were worse than stating the share of each class: do not use"
            " them as probabilities."
        ))  # fmt: skip


def _pointed(run: RunFolder) -> Check:
    named, total = distinct(run), int(run.data["n_features"])
    size = int(run.result["n_features_likely"]) if len(run.classes) == 2 else named
    if size > total / 2 and total > 2:
        return Check(CARE, "Not a matter of few features", Markup(
            "About {} of {} features share the work, so that no short list can replace them."
        ).format(size, total))  # fmt: skip
    if not named:
        groups = " Groups of correlated features can be: see below." if open_groups(run) else ""
        return Check(CARE, "No feature can be named", Markup(
            "The probability is spread over many features, as happens with few samples or with features that rise and"
            " fall together.{}"
        ).format(groups))  # fmt: skip
    if size > 2 * named:
        return Check(CARE, "More features matter than can be named", Markup(
            "About {} are expected to matter, but only {} can be named with a probability above 50\u00a0%."
        ).format(size, named))  # fmt: skip
    listed = likely(run)
    wrong = sum(1.0 - feature.inclusion for feature in listed)
    if wrong > MISTAKEN * len(listed):
        return Check(CARE, "Many of the named features may be mistakes", Markup(
            "Of {} with a probability above 50\u00a0%, {} are expected not to matter after all: take the list for"
            " candidates."
        ).format(count(len(listed), "feature"), about(wrong)))  # fmt: skip
    return Check(GOOD, "The features can be named", Markup("{} with a probability above 50\u00a0%.").format(
        count(named, "feature").capitalize()
    ))  # fmt: skip


def _size(run: RunFolder) -> Iterable[Check]:
    """Whether the data say how many features to expect."""
    ranges = [sizes for target in dict.fromkeys(one.target for one in run.path) if (sizes := _range(run, target))]
    if any(high / low > WIDE for low, high in ranges):
        low, high = max(ranges, key=lambda pair: pair[1] / pair[0])
        yield Check(CARE, "The number of features is uncertain", Markup(
            "Models that expect anything from {:.0f} to {:.0f} features explain the data about equally well."
        ).format(max(low, 1.0), high))  # fmt: skip
    dense = [size for target in dict.fromkeys(one.target for one in run.path) if (size := _dense_end(run, target))]
    if dense:
        yield Check(CARE, "The largest number of features tried weighs most", Markup(
            "Of the sizes that were tried, the data prefer the largest, {:.0f} features: many features share the work,"
            " or the signal is weak."
        ).format(max(max(dense), 1.0)))  # fmt: skip


def _dense_end(run: RunFolder, target: str) -> float | None:
    """The largest expected size that was tried, where no smaller one weighs as much."""
    path = sorted((one for one in run.path if one.target == target), key=lambda one: -one.size)
    heavy = len(path) > 1 and path[0].weight > max(one.weight for one in path[1:])
    return path[0].size if heavy else None


def _range(run: RunFolder, target: str) -> tuple[float, float] | None:
    """Expected sizes that carry real weight, at least a tenth of the largest."""
    path = [one for one in run.path if one.target == target and one.weight > 0.0]
    top = max((one.weight for one in path), default=0.0)
    sizes = [one.size for one in path if one.weight >= 0.1 * top]
    return (min(sizes), max(sizes)) if sizes else None


def _perfect(run: RunFolder) -> Iterable[Check]:
    held = run.held_out
    if held is not None and held["accuracy"] >= PERFECT:
        yield Check(CARE, "Too good to be true?", Markup(
            "Nearly every unseen sample was right. Make sure that no column was made from the label, such as a"
            " diagnosis code, a batch or a date, and that no sample is there twice."
        ))  # fmt: skip


def _doubted(run: RunFolder) -> Iterable[Check]:
    share = float(np.mean([label.suspect for label in run.labels])) if run.labels else 0.0
    wrong = 1.0 - float(np.min(run.result["eta"])) if run.result.get("eta") is not None else 0.0
    if max(share, wrong) >= DOUBTED:
        yield Check(CARE, "Many labels disagree with the model", Markup(
            "It takes about {} of the labels for wrong. Either many are, or the classes are not told apart by adding up"
            " features."
        ).format(percent(max(share, wrong))))  # fmt: skip


def _filled(run: RunFolder) -> Iterable[Check]:
    data = run.data
    filled = int(data.get("n_imputed") or 0)
    share = filled / (int(data["n_rows"]) * int(data["n_features"]))
    if filled:
        yield Check(CARE if share >= FILLED else GOOD, "Missing values were filled in", Markup(
            "{} ({} of all) were replaced by the median of their column."
        ).format(count(filled, "value"), measured(share)))  # fmt: skip

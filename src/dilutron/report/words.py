"""What was found, in sentences for a reader who did not run it. None says more than the numbers do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import PureWindowsPath
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from dilutron.report.reading import Feature, Group, Label, RunFolder
from dilutron.report.svg import clipped

SURE, LIKELY = 0.9, 0.5  # inclusion probabilities that the sentences name
NAMED = 10  # names in a sentence
LONG = 60  # letters of a name in a sentence
ERRORS = 2.0  # standard errors that a difference must have
FEW_ROWS, FEW_OF_A_CLASS, TOO_FEW = 50, 15, 5
UNEQUAL = 0.9  # share of the larger class
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


class Answer(NamedTuple):
    """The first part of the page."""

    features: list[Markup]
    prediction: list[Markup]
    labels: list[Markup]
    verdict: Check
    checks: list[Check]


def answer(run: RunFolder) -> Answer:
    """The answer, and whether to trust it."""
    found = checks(run)
    return Answer(_features(run), _prediction(run), _labels(run), verdict(found), found)


def percent(share: float) -> str:
    """A probability in words; never 0 or 100 %."""
    if math.isnan(share):
        return "unknown"
    if share > 0.99:
        return "over 99\u00a0%"
    return "under 1\u00a0%" if share < 0.01 else f"{100 * share:.0f}\u00a0%"


def measured(share: float) -> str:
    """A share that was counted: it may be 0 or 100 %, but only where it is."""
    text = f"{100 * share:.0f}" if share in (0.0, 1.0) else f"{100 * min(max(share, 0.001), 0.999):.1f}"
    return f"{text}\u00a0%"


def count(n: int, noun: str, plural: str | None = None) -> str:
    """A number and its noun."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def name(text: str) -> Markup:
    """A string from the user's file: escaped, cut, and closed in itself where it is written from right to left."""
    return Markup('<bdi class="name">{}</bdi>').format(clipped(text, LONG) or "(empty)")


def file_of(run: RunFolder) -> str:
    """The name of the data's file, without its folders."""
    return PureWindowsPath(str(run.data["file"])).name  # which knows both kinds of strokes


def likely(run: RunFolder, least: float = LIKELY) -> list[Feature]:
    """Features at least so probable, the most probable first."""
    return [feature for feature in run.features if feature.inclusion >= least]


def heading(run: RunFolder) -> Markup:
    """What was asked."""
    if len(run.classes) == 2:
        return Markup("Which features tell {} from {}?").format(name(run.classes[1]), name(run.classes[0]))
    return Markup("Which features tell the {} classes of {} apart?").format(
        len(run.classes), name(str(run.data["label"]))
    )


def summary(run: RunFolder) -> Markup:
    """What was looked at."""
    data = run.data
    shares = _listed([Markup("{} {}").format(f"{n:,}", name(one)) for one, n in _shares(run)], most=8)
    return Markup("{} and {} from {}. Labels, in the column {}: {}.").format(
        count(int(data["n_rows"]), "sample"), count(int(data["n_features"]), "feature"), name(file_of(run)),
        name(str(data["label"])), shares,
    )  # fmt: skip


def checks(run: RunFolder) -> list[Check]:
    """Every reason to trust or to doubt, the gravest first."""
    found = [
        _settled(run), _enough(run), *_unequal(run), *_held_out(run), *_probabilities(run), _pointed(run), *_size(run),
        *_perfect(run), *_doubted(run), *_filled(run),
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


def _shares(run: RunFolder) -> list[tuple[str, int]]:
    return sorted(zip(run.classes, run.counts, strict=True), key=lambda pair: -pair[1])


def _features(run: RunFolder) -> list[Markup]:
    said, sure = [_how_many(run)], likely(run, SURE)
    some = [feature for feature in likely(run) if feature.inclusion < SURE]
    if (sure or some) and _fails(run):
        said.append(Markup("What the model believes, and its predictions do not bear out:"))
    if sure:
        told = _listed([_directed(run, one) for one in sure])
        said.append(Markup("Nearly certain (probability of 90\u00a0% or more): {}.").format(told))
    if some:
        said.append(Markup("More likely than not (50 to 90\u00a0%): {}.").format(_listed([_of(one) for one in some])))
    if (sure or some) and not _fails(run):
        said.append(_mistaken(sure + some))
    elif run.features and not (sure or some):
        first = run.features[0]
        said.append(
            Markup("No single feature is more likely than not to matter. The most probable is {} ({}).").format(
                _of(first), percent(first.inclusion)
            )
        )
    said += [_either(group) for group in _open_groups(run)[:3]]
    return said


def _how_many(run: RunFolder) -> Markup:
    """The number of features; of three or more classes, those that can be named, as the estimate counts some twice."""
    total = count(int(run.data["n_features"]), "feature")
    doubt = "Maybe none: the model does not clearly predict unseen samples. If there are any, " if _fails(run) else ""
    if len(run.classes) > 2:
        return Markup(
            "{}<strong>{}</strong> of the {} can be named: each is more likely than not to matter for telling at least"
            " one class from the others."
        ).format(doubt, _distinct(run), total)
    size = int(run.result["n_features_likely"])
    if doubt:
        return Markup("{}it expects about <strong>{}</strong> of the {} to matter.").format(doubt, size, total)
    verb = "matters" if size == 1 else "matter"
    return Markup("By the model's estimate, about <strong>{}</strong> of the {} {} for this label.").format(
        size, total, verb
    )


def _distinct(run: RunFolder) -> int:
    return len({feature.name for feature in likely(run)})


def _mistaken(listed: Sequence[Feature]) -> Markup:
    """How many of a list are expected to be wrong; the sum of the probabilities against each."""
    wrong = sum(1.0 - feature.inclusion for feature in listed)
    if len(listed) == 1:
        return Markup("The probability that it does not matter after all is {}.").format(percent(wrong))
    return Markup("Of these {}, {} are expected to be listed by mistake.").format(len(listed), _about(wrong))


def _about(number: float) -> str:
    return "fewer than 0.1" if number < 0.1 else f"about {number:.1f}"


def _directed(run: RunFolder, feature: Feature) -> Markup:
    """A feature with the class for which higher values speak, where its interval leaves no doubt."""
    if len(run.classes) > 2 or not feature.low * feature.high > 0.0:
        return _of(feature)
    return Markup("{} (higher values point to {})").format(_of(feature), name(run.classes[int(feature.low > 0.0)]))


def _of(feature: Feature) -> Markup:
    one = Markup("<strong>{}</strong>").format(name(feature.name))
    return Markup("{} for {}").format(one, name(feature.target)) if feature.target else one


def _open_groups(run: RunFolder) -> list[Group]:
    """Groups that matter with much more than their prior probability, though no member can be named."""
    named = {feature.group for feature in likely(run) if feature.group}
    return [
        group for group in run.groups
        if group.n_members > 1 and group.number not in named and group.inclusion >= max(0.8, group.prior + 0.2)
    ]  # fmt: skip


def _either(group: Group) -> Markup:
    members = _listed([name(member) for member in group.members.split("; ")[:5]], total=group.n_members)
    return Markup(
        "At least one feature of group {} matters (probability {}; {} before the data), but the data cannot tell which,"
        " because they rise and fall together: {}."
    ).format(group.number, percent(group.inclusion), percent(group.prior), members)


def _prediction(run: RunFolder) -> list[Markup]:
    held = run.held_out
    if held is None:
        return [Markup("How well it predicts new samples was not measured in this run.")]
    said = [
        Markup(
            "Samples that the model had not seen ({} folds) were given the right class in <strong>{}</strong> of cases"
            "{}. Always naming the larger class would be right in {}."
        ).format(
            held["folds"], measured(held["accuracy"]), _give_or_take(held.get("accuracy_se")), measured(_guess(run))
        )
    ]
    said.append(Markup(_BETTER[_better(run)]))
    if _known(held.get("auc")):
        pair = "one of each class" if len(run.classes) == 2 else "one of a class and one of another (mean over classes)"
        said.append(
            Markup(
                "Of two unseen samples, {}, it puts the right one first in {} of cases{}: the area under the ROC curve,"
                " as a mean over the folds."
            ).format(pair, measured(held["auc"]), _give_or_take(held.get("auc_se")))
        )
    return said


_BETTER = {
    "clearly": "That is better than guessing by more than two standard errors.",
    "order": "That is not clearly better than guessing, though the order of the samples is: the model knows something,"
    " but not enough to name the smaller class.",
    "unclear": "That is not clearly better than guessing: the difference is within two standard errors.",
    "no": "That is no better than guessing.",
}


def _better(run: RunFolder) -> str:
    """How held-out accuracy compares with always naming the larger class."""
    held = run.held_out or {}
    gain, error = held["accuracy"] - _guess(run), _error(held.get("accuracy_se"))
    if gain > ERRORS * error and gain > 0.0:
        return "clearly"
    if _known(held.get("auc")) and held["auc"] - 0.5 > ERRORS * _error(held.get("auc_se")):
        return "order"
    return "unclear" if gain > 0.0 else "no"


def _fails(run: RunFolder) -> bool:
    """True where held-out rows do not bear the model out."""
    return run.held_out is not None and _better(run) in ("unclear", "no")


def _guess(run: RunFolder) -> float:
    return float((run.held_out or {}).get("majority") or max(run.counts) / sum(run.counts))


def _give_or_take(error: Any) -> str:
    return f" (±\u00a0{100 * error:.1f}\u00a0%, one standard error)" if _known(error) and error > 0.0 else ""


def _labels(run: RunFolder) -> list[Markup]:
    suspects = [label for label in run.labels if label.suspect]
    if not run.labels:
        return [Markup("Labels were not reviewed in this run.")]
    if not suspects:
        first = run.labels[0]
        return [
            Markup(
                "No label stands out as wrong. The most doubtful is that of {}: given {}, wrong with probability {}."
            ).format(_sample(first), name(first.given), percent(first.error))
        ]
    told = _listed(
        [
            Markup("{}: given {}, rather {} ({})").format(
                _sample(label), name(label.given), name(label.suggested), percent(label.error)
            )
            for label in suspects
        ],
        most=5,
        between="; ",
    )
    right = sum(1.0 - label.error for label in suspects)
    return [
        Markup("<strong>{}</strong> out of {} {} wrong: {}.").format(
            count(len(suspects), "label"), f"{len(run.labels):,}", "looks" if len(suspects) == 1 else "look", told
        ),
        Markup("{} Look at the samples again; nothing was changed or left out.").format(
            "As the model does not clearly predict unseen samples, its doubts weigh little." if _fails(run)
            else "It may be right after all." if len(suspects) == 1
            else f"Of these, {_about(right)} are expected to be right after all."
        ),
    ]  # fmt: skip


def _sample(label: Label) -> Markup:
    where = f"row {label.row}"
    return Markup("{} ({})").format(where, name(label.id)) if label.id else Markup(where)


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
    rows, (rare, least) = sum(run.counts), _shares(run)[-1]
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
    (common, most), rows = _shares(run)[0], sum(run.counts)
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
    }[_better(run)]  # fmt: skip
    yield Check(level, title, Markup(text))


def _probabilities(run: RunFolder) -> Iterable[Check]:
    """Whether held-out probabilities say more than the shares of the classes do."""
    loss = (run.held_out or {}).get("log_loss")
    if not _known(loss):
        return
    shares = np.array(run.counts) / sum(run.counts)
    if float(loss or 0.0) >= -float(np.sum(shares * np.log(shares))):
        yield Check(CARE, "Its probabilities mislead", Markup(
            "On unseen samples the stated probabilities were worse than stating the share of each class: do not use"
            " them as probabilities."
        ))  # fmt: skip


def _pointed(run: RunFolder) -> Check:
    named, total = _distinct(run), int(run.data["n_features"])
    size = int(run.result["n_features_likely"]) if len(run.classes) == 2 else named
    if size > total / 2 and total > 2:
        return Check(CARE, "Not a matter of few features", Markup(
            "About {} of {} features share the work, so that no short list can replace them."
        ).format(size, total))  # fmt: skip
    if not named:
        groups = " Groups of correlated features can be: see below." if _open_groups(run) else ""
        return Check(CARE, "No feature can be named", Markup(
            "The probability is spread over many features, as happens with few samples or with features that rise and"
            " fall together.{}"
        ).format(groups))  # fmt: skip
    if size > 2 * named:
        return Check(CARE, "More features matter than can be named", Markup(
            "About {} are expected to matter, but only {} can be named with a probability above 50\u00a0%."
        ).format(size, named))  # fmt: skip
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


def _listed(items: Sequence[Markup], most: int = NAMED, total: int | None = None, between: str = ", ") -> Markup:
    """Items with commas, the last ones counted only."""
    left = (total or len(items)) - min(most, len(items))
    shown = Markup(between).join(items[:most])
    return Markup("{} and {} more").format(shown, f"{left:,}") if left else shown


def _known(value: Any) -> bool:
    return value is not None and math.isfinite(value)


def _error(value: Any) -> float:
    """A standard error; of one that is not known, the worst."""
    return float(value) if _known(value) else math.inf

"""What was found, in sentences for a reader who did not run it. None says more than the numbers do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PureWindowsPath
from typing import Any, NamedTuple

from markupsafe import Markup

from dilutron.report.judging import SURE, better, class_shares, distinct, fails, guess, is_known, likely, open_groups
from dilutron.report.phrases import about, count, listed, measured, name, percent
from dilutron.report.reading import Feature, Group, Label, RunFolder
from dilutron.report.trust import Check, checks, verdict


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


def file_of(run: RunFolder) -> str:
    """The name of the data's file, without its folders."""
    return PureWindowsPath(str(run.data["file"])).name  # which knows both kinds of strokes


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
    shares = listed([Markup("{} {}").format(f"{n:,}", name(one)) for one, n in class_shares(run)], most=8)
    return Markup("{} and {} from {}. Labels, in the column {}: {}.").format(
        count(int(data["n_rows"]), "sample"), count(int(data["n_features"]), "feature"), name(file_of(run)),
        name(str(data["label"])), shares,
    )  # fmt: skip


def _features(run: RunFolder) -> list[Markup]:
    said, sure = [_how_many(run)], likely(run, SURE)
    some = [feature for feature in likely(run) if feature.inclusion < SURE]
    if (sure or some) and fails(run):
        said.append(Markup("What the model believes, and its predictions do not bear out:"))
    if sure:
        told = listed([_directed(run, one) for one in sure])
        said.append(Markup("Nearly certain (probability of 90\u00a0% or more): {}.").format(told))
    if some:
        said.append(Markup("More likely than not (50 to 90\u00a0%): {}.").format(listed([_of(one) for one in some])))
    if (sure or some) and not fails(run):
        said.append(_mistaken(sure + some))
    elif run.features and not (sure or some):
        first = run.features[0]
        said.append(
            Markup("No single feature is more likely than not to matter. The most probable is {} ({}).").format(
                _of(first), percent(first.inclusion)
            )
        )
    said += [_either(group) for group in open_groups(run)[:3]]
    return said


def _how_many(run: RunFolder) -> Markup:
    """The number of features; of three or more classes, those that can be named, as the estimate counts some twice."""
    total = count(int(run.data["n_features"]), "feature")
    doubt = "Maybe none: the model does not clearly predict unseen samples. If there are any, " if fails(run) else ""
    if len(run.classes) > 2:
        return Markup(
            "{}<strong>{}</strong> of the {} can be named: each is more likely than not to matter for telling at least"
            " one class from the others."
        ).format(doubt, distinct(run), total)
    size = int(run.result["n_features_likely"])
    if doubt:
        return Markup("{}it expects about <strong>{}</strong> of the {} to matter.").format(doubt, size, total)
    verb = "matters" if size == 1 else "matter"
    return Markup("By the model's estimate, about <strong>{}</strong> of the {} {} for this label.").format(
        size, total, verb
    )


def _mistaken(listed: Sequence[Feature]) -> Markup:
    """How many of a list are expected to be wrong; the sum of the probabilities against each."""
    wrong = sum(1.0 - feature.inclusion for feature in listed)
    if len(listed) == 1:
        return Markup("The probability that it does not matter after all is {}.").format(percent(wrong))
    return Markup("Of these {}, {} are expected to be listed by mistake.").format(len(listed), about(wrong))


def _directed(run: RunFolder, feature: Feature) -> Markup:
    """A feature with the class for which higher values speak, where its interval leaves no doubt."""
    if len(run.classes) > 2 or not feature.low * feature.high > 0.0:
        return _of(feature)
    return Markup("{} (higher values point to {})").format(_of(feature), name(run.classes[int(feature.low > 0.0)]))


def _of(feature: Feature) -> Markup:
    one = Markup("<strong>{}</strong>").format(name(feature.name))
    return Markup("{} for {}").format(one, name(feature.target)) if feature.target else one


def _either(group: Group) -> Markup:
    members = listed([name(member) for member in group.members.split("; ")[:5]], total=group.n_members)
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
            held["folds"], measured(held["accuracy"]), _give_or_take(held.get("accuracy_se")), measured(guess(run))
        )
    ]
    said.append(Markup(_BETTER[better(run)]))
    if is_known(held.get("auc")):
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


def _give_or_take(error: Any) -> str:
    return f" (±\u00a0{100 * error:.1f}\u00a0%, one standard error)" if is_known(error) and error > 0.0 else ""


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
    told = listed(
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
            "As the model does not clearly predict unseen samples, its doubts weigh little." if fails(run)
            else "It may be right after all." if len(suspects) == 1
            else f"Of these, {about(right)} are expected to be right after all."
        ),
    ]  # fmt: skip


def _sample(label: Label) -> Markup:
    where = f"row {label.row}"
    return Markup("{} ({})").format(where, name(label.id)) if label.id else Markup(where)

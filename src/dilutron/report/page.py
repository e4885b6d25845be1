"""The page itself: words, pictures and tables put into the template."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from importlib import resources
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from dilutron.report import words
from dilutron.report.pictures import pictures
from dilutron.report.reading import Feature, Group, Label, RunFolder
from dilutron.report.svg import clipped, number

MOST = 500  # rows of a table on the page; the file has all
FIRST = 25  # rows to a leaf; so many are there without JavaScript too
LONG = 200  # letters of a name
MEMBERS = 1000  # letters of a group's members

Cell = str | tuple[float | None, str]  # text, or a number and how it is written
DOI = "10.1103/PhysRevE.103.043301"
CITATION = (
    "A. Braunstein, T. Gueudré, A. Pagnani and M. Pieropan, Expectation propagation on the diluted Bayesian"
    f" classifier, Physical Review E 103, 043301 (2021), doi:{DOI}."
)
BIBTEX = f"""@article{{braunstein2021expectation,
  title   = {{Expectation propagation on the diluted {{Bayesian}} classifier}},
  author  = {{Braunstein, Alfredo and Gueudr{{\\'e}}, Thomas and Pagnani, Andrea and Pieropan, Mirko}},
  journal = {{Physical Review E}},
  volume  = {{103}},
  number  = {{4}},
  pages   = {{043301}},
  year    = {{2021}},
  doi     = {{{DOI}}}
}}"""


class Table(NamedTuple):
    """A table of the page. Columns that are `numeric` stand to the right and are sorted from the largest down."""

    key: str
    caption: str
    columns: list[str]
    numeric: list[bool]
    rows: list[list[Cell]]
    total: int
    file: str

    @property
    def first(self) -> list[list[str]]:
        """The leaf that is there from the beginning."""
        return [[cell if isinstance(cell, str) else cell[1] for cell in row] for row in self.rows[:FIRST]]


def page(run: RunFolder) -> str:
    """The whole page as text."""
    style, script = (Markup(_own(name)) for name in ("page.css", "page.js"))
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_own("page.html")).render(
        run=run,
        style=style,
        script=script,
        policy=_policy(style, script),
        title=f"{clipped(words.file_of(run), 80)}: dilutron report",
        heading=words.heading(run),
        summary=words.summary(run),
        answer=words.answer(run),
        marks={"good": "✓", "care": "!", "bad": "✗"},
        levels={"good": "fine", "care": "caution", "bad": "problem"},
        pictures=pictures(run),
        tables=[table for table in (features(run), groups(run), labels(run)) if table.rows],
        first=FIRST,
        method=method(run),
        citation=CITATION,
        bibtex=BIBTEX,
        facts=facts(run),
    )


def features(run: RunFolder) -> Table:
    """The most probable features."""
    many = len(run.classes) > 2
    ends: list[tuple[str, Callable[[Feature], Cell]]] = [
        ("probability", lambda f: _share(f.inclusion)),
        ("coefficient", lambda f: _value(f.coefficient)),
        ("low", lambda f: _value(f.low)),
        ("high", lambda f: _value(f.high)),
        ("standardized", lambda f: _value(f.standardized)),
        ("group", lambda f: _whole(f.group)),
    ]
    begins: list[tuple[str, Callable[[Feature], Cell]]] = [("feature", lambda f: clipped(f.name, LONG))]
    if many:
        begins.append(("class", lambda f: clipped(f.target, LONG)))
    caption = (
        "Features: the probability that each matters; its coefficient in the column's own units, and the ends of the"
        " 90\u00a0% interval that it has if it matters; the coefficient per standard deviation"
    )
    return _table("features", caption, begins, ends, run.features)


def groups(run: RunFolder) -> Table:
    """Features that stand in for one another."""
    many = [group for group in run.groups if group.n_members > 1]
    begins: list[tuple[str, Callable[[Group], Cell]]] = [("group", lambda g: f"{g.number}")]
    ends: list[tuple[str, Callable[[Group], Cell]]] = [
        ("probability", lambda g: _share(g.inclusion)),
        ("before the data", lambda g: _share(g.prior)),
        ("correlation", lambda g: _value(g.correlation)),
        ("members", lambda g: (float(g.n_members), f"{g.n_members:,}")),
    ]
    caption = (
        "Groups of correlated features: the probability that at least one member matters, what it was before the data,"
        " and the smallest correlation of a member with the first"
    )
    table = _table("groups", caption, begins, ends, many)
    rows = [[*row, clipped(group.members, MEMBERS)] for row, group in zip(table.rows, many, strict=False)]
    return table._replace(columns=[*table.columns, "names"], numeric=[*table.numeric, False], rows=rows)


def labels(run: RunFolder) -> Table:
    """The most doubtful labels."""
    named = any(label.id for label in run.labels)
    begins: list[tuple[str, Callable[[Label], Cell]]] = [("row", lambda one: (float(one.row), str(one.row)))]
    if named:
        begins.append(("sample", lambda one: clipped(one.id, LONG)))
    begins += [
        ("given", lambda one: clipped(one.given, LONG)),
        ("suggested", lambda one: clipped(one.suggested, LONG)),
        ("look again", lambda one: "yes" if one.suspect else "no"),
    ]
    ends: list[tuple[str, Callable[[Label], Cell]]] = [("probability of being wrong", lambda one: _share(one.error))]
    caption = (
        "Labels: the class that each sample came with, the one the model would rather have, and the probability that"
        " the label is wrong"
    )
    return _table("labels", caption, begins, ends, run.labels)


def method(run: RunFolder) -> str:
    """How it was done, to be pasted into a paper; only what is true of this run."""
    data, settings, held = run.data, run.settings, run.held_out
    classes = f"{len(run.classes)} classes, each against the rest" if len(run.classes) > 2 else "two classes"
    said = [
        f"Labels of {int(data['n_rows']):,} samples ({classes}) were modelled from {int(data['n_features']):,} features"
        f" with dilutron {run.facts.get('dilutron', '')} [1], a sparse Bayesian linear classifier with a spike-and-slab"
        " prior on its coefficients and a model of label errors, fitted by expectation propagation.",
        *_prepared(data, settings),
        *_chosen(settings),
        "Inclusion probabilities are posterior probabilities that a coefficient is not zero; intervals hold 90 % of the"
        " posterior given that it is not.",
    ]
    if held is not None:
        repeats = f", repeated {held['repeats']} times" if int(held.get("repeats") or 1) > 1 else ""
        said.append(f"Predictive performance was measured by {held['folds']}-fold cross-validation{repeats}.")
        if data.get("n_imputed"):
            said.append("Medians for missing values were taken over all samples, those held out included.")
    return " ".join(said)


def facts(run: RunFolder) -> list[tuple[str, list[tuple[str, str]]]]:
    """Data, settings, learned values and versions, under their headings."""
    data = {key: value for key, value in run.data.items() if key != "dropped"}
    dropped = [str(name) for name in run.data.get("dropped") or []]
    if dropped:
        more = f" and {len(dropped) - 20} more" if len(dropped) > 20 else ""
        data["dropped"] = clipped(", ".join(dropped[:20]), LONG) + more
    result = {key: value for key, value in run.result.items() if key != "path"}
    run_facts = {"dilutron": run.facts.get("dilutron"), "created": run.facts.get("created")}
    seconds = run.facts.get("seconds")
    if seconds is not None:
        run_facts["seconds"] = round(float(seconds), 1)
    parts = [
        ("Data", data),
        ("Result", result),
        ("Held-out folds", run.held_out or {}),
        ("Request", dict(run.facts.get("request") or {})),
        ("Settings", run.settings),
        ("Versions", run_facts | dict(run.facts.get("versions") or {})),
    ]
    return [(title, [(key, _plain(value)) for key, value in part.items()]) for title, part in parts if part]


def _prepared(data: dict[str, Any], settings: dict[str, Any]) -> Iterable[str]:
    if data.get("log"):
        yield "Values were transformed by log2(x + 1)."
    if data.get("n_imputed"):
        yield f"{int(data['n_imputed']):,} missing values were replaced by the median of their column."
    if settings.get("standardize"):
        yield "Columns were centred and scaled to unit standard deviation."


def _chosen(settings: dict[str, Any]) -> Iterable[str]:
    """How sparsity and label noise were set."""
    if settings.get("n_features_expected") is not None:
        yield f"The expected number of relevant features was set to {settings['n_features_expected']}."
    elif settings.get("rho") == "auto":
        by = {
            "evidence": "model evidence",
            "loo": "leave-one-out predictive probability",
            "cv": "cross-validated predictive probability",
        }.get(str(settings.get("criterion")), str(settings.get("criterion")))
        verb = "averaged over a path of values, weighted by" if settings.get("average", True) else "chosen by"
        yield f"The expected number of relevant features was {verb} {by}."
    elif settings.get("rho") is not None:
        yield f"The prior inclusion probability was set to {settings['rho']}."
    if settings.get("eta") == "auto":
        yield "The share of right labels was learned from the data."
    elif settings.get("eta") is not None:
        yield f"The share of right labels was set to {settings['eta']}."


def _table(
    key: str,
    caption: str,
    begins: Sequence[tuple[str, Callable[[Any], Cell]]],
    ends: Sequence[tuple[str, Callable[[Any], Cell]]],
    rows: Sequence[Any],
) -> Table:
    columns = [*begins, *ends]
    made = [[cell(row) for _, cell in columns] for row in rows[:MOST]]
    numeric = [False] * len(begins) + [True] * len(ends)
    return Table(key, caption, [name for name, _ in columns], numeric, made, len(rows), f"{key}.csv")


def _share(value: float) -> Cell:
    """A probability: never written as 0 or 1."""
    if math.isnan(value):
        return (None, "")
    return (value, ">0.999" if value > 0.9995 else "<0.001" if value < 0.0005 else f"{value:.3f}")


def _value(value: float) -> Cell:
    return (None, "") if not math.isfinite(value) else (value, number(float(f"{value:.3g}")))


def _whole(text: str) -> Cell:
    return (float(text), text) if text.isdigit() else (None, text)


def _plain(value: Any) -> str:
    """A value of run.json for people."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return clipped(", ".join(map(_plain, value)), LONG)
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return clipped(value if isinstance(value, str) else json.dumps(value), LONG)


def _own(name: str) -> str:
    return resources.files("dilutron.report").joinpath(name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Nothing from elsewhere, and no script or style but the page's own: a second wall behind the escaping."""
    ours = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    own = f"style-src 'sha256-{ours[0]}'; script-src 'sha256-{ours[1]}'"
    return f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"

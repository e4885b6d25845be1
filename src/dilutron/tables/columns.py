"""Which columns of a file are label, id and features."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from dilutron.tables.refusing import NAMED, TableError, cut, listed, perhaps


@dataclass(frozen=True)
class Columns:
    """Which columns of a file are what.

    Attributes
    ----------
    label, id : str, optional
    usual_id : str
        The id where none is given and the file has such a column: R and pandas give row names an empty name.
    drop : tuple of str
    features : tuple of str, optional
        Exactly these, in this order; by default all that have no other part.
    """

    label: str | None = None
    id: str | None = None
    usual_id: str = ""
    drop: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None

    @property
    def wanted(self) -> list[str]:
        """All that are read."""
        return [*(name for name in (self.label, self.id) if name is not None), *(self.features or ())]


def parts_of(file: Path, header: list[str], columns: Columns) -> Columns:
    """The same with id and features named, after a check that every name is there, and once."""
    check_one_part(file, columns)
    twice = [name for name, count in Counter(header).items() if count > 1]
    if twice:
        places = [str(i) for i, name in enumerate(header, 1) if name == twice[0]]
        raise TableError(f"{file}: columns {' and '.join(places[:NAMED])} are named '{cut(twice[0])}': rename one.")
    there = header if columns.usual_id else header[:1]  # row names come first; a later column may have lost its name
    if columns.id is None and columns.usual_id in there and columns.usual_id not in (columns.label, *columns.drop):
        columns = replace(columns, id=columns.usual_id)
    for what, asked in (("label", columns.label), ("id", columns.id), *(("drop", name) for name in columns.drop)):
        if asked is not None and asked not in header:
            raise no_such_column(file, what, asked, header)
    taken = {columns.label, columns.id, *columns.drop}
    if columns.features is None:
        features = tuple(name for name in header if name not in taken)
        if not features:
            raise TableError(
                f"{file} has no column left as a feature, of {len(header)}: leave out an --id or a --drop."
            )
        if "" in features:
            raise TableError(f"{file}: column {header.index('') + 1} has no name: give it one, or --drop ''.")
        return replace(columns, features=features)
    known = set(header)
    absent = [name for name in columns.features if name not in known]
    if absent:
        near = get_close_matches(absent[0], left_over(header, columns), 1)
        raise TableError(
            f"{file} lacks {len(absent)} of the {len(columns.features)} columns of the fit: {listed(absent)}"
            f"{perhaps(near)}. Add or rename them, or fit again without them (--drop)."
        )
    return columns


def check_one_part(file: Path, columns: Columns) -> None:
    """TableError where one column is to be two things."""
    given = (("label", columns.label), ("id", columns.id), *(("drop", name) for name in dict.fromkeys(columns.drop)))
    first: dict[str, str] = {}
    for option, name in given:
        if name is None:
            continue
        if name in first:
            raise TableError(
                f"{file}: '{cut(name)}' is given as --{first[name]} and as --{option}: a column has one part only, "
                "leave out one of the two."
            )
        first[name] = option
        if name in (columns.features or ()):
            raise TableError(
                f"{file}: '{cut(name)}' is given as --{option} and is a feature of the fit: choose another column."
            )


def left_over(header: list[str], parts: Columns) -> tuple[str, ...]:
    """Columns that have no part at all."""
    known = {parts.label, parts.id, *parts.drop, *(parts.features or ())}
    return tuple(name for name in header if name not in known)


def no_such_column(file: Path, what: str, name: str, header: list[str], where: str = "") -> TableError:
    """The error for a name that is not there, with those that are near."""
    near = get_close_matches(name, header, 3) or [each for each in header if each.lower() == name.lower()]
    hint = perhaps(near) or f"; there are {listed(header)}"
    return TableError(f"{file} has no column '{name}'{where}, given as --{what}{hint}.")

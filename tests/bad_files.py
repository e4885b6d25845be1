"""Bad files, as people have them. `python -m tests.bad_files` writes what `dilutron fit` says of each to the docs."""

import contextlib
import gzip
import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).resolve().parents[1] / "docs" / "bad-files.md"
HEADER = "sample,class,age,height"
ROWS = [f"s{i},{'AB'[i % 2]},{30 + i},{1.5 + i / 100:g}" for i in range(1, 31)]
GOOD = "\n".join([HEADER, *ROWS]) + "\n"
LABEL = ("--label", "class")
USUAL = (*LABEL, "--id", "sample")
HEAD = """# What is said of bad files

Written by `python -m tests.bad_files`, which makes each of these files and gives it to `dilutron fit`; a test compares
this page with what is said now. Each message is one line on standard error, the exit code is 2, and no folder is left
behind. The good file has the columns sample, class, age and height, and 30 rows. Where no options are shown, they are
`--label class --id sample`.

| file | options | message |
|---|---|---|
"""


class Bad(NamedTuple):
    """A kind of file, its content, its name, and the options that differ."""

    kind: str
    content: str | bytes | Callable[[], bytes] | None
    name: str = "data.csv"
    options: tuple[str, ...] = USUAL


def _with(old, new):
    assert old in GOOD, old
    return GOOD.replace(old, new, 1)


def _column(name, values):
    """The good file with one more column."""
    return "\n".join(f"{row},{value}" for row, value in zip([HEADER, *ROWS], [name, *values], strict=True)) + "\n"


def _dates():
    import polars as pl

    kept = io.BytesIO()
    days = pl.Series(["2020-01-01", "2021-01-01"] * 15).str.to_date()
    pl.DataFrame({"class": ["A", "B"] * 15, "born": days}).write_parquet(kept)
    return kept.getvalue()


BAD = (
    Bad("not there, or misspelt", None, "daata.csv"),
    Bad("a folder", None, "folder"),
    Bad("empty", ""),
    Bad("a header alone", HEADER + "\n"),
    Bad("a spreadsheet", "PK", "data.xlsx"),
    Bad("a picture", bytes(range(256)) * 20),
    Bad("UTF-16, as some spreadsheets save it", GOOD.encode("utf-16")),
    Bad("not UTF-8", _with("s1,B", "André,B").encode("latin-1")),
    Bad("half a download", gzip.compress(GOOD.encode(), mtime=0)[:-30], "data.csv.gz"),
    Bad("a false Parquet file", GOOD, "data.parquet", LABEL),
    Bad("a false h5ad file", GOOD, "data.h5ad", LABEL),
    Bad("separated by spaces", GOOD.replace(",", " ")),
    Bad("a blank first line", "\n" + GOOD),
    Bad("a comment first", "# made by hand, in 2020\n" + GOOD),
    Bad("row names as R's write.table leaves them", _with("sample,", ""), options=LABEL),
    Bad("two columns of one name", _with("height", "age")),
    Bad("a column without a name", _with("height", "")),
    Bad("a lost name, and no row names", _with("height", ""), options=(*LABEL, "--drop", "sample")),
    Bad("a misspelt label", GOOD, options=("--label", "clas")),
    Bad("no such label", GOOD, options=("--label", "diagnosis")),
    Bad("no such column to drop", GOOD, options=(*USUAL, "--drop", "weight")),
    Bad("one column as label and id", GOOD, options=(*LABEL, "--id", "class")),
    Bad("the label dropped", GOOD, options=(*USUAL, "--drop", "class")),
    Bad("the id dropped", GOOD, options=(*USUAL, "--drop", "sample")),
    Bad("no features", "sample,class\ns1,A\ns2,B\ns3,A\ns4,B\n"),
    Bad("a row that is too long", _with("s2,A", "s2,A,0")),
    Bad("a row that is too short", _with("s2,A,", "s2,")),
    Bad("a quote left open", _with("s3,B", 's3,"B')),
    Bad("letters among numbers", _with("32,", "thirty-two,")),
    Bad("row names as a feature", GOOD, options=LABEL),
    Bad("decimal commas", GOOD.replace(",", ";").replace(".", ",")),
    Bad("units", _with("1.51", "1.51 m")),
    Bad("dates", _dates, "data.parquet", LABEL),
    Bad("gaps", _with("1.51", "").replace("1.52", "NA").replace("33,", "NaN,")),
    Bad("a column of gaps", _column("weight", [""] * 30), options=(*USUAL, "--impute", "median")),
    Bad("an infinite value", _with("1.51", "inf")),
    Bad("a negative count", _with("1.51", "-1"), options=(*USUAL, "--log")),
    Bad("a label that is missing", _with("s2,A", "s2,")),
    Bad("two rows of one name", _with("s2,", "s1,")),
    Bad("one class", GOOD.replace(",A,", ",B,")),
    Bad("a class in one row only", _with("s2,A", "s2,C")),
    Bad("a class written in two ways", _with("s4,A", "s4,a")),
    Bad("a measurement as label", GOOD, options=("--label", "height", "--id", "sample", "--drop", "class")),
    Bad("names as label", GOOD, options=("--label", "sample", "--drop", "class")),
    Bad("features that never change", "class,x,y\n" + "A,1,2\nB,1,2\n" * 5, options=LABEL),
    Bad("no such class", GOOD, options=(*USUAL, "--positive", "ill")),
    Bad("more features expected than there are", GOOD, options=(*USUAL, "--expect", "5")),
)


def said_of(bad):
    """The last line of `dilutron fit`, in the folder where one is. What other libraries say is left out."""
    from dilutron import cli

    Path("folder").mkdir(exist_ok=True)
    Path("data.csv").write_text(GOOD)
    if bad.content is not None:
        content = bad.content() if callable(bad.content) else bad.content
        Path(bad.name).write_bytes(content.encode() if isinstance(content, str) else content)
    heard = io.StringIO()
    code = None
    try:
        with contextlib.redirect_stderr(heard):
            cli.main(["fit", bad.name, *bad.options, "--out", "run", "--folds", "0"])
    except SystemExit as end:
        code = end.code
    assert code == 2, f"{bad.kind}: exit code {code}"
    assert not os.path.exists("run"), f"{bad.kind}: a run was written"
    line = heard.getvalue().splitlines()[-1].removeprefix("dilutron: ")
    for other in ("polars: ", "damaged: "):
        line = line.partition(other)[0] + f"{other}..." if other in line else line
    return line


def page():
    """The table of all."""
    lines = []
    for bad in BAD:
        options = "" if bad.options == USUAL else f"`{' '.join(bad.options)}`"
        lines.append(f"| {bad.kind} | {options} | `{said_of(bad).replace('|', chr(92) + '|')}` |")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        text = page()
    PAGE.write_text(text, encoding="utf-8")
    print(PAGE)

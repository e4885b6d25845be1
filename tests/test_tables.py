"""Files as they are found in the wild: what is read, and the one line that each bad one gets."""

import gzip
import os
import re

import numpy as np
import pytest

from dilutron import tables
from dilutron.tables import Columns, TableError

pl = pytest.importorskip("polars")

PLAIN = "id,y,a,b\ns1,ill,1,2.5\ns2,well,3,4\ns3,ill,-5,6e-1\n"
COLUMNS = Columns("y", "id")


def put(folder, text, name="data.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def line(folder, text, columns=COLUMNS, name="data.csv"):
    """The error, which must be one line that begins with the file."""
    path = put(folder, text, name)
    with pytest.raises(TableError) as error:
        tables.read(path, columns)
    message = str(error.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message.removeprefix(str(path))


def same(sheet):
    assert sheet.names == ("a", "b")
    assert sheet.ids == ("s1", "s2", "s3")
    assert sheet.labels.tolist() == ["ill", "well", "ill"]
    np.testing.assert_array_equal(sheet.X, [[1.0, 2.5], [3.0, 4.0], [-5.0, 0.6]])
    return True


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("data.csv", PLAIN),
        ("data.CSV", PLAIN),
        ("data.tsv", PLAIN.replace(",", "\t")),
        ("data.csv.gz", gzip.compress(PLAIN.encode(), mtime=0)),
        ("my.data.tsv.gz", gzip.compress(PLAIN.replace(",", "\t").encode(), mtime=0)),
        ("gzipped.csv", gzip.compress(PLAIN.encode(), mtime=0)),
        ("tabs.csv", PLAIN.replace(",", "\t")),
        ("semicolons.csv", PLAIN.replace(",", ";")),
        ("windows.csv", "\ufeff" + PLAIN.replace("\n", "\r\n")),
        ("no-last-newline.csv", PLAIN.rstrip()),
        ("blank-lines-at-the-end.csv", PLAIN + "\n\n"),
        ("spaces.csv", PLAIN.replace(",", ", ").replace(", a, b", ",a,b").replace("id, y", "id,y")),
        ("quoted.csv", PLAIN.replace("2.5", '"2.5"').replace("ill", '"ill"')),
    ],
)
def test_the_same_table_in_many_clothes(tmp_path, name, text):
    assert same(tables.read(put(tmp_path, text, name), COLUMNS))


def test_parquet(tmp_path):
    frame = pl.read_csv(PLAIN.encode())
    frame.with_columns(pl.col("y").cast(pl.Categorical), pl.col("a").cast(pl.Int8)).write_parquet(
        tmp_path / "t.parquet"
    )
    assert same(tables.read(tmp_path / "t.parquet", COLUMNS))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_h5ad_dense_and_sparse(tmp_path):
    anndata = pytest.importorskip("anndata")
    pd = pytest.importorskip("pandas")
    sparse = pytest.importorskip("scipy.sparse")
    X = np.array([[1.0, 2.5], [3.0, 4.0], [-5.0, 0.6]])
    obs = pd.DataFrame({"y": pd.Categorical(["ill", "well", "ill"])}, index=["s1", "s2", "s3"])
    for table in (X, sparse.csr_matrix(X)):
        anndata.AnnData(table, obs=obs, var=pd.DataFrame(index=["a", "b"])).write_h5ad(tmp_path / "t.h5ad")
        assert same(tables.read(tmp_path / "t.h5ad", Columns("y")))
    with pytest.raises(TableError, match=r"no column 'x' of obs, given as --label; there are 'y'\.$"):
        tables.read(tmp_path / "t.h5ad", Columns("x"))


def test_columns_are_dropped_or_chosen_and_keep_their_order(tmp_path):
    path = put(tmp_path, "y,junk,a,b\nu,?,1,2\nv,?,3,4\n")
    assert tables.read(path, Columns("y", drop=("junk",))).names == ("a", "b")
    sheet = tables.read(path, Columns(features=("b", "a")))
    assert sheet.X.tolist() == [[2.0, 1.0], [4.0, 3.0]]
    assert sheet.ignored == ("y", "junk")
    assert sheet.labels is None


@pytest.mark.parametrize(
    ("columns", "row", "width"),
    [
        (Columns("lab", drop=("extra",)), "u,1,2", 3),
        (Columns("lab", drop=("extra",)), "u,1,2,3,4,5", 6),
        (Columns("lab", drop=("a",)), "u,1,2,3,4,5", 6),
        (Columns(features=("a",)), "u,1,2", 3),
        (Columns(features=("a",)), "u,1,2,x,", 5),
    ],
)
def test_ragged_rows_are_refused_also_where_columns_are_left_out(tmp_path, columns, row, width):
    said = line(tmp_path, f"lab,a,b,extra\nu,1,2,3\n{row}\nv,5,6,7\n", columns)
    assert said == f": row 2 has {width} values and the header 4 names: mend that row, or the header."


def test_a_column_that_is_left_out_may_have_gaps(tmp_path):
    path = put(tmp_path, "lab,a,extra\nu,1,\nv,2,NA\nv,3,x\n\n")
    assert tables.read(path, Columns("lab", drop=("extra",))).X.tolist() == [[1.0], [2.0], [3.0]]


def test_row_names_without_a_name_are_ids(tmp_path):
    """As R and pandas write them: row numbers must not become a feature."""
    path = put(tmp_path, ',y,a\n"1",u,1\n"2",v,2\n')
    sheet = tables.read(path, Columns("y"))
    assert (sheet.ids, sheet.names, sheet.id) == (("1", "2"), ("a",), "")
    assert tables.read(path, Columns("y", drop=("",))).ids is None


def test_only_the_first_column_may_be_row_names(tmp_path):
    path = put(tmp_path, "y,a,\nu,1,2\nv,3,4\n")
    with pytest.raises(TableError, match=r": column 3 has no name: give it one, or --drop ''\.$"):
        tables.read(path, Columns("y"))
    sheet = tables.read(path, Columns(features=("a",)))
    assert (sheet.ids, sheet.ignored) == (None, ("y", ""))


def test_a_header_may_begin_with_a_hash(tmp_path):
    assert same(tables.read(put(tmp_path, "#" + PLAIN), Columns("y", "#id")))


def test_an_infinite_value_in_new_rows_names_what_predict_can_do(tmp_path):
    said = line(tmp_path, PLAIN.replace("3,4", "3,inf"), Columns(features=("a", "b")))
    assert said.endswith("mend it, or leave the value empty if the run was fitted with --impute median.")


def test_a_usual_id_need_not_be_there(tmp_path):
    path = put(tmp_path, PLAIN)
    assert tables.read(path, Columns("y", usual_id="id")).ids == ("s1", "s2", "s3")
    assert tables.read(path, Columns("y", "id", usual_id="nothing")).ids == ("s1", "s2", "s3")


def test_names_are_kept_as_they_came(tmp_path):
    names = ("<script>alert(1)</script>", 'with "quotes"', "comma, inside", " space ", "Å", "=cmd()", "two\nlines")
    header = ",".join('"' + name.replace('"', '""') + '"' for name in names)
    sheet = tables.read(put(tmp_path, f"y,{header}\nu,1,2,3,4,5,6,7\nv,1,2,3,4,5,6,7\n"), Columns("y"))
    assert sheet.names == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", " is empty: save or copy the table again."),
        ("id,y,a,b\n", " has a header and no rows: add a row for each sample."),
        ("\n\n", ": the first line is empty: remove it"),
        ("\n" + PLAIN, ": the first line is empty: remove it"),
        ("\ufeff,,,\n" + PLAIN, ": the first line is empty: remove it"),
        ("# by hand\n" + PLAIN.replace(",", "\t"), ": the first line, '# by hand', seems a comment: remove it."),
        ("#by,hand\n" + PLAIN, ": the first line, '#by', seems a comment: remove it."),
        (PLAIN.replace("id,", "", 1), ": the header lacks a name for the row names, as R's write.table leaves it: put"),
        ("y,a,b\nu,1,2,\nv,1,2,\n", " has no column 'id'"),
        (PLAIN.replace(",", ":"), " has one column only, 'id:y:a:b': separate columns by"),
        (PLAIN.replace("3,4", "3,four"), ": row 2, column 'b' is 'four', not a number: mend the value, or --drop 'b'."),
        (
            PLAIN.replace("id", "names"),
            " has no column 'id', given as --id; there are 'names', 'y', 'a', 'b'.",
        ),
        (
            "y,id,a\nu,s,x\nv,t,y\n",
            ": row 1, column 'a' is 'x', not a number (2 such values there): --id 'a' if it names",
        ),
        ("y;id;a\nu;s;1,5\nv;t;2\n", ": row 1, column 'a' is '1,5', not a number: write numbers with a decimal point"),
        (PLAIN.replace("3,4", "3,inf"), ": row 2, column 'b' is infinite, 1 such in all: mend it, or leave the value"),
        (PLAIN.replace("a,b", "a,a"), ": columns 3 and 4 are named 'a': rename one."),
        (PLAIN.replace("a,b", "a,"), ": column 4 has no name: give it one, or --drop ''."),
        (PLAIN.replace("s3", "s1"), ": rows 1 and 3 have the same id 's1': ids must differ."),
        (PLAIN.replace("3,4", "3,4,5"), ": row 2 has 5 values and the header 4 names: mend that row, or the header."),
        (PLAIN.replace("3,4", "3"), ": row 2 has 3 values and the header 4 names: mend that row, or the header."),
        (PLAIN.replace("well", ""), ": column 'y' has no value in row 2: fill it in, or remove that row."),
        (PLAIN.replace("ill", "NA"), ": column 'y' has no value in row 1, and in 1 more: fill it in, or remove"),
        (PLAIN.replace("ill", "café").encode("latin-1"), " is not UTF-8 text: byte 0xe9 in line 2. Save it as UTF-8"),
        (PLAIN.replace("a,b", "ä,b").encode("latin-1"), " is not UTF-8 text: byte 0xe4 in line 1. Save it as UTF-8"),
        (PLAIN.encode("utf-16"), " is not a text file: save the table as CSV."),
        (np.random.default_rng(0).bytes(5000), " is not a text file: save the table as CSV."),
        (np.random.default_rng(0).bytes(5000).replace(b"\0", b""), " is not UTF-8 text: byte 0x"),
        (
            gzip.compress(PLAIN.encode() * 100, mtime=0)[:60],
            " is a damaged or cut gzip file: copy or download it again.",
        ),
        (gzip.compress(PLAIN.encode(), mtime=0)[:-3], " is a damaged or cut gzip file: copy or download it again."),
        ("a,b" * 100_000 + '"' + "c" * 200_000, " cannot be read as a table: field larger than field limit (131072)."),
        ("id,y\ns1,u\ns2,v\n", " has no column left as a feature, of 2: leave out an --id or a --drop."),
    ],
)
def test_bad_texts(tmp_path, text, message):
    assert line(tmp_path, text).startswith(message)


def test_a_quote_left_open(tmp_path):
    said = line(tmp_path, PLAIN.replace("2.5", '"2.5'))
    assert said.startswith((" cannot be read as a table, is a quote left open?", ": row 1, column 'b' is "))


def test_absent_files_folders_and_unknown_kinds(tmp_path):
    put(tmp_path, PLAIN)
    (tmp_path / "folder").mkdir()
    for name, message in (
        ("dat.csv", "does not exist; perhaps 'data.csv'."),
        ("folder", "is a folder: give a file."),
        ("nowhere/at.csv", "does not exist."),
    ):
        with pytest.raises(TableError, match=re.escape(f"{tmp_path / name} {message}")):
            tables.read(tmp_path / name, COLUMNS)
    assert " is of no known kind: give .csv, .tsv, .txt, .parquet, .h5ad" in line(tmp_path, PLAIN, name="data.xlsx")
    assert " is not a Parquet file, or damaged: " in line(tmp_path, PLAIN, name="data.parquet")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_false_h5ad(tmp_path):
    pytest.importorskip("anndata")
    assert " is not an h5ad file, or damaged: " in line(tmp_path, PLAIN, name="data.h5ad")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read all")
def test_a_file_that_may_not_be_read(tmp_path):
    put(tmp_path, PLAIN).chmod(0)
    with pytest.raises(TableError, match=r"cannot be read: Permission denied\.$"):
        tables.read(tmp_path / "data.csv", COLUMNS)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (Columns("Y"), " has no column 'Y', given as --label; perhaps 'y'."),
        (Columns("diagnosi"), " has no column 'diagnosi', given as --label; perhaps 'diagnosis'."),
        (Columns("y", drop=("c",)), " has no column 'c', given as --drop; there are "),
        (Columns(features=("a", "c", "d")), " lacks 2 of the 3 columns of the fit: 'c', 'd'."),
        (Columns(features=("diagnosis", "diagnosi")), " lacks 1 of the 2 columns of the fit: 'diagnosi'. Add or"),
        (Columns(features=("diagnosi",)), " lacks 1 of the 1 columns of the fit: 'diagnosi'; perhaps 'diagnosis'."),
    ],
)
def test_absent_columns_are_named_with_near_ones(tmp_path, columns, message):
    assert line(tmp_path, "y,diagnosis,a,b\nu,1,2,3\nv,1,2,3\n", columns).startswith(message)


@pytest.mark.parametrize("name", ["data.csv", "data.parquet", "data.h5ad"])
def test_a_column_has_one_part_only(tmp_path, name):
    if name.endswith("h5ad"):
        pytest.importorskip("anndata")
    text = PLAIN.encode()
    if name.endswith("parquet"):
        pl.read_csv(text).write_parquet(tmp_path / "kept")
        text = (tmp_path / "kept").read_bytes()
    said = line(tmp_path, text, Columns("y", "y"), name)
    assert said == ": 'y' is given as --label and as --id: a column has one part only, leave out one of the two."


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (Columns("y", drop=("y",)), ": 'y' is given as --label and as --drop: "),
        (Columns("y", "id", drop=("a", "id")), ": 'id' is given as --id and as --drop: "),
        (Columns(id="a", features=("b", "a")), ": 'a' is given as --id and is a feature of the fit: choose another"),
    ],
)
def test_parts_that_meet(tmp_path, columns, message):
    assert line(tmp_path, PLAIN, columns).startswith(message)


def test_parquet_of_other_things(tmp_path):
    frame = pl.DataFrame({"y": ["u", "v"], "when": pl.Series(["2020-01-01", "2021-01-01"]).str.to_date()})
    frame.write_parquet(tmp_path / "t.parquet")
    with pytest.raises(TableError, match="column 'when' holds Date, not numbers: --drop it, or mend it"):
        tables.read(tmp_path / "t.parquet", Columns("y"))


def test_missing_values_are_told_or_filled(tmp_path):
    text = "y,a,b\nu,1,\nv,NA,2\nu,3,nan\nv,9,8\n"
    sheet = tables.read(put(tmp_path, text), Columns("y"))
    with pytest.raises(
        TableError, match=r"no value in row 1, column 'b' \(3 are missing, in 2 of 2 columns\): do so\."
    ):
        tables.check_complete(sheet, "do so")
    filled = tables.imputed(sheet, tables.medians_of(sheet))
    assert filled.X.tolist() == [[1.0, 5.0], [3.0, 2.0], [3.0, 5.0], [9.0, 8.0]]
    assert filled.n_imputed == 3
    tables.check_complete(filled, "nothing")


def test_a_column_without_values_has_no_median(tmp_path):
    sheet = tables.read(put(tmp_path, "y,a,b\nu,1,\nv,2,\n"), Columns("y"))
    with pytest.raises(TableError, match="no row has a value in 'b', so there is no median: --drop it"):
        tables.medians_of(sheet)


def test_logarithms(tmp_path):
    sheet = tables.read(put(tmp_path, "y,a,b\nu,0,1\nv,3,7\n"), Columns("y"))
    assert tables.logged(sheet).X.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    sheet = tables.read(put(tmp_path, "y,a,b\nu,0,1\nv,3,-0.5\n"), Columns("y"))
    with pytest.raises(TableError, match=r"row 2, column 'b' is -0\.5, and log2\(x \+ 1\) wants no negative values"):
        tables.logged(sheet)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["u"] * 30, "holds one class only, 'u': at least two are needed."),
        ([str(i / 7) for i in range(30)], "holds 30 different numbers, it seems a measurement: choose a column of at"),
        ([f"p{i}" for i in range(30)], "holds 30 different texts, it seems a name: choose a column of at most 20"),
        (["u"] * 15 + ["v"] * 14 + ["w"], "has class 'w' in one row only, row 30: remove that row, or mend it."),
    ],
)
def test_labels_must_be_a_few_classes(tmp_path, labels, message):
    path = put(tmp_path, "y,a\n" + "".join(f"{label},1\n" for label in labels))
    with pytest.raises(TableError, match=re.escape(f"label column 'y' {message}")):
        tables.check_classes(tables.read(path, Columns("y")), "y")


def test_long_names_and_values_are_cut_in_errors(tmp_path):
    message = line(tmp_path, f"y,{'g' * 500}\nu,{'x' * 500}\nv,1\n", Columns("y"))
    assert f"column '{'g' * 40}...' is '{'x' * 40}...', not a number" in message


def test_a_gzip_file_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("dilutron.tables.text.LARGEST", 1 << 20)
    said = line(tmp_path, gzip.compress(PLAIN.encode() + b"0" * (1 << 21)), name="data.csv.gz")
    assert said == " unpacks to more than 0 GB: unpack it first, and give that file."


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "is damaged: it crashes the HDF5 library"),
        ("import time; time.sleep(60)", "is damaged, or too slow to read"),
    ],
)
def test_an_h5ad_file_that_would_take_the_process_with_it_is_refused(tmp_path, monkeypatch, code, reason):
    pytest.importorskip("anndata")
    from dilutron.tables import stored

    run = stored.subprocess.run
    monkeypatch.setattr(stored, "PATIENCE", 5.0)
    monkeypatch.setattr(stored.subprocess, "run", lambda probe, **more: run([probe[0], "-c", code], **more))
    assert reason in line(tmp_path, b"\x89HDF\r\n\x1a\n", name="data.h5ad")

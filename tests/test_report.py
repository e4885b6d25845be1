import csv
import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("jinja2")

from dilutron import report
from dilutron.report.phrases import measured, percent
from dilutron.report.reading import read
from dilutron.report.svg import Scale, clipped, fitted, number
from tests import report_runs

EVIL = "<script>alert(1)</script>"
EVIL_LABEL = '"><img src=x onerror=alert(1)>'
VOID = {"meta", "input", "link", "img", "br", "hr"}


class Page(HTMLParser):
    """A page taken apart: its elements in order, its text, and what the tags say of nesting."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.text, self.elements, self.open, self.faults, self.words = text, [], [], [], []
        self.feed(text)
        self.faults += self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)

    def handle_data(self, data):
        if "script" not in self.open and "style" not in self.open:
            self.words.append(data)

    @property
    def said(self):
        return re.sub(r"\s+", " ", "".join(self.words))

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


def page_of(folder, **kwargs):
    return Page(report.write(report_runs.write(folder, **kwargs)).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return page_of(tmp_path_factory.mktemp("plain"), suspects=(3, 70))


def changed(**changes):
    """Facts with some entries of their parts replaced: `result__status="diverged"`."""
    told = report_runs.facts()
    for key, value in changes.items():
        part, _, entry = key.partition("__")
        if entry:
            told[part][entry] = value
        else:
            told[part] = value
    return told


def test_it_is_one_file_that_asks_nobody(plain):
    assert not plain.faults
    assert not [
        a for _, attrs in plain.elements for a in attrs if a in ("src", "srcset", "style") or a.startswith("on")
    ]
    links = {a["href"] for a in plain.all("a")}
    assert {link for link in links if not link.startswith("#")} == {"features.csv", "labels.csv"}
    assert not plain.all("link")
    assert not re.search(r"url\(|@import", plain.text)
    policy = next(a["content"] for a in plain.all("meta") if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_the_answer_comes_first(plain):
    places = [plain.text.index(f'id="{part}"') for part in ("answer", "pictures", "tables", "method", "details")]
    assert places == sorted(places)
    assert "Which features tell tumour from normal?" in plain.said
    assert "120 samples and 20 features from patients.csv" in plain.said
    assert "about 3 of the 20 features matter" in plain.said
    assert "Nearly certain (probability of 90 % or more): gene 0 (higher values point to tumour), gene 1" in plain.said
    assert "More likely than not (50 to 90 %): gene 2." in plain.said
    assert "Of these 3, about 0.4 are expected to be listed by mistake." in plain.said
    assert "right class in 90.0 % of cases" in plain.said
    assert "Always naming the larger class would be right in 50.0 %" in plain.said
    assert "2 labels out of 120 look wrong" in plain.said
    assert "row 4 (S3): given normal, rather tumour (95 %)" in plain.said
    assert "No warning sign was found." in plain.said


def test_pictures_can_be_read_without_seeing_them(plain):
    pictures = plain.all("svg")
    assert len(pictures) == 8
    ids = {attrs["id"] for _, attrs in plain.elements if "id" in attrs}
    for attrs in pictures:
        assert attrs["role"] == "img"
        assert set(attrs["aria-labelledby"].split()) <= ids
    assert len(ids) == sum("id" in attrs for _, attrs in plain.elements), "each id is there once"


def test_headings_go_down_one_level_at_a_time(plain):
    levels = [int(tag[1]) for tag, _ in plain.elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    assert len(plain.all("caption")) == len(plain.all("table"))


def test_every_class_of_a_drawing_has_a_style(plain):
    style = re.search(r"<style>(.*?)</style>", plain.text, re.S).group(1)
    drawn = "".join(re.findall(r"<svg.*?</svg>", plain.text, re.S))
    names = {name for kinds in re.findall(r'class="([^"]*)"', drawn) for name in kinds.split()}
    assert names
    assert not [name for name in names if f".{name}" not in style]


def test_the_method_can_be_pasted(plain):
    assert "A. Braunstein, T. Gueudré, A. Pagnani and M. Pieropan" in plain.said
    assert "10.1103/PhysRevE.103.043301" in plain.said
    assert "measured by 5-fold cross-validation" in plain.said
    assert "averaged over a path of values" in plain.said
    assert "ab" * 32 in plain.said
    assert "scikit-learn" in plain.said
    assert "log2" not in plain.said


def test_the_method_says_what_was_done(tmp_path):
    told = changed(data__log=True, data__n_imputed=7, settings__n_features_expected=4, settings__eta=1.0, held_out=None)
    said = page_of(tmp_path, told=told).said
    assert "Values were transformed by log2(x + 1)." in said
    assert "7 missing values were replaced by the median" in said
    assert "features was set to 4." in said
    assert "The share of right labels was set to 1.0." in said
    assert "cross-validation." not in said.split("Method, ready to paste")[1]


def test_the_method_says_that_medians_know_held_out_rows(tmp_path, plain):
    words = "Medians for missing values were taken over all samples, those held out included."
    assert words in page_of(tmp_path, told=changed(data__n_imputed=7)).said
    assert words not in page_of(tmp_path, told=changed(data__n_imputed=7, held_out=None)).said
    assert words not in plain.said


@pytest.mark.parametrize(
    ("changes", "words", "verdict"),
    [
        ({}, "No warning sign was found", "good"),
        ({"result__converged": False, "result__status": "max_iter"}, "It ran out of iterations", "bad"),
        ({"result__converged": False, "result__status": "diverged"}, "numbers left the valid range", "bad"),
        ({"result__converged": False, "result__status": "collapsed"}, "Every coefficient fell to zero", "bad"),
        ({"result__status": "max_iter"}, "only a learned label noise was still moving", "good"),
        ({"counts": {"normal": 20, "tumour": 20}}, "Few samples. 40 samples", "care"),
        ({"counts": {"normal": 60, "tumour": 3}}, "Too few samples of one class", "bad"),
        ({"counts": {"normal": 400, "tumour": 20}}, "Very unequal classes", "care"),
        ({"held_out": None}, "Not tested on unseen samples", "care"),
        ({"held_out__accuracy": 0.53, "held_out__auc": 0.51}, "not clearly better than guessing", "bad"),
        ({"held_out__accuracy": 0.45, "held_out__auc": 0.49}, "no better than always naming the larger", "bad"),
        ({"held_out__accuracy": 0.51, "held_out__auc": 0.7}, "It orders unseen samples better than chance", "care"),
        ({"held_out__accuracy": 0.999}, "Too good to be true?", "care"),
        ({"held_out__log_loss": 0.8}, "Its probabilities mislead", "care"),
        ({"result__n_features_likely": 15}, "Not a matter of few features", "care"),
        ({"result__n_features_likely": 8}, "About 8 are expected to matter, but only 3 can be named", "care"),
        ({"result__eta": 0.7}, "It takes about 30 % of the labels for wrong", "care"),
        ({"data__n_imputed": 10}, "10 values (0.4 % of all) were replaced", "good"),
        ({"data__n_imputed": 500}, "500 values (20.8 % of all) were replaced", "care"),
    ],
)
def test_every_reason_to_doubt_is_said(tmp_path, changes, words, verdict):
    page = page_of(tmp_path, told=changed(**changes))
    assert words in page.said
    assert any(attrs.get("class") == f"verdict {verdict}" for attrs in page.all("p"))


def test_an_open_number_of_features_is_said(tmp_path):
    path = [{"size": size, "weight": 0.25, "status": "converged"} for size in (1.0, 5.0, 20.0, 60.0)]
    assert "anything from 1 to 60 features" in page_of(tmp_path, told=changed(result__path=path)).said


def path_of(*weights, **more):
    sizes = (50.0, 15.0, 5.0, 1.5)
    rows = zip(sizes, weights, strict=False)
    return [{"size": size, "weight": weight, "status": "converged", **more} for size, weight in rows]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (path_of(0.5, 0.3, 0.2, 0.0), True),
        (path_of(0.3, 0.2, 0.1, 0.4), False),
        (path_of(1.0), False),
        ([*path_of(0.1, 0.9, **{"class": "a"}), *path_of(0.9, 0.1, **{"class": "b"})], True),
    ],
)
def test_a_peak_at_the_end_of_many_features_is_said(tmp_path, path, told):
    page = page_of(tmp_path, told=changed(result__path=path))
    assert ("the data prefer the largest, 50 features: many features share the work, or the" in page.said) is told
    assert ("The reason: the largest number of features tried weighs most." in page.said) is told


@pytest.mark.parametrize(("third", "told"), [(0.6, True), (0.8, False)])
def test_a_list_with_many_mistakes_is_no_good_sign(tmp_path, third, told):
    """Of three, 0.8 mistakes are more than a quarter and 0.6 are not."""
    page = page_of(tmp_path, inclusion=[0.9, 0.7, third, *[0.01] * 17])
    assert ("Of 3 features with a probability above 50 %, about 0.8 are expected not to matter" in page.said) is told
    assert any(attrs.get("class") == f"verdict {'care' if told else 'good'}" for attrs in page.all("p"))


def test_without_skill_features_are_not_claimed(tmp_path):
    told = changed(held_out__accuracy=0.45, held_out__auc=0.49)
    said = page_of(tmp_path, told=told, inclusion=np.linspace(0.3, 0.01, 20)).said
    assert "Maybe none: the model does not clearly predict unseen samples." in said
    assert "No single feature is more likely than not to matter. The most probable is gene 0 (30" in said
    assert "By the model's estimate" not in said


def test_a_group_is_named_where_no_member_can_be(tmp_path):
    groups = [[1, 0.97, 0.3, 0.8, 2, "gene 0; gene 1"], [2, 0.4, 0.3, 0.8, 2, "gene 5; gene 6"]]
    said = page_of(tmp_path, inclusion=np.linspace(0.45, 0.01, 20), groups=groups).said
    assert "At least one feature of group 1 matters (probability 97 %; 30 % before the data)" in said
    assert "group 2 matters" not in said
    assert "No feature can be named." in said


def test_no_suspects_is_an_answer(tmp_path):
    assert "No label stands out as wrong." in page_of(tmp_path).said


def test_three_classes(tmp_path):
    told = report_runs.facts(("setosa", "versicolor", "virginica"))
    told["result"]["path"] = [
        {"class": name, "size": size, "weight": 0.5, "status": "converged"}
        for name in told["classes"]
        for size in (2.0, 4.0)
    ]
    page = page_of(tmp_path, told=told)
    assert "Which features tell the 3 classes of kind apart?" in page.said
    assert "gene 0 for setosa" in page.said
    assert "3 of the 20 features can be named" in page.said
    assert "25" not in page.said.split("most probable of")[0][-4:]
    assert page.text.count('class="curve c2"') >= 3, "one line for each class"
    assert len(page.all("svg")) == 8
    assert not page.faults


def test_three_classes_without_skill_count_no_feature_twice(tmp_path):
    told = report_runs.facts(("a", "b", "c"))
    told["result"]["n_features_likely"] = 33
    told["held_out"] |= {"accuracy": 0.3, "auc": 0.5}
    said = page_of(tmp_path, told=told).said
    assert "Maybe none: the model does not clearly predict unseen samples. If there are any, 3 of the 20 feat" in said
    assert "33 of the 20" not in said


def test_strings_of_the_file_are_text_and_nothing_else(tmp_path):
    names = [EVIL, "</script><script>alert(2)</script>", "<!--<script>", "{{ 7*7 }}", "a&amp;b", *map(str, range(15))]
    told = report_runs.facts((EVIL_LABEL, "<b>ill</b>"))
    told["data"] |= {"file": "<i>x</i>.csv", "label": "<u>", "dropped": ["<s>"], "id": "'\"><svg onload=alert(1)>"}
    groups = [[1, 0.97, 0.3, 0.8, 2, f"{EVIL}; {names[1]}"]]
    page = page_of(
        tmp_path, names=names, told=told, ids=[f"<em>{i}</em>" for i in range(120)], suspects=(0, 1), groups=groups
    )
    assert not page.faults
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"img", "b", "i", "u", "s"}
    assert all(not a.startswith("on") for _, attrs in page.elements for a in attrs)
    assert len(page.all("script")) == 4, "three tables and the page's own"
    assert EVIL not in page.text
    assert EVIL in page.said
    assert EVIL_LABEL in page.said
    assert "{{ 7*7 }}" in page.said
    assert "a&amp;b" in page.said


def test_embedded_data_are_json(tmp_path):
    page = page_of(tmp_path, names=[EVIL, "<!--", "x\u2028y", *map(str, range(17))])
    data = re.findall(r'<script type="application/json">(.*?)</script>', page.text, re.S)
    assert len(data) == 2
    for text in data:
        assert "<" not in text
    rows = json.loads(data[0])["rows"]
    assert rows[0][0] == EVIL
    assert rows[0][1] == [0.98, "0.980"]


def test_numbers_that_are_not_known_are_left_empty(tmp_path):
    folder = report_runs.write(tmp_path)
    with open(folder / "features.csv", newline="") as file:
        rows = list(csv.reader(file))
    for row in rows[5:]:
        row[2:8] = ["", "nan", "inf", "", "", ""]
    with open(folder / "features.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    text = report.write(folder).read_text(encoding="utf-8")
    for data in re.findall(r'<script type="application/json">(.*?)</script>', text, re.S):
        json.loads(data, parse_constant=pytest.fail)


def test_many_features_are_cut_with_a_link(tmp_path):
    n = 23_000
    told = report_runs.facts(n_features=n, n_rows=1000)
    page = page_of(tmp_path, told=told, names=[f"ENSG{i:011d}.{i % 9} long name of a gene" for i in range(n)])
    assert len(page.text) < 1_000_000
    assert "The first 500 of 23,000 are on this page. All are in features.csv" in page.said
    assert f"{n:,} features" in page.said


def test_long_names_do_not_make_a_long_page(tmp_path):
    page = page_of(tmp_path, names=[f"{i}" + "x" * 50_000 for i in range(20)])
    assert len(page.text) < 300_000


def test_what_is_missing_is_left_out(tmp_path):
    folder = report_runs.write(tmp_path)
    for name in ("groups", "labels", "predictions", "trace", "correlations"):
        (folder / f"{name}.csv").unlink()
    page = Page(report.write(folder).read_text(encoding="utf-8"))
    assert len(page.all("svg")) == 3
    assert "Labels were not reviewed" in page.said


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"is not a run folder: run\.json is missing"):
        report.write(tmp_path)
    report_runs.write(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(ValueError, match="is damaged"):
        report.write(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(ValueError, match="does not describe a run"):
        report.write(tmp_path)
    assert not list(tmp_path.glob("*report*")), "nothing half-written"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": {}}, "data has no good value for 'file'"),
        ({"data": []}, "data is not a table of names and values"),
        ({"data__n_rows": "many"}, "data has no good value for 'n_rows'"),
        ({"data__n_features": 0}, "n_rows, n_features and all counts must be 1 or more"),
        (
            {"data__n_rows": 10**400},
            "n_rows, n_features and all counts must be 1 or more, and no more than can be counted",
        ),
        ({"result": {}}, "result has no good value for 'status'"),
        ({"result__path": [{"size": 1.0}]}, "result, path: KeyError 'weight'"),
        ({"result__path": [{"size": "x"}]}, "result, path: ValueError"),
        ({"held_out": {"folds": 5}}, "held_out has no good value for 'accuracy'"),
        ({"held_out__auc": "high"}, "held_out has no good value for 'auc'"),
        ({"versions": ["numpy"]}, "versions is not a table of names and values"),
        ({"request": "none"}, "request is not a table of names and values"),
        ({"settings__tol": {}}, "settings has no good value for 'tol'"),
        ({"seconds": "few"}, "seconds is no number"),
        ({"classes": ["normal"]}, "classes must be two names or more"),
        ({"counts": {"normal": 60}}, "counts has no good value for 'tumour'"),
    ],
)
def test_damaged_facts_are_one_line(tmp_path, changes, message):
    report_runs.write(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(changed(**changes)))
    refused(tmp_path, "run.json", message)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("features.csv", b"garbage", "its header has no column 'feature'"),
        ("features.csv", b"", "its header has no column 'feature'"),
        ("features.csv", ",".join(report_runs.FEATURES).encode(), "it has no rows"),
        ("features.csv", ",".join(report_runs.FEATURES).encode() + b"\ng,1,2", "line 2 and the header are not of one"),
        ("features.csv", ",".join(report_runs.FEATURES).encode() + b"\ng,x,2,3,4,5,6,7,", "line 2: could not convert"),
        ("labels.csv", "row,id,given\n1,é,u\n".encode("latin-1"), "'utf-8' codec can't decode"),
        ("labels.csv", b"row,id,given\n1,s,u\n", "its header has no column 'suggested'"),
        ("groups.csv", b"garbage\n", "its header has no column 'group'"),
        ("trace.csv", b"garbage\n", "its header has no column 'iteration'"),
        ("predictions.csv", b"given,predicted,p(normal)\n", "its header has no column 'p(tumour)'"),
        ("correlations.csv", b"a,b\n1,\xe9\n", "'utf-8' codec can't decode"),
        ("correlations.csv", b"a,b\n1,0\n", "it must be square"),
        ("run.json", b"\xe9", "'utf-8' codec can't decode"),
    ],
)
def test_damaged_tables_are_one_line(tmp_path, name, text, message):
    report_runs.write(tmp_path)
    (tmp_path / name).write_bytes(text)
    refused(tmp_path, name, message)


def refused(folder, name, message):
    """One line: the file, what is wrong, what to do."""
    with pytest.raises(ValueError, match=re.escape(f"{folder / name} is damaged: {message}")) as error:
        report.write(folder)
    assert "\n" not in str(error.value)
    assert str(error.value).endswith("Put it back as `dilutron fit` wrote it, or fit again.")
    assert not list(folder.glob("*report*")), "nothing half-written"


def test_paths_of_classes_in_lists(tmp_path):
    told = report_runs.facts(("a", "b", "c"))
    told["result"]["path"] = [told["result"]["path"]] * 3
    run = read(report_runs.write(tmp_path, told=told))
    assert {one.target for one in run.path} == {"a", "b", "c"}


def test_probabilities_are_never_certain():
    assert [percent(p) for p in (0.0, 0.004, 0.5, 0.994, 1.0)] == [
        "under 1\u00a0%", "under 1\u00a0%", "50\u00a0%", "over 99\u00a0%", "over 99\u00a0%",
    ]  # fmt: skip
    assert [measured(p) for p in (0.0, 0.9999, 1.0)] == ["0\u00a0%", "99.9\u00a0%", "100\u00a0%"]


def test_names_are_cut_by_the_room_they_take():
    assert clipped("short", 5) == "short"
    assert clipped("longer", 5) == "long…"
    assert fitted("絶対零度", 3.0) == "絶…"
    assert len(fitted("lowercase" * 9, 10.0)) > len(fitted("UPPERCASE" * 9, 10.0))
    assert clipped("a\n\tb", 9) == "a b"
    assert clipped("a\u202eb\x00", 9) == "a\ufffdb\ufffd"


def test_numbers_are_short():
    values = (0.0, -2.0, 0.25, 1e-6, -2.5e-7, 123456.0, 0.000723)
    minus = "\N{MINUS SIGN}"
    assert [number(v) for v in values] == ["0", f"{minus}2", "0.25", "10⁻⁶", f"{minus}2.5·10⁻⁷", "1.23·10⁵", "0.000723"]


@pytest.mark.parametrize("ends", [(0, 1), (-3.2, 3.2), (0, 1e-9), (-1e6, 5.0), (0.3, 0.31)])
def test_ticks_are_few_and_inside(ends):
    ticks = Scale(*ends, 0, 100).ticks()
    assert 2 <= len(ticks) <= 8
    assert min(ticks) >= ends[0] - 1e-12
    assert max(ticks) <= ends[1] * (1 + 1e-12)


def test_the_page_is_written_once_more_the_same(tmp_path):
    folder = report_runs.write(tmp_path)
    first = report.write(folder).read_bytes()
    assert report.write(folder).read_bytes() == first


def test_lines_that_could_not_be_told_apart_are_left_out(tmp_path):
    told = report_runs.facts([f"class {i}" for i in range(10)], n_rows=200)
    told["result"]["path"] = [
        {"class": name, "size": 2.0, "weight": 1.0, "status": "converged"} for name in told["classes"]
    ]
    page = page_of(tmp_path, told=told)
    assert page.said.count("6 of 10 classes are drawn.") == 3
    assert not page.faults


@pytest.mark.parametrize("n_features", [1, 2, 3])
def test_the_smallest_runs(tmp_path, n_features):
    told = report_runs.facts(n_features=n_features, n_rows=2)
    told["held_out"] |= {"auc": None, "auc_se": None, "log_loss": None}
    told["result"] |= {"n_features_likely": 1, "path": [], "eta": None}
    told["settings"] = {}
    page = page_of(tmp_path, told=told, inclusion=[0.9] * n_features)
    assert not page.faults
    assert "Too few samples of one class" in page.said


def test_columns_that_never_change_and_traces_of_one_step(tmp_path):
    folder = report_runs.write(tmp_path)
    (folder / "trace.csv").write_text("iteration,stage,mismatch\n1,direct,0\n2,direct,1e-5\n")
    rows = [report_runs.FEATURES, *([f"f{i}", 0.1, 0, 0, 0, 0, 0, 0, ""] for i in range(3))]
    with open(folder / "features.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    drawn = [svg["aria-labelledby"] for svg in Page(report.write(folder).read_text(encoding="utf-8")).all("svg")]
    assert len(drawn) == 7
    assert not any(name.startswith("trace") for name in drawn), "one point is no way"


def test_sizes_stand_at_the_top_of_the_trace(tmp_path, plain):
    def above(page):
        drawn = re.search(r'<svg[^>]*aria-labelledby="trace.*?</svg>', page.text, re.S).group()
        return re.findall(r'<text[^>]* y="40"[^>]*>([^<]*)<', drawn)

    assert above(plain) == ["5", "3"]
    folder = report_runs.write(tmp_path)
    (folder / "trace.csv").write_text("iteration,stage,mismatch\n1,direct,0.1\n2,direct,1e-5\n")
    assert above(Page(report.write(folder).read_text(encoding="utf-8"))) == [], "a file that does not say"


def test_the_area_of_the_answer_and_that_of_the_curve_are_told_apart(plain):
    """0.95 is the mean over folds in run.json; the curve is of all made-up predictions together."""
    caption = plain.said[plain.said.index("Each sample was predicted by a model") :][:700]
    drawn = re.search(r"; the curve drawn is of all folds together, and its area, (0\.\d+), is another", caption)
    assert "The area is 0.950 as a mean over the folds; " in caption
    assert drawn.group(1) != "0.950"


def test_beliefs_that_predictions_do_not_bear_out_are_called_so(tmp_path):
    said = page_of(tmp_path, told=changed(held_out__accuracy=0.45, held_out__auc=0.49), suspects=(1, 2)).said
    assert "What the model believes, and its predictions do not bear out: Nearly certain" in re.sub(r"\s+", " ", said)
    assert "expected to be listed by mistake" not in said
    assert "its doubts weigh little" in said


def test_an_unknown_error_is_no_small_one(tmp_path):
    said = page_of(tmp_path, told=changed(held_out__accuracy_se=None, held_out__auc_se=None)).said
    assert "better than guessing by more than two standard errors" not in said


@pytest.mark.parametrize(("settled", "told"), [(3, True), (5, False), (None, False)])
def test_folds_whose_fit_did_not_settle_are_told(tmp_path, settled, told):
    said = re.sub(r"\s+", " ", page_of(tmp_path, told=changed(held_out__converged=settled)).said)
    assert ("Not all held-out fits settled. 2 of 5 folds did not reach their tolerance" in said) is told
    assert ("Read with care" in said) is told

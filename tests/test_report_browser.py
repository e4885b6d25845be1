"""The report in a real browser: Debian's chromium, driven by Playwright; skipped where either is absent."""

import os
import shutil

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("playwright.sync_api", reason="needs playwright")

from playwright.sync_api import sync_playwright

from dilutron import report
from tests import report_runs
from tests.test_report import EVIL, EVIL_LABEL

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

N = 60
BROAD = ["W" * 40, "ENSG00000000003.14 TSPAN6", "絶対零度の遺伝子発現量の列"]
TALL = 900


@pytest.fixture(scope="module")
def browser():
    root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # the sandbox refuses root
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=root)
        yield started
        started.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    told = report_runs.facts((EVIL_LABEL, "ill"), n_features=N)
    names = [f"gene {i}" for i in range(N - 5)]
    folder = report_runs.write(
        tmp_path_factory.mktemp("run"),
        told=told,
        names=[EVIL, *BROAD, *names, "</script><script>alert(2)</script>"],
        suspects=(0, 5),
        groups=[[1, 0.97, 0.3, 0.8, 2, f"{EVIL}; gene 0"]],
    )
    return report.write(folder).as_uri()


@pytest.fixture
def opened(browser, address):
    """Open the page with some settings of the browser; at the end nothing was complained of, asked for or alerted."""
    faults, contexts = [], []

    def open_page(width=1280, **settings):
        contexts.append(browser.new_context(viewport={"width": width, "height": TALL}, **settings))
        page = contexts[-1].new_page()
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: request.url != address and faults.append(request.url))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []


def column(page, table, place):
    return page.locator(f"#table-{table} tbody tr > :nth-child({place})").all_inner_texts()


def test_it_opens_from_a_file(opened):
    page = opened()
    assert page.url.startswith("file://")
    assert page.title() == "patients.csv: dilutron report"
    assert page.locator("h1").inner_text() == f"Which features tell ill from {EVIL_LABEL}?"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark"), (320, "light")])
def test_nothing_sticks_out_sideways(opened, width, scheme):
    page = opened(width, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("svg").count() == 8
    for picture in page.locator("svg").all():
        box = picture.bounding_box()
        assert box["width"] > 250
        assert box["x"] + box["width"] <= width


def test_words_of_tables_are_whole_on_a_phone(opened):
    page = opened(390)
    lines = """(cell) => [...cell.childNodes].reduce((most, node) => {
        const range = document.createRange(); range.selectNode(node);
        return Math.max(most, range.getClientRects().length);
    }, 0)"""
    for cell in page.locator("#table-labels tbody td:nth-child(3)", has_text="ill").all():
        assert cell.evaluate(lines) == 1, "a short word is not cut"
    assert page.locator("#table-groups tbody tr").first.bounding_box()["height"] < 200
    for caption in page.locator("caption").all():
        box = caption.bounding_box()
        assert box["x"] + box["width"] <= 390


@pytest.mark.parametrize(
    "classes", [("W" * 60, "MONOCLONAL GAMMOPATHY OF UNKNOWN SIGNIFICANCE"), ("ILL ONE", "W" * 60, "%" * 9)]
)
def test_words_of_pictures_stay_inside_them(browser, tmp_path, classes):
    names = [*BROAD, *(f"GENE-{i:020d}" for i in range(27))]
    told = report_runs.facts(classes, n_features=30)
    page = browser.new_page()
    page.goto(report.write(report_runs.write(tmp_path, names=names, told=told)).as_uri())
    outside = page.evaluate("""() => [...document.querySelectorAll("svg")].flatMap(svg => {
        const edge = svg.getBoundingClientRect();
        return [...svg.querySelectorAll("text")].filter(text => {
            const box = text.getBoundingClientRect();
            return box.left < edge.left - 1 || box.right > edge.right + 1 || box.bottom > edge.bottom + 1;
        }).map(text => text.textContent);
    })""")
    page.close()
    assert outside == []


def test_tables_are_sorted_by_a_click_or_a_key(opened):
    page = opened()
    heading = page.locator("#table-features thead th").nth(1)
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    falling = [float(text) for text in column(page, "features", 2)]
    assert falling == sorted(falling, reverse=True)
    heading.locator("button").press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    rising = [float(text) for text in column(page, "features", 2)]
    assert rising == sorted(rising)
    assert rising[0] < falling[-1]
    page.locator("#table-features thead button").first.press("Space")
    names = [name for name in column(page, "features", 1) if name.startswith("gene")]
    assert names[:3] == ["gene 0", "gene 1", "gene 2"], "by number, not by letter"
    assert names.index("gene 10") == 10
    assert heading.get_attribute("aria-sort") == "none"


def test_tables_are_searched(opened):
    page = opened()
    search = page.locator("#table-features input")
    search.fill("gene 1")
    assert column(page, "features", 1) == ["gene 1", *(f"gene {i}" for i in range(10, 20))]
    assert page.locator("#table-features .place").inner_text() == "1 to 11 of 11"
    search.fill("no such gene")
    assert column(page, "features", 1) == []
    assert page.locator("#table-features .place").inner_text() == "Nothing found"
    search.fill("")
    assert len(column(page, "features", 1)) == 25


def test_tables_have_leaves(opened):
    page = opened()
    table = page.locator("#table-features")
    assert table.locator(".back").is_disabled()
    table.locator(".on").click()
    assert table.locator(".place").inner_text() == f"26 to 50 of {N}"
    table.locator(".on").click()
    assert table.locator(".on").is_disabled()
    assert len(column(page, "features", 1)) == N - 50
    table.locator(".back").click()
    assert table.locator(".place").inner_text() == f"26 to 50 of {N}"


def test_strings_of_the_file_stay_text(opened):
    page = opened()
    assert column(page, "features", 1)[0] == EVIL
    page.locator("#table-features input").fill("script")
    assert column(page, "features", 1) == [EVIL, "</script><script>alert(2)</script>"]
    assert EVIL in page.locator("#inclusion svg").inner_html().replace("&lt;", "<").replace("&gt;", ">")
    assert EVIL_LABEL in column(page, "labels", 3)
    assert page.locator("img").count() == 0
    assert page.locator("main script:not([type])").count() == 0


def test_it_can_be_read_without_scripts(opened):
    page = opened(java_script_enabled=False)
    assert len(column(page, "features", 1)) == 25
    assert page.locator(".controls:visible, .copy:visible").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_their_ground(opened, scheme):
    """Contrast of WCAG AA, 4.5, for text; of the signs, too."""
    page = opened(color_scheme=scheme)
    weak = page.evaluate("""() => {
        const light = (text) => {
            const parts = text.match(/[\\d.]+/g).slice(0, 3).map(Number).map(v => v / 255)
                .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
            return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
        };
        const ground = (node) => {
            for (; node; node = node.parentElement) {
                const colour = getComputedStyle(node).backgroundColor;
                if (!/, 0\\)$/.test(colour)) return colour;
            }
            return "rgb(255, 255, 255)";
        };
        return [...document.querySelectorAll("body *")].filter(node =>
            [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim())
            && node.checkVisibility() && !node.disabled).map(node => {
            const style = getComputedStyle(node);
            const ink = node.closest("svg") ? style.fill : style.color;
            const [a, b] = [light(ink), light(ground(node))].sort((x, y) => y - x);
            return [(a + 0.05) / (b + 0.05), node.tagName, node.className.baseVal ?? node.className];
        }).filter(([ratio, tag]) => ratio < 4.5 && !["title", "desc", "SCRIPT", "STYLE"].includes(tag));
    }""")
    assert weak == []


def test_every_control_is_reached_by_the_keyboard(opened):
    page = opened()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["x"] >= 0
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.tagName + '.' + document.activeElement.className"))
        assert page.evaluate("document.activeElement.matches(':focus-visible')")
        if "SUMMARY." in seen:
            break
    assert {"A.", "INPUT.", "BUTTON.", "BUTTON.on", "BUTTON.copy", "DIV.scroll", "SUMMARY."} <= seen


def test_controls_have_names(opened):
    page = opened()
    for control in page.locator("button:visible, input:visible, a:visible").all():
        assert control.evaluate("node => (node.labels?.[0] ?? node).textContent.trim()")


def test_it_is_printed_on_light_paper(opened):
    page = opened(color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator(".controls:visible, nav:visible, button:visible").count() == 0
    assert page.locator("#table-features thead").inner_text().split()[:2] == ["feature", "probability"]
    assert page.pdf().startswith(b"%PDF")


def test_the_method_is_copied(opened):
    page = opened(permissions=["clipboard-read", "clipboard-write"])
    page.locator("button[data-copy=method-text]").click()
    page.locator("text=Copied").wait_for()
    assert "Physical Review E 103" in page.evaluate("navigator.clipboard.readText()")

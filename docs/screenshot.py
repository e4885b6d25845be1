"""`python docs/screenshot.py` after `make demo`: the head of its report, for the README.

Needs playwright and an installed chromium, as the tests of the report do.
"""

import os
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

PAGE = Path("demo-run/run/report.html").absolute()
PICTURE = Path(__file__).parent / "figures" / "report.png"
ROOT = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []

with sync_playwright() as driver:
    browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=ROOT)
    page = browser.new_page(viewport={"width": 840, "height": 1000}, color_scheme="light")
    page.goto(PAGE.as_uri())
    page.screenshot(path=PICTURE)
    browser.close()
print(PICTURE, f"{PICTURE.stat().st_size / 1024:.0f} kB")

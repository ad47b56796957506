"""The pages build as a site, without a warning, the site needs no other host, and its drawings have a dark mode."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import click
import pytest
from playwright.sync_api import sync_playwright

from docs.site.promises import collect_tests
from docs.site.split_pages import LONG
from monitor import errors
from monitor.audit.live.metrics import AUDITOR_METRICS
from monitor.cli import main
from monitor.client.exporter import PUBLIC_METRICS
from monitor.observe.service_metrics import METRICS
from monitor.page.metrics import PAGE_METRICS
from tests.docs.conftest import ROOT, Document
from tests.page.browser import launch
from tests.page.conftest import require_chromium

pytestmark = pytest.mark.long

BUILD = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-n", "-j", "auto", "-c", "docs"]


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Run the command of `make docs` for a source folder."""
    words = [*BUILD, "-d", str(target / "doctrees"), str(source), str(target / "html")]
    return subprocess.run(words, cwd=source, capture_output=True, text=True, timeout=240, check=False)


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and writes no log."""

    def log_message(self, *_words: object) -> None:
        """Write nothing."""


def list_html(site: Path) -> list[Path]:
    """Return the pages of the site."""
    return [page for page in site.rglob("*.html") if "_static" not in page.parts]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once."""
    target = tmp_path_factory.mktemp("site")
    result = build(ROOT, target)
    assert result.returncode == 0, result.stderr
    return target / "html"


def test_every_page_is_built(site: Path) -> None:
    """Each page has a page of the site. A page that no group of `docs/conf.py` lists ends the build."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    assert len(pages) > 20
    for page in pages:
        assert (site / page.relative_to(ROOT).with_suffix(".html")).exists(), page


def test_every_picture_loads(site: Path) -> None:
    """Each picture of a page is a file of the site, also those that a page of the repository names in HTML."""
    found = {
        page: re.findall(r"<img[^>]+src=\"([^\"]+)\"", page.read_text(encoding="utf-8")) for page in list_html(site)
    }
    assert len(found[site / "README.html"]) >= 4
    assert sum(map(len, found.values())) >= 15
    for page, pictures in found.items():
        for picture in pictures:
            assert (page.parent / picture).stat().st_size > 0, page


def test_every_link_leads_somewhere(site: Path) -> None:
    """Each link between pages of the site leads to a page and to an element there, also in pages that were split."""
    texts = {page: page.read_text(encoding="utf-8") for page in list_html(site)}
    ids = {page: set(re.findall(r"\bid=\"([^\"]+)\"", text)) for page, text in texts.items()}
    checked = 0
    for page, text in texts.items():
        for link in re.findall(r"<a [^>]*href=\"([^\"]+)\"", text):
            path, _, anchor = unquote(html.unescape(link)).partition("#")
            target = Path(os.path.normpath(page.parent / path)) if path else page
            if ":" not in path and target.suffix == ".html":
                assert not anchor or anchor in ids[target], (page, link)
                checked += 1
    assert checked > 1_000


@pytest.mark.parametrize("page", LONG)
def test_long_page_is_split(site: Path, page: str) -> None:
    """Each section of a long page is a page of its own, which the first one lists."""
    sections = re.findall(
        r"^## ", Document(ROOT, (ROOT / f"{page}.md").read_text(encoding="utf-8")).prose, re.MULTILINE
    )
    pages = list((site / page).glob("*.html"))
    assert len(pages) == len(sections) > 1
    text = (site / f"{page}.html").read_text(encoding="utf-8")
    assert all(f'href="{Path(page).name}/{one.name}"' in text for one in pages)


def test_code_is_copied(site: Path) -> None:
    """The button of a block of code copies it as it is."""
    require_chromium()
    handler = partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sync_playwright() as playwright:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            browser = launch(playwright)
            context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
            tab = context.new_page()
            tab.goto(f"http://localhost:{server.server_port}/docs/how-to/one-host.html")
            block = tab.locator("div.highlight", has_text="OPERATOR=/etc/kafka/operator.properties").last
            block.hover()
            block.get_by_role("button", name="Copy").click()
            block.get_by_role("button", name="Copied").wait_for()
            copied = tab.evaluate("navigator.clipboard.readText()")
            browser.close()
        finally:
            server.shutdown()
            thread.join()
    assert copied == "PATH=$PATH:/opt/kafka/bin\nBROKER=$HOST:9094\nOPERATOR=/etc/kafka/operator.properties\n"


def test_promises_list_their_tests(site: Path) -> None:
    """The page of guarantees lists the tests of each promise."""
    text = re.sub(r"<[^>]+>", "", (site / "docs" / "guarantees.html").read_text(encoding="utf-8"))
    for tests in collect_tests(ROOT).values():
        assert all(test in text for test in tests)


def test_reference_is_complete(site: Path) -> None:
    """The reference has each option that a command's help shows, each error, and each metric."""
    text = html.unescape(re.sub(r"<[^>]+>", "", (site / "docs" / "reference.html").read_text(encoding="utf-8")))
    options = [each for command in main.commands.values() for each in command.params if isinstance(each, click.Option)]
    names = [max(option.opts, key=len) for option in options if not option.hidden]
    names += [name for name in dir(errors) if name.endswith("Error")]
    catalogs = (METRICS, AUDITOR_METRICS, PAGE_METRICS, PUBLIC_METRICS)
    names += [metric.exposed_name for catalog in catalogs for metric in catalog]
    assert [name for name in names if name not in text] == []


def test_site_needs_no_other_host(site: Path) -> None:
    """No page loads a script, a style, a font or a picture from another host."""
    loads = re.compile(
        r"<(?:script|img|source|iframe)[^>]+src=\"(?:https?:)?//|<link[^>]+stylesheet[^>]+href=\"(?:https?:)?//"
    )
    for page in site.rglob("*.html"):
        assert not loads.search(page.read_text(encoding="utf-8")), page
    for style in (site / "_static").rglob("*.css"):
        assert not re.search(r"(?:@import|url\()[\"' ]*(?:https?:)?//", style.read_text(encoding="utf-8")), style


def test_api_has_every_module(site: Path) -> None:
    """The reference describes the modules of the client and of the library."""
    text = (site / "docs" / "reference.html").read_text(encoding="utf-8")
    for package in ("client", "onesided"):
        for path in (ROOT / "monitor" / package).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            assert f'id="module-{name}"' in text, name


FOLDER: Final = ROOT / "docs" / "pictures"
DRAWINGS: Final = sorted(path for path in FOLDER.glob("*.svg") if path.name != "demo.svg")  # a dark terminal
RULE: Final = re.compile(r'\[(fill|stroke)="(#[0-9a-f]{6})"\] { \1: (#[0-9a-f]{6}) }')
READABLE: Final = 4.5
"""The contrast that WCAG 2.2 requires of text."""


def find_luminance(colour: str) -> float:
    """Return the relative luminance of a colour, as WCAG defines it."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def find_contrast(one: str, other: str) -> float:
    """Return the contrast of two colours."""
    low, high = sorted(map(find_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("path", DRAWINGS, ids=lambda path: path.name)
def test_drawing_has_a_dark_mode(path: Path) -> None:
    """Each colour of a drawing has a dark one, and its texts can be read on the dark ground."""
    style, _, drawing = path.read_text(encoding="utf-8").partition("</style>")
    assert "prefers-color-scheme: dark" in style
    dark = {(kind, colour): other for kind, colour, other in RULE.findall(style)}
    assert set(re.findall(r'\b(fill|stroke)="(#[0-9a-f]{6})"', drawing)) == dark.keys()
    ground = dark["fill", "#ffffff"]
    texts = set(re.findall(r'<(?:text|tspan)[^>]*fill="(#[0-9a-f]{6})"', drawing)) - {"#ffffff"}
    assert texts
    for colour in texts:
        assert find_contrast(dark["fill", colour], ground) >= READABLE, colour

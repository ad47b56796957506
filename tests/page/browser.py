"""Debian's Chromium, driven by playwright, and the checks that every visit of the page must pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Playwright, Request, expect
from playwright.sync_api import Page as Tab

from tests.page.conftest import CHROMIUM

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SECONDS = 30_000  # how long to wait for an element, in milliseconds; a busy machine takes seconds for a page


def launch(playwright: Playwright) -> Browser:
    """Start Chromium."""
    return playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))


class Visit:
    """A tab of a visitor. It collects errors of the console, and requests to other hosts."""

    def __init__(self, tab: Tab, url: str) -> None:
        self.tab, self.url = tab, url
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        tab.set_default_timeout(SECONDS)
        expect.set_options(timeout=SECONDS)
        tab.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        tab.on("pageerror", lambda error: self.errors.append(str(error)))
        tab.on("request", self._check_host)

    def _check_host(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.url).netloc:
            self.elsewhere.append(request.url)

    def open(self, file: str = "en.html") -> Visit:
        """Open the page, and wait until its script has drawn it."""
        self.tab.goto(f"{self.url}{file}")
        self.tab.wait_for_selector("html[data-ready]")
        return self

    def place(self, name: str) -> Locator:
        """Return the item of a place in the list."""
        return self.tab.locator("#list > li").filter(has=self.tab.get_by_text(name, exact=True))

    def state(self, name: str) -> Locator:
        """Return the word for the state of a place."""
        return self.place(name).locator(".state")

    def names(self) -> list[str]:
        """Return the names of the listed places."""
        return [text.strip() for text in self.tab.locator("#list .name").all_inner_texts()]

    def states(self) -> dict[str, str]:
        """Return the word for the state of each listed place."""
        words = self.tab.locator("#list .state").all_inner_texts()
        return dict(zip(self.names(), words, strict=True))

    def chip(self, name: str) -> Locator:
        """Return a button by a part of its name."""
        return self.tab.get_by_role("button", name=name)

    def violations(self) -> list[str]:
        """Return the violations that axe-core finds in the page, one line each."""
        found: list[dict[str, Any]] = Axe().run(self.tab).response["violations"]
        return [f"{one['id']}: {one['help']}: {[node['target'] for node in one['nodes']][:3]}" for one in found]


@contextmanager
def visit(browser: Browser, url: str, **context: Any) -> Iterator[Visit]:
    """Open a tab of a new visitor. At its end there must be no error in the console, and no request elsewhere."""
    settings: dict[str, Any] = {
        "viewport": {"width": 1280, "height": 900},
        "locale": "en-GB",
        "timezone_id": "UTC",
        "reduced_motion": "reduce",
    }
    opened = browser.new_context(**{**settings, **context})
    try:
        one = Visit(opened.new_page(), url)
        yield one
        assert one.errors == []
        assert one.elsewhere == []
    finally:
        opened.close()


def save(tab: Tab, file: Path) -> None:
    """Write a picture of the visible part of the page."""
    tab.evaluate("document.fonts.ready")
    tab.screenshot(path=file, animations="disabled")

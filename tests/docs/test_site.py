"""The pages build as a site, without a warning, and the site needs no other host."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from monitor import errors
from monitor.audit.live.metrics import AUDITOR_METRICS
from monitor.cli import main
from monitor.client.exporter import PUBLIC_METRICS
from monitor.observe.service_metrics import METRICS
from monitor.page.metrics import PAGE_METRICS
from tests.docs.conftest import ROOT
from tests.docs.guarantees import collect_tests

pytestmark = pytest.mark.long

BUILD = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-n", "-j", "auto", "-c", "docs"]


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Run the command of `make docs` for a source folder."""
    words = [*BUILD, "-d", str(target / "doctrees"), str(source), str(target / "html")]
    return subprocess.run(words, cwd=source, capture_output=True, text=True, timeout=240, check=False)


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

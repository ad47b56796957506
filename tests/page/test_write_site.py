"""What is written into the folder after a tick: only what has changed, and nothing is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pytest

from monitor.client.state_from_records import SubscriberView
from monitor.config.registry import Locations
from monitor.config.sections import PageSettings
from monitor.page.current_places import Present
from monitor.page.html import Html
from monitor.page.kept_records import Board
from monitor.page.languages import build_texts
from monitor.page.public_records import read_entries
from monitor.page.scripts_and_styles import read_static
from monitor.page.site_files import SiteFiles
from monitor.page.write_changed_files import Folder
from monitor.privacy.over_time import OverTimeRule
from monitor.time.clock import SteppedClock
from monitor.time.instants import DAY, MINUTE
from tests.builders import build_parameters, watch
from tests.client.records import REGISTRY, SLOTS, over_time
from tests.kit.signed import publish

SETUP: Final = {"timezone": "UTC"}
PROMISE: Final[dict[str, Any]] = {
    "exact": Fraction(1),
    "stated": "1",
    "worst": "1",
    "beliefs": [(1, 3), (5, 13), (10, 24)],
}
FOREVER: Final = float("inf")


class Recorded(Folder):
    """A folder that notes the places whose files it writes. While `full`, it cannot write the page of a place."""

    full = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.names: list[str] = []

    def write(self, name: str, content: bytes) -> bool:
        if self.full and name.startswith("places/") and name.endswith(".html"):
            raise OSError(28, "No space left on device")
        has_changed = super().write(name, content)
        self.names += [name] if has_changed and name.startswith("places/") else []
        return has_changed


@pytest.fixture
def folder(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path)


@pytest.fixture
def present() -> Present:
    rows = range(len(REGISTRY.ids))
    parameters = build_parameters(
        REGISTRY.ids, over_time=[watch("places", rows, OverTimeRule(Fraction(1), 1, 10, 5, 0))]
    )
    view = SubscriberView(REGISTRY)
    return Present(parameters, Locations(REGISTRY.ids), Board(DAY, 10**9), view, SteppedClock(0), MINUTE)


@pytest.fixture
def tick(folder: Recorded, present: Present) -> Callable[..., list[str]]:
    """A function that publishes a tick with these counts, writes all files, and returns those of places."""
    html, static = Html(build_texts(PageSettings()), SETUP, read_static(), PROMISE), read_static()
    files = SiteFiles(present, folder, html, static, None, None)

    def publish_tick(tick: int, without: str = "", **counts: int) -> list[str]:
        places = [place for place in REGISTRY.ids if place != without]
        entries, foreign = read_entries(publish([over_time(each, tick, counts.get(each, 0)) for each in places]))
        assert not foreign
        assert isinstance(present.clock, SteppedClock)
        present.clock.move_to(SLOTS.as_of(tick))
        files.forget_past(present.deliver(entries))
        folder.names = []
        assert files.write(FOREVER)
        return folder.names

    return publish_tick


def test_only_changes_are_written(tick: Callable[..., list[str]]) -> None:
    """At first all files are written; then those of a place only if its answer or its alarm changes."""
    assert sorted(tick(6)) == sorted(
        f"places/{place}.{kind}" for place in REGISTRY.ids for kind in ("atom", "html", "json")
    )
    assert tick(7) == []
    assert tick(8, market=12) == ["places/market.atom", "places/market.json", "places/market.html"]
    assert "places/market.json" in tick(9)
    assert not [name for name in tick(10) if "market" not in name]


def test_pages_stay_due(folder: Recorded, tick: Callable[..., list[str]]) -> None:
    """A page of a place that could not be written is written later, also if its history has not changed since."""
    folder.full = True
    with pytest.raises(OSError, match="No space"):
        tick(6)
    folder.full = False
    assert {f"places/{place}.html" for place in REGISTRY.ids} <= set(tick(7))


def test_place_that_returns_has_its_feed(folder: Recorded, present: Present, tick: Callable[..., list[str]]) -> None:
    """The files of a place that the configuration lacks are removed, and written again when it has the place again."""
    tick(6)
    whole, (gone, *others) = (present.parameters, present.locations), REGISTRY.ids
    present.use(build_parameters(others), Locations(others))
    tick(40, without=gone)  # by then nothing about the place counts any more
    assert not (folder.path / f"places/{gone}.atom").exists()
    present.use(*whole)
    assert f"places/{gone}.atom" in tick(41)

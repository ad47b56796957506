"""A place is added while the service, the page and the auditor run, in the order of docs/how-to/registry.md.

The new place is first in the registry, so that all row numbers change. One instance runs, with slots of four seconds.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from monitor.operate.servers import EmbeddedValkey
from tests.faults.conftest import MakeTown
from tests.faults.test_rolling import ANNEX, CHANGES, add_annex, is_ready, roll
from tests.faults.town import PLACES, FaultTown, Shape
from tests.kit.processes import Instance
from tests.kit.waiting import until
from tests.shared_kafka import SharedKafka

ANY_PORT: Final = {"auditor": {"port": 0}}
LATE_ANSWER: Final = "too_old"
"""The reason for which a place is unknown if an answer is late: the machine was busy, so it says nothing here."""


@pytest.fixture
def town(kafka: SharedKafka, store: EmbeddedValkey, make_town: MakeTown) -> FaultTown:
    """A town whose ticks are in two output partitions."""
    return make_town(kafka.bootstrap_servers, store.url, Shape(inputs=2, changes=CHANGES | ANY_PORT))


def hand_over(town: FaultTown, folder: Path) -> None:
    """Write a configuration and its registry to a folder, in place of those that are there."""
    folder.mkdir(parents=True, exist_ok=True)
    registry, tree = town.settings.config.locations.file, town.tree
    (folder / "locations.csv").write_text(registry.read_text())
    (folder / "city.yaml").write_text(yaml.safe_dump(tree | {"locations": {"file": "locations.csv"}}))


def read_places(page: Instance) -> dict[str, Any]:
    """Return the places that the page shows, by id; none before it listens."""
    assert page.code is None, page.text
    text = page.page("/places.json")
    return {place["id"]: place for place in json.loads(text)["locations"]} if text.startswith("{") else {}


def find_unknown(page: Instance) -> set[tuple[str, str]]:
    """Return each place of both registries that the page does not know now, with the reason."""
    places = read_places(page)
    gone = {(place, "not shown") for place in PLACES if places and place not in places}
    unknown = {(place, at["reason"]) for place, at in places.items() if place in PLACES and at["state"] == "unknown"}
    return gone | {(place, reason) for place, reason in unknown if reason != LATE_ANSWER}


def knows(page: Instance, *wanted: str) -> bool:
    """Return whether the page shows an answer about each of these places."""
    places = read_places(page)
    return all(place in places and places[place]["state"] != "unknown" for place in wanted)


@contextmanager
def watch(page: Instance) -> Iterator[set[tuple[str, str]]]:
    """Collect what `find_unknown` returns, again and again, and at last once more."""
    found, stop = set[tuple[str, str]](), threading.Event()

    def work() -> None:
        while not stop.wait(0.2):
            found.update(find_unknown(page))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join()
    found.update(find_unknown(page))


def count(auditor: Instance, metric: str) -> float:
    """Return the sum of the auditor's series whose name and labels match a pattern.

    Raises:
        AssertionError: there is no such series.
    """
    values = re.findall(rf"^location_monitor_audit_{metric} (\S+)$", auditor.page(), re.MULTILINE)
    assert values, auditor.text
    return sum(map(float, values))


def count_ticks(auditor: Instance, outcome: str) -> float:
    """Return how many ticks have an outcome."""
    return count(auditor, rf'ticks_total\{{outcome="{outcome}"\}}')


@pytest.mark.promise(39)
def test_added_place_alarms_nobody(town: FaultTown, tmp_path: Path) -> None:
    """No place becomes unknown on the page, the auditor has no finding and judges all ticks once it has the files.

    service   old  ├─────────────────────────┤
              new              ├ ready, waits ├──────────────────────────────────────
    page           ├── old ──┼ new files ────────────────────────────────────────────
    auditor        ├── old, proven ───────────┼ unjudged ──┼ new files: all is proven
    """
    old, new = town, add_annex(town)
    hand_over(old, tmp_path / "page")
    hand_over(old, tmp_path / "auditor" / "1")
    running = old.start()  # before the others: what is older than a window when it starts is not read
    town.subscriber.wait_complete(90)
    page = town.start_command(tmp_path / "page" / "city.yaml", "page", "--serve", "localhost:0")
    auditor = town.start_command(tmp_path / "auditor", "audit", "--follow")
    until(lambda: knows(page, *PLACES), 60, "the page knows every place")
    until(lambda: is_ready(auditor), 60, "the auditor has judged everything")
    with watch(page) as unknown:
        hand_over(new, tmp_path / "page")
        until(lambda: ANNEX in read_places(page), 60, "the page has read its files again")
        (updated,) = roll([running], new)
        until(lambda: knows(page, ANNEX), 60, "the page has an answer about the new place")
        until(lambda: count_ticks(auditor, "unjudged") > 0, 60, "the auditor lacks the configuration in force")
        assert count(auditor, r"findings_total\{.*\}") == 0
        proven = count_ticks(auditor, "proven")
        hand_over(new, tmp_path / "auditor" / "2")
        until(lambda: count_ticks(auditor, "proven") > proven and is_ready(auditor), 60, "the auditor judges again")
        until(lambda: knows(page, ANNEX, *PLACES), 60, "the page knows every place")
    assert unknown == set()
    assert count(auditor, r"findings_total\{.*\}") == 0
    assert count_ticks(auditor, "unjudged") == 0
    assert [page.terminate(), auditor.terminate(), updated.terminate()] == [0, 0, 0]

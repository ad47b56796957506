"""Places are added and removed while the page runs: it reads the files again, and no other place is unknown."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from monitor.client.state_from_records import SubscriberView
from monitor.config.registry import Locations
from monitor.config.valid_config import load_valid_config
from monitor.kinds.locations import Registry
from monitor.kinds.parameters import Parameters
from monitor.page.current_places import Present
from monitor.page.kept_records import Board
from monitor.page.public_records import read_entries
from monitor.page.run_page import ConfigUpdates, Target, page_command
from monitor.time.clock import SteppedClock
from monitor.time.instants import DAY
from tests.builders import build_parameters
from tests.client.records import REGISTRY, RULE, SLOTS, over_time
from tests.conftest import Eventually
from tests.kit.signed import publish
from tests.page.conftest import OpenPage, Served
from tests.page.world import FIRST, Town

NOON = FIRST + 12


def read_states(page: Served) -> dict[str, str]:
    """Return the state of each place that the page shows."""
    return {place["id"]: place["state"] for place in page.list_places().values()}


def add_place(folder: Path) -> None:
    """Add the pool to the registry, which only the monitor of designated times answers about."""
    with (folder / "demo-locations.csv").open("a", encoding="utf-8") as file:
        file.write("pool,Pool,,,\n")


def test_changed_places_hide_no_other(town: Town, open_page: OpenPage, tmp_path: Path, eventually: Eventually) -> None:
    """While a place is added or removed, no other one is unknown, before and after the service has the same places."""
    valid = load_valid_config(tmp_path / "demo.yaml", {})
    updates = ConfigUpdates(tmp_path / "demo.yaml", {}, valid)
    for tick in (NOON - 1, NOON):
        town.publish(tick)
    page = open_page(town)
    before = read_states(page)
    assert set(before.values()) == {"safe"}
    assert updates.read() is None
    add_place(tmp_path)
    changed = eventually(updates.read)
    page.page.use(changed)
    assert eventually(lambda: read_states(page).get("pool")) == "unknown"
    assert read_states(page) == before | {"pool": "unknown"}
    town.publish(NOON + 1)  # the service does not have the place yet
    eventually(lambda: page.read_json("places.json")["as_of"] == "2026-01-06T14:00:00Z")
    assert read_states(page) == before | {"pool": "unknown"}
    town.parts = replace(town.parts, parameters=changed.parameters)
    town.publish(NOON + 2)
    eventually(lambda: read_states(page)["pool"] == "safe")
    assert read_states(page) == before | {"pool": "safe"}
    registry = page.read_json("registry.json")
    assert registry["digest"] == changed.parameters.registry.digest
    assert registry["earlier"] == [{"digest": valid.parameters.registry.digest, "lacks": [len(before)]}]
    history = eventually(lambda: page.read_json("places/market.json")["history"])
    assert {period["state"] for period in history} == {"safe"}
    file = tmp_path / "demo-locations.csv"
    file.write_text(file.read_text().replace("bus-library,Library on Wheels,,,library\n", ""))
    removed = eventually(updates.read)
    page.page.use(removed)
    town.publish(NOON + 3)  # the service still has the place, or refuses the change
    eventually(lambda: page.read_json("places.json")["as_of"] == "2026-01-06T16:00:00Z")
    assert read_states(page) == before | {"pool": "safe"}
    town.parts = replace(town.parts, parameters=removed.parameters)
    town.publish(NOON + 4)
    eventually(lambda: "bus-library" not in read_states(page))
    assert set(read_states(page).values()) == {"safe"}
    gone = page.page.folder.path / "places/bus-library.json"
    eventually(lambda: not gone.exists() and not gone.with_suffix(".json.gz").exists())


def make_parameters(registry: Registry) -> tuple[Parameters, Locations]:
    """Return the parameters of a town with these places, and the places."""
    return replace(build_parameters(registry.ids), registry=registry, grid=SLOTS), Locations(registry.ids)


def test_removed_place_stays_while_it_counts() -> None:
    """A place that a changed configuration lacks stays until its last answer has expired, and its alarm has ended.

    The service may refuse the change: then an alarm of its old configuration stays in sight.
    """
    clock, changed = SteppedClock(SLOTS.as_of(5)), Registry(("school", "pool"), REGISTRY.shards)
    view = SubscriberView(REGISTRY)
    present = Present(*make_parameters(REGISTRY), Board(7 * DAY, 10**9), view, clock, 30 * DAY, real_clock=clock)

    def list_levels() -> dict[str, str]:
        snapshot = present.read()
        assert snapshot.registry == present.shown.digest
        assert [place.location.id for place in snapshot.places] == [*present.locations.ids] == [*present.shown.ids]
        return {place.location.id: place.level for place in snapshot.places}

    entries, _foreign = read_entries(publish([over_time("market", 5, 12), over_time("park", 5, 0)]))
    present.deliver(entries)
    first = {"market": "noisy_count", "park": "safe", "school": "unknown", "clinic": "unknown"}
    assert list_levels() == first
    present.use(*make_parameters(changed))
    now = {"school": "unknown", "pool": "unknown"}
    assert list_levels() == now | {"market": "noisy_count", "park": "safe"}
    assert [one.digest for one in present.earlier] == [changed.digest, REGISTRY.digest]
    clock.move_to(SLOTS.as_of(8))
    assert list_levels() == now | {"market": "noisy_count"}
    clock.move_to(SLOTS.as_of(5 + RULE.mark_lifetime + 2))
    assert list_levels() == now
    assert (present.shown, [one.digest for one in present.earlier]) == (changed, [REGISTRY.digest])


def test_rollback_shows_the_places_as_before() -> None:
    """After a rollback the places are those of before, in their order."""
    clock, view = SteppedClock(SLOTS.as_of(5)), SubscriberView(REGISTRY)
    present = Present(*make_parameters(REGISTRY), Board(7 * DAY, 10**9), view, clock, 30 * DAY, real_clock=clock)
    entries, _foreign = read_entries(publish([over_time("market", 5, 0)]))
    present.deliver(entries)
    before = present.read()
    for registry in (Registry(("pool",), REGISTRY.shards), REGISTRY):
        present.use(*make_parameters(registry))
        after = present.read()
    assert (after.places, after.registry) == (before.places, before.registry)


def test_unusable_configuration_changes_nothing(tmp_path: Path, town: Town, caplog: pytest.LogCaptureFixture) -> None:
    """A changed configuration that is wrong, or that needs another start, is named once."""
    del town  # it writes the files
    config = tmp_path / "demo.yaml"
    text = config.read_text()
    valid = load_valid_config(config, {})
    updates = ConfigUpdates(config, {}, valid)
    wrong = {
        "clock: {": "cannot be used",
        text.replace("slot: 1h", "slot: 30m"): "clock was changed",
    }
    for other, said in wrong.items():
        caplog.clear()
        config.write_text(other)
        assert [updates.read() for _ in range(4)] == [None] * 4
        assert len(caplog.messages) == 1
        assert said in caplog.text
    assert updates.valid is valid
    config.write_text(text.replace("background: demo-map.geojson", "title: Town"))
    assert [found is not None for found in (updates.read(), updates.read(), updates.read())] == [False, True, False]
    assert "page or kafka was changed" in caplog.text


def test_command_follows_its_files(town: Town, tmp_path: Path, eventually: Eventually) -> None:
    """`location-monitor page` writes the changed registry without a restart."""
    stop, out = threading.Event(), tmp_path / "out"
    target, lines = Target(out), list[str]()
    command = threading.Thread(
        target=page_command, args=(tmp_path / "demo.yaml", town.environment, target, stop, nullcontext, lines.append)
    )
    command.start()
    try:
        registry = out / "registry.json"
        eventually(registry.exists)
        assert b'"pool"' not in registry.read_bytes()
        add_place(tmp_path)
        eventually(lambda: b'"pool"' in registry.read_bytes())
    finally:
        stop.set()
        command.join()
    assert lines == [f"The page is in {out}"]

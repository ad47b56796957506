"""Rolling updates of the configuration while visits flow: no tick is missed and no answer becomes unknown.

Slots of four seconds. The new configuration watches one more place of its registry. It needs other facts, which it
reads in a separate group while the old configuration answers.
"""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import pytest

from monitor.kafka.groups import list_groups
from monitor.operate.servers import EmbeddedValkey
from tests.faults.conftest import MakeTown
from tests.faults.oracles import settle
from tests.faults.town import PLACES, FaultTown, Shape
from tests.kit.processes import Instance
from tests.kit.topics import read_topic
from tests.kit.waiting import until
from tests.shared_kafka import SharedKafka

ANNEX: Final = "annex"
CHANGES: Final = {
    "clock": {"slot": "4s", "origin": "2026-01-01T00:00:00Z", "release_delay": "1900ms", "tolerance": "100ms"},
    "visits": {"default_stay": "1s", "accept_ahead": "4s", "person_key_file": "person.key"},
}


@pytest.fixture
def town(request: pytest.FixtureRequest, kafka: SharedKafka, store: EmbeddedValkey, make_town: MakeTown) -> FaultTown:
    """A town with as many or fewer partitions of either topic than instances."""
    shape = Shape(inputs=2, ledger_partitions=request.param, changes=CHANGES)
    return make_town(kafka.bootstrap_servers, store.url, shape)


def add_annex(town: FaultTown) -> FaultTown:
    """Return the town with one more watched place, first in the registry, so that all row numbers change."""
    tree = copy.deepcopy(town.tree)
    registry = town.folder / "annexed.csv"
    registry.write_text("location_id\n" + "\n".join((ANNEX, *PLACES)) + "\n")
    tree["locations"]["file"] = registry.name
    edges = next(monitor for monitor in tree["monitors"] if monitor["name"] == "edges")
    edges["locations"] = [*edges["locations"], ANNEX]
    edges["epsilon"] = str(40 * len(edges["locations"]))
    return town.change("annexed", tree)


def is_ready(instance: Instance) -> bool:
    """Return whether an instance reports that it is ready."""
    assert instance.code is None, instance.text
    page = instance.page("/readyz")
    return bool(page) and bool(json.loads(page)["ok"])


def roll(leaving: Sequence[Instance], town: FaultTown) -> list[Instance]:
    """Replace instances as Kubernetes does: stop an old one once a new one is ready. Return the new instances."""
    started = []
    for old in leaving:
        new = town.start()
        until(lambda new=new: is_ready(new), 60, "the new instance is ready")  # type: ignore[misc]
        assert old.terminate() == 0
        started.append(new)
    return started


def find_annex_ticks(town: FaultTown) -> list[int]:
    """Return the ticks with an answer about the annex, which only the new configuration publishes."""
    return [value["tick"] for value in list(town.subscriber.values) if is_of_annex(value)]


def is_of_annex(value: dict[str, Any]) -> bool:
    return bool(value["kind"] == "over_time" and value["location_id"] == ANNEX)


def find_missed(town: FaultTown, since: int) -> Iterator[str]:
    """Yield a finding per gap between the ticks of a ledger partition and per "unknown", from tick `since` on."""
    ticks: dict[int, set[int]] = defaultdict(set)
    for record in read_topic(town.servers, town.topics.alerts, "read_committed"):
        value = json.loads(record.value)
        if value.get("tick", -1) >= since:
            ticks[record.partition].add(value["tick"])
            if value.get("status") == "unknown":
                yield f"tick {value['tick']}, partition {record.partition}: {value['monitor']} is unknown"
    for partition in range(town.shape.ledger_partitions):
        present = sorted(ticks[partition])
        if not present or present[0] != since:
            yield f"partition {partition}: no record of tick {since}"
        for before, after in pairwise(present):
            if after > before + 1:
                yield f"partition {partition}: no record between the ticks {before} and {after}"


@pytest.mark.promise(39)
@pytest.mark.parametrize("town", [pytest.param(1, marks=pytest.mark.soak), 2], indirect=True)
def test_updates_miss_no_tick(town: FaultTown) -> None:
    """An update, and rollbacks during and after it, miss no tick and publish no "unknown".

    Old instances answer until the last has left. The old facts are still there for a rollback.

    old   ├──────┤                        ├ ready ───┤
    old   ├────────────────────────┤
    new       ├ ready, waits ┤ kill -9
    old                       ├ ready ┤
    new                          ├ ready, waits ├────┼──────┤
    new                            ├ ready           …
    """
    old, new = town, add_annex(town)
    running = [old.start() for _ in range(2)]
    first_tick = town.subscriber.wait_complete(90)
    (coming,) = roll(running[:1], new)
    coming.kill()
    back = old.start()
    until(lambda: is_ready(back), 60, "the restarted instance is ready")
    town.subscriber.wait_new()
    assert not find_annex_ticks(town)
    updated = roll([running[1], back], new)
    until(lambda: find_annex_ticks(town), 30, "the new configuration answers")
    assert any("instances with another configuration or another person" in one.text for one in updated)
    first, last = roll(updated, old)
    town.subscriber.wait_tick(max(find_annex_ticks(town)) + 1)
    assert first.terminate() == 0
    verdict = settle(old, last, new)
    assert verdict.broken == []
    assert list(find_missed(town, first_tick)) == []
    assert not any("are lost" in instance.text for instance in town.instances)


@pytest.mark.promise(39)
@pytest.mark.parametrize("town", [2], indirect=True)
def test_recreate_update_takes_over(town: FaultTown) -> None:
    """If all instances stop before a new one starts, the new one takes over once its facts are complete.

    This is Kubernetes's strategy Recreate. Ticks may be lost meanwhile, but no promise is broken.

    old   ├────────┤ SIGTERM
    old   ├────────┤ kill -9: it stays in its groups until its session ends
    new                ├ reads ├────
    """
    old, new = town, add_annex(town)
    ended, killed = old.start(), old.start()
    town.subscriber.wait_complete(90)
    assert ended.terminate() == 0
    killed.kill()
    started = new.start()
    town.subscriber.wait_complete(90)
    assert settle(new, started, old).broken == []
    assert find_annex_ticks(town)
    groups = list_groups(old.settings.kafka, old.name)
    assert len(groups) == 3  # one per configuration, and the release group
    assert f"{old.name}-release" in groups

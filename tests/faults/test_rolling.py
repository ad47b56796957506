"""Rolling updates of the configuration while visits flow: no tick is missed and no answer becomes unknown.

A town of three instances with slots of four seconds. The new configuration watches one more place of its registry. It
needs other facts, which it reads in a separate group while the old configuration answers.
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
from monitor.tools.servers import EmbeddedValkey
from tests.faults.conftest import MakeScene, Scene
from tests.faults.town import PLACES, Shape
from tests.faults.versions import Version, change_configuration, settle
from tests.kit.processes import Instance
from tests.kit.topics import read_topic
from tests.kit.waiting import until
from tests.shared_kafka import SharedKafka

ANNEX: Final = "annex"
CHANGES: Final = {
    "clock": {"slot": "4s", "origin": "2026-01-01T00:00:00Z", "release_delay": "1500ms", "tolerance": "100ms"},
    "visits": {"default_stay": "1s", "accept_ahead": "4s", "person_key_file": "person.key"},
}
REPLICAS: Final = 3


ONE, TWO = "one output partition", "two output partitions"
BOTH: Final = pytest.mark.parametrize("scene", [1, 2], ids=[ONE, TWO], indirect=True)
ONE_IN_SOAK: Final = pytest.mark.parametrize(
    "scene", [pytest.param(1, marks=pytest.mark.soak, id=ONE), pytest.param(2, id=TWO)], indirect=True
)


@pytest.fixture
def scene(request: pytest.FixtureRequest, kafka: SharedKafka, store: EmbeddedValkey, make_scene: MakeScene) -> Scene:
    """A town with fewer partitions of either topic than instances."""
    return make_scene(
        kafka.bootstrap_servers, store.url, Shape(inputs=2, ledger_partitions=request.param, changes=CHANGES)
    )


def add_annex(scene: Scene) -> Version:
    """Return a version with one more watched place, first in the registry, so that all row numbers change."""
    tree = copy.deepcopy(scene.town.tree)
    registry = scene.town.folder / "annexed.csv"
    registry.write_text("location_id\n" + "\n".join((ANNEX, *PLACES)) + "\n")
    tree["locations"]["file"] = registry.name
    edges = next(monitor for monitor in tree["monitors"] if monitor["name"] == "edges")
    edges["locations"] = [*edges["locations"], ANNEX]
    edges["epsilon"] = str(40 * len(edges["locations"]))
    return change_configuration(scene.town, "annexed", tree)


def start_all(scene: Scene, version: Version, replicas: int = REPLICAS) -> int:
    """Start instances, wait for a tick without "unknown", and return this tick."""
    for _ in range(replicas):
        version.start()
    return scene.subscriber.wait_complete(90)


def is_ready(instance: Instance) -> bool:
    """Return whether an instance reports that it is ready."""
    assert instance.code is None, instance.text
    page = instance.page("/readyz")
    return bool(page) and bool(json.loads(page)["ok"])


def roll(leaving: Sequence[Instance], version: Version) -> list[Instance]:
    """Replace instances as Kubernetes does: stop an old one once a new one is ready. Return the new instances."""
    started = []
    for old in leaving:
        new = version.start()
        until(lambda new=new: is_ready(new), 60, "the new instance is ready")  # type: ignore[misc]
        assert old.terminate() == 0
        started.append(new)
    return started


def find_annex_ticks(scene: Scene, above: int = -1) -> list[int]:
    """Return the ticks above a given one with an answer about the annex, which only the new configuration publishes."""
    return [value["tick"] for value in list(scene.subscriber.values) if is_of_annex(value) and value["tick"] > above]


def is_of_annex(value: dict[str, Any]) -> bool:
    return bool(value["kind"] == "over_time" and value["location_id"] == ANNEX)


def find_missed(scene: Scene, since: int) -> Iterator[str]:
    """Yield a finding per gap between the ticks of a ledger partition and per "unknown", from tick `since` on."""
    town = scene.town
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


def stop_others(version: Version, staying: Instance) -> None:
    """Stop all other instances of a version."""
    for instance in version.instances:
        if instance is not staying and instance.code is None:
            assert instance.terminate() == 0


@pytest.mark.promise(39)
@BOTH
def test_rolling_update_misses_no_tick(scene: Scene) -> None:
    """A rolling update misses no tick and publishes no "unknown": old instances answer until the last has left.

    old   ├──────────────────┤
    old   ├────────────────────────┤
    old   ├──────────────────────────────┤
    new              ├ ready, waits      ├──────
    new                    ├ ready       ├──────
    new                          ├ ready ├──────
    """
    old, new = Version(scene.town), add_annex(scene)
    first_tick = start_all(scene, old)
    coming = roll(old.instances, new)
    until(lambda: find_annex_ticks(scene), 30, "the new configuration answers")
    scene.subscriber.wait_new()
    stop_others(new, coming[-1])
    ledger, broken = settle(scene, [old, new])
    assert broken == []
    assert list(find_missed(scene, first_tick)) == []
    assert max(ledger.ticks(0)) <= min(ledger.ticks(1))
    assert not any("are lost" in instance.text for instance in (*old.instances, *new.instances))
    assert any("instances with another configuration or another person" in instance.text for instance in new.instances)


@pytest.mark.promise(39)
@ONE_IN_SOAK
def test_rollback_during_update_misses_no_tick(scene: Scene) -> None:
    """A rollback in the middle of an update misses no tick and publishes no "unknown".

    The first new instance is killed once it is ready, and has published nothing.

    old   ├───────────────┤
    old   ├──────────────────────────────────
    new        ├ ready, waits ├ kill -9
    old                         ├ ready ├────
    """
    old, new = Version(scene.town), add_annex(scene)
    first_tick = start_all(scene, old, 2)
    (coming,) = roll(old.instances[:1], new)
    coming.kill()
    back = old.start()
    until(lambda: is_ready(back), 60, "the restarted instance is ready")
    scene.subscriber.wait_new()
    stop_others(old, back)
    _ledger, broken = settle(scene, [new, old])
    assert broken == []
    assert list(find_missed(scene, first_tick)) == []
    assert not find_annex_ticks(scene)


@pytest.mark.promise(39)
@ONE_IN_SOAK
def test_rollback_after_update_misses_no_tick(scene: Scene) -> None:
    """A rollback after an update misses no tick and publishes no "unknown", since the old facts are still there.

    old   ├────────┤            ├ ready, waits ├────
    new      ├ ready ├─────────────────────────┤
    """
    old, new = Version(scene.town), add_annex(scene)
    first_tick = start_all(scene, old, 1)
    (coming,) = roll(old.instances[:1], new)
    until(lambda: find_annex_ticks(scene), 30, "the new configuration answers")
    (back,) = roll([coming], old)
    last = max(find_annex_ticks(scene))
    scene.subscriber.wait_tick(last + 1)
    ledger, broken = settle(scene, [new, old])
    assert broken == []
    assert list(find_missed(scene, first_tick)) == []
    assert ledger.ticks(0)
    assert back.code == 0


@pytest.mark.promise(39)
@ONE_IN_SOAK
def test_recreate_update_takes_over(
    scene: Scene,
) -> None:
    """If all instances stop before a new one starts, the new one takes over once its facts are complete.

    This is Kubernetes's strategy Recreate. Ticks may be lost meanwhile, but no promise is broken.

    old   ├────────┤ SIGTERM
    old   ├────────┤ kill -9: it stays in its groups until its session ends
    new                ├ reads ├────
    """
    old, new = Version(scene.town), add_annex(scene)
    start_all(scene, old, 2)
    ended, killed = old.instances
    assert ended.terminate() == 0
    killed.kill()
    new.start()
    start_all(scene, new, 1)
    stop_others(new, new.instances[-1])
    _ledger, broken = settle(scene, [old, new])
    assert broken == []
    assert find_annex_ticks(scene)
    groups = list_groups(scene.town.settings.kafka, scene.town.name)
    assert len(groups) == 3  # one per configuration, and the release group
    assert f"{scene.town.name}-release" in groups

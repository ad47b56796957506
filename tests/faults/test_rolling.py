"""A configuration changes while visits flow, as operators do it: nothing is missed and nothing becomes unknown.

A town of three instances in slots of four seconds. The new configuration has a place more in its registry, and watches
it: other facts, which it reads in a group of its own beside the old ones.
"""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import pytest

from monitor.brokers.groups import list_groups
from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey
from tests.faults.conftest import MakeScene, Scene
from tests.faults.processes import Instance, until
from tests.faults.reading import read_topic
from tests.faults.town import ORIGIN, PLACES, Shape
from tests.faults.versions import Version, changed, settle

ANNEX: Final = "annex"
CHANGES: Final = {
    "clock": {"slot": "4s", "origin": ORIGIN, "release_delay": "1500ms", "tolerance": "100ms"},
    "visits": {"default_stay": "1s", "accept_ahead": "4s", "person_key_file": "person.key"},
}
REPLICAS: Final = 3


ONE, TWO = "one output partition", "two output partitions"
BOTH: Final = pytest.mark.parametrize("scene", [1, 2], ids=[ONE, TWO], indirect=True)
ONE_IN_SOAK: Final = pytest.mark.parametrize(
    "scene", [pytest.param(1, marks=pytest.mark.soak, id=ONE), pytest.param(2, id=TWO)], indirect=True
)


@pytest.fixture
def scene(request: pytest.FixtureRequest, kafka: EmbeddedKafka, store: EmbeddedValkey, make_scene: MakeScene) -> Scene:
    """A town with fewer partitions of either topic than instances."""
    return make_scene(
        kafka.bootstrap_servers, store.url, Shape(inputs=2, ledger_partitions=request.param, changes=CHANGES)
    )


def with_annex(scene: Scene) -> Version:
    """A place more, in front of the registry, so that all rows are others; it is watched with the ε of its like."""
    tree = copy.deepcopy(scene.town.tree)
    registry = scene.town.folder / "annexed.csv"
    registry.write_text("location_id\n" + "\n".join((ANNEX, *PLACES)) + "\n")
    tree["locations"]["file"] = registry.name
    edges = next(found for found in tree["monitors"] if found["name"] == "edges")
    edges["locations"] = [*edges["locations"], ANNEX]
    edges["epsilon"] = str(40 * len(edges["locations"]))
    return changed(scene.town, "annexed", tree)


def started(scene: Scene, version: Version, replicas: int = REPLICAS) -> int:
    """Start so many instances, and wait until all answers are known; the first tick whose answers all are."""
    for _ in range(replicas):
        version.start()
    return scene.subscriber.wait_whole(90)


def ready(instance: Instance) -> bool:
    """Whether it says so."""
    assert instance.code is None, instance.text
    page = instance.page("/readyz")
    return bool(page) and bool(json.loads(page)["ok"])


def roll(leaving: Sequence[Instance], version: Version) -> list[Instance]:
    """As Kubernetes does it: a new instance starts, and once it is ready an old one ends. The new ones."""
    coming = []
    for old in leaving:
        new = version.start()
        until(lambda new=new: ready(new), 60, "the new instance is ready")  # type: ignore[misc]
        assert old.terminate() == 0
        coming.append(new)
    return coming


def said_of_annex(scene: Scene, above: int = -1) -> list[int]:
    """The ticks above a given one at which the annex was answered, which only the new configuration does."""
    return [value["tick"] for value in list(scene.subscriber.values) if is_of_annex(value) and value["tick"] > above]


def is_of_annex(value: dict[str, Any]) -> bool:
    return bool(value["kind"] == "over_time" and value["location_id"] == ANNEX)


def missed(scene: Scene, since: int) -> Iterator[str]:
    """The ticks that an output partition has no record of, and the answers that are unknown, from a tick on."""
    town = scene.town
    ticks: dict[int, set[int]] = defaultdict(set)
    for record in read_topic(town.servers, town.topics.alerts, "read_committed"):
        value = json.loads(record.value)
        if value.get("tick", -1) >= since:
            ticks[record.partition].add(value["tick"])
            if value.get("status") == "unknown":
                yield f"tick {value['tick']}, partition {record.partition}: {value['monitor']} is unknown"
    for partition in range(town.shape.ledger_partitions):
        found = sorted(ticks[partition])
        if not found or found[0] != since:
            yield f"partition {partition}: nothing of tick {since}"
        for before, after in pairwise(found):
            if after > before + 1:
                yield f"partition {partition}: nothing between the ticks {before} and {after}"


def alone(version: Version, staying: Instance) -> None:
    """End all other instances of a version."""
    for instance in version.instances:
        if instance is not staying and instance.code is None:
            assert instance.terminate() == 0


@BOTH
def test_a_rolling_update_misses_no_tick_and_says_no_unknown(scene: Scene) -> None:
    """The promise itself. The old ones answer until the last of them has left.

    old   ├──────────────────┤
    old   ├────────────────────────┤
    old   ├──────────────────────────────┤
    new              ├ ready, waits      ├──────
    new                    ├ ready       ├──────
    new                          ├ ready ├──────
    """
    old, new = Version(scene.town), with_annex(scene)
    whole = started(scene, old)
    coming = roll(old.instances, new)
    until(lambda: said_of_annex(scene), 30, "the new configuration answers")
    scene.subscriber.wait_new()
    alone(new, coming[-1])
    ledger, broken = settle(scene, [old, new])
    assert broken == []
    assert list(missed(scene, whole)) == []
    assert max(ledger.ticks(0)) <= min(ledger.ticks(1))
    assert not any("are lost" in instance.text for instance in (*old.instances, *new.instances))
    assert any("instances with another configuration answer" in instance.text for instance in new.instances)


@ONE_IN_SOAK
def test_a_rollback_in_the_middle_of_an_update_misses_no_tick_and_says_no_unknown(scene: Scene) -> None:
    """The first new instance is killed once it was ready, and old ones come back; nobody has heard of the new one.

    old   ├───────────────┤
    old   ├──────────────────────────────────
    new        ├ ready, waits ├ kill -9
    old                         ├ ready ├────
    """
    old, new = Version(scene.town), with_annex(scene)
    whole = started(scene, old, 2)
    (coming,) = roll(old.instances[:1], new)
    coming.kill()
    back = old.start()
    until(lambda: ready(back), 60, "the one that came back is ready")
    scene.subscriber.wait_new()
    alone(old, back)
    _ledger, broken = settle(scene, [new, old])
    assert broken == []
    assert list(missed(scene, whole)) == []
    assert not said_of_annex(scene)


@ONE_IN_SOAK
def test_a_rollback_after_an_update_misses_no_tick_and_says_no_unknown(scene: Scene) -> None:
    """All have the new configuration, and then the old one again, whose facts are still there.

    old   ├────────┤            ├ ready, waits ├────
    new      ├ ready ├─────────────────────────┤
    """
    old, new = Version(scene.town), with_annex(scene)
    whole = started(scene, old, 1)
    (coming,) = roll(old.instances[:1], new)
    until(lambda: said_of_annex(scene), 30, "the new configuration answers")
    (back,) = roll([coming], old)
    last = max(said_of_annex(scene))
    scene.subscriber.wait_tick(last + 1)
    ledger, broken = settle(scene, [new, old])
    assert broken == []
    assert list(missed(scene, whole)) == []
    assert ledger.ticks(0)
    assert back.code == 0


@ONE_IN_SOAK
def test_where_all_stop_before_any_starts_the_new_ones_take_over_as_soon_as_their_facts_are_whole(
    scene: Scene,
) -> None:
    """What Kubernetes calls Recreate: ticks may be lost meanwhile, and no promise is broken.

    old   ├────────┤ SIGTERM
    old   ├────────┤ kill -9: it stays in its groups until its session ends
    new                ├ reads ├────
    """
    old, new = Version(scene.town), with_annex(scene)
    started(scene, old, 2)
    ended, killed = old.instances
    assert ended.terminate() == 0
    killed.kill()
    new.start()
    started(scene, new, 1)
    alone(new, new.instances[-1])
    _ledger, broken = settle(scene, [old, new])
    assert broken == []
    assert said_of_annex(scene)
    groups = list_groups(scene.town.settings.kafka, scene.town.name)
    assert len(groups) == 3  # one of each configuration, and the one of both
    assert f"{scene.town.name}-release" in groups


@ONE_IN_SOAK
def test_killing_all_in_the_middle_of_an_update_breaks_no_promise(scene: Scene) -> None:
    """Nobody is left but a new instance that comes then: it waits until the killed ones' sessions end.

    old   ├──────────┤ kill -9
    old   ├──────────┤ kill -9
    new       ├ ready ┤ kill -9
    new                  ├ ready, waits ├────
    """
    old, new = Version(scene.town), with_annex(scene)
    started(scene, old, 2)
    coming = new.start()
    until(lambda: ready(coming), 60, "the new instance is ready")
    for instance in (*old.instances, coming):
        instance.kill()
    started(scene, new, 1)
    _ledger, broken = settle(scene, [old, new])
    assert broken == []
    assert said_of_annex(scene)

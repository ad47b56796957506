"""Changes of the configuration while visits flow: what is compatible goes on, what would break a promise is refused."""

from __future__ import annotations

import copy
import re
import time
from collections import defaultdict
from fractions import Fraction
from typing import Any, Final

import pytest

from monitor.errors import EXIT_REFUSED
from monitor.public.instants import SECOND, parse_instant
from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey
from tests.faults.conftest import MakeScene, Scene
from tests.faults.processes import until
from tests.faults.town import PLACES, Shape
from tests.faults.versions import Version, changed, settle

ANNEX: Final = "annex"

# What an answer about an edge costs tells the version that gave it.
V1, V2, V3, V4 = "40", "20", "30", "15"


@pytest.fixture
def scene(kafka: EmbeddedKafka, store: EmbeddedValkey, make_scene: MakeScene) -> Scene:
    return make_scene(kafka.bootstrap_servers, store.url, Shape(inputs=2, ledger_partitions=2))


def monitor(tree: dict[str, Any], name: str) -> dict[str, Any]:
    """One monitor of a configuration."""
    return next(found for found in tree["monitors"] if found["name"] == name)


def watching_more(scene: Scene) -> Version:
    """The yards are newly watched, W and k are others. ε of a place stays: 40 at the edges, 1 at murmurs."""
    tree = copy.deepcopy(scene.town.tree)
    edges, murmur = monitor(tree, "edges"), monitor(tree, "murmur")
    edges["locations"] += ["yard-0", "yard-1"]
    edges |= {"epsilon": str(40 * len(edges["locations"])), "window": "14s", "answers_per_window": 2}
    murmur |= {"window": "10s", "answers_per_window": 3}
    return changed(scene.town, "more", tree)


def asking_otherwise(scene: Scene, before: Version) -> Version:
    """Another T, ε and k over the same facts."""
    tree = copy.deepcopy(before.town.tree)
    edges = monitor(tree, "edges")
    edges |= {"epsilon": str(60 * len(edges["locations"])), "threshold": 5}
    monitor(tree, "murmur")["answers_per_window"] = 1
    return changed(scene.town, "otherwise", tree)


def further_ahead(scene: Scene, before: Version) -> Version:
    """Another F and another registry, whose rows are others, and another k."""
    tree = copy.deepcopy(before.town.tree)
    registry = scene.town.folder / "annexed.csv"
    registry.write_text("location_id\n" + "\n".join((ANNEX, *PLACES)) + "\n")
    tree["locations"]["file"] = registry.name
    tree["visits"]["accept_ahead"] = "4s"
    edges = monitor(tree, "edges")
    edges["locations"].append(ANNEX)
    edges |= {"epsilon": str(60 * len(edges["locations"])), "answers_per_window": 4}
    return changed(scene.town, "ahead", tree)


def edges_said(scene: Scene, cost: str) -> dict[int, set[str]]:
    """By tick the statuses of the edges where an answer costs so much, which tells the version that answered."""
    said: dict[int, set[str]] = defaultdict(set)
    for value in list(scene.subscriber.values):
        if value["monitor"] == "edges" and value["epsilon"] == cost:
            said[value["tick"]].add(value["status"])
    return said


def wait_spent(scene: Scene, cost: str) -> None:
    """Wait until something was safe, and something spent, where an answer costs so much."""
    until(lambda: {"safe", "noisy_count"} <= set().union(*edges_said(scene, cost).values()), 60, f"answers at ε {cost}")


def test_a_rolling_change_of_the_configuration_says_nothing_false_and_spends_nothing_twice(scene: Scene) -> None:
    """Each version waits until the one before it has left. v3 asks otherwise about the facts of v2.

    v1  ├──────── whole ─┤
    v2         ├ reads ──├──────── whole ─┤
    v3                            ├ reads ├──────── whole ─┤
    v4                                              ├ reads├──────── whole
    """
    first, second = Version(scene.town), watching_more(scene)
    third = asking_otherwise(scene, second)
    fourth = further_ahead(scene, third)
    old = first.start()
    wait_spent(scene, V1)
    for version, cost in ((second, V2), (third, V3), (fourth, V4)):
        new = version.start()
        until(lambda new=new: '"ok": true' in new.page("/readyz"), 60, "it is ready")  # type: ignore[misc]
        scene.subscriber.wait_new()
        assert not edges_said(scene, cost)
        assert old.terminate() == 0
        wait_spent(scene, cost)
        old = new
    ledger, broken = settle(scene, [first, second, third, fourth])
    assert broken == []
    assert all(max(ledger.ticks(number)) <= min(ledger.ticks(number + 1)) for number in range(3))
    # What was spent under one configuration ran on under the next.
    over_time = [(told.version, told.value) for told in ledger.told if told.value["monitor"] == "edges"]
    carried = {(version, mark["epsilon"]) for version, value in over_time for mark in value["answers"]}
    assert {(0, V1), (1, V1), (1, V2), (2, V2), (2, V3), (3, V3), (3, V4)} <= carried
    newly = {value["status"] for _, value in over_time if value["location_id"].startswith("yard")}
    assert newly & {"safe", "noisy_count"}


def refused(scene: Scene) -> dict[str, tuple[Version, str]]:
    """Configurations that would break the accounting, and what is said of each."""
    trees = {name: copy.deepcopy(scene.town.tree) for name in ("slot", "origin", "shards", "fewer")}
    trees["slot"]["clock"] |= {"slot": "1s", "release_delay": "500ms"}
    trees["origin"]["clock"]["origin"] = "2026-01-01T00:00:02+00:00"
    trees["shards"]["service"]["shards"] = 3
    trees["shards"]["kafka"]["partitions"]["alerts"] = 3  # the configuration is right; the ledger has two
    trees["fewer"]["monitors"] = [found for found in trees["fewer"]["monitors"] if found["name"] != "edges"]
    grid = r"clock\.slot and clock\.origin put tick \d+ at .*they can't change during the life of a ledger"
    reasons = {
        "slot": grid,
        "origin": grid,
        "shards": r"service\.shards is 3, which would move locations to other partitions of the ledger",
        "fewer": r"privacy\.epsilon is (\S+), and one person may pay \1 under this configuration and (\S+) more for "
        r"answers that were published under an earlier one: \1 \+ \2 = \S+, which is \2 too much\. Keep the earlier "
        r"configuration, or state more\. It would fit from (\S+) on",
    }
    return {name: (changed(scene.town, name, tree), reasons[name]) for name, tree in trees.items()}


def reason(version: Version, expected: str) -> re.Match[str]:
    """Why its latest instance was refused; it must have written nothing."""
    instance = version.instances[-1]
    assert instance.wait(60) == EXIT_REFUSED
    assert "owns ledger partition" not in instance.text
    found = re.search(expected, instance.text)
    assert found is not None, instance.text
    return found


def test_changes_that_would_break_the_accounting_are_refused_with_the_reason_and_what_runs_goes_on(
    scene: Scene,
) -> None:
    """What would move ticks or marks, and what may cost a person too much.

    running   ├─────── edges … noisy ─────────────────
    refused         ├ slot, origin, shards, fewer
    """
    first, changes = Version(scene.town), refused(scene)
    before, after = first.terms, changes["shards"][0].terms
    places = zip(before.locations, before.shard, after.shard, strict=True)
    moved = {location for location, shard, other in places if shard % 2 != other % 2}
    running = scene.start()
    scene.subscriber.wait_whole()
    until(lambda: moved & {location for location, _ in noisy(scene)}, 40, "a place that would move has spent")
    for version, _ in changes.values():
        version.start()
    sums = {name: reason(version, expected) for name, (version, expected) in changes.items()}
    assert Fraction(sums["fewer"][2]) > 0
    assert scene.settle(running).broken == []


@pytest.mark.soak
def test_what_would_cost_too_much_is_taken_once_the_silences_are_over_as_it_was_told(scene: Scene) -> None:
    """The edges are not to be watched any more, and what they have spent still counts.

    all edges   ├──── noisy ─┤ p p p p p p p      while a period holds what they answered and what others may
    none                       ├ refused    ├ from the time that it named ──
    """
    first, (fewer, expected) = Version(scene.town), refused(scene)["fewer"]
    running = first.start()
    scene.subscriber.wait_whole()
    until(
        lambda: max((tick for _, tick in noisy(scene)), default=0) >= scene.town.now() - 2,
        40,
        "something was spent just now",
    )
    assert running.terminate() == 0
    fewer.start()
    fits = parse_instant(reason(fewer, expected)[3])
    pause = first.terms.over_time[0].mark_lifetime * first.terms.grid.slot
    assert fits <= time.time_ns() // 1_000 + first.terms.period + pause
    until(lambda: time.time_ns() // 1_000 > fits, (first.terms.period + pause) / SECOND + 5, "it fits")
    fewer.start()
    scene.subscriber.wait_whole()
    ledger, broken = settle(scene, [first, fewer])
    assert broken == []
    assert ledger.ticks(1)


def noisy(scene: Scene) -> set[tuple[str, int]]:
    """Where and when the edges answered with a noisy count."""
    return {place for place, status in scene.subscriber.statuses("edges").items() if status == "noisy_count"}

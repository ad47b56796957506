"""Configuration changes while visits flow: a compatible one takes over, one that would break a promise is refused."""

from __future__ import annotations

import copy
import re
import time
from collections import defaultdict
from fractions import Fraction
from typing import Any, Final

import pytest

from monitor.contracts.instants import SECOND, parse_instant
from monitor.errors import EXIT_REFUSED
from monitor.tools.servers import EmbeddedValkey
from tests.faults.conftest import MakeScene, Scene
from tests.faults.town import PLACES, Shape
from tests.faults.versions import Version, change_configuration, settle
from tests.kit.waiting import until
from tests.shared_kafka import SharedKafka

ANNEX: Final = "annex"

# The cost of an answer about an edge identifies the version that published it.
V1, V2, V3, V4 = "40", "20", "30", "15"


@pytest.fixture
def scene(kafka: SharedKafka, store: EmbeddedValkey, make_scene: MakeScene) -> Scene:
    return make_scene(kafka.bootstrap_servers, store.url, Shape(inputs=2, ledger_partitions=2))


def find_monitor(tree: dict[str, Any], name: str) -> dict[str, Any]:
    """Return one monitor of a configuration."""
    return next(monitor for monitor in tree["monitors"] if monitor["name"] == name)


def watch_more(scene: Scene) -> Version:
    """Return a version that also watches the yards, with other W and k. ε per place does not change."""
    tree = copy.deepcopy(scene.town.tree)
    edges, murmur = find_monitor(tree, "edges"), find_monitor(tree, "murmur")
    edges["locations"] += ["yard-0", "yard-1"]
    edges |= {"epsilon": str(40 * len(edges["locations"])), "window": "14s", "answers_per_window": 2}
    murmur |= {"window": "10s", "answers_per_window": 3}
    return change_configuration(scene.town, "more", tree)


def ask_otherwise(scene: Scene, before: Version) -> Version:
    """Return a version with other T, ε and k and the same facts."""
    tree = copy.deepcopy(before.town.tree)
    edges = find_monitor(tree, "edges")
    edges |= {"epsilon": str(60 * len(edges["locations"])), "threshold": 5}
    find_monitor(tree, "murmur")["answers_per_window"] = 1
    return change_configuration(scene.town, "otherwise", tree)


def accept_further_ahead(scene: Scene, before: Version) -> Version:
    """Return a version with another F, another k, and another registry with other row numbers."""
    tree = copy.deepcopy(before.town.tree)
    registry = scene.town.folder / "annexed.csv"
    registry.write_text("location_id\n" + "\n".join((ANNEX, *PLACES)) + "\n")
    tree["locations"]["file"] = registry.name
    tree["visits"]["accept_ahead"] = "4s"
    edges = find_monitor(tree, "edges")
    edges["locations"].append(ANNEX)
    edges |= {"epsilon": str(60 * len(edges["locations"])), "answers_per_window": 4}
    return change_configuration(scene.town, "ahead", tree)


def read_edge_statuses(scene: Scene, cost: str) -> dict[int, set[str]]:
    """Return the statuses of the edges by tick, from the version whose answers have this cost."""
    statuses: dict[int, set[str]] = defaultdict(set)
    for value in list(scene.subscriber.values):
        if value["monitor"] == "edges" and value["epsilon"] == cost:
            statuses[value["tick"]].add(value["status"])
    return statuses


def wait_spent(scene: Scene, cost: str) -> None:
    """Wait for a "safe" and a noisy count of the version whose answers have this cost."""
    until(
        lambda: {"safe", "noisy_count"} <= set().union(*read_edge_statuses(scene, cost).values()),
        60,
        f"answers at ε {cost}",
    )


@pytest.mark.promise(8, 33)
def test_rolling_change_of_configuration(scene: Scene) -> None:
    """In a rolling change, no answer is false, no ε is spent twice, and each version waits until the last has left.

    v1  ├──────── complete ─┤
    v2         ├ reads ─────├──────── complete ─┤
    v3                            ├ reads ──────├──────── complete ─┤      (with the facts of v2)
    v4                                                  ├ reads ────├──────── complete
    """
    first, second = Version(scene.town), watch_more(scene)
    third = ask_otherwise(scene, second)
    fourth = accept_further_ahead(scene, third)
    old = first.start()
    wait_spent(scene, V1)
    for version, cost in ((second, V2), (third, V3), (fourth, V4)):
        new = version.start()
        until(lambda new=new: '"ok": true' in new.page("/readyz"), 60, "it is ready")  # type: ignore[misc]
        scene.subscriber.wait_new()
        assert not read_edge_statuses(scene, cost)
        assert old.terminate() == 0
        wait_spent(scene, cost)
        old = new
    ledger, broken = settle(scene, [first, second, third, fourth])
    assert broken == []
    assert all(max(ledger.ticks(number)) <= min(ledger.ticks(number + 1)) for number in range(3))
    # Marks of one configuration still run under the next.
    over_time = [(answer.version, answer.value) for answer in ledger.answers if answer.value["monitor"] == "edges"]
    carried = {(version, mark["epsilon"]) for version, value in over_time for mark in value["answers"]}
    assert {(0, V1), (1, V1), (1, V2), (2, V2), (2, V3), (3, V3), (3, V4)} <= carried
    at_yards = {value["status"] for _, value in over_time if value["location_id"].startswith("yard")}
    assert at_yards & {"safe", "noisy_count"}


def list_refused_versions(scene: Scene) -> dict[str, tuple[Version, str]]:
    """Return configurations that would break the accounting, with the expected reason of each refusal."""
    trees = {name: copy.deepcopy(scene.town.tree) for name in ("slot", "origin", "shards", "fewer")}
    trees["slot"]["clock"] |= {"slot": "1s", "release_delay": "500ms"}
    trees["origin"]["clock"]["origin"] = "2026-01-01T00:00:02+00:00"
    trees["shards"]["service"]["shards"] = 3
    trees["shards"]["kafka"]["partitions"]["alerts"] = 3  # the configuration is right; the ledger has two
    trees["fewer"]["monitors"] = [other for other in trees["fewer"]["monitors"] if other["name"] != "edges"]
    grid = r"clock\.slot and clock\.origin put tick \d+ at .*they cannot change during the life of a ledger"
    reasons = {
        "slot": grid,
        "origin": grid,
        "shards": r"service\.shards is 3, which would move locations to other partitions of the ledger",
        "fewer": r"privacy\.epsilon is (\S+), and one person may pay \1 under this configuration and (\S+) more for "
        r"answers that were published under an earlier one \(of [\w, ]+\): \1 \+ \2 = \S+, which is \2 too much\. Keep "
        r"the earlier configuration, or raise privacy\.epsilon\. This configuration would fit from (\S+) on",
    }
    return {name: (change_configuration(scene.town, name, tree), reasons[name]) for name, tree in trees.items()}


def read_reason(version: Version, expected: str) -> re.Match[str]:
    """Return the reason of the refusal of the latest instance, which must not have written to the ledger."""
    instance = version.instances[-1]
    assert instance.wait(60) == EXIT_REFUSED
    assert "owns ledger partition" not in instance.text
    match = re.search(expected, instance.text)
    assert match is not None, instance.text
    return match


@pytest.mark.promise(33)
def test_changes_that_break_accounting_are_refused(
    scene: Scene,
) -> None:
    """Configurations that would move ticks or marks, or cost a person too much, are refused; the running one continues.

    running   ├─────── edges … noisy ─────────────────
    refused         ├ slot, origin, shards, fewer
    """
    first, changes = Version(scene.town), list_refused_versions(scene)
    before, after = first.terms, changes["shards"][0].terms
    places = zip(before.locations, before.shard, after.shard, strict=True)
    moved = {location for location, shard, other in places if shard % 2 != other % 2}
    running = scene.start()
    scene.subscriber.wait_complete()
    until(
        lambda: moved & {location for location, _ in find_noisy_answers(scene)}, 40, "a place that would move has spent"
    )
    for version, _ in changes.values():
        version.start()
    sums = {name: read_reason(version, expected) for name, (version, expected) in changes.items()}
    assert Fraction(sums["fewer"][2]) > 0
    assert scene.settle(running).broken == []


@pytest.mark.soak
def test_refused_change_is_accepted_later(scene: Scene) -> None:
    """A refused configuration without the edges is accepted at the time that the refusal names.

    Until then, the noisy counts of the edges still count against ε.

    all edges   ├──── noisy ─┤ p p p p p p p      while a period includes their answers and those of the new version
    none                       ├ refused    ├ accepted from the named time on ──
    """
    first, (fewer, expected) = Version(scene.town), list_refused_versions(scene)["fewer"]
    running = first.start()
    scene.subscriber.wait_complete()
    until(
        lambda: max((tick for _, tick in find_noisy_answers(scene)), default=0) >= scene.town.now() - 2,
        40,
        "a recent noisy count",
    )
    assert running.terminate() == 0
    fewer.start()
    fits = parse_instant(read_reason(fewer, expected)[3])
    pause = first.terms.over_time[0].mark_lifetime * first.terms.grid.slot
    assert fits <= time.time_ns() // 1_000 + first.terms.period + pause
    until(lambda: time.time_ns() // 1_000 > fits, (first.terms.period + pause) / SECOND + 5, "it fits")
    fewer.start()
    scene.subscriber.wait_complete()
    ledger, broken = settle(scene, [first, fewer])
    assert broken == []
    assert ledger.ticks(1)


def find_noisy_answers(scene: Scene) -> set[tuple[str, int]]:
    """Return the locations and ticks at which the edges had a noisy count."""
    return {key for key, status in scene.subscriber.statuses("edges").items() if status == "noisy_count"}

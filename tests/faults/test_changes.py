"""Configuration changes while visits flow: a compatible one takes over, one that would break a promise is refused."""

from __future__ import annotations

import copy
import re
from collections import defaultdict
from fractions import Fraction
from typing import Any, Final

import pytest

from monitor.audit.configuration import read_terms
from monitor.errors import EXIT_REFUSED
from monitor.operate.servers import EmbeddedValkey
from tests.faults.conftest import MakeTown
from tests.faults.oracles import settle
from tests.faults.town import PLACES, FaultTown, Shape
from tests.kit.processes import Instance
from tests.kit.topics import read_topic
from tests.kit.waiting import until
from tests.shared_kafka import SharedKafka

ANNEX: Final = "annex"

# The cost of an answer about an edge identifies the version that published it.
V1, V2, V3 = "40", "20", "30"


@pytest.fixture
def town(kafka: SharedKafka, store: EmbeddedValkey, make_town: MakeTown) -> FaultTown:
    return make_town(kafka.bootstrap_servers, store.url, Shape(inputs=2, ledger_partitions=2))


def find_monitor(tree: dict[str, Any], name: str) -> dict[str, Any]:
    """Return one monitor of a configuration."""
    return next(monitor for monitor in tree["monitors"] if monitor["name"] == name)


def watch_more(town: FaultTown) -> FaultTown:
    """Return the town with more watched places, and other W, k, F and row numbers. ε per place does not change."""
    tree = copy.deepcopy(town.tree)
    registry = town.folder / "annexed.csv"
    registry.write_text("location_id\n" + "\n".join((ANNEX, *PLACES)) + "\n")
    tree["locations"]["file"] = registry.name
    tree["visits"]["accept_ahead"] = "4s"
    edges, murmur = find_monitor(tree, "edges"), find_monitor(tree, "murmur")
    edges["locations"] += ["yard-0", "yard-1", ANNEX]
    edges |= {"epsilon": str(40 * len(edges["locations"])), "window": "14s", "answers_per_window": 2}
    murmur |= {"window": "10s", "answers_per_window": 3}
    return town.change("more", tree)


def ask_otherwise(town: FaultTown) -> FaultTown:
    """Return the town with other T, ε and k and the same facts."""
    tree = copy.deepcopy(town.tree)
    edges = find_monitor(tree, "edges")
    edges |= {"epsilon": str(60 * len(edges["locations"])), "threshold": 5}
    find_monitor(tree, "murmur")["answers_per_window"] = 2
    return town.change("otherwise", tree)


def read_edge_statuses(town: FaultTown, cost: str) -> dict[int, set[str]]:
    """Return the statuses of the edges by tick, from the version whose answers have this cost."""
    statuses: dict[int, set[str]] = defaultdict(set)
    for value in list(town.subscriber.values):
        if value["monitor"] == "edges" and value["epsilon"] == cost:
            statuses[value["tick"]].add(value["status"])
    return statuses


def wait_spent(town: FaultTown, cost: str) -> None:
    """Wait for a "safe" and a noisy count of the version whose answers have this cost."""
    until(
        lambda: {"safe", "noisy_count"} <= set().union(*read_edge_statuses(town, cost).values()),
        60,
        f"answers at ε {cost}",
    )


@pytest.mark.promise(8, 33)
def test_rolling_change_of_configuration(town: FaultTown) -> None:
    """In a rolling change, no answer is false, no ε is spent twice, and each version waits until the last has left.

    v1  ├──────── complete ─┤
    v2         ├ reads ─────├──────── complete ─┤
    v3                            ├ reads ──────├──────── complete         (with the facts of v2)
    """
    first, second = town, watch_more(town)
    third = ask_otherwise(second)
    old = first.start()
    wait_spent(town, V1)
    for version, cost in ((second, V2), (third, V3)):
        new = version.start()
        until(lambda new=new: '"ok": true' in new.page("/readyz"), 60, "it is ready")  # type: ignore[misc]
        town.subscriber.wait_new()
        assert not read_edge_statuses(town, cost)
        assert old.terminate() == 0
        wait_spent(town, cost)
        old = new
    verdict = settle(third, old, second, first)
    expected = find_expected_letters(first, second, third)
    assert [text for text in verdict.broken if text not in expected] == []
    # Marks of one configuration still run under the next.
    values = [value for value in town.subscriber.values if value["monitor"] == "edges"]
    carried = {(value["epsilon"], mark["epsilon"]) for value in values for mark in value["answers"]}
    assert {(V1, V1), (V2, V1), (V2, V2), (V3, V2), (V3, V3)} <= carried
    assert {value["status"] for value in values if value["location_id"].startswith("yard")} & {"safe", "noisy_count"}


def find_expected_letters(*towns: FaultTown) -> set[str]:
    """Return the findings about dead letters that only some of the configurations would write, oldest first.

    The one that reads a visit first decides whether it becomes a dead letter. A later one reads the same records for
    its facts, but writes no dead letters of them.
    """
    records = read_topic(towns[0].servers, towns[0].topics.visits, "read_committed")
    recounts = [town.recount() for town in towns]
    wanted = [{letter for record in records for letter in recount.fates(record).letters} for recount in recounts]
    more = {
        f"{letter} is an unexpected dead letter, or has another payload" for letter in set().union(*wanted) - wanted[-1]
    }
    fewer = wanted[-1] - wanted[-1].intersection(*wanted)
    return more | {f"{letter} is missing among the dead letters" for letter in fewer}


def list_refused(town: FaultTown) -> dict[str, tuple[FaultTown, str]]:
    """Return configurations that would break the accounting, with the expected reason of each refusal."""
    trees = {name: copy.deepcopy(town.tree) for name in ("slot", "origin", "shards", "fewer", "name")}
    trees["slot"]["clock"] |= {"slot": "1s", "release_delay": "500ms"}
    trees["origin"]["clock"]["origin"] = "2026-01-01T00:00:02+00:00"
    trees["shards"]["service"]["shards"] = 3
    trees["shards"]["kafka"]["partitions"]["alerts"] = 3  # the configuration is right; the ledger has two
    trees["fewer"]["monitors"] = [other for other in trees["fewer"]["monitors"] if other["name"] != "edges"]
    trees["name"]["service"]["name"] = "intruder"
    grid = r"clock\.slot and clock\.origin put tick \d+ at .*they cannot change during the life of a ledger"
    reasons = {
        "slot": grid,
        "origin": grid,
        "shards": r"service\.shards is 3, which would move locations to other partitions of the ledger",
        "fewer": r"privacy\.epsilon is (\S+), and one person may pay \1 under this configuration and (\S+) more for "
        r"answers that were published under an earlier one \(of [\w, ]+\): \1 \+ \2 = \S+, which is \2 too much\. Keep "
        r"the earlier configuration, or raise privacy\.epsilon\. This configuration would fit from (\S+) on",
        "name": r"give each service its own kafka\.topics\.alerts",
    }
    return {name: (town.change(name, tree), reasons[name]) for name, tree in trees.items()}


def read_reason(instance: Instance, expected: str) -> re.Match[str]:
    """Return the reason of the refusal of an instance, which must not have written to the ledger."""
    assert instance.wait(60) == EXIT_REFUSED
    assert "owns ledger partition" not in instance.text
    match = re.search(expected, instance.text)
    assert match is not None, instance.text
    return match


@pytest.mark.promise(33, 35)
def test_changes_that_break_accounting_are_refused(town: FaultTown) -> None:
    """Configurations that would move ticks or marks, or cost a person too much, are refused; the running one continues.

    So is a second service on the same ledger.

    running   ├─────── edges … noisy ─────────────────
    refused         ├ slot, origin, shards, fewer, name
    """
    changes = list_refused(town)
    before, after = read_terms(town.config), read_terms(changes["shards"][0].config)
    places = zip(before.locations, before.shard, after.shard, strict=True)
    moved = {location for location, shard, other in places if shard % 2 != other % 2}
    running = town.start()
    town.subscriber.wait_complete()
    until(
        lambda: moved & {location for location, _ in find_noisy_answers(town)}, 40, "a place that would move has spent"
    )
    started = {name: town.start() for name, (town, _) in changes.items()}
    sums = {name: read_reason(started[name], expected) for name, (_, expected) in changes.items()}
    assert Fraction(sums["fewer"][2]) > 0
    assert settle(town, running).broken == []


def find_noisy_answers(town: FaultTown) -> set[tuple[str, int]]:
    """Return the locations and ticks at which the edges had a noisy count."""
    return {key for key, status in town.subscriber.statuses("edges").items() if status == "noisy_count"}

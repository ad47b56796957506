"""The topic of dead letters is deleted while visits flow."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest

from monitor.operate.servers import EmbeddedValkey
from tests.faults.conftest import MakeTown
from tests.faults.facts import read_letter, read_shards
from tests.faults.oracles import settle
from tests.faults.recount import DeadLetter
from tests.faults.town import FaultTown, Shape
from tests.kit.topics import read_topic
from tests.kit.waiting import until
from tests.shared_kafka import SharedKafka


@pytest.fixture
def town(kafka: SharedKafka, store: EmbeddedValkey, make_town: MakeTown) -> FaultTown:
    return make_town(kafka.bootstrap_servers, store.url, Shape(inputs=2, ledger_partitions=1))


def delete(town: FaultTown, topic: str) -> None:
    with town.admin() as admin:
        admin.delete_topics([topic])
        until(lambda: admin.describe_topics([topic])[0]["error_code"], 30, f"{topic} is gone")


@pytest.mark.promise(26)
@pytest.mark.parametrize("made", ["after the producer gave up", pytest.param("soon", marks=pytest.mark.soak)])
def test_reading_waits_for_deleted_dead_letters(made: str, town: FaultTown) -> None:
    """Without the topic of dead letters, reading waits at the next invalid visit, and answers are unknown.

    The instance is stopped while the topic is deleted, so that the dead letters written before are known.

    letters   ├─ l l l ─┤ deleted        ├─ recreated: l l l ──
    input     g b g g b g g b g g b g g b g g b
    progress  ──────────────┤ waits at b ├──────────
    answers   s n s s         u u u u u    s s n s
    """
    instance = town.start()
    town.subscriber.wait_complete()
    instance.pause()
    saved = read_topic(town.servers, town.topics.dead_letters, "read_uncommitted")
    delete(town, town.topics.dead_letters)
    instance.resume()
    gone = town.now()
    until(
        lambda: is_all_unknown(town, gone) and find_unwritten(town, saved),
        60,
        "unwritten dead letters, and unknown ticks",
    )
    if made != "soon":
        until(lambda: "reading" in json.loads(instance.page("/readyz")), 90, "not ready, since reading waits")
    unwritten = find_unwritten(town, saved)
    for shard in read_shards(town, town.recount())[0]:
        assert all(shard.read_progress(letter.partition) <= letter.offset for letter in unwritten)
    assert instance.code is None
    town.create()
    town.subscriber.wait_complete(90)
    verdict = settle(town, instance)
    deleted = {f"{read_letter(record)} is missing among the dead letters" for record in saved}
    assert [text for text in verdict.broken if text not in deleted] == []
    assert set(verdict.broken) == deleted


def find_unwritten(town: FaultTown, saved: list[Any]) -> set[DeadLetter]:
    """Return the expected dead letters that were not written before the topic was deleted."""
    recount = town.recount()
    records = read_topic(town.servers, town.topics.visits, "read_committed")
    return {letter for record in records for letter in recount.fates(record).letters} - set(map(read_letter, saved))


def is_all_unknown(town: FaultTown, since: int) -> bool:
    """Return whether two consecutive ticks have only "unknown" and "paused"."""
    by_tick: dict[int, set[str]] = defaultdict(set)
    for (_, tick), status in town.subscriber.statuses("edges", since).items():
        by_tick[tick].add(status)
    silent = {tick for tick, statuses in by_tick.items() if statuses in ({"unknown"}, {"unknown", "paused"})}
    return any(tick + 1 in silent for tick in silent)

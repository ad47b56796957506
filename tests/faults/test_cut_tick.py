"""SIGKILL between two batches of one tick, on real servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from monitor.audit.live.start_audit import audit_topics
from monitor.operate.servers import EmbeddedValkey
from monitor.time.clock import SystemClock
from monitor.time.instants import SECOND, format_instant
from tests.faults.town import ARMED
from tests.kit.programs import warm_up
from tests.kit.topics import Isolation
from tests.kit.town import Town, build_tree, over_time
from tests.kit.waiting import until
from tests.shared_kafka import SharedKafka

PLACES: Final = [f"place-{number}" for number in range(700)]
SLOT: Final = 20 * SECOND  # long enough for a takeover before the next slot closes
FIRST_CLOSES: Final = 8 * SECOND


@pytest.fixture
def town(kafka: SharedKafka, store: EmbeddedValkey, topic: Callable[[str], str], tmp_path: Path) -> Iterator[Town]:
    """A town whose ticks are three batches. It has so little ε that draws vary: a second draw has other bytes."""
    warm_up()
    origin = format_instant((SystemClock().now() + FIRST_CLOSES - SLOT) // SECOND * SECOND)
    sections: dict[str, Any] = {
        "clock": {"slot": "20s", "origin": origin, "release_delay": "1s", "tolerance": "100ms"},
        "visits": {"default_stay": "1s", "accept_ahead": "0s", "person_key_file": "person.key"},
        "privacy": {"epsilon": "100000", "period": "1m"},
    }
    monitors = [over_time("all", PLACES, 1, "20s", epsilon=1)]
    tree = build_tree(topic("cut"), kafka.bootstrap_servers, store.url, monitors, **sections)
    town = Town(tmp_path, tree, PLACES)
    town.apply()
    town.create()
    yield town
    town.end()


def read_answers(town: Town, isolation: Isolation) -> dict[int, dict[str, set[bytes]]]:
    """Return the distinct values of each answer in the ledger, by tick and place."""
    answers: dict[int, dict[str, set[bytes]]] = {}
    for record in town.records(isolation=isolation):
        value = json.loads(record.value)
        if "location_id" in value:
            answers.setdefault(value["tick"], {}).setdefault(value["location_id"], set()).add(record.value)
    return answers


@pytest.mark.promise(28, 40)
def test_rest_of_a_cut_tick_is_published(town: Town) -> None:
    """
    If an instance is killed when the first batch of a tick is in the ledger, the next one completes the tick.

        batch       1  2  3
        killed      x              aborted
        next        x  x  x        the answers of batch 1 have the same bytes
    """
    config, gate = ["--config", str(town.config)], town.folder / "gate"
    killed = town.launch(ARMED, *config, "--at", "ledger.queued:2:hold", "--hold", str(gate))  # after the owner record
    ((tick, part),) = until(lambda: read_answers(town, "read_uncommitted"), 40, "the first batch is there").items()
    killed.kill()
    after = town.launch(ARMED, *config)
    until(lambda: read_answers(town, "read_committed"), 40, "the tick is published")
    assert after.terminate() == 0
    whole = read_answers(town, "read_committed")[tick]
    assert 0 < len(part) < len(PLACES)
    assert whole.keys() == {*PLACES}
    assert read_answers(town, "read_uncommitted")[tick] == whole, "an answer was drawn twice"
    assert {json.loads(value)["status"] for values in part.values() for value in values} == {"safe", "noisy_count"}
    assert not any(audit_topics([town.config], {}).violations.values())

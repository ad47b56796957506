"""`location-monitor run` as a separate process, on real servers, with the real clock and slots of two seconds."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from kafka import OffsetAndMetadata, TopicPartition

from monitor.kafka.groups import list_groups, name_input_group
from monitor.operate.servers import EmbeddedKafka, EmbeddedValkey, ValkeySettings
from monitor.operate.servers.ports import ReservedPort
from monitor.time.instants import SECOND, parse_instant
from tests.builders import build_visit
from tests.conftest import Eventually
from tests.kit.stores import dump_redis
from tests.kit.town import TWO_SECONDS, Town, build_tree, over_time
from tests.shared_kafka import SharedKafka

PLACES = ("inn", "bath")
PLANTED = "planted-person-4711"


class RunTown(Town):
    """A service with slots of two seconds that watches the inn and the bath. ε is 40, so answers are almost certain."""

    def __init__(self, folder: Path, name: str, kafka: str, store: str) -> None:
        monitors = [over_time("places", PLACES, 3, "20s")]
        super().__init__(folder, build_tree(name, kafka, store, monitors, inputs=2, shards=2, **TWO_SECONDS), PLACES)

    def put(self, persons: list[str], location: str) -> None:
        """Produce a visit per person, now, and an invalid visit that contains the first person's id."""
        now = time.time_ns() // 1_000
        visits = [build_visit(person, location, now - SECOND, now) for person in persons]
        self.report(*visits, build_visit(persons[0], "attic", now - SECOND, now))


@pytest.fixture
def town(kafka: SharedKafka, store: EmbeddedValkey, tmp_path: Path, topic: Callable[[str], str]) -> RunTown:
    """A town whose topics do not exist yet."""
    return RunTown(tmp_path, topic("run"), kafka.bootstrap_servers, store.url)


def read_stored(url: str) -> bytes:
    """Return every key and value of a store, as dumps and as text."""
    with closing(redis.Redis.from_url(url)) as client:
        dumps = [client.dump(key) or b"" for key in client.scan_iter()]
        values = dump_redis(client)
    assert values
    return b"\n".join((*dumps, *map(str.encode, values)))


def count_members(town: RunTown) -> dict[str, int]:
    """Return the number of members of each of the service's groups, by the end of its name."""
    groups = list_groups(town.connections, town.name)
    with closing(town.connections.create_admin()) as admin:
        described = admin.describe_groups(groups)
    return {
        re.sub("[0-9a-f]{16}", "fingerprint", group.removeprefix(f"{town.name}-")): len(described[group]["members"])
        for group in groups
    }


def test_run_from_start_to_stop(town: RunTown, store: EmbeddedValkey, eventually: Eventually) -> None:
    """`run` becomes ready, answers on time, shows no planted id anywhere, and stops in order."""
    created = town.command("topics", "--create")
    assert (created.returncode, created.stderr) == (0, "")
    with town.running() as process:
        eventually(lambda: process.fetch("/readyz")[0] == 200, 30)
        assert process.fetch("/healthz")[0] == 200
        eventually(lambda: town.answers("inn"), 10)
        assert count_members(town) == {"fingerprint": 1, "release": 1}
        town.put([PLANTED, "second", "third"], "inn")
        noisy = eventually(lambda: [value for value in town.answers("inn") if value["status"] == "noisy_count"], 10)
        assert noisy[0]["noisy_count"] == 3
        assert {"safe"} <= {value["status"] for value in town.answers("bath")} <= {"safe", "unknown"}
        assert_on_time(town, eventually)
        metrics = process.fetch("/metrics")[1]
        assert 'location_monitor_visits_total{fate="applied"} 3.0' in metrics
        assert 'location_monitor_visits_total{fate="dead_letter"} 1.0' in metrics
        assert PLANTED.encode() not in read_stored(store.url)
        assert process.terminate() == 0
        texts = [process.text, metrics, *(repr(record) for record in town.records())]
        assert not [text for text in texts if PLANTED in text]
        assert "SIGTERM: finishing the work in progress" in process.text
    assert count_members(town) == {"fingerprint": 0, "release": 0}


def assert_on_time(town: RunTown, eventually: Eventually) -> None:
    """Assert that the next two answers come 0.5 s to 2.5 s after their tick closed, and that no tick comes twice."""
    for _ in range(2):
        newest = eventually(partial(list_new_answers, town, len(town.answers("bath"))))[-1]
        delay = time.time_ns() // 1_000 - parse_instant(newest["as_of"])
        assert SECOND // 2 <= delay < 5 * SECOND // 2
    ticks = [value["tick"] for value in town.answers("bath")]
    assert ticks == sorted(set(ticks))


def list_new_answers(town: RunTown, known: int) -> list[dict[str, Any]]:
    return town.answers("bath")[known:]


def test_start_waits_for_servers(
    kafka: SharedKafka, valkey: EmbeddedValkey, tmp_path: Path, eventually: Eventually, topic: Callable[[str], str]
) -> None:
    """If Kafka and Redis are down at the start, `run` reports them, stays alive, and answers once they are there."""
    reserved = ReservedPort()
    port = reserved.number
    reserved.release()
    with EmbeddedKafka() as own:
        town = RunTown(tmp_path, topic("late"), own.bootstrap_servers, f"redis://127.0.0.1:{port}/0")
        assert town.command("topics", "--create").returncode == 0
        own.kill()
        with town.running() as process:
            eventually(lambda: f"Kafka at {own.bootstrap_servers} cannot be used" in process.text, 30)
            assert process.fetch("/readyz")[0] == 503
            assert process.fetch("/healthz")[0] == 200
            own.restart()
            eventually(lambda: f"Redis at 127.0.0.1:{port} cannot be reached" in process.text, 40)
            assert process.fetch("/readyz")[0] == 503
            with EmbeddedValkey(ValkeySettings(port=port)):
                eventually(lambda: process.fetch("/readyz")[0] == 200, 40)
                eventually(lambda: town.answers("inn"), 10)
                assert process.terminate() == 0


def test_missing_topics_exit_with_3(town: RunTown) -> None:
    """Missing topics end `run` with exit code 3 and the command that creates them."""
    ended = town.command("run")
    assert ended.returncode == 3
    assert f"{town.name}.visits" in ended.stderr
    assert "topics --create" in ended.stderr


@pytest.mark.promise(36)
def test_evicting_store_exits_with_3(town: RunTown, valkey: EmbeddedValkey) -> None:
    """A store that may evict keys ends `run` with exit code 3."""
    with EmbeddedValkey(ValkeySettings(arguments=("--maxmemory-policy", "allkeys-lru"))) as evicting:
        town.tree["redis"]["url"] = evicting.url
        assert town.command("topics", "--create").returncode == 0
        ended = town.command("run")
    assert ended.returncode == 3
    assert "maxmemory-policy is allkeys-lru: expected noeviction" in ended.stderr


def test_lost_ledger_must_be_confirmed(town: RunTown) -> None:
    """`topics --create` is idempotent, and replaces a lost ledger only with --ledger-lost."""
    assert "created" in town.command("topics", "--create").stdout
    assert "all topics existed; the ledger was initialised before" in town.command("topics", "--create").stdout
    assert town.command("topics").returncode == 0
    with closing(town.connections.create_consumer(group_id=name_input_group(town.name, "0" * 16))) as consumer:
        partition = TopicPartition(f"{town.name}.visits", 0)
        consumer.assign([partition])
        consumer.commit({partition: OffsetAndMetadata(0, "", -1)})
    with closing(town.connections.create_admin()) as admin:
        admin.delete_topics([f"{town.name}.alerts"])
    for _ in range(2):
        refused = town.command("topics", "--create")
        assert refused.returncode == 3
        assert "--first-start" in refused.stderr
        assert "--ledger-lost" in refused.stderr
    lost = town.command("topics", "--create", "--ledger-lost")
    assert (lost.returncode, "all ε counts as spent at" in lost.stdout) == (0, True)


def test_conflicting_options_exit_with_2(town: RunTown) -> None:
    """Options that exclude each other end `topics` with exit code 2."""
    assert town.command("topics", "--create", "--first-start", "--ledger-lost").returncode == 2
    assert town.command("topics", "--ledger-lost").returncode == 2

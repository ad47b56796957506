"""`location-monitor run` as a separate process, on real servers, with the real clock and slots of two seconds."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml
from kafka import OffsetAndMetadata, TopicPartition

import monitor.cli
from monitor.contracts.instants import SECOND, parse_instant
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.groups import list_groups, name_input_group
from monitor.tools.servers import EmbeddedKafka, EmbeddedValkey, ValkeySettings
from monitor.tools.servers.ports import ReservedPort
from tests.builders import build_visit
from tests.conftest import Eventually
from tests.programs import Program, run_program
from tests.shared_kafka import SharedKafka

PLANTED = "planted-person-4711"


class Site:
    """A folder with a configuration, and the commands run in it. ε is 40, so that answers are almost certain."""

    def __init__(self, folder: Path, name: str, kafka: str, store: str) -> None:
        self.folder, self.name = folder, name
        self.connections = KafkaConnections((kafka,))
        (folder / "locations.csv").write_text("location_id\ninn\nbath\n")
        (folder / "person.key").write_text("qn/TGe6D7vsXiFKstZA9GykOnGMmd6iBzgSziHXuhUA=")
        (folder / "person.key").chmod(0o600)
        self.tree: dict[str, Any] = {
            "service": {"name": name, "shards": 2},
            "clock": {
                "slot": "2s",
                "origin": "2026-01-01T00:00:00+00:00",
                "release_delay": "500ms",
                "tolerance": "100ms",
            },
            "locations": {"file": "locations.csv"},
            "visits": {"default_stay": "1s", "accept_ahead": "2s", "person_key_file": "person.key"},
            "privacy": {"epsilon": "4000", "period": "1m"},
            "monitors": [
                {
                    "name": "places",
                    "kind": "over_time",
                    "locations": ["inn", "bath"],
                    "epsilon": "80",
                    "threshold": 3,
                    "window": "20s",
                }
            ],
            "kafka": {
                "bootstrap_servers": [kafka],
                "topics": {"visits": f"{name}.visits", "alerts": f"{name}.alerts", "dead_letters": f"{name}.dead"},
                "partitions": {"visits": 2, "alerts": 1},
            },
            "redis": {"url": store},
            "metrics": {"port": 0},
        }

    @property
    def config(self) -> Path:
        path = self.folder / "service.yaml"
        path.write_text(yaml.safe_dump(self.tree))
        return path

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return run_program([monitor.cli.__file__, *words, "--config", str(self.config)], self.folder, 60)

    @contextmanager
    def running(self) -> Iterator[Process]:
        """Start `run`, and kill it at the end if it is still running."""
        log = self.folder / "stderr"
        log.write_bytes(b"")
        process = Program([monitor.cli.__file__, "run", "--config", str(self.config)], log)
        try:
            yield Process(process, log)
        finally:
            process.kill()
            process.wait()

    def put(self, persons: list[str], location: str) -> None:
        """Produce a visit per person, now, and an invalid visit that contains the first person's id."""
        now = time.time_ns() // 1_000
        with closing(self.connections.create_producer()) as producer:
            for person in persons:
                visit = build_visit(person, location, now - SECOND, now)
                producer.send(self.tree["kafka"]["topics"]["visits"], value=json.dumps(visit).encode())
            invalid = build_visit(persons[0], "attic", now - SECOND, now)
            producer.send(self.tree["kafka"]["topics"]["visits"], value=json.dumps(invalid).encode())
            producer.flush()

    def records(self) -> list[Any]:
        """Return the records of the output topic."""
        partition = TopicPartition(self.tree["kafka"]["topics"]["alerts"], 0)
        with closing(self.connections.create_consumer()) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            end = consumer.end_offsets([partition])[partition]
            records: list[Any] = []
            while consumer.position(partition) < end:
                records += consumer.poll(timeout_ms=200).get(partition, [])
        return records

    def answers(self, location: str) -> list[dict[str, Any]]:
        """Return the answers about a location."""
        values = [json.loads(record.value) for record in self.records()]
        return [value for value in values if value.get("location_id") == location]


class Process:
    """A running service."""

    def __init__(self, process: Program, log: Path) -> None:
        self._process, self._log = process, log

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def get(self, path: str) -> tuple[int, str]:
        """Return status and body of a response of the metrics port; (0, "") before the port listens."""
        port = re.search(r"metrics and health on port (\d+)", self.log)
        if port is None:
            return 0, ""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}{path}", timeout=5) as answer:  # of this test
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)


@pytest.fixture
def site(kafka: SharedKafka, store: EmbeddedValkey, tmp_path: Path, topic: Callable[[str], str]) -> Site:
    """A site whose topics do not exist yet."""
    return Site(tmp_path, topic("run"), kafka.bootstrap_servers, store.url)


def read_stored(url: str) -> bytes:
    """Return every key and value of a store, as dumps and as text."""
    with closing(redis.Redis.from_url(url)) as client:
        dumps = [client.dump(key) or b"" for key in client.scan_iter()]
        values = [repr((key, read_value(client, key))).encode() for key in client.scan_iter()]
    assert values
    return b"\n".join(dumps + values)


def read_value(client: Any, key: bytes) -> Any:
    readers = {
        b"hash": client.hgetall,
        b"zset": lambda name: client.zrange(name, 0, -1, withscores=True),
        b"set": client.smembers,
        b"string": client.get,
    }
    return readers[client.type(key)](key)


def count_members(site: Site) -> dict[str, int]:
    """Return the number of members of each of the service's groups, by the end of its name."""
    groups = list_groups(site.connections, site.name)
    with closing(site.connections.create_admin()) as admin:
        described = admin.describe_groups(groups)
    return {
        re.sub("[0-9a-f]{16}", "fingerprint", group.removeprefix(f"{site.name}-")): len(described[group]["members"])
        for group in groups
    }


def test_run_from_start_to_stop(site: Site, store: EmbeddedValkey, eventually: Eventually) -> None:
    """`run` becomes ready, answers on time, shows no planted id anywhere, and stops in order."""
    created = site.command("topics", "--create")
    assert (created.returncode, created.stderr) == (0, "")
    with site.running() as process:
        eventually(lambda: process.get("/readyz")[0] == 200, 30)
        assert process.get("/healthz")[0] == 200
        eventually(lambda: site.answers("inn"), 10)
        assert count_members(site) == {"fingerprint": 1, "release": 1}
        site.put([PLANTED, "second", "third"], "inn")
        noisy = eventually(lambda: [value for value in site.answers("inn") if value["status"] == "noisy_count"], 10)
        assert noisy[0]["noisy_count"] == 3
        assert {"safe"} <= {value["status"] for value in site.answers("bath")} <= {"safe", "unknown"}
        assert_on_time(site, eventually)
        metrics = process.get("/metrics")[1]
        assert 'location_monitor_visits_total{fate="applied"} 3.0' in metrics
        assert 'location_monitor_visits_total{fate="dead_letter"} 1.0' in metrics
        assert PLANTED.encode() not in read_stored(store.url)
        assert process.stop() == 0
        texts = [process.log, metrics, *(repr(record) for record in site.records())]
        assert not [text for text in texts if PLANTED in text]
        assert "SIGTERM: finishing the work in progress" in process.log
    assert count_members(site) == {"fingerprint": 0, "release": 0}


def assert_on_time(site: Site, eventually: Eventually) -> None:
    """Assert that the next two answers come 0.5 s to 2.5 s after their tick closed, and that no tick comes twice."""
    for _ in range(2):
        newest = eventually(partial(list_new_answers, site, len(site.answers("bath"))))[-1]
        delay = time.time_ns() // 1_000 - parse_instant(newest["as_of"])
        assert SECOND // 2 <= delay < 5 * SECOND // 2
    ticks = [value["tick"] for value in site.answers("bath")]
    assert ticks == sorted(set(ticks))


def list_new_answers(site: Site, known: int) -> list[dict[str, Any]]:
    return site.answers("bath")[known:]


@pytest.mark.promise(31)
def test_restarted_run_continues_pause(site: Site, eventually: Eventually) -> None:
    """After a restart of `run`, the pause continues with the same noisy count."""
    site.command("topics", "--create")
    with site.running() as process:
        eventually(lambda: process.get("/readyz")[0] == 200, 30)
        site.put(["a", "b", "c"], "inn")
        noisy = eventually(lambda: [value for value in site.answers("inn") if value["status"] == "noisy_count"], 15)[0]
        assert process.stop() == 0
    before = len(site.answers("inn"))
    with site.running() as process:
        answers = eventually(lambda: site.answers("inn")[before + 1 :], 30)
        assert process.stop() == 0
    assert answers[0]["status"] == "paused"
    assert answers[0]["answers"] == noisy["answers"]


def test_start_waits_for_kafka(
    store: EmbeddedValkey, kafka: SharedKafka, tmp_path: Path, topic: Callable[[str], str], eventually: Eventually
) -> None:
    """If Kafka is down at the start, `run` reports it, stays alive, and answers once Kafka is back."""
    with EmbeddedKafka() as own:
        site = Site(tmp_path, topic("late"), own.bootstrap_servers, store.url)
        assert site.command("topics", "--create").returncode == 0
        own.kill()
        with site.running() as process:
            eventually(
                lambda: f"Kafka at {site.tree['kafka']['bootstrap_servers'][0]} cannot be used" in process.log, 30
            )
            assert process.get("/readyz")[0] == 503
            assert process.get("/healthz")[0] == 200
            own.restart()
            eventually(lambda: process.get("/readyz")[0] == 200, 40)
            eventually(lambda: site.answers("inn"), 10)
            assert process.stop() == 0


def test_start_waits_for_redis(
    kafka: SharedKafka, valkey: EmbeddedValkey, tmp_path: Path, eventually: Eventually, topic: Callable[[str], str]
) -> None:
    """If Redis is down at the start, `run` reports it, stays alive, and answers once Redis is there."""
    reserved = ReservedPort()
    port = reserved.number
    reserved.release()
    site = Site(tmp_path, topic("late"), kafka.bootstrap_servers, f"redis://127.0.0.1:{port}/0")
    assert site.command("topics", "--create").returncode == 0
    with site.running() as process:
        eventually(lambda: f"Redis at 127.0.0.1:{port} cannot be reached" in process.log, 30)
        assert process.get("/readyz")[0] == 503
        with EmbeddedValkey(ValkeySettings(port=port)):
            eventually(lambda: process.get("/readyz")[0] == 200, 40)
            eventually(lambda: site.answers("inn"), 10)
            assert process.stop() == 0


def test_missing_topics_exit_with_3(site: Site) -> None:
    """Missing topics end `run` with exit code 3 and the command that creates them."""
    ended = site.command("run")
    assert ended.returncode == 3
    assert f"{site.name}.visits" in ended.stderr
    assert "topics --create" in ended.stderr


@pytest.mark.promise(36)
def test_evicting_store_exits_with_3(site: Site, valkey: EmbeddedValkey) -> None:
    """A store that may evict keys ends `run` with exit code 3."""
    with EmbeddedValkey(ValkeySettings(arguments=("--maxmemory-policy", "allkeys-lru"))) as evicting:
        site.tree["redis"]["url"] = evicting.url
        assert site.command("topics", "--create").returncode == 0
        ended = site.command("run")
    assert ended.returncode == 3
    assert "maxmemory-policy is allkeys-lru: expected noeviction" in ended.stderr


def test_lost_ledger_must_be_confirmed(site: Site) -> None:
    """`topics --create` is idempotent, and replaces a lost ledger only with --ledger-lost."""
    assert "created" in site.command("topics", "--create").stdout
    assert "all topics existed; the ledger was initialised before" in site.command("topics", "--create").stdout
    assert site.command("topics").returncode == 0
    with closing(site.connections.create_consumer(group_id=name_input_group(site.name, "0" * 16))) as consumer:
        partition = TopicPartition(f"{site.name}.visits", 0)
        consumer.assign([partition])
        consumer.commit({partition: OffsetAndMetadata(0, "", -1)})
    with closing(site.connections.create_admin()) as admin:
        admin.delete_topics([f"{site.name}.alerts"])
    for _ in range(2):
        refused = site.command("topics", "--create")
        assert refused.returncode == 3
        assert "--first-start" in refused.stderr
        assert "--ledger-lost" in refused.stderr
    lost = site.command("topics", "--create", "--ledger-lost")
    assert (lost.returncode, "all ε counts as spent at" in lost.stdout) == (0, True)


def test_conflicting_options_exit_with_2(site: Site) -> None:
    """Options that exclude each other end `topics` with exit code 2."""
    assert site.command("topics", "--create", "--first-start", "--ledger-lost").returncode == 2
    assert site.command("topics", "--ledger-lost").returncode == 2

"""The audit of the topics of a real Kafka: their content, expired records, and the decoding of input records."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pytest
import zstandard
from click.testing import CliRunner
from kafka import TopicPartition

from monitor.cli import main
from monitor.ingest.decode import decode_records
from monitor.kafka.connections import KafkaConnections
from monitor.tools.audit.terms import read_terms
from monitor.tools.audit.visits import decode
from tests.fuzz.records import RecordGenerator, make_seeds
from tests.ingest import crafted
from tests.shared_kafka import SharedKafka
from tests.tools.audit.conftest import Tiny, owner

LONGEST = str(2**63 - 1)


@dataclass
class Live:
    """The tiny run on Kafka: its visits in two partitions, its output in one."""

    tiny: Tiny
    kafka: KafkaConnections
    visits: str
    alerts: str

    def create(self) -> None:
        configs = dict.fromkeys(("message.timestamp.before.max.ms", "message.timestamp.after.max.ms"), LONGEST)
        made = {"replication_factor": 1, "configs": configs | {"retention.ms": "-1"}}
        with closing(self.kafka.create_admin()) as admin:
            topics = {self.visits: made | {"num_partitions": 2}, self.alerts: made | {"num_partitions": 1}}
            admin.create_topics(topics, wait_for_metadata=True)

    def produce(self) -> None:
        """Produce the tiny run: one visit without a batch, the others one per batch."""
        with closing(self.kafka.create_producer()) as producer:
            for number, row in enumerate(csv.DictReader(self.tiny.lines)):
                reported = row.pop("reported_at") or row["left_at"]
                visit: Any = row if number == 0 else {"batch_id": str(number), "visits": [row]}
                self._send(producer, self.visits, json.dumps(visit).encode(), reported, number % 2)
            for record in self.tiny.records:
                value = json.dumps(record["value"]).encode()
                headers = [(name, text.encode()) for name, text in record["headers"].items()]
                self._send(
                    producer, self.alerts, value, record["headers"]["ce_time"], 0, record["key"].encode(), headers
                )
            producer.flush()

    def _send(self, producer: Any, topic: str, value: bytes, time: str, partition: int, *rest: Any) -> None:
        key, headers = rest or (None, [])
        stamp = int(datetime.fromisoformat(time).timestamp() * 1_000)
        producer.send(topic, value=value, key=key, headers=headers, partition=partition, timestamp_ms=stamp)

    def forget(self, topic: str, below: int) -> None:
        with closing(self.kafka.create_admin()) as admin:
            admin.delete_records({TopicPartition(topic, 0): below})

    def audit(self) -> tuple[int, str]:
        """Return the exit code and the output of the command."""
        (self.tiny.folder / "person.key").write_text("qn/TGe6D7vsXiFKstZA9GykOnGMmd6iBzgSziHXuhUA=")
        self.tiny.config = self.tiny.config.replace(
            "accept_ahead: 1h}", "accept_ahead: 1h, person_key_file: person.key}"
        )
        self.tiny.config += (
            f"kafka: {{bootstrap_servers: ['{self.kafka.bootstrap_servers[0]}'], "
            f"topics: {{visits: {self.visits}, alerts: {self.alerts}, dead_letters: none}}}}\n"
            "redis: {url: 'redis://localhost:6379/0'}\n"
        )
        config = self.tiny.write()[1]
        result = CliRunner().invoke(main, ["audit", "--config", str(config)])
        return result.exit_code, result.output


@pytest.fixture
def live(tiny: Tiny, kafka: SharedKafka, topic: Callable[[str], str]) -> Live:
    made = Live(tiny, KafkaConnections((kafka.bootstrap_servers,)), topic("visits"), topic("alerts"))
    made.create()
    return made


def test_topics_are_read_without_files(live: Live) -> None:
    """Without files the command reads the topics, and a correct run exits with 0."""
    live.produce()
    code, text = live.audit()
    assert code == 0, text
    assert "The input topic has 4 records in 2 partitions." in text
    assert "The output topic has 10 records in 1 partitions." in text
    assert "Nothing wrong was found." in text
    assert "ε = 1 of 2" in text


def test_false_safe_exits_1(live: Live) -> None:
    """A false "safe" exits with 1, and the command names the location and the tick."""
    live.tiny.lines += ["p5,park,2026-01-01T06:10:00Z,2026-01-01T06:20:00Z,"] * 2  # one person counts once
    live.tiny.lines += ["p6,park,2026-01-01T06:10:00Z,2026-01-01T06:20:00Z,"]
    live.produce()
    code, text = live.audit()
    assert code == 1
    assert 'walk/park, tick 6: "safe" is false, there were 2 people or more' in text


def test_unusual_input_batches(live: Live) -> None:
    """A batch that kafka-python cannot read is read, or skipped if nobody can.

    A gzip batch with bytes behind it makes a "safe" false. A bomb and a broken batch are skipped.
    """
    live.produce()
    times = {"arrived_at": "2026-01-01T06:10:00Z", "left_at": "2026-01-01T06:20:00Z"}
    visits = [{"person_id": person, "location_id": "park", **times} for person in ("p5", "p6")]
    stamp = int(datetime.fromisoformat(times["left_at"]).timestamp() * 1_000)
    bomb = zstandard.compress(crafted.records([bytes(1_000_000)] * 80))
    broken = zstandard.compress(crafted.record(b"{}", off=1))
    good = gzip.compress(crafted.records([json.dumps({"visits": visits}).encode()])) + b"garbage"
    for body, count, codec in ((bomb, 80, crafted.ZSTD), (broken, 1, crafted.ZSTD), (good, 1, crafted.GZIP)):
        crafted.produce(live.kafka, live.visits, crafted.batch(body, count, codec, stamp))
    code, text = live.audit()
    assert code == 1
    assert 'walk/park, tick 6: "safe" is false, there were 2 people or more' in text


def test_equal_json_needs_equal_bytes(live: Live) -> None:
    """A repeat with the same JSON and other bytes is a violation."""
    live.produce()
    again = live.tiny.records[-1]
    with closing(live.kafka.create_producer()) as producer:
        headers = [(name, text.encode()) for name, text in again["headers"].items()]
        value = json.dumps(again["value"], indent=1).encode()
        live._send(producer, live.alerts, value, again["headers"]["ce_time"], 0, again["key"].encode(), headers)
    code, text = live.audit()
    assert code == 1
    assert "partition 0, offset 10: its ce_id was published before with other bytes" in text


def test_expired_output(live: Live) -> None:
    """After records have expired, the marks of the first remaining records are taken as true.

    The records before tick 3 have expired, and the noisy count of tick 1 with them. Later records repeat it.

    tick     0     1     2 │   3     4     5     6
    says  safe     3       │ paused 4   safe  safe
    """
    live.produce()
    live.forget(live.alerts, 4)
    code, text = live.audit()
    assert code == 0, text
    assert "The output topic has 6 records in 1 partitions. Earlier ones have expired." in text


def test_expired_input(live: Live) -> None:
    """Expired input causes no violation, and the command reports it."""
    live.produce()
    live.forget(live.visits, 1)
    code, text = live.audit()
    assert code == 0, text
    assert 'Expired visits are not counted: a false "safe" may not be found' in " ".join(text.split())


def test_open_transaction_is_no_end(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a transaction hides visits that may count, the audit ends with an error and not with a verdict."""
    monkeypatch.setattr("monitor.tools.audit.follow.PATIENCE_SECONDS", 0.2)
    live.produce()
    with closing(live.kafka.create_producer(transactional_id=f"slow-{live.visits}")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(live.visits, b"{}", partition=1).get(timeout=10)
        code, text = live.audit()
        producer.abort_transaction()
    assert code == 2
    assert "a transaction is open there" in " ".join(text.split())


def test_pause_after_lost_ledger(live: Live) -> None:
    """A ledger lost at 00:30, in slot 0, pauses its locations until tick W + F = 4, and no longer."""
    live.tiny.remove("walk/park/0", "walk/park/1")
    for tick in range(2, 4):
        live.tiny.walk(tick, "paused", [], resumes_at="2026-01-01T05:00:00Z")
    live.tiny.walk(4, "safe", [])
    live.tiny.records.insert(0, owner(lost_at="2026-01-01T00:30:00Z"))
    live.produce()
    code, text = live.audit()
    assert code == 0, text
    live.tiny.walk(4, "paused", [], resumes_at="2026-01-01T06:00:00Z")
    assert not live.tiny.audit(every_tick=False).ok


def test_both_files_or_none(tiny: Tiny) -> None:
    """VISITS without --alerts is a usage error."""
    visits, config, _alerts = tiny.write()
    result = CliRunner().invoke(main, ["audit", str(visits), "--config", str(config)])
    assert result.exit_code == 2
    assert "VISITS and --alerts must be given together" in result.output


def test_missing_topic_is_named(live: Live) -> None:
    """A topic that does not exist ends with exit code 2, and is named."""
    live.visits = "nowhere"
    code, text = live.audit()
    assert code == 2
    assert "there is no topic nowhere" in text


def test_stranger_is_not_quoted(live: Live) -> None:
    """The offset of a stranger's record is named, and the record is not quoted."""
    with closing(live.kafka.create_producer()) as producer:
        producer.send(live.alerts, key=b"person-1\xff", value=b'{"person_id": "person-1"}', partition=0).get(10)
    code, text = live.audit()
    assert code == 1
    assert "partition 0, offset 0: not a record of this service" in text
    assert "person-1" not in text


def test_input_decodes_as_in_service(tiny: Tiny) -> None:
    """The audit and the service read the same visits, and the same number of dead letters, from generated records.

    The 20,000 records are good, strange, flipped and cut.
    """
    terms = read_terms(tiny.write()[1])
    values = [made.value for made in RecordGenerator(make_seeds(1_000), 3).records(20_000)]
    columns = decode_records(values, terms.default_stay)
    expected: list[list[tuple[str, str, int, int]]] = [[] for _ in values]
    for n, record in enumerate(columns.record.tolist()):
        visit = columns.persons[n], columns.locations[n], int(columns.arrived[n]), int(columns.left[n])
        expected[record].append(visit)
    refused = np.bincount([refusal.record for refusal in columns.refused], minlength=len(values))
    for place, value in enumerate(values):
        decoded = list(decode(value, 7, terms))
        visits = [line[:4] for line in decoded if not isinstance(line, int)]
        assert visits == expected[place], value
        assert len(decoded) - len(visits) == refused[place], value

"""The OUT file of a replay, read from real topics."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

from monitor.contracts.instants import HOUR
from monitor.contracts.output_records import OutputRecord, make_over_time_record
from monitor.contracts.owner_record import make_owner_record
from monitor.kafka.connections import KafkaConnections
from monitor.privacy.over_time import OverTimeAnswer, OverTimeRule
from monitor.tools.replay.output import write_output
from tests.kit.topics import create_topic
from tests.shared_kafka import SharedKafka


def make_answer(tick: int) -> OutputRecord:
    return make_over_time_record(
        source="town",
        monitor="walk",
        location_id="park",
        rule=OverTimeRule(Fraction(1), 1, 2, 3, 1),
        tick=tick,
        as_of=(tick + 1) * HOUR,
        window_start=tick * HOUR,
        answer=OverTimeAnswer("safe", None, (), None),
        resumes_at=None,
    )


def make_owner(partition: int, tick: int | None = None) -> OutputRecord:
    return make_owner_record(
        source="town",
        service="town",
        fingerprint="",
        input_topic_id="",
        partitions=2,
        lost_at=None,
        input_since=None,
        partition=partition,
        at=0,
        tick=tick,
    )


def test_ticks_without_answers_are_in_order(kafka: SharedKafka, topic: Callable[[str], str], tmp_path: Path) -> None:
    """An owner record about a tick without answers is sorted with the answers of the tick.

    partition 0    owner  tick 0  tick 1    owner  tick 2      answers
    partition 1    owner  tick 0  tick 1           tick 2      owner records that name the tick
    """
    connections, alerts = KafkaConnections((kafka.bootstrap_servers,)), topic("alerts")
    create_topic(connections, alerts, 2)
    with closing(connections.create_producer()) as producer:
        for partition, records in (
            (0, [make_owner(0), make_answer(0), make_answer(1), make_owner(0), make_answer(2)]),
            (1, [make_owner(1), *(make_owner(1, tick) for tick in range(3))]),
        ):
            for record in records:
                producer.send(alerts, record.value, record.key, headers=list(record.headers), partition=partition)
        producer.flush()
    assert write_output(connections, alerts, 2, tmp_path / "alerts.jsonl") == 9
    lines = [json.loads(line) for line in (tmp_path / "alerts.jsonl").read_text().splitlines()]
    assert [(line["value"].get("tick"), line["partition"]) for line in lines] == [
        *[(None, 0), (None, 1)],
        *[(0, 0), (0, 1)],
        *[(1, 0), (None, 0), (1, 1)],
        *[(2, 0), (2, 1)],
    ]

"""The visits that a scenario sends, and the answers that it reads. It runs in a pod too."""

from __future__ import annotations

import json
import random
import threading
from datetime import UTC, datetime
from typing import Any, Final

from kafka import TopicPartition

PEOPLE: Final = 40
SECONDS: Final = 0.5


def send_visits(producer: Any, topic: str, place: str, stop: threading.Event) -> None:
    """Send visits of random people to a place, two in a second, until the event is set."""
    chosen = random.Random(1)
    while not stop.wait(SECONDS):
        person, now = chosen.randrange(PEOPLE), datetime.now(UTC).isoformat()
        visit = {"person_id": f"person-{person}", "location_id": place, "arrived_at": now}
        producer.send(topic, json.dumps(visit).encode())


def read_answers(consumer: Any, topic: str) -> dict[int, dict[str, str]]:
    """Return the status by tick (as seconds since 1970) and place, as the output topic has it."""
    answers: dict[int, dict[str, str]] = {}
    consumer.assign([TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)])
    ends = consumer.end_offsets(consumer.assignment())
    consumer.seek_to_beginning()
    while any(consumer.position(partition) < end for partition, end in ends.items()):
        for records in consumer.poll(timeout_ms=500).values():
            for value in (json.loads(record.value) for record in records if record.value):
                if "location_id" in value and "status" in value:
                    at = int(datetime.fromisoformat(value["as_of"]).timestamp())
                    answers.setdefault(at, {})[value["location_id"]] = value["status"]
    return answers

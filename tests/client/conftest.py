"""Fixtures of output records as the service writes them: hourly ticks, four locations in two shards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from monitor.config.kafka_and_redis import KafkaSettings
from monitor.config.valid_config import ValidConfig, load_valid_config
from monitor.records.output_records import OutputRecord
from monitor.service.wiring import Settings, prepare_settings
from tests.kit.topics import create_topic
from tests.shared_kafka import SharedKafka

CONFIG = Path(__file__).parents[1] / "kit" / "configs" / "demo.yaml"

Publish = Callable[[Iterable[OutputRecord]], None]
"""The type of the fixture `publish`."""


@pytest.fixture
def valid(kafka: SharedKafka, topic: Callable[[str], str]) -> ValidConfig:
    """The demo's configuration with a separate output topic that does not exist yet."""
    valid = load_valid_config(CONFIG, {})
    config = valid.config
    topics = config.kafka.topics.model_copy(update={"alerts": topic("alerts")})
    servers = KafkaSettings(
        bootstrap_servers=(kafka.bootstrap_servers,), topics=topics, partitions=config.kafka.partitions
    )
    return replace(valid, config=config.model_copy(update={"kafka": servers}))


@pytest.fixture
def settings(valid: ValidConfig) -> Settings:
    """The settings of `valid`."""
    return prepare_settings(valid, bytes(16))


@pytest.fixture
def configured(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration file whose servers and topics are those of `settings`, by the environment."""
    kafka = settings.config.kafka
    monkeypatch.setenv("LOCATION_MONITOR__KAFKA__BOOTSTRAP_SERVERS", json.dumps(kafka.bootstrap_servers))
    monkeypatch.setenv("LOCATION_MONITOR__KAFKA__TOPICS__ALERTS", kafka.topics.alerts)
    return CONFIG


@pytest.fixture
def publish(settings: Settings) -> Iterator[Publish]:
    """A function that appends records to the topic, which the fixture creates."""
    name = settings.config.kafka.topics.alerts
    create_topic(settings.kafka, name)
    producer = settings.kafka.create_producer()

    def append(records: Iterable[OutputRecord]) -> None:
        for key, value, headers, timestamp in records:
            producer.send(name, key=key, value=value, headers=list(headers), timestamp_ms=timestamp)
        producer.flush(timeout=10)

    yield append
    producer.close(timeout=5)

"""Run a configuration on embedded servers: start them, put their addresses in it, and stop them at the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from pydantic import SecretStr

from monitor.config.kafka_and_redis import KafkaSettings, RedisSettings
from monitor.config.valid_config import ValidConfig
from monitor.config.whole_config import Config
from monitor.operate.servers.start_servers import start_servers
from monitor.service.wiring import Settings, prepare_settings

KEY_BYTES = 32


@contextmanager
def start_embedded(valid: ValidConfig, report: Callable[[str], None]) -> Iterator[Settings]:
    """Start a real Kafka and Valkey, and yield settings with their addresses and a random key for person ids.

    Raises:
        EmbeddedError: the servers cannot be downloaded or started.
    """
    with start_servers(report) as servers:
        moved = _move(valid.config, servers.kafka.bootstrap_servers, servers.valkey.url)
        yield prepare_settings(replace(valid, config=moved), os.urandom(KEY_BYTES))


def _move(config: Config, bootstrap_servers: str, redis_url: str) -> Config:
    kafka = KafkaSettings(
        bootstrap_servers=(bootstrap_servers,), topics=config.kafka.topics, partitions=config.kafka.partitions
    )
    return config.model_copy(update={"kafka": kafka, "redis": RedisSettings(url=SecretStr(redis_url))})

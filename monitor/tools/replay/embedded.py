"""Run a configuration on embedded servers: start them, put their addresses in it, and stop them at the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pydantic import SecretStr

from monitor.config import Config, Location
from monitor.config.servers import KafkaSettings, RedisSettings
from monitor.service import Settings, settings_of
from monitor.tools.embedded.servers import start_servers

KEY_BYTES = 32


@contextmanager
def embedded_settings(
    config: Config, locations: Sequence[Location], report: Callable[[str], None]
) -> Iterator[Settings]:
    """Start a real Kafka and Valkey, and yield settings with their addresses and a random key for person ids.

    Raises:
        EmbeddedError: the servers cannot be downloaded or started.
        ConfigError, OverspentError: the configuration is invalid. No server has been started.
    """
    key = os.urandom(KEY_BYTES)
    settings_of(_move(config, "localhost:9092", "redis://localhost:6379/0"), locations, key)
    with start_servers(report) as servers:
        yield settings_of(_move(config, servers.kafka.bootstrap_servers, servers.valkey.url), locations, key)


def _move(config: Config, bootstrap_servers: str, redis_url: str) -> Config:
    kafka = KafkaSettings(
        bootstrap_servers=(bootstrap_servers,), topics=config.kafka.topics, partitions=config.kafka.partitions
    )
    return config.model_copy(update={"kafka": kafka, "redis": RedisSettings(url=SecretStr(redis_url))})

"""A configuration moved onto embedded servers: they start, it points at them, and they stop at the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pydantic import SecretStr

from monitor.config import Config, Location
from monitor.config.servers import KafkaSettings, RedisSettings
from monitor.service import Settings, settings_of
from monitor.tools.embedded.servers import start_servers

KEY_BYTES = 32


@contextmanager
def embedded_settings(
    config: Config, locations: tuple[Location, ...], report: Callable[[str], None]
) -> Iterator[Settings]:
    """Start a real Kafka and Valkey, and yield the configuration as it would be for them, with a key made for it.

    Raises:
        EmbeddedError: the servers cannot be had or started.
        ConfigError, OverspentError: the configuration is wrong; no server was started.
    """
    key = os.urandom(KEY_BYTES)
    settings_of(_moved(config, "localhost:9092", "redis://localhost:6379/0"), locations, key)
    with start_servers(report) as servers:
        yield settings_of(_moved(config, servers.kafka.bootstrap_servers, servers.valkey.url), locations, key)


def _moved(config: Config, bootstrap_servers: str, redis_url: str) -> Config:
    kafka = KafkaSettings(
        bootstrap_servers=(bootstrap_servers,), topics=config.kafka.topics, partitions=config.kafka.partitions
    )
    return config.model_copy(update={"kafka": kafka, "redis": RedisSettings(url=SecretStr(redis_url))})

"""The settings of a service, from the files that a configuration names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from monitor.config import (
    ParsedConfig,
    read_config,
    read_kafka_password,
    read_person_key,
    read_redis_password,
    report_key_mode,
    require_files,
)
from monitor.config.validate import collect_problems, examine
from monitor.errors import Problem
from monitor.service.service import Settings, prepare_settings


def load_settings(config_file: Path, key: bytes | None = None) -> Settings:
    """Read a configuration and the files it names. If `key` is given, the person key is not read.

    Raises:
        ConfigError: with the problems of all files.
    """
    read = read_config(config_file, os.environ)
    valid = examine(read, tuple(find_secret_problems(read, needs_key=key is None)))
    if key is None:
        key = read_person_key(valid.config.visits)
        report_key_mode(valid.config.visits)
    return prepare_settings(valid, key)


def find_secret_problems(read: ParsedConfig, *, needs_key: bool) -> Iterator[Problem]:
    """Yield the problems of the secret and certificate files that `run` needs, for the sections that are valid."""
    visits, kafka, redis = (read.sections.get(name) for name in ("visits", "kafka", "redis"))
    yield from collect_problems(lambda: require_files(kafka, redis))
    if needs_key and visits is not None:
        yield from collect_problems(lambda: read_person_key(visits))
    if kafka is not None:
        yield from collect_problems(lambda: read_kafka_password(kafka))
    if redis is not None:
        yield from collect_problems(lambda: read_redis_password(redis))

"""Read everything that a service needs before it connects: the configuration and the files that it names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from monitor.config.load import ParsedConfig, read_config
from monitor.config.secret_values import (
    read_kafka_password,
    read_person_key,
    read_redis_password,
    read_sentinel_password,
    read_signer,
    report_key_modes,
    require_files,
)
from monitor.config.valid_config import collect_problems, examine
from monitor.errors import Problem
from monitor.service.wiring import Settings, prepare_settings


def load_settings(config_file: Path, key: bytes | None = None) -> Settings:
    """Read a configuration and the files it names. If `key` is given, no key file is read.

    Raises:
        ConfigError: with the problems of all files.
    """
    read = read_config(config_file, os.environ)
    valid = examine(read, tuple(find_secret_problems(read, needs_key=key is None)))
    if key is None:
        key = read_person_key(valid.config.visits)
        signer = read_signer(valid.config.signing)
        report_key_modes(valid.config.visits, valid.config.signing)
        return prepare_settings(valid, key, signer)
    return prepare_settings(valid, key)


def find_secret_problems(read: ParsedConfig, *, needs_key: bool) -> Iterator[Problem]:
    """Yield the problems of the secret and certificate files that `run` needs, for the sections that are valid."""
    visits, kafka, redis, signing = (read.sections.get(name) for name in ("visits", "kafka", "redis", "signing"))
    yield from collect_problems(lambda: require_files(kafka, redis))
    if needs_key and visits is not None:
        yield from collect_problems(lambda: read_person_key(visits))
    if needs_key and signing is not None:
        yield from collect_problems(lambda: read_signer(signing))
    if kafka is not None:
        yield from collect_problems(lambda: read_kafka_password(kafka))
    if redis is not None:
        yield from collect_problems(lambda: read_redis_password(redis))
        yield from collect_problems(lambda: read_sentinel_password(redis))

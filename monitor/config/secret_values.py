"""Secrets, read when they are needed: from the environment, which came with the configuration, or from their files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import SecretStr

from monitor.config.environment import PREFIX
from monitor.config.key_strength import MAKE_A_KEY, STRONG_KEY, is_guessable
from monitor.config.model import Config, VisitsSettings
from monitor.config.servers import KafkaSettings, RedisSettings, url_password
from monitor.errors import ConfigError, Problem

_MAKE_ONE: Final = f"Make one: {MAKE_A_KEY}"
_SOURCE: Final = "the configuration"


def person_key(config: Config) -> bytes:
    """The secret that person ids are hashed with; the environment's before the file's.

    Raises:
        ConfigError: if there is none, its file cannot be read, or it could be guessed.
    """
    return key_of(config.visits)


def key_of(visits: VisitsSettings) -> bytes:
    """As `person_key`, of the section `visits` alone."""
    if visits.person_key is not None:
        return visits.person_key.get_secret_value().encode()
    if visits.person_key_file is None:
        remedy = f"{_MAKE_ONE}; then name it here, or set {PREFIX}VISITS__PERSON_KEY."
        raise _refused("visits.person_key_file", "missing", "the file of the secret for person ids", remedy)
    key = _content("visits.person_key_file", visits.person_key_file, f"{_MAKE_ONE}.")
    if is_guessable(key):
        what = f"a file that holds {STRONG_KEY}"
        raise _refused("visits.person_key_file", str(visits.person_key_file), what, f"{_MAKE_ONE}.")
    return key


def kafka_password(config: Config) -> SecretStr | None:
    """The password of Kafka's user; the environment's before the file's; None where none is configured.

    Raises:
        ConfigError: if its file cannot be read, is empty or is no text.
    """
    return kafka_password_of(config.kafka)


def kafka_password_of(kafka: KafkaSettings) -> SecretStr | None:
    """As `kafka_password`, of the section `kafka` alone."""
    return kafka.password or _password("kafka.password_file", kafka.password_file)


def redis_password(config: Config) -> SecretStr | None:
    """The password of Redis's user: the environment's, that of the URL, or the file's; None without one.

    Raises:
        ConfigError: if its file cannot be read, is empty or is no text.
    """
    return redis_password_of(config.redis)


def redis_password_of(redis: RedisSettings) -> SecretStr | None:
    """As `redis_password`, of the section `redis` alone."""
    inside = url_password(redis.url.get_secret_value())
    if redis.password is None and inside is not None:
        return SecretStr(inside)
    return redis.password or _password("redis.password_file", redis.password_file)


def require_files(config: Config) -> None:
    """Check that the certificates that connections need can be read, so that `run` lists all that are missing.

    Raises:
        ConfigError: naming each that cannot.
    """
    require_files_of(config.kafka, config.redis)


def require_files_of(kafka: KafkaSettings | None, redis: RedisSettings | None) -> None:
    """As `require_files`, of the sections that are there."""
    named = {
        "kafka.ca_file": kafka.ca_file if kafka else None,
        "kafka.certificate_file": kafka.certificate_file if kafka else None,
        "kafka.key_file": kafka.key_file if kafka else None,
        "redis.ca_file": redis.ca_file if redis else None,
    }
    problems: list[Problem] = []
    for key, path in named.items():
        try:
            if path is not None:
                _content(key, path, "Put it there, or correct the path.")
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(_SOURCE, tuple(problems))


def _password(key: str, path: Path | None) -> SecretStr | None:
    if path is None:
        return None
    try:
        text = _content(key, path, "Put the password there, or correct the path.").decode()
    except UnicodeDecodeError:
        raise _refused(key, str(path), "a file of UTF-8 text", "Write the password again.") from None
    if not text:
        raise _refused(key, str(path), "a file that holds the password, but it is empty", "Write the password there.")
    return SecretStr(text)


def _content(key: str, path: Path, remedy: str) -> bytes:
    """A file's bytes without the one newline that editors and `echo` put at the end."""
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = error.strerror or "unreadable"
        raise _refused(key, f"{path} ({reason})", "a file that can be read", remedy) from None
    return content.removesuffix(b"\n").removesuffix(b"\r")


def _refused(key: str, value: str, expected: str, remedy: str) -> ConfigError:
    return ConfigError(_SOURCE, (Problem(key, value, expected, remedy),))

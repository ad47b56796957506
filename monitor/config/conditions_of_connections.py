"""The conditions between the keys of one connection: certificates, users and addresses, each with its remedy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from monitor.config.kafka_and_redis import KafkaSettings, RedisSettings, find_url_password
from monitor.errors import Problem

SENTINEL_USER: Final = ("sentinel_username", "sentinel_password_file")
TLS_FILES: Final = ("ca_file", "certificate_file", "key_file")


def check_certificate(section: str, settings: KafkaSettings | RedisSettings) -> Iterator[Problem]:
    """Yield a problem for a certificate without its private key, or a private key without its certificate."""
    certificate, key = settings.certificate_file is not None, settings.key_file is not None
    if certificate != key:
        missing, given = ("key_file", "certificate_file") if certificate else ("certificate_file", "key_file")
        yield Problem(
            f"{section}.{missing}",
            "missing",
            f"a file, because {section}.{given} is set",
            f"Add it, or remove {section}.{given}.",
        )


def _check_sentinel_user(redis: RedisSettings) -> Iterator[Problem]:
    for name in SENTINEL_USER:
        if getattr(redis, name) is not None and not redis.sentinels:
            yield Problem(f"redis.{name}", "set", "no such key without redis.sentinels", "Remove it, or add these.")
    if redis.sentinel_username is not None and redis.sentinel_password_file is None:
        yield Problem(
            "redis.sentinel_password_file", "missing", "a file, because redis.sentinel_username is set", "Add it."
        )


def check_redis(redis: RedisSettings) -> Iterator[Problem]:
    """Yield a problem for each key that does not fit the URL or the kind of server."""
    parts = redis.parts
    for name in TLS_FILES if parts.scheme != "rediss" else ():
        if getattr(redis, name) is not None:
            yield Problem(
                f"redis.{name}", "set", "no such key without TLS", "Use rediss:// in redis.url, or remove the key."
            )
    yield from check_certificate("redis", redis)
    if redis.username is not None and parts.username:
        yield Problem("redis.username", "set twice", "one user", "Remove it here, or from redis.url.")
    if redis.password is not None and find_url_password(redis.url.get_secret_value()) is not None:
        yield Problem("redis.password", "set twice", "one password", "Remove it here, or from redis.url.")
    yield from _check_sentinel_user(redis)
    if redis.sentinels and redis.cluster:
        yield Problem("redis.sentinels", "set", "no such key with cluster: true", "Remove one of them.")
    elif redis.sentinels and (parts.scheme == "unix" or parts.port is not None):
        yield Problem(
            "redis.url",
            redis.address,
            "the name by which redis.sentinels know the primary, without a port, such as redis://primary/0",
            "Remove the port, or redis.sentinels.",
        )
    if redis.cluster and (parts.scheme == "unix" or parts.path.strip("/") not in {"", "0"} or "db=" in parts.query):
        yield Problem(
            "redis.url", redis.address, "database 0 on a network address with cluster: true", "End the URL with /0."
        )

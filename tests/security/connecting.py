"""Settings for clients of the guarded servers, and the records that the service has published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from monitor.kafka.connections import KafkaConnections
from monitor.ledger.read_ledger import read_partition
from monitor.operate.servers import EmbeddedKafka


def by_password(certificates: Any, folder: Path, server: EmbeddedKafka, **changes: Any) -> dict[str, Any]:
    """Return Kafka's settings for a user with a password, over TLS."""
    return {
        "bootstrap_servers": [server.secure_bootstrap_servers],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "username": "city",
        "password_file": str(folder / "kafka.password"),
        "ca_file": certificates.authority,
        **changes,
    }


def by_certificate(certificates: Any, server: EmbeddedKafka, user: str | None) -> dict[str, Any]:
    """Return Kafka's settings for a user with a certificate, or with none."""
    certificate, key = (None, None) if user is None else certificates.of(user)
    return {
        "bootstrap_servers": [server.secure_bootstrap_servers],
        "security_protocol": "SSL",
        "ca_file": certificates.authority,
        "certificate_file": certificate,
        "key_file": key,
    }


def redis_by_password(certificates: Any, folder: Path, server: Any, **changes: Any) -> dict[str, Any]:
    """Return Redis's settings for a user with a password and a client certificate, over TLS."""
    certificate, key = certificates.of("client")
    return {
        "url": server.url,
        "username": "city",
        "password_file": str(folder / "redis.password"),
        "ca_file": certificates.authority,
        "certificate_file": certificate,
        "key_file": key,
        **changes,
    }


def read_safe_answers(server: EmbeddedKafka, topic: str = "safety-alerts") -> list[bytes]:
    """Return the keys of all "safe" answers."""
    plain = KafkaConnections((server.bootstrap_servers,))
    return [
        record.key
        for partition in range(4)
        for _offset, record in read_partition(plain, topic, partition)
        if b'"safe"' in record.value
    ]


def read_dead_letters(server: EmbeddedKafka) -> list[bytes]:
    """Return the values of all dead letters."""
    plain = KafkaConnections((server.bootstrap_servers,))
    return [
        letter.value for partition in range(4) for _offset, letter in read_partition(plain, "dead-letters", partition)
    ]


def shows_no_secret(run: Any, secrets: tuple[str, ...]) -> bool:
    """Return whether the output of a run contains no secret."""
    return not any(secret in run.text for secret in secrets)

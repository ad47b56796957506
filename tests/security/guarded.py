"""Servers that require TLS and users, the settings of their clients, and the rights of their users."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import redis
import yaml

from monitor.config.valid_config import load_valid_config
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.topics import list_topic_needs
from monitor.operate.servers import EmbeddedKafka
from monitor.operate.servers.ports import LOOPBACK
from monitor.service.create_topics import Beginning, set_up
from monitor.service.wiring import prepare_settings
from monitor.time.clock import SystemClock
from tests.kit.processes import CLI, Instance
from tests.kit.topics import read_topic
from tests.security.rights import (
    ALL_KAFKA_RIGHTS,
    AUDITOR,
    AUDITOR_RIGHTS,
    KAFKA_RIGHTS,
    REDIS_SECRET,
    Right,
    list_topics,
)

KAFKA_SECRET, OPERATOR_SECRET, PERSON_KEY = (
    "planted-for-kafka",
    "planted-for-operators",
    "Gnx1AzlKlq/kglUmL4H4CqRM2z23FHwGiV9DkL8+eyg=",
)
SECRETS: Final = (KAFKA_SECRET, REDIS_SECRET, PERSON_KEY, OPERATOR_SECRET)
MAKER: Final = "maker"
"""A user who may create the topics of the service of that name, and has no right that only `run` needs."""

SENDER: Final = "sender"
"""A user who may write to the input of the city, and has no other right."""

_STAMP: Final = re.compile(r"^\S+Z(?= [A-Z]+ (?!monitor\.ticks\.loop: tick \d))", re.MULTILINE)

CITY: Final[dict[str, Any]] = {
    "service": {"name": "city", "shards": 4},
    "clock": {"slot": "2s", "origin": "2026-01-05T00:00:00Z", "release_delay": "900ms", "tolerance": "100ms"},
    "locations": {"file": "locations.csv"},
    "visits": {"default_stay": "1s", "accept_ahead": "2s", "person_key_file": "person.key"},
    "privacy": {"epsilon": "100", "period": "1h"},
    "monitors": [
        {
            "name": "places",
            "kind": "over_time",
            "locations": ["inn"],
            "epsilon": "1/10",
            "threshold": 500,
            "window": "1h",
        },
    ],
    "kafka": {
        "topics": {"visits": "visits", "alerts": "safety-alerts", "dead_letters": "dead-letters"},
        "partitions": {"visits": 1, "alerts": 4},  # so that each of several instances has a partition to take over
    },
    "metrics": {"port": 0},
}


@dataclass(frozen=True)
class Certificates:
    """Certificates and keys as files. The stranger's are from an authority that nobody trusts."""

    folder: Path

    @property
    def authority(self) -> str:
        return str(self.folder / "authority.pem")

    @property
    def stranger(self) -> str:
        return str(self.folder / "stranger.pem")

    def of(self, name: str) -> tuple[str, str]:
        """Return the paths of certificate and key of `server` (for 127.0.0.1 only), `client` or `impostor`."""
        return str(self.folder / f"{name}.crt"), str(self.folder / f"{name}.key")

    @property
    def server(self) -> Path:
        """The file with the key and the certificate of `server`, as Kafka needs it."""
        return self.folder / "server.pem"


@dataclass(frozen=True)
class GuardedRedis:
    """A Redis with TLS, an access list and required passwords, on a port of TLS and on a plain port."""

    port: int
    plain_port: int

    def set_user(self, name: str, *rules: str) -> None:
        """Change the rules of a user, as an operator."""
        url = f"redis://:{OPERATOR_SECRET}@{LOOPBACK}:{self.plain_port}/0"
        with closing(redis.Redis.from_url(url)) as operator:
            operator.execute_command("ACL", "SETUSER", name, *rules)  # type: ignore[no-untyped-call]  # redis-py gives it no types


@dataclass(frozen=True)
class Site:
    """A guarded broker with the topics of the city and all users, and a guarded Redis."""

    certificates: Certificates
    kafka: EmbeddedKafka
    redis: GuardedRedis

    def use_kafka(self, **changes: Any) -> dict[str, Any]:
        """Return Kafka's settings for a user with a password, over TLS."""
        return {
            "bootstrap_servers": [self.kafka.secure_bootstrap_servers],
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "username": "city",
            "password_file": "kafka.password",
            "ca_file": self.certificates.authority,
            **changes,
        }

    def use_redis(self, **changes: Any) -> dict[str, Any]:
        """Return Redis's settings for a user with a password and a client certificate, over TLS."""
        certificate, key = self.certificates.of("client")
        return {
            "url": f"rediss://{LOOPBACK}:{self.redis.port}/0",
            "username": "city",
            "password_file": "redis.password",
            "ca_file": self.certificates.authority,
            "certificate_file": certificate,
            "key_file": key,
            **changes,
        }

    def send(self, topic: str, value: bytes) -> None:
        """Write a record as an operator."""
        with closing(KafkaConnections((self.kafka.bootstrap_servers,)).create_producer()) as producer:
            producer.send(topic, value=value).get(timeout=10)

    def read(self, topic: str) -> list[bytes]:
        """Return the values of a topic, as an operator."""
        return [record.value for record in read_topic((self.kafka.bootstrap_servers,), topic)]


class Run(Instance):
    """`location-monitor` as a separate process, and when it logged what."""

    def __init__(self, log: Path, *words: str, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(log, CLI, *words, environment={"PATH": "/usr/bin:/bin", **(environ or {})})
        self._started, self._started_at = time.monotonic(), time.time()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    @property
    def shown_secrets(self) -> list[str]:
        """The planted secrets in the output."""
        return [secret for secret in SECRETS if secret in self.text]

    def _seconds(self, stamp: str) -> float:
        return datetime.fromisoformat(stamp).timestamp() - self._started_at

    def logged_at(self, pattern: str) -> float:
        """Return the seconds from the start to the first line with a pattern."""
        line = next((line for line in self.text.splitlines() if re.search(pattern, line)), None)
        assert line is not None, f"not logged: {pattern}; the log is\n{self.text}"
        return self._seconds(line.partition(" ")[0])

    def lines_between(self, first: float, last: float) -> int:
        """Return the number of lines logged between two times in seconds from the start, without those per tick."""
        return sum(first <= self._seconds(stamp) < last for stamp in _STAMP.findall(self.text))


def write_configuration(
    folder: Path, kafka: Mapping[str, Any], redis_settings: Mapping[str, Any], service: str = "city"
) -> Path:
    """Write a configuration of the city, or of a service like it, into a folder with the files that it names.

    A setting that is None removes the key.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "locations.csv").write_text("location_id\ninn\nmill\n", encoding="utf-8")
    for name, secret in (
        ("person.key", PERSON_KEY),
        ("kafka.password", KAFKA_SECRET),
        ("redis.password", REDIS_SECRET),
    ):
        (folder / name).write_text(f"{secret}\n", encoding="utf-8")
        (folder / name).chmod(0o600)
    topics = dict(zip(("visits", "alerts", "dead_letters"), list_topics(service).values(), strict=True))
    kafka = CITY["kafka"] | {"topics": topics} | kafka
    tree = CITY | {
        "service": CITY["service"] | {"name": service},
        "kafka": {key: value for key, value in kafka.items() if value is not None},
        "redis": {key: value for key, value in redis_settings.items() if value is not None},
    }
    (folder / "city.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    return folder / "city.yaml"


def make_topics(server: EmbeddedKafka, folder: Path, service: str = "city") -> None:
    """Create the topics as an operator."""
    plain = {"bootstrap_servers": [server.bootstrap_servers]}
    valid = load_valid_config(write_configuration(folder, plain, {"url": "redis://localhost"}, service), {})
    config, settings = valid.config, prepare_settings(valid, PERSON_KEY.encode())
    wanted = list_topic_needs(settings.parameters, config.kafka)
    set_up(settings.kafka, settings.parameters, wanted, Beginning.UNSPECIFIED, SystemClock().now(), 1)


def grant(server: EmbeddedKafka, user: str, rights: Iterable[Right], service: str) -> None:
    with closing(KafkaConnections((server.bootstrap_servers,)).create_admin()) as admin:
        admin.create_acls([right.acl(user, service) for right in rights])


def name_auditor_without(right: Right) -> str:
    """Return the name of the auditor's user who lacks a right."""
    return f"{AUDITOR}-{right.lacked_by}"


def list_users() -> Iterator[tuple[str, list[Right], str]]:
    """Yield the users of the guarded broker, their rights, and the service whose resources these rights are for.

    For each right that `run` or the auditor needs, there is a user with all others. For each right that `topics
    --create` needs, there is a user with all others for a service of the user's name.
    """
    yield "city", [*KAFKA_RIGHTS], "city"
    yield MAKER, [*ALL_KAFKA_RIGHTS], MAKER
    yield SENDER, [Right("topic", "input", "Write", create=False)], "city"
    yield AUDITOR, [*AUDITOR_RIGHTS], "city"
    for lacking in KAFKA_RIGHTS:
        yield lacking.lacked_by, [right for right in KAFKA_RIGHTS if right != lacking], "city"
    for lacking in AUDITOR_RIGHTS:
        yield name_auditor_without(lacking), [right for right in AUDITOR_RIGHTS if right != lacking], "city"
    for lacking in (right for right in ALL_KAFKA_RIGHTS if right.needed_to_create):
        yield lacking.lacked_by, [right for right in ALL_KAFKA_RIGHTS if right != lacking], lacking.lacked_by


def read_safe_answers(server: EmbeddedKafka, topic: str = "safety-alerts") -> list[bytes]:
    """Return the keys of all "safe" answers."""
    return [record.key for record in read_topic((server.bootstrap_servers,), topic) if b'"safe"' in record.value]

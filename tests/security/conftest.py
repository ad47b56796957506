"""Real servers with TLS, users and access lists. Certificates are created here; passwords must appear in no output."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import redis
import trustme
import yaml
from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

from monitor.config.valid_config import load_valid_config
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.topics import list_topic_needs
from monitor.operate.servers import EmbeddedKafka, EmbeddedValkey, NodeSettings, ValkeySettings
from monitor.operate.servers.kafka import SECURE_LISTENER
from monitor.operate.servers.ports import LOOPBACK, ReservedPort
from monitor.operate.servers.secure_servers import make_node_settings, make_tls_properties
from monitor.service.create_topics import Beginning, set_up
from monitor.service.wiring import prepare_settings
from monitor.time.clock import SystemClock
from tests.kit.certificates import write_certificate
from tests.kit.processes import CLI, Instance
from tests.security.rights import (
    ALL_KAFKA_RIGHTS,
    AUDITOR,
    AUDITOR_RIGHTS,
    KAFKA_RIGHTS,
    REDIS_SECRET,
    Right,
    list_redis_rules,
    list_topics,
)
from tests.shared_kafka import SharedKafka

ROOT = Path(__file__).parents[2]
KAFKA_SECRET, OPERATOR_SECRET, PERSON_KEY = (
    "planted-for-kafka",
    "planted-for-operators",
    "Gnx1AzlKlq/kglUmL4H4CqRM2z23FHwGiV9DkL8+eyg=",
)
SECRETS = (KAFKA_SECRET, REDIS_SECRET, PERSON_KEY, OPERATOR_SECRET)
MAKER = "maker"
"""A user who may create the topics of the service of that name, and has no right that only `run` needs."""

SENDER = "sender"
"""A user who may write to the input of the city, and has no other right."""

_STAMP = re.compile(r"^\S+Z(?= [A-Z]+ (?!monitor\.ticks\.loop: tick \d))", re.MULTILINE)
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required {};"

CITY: dict[str, Any] = {
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

    def store(self, name: str) -> str:
        """Return the path of the file with key and certificate, as Kafka needs it."""
        return str(self.folder / f"{name}.pem")


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    authority, stranger = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    stranger.cert_pem.write_to_path(folder / "stranger.pem")
    issued = {
        "server": authority.issue_cert(LOOPBACK),
        "client": authority.issue_cert("city@example.org", common_name="city"),
        "impostor": stranger.issue_cert("city@example.org", common_name="city"),
    }
    for name, leaf in issued.items():
        write_certificate(folder, name, leaf)
    return Certificates(folder)


@pytest.fixture(scope="module")
def guarded_kafka(kafka: SharedKafka, certificates: Certificates) -> Iterator[EmbeddedKafka]:
    """The Kafka of `servers --secure`, on which users may also log in with the mechanism PLAIN."""
    lacking = (*(right.lacked_by for right in ALL_KAFKA_RIGHTS), *map(name_auditor_without, AUDITOR_RIGHTS))
    users = " ".join(f'user_{name}="{KAFKA_SECRET}"' for name in ("city", MAKER, AUDITOR, *lacking))
    secure = make_node_settings(Path(certificates.store("server")), Path(certificates.authority))
    plain = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        f"{SECURE_LISTENER}plain.sasl.jaas.config": _PLAIN.format(users),
    }
    with EmbeddedKafka(replace(secure, properties={**secure.properties, **plain})) as server:
        with closing(KafkaConnections((server.bootstrap_servers,)).create_admin()) as admin:
            admin.alter_user_scram_credentials(
                [
                    UserScramCredentialUpsertion(user, ScramMechanism.SCRAM_SHA_512, KAFKA_SECRET)
                    for user in ("city", SENDER)
                ]
            )
        yield server


@pytest.fixture(scope="module")
def mutual_kafka(kafka: SharedKafka, certificates: Certificates) -> Iterator[EmbeddedKafka]:
    """A Kafka with mutual TLS, which refuses clients without a certificate of the authority."""
    tls = make_tls_properties(Path(certificates.store("server")), Path(certificates.authority))
    properties = tls | {f"{SECURE_LISTENER}ssl.client.auth": "required"}
    with EmbeddedKafka(NodeSettings(properties=properties, secure_protocol="SSL")) as server:
        yield server


@dataclass(frozen=True)
class GuardedRedis:
    """A Redis with TLS, an access list and required passwords. `operator` is the URL of its plain port."""

    port: int
    plain_port: int

    @property
    def url(self) -> str:
        return f"rediss://{LOOPBACK}:{self.port}/0"

    @property
    def operator(self) -> str:
        return f"redis://:{OPERATOR_SECRET}@{LOOPBACK}:{self.plain_port}/0"


@pytest.fixture(scope="module")
def guarded_redis(redis_server: EmbeddedValkey, certificates: Certificates) -> Iterator[GuardedRedis]:
    """Debian's Redis with TLS, which requires client certificates, the default. The wheel's Valkey has no TLS."""
    certificate, key = certificates.of("server")
    port = ReservedPort()
    tls = ("--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", certificates.authority)
    access = ("--tls-auth-clients", "yes", "--requirepass", OPERATOR_SECRET)
    binary = shutil.which("redis-server")
    settings = ValkeySettings(binary=Path(str(binary)), arguments=("--tls-port", str(port.number), *tls, *access))
    with EmbeddedValkey(settings) as server:
        guarded = GuardedRedis(port.number, int(server.url.rpartition(":")[2].partition("/")[0]))
        with closing(redis.Redis.from_url(guarded.operator)) as operator:
            for user, more in {"city": [], "without-zadd": ["-zadd"]}.items():
                operator.execute_command("ACL", "SETUSER", user, *list_redis_rules(), *more)  # type: ignore[no-untyped-call]  # redis-py gives it no types
        yield guarded
    port.release()


def write_configuration(
    folder: Path,
    kafka: Mapping[str, Any],
    redis_settings: Mapping[str, Any],
    service: str = "city",
    more: Mapping[str, Any] | None = None,
) -> Path:
    """Write a configuration of the city, or of a service like it, into a folder with the files that it names.

    A setting that is None removes the key. `more`: further sections.
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
        **(more or {}),
    }
    (folder / "city.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    return folder / "city.yaml"


@pytest.fixture(scope="session")
def configure() -> Callable[..., Path]:
    return write_configuration


@pytest.fixture(scope="session")
def secrets() -> tuple[str, ...]:
    return SECRETS


class Run(Instance):
    """`location-monitor` as a separate process, and when it logged what."""

    def __init__(self, log: Path, *words: str, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(log, CLI, *words, environment={"PATH": "/usr/bin:/bin", **(environ or {})})
        self._started, self._started_at = time.monotonic(), time.time()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

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


@pytest.fixture(scope="module")
def start_command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def start(*words: str, environ: Mapping[str, str] | None = None) -> Run:
        runs.append(Run(tmp_path_factory.mktemp("run") / "log", *words, environ=environ))
        return runs[-1]

    yield start
    for run in runs:
        run.end()


@contextmanager
def _admin(server: EmbeddedKafka) -> Iterator[Any]:
    with closing(KafkaConnections((server.bootstrap_servers,)).create_admin()) as admin:
        yield admin


def name_auditor_without(right: Right) -> str:
    """Return the name of the auditor's user who lacks a right."""
    return f"{AUDITOR}-{right.lacked_by}"


def make_topics(server: EmbeddedKafka, folder: Path, service: str = "city") -> None:
    """Create the topics as an operator."""
    plain = {"bootstrap_servers": [server.bootstrap_servers]}
    valid = load_valid_config(write_configuration(folder, plain, {"url": "redis://localhost"}, service), {})
    config, settings = valid.config, prepare_settings(valid, PERSON_KEY.encode())
    wanted = list_topic_needs(settings.parameters, config.kafka)
    set_up(settings.kafka, settings.parameters, wanted, Beginning.UNSPECIFIED, SystemClock().now(), 1)


def grant(server: EmbeddedKafka, user: str, rights: Iterable[Right], service: str) -> None:
    with _admin(server) as admin:
        admin.create_acls([right.acl(user, service) for right in rights])


@dataclass(frozen=True)
class GuardedCity:
    """The guarded broker with the city's topics, and users who lack one right each.

    For each right that `run` needs, there is a user with all others. For each right that only `topics --create` needs,
    there is a user with all others for a service of the user's name.
    """

    kafka: EmbeddedKafka


@pytest.fixture(scope="module")
def guarded_city(guarded_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> GuardedCity:
    make_topics(guarded_kafka, tmp_path_factory.mktemp("topics"))
    grant(guarded_kafka, "city", KAFKA_RIGHTS, "city")
    for lacking in KAFKA_RIGHTS:
        grant(guarded_kafka, lacking.lacked_by, (r for r in KAFKA_RIGHTS if r != lacking), "city")
    grant(guarded_kafka, MAKER, ALL_KAFKA_RIGHTS, MAKER)
    grant(guarded_kafka, SENDER, [Right("topic", "input", "Write", create=False)], "city")
    grant(guarded_kafka, AUDITOR, AUDITOR_RIGHTS, "city")
    for lacking in AUDITOR_RIGHTS:
        grant(
            guarded_kafka,
            name_auditor_without(lacking),
            (right for right in AUDITOR_RIGHTS if right != lacking),
            "city",
        )
    for lacking in (right for right in ALL_KAFKA_RIGHTS if right.needed_to_create):
        others = (right for right in ALL_KAFKA_RIGHTS if right != lacking)
        grant(guarded_kafka, lacking.lacked_by, others, lacking.lacked_by)
    return GuardedCity(guarded_kafka)


@pytest.fixture(scope="module")
def village(
    guarded_city: GuardedCity, guarded_redis: GuardedRedis, tmp_path_factory: pytest.TempPathFactory
) -> tuple[EmbeddedKafka, Callable[..., None]]:
    """A broker on which a service `village` may run as the city does, and a function that changes its Redis rights."""
    server = guarded_city.kafka
    make_topics(server, tmp_path_factory.mktemp("village"), "village")
    grant(server, "city", KAFKA_RIGHTS, "village")

    def redis_user(*rules: str) -> None:
        _set_redis_user(guarded_redis, "village", *rules)

    redis_user(*(rule.replace("city", "village") for rule in list_redis_rules()))
    return server, redis_user


@pytest.fixture(scope="module")
def hamlet(
    guarded_city: GuardedCity, guarded_redis: GuardedRedis, tmp_path_factory: pytest.TempPathFactory
) -> EmbeddedKafka:
    """A broker with a service `hamlet`, whose partitions only users without a right to transactional ids take over."""
    server = guarded_city.kafka
    make_topics(server, tmp_path_factory.mktemp("hamlet"), "hamlet")
    for lacking in (right for right in KAFKA_RIGHTS if right.kind == "transactional id"):
        grant(server, lacking.lacked_by, (r for r in KAFKA_RIGHTS if r != lacking), "hamlet")
    _set_redis_user(guarded_redis, "hamlet", *(rule.replace("city", "hamlet") for rule in list_redis_rules()))
    return server


def _set_redis_user(server: GuardedRedis, name: str, *rules: str) -> None:
    with closing(redis.Redis.from_url(server.operator)) as operator:
        operator.execute_command("ACL", "SETUSER", name, *rules)  # type: ignore[no-untyped-call]  # redis-py gives it no types

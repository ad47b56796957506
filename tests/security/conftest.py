"""Real servers that let in only who is trusted: certificates made here, passwords that must show up nowhere."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
import trustme
import yaml
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from monitor.clock import SystemClock
from monitor.config import load_config, load_registry
from monitor.connections import KafkaConnections
from monitor.embedded import EmbeddedKafka, EmbeddedValkey, KafkaSettings, ValkeySettings
from monitor.embedded.ports import LOOPBACK, ReservedPort
from monitor.operate.setup import Beginning, set_up
from monitor.operate.topics import needs
from monitor.service import settings_of

ROOT = Path(__file__).parents[2]
KAFKA_SECRET, REDIS_SECRET, PERSON_KEY = "planted-for-kafka", "planted-for-redis", "planted-for-people"
SECRETS = (KAFKA_SECRET, REDIS_SECRET, PERSON_KEY)
TOPICS = {"input": "visits", "output": "safety-alerts", "dead letters": "dead-letters"}
WITHOUT = {
    "topicless": "topic input",
    "groupless": "group <name>",
    "releaseless": "group <name>-release",
    "ledgerless": "transactional id",
}
"""Users that lack what the operations page gives for resources that begin so. The one without the input group lacks
the other as well: it would own the ledger partition that `ledgerless` is to try for."""

_JAAS = "org.apache.kafka.common.security.{0}.{1}LoginModule required {2};"

CITY: dict[str, Any] = {
    "service": {"name": "city", "shards": 2},
    "clock": {"slot": "2s", "origin": "2026-01-05T00:00:00Z", "release_delay": "500ms", "tolerance": "100ms"},
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
        "partitions": {"visits": 1, "alerts": 1},
    },
    "metrics": {"port": 0},
}


@dataclass(frozen=True)
class Papers:
    """Certificates and keys as files; those of a stranger are of an authority that nobody trusts."""

    folder: Path

    @property
    def authority(self) -> str:
        return str(self.folder / "authority.pem")

    @property
    def stranger(self) -> str:
        return str(self.folder / "stranger.pem")

    def of(self, who: str) -> tuple[str, str]:
        """The certificate of `server` (for 127.0.0.1 alone), `client` or `impostor`, and its key."""
        return str(self.folder / f"{who}.crt"), str(self.folder / f"{who}.key")

    def store(self, who: str) -> str:
        """Key and certificate in one file, as Kafka wants them."""
        return str(self.folder / f"{who}.pem")


@pytest.fixture(scope="session")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    folder = tmp_path_factory.mktemp("papers")
    authority, stranger = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    stranger.cert_pem.write_to_path(folder / "stranger.pem")
    issued = {
        "server": authority.issue_cert(LOOPBACK),
        "client": authority.issue_cert("city@example.org", common_name="city"),
        "impostor": stranger.issue_cert("city@example.org", common_name="city"),
    }
    for name, leaf in issued.items():
        secret = load_pem_private_key(leaf.private_key_pem.bytes(), None)
        key = secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())  # the one form that Kafka reads
        chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
        for suffix, content in (("key", key), ("crt", chain), ("pem", key + chain)):
            (folder / f"{name}.{suffix}").write_bytes(content)
    return Papers(folder)


def _tls(papers: Papers) -> dict[str, str]:
    return {
        "listener.name.secure.ssl.keystore.type": "PEM",
        "listener.name.secure.ssl.keystore.location": papers.store("server"),
        "listener.name.secure.ssl.truststore.type": "PEM",
        "listener.name.secure.ssl.truststore.location": papers.authority,
    }


@pytest.fixture(scope="session")
def guarded_kafka(kafka: EmbeddedKafka, papers: Papers) -> Iterator[EmbeddedKafka]:
    """SASL over TLS, and an authorizer: whoever is not named may do nothing; the plain listener is the operator's."""
    users = " ".join(f'user_{name}="{KAFKA_SECRET}"' for name in ("city", *WITHOUT))
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.secure.plain.sasl.jaas.config": _JAAS.format("plain", "Plain", users),
        "listener.name.secure.scram-sha-512.sasl.jaas.config": _JAAS.format("scram", "Scram", ""),
    }
    with EmbeddedKafka(KafkaSettings(properties=properties | _tls(papers), secure_protocol="SASL_SSL")) as server:
        with closing(KafkaConnections((server.bootstrap_servers,)).admin()) as admin:
            admin.alter_user_scram_credentials(
                [UserScramCredentialUpsertion("city", ScramMechanism.SCRAM_SHA_512, KAFKA_SECRET)]
            )
        yield server


@pytest.fixture(scope="session")
def mutual_kafka(kafka: EmbeddedKafka, papers: Papers) -> Iterator[EmbeddedKafka]:
    """TLS on both sides: whoever shows no certificate of the authority is not let in."""
    properties = _tls(papers) | {"listener.name.secure.ssl.client.auth": "required"}
    with EmbeddedKafka(KafkaSettings(properties=properties, secure_protocol="SSL")) as server:
        yield server


@dataclass(frozen=True)
class GuardedRedis:
    """Redis with TLS and an access list; `operator` is the URL of its plain port."""

    port: int
    operator: str

    @property
    def url(self) -> str:
        return f"rediss://{LOOPBACK}:{self.port}/0"


@pytest.fixture(scope="session")
def guarded_redis(redis_server: EmbeddedValkey, papers: Papers) -> Iterator[GuardedRedis]:
    """Debian's Redis: the Valkey of the wheel is built without TLS."""
    certificate, key = papers.of("server")
    port = ReservedPort()
    shown = ("--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", papers.authority)
    arguments = ("--tls-port", str(port.number), *shown, "--tls-auth-clients", "no")
    binary = shutil.which("redis-server")
    with EmbeddedValkey(ValkeySettings(binary=Path(str(binary)), arguments=arguments)) as server:
        rules = _redis_rules()
        with closing(redis.Redis.from_url(server.url)) as operator:
            for user, more in {"city": [], "mute": ["-eval"]}.items():
                operator.execute_command("ACL", "SETUSER", user, *rules, *more)  # type: ignore[no-untyped-call]  # redis-py gives it no types
        yield GuardedRedis(port.number, server.url)
    port.release()


def _operations() -> str:
    return (ROOT / "docs/operations.md").read_text(encoding="utf-8")


def _redis_rules() -> list[str]:
    line = re.search(r"^user location-monitor (.+)$", _operations(), re.MULTILINE)
    assert line is not None
    return [rule.replace("PASSWORD", REDIS_SECRET) for rule in shlex.split(line[1].replace(">", "'>'"))]


def _kafka_rights(ledger_id: str) -> dict[str, list[tuple[ResourcePattern, str]]]:
    """By resource of the operations page: the pattern and operations that it lists."""
    section = _operations().partition("### Access")[2].partition("\nEveryone else")[0]
    rights: dict[str, list[tuple[ResourcePattern, str]]] = {}
    for resource, operations, purpose in re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", section, re.MULTILINE):
        if resource in {"resource", "---"} or "--create" in purpose:
            continue
        kind, _, name = resource.replace(",", "").replace("`", "").partition(" ")
        literal, prefixed = ACLResourcePatternType.LITERAL, ACLResourcePatternType.PREFIXED
        if kind == "topic":
            pattern = ResourcePattern(ResourceType.TOPIC, TOPICS[name], literal)
        elif kind == "group":
            pattern = ResourcePattern(ResourceType.GROUP, name.replace("<name>", "city"), literal)
        else:
            kind, name = "transactional", "id"
            pattern = ResourcePattern(ResourceType.TRANSACTIONAL_ID, ledger_id, prefixed)
        rights[f"{kind} {name}"] = [(pattern, operation) for operation in operations.split(", ")]
    return rights


def _acl(user: str, pattern: ResourcePattern, operation: str) -> ACL:
    word = re.sub(r"(?<!^)(?=[A-Z])", "_", operation).upper()
    return ACL(f"User:{user}", "*", ACLOperation[word], ACLPermissionType.ALLOW, pattern)


def configured(folder: Path, kafka: Mapping[str, Any], redis_settings: Mapping[str, Any]) -> Path:
    """A configuration of the city in a folder of its own, with the files that it names; None takes a key out."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "locations.csv").write_text("location_id\ninn\nmill\n", encoding="utf-8")
    for name, secret in (
        ("person.key", PERSON_KEY),
        ("kafka.password", KAFKA_SECRET),
        ("redis.password", REDIS_SECRET),
    ):
        (folder / name).write_text(f"{secret}\n", encoding="utf-8")
    tree = CITY | {
        "kafka": {key: value for key, value in (CITY["kafka"] | kafka).items() if value is not None},
        "redis": {key: value for key, value in redis_settings.items() if value is not None},
    }
    (folder / "city.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    return folder / "city.yaml"


@pytest.fixture(scope="session")
def configure() -> Callable[[Path, Mapping[str, Any], Mapping[str, Any]], Path]:
    return configured


@pytest.fixture(scope="session")
def secrets() -> tuple[str, ...]:
    return SECRETS


class Run:
    """`location-monitor` as a process of its own, whose standard output and error go to a file."""

    def __init__(self, log: Path, *words: str, environ: Mapping[str, str] | None = None) -> None:
        self._log = log
        self._environ = dict(environ or {})
        self._argv = [sys.executable, "-m", "monitor.cli", *words]
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                self._argv, cwd=ROOT, stdout=output, stderr=output, env={"PATH": "/usr/bin:/bin", **self._environ}
            )
        self._began = time.monotonic()

    @property
    def text(self) -> str:
        return self._log.read_text(encoding="utf-8")

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def arguments(self) -> str:
        """As `ps` shows them to everyone on the machine."""
        return Path(f"/proc/{self.process.pid}/cmdline").read_bytes().decode()

    def stop(self) -> int:
        self.process.terminate()
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def start(*words: str, environ: Mapping[str, str] | None = None) -> Run:
        runs.append(Run(tmp_path_factory.mktemp("run") / "log", *words, environ=environ))
        return runs[-1]

    yield start
    for run in runs:
        run.process.kill()
        run.process.wait()


@contextmanager
def _admin(server: EmbeddedKafka) -> Iterator[Any]:
    with closing(KafkaConnections((server.bootstrap_servers,)).admin()) as admin:
        yield admin


def make_topics(server: EmbeddedKafka, folder: Path) -> str:
    """An operator makes the topics; the output topic's id."""
    plain = {"bootstrap_servers": [server.bootstrap_servers]}
    config = load_config(configured(folder, plain, {"url": "redis://localhost"}), {})
    settings = settings_of(config, load_registry(config.locations.file), PERSON_KEY.encode())
    groups = (settings.input_group, settings.release_group)
    wanted = needs(settings.scheme, config.kafka, simulated=False)
    set_up(settings.kafka, settings.scheme, wanted, groups, Beginning.UNSAID, SystemClock().now(), 1)
    with _admin(server) as admin:
        return str(admin.describe_topics([TOPICS["output"]])[0]["topic_id"])


@pytest.fixture(scope="session")
def guarded_city(guarded_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> EmbeddedKafka:
    """The guarded broker with the topics, the rights of the operations page, and users that lack some of them."""
    rights = _kafka_rights(make_topics(guarded_kafka, tmp_path_factory.mktemp("topics")))
    assert set(WITHOUT.values()) <= set(rights)
    granted = [
        _acl(user, pattern, operation)
        for user, lacking in {"city": None, **WITHOUT}.items()
        for resource, some in rights.items()
        if lacking is None or not resource.startswith(lacking)
        for pattern, operation in some
    ]
    with _admin(guarded_kafka) as admin:
        admin.create_acls(granted)
    return guarded_kafka

"""Kafka of the compose file requires a login: a real broker with the file's settings gives each user its few rights."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.errors import AuthorizationError

from monitor.config.load import load_config
from monitor.errors import UnreachableError
from monitor.kafka.connections import KafkaConnections, build_kafka_connections
from monitor.ledger.read_ledger import read_partition
from monitor.operate.servers import EmbeddedKafka, EmbeddedValkey, NodeSettings
from monitor.operate.servers.ports import ReservedPort
from tests.conftest import Eventually
from tests.deploy.compose_file import BASH, VARIABLE, create_passwords, fill_in, translate
from tests.docs.blocks import read_blocks
from tests.docs.conftest import Document
from tests.kit.kafka_acls import parse_call
from tests.kit.processes import CLI, Instance, fetch
from tests.security.rights import ALL_KAFKA_RIGHTS, AUDITOR_RIGHTS, Right
from tests.shared_kafka import SharedKafka

pytestmark = pytest.mark.long

TOPICS: Final = ("visits", "safety-alerts", "visits.dead-letters")
MAY_READ: Final = {"page": {"safety-alerts"}, "subscriber": {"safety-alerts"}, "auditor": {"safety-alerts", "visits"}}
MAY_WRITE: Final = {"producer": {"visits"}}
ALL: Final = "--operation All --topic visits"
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
PREFIX: Final = "LOCATION_MONITOR__KAFKA__"
PERSON_KEY: Final = "Gnx1AzlKlq/kglUmL4H4CqRM2z23FHwGiV9DkL8+eyg="
SHIM: Final = '#!/bin/sh\ncat "$4" > login\necho "$@" >> calls\n'
"""In the place of a tool of Kafka: it keeps its arguments, and the file after --command-config."""


@pytest.fixture(scope="module")
def passwords(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of the file that the command in the first lines of the compose file creates."""
    folder = tmp_path_factory.mktemp("passwords")
    created = create_passwords(folder)
    assert (folder / "deploy/.env").stat().st_mode & 0o777 == 0o600
    return created


@dataclass(frozen=True)
class Guarded:
    """A broker with the settings of the compose file, and the file's services with their passwords.

    `inside` and `outside` are the addresses of its listeners. `without_login` is one that only the test adds: clients
    there are anonymous.
    """

    config_file: Path
    services: Mapping[str, Any]
    passwords: Mapping[str, str]
    inside: str
    outside: str
    without_login: str

    def environ(self, service: str) -> dict[str, str]:
        """Return the environment of a service, with the address of this broker."""
        environment: dict[str, str] = self.services[service]["environment"]
        return environment | {f"{PREFIX}BOOTSTRAP_SERVERS": json.dumps([self.inside])}

    def connect(self, user: str, **changes: str) -> KafkaConnections:
        """Return the connections of a user. `changes`: other values of `kafka`."""
        login = {"USERNAME": user, "PASSWORD": self.passwords[f"KAFKA_{user.upper()}_PASSWORD"]} | changes
        environ = self.environ("page") | {f"{PREFIX}{key}": value for key, value in login.items()}
        config = load_config(self.config_file, environ)
        return build_kafka_connections(config.kafka, config.service.name)


def run_shimmed(folder: Path, words: list[str], login: str) -> list[str]:
    """Run a command that calls tools of Kafka, and return the arguments of the calls."""
    for tool in ("kafka-acls.sh", "kafka-broker-api-versions.sh"):
        (folder / tool).write_text(SHIM, encoding="utf-8")
        (folder / tool).chmod(0o755)
    environ = {"PATH": f"{folder}:{os.environ['PATH']}", "BROKER_LOGIN": login}
    subprocess.run(words, cwd=folder, env=environ, check=True, timeout=60)
    assert (folder / "login").read_text(encoding="utf-8") == f"{login}\n"
    return (folder / "calls").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def guarded(
    kafka: SharedKafka,
    root: Path,
    compose: dict[str, Any],
    passwords: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Guarded]:
    """A broker with the settings and the rights of the compose file. Only addresses and folders are those of a test."""
    services = fill_in(compose, passwords)["services"]
    properties = translate(services["kafka"]["environment"])
    ports = {name: ReservedPort() for name in ("INSIDE", "OUTSIDE", "CONTROLLER", "TEST")}
    addresses = {name: port.address for name, port in ports.items()}
    for key in ("listeners", "advertised.listeners"):
        moved = re.sub(r"(\w+)://[^:,]*:\d+", lambda found: f"{found[1]}://{addresses[found[1]]}", properties[key])
        properties[key] = f"{moved},TEST://{addresses['TEST']}"
    properties["listener.security.protocol.map"] += ",TEST:PLAINTEXT"
    properties["controller.quorum.voters"] = f"1@{addresses['CONTROLLER']}"
    del properties["log.dirs"]
    with ExitStack() as stack:
        stack.enter_context(EmbeddedKafka(NodeSettings(properties, port=ports["TEST"].number)))
        for port in ports.values():
            stack.callback(port.release)
        config = root / "deploy/config.yaml"
        broker = Guarded(config, services, passwords, addresses["INSIDE"], addresses["OUTSIDE"], addresses["TEST"])
        script, login = str(root / "deploy/kafka-rights.sh"), services["rights"]["environment"]["BROKER_LOGIN"]
        calls = run_shimmed(tmp_path_factory.mktemp("rights"), [BASH, script], login)
        with broker.connect("broker").open_admin() as admin:
            admin.create_acls([acl for call in calls for acl in parse_call(call)])
        yield broker


@pytest.fixture(scope="module")
def start(guarded: Guarded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Instance]]:
    """A function that runs the command of a service with its environment. Only addresses are those of a test."""
    with EmbeddedValkey() as store, ExitStack() as stack:
        moved = {
            "LOCATION_MONITOR__REDIS__URL": store.url,
            "LOCATION_MONITOR__VISITS__PERSON_KEY": PERSON_KEY,
            "LOCATION_MONITOR__METRICS__PORT": "0",
            "LOCATION_MONITOR__PAGE__METRICS_PORT": "0",
        }

        def run(service: str) -> Instance:
            words = guarded.services[service].get("command", ["run", "--config", "/etc/location-monitor/config.yaml"])
            words = [word.replace("/etc/location-monitor/config.yaml", str(guarded.config_file)) for word in words]
            words = ["0" if word == "9111" else word for word in words]
            words += ["--metrics-port", "0"] if service == "auditor" else []
            log = tmp_path_factory.mktemp(service) / "log"
            words = [word.replace("/srv/page", str(log.parent / "page")) for word in words]
            environment = {"PATH": "/usr/bin:/bin"} | moved | guarded.environ(service)
            instance = Instance(log, CLI, *words, environment=environment)
            stack.callback(instance.end)
            return instance

        yield run


@pytest.fixture(scope="module")
def topics(start: Callable[[str], Instance], guarded: Guarded) -> None:
    """The topics of the service, as the file's service `topics` creates them, with a record that is no visit."""
    creating = start("topics")
    assert creating.wait(120) == 0, creating.text
    send(guarded.connect("broker"), "visits")


def describe(acl: ACL) -> tuple[str, ...]:
    """Return an entry of an access list as text."""
    resource = acl.resource_pattern
    kind, pattern = ResourceType(resource.resource_type).name, ACLResourcePatternType(resource.pattern_type).name
    return acl.principal, kind, resource.resource_name, pattern, ACLOperation(acl.operation).name


def test_passwords_are_required(compose: dict[str, Any], passwords: dict[str, str], root: Path) -> None:
    """Compose requires each variable of the file, with a message that says where; git ignores the file."""
    used = VARIABLE.findall(json.dumps(compose))
    required = {name for name, message in used if "first lines of compose.yaml" in message}
    assert required == {name for name, _message in used if name} == passwords.keys()
    assert len({*passwords.values()}) == len(passwords)
    assert all(re.fullmatch("[0-9a-f]{48}", password) for password in passwords.values())
    assert ".env" in (root / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_every_listener_requires_a_login(compose: dict[str, Any]) -> None:
    """Each listener uses SASL, also those of the broker and its controller."""
    properties = translate(compose["services"]["kafka"]["environment"])
    protocols = dict(pair.split(":") for pair in properties["listener.security.protocol.map"].split(","))
    assert {*re.findall(r"(\w+)://", properties["listeners"])} == protocols.keys()
    assert {*protocols.values()} == {"SASL_PLAINTEXT"}


def test_rights_are_the_documented_ones(guarded: Guarded) -> None:
    """The broker has exactly the rights of docs/operations.md."""
    config = load_config(guarded.config_file, {})
    names = config.kafka.topics
    topics = {"input": names.visits, "output": names.alerts, "dead letters": names.dead_letters}
    read_answers = tuple(right for right in AUDITOR_RIGHTS if right.name == "output")
    documented: dict[str, tuple[Right, ...]] = {
        "service": ALL_KAFKA_RIGHTS,
        "auditor": AUDITOR_RIGHTS,
        "page": read_answers,
        "subscriber": read_answers,
        "producer": (Right("topic", "input", "Write", create=False),),
    }
    wanted = {
        describe(right.acl(user, config.service.name, topics))
        for user, rights in documented.items()
        for right in rights
    }
    every = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    with guarded.connect("broker").open_admin() as admin:
        found, _error = admin.describe_acls(ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, every))
    assert {describe(acl) for acl in found} == wanted


def refuses(action: Callable[..., object], *arguments: Any) -> bool:
    """Return whether the broker refuses an action because of missing rights."""
    try:
        action(*arguments)
    except Exception as error:
        causes = (error, error.__cause__, error.__context__)
        if any(isinstance(cause, AuthorizationError) for cause in causes):
            return True
        raise
    return False


def send(connections: KafkaConnections, topic: str) -> None:
    """Send a record. An idempotent producer would need a right before the one to write."""
    with closing(connections.create_producer(enable_idempotence=False)) as producer:
        producer.send(topic, value=b"no visit", partition=0).get(timeout=20)


def read(connections: KafkaConnections, topic: str) -> list[bytes]:
    """Return the values of a partition, read without a group."""
    return [record.value for _offset, record in read_partition(connections, topic, 0)]


@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize("user", ["page", "subscriber", "auditor", "producer", "anonymous"])
def test_user_has_no_other_right(user: str, guarded: Guarded) -> None:
    """The page reads answers; it reads no visit and writes nothing. A client without a login can do nothing."""
    anonymous = KafkaConnections((guarded.without_login,))
    connections = anonymous if user == "anonymous" else guarded.connect(user)
    readable, writable = MAY_READ.get(user, set()), MAY_WRITE.get(user, set())
    with closing(connections.create_admin()) as admin:
        assert {*admin.list_topics()} == readable | writable
        assert refuses(admin.create_topics, {"more": {"num_partitions": 1, "replication_factor": 1}})
        assert admin.create_acls(list(parse_call(f"--add --allow-principal User:{user} {ALL}")))["succeeded"] == []
    assert {name for name in TOPICS if not refuses(read, connections, name)} == readable
    assert {name for name in TOPICS if not refuses(send, connections, name)} == writable


# kafka-python does not close the socket of a connection that the broker ends while it begins.
@pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")
@pytest.mark.parametrize("listener", ["inside", "outside"])
@pytest.mark.parametrize("change", [{"PASSWORD": "guessed"}, {"USERNAME": "nobody"}, None], ids=str)
def test_login_is_required(listener: str, change: dict[str, str] | None, guarded: Guarded) -> None:
    """A client with another password, with an unknown user or without a login is refused by each listener."""
    address = getattr(guarded, listener)
    bootstrap = json.dumps([address])
    with guarded.connect("page", BOOTSTRAP_SERVERS=bootstrap).open_admin() as admin:
        admin.describe_cluster()
    anonymous = KafkaConnections((address,))
    refused = anonymous if change is None else guarded.connect("page", BOOTSTRAP_SERVERS=bootstrap, **change)
    with pytest.raises(UnreachableError, match="no broker answered" if change is None else "login"):
        refused.create_admin()


def test_health_check_logs_in(guarded: Guarded, tmp_path: Path) -> None:
    """The health check and the rights use the login of the broker, which the broker accepts."""
    login = guarded.services["kafka"]["environment"]["BROKER_LOGIN"]
    _cmd, *words = guarded.services["kafka"]["healthcheck"]["test"]
    (call,) = run_shimmed(tmp_path, [word.replace("/opt/kafka/bin/", "") for word in words], login)
    assert call.startswith("--bootstrap-server localhost:9092 --command-config /dev/fd/")
    settings = dict(line.split("=", 1) for line in re.sub(r"\\\n *", "", login).splitlines())
    password = guarded.passwords["KAFKA_BROKER_PASSWORD"]
    assert settings["sasl.jaas.config"] == f'{MODULE} required username="broker" password="{password}";'
    assert (settings["security.protocol"], settings["sasl.mechanism"]) == ("SASL_PLAINTEXT", "PLAIN")


@pytest.mark.usefixtures("topics")
def test_services_work_with_their_rights(
    guarded: Guarded, start: Callable[[str], Instance], eventually: Eventually, root: Path
) -> None:
    """The service reads a visit that the program of the page sends and writes its ledger, and all readers are ready."""
    page = root / "docs/operations.md"
    (program,) = (
        block.code
        for block in read_blocks(Document(page, page.read_text(encoding="utf-8")))
        if block.language == "python" and "KAFKA_PRODUCER_PASSWORD" in block.code
    )
    program = program.replace("localhost:29092", guarded.outside)
    subprocess.run([sys.executable, "-c", program], env={**os.environ, **guarded.passwords}, check=True, timeout=60)
    page_user = guarded.connect("page")
    created = len(read(page_user, "safety-alerts"))
    services = [start(name) for name in ("monitor", "auditor", "page", "watch")]
    eventually(lambda: [find_status(service) for service in services] == [200] * 4, deadline_seconds=120)
    broker = guarded.connect("broker")
    visits = [record.value for partition in range(4) for _offset, record in read_partition(broker, "visits", partition)]
    assert any(b"station-central" in value for value in visits)
    seen = f"location_monitor_records_total {len(visits):.1f}"
    eventually(lambda: seen in services[0].page(), deadline_seconds=60)
    eventually(lambda: b"no visit" in read(broker, "visits.dead-letters"), deadline_seconds=60)
    eventually(lambda: len(read(page_user, "safety-alerts")) > created, deadline_seconds=60)
    for service in services:
        assert service.code is None
        assert "lacks the permission" not in service.text


def find_status(service: Instance) -> int:
    """Return the status of the health of a service, or 0 until it listens. `watch` has metrics only."""
    page = "/metrics" if "published answers" in service.text else "/readyz"
    found = re.search(r"(?:on port |http://0\.0\.0\.0:)(\d+)(?=\n|/metrics)", service.text)
    return fetch(int(found[1]), page)[0] if found else 0

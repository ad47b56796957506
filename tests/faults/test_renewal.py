"""Authorities, certificates and passwords are replaced while the service runs, on servers that require all of them."""

from __future__ import annotations

import copy
import re
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, Final

import pytest
import redis
import trustme
from kafka.admin import ConfigResource, ConfigResourceType, ScramMechanism, UserScramCredentialUpsertion
from kafka.errors import KafkaError

from monitor.errors import UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.operate.servers import EmbeddedKafka, EmbeddedValkey, NodeSettings, ValkeySettings
from monitor.operate.servers.kafka import SECURE_LISTENER
from monitor.operate.servers.ports import LOOPBACK, ReservedPort
from monitor.service.wiring import Settings
from monitor.store.redis_client import create_client, read_server_time
from tests.faults.conftest import MakeTown
from tests.faults.oracles import settle
from tests.faults.test_batches import read_metric
from tests.faults.town import FaultTown, Shape
from tests.kit.certificates import write_certificate
from tests.kit.network import Forwarder, find_free_ports
from tests.kit.processes import Instance
from tests.kit.town import TWO_SECONDS, Town, build_tree, over_time
from tests.kit.waiting import until
from tests.shared_kafka import SharedKafka

_OPERATOR: Final = "planted-for-operators"
_FILES: Final = ("ca_file", "certificate_file", "key_file", "password_file")
_SLOTS: Final = {
    "clock": TWO_SECONDS["clock"] | {"slot": "4s", "release_delay": "2300ms"},
    "visits": TWO_SECONDS["visits"] | {"accept_ahead": "4s"},
}
"""Slots of four seconds: all connections of the service are made again within one."""


def find_trust(path: Path) -> dict[str, str]:
    """Return the settings of a broker that trusts the authorities in a file."""
    return {f"{SECURE_LISTENER}ssl.truststore.type": "PEM", f"{SECURE_LISTENER}ssl.truststore.location": str(path)}


def find_identity(path: Path) -> dict[str, str]:
    """Return the settings of a broker with the certificate and key in a file."""
    return {f"{SECURE_LISTENER}ssl.keystore.type": "PEM", f"{SECURE_LISTENER}ssl.keystore.location": str(path)}


class Site:
    """A broker and a Redis with TLS, client certificates and passwords, and the files of a client, old and new ones.

    The servers accept the old files. Clients reach the broker through a forwarder, which can cut their connections.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        old, new = trustme.CA(), trustme.CA()
        for name, authorities in (("old", [old]), ("both", [old, new]), ("new", [new])):
            (folder / f"{name}-ca_file").write_bytes(b"".join(one.cert_pem.bytes() for one in authorities))
        for name, authority in (("old", old), ("new", new)):
            write_certificate(folder, f"server-{name}", authority.issue_cert(LOOPBACK))
            write_certificate(folder, f"client-{name}", authority.issue_cert("city@example.org"))
            shutil.copy(folder / f"client-{name}.crt", folder / f"{name}-certificate_file")
            shutil.copy(folder / f"client-{name}.key", folder / f"{name}-key_file")
            (folder / f"{name}-password_file").write_text(f"secret-{name}\n", encoding="utf-8")
        self.kafka, self.forwarder = self._start_kafka(stack)
        self.redis, self._redis_port = self._start_redis(stack)

    def _start_kafka(self, stack: ExitStack) -> tuple[EmbeddedKafka, Forwarder]:
        plain, listening = find_free_ports(2)
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        properties = {
            "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{plain},SECURE://{LOOPBACK}:{listening}",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            f"{SECURE_LISTENER}scram-sha-512.sasl.jaas.config": login,
            f"{SECURE_LISTENER}ssl.client.auth": "required",
            f"{SECURE_LISTENER}ssl.allow.dn.changes": "true",  # each of the tests' certificates has another name
            **find_trust(self.folder / "both-ca_file"),
            **find_identity(self.folder / "server-old.pem"),
        }
        server = stack.enter_context(EmbeddedKafka(NodeSettings(properties, plain, secure_protocol="SASL_SSL")))
        host, _, port = server.secure_bootstrap_servers.partition(":")
        forwarder = Forwarder((host, int(port)), listening)
        stack.callback(forwarder.close)
        return server, forwarder

    def _start_redis(self, stack: ExitStack) -> tuple[EmbeddedValkey, int]:
        port = ReservedPort()
        stack.callback(port.release)
        tls = {"cert-file": "server-old.crt", "key-file": "server-old.key", "ca-cert-file": "both-ca_file"}
        words = [word for key, name in tls.items() for word in (f"--tls-{key}", str(self.folder / name))]
        arguments = ("--tls-port", str(port.number), "--requirepass", _OPERATOR, *words)
        settings = ValkeySettings(binary=Path(str(shutil.which("redis-server"))), arguments=arguments)
        return stack.enter_context(EmbeddedValkey(settings)), port.number

    def make_sections(self, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the sections `kafka` and `redis` of a client with its files in a folder."""
        files = {name: str(folder / name) for name in _FILES} | {"username": "city"}
        login = {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512"}
        kafka = {"bootstrap_servers": [f"{LOOPBACK}:{self.forwarder.port}"], **login, **files}
        return kafka, {"url": f"rediss://{LOOPBACK}:{self._redis_port}/0", **files}

    def renew(self, folder: Path, version: str, *names: str) -> None:
        """Replace files of a client, each in one step, as agents that renew certificates do."""
        folder.mkdir(exist_ok=True)
        for name in names:
            shutil.copy(self.folder / f"{version}-{name}", folder / "new")
            (folder / "new").replace(folder / name)

    def set_redis(self, *commands: str) -> None:
        """Run commands of an operator."""
        with closing(redis.Redis.from_url(self.redis.url.replace("//", f"//:{_OPERATOR}@"))) as operator:
            for command in commands:
                operator.execute_command(*command.split())  # type: ignore[no-untyped-call]  # redis-py gives it no types

    def set_kafka(self, settings: dict[str, str], password: str | None = None) -> None:
        """Change settings of the running broker, and the password of the user."""
        with closing(KafkaConnections((self.kafka.bootstrap_servers,)).create_admin()) as admin:
            resource = ConfigResource(ConfigResourceType.BROKER, "1", configs=settings)
            admin.alter_configs([resource], raise_on_unknown=False)
            if password:
                changed = UserScramCredentialUpsertion("city", ScramMechanism.SCRAM_SHA_512, password)
                admin.alter_user_scram_credentials([changed])

    def cut(self) -> None:
        """Disconnect all clients from both servers."""
        self.set_redis("CLIENT KILL TYPE normal")
        self.forwarder.cut()


@pytest.fixture
def site(kafka: SharedKafka, redis_server: EmbeddedValkey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Servers of this test alone: after a renewal they do not accept the old files again."""
    with ExitStack() as stack:
        site = Site(tmp_path_factory.mktemp("site"), stack)
        site.set_redis("ACL SETUSER city on >secret-old ~* &* +@all")
        site.set_kafka({}, "secret-old")
        yield site


def connect(settings: Settings) -> list[str]:
    """Connect to Kafka and to Redis, and return the errors."""
    errors = []
    try:
        settings.kafka.create_admin().close()
    except UnreachableError as error:
        errors.append(str(error))
    with closing(create_client(settings.redis)) as client:
        try:
            read_server_time(client)
        except UnreachableError as error:
            errors.append(str(error))
    return errors


@pytest.mark.promise(38)
def test_everything_is_renewed(site: Site, make_town: MakeTown, tmp_path: Path) -> None:
    """Authorities, certificates, keys and passwords are replaced under traffic: no tick is lost, and none is unknown.

    Afterwards the servers accept nothing that the service started with, and its connections have been cut.
    """
    files, folder = tmp_path / "files", site.folder
    site.renew(files, "old", *_FILES)
    kafka, stored = site.make_sections(files)
    town = make_town(site.kafka.bootstrap_servers, "", Shape(ledger_partitions=1, changes=_SLOTS | {"redis": stored}))
    tree = copy.deepcopy(town.tree)
    tree["kafka"] |= kafka
    config = town.folder / "secure.yaml"
    settings = town.configure(tree, config)
    instance = town.start("--session-ms", "10000", config=config)  # the default of `run`
    since = town.subscriber.wait_complete()
    site.renew(files, "both", "ca_file")
    site.renew(files, "new", "certificate_file", "key_file")
    site.set_redis(
        "ACL SETUSER city >secret-new",
        f"CONFIG SET tls-cert-file {folder}/server-new.crt tls-key-file {folder}/server-new.key",
    )
    site.set_kafka(find_identity(folder / "server-new.pem"))
    cut_after_tick(site, town, instance)
    site.renew(files, "new", "password_file", "ca_file")
    site.set_redis("ACL SETUSER city <secret-old", f"CONFIG SET tls-ca-cert-file {folder}/new-ca_file")
    site.set_kafka(find_trust(folder / "new-ca_file"), "secret-new")
    until(lambda: connect(settings) == [], 20, "the servers accept the new files")
    last = cut_after_tick(site, town, instance)
    statuses = town.subscriber.statuses("edges", since)
    assert {tick for _, tick in statuses} >= set(range(since, last))
    assert "unknown" not in statuses.values()
    assert not re.search("for TLS|login", instance.text)
    verdict = settle(town, instance)
    assert verdict.broken == []


def cut_after_tick(site: Site, town: FaultTown, instance: Instance) -> int:
    """Disconnect the service when half of a slot is left, wait for two more ticks, and return the latest one."""
    decided = 'ticks_total{monitor="edges",outcome="decided"}'
    before = read_metric(instance, decided)
    until(lambda: read_metric(instance, decided) > before, 30, "a tick is in the ledger")
    site.cut()
    return town.subscriber.wait_tick(town.subscriber.wait_new())


_TLS: Final = r"a file for TLS cannot be used \({}\): check {{0}}\.ca_file, {{0}}\.certificate_file and {{0}}\.key_file"
_PASSWORD: Final = r"the login lacks a password: {{0}}\.password_file is \S+ \({}\): expected a"  # noqa: S105
_UNUSABLE: Final[Mapping[tuple[str, bytes | None], str]] = {
    ("certificate_file", None): _TLS.format("No such file or directory"),
    ("key_file", b"-----BEGIN PRIV"): _TLS.format("not in PEM format, or not complete"),
    ("key_file", b"of the server"): _TLS.format("the private key is not that of the certificate"),
    ("ca_file", b""): _TLS.format("no certificate in it"),
    ("password_file", b""): _PASSWORD.format("empty"),
    ("password_file", None): _PASSWORD.format("No such file or directory"),
    ("password_file", b"wrong"): r"(?:refused the login|refused them|closed the connection).* check {0}\.username",
}
"""By file and its content (None: no such file), the error of new connections."""


class Client:
    """A client with files of its own, which is connected to both servers."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.files = folder / "files"
        folder.mkdir()
        site.renew(self.files, "old", *_FILES)
        tree = build_tree("town", "", "", [over_time("places", ["inn"], 1, "4s")], **TWO_SECONDS)
        kafka, stored = site.make_sections(self.files)
        self.settings = Town(folder, tree | {"kafka": tree["kafka"] | kafka, "redis": stored}, ["inn"]).apply()
        self._kafka, self._redis = self.settings.kafka.create_admin(), create_client(self.settings.redis)

    def is_connected(self) -> bool:
        """Send a request to each server."""
        with suppress(UnreachableError, KafkaError):
            return bool(self._kafka.describe_cluster()) and bool(read_server_time(self._redis))
        return False

    def close(self) -> None:
        self._kafka.close()
        self._redis.close()


def test_unusable_file_is_named(site: Site, tmp_path: Path) -> None:
    """While a file is missing, incomplete or wrong, new connections name it. Old clients connect once it is mended."""
    clients = {case: Client(site, tmp_path / str(number)) for number, case in enumerate(_UNUSABLE)}
    for (name, content), client in clients.items():
        assert client.is_connected()
        (client.files / name).unlink()
        if content is not None:
            other = site.folder / "server-old.key"
            (client.files / name).write_bytes(other.read_bytes() if content == b"of the server" else content)
    site.cut()
    with ThreadPoolExecutor() as threads:
        errors = dict(zip(clients, threads.map(lambda client: connect(client.settings), clients.values()), strict=True))
        assert not any(threads.map(Client.is_connected, clients.values()))
    for case, (kafka, stored) in errors.items():
        assert re.search(_UNUSABLE[case].format("kafka"), kafka), case
        assert re.search(_UNUSABLE[case].format("redis"), stored), case
    for client in clients.values():
        site.renew(client.files, "old", *_FILES)
        until(client.is_connected, 20, "an old client is connected again")
        client.close()

"""Start Kafka and a store with TLS, users and access lists, to rehearse a secure installation."""

from __future__ import annotations

import base64
import os
import secrets
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

from monitor.config.whole_config import Config
from monitor.errors import EmbeddedError, UsageError
from monitor.kafka.connections import KafkaConnections
from monitor.new_files import create_file
from monitor.operate.servers.certificates import create_certificate
from monitor.operate.servers.jars import Report
from monitor.operate.servers.kafka import SECURE_LISTENER, EmbeddedKafka, NodeSettings
from monitor.operate.servers.ports import LOOPBACK, ReservedPort
from monitor.operate.servers.rights import Right, list_rights, list_store_rules
from monitor.operate.servers.valkey import SERVER, EmbeddedValkey, ValkeySettings

SERVICE: Final = "location-monitor"
"""The name of the service's user, if the configuration has none."""

OPERATOR: Final = "operator.properties"
"""The name of the file with which Kafka's programs connect as an operator."""

_MECHANISM: Final = "SCRAM-SHA-512"
_PROGRAMS: Final = ("valkey-server", "redis-server")
_INSTALL: Final = (
    f"install one (Debian: apt-get install redis-server), or set {SERVER} to the path of its program. The Valkey of "
    "the Python package has no TLS"
)
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@dataclass(frozen=True, slots=True)
class Login:
    """The name, and the file with the password, of a user."""

    name: str
    password_file: Path


@dataclass(frozen=True, slots=True)
class SecureServers:
    """A running store and a running Kafka with TLS. `rights`: those of Kafka's users, by name."""

    rights: Mapping[str, tuple[Right, ...]]
    operator_servers: str
    """The address of Kafka for operators."""
    operator_file: Path
    """The settings with which Kafka's programs connect to it."""


class SecureFolder:
    """A new folder for certificates, passwords and environment files. Only its owner can read it.

    Raises:
        UsageError: the folder exists, or cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        try:
            self.path.mkdir(mode=0o700)
        except FileExistsError as error:
            raise UsageError(f"--out {path}: the folder exists: give the name of a new one, or remove it") from error
        except OSError as error:
            raise UsageError(f"--out {path}: the folder cannot be created: {error.strerror}") from error

    def write(self, name: str, content: bytes) -> Path:
        """Write a file that only its owner can read."""
        with create_file(self.path / name) as file:
            file.write(content)
        return self.path / name

    def make_login(self, name: str, server: str) -> Login:
        """Write a random password of a user at a server."""
        return Login(name, self.write(f"{name}.{server}-password", secrets.token_urlsafe(24).encode()))

    def write_environment(self, name: str, settings: Mapping[str, str | Path]) -> None:
        """Write variables of a configuration for a shell."""
        lines = (f"export LOCATION_MONITOR__{key}={value}\n" for key, value in settings.items())
        self.write(f"{name}.env", "".join(lines).encode())


@contextmanager
def start_secure_servers(config: Config, out: Path, report: Report) -> Iterator[SecureServers]:
    """Start a store and a Kafka with TLS and users. Stop both at the end.

    Raises:
        UsageError: the folder exists, or cannot be created.
        EmbeddedError: there is no store with TLS, or a server did not start.
    """
    program = find_program()
    folder, service = SecureFolder(out), config.kafka.username or SERVICE
    rights = list_rights(config, service)
    certificate = create_certificate()
    authority = folder.write("ca.pem", certificate.authority)
    pem = folder.write("server.pem", certificate.key + certificate.certificate)
    in_kafka = {name: folder.make_login(name, "kafka") for name in rights}
    in_store = folder.make_login(config.redis.username or SERVICE, "store")
    with (
        _start_store(config, folder, in_store, program, pem) as address,
        EmbeddedKafka(make_node_settings(pem, authority), report) as kafka,
    ):
        _create_users(kafka.bootstrap_servers, rights, in_kafka)
        shared: dict[str, str | Path] = {
            "KAFKA__BOOTSTRAP_SERVERS": kafka.secure_bootstrap_servers,
            "KAFKA__CA_FILE": authority,
        }
        shared |= {"KAFKA__SECURITY_PROTOCOL": "SASL_SSL", "KAFKA__SASL_MECHANISM": _MECHANISM}
        for name, login in in_kafka.items():
            own: dict[str, str | Path] = {"KAFKA__USERNAME": name, "KAFKA__PASSWORD_FILE": login.password_file}
            of_store = _describe_store(address, in_store, authority, folder) if name == service else {}
            folder.write_environment(name, shared | own | of_store)
        folder.write(OPERATOR, b"security.protocol=PLAINTEXT\n")
        report(f"Kafka runs at {kafka.secure_bootstrap_servers}, and {program} at {address}, both with TLS.")
        yield SecureServers(rights, kafka.bootstrap_servers, folder.path / OPERATOR)


def _describe_store(address: str, login: Login, authority: Path, folder: SecureFolder) -> dict[str, str | Path]:
    """Return what only the service needs: the store, the person key, and one replica, because there is one broker."""
    key = folder.write("person.key", base64.b64encode(secrets.token_bytes(32)))
    redis: dict[str, str | Path] = {"URL": address, "USERNAME": login.name}
    redis |= {"PASSWORD_FILE": login.password_file, "CA_FILE": authority}
    return {
        **{f"REDIS__{name}": value for name, value in redis.items()},
        "KAFKA__REPLICATION_FACTOR": "1",
        "VISITS__PERSON_KEY_FILE": key,
    }


def find_program() -> Path:
    """Return the path of a store's program that may have TLS.

    Raises:
        EmbeddedError: there is none.
    """
    found = os.environ.get(SERVER) or next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if found is None:
        raise EmbeddedError(f"no Valkey or Redis with TLS was found: expected {' or '.join(_PROGRAMS)}; {_INSTALL}")
    return Path(found)


@contextmanager
def _start_store(config: Config, folder: SecureFolder, login: Login, program: Path, pem: Path) -> Iterator[str]:
    """Start a store whose only user is the service, and yield its URL."""
    password = login.password_file.read_text(encoding="utf-8")
    rules = list_store_rules(config.service.name, password)
    users = folder.write("store.acl", f"user default off\nuser {login.name} {rules}\n".encode())
    port = ReservedPort()
    tls = ("--tls-port", str(port.number), "--tls-cert-file", str(pem), "--tls-key-file", str(pem))
    more = ("--tls-auth-clients", "no", "--aclfile", str(users))
    server = EmbeddedValkey(ValkeySettings(binary=program, arguments=(*tls, *more)))
    try:
        server.start()
    except EmbeddedError as error:
        port.release()
        raise EmbeddedError(f"{program} did not start with TLS: {error} If it has no TLS: {_INSTALL}.") from error
    try:
        yield f"rediss://{LOOPBACK}:{port.number}/0"
    finally:
        server.stop()
        port.release()


def make_node_settings(pem: Path, authority: Path) -> NodeSettings:
    """Return the settings of a broker whose users have no right by default. The port without TLS is for operators."""
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": _MECHANISM,
        f"{SECURE_LISTENER}{_MECHANISM.lower()}.sasl.jaas.config": _SCRAM,
        **make_tls_properties(pem, authority),
    }
    return NodeSettings(properties, secure_protocol="SASL_SSL")


def make_tls_properties(pem: Path, authority: Path) -> dict[str, str]:
    """Return the properties of a broker's listener with TLS. `pem` has its key and certificate."""
    return {
        f"{SECURE_LISTENER}ssl.keystore.type": "PEM",
        f"{SECURE_LISTENER}ssl.keystore.location": str(pem),
        f"{SECURE_LISTENER}ssl.truststore.type": "PEM",
        f"{SECURE_LISTENER}ssl.truststore.location": str(authority),
    }


def _create_users(bootstrap_servers: str, rights: Mapping[str, tuple[Right, ...]], logins: Mapping[str, Login]) -> None:
    connections = KafkaConnections((bootstrap_servers,))
    with connections.translate_errors(), closing(connections.create_admin()) as admin:
        admin.alter_user_scram_credentials(
            [
                UserScramCredentialUpsertion(
                    login.name, ScramMechanism.SCRAM_SHA_512, login.password_file.read_text(encoding="utf-8")
                )
                for login in logins.values()
            ]
        )
        entries = [entry for name, given in rights.items() for right in given for entry in right.make_entries(name)]
        admin.create_acls(entries)


def list_commands(config: Config, servers: SecureServers) -> Iterator[str]:
    """Yield the commands that give real servers the same users and rights. PASSWORD stands for a password."""
    yield "# Kafka: the users and their rights. The programs are in the folder bin of Kafka's distribution"
    yield "# (https://kafka.apache.org/downloads), in its image in /opt/kafka/bin."
    yield "# BROKER: the address of a broker. OPERATOR: a file with the login of an operator there."
    yield "# These servers have the users and rights already. To look at them, for example with kafka-acls.sh --list:"
    yield f"# BROKER={servers.operator_servers} OPERATOR={shlex.quote(str(servers.operator_file))}"
    options = '--bootstrap-server "$BROKER" --command-config "$OPERATOR"'
    for name in servers.rights:
        add = f"--alter --entity-type users --entity-name {name} --add-config '{_MECHANISM}=[password=PASSWORD]'"
        yield f"kafka-configs.sh {options} {add}"
    for name, given in servers.rights.items():
        for right in given:
            yield f"kafka-acls.sh {options} {right.format_command(name)}"
    rules = list_store_rules(config.service.name, "PASSWORD")
    yield "# Valkey or Redis, in valkey-cli or redis-cli:"
    yield f"ACL SETUSER {config.redis.username or SERVICE} {rules}"
    yield "# Without this line everybody may connect without a password. Before it, give an operator a user."
    yield "ACL SETUSER default off"
    yield "# Keep the users after a restart (CONFIG REWRITE without a file of users)."
    yield "ACL SAVE"

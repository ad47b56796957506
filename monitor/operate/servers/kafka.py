"""Run Apache Kafka in KRaft mode as child processes: one node, and further nodes that join it.

A broker starts in half the CPU time with an archive of Kafka's classes (Java's ahead-of-time cache). Java otherwise
reads, checks and links 12,000 classes from jars at each start. The archive is optional: Java starts without it if it is
missing, or was created for another Java or for other jars. Java 25 or later creates one when it ends.

    python -m monitor.operate.servers    create the archive, unless it exists

This takes about 5 seconds. `make test` does it once, because its tests start Kafka many times.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import signal
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Final

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from monitor.operate.servers.jars import Report, fetch_kafka, find_java, find_lock
from monitor.operate.servers.ports import ReservedPort
from monitor.operate.servers.process import EmbeddedServer

SECURE_LISTENER: Final = "listener.name.secure."
"""With this the names of the properties of the second listener begin (`NodeSettings.secure_protocol`)."""

_JVM = (
    "-Xmx512m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    # Java 24 and later print a warning when Kafka uses sun.misc.Unsafe. Earlier versions do not know the option.
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--sun-misc-unsafe-memory-access=allow",
)
# Without these, Java prints warnings about an archive that it does not use.
_SILENT = ("-Xlog:cds=off", "-Xlog:aot=off", "-Xlog:class+path=off")
_PROPERTIES = "server.properties"
_LOG4J = "kafka-log4j2.properties"
_REQUEST_MS = 5_000
_ARCHIVE_SECONDS = 120.0

# These let a single node start and stop fast, and clients join and leave fast. metadata.max.idle.interval.ms turns off
# the records that a controller writes every half second, which take half of the processor time of an idle node.
# NodeSettings.properties overrides all of them.
_DEFAULTS = {
    "auto.create.topics.enable": "false",
    "broker.heartbeat.interval.ms": "700",
    "broker.session.timeout.ms": "3000",  # a killed broker cannot rejoin before its last session ends
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "metadata.max.idle.interval.ms": "0",
    "num.io.threads": "4",
    "num.network.threads": "2",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
}


@dataclass(frozen=True, slots=True)
class Quorum:
    """The facts that another node needs to join: the cluster's id, and its controller as `1@127.0.0.1:port`."""

    cluster_id: str
    voters: str


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The settings of one node."""

    properties: Mapping[str, str] = field(default_factory=dict)
    """Server properties that override the defaults."""
    port: int = 0
    """0 means any free port."""
    node_id: int = 1
    """It is unique in a cluster."""
    quorum: Quorum | None = None
    """That of a running EmbeddedKafka, whose cluster the node joins as another broker."""
    secure_protocol: str | None = None
    """`SASL_PLAINTEXT`, `SSL` or `SASL_SSL`: that of a second listener named SECURE.

    Configure it in `properties` (`SECURE_LISTENER`).
    """
    start_seconds: float = 60.0
    """The time limit of each start."""


def _ignore(_line: str) -> None:
    """Discard a message."""


class EmbeddedKafka(EmbeddedServer):
    """A real Kafka broker. If a start must fetch jars, it calls `report` with progress messages."""

    name = "Kafka"

    def __init__(self, settings: NodeSettings | None = None, report: Report = _ignore) -> None:
        self._settings = settings or NodeSettings()
        super().__init__(self._settings.start_seconds)
        self._report = report
        self._java: tuple[str, ...] = ()
        self._archive: Path | None = None  # the archive to create, if any
        self._cluster_id = ""

    @property
    def bootstrap_servers(self) -> str:
        """`127.0.0.1:port` of the plaintext listener; the same after `restart()`."""
        return self._find_address("client")

    @property
    def secure_bootstrap_servers(self) -> str:
        """`127.0.0.1:port` of the listener that `secure_protocol` adds."""
        return self._find_address("secure")

    @property
    def quorum(self) -> Quorum:
        """The value of `NodeSettings.quorum` with which another node joins this cluster."""
        voters = self._settings.quorum.voters if self._settings.quorum else f"1@{self._find_address('controller')}"
        return Quorum(self._cluster_id, voters)

    def start(self) -> None:
        """Fetch Kafka if needed, start it, and wait until the cluster lists this broker.

        Raises:
            EmbeddedError: Java or Kafka's jars were not found, or the server did not start. Its folder is removed.
        """
        java = find_java()
        jars = fetch_kafka(self._report)
        options = (f"-XX:AOTCacheOutput={self._archive}",) if self._archive else archive_options(java, jars)
        self._java = (str(java), *options, "-cp", os.pathsep.join(map(str, jars)))
        super().start()

    def archive_classes(self) -> None:
        """Create the archive of the classes that a start of Kafka loads, unless it exists.

        Raises:
            EmbeddedError: as for `start()`, or Java could not create the archive.
        """
        java, jars = find_java(), fetch_kafka(self._report)
        archive = archive_path(java, jars)
        if archive.exists():
            return
        archive.parent.mkdir(parents=True, exist_ok=True)
        # The archive appears in one step, because other programs may look for it meanwhile.
        with tempfile.TemporaryDirectory(prefix=".creating-", dir=archive.parent) as folder:
            self._archive = Path(folder) / archive.name
            try:
                self.start()
                self._end(signal.SIGTERM, _ARCHIVE_SECONDS)
                if not self._archive.exists():
                    raise self._make_failure("created no archive of its classes; this needs Java 25 or later")
                self._archive.replace(archive)
            finally:
                self._archive = None
                self.stop()

    def _reserve(self) -> dict[str, ReservedPort]:
        ports = {"client": ReservedPort(self._settings.port)}
        if self._settings.quorum is None:
            ports["controller"] = ReservedPort()
        if self._settings.secure_protocol is not None:
            ports["secure"] = ReservedPort()
        return ports

    def _prepare(self) -> None:
        joins = self._settings.quorum
        self._cluster_id = joins.cluster_id if joins else make_id()
        properties = self._make_server_properties()
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        (self.folder / _PROPERTIES).write_text(text, encoding="utf-8")
        log4j = resources.files("monitor.operate.servers").joinpath(_LOG4J).read_text(encoding="utf-8")
        (self.folder / _LOG4J).write_text(log4j, encoding="utf-8")
        format_storage(self.folder / "data", self._cluster_id, self._settings.node_id)

    def _make_server_properties(self) -> dict[str, str]:
        listeners = {"PLAINTEXT": self._ports["client"].address}
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
        if self._settings.secure_protocol is not None:
            listeners["SECURE"] = self._ports["secure"].address
            protocols["SECURE"] = self._settings.secure_protocol
        advertised = _join({name: f"//{address}" for name, address in listeners.items()})
        if "controller" in self._ports:
            listeners["CONTROLLER"] = self._ports["controller"].address
        return {
            **_DEFAULTS,
            "process.roles": "broker,controller" if "controller" in self._ports else "broker",
            "node.id": str(self._settings.node_id),
            "listeners": _join({name: f"//{address}" for name, address in listeners.items()}),
            "advertised.listeners": advertised,
            "listener.security.protocol.map": _join(protocols),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.quorum.voters": self.quorum.voters,
            "log.dirs": str(self.folder / "data"),
            **self._settings.properties,
        }

    def _make_command(self) -> list[str]:
        java, *options = self._java
        log4j = f"-Dlog4j2.configurationFile={self.folder / _LOG4J}"
        return [java, *_JVM, log4j, *options, "kafka.Kafka", _PROPERTIES]

    def _is_ready(self) -> bool:
        # The port is probed with a socket first, because the client logs a warning per refused connection.
        return self._ports["client"].accepts() and self._is_in_cluster()

    def _is_in_cluster(self) -> bool:
        try:
            with contextlib.closing(
                KafkaAdminClient(bootstrap_servers=self.bootstrap_servers, request_timeout_ms=_REQUEST_MS)
            ) as admin:
                brokers = admin.describe_cluster()["brokers"]
        except KafkaError:
            return False
        advertised = self._settings.properties.get("advertised.listeners", self.bootstrap_servers)
        own = {listener.rpartition("//")[2] for listener in advertised.split(",")}
        return any(f"{broker['host']}:{broker['port']}" in own for broker in brokers)


def _join(pairs: Mapping[str, str]) -> str:
    return ",".join(f"{key}:{value}" for key, value in pairs.items())


def archive_path(java: Path, jars: Sequence[Path]) -> Path:
    """Return the path of the archive for a Java runtime and a class path."""
    version = (java.parents[1] / "release").stat() if (java.parents[1] / "release").exists() else java.stat()
    named = [str(java), str(version.st_mtime_ns), *map(str, jars)]
    name = hashlib.sha256("\n".join(named).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "location-monitor" / f"kafka-classes-{name}.aot"


def archive_options(java: Path, jars: Sequence[Path]) -> tuple[str, ...]:
    """Return the options with which Java uses the archive; none if there is no archive."""
    path = archive_path(java, jars)
    return (f"-XX:AOTCache={path}", *_SILENT) if path.exists() else ()


def make_id() -> str:
    """Return a random UUID in Kafka's format of 22 characters. One with a leading dash would be parsed as an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def format_storage(data: Path, cluster_id: str, node_id: int) -> None:
    """Create a folder for the data of a node, without Kafka's command `StorageTool format`, which starts another Java.

    The command writes two files. `meta.properties` has ids. `bootstrap.checkpoint` depends only on the version of
    Kafka, except for its times: the one that the command wrote is beside the lock of the version's jars, and a test
    compares it with the command's output.
    """
    data.mkdir()
    (data / "bootstrap.checkpoint").write_bytes(find_lock().with_suffix(".checkpoint").read_bytes())
    ids = {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id), "directory.id": make_id()}
    text = "".join(f"{key}={value}\n" for key, value in ids.items())
    (data / "meta.properties").write_text(text, encoding="utf-8")

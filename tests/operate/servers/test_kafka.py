"""The embedded Kafka is a real Kafka, with its storage formatted by us and an optional archive of its classes."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from monitor.errors import EmbeddedError
from monitor.operate.servers import EmbeddedKafka, NodeSettings
from monitor.operate.servers.jars import fetch_kafka, find_java
from monitor.operate.servers.kafka import archive_options, archive_path, format_storage, make_id
from tests.shared_kafka import SharedKafka

pytestmark = [pytest.mark.servers, pytest.mark.long]


def _produce(bootstrap_servers: str, topic: str, value: bytes) -> None:
    with closing(KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all")) as producer:
        producer.send(topic, value).get(timeout=20)


@pytest.mark.usefixtures("kafka")
def test_records_survive_restart_and_kill(topic: Callable[[str], str]) -> None:
    """Records and the port are kept over a restart and a SIGKILL."""
    name = topic("kept")
    with EmbeddedKafka() as server:
        address = server.bootstrap_servers
        with closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
            admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)])
        _produce(address, name, b"before")
        server.restart()
        _produce(address, name, b"between")
        server.kill()
        server.restart()
        assert server.bootstrap_servers == address
        consumer = KafkaConsumer(name, bootstrap_servers=address, group_id=None, auto_offset_reset="earliest")
        with closing(consumer):
            values = [record.value for records in consumer.poll(10_000).values() for record in records]
    assert values == [b"before", b"between"]


def test_failed_start_is_reported(kafka: SharedKafka) -> None:
    """The error of a broker that ends while it starts contains its exit code and the end of its log."""
    with pytest.raises(EmbeddedError, match=r"(?s)Kafka ended with exit code .*last lines.*KafkaServer"):
        EmbeddedKafka(NodeSettings(secure_protocol="SASL_PLAINTEXT")).start()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, so that other tests keep their archive."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_archive_belongs_to_java_and_jars(cache: Path) -> None:
    """The archive's path depends on Java and on the jars. Without an archive, Java gets no option for it."""
    java = find_java()
    assert archive_options(java, [Path("a.jar")]) == ()
    path = archive_path(java, [Path("a.jar")])
    assert path.is_relative_to(cache)
    assert path == archive_path(java, [Path("a.jar")])
    assert path != archive_path(java, [Path("b.jar")])


def test_created_archive_is_used() -> None:
    """An archive is created once, and Kafka then starts with it: its process has mapped the file.

    `make test` has created the archive, in half a minute of processor time. Without it, this test creates it.
    """
    EmbeddedKafka().archive_classes()
    path = archive_path(find_java(), fetch_kafka(print))
    created = path.stat()
    EmbeddedKafka().archive_classes()
    assert path.stat().st_ino == created.st_ino
    with EmbeddedKafka() as server:
        assert str(path) in Path(f"/proc/{server.pid}/maps").read_text(encoding="utf-8")


@pytest.mark.usefixtures("cache")
def test_damaged_archive_is_ignored() -> None:
    """Kafka starts although its archive is damaged."""
    java, jars = find_java(), fetch_kafka(print)
    path = archive_path(java, jars)
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(range(256)) * 1_000)
    assert archive_options(java, jars)
    with EmbeddedKafka() as server:
        assert server.is_running()


_NODE = """
process.roles=broker,controller
node.id=7
controller.quorum.voters=7@127.0.0.1:9093
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
log.dirs={data}
"""


def read_names(checkpoint: Path) -> list[bytes]:
    """Return the names of the features in a checkpoint."""
    return re.findall(rb"[a-z.]{8,}", checkpoint.read_bytes())


def test_format_is_that_of_the_command(tmp_path: Path) -> None:
    """The files have the keys, the features and the size of those that this version of Kafka writes, and other ids."""
    own, ours, cluster = tmp_path / "own", tmp_path / "ours", make_id()
    (tmp_path / "server.properties").write_text(_NODE.format(data=own), encoding="utf-8")
    jars = os.pathsep.join(map(str, fetch_kafka(print)))
    words = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(tmp_path / "server.properties")]
    subprocess.run([str(find_java()), "-cp", jars, *words], check=True, capture_output=True)
    format_storage(ours, cluster, 7)
    name = "bootstrap.checkpoint"
    assert read_names(ours / name) == read_names(own / name) != []
    assert (ours / name).stat().st_size == (own / name).stat().st_size
    first, second = (
        dict(line.split("=", 1) for line in (data / "meta.properties").read_text().splitlines() if "=" in line)
        for data in (own, ours)
    )
    assert first.pop("directory.id") != second.pop("directory.id")
    assert first == second

"""Visits are sent over TLS by a user who may only write to the input: by `send`, and by the programs of the page."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from monitor.kafka.connections import KafkaConnections
from monitor.ledger.read_ledger import read_partition
from monitor.operate.servers.jars import fetch_kafka
from monitor.time.clock import SystemClock
from monitor.time.instants import SECOND, format_instant
from tests.docs.test_send_visits import CLIENT, find, read_code, run
from tests.security.connecting import by_password

pytestmark = pytest.mark.long

_BROKER: Final = "kafka-1.example.org:9093"
_VISIT: Final = {
    "person_id": "p-17",
    "location_id": "station-1",
    "arrived_at": "2026-11-20T08:15:00Z",
    "left_at": "2026-11-20T08:40:00Z",
}


def read_visits(city: Any) -> list[Any]:
    """Return the records of the input topic."""
    plain = KafkaConnections((city.kafka.bootstrap_servers,))
    return [json.loads(record.value) for _offset, record in read_partition(plain, "visits", 0)]


@pytest.fixture
def visits(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A file with a visit of now, and this visit."""
    now = format_instant(SystemClock().now() // SECOND * SECOND)
    path = tmp_path / "visits.csv"
    path.write_text(f"person_id,location_id,arrived_at\np-18,inn,{now}\n", encoding="utf-8")
    return path, {"person_id": "p-18", "location_id": "inn", "arrived_at": now}


@pytest.mark.promise(38)
@pytest.mark.parametrize(("user", "code"), [("sender", 0), ("city", 1)])
def test_send_needs_the_right_to_write(
    user: str,
    code: int,
    guarded_city: Any,
    certificates: Any,
    configure: Callable[..., Path],
    start_command: Callable[..., Any],
    visits: tuple[Path, dict[str, str]],
    tmp_path: Path,
) -> None:
    """`send` needs Write on the input and no password of Redis; without the right it names it, and sends nothing."""
    path, visit = visits
    kafka = by_password(certificates, tmp_path, guarded_city.kafka, username=user)
    config = configure(tmp_path, kafka, {"url": "rediss://127.0.0.1:9/0", "password_file": "missing"})
    before = len(read_visits(guarded_city))
    command = start_command("send", str(path), "--config", str(config))
    assert command.wait(60) == code, command.text
    if code:
        assert "its user lacks the permission" in command.text
        assert "Write" in command.text
        assert "No visit is known to be in Kafka" in command.text
        assert len(read_visits(guarded_city)) == before
    else:
        assert read_visits(guarded_city)[-1] == {"visits": [visit]}


def test_python_example_logs_in(guarded_city: Any, certificates: Any, secrets: tuple[str, ...], tmp_path: Path) -> None:
    """The program in Python sends the visit with the settings for TLS and a login."""
    shutil.copy(certificates.authority, tmp_path / "ca.pem")
    plain = 'KafkaProducer(bootstrap_servers="localhost:9092", acks="all", enable_idempotence=True)'
    settings = read_code("python", {_BROKER: guarded_city.kafka.secure_bootstrap_servers}, 1)
    program = read_code("python", {f"producer = {plain}": settings})
    run([sys.executable, "-c", program], tmp_path, KAFKA_PASSWORD=secrets[0])
    assert read_visits(guarded_city)[-1] == _VISIT


def test_java_example_logs_in(guarded_city: Any, certificates: Any, secrets: tuple[str, ...], tmp_path: Path) -> None:
    """The program in Java sends the visit with the settings for TLS and a login, which Kafka's programs take too."""
    shutil.copy(certificates.authority, tmp_path / "ca.pem")
    changes = {_BROKER: guarded_city.kafka.secure_bootstrap_servers, "change-me": secrets[0]}
    (tmp_path / "sender.properties").write_text(read_code("properties", changes, 1), encoding="utf-8")
    plain = 'settings.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:9092")'
    text = read_code("java", {plain: 'settings.load(new java.io.FileReader("sender.properties"))'})
    (tmp_path / "SendVisit.java").write_text(text, encoding="utf-8")
    find("javac")
    jars = os.pathsep.join(str(path) for path in fetch_kafka(print) if path.name.startswith(CLIENT))
    run([find("java"), "-XX:TieredStopAtLevel=1", "-cp", jars, "SendVisit.java"], tmp_path)
    assert read_visits(guarded_city)[-1] == _VISIT

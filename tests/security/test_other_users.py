"""Users of few rights over TLS: the auditor, and senders of visits by `send` and by the programs of the page.

The documented rights suffice, and a missing one is named.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from monitor.operate.servers.jars import fetch_kafka
from monitor.time.clock import SystemClock
from monitor.time.instants import SECOND, format_instant
from tests.conftest import Eventually
from tests.docs.test_send_visits import CLIENT, find, read_code, run
from tests.security.guarded import KAFKA_SECRET, SENDER, Run, Site, name_auditor_without, write_configuration
from tests.security.rights import AUDITOR, AUDITOR_RIGHTS, Right, list_topics

pytestmark = pytest.mark.long

READY: Final = "everything that was published has been judged"
LACKS: Final = (
    r"the topic {0} cannot be read: Kafka at \S+ cannot be used: its user lacks the permission Read on a topic \(.*{0}"
)


@pytest.fixture
def start_auditor(site: Site, start_command: Callable[..., Run], tmp_path: Path) -> Callable[..., Run]:
    """A function that starts the auditor of the city as a user, whom its environment names."""

    def start(user: str, *options: str) -> Run:
        config = write_configuration(tmp_path / user, site.use_kafka(sasl_mechanism="PLAIN"), site.use_redis())
        words = ("audit", "--follow", "--config", str(config), "--metrics-port", "0", *options)
        return start_command(*words, environ={"LOCATION_MONITOR__KAFKA__USERNAME": user})

    return start


@pytest.fixture(scope="module")
def visited(site: Site) -> None:
    """The city with a record in the input."""
    site.send("visits", b"no visit")


@pytest.mark.usefixtures("visited")
@pytest.mark.promise(38)
@pytest.mark.parametrize("options", [(), ("--output-only",)], ids=["with input", "output only"])
def test_auditor_judges_with_documented_rights(
    options: tuple[str, ...], start_auditor: Callable[..., Run], eventually: Eventually
) -> None:
    """The documented rights are enough. With --output-only the right to the input is not needed."""
    (to_input,) = (right for right in AUDITOR_RIGHTS if right.name == "input")
    auditor = start_auditor(name_auditor_without(to_input) if options else AUDITOR, *options)
    eventually(lambda: READY in auditor.text and auditor.fetch("/readyz")[0] == 200, deadline_seconds=60)
    assert "cannot be read" not in auditor.text
    assert " ERROR " not in auditor.text
    assert not auditor.shown_secrets
    auditor.terminate()


@pytest.mark.usefixtures("visited")
@pytest.mark.promise(38)
@pytest.mark.parametrize("right", AUDITOR_RIGHTS, ids=str)
def test_missing_right_is_named(right: Right, start_auditor: Callable[..., Run], eventually: Eventually) -> None:
    """Without one of the rights, the log and /readyz name the topic, and the auditor keeps trying."""
    auditor, message = start_auditor(name_auditor_without(right)), LACKS.format(list_topics("city")[right.name])
    eventually(
        lambda: re.search(message, auditor.text) and re.search(message, auditor.fetch("/readyz")[1]),
        deadline_seconds=60,
    )
    assert auditor.fetch("/readyz")[0] == 503
    assert auditor.code is None
    assert "Traceback" not in auditor.text
    assert not auditor.shown_secrets
    auditor.terminate()


def test_page_states_read_alone() -> None:
    """The auditor needs Read on two topics, and can therefore write nothing."""
    assert [str(right) for right in AUDITOR_RIGHTS] == ["topic input: Read", "topic output: Read"]


_BROKER: Final = "kafka-1.example.org:9093"
_VISIT: Final = {
    "person_id": "p-17",
    "location_id": "station-1",
    "arrived_at": "2026-11-20T08:15:00Z",
    "left_at": "2026-11-20T08:40:00Z",
}


@pytest.fixture
def visits(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A file with a visit of now, and this visit."""
    now = format_instant(SystemClock().now() // SECOND * SECOND)
    path = tmp_path / "visits.csv"
    path.write_text(f"person_id,location_id,arrived_at\np-18,inn,{now}\n", encoding="utf-8")
    return path, {"person_id": "p-18", "location_id": "inn", "arrived_at": now}


@pytest.mark.promise(38)
@pytest.mark.parametrize(("user", "code"), [(SENDER, 0), ("city", 1)])
def test_send_needs_the_right_to_write(
    user: str,
    code: int,
    site: Site,
    start_command: Callable[..., Run],
    visits: tuple[Path, dict[str, str]],
    tmp_path: Path,
) -> None:
    """`send` needs Write on the input and no password of Redis; without the right it names it, and sends nothing."""
    path, visit = visits
    config = write_configuration(
        tmp_path, site.use_kafka(username=user), {"url": "rediss://127.0.0.1:9/0", "password_file": "missing"}
    )
    before = len(site.read("visits"))
    command = start_command("send", str(path), "--config", str(config))
    assert command.wait(60) == code, command.text
    if code:
        assert "its user lacks the permission" in command.text
        assert "Write" in command.text
        assert "No visit is known to be in Kafka" in command.text
        assert len(site.read("visits")) == before
    else:
        assert json.loads(site.read("visits")[-1]) == {"visits": [visit]}


def test_python_example_logs_in(site: Site, tmp_path: Path) -> None:
    """The program in Python sends the visit with the settings for TLS and a login."""
    shutil.copy(site.certificates.authority, tmp_path / "ca.pem")
    plain = 'KafkaProducer(bootstrap_servers="localhost:9092", acks="all", enable_idempotence=True)'
    settings = read_code("python", {_BROKER: site.kafka.secure_bootstrap_servers}, 1)
    program = read_code("python", {f"producer = {plain}": settings})
    run([sys.executable, "-c", program], tmp_path, KAFKA_PASSWORD=KAFKA_SECRET)
    assert json.loads(site.read("visits")[-1]) == _VISIT


def test_java_example_logs_in(site: Site, tmp_path: Path) -> None:
    """The program in Java sends the visit with the settings for TLS and a login, which Kafka's programs take too."""
    shutil.copy(site.certificates.authority, tmp_path / "ca.pem")
    changes = {_BROKER: site.kafka.secure_bootstrap_servers, "change-me": KAFKA_SECRET}
    (tmp_path / "sender.properties").write_text(read_code("properties", changes, 1), encoding="utf-8")
    plain = 'settings.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:9092")'
    text = read_code("java", {plain: 'settings.load(new java.io.FileReader("sender.properties"))'})
    (tmp_path / "SendVisit.java").write_text(text, encoding="utf-8")
    find("javac")
    jars = os.pathsep.join(str(path) for path in fetch_kafka(print) if path.name.startswith(CLIENT))
    run([find("java"), "-XX:TieredStopAtLevel=1", "-cp", jars, "SendVisit.java"], tmp_path)
    assert json.loads(site.read("visits")[-1]) == _VISIT

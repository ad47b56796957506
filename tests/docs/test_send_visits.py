"""The programs of the pages send their visits to a real Kafka, where the service can read them."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from kafka import TopicPartition

from monitor.audit.visits import parse_visits
from monitor.kafka.connections import KafkaConnections
from monitor.operate.servers.jars import fetch_kafka
from monitor.operate.servers.ports import ReservedPort
from monitor.records.visit_contract import Fault, Reason, Visit, open_record, read_visit
from monitor.time.instants import MINUTE, parse_instant
from tests.conftest import Eventually
from tests.docs.blocks import read_blocks
from tests.docs.conftest import ROOT, Document
from tests.go_programs import OPTIONS
from tests.kit.town import HOURS, Town, build_tree, over_time
from tests.needed_programs import find_program, report_missing
from tests.shared_kafka import SharedKafka

PAGE: Final = ROOT / "docs" / "producers.md"
FOLDER: Final = Path(__file__).parent / "senders"
BLOCKS: Final = read_blocks(Document(PAGE, PAGE.read_text(encoding="utf-8")))
OWN_SYSTEMS: Final = ROOT / "docs" / "how-to" / "own-systems.md"
AT: Final = parse_instant("2026-11-20T08:15:00Z")
CLIENT: Final = ("kafka-clients", "zstd-jni", "slf4j-api")


def find(program: str) -> str:
    return find_program(program, program, f"install {program}")


def read_code(language: str, changes: Mapping[str, str], number: int = 0) -> str:
    """Return a block of the page, with the names of this test instead of those of the page."""
    text = [block.code for block in BLOCKS if block.language == language][number]
    for old, new in changes.items():
        assert old in text, f"{PAGE.name} does not contain {old}"
        text = text.replace(old, new)
    return text


def run(words: list[str], folder: Path, given: str | None = None, **environment: str) -> str:
    """Run a program to its end, and return what it writes."""
    ended = subprocess.run(
        words,
        cwd=folder,
        input=given,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


class Input:
    """An input topic with a reader that reads as the service does: committed records only, each by the contract."""

    def __init__(self, kafka: SharedKafka, name: str) -> None:
        self.address, self.name = kafka.bootstrap_servers, name
        connections = KafkaConnections((kafka.bootstrap_servers,))
        with closing(connections.create_admin()) as admin:
            admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
        self._consumer: Any = connections.create_consumer(
            isolation_level="read_committed", auto_offset_reset="earliest"
        )
        self._consumer.assign([TopicPartition(name, 0)])
        self.visits: list[Any] = []

    def read(self) -> list[Any]:
        """Return all visits read so far: each a `Visit`, or the fault for which the contract refuses it."""
        for records in self._consumer.poll(timeout_ms=200).values():
            for record in records:
                opened = open_record(record.value)
                self.visits += map(read_visit, opened) if isinstance(opened, list) else [opened]
        return self.visits

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def visits(kafka: SharedKafka, topic: Callable[[str], str]) -> Iterator[Input]:
    """A new input topic."""
    with closing(Input(kafka, topic("visits"))) as opened:
        yield opened


def expect_the_visit(visits: Input, eventually: Eventually) -> None:
    """Wait for the visit that the page shows. The service can read it as it is."""
    (visit,) = eventually(visits.read)
    assert isinstance(visit, Visit)
    assert (visit.person_id, visit.location_id) == ("p-17", "station-1")
    assert (visit.arrived_at, visit.left_at) == (AT, AT + 25 * MINUTE)


def test_python_sends(visits: Input, tmp_path: Path, eventually: Eventually) -> None:
    """The program in Python sends the visit."""
    text = read_code("python", {"localhost:9092": visits.address, '"visits"': f'"{visits.name}"'})
    run([sys.executable, "-c", text], tmp_path)
    expect_the_visit(visits, eventually)


def test_case_file_is_sent(visits: Input, tmp_path: Path, eventually: Eventually) -> None:
    """The export of docs/how-to/own-systems.md becomes a file of visits, which its commands send."""
    blocks = read_blocks(Document(OWN_SYSTEMS, OWN_SYSTEMS.read_text(encoding="utf-8")))
    convert, send = (next(block.code for block in blocks if word in block.code) for word in ("export.ndjson", "send "))
    shutil.copy(ROOT / "config" / "demo-locations.csv", tmp_path)
    sections = HOURS | {"locations": {"file": "demo-locations.csv"}}
    market = over_time("market", ["market"], 5, "36500d")  # the page has a visit of 2026
    town = Town(tmp_path, build_tree("town", visits.address, "redis://localhost:1", [market], **sections), ["market"])
    town.tree["kafka"]["topics"]["visits"] = visits.name
    town.write().rename(tmp_path / "city.yaml")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run([find("bash"), "-euc", convert], tmp_path, PATH=path)
    assert "1 of 1 visits were sent" in run([find("bash"), "-euc", send], tmp_path, PATH=path)
    (visit,) = eventually(visits.read)
    assert isinstance(visit, Visit)
    assert (visit.person_id, visit.location_id) == ("p-17", "market")
    assert (visit.arrived_at, visit.left_at) == (AT - 60 * MINUTE, AT - 35 * MINUTE)


def test_java_sends(visits: Input, tmp_path: Path, eventually: Eventually) -> None:
    """The program in Java sends the visit, with the client library that the embedded Kafka has."""
    text = read_code("java", {"localhost:9092": visits.address, '"visits"': f'"{visits.name}"'})
    (tmp_path / "SendVisit.java").write_text(text, encoding="utf-8")
    find("javac")
    jars = os.pathsep.join(str(path) for path in fetch_kafka(print) if path.name.startswith(CLIENT))
    run([find("java"), "-XX:TieredStopAtLevel=1", "-cp", jars, "SendVisit.java"], tmp_path)
    expect_the_visit(visits, eventually)


@pytest.mark.soak
def test_go_sends(visits: Input, tmp_path: Path, eventually: Eventually) -> None:
    """The program in Go sends the visit. Its library comes from Go's module proxy."""
    go = find("go")
    for name in ("go.mod", "go.sum"):
        shutil.copy(FOLDER / name, tmp_path)
    text = read_code("go", {"localhost:9092": visits.address, '"visits"': f'"{visits.name}"'})
    (tmp_path / "main.go").write_text(text, encoding="utf-8")
    fetched = subprocess.run(
        [go, "mod", "download"], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    if fetched.returncode:
        report_missing(f"modules of Go ({fetched.stderr.strip()[-300:]})", "give Go access to its module proxy once")
    run([go, "run", *OPTIONS, "."], tmp_path, CGO_ENABLED="0")
    expect_the_visit(visits, eventually)


class Postgres:
    """A PostgreSQL server in a folder, with logical replication. Root may not run one, so `nobody` does."""

    def __init__(self, binaries: Path, folder: Path, sql: Callable[[str, str], None]) -> None:
        with zipfile.ZipFile(binaries) as jar:
            (packed,) = (name for name in jar.namelist() if name.endswith(".txz"))
            jar.extract(packed, folder)
        with tarfile.open(folder / packed) as tar:
            tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, _path: member)  # Python 3.11.4
            tar.extractall(folder)  # noqa: S202  # with the filter above
        self._folder, self._sql = folder, sql
        self._user = {"user": "nobody"} if os.geteuid() == 0 else {}
        (folder / "data").mkdir()
        if self._user:
            shutil.chown(folder / "data", "nobody")
            for parent in (folder, *folder.parents):  # up to the folder of this session
                if parent.stat().st_uid == os.geteuid() and parent.is_relative_to(folder.parents[2]):
                    parent.chmod(0o755)
        self._call("initdb", "-D", "data", "-U", "owner", "-A", "trust", "--no-sync")
        reserved = ReservedPort()
        self.port = reserved.number
        reserved.release()
        self._server = subprocess.Popen(
            [
                *(folder / "bin" / "postgres", "-D", "data", "-p", str(self.port), "-k", "", "-h", "127.0.0.1"),
                *("-c", "wal_level=logical", "-c", "fsync=off"),
            ],
            cwd=folder,
            stderr=subprocess.DEVNULL,
            **self._user,  # type: ignore[call-overload]  # a keyword argument that may be absent
        )

    def _call(self, program: str, *words: str) -> None:
        path = self._folder / "bin" / program
        subprocess.run([path, *words], cwd=self._folder, check=True, capture_output=True, timeout=60, **self._user)  # type: ignore[call-overload]  # as above

    def execute(self, statements: str) -> None:
        self._sql(f"jdbc:postgresql://127.0.0.1:{self.port}/postgres?user=owner", statements)

    def is_up(self) -> bool:
        try:
            self.execute("SELECT 1")
        except AssertionError:
            return False
        return True

    def close(self) -> None:
        self._server.terminate()
        self._server.wait(30)


@pytest.fixture(scope="module")
def connect_jars(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Kafka Connect, Debezium's connector and PostgreSQL, from Maven Central."""
    paths = tmp_path_factory.mktemp("maven") / "paths"
    words = [find("mvn"), "-q", "-B", "-f", str(FOLDER / "pom.xml"), "dependency:build-classpath"]
    words.append(f"-Dmdep.outputFile={paths}")
    fetched = subprocess.run(words, capture_output=True, text=True, timeout=500, check=False)
    if fetched.returncode:
        report_missing(f"jars ({fetched.stdout.strip()[:300]})", "give Maven access to Maven Central once")
    return [Path(path) for path in paths.read_text(encoding="utf-8").split(os.pathsep)]


@pytest.mark.soak
def test_converters_write_framings(connect_jars: list[Path], tmp_path: Path) -> None:
    """The service and the audit read what the converters of Kafka Connect and Debezium write, except an empty envelope.

    By default, a CloudEvent of Debezium contains Connect's envelope. Times are Debezium's microseconds.
    """
    words = [find("java"), "-cp", os.pathsep.join(map(str, connect_jars)), str(FOLDER / "WriteFramings.java")]
    empty, *values = map(base64.b64decode, run(words, tmp_path).split())
    assert open_record(empty) == Fault(
        Reason.NOT_A_VISIT, "payload: expected an object, which is a batch of visits or a visit"
    )
    assert len(values) == 3
    for value in values:
        opened = open_record(value)
        assert opened == parse_visits(value)
        assert isinstance(opened, list)
        assert read_visit(opened[0]) == read_visit(
            {"person_id": "p-17", "location_id": "station-1", "arrived_at": "2026-11-20T08:15:00Z"}
        )


@pytest.fixture
def database(connect_jars: list[Path], tmp_path: Path, eventually: Eventually) -> Iterator[Postgres]:
    """A running database."""
    (driver,) = (path for path in connect_jars if re.match(r"postgresql-\d", path.name))
    (binaries,) = (path for path in connect_jars if path.name.startswith("embedded-postgres-binaries"))

    def sql(url: str, statements: str) -> None:
        run([find("java"), "-cp", str(driver), str(FOLDER / "Sql.java"), url], tmp_path, statements)

    with closing(Postgres(binaries, tmp_path, sql)) as database:
        eventually(database.is_up, 60)
        yield database


@contextmanager
def run_connect(jars: list[Path], folder: Path, *files: str) -> Iterator[None]:
    """Run Kafka Connect with files of properties."""
    words = [find("java"), "-Xmx512m", "-cp", os.pathsep.join(map(str, jars))]
    with (folder / "connect.log").open("wb") as log:
        server = subprocess.Popen(
            [*words, "org.apache.kafka.connect.cli.ConnectStandalone", *files], cwd=folder, stdout=log, stderr=log
        )
        try:
            yield
        finally:
            server.terminate()
            server.wait(60)


@pytest.mark.soak
def test_database_sends(
    visits: Input, database: Postgres, connect_jars: list[Path], tmp_path: Path, eventually: Eventually
) -> None:
    """Kafka Connect sends the present rows, and those added later, in the form that the service reads."""
    database.execute(read_code("sql", {}))
    database.execute(
        "ALTER TABLE visits ADD COLUMN diagnosis text DEFAULT 'planted';"
        "INSERT INTO visits (person_id, location_id, arrived_at, left_at)"
        " VALUES ('p-17', 'station-1', '2026-11-20T09:15:00+01:00', '2026-11-20T08:40:00Z')"
    )
    (tmp_path / "secret.properties").write_text("db-password=change-me\n", encoding="utf-8")
    worker = {
        "localhost:9092": visits.address,
        "plugin.path=/opt/connect/plugins\n": "listeners=http://127.0.0.1:0\noffset.flush.interval.ms=500\n",
        "/var/lib/connect/offsets": str(tmp_path / "offsets"),
    }
    connector = {
        "db.example.org": "127.0.0.1",
        "5432": str(database.port),
        "=health\nslot": "=postgres\nslot",
        "/run/secrets/connect.properties": str(tmp_path / "secret.properties"),
        "replacement=visits": f"replacement={visits.name}",
    }
    (tmp_path / "worker.properties").write_text(read_code("properties", worker, 2), encoding="utf-8")
    (tmp_path / "visits.properties").write_text(read_code("properties", connector, 3), encoding="utf-8")
    with run_connect(connect_jars, tmp_path, "worker.properties", "visits.properties"):
        eventually(visits.read, 120)
        expect_the_visit(visits, eventually)
        database.execute(
            "INSERT INTO visits (person_id, location_id, arrived_at)"
            " VALUES ('p-18', 'station-2', '2026-11-20T08:15:00.25Z');"
            "DELETE FROM visits WHERE person_id = 'p-17'"
        )
        database.execute("UPDATE visits SET left_at = arrived_at + interval '5 minutes' WHERE person_id = 'p-18'")
        eventually(lambda: len(visits.read()) == 3, 60)
    later = visits.visits[1:]
    assert all(isinstance(visit, Visit) for visit in later), later
    assert [(visit.person_id, visit.arrived_at) for visit in later] == [("p-18", AT + 250_000)] * 2
    assert [visit.left_at for visit in later] == [None, AT + 250_000 + 5 * MINUTE]

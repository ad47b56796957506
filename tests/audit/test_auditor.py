"""The auditor as a process, on a real Kafka: its metrics, health, log lines, and result on the public page."""

from __future__ import annotations

import json
import logging
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafka import TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from monitor.audit.live.start_audit import FollowOptions, follow_topics
from monitor.audit.parse_values import parse_instant
from monitor.cli import main
from monitor.config.valid_config import load_valid_config
from monitor.kafka.connections import KafkaConnections
from monitor.operate.servers.ports import ReservedPort
from monitor.page.page_threads import Page, PageParts
from monitor.time.clock import SteppedClock
from tests.audit.conftest import Tiny
from tests.audit.records import charges, night, owner
from tests.audit.test_follow import HIDDEN, Published, open_transaction, run, split_by_tick
from tests.conftest import Eventually
from tests.kit.topics import recreate_topic
from tests.shared_kafka import SharedKafka

__all__ = ["run"]  # a fixture

JUDGED = "everything that was published has been judged"


@dataclass
class Auditor:
    """A running auditor."""

    port: int

    def fetch(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except urllib.error.URLError:  # it does not listen yet
            return 0, ""

    def value(self, name: str, **labels: str) -> float | None:
        families = text_string_to_metric_families(self.fetch("/metrics")[1])
        samples = (sample for family in families for sample in family.samples)
        found = (
            sample.value
            for sample in samples
            if sample.name == f"location_monitor_audit_{name}" and sample.labels == labels
        )
        return next(found, None)


def write_service(run: Published, kafka: SharedKafka, visits: str | None = None) -> Path:
    """Write the tiny configuration with the servers of the run."""
    run.tiny.config += (
        f"kafka: {{bootstrap_servers: ['{kafka.bootstrap_servers}'], topics: {{visits: {visits or run.visits}, "
        f"alerts: {run.alerts}, dead_letters: none}}}}\nredis: {{url: 'redis://localhost:6379/0'}}\n"
    )
    return run.tiny.write()[1]


@contextmanager
def run_auditor(config: Path, **options: Any) -> Iterator[Auditor]:
    """Run an auditor in a thread."""
    reserved, stop, failures = ReservedPort(), threading.Event(), []
    port = reserved.number
    reserved.release()

    def work() -> None:
        try:
            follow_topics([config], {}, FollowOptions(port=port, **options), stop, nullcontext)
        except Exception as error:  # noqa: BLE001  # raised below
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield Auditor(port)
    finally:
        stop.set()
        thread.join(30)
    assert failures == []


def ready(auditor: Auditor) -> bool:
    return auditor.fetch("/readyz")[0] == 200


def test_metrics_count_a_finding_once(
    run: Published, kafka: SharedKafka, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """A false "safe" published while the auditor runs is counted and logged once, without a person or a count."""
    run.report()
    run.publish(owner(charges()), *(line for line in run.tiny.records if line["value"]["tick"] < 6))
    config = write_service(run, kafka)
    with caplog.at_level(logging.INFO), run_auditor(config) as auditor:
        eventually(lambda: ready(auditor), 30)
        assert auditor.value("findings_total", kind="safe") == 0
        assert auditor.value("ticks_total", outcome="proven") == 6
        assert auditor.value("compares_input") == 1
        assert auditor.value("epsilon_spent", monitor="walk") == 1
        run.report([f"planted-{n},park,2026-01-01T06:10:00Z,2026-01-01T06:20:00Z," for n in range(47)])
        run.publish(*(line for line in run.tiny.records if line["value"]["tick"] == 6))
        eventually(lambda: auditor.value("findings_total", kind="safe") == 1)
        assert auditor.value("last_success_timestamp_seconds") is not None
        assert auditor.value("last_tick_timestamp_seconds", partition="0") == 1_767_250_800  # 2026-01-01T07:00:00Z
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("monitor.")]
    findings = [line for line in lines if line.startswith("finding")]
    assert findings == [
        'finding (safe, broken: every "safe" is true): walk/park, tick 6: "safe" is false, there were 2 people or more'
    ]
    assert not any(re.search(r"planted|\b47\b", line) for line in lines)  # a port may contain 47


def test_open_transaction_is_no_success(run: Published, kafka: SharedKafka, eventually: Eventually) -> None:
    """While a transaction hides visits, the auditor is not ready, gives the reason, and reports no success."""
    run.report()
    run.publish(owner(charges()), *run.tiny.records)
    with open_transaction(run, *HIDDEN) as producer, run_auditor(write_service(run, kafka)) as auditor:
        eventually(lambda: "a transaction is open there" in auditor.fetch("/readyz")[1], 30)
        assert auditor.value("state", state="catching_up") == 1
        assert auditor.value("last_success_timestamp_seconds") is None
        producer.abort_transaction()
        eventually(lambda: ready(auditor), 30)
        assert auditor.value("ticks_total", outcome="proven") == 7


def test_recreated_topic_counts_once(run: Published, kafka: SharedKafka, eventually: Eventually) -> None:
    """If a topic is re-created, everything is counted from the start, as by a new process, and not twice."""
    run.report([f"q{n},park,2026-01-01T06:10:00Z,2026-01-01T06:20:00Z," for n in range(2)])
    run.publish(owner(charges()), *run.tiny.records)
    with run_auditor(write_service(run, kafka)) as auditor:
        eventually(lambda: ready(auditor), 30)
        assert auditor.value("findings_total", kind="safe") == 1
        recreate_topic(run.kafka, run.alerts)
        run.publish(owner(charges()), *run.tiny.records, owner(charges()))
        eventually(lambda: auditor.value("records_total", kind="owner") == 2, 30)
        eventually(lambda: ready(auditor), 30)
        assert auditor.value("findings_total", kind="safe") == 1
        assert auditor.value("ticks_total", outcome="proven") == 7


@pytest.mark.promise(40)
def test_incomplete_tick_is_counted(run: Published, kafka: SharedKafka, eventually: Eventually) -> None:
    """A tick whose missing answers an owner record names as lost is counted, and is no finding.

    output    owner  0  1  2  3 (walk only)   owner, owner (incomplete: 3)   4  5  6
    """
    run.tiny.remove(*(night(tick, {})["headers"]["ce_id"] for tick in (3, 4)))
    run.tiny.insert(night(4, {"shop": {"tick": 4, "noisy_count": 2}}))
    until, later = run.tiny.split(3)
    run.report()
    run.publish(owner(charges()), *until, owner(charges()), owner(charges(), incomplete=3))
    with run_auditor(write_service(run, kafka)) as auditor:
        eventually(lambda: ready(auditor), 30)
        assert auditor.value("incomplete_ticks_total", partition="0") == 0
        run.publish(*later)
        eventually(lambda: auditor.value("incomplete_ticks_total", partition="0") == 1)
        eventually(lambda: ready(auditor))
        assert auditor.value("findings_total", kind="ticks") == 0
        assert auditor.value("missing_ticks_total", partition="0") == 0


def test_partial_ticks_are_no_success(
    run: Published, kafka: SharedKafka, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """If input has expired, everything is read, but the auditor is not ready, has no success, and claims no result."""
    run.report()
    run.publish(owner(charges()), *run.tiny.records)
    with closing(run.kafka.create_admin()) as admin:
        admin.delete_records({TopicPartition(run.visits, 0): 1})
    result = run.tiny.folder / "result.json"
    with caplog.at_level(logging.INFO), run_auditor(write_service(run, kafka), result=result) as auditor:
        eventually(lambda: auditor.value("ticks_total", outcome="partial") == 7, 30)
        eventually(lambda: auditor.value("state", state="judging") == 1, 30)
        status, text = auditor.fetch("/readyz")
        assert status == 503
        assert "they are partial, unproven or unjudged" in text
        assert auditor.value("last_success_timestamp_seconds") is None
    assert not result.exists()
    assert JUDGED not in caplog.messages
    assert sum("has been read, but some of the last ticks" in line for line in caplog.messages) == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--output-only"], "--output-only, --metrics-port, --since and --result require --follow"),
        (["--follow", "--output-only", "--result", "result.json"], "leave out --output-only"),
        (["--follow", "--result", "none/result.json"], "the folder does not exist"),
        (["--follow", "--since", "noon"], "--since noon"),
        (["--follow", "VISITS", "--alerts", "VISITS"], "leave out VISITS and --alerts"),
        (["--live"], "--live requires VISITS and --alerts"),
        (["--live", "--follow"], "--live requires VISITS and --alerts"),
        (["VISITS"], "VISITS and --alerts must be given together"),
    ],
)
def test_wrong_options_are_refused(tiny: Tiny, words: list[str], text: str) -> None:
    """Wrong options end with exit code 2 before anything starts."""
    tiny.config += "kafka: {bootstrap_servers: ['localhost:1'], topics: {visits: v, alerts: a, dead_letters: d}}\n"
    tiny.config += "redis: {url: 'redis://localhost:1/0'}\n"
    visits, config, _alerts = tiny.write()
    given = [str(visits) if word == "VISITS" else word for word in words]
    result = CliRunner().invoke(main, ["audit", "--config", str(config), *given])
    assert result.exit_code == 2
    assert text in result.output


@contextmanager
def serve(config: Path) -> Iterator[Page]:
    """Write the page of a configuration file at seven o'clock of the tiny run."""
    valid = load_valid_config(config, {})
    kafka = KafkaConnections(tuple(valid.config.kafka.bootstrap_servers))
    parts = PageParts(valid.config, valid.parameters, valid.locations, kafka)
    with Page(parts, SteppedClock(parse_instant("2026-01-01T07:00:00Z")), config.parent / "site") as page:
        yield page


def read(page: Page) -> str:
    """Return the page in English."""
    return (page.folder.path / "en.html").read_text(encoding="utf-8")


def line(page: Page) -> str:
    """Return the line about the recount."""
    return read(page).partition('<p id="audit">')[2].partition("</p>")[0]


@pytest.mark.promise(37)
def test_page_shows_what_the_auditor_proved(run: Published, kafka: SharedKafka, eventually: Eventually) -> None:
    """The page says up to when everything is recounted. A false "safe" is counted.

    While the auditor is cut off from the input, the time does not advance.
    """
    run.tiny.config = run.tiny.config.replace('{epsilon: "2"', '{epsilon: "9/2"')
    run.tiny.config += "page: {audit_file: result.json}\n"
    *earlier, fifth, sixth = split_by_tick(run)
    run.report()
    run.publish(owner(charges()), *chain(*earlier))
    config = write_service(run, kafka)
    result = config.parent / "result.json"
    with serve(config) as page:
        eventually((config.parent / "site" / "en.html").exists)
        assert line(page) == ""
        with run_auditor(config, result=result) as auditor:
            eventually(result.exists, 30)
            words = (
                "An independent program has recounted all answers from 1 Jan 2026, 01:00 up to 1 Jan 2026, "
                "{}: {} false."
            )
            eventually(lambda: line(page) == words.format("05:00", 0))
            assert "9/2 stated, 9/2 in the worst case" in read(page)
            assert "the published answers have cost 3/2 at most" in read(page)
            run.report([f"planted-{n},park,2026-01-01T05:10:00Z,2026-01-01T05:20:00Z," for n in range(47)])
            run.publish(*fifth)
            eventually(lambda: line(page) == words.format("06:00", 1))
            with closing(run.kafka.create_admin()) as admin:
                admin.delete_topics([run.visits])
            eventually(lambda: auditor.value("state", state="cut_off") == 1, 30)
            run.publish(*sixth)
            eventually(lambda: auditor.value("waiting_ticks") == 1)
            status, text = auditor.fetch("/readyz")
            assert (status, auditor.fetch("/healthz")[0]) == (503, 200)
            assert f"there is no topic {run.visits}" in text
            assert "06:00: 1" in line(page)
    assert [path.name for path in config.parent.glob("result*")] == ["result.json"]
    assert set(json.loads(result.read_text())) == {"from", "up_to", "false", "epsilon_at_most"}

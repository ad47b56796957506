"""The result of the auditor on the public page: real topics, the auditor, and the page that reads its file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from monitor.audit.parse_values import parse_instant
from monitor.config.valid_config import load_valid_config
from monitor.kafka.connections import KafkaConnections
from monitor.page.page_threads import Page, PageParts
from monitor.time.clock import SteppedClock
from tests.audit.records import charges, owner
from tests.audit.test_auditor import run_auditor, write_service
from tests.audit.test_follow import Published, run
from tests.conftest import Eventually
from tests.shared_kafka import SharedKafka

__all__ = ["run"]  # a fixture

PAGE = "page: {audit_file: result.json}\n"


def ticks(run: Published, *wanted: int) -> list[dict[str, Any]]:
    return [line for line in run.tiny.records if line["value"]["tick"] in wanted]


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
    run.tiny.config = run.tiny.config.replace('{epsilon: "2"', '{epsilon: "9/2"') + PAGE
    run.report()
    run.publish(owner(charges()), *ticks(run, *range(5)))
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
            run.publish(*ticks(run, 5))
            eventually(lambda: line(page) == words.format("06:00", 1))
            with closing(run.kafka.create_admin()) as admin:
                admin.delete_topics([run.visits])
            eventually(lambda: auditor.value("state", state="cut_off") == 1, 30)
            run.publish(*ticks(run, 6))
            eventually(lambda: auditor.value("waiting_ticks") == 1)
            status, text = auditor.fetch("/readyz")
            assert (status, auditor.fetch("/healthz")[0]) == (503, 200)
            assert f"there is no topic {run.visits}" in text
            assert "06:00: 1" in line(page)
    assert [path.name for path in config.parent.glob("result*")] == ["result.json"]
    assert set(json.loads(result.read_text())) == {"from", "up_to", "false", "epsilon_at_most"}

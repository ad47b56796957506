"""`watch` on a real Kafka: it finds the last complete tick, and follows new records."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from monitor.cli import main
from monitor.client.topic_consumer import read_topic_id
from monitor.client.watch import watch
from monitor.config.sections import SigningSettings
from monitor.config.valid_config import ValidConfig
from monitor.errors import TopicError
from monitor.ledger.sign_ticks import SignedLog
from monitor.records.owner_record import make_owner_record
from monitor.service.wiring import Settings
from monitor.time.clock import SteppedClock
from monitor.time.instants import DAY
from tests.client.conftest import Publish
from tests.client.records import SLOTS, over_time
from tests.conftest import Eventually
from tests.kit.signed import SIGNER


def show_once(valid: ValidConfig, tick: int) -> str:
    """Run `watch --once` at the as_of of a tick, and return its output."""
    file = io.StringIO()
    watch(valid, Console(file=file, width=200), SteppedClock(SLOTS.as_of(tick)), threading.Event(), once=True)
    return file.getvalue()


def test_once_shows_the_last_tick(valid: ValidConfig, publish: Publish) -> None:
    """With --once the last complete tick is shown."""
    publish(over_time(place, tick, 0) for tick in range(30) for place in ("market", "clinic"))
    assert show_once(valid, 29).splitlines() == [
        "As of Tue 6 Jan 06:00 UTC, tick 29",
        "places market: safe: fewer than 10 reported infected people since Tue 6 Jan 01:00",
        "places clinic: safe: fewer than 10 reported infected people since Tue 6 Jan 01:00",
    ]


def test_answers_before_late_record_are_found(valid: ValidConfig, publish: Publish) -> None:
    """An owner record long after the last answers does not hide them."""
    owner = make_owner_record(
        source="town",
        service="town",
        fingerprint="f",
        input_topic_id="t",
        partitions=1,
        lost_at=None,
        input_since=None,
        partition=0,
        at=SLOTS.as_of(29) + 10 * DAY,
    )
    publish([*(over_time("market", tick, 0) for tick in range(30)), owner])
    assert "As of Tue 6 Jan 06:00 UTC, tick 29" in show_once(valid, 29)


def test_missing_topic_is_refused(valid: ValidConfig) -> None:
    """Without the topic `watch` is refused, and the message says how to create it."""
    with pytest.raises(TopicError, match="there is no such topic: run `location-monitor topics --create`"):
        show_once(valid, 0)


@contextmanager
def follow(valid: ValidConfig, tick: int) -> Iterator[io.StringIO]:
    """Run `watch` at the as_of of a tick until the end of the block, and give its output. Then it must end."""
    stop, file = threading.Event(), io.StringIO()
    console, clock = Console(file=file, width=200), SteppedClock(SLOTS.as_of(tick))
    thread = threading.Thread(target=watch, args=(valid, console, clock, stop), kwargs={"once": False})
    thread.start()
    try:
        yield file
    finally:
        stop.set()
        thread.join(10)
    assert not thread.is_alive()


def test_changes_are_printed_until_stopped(valid: ValidConfig, publish: Publish, eventually: Eventually) -> None:
    """New records are printed as news until the command is stopped."""
    publish([over_time("market", 6, 0)])
    with follow(valid, 6) as file:
        eventually(lambda: "places market: safe" in file.getvalue())
        publish([over_time("market", 7, 12)])
        news = "2026-01-05T08:00:00Z market: at most 12 reported infected people in the last 5h (noisy), "
        eventually(lambda: news in file.getvalue())


def test_problem_of_signatures_is_printed(
    valid: ValidConfig, publish: Publish, settings: Settings, eventually: Eventually
) -> None:
    """The headline names the signer. An answer without a signature that arrives later is printed as a problem."""
    topic = settings.config.kafka.topics.alerts
    publish([])
    with closing(settings.kafka.create_admin()) as admin:
        log = SignedLog(SIGNER, "town", read_topic_id(admin, topic), 0)
    answers = [over_time("market", 6, 0)]
    publish([*answers, log.sign(6, SLOTS.as_of(6), answers)])
    signing = SigningSettings(public_key=str(SIGNER.verifier))
    with follow(replace(valid, config=valid.config.model_copy(update={"signing": signing})), 6) as file:
        eventually(lambda: "places market: safe" in file.getvalue())
        assert f"tick 6; verified, signed by {SIGNER.verifier.name}\n" in file.getvalue()
        publish(over_time("market", tick, 0) for tick in (7, 8))
        eventually(lambda: "NOT VERIFIED: output partition 0: the answers of 2026-01-05T08" in file.getvalue())
    assert file.getvalue().count("NOT VERIFIED") == 1


def test_redis_is_not_needed(configured: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the password and the certificates of Redis the command works: a subscriber only reads the topic."""
    publish([])
    monkeypatch.setenv("LOCATION_MONITOR__REDIS__URL", "rediss://localhost:6380/0")
    monkeypatch.setenv("LOCATION_MONITOR__REDIS__PASSWORD_FILE", "/nowhere/password")
    monkeypatch.setenv("LOCATION_MONITOR__REDIS__CA_FILE", "/nowhere/ca.pem")
    result = CliRunner().invoke(main, ["watch", "--config", str(configured), "--once"])
    assert (result.exit_code, result.output) == (0, "Nothing has been published yet.\n")

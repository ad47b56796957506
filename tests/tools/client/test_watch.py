"""`watch` on a real Kafka: it finds the last complete tick, and follows new records."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from fractions import Fraction

import pytest
from click.testing import CliRunner
from rich.console import Console

from monitor.cli import main
from monitor.config import ValidConfig
from monitor.config.sections import SigningSettings
from monitor.contracts.clock import SteppedClock
from monitor.contracts.instants import DAY, HOUR
from monitor.contracts.owner_record import make_owner_record
from monitor.contracts.parameters import HotSpots
from monitor.contracts.schedule import Schedule
from monitor.errors import TopicError
from monitor.service.wiring import Settings
from monitor.ticks.signed_log import SignedLog
from monitor.tools.client.subscriber import read_topic_id
from monitor.tools.client.watch import list_final_ticks, watch
from tests.conftest import Eventually
from tests.kit.signed import SIGNER
from tests.tools.client.conftest import CONFIG, Published
from tests.tools.client.records import SLOTS, hot_spots, over_time


def output(valid: ValidConfig, tick: int, stop: threading.Event, *, once: bool) -> io.StringIO:
    """Run `watch` at the as_of of a tick, and return its output."""
    file = io.StringIO()
    watch(valid, Console(file=file, width=200), SteppedClock(SLOTS.as_of(tick)), stop, once=once)
    return file


def test_once_shows_the_last_tick(valid: ValidConfig, publish: Callable[[Published], None]) -> None:
    """With --once the last complete tick is shown."""
    publish((over_time(place, tick, 0), SLOTS.as_of(tick)) for tick in range(30) for place in ("market", "clinic"))
    lines = output(valid, 29, threading.Event(), once=True).getvalue().splitlines()
    assert lines == [
        "As of Tue 6 Jan 06:00 UTC, tick 29",
        "places market: safe: fewer than 10 target people since Tue 6 Jan 01:00",
        "places clinic: safe: fewer than 10 target people since Tue 6 Jan 01:00",
    ]


def test_answers_before_late_record_are_found(valid: ValidConfig, publish: Callable[[Published], None]) -> None:
    """An owner record long after the last answers does not hide them."""
    later = SLOTS.as_of(29) + 10 * DAY
    owner = make_owner_record(
        source="town",
        service="town",
        fingerprint="f",
        input_topic_id="t",
        partitions=1,
        lost_at=None,
        input_since=None,
        partition=0,
        at=later,
    )
    publish([*((over_time("market", tick, 0), SLOTS.as_of(tick)) for tick in range(30)), (owner, later)])
    text = output(valid, 29, threading.Event(), once=True).getvalue()
    assert "As of Tue 6 Jan 06:00 UTC, tick 29" in text


@pytest.fixture
def busiest(valid: ValidConfig) -> ValidConfig:
    """A configuration with hot spots each day at 02:30 UTC, drawn at 05:00, the last tick before 05:30."""
    times = Schedule.of(("02:30",), "UTC")
    monitor = HotSpots("busiest", times, Fraction(1), 3, 3 * HOUR)
    return replace(valid, parameters=replace(valid.parameters, grid=SLOTS, hot_spots=(monitor,)))


def last_line(valid: ValidConfig, tick: int) -> str:
    return output(valid, tick, threading.Event(), once=True).getvalue().splitlines()[-1]


def test_earlier_hot_spots_are_found(busiest: ValidConfig, publish: Callable[[Published], None]) -> None:
    """The latest hot spots are found far before the last tick."""
    #     tick   4              27          28
    #            τ in slot 2                τ in slot 26
    hourly = [(over_time("market", tick, 0), SLOTS.as_of(tick)) for tick in range(28)]
    tonight = (hot_spots(26, {"park": 4}), SLOTS.as_of(28))
    publish(sorted([*hourly, (hot_spots(2, {"market": 9}), SLOTS.as_of(4))], key=lambda item: item[1]))
    line = "busiest Mon 5 Jan 02:30: market at most 9 (target people; noisy, drawn once)"
    assert last_line(busiest, 27) == line
    publish([(over_time("market", 28, 0), SLOTS.as_of(28)), tonight])
    assert last_line(busiest, 28).startswith("busiest Tue 6 Jan 02:30: park at most 4")


def test_skipped_time_hides_no_hot_spots(busiest: ValidConfig, publish: Callable[[Published], None]) -> None:
    """A time without hot spots does not hide those of an earlier time."""
    published = [(hot_spots(2, {"market": 9}), SLOTS.as_of(4)), (over_time("market", 60, 0), SLOTS.as_of(60))]
    publish(published)
    assert last_line(busiest, 60).startswith("busiest Mon 5 Jan 02:30: market at most 9")


def test_look_back_shows_only_hot_spots(
    busiest: ValidConfig, publish: Callable[[Published], None], eventually: Eventually
) -> None:
    """Looking back shows hot spots only, and new records are still followed."""
    publish([(over_time("park", 4, 0), SLOTS.as_of(4)), (hot_spots(2, {"market": 9}), SLOTS.as_of(4))])
    publish([(over_time("market", 27, 0), SLOTS.as_of(27))])
    stop, file = threading.Event(), io.StringIO()
    console, clock = Console(file=file, width=200), SteppedClock(SLOTS.as_of(27))
    thread = threading.Thread(target=watch, args=(busiest, console, clock, stop), kwargs={"once": False})
    thread.start()
    try:
        eventually(lambda: "busiest Mon 5 Jan 02:30: market" in file.getvalue())
        publish([(hot_spots(26, {"park": 4}), SLOTS.as_of(28))])
        news = "2026-01-06T05:00:00Z Tue 6 Jan 02:30 busiest: park at most 4 (target people; noisy, drawn once)\n"
        eventually(lambda: file.getvalue().endswith(news))
    finally:
        stop.set()
        thread.join(10)
    assert "park: safe" not in file.getvalue()


def test_list_final_ticks_match_the_release(busiest: ValidConfig) -> None:
    """The computed ticks of hot spots are those at which the release publishes them."""
    (monitor,) = busiest.parameters.hot_spots
    released = [
        tick
        for tick in range(100)
        if any(monitor.is_final(time, SLOTS.as_of(tick), SLOTS) for time in monitor.list_live_times(SLOTS.as_of(tick)))
    ]
    assert [tick for tick in list_final_ticks(monitor, SLOTS, 99) if tick >= 0] == released == [4, 28, 52, 76]


def test_once_on_an_empty_topic(valid: ValidConfig, publish: Callable[[Published], None]) -> None:
    """On an empty topic --once prints that nothing was published."""
    publish([])
    assert output(valid, 0, threading.Event(), once=True).getvalue() == "Nothing has been published yet.\n"


def test_missing_topic_is_refused(valid: ValidConfig) -> None:
    """Without the topic `watch` is refused, and the message says how to create it."""
    with pytest.raises(TopicError, match="there is no such topic: run `location-monitor topics --create`"):
        output(valid, 0, threading.Event(), once=True)


def test_changes_are_printed_until_stopped(
    valid: ValidConfig, publish: Callable[[Published], None], eventually: Eventually
) -> None:
    """New records are printed as news until the command is stopped."""
    publish([(over_time("market", 6, 0), SLOTS.as_of(6))])
    stop, file = threading.Event(), io.StringIO()
    console, clock = Console(file=file, width=200), SteppedClock(SLOTS.as_of(6))
    thread = threading.Thread(target=watch, args=(valid, console, clock, stop), kwargs={"once": False})
    thread.start()
    try:
        eventually(lambda: "places market: safe" in file.getvalue())
        publish([(over_time("market", 7, 12), SLOTS.as_of(7))])
        news = "2026-01-05T08:00:00Z market: at most 12 target people in the last 5h (noisy)\n"
        eventually(lambda: file.getvalue().endswith(news))
    finally:
        stop.set()
        thread.join(10)
    assert not thread.is_alive()


def test_problem_of_signatures_is_printed(
    valid: ValidConfig, publish: Callable[[Published], None], settings: Settings, eventually: Eventually
) -> None:
    """An answer without a signature that arrives later is printed as a problem."""
    topic = settings.config.kafka.topics.alerts
    publish([])
    with closing(settings.kafka.create_admin()) as admin:
        log = SignedLog(SIGNER, "town", read_topic_id(admin, topic), 0)
    answers = [over_time("market", 6, 0)]
    publish((record, SLOTS.as_of(6)) for record in [*answers, log.sign(6, SLOTS.as_of(6), answers)])
    signing = SigningSettings(public_key=str(SIGNER.verifier))
    verifying = replace(valid, config=valid.config.model_copy(update={"signing": signing}))
    stop, file = threading.Event(), io.StringIO()
    console, clock = Console(file=file, width=200), SteppedClock(SLOTS.as_of(6))
    thread = threading.Thread(target=watch, args=(verifying, console, clock, stop), kwargs={"once": False})
    thread.start()
    try:
        eventually(lambda: "places market: safe" in file.getvalue())
        publish((over_time("market", tick, 0), SLOTS.as_of(tick)) for tick in (7, 8))
        eventually(lambda: "NOT VERIFIED: output partition 0: the answers of 2026-01-05T08" in file.getvalue())
    finally:
        stop.set()
        thread.join(10)
    assert file.getvalue().count("NOT VERIFIED") == 1


def test_redis_is_not_needed(valid: ValidConfig, publish: Callable[[Published], None]) -> None:
    """Without the password and the certificates of Redis the command works: a subscriber only reads the topic."""
    publish([])
    environment = {
        "LOCATION_MONITOR__KAFKA__BOOTSTRAP_SERVERS": ",".join(valid.config.kafka.bootstrap_servers),
        "LOCATION_MONITOR__KAFKA__TOPICS__ALERTS": valid.config.kafka.topics.alerts,
        "LOCATION_MONITOR__REDIS__URL": "rediss://localhost:6380/0",
        "LOCATION_MONITOR__REDIS__PASSWORD_FILE": "/nowhere/password",
        "LOCATION_MONITOR__REDIS__CA_FILE": "/nowhere/ca.pem",
    }
    result = CliRunner().invoke(main, ["watch", "--config", str(CONFIG), "--once"], env=environment)
    assert (result.exit_code, result.output) == (0, "Nothing has been published yet.\n")


@pytest.mark.parametrize("options", [("--once",), ("--metrics", "0")])
def test_missing_certificate_is_named(options: tuple[str, ...]) -> None:
    """A missing certificate file of Kafka is named with its key before a connection is opened."""
    environment = {
        "LOCATION_MONITOR__KAFKA__SECURITY_PROTOCOL": "SSL",
        "LOCATION_MONITOR__KAFKA__CA_FILE": "/nowhere/ca.pem",
    }
    result = CliRunner().invoke(main, ["watch", "--config", str(CONFIG), *options], env=environment)
    assert result.exit_code == 2
    assert "kafka.ca_file is /nowhere/ca.pem" in result.output

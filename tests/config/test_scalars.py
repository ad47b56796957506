"""Single values: what is taken, and what a refusal says."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.public.instants import MILLISECOND, SECOND, YEAR, format_duration, parse_duration


@pytest.mark.parametrize("value", [3600, 1.5, "1 h", "h", "", "-1h", True, None, "999y", "1h30"])
def test_what_is_no_duration_is_refused(refusal: Any, value: object) -> None:
    assert "a duration" in refusal({"privacy.period": value})["privacy.period"].expected


@pytest.mark.parametrize(
    ("key", "least"), [("clock.slot", "1s"), ("privacy.period", "1ms"), ("visits.default_stay", "1ms")]
)
def test_a_duration_has_a_least_value(refusal: Any, key: str, least: str) -> None:
    assert refusal({key: "0s"})[key].expected == f"a duration from {least} to 100y"


@pytest.mark.parametrize("slot", ["999ms", "500ms"])
def test_a_slot_lasts_a_second_at_least(refusal: Any, slot: str) -> None:
    assert refusal({"clock.slot": slot})["clock.slot"].expected == "a duration from 1s to 100y"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(duration=st.integers(1, 100 * YEAR // MILLISECOND).map(lambda n: n * MILLISECOND))
def test_any_duration_reads_back_as_it_was_written(load: Any, duration: int) -> None:
    assert parse_duration(format_duration(duration)) == duration
    assert load({"privacy.period": format_duration(duration)}).privacy.period == duration


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        ("2026-01-05T00:00:00", "no offset"),
        ("2026-01-05", "not an RFC 3339 time"),
        ("2026-02-30T00:00:00Z", "no such date"),
        ("2026-01-05T00:00:00.0005Z", "whole milliseconds"),
        (1388588400, ""),
    ],
)
def test_an_origin_that_is_no_instant_of_whole_milliseconds_is_refused(
    refusal: Any, value: object, remedy: str
) -> None:
    problem = refusal({"clock.origin": value})["clock.origin"]
    assert "RFC 3339" in problem.expected
    assert remedy in problem.remedy


@pytest.mark.parametrize(
    ("value", "exact"),
    [(3, Fraction(3)), ("1/2", Fraction(1, 2)), ("0.1", Fraction(1, 10)), ("2/6", Fraction(1, 3))],
)
def test_epsilon_is_exact(load: Any, value: object, exact: Fraction) -> None:
    assert load({"monitors.0.epsilon": value}).monitors[0].epsilon == exact


@pytest.mark.parametrize(
    ("value", "fraction", "decimal"), [(0.5, "1/2", "0.5"), (0.1, "1/10", "0.1"), (1.0, "1", "1.0")]
)
def test_a_float_epsilon_is_refused_with_the_ways_to_write_it(
    refusal: Any, value: float, fraction: str, decimal: str
) -> None:
    problem = refusal({"monitors.0.epsilon": value})["monitors.0.epsilon"]
    assert f'write "{fraction}" or "{decimal}"' in problem.remedy


@pytest.mark.parametrize("value", [0, -1, "0", "-1/2", "1/0", "one", True, None, [], float("nan"), float("inf"), -0.5])
def test_what_is_no_positive_rational_is_no_epsilon(refusal: Any, value: object) -> None:
    assert "an exact ε above zero" in refusal({"privacy.epsilon": value})["privacy.epsilon"].expected


@pytest.mark.parametrize(("value", "written"), [(1080, "18:00"), (65, "1:05"), (64830, "18:00:30")])
def test_an_unquoted_time_of_day_is_refused_with_what_was_probably_written(
    refusal: Any, value: int, written: str
) -> None:
    problem = refusal({"monitors.1.at": [value]})["monitors.1.at.0"]
    assert f"unquoted {written} as the number {value}: put it in quotes" in problem.remedy


@pytest.mark.parametrize("value", ["24:00", "18:60", "8:00", "18.00", "evening", "18:00Z", "2026-01-05T18:00:00", None])
def test_what_is_neither_time_of_day_nor_instant_is_refused(refusal: Any, value: object) -> None:
    assert "a time of day in quotes" in refusal({"monitors.1.at": [value]})["monitors.1.at.0"].expected


def test_daily_times_with_seconds_and_instants_are_taken(load: Any) -> None:
    at = ["18:00:30", "00:00", "2026-01-05T18:00:00.5+01:00"]
    monitor = load({"monitors.1.at": at}).monitors[1]
    assert monitor.at == tuple(at)
    assert [time.isoformat() for time in monitor.daily] == ["18:00:30", "00:00:00"]
    assert [instant % SECOND for instant in monitor.instants] == [SECOND // 2]


@pytest.mark.parametrize("value", ["Asia/Tokio", "Europe", "../etc/passwd", "", 9, "GMT+25"])
def test_a_time_zone_must_be_one_of_ianas(refusal: Any, value: object) -> None:
    assert "IANA" in refusal({"monitors.1.timezone": value})["monitors.1.timezone"].expected


@pytest.mark.parametrize("value", ["new york", "tōkyō", "", "a" * 101, 7, "a.b", "a\n"])
def test_names_are_letters_digits_hyphens_and_underscores(refusal: Any, value: object) -> None:
    problems = refusal({"service.name": value, "monitors.0.name": value})
    assert {problem.expected for problem in problems.values()} == {"a name of letters, digits, - and _, at most 100"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("service.shards", 0),
        ("service.shards", 4097),
        ("monitors.0.threshold", 0),
        ("monitors.0.threshold", 2.5),
        ("monitors.0.threshold", True),
        ("monitors.1.threshold", "many"),
        ("monitors.0.answers_per_window", 0),
        ("kafka.partitions.visits", 0),
        ("kafka.replication_factor", 0),
        ("metrics.port", -1),
        ("metrics.port", 65536),
    ],
)
def test_numbers_are_whole_and_within_their_bounds(refusal: Any, key: str, value: object) -> None:
    assert refusal({key: value})[key].expected.startswith("a whole number")


@pytest.mark.parametrize("key", ["service.shards", "metrics.port"])
def test_bounds_themselves_are_taken(load: Any, key: str) -> None:
    section, name = key.split(".")
    for value in {"service.shards": (1, 4096), "metrics.port": (0, 65535)}[key]:
        assert getattr(getattr(load({key: value}), section), name) == value


@pytest.mark.parametrize("value", ["", "a\tb", "a\x7fb", "a\x85b", "x" * 257, "ü" * 129, 7, False])
def test_a_watched_id_must_be_an_id(refusal: Any, value: object) -> None:
    assert "a location's id" in refusal({"monitors.0.locations": ["shibuya", value]})["monitors.0.locations.1"].expected


@pytest.mark.parametrize("weight", [0, -1, 1.5, "many", True, None])
def test_weights_are_positive_whole_numbers(refusal: Any, weight: object) -> None:
    problems = refusal({"monitors.0.locations": {"shibuya": 1, "list": weight}})
    assert problems["monitors.0.locations.list"].expected == "a whole number of at least 1"


@pytest.mark.parametrize("value", ["localhost", "localhost:", ":9092", "kafka://a:9092", "a:9092/x", 9092])
def test_a_brokers_address_has_a_host_and_a_port(refusal: Any, value: object) -> None:
    assert "localhost:9092" in refusal({"kafka.bootstrap_servers": [value]})["kafka.bootstrap_servers.0"].expected


def test_there_must_be_a_broker(refusal: Any) -> None:
    assert "at least one" in refusal({"kafka.bootstrap_servers": []})["kafka.bootstrap_servers"].expected


@pytest.mark.parametrize("value", ["", "..", "a b", "ü", "x" * 250])
def test_a_topics_name_is_one_that_kafka_takes(refusal: Any, value: str) -> None:
    assert "Kafka topic" in refusal({"kafka.topics.visits": value})["kafka.topics.visits"].expected


@pytest.mark.parametrize(
    "value",
    [
        "http://localhost",
        "redis://",
        "redis://localhost:70000",
        "redis://localhost/x",
        "redis://h/0?ssl=no",
        "unix://",
        3,
    ],
)
def test_a_url_that_is_not_redis_is_refused(refusal: Any, value: object) -> None:
    assert "redis://localhost:6379/0" in refusal({"redis.url": value})["redis.url"].expected


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://localhost", "redis://localhost"),
        ("rediss://user@h:6380/3", "rediss://h:6380/3"),
        ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
        ("unix:///run/redis.sock?db=2", "unix:///run/redis.sock"),
    ],
)
def test_the_address_that_may_be_shown_has_no_user(load: Any, url: str, address: str) -> None:
    assert load({"redis.url": url}).redis.address == address

"""Single configuration values: valid values, and the messages of refusals."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.contracts.instants import MILLISECOND, SECOND, YEAR, format_duration, parse_duration


@pytest.mark.parametrize("value", [3600, 1.5, "1 h", "h", "", "-1h", True, None, "999y", "1h30"])
def test_invalid_duration_is_refused(refusal: Any, value: object) -> None:
    """A value that is not a duration is refused."""
    assert "a duration" in refusal({"privacy.period": value})["privacy.period"].expected


@pytest.mark.parametrize(
    ("key", "least"), [("clock.slot", "1s"), ("privacy.period", "1ms"), ("visits.default_stay", "1ms")]
)
def test_duration_has_a_minimum(refusal: Any, key: str, least: str) -> None:
    """A duration below the minimum of its key is refused."""
    assert refusal({key: "0s"})[key].expected == f"a duration from {least} to 100y"


@pytest.mark.parametrize("slot", ["999ms", "500ms"])
def test_slot_lasts_at_least_a_second(refusal: Any, slot: str) -> None:
    """A slot must last at least a second."""
    assert refusal({"clock.slot": slot})["clock.slot"].expected == "a duration from 1s to 100y"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(duration=st.integers(1, 100 * YEAR // MILLISECOND).map(lambda n: n * MILLISECOND))
def test_duration_round_trip(load: Any, duration: int) -> None:
    """A formatted duration is parsed back unchanged."""
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
def test_invalid_origin_is_refused(refusal: Any, value: object, remedy: str) -> None:
    """The origin must be an RFC 3339 time in whole milliseconds."""
    problem = refusal({"clock.origin": value})["clock.origin"]
    assert "RFC 3339" in problem.expected
    assert remedy in problem.remedy


@pytest.mark.parametrize(
    ("value", "exact"),
    [(3, Fraction(3)), ("1/2", Fraction(1, 2)), ("0.1", Fraction(1, 10)), ("2/6", Fraction(1, 3))],
)
def test_epsilon_is_exact(load: Any, value: object, exact: Fraction) -> None:
    """ε is parsed as an exact fraction."""
    assert load({"monitors.0.epsilon": value}).monitors[0].epsilon == exact


@pytest.mark.parametrize(
    ("value", "fraction", "decimal"), [(0.5, "1/2", "0.5"), (0.1, "1/10", "0.1"), (1.0, "1", "1.0")]
)
def test_float_epsilon_is_refused(refusal: Any, value: float, fraction: str, decimal: str) -> None:
    """An ε that is a YAML float is refused, and the message shows how to write it exactly."""
    problem = refusal({"monitors.0.epsilon": value})["monitors.0.epsilon"]
    assert f'write "{fraction}" or "{decimal}"' in problem.remedy


@pytest.mark.parametrize("value", [0, -1, "0", "-1/2", "1/0", "one", True, None, [], float("nan"), float("inf"), -0.5])
def test_invalid_epsilon_is_refused(refusal: Any, value: object) -> None:
    """A value that is not a positive rational number is refused."""
    assert "an exact ε above zero" in refusal({"privacy.epsilon": value})["privacy.epsilon"].expected


@pytest.mark.parametrize(("value", "written"), [(1080, "18:00"), (65, "1:05"), (64830, "18:00:30")])
def test_unquoted_time_of_day_is_refused(refusal: Any, value: int, written: str) -> None:
    """An unquoted time of day is refused, and the message shows its probable source text."""
    problem = refusal({"monitors.1.at": [value]})["monitors.1.at.0"]
    assert f"unquoted {written} as the number {value}: put it in quotes" in problem.remedy


@pytest.mark.parametrize("value", ["24:00", "18:60", "8:00", "18.00", "evening", "18:00Z", "2026-01-05T18:00:00", None])
def test_invalid_designated_time_is_refused(refusal: Any, value: object) -> None:
    """A value that is neither a time of day nor an instant is refused."""
    assert "a time of day in quotes" in refusal({"monitors.1.at": [value]})["monitors.1.at.0"].expected


def test_valid_designated_times(load: Any) -> None:
    """Daily times may have seconds, and instants a fraction of a second."""
    at = ["18:00:30", "00:00", "2026-01-05T18:00:00.5+01:00"]
    monitor = load({"monitors.1.at": at}).monitors[1]
    assert monitor.at == tuple(at)
    assert [time.isoformat() for time in monitor.daily] == ["18:00:30", "00:00:00"]
    assert [instant % SECOND for instant in monitor.instants] == [SECOND // 2]


@pytest.mark.parametrize("value", ["Asia/Tokio", "Europe", "../etc/passwd", "", 9, "GMT+25"])
def test_unknown_time_zone_is_refused(refusal: Any, value: object) -> None:
    """A time zone must be an IANA name."""
    assert "IANA" in refusal({"monitors.1.timezone": value})["monitors.1.timezone"].expected


@pytest.mark.parametrize("value", ["new york", "tōkyō", "", "a" * 101, 7, "a.b", "a\n"])
def test_invalid_names_are_refused(refusal: Any, value: object) -> None:
    """Names consist of letters, digits, - and _."""
    problems = refusal({"service.name": value, "monitors.0.name": value})
    assert {problem.expected for problem in problems.values()} == {"a name of at most 100 letters, digits, - and _"}


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
def test_numbers_out_of_range_are_refused(refusal: Any, key: str, value: object) -> None:
    """Numbers that are not whole or out of range are refused."""
    assert refusal({key: value})[key].expected.startswith("a whole number")


@pytest.mark.parametrize("key", ["service.shards", "metrics.port"])
def test_bounds_are_valid(load: Any, key: str) -> None:
    """The least and the greatest number of a range are valid values."""
    section, name = key.split(".")
    for value in {"service.shards": (1, 4096), "metrics.port": (0, 65535)}[key]:
        assert getattr(getattr(load({key: value}), section), name) == value


@pytest.mark.parametrize("value", ["", "a\tb", "a\x7fb", "a\x85b", "x" * 257, "ü" * 129, 7, False])
def test_invalid_location_id_is_refused(refusal: Any, value: object) -> None:
    """A watched location must have a valid id."""
    assert "a location's id" in refusal({"monitors.0.locations": ["shibuya", value]})["monitors.0.locations.1"].expected


@pytest.mark.parametrize("weight", [0, -1, 1.5, "many", True, None])
def test_invalid_weights_are_refused(refusal: Any, weight: object) -> None:
    """Weights must be positive whole numbers."""
    problems = refusal({"monitors.0.locations": {"shibuya": 1, "list": weight}})
    assert problems["monitors.0.locations.list"].expected == "a whole number of at least 1"


@pytest.mark.parametrize("value", ["localhost", "localhost:", ":9092", "kafka://a:9092", "a:9092/x", 9092])
def test_invalid_broker_address_is_refused(refusal: Any, value: object) -> None:
    """A broker address needs a host and a port."""
    assert "localhost:9092" in refusal({"kafka.bootstrap_servers": [value]})["kafka.bootstrap_servers.0"].expected


def test_at_least_one_broker(refusal: Any) -> None:
    """The list of brokers must not be empty."""
    assert "at least one" in refusal({"kafka.bootstrap_servers": []})["kafka.bootstrap_servers"].expected


@pytest.mark.parametrize("value", ["", "..", "a b", "ü", "x" * 250])
def test_invalid_topic_name_is_refused(refusal: Any, value: str) -> None:
    """A topic name that Kafka would refuse is refused."""
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
def test_invalid_redis_url_is_refused(refusal: Any, value: object) -> None:
    """A URL that is not a Redis URL is refused."""
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
def test_shown_redis_address_has_no_user(load: Any, url: str, address: str) -> None:
    """The address for messages contains no user and no options."""
    assert load({"redis.url": url}).redis.address == address

"""Single configuration values: valid values, and the messages of refusals."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.time.instants import MILLISECOND, SECOND, YEAR, format_duration, parse_duration
from monitor.time.schedule import Schedule

EPSILON: Final = "an exact ε above zero"
NAME: Final = "a name of at most 100 letters, digits, - and _"
NUMBER: Final = "a whole number"

INVALID: Final[tuple[tuple[str, str, tuple[object, ...]], ...]] = (
    ("privacy.period", "a duration", (3600, 1.5, "1 h", "h", "", "-1h", True, None, "999y", "1h30")),
    ("privacy.period", "a duration from 1ms to 100y", ("0s",)),
    ("visits.default_stay", "a duration from 1ms to 100y", ("0s",)),
    ("clock.slot", "a duration from 1s to 100y", ("0s", "999ms", "500ms")),
    ("clock.origin", "RFC 3339", (1388588400,)),
    ("privacy.epsilon", EPSILON, (0, -1, "0", "-1/2", "1/0", "one", True, None, [], float("nan"), float("inf"), -0.5)),
    (
        "monitors.1.at.0",
        "a time of day in quotes",
        ("24:00", "18:60", "8:00", "18.00", "evening", "18:00Z", "2026-01-05T18:00:00", "Tues 18:00", "Tue", None),
    ),
    ("monitors.1.timezone", "IANA", ("Asia/Tokio", "Europe", "../etc/passwd", "", 9, "GMT+25")),
    ("service.name", NAME, ("new york", "tōkyō", "", "a" * 101, 7, "a.b", "a\n")),
    ("monitors.0.name", NAME, ("new york", "", "a" * 101, 7)),
    ("service.shards", NUMBER, (0, 4097)),
    ("monitors.0.threshold", NUMBER, (0, 2.5, True)),
    ("monitors.1.threshold", NUMBER, ("many",)),
    ("monitors.0.answers_per_window", NUMBER, (0,)),
    ("monitors.1.answers_per_time", NUMBER, (0, 1.5)),
    ("kafka.partitions.visits", NUMBER, (0,)),
    ("kafka.replication_factor", NUMBER, (0,)),
    ("metrics.port", NUMBER, (-1, 65536)),
    ("monitors.0.locations.1", "a location's id", ("", "a\tb", "a\x7fb", "a\x85b", "x" * 257, "ü" * 129, 7, False)),
    (
        "kafka.bootstrap_servers.0",
        "localhost:9092",
        ("localhost", "localhost:", ":9092", "kafka://a:9092", "a:9092/x", 9092),
    ),
    ("kafka.bootstrap_servers", "at least one", ([],)),
    ("kafka.topics.visits", "Kafka topic", ("", "..", "a b", "ü", "x" * 250)),
    (
        "redis.url",
        "redis://localhost:6379/0",
        (
            *("http://localhost", "redis://", "redis://localhost:70000", "redis://localhost/x", "redis://h/0?ssl=no"),
            *("unix://", 3),
        ),
    ),
)
"""By key: what its message expects, and values that are refused."""

REMEDIES: Final[tuple[tuple[str, object, str], ...]] = (
    ("clock.origin", "2026-01-05T00:00:00", "no offset"),
    ("clock.origin", "2026-01-05", "not an RFC 3339 time"),
    ("clock.origin", "2026-02-30T00:00:00Z", "no such date"),
    ("clock.origin", "2026-01-05T00:00:00.0005Z", "whole milliseconds"),
    ("monitors.0.epsilon", 0.5, 'write "1/2" or "0.5"'),
    ("monitors.1.at_least", {"epsilon": 0.5}, 'write "1/2" or "0.5"'),
    ("monitors.0.epsilon", 0.1, 'write "1/10" or "0.1"'),
    ("monitors.0.epsilon", 1.0, 'write "1" or "1.0"'),
    ("monitors.1.at.0", 1080, "unquoted 18:00 as the number 1080: put it in quotes"),
    ("monitors.1.at.0", 65, "unquoted 1:05 as the number 65: put it in quotes"),
    ("monitors.1.at.0", 64830, "unquoted 18:00:30 as the number 64830: put it in quotes"),
    ("monitors.1.at.0", 1440, "unquoted 24:00 as the number 1440: put it in quotes"),
    ("monitors.1.at.0", "24:00", 'Midnight is "00:00", the beginning of the next day.'),
    ("monitors.1.at.0", "8:00", "two digits each"),
    ("monitors.1.at.0", "Tuesday 18:00", "days with three letters"),
    ("monitors.1.at.0", "2026-02-30T18:00:00Z", "Correct the instant: "),
    ("redis.url", "localhost:6379", "Begin it with redis://, rediss://, unix://."),
    ("redis.url", "https://localhost:6379", "Begin it with redis://, rediss://, unix://."),
    ("monitors.0.locations.0", "shibuya ", "Remove the space."),
    ("monitors.0.locations.0", "\u00a0shibuya", "Remove the space."),
    ("monitors.0.locations", {"shibuya ": 1}, "Remove the space."),
)
"""Key, value, and what the message says to do about this value."""


@pytest.mark.parametrize(("key", "expected", "values"), INVALID)
def test_invalid_values_are_refused(refusal: Any, key: str, expected: str, values: Sequence[object]) -> None:
    """An invalid value is refused with its key and what is expected."""
    for value in values:
        assert expected in refusal({key: value})[key].expected, value


@pytest.mark.parametrize("value", ["-1", "1e-3", "0,5", "1/0", "0", "9" * 13, "0.0000000000001"])
def test_invalid_epsilon_is_one_sentence(refusal: Any, value: str) -> None:
    """An invalid ε is refused with one sentence, which says what is valid."""
    problem = refusal({"monitors.0.epsilon": value})["monitors.0.epsilon"]
    assert str(problem) == (
        f"monitors.0.epsilon (stations) is {value!r}: expected an exact ε above zero: an integer, or a string such as "
        '"1/2" or "0.5", with plain digits and from 1/1000000000000 to 1000000000000.'
    )


@pytest.mark.parametrize(("key", "value", "remedy"), REMEDIES)
def test_remedy_is_about_the_value(refusal: Any, key: str, value: object, remedy: str) -> None:
    """The message says what to write instead of this value."""
    (problem,) = refusal({key: value}).values()
    assert problem.key.startswith(key)
    assert remedy in problem.remedy


@pytest.mark.parametrize(
    ("key", "value"), [("service.shards", 1), ("service.shards", 4096), ("metrics.port", 0), ("metrics.port", 65535)]
)
def test_bounds_are_valid(load: Any, key: str, value: int) -> None:
    """The least and the greatest number of a range are valid values."""
    section, name = key.split(".")
    assert getattr(getattr(load({key: value}), section), name) == value


@pytest.mark.parametrize("weight", [0, -1, 1.5, "many", True, None])
def test_invalid_weights_are_refused(refusal: Any, weight: object) -> None:
    """Weights must be positive whole numbers."""
    problems = refusal({"monitors.0.locations": {"shibuya": 1, "list": weight}})
    assert problems["monitors.0.locations.list"].expected == "a whole number of at least 1"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(duration=st.integers(1, 100 * YEAR // MILLISECOND).map(lambda n: n * MILLISECOND))
def test_duration_round_trip(load: Any, duration: int) -> None:
    """A formatted duration is parsed back unchanged."""
    assert parse_duration(format_duration(duration)) == duration
    assert load({"privacy.period": format_duration(duration)}).privacy.period == duration


@pytest.mark.parametrize(
    ("value", "exact"),
    [(3, Fraction(3)), ("1/2", Fraction(1, 2)), ("0.1", Fraction(1, 10)), ("2/6", Fraction(1, 3))],
)
def test_epsilon_is_exact(load: Any, value: object, exact: Fraction) -> None:
    """ε is parsed as an exact fraction."""
    assert load({"monitors.0.epsilon": value}).monitors[0].epsilon == exact


def test_valid_designated_times(load: Any) -> None:
    """Daily times may have seconds, and instants a fraction of a second."""
    at = ["18:00:30", "00:00", "2026-01-05T18:00:00.5+01:00"]
    monitor = load({"monitors.1.at": at}).monitors[1]
    assert monitor.at == tuple(at)
    times = Schedule.of(monitor.at, monitor.timezone)
    assert [one.text for one in times.times_of_day] == ["18:00:30", "00:00:00"]
    assert [instant % SECOND for instant in times.instants] == [SECOND // 2]


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://localhost", "redis://localhost"),
        ("rediss://user@h:6380/3", "rediss://h:6380/3"),
        ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
        ("unix:///run/redis.sock?db=2&password=planted", "unix:///run/redis.sock?db=2"),
    ],
)
def test_shown_redis_address_has_no_user(load: Any, url: str, address: str) -> None:
    """The address for messages contains neither user nor password."""
    assert load(environ={"LOCATION_MONITOR__REDIS__URL": url}).redis.address == address

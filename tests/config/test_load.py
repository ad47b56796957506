"""Configuration files: reading, and refusal with all problems at once."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from monitor.config.load import load_config
from monitor.config.whole_config import Config
from monitor.errors import EXIT_USAGE, ConfigError
from monitor.kinds.at_times.keys_and_parameters import AtTimesMonitor
from monitor.kinds.over_time.keys_and_parameters import OverTimeMonitor
from monitor.time.instants import DAY, HOUR, MINUTE, SECOND, parse_instant
from monitor.values.single_values import find_similar
from tests.config.conftest import ABSENT


def test_values_and_defaults(load: Any, tmp_path: Path) -> None:
    """Values are parsed exactly, and missing values get their defaults."""
    config: Config = load()
    assert config.service.name == "tokyo"
    assert config.service.shards == 16
    assert (config.clock.slot, config.clock.release_delay, config.clock.tolerance) == (HOUR, 30 * SECOND, SECOND)
    assert config.clock.origin == parse_instant("2013-12-21T15:00:00Z")
    assert config.locations.file == tmp_path / "locations.csv"
    assert config.visits.person_key_file == tmp_path / "person.key"
    assert (config.visits.default_stay, config.visits.accept_ahead) == (15 * MINUTE, HOUR)
    assert (config.privacy.epsilon, config.privacy.period) == (Fraction(10), 14 * DAY)
    assert (config.kafka.partitions.visits, config.kafka.partitions.alerts) == (8, 1)
    assert (config.kafka.replication_factor, config.kafka.security_protocol) == (None, "PLAINTEXT")
    assert (config.redis.url.get_secret_value(), config.redis.cluster) == ("redis://localhost:6379/0", False)
    assert config.metrics.port == 9108
    over_time, at_times = config.monitors
    assert isinstance(over_time, OverTimeMonitor)
    assert (over_time.window, over_time.answers_per_window, over_time.threshold) == (14 * DAY, 1, 20)
    assert isinstance(at_times, AtTimesMonitor)
    assert (at_times.at, at_times.epsilon, at_times.reporting_horizon) == (("18:00",), Fraction(1, 2), 2 * DAY)


def test_locations_share_epsilon(load: Any) -> None:
    """A list of locations shares ε equally, and a mapping from locations to weights by the weights."""
    assert load().monitors[0].compute_shares() == {"shibuya": Fraction(1, 2), "shinjuku": Fraction(1, 2)}
    config = load({"monitors.0.locations": {"shibuya": 3, "shinjuku": 1}})
    assert config.monitors[0].compute_shares() == {"shibuya": Fraction(3, 4), "shinjuku": Fraction(1, 4)}
    assert config.monitors[0].location_ids == ("shibuya", "shinjuku")


def test_config_round_trip(load: Any) -> None:
    """A dumped configuration is read back unchanged."""
    config: Config = load({"clock.origin": "2013-12-22T00:00:00.250+09:00", "monitors.0.epsilon": "1/3"})
    written = config.model_dump(mode="json") | {"redis": {"url": "redis://localhost:6379/0"}}
    assert Config.model_validate(written) == config


def test_config_is_frozen(load: Any) -> None:
    """A configuration cannot be changed."""
    with pytest.raises(ValidationError):
        load().clock.slot = 1


def test_unquoted_times_stay_strings(tmp_path: Path, load: Any) -> None:
    """An unquoted time keeps its offset, although YAML 1.1 would parse it as a date."""
    load()
    file = tmp_path / "service.yaml"
    file.write_text(file.read_text().replace("'2013-12-22T00:00:00+09:00'", "2013-12-22T00:00:00+09:00"))
    assert "'2013" not in file.read_text()
    assert load_config(file, {}).clock.origin == parse_instant("2013-12-21T15:00:00Z")


def test_all_problems_are_listed(refusal: Any) -> None:
    """All problems within and between sections are listed at once."""
    problems = refusal(
        {
            "service.name": "new york",
            "clock.release_delay": "1h",  # a rule between values of a valid section
            "visits.accept_ahead": "90m",  # a rule between sections
            "privacy.epsilon": 0.5,
            "monitors.0.treshold": 3,
            "monitors.1.timezone": "Asia/Tokio",
            "kafka.topics.alerts": "visits",
            "redis.url": "http://localhost",
            "metrics.port": 70000,
        }
    )
    assert set(problems) == {
        "service.name",
        "clock.release_delay",
        "visits.accept_ahead",
        "privacy.epsilon",
        "monitors.0.treshold",
        "monitors.1.timezone",
        "kafka.topics.alerts",
        "redis.url",
        "metrics.port",
    }


@pytest.mark.parametrize(
    "invalid",
    [{"kafka.sasl_mechanism": "GSSAPI"}, {"kafka.topics": 1}, {"kafka.usrname": "me"}, {"service.name": "?"}],
)
def test_invalid_value_hides_no_problem(refusal: Any, invalid: dict[str, Any]) -> None:
    """An invalid value does not hide the problems between the other values of its section."""
    broken = {"kafka.security_protocol": "SASL_SSL", "kafka.partitions.alerts": 3, "redis.ca_file": "ca.pem"}
    expected = {*invalid, "service.shards", "kafka.sasl_mechanism", "kafka.username", "kafka.password_file"}
    assert set(refusal(broken | invalid)) == expected | {"redis.ca_file"}


@pytest.mark.parametrize("invalid", ["treshold", "epsilon"])
def test_invalid_monitor_hides_no_problem(refusal: Any, invalid: str) -> None:
    """An invalid value of a monitor does not hide the problems between its other values."""
    changes = {f"monitors.0.{invalid}": "x", "monitors.0.window": "90m", "monitors.0.locations": ["inn", "inn"]}
    assert set(refusal(changes)) == {f"monitors.0.{invalid}", "monitors.0.window", "monitors.0.locations"}


def test_monitor_is_named(load: Any) -> None:
    """The message about a monitor has its name, because its key has only the position; an invalid name is not shown."""
    with pytest.raises(ConfigError) as caught:
        load({"monitors.0.name": "two words", "monitors.0.window": "90m", "monitors.1.threshold": 0})
    text = str(caught.value)
    assert "monitors.1.threshold (evening) is 0" in text
    assert "monitors.0.window is 1h30m" in text


def test_similar_name() -> None:
    """The nearest name differs only in leading zeros, case or separators, if there is such a name."""
    places = [f"p{number:03}" for number in range(1, 501)]
    assert [find_similar(word, places) for word in ("p1", "P-17", "p0500")] == ["p001", "p017", "p500"]
    assert find_similar("treshold", ("threshold", "kind")) == "threshold"
    assert find_similar("certificate_file", ("ca_file", "username")) is None


def test_secret_keys_are_not_offered(refusal: Any) -> None:
    """The keys that are offered for an unknown one do not include those that the file must not have."""
    assert "password," not in refusal({"redis.passwort": "x"})["redis.passwort"].expected
    assert "person_key" not in refusal({"visits.personkey": "x"})["visits.personkey"].expected.split(", ")


def test_error_message_is_complete(load: Any) -> None:
    """The error message has the file, the number of problems, the key, the value, the expected value and the remedy."""
    with pytest.raises(ConfigError) as caught:
        load({"clock.slot": 3600, "monitors.1.timezone": "Asia/Tokio"})
    text = str(caught.value)
    assert "service.yaml: 2 problems, nothing was started:" in text
    assert "clock.slot is 3600: expected a duration such as 30s, 1h or 14d. Add the unit: 3600s," in text
    assert "monitors.1.timezone (evening) is 'Asia/Tokio': expected the IANA name" in text
    assert "Did you mean Asia/Tokyo?" in text
    assert caught.value.exit_code == EXIT_USAGE


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("service.shard", "shards"),
        ("clock.slots", "slot"),
        ("kafka.topics.dead_leters", "dead_letters"),
        ("monitor", "monitors"),
    ],
)
def test_unknown_key_is_refused(refusal: Any, key: str, near: str) -> None:
    """An unknown key is refused with the nearest one; its value is not shown."""
    problem = refusal({key: "hunter2"})[key]
    assert (problem.value, problem.remedy) == ("unknown", f"Did you mean {near}?")
    assert "hunter2" not in str(problem)


REMOVED: list[tuple[str, object]] = [
    ("auditor.username", "auditor"),
    ("otel", {"enabled": True}),
    ("visits.framing", ["connect"]),
    ("visits.times", "microseconds"),
    ("privacy.other_publishers", []),
]


@pytest.mark.parametrize(("key", "value"), REMOVED)
def test_removed_key_is_refused(refusal: Any, key: str, value: object) -> None:
    """A key of an earlier version is refused; the message says to delete it, and why."""
    (problem,) = refusal({key: value}).values()
    assert problem.key == key
    assert problem.remedy.startswith("Delete it: ")


@pytest.mark.parametrize(
    "section", ["service", "clock", "locations", "visits", "privacy", "monitors", "kafka", "redis"]
)
def test_missing_section_is_refused(refusal: Any, section: str) -> None:
    """A missing section is refused, and the message describes its content."""
    problem = refusal({section: ABSENT})[section]
    assert (problem.value, problem.remedy[:3]) == ("missing", "Add")
    assert problem.expected.startswith(("a mapping", "a list"))


@pytest.mark.parametrize(
    "key",
    [
        "service.name",
        "clock.slot",
        "clock.origin",
        "clock.release_delay",
        "locations.file",
        "visits.default_stay",
        "visits.accept_ahead",
        "privacy.epsilon",
        "privacy.period",
        "monitors.0.name",
        "monitors.0.kind",
        "monitors.0.locations",
        "monitors.0.window",
        "monitors.1.at",
        "monitors.1.reporting_horizon",
        "monitors.1.threshold",
        "kafka.bootstrap_servers",
        "kafka.topics.alerts",
        "redis.url",
    ],
)
def test_required_keys(refusal: Any, key: str) -> None:
    """A missing key without a default is refused with a description."""
    problem = refusal({key: ABSENT})[key]
    assert problem.value == "missing"
    assert problem.expected != "a value"


@pytest.mark.parametrize("value", ["text", 3, ["list"], None])
def test_section_must_be_a_mapping(refusal: Any, value: object) -> None:
    """A section that is not a mapping is refused; the message names its type, but not its value."""
    problem = refusal({"redis": value})["redis"]
    assert problem.expected == "a mapping of keys to values"
    assert "text" not in problem.value.removeprefix("a string")


@pytest.mark.parametrize("value", [[], {}, None, "stations"])
def test_monitors_must_not_be_empty(refusal: Any, value: object) -> None:
    """`monitors` must be a list with at least one entry, and each entry a mapping."""
    assert refusal({"monitors": value})["monitors"].expected == "a list of monitors, at least one"
    assert refusal({"monitors.0": "stations"})["monitors.0"].expected.startswith("a mapping")


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"", "empty"),
        (b"- a\n- b\n", "not a mapping"),
        (b"service: {name: x\n", "invalid at line 2"),
        (b"redis:\n  url: a\n  url: b\n", "invalid at line 3, column 3 (duplicate key 'url')"),
        (b"kafka: {}\nredis: {}\nkafka: {}\n", "invalid at line 3, column 1 (duplicate key 'kafka')"),
        (b"? [a]\n: 1\n? [a]\n: 2\n", "invalid at line 3, column 3 (duplicate key)"),
        (b"redis:\n\turl: a\n", "invalid at line 2, column 1 (a tab in the indentation)"),
        (b"redis:\n  url: a\n\tuser: b\n", "invalid at line 3, column 1 (a tab in the indentation)"),
        (b"service: {name: \xff}", "not UTF-8 from byte 16 on"),
        (b"a: 1\n---\nb: 2\n", "invalid"),
        (b"a: &x [*x]\nb: !!python/object:os.system {}\n", "invalid"),
        (b"[" * 5000, "nested too deeply, or with a number of too many digits"),
        (b"a: " + b"9" * 5000, "nested too deeply, or with a number of too many digits"),
    ],
)
def test_file_must_be_a_yaml_mapping(tmp_path: Path, content: bytes, value: str) -> None:
    """A file that is not one YAML mapping in UTF-8 is refused."""
    file = tmp_path / "bad.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(file, {})
    (problem,) = caught.value.problems
    assert problem.value.startswith(value)
    assert problem.remedy


def test_missing_file_is_refused(tmp_path: Path) -> None:
    """A missing file is refused, and the message names it."""
    with pytest.raises(ConfigError, match=r"none\.yaml: 1 problem[^$]*No such file"):
        load_config(tmp_path / "none.yaml", {})


def test_yaml_errors_quote_nothing(tmp_path: Path) -> None:
    """A YAML error does not quote the file, which may contain a secret."""
    file = tmp_path / "bad.yaml"
    file.write_text("redis: {password: *hunter2}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(file, {})
    assert "hunter2" not in str(caught.value)


def test_merged_keys_can_be_overridden(tmp_path: Path, load: Any) -> None:
    """A written key overrides a merged one (`<<`), and does not count as a duplicate."""
    load()
    file = tmp_path / "service.yaml"
    file.write_text(file.read_text() + "metrics: {<<: {port: 1}, port: 2}\n")
    assert load_config(file, {}).metrics.port == 2


def test_schema_has_no_secrets() -> None:
    """The JSON Schema has no keys for secrets, which the file must not contain."""
    definitions = Config.model_json_schema()["$defs"]
    assert "password" not in definitions["RedisSettings"]["properties"]
    assert "password" not in definitions["KafkaSettings"]["properties"]
    assert "person_key" not in definitions["VisitsSettings"]["properties"]
    assert "password_file" in definitions["RedisSettings"]["properties"]

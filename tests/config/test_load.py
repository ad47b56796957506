"""Reading a configuration file, and refusing one with everything that is wrong with it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from monitor.config import AtTimesMonitor, Config, OverTimeMonitor, load_config
from monitor.errors import EXIT_USAGE, ConfigError
from monitor.public.instants import DAY, HOUR, MINUTE, SECOND, parse_instant


def test_values_are_read_exactly_and_defaults_filled_in(load: Any, tmp_path: Path) -> None:
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


def test_monitors_are_read_by_their_kind(load: Any) -> None:
    over_time, at_times = load().monitors
    assert isinstance(over_time, OverTimeMonitor)
    assert (over_time.window, over_time.answers_per_window, over_time.threshold) == (14 * DAY, 1, 20)
    assert isinstance(at_times, AtTimesMonitor)
    assert (at_times.at, at_times.epsilon, at_times.reporting_horizon) == (("18:00",), Fraction(1, 2), 2 * DAY)


def test_locations_share_epsilon_equally(load: Any) -> None:
    assert load().monitors[0].location_epsilons() == {"shibuya": Fraction(1, 2), "shinjuku": Fraction(1, 2)}


def test_locations_share_epsilon_by_public_weights(load: Any) -> None:
    config = load({"monitors.0.locations": {"shibuya": 3, "shinjuku": 1}})
    assert config.monitors[0].location_epsilons() == {"shibuya": Fraction(3, 4), "shinjuku": Fraction(1, 4)}
    assert config.monitors[0].location_ids == ("shibuya", "shinjuku")


def test_a_written_configuration_reads_back_as_itself(load: Any) -> None:
    config: Config = load({"clock.origin": "2013-12-22T00:00:00.250+09:00", "monitors.0.epsilon": "1/3"})
    written = config.model_dump(mode="json") | {"redis": {"url": "redis://localhost:6379/0"}}
    assert Config.model_validate(written) == config


def test_a_configuration_cannot_be_changed(load: Any) -> None:
    with pytest.raises(ValidationError):
        load().clock.slot = 1


def test_unquoted_times_are_read_as_written(tmp_path: Path, load: Any) -> None:
    """YAML 1.1 would make a date of them, and lose the offset of some."""
    load()
    file = tmp_path / "service.yaml"
    file.write_text(file.read_text().replace("'2013-12-22T00:00:00+09:00'", "2013-12-22T00:00:00+09:00"))
    assert "'2013" not in file.read_text()
    assert load_config(file, {}).clock.origin == parse_instant("2013-12-21T15:00:00Z")


def test_every_problem_is_listed_at_once(refusal: Any) -> None:
    problems = refusal(
        {
            "service.name": "new york",
            "clock.release_delay": "1h",  # a rule between values, in a section that is valid by itself
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


def test_the_error_says_file_count_key_value_expected_and_what_to_do(load: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        load({"clock.slot": 3600, "monitors.1.timezone": "Asia/Tokio"})
    text = str(caught.value)
    assert "service.yaml: 2 problems, nothing was started:" in text
    assert "clock.slot is 3600: expected a duration such as 30s, 1h or 14d. Write the unit: 3600s," in text
    assert "monitors.1.timezone is 'Asia/Tokio': expected the IANA name" in text
    assert "Did you mean Asia/Tokyo?" in text
    assert caught.value.exit_code == EXIT_USAGE


@pytest.mark.parametrize(
    ("key", "near"),
    [("service.shard", "shards"), ("clock.slots", "slot"), ("kafka.topics.dead_leters", "dead_letters")],
)
def test_an_unknown_key_is_refused_with_the_nearest_one(refusal: Any, key: str, near: str) -> None:
    problem = refusal({key: "hunter2"})[key]
    assert (problem.value, problem.remedy) == ("unknown", f"Did you mean {near}?")
    assert "hunter2" not in str(problem)


def test_an_unknown_section_is_refused_with_the_nearest_one(refusal: Any) -> None:
    assert refusal({"monitor": []})["monitor"].remedy == "Did you mean monitors?"


@pytest.mark.parametrize(
    "section", ["service", "clock", "locations", "visits", "privacy", "monitors", "kafka", "redis"]
)
def test_a_missing_section_is_named_with_what_it_holds(refusal: Any, absent: str, section: str) -> None:
    problem = refusal({section: absent})[section]
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
def test_what_has_no_default_must_be_given(refusal: Any, absent: str, key: str) -> None:
    problem = refusal({key: absent})[key]
    assert problem.value == "missing"
    assert problem.expected != "a value"


@pytest.mark.parametrize("value", ["text", 3, ["list"], None])
def test_a_section_that_is_no_mapping_is_refused_by_its_shape_alone(refusal: Any, value: object) -> None:
    problem = refusal({"redis": value})["redis"]
    assert problem.expected == "a mapping of keys to values"
    assert "text" not in problem.value.removeprefix("a text")


@pytest.mark.parametrize("value", [[], {}, None, "stations"])
def test_monitors_must_be_a_list_with_something_in_it(refusal: Any, value: object) -> None:
    assert refusal({"monitors": value})["monitors"].expected == "a list of monitors, at least one"


def test_a_monitor_that_is_no_mapping_is_refused(refusal: Any) -> None:
    assert refusal({"monitors.0": "stations"})["monitors.0"].expected.startswith("a mapping")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "empty"),
        (b"- a\n- b\n", "no mapping"),
        (b"service: {name: x\n", "wrong at line 2"),
        (b"redis:\n  url: a\n  url: b\n", "wrong at line 3, column 3 (a key comes twice)"),
        (b"service: {name: \xff}", "not UTF-8 from byte 16 on"),
        (b"a: 1\n---\nb: 2\n", "wrong"),
        (b"a: &x [*x]\nb: !!python/object:os.system {}\n", "wrong"),
        (b"[" * 5000, "beyond what YAML can be read as"),
        (b"a: " + b"9" * 5000, "beyond what YAML can be read as"),
    ],
)
def test_a_file_that_is_not_one_yaml_mapping_in_utf_8_is_refused(tmp_path: Path, content: bytes, found: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(file, {})
    (problem,) = caught.value.problems
    assert problem.value.startswith(found)
    assert problem.remedy


def test_a_missing_file_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: 1 problem[^$]*No such file"):
        load_config(tmp_path / "none.yaml", {})


def test_what_yaml_says_of_a_broken_file_repeats_nothing_of_it(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("redis: {password: *hunter2}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(file, {})
    assert "hunter2" not in str(caught.value)


def test_a_merged_mapping_may_be_overridden(tmp_path: Path, load: Any) -> None:
    """`<<` is no second key: what is written wins over what is merged."""
    load()
    file = tmp_path / "service.yaml"
    file.write_text(file.read_text() + "metrics: {<<: {port: 1}, port: 2}\n")
    assert load_config(file, {}).metrics.port == 2


def test_a_configuration_made_in_code_obeys_the_same_rules(load: Any) -> None:
    written = load().model_dump(mode="json") | {"redis": {"url": "redis://localhost"}}
    written["clock"]["release_delay"] = "1h"
    with pytest.raises(ValidationError, match="release_delay is 1h"):
        Config.model_validate(written)


def test_the_schema_has_no_secret_that_a_file_may_not_hold() -> None:
    definitions = Config.model_json_schema()["$defs"]
    assert "password" not in definitions["RedisSettings"]["properties"]
    assert "password" not in definitions["KafkaSettings"]["properties"]
    assert "person_key" not in definitions["VisitsSettings"]["properties"]
    assert "password_file" in definitions["RedisSettings"]["properties"]

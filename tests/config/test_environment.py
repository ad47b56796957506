"""Configuration values from environment variables."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from monitor.time.instants import DAY
from tests.config.conftest import ABSENT


def test_scalars_come_from_environment(load: Any) -> None:
    """Variables override scalars of any type."""
    config = load(
        environ={
            "LOCATION_MONITOR__REDIS__URL": "redis://cache:6379/1",
            "LOCATION_MONITOR__SERVICE__SHARDS": "3",
            "LOCATION_MONITOR__REDIS__CLUSTER": "false",
            "LOCATION_MONITOR__PRIVACY__EPSILON": "7.5",
            "LOCATION_MONITOR__PRIVACY__PERIOD": "7d",
            "LOCATION_MONITOR__MONITORS__0__THRESHOLD": "5",
            "LOCATION_MONITOR__KAFKA__TOPICS__VISITS": "other",
            "LOCATION_MONITOR__KAFKA__BOOTSTRAP_SERVERS": "a:1,b:2",  # as in Kafka's tools
            "LOCATION_MONITOR__METRICS__PORT": "0",
            "HOME": "/nowhere",
        }
    )
    assert config.redis.url.get_secret_value() == "redis://cache:6379/1"
    assert (config.service.shards, config.redis.cluster, config.metrics.port) == (3, False, 0)
    assert config.kafka.bootstrap_servers == ("a:1", "b:2")
    assert (config.privacy.epsilon, config.privacy.period) == (Fraction(15, 2), 7 * DAY)
    assert (config.monitors[0].threshold, config.kafka.topics.visits) == (5, "other")


def test_json_values_and_their_parts(load: Any) -> None:
    """Lists and objects are written as JSON, and variables for their parts override them."""
    config = load(
        environ={
            "LOCATION_MONITOR__MONITORS__0__LOCATIONS": '{"shibuya": 3, "shinjuku": 1}',
            "LOCATION_MONITOR__MONITORS__1__AT": '["12:00", "18:00"]',
            "LOCATION_MONITOR__MONITORS__1__AT__0": "13:00",
            "LOCATION_MONITOR__KAFKA__BOOTSTRAP_SERVERS": '["a:1", "b:2"]',
        }
    )
    assert config.monitors[0].locations == {"shibuya": 3, "shinjuku": 1}
    assert config.monitors[1].at == ("13:00", "18:00")
    assert config.kafka.bootstrap_servers == ("a:1", "b:2")


def test_section_only_in_environment(load: Any) -> None:
    """A section may come from the environment alone."""
    assert load({"redis": ABSENT}, {"LOCATION_MONITOR__REDIS__URL": "redis://cache"}).redis.address == "redis://cache"


def test_unknown_variable_is_refused(refusal: Any) -> None:
    """An unknown variable is refused; the message names it and the nearest key, but not its value."""
    problem = refusal(environ={"LOCATION_MONITOR__REDIS__ULR": "redis://:hunter2@cache"})["redis.ulr"]
    assert problem.remedy == "Did you mean url? The value comes from LOCATION_MONITOR__REDIS__ULR."
    assert "hunter2" not in str(problem)


def test_missing_underscore_is_named(refusal: Any) -> None:
    """A variable without the second underscore of the prefix is refused, and the message has the right name."""
    name = "LOCATION_MONITOR_KAFKA__USERNAME"
    problem = refusal(environ={name: "hunter2"})[name]
    assert problem.remedy == "Rename it LOCATION_MONITOR__KAFKA__USERNAME."
    assert "hunter2" not in str(problem)


def test_variables_of_others_are_ignored(load: Any) -> None:
    """Variables that Kubernetes sets for services of such names have no double underscore, and are no fault."""
    assert load(environ={"LOCATION_MONITOR_REDIS_PORT": "tcp://10.0.0.1:6379", "LOCATION_MONITOR_PORT": "1"})


@pytest.mark.parametrize(
    "name",
    [
        "LOCATION_MONITOR__",
        "LOCATION_MONITOR__REDIS____URL",
        "LOCATION_MONITOR__MONITORS__2__THRESHOLD",
        "LOCATION_MONITOR__MONITORS__FIRST__THRESHOLD",
        "LOCATION_MONITOR__CLOCK__SLOT__LENGTH",
    ],
)
def test_variable_without_a_key_is_refused(refusal: Any, name: str) -> None:
    """A variable that does not name a possible key is refused."""
    problem = refusal(environ={name: "hunter2"})[name]
    assert problem.remedy == "Rename it."
    assert "hunter2" not in str(problem)


def test_duplicate_variables_are_refused(refusal: Any) -> None:
    """Two variables for the same key are refused."""
    names = {"LOCATION_MONITOR__METRICS__PORT": "1", "LOCATION_MONITOR__metrics__port": "2"}
    assert len(refusal(environ=names).keys() & names) == 1


def test_problem_names_the_variable(refusal: Any) -> None:
    """A problem of a value from the environment names the variable."""
    name = "LOCATION_MONITOR__MONITORS__1__AT"
    assert refusal(environ={name: '["25:00"]'})["monitors.1.at.0"].remedy.endswith(f"The value comes from {name}.")
    assert "JSON" in refusal(environ={name: "18:00"})["monitors.1.at"].remedy
    assert "JSON" in refusal(environ={name: "[18:00"})["monitors.1.at"].remedy


def test_password_is_never_parsed_as_json(load: Any) -> None:
    """A password that looks like JSON stays a string."""
    config = load(environ={"LOCATION_MONITOR__REDIS__PASSWORD": "[1]"})
    assert config.redis.password.get_secret_value() == "[1]"

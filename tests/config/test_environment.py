"""Values from the environment."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from monitor.public.instants import DAY


def test_any_scalar_may_come_from_the_environment(load: Any) -> None:
    config = load(
        environ={
            "LOCATION_MONITOR__REDIS__URL": "redis://cache:6379/1",
            "LOCATION_MONITOR__SERVICE__SHARDS": "3",
            "LOCATION_MONITOR__REDIS__CLUSTER": "false",
            "LOCATION_MONITOR__PRIVACY__EPSILON": "7.5",
            "LOCATION_MONITOR__PRIVACY__PERIOD": "7d",
            "LOCATION_MONITOR__MONITORS__0__THRESHOLD": "5",
            "LOCATION_MONITOR__KAFKA__TOPICS__VISITS": "other",
            "LOCATION_MONITOR__METRICS__PORT": "0",
            "HOME": "/nowhere",
        }
    )
    assert config.redis.url.get_secret_value() == "redis://cache:6379/1"
    assert (config.service.shards, config.redis.cluster, config.metrics.port) == (3, False, 0)
    assert (config.privacy.epsilon, config.privacy.period) == (Fraction(15, 2), 7 * DAY)
    assert (config.monitors[0].threshold, config.kafka.topics.visits) == (5, "other")


def test_lists_and_objects_come_as_json_and_their_parts_win(load: Any) -> None:
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


def test_brokers_may_be_written_as_kafkas_own_tools_write_them(load: Any) -> None:
    config = load(environ={"LOCATION_MONITOR__KAFKA__BOOTSTRAP_SERVERS": "a:1,b:2"})
    assert config.kafka.bootstrap_servers == ("a:1", "b:2")


def test_a_whole_section_may_be_missing_from_the_file(load: Any, absent: str) -> None:
    assert load({"redis": absent}, {"LOCATION_MONITOR__REDIS__URL": "redis://cache"}).redis.address == "redis://cache"


def test_an_unknown_name_is_refused_with_the_nearest_and_the_variable(refusal: Any) -> None:
    problem = refusal(environ={"LOCATION_MONITOR__REDIS__ULR": "redis://:hunter2@cache"})["redis.ulr"]
    assert problem.remedy == "Did you mean url? It comes from LOCATION_MONITOR__REDIS__ULR."
    assert "hunter2" not in str(problem)


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
def test_a_name_that_leads_nowhere_is_refused(refusal: Any, name: str) -> None:
    problem = refusal(environ={name: "hunter2"})[name]
    assert problem.remedy == "Rename it."
    assert "hunter2" not in str(problem)


def test_two_spellings_of_one_name_are_refused(refusal: Any) -> None:
    names = {"LOCATION_MONITOR__METRICS__PORT": "1", "LOCATION_MONITOR__metrics__port": "2"}
    assert len(refusal(environ=names).keys() & names) == 1


def test_a_problem_says_that_the_value_came_from_the_environment(refusal: Any) -> None:
    name = "LOCATION_MONITOR__MONITORS__1__AT"
    assert refusal(environ={name: '["25:00"]'})["monitors.1.at.0"].remedy.endswith(f"It comes from {name}.")
    assert "JSON" in refusal(environ={name: "18:00"})["monitors.1.at"].remedy
    assert "JSON" in refusal(environ={name: "[18:00"})["monitors.1.at"].remedy


def test_a_password_that_looks_like_json_stays_a_text(load: Any) -> None:
    config = load(environ={"LOCATION_MONITOR__REDIS__PASSWORD": "[1]"})
    assert config.redis.password.get_secret_value() == "[1]"

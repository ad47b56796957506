"""Records that Kafka would not take: refused by `check`, with the key and what would do."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from monitor.config import Config, Location, load_config, load_registry
from monitor.contracts.alerts import OutputRecord, over_time_record
from monitor.contracts.record_sizes import LARGEST_OF_ONE_PLACE, max_answers_per_record, place_bytes
from monitor.errors import ConfigError, Problem
from monitor.privacy.over_time import Mark, OverTimeAnswer, OverTimeRule
from monitor.tools.check.report import check

EXAMPLE = Path(__file__).parents[2] / "config" / "city.yaml"


def minutes(answers: int) -> Config:
    """The example of a city with slots of a minute, and so many answers in a window of 14 days."""
    changes = {
        "CLOCK__SLOT": "1m",
        "CLOCK__RELEASE_DELAY": "10s",
        "PRIVACY__EPSILON": "1000",
        "MONITORS__0__WINDOW": "14d",
        "MONITORS__0__ANSWERS_PER_WINDOW": str(answers),
    }
    return load_config(EXAMPLE, {f"LOCATION_MONITOR__{key}": value for key, value in changes.items()})


def problems(config: Config, registry: tuple[Location, ...]) -> dict[str, Problem]:
    with pytest.raises(ConfigError) as caught:
        check(config, registry)
    return {problem.key: problem for problem in caught.value.problems}


def record_of(rule: OverTimeRule) -> OutputRecord:
    """The record of a place all of whose answers were given, with the longest numbers there are."""
    tick = 10**12
    marks = tuple(Mark(tick + number, 10**19, rule.answer_epsilon, tick + number) for number in range(rule.answers))
    return over_time_record(
        source="s" * 100,
        monitor="m" * 100,
        location_id='"' * 256,
        rule=rule,
        tick=tick,
        as_of=0,
        window_start=0,
        answer=OverTimeAnswer("paused", None, marks, tick),
        resumes_at=0,
    )


def size(record: OutputRecord) -> int:
    return len(record.key) + len(record.value) + sum(len(name) + len(value) for name, value in record.headers)


def test_as_many_answers_as_make_a_record_too_large_are_refused_with_the_number_that_would_do() -> None:
    """20,160 of them made a record of 1.5 MB, which the topic did not take."""
    registry = load_registry(minutes(1).locations.file)
    problem = problems(minutes(20_160), registry)["monitors.0.answers_per_window"]
    assert problem.expected.startswith("records of at most 1000000 bytes: each record repeats all answers")
    would_do = int(problem.remedy.split()[3])
    assert would_do > 5_000
    check(minutes(would_do), registry)


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(3333333333333333, 10**16) * 123457 / 9999998])
def test_the_most_answers_that_are_accepted_fit_a_record(epsilon: Fraction) -> None:
    """Whatever the numbers in it, and however many digits ε has."""
    rule = OverTimeRule(epsilon, 20_160, 3, 20_160, 0)
    most = replace(rule, answers=max_answers_per_record(rule))
    assert size(record_of(most)) <= place_bytes(most) <= LARGEST_OF_ONE_PLACE


def test_answers_of_an_earlier_rule_add_what_they_take_more_for_their_epsilon() -> None:
    """Within the present rule they add nothing: an unchanged configuration needs no more than before."""
    rule = OverTimeRule(Fraction(1), 100, 3, 1_000, 0)
    assert place_bytes(rule, [rule.answer_epsilon] * 100) == place_bytes(rule)
    assert place_bytes(rule, [rule.answer_epsilon / 1_000] * 5_000) > place_bytes(rule) + 300_000
    assert place_bytes(rule, [Fraction(1, 2)] * 500) > place_bytes(rule) + 20_000


def test_a_snapshot_that_is_too_large_is_refused_with_the_number_of_shards_that_would_do() -> None:
    """One shard of 600,000 locations takes more than 32 MB."""
    registry = tuple(Location(f"place-{number}") for number in range(600_000))
    changes = {"SERVICE__SHARDS": "1", "MONITORS": "[]"}
    evening = '{"name": "evening", "kind": "at_times", "at": ["18:00"], "timezone": "UTC", "epsilon": 1, "threshold": 9'
    changes["MONITORS"] = f'[{evening}, "reporting_horizon": "2h"}}]'
    one = load_config(EXAMPLE, {f"LOCATION_MONITOR__{key}": value for key, value in changes.items()})
    problem = problems(one, registry)["service.shards"]
    would_do = int(problem.remedy.split()[3])
    changes["SERVICE__SHARDS"] = str(would_do)
    check(load_config(EXAMPLE, {f"LOCATION_MONITOR__{key}": value for key, value in changes.items()}), registry)


def test_too_many_hot_spots_are_refused() -> None:
    """All of 600,000 locations by name, in one record."""
    registry = tuple(Location(f"place-{number}") for number in range(600_000))
    busiest = '{"name": "busiest", "kind": "hot_spots", "at": ["18:00"], "timezone": "UTC", "epsilon": 1, "top": 600000'
    environ = {"LOCATION_MONITOR__MONITORS": f'[{busiest}, "reporting_horizon": "2h"}}]'}
    assert problems(load_config(EXAMPLE, environ), registry)["monitors.0.top"].remedy == "Use a smaller number."

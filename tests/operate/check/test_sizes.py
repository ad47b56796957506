"""`check` refuses configurations whose records Kafka would refuse, with the key and a value that works."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from msgspec import UNSET

from monitor.config.derive_parameters import derive_parameters
from monitor.config.load import load_config
from monitor.config.registry import Locations, load_registry
from monitor.config.valid_config import validate_config
from monitor.config.whole_config import Config
from monitor.errors import ConfigError, Problem
from monitor.kinds.at_times.keys_and_parameters import AtTimes, AtTimesMonitor
from monitor.kinds.at_times.record import LaterCount, NoisyCount, make_at_times_record
from monitor.kinds.over_time.keys_and_parameters import LARGEST_OF_ONE_PLACE, find_max_answers_per_record, measure_place
from monitor.kinds.over_time.record import make_over_time_record
from monitor.privacy.over_time import Mark, OverTimeAnswer, OverTimeRule
from monitor.records.output_records import OutputRecord
from tests.builders import replace_monitors, select

pytestmark = pytest.mark.long

EXAMPLE = Path(__file__).parents[2] / "kit" / "configs" / "city.yaml"


def load_minutes(answers: int) -> Config:
    """Load the example of a city with slots of a minute, and this number of answers in a window of 14 days."""
    changes = {
        "CLOCK__SLOT": "1m",
        "CLOCK__RELEASE_DELAY": "10s",
        "PRIVACY__EPSILON": "1000",
        "MONITORS__0__WINDOW": "14d",
        "MONITORS__0__ANSWERS_PER_WINDOW": str(answers),
    }
    return load_config(EXAMPLE, {f"LOCATION_MONITOR__{key}": value for key, value in changes.items()})


def list_problems(config: Config, registry: Locations) -> dict[str, Problem]:
    with pytest.raises(ConfigError) as caught:
        validate_config(config, registry)
    return {problem.key: problem for problem in caught.value.problems}


def make_record(rule: OverTimeRule) -> OutputRecord:
    """Return the record of a location with all its answers, with the longest possible numbers."""
    tick = 10**12
    marks = tuple(Mark(tick + number, 10**19, rule.answer_epsilon, tick + number) for number in range(rule.answers))
    return make_over_time_record(
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


def measure(record: OutputRecord) -> int:
    return len(record.key) + len(record.value) + sum(len(name) + len(value) for name, value in record.headers)


def test_too_many_answers_are_refused() -> None:
    """More answers than fit in a record are refused, with the largest accepted number.

    A record with 20,160 answers has 1.5 MB, which the topic would refuse.
    """
    registry = load_registry(load_minutes(1).locations.file)
    problem = list_problems(load_minutes(20_160), registry)["monitors.0.answers_per_window"]
    assert problem.expected.startswith("records of at most 1000000 bytes: each record repeats all answers")
    accepted = int(problem.remedy.split()[3])
    assert accepted > 5_000
    validate_config(load_minutes(accepted), registry)


@pytest.mark.promise(31)
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(3333333333333333, 10**16) * 123457 / 9999998])
def test_most_accepted_answers_fit(epsilon: Fraction) -> None:
    """The largest accepted number of answers fits in a record, also with the longest numbers and a long ε."""
    rule = OverTimeRule(epsilon, 20_160, 3, 20_160, 0)
    most = replace(rule, answers=find_max_answers_per_record(rule))
    assert measure(make_record(most)) <= measure_place(most) <= LARGEST_OF_ONE_PLACE


def test_earlier_answers_add_their_size() -> None:
    """Answers of an earlier rule add only the bytes that exceed those of the present rule.

    So an unchanged configuration needs no more than before.
    """
    rule = OverTimeRule(Fraction(1), 100, 3, 1_000, 0)
    assert measure_place(rule, [rule.answer_epsilon] * 100) == measure_place(rule)
    assert measure_place(rule, [rule.answer_epsilon / 1_000] * 5_000) > measure_place(rule) + 300_000
    assert measure_place(rule, [Fraction(1, 2)] * 500) > measure_place(rule) + 20_000


def test_too_few_shards_are_refused() -> None:
    """A snapshot that is too large is refused, with a sufficient number of shards.

    One shard of 600,000 locations takes more than 32 MB.
    """
    registry = Locations([f"place-{number}" for number in range(600_000)])
    evening = '{"name": "evening", "kind": "at_times", "at": ["18:00"], "timezone": "UTC", "epsilon": 1, "threshold": 9'
    monitors = f'[{evening}, "reporting_horizon": "2h"}}]'

    def load_shards(number: int) -> Config:
        changes = {"SERVICE__SHARDS": str(number), "MONITORS": monitors}
        return load_config(EXAMPLE, {f"LOCATION_MONITOR__{key}": value for key, value in changes.items()})

    problem = list_problems(load_shards(1), registry)["service.shards"]
    validate_config(load_shards(int(problem.remedy.split()[3])), registry)


def test_too_many_hot_spots_are_refused() -> None:
    """The names of 600,000 locations do not fit in one record."""
    registry = Locations([f"place-{number}" for number in range(600_000)])
    busiest = '{"name": "busiest", "kind": "hot_spots", "at": ["18:00"], "timezone": "UTC", "epsilon": 1, "top": 600000'
    environ = {"LOCATION_MONITOR__MONITORS": f'[{busiest}, "reporting_horizon": "2h"}}]'}
    assert list_problems(load_config(EXAMPLE, environ), registry)["monitors.0.top"].remedy == "Use a smaller number."


def test_too_many_answers_per_time_are_refused() -> None:
    """More answers about a time than fit in a snapshot are refused, with the largest accepted number."""

    def list_with(answers: int) -> Mapping[str, Problem]:
        evening = {"name": "evening", "kind": "at_times", "at": ["18:00"], "timezone": "UTC", "epsilon": 10**9,
                   "threshold": 9, "reporting_horizon": "2h", "answers_per_time": answers}  # fmt: skip
        environ = {"LOCATION_MONITOR__MONITORS": json.dumps([evening])}
        return list_problems(load_config(EXAMPLE, environ), Locations(["place"]))

    problem = list_with(1_000_000)["monitors.0.answers_per_time"]
    assert problem.expected.startswith("snapshots of at most 33554432 bytes: one repeats all noisy answers")
    accepted = int(problem.remedy.split()[3])
    assert accepted > 100_000
    assert "monitors.0.answers_per_time" not in list_with(accepted)


@pytest.mark.promise(31)
@pytest.mark.parametrize("answers", [1, 2, 7])
def test_snapshot_with_lower_bounds_fits(answers: int) -> None:
    """A snapshot with all noisy counts and a lower bound at every place fits in the size that it is checked against."""
    config = load_minutes(1)
    timed = next(monitor for monitor in config.monitors if isinstance(monitor, AtTimesMonitor))
    watched = [place for monitor in config.monitors for place in getattr(monitor, "location_ids", ())]
    names = ['"' * 256, "駅" * 80, *(f"place-{number}" for number in range(50))]
    plain = derive_parameters(config, (*names, *watched))
    bounded = replace_monitors(
        plain, at_times=tuple(replace(at, at_least=Fraction(1, 3), answers=answers) for at in select(plain, AtTimes))
    )
    without, with_bounds = (
        select(parameters, AtTimes)[0].measure_by_shard(parameters.registry) for parameters in (plain, bounded)
    )
    epsilon = select(bounded, AtTimes)[0].rule.answer_epsilon if answers > 1 else None
    later = tuple(LaterCount(10**12 + nth, 10**18, epsilon) for nth in range(1, answers))
    noisy = NoisyCount(10**12, 10**18, epsilon, later, "9999-12-31T23:59:59.999999Z" if later else UNSET)
    for shard, rows in enumerate(bounded.registry.by_shard):
        ids = [bounded.registry.ids[row] for row in rows]
        record = make_at_times_record(
            source="s",
            monitor=timed.name,
            time=0,
            shard=shard,
            shards=bounded.registry.shards,
            tick=10**12,
            as_of=0,
            complete=True,
            final=True,
            registry=bounded.registry.digest,
            locations=len(ids),
            threshold=10**12,
            epsilon=timed.epsilon,
            noisy_counts=dict.fromkeys(ids, noisy),
            counts_at_least=(Fraction(1, 3), dict.fromkeys(ids, 10**18)),
        )
        assert measure(record) <= with_bounds[shard]
        assert without[shard] <= with_bounds[shard]

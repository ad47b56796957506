"""Every configuration that `check` accepts can be written to the ledger and read back (a property test)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from monitor.config.derive_parameters import derive_parameters
from monitor.config.registry import Locations
from monitor.config.valid_config import validate_config
from monitor.errors import ConfigError
from monitor.kinds.all_records import read_record
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.at_times.record import AtTimesSnapshot, NoisyCount, make_at_times_record
from monitor.kinds.hot_spots.keys_and_parameters import HotSpots
from monitor.kinds.hot_spots.record import HotSpotsSnapshot, make_hot_spots_record
from monitor.kinds.over_time.keys_and_parameters import OverTime
from monitor.kinds.over_time.record import OverTimeAlert, make_over_time_record
from monitor.kinds.parameters import Parameters
from monitor.privacy.over_time import Mark, OverTimeAnswer
from monitor.records.output_records import OutputRecord
from tests.builders import select

PLACES = Locations([f"place-{number}" for number in range(4)])
LARGEST = 10**12

weights = st.integers(1, LARGEST) | st.integers(1, 12)
decimals = st.builds(lambda whole, digits: f"{whole}.{digits}", st.integers(0, 999), st.text("0123456789", max_size=36))
fractions = st.builds(lambda top, below: f"{top}/{below}", st.integers(1, 10**19), st.integers(1, 10**19))
epsilons = st.integers(1, 20).map(str) | decimals.filter(lambda text: text[-1] != ".") | fractions
watched = st.dictionaries(st.sampled_from(PLACES.ids), weights, min_size=1)


@st.composite
def monitors(draw: Callable[..., Any]) -> list[dict[str, Any]]:
    """Draw one monitor of each kind."""
    times = {"at": ["18:00"], "timezone": "UTC", "reporting_horizon": "2h"}
    return [
        {
            "name": "stations",
            "kind": "over_time",
            "locations": draw(watched),
            "epsilon": draw(epsilons),
            "threshold": draw(weights),
            "window": "3h",
            "answers_per_window": draw(weights),
        },
        {
            "name": "evening",
            "kind": "at_times",
            "epsilon": draw(epsilons),
            "threshold": draw(weights),
            "answers_per_time": draw(st.integers(1, 12)),
            **times,
        },
        {"name": "busiest", "kind": "hot_spots", "epsilon": draw(epsilons), "top": draw(st.integers(1, 4)), **times},
    ]


def read(record: OutputRecord) -> Any:
    return read_record(record.key, record.value, record.headers)


def check_over_time_record(parameters: Parameters, monitor: OverTime) -> None:
    for row, rule in zip(monitor.rows, monitor.rules, strict=True):
        mark = Mark(5, 3, rule.answer_epsilon, 9)
        record = make_over_time_record(
            source=parameters.name,
            monitor=monitor.name,
            location_id=parameters.registry.ids[row],
            rule=rule,
            tick=5,
            as_of=parameters.grid.as_of(5),
            window_start=parameters.grid.start(3),
            answer=OverTimeAnswer("noisy_count", 3 + rule.threshold, (mark,), None),
            resumes_at=None,
        )
        entry = read(record)
        assert isinstance(entry, OverTimeAlert)
        assert entry.answers == (mark,)


def build_common_fields(parameters: Parameters, monitor: AtTimes | HotSpots) -> dict[str, Any]:
    as_of = parameters.grid.as_of(5)
    common = {"source": parameters.name, "monitor": monitor.name, "time": as_of, "tick": 5, "as_of": as_of}
    return common | {"registry": parameters.registry.digest, "locations": 4, "epsilon": monitor.epsilon}


@pytest.mark.promise(31)
def test_accepted_shares_are_read_back(load: Any) -> None:
    """The ledger keeps ε of many digits exactly, for all three kinds, with the real writers and readers."""

    @settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
    @given(monitors())
    def check_round_trip(generated: list[dict[str, Any]]) -> None:
        try:
            config = load({"monitors": generated, "privacy.epsilon": str(LARGEST)})
            validate_config(config, PLACES)
        except ConfigError:
            assume(False)
        parameters = derive_parameters(config, PLACES.ids)
        for monitor in select(parameters, OverTime):
            check_over_time_record(parameters, monitor)
        (evening,), (busiest,) = select(parameters, AtTimes), select(parameters, HotSpots)
        snapshot: dict[str, Any] = {"shard": 0, "shards": 1, "threshold": 3, "complete": True, "final": False}
        entry = read(
            make_at_times_record(
                **build_common_fields(parameters, evening),
                **snapshot,
                noisy_counts={"place-0": NoisyCount(5, 4, evening.rule.answer_epsilon)},
            )
        )
        assert isinstance(entry, AtTimesSnapshot)
        assert entry.epsilon == evening.epsilon
        assert entry.noisy_counts["place-0"].epsilon == evening.rule.answer_epsilon
        drawn = read(
            make_hot_spots_record(
                **build_common_fields(parameters, busiest), top=busiest.top, hot_spots=[("place-0", 5)]
            )
        )
        assert isinstance(drawn, HotSpotsSnapshot)
        assert drawn.epsilon == busiest.epsilon

    check_round_trip()

"""The version of a configuration changes whenever answers would."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from monitor.contracts.instants import HOUR, SECOND
from monitor.contracts.parameters import AtTimes, HotSpots, OverTime, Parameters
from monitor.contracts.schedule import Schedule
from monitor.privacy.over_time import OverTimeRule
from monitor.ticks.rollout import (
    compute_version,
    make_member_client_id,
    read_member_versions,
)
from tests.builders import build_parameters, watch

RULE = OverTimeRule(Fraction(1, 2), 1, 3, 24, 1)
NOON = Schedule.of(("12:00",), "UTC")
TIMED = AtTimes("noon", NOON, Fraction(1), 3, 6 * HOUR)
RANKED = HotSpots("top", NOON, Fraction(1), 3, 6 * HOUR)
SCHEME = build_parameters(
    ("inn", "mill"),
    shards=2,
    max_lead=1,
    over_time=[watch("stations", (0, 1), RULE)],
    at_times=[TIMED],
    hot_spots=[RANKED],
)
FACTS = "0123456789abcdef"


def over_time(**changes: Any) -> Parameters:
    """Return parameters whose second place has another rule."""
    return replace(SCHEME, over_time=(OverTime("stations", (0, 1), (RULE, replace(RULE, **changes))),))


@pytest.mark.promise(39)
@pytest.mark.parametrize(
    "changed",
    [
        over_time(epsilon=Fraction(1, 3)),
        over_time(answers=2),
        over_time(threshold=4),
        over_time(window=25),
        over_time(max_lead=2),
        replace(SCHEME, over_time=(OverTime("platforms", (0, 1), (RULE, RULE)),)),
        replace(SCHEME, over_time=(OverTime("stations", (0,), (RULE,)),)),
        replace(SCHEME, at_times=(replace(TIMED, epsilon=Fraction(2)),)),
        replace(SCHEME, at_times=(replace(TIMED, threshold=4),)),
        replace(SCHEME, at_times=(replace(TIMED, at_least=Fraction(1)),)),
        replace(SCHEME, at_times=(replace(TIMED, horizon=7 * HOUR),)),
        replace(SCHEME, at_times=(replace(TIMED, times=Schedule.of(("13:00",), "UTC")),)),
        replace(SCHEME, at_times=(replace(TIMED, name="midday"),)),
        replace(SCHEME, hot_spots=(replace(RANKED, top=4),)),
        replace(SCHEME, at_times=(), hot_spots=(RANKED, replace(RANKED, name="noon"))),
    ],
)
def test_deciding_parameters_change_the_version(changed: Parameters) -> None:
    """The version changes with every parameter that decides answers."""
    assert compute_version(changed, FACTS) != compute_version(SCHEME, FACTS)


def test_facts_change_the_version() -> None:
    """The version changes with the fingerprint of the facts, and not with parameters that decide no answer."""
    assert compute_version(SCHEME, "fedcba9876543210") != compute_version(SCHEME, FACTS)
    assert compute_version(replace(SCHEME, release_delay=SECOND), FACTS) == compute_version(SCHEME, FACTS)


def test_versions_come_from_client_ids() -> None:
    """Versions are read from client ids; foreign clients are left out."""
    version = compute_version(SCHEME, FACTS)
    ids = [
        make_member_client_id("location-monitor-a.b", version),
        "location-monitor-a.b",
        "somebody",
        "location-monitor-a.b-c",
    ]
    assert read_member_versions("location-monitor-a.b", ids) == [version]
    assert read_member_versions("location-monitor-a?b", ids) == []

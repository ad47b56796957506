"""A monitor of kind hot_spots: what it must say, and what it may not."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from monitor.config import Location
from monitor.config.charges import most_designated_times
from monitor.config.monitors import HotSpotsMonitor
from monitor.errors import OverspentError
from monitor.public.instants import DAY
from monitor.tools.check.report import check


def hot_spots(**changes: object) -> dict[str, Any]:
    """The valid configuration's second monitor replaced by hot spots, some of whose keys are changed."""
    return {
        "monitors.1": {
            "name": "busiest",
            "kind": "hot_spots",
            "at": ["18:00"],
            "timezone": "Asia/Tokyo",
            "reporting_horizon": "2d",
            "epsilon": "1/3",
            "top": 5,
        },
        **{f"monitors.1.{key}": value for key, value in changes.items()},
    }


def test_hot_spots_are_read_by_their_kind(load: Any) -> None:
    monitor = load(hot_spots()).monitors[1]
    assert isinstance(monitor, HotSpotsMonitor)
    assert (monitor.at, monitor.epsilon, monitor.reporting_horizon) == (("18:00",), Fraction(1, 3), 2 * DAY)
    assert monitor.top == 5


@pytest.mark.parametrize("key", ["at", "reporting_horizon", "epsilon", "top"])
def test_what_has_no_default_must_be_given(refusal: Any, absent: str, key: str) -> None:
    assert refusal(hot_spots(**{key: absent}))[f"monitors.1.{key}"].value == "missing"


@pytest.mark.parametrize("top", [0, -1, 2.5, True, "five"])
def test_one_location_is_named_at_least(refusal: Any, top: object) -> None:
    assert refusal(hot_spots(top=top))["monitors.1.top"].expected.startswith("a whole number")


def test_more_may_be_asked_for_than_there_are(load: Any) -> None:
    assert load(hot_spots(top=10_000)).monitors[1].top == 10_000


@pytest.mark.parametrize(
    ("key", "remedy"),
    [("tops", "Did you mean top?"), ("report_horizon", "Did you mean reporting_horizon?"), ("threshold", "Remove it.")],
)
def test_keys_that_it_does_not_have_are_refused(refusal: Any, key: str, remedy: str) -> None:
    problem = refusal(hot_spots(**{key: 5}))[f"monitors.1.{key}"]
    assert problem.value == "unknown"
    assert problem.remedy == remedy


def test_daily_times_need_a_time_zone_and_instants_none(refusal: Any, load: Any, absent: str) -> None:
    problem = refusal(hot_spots(timezone=absent))["monitors.1.timezone"]
    assert problem.expected == "the time zone of the daily times in `at`"
    assert load(hot_spots(timezone=absent, at=["2026-01-05T18:00:00Z"])).monitors[1].timezone is None


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("at", [], "at least one designated time"),
        ("at", ["18:00", "18:00:00"], "each designated time once"),
        ("reporting_horizon", "59m", "at least one slot (1h)"),
        ("name", "stations", "a name of its own, but monitors.0 has it too"),
    ],
)
def test_the_rules_of_designated_times_and_names_hold(refusal: Any, key: str, value: object, expected: str) -> None:
    assert refusal(hot_spots(**{key: value}))[f"monitors.1.{key}"].expected == expected


def test_an_epsilon_at_which_no_noise_can_be_drawn_is_refused(refusal: Any) -> None:
    assert "monitors.1.epsilon" in refusal(hot_spots(epsilon="1/10000000000000"))


def test_the_period_holds_what_all_its_times_cost(load: Any) -> None:
    # 14 evenings in Tokyo, and 2 for the stations over a window as long as the period
    config = load(hot_spots() | {"privacy.epsilon": "20/3"})
    assert most_designated_times(config.monitors[1], config.privacy.period) == 14
    places = (Location("shibuya"), Location("shinjuku"))
    assert check(config, places).total == 2 + Fraction(14, 3)
    less = load(hot_spots() | {"privacy.epsilon": "13/2"})
    with pytest.raises(OverspentError, match=r"busiest: 14/3 = 14 designated times × 1/3"):
        check(less, places)

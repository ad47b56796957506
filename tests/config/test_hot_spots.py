"""Validation of hot_spots monitors."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from monitor.config import Location
from monitor.config.charges import count_most_designated_times
from monitor.config.monitors import HotSpotsMonitor
from monitor.contracts.instants import DAY
from monitor.errors import OverspentError
from monitor.tools.check.compute_report import check


def hot_spots(**changes: object) -> dict[str, Any]:
    """Return the changes that replace the second monitor of the valid configuration by a hot_spots monitor."""
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


def test_hot_spots_monitor_is_read(load: Any) -> None:
    """The kind hot_spots selects the model."""
    monitor = load(hot_spots()).monitors[1]
    assert isinstance(monitor, HotSpotsMonitor)
    assert (monitor.at, monitor.epsilon, monitor.reporting_horizon) == (("18:00",), Fraction(1, 3), 2 * DAY)
    assert monitor.top == 5


@pytest.mark.parametrize("key", ["at", "reporting_horizon", "epsilon", "top"])
def test_required_keys(refusal: Any, absent: str, key: str) -> None:
    """A missing key without a default is refused."""
    assert refusal(hot_spots(**{key: absent}))[f"monitors.1.{key}"].value == "missing"


@pytest.mark.parametrize("top", [0, -1, 2.5, True, "five"])
def test_top_is_a_positive_whole_number(refusal: Any, top: object) -> None:
    """`top` must be a whole number of at least 1."""
    assert refusal(hot_spots(top=top))["monitors.1.top"].expected.startswith("a whole number")


def test_top_may_exceed_the_registry(load: Any) -> None:
    """`top` may be larger than the number of locations."""
    assert load(hot_spots(top=10_000)).monitors[1].top == 10_000


@pytest.mark.parametrize(
    ("key", "remedy"),
    [("tops", "Did you mean top?"), ("report_horizon", "Did you mean reporting_horizon?"), ("threshold", "Remove it.")],
)
def test_unknown_key_is_refused(refusal: Any, key: str, remedy: str) -> None:
    """An unknown key is refused, with the nearest key if there is one."""
    problem = refusal(hot_spots(**{key: 5}))[f"monitors.1.{key}"]
    assert problem.value == "unknown"
    assert problem.remedy == remedy


def test_only_daily_times_need_zones(refusal: Any, load: Any, absent: str) -> None:
    """Daily times need a time zone; instants do not."""
    problem = refusal(hot_spots(timezone=absent))["monitors.1.timezone"]
    assert problem.expected == "the time zone of the daily times in `at`"
    assert load(hot_spots(timezone=absent, at=["2026-01-05T18:00:00Z"])).monitors[1].timezone is None


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("at", [], "at least one designated time"),
        ("at", ["18:00", "18:00:00"], "each designated time once"),
        ("reporting_horizon", "59m", "at least one slot (1h)"),
        ("name", "stations", "a unique name, but monitors.0 has the same"),
    ],
)
def test_rules_apply_to_hot_spots(refusal: Any, key: str, value: object, expected: str) -> None:
    """The rules of designated times and of names apply to hot spots."""
    assert refusal(hot_spots(**{key: value}))[f"monitors.1.{key}"].expected == expected


def test_tiny_epsilon_is_refused(refusal: Any) -> None:
    """An ε at which noise cannot be drawn is refused."""
    assert "monitors.1.epsilon" in refusal(hot_spots(epsilon="1/10000000000000"))


@pytest.mark.promise(15)
def test_period_sum_includes_hot_spots(load: Any) -> None:
    """Each designated time within the period counts towards the sum."""
    # 14 evenings in Tokyo, and 2 for the stations, whose window is as long as the period
    config = load(hot_spots() | {"privacy.epsilon": "20/3"})
    assert count_most_designated_times(config.monitors[1], config.privacy.period) == 14
    places = (Location("shibuya"), Location("shinjuku"))
    assert check(config, places).total == 2 + Fraction(14, 3)
    less = load(hot_spots() | {"privacy.epsilon": "13/2"})
    with pytest.raises(OverspentError, match=r"busiest: 14/3 = 14 designated times × 1/3"):
        check(less, places)

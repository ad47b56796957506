"""Validation of dwell monitors, and what they cost."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from monitor.config import DwellMonitor, Location
from monitor.config.charges import charge_monitor
from monitor.config.derive_parameters import derive_parameters
from monitor.privacy.dwell import DwellRule
from monitor.tools.check.compute_report import check

PLACES = (Location("shibuya"), Location("shinjuku"))


def dwell(**changes: object) -> dict[str, Any]:
    """Return the changes that replace the second monitor of the valid configuration by a dwell monitor."""
    return {
        "monitors.1": {
            "name": "lengths",
            "kind": "dwell",
            "at": ["18:00"],
            "timezone": "Asia/Tokyo",
            "reporting_horizon": "2d",
            "epsilon": "1/3",
            "longest_visit": "2h",
        },
        **{f"monitors.1.{key}": value for key, value in changes.items()},
    }


def test_dwell_monitor_is_read(load: Any) -> None:
    """The kind dwell selects the model; by default one visit per person counts."""
    config = load(dwell())
    assert isinstance(config.monitors[1], DwellMonitor)
    parameters = derive_parameters(config, PLACES)
    assert [(monitor.name, monitor.rule) for monitor in parameters.dwell] == [
        ("lengths", DwellRule(Fraction(1, 3), 7_200, 1))
    ]
    assert parameters.totals == parameters.dwell


@pytest.mark.parametrize("key", ["at", "reporting_horizon", "epsilon", "longest_visit"])
def test_required_keys(refusal: Any, absent: str, key: str) -> None:
    """A missing key without a default is refused."""
    assert refusal(dwell(**{key: absent}))[f"monitors.1.{key}"].value == "missing"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("longest_visit", "0s"),
        ("longest_visit", "-1h"),
        ("longest_visit", "1500ms"),
        ("longest_visit", "366d"),
        ("longest_visit", 7_200),
        ("visits_per_person", 0),
        ("visits_per_person", 1.5),
        ("epsilon", 0),
        ("epsilon", 0.5),
        ("epsilon", "1/1000000000"),
        ("threshold", 3),
        ("at_least", {"epsilon": 1}),
    ],
)
def test_invalid_values_are_refused(refusal: Any, key: str, value: object) -> None:
    """Bounds that are not positive, a float, an ε at which noise cannot be drawn, and unknown keys are refused."""
    assert f"monitors.1.{key}" in refusal(dwell(**{key: value}))


@pytest.mark.promise(15)
def test_sum_includes_dwell_times(load: Any) -> None:
    """Each designated time costs ε: 14 evenings in 14 days."""
    config = load(dwell() | {"privacy.epsilon": "100"})
    assert charge_monitor(config, config.monitors[1]).amount == Fraction(14, 3)
    report = check(config, PLACES)
    assert report.total == 2 + Fraction(14, 3)
    noise = report.monitors[1].dwell
    assert noise is not None
    assert noise.deviation == pytest.approx(4 / (1 / 3), rel=1e-3)
    assert (report.monitors[1].threshold, report.monitors[1].odds) == (None, ())
    assert '"longest_visit": "2h"' in report.to_json()

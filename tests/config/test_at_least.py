"""Validation of lower bounds (`at_least`), and what they cost."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from monitor.config import AtTimesMonitor, Location
from monitor.config.charges import charge_monitor
from monitor.config.derive_parameters import derive_parameters
from monitor.tools.check.compute_report import check


def bounds(value: object) -> dict[str, Any]:
    """Return the changes that give the second monitor of the valid configuration lower bounds."""
    return {"monitors.1.at_least": value}


def test_at_least_is_read(load: Any) -> None:
    """`at_least` states an exact ε; without it there are no lower bounds."""
    monitor = load(bounds({"epsilon": "1/3"})).monitors[1]
    assert isinstance(monitor, AtTimesMonitor)
    assert monitor.at_least is not None
    assert monitor.at_least.epsilon == Fraction(1, 3)
    plain = load({}).monitors[1]
    assert isinstance(plain, AtTimesMonitor)
    assert plain.at_least is None


@pytest.mark.parametrize("epsilon", [0, -1, "0", "-1/2", "x", True, None, "1/0"])
def test_invalid_epsilon_is_refused(refusal: Any, epsilon: object) -> None:
    """An ε of 0 or less, or one that is not a number, is refused with its key."""
    assert "monitors.1.at_least.epsilon" in refusal(bounds({"epsilon": epsilon}))


def test_float_is_refused_with_the_remedy(refusal: Any) -> None:
    """A YAML float is not exact, so it is refused, with the way to write it."""
    problem = refusal(bounds({"epsilon": 0.5}))["monitors.1.at_least.epsilon"]
    assert '"0.5"' in problem.expected + problem.remedy


@pytest.mark.parametrize(
    ("value", "key"),
    [({}, "epsilon"), ({"epsilon": 1, "threshold": 3}, "threshold"), (1, ""), (True, ""), ([], "")],
)
def test_other_shapes_are_refused(refusal: Any, value: object, key: str) -> None:
    """`at_least` is a mapping with the one key `epsilon`."""
    assert f"monitors.1.at_least{'.' if key else ''}{key}" in refusal(bounds(value))


def test_other_kinds_have_no_lower_bounds(refusal: Any) -> None:
    """Only `at_times` has lower bounds: a window has no designated time at which a person consents."""
    problem = refusal({"monitors.0.at_least": {"epsilon": 1}})["monitors.0.at_least"]
    assert problem.value == "unknown"


@pytest.mark.promise(15)
def test_sum_includes_lower_bounds(load: Any) -> None:
    """Each designated time costs ε + ε_c, in the sum and in the parameters."""
    plain, config = load({}), load(bounds({"epsilon": "1/8"}) | {"privacy.epsilon": "100"})
    before, after = (charge_monitor(read, read.monitors[1]) for read in (plain, config))
    times = before.amount / plain.monitors[1].epsilon
    assert after.amount == before.amount + times / 8
    assert "for lower bounds" in after.reason
    parameters = derive_parameters(config, (Location("shibuya"), Location("shinjuku")))
    assert [(monitor.name, monitor.epsilon) for monitor in parameters.at_least] == [
        (config.monitors[1].name, Fraction(1, 8))
    ]
    assert len(parameters.charged) == len(parameters.timed) + 1


def test_report_explains_lower_bounds(load: Any) -> None:
    """The report names both ε, and how far a lower bound is below the number of people who consented."""
    config = load(bounds({"epsilon": "1"}) | {"privacy.epsilon": "100"})
    report = check(config, (Location("shibuya"), Location("shinjuku")))
    assert "lower bounds" in report.monitors[1].explanation
    assert report.monitors[1].lower_bounds is not None
    assert report.monitors[1].lower_bounds.epsilon == 1
    assert report.monitors[1].lower_bounds.below == 3
    assert report.monitors[0].lower_bounds is None
    assert '"lower_bounds"' in report.to_json()

"""Validation of upper bounds: a bucket fits the slots and the window, and there is no threshold; what they cost."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import pytest

from monitor.config.derive_parameters import derive_parameters
from monitor.config.registry import Locations
from monitor.config.valid_config import validate_config
from monitor.kinds.upper_bound.keys_and_parameters import UpperBound
from monitor.operate.check.compute_report import compute_report
from monitor.privacy.upper_bound import BucketRule
from tests.builders import select
from tests.config.conftest import ABSENT

CURVE: Final = {
    "name": "curve", "kind": "upper_bound", "locations": {"shibuya": 3, "shinjuku": 1}, "epsilon": "4", "window": "7d",
    "bucket": "1d",
}  # fmt: skip


def replace(**changes: object) -> dict[str, Any]:
    """Return the changes that replace the second monitor of the valid configuration by one of this kind."""
    return {
        "monitors.1": dict(CURVE),
        "privacy.epsilon": "40",
        **{f"monitors.1.{key}": value for key, value in changes.items()},
    }


def test_keys_are_read(load: Any) -> None:
    """The locations share the ε, and the lengths are in slots."""
    parameters = derive_parameters(load(replace()), ("shibuya", "shinjuku"))
    (curve,) = select(parameters, UpperBound)
    assert curve.rules == tuple(BucketRule(Fraction(share), 24, 168, parameters.max_lead) for share in (3, 1))
    assert [rule.answer_epsilon for rule in curve.rules] == [Fraction(3, 7), Fraction(1, 7)]


@pytest.mark.parametrize(
    ("changes", "key", "expected", "remedy"),
    [
        ({"bucket": "30m"}, "bucket", "at least one slot (1h)", "Set it to 1h or more."),
        ({"bucket": "90m"}, "bucket", "a whole number of slots of 1h", "Set it to 1h or 2h."),
        ({"bucket": "5h"}, "bucket", "a duration that divides the window of 7d", "Set it to 4h or 6h."),
        ({"bucket": "8d"}, "bucket", "a duration that divides the window of 7d", "Set it to 7d."),
        ({"bucket": ABSENT}, "bucket", "the time between two numbers", "Add it."),
        ({"window": "90m"}, "window", "a whole number of slots of 1h", "Set it to 1h or 2h."),
        ({"threshold": 60}, "threshold", "one of name, kind, epsilon, locations, window, bucket", "Remove it."),
        ({"locations": []}, "locations", "at least one location", "Name one"),
        ({"epsilon": "1/100000000000"}, "epsilon", "so that noise can be drawn", "Raise it"),
    ],
)
def test_refused(refusal: Any, changes: dict[str, Any], key: str, expected: str, remedy: str) -> None:
    """A bucket that is too short, no whole number of slots or no part of the window is refused; so is a threshold."""
    problem = refusal(replace(**changes))[f"monitors.1.{key}"]
    assert expected in problem.expected
    assert remedy in problem.remedy


def test_check_says_what_it_is_worth(load: Any) -> None:
    """`check` states by how much noise raises a bound: eight numbers at ε = 3/7 and at 1/7, and the charge."""
    valid = validate_config(load(replace()), Locations(("shibuya", "shinjuku")))
    report = next(one for one in compute_report(valid).monitors if one.name == "curve")
    assert report.note is not None
    assert "the bound is 15 ± 6.5 people too high (ε of a number 3/7); 52 ± 20 people too high" in report.note.text
    assert report.threshold is None
    slots = valid.parameters.period_slots
    assert report.charge.amount == Fraction(4, 7) * -(-(slots + 168 + valid.parameters.max_lead - 1) // 24)

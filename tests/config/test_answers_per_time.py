"""Validation of `answers_per_time`: its default, its conditions, and what it costs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from monitor.config.derive_parameters import derive_parameters
from monitor.config.registry import Locations
from monitor.config.valid_config import validate_config
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.operate.check.compute_report import compute_report
from monitor.privacy.at_times import AtTimesRule
from tests.builders import select

_MEANT = "Did you mean answers_per_window?"
PLACES = Locations(("shibuya", "shinjuku"))


def test_key_is_read(load: Any) -> None:
    """Each of k answers is drawn at ε/k, and k is 1 by default."""
    for changes, answers in (({}, 1), ({"monitors.1.answers_per_time": 3}, 3)):
        (evening,) = select(derive_parameters(load(changes), PLACES.ids), AtTimes)
        assert evening.rule == AtTimesRule(Fraction(1, 2), 20, answers)
        assert evening.needed.since_ticks == (answers > 1)


@pytest.mark.parametrize(
    ("changes", "key", "expected", "remedy"),
    [
        ({"monitors.0.answers_per_time": 2}, "monitors.0.answers_per_time", "one of name, kind, epsilon", _MEANT),
        (
            {"monitors.1.answers_per_time": 10**12},
            "monitors.1.answers_per_time",
            "an ε of at least 1/1000000000000 for each answer, so that noise can be drawn",
            "Set it to 500000000000 or less, or raise the monitor's epsilon.",
        ),
        ({"monitors.1.at": []}, "monitors.1.at", "at least one designated time", 'Add one, such as "18:00".'),
    ],
)
def test_broken_conditions(refusal: Any, changes: dict[str, Any], key: str, expected: str, remedy: str) -> None:
    """The key is refused without designated times, and if noise cannot be drawn at ε/k."""
    problem = refusal(changes)[key]
    assert problem.expected.startswith(expected)
    assert problem.remedy == remedy


def test_charge_and_one_visit(load: Any) -> None:
    """A person is charged ε per time, whatever k is; a visit that is reported once pays ε/k."""
    reports = [
        compute_report(validate_config(load({"monitors.1.answers_per_time": answers}), PLACES)) for answers in (1, 2)
    ]
    assert reports[0].total == reports[1].total
    assert [report.monitors[1].one_visit for report in reports] == [Fraction(1, 2), Fraction(1, 4)]


def test_more_answers_than_ticks_are_useless(load: Any) -> None:
    """`check` calls answers useless for which there are no ticks: a horizon of 2 d has 48 of 1 h."""
    for answers, is_useless in ((48, False), (49, True)):
        report = compute_report(validate_config(load({"monitors.1.answers_per_time": answers}), PLACES))
        assert any("answers_per_time is 49" in verdict.text for verdict in report.verdicts) == is_useless

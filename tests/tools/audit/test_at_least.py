"""The audit compares lower bounds with the people who consented, and checks that they are drawn once.

At 02:30 p3 and p4 are at the shop, and nobody is at the park. conftest.py draws the run.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tests.tools.audit.conftest import Tiny, find

FINAL = "night/2026-01-01T02:30:00Z/0/4"
EARLY = "night/2026-01-01T02:30:00Z/0/3"


def add_bounds(tiny: Tiny, bounds: dict[str, Any] | None, consenting: str = "p3 p4", ce_id: str = FINAL) -> None:
    """Give `night` lower bounds at ε_c = 3/4, publish these, and let these people consent."""
    tiny.state_enough()
    if "at_least" not in tiny.config:
        tiny.config += '    at_least: {epsilon: "3/4"}\n'
        people = consenting.split()
        tiny.lines = [
            f"{line},{'consent' if n == 0 else 'true' if line.partition(',')[0] in people else ''}"
            for n, line in enumerate(tiny.lines)
        ]
    if bounds is not None:
        tiny[ce_id].update({"at_least_epsilon": "3/4", "counts_at_least": bounds})


@pytest.mark.promise(41)
@pytest.mark.parametrize("bounds", [{}, {"shop": 1}, {"shop": 2}])
def test_true_bounds_pass(tiny: Tiny, bounds: dict[str, int]) -> None:
    """Bounds up to the number of people who consented pass every check."""
    add_bounds(tiny, bounds)
    report = tiny.audit(fates={"applied": 4, "not_watched": 0, "expired": 0, "dead_letter": 0})
    assert report.ok, report.violations
    assert report.bounds == len(bounds)


@pytest.mark.promise(41)
@pytest.mark.parametrize(("bounds", "consenting"), [({"shop": 3}, "p3 p4"), ({"shop": 2}, "p4"), ({"park": 1}, "p3")])
def test_bound_above_the_recount_is_found(tiny: Tiny, bounds: dict[str, int], consenting: str) -> None:
    """A bound above the number of people who consented is found. People without consent do not count."""
    add_bounds(tiny, bounds, consenting)
    (found,) = find(tiny, "at_least")
    assert found.endswith(f"{next(iter(bounds))}: fewer people consented than the lower bound")


def test_report_after_final_tick_is_ignored(tiny: Tiny) -> None:
    """A person who is reported after the final tick's as_of does not count, so a bound with that person is found."""
    add_bounds(tiny, {"shop": 2})
    tiny.lines[-1] = tiny.lines[-1].replace("03:10", "05:10")
    assert any("consented" in text for text in tiny.audit().violations["at_least"])


@pytest.mark.promise(43)
def test_second_bound_is_found(tiny: Tiny) -> None:
    """Bounds before the final tick, and bounds that are drawn a second time, are found."""
    add_bounds(tiny, {"shop": 1})
    add_bounds(tiny, {"shop": 1}, ce_id=EARLY)
    assert [text.partition(": ")[2] for text in find(tiny, "budget")] == [
        "it has lower bounds, expected only in a complete final snapshot",
        "the lower bounds are drawn a second time",
    ]


@pytest.mark.parametrize("bound", [0, -1, True, "1", 1.5])
def test_bound_must_be_a_positive_number(tiny: Tiny, bound: object) -> None:
    """A bound that is not a whole number of at least 1 is found."""
    add_bounds(tiny, {"shop": bound})
    assert len(find(tiny, "form")) == 1


def test_missing_or_foreign_bounds_are_found(tiny: Tiny) -> None:
    """A complete final snapshot without the fields, a foreign location, and another ε are found."""
    add_bounds(tiny, None)
    assert find(tiny, "form")[0].endswith("the final snapshot has no lower bounds")
    add_bounds(tiny, {"attic": 1})
    assert find(tiny, "form")[0].endswith("the location is not in this shard")
    tiny[FINAL].update({"at_least_epsilon": "1/2", "counts_at_least": {}})
    assert find(tiny, "form")[0].endswith("at_least_epsilon is not that of the configuration")


def test_bounds_without_configuration_are_found(tiny: Tiny) -> None:
    """Bounds of a monitor that has none in the configuration are found."""
    tiny[FINAL].update({"at_least_epsilon": "1", "counts_at_least": {}})
    assert find(tiny, "budget")[0].endswith("expected only in a complete final snapshot")


@pytest.mark.promise(15)
def test_bounds_cost_their_epsilon(tiny: Tiny) -> None:
    """Drawn bounds cost ε_c = 3/4, also if all are 0, besides 1 at the park and 1/2 for the noisy count at 02:30."""
    add_bounds(tiny, {})
    assert tiny.audit().spent == 1 + Fraction(1, 2) + Fraction(3, 4)


def test_invalid_consent_is_a_dead_letter(tiny: Tiny) -> None:
    """A line whose `consent` is neither true nor false is a dead letter."""
    add_bounds(tiny, {})
    tiny.lines.append("p5,shop,2026-01-01T02:20:00Z,2026-01-01T02:40:00Z,,yes")
    assert tiny.audit().fates["dead_letter"] == 1

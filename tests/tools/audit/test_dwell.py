"""The checks of dwell times: one drawing at the last tick, totals near the recount, and payments.

At 02:30 p3 and p4 are at the shop for 20 minutes each. conftest.py draws the run.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import Any

import pytest

from tests.tools.audit.conftest import Tiny, as_of, find, record

R = 1_800
"""The longest length that counts: 30 minutes."""


def add_dwell(tiny: Tiny, above: int = 2_400, below: int = 1_200, tick: int = 4, **changes: Any) -> None:
    """Add a monitor of dwell times at ε = 3/2, and a record with these totals."""
    tiny.state_enough()
    if "lengths" not in tiny.config:
        tiny.config += (
            '  - {name: lengths, kind: dwell, at: ["02:30"], timezone: Europe/London, reporting_horizon: 3h, '
            'epsilon: "3/2", longest_visit: 30m}\n'
        )
    both = above + below
    value = {
        "monitor": "lengths",
        "kind": "dwell",
        "time": "2026-01-01T02:30:00Z",
        "tick": tick,
        "as_of": as_of(tick),
        "status": "complete",
        "final": True,
        "registry": hashlib.sha256(b"park\nshop\n").hexdigest(),
        "locations": 2,
        "noise": "two_sided",
        "epsilon": "3/2",
        "longest_visit_seconds": R,
        "visits_per_person": 1,
        "visit_seconds": above,
        "spare_seconds": below,
        "visits": both / R,
        "mean_seconds": float(Fraction(R * min(max(above, 0), both), both)) if both > 0 else None,
        **changes,
    }
    tiny.insert(record("lengths/2026-01-01T02:30:00Z", tick, value))


@pytest.mark.promise(44)
@pytest.mark.parametrize(("above", "below"), [(2_400, 1_200), (2_400 - 9_000, 1_200 + 9_000), (-5_000, 100)])
def test_noise_passes(tiny: Tiny, above: int, below: int) -> None:
    """Totals near those of the recount pass, on both sides: A = 2·1,200 s, B = 2·600 s, scale 2·R/ε = 2,400 s."""
    add_dwell(tiny, above, below)
    report = tiny.audit(fates={"applied": 4, "not_watched": 0, "expired": 0, "dead_letter": 0})
    assert report.ok, report.violations
    assert report.answers["lengths", "complete"] == 1


@pytest.mark.parametrize(("above", "below"), [(2_400 + 45 * 2_400 + 1, 1_200), (2_400, 1_200 - 45 * 2_400 - 1)])
def test_impossible_noise_is_found(tiny: Tiny, above: int, below: int) -> None:
    """A total that noise reaches with a chance of about e^-45 is found."""
    add_dwell(tiny, above, below)
    assert find(tiny, "dwell")[0].endswith("a total is further from the recount than its noise")


@pytest.mark.promise(44)
def test_second_or_early_drawing_is_found(tiny: Tiny) -> None:
    """A drawing at an earlier tick, one at the same time, and a missing one are found."""
    add_dwell(tiny, tick=3)
    assert any("not the last tick" in text for text in find(tiny, "ticks"))
    assert any("tick 4: lengths has 0 of 1 records" in text for text in find(tiny, "ticks"))
    tiny.remove("lengths/2026-01-01T02:30:00Z/3")
    add_dwell(tiny)
    add_dwell(tiny, 2_401)
    assert find(tiny, "bytes")


@pytest.mark.parametrize(
    "changes",
    [{"visits": 7.0}, {"mean_seconds": 1.0}, {"noise": "one_sided"}, {"epsilon": "1"}, {"visits_per_person": 2}],
)
def test_wrong_facts_are_found(tiny: Tiny, changes: dict[str, Any]) -> None:
    """Estimates that do not follow from the totals, and other terms than configured, are found."""
    add_dwell(tiny, **changes)
    assert find(tiny, "form")


def test_unknown_has_no_numbers(tiny: Tiny) -> None:
    """An unknown answer has no numbers, and costs nothing."""
    nothing: dict[str, Any] = dict.fromkeys(("visit_seconds", "spare_seconds", "visits", "mean_seconds"))
    add_dwell(tiny, status="unknown", **nothing)
    assert tiny.audit().ok
    tiny["lengths/2026-01-01T02:30:00Z/4"]["visits"] = 2.0
    assert find(tiny, "form")


@pytest.mark.promise(15)
def test_drawing_costs_its_epsilon(tiny: Tiny) -> None:
    """A person may pay 1 at the park, 1/2 for the noisy count at 02:30, and 3/2 for dwell times."""
    add_dwell(tiny)
    assert tiny.audit().spent == 3

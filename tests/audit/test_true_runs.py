"""True runs have no finding, and the report has their numbers. records.py draws the run."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from tests.audit.conftest import Tiny
from tests.audit.records import NIGHT, as_of
from tests.audit.test_falsehoods import (
    HALF,
    answer_two,
    count_afresh,
    count_night_afresh,
    lose_ledger,
    set_shop,
    visit_park,
    visit_shop,
)


def answer_twice_per_window(tiny: Tiny) -> None:
    """Let two answers per window cost half each. The pause ends with the first of them.

    tick  1   2   3   4   5      each answer runs for W + F = 4 ticks
          3   2   ∥   ∥   safe   the answers of the ticks 2 and 5 count afresh
    """
    first = {"tick": 1, "noisy_count": 3, "epsilon": "1/2", "until": 4}
    second = {"tick": 2, "noisy_count": 2, "epsilon": "1/2", "until": 5}
    tiny.configure("window: 3h}", "window: 3h, answers_per_window: 2}")
    tiny.walk(1, "noisy_count", [first], noisy_count=3, count_at_most=3, p_value=math.exp(-1))
    tiny.walk(2, "noisy_count", [first, second], noisy_count=2, count_at_most=2, p_value=math.exp(-0.5))
    tiny.set("walk/park/2", counted_since=as_of(1))
    for tick in (3, 4):
        tiny.walk(tick, "paused", [first, second], resumes_at="2026-01-01T06:00:00Z")
    tiny.walk(5, "safe", [second], counted_since=as_of(2))
    for tick in range(7):
        tiny.set(f"walk/park/{tick}", epsilon="1/2")


def mark_shop(tiny: Tiny) -> Tiny:
    """Let the shop have noisy counts at the ticks 2 and 3, of which the second counts p4, and be marked then."""
    second = {"tick": 3, "noisy_count": 2, "epsilon": HALF}
    count_night_afresh(tiny)
    return set_shop(set_shop(tiny, 3, later=[second]), 4, later=[second], counted_since=None)


def draw_hot_spots(tiny: Tiny) -> None:
    """Let hot spots cost 5."""
    tiny.state_enough().watch_busiest({"shop": 3, "park": 2}, top=2).configure('epsilon: "1/3"', 'epsilon: "5"')
    tiny.set("busiest/2026-01-01T02:30:00Z/4", epsilon="5")


def make_unknown(tiny: Tiny) -> None:
    """Let the snapshots of ticks 3 and 4 be unknown."""
    for tick in (3, 4):
        tiny.set(f"{NIGHT}/{tick}", status="unknown", noisy_counts={})


PARK, TIMED = 1, Fraction(1, 2)
"""The ε of the noisy count at the park, and of that about 02:30."""

TRUE: dict[str, tuple[Callable[[Tiny], object], dict[str, Any]]] = {
    "a record that comes twice": (lambda run: run.forge("walk/park/0", place=1), {"records": 11, "ticks": 7}),
    "a person who is reported again": (lambda run: run.visit("p1", "park", "00:20", "00:40"), {"noisy": 2}),
    "a visit that ends at the designated time": (lambda run: run.visit("p5", "shop", "02:20", "02:30", "02:59"), {}),
    "a noisy count that equals the count": (lambda run: visit_park(run, 1, "01:30"), {"early": 0, "noise": 0}),
    "no visit": (lambda run: run.lines.__delitem__(slice(1, None)), {"early": 0, "noise": 2, "noisy": 2}),
    "a report at the as_of of a noisy count": (lambda run: visit_park(answer_two(run), 1, "02:00"), {}),
    "a report just after it": (lambda run: visit_park(answer_two(run), 1, "02:00:00.500000"), {}),
    'a report at the as_of of a "safe"': (lambda run: visit_park(run, 1, "01:00"), {}),
    "a lost ledger": (lose_ledger, {}),
    "two answers per window": (answer_twice_per_window, {"spent": PARK + TIMED}),
    "a count that starts afresh": (count_afresh, {"safe": 3 + 3 + (2 + 1 + 1), "spent": PARK / 2 + TIMED}),
    "a person reported since a noisy count": (lambda run: visit_park(count_afresh(run), 1, "02:10"), {}),
    "two people reported just before its as_of": (
        lambda run: visit_park(count_afresh(run, noisy_count=4), 2, "01:59:59.999999"),
        {},
    ),
    "a count about a time that starts afresh": (count_night_afresh, {"safe": 3 + 3 * 2 - 1, "noisy": 2}),
    "people reported before a noisy count about a time": (
        lambda run: visit_shop(count_night_afresh(run), "p5", "02:59:59.999999"),
        {"early": 0, "noise": 0},
    ),
    "a second noisy count about a time": (
        lambda run: count_night_afresh(run, tick=4),
        {"safe": 3 + 1 + 2 + 1, "noisy": 3, "early": 2, "spent": PARK + TIMED},
    ),
    "two noisy counts about a time, and then none": (
        lambda run: visit_shop(mark_shop(run), "p3", "04:59:59.999999"),
        {"safe": 3 + 3, "noisy": 3},
    ),
    "unknown snapshots": (make_unknown, {"safe": 3 + 2, "spent": PARK}),
    "hot spots": (lambda run: run.watch_busiest({"shop": 3}), {"noisy": 2 + 1, "spent": PARK + TIMED + Fraction(1, 3)}),
    "hot spots that cost more": (draw_hot_spots, {"spent": PARK + TIMED + 5}),
    "hot spots of all places": (lambda run: run.watch_busiest({"shop": 2, "park": 0}, top=9), {}),
    "hot spots with equal counts": (lambda run: run.watch_busiest({"park": 2, "shop": 2}, top=9), {}),
    "a hot spot as high as others": (
        lambda run: visit_park(run.only_walk().watch_busiest({"shop": 3}), 2, hour="02"),
        {"spent": PARK + Fraction(1, 3)},
    ),
    "a visit that is reported after the hot spots": (
        lambda run: run.watch_busiest({"shop": 2}).visit("p5", "shop", "02:20", "02:40", "05:00"),
        {},
    ),
    "unknown hot spots": (lambda run: run.watch_busiest({}, status="unknown"), {"spent": PARK + TIMED}),
    "bounds of zero": (lambda run: run.bound({}), {"bounds": 0, "spent": PARK + TIMED + Fraction(3, 4)}),
    "a bound below the count": (lambda run: run.bound({"shop": 1}), {"bounds": 1}),
    "a bound that equals the count": (lambda run: run.bound({"shop": 2}), {"bounds": 1}),
    "lengths": (lambda run: run.watch_lengths(), {"spent": PARK + TIMED + Fraction(3, 2)}),
    "lengths with noise": (lambda run: run.watch_lengths(2_400 - 9_000, 1_200 + 9_000), {}),
    "lengths below zero": (lambda run: run.watch_lengths(-5_000, 100), {}),
    "unknown lengths": (lambda run: run.watch_lengths(status="unknown"), {"spent": PARK + TIMED}),
}


@pytest.mark.promise(13, 14, 15, 41, 44)
@pytest.mark.parametrize("name", TRUE)
def test_true_run_passes(tiny: Tiny, name: str) -> None:
    """A true run has no finding, and each drawing costs its ε once."""
    change, expected = TRUE[name]
    change(tiny)
    report = tiny.audit()
    assert report.ok, report.violations
    assert {name: getattr(report, name) for name in expected} == expected


@pytest.mark.promise(37)
def test_report_has_all_numbers(tiny: Tiny) -> None:
    """The report of a run has the numbers of its records, ticks, answers and visits."""
    report = tiny.audit()
    assert report.ok, report.violations
    assert (report.records, report.ticks, report.first_tick, report.last_tick, report.whole_until) == (10, 7, 0, 6, 6)
    assert report.safe == 3 + (2 + 1 + 1)  # the park at ticks 0, 5 and 6; two places at tick 2, then one
    assert (report.noisy, report.early, report.noise) == (2, 0, 0)
    assert report.answers == {
        ("walk", "safe"): 3,
        ("walk", "noisy_count"): 1,
        ("walk", "paused"): 3,
        ("night", "complete"): 3,
    }
    assert report.spent == PARK + TIMED  # of somebody who was at the park in slot 1, and at the shop at 02:30
    assert report.may_pay == 2
    assert report.fates == {"applied": 4, "too_late": 0, "not_watched": 0, "expired": 0, "dead_letter": 0}


def test_hot_spots_alone_decide_fates(tiny: Tiny) -> None:
    """A visit that only hot spots ask about is applied until their horizon is over.

    02:30 ────────────── 05:30      reported in slot 4: tick 4 asks, as of 05:00; in slot 5: none does
    """
    tiny.only_walk().watch_busiest({"shop": 3})
    tiny.visit("p5", "shop", "02:20", "02:40", "04:59:59").visit("p6", "shop", "02:20", "02:40", "05:00")
    tiny.visit("p7", "shop", "01:20", "01:40")
    report = tiny.audit()
    assert report.ok, report.violations
    assert report.fates == {"applied": 5, "too_late": 0, "not_watched": 1, "expired": 1, "dead_letter": 0}
    assert report.whole_until == 5 + 3

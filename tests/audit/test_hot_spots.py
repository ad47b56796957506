"""Hot spots are judged: once, at the last tick, certain bounds, in order, and paid by everyone who was there.

At 02:30 p3 and p4 are at the shop, and nobody is at the park; the run is drawn in conftest.py.
"""

from __future__ import annotations

import copy
from fractions import Fraction
from typing import Any

import pytest

Tiny = Any  # the fixture of conftest.py

BUSIEST = "busiest/2026-01-01T02:30:00Z"
AT = "2026-01-01T02:20:00Z,2026-01-01T02:40:00Z"


def found(tiny: Tiny, oracle: str, *, every_tick: bool = True) -> list[str]:
    """The violations of one oracle, of which all there are must be."""
    report = tiny.audit(every_tick=every_tick)
    assert set(report.totals) == {oracle}, report.violations
    violations: list[str] = report.violations[oracle]
    return violations


def without_night(tiny: Tiny) -> None:
    """Watch nothing but the park over time."""
    tiny.config = tiny.config.partition("  - name: night")[0]
    tiny.records = [one for one in tiny.records if one["value"]["monitor"] == "walk"]


def test_hot_spots_without_fault_are_found_to_be_so(tiny: Tiny) -> None:
    tiny.ask_for_the_busiest({"shop": 3})
    report = tiny.audit(fates={"applied": 4, "not_watched": 0, "expired": 0, "dead_letter": 0})
    assert report.ok, report.violations
    assert report.answers["busiest", "complete"] == 1
    assert report.noisy == 2 + 1


@pytest.mark.parametrize("named", [{"shop": 2, "park": 0}, {"shop": 3, "park": 2}, {"park": 2, "shop": 2}])
def test_all_are_named_where_top_is_more_than_there_are(tiny: Tiny, named: dict[str, int]) -> None:
    tiny.ask_for_the_busiest(named, top=9)
    assert tiny.audit().ok


def test_who_is_watched_by_hot_spots_alone_is_applied_until_their_horizon_is_over(tiny: Tiny) -> None:
    #       τ                    τ + 3 h
    #       02:30 ────────────── 05:30      reported in slot 4: tick 4 asks, as of 05:00; in slot 5: none does
    without_night(tiny)
    tiny.ask_for_the_busiest({"shop": 3})
    tiny.lines += [f"p5,shop,{AT},2026-01-01T04:59:59Z", f"p6,shop,{AT},2026-01-01T05:00:00Z"]
    tiny.lines += ["p7,shop,2026-01-01T01:20:00Z,2026-01-01T01:40:00Z,"]
    report = tiny.audit()
    assert report.ok, report.violations
    assert report.fates == {"applied": 5, "not_watched": 1, "expired": 1, "dead_letter": 0}
    assert report.whole_until == 5 + 3


def test_a_noisy_count_below_the_count_is_found(tiny: Tiny) -> None:
    tiny.ask_for_the_busiest({"shop": 1})
    assert found(tiny, "noisy_count") == [f"{BUSIEST}, tick 4: shop: there were more people than the noisy count"]


def test_who_is_reported_after_the_last_tick_is_not_counted(tiny: Tiny) -> None:
    tiny.ask_for_the_busiest({"shop": 2})
    tiny.lines.append(f"p5,shop,{AT},2026-01-01T05:00:00Z")
    assert tiny.audit().ok


@pytest.mark.parametrize(("count", "true"), [(2, False), (3, True)])
def test_a_place_that_had_to_be_named_is_found(tiny: Tiny, count: int, true: bool) -> None:
    # two people at each place; the park is first in the registry, so it wins where noisy counts are equal
    without_night(tiny)
    tiny.ask_for_the_busiest({"shop": count})
    tiny.lines += [f"q{n},park,{AT}," for n in range(2)]
    if true:
        assert tiny.audit().ok
    else:
        text = "park is not named, and there were more people than the last noisy count allows"
        assert found(tiny, "noisy_count") == [f"{BUSIEST}, tick 4: {text}"]


@pytest.mark.parametrize(
    ("named", "top", "text"),
    [
        ({}, 1, "0 locations are named, expected 1"),
        ({"shop": 3}, 2, "1 locations are named, expected 2"),
        ({"shop": 3, "park": 0}, 1, "2 locations are named, expected 1"),
        ({"park": 2, "shop": 3}, 2, "shop comes after park, expected before it"),
        ({"shop": 3, "park": 3}, 2, "park comes after shop, expected before it"),
        ({"shop": 3, "beach": 2}, 2, "beach is not in the registry"),
    ],
)
def test_what_is_not_the_highest_in_order_is_found(tiny: Tiny, named: dict[str, int], top: int, text: str) -> None:
    tiny.ask_for_the_busiest(named, top=top)
    assert found(tiny, "form") == [f"{BUSIEST}, tick 4: {text}"]


def test_a_place_that_is_named_twice_is_found(tiny: Tiny) -> None:
    tiny.ask_for_the_busiest({"shop": 3}, top=2)
    tiny[f"{BUSIEST}/4"]["hot_spots"] *= 2
    assert found(tiny, "form") == [f"{BUSIEST}, tick 4: shop is named 2 times"]


def test_unknown_names_nothing_and_costs_nothing(tiny: Tiny) -> None:
    tiny.ask_for_the_busiest({}, status="unknown")
    report = tiny.audit()
    assert report.ok, report.violations
    assert report.paid == 1
    assert report.answers["busiest", "unknown"] == 1


def test_unknown_that_names_a_place_is_found(tiny: Tiny) -> None:
    tiny.ask_for_the_busiest({"shop": 3}, status="unknown")
    assert found(tiny, "form") == [f"{BUSIEST}, tick 4: unknown, and locations are named"]


def test_no_record_about_a_time_is_found_unless_it_may_be_missing(tiny: Tiny) -> None:
    tiny.ask_for_the_busiest()
    assert found(tiny, "ticks") == [f"{BUSIEST}: tick 4 is missing"]
    assert tiny.audit(every_tick=False).ok


@pytest.mark.parametrize("tick", [3, 5])
def test_a_drawing_at_any_but_the_last_tick_is_found(tiny: Tiny, tick: int) -> None:
    # 02:30 + 3 h = 05:30: the last as_of before is 05:00, of tick 4
    tiny.ask_for_the_busiest({"shop": 3}, tick=tick)
    text = f"{BUSIEST}, tick {tick}: the time is not designated, or this is not the last tick about it"
    assert found(tiny, "ticks", every_tick=False) == [text]


def test_a_time_that_is_not_designated_is_found(tiny: Tiny) -> None:
    tiny.ask_for_the_busiest({"shop": 3})
    tiny[f"{BUSIEST}/4"]["time"] = "2026-01-01T02:31:00Z"
    (text,) = found(tiny, "ticks", every_tick=False)
    assert text.startswith("busiest/2026-01-01T02:31:00Z, tick 4: the time is not designated")


def test_a_second_drawing_is_found_under_another_ce_id_too(tiny: Tiny) -> None:
    tiny.ask_for_the_busiest({"shop": 3})
    again = copy.deepcopy(tiny.records[-1])
    again["headers"]["ce_id"] += "/again"
    tiny.records.append(again)
    report = tiny.audit()
    assert report.violations["ticks"] == [f"{BUSIEST}, tick 4: the time is answered a second time"]
    assert report.totals == {"ticks": 1, "form": 1}  # the other ce_id is found as well


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("final", False),
        ("registry", "0" * 64),
        ("locations", 1),
        ("top", 2),
        ("epsilon", "1/6"),
        ("status", "quiet"),
        ("as_of", "2026-01-01T05:00:01Z"),
    ],
)
def test_public_facts_are_checked(tiny: Tiny, name: str, value: object) -> None:
    tiny.ask_for_the_busiest({"shop": 3})
    tiny[f"{BUSIEST}/4"][name] = value
    (text,) = found(tiny, "form")
    assert name in text or repr(value) in text


def test_everyone_who_was_there_pays_whether_or_not_their_place_is_named(tiny: Tiny) -> None:
    # p5 is at the park at 02:30, while it is silent; the shop is named, for which nobody was there
    tiny.ask_for_the_busiest({"shop": 3})
    tiny.config = tiny.config.replace('epsilon: "1/3"', 'epsilon: "5"')
    tiny.lines = [*tiny.lines[:3], f"p5,park,{AT},"]
    assert tiny.audit().paid == 5


def test_who_is_reported_at_two_places_at_once_pays_at_both(tiny: Tiny) -> None:
    tiny.ask_for_the_busiest({"shop": 3})
    tiny.config = tiny.config.replace('epsilon: "1/3"', 'epsilon: "5"')
    tiny.lines.append(f"p3,park,{AT},")
    assert tiny.audit().paid == 5 + 5 + Fraction(1, 2)  # p3, for the shop at `night` too


@pytest.mark.parametrize("every_tick", [True, False])
@pytest.mark.parametrize(("reported", "paid"), [("04:59:59.999999", 5), ("05:00:00", 1)])
def test_a_drawing_charges_exactly_who_was_reported_before_its_as_of(
    tiny: Tiny, reported: str, paid: int, every_tick: bool
) -> None:
    """The last tick about 02:30 closes at 05:00; by the clock the same as where every tick is there."""
    tiny.ask_for_the_busiest({"shop": 3})
    tiny.config = tiny.config.replace('epsilon: "1/3"', 'epsilon: "5"')
    tiny.lines = [*tiny.lines[:3], f"p5,shop,{AT},2026-01-01T{reported}Z"]
    assert tiny.audit(every_tick=every_tick).paid == paid

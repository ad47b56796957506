"""The checks of hot spots: one drawing at the last tick, upper bounds, order, and payments.

At 02:30 p3 and p4 are at the shop, and nobody is at the park. conftest.py draws the run.
"""

from __future__ import annotations

import copy
from fractions import Fraction

import pytest

from tests.tools.audit.conftest import Tiny, find

BUSIEST = "busiest/2026-01-01T02:30:00Z"
AT = "2026-01-01T02:20:00Z,2026-01-01T02:40:00Z"


def remove_night(tiny: Tiny) -> None:
    """Remove all monitors but `walk`."""
    tiny.config = tiny.config.partition("  - name: night")[0]
    tiny.records = [record for record in tiny.records if record["value"]["monitor"] == "walk"]


def test_faultless_hot_spots_pass(tiny: Tiny) -> None:
    """A correct drawing passes every check."""
    tiny.watch_busiest({"shop": 3})
    report = tiny.audit(fates={"applied": 4, "not_watched": 0, "expired": 0, "dead_letter": 0})
    assert report.ok, report.violations
    assert report.answers["busiest", "complete"] == 1
    assert report.noisy == 2 + 1


@pytest.mark.parametrize("named", [{"shop": 2, "park": 0}, {"shop": 3, "park": 2}, {"park": 2, "shop": 2}])
def test_top_may_exceed_locations(tiny: Tiny, named: dict[str, int]) -> None:
    """If `top` exceeds the number of locations, all locations are named."""
    tiny.watch_busiest(named, top=9)
    assert tiny.audit().ok


def test_hot_spots_alone_decide_fates(tiny: Tiny) -> None:
    """A visit that only hot spots ask about is applied until their horizon is over."""
    #       τ                    τ + 3 h
    #       02:30 ────────────── 05:30      reported in slot 4: tick 4 asks, as of 05:00; in slot 5: none does
    remove_night(tiny)
    tiny.watch_busiest({"shop": 3})
    tiny.lines += [f"p5,shop,{AT},2026-01-01T04:59:59Z", f"p6,shop,{AT},2026-01-01T05:00:00Z"]
    tiny.lines += ["p7,shop,2026-01-01T01:20:00Z,2026-01-01T01:40:00Z,"]
    report = tiny.audit()
    assert report.ok, report.violations
    assert report.fates == {"applied": 5, "too_late": 0, "not_watched": 1, "expired": 1, "dead_letter": 0}
    assert report.whole_until == 5 + 3


@pytest.mark.promise(3)
def test_noisy_count_below_count_is_found(tiny: Tiny) -> None:
    """A noisy count is an upper bound of the count."""
    tiny.watch_busiest({"shop": 1})
    assert find(tiny, "noisy_count") == [f"{BUSIEST}, tick 4: shop: there were more people than the noisy count"]


def test_late_report_is_not_counted(tiny: Tiny) -> None:
    """A visit that is reported after the last tick is in no count."""
    tiny.watch_busiest({"shop": 2})
    tiny.lines.append(f"p5,shop,{AT},2026-01-01T05:00:00Z")
    assert tiny.audit().ok


@pytest.mark.parametrize(("count", "true"), [(2, False), (3, True)])
def test_unnamed_location_is_found(tiny: Tiny, count: int, true: bool) -> None:
    """A location whose count is above the last noisy count must be named."""
    # two people at each place; the park is first in the registry, so it wins where noisy counts are equal
    remove_night(tiny)
    tiny.watch_busiest({"shop": count})
    tiny.lines += [f"q{n},park,{AT}," for n in range(2)]
    if true:
        assert tiny.audit().ok
    else:
        text = "park is not named, and there were more people than the last noisy count allows"
        assert find(tiny, "noisy_count") == [f"{BUSIEST}, tick 4: {text}"]


@pytest.mark.parametrize(
    ("named", "top", "text"),
    [
        ({}, 1, "0 locations are named, expected 1"),
        ({"shop": 3}, 2, "1 locations are named, expected 2"),
        ({"shop": 3, "park": 0}, 1, "2 locations are named, expected 1"),
        ({"park": 2, "shop": 3}, 2, "shop comes after park, expected before it"),
        ({"shop": 3, "park": 3}, 2, "park comes after shop, expected before it"),
        ({"shop": 3, "beach": 2}, 2, "a location is not in the registry"),
    ],
)
def test_wrong_names_are_found(tiny: Tiny, named: dict[str, int], top: int, text: str) -> None:
    """The number, the order and the locations that are named are checked."""
    tiny.watch_busiest(named, top=top)
    assert find(tiny, "form") == [f"{BUSIEST}, tick 4: {text}"]


def test_repeated_location_is_found(tiny: Tiny) -> None:
    """A location is named once."""
    tiny.watch_busiest({"shop": 3}, top=2)
    tiny[f"{BUSIEST}/4"]["hot_spots"] *= 2
    assert find(tiny, "form") == [f"{BUSIEST}, tick 4: shop is named 2 times"]


@pytest.mark.promise(14)
def test_unknown_costs_nothing(tiny: Tiny) -> None:
    """An unknown answer without names passes, and costs nothing."""
    tiny.watch_busiest({}, status="unknown")
    report = tiny.audit()
    assert report.ok, report.violations
    assert report.spent == Fraction(3, 2)
    assert report.answers["busiest", "unknown"] == 1


def test_unknown_with_names_is_found(tiny: Tiny) -> None:
    """An unknown answer must not name a location."""
    tiny.watch_busiest({"shop": 3}, status="unknown")
    assert find(tiny, "form") == [f"{BUSIEST}, tick 4: the status is unknown, but locations are named"]


@pytest.mark.parametrize("tick", [3, 5])
def test_drawing_at_another_tick_is_found(tiny: Tiny, tick: int) -> None:
    """Hot spots are drawn only at the last tick that asks about the time."""
    # 02:30 + 3 h = 05:30: the last as_of before is 05:00, of tick 4
    tiny.watch_busiest({"shop": 3}, tick=tick)
    text = f"{BUSIEST}, tick {tick}: the time is not designated, or this is not the last tick about it"
    assert find(tiny, "ticks", every_tick=False) == [text]


def test_undesignated_time_is_found(tiny: Tiny) -> None:
    """A drawing about a time that is not designated is a violation."""
    tiny.watch_busiest({"shop": 3})
    line = tiny.find(f"{BUSIEST}/4")
    line["value"]["time"] = "2026-01-01T02:31:00Z"
    line["key"] = "busiest/2026-01-01T02:31:00Z"
    line["headers"]["ce_id"] = f"{line['key']}/4"
    (text,) = find(tiny, "ticks", every_tick=False)
    assert text.startswith("busiest/2026-01-01T02:31:00Z, tick 4: the time is not designated")


@pytest.mark.promise(13)
def test_second_drawing_is_found(tiny: Tiny) -> None:
    """A second drawing is found, as an answer with other bytes."""
    tiny.watch_busiest({"shop": 3})
    again = copy.deepcopy(tiny.find(f"{BUSIEST}/4"))
    again["value"]["hot_spots"][0]["noisy_count"] = 4
    tiny.records.append(again)
    assert len(find(tiny, "bytes")) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("final", False),
        ("top", 2),
        ("status", "quiet"),
    ],
)
def test_public_facts_are_checked(tiny: Tiny, name: str, value: object) -> None:
    """Each field that follows from the configuration and the tick is checked."""
    tiny.watch_busiest({"shop": 3})
    tiny[f"{BUSIEST}/4"][name] = value
    (text,) = find(tiny, "form")
    assert name in text or repr(value) in text


@pytest.mark.promise(13)
def test_drawing_costs_its_epsilon_once(tiny: Tiny) -> None:
    """A drawing costs a person its ε once, for any number of named locations, besides the noisy count of the time."""
    tiny.state_enough()
    tiny.watch_busiest({"shop": 3, "park": 2}, top=2)
    tiny.config = tiny.config.replace('epsilon: "1/3"', 'epsilon: "5"')
    tiny[f"{BUSIEST}/4"]["epsilon"] = "5"
    assert tiny.audit().spent == 1 + Fraction(1, 2) + 5

"""Each oracle passes a run without fault, and finds each way of breaking it; the run is drawn in conftest.py."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

Tiny = Any  # the fixture of conftest.py

MARK = {"tick": 1, "noisy_count": 3, "epsilon": "1", "until": 4}
NIGHT = "night/2026-01-01T02:30:00Z/0"


def found(tiny: Tiny, oracle: str, *, every_tick: bool = True) -> list[str]:
    """The violations of one oracle, of which all there are must be."""
    report = tiny.audit(every_tick=every_tick)
    assert set(report.totals) == {oracle}, report.violations
    violations: list[str] = report.violations[oracle]
    assert report.totals[oracle] == len(violations)
    return violations


def test_a_run_without_fault_is_found_to_be_one(tiny: Tiny) -> None:
    report = tiny.audit(fates={"applied": 4, "not_watched": 0, "expired": 0, "dead_letter": 0})
    assert report.ok, report.violations
    assert (report.records, report.ticks, report.first_tick, report.last_tick, report.whole_until) == (10, 7, 0, 6, 6)
    assert report.safe == 3 + (2 + 1 + 1)  # the park at ticks 0, 5 and 6; two places at tick 2, then one
    assert report.noisy == 2
    assert report.answers == {
        ("walk", "safe"): 3,
        ("walk", "noisy_count"): 1,
        ("walk", "paused"): 3,
        ("night", "complete"): 3,
    }
    assert report.paid == 1
    assert report.may_pay == 2


def test_a_record_may_come_twice(tiny: Tiny) -> None:
    tiny.records.append({**tiny.records[0], "offset": 99})
    assert tiny.audit().ok


def test_other_bytes_of_one_ce_id_are_found_even_in_a_header(tiny: Tiny) -> None:
    again = copy.deepcopy(tiny.records[0])
    again["headers"]["extra"] = "1"
    tiny.records.append(again)
    assert found(tiny, "bytes") == ["line 11: walk/park/0 was published before with other bytes"]


def test_a_safe_that_is_false_by_one_is_found(tiny: Tiny) -> None:
    # people at the park: 1 2 2 1; with a third at tick 0 they are T at once
    tiny.lines.append("p5,park,2026-01-01T00:10:00Z,2026-01-01T00:50:00Z,")
    assert found(tiny, "safe") == ['walk/park, tick 0: "safe" is false, there were 2 people or more']


def test_a_person_counts_once_however_often_reported(tiny: Tiny) -> None:
    tiny.lines += [tiny.lines[1], "p1,park,2026-01-01T00:20:00Z,,"]
    assert tiny.audit().ok


def test_a_false_safe_of_a_snapshot_is_found(tiny: Tiny) -> None:
    tiny[f"{NIGHT}/3"]["noisy_counts"] = {}
    tiny[f"{NIGHT}/4"]["noisy_counts"] = {}
    assert found(tiny, "safe") == [
        f'{NIGHT}, tick {tick}: "safe" is false for shop, there were 2 people or more' for tick in (3, 4)
    ]


def test_an_unknown_snapshot_calls_nothing_safe(tiny: Tiny) -> None:
    for tick in (3, 4):
        tiny[f"{NIGHT}/{tick}"].update(status="unknown", noisy_counts={})
    report = tiny.audit()
    assert report.ok
    assert report.safe == 3 + 2


@pytest.mark.parametrize(("people", "true"), [(3, True), (4, False)])
def test_a_noisy_count_may_equal_the_count_and_not_be_below(tiny: Tiny, people: int, true: bool) -> None:
    # reported in slot 1, two of them at the park before; z = 3
    tiny.lines += [
        f"q{n},park,2026-01-01T00:10:00Z,2026-01-01T00:50:00Z,2026-01-01T01:30:00Z" for n in range(people - 2)
    ]
    if true:
        assert tiny.audit().ok
    else:
        assert found(tiny, "noisy_count") == ["walk/park, tick 1: there were more people than the noisy count"]


def test_a_noisy_count_of_a_snapshot_below_the_count_is_found(tiny: Tiny) -> None:
    tiny.lines.append("p5,shop,2026-01-01T02:20:00Z,2026-01-01T02:40:00Z,2026-01-01T03:59:59Z")
    assert found(tiny, "noisy_count") == [f"{NIGHT}, tick 3, shop: there were more people than the noisy count"]


def test_leaving_at_the_designated_time_is_not_being_there(tiny: Tiny) -> None:
    tiny.lines.append("p5,shop,2026-01-01T02:20:00Z,2026-01-01T02:30:00Z,2026-01-01T02:59:59Z")
    assert tiny.audit().ok


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"p_value": math.exp(-2) * (1 + 1e-8)}, "p_value is not e^(-ε(z - T + 1))"),
        ({"count_at_most": 4}, "count_at_most is not the noisy count"),
    ],
)
def test_what_goes_with_a_noisy_count_is_checked(tiny: Tiny, change: dict[str, object], text: str) -> None:
    tiny["walk/park/1"].update(change)
    assert found(tiny, "noisy_count") == [f"walk/park, tick 1: {text}"]


def test_a_noisy_count_below_the_threshold_is_found(tiny: Tiny) -> None:
    for tick in (3, 4):
        tiny[f"{NIGHT}/{tick}"]["noisy_counts"] = {
            "park": {"tick": 3, "noisy_count": 1},
            "shop": {"tick": 3, "noisy_count": 2},
        }
    assert found(tiny, "noisy_count") == [f"{NIGHT}, tick 3, park: the noisy count is below the threshold"]


def test_a_pause_one_tick_short_is_found(tiny: Tiny) -> None:
    # said until 3 where W + F - 1 = 3 ticks must follow tick 1, and answered at tick 4
    for tick in (1, 2, 3):
        tiny[f"walk/park/{tick}"]["answers"] = [{**MARK, "until": 3}]
        if tick > 1:
            tiny[f"walk/park/{tick}"]["resumes_at"] = "2026-01-01T05:00:00Z"
    tiny.walk(4, "safe", [])
    texts = found(tiny, "budget")
    assert "walk/park, tick 4: not paused, and the next answer is not affordable: 1 of 1 is spent" in texts
    assert "walk/park, tick 3: resumes_at is not the as_of of tick 5, the next that can answer" in texts
    assert "walk/park, tick 1: answers are not the noisy answers that run, each until tick + W + F - 1" in texts


def test_a_pause_one_tick_long_is_found(tiny: Tiny) -> None:
    tiny.walk(5, "paused", [], resumes_at="2026-01-01T07:00:00Z")
    assert found(tiny, "budget") == ["walk/park, tick 5: paused, and the next answer is affordable"]


def test_unknown_does_not_beat_paused(tiny: Tiny) -> None:
    tiny.walk(3, "unknown", [MARK])
    assert found(tiny, "budget") == [
        "walk/park, tick 3: not paused, and the next answer is not affordable: 1 of 1 is spent"
    ]


def test_a_second_answer_in_the_pause_is_found_as_more_than_the_location_has(tiny: Tiny) -> None:
    second = {"tick": 4, "noisy_count": 2, "epsilon": "1", "until": 7}
    tiny.walk(4, "noisy_count", [MARK, second], noisy_count=2, count_at_most=2, p_value=math.exp(-1))
    for tick in (5, 6):
        tiny.walk(tick, "paused", [second], resumes_at="2026-01-01T09:00:00Z")
    assert found(tiny, "budget") == [
        "walk/park, tick 4: not paused, and the next answer is not affordable: 1 of 1 is spent",
        "walk/park, tick 4: the ε of the answers that run is 2, more than the location's 1",
    ]


def test_two_answers_a_window_cost_half_each_and_the_pause_ends_with_the_first(tiny: Tiny) -> None:
    # tick  1   2   3   4   5      each answer runs for W + F = 4 ticks
    #       3   2   ∥   ∥   safe
    first = {"tick": 1, "noisy_count": 3, "epsilon": "1/2", "until": 4}
    second = {"tick": 2, "noisy_count": 2, "epsilon": "1/2", "until": 5}
    tiny.config = tiny.config.replace("window: 3h}", "window: 3h, answers_per_window: 2}")
    tiny.walk(1, "noisy_count", [first], noisy_count=3, count_at_most=3, p_value=math.exp(-1))
    tiny.walk(2, "noisy_count", [first, second], noisy_count=2, count_at_most=2, p_value=math.exp(-0.5))
    for tick in (3, 4):
        tiny.walk(tick, "paused", [first, second], resumes_at="2026-01-01T06:00:00Z")
    tiny.walk(5, "safe", [second])
    for tick in range(7):
        tiny[f"walk/park/{tick}"]["epsilon"] = "1/2"
    report = tiny.audit()
    assert report.ok, report.violations
    assert report.paid == 1


def test_weights_share_the_budget(tiny: Tiny) -> None:
    tiny.config = tiny.config.replace("[park], epsilon", "{park: 2, shop: 1}, epsilon").replace(
        '"1", thr', '"3/2", thr'
    )
    texts = found(tiny, "ticks")  # the park's share is still 1, and the shop never answered
    assert texts == ["walk/shop: ticks 0 to 6 are missing"]


def _changed(tiny: Tiny) -> str:
    tiny[f"{NIGHT}/4"]["noisy_counts"] = {"shop": {"tick": 3, "noisy_count": 3}}
    return "tick 4: the noisy count of shop has changed"


def _gone(tiny: Tiny) -> str:
    tiny[f"{NIGHT}/4"].update(status="unknown", noisy_counts={})
    return "tick 4: the noisy count of shop is gone"


def _backdated(tiny: Tiny) -> str:
    tiny[f"{NIGHT}/3"].update(status="unknown", noisy_counts={})
    return "tick 4, shop: the noisy count of tick 3 was not published at that tick"


def _unknown(tiny: Tiny) -> str:
    tiny[f"{NIGHT}/3"]["status"] = "unknown"
    return "tick 3, shop: the noisy count of tick 3 was not published at that tick"


@pytest.mark.parametrize("broken", [_changed, _gone, _backdated, _unknown])
def test_a_noisy_count_of_a_designated_time_is_drawn_once_and_stays(tiny: Tiny, broken: Callable[[Tiny], str]) -> None:
    text = broken(tiny)
    assert found(tiny, "budget") == [f"{NIGHT}, {text}"]


@pytest.mark.parametrize("tick", [3, 4])
def test_a_wrong_final_is_found(tiny: Tiny, tick: int) -> None:
    tiny[f"{NIGHT}/{tick}"]["final"] = tick == 3
    assert found(tiny, "form") == [f"{found_line(tiny, tick)}: final is {tick == 3}, expected {tick == 4}"]


def found_line(tiny: Tiny, tick: int) -> str:
    """How a record of `night` is called."""
    lines = [one["headers"]["ce_id"] for one in tiny.records]
    return f"{NIGHT}/{tick} (line {lines.index(f'{NIGHT}/{tick}') + 1})"


def test_a_snapshot_beyond_the_horizon_is_found(tiny: Tiny) -> None:
    # 02:30 + 3 h = 05:30 lies before the as_of of tick 5
    late = copy.deepcopy(next(one for one in tiny.records if one["headers"]["ce_id"] == f"{NIGHT}/4"))
    late["headers"].update(ce_id=f"{NIGHT}/5", ce_time="2026-01-01T06:00:00Z")
    late["value"].update(tick=5, as_of="2026-01-01T06:00:00Z", final=False)
    tiny.records.append(late)
    assert found(tiny, "ticks") == [f"{NIGHT}, tick 5: the time is not designated, or not asked about at this tick"]


@pytest.mark.parametrize(
    ("lost", "text"),
    [
        (["walk/park/3"], "walk/park: tick 3 is missing"),
        (["walk/park/3", "walk/park/4"], "walk/park: ticks 3 to 4 are missing"),
        (["walk/park/0"], "walk/park: tick 0 is missing"),
        ([f"{NIGHT}/2"], f"{NIGHT}: tick 2 is missing"),
        ([f"{NIGHT}/4"], f"{NIGHT}: tick 4 is missing"),
        ([f"{NIGHT}/{tick}" for tick in (2, 3, 4)], f"{NIGHT}: ticks 2 to 4 are missing"),
    ],
)
def test_missing_ticks_are_found_unless_they_may_be_missing(tiny: Tiny, lost: list[str], text: str) -> None:
    tiny.remove(*lost)
    assert found(tiny, "ticks") == [text]
    assert tiny.audit(every_tick=False).ok


def test_an_output_without_a_tick_is_found(tiny: Tiny) -> None:
    tiny.records.clear()
    assert found(tiny, "ticks") == ["the output topic answers no tick"]


def test_a_second_answer_of_a_tick_is_found_under_another_ce_id_too(tiny: Tiny) -> None:
    again = copy.deepcopy(tiny.records[0])
    again["headers"]["ce_id"] = "walk/park/0/again"
    tiny.records.insert(1, again)
    report = tiny.audit()
    assert report.violations["ticks"] == ["walk/park: tick 0 is answered a second time"]
    assert report.totals == {"ticks": 1, "form": 1}


@pytest.mark.parametrize(
    ("ce_id", "name", "value"),
    [
        ("walk/park/3", "as_of", "2026-01-01T04:00:01Z"),
        ("walk/park/3", "as_of", "2026-01-01T04:00:00+00:00"),
        ("walk/park/3", "window_start", "2026-01-01T00:00:00Z"),
        ("walk/park/3", "threshold", 3),
        ("walk/park/3", "epsilon", "2/2"),
        ("walk/park/3", "status", "quiet"),
        (f"{NIGHT}/3", "locations", 1),
        (f"{NIGHT}/3", "registry", "0" * 64),
        (f"{NIGHT}/3", "shards", 2),
        (f"{NIGHT}/3", "epsilon", "1"),
    ],
)
def test_public_facts_are_checked(tiny: Tiny, ce_id: str, name: str, value: object) -> None:
    tiny[ce_id][name] = value
    report = tiny.audit()
    assert report.totals["form"] == 1
    assert name in report.violations["form"][0] or repr(value) in report.violations["form"][0]


@pytest.mark.parametrize("header", ["ce_id", "ce_time", "ce_source", "ce_specversion", "content-type"])
def test_headers_are_checked(tiny: Tiny, header: str) -> None:
    tiny.records[0]["headers"][header] = "other"
    assert [text.split(": ")[1].split(" is")[0] for text in found(tiny, "form")] == [header]


def test_what_lacks_a_field_is_told_as_such(tiny: Tiny) -> None:
    del tiny["walk/park/3"]["resumes_at"]
    assert found(tiny, "form") == ["walk/park/3 (line 5): not in the form of the interface: KeyError('resumes_at')"]


def test_monitors_and_places_that_nobody_asked_for_are_found(tiny: Tiny) -> None:
    stray = copy.deepcopy(tiny.records[0])
    stray["headers"]["ce_id"] = "walk/shop/0"
    stray["value"]["location_id"] = "shop"
    other = copy.deepcopy(tiny.records[0])
    other["headers"]["ce_id"] = "run/park/0"
    other["value"]["monitor"] = "run"
    tiny.records += [stray, other]
    assert found(tiny, "form") == [
        "walk/shop, tick 0: the monitor does not watch this location",
        "run/park/0 (line 12): the configuration has no such monitor",
    ]


def test_records_for_the_service_itself_are_passed_over(tiny: Tiny) -> None:
    headers = {"ce_type": "org.location-monitor.owner", "ce_id": "owner/0/now"}
    tiny.records.insert(0, {"key": "owner", "headers": headers, "value": {"counting": 2}, "partition": 0, "offset": 0})
    assert tiny.audit().ok


def test_more_than_stated_is_found_to_be_paid(tiny: Tiny) -> None:
    tiny.config = tiny.config.replace('epsilon: "2", period', 'epsilon: "1/2", period')
    assert found(tiny, "paid") == ["one person paid ε = 1 within a period, more than the stated 1/2"]


def test_a_person_pays_for_each_answer_that_their_visits_are_in(tiny: Tiny) -> None:
    tiny.lines.append("p3,park,2026-01-01T01:10:00Z,2026-01-01T01:50:00Z,")  # charged at the park, then at the shop
    assert tiny.audit().paid == Fraction(3, 2)


@pytest.mark.parametrize(("period", "paid"), [("31m", Fraction(3, 2)), ("30m", Fraction(1))])
def test_answers_that_no_period_holds_both_are_not_added(tiny: Tiny, period: str, paid: Fraction) -> None:
    # slot 1 ends at 02:00, the designated time is 02:30: a period of 31 minutes touches both
    tiny.lines.append("p3,park,2026-01-01T01:10:00Z,2026-01-01T01:50:00Z,")
    tiny.config = tiny.config.replace("period: 12h", f"period: {period}")
    assert tiny.audit().paid == paid


def test_fates_that_the_service_counted_otherwise_are_found(tiny: Tiny) -> None:
    report = tiny.audit(fates={"applied": 5, "not_watched": 0, "expired": 0, "dead_letter": 0})
    assert report.violations["fates"] == ["applied: the service counted 5 visits, the recount 4"]


def test_the_first_twenty_are_listed_and_all_are_counted(tiny: Tiny) -> None:
    for one in tiny.records:
        one["headers"].update({"ce_source": "big", "ce_specversion": "2.0", "content-type": "text/plain"})
    report = tiny.audit()
    assert len(report.violations["form"]) == 20
    assert report.totals["form"] == 3 * 10


@pytest.mark.parametrize("every_tick", [True, False])
@pytest.mark.parametrize(
    ("reported", "counted"), [("01:59:59.999999", True), ("02:00:00", False), ("02:00:00.500000", False)]
)
def test_a_count_holds_and_charges_exactly_who_was_reported_before_its_as_of(
    tiny: Tiny, reported: str, counted: bool, every_tick: bool
) -> None:
    """Tick 1 closes at 02:00, and the park has two people then: a third, and an answer of 2; by the clock the same."""
    mark = {**MARK, "noisy_count": 2}
    tiny.walk(1, "noisy_count", [mark], noisy_count=2, count_at_most=2, p_value=math.exp(-1))
    for tick in (2, 3, 4):
        tiny[f"walk/park/{tick}"]["answers"] = [mark]
    tiny.lines.append(f"p3,park,2026-01-01T01:10:00Z,2026-01-01T01:50:00Z,2026-01-01T{reported}Z")
    report = tiny.audit(every_tick=every_tick)
    assert report.paid == (Fraction(3, 2) if counted else 1)
    assert report.ok is not counted
    assert (
        report.violations["noisy_count"] == ["walk/park, tick 1: there were more people than the noisy count"] * counted
    )


@pytest.mark.parametrize("every_tick", [True, False])
@pytest.mark.parametrize(("reported", "true"), [("00:59:59.999999", False), ("01:00:00", True)])
def test_safe_is_judged_by_exactly_who_was_reported_before_its_as_of(
    tiny: Tiny, reported: str, true: bool, every_tick: bool
) -> None:
    """Tick 0 closes at 01:00, with T = 2: a second person at the park makes its "safe" false until then."""
    tiny.lines.append(f"p5,park,2026-01-01T00:10:00Z,2026-01-01T00:50:00Z,2026-01-01T{reported}Z")
    assert tiny.audit(every_tick=every_tick).ok is true

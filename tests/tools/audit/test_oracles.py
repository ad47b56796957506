"""The oracles of counts, pauses and payments: each way of breaking them is found. conftest.py draws the run."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from tests.tools.audit.conftest import Tiny, find, owner

MARK = {"tick": 1, "noisy_count": 3, "epsilon": "1", "until": 4}
NIGHT = "night/2026-01-01T02:30:00Z/0"


@pytest.mark.promise(37)
def test_faultless_run_passes(tiny: Tiny) -> None:
    """A correct run has no violation, and the report has the right numbers."""
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
    assert report.spent == Fraction(3, 2)  # of somebody who was at the park in slot 1, and at the shop at 02:30
    assert report.may_pay == 2


def test_false_alarms_are_counted(tiny: Tiny) -> None:
    """A noisy count of fewer than T people is a false alarm, and no violation. Each is counted once."""
    # people at the park: 1 2 2 1; without the second, the noisy count of tick 1 is a false alarm
    assert tiny.audit().false_alarms == 0
    del tiny.lines[1:]
    report = tiny.audit()
    assert report.ok, report.violations
    assert report.false_alarms == report.noisy == 2


@pytest.mark.promise(1)
def test_safe_false_by_one_is_found(tiny: Tiny) -> None:
    """A "safe" is false if there are exactly T people."""
    # people at the park: 1 2 2 1; with a third at tick 0 they are T at once
    tiny.lines.append("p5,park,2026-01-01T00:10:00Z,2026-01-01T00:50:00Z,")
    assert find(tiny, "safe") == ['walk/park, tick 0: "safe" is false, there were 2 people or more']


def test_person_counts_once(tiny: Tiny) -> None:
    """A person counts once, however often reported."""
    tiny.lines += [tiny.lines[1], "p1,park,2026-01-01T00:20:00Z,,"]
    assert tiny.audit().ok


@pytest.mark.promise(2)
def test_false_safe_of_snapshot_is_found(tiny: Tiny) -> None:
    """A location that a complete snapshot does not list is "safe"."""
    tiny[f"{NIGHT}/3"]["noisy_counts"] = {}
    tiny[f"{NIGHT}/4"]["noisy_counts"] = {}
    assert find(tiny, "safe") == [
        f'{NIGHT}, tick {tick}: "safe" is false for shop, there were 2 people or more' for tick in (3, 4)
    ]


@pytest.mark.promise(2)
def test_unknown_snapshot_says_no_safe(tiny: Tiny) -> None:
    """The unlisted locations of an unknown snapshot are not "safe"."""
    for tick in (3, 4):
        tiny[f"{NIGHT}/{tick}"].update(status="unknown", noisy_counts={})
    report = tiny.audit()
    assert report.ok
    assert report.safe == 3 + 2


@pytest.mark.promise(3)
@pytest.mark.parametrize(("people", "true"), [(3, True), (4, False)])
def test_noisy_count_may_equal_count(tiny: Tiny, people: int, true: bool) -> None:
    """A noisy count may be equal to the count, but not below it."""
    # reported in slot 1, two of them at the park before; z = 3
    tiny.lines += [
        f"q{n},park,2026-01-01T00:10:00Z,2026-01-01T00:50:00Z,2026-01-01T01:30:00Z" for n in range(people - 2)
    ]
    if true:
        assert tiny.audit().ok
    else:
        assert find(tiny, "noisy_count") == ["walk/park, tick 1: there were more people than the noisy count"]


@pytest.mark.promise(3)
def test_low_count_of_snapshot_is_found(tiny: Tiny) -> None:
    """A noisy count of a snapshot below the count is a violation."""
    tiny.lines.append("p5,shop,2026-01-01T02:20:00Z,2026-01-01T02:40:00Z,2026-01-01T03:59:59Z")
    assert find(tiny, "noisy_count") == [f"{NIGHT}, tick 3, shop: there were more people than the noisy count"]


def test_leaving_at_the_time_is_absence(tiny: Tiny) -> None:
    """A visit that ends at the designated time does not cover it."""
    tiny.lines.append("p5,shop,2026-01-01T02:20:00Z,2026-01-01T02:30:00Z,2026-01-01T02:59:59Z")
    assert tiny.audit().ok


@pytest.mark.promise(4)
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"p_value": math.exp(-2) * (1 + 1e-8)}, "p_value is not e^(-ε(z - T + 1))"),
        ({"count_at_most": 4}, "count_at_most is not the noisy count"),
    ],
)
def test_p_value_and_bound_are_checked(tiny: Tiny, change: dict[str, object], text: str) -> None:
    """`p_value` and `count_at_most` must follow from the noisy count."""
    tiny["walk/park/1"].update(change)
    assert find(tiny, "noisy_count") == [f"walk/park, tick 1: {text}"]


def test_count_below_threshold_is_found(tiny: Tiny) -> None:
    """A noisy count below the threshold must be "safe" instead."""
    for tick in (3, 4):
        tiny[f"{NIGHT}/{tick}"]["noisy_counts"] = {
            "park": {"tick": 3, "noisy_count": 1},
            "shop": {"tick": 3, "noisy_count": 2},
        }
    assert find(tiny, "noisy_count") == [f"{NIGHT}, tick 3, park: the noisy count is below the threshold"]


@pytest.mark.promise(19)
def test_short_pause_is_found(tiny: Tiny) -> None:
    """A pause that ends one tick early is found in the marks, the status and resumes_at."""
    # the mark runs until 3, although W + F - 1 = 3 ticks must follow tick 1, and tick 4 is answered
    for tick in (1, 2, 3):
        tiny[f"walk/park/{tick}"]["answers"] = [{**MARK, "until": 3}]
        if tick > 1:
            tiny[f"walk/park/{tick}"]["resumes_at"] = "2026-01-01T05:00:00Z"
    tiny.walk(4, "safe", [])
    texts = find(tiny, "budget")
    assert "walk/park, tick 4: not paused, and the next answer is not affordable: 1 of 1 is spent" in texts
    assert "walk/park, tick 3: resumes_at is not the as_of of tick 5, the next that can answer" in texts
    assert "walk/park, tick 1: answers are not the noisy answers that run, each until tick + W + F - 1" in texts


@pytest.mark.promise(19)
def test_long_pause_is_found(tiny: Tiny) -> None:
    """A pause that ends one tick late is found."""
    tiny.walk(5, "paused", [], resumes_at="2026-01-01T07:00:00Z")
    assert find(tiny, "budget") == ["walk/park, tick 5: paused, and the next answer is affordable"]


def test_unknown_does_not_beat_paused(tiny: Tiny) -> None:
    """A paused location must be answered "paused", also if its count is unknown."""
    tiny.walk(3, "unknown", [MARK])
    assert find(tiny, "budget") == [
        "walk/park, tick 3: not paused, and the next answer is not affordable: 1 of 1 is spent"
    ]


def test_pause_after_lost_ledger(tiny: Tiny) -> None:
    """A ledger lost at 00:30, in slot 0, pauses its locations until tick W + F = 4, and no longer."""
    tiny.remove("walk/park/0", "walk/park/1")
    for tick in range(2, 4):
        tiny.walk(tick, "paused", [], resumes_at="2026-01-01T05:00:00Z")
    tiny.walk(4, "safe", [])
    tiny.records.insert(0, owner(lost_at="2026-01-01T00:30:00Z"))
    assert tiny.audit(every_tick=False).ok
    tiny.walk(4, "paused", [], resumes_at="2026-01-01T06:00:00Z")
    assert find(tiny, "budget", every_tick=False) == ["walk/park, tick 4: paused, and the next answer is affordable"]


@pytest.mark.promise(10)
def test_answer_in_pause_is_found(tiny: Tiny) -> None:
    """A second answer in the pause costs more than the ε of the location."""
    tiny.state_enough()
    second = {"tick": 4, "noisy_count": 2, "epsilon": "1", "until": 7}
    tiny.walk(4, "noisy_count", [MARK, second], noisy_count=2, count_at_most=2, p_value=math.exp(-1))
    for tick in (5, 6):
        tiny.walk(tick, "paused", [second], resumes_at="2026-01-01T09:00:00Z")
    assert find(tiny, "budget") == [
        "walk/park, tick 4: not paused, and the next answer is not affordable: 1 of 1 is spent",
        "walk/park, tick 4: the ε of the answers that run is 2, more than the location's 1",
    ]


def test_two_answers_per_window(tiny: Tiny) -> None:
    """Two answers per window cost half each, and the pause ends with the first."""
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
    assert report.spent == Fraction(3, 2)


def test_weights_share_the_budget(tiny: Tiny) -> None:
    """A weight of 2 to 1 gives the park two thirds of ε."""
    tiny.config = tiny.config.replace("[park], epsilon", "{park: 2, shop: 1}, epsilon").replace(
        '"1", thr', '"3/2", thr'
    )
    texts = find(tiny, "ticks")  # the park's share is still 1, and the shop never answered
    assert texts == [f"partition 0, tick {tick}: walk has 1 of 2 records" for tick in range(7)]


def _change(tiny: Tiny) -> str:
    tiny[f"{NIGHT}/4"]["noisy_counts"] = {"shop": {"tick": 3, "noisy_count": 3}}
    return "tick 4: the noisy count of shop has changed"


def _remove(tiny: Tiny) -> str:
    tiny[f"{NIGHT}/4"].update(status="unknown", noisy_counts={})
    return "tick 4: the noisy count of shop is gone"


def _backdate(tiny: Tiny) -> str:
    tiny[f"{NIGHT}/3"].update(status="unknown", noisy_counts={})
    return "tick 4, shop: the noisy count of tick 3 was not published at that tick"


def _make_unknown(tiny: Tiny) -> str:
    tiny[f"{NIGHT}/3"]["status"] = "unknown"
    return "tick 3, shop: the noisy count of tick 3 was not published at that tick"


@pytest.mark.promise(12)
@pytest.mark.parametrize("broken", [_change, _remove, _backdate, _make_unknown])
def test_snapshot_counts_are_drawn_once(tiny: Tiny, broken: Callable[[Tiny], str]) -> None:
    """A noisy count about a designated time is drawn once, at a complete tick, and stays."""
    text = broken(tiny)
    assert find(tiny, "budget") == [f"{NIGHT}, {text}"]


@pytest.mark.promise(15)
def test_overpayment_is_found(tiny: Tiny) -> None:
    """One person must not pay more than `privacy.epsilon` within a period."""
    tiny.config = tiny.config.replace('epsilon: "2", period', 'epsilon: "1/2", period')
    assert find(tiny, "paid") == [
        "the published answers may have cost one person ε = 3/2 within a period, more than the stated 1/2",
    ]


@pytest.mark.parametrize(
    ("reported", "counted"), [("01:59:59.999999", True), ("02:00:00", False), ("02:00:00.500000", False)]
)
def test_count_covers_reports_before_as_of(tiny: Tiny, reported: str, counted: bool) -> None:
    """A count contains the people reported before its as_of.

    Tick 1 closes at 02:00, when there are two people at the park. A third one comes, and the answer is 2.
    """
    mark = {**MARK, "noisy_count": 2}
    tiny.walk(1, "noisy_count", [mark], noisy_count=2, count_at_most=2, p_value=math.exp(-1))
    for tick in (2, 3, 4):
        tiny[f"walk/park/{tick}"]["answers"] = [mark]
    tiny.lines.append(f"p3,park,2026-01-01T01:10:00Z,2026-01-01T01:50:00Z,2026-01-01T{reported}Z")
    report = tiny.audit()
    assert report.ok is not counted
    assert (
        report.violations["noisy_count"] == ["walk/park, tick 1: there were more people than the noisy count"] * counted
    )


@pytest.mark.parametrize(("reported", "true"), [("00:59:59.999999", False), ("01:00:00", True)])
def test_safe_covers_reports_before_as_of(tiny: Tiny, reported: str, true: bool) -> None:
    """A "safe" is about the people reported before its as_of.

    Tick 0 closes at 01:00, with T = 2: a second person at the park makes its "safe" false until then.
    """
    tiny.lines.append(f"p5,park,2026-01-01T00:10:00Z,2026-01-01T00:50:00Z,2026-01-01T{reported}Z")
    assert tiny.audit().ok is true

"""Every planted falsehood is found by its oracle, with its place, and nothing else is. records.py draws the run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from tests.audit.conftest import Tiny, find
from tests.audit.records import BUSIEST, LENGTHS, NIGHT, as_of, owner
from tests.kinds.examples import LENGTHS as LENGTHS_KIND

Case = tuple[str, Callable[[Tiny], object], list[str]]
"""The oracle, what a test changes, and the findings."""

MARK = {"tick": 1, "noisy_count": 3, "epsilon": "1", "until": 4}
AHEAD = {"shop": {"tick": 3, "noisy_count": 3}}


def answer_two(tiny: Tiny) -> Tiny:
    """Let the noisy count of tick 1 be 2 instead of 3."""
    mark = MARK | {"noisy_count": 2}
    tiny.walk(1, "noisy_count", [mark], noisy_count=2, count_at_most=2, p_value=math.exp(-1))
    for tick in (2, 3, 4):
        tiny.set(f"walk/park/{tick}", answers=[mark])
    return tiny


def count_afresh(tiny: Tiny, noisy_count: int = 3) -> Tiny:
    """Let two answers per window cost half each, and let the ticks 2 to 4 count what was reported since tick 1."""
    first = {"tick": 1, "noisy_count": noisy_count, "epsilon": "1/2", "until": 4}
    tiny.configure("window: 3h}", "window: 3h, answers_per_window: 2}")
    p_value = math.exp(-0.5 * (noisy_count - 1))
    tiny.walk(1, "noisy_count", [first], noisy_count=noisy_count, count_at_most=noisy_count, p_value=p_value)
    for tick in (2, 3, 4):
        tiny.walk(tick, "safe", [first], counted_since=as_of(1))
    for tick in range(7):
        tiny.set(f"walk/park/{tick}", epsilon="1/2")
    return tiny


HALF = "1/4"
"""The ε of one of two noisy counts of `night`."""


def count_night_afresh(tiny: Tiny, **second: Any) -> Tiny:
    """Let `night` have two noisy counts of half the ε. Later ticks count what was reported since tick 2.

    tick                2     3     4
    shop, since         -     1     1     p4 is reported in slot 3
    noisy count         2     -     -     `second`: that of tick 4
    """
    tiny.configure("reporting_horizon: 3h", "reporting_horizon: 3h\n    answers_per_time: 2")
    for tick in (2, 3, 4):
        shop = {"tick": 2, "noisy_count": 2, "epsilon": HALF} | ({"counted_since": as_of(2)} if tick > 2 else {})
        if second and tick == 4:
            shop["later"] = [{"tick": 4, "noisy_count": 2, "epsilon": HALF} | second]
        tiny.set(f"{NIGHT}/{tick}", noisy_counts={"shop": shop}, answers_per_time=2)
    return tiny


def set_shop(run: Tiny, at: int, **fields: Any) -> Tiny:
    """Set fields of what the snapshot of a tick says about the shop; None removes a field."""
    shop = run[f"{NIGHT}/{at}"]["noisy_counts"]["shop"] | fields
    return run.set(f"{NIGHT}/{at}", noisy_counts={"shop": {name: one for name, one in shop.items() if one is not None}})


def visit_shop(tiny: Tiny, person: str, reported: str) -> Tiny:
    """Add a person at the shop at 02:30."""
    return tiny.visit(person, "shop", "02:20", "02:40", reported)


def visit_park(tiny: Tiny, number: int, reported: str = "", hour: str = "00") -> Tiny:
    """Add people at the park."""
    for person in range(number):
        tiny.visit(f"q{person}", "park", f"{hour}:20", f"{hour}:40", reported)
    return tiny


def count_below_threshold(tiny: Tiny) -> Tiny:
    """Let a snapshot have a noisy count below T = 2."""
    counts = {"park": {"tick": 3, "noisy_count": 1}, "shop": {"tick": 3, "noisy_count": 2}}
    return tiny.set(f"{NIGHT}/3", noisy_counts=counts).set(f"{NIGHT}/4", noisy_counts=counts)


def report_later(tiny: Tiny) -> Tiny:
    """Report p4 after the final tick about 02:30."""
    tiny.lines[-1] = tiny.lines[-1].replace("03:10", "05:10")
    return tiny


STATEMENTS: dict[str, Case] = {
    "as many people as T": (
        "safe",
        lambda run: run.visit("p5", "park", "00:10", "00:50"),
        ['walk/park, tick 0: "safe" is false, there were 2 people or more'],
    ),
    "reported just before as_of": (
        "safe",
        lambda run: run.visit("p5", "park", "00:10", "00:50", "00:59:59.999999"),
        ['walk/park, tick 0: "safe" is false, there were 2 people or more'],
    ),
    "a place that a snapshot does not list": (
        "safe",
        lambda run: run.set(f"{NIGHT}/3", noisy_counts={}).set(f"{NIGHT}/4", noisy_counts={}),
        [f'{NIGHT}, tick {tick}: "safe" is false for shop, there were 2 people or more' for tick in (3, 4)],
    ),
    "as many people as T reported since a noisy count, about the slot before it": (
        "safe",
        lambda run: visit_park(count_afresh(run), 2, "02:00"),
        ['walk/park, tick 2: "safe" is false, there were 2 people or more'],
    ),
    "a person whom the noisy count has counted, reported again": (
        "safe",
        lambda run: visit_park(count_afresh(run).visit("p1", "park", "01:20", "01:40", "03:59:59"), 1, "02:00", "02"),
        ['walk/park, tick 3: "safe" is false, there were 2 people or more'],
    ),
    "a noisy count below the count": (
        "noisy_count",
        lambda run: visit_park(run, 2, "01:30"),
        ["walk/park, tick 1: there were more people than the noisy count"],
    ),
    "a noisy count without the last report": (
        "noisy_count",
        lambda run: visit_park(answer_two(run), 1, "01:59:59.999999"),
        ["walk/park, tick 1: there were more people than the noisy count"],
    ),
    "a noisy count of a snapshot below the count": (
        "noisy_count",
        lambda run: run.visit("p5", "shop", "02:20", "02:40", "03:59:59"),
        [f"{NIGHT}, tick 3, shop: there were more people than the noisy count"],
    ),
    "a noisy count of a snapshot below T": (
        "noisy_count",
        count_below_threshold,
        [f"{NIGHT}, tick 3, park: the noisy count is below the threshold"],
    ),
    "a noisy count far below T": (
        "noisy_count",
        lambda run: (
            [run.configure('"1", threshold: 2', '"1", threshold: 5000')]
            + [run.set(f"walk/park/{tick}", threshold=5_000) for tick in range(7)]
        ),
        [
            "walk/park, tick 1: the noisy count is below the threshold",
            "walk/park, tick 1: p_value is not e^(-ε(z - T + 1))",
        ],
    ),
    "another p_value": (
        "noisy_count",
        lambda run: run.set("walk/park/1", p_value=math.exp(-2) * (1 + 1e-8)),
        ["walk/park, tick 1: p_value is not e^(-ε(z - T + 1))"],
    ),
    "another count_at_most": (
        "noisy_count",
        lambda run: run.set("walk/park/1", count_at_most=4),
        ["walk/park, tick 1: count_at_most is not the noisy count"],
    ),
    "as many people as T at a designated time, reported since a noisy count": (
        "safe",
        lambda run: visit_shop(count_night_afresh(run), "p5", "03:00"),
        [f'{NIGHT}, tick {tick}: "safe" is false for shop, there were 2 people or more' for tick in (3, 4)],
    ),
    "a person of a noisy count who is reported again, in the last tick": (
        "safe",
        lambda run: visit_shop(count_night_afresh(run), "p3", "04:59:59.999999"),
        [f'{NIGHT}, tick 4: "safe" is false for shop, there were 2 people or more'],
    ),
    "a second noisy count below the people reported since": (
        "noisy_count",
        lambda run: [visit_shop(count_night_afresh(run, noisy_count=2), person, "04:10") for person in ("p3", "p5")],
        [f"{NIGHT}, tick 4, shop: there were more people than the noisy count"],
    ),
    "a second noisy count below T": (
        "noisy_count",
        lambda run: count_night_afresh(run, noisy_count=1),
        [f"{NIGHT}, tick 4, shop: the noisy count is below the threshold"],
    ),
    "a hot spot below its count": (
        "noisy_count",
        lambda run: run.watch_busiest({"shop": 1}),
        [f"{BUSIEST}, tick 4: shop: there were more people than the noisy count"],
    ),
    "a hot spot that is not named": (  # the park is first in the registry, so it wins where noisy counts are equal
        "noisy_count",
        lambda run: visit_park(run.only_walk().watch_busiest({"shop": 2}), 2, hour="02"),
        [f"{BUSIEST}, tick 4: park is not named, and there were more people than the last noisy count allows"],
    ),
    "a bound above the count": (
        "at_least",
        lambda run: run.bound({"shop": 3}),
        [f"{NIGHT}, tick 4, shop: fewer people consented than the lower bound"],
    ),
    "a bound with a person without consent": (
        "at_least",
        lambda run: run.bound({"shop": 2}, "p4"),
        [f"{NIGHT}, tick 4, shop: fewer people consented than the lower bound"],
    ),
    "a bound with a person who was not there": (
        "at_least",
        lambda run: run.bound({"park": 1}, "p3"),
        [f"{NIGHT}, tick 4, park: fewer people consented than the lower bound"],
    ),
    "a bound with a person who was reported later": (
        "at_least",
        lambda run: report_later(run.bound({"shop": 2})),
        [f"{NIGHT}, tick 4, shop: fewer people consented than the lower bound"],
    ),
    "visits longer than noise can make them": (
        LENGTHS_KIND,
        lambda run: run.watch_lengths(2_400 + 45 * 2_400 + 1, 1_200),  # the scale is 2·1,800/ε = 2,400 s
        [f"{LENGTHS}, tick 4: a total is further from the recount than its noise"],
    ),
    "visits shorter than noise can make them": (
        LENGTHS_KIND,
        lambda run: run.watch_lengths(2_400, 1_200 - 45 * 2_400 - 1),
        [f"{LENGTHS}, tick 4: a total is further from the recount than its noise"],
    ),
}


@pytest.mark.promise(1, 2, 3, 4, 37, 41, 44)
@pytest.mark.parametrize("name", STATEMENTS)
def test_false_statement_is_found(tiny: Tiny, name: str) -> None:
    """A "safe" with T people, an upper bound below the count, and a lower bound above it are found."""
    oracle, change, texts = STATEMENTS[name]
    change(tiny)
    assert find(tiny, oracle) == texts


def shorten_pause(tiny: Tiny) -> Tiny:
    """Let the mark of tick 1 run until 3, although W + F - 1 = 3 ticks must follow, and answer tick 4."""
    for tick in (1, 2, 3):
        tiny.set(f"walk/park/{tick}", answers=[{**MARK, "until": 3}])
        if tick > 1:
            tiny.set(f"walk/park/{tick}", resumes_at=as_of(4))
    return tiny.walk(4, "safe", [])


def answer_in_pause(tiny: Tiny) -> Tiny:
    """Answer tick 4 with a noisy count, although the ε of the park is spent."""
    second = {"tick": 4, "noisy_count": 2, "epsilon": "1", "until": 7}
    tiny.state_enough().walk(4, "noisy_count", [MARK, second], noisy_count=2, count_at_most=2, p_value=math.exp(-1))
    for tick in (5, 6):
        tiny.walk(tick, "paused", [second], resumes_at=as_of(8))
    return tiny


def lose_ledger(tiny: Tiny) -> Tiny:
    """Lose a ledger at 00:30, in slot 0, which pauses its locations until tick W + F - 1 = 3."""
    tiny.remove("walk/park/0", "walk/park/1").live()
    for tick in range(2, 4):
        tiny.walk(tick, "paused", [], resumes_at=as_of(4))
    tiny.walk(4, "safe", []).records.insert(0, owner(lost_at="2026-01-01T00:30:00Z"))
    return tiny


def draw_thrice(tiny: Tiny) -> Tiny:
    """Let the shop have a noisy count at each of the ticks 2, 3 and 4."""
    second, third = ({"tick": tick, "noisy_count": 2, "epsilon": HALF} for tick in (3, 4))
    set_shop(count_night_afresh(tiny), 3, later=[second])
    return set_shop(tiny, 4, later=[second, third], counted_since=None)


WRONG_MARKS = "answers are not the noisy answers that run, each until tick + W + F - 1"
WRONG_START = "counted_since is not the as_of of tick 1, the latest noisy answer that runs"
NO_START = "counted_since is given, and nothing was counted since a noisy answer"
WRONG_NIGHT = "counted_since is not the as_of of its latest noisy count"
WRONG_END = "resumes_at is not the as_of of tick 5, the next that can answer"

SPENDING: dict[str, Case] = {
    "a short pause": (
        "budget",
        shorten_pause,
        [
            f"walk/park, tick 1: {WRONG_MARKS}",
            f"walk/park, tick 2: {WRONG_END}",
            f"walk/park, tick 2: {WRONG_MARKS}",
            f"walk/park, tick 3: {WRONG_END}",
            f"walk/park, tick 3: {WRONG_MARKS}",
            "walk/park, tick 4: not paused, and the next answer is not affordable: 1 of 1 is spent",
            f"walk/park, tick 4: {WRONG_MARKS}",
        ],
    ),
    "a long pause": (
        "budget",
        lambda run: run.walk(5, "paused", [], resumes_at=as_of(6)),
        ["walk/park, tick 5: paused, and the next answer is affordable"],
    ),
    "unknown in a pause": (
        "budget",
        lambda run: run.walk(3, "unknown", [MARK]),
        ["walk/park, tick 3: not paused, and the next answer is not affordable: 1 of 1 is spent"],
    ),
    "a noisy count in a pause": (
        "budget",
        answer_in_pause,
        [
            "walk/park, tick 4: not paused, and the next answer is not affordable: 1 of 1 is spent",
            "walk/park, tick 4: the ε of the answers that run is 2, more than the location's 1",
        ],
    ),
    "a count that starts with a noisy count": (
        "budget",
        lambda run: count_afresh(run).set("walk/park/3", counted_since=as_of(0)),
        [f"walk/park, tick 3: {WRONG_START}"],
    ),
    "a count that starts after a noisy count": (
        "budget",
        lambda run: count_afresh(run).set("walk/park/3", counted_since=as_of(2)),
        [f"walk/park, tick 3: {WRONG_START}"],
    ),
    "a count that starts nowhere": (
        "budget",
        lambda run: count_afresh(run).set("walk/park/5", counted_since=as_of(1)),
        [f"walk/park, tick 5: {NO_START}"],
    ),
    "a start in a pause": (
        "budget",
        lambda run: run.set("walk/park/3", counted_since=as_of(1)),
        [f"walk/park, tick 3: {NO_START}"],
    ),
    "a start after a lost ledger": (
        "budget",
        lambda run: lose_ledger(run).set("walk/park/3", counted_since=as_of(1)),
        [f"walk/park, tick 3: {NO_START}"],
    ),
    "unknown with a start": (
        "budget",
        lambda run: count_afresh(run).set("walk/park/3", status="unknown"),
        [f"walk/park, tick 3: {NO_START}"],
    ),
    "a long pause after a lost ledger": (
        "budget",
        lambda run: lose_ledger(run).walk(4, "paused", [], resumes_at=as_of(5)),
        ["walk/park, tick 4: paused, and the next answer is affordable"],
    ),
    "a noisy count of a snapshot that changes": (
        "budget",
        lambda run: run.set(f"{NIGHT}/4", noisy_counts=AHEAD),
        [f"{NIGHT}, tick 4: the noisy count of shop has changed"],
    ),
    "a noisy count of a snapshot that disappears": (
        "budget",
        lambda run: run.set(f"{NIGHT}/4", status="unknown", noisy_counts={}),
        [f"{NIGHT}, tick 4: the noisy count of shop is gone"],
    ),
    "a noisy count of a snapshot that is backdated": (
        "budget",
        lambda run: run.set(f"{NIGHT}/3", status="unknown", noisy_counts={}),
        [f"{NIGHT}, tick 4, shop: the noisy count of tick 3 was not published at that tick"],
    ),
    "a noisy count of an unknown snapshot": (
        "budget",
        lambda run: run.set(f"{NIGHT}/3", status="unknown"),
        [f"{NIGHT}, tick 3, shop: the noisy count of tick 3 was not published at that tick"],
    ),
    "a count about a time that starts before the noisy count": (
        "budget",
        lambda run: set_shop(count_night_afresh(run, tick=4), 4, counted_since=as_of(1)),
        [f"{NIGHT}, tick 4, shop: {WRONG_NIGHT}"],
    ),
    "a count about a time that starts after the noisy count": (
        "budget",
        lambda run: set_shop(count_night_afresh(run), 4, counted_since=as_of(3)),
        [f"{NIGHT}, tick 4, shop: {WRONG_NIGHT}"],
    ),
    "a count of all people after the noisy count": (
        "budget",
        lambda run: set_shop(count_night_afresh(run, tick=4), 4, counted_since=None),
        [f"{NIGHT}, tick 4, shop: {WRONG_NIGHT}"],
    ),
    "a start at the first noisy count": (
        "budget",
        lambda run: set_shop(count_night_afresh(run), 2, counted_since=as_of(1)),
        [f"{NIGHT}, tick 2, shop: {NO_START}"],
    ),
    "a start in an unknown snapshot": (
        "budget",
        lambda run: count_night_afresh(run).set(f"{NIGHT}/4", status="unknown"),
        [f"{NIGHT}, tick 4, shop: {NO_START}"],
    ),
    "a start after the only noisy count": (
        "budget",
        lambda run: set_shop(report_later(run), 4, counted_since=as_of(3)),
        [f"{NIGHT}, tick 4, shop: {NO_START}"],
    ),
    "a second noisy count with all ε": (
        "budget",
        lambda run: count_night_afresh(run, epsilon="1/2"),
        [f"{NIGHT}, tick 4, shop: the ε of the noisy count is not ε/k"],
    ),
    "a second noisy count without its ε": (
        "budget",
        lambda run: [
            count_night_afresh(run, tick=4),
            run[f"{NIGHT}/4"]["noisy_counts"]["shop"]["later"][0].pop("epsilon"),
        ],
        [f"{NIGHT}, tick 4, shop: the ε of the noisy count is not ε/k"],
    ),
    "a second noisy count where one is allowed": (
        "budget",
        lambda run: set_shop(run, 4, later=[{"tick": 4, "noisy_count": 2}]),
        [f"{NIGHT}, tick 4, shop: the ε of its noisy counts is more than the monitor's 1/2"],
    ),
    "a third noisy count where two are allowed": (
        "budget",
        draw_thrice,
        [f"{NIGHT}, tick 4, shop: the ε of its noisy counts is more than the monitor's 1/2"],
    ),
    "a second noisy count in place of the first": (
        "budget",
        lambda run: set_shop(count_night_afresh(run), 4, tick=4),
        [f"{NIGHT}, tick 4: the noisy count of shop is gone"],
    ),
    "a noisy count about a time whose ε changes": (
        "budget",
        lambda run: set_shop(count_night_afresh(run), 4, epsilon="1/8"),
        [f"{NIGHT}, tick 4: the noisy count of shop has changed"],
    ),
    "bounds before the final tick, and a second time": (
        "budget",
        lambda run: run.bound({"shop": 1}).bound({"shop": 1}, tick=3),
        [
            f"{NIGHT}, tick 3: it has lower bounds, expected only in a complete final snapshot",
            f"{NIGHT}, tick 4: the lower bounds are drawn a second time",
        ],
    ),
    "bounds without configuration": (
        "budget",
        lambda run: run.set(f"{NIGHT}/4", at_least_epsilon="1", counts_at_least={}),
        [f"{NIGHT}, tick 4: it has lower bounds, expected only in a complete final snapshot"],
    ),
    "more ε than stated": (
        "paid",
        lambda run: run.configure('epsilon: "2", period', 'epsilon: "1/2", period'),
        ["the published answers may have cost one person ε = 3/2 within a period, more than the stated 1/2"],
    ),
}


@pytest.mark.promise(10, 12, 15, 19, 37, 43)
@pytest.mark.parametrize("name", SPENDING)
def test_wrong_spending_is_found(tiny: Tiny, name: str) -> None:
    """A pause that is too short or too long, a second drawing, and a sum above the stated ε are found."""
    oracle, change, texts = SPENDING[name]
    change(tiny)
    assert find(tiny, oracle) == texts

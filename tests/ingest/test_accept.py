"""Acceptance in bulk is what the interface says of one visit at a time."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from monitor.contracts.visits import Reason
from monitor.ingest.accept import Accepted, accept
from monitor.ingest.decode import decode_records
from monitor.public.instants import DAY, HOUR, MINUTE, SECOND, format_instant, parse_instant
from monitor.public.parameters import Parameters
from monitor.windows.facts import ShardFacts
from monitor.windows.hashing import PersonHasher
from tests.windows.packed import Present, Seen, present_in, seen_in

Visit = tuple[str, str, int, int]


@dataclass
class Expected:
    """Facts as sets, fates, and reasons by (record, index)."""

    seen: set[Seen] = field(default_factory=set)
    present: set[Present] = field(default_factory=set)
    fates: Counter[str] = field(default_factory=Counter)
    refused: list[tuple[int, int, Reason]] = field(default_factory=list)


def judge(
    parameters: Parameters, hasher: PersonHasher, visit: Visit, current: int, expected: Expected
) -> Reason | None:
    """The docs/interface.md, section 1, word by word, for one visit."""
    person, location, arrived, left = visit
    grid, max_lead = parameters.grid, parameters.max_lead
    if location not in parameters.registry.ids:
        return Reason.UNKNOWN_LOCATION
    first = (arrived - grid.origin) // grid.length
    if first > current + max_lead:
        return Reason.TOO_FAR_AHEAD
    last = max(first, -(-(left - grid.origin) // grid.length) - 1)
    if last > current + max_lead:
        last = current + max_lead
        left = grid.origin + (last + 1) * grid.length
    row, shard = (
        parameters.registry.ids.index(location),
        int(parameters.registry.shard[parameters.registry.ids.index(location)]),
    )
    can = once = False
    windows = [monitor.window for monitor in parameters.over_time if row in monitor.rows]
    if windows:
        once = True
        if last >= current - max(windows) + 1:
            can = True
            expected.seen.add(Seen(current, shard, row, hasher(person), last))
    for monitor in parameters.at_times:
        for instant in monitor.times.between(arrived, left).tolist():
            once = True
            ticks = range(first - 2, current + 200)
            final = max(tick for tick in ticks if grid.as_of(tick) <= instant + monitor.horizon)
            if final >= current:
                can = True
                expected.present.add(Present(current, shard, instant, row, hasher(person)))
    expected.fates["applied" if can else "expired" if once else "not_watched"] += 1
    return None


def as_record(visits: list[Visit]) -> bytes:
    rows = [
        {
            "person_id": person,
            "location_id": location,
            "arrived_at": format_instant(arrived),
            "left_at": format_instant(left),
        }
        for person, location, arrived, left in visits
    ]
    return json.dumps({"visits": rows}).encode()


def run(
    parameters: Parameters, hasher: PersonHasher, batches: list[tuple[int, list[Visit]]]
) -> tuple[Accepted, Expected]:
    """Accept batches of (current slot, visits) in bulk, and one by one."""
    columns = decode_records([as_record(visits) for _, visits in batches], parameters.default_stay)
    accepted = accept(parameters, hasher, columns, np.array([current for current, _ in batches], np.int64))
    expected = Expected()
    for record, (current, visits) in enumerate(batches):
        for index, visit in enumerate(visits):
            reason = judge(parameters, hasher, visit, current, expected)
            if reason is not None:
                expected.refused.append((record, index, reason))
    return accepted, expected


def check(parameters: Parameters, hasher: PersonHasher, batches: list[tuple[int, list[Visit]]]) -> Accepted:
    accepted, expected = run(parameters, hasher, batches)
    assert set(seen_in(accepted.facts)) == expected.seen
    assert set(present_in(accepted.facts)) == expected.present
    assert [(refusal.record, refusal.index, refusal.reason) for refusal in accepted.refused] == expected.refused
    counted = {**dict.fromkeys(accepted.fates, 0), **expected.fates, "dead_letter": len(expected.refused)}
    assert accepted.fates == counted
    return accepted


def test_bulk_and_single_agree_on_random_visits(parameters: Parameters, hasher: PersonHasher) -> None:
    """Times fall on edges of slots and designated times, or a microsecond beside them, as often as elsewhere."""
    rng = random.Random(11)
    edges = [parameters.grid.start(slot) for slot in range(-30, 60)]
    edges += [int(at) for monitor in parameters.at_times for at in monitor.times.between(edges[0], edges[-1])]

    def instant() -> int:
        return rng.choice(edges) + rng.choice([0, 0, 1, -1, rng.randrange(HOUR)])

    def visit() -> Visit:
        arrived = instant()
        stay = rng.choice([0, 1, HOUR, 15 * MINUTE, rng.randrange(3 * HOUR), rng.randrange(2 * DAY)])
        return f"p{rng.randrange(40)}", rng.choice([*parameters.registry.ids, "nowhere"]), arrived, arrived + stay

    for _ in range(250):
        batches = []
        for _ in range(rng.randrange(1, 4)):
            visits = [visit() for _ in range(rng.randrange(12))]
            near = parameters.grid.slot_of(visits[0][2]) if visits else 0
            batches.append((near + rng.randrange(-3, 30), visits))
        check(parameters, hasher, batches)
        check(replace(parameters, at_times=()), hasher, batches)
        check(replace(parameters, over_time=(), max_lead=0), hasher, batches)


def at(text: str) -> int:
    return parse_instant(f"2026-11-20T{text}Z")


def one(parameters: Parameters, hasher: PersonHasher, location: str, arrived: int, left: int, current: int) -> str:
    accepted = check(parameters, hasher, [(current, [("p", location, arrived, left)])])
    (fate,) = (fate for fate, count in accepted.fates.items() if count)
    return fate if fate != "dead_letter" else accepted.refused[0].reason


def test_a_visit_may_begin_up_to_f_slots_ahead(parameters: Parameters, hasher: PersonHasher) -> None:
    """Slots c |·····now| c+1 |····[···| c+2 [: the last microsecond of c + F is in, the next is not."""
    c = parameters.grid.slot_of(at("12:30:00"))
    end = parameters.grid.start(c + parameters.max_lead + 1)
    assert one(parameters, hasher, "inn", end - 1, end - 1, c) == "applied"
    assert one(parameters, hasher, "inn", end, end, c) == "too_far_ahead"


def test_a_stay_beyond_f_slots_is_cut_for_windows_and_designated_times(
    parameters: Parameters, hasher: PersonHasher
) -> None:
    """At c = 11:00, F = 1: [12:59 ──── cut at 13:00 ╎···· 20:00); 13:30 is designated, and not covered."""
    c = parameters.grid.slot_of(at("11:30:00"))
    accepted = check(parameters, hasher, [(c, [("p", "inn", at("12:59:00"), at("20:00:00"))])])
    assert [fact.last for fact in seen_in(accepted.facts)] == [c + 1]
    assert list(present_in(accepted.facts)) == []


def test_a_visit_is_asked_about_as_long_as_its_last_slot_is_in_reach(
    parameters: Parameters, hasher: PersonHasher
) -> None:
    """Tick c, the first that counts what is stamped in slot c, holds the W slots c - W + 1 … c."""
    slot = parameters.grid.slot_of(at("05:00:00"))
    for location, window in (("inn", 3), ("bath", 8), ("駅", 8)):
        assert one(parameters, hasher, location, at("05:10:00"), at("05:20:00"), slot + window - 1) == "applied"
        assert one(parameters, hasher, location, at("05:10:00"), at("05:20:00"), slot + window) == "expired"


def counts_at(parameters: Parameters, tick: int, location: str, left: int, last: int) -> Iterator[bool]:
    """Whether each monitor's count at a tick holds a visit with this last slot, stamped in the tick's slot or before.

    The visit is in its last slot's last microsecond, and so covers the designated times after which it leaves.
    """
    row, as_of = parameters.registry.ids.index(location), parameters.grid.as_of(tick)
    for over in parameters.over_time:
        yield row in over.rows and last >= parameters.window_start(over.window, tick)
    for timed in parameters.at_times:
        yield any(left - 1 == instant for instant in timed.live(as_of))


@pytest.mark.parametrize("location", ["inn", "bath", "駅", "mill"])
@pytest.mark.parametrize("left", ["05:20:00", "09:00:01", "12:00:00.000001", "12:30:00.000001", "13:30:00.000001"])
def test_what_is_applied_is_what_some_tick_can_count(
    parameters: Parameters, hasher: PersonHasher, location: str, left: str
) -> None:
    """For every slot of the report: applied exactly if a tick of that slot or later holds the visit in a count."""
    end = at(left)
    last = parameters.grid.slot_of(end - 1)
    for current in range(last - parameters.max_lead, last + 30):
        ticks = range(current, current + 40)
        counted = any(any(counts_at(parameters, tick, location, end, last)) for tick in ticks)
        fate = one(parameters, hasher, location, end - 1, end, current)
        assert (fate == "applied") == counted, (location, left, current - last)


def test_a_designated_time_is_covered_from_arrival_until_just_before_leaving(
    parameters: Parameters, hasher: PersonHasher
) -> None:
    """It is so if arrived ≤ τ < left: [τ, τ + 1 µs) covers it, [τ - 1 h, τ) and the empty stay [τ, τ) don't."""
    noon, c = at("12:00:00"), parameters.grid.slot_of(at("12:30:00"))
    assert one(parameters, hasher, "mill", noon, noon + 1, c) == "applied"
    assert one(parameters, hasher, "mill", noon - HOUR, noon, c) == "not_watched"
    assert one(parameters, hasher, "mill", noon, noon, c) == "not_watched"


def test_a_designated_time_of_two_monitors_is_one_fact_for_the_longer_horizon(
    parameters: Parameters, hasher: PersonHasher
) -> None:
    """noon: 12:00 with 2 h; late: 12:00 with 24 h. The last tick is that of as_of 12:00 on the next day."""
    noon = at("12:00:00")
    c = parameters.grid.slot_of(noon + DAY) - 1
    accepted = check(parameters, hasher, [(c, [("p", "mill", noon, noon + 1)])])
    (shard,) = accepted.facts
    assert list(present_in(accepted.facts)) == [Present(c, shard, noon, 3, hasher("p"))]
    assert one(parameters, hasher, "mill", noon, noon + 1, c + 1) == "expired"


def test_a_stay_of_half_a_century_adds_no_more_than_what_is_still_asked(
    parameters: Parameters, hasher: PersonHasher
) -> None:
    c = parameters.grid.slot_of(at("12:30:00"))
    visits = [("p", "farm", parse_instant("1970-01-01T00:00:00Z") + n, at("12:30:00")) for n in range(3)]
    columns = decode_records([as_record(visits)], parameters.default_stay)
    accepted = accept(parameters, hasher, columns, np.array([c]))
    held = Counter(fact.instant for fact in present_in(accepted.facts))
    assert held == {at("09:00:00"): 3, at("12:00:00"): 3}
    assert accepted.fates["applied"] == 3


def test_times_at_the_ends_of_the_calendar_are_taken_or_refused_like_others(
    parameters: Parameters, hasher: PersonHasher
) -> None:
    first, last = "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999-23:59"
    rows = [
        {"person_id": "p", "location_id": location, "arrived_at": arrived, "left_at": left}
        for location in ("inn", "farm")
        for arrived, left in ((first, first), (first, last), (last, last), (last, None))
    ]
    columns = decode_records([json.dumps({"visits": rows}).encode()], 10**30)
    accepted = accept(parameters, hasher, columns, np.array([parameters.grid.slot_of(at("12:30:00"))]))
    assert accepted.fates == {"applied": 2, "expired": 1, "not_watched": 1, "dead_letter": 4}


def test_a_visit_is_judged_alike_whatever_comes_with_it(parameters: Parameters, hasher: PersonHasher) -> None:
    """Taking any visits away takes away their own facts and nothing else (docs/rules.md, rule 7): facts are a union."""
    rng = random.Random(5)
    c = parameters.grid.slot_of(at("12:30:00"))
    visits = [
        (
            f"p{rng.randrange(5)}",
            rng.choice([*parameters.registry.ids, "nowhere"]),
            start,
            start + rng.randrange(3 * HOUR),
        )
        for start in (at("00:00:00") + rng.randrange(DAY) for _ in range(60))
    ]

    def members(some: list[Visit]) -> Counter[tuple[object, ...]]:
        accepted = check(parameters, hasher, [(c, some)])
        return Counter([*seen_in(accepted.facts), *present_in(accepted.facts)])

    together = members(visits)
    apart: Counter[tuple[object, ...]] = Counter()
    for visit in visits:
        apart += members([visit])
    assert together == apart


def test_people_who_are_not_asked_about_are_not_hashed(parameters: Parameters) -> None:
    class Counting(PersonHasher):
        asked: list[str]

        def many(self, persons: list[str]) -> list[bytes]:
            self.asked = persons
            return super().many(persons)

    hasher = Counting(b"0123456789abcdef")
    c = parameters.grid.slot_of(at("12:30:00"))
    visits = [
        ("a", "farm", at("10:00:00"), at("10:05:00")),
        ("b", "inn", at("12:10:00"), at("12:20:00")),
        ("c", "x", 0, 1),
    ]
    accept(parameters, hasher, decode_records([as_record(visits)], 0), np.array([c]))
    assert hasher.asked == ["b"]


def test_a_refused_visit_is_told_as_it_was_sent(parameters: Parameters, hasher: PersonHasher) -> None:
    sent = {"person_id": "p", "location_id": "nowhere", "arrived_at": "2026-11-20T08:15:00Z", "app": {"v": 1}}
    columns = decode_records([b"3", json.dumps({"visits": [{}, sent]}).encode()], parameters.default_stay)
    accepted = accept(parameters, hasher, columns, np.zeros(2, np.int64))
    assert [refusal.reason for refusal in accepted.refused] == ["not_a_visit", "not_a_visit", "unknown_location"]
    assert json.loads(accepted.refused[-1].payload) == sent
    assert "nowhere" not in accepted.refused[-1].error
    assert accepted.fates == {"applied": 0, "expired": 0, "not_watched": 0, "dead_letter": 3}


@pytest.mark.parametrize("values", [[], [b'{"visits": []}'], [None]])
def test_nothing_is_accepted_of_nothing(
    parameters: Parameters, hasher: PersonHasher, values: list[bytes | None]
) -> None:
    accepted = accept(parameters, hasher, decode_records(values, SECOND), np.zeros(len(values), np.int64))
    facts: dict[int, list[ShardFacts]] = {}
    assert accepted.facts == facts
    assert accepted.fates["dead_letter"] == values.count(None)

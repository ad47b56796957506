"""Acceptance in bulk follows the interface, which defines it for one visit at a time."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import pytest

from monitor.ingest.accept_visits import Accepted, accept
from monitor.ingest.decode_visits import decode_records
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.over_time.keys_and_parameters import OverTime
from monitor.kinds.parameters import Parameters
from monitor.kinds.upper_bound.keys_and_parameters import UpperBound
from monitor.privacy.upper_bound import BucketRule
from monitor.records.visit_contract import Reason
from monitor.store.hash_persons import PersonHasher
from monitor.time.instants import DAY, HOUR, MINUTE, SECOND, parse_instant
from tests.builders import build_parameters, build_visit, replace_monitors, select
from tests.kinds.examples import LENGTHS, measure_lengths
from tests.store.packed import Present, Seen, list_present, list_seen

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
    """Apply docs/interface.md, section 1, word by word to one visit."""
    person, location, arrived, left = visit
    grid, max_lead, accept_ahead = parameters.grid, parameters.max_lead, parameters.accept_ahead
    if location not in parameters.registry.ids:
        return Reason.UNKNOWN_LOCATION
    first = (arrived - grid.origin) // grid.length
    if first > current + accept_ahead:
        return Reason.TOO_FAR_AHEAD
    last = max(first, -(-(left - grid.origin) // grid.length) - 1)
    if last > current + max_lead:
        last = current + max_lead
        left = grid.origin + (last + 1) * grid.length
    row = parameters.registry.ids.index(location)
    can = once = covers = in_time = False
    windows = [monitor.window for monitor in select(parameters, OverTime) if row in monitor.rows]
    if windows:
        once = True
        if last >= current - max(windows) + 1:
            can = True
            expected.seen.add(Seen(current, row, last, hasher(person)))
    for monitor in select(parameters, AtTimes):
        for instant in monitor.times.find_between(arrived, left).tolist():
            once = covers = True
            ticks = range(first - 2, current + 200)
            final = max(tick for tick in ticks if grid.as_of(tick) <= instant + monitor.horizon)
            if final >= current:
                can = in_time = True
                expected.present.add(Present(current, instant, row, hasher(person)))
    fate = "too_late" if covers and not in_time else "applied"
    expected.fates[fate if can else "expired" if once else "not_watched"] += 1
    return None


def encode(visits: list[Visit]) -> bytes:
    return json.dumps({"visits": [build_visit(*visit) for visit in visits]}).encode()


def run(
    parameters: Parameters, hasher: PersonHasher, batches: list[tuple[int, list[Visit]]]
) -> tuple[Accepted, Expected]:
    """Accept batches of (current slot, visits) in bulk, and one by one."""
    columns = decode_records(parameters, [encode(visits) for _, visits in batches])
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
    assert set(list_seen(accepted.facts)) == expected.seen
    assert set(list_present(accepted.facts)) == expected.present
    assert [(refusal.record, refusal.index, refusal.reason) for refusal in accepted.refused] == expected.refused
    counted = {**dict.fromkeys(accepted.fates, 0), **expected.fates, "dead_letter": len(expected.refused)}
    assert accepted.fates == counted
    return accepted


@pytest.mark.promise(24)
def test_bulk_equals_single(parameters: Parameters, hasher: PersonHasher) -> None:
    """Acceptance in bulk equals acceptance one by one: no visit changes the facts of another (docs/rules.md, rule 7).

    Half of the times are within 1 µs of slot edges and designated times.
    """
    rng = random.Random(11)
    edges = [parameters.grid.start(slot) for slot in range(-30, 60)]
    edges += [
        int(at) for monitor in select(parameters, AtTimes) for at in monitor.times.find_between(edges[0], edges[-1])
    ]

    def instant() -> int:
        return rng.choice(edges) + rng.choice([0, 0, 1, -1, rng.randrange(HOUR)])

    def visit() -> Visit:
        arrived = instant()
        stay = rng.choice([0, 1, HOUR, 15 * MINUTE, rng.randrange(3 * HOUR), rng.randrange(2 * DAY)])
        return f"p{rng.randrange(40)}", rng.choice([*parameters.registry.ids, "nowhere"]), arrived, arrived + stay

    for _ in range(120):
        batches = []
        for _ in range(rng.randrange(1, 4)):
            visits = [visit() for _ in range(rng.randrange(12))]
            near = parameters.grid.find_slot(visits[0][2]) if visits else 0
            batches.append((near + rng.randrange(-3, 30), visits))
        check(parameters, hasher, batches)
        check(replace_monitors(parameters, at_times=()), hasher, batches)
        check(replace_monitors(parameters, over_time=(), accept_ahead=0), hasher, batches)


def at(text: str) -> int:
    return parse_instant(f"2026-11-20T{text}Z")


def one(parameters: Parameters, hasher: PersonHasher, location: str, arrived: int, left: int, current: int) -> str:
    accepted = check(parameters, hasher, [(current, [("p", location, arrived, left)])])
    (fate,) = (fate for fate, count in accepted.fates.items() if count)
    return fate if fate != "dead_letter" else accepted.refused[0].reason


FATES = [
    # A visit may begin until the last microsecond of slot c + F.
    ("inn", "13:59:59.999999", "13:59:59.999999", "12:30:00", "applied"),
    ("inn", "14:00:00", "14:00:00", "12:30:00", "too_far_ahead"),
    # A stay covers τ if arrived ≤ τ < left. The empty stay [τ, τ) does not.
    ("mill", "12:00:00", "12:00:00.000001", "12:30:00", "applied"),
    ("mill", "11:00:00", "12:00:00", "12:30:00", "not_watched"),
    ("mill", "12:00:00", "12:00:00", "12:30:00", "not_watched"),
    # The window at 駅 has 8 slots, and the evening, 09:00, a horizon of 4 h. If a stay covers two times, one suffices.
    ("駅", "09:00:00", "09:00:00.000001", "12:30:00", "applied"),
    ("駅", "09:00:00", "09:00:00.000001", "13:00:00", "too_late"),
    ("駅", "08:59:59.999999", "09:00:00", "13:00:00", "applied"),
    ("駅", "09:00:00", "12:00:00.000001", "13:00:00", "applied"),
    ("mill", "09:00:00", "09:00:00.000001", "13:00:00", "expired"),
    # A stay is cut at the end of slot c + F, and then does not cover 13:30.
    ("mill", "12:59:00", "20:00:00", "11:30:00", "not_watched"),
]


@pytest.mark.parametrize(("location", "arrived", "left", "stamped", "fate"), FATES)
def test_fates_at_edges(
    parameters: Parameters, hasher: PersonHasher, location: str, arrived: str, left: str, stamped: str, fate: str
) -> None:
    """The fate of a visit changes at the edges of slots, stays, windows and horizons."""
    assert one(parameters, hasher, location, at(arrived), at(left), parameters.grid.find_slot(at(stamped))) == fate


def test_time_of_two_monitors_is_one_fact(parameters: Parameters, hasher: PersonHasher) -> None:
    """A time of two monitors is one fact, for the longer horizon. noon: 12:00 with 2 h; late: 12:00 with 24 h."""
    noon = at("12:00:00")
    c = parameters.grid.find_slot(noon + DAY) - 1
    accepted = check(parameters, hasher, [(c, [("p", "mill", noon, noon + 1)])])
    assert list_present(accepted.facts) == [Present(c, noon, 3, hasher("p"))]


def test_cut_visits_are_counted(parameters: Parameters, hasher: PersonHasher) -> None:
    """`cut` is the number of accepted visits that end after slot c + F, not of refused or whole ones."""
    c = parameters.grid.find_slot(at("11:30:00"))
    ends = (at("13:00:00"), at("13:00:00") + 1, at("20:00:00"))
    visits = [("p", place, at("11:30:00"), left) for place in ("inn", "nowhere") for left in ends]
    assert check(parameters, hasher, [(c, visits)]).cut == 2


def test_visit_counts_while_in_window(parameters: Parameters, hasher: PersonHasher) -> None:
    """A visit counts if its last slot is in the window c - W + 1 … c of tick c, the first tick that counts it."""
    slot = parameters.grid.find_slot(at("05:00:00"))
    for location, window in (("inn", 3), ("bath", 8), ("駅", 8)):
        assert one(parameters, hasher, location, at("05:10:00"), at("05:20:00"), slot + window - 1) == "applied"
        assert one(parameters, hasher, location, at("05:10:00"), at("05:20:00"), slot + window) == "expired"


def find_counting(parameters: Parameters, tick: int, location: str, left: int, last: int) -> Iterator[bool]:
    """Return whether each monitor counts a visit at a tick, with this last slot, stamped in the tick's slot or before.

    The visit includes the last microsecond of its last slot, so it covers the designated times before that.
    """
    row, as_of = parameters.registry.ids.index(location), parameters.grid.as_of(tick)
    for over in select(parameters, OverTime):
        yield row in over.rows and last >= parameters.find_window_start(over.window, tick)
    for timed in select(parameters, AtTimes):
        yield any(left - 1 == instant for instant in timed.list_live_times(as_of))


@pytest.mark.parametrize("location", ["inn", "bath", "駅", "mill"])
@pytest.mark.parametrize("left", ["05:20:00", "09:00:01", "12:00:00.000001", "12:30:00.000001", "13:30:00.000001"])
def test_applied_visits_can_be_counted(parameters: Parameters, hasher: PersonHasher, location: str, left: str) -> None:
    """In every slot of the report, a visit is applied or too late exactly if a tick from that slot on can count it."""
    end = at(left)
    last = parameters.grid.find_slot(end - 1)
    for current in range(last - parameters.max_lead, last + 30):
        ticks = range(current, current + 40)
        counted = any(any(find_counting(parameters, tick, location, end, last)) for tick in ticks)
        fate = one(parameters, hasher, location, end - 1, end, current)
        assert (fate in {"applied", "too_late"}) == counted, (location, left, current - last)


def test_stay_of_half_a_century(parameters: Parameters, hasher: PersonHasher) -> None:
    """A stay of 50 years adds only the designated times that a tick still counts."""
    c = parameters.grid.find_slot(at("12:30:00"))
    visits = [("p", "farm", parse_instant("1970-01-01T00:00:00Z") + n, at("12:30:00")) for n in range(3)]
    columns = decode_records(parameters, [encode(visits)])
    accepted = accept(parameters, hasher, columns, np.array([c]))
    held = Counter(fact.instant for fact in list_present(accepted.facts))
    assert held == {at("09:00:00"): 3, at("12:00:00"): 3}
    assert accepted.fates["applied"] == 3


def test_ends_of_the_calendar(parameters: Parameters, hasher: PersonHasher) -> None:
    """The first and the last times of the calendar follow the same rules as others."""
    first, last = "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999-23:59"
    rows = [
        {"person_id": "p", "location_id": location, "arrived_at": arrived, "left_at": left}
        for location in ("inn", "farm")
        for arrived, left in ((first, first), (first, last), (last, last), (last, None))
    ]
    columns = decode_records(replace(parameters, default_stay=10**30), [json.dumps({"visits": rows}).encode()])
    accepted = accept(parameters, hasher, columns, np.array([parameters.grid.find_slot(at("12:30:00"))]))
    assert accepted.fates == {"applied": 2, "too_late": 0, "expired": 1, "not_watched": 1, "dead_letter": 4}


def test_only_applied_people_are_hashed(parameters: Parameters) -> None:
    """Only people of applied visits are hashed."""

    class Counting(PersonHasher):
        asked: list[str]

        def hash_many(self, persons: list[str]) -> list[bytes]:
            self.asked = persons
            return super().hash_many(persons)

    hasher = Counting(b"0123456789abcdef")
    c = parameters.grid.find_slot(at("12:30:00"))
    visits = [
        ("a", "farm", at("10:00:00"), at("10:05:00")),
        ("b", "inn", at("12:10:00"), at("12:20:00")),
        ("c", "x", 0, 1),
    ]
    accept(parameters, hasher, decode_records(parameters, [encode(visits)]), np.array([c]))
    assert hasher.asked == ["b"]


def test_refused_visit_payload(parameters: Parameters, hasher: PersonHasher) -> None:
    """The payload of a refused visit is the visit as it was sent."""
    sent = {"person_id": "p", "location_id": "nowhere", "arrived_at": "2026-11-20T08:15:00Z", "app": {"v": 1}}
    columns = decode_records(parameters, [b"3", json.dumps({"visits": [{}, sent]}).encode()])
    accepted = accept(parameters, hasher, columns, np.zeros(2, np.int64))
    assert [refusal.reason for refusal in accepted.refused] == ["not_a_visit", "not_a_visit", "unknown_location"]
    assert json.loads(accepted.refused[-1].payload) == sent
    assert "nowhere" not in accepted.refused[-1].error
    assert accepted.fates == {"applied": 0, "too_late": 0, "expired": 0, "not_watched": 0, "dead_letter": 3}


@pytest.mark.parametrize("values", [[], [b'{"visits": []}'], [None]])
def test_no_visits(parameters: Parameters, hasher: PersonHasher, values: list[bytes | None]) -> None:
    """Without visits, the outcome is empty."""
    accepted = accept(parameters, hasher, decode_records(parameters, values), np.zeros(len(values), np.int64))
    assert len(accepted.facts) == 0
    assert accepted.fates["dead_letter"] == values.count(None)


@pytest.mark.promise(41, 42)
def test_consent_is_a_second_fact(parameters: Parameters, hasher: PersonHasher) -> None:
    """A visit with consent adds a flagged fact for each time with lower bounds; nothing else changes.

    "noon" has lower bounds, and shares its first time with "late". "evening" has none.
    """
    evening, noon, late = select(parameters, AtTimes)
    instant = noon.times.instants[0]
    bounded = replace_monitors(parameters, at_times=(evening, replace(noon, at_least=Fraction(1)), late))
    current = parameters.grid.find_slot(instant)
    arrived, left = instant - 4 * HOUR, instant + 40 * MINUTE
    visits = [("ann", "farm", arrived, left, True), ("bob", "farm", arrived, left, False)]
    rows = [build_visit(*visit[:4]) | {"consent": visit[4]} for visit in visits]
    values = [json.dumps({"visits": rows}).encode()]
    columns = decode_records(bounded, values)
    plain = accept(parameters, hasher, columns, np.array([current]))
    with_bounds = accept(bounded, hasher, columns, np.array([current]))
    assert plain.fates == with_bounds.fates
    assert +Counter(plain.fates) == {"applied": 2}
    consented = {Present(current, instant, 4 + 2**31, hasher("ann"))}
    assert set(list_present(with_bounds.facts)) == set(list_present(plain.facts)) | consented
    assert consented.isdisjoint(list_present(plain.facts))
    assert set(list_seen(with_bounds.facts)) == set(list_seen(plain.facts))
    assert {fact.instant for fact in list_present(plain.facts)} > {instant}


@pytest.mark.promise(44)
def test_lengths_are_facts(parameters: Parameters, hasher: PersonHasher) -> None:
    """A visit that covers a measured time adds its length, cut to the longest that counts. Fates do not change.

    The times of "noon" are 12:00 and 13:30. "late" shares the first.
    """
    noon = select(parameters, AtTimes)[1]
    first, second = noon.times.instants
    timed = replace_monitors(parameters, **{LENGTHS: (measure_lengths(noon.times, noon.horizon, 7_200),)})
    current = parameters.grid.find_slot(first)
    visits = [
        ("ann", "farm", first - 10 * MINUTE, first + 5 * MINUTE),
        ("bob", "farm", first - 10 * MINUTE, first + 9 * HOUR),  # cut after two hours, at the end of slot c + 1
        ("eve", "farm", first - DAY, first + SECOND),
        ("dan", "farm", first + MINUTE, first + 2 * MINUTE),
    ]
    columns = decode_records(parameters, [encode(visits)])
    plain, with_lengths = (accept(of, hasher, columns, np.array([current])) for of in (parameters, timed))
    assert with_lengths.fates == plain.fates
    assert set(list_present(with_lengths.facts)) == set(list_present(plain.facts))
    stays = with_lengths.facts.stays.tolist()
    lengths = {(instant, hashed): length for _stamp, instant, length, _row, hashed in stays}
    assert lengths == {
        (first, hasher("ann")): 900,
        (first, hasher("bob")): 7_200,
        (second, hasher("bob")): 7_200,
        (first, hasher("eve")): 7_200,
    }
    assert not plain.facts.stays.size


@pytest.mark.promise(9)
def test_stamps_are_facts(parameters: Parameters, hasher: PersonHasher) -> None:
    """At the times of a monitor with several answers per time, all people are stored by stamp, also late and again.

    "noon" has two answers per time and lower bounds, and shares its first time with "late". "evening" has one answer.
    """
    evening, noon, late = select(parameters, AtTimes)
    noon = replace(noon, at_least=Fraction(1))
    plain = replace_monitors(parameters, at_times=(evening, noon, late))
    afresh = replace_monitors(parameters, at_times=(evening, replace(noon, answers=2), late))
    first, second = noon.times.instants
    visits = [("ann", "farm", first - 4 * HOUR, first + 40 * MINUTE), ("bob", "inn", first, second + HOUR)]
    rows = [build_visit(*visit) | {"consent": True} for visit in visits]
    columns = decode_records(parameters, [json.dumps({"visits": rows}).encode()] * 3)
    current = parameters.grid.find_slot(first) + np.array([0, 1, 2])
    before, after = (accept(of, hasher, columns, current) for of in (plain, afresh))
    stamped = {Present(*fact) for fact in after.facts.stamped.tolist()}
    of_noon = {fact for fact in list_present(before.facts) if fact.instant in noon.times.instants}
    assert stamped == of_noon
    assert {fact.stamp for fact in stamped} == {*current.tolist()}
    assert set(list_present(after.facts)) == set(list_present(before.facts)) - of_noon
    assert not before.facts.stamped.size
    assert (before.fates, len(before.facts)) == (after.fates, len(after.facts))


@pytest.mark.parametrize(("slot", "bucketed"), [(9, 0), (10, 1)])
def test_row_with_buckets_alone_has_no_window(hasher: PersonHasher, slot: int, bucketed: int) -> None:
    """A visit that the bucket of its stamp does not count, because it is too old at the bucket's end, is no fact.

    slot     8   9  10  11        W = 2, a bucket has two slots
    stamp           x             its bucket ends with slot 11, whose window has the slots 10 and 11
    """
    parameters = build_parameters(1)
    curve = UpperBound("curve", (0,), (BucketRule(Fraction(1), 2, 2, parameters.max_lead),))
    parameters = replace(parameters, monitors=(curve,))
    start = parameters.grid.start(slot)
    record = json.dumps(build_visit("ann", "place-0", start, start + MINUTE)).encode()
    facts = accept(parameters, hasher, decode_records(parameters, [record]), np.array([10])).facts
    assert (facts.seen.size, facts.bucketed.size) == (0, bucketed)

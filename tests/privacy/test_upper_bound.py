"""Upper bounds: the sum is certain, and the exact loss of all tiny sets of records, by the real decisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import NamedTuple

import pytest

from monitor.errors import PrivacyError
from monitor.privacy.over_time import Mark
from monitor.privacy.published_numbers import Number
from monitor.privacy.upper_bound import BucketRule, add_up, compute_most_numbers, draw, may_draw
from tests.privacy.exact_loss import one_sided

ONE, Q, CAP = Fraction(1), Fraction(1, 2), 4
STAMPS = range(4)
SHAPES = [shape for shape in product((1, 2), (1, 2, 4), (0, 1, 2)) if shape[1] % shape[0] == 0]  # b, W, F


class Record(NamedTuple):
    """A record: the person, the last slot of the visit, and the slot of the stamp."""

    person: str
    slot: int
    stamp: int


def list_records(rule: BucketRule, person: str) -> list[Record]:
    """Return every record that any window counts."""
    leads = range(1 - rule.window, rule.max_lead + 1)
    return [Record(person, stamp + lead, stamp) for stamp in STAMPS for lead in leads]


def list_ends(rule: BucketRule) -> list[int]:
    """Return the ticks that end a bucket, until no window contains a visit of the records."""
    return [tick for tick in range(STAMPS.stop + rule.lifetime + rule.bucket) if rule.ends_bucket(tick)]


def count_window(records: Sequence[Record], rule: BucketRule, tick: int) -> int:
    """Return the people in the window of a tick, from the definition."""
    return len({who for who, slot, stamp in records if stamp <= tick and slot > tick - rule.window})


def count_bucket(records: Sequence[Record], rule: BucketRule, last: int) -> int:
    """Return the people in the window of the last slot of a bucket, by the records stamped in it."""
    return count_window([one for one in records if one.stamp > last - rule.bucket], rule, last)


def run(rule: BucketRule, counts: dict[int, int], known_from: dict[int, int], noise: int = 0) -> list[tuple[int, int]]:
    """Return what is published if the bucket b is complete from the tick `known_from[b]` on: numbers, then bounds."""
    marks: tuple[Number, ...] = ()
    bounds = []
    for tick in list_ends(rule):
        for last in rule.list_buckets(tick):
            if last in counts and known_from[last] <= tick and may_draw(rule, marks, last):
                marks = (*marks, draw(rule, last, counts[last], noise))
        bound = add_up(rule, [mark for mark in marks if mark.until >= tick], tick)
        bounds.append((tick, -1 if bound is None else bound))
    return [*((mark.tick, mark.noisy_count) for mark in sorted(marks, key=lambda mark: mark.tick)), *bounds]


def list_people(rule: BucketRule) -> Iterator[tuple[Record, ...]]:
    """Yield each set of one or two records of ann."""
    own = list_records(rule, "ann")
    yield from (some for size in (1, 2) for some in combinations(own, size))


def find_ratio(rule: BucketRule, full: int, less: int) -> Fraction:
    """Return the worst ratio of the law of one number under two counts."""
    laws = []
    for count in (full, less):
        law: dict[int, Fraction] = {}
        for noise, chance in one_sided(Q, CAP):
            outcome = min(draw(rule, 0, count, noise).noisy_count, CAP)
            law[outcome] = law.get(outcome, Fraction(0)) + chance
        laws.append(law)
    return max(chance / laws[1].get(outcome, Fraction(0)) for outcome, chance in laws[0].items())


@pytest.mark.parametrize(("bucket", "window", "max_lead"), SHAPES)
def test_bound_is_certain(bucket: int, window: int, max_lead: int) -> None:
    """Without noise, the sum is at least the people in the window, at each end of a bucket, for all tiny streams."""
    rule = BucketRule(ONE, bucket, window, max_lead)
    for mine in list_people(rule):
        for other in ([], [Record("bob", 1, 1)]):
            records = [*mine, *other]
            for tick in list_ends(rule):
                numbers = [draw(rule, last, count_bucket(records, rule, last), 0) for last in rule.list_buckets(tick)]
                bound = add_up(rule, numbers, tick)
                assert bound is not None
                assert bound >= count_window(records, rule, tick)
                assert add_up(rule, numbers[1:], tick) is None


@pytest.mark.parametrize(("bucket", "window", "max_lead"), SHAPES)
def test_record_pays_one_number(bucket: int, window: int, max_lead: int) -> None:
    """The removal of one record changes one number at most, and costs ε_l/B exactly."""
    rule = BucketRule(ONE, bucket, window, max_lead)
    worst = Fraction(1)
    for mine in list_people(rule):
        for gone in mine:
            kept, ratio = [one for one in mine if one != gone], Fraction(1)
            for last in list_ends(rule):
                full, less = count_bucket(mine, rule, last), count_bucket(kept, rule, last)
                assert less <= full <= less + 1
                ratio *= find_ratio(rule, full, less)
            worst = max(worst, ratio)
    assert worst == 1 / Q
    assert rule.answer_epsilon == ONE * bucket / window


@pytest.mark.parametrize(
    ("bucket", "window", "max_lead", "slots"), [(*shape, h) for shape in SHAPES for h in (1, 2, 3)]
)
def test_person_pays_by_the_formula(bucket: int, window: int, max_lead: int, slots: int) -> None:
    """Visits in H consecutive slots are in at most ⌈(H + W + F - 1)/b⌉ numbers, and at some places of H in as many."""
    rule = BucketRule(ONE, bucket, window, max_lead)
    most = 0
    for first in range(10, 10 + bucket):
        visits = range(first, first + slots)
        stamps = range(first - max_lead, first + slots + window)
        records = [Record("ann", slot, stamp) for slot in visits for stamp in stamps if slot <= stamp + max_lead]
        ends = [last for last in range(100) if rule.ends_bucket(last)]
        most = max(most, sum(count_bucket(records, rule, last) for last in ends))
    assert most == compute_most_numbers(bucket, window, max_lead, slots)


@pytest.mark.parametrize(("bucket", "window", "max_lead"), SHAPES)
def test_late_number_is_the_same(bucket: int, window: int, max_lead: int) -> None:
    """A bucket that is complete late gets its number then, once and from the same count; until then there is no bound.

    The input of each bucket is complete at its end or one bucket later, in every combination for three buckets.
    """
    rule = BucketRule(ONE, bucket, window, max_lead)
    ends = list_ends(rule)
    known = range(ends[0] - bucket * rule.buckets, ends[-1] + 1)
    counts = {last: 20 + last for last in known if rule.ends_bucket(last)}
    in_time = run(rule, counts, {last: last for last in counts})
    for delays in product((0, bucket), repeat=3):
        known_from = {last: last for last in counts} | {
            last: last + delay for last, delay in zip(ends[:3], delays, strict=False)
        }
        late = run(rule, counts, known_from)
        assert set(late[: -len(ends)]) <= set(in_time[: -len(ends)])
        assert len({last for last, _ in late[: -len(ends)]}) == len(late) - len(ends)
        for (tick, bound), (_, complete) in zip(late[-len(ends) :], in_time[-len(ends) :], strict=True):
            lacks = any(known_from.get(last, last) > tick for last in rule.list_buckets(tick))
            assert bound == (-1 if lacks else complete)


def test_counted_slots_are_not_counted_again() -> None:
    """
    A bucket is not drawn if an earlier answer can have counted one of its slots.

        slot      0 1 2 3 4 5 6 7
        drawn         [ # # ]           a number of slots 2 to 4; an answer of another kind at tick 1; lost in slot 6
    """
    rule = BucketRule(ONE, 2, 4, 1)
    number = Number(4, 1, ONE, 8, 3, 4)
    other = Mark(1, 1, ONE, 9)
    ends = range(1, 9, 2)
    assert [last for last in ends if may_draw(rule, [number], last)] == [1, 7]
    assert [last for last in ends if may_draw(rule, [other], last)] == [3, 5, 7]
    assert [last for last in ends if may_draw(rule, [], last, lost_slot=6)] == [7]


def test_numbers_of_other_rules_do_not_count() -> None:
    """A number that was drawn under another bucket, window or F is in no sum, because it may lack visits."""
    rule = BucketRule(ONE, 2, 4, 1)
    numbers = [draw(rule, last, 1, 0) for last in rule.list_buckets(9)]
    assert add_up(rule, numbers, 9) == len(numbers) == 3
    for other in (BucketRule(ONE, 1, 4, 1), BucketRule(ONE, 2, 2, 3), BucketRule(ONE, 2, 4, 0)):
        assert add_up(rule, [*numbers[:-1], draw(other, 9, 1, 0)], 9) is None
    for other in (BucketRule(ONE, 1, 4, 1), BucketRule(ONE, 2, 2, 1), BucketRule(ONE, 2, 4, 2)):
        assert not rule.includes(draw(other, 9, 1, 0))
    cheaper = BucketRule(Fraction(1, 2), 2, 4, 1)
    assert add_up(rule, [*numbers[:-1], draw(cheaper, 9, 7, 0)], 9) == 9
    assert rule.includes(draw(cheaper, 9, 7, 0))
    assert not cheaper.includes(numbers[0])


def test_bucket_that_does_not_divide_is_refused() -> None:
    """A rule with a bucket that does not divide the window is refused; so is a negative count or noise."""
    for bucket, window, max_lead in ((0, 4, 0), (3, 4, 0), (2, 4, -1)):
        with pytest.raises(PrivacyError, match="bucket"):
            BucketRule(ONE, bucket, window, max_lead)
    rule = BucketRule(ONE, 2, 4, 0)
    for count, noise in ((-1, 0), (0, -1)):
        with pytest.raises(PrivacyError, match="negative"):
            draw(rule, 1, count, noise)

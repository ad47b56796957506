"""People reported at more than one place at a designated time are counted once, and nobody else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from monitor.ingest.people_at_several_places import PeopleAtSeveralPlaces
from monitor.kinds.facts_and_questions import CONSENT, PRESENT
from monitor.store.hash_persons import PersonHasher

NOON, EVENING = 1_767_268_800_000_000, 1_767_290_400_000_000
HASHER = PersonHasher(b"0123456789abcdef")

Fact = tuple[str, int, int]


def count(places: PeopleAtSeveralPlaces, facts: Sequence[Fact]) -> int:
    """Return the count that a batch of (person, row, designated time) adds."""
    return places.count(np.array([(3, instant, row, HASHER(person)) for person, row, instant in facts], PRESENT))


def test_consent_is_no_other_place() -> None:
    """The fact that a person consented is at the same place as the person."""
    facts = [("a", 1, NOON), ("a", 1 + CONSENT, NOON)]
    assert count(PeopleAtSeveralPlaces(), facts) == 0
    assert count(PeopleAtSeveralPlaces(), [*facts, ("a", 2, NOON), ("a", 2 + CONSENT, NOON)]) == 1


def test_counter_over_batches() -> None:
    """The counter compares batches, because check-ins come one by one. A record that is read again does not count."""
    places = PeopleAtSeveralPlaces()
    one_by_one = [[("a", row, NOON)] for row in range(6)]
    assert [count(places, batch) for batch in one_by_one] == [0, 1, 0, 0, 0, 0]
    assert [count(places, batch) for batch in one_by_one] == [0] * 6


def test_counter_is_bounded() -> None:
    """Memory is bounded: the oldest pairs are forgotten first."""
    places = PeopleAtSeveralPlaces(limit=100)
    count(places, [(f"p-{number}", 1, NOON) for number in range(150)])
    assert count(places, [("p-0", 2, NOON)]) == 0
    assert count(places, [("p-149", 2, NOON)]) == 1


@pytest.mark.promise(16)
def test_counter_equals_sets() -> None:
    """A person counts once per designated time, as in a count by sets, on random facts in any batches."""
    random = np.random.default_rng(7)
    facts = [
        (f"p-{random.integers(40)}", int(random.integers(3)), int(random.choice((NOON, EVENING)))) for _ in range(150)
    ]
    rows: dict[tuple[str, int], set[int]] = {}
    for person, row, instant in facts:
        rows.setdefault((person, instant), set()).add(row)
    places = PeopleAtSeveralPlaces()
    total = sum(count(places, facts[begin : begin + 7]) for begin in range(0, len(facts), 7))
    assert total == sum(len(seen) > 1 for seen in rows.values())

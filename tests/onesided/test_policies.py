"""Policies, P-neighbours and monotone queries: the paper's examples, and exhaustive checks on small universes."""

from __future__ import annotations

from functools import partial
from itertools import product

import pytest

from monitor.errors import PolicyError
from monitor.onesided.policies import (
    VISITED,
    Dataset,
    Policy,
    RecordPolicy,
    Row,
    Sensitivity,
    sensitivity,
    sum_sensitivity,
)

TWO_PLACES = RecordPolicy.uniform(VISITED, 2)
BOB, TOM, ALICE, EMA = (1, 0), (0, 0), (1, 1), (0, 1)


def count_visitors(dataset: Dataset) -> tuple[int, ...]:
    """Return how many people have been at each of the two places."""
    return tuple(sum(record[place] == 1 for record in dataset) for place in range(2))


def look_up(table: dict[Dataset, int], dataset: Dataset) -> list[int]:
    return [table[dataset]]


def universe(people: int) -> list[Dataset]:
    return list(product(TWO_PLACES.records(), repeat=people))


def test_neighbours_match_example_3() -> None:
    """Alice, who was at both places, has three neighbours, Bob has one (Tom), and Tom has none."""
    assert set(TWO_PLACES.record_neighbours(ALICE)) == {BOB, EMA, TOM}
    assert set(TWO_PLACES.record_neighbours(BOB)) == {TOM}
    assert set(TWO_PLACES.record_neighbours(TOM)) == set()


@pytest.mark.parametrize(("record", "other"), list(product(product((0, 1), repeat=2), repeat=2)))
def test_listed_neighbours_are_neighbours(record: Row, other: Row) -> None:
    """`record_neighbours` lists exactly the records that `is_record_neighbour` accepts."""
    assert (other in set(TWO_PLACES.record_neighbours(record))) == TWO_PLACES.is_record_neighbour(record, other)


def test_dataset_neighbours_differ_in_one_record() -> None:
    """Removing Alice's visits is a P-neighbour; adding visits for Tom, or changing two people, is not."""
    dataset = (BOB, TOM, ALICE)
    assert TWO_PLACES.is_neighbour(dataset, (BOB, TOM, EMA))
    assert not TWO_PLACES.is_neighbour((BOB, TOM, EMA), dataset)
    assert not TWO_PLACES.is_neighbour(dataset, (TOM, TOM, TOM))
    assert not TWO_PLACES.is_neighbour(dataset, dataset)
    assert len(set(TWO_PLACES.neighbours(dataset))) == 1 + 0 + 3


def test_all_small_dataset_neighbours_agree() -> None:
    """Listing and checking agree for all 256 pairs of datasets of two people."""
    for dataset, other in product(universe(2), repeat=2):
        assert (other in set(TWO_PLACES.neighbours(dataset))) == TWO_PLACES.is_neighbour(dataset, other)


def test_differential_privacy_is_symmetric() -> None:
    """Any other record is a neighbour, in both directions (Theorem 5(1) of [ADP], docs/literature.md)."""
    symmetric = RecordPolicy.uniform(Policy.symmetric((0, 1)), 2)
    assert Policy.symmetric((0, 1)).is_symmetric
    assert not VISITED.is_symmetric
    for record, other in product(symmetric.records(), repeat=2):
        assert symmetric.is_record_neighbour(record, other) == (record != other)
    assert symmetric.covers(TWO_PLACES)
    assert not TWO_PLACES.covers(symmetric)


def test_one_sided_privacy_on_whole_records() -> None:
    """A sensitive record is paired with every other record, and another record with none."""
    whole = Policy.of_sensitive(("home", "work", "hospital", "prison"), ("hospital", "prison"))
    assert whole.neighbours("hospital") == {"home", "work", "prison"}
    assert whole.neighbours("home") == frozenset()
    assert whole.is_sensitive("prison")
    assert not whole.is_sensitive("work")


def test_policy_graph_and_minimum_step() -> None:
    """
    Edges have one direction: two steps from a to c, and no way back.

        a ──▶ b ──▶ c
    """
    chain = Policy(frozenset("abc"), frozenset({("a", "b"), ("b", "c")}))
    assert chain.graph == {"a": {"b"}, "b": {"c"}, "c": frozenset()}
    assert [chain.minimum_step("a", goal) for goal in "abc"] == [0, 1, 2]
    assert chain.minimum_step("c", "a") is None
    circle = Policy(frozenset("abc"), frozenset({("a", "b"), ("b", "a")}))
    assert circle.minimum_step("a", "c") is None
    records = RecordPolicy.uniform(chain, 2)
    assert records.minimum_step((("a", "a"), ("b", "c")), (("b", "c"), ("c", "c"))) == 2 + 1
    assert records.minimum_step((("c", "a"),), (("a", "a"),)) is None


def test_policy_covers_fewer_pairs() -> None:
    """A policy covers itself and policies with fewer pairs, attribute by attribute."""
    symmetric = RecordPolicy.uniform(Policy.symmetric((0, 1)), 2)
    mixed = RecordPolicy((VISITED, Policy.symmetric((0, 1))))
    assert TWO_PLACES.covers(TWO_PLACES)
    assert symmetric.covers(mixed)
    assert mixed.covers(TWO_PLACES)
    assert not mixed.covers(symmetric)
    assert not TWO_PLACES.covers(mixed)


def test_queries_have_a_fixed_length() -> None:
    """A query whose length depends on the dataset is refused, because its sensitivity would miss changes."""
    with pytest.raises(ValueError, match="shorter"):
        sum_sensitivity(TWO_PLACES, lambda record: [1] * (1 + record.count(1)))


def test_removing_k_visitors_takes_k_steps() -> None:
    """One step removes all visits of one person, so each person is a step."""
    assert TWO_PLACES.minimum_step((ALICE, BOB, TOM), (TOM, TOM, TOM)) == 2


def test_visitor_counts_are_decreasing() -> None:
    """Each count falls by at most 1, and all counts together by at most the number of places ([ADP], Example 5)."""
    expected = Sensitivity("decreasing", largest=1, total=2, changed=2)
    assert sensitivity(TWO_PLACES, count_visitors, universe(2)) == expected
    assert sum_sensitivity(TWO_PLACES, lambda record: [int(value == 1) for value in record]) == expected


def test_absence_counts_are_increasing() -> None:
    """Counts of absent people are increasing, and a query with both kinds of counts is not monotone."""
    absent = sum_sensitivity(TWO_PLACES, lambda record: [int(value == 0) for value in record])
    both = sum_sensitivity(TWO_PLACES, lambda record: [int(record[0] == 1), int(record[1] == 0)])
    assert absent.direction == "increasing"
    assert both == Sensitivity("not monotone", largest=1, total=2, changed=2)
    assert sum_sensitivity(TWO_PLACES, lambda _: [1]) == Sensitivity("constant", 0, 0, 0)


def test_symmetric_policy_has_no_monotone_query() -> None:
    """Under the symmetric policy only constant queries are monotone (Theorem 4 of [ADP], docs/literature.md).

    Checked for every query with two values on two people at one place.
    """
    symmetric = RecordPolicy.uniform(Policy.symmetric((0, 1)), 1)
    datasets: list[Dataset] = list(product(symmetric.records(), repeat=2))
    for values in product((0, 1), repeat=len(datasets)):
        table = dict(zip(datasets, values, strict=True))
        measured = sensitivity(symmetric, partial(look_up, table), datasets)
        assert measured.direction == ("constant" if len(set(values)) == 1 else "not monotone")


def test_one_place_at_a_time() -> None:
    """With one attribute "where at τ" a removal changes one count, but a move makes counts not monotone."""
    places = ("none", "a", "b")
    absent_only = RecordPolicy((Policy(frozenset(places), frozenset({("a", "none"), ("b", "none")})),))
    moved = RecordPolicy((Policy.of_sensitive(places, ("a", "b")),))

    def counted(record: Row) -> list[int]:
        return [int(record[0] == place) for place in ("a", "b")]

    assert sum_sensitivity(absent_only, counted) == Sensitivity("decreasing", 1, 1, 1)
    assert sum_sensitivity(moved, counted).direction == "not monotone"


def test_invalid_policies_are_refused() -> None:
    """Invalid policies, records and datasets are refused, and the error names what is wrong."""
    with pytest.raises(PolicyError, match="no values"):
        Policy(frozenset(), frozenset())
    with pytest.raises(PolicyError, match="two different values"):
        Policy(frozenset("ab"), frozenset({("a", "a")}))
    with pytest.raises(PolicyError, match="two different values"):
        Policy(frozenset("ab"), frozenset({("a", "c")}))
    with pytest.raises(PolicyError, match="no attributes"):
        RecordPolicy(())
    with pytest.raises(PolicyError, match="expected 2, one for each policy"):
        TWO_PLACES.is_record_neighbour((1,), (0,))
    with pytest.raises(PolicyError, match="not a value of the policy"):
        TWO_PLACES.is_record_neighbour((1, 2), (1, 0))
    with pytest.raises(PolicyError, match="2 and 1 records"):
        TWO_PLACES.is_neighbour((BOB, TOM), (BOB,))
    with pytest.raises(PolicyError, match="no datasets"):
        sensitivity(TWO_PLACES, count_visitors, [])

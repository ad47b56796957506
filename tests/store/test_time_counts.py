"""Counts of designated times by place."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from monitor.errors import WindowsError
from monitor.store.hashing import HASH_BYTES
from monitor.store.packing import CONSENT
from monitor.store.time_counts import SparseCounts, TimeCounts, find_visited

ROWS = np.array([3, 4, 9, 20])


def make_member(row: int, person: int) -> bytes:
    """Return a member of a designated time's set."""
    return row.to_bytes(4) + person.to_bytes(HASH_BYTES)


def test_counts_are_those_of_the_set() -> None:
    """The array of a time has the number of its members at each place, and the members who consented apart."""
    rng = Random(1)
    for _ in range(50):
        people = {(rng.choice(ROWS.tolist()), rng.randrange(9)) for _ in range(rng.randrange(20))}
        agreed = {who for who in people if rng.random() < 0.3}
        members = [*(make_member(*who) for who in people), *(make_member(row + CONSENT, who) for row, who in agreed)]
        rng.shuffle(members)
        sparse = SparseCounts.of(b"".join(members), ROWS)
        present = TimeCounts({5: sparse})
        assert present[5].tolist() == [sum(at == row for at, _ in people) for row in ROWS.tolist()]
        consenting = TimeCounts({5: sparse}, consenting=True)
        assert consenting[5].tolist() == [sum(at == row for at, _ in agreed) for row in ROWS.tolist()]
        assert present[5].dtype == consenting[5].dtype == np.int64
        assert (list(present), len(present)) == ([5], 1)
        for counts in (present, consenting):
            sparse_form, dense_form = find_visited(counts, 5), find_visited({5: counts[5]}, 5)
            assert sparse_form.places.tolist() == dense_form.places.tolist()
            assert sparse_form.people.tolist() == dense_form.people.tolist()


@pytest.mark.parametrize("row", [2, 5, 21, 2**31 + 5])
def test_place_of_another_shard_is_refused(row: int) -> None:
    """A member whose row is not in the shard is an error, at either end of the rows and between them."""
    with pytest.raises(WindowsError, match="another shard"):
        SparseCounts.of(make_member(3, 1) + make_member(row, 1), ROWS)


def test_member_of_another_length_is_refused() -> None:
    """A member that is not 20 bytes long is an error."""
    with pytest.raises(WindowsError, match="not 20 bytes"):
        SparseCounts.of(make_member(3, 1) + b"other", ROWS)

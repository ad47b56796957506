"""Members of designated times, counted by place."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from monitor.errors import WindowsError
from monitor.store.hashing import HASH_BYTES
from monitor.store.packing import CONSENT, count_members

ROWS = np.array([3, 4, 9, 20])


def make_member(row: int, person: int) -> bytes:
    """Return a member of a designated time's set."""
    return row.to_bytes(4) + person.to_bytes(HASH_BYTES)


def test_counts_are_those_of_the_set() -> None:
    """The number of members at each place, and the number of those who consented."""
    rng = Random(1)
    for _ in range(50):
        people = {(rng.choice(ROWS.tolist()), rng.randrange(9)) for _ in range(rng.randrange(20))}
        agreed = {who for who in people if rng.random() < 0.3}
        members = [*(make_member(*who) for who in people), *(make_member(row + CONSENT, who) for row, who in agreed)]
        rng.shuffle(members)
        present, consenting = count_members(b"".join(members), ROWS)
        assert present.tolist() == [sum(at == row for at, _ in people) for row in ROWS.tolist()]
        assert consenting.tolist() == [sum(at == row for at, _ in agreed) for row in ROWS.tolist()]
        assert present.dtype == consenting.dtype == np.int64


@pytest.mark.parametrize("row", [2, 5, 21, 2**31 + 5])
def test_place_of_another_shard_is_refused(row: int) -> None:
    """A member whose row is not in the shard is an error, at either end of the rows and between them."""
    with pytest.raises(WindowsError, match="another shard"):
        count_members(make_member(3, 1) + make_member(row, 1), ROWS)


def test_member_of_another_length_is_refused() -> None:
    """A member that is not 20 bytes long is an error."""
    with pytest.raises(WindowsError, match="not 20 bytes"):
        count_members(make_member(3, 1) + b"other", ROWS)

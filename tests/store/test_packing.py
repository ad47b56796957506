"""The blocks of facts for the scripts, and members of designated times, counted by place."""

from __future__ import annotations

import struct
from random import Random

import numpy as np
import pytest

from monitor.errors import StoreError
from monitor.kinds.facts_and_questions import CONSENT, HASH_BYTES, PERSON, PRESENT, Facts, make_facts
from monitor.store import packing
from monitor.store.packing import count_members, pack_facts
from tests.store.packed import pack_shard_facts, unpack_block

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
    with pytest.raises(StoreError, match="another shard"):
        count_members(make_member(3, 1) + make_member(row, 1), ROWS)


def test_member_of_another_length_is_refused() -> None:
    """A member that is not 20 bytes long is an error."""
    with pytest.raises(StoreError, match="not 20 bytes"):
        count_members(make_member(3, 1) + b"other", ROWS)


def test_blocks_contain_all_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks for the script contain each fact once, sorted by row, with at most as many as a portion (seeded)."""
    monkeypatch.setattr(packing, "PORTION", 64)
    draw = Random(7)
    farthest = (5 - 2**31, 5 + 2**31 - 1)  # no configuration allows a larger difference to the stamp
    people = [(draw.randbytes(16), draw.choice((*farthest, -12, -3, 0, 8, 10_007))) for _ in range(500)]
    seen = {row: people[row::7] for row in range(7)}
    facts = [[*unpack_block(5, portion.facts)] for portion in pack_shard_facts(5, seen)]
    assert sorted((fact.row, fact.person, fact.last) for part in facts for fact in part) == sorted(
        (row, person, last) for row, of_row in seen.items() for person, last in of_row
    )
    assert all(len(part) <= 64 for part in facts)
    rows = [fact.row for part in facts for fact in part]
    assert rows == sorted(rows)


def test_facts_are_split_by_shard() -> None:
    """Each fact is in a portion of its row's shard and of its stamp, and facts with an instant are sorted by it."""
    draw, shard = np.random.default_rng(7), np.array([0, 2, 1, 2, 0])
    row, instant, stamp = (draw.integers(0, most, 300) for most in (5, 9, 3))
    facts = make_facts(PRESENT, stamp=stamp, instant=instant, row=row, person=np.zeros(300, PERSON))
    packed = pack_facts(Facts(present=facts), shard)
    assert list(packed) == [0, 1, 2]
    found = []
    for number, portions in packed.items():
        assert [portion.stamp for portion in portions] == [0, 1, 2]
        for portion in portions:
            unpacked = list(struct.iter_unpack(">qI16s", portion.facts))
            assert [at for at, _, _ in unpacked] == sorted(at for at, _, _ in unpacked)
            assert {int(shard[place]) for _, place, _ in unpacked} == {number}
            found += [(portion.stamp, at, place) for at, place, _ in unpacked]
    assert sorted(found) == sorted(zip(stamp.tolist(), instant.tolist(), row.tolist(), strict=True))

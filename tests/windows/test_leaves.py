"""Rows with many people: their leaves never change a count, and need little memory on every server."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import redis

from monitor.errors import WindowsError
from monitor.public.clock import SteppedClock
from monitor.public.instants import HOUR
from monitor.public.parameters import Parameters
from monitor.tools.embedded import EmbeddedValkey
from monitor.windows import packing
from monitor.windows.facts import COMPLETE_FROM_START, Question, Span, Windows
from monitor.windows.keys import Keys
from monitor.windows.packing import group_seen, pack_shard_facts
from monitor.windows.redis_store import RedisWindows
from tests.faults.facts import unpack_block
from tests.windows.memory import MemoryWindows

KEYS = Keys("test", "0123456789abcdef")
SHARD = 2
COMPACT = 128  # the server's own limit of its compact encoding, zset-max-listpack-entries


@pytest.fixture
def rows(parameters: Parameters) -> list[int]:
    """Three rows of one shard."""
    return [int(row) for row in parameters.registry.by_shard[SHARD][:3]]


@pytest.fixture
def stored(open_windows: Callable[..., RedisWindows], server: EmbeddedValkey, clock: SteppedClock) -> RedisWindows:
    """Windows in each server, on the stepped clock, which stands in slot 20."""
    clock.move_to(clock.now() + 20 * HOUR)
    windows = open_windows(server, clock=clock)
    windows.begin(0, 0, COMPLETE_FROM_START)
    return windows


def read_counts(windows: Windows, rows: list[int], slots: range) -> dict[tuple[int, int], int]:
    question = Question(windows=tuple((row, first) for row in rows for first in slots))
    return dict(windows.read({SHARD: question})[SHARD].counts)


@pytest.mark.promise(9)
def test_leaves_count_like_a_set(
    stored: RedisWindows, raw: redis.Redis, parameters: Parameters, clock: SteppedClock, rows: list[int]
) -> None:
    """Counts equal those of plain sets after each of many writes and evictions, while rows grow and shrink (seeded)."""
    plain = MemoryWindows(parameters, clock)
    plain.begin(0, 0, COMPLETE_FROM_START)
    draw = random.Random(5)
    people = {row: [draw.randbytes(16) for _ in range(size)] for row, size in zip(rows, (2_000, 300, 90), strict=True)}
    most = 0
    for number in range(30):
        latest = number // 2
        seen = {
            row: [(person, latest - draw.randrange(3)) for person in draw.choices(who, k=draw.choice((1, 50, 900)))]
            for row, who in people.items()
        }
        for windows in (stored, plain):
            windows.write([Span(0, number, number + 1)], {SHARD: [pack_shard_facts(15, seen)]})
            if number % 5 == 4:
                windows.evict([SHARD], latest - 2, [], [])
        assert read_counts(stored, rows, range(-2, 17)) == read_counts(plain, rows, range(-2, 17))
        most = max(most, int(raw.hget(KEYS.leaves(SHARD), str(rows[0])) or 1))
    for windows in (stored, plain):
        windows.evict([SHARD], 15, [], [])
    assert (
        read_counts(stored, rows, range(-2, 17))
        == read_counts(plain, rows, range(-2, 17))
        == dict.fromkeys(((row, first) for row in rows for first in range(-2, 17)), 0)
    )
    assert most > 3
    assert not raw.exists(KEYS.leaves(SHARD))


def test_leaves_are_compact(stored: RedisWindows, raw: redis.Redis, rows: list[int]) -> None:
    """Each leaf of a row with many people is small enough for the server's compact encoding, and expires."""
    draw = random.Random(6)
    for number in range(20):
        seen = {rows[0]: [(draw.randbytes(16), 5) for _ in range(250)]}
        stored.write([Span(0, number, number + 1)], {SHARD: [pack_shard_facts(5, seen)]})
    leaves = [key for key in raw.scan_iter(match="*:w:*", count=1_000) if isinstance(key, bytes)]
    sizes = [int(raw.zcard(key)) for key in leaves]
    assert sum(sizes) == 5_000
    assert max(sizes) <= COMPACT
    assert len(leaves) < 5_000 / 25
    assert all(raw.object("encoding", key) == b"listpack" for key in leaves)
    assert all(int(raw.ttl(key)) > 0 for key in [*leaves, KEYS.leaves(SHARD).encode()])


def test_eviction_joins_no_full_leaves(stored: RedisWindows, raw: redis.Redis, rows: list[int]) -> None:
    """
    An eviction joins no leaves while their people would nearly fill one, else writes would split it again (seeded).

        people    7,440         1,300
        leaves    about 256     those with at most 64 people in four are joined
        evicted   nobody        6,140
    """
    draw = random.Random(8)
    people = [draw.randbytes(16) for _ in range(7_440)]
    for number in range(120):
        seen = {rows[0]: [(person, 5) for person in people[number::120]]}
        stored.write([Span(0, number, number + 1)], {SHARD: [pack_shard_facts(5, seen)]})
    splits = int(raw.hget(KEYS.leaves(SHARD), str(rows[0])) or 0)
    assert splits > 80
    stored.evict([SHARD], 5, [], [])
    assert int(raw.hget(KEYS.leaves(SHARD), str(rows[0])) or 0) == splits
    seen = {rows[0]: [(person, 6) for person in people[:1_300]]}
    stored.write([Span(0, 120, 121)], {SHARD: [pack_shard_facts(5, seen)]})
    stored.evict([SHARD], 6, [], [])
    assert 0 < int(raw.hget(KEYS.leaves(SHARD), str(rows[0])) or 0) < splits
    assert read_counts(stored, rows[:1], range(6, 7)) == {(rows[0], 6): 1_300}


@pytest.mark.promise(27)
def test_begin_empties_leaves(stored: RedisWindows, raw: redis.Redis, rows: list[int]) -> None:
    """A shard whose meta hash has expired begins without the leaves of the earlier one."""
    people = [(number.to_bytes(2, "big") * 8, 5) for number in range(0, 65_536, 100)]
    stored.write([Span(0, 0, 1)], {SHARD: [pack_shard_facts(5, {rows[0]: people})]})
    assert raw.exists(KEYS.leaves(SHARD))
    raw.delete(KEYS.meta(SHARD))
    stored.begin(0, 0, COMPLETE_FROM_START)
    assert list(raw.scan_iter(match=f"{KEYS.tag(SHARD)}*", count=1_000)) == [KEYS.meta(SHARD).encode()]
    assert read_counts(stored, rows, range(1)) == dict.fromkeys(((row, 0) for row in rows), 0)


def test_foreign_leaf_drops_progress(stored: RedisWindows, raw: redis.Redis, rows: list[int]) -> None:
    """A leaf of another type deletes the shard's progress, which would claim missing facts."""
    people = [(number.to_bytes(2, "big") * 8, 5) for number in range(0, 65_536, 100)]
    stored.write([Span(0, 0, 1)], {SHARD: [pack_shard_facts(5, {rows[0]: people})]})
    leaf = next(iter(raw.scan_iter(match="*:w:*:*", count=1_000)))
    raw.delete(leaf)
    raw.set(leaf, "someone else's")
    with pytest.raises(WindowsError, match="Delete all keys"):
        stored.write([Span(0, 1, 2)], {SHARD: [pack_shard_facts(5, {rows[0]: people})]})
    assert stored.read_progress()[SHARD] == {}


@pytest.mark.promise(6)
def test_write_renews_without_evictions(stored: RedisWindows, raw: redis.Redis, rows: list[int]) -> None:
    """If evictions have not renewed the expiry for long, a write renews it, so that no fact expires in a window."""
    stored.write([Span(0, 0, 1)], {SHARD: [pack_shard_facts(5, {rows[0]: [(b"a" * 16, 5)]})]})
    key, meta = KEYS.window(SHARD, rows[0]), KEYS.meta(SHARD)
    full = int(raw.ttl(key))
    raw.expire(key, 60)
    stored.write([Span(0, 1, 2)], {SHARD: [pack_shard_facts(5, {rows[0]: [(b"a" * 16, 5)]})]})
    assert int(raw.ttl(key)) <= 60  # the shard's hash states a recent renewal
    raw.hset(meta, "renewed", int(raw.hget(meta, "renewed") or 0) - full // 2 - 1)
    stored.write([Span(0, 2, 3)], {SHARD: [pack_shard_facts(5, {rows[0]: [(b"a" * 16, 5)]})]})
    assert int(raw.ttl(key)) > full // 2


@pytest.mark.promise(6)
@pytest.mark.parametrize("splits", [False, True], ids=["one leaf", "several leaves"])
def test_evictions_renew_rarely(stored: RedisWindows, raw: redis.Redis, rows: list[int], *, splits: bool) -> None:
    """An eviction renews the expiry of all keys if an eighth of it has passed, or if the clock was set back."""
    people = [(number.to_bytes(2, "big") * 8, 5) for number in range(0, 65_536, 100 if splits else 65_536)]
    stored.write([Span(0, 0, 1)], {SHARD: [pack_shard_facts(5, {rows[0]: people})]})
    meta = KEYS.meta(SHARD)
    keys = [key for key in raw.scan_iter(match=f"{KEYS.tag(SHARD)}*", count=1_000) if key != meta.encode()]
    assert len(keys) > 3 if splits else len(keys) == 1
    full, now = max(int(raw.ttl(key)) for key in keys), int(raw.hget(meta, "renewed") or 0)
    for passed, renews in ((full // 8 - 5, False), (full // 8 + 5, True), (-60, True), (0, False)):
        raw.hset(meta, "renewed", now - passed)
        for key in keys:
            raw.expire(key, 60)
        stored.evict([SHARD], 0, [], [])
        assert {int(raw.ttl(key)) > 60 for key in keys} == {renews}


@pytest.mark.parametrize("seed", range(20))
def test_small_block_equals_large_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few facts, packed one by one, give the block that arrays give (seeded)."""
    draw = random.Random(seed)
    facts = [(draw.randbytes(16), draw.choice((-12, -3, 0, 8, 10_007))) for _ in range(draw.randrange(1, 99))]
    seen = {draw.randrange(2**31): facts[begin::5] for begin in range(5)}
    stamp, packed = draw.choice((-7, 5, 490_000)), pack_shard_facts(5, seen).seen
    small = list(group_seen(stamp, packed, 10_000))
    monkeypatch.setattr(packing, "_FEW", 0)
    assert small == list(group_seen(stamp, packed, 10_000))


def test_blocks_contain_all_facts() -> None:
    """The blocks for the script contain each fact once, sorted by row, with at most as many as a portion (seeded)."""
    draw = random.Random(7)
    people = [(draw.randbytes(16), draw.choice((-12, -3, 0, 8, 10_007))) for _ in range(500)]
    seen = {row: people[row::7] for row in range(7)}
    blocks = list(group_seen(5, pack_shard_facts(5, seen).seen, 64))
    facts = [[*unpack_block(block)] for block in blocks]
    assert sorted((fact.row, fact.person, fact.slot) for part in facts for fact in part) == sorted(
        (row, person, last) for row, of_row in seen.items() for person, last in of_row
    )
    assert all(len(part) <= 64 for part in facts)
    rows = [fact.row for part in facts for fact in part]
    assert rows == sorted(rows)

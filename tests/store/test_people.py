"""Rows with many people: counts, expiry, and the blocks in which facts are sent."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import redis

from monitor.contracts.clock import SteppedClock
from monitor.contracts.instants import HOUR
from monitor.contracts.parameters import Parameters
from monitor.store.facts import COMPLETE_FROM_START, Question, Span
from monitor.store.keys import Keys
from monitor.store.packing import group_seen, pack_shard_facts
from monitor.store.redis_store import RedisWindows
from monitor.tools.servers import EmbeddedValkey
from tests.faults.facts import unpack_block
from tests.store.memory import MemoryWindows

KEYS = Keys("test", "0123456789abcdef")
SHARD = 2


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


def read_counts(windows: RedisWindows, rows: list[int], slots: range) -> list[list[int]]:
    """Return the people of each row, by first slot."""
    question = Question(windows=tuple((first, rows) for first in slots))
    return [counts.tolist() for counts in windows.read({SHARD: question})[SHARD].counts]


@pytest.mark.promise(9)
def test_counts_equal_plain_sets(
    stored: RedisWindows, parameters: Parameters, clock: SteppedClock, rows: list[int]
) -> None:
    """Counts equal those of plain sets after each of many writes and evictions, while rows grow and shrink (seeded)."""
    plain = MemoryWindows(parameters, clock)
    plain.begin(0, 0, COMPLETE_FROM_START)
    draw = random.Random(5)
    people = {row: [draw.randbytes(16) for _ in range(size)] for row, size in zip(rows, (2_000, 300, 90), strict=True)}
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
    for windows in (stored, plain):
        windows.evict([SHARD], 15, [], [])
    assert read_counts(stored, rows, range(-2, 17)) == read_counts(plain, rows, range(-2, 17)) == [[0, 0, 0]] * 19


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
def test_evictions_renew_rarely(stored: RedisWindows, raw: redis.Redis, rows: list[int]) -> None:
    """An eviction renews the expiry of all keys if an eighth of it has passed, or if the clock was set back."""
    stored.write([Span(0, 0, 1)], {SHARD: [pack_shard_facts(5, {rows[0]: [(b"a" * 16, 5)]})]})
    meta = KEYS.meta(SHARD)
    keys = [key for key in raw.scan_iter(match=f"{KEYS.tag(SHARD)}*", count=1_000) if key != meta.encode()]
    assert KEYS.window(SHARD, rows[0]).encode() in keys
    full, now = max(int(raw.ttl(key)) for key in keys), int(raw.hget(meta, "renewed") or 0)
    for passed, renews in ((full // 8 - 5, False), (full // 8 + 5, True), (-60, True), (0, False)):
        raw.hset(meta, "renewed", now - passed)
        for key in keys:
            raw.expire(key, 60)
        stored.evict([SHARD], 0, [], [])
        assert {int(raw.ttl(key)) > 60 for key in keys} == {renews}


def test_blocks_contain_all_facts() -> None:
    """The blocks for the script contain each fact once, sorted by row, with at most as many as a portion (seeded)."""
    draw = random.Random(7)
    people = [(draw.randbytes(16), draw.choice((-12, -3, 0, 8, 10_007))) for _ in range(500)]
    seen = {row: people[row::7] for row in range(7)}
    blocks = list(group_seen(pack_shard_facts(5, seen).seen, 64))
    facts = [[*unpack_block(5, block)] for block in blocks]
    assert sorted((fact.row, fact.person, fact.slot) for part in facts for fact in part) == sorted(
        (row, person, last) for row, of_row in seen.items() for person, last in of_row
    )
    assert all(len(part) <= 64 for part in facts)
    rows = [fact.row for part in facts for fact in part]
    assert rows == sorted(rows)

"""Writes and evictions renew the expiry of keys, so that no fact expires while it counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, OffsetRange
from monitor.kinds.parameters import Parameters
from monitor.operate.servers import EmbeddedValkey
from monitor.store.keys import Keys
from monitor.store.redis_store import RedisStore
from monitor.time.clock import SteppedClock
from monitor.time.instants import HOUR
from tests.store.packed import pack_shard_facts

KEYS = Keys("test", "0123456789abcdef")
SHARD = 2


@pytest.fixture
def rows(parameters: Parameters) -> list[int]:
    """Three rows of one shard."""
    return [int(row) for row in parameters.registry.by_shard[SHARD][:3]]


@pytest.fixture
def stored(open_windows: Callable[..., RedisStore], server: EmbeddedValkey, clock: SteppedClock) -> RedisStore:
    """Windows in each server, on the stepped clock, which stands in slot 20."""
    clock.move_to(clock.now() + 20 * HOUR)
    windows = open_windows(server, clock=clock)
    windows.begin(0, 0, COMPLETE_FROM_START)
    return windows


@pytest.mark.promise(6)
def test_write_renews_without_evictions(stored: RedisStore, raw: redis.Redis, rows: list[int]) -> None:
    """If evictions have not renewed the expiry for long, a write renews it, so that no fact expires in a window."""
    stored.write([OffsetRange(0, 0, 1)], {SHARD: pack_shard_facts(5, {rows[0]: [(b"a" * 16, 5)]})})
    key, meta = KEYS.window(SHARD, rows[0]), KEYS.meta(SHARD)
    full = int(raw.ttl(key))
    raw.expire(key, 60)
    stored.write([OffsetRange(0, 1, 2)], {SHARD: pack_shard_facts(5, {rows[0]: [(b"a" * 16, 5)]})})
    assert int(raw.ttl(key)) <= 60  # the shard's hash states a recent renewal
    raw.hset(meta, "renewed", int(raw.hget(meta, "renewed") or 0) - full // 2 - 1)
    stored.write([OffsetRange(0, 2, 3)], {SHARD: pack_shard_facts(5, {rows[0]: [(b"a" * 16, 5)]})})
    assert int(raw.ttl(key)) > full // 2


@pytest.mark.promise(6)
def test_write_renews_waiting_facts(stored: RedisStore, raw: redis.Redis, rows: list[int]) -> None:
    """Each write renews the expiry of the waiting facts, also if it adds none: they must outlive their slot."""
    stored.write([OffsetRange(0, 0, 1)], {SHARD: pack_shard_facts(21, {rows[0]: [(b"a" * 16, 21)]})})
    key = KEYS.waiting(SHARD)
    full = int(raw.ttl(key))
    raw.expire(key, 60)
    stored.write([OffsetRange(0, 1, 2)], {SHARD: pack_shard_facts(20, {rows[0]: [(b"b" * 16, 20)]})})
    assert int(raw.ttl(key)) > full // 2


@pytest.mark.promise(6)
def test_evictions_renew_rarely(stored: RedisStore, raw: redis.Redis, rows: list[int]) -> None:
    """An eviction renews the expiry of all keys if an eighth of it has passed, or if the clock was set back."""
    stored.write([OffsetRange(0, 0, 1)], {SHARD: pack_shard_facts(5, {rows[0]: [(b"a" * 16, 5)]})})
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

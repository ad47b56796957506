"""Windows in Redis after flushes and corruption, with foreign data, out of memory, and the expiry of their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import redis

from monitor.errors import EvictionError, StoreError, UnreachableError
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, OffsetRange, Portions, Question
from monitor.kinds.parameters import Parameters
from monitor.operate.servers import EmbeddedValkey
from monitor.store.hash_persons import PersonHasher
from monitor.store.keys import Keys
from monitor.store.redis_store import RedisStore
from monitor.time.clock import SteppedClock
from monitor.time.instants import HOUR, SECOND
from tests.builders import replace_monitors
from tests.kinds.examples import LENGTHS
from tests.store.packed import pack_shard_facts

ANN, BOB = b"a" * 16, b"b" * 16
EVENING = 1_767_258_000_000_000
KEYS = Keys("test", "0123456789abcdef")
ALL = range(4)
Open = Callable[..., RedisStore]


@pytest.fixture
def row(parameters: Parameters) -> int:
    """A row of shard 2."""
    return int(parameters.registry.by_shard[2][0])


@pytest.fixture
def facts(parameters: Parameters) -> Portions:
    """In every shard, Ann at its first row: last seen in slot 5, and at a designated time."""
    firsts = [int(rows[0]) for rows in parameters.registry.by_shard]
    return {
        shard: pack_shard_facts(5, seen={row: [(ANN, 5)]}, present={EVENING: [(row, ANN)]})
        for shard, row in enumerate(firsts)
    }


@contextmanager
def change_setting(client: redis.Redis, name: str, value: str) -> Iterator[None]:
    """Change a setting of a server, and restore it."""
    before = str(client.config_get(name)[name])
    client.config_set(name, value)
    try:
        yield
    finally:
        client.config_set(name, before)


@pytest.mark.promise(6)
def test_flush(redis_windows: RedisStore, raw: redis.Redis, row: int, facts: Portions) -> None:
    """After a flush there is no progress, and `begin` sets `complete_from` again."""
    redis_windows.begin(0, 0, COMPLETE_FROM_START)
    redis_windows.write([OffsetRange(0, 0, 10)], facts)
    raw.flushall()
    # offsets  0 ——— 10 ——— 20
    #              flush
    assert redis_windows.read_progress() == [{}, {}, {}, {}]
    assert redis_windows.write([OffsetRange(0, 10, 20)], {}) == {0: -1}
    redis_windows.begin(0, 4, 7)
    reading = redis_windows.read({2: Question(windows=((0, [row]),))})[2]
    assert (reading.progress, reading.complete_from, reading.counts[0][0]) == ({0: 4}, 7, 0)


@pytest.mark.parametrize(
    ("operation", "spoilt"),
    [("write", "window"), ("write", "time"), ("read", "window"), ("read", "time"), ("evict", "window")],
)
def test_foreign_key_drops_progress(
    redis_windows: RedisStore, raw: redis.Redis, row: int, facts: Portions, operation: str, spoilt: str
) -> None:
    """A key of another type deletes the shard's progress, which would claim missing facts."""
    question = Question(windows=((0, [row]),), times=(EVENING,))
    run: dict[str, Callable[[], object]] = {
        "write": lambda: redis_windows.write([OffsetRange(0, 10, 20)], facts),
        "read": lambda: redis_windows.read({2: question}),
        "evict": lambda: redis_windows.evict(ALL, 1, [], []),
    }
    redis_windows.begin(0, 0, 0)
    redis_windows.write([OffsetRange(0, 0, 10)], facts)
    raw.set(KEYS.window(2, row) if spoilt == "window" else KEYS.time(2, EVENING), "someone else's")
    with pytest.raises(StoreError, match="Delete all keys") as refusal:
        run[operation]()
    # The facts under the key are missing too, so the shard is read again, even after someone deletes the key.
    assert redis_windows.read_progress()[2] == {}
    assert KEYS.tag(2) in str(refusal.value)
    assert ":w:" not in str(refusal.value)
    assert ":t:" not in str(refusal.value)


@pytest.mark.promise(6)
@pytest.mark.parametrize("spoilt", ["window", "time"])
def test_foreign_key_without_client(
    redis_windows: RedisStore,
    raw: redis.Redis,
    row: int,
    facts: Portions,
    spoilt: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A write to a key of another type does not advance progress, even if the client dies at once."""

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    redis_windows.begin(0, 0, 0)
    raw.set(KEYS.window(2, row) if spoilt == "window" else KEYS.time(2, EVENING), "someone else's")
    with monkeypatch.context() as patch:
        patch.setattr(redis_windows, "_raise_failure", die)
        with pytest.raises(KeyboardInterrupt):
            redis_windows.write([OffsetRange(0, 0, 10)], facts)
    assert redis_windows.read_progress()[2] == {0: 0}


def test_foreign_meta_key(redis_windows: RedisStore, raw: redis.Redis) -> None:
    """If the meta key has another type, every operation raises an error."""
    raw.set(KEYS.meta(2), "someone else's")
    for attempt in (
        redis_windows.read_progress,
        lambda: redis_windows.begin(0, 0, 0),
        lambda: redis_windows.restart(0, 0, 0),
        lambda: redis_windows.write([OffsetRange(0, 0, 1)], {}),
        lambda: redis_windows.read({2: Question()}),
        lambda: redis_windows.evict(ALL, 1, [], []),
    ):
        with pytest.raises(StoreError, match="has data of another program"):
            attempt()
    assert raw.get(KEYS.meta(2)) == b"someone else's"


@pytest.mark.parametrize("member", [b"short", b"\x00\x00\xff\xff" + ANN])
def test_foreign_members(redis_windows: RedisStore, raw: redis.Redis, member: bytes) -> None:
    """Members in another format are refused."""
    raw.sadd(KEYS.time(2, EVENING), member)
    with pytest.raises(StoreError, match="designated time's set"):
        redis_windows.read({2: Question(times=(EVENING,))})


def test_out_of_memory(redis_windows: RedisStore, raw: redis.Redis, row: int, facts: Portions) -> None:
    """Out of memory, no progress advances and no part of a batch is written."""
    redis_windows.begin(0, 0, 0)
    with change_setting(raw, "maxmemory", "1"):
        with pytest.raises(UnreachableError, match="out of memory"):
            redis_windows.write([OffsetRange(0, 0, 10)], facts)
        with pytest.raises(UnreachableError, match="out of memory"):
            redis_windows.write([OffsetRange(0, 0, 10)], {})
        assert redis_windows.read_progress() == [{0: 0}] * 4
    assert redis_windows.read({2: Question(windows=((0, [row]),))})[2].counts[0].tolist() == [0]
    assert redis_windows.write([OffsetRange(0, 0, 10)], facts) == {0: 10}


def test_evict_when_out_of_memory(redis_windows: RedisStore, raw: redis.Redis, row: int, facts: Portions) -> None:
    """Out of memory, eviction still frees memory, and records it."""
    redis_windows.begin(0, 0, 0)
    redis_windows.write([OffsetRange(0, 0, 10)], facts)
    with change_setting(raw, "maxmemory", "1"):
        redis_windows.evict(ALL, 6, [EVENING], [])
    reading = redis_windows.read({2: Question(windows=((0, [row]),))})[2]
    assert (reading.counts[0][0], reading.evicted_before, reading.times_evicted_until) == (0, 6, EVENING)
    assert not raw.exists(KEYS.time(2, EVENING))


def test_failed_eviction_is_recorded(
    redis_windows: RedisStore, raw: redis.Redis, parameters: Parameters, facts: Portions
) -> None:
    """A failed eviction is recorded.

    The last window has another type, so the others were evicted when the script stops.
    """
    redis_windows.begin(0, 0, 0)
    redis_windows.write([OffsetRange(0, 0, 10)], facts)
    raw.set(KEYS.window(2, int(parameters.registry.by_shard[2][-1])), "someone else's")
    with pytest.raises(StoreError, match="has data of another program"):
        redis_windows.evict([2], 6, [], [])
    assert redis_windows.read({2: Question()})[2].evicted_before == 6


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_evicting_server_is_refused(redis_windows: RedisStore, raw: redis.Redis, policy: str) -> None:
    """A server that may evict keys is refused."""
    with change_setting(raw, "maxmemory-policy", policy), pytest.raises(EvictionError) as refusal:
        redis_windows.check()
    assert policy in str(refusal.value)
    assert "CONFIG SET maxmemory-policy noeviction" in str(refusal.value)


def test_shard_is_in_one_cluster_slot(parameters: Parameters, valkey_cluster: EmbeddedValkey) -> None:
    """All keys of a shard are in one slot of a cluster."""
    with redis.Redis.from_url(valkey_cluster.url) as client:
        for name in ("tokyo", "a}b{c:*?"):
            for shard in ALL:
                keys = Keys(name, "f" * 16)
                named = [keys.meta(shard), keys.window(shard, 7), keys.time(shard, EVENING)]
                assert len({client.execute_command("CLUSTER KEYSLOT", key) for key in named}) == 1


@pytest.mark.promise(6)
@pytest.mark.parametrize("max_lead", [0, 1, 400])
def test_expiry(
    max_lead: int,
    parameters: Parameters,
    raw: redis.Redis,
    server: EmbeddedValkey,
    open_windows: Open,
    facts: Portions,
) -> None:
    """
    Progress expires after twice the time in which facts can be counted, at least an hour, and facts expire after it.

    If facts expired before the progress that claims them, a place would be called safe because nobody is counted.
    """
    if not max_lead:  # slots of a second
        parameters = replace_monitors(
            parameters, grid=replace(parameters.grid, length=SECOND), at_times=(), **{LENGTHS: ()}
        )
    parameters = replace(parameters, max_lead=max_lead)
    windows = open_windows(server, of=parameters)
    expiry = max(3_600, 2 * (parameters.history_slots + max_lead) * parameters.grid.length // SECOND)
    assert (expiry == 3_600) == (max_lead == 0)

    def as_long_as_needed() -> bool:
        lifetimes = {key: raw.ttl(key) for key in raw.scan_iter()}
        kept = {key: expiry if key.endswith(b":meta") else 2 * expiry for key in lifetimes}
        return all(kept[key] - 60 <= lifetimes[key] <= kept[key] for key in kept)

    windows.begin(0, 0, 0)
    assert as_long_as_needed()
    windows.restart(0, 0, 0)
    assert as_long_as_needed()
    windows.write([OffsetRange(0, 0, 10)], facts)
    keys = raw.keys()
    assert len(keys) == 3 * len(ALL) + len(parameters.watched_rows) + len(parameters.rows_since_ticks) + len(
        parameters.bucket_sets
    )
    assert as_long_as_needed()
    for key in keys:
        raw.expire(key, 1_000)
    for shard in ALL:
        raw.hset(KEYS.meta(shard), "renewed", 0)
    windows.evict(ALL, 0, [], [EVENING])
    assert as_long_as_needed()


@pytest.mark.promise(22)
def test_no_person_id_in_the_clear(redis_windows: RedisStore, raw: redis.Redis, parameters: Parameters) -> None:
    """No key or value contains a person id."""
    planted = "planted-person-id"
    hashed = PersonHasher(b"k" * 32)(planted)
    redis_windows.begin(0, 0, 0)
    for shard, rows in enumerate(parameters.registry.by_shard):
        row = int(rows[0])
        packed = pack_shard_facts(5, seen={row: [(hashed, 5)]}, present={EVENING: [(row, hashed)]})
        redis_windows.write([OffsetRange(0, 0, shard + 1)], {shard: packed})
    stored = b"".join(bytes(key) + bytes(raw.dump(key) or b"") for key in raw.scan_iter())
    assert hashed in stored
    assert planted.encode() not in stored


@pytest.mark.promise(8)
def test_fingerprints_are_separate(open_windows: Open, server: EmbeddedValkey, facts: Portions, row: int) -> None:
    """Another fingerprint has separate facts."""
    one, other = open_windows(server), open_windows(server, fingerprint="f" * 16)
    one.begin(0, 0, 0)
    one.write([OffsetRange(0, 0, 10)], facts)
    assert other.read_progress() == [{}, {}, {}, {}]
    assert other.read({2: Question(windows=((0, [row]),))})[2].counts[0].tolist() == [0]
    assert not other.is_empty()


def test_services_are_separate(open_windows: Open, server: EmbeddedValkey) -> None:
    """A service without keys is empty, although another service's name begins with its name."""
    open_windows(server, name="tokyo-2").begin(0, 0, 0)
    open_windows(server, name="osaka").begin(0, 0, 0)
    assert open_windows(server, name="tokyo").is_empty()
    assert open_windows(server, name="*").is_empty()
    assert not open_windows(server, name="osaka").is_empty()


def test_server_clock(redis_windows: RedisStore, raw: redis.Redis) -> None:
    """Readings and `time` have the server's clock."""
    seconds, microseconds = raw.time()
    before = seconds * SECOND + microseconds
    for now in (redis_windows.read({0: Question()})[0].time, redis_windows.time(), redis_windows.time(range(4))):
        assert before <= now <= before + 60 * SECOND


@pytest.fixture
def rows(parameters: Parameters) -> list[int]:
    """Three rows of one shard."""
    return [int(row) for row in parameters.registry.by_shard[2][:3]]


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
    stored.write([OffsetRange(0, 0, 1)], {2: pack_shard_facts(5, {rows[0]: [(b"a" * 16, 5)]})})
    key, meta = KEYS.window(2, rows[0]), KEYS.meta(2)
    full = int(raw.ttl(key))
    raw.expire(key, 60)
    stored.write([OffsetRange(0, 1, 2)], {2: pack_shard_facts(5, {rows[0]: [(b"a" * 16, 5)]})})
    assert int(raw.ttl(key)) <= 60  # the shard's hash states a recent renewal
    raw.hset(meta, "renewed", int(raw.hget(meta, "renewed") or 0) - full // 2 - 1)
    stored.write([OffsetRange(0, 2, 3)], {2: pack_shard_facts(5, {rows[0]: [(b"a" * 16, 5)]})})
    assert int(raw.ttl(key)) > full // 2


@pytest.mark.promise(6)
def test_write_renews_waiting_facts(stored: RedisStore, raw: redis.Redis, rows: list[int]) -> None:
    """Each write renews the expiry of the waiting facts, also if it adds none: they must outlive their slot."""
    stored.write([OffsetRange(0, 0, 1)], {2: pack_shard_facts(21, {rows[0]: [(b"a" * 16, 21)]})})
    key = KEYS.waiting(2)
    full = int(raw.ttl(key))
    raw.expire(key, 60)
    stored.write([OffsetRange(0, 1, 2)], {2: pack_shard_facts(20, {rows[0]: [(b"b" * 16, 20)]})})
    assert int(raw.ttl(key)) > full // 2


@pytest.mark.promise(6)
def test_evictions_renew_rarely(stored: RedisStore, raw: redis.Redis, rows: list[int]) -> None:
    """An eviction renews the expiry of all keys if an eighth of it has passed, or if the clock was set back."""
    stored.write([OffsetRange(0, 0, 1)], {2: pack_shard_facts(5, {rows[0]: [(b"a" * 16, 5)]})})
    meta = KEYS.meta(2)
    keys = [key for key in raw.scan_iter(match=f"{KEYS.tag(2)}*", count=1_000) if key != meta.encode()]
    assert KEYS.window(2, rows[0]).encode() in keys
    full, now = max(int(raw.ttl(key)) for key in keys), int(raw.hget(meta, "renewed") or 0)
    for passed, renews in ((full // 8 - 5, False), (full // 8 + 5, True), (-60, True), (0, False)):
        raw.hset(meta, "renewed", now - passed)
        for key in keys:
            raw.expire(key, 60)
        stored.evict([2], 0, [], [])
        assert {int(raw.ttl(key)) > 60 for key in keys} == {renews}

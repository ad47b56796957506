"""What windows in Redis keep to when the server fails, is flushed, is spoilt or is someone else's."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import redis

from monitor.errors import EvictionError, UnreachableError, WindowsError
from monitor.public.instants import SECOND
from monitor.public.parameters import Parameters
from monitor.tools.embedded import EmbeddedValkey, ValkeySettings
from monitor.tools.embedded.ports import LOOPBACK
from monitor.windows.facts import COMPLETE_FROM_START, Question, ShardFacts, Span
from monitor.windows.hashing import PersonHasher
from monitor.windows.keys import Keys
from monitor.windows.packing import pack_shard_facts
from monitor.windows.redis_client import RedisAddress, redis_client
from monitor.windows.redis_store import RedisWindows

ANN, BOB = b"a" * 16, b"b" * 16
EVENING = 1_767_258_000_000_000
KEYS = Keys("test", "0123456789abcdef")
ALL = range(4)
Open = Callable[..., RedisWindows]


@pytest.fixture
def row(parameters: Parameters) -> int:
    """A row of shard 2."""
    return int(parameters.registry.by_shard[2][0])


@pytest.fixture
def facts(parameters: Parameters) -> dict[int, list[ShardFacts]]:
    """In every shard, Ann at its first row: last seen in slot 5, and at a designated time."""
    firsts = [int(rows[0]) for rows in parameters.registry.by_shard]
    return {
        shard: [pack_shard_facts(5, seen={row: [(ANN, 5)]}, present={EVENING: [(row, ANN)]})]
        for shard, row in enumerate(firsts)
    }


@contextmanager
def setting(client: redis.Redis, name: str, value: str) -> Iterator[None]:
    """A server's setting, and what it was before again."""
    before = str(client.config_get(name)[name])
    client.config_set(name, value)
    try:
        yield
    finally:
        client.config_set(name, before)


def test_after_a_flush_all_begins_again_and_since_tells(
    redis_windows: RedisWindows, raw: redis.Redis, row: int, facts: dict[int, list[ShardFacts]]
) -> None:
    redis_windows.begin(0, 0, COMPLETE_FROM_START)
    redis_windows.write([Span(0, 0, 10)], facts)
    raw.flushall()
    # offsets  0 ——— 10 ——— 20
    #              flush
    assert redis_windows.progress() == [{}, {}, {}, {}]
    assert redis_windows.write([Span(0, 10, 20)], {}) == {0: -1}
    redis_windows.begin(0, 4, 7)
    reading = redis_windows.read({2: Question(windows=((row, 0),))})[2]
    assert (reading.progress, reading.complete_from, reading.counts[row, 0]) == ({0: 4}, 7, 0)


def test_flushed_scripts_are_sent_again(redis_windows: RedisWindows, raw: redis.Redis) -> None:
    redis_windows.begin(0, 0, 0)
    redis_windows.write([Span(0, 0, 1)], {})
    raw.script_flush()
    assert redis_windows.write([Span(0, 1, 2)], {}) == {0: 2}
    raw.script_flush()
    redis_windows.evict(ALL, 1, [], [])
    raw.script_flush()
    assert redis_windows.read({0: Question()})[0].progress == {0: 2}


@pytest.mark.parametrize("spoilt", ["window", "time"])
def test_data_under_a_key_of_another_type_never_lies_under_progress(
    redis_windows: RedisWindows, raw: redis.Redis, row: int, facts: dict[int, list[ShardFacts]], spoilt: str
) -> None:
    redis_windows.begin(0, 0, 0)
    redis_windows.write([Span(0, 0, 10)], facts)
    raw.set(KEYS.window(2, row) if spoilt == "window" else KEYS.time(2, EVENING), "someone else's")
    with pytest.raises(WindowsError) as refusal:
        redis_windows.write([Span(0, 10, 20)], facts)
    # The facts that were under the key are gone too: the shard is read anew, also when someone deletes the key.
    assert redis_windows.progress()[2] == {}
    assert KEYS.tag(2) in str(refusal.value)
    assert ":w:" not in str(refusal.value)
    assert ":t:" not in str(refusal.value)


@pytest.mark.parametrize("spoilt", ["window", "time"])
def test_the_transaction_itself_keeps_progress_back_though_its_client_dies_at_once(
    redis_windows: RedisWindows,
    raw: redis.Redis,
    row: int,
    facts: dict[int, list[ShardFacts]],
    spoilt: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    redis_windows.begin(0, 0, 0)
    raw.set(KEYS.window(2, row) if spoilt == "window" else KEYS.time(2, EVENING), "someone else's")
    with monkeypatch.context() as patch:
        patch.setattr(redis_windows, "_accept", die)
        with pytest.raises(KeyboardInterrupt):
            redis_windows.write([Span(0, 0, 10)], facts)
    assert redis_windows.progress()[2] == {0: 0}


@pytest.mark.parametrize("spoilt", ["window", "time"])
def test_a_key_of_another_type_is_found_by_reading(
    redis_windows: RedisWindows, raw: redis.Redis, row: int, spoilt: str
) -> None:
    redis_windows.begin(0, 0, 0)
    raw.set(KEYS.window(2, row) if spoilt == "window" else KEYS.time(2, EVENING), "someone else's")
    with pytest.raises(WindowsError, match="Delete all keys"):
        redis_windows.read({2: Question(windows=((row, 0),), times=(EVENING,))})
    assert redis_windows.progress()[2] == {}


def test_a_window_of_another_type_is_found_by_tidying(redis_windows: RedisWindows, raw: redis.Redis, row: int) -> None:
    redis_windows.begin(0, 0, 0)
    raw.set(KEYS.window(2, row), "someone else's")
    with pytest.raises(WindowsError, match="Delete all keys"):
        redis_windows.evict(ALL, 1, [], [])
    assert redis_windows.progress()[2] == {}


def test_a_meta_hash_of_another_type_stops_everything(redis_windows: RedisWindows, raw: redis.Redis) -> None:
    raw.set(KEYS.meta(2), "someone else's")
    for attempt in (
        redis_windows.progress,
        lambda: redis_windows.begin(0, 0, 0),
        lambda: redis_windows.restart(0, 0, 0),
        lambda: redis_windows.write([Span(0, 0, 1)], {}),
        lambda: redis_windows.read({2: Question()}),
        lambda: redis_windows.evict(ALL, 1, [], []),
    ):
        with pytest.raises(WindowsError, match="holds what is not ours"):
            attempt()
    assert raw.get(KEYS.meta(2)) == b"someone else's"


@pytest.mark.parametrize("member", [b"short", b"\x00\x00\xff\xff" + ANN])
def test_members_that_are_not_ours_are_refused(redis_windows: RedisWindows, raw: redis.Redis, member: bytes) -> None:
    raw.sadd(KEYS.time(2, EVENING), member)
    with pytest.raises(WindowsError, match="designated time's set"):
        redis_windows.read({2: Question(times=(EVENING,))})


def test_out_of_memory_nothing_advances_and_nothing_is_half_written(
    redis_windows: RedisWindows, raw: redis.Redis, row: int, facts: dict[int, list[ShardFacts]]
) -> None:
    redis_windows.begin(0, 0, 0)
    with setting(raw, "maxmemory", "1"):
        with pytest.raises(UnreachableError, match="out of memory"):
            redis_windows.write([Span(0, 0, 10)], facts)
        with pytest.raises(UnreachableError, match="out of memory"):
            redis_windows.write([Span(0, 0, 10)], {})
        assert redis_windows.progress() == [{0: 0}] * 4
    assert redis_windows.read({2: Question(windows=((row, 0),))})[2].counts == {(row, 0): 0}
    assert redis_windows.write([Span(0, 0, 10)], facts) == {0: 10}


def test_out_of_memory_tidying_still_frees_some_and_says_what(
    redis_windows: RedisWindows, raw: redis.Redis, row: int, facts: dict[int, list[ShardFacts]]
) -> None:
    redis_windows.begin(0, 0, 0)
    redis_windows.write([Span(0, 0, 10)], facts)
    with setting(raw, "maxmemory", "1"):
        redis_windows.evict(ALL, 6, [EVENING], [])
    reading = redis_windows.read({2: Question(windows=((row, 0),))})[2]
    assert (reading.counts[row, 0], reading.evicted_before, reading.times_evicted_until) == (0, 6, EVENING)
    assert not raw.exists(KEYS.time(2, EVENING))


def test_a_trim_that_fails_has_said_what_it_cuts(
    redis_windows: RedisWindows, raw: redis.Redis, parameters: Parameters, facts: dict[int, list[ShardFacts]]
) -> None:
    """The shard's last window is spoilt, so that the ones before it have been trimmed when the script stops."""
    redis_windows.begin(0, 0, 0)
    redis_windows.write([Span(0, 0, 10)], facts)
    raw.set(KEYS.window(2, int(parameters.registry.by_shard[2][-1])), "someone else's")
    with pytest.raises(WindowsError, match="holds what is not ours"):
        redis_windows.evict([2], 6, [], [])
    assert redis_windows.read({2: Question()})[2].evicted_before == 6


def test_a_replica_is_refused_and_named_as_one(valkey: EmbeddedValkey, open_windows: Open) -> None:
    port = valkey.url.removesuffix("/0").rpartition(":")[2]
    with EmbeddedValkey(ValkeySettings(arguments=("--replicaof", LOOPBACK, port))) as replica:
        windows = open_windows(replica)
        with pytest.raises(UnreachableError, match="replica"):
            windows.write([Span(0, 0, 10)], {0: [pack_shard_facts(5, seen={0: [(ANN, 5)]})]})
        with pytest.raises(UnreachableError, match="replica"):
            windows.begin(0, 0, 0)


def test_a_server_that_is_gone_is_unreachable_and_found_again(open_windows: Open) -> None:
    with EmbeddedValkey(ValkeySettings(appendonly=True)) as server:
        windows = open_windows(server)
        windows.begin(0, 0, 0)
        windows.write([Span(0, 0, 10)], {})
        server.restart()
        assert windows.write([Span(0, 10, 20)], {}) == {0: 20}
        server.stop()
        with pytest.raises(UnreachableError, match="cannot be reached"):
            windows.write([Span(0, 20, 30)], {})
        with pytest.raises(UnreachableError, match="cannot be reached"):
            windows.check()
        with pytest.raises(UnreachableError, match="cannot be reached"):
            windows.empty()


def test_a_cluster_that_is_gone_is_unreachable() -> None:
    with EmbeddedValkey(ValkeySettings(cluster=True)) as server:
        url = server.url
    with pytest.raises(UnreachableError, match="Redis cluster"):
        redis_client(RedisAddress(url, cluster=True))


def test_a_wrong_password_is_told_without_the_password(parameters: Parameters) -> None:
    with EmbeddedValkey(ValkeySettings(arguments=("--requirepass", "the-right-one"))) as server:
        wrong, right = "hunter2", "the-right-one"
        address = RedisAddress(server.url, password=wrong)
        windows = RedisWindows(parameters, "f" * 16, redis_client(address))
        with pytest.raises(UnreachableError, match="refused these") as refusal:
            windows.check()
        windows.close()
        assert wrong not in "".join(traceback.format_exception(refusal.value))
        assert wrong not in repr(address)
        windows = RedisWindows(parameters, "f" * 16, redis_client(replace(address, password=right)))
        windows.check()
        windows.close()


def test_a_command_that_the_user_may_not_run_is_named_without_what_it_held(
    parameters: Parameters, valkey: EmbeddedValkey, facts: dict[int, list[ShardFacts]]
) -> None:
    with redis.Redis.from_url(valkey.url) as client:
        client.flushall()
        client.acl_setuser(
            "reader", enabled=True, passwords=["+secret"], categories=["+@all"], commands=["-zadd"], keys=["*"]
        )
        windows = RedisWindows(parameters, "f" * 16, redis_client(RedisAddress(valkey.url, "reader", "secret")))
        windows.begin(0, 0, 0)
        with pytest.raises(WindowsError, match="NOPERM") as refusal:
            windows.write([Span(0, 0, 10)], facts)
        assert windows.progress() == [{0: 0}] * 4
        windows.close()
        client.acl_deluser("reader")
    assert "aaaa" not in "".join(traceback.format_exception(refusal.value))


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_server_that_may_evict_is_refused(redis_windows: RedisWindows, raw: redis.Redis, policy: str) -> None:
    with setting(raw, "maxmemory-policy", policy), pytest.raises(EvictionError) as refusal:
        redis_windows.check()
    assert policy in str(refusal.value)
    assert "CONFIG SET maxmemory-policy noeviction" in str(refusal.value)


def test_all_keys_of_a_shard_lie_in_one_slot_of_a_cluster(
    parameters: Parameters, valkey_cluster: EmbeddedValkey
) -> None:
    with redis.Redis.from_url(valkey_cluster.url) as client:
        for name in ("tokyo", "a}b{c:*?"):
            for shard in ALL:
                keys = Keys(name, "f" * 16)
                named = [keys.meta(shard), keys.window(shard, 7), keys.time(shard, EVENING)]
                assert len({client.execute_command("CLUSTER KEYSLOT", key) for key in named}) == 1


@pytest.mark.parametrize("max_lead", [1, 400])
def test_progress_expires_after_twice_what_may_be_asked_about_and_facts_after_it(
    max_lead: int,
    parameters: Parameters,
    raw: redis.Redis,
    server: EmbeddedValkey,
    open_windows: Open,
    facts: dict[int, list[ShardFacts]],
) -> None:
    """A fact of F slots ahead is asked about F slots longer; tidying renews all, and writing what it touches.

    Were facts gone before the progress that claims them, a place would be called safe for nobody's being there.
    """
    windows = open_windows(server, of=replace(parameters, max_lead=max_lead))
    expiry = 2 * (parameters.history_slots + max_lead) * parameters.grid.length // SECOND

    def as_long_as_needed() -> bool:
        lifetimes = {key: raw.ttl(key) for key in raw.scan_iter()}
        kept = {key: expiry if key.endswith(b":meta") else 2 * expiry for key in lifetimes}
        return all(kept[key] - 60 <= lifetimes[key] <= kept[key] for key in kept)

    windows.begin(0, 0, 0)
    assert as_long_as_needed()
    windows.restart(0, 0, 0)
    assert as_long_as_needed()
    windows.write([Span(0, 0, 10)], facts)
    keys = raw.keys()
    assert len(keys) == 3 * len(ALL)
    assert as_long_as_needed()
    for key in keys:
        raw.expire(key, 1_000)
    windows.evict(ALL, 0, [], [EVENING])
    assert as_long_as_needed()


def test_an_expiry_is_an_hour_at_least(
    parameters: Parameters, raw: redis.Redis, server: EmbeddedValkey, open_windows: Open
) -> None:
    windows = open_windows(server, of=replace(parameters, grid=replace(parameters.grid, length=SECOND), at_times=()))
    windows.begin(0, 0, 0)
    assert all(3_540 <= raw.ttl(key) <= 3_600 for key in raw.scan_iter())


def test_no_person_id_is_stored_in_the_clear(
    redis_windows: RedisWindows, raw: redis.Redis, parameters: Parameters
) -> None:
    planted = "planted-person-id"
    hashed = PersonHasher(b"k" * 32)(planted)
    redis_windows.begin(0, 0, 0)
    for shard, rows in enumerate(parameters.registry.by_shard):
        row = int(rows[0])
        found = pack_shard_facts(5, seen={row: [(hashed, 5)]}, present={EVENING: [(row, hashed)]})
        redis_windows.write([Span(0, 0, shard + 1)], {shard: [found]})
    stored = b"".join(bytes(key) + bytes(raw.dump(key) or b"") for key in raw.scan_iter())
    assert hashed in stored
    assert planted.encode() not in stored


def test_another_fingerprint_is_another_set_of_facts(
    open_windows: Open, server: EmbeddedValkey, facts: dict[int, list[ShardFacts]], row: int
) -> None:
    one, other = open_windows(server), open_windows(server, fingerprint="f" * 16)
    one.begin(0, 0, 0)
    one.write([Span(0, 0, 10)], facts)
    assert other.progress() == [{}, {}, {}, {}]
    assert other.read({2: Question(windows=((row, 0),))})[2].counts == {(row, 0): 0}
    assert not other.empty()


def test_a_service_is_empty_next_to_one_with_a_longer_name(open_windows: Open, server: EmbeddedValkey) -> None:
    open_windows(server, name="tokyo-2").begin(0, 0, 0)
    open_windows(server, name="osaka").begin(0, 0, 0)
    assert open_windows(server, name="tokyo").empty()
    assert open_windows(server, name="*").empty()
    assert not open_windows(server, name="osaka").empty()


def test_the_time_is_the_servers(redis_windows: RedisWindows, raw: redis.Redis) -> None:
    seconds, microseconds = raw.time()
    before = seconds * SECOND + microseconds
    for now in (redis_windows.read({0: Question()})[0].time, redis_windows.time(), redis_windows.time(range(4))):
        assert before <= now <= before + 60 * SECOND

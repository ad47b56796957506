"""The memory of Redis on every kind of server: of the server, and of our keys, compared with a sum over all keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest
import redis

from monitor.contracts.parameters import Parameters
from monitor.errors import UnreachableError
from monitor.observe.metrics import Metrics
from monitor.service.memory_watch import EVERY_SECONDS, MemoryWatch
from monitor.store import memory_usage
from monitor.store.facts import Span
from monitor.store.memory_usage import MemoryProbe
from monitor.store.packing import pack_shard_facts
from monitor.store.redis_client import RedisAddress, create_client
from monitor.store.redis_store import RedisWindows
from monitor.tools.servers import EmbeddedValkey
from tests.store.conftest import FINGERPRINT

USER = "without-memory-usage"
PEOPLE = 300


def _make_address(server: EmbeddedValkey, **more: str) -> RedisAddress:
    with redis.Redis.from_url(server.url) as client:
        cluster = bool(client.info("cluster")["cluster_enabled"])
    return RedisAddress(server.url, cluster=cluster, **more)


@pytest.fixture
def open_probe(server: EmbeddedValkey, parameters: Parameters) -> Iterator[Callable[[], MemoryProbe]]:
    """A function that opens a probe of the server with a seeded sample."""
    opened: list[MemoryProbe] = []

    def open_one() -> MemoryProbe:
        opened.append(MemoryProbe(parameters, FINGERPRINT, create_client(_make_address(server)), Random(1)))
        return opened[-1]

    yield open_one
    for probe in opened:
        probe.close()


def _fill(windows: RedisWindows, raw: redis.Redis, parameters: Parameters) -> int:
    """Write people to some rows and wait facts, and return the bytes of all keys of the service by Redis itself."""
    draw, registry = Random(2), parameters.registry
    slot = parameters.grid.find_slot(windows.time())
    windows.begin(0, 0, slot - 10)
    for number, row in enumerate((3, 8, 21, 39)):
        people = [(draw.randbytes(16), slot - 1) for _ in range(PEOPLE >> number)]
        windows.write(
            [Span(0, number, number + 1)], {int(registry.shard[row]): [pack_shard_facts(slot, {row: people})]}
        )
    windows.open(range(registry.shards), slot)  # moves the facts into the rows
    raw.set("another program", "x" * 1_000)
    keys = list(raw.scan_iter(match="{test:*"))
    return sum(int(raw.memory_usage(key) or 0) for key in keys)


def test_estimate_from_all_keys_is_exact(
    open_probe: Callable[[], MemoryProbe], redis_windows: RedisWindows, raw: redis.Redis, parameters: Parameters
) -> None:
    """If no kind has more keys than the sample, the estimate is the sum over all keys of the service, by Redis."""
    probe = open_probe()
    assert probe.estimate_keys() == 0
    wanted = _fill(redis_windows, raw, parameters)
    assert probe.estimate_keys() == pytest.approx(wanted, rel=0.02)  # Redis itself samples large sets


def test_sample_estimates_the_sum(
    open_probe: Callable[[], MemoryProbe],
    redis_windows: RedisWindows,
    raw: redis.Redis,
    parameters: Parameters,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Samples of two shards and some of their rows have the sum over all keys as their mean."""
    wanted, probe = _fill(redis_windows, raw, parameters), open_probe()
    monkeypatch.setattr(memory_usage, "MOST_SHARDS", 2)
    monkeypatch.setattr(memory_usage, "MOST_KEYS", 6)
    looks = [probe.estimate_keys() for _ in range(400)]
    assert len(set(looks)) > 10
    assert sum(looks) / len(looks) == pytest.approx(wanted, rel=0.15)


def test_servers_report_use_and_limit(open_probe: Callable[[], MemoryProbe], raw: redis.Redis) -> None:
    """The memory that a server uses and its limit are those of Redis; no limit is 0."""
    ((_, server),) = open_probe().read_servers().items()
    assert server.used == pytest.approx(raw.info("memory")["used_memory"], rel=0.2)
    assert server.limit == 0
    raw.config_set("maxmemory", "200mb")
    try:
        ((_, server),) = open_probe().read_servers().items()
        assert server.limit == 200 * 2**20
    finally:
        raw.config_set("maxmemory", "0")


@pytest.mark.parametrize("server", ["valkey", "redis"], indirect=True)
def test_missing_permission_leaves_out_the_keys(
    server: EmbeddedValkey, raw: redis.Redis, parameters: Parameters
) -> None:
    """A user without MEMORY USAGE gets the memory of the server, and is refused only once."""
    raw.execute_command("ACL", "SETUSER", USER, "on", f">{USER}", "~*", "+@all", "-memory")  # type: ignore[no-untyped-call]  # redis-py
    raw.acl_log_reset()
    now, metrics = [0.0], Metrics()

    def open_one() -> MemoryProbe:
        return MemoryProbe(parameters, FINGERPRINT, create_client(_make_address(server, username=USER, password=USER)))

    watch = MemoryWatch(open_one, metrics, lambda: now[0])
    try:
        for _ in range(3):
            assert watch.look()
            assert not watch.look()
            now[0] += EVERY_SECONDS
        assert _read_samples(metrics) == {"location_monitor_redis_used_bytes"}
        refused = [entry for entry in raw.acl_log() if "memory" in str(entry["object"])]
        assert len(refused) == 1
        assert str(refused[0]["count"]) == "1"
    finally:
        watch.close()
        raw.acl_deluser(USER)


def test_values_disappear_with_redis(open_probe: Callable[[], MemoryProbe]) -> None:
    """If Redis does not answer, and after the watch is closed, no value stays."""
    now, metrics, answers = [0.0], Metrics(), [True]
    probe = open_probe()

    def open_one() -> MemoryProbe:
        if not answers[0]:
            raise UnreachableError("Redis is gone")
        return probe

    watch = MemoryWatch(open_one, metrics, lambda: now[0])
    assert watch.look()
    assert _read_samples(metrics) == {"location_monitor_redis_used_bytes", "location_monitor_redis_keys_bytes"}
    watch.close()
    assert _read_samples(metrics) == set()
    answers[0] = False
    gone = MemoryWatch(open_one, metrics, lambda: now[0])
    assert gone.look()
    assert _read_samples(metrics) == set()


def _read_samples(metrics: Metrics) -> set[str]:
    """Return the names of the present series about Redis."""
    families = (family for family in metrics.registry.collect() if "_redis_" in family.name)
    return {sample.name for family in families for sample in family.samples}

"""A small configuration, and every store of windows for it: memory, Valkey, Redis and a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import pytest
import redis

from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.parameters import Parameters
from monitor.kinds.upper_bound.keys_and_parameters import UpperBound
from monitor.operate.servers import EmbeddedValkey
from monitor.privacy.over_time import OverTimeRule
from monitor.privacy.upper_bound import BucketRule
from monitor.store.redis_client import RedisAddress, create_client
from monitor.store.redis_store import RedisStore
from monitor.time.clock import SteppedClock
from monitor.time.instants import DAY
from monitor.time.schedule import Schedule
from tests.builders import build_parameters, watch
from tests.kinds.examples import measure_lengths
from tests.store.memory import MemoryWindows

SERVERS = {"valkey": "valkey", "redis": "redis_server", "cluster": "valkey_cluster"}
FINGERPRINT = "0123456789abcdef"


@pytest.fixture(scope="session")
def parameters() -> Parameters:
    """Forty locations in four shards, and one designated time per day, whose visits are measured.

    All are watched over six slots, with two answers per window, and by upper bounds with buckets of two slots.
    """
    stations = watch("stations", range(40), OverTimeRule(Fraction(1), 2, 3, 6, 1))
    evening = AtTimes("evening", Schedule.of(("18:00",), "Asia/Tokyo"), Fraction(1), 3, 2 * DAY)
    lengths = measure_lengths(evening.times, evening.horizon)
    built = build_parameters(40, shards=4, max_lead=1, over_time=[stations], at_times=[evening], name="test")
    curve = UpperBound("curve", tuple(range(40)), (BucketRule(Fraction(1), 2, 4, 1),) * 40)
    return replace(built, monitors=(*built.monitors, lengths, curve))


@pytest.fixture
def clock(parameters: Parameters) -> SteppedClock:
    """A clock that stands at the origin of the slot grid."""
    return SteppedClock(parameters.grid.origin)


@pytest.fixture(params=sorted(SERVERS))
def server(request: pytest.FixtureRequest) -> EmbeddedValkey:
    """An empty server of each kind: Valkey, Redis and a cluster."""
    started: EmbeddedValkey = request.getfixturevalue(SERVERS[request.param])
    with redis.Redis.from_url(started.url) as client:
        client.flushall()
    return started


@pytest.fixture
def raw(server: EmbeddedValkey) -> Iterator[redis.Redis]:
    """A plain client of the server, to read and to corrupt the stored data."""
    with redis.Redis.from_url(server.url) as client:
        yield client


@pytest.fixture
def open_windows(parameters: Parameters) -> Iterator[Callable[..., RedisStore]]:
    """A function that opens windows, which are closed later: `open_windows(server, name="osaka")`."""
    opened: list[RedisStore] = []

    def open_one(
        on: EmbeddedValkey,
        of: Parameters = parameters,
        fingerprint: str = FINGERPRINT,
        name: str = "test",
        clock: SteppedClock | None = None,
    ) -> RedisStore:
        with redis.Redis.from_url(on.url) as client:
            cluster = bool(client.info("cluster")["cluster_enabled"])
        address = RedisAddress(on.url, cluster=cluster)
        windows = RedisStore(
            replace(of, name=name), fingerprint, create_client(address), None if clock is None else clock.now
        )
        opened.append(windows)
        return windows

    yield open_one
    for windows in opened:
        windows.close()


@pytest.fixture
def redis_windows(open_windows: Callable[..., RedisStore], server: EmbeddedValkey) -> RedisStore:
    """Windows in an empty server of each kind."""
    return open_windows(server)


@pytest.fixture(params=["memory", *sorted(SERVERS)])
def windows(request: pytest.FixtureRequest, parameters: Parameters, clock: SteppedClock) -> RedisStore:
    """An empty store of each kind, on the stepped clock."""
    if request.param == "memory":
        return MemoryWindows(parameters, clock)
    started: EmbeddedValkey = request.getfixturevalue(SERVERS[request.param])
    with redis.Redis.from_url(started.url) as client:
        client.flushall()
    opened: RedisStore = request.getfixturevalue("open_windows")(started, parameters, clock=clock)
    return opened

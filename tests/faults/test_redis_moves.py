"""A running service on a Redis Cluster that moves its shards from server to server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from monitor.operate.servers import EmbeddedValkey, ValkeySettings
from tests.faults.conftest import MakeTown
from tests.faults.oracles import settle
from tests.faults.town import FaultTown, Shape
from tests.kit.waiting import until
from tests.needed_programs import find_program
from tests.redis_cluster import SLOTS, Move, connect, join_nodes, read_node_id
from tests.shared_kafka import SharedKafka

HALVES: Final = (range(SLOTS // 2), range(SLOTS // 2, SLOTS))


@pytest.fixture(params=["valkey, atomic", "redis"])
def nodes(request: pytest.FixtureRequest) -> Iterator[tuple[list[EmbeddedValkey], bool]]:
    """A cluster of two servers, and whether it moves slots as a whole."""
    binary = Path(find_program("redis-server", "Redis")) if request.param == "redis" else None
    settings = ValkeySettings(cluster=True, binary=binary)
    with ExitStack() as stack:
        started = [stack.enter_context(EmbeddedValkey(settings)) for _ in HALVES]
        join_nodes(started, HALVES)
        yield started, request.param.endswith("atomic")


def find_moves(clients: list[Any]) -> Iterator[Move]:
    """Yield the move of each slot with a shard to the other server."""
    for source, target in (clients, clients[::-1]):
        metas = list(source.scan_iter(match="*:meta", count=1_000))
        for slot in sorted({int(source.execute_command("CLUSTER KEYSLOT", key)) for key in metas}):
            yield Move(source, target, slot)


def move_classic(move: Move, town: FaultTown, *, slowly: bool) -> None:
    """Move a slot key by key. `slowly`: stop in the middle until two more ticks have been answered."""
    move.begin()
    for number, key in enumerate(move.list_keys()):
        if slowly and number == 3:
            town.subscriber.wait_tick(town.subscriber.wait_new())
        move.move(key)
    move.finish()


def move_atomically(move: Move) -> None:
    """Move a slot as a whole."""
    move.begin_as_a_whole()
    until(lambda: move.slot in list_slots(move.target), 30, "the slot has moved")


def list_slots(client: Any) -> set[int]:
    """Return the slots of a server, by itself."""
    own = read_node_id(client)
    return {
        slot
        for first, last, primary, *_ in client.execute_command("CLUSTER SLOTS")
        if primary[2].decode() == own
        for slot in range(first, last + 1)
    }


@pytest.mark.promise(1)
@pytest.mark.promise(6)
def test_service_during_moves(
    kafka: SharedKafka, nodes: tuple[list[EmbeddedValkey], bool], make_town: MakeTown
) -> None:
    """While each shard moves, no answer is false, and afterwards no fact is missing.

    server 1  ├── shards a, b ──┤ a, b move, one after another ├── shards c, d ──┤
    server 2  ├── shards c, d ──┤ c, d move                    ├── shards a, b ──┤
    answers   ├── known ────────┤ known or unknown             ├── known ────────┤
    """
    servers, atomic = nodes
    town = make_town(kafka.bootstrap_servers, servers[0].url, Shape(inputs=1, ledger_partitions=1, cluster=True))
    instance = town.start()
    town.subscriber.wait_complete()
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(server)) for server in servers]
        moves = list(find_moves(clients))
        assert len(moves) > 1
        for number, move in enumerate(moves):
            if atomic:
                move_atomically(move)
            else:
                move_classic(move, town, slowly=number == 0)
            town.subscriber.wait_new()
    town.subscriber.wait_complete(60)
    verdict = settle(town, instance)
    assert verdict.broken == []
    assert verdict.count("safe") > 0

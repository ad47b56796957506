"""A Redis Cluster of a few nodes, and the moves of its hash slots, key by key, as redis-cli makes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import redis

from monitor.operate.servers import EmbeddedValkey
from tests.kit.waiting import until
from tests.needed_programs import report_missing

SLOTS: Final = 16_384
_MIGRATE_MS: Final = 5_000


@contextmanager
def connect(node: EmbeddedValkey) -> Iterator[Any]:
    """Open a client of one node without types, because redis-py declares every response as possibly awaitable."""
    with closing(redis.Redis.from_url(node.url)) as client:
        yield client


def join_nodes(nodes: Sequence[EmbeddedValkey], ranges: Sequence[range]) -> None:
    """Join single nodes to one cluster. Each gets a range of slots, or none if its range is empty."""
    first = urlsplit(nodes[0].url)
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(node)) for node in nodes]
        bus = clients[0].config_get("cluster-port")["cluster-port"]
        for number, (client, slots) in enumerate(zip(clients, ranges, strict=True)):
            client.execute_command("CLUSTER RESET", "HARD")
            client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
            if slots:
                client.execute_command("CLUSTER ADDSLOTSRANGE", slots[0], slots[-1])
        for client in clients[1:]:
            client.execute_command("CLUSTER MEET", first.hostname, first.port, bus)
        until(lambda: all(_is_joined(client, len(nodes)) for client in clients), 20, "the nodes are one cluster")


def _is_joined(client: Any, nodes: int) -> bool:
    info = client.cluster("INFO")
    return (info["cluster_state"], info["cluster_known_nodes"], info["cluster_slots_assigned"]) == (
        "ok",
        str(nodes),
        str(SLOTS),
    )


def read_node_id(client: Any) -> str:
    """Return the id of a node."""
    return str(client.cluster("MYID").decode())


@dataclass(frozen=True)
class Move:
    """The move of one slot from one node to another. `source` and `target` are clients."""

    source: Any
    target: Any
    slot: int

    def begin(self) -> None:
        """Mark the slot as moving at both nodes."""
        self.target.execute_command("CLUSTER SETSLOT", self.slot, "IMPORTING", read_node_id(self.source))
        self.source.execute_command("CLUSTER SETSLOT", self.slot, "MIGRATING", read_node_id(self.target))

    def begin_as_a_whole(self) -> None:
        """Order the source to move the slot as a whole. Servers other than Valkey 9 cannot: skip the test."""
        order = ("MIGRATESLOTS", "SLOTSRANGE", self.slot, self.slot, "NODE", read_node_id(self.target))
        try:
            self.source.execute_command("CLUSTER", *order)
        except redis.ResponseError as error:
            if "unknown subcommand" not in str(error):
                raise
            report_missing(f"Valkey 9 ({error})", "remove LOCATION_MONITOR_VALKEY")

    def list_keys(self) -> list[str]:
        """Return the keys of the slot at the source, in the order in which redis-cli moves them."""
        keys: list[str] = self.source.execute_command("CLUSTER GETKEYSINSLOT", self.slot, 10_000)
        return keys

    def move(self, key: str, *options: str) -> None:
        """Move one key."""
        options_of_target = self.target.connection_pool.connection_kwargs
        host, port = options_of_target["host"], options_of_target["port"]
        self.source.execute_command("MIGRATE", host, port, key, 0, _MIGRATE_MS, *options)

    def finish(self) -> None:
        """Give the slot to the target. The other nodes learn it by themselves."""
        for client in (self.target, self.source):
            client.execute_command("CLUSTER SETSLOT", self.slot, "NODE", read_node_id(self.target))

    def break_off(self) -> None:
        """Leave the slot to the source. Keys that have moved stay at the target."""
        for client in (self.target, self.source):
            client.execute_command("CLUSTER SETSLOT", self.slot, "STABLE")

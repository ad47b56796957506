"""Three brokers and a Redis Cluster of three servers: the same work and the same recount as on single servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import redis

from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey, NodeSettings, ValkeySettings
from simulators.bench.bench import Bench
from simulators.bench.instances import WRONG, measure_instances
from simulators.bench.line import Measured, Target
from simulators.bench.site import wait_for

_NODES: Final = 3
_SLOTS: Final = 16_384
_NODE: Final = ValkeySettings(appendonly=True, cluster=True)


class ClusterLine:
    """A backlog that two instances read from three brokers into a Redis Cluster."""

    name = "cluster"
    work = "two instances on three brokers (three replicas) and a Redis Cluster of three servers"
    goal = "throughput shown; the recount finds the same answers"
    targets = (Target(WRONG, most=0),)

    def measure(self, bench: Bench) -> Measured:
        """Start six servers, and read a backlog as the line `instances` does."""
        with start_brokers(bench) as kafka, start_redis_cluster() as url:
            found = measure_instances(bench, 2, "cluster", (kafka, url), replicas=_NODES, cluster=True)
        return Measured({"2 instances (visits/s)": found["rate"], WRONG: found["wrong"]})


@contextmanager
def start_brokers(bench: Bench) -> Iterator[str]:
    """Start two more brokers, and yield the addresses of all three."""
    with ExitStack() as stack:
        first = bench.kafka
        more = [
            stack.enter_context(EmbeddedKafka(NodeSettings(node_id=number, quorum=first.quorum)))
            for number in range(2, _NODES + 1)
        ]
        yield ",".join(broker.bootstrap_servers for broker in (first, *more))


@contextmanager
def start_redis_cluster() -> Iterator[str]:
    """Start a cluster of three servers, each with a third of the hash slots, and yield the address of one."""
    with ExitStack() as stack:
        nodes = [stack.enter_context(EmbeddedValkey(_NODE)) for _ in range(_NODES)]
        # redis-py declares every answer as possibly awaitable, so the clients have no type.
        clients: list[Any] = [stack.enter_context(closing(redis.Redis.from_url(node.url))) for node in nodes]
        _join(nodes, clients)
        yield nodes[0].url


def _join(nodes: Sequence[EmbeddedValkey], clients: Sequence[Any]) -> None:
    """Divide the hash slots among the nodes, and introduce the nodes to each other."""
    address = urlsplit(nodes[0].url)
    bus = clients[0].config_get("cluster-port")["cluster-port"]
    for number, client in enumerate(clients):
        client.execute_command("CLUSTER RESET", "HARD")
        client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
        first, beyond = _SLOTS * number // _NODES, _SLOTS * (number + 1) // _NODES
        client.execute_command("CLUSTER ADDSLOTSRANGE", first, beyond - 1)
    for client in clients[1:]:
        client.execute_command("CLUSTER MEET", address.hostname, address.port, bus)
    wait_for(lambda: all(_is_joined(client) for client in clients), "the Redis Cluster is complete", 30)


def _is_joined(client: Any) -> bool:
    info = client.cluster("INFO")
    return bool(info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == _NODES)


LINES: Final = (ClusterLine(),)

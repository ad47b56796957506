"""End offsets with a follower that lags: records that are stamped but not copied yet are before them.

Broker 2 leads the input, and broker 1 follows it through a forwarder, which the test turns away. Broker 1 stays in sync
for a minute all the same, so the high watermark does not move. Broker 1 has the ledger and the controller.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from kafka import TopicPartition

from monitor.kafka.connections import KafkaConnections
from monitor.operate.servers import EmbeddedKafka, NodeSettings
from monitor.operate.servers.kafka import Quorum
from monitor.ticks.input_topic import InputTopic
from tests.conftest import Eventually
from tests.kit.network import Forwarder, find_free_ports
from tests.kit.topics import create_topic
from tests.topic_fixtures import read_topic_id

IN_SYNC_MS = "60000"
NOBODY = ("127.0.0.1", 1)


def make_settings(node: int, ports: dict[str, int], advertised: int, quorum: Quorum) -> NodeSettings:
    """Return the settings of a broker with a separate port for its followers."""
    own = f"PLAINTEXT://127.0.0.1:{ports['client']},REPLICATION://127.0.0.1:{ports['replication']}"
    properties = {
        "process.roles": "broker,controller" if "controller" in ports else "broker",
        "listeners": own + (f",CONTROLLER://127.0.0.1:{ports['controller']}" if "controller" in ports else ""),
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{ports['client']},REPLICATION://127.0.0.1:{advertised}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "REPLICATION",
        "replica.lag.time.max.ms": IN_SYNC_MS,
    }
    return NodeSettings(properties, port=ports["client"], node_id=node, quorum=quorum)


@pytest.fixture
def brokers() -> Iterator[tuple[KafkaConnections, Forwarder, tuple[str, int]]]:
    """Connections to two brokers, the forwarder from the input's leader to its follower, and the leader's address."""
    numbers = find_free_ports(5)
    first = dict(zip(("client", "replication", "controller"), numbers[:3], strict=True))
    second = dict(zip(("client", "replication"), numbers[3:], strict=True))
    quorum, leader = Quorum("Zm9sbG93LXRoZS1sZWFkZXI", f"1@127.0.0.1:{first['controller']}"), ("127.0.0.1", numbers[4])
    forwarder = Forwarder(leader)
    with ExitStack() as stack:
        stack.callback(forwarder.close)
        one = stack.enter_context(EmbeddedKafka(make_settings(1, first, first["replication"], quorum)))
        stack.enter_context(EmbeddedKafka(make_settings(2, second, forwarder.port, quorum)))
        yield KafkaConnections((one.bootstrap_servers,)), forwarder, leader


def read_watermark(connections: KafkaConnections, topic: str) -> int:
    """Return the high watermark."""
    place = TopicPartition(topic, 0)
    with closing(connections.create_consumer(isolation_level="read_uncommitted")) as consumer:
        return int(consumer.end_offsets([place])[place])


def produce(connections: KafkaConnections, topic: str, records: int, acks: str | int) -> None:
    """Produce records that the leader or all in-sync replicas acknowledge."""
    with closing(connections.create_producer(acks=acks, enable_idempotence=acks == "all")) as producer:
        for sent in [producer.send(topic, value=b"x", partition=0) for _ in range(records)]:
            sent.get(timeout=10)


@pytest.mark.promise(5)
def test_end_offset_is_leaders_log_end(
    brokers: tuple[KafkaConnections, Forwarder, tuple[str, int]], eventually: Eventually
) -> None:
    """
    The end offset is the log end offset of the leader.

    The follower stops after three records, and the leader acknowledges two more.

        offset         0  1  2  3  4
        follower       x  x  x           high watermark 3
        leader         x  x  x  x  x     end offset 5
    """
    connections, forwarder, leader = brokers
    create_topic(connections, "ledger")
    with ExitStack() as stack:
        admin = stack.enter_context(closing(connections.create_admin()))
        kept = {"min.insync.replicas": "1", "message.timestamp.type": "LogAppendTime"}
        admin.create_topics({"visits": {"assignments": {0: [2, 1]}, "configs": kept}}, wait_for_metadata=True)
        visits, ledger = (read_topic_id(admin, name) for name in ("visits", "ledger"))
        topic = stack.enter_context(closing(InputTopic(connections, "visits", visits, ("ledger", ledger))))
        produce(connections, "visits", 3, "all")
        assert topic.read_end_offsets() == {0: 3}
        forwarder.turn(NOBODY)
        produce(connections, "visits", 2, 1)
        assert read_watermark(connections, "visits") == 3
        assert topic.read_end_offsets() == {0: 5}
        forwarder.turn(leader)
        eventually(lambda: read_watermark(connections, "visits") == 5, 30)
        assert topic.read_end_offsets() == {0: 5}

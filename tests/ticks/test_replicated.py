"""End offsets with a follower that lags: a tick waits for records that are stamped but not copied yet.

Broker 2 leads the input, and broker 1 follows it through a forwarder, which the test closes. Broker 1 stays in sync for
a minute all the same, so the high watermark does not move. Broker 1 has the ledger, transactions and controller.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import pytest
from kafka import TopicPartition

from monitor.kafka.connections import KafkaConnections
from monitor.kinds.facts_and_questions import OffsetRange
from monitor.kinds.parameters import Parameters
from monitor.ledger.append_to_ledger import Writer
from monitor.operate.servers import EmbeddedKafka, NodeSettings
from monitor.operate.servers.kafka import Quorum
from monitor.records.output_records import OutputRecord
from monitor.ticks.input_topic import InputTopic
from monitor.ticks.owner import LedgerTopic
from monitor.time.clock import SystemClock
from monitor.time.instants import HOUR, MILLISECOND, SECOND
from monitor.time.slot_grid import SlotGrid
from tests.conftest import Eventually
from tests.kit.network import Forwarder, find_free_ports
from tests.kit.topics import create_topic
from tests.store.packed import pack_shard_facts
from tests.topic_fixtures import read_topic_id

IN_SYNC_MS = "60000"


class Replication:
    """The connection from broker 2 to its follower."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._forwarder = Forwarder(self._target)
        self.port = self._forwarder.port
        self.is_open = True

    def close(self) -> None:
        """Stop the follower from copying."""
        self._forwarder.close()
        self.is_open = False

    def open(self) -> None:
        """Let the follower copy again."""
        if not self.is_open:
            self._forwarder = Forwarder(self._target, self.port)
            self.is_open = True


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


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[EmbeddedKafka, Replication]]:
    """Broker 1, and the connection from broker 2 to it. Transactions begin before broker 2 starts, so 1 keeps them."""
    numbers = find_free_ports(5)
    first = dict(zip(("client", "replication", "controller"), numbers[:3], strict=True))
    second = dict(zip(("client", "replication"), numbers[3:], strict=True))
    quorum = Quorum("Zm9sbG93LXRoZS1sZWFkZXI", f"1@127.0.0.1:{first['controller']}")
    way = Replication(second["replication"])
    with ExitStack() as stack:
        stack.callback(way.close)
        one = stack.enter_context(EmbeddedKafka(make_settings(1, first, first["replication"], quorum)))
        begin_transactions(KafkaConnections((one.bootstrap_servers,)))
        stack.enter_context(EmbeddedKafka(make_settings(2, second, way.port, quorum)))
        yield one, way


def begin_transactions(connections: KafkaConnections) -> None:
    """Create the transaction topic while there is only one broker."""
    create_topic(connections, "first")
    with closing(connections.create_admin()) as admin:
        topic_id = read_topic_id(admin, "first")
    with closing(Writer(connections, "first", topic_id, 0)) as writer:
        writer.append([OutputRecord(b"", b"", (), SystemClock().now() // 1_000)])


@pytest.fixture
def kafka(brokers: tuple[EmbeddedKafka, Replication]) -> EmbeddedKafka:
    """The bootstrap broker."""
    return brokers[0]


@pytest.fixture
def replication(brokers: tuple[EmbeddedKafka, Replication]) -> Iterator[Replication]:
    """The connection from the input's leader to its follower. It is open before and after each test."""
    yield brokers[1]
    brokers[1].open()


@pytest.fixture
def make_topic(admin: Any, topic: Callable[[str], str]) -> Callable[..., tuple[str, str]]:
    """A function that makes topics. Broker 2 leads the visits, broker 1 follows; other topics are on broker 1 only."""

    def make(label: str, partitions: int = 1) -> tuple[str, str]:
        name, replicas = topic(label), [2, 1] if label == "visits" else [1]
        kept = {"retention.ms": "-1", "min.insync.replicas": "1"}
        if label == "visits":
            kept["message.timestamp.type"] = "LogAppendTime"
        wanted = {"assignments": dict.fromkeys(range(partitions), replicas), "configs": kept}
        admin.create_topics({name: wanted}, wait_for_metadata=True)
        return name, read_topic_id(admin, name)

    return make


@pytest.fixture
def stamped(connections: KafkaConnections) -> Iterator[Callable[..., list[int]]]:
    """A function that produces records, acknowledged by the leader or all in-sync replicas; it returns timestamps."""
    with ExitStack() as opened:
        producers = {
            acks: opened.enter_context(
                closing(connections.create_producer(acks=acks, enable_idempotence=acks == "all"))
            )
            for acks in ("all", 1)
        }

        def produce(topic: str, records: int, acks: str | int) -> list[int]:
            sent = [producers[acks].send(topic, value=b"x", partition=0) for _ in range(records)]
            return [future.get(timeout=10).timestamp * 1_000 for future in sent]

        yield produce


def read_watermark(connections: KafkaConnections, topic: str) -> int:
    """Return the high watermark."""
    place = TopicPartition(topic, 0)
    with closing(connections.create_consumer(isolation_level="read_uncommitted")) as consumer:
        return int(consumer.end_offsets([place])[place])


@pytest.mark.promise(5)
def test_end_offset_is_leaders_log_end(
    connections: KafkaConnections,
    make_topic: Callable[..., tuple[str, str]],
    stamped: Callable[..., list[int]],
    replication: Replication,
    eventually: Eventually,
) -> None:
    """
    The end offset is the log end offset of the leader.

    The follower stops after three records, and the leader acknowledges two more.

        offset         0  1  2  3  4
        follower       x  x  x           high watermark 3
        leader         x  x  x  x  x     end offset 5
    """
    name, topic_id = make_topic("visits")
    with closing(InputTopic(connections, name, topic_id, make_topic("ledger"))) as topic:
        stamped(name, 3, "all")
        assert topic.read_end_offsets() == {0: 3}
        replication.close()
        stamped(name, 2, 1)
        assert read_watermark(connections, name) == 3
        assert topic.read_end_offsets() == {0: 5}
        replication.open()
        eventually(lambda: read_watermark(connections, name) == 5, 30)
        assert topic.read_end_offsets() == {0: 5}


@pytest.mark.promise(5)
@pytest.mark.parametrize("comes_back", [False, True])
def test_tick_waits_for_uncopied_records(
    comes_back: bool,
    make_site: Callable[..., Any],
    make_parameters: Callable[..., Parameters],
    make_ledger: Callable[..., LedgerTopic],
    connections: KafkaConnections,
    stamped: Callable[..., list[int]],
    replication: Replication,
    eventually: Eventually,
) -> None:
    """
    A tick waits for a record that was stamped before as_of and not copied to the follower.

        leader      x  x │ as_of
        follower    x    │                            never before the release: unknown, not "safe"
                    x    │         x                  before it: counted
    """
    name_of_two = pack_shard_facts(0, {1: [(b"a" * 16, 0), (b"b" * 16, 0)]})
    now = SystemClock().now()
    parameters = replace(
        make_parameters(grid=SlotGrid(now - HOUR + 8 * SECOND, HOUR)),
        release_delay=(20 if comes_back else 4) * SECOND,
        tolerance=100 * MILLISECOND,
    )
    site = make_site(parameters, SystemClock())
    assert site.release.take_over()
    stamped(site.input_topic, 1, "all")
    site.windows.write([OffsetRange(0, 0, 1)], {})
    replication.close()
    (stamp,) = stamped(site.input_topic, 1, 1)
    assert stamp < parameters.grid.as_of(0)
    assert read_watermark(connections, site.input_topic) == 1
    ticking = threading.Thread(target=lambda: site.tick(0))
    ticking.start()
    if comes_back:
        eventually(lambda: SystemClock().now() > parameters.grid.as_of(0) + SECOND, 20)
        assert ticking.is_alive()
        replication.open()
        eventually(lambda: read_watermark(connections, site.input_topic) == 2, 20)
        site.windows.write([OffsetRange(0, 1, 2)], {0: name_of_two})
    ticking.join(60)
    assert site.statuses() == (["safe", "noisy_count", "safe"] if comes_back else ["unknown"] * 3)

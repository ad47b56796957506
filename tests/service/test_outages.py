"""A broker outage of five seconds loses no tick: all ledger partitions recover in parallel, within the slot."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final

import pytest

from monitor.errors import UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.ledger.append_to_ledger import Writer
from monitor.observe.failpoints import arm, disarm
from monitor.operate.servers import EmbeddedKafka, NodeSettings
from monitor.records.output_records import OutputRecord
from monitor.time.clock import SystemClock
from monitor.time.instants import SECOND
from tests.conftest import Eventually
from tests.kit.network import Forwarder, find_free_ports
from tests.kit.topics import create_topic
from tests.service.running import (
    find_missing_ticks,
    is_decided,
    list_answered_ticks,
    make_real_time,
    read_lost_ticks,
    run_instance,
    statuses,
    wait_next_tick,
)

pytestmark = pytest.mark.long

AWAY_SECONDS: Final = 5
SLOT_SECONDS: Final = 15  # ten seconds are enough on an idle machine


Arm = Callable[[str, Callable[[], None]], None]


class Broker:
    """A Kafka behind a forwarder, so that it can be cut off and reconnected at any second."""

    def __init__(self) -> None:
        (self._port,) = find_free_ports(1)
        self._forwarder = Forwarder(("127.0.0.1", self._port))
        self.bootstrap_servers = f"127.0.0.1:{self._forwarder.port}"
        properties = {"advertised.listeners": f"PLAINTEXT://{self.bootstrap_servers}"}
        self._server = EmbeddedKafka(NodeSettings(properties=properties, port=self._port))
        self._server.start()

    def cut(self) -> None:
        """Cut all connections and refuse new ones."""
        self._forwarder.close()

    def reconnect(self) -> None:
        """Accept connections again."""
        self._forwarder = Forwarder(("127.0.0.1", self._port), self._forwarder.port)

    def hang(self) -> None:
        """Keep connections and answer nothing."""
        self._server.pause()

    def resume(self) -> None:
        """Answer again."""
        self._server.resume()

    def close(self) -> None:
        """Stop the broker."""
        self._server.stop()
        self._forwarder.close()


@pytest.fixture
def armed() -> Iterator[Arm]:
    """`armed("ledger.sent", action)` runs the action at each passing of the failpoint, until the end of the test."""
    names: list[str] = []

    def arm_for_test(name: str, action: Callable[[], None]) -> None:
        names.append(name)
        arm(name, action)

    yield arm_for_test
    for name in names:
        disarm(name)


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    """A broker for this module alone."""
    with closing(Broker()) as broker:
        yield broker


@pytest.mark.promise(40)
@pytest.mark.parametrize(
    ("leave", "come_back"),
    [
        pytest.param(Broker.cut, Broker.reconnect, id="cut"),
        pytest.param(Broker.hang, Broker.resume, id="hanging"),
    ],
)
def test_five_second_outage_loses_no_tick(
    leave: Callable[[Broker], None],
    come_back: Callable[[Broker], None],
    make_town: Callable[..., Any],
    kafka: Broker,
    eventually: Eventually,
    armed: Arm,
) -> None:
    """
    An outage of five seconds, which begins before the answers of two partitions are committed, loses no tick.

        slot      t          │ t + 1                    │ t + 2
        broker    ───────────┼── away 5 s ── back ────────
        ledger    0, 1          ×            t, t
    """
    town = make_town(ledger_partitions=2, inputs=2, **make_real_time(slot=SLOT_SECONDS, release_delay=2))
    town.create()
    gone: list[int] = []

    def go_away() -> None:
        if not gone:
            gone.append(SystemClock().now())
            leave(kafka)
            timer = threading.Timer(AWAY_SECONDS, come_back, [kafka])
            timer.daemon = True
            timer.start()

    with run_instance(town) as metrics:
        tick = wait_next_tick(town, eventually) + 1
        armed("ledger.sent", go_away)
        eventually(lambda: gone, 2 * SLOT_SECONDS)
        eventually(lambda: SystemClock().now() > gone[0] + AWAY_SECONDS * SECOND, 30)
        eventually(lambda: is_decided(town, tick) or SystemClock().now() > town.parameters.grid.as_of(tick + 1), 30)
        assert [find_missing_ticks([*ticks, tick + 1]) for ticks in list_answered_ticks(town).values()] == [[], []]
        assert [read_lost_ticks(metrics, partition) for partition in (0, 1)] == [0, 0]
    assert statuses(town) == {"safe"}


@pytest.mark.parametrize("place", ["ledger.begun", "ledger.sent"])
def test_closed_writer_leaves_no_threads(
    place: str, kafka: Broker, topic: Callable[[str], str], eventually: Eventually, armed: Arm
) -> None:
    """A writer whose append has failed is closed while its broker hangs: its threads end, and it sends nothing more."""
    connections, name = KafkaConnections((kafka.bootstrap_servers,)), topic("ledger")
    create_topic(connections, name)
    before = set(threading.enumerate())

    def is_gone() -> bool:
        return all(thread in before or thread.name == "forwarder" for thread in threading.enumerate())

    writer = Writer(connections, name, name, 0)
    armed(place, kafka.hang)
    try:
        with pytest.raises(UnreachableError):
            writer.append([OutputRecord(b"place", b"answer", (), 0)])
        writer.close()
        eventually(is_gone, 30)
    finally:
        kafka.resume()

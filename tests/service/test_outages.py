"""A broker that is away for five seconds costs no tick: all ledger partitions recover side by side, within the slot."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final

import pytest

from monitor import failpoints
from monitor.public.clock import SystemClock
from monitor.public.instants import SECOND
from monitor.tools.embedded import NodeSettings
from tests.faults.forwarder import Forwarder
from tests.faults.test_connections import ProxiedKafka, free_port
from tests.service.running import begin, changes, decided, missing, next_decided, running, statuses, ticks

Eventually = Callable[..., Any]

AWAY_SECONDS: Final = 5
SLOT_SECONDS: Final = 15  # ten do where nothing else keeps the machine busy


class Broker:
    """A Kafka that clients reach through a forwarder, so that it can be away and come back by the second."""

    def __init__(self) -> None:
        self._port = free_port()
        self._forwarder = Forwarder(("127.0.0.1", self._port))
        self.bootstrap_servers = f"127.0.0.1:{self._forwarder.port}"
        properties = {"advertised.listeners": f"PLAINTEXT://{self.bootstrap_servers}"}
        self._server = ProxiedKafka(NodeSettings(properties=properties, port=self._port))
        self._server.start()

    def cut(self) -> None:
        """Connections are cut, and new ones refused."""
        self._forwarder.close()

    def mend(self) -> None:
        """It can be reached again."""
        self._forwarder = Forwarder(("127.0.0.1", self._port), self._forwarder.port)

    def hang(self) -> None:
        """Connections stay, and nothing is answered."""
        self._server.pause()

    def resume(self) -> None:
        """It answers again."""
        self._server.resume()

    def close(self) -> None:
        """End it."""
        self._server.stop()
        self._forwarder.close()


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    """A broker of this module's own."""
    with closing(Broker()) as made:
        yield made


@pytest.mark.parametrize(
    ("place", "leave", "come_back"),
    [
        pytest.param("tick.released", Broker.cut, Broker.mend, id="cut before answers are sent"),
        pytest.param("ledger.sent", Broker.cut, Broker.mend, id="cut before answers are committed"),
        pytest.param("ledger.sent", Broker.hang, Broker.resume, id="hanging before answers are committed"),
    ],
)
def test_a_broker_that_is_away_for_five_seconds_costs_no_tick(
    place: str,
    leave: Callable[[Broker], None],
    come_back: Callable[[Broker], None],
    make_town: Callable[..., Any],
    kafka: Broker,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    It goes at the worst moment, when two ledger partitions are about to answer; they waited for each other for 30 s.

        slot      t          │ t + 1                    │ t + 2
        broker    ───────────┼── away 5 s ── back ────────
        ledger    0, 1          ×            t, t
    """
    town = make_town(ledger_partitions=2, inputs=2, **changes(slot=SLOT_SECONDS, release_delay=2))
    begin(town)
    gone: list[int] = []

    def go() -> None:
        if not gone:
            gone.append(SystemClock().now())
            leave(kafka)
            timer = threading.Timer(AWAY_SECONDS, come_back, [kafka])
            timer.daemon = True
            timer.start()

    with running(town) as instance:
        tick = next_decided(town, eventually) + 1
        monkeypatch.setitem(failpoints._armed, place, go)
        eventually(lambda: gone, 2 * SLOT_SECONDS)
        eventually(lambda: SystemClock().now() > gone[0] + AWAY_SECONDS * SECOND, 30)
        eventually(lambda: decided(town, tick) or SystemClock().now() > town.parameters.grid.as_of(tick + 1), 30)
        assert [missing([*said, tick + 1]) for said in ticks(town).values()] == [[], []]
        assert [instance.lost(partition) for partition in (0, 1)] == [0, 0]
    assert statuses(town) == {"safe"}

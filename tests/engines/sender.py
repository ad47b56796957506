"""A thread that sends visits during a scenario."""

from __future__ import annotations

import threading
from contextlib import closing

from monitor.kafka.connections import KafkaConnections
from tests.engines.traffic import send_visits

END_SECONDS = 60


class Sender:
    """It sends visits to one place, from its start to its end."""

    def __init__(self, connections: KafkaConnections, topic: str, place: str) -> None:
        self._connections, self._topic, self._place = connections, topic, place
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, name="visits", daemon=True)

    def _send(self) -> None:
        with closing(self._connections.create_producer()) as producer:
            send_visits(producer, self._topic, self._place, self._stop)

    def start(self) -> None:
        """Begin to send. The topic exists."""
        self._thread.start()

    def end(self) -> None:
        """Stop sending, if it began."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(END_SECONDS)

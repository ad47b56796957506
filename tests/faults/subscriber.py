"""A subscriber of a town's answers, as the public may be one."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError

from monitor.errors import MonitorError
from tests.kit.waiting import until

if TYPE_CHECKING:
    from tests.faults.town import FaultTown


class Subscriber:
    """A subscriber that reads uncommitted records, as the public may, and remembers all.

    It reads all partitions, including those added later. `said` contains the distinct bytes by ce_id, `values` the
    answers in the order of arrival.
    """

    def __init__(self, town: FaultTown) -> None:
        self._town = town
        self._stop = threading.Event()
        self.seen: dict[str, set[bytes]] = {}
        self.values: list[dict[str, Any]] = []
        self._statuses: dict[int, set[str]] = {}
        self._thread = threading.Thread(target=self._run, name="subscriber", daemon=True)

    def start(self) -> None:
        """Begin to read. The topic exists."""
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._read()
            except (KafkaError, MonitorError, OSError):
                self._stop.wait(0.3)

    def _read(self) -> None:
        # Use the service's connections, because a consumer that they fail to create leaves no sockets open.
        consumer = self._town.settings.kafka.create_consumer(
            isolation_level="read_uncommitted", auto_offset_reset="earliest", metadata_max_age_ms=1_000
        )
        try:
            consumer.subscribe([self._town.topics.alerts])
            while not self._stop.is_set():
                for records in consumer.poll(timeout_ms=100).values():
                    for record in records:
                        self._note(record)
        finally:
            consumer.close(autocommit=False)

    def _note(self, record: Any) -> None:
        headers = dict(record.headers)
        ce_id = headers["ce_id"].decode()
        written = json.dumps([record.key.decode(), record.value.decode(), sorted(map(str, record.headers))]).encode()
        known = self.seen.setdefault(ce_id, set())
        if written not in known:
            known.add(written)
            value = json.loads(record.value)
            if "tick" in value and value.get("kind") != "checkpoint":
                self.values.append(value)
                # An owner record has a tick without a status, if the tick had nothing to answer.
                self._statuses.setdefault(value["tick"], set()).update(filter(None, [value.get("status")]))

    @property
    def last_tick(self) -> int:
        """The latest answered tick."""
        return max(list(self._statuses), default=-1)

    def wait_tick(self, above: int, seconds: float = 30.0) -> int:
        """Wait for an answer about a tick above a given one, and return the latest tick."""
        return until(lambda: tick if (tick := self.last_tick) > above else 0, seconds, f"an answer above tick {above}")

    def wait_new(self, seconds: float = 30.0) -> int:
        """Wait for an answer about a tick that closes from now on, and return the latest tick."""
        return self.wait_tick(self._town.now() - 1, seconds)

    def wait_complete(self, seconds: float = 40.0) -> int:
        """Wait until a tick that closes from now on has no "unknown", and return this tick."""
        since = self._town.now()

        def find_complete_tick() -> int:
            ticks = sorted(tick for tick in list(self._statuses) if tick >= since)
            return next((tick for tick in ticks if self._statuses[tick] and "unknown" not in self._statuses[tick]), 0)

        return until(find_complete_tick, seconds, f"answers from tick {since} on without any unknown")

    def is_complete(self) -> bool:
        """Return whether the ticks of the last two slots have answers and no "unknown"."""
        recent = [tick for tick in list(self._statuses) if tick >= self._town.now() - 2]
        return bool(recent) and all("unknown" not in self._statuses[tick] for tick in recent)

    def statuses(self, monitor: str, since: int = 0) -> dict[tuple[str, int], str]:
        """Return the statuses of an over_time monitor by (location, tick), from tick `since` on."""
        return {
            (value["location_id"], value["tick"]): value["status"]
            for value in list(self.values)
            if value["monitor"] == monitor and value["tick"] >= since
        }

    def stop(self) -> None:
        """Stop reading, if it began."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(20)

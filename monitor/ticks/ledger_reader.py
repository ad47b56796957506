"""Read partitions of the ledger. Each read adds the new records to their states."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Mapping

from monitor.contracts.parameters import Parameters
from monitor.errors import MonitorError
from monitor.kafka.connections import KafkaConnections
from monitor.ticks.ledger import read_partitions
from monitor.ticks.state import LedgerState, Spent


class LedgerReader:
    """The states of ledger partitions as of the last read. Thread-safe.

    Args:
        connections: the connections to Kafka.
        parameters: the parameters of the service.
        topic: the ledger's topic.
        partitions: the numbers of the partitions to read.
        now: returns the present instant. With a clock that is ahead, expired answers would be dated too late.
    """

    def __init__(
        self,
        connections: KafkaConnections,
        parameters: Parameters,
        topic: str,
        partitions: Iterable[int],
        now: Callable[[], int],
    ) -> None:
        self._connections, self._parameters, self._topic, self._now = connections, parameters, topic, now
        self._states = {partition: LedgerState() for partition in partitions}
        self._offsets = dict.fromkeys(self._states, 0)
        self._lock = threading.Lock()
        self._order = itertools.count()
        self._started = -1
        self._failure: MonitorError | None = None

    @property
    def states(self) -> tuple[LedgerState, ...]:
        """The states, in order of partitions. Later reads change them."""
        return tuple(self._states.values())

    def get_state(self, partition: int) -> LedgerState:
        """Return the state of a partition. Later reads change it."""
        return self._states[partition]

    def refresh(self) -> None:
        """Read all partitions to their ends, including every record acknowledged before this call.

        If another thread starts a read after this call has begun, this call shares the result of that read.

        Raises:
            UnreachableError: the brokers fail.
            LedgerError: a record cannot be read.
        """
        called = next(self._order)
        with self._lock:
            if self._started < called:
                self._started, self._failure = next(self._order), None
                try:
                    self._read(self._offsets, {})
                except MonitorError as error:
                    self._failure = error
            if self._failure is not None:
                raise self._failure

    def read_to(self, partition: int, until: int) -> None:
        """Read one partition up to an offset."""
        with self._lock:
            self._read({partition: self._offsets[partition]}, {partition: until})

    def _read(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> None:
        grid, now = self._parameters.grid, self._now() + self._parameters.tolerance
        for partition, offset, record in read_partitions(self._connections, self._topic, dict(starts), ends):
            self._states[partition].read(offset, record, grid, now)
            self._offsets[partition] = offset + 1

    def forget(self, tick: int) -> None:
        """Drop marks and times that no period can contain any more. `tick` must come from a clock that is not ahead."""
        grid = self._parameters.grid
        oldest = grid.as_of(tick) - (self._parameters.longest_horizon + 1) * grid.length
        with self._lock:
            for state in self._states.values():
                state.forget(tick, self._parameters.mark_lifetime, oldest, self._parameters.memory_slots)

    def read_spent(self, partitions: int) -> dict[int, Spent]:
        """Return the spent ε of each of the first `partitions` partitions."""
        with self._lock:
            return {partition: self._states[partition].summarize_spent() for partition in range(partitions)}

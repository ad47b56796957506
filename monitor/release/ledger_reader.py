"""All partitions of the ledger, read side by side without taking them over; each reading takes in what is new."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping

from monitor.brokers.connections import KafkaConnections
from monitor.errors import MonitorError
from monitor.public.parameters import Parameters
from monitor.release.ledger import read_partitions
from monitor.release.state import LedgerState, OwnerTerms, Spent


class LedgerReader:
    """The state of each partition, as it was last read. Used by several threads at once.

    Args:
        connections: how to talk to Kafka.
        parameters: what is watched.
        topic: the ledger.
        partitions: how many the topic has.
        now: the present instant; by a clock that is ahead, what has expired counts as answered later than it was.
    """

    def __init__(
        self, connections: KafkaConnections, parameters: Parameters, topic: str, partitions: int, now: Callable[[], int]
    ) -> None:
        self._connections, self._parameters, self._topic, self._now = connections, parameters, topic, now
        self._states = [LedgerState() for _ in range(partitions)]
        self._next = [0] * partitions
        self._lock = threading.Lock()
        self._order = itertools.count()
        self._begun = -1
        self._failed: MonitorError | None = None

    @property
    def states(self) -> tuple[LedgerState, ...]:
        """The states, which a later reading changes."""
        return tuple(self._states)

    def refresh(self) -> None:
        """Read all partitions to their ends: all that was acknowledged before this was called is taken in.

        A reading that another thread began since serves this one as well.

        Raises:
            UnreachableError: the brokers fail.
            LedgerError: a record cannot be read.
        """
        asked = next(self._order)
        with self._lock:
            if self._begun < asked:
                self._begun, self._failed = next(self._order), None
                try:
                    self._read(dict(enumerate(self._next)), {})
                except MonitorError as error:
                    self._failed = error
            if self._failed is not None:
                raise self._failed

    def read_to(self, partition: int, until: int) -> OwnerTerms | None:
        """Read one partition up to an offset, and give what its owner records carry."""
        with self._lock:
            self._read({partition: self._next[partition]}, {partition: until})
            return self._states[partition].terms

    def _read(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> None:
        grid, now = self._parameters.grid, self._now() + self._parameters.tolerance
        for partition, offset, record in read_partitions(self._connections, self._topic, starts, ends):
            self._states[partition].read(offset, record, grid, now)
            self._next[partition] = offset + 1

    def forget(self, tick: int) -> None:
        """Drop what no period can hold any more; `tick` by a clock that is not ahead."""
        grid = self._parameters.grid
        oldest = grid.as_of(tick) - (self._parameters.longest_horizon + 1) * grid.length
        with self._lock:
            for state in self._states:
                state.forget(tick, self._parameters.mark_lifetime, oldest, self._parameters.memory_slots)

    def spent(self, partitions: int) -> dict[int, Spent]:
        """What the first so many partitions tell of what was spent."""
        with self._lock:
            return {partition: self._states[partition].spent() for partition in range(partitions)}

    def terms(self, partition: int) -> OwnerTerms | None:
        """What a partition's owner records carry."""
        with self._lock:
            return self._states[partition].terms

"""Read the memory of Redis once a minute for the metrics, on a separate thread, so that no tick waits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from monitor.errors import UnreachableError, WindowsError
from monitor.store.memory_usage import MemoryProbe

log = logging.getLogger(__name__)

EVERY_SECONDS: Final = 60.0


class MemoryObserver(Protocol):
    """The metrics of memory."""

    def set_redis_memory(self, servers: Mapping[str, tuple[int, int]], keys: float | None) -> None:
        """Set the memory of Redis, and remove what is not known."""


class MemoryWatch:
    """A repeated look at the memory of Redis, for one thread. `monotonic` returns seconds.

    `open_probe` is called at the first look, and again until it succeeds.
    """

    def __init__(
        self, open_probe: Callable[[], MemoryProbe], observer: MemoryObserver, monotonic: Callable[[], float]
    ) -> None:
        self._open_probe, self._observer, self._monotonic = open_probe, observer, monotonic
        self._probe: MemoryProbe | None = None
        self._due = monotonic()
        self._may_measure = True

    def look(self) -> bool:
        """Read the memory if this is due, and return whether it was. Without an answer, the values are removed."""
        if self._monotonic() < self._due:
            return False
        self._due = self._monotonic() + EVERY_SECONDS
        try:
            self._probe = probe = self._probe or self._open_probe()
            servers = {name: (server.used, server.limit) for name, server in probe.read_servers().items()}
            keys = self._estimate_keys(probe)
        except (UnreachableError, WindowsError) as error:
            log.debug("the memory of Redis cannot be read now: %s", error)
            servers, keys = {}, None
        self._observer.set_redis_memory(servers, keys)
        return True

    def _estimate_keys(self, probe: MemoryProbe) -> float | None:
        """Return the bytes of the keys; None without the permission. After one refusal, they are not read again."""
        if not self._may_measure:
            return None
        try:
            return probe.estimate_keys()
        except WindowsError as error:
            self._may_measure = False
            log.info("the memory of this service's keys in Redis is not measured: %s", error)
            return None

    def close(self) -> None:
        """Remove the values, and close the connections."""
        self._observer.set_redis_memory({}, None)
        if self._probe is not None:
            self._probe.close()

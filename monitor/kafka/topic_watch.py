"""Repeated checks of the topics' settings, because someone may change them while the service runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from monitor.errors import UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.topics import TopicNeeds, check_existing_topics

log = logging.getLogger(__name__)


class TopicWatch:
    """A check of the topics' settings every `every_seconds`, for one thread. `monotonic` returns seconds.

    The check does not report a missing topic, which the components that read or write it notice and handle.
    """

    def __init__(
        self,
        connections: KafkaConnections,
        wanted: Sequence[TopicNeeds],
        every_seconds: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._connections = connections
        self._wanted = tuple(wanted)
        self._every = every_seconds
        self._monotonic = monotonic
        self._checked_at = monotonic()

    def look(self) -> bool:
        """Check the settings if a check is due; return whether they were read and suffice.

        If Kafka does not answer, the next check takes place at the usual time.

        Raises:
            TopicError: lists every setting that no longer suffices, and how to correct it.
        """
        if self._monotonic() - self._checked_at < self._every:
            return False
        self._checked_at = self._monotonic()
        try:
            check_existing_topics(self._connections, self._wanted)
        except UnreachableError as error:
            log.info("the settings of the topics cannot be checked now: %s", error)
            return False
        return True
